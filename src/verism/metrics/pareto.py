"""Trade-offs: which of several runs no other run beats in everything at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["dominates", "pareto_front"]


def dominates(a: ArrayLike, b: ArrayLike, *, higher_is_better: bool | Sequence[bool] = True) -> bool:
    """Whether a point is at least as good as another in every metric and better in one.

    Args:
        a: values of the metrics, shape (D,).
        b: values of the metrics, shape (D,).
        higher_is_better: of all metrics, or of each of them.
    Returns:
        False if a value of either is NaN: an undefined number neither wins nor loses.
    Raises:
        ValueError: shapes that do not fit.
    """
    rows = _oriented(np.array([np.asarray(a, float), np.asarray(b, float)]), higher_is_better)
    if np.isnan(rows).any():
        return False
    return bool((rows[0] >= rows[1]).all() and (rows[0] > rows[1]).any())


def pareto_front(points: ArrayLike, *, higher_is_better: bool | Sequence[bool] = True) -> NDArray[np.bool_]:
    """Which points no other point dominates: the runs worth choosing between, such as over a sweep of guidance scales.

    Args:
        points: one row per run, one column per metric, shape (N, D). Equal points are on the front together, or not.
        higher_is_better: of all metrics, or of each of them, shape (D,).
    Returns:
        Shape (N,). Points with NaN are not on the front, and keep nobody off it.
    Raises:
        ValueError: not two-dimensional, no columns, or as many directions as columns are not given.

    >>> pareto_front([[0.9, 0.1], [0.5, 0.5], [0.4, 0.4], [0.1, 0.9]])
    array([ True,  True, False,  True])
    """
    rows = np.asarray(points, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise ValueError(f"points must have shape (N, D) with D >= 1: a row per run; got shape {rows.shape}")
    rows = _oriented(rows, higher_is_better)
    defined = np.asarray(~np.isnan(rows).any(axis=1))
    front = defined.copy()
    for i in np.flatnonzero(defined):
        others = rows[defined]
        front[i] = not bool(((others >= rows[i]).all(axis=1) & (others > rows[i]).any(axis=1)).any())
    return front


def _oriented(rows: NDArray[np.float64], higher_is_better: bool | Sequence[bool]) -> NDArray[np.float64]:
    """The rows with signs such that higher is better in every column."""
    directions = np.atleast_1d(np.asarray(higher_is_better, dtype=bool))
    if len(directions) not in (1, rows.shape[1]):
        raise ValueError(
            f"higher_is_better must be one answer or {rows.shape[1]}, one per metric; got {len(directions)}"
        )
    return np.where(directions, rows, -rows)
