"""The released ratings of six models' images: means by model and skill, and runs held against them, models together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from verism.errors import UsageError
from verism.statistics.agreement import krippendorff_alpha
from verism.suites.genai_bench.benchmark import SKILLS, GenAIFile, level_of
from verism.suites.genai_bench.ratings import mean_rating, on_scale
from verism.suites.questions.agreement import AgreementWithPeople, agreement_with_people

__all__ = ["GROUPS", "Ratings", "agreement_by_group", "groups_of", "summary_of_ratings"]

ALL = "all"
# Every skill, then its level, as the published tables have them.
GROUPS = (ALL, *(name for level, skills in SKILLS.items() for name in (*skills, level)))


@dataclass(frozen=True)
class Ratings:
    """What people's ratings of a file say.

    Attributes:
        means: by model key and group: mean over images of their mean rating.
        means_on_scale: the same without ratings that cannot be.
        impossible: images with ratings off the scale: model key, prompt, the ratings as they stand.
        alpha_ordinal: Krippendorff's alpha of all raters, ordinal.
        alpha_interval: the same, interval.
        n_ratings: ratings in all.
    """

    means: Mapping[tuple[str, str], float]
    means_on_scale: Mapping[tuple[str, str], float]
    impossible: tuple[tuple[str, str, tuple[float, ...]], ...]
    alpha_ordinal: float
    alpha_interval: float
    n_ratings: int


def groups_of(prompt_id: str, skills: Mapping[str, Collection[int]]) -> tuple[str, ...]:
    """The groups that a prompt belongs to: all, its skills, their level.

    Args:
        prompt_id: of the released file, a number.
        skills: numbers of prompts by skill.
    """
    number = int(prompt_id) if prompt_id.isdigit() else -1
    own = [name for name, numbers in skills.items() if number in numbers]
    level = level_of(own)
    return (ALL, *own, *((level,) if own else ()))


def summary_of_ratings(read: GenAIFile, skills: Mapping[str, Sequence[int]]) -> Ratings:
    """Means and agreement of the ratings of a file.

    Args:
        read: the user's copy.
        skills: numbers of prompts by skill; empty: no groups but all.
    """
    sets = {name: frozenset(numbers) for name, numbers in skills.items()}
    belongs = {prompt_id: groups_of(prompt_id, sets) for prompt_id in read.prompts}
    means: dict[tuple[str, str], list[float]] = {}
    on: dict[tuple[str, str], list[float]] = {}
    impossible, units = [], []
    for model, by_prompt in read.ratings.items():
        for prompt_id, ratings in by_prompt.items():
            units.append(ratings)
            if on_scale(ratings).impossible:
                impossible.append((model, prompt_id, ratings))
            for table, as_they_are in ((means, True), (on, False)):
                mean = mean_rating(ratings, all_as_they_are=as_they_are)
                if mean is not None:
                    for group in belongs[prompt_id]:
                        table.setdefault((model, group), []).append(mean)
    most = max(map(len, units), default=0)
    columns = [on_scale(ratings).valid for ratings in units]
    raters = np.array([[*column, *[np.nan] * (most - len(column))] for column in columns], dtype=np.float64).T
    return Ratings(
        means={key: sum(values) / len(values) for key, values in means.items()},
        means_on_scale={key: sum(values) / len(values) for key, values in on.items()},
        impossible=tuple(impossible),
        alpha_ordinal=krippendorff_alpha(raters, level="ordinal", n_resamples=0).value,
        alpha_interval=krippendorff_alpha(raters, level="interval", n_resamples=0).value,
        n_ratings=sum(map(len, units)),
    )


def agreement_by_group(
    scores: Mapping[tuple[str, str], float | None],
    read: GenAIFile,
    skills: Mapping[str, Sequence[int]],
    *,
    all_as_they_are: bool = False,
) -> dict[str, AgreementWithPeople]:
    """How far scores of images agree with people, over all models together, by group.

    Args:
        scores: by model key and prompt; None where a judge gave none.
        read: the user's copy, with the ratings.
        skills: numbers of prompts by skill.
        all_as_they_are: whether impossible ratings enter the means, as in the released figures.

    Raises:
        UsageError: a model without ratings, or no image with a score and a rating.
    """
    if unknown := sorted({model for model, _ in scores} - set(read.ratings)):
        raise UsageError(f"no ratings of {unknown[0]!r:.80}; the file has {', '.join(read.ratings)}")
    ratings: dict[tuple[str, str], list[float]] = {}
    for model in dict.fromkeys(model for model, _ in scores):
        for prompt_id, given in read.ratings[model].items():
            mean = mean_rating(given, all_as_they_are=all_as_they_are)
            if mean is not None and (model, prompt_id) in scores:
                ratings[model, prompt_id] = [mean]
    sets = {name: frozenset(numbers) for name, numbers in skills.items()}
    members: dict[str, list[tuple[str, str]]] = {}
    for key in scores:
        for group in groups_of(key[1], sets):
            members.setdefault(group, []).append(key)
    found = {}
    for group in GROUPS:
        keys = members.get(group, [])
        if group != ALL and not any(scores[key] is not None and key in ratings for key in keys):
            continue
        found[group] = agreement_with_people(
            {key: scores[key] for key in keys}, {key: ratings[key] for key in keys if key in ratings}
        )
    return found
