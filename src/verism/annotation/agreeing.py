"""How far people agree with each other, and judges with people, task by task."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.annotation.ratings import Ratings, human_classes
from verism.records import Observed, RatingTask
from verism.statistics.agreement import Agreement, cohen_kappa, fleiss_kappa, krippendorff_alpha, rating_counts
from verism.statistics.association import auc, kendall_tau_b, majority, mcc, percent_agreement, phi, spearman
from verism.statistics.intervals import clustered_proportion
from verism.store import Run

if TYPE_CHECKING:
    import polars as pl

__all__ = ["agreement_report", "judge_report", "said_by_judges"]

Options = Mapping[str, Any]


def agreement_report(
    run: Run,
    suite: Any,
    ratings: Ratings,
    observed: Observed | None,
    *,
    by: Sequence[str] = (),
    n_resamples: int = 2_000,
    seed: int = 0,
) -> dict[str, Any]:
    """Everything about the ratings of a run, as plain records; undefined numbers are NaN.

    Args:
        observed: what is known of the pictures, to hold judges against people; None leaves that out.
        by: facets of prompts: how well judges do in each group.
        n_resamples, seed: of the intervals, which resample prompts (with all their pictures).

    Returns:
        ``tasks``: by name, what people say among themselves (``people``) and, where the task has a rule that verdicts
        are about, by protocol what the judge says beside them (``judges``).
    """
    options = {"n_resamples": n_resamples, "seed": seed}
    prompt_of = _prompts_of_items(run, set(ratings.table["item"]))
    tasks: dict[str, Any] = {}
    judged = {} if observed is None else said_by_judges(suite, observed, run.verdicts())
    for name, task in ratings.tasks.items():
        rows = ratings.table.filter(ratings.table["task"] == name)
        if rows.is_empty():
            continue
        tasks[name] = {"question": task.question, "people": _people(task, rows, prompt_of, options)}
        if task.rule and observed is not None and task.unit == "picture":
            true = human_classes(run, suite, task.rule, task.key, ratings=ratings)
            found = {
                protocol: judge_report(said, true, observed, by=by, scores=scores, **options)
                for (rule, protocol, key), (said, scores) in judged.items()
                if (rule, key) == (task.rule, _key(task.key))
            }
            if found:
                tasks[name]["judges"] = found
    return {"run": run.name, "tasks": tasks}


# -------------------------------------------------------------------------------------------------------------- people
def _people(task: RatingTask, rows: pl.DataFrame, prompt_of: Mapping[str, str], options: Options) -> dict[str, Any]:
    proper = rows.filter(rows["check"].is_null())
    items = sorted(set(proper["item"]))
    raters = sorted(set(proper["rater"]))
    table = np.full((len(raters), len(items)), None, dtype=object)
    place_r, place_i = ({name: n for n, name in enumerate(names)} for names in (raters, items))
    for row in proper.iter_rows(named=True):
        if row["answer"] is not None and row["answer"] not in task.unsure:
            table[place_r[row["rater"]], place_i[row["item"]]] = _value(task, row["answer"])
    clusters = [prompt_of.get(item, item) for item in items]
    most = majority(table)
    seconds = [s for s in rows["seconds"].to_list() if s is not None]
    counts = rating_counts(table).counts
    votes = counts.sum(axis=1)
    told: dict[str, Any] = {
        "items": len(items),
        "raters": len(raters),
        "answers": int(votes.sum()),
        "skipped": int(proper["answer"].null_count()),
        "cannot_tell": int(proper["answer"].is_in(list(task.unsure)).sum()),
        "checks": int(rows.height - proper.height),
        "seconds_median": median(seconds) if seconds else math.nan,
        "majority": {
            "shares": _shares(most.values),
            "ties": int(most.tied.sum()),
            "without_an_answer": int((most.n_ratings == 0).sum()),
        },
        "percent_agreement": _told(percent_agreement(table, clusters=clusters, **options)),
        "krippendorff_alpha": _told(krippendorff_alpha(table, level=task.level, clusters=clusters, **options))
        | {"level": task.level},
    }
    rated = votes >= 2
    if rated.any() and len(set(votes[rated])) == 1:
        told["fleiss_kappa"] = _told(
            fleiss_kappa(counts[rated], clusters=np.array(clusters, dtype=object)[rated].astype(str), **options)
        )
    told["pairs"] = _pairs(task, table, raters, clusters, options)
    told["raters_alone"] = _alone(table, raters, proper, rows, task)
    return told


def _pairs(
    task: RatingTask, table: Any, raters: Sequence[str], clusters: Sequence[str], options: Options
) -> list[dict[str, Any]]:
    """Two raters at a time, if they share at least two items; at most the first 45 pairs."""
    found: list[dict[str, Any]] = []
    for a in range(len(raters)):
        for b in range(a + 1, len(raters)):
            both = [i for i in range(table.shape[1]) if table[a, i] is not None and table[b, i] is not None]
            if len(both) < 2 or len(found) == 45:
                continue
            first, second = table[a, both], table[b, both]
            pick: dict[str, Any] = {**options, "clusters": [clusters[i] for i in both]}
            entry: dict[str, Any] = {
                "raters": [raters[a], raters[b]],
                "items": len(both),
                "cohen_kappa": _told(cohen_kappa(first, second, **pick)),
                "mcc": _told(mcc(first, second, **pick)),
            }
            if len({*first, *second}) <= 2:
                entry["phi"] = _told(phi(first, second, **pick))
            if task.level != "nominal":
                entry["kendall_tau_b"] = _told(kendall_tau_b(first, second, **pick))
                entry["spearman"] = _told(spearman(first, second, **pick))
                entry["cohen_kappa_quadratic"] = _told(cohen_kappa(first, second, weights="quadratic", **pick))
            found.append(entry)
    return found


def _alone(
    table: Any, raters: Sequence[str], proper: pl.DataFrame, rows: pl.DataFrame, task: RatingTask
) -> list[dict[str, Any]]:
    """Each rater against the majority of the others."""
    entries = []
    for number, name in enumerate(raters):
        others = majority(np.delete(table, number, axis=0)) if len(raters) > 1 else None
        pairs = [
            (table[number, i], others.values[i])
            for i in range(table.shape[1])
            if others is not None and table[number, i] is not None and others.values[i] is not None
        ]
        own = rows.filter(rows["rater"] == name)
        seconds = [s for s in own["seconds"].to_list() if s is not None]
        entries.append(
            {
                "rater": name,
                "answers": int(proper.filter(proper["rater"] == name).height),
                "with_majority_of_others": (sum(a == b for a, b in pairs) / len(pairs) if pairs else math.nan),
                "compared": len(pairs),
                "cannot_tell": int(own["answer"].is_in(list(task.unsure)).sum()),
                "seconds_median": median(seconds) if seconds else math.nan,
            }
        )
    return entries


# -------------------------------------------------------------------------------------------------------------- judges
def said_by_judges(
    suite: Any, observed: Observed, verdicts: pl.DataFrame
) -> dict[tuple[str, str, str], tuple[dict[str, str], dict[str, float]]]:
    """What judges say of each picture, by rule, protocol and key: the class, and the probability of it where told.

    Only what the suite can state as estimands: rules without classes are not in it.
    """
    found: dict[tuple[str, str, str], tuple[dict[str, str], dict[str, float]]] = {}
    for estimand in getattr(suite, "estimands", lambda *_: ())(observed, verdicts):
        for part in estimand.parts:
            about = (estimand.rule, estimand.score.protocol, _key(part.key))
            found.setdefault(about, ({}, {}))[0].update(zip(part.image_ids, part.said, strict=True))
    if not found:
        return {}
    for row in verdicts.filter(verdicts["detail"].is_not_null()).iter_rows(named=True):
        detail = json.loads(row["detail"])
        if detail.get("probability") is None:
            continue
        for (rule, protocol, key), (said, scores) in found.items():
            wanted = json.loads(key)
            fits = all(detail.get(name) == value for name, value in wanted.items() if name in detail)
            if (rule, protocol) == (row["rule"], row["protocol"]) and fits and row["image_id"] in said:
                scores[row["image_id"]] = float(detail["probability"])
    return found


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
        said: the judge's class by picture. true: that of people. scores: probability of the class said, if known.
        by: facets of prompts; per value of each, the rates again. A class's ``found`` is the judge's sensitivity for
            it, ``not_claimed`` the specificity.
    """
    options = {"n_resamples": n_resamples, "seed": seed}
    images = sorted(image for image in true if image in said)
    prompt_of = dict(observed.images.select("image_id", "prompt_id").iter_rows())
    clusters = [prompt_of[image] for image in images]
    labels = sorted({*(true[i] for i in images), *(said[i] for i in images)}, key=_order)
    table = [[sum(true[i] == a and said[i] == b for i in images) for b in labels] for a in labels]
    people, judge = [true[i] for i in images], [said[i] for i in images]
    told: dict[str, Any] = {
        "items": len(images),
        "without_verdict": sum(image not in said for image in true),
        "labels": labels,
        "confusion": table,
        "accuracy": _rate([a == b for a, b in zip(people, judge, strict=True)], clusters),
        "classes": _classes(labels, people, judge, clusters),
    }
    if images:
        pick: dict[str, Any] = {**options, "clusters": clusters}
        told["cohen_kappa"] = _told(cohen_kappa(people, judge, **pick))
        told["mcc"] = _told(mcc(people, judge, **pick))
        if len(labels) == 2:
            told["phi"] = _told(phi(people, judge, **pick))
            told |= _area(labels, people, judge, [(scores or {}).get(i) for i in images], pick)
        if all(_is_number(label) for label in labels):
            numbers = [[float(v) for v in side] for side in (people, judge)]
            told["kendall_tau_b"] = _told(kendall_tau_b(*numbers, **pick))
            told["spearman"] = _told(spearman(*numbers, **pick))
    groups: dict[str, Any] = {}
    for facet in by:
        value_of = [observed.prompts[prompt].facets.get(facet) for prompt in clusters]
        for value in sorted({v for v in value_of if v is not None}, key=str):
            chosen = [n for n, v in enumerate(value_of) if v == value]
            within = [[side[n] for n in chosen] for side in (people, judge, clusters)]
            groups.setdefault(facet, {})[str(value)] = {
                "items": len(chosen),
                "accuracy": _rate([a == b for a, b in zip(*within[:2], strict=True)], within[2]),
                "classes": _classes(labels, *within),
            }
    if groups:
        told["groups"] = groups
    return told


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
    return {"auc": _told(found) | {"positive": positive}}


def _rate(hits: Sequence[bool], clusters: Sequence[str]) -> dict[str, Any]:
    if not hits:
        return {"value": math.nan, "low": math.nan, "high": math.nan, "n": 0}
    found = clustered_proportion(np.array(hits, dtype=np.float64), np.asarray(clusters))
    return {"value": found.value, "low": found.low, "high": found.high, "n": len(hits)}


# --------------------------------------------------------------------------------------------------------------- parts
def _told(found: Agreement) -> dict[str, Any]:
    return {"value": found.value, "low": found.low, "high": found.high, "items": found.n_units}


def _value(task: RatingTask, answer: str) -> Any:
    """Answers that are numbers count as numbers where their differences mean something."""
    return float(answer) if task.level != "nominal" and _is_number(answer) else answer


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _order(label: str) -> tuple[bool, float, str]:
    return (not _is_number(label), float(label) if _is_number(label) else 0.0, label)


def _shares(values: Any) -> dict[str, float]:
    known = [str(int(v)) if isinstance(v, float) and v.is_integer() else str(v) for v in values if v is not None]
    return {value: known.count(value) / len(known) for value in sorted(set(known), key=_order)}


def _key(key: Mapping[str, Any]) -> str:
    return json.dumps(dict(key), sort_keys=True)


def _prompts_of_items(run: Run, items: Iterable[str]) -> dict[str, str]:
    """The prompt of each item: of a picture, of a pair that of its first picture; a prompt is its own."""
    prompts = dict(run.read("images").select("image_id", "prompt_id").iter_rows())
    return {item: prompts.get(item.partition("|")[0], item) for item in items}
