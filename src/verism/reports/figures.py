"""Figures as inline SVG, drawn by hand: small, sharp at every size, and coloured by the page's style sheet.

Functions take scores (shares in [0, 1]) and give markup that is safe to insert: every text is escaped here. Colours
are classes (``r0`` ... ``r7`` for runs), so that light, dark and printed pages each have their own. A score that is
missing or undefined is drawn as a dash, not as zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from markupsafe import Markup, escape

from verism.records import Score
from verism.reports.svg import GLYPH_WIDTH, RUN_COLORS, cut, line, mark, svg, text, trimmed
from verism.reports.tables import UNDEFINED, interval, percent

__all__ = ["count_heat_map", "facet_bars", "interval_plot", "picture_boxes"]


def _described(name: str, score: Score) -> str:
    parts = f"{name}: {percent(score.value)} % {interval(score)}".rstrip()
    return f"{parts}, {score.n_used} used, {score.n_unusable} unusable"


def _counted(score: Score) -> str:
    return f"n {score.n_used:,}" + (f" + {score.n_unusable:,} unusable" if score.n_unusable else "")


def _widest(cells: Sequence[Sequence[Score | None]]) -> int:
    """Characters of the longest remark on numbers of pictures."""
    return max((len(_counted(score)) for row in cells for score in row if score is not None), default=0)


def interval_plot(
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Sequence[Sequence[Score | None]],
    reference: Mapping[str, float],
    label: str,
) -> Markup:
    """Dots with whiskers: one panel per column on a common axis from 0 to 100 %, one line per row.

    Args:
        rows: names of the runs. columns: names of the panels.
        cells: scores, shape (rows, columns).
        reference: per column, a share drawn as a dashed line (shuffled pictures); columns may be missing.
        label: what the figure shows, for screen readers.
    """
    names_width = min(230.0, 24 + max(len(name) for name in rows) * 12.5 * GLYPH_WIDTH)
    panel, gap, row_height, top = 150.0, 26.0, 28.0, 34.0
    width = names_width + len(columns) * (panel + gap)  # half a gap on the left of each panel, half on the right
    bottom = top + len(rows) * row_height
    parts: list[str] = []
    for k, column in enumerate(columns):
        left = names_width + k * (panel + gap) + gap / 2
        parts.append(text(left, 16, column, "head"))
        for tick in (0, 25, 50, 75, 100):
            x = left + panel * tick / 100
            parts.append(line(x, top - 8, x, bottom + 4, "axis" if tick == 0 else "rule"))
            if tick % 50 == 0:
                parts.append(text(x, bottom + 19, str(tick), "tick", "middle"))
        if column in reference and not math.isnan(reference[column]):
            x = left + panel * reference[column]
            parts.append(
                f"<g>{line(x, top - 8, x, bottom + 4, 'ref')}"
                f"<title>shuffled pictures: {percent(reference[column])} %</title></g>"
            )
        for i, name in enumerate(rows):
            y = top + (i + 0.5) * row_height
            if k == 0:
                shown = escape(cut(name, names_width - 16, 12.5))
                parts.append(
                    f'<g class="r{i % RUN_COLORS}">{mark(i, 6, y)}</g>'
                    f'<text x="18" y="{trimmed(y + 4)}">{shown}<title>{escape(name)}</title></text>'
                )
            score = cells[i][k]
            if score is None or math.isnan(score.value):
                parts.append(text(left + panel / 2, y + 4, UNDEFINED, "none", "middle"))
                continue
            whisker = ""
            if not math.isnan(score.ci_low):
                whisker = line(left + panel * score.ci_low, y, left + panel * score.ci_high, y, "whisker")
            parts.append(
                f'<g class="r{i % RUN_COLORS}">{whisker}{mark(i, left + panel * score.value, y)}'
                f"<title>{escape(_described(name, score))}</title></g>"
            )
    return svg(width, bottom + 26, label, parts, "wide")


def facet_bars(
    *, levels: Sequence[str], rows: Sequence[str], cells: Sequence[Sequence[Score | None]], label: str
) -> Markup:
    """Bars with whiskers: per level of a facet one bar for each run, with its value and number of pictures.

    Args:
        levels: names of the facet's values. rows: names of the runs.
        cells: scores, shape (levels, rows).
        label: what the figure shows, for screen readers.
    """
    names_width = min(170.0, 14 + max((len(level) for level in levels), default=0) * 12.5 * GLYPH_WIDTH)
    bars, numbers = 220.0, 52.0 + _widest(cells) * 11 * GLYPH_WIDTH
    thick = 12.0 if len(rows) == 1 else 10.0
    pitch = thick + (0.0 if len(rows) == 1 else 4.0)
    block = len(rows) * pitch + 9.0
    top, left = 6.0, names_width
    bottom = top + len(levels) * block
    parts: list[str] = []
    for tick in (0, 25, 50, 75, 100):
        x = left + bars * tick / 100
        parts.append(line(x, top, x, bottom, "axis" if tick == 0 else "rule"))
        if tick % 50 == 0:
            parts.append(text(x, bottom + 15, str(tick), "tick", "middle"))
    for k, level in enumerate(levels):
        start = top + k * block + 4.5
        middle = start + len(rows) * pitch / 2
        shown = escape(cut(level, names_width - 8, 12.5))
        parts.append(
            f'<text x="{trimmed(left - 8)}" y="{trimmed(middle + 4)}" text-anchor="end">{shown}'
            f"<title>{escape(level)}</title></text>"
        )
        for i, name in enumerate(rows):
            y = start + i * pitch
            middle = y + thick / 2
            score = cells[k][i]
            if score is None or math.isnan(score.value):
                parts.append(text(left + bars + 44, middle + 3.5, UNDEFINED, "value", "end"))
                if score is not None:
                    parts.append(text(left + bars + 52, middle + 3.5, _counted(score), "count"))
                continue
            whisker = ""
            if not math.isnan(score.ci_low):
                whisker = line(left + bars * score.ci_low, middle, left + bars * score.ci_high, middle, "whisker")
            parts.append(
                f'<g class="r{i % RUN_COLORS}"><rect class="amount" x="{trimmed(left)}" y="{trimmed(y)}" '
                f'width="{trimmed(bars * score.value)}" height="{trimmed(thick)}"/>{whisker}'
                f"<title>{escape(f'{level}, {_described(name, score)}')}</title></g>"
                + text(left + bars + 44, middle + 3.5, percent(score.value), "value", "end")
                + text(left + bars + 52, middle + 3.5, _counted(score), "count")
            )
    return svg(left + bars + numbers, bottom + 22, label, parts, "bars")


def count_heat_map(*, scores: Sequence[Score], label: str) -> Markup:
    """How many objects were asked for (rows) and found (columns), in per cent of the usable pictures of the row.

    Args:
        scores: metric ``count_found``, whose groups have ``count`` and ``found``.
        label: what the figure shows, for screen readers.
    """
    shares = {(int(s.group["count"] or 0), int(s.group["found"] or 0)): s for s in scores}
    asked = sorted({count for count, _ in shares})
    last = max([*asked, *(found for _, found in shares)], default=0)
    # One spurious 37 would make the map unreadably wide: beyond twice the usual, numbers share a column.
    cap = min(last, max([*asked, 0]) + 4)
    cell, left, top = 46.0, 62.0, 44.0
    parts = [
        text(left + (cap + 1) * cell / 2, 14, "found", "head", "middle"),
        *(
            text(left + (f + 0.5) * cell, top - 10, f"{f}+" if f == cap < last else str(f), "tick", "middle")
            for f in range(cap + 1)
        ),
    ]
    for i, count in enumerate(asked):
        y = top + i * cell
        n_used = next(s.n_used for (c, _), s in shares.items() if c == count)
        parts.append(text(left - 12, y + cell / 2 + 4, f"asked {count}" if i == 0 else str(count), "tick", "end"))
        parts.append(text(left + (cap + 1) * cell + 8, y + cell / 2 + 4, f"n {n_used:,}", "tick"))
        for found in range(cap + 1):
            x = left + found * cell
            pooled = [s for (c, f), s in shares.items() if c == count and min(f, cap) == found]
            share = math.fsum(s.value for s in pooled)
            strong = " strong" if share > 0.55 else ""
            diagonal = " diagonal" if found == count else ""
            shown = percent(share).removesuffix(".0") if pooled else "·"
            words = f"asked {count}, found {found}{' or more' if found == cap < last else ''}: {percent(share)} %"
            if len(pooled) == 1:
                words += f" {interval(pooled[0])}".rstrip()
            parts.append(
                f'<g class="cell{strong}{diagonal}"><rect x="{trimmed(x + 1)}" y="{trimmed(y + 1)}" '
                f'width="{trimmed(cell - 2)}" height="{trimmed(cell - 2)}" rx="3" '
                f'style="--share:{share:.3f}"/>'
                + text(x + cell / 2, y + cell / 2 + 4, shown, "", "middle")
                + f"<title>{escape(words)}, {n_used} pictures</title></g>"
            )
    return svg(left + (cap + 1) * cell + 52, top + len(asked) * cell + 6, label, parts, "heat")


def picture_boxes(
    *, width: int, height: int, boxes: Sequence[tuple[float, float, float, float, str, bool]]
) -> Markup | None:
    """Boxes to lay over a picture, in its own pixels; None if there is nothing to draw.

    Args:
        width, height: of the picture.
        boxes: ``(x0, y0, x1, y1, text, wanted)`` in pixels; ``wanted`` says whether the prompt asks for such an object.
    """
    if not boxes or width < 1 or height < 1:
        return None
    size = max(width, height) / 20
    outlines, tags = [], []
    for x0, y0, x1, y1, words, wanted in boxes:
        if not all(map(math.isfinite, (x0, y0, x1, y1))):
            continue
        a, b = min(max(x0, 0.0), width), min(max(y0, 0.0), height)
        c, d = min(max(x1, a), width), min(max(y1, b), height)
        tag_width = len(words) * size * GLYPH_WIDTH + size * 0.5
        # The tag sits on the box, or inside it at the upper edge of the picture; never beyond the right edge.
        tag_x = max(0.0, min(a, width - tag_width))
        tag_y = b - size * 1.25 if b >= size * 1.25 else b
        css = "wanted" if wanted else "other"
        outlines.append(
            f'<rect class="outline {css}" x="{trimmed(a)}" y="{trimmed(b)}" '
            f'width="{trimmed(c - a)}" height="{trimmed(d - b)}"/>'
        )
        tags.append(
            f'<g class="tag {css}"><rect x="{trimmed(tag_x)}" y="{trimmed(tag_y)}" width="{trimmed(tag_width)}" '
            f'height="{trimmed(size * 1.25)}"/>'
            f'<text x="{trimmed(tag_x + size * 0.25)}" y="{trimmed(tag_y + size * 0.94)}">{escape(words)}</text></g>'
        )
    parts = [*outlines, *reversed(tags)]  # where tags overlap, the most confident one stays readable
    return Markup(
        f'<svg class="boxes" viewBox="0 0 {width} {height}" style="font-size:{trimmed(size)}px" '
        f'aria-hidden="true">{"".join(parts)}</svg>'
    )
