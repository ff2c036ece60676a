"""Every number of PaintSkills: what it means, and where it comes from."""

from __future__ import annotations

from verism.suites.base import JUDGE_ERROR_METRICS, SHARE, MetricSpec

__all__ = ["METRICS"]

PAPER = "Cho et al. 2023, DALL-Eval, ICCV, section 3"

METRICS = (
    MetricSpec(
        "mean_accuracy",
        title="mean accuracy",
        meaning="Plain mean of the accuracies of the published skills; undefined unless all of them were asked.",
        scale=SHARE,
        better="higher",
        headline=True,
        source="ICCV 2023, Table 2; arXiv v1, Table 3",
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
        "accuracy_if_unusable_wrong",
        title="accuracy, unusable images wrong",
        meaning="Accuracy with images without a usable answer counted as wrong: a lower bound.",
        scale=SHARE,
        better="higher",
        source="bound of the accuracy",
        compare="never",
    ),
    MetricSpec(
        "right_number",
        title="right number",
        meaning="Share of images with as many boxes as requested objects.",
        scale=SHARE,
        better="higher",
        source="part of the count rule; the released code prints it as count-1 to count-4",
        compare="never",
    ),
    MetricSpec(
        "right_classes",
        title="right classes",
        meaning="Share of images in which the boxes have the requested classes.",
        scale=SHARE,
        better="higher",
        source="part of the count and spatial rules",
        compare="never",
    ),
    MetricSpec(
        "right_object",
        title="right object",
        meaning="Share of images with a box of the requested class.",
        scale=SHARE,
        better="higher",
        source="part of the colour rule",
        compare="never",
    ),
    MetricSpec(
        "right_color",
        title="right colour",
        meaning="Share of images whose best box has the requested colour.",
        scale=SHARE,
        better="higher",
        source="part of the colour rule",
        compare="never",
    ),
    MetricSpec(
        "only_object",
        title="object and no other class",
        meaning="Share of images with boxes of the requested class only.",
        scale=SHARE,
        better="higher",
        source="stricter than the object rule",
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
    MetricSpec(
        "shuffled_expectation",
        title="chance level (images shuffled)",
        meaning="Expected accuracy of images assigned to prompts at random, under a perfect judge, over the full "
        "prompt list.",
        scale=SHARE,
        better=None,
        source="exact expectation over the prompts of each skill, however many of them were asked",
        compare="never",
    ),
    *JUDGE_ERROR_METRICS,
)
