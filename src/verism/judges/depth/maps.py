"""From an estimator's arrays to the table ``depths``: one row for each image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from verism.errors import VerismError
from verism.metrics.depth_maps import nearest_size, nearness, text_of_depth
from verism.records import DepthNeed, frame

if TYPE_CHECKING:
    import polars as pl

__all__ = ["MOST_PX", "Larger", "depth_table"]

Larger = Literal["near", "far"]
MOST_PX = 512  # longer side of a map that is kept; larger ones are made smaller


def depth_table(image_ids: Sequence[str], maps: Sequence[np.ndarray], judge: str, larger: Larger) -> pl.DataFrame:
    """The table ``depths`` of some images, in their order.

    Args:
        image_ids: the images.
        maps: of each an array of any size, shape (H, W), of what it shows from edge to edge.
        judge: name of the estimator.
        larger: what larger numbers mean.

    Raises:
        VerismError: a map with numbers that are none.
    """
    rows: list[dict[str, Any]] = []
    for image_id, values in zip(image_ids, maps, strict=True):
        try:
            steps, low, high = nearness(values, larger=larger)
        except ValueError as err:
            raise VerismError(f"{judge}: {image_id}: {err}; in float16 numbers may grow too large") from err
        longest = max(steps.shape)
        if longest > MOST_PX:
            height, width = (max(round(side * MOST_PX / longest), 1) for side in steps.shape)
            steps = nearest_size(steps, height, width)
        rows.append(
            {
                "image_id": image_id,
                "judge": judge,
                "height": steps.shape[0],
                "width": steps.shape[1],
                "low": low,
                "high": high,
                "nearness": text_of_depth(steps),
            }
        )
    return frame(DepthNeed.table, rows)
