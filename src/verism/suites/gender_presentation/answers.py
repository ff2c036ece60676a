"""The answer of gender presentation in sentences: the GEP score beside chance, and the attribute that differs most."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from verism.records import FacetValue, Score
from verism.report_kit.answers import amount, find, images, probability

__all__ = ["presentation_answers"]

PROTOCOL = "revised"
SIGNIFICANT = 0.05


def presentation_answers(scores: Sequence[Score]) -> list[str]:
    """For each setting of the first estimator: the score, chance, and the largest significant difference.

    Args:
        scores: of a run, as judged.
    """
    groups = [
        dict(s.group)
        for s in scores
        if s.metric == "gep_score" and s.protocol == PROTOCOL and set(s.group) == {"estimator", "setting"}
    ]
    answers = []
    for group in (g for g in groups if g["estimator"] == groups[0]["estimator"]):
        score = find(scores, "gep_score", PROTOCOL, group)
        if score is None:
            continue
        chance = find(scores, "gep_score_by_chance", PROTOCOL, group)
        p_value = find(scores, "gep_score_p_value", PROTOCOL, group)
        counted = images(score).replace("image", "attribute judgement", 1)
        of_score = f"the GEP score by the estimator {group['estimator']} is {amount(score)} over {counted}"
        text = f"In {group['setting']} prompts {of_score}"
        if chance is not None:
            even = f"{100 * chance.value:.1f} %" if score.unit == "share" else f"{chance.value:.3g}"
            text += f"; without any difference it would be {even}"
        if p_value is not None:
            text += f" ({probability(p_value)}{'' if p_value.value < SIGNIFICANT else ', no significant difference'})"
        answers.append(f"{text}.{_largest(scores, group)}")
    return answers


def _largest(scores: Sequence[Score], group: Mapping[str, FacetValue]) -> str:
    """The attribute with the largest difference that is significant by itself."""
    found = []
    for score in scores:
        if (score.metric, score.protocol, score.adjusted) != ("gep", PROTOCOL, "") or math.isnan(score.value):
            continue
        its = dict(score.group)
        if set(its) != {"estimator", "setting", "attribute"} or any(its[k] != v for k, v in group.items()):
            continue
        p_value = find(scores, "gep_p_value", PROTOCOL, its)
        if p_value is not None and p_value.value < SIGNIFICANT:
            found.append(score)
    if not found:
        return ""
    most = max(found, key=lambda s: abs(s.value))
    points = most.unit == "share"
    return f" The largest difference: {most.group['attribute']}, {amount(most, points=points)} from man to woman."
