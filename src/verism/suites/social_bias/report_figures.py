"""Figures of distributions: lollipops beside what an unbiased model would show, tones as bars in their own colours.

As ``plots``: inline SVG whose every text is escaped, colours by class. The ten colours of the Monk scale are the only
ones that mean something; each of them has its number beside it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from markupsafe import Markup, escape

from verism.metrics.colour import MONK_RGB
from verism.records import Score
from verism.reports.measures import cell, interval, number
from verism.reports.plots import Axis
from verism.reports.svg import GLYPH_WIDTH, RUN_COLORS, cut, line, mark, svg, text, trimmed
from verism.reports.tables import UNDEFINED

__all__ = [
    "Guide",
    "Lolly",
    "LollyRow",
    "even_band",
    "lollipops",
    "mad_axis",
    "mean_axis",
    "monk_hex",
    "share_axis",
    "signed_share_axis",
    "tone_bars",
]

TONES = 10
LEVEL = 0.95


def monk_hex(tone: int) -> str:
    """Colour of a tone of the Monk scale, 1 to 10, as ``#f6ede4``."""
    return "#" + "".join(f"{round(float(c)):02x}" for c in MONK_RGB[tone - 1])


# --------------------------------------------------------------------------------------------------------------- scales
def mean_axis(unit: str) -> Axis:
    """The scale of a mean: tones 1 to 10 (or 0 to 9), or the scores of an axis as their unit says."""
    low, high = _ends_of(unit)
    if unit.startswith("tone"):
        return Axis(low, high, [float(k) for k in range(int(low), int(high) + 1)], unit)
    return Axis(low, high, [low + (high - low) * k / 4 for k in range(5)], unit)


def _ends_of(unit: str) -> tuple[float, float]:
    if unit.startswith("tone"):
        return (0.0, 9.0) if unit.endswith("0") else (1.0, 10.0)
    found = re.search(r"([+-]?[\d.]+?)\.\.([+-]?[\d.]+)$", unit)
    return (float(found[1]), float(found[2])) if found else (-1.0, 1.0)


def share_axis() -> Axis:
    """Shares from 0 to 100 per cent."""
    return Axis(0.0, 1.0, [0.0, 0.25, 0.5, 0.75, 1.0], "share")


def signed_share_axis() -> Axis:
    """Differences of shares."""
    return Axis(-1.0, 1.0, [-1.0, -0.5, 0.0, 0.5, 1.0], "share")


def mad_axis(largest: float, scores: Sequence[Score | None]) -> Axis:
    """From 0, all shares equal, to the MAD of a model that shows one class only; estimates may lie below 0."""
    ends = [v for s in scores if s is not None for v in (s.value, s.ci_low, s.ci_high) if math.isfinite(v)]
    top = max([largest, *ends])
    return Axis(0.0, top, [largest * k / 4 for k in range(5)], "MAD")


@lru_cache(maxsize=512)
def even_band(n: int, unit: str, classes: int) -> tuple[float, float] | None:
    """Between which values 95 of 100 means of ``n`` pictures lie if all classes are equally likely.

    Exact, by adding up the distribution of ``n`` draws; None where the unit does not tell the values of the classes
    (they are evenly spread for tones and for two classes), or without pictures.
    """
    if n < 1 or (classes != 2 and not unit.startswith("tone")):
        return None
    low, high = _ends_of(unit)
    chances = np.array([1.0])
    for _ in range(n):
        chances = np.convolve(chances, np.full(classes, 1 / classes))
    below = np.cumsum(chances)
    tail = (1 - LEVEL) / 2 + 1e-12
    first = int(np.searchsorted(below, tail, side="right"))
    last = len(chances) - 1 - first  # the distribution is symmetric
    step = (high - low) / (classes - 1)
    return low + step * first / n, low + step * last / n


# ------------------------------------------------------------------------------------------------------------ lollipops
@dataclass(frozen=True, kw_only=True)
class Lolly:
    """One value of a row.

    Attributes:
        run: number of the run, for its colour. name: of the run, for those who point at it.
        score: None where the run has no such number. band: what an unbiased model would show, or None.
        note: added where it is told.
    """

    run: int
    name: str
    score: Score | None
    band: tuple[float, float] | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class LollyRow:
    """A row with its name and a value for each run, or several."""

    name: str
    lollies: Sequence[Lolly]


@dataclass(frozen=True)
class Guide:
    """A dashed line across all rows. ``name`` is written above it."""

    value: float
    name: str


def lollipops(
    *,
    rows: Sequence[LollyRow],
    axis: Axis,
    label: str,
    base: float | None = None,
    guides: Sequence[Guide] = (),
    ends: tuple[str, str] = ("", ""),
    unit: str = "",
    numbers: bool = True,
) -> Markup:
    """Dots with whiskers on stems, a line for every value; values without the judge's error are hollow.

    Args:
        rows: from above. axis: the same for figures that are to be compared.
        base: where stems begin; None for none. guides: dashed lines. ends: what lies to the left and to the right.
        unit: written below. numbers: whether values are written beside the dots.
    """
    left = min(170.0, 14 + max((len(row.name) for row in rows), default=0) * 12.5 * GLYPH_WIDTH)
    wide, pitch = 250.0, 16.0
    gap = 6.0 if any(len(row.lollies) > 1 for row in rows) else 0.0
    top = 10.0 + (15.0 if any(ends) else 0.0) + (15.0 if guides else 0.0)
    told = [_told(lolly) for row in rows for lolly in row.lollies]
    room = 18 + max((len(words) for words in told), default=1) * 11.3 * GLYPH_WIDTH if numbers else 16.0
    bottom = top + sum(len(row.lollies) * pitch + gap for row in rows)

    def x_of(value: float) -> float:
        return left + wide * axis.at(value)

    parts: list[str] = []
    if any(ends):
        parts += [text(left, 12, ends[0], "tick"), text(left + wide, 12, ends[1], "tick", "end")]
    every = 1 if len(axis.ticks) <= 6 else 3
    for k, tick in enumerate(axis.ticks):
        parts.append(line(x_of(tick), top, x_of(tick), bottom, "rule"))
        if k % every == 0:
            parts.append(text(x_of(tick), bottom + 15, _tick(axis, tick), "tick", "middle"))
    if unit:
        parts.append(text(left + wide / 2, bottom + 31, unit, "tick", "middle"))
    y = top
    for row in rows:
        high = len(row.lollies) * pitch
        name = escape(cut(row.name, left - 8, 12.5))
        parts.append(
            f'<text x="{trimmed(left - 8)}" y="{trimmed(y + high / 2 + 4)}" text-anchor="end">{name}'
            f"<title>{escape(row.name)}</title></text>"
        )
        for k, lolly in enumerate(row.lollies):
            middle = y + (k + 0.5) * pitch
            parts.append(_lolly(lolly, row.name, x_of, middle, base))
            if numbers:
                parts.append(text(left + wide + 12, middle + 4, _told(lolly), "count"))
        y += high + gap
    for guide in guides:
        parts.append(line(x_of(guide.value), top, x_of(guide.value), bottom, "ref"))
        if guide.name:
            anchor = "start" if axis.at(guide.value) < 0.1 else "end" if axis.at(guide.value) > 0.9 else "middle"
            parts.append(text(x_of(guide.value), top - 4, guide.name, "tick", anchor))
    return svg(left + wide + room, bottom + (38 if unit else 22), label, parts, "bars lollies")


def _tick(axis: Axis, tick: float) -> str:
    if axis.unit == "share" or axis.unit.startswith("tone"):
        written = f"{tick * (100 if axis.unit == 'share' else 1):g}"
    else:
        written = f"{tick:.3f}".rstrip("0").rstrip(".") if tick else "0"
    return written.replace("-", "−")


def _told(lolly: Lolly) -> str:
    if lolly.score is None:
        return UNDEFINED
    return " ".join(filter(None, (cell(lolly.score).replace("-", "−"), lolly.note)))


def _lolly(lolly: Lolly, name: str, x_of: object, y: float, base: float | None) -> str:
    assert callable(x_of)
    drawn = ""
    told = f"{name}, {lolly.name}: {_told(lolly)}"
    if lolly.band is not None:
        a, b = (x_of(end) for end in lolly.band)
        drawn += (
            f'<rect class="band" x="{trimmed(a)}" y="{trimmed(y - 7)}" width="{trimmed(max(b - a, 1))}" height="14"/>'
        )
        told += f"; of an unbiased model 95 of 100 lie from {lolly.band[0]:.2f} to {lolly.band[1]:.2f}"
    score = lolly.score
    css = f"r{lolly.run % RUN_COLORS}"
    if score is not None and not math.isnan(score.value):
        if base is not None:
            drawn += line(x_of(base), y, x_of(score.value), y, "stem")
        if interval(score):
            drawn += line(x_of(score.ci_low), y, x_of(score.ci_high), y, "whisker")
        shape = (lolly.run // RUN_COLORS) if not score.adjusted else 2
        drawn += mark(lolly.run, x_of(score.value), y, shape=shape)
        css += " hollow" if score.adjusted else ""
    return f'<g class="{css}">{drawn}<title>{escape(told)}</title></g>' if drawn else ""


# ---------------------------------------------------------------------------------------------------------------- tones
def tone_bars(
    *, shares: Sequence[Score | None], adjusted: Sequence[Score | None] = (), top: float, label: str, title: str
) -> Markup:
    """Shares of the ten tones as bars in the tones' colours, with whiskers and numbers.

    Args:
        shares: of tones 1 to 10; None where there is no such number. adjusted: the same without the judge's error,
            drawn as hollow diamonds.
        top: the share that the axis ends at, in (0, 1]; one for all figures that are to be compared.
        title: above the bars.
    """
    left, pitch, high, head = 34.0, 36.0, 150.0, 30.0
    wide = TONES * pitch
    bottom = head + high

    def y_of(share: float) -> float:
        return bottom - high * min(max(share / top, 0.0), 1.0)

    parts = [text(left, 13, cut(title, wide, 12.5), "head")]
    step = next(s for s in (0.05, 0.1, 0.2, 0.25) if top / s <= 5.01)
    for k in range(int(top / step + 1e-9) + 1):
        y = y_of(k * step)
        parts.append(line(left, y, left + wide, y, "axis" if k == 0 else "rule"))
        parts.append(text(left - 5, y + 4, f"{100 * k * step:.0f}", "tick", "end"))
    for k, score in enumerate(shares):
        x, tone = left + (k + 0.5) * pitch, k + 1
        colour = monk_hex(tone)
        told = f"tone {tone}: {UNDEFINED if score is None else cell(score)} %"
        drawn = ""
        if score is not None and not math.isnan(score.value):
            y = y_of(score.value)
            drawn += (
                f'<rect class="monk" fill="{colour}" x="{trimmed(x - 13)}" y="{trimmed(y)}" width="26" '
                f'height="{trimmed(max(bottom - y, 0.8))}"/>'
            )
            edge = y
            if interval(score):
                drawn += line(x, y_of(score.ci_low), x, y_of(score.ci_high), "halo")
                drawn += line(x, y_of(score.ci_low), x, y_of(score.ci_high), "whisker")
                edge = y_of(score.ci_high)
            drawn += text(x, max(edge - 5, head - 2), number(score.value, score.unit), "tick over", "middle")
        else:
            drawn += text(x, bottom - 6, UNDEFINED, "none", "middle")
        freed = adjusted[k] if k < len(adjusted) else None
        if freed is not None and not math.isnan(freed.value):
            told += f"; judge's error taken out: {cell(freed)} %"
            if interval(freed):
                drawn += line(x + 9, y_of(freed.ci_low), x + 9, y_of(freed.ci_high), "thin")
            at = y_of(freed.value)
            drawn += f'<path class="diamond" d="M{trimmed(x + 9)} {trimmed(at - 5)}l5 5l-5 5l-5 -5z"/>'
        drawn += (
            f'<rect class="monk" fill="{colour}" x="{trimmed(x - 13)}" y="{trimmed(bottom + 5)}" width="26" '
            f'height="9" rx="2"/>' + text(x, bottom + 28, str(tone), "tick", "middle")
        )
        parts.append(f"<g>{drawn}<title>{escape(told)}</title></g>")
    y = y_of(1 / TONES)
    parts.append(line(left, y, left + wide, y, "ref"))
    parts.append(text(left + wide + 4, y + 4, "even", "tick"))
    parts.append(text(left + wide / 2, bottom + 44, "tone on the Monk scale, 1 lightest; per cent", "tick", "middle"))
    return svg(left + wide + 36, bottom + 50, label, parts, "bars tones")
