"""Intervals against scipy, worked by hand, and what they must not depend on. Coverage is in test_coverage.py."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from verism.statistics import (
    Interval,
    cluster_bootstrap,
    cluster_bootstrap_mean,
    clustered_proportion,
    intervals,
    mean_of_independent,
    wilson,
)
from verism.statistics.intervals import clustered_average, proportion_of_totals


@st.composite
def clustered_answers(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    n = draw(st.integers(1, 40))
    values = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    clusters = draw(st.lists(st.integers(0, 12), min_size=n, max_size=n))
    return np.array(values), np.array(clusters)


# ------------------------------------------------------------------------------------------------------------ wilson
def test_wilson_by_hand():
    # p = 0.9, n = 10, z = 1.959964, z^2 = 3.841459.
    # middle (0.9 + 0.192073) / 1.384146 = 0.788986; half 1.959964 * sqrt(0.009 + 0.0096036) / 1.384146 = 0.193137
    assert wilson(9, 10) == pytest.approx((0.9, 0.595850, 0.982124), abs=1e-6)


@pytest.mark.parametrize("n", [1, 2, 7, 30, 1000])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_wilson_equals_scipy(n, confidence):
    from scipy.stats import binomtest

    for successes in {0, 1, n // 3, n - 1, n}:
        reference = binomtest(successes, n).proportion_ci(confidence, method="wilson")
        assert wilson(successes, n, confidence=confidence) == pytest.approx(
            (successes / n, reference.low, reference.high)
        )


def test_wilson_of_nothing_is_undefined():
    assert all(math.isnan(number) for number in wilson(0, 0))


@pytest.mark.parametrize(("successes", "n"), [(-1, 5), (6, 5), (math.nan, 5), (1, math.nan), (1, math.inf)])
def test_wilson_refuses_impossible_counts(successes, n):
    with pytest.raises(ValueError, match="0 <= successes <= n"):
        wilson(successes, n)


@pytest.mark.parametrize("confidence", [0, 1, 95, math.nan])
def test_level_is_a_share(confidence):
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        wilson(1, 2, confidence=confidence)


@given(st.integers(1, 500), st.data(), st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_wilson_of_the_complement_is_mirrored(n, data, confidence):
    successes = data.draw(st.integers(0, n))
    value, low, high = wilson(successes, n, confidence=confidence)
    mirrored = wilson(n - successes, n, confidence=confidence)
    assert mirrored == pytest.approx((1 - value, 1 - high, 1 - low), abs=1e-12)
    assert 0 <= low <= value <= high <= 1
    assert low < high


# ---------------------------------------------------------------------------------------------- clustered proportion
@given(st.lists(st.integers(0, 1), min_size=1, max_size=60))
def test_one_unit_per_cluster_is_wilson(values):
    clustered = clustered_proportion(values, [f"prompt {i}" for i in range(len(values))])
    assert clustered == pytest.approx(wilson(sum(values), len(values)), abs=1e-12)


def test_clustered_proportion_by_hand():
    # Clusters (sum/size): 2/2, 0/2, 1/2, 2/2: n = 8, K = 4, p = 5/8. The imaginary cluster has their size, 2:
    # padded n = 10, mean (5 + 1) / 10 = 0.6.
    # Squared residuals sum - 0.6 * size: 0.8^2 + 1.2^2 + 0.2^2 + 0.8^2 = 2.76; half a cluster each of 0/2 and 2/2:
    # 0.5 * (1.2^2 + 0.8^2) = 1.04; together 3.80. Between: 5/4 * 3.80 / 100 = 0.0475.
    # As many independent units: 0.6 * 0.4 / 9 = 0.0266667. deff = 1.78125.
    # t(7) = 2.364624, t(3) = 3.182446: factor 0.552070. 8 / 1.78125 * 0.552070 = 2.4795, below the floor 64/16 = 4.
    values, clusters = [1, 1, 0, 0, 1, 0, 1, 1], list("aabbccdd")
    assert clustered_proportion(values, clusters) == pytest.approx(wilson(2.5, 4))
    # Ten times the clusters: K = 40, n = 80, padded n = 82, mean 51/82 = 0.621951.
    # Residuals: 10 * (2 * 0.756098^2 + 1.243902^2 + 0.243902^2) = 11.43368 + 15.47293 + 0.59488 = 27.50149;
    # plus 0.5 * (1.243902^2 + 0.756098^2) = 1.05949: 28.56098. Between: 41/40 * 28.56098 / 6724 = 0.00435379.
    # Independent: 0.621951 * 0.378049 / 81 = 0.00290282. deff = 1.499850.
    # t(79) = 1.990450, t(39) = 2.022691: factor 0.968375. Effective size 80 / 1.499850 * 0.968375 = 51.6518.
    many = clustered_proportion(values * 10, [f"{c}{i}" for i in range(10) for c in clusters])
    assert many == pytest.approx(wilson(5 / 8 * 51.6518, 51.6518), abs=1e-5)


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=4), min_size=1, max_size=8))
def test_totals_of_clusters_say_as_much_as_their_units(units):
    values = [float(value) for cluster in units for value in cluster]
    labels = [f"c{number}" for number, cluster in enumerate(units) for _ in cluster]
    right, sizes = [sum(cluster) for cluster in units], [len(cluster) for cluster in units]
    expected = clustered_proportion(values, labels)
    assert proportion_of_totals(right, sizes) == expected
    assert proportion_of_totals([0, *right], [0, *sizes]) == expected  # a cluster without units is none


def test_totals_by_hand():
    # One unit of each: Wilson's interval of 2 of 3.
    assert proportion_of_totals([1, 0, 1], [1, 1, 1]) == wilson(2, 3)
    assert math.isnan(proportion_of_totals([], []).value)


@pytest.mark.parametrize(
    ("right", "sizes"), [([2], [1]), ([-1], [1]), ([0.5], [1]), ([0], [1.5]), ([1, 1], [1]), ([math.nan], [1])]
)
def test_totals_that_cannot_be_are_refused(right, sizes):
    with pytest.raises(ValueError, match="right"):
        proportion_of_totals(right, sizes)


def test_design_effect_of_many_clusters_is_that_of_the_ratio_estimator():
    # With many clusters neither the imaginary one nor the degrees of freedom matter: n / deff as Rao & Scott have it.
    rng = np.random.default_rng(3)
    sizes = rng.integers(1, 6, size=20_000)
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    values = (rng.random(len(clusters)) < rng.beta(2, 1, size=len(sizes))[clusters]).astype(int)
    p = values.mean()
    residual = np.bincount(clusters, values) - p * sizes
    variance = len(sizes) / (len(sizes) - 1) * np.sum(residual**2) / sizes.sum() ** 2
    effective = p * (1 - p) / variance
    assert clustered_proportion(values, clusters) == pytest.approx(wilson(p * effective, effective), abs=2e-6)


@pytest.mark.parametrize("value", [0, 1])
def test_all_equal_counts_clusters_not_images(value):
    # 30 prompts of 4 images, all alike: nothing says that images of a prompt could differ, so n = 30.
    interval = clustered_proportion(np.full(120, value), np.repeat(np.arange(30), 4))
    assert interval == pytest.approx(wilson(30 * value, 30))
    assert interval.low < interval.high


def test_complete_agreement_counts_clusters():
    values = np.repeat([1, 1, 1, 0, 0] * 20, 3)
    assert clustered_proportion(values, np.repeat(np.arange(100), 3)) == pytest.approx(wilson(60, 100), abs=1e-3)


def test_one_cluster_is_one_unit():
    assert clustered_proportion([1, 1, 0, 1], ["a"] * 4) == pytest.approx(wilson(0.75, 1))


def test_few_clusters_are_never_more_certain_than_independent_units():
    values = [1, 0, 1, 0, 1, 1, 0, 1]  # clusters that balance themselves, so that the estimated design effect is < 1
    interval, independent = clustered_proportion(values, [0, 0, 1, 1, 2, 2, 2, 2]), wilson(5, 8)
    assert interval.low <= independent.low
    assert interval.high >= independent.high


@given(clustered_answers(), st.randoms(use_true_random=False))
def test_clustered_proportion_depends_on_neither_row_order_nor_names(answers, random):
    values, clusters = answers
    reference = clustered_proportion(values, clusters)
    order = list(range(len(values)))
    random.shuffle(order)
    names = [f"n{name}" for name in random.sample(range(100), 13)]
    renamed = [names[clusters[i]] for i in order]
    assert clustered_proportion(values[order], renamed) == pytest.approx(reference, abs=1e-12)
    mirrored = clustered_proportion(1 - values, clusters)
    assert mirrored == pytest.approx((1 - reference.value, 1 - reference.high, 1 - reference.low), abs=1e-12)
    assert 0 <= reference.low <= reference.value <= reference.high <= 1


def test_no_units_have_no_proportion():
    assert all(math.isnan(number) for number in clustered_proportion([], []))


@pytest.mark.parametrize(
    ("values", "clusters", "message"),
    [
        ([1, math.nan], ["a", "b"], "remove null answers first"),
        ([1, 0.5], ["a", "b"], "must hold only 0 and 1; got 0.5"),
        ([1, 0], ["a"], "one label for each of the 2 values"),
        ([1, 0], ["a", None], "1 missing label"),
        ([1, 0], [1.0, math.nan], "1 missing label"),
        ([[1, 0]], ["a", "b"], "one-dimensional"),
    ],
)
def test_clustered_proportion_refuses(values, clusters, message):
    with pytest.raises(ValueError, match=message):
        clustered_proportion(values, clusters)


# --------------------------------------------------------------------------------------------------------- bootstrap
@pytest.mark.parametrize(("method", "name"), [("bca", "BCa"), ("percentile", "percentile")])
def test_bootstrap_of_single_units_equals_scipy(method, name):
    from scipy.stats import bootstrap

    values = np.random.default_rng(5).exponential(size=60)  # skewed, so that bca and percentile differ
    n_resamples = 20_000
    reference = bootstrap(
        (values,), np.mean, n_resamples=n_resamples, method=name, rng=np.random.default_rng(0)
    ).confidence_interval
    # An end is itself random, with standard error sqrt(0.025 * 0.975 / 20000) / phi(1.96) = 0.019 standard errors of
    # the mean, and two differ by 0.027. The tolerance is 0.06; bca and percentile are 0.2 apart here.
    tolerance = 0.06 * values.std() / math.sqrt(len(values))
    fast = cluster_bootstrap_mean(values, np.arange(60), seed=1, n_resamples=n_resamples, method=method)
    assert fast == pytest.approx((values.mean(), reference.low, reference.high), abs=tolerance)
    general = cluster_bootstrap(np.mean, values, clusters=np.arange(60), seed=1, n_resamples=n_resamples, method=method)
    assert general == pytest.approx(fast, abs=tolerance)


def test_bca_moves_the_interval_of_a_skewed_mean_to_the_long_tail():
    values = np.random.default_rng(5).exponential(size=60) ** 2
    plain = cluster_bootstrap_mean(values, np.arange(60), seed=1, method="percentile")
    corrected = cluster_bootstrap_mean(values, np.arange(60), seed=1, method="bca")
    assert corrected.low > plain.low
    assert corrected.high > plain.high


def test_bca_counts_ties_half():
    # Five of ten right: symmetric, so without bias and acceleration, and bca is the percentile interval. Counts
    # of Bin(10, 1/2) have P(<= 1) = 0.011 and P(<= 2) = 0.055, hence 0.2 to 0.8. A quarter of the resamples are ties.
    for method in ("bca", "percentile"):
        interval = cluster_bootstrap(np.mean, [0, 1] * 5, clusters=np.arange(10), seed=0, method=method)
        assert interval == pytest.approx((0.5, 0.2, 0.8))


def test_bca_ties_do_not_hang_on_the_order_of_a_sum():
    # Tenths: resamples with the same total tie, and sums of tenths differ in the last bit by their order.
    values = np.repeat([0.1, 0.4, 0.9], 3)
    orders = (np.sort, lambda x: np.sort(x)[::-1], np.array)
    sums = [lambda x, order=order: sum(order(x).tolist()) / len(x) for order in orders]
    exact = cluster_bootstrap(lambda x: math.fsum(x) / len(x), values, clusters=np.arange(9), seed=0)
    for mean in sums:  # before, an end moved by 0.02
        assert cluster_bootstrap(mean, values, clusters=np.arange(9), seed=0) == pytest.approx(exact, abs=1e-12)


def test_bootstrap_standard_error_meets_the_formula():
    rng = np.random.default_rng(8)
    clusters = np.repeat(np.arange(200), 3)
    values = rng.normal(size=200)[clusters] + rng.normal(size=600)
    means = values.reshape(200, 3).mean(axis=1)
    half = 1.96 * means.std(ddof=1) / math.sqrt(200)
    interval = cluster_bootstrap_mean(values, clusters, seed=2)
    assert interval.high - interval.low == pytest.approx(2 * half, rel=0.04)


def test_fast_mean_equals_general_bootstrap_on_unequal_clusters():
    rng = np.random.default_rng(4)
    clusters = np.repeat(np.arange(40), rng.integers(1, 6, size=40))
    # Far from 0, where it matters that the number of units drawn varies with the clusters.
    values = 5 + rng.normal(size=40)[clusters] + rng.normal(size=len(clusters))
    fast = cluster_bootstrap_mean(values, clusters, seed=0, n_resamples=10_000)
    general = cluster_bootstrap(np.mean, values, clusters=clusters, seed=0, n_resamples=10_000)
    assert fast == pytest.approx(general, abs=0.03)
    assert fast.value == pytest.approx(values.mean())


def test_bootstrap_draws_rows_of_all_arrays_together():
    # The correlation of an array with itself is 1 in every resample, so there is no spread to make an interval of.
    x = np.random.default_rng(0).normal(size=30)
    clusters = np.repeat(np.arange(10), 3)
    interval = cluster_bootstrap(lambda a, b: np.corrcoef(a, b)[0, 1], x, x, clusters=clusters, seed=0, n_resamples=50)
    assert interval.value == pytest.approx(1)
    assert math.isnan(interval.low)
    assert math.isnan(interval.high)


def test_bootstrap_keeps_clusters_whole():
    seen = []

    def record(rows):
        seen.append(rows)
        return rows.sum()

    clusters = np.array(list("abcdefab"))
    cluster_bootstrap(record, np.arange(8), clusters=clusters, seed=0, n_resamples=100)
    for rows in seen:
        drawn = np.bincount(rows, minlength=8)
        assert drawn[0] == drawn[6]  # cluster a
        assert drawn[1] == drawn[7]  # cluster b
    # 1 value, 100 resamples of 6 clusters, 6 without one cluster each.
    assert len(seen) == 107
    without = [sorted({*range(8)} - {*rows.tolist()}) for rows in seen[-6:]]
    assert without == [[0, 6], [1, 7], [2], [3], [4], [5]]


def test_bootstrap_of_few_clusters_computes_each_resample_once():
    seen = []

    def mean(values):
        seen.append(tuple(values))
        return float(np.mean(values))

    values = np.array([0.1, 0.4, 0.45])
    result = cluster_bootstrap(mean, values, clusters=np.arange(3), seed=0, n_resamples=500, method="percentile")
    assert len(seen) == len(set(seen)) + 1 <= 3**3 + 1  # and the data themselves
    rng = np.random.default_rng(0)
    every = [float(np.mean(values[rng.integers(0, 3, size=3)])) for _ in range(500)]
    assert (result.low, result.high) == pytest.approx(np.quantile(every, [0.025, 0.975]), abs=1e-12)


def test_bootstrap_within_clusters_draws_units_of_the_drawn_clusters():
    seen = []
    clusters = np.repeat(np.arange(4), 5)

    def record(rows):
        seen.append(rows)
        return rows.mean()

    cluster_bootstrap(
        record, np.arange(20), clusters=clusters, seed=0, n_resamples=200, within=True, method="percentile"
    )
    resampled = seen[1:]
    assert all(len(np.unique(chunk // 5)) == 1 for rows in resampled for chunk in rows.reshape(4, 5))
    assert any(len(np.unique(rows[:5])) < 5 for rows in resampled)
    assert np.unique(np.concatenate(resampled)).tolist() == list(range(20))


def test_bootstrap_is_seeded():
    values, clusters = np.random.default_rng(0).normal(size=80), np.repeat(np.arange(40), 2)
    for run in (
        lambda seed: cluster_bootstrap_mean(values, clusters, seed=seed, n_resamples=200),
        lambda seed: cluster_bootstrap(np.median, values, clusters=clusters, seed=seed, n_resamples=200),
    ):
        assert run(7) == run(7) == run(np.random.default_rng(7))
        assert run(7) != run(8)


@settings(max_examples=25)
@given(st.randoms(use_true_random=False))
def test_bootstrap_mean_depends_on_neither_row_order_nor_names(random):
    rng = np.random.default_rng(1)
    values, clusters = rng.normal(size=30), rng.integers(0, 9, size=30)
    order = list(range(30))
    random.shuffle(order)
    names = random.sample(range(100), 9)
    reference = cluster_bootstrap_mean(values, clusters, seed=3, n_resamples=100)
    again = cluster_bootstrap_mean(values[order], [names[clusters[i]] for i in order], seed=3, n_resamples=100)
    assert again == pytest.approx(reference, rel=1e-12)


def test_bootstrap_mean_in_chunks_is_the_same(monkeypatch):
    values, clusters = np.random.default_rng(0).normal(size=50), np.repeat(np.arange(25), 2)
    full = cluster_bootstrap_mean(values, clusters, seed=7, n_resamples=203)
    monkeypatch.setattr("verism.statistics.intervals.CHUNK_CELLS", 100)
    assert cluster_bootstrap_mean(values, clusters, seed=7, n_resamples=203) == full


@pytest.mark.parametrize("clusters", [["a"] * 4, ["a", "a", "b", "b"]], ids=["one cluster", "no spread"])
def test_bootstrap_that_cannot_see_says_so(clusters):
    for interval in (
        cluster_bootstrap_mean([0.1] * 4, clusters, seed=0),
        cluster_bootstrap(np.mean, [0.1] * 4, clusters=clusters, seed=0, n_resamples=100),
    ):
        assert interval.value == pytest.approx(0.1)
        assert math.isnan(interval.low)
        assert math.isnan(interval.high)


@pytest.mark.parametrize("n", [2, 3, 5, 9, 10, 29])
def test_few_clusters_have_at_least_students_interval(n):
    """Of two clusters, all resamples lie between them: half of all intervals would miss the truth."""
    values = np.random.default_rng(n).normal(size=n)
    found = cluster_bootstrap_mean(values, np.arange(n), seed=0)
    around = scipy.stats.t.ppf(0.975, n - 1) * values.std(ddof=1) / math.sqrt(n)
    assert found.low <= values.mean() - around + 1e-12
    assert found.high >= values.mean() + around - 1e-12
    assert cluster_bootstrap_mean(values[::-1], np.arange(n), seed=0) == found
    cut = cluster_bootstrap_mean([0.2, 0.9], [0, 1], seed=0, bounds=(0.0, 1.0))
    assert (cut.low, cut.high) == (0.0, 1.0)


def test_bootstrap_of_nothing_is_undefined():
    assert all(math.isnan(number) for number in cluster_bootstrap_mean([], [], seed=0))
    assert all(math.isnan(number) for number in cluster_bootstrap(np.mean, [], clusters=[], seed=0))


@pytest.mark.parametrize(("n_usable", "defined"), [(40, True), (3, False)])
def test_bootstrap_tolerates_few_undefined_resamples(n_usable, defined):
    # A ratio without denominator is undefined: with 3 usable clusters of 43, in (40/43)^43 = 4 % of the resamples.
    usable = np.r_[np.ones(n_usable), np.zeros(43 - n_usable)]
    values = np.arange(43.0)

    def ratio(value, use):
        return (value @ use) / use.sum() if use.any() else math.nan

    interval = cluster_bootstrap(ratio, values, usable, clusters=np.arange(43), seed=0, n_resamples=1000)
    assert math.isfinite(interval.value)
    assert math.isfinite(interval.low) is defined


def test_bca_survives_a_statistic_at_the_edge_of_its_resamples():
    # No resample exceeds the maximum: the share below, hence the bias correction, is at its limit.
    interval = cluster_bootstrap(np.max, np.arange(20.0), clusters=np.arange(20), seed=0, n_resamples=500)
    assert interval.low <= interval.high <= 19


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cluster_bootstrap_mean([1, math.nan], [0, 1], seed=0), "remove null answers first"),
        (lambda: cluster_bootstrap_mean([1, 2], [0, 1], seed=0, method="basic"), "'bca' or 'percentile'; got 'basic'"),
        (lambda: cluster_bootstrap_mean([1, 2], [0, 1], seed=0, n_resamples=0), "n_resamples must be at least 1"),
        (lambda: cluster_bootstrap(np.mean, [1, math.nan], clusters=[0, 1], seed=0), "data array 0 holds NaN"),
        (lambda: cluster_bootstrap(np.mean, clusters=[0, 1], seed=0), "one or more arrays"),
        (lambda: cluster_bootstrap(np.mean, [1, 2], [1], clusters=[0, 1], seed=0), r"got \[2, 1\] rows"),
        (lambda: cluster_bootstrap(np.mean, [1, 2], clusters=[0], seed=0), "one label for each of the 2"),
    ],
)
def test_bootstrap_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# ------------------------------------------------------------------------------------------------ mean of independent
def test_mean_of_independent_by_hand():
    # Mean (0.5 + 0.9) / 2 = 0.7. Down: sqrt(0.25 * 0.1^2 + 0.25 * 0.2^2) = 0.111803; up: sqrt(0.25 * (0.2^2 + 0.05^2)).
    interval = mean_of_independent([Interval(0.5, 0.4, 0.7), Interval(0.9, 0.7, 0.95)])
    assert interval == pytest.approx((0.7, 0.7 - 0.1118034, 0.7 + 0.1030776))


def test_mean_of_independent_weights_are_scaled():
    parts = [wilson(3, 10), wilson(17, 20), wilson(30, 30)]
    weighted = mean_of_independent(parts, [2, 4, 6])
    assert weighted == pytest.approx(mean_of_independent(parts, [1 / 6, 1 / 3, 1 / 2]))
    assert weighted.value == pytest.approx((0.3 * 2 + 0.85 * 4 + 6) / 12)
    assert mean_of_independent(parts, [0, 1, 0]) == pytest.approx(parts[1])


def test_mean_of_three_perfect_skills_is_not_certain():
    one = wilson(50, 50)
    interval = mean_of_independent([one] * 3)
    assert interval.high == interval.value == 1.0
    # A third of the variance, as it should be: 1 - low shrinks by sqrt(3).
    assert 1 - interval.low == pytest.approx((1 - one.low) / math.sqrt(3))


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=6))
def test_mean_of_independent_stays_between_the_mean_ends(counts):
    parts = [wilson(right, right + wrong) for right, wrong in counts if right + wrong]
    if not parts:
        return
    mean = mean_of_independent(parts)
    assert np.mean([part.low for part in parts]) - 1e-12 <= mean.low <= mean.value + 1e-12
    assert mean.value - 1e-12 <= mean.high <= np.mean([part.high for part in parts]) + 1e-12
    assert mean_of_independent(parts[::-1]) == pytest.approx(mean)


@pytest.mark.parametrize(
    ("intervals", "weights", "message"),
    [
        ([], None, "at least one interval"),
        ([wilson(0, 0)], None, "interval 0 must satisfy .* Leave undefined estimates out"),
        ([Interval(0.5, 0.6, 0.7)], None, "value=0.5, low=0.6"),
        ([wilson(1, 2)], [0.0], "not all 0"),
        ([wilson(1, 2)], [1.0, 2.0], "must be 1 numbers"),
        ([wilson(1, 2), wilson(1, 2)], [1.0, -1.0], ">= 0"),
        ([wilson(1, 2)], [math.nan], "weights holds 1 NaN"),
    ],
)
def test_mean_of_independent_refuses(intervals, weights, message):
    with pytest.raises(ValueError, match=message):
        mean_of_independent(intervals, weights)


def test_import_does_not_load_scipy():
    code = (
        "import sys, verism.statistics, verism.metrics.skills;"
        "sys.exit(', '.join({'scipy', 'polars'} & set(sys.modules)) or None)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_mean_of_clusters_by_hand():
    # Means 2, 2, 5 of three clusters of two: mean 3, residual sums -2, -2, 4; variance 3/2 * 24 / 36 = 1; t(2) 4.3027.
    estimate = intervals.clustered_mean([1, 3, 2, 2, 5, 5], ["a", "a", "b", "b", "c", "c"])
    assert estimate == pytest.approx((3.0, 3.0 - 4.30265, 3.0 + 4.30265), abs=1e-4)
    cut = intervals.clustered_mean([1, 3, 2, 2, 5, 5], list("aabbcc"), bounds=(1, 5))
    assert (cut.low, cut.high) == (1, 5)
    assert math.isnan(intervals.clustered_mean([], []).value)
    assert math.isnan(intervals.clustered_mean([2.0, 2.0], ["a", "b"]).low)


def test_the_mean_of_independent_values_has_students_interval():
    from scipy import stats

    values = np.random.default_rng(0).normal(5, 2, 12)
    expected = stats.t.interval(0.95, 11, loc=values.mean(), scale=values.std(ddof=1) / math.sqrt(12))
    estimate = intervals.clustered_mean(values, np.arange(12))
    assert (estimate.low, estimate.high) == pytest.approx(expected)


def test_an_average_of_shares_does_not_leave_what_shares_can_be():
    values, clusters = [0.0, 0.1, 0.0, 1.0], list("abcd")
    free = clustered_average(values, clusters)
    assert free.low < 0
    cut = clustered_average(values, clusters, bounds=(0.0, 1.0))
    assert cut == (free.value, 0.0, min(free.high, 1.0))
    assert clustered_average([0, 1, 1, 0], clusters, bounds=(0.0, 1.0)) == clustered_average([0, 1, 1, 0], clusters)
