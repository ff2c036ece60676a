"""Judges held against annotators: predicted classes, degrees, and votes on all images of a prompt at once."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from verism.records import Estimand, Observed, RatingTask
from verism.statistics.agreement import Agreement, cohen_kappa
from verism.statistics.association import auc, kendall_tau_b, mcc, pearson, phi, spearman
from verism.statistics.intervals import cluster_bootstrap_mean, clustered_proportion
from verism.suites.base import Suite

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "Clustered",
    "Predicted",
    "Resampling",
    "agreement_record",
    "graded_report",
    "graded_rules",
    "graded_values",
    "is_number",
    "judge_report",
    "key_text",
    "label_order",
    "mean_with_interval",
    "positive_option",
    "predicted_classes",
    "predicted_prompt_classes",
    "rate_with_interval",
]


class Resampling(TypedDict):
    """How intervals are bootstrapped: number of resamples (0: no interval), and the seed."""

    n_resamples: int
    seed: int


class Clustered(Resampling):
    """The same with the cluster (prompt) of each unit."""

    clusters: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """What a judge's verdicts say under one rule, protocol and key.

    Attributes:
        classes: the class by item (image or prompt).
        probabilities: probability of that class by item, 0 to 1, where the judge gives one.
    """

    classes: dict[str, str] = field(default_factory=dict)
    probabilities: dict[str, float] = field(default_factory=dict)


def key_text(key: Mapping[str, Any]) -> str:
    """The key of a task or of an estimand's part as text."""
    return json.dumps(dict(key), sort_keys=True)


# --------------------------------------------------------------------------------------------------------- predictions
def predicted_classes(estimands: Iterable[Estimand], verdicts: pl.DataFrame) -> dict[tuple[str, str, str], Predicted]:
    """The class that judges give each image.

    Args:
        estimands: estimands of the suite; rules without classes have none.
        verdicts: table ``verdicts``, which holds the probabilities.

    Returns:
        By rule, protocol and key (``key_text``).
    """
    predictions: dict[tuple[str, str, str], Predicted] = {}
    for estimand in estimands:
        for part in estimand.parts:
            name = (estimand.rule, estimand.score.protocol, key_text(part.key))
            of_name = predictions.setdefault(name, Predicted())
            of_name.classes.update(zip(part.image_ids, part.predicted, strict=True))
    if not predictions:
        return {}
    for row in verdicts.filter(verdicts["detail"].is_not_null()).iter_rows(named=True):
        detail = json.loads(row["detail"])
        if detail.get("probability") is None:
            continue
        image = row["image_id"]
        for (rule, protocol, key), predicted in predictions.items():
            if (rule, protocol) != (row["rule"], row["protocol"]) or image not in predicted.classes:
                continue
            if _fits(detail, json.loads(key)):
                stored = float(detail["probability"])
                # Of yes and no a judge gives the probability of yes (table ``answers``), of others that of its choice.
                predicted.probabilities[image] = 1 - stored if predicted.classes[image] == "no" else stored
    return predictions


def predicted_prompt_classes(verdicts: pl.DataFrame) -> dict[tuple[str, str, str], Predicted]:
    """The vote of each prompt's images together: ``prompt_class`` in the detail of verdicts.

    Args:
        verdicts: table ``verdicts``.

    Returns:
        By rule, protocol and (empty) key.
    """
    predictions: dict[tuple[str, str, str], Predicted] = {}
    for row in verdicts.filter(verdicts["detail"].str.contains('"prompt_class"')).iter_rows(named=True):
        detail = json.loads(row["detail"])
        name = detail.get("prompt_class")
        if name is None:
            continue
        predicted = predictions.setdefault((row["rule"], row["protocol"], key_text({})), Predicted())
        predicted.classes[row["prompt_id"]] = str(name)
        if (probability := detail.get("prompt_probabilities", {}).get(name)) is not None:
            predicted.probabilities[row["prompt_id"]] = float(probability)
    return predictions


def graded_rules(suite: Suite, task: RatingTask) -> tuple[str, ...]:
    """Rules of verdicts whose numbers can be held against a task's answers: the task's own, and what its suite says."""
    also = suite.graded_rules().get(task.rule, ())
    subset = (task.rule,) if task.level != "nominal" else ()
    return tuple(dict.fromkeys((*also, *subset)))


def graded_values(
    verdicts: pl.DataFrame, rules: Sequence[str], key: Mapping[str, Any], *, by_prompt: bool = False
) -> dict[tuple[str, str], dict[str, float]]:
    """Numbers of verdicts by rule and protocol, then by item.

    Args:
        verdicts: table ``verdicts``.
        rules: only verdicts of these.
        key: verdicts whose detail has something else under one of its names are left out.
        by_prompt: whether items are prompts (the mean over their images) instead of images.
    """
    values: dict[tuple[str, str], dict[str, list[float]]] = {}
    for row in verdicts.filter(verdicts["rule"].is_in(list(rules)) & verdicts["value"].is_not_null()).iter_rows(
        named=True
    ):
        if _fits({} if row["detail"] is None else json.loads(row["detail"]), key):
            item = row["prompt_id" if by_prompt else "image_id"]
            values.setdefault((row["rule"], row["protocol"]), {}).setdefault(item, []).append(float(row["value"]))
    return {name: {item: fmean(several) for item, several in by_item.items()} for name, by_item in values.items()}


def _fits(detail: Mapping[str, Any], key: Mapping[str, Any]) -> bool:
    return all(detail.get(name) == value for name, value in key.items() if name in detail)


# ------------------------------------------------------------------------------------------------------------- classes
def judge_report(
    predicted: Predicted,
    true: Mapping[str, str],
    observed: Observed,
    *,
    by: Sequence[str] = (),
    n_resamples: int = 2_000,
    seed: int = 0,
) -> dict[str, Any]:
    """A judge beside the majority of annotators: confusion, agreement, and how often each class is found.

    Args:
        predicted: the judge's class by image (or prompt), with probabilities where known.
        true: the annotators' class, by the same.
        observed: prompts and images.
        by: facets of prompts; per value of each, the rates again.
        n_resamples: bootstrap resamples behind intervals; 0 for none.
        seed: seed of the resampling.

    Returns:
        Plain records. A class's ``found`` is the judge's sensitivity for it, ``not_claimed`` the specificity.
    """
    items = sorted(item for item in true if item in predicted.classes)
    prompt_of = _prompts(observed)
    clusters = [prompt_of[item] for item in items]
    labels = sorted({*(true[i] for i in items), *(predicted.classes[i] for i in items)}, key=label_order)
    human, judge = [true[i] for i in items], [predicted.classes[i] for i in items]
    both = list(zip(human, judge, strict=True))
    report: dict[str, Any] = {
        "items": len(items),
        "without_verdict": sum(item not in predicted.classes for item in true),
        "labels": labels,
        "confusion": [[both.count((a, b)) for b in labels] for a in labels],
        "accuracy": rate_with_interval([a == b for a, b in both], clusters),
        "classes": _classes(labels, human, judge, clusters),
    }
    if items:
        clustered: Clustered = {"n_resamples": n_resamples, "seed": seed, "clusters": clusters}
        report["cohen_kappa"] = agreement_record(cohen_kappa(human, judge, **clustered))
        report["mcc"] = agreement_record(mcc(human, judge, **clustered))
        if len(labels) == 2:
            report["phi"] = agreement_record(phi(human, judge, **clustered))
            report |= _auc(labels[1], human, judge, [predicted.probabilities.get(i) for i in items], clustered)
        if all(is_number(label) for label in labels):
            numbers = [[float(v) for v in side] for side in (human, judge)]
            report["kendall_tau_b"] = agreement_record(kendall_tau_b(*numbers, **clustered))
            report["spearman"] = agreement_record(spearman(*numbers, **clustered))
    groups: dict[str, Any] = {}
    for facet, value, chosen in _groups(observed, clusters, by):
        within = [[side[n] for n in chosen] for side in (human, judge, clusters)]
        groups.setdefault(facet, {})[value] = {
            "items": len(chosen),
            "accuracy": rate_with_interval([a == b for a, b in zip(*within[:2], strict=True)], within[2]),
            "classes": _classes(labels, *within),
        }
    if groups:
        report["groups"] = groups
    return report


def _classes(
    labels: Sequence[str], human: Sequence[str], judge: Sequence[str], clusters: Sequence[str]
) -> dict[str, Any]:
    """Per class: how often the judge finds it where annotators see it, and does not claim it where they do not."""
    return {
        label: {
            "found": rate_with_interval(
                [b == label for a, b in zip(human, judge, strict=True) if a == label],
                [c for a, c in zip(human, clusters, strict=True) if a == label],
            ),
            "not_claimed": rate_with_interval(
                [b != label for a, b in zip(human, judge, strict=True) if a != label],
                [c for a, c in zip(human, clusters, strict=True) if a != label],
            ),
        }
        for label in labels
    }


def _auc(
    positive: str,
    human: Sequence[str],
    judge: Sequence[str],
    probabilities: Sequence[float | None],
    clustered: Clustered,
) -> dict[str, Any]:
    if not any(probability is not None for probability in probabilities):
        return {}
    # The probability is that of the predicted class.
    of_positive = [
        math.nan if probability is None else probability if label == positive else 1 - probability
        for probability, label in zip(probabilities, judge, strict=True)
    ]
    area = auc(of_positive, [float(label == positive) for label in human], **clustered)
    return {"auc": agreement_record(area) | {"positive": positive}}


# ------------------------------------------------------------------------------------------------------------- degrees
def graded_report(
    values: Mapping[str, float],
    task: RatingTask,
    rated: Mapping[str, float],
    observed: Observed,
    *,
    by: Sequence[str] = (),
    n_resamples: int = 2_000,
    seed: int = 0,
) -> dict[str, Any]:
    """A judge's numbers beside annotators' ratings: how far their orders agree.

    Args:
        values: the judge's number by item.
        task: the question that annotators were asked.
        rated: their answers as a number by item.
        observed: prompts and images.
        by: facets of prompts; per value of each, the same again.
        n_resamples: bootstrap resamples behind intervals; 0 for none.
        seed: seed of the resampling.
    """
    options: Resampling = {"n_resamples": n_resamples, "seed": seed}
    items = sorted(item for item in rated if item in values)
    prompt_of = _prompts(observed)
    clusters = [prompt_of[item] for item in items]
    report: dict[str, Any] = {
        "items": len(items),
        "without_verdict": len(rated) - len(items),
        **_graded(task, [rated[i] for i in items], [values[i] for i in items], {**options, "clusters": clusters}),
    }
    groups: dict[str, Any] = {}
    for facet, value, chosen in _groups(observed, clusters, by):
        part = [items[n] for n in chosen]
        clustered: Clustered = {**options, "clusters": [clusters[n] for n in chosen]}
        groups.setdefault(facet, {})[value] = {
            "items": len(chosen),
            **_graded(task, [rated[i] for i in part], [values[i] for i in part], clustered),
        }
    if groups:
        report["groups"] = groups
    return report


def _graded(task: RatingTask, human: Sequence[float], judge: Sequence[float], clustered: Clustered) -> dict[str, Any]:
    if task.level == "nominal":
        return {"auc": agreement_record(auc(judge, human, **clustered)) | {"positive": positive_option(task)}}
    measures = {
        "kendall_tau_b": agreement_record(kendall_tau_b(human, judge, **clustered)),
        "spearman": agreement_record(spearman(human, judge, **clustered)),
        "pearson": agreement_record(pearson(human, judge, **clustered)),
    }
    if task.kind == "tone":
        apart = np.subtract(judge, human, dtype=np.float64)
        measures["mean_difference"] = mean_with_interval(apart, **clustered)
        measures["within_one"] = rate_with_interval(list(np.abs(apart) <= 1), clustered["clusters"])
    return measures


def positive_option(task: RatingTask) -> str:
    """Of two answers, the one that a large number stands for: yes, or else the first; empty for more than two."""
    proper = [option for option in task.options if option not in task.unsure]
    return "" if len(proper) != 2 else "yes" if "yes" in proper else proper[0]


# --------------------------------------------------------------------------------------------------------------- parts
def _prompts(observed: Observed) -> dict[str, str]:
    """The prompt of each image; a prompt is its own."""
    return {p: p for p in observed.prompts} | dict(observed.images.select("image_id", "prompt_id").iter_rows())


def _groups(observed: Observed, prompts: Sequence[str], by: Sequence[str]) -> Iterable[tuple[str, str, list[int]]]:
    """Facet, value, and the positions of the items of these prompts that have it."""
    for facet in by:
        facet_values = [observed.prompts[prompt].facets.get(facet) for prompt in prompts]
        for value in sorted({v for v in facet_values if v is not None}, key=lambda v: label_order(str(v))):
            yield facet, str(value), [n for n, v in enumerate(facet_values) if v == value]


def is_number(text: str) -> bool:
    """Whether a text is a finite number."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def label_order(label: str) -> tuple[bool, float, str]:
    """A key that sorts numbers as numbers, before names."""
    return (not is_number(label), float(label) if is_number(label) else 0.0, label)


def agreement_record(agreement: Agreement) -> dict[str, Any]:
    """An agreement as a record."""
    return {"value": agreement.value, "low": agreement.low, "high": agreement.high, "items": agreement.n_units}


def rate_with_interval(hits: Sequence[bool] | np.ndarray, clusters: Sequence[str] | np.ndarray) -> dict[str, Any]:
    """A share with a Wilson interval by clusters, as a record.

    Args:
        hits: whether each unit counts.
        clusters: prompt id of each unit.
    """
    if not len(hits):
        return {"value": math.nan, "low": math.nan, "high": math.nan, "n": 0}
    share = clustered_proportion(np.array(hits, dtype=np.float64), np.asarray(clusters))
    return {"value": share.value, "low": share.low, "high": share.high, "n": len(hits)}


def mean_with_interval(
    values: ArrayLike,
    *,
    clusters: Sequence[str],
    n_resamples: int,
    seed: int,
    bounds: tuple[float, float] | None = None,
) -> dict[str, Any]:
    """The mean of values with a bootstrap interval over clusters, as a record.

    Args:
        values: one for each unit.
        clusters: prompt id of each unit.
        n_resamples: bootstrap resamples; 0 for no interval.
        seed: seed of the resampling.
        bounds: ends that the mean cannot pass; None: none.
    """
    array = np.asarray(values, dtype=np.float64)
    if not array.size:
        return {"value": math.nan, "low": math.nan, "high": math.nan, "n": 0}
    if n_resamples == 0:
        return {"value": float(np.mean(array)), "low": math.nan, "high": math.nan, "n": array.size}
    mean = cluster_bootstrap_mean(array, np.asarray(clusters), n_resamples=n_resamples, seed=seed, bounds=bounds)
    return {"value": mean.value, "low": mean.low, "high": mean.high, "n": array.size}
