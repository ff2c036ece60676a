"""Judges beside people: classes, degrees, and the votes on pictures of a prompt that people saw together."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.annotation.numbers import Options, is_number, order_of, told
from verism.records import Observed, RatingTask
from verism.statistics.agreement import cohen_kappa
from verism.statistics.association import auc, kendall_tau_b, mcc, pearson, phi, spearman
from verism.statistics.intervals import cluster_bootstrap_mean, clustered_proportion

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "Said",
    "graded_report",
    "graded_rules",
    "graded_values",
    "judge_report",
    "key_of",
    "mean_with_interval",
    "positive_of",
    "said_by_judges",
    "said_of_prompts",
]

Said = dict[tuple[str, str, str], tuple[dict[str, str], dict[str, float]]]
"""By rule, protocol and key: the class by item, and the probability of that class where the judge tells one."""


def key_of(key: Mapping[str, Any]) -> str:
    """The key of a task or of an estimand's part as text."""
    return json.dumps(dict(key), sort_keys=True)


# ------------------------------------------------------------------------------------------------------- what was said
def said_by_judges(suite: Any, observed: Observed, verdicts: pl.DataFrame) -> Said:
    """What judges say of each picture, by rule, protocol and key: the class, and the probability of it where told.

    Only what the suite can state as estimands: rules without classes are not in it.
    """
    found: Said = {}
    for estimand in suite.estimands(observed, verdicts):
        for part in estimand.parts:
            about = (estimand.rule, estimand.score.protocol, key_of(part.key))
            found.setdefault(about, ({}, {}))[0].update(zip(part.image_ids, part.said, strict=True))
    if not found:
        return {}
    for row in verdicts.filter(verdicts["detail"].is_not_null()).iter_rows(named=True):
        detail = json.loads(row["detail"])
        if detail.get("probability") is None:
            continue
        for (rule, protocol, key), (said, scores) in found.items():
            if (rule, protocol) != (row["rule"], row["protocol"]) or row["image_id"] not in said:
                continue
            if _fits(detail, json.loads(key)):
                given = float(detail["probability"])
                # Of yes and no a judge tells the probability of yes (table ``answers``), of others that of its choice.
                scores[row["image_id"]] = 1 - given if said[row["image_id"]] == "no" else given
    return found


def said_of_prompts(verdicts: pl.DataFrame) -> Said:
    """The vote of each prompt's pictures together: ``prompt_class`` in the detail of verdicts, by rule and protocol."""
    found: Said = {}
    for row in verdicts.filter(verdicts["detail"].str.contains('"prompt_class"')).iter_rows(named=True):
        detail = json.loads(row["detail"])
        name = detail.get("prompt_class")
        if name is None:
            continue
        said, scores = found.setdefault((row["rule"], row["protocol"], key_of({})), ({}, {}))
        said[row["prompt_id"]] = str(name)
        if (probability := detail.get("prompt_probabilities", {}).get(name)) is not None:
            scores[row["prompt_id"]] = float(probability)
    return found


def graded_rules(suite: Any, task: RatingTask) -> tuple[str, ...]:
    """Rules of verdicts whose numbers can be held against a task's answers: the task's own, and what its suite says."""
    asked: Mapping[str, Sequence[str]] = suite.graded_rules()
    also = asked.get(task.rule, ())
    own = (task.rule,) if task.level != "nominal" else ()
    return tuple(dict.fromkeys((*also, *own)))


def graded_values(
    verdicts: pl.DataFrame, rules: Sequence[str], key: Mapping[str, Any], *, by_prompt: bool = False
) -> dict[tuple[str, str], dict[str, float]]:
    """Numbers of verdicts by rule and protocol, then by picture, or prompt (the mean over its pictures).

    Args:
        key: verdicts whose detail has something else under one of its names are left out.
    """
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for row in verdicts.filter(verdicts["rule"].is_in(list(rules)) & verdicts["value"].is_not_null()).iter_rows(
        named=True
    ):
        if _fits({} if row["detail"] is None else json.loads(row["detail"]), key):
            item = row["prompt_id" if by_prompt else "image_id"]
            found.setdefault((row["rule"], row["protocol"]), {}).setdefault(item, []).append(float(row["value"]))
    return {about: {item: fmean(values) for item, values in of.items()} for about, of in found.items()}


def _fits(detail: Mapping[str, Any], key: Mapping[str, Any]) -> bool:
    return all(detail.get(name) == value for name, value in key.items() if name in detail)


# ------------------------------------------------------------------------------------------------------------- classes
def judge_report(
    said: Mapping[str, str],
    true: Mapping[str, str],
    observed: Observed,
    *,
    by: Sequence[str] = (),
    scores: Mapping[str, float] | None = None,
    n_resamples: int = 2_000,
    seed: int = 0,
) -> dict[str, Any]:
    """A judge beside the majority of people: confusion, agreement, and how often each class is found, per group.

    Args:
        said: the judge's class by picture (or prompt). true: that of people. scores: probability of the class said, if
            known.
        by: facets of prompts; per value of each, the rates again. A class's ``found`` is the judge's sensitivity for
            it, ``not_claimed`` the specificity.
    """
    options = {"n_resamples": n_resamples, "seed": seed}
    items = sorted(item for item in true if item in said)
    prompt_of = _prompts(observed)
    clusters = [prompt_of[item] for item in items]
    labels = sorted({*(true[i] for i in items), *(said[i] for i in items)}, key=order_of)
    table = [[sum(true[i] == a and said[i] == b for i in items) for b in labels] for a in labels]
    people, judge = [true[i] for i in items], [said[i] for i in items]
    found: dict[str, Any] = {
        "items": len(items),
        "without_verdict": sum(item not in said for item in true),
        "labels": labels,
        "confusion": table,
        "accuracy": _rate([a == b for a, b in zip(people, judge, strict=True)], clusters),
        "classes": _classes(labels, people, judge, clusters),
    }
    if items:
        pick: dict[str, Any] = {**options, "clusters": clusters}
        found["cohen_kappa"] = told(cohen_kappa(people, judge, **pick))
        found["mcc"] = told(mcc(people, judge, **pick))
        if len(labels) == 2:
            found["phi"] = told(phi(people, judge, **pick))
            found |= _area(labels, people, judge, [(scores or {}).get(i) for i in items], pick)
        if all(is_number(label) for label in labels):
            numbers = [[float(v) for v in side] for side in (people, judge)]
            found["kendall_tau_b"] = told(kendall_tau_b(*numbers, **pick))
            found["spearman"] = told(spearman(*numbers, **pick))
    groups: dict[str, Any] = {}
    for facet, value, chosen in _groups(observed, clusters, by):
        within = [[side[n] for n in chosen] for side in (people, judge, clusters)]
        groups.setdefault(facet, {})[value] = {
            "items": len(chosen),
            "accuracy": _rate([a == b for a, b in zip(*within[:2], strict=True)], within[2]),
            "classes": _classes(labels, *within),
        }
    if groups:
        found["groups"] = groups
    return found


def _classes(labels: Sequence[str], people: Any, judge: Any, clusters: Sequence[str]) -> dict[str, Any]:
    """Per class: how often the judge finds it where people see it, and does not claim it where they do not."""
    return {
        label: {
            "found": _rate(
                [b == label for a, b in zip(people, judge, strict=True) if a == label],
                [c for a, c in zip(people, clusters, strict=True) if a == label],
            ),
            "not_claimed": _rate(
                [b != label for a, b in zip(people, judge, strict=True) if a != label],
                [c for a, c in zip(people, clusters, strict=True) if a != label],
            ),
        }
        for label in labels
    }


def _area(
    labels: Sequence[str], people: Any, judge: Any, scores: Sequence[float | None], pick: Options
) -> dict[str, Any]:
    if not any(score is not None for score in scores):
        return {}
    positive = labels[1]
    # The probability is that of the class that was said.
    of_positive = [
        math.nan if score is None else score if said == positive else 1 - score
        for score, said in zip(scores, judge, strict=True)
    ]
    found = auc(of_positive, [float(label == positive) for label in people], **pick)
    return {"auc": told(found) | {"positive": positive}}


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
    """Numbers of a judge beside people's answers.

    Beside a scale: Kendall's tau-b, Spearman's rho and Pearson's r with the mean answer. Beside two classes: the AUC.
    Beside tones, which are numbers of one scale on both sides, also the mean difference and the share within one tone.

    Args:
        values: the judge's number by picture (or prompt).
        rated: that of people: the mean answer; of two classes, 1 for ``positive_of`` the task and 0 for the other.
        by: facets of prompts; per value of each, the same again.
    """
    options = {"n_resamples": n_resamples, "seed": seed}
    items = sorted(item for item in rated if item in values)
    prompt_of = _prompts(observed)
    clusters = [prompt_of[item] for item in items]
    found: dict[str, Any] = {
        "items": len(items),
        "without_verdict": len(rated) - len(items),
        **_graded(task, [rated[i] for i in items], [values[i] for i in items], clusters, options),
    }
    groups: dict[str, Any] = {}
    for facet, value, chosen in _groups(observed, clusters, by):
        part = [items[n] for n in chosen]
        own = [clusters[n] for n in chosen]
        groups.setdefault(facet, {})[value] = {
            "items": len(chosen),
            **_graded(task, [rated[i] for i in part], [values[i] for i in part], own, options),
        }
    if groups:
        found["groups"] = groups
    return found


def _graded(
    task: RatingTask, people: Sequence[float], judge: Sequence[float], clusters: Sequence[str], options: Options
) -> dict[str, Any]:
    pick: dict[str, Any] = {**options, "clusters": clusters}
    if task.level == "nominal":
        return {"auc": told(auc(judge, people, **pick)) | {"positive": positive_of(task)}}
    found = {
        "kendall_tau_b": told(kendall_tau_b(people, judge, **pick)),
        "spearman": told(spearman(people, judge, **pick)),
        "pearson": told(pearson(people, judge, **pick)),
    }
    if task.kind == "tone":
        apart = np.subtract(judge, people, dtype=np.float64)
        found["mean_difference"] = mean_with_interval(apart, clusters, options)
        found["within_one"] = _rate(list(np.abs(apart) <= 1), clusters)
    return found


def positive_of(task: RatingTask) -> str:
    """Of two answers, the one that a large number stands for: yes, or else the first; empty for more than two."""
    proper = [option for option in task.options if option not in task.unsure]
    return "" if len(proper) != 2 else "yes" if "yes" in proper else proper[0]


# --------------------------------------------------------------------------------------------------------------- parts
def _prompts(observed: Observed) -> dict[str, str]:
    """The prompt of each picture; a prompt is its own."""
    return {p: p for p in observed.prompts} | dict(observed.images.select("image_id", "prompt_id").iter_rows())


def _groups(observed: Observed, prompts: Sequence[str], by: Sequence[str]) -> Iterable[tuple[str, str, list[int]]]:
    """Facet, value, and the positions of the items of these prompts that have it."""
    for facet in by:
        value_of = [observed.prompts[prompt].facets.get(facet) for prompt in prompts]
        for value in sorted({v for v in value_of if v is not None}, key=lambda v: order_of(str(v))):
            yield facet, str(value), [n for n, v in enumerate(value_of) if v == value]


def _rate(hits: Sequence[bool], clusters: Sequence[str]) -> dict[str, Any]:
    if not hits:
        return {"value": math.nan, "low": math.nan, "high": math.nan, "n": 0}
    found = clustered_proportion(np.array(hits, dtype=np.float64), np.asarray(clusters))
    return {"value": found.value, "low": found.low, "high": found.high, "n": len(hits)}


def mean_with_interval(values: Any, clusters: Sequence[str], options: Options) -> dict[str, Any]:
    """The mean of values with a bootstrap interval over clusters, as a record."""
    if not len(values):
        return {"value": math.nan, "low": math.nan, "high": math.nan, "n": 0}
    if options["n_resamples"] == 0:
        return {"value": float(np.mean(values)), "low": math.nan, "high": math.nan, "n": len(values)}
    found = cluster_bootstrap_mean(values, np.asarray(clusters), **options)
    return {"value": found.value, "low": found.low, "high": found.high, "n": len(values)}
