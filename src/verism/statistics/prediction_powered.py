"""Many answers of a judge and few of people: what the people would have said of everything.

A judge looked at all images, people at a random part of them. The judge's mean over all is precise and wrong by its
bias; the mean of the people's answers is right and imprecise. Prediction-powered inference takes the first and adds the
mean difference of both on the part that people saw: right whatever the judge's errors are, and more precise than the
people alone as far as the judge agrees with them.

Source: Angelopoulos et al. 2023, Science 382:669-674 (prediction-powered inference); Angelopoulos, Duchi, Zrnic 2023,
arXiv:2311.01453 (PPI++: the factor ``lam``). We differ in that the images with labels are among those that were
judged, in weights, in clusters (prompts) as the units of the variance, and in what is said at ``ppi_sum``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from verism.statistics._common import Floats, check_confidence, cluster_codes, finite, student_quantile
from verism.statistics.intervals import Interval

__all__ = ["Corrected", "LabelledMean", "labels_needed", "ppi_mean", "ppi_sum"]

FEWEST = 2  # labelled prompts below which no variance can be told


class LabelledMean(NamedTuple):
    """One weighted mean over images, of which some were labelled.

    Attributes:
        judged: what the judge's answer counts as, shape (N,).
        truth: what the people's answer counts as; NaN where nobody was asked or none could be told, shape (N,).
        weights: of each image in the mean, shape (N,), not negative; None for equal ones.
        clusters: prompt of each image, shape (N,); None if images are independent.
        coefficient: what the mean is multiplied by in a sum.
        inclusion: probability with which each image was to be labelled, up to a factor, shape (N,); None for equal.
    """

    judged: ArrayLike
    truth: ArrayLike
    weights: ArrayLike | None = None
    clusters: ArrayLike | None = None
    coefficient: float = 1.0
    inclusion: ArrayLike | None = None


class Corrected(NamedTuple):
    """A number with the judge's error taken out; NaN where it cannot be.

    Attributes:
        value: the corrected number.
        low: lower end of its interval.
        high: upper end.
        uncorrected: what the judge says of all images.
        labels_only: what the people's answers say alone, with an interval made in the same way.
        n_labels: answers of people that entered.
        effective_n: answers of people alone that would give an interval as narrow.
        lam: how far the judge is trusted, from 0 (labels only) to 1, averaged over the parts of a sum.
        note: why there is no value, or what to mind.
    """

    value: float
    low: float
    high: float
    uncorrected: float
    labels_only: Interval
    n_labels: int
    effective_n: float
    lam: float
    note: str = ""


def ppi_mean(
    judged: ArrayLike,
    truth: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    inclusion: ArrayLike | None = None,
    confidence: float = 0.95,
    tune: bool = True,
    bounds: tuple[float, float] | None = None,
) -> Corrected:
    """The mean that people would have given all images; see ``LabelledMean`` and ``ppi_sum``.

    >>> result = ppi_mean([1, 1, 1, 0] * 50, [1, 0, 1, 0] * 20 + [float("nan")] * 120)
    >>> round(result.uncorrected, 2), round(result.value, 2), result.n_labels
    (0.75, 0.5, 80)
    """
    part = LabelledMean(judged, truth, weights, clusters, 1.0, inclusion)
    return ppi_sum([part], confidence=confidence, tune=tune, bounds=bounds)


def ppi_sum(
    parts: Sequence[LabelledMean],
    *,
    confidence: float = 0.95,
    tune: bool = True,
    bounds: tuple[float, float] | None = None,
) -> Corrected:
    """A sum of coefficient times mean over several sets of images (a difference of groups, a mean of skills).

    For each part, with judged values f, labels y on the labelled images L, weights w that sum to 1 over all images
    and v that sum to 1 over L: ``lam * sum(w f) + sum(v (y - lam f))``. ``lam`` is the one with the least variance, cut
    to [0, 1]. The variance is that of the sums per cluster of each image's influence, over the clusters of all parts
    together, so that a prompt in two parts counts as one. Student's t with as many degrees of freedom as there are
    labelled clusters, less one.

    If judge and people never disagreed on the labelled images, these would show no variance at all; as this is
    certain only for infinitely many labels, one imaginary label that differs is added to the variance of each part,
    half of it upwards and half of it downwards: by the whole range for values of two kinds, by two standard deviations
    for others. It matters for few labels only.

    Args:
        parts: at least one.
        confidence: confidence level of the intervals, in (0, 1).
        tune: choose ``lam``; else it is 1.
        bounds: ends that the number cannot pass, to which the interval is cut.

    Raises:
        ValueError: arrays of unequal length, or weights or probabilities that cannot be.
    """
    check_confidence(confidence)
    if not parts:
        raise ValueError("a sum needs at least one part")
    prepared = [_prepare(part) for part in parts]
    uncorrected = math.fsum(p.coefficient * p.judged_mean for p in prepared)
    n_labels = sum(int(p.labelled.sum()) for p in prepared)
    names = np.unique(np.concatenate([p.clusters for p in prepared])) if prepared else np.zeros(0)
    codes = [np.searchsorted(names, p.clusters) for p in prepared]
    n_labelled = len(np.unique(np.concatenate([code[p.labelled] for p, code in zip(prepared, codes, strict=True)])))
    if n_labelled < FEWEST or any(not p.labelled.any() for p in prepared):
        nothing = Interval(math.nan, math.nan, math.nan)
        why = f"labels of {n_labelled} prompts in all, and every part needs some; ask people about more images"
        return Corrected(math.nan, math.nan, math.nan, uncorrected, nothing, n_labels, math.nan, math.nan, why)
    influence, alone = np.zeros(len(names)), np.zeros(len(names))
    pad = value = label_value = trust = 0.0
    for p, code in zip(prepared, codes, strict=True):
        total = np.bincount(code, p.label_term, minlength=len(names))
        judge_terms = np.bincount(code, p.judge_term, minlength=len(names))
        spread = float(judge_terms @ judge_terms)
        lam = 1.0
        if tune:
            lam = min(1.0, max(0.0, -float(total @ judge_terms) / spread)) if spread > 0 else 0.0
        value += p.coefficient * (lam * p.judged_mean + p.label_mean - lam * p.judged_mean_labelled)
        label_value += p.coefficient * p.label_mean
        influence += p.coefficient * (total + lam * judge_terms)
        alone += p.coefficient * total
        pad += (p.coefficient * p.span * p.label_weight) ** 2
        trust += lam / len(prepared)
    tail = student_quantile(n_labelled - 1, (1 + confidence) / 2)
    # The clusters without labels add to the judge's mean only; few labelled clusters are what limits the variance.
    growth = n_labelled / (n_labelled - 1)
    error, error_alone = (growth * float(x @ x) + pad for x in (influence, alone))
    half, half_alone = tail * math.sqrt(error), tail * math.sqrt(error_alone)
    low, high = _cut(value, half, bounds)
    low_alone, high_alone = _cut(label_value, half_alone, bounds)
    if bounds is not None:
        value, label_value = min(max(value, bounds[0]), bounds[1]), min(max(label_value, bounds[0]), bounds[1])
    return Corrected(
        value=value,
        low=low,
        high=high,
        uncorrected=uncorrected,
        labels_only=Interval(label_value, low_alone, high_alone),
        n_labels=n_labels,
        effective_n=n_labels * error_alone / error if error > 0 else math.nan,
        lam=trust,
    )


def labels_needed(
    half_width: float,
    *,
    n_images: int,
    sd: float,
    correlation: float = 0.0,
    design_effect: float = 1.0,
    confidence: float = 0.95,
) -> int | None:
    """Answers of people that are needed for an interval of ``value +- half_width``; None if all would not do.

    The variance with n labels among N images is ``deff * sd**2 * ((1 - r**2) / n + r**2 / N)``, where r is the
    correlation of judge and people; with r = 0 it is that of labels alone.

    Args:
        half_width: wanted, > 0.
        n_images: that the judge looked at.
        sd: of people's answers over images: at most half the range; for a share p, ``sqrt(p (1 - p))``.
        correlation: of judge and people over images, from -1 to 1; a weak guess if there is a pilot study, 0 if not.
        design_effect: growth of the variance because images of a prompt are alike, >= 1.
        confidence: confidence level of the interval, in (0, 1).

    >>> labels_needed(0.05, n_images=2000, sd=0.5), labels_needed(0.05, n_images=2000, sd=0.5, correlation=0.8)
    (385, 185)
    """
    check_confidence(confidence)
    if not half_width > 0 or not sd >= 0 or not -1 <= correlation <= 1 or not design_effect >= 1 or n_images < 1:
        raise ValueError(
            "half_width must be positive, sd not negative, correlation within [-1, 1], design_effect at least 1 and "
            f"n_images at least 1; got {half_width}, {sd}, {correlation}, {design_effect}, {n_images}"
        )
    from scipy.special import ndtri

    wanted = (half_width / float(ndtri((1 + confidence) / 2))) ** 2
    variance = design_effect * sd**2
    room = wanted - variance * correlation**2 / n_images
    needed = variance * (1 - correlation**2)
    if room <= 0:
        return None
    labels = max(FEWEST, math.ceil(needed / room - 1e-9))
    return labels if labels <= n_images else None


class _Prepared(NamedTuple):
    clusters: Floats | np.ndarray
    labelled: np.ndarray
    coefficient: float
    judged_mean: float
    judged_mean_labelled: float
    label_mean: float
    label_term: Floats  # influence of each image on the mean of the labels
    judge_term: Floats  # influence of each image on lam's factor: judged mean of all less that of the labelled
    label_weight: float  # of a typical label
    span: float


def _prepare(part: LabelledMean) -> _Prepared:
    judged = finite(part.judged, "judged")
    n = len(judged)
    truth = np.asarray(part.truth, dtype=np.float64)
    if truth.shape != (n,) or np.isinf(truth).any():
        raise ValueError(f"truth must give a number or NaN for each of the {n} images; got shape {truth.shape}")
    weights = _positive(part.weights, "weights", n, zero=True)
    chances = _positive(part.inclusion, "inclusion", n, zero=False)
    if part.clusters is None:
        clusters: np.ndarray = np.arange(n).astype(str)
    else:
        cluster_codes(part.clusters, n)
        clusters = np.asarray(part.clusters).astype(str)
    labelled = ~np.isnan(truth) & (weights > 0)
    weights = weights / weights.sum() if n else weights
    label_weights = np.where(labelled, weights / chances, 0.0)
    label_weights = label_weights / label_weights.sum() if labelled.any() else label_weights
    answers = np.where(labelled, truth, 0.0)
    judged_mean, on_labelled = float(weights @ judged), float(label_weights @ judged)
    label_mean = float(label_weights @ answers) if labelled.any() else math.nan
    values = np.concatenate([judged, answers[labelled]])
    return _Prepared(
        clusters=clusters,
        labelled=labelled,
        coefficient=part.coefficient,
        judged_mean=judged_mean,
        judged_mean_labelled=on_labelled,
        label_mean=label_mean,
        label_term=label_weights * (answers - (label_mean if labelled.any() else 0.0)),
        judge_term=weights * (judged - judged_mean) - label_weights * (judged - on_labelled),
        label_weight=float(label_weights @ label_weights),
        span=_span(values),
    )


def _span(values: Floats) -> float:
    """How far a label may well differ from what was judged."""
    if not len(values):
        return 0.0
    return float(np.ptp(values)) if len(np.unique(values)) <= 2 else 2 * float(np.std(values))


def _positive(values: ArrayLike | None, name: str, n: int, *, zero: bool) -> Floats:
    if values is None:
        return np.ones(n)
    array = finite(values, name)
    if array.shape != (n,) or (array < 0).any() or (not zero and (array == 0).any()) or (n and not array.sum() > 0):
        raise ValueError(f"{name} must give a number above 0 for each of the {n} images; got shape {array.shape}")
    return array


def _cut(value: float, half: float, bounds: tuple[float, float] | None) -> tuple[float, float]:
    low, high = value - half, value + half
    return (low, high) if bounds is None else (max(low, bounds[0]), min(high, bounds[1]))
