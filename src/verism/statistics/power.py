"""How large a drop ``non_inferiority`` sees with how many prompts, and how many prompts see a drop."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from verism.statistics._common import ClusterTotals, cluster_codes, design_effect, finite, student_quantile
from verism.statistics.non_inferiority import null_variance, skewed_quantile

__all__ = ["Spread", "drop_seen", "power_of_drop", "prompts_needed", "spread_of_pairs", "spread_of_run"]

MOST = 10_000_000  # prompts


@dataclass(frozen=True, kw_only=True)
class Spread:
    """How the differences of two runs vary between images.

    Attributes:
        discordance: share of images on which the verdicts of the runs differ, 0 to 1; None for values other than 0/1.
        correlation: correlation of the differences of two images of one prompt, 0 to 1.
        deviation: standard deviation of the differences, for values other than 0/1; else None.
    """

    discordance: float | None = None
    correlation: float = 0.0
    deviation: float | None = None

    def __post_init__(self) -> None:
        if (self.discordance is None) == (self.deviation is None):
            raise ValueError("give either the discordance of 0/1 values, or the standard deviation of others")
        if self.discordance is not None and not 0.0 < self.discordance <= 1.0:
            raise ValueError(f"discordance must lie in (0, 1]; got {self.discordance}")
        if self.deviation is not None and not self.deviation > 0.0:
            raise ValueError(f"deviation must be above 0; got {self.deviation}")
        if not 0.0 <= self.correlation <= 1.0:
            raise ValueError(f"correlation must lie in [0, 1]; got {self.correlation}")


def power_of_drop(
    drop: float,
    n_prompts: int,
    spread: Spread,
    *,
    margin: float = 0.0,
    images_per_prompt: int = 1,
    alpha: float = 0.05,
    n_tests: int = 1,
) -> float:
    """Chance that ``non_inferiority`` finds a drop to exceed a margin.

    The normal approximation to both tests (Connor 1987 for a margin of 0), at the design effect that the score test
    estimates on average, less half a step of the exact test of signs where it has steps of equal size. Where nearly all
    images that differ are losses, and few, the true power is larger than this.

    Args:
        drop: the true drop, in the unit of the values, above ``margin``.
        n_prompts: prompts, >= 2.
        spread: how differences vary.
        margin: the largest drop that is allowed.
        images_per_prompt: images of each prompt, >= 1.
        alpha: one-sided level.
        n_tests: tests that Holm's correction runs over, >= 1; the first of them is meant.
    Returns:
        In (0, 1).
    Raises:
        ValueError: a drop of at most the margin, or larger than the discordance.
    Source: Connor 1987, Biometrics 43:207-211; Tango 1998, Stat. Med. 17:891-908.
    """
    if not drop > margin:
        raise ValueError(f"only a drop above the margin {margin:g} is ever seen; got {drop:g}")
    k, n = images_per_prompt, n_prompts * images_per_prompt
    tail = 1 - alpha / n_tests
    within = 1 + (k - 1) * spread.correlation
    if spread.discordance is None:
        assert spread.deviation is not None
        error = spread.deviation * math.sqrt(within / n)
        threshold = skewed_quantile(1 - tail, n_prompts, -math.sqrt(6 / n_prompts)) * error
        return NormalDist().cdf((drop - margin - threshold) / error)
    if spread.discordance < drop:
        raise ValueError(
            f"a drop of {drop:g} needs as many images to differ; the discordance is {spread.discordance:g}"
        )
    error = math.sqrt((spread.discordance - drop**2) * within / n)
    step, by_error, effective, quantile = 0.0, 0.0, float(n), NormalDist().inv_cdf(tail)
    if k > 1:
        effective = _effective(drop, spread.discordance, error, n_prompts, k)
        quantile = student_quantile(n_prompts - 1, tail)
        by_error = skewed_quantile(1 - tail, n_prompts, -math.sqrt(6 / n_prompts)) * error
    elif margin == 0.0:
        step = 1.0 / n  # half of the step between two totals of as many discordant images
    gain = (spread.discordance - drop) / 2
    null = math.sqrt(null_variance(gain + drop, gain, margin) / effective)
    by_signs = NormalDist().inv_cdf(tail) * math.hypot(error, (drop - margin) / math.sqrt(n_prompts))
    threshold = max(quantile * null, by_signs, by_error)
    beyond = drop - margin - step - threshold
    return NormalDist().cdf(beyond / error) if error > 0 else float(beyond > 0)


def _effective(drop: float, discordance: float, error: float, n_prompts: int, k: int) -> float:
    """Effective number of images that the test takes, of prompts whose differences vary as they do on average."""
    spread = error * math.sqrt(n_prompts)
    signs = np.where(np.arange(n_prompts) % 2 == 0, 1.0, -1.0)
    signs[n_prompts // 2 * 2 :] = 0.0
    totals = ClusterTotals(k * (drop + spread * signs), np.full(n_prompts, float(k)))
    n = float(n_prompts * k)
    return min(max(n / design_effect(totals, n * discordance, lowest=-1.0, highest=1.0), float(n_prompts)), n)


def prompts_needed(
    drop: float,
    spread: Spread,
    *,
    power: float = 0.8,
    margin: float = 0.0,
    images_per_prompt: int = 1,
    alpha: float = 0.05,
    n_tests: int = 1,
) -> int:
    """The smallest number of prompts with which a drop is seen with a power.

    Args:
        drop: see ``power_of_drop``.
        spread: how differences vary.
        power: in (0, 1).
        margin: the largest drop that is allowed.
        images_per_prompt: images of each prompt, >= 1.
        alpha: one-sided level.
        n_tests: tests that Holm's correction runs over, >= 1.
    Returns:
        Prompts, >= 2.
    Raises:
        ValueError: see ``power_of_drop``; or more than ten million would be needed.
    """
    if not 0.0 < power < 1.0:
        raise ValueError(f"power must lie strictly between 0 and 1, such as 0.8; got {power}")

    def enough(n_prompts: int) -> bool:
        got = power_of_drop(
            drop,
            n_prompts,
            spread,
            margin=margin,
            images_per_prompt=images_per_prompt,
            alpha=alpha,
            n_tests=n_tests,
        )
        return got >= power

    low, high = 1, 2
    while not enough(high):
        low, high = high, 2 * high
        if high > MOST:
            raise ValueError(f"more than {MOST:,} prompts would be needed to see a drop of {drop:g} beyond {margin:g}")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def drop_seen(
    n_prompts: int,
    spread: Spread,
    *,
    power: float = 0.8,
    margin: float = 0.0,
    images_per_prompt: int = 1,
    alpha: float = 0.05,
    n_tests: int = 1,
) -> float:
    """The smallest true drop that a number of prompts sees with a power.

    Verdicts that differ by the drop itself are added to the discordance where it is smaller.

    Args:
        n_prompts: prompts, >= 2.
        spread: how differences vary.
        power: in (0, 1).
        margin: the largest drop that is allowed.
        images_per_prompt: images of each prompt, >= 1.
        alpha: one-sided level.
        n_tests: tests that Holm's correction runs over, >= 1.
    Returns:
        In the unit of the values; NaN where no drop would be seen.
    """
    most = 1.0 if spread.discordance is not None else margin + 1e6 * (spread.deviation or 0.0)
    low, high = margin, most

    def seen(drop: float) -> bool:
        wide = spread
        if spread.discordance is not None and spread.discordance < drop:
            wide = Spread(discordance=drop, correlation=spread.correlation)
        got = power_of_drop(
            drop, n_prompts, wide, margin=margin, images_per_prompt=images_per_prompt, alpha=alpha, n_tests=n_tests
        )
        return got >= power

    if not seen(high):
        return math.nan
    for _ in range(100):
        middle = (low + high) / 2
        if middle <= low or middle >= high:
            break
        low, high = (low, middle) if seen(middle) else (middle, high)
    return high


def spread_of_pairs(base: ArrayLike, new: ArrayLike, clusters: ArrayLike) -> Spread | None:
    """How the differences of a pair of runs vary.

    Args:
        base: values of the baseline, shape (N,).
        new: values of the new run for the same units in the same order, shape (N,).
        clusters: prompt of each unit, shape (N,).
    Returns:
        The spread; None where no two values differ.
    Raises:
        ValueError: NaN, or arrays of unequal length.
    Source: the intraclass correlation is that of the one-way analysis of variance (Donner 1986, Int. Stat. Rev.
        54:67-82).
    """
    first, second = finite(base, "base"), finite(new, "new")
    if first.shape != second.shape:
        raise ValueError(f"base and new must hold the same units; got {len(first)} and {len(second)}")
    difference = first - second
    if not np.any(difference):
        return None
    correlation = _within_prompts(difference, cluster_codes(clusters, len(first)))
    if np.all((first == 0) | (first == 1)) and np.all((second == 0) | (second == 1)):
        return Spread(discordance=float(np.mean(difference != 0)), correlation=correlation)
    deviation = float(np.std(difference, ddof=1)) if len(first) > 1 else 0.0
    return Spread(deviation=deviation, correlation=correlation) if deviation > 0 else None


def spread_of_run(values: ArrayLike, clusters: ArrayLike) -> Spread | None:
    """What the differences of a run and another of the same model would vary, from the run alone.

    Where prompts have several images, two images of one prompt differ as often as the images of two such runs. With one
    image per prompt the two runs are taken for independent, which needs more prompts than any real pair of runs does.
    The differences of one prompt are taken to be as much alike as its values are: an assumption on the safe side.

    Args:
        values: values of the run, shape (N,).
        clusters: prompt of each unit, shape (N,).
    Returns:
        The spread; None where all values are equal.
    Raises:
        ValueError: NaN, or not one label for each value.
    """
    array = finite(values, "values")
    codes = cluster_codes(clusters, len(array))
    if len(array) < 2 or not np.var(array) > 0:
        return None
    correlation = _within_prompts(array, codes)
    several = len(np.unique(codes)) < len(array)
    variance = 2 * float(np.var(array)) * (1 - correlation if several else 1.0)
    if not variance > 0:
        variance = 2 * float(np.var(array)) / len(array)  # prompts decide all of it, as far as these images show
    if np.all((array == 0) | (array == 1)):
        return Spread(discordance=variance, correlation=correlation)
    return Spread(deviation=math.sqrt(variance), correlation=correlation)


def _within_prompts(values: np.ndarray, codes: np.ndarray) -> float:
    """Intraclass correlation, between 0 and 1; 0 where every prompt has one image."""
    sizes = np.bincount(codes).astype(np.float64)
    n, k = float(sizes.sum()), len(sizes)
    if k < 2 or n <= k:
        return 0.0
    means = np.bincount(codes, values) / sizes
    between = float(np.sum(sizes * (means - values.mean()) ** 2)) / (k - 1)
    inside = float(np.sum((values - means[codes]) ** 2)) / (n - k)
    usual = (n - float(np.sum(sizes**2)) / n) / (k - 1)
    total = between + (usual - 1) * inside
    return min(max((between - inside) / total, 0.0), 1.0) if total > 0 else 0.0
