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
    result = adjusted_shares([60, 40], JUDGE)
    assert result.shares == pytest.approx([0.55 / 0.85, 0.30 / 0.85], abs=1e-6)
    assert result.note == ""
    assert np.all(result.low < result.shares)
    assert np.all(result.shares < result.high)
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
    result = adjusted_shares(said, table)
    formula = rogan_gladen(wilson(said[0], sum(said)), *(wilson(table[i, i], table[i].sum()) for i in (0, 1)))
    assert result.shares[0] == pytest.approx(formula.value, abs=1e-5)
    assert (result.low[0], result.high[0]) == pytest.approx((formula.low, formula.high), abs=0.025)


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


def test_result_is_on_the_simplex_and_the_same_each_time():
    rng = np.random.default_rng(0)
    for _ in range(5):
        table, answer = rng.integers(1, 30, size=(4, 5)), rng.integers(0, 30, size=5)
        first, second = (adjusted_shares(answer, table) for _ in range(2))
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
    result = adjusted_shares([250, 230, 120], table)
    assert "0 and 1" in result.note
    assert "only their sum" in result.note
    widths = result.high - result.low
    assert widths[0] > 0.5
    assert widths[1] > 0.5
    assert widths[2] < 0.15


def test_mixtures_that_look_alike_get_a_note():
    # The middle class is called as the outer ones together are.
    result = adjusted_shares([100, 100, 100], np.array([[80, 10, 10], [45, 10, 45], [10, 10, 80]]))
    assert "nearly singular" in result.note
    assert np.min(result.high - result.low) > 0.3


def test_nothing_is_made_up():
    for label, table, says in (
        ([0, 0], JUDGE, "no images"),
        ([5, 5], [[9, 1], [0, 0]], "true class 1"),
        ([5, 5], [[4, 6], [6, 4]], "no better than chance"),
    ):
        result = adjusted_shares(label, table)
        assert np.isnan(result.shares).all()
        assert np.isnan(result.low).all()
        assert says in result.note
        value = adjusted_mad(label, table)
        assert math.isnan(value.value)
        assert math.isnan(value.low)
        assert says in value.note


def test_what_the_judge_could_not_have_said_is_noted():
    result = adjusted_shares([1000, 0], [[500, 500], [100, 900]])
    assert result.shares == pytest.approx([1, 0])
    assert "no shares explain this judge" in result.note


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
    options = {"confidence": 0.9, "observed_by_cluster": rng.multinomial(9, np.full(4, 0.25), 20)}
    values = [1, 2, 3, 4]
    fitted = fit_shares(None, table, **options)
    assert repr(fitted.shares()) == repr(adjusted_shares(None, table, **options))
    assert fitted.mean(values) == adjusted_mean(None, table, values, **options)
    two = {"observed_by_cluster": options["observed_by_cluster"][:, :2]}
    assert fit_shares(None, JUDGE, **two).mad([0.6, 0.4]) == adjusted_mad(None, JUDGE, [0.6, 0.4], **two)


def test_the_mean_of_one_class_against_the_rest_is_its_share():
    table, answer = 60 * np.eye(4, dtype=int) + 5, [40, 30, 20, 10]
    shares = adjusted_shares(answer, table)
    result = adjusted_mean(answer, table, [2, 2, 5, 2])
    expected = [2 + 3 * s[2] for s in shares[:3]]
    assert result[:3] == pytest.approx(expected)
    # By the way of means that are no share, with the quantile of shares: 5.99 is that of chi-square of two degrees at
    # 0.95, and of one at 0.98563.
    near = adjusted_mean(answer, table, [2, 2 + 1e-9, 5, 2], confidence=0.98563)
    assert near[:3] == pytest.approx(expected, abs=2e-3)
    assert adjusted_mean(answer, table, [3, 3, 3, 3])[:3] == (3, 3, 3)


def test_ends_are_where_the_likelihood_has_fallen():
    # A judge without error, as 10^7 items prove: twice the loss is 2 n (p log(p/q) + (1-p) log((1-p)/(1-q))) = 3.84.
    result, n, p = adjusted_shares([30, 70], np.diag([10**7, 10**7])), 100, 0.3
    for q in (result.low[0], result.high[0]):
        loss = 2 * n * (p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q)))
        assert loss == pytest.approx(3.8415, abs=0.02)
    none = adjusted_shares([0, 100], np.diag([10**7, 10**7]))  # 2 n log(1 / (1 - q)) = 3.84: q = 0.0190
    assert none.low[0] == 0
    assert none.high[0] == pytest.approx(1 - math.exp(-3.8415 / 200), abs=2e-4)


def test_only_two_classes_have_an_adjusted_mad():
    with pytest.raises(ValueError, match="not adjusted"):
        adjusted_mad([1, 2, 3], np.eye(3) * 9 + 1)
    result = adjusted_mad([50, 50], JUDGE)
    assert result.low == 0  # an even model is possible
    far = adjusted_mad([90, 10], JUDGE)
    share = adjusted_shares([90, 10], JUDGE)
    assert (far.low, far.high) == pytest.approx((share.low[0] - 0.5, share.high[0] - 0.5))


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
    for _ in range(200):
        table = np.stack([rng.multinomial(100, row) for row in rates])
        each = np.tile(shares, (84, 1)) if spread is None else rng.dirichlet(shares * spread, 84)
        result = adjusted_shares(None, table, observed_by_cluster=rng.multinomial(9, each @ rates))
        inside.append(result.low[0] <= shares[0] <= result.high[0])
    # 200 runs: a standard error of 1.5 %. A share of exactly 1 can be missed on one side only.
    assert 0.91 <= np.mean(inside) <= (0.985 if shares[0] < 1 else 1.0)


def blurred(k: int) -> np.ndarray:
    """A judge that is right in 60 %, and mostly sees one class too far."""
    rates = 0.6 * np.eye(k) + 0.32 * np.eye(k, k=1) + 0.08 * np.eye(k, k=-1)
    rates[0, 0], rates[-1, -1] = 0.68, 0.92
    return rates


FEW_TONES = np.array([0, 3, 0, 5, 0, 2, 0, 0, 0, 0]) / 10
BELL = np.array([3, 5, 10, 20, 30, 20, 6, 3, 2, 1]) / 100


CASES = {  # true shares, errors, items of each class, prompts, whether images of a prompt are of one class
    "equal": (np.full(10, 0.1), neighbours(10), 60, 84, False),
    "bell": (BELL, neighbours(10), 60, 84, False),
    "hardly any items": (FEW_TONES, blurred(10), 3, 24, False),
    "few images": (FEW_TONES, blurred(10), 15, 7, False),
    "few tones": (FEW_TONES, blurred(10), 60, 84, False),
    "prompts agree": (FEW_TONES, blurred(10), 60, 24, True),
}


def test_intervals_of_ten_classes_cover():
    rng, tones, covered = np.random.default_rng(4), np.arange(1, 11), {}
    for name, (shares, rates, items, clusters, agree) in CASES.items():
        inside = []
        for _ in range(12):
            table = np.stack([rng.multinomial(items, row) for row in rates])
            each = np.eye(10)[rng.choice(10, clusters, p=shares)] if agree else np.tile(shares, (clusters, 1))
            fitted = fit_shares(None, table, observed_by_cluster=rng.multinomial(9, each @ rates))
            s, m = fitted.shares(), fitted.mean(tones)
            held = (s.low - 1e-6 <= shares) & (shares <= s.high + 1e-6)
            inside.append((np.mean(held[shares > 0]), m.low <= shares @ tones <= m.high))
        covered[name] = np.mean(inside, axis=0)
    # 12 runs of 95 %: a standard error of 6.3 % of a mean, 4 % of the shares together; of all cases 2.6 and 1.6 %.
    assert all(shares >= 0.83 and mean >= 0.75 for shares, mean in covered.values()), covered
    assert np.all(np.mean(list(covered.values()), axis=0) >= [0.93, 0.88]), covered


# ------------------------------------------------------------------------------------------ classes that are missed
def test_shares_of_all_images_by_hand():
    # A perfect judge that loses no image of class 0 and half of class 1: 60 and 20 told are 60 and 40 there.
    result = adjusted_shares([60, 20], [[100, 0], [0, 50]], unusable=[0, 50])
    assert result.shares == pytest.approx([0.6, 0.4], abs=1e-6)
    assert result.low[1] < 0.4 < result.high[1]
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
    for _ in range(100):
        shown = rng.multinomial(600, true)
        answer = sum(rng.multinomial(rng.binomial(n, u), row) for n, u, row in zip(shown, usable, errs, strict=True))
        reported = rng.binomial(120, usable)
        table = [rng.multinomial(n, row) for n, row in zip(reported, errs, strict=True)]
        for aware in hit:
            result = adjusted_shares(answer, table, unusable=120 - reported if aware else None)
            hit[aware] += bool(result.low[2] <= 0.2 <= result.high[2])
    assert hit[True] >= 88  # 95 expected; 88 is 3.2 standard errors below
    assert hit[False] < 60


def test_counts_of_lost_items_must_fit():
    with pytest.raises(ValueError, match="unusable"):
        adjusted_shares([1, 2], [[5, 1], [1, 5]], unusable=[1])
