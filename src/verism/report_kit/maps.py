"""Figures in a plane: maps of two facets, tables of counts, and two metrics against each other.

As ``plots``: inline SVG whose every text is escaped, colours by class, a dash for what is undefined.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from verism.records import Score
from verism.report_kit.plots import Axis, axis_of
from verism.report_kit.svg import GLYPH_WIDTH, RUN_COLORS, cut, line, mark, row_name, svg, text, trimmed
from verism.report_kit.words import UNDEFINED, cell, minus, number

__all__ = ["CountCell", "Placed", "Point", "count_map", "group_map", "scatter", "trade_off"]

PALEST, DARKEST = 0.05, 0.55  # of the colour of a map; beyond that its numbers would be hard to read
STRONG = 0.55  # share of a row from which a count's number is bold


# ---------------------------------------------------------------------------------------------------------------- maps
def group_map(
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Mapping[tuple[str, str], Score],
    scale: tuple[float, float] = (0.0, 1.0),
    unit: str = "%",
    label: str,
) -> Markup:
    """A map of two facets: the darker, the higher; every cell with its value.

    Args:
        rows: names of the values of the facet downwards.
        columns: names of the values of the facet to the right.
        cells: scores by (row, column), of one unit; those not there, and undefined ones, are dashes.
        scale: the values drawn palest and darkest; written below the map.
        unit: as written below the map.
        label: what the figure shows, for screen readers.
    """
    names_width = min(190.0, 16 + max((len(name) for name in rows), default=0) * 12.5 * GLYPH_WIDTH)
    wide = min(120.0, max(58.0, 10 + max((len(name) for name in columns), default=0) * 11 * GLYPH_WIDTH))
    high, top, left = 21.0, 24.0, names_width
    subset = next((s.unit for s in cells.values()), "share")
    parts = []
    for k, column in enumerate(columns):
        shown = escape(cut(column, wide - 4, 11))
        parts.append(
            f'<text x="{trimmed(left + (k + 0.5) * wide)}" y="15" class="tick" text-anchor="middle">{shown}'
            f"<title>{escape(column)}</title></text>"
        )
    for i, row in enumerate(rows):
        y = top + i * high
        parts.append(row_name(row, left - 8, y + 15, names_width - 8))
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
                + text(x + wide / 2, y + 15, minus(number(score.value, score.unit)), "", "middle")
                + f"<title>{escape(f'{row}, {column}: {cell(score)}')}</title></g>"
            )
    bottom = top + len(rows) * high
    ends = " to ".join(number(end, subset).removesuffix(".0") for end in scale)
    key = f"{unit}; palest to darkest: {ends}"
    parts.append(text(left + 1, bottom + 16, key, "tick"))
    width = max(left + len(columns) * wide + 6, left + 8 + len(key) * 11 * GLYPH_WIDTH)
    return svg(width, bottom + 24, label, parts, "heat map")


def _shade(number: float, scale: tuple[float, float]) -> float:
    low, high = scale
    share = 0.5 if high <= low else min(max((number - low) / (high - low), 0.0), 1.0)
    return PALEST + (DARKEST - PALEST) * share


# -------------------------------------------------------------------------------------------------------------- counts
@dataclass(frozen=True, kw_only=True)
class CountCell:
    """A cell of a table of counts.

    Attributes:
        shown: what is written in it.
        share: of its row, in [0, 1]; its colour.
        tooltip: shown when it is pointed at.
        diagonal: whether it is as it should be.
    """

    shown: str
    share: float
    tooltip: str
    diagonal: bool = False


def count_map(
    *,
    head: str,
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Sequence[Sequence[CountCell]],
    beside: Sequence[str] = (),
    height: float = 34.0,
    label: str,
) -> Markup:
    """A table of counts (confusions), coloured by their share of the row.

    Args:
        head: above the names of the columns.
        rows: names of the rows.
        columns: names of the columns.
        cells: shape (rows, columns).
        beside: written on the right of each row; empty for nothing.
        height: of a row, in pixels.
        label: what the figure shows, for screen readers.
    """
    wide = min(96.0, max(46.0 if height > 40 else 40.0, 12 + max(map(len, columns), default=0) * 12 * GLYPH_WIDTH))
    left, top = min(190.0, 20 + max(map(len, rows), default=0) * 12.5 * GLYPH_WIDTH), 40.0
    parts = [text(left + len(columns) * wide / 2, 14, head, "head", "middle")]
    for k, name in enumerate(columns):
        parts.append(text(left + (k + 0.5) * wide, top - 9, cut(name, wide, 11), "tick", "middle"))
    for i, name in enumerate(rows):
        y = top + i * height
        parts.append(text(left - 10, y + height / 2 + 4, cut(name, left - 12, 12), "tick", "end"))
        if beside:
            parts.append(text(left + len(columns) * wide + 8, y + height / 2 + 4, beside[i], "tick"))
        for j, one in enumerate(cells[i]):
            x = left + j * wide
            css = "cell" + (" strong" if one.share > STRONG else "") + (" diagonal" if one.diagonal else "")
            parts.append(
                f'<g class="{css}"><rect x="{trimmed(x + 1)}" y="{trimmed(y + 1)}" width="{trimmed(wide - 2)}" '
                f'height="{trimmed(height - 2)}" rx="3" style="--share:{one.share:.3f}"/>'
                + text(x + wide / 2, y + height / 2 + 4, one.shown, "", "middle")
                + f"<title>{escape(one.tooltip)}</title></g>"
            )
    width = left + len(columns) * wide + 8 + max(map(len, beside), default=0) * 11 * GLYPH_WIDTH
    return svg(width, top + len(rows) * height + 6, label, parts, "heat tally")


# ------------------------------------------------------------------------------------------- two measures, many groups
@dataclass(frozen=True)
class Point:
    """A mark of a scatter plot.

    Attributes:
        x: a share in [0, 1].
        y: a share in [0, 1].
        kind: number of its colour and shape.
        tooltip: all that is known of it, shown when it is pointed at.
    """

    x: float
    y: float
    kind: int
    tooltip: str


SIDE, LEFT, TOP = 270.0, 50.0, 12.0  # of the square that marks lie in
MARGIN, EDGE = 28.0, 14.0  # room on its right with names of marks, and without


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
        kinds: what colours and shapes stand for.
        x_name: name of the axis to the right.
        y_name: name of the axis upwards.
        label: for screen readers.
    """
    axis = axis_of([])
    parts = _square(axis, axis, x_name, y_name)
    for point in points:
        if math.isnan(point.x) or math.isnan(point.y):
            continue
        x, y = LEFT + SIDE * axis.at(point.x), TOP + SIDE * (1 - axis.at(point.y))
        drawn = mark(point.kind, x, y, shape=point.kind)
        parts.append(f'<g class="r{point.kind % RUN_COLORS}">{drawn}<title>{escape(point.tooltip)}</title></g>')
    # The key stands below in two columns: beside the square it would not fit a narrow screen.
    for k, kind in enumerate(kinds):
        x, y = LEFT + (k % 2) * SIDE / 2, TOP + SIDE + 56 + 18 * (k // 2)
        parts.append(f'<g class="r{k % RUN_COLORS}">{mark(k, x, y, shape=k)}</g>')
        parts.append(text(x + 12, y + 4, cut(kind, SIDE / 2 - 14, 12.5)))
    height = TOP + SIDE + 50 + 18 * math.ceil(len(kinds) / 2)
    return svg(LEFT + SIDE + EDGE, height, label, parts, "bars square")


# ----------------------------------------------------------------------------------------------------------- trade-offs
@dataclass(frozen=True, kw_only=True)
class Placed:
    """A run in the plane of two measures.

    Attributes:
        run: its number, which gives colour and shape.
        name: written beside the mark.
        tooltip: shown when pointed at.
        x: its score to the right, defined.
        y: its score upwards, defined.
        on_front: whether no other run is better in both.
    """

    run: int
    name: str
    tooltip: str
    x: Score
    y: Score
    on_front: bool


def trade_off(*, placed: Sequence[Placed], x_name: str, y_name: str, label: str) -> Markup:
    """Two measures of several runs with their intervals; the runs on the front are joined, the others faint.

    Args:
        placed: the runs.
        x_name: name of the axis to the right, with unit and the better end.
        y_name: name of the axis upwards.
        label: for screen readers.
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
            f'<g class="r{p.run % RUN_COLORS}{faint}">{drawn}{mark(p.run, x, y)}<title>{escape(p.tooltip)}</title></g>'
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
