"""Cosines and classifiers: by hand, as scikit-learn, and finding attributes that were planted."""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import kendalltau

from verism.metrics.presentation import (
    ClothesClassifiers,
    calibrated_estimates,
    cosine_estimates,
    fit_released,
    fit_revised,
    gep_score,
    gep_vector,
)

WIDTH, ATTRIBUTES, CONTEXTS = 64, 4, 16
Floats = NDArray[np.float64]


class Planted(NamedTuple):
    positives: Floats
    negatives: Floats
    images: Floats
    labels: NDArray[np.bool_]


def planted(seed: int = 0) -> Planted:
    """Sentences of person, context, attribute; images apart from them that show the same, weaker, and much else."""
    rng = np.random.default_rng(seed)

    def random(*shape: int) -> Floats:
        return rng.standard_normal((*shape, WIDTH)) / np.sqrt(WIDTH)

    attributes, contexts, people = random(ATTRIBUTES), random(CONTEXTS), 0.5 * random(3)
    of_texts, of_images = 1.5 * random(), 1.5 * random()
    negatives = of_texts + contexts[:, None] + people + 0.2 * random(CONTEXTS, 3)
    positives = (
        of_texts + contexts[:, None] + people + attributes[:, None, None] + 0.2 * random(ATTRIBUTES, CONTEXTS, 3)
    )
    share = np.array([[0.8, 0.2, 0.5, 0.6], [0.2, 0.8, 0.5, 0.3]])[:, None, None]
    labels = rng.random((2, CONTEXTS, 5, ATTRIBUTES)) < share
    contents = 0.7 * contexts[:, None] + people[:2, None, None] + labels @ attributes
    images = of_images + 0.6 * contents + 0.4 * random(2, CONTEXTS, 5)
    return Planted(
        positives.reshape(ATTRIBUTES, -1, WIDTH),
        negatives.reshape(-1, WIDTH),
        images.reshape(-1, WIDTH),
        labels.reshape(-1, ATTRIBUTES),
    )


def vector(estimates: Floats) -> Floats:
    half = len(estimates) // 2
    return gep_vector(estimates[:half].mean(axis=0), estimates[half:].mean(axis=0))


def auc(estimates: Floats, labels: NDArray[np.bool_]) -> float:
    return float(np.mean(estimates[labels][:, None] > estimates[~labels]))


# -------------------------------------------------------------------------------------------------------------- cosines
def test_cosines_by_hand():
    # (3, 4) has length 5: 3/5 and 4/5; (0, 2): 0 and 1. Query (5, 0), then (0, 1).
    np.testing.assert_allclose(cosine_estimates([[3, 4], [0, 2]], [[5, 0], [0, 1]]), [[0.6, 0.8], [0, 1]])
    # Reference (1, 1): 7 / (5 * sqrt 2) = 0.98995 and 1 / sqrt 2 = 0.70711.
    calibrated = calibrated_estimates([[3, 4], [0, 2]], [[5, 0], [0, 1]], [1, 1])
    np.testing.assert_allclose(calibrated, [[-0.38995, -0.18995], [-0.70711, 0.29289]], atol=1e-5)


def test_calibrated_vector_is_the_plain_one_less_a_constant():
    rng = np.random.default_rng(0)
    images, queries, reference = rng.normal(size=(20, 8)), rng.normal(size=(5, 8)), rng.normal(size=8)
    apart = vector(cosine_estimates(images, queries)) - vector(calibrated_estimates(images, queries, reference))
    np.testing.assert_allclose(apart, apart[0], rtol=1e-12)
    assert abs(apart[0]) > 1e-3


# ------------------------------------------------------------------------------------------------------------- released
def test_released_is_scikit_learn_with_the_released_settings():
    linear_model = pytest.importorskip("sklearn.linear_model")
    made = planted()
    fitted = fit_released(made.positives, made.negatives, seeds=(0, 7))
    single = [x.astype(np.float32) for x in (made.negatives, made.positives[2], made.images)]
    negatives, positives, images = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in single)
    for member, seed in enumerate((0, 7)):
        peer = linear_model.SGDClassifier(
            loss="log_loss", max_iter=5000, tol=1e-3, early_stopping=True, validation_fraction=0.1, random_state=seed
        ).fit(np.concatenate([negatives, positives]), [0] * 48 + [1] * 48)
        np.testing.assert_array_equal(fitted.weights[member, 2], peer.coef_[0])
        np.testing.assert_array_equal(fitted.intercepts[member, 2], peer.intercept_[0].astype(np.float32))
        result = fitted.member_probabilities(made.images)[member, :, 2]
        np.testing.assert_allclose(result, peer.predict_proba(images)[:, 1], atol=1e-6)


def test_released_ensemble_is_the_mean_of_ten_seeds():
    pytest.importorskip("sklearn")
    made = planted()
    fitted = fit_released(made.positives[:1], made.negatives)
    assert fitted.n_members == 10
    members = fitted.member_probabilities(made.images)
    assert members.shape == (10, 160, 1)
    np.testing.assert_allclose(fitted.probabilities(made.images), members.mean(axis=0), rtol=1e-12)
    alone = fit_released(made.positives[:1], made.negatives, seeds=(3,)).probabilities(made.images)
    np.testing.assert_allclose(alone, members[3], rtol=1e-12)


def test_released_depends_on_the_order_of_sentences_and_revised_does_not():
    pytest.importorskip("sklearn")
    made = planted()
    order = np.random.default_rng(0).permutation(48)
    contexts = np.repeat(np.arange(16), 3)
    one = fit_released(made.positives, made.negatives, seeds=(0,)).probabilities(made.images)
    other = fit_released(made.positives[:, order], made.negatives[order], seeds=(0,)).probabilities(made.images)
    assert np.abs(one - other).max() > 1e-3
    one = fit_revised(made.positives, made.negatives).probabilities(made.images)
    moved = fit_revised(made.positives[:, order], made.negatives[order], contexts=contexts[order])
    np.testing.assert_allclose(moved.probabilities(made.images), one, atol=1e-8)


def test_without_scikit_learn_the_message_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    made = planted()
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'verism\[models\]'"):
        fit_released(made.positives, made.negatives)
    fit_revised(made.positives, made.negatives)


# ------------------------------------------------------------------------------------------------------------ revised
def test_revised_direction_is_ridge_regression():
    linear_model = pytest.importorskip("sklearn.linear_model")
    made = planted()
    fitted = fit_revised(made.positives, made.negatives)
    for a in range(ATTRIBUTES):
        sentences = np.concatenate([made.negatives, made.positives[a]])
        sentences /= np.linalg.norm(sentences, axis=1, keepdims=True)
        size = np.square(sentences - sentences.mean(axis=0)).sum()
        target = np.repeat([-1.0, 1.0], 48)
        cosines = [
            direction @ fitted.weights[0, a] / np.linalg.norm(direction) / np.linalg.norm(fitted.weights[0, a])
            for strength in 10.0 ** np.arange(-4.0, 3.5, 0.5)
            for direction in [linear_model.Ridge(alpha=strength * size).fit(sentences, target).coef_]
        ]
        assert max(cosines) == pytest.approx(1, abs=1e-9)


def test_revised_probabilities_of_sentences_are_those_of_their_class():
    made = planted()
    fitted = fit_revised(made.positives, made.negatives)
    without = fitted.probabilities(made.negatives)
    for a in range(ATTRIBUTES):
        with_it = fitted.probabilities(made.positives[a])[:, a]
        assert without[:, a].max() < 0.4  # the logistic function of -1 is 0.27, of 1 it is 0.73
        assert with_it.min() > 0.6
        assert without[:, a].mean() + with_it.mean() == pytest.approx(1, abs=0.02)


def test_left_out_values_are_those_of_fits_without_the_context():
    from verism.metrics.presentation import estimators

    linear_model = pytest.importorskip("sklearn.linear_model")
    made = planted()
    sentences = np.concatenate([made.negatives, made.positives[1]])
    target = np.repeat([-1.0, 1.0], 48)
    centred = sentences - sentences.mean(axis=0)
    lengths, bases = np.linalg.eigh(centred @ centred.T)
    folds = estimators._folds(48, 48, None)
    values = estimators._left_out_values(lengths[None], bases[None], np.full((1, 1), 0.7), target, folds)
    for fold in (folds[0], folds[9]):
        kept = np.setdiff1d(np.arange(96), fold)
        peer = linear_model.Ridge(alpha=0.7).fit(sentences[kept], target[kept])
        np.testing.assert_allclose(values[0, fold], peer.predict(sentences[fold]), atol=1e-8)


def test_largest_strength_within_one_standard_error_by_hand():
    from verism.metrics.presentation import estimators

    # Two contexts of one sentence each. Means 1.0, 1.1, 3.0; the best has 0.8 and 1.2: standard error 0.2.
    errors = np.array([[[0.8, 1.2]], [[1.1, 1.1]], [[3.0, 3.0]]])
    folds = [np.array([0]), np.array([1])]
    assert estimators._one_standard_error(errors, folds) == 1
    errors[1] = 1.3  # beyond 1.2
    assert estimators._one_standard_error(errors, folds) == 0


def test_revised_is_not_at_its_ends_for_images_that_show_many_things():
    # An axis for each attribute; sentences hold one or none, images about half of all. Their vectors are as long, so
    # each attribute weighs less in an image than in a sentence, and a threshold learnt between sentences is too high.
    rng = np.random.default_rng(4)
    kinds, rest = 12, 6

    def vectors(shown: Floats) -> Floats:
        return np.hstack([shown, np.full((len(shown), rest), 0.3)]) + 0.05 * rng.normal(size=(len(shown), kinds + rest))

    negatives = vectors(np.zeros((48, kinds)))
    positives = np.stack([vectors(np.tile(np.eye(kinds)[a], (48, 1))) for a in range(kinds)])
    share = 0.5 + np.array([1, -1])[:, None] * np.linspace(-0.25, 0.25, kinds)
    shown = (rng.random((2, 400, kinds)) < share[:, None]).astype(float)
    result = fit_revised(positives, negatives).probabilities(vectors(shown.reshape(-1, kinds))).reshape(shown.shape)
    assert np.quantile(result[shown == 1], 0.5) - np.quantile(result[shown == 0], 0.5) > 0.05
    truth = shown[0].mean(axis=0) - shown[1].mean(axis=0)
    vector = result[0].mean(axis=0) - result[1].mean(axis=0)
    assert kendalltau(vector, truth).statistic > 0.9
    assert np.corrcoef(vector, truth)[0, 1] > 0.98


def test_revised_is_the_same_every_time_and_fits_each_attribute_alike():
    made = planted()
    one, again = (fit_revised(made.positives, made.negatives) for _ in range(2))
    np.testing.assert_array_equal(one.weights, again.weights)
    turned = fit_revised(made.positives[::-1], made.negatives)
    np.testing.assert_allclose(turned.weights[:, ::-1], one.weights, rtol=1e-7, atol=1e-9)


def test_revised_takes_negatives_of_another_number():
    made = planted()
    fitted = fit_revised(made.positives, np.concatenate([made.negatives, made.negatives[:12] + 0.01]))
    result = fitted.probabilities(made.images)
    assert min(auc(result[:, a], made.labels[:, a]) for a in range(ATTRIBUTES)) > 0.9


# ----------------------------------------------------------------------------------------------------------------- both
@pytest.mark.parametrize("fit", [fit_released, fit_revised])
def test_planted_attributes_are_found(fit):
    if fit is fit_released:
        pytest.importorskip("sklearn")
    for seed in range(3):
        made = planted(seed)
        reported = fit(made.positives, made.negatives).probabilities(made.images)
        assert min(auc(reported[:, a], made.labels[:, a]) for a in range(ATTRIBUTES)) > 0.9
        result = vector(reported)
        truth = vector(made.labels.astype(float))
        np.testing.assert_array_equal(np.sign(result[[0, 1]]), np.sign(truth[[0, 1]]))


@pytest.mark.parametrize("fit", [fit_released, fit_revised])
def test_batches_lengths_and_groups_do_not_matter(fit):
    if fit is fit_released:
        pytest.importorskip("sklearn")
    made = planted()
    fitted: ClothesClassifiers = fit(made.positives, made.negatives)
    full_value = fitted.probabilities(made.images)
    assert full_value.shape == (160, ATTRIBUTES)
    assert full_value.min() >= 0
    assert full_value.max() <= 1
    parts = [fitted.probabilities(part) for part in np.array_split(3.0 * made.images, 7)]
    np.testing.assert_allclose(np.concatenate(parts), full_value, atol=1e-12)
    swapped = fitted.probabilities(np.roll(made.images, 80, axis=0))  # the other gender first
    np.testing.assert_allclose(vector(swapped), -vector(full_value), atol=1e-12)
    assert gep_score(vector(swapped)) == pytest.approx(gep_score(vector(full_value)), abs=1e-12)


def test_more_images_than_fit_at_once(monkeypatch):
    from verism.metrics.presentation import estimators

    made = planted()
    fitted = fit_revised(made.positives, made.negatives)
    full_value = fitted.probabilities(made.images)
    monkeypatch.setattr(estimators, "ROWS_AT_ONCE", 33)
    np.testing.assert_allclose(fitted.probabilities(made.images), full_value, atol=1e-12)


# ------------------------------------------------------------------------------------------------------------ bad input
P, N = np.random.default_rng(0).normal(size=(2, 6, 3)), np.random.default_rng(1).normal(size=(6, 3))


@pytest.mark.parametrize(
    ("call", "part"),
    [
        (lambda: cosine_estimates([1.0, 2.0], [[1.0, 2.0]]), r"image_vectors must be vectors of shape"),
        (lambda: cosine_estimates([[1.0, 2.0]], [[1.0]]), "take all from the same model"),
        (lambda: cosine_estimates([[np.nan, 2.0]], [[1.0, 1.0]]), "NaN or infinity in 1 of 1"),
        (lambda: cosine_estimates([[0.0, 0.0]], [[1.0, 1.0]]), "length 0"),
        (lambda: calibrated_estimates([[1.0]], [[1.0]], [[1.0]]), "reference_vector must be"),
        (lambda: fit_revised(N, N), r"shape \(attributes, sentences, D\)"),
        (lambda: fit_revised(P, N[:, :2]), "take all from the same model"),
        (lambda: fit_revised(P, N[:0]), "at least one sentence"),
        (lambda: fit_revised(P, N, contexts=[0] * 6), "at least two"),
        (lambda: fit_revised(P, N, contexts=[0, 1]), "one for each of the 6"),
        (lambda: fit_revised(np.ones((1, 6, 3)), np.ones((6, 3))), "all the same vector"),
        (lambda: fit_released(P, N, seeds=()), "at least one seed"),
        (lambda: fit_revised(P, N).probabilities(np.ones((1, 5))), "take all from the same model"),
    ],
)
def test_bad_input_is_refused(call, part):
    pytest.importorskip("sklearn")
    with pytest.raises(ValueError, match=part):
        call()
