"""How many answers of people are needed for intervals as narrow as wanted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from verism.annotation.ratings import Ratings, human_classes
from verism.cards import JudgeCard, Measured, find_measured
from verism.records import Estimand, EstimandPart, Observed
from verism.statistics.prediction_powered import labels_needed
from verism.store import Run

__all__ = ["PILOT", "Planned", "plan_labels"]

PILOT = 20  # labels from which a pilot study says more about the judge than nothing


@dataclass(frozen=True, kw_only=True)
class Planned:
    """What one score would take.

    Attributes:
        metric, protocol, group: of the score.
        n_pictures: that the judge looked at. n_labels: there already.
        with_judge: answers needed if the judge's are used, too; alone: if not. None: more than there are pictures.
        correlation: of judge and people that this rests on. basis: where it is from: ``pilot``, ``card`` or ``none``.
    """

    metric: str
    protocol: str
    group: Mapping[str, Any]
    n_pictures: int
    n_labels: int
    with_judge: int | None
    alone: int | None
    correlation: float
    basis: str


def plan_labels(
    run: Run,
    suite: Any,
    observed: Observed,
    *,
    half_width: float,
    ratings: Ratings,
    cards: Sequence[JudgeCard] = (),
    judges: Mapping[str, str] | None = None,
    protocol: str = "corrected",
) -> list[Planned]:
    """Answers needed, for each score that people's answers can correct, for ``value +- half_width`` at 95 %.

    How well the judge does is taken from the labels there are (from ``PILOT`` on), else from its card, else assumed to
    be no use at all; how much answers vary, from the labels, else from the judge's answers. For a difference of groups
    the number is that of both together, split as the pictures are.
    """
    planned = []
    for estimand in suite.estimands(observed, run.verdicts()):
        if estimand.score.protocol != protocol:
            continue
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
                n_pictures=n,
                n_labels=n_labels,
                with_judge=need(correlation=correlation),
                alone=need(),
                correlation=correlation,
                basis=basis,
            )
        )
    return planned


def _values(part: EstimandPart, worth: Mapping[str, float]) -> np.ndarray:
    return np.array([worth[said] for said in part.said])


def _variance(part: EstimandPart, worth: Mapping[str, float], classes: Mapping[str, str]) -> float:
    """Of the labels there are, or else of the judge's answers; with one more at either end.

    The judge's vary as much as the labels only if it errs as often one way as the other; and whoever always said the
    same may say otherwise yet.
    """
    labels = [worth[said] for image in part.image_ids if (said := classes.get(image, "")) in worth]
    values = labels if len(labels) >= PILOT else _values(part, worth)
    return float(np.var([*values, min(worth.values()), max(worth.values())]))


def _design_effect(part: EstimandPart, worth: Mapping[str, float]) -> float:
    """How much the variance of the mean grows because pictures of a prompt are alike."""
    values = _values(part, worth)
    _, codes = np.unique(np.asarray(part.clusters), return_inverse=True)
    sizes = np.bincount(codes.reshape(-1))
    if len(sizes) < 2 or len(sizes) == len(values) or not np.var(values) > 0:
        return 1.0
    sums = np.bincount(codes.reshape(-1), values - values.mean())
    return float(len(sizes) / (len(sizes) - 1) * np.sum(sums**2) / (len(values) * np.var(values)))


def _pilot(estimand: Estimand, known: Sequence[Mapping[str, str]]) -> float | None:
    pairs = [
        (estimand.worth[said], estimand.worth[classes[image]])
        for part, classes in zip(estimand.parts, known, strict=True)
        for image, said in zip(part.image_ids, part.said, strict=True)
        if classes.get(image) in estimand.worth
    ]
    return _correlation(np.array(pairs), np.ones(len(pairs))) if len(pairs) >= PILOT else None


def _from_cards(estimand: Estimand, cards: Sequence[JudgeCard], judge: str) -> float | None:
    found = [find_measured(cards, judge, estimand.rule, estimand.score.protocol, group=p.key) for p in estimand.parts]
    told = [_of_table(f[1], estimand.worth) for f in found if f is not None]
    return min(told) if told and len(told) == len(found) else None


def _of_table(measured: Measured, worth: Mapping[str, float]) -> float:
    if any(label not in worth for label in measured.labels):
        return 0.0
    values = [worth[label] for label in measured.labels]
    pairs = np.array([(said, true) for true in values for said in values])
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
