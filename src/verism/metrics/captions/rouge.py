"""ROUGE-L with several references, as the COCO caption toolkit computes it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["BETA", "lcs_length", "rouge_l"]

BETA = 1.2  # weight of recall against precision in the toolkit


def lcs_length(first: Sequence[str], second: Sequence[str]) -> int:
    """Length of the longest common subsequence of two word lists.

    >>> lcs_length("a man rides a horse".split(), "the man is riding a horse".split())
    3
    """
    return _lcs(_positions(first), len(first), second)


def _positions(words: Sequence[str]) -> dict[str, int]:
    """Where each word stands: bit i of its number is set if it is word i."""
    positions: dict[str, int] = {}
    for position, word in enumerate(words):
        positions[word] = positions.get(word, 0) | 1 << position
    return positions


def _lcs(positions: dict[str, int], length: int, other: Sequence[str]) -> int:
    """Bit-parallel: a whole row of the usual table in one integer, so one addition per word of ``other``.

    Source: Hyyrö 2004, Bit-parallel LCS-length computation revisited, AWOCA, Fig. 3 (there V'; zeros count).
    """
    row = (1 << length) - 1
    for word in other:
        matches = row & positions.get(word, 0)
        row = (row + matches) | (row - matches)
    return length - (row & ((1 << length) - 1)).bit_count()


def rouge_l(candidates: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]) -> NDArray[np.float64]:
    """ROUGE-L of each of N captions; the corpus value is their mean.

    Precision is the longest common subsequence over the candidate's words, recall over the reference's. The best
    precision and the best recall over the references are taken apart, then combined with ``BETA``; so they may come
    from two references.

    Args:
        candidates: words of each caption.
        references: for each caption, in the same order, the words of each of its references; at least one.
    Returns:
        Shape (N,), in [0, 1]; 0 where nothing is in common. Without words, a caption counts as one empty word, as in
        the toolkit.
    Raises:
        ValueError: unequal numbers of captions, or a caption without references.
    Source: Lin 2004, ROUGE, ACL workshop, Sec. 3; pycocoevalcap 1.2, rouge.py.
    """
    if len(candidates) != len(references):
        raise ValueError(f"need references for each candidate; got {len(candidates)} and {len(references)}")
    scores = np.zeros(len(candidates))
    for number, (candidate, several) in enumerate(zip(candidates, references, strict=True)):
        if not len(several):
            raise ValueError(f"every candidate needs a reference; number {number} has none")
        words = candidate or [""]
        positions = _positions(words)
        precision = recall = 0.0
        for reference in several:
            other = reference or [""]
            common = _lcs(positions, len(words), other)
            precision = max(precision, common / len(words))
            recall = max(recall, common / len(other))
        if precision > 0:
            scores[number] = (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision)
    return scores
