"""Kernel Inception distance: the squared maximum mean discrepancy of features under a cubic polynomial kernel.

Unlike the Fréchet distance it is unbiased at any number of images, so small sets compare with large ones; it may come
out slightly below 0 where both sets are alike.

Sources: Bińkowski et al. 2018, arXiv:1801.01401, section 4; Gretton et al. 2012, JMLR 13:723-773, lemma 6 (unbiased
estimate).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verism.metrics._shared import Floats, check_same_width, checked_features, jackknife_variance
from verism.statistics._common import check_confidence, cluster_codes, student_quantile

__all__ = ["KernelDistance", "KernelSubsets", "kid", "kid_subsets"]

TILE = 2048  # rows and columns of the kernel matrix held at once: 16 MiB in float32


class KernelDistance(NamedTuple):
    """The kernel distance of two whole sets.

    Attributes:
        value: unbiased, around 0 for equal distributions, lower is better; may be negative.
        low: lower end of its interval; NaN with fewer than two clusters on a side.
        high: upper end.
        n_real: real images.
        n_generated: generated images.
    """

    value: float
    low: float
    high: float
    n_real: int
    n_generated: int


class KernelSubsets(NamedTuple):
    """The kernel distance as published: over random subsets.

    Attributes:
        mean: over subsets.
        std: between subsets (divided by their number): no standard error of the mean, as subsets overlap.
        values: of each subset, shape (subsets,).
        subset_size: images of each side in one subset.
        n_real: real images.
        n_generated: generated images.
    """

    mean: float
    std: float
    values: Floats
    subset_size: int
    n_real: int
    n_generated: int


def kid(
    real: ArrayLike,
    generated: ArrayLike,
    *,
    degree: int = 3,
    gamma: float | None = None,
    coef0: float = 1.0,
    clusters: ArrayLike | None = None,
    real_clusters: ArrayLike | None = None,
    confidence: float = 0.95,
) -> KernelDistance:
    """Unbiased kernel distance over all pairs of images, with an interval; no subsets, no chance.

    ``mean k(x, x') + mean k(y, y') - 2 mean k(x, y)`` over pairs of different images, with the kernel
    ``k(x, y) = (gamma x.y + coef0)**degree``. The interval is the delete-one-cluster jackknife of both sets, computed
    from row sums of the kernel matrices, which are gone through in tiles: memory grows with N + M, not with their
    product. It is symmetric, so it ends too low where a few images decide the value: few features, few clusters.

    Products are taken in the precision of the features (float32 if both are float32) and added up in float64.

    Args:
        real: features, shape (N, D), N >= 2.
        generated: features, shape (M, D), M >= 2.
        degree: of the kernel, >= 1.
        gamma: its scale; None: 1 / D.
        coef0: its constant.
        clusters: label of each generated image's prompt, shape (M,), if prompts have several images. Pairs within a
            prompt stay in the value, as published.
        real_clusters: the same for real images, shape (N,).
        confidence: confidence level of the interval, in (0, 1).
    Raises:
        ValueError: shapes that do not fit, fewer than 2 images, NaN or infinity, labels that do not fit.

    >>> kid([[0.0], [1.0]], [[1.0], [2.0]]).value   # 1 + 27 - 2 * (1 + 1 + 8 + 27) / 4
    9.5
    """
    check_confidence(confidence)
    x, y, scale = _prepared(real, generated, degree, gamma)
    n, m = len(x), len(y)
    kernel = (scale, coef0, degree)
    codes_x = np.arange(n) if real_clusters is None else cluster_codes(real_clusters, n)
    codes_y = np.arange(m) if clusters is None else cluster_codes(clusters, m)
    rows_x, rows_y = _inner_sums(x, kernel), _inner_sums(y, kernel)
    rows_xy, rows_yx = _cross_sums(x, y, kernel)
    value = _distance(rows_x.sum(), n, rows_y.sum(), m, rows_xy.sum())
    parts = [
        _leave_one_out_variance(x, codes_x, rows_x, rows_xy, (rows_y.sum(), m), kernel),
        _leave_one_out_variance(y, codes_y, rows_y, rows_yx, (rows_x.sum(), n), kernel),
    ]
    low = high = math.nan
    variance = sum(part for part, _ in parts)
    if variance > 0:  # false for NaN, too
        freedom = variance**2 / sum(part**2 / (clusters_ - 1) for part, clusters_ in parts)
        half = student_quantile(freedom, (1 + confidence) / 2) * math.sqrt(variance)
        low, high = value - half, value + half
    return KernelDistance(value, low, high, n, m)


def kid_subsets(
    real: ArrayLike,
    generated: ArrayLike,
    *,
    subsets: int = 100,
    subset_size: int = 1000,
    degree: int = 3,
    gamma: float | None = None,
    coef0: float = 1.0,
    seed: int | np.random.Generator | np.random.RandomState = 0,
) -> KernelSubsets:
    """Mean and spread of the unbiased kernel distance over random subsets: the KID that is usually printed.

    For comparison with published numbers only; ``kid`` uses every pair and knows its own uncertainty. Each subset is
    drawn without replacement, first of the real images and then of the generated ones, as torch-fidelity draws of its
    first and second input: ``seed=numpy.random.RandomState(2020)`` gives the subsets of its default.

    Args:
        real: features, shape (N, D).
        generated: features, shape (M, D).
        subsets: how many, >= 1.
        subset_size: images of each side in one, from 2 to the smaller set.
        degree: as ``kid``.
        gamma: as ``kid``.
        coef0: as ``kid``.
        seed: seed or generator of the draws.
    Raises:
        ValueError: as ``kid``, or subsets larger than a set.
    """
    x, y, scale = _prepared(real, generated, degree, gamma)
    if subsets < 1:
        raise ValueError(f"subsets must be at least 1; got {subsets}")
    if not 2 <= subset_size <= min(len(x), len(y)):
        raise ValueError(
            f"subset_size must lie between 2 and the smaller set, {min(len(x), len(y))} images; got {subset_size}. "
            "Lower it, or use kid, which needs no subsets"
        )
    rng = np.random.default_rng(seed) if isinstance(seed, int) else seed
    kernel, size = (scale, coef0, degree), subset_size
    values = np.empty(subsets)
    for number in range(subsets):
        a = x[rng.choice(len(x), size, replace=False)]
        b = y[rng.choice(len(y), size, replace=False)]
        inner_a, inner_b = _inner_sums(a, kernel).sum(), _inner_sums(b, kernel).sum()
        values[number] = _distance(inner_a, size, inner_b, size, _cross_sums(a, b, kernel)[0].sum())
    return KernelSubsets(float(values.mean()), float(values.std()), values, size, len(x), len(y))


# ---------------------------------------------------------------------------------------------- the mathematics, once
Kernel = tuple[float, float, int]  # gamma, coef0, degree


def _distance(inner_x: float, n: int, inner_y: float, m: int, cross: float) -> float:
    """From sums over pairs of different x, pairs of different y, and all pairs of x and y."""
    return float(inner_x / (n * (n - 1)) + inner_y / (m * (m - 1)) - 2 * cross / (n * m))


def _tile(a: NDArray[Any], b: NDArray[Any], kernel: Kernel) -> NDArray[Any]:
    gamma, coef0, degree = kernel
    products = a @ b.T
    products *= gamma
    products += coef0
    power: NDArray[Any] = products.copy() if degree > 1 else products
    for _ in range(degree - 1):  # several times as fast as ** of numpy
        power *= products
    return power


def _inner_sums(x: NDArray[Any], kernel: Kernel) -> Floats:
    """Sum of k(x_i, x_j) over j != i, per i. Tiles above the diagonal stand for those below it, too."""
    sums = np.zeros(len(x))
    for i in range(0, len(x), TILE):
        for j in range(i, len(x), TILE):
            tile = _tile(x[i : i + TILE], x[j : j + TILE], kernel)
            if i == j:
                np.fill_diagonal(tile, 0.0)
            else:
                sums[j : j + TILE] += tile.sum(axis=0, dtype=np.float64)
            sums[i : i + TILE] += tile.sum(axis=1, dtype=np.float64)
    return sums


def _cross_sums(x: NDArray[Any], y: NDArray[Any], kernel: Kernel) -> tuple[Floats, Floats]:
    """Sums of k(x_i, y_j) over j, per i; and over i, per j."""
    per_x, per_y = np.zeros(len(x)), np.zeros(len(y))
    for i in range(0, len(x), TILE):
        for j in range(0, len(y), TILE):
            tile = _tile(x[i : i + TILE], y[j : j + TILE], kernel)
            per_x[i : i + TILE] += tile.sum(axis=1, dtype=np.float64)
            per_y[j : j + TILE] += tile.sum(axis=0, dtype=np.float64)
    return per_x, per_y


def _leave_one_out_variance(
    x: NDArray[Any],
    codes: NDArray[np.intp],
    inner: Floats,
    cross: Floats,
    other: tuple[float, int],
    kernel: Kernel,
) -> tuple[float, int]:
    """Jackknife variance of the distance over the clusters of one side, NaN for a single one; and their number.

    Without cluster c, the sum over pairs loses twice the row sums of c, less the pairs within c, which are then lost
    twice.
    """
    sizes = np.bincount(codes)
    if len(sizes) < 2 or len(x) - sizes.max() < 2:
        return math.nan, len(sizes)
    within = np.zeros(len(sizes))
    order = np.argsort(codes, kind="stable")
    for code, members in enumerate(np.split(order, np.cumsum(sizes)[:-1])):
        if len(members) > 1:
            within[code] = _inner_sums(x[members], kernel).sum()
    left = len(x) - sizes
    inner_left = inner.sum() - 2 * np.bincount(codes, weights=inner) + within
    cross_left = cross.sum() - np.bincount(codes, weights=cross)
    other_inner, m = other
    without = inner_left / (left * (left - 1)) + other_inner / (m * (m - 1)) - 2 * cross_left / (left * m)
    distance = _distance(float(inner.sum()), len(x), other_inner, m, float(cross.sum()))
    return jackknife_variance(distance, without, sizes.astype(np.float64)), len(sizes)


def _prepared(
    real: ArrayLike, generated: ArrayLike, degree: int, gamma: float | None
) -> tuple[NDArray[Any], NDArray[Any], float]:
    """Both sets in the precision they share, float32 or float64, and gamma."""
    arrays = [checked_features(real, "real"), checked_features(generated, "generated")]
    for array, name in zip(arrays, ("real", "generated")):
        if len(array) < 2:
            raise ValueError(f"{name} needs at least 2 images, to make a pair; got {len(array)}")
    check_same_width(arrays[0].shape[1], arrays[1].shape[1])
    if degree < 1:
        raise ValueError(f"degree must be at least 1; got {degree}")
    dtype = np.float32 if all(a.dtype in (np.float16, np.float32) for a in arrays) else np.float64
    x, y = (np.ascontiguousarray(a, dtype=dtype) for a in arrays)
    return x, y, 1 / x.shape[1] if gamma is None else float(gamma)
