"""Multimodal chat models as judges: levels as percentages, and what becomes of a reply without one.

ShareGPT4V was asked about each noun phrase of colour, shape and texture prompts (levels 1 to 4, multiplied) and once
about other images (levels 1 to 5). A reply that cannot be read was left at 100. GPT-4V gave levels for two of ten
images of a prompt, and a failure counted 0.

Source: T2I-CompBench++ (arXiv:2307.06350 v3), multimodal judges, and the released code of January 2025. The wording of
the questions is ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from verism.suites.compbench.vocabulary import BOUND

__all__ = [
    "IMAGES_OF_GPT4V",
    "SCALES",
    "level_of",
    "level_questions",
    "percent_of",
    "released_level_score",
    "revised_level_score",
    "scale_of",
]

BINDING_PERCENT: Mapping[int, float] = {1: 10.0, 2: 20.0, 3: 75.0, 4: 100.0}
PERCENT: Mapping[int, float] = {1: 20.0, 2: 40.0, 3: 60.0, 4: 80.0, 5: 100.0}
SCALES: tuple[str, ...] = ("share-cot", "gpt-4v")
IMAGES_OF_GPT4V = 2  # 600 of 3,000: the first two of each prompt
UNREADABLE: Mapping[str, float] = {"share-cot": 100.0, "gpt-4v": 0.0}

_FIRST = "First say in at most 50 words what the image shows. "
_PHRASE = (
    "Then answer with one number for how well the image shows {phrase}: 1, it is not there; 2, it is there with "
    "another {attribute}; 3, it is there and its {attribute} is mostly right; 4, it is there and its {attribute} is "
    "right. End with the number alone."
)
_WHOLE = (
    'Then answer with one number for how well {what} in the image fits the text "{text}": 1, not at all; 2, hardly; '
    "3, in part; 4, mostly; 5, completely. End with the number alone."
)
_WHAT: Mapping[str, str] = {
    "spatial": "where the objects are",
    "3d_spatial": "which object is nearer and which farther",
    "non_spatial": "what is being done",
    "numeracy": "the number of every kind of object",
    "complex": "everything",
}


def scale_of(category: str, judge: str) -> Mapping[int, float]:
    """Percentages by level.

    Args:
        category: of the prompt.
        judge: one of ``SCALES``.
    """
    return BINDING_PERCENT if judge == "share-cot" and category in BOUND else PERCENT


def level_questions(category: str, text: str, phrases: Sequence[str], judge: str) -> tuple[str, ...]:
    """The questions about an image: one for each phrase of colour, shape and texture prompts, or one for the whole.

    Args:
        category: of the prompt.
        text: the prompt.
        phrases: its noun phrases.
        judge: one of ``SCALES``; GPT-4V is asked about the whole.
    """
    if judge == "share-cot" and category in BOUND:
        return tuple(_FIRST + _PHRASE.format(phrase=phrase, attribute=_ATTRIBUTE[category]) for phrase in phrases)
    what = _WHAT.get(category, f"the {_ATTRIBUTE.get(category, 'content')} of the objects")
    return (_FIRST + _WHOLE.replace("{what}", what).replace("{text}", text),)


_ATTRIBUTE: Mapping[str, str] = {"color": "colour", "shape": "shape", "texture": "material"}


def level_of(reply: str | None, levels: int) -> int | None:
    """The level that a reply ends with; None if it has none.

    Args:
        reply: free text.
        levels: number of levels.

    >>> level_of("Two red cars. 3", 4), level_of("I see 12 cars.", 5), level_of(None, 5)
    (3, None, None)
    """
    numbers = re.findall(r"(?<![\d.,])\d+(?![\d]|[.,]\d)", reply or "")
    fitting = [int(number) for number in numbers if 1 <= int(number) <= levels]
    return fitting[-1] if fitting else None


def percent_of(reply: str | None, category: str, judge: str) -> float | None:
    """Percentage of a reply; None if it has no level."""
    scale = scale_of(category, judge)
    level = level_of(reply, len(scale))
    return None if level is None else scale[level]


def released_level_score(replies: Sequence[str | None], category: str, judge: str) -> float:
    """Score of an image as released, in [0, 1]: percentages of the questions multiplied. A reply without a level is
    worth 100 (ShareGPT4V) or 0 (GPT-4V).

    Args:
        replies: to each question about the image.
        category: of the prompt.
        judge: one of ``SCALES``.
    """
    score = 1.0
    for reply in replies:
        percent = percent_of(reply, category, judge)
        score *= (UNREADABLE[judge] if percent is None else percent) / 100
    return score


def revised_level_score(replies: Sequence[str | None], category: str, judge: str) -> float | None:
    """The same, where a reply without a level is no answer: None.

    Args:
        replies: to each question about the image.
        category: of the prompt.
        judge: one of ``SCALES``.
    """
    if not replies or any(percent_of(reply, category, judge) is None for reply in replies):
        return None
    return released_level_score(replies, category, judge)
