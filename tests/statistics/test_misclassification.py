"""Shares behind an erring judge: sums by hand, the two-class formula, limits of what can be known, and coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest

from verism.statistics import rogan_gladen, wilson
from verism.statistics._simplex import maximise_on_simplex
from verism.statistics.misclassification import adjusted_mad, adjusted_mean, adjusted_shares, fit_shares

JUDGE = np.array([[90, 10], [5, 95]])


def neighbours(k: int, reach: float = 1.5) -> np.ndarray:
    """A judge of k tones that errs to neighbouring ones."""
    rates = np.exp(-reach * np.abs(np.subtract.outer(np.arange(k), np.arange(k))))
    return rates / rates.sum(axis=1, keepdims=True)


def test_two_classes_by_hand():
    # 60 of 100 called first = 0.9 p + 0.05 (1 - p): p = 0.55 / 0.85 = 0.6471.
    told = adjusted_shares([60, 40], JUDGE)
    assert told.shares == pytest.approx([0.55 / 0.85, 0.30 / 0.85], abs=1e-6)
    assert told.note == ""
    assert np.all(told.low < told.shares)
    assert np.all(told.shares < told.high)
    # Scores -1 and +1: 0.3529 - 0.6471.
    assert adjusted_mean([60, 40], JUDGE, [-1, 1]).value == pytest.approx(-0.25 / 0.85, abs=1e-6)
    assert adjusted_mad([60, 40], JUDGE).value == pytest.approx(0.125 / 0.85, abs=1e-6)
    assert adjusted_mad([60, 40], JUDGE, divisor="K-1").value == pytest.approx(0.25 / 0.85, abs=1e-6)


def test_three_classes_by_hand():
    # Shares 0.5, 0.3, 0.2 through these rows: 0.40 + 0.03 + 0 = 0.43, 0.10 + 0.24 + 0.04 = 0.38, 0.03 + 0.16 = 0.19.
    rows = np.array([[80, 20, 0], [10, 80, 10], [0, 20, 80]])
    assert adjusted_shares([43, 38, 19], rows).shares == pytest.approx([0.5, 0.3, 0.2], abs=1e-5)
    assert adjusted_mean([43, 38, 19], rows, [1, 2, 3]).value == pytest.approx(1.7, abs=1e-5)


@pytest.mark.parametrize(("said", "table"), [((60, 40), JUDGE), ((3, 97), JUDGE), ((500, 256), [[45, 5], [8, 52]])])
def test_two_classes_agree_with_rogan_gladen(said, table):
    table = np.asarray(table)
    told = adjusted_shares(said, table, n_resamples=4000)
    formula = rogan_gladen(wilson(said[0], sum(said)), *(wilson(table[i, i], table[i].sum()) for i in (0, 1)))
    assert told.shares[0] == pytest.approx(formula.value, abs=1e-5)
    assert (told.low[0], told.high[0]) == pytest.approx((formula.low, formula.high), abs=0.025)


def test_perfect_judge_changes_nothing_and_few_items_widen():
    certain = adjusted_shares([30, 70], np.diag([10**6, 10**6]))
    assert certain.shares == pytest.approx([0.3, 0.7], abs=1e-5)
    ends = wilson(30, 100)
    assert (certain.low[0], certain.high[0]) == pytest.approx((ends.low, ends.high), abs=0.015)
    few = adjusted_shares([30, 70], np.diag([5, 5]))
    assert few.shares == pytest.approx([0.3, 0.7], abs=1e-5)
    assert few.high[0] - few.low[0] > 1.5 * (certain.high[0] - certain.low[0])  # five without error prove little


def test_prompts_that_agree_widen_the_interval():
    together = np.array([[9, 0]] * 10 + [[0, 9]] * 10)
    alone = adjusted_shares([90, 90], JUDGE)
    clustered = adjusted_shares(None, JUDGE, observed_by_cluster=together)
    assert clustered.shares == pytest.approx(alone.shares)
    assert clustered.high[0] - clustered.low[0] > 1.8 * (alone.high[0] - alone.low[0])


def test_result_is_on_the_simplex_and_the_same_for_a_seed():
    rng = np.random.default_rng(0)
    for _ in range(5):
        table, said = rng.integers(1, 30, size=(4, 5)), rng.integers(0, 30, size=5)
        first, second = (adjusted_shares(said, table, n_resamples=200, seed=1) for _ in range(2))
        assert first.shares.sum() == pytest.approx(1)
        assert first.shares.min() >= 0
        assert np.all(first.low >= 0)
        assert np.all(first.high <= 1)
        assert np.array_equal(first.low, second.low)


def test_no_weights_are_more_likely_than_those_found():
    rng = np.random.default_rng(2)
    likelihood, times = rng.random((3, 6, 4)), rng.integers(1, 9, size=(3, 6)).astype(float)
    w = maximise_on_simplex(likelihood, times, np.zeros((3, 4)))
    # At the maximum every gradient is at most the sum of times, and equal to it where the weight is positive.
    slope = (np.swapaxes(likelihood, 1, 2) @ (times / (likelihood @ w[..., None])[..., 0])[..., None])[..., 0]
    assert np.all(slope <= times.sum(axis=1, keepdims=True) * (1 + 1e-5))
    assert np.sum(w * slope, axis=1) == pytest.approx(times.sum(axis=1), rel=1e-5)


# ------------------------------------------------------------------------------------------------- what cannot be known
def test_classes_that_are_called_alike_get_wide_intervals_and_a_note():
    table = np.array([[50, 45, 5], [48, 47, 5], [2, 3, 95]])
    told = adjusted_shares([250, 230, 120], table)
    assert "0 and 1" in told.note
    assert "only their sum" in told.note
    widths = told.high - told.low
    assert widths[0] > 0.5
    assert widths[1] > 0.5
    assert widths[2] < 0.15


def test_mixtures_that_look_alike_get_a_note():
    # The middle class is called as the outer ones together are.
    told = adjusted_shares([100, 100, 100], np.array([[80, 10, 10], [45, 10, 45], [10, 10, 80]]))
    assert "nearly singular" in told.note
    assert np.min(told.high - told.low) > 0.3


def test_nothing_is_made_up():
    for said, table, says in (
        ([0, 0], JUDGE, "no pictures"),
        ([5, 5], [[9, 1], [0, 0]], "true class 1"),
        ([5, 5], [[4, 6], [6, 4]], "no better than chance"),
    ):
        told = adjusted_shares(said, table)
        assert np.isnan(told.shares).all()
        assert np.isnan(told.low).all()
        assert says in told.note
        value = adjusted_mad(said, table)
        assert math.isnan(value.value)
        assert math.isnan(value.low)
        assert says in value.note


def test_what_the_judge_could_not_have_said_is_noted():
    told = adjusted_shares([1000, 0], [[500, 500], [100, 900]])
    assert told.shares == pytest.approx([1, 0])
    assert "no shares make this judge" in told.note


@pytest.mark.parametrize(
    ("said", "table", "options", "says"),
    [
        ([1, 2, 3], JUDGE, {}, "2 classes"),
        ([1, -2], JUDGE, {}, "observed must be counts"),
        ([1, 2], [[1, 2]], {}, "true classes"),
        ([1, 2], [[1, 2], [math.nan, 1]], {}, "confusion must be counts"),
        (None, JUDGE, {}, "give observed"),
        ([1, 2], JUDGE, {"observed_by_cluster": [[1, 1]]}, "sums of"),
        ([1, 2], JUDGE, {"observed_by_cluster": [1, 2]}, "shape"),
    ],
)
def test_bad_input_says_what_is_wrong(said, table, options, says):
    with pytest.raises(ValueError, match=says):
        adjusted_shares(said, table, **options)


def test_all_numbers_of_one_fit_are_those_of_separate_ones():
    rng, table = np.random.default_rng(1), 60 * np.eye(4, dtype=int) + 5
    said, options = rng.multinomial(9, np.full(4, 0.25), 20), {"n_resamples": 300, "seed": 7, "level": 0.9}
    options |= {"observed_by_cluster": said}
    values, target = [1, 2, 3, 4], [0.4, 0.3, 0.2, 0.1]
    fitted = fit_shares(None, table, **options)
    assert repr(fitted.shares()) == repr(adjusted_shares(None, table, **options))
    assert fitted.mean(values) == adjusted_mean(None, table, values, **options)
    assert fitted.mad() == adjusted_mad(None, table, **options)
    assert fitted.mad(target, divisor="K-1") == adjusted_mad(None, table, target, divisor="K-1", **options)


def test_values_and_targets_must_fit():
    with pytest.raises(ValueError, match="values"):
        adjusted_mean([1, 2], JUDGE, [1, 2, 3])
    with pytest.raises(ValueError, match="target"):
        adjusted_mad([1, 2], JUDGE, [0.5, 0.6])
    with pytest.raises(ValueError, match="divisor"):
        adjusted_mad([1, 2], JUDGE, divisor="N")


# ------------------------------------------------------------------------------------------------------------- coverage
@pytest.mark.parametrize(
    ("shares", "spread"), [((0.5, 0.5), None), ((0.2, 0.8), 2.0), ((0.95, 0.05), None), ((1.0, 0.0), None)]
)
def test_two_class_intervals_cover(shares, spread):
    rng, shares, inside = np.random.default_rng(3), np.array(shares), []
    rates = JUDGE / 100
    for seed in range(200):
        table = np.stack([rng.multinomial(100, row) for row in rates])
        each = np.tile(shares, (84, 1)) if spread is None else rng.dirichlet(shares * spread, 84)
        told = adjusted_shares(
            None, table, observed_by_cluster=rng.multinomial(9, each @ rates), n_resamples=250, seed=seed
        )
        inside.append(told.low[0] <= shares[0] <= told.high[0])
    # 200 runs: a standard error of 1.5 %. A share of exactly 1 can be missed on one side only.
    assert 0.91 <= np.mean(inside) <= (0.985 if shares[0] < 1 else 1.0)


@pytest.mark.parametrize("shares", [np.full(10, 0.1), np.array([3, 5, 10, 20, 30, 20, 6, 3, 2, 1]) / 100])
def test_ten_class_mean_and_mad_cover(shares):
    rng, rates, tones = np.random.default_rng(4), neighbours(10), np.arange(1, 11)
    truth, deviation, inside = shares @ tones, np.abs(shares - 0.1).mean(), []
    for seed in range(25):
        table, said = np.stack([rng.multinomial(60, row) for row in rates]), rng.multinomial(2268, shares @ rates)
        options = {"n_resamples": 200, "seed": seed}
        s, m = adjusted_shares(said, table, **options), adjusted_mean(said, table, tones, **options)
        d = adjusted_mad(said, table, **options)
        covered = np.mean((s.low <= shares) & (shares <= s.high))
        inside.append((covered, m.low <= truth <= m.high, d.low - 1e-9 <= deviation <= d.high + 1e-9))
    assert np.all(np.mean(inside, axis=0) >= 0.88)


# ------------------------------------------------------------------------------------------ classes that are missed
def test_shares_of_all_pictures_by_hand():
    # A perfect judge that loses no picture of class 0 and half of class 1: 60 and 20 told are 60 and 40 there.
    told = adjusted_shares([60, 20], [[100, 0], [0, 50]], unusable=[0, 50])
    assert told.shares == pytest.approx([0.6, 0.4], abs=1e-6)
    assert told.low[1] < 0.4 < told.high[1]
    plain = adjusted_shares([60, 20], [[100, 0], [0, 50]])
    assert plain.shares == pytest.approx([0.75, 0.25], abs=1e-6)


def test_losing_all_classes_alike_changes_nothing_but_the_width():
    table = [[80, 20], [10, 90]]
    plain, lost = adjusted_shares([50, 70], table), adjusted_shares([50, 70], table, unusable=[100, 100])
    assert lost.shares == pytest.approx(plain.shares)
    assert lost.high[0] - lost.low[0] > plain.high[0] - plain.low[0]


def test_intervals_cover_the_truth_of_a_judge_that_overlooks_one_class():
    rng = np.random.default_rng(5)
    true, usable = np.array([0.5, 0.3, 0.2]), np.array([0.9, 0.7, 0.4])
    errs = np.array([[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.15, 0.8]])
    hit = {True: 0, False: 0}
    for trial in range(100):
        shown = rng.multinomial(600, true)
        said = sum(rng.multinomial(rng.binomial(n, u), row) for n, u, row in zip(shown, usable, errs, strict=True))
        told = rng.binomial(120, usable)
        table = [rng.multinomial(n, row) for n, row in zip(told, errs, strict=True)]
        for aware in hit:
            found = adjusted_shares(said, table, unusable=120 - told if aware else None, n_resamples=300, seed=trial)
            hit[aware] += bool(found.low[2] <= 0.2 <= found.high[2])
    assert hit[True] >= 88  # 95 expected; 88 is 3.2 standard errors below
    assert hit[False] < 30


def test_counts_of_lost_items_must_fit():
    with pytest.raises(ValueError, match="unusable"):
        adjusted_shares([1, 2], [[5, 1], [1, 5]], unusable=[1])
