"""Realism against diversity against agreement with the text, over several runs: which of them no other run beats.

The page that EvalGIM draws over a sweep of a setting of the generator, here with the interval of every mark.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from markupsafe import Markup

from verism.metrics.pareto import pareto_front
from verism.records import FacetValue, Score
from verism.report_kit.evidence import Evidence
from verism.report_kit.figures import FigureByProtocol, figure, part
from verism.report_kit.maps import Placed, trade_off
from verism.report_kit.section import Section
from verism.report_kit.words import UNDEFINED, cell, interval, value
from verism.store import Run

__all__ = ["Row", "TradeOff", "differing_setting", "trade_off_section", "trade_offs"]

LONGEST = 24  # characters of a setting's value that can stand beside a mark
OPTION = re.compile(r"([A-Za-z_][\w.-]*)=([^\s&;,?]+)")


@dataclass(frozen=True, kw_only=True)
class Row:
    """A run's values, and whether no other run is at least as good in all of them and better in one.

    Attributes:
        run: its number.
        cells: value and interval by metric.
        unbeaten: None if a value is undefined.
    """

    run: int
    cells: Sequence[tuple[str, str]]
    unbeaten: bool | None


@dataclass(frozen=True, kw_only=True)
class TradeOff:
    """All panels of one family of prompts.

    Attributes:
        title: of the family; empty for all images.
        panels: two metrics against each other.
        metrics: titles of the columns of ``rows``, by protocol.
        rows: by protocol, a row per run.
    """

    title: str
    panels: Sequence[FigureByProtocol]
    metrics: Mapping[str, Sequence[str]]
    rows: Mapping[str, Sequence[Row]]


def trade_off_section(evidence: Evidence, aims: Mapping[str, str]) -> Section | None:
    """Metrics that compete, two by two over all runs; None for a single run, or without such numbers.

    Args:
        evidence: what the report is made of.
        aims: by metric, what it stands for (realism, diversity ...).
    """
    setting = differing_setting(evidence.runs)
    labels = setting[1] if setting else list(evidence.names)
    result = trade_offs(evidence, aims, labels)
    if not result:
        return None
    body = part(evidence, "trade_offs.html.j2", trade_offs=result, setting=setting[0] if setting else "", labels=labels)
    return Section(title="Trade-offs", id="trade-offs", body=body)


def trade_offs(evidence: Evidence, aims: Mapping[str, str], labels: Sequence[str]) -> list[TradeOff]:
    """Trade-offs of a page; none for a single run.

    Args:
        evidence: what the report is made of.
        aims: by metric, what it stands for.
        labels: of the runs, written beside their marks.
    """
    if len(evidence.runs) < 2:
        return []
    split = evidence.vocabulary.split
    groups: dict[tuple[tuple[str, FacetValue], ...], None] = {
        tuple(s.group.items()): None
        for members in evidence.scores
        for s in members
        if s.metric in aims and not set(s.group) - split
    }
    results = []
    for group in groups:
        form = ", ".join(evidence.vocabulary.value_name(*item) for item in group)
        by_protocol = {
            protocol: {
                metric: [members.find(metric, protocol, dict(group)) for members in evidence.lookups] for metric in aims
            }
            for protocol in evidence.protocols
        }
        panels: list[FigureByProtocol] = []
        for x, y in itertools.combinations(aims, 2):

            def draw(
                protocol: str,
                pair: tuple[str, str] = (x, y),
                by: Mapping[str, Mapping[str, Sequence[Score | None]]] = by_protocol,
                form: str = form,
            ) -> Markup | None:
                where = ", ".join(filter(None, (form, protocol)))
                return _panel(evidence, pair, aims, by[protocol], labels, where)

            panels += figure(f"{aims[x]} and {aims[y]}", evidence.protocols, draw)
        if panels:
            kept = {p: [m for m, members in by.items() if any(map(_defined, members))] for p, by in by_protocol.items()}
            results.append(
                TradeOff(
                    title=form,
                    panels=panels,
                    metrics={p: [evidence.vocabulary.title(m) for m in members] for p, members in kept.items()},
                    rows={p: _rows([by_protocol[p][m] for m in members], len(labels)) for p, members in kept.items()},
                )
            )
    return results


def _defined(score: Score | None) -> bool:
    return score is not None and math.isfinite(score.value)


def _front(columns: Sequence[Sequence[Score]]) -> list[bool]:
    """Which runs no other beats; a measure per column, all defined."""
    points = [[s.value for s in row] for row in zip(*columns)]
    front = pareto_front(points, higher_is_better=[c[0].higher_is_better is not False for c in columns])
    return [bool(best) for best in front]


def _panel(
    evidence: Evidence,
    pair: tuple[str, str],
    aims: Mapping[str, str],
    scores: Mapping[str, Sequence[Score | None]],
    labels: Sequence[str],
    where: str,
) -> Markup | None:
    x, y = pair
    both = [(i, a, b) for i, (a, b) in enumerate(zip(scores[x], scores[y])) if a and b and _defined(a) and _defined(b)]
    if len(both) < 2:
        return None
    front = _front([[a for _, a, _ in both], [b for _, _, b in both]])
    titles = [evidence.vocabulary.title(metric) for metric in pair]
    placed = [
        Placed(
            run=i,
            name=labels[i],
            tooltip=f"{evidence.names[i]}: {titles[0]} {cell(a)}, {titles[1]} {cell(b)}"
            + ("; on the front" if best else ""),
            x=a,
            y=b,
            on_front=best,
        )
        for (i, a, b), best in zip(both, front, strict=True)
    ]
    return trade_off(
        placed=placed,
        x_name=_axis_name(evidence, both[0][1], aims[x]),
        y_name=_axis_name(evidence, both[0][2], aims[y]),
        label=f"{titles[0]} and {titles[1]} of every run, {where}; numbers: table below",
    )


def _axis_name(evidence: Evidence, score: Score, aim: str) -> str:
    title, unit = evidence.vocabulary.title(score.metric), evidence.vocabulary.unit(score.unit)
    lower = ", lower is better" if score.higher_is_better is False else ""
    named = ", ".join(filter(None, (title, unit if unit != title else ""))) + lower
    return named if title == aim else f"{named} ({aim})"


def _rows(columns: Sequence[Sequence[Score | None]], n_runs: int) -> list[Row]:
    """Every run with its place among all of those that have all values."""
    full = [i for i in range(n_runs) if columns and all(_defined(c[i]) for c in columns)]
    front = _front([[s for i in full if (s := c[i]) is not None] for c in columns]) if full else []
    unbeaten = dict(zip(full, front))
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
    settings = [dict(_leaves(_own(run))) for run in runs]
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


def _own(run: Run) -> Mapping[str, Any]:
    """Settings of a run, those of its suite without the name of their place."""
    record = asdict(run.manifest.settings)
    return {**{k: v for k, v in record.items() if k != "suite_settings"}, **record["suite_settings"]}


def _leaves(record: Any, name: str = "") -> list[tuple[str, str]]:
    if isinstance(record, Mapping):
        return [leaf for key in record for leaf in _leaves(record[key], f"{name}.{key}" if name else str(key))]
    return [(name, str(record))]
