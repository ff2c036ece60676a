"""Inception score: how sure a classifier is of each image, and how varied the images are to it.

``exp(mean KL(p(y|x) || p(y)))`` over images, with p(y) the mean of their class probabilities.

Sources: Salimans et al. 2016, arXiv:1606.03498, section 4 and its released code (ten splits); Barratt & Sharma 2018,
arXiv:1801.01973 (what it is not).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verism.statistics._common import (
    Floats,
    check_confidence,
    cluster_totals,
    ratio_variance,
    student_quantile,
)

__all__ = ["InceptionScore", "inception_score"]

CHUNK_ROWS = 4096  # images whose predictions are converted to float64 at once: 32 MiB at 1,000 classes
SUM_TOLERANCE = 1e-3  # probabilities stored in float16 add up to 1 only so far


class InceptionScore(NamedTuple):
    """Inception score, as published and of all images at once.

    Attributes:
        mean: over splits, in [1, C]; higher is better.
        std: between splits (divided by their number), as printed.
        value: of all images at once, in [1, C]: not below the scores of splits on average, which see less variety.
        low: lower end of the interval of ``value``; NaN with fewer than two clusters.
        high: upper end.
        n: images.
        splits: parts of ``mean``.
    """

    mean: float
    std: float
    value: float
    low: float
    high: float
    n: int
    splits: int


def inception_score(
    predictions: ArrayLike,
    *,
    kind: Literal["logits", "probabilities"],
    splits: int = 10,
    clusters: ArrayLike | None = None,
    confidence: float = 0.95,
) -> InceptionScore:
    """Inception score of images from a classifier's predictions.

    Splits are consecutive parts in the order given, as published; torch-fidelity shuffles first. Scores of splits grow
    with their size, so compare equal numbers of images and splits.

    The interval is of the log of the score, whose influence function is the divergence of each image from the mean:
    mean plus or minus Student's t times the standard error of these divergences between clusters. It is about the
    expected score at this number of images, whose bias (too low with few) is part of it.

    Args:
        predictions: shape (N, C): logits (any real numbers), or probabilities (>= 0, rows of sum 1).
        kind: which of both. There is no guessing: logits may look like probabilities.
        splits: parts, from 1 to N.
        clusters: label of each image's prompt, shape (N,), if prompts have several images.
        confidence: confidence level, in (0, 1).
    Raises:
        ValueError: shapes, NaN, infinite logits, rows that are no probabilities, labels or splits that do not fit.

    >>> inception_score([[1.0, 0.0], [0.0, 1.0]], kind="probabilities", splits=1).value   # two classes, both certain
    2.0
    """
    check_confidence(confidence)
    if kind not in ("logits", "probabilities"):
        raise ValueError(f"kind must be 'logits' or 'probabilities'; got {kind!r}")
    values = np.asarray(predictions)
    if values.ndim != 2 or not values.shape[0] or not values.shape[1]:
        raise ValueError(f"predictions must have shape (images, classes), neither 0; got {values.shape}")
    n = len(values)
    if not 1 <= splits <= n:
        raise ValueError(f"splits must lie in 1 .. {n}, the images; got {splits}")
    read = _from_logits if kind == "logits" else _from_probabilities
    divergences = _divergences(values, read)
    scores = [
        math.exp(_divergences(values[i * n // splits : (i + 1) * n // splits], read).mean()) for i in range(splits)
    ]
    log_score = float(divergences.mean())
    low = high = math.nan
    totals = cluster_totals(divergences, np.arange(n) if clusters is None else clusters)
    if len(totals.sizes) > 1:
        freedom = len(totals.sizes) - 1
        half = student_quantile(freedom, (1 + confidence) / 2) * math.sqrt(ratio_variance(totals))
        low, high = max(1.0, math.exp(log_score - half)), min(float(values.shape[1]), math.exp(log_score + half))
    return InceptionScore(float(np.mean(scores)), float(np.std(scores)), math.exp(log_score), low, high, n, splits)


Read = Callable[[Floats], tuple[Floats, Floats]]


def _divergences(values: NDArray[Any], read: Read) -> Floats:
    """KL(p_i || mean p) per image, shape (N,): classes nobody gives a chance to count nothing.

    Predictions are read twice, a part at a time: the array may be a file that is larger than the memory.

    Args:
        values: predictions, shape (N, C).
        read: probabilities of some of them, and the sum of p log p of each.
    """
    starts = range(0, len(values), CHUNK_ROWS)
    total = np.zeros((0, values.shape[1]))
    for start in starts:
        p, _ = read(values[start : start + CHUNK_ROWS].astype(np.float64))
        # Row after row onto what there is: the same to the last bit as the sum of one array.
        total = np.concatenate([total, p]).sum(axis=0, keepdims=True)
    mean = total[0] / len(values)
    seen = mean > 0
    logs = np.log(mean[seen])
    found = np.zeros(len(values))
    for start in starts:
        p, negative_entropy = read(values[start : start + CHUNK_ROWS].astype(np.float64))
        # Rounding may leave -1e-17 where all images are alike.
        found[start : start + CHUNK_ROWS] = np.maximum(negative_entropy - p[:, seen] @ logs, 0.0)
    return found


def _from_logits(logits: Floats) -> tuple[Floats, Floats]:
    """Probabilities, shape (N, C), and sum of p log p per image, without the log of a rounded probability."""
    if not np.isfinite(logits).all():
        raise ValueError("logits must be finite; remove images with NaN or infinity first, and count them")
    shifted = logits - logits.max(axis=1, keepdims=True)
    powers = np.exp(shifted)
    total = powers.sum(axis=1, keepdims=True)
    p = powers / total
    return p, np.sum(p * shifted, axis=1) - np.log(total[:, 0])


def _from_probabilities(p: Floats) -> tuple[Floats, Floats]:
    sums = p.sum(axis=1)
    if not (np.isfinite(p).all() and p.min() >= 0 and np.abs(sums - 1).max() <= SUM_TOLERANCE):
        raise ValueError(
            "probabilities must be >= 0 with rows of sum 1; "
            f"got values from {p.min():g} to {p.max():g} and sums from {sums.min():g} to {sums.max():g}. "
            "Are they logits? Then say kind='logits'"
        )
    p = p / sums[:, None]
    logs = np.log(np.where(p > 0, p, 1.0))
    return p, np.sum(p * logs, axis=1)
