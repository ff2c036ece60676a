"""The strokes all figures are made of, as SVG text."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup, escape

__all__ = ["GLYPH_WIDTH", "RUN_COLORS", "cut", "line", "mark", "row_name", "svg", "text", "trimmed"]

RUN_COLORS = 8  # classes r0 ... r7; further runs begin again, told apart by the shape of their marks
GLYPH_WIDTH = 0.56  # of the font size: mean width of a character in the usual sans-serif fonts


def trimmed(value: float) -> str:
    """A coordinate with one decimal, none if it is whole."""
    return f"{value:.1f}".removesuffix(".0")


def text(x: float, y: float, words: str, css: str = "", anchor: str = "start") -> str:
    """A text at its base line."""
    end = "" if anchor == "start" else f' text-anchor="{anchor}"'
    style = f' class="{css}"' if css else ""
    return f'<text x="{trimmed(x)}" y="{trimmed(y)}"{style}{end}>{escape(words)}</text>'


def line(x0: float, y0: float, x1: float, y1: float, css: str) -> str:
    """A straight line."""
    return f'<path class="{css}" d="M{trimmed(x0)} {trimmed(y0)}L{trimmed(x1)} {trimmed(y1)}"/>'


def svg(width: float, height: float, label: str, parts: Sequence[str], css: str) -> Markup:
    """A figure; ``label`` says what it shows to those who do not see it."""
    # A group and not an image: the numbers written in the figure stay readable to screen readers.
    return Markup(
        f'<svg class="fig {css}" viewBox="0 0 {trimmed(width)} {trimmed(height)}" '
        f'style="--w:{trimmed(width)}px" role="group" aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def cut(text: str, width: float, size: float) -> str:
    """As much of a text as fits, with an ellipsis."""
    room = max(3, int(width / (size * GLYPH_WIDTH)))
    return text if len(text) <= room else text[: room - 1] + "…"


def row_name(name: str, x: float, y: float, room: float) -> str:
    """The name of a row that ends at ``x``, cut to ``room``; whole when it is pointed at."""
    return (
        f'<text x="{trimmed(x)}" y="{trimmed(y)}" text-anchor="end">{escape(cut(name, room, 12.5))}'
        f"<title>{escape(name)}</title></text>"
    )


def mark(run: int, x: float, y: float, *, shape: int | None = None) -> str:
    """The dot of a run: colours repeat after eight runs, shapes change with every round, or as ``shape`` says."""
    a, b = trimmed(x), trimmed(y)
    shape = (run // RUN_COLORS if shape is None else shape) % 3
    if shape == 0:
        return f'<circle class="dot" cx="{a}" cy="{b}" r="4.5"/>'
    if shape == 1:
        return f'<rect class="dot" x="{trimmed(x - 4)}" y="{trimmed(y - 4)}" width="8" height="8"/>'
    return f'<path class="dot" d="M{a} {trimmed(y - 5.5)}l5.5 5.5l-5.5 5.5l-5.5 -5.5z"/>'
