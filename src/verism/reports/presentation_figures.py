"""Figures of differences: diverging bars on an axis that is linear around zero and logarithmic beyond, and scores.

Differences of frequencies span orders of magnitude: on a linear axis a few attributes hide all others, and a
logarithmic one has no zero. As in ``plots``: inline SVG whose every text is escaped, colours by class.

Source of the form: figures of GEP vectors in the GEP paper (2023); drawn here from the scores alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from verism.records import Score
from verism.reports.measure_names import unit_name
from verism.reports.measures import cell, counts, interval, number
from verism.reports.plots import axis_of
from verism.reports.svg import GLYPH_WIDTH, RUN_COLORS, cut, line, mark, svg, text, trimmed
from verism.reports.tables import UNDEFINED

__all__ = ["LEVEL", "Bar", "SymlogAxis", "diverging_bars", "score_dots", "signed", "symlog_axis"]

LEVEL = 0.05  # p-values below it are called a difference
ENDS = (1.0, 2.0, 5.0, 10.0)  # an axis ends at one of these times a power of ten


@dataclass(frozen=True)
class SymlogAxis:
    """An axis from ``-top`` to ``top``, linear up to ``threshold`` on both sides of zero and logarithmic beyond.

    The linear part of each side is as long as one decade of the logarithmic one, so that the scale has no jump.

    Attributes:
        threshold: positive. top: larger than the threshold. unit: of the scores.
    """

    threshold: float
    top: float
    unit: str

    def _place(self, value: float) -> float:
        """Distance from zero in decades, with the sign of the value."""
        size = abs(value) / self.threshold
        return math.copysign(size if size <= 1 else 1 + math.log10(size), value)

    def at(self, value: float) -> float:
        """Where a value lies, in [0, 1], zero at 0.5; what is beyond an end lies on it."""
        return min(max(0.5 + 0.5 * self._place(value) / self._place(self.top), 0.0), 1.0)

    @property
    def ticks(self) -> tuple[float, ...]:
        """Marks from left to right: zero, the threshold, powers of ten, and the end if there is room for its number."""
        decades = math.floor(math.log10(self.top / self.threshold) + 1e-9)
        right = [self.threshold * 10.0**k for k in range(decades + 1)]
        if self.top / right[-1] >= 4:
            right.append(self.top)
        return (*(-tick for tick in reversed(right)), 0.0, *right)

    def written(self, tick: float) -> str:
        """A mark's value in the unit of the scores, shares in per cent."""
        size = abs(tick) * (100 if self.unit == "share" else 1)
        decimals = max(0, -math.floor(math.log10(size) + 1e-9)) if size else 0
        return ("−" if tick < 0 else "") + f"{size:.{decimals}f}"


def symlog_axis(scores: Sequence[Score | None]) -> SymlogAxis:
    """A common axis for scores of one unit, around all values and intervals.

    Its threshold is a tenth of the power of ten that the largest of them reaches: small differences keep their signs
    and places, and noise far below the largest one is not blown up.
    """
    found = [s for s in scores if s is not None]
    unit = found[0].unit if found else "share"
    sizes = [abs(v) for s in found for v in (s.value, s.ci_low, s.ci_high) if math.isfinite(v)]
    largest = max(sizes, default=0.0)
    if largest == 0.0:
        return SymlogAxis(0.01, 0.1, unit)
    power = 10.0 ** math.floor(math.log10(largest) + 1e-12)
    top = next(end * power for end in ENDS if end * power >= largest * (1 - 1e-9))
    return SymlogAxis(power / 10, top, unit)


def signed(score: Score) -> str:
    """A difference with its sign; shares in percentage points."""
    if math.isnan(score.value):
        return UNDEFINED
    size = number(abs(score.value), score.unit)
    if not size.strip("0."):
        return size
    return ("−" if score.value < 0 else "+") + size


# ---------------------------------------------------------------------------------------------------------------- bars
@dataclass(frozen=True, kw_only=True)
class Bar:
    """A difference with its test.

    Attributes:
        score: the difference with its interval. p: the corrected p-value of no difference; None if it was not tested.
    """

    score: Score
    p: float | None = None

    @property
    def faint(self) -> bool:
        """Whether a test was made and found no difference, or could not decide."""
        return self.p is not None and not self.p < LEVEL

    def told(self) -> str:
        """All that is known of it, in words."""
        p = "" if self.p is None else f"p {UNDEFINED}" if math.isnan(self.p) else f"p {_compared(self.p)}"
        used = f"({counts(self.score)})" if counts(self.score) else ""
        return " ".join(filter(None, (signed(self.score), interval(self.score), used, p)))


def _compared(p: float) -> str:
    shown = number(p, "p")
    return shown if shown.startswith("<") else f"= {shown}"


PLOT, TOP = 380.0, 44.0  # width of the bars' field, height of its title


def diverging_bars(
    *,
    title: str,
    rows: Sequence[str],
    runs: Sequence[str],
    bars: Sequence[Sequence[Bar | None]],
    axis: SymlogAxis,
    first: str,
    second: str,
    label: str,
) -> Markup:
    """Horizontal bars around zero, a row per attribute, a bar per run.

    Args:
        title: above the bars. rows: names of the attributes. runs: names of the runs.
        bars: shape (rows, runs); None where a run has no such number.
        axis: the same for all figures that are to be compared.
        first, second: the terms whose difference is shown; bars to the right: more with the first.
        label: what the figure shows, for screen readers.
    """
    left = min(150.0, 14 + max((len(name) for name in rows), default=0) * 12.5 * GLYPH_WIDTH)
    values = len(runs) == 1  # with more, there is no room for numbers
    thick = 10.0 if values else max(4.0, 12.0 - len(runs))
    pitch = max(18.0, len(runs) * (thick + 1) + 6)
    bottom = TOP + len(rows) * pitch
    parts = _frame(title, axis, left, bottom, first, second)
    for k, name in enumerate(rows):
        parts.append(_name(name, left - 8, TOP + (k + 0.5) * pitch + 4, left - 8))
        start = TOP + k * pitch + (pitch - len(runs) * (thick + 1)) / 2
        for i, bar in enumerate(bars[k]):
            if bar is None:
                continue
            parts.append(_bar(bar, axis, left, start + i * (thick + 1), thick, i, f"{name}, {title}, {runs[i]}"))
            if values:
                css = "count faint" if bar.faint else "count"
                parts.append(text(left + PLOT + 8, TOP + (k + 0.5) * pitch + 4, signed(bar.score), css))
    unit = "percentage points" if axis.unit == "share" else f"difference of {unit_name(axis.unit) or 'values'}"
    parts.append(text(left + PLOT / 2, bottom + 32, unit, "tick", "middle"))
    written = [signed(bar.score) for row in bars for bar in row if bar is not None] if values else []
    numbers = 20 + max((len(words) for words in written), default=0) * 11.5 * GLYPH_WIDTH
    return svg(left + PLOT + numbers, bottom + 40, label, parts, "bars diverging")


def _frame(title: str, axis: SymlogAxis, left: float, bottom: float, first: str, second: str) -> list[str]:
    """Title, directions, marks."""
    middle, room = left + PLOT / 2, PLOT / 2 - 8
    parts = [
        text(middle, 13, title, "head", "middle"),
        text(middle - 6, 32, cut(f"← more with “{second}”", room, 11), "tick", "end"),
        text(middle + 6, 32, cut(f"more with “{first}” →", room, 11), "tick"),
    ]
    for tick in axis.ticks:
        x = left + PLOT * axis.at(tick)
        parts.append(line(x, TOP - 4, x, bottom, "axis" if tick == 0 else "rule"))
        parts.append(text(x, bottom + 15, axis.written(tick), "tick", "middle"))
    return parts


def _bar(bar: Bar, axis: SymlogAxis, left: float, y: float, thick: float, run: int, name: str) -> str:
    zero = left + PLOT / 2
    middle = y + thick / 2
    told = f"<title>{escape(f'{name}: {bar.told()}')}</title>"
    if math.isnan(bar.score.value):
        return f"<g>{text(zero, middle + 4, UNDEFINED, 'none', 'middle')}{told}</g>"
    end = left + PLOT * axis.at(bar.score.value)
    wide = max(abs(end - zero), 1.2)  # zero is a thin stroke: measured, and it was zero
    drawn = (
        f'<rect class="part" x="{trimmed(min(zero, end))}" y="{trimmed(y)}" width="{trimmed(wide)}" '
        f'height="{trimmed(thick)}"/>'
    )
    if interval(bar.score):
        ends = [left + PLOT * axis.at(v) for v in (bar.score.ci_low, bar.score.ci_high)]
        drawn += line(ends[0], middle, ends[1], middle, "whisker")
    css = f"r{run % RUN_COLORS}" + (" unsure" if bar.faint else "")
    return f'<g class="{css}">{drawn}{told}</g>'


def _name(name: str, x: float, y: float, room: float) -> str:
    return (
        f'<text x="{trimmed(x)}" y="{trimmed(y)}" text-anchor="end">{escape(cut(name, room, 12.5))}'
        f"<title>{escape(name)}</title></text>"
    )


# -------------------------------------------------------------------------------------------------------------- scores
def score_dots(
    *,
    levels: Sequence[str],
    runs: Sequence[str],
    cells: Sequence[Sequence[Score | None]],
    chance: Sequence[Sequence[Score | None]],
    label: str,
) -> Markup:
    """Scores of several levels (settings, contexts) as dots with whiskers, each beside what it would be by chance.

    Args:
        levels: names of the rows. runs: names of the runs.
        cells: shape (levels, runs), of one unit. chance: of the same shape; drawn as dashed strokes.
        label: what the figure shows, for screen readers.
    """
    axis = axis_of([score for table in (cells, chance) for row in table for score in row])
    words = [[UNDEFINED if s is None else cell(s) for s in row] for row in cells]
    left = min(190.0, 14 + max((len(level) for level in levels), default=0) * 12.5 * GLYPH_WIDTH)
    wide, pitch, top = 230.0, 17.0, 6.0
    numbers = 16 + max((len(w) for row in words for w in row), default=1) * 11.5 * GLYPH_WIDTH
    block = len(runs) * pitch + (7.0 if len(runs) > 1 else 2.0)
    bottom = top + len(levels) * block

    def x_of(value: float) -> float:
        return left + wide * axis.at(value)

    parts = []
    for k, tick in enumerate(axis.ticks):
        parts.append(line(x_of(tick), top, x_of(tick), bottom, "axis" if k == 0 else "rule"))
        if k % 2 == 0 or len(axis.ticks) < 5:
            parts.append(text(x_of(tick), bottom + 15, axis.written(tick), "tick", "middle"))
    parts.append(text(left + wide + 26, bottom + 15, unit_name(axis.unit), "tick"))
    for k, level in enumerate(levels):
        start = top + k * block
        parts.append(_name(level, left - 8, start + block / 2 + 4, left - 8))
        for i, name in enumerate(runs):
            y = start + (block - len(runs) * pitch) / 2 + (i + 0.5) * pitch
            parts.append(text(left + wide + 12, y + 4, words[k][i], "count"))
            told, drawn = f"{level}, {name}: {words[k][i]}", ""
            by_chance, score = chance[k][i], cells[k][i]
            if by_chance is not None and not math.isnan(by_chance.value):
                drawn += line(x_of(by_chance.value), y - 7, x_of(by_chance.value), y + 7, "ref")
                told += f"; by chance {number(by_chance.value, by_chance.unit)}"
            if score is not None and not math.isnan(score.value):
                if interval(score):
                    drawn += line(x_of(score.ci_low), y, x_of(score.ci_high), y, "whisker")
                drawn += mark(i, x_of(score.value), y)
            if drawn:
                parts.append(f'<g class="r{i % RUN_COLORS}">{drawn}<title>{escape(told)}</title></g>')
    return svg(left + wide + numbers, bottom + 22, label, parts, "bars")
