"""What the numbers of the suite mean."""

from __future__ import annotations

from verism.specs import SHARE, MetricSpec, Scale

__all__ = ["METRICS", "SCORE", "SCORERS", "scorer_title"]

SCORE = Scale("score")
ROLE = ("scorer",)

# By regular expression of a judge's name: the scale its scores are on. Two of them never share a title.
SCORERS = {
    r"pickscore:.*|results:.* scorer=PickScore.*": "PickScore",
    r"hpsv2\.1:.*|results:.* scorer=HPS ?v2\.1.*": "HPS v2.1",
    r"hpsv2:.*|results:.* scorer=HPS ?v2(\.0)?": "HPS v2.0",
    r"hpsv3:.*|results:.* scorer=HPS ?v3.*": "HPSv3",
    r"imagereward:.*|results:.* scorer=ImageReward.*": "ImageReward",
    r"truth": "known quality",
}


def scorer_title(judge: str) -> str:
    """What the scores of a judge are called; its own name where it is none of those known.

    Args:
        judge: full name.

    >>> scorer_title("pickscore:PickScore_v1@0123"), scorer_title("results:a.csv@01 scorer=mine")
    ('PickScore', 'mine')
    """
    title = METRICS[0].title_with(judge)
    return title if title != METRICS[0].title else judge.partition(" scorer=")[2] or judge.partition("@")[0]


METRICS = (
    MetricSpec(
        "preference_score",
        title="preference score",
        meaning="Mean over prompts of the mean score of their images, on the scorer's own scale. Compare it only "
        "with other models on the same prompts by the same scorer.",
        scale=SCORE,
        better="higher",
        headline=True,
        compare="paired",
        judges=ROLE,
        source="Kirstain et al. 2023, arXiv:2305.01569; Wu et al. 2023, arXiv:2306.09341; Xu et al. 2023, "
        "arXiv:2304.05977; Ma et al. 2025, arXiv:2508.03789",
        title_by_judge=SCORERS,
    ),
    MetricSpec(
        "score_over_groups",
        title="mean over groups",
        meaning="Unweighted mean of the groups' scores, as HPSv3's released code computes its overall score.",
        scale=SCORE,
        better="higher",
        compare="never",
        judges=ROLE,
        source="Ma et al. 2025, arXiv:2508.03789, released code",
    ),
    MetricSpec(
        "win_rate",
        title="win rate",
        meaning="How often an image of the set gets a higher score than one of the other set for the same prompt; "
        "equal scores count half. Mean over prompts.",
        scale=SHARE,
        better="higher",
        headline=True,
        compare="never",
        judges=ROLE,
        source="Kirstain et al. 2023, arXiv:2305.01569, Sec. 4",
    ),
    MetricSpec(
        "tie_rate",
        title="ties",
        meaning="How often two images of a prompt get scores that differ by no more than the margin.",
        scale=SHARE,
        better=None,
        compare="never",
        judges=ROLE,
        source="derived from the same comparisons",
    ),
    MetricSpec(
        "score_difference",
        title="difference of scores",
        meaning="Mean over prompts of the score of the set's images less that of the other set's.",
        scale=SCORE,
        better="higher",
        compare="never",
        judges=ROLE,
        source="derived from the scores",
    ),
    MetricSpec(
        "compared",
        title="prompts compared",
        meaning="Share of prompts in which at least one comparison of both sets could be made.",
        scale=SHARE,
        better=None,
        compare="never",
        judges=ROLE,
        source="counted",
    ),
    MetricSpec(
        "scored",
        title="images with a score",
        meaning="Share of the requested images that exist and have a score.",
        scale=SHARE,
        better="higher",
        compare="independent",
        judges=ROLE,
        source="counted",
    ),
)
