"""Vectors of the objects that a need asks about, as rows: the same for every embedder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from verism.judges.regions import chosen_regions, region_view
from verism.records import EmbeddingNeed, frame

if TYPE_CHECKING:
    import polars as pl

    from verism.records import LoadedImage

__all__ = ["region_rows"]


def region_rows(
    name: str,
    images: Sequence[LoadedImage],
    need: EmbeddingNeed,
    vectors_of: Callable[[Sequence[LoadedImage]], NDArray[np.float32]],
) -> pl.DataFrame:
    """Table ``region_embeddings``: a row for each object that is asked about, and each view of it.

    Args:
        name: of the judge.
        images: with their objects.
        need: which objects and views.
        vectors_of: a vector for each image, shape (N, D).
    """
    keys: list[tuple[str, str, int, str]] = []
    shown: list[LoadedImage] = []
    for image in images:
        labels = need.regions.get(image.prompt_id, ())
        for region in chosen_regions(image.regions, labels, need.most_regions):
            for view in need.views:
                keys.append((image.image_id, image.regions_by, region.segment, view))
                shown.append(replace(image, pixels=region_view(image.pixels, region, view), sha256=None))
    names = ("image_id", "segmenter", "segment", "view")
    vectors = vectors_of(shown) if shown else np.zeros((0, 1), dtype=np.float32)
    return frame(
        "region_embeddings",
        [
            {**dict(zip(names, key, strict=True)), "judge": name, "vector": vector.tolist()}
            for key, vector in zip(keys, vectors, strict=True)
        ],
    )
