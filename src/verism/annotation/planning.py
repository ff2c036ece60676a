"""How many answers of annotators are needed for intervals as narrow as wanted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.annotation.ratings import Ratings, human_classes
from verism.cards import JudgeCard, Measured, find_measured
from verism.records import Estimand, EstimandPart, Observed
from verism.statistics.prediction_powered import labels_needed
from verism.store import Run
from verism.suites.base import Suite

if TYPE_CHECKING:
    import polars as pl

__all__ = ["PILOT", "Planned", "plan_labels"]

PILOT = 20  # labels from which a pilot study says more about the judge than nothing


@dataclass(frozen=True, kw_only=True)
class Planned:
    """What one score would take.

    Attributes:
        metric: name of the metric of the score.
        protocol: protocol of the score.
        group: facet values of the score; empty for the whole suite.
        n_images: images that the judge observed.
        n_labels: answers there already.
        with_judge: answers needed if the judge's are used, too; None: more than there are images.
        alone: answers needed if they are not; None: more than there are images.
        correlation: correlation of judge and annotators that this rests on, -1 to 1.
        basis: where it is from: ``pilot``, ``card`` or ``none``.
    """

    metric: str
    protocol: str
    group: Mapping[str, Any]
    n_images: int
    n_labels: int
    with_judge: int | None
    alone: int | None
    correlation: float
    basis: str


def plan_labels(
    run: Run,
    suite: Suite,
    observed: Observed,
    verdicts: pl.DataFrame,
    *,
    half_width: float,
    ratings: Ratings,
    cards: Sequence[JudgeCard] = (),
    judges: Mapping[str, str] | None = None,
    protocol: str = "revised",
) -> list[Planned]:
    """Answers needed, for each score that annotators' answers can correct, for ``value +- half_width`` at 95 %.

    How well the judge does is taken from the labels there are (from ``PILOT`` on), else from its card, else assumed to
    be no use at all; how much answers vary, from the labels, else from the judge's answers. For a difference of groups
    the number is that of both together, split as the images are.

    Args:
        run: scored.
        suite: the suite, with the rules of the run's scores.
        observed: prompts and images of the run.
        verdicts: those of the run's scores.
        half_width: half the width of the interval, in the unit of the score, above 0.
        ratings: answers that there are.
        cards: judge cards, in the order in which they are tried.
        judges: full name of the judge by role.
        protocol: whose scores are planned for.
    """
    planned = []
    for estimand in suite.estimands(observed, verdicts):
        if estimand.score.protocol != protocol or estimand.terms or estimand.small:
            continue  # a mean of absolute values is no mean of labels; of small groups there are too many
        known = [human_classes(run, suite, estimand.rule, part.key, ratings=ratings) for part in estimand.parts]
        n_labels = sum(
            image in classes for part, classes in zip(estimand.parts, known, strict=True) for image in part.image_ids
        )
        correlation, basis = _pilot(estimand, known), "pilot"
        if correlation is None:
            correlation, basis = _from_cards(estimand, cards, (judges or {}).get(estimand.role, "")), "card"
        if correlation is None:
            correlation, basis = 0.0, "none"
        n = sum(len(part.image_ids) for part in estimand.parts)
        # A sum of means with n_p of n labels each: its variance is that of one mean with this spread and n labels.
        sd = math.sqrt(
            sum(
                part.coefficient**2 * _variance(part, estimand.worth, classes) * n / len(part.image_ids)
                for part, classes in zip(estimand.parts, known, strict=True)
            )
        )
        need = partial(
            labels_needed,
            half_width,
            n_images=n,
            sd=sd,
            design_effect=max(1.0, *(_design_effect(part, estimand.worth) for part in estimand.parts)),
        )
        planned.append(
            Planned(
                metric=estimand.score.metric,
                protocol=estimand.score.protocol,
                group=dict(estimand.score.group),
                n_images=n,
                n_labels=n_labels,
                with_judge=need(correlation=correlation),
                alone=need(),
                correlation=correlation,
                basis=basis,
            )
        )
    return planned


def _values(part: EstimandPart, worth: Mapping[str, float]) -> np.ndarray:
    return np.array([worth[label] for label in part.predicted])


def _variance(part: EstimandPart, worth: Mapping[str, float], classes: Mapping[str, str]) -> float:
    """Of the labels there are, or else of the judge's answers; with one more at either end.

    The judge's vary as much as the labels only if it errs as often one way as the other; and whoever always said the
    same may say otherwise yet.
    """
    labels = [worth[label] for image in part.image_ids if (label := classes.get(image, "")) in worth]
    values = labels if len(labels) >= PILOT else _values(part, worth)
    return float(np.var([*values, min(worth.values()), max(worth.values())]))


def _design_effect(part: EstimandPart, worth: Mapping[str, float]) -> float:
    """How much the variance of the mean grows because images of a prompt are alike."""
    values = _values(part, worth)
    _, codes = np.unique(np.asarray(part.clusters), return_inverse=True)
    sizes = np.bincount(codes.reshape(-1))
    if len(sizes) < 2 or len(sizes) == len(values) or not np.var(values) > 0:
        return 1.0
    sums = np.bincount(codes.reshape(-1), values - values.mean())
    return float(len(sizes) / (len(sizes) - 1) * np.sum(sums**2) / (len(values) * np.var(values)))


def _pilot(estimand: Estimand, known: Sequence[Mapping[str, str]]) -> float | None:
    pairs = [
        (estimand.worth[predicted], estimand.worth[classes[image]])
        for part, classes in zip(estimand.parts, known, strict=True)
        for image, predicted in zip(part.image_ids, part.predicted, strict=True)
        if classes.get(image) in estimand.worth
    ]
    return _correlation(np.array(pairs), np.ones(len(pairs))) if len(pairs) >= PILOT else None


def _from_cards(estimand: Estimand, cards: Sequence[JudgeCard], judge: str) -> float | None:
    tables = [find_measured(cards, judge, estimand.rule, estimand.score.protocol, group=p.key) for p in estimand.parts]
    correlations = [_of_table(table[1], estimand.worth) for table in tables if table is not None]
    return min(correlations) if correlations and len(correlations) == len(tables) else None


def _of_table(measured: Measured, worth: Mapping[str, float]) -> float:
    if any(label not in worth for label in measured.labels):
        return 0.0
    values = [worth[label] for label in measured.labels]
    pairs = np.array([(predicted, true) for true in values for predicted in values])
    return _correlation(pairs, np.asarray(measured.counts, dtype=np.float64).ravel())


def _correlation(pairs: np.ndarray, weights: np.ndarray) -> float:
    """Pearson's, weighted; 0 where either does not vary."""
    if not weights.sum() > 0:
        return 0.0
    mean = weights @ pairs / weights.sum()
    centred = pairs - mean
    moments = (centred * weights[:, None]).T @ centred
    scale = math.sqrt(moments[0, 0] * moments[1, 1])
    return float(np.clip(moments[0, 1] / scale, -1, 1)) if scale > 0 else 0.0
