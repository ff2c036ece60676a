"""How far two sides agree about the same units: a judge and people, or two raters. Plain coefficients with intervals.

Chance-corrected agreement of raters is in ``agreement``. Units that either side leaves out (None, NaN) do not enter,
and are counted. Intervals resample units, or clusters of them (the prompts of images).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verism.statistics._common import Floats, finite_pair, mean_ranks
from verism.statistics.agreement import Agreement, bootstrap_interval, cluster_labels, plain_value, rating_counts

__all__ = [
    "Majority",
    "auc",
    "kendall_tau",
    "kendall_tau_b",
    "majority",
    "matthews",
    "mcc",
    "pearson",
    "pearson_r",
    "percent_agreement",
    "phi",
    "roc_area",
    "spearman",
    "spearman_rho",
]

FEW = 128  # values of a side up to which all pairs are compared at once


class Majority(NamedTuple):
    """The majority of the ratings of each unit.

    Attributes:
        values: the value most raters gave, shape (units,), object; None without ratings, or for a tie.
        tied: whether several values were given most often, shape (units,).
        n_ratings: shape (units,).
        share: of the ratings, how many gave the most frequent value; NaN for none.
    """

    values: NDArray[np.object_]
    tied: NDArray[np.bool_]
    n_ratings: NDArray[np.int64]
    share: Floats


def majority(ratings: ArrayLike) -> Majority:
    """The majority of each unit, and its ties.

    Args:
        ratings: shape (raters, units); None or NaN where a rater gave none.

    >>> majority([[1, 1, 2], [1, 2, None], [2, None, None]]).values.tolist()
    [1, None, 2]
    """
    values, counts = rating_counts(ratings)
    n = counts.sum(axis=1)
    if not values:
        nothing = np.full(len(n), None, dtype=object)
        return Majority(nothing, np.zeros(len(n), dtype=bool), n.astype(np.int64), np.full(len(n), math.nan))
    most = counts.max(axis=1)
    tied = (counts == most[:, None]).sum(axis=1) > 1
    chosen = np.array([values[i] for i in counts.argmax(axis=1)], dtype=object)
    chosen[(n == 0) | tied] = None
    with np.errstate(invalid="ignore"):
        share = most / n
    return Majority(chosen, tied & (n > 0), n.astype(np.int64), share)


def percent_agreement(
    ratings: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    n_resamples: int = 2_000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Agreement:
    """Share of the pairs of ratings of a unit that are alike, averaged over units with two ratings or more.

    Args:
        ratings: shape (raters, units); None or NaN where a rater gave none.
        clusters: of units, shape (units,).
        n_resamples: resamples of the interval; 0 leaves it out.
        seed: of the resamples.
        confidence: confidence level of the interval, in (0, 1).
    """
    counts = rating_counts(ratings).counts
    n = counts.sum(axis=1)
    used = n >= 2
    rows = counts[used]
    alike = (rows * (rows - 1)).sum(axis=1) / (n[used] * (n[used] - 1))
    groups = cluster_labels(clusters, len(n))[used]
    interval = bootstrap_interval(lambda a: float(np.mean(a)), alike, groups, n_resamples, seed, confidence)
    return Agreement(*interval, int(used.sum()), int(n[used].sum()), int((~used).sum()))


# ----------------------------------------------------------------------------------------------- coefficients alone
def matthews(table: ArrayLike) -> float:
    """Matthews' correlation of a table of counts (K, K), one side by the other; NaN if either side has one class only.

    >>> round(matthews([[8, 2], [1, 9]]), 4)
    0.7035
    """
    counts = np.asarray(table, dtype=np.float64)
    if counts.ndim != 2 or counts.shape[0] != counts.shape[1]:
        raise ValueError(f"table must have shape (K, K), got {counts.shape}")
    total, rows, columns = counts.sum(), counts.sum(axis=1), counts.sum(axis=0)
    spread = (total**2 - rows @ rows) * (total**2 - columns @ columns)
    return float((np.trace(counts) * total - rows @ columns) / math.sqrt(spread)) if spread > 0 else math.nan


def kendall_tau(x: ArrayLike, y: ArrayLike) -> float:
    """Kendall's tau-b: agreement of two orders, ties taken into account.

    Args:
        x: shape (N,), finite. Numbers are tied if they are equal to the last bit.
        y: shape (N,), finite.
    Returns:
        In [-1, 1]; NaN if one side is all equal or has fewer than two entries.
    Raises:
        ValueError: unequal lengths, NaN or infinity.
    """
    a, b = finite_pair(x, y)
    if _is_constant(a) or _is_constant(b):
        return math.nan
    if len(a) <= FEW:
        # The same numbers of pairs as SciPy counts, and the same quotient; a resample of few pairs is tens of times
        # quicker so.
        order_a, order_b = (np.subtract(v[:, None] > v, v[:, None] < v, dtype=np.int8) for v in (a, b))
        excess = int((order_a * order_b).sum(dtype=np.int64)) / 2
        untied = [np.count_nonzero(order) / 2 for order in (order_a, order_b)]
        return float(np.clip(excess / np.sqrt(untied[0]) / np.sqrt(untied[1]), -1.0, 1.0))
    from scipy.stats import kendalltau

    return float(kendalltau(a, b).statistic)


def spearman_rho(x: ArrayLike, y: ArrayLike) -> float:
    """Spearman's rank correlation of two arrays, equal values sharing their mean rank.

    Args:
        x: shape (N,), finite.
        y: shape (N,), finite.
    Returns:
        In [-1, 1]; NaN if one side is all equal or has fewer than two entries.
    Raises:
        ValueError: unequal lengths, NaN or infinity.
    """
    a, b = finite_pair(x, y)
    return pearson_r(mean_ranks(a), mean_ranks(b))


def pearson_r(x: ArrayLike, y: ArrayLike) -> float:
    """Pearson's correlation of two arrays.

    Args:
        x: shape (N,), finite.
        y: shape (N,), finite.
    Returns:
        In [-1, 1]; NaN if one side is all equal or has fewer than two entries.
    Raises:
        ValueError: unequal lengths, NaN or infinity.
    """
    a, b = finite_pair(x, y)
    if _is_constant(a) or _is_constant(b):
        return math.nan
    # Not scipy's: that also computes a p-value, which takes ten times as long, and a bootstrap calls this 2,000 times.
    a, b = a - a.mean(), b - b.mean()
    a, b = a / np.abs(a).max(), b / np.abs(b).max()  # squares of tiny numbers must not vanish
    return float(np.clip((a @ b) / math.sqrt((a @ a) * (b @ b)), -1.0, 1.0))


def roc_area(scores: ArrayLike, truth: ArrayLike) -> float:
    """Area under the ROC curve: chance that a positive unit has a higher score than a negative one, ties counting half.

    Args:
        scores: shape (N,), finite, larger for positive units.
        truth: 0 or 1, shape (N,).
    Returns:
        In [0, 1]; NaN unless both classes occur.
    Raises:
        ValueError: unequal lengths, NaN or infinity, a truth other than 0 and 1.
    """
    score, label = finite_pair(scores, truth)
    positive = label == 1
    if not (positive | (label == 0)).all():
        raise ValueError("truth must be 0 or 1")
    n, m = int(positive.sum()), int((~positive).sum())
    if n == 0 or m == 0:
        return math.nan
    return float((mean_ranks(score)[positive].sum() - n * (n + 1) / 2) / (n * m))


def _is_constant(values: Floats) -> bool:
    return len(values) < 2 or bool(np.ptp(values) == 0)


# ----------------------------------------------------------------------------------------- coefficients with intervals
def phi(first: ArrayLike, second: ArrayLike, **options: Any) -> Agreement:
    """The phi coefficient of two sides with two values each: Pearson's correlation of the 0/1 table.

    The larger of the values in sorted order counts as 1, on both sides alike.

    Args:
        first: values of the first side, shape (N,); None or NaN where there is none. At most two different values over
            both sides.
        second: values of the second side, shape (N,).
        options: ``clusters``, ``n_resamples``, ``seed``, ``confidence`` as for ``percent_agreement``.
    Returns:
        -1 to 1; NaN if a side has one value only.
    Raises:
        ValueError: more than two values; use ``mcc`` or Cohen's kappa.
    Source: Yule 1912, J. R. Stat. Soc. 75:579-652.
    """
    sides, rated = _both(first, second)
    values = sorted({*sides[0], *sides[1]})
    if len(values) > 2:
        raise ValueError(f"phi is of two values; got {values[:5]}. For more use mcc or cohen_kappa")
    return _pairwise(_matthews_of_codes(len(values)), _codes(sides, values), rated, **options)


def mcc(first: ArrayLike, second: ArrayLike, **options: Any) -> Agreement:
    """Matthews' correlation coefficient for any number of classes (R_K); for two it is ``phi``.

    Args and returns: as for ``phi``.
    Source: Gorodkin 2004, Comput. Biol. Chem. 28:367-374.
    """
    sides, rated = _both(first, second)
    values = sorted({*sides[0], *sides[1]})
    return _pairwise(_matthews_of_codes(len(values)), _codes(sides, values), rated, **options)


def kendall_tau_b(first: ArrayLike, second: ArrayLike, **options: Any) -> Agreement:
    """Kendall's tau-b of two orders, ties taken into account. Args as for ``phi``; values are numbers."""
    return _of_numbers(kendall_tau, first, second, options)


def spearman(first: ArrayLike, second: ArrayLike, **options: Any) -> Agreement:
    """Spearman's rank correlation, equal values sharing their mean rank. Args as for ``phi``; values are numbers."""
    return _of_numbers(spearman_rho, first, second, options)


def pearson(first: ArrayLike, second: ArrayLike, **options: Any) -> Agreement:
    """Pearson's correlation. Args as for ``phi``; values are numbers."""
    return _of_numbers(pearson_r, first, second, options)


def auc(scores: ArrayLike, truth: ArrayLike, **options: Any) -> Agreement:
    """Area under the ROC curve: chance that a positive unit has a higher score than a negative one, ties counting half.

    Args:
        scores: shape (N,), larger for "yes".
        truth: 0 or 1, shape (N,); NaN where unknown in either.
        options: as for ``phi``.
    Returns:
        0 to 1; NaN unless both classes occur.
    """
    return _of_numbers(roc_area, scores, truth, options)


# -------------------------------------------------------------------------------------------------------------- shared
def _both(first: ArrayLike, second: ArrayLike) -> tuple[list[list[Any]], NDArray[np.bool_]]:
    """The ratings of both sides where both gave one, and where that is."""
    pair = [np.asarray(side, dtype=object) for side in (first, second)]
    if pair[0].ndim != 1 or pair[0].shape != pair[1].shape:
        raise ValueError(f"both sides need one value per unit; got shapes {pair[0].shape} and {pair[1].shape}")
    rated = np.array([all(v is not None and v == v for v in both) for both in zip(*pair)], dtype=bool)
    return [[plain_value(value) for value in side[rated]] for side in pair], rated


def _codes(sides: list[list[Any]], values: list[Any]) -> NDArray[np.intp]:
    code = {value: number for number, value in enumerate(values)}
    return np.array([[code[value] for value in side] for side in sides], dtype=np.intp).reshape(2, -1).T


def _matthews_of_codes(size: int) -> Callable[[NDArray[np.intp]], float]:
    def coefficient(rows: NDArray[np.intp]) -> float:
        flat = np.bincount(rows[:, 0] * size + rows[:, 1], minlength=size * size)
        return matthews(flat.reshape(size, size))

    return coefficient


def _of_numbers(
    coefficient: Callable[[Floats, Floats], float], first: ArrayLike, second: ArrayLike, options: dict[str, Any]
) -> Agreement:
    sides, rated = _both(first, second)
    try:
        pairs = np.array(sides, dtype=np.float64).T.reshape(-1, 2)
    except (TypeError, ValueError):
        raise ValueError("correlations of this kind are of numbers; got names") from None
    return _pairwise(lambda rows: coefficient(rows[:, 0], rows[:, 1]), pairs, rated, **options)


def _pairwise(
    statistic: Callable[[Any], float],
    rows: NDArray[Any],
    rated: NDArray[np.bool_],
    *,
    clusters: ArrayLike | None = None,
    n_resamples: int = 2_000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Agreement:
    groups = cluster_labels(clusters, len(rated))[rated]
    interval = bootstrap_interval(statistic, rows, groups, n_resamples, seed, confidence)
    return Agreement(*interval, len(rows), 2 * len(rows), int((~rated).sum()))
