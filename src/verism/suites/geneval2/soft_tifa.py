"""Soft-TIFA: how probable the right answers are, question by question, and their means.

``released_probability`` sums the first tokens of every accepted string, as the released code does: a token that two
strings share counts twice, and the bare space before a digit counts as the digit. ``revised_probability`` leaves out
tokens that do not decide between answers, counts every other one once, and divides by the mass of all answers, which is
kept as coverage.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

__all__ = ["arithmetic_mean", "geometric_mean", "released_probability", "revised_probability"]

Token = tuple[int, float]  # its number, and the probability that the reply begins with it


def released_probability(strings: Sequence[str], tokens: Mapping[str, Token]) -> float | None:
    """Probability of an answer as released: the sum over its strings; None if a string was not looked at.

    Args:
        strings: accepted spellings of the answer.
        tokens: first token and its probability, by string.
    """
    if not strings or any(string not in tokens for string in strings):
        return None
    return sum(tokens[string][1] for string in strings)


def revised_probability(
    answer: str, spellings: Mapping[str, Sequence[str]], tokens: Mapping[str, Token]
) -> tuple[float | None, float]:
    """Share of an answer in the mass of all answers, and that mass.

    Args:
        answer: the right one, a key of ``spellings``.
        spellings: strings of each answer that the question allows.
        tokens: first token and its probability, by string.

    Returns:
        The share in [0, 1], None where nothing was looked at or no mass is left; and the mass, in [0, 1].
    """
    owners: dict[int, set[str]] = {}
    share: dict[int, float] = {}
    for each, strings in spellings.items():
        for string in strings:
            if string in tokens:
                token, probability = tokens[string]
                owners.setdefault(token, set()).add(each)
                share[token] = probability
    deciding = {token: next(iter(names)) for token, names in owners.items() if len(names) == 1}
    mass = sum(share[token] for token in deciding)
    if mass <= 0:
        return None, 0.0
    return sum(share[token] for token, name in deciding.items() if name == answer) / mass, min(mass, 1.0)


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
