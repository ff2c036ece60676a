"""Every number of the quality suite: what it means, and where it comes from."""

from __future__ import annotations

from verism.suites.base import DISTANCE, RATIO, SHARE, MetricSpec, Scale

__all__ = ["METRICS"]

NAEEM = "Naeem et al. 2020, arXiv:2002.09797"
KYNKAANNIEMI = "Kynkaanniemi et al. 2019, arXiv:1904.06991"
# The features that the names FID and KID belong to: the last pooling of the network that the FID was published with.
FID_FEATURES = r"fid-inception@\S+( preprocessing=\S+)?( dtype=\S+)?"
FEATURES = ("features",)
ENOUGH_FOR_KID = 1000  # size of the subsets that it was published with; it has no bias, but few images say little

METRICS = (
    MetricSpec(
        "fid",
        title="Fréchet distance",
        meaning="Distance between normal distributions fitted to the features of both sets; the FID with the "
        "features of its network.",
        scale=DISTANCE,
        better="lower",
        headline=True,
        source="Heusel et al. 2017, arXiv:1706.08500, eq. 6",
        judges=FEATURES,
        against_real=True,
        depends_on_n=True,
        title_by_judge={FID_FEATURES: "FID"},
    ),
    MetricSpec(
        "fid_infinity",
        title="Fréchet distance, extrapolated",
        meaning="Distance extrapolated to infinitely many images.",
        scale=DISTANCE,
        better="lower",
        source="Chong & Forsyth 2020, arXiv:1911.07023",
        judges=FEATURES,
        against_real=True,
        title_by_judge={FID_FEATURES: "FID, extrapolated"},
    ),
    MetricSpec(
        "kid",
        title="Kernel distance",
        meaning="Unbiased squared distance of the features of both sets by a polynomial kernel, which may be "
        "negative; the KID with the features of the FID's network.",
        scale=Scale("distance", None, None, "distance"),
        better="lower",
        headline=True,
        source="Binkowski et al. 2018, arXiv:1801.01401, section 4",
        judges=FEATURES,
        against_real=True,
        depends_on_n=True,
        n_enough=ENOUGH_FOR_KID,
        title_by_judge={FID_FEATURES: "KID"},
    ),
    MetricSpec(
        "precision",
        title="precision",
        meaning="Share of images inside the manifold of real ones: realism.",
        scale=SHARE,
        better="higher",
        headline=True,
        source=KYNKAANNIEMI,
        compare="paired",
        judges=FEATURES,
        against_real=True,
        depends_on_n=True,
    ),
    MetricSpec(
        "recall",
        title="recall",
        meaning="Share of real images inside the manifold of generated ones.",
        scale=SHARE,
        better="higher",
        source=KYNKAANNIEMI,
        judges=FEATURES,
        against_real=True,
        counts_real=True,
        depends_on_n=True,
    ),
    MetricSpec(
        "density",
        title="density",
        meaning="Mean number of neighbourhoods of real images that an image is in, divided by k; 1 for equal "
        "distributions.",
        scale=RATIO,
        better="higher",
        source=f"{NAEEM}, eq. 5",
        judges=FEATURES,
        against_real=True,
        depends_on_n=True,
    ),
    MetricSpec(
        "coverage",
        title="coverage",
        meaning="Share of real images whose neighbourhood contains a generated image: diversity.",
        scale=SHARE,
        better="higher",
        headline=True,
        source=f"{NAEEM}, eq. 6",
        baseline="expected_coverage",
        judges=FEATURES,
        against_real=True,
        counts_real=True,
        depends_on_n=True,
    ),
    MetricSpec(
        "expected_coverage",
        title="expected coverage",
        meaning="Expected coverage of sets of these sizes from equal distributions.",
        scale=SHARE,
        better=None,
        source="exact expectation over random splits of one set",
        compare="never",
        judges=FEATURES,
        against_real=True,
        counts_real=True,
        depends_on_n=True,
    ),
    MetricSpec(
        "inception_score",
        title="Inception score",
        meaning="Confidence of a classifier for each image, and diversity of its classes over images.",
        scale=Scale("classes", 1.0, None, "classes"),
        better="higher",
        source="Salimans et al. 2016, arXiv:1606.03498, section 4",
        judges=FEATURES,
        depends_on_n=True,
    ),
    MetricSpec(
        "approximation_error",
        title="error of approximate neighbours",
        meaning="How far a number by approximate neighbours may lie from the exact one: mean difference of a sample "
        "whose neighbours are searched everywhere, plus 1.96 standard errors.",
        scale=None,  # that of the number
        better="lower",
        source="computed exactly for 256 images of either side",
        judges=FEATURES,
        compare="never",
    ),
)
