"""Pairwise accuracy with ties: by hand, against a direct count over every threshold, and its interval."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verism.statistics import pairwise_accuracy


def counted(scores, ratings, threshold):
    """Straight from the definition, pair by pair."""
    right = 0
    for i, j in itertools.combinations(range(len(scores)), 2):
        d, people = scores[i] - scores[j], ratings[i] - ratings[j]
        right += abs(d) <= threshold if people == 0 else abs(d) > threshold and d * people > 0
    return right / math.comb(len(scores), 2)


def test_by_hand():
    # Pairs: (a, b) people 5 > 3, 0.4 apart; (a, c) 5 > 3, 0.5 apart; (b, c) tied, 0.1 apart.
    scores, ratings = [0.9, 0.5, 0.4], [5, 3, 3]
    assert pairwise_accuracy(scores, ratings, threshold=0).value == pytest.approx(2 / 3)
    assert pairwise_accuracy(scores, ratings, threshold=0.45).value == pytest.approx(2 / 3)  # the tie, and (a, c)
    assert pairwise_accuracy(scores, ratings, threshold=1).value == pytest.approx(1 / 3)
    best = pairwise_accuracy(scores, ratings)
    assert best.value == 1
    assert best.threshold == pytest.approx(0.1)
    assert (best.n_pairs, best.n_tied) == (3, 1)


def test_a_constant_score_earns_the_share_of_ties_and_a_reversed_one_can_earn_no_more():
    ratings = [1, 1, 2, 3, 3, 3]
    ties = 4 / 15
    assert pairwise_accuracy(np.zeros(6), ratings).value == pytest.approx(ties)
    assert pairwise_accuracy([6, 6, 5, 4, 4, 4], ratings).value == pytest.approx(ties)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(1, 5)), min_size=2, max_size=12))
def test_the_best_of_all_thresholds(rows):
    scores = [score / 8 for score, _ in rows]
    ratings = [rating for _, rating in rows]
    found = pairwise_accuracy(scores, ratings)
    tried = {0.0, *(abs(a - b) for a, b in itertools.combinations(scores, 2))}
    assert found.value == pytest.approx(max(counted(scores, ratings, t) for t in tried))
    assert found.value == pytest.approx(counted(scores, ratings, found.threshold))


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 5)), min_size=3, max_size=10), st.integers(1, 9))
def test_a_monotone_change_of_units_moves_nothing(rows, factor):
    scores = np.array([score for score, _ in rows], dtype=float)
    ratings = [rating for _, rating in rows]
    one, other = pairwise_accuracy(scores, ratings), pairwise_accuracy(factor * scores, ratings)
    assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high), nan_ok=True)
    assert other.threshold == pytest.approx(factor * one.threshold)


def test_the_interval_is_the_jackknife_over_clusters():
    rng = np.random.default_rng(5)
    clusters = np.repeat(np.arange(12), 3)
    quality = rng.normal(size=12)[clusters] + rng.normal(size=36)
    ratings = np.digitize(quality + rng.normal(size=36), [-1, 0, 1])
    found = pairwise_accuracy(quality, ratings, clusters=clusters, threshold=0.2)
    without = []
    for cluster in range(12):
        kept = clusters != cluster
        without.append(counted(quality[kept], ratings[kept], 0.2))
    error = math.sqrt(11 / 12 * sum((value - np.mean(without)) ** 2 for value in without))
    reach = 2.200985160082949 * error  # t of 11 degrees of freedom
    assert (found.low, found.high) == pytest.approx((found.value - reach, found.value + reach))


def test_two_prompts_have_no_interval_and_one_image_no_pair():
    assert math.isnan(pairwise_accuracy([1, 2, 3, 4], [1, 2, 3, 3], clusters=[0, 0, 1, 1]).low)
    alone = pairwise_accuracy([0.5], [3])
    assert math.isnan(alone.value)
    assert alone.n_pairs == 0


def test_the_held_out_value_does_not_gain_from_noise():
    """Scores without meaning: the threshold gains on the data it was chosen on, and not on others'."""
    rng = np.random.default_rng(11)
    gains = []
    for n in range(60):
        scores, ratings = rng.normal(size=24), rng.integers(1, 6, 24)
        found = pairwise_accuracy(scores, ratings, seed=n)
        gains.append(found.value - found.cross_fitted)
    assert np.mean(gains) > 0
    assert abs(np.mean(gains)) / (np.std(gains) / math.sqrt(60)) > 3


@pytest.mark.parametrize(
    ("scores", "ratings", "options", "match"),
    [
        ([1, 2], [1], {}, "one length"),
        ([1, math.nan], [1, 2], {}, "NaN"),
        ([1, 2], [1, 2], {"threshold": -0.1}, "at least 0"),
        ([1, 2], [1, 2], {"clusters": [0]}, "one label"),
    ],
)
def test_bad_input(scores, ratings, options, match):
    with pytest.raises(ValueError, match=match):
        pairwise_accuracy(scores, ratings, **options)
