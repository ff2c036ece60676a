"""How far people agree with each other, and judges with people, task by task."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.annotation.judge_agreement import (
    Said,
    graded_report,
    graded_rules,
    graded_values,
    judge_report,
    key_of,
    mean_with_interval,
    positive_of,
    said_by_judges,
    said_of_prompts,
)
from verism.annotation.numbers import Options, order_of, told, value_of
from verism.annotation.preference import preference_report
from verism.annotation.ratings import Ratings, human_classes, majority_answer
from verism.records import Observed, RatingTask
from verism.statistics.agreement import cohen_kappa, fleiss_kappa, krippendorff_alpha, rating_counts
from verism.statistics.association import kendall_tau_b, majority, mcc, percent_agreement, phi, spearman
from verism.store import Run

if TYPE_CHECKING:
    import polars as pl

__all__ = ["agreement_report", "judge_report", "rated_values", "said_by_judges"]


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
        ``tasks``: by name, what people say among themselves (``people``); and where verdicts are about the same, by
        protocol what the judge's classes are worth beside them (``judges``), and by rule and protocol its numbers
        (``graded``). For pairs of pictures, which run people like better (``preference``).
    """
    options = {"n_resamples": n_resamples, "seed": seed}
    prompt_of = _prompts_of_items(run, set(ratings.table["item"]))
    tasks: dict[str, Any] = {}
    verdicts = run.verdicts() if observed is not None else None
    judged: Said = {} if observed is None or verdicts is None else said_by_judges(suite, observed, verdicts)
    for name, task in ratings.tasks.items():
        rows = ratings.table.filter(ratings.table["task"] == name)
        if rows.is_empty():
            continue
        if task.unit == "pair":
            several = len(ratings.comparisons) > 1
            for pair, table in ratings.comparisons.items():
                own = table.filter(table["task"] == name)
                if own.height:
                    tasks[f"{name}: {pair[0]} or {pair[1]}" if several else name] = {
                        "question": task.question,
                        "people": _people(task, own, prompt_of, options),
                        "preference": preference_report(pair, own, prompt_of, seed=seed),
                    }
            continue
        tasks[name] = {"question": task.question, "people": _people(task, rows, prompt_of, options)}
        if observed is not None and verdicts is not None and task.rule:
            said = judged if task.unit == "picture" else said_of_prompts(verdicts)
            true = human_classes(run, suite, task.rule, task.key, ratings=ratings)
            true = true if task.unit == "picture" else _most(task, rows)
            tasks[name] |= _judges(suite, task, rows, said, true, observed, verdicts, by, options)
    return {"run": run.name, "tasks": tasks}


def _judges(
    suite: Any,
    task: RatingTask,
    rows: pl.DataFrame,
    judged: Said,
    true: Mapping[str, str],
    observed: Observed,
    verdicts: pl.DataFrame,
    by: Sequence[str],
    options: Options,
) -> dict[str, Any]:
    """What the verdicts of a task's rule, and those that tell the same by degrees, are worth beside people."""
    judges = {
        protocol: judge_report(said, true, observed, by=by, scores=scores, **options)
        for (rule, protocol, key), (said, scores) in judged.items()
        if (rule, key) == (task.rule, key_of(task.key)) and true
    }
    rated = rated_values(task, rows)
    graded: dict[str, Any] = {}
    rules = graded_rules(suite, task) if rated else ()
    for (rule, protocol), values in sorted(
        graded_values(verdicts, rules, task.key, by_prompt=task.unit == "prompt").items()
    ):
        if not rated.keys() & values.keys():
            continue
        found = graded_report(values, task, rated, observed, by=by, **options)
        graded.setdefault(rule, {})[protocol] = found
    return {name: found for name, found in (("judges", judges), ("graded", graded)) if found}


def rated_values(task: RatingTask, rows: pl.DataFrame) -> dict[str, float]:
    """People's answers as a number by item: the mean on a scale; of two classes the majority, 1 or 0.

    Checks, "cannot tell" and, of two classes, ties are left out. Empty for tasks of several classes.

    Args:
        rows: of this task alone.
    """
    positive = positive_of(task)
    if task.level == "nominal":
        return {i: float(most == positive) for i, most in _most(task, rows).items()} if positive else {}
    return {item: fmean(float(value_of(task, a)) for a in of) for item, of in _answers(task, rows).items()}


def _most(task: RatingTask, rows: pl.DataFrame) -> dict[str, str]:
    """The majority of each item, without ties."""
    most = {item: majority_answer(of) for item, of in _answers(task, rows).items()}
    return {item: answer for item, answer in most.items() if answer is not None}


def _answers(task: RatingTask, rows: pl.DataFrame) -> dict[str, list[str]]:
    """The answers that are one, by item; without checks."""
    found: dict[str, list[str]] = {}
    for row in rows.filter(rows["check"].is_null()).iter_rows(named=True):
        if row["answer"] is not None and row["answer"] not in task.unsure:
            found.setdefault(row["item"], []).append(row["answer"])
    return found


# -------------------------------------------------------------------------------------------------------------- people
def _people(task: RatingTask, rows: pl.DataFrame, prompt_of: Mapping[str, str], options: Options) -> dict[str, Any]:
    proper = rows.filter(rows["check"].is_null())
    items = sorted(set(proper["item"]))
    raters = sorted(set(proper["rater"]))
    table = np.full((len(raters), len(items)), None, dtype=object)
    place_r, place_i = ({name: n for n, name in enumerate(names)} for names in (raters, items))
    for row in proper.iter_rows(named=True):
        if row["answer"] is not None and row["answer"] not in task.unsure:
            table[place_r[row["rater"]], place_i[row["item"]]] = value_of(task, row["answer"])
    clusters = [prompt_of.get(item, item) for item in items]
    most = majority(table)
    seconds = [s for s in rows["seconds"].to_list() if s is not None]
    counts = rating_counts(table).counts
    votes = counts.sum(axis=1)
    found: dict[str, Any] = {
        "items": len(items),
        "raters": len(raters),
        "answers": int(votes.sum()),
        "skipped": int(proper["answer"].null_count()),
        "cannot_tell": int(proper["answer"].is_in(list(task.unsure)).sum()),
        "checks": int(rows.height - proper.height),
        "seconds_median": median(seconds) if seconds else math.nan,
        "majority": {
            "shares": _shares(task, most.values),
            "ties": int(most.tied.sum()),
            "without_an_answer": int((most.n_ratings == 0).sum()),
        },
        "percent_agreement": told(percent_agreement(table, clusters=clusters, **options)),
        "krippendorff_alpha": told(krippendorff_alpha(table, level=task.level, clusters=clusters, **options))
        | {"level": task.level},
    }
    if task.level != "nominal":
        found["mean"] = _mean_answer(table, clusters, options)
        found["within_one"] = _within_one(task, table, clusters, options)
    rated = votes >= 2
    if rated.any() and len(set(votes[rated])) == 1:
        found["fleiss_kappa"] = told(
            fleiss_kappa(counts[rated], clusters=np.array(clusters, dtype=object)[rated].astype(str), **options)
        )
    found["pairs"] = _pairs(task, table, raters, clusters, options)
    found["raters_alone"] = _alone(table, raters, proper, rows, task)
    return found


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
                "cohen_kappa": told(cohen_kappa(first, second, **pick)),
                "mcc": told(mcc(first, second, **pick)),
            }
            if len({*first, *second}) <= 2:
                entry["phi"] = told(phi(first, second, **pick))
            if task.level != "nominal":
                entry["kendall_tau_b"] = told(kendall_tau_b(first, second, **pick))
                entry["spearman"] = told(spearman(first, second, **pick))
                entry["within_one"] = _within_one(task, table[[a, b]][:, both], pick["clusters"], options)
                entry["cohen_kappa_quadratic"] = told(cohen_kappa(first, second, weights="quadratic", **pick))
            found.append(entry)
    return found


def _mean_answer(table: Any, clusters: Sequence[str], options: Options) -> dict[str, Any]:
    """The mean over items of their mean answer."""
    means = [fmean(given) if (given := [v for v in column if v is not None]) else math.nan for column in table.T]
    known = [n for n, mean in enumerate(means) if mean == mean]
    return mean_with_interval([means[n] for n in known], [clusters[n] for n in known], options)


def _within_one(task: RatingTask, table: Any, clusters: Sequence[str], options: Options) -> dict[str, Any]:
    """Share of the pairs of answers about an item that are at most one option apart, averaged over items."""
    proper = [option for option in task.options if option not in task.unsure]
    place = {value_of(task, option): number for number, option in enumerate(proper)}
    shares, kept = [], []
    for column, cluster in zip(table.T, clusters, strict=True):
        given = [place[v] for v in column if v is not None]
        if pairs := list(combinations(given, 2)):
            shares.append(fmean(abs(a - b) <= 1 for a, b in pairs))
            kept.append(cluster)
    return mean_with_interval(shares, kept, options)


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
        seconds = [s for s in rows.filter(rows["rater"] == name)["seconds"].to_list() if s is not None]
        own = proper.filter(proper["rater"] == name)
        entries.append(
            {
                "rater": name,
                "answers": sum(value is not None for value in table[number]),
                "with_majority_of_others": (sum(a == b for a, b in pairs) / len(pairs) if pairs else math.nan),
                "compared": len(pairs),
                "cannot_tell": int(own["answer"].is_in(list(task.unsure)).sum()),
                "seconds_median": median(seconds) if seconds else math.nan,
            }
        )
    return entries


# --------------------------------------------------------------------------------------------------------------- parts
def _shares(task: RatingTask, values: Any) -> dict[str, float]:
    """How often each answer is the majority, in the order of the task's options."""
    known = [value for value in values if value is not None]
    proper = [option for option in task.options if option not in task.unsure]
    name_of = {value_of(task, option): option for option in proper}
    names = [name_of.get(value, str(value)) for value in known]
    listed = [*proper, *sorted(set(names) - set(proper), key=order_of)]
    return {name: names.count(name) / len(names) for name in listed if name in names}


def _prompts_of_items(run: Run, items: Iterable[str]) -> dict[str, str]:
    """The prompt of each item: of a picture, of a pair that of its first picture; a prompt is its own."""
    prompts = dict(run.read("images").select("image_id", "prompt_id").iter_rows())
    return {item: prompts.get(item.partition("|")[0], item) for item in items}
