"""The second look: class and colour of one object, and whether it is one, by a network that sees nothing but a box.

A detector sees an object as large as it is in the image. Cut out and brought to one size, small objects show more to
a network, and the two err on different objects: where the detector is unsure, both are averaged.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from verism.inference import onnx_session
from verism.judges.detection.decode import Found

__all__ = ["MARGIN", "OUTPUTS", "Looked", "SecondLook", "averaged", "crop"]

OUTPUTS = ("classes", "colors", "objects")
"""Outputs of the network, in order. Files of before have no ``objects``."""

MARGIN = 1.2  # side of the square around an object, as a multiple of the longer side of its box
_LEAST = 8.0  # pixels: shortest side of a square


def crop(pixels: np.ndarray, box: Sequence[float] | np.ndarray, size: int) -> np.ndarray:
    """The square around a box, black beyond the image.

    Args:
        pixels: RGB, shape (H, W, 3), uint8.
        box: (x0, y0, x1, y1) in pixels of the image.
        size: side of the result in pixels.

    Returns:
        RGB, shape (size, size, 3), uint8.
    """
    from PIL import Image

    x0, y0, x1, y1 = (float(v) for v in box)
    half = max(x1 - x0, y1 - y0, _LEAST / MARGIN) * MARGIN / 2
    x, y = (x0 + x1) / 2, (y0 + y1) / 2
    left, top, side = round(x - half), round(y - half), max(2, round(2 * half))
    height, width = pixels.shape[:2]
    inside = pixels[max(top, 0) : min(top + side, height), max(left, 0) : min(left + side, width)]
    square = np.zeros((side, side, 3), dtype=np.uint8)
    if inside.size:
        row, column = max(-top, 0), max(-left, 0)
        square[row : row + inside.shape[0], column : column + inside.shape[1]] = inside
    return np.asarray(Image.fromarray(square).resize((size, size), Image.Resampling.BILINEAR))


@dataclass(frozen=True, kw_only=True, eq=False)
class Looked:
    """What a second look makes of N crops.

    Attributes:
        classes: probability of each class, should it be an object, shape (N, C), float32.
        colors: probability of each colour, should it have one of them, shape (N, K), float32.
        objects: probability that the crop shows one object, whole and in its middle, shape (N,), float32; None: the
            network does not know.
    """

    classes: np.ndarray
    colors: np.ndarray
    objects: np.ndarray | None

    def rows(self, start: int, stop: int) -> Looked:
        """Those of some of the crops."""
        chosen = slice(start, stop)
        objects = None if self.objects is None else self.objects[chosen]
        return Looked(classes=self.classes[chosen], colors=self.colors[chosen], objects=objects)


class SecondLook:
    """A network of ``training.second_look``, run by onnxruntime.

    Public attributes: ``classes`` and ``colors``, those it knows, in its own order; ``size``, the side of its input in
    pixels; ``knows_objects``, whether it tells objects from what is none.

    Args:
        content: its ONNX file.
        threads: CPU threads of onnxruntime; None: onnxruntime decides.
        batch_size: crops per call of the network. Results do not depend on it.
    """

    def __init__(self, content: bytes, *, threads: int | None = None, batch_size: int = 8) -> None:
        self._session: Any = onnx_session(content, threads)
        self._batch_size = batch_size
        meta = self._session.get_modelmeta().custom_metadata_map
        self.classes: tuple[str, ...] = tuple(json.loads(meta["classes"]))
        self.colors: tuple[str, ...] = tuple(json.loads(meta["colors"]))
        self.size = int(meta["input_size"])
        self._outputs = [output.name for output in self._session.get_outputs()]
        self.knows_objects = OUTPUTS[2] in self._outputs

    def look(self, crops: Sequence[np.ndarray]) -> Looked:
        """Classes, colours and objects of N crops of ``size``."""
        parts = [
            dict(zip(self._outputs, self._session.run(self._outputs, {"pixels": np.stack(some)}), strict=True))
            for some in (crops[start : start + self._batch_size] for start in range(0, len(crops), self._batch_size))
        ]
        empty = {"classes": (0, len(self.classes)), "colors": (0, len(self.colors)), "objects": (0,)}
        joined = {
            name: np.concatenate([np.zeros(empty[name], np.float32), *(part[name] for part in parts)])
            for name in self._outputs
        }
        return Looked(classes=joined["classes"], colors=joined["colors"], objects=joined.get("objects"))


def averaged(found: Found, boxes: np.ndarray, looked: Looked, weight: float) -> Found:
    """Boxes with objectness, classes and colours that are the average of both looks, the surest first.

    Args:
        found: boxes of one image.
        boxes: indices of the boxes that got a second look, shape (N,).
        looked: the second look at these.
        weight: of the second look, in [0, 1].
    """
    class_scores, color_scores = found.class_scores.copy(), found.color_scores.copy()
    objectness = found.objectness.copy()
    before = found.class_shares[boxes]
    if looked.objects is not None:
        objectness[boxes] = _mean(objectness[boxes], looked.objects, weight)
    class_scores[boxes] = _mean(before, looked.classes, weight) * objectness[boxes][:, None]
    if color_scores.shape[1]:
        color_scores[boxes] = _mean(color_scores[boxes], looked.colors, weight)
    merged = Found(boxes=found.boxes, objectness=objectness, class_scores=class_scores, color_scores=color_scores)
    return merged.take(np.argsort(-merged.scores, kind="stable"))


def _mean(first: np.ndarray, second: np.ndarray, weight: float) -> np.ndarray:
    """Average of probabilities."""
    return (first * (1 - weight) + second * weight).astype(np.float32)
