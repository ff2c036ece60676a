"""The second look: what a small network says of class and colour when it sees nothing but one object.

A detector sees an object as large as it is in the image. Cut out and brought to one size, small objects show more to
a network, and the two err on different objects: where the detector is unsure, both are averaged.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from verism.inference import onnx_session
from verism.judges.detection.decode import Found

__all__ = ["MARGIN", "OUTPUTS", "SecondLook", "averaged", "crop"]

OUTPUTS = ("classes", "colors")
"""Outputs of the network, in order."""

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


class SecondLook:
    """A network of ``training.second_look``, run by onnxruntime.

    Public attributes: ``classes`` and ``colors``, those it knows, in its own order, and ``size``, the side of its input
    in pixels.

    Args:
        content: its ONNX file.
        threads: of onnxruntime; None leaves the choice to it.
        batch_size: crops per call of the network. Results do not depend on it.
    """

    def __init__(self, content: bytes, *, threads: int | None = None, batch_size: int = 8) -> None:
        self._session: Any = onnx_session(content, threads)
        self._batch_size = batch_size
        meta = self._session.get_modelmeta().custom_metadata_map
        self.classes: tuple[str, ...] = tuple(json.loads(meta["classes"]))
        self.colors: tuple[str, ...] = tuple(json.loads(meta["colors"]))
        self.size = int(meta["input_size"])

    def look(self, crops: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities of the classes (N, C) and colours (N, K) of N crops of ``size``, float32."""
        parts = [
            self._session.run(list(OUTPUTS), {"pixels": np.stack(crops[start : start + self._batch_size])})
            for start in range(0, len(crops), self._batch_size)
        ]
        if not parts:
            return np.zeros((0, len(self.classes)), np.float32), np.zeros((0, len(self.colors)), np.float32)
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def averaged(found: Found, looked: np.ndarray, classes: np.ndarray, colors: np.ndarray, weight: float) -> Found:
    """Boxes with classes and colours that are the average of both looks, the surest first.

    Args:
        found: boxes of one image.
        looked: indices of the boxes that got a second look, shape (N,).
        classes: probabilities of these by the second look, shape (N, C).
        colors: probabilities of these by the second look, shape (N, K).
        weight: of the second look, in [0, 1].
    """
    class_scores, color_scores = found.class_scores.copy(), found.color_scores.copy()
    objectness = found.objectness[looked][:, None]
    before = class_scores[looked] / np.maximum(objectness, 1e-6)
    class_scores[looked] = _mean(before, classes, weight) * objectness
    if color_scores.shape[1]:
        color_scores[looked] = _mean(color_scores[looked], colors, weight)
    merged = Found(boxes=found.boxes, objectness=found.objectness, class_scores=class_scores, color_scores=color_scores)
    return merged.take(np.argsort(-merged.scores, kind="stable"))


def _mean(first: np.ndarray, second: np.ndarray, weight: float) -> np.ndarray:
    """Average of probabilities, row by row."""
    return (first * (1 - weight) + second * weight).astype(np.float32)
