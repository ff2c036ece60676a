"""Figures of measures: dots with whiskers on any scale, maps of two facets, two measures against each other.

As ``figures``: inline SVG whose every text is escaped, colours by class, a dash for what is undefined. Scores may have
any unit; shares are written in per cent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from verism.records import Score
from verism.reports.measure_names import unit_name
from verism.reports.measures import cell, number
from verism.reports.svg import GLYPH_WIDTH, RUN_COLORS, cut, line, mark, svg, text, trimmed
from verism.reports.tables import UNDEFINED

__all__ = ["Axis", "Placed", "Point", "axis_of", "group_dots", "group_map", "scatter", "trade_off"]

STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
MOST_TICKS = 5
PALEST, DARKEST = 0.05, 0.55  # of the colour of a map; beyond that its numbers would be hard to read


# ---------------------------------------------------------------------------------------------------------------- axes
@dataclass(frozen=True)
class Axis:
    """A scale from ``low`` to ``high`` with its marks, in the unit of the scores."""

    low: float
    high: float
    ticks: Sequence[float]
    unit: str

    def at(self, number: float) -> float:
        """Where a value lies, in [0, 1]; what is beyond an end lies on it."""
        return min(max((number - self.low) / (self.high - self.low), 0.0), 1.0)

    def written(self, tick: float) -> str:
        """A mark's value, with as many decimals as tell it from its neighbours; shares in per cent."""
        factor = 100.0 if self.unit == "share" else 1.0
        step = (self.ticks[1] - self.ticks[0]) * factor if len(self.ticks) > 1 else 1.0
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        if abs(step * 10**decimals - round(step * 10**decimals)) > 1e-6:
            decimals += 1  # steps of 2.5
        return f"{tick * factor + 0.0:.{decimals}f}"


def axis_of(scores: Sequence[Score | None], *, whole: bool = True) -> Axis:
    """A common axis, its ends at round numbers around all values and intervals.

    Args:
        scores: of one unit; those that are undefined do not count.
        whole: whether an axis of shares reaches from 0 to 100 % in any case. Other axes begin at zero unless the
            values lie close together and far from it.
    """
    found = [s for s in scores if s is not None and not math.isnan(s.value)]
    unit = next((s.unit for s in (found or scores) if s is not None), "share")
    if not found or (whole and unit == "share"):
        return Axis(0.0, 1.0, [0.0, 0.25, 0.5, 0.75, 1.0], unit)
    ends = [v for s in found for v in (s.value, s.ci_low, s.ci_high) if math.isfinite(v)] or [0.0, 1.0]
    low, high = min(ends), max(ends)
    if low >= 0 and low < 0.6 * high and whole:
        low = 0.0  # a distance from zero says more than one from nowhere
    if high - low < 1e-12 * max(1.0, abs(high)):
        room = abs(high) * 0.1 or 1.0
        low, high = low - room, high + room
    step = _step((high - low) / MOST_TICKS)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = [k * step for k in range(first, last + 1)]
    if unit == "share":
        ticks = [t for t in ticks if -1e-9 <= t <= 1 + 1e-9]
    return Axis(ticks[0], ticks[-1], ticks, unit)


def _step(least: float) -> float:
    """The smallest round number that is at least this large."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(s * power for s in STEPS if s * power >= least * (1 - 1e-9))


# --------------------------------------------------------------------------------------------------- groups, run by run
def group_dots(
    *,
    levels: Sequence[str],
    rows: Sequence[str],
    cells: Sequence[Sequence[Score | None]],
    reference: Sequence[float | None] = (),
    label: str,
) -> Markup:
    """Per level of a facet, one dot with its whisker for each run, beside its value and number of pictures.

    Args:
        levels: names of the facet's values. rows: names of the runs.
        cells: scores, shape (levels, rows), of one unit.
        reference: per level, a value drawn as a dashed stroke (what equal distributions would give), or None.
        label: what the figure shows, for screen readers.
    """
    axis = axis_of([score for row in cells for score in row])
    words = [[UNDEFINED if s is None else cell(s) for s in row] for row in cells]
    names_width = min(190.0, 14 + max((len(level) for level in levels), default=0) * 12.5 * GLYPH_WIDTH)
    plot, numbers = 230.0, 16 + max((len(w) for row in words for w in row), default=1) * 11.5 * GLYPH_WIDTH
    pitch, top, left = 17.0, 6.0, names_width
    block = len(rows) * pitch + 7.0
    bottom = top + len(levels) * block

    def x_of(number: float) -> float:
        return left + plot * axis.at(number)

    parts: list[str] = []
    for k, tick in enumerate(axis.ticks):
        parts.append(line(x_of(tick), top, x_of(tick), bottom, "axis" if k == 0 else "rule"))
        if k % 2 == 0 or len(axis.ticks) < 5:
            parts.append(text(x_of(tick), bottom + 15, axis.written(tick), "tick", "middle"))
    parts.append(text(left + plot + 26, bottom + 15, unit_name(axis.unit), "tick"))
    for k, level in enumerate(levels):
        start = top + k * block + 3.5
        middle = start + len(rows) * pitch / 2
        parts.append(_row_name(level, left - 8, middle + 4, names_width - 8))
        if k < len(reference) and (known := reference[k]) is not None and not math.isnan(known):
            x = x_of(known)
            told = f"equal distributions would give {number(known, axis.unit)}"
            parts.append(f"<g>{line(x, start, x, start + block - 7, 'ref')}<title>{escape(told)}</title></g>")
        for i, name in enumerate(rows):
            y = start + (i + 0.5) * pitch
            score = cells[k][i]
            parts.append(text(left + plot + 12, y + 4, words[k][i], "count"))
            if score is None or math.isnan(score.value):
                continue
            whisker = ""
            if not math.isnan(score.ci_low) and not math.isnan(score.ci_high):
                whisker = line(x_of(score.ci_low), y, x_of(score.ci_high), y, "whisker")
            parts.append(
                f'<g class="r{i % RUN_COLORS}">{whisker}{mark(i, x_of(score.value), y)}'
                f"<title>{escape(f'{level}, {name}: {words[k][i]}')}</title></g>"
            )
    return svg(left + plot + numbers, bottom + 22, label, parts, "bars")


def _row_name(name: str, x: float, y: float, room: float) -> str:
    return (
        f'<text x="{trimmed(x)}" y="{trimmed(y)}" text-anchor="end">{escape(cut(name, room, 12.5))}'
        f"<title>{escape(name)}</title></text>"
    )


# ---------------------------------------------------------------------------------------------------------------- maps
def group_map(
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Mapping[tuple[str, str], Score],
    scale: tuple[float, float] = (0.0, 1.0),
    label: str,
) -> Markup:
    """A map of two facets: the darker, the higher; every cell with its value.

    Args:
        rows, columns: names of the facets' values.
        cells: scores by (row, column), of one unit; those not there, and undefined ones, are dashes.
        scale: the values drawn palest and darkest; written below the map.
        label: what the figure shows, for screen readers.
    """
    names_width = min(190.0, 16 + max((len(name) for name in rows), default=0) * 12.5 * GLYPH_WIDTH)
    wide = min(120.0, max(58.0, 10 + max((len(name) for name in columns), default=0) * 11 * GLYPH_WIDTH))
    high, top, left = 21.0, 24.0, names_width
    unit = next((s.unit for s in cells.values()), "share")
    parts = []
    for k, column in enumerate(columns):
        shown = escape(cut(column, wide - 4, 11))
        parts.append(
            f'<text x="{trimmed(left + (k + 0.5) * wide)}" y="15" class="tick" text-anchor="middle">{shown}'
            f"<title>{escape(column)}</title></text>"
        )
    for i, row in enumerate(rows):
        y = top + i * high
        parts.append(_row_name(row, left - 8, y + 15, names_width - 8))
        for k, column in enumerate(columns):
            score = cells.get((row, column))
            x = left + k * wide
            if score is None or math.isnan(score.value):
                counted = "" if score is None else f"<title>{escape(f'{row}, {column}: {cell(score)}')}</title>"
                parts.append(f"<g>{text(x + wide / 2, y + 15, UNDEFINED, 'none', 'middle')}{counted}</g>")
                continue
            parts.append(
                f'<g><rect x="{trimmed(x + 1)}" y="{trimmed(y + 1)}" width="{trimmed(wide - 2)}" '
                f'height="{trimmed(high - 2)}" rx="3" style="--shade:{_shade(score.value, scale):.3f}"/>'
                + text(x + wide / 2, y + 15, number(score.value, score.unit), "", "middle")
                + f"<title>{escape(f'{row}, {column}: {cell(score)}')}</title></g>"
            )
    bottom = top + len(rows) * high
    ends = " to ".join(number(end, unit).removesuffix(".0") for end in scale)
    key = f"{unit_name(unit)}; palest to darkest: {ends}"
    parts.append(text(left + 1, bottom + 16, key, "tick"))
    width = max(left + len(columns) * wide + 6, left + 8 + len(key) * 11 * GLYPH_WIDTH)
    return svg(width, bottom + 24, label, parts, "heat map")


def _shade(number: float, scale: tuple[float, float]) -> float:
    low, high = scale
    share = 0.5 if high <= low else min(max((number - low) / (high - low), 0.0), 1.0)
    return PALEST + (DARKEST - PALEST) * share


# ------------------------------------------------------------------------------------------- two measures, many groups
@dataclass(frozen=True)
class Point:
    """A mark of a scatter plot.

    Attributes:
        x, y: shares in [0, 1]. kind: number of its colour and shape.
        told: all that is known of it, shown when it is pointed at.
    """

    x: float
    y: float
    kind: int
    told: str


SIDE, LEFT, TOP, MARGIN = 270.0, 58.0, 12.0, 30.0  # of the square that marks lie in; room on its right


def _square(x: Axis, y: Axis, x_name: str, y_name: str) -> list[str]:
    """Grid, numbers and names of two axes."""
    parts = []
    for k, tick in enumerate(x.ticks):
        at = LEFT + SIDE * x.at(tick)
        parts.append(line(at, TOP, at, TOP + SIDE, "axis" if k == 0 else "rule"))
        parts.append(text(at, TOP + SIDE + 16, x.written(tick), "tick", "middle"))
    for k, tick in enumerate(y.ticks):
        at = TOP + SIDE * (1 - y.at(tick))
        parts.append(line(LEFT, at, LEFT + SIDE, at, "axis" if k == 0 else "rule"))
        parts.append(text(LEFT - 6, at + 4, y.written(tick), "tick", "end"))
    parts.append(text(LEFT + SIDE / 2, TOP + SIDE + 34, x_name, "tick", "middle"))
    parts.append(
        f'<text class="tick" text-anchor="middle" transform="translate(11 {trimmed(TOP + SIDE / 2)}) rotate(-90)">'
        f"{escape(y_name)}</text>"
    )
    return parts


def scatter(*, points: Sequence[Point], kinds: Sequence[str], x_name: str, y_name: str, label: str) -> Markup:
    """Two shares against each other, as the papers plot precision against coverage.

    Args:
        points: marks; those with an undefined coordinate are left out, which the caption of the page must say.
        kinds: what colours and shapes stand for. x_name, y_name: names of the axes. label: for screen readers.
    """
    axis = axis_of([])
    parts = _square(axis, axis, x_name, y_name)
    for point in points:
        if math.isnan(point.x) or math.isnan(point.y):
            continue
        x, y = LEFT + SIDE * axis.at(point.x), TOP + SIDE * (1 - axis.at(point.y))
        drawn = mark(point.kind, x, y, shape=point.kind)
        parts.append(f'<g class="r{point.kind % RUN_COLORS}">{drawn}<title>{escape(point.told)}</title></g>')
    shown = [cut(kind, 170, 12.5) for kind in kinds]
    for k, kind in enumerate(shown):
        y = TOP + 10 + 18 * k
        parts.append(f'<g class="r{k % RUN_COLORS}">{mark(k, LEFT + SIDE + 22, y, shape=k)}</g>')
        parts.append(text(LEFT + SIDE + 34, y + 4, kind))
    legend = 44 + max((len(kind) for kind in shown), default=0) * 12.5 * GLYPH_WIDTH
    return svg(LEFT + SIDE + legend, max(TOP + SIDE + 42, TOP + 18 * len(kinds) + 6), label, parts, "bars square")


# ----------------------------------------------------------------------------------------------------------- trade-offs
@dataclass(frozen=True, kw_only=True)
class Placed:
    """A run in the plane of two measures.

    Attributes:
        run: its number, which gives colour and shape. name: written beside the mark. told: shown when pointed at.
        x, y: its scores, both defined. on_front: whether no other run is better in both.
    """

    run: int
    name: str
    told: str
    x: Score
    y: Score
    on_front: bool


def trade_off(*, placed: Sequence[Placed], x_name: str, y_name: str, label: str) -> Markup:
    """Two measures of several runs with their intervals; the runs on the front are joined, the others faint.

    Args:
        placed: the runs. x_name, y_name: names of the axes, with units and the better end. label: for screen readers.
    """
    x_axis = axis_of([p.x for p in placed], whole=False)
    y_axis = axis_of([p.y for p in placed], whole=False)
    parts = _square(x_axis, y_axis, x_name, y_name)

    def at(p: Placed) -> tuple[float, float]:
        return LEFT + SIDE * x_axis.at(p.x.value), TOP + SIDE * (1 - y_axis.at(p.y.value))

    front = sorted((p for p in placed if p.on_front), key=lambda p: (p.x.value, p.y.value))
    if len(front) > 1:
        way = "L".join(f"{trimmed(x)} {trimmed(y)}" for x, y in map(at, front))
        parts.append(f'<path class="front" d="M{way}"/>')
    taken = [(x - 6, y - 6, x + 6, y + 6) for x, y in map(at, placed)]
    for p in placed:
        x, y = at(p)
        drawn = ""
        if not math.isnan(p.x.ci_low) and not math.isnan(p.x.ci_high):
            ends = [LEFT + SIDE * x_axis.at(end) for end in (p.x.ci_low, p.x.ci_high)]
            drawn += line(ends[0], y, ends[1], y, "whisker")
        if not math.isnan(p.y.ci_low) and not math.isnan(p.y.ci_high):
            ends = [TOP + SIDE * (1 - y_axis.at(end)) for end in (p.y.ci_low, p.y.ci_high)]
            drawn += line(x, ends[0], x, ends[1], "whisker")
        faint = "" if p.on_front else " faint"
        parts.append(
            f'<g class="r{p.run % RUN_COLORS}{faint}">{drawn}{mark(p.run, x, y)}<title>{escape(p.told)}</title></g>'
        )
    for p in placed:
        shown = cut(p.name, 150, 12)
        x, y, anchor = _label_place(*at(p), len(shown) * 12 * GLYPH_WIDTH, taken)
        parts.append(text(x, y, shown, "name" if p.on_front else "name faint", anchor))
    return svg(LEFT + SIDE + MARGIN, TOP + SIDE + 42, label, parts, "bars square")


def _label_place(
    x: float, y: float, width: float, taken: list[tuple[float, float, float, float]]
) -> tuple[float, float, str]:
    """Where the name of a mark covers no other name or mark, if there is such a place; it is then taken."""
    sides = [(x + 9, y - 6, "start"), (x - 9, y - 6, "end"), (x + 9, y + 14, "start"), (x - 9, y + 14, "end")]
    options = [*sides, (x, y - 22, "middle"), (x, y + 28, "middle")]
    best: tuple[float, tuple[float, float, str], tuple[float, float, float, float]] | None = None
    for a, b, anchor in options:
        start = a - {"start": 0.0, "end": width, "middle": width / 2}[anchor]
        box = (start, b - 10, start + width, b + 3)
        outside = max(0.0, LEFT - box[0]) + max(0.0, box[2] - (LEFT + SIDE + MARGIN)) + max(0.0, -box[1])
        cost = 20 * outside + sum(_overlap(box, other) for other in taken)
        if best is None or cost < best[0]:
            best = (cost, (a, b, anchor), box)
    assert best is not None  # there are options
    taken.append(best[2])
    return best[1]


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> float:
    wide, high = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    return wide * high if wide > 0 and high > 0 else 0.0
