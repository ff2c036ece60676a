"""What set metrics share: checks of features, and the variance of a statistic from leaving out groups."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
CHECKED_ROWS = 16_384


def checked_features(values: ArrayLike, name: str) -> NDArray[Any]:
    """Features as an array of shape (N, D), in the type they have. ValueError if they are none, or not finite."""
    array = np.asarray(values)
    if array.ndim != 2 or array.shape[1] < 1:
        raise ValueError(f"{name} must be features of shape (images, numbers per image); got shape {array.shape}")
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold real numbers; got {array.dtype}")
    # A part at a time, since the array may be a file that is larger than the memory.
    starts = range(0, len(array), CHECKED_ROWS)
    bad = sum(_not_finite(array[start : start + CHECKED_ROWS]) for start in starts)
    if bad:
        raise ValueError(
            f"{name} has NaN or infinity in {bad} of {len(array)} images; remove them first, and count them"
        )
    return array


def _not_finite(rows: NDArray[Any]) -> int:
    finite = np.isfinite(rows)
    return 0 if finite.all() else int(np.count_nonzero(~finite.all(axis=1)))


def check_same_width(real: int, generated: int) -> None:
    """Raise ValueError unless both sides have as many features."""
    if real != generated:
        raise ValueError(
            f"real images have {real} features and generated ones {generated}: take both from the same network"
        )


def jackknife_variance(value: float, without: Floats, sizes: Floats) -> float:
    """Variance of a statistic from its values without each of G >= 2 groups of these sizes.

    Source: Busing, Meijer & van der Leeden 1999, Stat. Comput. 9:3-8, equation 4; with equal groups the usual
        ``(G - 1) / G * sum((without - mean)**2)``.
    """
    weights = sizes.sum() / sizes
    pseudo = weights * value - (weights - 1) * without
    centre = len(sizes) * value - float(np.sum((1 - 1 / weights) * without))
    return float(np.mean((pseudo - centre) ** 2 / (weights - 1)))
