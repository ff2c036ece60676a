"""Many answers of a judge and few of annotators: the mean that annotators would give for all images.

A judge observes all images, annotators a random part of them. The judge's mean over all is precise but biased; the mean
of the annotators' labels is unbiased but imprecise. Prediction-powered inference takes the first and adds the mean
difference of both on the labelled part: valid whatever the judge's errors are, and more precise than the labels alone
as far as the judge agrees with them.

Source: Angelopoulos et al. 2023, Science 382:669-674 (prediction-powered inference); Angelopoulos, Duchi, Zrnic 2023,
arXiv:2311.01453 (PPI++: the factor ``lam``). We differ in that the images with labels are among those that were
judged, in weights, in clusters (prompts) as the units of the variance, and as described at ``ppi_sum``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from verism.statistics._common import (
    Floats,
    check_confidence,
    cluster_codes,
    cluster_totals,
    effective_size,
    finite,
    student_quantile,
)
from verism.statistics.intervals import Interval

__all__ = ["AdjustedNumber", "LabelledMean", "labels_needed", "ppi_mean", "ppi_sum"]

FEWEST = 2  # labelled prompts below which no variance can be estimated


class LabelledMean(NamedTuple):
    """One weighted mean over images, of which some were labelled.

    Attributes:
        judged: what the judge's answer counts as, shape (N,).
        truth: what the annotators' answer counts as; NaN where there is none, shape (N,).
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


class AdjustedNumber(NamedTuple):
    """A number adjusted for the judge's error; NaN where it cannot be.

    Attributes:
        value: the adjusted number.
        low: lower end of its interval.
        high: upper end.
        as_judged: the judge's mean over all images.
        labels_only: the mean by the labels alone, with an interval made in the same way.
        n_labels: answers of people that entered.
        effective_n: answers of people alone that would give an interval as narrow.
        lam: how far the judge is trusted, from 0 (labels only) to 1, averaged over the parts of a sum.
        note: why there is no value, or what to mind.
    """

    value: float
    low: float
    high: float
    as_judged: float
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
) -> AdjustedNumber:
    """The mean that people would have given all images; see ``LabelledMean`` and ``ppi_sum``.

    >>> result = ppi_mean([1, 1, 1, 0] * 50, [1, 0, 1, 0] * 20 + [float("nan")] * 120)
    >>> round(result.as_judged, 2), round(result.value, 2), result.n_labels
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
) -> AdjustedNumber:
    """A sum of coefficient times mean over several sets of images (a difference of groups, a mean of skills).

    For each part, with judged values f, labels y on the labelled images L, weights w that sum to 1 over all images
    and v that sum to 1 over L: ``lam * sum(w f) + sum(v (y - lam f))``. ``lam`` is the one with the least variance, cut
    to [0, 1].

    *Interval of a part.* Labels of n images are worth ``n_eff`` independent ones (``effective_size``: images of a
    prompt are alike, and few prompts tell little of how alike). With the judge they are worth ``gain`` times as many,
    the ratio of the variance of the labels' mean to that of the adjusted one, both from the sums of each image's
    influence per cluster. If judge and people never disagreed on the labelled images, these would show no variance at
    all; as this is certain only for infinitely many labels, one imaginary label that differs by the whole range is
    added to both variances, with the design effect of the labels: ``range**2 / (n n_eff)``. For shares (labels of two
    kinds) the interval is Wilson's with ``n_eff * gain`` images, which holds near 0 and 1, where Student's does not.
    For other values it is the estimate plus or minus Student's t, with as many degrees of freedom as there are labelled
    clusters, less one, times the root of that variance; the range is there taken to be two standard deviations.

    *Interval of a sum.* The distances of the parts' ends from their values are combined by MOVER, with the correlation
    of the parts over clusters, so that a prompt in two parts counts as one.

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
    as_judged = math.fsum(p.coefficient * p.judged_mean for p in prepared)
    n_labels = sum(int(p.labelled.sum()) for p in prepared)
    names = np.unique(np.concatenate([p.clusters for p in prepared])) if prepared else np.zeros(0)
    codes = [np.searchsorted(names, p.clusters) for p in prepared]
    n_labelled = len(np.unique(np.concatenate([code[p.labelled] for p, code in zip(prepared, codes, strict=True)])))
    if n_labelled < FEWEST or any(not p.labelled.any() for p in prepared):
        nothing = Interval(math.nan, math.nan, math.nan)
        why = f"labels of {n_labelled} prompts in all, and every part needs some; ask people about more images"
        return AdjustedNumber(math.nan, math.nan, math.nan, as_judged, nothing, n_labels, math.nan, math.nan, why)
    found = [_interval_of(p, code, len(names), confidence, tune=tune) for p, code in zip(prepared, codes, strict=True)]
    coefficients = np.array([p.coefficient for p in prepared])
    value = float(coefficients @ [f.value for f in found])
    label_value = float(coefficients @ [p.label_mean for p in prepared])
    low, high = _combined(value, coefficients, [f.ends for f in found], [f.influence for f in found])
    low_alone, high_alone = _combined(
        label_value, coefficients, [f.ends_alone for f in found], [f.influence_alone for f in found]
    )
    error = _variance(coefficients, [f.influence for f in found], [f.variance for f in found])
    error_alone = _variance(coefficients, [f.influence_alone for f in found], [f.variance_alone for f in found])
    if bounds is not None:
        value, low, high = (min(max(x, bounds[0]), bounds[1]) for x in (value, low, high))
        ends_alone = (label_value, low_alone, high_alone)
        label_value, low_alone, high_alone = (min(max(x, bounds[0]), bounds[1]) for x in ends_alone)
    return AdjustedNumber(
        value=value,
        low=low,
        high=high,
        as_judged=as_judged,
        labels_only=Interval(label_value, low_alone, high_alone),
        n_labels=n_labels,
        effective_n=n_labels * error_alone / error if error > 0 else math.nan,
        lam=float(np.mean([f.lam for f in found])),
    )


class _Found(NamedTuple):
    """A part's mean with the judge and with the labels alone; ends are distances below and above the value."""

    value: float
    lam: float
    ends: tuple[float, float]
    ends_alone: tuple[float, float]
    influence: Floats  # of each cluster
    influence_alone: Floats
    variance: float
    variance_alone: float


def _interval_of(p: _Prepared, code: np.ndarray, n_clusters: int, confidence: float, *, tune: bool) -> _Found:
    total: Floats = np.bincount(code, p.label_term, minlength=n_clusters).astype(np.float64)
    judge_terms: Floats = np.bincount(code, p.judge_term, minlength=n_clusters).astype(np.float64)
    spread = 0.0 if p.constant else float(judge_terms @ judge_terms)
    lam = 1.0
    if tune:
        lam = min(1.0, max(0.0, -float(total @ judge_terms) / spread)) if spread > 0 else 0.0
    value = lam * p.judged_mean + p.label_mean - lam * p.judged_mean_labelled
    influence = total + lam * judge_terms
    n_labelled = len(np.unique(code[p.labelled]))
    # The clusters without labels add to the judge's mean only; few labelled clusters are what limits the variance.
    growth = n_labelled / max(n_labelled - 1, 1)
    # Labels of unequal weight are worth fewer of equal weight (Kish), whatever their design effect.
    equal, n_labels = 1 / p.label_weight, int(np.count_nonzero(p.labelled))
    effective = equal * _effective_labels(p, confidence) / n_labels
    tail = (1 + confidence) / 2
    student = student_quantile(max(n_labelled - 1, 1), tail)
    if p.ends is None:  # Student's t stands for the few clusters; the effective size must not do so as well
        few = (student_quantile(max(n_labels - 1, 1), tail) / student) ** 2
        effective = min(equal, float(effective / few))
    pad = p.span**2 / (equal * effective)
    variance, variance_alone = (growth * float(x @ x) + pad for x in (influence, total))
    if p.ends is None:
        half, half_alone = student * math.sqrt(variance), student * math.sqrt(variance_alone)
        ends, ends_alone = (half, half), (half_alone, half_alone)
    else:
        gain = variance_alone / variance if variance > 0 else 1.0
        ends = _wilson_distances(value, p.ends, effective * gain, confidence)
        ends_alone = _wilson_distances(p.label_mean, p.ends, effective, confidence)
    return _Found(value, lam, ends, ends_alone, influence, total, variance, variance_alone)


def _effective_labels(p: _Prepared, confidence: float) -> float:
    """How many independent labels tell as much about their mean."""
    answers = p.answers[p.labelled]
    lowest, highest = p.ends or (float(answers.min()), float(answers.max()))
    if not highest > lowest:
        return float(len(np.unique(p.clusters[p.labelled])))
    totals = cluster_totals(answers, p.clusters[p.labelled])
    return effective_size(totals, float(answers @ answers), lowest=lowest, highest=highest, confidence=confidence)


def _wilson_distances(value: float, ends: tuple[float, float], n: float, confidence: float) -> tuple[float, float]:
    """Distances from a share to the ends of Wilson's interval, for values from one end of a range to the other."""
    span = ends[1] - ends[0]
    share = min(1.0, max(0.0, (value - ends[0]) / span))
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # The adjusted mean itself may lie beyond the range; its interval does not.
    inside = ends[0] + span * share
    low, high = ends[0] + span * max(0.0, middle - half), ends[0] + span * min(1.0, middle + half)
    return max(0.0, inside - low), max(0.0, high - inside)


def _combined(
    value: float,
    coefficients: Floats,
    distances: Sequence[tuple[float, float]],
    influences: Sequence[Floats],
) -> tuple[float, float]:
    """Ends of a sum from the distances of the ends of its parts.

    Source: Zou & Donner 2008, Stat. Med. 27:1693-1702 (MOVER); Zou 2007, Psychol. Methods 12:399-413, eq. 15, for parts
        that are correlated.
    """
    below, above = (np.array(side) for side in zip(*distances, strict=True))
    down = np.where(coefficients >= 0, below, above) * coefficients
    up = np.where(coefficients >= 0, above, below) * coefficients
    correlation = _correlation(influences)
    squares = [max(0.0, float(side @ correlation @ side)) for side in (down, up)]
    return value - math.sqrt(squares[0]), value + math.sqrt(squares[1])


def _correlation(influences: Sequence[Floats]) -> Floats:
    products = np.array([[float(a @ b) for b in influences] for a in influences])
    sizes = np.sqrt(np.diag(products))
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = np.where(np.outer(sizes, sizes) > 0, products / np.outer(sizes, sizes), 0.0)
    np.fill_diagonal(correlation, 1.0)
    return np.clip(correlation, -1.0, 1.0)


def _variance(coefficients: Floats, influences: Sequence[Floats], variances: Sequence[float]) -> float:
    scaled = coefficients * np.sqrt(np.array(variances))
    return float(scaled @ _correlation(influences) @ scaled)


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
        n_images: images that the judge observed.
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
    constant: bool  # whether the judge says the same of all images: its terms are then nothing but rounding
    answers: Floats  # 0 where there is no label
    ends: tuple[float, float] | None  # of the range, for values of two kinds
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
    ends = _two_kinds(answers[labelled], judged)
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
        constant=len(np.unique(judged)) < 2,
        answers=answers,
        ends=ends,
        span=_span(values) if ends is None else ends[1] - ends[0],
    )


def _two_kinds(labels: Floats, judged: Floats) -> tuple[float, float] | None:
    """The two values there are; None for more. Zeros and ones are a share, whatever between them a judge may give."""
    if np.all((labels == 0.0) | (labels == 1.0)) and np.all((judged >= 0.0) & (judged <= 1.0)):
        return 0.0, 1.0
    values = np.unique(np.concatenate([labels, judged]))
    return (float(values[0]), float(values[1])) if len(values) == 2 else None


def _span(values: Floats) -> float:
    """How far a label may well differ from what was judged, for values of more than two kinds."""
    return 2 * float(np.std(values)) if len(values) else 0.0


def _positive(values: ArrayLike | None, name: str, n: int, *, zero: bool) -> Floats:
    if values is None:
        return np.ones(n)
    array = finite(values, name)
    if array.shape != (n,) or (array < 0).any() or (not zero and (array == 0).any()) or (n and not array.sum() > 0):
        raise ValueError(f"{name} must give a number above 0 for each of the {n} images; got shape {array.shape}")
    return array
