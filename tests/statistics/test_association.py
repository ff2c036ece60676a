"""Coefficients of two sides against scipy and scikit-learn, by hand, and their intervals on data of known truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import cohen_kappa_score, matthews_corrcoef, roc_auc_score

from verism.statistics import krippendorff_alpha
from verism.statistics._common import mean_ranks
from verism.statistics.agreement import cohen_kappa, fleiss_kappa, rating_counts
from verism.statistics.association import (
    FEW,
    auc,
    kendall_tau,
    kendall_tau_b,
    majority,
    matthews,
    mcc,
    pearson,
    pearson_r,
    percent_agreement,
    phi,
    roc_area,
    spearman,
)

QUICK = {"n_resamples": 0}


def two_sides(seed: int, n: int = 80, classes: int = 4):
    rng = np.random.default_rng(seed)
    first = rng.integers(0, classes, n)
    second = np.where(rng.random(n) < 0.6, first, rng.integers(0, classes, n))
    return first, second


@pytest.mark.parametrize("seed", range(4))
def test_mcc_and_phi_are_those_of_scikit_learn(seed):
    first, second = two_sides(seed)
    assert mcc(first, second, **QUICK).value == pytest.approx(matthews_corrcoef(first, second), abs=1e-12)
    a, b = first > 1, second > 1
    expected = np.corrcoef(a, b)[0, 1]  # phi is Pearson's correlation of 0 and 1
    assert phi(a, b, **QUICK).value == pytest.approx(expected, abs=1e-12)
    assert phi(a, b, **QUICK).value == pytest.approx(mcc(a, b, **QUICK).value, abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_rank_correlations_kappa_and_auc_are_those_of_the_libraries(seed):
    first, second = two_sides(seed)
    assert kendall_tau_b(first, second, **QUICK).value == pytest.approx(stats.kendalltau(first, second).statistic)
    assert spearman(first, second, **QUICK).value == pytest.approx(stats.spearmanr(first, second).statistic)
    assert pearson(first, second, **QUICK).value == pytest.approx(stats.pearsonr(first, second).statistic)
    assert cohen_kappa(first, second, **QUICK).value == pytest.approx(cohen_kappa_score(first, second))
    truth = (first > 1).astype(int)
    scores = second + 0.1 * np.random.default_rng(seed).integers(0, 3, len(second))
    assert auc(scores, truth, **QUICK).value == pytest.approx(roc_auc_score(truth, scores), abs=1e-12)


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
@pytest.mark.parametrize("seed", range(3))
def test_alpha_is_that_of_the_krippendorff_package(level, seed):
    import krippendorff

    rng = np.random.default_rng(seed)
    ratings = rng.integers(1, 6, (4, 40)).astype(float)
    ratings[1:] = np.where(rng.random((3, 40)) < 0.6, ratings[0], ratings[1:])
    ratings[rng.random((4, 40)) < 0.2] = math.nan
    expected = krippendorff.alpha(reliability_data=ratings, level_of_measurement=level)
    assert krippendorff_alpha(ratings, level=level, n_resamples=0).value == pytest.approx(expected, abs=1e-12)


def test_fleiss_kappa_is_that_of_statsmodels():
    from statsmodels.stats.inter_rater import fleiss_kappa as theirs

    counts = np.random.default_rng(0).multinomial(5, [0.5, 0.3, 0.2], size=30)
    assert fleiss_kappa(counts, n_resamples=0).value == pytest.approx(theirs(counts), abs=1e-12)


def test_the_published_definitions_by_hand():
    # Two raters, 2 x 2: 20 both yes, 15 both no, 5 and 10 apart. Agreement 0.7; chance 0.5 * 0.6 + 0.5 * 0.4 = 0.5.
    first = [1] * 25 + [0] * 25
    second = [1] * 20 + [0] * 5 + [1] * 10 + [0] * 15
    assert percent_agreement([first, second], **QUICK).value == pytest.approx(0.7)
    assert cohen_kappa(first, second, **QUICK).value == pytest.approx((0.7 - 0.5) / (1 - 0.5))
    # phi = (20 * 15 - 5 * 10) / sqrt(25 * 25 * 30 * 20)
    assert phi(first, second, **QUICK).value == pytest.approx(250 / math.sqrt(25 * 25 * 30 * 20))
    assert matthews([[15, 10], [5, 20]]) == pytest.approx(250 / math.sqrt(25 * 25 * 30 * 20))
    # auc: pairs (positive, negative) of scores 3 2 | 2 1: 3>2, 3>1, 2=2 (half), 2>1: 3.5 of 4
    assert auc([3, 2, 2, 1], [1, 1, 0, 0], **QUICK).value == pytest.approx(3.5 / 4)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("digits", [0, 12])
def test_coefficients_with_and_without_ties_are_those_of_scipy(seed, digits):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=60).round(digits)
    y = (x + rng.normal(size=60)).round(digits)
    assert kendall_tau(x, y) == pytest.approx(stats.kendalltau(x, y).statistic, abs=1e-14)
    assert pearson_r(x, y) == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-14)
    assert spearman(x, y, **QUICK).value == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-14)
    assert roc_area(x, y > 0) == pytest.approx(roc_auc_score(y > 0, x), abs=1e-14)


@pytest.mark.parametrize("n", [0, 1, 2, 40, 2_000])
@pytest.mark.parametrize("kinds", [1, 5, 1_000_000])
def test_ranks_are_those_of_scipy(n, kinds):
    values = np.random.default_rng(n).integers(-kinds, kinds, n) / 3
    assert np.array_equal(mean_ranks(values), stats.rankdata(values))


@pytest.mark.parametrize("n", [2, 3, 24, FEW, FEW + 1])
def test_kendall_s_tau_of_few_and_of_many_values_is_that_of_scipy(n):
    rng = np.random.default_rng(n)
    for values in (2, 5, 1_000_000):
        x, y = rng.integers(0, values, n) / 3, rng.integers(0, 4, n)
        x[0], y[0], x[1], y[1] = 0, 0, 1e308, 9  # neither side is constant
        assert kendall_tau(x, -y) == pytest.approx(stats.kendalltau(x, -y).statistic, abs=1e-15)


@pytest.mark.parametrize("coefficient", [kendall_tau, pearson_r, roc_area])
@pytest.mark.parametrize(("x", "y"), [([], []), ([0.5], [1]), ([1, 2, 3], [1, 1, 1])])
def test_coefficients_of_degenerate_sides_are_nan(coefficient, x, y):
    assert math.isnan(coefficient(x, y))


def test_pearson_of_tiny_numbers_is_that_of_the_same_numbers_scaled():
    x, y = np.array([1.0, 2.0, 4.0]), np.array([1.0, 3.0, 2.0])
    assert pearson_r(x * 1e-200, y * 1e-200) == pytest.approx(pearson_r(x, y))  # squares underflow


@pytest.mark.parametrize("coefficient", [kendall_tau, pearson_r, roc_area])
def test_coefficients_refuse_nan_and_unequal_lengths(coefficient):
    with pytest.raises(ValueError, match="1 of 2 entries are NaN"):
        coefficient([1, math.nan], [0, 1])
    with pytest.raises(ValueError, match="one length"):
        coefficient([1, 2], [1])


def test_agreement_of_three_raters_is_the_mean_over_units_of_their_pairs():
    # unit 0: a a b: one of three pairs; unit 1: a a (one pair, alike); unit 2: one rating, left out.
    result = percent_agreement([["a", "a", "a"], ["a", "a", None], ["b", None, None]], **QUICK)
    assert result.value == pytest.approx((1 / 3 + 1) / 2)
    assert (result.n_units, result.n_ratings, result.n_unusable) == (2, 5, 1)


def test_the_majority_and_its_ties():
    result = majority([["a", "b", None, "c"], ["a", "c", None, "c"], ["b", None, None, None]])
    assert result.values.tolist() == ["a", None, None, "c"]
    assert result.tied.tolist() == [False, True, False, False]
    assert result.n_ratings.tolist() == [3, 2, 0, 2]
    assert result.share[:2].tolist() == pytest.approx([2 / 3, 1 / 2])
    assert math.isnan(result.share[2])
    assert majority(np.full((2, 3), math.nan)).values.tolist() == [None] * 3


def test_units_that_a_side_left_out_are_counted_and_change_nothing():
    first, second = [float(x) for x in (1, 0, 1, 1, 0, 0)], [float(x) for x in (1, 0, 0, 1, 0, 1)]
    for measure in (phi, mcc, kendall_tau_b, spearman, pearson, auc):
        plain = measure(first, second, **QUICK)
        gaps = measure([*first, math.nan, 1.0], [*second, 1.0, math.nan], **QUICK)
        assert gaps.value == pytest.approx(plain.value)
        assert (gaps.n_units, gaps.n_unusable) == (6, 2)


def test_renaming_and_reordering_change_nothing():
    first, second = two_sides(7)
    names = np.array(["d", "b", "a", "c"])
    order = np.random.default_rng(1).permutation(len(first))
    renamed = mcc(names[first][order], names[second][order], **QUICK)
    assert renamed.value == pytest.approx(mcc(first, second, **QUICK).value)


def test_what_cannot_be_known_is_nan_and_what_is_wrong_is_refused():
    assert math.isnan(phi([1, 1, 1], [1, 0, 1], **QUICK).value)
    assert math.isnan(auc([0.1, 0.2], [1, 1], **QUICK).value)
    assert math.isnan(spearman([1, 1], [1, 2], **QUICK).value)
    assert math.isnan(mcc([], [], **QUICK).value)
    with pytest.raises(ValueError, match="two values"):
        phi([0, 1, 2], [0, 1, 2])
    with pytest.raises(ValueError, match="shapes"):
        mcc([0, 1], [0])
    with pytest.raises(ValueError, match="0 or 1"):
        auc([0.5, 0.6], [1, 2])
    with pytest.raises(ValueError, match="numbers"):
        kendall_tau_b(["a", "b"], ["a", "b"])


def test_intervals_cover_the_truth_and_grow_with_clusters():
    rng = np.random.default_rng(3)
    hit, wide, plain = 0, [], []
    for trial in range(60):
        # Two sides of 0 and 1, each flipped with chance 0.2 from a common truth: phi is (1 - 0.4)^2 = 0.36.
        truth = np.repeat(rng.integers(0, 2, 40), 3)
        sides = [np.where(rng.random(120) < 0.2, 1 - truth, truth) for _ in range(2)]
        clusters = np.repeat(np.arange(40), 3)
        result = phi(*sides, clusters=clusters, n_resamples=200, seed=trial)
        hit += result.low <= 0.36 <= result.high
        wide.append(result.high - result.low)
        plain.append((lambda f: f.high - f.low)(phi(*sides, n_resamples=200, seed=trial)))
    assert 51 <= hit <= 60  # 95 % of 60 is 57; 51 is 3.6 standard errors below
    assert np.mean(wide) > 0.95 * np.mean(plain)


def test_counts_of_ratings_ignore_who_rated():
    one = rating_counts([["a", "b"], ["b", "b"], [None, "a"]])
    other = rating_counts([[None, "b"], ["a", "a"], ["b", "b"]])
    assert (one.counts == other.counts).all()
