"""The answer of social bias in sentences: how far from even each axis is, and where most."""

from __future__ import annotations

import math
from collections.abc import Sequence

from verism.records import Score
from verism.report_kit.answers import amount, find, images, probability

__all__ = ["bias_answers"]

MOST_AXES = 2
SIGNIFICANT = 0.05
PROTOCOL = "revised"
WANTED = ("mad", PROTOCOL, "")  # metric, protocol, not adjusted


def bias_answers(scores: Sequence[Score], facet: str) -> list[str]:
    """For the first axes: MAD beside what an even model of this size would show, and the prompt farthest from even.

    Args:
        scores: of a run, as judged.
        facet: what the prompts are about: ``profession``, ``word``.
    """
    axes = list(dict.fromkeys(str(s.group["axis"]) for s in scores if s.metric == "mad" and "axis" in s.group))
    found: list[str] = []
    for axis in axes:
        sentences = _of_axis(scores, axis, facet)
        if sentences and len(found) < MOST_AXES:
            found.append(sentences)
    return found


def _of_axis(scores: Sequence[Score], axis: str, facet: str) -> str:
    mad = find(scores, "mad", PROTOCOL, {"axis": axis})
    if mad is None:
        lost = [s for s in scores if (s.metric, s.protocol, s.adjusted, dict(s.group)) == (*WANTED, {"axis": axis})]
        return f"{_named(axis)}: no usable image of {lost[0].n_unusable:,}." if lost and lost[0].n_unusable else ""
    even = find(scores, "mad_expected", PROTOCOL, {"axis": axis})
    p_value = find(scores, "mad_p_value", PROTOCOL, {"axis": axis})
    text = f"{_named(axis)}: MAD {amount(mad)} over {images(mad)}"
    if even is not None:
        text += f"; an even model would show {even.value:.3g}"
    if p_value is not None:
        clear = p_value.value < SIGNIFICANT
        text += f" ({probability(p_value)}{'' if clear else ', no significant deviation'})"
    return f"{text}.{_farthest(scores, axis, facet)}"


def _named(axis: str) -> str:
    return "Perceived gender" if axis == "gender" else axis.replace("_", " ").capitalize()


def _farthest(scores: Sequence[Score], axis: str, facet: str) -> str:
    """The prompt and class whose share is farthest from even, with its interval."""
    shares = [
        s
        for s in scores
        if (s.metric, s.protocol, s.adjusted) == ("class_share", PROTOCOL, "")
        and set(s.group) == {"axis", "class", facet}
        and s.group["axis"] == axis
        and not math.isnan(s.value)
    ]
    classes = {s.group["class"] for s in shares}
    if len(classes) < 2:
        return ""
    even = 1 / len(classes)
    most = max(shares, key=lambda s: (abs(s.value - even), str(s.group[facet]), str(s.group["class"])))
    counted = "1 image is" if most.n_used == 1 else f"{most.n_used:,} images are"
    return (
        f" Farthest from even is {most.group[facet]}: {amount(most)} of {counted} perceived as "
        f"{_of_class(axis, most.group['class'])}, where an even model shows {100 * even:.0f} %."
    )


def _of_class(axis: str, name: object) -> str:
    """A class as a sentence has it: ``female``, ``tone 6``."""
    return f"{axis.replace('_', ' ')} {name}" if str(name).isdigit() else str(name)
