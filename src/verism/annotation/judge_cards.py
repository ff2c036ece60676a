"""Judge cards from runs: what a judge predicted, beside annotators' answers or the ground truth of rendered images."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from verism._version import __version__
from verism.annotation.judge_agreement import Predicted, is_number, key_text, label_order, predicted_classes
from verism.annotation.ratings import given_ratings, human_classes, rated_classes
from verism.cards import JudgeCard, Kind, Measured
from verism.errors import UsageError
from verism.pipeline.image_samples import sample_images, strata_of
from verism.pipeline.scoring import judges_of, known_of, truth_estimands
from verism.records import Estimand, Observed, RatingTask, content_hash
from verism.statistics.agreement import krippendorff_alpha
from verism.store import TRUTH, Run
from verism.suites.base import Suite

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "KnownTable",
    "KnownTables",
    "Source",
    "card_of_run",
    "card_of_tables",
    "known_tables",
    "probability_of_last",
]

Source = Literal["human", "truth", "model"]
KIND_OF: Mapping[Source, Kind] = {"human": "human", "truth": "rendered", "model": "model"}
Truths = dict[tuple[str, str], Mapping[str, str]]  # true class by image, by rule and key (as JSON)


@dataclass(frozen=True, kw_only=True)
class KnownTable:
    """Images whose class is known under one rule, protocol and key, and what a judge predicts of them.

    Attributes:
        rule: rule of the verdicts.
        protocol: by which the judge's observations were read.
        key: which of the rule's verdicts.
        labels: the classes, that which counts least first.
        true: the true class by image.
        predicted: the judge's class by image, and its probability. Images of ``true`` that are not in it are those of
            which it says nothing usable.
    """

    rule: str
    protocol: str
    key: Mapping[str, Any]
    labels: tuple[str, ...]
    true: Mapping[str, str]
    predicted: Predicted


@dataclass(frozen=True, kw_only=True, eq=False)
class KnownTables:
    """All that a judge predicts of images whose class is known.

    Attributes:
        judge: its full name.
        role: its role.
        tables: by rule, protocol and key. A table of which the judge says nothing usable is among them.
        about: what the images are and how their classes are known, in words.
        strata: what each image is judged for.
        used: images whose class is known.
        observed: prompts and images.
    """

    judge: str
    role: str
    tables: tuple[KnownTable, ...]
    about: str
    strata: Mapping[str, str]
    used: frozenset[str]
    observed: Observed


def known_tables(
    run: Run,
    suite: Suite,
    source: Source,
    *,
    role: str | None = None,
    judges: Mapping[str, str] | None = None,
    truth_of: Run | None = None,
    min_right: float = 0.0,
) -> KnownTables:
    """What a run's judge predicts of images of each true class, rule by rule.

    Args:
        run: its images and observations.
        suite: the suite, with the rules by which the observations are read.
        source: what counts as truth, as of ``card_of_run``.
        role: role of the judge, needed if several observed.
        judges: full name of the judge whose observations count, by role; None: those of the run's scores, whose
            verdicts are read.
        truth_of: run whose annotators' answers or ground truth are taken, of the same images; None: this one.
        min_right: raters with a smaller share of right answers to checks are left out, 0 to 1.

    Raises:
        UsageError: a suite without verdicts of classes, no known truth, or no such judge.
    """
    if not suite.has_estimands:
        raise UsageError(f"{suite.name} has no verdicts whose truth could be known, so there is nothing for a card")
    names = judges_of(run) if judges is None else judges
    observed, verdicts = known_of(run, suite, names, scored=judges is None)
    estimands = list(suite.estimands(observed, verdicts))
    known_by = run if truth_of is None else truth_of
    by_truth = truth_estimands(known_by, suite) if source == "truth" else []
    role = _role(run, role, dict.fromkeys(e.role for e in [*estimands, *by_truth]), names)
    estimands = [e for e in estimands if e.role == role]
    by_truth = [e for e in by_truth if e.role == role]
    predictions = predicted_classes(estimands, verdicts)
    if source == "truth":
        known, about = _rendered_truth(known_by, suite, by_truth)
    else:
        # Keys of questions as well: of those no image may have a usable verdict.
        asked = {(task.rule, key_text(task.key)) for task in suite.rating_tasks() if task.unit == "picture"}
        keys = {(rule, key) for rule, _, key in predictions}
        known, about = _truth_of_annotators(known_by, suite, keys | asked, source, min_right)
    labels = _labels([*estimands, *by_truth])
    left_out: set[str] = set()
    tables = []
    for rule, protocol, key in _asked(known, predictions, verdicts):
        if rule not in labels:
            continue
        true = known.get((rule, key), {})
        left_out |= {image for image, label in true.items() if label not in labels[rule]}
        true = {image: label for image, label in true.items() if label in labels[rule]}
        if true:
            tables.append(
                KnownTable(
                    rule=rule,
                    protocol=protocol,
                    key=json.loads(key),
                    labels=labels[rule],
                    true=true,
                    predicted=predictions.get((rule, protocol, key), Predicted()),
                )
            )
    if not tables:
        raise UsageError(f"{run.path}: none of the images whose truth is known has a verdict of {names[role]}")
    if left_out:
        about += f"; {len(left_out):,} images are left out, whose true class the judge cannot predict"
    used = frozenset(image for of_rule in known.values() for image in of_rule)
    # By what the judge says, as those of the runs that are compared with it; by the truth where it says nothing.
    judged_for = strata_of(estimands, role) or strata_of(by_truth, role)
    strata = {name: text for name, text in judged_for.items() if name in used}
    return KnownTables(
        judge=names[role],
        role=role,
        tables=tuple(tables),
        about=about,
        strata=strata,
        used=used,
        observed=observed,
    )


def _asked(
    known: Truths, predictions: Mapping[tuple[str, str, str], Predicted], verdicts: pl.DataFrame
) -> list[tuple[str, str, str]]:
    """Rules, protocols and keys of all tables, sorted: also of those in which no image has a usable verdict."""
    import polars as pl

    asked = set(predictions)
    for (rule, key), true in known.items():
        if true:
            of_rule = verdicts.filter((pl.col("rule") == rule) & pl.col("image_id").is_in(list(true)))
            asked |= {(rule, protocol, key) for protocol in of_rule["protocol"].unique().to_list()}
    return sorted(asked)


def card_of_run(
    run: Run,
    suite: Suite,
    source: Source,
    *,
    role: str | None = None,
    judges: Mapping[str, str] | None = None,
    truth_of: Run | None = None,
    by: Sequence[str] = (),
    min_right: float = 0.0,
    note: str = "",
) -> JudgeCard:
    """How often a run's judge predicts what of images of each true class, rule by rule.

    Args:
        run: scored, unless ``judges`` are named.
        suite: the suite, with the rules of its scores.
        source: what counts as truth: the majority of annotators (``human``; ties and "cannot tell" are left out), or
            the ground truth of rendered images (``truth``). ``model``: as ``human``, where a model and no person gave
            the answers.
        role: role of the judge, needed if several observed.
        judges: full name of the judge whose observations count, by role; None: those of the run's scores.
        truth_of: run whose annotators' answers or ground truth are taken, of the same images; None: this one.
        by: facets of prompts by whose values tables are made besides.
        min_right: raters with a smaller share of right answers to checks are left out, 0 to 1.
        note: what else is to be said of the truth; kept in the card.

    Raises:
        UsageError: a suite without verdicts of classes, no known truth, no such judge, or an unknown facet.
    """
    facets = sorted({facet for prompt in run.prompts() for facet in prompt.facets})
    if foreign := [facet for facet in by if facet not in facets]:
        raise UsageError(f"no facet {foreign[0]!r}; prompts have {', '.join(facets) or 'none'}")
    known = known_tables(run, suite, source, role=role, judges=judges, truth_of=truth_of, min_right=min_right)
    return card_of_tables(run, suite, source, known, by=by, note=note)


def card_of_tables(
    run: Run, suite: Suite, source: Source, known: KnownTables, *, by: Sequence[str] = (), note: str = ""
) -> JudgeCard:
    """The card of tables that ``known_tables`` made.

    Args:
        run: as of ``card_of_run``.
        suite: as of ``card_of_run``.
        source: as of ``card_of_run``.
        known: the tables.
        by: as of ``card_of_run``.
        note: as of ``card_of_run``.
    """
    measured: list[Measured] = []
    for table in known.tables:
        measured.append(_counted(table, table.key, table.true))
        for facet, value, images in _groups(known.observed, table.true, [f for f in by if f not in table.key]):
            measured.append(
                _counted(table, {**table.key, facet: value}, {image: table.true[image] for image in images})
            )
    settings = run.manifest.settings
    values = suite.all_rules()
    return JudgeCard(
        judge=known.judge,
        role=known.role,
        kind=KIND_OF[source],
        ground_truth=f"{known.about}; {note}" if note else known.about,
        measured=tuple(measured),
        made={
            "verism": __version__,
            "date": run.manifest.created[:10],
            "suite": suite.name,
            "pictures_by": settings.generator or "not recorded",
            "seed": settings.seed,
            "pictures": len(known.used),
            "pictures_hash": content_hash(sorted(known.used))[:16],
            "run": settings.hash()[:16],
            "truth": source,
            "rules": {
                rule.name: values[rule.name]
                for rule in suite.rules
                if rule.affects == "verdicts" and isinstance(values[rule.name], int | float | str)
            },
        },
        images=(sample_images(run, known.strata),),
    )


def _role(run: Run, role: str | None, useful: Iterable[str], judges: Mapping[str, str]) -> str:
    there = [r for r in useful if r in judges and judges[r] != TRUTH]
    if role is not None and role not in there:
        others = ", ".join(there) or "none"
        raise UsageError(f"{run.path}: no verdicts of a judge for {role!r}; there are those of {others}")
    if role is None and len(there) != 1:
        which = f"several judges observed; name one with --role: {', '.join(there)}" if there else "no judge observed"
        raise UsageError(f"{run.path}: {which}")
    return there[0] if role is None else role


def _labels(estimands: Sequence[Estimand]) -> dict[str, tuple[str, ...]]:
    """Classes by rule, those that count least first: of two, the last is the one that scores are of."""
    worth: dict[str, dict[str, list[float]]] = {}
    for estimand in estimands:
        for label, value in estimand.worth.items():
            worth.setdefault(estimand.rule, {}).setdefault(label, []).append(value)
    return {
        rule: tuple(
            sorted(members, key=lambda label: (math.fsum(members[label]) / len(members[label]), label_order(label)))
        )
        for rule, members in worth.items()
    }


def _counted(table: KnownTable, group: Mapping[str, Any], true: Mapping[str, str]) -> Measured:
    labels, predicted = table.labels, table.predicted
    counts = [[0] * len(labels) for _ in labels]
    unusable = [0] * len(labels)
    scores = []
    for image, label in sorted(true.items()):
        row = labels.index(label)
        if image not in predicted.classes:
            unusable[row] += 1
            continue
        column = labels.index(predicted.classes[image])
        counts[row][column] += 1
        if (probability := probability_of_last(table, image)) is not None:
            scores.append((row, probability))
    return Measured(
        task=table.rule,
        protocol=table.protocol,
        labels=labels,
        counts=tuple(map(tuple, counts)),
        unusable=tuple(unusable),
        group=group,
        scores=tuple(scores),
    )


def probability_of_last(table: KnownTable, image: str) -> float | None:
    """Probability that the judge gives the last of two classes of an image; None where it gives none.

    Args:
        table: the image's.
        image: its id.
    """
    predicted = table.predicted
    if image not in predicted.probabilities or len(table.labels) != 2:
        return None
    # The probability is that of the predicted class.
    probability = predicted.probabilities[image]
    return probability if predicted.classes[image] == table.labels[1] else 1 - probability


def _groups(observed: Observed, true: Mapping[str, str], by: Sequence[str]) -> Iterable[tuple[str, Any, list[str]]]:
    prompt_of = dict(observed.images.select("image_id", "prompt_id").iter_rows())
    for facet in by:
        images: dict[Any, list[str]] = {}
        for image in true:
            value = observed.prompts[prompt_of[image]].facets.get(facet)
            if value is not None:
                images.setdefault(value, []).append(image)
        for value in sorted(images, key=lambda v: label_order(str(v))):
            yield facet, value, images[value]


# --------------------------------------------------------------------------------------------------------- the truth
def _rendered_truth(run: Run, suite: Suite, estimands: Sequence[Estimand]) -> tuple[Truths, str]:
    """The ground truth by rule and key, and in words what it is.

    Args:
        run: the run.
        suite: its suite.
        estimands: by ground truth, of the judge's role.
    """
    if not estimands:
        raise UsageError(
            f"{run.path}: its images come without ground truth; use a run of a generator that renders "
            "(verism run ... --model scripted:error=0.3), or ask annotators: --from human"
        )
    known: dict[tuple[str, str], dict[str, str]] = {}
    for estimand in estimands:
        for part in estimand.parts:
            of_key = known.setdefault((estimand.rule, key_text(part.key)), {})
            of_key.update(zip(part.image_ids, part.predicted, strict=True))
    images = {image for of_rule in known.values() for image in of_rule}
    settings = run.manifest.settings
    about = (
        f"{_images(run, images)} of {suite.name}, rendered by {settings.generator or 'an unnamed generator'} with "
        f"seed {settings.seed}; the truth is the revised protocol applied to the ground truth of the rendered scenes"
    )
    return dict(known), about


def _truth_of_annotators(
    run: Run, suite: Suite, keys: set[tuple[str, str]], source: Source, min_right: float
) -> tuple[Truths, str]:
    ratings = given_ratings(run, min_right=min_right)
    known: Truths = {
        (rule, key): human_classes(run, suite, rule, json.loads(key), ratings=ratings) for rule, key in keys
    }
    images = {image for of_rule in known.values() for image in of_rule}
    if not images:
        raise UsageError(f"{run.path}: annotators answered no question that its judges' verdicts are about")
    asked: list[str] = []
    raters: set[str] = set()
    for task in ratings.tasks.values():
        about_verdicts = (task.rule, key_text(task.key))
        if task.unit != "picture" or about_verdicts not in keys:
            continue
        answers = rated_classes(run, suite, task, ratings)
        classes = {name: label for name, label in answers.items() if label is not None}
        if classes:
            asked.append(_agreement(task, classes, known[about_verdicts]))
            raters |= {rater for rater, _ in classes}
    about = (
        f"{_images(run, images)} of {suite.name}, made by {run.manifest.settings.generator or 'an unnamed generator'}; "
        f"the truth is {_who(len(raters), source)} ({'; '.join(asked)})"
    )
    return known, about


def _who(n: int, source: Source) -> str:
    who = "annotator" if source == "human" else "model"
    majority = f"the majority of {n} {who}s" if n != 1 else f"the answer of one {who}"
    return majority if source == "human" else f"{majority}, and of no person"


def _agreement(task: RatingTask, classes: Mapping[tuple[str, str], str], known: Mapping[str, str]) -> str:
    """Answers, ties, and alpha of the classes that answers mean, in words; ``agreement`` has that of answers as given.

    Args:
        task: what was asked.
        classes: what each rater says, by rater and image.
        known: the majority by image.
    """
    raters, items = sorted({r for r, _ in classes}), sorted({i for _, i in classes})
    numeric = task.level != "nominal" and all(map(is_number, classes.values()))
    values = {name: float(label) if numeric else label for name, label in classes.items()}
    table = np.array([[values.get((r, i)) for i in items] for r in raters], dtype=object)
    alpha = krippendorff_alpha(table, level=task.level if numeric else "nominal", n_resamples=0).value
    agree = "no two to be compared" if math.isnan(alpha) else f"Krippendorff's alpha of classes {alpha:.2f}"
    ties = sum(item not in known for item in items)
    words = f"{task.name}: {len(classes):,} answers about {len(items):,} images, {agree}"
    return words + (f", {ties} {'tie' if ties == 1 else 'ties'} left out" if ties else "")


def _images(run: Run, images: set[str]) -> str:
    prompt_of = run.prompts_of(images)
    return f"{len(images):,} images for {len({prompt_of[i] for i in images}):,} prompts"
