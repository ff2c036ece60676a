"""Whether two measurements rank the same models alike: Kendall's and Spearman's coefficients, with two intervals each.

For these very models, what is uncertain is how each measurement would order them over other prompts: the interval holds
every order that the tests of all pairs leave open. Percentiles of resampled prompts would not do: noise puts models out
of order twice, once in the sample and again in its resample, so that coefficients near 1 are missed nearly always. For
models in general, the models are a sample, too: that interval is a jackknife over models.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verism.statistics._common import check_confidence, finite_pair
from verism.statistics.association import kendall_tau, spearman_rho
from verism.statistics.intervals import Interval

__all__ = ["RankAgreement", "kendall_over_models", "rank_agreement", "spearman_over_models"]

FEWEST_MODELS = 5  # a jackknife over fewer is uninformative


class RankAgreement(NamedTuple):
    """How alike two measurements rank models.

    Attributes:
        tau: Kendall's tau-b, -1 to 1: share of pairs of models in the same order less that of pairs in opposite order,
            ties taken into account. NaN for fewer than two models, and where one measurement ties all of them.
        low: lowest tau of the true values that the tests leave open, -1 to 1.
        high: highest tau of the true values that the tests leave open, -1 to 1.
        rho: Spearman's rank correlation, -1 to 1; NaN where ``tau`` is.
        rho_low: a bound below which the tests leave no rank correlation of the true values open, -1 to 1.
        rho_high: a bound above which they leave none open, -1 to 1.
        n_models: models with both values.
        n_pairs: pairs of them.
        n_told: pairs whose order both measurements tell significantly.
        n_opposite: those of ``n_told`` that the two order differently.
    """

    tau: float
    low: float
    high: float
    rho: float
    rho_low: float
    rho_high: float
    n_models: int
    n_pairs: int
    n_told: int
    n_opposite: int


def rank_agreement(first: ArrayLike, second: ArrayLike, first_wins: ArrayLike, second_wins: ArrayLike) -> RankAgreement:
    """Coefficients of two measurements of the same models, with every value that the tests of pairs leave open.

    Args:
        first: values of the models, larger for better, shape (M,), finite.
        second: values of the same models by the other measurement, shape (M,), finite.
        first_wins: first_wins[i, j] is 1 where model i is significantly better than j, -1 where worse, 0 where neither
            is significant, shape (M, M). For an interval of level 1 - alpha, the tests of either measurement hold
            together with a probability of 1 - alpha / 2 (Holm's, at that level).
        second_wins: the same of the other measurement.

    Returns:
        The coefficients and their ends. Ends of tau: pairs that either measurement does not order significantly may be
        in the same or in opposite order. Ends of rho: from the ranks that the tests allow each model, and from what rho
        can be for such a tau. Both measurements order every significant pair correctly at once with a probability of
        1 - alpha or more, and then the true coefficients lie between the ends, however the tests depend on each other,
        unless true values are equal to the last bit. The ends are wide where few pairs are significant.

    Raises:
        ValueError: unequal lengths, values that are not finite, tables of another shape or not of -1, 0 and 1.
    Source: rho and tau of one pair of orders, Daniels 1950, Biometrika 37:171-181: |3 m tau - 2 (m + 1) rho| <= m - 2.

    >>> wins = [[0, 1, 1], [-1, 0, 0], [-1, 0, 0]]
    >>> found = rank_agreement([3, 2, 1], [3, 1, 2], wins, wins)
    >>> round(found.tau, 3), round(found.low, 3), found.high, found.n_told
    (0.333, 0.333, 1.0, 2)
    """
    a, b = finite_pair(first, second)
    wins = [np.asarray(table) for table in (first_wins, second_wins)]
    for table in wins:
        if table.shape != (len(a), len(a)) or not np.isin(table, (-1, 0, 1)).all() or (table != -table.T).any():
            raise ValueError(f"{len(a)} models need a table of {len(a)} x {len(a)} of -1, 0, 1 with opposite halves")
    above = np.triu_indices(len(a), k=1)
    n_pairs = len(above[0])
    if not n_pairs:
        unknown = math.nan
        return RankAgreement(unknown, unknown, unknown, unknown, unknown, unknown, len(a), 0, 0, 0)
    told = wins[0][above] * wins[1][above]  # 1 alike, -1 opposite, 0 not told
    alike, opposite = int(np.count_nonzero(told > 0)), int(np.count_nonzero(told < 0))
    open_pairs = n_pairs - alike - opposite
    low, high = (alike - opposite - open_pairs) / n_pairs, (alike - opposite + open_pairs) / n_pairs
    rho_low, rho_high = _rho_ends(wins[0], wins[1], low, high)
    return RankAgreement(
        tau=kendall_tau(a, b),
        low=low,
        high=high,
        rho=spearman_rho(a, b),
        rho_low=rho_low,
        rho_high=rho_high,
        n_models=len(a),
        n_pairs=n_pairs,
        n_told=alike + opposite,
        n_opposite=opposite,
    )


def _rho_ends(
    first: NDArray[np.int8], second: NDArray[np.int8], tau_low: float, tau_high: float
) -> tuple[float, float]:
    """Bounds of Spearman's coefficient of all orders that tests leave open; they may be wider than need be."""
    m = len(first)
    best = [1 + np.count_nonzero(wins < 0, axis=1) for wins in (first, second)]
    worst = [m - np.count_nonzero(wins > 0, axis=1) for wins in (first, second)]
    apart, other = worst[0] - best[1], worst[1] - best[0]
    farthest, nearest = np.maximum(apart, other), np.maximum(np.maximum(-apart, -other), 0)
    low, high = (1 - 6 * float(np.sum(d.astype(np.float64) ** 2)) / (m * (m * m - 1)) for d in (farthest, nearest))
    low = max(low, (3 * m * tau_low - (m - 2)) / (2 * (m + 1)), -1.0)
    high = min(high, (3 * m * tau_high + (m - 2)) / (2 * (m + 1)), 1.0)
    return min(low, high), max(low, high)  # tests that contradict each other leave nothing open


def kendall_over_models(first: ArrayLike, second: ArrayLike, *, confidence: float = 0.95) -> Interval:
    """Kendall's tau of two measurements as of models in general, of which these are a sample.

    Args:
        first: values of the models, shape (M,), finite.
        second: values of the same models by the other measurement, shape (M,), finite.
        confidence: confidence level, in (0, 1).

    Returns:
        Tau-b, and an interval by a jackknife over models with Student's t; what the values themselves owe to the
        prompts is in it. Ends are NaN for fewer than five models, or where no model left out changes tau.

    Raises:
        ValueError: unequal lengths, values that are not finite.

    Source: Arvesen 1969, Ann. Math. Stat. 40:2076-2100 (jackknife of U-statistics).
    """
    found = _jackknife(kendall_tau, first, second, confidence)
    return Interval(found.value, *(min(max(end, -1.0), 1.0) if end == end else end for end in (found.low, found.high)))


def spearman_over_models(first: ArrayLike, second: ArrayLike, *, confidence: float = 0.95) -> Interval:
    """Spearman's rank correlation of two measurements as of models in general, of which these are a sample.

    Args:
        first: values of the models, shape (M,), finite.
        second: values of the same models by the other measurement, shape (M,), finite.
        confidence: confidence level, in (0, 1).

    Returns:
        The coefficient, and an interval by a jackknife over models with Student's t, on the scale of Fisher's z and
        with the jackknife's correction of bias: of few models the coefficient itself is drawn towards 0, and an
        interval around it misses too often. Ends are NaN as of ``kendall_over_models``.

    Raises:
        ValueError: unequal lengths, values that are not finite.

    Source: Efron 1982, The Jackknife, the Bootstrap and Other Resampling Plans, ch. 2 and 3; Fisher 1915, Biometrika
        10:507-521 (z).
    """
    m = len(np.atleast_1d(first))
    # z of 1 is infinite: orders that are all alike count as half way to the nearest that are not.
    most = 1 - 6 / (m * (m * m - 1)) if m > 1 else 0.0

    def z(a: ArrayLike, b: ArrayLike) -> float:
        return math.atanh(min(max(spearman_rho(a, b), -most), most))

    value = spearman_rho(*finite_pair(first, second))
    ends = _jackknife(z, first, second, confidence, corrected=True)
    return Interval(value, math.tanh(ends.low), math.tanh(ends.high))


def _jackknife(
    coefficient: Callable[[ArrayLike, ArrayLike], float],
    first: ArrayLike,
    second: ArrayLike,
    confidence: float,
    *,
    corrected: bool = False,
) -> Interval:
    """A coefficient and its ends; ``corrected``: around the value with the jackknife's correction of bias."""
    from scipy.stats import t

    check_confidence(confidence)
    a, b = finite_pair(first, second)
    m = len(a)
    value = coefficient(a, b)
    if m < FEWEST_MODELS or math.isnan(value):
        return Interval(value, math.nan, math.nan)
    without = np.array([coefficient(np.delete(a, i), np.delete(b, i)) for i in range(m)])
    error = math.sqrt((m - 1) / m * float(np.sum((without - without.mean()) ** 2)))
    # NaN: the rest is tied. 0: all orders alike, or all opposite; how far models in general differ is not known.
    if not error > 1e-12:
        return Interval(value, math.nan, math.nan)
    reach = float(t.ppf((1 + confidence) / 2, m - 1)) * error
    middle = m * value - (m - 1) * float(without.mean()) if corrected else value
    return Interval(value, middle - reach, middle + reach)
