"""Figures along an axis as inline SVG: small, sharp at every size, and coloured by the page's style sheet.

Functions take scores and give markup that is safe to insert: every text is escaped here. Colours are classes (``r0`` to
``r7`` for runs), so that light, dark and printed pages each have their own. A score that is missing or undefined is
drawn as a dash, not as zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from verism.records import Score
from verism.report_kit import words
from verism.report_kit.svg import GLYPH_WIDTH, RUN_COLORS, cut, line, mark, row_name, svg, text, trimmed
from verism.report_kit.words import UNDEFINED, counts, interval, minus, number, signed

__all__ = [
    "LEVEL",
    "Axis",
    "Bar",
    "CentredAxis",
    "Dot",
    "DotRow",
    "DotStyle",
    "Guide",
    "axis_of",
    "centred_axis",
    "diverging_bars",
    "dots",
    "facet_bars",
    "group_dots",
    "interval_plot",
    "share_axis",
]

STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
MOST_TICKS = 5
LEVEL = 0.05  # p-values below it are called a difference
ENDS = (1.0, 2.0, 4.0, 5.0, 6.0, 8.0, 10.0)  # a symmetric axis ends at one of these times a power of ten


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
        for _ in range(2):  # steps of 2.5, or of an eighth
            decimals += abs(step * 10**decimals - round(step * 10**decimals)) > 1e-6
        return f"{tick * factor + 0.0:.{decimals}f}"


def axis_of(scores: Sequence[Score | None], *, whole: bool = True) -> Axis:
    """A common axis, its ends at round numbers around all values and intervals.

    Args:
        scores: of one unit; those that are undefined do not count.
        whole: whether an axis of shares reaches from 0 to 100 % in any case. Other axes begin at zero unless the
            values lie close together and far from it.
    """
    results = [s for s in scores if s is not None and not math.isnan(s.value)]
    unit = next((s.unit for s in (results or scores) if s is not None), "share")
    if not results or (whole and unit == "share"):
        return Axis(0.0, 1.0, [0.0, 0.25, 0.5, 0.75, 1.0], unit)
    ends = [v for s in results for v in (s.value, s.ci_low, s.ci_high) if math.isfinite(v)] or [0.0, 1.0]
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


def share_axis(low: float = 0.0) -> Axis:
    """Shares from ``low`` (0, or -1 of differences) to 1."""
    return Axis(low, 1.0, [low + (1 - low) * k / 4 for k in range(5)], "share")


@dataclass(frozen=True)
class CentredAxis:
    """A linear axis from ``-top`` to ``top``, for differences drawn as bars: twice the length is twice the difference.

    Attributes:
        top: positive.
        unit: of the scores.
        title: of the unit, as written below the axis.
    """

    top: float
    unit: str
    title: str = ""

    def at(self, value: float) -> float:
        """Where a value lies, in [0, 1], zero at 0.5; what is beyond an end lies on it."""
        return min(max(0.5 + 0.5 * value / self.top, 0.0), 1.0)

    @property
    def ticks(self) -> tuple[float, ...]:
        """Marks from left to right: both ends, zero, and half-way to them."""
        return (-self.top, -self.top / 2, 0.0, self.top / 2, self.top)

    def written(self, tick: float) -> str:
        """A mark's value in the unit of the scores, shares in per cent, with as many decimals as half the end has."""
        factor = 100.0 if self.unit == "share" else 1.0
        decimals = max(0, -math.floor(math.log10(self.top / 2 * factor) + 1e-9))
        if abs(self.top / 2 * factor * 10**decimals - round(self.top / 2 * factor * 10**decimals)) > 1e-6:
            decimals += 1  # half of 5
        size = f"{abs(tick) * factor:.{decimals}f}"
        return size if not tick else ("−" if tick < 0 else "") + size


def centred_axis(scores: Sequence[Score | None], title: str = "") -> CentredAxis:
    """A common axis for differences of one unit, its ends at a round number beyond all values and intervals.

    Args:
        scores: of one unit; those that are undefined do not count.
        title: of the unit, as written below the axis.
    """
    results = [s for s in scores if s is not None]
    unit = results[0].unit if results else "share"
    sizes = [abs(v) for s in results for v in (s.value, s.ci_low, s.ci_high) if math.isfinite(v)]
    largest = max(sizes, default=0.0)
    if largest == 0.0:
        return CentredAxis(0.1, unit, title)
    power = 10.0 ** math.floor(math.log10(largest) + 1e-12)
    return CentredAxis(next(end * power for end in ENDS if end * power >= largest * (1 - 1e-9)), unit, title)


# ---------------------------------------------------------------------------------------------------------------- dots
@dataclass(frozen=True, kw_only=True)
class Dot:
    """One value of a row.

    Attributes:
        run: number of the run, for its colour and shape.
        name: of the run, for those who point at the dot.
        caption: the value in words, written beside the dot.
        score: None where the run has no such number; adjusted ones are drawn hollow.
        band: what an ideal model would show in 95 of 100 cases; None for none.
        baseline: what chance or an ideal model gives, drawn as a dashed stroke; None for none.
    """

    run: int
    name: str
    caption: str
    score: Score | None
    band: tuple[float, float] | None = None
    baseline: float | None = None


@dataclass(frozen=True, kw_only=True)
class DotRow:
    """A row with its name, and a value for each run, or several."""

    name: str
    dots: Sequence[Dot]


@dataclass(frozen=True)
class Guide:
    """A dashed line across all rows, with the name written above it."""

    value: float
    name: str


@dataclass(frozen=True, kw_only=True)
class DotStyle:
    """What is drawn around dots.

    Attributes:
        base: where stems begin; None for no stems.
        guides: dashed lines across all rows.
        ends: what lies to the left and to the right.
        unit: written below.
        baseline: what the dashed strokes are.
    """

    base: float | None = None
    guides: Sequence[Guide] = ()
    ends: tuple[str, str] = ("", "")
    unit: str = ""
    baseline: str = "by chance"


def dots(*, rows: Sequence[DotRow], axis: Axis, label: str, style: DotStyle | None = None) -> Markup:
    """Dots with whiskers, a line for every value, beside the values in words.

    Args:
        rows: from above.
        axis: the same for figures that are to be compared.
        label: what the figure shows, for screen readers.
        style: what is drawn around the dots.
    """
    style = style or DotStyle()
    left = min(190.0, 14 + max((len(row.name) for row in rows), default=0) * 12.5 * GLYPH_WIDTH)
    wide, pitch = 240.0, 17.0
    gap = 7.0 if any(len(row.dots) > 1 for row in rows) else 2.0
    top = 6.0 + (15.0 if any(style.ends) else 0.0) + (15.0 if any(g.name for g in style.guides) else 0.0)
    room = 18 + max((len(dot.caption) for row in rows for dot in row.dots), default=1) * 11.4 * GLYPH_WIDTH
    bottom = top + sum(len(row.dots) * pitch + gap for row in rows)

    def x_of(value: float) -> float:
        return left + wide * axis.at(value)

    parts: list[str] = []
    if any(style.ends):
        parts += [text(left, 12, style.ends[0], "tick"), text(left + wide, 12, style.ends[1], "tick", "end")]
    every = 1 if len(axis.ticks) <= 6 else 3
    for k, tick in enumerate(axis.ticks):
        parts.append(line(x_of(tick), top, x_of(tick), bottom, "axis" if k == 0 else "rule"))
        if k % every == 0:
            parts.append(text(x_of(tick), bottom + 15, minus(axis.written(tick)), "tick", "middle"))
    if style.unit:
        parts.append(text(left + wide / 2, bottom + 31, style.unit, "tick", "middle"))
    y = top
    for row in rows:
        high = len(row.dots) * pitch
        parts.append(row_name(row.name, left - 8, y + gap / 2 + high / 2 + 4, left - 8))
        for k, dot in enumerate(row.dots):
            middle = y + gap / 2 + (k + 0.5) * pitch
            parts.append(_dot(dot, row.name, x_of, middle, style))
            parts.append(text(left + wide + 12, middle + 4, dot.caption, "count"))
        y += high + gap
    for guide in style.guides:
        parts.append(line(x_of(guide.value), top, x_of(guide.value), bottom, "ref"))
        if guide.name:
            anchor = "start" if axis.at(guide.value) < 0.1 else "end" if axis.at(guide.value) > 0.9 else "middle"
            parts.append(text(x_of(guide.value), top - 4, guide.name, "tick", anchor))
    return svg(left + wide + room, bottom + (38 if style.unit else 22), label, parts, "bars dots")


def _dot(dot: Dot, name: str, x_of: Callable[[float], float], y: float, style: DotStyle) -> str:
    drawn, result = "", f"{name}, {dot.name}: {dot.caption}"
    if dot.band is not None:
        a, b = (x_of(end) for end in dot.band)
        width = trimmed(max(b - a, 1))
        drawn += f'<rect class="band" x="{trimmed(a)}" y="{trimmed(y - 7)}" width="{width}" height="14"/>'
        result += f"; of an unbiased model 95 of 100 lie from {dot.band[0]:.2f} to {dot.band[1]:.2f}"
    if dot.baseline is not None and not math.isnan(dot.baseline):
        x = x_of(dot.baseline)
        drawn += line(x, y - 7, x, y + 7, "ref")
        result += f"; {style.baseline} {number(dot.baseline, '' if dot.score is None else dot.score.unit)}"
    css = f"r{dot.run % RUN_COLORS}"
    score = dot.score
    if score is not None and not math.isnan(score.value):
        if style.base is not None:
            drawn += line(x_of(style.base), y, x_of(score.value), y, "stem")
        if interval(score):
            drawn += line(x_of(score.ci_low), y, x_of(score.ci_high), y, "whisker")
        drawn += mark(dot.run, x_of(score.value), y, shape=2 if score.adjusted else None)
        css += " hollow" if score.adjusted else ""
    return f'<g class="{css}">{drawn}<title>{escape(result)}</title></g>' if drawn else ""


def group_dots(
    *,
    levels: Sequence[str],
    rows: Sequence[str],
    cells: Sequence[Sequence[Score | None]],
    baselines: Sequence[Sequence[Score | None]] = (),
    unit: str = "",
    baseline: str = "by chance",
    label: str,
) -> Markup:
    """Per level of a facet, one dot with its whisker for each run, beside its value and number of images.

    Args:
        levels: names of the facet's values.
        rows: names of the runs.
        cells: scores, shape (levels, rows), of one unit.
        baselines: of the same shape, what chance or an ideal model gives; empty for none.
        unit: as written below the axis.
        baseline: what the dashed strokes are.
        label: what the figure shows, for screen readers.
    """
    known = baselines or [[None] * len(rows)] * len(levels)
    drawn = [
        DotRow(
            name=level,
            dots=[
                Dot(
                    run=i,
                    name=name,
                    caption=minus(words.cell(cells[k][i])),
                    score=cells[k][i],
                    baseline=None if (b := known[k][i]) is None else b.value,
                )
                for i, name in enumerate(rows)
            ],
        )
        for k, level in enumerate(levels)
    ]
    axis = axis_of([score for table in (cells, baselines) for row in table for score in row])
    return dots(rows=drawn, axis=axis, label=label, style=DotStyle(unit=unit, baseline=baseline))


# ------------------------------------------------------------------------------------------------- panels and bars
def _described(name: str, score: Score) -> str:
    parts = f"{name}: {words.percent(score.value)} % {words.interval(score)}".rstrip()
    return f"{parts}, {score.n_used} used, {score.n_unusable} unusable"


def _counted(score: Score) -> str:
    return f"n {score.n_used:,}" + (f" + {score.n_unusable:,} unusable" if score.n_unusable else "")


def _widest(cells: Sequence[Sequence[Score | None]]) -> int:
    """Characters of the longest remark on numbers of images."""
    return max((len(_counted(score)) for row in cells for score in row if score is not None), default=0)


def interval_plot(
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Sequence[Sequence[Score | None]],
    reference: Mapping[str, float],
    reference_name: str = "",
    label: str,
) -> Markup:
    """Dots with whiskers: one panel per column on a common axis from 0 to 100 %, one line per row.

    Args:
        rows: names of the runs.
        columns: names of the panels.
        cells: scores, shape (rows, columns).
        reference: per column, a share drawn as a dashed line (shuffled images); columns may be missing.
        reference_name: what the dashed line is.
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
                f"<title>{escape(reference_name)}: {words.percent(reference[column])} %</title></g>"
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
    """Bars with whiskers: per level of a facet one bar for each run, with its value and number of images.

    Args:
        levels: names of the facet's values.
        rows: names of the runs.
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
                + text(left + bars + 44, middle + 3.5, words.percent(score.value), "value", "end")
                + text(left + bars + 52, middle + 3.5, _counted(score), "count")
            )
    return svg(left + bars + numbers, bottom + 22, label, parts, "bars")


# ------------------------------------------------------------------------------------------------------- differences
@dataclass(frozen=True, kw_only=True)
class Bar:
    """A difference with its test.

    Attributes:
        score: the difference with its interval.
        p: the Holm-adjusted p-value of no difference; None if it was not tested.
    """

    score: Score
    p: float | None = None

    @property
    def faint(self) -> bool:
        """Whether a test was made and found no difference, or could not decide."""
        return self.p is not None and not self.p < LEVEL

    def tooltip(self) -> str:
        """All that is known of it, in words."""
        p = "" if self.p is None else f"p {UNDEFINED}" if math.isnan(self.p) else f"p {_compared(self.p)}"
        used = f"({counts(self.score)})" if counts(self.score) else ""
        return " ".join(filter(None, (signed(self.score.value, self.score.unit), interval(self.score), used, p)))


def _compared(p: float) -> str:
    shown = number(p, "p")
    return shown if shown.startswith("<") else f"= {shown}"


DIVERGING, HEAD = 380.0, 44.0  # width of the bars' field, height of its title


def diverging_bars(
    *,
    title: str,
    rows: Sequence[str],
    runs: Sequence[str],
    bars: Sequence[Sequence[Bar | None]],
    axis: CentredAxis,
    terms: tuple[str, str],
    label: str,
) -> Markup:
    """Horizontal bars around zero, a row per attribute, a bar per run.

    Args:
        title: above the bars.
        rows: names of the attributes.
        runs: names of the runs.
        bars: shape (rows, runs); None where a run has no such number.
        axis: the same for all figures that are to be compared.
        terms: the two whose difference is shown; bars to the right: more with the first.
        label: what the figure shows, for screen readers.
    """
    left = min(150.0, 14 + max((len(name) for name in rows), default=0) * 12.5 * GLYPH_WIDTH)
    values = len(runs) == 1  # with more, there is no room for numbers
    thick = 10.0 if values else max(4.0, 12.0 - len(runs))
    pitch = max(18.0, len(runs) * (thick + 1) + 6)
    bottom = HEAD + len(rows) * pitch
    parts = _frame(title, axis, left, bottom, terms)
    for k, name in enumerate(rows):
        parts.append(row_name(name, left - 8, HEAD + (k + 0.5) * pitch + 4, left - 8))
        start = HEAD + k * pitch + (pitch - len(runs) * (thick + 1)) / 2
        for i, bar in enumerate(bars[k]):
            if bar is None:
                continue
            parts.append(_bar(bar, axis, left, start + i * (thick + 1), thick, i, f"{name}, {title}, {runs[i]}"))
            if values:
                css = "count faint" if bar.faint else "count"
                parts.append(
                    text(
                        left + DIVERGING + 8, HEAD + (k + 0.5) * pitch + 4, signed(bar.score.value, bar.score.unit), css
                    )
                )
    unit = "percentage points" if axis.unit == "share" else f"difference of {axis.title or 'values'}"
    parts.append(text(left + DIVERGING / 2, bottom + 32, unit, "tick", "middle"))
    written = (
        [signed(bar.score.value, bar.score.unit) for row in bars for bar in row if bar is not None] if values else []
    )
    numbers = 20 + max((len(words) for words in written), default=0) * 11.5 * GLYPH_WIDTH
    return svg(left + DIVERGING + numbers, bottom + 40, label, parts, "bars diverging")


def _frame(title: str, axis: CentredAxis, left: float, bottom: float, terms: tuple[str, str]) -> list[str]:
    """Title, directions, marks."""
    middle, room = left + DIVERGING / 2, DIVERGING / 2 - 8
    parts = [
        text(middle, 13, title, "head", "middle"),
        text(middle - 6, 32, cut(f"← more with “{terms[1]}”", room, 11), "tick", "end"),
        text(middle + 6, 32, cut(f"more with “{terms[0]}” →", room, 11), "tick"),
    ]
    for tick in axis.ticks:
        x = left + DIVERGING * axis.at(tick)
        parts.append(line(x, HEAD - 4, x, bottom, "axis" if tick == 0 else "rule"))
        parts.append(text(x, bottom + 15, axis.written(tick), "tick", "middle"))
    return parts


def _bar(bar: Bar, axis: CentredAxis, left: float, y: float, thick: float, run: int, name: str) -> str:
    zero = left + DIVERGING / 2
    middle = y + thick / 2
    description = f"<title>{escape(f'{name}: {bar.tooltip()}')}</title>"
    if math.isnan(bar.score.value):
        return f"<g>{text(zero, middle + 4, UNDEFINED, 'none', 'middle')}{description}</g>"
    end = left + DIVERGING * axis.at(bar.score.value)
    wide = max(abs(end - zero), 1.2)  # zero is a thin stroke: measured, and it was zero
    drawn = (
        f'<rect class="part" x="{trimmed(min(zero, end))}" y="{trimmed(y)}" width="{trimmed(wide)}" '
        f'height="{trimmed(thick)}"/>'
    )
    if interval(bar.score):
        ends = [left + DIVERGING * axis.at(v) for v in (bar.score.ci_low, bar.score.ci_high)]
        drawn += line(ends[0], middle, ends[1], middle, "whisker")
    css = f"r{run % RUN_COLORS}" + (" unsure" if bar.faint else "")
    return f'<g class="{css}">{drawn}{description}</g>'
