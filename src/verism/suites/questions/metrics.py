"""The metrics that suites of questions share."""

from __future__ import annotations

from verism.suites.base import SHARE, MetricSpec

__all__ = ["question_metrics"]

VQA = ("vqa",)
ANSWERED = "answered"


def question_metrics(headline: str, *, title: str, source: str) -> tuple[MetricSpec, ...]:
    """The metrics of a suite of questions.

    Args:
        headline: name of its main number.
        title: how tables write that.
        source: paper and code it comes from.
    """
    return (
        MetricSpec(
            headline,
            title=title,
            meaning="Mean over prompts of the mean over their images of the share of questions answered as expected, a "
            "question counting as the dependency rule says; or over all questions at once, as the switches say.",
            scale=SHARE,
            better="higher",
            headline=True,
            source=source,
            compare="paired",
            judges=VQA,
            coverage=ANSWERED,
        ),
        MetricSpec(
            f"{headline}_if_unusable_wrong",
            title=f"{title}, missing answers wrong",
            meaning="The score with missing images and unusable answers counted as wrong: a lower bound.",
            scale=SHARE,
            better="higher",
            source="bound of the score",
            compare="never",
            judges=VQA,
        ),
        MetricSpec(
            f"{headline}_alone",
            title=f"{title}, each question alone",
            meaning="The score without dependency between questions.",
            scale=SHARE,
            better="higher",
            source="Cho et al. 2024, arXiv:2310.18235",
            judges=VQA,
            coverage=ANSWERED,
        ),
        MetricSpec(
            "category_score",
            title="questions right",
            meaning="Share of the questions of a category answered as expected, before any dependency rule; it counts "
            "answers, not images.",
            scale=SHARE,
            better="higher",
            source=source,
            judges=VQA,
        ),
        MetricSpec(
            "category_score_gated",
            title="questions right, with dependencies",
            meaning="Share of the questions of a category answered as expected, after the dependency rule.",
            scale=SHARE,
            better="higher",
            source="derived; variants of the released code print it as the category score",
            judges=VQA,
        ),
        MetricSpec(
            ANSWERED,
            title="questions answered",
            meaning="Share of the questions about all requested images with a usable answer.",
            scale=SHARE,
            better=None,
            source="coverage of the judge's answers",
            compare="never",
            judges=VQA,
        ),
        MetricSpec(
            "true_score",
            title=f"true {title}",
            meaning="The score by the ground truth of rendered scenes, under the revised switches.",
            scale=SHARE,
            better="higher",
            source="the revised switches, applied to the ground truth",
            compare="never",
            judges=VQA,
        ),
        MetricSpec(
            "judge_false_yes",
            title="wrong taken for right",
            meaning="Of the questions that the image does not satisfy, the share that the judge accepts.",
            scale=SHARE,
            better="lower",
            source="answers held against the ground truth, question by question",
            compare="never",
            judges=VQA,
        ),
        MetricSpec(
            "judge_false_no",
            title="right taken for wrong",
            meaning="Of the questions that the image satisfies, the share that the judge rejects.",
            scale=SHARE,
            better="lower",
            source="answers held against the ground truth, question by question",
            compare="never",
            judges=VQA,
        ),
    )
