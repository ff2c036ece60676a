"""Judge cards from runs: what a judge predicted, beside annotators' answers or the ground truth of rendered images."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from verism._version import __version__
from verism.annotation.judge_agreement import Predicted, is_number, key_text, label_order, predicted_classes
from verism.annotation.ratings import given_ratings, human_classes, rated_classes
from verism.cards import JudgeCard, Kind, Measured
from verism.errors import UsageError
from verism.pipeline.image_samples import sample_images, strata_of
from verism.pipeline.scoring import judges_of, observed_of, true_classes
from verism.records import Estimand, Observed, RatingTask, content_hash
from verism.statistics.agreement import krippendorff_alpha
from verism.store import TRUTH, Run
from verism.suites.base import Suite

__all__ = ["Source", "card_of_run"]

Source = Literal["human", "truth", "model"]
KIND_OF: Mapping[Source, Kind] = {"human": "human", "truth": "rendered", "model": "model"}
Truths = dict[tuple[str, str], Mapping[str, str]]  # true class by image, by rule and key (as JSON)


def card_of_run(
    run: Run,
    suite: Suite,
    source: Source,
    *,
    role: str | None = None,
    by: Sequence[str] = (),
    min_right: float = 0.0,
    note: str = "",
) -> JudgeCard:
    """How often a run's judge predicts what of images of each true class, rule by rule.

    Args:
        run: scored.
        suite: the suite, with the rules of its scores.
        source: what counts as truth: the majority of annotators (``human``; ties and "cannot tell" are left out), or
            the ground truth of rendered images (``truth``). ``model``: as ``human``, where a model and no person gave
            the answers.
        role: role of the judge, needed if several observed.
        by: facets of prompts by whose values tables are made besides.
        min_right: raters with a smaller share of right answers to checks are left out, 0 to 1.
        note: what else is to be said of the truth; kept in the card.

    Raises:
        UsageError: a suite without verdicts of classes, no known truth, no such judge, or an unknown facet.
    """
    if not suite.has_estimands:
        raise UsageError(f"{suite.name} has no verdicts whose truth could be known, so there is nothing for a card")
    prompts = run.prompts()
    facets = sorted({facet for prompt in prompts for facet in prompt.facets})
    if foreign := [facet for facet in by if facet not in facets]:
        raise UsageError(f"no facet {foreign[0]!r}; prompts have {', '.join(facets) or 'none'}")
    judges = judges_of(run)
    observed = observed_of(run, suite, judges)
    verdicts = run.verdicts()
    estimands = list(suite.estimands(observed, verdicts))
    role = _role(run, role, dict.fromkeys(e.role for e in estimands), judges)
    estimands = [e for e in estimands if e.role == role]
    predictions = predicted_classes(estimands, verdicts)
    keys = {(rule, key) for rule, _, key in predictions}
    known, about = (
        _rendered_truth(run, suite, keys)
        if source == "truth"
        else _truth_of_annotators(run, suite, keys, source, min_right)
    )
    labels = _labels(estimands)
    measured: list[Measured] = []
    left_out: set[str] = set()
    for (rule, protocol, key), predicted in sorted(predictions.items(), key=lambda entry: entry[0]):
        true = known.get((rule, key), {})
        left_out |= {image for image, label in true.items() if label not in labels[rule]}
        true = {image: label for image, label in true.items() if label in labels[rule]}
        if not true:
            continue
        group = json.loads(key)
        measured.append(_counted(rule, protocol, labels[rule], group, true, predicted))
        for facet, value, images in _groups(observed, true, [f for f in by if f not in group]):
            within = {image: true[image] for image in images}
            measured.append(_counted(rule, protocol, labels[rule], {**group, facet: value}, within, predicted))
    if not measured:
        raise UsageError(f"{run.path}: none of the images whose truth is known has a verdict of {judges[role]}")
    if left_out:
        about += f"; {len(left_out):,} images are left out, whose true class the judge cannot predict"
    used = {image for of_rule in known.values() for image in of_rule}
    settings = run.manifest.settings
    values = suite.all_rules()
    return JudgeCard(
        judge=judges[role],
        role=role,
        kind=KIND_OF[source],
        ground_truth=f"{about}; {note}" if note else about,
        measured=tuple(measured),
        made={
            "verism": __version__,
            "date": run.manifest.created[:10],
            "suite": suite.name,
            "pictures_by": settings.generator or "not recorded",
            "seed": settings.seed,
            "pictures": len(used),
            "pictures_hash": content_hash(sorted(used))[:16],
            "run": settings.hash()[:16],
            "truth": source,
            "rules": {
                rule.name: values[rule.name]
                for rule in suite.rules
                if rule.affects == "verdicts" and isinstance(values[rule.name], int | float | str)
            },
        },
        images=(sample_images(run, {name: s for name, s in strata_of(estimands, role).items() if name in used}),),
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


def _counted(
    rule: str,
    protocol: str,
    labels: tuple[str, ...],
    group: Mapping[str, Any],
    true: Mapping[str, str],
    predicted: Predicted,
) -> Measured:
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
        if image in predicted.probabilities and len(labels) == 2:
            # The probability is that of the predicted class; the card wants that of the last one.
            probability = predicted.probabilities[image]
            scores.append((row, probability if column == 1 else 1 - probability))
    return Measured(
        task=rule,
        protocol=protocol,
        labels=labels,
        counts=tuple(map(tuple, counts)),
        unusable=tuple(unusable),
        group=group,
        scores=tuple(scores),
    )


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
def _rendered_truth(run: Run, suite: Suite, keys: set[tuple[str, str]]) -> tuple[Truths, str]:
    truth = true_classes(run, suite)
    if not truth:
        raise UsageError(
            f"{run.path}: its images come without ground truth; use a run of a generator that renders "
            "(verism run ... --model scripted:error=0.3), or ask annotators: --from human"
        )
    known: Truths = {(rule, key): truth.get((rule, content_hash(json.loads(key))), {}) for rule, key in keys}
    images = {image for of_rule in known.values() for image in of_rule}
    settings = run.manifest.settings
    about = (
        f"{_images(run, images)} of {suite.name}, rendered by {settings.generator or 'an unnamed generator'} with "
        f"seed {settings.seed}; the truth is the revised protocol applied to the ground truth of the rendered scenes"
    )
    return known, about


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
    """Answers, alpha of their classes and ties, in words.

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
    agree = "no two to be compared" if math.isnan(alpha) else f"Krippendorff's alpha {alpha:.2f}"
    ties = sum(item not in known for item in items)
    words = f"{task.name}: {len(classes):,} answers about {len(items):,} images, {agree}"
    return words + (f", {ties} {'tie' if ties == 1 else 'ties'} left out" if ties else "")


def _images(run: Run, images: set[str]) -> str:
    prompt_of = dict(run.read("images").select("image_id", "prompt_id").iter_rows())
    return f"{len(images):,} images for {len({prompt_of[i] for i in images}):,} prompts"
