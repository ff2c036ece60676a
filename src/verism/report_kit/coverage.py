"""What a number leaves out: the one place where boards, tables and answers get it from."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from verism.records import Score
from verism.specs import MetricSpec

__all__ = ["PARTIAL", "Coverage", "coverage_of", "floored"]

PARTIAL = "†"  # behind a number that leaves out some of what was asked for


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """The part of what was asked for that a number rests on.

    Attributes:
        share: that part, 0 to 1; NaN where it is not known.
        answered: which part of the questions was answered, in words; empty for all of them, and where none are counted.
        unusable: how many images (or answers) the number leaves out, in words; empty for none.
    """

    share: float
    answered: str = ""
    unusable: str = ""

    @property
    def left_out(self) -> str:
        """All that is left out, in words: ``questions answered: 40.1 %; 2 of 24 unusable``; empty for nothing."""
        return "; ".join(filter(None, (self.answered, self.unusable)))


def coverage_of(score: Score, scores: Iterable[Score], spec: MetricSpec | None) -> Coverage:
    """What a score rests on.

    Args:
        score: the score.
        scores: all scores of its run.
        spec: of its metric; None for one that no suite declares.
    """
    total = score.n_used + score.n_unusable
    share = score.n_used / total if total else math.nan
    unusable = f"{score.n_unusable:,} of {total:,} unusable" if score.n_unusable else ""
    if spec is None or not spec.coverage:
        return Coverage(share=share, unusable=unusable)
    for other in scores:
        if (other.metric, other.protocol, other.adjusted) != (spec.coverage, score.protocol, ""):
            continue
        if dict(other.group) == dict(score.group) and not math.isnan(other.value):
            words = f"questions answered: {floored(other.value)} %" if other.value < 1 else ""
            # The images without any answer are among what was not answered.
            return Coverage(share=other.value, answered=words, unusable=unusable)
    return Coverage(share=share, unusable=unusable)


def floored(share: float) -> str:
    """A share in per cent; one that is nearly 1 does not become 100.0.

    Args:
        share: 0 to 1.
    """
    return f"{math.floor(round(1000 * share, 6)) / 10:.1f}"
