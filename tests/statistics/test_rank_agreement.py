"""Rank agreement of two measurements: by hand, against scipy, and the ends that tests leave open hold the truth."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau, norm, spearmanr

from verism.statistics import kendall_over_models, rank_agreement, spearman_over_models
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
    # Ranks 1, 2, 3 by the first; by the second model 0 is 1 or 2, model 1 is 3, and model 2 is 1 or 2. So the squared
    # distances are at least 0 + 1 + 1 and at most 1 + 1 + 4: rho is 1 - 6 * 2 / 24 or 1 - 6 * 6 / 24.
    assert (found.rho, found.rho_low, found.rho_high) == pytest.approx((0.5, -0.5, 0.5))
    nothing = rank_agreement([3, 2, 1], [3, 1, 2], NONE, second)
    assert (nothing.low, nothing.high, nothing.n_told) == (-1, 1, 0)
    assert (nothing.rho_low, nothing.rho_high) == (-1, 1)


def test_ties_are_taken_into_account():
    # Pairs: (0, 1) tied by the second, (0, 2) and (1, 2) alike: tau-b is 2 / sqrt(3 * 2), and not 2 / 3.
    found = rank_agreement([3, 2, 1], [5, 5, 1], NONE, NONE)
    assert found.tau == pytest.approx(2 / math.sqrt(6))
    assert found.rho == pytest.approx(spearmanr([3, 2, 1], [5, 5, 1]).statistic)
    tied = rank_agreement([3, 2, 1], [5, 5, 5], NONE, NONE)
    assert math.isnan(tied.tau)
    assert math.isnan(tied.rho)


@settings(max_examples=60)
@given(st.permutations(range(5)), st.integers(2, 5), st.lists(st.booleans(), min_size=20, max_size=20))
def test_the_ends_hold_every_order_that_the_tests_leave_open(order, n, told_pairs):
    values = [np.arange(n), np.array([*order][:n])]
    chosen = iter(told_pairs)
    wins = []
    for value in values:
        table = np.zeros((n, n), dtype=int)
        for i, j in itertools.combinations(range(n), 2):
            if next(chosen):
                table[i, j] = np.sign(value[i] - value[j])
                table[j, i] = -table[i, j]
        wins.append(table)
    found = rank_agreement(*values, *wins)
    possible = [
        [p for p in map(np.array, itertools.permutations(range(n))) if np.all(np.sign(p[:, None] - p) * table >= 0)]
        for table in wins
    ]
    slack = 1e-9
    for first, second in itertools.product(*possible):
        signs = np.sign(first[:, None] - first) * np.sign(second[:, None] - second)
        tau = signs.sum() / (n * (n - 1))
        rho = 1 - 6 * np.sum((first - second) ** 2) / (n * (n * n - 1))
        assert found.low - slack <= tau <= found.high + slack
        assert found.rho_low - slack <= rho <= found.rho_high + slack
    if not any(told_pairs):
        assert (found.rho_low, found.rho_high) == (-1, 1)
    if all(told_pairs):
        assert found.rho_low == pytest.approx(found.rho)
        assert found.rho_high == pytest.approx(found.rho)


def test_percentiles_of_resampled_prompts_would_not_hold_perfect_agreement():
    # Why there is no bootstrap: eight models that both suites truly rank alike, 100 prompts of each suite.
    rng = np.random.default_rng(5)
    true = np.linspace(0.4, 0.75, 8)
    held = 0
    for _ in range(30):
        draws = []
        for _suite in range(2):
            right = (rng.random((100, 8)) < true).astype(float)
            draws.append(rng.multinomial(100, np.full(100, 0.01), size=200) @ right / 100)
        held += np.percentile([kendalltau(a, b).statistic for a, b in zip(*draws, strict=True)], 97.5) >= 1 - 1e-9
    assert held <= 3


def test_one_model_has_no_order():
    alone = rank_agreement([1.0], [2.0], [[0]], [[0]])
    assert math.isnan(alone.tau)
    assert alone.n_pairs == 0


@given(st.permutations(range(7)), st.integers(2, 7))
def test_tau_is_scipy_s_without_ties(order, n):
    first, second = list(range(n)), order[:n]
    none = np.zeros((n, n), dtype=int)
    expected = kendalltau(first, second).statistic
    assert rank_agreement(first, second, none, none).tau == pytest.approx(expected)
    assert kendall_over_models(first, second).value == pytest.approx(expected)
    assert spearman_over_models(first, second).value == pytest.approx(spearmanr(first, second).statistic)


def test_the_jackknives_over_models_from_their_definition():
    rng = np.random.default_rng(3)
    first = rng.normal(size=9)
    second = first + rng.normal(size=9)
    quantile = 2.306004135204172  # of Student's t with 8 degrees of freedom
    found = kendall_over_models(first, second)
    without = [kendalltau(np.delete(first, i), np.delete(second, i)).statistic for i in range(9)]
    error = math.sqrt(8 / 9 * sum((value - np.mean(without)) ** 2 for value in without))
    assert found.high == pytest.approx(min(found.value + quantile * error, 1))
    assert found.low == pytest.approx(max(found.value - quantile * error, -1))
    found = spearman_over_models(first, second)
    without = [math.atanh(spearmanr(np.delete(first, i), np.delete(second, i)).statistic) for i in range(9)]
    error = math.sqrt(8 / 9 * sum((value - np.mean(without)) ** 2 for value in without))
    middle = 9 * math.atanh(spearmanr(first, second).statistic) - 8 * np.mean(without)
    assert found.high == pytest.approx(math.tanh(middle + quantile * error))
    assert found.low == pytest.approx(math.tanh(middle - quantile * error))


def test_few_models_and_perfect_agreement_have_no_interval_in_general():
    assert math.isnan(kendall_over_models([1, 2, 3, 4], [1, 2, 4, 3]).low)
    for function in (kendall_over_models, spearman_over_models):
        perfect = function(range(8), range(8))
        assert perfect.value == pytest.approx(1)
        assert math.isnan(perfect.low)
    # With the first model left out the second measurement ties all.
    assert math.isnan(kendall_over_models(range(6), [0, 1, 1, 1, 1, 1]).low)


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
    held = rho_held = wide = 0
    for _ in range(400):
        true = [rng.normal(size=5), rng.normal(size=5)]
        seen = [values + 0.2 * rng.normal(size=5) for values in true]
        found = rank_agreement(*seen, *(told(values, 0.2, 0.025) for values in seen))
        tau = kendalltau(*true).statistic
        held += found.low - 1e-9 <= tau <= found.high + 1e-9
        rho = spearmanr(*true).statistic
        rho_held += found.rho_low - 1e-9 <= rho <= found.rho_high + 1e-9
        wide += found.high - found.low == 2
    assert min(held, rho_held) >= 0.95 * 400
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
