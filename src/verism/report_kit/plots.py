"""Figures along an axis that fit any width: lines of text with a drawing between them.

Names and values are text of the page, of its size on every screen; marks lie in small SVG drawings, at percentages of
their width. The style sheet puts name, drawing and value beside each other, and on a narrow screen the drawing below.

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
from verism.report_kit.svg import GLYPH_WIDTH, RUN_COLORS
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
    lines = []
    if any(style.ends):
        lines.append(_line("", "", _words([(0.0, style.ends[0]), (1.0, style.ends[1])]), "over"))
    if any(guide.name for guide in style.guides):
        lines.append(_line("", "", _words([(axis.at(g.value), g.name) for g in style.guides]), "over"))
    guides = "".join(_stroke(axis.at(g.value), "ref") for g in style.guides)
    for row in rows:
        for k, dot in enumerate(row.dots):
            drawing = _field(guides + _dot(dot, row.name, axis.at, style), DOT_HEIGHT)
            name = row.name if k == 0 else ""
            lines.append(_line(name, escape(dot.caption), drawing, "first" if k == 0 else ""))
    lines += _below(axis, style.unit)
    captions = [dot.caption for row in rows for dot in row.dots]
    return _plot(label, lines, axis.ticks, axis.at, [row.name for row in rows], captions, "dots")


def _dot(dot: Dot, name: str, at: Callable[[float], float], style: DotStyle) -> str:
    drawn, result = "", f"{name}, {dot.name}: {dot.caption}"
    if dot.band is not None:
        a, b = (at(end) for end in dot.band)
        drawn += f'<rect class="band" x="{_percent(a)}" y="1" width="{_percent(max(b - a, 0.003))}" height="100%"/>'
        result += f"; of an unbiased model 95 of 100 lie from {dot.band[0]:.2f} to {dot.band[1]:.2f}"
    if dot.baseline is not None and not math.isnan(dot.baseline):
        drawn += _stroke(at(dot.baseline), "ref")
        result += f"; {style.baseline} {number(dot.baseline, '' if dot.score is None else dot.score.unit)}"
    css = f"r{dot.run % RUN_COLORS}"
    score = dot.score
    if score is not None and not math.isnan(score.value):
        if style.base is not None:
            drawn += _level(at(style.base), at(score.value), "stem")
        if interval(score):
            drawn += _level(at(score.ci_low), at(score.ci_high), "whisker")
        drawn += _mark(dot.run, at(score.value), shape=2 if score.adjusted else None)
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
    axis = share_axis()
    panels = []
    for k, column in enumerate(columns):
        known = column in reference and not math.isnan(reference[column])
        stroke = ""
        if known:
            tooltip = escape(f"{reference_name}: {words.percent(reference[column])} %")
            stroke = f"<g>{_stroke(reference[column], 'ref')}<title>{tooltip}</title></g>"
        lines = [f'<p class="head">{escape(column)}</p>']
        for i, name in enumerate(rows):
            score = cells[i][k]
            drawn = stroke
            if score is None or math.isnan(score.value):
                drawn += (
                    f'<text class="none" x="50%" y="{PANEL_HEIGHT / 2 + 4:g}" text-anchor="middle">{UNDEFINED}</text>'
                )
            else:
                whisker = "" if math.isnan(score.ci_low) else _level(score.ci_low, score.ci_high, "whisker")
                drawn += (
                    f'<g class="r{i % RUN_COLORS}">{whisker}{_mark(i, score.value)}'
                    f"<title>{escape(_described(name, score))}</title></g>"
                )
            lines.append(_line(name if len(rows) > 1 else "", "", _field(drawn, PANEL_HEIGHT), "first"))
        lines += _below(axis)
        panels.append(_plot("", lines, axis.ticks, axis.at, rows if len(rows) > 1 else [], [], "panel"))
    return Markup('<div class="panels" role="group" aria-label="{}">{}</div>').format(label, Markup().join(panels))


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
    axis = share_axis()
    lines, captions = [], []
    for k, level in enumerate(levels):
        for i, name in enumerate(rows):
            score = cells[k][i]
            drawn, value, counted = "", UNDEFINED, "" if score is None else _counted(score)
            if score is not None and not math.isnan(score.value):
                value = words.percent(score.value)
                whisker = "" if math.isnan(score.ci_low) else _level(score.ci_low, score.ci_high, "whisker")
                drawn = (
                    f'<g class="r{i % RUN_COLORS}"><rect class="amount" x="0" y="2" width="{_percent(score.value)}" '
                    f'height="{BAR_HEIGHT - 4:g}"/>{whisker}'
                    f"<title>{escape(f'{level}, {_described(name, score)}')}</title></g>"
                )
            caption = Markup('<b class="value">{}</b> <span class="count">{}</span>').format(value, counted)
            captions.append(f"100.0 {counted}")
            lines.append(_line(level if i == 0 else "", caption, _field(drawn, BAR_HEIGHT), "first" if i == 0 else ""))
    lines += _below(axis)
    return _plot(label, lines, axis.ticks, axis.at, levels, captions, "amounts")


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
    values = len(runs) == 1  # with more, there is no room for numbers
    thick = 10.0 if values else max(4.0, 12.0 - len(runs))
    height = max(18.0, len(runs) * (thick + 1) + 6)
    lines = [
        f'<p class="head">{escape(title)}</p>',
        _line("", "", _words([(0.0, f"← more with “{terms[1]}”"), (1.0, f"more with “{terms[0]}” →")]), "over"),
    ]
    captions = []
    for k, name in enumerate(rows):
        start = (height - len(runs) * (thick + 1)) / 2
        drawn = _stroke(0.5, "axis")
        caption, unseen = Markup(""), []
        for i, bar in enumerate(bars[k]):
            if bar is None:
                continue
            drawn += _bar(bar, axis, start + i * (thick + 1), thick, i, f"{name}, {title}, {runs[i]}")
            written = signed(bar.score.value, bar.score.unit)
            unseen.append(f"{runs[i]} {written}")
            if values:
                captions.append(written)
                caption = Markup('<span class="{}">{}</span>').format("count faint" if bar.faint else "count", written)
        if not values:
            caption = Markup('<span class="away">{}</span>').format(", ".join(unseen))
        lines.append(_line(name, caption, _field(drawn, height), "first"))
    unit = "percentage points" if axis.unit == "share" else f"difference of {axis.title or 'values'}"
    lines += _below(axis, unit)
    return _plot(label, lines, axis.ticks, axis.at, rows, captions, "diverging")


def _bar(bar: Bar, axis: CentredAxis, y: float, thick: float, run: int, name: str) -> str:
    middle = f"{y + thick / 2:g}"
    description = f"<title>{escape(f'{name}: {bar.tooltip()}')}</title>"
    if math.isnan(bar.score.value):
        dash = f'<text class="none" x="50%" y="{y + thick / 2 + 4:g}" text-anchor="middle">{UNDEFINED}</text>'
        return f"<g>{dash}{description}</g>"
    end = axis.at(bar.score.value)
    wide = max(abs(end - 0.5), 0.003)  # zero is a thin stroke: measured, and it was zero
    drawn = f'<rect class="part" x="{_percent(min(0.5, end))}" y="{y:g}" width="{_percent(wide)}" height="{thick:g}"/>'
    if interval(bar.score):
        ends = [axis.at(v) for v in (bar.score.ci_low, bar.score.ci_high)]
        drawn += _level(ends[0], ends[1], "whisker", middle)
    css = f"r{run % RUN_COLORS}" + (" unsure" if bar.faint else "")
    return f'<g class="{css}">{drawn}{description}</g>'


# ------------------------------------------------------------------------------------------------------------- strokes
DOT_HEIGHT, BAR_HEIGHT, PANEL_HEIGHT = 18.0, 18.0, 26.0  # of a line's drawing, in pixels
FONT = 12.5  # pixels of names and values
WIDEST_NAME, WIDEST_CAPTION = 190.0, 262.0  # pixels kept for them where there is room
SLACK = 14.0  # pixels that a short text of wide letters may need beyond the mean
EDGE = 0.12  # nearer to an end than this, a word is written from that end on, and not around its place


def _percent(share: float) -> str:
    """A place or length as a percentage of the drawing's width, with two decimals."""
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + "%"


def _stroke(at: float, css: str) -> str:
    """A vertical line through the whole drawing."""
    return f'<line class="{css}" x1="{_percent(at)}" x2="{_percent(at)}" y1="0" y2="100%"/>'


def _level(a: float, b: float, css: str, y: str = "50%") -> str:
    """A horizontal line."""
    return f'<line class="{css}" x1="{_percent(a)}" x2="{_percent(b)}" y1="{y}" y2="{y}"/>'


def _mark(run: int, at: float, *, shape: int | None = None) -> str:
    """The dot of a run, as ``svg.mark`` draws it."""
    shape = (run // RUN_COLORS if shape is None else shape) % 3
    x = _percent(at)
    if shape == 0:
        return f'<circle class="dot" cx="{x}" cy="50%" r="4.5"/>'
    if shape == 1:
        return f'<rect class="dot" x="{x}" y="50%" width="8" height="8" transform="translate(-4 -4)"/>'
    return f'<svg x="{x}" y="50%" overflow="visible"><path class="dot" d="M0 -5.5l5.5 5.5l-5.5 5.5l-5.5 -5.5z"/></svg>'


def _field(drawn: str, height: float) -> Markup:
    """The drawing of a line."""
    return Markup(f'<svg class="field" aria-hidden="true" width="100%" height="{height:g}">{drawn}</svg>')


def _words(placed: Sequence[tuple[float, str]], height: float = 14.0) -> Markup:
    """Words above or below the drawings, at their places."""
    parts = []
    for at, word in placed:
        anchor = "start" if at < EDGE else "end" if at > 1 - EDGE else "middle"
        parts.append(
            f'<text class="tick" x="{_percent(at)}" y="{height - 3:g}" text-anchor="{anchor}">{escape(word)}</text>'
        )
    return Markup(f'<svg class="scale" aria-hidden="true" width="100%" height="{height:g}">{"".join(parts)}</svg>')


def _line(name: str, caption: str, drawing: Markup, css: str = "") -> Markup:
    """A line of a figure: name, value in words, drawing."""
    return Markup(
        '<div class="line {}"><span class="name"><bdi>{}</bdi></span><span class="caption">{}</span>{}</div>'
    ).format(css, name, caption, drawing)


def _below(axis: Axis | CentredAxis, unit: str = "") -> list[Markup]:
    """The marks of the axis, not more than five, and its unit."""
    every = 1 if len(axis.ticks) <= 6 else 3
    marks = [(axis.at(tick), minus(axis.written(tick))) for tick in list(axis.ticks)[::every]]
    lines = [_line("", "", _words(marks, 16.0), "axis")]
    return [*lines, _line("", "", _words([(0.5, unit)]), "axis")] if unit else lines


def _plot(
    label: str,
    lines: Sequence[str],
    ticks: Sequence[float],
    at: Callable[[float], float],
    names: Sequence[str],
    captions: Sequence[str],
    css: str,
) -> Markup:
    """A figure of lines; ``label`` says what it shows to those who do not see it."""
    step = at(ticks[1]) - at(ticks[0]) if len(ticks) > 1 else 1.0
    name, caption = (
        min(widest, SLACK + max(map(len, texts)) * FONT * GLYPH_WIDTH) if any(texts) else 0.0
        for texts, widest in ((names, WIDEST_NAME), (captions, WIDEST_CAPTION))
    )
    style = f"--name:{name:.0f}px;--caption:{caption:.0f}px;--step:{step:.5g}"
    # A group and not an image: names and values are read out, and the drawings, which repeat them, are not.
    group = Markup(' role="group" aria-label="{}"').format(label) if label else ""
    return Markup('<div class="plot {}" style="{}"{}>{}</div>').format(
        css, style, group, Markup().join(map(Markup, lines))
    )
