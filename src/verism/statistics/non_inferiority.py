"""Is a new run worse than a baseline by more than is allowed? One-sided tests, and the same question turned round."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from verism.statistics._common import (
    ClusterTotals,
    Floats,
    check_resamples,
    cluster_totals,
    design_effect,
    finite,
    ratio_variance,
    student_probability,
    student_quantile,
)
from verism.statistics.intervals import Interval
from verism.statistics.paired import (
    CHUNK_CELLS,
    MAX_CONVOLUTION,
    MAX_ENUMERATED,
    all_subsets,
    distribution_of_subset_sums,
    is_binary,
)

__all__ = ["NonInferiority", "independent_non_inferiority", "non_inferiority"]

FINEST = 1000  # margins that are whole multiples of 1 / n for some n up to this are tested exactly
STEPS = 60  # halvings that find the end of an interval


@dataclass(frozen=True, kw_only=True)
class NonInferiority:
    """How much worse a new run is than a baseline, against a margin.

    Attributes:
        drop: how much worse the new run is; negative where it is better. NaN without pairs.
        low: lower end of the drop, one-sided at 1 - alpha; above the margin exactly where ``p_exceeds`` is at most
            alpha. NaN when undefined.
        high: upper end, one-sided at 1 - alpha; below the margin exactly where ``p_within`` is at most alpha.
        p_exceeds: p-value of "the true drop is at most the margin": small where a larger drop is beyond luck.
        p_within: p-value of "the true drop is at least the margin": small where the new run is shown not to be worse.
        n_pairs: units that both runs have; 0 where none are paired.
        n_clusters: clusters (prompts) these units belong to.
    """

    drop: float
    low: float
    high: float
    p_exceeds: float
    p_within: float
    n_pairs: int
    n_clusters: int


def non_inferiority(
    base: ArrayLike,
    new: ArrayLike,
    clusters: ArrayLike,
    *,
    margin: float,
    seed: int,
    higher_is_better: bool = True,
    weights: ArrayLike | None = None,
    alpha: float = 0.05,
    n_resamples: int = 10_000,
) -> NonInferiority:
    """Paired, one-sided test of a drop against a margin, clustered by prompt; and the test of the opposite.

    Each p-value is the largest of several, because each alone raises false alarms where another does not.

    *Signs.* If the differences of a cluster are symmetric about the margin, the total of what is beyond the margin
    could as well have had the other sign. The p-value is the share of sign patterns whose sum is at least the observed
    one: exact for unweighted 0/1 values and a margin that is a fraction with a denominator of at most 1000 (with one
    unit per cluster and margin 0 it is the exact one-sided McNemar test), or for at most 12 clusters; otherwise from
    ``n_resamples`` random patterns and the observed one.

    *Size.* If all values are 0 or 1: the score statistic of the difference of paired proportions, its variance that of
    the most likely proportions whose difference is the margin, at the effective number of units (``n`` over the design
    effect of ``effective_size``), held against the normal distribution, or where units are clustered or weighted,
    Student's t with K - 1 degrees of freedom. Of other values, and of several units per cluster besides: the mean over
    its linearised standard error between clusters, transformed for skewness. As few clusters hide a skewness, the one
    that raises false alarms is taken to be one standard error, ``sqrt(6 / K)``, larger than it looks, and the
    transformation never makes a p-value smaller.

    Args:
        base: values of the baseline, shape (N,).
        new: values of the new run for the same units in the same order (joined by id), shape (N,).
        clusters: label of each unit's cluster, shape (N,).
        margin: the largest drop that is allowed, in the unit of the values, >= 0; for 0/1 values below 1.
        seed: seed of random sign patterns.
        higher_is_better: False where the smaller value is the better one, so that a rise is a drop in quality.
        weights: weight of each unit in the mean, > 0, shape (N,); None for equal ones.
        alpha: level of each one-sided end, in (0, 0.5).
        n_resamples: random sign patterns, >= 1.
    Returns:
        The result. It does not depend on the order of rows or the names of clusters. Where differences other than of
        0/1 values are all equal, the ends are NaN and the p-values those of the signs; of a single cluster nothing is
        shown.
    Raises:
        ValueError: NaN, arrays of unequal length, or a margin or alpha out of range.
    Source: Tango 1998, Stat. Med. 17:891-908 (score statistic); Rao & Scott 1992, Biometrics 48:577-585 (clusters);
        Hall 1992, J. R. Stat. Soc. B 54:221-228 (skewness); Hartigan 1969, J. Am. Stat. Assoc. 64:1303-1317 (signs,
        inverted); Blackwelder 1982, Control. Clin. Trials 3:345-353 (non-inferiority).
    """
    check_resamples(n_resamples)
    if not 0.0 < alpha < 0.5:
        raise ValueError(f"alpha must lie strictly between 0 and 0.5, such as 0.05; got {alpha}")
    if not (margin >= 0.0 and math.isfinite(margin)):
        raise ValueError(f"margin must be a finite number of at least 0; got {margin}")
    first, second = finite(base, "base"), finite(new, "new")
    if first.shape != second.shape:
        raise ValueError(
            f"base and new must hold the same units; got {len(first)} and {len(second)}. Join the runs by id"
        )
    weight = np.ones(len(first)) if weights is None else finite(weights, "weights")
    if weight.shape != first.shape or bool(np.any(weight <= 0)):
        raise ValueError(f"weights must be {len(first)} numbers above 0")
    drops = first - second if higher_is_better else second - first
    totals = ClusterTotals(cluster_totals(weight * drops, clusters).sums, cluster_totals(weight, clusters).sums)
    n_clusters = len(totals.sums)
    if not n_clusters:
        nan = math.nan
        return NonInferiority(drop=nan, low=nan, high=nan, p_exceeds=nan, p_within=nan, n_pairs=0, n_clusters=0)
    order = np.lexsort((totals.sizes, totals.sums))  # what is drawn must not depend on the names of clusters
    totals = ClusterTotals(totals.sums[order], totals.sizes[order])
    shares = None
    if is_binary(first) and is_binary(second):
        if margin >= 1.0:
            raise ValueError(f"margin must be below 1 for values of 0 and 1; got {margin}")
        shares = (
            float(weight[drops == 1].sum() / weight.sum()),
            float(weight[drops == -1].sum() / weight.sum()),
        )
    lattice = weights is None and bool(np.all(totals.sums == np.rint(totals.sums)))
    means = _subset_means(totals, np.random.default_rng(seed), n_resamples)
    above = _Side(totals, shares, lattice, means)
    mirrored = ClusterTotals(-totals.sums, totals.sizes)
    below = _Side(mirrored, None if shares is None else shares[::-1], lattice, -means)
    drop = float(totals.sums.sum() / totals.n_units)
    p_exceeds, p_within = above.p_value(margin), below.p_value(-margin)
    low, high = above.end(alpha), -below.end(alpha)
    # The test of signs at the margin is exact, and random patterns at the ends are not: the test decides.
    if low > margin and p_exceeds > alpha:
        low = margin
    elif low <= margin and p_exceeds <= alpha:
        low = (margin + drop) / 2
    if high < margin and p_within > alpha:
        high = margin
    elif high >= margin and p_within <= alpha:
        high = (margin + drop) / 2
    return NonInferiority(
        drop=drop,
        low=low,
        high=high,
        p_exceeds=p_exceeds,
        p_within=p_within,
        n_pairs=len(first),
        n_clusters=n_clusters,
    )


def independent_non_inferiority(
    base: Interval, new: Interval, *, margin: float, higher_is_better: bool = True, alpha: float = 0.05
) -> NonInferiority:
    """The same for two numbers that have intervals and no units to pair, taken for independent.

    Each end of the drop combines the distances of the single ends (Zou & Donner 2008); the p-values are those of the
    normal test whose standard error the end towards the margin implies.

    Args:
        base: number of the baseline with its interval of 95 %.
        new: number of the new run with its interval of 95 %.
        margin: the largest drop that is allowed, in the unit of the numbers, >= 0.
        higher_is_better: False where the smaller number is the better one.
        alpha: level of each one-sided end, in (0, 0.5).
    Returns:
        The result, with no pairs; NaN where a number or its interval is undefined.
    Raises:
        ValueError: a margin or alpha out of range.
    Source: Zou & Donner 2008, Stat. Med. 27:1693-1702.
    """
    if not 0.0 < alpha < 0.5:
        raise ValueError(f"alpha must lie strictly between 0 and 0.5, such as 0.05; got {alpha}")
    if not (margin >= 0.0 and math.isfinite(margin)):
        raise ValueError(f"margin must be a finite number of at least 0; got {margin}")
    better, worse = (base, new) if higher_is_better else (new, base)
    drop = better.value - worse.value
    normal = NormalDist()
    below = math.hypot(better.value - better.low, worse.high - worse.value) / normal.inv_cdf(0.975)
    above = math.hypot(better.high - better.value, worse.value - worse.low) / normal.inv_cdf(0.975)
    error = below if drop > margin else above
    p_exceeds = p_within = math.nan
    if error > 0:
        p_exceeds, p_within = normal.cdf((margin - drop) / error), normal.cdf((drop - margin) / error)
    z = normal.inv_cdf(1 - alpha)
    return NonInferiority(
        drop=drop,
        low=drop - z * below,
        high=drop + z * above,
        p_exceeds=p_exceeds,
        p_within=p_within,
        n_pairs=0,
        n_clusters=0,
    )


@dataclass(frozen=True)
class _Side:
    """Tests of "the mean is at most theta", against a larger one.

    Attributes:
        totals: of the clusters.
        shares: of units with the value 1 and -1, where all are 1, 0 or -1; else None.
        lattice: whether totals and sizes are whole numbers.
        means: of subsets of the clusters, shape (S,); NaN for the empty one.
    """

    totals: ClusterTotals
    shares: tuple[float, float] | None
    lattice: bool
    means: Floats

    @property
    def mean(self) -> float:
        return float(self.totals.sums.sum() / self.totals.n_units)

    def p_value(self, theta: float) -> float:
        """The larger p-value of signs and size."""
        signs = self._by_signs(theta)
        size = self._by_size(theta)
        return signs if math.isnan(size) else max(signs, size)

    def end(self, alpha: float) -> float:
        """The largest mean that both tests exclude at a level, which is the lower end of an interval."""
        by_error = self.mean - skewed_quantile(alpha, len(self.totals.sums), self._skewness) * self._error
        if self.shares is not None:
            ends = [self._end_by_score(alpha)]
            if not self._single and not math.isnan(by_error):
                ends.append(by_error)
        else:
            ends = [by_error]
        # NaN stays NaN: where nothing is known of the size, nothing is of the end.
        return math.nan if math.isnan(ends[0]) else min(*ends, self._end_by_signs(alpha), self.mean)

    # ------------------------------------------------------------------------------------------------------------ signs
    @cached_property
    def _subset_means(self) -> Floats:
        """Means of subsets of the clusters, sorted; the empty one is the observed pattern, which counts at any mean.

        A pattern's sum of what is beyond theta reaches the observed one where the clusters that it turns have a mean of
        at most theta.
        """
        return np.sort(np.where(np.isnan(self.means), -np.inf, self.means))

    def _by_signs(self, theta: float) -> float:
        if self.lattice:
            ratio = Fraction(theta).limit_denominator(FINEST)
            beyond = np.rint(ratio.denominator * self.totals.sums - ratio.numerator * self.totals.sizes)
            sizes = np.abs(beyond[beyond != 0]).astype(np.int64)
            if abs(float(ratio) - theta) < 1e-12 and len(sizes) * int(sizes.sum()) <= MAX_CONVOLUTION:
                share = distribution_of_subset_sums(sizes)
                sums = 2.0 * np.arange(len(share)) - float(sizes.sum())
                return min(1.0, float(share[sums >= beyond.sum()].sum()))
        reached = np.searchsorted(self._subset_means, theta + 1e-9 * self._scale, side="right")
        if len(self.totals.sums) <= MAX_ENUMERATED:
            return float(reached / len(self._subset_means))
        return float((reached + 1) / (len(self._subset_means) + 1))

    @property
    def _scale(self) -> float:
        """Sums of the same numbers in another order differ by rounding, and a tie must count as a tie."""
        return float(np.max(np.abs(self.totals.sums) / self.totals.sizes))

    def _end_by_signs(self, alpha: float) -> float:
        n = len(self._subset_means)
        if len(self.totals.sums) <= MAX_ENUMERATED:
            first = math.floor(alpha * n + 1e-9)  # one more than so many reach the end
        else:
            first = math.floor(alpha * (n + 1) + 1e-9) - 1
        return float(self._subset_means[first]) if 0 <= first < n else -math.inf

    # ------------------------------------------------------------------------------------------------------------- size
    def _by_size(self, theta: float) -> float:
        n_clusters = len(self.totals.sums)
        if self.shares is not None:
            gain, loss = self.shares
            z = (self.mean - theta) * math.sqrt(self._effective / max(null_variance(gain, loss, theta), 1e-300))
            if self._single:
                return NormalDist().cdf(-z)
            by_error = self._by_error(theta)
            by_score = student_probability(max(n_clusters - 1, 1), -z)
            return by_score if math.isnan(by_error) else max(by_score, by_error)
        return self._by_error(theta)

    def _by_error(self, theta: float) -> float:
        n_clusters = len(self.totals.sums)
        if not self._error > 0:  # NaN, too
            return math.nan
        t = (self.mean - theta) / self._error
        plain = student_probability(n_clusters - 1, -t)
        if t <= 0:
            return plain
        a = self._skewness / math.sqrt(n_clusters)
        return max(plain, student_probability(n_clusters - 1, -(t + a * t**2 / 3 + a**2 * t**3 / 27 + a / 6)))

    @cached_property
    def _single(self) -> bool:
        """Whether every unit is a cluster of its own and all count alike."""
        return bool(np.all(self.totals.sizes == 1))

    @cached_property
    def _effective(self) -> float:
        assert self.shares is not None
        n = self.totals.n_units
        smallest = n**2 / float(np.sum(self.totals.sizes**2))
        if self._single or len(self.totals.sums) == 1:
            return smallest
        effect = design_effect(self.totals, n * sum(self.shares), lowest=-1.0, highest=1.0)
        return min(max(n / effect, smallest), n)

    def _end_by_score(self, alpha: float) -> float:
        low, high = -1.0, self.mean
        if self._by_size(high) <= alpha:
            return high
        for _ in range(STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._by_size(middle) <= alpha else (low, middle)
        return low

    @cached_property
    def _error(self) -> float:
        """Standard error of the mean between clusters; NaN where it cannot be known."""
        if len(self.totals.sums) < 2:
            return math.nan
        error = math.sqrt(ratio_variance(self.totals))
        return math.nan if error <= 1e-12 * abs(self.mean) else error  # all differences are equal, but for rounding

    @cached_property
    def _skewness(self) -> float:
        """Skewness of the clusters, less its standard error; 0 where it would not be negative."""
        n_clusters = len(self.totals.sums)
        residuals = self.totals.sums - self.mean * self.totals.sizes
        squares = float(np.mean(residuals**2))
        if not squares > 0:
            return 0.0
        skewness = float(np.mean(residuals**3)) / squares**1.5
        if n_clusters > 2:
            skewness *= math.sqrt(n_clusters * (n_clusters - 1)) / (n_clusters - 2)
        return float(min(skewness - math.sqrt(6 / n_clusters), 0.0))


def _subset_means(totals: ClusterTotals, rng: np.random.Generator, n_resamples: int) -> Floats:
    """Means of all subsets of at most ``MAX_ENUMERATED`` clusters, else of random ones; NaN for an empty one."""
    n_clusters = len(totals.sums)
    with np.errstate(invalid="ignore", divide="ignore"):
        if n_clusters <= MAX_ENUMERATED:
            chosen = all_subsets(n_clusters)
            return (chosen @ totals.sums) / (chosen @ totals.sizes)
        # Of clusters that are equal, only how many are chosen matters.
        kinds, counts = np.unique(np.stack([totals.sums, totals.sizes], axis=1), axis=0, return_counts=True)
        step = max(1, CHUNK_CELLS // len(counts))
        parts = []
        for start in range(0, n_resamples, step):
            drawn = rng.binomial(counts, 0.5, size=(min(step, n_resamples - start), len(counts))) @ kinds
            parts.append(drawn[:, 0] / drawn[:, 1])
        return np.concatenate(parts)


def null_variance(positive: float, negative: float, theta: float) -> float:
    """Variance of a unit of values 1, 0 and -1, with the most likely shares whose difference is theta.

    Args:
        positive: observed share of 1.
        negative: observed share of -1.
        theta: difference of the shares, in (-1, 1).
    """
    # The share q of -1 solves 2 q**2 - b q - negative theta (1 - theta) = 0, that of 1 being q + theta.
    neither = 1.0 - positive - negative
    b = (positive + negative) * (1 - theta) - 2 * theta * (negative + neither)
    q = (b + math.sqrt(max(b**2 + 8 * negative * theta * (1 - theta), 0.0))) / 4
    return 2 * max(q, 0.0, -theta) + theta - theta**2


def skewed_quantile(alpha: float, n_clusters: int, skewness: float) -> float:
    """Standard errors between the mean and the end of its interval, where the skewness is negative or 0."""
    if n_clusters < 2:
        return math.nan
    plain = student_quantile(n_clusters - 1, 1 - alpha)
    a = skewness / math.sqrt(n_clusters)
    if a > -1e-12:
        return plain
    return max(plain, 3 / a * (float(np.cbrt(1 + a * (plain - a / 6))) - 1))
