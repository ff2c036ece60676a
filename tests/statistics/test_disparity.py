"""Disparities between groups: worked cases, and how often their intervals hold a known truth."""

from __future__ import annotations

import math

import numpy as np
import pytest

from verism.statistics.disparity import gap, ratio, worst

RUNS = 400


def test_two_independent_groups_by_hand():
    # Difference 0.3, standard error sqrt(0.03**2 + 0.04**2) = 0.05, one pair: 0.3 -+ 1.96 * 0.05 = 0.202 .. 0.398.
    result = gap([0.5, 0.8], [0.03, 0.04], seed=0, n_draws=200_000)
    assert result.interval == pytest.approx((0.3, 0.202, 0.398), abs=0.001)
    assert (result.lowest, result.highest) == (0, 1)
    # E|N(0, 0.05)| = 0.05 sqrt(2 / pi); six standard errors are no chance.
    assert result.expected_if_equal == pytest.approx(0.05 * math.sqrt(2 / math.pi), rel=0.01)
    assert result.p_equal == pytest.approx(1 / 200_001)


def test_six_equal_groups_show_a_gap_by_chance():
    # The mean range of six standard normal values is 2.534 (Tippett 1925).
    result = gap([0.5] * 6, [0.04] * 6, seed=0, n_draws=50_000)
    assert result.expected_if_equal == pytest.approx(2.534 * 0.04, rel=0.01)
    assert result.interval[:2] == (0.0, 0.0)
    # The studentised range of six groups reaches 4.03 in 5 % of cases, here in units of one standard error.
    assert result.interval.high == pytest.approx(4.030 * 0.04, rel=0.01)
    assert result.p_equal == 1.0


def test_shared_noise_cancels_in_a_gap_but_not_in_the_worst():
    shared = np.full((2, 2), 0.1**2)
    result = gap([0.5, 0.6], shared, seed=0)
    assert result.interval == pytest.approx((0.1, 0.1, 0.1))
    assert result.p_equal < 0.001
    low = worst([0.5, 0.6], shared, seed=0, n_draws=200_000)
    assert low.interval == pytest.approx((0.5, 0.5 - 0.196, 0.5 + 0.196), abs=0.002)
    assert low.position == 0


@pytest.mark.parametrize("truth", [
    [0.5] * 6, [0.3, 0.5, 0.5, 0.5, 0.5, 0.5], [0.4, 0.45, 0.5, 0.55, 0.6, 0.65],
])  # fmt: skip
def test_intervals_hold_the_truth(truth):
    truth = np.array(truth)
    errors = np.array([0.03, 0.04, 0.05, 0.03, 0.04, 0.05])
    rng = np.random.default_rng(3)
    held = {"gap": 0, "worst": 0, "ratio": 0}
    for run in range(RUNS):
        values = truth + errors * rng.standard_normal(6)
        ends = {
            "gap": (gap(values, errors, seed=run, n_draws=500).interval, np.ptp(truth)),
            "worst": (worst(values, errors, seed=run, n_draws=500).interval, truth.min()),
            "ratio": (ratio(values, errors, seed=run, n_draws=500), truth.min() / truth.max()),
        }
        for name, (interval, value) in ends.items():
            held[name] += interval.low <= value <= interval.high
    assert all(count >= 0.93 * RUNS for count in held.values()), held


def test_equality_is_rejected_as_often_as_said():
    rng = np.random.default_rng(4)
    covariance = 0.03**2 * (0.5 + 0.5 * np.eye(5))  # groups that share data
    values = rng.multivariate_normal(np.full(5, 0.6), covariance, size=RUNS)
    p = np.array([gap(v, covariance, seed=i, n_draws=500).p_equal for i, v in enumerate(values)])
    assert 0.02 < np.mean(p <= 0.05) < 0.09
    assert 0.4 < np.mean(p <= 0.5) < 0.6


def test_order_of_groups_and_limits():
    values, errors = [0.9, 0.2, 0.05], [0.01, 0.05, 0.1]
    assert worst(values, errors, seed=0, limits=(0, 1)).interval.low == 0.0
    assert worst(values, errors, seed=0).interval.low < 0.0
    assert worst(values, errors, seed=0).position == 2
    assert gap(values, [0.3] * 3, seed=0, largest=1.0).interval.high == 1.0
    back = gap(values[::-1], errors[::-1], seed=0)
    assert (back.lowest, back.highest) == (0, 2)
    assert back.interval.low == pytest.approx(gap(values, errors, seed=0).interval.low, abs=0.02)


def test_ratio_at_its_ends():
    assert ratio([0.5, 0.5], [0.0, 0.0], seed=0) == (1.0, 1.0, 1.0)
    assert ratio([0.0, 0.5], [0.1, 0.1], seed=0).low == 0.0
    assert ratio([0.0, 0.01], [0.1, 0.1], seed=0).high == 1.0  # even the highest may be 0
    assert all(math.isnan(end) for end in ratio([0.0, 0.0], [0.1, 0.1], seed=0))


def test_same_seed_same_ends():
    assert gap([0.1, 0.2, 0.4], [0.1] * 3, seed=5) == gap([0.1, 0.2, 0.4], [0.1] * 3, seed=5)


@pytest.mark.parametrize(("values", "uncertainty", "options", "message"), [
    ([0.5], [0.1], {}, "at least two groups; got 1"),
    ([0.5, math.nan], [0.1, 0.1], {}, "NaN"),
    ([0.5, 0.6], [0.1], {}, "2 standard errors >= 0 or a 2 x 2 covariance"),
    ([0.5, 0.6], [0.1, -0.1], {}, "standard errors >= 0"),
    ([0.5, 0.6], [0.1, math.nan], {}, "all finite"),
    ([0.5, 0.6], [[1.0, 2.0], [2.0, 1.0]], {}, "no covariance matrix"),
    ([0.5, 0.6], [[1.0, 0.5], [0.0, 1.0]], {}, "no covariance matrix"),
    ([0.5, 0.6], [0.1, 0.1], {"confidence": 1.0}, "confidence"),
    ([0.5, 0.6], [0.1, 0.1], {"n_draws": 0}, "n_resamples"),
])  # fmt: skip
def test_bad_input(values, uncertainty, options, message):
    for call in (gap, worst, ratio):
        with pytest.raises(ValueError, match=message):
            call(values, uncertainty, seed=0, **options)


def test_a_ratio_needs_values_of_one_sign():
    with pytest.raises(ValueError, match=r"values >= 0; got -0\.1"):
        ratio([-0.1, 0.5], [0.1, 0.1], seed=0)
