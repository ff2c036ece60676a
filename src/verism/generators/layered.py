"""How the built-in model describes an image in whole numbers: its words, its tokens, and how layers become an image.

An image is one scenery and up to four objects. In a row: the words of the prompt, the kind of scenery and its codes,
then for each object its class, where the centre of its box lies, how long the box's longer side is, and the codes of
its looks; the end stands where a next class would. Training writes such rows, the generator reads them back.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Description", "Language", "Placed", "compose", "compose_with_owners", "mirrored_text", "words_of"]

PLACES = 96  # steps of x and y across the image
SIDES = 48  # steps of the logarithm of an object's side
LOG_SIDES = (math.log(0.06), math.log(0.95))  # shares of the image's side
MOST_OBJECTS = 4
CODES = 64  # values of each code
PAD, UNKNOWN = 0, 1


def words_of(text: str) -> list[str]:
    """Lower-case words and numbers; punctuation says nothing in these prompts."""
    return re.findall(r"[a-z]+|[0-9]+", text.lower())


def mirrored_text(text: str) -> str:
    """What the text says of the mirrored image: left and right change places."""
    return re.sub(r"\b(left|right)\b", lambda m: "right" if m[1] == "left" else "left", text)


@dataclass(frozen=True, kw_only=True)
class Placed:
    """An object of a description: label, centre and longer side as shares of the image, and its codes, 0 to 63."""

    label: str
    x: float
    y: float
    side: float
    codes: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Description:
    """What an image shows: kind of scenery, its codes (0 to 63), and the objects."""

    background: str
    codes: tuple[int, ...]
    objects: tuple[Placed, ...]


@dataclass(frozen=True, kw_only=True)
class Language:
    """The tokens of a model, numbered in one row: padding, unknown word, words, then the parts of descriptions.

    Attributes:
        words: known words.
        labels: classes of objects.
        backgrounds: kinds of scenery.
        text_length: words kept of a prompt.
        scenery_codes: number of codes that describe the scenery of an image.
        figure_codes: number of codes that describe the look of an object.
    """

    words: tuple[str, ...]
    labels: tuple[str, ...]
    backgrounds: tuple[str, ...]
    text_length: int
    scenery_codes: int
    figure_codes: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "_numbers", {w: i + 2 for i, w in enumerate(self.words)})

    @staticmethod
    def from_json(raw: dict[str, Any]) -> Language:
        """From what ``dataclasses.asdict`` and JSON made of one."""
        return Language(**(raw | {k: tuple(raw[k]) for k in ("words", "labels", "backgrounds")}))

    # ------------------------------------------------------------------------------------------------------- ranges
    @property
    def _sizes(self) -> dict[str, int]:
        sizes = {
            "text": 2 + len(self.words),
            "background": len(self.backgrounds),
            "scenery": CODES,
            "label": len(self.labels) + 1,  # the last one is the end
            "x": PLACES,
            "y": PLACES,
            "side": SIDES,
        }
        return sizes | {f"look_{k}": CODES for k in range(self.figure_codes)}

    def span(self, kind: str) -> tuple[int, int]:
        """First token of a kind, and the one after its last."""
        start = 0
        for name, size in self._sizes.items():
            if name == kind:
                return start, start + size
            start += size
        raise KeyError(kind)

    @property
    def vocabulary(self) -> int:
        """Number of tokens."""
        return sum(self._sizes.values())

    @property
    def length(self) -> int:
        """Tokens of the longest row, its end included."""
        return self.text_length + 1 + self.scenery_codes + MOST_OBJECTS * (4 + self.figure_codes) + 1

    def levels(self) -> dict[str, np.ndarray]:
        """What the tokens of each kind say as numbers in [0, 1], shape (tokens of the kind, numbers).

        Kinds whose tokens are nothing but names are left out. A code has two numbers, its two levels.
        """
        side = math.isqrt(CODES)
        codes = np.stack(np.divmod(np.arange(CODES), side), axis=1) / (side - 1)
        steps = {"x": PLACES, "y": PLACES, "side": SIDES}
        numbers = {kind: (np.arange(n)[:, None] + 0.5) / n for kind, n in steps.items()}
        return numbers | {"scenery": codes} | {f"look_{k}": codes for k in range(self.figure_codes)}

    def kind_at(self, position: int) -> str:
        """Kind of the token at a position of a row."""
        position -= self.text_length
        if position < 0:
            return "text"
        if position == 0:
            return "background"
        position -= 1
        if position < self.scenery_codes:
            return "scenery"
        position = (position - self.scenery_codes) % (4 + self.figure_codes)
        return ("label", "x", "y", "side")[position] if position < 4 else f"look_{position - 4}"

    @property
    def end(self) -> int:
        """The token that stands where a further object would be told."""
        return self.span("label")[1] - 1

    # --------------------------------------------------------------------------------------------- rows and back again
    def read(self, text: str) -> tuple[list[int], list[str]]:
        """Tokens of a prompt, padded in front, and the words that were not understood or did not fit."""
        numbers: dict[str, int] = self._numbers  # type: ignore[attr-defined]
        words = words_of(text)
        kept, lost = words[: self.text_length], words[self.text_length :]
        tokens = [numbers.get(w, UNKNOWN) for w in kept]
        return [PAD] * (self.text_length - len(tokens)) + tokens, [w for w in kept if w not in numbers] + lost

    def write(self, description: Description) -> list[int]:
        """The row of a description, without its prompt, the end included."""
        row = [self.span("background")[0] + self.backgrounds.index(description.background)]
        row += [self.span("scenery")[0] + c for c in description.codes]
        for obj in description.objects:
            row += [
                self.span("label")[0] + self.labels.index(obj.label),
                self.span("x")[0] + _step(obj.x, 0.0, 1.0, PLACES),
                self.span("y")[0] + _step(obj.y, 0.0, 1.0, PLACES),
                self.span("side")[0] + _step(math.log(obj.side), *LOG_SIDES, SIDES),
            ]
            row += [self.span(f"look_{k}")[0] + c for k, c in enumerate(obj.codes)]
        return [*row, self.end]

    def understand(self, row: Sequence[int]) -> Description:
        """The inverse of ``write``; numbers come back as the middles of their steps. Reads up to the end."""
        tokens = [int(t) for t in row]
        codes = tuple(t - self.span("scenery")[0] for t in tokens[1 : 1 + self.scenery_codes])
        objects = []
        for start in range(1 + self.scenery_codes, len(tokens), 4 + self.figure_codes):
            part = tokens[start : start + 4 + self.figure_codes]
            if part[0] == self.end or len(part) < 4 + self.figure_codes:
                break
            values = [t - self.span(self.kind_at(self.text_length + start + k))[0] for k, t in enumerate(part)]
            objects.append(
                Placed(
                    label=self.labels[values[0]],
                    x=_middle(values[1], 0.0, 1.0, PLACES),
                    y=_middle(values[2], 0.0, 1.0, PLACES),
                    side=math.exp(_middle(values[3], *LOG_SIDES, SIDES)),
                    codes=tuple(values[4:]),
                )
            )
        background = self.backgrounds[tokens[0] - self.span("background")[0]]
        return Description(background=background, codes=codes, objects=tuple(objects))


def _step(value: float, low: float, high: float, steps: int) -> int:
    return int(np.clip((value - low) / (high - low) * steps, 0, steps - 1))


def _middle(step: int, low: float, high: float, steps: int) -> float:
    return float(low + (step + 0.5) / steps * (high - low))


def compose(
    scenery: np.ndarray, figures: np.ndarray, objects: Sequence[Placed], size: int, margin: float
) -> np.ndarray:
    """Layers as one image, RGB uint8, shape (size, size, 3).

    Args:
        scenery: RGB in [0, 1], shape (A, A, 3).
        figures: RGB, opacity and shadow in [0, 1] of a square around each object, shape (M, B, B, 5).
        objects: where the M figures belong.
        size: width and height of the image, in pixels.
        margin: side of the square around an object, as a multiple of the object's longer side.
    """
    return compose_with_owners(scenery, figures, objects, size, margin)[0]


def compose_with_owners(
    scenery: np.ndarray, figures: np.ndarray, objects: Sequence[Placed], size: int, margin: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As ``compose``, and which object each pixel shows.

    Args:
        scenery: RGB in [0, 1], shape (A, A, 3).
        figures: RGB, opacity and shadow in [0, 1] of a square around each object, shape (M, B, B, 5).
        objects: where the M figures belong.
        size: width and height of the image, in pixels.
        margin: side of the square around an object, as a multiple of the object's longer side.

    Returns:
        The image; per pixel 0 for the scenery and k + 1 for object k, where its opacity is at least one half, shape
        (size, size), uint8; and per object the pixels it would have if nothing hid it, shape (M,).
    """
    canvas = _resized(scenery, size)
    owners, alone = np.zeros((size, size), dtype=np.uint8), np.zeros(len(objects), dtype=np.int64)
    bottoms = [
        obj.y + obj.side * margin * (_lowest(figure[..., 3]) - 0.5)
        for figure, obj in zip(figures, objects, strict=True)
    ]
    # What stands lower in the image stands nearer, and hides what is behind it.
    for k in np.argsort(bottoms, kind="stable"):
        obj, figure = objects[k], figures[k]
        side = max(round(obj.side * margin * size), 2)
        left, top = round(obj.x * size - side / 2), round(obj.y * size - side / 2)
        x0, y0, x1, y1 = max(left, 0), max(top, 0), min(left + side, size), min(top + side, size)
        if x0 >= x1 or y0 >= y1:
            continue
        # Colours are weighted by opacity before they are resized, or those of the outside would bleed in.
        layer = np.concatenate([figure[..., :3] * figure[..., 3:4], figure[..., 3:]], axis=2)
        layer = _resized(layer, side)[y0 - top : y1 - top, x0 - left : x1 - left]
        under = canvas[y0:y1, x0:x1] * (1 - layer[..., 4:5])
        canvas[y0:y1, x0:x1] = layer[..., :3] + under * (1 - layer[..., 3:4])
        opaque = layer[..., 3] >= 0.5
        owners[y0:y1, x0:x1][opaque] = k + 1
        alone[k] = opaque.sum()
    return np.asarray(np.clip(np.round(canvas * 255), 0, 255), dtype=np.uint8), owners, alone


def _lowest(opacity: np.ndarray) -> float:
    """Lower edge of what is opaque, as a share of the height."""
    rows = np.flatnonzero((opacity > 0.5).any(axis=1))
    return float(rows[-1] + 1) / len(opacity) if len(rows) else 0.5


def _resized(array: np.ndarray, size: int) -> np.ndarray:
    """(H, W, C) float as (size, size, C), each channel by Pillow's bilinear filter, which widens when shrinking."""
    from PIL import Image

    channels = [
        np.asarray(
            Image.fromarray(np.ascontiguousarray(array[..., c], dtype=np.float32)).resize(
                (size, size), Image.Resampling.BILINEAR
            )
        )
        for c in range(array.shape[2])
    ]
    return np.stack(channels, axis=2)
