"""Every number of the quality suite: what it means, and where it comes from."""

from __future__ import annotations

from verism.suites.base import DISTANCE, RATIO, SHARE, MetricSpec, Scale

__all__ = ["METRICS"]

NAEEM = "Naeem et al. 2020, arXiv:2002.09797"
KYNKAANNIEMI = "Kynkaanniemi et al. 2019, arXiv:1904.06991"

METRICS = (
    MetricSpec(
        "fid",
        title="FID",
        meaning="Fréchet distance between normal distributions fitted to the features of both sets.",
        scale=DISTANCE,
        better="lower",
        headline=True,
        source="Heusel et al. 2017, arXiv:1706.08500, eq. 6",
    ),
    MetricSpec(
        "fid_infinity",
        title="FID, extrapolated",
        meaning="The FID that any number of images would approach.",
        scale=DISTANCE,
        better="lower",
        source="Chong & Forsyth 2020, arXiv:1911.07023",
    ),
    MetricSpec(
        "kid",
        title="KID",
        meaning="Squared distance of the features of both sets by a polynomial kernel, without bias; may be below 0.",
        scale=Scale("distance", None, None, "distance"),
        better="lower",
        headline=True,
        source="Binkowski et al. 2018, arXiv:1801.01401, section 4",
    ),
    MetricSpec(
        "precision",
        title="precision",
        meaning="Share of images that lie within the manifold of real ones: realism.",
        scale=SHARE,
        better="higher",
        headline=True,
        source=KYNKAANNIEMI,
        compare="paired",
    ),
    MetricSpec(
        "recall",
        title="recall",
        meaning="Share of real images that lie within the manifold of generated ones.",
        scale=SHARE,
        better="higher",
        source=KYNKAANNIEMI,
    ),
    MetricSpec(
        "density",
        title="density",
        meaning="In how many neighbourhoods of real images an image lies, divided by k; 1 for equal distributions.",
        scale=RATIO,
        better="higher",
        source=f"{NAEEM}, eq. 5",
    ),
    MetricSpec(
        "coverage",
        title="coverage",
        meaning="Share of real images with a generated one in their neighbourhood: diversity.",
        scale=SHARE,
        better="higher",
        headline=True,
        source=f"{NAEEM}, eq. 6",
        baseline="expected_coverage",
    ),
    MetricSpec(
        "expected_coverage",
        title="expected coverage",
        meaning="The coverage that equal distributions would get with sets of these sizes.",
        scale=SHARE,
        better=None,
        source="exact expectation over random splits of one set",
        compare="never",
    ),
    MetricSpec(
        "inception_score",
        title="Inception score",
        meaning="How sure a classifier is of each image, and how its answers vary over images.",
        scale=Scale("classes", 1.0, None, "classes"),
        better="higher",
        source="Salimans et al. 2016, arXiv:1606.03498, section 4",
    ),
)
