"""Comparing two runs on the same images asked for, and many such comparisons at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from verism.statistics._common import (
    ClusterTotals,
    Floats,
    check_confidence,
    check_resamples,
    cluster_totals,
    effective_size,
    finite,
    ratio_variance,
    student_quantile,
)

__all__ = ["PairedDifference", "holm", "paired_difference"]

MAX_ENUMERATED = 12  # clusters: 4,096 sign patterns
MAX_CONVOLUTION = 200_000_000  # clusters times distinct totals: about 0.2 s
CHUNK_CELLS = 4_000_000  # random signs held at once


@dataclass(frozen=True, kw_only=True)
class PairedDifference:
    """How much better run b is than run a.

    Attributes:
        difference: mean of b minus mean of a: positive when b has the larger values. NaN without pairs.
        low: lower end of its confidence interval; NaN when undefined.
        high: upper end. The interval leaves 0 out exactly where the p-value is below one minus its level.
        p_value: two-sided permutation p-value of "no difference", in (0, 1]; NaN without pairs.
        n_pairs: units that both runs have.
        n_clusters: clusters (prompts) these units belong to.
    """

    difference: float
    low: float
    high: float
    p_value: float
    n_pairs: int
    n_clusters: int


def paired_difference(
    a: ArrayLike,
    b: ArrayLike,
    clusters: ArrayLike,
    *,
    seed: int | np.random.Generator,
    n_resamples: int = 10_000,
    confidence: float = 0.95,
) -> PairedDifference:
    """Difference ``mean(b) - mean(a)`` over the same units, its interval and its permutation p-value.

    *p-value.* If the runs are exchangeable, the total difference of each cluster could as well have had the other sign.
    The p-value is the share of sign patterns whose grand total is at least as far from 0 as the observed one: exact if
    all totals are whole numbers, as for 0/1 values (with one unit per cluster it is the exact McNemar test), or if at
    most 12 totals are not 0; otherwise from ``n_resamples`` random patterns and the observed one.

    *Interval.* If all values are 0 or 1: the adjusted Wald interval of Bonett & Price at the effective sample size
    of ``clustered_proportion``. It imagines one more unit that only b gets right and one that only a gets right, so it
    has a width even when the runs agree everywhere. Otherwise: the mean difference plus or minus Student's t (K - 1
    degrees of freedom) times the linearised standard error between clusters.

    *Where the two would disagree* about 0, the test decides, and the end of the interval that is nearer to 0 is that of
    the inverted test. Signs that do not exclude 0 make the interval reach 0. Signs that do exclude it, where the
    interval above would not, put the end at the difference that they just exclude: a quantile of the mean differences
    of random subsets of clusters (Hartigan's typical values). So the interval leaves 0 out exactly where the p-value is
    below ``1 - confidence``.

    Args:
        a: values of the first run (the baseline), shape (N,).
        b: values of the second run for the same units in the same order (joined by id), shape (N,).
        clusters: label of each unit's cluster, shape (N,).
        seed: seed or generator; only used for random sign patterns.
        n_resamples: random sign patterns, >= 1.
        confidence: confidence level of the interval, in (0, 1).
    Returns:
        The comparison. It does not depend on the order of rows or the names of clusters. The ends are NaN when they
        cannot be known: values other than 0 and 1 in fewer than two clusters, or all differences equal there; the
        p-value is then that of the signs.
    Raises:
        ValueError: NaN, or arrays of unequal length.
    Source: Cochran 1977, Sampling Techniques, 3rd ed., Ch. 6 (ratio estimators); Bonett & Price 2012, J. Educ. Behav.
        Stat. 37:479-488; Good 2005, Permutation Tests; Phipson & Smyth 2010, Stat. Appl. Genet. Mol. Biol. 9:39
        (counting the observed pattern); Hartigan 1969, J. Am. Stat. Assoc. 64:1303-1317 (the test of signs, inverted).
    """
    check_confidence(confidence)
    check_resamples(n_resamples)
    first, second = finite(a, "a"), finite(b, "b")
    if first.shape != second.shape:
        raise ValueError(f"a and b must hold the same units; got {len(first)} and {len(second)}. Join the runs by id")
    totals = cluster_totals(second - first, clusters)
    n_pairs, n_clusters = len(first), len(totals.sizes)
    if not n_pairs:
        return PairedDifference(
            difference=math.nan, low=math.nan, high=math.nan, p_value=math.nan, n_pairs=0, n_clusters=0
        )
    difference = float(totals.sums.sum() / n_pairs)
    rng = np.random.default_rng(seed)
    p_value = _sign_flip_p_value(totals.sums, rng, n_resamples)
    if is_binary(first) and is_binary(second):
        low, high = _binary_ends(totals, int(np.count_nonzero(first != second)), confidence)
    else:
        low, high = _ends(totals, confidence)
    if p_value >= 1 - confidence:
        low, high = min(low, 0.0), max(high, 0.0)  # NaN stays NaN
    elif low <= 0.0 <= high:
        low, high = _ends_beside_zero(totals, low, high, rng, n_resamples, confidence)
    return PairedDifference(
        difference=difference, low=low, high=high, p_value=p_value, n_pairs=n_pairs, n_clusters=n_clusters
    )


def _ends_beside_zero(
    totals: ClusterTotals, low: float, high: float, rng: np.random.Generator, n_resamples: int, confidence: float
) -> tuple[float, float]:
    """An interval around 0 without its part up to where the signs begin to allow a difference."""
    difference = float(totals.sums.sum()) / totals.n_units
    sums = totals.sums if difference > 0 else -totals.sums
    order = np.lexsort((totals.sizes, sums))  # which subsets are drawn must not depend on the names of clusters
    sums, sizes_of = sums[order], totals.sizes[order]
    # Totals minus d times their sizes change sign patterns of the sum beyond it as often as subsets have means below d.
    n_clusters = len(sums)
    if n_clusters <= MAX_ENUMERATED:
        means = _subset_means(all_subsets(n_clusters), sums, sizes_of)
    else:
        # A multiple of 64 patterns at once: matrix products then round alike however many there are in all.
        step = max(64, CHUNK_CELLS // n_clusters // 64 * 64)
        drawn = (
            rng.integers(0, 2, size=(min(step, n_resamples - start), n_clusters)).astype(np.float64)
            for start in range(0, n_resamples, step)
        )
        means = np.concatenate([_subset_means(chosen, sums, sizes_of) for chosen in drawn])
    means = np.sort(means)
    beyond = means[means > 1e-9 * float(np.abs(sums).max())]
    at = means[min(int((1 - confidence) / 2 * len(means)), len(means) - 1)]
    # Random subsets may put the quantile at 0, which the exact test excludes: then the first difference beyond it.
    end = min(max(float(at), float(beyond[0])), abs(difference))
    return (end, high) if difference > 0 else (low, -end)


def _subset_means(chosen: Floats, sums: Floats, sizes_of: Floats) -> Floats:
    """Mean over each subset of the clusters; -inf for the empty one.

    Args:
        chosen: 1 where a subset holds a cluster, else 0, shape (S, K).
        sums: of each cluster, shape (K,).
        sizes_of: units of each cluster, shape (K,).
    """
    sizes = chosen @ sizes_of
    with np.errstate(invalid="ignore", divide="ignore"):
        # The empty subset stands for the observed pattern, which is as far from 0 as itself at any difference.
        return np.where(sizes > 0, chosen @ sums / sizes, -np.inf)


def all_subsets(n_clusters: int) -> Floats:
    """Every subset of the clusters as a row of 0 and 1, shape (2**K, K), the empty one first."""
    return (np.arange(2**n_clusters)[:, None] >> np.arange(n_clusters) & 1).astype(np.float64)


def is_binary(values: Floats) -> bool:
    """Whether all values are 0 or 1."""
    return bool(np.all((values == 0.0) | (values == 1.0)))


def _binary_ends(totals: ClusterTotals, n_discordant: int, confidence: float) -> tuple[float, float]:
    n, difference = totals.n_units, float(totals.sums.sum()) / totals.n_units
    effective = effective_size(totals, float(n_discordant), lowest=-1.0, highest=1.0, confidence=confidence)
    middle = difference * effective / (effective + 2)
    discordant = (n_discordant / n * effective + 2) / (effective + 2)
    half = NormalDist().inv_cdf((1 + confidence) / 2) * math.sqrt((discordant - middle**2) / (effective + 2))
    # The imaginary units pull the middle towards 0; the interval must still hold the difference itself.
    return max(-1.0, min(middle - half, difference)), min(1.0, max(middle + half, difference))


def _ends(totals: ClusterTotals, confidence: float) -> tuple[float, float]:
    n_clusters = len(totals.sizes)
    if n_clusters < 2:
        return math.nan, math.nan
    difference, error = float(totals.sums.sum()) / totals.n_units, math.sqrt(ratio_variance(totals))
    if error <= 1e-12 * abs(difference):  # all differences are equal, but for rounding
        return math.nan, math.nan
    half = student_quantile(n_clusters - 1, (1 + confidence) / 2) * error
    return difference - half, difference + half


def _sign_flip_p_value(cluster_sums: Floats, rng: np.random.Generator, n_resamples: int) -> float:
    """Share of sign patterns of the totals whose sum is at least as far from 0 as the observed sum."""
    sizes = np.sort(np.abs(cluster_sums[cluster_sums != 0]))
    if not len(sizes):
        return 1.0
    n_units = float(sizes.sum())
    # Sums of the same numbers in another order differ by rounding, and a tie must count as a tie.
    observed = abs(float(cluster_sums.sum())) - 1e-9 * n_units
    if np.all(sizes == np.rint(sizes)) and len(sizes) * n_units <= MAX_CONVOLUTION:
        share = distribution_of_subset_sums(sizes.astype(np.int64))
        sums = 2.0 * np.arange(len(share)) - n_units
        return min(1.0, float(share[np.abs(sums) >= observed].sum()))
    if len(sizes) <= MAX_ENUMERATED:
        patterns = 1 - 2 * (np.arange(2 ** len(sizes))[:, None] >> np.arange(len(sizes)) & 1)
        return float(np.mean(np.abs(patterns @ sizes) >= observed))
    extreme = 0
    step = max(1, CHUNK_CELLS // len(sizes))
    for start in range(0, n_resamples, step):
        chosen = rng.integers(0, 2, size=(min(step, n_resamples - start), len(sizes)), dtype=np.int8)
        extreme += int(np.count_nonzero(np.abs(2.0 * (chosen @ sizes) - n_units) >= observed))
    return (extreme + 1) / (n_resamples + 1)


def distribution_of_subset_sums(sizes: np.ndarray) -> Floats:
    """Probability of each sum 0 .. sum(sizes) when every size is taken or not with equal chance."""
    share = np.zeros(int(sizes.sum()) + 1)
    share[0] = 1.0
    reached = 0
    for size in sizes.tolist():
        before = share[: reached + 1].copy()
        reached += size
        share[: reached + 1] *= 0.5
        share[size : reached + 1] += 0.5 * before
    return share


def holm(p_values: ArrayLike) -> Floats:
    """p-values adjusted for looking at all of them (Holm's step-down Bonferroni), in the order given.

    Rejecting where the adjusted value is at most alpha keeps the chance of any false rejection at or below alpha,
    whatever the dependence between the tests.

    Args:
        p_values: in [0, 1], shape (M,). NaN (a test that could not be made) stays NaN and is not counted.
    Returns:
        Adjusted p-values in [0, 1], shape (M,), each at least the given one.
    Raises:
        ValueError: a value outside [0, 1], or not one-dimensional.
    Source: Holm 1979, Scand. J. Stat. 6:65-70.

    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1:
        raise ValueError(f"p_values must be one-dimensional; got shape {p.shape}")
    made = np.flatnonzero(~np.isnan(p))
    if np.any((p[made] < 0) | (p[made] > 1)):
        raise ValueError(f"p_values must lie in [0, 1]; got {p[made].min():g} to {p[made].max():g}")
    ranked = made[np.argsort(p[made], kind="stable")]
    adjusted = np.full(len(p), np.nan)
    adjusted[ranked] = np.minimum(1.0, np.maximum.accumulate(p[ranked] * np.arange(len(ranked), 0, -1)))
    return adjusted
