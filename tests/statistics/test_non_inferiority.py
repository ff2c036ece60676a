"""Drops against a margin: worked by hand, against scipy, and false alarms where the drop is what is allowed."""

from __future__ import annotations

import itertools
import math
from dataclasses import astuple
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from verism.statistics import Interval, independent_non_inferiority, non_inferiority, paired_difference
from verism.statistics.non_inferiority import null_variance, skewed_quantile

# 100 pairs: 40 right in both, 12 lost, 5 gained, 43 wrong in both.
BASE = np.repeat([1, 1, 0, 0], [40, 12, 5, 43])
NEW = np.repeat([1, 0, 1, 0], [40, 12, 5, 43])
PROMPTS = np.arange(100)


def test_without_a_margin_it_is_the_exact_one_sided_mcnemar_test():
    result = non_inferiority(BASE, NEW, PROMPTS, margin=0.0, seed=0)
    assert result.drop == pytest.approx(0.07)
    # The score test is (12 - 5) / sqrt(17) = 1.698, p = 0.0448: the exact one is larger, and decides.
    assert result.p_exceeds == pytest.approx(stats.binomtest(12, 17, alternative="greater").pvalue, rel=1e-12)
    assert result.p_within == pytest.approx(stats.binomtest(12, 17, alternative="less").pvalue, rel=1e-12)
    assert (result.n_pairs, result.n_clusters) == (100, 100)
    assert result.low == 0.0  # p is above 0.05: the interval reaches the margin


def test_signs_with_a_margin_are_those_of_all_patterns():
    # Margin 1/4, totals less 4 * (1/4) = 1 each: 3, 3, 1, -1, -1 of the five prompts of four.
    lost = [4, 4, 2, 0, 0]
    base, clusters = np.ones(20), np.repeat(np.arange(5), 4)
    new = np.concatenate([np.repeat([0, 1], [n, 4 - n]) for n in lost])
    result = non_inferiority(base, new, clusters, margin=0.25, seed=0)
    beyond = np.array([3, 3, 1, -1, -1])
    sums = [np.dot(signs, np.abs(beyond)) for signs in itertools.product((-1, 1), repeat=5)]
    signs = np.mean(np.array(sums) >= 5)
    assert signs == 7 / 32
    assert result.p_exceeds >= signs
    # Twelve or fewer clusters of other values: the same patterns, listed.
    scaled = non_inferiority(0.1 * base, 0.1 * new, clusters, margin=0.025, seed=0)
    assert scaled.p_exceeds >= signs


def test_null_variance_is_that_of_the_most_likely_shares():
    # By brute force: the likelihood of 12 lost, 5 gained of 100 over all shares whose difference is 0.02.
    gained = np.linspace(1e-6, 0.48, 200_000)
    likelihood = 12 * np.log(gained + 0.02) + 5 * np.log(gained) + 83 * np.log(1 - 2 * gained - 0.02)
    best = gained[np.argmax(likelihood)]
    assert null_variance(0.12, 0.05, 0.02) == pytest.approx(2 * best + 0.02 - 0.02**2, abs=1e-5)
    # Without a margin, those of the pooled discordant pairs (McNemar's).
    assert null_variance(0.12, 0.05, 0.0) == pytest.approx(0.17)
    # Nobody gained: 0.12 / (q + 0.02) = 1.76 / (0.98 - 2 q) gives q = 0.0412.
    assert null_variance(0.12, 0.0, 0.02) == pytest.approx(2 * 0.0412 + 0.02 - 0.02**2)


def test_large_samples_reach_the_score_test_of_tango():
    base, new = np.tile(BASE, 20), np.tile(NEW, 20)
    result = non_inferiority(base, new, np.arange(2000), margin=0.06, seed=0)
    z = (0.07 - 0.06) / math.sqrt(null_variance(0.12, 0.05, 0.06) / 2000)
    assert result.p_exceeds == pytest.approx(stats.norm.sf(z), abs=0.01)
    assert result.p_within == pytest.approx(stats.norm.sf(-z), abs=0.01)


def test_even_numbers_come_close_to_the_t_test():
    rng = np.random.default_rng(4)
    base = rng.normal(size=200)
    new = base - rng.normal(0.3, 1.0, size=200)
    result = non_inferiority(base, new, np.arange(200), margin=0.1, seed=0)
    reference = stats.ttest_1samp(base - new, 0.1, alternative="greater").pvalue
    assert reference <= result.p_exceeds <= reference + 0.02
    low = stats.ttest_1samp(base - new, 0, alternative="greater").confidence_interval(0.95).low
    assert low - 0.02 <= result.low <= low + 1e-12


def test_transformation_of_skewness_is_inverted():
    # The end lies where the transformed t statistic has the quantile of t.
    skewness, n = -0.8, 25
    t = skewed_quantile(0.05, n, skewness)
    a = skewness / 5
    assert t + a * t**2 / 3 + a**2 * t**3 / 27 + a / 6 == pytest.approx(stats.t.ppf(0.95, 24))
    assert skewed_quantile(0.05, n, 0.0) == pytest.approx(stats.t.ppf(0.95, 24))


units = st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.booleans()), min_size=1, max_size=40)


@given(units, st.sampled_from([0.0, 0.02, 0.1, 0.3]), st.sampled_from([1.0, 0.37]), st.sampled_from([0.01, 0.05, 0.2]))
@settings(max_examples=60)
def test_ends_leave_the_margin_out_exactly_where_the_tests_reject(values, margin, scale, alpha):
    clusters, base, new = (np.array(column) for column in zip(*values, strict=True))
    result = non_inferiority(base * scale, new * scale, clusters, margin=margin, seed=0, alpha=alpha, n_resamples=200)
    if math.isnan(result.low):
        return
    assert (result.low > margin) == (result.p_exceeds <= alpha)
    assert (result.high < margin) == (result.p_within <= alpha)
    assert result.low <= result.drop <= result.high
    assert 0 < result.p_exceeds <= 1


@given(units, st.sampled_from([0.0, 0.05]), st.sampled_from([1.0, 0.37]), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_order_and_names_do_not_matter(values, margin, scale, random):
    clusters, base, new = (np.array(column) for column in zip(*values, strict=True))
    first = non_inferiority(base * scale, new * scale, clusters, margin=margin, seed=0, n_resamples=200)
    order = random.sample(range(len(base)), len(base))
    names = np.array([f"prompt {c * 7 % 10}" for c in clusters])[order]
    again = non_inferiority(base[order] * scale, new[order] * scale, names, margin=margin, seed=0, n_resamples=200)
    assert astuple(again) == pytest.approx(astuple(first), nan_ok=True)


@given(units, st.sampled_from([1.0, 0.37]))
@settings(max_examples=60)
def test_without_a_margin_swapping_the_runs_swaps_the_tests(values, scale):
    clusters, base, new = (np.array(column) for column in zip(*values, strict=True))
    there = non_inferiority(base * scale, new * scale, clusters, margin=0.0, seed=0, n_resamples=200)
    back = non_inferiority(new * scale, base * scale, clusters, margin=0.0, seed=0, n_resamples=200)
    assert back.drop == pytest.approx(-there.drop)
    if len(np.unique(clusters)) <= 12:  # of more clusters other random patterns are drawn
        assert (back.p_exceeds, back.p_within) == pytest.approx((there.p_within, there.p_exceeds), abs=1e-9)
    # And where less is better, the drop is a rise.
    rise = non_inferiority(base * scale, new * scale, clusters, margin=0.0, seed=0, higher_is_better=False)
    assert rise.drop == pytest.approx(back.drop)


def test_a_larger_margin_is_exceeded_less():
    p = [non_inferiority(BASE, NEW, PROMPTS, margin=m, seed=0) for m in (0.0, 0.02, 0.05, 0.1, 0.2)]
    assert [r.p_exceeds for r in p] == sorted(r.p_exceeds for r in p)
    assert [r.p_within for r in p] == sorted((r.p_within for r in p), reverse=True)


def test_complete_agreement_within_prompts_counts_prompts():
    single = non_inferiority(BASE, NEW, PROMPTS, margin=0.02, seed=0)
    tripled = non_inferiority(np.repeat(BASE, 3), np.repeat(NEW, 3), np.repeat(PROMPTS, 3), margin=0.02, seed=0)
    assert tripled.p_exceeds == pytest.approx(single.p_exceeds, abs=0.02)
    independent = non_inferiority(np.tile(BASE, 3), np.tile(NEW, 3), np.arange(300), margin=0.02, seed=0)
    assert independent.p_exceeds < tripled.p_exceeds / 2


def test_weights_make_the_mean_over_groups():
    # Group x: 10 of 30 lost; group y: none of 10. The mean over groups drops by (1/3 + 0) / 2.
    base, new = np.ones(40), np.concatenate([np.zeros(10), np.ones(30)])
    weights = np.repeat([40 / (2 * 30), 40 / (2 * 10)], [30, 10])
    result = non_inferiority(base, new, np.arange(40), margin=0.02, seed=0, weights=weights)
    assert result.drop == pytest.approx(1 / 6)
    assert result.p_exceeds < 0.05 < result.p_within
    # Weights that are all alike change nothing.
    plain = non_inferiority(base, new, np.arange(40), margin=0.02, seed=0)
    alike = non_inferiority(base, new, np.arange(40), margin=0.02, seed=0, weights=np.ones(40))
    assert (alike.drop, alike.n_clusters) == (plain.drop, plain.n_clusters)
    assert alike.p_exceeds == pytest.approx(plain.p_exceeds, abs=0.02)


def test_few_prompts_that_all_lose_are_no_evidence_beyond_signs():
    # Three prompts all lost: 1/8 by signs, however sure their size looks.
    assert non_inferiority([1, 1, 1], [0, 0, 0], [0, 1, 2], margin=0.02, seed=0).p_exceeds >= 1 / 8
    assert non_inferiority([1] * 5, [0] * 5, [0] * 5, margin=0.0, seed=0).p_exceeds >= 0.5  # one prompt alone


def test_runs_that_agree_everywhere_are_within_a_margin_with_enough_prompts():
    ones = np.ones(300)
    assert non_inferiority(ones, ones, np.arange(300), margin=0.02, seed=0).p_within < 0.05
    assert non_inferiority(ones[:30], ones[:30], np.arange(30), margin=0.02, seed=0).p_within > 0.05


def test_what_is_not_known_is_nan():
    empty = non_inferiority([], [], [], margin=0.02, seed=0)
    assert (empty.n_pairs, empty.n_clusters) == (0, 0)
    assert math.isnan(empty.p_exceeds)
    assert math.isnan(empty.drop)
    single = non_inferiority([0.3, 0.4], [0.2, 0.1], ["x", "x"], margin=0.0, seed=0)
    assert math.isnan(single.low)
    assert single.p_exceeds == 0.5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"margin": -0.1}, "margin must be"),
        ({"margin": 1.0}, "below 1 for values of 0 and 1"),
        ({"alpha": 0.5}, "alpha must lie"),
        ({"new": [1.0]}, "Join the runs by id"),
        ({"base": [1.0, math.nan]}, "NaN"),
        ({"weights": [1.0, 0.0]}, "above 0"),
        ({"n_resamples": 0}, "n_resamples"),
    ],
)
def test_wrong_arguments_are_refused(changes, message):
    arguments = {"base": [1.0, 0.0], "new": [1.0, 0.0], "clusters": [0, 1], "margin": 0.1, "seed": 0} | changes
    base, new, clusters = (arguments.pop(name) for name in ("base", "new", "clusters"))
    with pytest.raises(ValueError, match=message):
        non_inferiority(base, new, clusters, **arguments)


def test_independent_numbers_worked_by_hand():
    # 0.80 +- 0.0392 and 0.70 +- 0.0392: standard errors 0.02 each, together 0.0282843; 0.08 / 0.0282843 = 2.828.
    base, new = Interval(0.80, 0.7608, 0.8392), Interval(0.70, 0.6608, 0.7392)
    result = independent_non_inferiority(base, new, margin=0.02)
    assert result.drop == pytest.approx(0.10)
    assert result.p_exceeds == pytest.approx(stats.norm.sf(2.8285), rel=1e-3)
    assert (result.low, result.high) == pytest.approx((0.10 - 1.6449 * 0.028284, 0.10 + 1.6449 * 0.028284), abs=1e-4)
    # Where less is better, the same fall is a gain.
    better = independent_non_inferiority(base, new, margin=0.02, higher_is_better=False)
    assert better.drop == pytest.approx(-0.10)
    assert better.p_within < 0.001


# The benchmark benchmarks/gate.py has more worlds and runs; these are its hardest few, with a fixed seed.
@pytest.mark.parametrize(
    ("prompts", "each", "margin", "churn", "stay"),
    [(40, 1, 0.02, 0.1, 0.0), (15, 4, 0.05, 0.1, 0.6), (40, 9, 0.02, 0.02, 0.5), (100, 1, 0.0, 0.25, 0.0)],
)
def test_false_alarms_at_the_margin_stay_below_the_level(prompts, each, margin, churn, stay):
    rng, alarms, runs = np.random.default_rng(1), 0, 300
    clusters = np.repeat(np.arange(prompts), each)
    for _ in range(runs):
        u = rng.random((prompts, each))
        kept = rng.random((prompts, each)) < stay
        for image in range(1, each):
            u[:, image] = np.where(kept[:, image], u[:, image - 1], u[:, image])
        lost, gained = u.ravel() < margin + churn, u.ravel() > 1 - churn
        result = non_inferiority(~gained, ~lost, clusters, margin=margin, seed=0, n_resamples=1)
        alarms += result.p_exceeds <= 0.05
    # At a level of 5 %, more than 27 of 300 have a chance of 0.1 %.
    assert alarms <= 27


def test_paired_difference_and_the_gate_agree_on_which_way_a_drop_goes():
    result = paired_difference(BASE, NEW, PROMPTS, seed=0)
    assert result.difference == pytest.approx(-non_inferiority(BASE, NEW, PROMPTS, margin=0, seed=0).drop)
    assert result.p_value == pytest.approx(2 * float(Fraction(stats.binomtest(5, 17, alternative="less").pvalue)))
