"""Realism against diversity against agreement with the text, over several runs: which of them no other run beats.

The page that EvalGIM draws over a sweep of a setting of the generator, here with the interval of every mark.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from verism.metrics.pareto import pareto_front
from verism.records import PROTOCOLS, Score
from verism.reports import plots
from verism.reports.measure_names import title
from verism.reports.measures import cell, interval, prompt_form, value
from verism.reports.tables import UNDEFINED
from verism.store import Run

__all__ = ["Panel", "Row", "TradeOff", "differing_setting", "trade_offs"]

# What a suite's numbers are wanted for, and the measure that stands for it.
AIMS: Mapping[str, Mapping[str, str]] = {
    "geography": {"precision_mean": "realism", "coverage_mean": "diversity", "consistency": "consistency"},
    "quality": {"precision": "realism", "coverage": "diversity", "fid": "distance"},
}
LONGEST = 24  # characters of a setting's value that can stand beside a mark
OPTION = re.compile(r"([A-Za-z_][\w.-]*)=([^\s&;,?]+)")


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Two measures against each other, under every protocol; None where fewer than two runs have both."""

    title: str
    versions: Mapping[str, Markup | None]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A run's values, and whether no other run is at least as good in all of them and better in one.

    Attributes:
        run: its number. cells: value and interval by measure. unbeaten: None if a value is undefined.
    """

    run: int
    cells: Sequence[tuple[str, str]]
    unbeaten: bool | None


@dataclass(frozen=True, kw_only=True)
class TradeOff:
    """All panels of one family of prompts (of all pictures: an empty title).

    Attributes:
        measures: titles of the columns of ``rows``, by protocol.
    """

    title: str
    panels: Sequence[Panel]
    measures: Mapping[str, Sequence[str]]
    rows: Mapping[str, Sequence[Row]]


def trade_offs(
    scores: Sequence[Sequence[Score]], *, kind: str, names: Sequence[str], labels: Sequence[str]
) -> list[TradeOff]:
    """Trade-offs of a page; none for a single run, or a suite without measures that compete.

    Args:
        scores: of each run. kind: of the suites. names: of the runs. labels: what is written beside their marks.
    """
    aims = AIMS.get(kind, {})
    if len(scores) < 2:
        return []
    families = dict.fromkeys(
        str(s.group.get("family", ""))
        for of in scores
        for s in of
        if s.metric in aims and not set(s.group) - {"family"}
    )
    found = []
    for family in families:
        group = {"family": family} if family else {}
        by_protocol = {
            protocol: {metric: [_score(of, metric, protocol, group) for of in scores] for metric in aims}
            for protocol in PROTOCOLS
        }
        panels = []
        for x, y in itertools.combinations(aims, 2):
            versions: dict[str, Markup | None] = {
                p: _panel(x, y, by_protocol[p], aims, names, labels, f"{prompt_form(family)}, {p}" if family else p)
                for p in PROTOCOLS
            }
            if any(v is not None for v in versions.values()):
                panels.append(Panel(title=f"{aims[x]} and {aims[y]}", versions=versions))
        if panels:
            kept = {p: [m for m, of in by_protocol[p].items() if any(map(_defined, of))] for p in PROTOCOLS}
            found.append(
                TradeOff(
                    title=prompt_form(family) if family else "",
                    panels=panels,
                    measures={p: [title(m) for m in kept[p]] for p in PROTOCOLS},
                    rows={p: _rows([by_protocol[p][m] for m in kept[p]], len(scores)) for p in PROTOCOLS},
                )
            )
    return found


def _score(found: Sequence[Score], metric: str, protocol: str, group: Mapping[str, str]) -> Score | None:
    return next((s for s in found if s.metric == metric and s.protocol == protocol and s.group == group), None)


def _defined(score: Score | None) -> bool:
    return score is not None and math.isfinite(score.value)


def _front(columns: Sequence[Sequence[Score]]) -> list[bool]:
    """Which runs no other beats; a measure per column, all defined."""
    points = [[s.value for s in row] for row in zip(*columns)]
    front = pareto_front(points, higher_is_better=[c[0].higher_is_better is not False for c in columns])
    return [bool(best) for best in front]


def _panel(
    x: str,
    y: str,
    scores: Mapping[str, Sequence[Score | None]],
    aims: Mapping[str, str],
    names: Sequence[str],
    labels: Sequence[str],
    where: str,
) -> Markup | None:
    both = [(i, a, b) for i, (a, b) in enumerate(zip(scores[x], scores[y])) if a and b and _defined(a) and _defined(b)]
    if len(both) < 2:
        return None
    front = _front([[a for _, a, _ in both], [b for _, _, b in both]])
    placed = [
        plots.Placed(
            run=i,
            name=labels[i],
            told=f"{names[i]}: {title(x)} {cell(a)}, {title(y)} {cell(b)}" + ("; on the front" if best else ""),
            x=a,
            y=b,
            on_front=best,
        )
        for (i, a, b), best in zip(both, front, strict=True)
    ]
    return plots.trade_off(
        placed=placed,
        x_name=_axis_name(both[0][1], aims[x]),
        y_name=_axis_name(both[0][2], aims[y]),
        label=f"{title(x)} and {title(y)} of every run, {where}; numbers: table below",
    )


def _axis_name(score: Score, aim: str) -> str:
    unit = {"share": ", %", "cosine": ", cosine"}.get(score.unit, "")
    lower = ", lower is better" if score.higher_is_better is False else ""
    named = title(score.metric)
    return f"{named}{unit}{lower}" if named == aim else f"{named}{unit}{lower} ({aim})"


def _rows(columns: Sequence[Sequence[Score | None]], n_runs: int) -> list[Row]:
    """Every run with its place among all of those that have all values."""
    whole = [i for i in range(n_runs) if columns and all(_defined(c[i]) for c in columns)]
    front = _front([[s for i in whole if (s := c[i]) is not None] for c in columns]) if whole else []
    unbeaten = dict(zip(whole, front))
    return [
        Row(
            run=i,
            cells=[(UNDEFINED, "") if (s := c[i]) is None else (value(s), interval(s)) for c in columns],
            unbeaten=unbeaten.get(i),
        )
        for i in range(n_runs)
    ]


# ------------------------------------------------------------------------------------------------------- names of runs
def differing_setting(runs: Sequence[Run]) -> tuple[str, list[str]] | None:
    """The one setting in which runs differ, and its value in each; None if they differ in several, or in no short one.

    Options of the generator count one by one: of ``model?steps=50`` and ``model?steps=20``, it is ``steps``.
    """
    settings = [dict(_leaves(run.manifest.get("settings", {}))) for run in runs]
    keys = [k for k in dict.fromkeys(k for s in settings for k in s) if len({s.get(k) for s in settings}) > 1]
    if len(keys) != 1:
        return None
    values = [s.get(keys[0], "default") for s in settings]
    name = keys[0]
    options = [dict(OPTION.findall(v)) for v in values]
    within = [k for k in dict.fromkeys(k for o in options for k in o) if len({o.get(k) for o in options}) > 1]
    if len({re.split(r"[?\s]", OPTION.sub("", v))[0] for v in values}) == 1 and len(within) == 1:
        name, values = within[0], [o.get(within[0], "default") for o in options]
    return (name, values) if all(len(v) <= LONGEST for v in values) else None


def _leaves(record: Any, name: str = "") -> list[tuple[str, str]]:
    if isinstance(record, Mapping):
        return [leaf for key in record for leaf in _leaves(record[key], f"{name}.{key}" if name else str(key))]
    return [(name, str(record))]
