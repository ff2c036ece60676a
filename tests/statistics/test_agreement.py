"""Agreement of raters: worked cases of the literature, an obvious implementation, and what must always hold."""

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from verism.statistics.agreement import cohen_kappa, fleiss_kappa, krippendorff_alpha, rating_counts

NO = None
# Krippendorff 2011, section C: four observers, twelve units, gaps; the paper prints 0.743, 0.815 and 0.849.
FOUR_OBSERVERS = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, NO, NO, NO],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NO, 3],
    [NO, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NO],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NO],
]


def obvious_alpha(ratings, level):
    """Over all ordered pairs of ratings, as the definition is read out."""
    units = [[v for v in column if v is not None] for column in zip(*ratings)]
    units = [u for u in units if len(u) > 1]
    pool = [v for u in units for v in u]

    def distance(a, b):
        if level == "nominal":
            return float(a != b)
        if level == "interval":
            return float(a - b) ** 2
        low, high = sorted((a, b))
        return (sum(low <= v <= high for v in pool) - (pool.count(a) + pool.count(b)) / 2) ** 2 if a != b else 0.0

    observed = sum(sum(distance(a, b) for a, b in permutations(u, 2)) / (len(u) - 1) for u in units) / len(pool)
    expected = sum(distance(a, b) for a, b in permutations(pool, 2)) / (len(pool) * (len(pool) - 1))
    return 1 - observed / expected if expected else math.nan


@pytest.mark.parametrize(("level", "printed"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_of_krippendorffs_four_observers(level, printed):
    result = krippendorff_alpha(FOUR_OBSERVERS, level=level, n_resamples=0)
    assert result.value == pytest.approx(printed, abs=5e-4)
    # Unit 12 has one rating only: 11 units and 40 of the 41 ratings enter.
    assert result[3:] == (11, 40, 1)
    assert math.isnan(result.low)


def test_alpha_of_two_observers_by_hand():
    # Krippendorff 2011, section A. Ten units, two observers: they differ on units 1, 3, 6 and 9.
    a = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0]
    b = [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    # 14 zeros, 6 ones; 4 units disagree, so o_01 = 4 of 20; expected 14 * 6 / 19: 1 - 19 * 4 / 84 = 0.0952.
    assert krippendorff_alpha([a, b], n_resamples=0).value == pytest.approx(1 - 19 * 4 / 84)


def test_names_and_numbers_of_any_type_are_values():
    words = krippendorff_alpha([["yes", "no", "no"], ["yes", "no", "yes"]], n_resamples=0).value
    numbers = krippendorff_alpha(np.array([[1.0, 0, 0], [1, 0, 1]]), n_resamples=0).value
    assert words == numbers


cells = st.one_of(st.none(), st.integers(0, 4))


@settings(max_examples=60)
@given(st.integers(2, 4).flatmap(lambda n: st.lists(st.lists(cells, min_size=n, max_size=n), min_size=2, max_size=8)))
def test_alpha_matches_the_definition_and_forgets_orders(units):
    ratings = [list(row) for row in zip(*units)]
    for level in ("nominal", "ordinal", "interval"):
        result = krippendorff_alpha(ratings, level=level, n_resamples=0).value
        if not any(sum(v is not None for v in u) > 1 for u in units):
            assert math.isnan(result)
            continue
        assert result == pytest.approx(obvious_alpha(ratings, level), nan_ok=True)
        turned = [list(row) for row in zip(*[u[::-1] for u in units[::-1]])]
        assert krippendorff_alpha(turned, level=level, n_resamples=0).value == pytest.approx(result, nan_ok=True)


def test_interval_level_loses_no_digits_to_an_offset():
    ratings = np.array([[1.0, 2, 3, 4], [1, 2, 4, 4]])
    moved = krippendorff_alpha(ratings + 1e8, level="interval", n_resamples=0).value
    assert moved == pytest.approx(krippendorff_alpha(ratings, level="interval", n_resamples=0).value, rel=1e-9)


def test_one_value_only_is_undefined_and_chance_is_about_zero():
    assert math.isnan(krippendorff_alpha([[1, 1, 1], [1, 1, 1]]).value)
    assert math.isnan(krippendorff_alpha([[1, None], [None, 1]]).value)
    rng = np.random.default_rng(5)
    result = krippendorff_alpha(rng.integers(0, 2, (3, 2000)), n_resamples=200)
    assert abs(result.value) < 0.05
    assert result.low < 0 < result.high


def test_alpha_interval_covers_the_truth():
    # Three raters see the truth with probability 0.9, which is 1 for half of the units. Two ratings of a unit agree
    # with 0.9^2 + 0.1^2 = 0.82, chance gives 0.5, so alpha is (0.82 - 0.5) / 0.5 = 0.64.
    rng = np.random.default_rng(1)
    inside = 0
    for repetition in range(100):
        truth = rng.random(120) < 0.5
        ratings = np.where(rng.random((3, 120)) < 0.9, truth, ~truth).astype(int)
        result = krippendorff_alpha(ratings, n_resamples=300, seed=repetition)
        inside += result.low <= 0.64 <= result.high
    assert 88 <= inside <= 99  # 95 expected; binomial with 100 draws


def test_clusters_widen_the_interval():
    rng = np.random.default_rng(2)
    truth = np.repeat(rng.random(30) < 0.5, 8)
    hard = np.repeat(rng.random(30) < 0.5, 8)  # whole prompts are easy or hard
    right = rng.random((3, 240)) < np.where(hard, 0.6, 0.99)
    ratings = np.where(right, truth, ~truth).astype(int)
    alone = krippendorff_alpha(ratings, n_resamples=400)
    together = krippendorff_alpha(ratings, clusters=np.repeat(np.arange(30), 8), n_resamples=400)
    assert together.value == alone.value
    assert together.high - together.low > 1.3 * (alone.high - alone.low)


def test_cohen_by_hand_and_against_scikit_learn():
    # 50 units: both yes 20, both no 15, 5 and 10 differ. Agreement 0.7, chance 0.5 * 0.6 + 0.5 * 0.4 = 0.5: kappa 0.4.
    first = [1] * 20 + [1] * 5 + [0] * 10 + [0] * 15
    second = [1] * 20 + [0] * 5 + [1] * 10 + [0] * 15
    result = cohen_kappa(first, second, n_resamples=200)
    assert result.value == pytest.approx(0.4)
    assert result.low < 0.4 < result.high
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 4, 90), rng.integers(0, 4, 90)
    for weights, name in (("none", None), ("linear", "linear"), ("quadratic", "quadratic")):
        mine = cohen_kappa(a, b, weights=weights, n_resamples=0).value
        assert mine == pytest.approx(cohen_kappa_score(a, b, weights=name))


def test_cohen_leaves_out_and_counts_units_of_one_rater():
    result = cohen_kappa([1, 0, None, 1], [1, 0, 1, float("nan")], n_resamples=0)
    assert (result.value, result.n_units, result.n_ratings, result.n_unusable) == (1.0, 2, 4, 2)
    assert math.isnan(cohen_kappa([1, 1], [1, 1]).value)
    with pytest.raises(ValueError, match="none of the categories"):
        cohen_kappa([1, 2], [1, 3], categories=[1, 2])
    with pytest.raises(ValueError, match="weights must be one of"):
        cohen_kappa([1, 2], [1, 2], weights="cubic")
    with pytest.raises(ValueError, match="one rating of each rater"):
        cohen_kappa([1, 2], [1])


def test_fleiss_of_fourteen_raters():
    # Worked example that goes with Fleiss 1971: 14 raters, 10 units, 5 categories; mean agreement 0.378, chance 0.213.
    counts = [
        [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
    ]  # fmt: skip
    assert fleiss_kappa(counts, n_resamples=0).value == pytest.approx(0.210, abs=5e-4)


def test_fleiss_and_alpha_meet_for_many_units():
    # For a fixed number of raters alpha differs from Fleiss' kappa by (1 - kappa) / N, N the number of ratings.
    rng = np.random.default_rng(4)
    ratings = rng.integers(0, 3, (3, 50))
    kappa = fleiss_kappa(rating_counts(ratings).counts, n_resamples=0).value
    alpha = krippendorff_alpha(ratings, n_resamples=0).value
    assert alpha == pytest.approx(kappa + (1 - kappa) / ratings.size)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="level must be one of"):
        krippendorff_alpha([[1], [1]], level="ratio")
    with pytest.raises(ValueError, match=r"shape \(raters, units\)"):
        krippendorff_alpha([1, 2, 3])
    with pytest.raises(ValueError, match="needs ratings that are numbers"):
        krippendorff_alpha([["a", "b"], ["a", "b"]], level="ordinal")
    with pytest.raises(ValueError, match="all numbers or all names"):
        krippendorff_alpha([["a", 1], ["a", 1]])
    with pytest.raises(ValueError, match="one label for each of the 2 units"):
        krippendorff_alpha([[1, 2], [1, 2]], clusters=[1])
    with pytest.raises(ValueError, match="same number of raters"):
        fleiss_kappa([[1, 2], [1, 1]])
