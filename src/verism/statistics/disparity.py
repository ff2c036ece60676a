"""How unequal groups are, and how sure that is: the worst group, the gap between the best and the worst, their ratio.

The largest of several noisy values is too large on average, and the smallest too small, so a gap seems to exist where
there is none: six equal groups with a standard error of 0.04 show a gap of 0.10 on average. Resampling the gap does not
mend that, it doubles the error. So intervals here come from bounds that hold for all groups, or all pairs of groups, at
once: in at least ``confidence`` of all repetitions they contain the true gap, also if it is 0. A gap comes with what
chance alone would show, and with a test of equality.

Estimates are taken as normal, with known covariance. Pure functions; draws come from ``seed``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from verism.statistics._common import Floats, check_confidence, check_resamples, finite
from verism.statistics.intervals import Interval

__all__ = ["Gap", "GroupExtreme", "gap", "ratio", "worst"]

CHUNK_CELLS = 2_000_000  # standardised differences held at once: 16 MB


class GroupExtreme(NamedTuple):
    """The lowest of the groups' values, its interval, and the position of the group that shows it."""

    interval: Interval
    position: int


class Gap(NamedTuple):
    """Highest minus lowest value of the groups.

    Attributes:
        interval: the observed gap with simultaneous ends; the low end is 0 where equality cannot be excluded.
        expected_if_equal: mean gap that these standard errors show between groups that are equal.
        p_equal: p-value of the hypothesis that all groups are equal, by their largest standardised difference.
        lowest: position of the group with the lowest value.
        highest: position of the group with the highest value.
    """

    interval: Interval
    expected_if_equal: float
    p_equal: float
    lowest: int
    highest: int


def _covariance(uncertainty: ArrayLike, n: int) -> Floats:
    spread = np.asarray(uncertainty, dtype=np.float64)
    matrix = np.diag(spread**2) if spread.ndim == 1 else spread
    if matrix.shape != (n, n) or not np.isfinite(matrix).all() or (spread.ndim == 1 and np.any(spread < 0)):
        raise ValueError(
            f"uncertainty must be {n} standard errors >= 0 or a {n} x {n} covariance matrix, all finite; got shape "
            f"{spread.shape}. Leave groups without a value out, and say so"
        )
    scale = float(np.abs(matrix).max())
    if np.abs(matrix - matrix.T).max() > 1e-9 * scale or np.linalg.eigvalsh(matrix).min() < -1e-8 * scale:
        raise ValueError("uncertainty is no covariance matrix: it must be symmetric, without negative eigenvalues")
    return matrix


def _checked(values: ArrayLike, uncertainty: ArrayLike, confidence: float, n_draws: int) -> tuple[Floats, Floats]:
    check_confidence(confidence)
    check_resamples(n_draws)
    numbers = finite(values, "values")
    if len(numbers) < 2:
        raise ValueError(f"a disparity needs at least two groups; got {len(numbers)}")
    return numbers, _covariance(uncertainty, len(numbers))


def _noise(covariance: Floats, n_draws: int, seed: int | np.random.Generator) -> Floats:
    """Draws from N(0, covariance), shape (n_draws, G). Works for singular matrices too."""
    roots, vectors = np.linalg.eigh(covariance)
    half = vectors * np.sqrt(np.maximum(roots, 0.0))
    draws: Floats = np.random.default_rng(seed).standard_normal((n_draws, len(covariance))) @ half.T
    return draws


def _over(difference: Floats, error: Floats) -> Floats:
    """difference / error; 0 where both are 0, infinite where only the error is."""
    tiny = 1e-12 * max(float(error.max()), 1e-300)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(error > tiny, difference / error, np.where(np.abs(difference) <= tiny, 0.0, np.inf))


def _simultaneous(
    covariance: Floats, confidence: float, n_draws: int, seed: int | np.random.Generator
) -> tuple[Floats, float]:
    """Standard error of each group, and the number of them that bounds the errors of all groups at once."""
    error = np.sqrt(np.diag(covariance))
    largest = np.abs(_over(_noise(covariance, n_draws, seed), error)).max(axis=1)
    return error, float(np.quantile(largest, confidence))


def worst(
    values: ArrayLike,
    uncertainty: ArrayLike,
    *,
    seed: int | np.random.Generator,
    confidence: float = 0.95,
    limits: tuple[float, float] = (-math.inf, math.inf),
    n_draws: int = 10_000,
) -> GroupExtreme:
    """The lowest value of the groups.

    Args:
        values: one per group, shape (G,), G >= 2, without NaN.
        uncertainty: standard errors of independent groups, shape (G,), or the covariance matrix, shape (G, G), for
            groups that share data, such as one generated set held against several regions.
        seed: seed or generator.
        confidence: confidence level, in (0, 1).
        limits: of what is measured, such as (0, 1); ends are kept within.
        n_draws: draws of the noise, >= 1.
    Returns:
        The observed minimum; the interval holds the true minimum, whichever group has it.
    Raises:
        ValueError: fewer than two groups, NaN, an uncertainty that does not fit.
    """
    numbers, covariance = _checked(values, uncertainty, confidence, n_draws)
    error, quantile = _simultaneous(covariance, confidence, n_draws, seed)
    at = int(np.argmin(numbers))
    low, high = np.clip([np.min(numbers - quantile * error), np.min(numbers + quantile * error)], *limits)
    return GroupExtreme(Interval(float(numbers[at]), float(low), float(high)), at)


def gap(
    values: ArrayLike,
    uncertainty: ArrayLike,
    *,
    seed: int | np.random.Generator,
    confidence: float = 0.95,
    largest: float = math.inf,
    n_draws: int = 10_000,
) -> Gap:
    """Highest minus lowest value of the groups, >= 0.

    Args:
        values: as for ``worst``.
        uncertainty: as for ``worst``.
        seed: as for ``worst``.
        confidence: as for ``worst``.
        largest: gap that is possible, such as 1 for shares; the upper end is kept below.
        n_draws: as for ``worst``.
    Raises: as for ``worst``.
    Source: Tukey-Kramer bounds of all pairwise differences (Hochberg & Tamhane 1987, Multiple Comparison Procedures,
        Ch. 3), with the quantile drawn from the given covariance; if all pairs lie within theirs, so does the largest.
    """
    numbers, covariance = _checked(values, uncertainty, confidence, n_draws)
    first, second = np.triu_indices(len(numbers), 1)
    variance = np.diag(covariance)
    error = np.sqrt(np.maximum(variance[first] + variance[second] - 2 * covariance[first, second], 0.0))
    noise = _noise(covariance, n_draws, seed)
    extremes = np.empty(n_draws)
    step = max(1, CHUNK_CELLS // len(first))
    for start in range(0, n_draws, step):
        piece = noise[start : start + step]
        extremes[start : start + step] = np.abs(_over(piece[:, first] - piece[:, second], error)).max(axis=1)
    quantile = float(np.quantile(extremes, confidence))
    difference = np.abs(numbers[first] - numbers[second])
    observed = float(_over(difference, error).max())
    lowest, highest = int(np.argmin(numbers)), int(np.argmax(numbers))
    value = float(numbers[highest] - numbers[lowest])
    return Gap(
        interval=Interval(
            value,
            max(0.0, float(np.max(difference - quantile * error))),
            min(largest, float(np.max(difference + quantile * error))),
        ),
        expected_if_equal=float(np.mean(np.ptp(noise, axis=1))),
        p_equal=float((1 + np.count_nonzero(extremes >= observed)) / (1 + n_draws)),
        lowest=lowest,
        highest=highest,
    )


def ratio(
    values: ArrayLike,
    uncertainty: ArrayLike,
    *,
    seed: int | np.random.Generator,
    confidence: float = 0.95,
    n_draws: int = 10_000,
) -> Interval:
    """Lowest over highest value of the groups, in [0, 1]; 1 if all are equal, NaN if all are 0.

    The ends combine simultaneous bounds of the lowest and of the highest group, so the interval is on the wide side.

    Args:
        values: one per group, shape (G,), >= 0.
        uncertainty: as for ``worst``.
        seed: as for ``worst``.
        confidence: as for ``worst``.
        n_draws: as for ``worst``.
    Raises: as for ``worst``.
    """
    numbers, covariance = _checked(values, uncertainty, confidence, n_draws)
    if numbers.min() < 0:
        raise ValueError(f"a ratio needs values >= 0; got {numbers.min():g}")
    if numbers.max() == 0:
        return Interval(math.nan, math.nan, math.nan)
    error, quantile = _simultaneous(covariance, confidence, n_draws, seed)
    below, above = np.maximum(numbers - quantile * error, 0.0), numbers + quantile * error
    # The lowest group is at least min(below) and at most min(above); the highest likewise.
    high = min(1.0, float(above.min() / below.max())) if below.max() > 0 else 1.0
    return Interval(float(numbers.min() / numbers.max()), float(below.min() / above.max()), high)
