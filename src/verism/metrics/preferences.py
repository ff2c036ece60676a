"""Scores of two sides as outcomes of comparisons: wins, losses, ties, and what a missing image counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

__all__ = ["WhenMissing", "outcome", "outcomes_of"]

WhenMissing = Literal["left_out", "loses"]
MISSING = math.inf  # stands for an image that does not exist, where a score would


def outcome(
    first: float | None, second: float | None, *, margin: float = 0.0, when_missing: WhenMissing = "left_out"
) -> float | None:
    """Who wins between two images of one prompt.

    Args:
        first: score of the first image; None: there is none for it; ``inf``: the image is missing.
        second: of the second image.
        margin: scores that differ by no more tie, in units of the scores, >= 0.
        when_missing: ``left_out``: nobody wins where an image is missing; ``loses``: a missing image loses against one
            with a score.

    Returns:
        1 for the first, 0 for the second, 0.5 for a tie; None where it is not known.

    >>> outcome(2.0, 1.0), outcome(1.0, 1.0), outcome(1.0, 1.5, margin=0.5), outcome(None, 1.0)
    (1.0, 0.5, 0.5, None)
    >>> outcome(math.inf, 1.0), outcome(math.inf, 1.0, when_missing="loses")
    (None, 0.0)
    """
    if first is None or second is None:
        return None
    if MISSING in (first, second):
        if first == second or when_missing == "left_out":
            return None
        return 0.0 if first == MISSING else 1.0
    if abs(first - second) <= margin:
        return 0.5
    return 1.0 if first > second else 0.0


def outcomes_of(
    first: Sequence[float | None],
    second: Sequence[float | None],
    *,
    margin: float = 0.0,
    when_missing: WhenMissing = "left_out",
) -> list[float]:
    """The outcomes of all comparisons of the first side's images of a prompt with the second side's.

    Args:
        first: scores of the first side's images, as of ``outcome``.
        second: of the second side's.
        margin: as of ``outcome``.
        when_missing: as of ``outcome``.

    Returns:
        Those that are known; their mean is the first side's share of wins, ties half.

    >>> outcomes_of([3.0, 1.0], [2.0, None])
    [1.0, 0.0]
    """
    known = (outcome(a, b, margin=margin, when_missing=when_missing) for a in first for b in second)
    return [each for each in known if each is not None]
