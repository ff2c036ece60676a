"""Ranks of several models with their uncertainty, from tests of every pair of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verism.statistics.paired import holm

__all__ = ["Ranking", "rank_models"]


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Where each of M models stands among them.

    Attributes:
        rank: rank by the values alone, 1 for the best, shape (M,); models of equal value share the mean of their ranks;
            NaN for one without a value.
        low: best rank that a model can have, shape (M,), 1 .. M: one more than the significantly better models.
        high: worst rank that it can have, shape (M,): M less the models that it is significantly better than.
        best: whether no model is significantly better, shape (M,).
        wins: wins[i, j] is 1 where i is significantly better than j, -1 where it is worse, 0 where neither is
            significant, shape (M, M).
        p_holm: p-values adjusted for all pairs by Holm, shape (M, M); NaN on the diagonal and where no test was made.
    """

    rank: NDArray[np.float64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    best: NDArray[np.bool_]
    wins: NDArray[np.int8]
    p_holm: NDArray[np.float64]


def rank_models(
    values: ArrayLike,
    differences: ArrayLike,
    p_values: ArrayLike,
    *,
    higher_is_better: bool = True,
    alpha: float = 0.05,
) -> Ranking:
    """Ranks with simultaneous intervals.

    Every pair is tested, the p-values are adjusted by Holm, and a model's rank can be no better than one more than the
    number of models that beat it, and no worse than M less the number that it beats. All intervals hold together with
    a probability of at least 1 - alpha, whatever the dependence of the tests: a true rank lies outside an interval only
    if some pair was called different in the wrong direction or without being so. Pairs that were not tested (NaN) tell
    nothing, and widen the intervals.

    Args:
        values: of the models, shape (M,), NaN for one without a value.
        differences: differences[i, j] is the value of j minus that of i over what both have, shape (M, M).
        p_values: of the two-sided test of no difference, shape (M, M), symmetric; NaN where none could be made.
        higher_is_better: direction of the values.
        alpha: chance that any pair is wrongly called different, in (0, 1).

    Returns:
        Ranks and intervals.

    Raises:
        ValueError: shapes that do not fit, or p-values that are not symmetric.
    Source: intervals of ranks from simultaneous tests of pairs, Mogstad, Romano, Shaikh & Wilhelm 2024, Rev. Econ.
        Stud. 91:476-518, Sec. 3; Holm 1979, Scand. J. Stat. 6:65-70.

    >>> ranking = rank_models([0.9, 0.5, 0.52], [[0, -0.4, -0.38], [0.4, 0, 0.02], [0.38, -0.02, 0]],
    ...                       [[np.nan, 0.001, 0.002], [0.001, np.nan, 0.7], [0.002, 0.7, np.nan]])
    >>> ranking.rank.tolist(), ranking.low.tolist(), ranking.high.tolist(), ranking.best.tolist()
    ([1.0, 3.0, 2.0], [1, 2, 2], [1, 3, 3], [True, False, False])
    """
    value = np.asarray(values, dtype=np.float64)
    difference = np.asarray(differences, dtype=np.float64)
    p = np.asarray(p_values, dtype=np.float64)
    m = len(value)
    if value.ndim != 1 or difference.shape != (m, m) or p.shape != (m, m):
        raise ValueError(f"{m} models need tables of {m} x {m}; got {difference.shape} and {p.shape}")
    if not np.array_equal(p, p.T, equal_nan=True):
        raise ValueError("p_values must be symmetric: a pair has one p-value")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, got {alpha}")
    above = np.triu_indices(m, k=1)
    adjusted = np.full((m, m), np.nan)
    adjusted[above] = holm(p[above])
    adjusted.T[above] = adjusted[above]
    sign = 1.0 if higher_is_better else -1.0
    told = adjusted <= alpha  # NaN is not
    wins = np.where(told, np.sign(-sign * np.nan_to_num(difference)), 0).astype(np.int8)
    return Ranking(
        rank=_ranks(sign * value),
        low=1 + np.count_nonzero(wins < 0, axis=1),
        high=m - np.count_nonzero(wins > 0, axis=1),
        best=(~np.isnan(value)) & ~np.any(wins < 0, axis=1),
        wins=wins,
        p_holm=adjusted,
    )


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from the highest value on; equal ones share the mean of theirs."""
    ranks = np.full(len(values), np.nan)
    known = ~np.isnan(values)
    among = values[known]
    better = (among[None, :] > among[:, None]).sum(axis=1)
    equal = (among[None, :] == among[:, None]).sum(axis=1)
    ranks[known] = better + (equal + 1) / 2
    return ranks
