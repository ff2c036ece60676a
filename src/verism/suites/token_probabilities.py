"""Probabilities of answers out of those of the first tokens of a reply (table ``token_probabilities``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

__all__ = ["TOKENS", "Token", "first_tokens", "share_of_answer", "spelling_mass"]

TOKENS = "token_probabilities"
Token = tuple[int, float]  # its number, and the probability that the reply begins with it


def first_tokens(table: pl.DataFrame | None) -> dict[tuple[str, str], dict[str, Token]]:
    """First token and its probability by string, by image and question.

    Args:
        table: ``token_probabilities`` of a run; None where no judge filled it.
    """
    found: dict[tuple[str, str], dict[str, Token]] = {}
    if table is None:
        return found
    columns = ("image_id", "question", "string", "token", "probability")
    for image_id, question, string, token, probability in table.select(columns).iter_rows():
        found.setdefault((image_id, question), {})[string] = (token, probability)
    return found


def _deciding(spellings: Mapping[str, Sequence[str]], tokens: Mapping[str, Token]) -> dict[int, tuple[str, float]]:
    """The answer and the probability of each token that only one answer begins with."""
    owners: dict[int, set[str]] = {}
    share: dict[int, float] = {}
    for answer, strings in spellings.items():
        for string in strings:
            if string in tokens:
                token, probability = tokens[string]
                owners.setdefault(token, set()).add(answer)
                share[token] = probability
    return {token: (next(iter(names)), share[token]) for token, names in owners.items() if len(names) == 1}


def spelling_mass(answer: str, spellings: Mapping[str, Sequence[str]], tokens: Mapping[str, Token]) -> float | None:
    """Probability that the reply begins with any spelling of an answer, each token counted once.

    Args:
        answer: a key of ``spellings``.
        spellings: strings of each answer that the question allows; a token that two answers begin with decides nothing.
        tokens: first token and its probability, by string.

    Returns:
        In [0, 1]; None where none of its spellings was looked at.

    >>> tokens = {"Yes": (1, 0.5), " Yes": (1, 0.5), "yes": (2, 0.1), "No": (3, 0.2)}
    >>> round(spelling_mass("yes", {"yes": ("Yes", " Yes", "yes"), "no": ("No",)}, tokens), 6)
    0.6
    """
    if not any(string in tokens for string in spellings[answer]):
        return None
    return min(sum(share for name, share in _deciding(spellings, tokens).values() if name == answer), 1.0)


def share_of_answer(
    answer: str, spellings: Mapping[str, Sequence[str]], tokens: Mapping[str, Token]
) -> tuple[float | None, float]:
    """Share of an answer in the mass of all answers, and that mass.

    Args:
        answer: the right one, a key of ``spellings``.
        spellings: strings of each answer that the question allows; a token that two answers begin with decides nothing.
        tokens: first token and its probability, by string.

    Returns:
        The share in [0, 1], None where nothing was looked at or no mass is left; and the mass, in [0, 1].
    """
    deciding = _deciding(spellings, tokens)
    mass = sum(share for _, share in deciding.values())
    if mass <= 0:
        return None, 0.0
    return sum(share for name, share in deciding.values() if name == answer) / mass, min(mass, 1.0)
