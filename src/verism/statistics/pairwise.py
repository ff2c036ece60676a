"""Pairwise accuracy of a metric against people's ratings, with ties on either side.

A metric that gives real numbers never ties, and people who rate from 1 to 5 tie all the time. Pairs that people tie are
therefore predicted as ties where the metric's difference is at most a threshold, and the threshold is the one that is
best on the same data (Deutsch, Foster & Freitag 2023, "Ties Matter", arXiv:2305.14324). A constant metric then earns
the share of ties.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verism.statistics._common import Floats, check_confidence, finite_pair
from verism.statistics.agreement import cluster_labels

__all__ = ["PairwiseAccuracy", "pairwise_accuracy"]


class PairwiseAccuracy(NamedTuple):
    """Share of pairs of units that a metric puts as people do.

    Attributes:
        value: in [0, 1]; NaN without a pair.
        low: lower end of the interval; NaN where it cannot be known.
        high: upper end.
        threshold: largest difference of scores that counts as a tie, in units of the scores.
        cross_fitted: the same with thresholds chosen on other clusters; NaN for fewer than four clusters, or where a
            half has no pair. The distance to ``value`` is what choosing the threshold on the same data gains.
        n_pairs: pairs of units.
        n_tied: those that people tie.
    """

    value: float
    low: float
    high: float
    threshold: float
    cross_fitted: float
    n_pairs: int
    n_tied: int


def pairwise_accuracy(
    scores: ArrayLike,
    ratings: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    threshold: float | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> PairwiseAccuracy:
    """Pairwise accuracy over all pairs of units, with the threshold of ties that is best on these pairs.

    A pair is right if both sides order it alike and the scores differ by more than the threshold, or if people tie it
    and they differ by no more. Every threshold that can matter is tried.

    Args:
        scores: of the metric, larger for better, shape (N,), finite.
        ratings: of people, shape (N,), finite. Equal to the last bit is a tie.
        clusters: of units (their prompts), shape (N,); None: each is its own.
        threshold: a fixed one, >= 0; None: the best one, the smallest of several.
        confidence: confidence level of the interval, in (0, 1).
        seed: of the halves of clusters for ``cross_fitted``.

    Returns:
        The accuracy, with an interval by a jackknife over clusters at that threshold. Choosing the threshold does not
        enter the interval: at an optimum the accuracy does not depend on it to first order.

    Raises:
        ValueError: unequal lengths, NaN or infinity, a negative threshold.

    Source: Deutsch et al. 2023, Sec. 5 (calibration of ties); Efron & Stein 1981, Ann. Stat. 9:586-596 (jackknife).

    >>> found = pairwise_accuracy([0.9, 0.5, 0.45], [5, 3, 3])
    >>> found.value, round(found.threshold, 2), found.n_tied
    (1.0, 0.05, 1)
    """
    check_confidence(confidence)
    score, rating = finite_pair(scores, ratings)
    if threshold is not None and not threshold >= 0:
        raise ValueError(f"threshold must be at least 0; got {threshold}")
    labels = cluster_labels(clusters, len(score))
    n = len(score)
    n_pairs = n * (n - 1) // 2
    if not n_pairs:
        return PairwiseAccuracy(math.nan, math.nan, math.nan, threshold or 0.0, math.nan, 0, 0)
    n_tied = sum(int(np.count_nonzero(tied)) for _, _, _, tied in _pairs(score, rating))
    chosen = _best_threshold(score, rating) if threshold is None else float(threshold)
    _, codes = np.unique(labels, return_inverse=True)
    right, of_cluster, pairs_of_cluster = _right_by_cluster(score, rating, codes, chosen)
    low, high = _jackknife(right, n_pairs, of_cluster, pairs_of_cluster, confidence)
    held_out = _cross_fitted(score, rating, codes, seed) if threshold is None else math.nan
    return PairwiseAccuracy(right / n_pairs, low, high, chosen, held_out, n_pairs, n_tied)


def _pairs(score: Floats, rating: Floats) -> Iterator[tuple[int, Floats, NDArray[np.bool_], NDArray[np.bool_]]]:
    """Each unit with all later ones: its number, distances of scores, where both sides order alike, where people tie.

    Row by row, as all pairs of 10,000 units would take gigabytes.
    """
    for i in range(len(score) - 1):
        difference = score[i] - score[i + 1 :]
        rated = rating[i] - rating[i + 1 :]
        yield i, np.abs(difference), np.sign(difference) * np.sign(rated) > 0, rated == 0


def _best_threshold(score: Floats, rating: Floats) -> float:
    alike: list[Floats] = []
    tied: list[Floats] = []
    for _, distance, same, ties in _pairs(score, rating):
        alike.append(distance[same])
        tied.append(distance[ties])
    ordered, equal = np.sort(np.concatenate(alike)), np.sort(np.concatenate(tied))
    # Only at the distance of a tied pair can a larger threshold win anything.
    candidates = np.unique(np.append(equal, 0.0))
    lost = np.searchsorted(ordered, candidates, side="right")
    won = np.searchsorted(equal, candidates, side="right")
    return float(candidates[int(np.argmax(won - lost))])


def _right_by_cluster(
    score: Floats, rating: Floats, codes: NDArray[np.intp], threshold: float
) -> tuple[int, Floats, Floats]:
    """Pairs that are right; and by cluster those right, and all, that have a unit in it."""
    n_clusters = int(codes.max()) + 1
    of_cluster, all_pairs, total = np.zeros(n_clusters), np.zeros(n_clusters), 0
    for i, distance, same, tied in _pairs(score, rating):
        right = np.where(tied, distance <= threshold, same & (distance > threshold))
        later, own = codes[i + 1 :], codes[i]
        n_right = int(np.count_nonzero(right))
        total += n_right
        other = later != own  # a pair within a cluster is one pair of it, not two
        of_cluster += np.bincount(later[right & other], minlength=n_clusters)
        all_pairs += np.bincount(later[other], minlength=n_clusters)
        of_cluster[own] += n_right
        all_pairs[own] += len(later)
    return total, of_cluster, all_pairs


def _jackknife(
    right: int, n_pairs: int, of_cluster: Floats, pairs_of_cluster: Floats, confidence: float
) -> tuple[float, float]:
    from scipy.stats import t

    n_clusters = len(of_cluster)
    left = n_pairs - pairs_of_cluster
    if n_clusters < 3 or not (left > 0).all():
        return math.nan, math.nan
    without = (right - of_cluster) / left
    error = math.sqrt((n_clusters - 1) / n_clusters * float(np.sum((without - without.mean()) ** 2)))
    if error == 0:
        return math.nan, math.nan
    reach = float(t.ppf((1 + confidence) / 2, n_clusters - 1)) * error
    value = right / n_pairs
    return max(value - reach, 0.0), min(value + reach, 1.0)


def _cross_fitted(score: Floats, rating: Floats, codes: NDArray[np.intp], seed: int) -> float:
    n_clusters = int(codes.max()) + 1
    if n_clusters < 4:
        return math.nan
    first = np.isin(codes, np.random.default_rng(seed).permutation(n_clusters)[: n_clusters // 2])
    right = pairs = 0
    for chosen_on, used_on in ((first, ~first), (~first, first)):
        if chosen_on.sum() < 2 or used_on.sum() < 2:
            return math.nan
        threshold = _best_threshold(score[chosen_on], rating[chosen_on])
        right += _right_by_cluster(score[used_on], rating[used_on], codes[used_on], threshold)[0]
        pairs += int(used_on.sum() * (used_on.sum() - 1) // 2)
    return right / pairs
