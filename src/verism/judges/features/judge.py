"""Judges that give each image a vector, for metrics that compare sets of images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from verism.errors import UsageError, VerismError
from verism.judges.vector_cache import VectorCache, cached_rows, pixels_key
from verism.records import FeatureNeed, vector_rows

if TYPE_CHECKING:
    import polars as pl

    from verism.records import LoadedImage

__all__ = ["FeatureJudge", "feature_name"]


def feature_name(kind: str, identity: str, *, dtype: str = "float32", **options: object) -> str:
    """Name of a feature judge: kind, content of the weights, and every option that changes a vector.

    A file's own name is no part of it: the same weights are the same judge on every machine.
    """
    described = {**options, "dtype": None if dtype == "float32" else dtype}
    return f"{kind}@{identity}" + "".join(f" {name}={value}" for name, value in described.items() if value is not None)


class FeatureJudge:
    """Vectors of images from one network.

    ``name``, which every observation carries, and ``dim`` are public attributes.

    Args:
        name: see ``feature_name``.
        dim: numbers in a vector.
        compute: vectors of images, (n, dim); an image's vector must not depend on the images beside it.
        cache: where vectors are kept between runs; None: they are kept while the judge lives.
    """

    role = FeatureNeed.role

    def __init__(
        self,
        *,
        name: str,
        dim: int,
        compute: Callable[[Sequence[LoadedImage]], NDArray[np.float32]],
        cache: Path | None = None,
    ) -> None:
        self.name = name
        self.dim = dim
        self._compute = compute
        self._cache = VectorCache(name, cache)

    def features(self, images: Sequence[LoadedImage]) -> NDArray[np.float32]:
        """One vector per image, in order, shape (N, dim), float32. Equal pixels are looked at once.

        Raises:
            VerismError: the network gave something that is no number.
        """

        def compute(positions: list[int]) -> NDArray[np.float32]:
            chosen = [images[i] for i in positions]
            rows = self._compute(chosen)
            if broken := [
                image.image_id for image, row in zip(chosen, rows, strict=True) if not np.isfinite(row).all()
            ]:
                raise VerismError(
                    f"{self.name} gave {len(broken)} image(s) features that are not finite, such as {broken[0]!r}. "
                    "With dtype=float16 numbers overflow; use bfloat16 or float32. Otherwise the weights are damaged."
                )
            return rows

        rows = cached_rows(self._cache, [pixels_key(image.pixels) for image in images], compute)
        return rows.reshape(len(images), self.dim)

    def observe(self, images: Sequence[LoadedImage], need: FeatureNeed) -> pl.DataFrame:
        """The table ``features`` of some images, one row each, in order.

        Raises:
            UsageError: the need is another one.
        """
        if not isinstance(need, FeatureNeed):
            raise UsageError(f"{self.name} gives feature vectors; it cannot serve a need of {type(need).__name__}")
        return vector_rows(need.table, [image.image_id for image in images], self.name, self.features(images))
