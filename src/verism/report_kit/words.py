"""Numbers in words, one way for all tables, figures and pages.

Shares are written in per cent; a value has as many decimals as its interval; what is undefined is a dash, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from verism.records import Score

__all__ = [
    "UNDEFINED",
    "answered_of",
    "cell",
    "counts",
    "delta",
    "interval",
    "minus",
    "number",
    "percent",
    "signed",
    "value",
]

UNDEFINED = "–"
PLAIN_SHARE, PROBABILITY = "share", "p"
WHOLE = ("pictures", "images", "prompts")  # units of counts
RATIO = "ratio"


def _decimals(values: Sequence[float], unit: str) -> int:
    """Decimals that give the largest of some values three significant digits, four from 1 on."""
    largest = max((abs(v) for v in values if math.isfinite(v)), default=0.0)
    if largest == 0.0 or (unit in WHOLE and all(v == round(v) for v in values if math.isfinite(v))):
        return 0
    digits = 4 if largest >= 1 and unit != RATIO else 3
    return max(0, digits - 1 - math.floor(math.log10(largest)))


def _written(value: float, unit: str, decimals: int) -> str:
    if math.isnan(value):
        return UNDEFINED
    if unit == PLAIN_SHARE:
        return percent(value)
    if unit == PROBABILITY:
        return "<0.001" if value < 0.001 else f"{value:.3f}"
    text = f"{value:,.{decimals}f}" if abs(value) >= 10_000 else f"{value:.{decimals}f}"
    return text.removeprefix("-") if not text.strip("-0.,") else text


def minus(words: str) -> str:
    """The same with real minus signs in place of hyphens, for pages."""
    return words.replace("-", "−")


def percent(share: float | None) -> str:
    """A share in per cent with one decimal, without the sign; a dash if undefined."""
    if share is None or math.isnan(share):
        return UNDEFINED
    # 15 of 16 is 93.75 % wherever it is shown, whether or not the last bit of a mean was lost.
    return f"{round(100 * share, 9):.1f}"


def number(value: float, unit: str) -> str:
    """A value as people read it: shares in per cent, anything else with three or four significant digits.

    Args:
        value: NaN for an undefined one.
        unit: of scores.
    """
    return _written(value, unit, _decimals([value], unit))


def _ends(score: Score) -> list[float]:
    """The interval; empty without one. What is computed and not estimated has none, whatever its ends."""
    ends = [score.ci_low, score.ci_high]
    computed = score.higher_is_better is None and ends == [score.value, score.value]
    return [] if computed or any(map(math.isnan, (score.value, *ends))) else ends


def value(score: Score | None) -> str:
    """The value, with as many decimals as its interval; a dash for none."""
    if score is None:
        return UNDEFINED
    return _written(score.value, score.unit, _decimals([score.value, *_ends(score)], score.unit))


def interval(score: Score | None) -> str:
    """The 95 % interval, ``[80.1, 87.9]``; empty if there is none."""
    if score is None:
        return ""
    ends = _ends(score)
    decimals = _decimals([score.value, *ends], score.unit)
    return "[" + ", ".join(_written(end, score.unit, decimals) for end in ends) + "]" if ends else ""


def counts(score: Score, *, of_answers: bool = False) -> str:
    """How many images a value rests on, ``118 used, 2 unusable``; empty for what is no property of images.

    Args:
        score: the score.
        of_answers: whether it is itself the share of the questions that were answered, ``17 of 41 answered``.
    """
    if not score.n_used and not score.n_unusable and not math.isnan(score.value):
        return ""
    if of_answers and (answered := answered_of(score)):
        return f"{answered} answered"
    return f"{score.n_used:,}" + (f" used, {score.n_unusable:,} unusable" if score.n_unusable else "")


def answered_of(score: Score) -> str:
    """Of how many questions how many were answered, ``17 of 41``, by the score that is the share of them.

    Its ``n_used`` counts all questions, as all enter the share, or those with an answer alone; the value says which.
    Empty where it fits neither.
    """
    used, unusable = score.n_used, score.n_unusable
    for answered, asked in ((used - unusable, used), (used, used + unusable)):
        if asked and not math.isnan(score.value) and round(asked * score.value) == answered:
            return f"{answered:,} of {asked:,}"
    return ""


def cell(score: Score | None, found: str = "", answered: str = "", *, of_answers: bool = False) -> str:
    """Value, 95 % interval, how many images it rests on, and which group was found.

    Args:
        score: None for none.
        found: the group that the metric found, in words; empty for none.
        answered: what of its questions was answered, in words; empty for all.
        of_answers: whether it is itself the share of the questions that were answered.
    """
    if score is None:
        return UNDEFINED
    counted = "; ".join(filter(None, (counts(score, of_answers=of_answers), answered)))
    return " ".join(filter(None, (value(score), interval(score), f"({counted})" if counted else "", found)))


def signed(difference: float, unit: str) -> str:
    """A difference with its sign, ``+1.2``, ``−0.4``, ``0.0``; of shares in percentage points."""
    if math.isnan(difference):
        return UNDEFINED
    size = f"{abs(difference):.3f}" if unit == PROBABILITY else number(abs(difference), unit)
    if not size.strip("0."):
        return size
    return ("−" if difference < 0 else "+") + size


def delta(score: Score | None, reference: Score | None) -> str:
    """``score`` minus ``reference`` with its sign; a dash if either is missing or undefined, or they are of other
    groups."""
    if score is None or reference is None or dict(score.group) != dict(reference.group):
        return UNDEFINED
    if score.unit != reference.unit:
        return "other scale"
    return signed(score.value - reference.value, score.unit)
