"""Fréchet distance between two sets of features, each taken as a normal distribution; with Inception features, FID.

``d = |mean_a - mean_b|**2 + Tr(A) + Tr(B) - 2 Tr(sqrt(A B))`` with covariances A and B. The last trace is the sum of
the singular values of ``F_a.T @ F_b`` for any factors ``A = F_a F_a.T`` and ``B = F_b F_b.T``: nothing here is ever
complex, and nothing is added to a diagonal to make a matrix root come out. With Cholesky factors it is one symmetric
eigenvalue problem without vectors; with the images themselves as factors, if they are fewer than features, it is as
small as they are few, and exact.

The estimate is too high, by about a constant over the number of images, so values of different numbers of images do
not compare. All results name these numbers; ``fid_infinity`` extrapolates them away.

Sources: Heusel et al. 2017, arXiv:1706.08500 (FID); Dowson & Landau 1982, J. Multivar. Anal. 12:450-455 (the distance);
Chong & Forsyth 2020, arXiv:1911.07023 (its bias, FID-infinity).
"""

from __future__ import annotations

import math
import os
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verism.metrics._shared import Floats, check_same_width, checked_features, jackknife_variance
from verism.statistics import Interval
from verism.statistics._common import check_confidence, cluster_codes, student_quantile

__all__ = [
    "FeatureMoments",
    "FeatureStatistics",
    "FidInfinity",
    "FrechetDistance",
    "fid_infinity",
    "frechet_distance",
    "frechet_from_features",
    "frechet_interval",
    "read_statistics",
]

CHECKED_ROWS = 128  # of a covariance compared with its columns at once, so that both stay in the cache
KEPT_VALUES = 2**28  # projected features that are kept: 2 GiB; those of more images are computed when they are needed
CHUNK_ROWS = 4096  # images converted to float64 at once: 64 MiB at 2048 features
EPS = float(np.finfo(np.float64).eps)
# Largest error of Tr(sqrt(A B)), relative to Tr(A) + Tr(B), up to which eigenvalues of the squared problem will do;
# beyond, singular values are taken, three times as slow.
TRACE_TOLERANCE = 1e-10
# A covariance rounded to float32 has eigenvalues as low as about -1e-6 of its largest; one below this is none.
MOST_NEGATIVE = -1e-4


class FeatureStatistics(NamedTuple):
    """Mean and covariance of the features of a set of images: what statistics files hold.

    Attributes:
        mean: shape (D,), float64.
        covariance: shape (D, D), float64, unbiased (divided by n - 1).
        n: images behind them, None if unknown.
    """

    mean: Floats
    covariance: Floats
    n: int | None = None


class FeatureMoments:
    """Running mean and covariance of features in float64, for sets of images that do not fit in memory.

    Batches and shards may come in any order. Sums are kept about the running mean, and that relative to the mean of the
    first batch, so a large common offset of the features costs no digits.

    >>> moments = FeatureMoments(2)
    >>> moments.update([[0.0, 0.0], [2.0, 2.0]])
    >>> moments.update([[4.0, 1.0]])
    >>> moments.n, moments.mean.tolist(), moments.covariance.round(9).tolist()
    (3, [2.0, 1.0], [[4.0, 1.0], [1.0, 1.0]])

    Source: Chan, Golub & LeVeque 1983, Am. Stat. 37:242-247 (pairwise update).
    """

    def __init__(self, dim: int) -> None:
        if dim < 1:
            raise ValueError(f"dim must be at least 1, the numbers per image; got {dim}")
        self.n = 0
        self._origin = np.zeros(dim)  # some point among the images: the mean of the first batch
        self._mean = np.zeros(dim)  # relative to it
        self._scatter = np.zeros((dim, dim))  # sum of (x - mean)(x - mean).T

    @classmethod
    def of(cls, features: ArrayLike) -> FeatureMoments:
        """The moments of features, shape (N, D), converted to float64 a part at a time."""
        array = checked_features(features, "features")
        moments = cls(array.shape[1])
        for start in range(0, len(array), CHUNK_ROWS):
            moments.update(array[start : start + CHUNK_ROWS])
        return moments

    @property
    def dim(self) -> int:
        return len(self._mean)

    def update(self, batch: ArrayLike) -> None:
        """Add images: features of shape (batch, D), any float type.

        Raises:
            ValueError: another number of columns, NaN or infinity; nothing is added then.
        """
        x = checked_features(batch, "batch").astype(np.float64)
        if x.shape[1] != self.dim:
            raise ValueError(f"batch must have {self.dim} numbers per image, as those before; got {x.shape[1]}")
        if not len(x):
            return
        if not self.n:
            self._origin = x.mean(axis=0)
        x -= self._origin
        mean = x.mean(axis=0)
        x -= mean
        self._add(len(x), mean, x)

    def merge(self, other: FeatureMoments) -> None:
        """Add the images of another shard, which stays as it is."""
        if other.dim != self.dim:
            raise ValueError(f"shards must have the same number of features; got {self.dim} and {other.dim}")
        if other.n:
            scatter = other._scatter.copy() if other is self else other._scatter
            if not self.n:
                self._origin = other._origin
            self._add(other.n, (other._origin - self._origin) + other._mean, np.empty((0, self.dim)))
            self._scatter += scatter

    def _add(self, n: int, mean: Floats, centred: Floats) -> None:
        """Add n images of this mean, and as their scatter that of the rows ``centred``."""
        step, total = mean - self._mean, self.n + n
        # The shift of the mean is one more row: the whole update is one symmetric product.
        rows = np.concatenate([centred, math.sqrt(self.n * n / total) * step[None]])
        self._scatter += rows.T @ rows
        self._mean = self._mean + n / total * step
        self.n = total

    @property
    def mean(self) -> Floats:
        """Shape (D,); NaN without images."""
        return self._origin + self._mean if self.n else np.full(self.dim, np.nan)

    @property
    def covariance(self) -> Floats:
        """Unbiased (n - 1), shape (D, D); NaN with fewer than two images."""
        return self._scatter / (self.n - 1) if self.n > 1 else np.full((self.dim, self.dim), np.nan)

    def statistics(self) -> FeatureStatistics:
        return FeatureStatistics(self.mean, self.covariance, self.n)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write ``mu``, ``sigma`` and ``n`` as .npz: a file other FID programs read as well. Whole or not at all."""
        if self.n < 2:
            raise ValueError(f"a covariance needs at least 2 images; got {self.n}")
        target = Path(path)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, mu=self.mean, sigma=self.covariance, n=np.int64(self.n))
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> FeatureMoments:
        """The moments of a file of ``save``, to be continued.

        Raises:
            ValueError: as ``read_statistics``, or the file does not tell its number of images.
        """
        read = read_statistics(path)
        if read.n is None:
            raise ValueError(
                f"{path} does not say of how many images it is (no n), so none can be added; read_statistics reads it"
            )
        moments = cls(len(read.mean))
        moments.n, moments._origin, moments._scatter = read.n, read.mean, read.covariance * (read.n - 1)
        return moments


def read_statistics(path: str | os.PathLike[str]) -> FeatureStatistics:
    """Mean and covariance from a statistics file: .npz with ``mu`` and ``sigma``, and ``n`` where it is ours.

    Published reference statistics have these two keys: those of pytorch-fid and the TTUR authors, DM-GAN, EDM and the
    reference batches of ADM (whose other arrays are not read). Nothing is unpickled.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not an .npz file, a key is missing, or they are no mean and covariance.
    """
    try:
        loaded = np.load(path, allow_pickle=False)
    except (zipfile.BadZipFile, EOFError, ValueError) as err:
        raise ValueError(f"{path} must be an .npz file with mu and sigma; it cannot be read as one ({err})") from err
    if isinstance(loaded, np.ndarray):
        raise ValueError(f"{path} must be an .npz file with mu and sigma; it holds a single array {loaded.shape}")
    with loaded:
        if missing := sorted({"mu", "sigma"} - set(loaded.files)):
            raise ValueError(f"{path} must hold mu and sigma; {' and '.join(missing)} missing among {loaded.files}")
        try:
            mean, covariance = loaded["mu"].astype(np.float64), loaded["sigma"].astype(np.float64)
            n = int(loaded["n"]) if "n" in loaded.files else None
        except (ValueError, TypeError, zipfile.BadZipFile) as err:
            raise ValueError(f"{path}: mu, sigma and n must be plain numbers, not Python objects ({err})") from err
    try:
        _check_statistics(mean, covariance, "sigma")
        if n is not None and n < 2:
            raise ValueError(f"n must be at least 2; got {n}")
    except ValueError as err:
        raise ValueError(f"{path}: {err}") from None
    return FeatureStatistics(mean, covariance, n)


def frechet_distance(mean_a: ArrayLike, cov_a: ArrayLike, mean_b: ArrayLike, cov_b: ArrayLike) -> float:
    """Squared Fréchet (2-Wasserstein) distance between two normal distributions.

    A covariance without full rank (n <= D images) is decomposed into its eigenvectors, and eigenvalues at the level
    of rounding are taken as 0. What rounding leaves below 0 for equal distributions is returned as 0.

    Args:
        mean_a: shape (D,).
        cov_a: shape (D, D), symmetric, no eigenvalue below 0 but for rounding.
        mean_b: shape (D,).
        cov_b: shape (D, D).
    Returns:
        In [0, inf), in squared units of the features; 0 for equal distributions. Right to about 1e-10 of the traces.
    Raises:
        ValueError: shapes that do not fit, NaN or infinity, not symmetric, or a clearly negative eigenvalue.

    >>> frechet_distance([0.0, 0.0], [[1.0, 0.0], [0.0, 4.0]], [3.0, 0.0], [[4.0, 0.0], [0.0, 9.0]])
    11.0
    """
    first = _Spread.of_statistics(FeatureStatistics(np.asarray(mean_a), np.asarray(cov_a)), "cov_a")
    second = _Spread.of_statistics(FeatureStatistics(np.asarray(mean_b), np.asarray(cov_b)), "cov_b")
    if first.dim != second.dim:
        raise ValueError(f"both distributions must have as many features; got {first.dim} and {second.dim}")
    return _distance(first, second)


class FrechetDistance(NamedTuple):
    """A Fréchet distance and what it depends on.

    Attributes:
        value: in [0, inf), lower is better.
        n_real: real images, None if a statistics file does not tell.
        n_generated: generated ones.
        dim: features per image.
        warning: why the value should not be trusted or compared; empty if there is nothing to say.
    """

    value: float
    n_real: int | None
    n_generated: int | None
    dim: int
    warning: str


def frechet_from_features(
    real: ArrayLike | FeatureStatistics, generated: ArrayLike | FeatureStatistics
) -> FrechetDistance:
    """Fréchet distance between two sets of images: FID, with the features of the FID Inception network.

    Sets with no more images than features are not turned into D x D covariances: their images are used as factors
    of it, which gives the same value from a problem as small as the set, without rounding a singular matrix.

    Args:
        real: features, shape (N, D), N >= 2; or their statistics.
        generated: features, shape (M, D), M >= 2; or their statistics.
    Raises:
        ValueError: shapes that do not fit, fewer than 2 images, NaN or infinity.

    >>> frechet_from_features([[0.0], [2.0]], [[5.0], [9.0]]).value   # (7 - 1)**2 + 2 + 8 - 2 * 4
    38.0
    """
    first, second = _spread(real, "real"), _spread(generated, "generated")
    check_same_width(first.dim, second.dim)
    value = _distance(first, second)
    return FrechetDistance(value, first.n, second.n, first.dim, _warning(first, second))


def frechet_interval(
    real: ArrayLike | FeatureStatistics,
    generated: ArrayLike | FeatureStatistics,
    *,
    clusters: ArrayLike | None = None,
    real_clusters: ArrayLike | None = None,
    n_groups: int = 20,
    confidence: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Fréchet distance with an interval for what other images of the same number would give on average.

    The target is the expected distance at this number of images: the bias of small sets is part of it, since it is
    part of every published FID. ``fid_infinity`` has the other target.

    The standard error is that of the delete-a-group jackknife. A bootstrap over images would not do: a resample
    repeats images, which raises the bias of this statistic about as much again as the sample itself did, so that
    intervals may miss their own estimate. Leaving out a twentieth changes the bias by a twentieth, for all groups
    alike, and that drops out of their spread. Its variance errs upwards if at all (Efron and Stein), also where
    images are fewer than features and gradients of the distance do not exist. Both sets are left out in turn, and
    their variances added; a side given as statistics counts as fixed, so its share is missing.

    Args:
        real: features, shape (N, D), or statistics.
        generated: features, shape (M, D), or statistics.
        clusters: label of each generated image's prompt, shape (M,); prompts stay together in a group. None: each
            image is its own.
        real_clusters: the same for real images, shape (N,).
        n_groups: groups of each side, >= 2; fewer where there are fewer clusters.
        confidence: confidence level, in (0, 1).
        seed: of the assignment to groups.
    Returns:
        The distance between its ends, low >= 0. NaN ends where both sides are fixed, or one has fewer than 2 clusters.
    Raises:
        ValueError: as ``frechet_from_features``; labels that do not fit.
    Source: Efron & Stein 1981, Ann. Stat. 9:586-596; Busing, Meijer & van der Leeden 1999, Stat. Comput. 9:3-8 (groups
        of unequal size); degrees of freedom by Welch and Satterthwaite.
    """
    check_confidence(confidence)
    first, second = _spread(real, "real"), _spread(generated, "generated")
    check_same_width(first.dim, second.dim)
    value = _distance(first, second)
    rng = np.random.default_rng(seed)
    variance = inverse_freedom = 0.0
    sampled = False
    for side, other, labels, name in (
        (generated, first, clusters, "clusters"),
        (real, second, real_clusters, "real_clusters"),
    ):
        if isinstance(side, FeatureStatistics):
            if labels is not None:
                raise ValueError(f"{name} needs the features of that side; it is given as statistics")
            continue
        x = checked_features(side, "features")
        groups = _groups(len(x), labels, n_groups, rng)
        if len(groups) < 2:
            return Interval(value, math.nan, math.nan)
        distance, without = _Projection(x, other).leave_out(groups)
        part = jackknife_variance(distance, without, np.array([len(g) for g in groups], dtype=np.float64))
        variance += part
        inverse_freedom += part**2 / (len(groups) - 1)
        sampled = True
    if not sampled or variance == 0.0:
        return Interval(value, math.nan, math.nan)
    half = student_quantile(variance**2 / inverse_freedom, (1 + confidence) / 2) * math.sqrt(variance)
    return Interval(value, max(0.0, value - half), value + half)


class FidInfinity(NamedTuple):
    """FID extrapolated to infinitely many generated images.

    Attributes:
        value: intercept of the line; it may be below 0 for sets that differ little.
        low: lower end of its interval.
        high: upper end.
        slope: of the distance in 1/n: the bias of n generated images is about ``slope / n``.
        sizes: generated images in each subset, shape (P,).
        values: their distances, shape (P,).
        n_real: real images, None if unknown.
        n_generated: generated ones.
        warning: empty if there is nothing to say.
    """

    value: float
    low: float
    high: float
    slope: float
    sizes: NDArray[np.int64]
    values: Floats
    n_real: int | None
    n_generated: int
    warning: str


def fid_infinity(
    real: ArrayLike | FeatureStatistics,
    generated: ArrayLike,
    *,
    n_points: int = 15,
    smallest: int | None = None,
    clusters: ArrayLike | None = None,
    n_groups: int = 10,
    confidence: float = 0.95,
    seed: int = 0,
) -> FidInfinity:
    """The distance at infinitely many generated images: a straight line in 1/n through distances of subsets.

    The real side stays as it is, so its own bias remains: compare values against the same reference only.

    The points are subsets of the same images, hence the error of the regression would be far too small. The interval
    repeats the whole extrapolation with a group of images left out (delete-a-group jackknife). It speaks of
    the generated images alone.

    Args:
        real: features, shape (N, D), or statistics.
        generated: features, shape (M, D).
        n_points: subsets, of sizes evenly spaced from ``smallest`` to M, drawn without replacement.
        smallest: smallest subset. None: 5,000 as published, or half of M where M < 10,000. The line is only straight
            where subsets are larger than the number of features.
        clusters: label of each generated image's prompt, shape (M,), kept together in groups of the interval.
        n_groups: groups of the interval, >= 2. 0: no interval (NaN), ``n_groups + 1`` times as fast.
        confidence: confidence level, in (0, 1).
        seed: of subsets and groups.
    Raises:
        ValueError: as ``frechet_from_features``; sizes that do not fit.
    Source: Chong & Forsyth 2020, arXiv:1911.07023, sections 3 and 4 (there Sobol or random subsets; here random).
    """
    check_confidence(confidence)
    reference, x = _spread(real, "real"), checked_features(generated, "generated")
    check_same_width(reference.dim, x.shape[1])
    least = (5000 if len(x) >= 10_000 else len(x) // 2) if smallest is None else smallest
    if not 4 <= least < len(x):
        raise ValueError(f"smallest must lie in 4 .. {len(x) - 1} for {len(x)} generated images; got {least}")
    if n_points < 2:
        raise ValueError(f"n_points must be at least 2, to draw a line through; got {n_points}")
    rng = np.random.default_rng(seed)
    projection = _Projection(x, reference, keep=True)

    sizes = np.unique(np.rint(np.linspace(least, len(x), n_points)).astype(np.int64))
    subsets = [rng.choice(len(x), int(n), replace=False) for n in sizes]

    def line(parts: list[NDArray[np.intp]]) -> tuple[float, float, Floats]:
        values = np.array([projection.subset(part) for part in parts])
        slope, intercept = np.polyfit([1.0 / len(part) for part in parts], values, 1)
        return float(intercept), float(slope), values

    value, slope, values = line(subsets)
    low = high = math.nan
    groups = _groups(len(x), clusters, n_groups, rng) if n_groups else []
    if len(groups) > 1:
        home = np.zeros(len(x), dtype=np.intp)
        for number, group in enumerate(groups):
            home[group] = number
        # The same subsets without the group: newly drawn ones would add their own chance to every difference.
        without = np.array(
            [line([left for part in subsets if len(left := part[home[part] != g]) > 1])[0] for g in range(len(groups))]
        )
        shares = np.bincount(home).astype(np.float64)
        error = math.sqrt(jackknife_variance(value, without, shares))
        half = student_quantile(len(groups) - 1, (1 + confidence) / 2) * error
        low, high = value - half, value + half
    warnings = [_warning(reference, None)]
    if least <= reference.dim:
        warnings.append(
            f"The smallest subset has {least:,} images for {reference.dim:,} features: the distance only falls as "
            "1/n where images outnumber features, so the extrapolation is rough."
        )
    return FidInfinity(
        value, low, high, slope, sizes, values, reference.n, len(x), " ".join(text for text in warnings if text)
    )


# ---------------------------------------------------------------------------------------------- the mathematics, once
class _Spread(NamedTuple):
    """Mean and covariance of one side; the covariance itself, or rows R with ``R.T @ R`` equal to it."""

    mean: Floats
    trace: float
    covariance: Floats | None
    rows: Floats | None
    n: int | None
    name: str

    @property
    def dim(self) -> int:
        return len(self.mean)

    @classmethod
    def of_statistics(cls, statistics: FeatureStatistics, name: str) -> _Spread:
        mean = np.atleast_1d(np.asarray(statistics.mean, dtype=np.float64))
        covariance = np.atleast_2d(np.asarray(statistics.covariance, dtype=np.float64))
        _check_statistics(mean, covariance, name)
        return cls(mean, float(np.trace(covariance)), covariance, None, statistics.n, name)

    @classmethod
    def of_features(cls, x: NDArray[Any], name: str) -> _Spread:
        n, dim = x.shape
        if n < 2:
            raise ValueError(f"{name} needs at least 2 images for a covariance; got {n}")
        if n - 1 >= dim:
            moments = FeatureMoments.of(x)
            covariance = moments.covariance
            return cls(moments.mean, float(np.trace(covariance)), covariance, None, n, name)
        mean = x.mean(axis=0, dtype=np.float64)
        rows = (x - mean) / math.sqrt(n - 1)
        # n centred rows have rank n - 1. A reflection that turns the direction (1, ..., 1) into the first axis leaves
        # R.T @ R as it is and makes the first row 0: without it no eigenvalue is 0 for a trivial reason.
        direction = np.full(n, 1 / math.sqrt(n))
        direction[0] -= 1.0
        rows -= np.outer(2 / (direction @ direction) * direction, direction @ rows)
        return cls(mean, float(np.vdot(rows[1:], rows[1:])), None, rows[1:], n, name)

    def factor(self) -> Floats:
        """F of shape (D, r) with ``F @ F.T`` equal to the covariance."""
        if self.rows is not None:
            return self.rows.T
        assert self.covariance is not None
        lower = _cholesky(self.covariance)
        return lower if lower is not None else _eigen_factor(self.covariance, self.name)


def _spread(side: ArrayLike | FeatureStatistics, name: str) -> _Spread:
    if isinstance(side, FeatureStatistics):
        return _Spread.of_statistics(side, name)
    return _Spread.of_features(checked_features(side, name), name)


def _distance(a: _Spread, b: _Spread) -> float:
    step = a.mean - b.mean
    return max(0.0, float(step @ step) + a.trace + b.trace - 2.0 * _trace_sqrt(a, b))


def _trace_sqrt(a: _Spread, b: _Spread) -> float:
    """Tr(sqrt(A B)), from the eigenvalues of the smallest symmetric matrix that has those of A B, or more exactly."""
    from scipy.linalg import lapack

    scale = a.trace + b.trace
    if scale == 0.0:
        return 0.0
    if a.rows is not None and b.rows is not None:
        small, large = sorted((a.rows, b.rows), key=len)
        product = small @ large.T
        total = _root_sum(product @ product.T, scale)
        return total if total is not None else _nuclear(product)
    if a.rows is not None or b.rows is not None:
        few, many = (a, b) if a.rows is not None else (b, a)
        assert few.rows is not None
        assert many.covariance is not None
        total = _root_sum(few.rows @ many.covariance @ few.rows.T, scale)
        return total if total is not None else _nuclear(few.rows @ many.factor())
    assert a.covariance is not None
    assert b.covariance is not None
    lower, inner = _cholesky(a.covariance), b.covariance
    if lower is None:
        lower, inner = _cholesky(b.covariance), a.covariance
    if lower is not None:
        product, info = lapack.dsygst(inner.T, lower, itype=2, lower=1)  # lower.T @ inner @ lower
        assert info == 0
        total = _root_sum(product, scale)
        if total is not None:
            return total
    return _nuclear(a.factor().T @ b.factor())


def _root_sum(matrix: Floats, scale: float) -> float | None:
    """Sum of the roots of the eigenvalues of a symmetric matrix; None where rounding could move it too far.

    Rounding moves each eigenvalue by some eps times the largest, hence the root of one near 0 by up to the root of
    that: thousands of them, as of covariances without full rank, would add up. The matrix is overwritten.
    """
    from scipy.linalg import eigh

    values = eigh(matrix, lower=True, eigvals_only=True, check_finite=False, overwrite_a=True, driver="evd")
    noise = 4 * EPS * max(float(values[-1]), 0.0)
    positive = np.maximum(values, 0.0)
    roots = np.sqrt(positive)
    moved = np.sqrt(positive + noise) - roots
    return float(roots.sum()) if moved.sum() <= TRACE_TOLERANCE * scale else None


def _nuclear(product: Floats) -> float:
    return float(np.linalg.svd(product, compute_uv=False).sum())


def _cholesky(matrix: Floats) -> Floats | None:
    """Lower factor, or None if the matrix does not have full rank but for rounding."""
    from scipy.linalg import lapack

    # Symmetric, so transposed it is the same, in the order of Fortran: that saves a copy.
    lower, info = lapack.dpotrf(matrix.T, lower=1, clean=1)
    if info != 0:
        return None
    pivots = np.diagonal(lower) ** 2
    return lower if pivots.min() > len(pivots) * EPS * pivots.max() else None


def _eigen_factor(covariance: Floats, name: str) -> Floats:
    values, vectors = np.linalg.eigh(covariance)
    largest = max(float(values[-1]), 0.0)
    if values[0] < MOST_NEGATIVE * largest:
        raise ValueError(
            f"{name} must be a covariance, without negative eigenvalues; got {values[0]:g} beside {largest:g}. "
            "Was it estimated pair by pair, or damaged?"
        )
    kept = values > len(values) * EPS * largest
    factor: Floats = vectors[:, kept] * np.sqrt(values[kept])
    return factor


class _Projection:
    """Images seen from a fixed other side with covariance F F.T, so that many subsets of them can be measured.

    With ``Y = (X - mean) F`` the eigenvalues needed for a subset are those of the covariance of its rows of Y: no
    Cholesky factor is computed again. Few images work on their Gram matrix ``Y Y.T`` instead.
    """

    def __init__(self, x: NDArray[Any], other: _Spread, *, keep: bool = False) -> None:
        self.x, self.other = x, other
        self.centre = x.mean(axis=0, dtype=np.float64)
        self.factor = other.factor()
        few = len(x) <= self.factor.shape[1]
        keep = keep and len(x) * self.factor.shape[1] <= KEPT_VALUES
        self.projected = self._project(slice(None)) if keep or few else None
        self.gram = (
            self.projected @ self.projected.T if self.projected is not None and len(x) <= self.factor.shape[1] else None
        )

    def _project(self, rows: Any) -> Floats:
        projected: Floats = (self.x[rows] - self.centre) @ self.factor
        return projected

    def _centred(self, chosen: NDArray[np.intp]) -> Iterator[Floats]:
        """Some images less the middle of all, a part at a time."""
        for start in range(0, len(chosen), CHUNK_ROWS):
            yield self.x[chosen[start : start + CHUNK_ROWS]] - self.centre

    def _value(self, n: int, total: Floats, squares: float, roots: float) -> float:
        """Distance of n images: sum and sum of squares of their centred features, sum of roots not yet over n - 1."""
        trace = (squares - float(total @ total) / n) / (n - 1)
        step = self.centre + total / n - self.other.mean
        return float(step @ step) + trace + self.other.trace - 2.0 * roots / math.sqrt(n - 1)

    def subset(self, chosen: NDArray[np.intp]) -> float:
        total, squares = np.zeros(self.x.shape[1]), 0.0
        for part in self._centred(chosen):
            total += part.sum(axis=0)
            squares += float(np.vdot(part, part))
        if self.gram is not None:
            matrix = _double_centred(self.gram[np.ix_(chosen, chosen)])
        elif self.projected is None and len(chosen) * self.factor.shape[1] > KEPT_VALUES:
            sums, matrix = np.zeros(self.factor.shape[1]), np.zeros((self.factor.shape[1],) * 2)
            for part in self._centred(chosen):
                projected = part @ self.factor
                sums += projected.sum(axis=0)
                matrix += projected.T @ projected
            matrix -= np.outer(sums, sums / len(chosen))
        else:
            rows = self.projected[chosen] if self.projected is not None else self._project(chosen)
            rows -= rows.mean(axis=0)
            matrix = rows @ rows.T if len(rows) <= rows.shape[1] else rows.T @ rows
        # n rows about their mean have rank n - 1: the lowest eigenvalue of their Gram matrix is 0 but for rounding.
        return self._value(len(chosen), total, squares, _roots(matrix, skip=int(len(matrix) == len(chosen))))

    def leave_out(self, groups: list[NDArray[np.intp]]) -> tuple[float, Floats]:
        """The distance of all images, and without each group, shape (G,)."""
        everything = np.arange(len(self.x))
        if self.gram is not None:
            return self.subset(everything), np.array([self.subset(np.setdiff1d(everything, g)) for g in groups])
        dim, rank = self.factor.shape
        total, squares = np.zeros((len(groups), dim)), np.zeros(len(groups))
        sums, scatter = np.zeros((len(groups), rank)), np.zeros((rank, rank))
        for number, group in enumerate(groups):
            for part in self._centred(group):
                total[number] += part.sum(axis=0)
                squares[number] += np.vdot(part, part)
                projected = part @ self.factor
                sums[number] += projected.sum(axis=0)
                scatter += projected.T @ projected

        def value(number: int | None) -> float:
            left = np.ones(len(groups), dtype=np.bool_)
            matrix, n = scatter, len(self.x)
            if number is not None:
                left[number] = False
                for part in self._centred(groups[number]):
                    projected = part @ self.factor
                    matrix, n = matrix - projected.T @ projected, n - len(projected)
            shift = sums[left].sum(axis=0)
            matrix = matrix - np.outer(shift, shift / n)
            return self._value(n, total[left].sum(axis=0), float(squares[left].sum()), _roots(matrix))

        return value(None), np.array([value(number) for number in range(len(groups))])


def _double_centred(gram: Floats) -> Floats:
    rows = gram.mean(axis=0)
    centred: Floats = gram - rows - rows[:, None] + rows.mean()
    return centred


def _roots(matrix: Floats, skip: int = 0) -> float:
    """As ``_root_sum``, at the accuracy an interval needs, and without the ``skip`` lowest."""
    from scipy.linalg import eigh

    values = eigh(matrix, eigvals_only=True, check_finite=False, overwrite_a=True, driver="evd")
    return float(np.sqrt(np.maximum(values[skip:], 0.0)).sum())


def _groups(n: int, clusters: ArrayLike | None, n_groups: int, rng: np.random.Generator) -> list[NDArray[np.intp]]:
    """Random groups of about equal size; clusters stay whole. Each leaves at least 2 images to the others."""
    if n_groups < 2:
        raise ValueError(f"n_groups must be at least 2; got {n_groups}")
    codes = np.arange(n) if clusters is None else cluster_codes(clusters, n)
    sizes = np.bincount(codes, minlength=0)
    count = min(n_groups, len(sizes))
    filled = np.zeros(count)
    home = np.zeros(len(sizes), dtype=np.intp)
    order = rng.permutation(len(sizes))
    if len(sizes) and sizes.min() == sizes.max():
        home[order] = np.arange(len(sizes)) % count
    else:
        # Largest first into the emptiest group keeps the sizes alike; equal sizes stay in random order.
        for cluster in order[np.argsort(-sizes[order], kind="stable")]:
            home[cluster] = int(np.argmin(filled))
            filled[home[cluster]] += sizes[cluster]
    groups = [np.flatnonzero(home[codes] == number) for number in range(count)]
    return groups if all(n - len(g) >= 2 for g in groups) else []


# ------------------------------------------------------------------------------------------------------------- checks
def _check_statistics(mean: Floats, covariance: Floats, name: str) -> None:
    if mean.ndim != 1 or covariance.shape != (len(mean), len(mean)) or not len(mean):
        raise ValueError(
            f"{name} and its mean must have shapes (D, D) and (D,); got {covariance.shape} and {mean.shape}"
        )
    largest = max(float(covariance.max()), -float(covariance.min()))
    if not (np.isfinite(mean).all() and math.isfinite(largest)):
        raise ValueError(f"{name} or its mean holds NaN or infinity; a covariance needs at least 2 images")
    for start in range(0, len(mean), CHECKED_ROWS):
        rows = slice(start, start + CHECKED_ROWS)
        if np.abs(covariance[rows] - covariance[:, rows].T).max() > 1e-5 * largest:
            raise ValueError(f"{name} must be symmetric, as covariances are; it is not")
    if np.diagonal(covariance).min() < MOST_NEGATIVE * largest:
        raise ValueError(f"{name} must be a covariance; it has a negative variance on its diagonal")


def _warning(real: _Spread, generated: _Spread | None) -> str:
    """What makes a distance hard to trust: sets with no more images than features."""
    few = [
        f"{side.n:,} {name} images"
        for side, name in ((real, "real"), (generated, "generated"))
        if side is not None and side.n is not None and side.n <= side.dim
    ]
    if not few:
        return ""
    return (
        f"Only {' and '.join(few)} for {real.dim:,} features: the covariance is singular and the distance far too "
        "high. Compare it with distances at the same numbers of images only, or use KID."
    )
