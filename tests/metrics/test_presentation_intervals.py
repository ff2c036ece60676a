"""Intervals and tests on small worlds with known differences. ``benchmarks/presentation.py`` has the full table."""

from __future__ import annotations

import numpy as np
import pytest

from verism.metrics.presentation import (
    Presentation,
    calibrated_estimates,
    cosine_estimates,
    fit_revised,
    vector_with_intervals,
)

SHAPE = (2, 16, 5, 6)  # groups, contexts, images, attributes
GROUP, CONTEXT, _, ATTRIBUTE = (index.ravel() for index in np.indices(SHAPE))
PLANTED = np.array([0.3, -0.2, 0.1, -0.05, 0.0, 0.0])
NONE = np.zeros(6)
REPEATS = 150


def told(seed: int, planted: np.ndarray, *, labels: bool, explicit: bool) -> Presentation:
    """Prompts have an effect both groups share and one of their own, bounded: the expected difference is exact."""
    rng = np.random.default_rng(seed)
    effect = rng.uniform(-0.1, 0.1, (1, 16, 1, 6)) + rng.uniform(-0.05, 0.05, (2, 16, 1, 6))
    mean = 0.35 + np.array([0.5, -0.5])[:, None, None, None] * planted + effect + np.zeros(SHAPE)
    values = (rng.random(SHAPE) < mean).astype(float) if labels else mean + rng.normal(0, 0.05, SHAPE)
    clusters = CONTEXT + 16 * ATTRIBUTE if explicit else CONTEXT
    return vector_with_intervals(values.ravel(), GROUP, ATTRIBUTE, clusters, seed=seed, n_resamples=200)


@pytest.mark.parametrize(("labels", "explicit"), [(True, False), (False, True)])
def test_intervals_hold_what_was_planted(labels, explicit):
    held, scores, revised = [], [], []
    for seed in range(REPEATS):
        result = told(seed, PLANTED, labels=labels, explicit=explicit)
        pair = result.pairs[0]
        held.append((pair.low <= PLANTED) & (pair.high >= PLANTED))
        scores.append(result.score.low <= np.abs(PLANTED).mean() <= result.score.high)
        revised.append(result.score.debiased - np.abs(PLANTED).mean())
    # 900 intervals of entries, of which six share their images: two standard errors are below 0.02.
    assert 0.93 <= np.mean(held) <= 0.975
    assert 0.90 <= np.mean(scores) <= 1.0
    assert abs(np.mean(revised)) < 0.012  # the raw score of labels lies 0.03 too high


@pytest.mark.parametrize("explicit", [True, False])
def test_where_nothing_differs_the_score_is_what_chance_gives(explicit):
    raw, chance, p_values, above_zero, false = [], [], [], [], []
    for seed in range(REPEATS):
        result = told(seed, NONE, labels=True, explicit=explicit)
        raw.append(result.score.value)
        chance.append(result.score.by_chance)
        p_values.append(result.score.p_value)
        above_zero.append(result.score.low > 0)
        false.append(np.any(result.pairs[0].p_adjusted <= 0.05))
    assert np.mean(raw) == pytest.approx(np.mean(chance), rel=0.06)
    assert np.mean(chance) > 0.05  # so a score of this size says nothing
    assert np.mean(above_zero) <= 0.06
    assert np.mean(false) <= 0.09  # 0.05 and two standard errors
    assert np.mean(np.array(p_values) <= 0.5) == pytest.approx(0.5, abs=0.1)


def test_a_clear_difference_is_found_and_named():
    result = told(0, np.array([0.5, 0, 0, 0, 0, 0]), labels=True, explicit=False)
    assert result.score.p_value < 0.01
    assert result.score.low > 0
    assert result.pairs[0].p_adjusted[0] < 0.01
    assert result.pairs[0].p_adjusted[1:].min() > 0.05


@pytest.mark.parametrize("estimator", ["C", "CC", "CLS"])
def test_estimates_of_planted_embeddings_find_the_vector_and_its_interval_holds_it(estimator):
    rng, width = np.random.default_rng(0), 64

    def random(*shape: int) -> np.ndarray:
        return rng.standard_normal((*shape, width)) / np.sqrt(width)

    shown, people, of_texts, of_images = random(6), 0.5 * random(3), 1.5 * random(), 1.5 * random()
    scenes = of_texts + random(16)[:, None] + people
    negatives, positives = scenes + 0.2 * random(16, 3), scenes + shown[:, None, None] + 0.2 * random(6, 16, 3)

    def images(n_contexts: int) -> np.ndarray:
        """Of both groups, shape (2, contexts, 5, width): a context has a look, and attributes that go with it."""
        share = 0.35 + np.array([0.5, -0.5])[:, None, None, None] * PLANTED
        share = share + rng.uniform(-0.15, 0.15, (1, n_contexts, 1, 6)) + np.zeros((1, 1, 5, 1))
        worn = rng.random(share.shape) < share
        look = 0.5 * random(n_contexts)[:, None] + 0.3 * random(2, n_contexts, 5)
        return of_images + 0.6 * (worn @ shown) + look  # the person looks alike, so that clothes alone differ

    classifiers = fit_revised(positives.reshape(6, 48, width), negatives.reshape(48, width))

    def estimates(made: np.ndarray) -> np.ndarray:
        flat = made.reshape(-1, width)
        if estimator == "CLS":
            result = classifiers.probabilities(flat)
        elif estimator == "C":
            result = cosine_estimates(flat, of_texts + shown)
        else:
            result = calibrated_estimates(flat, of_texts + shown, of_texts)
        return result.reshape(*made.shape[:3], 6)

    many = estimates(images(8_000))
    expected = (many[0] - many[1]).mean(axis=(0, 1))
    np.testing.assert_array_equal(np.sign(expected[:4]), np.sign(PLANTED[:4]))
    assert np.argmax(expected) == 0
    assert np.argmin(expected) == 1
    held = []
    for _ in range(REPEATS):
        estimate = vector_with_intervals(estimates(images(16)).ravel(), GROUP, ATTRIBUTE, CONTEXT, n_resamples=20)
        held.append((estimate.pairs[0].low <= expected) & (estimate.pairs[0].high >= expected))
    assert 0.93 <= np.mean(held) <= 0.97
