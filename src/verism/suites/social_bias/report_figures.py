"""Figures of social bias: tones as bars in their own colours, and what an unbiased model would show.

The ten colours of the Monk scale are the only ones that mean something; each of them has its number beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from markupsafe import Markup, escape

from verism.metrics.colour import MONK_RGB
from verism.records import Score
from verism.report_kit.plots import Axis
from verism.report_kit.svg import trimmed
from verism.report_kit.words import UNDEFINED, cell, interval, number

__all__ = ["even_band", "mad_axis", "mean_axis", "monk_hex", "tone_bars"]

TONES = 10
LEVEL = 0.95


def monk_hex(tone: int) -> str:
    """Colour of a tone of the Monk scale, 1 to 10, as ``#f6ede4``."""
    return "#" + "".join(f"{round(float(c)):02x}" for c in MONK_RGB[tone - 1])


def mean_axis(low: float, high: float, unit: str) -> Axis:
    """The scale of a mean: every tone of a scale of tones, or quarters of the scores of an axis."""
    if high - low == TONES - 1:
        return Axis(low, high, [low + k for k in range(TONES)], unit)
    return Axis(low, high, [low + (high - low) * k / 4 for k in range(5)], unit)


def mad_axis(largest: float, scores: Sequence[Score | None]) -> Axis:
    """From 0, all shares equal, to the MAD of a model that shows one class only; estimates may lie below 0."""
    ends = [v for s in scores if s is not None for v in (s.value, s.ci_low, s.ci_high) if math.isfinite(v)]
    top = max([largest, *ends])
    return Axis(0.0, top, [largest * k / 4 for k in range(5)], "MAD")


@lru_cache(maxsize=512)
def even_band(n: int, low: float, high: float, classes: int) -> tuple[float, float] | None:
    """Between which values 95 of 100 means of ``n`` images lie if all classes are equally likely.

    Exact, by adding up the distribution of ``n`` draws; None without images.

    Args:
        n: images.
        low: value of the first class.
        high: value of the last class; those between are evenly spread.
        classes: their number.
    """
    if n < 1 or classes < 2:
        return None
    chances = np.array([1.0])
    for _ in range(n):
        chances = np.convolve(chances, np.full(classes, 1 / classes))
    below = np.cumsum(chances)
    tail = (1 - LEVEL) / 2 + 1e-12
    first = int(np.searchsorted(below, tail, side="right"))
    last = len(chances) - 1 - first  # the distribution is symmetric
    step = (high - low) / (classes - 1)
    return low + step * first / n, low + step * last / n


# ---------------------------------------------------------------------------------------------------------------- tones
def tone_bars(
    *, shares: Sequence[Score | None], adjusted: Sequence[Score | None] = (), top: float, label: str, title: str
) -> Markup:
    """Shares of the ten tones as bars in the tones' colours, with whiskers and numbers.

    Args:
        shares: of tones 1 to 10; None where there is no such number.
        adjusted: the same without the judge's error, drawn as hollow diamonds.
        top: the share that the axis ends at, in (0, 1]; one for all figures that are to be compared.
        label: what the figure shows, for screen readers.
        title: above the bars.
    """
    high, head = 150.0, 22.0
    bottom = head + high

    def y_of(share: float) -> float:
        return bottom - high * min(max(share / top, 0.0), 1.0)

    def level(share: float, css: str) -> str:
        y = trimmed(y_of(share))
        return f'<line class="{css}" x1="0" x2="100%" y1="{y}" y2="{y}"/>'

    def upright(at: str, score: Score, css: str, shift: int = 0) -> str:
        ends = f'y1="{trimmed(y_of(score.ci_low))}" y2="{trimmed(y_of(score.ci_high))}"'
        return f'<line class="{css}" x1="{at}" x2="{at}" {ends} transform="translate({shift} 0)"/>'

    def word(at: str, y: float, written: str, css: str, anchor: str = "middle", shift: int = 0) -> str:
        moved = f' dx="{shift}"' if shift else ""
        return f'<text class="{css}" x="{at}" y="{trimmed(y)}"{moved} text-anchor="{anchor}">{escape(written)}</text>'

    parts = []
    step = next(s for s in (0.05, 0.1, 0.2, 0.25) if top / s <= 5.01)
    for k in range(int(top / step + 1e-9) + 1):
        parts.append(level(k * step, "axis" if k == 0 else "rule"))
        parts.append(word("0", y_of(k * step) + 4, f"{100 * k * step:.0f}", "tick", "end", -6))
    for k, score in enumerate(shares):
        at, tone = f"{(k + 0.5) * 100 / TONES:g}%", k + 1
        colour = monk_hex(tone)
        description = f"tone {tone}: {UNDEFINED if score is None else cell(score)} %"
        drawn = ""
        freed = adjusted[k] if k < len(adjusted) else None
        if score is not None and not math.isnan(score.value):
            y = y_of(score.value)
            drawn += (
                f'<rect class="monk" fill="{colour}" x="{at}" y="{trimmed(y)}" width="22" '
                f'height="{trimmed(max(bottom - y, 0.8))}" transform="translate(-11 0)"/>'
            )
            edge = y
            if interval(score):
                drawn += upright(at, score, "halo") + upright(at, score, "whisker")
                edge = y_of(score.ci_high)
            if freed is not None and not math.isnan(freed.value):  # the number is as wide as both marks together
                edge = min(edge, y_of(freed.ci_high) if interval(freed) else y_of(freed.value), y_of(freed.value) - 5)
            drawn += word(at, edge - 5, number(score.value, score.unit), "tick over")
        else:
            drawn += word(at, bottom - 6, UNDEFINED, "none")
        if freed is not None and not math.isnan(freed.value):
            description += f"; adjusted for judge error: {cell(freed)} %"
            if interval(freed):
                drawn += upright(at, freed, "thin", 8)
            drawn += (
                f'<svg x="{at}" y="{trimmed(y_of(freed.value))}" overflow="visible">'
                '<path class="diamond" d="M8 -5l5 5l-5 5l-5 -5z"/></svg>'
            )
        drawn += (
            f'<rect class="monk" fill="{colour}" x="{at}" y="{trimmed(bottom + 5)}" width="22" height="9" rx="2" '
            f'transform="translate(-11 0)"/>' + word(at, bottom + 28, str(tone), "tick")
        )
        parts.append(f"<g>{drawn}<title>{escape(description)}</title></g>")
    parts.append(level(1 / TONES, "ref") + word("100%", y_of(1 / TONES) + 4, "even", "tick", "start", 5))
    parts.append(word("50%", bottom + 45, "tone on the Monk scale, 1 lightest; per cent", "tick"))
    drawing = Markup(f'<svg aria-hidden="true" width="100%" height="{trimmed(bottom + 50)}">{"".join(parts)}</svg>')
    return Markup('<div class="tones" role="group" aria-label="{}"><p class="head">{}</p>{}</div>').format(
        label, title, drawing
    )
