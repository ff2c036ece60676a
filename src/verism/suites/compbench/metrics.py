"""Every number of T2I-CompBench: what it means, what it is made from, and where it comes from."""

from __future__ import annotations

from collections.abc import Mapping

from verism.suites.base import COSINE, JUDGE_ERROR_METRICS, SHARE, MetricSpec

__all__ = ["METRICS", "METRIC_OF", "SCORED"]

PAPER = "Huang et al. 2023, T2I-CompBench, arXiv:2307.06350"
PLUS = "Huang et al. 2025, T2I-CompBench++, arXiv:2307.06350 v3"

METRIC_OF: Mapping[str, str] = {
    "color": "attribute_binding",
    "shape": "attribute_binding",
    "texture": "attribute_binding",
    "spatial": "spatial_2d",
    "3d_spatial": "spatial_3d",
    "numeracy": "numeracy",
    "non_spatial": "clip_score",
    "complex": "three_in_one",
}
"""The metric of each category. There is none over categories: a cosine of 0.3 and shares have no common mean."""
SCORED: tuple[str, ...] = (*dict.fromkeys(METRIC_OF.values()), "multimodal")

METRICS = (
    MetricSpec(
        "attribute_binding",
        title="attribute binding (VQA)",
        meaning="Mean over images of the probabilities of yes to a question for each noun phrase, multiplied; under "
        "revised their geometric mean. A published number only with the published judge, BLIP-VQA.",
        scale=SHARE,
        better="higher",
        headline=True,
        source=f"{PAPER}, disentangled BLIP-VQA",
        compare="paired",
        judges=("vqa",),
        title_by_judge={r".*blip-vqa-capfilt-large.*": "attribute binding (BLIP-VQA)"},
    ),
    MetricSpec(
        "spatial_2d",
        title="relation in the image (detector)",
        meaning="Mean over images of a quarter of each object's confidence and half of the relation. A published "
        "number only with the published judge, UniDet.",
        scale=SHARE,
        better="higher",
        headline=True,
        source=f"{PAPER}, UniDet-based metric",
        compare="paired",
        judges=("detector",),
        title_by_judge={r"(?i).*unidet.*": "relation in the image (UniDet)"},
    ),
    MetricSpec(
        "spatial_3d",
        title="relation in depth (detector, depth)",
        meaning="The same with a relation in depth. A published number only with the published judges, UniDet and DPT.",
        scale=SHARE,
        better="higher",
        headline=True,
        source=f"{PLUS}, UniDet and depth",
        compare="paired",
        judges=("detector", "depth"),
        title_by_judge={r"(?i).*unidet.*": "relation in depth (UniDet, depth)"},
    ),
    MetricSpec(
        "numeracy",
        title="numeracy (detector)",
        meaning="Mean over images of the share of kinds of objects that are there, and of those in the right number, "
        "half and half. A published number only with the published judge, UniDet.",
        scale=SHARE,
        better="higher",
        headline=True,
        source=f"{PLUS}, UniDet-based numeracy",
        compare="paired",
        judges=("detector",),
        title_by_judge={r"(?i).*unidet.*": "numeracy (UniDet)"},
    ),
    MetricSpec(
        "clip_score",
        title="CLIPScore",
        meaning="Mean cosine of image and prompt, neither scaled nor cut at 0. It spans 0.298 to 0.320 over twelve "
        "published systems, and hardly separates models.",
        scale=COSINE,
        better="higher",
        headline=True,
        source=f"{PAPER}, CLIPScore of non-spatial relations",
        compare="paired",
        judges=("clip",),
        title_by_judge={r".*clip-vit-base-patch32.*": "CLIPScore (ViT-B/32)"},
    ),
    MetricSpec(
        "three_in_one",
        title="3-in-1",
        meaning="Mean over images of attribute binding, relation in the image and CLIPScore: those that the list of "
        "the prompt names, under paper all three. A mean of probabilities and cosines, so read its parts.",
        scale=SHARE,
        better="higher",
        headline=True,
        source=f"{PAPER}, 3-in-1",
        compare="paired",
        judges=("vqa", "detector", "clip"),
    ),
    MetricSpec(
        "multimodal",
        title="levels by a chat model",
        meaning="Mean over images of the level that a multimodal chat model gives, as a share; colour, shape and "
        "texture by phrase, multiplied. The wording is verism's, so numbers do not compare with published "
        "ones.",
        scale=SHARE,
        better="higher",
        headline=True,
        source=f"{PLUS}, multimodal judges",
        compare="paired",
        judges=("vqa",),
    ),
    MetricSpec(
        "accuracy",
        title="everything present",
        meaning="Share of images that satisfy the whole prompt: every phrase more probable than not, both objects "
        "and their relation, every number exact. Verism's, not in the paper.",
        scale=SHARE,
        better="higher",
        source="derived from the rules, so that they can be held against ground truth",
        compare="paired",
    ),
    MetricSpec(
        "relation_worth",
        title="relation alone",
        meaning="Mean over images of the relation's score, without the objects' confidences; 0 if an object is not "
        "detected.",
        scale=SHARE,
        better="higher",
        source="part of the rule",
        compare="never",
        judges=("detector",),
    ),
    MetricSpec(
        "objects_found",
        title="objects found",
        meaning="Mean over images of the share of the prompt's two objects that are detected.",
        scale=SHARE,
        better="higher",
        source="part of the rule",
        compare="never",
        judges=("detector",),
    ),
    MetricSpec(
        "number_exact",
        title="number exact",
        meaning="Mean over images of the share of kinds of objects whose number is exact.",
        scale=SHARE,
        better="higher",
        source="part of the rule",
        compare="never",
        judges=("detector",),
    ),
    MetricSpec(
        "answer_mass",
        title="mass of yes and no",
        meaning="Mean probability that a reply about a phrase begins with yes or no: coverage of the normalised "
        "probabilities.",
        scale=SHARE,
        better=None,
        source="coverage of the judge's answers",
        compare="never",
        judges=("vqa",),
    ),
    MetricSpec(
        "score_if_unusable_zero",
        title="score, missing images 0",
        meaning="The score of a category if every image without a usable answer counted 0: a lower bound. The released "
        "scripts leave missing images out, and give later ones to other prompts.",
        scale=SHARE,
        better="higher",
        source="bound of the score",
        compare="never",
    ),
    *JUDGE_ERROR_METRICS,
)
