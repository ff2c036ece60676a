"""What the statistics share: checks of their inputs, totals per cluster, the effective sample size."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

SPREAD = 4  # largest number of a cluster, in units, up to which numbers are counted and not sorted
SORTED = 2**17  # units that are sorted at once, about


class ClusterTotals(NamedTuple):
    """What a mean over clustered units depends on.

    Attributes:
        sums: total of the values of each cluster, shape (K,).
        sizes: units in each cluster, shape (K,), each >= 1.
    """

    sums: Floats
    sizes: Floats

    @property
    def n_units(self) -> float:
        return float(self.sizes.sum())


def check_confidence(confidence: float) -> None:
    """Raise ValueError unless 0 < confidence < 1."""
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie strictly between 0 and 1, such as 0.95; got {confidence}")


def check_resamples(n_resamples: int) -> None:
    """Raise ValueError unless n_resamples >= 1."""
    if n_resamples < 1:
        raise ValueError(f"n_resamples must be at least 1; got {n_resamples}")


def finite(values: ArrayLike, name: str) -> Floats:
    """The values as float64, shape (N,). Raises ValueError if they are not one-dimensional, or NaN or infinite."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional; got shape {array.shape}")
    if bad := int(np.count_nonzero(~np.isfinite(array))):
        raise ValueError(
            f"{name} holds {bad} NaN or infinite value(s) of {len(array)}; remove null answers first and count them"
        )
    return array


def zero_one(values: ArrayLike, name: str) -> Floats:
    """The values as float64, shape (N,). Raises ValueError if any is not 0 or 1 (or False or True)."""
    array = finite(values, name)
    wrong = array[(array != 0.0) & (array != 1.0)]
    if len(wrong):
        raise ValueError(f"{name} must hold only 0 and 1; got {wrong[0]:g} among {len(wrong)} other value(s)")
    return array


def finite_pair(first: ArrayLike, second: ArrayLike) -> tuple[Floats, Floats]:
    """Both as float64, shape (N,).

    Raises:
        ValueError: not one-dimensional, of unequal length, or NaN or infinite.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError(f"two one-dimensional arrays of one length are needed; got shapes {a.shape} and {b.shape}")
    if bad := int(np.count_nonzero(~(np.isfinite(a) & np.isfinite(b)))):
        raise ValueError(f"{bad} of {len(a)} entries are NaN or infinite; leave them out and count them")
    return a, b


def mean_ranks(values: Floats) -> Floats:
    """Ranks from 1 of finite values, shape (N,), equal ones sharing the mean of theirs.

    As of ``scipy.stats.rankdata``, which takes several times as long for a few dozen values; resamples rank thousands
    of times.
    """
    order = np.argsort(values)
    ordered = values[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(values)])
    end = np.append(first[1:], len(values))
    ranks = np.empty(len(values))
    ranks[order] = np.repeat((first + 1 + end) / 2, end - first)
    return ranks


def cluster_codes(clusters: ArrayLike, n: int, name: str = "clusters") -> NDArray[np.intp]:
    """Cluster number of each unit, 0 .. K-1, shape (n,), numbered in the order of the sorted labels.

    Raises:
        ValueError: not one label per unit, or a label is missing (None or NaN).
    """
    labels = np.asarray(clusters)
    if labels.shape != (n,):
        raise ValueError(f"{name} must give one label for each of the {n} values; got shape {labels.shape}")
    if labels.dtype == object:
        missing = sum(label is None or label != label for label in labels)
    elif labels.dtype.kind == "f":
        missing = int(np.count_nonzero(np.isnan(labels)))
    else:
        missing = 0
    if missing:
        raise ValueError(f"{name} holds {missing} missing label(s); every unit must have one")
    if labels.dtype.kind in "iu" and n:
        low, high = int(labels.min()), int(labels.max())
        if low >= 0 and high < SPREAD * n:  # numbers near each other need not be sorted
            codes = labels.astype(np.intp)
            there = np.zeros(high + 1, dtype=bool)
            there[codes] = True
            return codes if there.all() else (np.cumsum(there) - 1)[codes]
    return np.unique(labels, return_inverse=True)[1].reshape(n)


def cluster_totals(values: Floats, clusters: ArrayLike) -> ClusterTotals:
    """Sum and size of every cluster, the same to the last bit however rows are ordered."""
    codes = cluster_codes(clusters, len(values))
    if not len(values):
        return ClusterTotals(np.zeros(0), np.zeros(0))
    # Sorted within the cluster: floating-point sums depend on the order of their terms, and rounding must not decide
    # which clusters count as equal, hence which resamples are drawn.
    sizes = np.bincount(codes)
    ends = np.cumsum(sizes)
    sums = np.zeros(len(sizes))
    # Some clusters at a time: what sorting takes beside the values is a multiple of them.
    cuts = np.unique([0, *np.searchsorted(ends, np.arange(SORTED, len(values), SORTED)), len(sizes)]).tolist()
    for first, end in zip(cuts, cuts[1:]):
        some, of_each = values, codes
        if len(cuts) > 2:
            chosen = (codes >= first) & (codes < end)
            some, of_each = values[chosen], codes[chosen]
        starts = ends[first:end] - sizes[first:end]
        sums[first:end] = np.add.reduceat(some[np.lexsort((some, of_each))], starts - starts[0])
    return ClusterTotals(sums, sizes.astype(np.float64))


def ratio_variance(totals: ClusterTotals) -> float:
    """Linearised variance of the ratio sum(sums) / sum(sizes) between K >= 2 clusters.

    Source: Cochran 1977, Sampling Techniques, 3rd ed., Ch. 6 (ratio estimators), without finite population correction.
    """
    n_clusters, n = len(totals.sizes), totals.n_units
    residuals = totals.sums - totals.sums.sum() / n * totals.sizes
    return float(n_clusters / (n_clusters - 1) * np.sum(residuals**2) / n**2)


def effective_size(
    totals: ClusterTotals, sum_of_squares: float, *, lowest: float, highest: float, confidence: float
) -> float:
    """How many independent units tell as much about the mean as these clustered ones.

    It is ``n / deff``, where the design effect ``deff`` is the linearised variance of the mean between clusters over
    that of as many independent units, times ``(t[n-1] / t[K-1])**2``, because K clusters estimate the variance with
    K - 1 degrees of freedom only.

    We differ from the sources in two points, as near the ends of the range the data cannot show a design effect. First,
    ``deff`` is estimated with one imaginary cluster of typical size added, half of it at the lowest and half of it at
    the highest value. Second, the result is kept between that of clusters that agree completely,
    ``n**2 / sum(n_c**2)``, and n. A single cluster counts as one unit. With one unit per cluster the result is n.

    Args:
        totals: at least one cluster.
        sum_of_squares: of the values of all units.
        lowest: smallest value a unit can have.
        highest: largest value a unit can have, > lowest.
        confidence: confidence level of the interval it is for, in (0, 1).
    Source: Rao & Scott 1992, Biometrics 48:577-585 (ratio estimator, effective sample size); Korn & Graubard 1998,
        Survey Methodology 24:193-201 (degrees of freedom).
    """
    n_clusters, n = len(totals.sizes), totals.n_units
    smallest = n / (float(np.sum(totals.sizes**2)) / n)
    if n_clusters == 1 or smallest == n:
        return smallest
    effect = design_effect(totals, sum_of_squares, lowest=lowest, highest=highest)
    tail = (1 + confidence) / 2
    freedom = (student_quantile(n - 1, tail) / student_quantile(n_clusters - 1, tail)) ** 2
    return min(max(n / effect * freedom, smallest), n)


def design_effect(totals: ClusterTotals, sum_of_squares: float, *, lowest: float, highest: float) -> float:
    """Variance of the mean between clusters over that of as many independent units, an imaginary cluster added.

    Args:
        totals: at least one cluster.
        sum_of_squares: of the values of all units.
        lowest: smallest value a unit can have.
        highest: largest value a unit can have, > lowest.
    """
    n_clusters, n = len(totals.sizes), totals.n_units
    # Size of the cluster the average unit lies in: the design effect if clusters agree completely.
    size = float(np.sum(totals.sizes**2)) / n
    # Half a cluster of each, as Jeffreys' prior adds half a unit of each.
    padded_clusters, padded_n, half = n_clusters + 1, n + size, 0.5 * size
    mean = (float(totals.sums.sum()) + half * (lowest + highest)) / padded_n
    squares = float(np.sum((totals.sums - mean * totals.sizes) ** 2))
    squares += half * size * ((lowest - mean) ** 2 + (highest - mean) ** 2)
    between = padded_clusters / (padded_clusters - 1) * squares / padded_n**2
    unit_variance = (sum_of_squares + half * (lowest**2 + highest**2)) / padded_n - mean**2
    return between / (unit_variance / (padded_n - 1))


def student_quantile(df: float, probability: float) -> float:
    """Quantile of Student's t distribution."""
    from scipy.special import stdtrit

    return float(stdtrit(df, probability))


def student_probability(df: float, value: float) -> float:
    """Probability of at most a value under Student's t distribution."""
    from scipy.special import stdtr

    return float(stdtr(df, value))
