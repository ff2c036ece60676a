"""Strengths of several sides from wins in pairs, by the model of Bradley and Terry, with intervals by prompt."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verism.statistics._common import check_confidence, check_resamples, student_quantile

__all__ = ["BradleyTerry", "bradley_terry"]

Floats = NDArray[np.float64]
MOST_STEPS = 100
LONGEST_STEP = 1.5  # of Newton's method, in units of a strength: longer ones may overshoot where wins are lopsided
CHUNK_CELLS = 4_000_000


class BradleyTerry(NamedTuple):
    """Strengths of K sides: the chance that i wins over j is 1 / (1 + exp(s_j - s_i)).

    Attributes:
        strengths: shape (K,), natural logarithms of odds, their mean 0; NaN where some sides were never compared with
            others, not even through third ones.
        low: lower ends of their intervals, shape (K,); NaN where they cannot be known.
        high: upper ends.
        chances: chance of each row's side to win over each column's by the strengths, shape (K, K); 0.5 on the
            diagonal.
        bounded: whether the wins alone bound every strength: every group of sides has won against some other, and lost.
            If not, the strengths rest on ``prior``, and there are no intervals.
        n_clusters: prompts with a comparison.
        n_undefined: resamples in which some strength could not be estimated, which are left out of the intervals.
    """

    strengths: Floats
    low: Floats
    high: Floats
    chances: Floats
    bounded: bool
    n_clusters: int
    n_undefined: int


def bradley_terry(
    wins: ArrayLike,
    *,
    prior: float = 1.0,
    n_resamples: int = 2_000,
    confidence: float = 0.95,
    seed: int | np.random.Generator = 0,
) -> BradleyTerry:
    """Maximum-likelihood strengths with expanded percentile intervals of a bootstrap over prompts.

    Args:
        wins: by prompt, wins of row i over column j, shape (P, K, K), K >= 2, finite and >= 0: a tie counts half for
            either side. Zero for both where two sides were not compared. The diagonal is not read.
        prior: comparisons added to every pair of sides, as ties, >= 0. Strengths are then finite whatever the wins; for
            two sides, 1 is Anscombe's correction of log odds. 0: pure maximum likelihood, NaN where it is infinite.
        n_resamples: resamples of prompts; 0: no intervals.
        confidence: confidence level, in (0, 1).
        seed: of the resamples.

    Raises:
        ValueError: another shape, negative or infinite wins, or a negative prior.

    Source: Bradley & Terry 1952, Biometrika 39:324-345; ties as half wins; Ford 1957, Am. Math. Mon. 64:28-33 (when
        strengths are bounded); Anscombe 1956, Biometrika 43:461-464; Davison & Hinkley 1997, Sec. 3.8
        (clusters); Hesterberg 2015, Am. Stat. 69:371-386, Sec. 5.2 (expanded percentiles).

    >>> one = [[0, 1], [0, 0]]  # three prompts, of which the first side wins two
    >>> result = bradley_terry([one, one, np.transpose(one)], prior=0, n_resamples=0)
    >>> np.round(result.strengths, 3).tolist()  # half the log odds of 2 to 1
    [0.347, -0.347]
    """
    check_confidence(confidence)
    if n_resamples:
        check_resamples(n_resamples)
    table = np.asarray(wins, dtype=np.float64)
    if table.ndim != 3 or table.shape[1] != table.shape[2] or table.shape[1] < 2:
        raise ValueError(f"wins must have the shape (prompts, K, K) with K >= 2; got {table.shape}")
    if not np.isfinite(table).all() or (table < 0).any():
        raise ValueError("wins must be finite numbers >= 0; leave out what is not known")
    if not prior >= 0 or not np.isfinite(prior):
        raise ValueError(f"prior must be a finite number >= 0; got {prior}")
    k = table.shape[1]
    table = table * (1 - np.eye(k))
    table = table[table.sum(axis=(1, 2)) > 0]
    n = len(table)
    nothing = np.full(k, np.nan)
    total = table.sum(axis=0)
    games = total + total.T
    if not n or not _reaches_all(games > 0):
        return BradleyTerry(nothing, nothing, nothing, np.full((k, k), np.nan), False, n, 0)
    bounded = _reaches_all(total > 0) and _reaches_all(total.T > 0)
    added = prior / 2 * (1 - np.eye(k))
    strengths = _fit((total + added)[None])[0] if bounded or prior > 0 else nothing
    chances = 1 / (1 + np.exp(strengths[None, :] - strengths[:, None]))
    low, high, n_undefined = nothing, nothing, 0
    if bounded and n_resamples and n > 1:
        found = _resampled(table, added, n_resamples, np.random.default_rng(seed))
        defined = found[np.isfinite(found).all(axis=1)]
        n_undefined = len(found) - len(defined)
        if n_undefined <= 0.01 * n_resamples and not np.allclose(defined, defined[0], atol=1e-12):
            # Percentiles are too close by the spread of few prompts: those of Student's distribution, further out.
            reach = math.sqrt(n / (n - 1)) * student_quantile(n - 1, (1 + confidence) / 2)
            out = NormalDist().cdf(-reach)
            low, high = np.quantile(defined, [out, 1 - out], axis=0)
    return BradleyTerry(strengths, low, high, chances, bounded, n, n_undefined)


def _resampled(table: Floats, added: Floats, n_resamples: int, rng: np.random.Generator) -> Floats:
    """Strengths of each resample of prompts, shape (n_resamples, K); NaN where they cannot be estimated."""
    n, k, _ = table.shape
    kinds, counts = np.unique(table.reshape(n, k * k), axis=0, return_counts=True)
    found = np.full((n_resamples, k), np.nan)
    step = max(1, CHUNK_CELLS // max(len(counts), k * k))
    for start in range(0, n_resamples, step):
        size = min(step, n_resamples - start)
        drawn = rng.multinomial(n, counts / n, size=size) @ kinds
        drawn = drawn.reshape(size, k, k)
        # Where sides fall apart, the prior alone would say how far they are from each other.
        usable = np.array([_reaches_all(each + each.T > 0) for each in drawn])
        if not added.any():
            usable &= np.array([_reaches_all(each > 0) and _reaches_all(each.T > 0) for each in drawn])
        if usable.any():
            part = found[start : start + size]
            part[usable] = _fit(drawn[usable] + added)
    return found


def _reaches_all(edges: NDArray[np.bool_]) -> bool:
    """Whether every side can be reached from the first along edges."""
    reached = np.zeros(len(edges), dtype=bool)
    reached[0] = True
    for _ in range(len(edges)):
        reached |= edges[reached].any(axis=0)
    return bool(reached.all())


def _fit(wins: Floats) -> Floats:
    """Maximum-likelihood strengths of several tables of wins at once, (B, K, K) to (B, K), by Newton's method."""
    b, k, _ = wins.shape
    games = wins + wins.transpose(0, 2, 1)
    strengths = np.zeros((b, k))
    for _ in range(MOST_STEPS):
        chance = 1 / (1 + np.exp(np.clip(strengths[:, None, :] - strengths[:, :, None], -700, 700)))
        slope = (wins - games * chance).sum(axis=2)
        weight = games * chance * (1 - chance)
        curve = -weight
        curve[:, np.arange(k), np.arange(k)] = weight.sum(axis=2)
        # A constant added to all strengths changes nothing: the ones keep their sum at 0.
        change = np.linalg.solve(curve + 1 / k, slope[:, :, None])[:, :, 0]
        longest = np.abs(change).max(axis=1, keepdims=True)
        strengths += change * np.minimum(1, LONGEST_STEP / np.maximum(longest, 1e-300))
        if longest.max() < 1e-10:
            break
    centred: Floats = strengths - strengths.mean(axis=1, keepdims=True)
    return centred
