"""Whether two measurements rank the same models alike: Kendall's tau, for these models and for models in general.

For these very models, what is uncertain is how each measurement would order them over other prompts: the interval holds
every order that the tests of all pairs leave open. For models in general, the models are a sample, too: that interval
is a jackknife over models.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verism.statistics._common import Floats, check_confidence, finite_pair
from verism.statistics.intervals import Interval

__all__ = ["RankAgreement", "kendall_over_models", "rank_agreement"]

FEWEST_MODELS = 5  # a jackknife over fewer says nothing


class RankAgreement(NamedTuple):
    """How alike two measurements rank models.

    Attributes:
        tau: share of pairs of models in the same order less that of pairs in opposite order, -1 to 1; pairs with equal
            values count as neither. NaN for fewer than two models.
        low: lowest tau of the true values that the tests leave open.
        high: highest tau of the true values that the tests leave open.
        n_models: models with both values.
        n_pairs: pairs of them.
        n_told: pairs whose order both measurements tell significantly.
        n_opposite: those of ``n_told`` that the two order differently.
    """

    tau: float
    low: float
    high: float
    n_models: int
    n_pairs: int
    n_told: int
    n_opposite: int


def rank_agreement(first: ArrayLike, second: ArrayLike, first_wins: ArrayLike, second_wins: ArrayLike) -> RankAgreement:
    """Kendall's tau of two measurements of the same models, with every value that the tests of pairs leave open.

    Args:
        first: values of the models, larger for better, shape (M,), finite.
        second: values of the same models by the other measurement, shape (M,), finite.
        first_wins: first_wins[i, j] is 1 where model i is significantly better than j, -1 where worse, 0 where neither
            can be told, shape (M, M). For an interval of level 1 - alpha, the tests of either measurement hold together
            with a probability of 1 - alpha / 2 (Holm's, at that level).
        second_wins: the same of the other measurement.

    Returns:
        Tau (a: ties are neither alike nor opposite), and its ends: pairs that either measurement does not tell may be
        in the same order or in opposite order. Both measurements order every told pair rightly at once with a
        probability of 1 - alpha or more, and then the true tau lies between the ends, however the tests depend on each
        other. The ends are wide where few pairs are told.

    Raises:
        ValueError: unequal lengths, values that are not finite, tables of another shape or not of -1, 0 and 1.

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
        return RankAgreement(math.nan, math.nan, math.nan, len(a), 0, 0, 0)
    told = wins[0][above] * wins[1][above]  # 1 alike, -1 opposite, 0 not told
    alike, opposite = int(np.count_nonzero(told > 0)), int(np.count_nonzero(told < 0))
    open_pairs = n_pairs - alike - opposite
    return RankAgreement(
        tau=float(_orders(a, b)[above].sum() / n_pairs),
        low=(alike - opposite - open_pairs) / n_pairs,
        high=(alike - opposite + open_pairs) / n_pairs,
        n_models=len(a),
        n_pairs=n_pairs,
        n_told=alike + opposite,
        n_opposite=opposite,
    )


def kendall_over_models(first: ArrayLike, second: ArrayLike, *, confidence: float = 0.95) -> Interval:
    """Kendall's tau of two measurements as of models in general, of which these are a sample.

    Args:
        first: values of the models, shape (M,), finite.
        second: values of the same models by the other measurement, shape (M,), finite.
        confidence: confidence level, in (0, 1).

    Returns:
        Tau (a), and an interval by a jackknife over models with Student's t; what the values themselves owe to the
        prompts is in it. Ends are NaN for fewer than five models, or where no model left out changes tau.

    Raises:
        ValueError: unequal lengths, values that are not finite.

    Source: Arvesen 1969, Ann. Math. Stat. 40:2076-2100 (jackknife of U-statistics).
    """
    from scipy.stats import t

    check_confidence(confidence)
    a, b = finite_pair(first, second)
    m = len(a)
    orders = _orders(a, b)
    if m < 2:
        return Interval(math.nan, math.nan, math.nan)
    total = float(orders.sum()) / 2
    tau = total / (m * (m - 1) / 2)
    if m < FEWEST_MODELS:
        return Interval(tau, math.nan, math.nan)
    without = (total - orders.sum(axis=1)) / ((m - 1) * (m - 2) / 2)
    error = math.sqrt((m - 1) / m * float(np.sum((without - without.mean()) ** 2)))
    if error < 1e-12:  # all orders alike, or all opposite: how far models in general differ from that is not known
        return Interval(tau, math.nan, math.nan)
    reach = float(t.ppf((1 + confidence) / 2, m - 1)) * error
    return Interval(tau, max(tau - reach, -1.0), min(tau + reach, 1.0))


def _orders(a: Floats, b: Floats) -> NDArray[np.float64]:
    """1 where two models are in the same order by both, -1 where in opposite order, shape (M, M), 0 on the diagonal."""
    return np.sign(a[:, None] - a[None, :]) * np.sign(b[:, None] - b[None, :])
