"""From a segmenter's arrays to the table ``segments``: one place for its column rules.

An image's first row has ``segment`` -1 and says that the image was looked at; its other rows are objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.metrics.masks import rle_of_mask
from verism.metrics.named_colours import COLORS, color_shares
from verism.records import LoadedImage, SegmentationNeed, frame

if TYPE_CHECKING:
    import polars as pl

__all__ = ["FoundObject", "looked_at", "object_row", "segment_table"]

Described = tuple[str | None, list[float]]
"""A mask as the table holds it, and the shares of its pixels' colours."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FoundObject:
    """An object of an image.

    Attributes:
        query: number of the network's query.
        label: class of the need; None for a foreign one.
        raw_label: the network's own name of the class.
        score: confidence, in [0, 1].
        box: (x0, y0, x1, y1) in pixels, right and lower edges exclusive.
        mask: shape (H, W), of the image's size; None where only the box is known.
        color: by a colour head; None without one.
        color_scores: per colour of the need; empty without a colour head.
    """

    query: int
    label: str | None
    raw_label: str
    score: float
    box: Sequence[float]
    mask: np.ndarray | None = None
    color: str | None = None
    color_scores: Sequence[float] = ()


def looked_at(image_id: str, judge: str) -> dict[str, Any]:
    """The row that says that an image was looked at."""
    return {"image_id": image_id, "judge": judge, "segment": -1, "color_scores": [], "pixel_colors": []}


def object_row(
    image_id: str, judge: str, segment: int, found: FoundObject, size: Sequence[int], described: Described
) -> dict[str, Any]:
    """A row of an object.

    Args:
        image_id: the image.
        judge: name of who found the object.
        segment: its number in the image, from 0.
        found: the object.
        size: height and width of the image, pixels.
        described: its mask, as ``mask_columns`` says.
    """
    x0, y0, x1, y1 = (float(edge) for edge in found.box)
    mask, shares = described
    return {
        "image_id": image_id,
        "judge": judge,
        "segment": segment,
        "query": found.query,
        "label": found.label,
        "raw_label": found.raw_label,
        "score": min(max(float(found.score), 0.0), 1.0),  # float32 may exceed 1 by its rounding
        "x0": x0,
        "y0": y0,
        "x1": x1,
        "y1": y1,
        "height": size[0],
        "width": size[1],
        "mask": mask,
        "color": found.color,
        "color_scores": list(found.color_scores),
        "pixel_colors": shares,
    }


def mask_columns(mask: np.ndarray | None, pixels: np.ndarray, colors: Sequence[str]) -> Described:
    """A mask's run lengths, and the shares of colours among its pixels; None and nothing without a mask.

    Args:
        mask: shape (H, W); None where only a box is known.
        pixels: of the image, RGB, shape (H, W, 3), uint8.
        colors: of the need; if one of them is no named colour, no shares are given.
    """
    if mask is None:
        return None, []
    if not colors or any(color not in COLORS for color in colors):
        return rle_of_mask(mask), []
    return rle_of_mask(mask), color_shares(pixels[np.asarray(mask, dtype=bool)], colors).tolist()


def segment_table(
    images: Sequence[LoadedImage], found: Sequence[Sequence[FoundObject]], judge: str, need: SegmentationNeed
) -> pl.DataFrame:
    """The table ``segments`` of some images, in their order, objects by falling confidence.

    Args:
        images: the images.
        found: objects of each.
        judge: name of who found them.
        need: whose colours count.
    """
    rows: list[dict[str, Any]] = []
    for image, objects in zip(images, found, strict=True):
        rows.append(looked_at(image.image_id, judge))
        ordered = sorted(objects, key=lambda each: -each.score)  # stable: ties stay in the network's order
        # A query of several classes has one mask, which is described once.
        masks = {id(each.mask): each.mask for each in ordered}
        described = {key: mask_columns(mask, image.pixels, need.colors) for key, mask in masks.items()}
        rows += [
            object_row(image.image_id, judge, number, each, image.pixels.shape[:2], described[id(each.mask)])
            for number, each in enumerate(ordered)
        ]
    return frame(need.table, rows)
