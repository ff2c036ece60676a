"""Prediction-powered inference: by hand, against its source's formulas, and its coverage on simulated judges."""

from __future__ import annotations

import math

import numpy as np
import pytest

from verism.statistics.intervals import clustered_proportion, wilson
from verism.statistics.prediction_powered import LabelledMean, labels_needed, ppi_mean, ppi_sum

NAN = math.nan


def test_by_hand():
    # Four images, judged 1 1 1 0; people saw the first and the last: 0 and 0. With lam = 1: 3/4 + mean(-1, 0) = 1/4.
    result = ppi_mean([1, 1, 1, 0], [0, NAN, NAN, 0], tune=False)
    assert result.as_judged == pytest.approx(0.75)
    assert result.value == pytest.approx(0.25)
    assert (result.n_labels, result.lam) == (2, 1.0)
    assert result.labels_only.value == pytest.approx(0.0)


def test_weights_coefficients_and_inclusion_by_hand():
    # Weighted judged mean (2*1 + 1*0 + 1*1) / 4 = 3/4; labels on 0 and 1, weights 2:1: (2*0 + 1*0)/3 - (2*1 + 0)/3.
    result = ppi_mean([1, 0, 1], [0, 0, NAN], weights=[2, 1, 1], tune=False)
    assert result.value == pytest.approx(3 / 4 - 2 / 3)
    # An image labelled with half the chance stands for twice as many: weights 4:1.
    result = ppi_mean([1, 0, 1], [0, 0, NAN], weights=[2, 1, 1], inclusion=[0.5, 1, 1], tune=False)
    assert result.value == pytest.approx(3 / 4 - 4 / 5)
    parts = [LabelledMean([1, 1, 0], [1, 1, NAN]), LabelledMean([1, 0, 0], [0, 0, NAN], coefficient=-1)]
    # (2/3 + 0) - (1/3 - 1/2)
    assert ppi_sum(parts, tune=False).value == pytest.approx(2 / 3 + 1 / 6)
    assert ppi_sum(parts, tune=False).as_judged == pytest.approx(1 / 3)


def test_with_every_image_labelled_the_judge_does_not_matter():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 60).astype(float)
    for judged in (truth, 1 - truth, rng.integers(0, 2, 60)):
        assert ppi_mean(judged, truth, tune=False).value == pytest.approx(truth.mean())
        assert ppi_mean(judged, truth).value == pytest.approx(truth.mean())


def test_without_clusters_and_ties_of_samples_the_variance_is_the_published_one():
    # Science 382:669, eq. for the mean: var(f)/N + var(y - f)/n, for labelled images that are few among all.
    rng = np.random.default_rng(1)
    n, many = 400, 100_000
    judged = rng.normal(0, 2, many)
    truth = np.full(many, NAN)
    truth[:n] = judged[:n] + rng.normal(0.5, 1, n)
    result = ppi_mean(judged, truth, tune=False)
    published = math.sqrt(judged.var() / many + (truth[:n] - judged[:n]).var() / n)
    assert (result.high - result.low) / 2 == pytest.approx(1.96 * published, rel=0.03)


def test_a_useless_judge_is_not_listened_to_and_a_perfect_one_is():
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 2, 2000).astype(float)
    seen = np.where(np.arange(2000) < 150, truth, NAN)
    noise = ppi_mean(rng.integers(0, 2, 2000), seen)
    assert noise.lam < 0.2
    assert noise.high - noise.low < 1.02 * (noise.labels_only.high - noise.labels_only.low)
    perfect = ppi_mean(truth, seen)
    assert perfect.lam > 0.9
    assert perfect.effective_n > 5 * perfect.n_labels
    assert perfect.high > perfect.low  # no disagreement seen is not no disagreement


@pytest.mark.parametrize("answer", [0.1, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("n", [10, 37, 100])
def test_a_judge_that_always_says_the_same_is_not_trusted(answer, n):
    rng = np.random.default_rng(0)  # weights whose sum is 1 but for rounding
    seen = np.where(np.arange(n) < n // 2, rng.integers(0, 2, n).astype(float), NAN)
    result = ppi_mean([answer] * n, seen, weights=rng.random(n))
    assert result.lam == 0
    assert result.value == result.labels_only.value


def test_order_and_names_of_clusters_do_not_matter():
    rng = np.random.default_rng(3)
    judged, clusters = rng.random(90), np.repeat(np.arange(30), 3)
    truth = np.where(rng.random(90) < 0.4, judged + rng.normal(0, 0.1, 90), NAN)
    order = rng.permutation(90)
    one = ppi_mean(judged, truth, clusters=clusters)
    other = ppi_mean(judged[order], truth[order], clusters=np.array([f"p{c}" for c in clusters])[order])
    assert other.value == pytest.approx(one.value, abs=1e-12)
    assert (other.low, other.high) == pytest.approx((one.low, one.high), abs=1e-12)


def test_a_prompt_in_both_groups_of_a_difference_counts_once():
    # The same prompts in both groups with the same deviations: the difference is known exactly but for the padding.
    rng = np.random.default_rng(4)
    level = np.repeat(rng.normal(0, 1, 40), 2)
    clusters = np.repeat(np.arange(40), 2)
    first = LabelledMean(level, level + 1.0, clusters=clusters)
    second = LabelledMean(level, level, clusters=clusters, coefficient=-1)
    apart = LabelledMean(level, level, clusters=clusters + 1000, coefficient=-1)
    together, independent = ppi_sum([first, second]), ppi_sum([first, apart])
    assert together.value == independent.value == pytest.approx(1.0)
    assert together.high - together.low < 0.5 * (independent.high - independent.low)


def test_what_cannot_be_told_is_nan_with_the_reason():
    for truth in ([NAN, NAN, NAN], [1, NAN, NAN]):
        result = ppi_mean([1, 0, 1], truth)
        assert math.isnan(result.value)
        assert math.isnan(result.low)
        assert "ask people" in result.note
        assert result.as_judged == pytest.approx(2 / 3)
    one_cluster = ppi_mean([1, 0, 1], [1, 0, NAN], clusters=["a", "a", "b"])
    assert math.isnan(one_cluster.value)
    no_labels_in_one = ppi_sum([LabelledMean([1, 0], [1, 0]), LabelledMean([1, 0], [NAN, NAN])])
    assert math.isnan(no_labels_in_one.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ppi_mean([1, 0], [1]), "truth"),
        (lambda: ppi_mean([1, NAN], [1, 1]), "judged"),
        (lambda: ppi_mean([1, 0], [1, 1], weights=[1, -1]), "weights"),
        (lambda: ppi_mean([1, 0], [1, 1], inclusion=[1, 0]), "inclusion"),
        (lambda: ppi_mean([1, 0], [1, 1], clusters=["a"]), "clusters"),
        (lambda: ppi_mean([1, 0], [1, 1], confidence=1.0), "confidence"),
        (lambda: ppi_sum([]), "one part"),
        (lambda: labels_needed(0, n_images=10, sd=0.5), "half_width"),
    ],
)
def test_input_that_cannot_be_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# ---------------------------------------------------------------------------------------------------------- simulation
def simulated(rng, share, sensitivity, specificity, *, prompts=120, each=4, labels=120):
    """Images of prompts that differ (Beta, intraclass correlation 0.2), a judge that errs, labels on some."""
    chance = rng.beta(share * 4, (1 - share) * 4, prompts)
    truth = (rng.random((prompts, each)) < chance[:, None]).ravel()
    u = rng.random(truth.size)
    judged = np.where(truth, u < sensitivity, u > specificity).astype(float)
    seen = np.full(truth.size, NAN)
    chosen = rng.choice(truth.size, labels, replace=False)
    seen[chosen] = truth[chosen]
    return judged, seen, np.repeat(np.arange(prompts), each)


@pytest.mark.parametrize(
    ("share", "sensitivity", "specificity"),
    [(0.5, 0.9, 0.9), (0.3, 0.95, 0.7), (0.3, 0.8, 0.8), (0.15, 0.99, 0.85), (0.5, 0.5, 0.5)],
)
def test_intervals_cover_the_truth_for_biased_and_unbiased_judges(share, sensitivity, specificity):
    rng = np.random.default_rng(int(1000 * share + 10 * sensitivity))
    runs, covered, naive, ratio = 400, 0, 0, []
    for _ in range(runs):
        judged, seen, clusters = simulated(rng, share, sensitivity, specificity)
        result = ppi_mean(judged, seen, clusters=clusters, bounds=(0, 1))
        covered += result.low <= share <= result.high
        means = judged.reshape(-1, 4).mean(axis=1)
        naive += abs(means.mean() - share) < 1.96 * means.std(ddof=1) / math.sqrt(len(means))
        ratio.append((result.high - result.low) / (result.labels_only.high - result.labels_only.low))
    # 95 % of 400 runs, within 3 standard errors of the simulation (1.1 points each) of the range 93 to 97 %.
    assert 0.93 - 0.033 <= covered / runs <= 0.97 + 0.027
    assert np.mean(ratio) < 1.01  # no wider than people's answers alone
    bias = share * sensitivity + (1 - share) * (1 - specificity) - share
    if abs(bias) > 0.05:
        assert naive / runs < 0.5  # where the judge's own interval fails


def test_a_difference_of_groups_is_covered_where_the_judge_is_worse_for_one():
    rng = np.random.default_rng(9)
    covered = naive = 0
    for _ in range(300):
        parts, means = [], []
        for coefficient, share, rates in ((1, 0.4, (0.95, 0.95)), (-1, 0.4, (0.6, 0.95))):
            judged, seen, clusters = simulated(rng, share, *rates, labels=100)
            names = np.char.add(f"{coefficient}/", clusters.astype(str))
            parts.append(LabelledMean(judged, seen, clusters=names, coefficient=coefficient))
            means.append(judged.reshape(-1, 4).mean(axis=1))
        result = ppi_sum(parts, bounds=(-1, 1))
        covered += result.low <= 0.0 <= result.high
        error = math.sqrt(sum(m.var(ddof=1) / len(m) for m in means))
        naive += abs(means[0].mean() - means[1].mean()) < 1.96 * error
    assert 0.91 <= covered / 300 <= 0.99
    assert naive / 300 < 0.9


# -------------------------------------------------------------------------------------------------------------- planner
def test_labels_needed_by_hand_and_at_the_ends():
    # Labels alone: (1.96 * 0.5 / 0.05)^2 = 384.2
    assert labels_needed(0.05, n_images=10**9, sd=0.5) == 385
    # A judge with r = 0.8 among very many images leaves 1 - 0.64 of the variance.
    assert labels_needed(0.05, n_images=10**9, sd=0.5, correlation=0.8) == math.ceil(0.36 * 384.146)
    assert labels_needed(0.05, n_images=10**9, sd=0.5, design_effect=2.0) == 769
    assert labels_needed(0.05, n_images=300, sd=0.5) is None  # more than there are
    assert labels_needed(0.05, n_images=384, sd=0.5, correlation=0.99) is None  # all images are too few
    assert labels_needed(10.0, n_images=100, sd=0.5) == 2


def test_the_interval_is_about_as_wide_as_planned():
    rng = np.random.default_rng(11)
    widths = []
    n = labels_needed(0.06, n_images=2000, sd=0.5, correlation=0.8)
    for _ in range(40):
        truth = rng.integers(0, 2, 2000)
        judged = np.where(rng.random(2000) < 0.9, truth, 1 - truth)  # correlation 0.8
        seen = np.full(2000, NAN)
        seen[:n] = truth[:n]
        result = ppi_mean(judged, seen)
        widths.append((result.high - result.low) / 2)
    assert np.mean(widths) == pytest.approx(0.06, rel=0.08)


# ----------------------------------------------------------------------------------- few prompts, a share near an end
def test_labels_alone_have_the_interval_of_a_clustered_proportion():
    rng = np.random.default_rng(8)
    truth = (rng.random(72) < 0.9).astype(float)
    clusters = np.repeat(np.arange(12), 6)
    expected = clustered_proportion(truth, clusters)
    result = ppi_mean(np.zeros(72), truth, clusters=clusters, bounds=(0, 1)).labels_only

    assert (result.value, result.low, result.high) == pytest.approx(tuple(expected), abs=1e-12)


def test_unanimous_labels_of_few_prompts_weigh_prompts_and_not_images():
    # Six prompts of nine images, all right: as much as six images that are all right, and not as 54.
    clusters = np.repeat(np.arange(84), 9)
    labelled = clusters < 6
    result = ppi_mean(np.ones(756), np.where(labelled, 1.0, NAN), clusters=clusters, bounds=(0, 1))

    assert result.value == 1.0
    assert result.low == pytest.approx(wilson(6, 6).low, abs=0.02)
    assert result.low < wilson(54, 54).low - 0.2


def test_interval_of_one_value_only_is_no_point():
    result = ppi_mean([1.0] * 20, [1.0] * 5 + [NAN] * 15, bounds=(0, 1))

    assert result.low < 0.7 < result.high == 1.0


def test_mean_of_values_of_more_than_two_kinds_is_symmetric():
    rng = np.random.default_rng(9)
    judged = rng.normal(5, 2, 60)
    result = ppi_mean(judged, np.where(np.arange(60) < 20, judged + rng.normal(0, 0.5, 60), NAN))

    assert result.high - result.value == pytest.approx(result.value - result.low)


def whole_prompts(rng, share, *, labelled, prompts=84, each=9, icc=1 / 3, by_prompt=0.0):
    """Whole prompts labelled; the judge errs in one image of ten, or in all images of a prompt together."""
    size = (1 - icc) / icc
    chance = rng.beta(share * size, (1 - share) * size, prompts)
    clusters = np.repeat(np.arange(prompts), each)
    truth = (rng.random(prompts * each) < chance[clusters]).astype(float)
    wrong = rng.random(truth.size) < 0.1 if not by_prompt else (rng.random(prompts) < by_prompt)[clusters]
    asked = np.isin(clusters, rng.choice(prompts, labelled, replace=False))
    return np.where(wrong, 1 - truth, truth), np.where(asked, truth, NAN), clusters


@pytest.mark.parametrize(
    ("share", "labelled", "by_prompt", "widest"),
    [
        (0.9, 6, 0.0, 0.45),
        (0.9, 12, 0.0, 0.26),
        (0.9, 20, 0.0, 0.18),
        (0.9, 40, 0.0, 0.12),
        (0.97, 12, 0.0, 0.27),
        (0.97, 20, 0.0, 0.18),
        (0.5, 20, 0.0, 0.22),
        (0.1, 12, 0.0, 0.26),
        (0.8, 12, 0.1, 0.35),
    ],
)
def test_intervals_of_few_labelled_prompts_hold_and_are_not_wasteful(share, labelled, by_prompt, widest):
    rng = np.random.default_rng([2026, int(100 * share), labelled, int(100 * by_prompt)])
    held, width, runs = 0, 0.0, 300
    for _ in range(runs):
        judged, truth, clusters = whole_prompts(rng, share, labelled=labelled, by_prompt=by_prompt)
        result = ppi_mean(judged, truth, clusters=clusters, bounds=(0, 1))
        held += result.low <= share <= result.high
        width += (result.high - result.low) / runs
    assert held / runs >= 0.93 - 2 * math.sqrt(0.93 * 0.07 / runs)
    assert width < widest
