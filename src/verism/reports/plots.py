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
from verism.reports.measures import cell, number
from verism.reports.svg import GLYPH_WIDTH, RUN_COLORS, cut, line, mark, svg, text, trimmed
from verism.reports.tables import UNDEFINED

__all__ = ["Point", "group_dots", "group_map", "scatter"]

TICKS = 4


def _axis(scores: Sequence[Score | None]) -> tuple[float, float]:
    """Ends of a common axis: 0 to 1 for shares; otherwise round numbers around values and intervals."""
    found = [s for s in scores if s is not None and not math.isnan(s.value)]
    if not found or all(s.unit == "share" for s in found):
        return 0.0, 1.0
    ends = [v for s in found for v in (s.value, s.ci_low, s.ci_high) if not math.isnan(v)]
    low, high = min(ends), max(ends)
    if low >= 0 and low < 0.6 * high:
        low = 0.0  # a bar from zero says more than one from nowhere
    room = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    return (0.0 if low == 0 else low - room), high + room


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
    every = [score for row in cells for score in row]
    low, high = _axis(every)
    unit = next((s.unit for s in every if s is not None), "share")
    words = [[UNDEFINED if s is None else cell(s) for s in row] for row in cells]
    names_width = min(190.0, 14 + max((len(level) for level in levels), default=0) * 12.5 * GLYPH_WIDTH)
    plot, numbers = 230.0, 16 + max((len(w) for row in words for w in row), default=1) * 11.5 * GLYPH_WIDTH
    pitch, top, left = 17.0, 6.0, names_width
    block = len(rows) * pitch + 7.0
    bottom = top + len(levels) * block

    def x_of(value: float) -> float:
        return left + plot * min(max((value - low) / (high - low), 0.0), 1.0)

    parts: list[str] = []
    for tick in range(TICKS + 1):
        value = low + (high - low) * tick / TICKS
        parts.append(line(x_of(value), top, x_of(value), bottom, "axis" if tick == 0 else "rule"))
        if tick % 2 == 0:
            parts.append(text(x_of(value), bottom + 15, number(value, unit), "tick", "middle"))
    for k, level in enumerate(levels):
        start = top + k * block + 3.5
        middle = start + len(rows) * pitch / 2
        shown = escape(cut(level, names_width - 8, 12.5))
        parts.append(
            f'<text x="{trimmed(left - 8)}" y="{trimmed(middle + 4)}" text-anchor="end">{shown}'
            f"<title>{escape(level)}</title></text>"
        )
        if k < len(reference) and (known := reference[k]) is not None and not math.isnan(known):
            x = x_of(known)
            told = f"equal distributions would give {number(known, unit)}"
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


def group_map(
    *, rows: Sequence[str], columns: Sequence[str], cells: Mapping[tuple[str, str], Score], label: str
) -> Markup:
    """A map of two facets: the darker, the higher; every cell with its value. For shares.

    Args:
        rows, columns: names of the facets' values. cells: scores by (row, column); those not there stay open.
        label: what the figure shows, for screen readers.
    """
    names_width = min(190.0, 16 + max((len(name) for name in rows), default=0) * 12.5 * GLYPH_WIDTH)
    wide = max(58.0, 10 + max((len(name) for name in columns), default=0) * 11 * GLYPH_WIDTH)
    high, top, left = 21.0, 24.0, names_width
    parts = [text(left + (k + 0.5) * wide, 15, name, "tick", "middle") for k, name in enumerate(columns)]
    for i, row in enumerate(rows):
        y = top + i * high
        parts.append(
            f'<text x="{trimmed(left - 8)}" y="{trimmed(y + 15)}" text-anchor="end">'
            f"{escape(cut(row, names_width - 8, 12.5))}<title>{escape(row)}</title></text>"
        )
        for k, column in enumerate(columns):
            score = cells.get((row, column))
            x = left + k * wide
            if score is None or math.isnan(score.value):
                counted = "" if score is None else f"<title>{escape(f'{row}, {column}: {cell(score)}')}</title>"
                parts.append(f"<g>{text(x + wide / 2, y + 15, UNDEFINED, 'none', 'middle')}{counted}</g>")
                continue
            share = min(max(score.value, 0.0), 1.0)
            strong = " strong" if share > 0.55 else ""
            parts.append(
                f'<g class="{strong.strip()}"><rect x="{trimmed(x + 1)}" y="{trimmed(y + 1)}" '
                f'width="{trimmed(wide - 2)}" height="{trimmed(high - 2)}" rx="3" style="--share:{share:.3f}"/>'
                + text(x + wide / 2, y + 15, number(score.value, score.unit), "", "middle")
                + f"<title>{escape(f'{row}, {column}: {cell(score)}')}</title></g>"
            )
    return svg(left + len(columns) * wide + 6, top + len(rows) * high + 6, label, parts, "heat")


@dataclass(frozen=True)
class Point:
    """A mark of a scatter plot.

    Attributes:
        x, y: shares in [0, 1]. name: shown beside it. kind: number of its colour.
        told: all that is known of it, shown when it is pointed at.
    """

    x: float
    y: float
    name: str
    kind: int
    told: str


def scatter(*, points: Sequence[Point], kinds: Sequence[str], x_name: str, y_name: str, label: str) -> Markup:
    """Two shares against each other, as the papers plot precision against coverage.

    Args:
        points: marks; those with an undefined coordinate are left out, which the caption of the page must say.
        kinds: what the colours stand for. x_name, y_name: names of the axes. label: for screen readers.
    """
    side, left, top = 300.0, 46.0, 12.0
    parts = []
    for tick in range(TICKS + 1):
        share = tick / TICKS
        x, y = left + side * share, top + side * (1 - share)
        parts.append(line(x, top, x, top + side, "axis" if tick == 0 else "rule"))
        parts.append(line(left, y, left + side, y, "axis" if tick == 0 else "rule"))
        parts.append(text(x, top + side + 16, f"{100 * share:.0f}", "tick", "middle"))
        parts.append(text(left - 8, y + 4, f"{100 * share:.0f}", "tick", "end"))
    parts.append(text(left + side / 2, top + side + 34, x_name, "tick", "middle"))
    parts.append(
        f'<text class="tick" text-anchor="middle" transform="translate(12 {trimmed(top + side / 2)}) rotate(-90)">'
        f"{escape(y_name)}</text>"
    )
    for point in points:
        if math.isnan(point.x) or math.isnan(point.y):
            continue
        x, y = left + side * min(max(point.x, 0.0), 1.0), top + side * (1 - min(max(point.y, 0.0), 1.0))
        parts.append(
            f'<g class="r{point.kind % RUN_COLORS}">{mark(point.kind, x, y)}<title>{escape(point.told)}</title></g>'
        )
    for k, kind in enumerate(kinds):
        y = top + 10 + 18 * k
        parts.append(f'<g class="r{k % RUN_COLORS}">{mark(k, left + side + 22, y)}</g>')
        parts.append(text(left + side + 34, y + 4, kind))
    legend = 44 + max((len(kind) for kind in kinds), default=0) * 12.5 * GLYPH_WIDTH
    return svg(left + side + legend, top + side + 42, label, parts, "bars")
