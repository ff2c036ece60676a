"""Every number of GenEval: what it means, and where it comes from."""

from __future__ import annotations

from verism.suites.base import JUDGE_ERROR_METRICS, SHARE, MetricSpec

__all__ = ["METRICS"]

PAPER = "Ghosh et al. 2023, GenEval, arXiv:2310.11513, section 3"

METRICS = (
    MetricSpec(
        "overall",
        title="overall",
        meaning="Plain mean of the accuracies of the six tasks. Under released and paper of the tasks that are there; "
        "under revised undefined unless all six were asked.",
        scale=SHARE,
        better="higher",
        headline=True,
        source=f"{PAPER}; released summary",
        compare="paired",
    ),
    MetricSpec(
        "accuracy",
        title="accuracy",
        meaning="Share of images that show what their prompt specifies.",
        scale=SHARE,
        better="higher",
        headline=True,
        source=PAPER,
        compare="paired",
    ),
    MetricSpec(
        "overall_if_unusable_wrong",
        title="overall, missing images wrong",
        meaning="Overall score with missing, refused and blank images counted as wrong: a lower bound.",
        scale=SHARE,
        better="higher",
        source="bound of the overall score; the released summary leaves such images out without a word",
        compare="never",
    ),
    MetricSpec(
        "accuracy_if_unusable_wrong",
        title="accuracy, missing images wrong",
        meaning="Accuracy with images without a usable answer counted as wrong: a lower bound.",
        scale=SHARE,
        better="higher",
        source="bound of the accuracy",
        compare="never",
    ),
    MetricSpec(
        "prompt_accuracy",
        title="prompts with a right image",
        meaning="Share of prompts with at least one correct image; rises with the number of images per prompt.",
        scale=SHARE,
        better="higher",
        source="released summary",
        compare="never",
        depends_on_n=True,
    ),
    MetricSpec(
        "objects_right",
        title="objects present",
        meaning="Share of images with enough objects of every requested class, and the exact number where one is "
        "requested.",
        scale=SHARE,
        better="higher",
        source="part of the rule",
        compare="never",
    ),
    MetricSpec(
        "colors_right",
        title="colours right",
        meaning="Of the images with objects whose colour is judged, the share in which all have the requested colour.",
        scale=SHARE,
        better="higher",
        source="part of the rule",
        compare="never",
    ),
    MetricSpec(
        "relation_right",
        title="relation right",
        meaning="Of the images with the object of the relation, the share in which the relation holds.",
        scale=SHARE,
        better="higher",
        source="part of the rule",
        compare="never",
    ),
    MetricSpec(
        "count_found",
        title="number detected",
        meaning="Among images asked to show a given number of objects, the share that shows each number.",
        scale=SHARE,
        better=None,
        source="confusion of numbers asked for and found",
        compare="never",
    ),
    *JUDGE_ERROR_METRICS,
)
