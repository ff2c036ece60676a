"""How an object that was found in an image is shown to a judge of its own: cut out, its surroundings in one grey.

``masked`` is how GenEval's released evaluation shows objects: everything outside the mask grey, then cut by the box.
``square`` is the same in a square as long as the box's longer side, filled up with the grey, so that a network that
cuts images to squares sees all of a long object. ``boxed`` cuts by the box and leaves the surroundings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from verism.errors import UsageError
from verism.metrics.masks import mask_of_rle

if TYPE_CHECKING:
    from verism.records import Region

__all__ = ["GREY", "VIEWS", "chosen_regions", "region_view"]

GREY = (153, 153, 153)  # #999, the released background
VIEWS = ("masked", "square", "boxed")


def region_view(pixels: np.ndarray, region: Region, view: str) -> np.ndarray:
    """An object as an image of its own.

    Args:
        pixels: the image, RGB, shape (H, W, 3), uint8.
        region: the object; without a mask nothing becomes grey but what lies outside the box.
        view: one of ``VIEWS``.

    Returns:
        RGB, shape (h, w, 3), uint8, at least one pixel in size.

    Raises:
        UsageError: an unknown view.
        ValueError: a mask that is not of the image's size.

    Source: Ghosh et al. 2023, GenEval, released evaluation; box edges are rounded as Pillow's ``crop`` does.
    """
    if view not in VIEWS:
        raise UsageError(f"no view {view!r} of objects; there are {', '.join(VIEWS)}")
    height, width = pixels.shape[:2]
    shown = pixels
    if region.mask is not None and view != "boxed":
        inside = mask_of_rle(region.mask, height, width)
        shown = np.where(inside[..., None], pixels, np.array(GREY, dtype=np.uint8))
    x0, y0, x1, y1 = (round(edge) for edge in region.box)
    x0, y0 = min(max(x0, 0), width - 1), min(max(y0, 0), height - 1)
    x1, y1 = min(max(x1, x0 + 1), width), min(max(y1, y0 + 1), height)
    cut = np.ascontiguousarray(shown[y0:y1, x0:x1])
    if view != "square":
        return cut
    side = max(cut.shape[:2])
    square = np.full((side, side, 3), GREY, dtype=np.uint8)
    top, left = (side - cut.shape[0]) // 2, (side - cut.shape[1]) // 2
    square[top : top + cut.shape[0], left : left + cut.shape[1]] = cut
    return square


def chosen_regions(regions: Sequence[Region], labels: Sequence[str], most: int) -> list[Region]:
    """The most confident objects of each class, in the order of their numbers.

    Args:
        regions: objects of an image.
        labels: classes that count.
        most: objects of a class to keep.
    """
    kept: list[Region] = []
    for label in dict.fromkeys(labels):
        of_label = [region for region in regions if region.label == label]
        kept += sorted(of_label, key=lambda region: -region.score)[:most]
    return sorted(kept, key=lambda region: region.segment)
