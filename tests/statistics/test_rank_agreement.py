"""Rank agreement of two measurements: by hand, against scipy, and the ends that tests leave open hold the truth."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau, norm

from verism.statistics import kendall_over_models, rank_agreement
from verism.statistics.paired import holm

NONE = np.zeros((3, 3), dtype=int)


def test_by_hand():
    first = [[0, 1, 1], [-1, 0, 1], [-1, -1, 0]]  # 0 > 1 > 2, all told
    second = [[0, 1, 0], [-1, 0, -1], [0, 1, 0]]  # 0 > 1, 2 > 1
    found = rank_agreement([3, 2, 1], [3, 1, 2], first, second)
    assert found.tau == pytest.approx(1 / 3)
    # (0, 1) alike, (1, 2) opposite, (0, 2) open: between -1/3 and 1/3.
    assert (found.low, found.high) == pytest.approx((-1 / 3, 1 / 3))
    assert (found.n_pairs, found.n_told, found.n_opposite) == (3, 2, 1)
    nothing = rank_agreement([3, 2, 1], [3, 1, 2], NONE, second)
    assert (nothing.low, nothing.high, nothing.n_told) == (-1, 1, 0)


def test_one_model_has_no_order():
    alone = rank_agreement([1.0], [2.0], [[0]], [[0]])
    assert math.isnan(alone.tau)
    assert alone.n_pairs == 0


@settings(deadline=None)
@given(st.permutations(range(7)), st.integers(2, 7))
def test_tau_is_scipy_s_without_ties(order, n):
    first, second = list(range(n)), order[:n]
    none = np.zeros((n, n), dtype=int)
    expected = kendalltau(first, second).statistic
    assert rank_agreement(first, second, none, none).tau == pytest.approx(expected)
    assert kendall_over_models(first, second).value == pytest.approx(expected)


def test_the_jackknife_over_models_from_its_definition():
    rng = np.random.default_rng(3)
    first = rng.normal(size=9)
    second = first + rng.normal(size=9)
    found = kendall_over_models(first, second)
    without = [kendalltau(np.delete(first, i), np.delete(second, i)).statistic for i in range(9)]
    error = math.sqrt(8 / 9 * sum((value - np.mean(without)) ** 2 for value in without))
    assert found.high == pytest.approx(min(found.value + 2.306004135204172 * error, 1))  # t of 8 degrees of freedom
    assert found.low == pytest.approx(max(found.value - 2.306004135204172 * error, -1))


def test_few_models_and_perfect_agreement_have_no_interval_in_general():
    assert math.isnan(kendall_over_models([1, 2, 3, 4], [1, 2, 4, 3]).low)
    perfect = kendall_over_models(range(8), range(8))
    assert perfect.value == 1
    assert math.isnan(perfect.low)


def told(values, error, level):
    """Wins by tests of independent normal values, adjusted by Holm."""
    above = np.triu_indices(len(values), k=1)
    z = (values[:, None] - values[None, :]) / (error * math.sqrt(2))
    p = np.ones_like(z)
    p[above] = holm(2 * norm.sf(np.abs(z[above])))
    p = np.minimum(p, p.T)
    return np.where(p <= level, np.sign(z), 0).astype(int)


def test_the_ends_hold_the_true_tau():
    rng = np.random.default_rng(17)
    held = wide = 0
    for _ in range(400):
        true = [rng.normal(size=5), rng.normal(size=5)]
        seen = [values + 0.2 * rng.normal(size=5) for values in true]
        found = rank_agreement(*seen, *(told(values, 0.2, 0.025) for values in seen))
        tau = kendalltau(*true).statistic
        held += found.low - 1e-9 <= tau <= found.high + 1e-9
        wide += found.high - found.low == 2
    assert held >= 0.95 * 400
    assert wide < 200  # the ends say something


@pytest.mark.parametrize(
    ("tables", "match"),
    [
        ((NONE[:2], NONE), "3 models need a table of 3 x 3"),
        ((NONE + 2, NONE), "of -1, 0, 1"),
        ((np.ones((3, 3), dtype=int), NONE), "opposite halves"),
    ],
)
def test_bad_tables(tables, match):
    with pytest.raises(ValueError, match=match):
        rank_agreement([1, 2, 3], [1, 2, 3], *tables)
