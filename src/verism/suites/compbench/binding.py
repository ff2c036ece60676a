"""Attribute binding: a question for each noun phrase of a prompt, and the product of the probabilities of yes.

The probability of every phrase is kept; how they are put together is decided here, later, and may be decided anew.

Source: T2I-CompBench (arXiv:2307.06350), disentangled BLIP-VQA, and the released code of January 2025.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

__all__ = [
    "NP_NUM",
    "asked_phrases",
    "paper_binding",
    "question_of",
    "released_binding",
    "released_phrases",
    "revised_binding",
]

NP_NUM = 8  # phrases that the released code asks about; 2 until December 2023
PLACES = ("top", "the side", "the left", "the right")  # left out since January 2024
REMOVED = re.compile(r"[.!\"()*#:;~]")
DIGITS = 4


def question_of(phrase: str) -> str:
    """The question about a noun phrase, as the released code prepares it.

    >>> question_of("A red car (old)")
    'a red car old?'
    """
    return REMOVED.sub("", f"{phrase.lower()}?")


def released_phrases(phrases: Sequence[str], *, np_num: int = NP_NUM, filtered: bool = True) -> tuple[str, ...]:
    """The noun phrases that the released code asks about: without parts of places, and the first ``np_num`` alone.

    Args:
        phrases: noun phrases of the prompt, in order.
        np_num: most of them that are asked about.
        filtered: whether parts of places (``top``, ``the left`` ...) are left out, as since January 2024.
    """
    return asked_phrases(phrases, filtered=filtered)[:np_num]


def asked_phrases(phrases: Sequence[str], *, filtered: bool = True) -> tuple[str, ...]:
    """Noun phrases without parts of places.

    Args:
        phrases: noun phrases of the prompt, in order.
        filtered: False: all of them.
    """
    return tuple(p for p in phrases if not filtered or p not in PLACES)


def released_binding(probabilities: Sequence[float | None]) -> float | None:
    """Product of the probabilities of yes, each and the product rounded to four decimals in single precision.

    A prompt without noun phrases has 1: there is nothing that could be missing.

    Args:
        probabilities: of yes among yes and no, by phrase.

    Returns:
        In [0, 1]; None if one is unknown.

    >>> released_binding([0.81234, 0.5]), released_binding([])
    (0.4061, 1.0)
    """
    product = np.float32(1)
    for probability in probabilities:
        if probability is None:
            return None
        product = np.float32(product * np.float32(round(probability, DIGITS)))
    return round(float(product), DIGITS)


def paper_binding(probabilities: Sequence[float | None]) -> float | None:
    """Plain product of the probabilities of yes, neither rounded nor normalised over yes and no.

    Args:
        probabilities: of yes among all words, by phrase.

    Returns:
        In [0, 1]; None if one is unknown, or there is no phrase.
    """
    known = [p for p in probabilities if p is not None]
    return math.prod(known) if known and len(known) == len(probabilities) else None


def revised_binding(probabilities: Sequence[float | None]) -> float | None:
    """Geometric mean of the probabilities of yes, so that prompts of many phrases are not punished for their number.

    Args:
        probabilities: of yes among yes and no, by phrase.

    Returns:
        In [0, 1]; None if one is unknown, or there is no phrase.

    >>> revised_binding([0.9, 0.9, 0.9, 0.9])
    0.9
    """
    product = paper_binding(probabilities)
    return None if product is None else round(product ** (1 / len(probabilities)), 12)
