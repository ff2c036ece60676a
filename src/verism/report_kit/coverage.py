"""What a number leaves out: the one place where boards, tables and answers get it from."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from verism.records import Score
from verism.report_kit import words
from verism.specs import MetricSpec
from verism.store import Run

__all__ = ["PARTIAL", "UNFINISHED", "Coverage", "coverage_of", "share_answered", "unfinished"]

PARTIAL = "†"  # behind a number that leaves out some of what was asked for
UNFINISHED = "the run is not finished"  # how the remark begins that a scoring of an unfinished run keeps


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
        """All that is left out, in words; empty for nothing.

        ``questions answered: 40.1 % (55 of 137); 2 of 24 unusable``
        """
        return "; ".join(filter(None, (self.answered, self.unusable)))


def unfinished(run: Run) -> str:
    """That a run was scored before all of its images were there, with their number; empty for others.

    Args:
        run: a scored run.
    """
    return next((line for line in run.manifest.scoring.remarks if line.startswith(UNFINISHED)), "")


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
            text = f"questions answered: {share_answered(other)}" if other.value < 1 else ""
            # The images without any answer are among what was not answered.
            return Coverage(share=other.value, answered=text, unusable=unusable)
    return Coverage(share=share, unusable=unusable)


def share_answered(score: Score) -> str:
    """Which part of the questions was answered: ``41.5 % (17 of 41)``.

    Args:
        score: of the metric that is this share.
    """
    share = words.percent(score.value)
    text = f"{'over 99.9' if share == '100.0' and score.value < 1 else share} %"
    counted = words.answered_of(score)
    return f"{text} ({counted})" if counted else text
