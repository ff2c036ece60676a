"""Confidence intervals: proportions, means and any statistic, of units that come in clusters.

A unit is an image, a cluster the prompt it was made for. All functions are pure; randomness comes in as ``seed``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verism.statistics._common import (
    ClusterTotals,
    Floats,
    check_confidence,
    check_resamples,
    cluster_codes,
    cluster_totals,
    effective_size,
    finite,
    ratio_variance,
    student_quantile,
    zero_one,
)

__all__ = [
    "BootstrapMethod",
    "ClusterSums",
    "Interval",
    "cluster_bootstrap",
    "cluster_bootstrap_mean",
    "clustered_average",
    "clustered_mean",
    "clustered_proportion",
    "mean_of_independent",
    "proportion_of_totals",
    "wilson",
]

BootstrapMethod = Literal["bca", "percentile"]

FEW_CLUSTERS = 30  # of fewer, resampled means are too close together
DRAWN_AGAIN = 5  # clusters up to which resamples are remembered: 3,125 are all there are
MAX_UNDEFINED = 0.01  # share of resamples that may lack a value; beyond, the rest no longer speaks for the whole
CHUNK_CELLS = 4_000_000  # resampling weights held at once: 32 MB
TIE = 1e-9  # share of the range of all resamples within which one equals the estimate: they differ by rounding alone


class Interval(NamedTuple):
    """An estimate between the ends of its confidence interval. NaN where undefined."""

    value: float
    low: float
    high: float


def wilson(successes: float, n: float, *, confidence: float = 0.95) -> Interval:
    """Wilson score interval of a proportion of independent units.

    Args:
        successes: units that are right, in [0, n].
        n: units. Neither needs to be whole, so that an effective sample size will do.
        confidence: confidence level, in (0, 1).
    Returns:
        Proportion and interval, in [0, 1]; all NaN if n is 0. Never of zero width.
    Raises:
        ValueError: NaN, negative n, or successes outside [0, n].
    Source: Wilson 1927, JASA 22:209-212; Newcombe 1998, Stat. Med. 17:857-872, method 3.

    >>> wilson(9, 10)
    Interval(value=0.9, low=0.595849..., high=0.982123...)
    """
    check_confidence(confidence)
    if not (math.isfinite(n) and 0 <= successes <= n):
        raise ValueError(f"wilson needs 0 <= successes <= n, both finite; got successes={successes}, n={n}")
    if n == 0:
        return Interval(math.nan, math.nan, math.nan)
    successes, n = float(successes), float(n)
    p, z = successes / n, NormalDist().inv_cdf((1 + confidence) / 2)
    shrink = 1 + z**2 / n
    middle = (p + z**2 / (2 * n)) / shrink
    half = z * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2)) / shrink
    # The ends are exactly 0 and 1 there; rounding would miss them by 1e-17.
    low = 0.0 if successes == 0 else max(0.0, middle - half)
    high = 1.0 if successes == n else min(1.0, middle + half)
    return Interval(p, low, high)


def clustered_proportion(values: ArrayLike, clusters: ArrayLike, *, confidence: float = 0.95) -> Interval:
    """Wilson interval of a proportion when several units (images) share a cluster (prompt).

    The proportion is over units. Its interval is Wilson's at the effective sample size, which falls with the design
    effect of the clusters and with their number. It does not collapse near 0 % and 100 %: there units count as if
    clusters agreed completely, which such data cannot contradict. The price is that the interval is somewhat too wide
    for rare outcomes of clusters that do not agree at all. With one unit per cluster it is exactly Wilson's.

    Args:
        values: 0 or 1 per unit, shape (N,).
        clusters: label of each unit's cluster, shape (N,).
        confidence: confidence level, in (0, 1).
    Returns:
        Proportion and interval, in [0, 1]; all NaN if there are no units.
    Raises:
        ValueError: values other than 0 and 1 (NaN included), or labels that are missing or of another length.
    Source: Rao & Scott 1992, Biometrics 48:577-585 (ratio estimator, effective sample size); Korn & Graubard 1998,
        Survey Methodology 24:193-201 (degrees of freedom); Wilson in place of their Clopper-Pearson as in Dean &
        Pagano 2015, J. Surv. Stat. Methodol. 3:484-503. We differ in how the design effect is estimated when it can
        hardly be seen, see ``effective_size`` in ``_common.py``.
    """
    check_confidence(confidence)
    return _proportion(cluster_totals(zero_one(values, "values"), clusters), confidence)


def proportion_of_totals(right: ArrayLike, sizes: ArrayLike, *, confidence: float = 0.95) -> Interval:
    """``clustered_proportion`` from the totals of clusters: equal to the last bit for clusters in the order of labels.

    Args:
        right: units with value 1 of each cluster, whole numbers, shape (K,).
        sizes: units of each cluster, whole numbers, shape (K,); clusters without units are left out.
        confidence: confidence level, in (0, 1).
    Returns:
        Proportion and interval, in [0, 1]; all NaN if there are no units.
    Raises:
        ValueError: numbers that are not whole, or not in 0 <= right <= size; arrays of unequal length.

    >>> proportion_of_totals([9], [10]) == clustered_proportion([1] * 9 + [0], ["a"] * 10)
    True
    """
    check_confidence(confidence)
    sums, counts = finite(right, "right"), finite(sizes, "sizes")
    if sums.shape != counts.shape:
        raise ValueError(f"right and sizes must be of the same clusters; got {len(sums)} and {len(counts)}")
    whole = np.all(sums == np.rint(sums)) and np.all(counts == np.rint(counts))
    if not whole or np.any(sums < 0) or np.any(sums > counts):
        raise ValueError("right and sizes must be whole numbers with 0 <= right <= size in every cluster")
    kept = counts > 0
    return _proportion(ClusterTotals(sums[kept], counts[kept]), confidence)


def _proportion(totals: ClusterTotals, confidence: float) -> Interval:
    if not len(totals.sizes):
        return Interval(math.nan, math.nan, math.nan)
    right = float(totals.sums.sum())
    proportion = right / totals.n_units
    effective = effective_size(totals, right, lowest=0.0, highest=1.0, confidence=confidence)
    return wilson(proportion * effective, effective, confidence=confidence)


def clustered_mean(
    values: ArrayLike,
    clusters: ArrayLike,
    *,
    bounds: tuple[float, float] | None = None,
    confidence: float = 0.95,
) -> Interval:
    """Mean of all values, with Student's t interval over clusters, by the linearised variance of a ratio.

    For means of graded values; for 0 and 1 ``clustered_proportion`` holds the truth better. With two dozen clusters a
    bootstrap is too short (``python benchmarks/imbalance.py --part means``).

    Args:
        values: shape (N,).
        clusters: label of each value's cluster, shape (N,).
        bounds: ends that a mean cannot pass, to which the interval is cut.
        confidence: confidence level, in (0, 1).
    Returns:
        Mean and ends; NaN without values. Ends are NaN without two clusters, or if nothing varies between them.
    Raises:
        ValueError: values that are no finite numbers, or arrays of unequal length.
    Source: Cochran 1977, Sampling Techniques, 3rd ed., Ch. 6 (ratio estimators).

    >>> clustered_mean([1, 3, 2, 2, 5, 5], ["a", "a", "b", "b", "c", "c"])
    Interval(value=3.0, low=-1.30..., high=7.30...)
    """
    check_confidence(confidence)
    return _mean(cluster_totals(finite(values, "values"), clusters), bounds, confidence)


def _mean(totals: ClusterTotals, bounds: tuple[float, float] | None, confidence: float) -> Interval:
    if not len(totals.sizes):
        return Interval(math.nan, math.nan, math.nan)
    value = float(totals.sums.sum() / totals.n_units)
    # Below this, what varies is rounding.
    if len(totals.sizes) < 2 or (variance := ratio_variance(totals)) <= 1e-24:
        return Interval(value, math.nan, math.nan)
    half = student_quantile(len(totals.sizes) - 1, (1 + confidence) / 2) * math.sqrt(variance)
    lowest, highest = bounds or (-math.inf, math.inf)
    return Interval(value, max(value - half, lowest), min(value + half, highest))


def clustered_average(values: ArrayLike, clusters: ArrayLike, *, bounds: tuple[float, float] | None = None) -> Interval:
    """Mean with its 95 % interval clustered by prompt: ``clustered_proportion`` for 0 and 1, else ``clustered_mean``.

    Args:
        values: shape (N,), finite.
        clusters: label of each value's cluster, shape (N,).
        bounds: as of ``clustered_mean``: (0, 1) of shares and probabilities.

    Returns:
        Mean and ends; NaN without values.
    """
    numbers = np.asarray(values, dtype=np.float64)
    if not numbers.size:
        return Interval(math.nan, math.nan, math.nan)
    is_share = bool(np.isin(numbers, (0.0, 1.0)).all())
    return clustered_proportion(numbers, clusters) if is_share else clustered_mean(numbers, clusters, bounds=bounds)


class ClusterSums(NamedTuple):
    """All that ``clustered_average`` needs of its values, so that these can come in parts without a common cluster.

    Attributes:
        labels: of the clusters, sorted, shape (K,).
        sums: total of the values of each cluster, shape (K,).
        sizes: values of each cluster, shape (K,).
        is_share: whether all values are 0 or 1.

    >>> parts = [ClusterSums.of([1, 0], ["a", "a"]), ClusterSums.of([1], ["b"])]
    >>> ClusterSums.joined(parts).average() == clustered_average([1, 0, 1], ["a", "a", "b"])
    True
    """

    labels: NDArray[Any]
    sums: Floats
    sizes: Floats
    is_share: bool

    @classmethod
    def of(cls, values: ArrayLike, clusters: ArrayLike) -> ClusterSums:
        """The sums of values.

        Args:
            values: shape (N,), finite.
            clusters: label of each value's cluster, shape (N,).
        """
        numbers = finite(values, "values")
        if not numbers.size:  # arrays without values know no kind of label
            return cls(np.zeros(0, np.int64), np.zeros(0), np.zeros(0), is_share=True)
        totals = cluster_totals(numbers, clusters)
        is_share = bool(np.isin(numbers, (0.0, 1.0)).all())
        return cls(np.unique(np.asarray(clusters)), totals.sums, totals.sizes, is_share)

    @classmethod
    def joined(cls, parts: Sequence[ClusterSums]) -> ClusterSums:
        """The sums of all parts.

        Args:
            parts: no two of which share a cluster.

        Raises:
            ValueError: two parts share a cluster.
        """
        full = [part for part in parts if len(part.labels)]
        if len(full) < 2:
            return full[0] if full else cls.of([], [])
        labels, sums, sizes, shares = zip(*full, strict=True)
        joined = np.concatenate(labels)
        order = np.argsort(joined, kind="stable")
        if np.any(joined[order][1:] == joined[order][:-1]):
            raise ValueError("parts of sums must not share a cluster")
        return cls(joined[order], np.concatenate(sums)[order], np.concatenate(sizes)[order], all(shares))

    def average(self, *, bounds: tuple[float, float] | None = None) -> Interval:
        """As ``clustered_average`` of all values, to the last bit.

        Args:
            bounds: as of ``clustered_mean``.
        """
        totals = ClusterTotals(self.sums, self.sizes)
        return _proportion(totals, 0.95) if self.is_share else _mean(totals, bounds, 0.95)


def mean_of_independent(intervals: Sequence[Interval], weights: Sequence[float] | None = None) -> Interval:
    """Interval of the weighted mean of independent estimates, such as the mean accuracy over skills.

    Each end combines the distances of the single ends: ``low = mean - sqrt(sum(w_i**2 (value_i - low_i)**2))``. So it
    stays lopsided where the single ones are, and does not collapse if all estimates are 100 %. It lies within
    the weighted mean of the ends, hence in [0, 1] for proportions.

    Args:
        intervals: one per estimate, all of the same level, which is then the level of the result.
        weights: per estimate, >= 0, not all 0; scaled to sum 1. None: equal.
    Raises:
        ValueError: no intervals, an undefined (NaN) or disordered one, or weights that do not fit.
    Source: Zou & Donner 2008, Stat. Med. 27:1693-1702 (MOVER), for sums of more than two terms.
    """
    if not intervals:
        raise ValueError("mean_of_independent needs at least one interval; got none")
    ends = np.asarray(intervals, dtype=np.float64)
    for position, (value, low, high) in enumerate(ends):
        if not low <= value <= high:
            raise ValueError(
                f"interval {position} must satisfy low <= value <= high, without NaN; got value={value}, low={low}, "
                f"high={high}. Leave undefined estimates out, or report the mean as undefined"
            )
    w = np.full(len(ends), 1.0) if weights is None else finite(weights, "weights")
    if w.shape != (len(ends),) or np.any(w < 0) or w.sum() == 0:
        raise ValueError(f"weights must be {len(ends)} numbers >= 0, not all 0; got {w.tolist()}")
    w = w / w.sum()
    values, lows, highs = ends.T
    mean = float(w @ values)
    return Interval(
        mean,
        mean - math.sqrt(float(np.sum((w * (values - lows)) ** 2))),
        mean + math.sqrt(float(np.sum((w * (highs - values)) ** 2))),
    )


def cluster_bootstrap_mean(
    values: ArrayLike,
    clusters: ArrayLike,
    *,
    seed: int | np.random.Generator,
    n_resamples: int = 10_000,
    method: BootstrapMethod = "bca",
    confidence: float = 0.95,
    bounds: tuple[float, float] | None = None,
) -> Interval:
    """Bootstrap interval of the mean over units, resampling clusters: ``cluster_bootstrap(np.mean, ...)``, but fast.

    The mean only depends on the sum and the size of each cluster, so clusters equal in both are drawn together, by one
    multinomial count. The result depends neither on the order of rows nor on the names of clusters.

    Resamples of very few clusters lie too close together: of two, 95 % intervals would hold the truth in half of all
    studies, of ten to twenty-nine in 89 to 93 %. With fewer than ``FEW_CLUSTERS`` the interval is at least Student's
    (``clustered_mean``): 93 to 96 % hold the truth of means of grades that are normal or moderately skewed, at 1.07 to
    1.26 times the width; strongly skewed ones still fall short with ten to twelve clusters (91 %).

    Args, Returns, Raises, Source: as for ``cluster_bootstrap``; values are numbers, shape (N,). ``bounds`` are ends
    that a mean cannot pass, to which Student's interval is cut.
    """
    _check_bootstrap(n_resamples, method, confidence)
    numbers = finite(values, "values")
    totals = cluster_totals(numbers, clusters)
    n_clusters = len(totals.sizes)
    if n_clusters < 2:
        return Interval(float(numbers.mean()) if n_clusters else math.nan, math.nan, math.nan)
    kinds, counts = np.unique(np.stack(totals, axis=1), axis=0, return_counts=True)
    sums, sizes = kinds.T
    total, n = float(counts @ sums), float(counts @ sizes)
    rng = np.random.default_rng(seed)
    resampled = np.empty(n_resamples)
    step = max(1, CHUNK_CELLS // len(counts))
    for start in range(0, n_resamples, step):
        drawn = rng.multinomial(n_clusters, counts / n_clusters, size=min(step, n_resamples - start))
        resampled[start : start + step] = (drawn @ sums) / (drawn @ sizes)
    left_out = np.repeat((total - sums) / (n - sizes), counts)
    interval = _bootstrap_interval(total / n, resampled, left_out, method, confidence)
    if n_clusters >= FEW_CLUSTERS or math.isnan(interval.low):
        return interval
    in_order = ClusterTotals(np.repeat(sums, counts), np.repeat(sizes, counts))  # whatever the names of clusters
    student = _mean(in_order, bounds, confidence)
    if math.isnan(student.low):
        return interval
    return Interval(interval.value, min(interval.low, student.low), max(interval.high, student.high))


def cluster_bootstrap(
    statistic: Callable[..., float],
    *data: ArrayLike,
    clusters: ArrayLike,
    seed: int | np.random.Generator,
    n_resamples: int = 2_000,
    method: BootstrapMethod = "bca",
    within: bool = False,
    confidence: float = 0.95,
) -> Interval:
    """Bootstrap interval of any statistic, resampling whole clusters with replacement.

    Args:
        statistic: called with the arrays of ``data``, resampled alike along the first axis; returns a number, NaN where
            it is undefined. Its cost dominates: it is called up to ``n_resamples + K + 1`` times.
        data: one or more arrays with N rows, row i belonging to unit i.
        clusters: label of each unit's cluster, shape (N,).
        seed: seed or generator. The same seed gives the same interval, also if rows are reordered, as long as
            ``statistic`` does not care for their order; renamed clusters are drawn in another order.
        n_resamples: resamples, >= 1; 2,000 or more for two steady digits.
        method: ``bca``, bias-corrected and accelerated (by a jackknife over clusters); or ``percentile``.
        within: also resample the units within each drawn cluster. That adds the variation within clusters once more
            than the sampling of prompts and images implies, so intervals become too wide (Davison & Hinkley 1997,
            Sec. 3.8); for clusters that are few and fixed.
        confidence: confidence level, in (0, 1).
    Returns:
        The statistic of the data, and its interval. Ends are NaN if they cannot be known: fewer than two clusters, all
        resamples equal (a mean of equal values; for proportions use ``clustered_proportion``), a value that is
        undefined, or more than 1 % of resamples undefined (up to that they are left out).
    Raises:
        ValueError: no data, NaN in the data, arrays or labels of unequal length, an unknown method.
    Source: Efron 1987, JASA 82:171-185 (BCa); Davison & Hinkley 1997, Bootstrap Methods, Sec. 3.8 (clusters).
    """
    _check_bootstrap(n_resamples, method, confidence)
    arrays = _rows(data)
    codes = cluster_codes(clusters, len(arrays[0]))
    if not len(codes):
        return Interval(math.nan, math.nan, math.nan)
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    starts = np.cumsum(sizes) - sizes
    n_clusters = len(sizes)

    def evaluate(rows: NDArray[np.intp]) -> float:
        return float(statistic(*(array[rows] for array in arrays)))

    def rows_of(drawn: NDArray[np.intp], rng: np.random.Generator | None = None) -> NDArray[np.intp]:
        """Row numbers of the drawn clusters, one after another."""
        size = np.repeat(sizes[drawn], sizes[drawn])
        ends = np.cumsum(sizes[drawn])
        offset = np.arange(len(size)) - np.repeat(ends - sizes[drawn], sizes[drawn])
        if rng is not None:
            offset = rng.integers(0, size)
        return order[np.repeat(starts[drawn], sizes[drawn]) + offset]

    value = evaluate(np.arange(len(codes)))
    if n_clusters < 2 or not math.isfinite(value):
        return Interval(value, math.nan, math.nan)
    rng = np.random.default_rng(seed)
    resampled = np.empty(n_resamples)
    known: dict[bytes, float] = {}  # of very few clusters the same ones are drawn in the same order again and again
    for i in range(n_resamples):
        drawn = rng.integers(0, n_clusters, size=n_clusters)
        if within or n_clusters > DRAWN_AGAIN:
            resampled[i] = evaluate(rows_of(drawn, rng if within else None))
            continue
        key = drawn.tobytes()
        if key not in known:
            known[key] = evaluate(rows_of(drawn))
        resampled[i] = known[key]
    every = np.arange(n_clusters)
    left_out = np.zeros(0)
    if method == "bca":
        left_out = np.array([evaluate(rows_of(np.delete(every, i))) for i in every])
    return _bootstrap_interval(value, resampled, left_out, method, confidence)


def _check_bootstrap(n_resamples: int, method: str, confidence: float) -> None:
    check_confidence(confidence)
    check_resamples(n_resamples)
    if method not in ("bca", "percentile"):
        raise ValueError(f"method must be 'bca' or 'percentile'; got {method!r}")


def _rows(data: tuple[ArrayLike, ...]) -> list[NDArray[Any]]:
    arrays = [np.asarray(array) for array in data]
    if not arrays or any(array.ndim == 0 for array in arrays):
        raise ValueError("cluster_bootstrap needs one or more arrays after the statistic, with one row per unit")
    if len({len(array) for array in arrays}) > 1:
        raise ValueError(f"the arrays must have one row per unit each; got {[len(array) for array in arrays]} rows")
    for position, array in enumerate(arrays):
        if array.dtype.kind in "fc" and np.isnan(array).any():
            raise ValueError(f"data array {position} holds NaN; remove null answers first and count them")
    return arrays


def _bootstrap_interval(
    value: float, resampled: Floats, left_out: Floats, method: BootstrapMethod, confidence: float
) -> Interval:
    """Ends from the resampled values; ``left_out`` are the values without each cluster, for the acceleration."""
    defined = resampled[np.isfinite(resampled)]
    if len(defined) < (1 - MAX_UNDEFINED) * len(resampled):
        return Interval(value, math.nan, math.nan)
    if np.allclose(defined, defined[0], rtol=1e-12, atol=0.0):  # equal but for rounding
        return Interval(value, math.nan, math.nan)
    probabilities = [(1 - confidence) / 2, (1 + confidence) / 2]
    if method == "bca":
        normal = NormalDist()
        tied = np.abs(defined - value) <= TIE * np.ptp(defined)
        below = float(np.mean((defined < value) & ~tied) + np.mean(tied) / 2)
        resolution = 0.5 / len(defined)  # none, or all, of the resamples below is not a certainty
        bias = normal.inv_cdf(min(max(below, resolution), 1 - resolution))
        left_out = left_out[np.isfinite(left_out)]
        pull = left_out.mean() - left_out if len(left_out) else left_out
        spread = float(np.sum(pull**2))
        acceleration = float(np.sum(pull**3)) / (6 * spread**1.5) if spread > 0 else 0.0
        shifted = [bias + normal.inv_cdf(p) for p in probabilities]
        # From acceleration * s = 1 on, the correction asks for a value beyond all resamples.
        stretch = [max(1 - acceleration * s, 1e-9) for s in shifted]
        probabilities = [normal.cdf(bias + s / by) for s, by in zip(shifted, stretch, strict=True)]
    low, high = np.quantile(defined, probabilities)
    return Interval(value, float(low), float(high))
