"""Bradley-Terry strengths: by hand, against a general optimiser, what bounds them, intervals by prompt."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from verism.statistics import bradley_terry


def drawn(strengths, n, seed, ties=0.0):
    """Wins of n prompts between all pairs, drawn by the model; a share of comparisons ends in ties."""
    rng = np.random.default_rng(seed)
    k = len(strengths)
    wins = np.zeros((n, k, k))
    for i in range(k):
        for j in range(i + 1, k):
            chance = 1 / (1 + math.exp(strengths[j] - strengths[i]))
            result = np.where(rng.random(n) < ties, 0.5, rng.random(n) < chance)
            wins[:, i, j], wins[:, j, i] = result, 1 - result
    return wins


@pytest.mark.parametrize(("won", "lost"), [(7, 3), (3, 7), (12, 0), (5, 5)])
def test_two_sides_have_half_the_log_odds_with_half_a_win_added_to_each(won, lost):
    wins = np.zeros((won + lost, 2, 2))
    wins[:won, 0, 1] = 1
    wins[won:, 1, 0] = 1
    found = bradley_terry(wins)
    log_odds = math.log((won + 0.5) / (lost + 0.5))
    assert found.strengths == pytest.approx([log_odds / 2, -log_odds / 2])
    assert found.chances[0, 1] == pytest.approx((won + 0.5) / (won + lost + 1))
    assert found.bounded == (min(won, lost) > 0)


@pytest.mark.parametrize("prior", [0.0, 1.0, 3.0])
def test_several_sides_agree_with_a_general_optimiser(prior):
    wins = drawn([1.5, 0.2, -0.3, -1.4], 60, seed=1, ties=0.2)
    wins[:30, 0, 3] = wins[:30, 3, 0] = 0  # not every pair is compared everywhere
    total = wins.sum(axis=0) + prior / 2 * (1 - np.eye(4))

    def loss(free):
        s = np.append(free, -free.sum())
        return float((total * np.log1p(np.exp(s[None, :] - s[:, None])))[~np.eye(4, dtype=bool)].sum())

    best = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-9}).x
    found = bradley_terry(wins, prior=prior, n_resamples=0)
    assert found.strengths == pytest.approx([*best, -best.sum()], abs=1e-5)
    assert found.strengths.sum() == pytest.approx(0, abs=1e-12)


def test_lopsided_wins_are_fitted_to_the_end():
    wins = np.zeros((1, 3, 3))
    wins[0, 0, 1], wins[0, 1, 0], wins[0, 1, 2], wins[0, 2, 1] = 1e6, 1, 1e6, 1
    found = bradley_terry(wins, prior=0, n_resamples=0)
    assert found.strengths == pytest.approx([math.log(1e6), 0, -math.log(1e6)], abs=1e-6)


def test_a_side_that_never_loses_is_not_bounded_and_has_no_interval():
    wins = drawn([0, 0, 0], 40, seed=2)
    wins[:, 0, 1:] = 1
    wins[:, 1:, 0] = 0
    found = bradley_terry(wins)
    assert not found.bounded
    assert found.strengths[0] == max(found.strengths)
    assert np.isfinite(found.strengths).all()
    assert np.isnan(found.low).all()
    assert np.isnan(bradley_terry(wins, prior=0).strengths).all()


def test_sides_that_were_never_compared_have_no_strengths():
    wins = np.zeros((10, 4, 4))
    wins[:, 0, 1] = wins[:, 1, 0] = wins[:, 2, 3] = wins[:, 3, 2] = 0.5
    found = bradley_terry(wins)
    assert np.isnan(found.strengths).all()
    assert not found.bounded
    assert np.isnan(bradley_terry(np.zeros((0, 3, 3))).strengths).all()


def test_order_of_sides_and_prompts_does_not_matter():
    wins = drawn([0.8, 0, -0.8], 50, seed=3)
    found, turned = bradley_terry(wins), bradley_terry(wins[::-1][:, ::-1, ::-1])
    assert turned.strengths[::-1] == pytest.approx(found.strengths)
    assert turned.low[::-1] == pytest.approx(found.low, abs=0.1)  # other draws


def test_intervals_are_those_of_a_plain_bootstrap():
    wins = drawn([0.6, 0, -0.6], 80, seed=4, ties=0.1)
    found = bradley_terry(wins, seed=5)
    rng = np.random.default_rng(6)
    plain = [bradley_terry(wins[rng.integers(0, 80, 80)], n_resamples=0).strengths for _ in range(1_000)]
    low, high = np.quantile(plain, [0.025, 0.975], axis=0)
    assert found.low == pytest.approx(low, abs=0.06)
    assert found.high == pytest.approx(high, abs=0.06)
    assert (found.n_clusters, found.n_undefined) == (80, 0)


def test_prompts_without_a_comparison_do_not_count():
    wins = drawn([0.5, -0.5], 30, seed=7)
    more = np.concatenate([wins, np.zeros((10, 2, 2))])
    assert bradley_terry(more, seed=1).n_clusters == 30
    assert bradley_terry(more, seed=1).low == pytest.approx(bradley_terry(wins, seed=1).low)


@pytest.mark.parametrize(
    ("wins", "options", "message"),
    [
        (np.zeros((3, 2)), {}, "shape"),
        (np.zeros((3, 1, 1)), {}, "K >= 2"),
        (np.full((3, 2, 2), -1.0), {}, ">= 0"),
        (np.full((3, 2, 2), np.nan), {}, "finite"),
        (np.ones((3, 2, 2)), {"prior": -1}, "prior"),
        (np.ones((3, 2, 2)), {"n_resamples": -1}, "resamples"),
    ],
)
def test_wrong_arguments_are_refused(wins, options, message):
    with pytest.raises(ValueError, match=message):
        bradley_terry(wins, **options)
