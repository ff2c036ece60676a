"""Judge cards from runs: what a judge said, beside what people say or what the painter of the pictures told."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np

from verism._version import __version__
from verism.annotation.agreement import said_by_judges
from verism.annotation.ratings import Ratings, given_ratings, human_classes
from verism.cards import JudgeCard, Measured
from verism.errors import UsageError
from verism.pipeline.scoring import observed_of, true_classes
from verism.records import Estimand, Observed, RatingTask, content_hash, roles
from verism.statistics.agreement import krippendorff_alpha
from verism.store import TRUTH, Run

__all__ = ["Source", "card_of_run"]

Source = Literal["human", "truth"]
Truths = dict[tuple[str, str], Mapping[str, str]]  # true class by picture, by rule and key (as JSON)

NOT_OF_JUDGES = ("n_resamples", "resampling_seed", "min_cell")  # rules that change scores, but no verdict


def card_of_run(
    run: Run, suite: Any, source: Source, *, role: str | None = None, by: Sequence[str] = (), min_right: float = 0.0
) -> JudgeCard:
    """How often a run's judge says what of pictures of each true class, rule by rule.

    Args:
        run: scored. suite: with the rules of its scores.
        source: whose word is the truth: the majority of people (``human``; ties and "cannot tell" are left out), or
            the painter's (``truth``).
        role: of the judge, if several looked.
        by: facets of prompts by whose values tables are made besides.
        min_right: raters with a smaller share of right answers to checks are left out.

    Raises:
        UsageError: a suite without verdicts of classes, nobody who knows the truth, no such judge, or an unknown facet.
    """
    if not suite.has_estimands:
        raise UsageError(f"{suite.name} has no verdicts whose truth could be told, so that there is nothing for a card")
    prompts = run.prompts()
    facets = sorted({facet for prompt in prompts for facet in prompt.facets})
    if foreign := [facet for facet in by if facet not in facets]:
        raise UsageError(f"no facet {foreign[0]!r}; prompts have {', '.join(facets) or 'none'}")
    judges = {r: name for r in roles() if (name := run.judge(r)) is not None}
    observed = observed_of(run, suite, judges)
    verdicts = run.verdicts()
    estimands: list[Estimand] = list(suite.estimands(observed, verdicts))
    role = _role(run, role, dict.fromkeys(e.role for e in estimands), judges)
    wanted = [e for e in estimands if e.role == role]
    said = said_by_judges(SimpleNamespace(estimands=lambda *_: wanted), observed, verdicts)
    keys = {(rule, key) for rule, _, key in said}
    known, about = _of_people(run, suite, keys, min_right) if source == "human" else _of_painter(run, suite, keys)
    labels = _labels(wanted)
    measured: list[Measured] = []
    left_out: set[str] = set()
    for (rule, protocol, key), (answers, scores) in sorted(said.items()):
        true = known.get((rule, key), {})
        left_out |= {image for image, label in true.items() if label not in labels[rule]}
        true = {image: label for image, label in true.items() if label in labels[rule]}
        if not true:
            continue
        group = json.loads(key)
        measured.append(_counted(rule, protocol, labels[rule], group, true, answers, scores))
        for facet, value, images in _groups(observed, true, [f for f in by if f not in group]):
            within = {image: true[image] for image in images}
            finer = {**group, facet: value}
            measured.append(_counted(rule, protocol, labels[rule], finer, within, answers, scores))
    if not measured:
        raise UsageError(f"{run.path}: none of the pictures whose truth is known has a verdict of {judges[role]}")
    if left_out:
        about += f"; {len(left_out):,} pictures are left out, whose true class the judge cannot say"
    pictures = {image for of in known.values() for image in of}
    settings = run.manifest.settings
    return JudgeCard(
        judge=judges[role],
        role=role,
        kind="human" if source == "human" else "rendered",
        ground_truth=about,
        measured=tuple(measured),
        made={
            "verism": __version__,
            "date": str(run.manifest.get("created", ""))[:10],
            "suite": suite.name,
            "pictures_by": settings.generator or "not recorded",
            "seed": settings.seed,
            "pictures": len(pictures),
            "pictures_hash": content_hash(sorted(pictures))[:16],
            "run": settings.hash()[:16],
            "truth": source,
            "rules": {
                name: value
                for name, value in suite.rules().items()
                if name not in NOT_OF_JUDGES and isinstance(value, int | float | str)
            },
        },
    )


def _role(run: Run, role: str | None, useful: Iterable[str], judges: Mapping[str, str]) -> str:
    there = [r for r in useful if r in judges and judges[r] != TRUTH]
    if role is not None and role not in there:
        others = ", ".join(there) or "none"
        raise UsageError(f"{run.path}: no verdicts of a judge for {role!r}; there are those of {others}")
    if role is None and len(there) != 1:
        which = f"several judges looked; name one with --role: {', '.join(there)}" if there else "no judge looked"
        raise UsageError(f"{run.path}: {which}")
    return there[0] if role is None else role


def _labels(estimands: Sequence[Estimand]) -> dict[str, tuple[str, ...]]:
    """Classes by rule, those that count least first: of two, the last is the one that scores are of."""
    worth: dict[str, dict[str, list[float]]] = {}
    for estimand in estimands:
        for label, value in estimand.worth.items():
            worth.setdefault(estimand.rule, {}).setdefault(label, []).append(value)
    return {
        rule: tuple(sorted(of, key=lambda label: (math.fsum(of[label]) / len(of[label]), _number(label), label)))
        for rule, of in worth.items()
    }


def _number(label: str) -> float:
    try:
        return float(label)
    except ValueError:
        return math.inf


def _counted(
    rule: str,
    protocol: str,
    labels: tuple[str, ...],
    group: Mapping[str, Any],
    true: Mapping[str, str],
    answers: Mapping[str, str],
    scores: Mapping[str, float],
) -> Measured:
    counts = [[0] * len(labels) for _ in labels]
    unusable = [0] * len(labels)
    told = []
    for image, label in sorted(true.items()):
        row = labels.index(label)
        if image not in answers:
            unusable[row] += 1
            continue
        counts[row][labels.index(answers[image])] += 1
        if image in scores and len(labels) == 2:
            # The probability is that of the class that was said; the card wants that of the last one.
            score = scores[image] if answers[image] == labels[1] else 1 - scores[image]
            told.append((row, score))
    return Measured(
        task=rule,
        protocol=protocol,
        labels=labels,
        counts=tuple(map(tuple, counts)),
        unusable=tuple(unusable),
        group=group,
        scores=tuple(told),
    )


def _groups(observed: Observed, true: Mapping[str, str], by: Sequence[str]) -> Iterable[tuple[str, Any, list[str]]]:
    prompt_of = dict(observed.images.select("image_id", "prompt_id").iter_rows())
    for facet in by:
        found: dict[Any, list[str]] = {}
        for image in true:
            value = observed.prompts[prompt_of[image]].facets.get(facet)
            if value is not None:
                found.setdefault(value, []).append(image)
        for value in sorted(found, key=lambda v: (_number(str(v)), str(v))):
            yield facet, value, found[value]


# --------------------------------------------------------------------------------------------------------- the truth
def _of_painter(run: Run, suite: Any, keys: set[tuple[str, str]]) -> tuple[Truths, str]:
    told = true_classes(run, suite)
    if not told:
        raise UsageError(
            f"{run.path}: the painter of its pictures did not tell what it painted; use a run of a scripted painter "
            "(verism run ... --model scripted:error=0.3), or ask people: --from human"
        )
    known: Truths = {}
    for rule, key in keys:
        known[rule, key] = told.get((rule, content_hash(json.loads(key))), {})
    images = {image for of in known.values() for image in of}
    settings = run.manifest.settings
    about = (
        f"{_pictures(run, images)} of {suite.name}, painted by {settings.generator or 'an unnamed generator'} with "
        f"seed {settings.seed}, which told what it painted; the truth is the corrected protocol applied to that"
    )
    return known, about


def _of_people(run: Run, suite: Any, keys: set[tuple[str, str]], min_right: float) -> tuple[Truths, str]:
    ratings = given_ratings(run, min_right=min_right)
    known: Truths = {
        (rule, key): human_classes(run, suite, rule, json.loads(key), ratings=ratings) for rule, key in keys
    }
    images = {image for of in known.values() for image in of}
    if not images:
        raise UsageError(f"{run.path}: people answered no question that its judges' verdicts are about")
    asked: list[str] = []
    raters: set[str] = set()
    for task in ratings.tasks.values():
        if task.unit != "picture" or (task.rule, json.dumps(dict(task.key), sort_keys=True)) not in keys:
            continue
        classes = _classes_by_rater(run, suite, task, ratings)
        if classes:
            asked.append(_agreement(task, classes, known[task.rule, json.dumps(dict(task.key), sort_keys=True)]))
            raters |= {rater for rater, _ in classes}
    generator = run.manifest.settings.generator or "an unnamed generator"
    about = (
        f"{_pictures(run, images)} of {suite.name}, made by {generator}; the truth is the majority of {len(raters)} "
        f"{'person' if len(raters) == 1 else 'people'} ({'; '.join(asked)})"
    )
    return known, about


def _classes_by_rater(run: Run, suite: Any, task: RatingTask, ratings: Ratings) -> dict[tuple[str, str], str]:
    """What each person's answer means in the classes of the verdicts, by rater and picture."""
    prompts = {p.prompt_id: p for p in run.prompts()}
    prompt_of = dict(run.read("images").select("image_id", "prompt_id").iter_rows())
    classify = getattr(suite, "rated_class", lambda _task, _prompt, answer: answer)
    rows = ratings.table.filter((ratings.table["task"] == task.name) & ratings.table["check"].is_null())
    return {
        (row["rater"], row["item"]): classify(task, prompts[prompt_of[row["item"]]], row["answer"])
        for row in rows.iter_rows(named=True)
        if row["item"] in prompt_of and row["answer"] is not None and row["answer"] not in task.unsure
    }


def _agreement(task: RatingTask, classes: Mapping[tuple[str, str], str], known: Mapping[str, str]) -> str:
    """Answers, alpha of their classes and ties, in words."""
    raters, items = sorted({r for r, _ in classes}), sorted({i for _, i in classes})
    table = np.array([[classes.get((r, i)) for i in items] for r in raters], dtype=object)
    level = task.level
    if level != "nominal":
        if all(math.isfinite(_number(label)) for label in classes.values()):
            table = np.array([[None if v is None else float(v) for v in row] for row in table], dtype=object)
        else:
            level = "nominal"
    alpha = krippendorff_alpha(table, level=level, n_resamples=0).value
    agree = "nobody's answers can be compared" if math.isnan(alpha) else f"Krippendorff's alpha {alpha:.2f}"
    ties = sum(item not in known for item in items)
    words = f"{task.name}: {len(classes):,} answers about {len(items):,} pictures, {agree}"
    return words + (f", {ties} {'tie' if ties == 1 else 'ties'} left out" if ties else "")


def _pictures(run: Run, images: set[str]) -> str:
    prompt_of = dict(run.read("images").select("image_id", "prompt_id").iter_rows())
    return f"{len(images):,} pictures for {len({prompt_of[i] for i in images}):,} prompts"
