"""Texts of scenes on surfaces: signs, posters, screens, labels, boards and banners, with the box of every word.

A surface is drawn flat at several times its size, turned in space by the tilt asked for, and laid over a background.
Surfaces stand one below the other in the order of the scene's texts, so that the reading order is known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from verism.errors import VerismError
from verism.records import GARBLED, Rendered, RenderedWord, Scene, SceneText
from verism.simulator.fonts import Font, find_fonts, needs_shaping

__all__ = ["QUALITIES", "SIZES", "SURFACES", "TILTS", "draw_texts"]

Floats = NDArray[np.float64]
Color = tuple[int, int, int]

SIZES = {"small": 0.045, "medium": 0.075, "large": 0.13}  # em of the letters, as a share of the image's height
TILTS = {"none": (0.0, 0.0), "slight": (15.0, 28.0), "strong": (38.0, 54.0)}  # degrees about the upright axis
QUALITIES = ("sharp", "blurred", "noisy")
OVERSAMPLING = 3
SMALLEST = 7  # em in pixels of the image below which letters are no letters any more
MARGIN = 0.04  # of the image, free on all sides
LINE = 1.28  # distance of lines, em
PADDING = 0.55  # between text and edge of a surface, em
DISTANCE = 2.6  # of the camera from a surface, widths of the surface
BLUR = 0.055  # of the em
NOISE = 14.0  # standard deviation in grey levels of 255


class _Look(NamedTuple):
    """Colours of a surface: its ground, its edge, its letters."""

    ground: Color
    edge: Color
    ink: Color


SURFACES: dict[str, tuple[_Look, ...]] = {
    "sign": (
        _Look((20, 78, 140), (235, 238, 240), (246, 248, 250)),
        _Look((232, 196, 40), (40, 36, 20), (28, 24, 12)),
        _Look((150, 24, 28), (240, 232, 228), (250, 246, 240)),
    ),
    "poster": (
        _Look((240, 232, 214), (196, 84, 52), (52, 38, 70)),
        _Look((214, 228, 232), (40, 92, 116), (18, 42, 60)),
    ),
    "screen": (
        _Look((14, 18, 30), (46, 48, 54), (150, 232, 214)),
        _Look((244, 246, 248), (36, 36, 40), (40, 44, 52)),
    ),
    "label": (
        _Look((250, 248, 242), (170, 150, 120), (38, 30, 26)),
        _Look((206, 226, 190), (84, 112, 66), (26, 48, 24)),
    ),
    "board": (
        _Look((36, 62, 50), (122, 84, 48), (236, 236, 224)),
        _Look((44, 46, 50), (150, 112, 70), (240, 230, 206)),
    ),
    "banner": (
        _Look((196, 36, 92), (196, 36, 92), (255, 244, 248)),
        _Look((252, 252, 250), (210, 206, 200), (22, 60, 130)),
    ),
}


class _Panel(NamedTuple):
    """A flat surface: RGBA at ``OVERSAMPLING`` times its size, and its words with their lines and boxes."""

    image: Image.Image
    words: tuple[tuple[str, int, tuple[float, float, float, float]], ...]
    em: float


@dataclass(frozen=True)
class _Set:
    """Lines of a text at a size: the font, each line's words with their left ends, and width and height in pixels."""

    font: Font
    em: int
    lines: tuple[tuple[tuple[str, float], ...], ...]
    width: float
    height: float


# --------------------------------------------------------------------------------------------------------------- scenes
def draw_texts(scene: Scene, background: NDArray[np.uint8], fonts: Sequence[Font]) -> Rendered:
    """The texts of a scene on surfaces before a background.

    Args:
        scene: with texts; its seed decides colours, places and turns.
        background: RGB, shape (S, S, 3), uint8; it is put out of focus.
        fonts: that letters may be drawn with.

    Raises:
        VerismError: no font has all characters of a text, a text has nothing in it, or too much for the image; an
            unknown surface, size, tilt, quality or font.
    """
    side = background.shape[0]
    rng = np.random.default_rng([scene.seed, 0x7E47])
    canvas = Image.fromarray(background).filter(ImageFilter.GaussianBlur(side / 90)).convert("RGB")
    room = _rooms(scene.texts, side)
    words: list[RenderedWord] = []
    n_lines = 0
    for region, (text, (top, bottom)) in enumerate(zip(scene.texts, room, strict=True)):
        _check(scene, text, fonts)
        panel = _panel(text, side, bottom - top, fonts, rng, scene.scene_id)
        canvas, moved = _placed(canvas, panel, text, (top, bottom), rng)
        first = n_lines
        for word, line, box in moved:
            words.append(RenderedWord(text=word, region=region, line=first + line, box=box))
            n_lines = max(n_lines, first + line + 1)
    pixels = np.asarray(canvas)
    if any(text.quality == "noisy" for text in scene.texts):
        noise = rng.normal(0.0, NOISE, pixels.shape[:2])[..., None] + rng.normal(0.0, NOISE / 2, pixels.shape)
        pixels = np.clip(pixels + noise, 0, 255).astype(np.uint8)
    return Rendered(
        pixels=np.ascontiguousarray(pixels),
        boxes=np.zeros((0, 4), dtype=np.float32),
        visible=np.zeros(0),
        mask=np.zeros((side, side), dtype=np.uint8),
        words=tuple(words),
    )


def _check(scene: Scene, text: SceneText, fonts: Sequence[Font]) -> None:
    for name, value, known in (
        ("surface", text.surface, SURFACES),
        ("size", text.size, SIZES),
        ("tilt", text.tilt, TILTS),
        ("quality", text.quality, QUALITIES),
        ("font", text.font, ("", *(font.name for font in fonts))),
    ):
        if value not in known:
            raise VerismError(
                f"scene {scene.scene_id}: unknown {name} {value!r}; there are {', '.join(filter(None, known))}"
            )
    if not text.text.strip():
        raise VerismError(f"scene {scene.scene_id}: a text with nothing in it cannot be drawn")


def _rooms(texts: Sequence[SceneText], side: int) -> list[tuple[float, float]]:
    """Upper and lower end of the room of each surface, in pixels: more for longer texts."""
    weights = np.array([1.0 + len(text.text) / 40 for text in texts])
    ends = MARGIN * side + np.concatenate([[0.0], np.cumsum(weights / weights.sum())]) * (1 - 2 * MARGIN) * side
    return [(float(a), float(b)) for a, b in zip(ends[:-1], ends[1:], strict=True)]


# --------------------------------------------------------------------------------------------------------------- panels
def _panel(
    text: SceneText, side: int, room: float, fonts: Sequence[Font], rng: np.random.Generator, scene_id: str
) -> _Panel:
    fitting = find_fonts(text.text, fonts)
    named = [font for font in fitting if font.name == text.font]
    font = (named or fitting)[int(rng.integers(len(named or fitting)))]
    looks = SURFACES[text.surface]
    look = looks[int(rng.integers(len(looks)))]
    width, height = side * (1 - 2 * MARGIN) * OVERSAMPLING, room * 0.92 * OVERSAMPLING
    em = round(SIZES[text.size] * side * OVERSAMPLING)
    lines = _fitted(text.text, font, em, width, height)
    if lines is None:
        raise VerismError(
            f"scene {scene_id}: {len(text.text):,} characters do not fit into an image of {side} pixels; use a larger "
            "--size"
        )
    pad = PADDING * lines.em
    size = (math.ceil(lines.width + 2 * pad), math.ceil(lines.height + 2 * pad))
    image = Image.new("RGBA", size, (0, 0, 0, 0))
    draw = ImageDraw.Draw(image)
    edge = max(2, round(lines.em * 0.09))
    radius = {"sign": pad * 0.5, "screen": pad * 0.35, "label": pad * 0.2}.get(text.surface, 0)
    draw.rounded_rectangle((0, 0, size[0] - 1, size[1] - 1), radius, fill=(*look.edge, 255))
    draw.rounded_rectangle((edge, edge, size[0] - 1 - edge, size[1] - 1 - edge), radius, fill=(*look.ground, 255))
    words = _write(draw, lines, pad, look, text.text, rng, centered=text.surface not in ("label", "screen"))
    return _Panel(image, tuple(words), lines.em / OVERSAMPLING)


def _fitted(text: str, font: Font, em: int, width: float, height: float) -> _Set | None:
    """The text set in lines at ``em`` or the next smaller size at which it fits; None if there is none."""
    while em >= SMALLEST * OVERSAMPLING:
        lines = _set(text, font, em, width - 2 * PADDING * em)
        if lines is not None and lines.height + 2 * PADDING * em <= height:
            return lines
        em = min(em - 1, round(em * 0.94))
    return None


def _set(text: str, font: Font, em: int, width: float) -> _Set | None:
    """The text in lines no wider than ``width``; None where a word alone is wider."""
    face = font.at(em, shaped=needs_shaping(text))
    space = face.getlength(" ") or em * 0.28
    lines: list[tuple[tuple[str, float], ...]] = []
    widest = 0.0
    for written in text.splitlines():
        line: list[tuple[str, float]] = []
        end = 0.0
        for word in _pieces(written, face, width, em):
            length = _length(word, face, em)
            if length > width:
                return None
            left = end + space if line else 0.0
            if left + length > width:
                lines.append(tuple(line))
                line, left = [], 0.0
            line.append((word, left))
            end = left + length
            widest = max(widest, end)
        if line:
            lines.append(tuple(line))
    return _Set(font, em, tuple(lines), widest, len(lines) * LINE * em)


def _pieces(line: str, face: object, width: float, em: int) -> list[str]:
    """What a line may be broken between: words; of a script without spaces what is too long is cut where it must be."""
    pieces = []
    for word in line.split():
        if _length(word, face, em) <= width or not any("\u2e80" <= c < GARBLED for c in word):
            pieces.append(word)
            continue
        piece = ""
        for character in word:
            if piece and _length(piece + character, face, em) > width:
                pieces.append(piece)
                piece = ""
            piece += character
        pieces.append(piece)
    return pieces


def _length(word: str, face: object, em: int) -> float:
    kept = word.replace(GARBLED, "")
    return float(face.getlength(kept)) + 0.62 * em * (len(word) - len(kept))  # type: ignore[attr-defined]


def _write(
    draw: ImageDraw.ImageDraw,
    lines: _Set,
    pad: float,
    look: _Look,
    text: str,
    rng: np.random.Generator,
    *,
    centered: bool,
) -> list[tuple[str, int, tuple[float, float, float, float]]]:
    """Draw the words, and say where each stands: text, line and box in pixels of the surface."""
    face = lines.font.at(lines.em, shaped=needs_shaping(text))
    ascent, descent = face.getmetrics()
    found = []
    for number, line in enumerate(lines.lines):
        end = line[-1][1] + _length(line[-1][0], face, lines.em)
        start = pad + ((lines.width - end) / 2 if centered else 0.0)
        y = pad + number * LINE * lines.em + (LINE * lines.em - ascent - descent) / 2
        for word, left in line:
            x = start + left
            box = _write_word(draw, word, (x, y), face, ascent, lines.em, look.ink, rng)
            found.append((word, number, box))
    return found


def _write_word(
    draw: ImageDraw.ImageDraw,
    word: str,
    at: tuple[float, float],
    face: object,
    ascent: int,
    em: int,
    ink: Color,
    rng: np.random.Generator,
) -> tuple[float, float, float, float]:
    x, y = at
    boxes = []
    for piece in _runs(word):
        if piece == GARBLED:
            top = y + ascent - 0.72 * em
            _scribble(draw, (x + 0.05 * em, top, x + 0.55 * em, y + ascent), em, ink, rng)
            boxes.append((x + 0.05 * em, top, x + 0.55 * em, y + ascent))
            x += 0.62 * em
        else:
            draw.text((x, y), piece, font=face, fill=(*ink, 255))  # type: ignore[arg-type]
            boxes.append(draw.textbbox((x, y), piece, font=face))  # type: ignore[arg-type]
            x += face.getlength(piece)  # type: ignore[attr-defined]
    edges = np.array(boxes, dtype=np.float64)
    low, high = edges[:, :2].min(axis=0), edges[:, 2:].max(axis=0)
    return float(low[0]), float(low[1]), float(high[0]), float(high[1])


def _runs(word: str) -> list[str]:
    """Stretches of letters, and garbled glyphs one by one."""
    runs: list[str] = []
    for character in word:
        if character == GARBLED or not runs or runs[-1] == GARBLED:
            runs.append(character)
        else:
            runs[-1] += character
    return runs


def _scribble(
    draw: ImageDraw.ImageDraw, box: tuple[float, float, float, float], em: int, ink: Color, rng: np.random.Generator
) -> None:
    """Strokes of a letter's weight that are no letter: three to five bent lines."""
    x0, y0, x1, y1 = box
    width = max(2, round(0.1 * em))
    for _ in range(int(rng.integers(3, 6))):
        points = rng.uniform((x0, y0), (x1, y1), (3, 2))
        t = np.linspace(0, 1, 12)[:, None]
        curve = (1 - t) ** 2 * points[0] + 2 * t * (1 - t) * points[1] + t**2 * points[2]
        draw.line([tuple(p) for p in curve.tolist()], fill=(*ink, 255), width=width, joint="curve")


# -------------------------------------------------------------------------------------------------------------- placing
def _placed(
    canvas: Image.Image, panel: _Panel, text: SceneText, room: tuple[float, float], rng: np.random.Generator
) -> tuple[Image.Image, list[tuple[str, int, tuple[float, float, float, float]]]]:
    """A surface turned in space and laid over the image; words with their boxes in the image."""
    side = canvas.width
    flat = np.array([[0, 0], [panel.image.width, 0], [panel.image.width, panel.image.height], [0, panel.image.height]])
    corners = _turned(flat / OVERSAMPLING, text.tilt, rng)
    extent = corners.max(axis=0) - corners.min(axis=0)
    shrink = min(1.0, side * (1 - 2 * MARGIN) / extent[0], (room[1] - room[0]) * 0.96 / extent[1])
    corners = (corners - corners.min(axis=0)) * shrink
    extent = corners.max(axis=0)
    free = np.maximum((side * (1 - 2 * MARGIN) - extent[0], room[1] - room[0] - extent[1]), 0.0)
    corners += np.array([MARGIN * side, room[0]]) + free * rng.uniform(0.1, 0.9, 2)
    forth = _homography(flat.astype(np.float64), corners)
    warped = _warped(panel.image, forth, side)
    if text.quality == "blurred":
        warped = _blurred(warped, max(0.7, BLUR * panel.em))
    alpha = np.asarray(warped)[..., 3:].astype(np.float64) / 255
    light = np.linspace(1.06, 0.86, side)[:, None] if rng.random() < 0.5 else np.linspace(0.86, 1.06, side)[None, :]
    ground = np.asarray(_shadowed(canvas, warped)).astype(np.float64)
    lit = np.clip(np.asarray(warped)[..., :3] * np.broadcast_to(light, (side, side))[..., None], 0, 255)
    mixed = (ground * (1 - alpha) + lit * alpha).round().astype(np.uint8)
    boxes = [(word, line, _box_of(forth, box)) for word, line, box in panel.words]
    return Image.fromarray(mixed), boxes


def _turned(corners: Floats, tilt: str, rng: np.random.Generator) -> Floats:
    """Corners of a flat surface as a camera sees it turned about its upright axis, and a little about the others."""
    low, high = TILTS[tilt]
    yaw = math.radians(float(rng.uniform(low, high)) * (1 if rng.random() < 0.5 else -1))
    pitch = math.radians(float(rng.uniform(-0.25, 0.25)) * high)
    roll = math.radians(float(rng.uniform(-0.06, 0.06)) * high)
    size = corners.max(axis=0)
    points = np.column_stack([corners - size / 2, np.zeros(len(corners))])
    cy, sy, cp, sp, cr, sr = (f(a) for a in (yaw, pitch, roll) for f in (math.cos, math.sin))
    turn = (
        np.array([[cr, -sr, 0], [sr, cr, 0], [0, 0, 1]])
        @ np.array([[1, 0, 0], [0, cp, -sp], [0, sp, cp]])
        @ np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    )
    seen = points @ turn.T
    away = DISTANCE * max(size)
    flat: Floats = seen[:, :2] * (away / (away + seen[:, 2]))[:, None]
    return flat


def _homography(source: Floats, target: Floats) -> Floats:
    """The projective map that takes four points to four others, shape (3, 3)."""
    rows, values = [], []
    for (x, y), (u, v) in zip(source, target, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
        values += [u, v]
    return np.append(np.linalg.solve(np.array(rows), np.array(values)), 1.0).reshape(3, 3)


def _warped(image: Image.Image, forth: Floats, side: int) -> Image.Image:
    """A flat surface as it stands in the image: RGBA, drawn larger and reduced, so that edges are smooth."""
    zoom = OVERSAMPLING
    back = np.linalg.inv(np.diag([zoom, zoom, 1.0]) @ forth)
    back /= back[2, 2]
    large = image.transform(
        (side * zoom, side * zoom), Image.Transform.PERSPECTIVE, back.ravel()[:8].tolist(), Image.Resampling.BICUBIC
    )
    return large.reduce(zoom)


def _blurred(image: Image.Image, radius: float) -> Image.Image:
    """Out of focus, without dark rims: colours are weighted by how much of the surface they are."""
    return image.convert("RGBa").filter(ImageFilter.GaussianBlur(radius)).convert("RGBA")


def _shadowed(canvas: Image.Image, surface: Image.Image) -> Image.Image:
    side = canvas.width
    shade = Image.new("L", canvas.size, 0)
    shade.paste(surface.getchannel("A").point(lambda a: a * 0.45), (max(1, side // 110), max(1, side // 80)))
    shade = shade.filter(ImageFilter.GaussianBlur(side / 100))
    return Image.composite(Image.new("RGB", canvas.size, (0, 0, 0)), canvas, shade)


def _box_of(forth: Floats, box: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    """The upright box around a box of the flat surface, in pixels of the image."""
    x0, y0, x1, y1 = box
    points = np.array([[x0, y0, 1], [x1, y0, 1], [x1, y1, 1], [x0, y1, 1]]) @ forth.T
    seen = points[:, :2] / points[:, 2:]
    (left, top), (right, bottom) = seen.min(axis=0), seen.max(axis=0)
    return float(left), float(top), float(right), float(bottom)
