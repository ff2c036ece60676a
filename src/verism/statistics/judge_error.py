"""Error rates of a judge, and rates adjusted for them.

"Right" is the positive class: ``truth`` says whether an image is right (known because it was rendered, or because
annotators labelled it), ``judged`` whether the judge accepts it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verism.statistics._common import zero_one
from verism.statistics.intervals import Interval, clustered_proportion, wilson

__all__ = ["AdjustedRate", "Confusion", "calibration_error", "confusion", "rogan_gladen"]


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """Agreement of a judge with the truth. Rates without a denominator are NaN.

    Attributes:
        tp: images that are right and judged right.
        fp: wrong, but judged right.
        tn: wrong and judged wrong.
        fn: right, but judged wrong.
        false_accept: fp / (fp + tn), share of the wrong images that the judge lets pass; lower is better.
        false_reject: fn / (fn + tp), share of the right images that the judge turns down; lower is better.
        accuracy: (tp + tn) / all; higher is better, but it depends on how many images are right.
    """

    tp: int
    fp: int
    tn: int
    fn: int
    false_accept: Interval
    false_reject: Interval
    accuracy: Interval

    @property
    def sensitivity(self) -> Interval:
        """tp / (tp + fn): share of the right images that are judged right."""
        return _complement(self.false_reject)

    @property
    def specificity(self) -> Interval:
        """tn / (tn + fp): share of the wrong images that are judged wrong."""
        return _complement(self.false_accept)


@dataclass(frozen=True, kw_only=True)
class AdjustedRate:
    """A rate corrected for the judge's error.

    Attributes:
        value: in [0, 1]; NaN when the judge tells nothing.
        low: lower end of the interval, NaN with the value.
        high: upper end.
        note: why there is no value, or what to mind about it; empty when all is well.
    """

    value: float
    low: float
    high: float
    note: str = ""


def confusion(
    truth: ArrayLike, judged: ArrayLike, *, clusters: ArrayLike | None = None, confidence: float = 0.95
) -> Confusion:
    """Confusion counts and error rates of a judge.

    Args:
        truth: 1 where the image is right, 0 where it is wrong, shape (N,).
        judged: 1 where the judge accepts the image, 0 where it rejects it, shape (N,).
        clusters: label of each image's prompt, shape (N,), if prompts have several images: intervals are then those
            of ``clustered_proportion``. None: images are independent, and intervals Wilson's.
        confidence: confidence level of the intervals, in (0, 1).
    Raises:
        ValueError: values other than 0 and 1 (NaN included), or arrays of unequal length.
    """
    true, predicted = zero_one(truth, "truth") == 1.0, zero_one(judged, "judged") == 1.0
    if true.shape != predicted.shape:
        raise ValueError(f"truth and judged must hold the same images; got {len(true)} and {len(predicted)}")
    labels = None if clusters is None else np.asarray(clusters)
    if labels is not None and labels.shape != true.shape:
        raise ValueError(f"clusters must give one label for each of the {len(true)} images; got {labels.shape}")

    def rate(event: NDArray[np.bool_], among: NDArray[np.bool_]) -> Interval:
        if labels is None:
            return wilson(int(np.count_nonzero(event & among)), int(np.count_nonzero(among)), confidence=confidence)
        return clustered_proportion(event[among], labels[among], confidence=confidence)

    return Confusion(
        tp=int(np.count_nonzero(true & predicted)),
        fp=int(np.count_nonzero(~true & predicted)),
        tn=int(np.count_nonzero(~true & ~predicted)),
        fn=int(np.count_nonzero(true & ~predicted)),
        false_accept=rate(predicted, ~true),
        false_reject=rate(~predicted, true),
        accuracy=rate(true == predicted, np.ones(len(true), dtype=np.bool_)),
    )


def rogan_gladen(rate: Interval, sensitivity: Interval, specificity: Interval) -> AdjustedRate:
    """The share of right images behind the share judged right, given how the judge errs.

    The value is ``(rate + specificity - 1) / (sensitivity + specificity - 1)``, cut to [0, 1]. Its interval puts, one
    at a time, the ends of the three intervals into the formula and adds the squares of the changes, downwards and
    upwards apart. Unlike the delta method it takes the judge's uncertainty into account also when the calibration saw
    no error (a sensitivity of 100 % still has a lower end), and stays lopsided where the parts are.

    The calibration images must be independent of those of the run, and the judge must err on both alike: error rates
    from rendered images only hold for generated ones as far as these look alike to the judge.

    Args:
        rate: share judged right in the run, with interval (``wilson`` or ``clustered_proportion``).
        sensitivity: share judged right among right images (``Confusion.sensitivity``), of the same level.
        specificity: share judged wrong among wrong images (``Confusion.specificity``), of the same level.
    Returns:
        The corrected rate. Without a value (NaN), and with a note saying why, when one of the three is undefined or the
        judge is no better than chance (sensitivity + specificity <= 1). If only ends of the intervals allow
        that, the ends of the result are 0 or 1.
    Raises:
        ValueError: an interval that is not low <= value <= high within [0, 1].
    Source: Rogan & Gladen 1978, Am. J. Epidemiol. 107:71-76; interval as in Zou & Donner 2008, Stat. Med.
        27:1693-1702 (MOVER), with differences of the estimate in place of the terms of a sum.
    """
    parts = {"rate": rate, "sensitivity": sensitivity, "specificity": specificity}
    for name, part in parts.items():
        if any(math.isnan(number) for number in part):
            return AdjustedRate(
                value=math.nan, low=math.nan, high=math.nan, note=f"{name} is undefined: no images to measure it on"
            )
        if not 0 <= part.low <= part.value <= part.high <= 1:
            raise ValueError(f"{name} must satisfy 0 <= low <= value <= high <= 1; got {tuple(part)}")
    if sensitivity.value + specificity.value <= 1:
        return AdjustedRate(
            value=math.nan,
            low=math.nan,
            high=math.nan,
            note=f"the judge is no better than chance: sensitivity {sensitivity.value:.3f} + specificity "
            f"{specificity.value:.3f} <= 1, so its verdicts say nothing about the rate",
        )
    estimate = _corrected(rate.value, sensitivity.value, specificity.value)
    down = up = 0.0
    for name, part in parts.items():
        moved = []
        for end in (part.low, part.high):
            point = {other: interval.value for other, interval in parts.items()} | {name: end}
            moved.append(_corrected(point["rate"], point["sensitivity"], point["specificity"]) - estimate)
        if any(math.isnan(change) for change in moved):
            down = up = math.inf  # the judge may be no better than chance
        else:
            down += max(0.0, -min(moved)) ** 2
            up += max(0.0, max(moved)) ** 2
    low, high = estimate - math.sqrt(down), estimate + math.sqrt(up)
    note = ""
    if high < 0 or low > 1:
        note = (
            f"a rate of {rate.value:.3f} is {'below' if high < 0 else 'above'} what this judge can produce, even with "
            "its uncertainty: it errs differently on these images than on those it was calibrated with"
        )
    return AdjustedRate(value=_cut(estimate), low=_cut(low), high=_cut(high), note=note)


def _corrected(rate: float, sensitivity: float, specificity: float) -> float:
    skill = sensitivity + specificity - 1
    return (rate + specificity - 1) / skill if skill > 0 else math.nan


def _cut(number: float) -> float:
    return min(1.0, max(0.0, number))


def _complement(interval: Interval) -> Interval:
    return Interval(1 - interval.value, 1 - interval.high, 1 - interval.low)


def calibration_error(probabilities: ArrayLike, outcomes: ArrayLike, *, bins: int = 10) -> float:
    """Expected calibration error: how far probabilities are from how often they come true.

    Units are sorted by probability and cut into bins of equal size; the distance between the mean probability of a bin
    and its share of positive units is averaged over bins, weighted by size. Units of equal probability stay in one bin,
    so that the order of rows does not matter.

    Args:
        probabilities: of being positive, in [0, 1], shape (N,).
        outcomes: 0 or 1, shape (N,).
        bins: at least 1; small ones make the error too large by chance.
    Returns:
        In [0, 1], 0 is best; NaN without units.
    Raises:
        ValueError: arrays of unequal length, probabilities outside [0, 1], or outcomes other than 0 and 1.
    Source: Naeini, Cooper & Hauskrecht 2015, AAAI, "Obtaining well calibrated probabilities using Bayesian binning";
        bins of equal size as Nguyen & O'Connor 2015, EMNLP.

    >>> round(calibration_error([0.9, 0.9, 0.1, 0.1], [1, 1, 0, 1], bins=2), 3)
    0.25
    """
    p = np.asarray(probabilities, dtype=np.float64)
    y = np.asarray(outcomes, dtype=np.float64)
    if p.ndim != 1 or p.shape != y.shape:
        raise ValueError(f"both sides need one value per unit; got shapes {p.shape} and {y.shape}")
    if bins < 1:
        raise ValueError(f"bins must be 1 or more, got {bins}")
    if not len(p):
        return math.nan
    if not np.all((p >= 0) & (p <= 1)):
        raise ValueError("probabilities must lie in [0, 1]")
    if not np.all((y == 0) | (y == 1)):
        raise ValueError("outcomes must be 0 or 1")
    # Each distinct value goes to the bin of its middle rank.
    _, row, counts = np.unique(p, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - counts / 2
    which = np.minimum((middle / len(p) * bins).astype(np.int64), bins - 1)[row.reshape(-1)]
    gap = np.bincount(which, weights=p, minlength=bins) - np.bincount(which, weights=y, minlength=bins)
    return float(np.abs(gap).sum() / len(p))
