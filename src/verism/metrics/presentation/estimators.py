"""Automatic estimates of whether an image shows an attribute, from embeddings of images and texts.

``C``: cosine of image and query. ``CC``: the same less the cosine of a reference text. ``CLS``: a classifier of each
attribute, fitted to sentences and applied to images, as both lie in one space. All functions work on arrays, image
by image: one image's estimate depends on no other image, so groups share one fit and batches do not matter.

Source: "Auditing Gender Presentation Differences in Text-to-Image Models", 2023, and its public data release (for the
order of sentences and the settings of the classifier).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verism.metrics.vectors import row_products

__all__ = [
    "ClothesClassifiers",
    "calibrated_estimates",
    "cosine_estimates",
    "fit_released",
    "fit_revised",
]

Floats = NDArray[np.float64]

RELEASED_SEEDS = tuple(range(10))
# Ridge strengths as shares of the mean squared length of centred sentences: from nearly free to nearly the difference
# of the two means. The steps are coarse because the directions hardly change from one to the next.
STRENGTHS = 10.0 ** np.arange(-4.0, 3.5, 0.5)
ROWS_AT_ONCE = 4_096


# -------------------------------------------------------------------------------------------------------------- cosines
def cosine_estimates(image_vectors: ArrayLike, query_vectors: ArrayLike) -> Floats:
    """Cosine of every image with the query of every attribute (estimator C).

    Args:
        image_vectors: shape (N, D), of any length.
        query_vectors: of the bare attribute ("a dress"), shape (A, D).
    Returns:
        Shape (N, A), in [-1, 1].
    Raises:
        ValueError: not two-dimensional, not of one width, NaN or infinity, or a vector of length 0.
    """
    images, queries = _unit(image_vectors, "image_vectors"), _unit(query_vectors, "query_vectors")
    _same_width(images.shape[1], queries.shape[1], "query_vectors")
    return row_products(images, queries)


def calibrated_estimates(image_vectors: ArrayLike, query_vectors: ArrayLike, reference_vector: ArrayLike) -> Floats:
    """Cosine with the query less cosine with a reference text such as "an object" (estimator CC).

    Where all attributes are judged on the same images (neutral setting), the reference takes the same number off
    every attribute of a group: the vector is that of C less one constant, and ranks cannot differ.

    Args:
        image_vectors: shape (N, D).
        query_vectors: shape (A, D).
        reference_vector: shape (D,).
    Returns:
        Shape (N, A), in [-2, 2].
    Raises:
        ValueError: as for ``cosine_estimates``.
    """
    reference = np.asarray(reference_vector)
    if reference.ndim != 1:
        raise ValueError(f"reference_vector must be the vector of one text, shape (D,); got shape {reference.shape}")
    return cosine_estimates(image_vectors, query_vectors) - cosine_estimates(image_vectors, reference[None])


# ---------------------------------------------------------------------------------------------------------- classifiers
@dataclass(frozen=True, kw_only=True)
class ClothesClassifiers:
    """A linear classifier of each attribute, or an ensemble of E, on vectors of length 1.

    Attributes:
        weights: shape (E, A, D).
        intercepts: shape (E, A).
    """

    weights: NDArray[Any]
    intercepts: NDArray[Any]

    @property
    def n_members(self) -> int:
        return len(self.weights)

    def probabilities(self, image_vectors: ArrayLike) -> Floats:
        """Probability that each image shows each attribute, mean over the ensemble.

        Args:
            image_vectors: shape (N, D), of any length.
        Returns:
            Shape (N, A), in [0, 1].
        Raises:
            ValueError: as for ``cosine_estimates``.
        """
        images = self._checked(image_vectors)
        result = np.empty((len(images), self.weights.shape[1]))
        for start in range(0, len(images), ROWS_AT_ONCE):
            result[start : start + ROWS_AT_ONCE] = self._members(images[start : start + ROWS_AT_ONCE]).mean(axis=0)
        return result

    def member_probabilities(self, image_vectors: ArrayLike) -> Floats:
        """The same of each member, shape (E, N, A)."""
        return self._members(self._checked(image_vectors))

    def _checked(self, image_vectors: ArrayLike) -> Floats:
        images = _unit(image_vectors, "image_vectors")
        _same_width(images.shape[1], self.weights.shape[2], "the sentences of the classifiers")
        return images

    def _members(self, images: Floats) -> Floats:
        from scipy.special import expit

        n_members, n_attributes, width = self.weights.shape
        flat = self.weights.reshape(n_members * n_attributes, width).astype(np.float64)
        decisions = row_products(images, flat) + self.intercepts.reshape(-1)
        return np.asarray(
            expit(decisions).reshape(len(images), n_members, n_attributes).transpose(1, 0, 2), dtype=np.float64
        )


def fit_released(
    positives: ArrayLike, negatives: ArrayLike, *, seeds: Sequence[int] = RELEASED_SEEDS
) -> ClothesClassifiers:
    """The classifiers of the data release: scikit-learn's SGD, early stopping, one member per seed.

    Every attribute is fitted once per seed; the same classifier then serves all groups, which changes no probability. A
    fit sees the negatives first, then the positives. The order of sentences matters: training shuffles by seed.

    Args:
        positives: vectors of the sentences with the attribute, shape (A, P, D); contexts outer, people inner as
            published (P = 48).
        negatives: vectors of the same sentences without it, shape (M, D) (M = 48 as published).
        seeds: one member each. A single seed: no ensemble.
    Returns:
        Classifiers with E = number of seeds, in float32, as they were trained.
    Raises:
        ValueError: arrays that do not fit together, NaN or infinity, a vector of length 0, no seeds.
        ModuleNotFoundError: scikit-learn is not installed.
    Source: the data release: loss log_loss, max_iter 5000, tol 1e-3, early stopping on a tenth, seeds 0 to 9, otherwise
        the library's defaults. The paper names 1e-3 as a learning rate; the release passes it as the tolerance, and as
        a rate it could not lead to the published probabilities.
    """
    try:
        from sklearn import config_context
        from sklearn.linear_model import SGDClassifier
    except ModuleNotFoundError as err:
        if err.name != "sklearn":
            raise  # installed but broken inside: hiding that would mislead
        raise ModuleNotFoundError(
            "The released classifiers need scikit-learn. Install it with: pip install 'verism[models]', or use the "
            "revised ones (fit_revised), which need numpy only",
            name="sklearn",
        ) from err
    if not len(seeds):
        raise ValueError("fit_released needs at least one seed; got none")

    class Classifier(SGDClassifier):  # type: ignore[misc]
        """Scores the held-out part alike, but without scikit-learn's checks of what it made itself."""

        def score(self, X: Floats, y: Floats, sample_weight: Floats | None = None) -> float:  # noqa: ARG002, N803
            predicted = self.classes_[((X @ self.coef_.T + self.intercept_).ravel() > 0).astype(int)]
            return float(np.count_nonzero(predicted == y) / len(y))

    with_it, without = _sentences(positives, negatives, np.float32)
    n_attributes, n_positives, width = with_it.shape
    weights = np.empty((len(seeds), n_attributes, width), dtype=np.float32)
    intercepts = np.empty((len(seeds), n_attributes), dtype=np.float32)
    target = np.repeat([0, 1], [len(without), n_positives])
    # The sentences are checked already; scikit-learn would check them again at every look at the held-out part.
    with config_context(assume_finite=True, skip_parameter_validation=True):
        for a in range(n_attributes):
            sentences = np.concatenate([without, with_it[a]])
            for member, seed in enumerate(seeds):
                fitted = Classifier(
                    loss="log_loss",
                    max_iter=5000,
                    tol=1e-3,
                    early_stopping=True,
                    validation_fraction=0.1,
                    random_state=seed,
                ).fit(sentences, target)
                weights[member, a], intercepts[member, a] = fitted.coef_[0], fitted.intercept_[0]
    return ClothesClassifiers(weights=weights, intercepts=intercepts)


def fit_revised(positives: ArrayLike, negatives: ArrayLike, *, contexts: ArrayLike | None = None) -> ClothesClassifiers:
    """Classifiers of our own design: no chance, no order, no iteration over sentences, all attributes at once.

    1. *Direction.* Ridge regression of the classes, equal to regularised linear discriminant analysis, in closed form
       in the span of the sentences. It takes off what sentences of one class differ in: people and contexts.
    2. *Strength.* One for all attributes, by the squared error on sentences of contexts that were left out. For ridge
       regression leaving a context out needs no new fit: the residuals are ``(I - H_cc)^-1 (y - Hy)_c``. Of the
       strengths within one standard error of the best the largest is taken: images differ from sentences more than
       sentences from each other.
    3. *Scale.* The value itself, -1 for sentences without and 1 for sentences with the attribute, through the logistic
       function. Images lie between the two kinds of sentences, the more so the more they show besides. A probability
       calibrated on sentences, which are told apart easily, is at its ends for images and hides how they differ:
       with Platt's calibration tau fell from 0.87-0.90 to 0.75-0.83 in the worlds of ``benchmarks/presentation.py``.
       So these numbers are degrees between 0.27 and 0.73 for clear cases, and no frequencies.

    Args:
        positives: vectors of the sentences with the attribute, shape (A, P, D).
        negatives: vectors of sentences without, shape (M, D). P and M may differ.
        contexts: context of each of the P positives, shape (P,), at least two different ones. None: three sentences in
            a row share one, as published (contexts outer, people inner). If M = P the negatives have the same contexts
            in the same order; otherwise they are dealt out to the contexts in turn.
    Returns:
        Classifiers with E = 1, in float64.
    Raises:
        ValueError: as for ``fit_released``; fewer than two contexts, contexts of another length, or an attribute whose
            sentences all have the same vector.
    Source: Hastie, Tibshirani & Friedman 2009, The Elements of Statistical Learning, Sec. 4.3, 7.10 (one standard
        error); Cook & Weisberg 1982, Residuals and Influence in Regression, Sec. 2.2 (left-out residuals).
    """
    with_it, without = _sentences(positives, negatives, np.float64)
    n_attributes, n_positives, _ = with_it.shape
    n_negatives = len(without)
    folds = _folds(n_positives, n_negatives, contexts)
    # Gram matrices of (negatives, positives of an attribute), centred: all that ridge regression needs.
    n = n_negatives + n_positives
    gram = np.empty((n_attributes, n, n))
    gram[:, :n_negatives, :n_negatives] = without @ without.T
    gram[:, n_negatives:, :n_negatives] = with_it @ without.T
    gram[:, :n_negatives, n_negatives:] = gram[:, n_negatives:, :n_negatives].transpose(0, 2, 1)
    gram[:, n_negatives:, n_negatives:] = with_it @ with_it.transpose(0, 2, 1)
    gram -= gram.mean(axis=2, keepdims=True)
    gram -= gram.mean(axis=1, keepdims=True)
    lengths, bases = np.linalg.eigh((gram + gram.transpose(0, 2, 1)) / 2)
    lengths = np.maximum(lengths, 0.0)
    size = lengths.sum(axis=1, keepdims=True) / n
    if not np.all(size > 1e-12):
        flat = np.flatnonzero(size[:, 0] <= 1e-12)
        raise ValueError(
            f"the sentences of attribute {int(flat[0])} have all the same vector, with and without the attribute: "
            "nothing can be learnt from them. Do the texts differ?"
        )
    target = np.repeat([-1.0, 1.0], [n_negatives, n_positives])
    errors = np.empty((len(STRENGTHS), n_attributes, n))
    for s, strength in enumerate(STRENGTHS):
        errors[s] = (_left_out_values(lengths, bases, strength * size * n, target, folds) - target) ** 2
    best = _one_standard_error(errors, folds)
    penalty = STRENGTHS[best] * size * n
    middle = target.mean()
    dual = ((bases / (lengths + penalty)[:, None, :]) @ (bases.transpose(0, 2, 1) @ (target - middle)[:, None]))[..., 0]
    direction = dual[:, :n_negatives] @ without + np.einsum("ap,apd->ad", dual[:, n_negatives:], with_it)
    centre = (without.sum(axis=0) + with_it.sum(axis=1)) / n
    offset = middle - np.einsum("ad,ad->a", direction, centre)
    return ClothesClassifiers(weights=direction[None], intercepts=offset[None])


def _left_out_values(
    lengths: Floats, bases: Floats, penalty: Floats, target: Floats, folds: list[NDArray[np.intp]]
) -> Floats:
    """Value of every sentence from the fit without its context, shape (A, n)."""
    n = len(target)
    shrunk = lengths / (lengths + penalty)
    fitted = ((bases * shrunk[:, None, :]) @ (bases.transpose(0, 2, 1) @ target[:, None]))[..., 0] + target.mean()
    residuals = target - fitted
    values = np.empty(fitted.shape)
    for fold in folds:
        part = bases[:, fold]
        hat = (part * shrunk[:, None, :]) @ part.transpose(0, 2, 1) + 1 / n
        outside = np.linalg.solve(np.eye(len(fold)) - hat, residuals[:, fold, None])[..., 0]
        values[:, fold] = target[fold] - outside
    return values


def _one_standard_error(errors: Floats, folds: list[NDArray[np.intp]]) -> int:
    """Largest strength whose error is within one standard error (between contexts) of the smallest."""
    by_fold = np.stack([errors[:, :, fold].mean(axis=(1, 2)) for fold in folds], axis=1)
    means = by_fold.mean(axis=1)
    smallest = int(np.argmin(means))
    margin = by_fold[smallest].std(ddof=1) / np.sqrt(len(folds))
    return int(np.flatnonzero(means <= means[smallest] + margin).max())


# --------------------------------------------------------------------------------------------------------------- checks
def _folds(n_positives: int, n_negatives: int, contexts: ArrayLike | None) -> list[NDArray[np.intp]]:
    """Row numbers of each context among negatives and positives, one after another."""
    labels = np.arange(n_positives) // 3 if contexts is None else np.asarray(contexts)
    if labels.shape != (n_positives,):
        raise ValueError(f"contexts must name one for each of the {n_positives} positives; got shape {labels.shape}")
    codes = np.unique(labels, return_inverse=True)[1].reshape(n_positives)
    n_contexts = int(codes.max()) + 1
    if n_contexts < 2 or n_negatives < 2:
        raise ValueError(
            f"fit_revised leaves out one context at a time and needs at least two, and two negatives; "
            f"got {n_contexts} and {n_negatives}"
        )
    negative_codes = codes if n_negatives == n_positives else np.arange(n_negatives) % n_contexts
    rows = np.concatenate([negative_codes, codes])
    return [np.flatnonzero(rows == context) for context in range(n_contexts)]


def _sentences(positives: ArrayLike, negatives: ArrayLike, dtype: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Both checked and scaled to length 1: shapes (A, P, D) and (M, D)."""
    with_it = np.asarray(positives)
    if with_it.ndim != 3 or 0 in with_it.shape:
        raise ValueError(
            f"positives must be sentences of each attribute, shape (attributes, sentences, D); got shape "
            f"{with_it.shape}"
        )
    without = _unit(negatives, "negatives", dtype)
    if not len(without):
        raise ValueError("negatives must hold at least one sentence; got none")
    _same_width(with_it.shape[2], without.shape[1], "negatives")
    return _unit(with_it.reshape(-1, with_it.shape[2]), "positives", dtype).reshape(with_it.shape), without


def _unit(vectors: ArrayLike, name: str, dtype: Any = np.float64) -> NDArray[Any]:
    """Vectors scaled to length 1, shape (N, D)."""
    array = np.asarray(vectors)
    if array.ndim != 2 or not array.shape[1]:
        raise ValueError(f"{name} must be vectors of shape (number, D); got shape {array.shape}")
    array = array.astype(dtype)
    if bad := int(np.count_nonzero(~np.isfinite(array).all(axis=1))):
        raise ValueError(
            f"{name} has NaN or infinity in {bad} of {len(array)} vectors; remove them first, and count them"
        )
    lengths = np.linalg.norm(array, axis=1, keepdims=True)
    if empty := int(np.count_nonzero(lengths == 0)):
        raise ValueError(f"{name} has {empty} vector(s) of length 0, which have no direction; remove them first")
    return np.asarray(array / lengths)


def _same_width(first: int, second: int, other: str) -> None:
    if first != second:
        raise ValueError(f"vectors have {first} numbers, {other} {second}: take all from the same model")
