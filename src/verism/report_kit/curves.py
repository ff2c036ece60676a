"""Runs that differ in one number (training steps, guidance ...): their natural order, and metrics as curves over it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from markupsafe import Markup, escape

from verism.records import Score
from verism.report_kit import tables, words
from verism.report_kit.evidence import Evidence, Key, run_names
from verism.report_kit.figures import FigureByProtocol, figure, part
from verism.report_kit.plots import Axis, axis_of
from verism.report_kit.section import Section
from verism.report_kit.svg import trimmed
from verism.report_kit.trade_offs import differing_setting
from verism.store import Run

__all__ = ["curve", "curve_section", "numbered", "run_numbers"]

FEWEST = 3  # points of a curve
MOST_PANELS = 8
HIGH, HEAD, FOOT = 150.0, 10.0, 36.0  # of a panel, in pixels


def run_numbers(names: Sequence[str]) -> tuple[str, list[int]] | None:
    """What the one number is called in which names differ, and its value in each; None if they differ elsewhere.

    >>> run_numbers(["step-999", "step-10000"])
    ('step', [999, 10000])

    Args:
        names: of runs.
    """
    split = [re.split(r"(\d+)", name) for name in names]
    if len(names) < 2 or len({len(parts) for parts in split}) != 1:
        return None
    differing = [k for k, parts in enumerate(zip(*split, strict=True)) if len(set(parts)) > 1]
    if len(differing) != 1 or differing[0] % 2 == 0:
        return None
    (k,) = differing
    values = [int(parts[k]) for parts in split]
    word = re.findall(r"[^\W\d_]+", split[0][k - 1])
    return (word[-1] if word else "number", values) if len(set(values)) == len(values) else None


def numbered(runs: Sequence[Run]) -> list[Run]:
    """Runs whose names differ in one number by that number, others as they come.

    Args:
        runs: any.
    """
    found = run_numbers(run_names(runs))
    if found is None:
        return list(runs)
    return [run for _, run in sorted(zip(found[1], runs, strict=True), key=lambda pair: pair[0])]


def _places(evidence: Evidence) -> tuple[str, list[float]] | None:
    """The number that these runs differ in: of their names, or the one setting in which they differ."""
    found = run_numbers(evidence.names)
    if found is not None:
        return found[0], [float(value) for value in found[1]]
    setting = differing_setting(evidence.runs)
    if setting is None or not all(re.fullmatch(r"-?\d+(\.\d+)?", value) for value in setting[1]):
        return None
    values = [float(value) for value in setting[1]]
    return (setting[0], values) if len(set(values)) == len(values) else None


def curve_section(evidence: Evidence) -> Section | None:
    """The numbers of the first table over the one number in which runs differ; None if they do not, or are few.

    Args:
        evidence: what the report is made of.
    """
    places = _places(evidence) if len(evidence.runs) >= FEWEST else None
    if places is None:
        return None
    name, values = places
    figures: list[FigureByProtocol] = []
    for title, key in _measures(evidence)[:MOST_PANELS]:

        def draw(protocol: str, key: Key = key, title: str = title) -> Markup | None:
            by_run = evidence.columns(protocol)
            scores = [next((s for k, s in column.items() if k == key), None) for column in by_run]
            if sum(s is not None and math.isfinite(s.value) for s in scores) < FEWEST:
                return None
            return curve(
                at=values,
                scores=scores,
                names=evidence.names,
                x_name=name,
                unit=evidence.vocabulary.unit(next(s.unit for s in scores if s is not None)),
                label=f"{title} by {name}, protocol {protocol}; numbers: table above",
            )

        figures += figure(title, evidence.protocols, draw)
    if not figures:
        return None
    body = part(evidence, "curves.html.j2", figures=figures, name=name)
    return Section(title=f"By {name}", id="curves", body=body, generic=True)


def _measures(evidence: Evidence) -> list[tuple[str, Key]]:
    """Titles and keys of the numbers of the first table."""
    names = evidence.vocabulary
    if all(p.layout.kind == "columns" for p in evidence.presentations):
        table = tables.columns_of(evidence)
        keys: list[Key] = [(table.layout.metric, ((table.layout.facet, value),)) for value in table.values]
        titles = list(table.titles)
        if table.layout.mean:
            keys.append((table.layout.mean, ()))
        return list(zip(titles, keys, strict=True))
    found: dict[Key, str] = {}
    for of_run in evidence.scores:
        for s in of_run:
            if names.is_summary(s) and not names.is_detail(s) and evidence.is_headline(s):
                key = names.key_of(s)
                group = names.group_name(key)
                found.setdefault(key, names.title(s.metric) + ("" if group == "all" else f", {group}"))
    return [(title, key) for key, title in found.items()]


def curve(
    *,
    at: Sequence[float],
    scores: Sequence[Score | None],
    names: Sequence[str],
    x_name: str,
    unit: str,
    label: str,
) -> Markup:
    """A metric over a number, with its intervals; it fits any width.

    Args:
        at: the number of each run, all different.
        scores: of each run, of one unit; None and undefined ones have no point.
        names: of the runs.
        x_name: what the number is.
        unit: as written at the axis.
        label: what the figure shows, for screen readers.
    """
    axis = axis_of(list(scores), whole=False)
    low, high = min(at), max(at)
    bottom = HEAD + HIGH

    def y_of(value: float) -> float:
        return bottom - HIGH * axis.at(value)

    def x_of(value: float) -> str:
        return f"{100 * (value - low) / (high - low):.2f}".rstrip("0").rstrip(".") + "%"

    parts = _grid(axis, y_of)
    known = sorted((x, s, name) for x, s, name in zip(at, scores, names, strict=True) if s and math.isfinite(s.value))
    for (x0, a, _), (x1, b, _) in zip(known, known[1:], strict=False):
        ends = f'x1="{x_of(x0)}" y1="{trimmed(y_of(a.value))}" x2="{x_of(x1)}" y2="{trimmed(y_of(b.value))}"'
        parts.append(f'<line class="path" {ends}/>')
    for x, s, name in known:
        whisker = ""
        if words.interval(s):
            ends = f'y1="{trimmed(y_of(s.ci_low))}" y2="{trimmed(y_of(s.ci_high))}"'
            whisker = f'<line class="whisker" x1="{x_of(x)}" x2="{x_of(x)}" {ends}/>'
        dot = f'<circle class="dot" cx="{x_of(x)}" cy="{trimmed(y_of(s.value))}" r="4"/>'
        parts.append(f'<g class="r0">{whisker}{dot}<title>{escape(f"{name}: {words.cell(s)}")}</title></g>')
    parts += _marks(at, x_of, bottom)
    drawing = Markup(f'<svg aria-hidden="true" width="100%" height="{trimmed(bottom + FOOT)}">{"".join(parts)}</svg>')
    frame = '<div class="curve" role="group" aria-label="{}">{}<p class="unit">{}</p></div>'
    return Markup(frame).format(label, drawing, f"{unit} by {x_name}" if unit else x_name)


def _grid(axis: Axis, y_of: Callable[[float], float]) -> list[str]:
    parts = []
    for k, tick in enumerate(axis.ticks):
        y = trimmed(y_of(tick))
        parts.append(f'<line class="{"axis" if k == 0 else "rule"}" x1="0" x2="100%" y1="{y}" y2="{y}"/>')
        written = words.minus(axis.written(tick))
        parts.append(f'<text class="tick" x="0" dx="-8" y="{y}" dy="4" text-anchor="end">{escape(written)}</text>')
    return parts


def _marks(at: Sequence[float], x_of: Callable[[float], str], bottom: float) -> list[str]:
    """The numbers below the axis: those at both ends, and between them those that have room."""
    low, high = min(at), max(at)
    shown = [low]
    for value in sorted(at)[1:-1]:
        if value - shown[-1] > 0.22 * (high - low) and high - value > 0.22 * (high - low):
            shown.append(value)
    shown.append(high)
    return [
        f'<text class="tick" x="{x_of(value)}" y="{trimmed(bottom + 18)}" text-anchor="middle">{value:,.10g}</text>'
        for value in shown
    ]
