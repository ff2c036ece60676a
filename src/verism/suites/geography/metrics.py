"""Every number of the geography suites: what it means, and where it comes from."""

from __future__ import annotations

from dataclasses import replace

from verism.suites.base import COSINE, COUNT, PROBABILITY, RATIO, SHARE, MetricSpec

__all__ = ["METRICS"]

FEATURES, CLIP = ("features",), ("clip",)
HALL = "Hall et al. 2023, arXiv:2308.06198"

PRECISION = MetricSpec(
    "precision",
    title="precision",
    meaning="Share of images inside the manifold of real ones: realism.",
    scale=SHARE,
    better="higher",
    source=f"{HALL}, section 3.1; Kynkaanniemi et al. 2019, arXiv:1904.06991",
    compare="paired",
    judges=FEATURES,
    against_real=True,
    depends_on_n=True,
)
RECALL = MetricSpec(
    "recall",
    title="recall",
    meaning="Share of real images inside the manifold of generated ones.",
    scale=SHARE,
    better="higher",
    source="Kynkaanniemi et al. 2019, arXiv:1904.06991",
    judges=FEATURES,
    against_real=True,
    counts_real=True,
    depends_on_n=True,
)
DENSITY = MetricSpec(
    "density",
    title="density",
    meaning="Mean number of neighbourhoods of real images that an image is in, divided by k; 1 for equal "
    "distributions.",
    scale=RATIO,
    better="higher",
    source="Naeem et al. 2020, arXiv:2002.09797, eq. 5",
    judges=FEATURES,
    against_real=True,
    depends_on_n=True,
)
COVERAGE = MetricSpec(
    "coverage",
    title="coverage",
    meaning="Share of real images whose neighbourhood contains a generated image: diversity.",
    scale=SHARE,
    better="higher",
    source=f"{HALL}, section 3.1; Naeem et al. 2020, arXiv:2002.09797, eq. 6",
    baseline="expected_coverage",
    judges=FEATURES,
    against_real=True,
    counts_real=True,
    depends_on_n=True,
)
CONSISTENCY = MetricSpec(
    "consistency",
    title="consistency",
    meaning="10th percentile of the cosines of images with their object's name, mean over objects.",
    scale=COSINE,
    better="higher",
    headline=True,
    source=f"{HALL}, section 4.4",
    judges=CLIP,
    depends_on_n=True,
    n_tolerance=0.1,  # the bias of a lowest tenth falls with the root of the number of images
)


def _by_region(spec: MetricSpec) -> tuple[MetricSpec, ...]:
    """What is derived from the values of a metric in every region."""
    source = "from the values of all regions"
    return (
        replace(
            spec,
            name=f"{spec.name}_mean",
            title=f"{spec.title}, mean of regions",
            meaning="Unweighted mean over the regions.",
            source=source,
            compare="independent",
            headline=spec.name != "consistency",
            baseline="",
        ),
        replace(
            spec,
            name=f"{spec.name}_worst",
            title=f"{spec.title}, worst region",
            meaning="Value of the lowest region, which is named beside it.",
            finds_group=True,
            baseline="",
            source=source,
            compare="independent",
            headline=False,
        ),
        MetricSpec(
            f"{spec.name}_gap",
            title=f"{spec.title}, gap",
            meaning="Best minus worst region.",
            scale=spec.scale,
            better="lower",
            source=source,
            headline=spec.name != "consistency",
            judges=spec.judges,
            against_real=spec.against_real,
            counts_real=spec.counts_real,
            depends_on_n=True,
            n_tolerance=spec.n_tolerance,
        ),
        MetricSpec(
            f"{spec.name}_gap_by_chance",
            title=f"{spec.title}, gap by chance",
            meaning="Expected gap if all regions were equal.",
            scale=spec.scale,
            better=None,
            source=source,
            compare="never",
            judges=spec.judges,
        ),
        MetricSpec(
            f"{spec.name}_gap_p_value",
            title=f"{spec.title}, gap, p-value",
            meaning="Probability of a gap this large if all regions are equal.",
            scale=PROBABILITY,
            better=None,
            source=source,
            compare="never",
            judges=spec.judges,
        ),
        MetricSpec(
            f"{spec.name}_ratio",
            title=f"{spec.title}, worst to best",
            meaning="Worst region divided by the best.",
            scale=RATIO,
            better="higher",
            source=source,
            judges=spec.judges,
            against_real=spec.against_real,
            counts_real=spec.counts_real,
            depends_on_n=True,
            n_tolerance=spec.n_tolerance,
        ),
    )


def _mean_of_objects(spec: MetricSpec) -> MetricSpec:
    return replace(
        spec,
        name=f"object_region_{spec.name}",
        title=f"{spec.title}, mean of objects",
        meaning=f"{spec.meaning} Measured for each object by itself.",
        compare="independent",
        baseline="",
    )


METRICS = (
    PRECISION,
    RECALL,
    DENSITY,
    COVERAGE,
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
    MetricSpec(
        "generated_per_real",
        title="generated per real",
        meaning="Ratio of the sizes of the compared sets; coverage depends on it.",
        scale=RATIO,
        better=None,
        source="counts",
        compare="never",
        judges=FEATURES,
    ),
    _mean_of_objects(PRECISION),
    *_by_region(PRECISION),
    _mean_of_objects(COVERAGE),
    *_by_region(COVERAGE),
    MetricSpec(
        "pictures_per_cell",
        title="images per cell",
        meaning="Images sampled for each object in each region.",
        scale=COUNT,
        better=None,
        source="counts",
        compare="never",
    ),
    MetricSpec(
        "duplicates_left_out",
        title="duplicates left out",
        meaning="Images whose features equal those of another.",
        scale=COUNT,
        better=None,
        source="counts",
        compare="never",
        judges=FEATURES,
    ),
    CONSISTENCY,
    replace(
        CONSISTENCY,
        name="consistency_prompt",
        title="consistency with prompt",
        meaning="The same with the whole prompt in place of the object's name.",
        source=f"{HALL}, eq. 3",
        headline=False,
    ),
    *_by_region(CONSISTENCY),
    *(replace(spec, headline=False) for spec in _by_region(replace(CONSISTENCY, name="consistency_prompt"))),
    MetricSpec(
        "mean_similarity",
        title="mean cosine with the object",
        meaning="Mean cosine of images with the name of their object; only in comparisons, where it is paired.",
        scale=COSINE,
        better="higher",
        source="the cosines behind consistency",
        compare="paired",
        judges=CLIP,
    ),
)
