"""Scores of suites that are not made of skills, as rows: one per measure and group, one cell per run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from verism.errors import UsageError
from verism.records import FacetValue, Score
from verism.reports.tables import UNDEFINED, run_names
from verism.store import Run

__all__ = ["DETAIL", "Key", "by_measure", "cell", "group_name", "headline_rows", "key_of", "number", "prompt_form"]

Key = tuple[str, tuple[tuple[str, FacetValue], ...]]

DETAIL = ("object", "element_type", "category")  # facets too many to be in the first table; reports and CSV have them


def key_of(score: Score) -> Key:
    """What tells a score from the others of its run and protocol."""
    return score.metric, tuple(score.group.items())


def number(value: float, unit: str) -> str:
    """A value as people read it: shares in per cent, anything else with four significant digits."""
    if math.isnan(value):
        return UNDEFINED
    if unit == "share":
        return f"{100 * value:.1f}"
    if unit == "p":
        return "<0.001" if value < 0.001 else f"{value:.3f}"
    return f"{value:.4g}" if abs(value) >= 1 and unit != "ratio" and abs(value) < 10_000 else _short(value)


def _short(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1_000 else f"{value:,.0f}"


def cell(score: Score | None) -> str:
    """Value, 95 % interval, and how many pictures it rests on."""
    if score is None:
        return UNDEFINED
    text = number(score.value, score.unit)
    if not math.isnan(score.ci_low) and not math.isnan(score.ci_high):
        text += f" [{number(score.ci_low, score.unit)}, {number(score.ci_high, score.unit)}]"
    unusable = f", {score.n_unusable:,} unusable" if score.n_unusable else ""
    return f"{text} ({score.n_used:,}{unusable})"


def group_name(score: Score) -> str:
    """The group a score is restricted to, in words; ``all`` for none."""
    words = [prompt_form(str(v)) if k == "family" else str(v) for k, v in score.group.items()]
    return ", ".join(words) or "all"


def prompt_form(family: str) -> str:
    """What the prompts of a family look like."""
    return "{object}" if family == "object" else f"{{object}} in {{{family}}}"


def by_measure(keys: Iterable[Key]) -> list[Key]:
    """Scores of one measure together, measures and groups in the order they first appear."""
    kept = list(dict.fromkeys(keys))
    order = {metric: n for n, metric in enumerate(dict.fromkeys(metric for metric, _ in kept))}
    return sorted(kept, key=lambda key: order[key[0]])


def headline_rows(runs: Sequence[Run], protocol: str) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the first table: what is not broken down to single objects.

    Raises:
        UsageError: no runs, or no scores under this protocol.
        VerismError: a run has no scores yet.
    """
    if not runs:
        raise UsageError("a report needs at least one run, got none")
    columns = []
    for run in runs:
        shown = [s for s in run.scores() if s.protocol == protocol and not set(s.group) & set(DETAIL)]
        columns.append({key_of(s): s for s in shown})
    keys = by_measure(key for column in columns for key in column)
    if not keys:
        raise UsageError(f"these runs have no scores under the protocol {protocol}")
    body = []
    for key in keys:
        scores = [column.get(key) for column in columns]
        one = next(s for s in scores if s is not None)
        unit = "%" if one.unit == "share" else one.unit
        body.append([one.metric, group_name(one), unit, *(cell(s) for s in scores)])
    names = run_names(runs)
    return ["metric", "group", "unit", *(names if len(runs) > 1 else ["value"])], body
