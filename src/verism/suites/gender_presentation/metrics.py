"""Every number of the suite of gender presentation differences: what it means, and where it comes from."""

from __future__ import annotations

from verism.suites.base import COSINE, PROBABILITY, SHARE, MetricSpec, Pairing, Scale

__all__ = ["METRICS", "PAIRINGS"]

ZHANG = "Zhang et al. 2023, arXiv:2302.03675"
# What few images add to a mean absolute difference falls with the root of their number.
N_TOLERANCE = 0.1
X100 = Scale("x100", -100.0, 100.0, "100 × cosine")
CORRELATION = Scale("correlation", -1.0, 1.0)


def _score(name: str, title: str, meaning: str, *, headline: bool = False) -> tuple[MetricSpec, ...]:
    """A length of the vector of differences, and what belongs to it."""
    return (
        MetricSpec(
            name,
            title=title,
            meaning=meaning,
            scale=None,
            better="lower",
            headline=headline,
            source=f"{ZHANG}, section 3.3",
            baseline=f"{name}_by_chance",
            depends_on_n=True,
            n_tolerance=N_TOLERANCE,
        ),
        MetricSpec(
            f"{name}_debiased",
            title=f"{title}, debiased",
            meaning="The score without the bias of a finite number of images.",
            scale=None,
            better="lower",
            source="bootstrap estimate of the bias",
        ),
        MetricSpec(
            f"{name}_by_chance",
            title=f"{title}, by chance",
            meaning="Expected score with groups exchanged at random, that of a model without differences.",
            scale=None,
            better=None,
            source="permutations of the groups within prompts",
            compare="never",
        ),
        MetricSpec(
            f"{name}_p_value",
            title=f"{title}, p-value",
            meaning="Probability of a score this large for a model without differences.",
            scale=PROBABILITY,
            better=None,
            source="permutations of the groups within prompts",
            compare="never",
        ),
    )


def _agreement(name: str, title: str, meaning: str, scale: Scale, source: str) -> MetricSpec:
    return MetricSpec(name, title=title, meaning=meaning, scale=scale, better="higher", source=source, compare="never")


METRICS = (
    MetricSpec(
        "frequency",
        title="frequency",
        meaning="Mean value of an estimator for an attribute: a share of images (human, VQA), a degree (CLS), or a "
        "cosine (C, CC).",
        scale=None,
        better=None,
        source=f"{ZHANG}, section 3.2",
        compare="paired",
    ),
    MetricSpec(
        "gep",
        title="difference",
        meaning="Frequency in images of the first term minus that of the second, attribute by attribute.",
        scale=None,
        better=None,
        source=f"{ZHANG}, eq. 1",
    ),
    MetricSpec(
        "gep_p_value",
        title="p-value of a difference",
        meaning="Probability of a difference this large without any, Holm-adjusted over the attributes.",
        scale=PROBABILITY,
        better=None,
        source="permutations of the groups within prompts, Holm",
        compare="never",
    ),
    *_score("gep_score", "GEP score", "Mean absolute difference over the attributes.", headline=True),
    *_score(
        "gep_largest_gap",
        "largest gap",
        "Of more than two terms: the mean over attributes of the difference between those that differ most.",
    ),
    MetricSpec(
        "clipscore",
        title="CLIPScore",
        meaning="100 times the cosine of an image with its prompt.",
        scale=X100,
        better="higher",
        source=f"{ZHANG}, Table 3; Hessel et al. 2021, arXiv:2104.08718",
        compare="paired",
    ),
    _agreement(
        "judge_tau",
        "Kendall's τ-b of vectors",
        "Agreement of an estimator and annotators on the order of the differences.",
        CORRELATION,
        f"{ZHANG}, Table 6",
    ),
    _agreement(
        "judge_mcc",
        "MCC of signs",
        "Agreement of an estimator and annotators on the signs of the differences.",
        CORRELATION,
        f"{ZHANG}, section 4",
    ),
    _agreement(
        "judge_pearson",
        "Pearson's r of vectors",
        "Linear correlation of an estimator's differences with those of annotators.",
        CORRELATION,
        f"{ZHANG}, Table 19",
    ),
    _agreement(
        "judge_auc",
        "AUC, mean of attributes",
        "Probability that an estimator ranks an image with the attribute above one without.",
        SHARE,
        f"{ZHANG}, Tables 7 and 16",
    ),
)

BY_ATTRIBUTE = ("estimator", "attribute")
PAIRINGS = (
    *(
        Pairing(rule=rule, metric="frequency", key=BY_ATTRIBUTE, split=("setting", "gender"), scale=scale)
        for rule, scale in (
            ("human", SHARE),
            ("CLS", SHARE),
            ("VQA", SHARE),
            ("CC", COSINE),
            ("C", COSINE),
        )
    ),
    Pairing(rule="clipscore", metric="clipscore", split=("setting",), scale=X100),
)
