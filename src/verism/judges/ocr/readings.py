"""What OCR judges share: lines put into reading order, and rows of table ``readings``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

__all__ = ["FoundLine", "enlarged", "image_row", "in_reading_order", "line_rows"]

Box = tuple[float, float, float, float]
SAME_ROW = 0.5  # of the smaller height: lines whose middles are nearer stand in one row


@dataclass(frozen=True, kw_only=True)
class FoundLine:
    """A line that an engine read.

    Attributes:
        text: the line.
        score: confidence in [0, 1]; None where the engine gives none.
        box: (x0, y0, x1, y1) in pixels, right and lower edges exclusive; None where it gives none.
    """

    text: str
    score: float | None = None
    box: Box | None = None


def in_reading_order(lines: Sequence[FoundLine]) -> list[FoundLine]:
    """Lines from top to bottom, those of one row from left to right; unchanged where one has no box.

    Two lines stand in one row if the middles of their heights are nearer than half the smaller height.
    """
    boxes = [line.box for line in lines]
    if any(box is None for box in boxes):
        return list(lines)
    rows: list[list[tuple[Box, FoundLine]]] = []
    placed = sorted(
        ((box, line) for box, line in zip(boxes, lines, strict=True) if box is not None),
        key=lambda each: (each[0][1] + each[0][3], each[0][0]),
    )
    for box, line in placed:
        middle, height = (box[1] + box[3]) / 2, box[3] - box[1]
        last = rows[-1][-1][0] if rows else None
        if last is not None:
            apart = abs(middle - (last[1] + last[3]) / 2)
            if apart < SAME_ROW * min(height, last[3] - last[1]):
                rows[-1].append((box, line))
                continue
        rows.append([(box, line)])
    return [line for row in rows for _, line in sorted(row, key=lambda each: each[0][0])]


def image_row(image_id: str, judge: str, text: str | None, note: str | None = None) -> dict[str, Any]:
    """The row of an image in table ``readings``.

    Args:
        image_id: the image.
        judge: who signs the row.
        text: all that was read; empty: there is no text; None: no answer.
        note: why there is no answer.
    """
    return {"image_id": image_id, "judge": judge, "level": "image", "line": -1, "word": -1, "text": text, "note": note}


def line_rows(image_id: str, judge: str, lines: Sequence[FoundLine]) -> list[dict[str, Any]]:
    """Rows of an image and of its lines, which are in reading order, for an engine that tells no words.

    Args:
        image_id: the image.
        judge: who signs the rows.
        lines: as read.
    """
    rows = [image_row(image_id, judge, "\n".join(line.text for line in lines))]
    for number, line in enumerate(lines):
        place = {} if line.box is None else dict(zip(("x0", "y0", "x1", "y1"), line.box, strict=True))
        row = {"image_id": image_id, "judge": judge, "level": "line", "line": number, "word": -1, "text": line.text}
        rows.append({**row, "score": line.score, **place})
    return rows


def enlarged(pixels: np.ndarray, min_side: int) -> tuple[np.ndarray, int]:
    """An image whose shorter side has at least so many pixels, and by which whole factor it was enlarged (Lanczos).

    Args:
        pixels: RGB, shape (H, W, 3), uint8.
        min_side: 0 leaves it as it is.
    """
    height, width = pixels.shape[:2]
    factor = max(1, -(-min_side // max(1, min(height, width))))
    if factor == 1:
        return pixels, 1
    size = (width * factor, height * factor)
    return np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.LANCZOS)), factor
