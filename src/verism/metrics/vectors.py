"""Arithmetic of vectors that gives each row the same bits whichever rows come with it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["row_products"]


def row_products(rows: ArrayLike, others: ArrayLike) -> NDArray[np.float64]:
    """Inner product of each row with each of others, equal to the last bit whatever other rows come with it.

    A matrix product rounds by the shape of the whole, so that images scored in blocks would differ from all at once.
    It takes some five times as long as one.

    Args:
        rows: shape (N, D).
        others: shape (K, D).
    Returns:
        Shape (N, K).
    """
    a, b = np.ascontiguousarray(rows, dtype=np.float64), np.ascontiguousarray(others, dtype=np.float64)
    return np.asarray(np.einsum("nd,kd->nk", a, b), dtype=np.float64)
