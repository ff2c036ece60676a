"""Estimators against a known answer: a 95 % interval must hold the truth in 93 to 97 of 100 simulated runs.

With 1,000 to 2,000 runs the share itself has a standard error of 0.5 to 0.7 %. Seeds are fixed.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from verism.statistics import (
    Interval,
    cluster_bootstrap,
    cluster_bootstrap_mean,
    clustered_proportion,
    confusion,
    mean_of_independent,
    paired_difference,
    rogan_gladen,
    wilson,
)

N_RUNS = 1_500


def coverage(intervals: Iterable[tuple[float, float]], truth: float) -> float:
    return float(np.mean([low <= truth <= high for low, high in intervals]))


def clusters_of(rng: np.random.Generator, n_clusters: int, largest: int) -> np.ndarray:
    """Cluster of each unit; every cluster has 1 .. largest units."""
    return np.repeat(np.arange(n_clusters), rng.integers(1, largest + 1, size=n_clusters))


def clustered_answers(rng: np.random.Generator, clusters: np.ndarray, p: float, correlation: float) -> np.ndarray:
    """0 or 1 per unit, with mean p, and this correlation between units of a cluster (beta-binomial)."""
    concentration = (1 - correlation) / correlation
    rates = rng.beta(p * concentration, (1 - p) * concentration, size=clusters[-1] + 1)
    return (rng.random(len(clusters)) < rates[clusters]).astype(float)


def ends(interval: Interval) -> tuple[float, float]:
    return interval.low, interval.high


@pytest.mark.parametrize(("n", "p"), [(200, 0.5), (300, 0.8), (600, 0.1), (50, 0.3)])
def test_wilson(n, p):
    successes = np.random.default_rng(0).binomial(n, p, size=N_RUNS)
    assert 0.93 <= coverage((ends(wilson(x, n)) for x in successes), p) <= 0.97


@pytest.mark.parametrize(
    ("n_clusters", "largest", "p", "correlation"),
    [
        (150, 5, 0.5, 0.3),
        (150, 5, 0.7, 0.3),
        (150, 5, 0.9, 0.3),
        (150, 5, 0.7, 0.05),
        (150, 5, 0.7, 0.8),
        (40, 4, 0.6, 0.3),
    ],
)
def test_clustered_proportion(n_clusters, largest, p, correlation):
    rng = np.random.default_rng(1)
    runs = []
    for _ in range(N_RUNS):
        clusters = clusters_of(rng, n_clusters, largest)
        runs.append(ends(clustered_proportion(clustered_answers(rng, clusters, p, correlation), clusters)))
    assert 0.93 <= coverage(runs, p) <= 0.97


@pytest.mark.parametrize(
    ("n_clusters", "p", "correlation"), [(150, 0.99, 0.7), (40, 0.97, 0.7), (5, 0.8, 0.3), (5, 0.8, 0.9)]
)
def test_clustered_proportion_near_one_and_with_few_clusters_is_at_worst_too_wide(n_clusters, p, correlation):
    # The design effect as Rao & Scott estimate it, with Korn & Graubard's degrees of freedom, holds the truth in only
    # 86 % of the runs of the first case.
    rng = np.random.default_rng(2)
    runs = []
    for _ in range(N_RUNS):
        clusters = clusters_of(rng, n_clusters, 5)
        runs.append(ends(clustered_proportion(clustered_answers(rng, clusters, p, correlation), clusters)))
    assert coverage(runs, p) >= 0.93


def test_ignoring_the_clusters_is_seen_to_fail():
    rng = np.random.default_rng(3)
    naive, naive_bootstrap = [], []
    for seed in range(N_RUNS):
        clusters = clusters_of(rng, 150, 5)
        values = clustered_answers(rng, clusters, 0.7, 0.3)
        naive.append(ends(wilson(values.sum(), len(values))))
        if seed < 300:
            single = cluster_bootstrap_mean(values, np.arange(len(values)), seed=seed, n_resamples=300)
            naive_bootstrap.append(ends(single))
    assert coverage(naive, 0.7) < 0.90
    assert coverage(naive_bootstrap, 0.7) < 0.90


@pytest.mark.parametrize("method", ["bca", "percentile"])
def test_cluster_bootstrap_mean(method):
    rng = np.random.default_rng(4)
    runs = []
    for seed in range(1_000):
        clusters = clusters_of(rng, 100, 4)
        values = clustered_answers(rng, clusters, 0.7, 0.3)
        runs.append(ends(cluster_bootstrap_mean(values, clusters, seed=seed, n_resamples=600, method=method)))
    assert 0.93 <= coverage(runs, 0.7) <= 0.97


GRADES = {
    "normal": (lambda rng, n: rng.normal(size=n), 0.0),
    "skewed cosines": (lambda rng, n: 0.33 - rng.gamma(2.0, 0.02, n), 0.29),
    "crowded near 1": (lambda rng, n: rng.beta(8.0, 1.5, n), 8.0 / 9.5),
}


@pytest.mark.parametrize("grades", GRADES)
@pytest.mark.parametrize("n", [10, 24])
def test_mean_of_grades_over_few_prompts_is_covered_where_the_bootstrap_alone_is_short(grades, n):
    draw, truth = GRADES[grades]
    rng = np.random.default_rng(5)
    found, alone = [], []
    for _ in range(500):
        values = draw(rng, n)
        found.append(ends(cluster_bootstrap_mean(values, np.arange(n), seed=rng, n_resamples=200)))
        resampled = values[rng.integers(0, n, (200, n))].mean(axis=1)
        low, high = np.quantile(resampled, [0.025, 0.975])
        alone.append((float(low), float(high)))
    assert 0.915 <= coverage(found, truth) <= 0.97
    assert coverage(alone, truth) < coverage(found, truth) - 0.01
    wider = np.mean(np.diff(found)) / np.mean(np.diff(alone))
    assert 1.0 < wider < 1.3


def test_cluster_bootstrap_of_a_statistic():
    rng = np.random.default_rng(5)
    runs = []

    def mean_gap(x, y):
        return x.mean() - y.mean()

    for seed in range(300):
        clusters = clusters_of(rng, 30, 3)
        shared = rng.normal(size=30)[clusters]
        x, y = 1 + shared + rng.normal(size=(2, len(clusters))) * [[1.0], [0.5]]
        y -= 0.5 * shared
        runs.append(ends(cluster_bootstrap(mean_gap, x, y, clusters=clusters, seed=seed, n_resamples=250)))
    assert 0.91 <= coverage(runs, 0.0) <= 0.98  # 300 runs: standard error 1.3 %


@pytest.mark.parametrize("rates", [(0.9, 0.6, 0.3), (0.99, 0.95, 0.97)])
def test_mean_of_three_skills(rates):
    rng = np.random.default_rng(6)
    sizes = (150, 300, 200)
    counts = rng.binomial(sizes, rates, size=(N_RUNS, 3))
    runs = [
        ends(mean_of_independent([wilson(x, n) for x, n in zip(row, sizes, strict=True)])) for row in counts.tolist()
    ]
    assert 0.93 <= coverage(runs, float(np.mean(rates))) <= 0.97


def answers_of_two_models(
    rng: np.random.Generator, clusters: np.ndarray, p_a: float, p_b: float
) -> tuple[np.ndarray, np.ndarray]:
    """Two models that find the same prompts hard, but also differ by prompt, right with these probabilities."""
    from scipy.special import ndtri

    n = clusters[-1] + 1
    shared, subset = rng.normal(size=n) * np.sqrt(0.4), rng.normal(size=(2, n)) * np.sqrt(0.3)
    noise = rng.normal(size=(2, len(clusters))) * np.sqrt(0.3)
    a, b = (shared + subset)[:, clusters] + noise < [[ndtri(p_a)], [ndtri(p_b)]]
    return a.astype(float), b.astype(float)


@pytest.mark.parametrize(
    ("n_clusters", "largest", "p_a", "p_b"), [(150, 5, 0.5, 0.6), (150, 5, 0.8, 0.83), (200, 1, 0.5, 0.55)]
)
def test_paired_difference_of_verdicts(n_clusters, largest, p_a, p_b):
    rng = np.random.default_rng(7)
    runs = []
    for _ in range(N_RUNS):
        clusters = clusters_of(rng, n_clusters, largest)
        result = paired_difference(*answers_of_two_models(rng, clusters, p_a, p_b), clusters, seed=0)
        runs.append((result.low, result.high))
    assert 0.93 <= coverage(runs, p_b - p_a) <= 0.97


@pytest.mark.parametrize("n_clusters", [8, 100])
def test_paired_difference_of_measurements(n_clusters):
    rng = np.random.default_rng(8)
    runs = []
    for _ in range(N_RUNS):
        clusters = clusters_of(rng, n_clusters, 4)
        a = rng.normal(size=len(clusters))
        b = a + 0.2 + 0.5 * rng.normal(size=n_clusters)[clusters] + 0.5 * rng.normal(size=len(clusters))
        result = paired_difference(a, b, clusters, seed=0, n_resamples=1)
        runs.append((result.low, result.high))
    assert 0.93 <= coverage(runs, 0.2) <= 0.97


@pytest.mark.parametrize("verdicts", [True, False], ids=["exact", "random sign patterns"])
def test_permutation_p_values_are_uniform_when_nothing_differs(verdicts):
    rng = np.random.default_rng(9)
    p_values = []
    for seed in range(N_RUNS):
        clusters = clusters_of(rng, 120, 4)
        if verdicts:
            a, b = answers_of_two_models(rng, clusters, 0.5, 0.5)
        else:
            a, b = rng.normal(size=120)[clusters] + rng.normal(size=(2, len(clusters)))
            b = b + rng.normal(size=120)[clusters] ** 3  # long tails: no t test would do
        p_values.append(paired_difference(a, b, clusters, seed=seed, n_resamples=199).p_value)
    # Standard errors 0.6 and 1.3 %. Exact p-values are discrete, hence a little below on average.
    assert np.mean(np.array(p_values) <= 0.05) == pytest.approx(0.05, abs=0.015)
    assert np.mean(np.array(p_values) <= 0.5) == pytest.approx(0.5, abs=0.035)


def test_permutation_without_clusters_is_seen_to_fail():
    rng = np.random.default_rng(10)
    p_values = []
    for seed in range(500):
        clusters = clusters_of(rng, 100, 5)
        a, b = answers_of_two_models(rng, clusters, 0.5, 0.5)
        p_values.append(paired_difference(a, b, np.arange(len(a)), seed=seed).p_value)
    assert np.mean(np.array(p_values) <= 0.05) > 0.09


@pytest.mark.parametrize(
    ("truth", "sensitivity", "specificity", "n_calibration"),
    [(0.6, 0.9, 0.8, 200), (0.1, 0.95, 0.93, 60), (0.8, 0.75, 0.7, 400)],
)
def test_rogan_gladen(truth, sensitivity, specificity, n_calibration):
    rng = np.random.default_rng(11)
    seen = truth * sensitivity + (1 - truth) * (1 - specificity)
    rights = rng.binomial(500, seen, size=N_RUNS)
    accepted = rng.binomial(n_calibration, sensitivity, size=N_RUNS)
    rejected = rng.binomial(n_calibration, specificity, size=N_RUNS)
    corrected, uncorrected = [], []
    for right, hit, reject in zip(rights, accepted, rejected, strict=True):
        rate = wilson(right, 500)
        result = rogan_gladen(rate, wilson(hit, n_calibration), wilson(reject, n_calibration))
        corrected.append((result.low, result.high))
        uncorrected.append(ends(rate))
    assert 0.93 <= coverage(corrected, truth) <= 0.97
    assert coverage(uncorrected, truth) < 0.90


def test_rogan_gladen_from_a_confusion_of_images():
    rng = np.random.default_rng(12)
    runs = []
    for _ in range(N_RUNS):
        truth, answer = rng.random(300) < 0.5, rng.random((2, 700))
        judged = np.where(truth, answer[0, :300] < 0.9, answer[0, :300] < 0.15)
        of_run = rng.random(400) < 0.4
        judged_run = np.where(of_run, answer[1, :400] < 0.9, answer[1, :400] < 0.15)
        known = confusion(truth, judged)
        result = rogan_gladen(wilson(judged_run.sum(), 400), known.sensitivity, known.specificity)
        runs.append((result.low, result.high))
    assert 0.93 <= coverage(runs, 0.4) <= 0.97
