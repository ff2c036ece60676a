"""How far annotators agree with each other, and judges with annotators, task by task."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.annotation.judge_agreement import (
    Clustered,
    Predicted,
    Resampling,
    agreement_record,
    graded_report,
    graded_rules,
    graded_values,
    is_number,
    judge_report,
    key_text,
    label_order,
    mean_with_interval,
    positive_option,
    predicted_classes,
    predicted_prompt_classes,
)
from verism.annotation.preference import preference_report
from verism.annotation.ratings import Ratings, human_classes, majority_answer
from verism.records import Observed, RatingTask
from verism.statistics.agreement import cohen_kappa, fleiss_kappa, krippendorff_alpha, rating_counts
from verism.statistics.association import kendall_tau_b, majority, mcc, percent_agreement, phi, spearman
from verism.store import Run
from verism.suites.base import Suite

if TYPE_CHECKING:
    import polars as pl

__all__ = ["agreement_report", "answer_value", "rated_values"]

MAX_PAIRS = 45  # pairs of raters that are listed


@dataclass(frozen=True, kw_only=True)
class _Judged:
    """What judges say about a run.

    Attributes:
        suite: whose verdicts they are.
        observed: prompts and images.
        verdicts: table ``verdicts``.
        predictions: the class of each image, by rule, protocol and key.
        by: facets of prompts by which judges are looked at group by group.
        options: of intervals.
    """

    suite: Suite
    observed: Observed
    verdicts: pl.DataFrame
    predictions: Mapping[tuple[str, str, str], Predicted]
    by: Sequence[str]
    options: Resampling


def agreement_report(
    run: Run,
    suite: Suite,
    ratings: Ratings,
    known: tuple[Observed, pl.DataFrame] | None,
    *,
    by: Sequence[str] = (),
    n_resamples: int = 2_000,
    seed: int = 0,
) -> dict[str, Any]:
    """Everything about the ratings of a run, as plain records; undefined numbers are NaN.

    Args:
        run: the run.
        suite: the suite, with the rules of the run's scores.
        ratings: ratings of the run.
        known: prompts and images, and verdicts of the run's scores, to hold judges against annotators; None leaves that
            out.
        by: facets of prompts: how well judges do in each group.
        n_resamples: resamples of prompts (with all their images) behind intervals; 0 for no intervals.
        seed: seed of the resampling.

    Returns:
        ``tasks``: by name, what annotators say among themselves (``people``); and where verdicts are about the same,
        by protocol what the judge's classes are worth beside them (``judges``), and by rule and protocol its numbers
        (``graded``). For pairs of images, which run annotators prefer (``preference``).
    """
    options: Resampling = {"n_resamples": n_resamples, "seed": seed}
    prompt_of = _prompts_of_items(run, set(ratings.table["item"]))
    judged = None
    if known is not None:
        observed, verdicts = known
        judged = _Judged(
            suite=suite,
            observed=observed,
            verdicts=verdicts,
            predictions=predicted_classes(suite.estimands(observed, verdicts), verdicts),
            by=by,
            options=options,
        )
    tasks: dict[str, Any] = {}
    for name, task in ratings.tasks.items():
        rows = ratings.table.filter(ratings.table["task"] == name)
        if rows.is_empty():
            continue
        if task.unit == "pair":
            several = len(ratings.comparisons) > 1
            for pair, table in ratings.comparisons.items():
                of_pair = table.filter(table["task"] == name)
                if of_pair.height:
                    tasks[f"{name}: {pair[0]} or {pair[1]}" if several else name] = {
                        "question": task.question,
                        "people": _among_raters(task, of_pair, prompt_of, options),
                        "preference": preference_report(pair, of_pair, prompt_of, seed=seed),
                    }
            continue
        tasks[name] = {"question": task.question, "people": _among_raters(task, rows, prompt_of, options)}
        if judged is not None and task.rule:
            if task.unit == "picture":
                true = human_classes(run, suite, task.rule, task.key, ratings=ratings)
            else:
                true = _majorities(task, rows)
            tasks[name] |= _beside_judges(task, rows, true, judged)
    return {"run": run.name, "tasks": tasks}


def _beside_judges(task: RatingTask, rows: pl.DataFrame, true: Mapping[str, str], judged: _Judged) -> dict[str, Any]:
    """What the verdicts of a task's rule, and those that say the same by degrees, are worth beside annotators."""
    predictions = judged.predictions if task.unit == "picture" else predicted_prompt_classes(judged.verdicts)
    judges = {
        protocol: judge_report(predicted, true, judged.observed, by=judged.by, **judged.options)
        for (rule, protocol, key), predicted in predictions.items()
        if (rule, key) == (task.rule, key_text(task.key)) and true
    }
    rated = rated_values(task, rows)
    graded: dict[str, Any] = {}
    rules = graded_rules(judged.suite, task) if rated else ()
    values_by_rule = graded_values(judged.verdicts, rules, task.key, by_prompt=task.unit == "prompt")
    for (rule, protocol), values in sorted(values_by_rule.items()):
        if rated.keys() & values.keys():
            graded.setdefault(rule, {})[protocol] = graded_report(
                values, task, rated, judged.observed, by=judged.by, **judged.options
            )
    return {name: report for name, report in (("judges", judges), ("graded", graded)) if report}


def rated_values(task: RatingTask, rows: pl.DataFrame) -> dict[str, float]:
    """Annotators' answers as a number by item: the mean on a scale; of two classes the majority, 1 or 0.

    Checks, "cannot tell" and, of two classes, ties are left out. Empty for tasks of several classes.

    Args:
        task: the question that annotators were asked.
        rows: table ``ratings`` of this task alone.
    """
    positive = positive_option(task)
    if task.level == "nominal":
        return {i: float(most == positive) for i, most in _majorities(task, rows).items()} if positive else {}
    return {
        item: fmean(float(answer_value(task, a)) for a in answers) for item, answers in _answers(task, rows).items()
    }


def answer_value(task: RatingTask, answer: str) -> float | str:
    """An answer to a task: a number where differences between answers mean something.

    Options of a scale that are no numbers count by their position, from 1.
    """
    if task.level == "nominal":
        return answer
    proper = _proper_options(task)
    return float(answer) if all(map(is_number, proper)) else float(1 + proper.index(answer))


def _proper_options(task: RatingTask) -> list[str]:
    """The options that are answers, without "cannot tell"."""
    return [option for option in task.options if option not in task.unsure]


def _majorities(task: RatingTask, rows: pl.DataFrame) -> dict[str, str]:
    """The majority of each item, without ties."""
    most = {item: majority_answer(answers) for item, answers in _answers(task, rows).items()}
    return {item: answer for item, answer in most.items() if answer is not None}


def _answers(task: RatingTask, rows: pl.DataFrame) -> dict[str, list[str]]:
    """The answers that are one, by item; without checks."""
    answers: dict[str, list[str]] = {}
    for row in rows.filter(rows["check"].is_null()).iter_rows(named=True):
        if row["answer"] is not None and row["answer"] not in task.unsure:
            answers.setdefault(row["item"], []).append(row["answer"])
    return answers


# -------------------------------------------------------------------------------------------------------------- raters
def _among_raters(
    task: RatingTask, rows: pl.DataFrame, prompt_of: Mapping[str, str], options: Resampling
) -> dict[str, Any]:
    """How far raters agree about a task."""
    proper = rows.filter(rows["check"].is_null())
    items = sorted(set(proper["item"]))
    raters = sorted(set(proper["rater"]))
    table = np.full((len(raters), len(items)), None, dtype=object)
    row_of, column_of = ({name: n for n, name in enumerate(names)} for names in (raters, items))
    for row in proper.iter_rows(named=True):
        if row["answer"] is not None and row["answer"] not in task.unsure:
            table[row_of[row["rater"]], column_of[row["item"]]] = answer_value(task, row["answer"])
    clusters = [prompt_of.get(item, item) for item in items]
    clustered: Clustered = {**options, "clusters": clusters}
    most = majority(table)
    seconds = [s for s in rows["seconds"].to_list() if s is not None]
    counts = rating_counts(table).counts
    votes = counts.sum(axis=1)
    report: dict[str, Any] = {
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
        "percent_agreement": agreement_record(percent_agreement(table, **clustered)),
        "krippendorff_alpha": agreement_record(krippendorff_alpha(table, level=task.level, **clustered))
        | {"level": task.level},
    }
    if task.level != "nominal":
        report["mean"] = _mean_answer(table, clusters, options)
        report["within_one"] = _within_one(task, table, clusters, options)
    rated = votes >= 2
    if rated.any() and len(set(votes[rated])) == 1:
        report["fleiss_kappa"] = agreement_record(
            fleiss_kappa(counts[rated], clusters=np.array(clusters, dtype=object)[rated].astype(str), **options)
        )
    report["pairs"] = _pairs(task, table, raters, clusters, options)
    report["raters_alone"] = _each_rater(table, raters, proper, rows, task)
    return report


def _pairs(
    task: RatingTask, table: Any, raters: Sequence[str], clusters: Sequence[str], options: Resampling
) -> list[dict[str, Any]]:
    """Two raters at a time, if they share at least two items; at most ``MAX_PAIRS``."""
    entries: list[dict[str, Any]] = []
    for a in range(len(raters)):
        for b in range(a + 1, len(raters)):
            both = [i for i in range(table.shape[1]) if table[a, i] is not None and table[b, i] is not None]
            if len(both) < 2 or len(entries) == MAX_PAIRS:
                continue
            first, second = table[a, both], table[b, both]
            clustered: Clustered = {**options, "clusters": [clusters[i] for i in both]}
            entry: dict[str, Any] = {
                "raters": [raters[a], raters[b]],
                "items": len(both),
                "cohen_kappa": agreement_record(cohen_kappa(first, second, **clustered)),
                "mcc": agreement_record(mcc(first, second, **clustered)),
            }
            if len({*first, *second}) <= 2:
                entry["phi"] = agreement_record(phi(first, second, **clustered))
            if task.level != "nominal":
                entry["kendall_tau_b"] = agreement_record(kendall_tau_b(first, second, **clustered))
                entry["spearman"] = agreement_record(spearman(first, second, **clustered))
                entry["within_one"] = _within_one(task, table[[a, b]][:, both], clustered["clusters"], options)
                quadratic = cohen_kappa(first, second, weights="quadratic", **clustered)
                entry["cohen_kappa_quadratic"] = agreement_record(quadratic)
            entries.append(entry)
    return entries


def _mean_answer(table: Any, clusters: Sequence[str], options: Resampling) -> dict[str, Any]:
    """The mean over items of their mean answer."""
    answers = [[v for v in column if v is not None] for column in table.T]
    answered = [n for n, of_item in enumerate(answers) if of_item]
    means = [fmean(answers[n]) for n in answered]
    return mean_with_interval(means, clusters=[clusters[n] for n in answered], **options)


def _within_one(task: RatingTask, table: Any, clusters: Sequence[str], options: Resampling) -> dict[str, Any]:
    """Share of the pairs of answers about an item that are at most one option apart, averaged over items."""
    rank = {answer_value(task, option): number for number, option in enumerate(_proper_options(task))}
    shares, kept = [], []
    for column, cluster in zip(table.T, clusters, strict=True):
        ranks = [rank[v] for v in column if v is not None]
        if pairs := list(combinations(ranks, 2)):
            shares.append(fmean(abs(a - b) <= 1 for a, b in pairs))
            kept.append(cluster)
    return mean_with_interval(shares, clusters=kept, bounds=(0.0, 1.0), **options)


def _each_rater(
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
        subset = proper.filter(proper["rater"] == name)
        entries.append(
            {
                "rater": name,
                "answers": sum(value is not None for value in table[number]),
                "with_majority_of_others": (sum(a == b for a, b in pairs) / len(pairs) if pairs else math.nan),
                "compared": len(pairs),
                "cannot_tell": int(subset["answer"].is_in(list(task.unsure)).sum()),
                "seconds_median": median(seconds) if seconds else math.nan,
            }
        )
    return entries


# --------------------------------------------------------------------------------------------------------------- parts
def _shares(task: RatingTask, values: Any) -> dict[str, float]:
    """How often each answer is the majority, in the order of the task's options."""
    known = [value for value in values if value is not None]
    proper = _proper_options(task)
    name_of = {answer_value(task, option): option for option in proper}
    names = [name_of.get(value, str(value)) for value in known]
    listed = [*proper, *sorted(set(names) - set(proper), key=label_order)]
    return {name: names.count(name) / len(names) for name in listed if name in names}


def _prompts_of_items(run: Run, items: Iterable[str]) -> dict[str, str]:
    """The prompt of each item: of an image, of a pair that of its first image; a prompt is its own."""
    first = {item: item.partition("|")[0] for item in items}
    prompts = run.prompts_of(first.values())
    return {item: prompts.get(image, item) for item, image in first.items()}
