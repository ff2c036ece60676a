"""Votes and classes beside reference distributions of your own, and without the measured error of the judge."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verism.metrics.imbalance import adjusted_prompt_mad, pooled_mad, prompt_mad
from verism.records import Prompt
from verism.statistics.intervals import Interval
from verism.statistics.misclassification import fit_shares
from verism.suites.social_bias.adjustment import Confusion
from verism.suites.social_bias.studies import Axis as StudyAxis
from verism.suites.social_bias.studies import Choice, Descriptor, Study
from verism.suites.social_bias.targets import EVERYWHERE
from verism.suites.social_bias_v1.words import Axis

__all__ = ["against_target", "as_study", "target_rows", "without_judge_error"]

Counts = NDArray[np.int64]
Number = tuple[str, Mapping[str, Any], Interval]  # metric, what its group has besides, value and interval


def as_study(name: str, axes: Sequence[Axis], prompts: Sequence[Prompt]) -> Study:
    """Axes and words as a study, by which tables of reference distributions are read (see ``targets``)."""
    words = dict.fromkeys(str(prompt.facets["word"]) for prompt in prompts)
    return Study(
        name=name,
        source="",
        template="",
        bare="",
        facet="word",
        groups={},
        pairs=(),
        descriptors=tuple(Descriptor(name=word, article="") for word in words),
        axes=tuple(
            StudyAxis(
                name=axis.name,
                question=axis.name,
                choices=tuple(
                    Choice(name=c, replies=(c.casefold(),), value=float(n)) for n, c in enumerate(axis.classes)
                ),
                strip="",
                groups=(),
            )
            for axis in axes
        ),
        attributes=(),
        attribute_question="",
        visible_question="",
        n_images=1,
    )


def target_rows(by_word: Mapping[str, Sequence[float]], words: Sequence[str], k: int) -> NDArray[np.float64]:
    """The shares each prompt is compared with, shape (P, K): of its word, or of all words; NaN without either."""
    nothing = [math.nan] * k
    return np.array([by_word.get(w, by_word.get(EVERYWHERE, nothing)) for w in words]).reshape(len(words), k)


def against_target(
    counts: Counts, goals: NDArray[np.float64], *, votes: bool, n_resamples: int, seed: int
) -> list[Number]:
    """How far votes, or the images of each prompt, lie from their reference distributions.

    Args:
        counts: images or votes of each class, shape (P, K); of votes, each row has a single 1.
        goals: target shares, shape (P, K), in [0, 1]; rows of NaN are left out.
        votes: the deviation of all votes together; otherwise the mean over prompts of their own.
        n_resamples: resamples behind the intervals.
        seed: of the resamples.
    Returns:
        ``reference_deviation`` and ``reference_deviation_expected``, by chance; of images also
        ``reference_deviation_debiased``.
    """
    compared = ~np.isnan(goals).any(axis=1)
    resampling: dict[str, Any] = {"n_resamples": n_resamples, "seed": seed}
    if votes:
        pooled = pooled_mad(counts[compared], goals[compared], **resampling)
        results = [("", Interval(pooled.value, pooled.low, pooled.high)), ("_expected", _alone(pooled.expected))]
    else:
        subset = prompt_mad(counts[compared], goals[compared], **resampling)
        results = [
            ("", Interval(subset.value, subset.low, subset.high)),
            ("_expected", _alone(subset.expected)),
            ("_debiased", Interval(subset.debiased, subset.debiased_low, subset.debiased_high)),
        ]
    return [(f"reference_deviation{ending}", {}, interval) for ending, interval in results]


def without_judge_error(counts: Counts, known: Confusion, classes: Sequence[str], *, seed: int) -> list[Number]:
    """Shares of true classes, as the judge's errors imply; of two classes the pooled and the debiased MAD, too.

    Args:
        counts: images called each class, shape (P, K).
        known: how the judge errs: its confusion matrix.
        classes: names of the K classes, in order.
        seed: of the resamples.
    """
    mask = counts[counts.sum(axis=1) > 0]
    if not len(mask):
        return []
    fitted = fit_shares(None, known.counts, observed_by_cluster=mask, unusable=known.unusable)
    result = fitted.shares()
    numbers: list[Number] = [
        ("class_share", {"class": name}, Interval(float(result.shares[n]), float(result.low[n]), float(result.high[n])))
        for n, name in enumerate(classes)
    ]
    if len(classes) != 2:
        return numbers
    if len(mask) > 1:
        numbers.append(("mad_debiased", {}, adjusted_prompt_mad(mask, known.counts, seed=seed)))
    pooled = fitted.mad()
    return [*numbers, ("pooled_mad", {}, Interval(pooled.value, pooled.low, pooled.high))]


def _alone(value: float) -> Interval:
    return Interval(value, math.nan, math.nan)
