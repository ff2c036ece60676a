"""Paired comparison and Holm's correction against scipy and worked by hand. Coverage is in test_coverage.py."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verism.statistics import _common, holm, paired, paired_difference
from verism.statistics._common import cluster_codes, cluster_totals


def test_sign_says_that_b_is_better():
    result = paired_difference(a=[0, 0, 1, 0], b=[1, 1, 1, 0], clusters=list("abcd"), seed=0)
    assert result.difference == 0.5
    assert (result.n_pairs, result.n_clusters) == (4, 4)


def test_one_unit_per_cluster_is_bonett_price_and_mcnemar():
    from scipy.stats import binomtest

    # 100 pairs: 40 both right, 12 only b, 5 only a, 43 neither.
    a = np.repeat([1, 0, 1, 0], [40, 12, 5, 43])
    b = np.repeat([1, 1, 0, 0], [40, 12, 5, 43])
    result = paired_difference(a, b, np.arange(100), seed=0)
    # p12 = 13/102, p21 = 6/102: difference 7/102 = 0.0686275, discordant 19/102 = 0.1862745.
    # sqrt((0.1862745 - 0.0047097) / 102) = 0.0421909; times 1.959964 = 0.0826926.
    assert (result.low, result.high) == pytest.approx((0.0686275 - 0.0826926, 0.0686275 + 0.0826926), abs=1e-6)
    assert result.difference == pytest.approx(0.07)
    assert result.p_value == pytest.approx(binomtest(5, 17).pvalue, rel=1e-12)


@pytest.mark.parametrize("at_once", [1, 7, 40])
def test_totals_of_clusters_that_are_sorted_some_at_a_time(at_once, monkeypatch):
    rng = np.random.default_rng(3)
    clusters, values = rng.integers(0, 30, 200), rng.normal(size=200)
    clusters[rng.random(200) < 0.4] = 11  # one cluster larger than what is sorted at once
    whole = cluster_totals(values, clusters)
    expected = [np.add.reduce(np.sort(values[clusters == label])) for label in np.unique(clusters)]
    np.testing.assert_allclose(whole.sums, expected, rtol=1e-12)
    sorted_at_once = []
    lexsort = np.lexsort
    monkeypatch.setattr(np, "lexsort", lambda keys: sorted_at_once.append(len(keys[0])) or lexsort(keys))
    monkeypatch.setattr(_common, "SORTED", at_once)
    some = cluster_totals(values, clusters)
    np.testing.assert_array_equal(some.sums, whole.sums)
    np.testing.assert_array_equal(some.sizes, whole.sizes)
    assert len(sorted_at_once) > 2
    assert max(sorted_at_once) < 200


@pytest.mark.parametrize("labels", [[3, 0, 3, 9], [0, 2, 1, 1], [-1, 5, -1], [10**15, 7], [True, False], ["b", "a"]])
def test_numbers_of_clusters_are_places_of_their_sorted_labels(labels):
    expected = [sorted(set(labels)).index(label) for label in labels]
    assert cluster_codes(labels, len(labels)).tolist() == expected
    if not isinstance(labels[0], str | bool) and max(labels) < 10**9:
        assert cluster_codes(np.array(labels, dtype=np.int32), len(labels)).tolist() == expected


def test_complete_agreement_within_clusters_counts_clusters():
    a, b = np.repeat([1, 0, 1, 0], [40, 12, 5, 43]), np.repeat([1, 1, 0, 0], [40, 12, 5, 43])
    single = paired_difference(a, b, np.arange(100), seed=0)
    tripled = paired_difference(np.repeat(a, 3), np.repeat(b, 3), np.repeat(np.arange(100), 3), seed=0)
    assert (tripled.low, tripled.high) == pytest.approx((single.low, single.high), abs=1e-3)
    assert tripled.p_value == pytest.approx(single.p_value)
    assert (tripled.n_pairs, tripled.n_clusters) == (300, 100)


def test_other_values_have_the_t_interval():
    from scipy.stats import ttest_rel

    rng = np.random.default_rng(0)
    a = rng.normal(size=20)
    b = a + rng.normal(0.3, 0.5, size=20)
    reference = ttest_rel(b, a)
    result = paired_difference(a, b, np.arange(20), seed=0)
    assert (result.low, result.high) == pytest.approx(tuple(reference.confidence_interval(0.95)))
    assert result.p_value == pytest.approx(reference.pvalue, abs=0.02)


def test_p_value_by_hand():
    # Totals 3, 1, -1: observed 3. Of the 8 sign patterns |+-3 +-1 +-1| is 5, 3, 3, 1 twice each; at least 3: 6 of 8.
    a, b = [0, 0, 0, 0, 1], [1, 1, 1, 1, 0]
    assert paired_difference(a, b, ["x", "x", "x", "y", "z"], seed=0).p_value == pytest.approx(6 / 8)


@pytest.mark.parametrize("whole", [True, False], ids=["whole totals", "other totals"])
def test_p_value_equals_scipy_permutations(whole):
    from scipy.stats import permutation_test

    rng = np.random.default_rng(1)
    clusters = np.repeat(np.arange(9), rng.integers(1, 4, size=9))
    a, b = (rng.integers(0, 2, size=(2, len(clusters))) if whole else rng.normal(size=(2, len(clusters)))).astype(float)
    totals = np.bincount(clusters, b - a)
    reference = permutation_test(
        (totals,), np.sum, permutation_type="samples", n_resamples=10_000, vectorized=False
    ).pvalue
    assert paired_difference(a, b, clusters, seed=0).p_value == pytest.approx(reference, abs=1e-12)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=10))
def test_exact_p_value_is_the_share_of_all_sign_patterns(totals):
    clusters = [i for i, total in enumerate(totals) for _ in range(max(1, abs(total)))]
    differences = np.array([np.sign(total) for total in totals for _ in range(max(1, abs(total)))])
    a, b = (differences < 0).astype(float), (differences > 0).astype(float)
    sums = [abs(np.dot(signs, totals)) for signs in itertools.product((-1, 1), repeat=len(totals))]
    expected = np.mean(np.array(sums) >= abs(sum(totals)))
    assert paired_difference(a, b, clusters, seed=0).p_value == pytest.approx(expected)
    # Scaled, so that the totals are not whole and the patterns are listed: ties must still be ties.
    scaled = paired_difference(0.1 * a, 0.1 * b, clusters, seed=0)
    assert scaled.p_value == pytest.approx(expected)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.booleans()), min_size=1, max_size=40),
    st.sampled_from([1.0, 0.37]),
    st.sampled_from([0.8, 0.9, 0.95, 0.99]),
)
def test_interval_leaves_zero_out_exactly_where_the_test_rejects_it(units, scale, confidence):
    clusters, a, b = (np.array(column) for column in zip(*units, strict=True))
    # In tenths or the like the values are not 0 and 1, and the interval is that of Student's t.
    result = paired_difference(a * scale, b * scale, clusters, seed=0, n_resamples=500, confidence=confidence)
    if math.isnan(result.low):
        return
    assert (result.low > 0 or result.high < 0) == (result.p_value < 1 - confidence)
    assert result.low <= result.difference <= result.high


def test_six_pairs_of_which_four_differ_are_no_evidence():
    # Exact McNemar: 2 / 2**4 = 0.125. The adjusted Wald interval alone would begin above 0 (0.010 to 0.990).
    result = paired_difference([0, 0, 0, 0, 1, 0], [1, 1, 1, 1, 1, 0], np.arange(6), seed=0)
    assert result.p_value == pytest.approx(0.125)
    assert result.low == 0.0
    assert result.high == pytest.approx(0.99, abs=0.005)


def test_signs_that_exclude_zero_give_the_end_of_the_interval():
    from scipy.stats import permutation_test

    # Six prompts of four images, all better in B by one or two: the interval by size alone would reach below 0.
    totals = np.array([1, 1, 1, 2, 2, 1])
    a = np.zeros(24)
    b = np.concatenate([np.repeat([1, 0], [t, 4 - t]) for t in totals])
    result = paired_difference(a, b, np.repeat(np.arange(6), 4), seed=0)
    assert result.p_value == pytest.approx(2 / 2**6)

    # The signs just exclude a difference at which the test of what is left has p = 0.05.
    def p_at(difference):
        left = totals - 4 * difference
        return permutation_test(
            (left,), np.sum, permutation_type="samples", n_resamples=np.inf, vectorized=False
        ).pvalue

    assert 0 < result.low < result.difference
    assert p_at(result.low - 1e-6) < 0.05 <= p_at(result.low + 1e-6)


@pytest.mark.parametrize(("n_prompts", "n_images"), [(6, 1), (6, 4), (10, 4), (20, 1), (20, 4)])
@pytest.mark.parametrize("means", [(0.5, 0.5), (0.1, 0.3), (0.7, 0.95)])
def test_intervals_hold_the_difference_and_equal_runs_are_told_apart_as_rarely_as_promised(n_prompts, n_images, means):
    from scipy.stats import norm

    rng, n_runs, share = np.random.default_rng(1), 300, 0.2  # of the variance, what the runs share, and what each has
    clusters = np.repeat(np.arange(n_prompts), n_images)
    held = found = 0
    for _ in range(n_runs):
        of_prompt = rng.normal(size=(3, n_prompts, 1)) * math.sqrt(share)
        latent = of_prompt[:1] + of_prompt[1:] + rng.normal(size=(2, n_prompts, n_images)) * math.sqrt(1 - 2 * share)
        a, b = (latent < norm.ppf(means)[:, None, None]).astype(float)
        result = paired_difference(a.ravel(), b.ravel(), clusters, seed=0)
        held += result.low - 1e-12 <= means[1] - means[0] <= result.high + 1e-12
        found += result.p_value < 0.05
    error = math.sqrt(0.05 * 0.95 / n_runs)
    assert held / n_runs >= 0.95 - 2 * error
    if means[0] == means[1]:
        assert found / n_runs <= 0.05 + 2 * error


def test_signs_of_many_prompts_exclude_zero_where_the_random_subsets_do_not():
    # Seven gained and none lost among 30 prompts of four images each: 2 / 2**7. With so few subsets drawn, the quantile
    # among them may be 0 itself.
    b = np.zeros(120)
    b[: 7 * 4 : 4] = 1
    result = paired_difference(np.zeros(120), b, np.repeat(np.arange(30), 4), seed=0, n_resamples=30)
    assert result.p_value == pytest.approx(2 / 2**7)
    assert 0 < result.low < result.difference


@pytest.mark.parametrize("cells", [1, 13 * 64, 13 * 200])
@pytest.mark.parametrize("whole", [False, True])
def test_random_subsets_in_blocks_give_the_same_ends(cells, whole, monkeypatch):
    rng = np.random.default_rng(8)
    values = rng.normal(0.4, 1.0, 39)
    values = np.rint(values) if whole else values
    totals = cluster_totals(values, np.repeat(np.arange(13), 3))

    def ends():
        return paired._ends_beside_zero(totals, -0.1, 0.1, np.random.default_rng(3), 1_000, 0.95)

    expected = ends()
    drawn = []
    means = paired._subset_means
    monkeypatch.setattr(
        paired, "_subset_means", lambda chosen, *more: drawn.append(len(chosen)) or means(chosen, *more)
    )
    monkeypatch.setattr(paired, "CHUNK_CELLS", cells)
    assert ends() == expected
    assert sum(drawn) == 1_000
    assert max(drawn) == max(64, cells // 13 // 64 * 64)


def test_random_sign_patterns_approach_the_exact_p_value():
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, 2, size=60), (rng.random(60) < 0.62).astype(int)
    clusters = np.repeat(np.arange(30), 2)
    exact = paired_difference(a, b, clusters, seed=0).p_value
    # In tenths the totals are not whole, and 24 of the 30 are not 0: too many to list.
    random = paired_difference(a / 10, b / 10, clusters, seed=0, n_resamples=20_000)
    assert random.p_value == pytest.approx(exact, abs=0.012)  # 3.5 standard errors at most
    assert random == paired_difference(a / 10, b / 10, clusters, seed=0, n_resamples=20_000)
    assert random.p_value != paired_difference(a / 10, b / 10, clusters, seed=1, n_resamples=20_000).p_value


def test_random_p_value_is_never_zero():
    result = paired_difference(np.zeros(40), np.full(40, 0.3), np.arange(40), seed=0, n_resamples=99)
    assert result.p_value == 1 / 100


def test_random_sign_patterns_in_chunks_are_as_many(monkeypatch):
    monkeypatch.setattr("verism.statistics.paired.CHUNK_CELLS", 90)
    result = paired_difference(np.zeros(40), np.full(40, 0.3), np.arange(40), seed=0, n_resamples=99)
    assert result.p_value == 1 / 100


def test_huge_runs_fall_back_to_random_patterns(monkeypatch):
    a, b = np.zeros(30), np.r_[np.ones(20), np.zeros(10)]
    exact = paired_difference(a, b, np.arange(30), seed=0).p_value
    assert exact == pytest.approx(2 / 2**20)
    monkeypatch.setattr("verism.statistics.paired.MAX_CONVOLUTION", 10)
    assert paired_difference(a, b, np.arange(30), seed=0, n_resamples=99).p_value == 1 / 100


def test_equal_runs_have_a_width_and_no_evidence():
    values = np.tile([1, 0, 1], 40)
    result = paired_difference(values, values, np.repeat(np.arange(40), 3), seed=0)
    assert (result.difference, result.p_value) == (0, 1)
    # 40 clusters that agree completely: sqrt(2/42 / 42) * 1.959964 = 0.0659954
    assert (result.low, result.high) == pytest.approx((-0.0659954, 0.0659954), abs=1e-6)


def test_one_cluster_says_next_to_nothing():
    result = paired_difference([0, 0], [1, 1], ["a", "a"], seed=0)
    assert result.low < -0.4
    assert result.high == 1
    assert result.p_value == 1


@pytest.mark.parametrize("clusters", [["a"] * 3, ["a", "b", "c"]], ids=["one cluster", "no spread"])
def test_undefined_interval_of_other_values(clusters):
    result = paired_difference([0.1, 0.2, 0.3], [0.3, 0.4, 0.5], clusters, seed=0)
    assert result.difference == pytest.approx(0.2)
    assert math.isnan(result.low)
    assert math.isnan(result.high)


def test_no_pairs():
    result = paired_difference([], [], [], seed=0)
    assert math.isnan(result.difference)
    assert math.isnan(result.p_value)
    assert (result.n_pairs, result.n_clusters) == (0, 0)


@given(st.randoms(use_true_random=False), st.booleans())
def test_comparison_depends_on_neither_row_order_nor_names(random, binary):
    rng = np.random.default_rng(random.randrange(1000))
    clusters = rng.integers(0, 20, size=45)
    a, b = rng.integers(0, 2, size=(2, 45)) if binary else rng.normal(size=(2, 45))
    reference = paired_difference(a, b, clusters, seed=5, n_resamples=200)
    order = rng.permutation(45)
    names = np.array([f"n{i}" for i in rng.permutation(20)])
    again = paired_difference(a[order], b[order], names[clusters[order]], seed=5, n_resamples=200)
    swapped = paired_difference(b, a, clusters, seed=5, n_resamples=200)
    assert again.p_value == swapped.p_value == reference.p_value
    assert (again.difference, again.low, again.high) == pytest.approx(
        (reference.difference, reference.low, reference.high), abs=1e-12
    )
    assert (-swapped.difference, -swapped.high, -swapped.low) == pytest.approx(
        (reference.difference, reference.low, reference.high), abs=1e-12
    )
    assert reference.low <= reference.difference <= reference.high


@pytest.mark.parametrize(
    ("a", "b", "clusters", "message"),
    [
        ([1, 0], [1], ["x", "y"], "same units; got 2 and 1. Join the runs by id"),
        ([1, math.nan], [1, 0], ["x", "y"], "a holds 1 NaN"),
        ([1, 0], [1, math.nan], ["x", "y"], "b holds 1 NaN"),
        ([1, 0], [1, 0], ["x"], "one label for each of the 2"),
    ],
)
def test_comparison_refuses(a, b, clusters, message):
    with pytest.raises(ValueError, match=message):
        paired_difference(a, b, clusters, seed=0)


def test_holm_by_hand():
    # Sorted 0.01, 0.03, 0.04: 3 * 0.01 = 0.03; 2 * 0.03 = 0.06; max(0.06, 1 * 0.04) = 0.06.
    assert holm([0.01, 0.04, 0.03]).tolist() == pytest.approx([0.03, 0.06, 0.06])
    # 0.6 * 2 is cut to 1.
    assert holm([0.9, 0.6]).tolist() == [1, 1]
    assert holm([]).tolist() == []


def test_holm_does_not_count_tests_that_were_not_made():
    adjusted = holm([math.nan, 0.01, math.nan, 0.04])
    assert adjusted[[1, 3]].tolist() == pytest.approx([0.02, 0.04])
    assert np.isnan(adjusted[[0, 2]]).all()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.001, 0.5))
def test_holm_rejects_what_the_step_down_procedure_rejects(p_values, alpha):
    # The procedure as published: go through the sorted values while p <= alpha / (number left).
    rejected = set()
    for step, i in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        if p_values[i] * (len(p_values) - step) > alpha:
            break
        rejected.add(i)
    adjusted = holm(p_values)
    assert set(np.flatnonzero(adjusted <= alpha)) == rejected
    assert np.all(adjusted >= p_values)


@pytest.mark.parametrize(
    ("p_values", "message"), [([0.1, 1.2], r"\[0, 1\]; got 0.1 to 1.2"), ([[0.1]], "one-dimensional")]
)
def test_holm_refuses(p_values, message):
    with pytest.raises(ValueError, match=message):
        holm(p_values)
