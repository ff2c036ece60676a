"""Soft-TIFA: how probable the right answers are, question by question, and their means.

``released_probability`` sums the first tokens of every accepted string, as the released code does: a token that two
strings share counts twice, and the bare space before a digit counts as the digit. ``revised_probability`` leaves out
tokens that do not decide between answers, counts every other one once, and divides by the mass of all answers, which is
kept as coverage.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from verism.suites.token_probabilities import Token

__all__ = ["arithmetic_mean", "geometric_mean", "released_probability"]


def released_probability(strings: Sequence[str], tokens: Mapping[str, Token]) -> float | None:
    """Probability of an answer as released: the sum over its strings; None if a string was not looked at.

    Args:
        strings: accepted spellings of the answer.
        tokens: first token and its probability, by string.
    """
    if not strings or any(string not in tokens for string in strings):
        return None
    return sum(tokens[string][1] for string in strings)


def arithmetic_mean(values: Sequence[float]) -> float:
    """The plain mean; NaN of nothing."""
    return sum(values) / len(values) if values else math.nan


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean; 0 if any value is, without a floor; NaN of nothing."""
    if not values:
        return math.nan
    if any(value <= 0 for value in values):
        return 0.0
    return math.exp(sum(map(math.log, values)) / len(values))
