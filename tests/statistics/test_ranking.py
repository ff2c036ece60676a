"""Ranks with intervals: by hand, as properties, and how often they hold."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from verism.statistics.paired import paired_difference
from verism.statistics.ranking import rank_models

NAN = float("nan")


def tables(n: int, p: dict[tuple[int, int], float], values: list[float]):
    matrix = np.full((n, n), NAN)
    for (i, j), value in p.items():
        matrix[i, j] = matrix[j, i] = value
    return np.subtract.outer(values, values).T, matrix


def test_rank_models_one_clear_winner_by_hand():
    difference, p = tables(3, {(0, 1): 0.001, (0, 2): 0.002, (1, 2): 0.6}, [0.2, 0.7, 0.65])

    higher = rank_models([0.2, 0.7, 0.65], difference, p)
    assert higher.rank.tolist() == [3, 1, 2]
    assert (higher.low.tolist(), higher.high.tolist()) == ([3, 1, 1], [3, 2, 2])
    assert higher.best.tolist() == [False, True, True]
    assert higher.wins.tolist() == [[0, -1, -1], [1, 0, 0], [1, 0, 0]]

    lower = rank_models([0.2, 0.7, 0.65], difference, p, higher_is_better=False)
    assert lower.rank.tolist() == [1, 3, 2]
    assert (lower.low.tolist(), lower.high.tolist()) == ([1, 2, 2], [1, 3, 3])
    assert lower.best.tolist() == [True, False, False]


def test_rank_models_adjusts_for_all_pairs():
    # 0.02 alone would be significant; of three pairs it is 0.06.
    difference, p = tables(3, {(0, 1): 0.02, (0, 2): 0.5, (1, 2): 0.5}, [0.1, 0.9, 0.5])
    ranking = rank_models([0.1, 0.9, 0.5], difference, p)

    assert ranking.p_holm[0, 1] == pytest.approx(0.06)
    assert ranking.best.all()
    assert (ranking.low == 1).all()
    assert (ranking.high == 3).all()


def test_rank_models_pairs_without_a_test_widen_the_intervals():
    difference, p = tables(3, {(0, 1): 0.001, (1, 2): 0.001}, [0.1, 0.9, 0.5])
    ranking = rank_models([0.1, 0.9, 0.5], difference, p)

    assert (ranking.low.tolist(), ranking.high.tolist()) == ([2, 1, 2], [3, 1, 3])
    assert np.isnan(ranking.p_holm[0, 2])


def test_rank_models_without_a_value_has_no_rank_and_is_not_best():
    difference, p = tables(3, {(0, 1): 0.001}, [0.1, 0.9, NAN])
    ranking = rank_models([0.1, 0.9, NAN], difference, p)

    assert ranking.rank[:2].tolist() == [2, 1]
    assert np.isnan(ranking.rank[2])
    assert ranking.best.tolist() == [False, True, False]
    assert (ranking.low[2], ranking.high[2]) == (1, 3)


def test_rank_models_equal_values_share_the_mean_of_their_ranks():
    difference, p = tables(3, {(0, 1): 1.0, (0, 2): 0.5, (1, 2): 0.5}, [0.5, 0.5, 0.4])

    assert rank_models([0.5, 0.5, 0.4], difference, p).rank.tolist() == [1.5, 1.5, 3]


def test_rank_models_order_of_models_does_not_matter():
    rng = np.random.default_rng(5)
    values = rng.random(6)
    p = rng.random((6, 6)) * 0.02
    p = np.minimum(p, p.T)
    np.fill_diagonal(p, NAN)
    difference = np.subtract.outer(values, values).T
    order = rng.permutation(6)
    one = rank_models(values, difference, p)
    other = rank_models(values[order], difference[np.ix_(order, order)], p[np.ix_(order, order)])

    for name in ("rank", "low", "high", "best"):
        np.testing.assert_array_equal(getattr(one, name)[order], getattr(other, name))


def test_rank_models_refuses_tables_that_do_not_fit():
    difference, p = tables(2, {(0, 1): 0.1}, [0.0, 1.0])
    with pytest.raises(ValueError, match="2 x 2"):
        rank_models([0.0, 1.0], difference[:1], p)
    with pytest.raises(ValueError, match="symmetric"):
        rank_models([0.0, 1.0], difference, np.array([[NAN, 0.1], [0.2, NAN]]))
    with pytest.raises(ValueError, match="alpha"):
        rank_models([0.0, 1.0], difference, p, alpha=0.0)


def ranked(shown: np.ndarray, prompts: np.ndarray, seed: int):
    """Ranks of models (rows) by right or wrong images (columns), paired and clustered by prompt."""
    m = len(shown)
    difference, p = np.zeros((m, m)), np.full((m, m), NAN)
    for i, j in itertools.combinations(range(m), 2):
        result = paired_difference(shown[i], shown[j], prompts, seed=seed)
        difference[i, j], difference[j, i] = result.difference, -result.difference
        p[i, j] = p[j, i] = result.p_value
    return rank_models(shown.mean(axis=1), difference, p)


def test_rank_intervals_of_equal_models_cover_all_ranks():
    # Prompts differ in difficulty, images of a prompt are alike: beta(2, 1), four images each.
    rng = np.random.default_rng(20261123)
    runs, held = 500, 0
    prompts = np.repeat(np.arange(30), 4)
    for run in range(runs):
        share = rng.beta(2.0, 1.0, size=30)
        own = np.clip(share + rng.normal(0, 0.2, size=(5, 30)), 0, 1)  # each model has prompts it is good at
        shown = (rng.random((5, 120)) < np.repeat(own, 4, axis=1)).astype(float)
        ranking = ranked(shown, prompts, seed=run)
        held += bool((ranking.low == 1).all() and (ranking.high == 5).all() and ranking.best.all())
    assert held / runs >= 0.93


def test_rank_intervals_of_separated_models_find_their_order():
    rng = np.random.default_rng(7)
    prompts = np.repeat(np.arange(100), 2)
    found = 0
    for run in range(20):
        shown = (rng.random((4, 200)) < np.array([[0.9], [0.65], [0.35], [0.1]])).astype(float)
        ranking = ranked(shown, prompts, seed=run)
        found += ranking.low.tolist() == ranking.high.tolist() == [1, 2, 3, 4]
    assert found >= 19
