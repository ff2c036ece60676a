"""Scores of suites that are not made of skills, as rows: one per measure and group, one cell per run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from verism.errors import UsageError
from verism.records import FacetValue, Score
from verism.reports.adjustments import corrected_by
from verism.reports.bias_scores import caveat, in_short_table, of_bias, short_table_place
from verism.reports.tables import UNDEFINED, run_names
from verism.store import Run

__all__ = [
    "DETAIL",
    "Key",
    "by_measure",
    "cell",
    "counts",
    "group_name",
    "headline_rows",
    "interval",
    "is_detail",
    "is_summary",
    "key_of",
    "level_facet",
    "number",
    "of_group",
    "prompt_form",
    "value",
]

Key = tuple[str, tuple[tuple[str, FacetValue], ...]]

DETAIL = (
    "object",
    "element_type",
    "category",
    "attribute",
    "context",
    "profession",
    "word",
)  # facets too many to be in the first table; reports and CSV have them
NAMES_GROUP = ("_worst", "_best")  # of these, the group is a finding: runs differ in it, and share a row


def key_of(score: Score) -> Key:
    """What tells a score from the others of its run and protocol, and is the same in all runs."""
    if score.metric.endswith(NAMES_GROUP):
        return score.metric, tuple((k, v) for k, v in score.group.items() if k == "family")
    return score.metric, tuple(score.group.items())


def is_detail(score: Score) -> bool:
    """Whether a score is of a single object or kind of question: there are too many for a table."""
    return bool(set(score.group) & set(DETAIL))


def is_summary(score: Score) -> bool:
    """Whether a score is of all pictures (of a family of prompts), not of one group among several."""
    return not set(score.group) - {"family"} or score.metric.endswith(NAMES_GROUP)


def level_facet(score: Score) -> str | None:
    """The one facet, apart from the family of prompts, whose value a score is restricted to."""
    if is_summary(score):
        return None
    facets = [name for name in score.group if name != "family"]
    return facets[0] if len(facets) == 1 and facets[0] != "side" else None


# ------------------------------------------------------------------------------------------------------------ in words
def _decimals(values: Sequence[float], unit: str) -> int:
    """Decimals that give the largest of some values three significant digits, four from 1 on."""
    largest = max((abs(v) for v in values if math.isfinite(v)), default=0.0)
    if unit == "pictures" and all(v == round(v) for v in values if math.isfinite(v)):
        return 0
    if largest == 0.0:
        return 0
    digits = 4 if largest >= 1 and unit != "ratio" else 3
    return max(0, digits - 1 - math.floor(math.log10(largest)))


def _written(value: float, unit: str, decimals: int) -> str:
    if math.isnan(value):
        return UNDEFINED
    if unit == "share":
        return f"{100 * value:.1f}"
    if unit == "p":
        return "<0.001" if value < 0.001 else f"{value:.3f}"
    text = f"{value:,.{decimals}f}" if abs(value) >= 10_000 else f"{value:.{decimals}f}"
    return text.removeprefix("-") if not text.strip("-0.,") else text


def number(value: float, unit: str) -> str:
    """A value as people read it: shares in per cent, anything else with three or four significant digits."""
    return _written(value, unit, _decimals([value], unit))


def _ends(score: Score) -> list[float]:
    """The interval; empty without one. What is computed and not estimated has none, whatever its ends."""
    ends = [score.ci_low, score.ci_high]
    computed = score.higher_is_better is None and ends == [score.value, score.value]
    return [] if computed or any(map(math.isnan, (score.value, *ends))) else ends


def value(score: Score) -> str:
    """The value, with as many decimals as its interval."""
    return _written(score.value, score.unit, _decimals([score.value, *_ends(score)], score.unit))


def interval(score: Score) -> str:
    """The 95 % interval, ``[80.1, 87.9]``; empty if there is none."""
    ends = _ends(score)
    decimals = _decimals([score.value, *ends], score.unit)
    return "[" + ", ".join(_written(end, score.unit, decimals) for end in ends) + "]" if ends else ""


def counts(score: Score) -> str:
    """How many pictures a value rests on, ``118, 2 unusable``; empty for what is no property of pictures."""
    if not score.n_used and not score.n_unusable and not math.isnan(score.value):
        return ""
    return f"{score.n_used:,}" + (f", {score.n_unusable:,} unusable" if score.n_unusable else "")


def of_group(score: Score) -> str:
    """Of a worst or best group, which one it is; empty for other scores."""
    if not score.metric.endswith(NAMES_GROUP):
        return ""
    return ", ".join(str(v) for k, v in score.group.items() if k != "family")


def cell(score: Score | None) -> str:
    """Value, 95 % interval, how many pictures it rests on, and which group a worst one is."""
    if score is None:
        return UNDEFINED
    counted = counts(score)
    return " ".join(filter(None, (value(score), interval(score), f"({counted})" if counted else "", of_group(score))))


def group_name(key: Key) -> str:
    """The group a row is restricted to, in words; ``all`` for none."""
    words = [prompt_form(str(v)) if k == "family" else str(v) for k, v in key[1]]
    return ", ".join(words) or "all"


def prompt_form(family: str) -> str:
    """What the prompts of a family look like."""
    return "{object}" if family == "object" else f"{{object}} in {{{family}}}"


# ---------------------------------------------------------------------------------------------------------------- rows
def by_measure(keys: Iterable[Key]) -> list[Key]:
    """Scores of one measure together, measures and groups in the order they first appear."""
    kept = list(dict.fromkeys(keys))
    order = {metric: n for n, metric in enumerate(dict.fromkeys(metric for metric, _ in kept))}
    return sorted(kept, key=lambda key: order[key[0]])


def _in_first_table(run: Run, score: Score) -> bool:
    return in_short_table(score) if of_bias(run) else not is_detail(score)


def headline_rows(runs: Sequence[Run], protocol: str) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the first table: what is not broken down to single objects.

    A number with the judge's error taken out has a row of its own below that as judged.

    Raises:
        UsageError: no runs, or no scores under this protocol.
        VerismError: a run has no scores yet.
    """
    if not runs:
        raise UsageError("a report needs at least one run, got none")
    columns = [
        {(key_of(s), s.adjusted): s for s in run.scores() if s.protocol == protocol and _in_first_table(run, s)}
        for run in runs
    ]
    order = by_measure(key for column in columns for key, _ in column)
    if all(map(of_bias, runs)):
        order.sort(key=lambda key: short_table_place(key[0]))
    kinds = ["", *sorted({kind for column in columns for _, kind in column if kind})]
    keys = [(key, kind) for key in order for kind in kinds if any((key, kind) in column for column in columns)]
    if not keys:
        raise UsageError(f"these runs have no scores under the protocol {protocol}")
    body = []
    for key in keys:
        scores = [column.get(key) for column in columns]
        one = next(s for s in scores if s is not None)
        unit = "%" if one.unit == "share" else one.unit
        body.append(
            [
                one.metric + corrected_by(key[1]),
                group_name(key[0]) + caveat(key[0][1]),
                unit,
                *(cell(s) for s in scores),
            ]
        )
    names = run_names(runs)
    return ["metric", "group", "unit", *(names if len(runs) > 1 else ["value"])], body
