"""Several models beside each other: runs of the same prompts by the same scorer, their wins and strengths."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from verism.errors import UsageError
from verism.metrics.preferences import WhenMissing
from verism.records import Observed, judge_identity
from verism.statistics.bradley_terry import bradley_terry
from verism.store import Run
from verism.suites.preference.scoring import AskedImage, average, base_id, by_prompt, outcomes, set_of
from verism.suites.preference.suite import asked_images

__all__ = ["ComparedModel", "comparison", "models_of"]


@dataclass(frozen=True, eq=False)
class ComparedModel:
    """The images of one model with their scores.

    Attributes:
        name: of the run, or of the run and the set.
        scorer: full name of the judge.
        texts: its prompts by their ids in the list.
        images: all that were asked for.
        order: image ids in the order of ``images``.
        run: the run's folder.
    """

    name: str
    scorer: str
    texts: Mapping[str, str]
    images: Sequence[AskedImage]
    order: Sequence[str]
    run: Path


def models_of(paths: Sequence[Path]) -> list[ComparedModel]:
    """The models of finished runs; a run of two sets holds two.

    Args:
        paths: folders of runs.

    Raises:
        UsageError: a run of another suite, or one without scores; or two models with one name.
    """
    made: list[ComparedModel] = []
    for path in paths:
        run = Run.open(path)
        if run.suite_name != "preference":
            raise UsageError(f"{path} is a run of {run.suite_name}, not of preference")
        if not run.has_verdicts:
            raise UsageError(f"{path} has no scores yet: verism score {path}")
        scorer = run.manifest.settings.judges.get("scorer", "")
        prompts = {p.prompt_id: p for p in run.prompts()}
        observed = Observed(prompts=prompts, images=run.read("images"), observations={})
        asked = asked_images(observed, run.verdicts())
        for label in dict.fromkeys(set_of(p) for p in prompts.values()):
            own = {image_id: image for image_id, image in asked.items() if image.group == label}
            alone = len(paths) == 1 or not label
            name = (label or run.name) if alone else f"{run.name}/{label}"
            made.append(
                ComparedModel(
                    name=name,
                    scorer=scorer,
                    texts={base_id(p): p.text for p in prompts.values() if set_of(p) == label},
                    images=list(own.values()),
                    order=list(own),
                    run=path,
                )
            )
    names = [model.name for model in made]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"two models are called {twice!r}: name the folders of their runs apart")
    return made


def comparison(
    models: Sequence[ComparedModel],
    *,
    margin: float = 0.0,
    when_missing: WhenMissing = "left_out",
    prior: float = 1.0,
    n_resamples: int = 2_000,
    seed: int = 0,
) -> dict[str, Any]:
    """Mean scores, wins of each pair of models, and Bradley-Terry strengths of all.

    Args:
        models: two or more, of the same prompts and the same scorer.
        margin: scores that differ by no more tie.
        when_missing: whether a missing image loses or is left out.
        prior: ties added to every pair of models, see ``bradley_terry``.
        n_resamples: resamples of prompts behind the intervals of strengths.
        seed: of these.

    Returns:
        Plain records: ``models`` with their means (over the prompts in which all models have a score, and over their
        own) and strengths, ``pairs`` with wins, ties and how many prompts could be compared.

    Raises:
        UsageError: fewer than two models, other prompts, or another scorer.
    """
    if len(models) < 2:
        raise UsageError("a comparison takes two models or more: several runs, or a run of two sets")
    _check_alike(models)
    first = models[0]
    bases = list(first.texts)
    known = {model.name: _means(model) for model in models}
    common = [base for base in bases if all(base in of_model for of_model in known.values())]
    wins = np.zeros((len(bases), len(models), len(models)))
    place = {base: number for number, base in enumerate(bases)}
    pairs = []
    for (i, one), (j, other) in combinations(enumerate(models), 2):
        made = outcomes(one.images, other.images, margin=margin, when_missing=when_missing)
        decided = {base: each for base, each in made.items() if each.n}
        for base, each in decided.items():
            wins[place[base], i, j], wins[place[base], j, i] = each.wins, 1 - each.wins
        pairs.append(
            {
                "first": one.name,
                "second": other.name,
                "win_rate": _interval(average([each.wins for each in decided.values()], bounds=(0.0, 1.0))),
                "tie_rate": _interval(average([each.ties for each in decided.values()], bounds=(0.0, 1.0))),
                "difference": _interval(
                    average([each.difference for each in made.values() if not math.isnan(each.difference)])
                ),
                "prompts": len(decided),
                "prompts_not_compared": len(bases) - len(decided),
            }
        )
    found = bradley_terry(wins, prior=prior, n_resamples=n_resamples, seed=seed)
    records = []
    for number, model in enumerate(models):
        records.append(
            {
                "name": model.name,
                "mean": _interval(average([known[model.name][base] for base in common])),
                "mean_of_its_own": _interval(average(list(known[model.name].values()))),
                "strength": {
                    "value": float(found.strengths[number]),
                    "low": float(found.low[number]),
                    "high": float(found.high[number]),
                },
                "images": sum(image.known is not None for image in model.images),
                "images_missing": sum(i.score is not None and math.isinf(i.score) for i in model.images),
                "images_without_score": sum(i.score is None for i in model.images),
            }
        )
    return {
        "scorer": first.scorer,
        "prompts": len(bases),
        "prompts_with_all_models": len(common),
        "models": records,
        "pairs": pairs,
        "strengths_bounded": found.bounded,
        "prior": prior,
        "margin": margin,
        "when_missing": when_missing,
    }


def _means(model: ComparedModel) -> dict[str, float]:
    """Mean score of the images of each prompt that has one."""
    made = {}
    for base, members in by_prompt(model.images).items():
        scores = [image.known for image in members if image.known is not None]
        if scores:
            made[base] = math.fsum(scores) / len(scores)
    return made


def _interval(interval: Any) -> dict[str, float]:
    return {"value": interval.value, "low": interval.low, "high": interval.high}


def _check_alike(models: Sequence[ComparedModel]) -> None:
    """Refuse models whose scores say nothing beside each other."""
    first = models[0]
    for model in models[1:]:
        if judge_identity(model.scorer) != judge_identity(first.scorer):
            hint = (
                " Say who gave the scores of a file: results:FILE?scorer=NAME."
                if model.scorer.startswith("results:") and first.scorer.startswith("results:")
                else ""
            )
            raise UsageError(
                f"scores of {first.name} are by {first.scorer or 'no scorer'}, those of {model.name} by "
                f"{model.scorer or 'no scorer'}: two scales, which cannot be compared.{hint}"
            )
        if dict(model.texts) != dict(first.texts):
            differing = next(
                base for base in (*first.texts, *model.texts) if model.texts.get(base) != first.texts.get(base)
            )
            raise UsageError(
                f"{first.name} and {model.name} were asked different prompts, such as {differing!r}: "
                f"{first.texts.get(differing)!r:.80} and {model.texts.get(differing)!r:.80}. Scores are only compared "
                "on the same prompts"
            )
