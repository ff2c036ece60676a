"""From scores of images to numbers: means by set, wins of one set over the other, prompt by prompt."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from verism.metrics.preferences import WhenMissing, outcomes_of
from verism.records import FacetValue, Prompt, Score
from verism.statistics.intervals import Interval, clustered_mean, clustered_proportion, mean_of_independent

__all__ = [
    "OF_SET",
    "AskedImage",
    "PromptOutcome",
    "average",
    "base_id",
    "by_prompt",
    "outcomes",
    "set_of",
    "suite_scores",
]

OF_SET = "base"  # key of a prompt's spec: its id in the list, which both sets share
NOTHING = Interval(math.nan, math.nan, math.nan)


@dataclass(frozen=True, slots=True)
class AskedImage:
    """An image that was asked for, and its score.

    Attributes:
        base: id of its prompt in the list.
        group: label of its set; empty where there is one set.
        facets: of its prompt.
        score: None: not scored; ``inf``: there is no image.
    """

    base: str
    group: str
    facets: Mapping[str, FacetValue]
    score: float | None

    @property
    def known(self) -> float | None:
        """The score as a number; None for any other reason."""
        return None if self.score is None or math.isinf(self.score) else self.score


@dataclass(frozen=True)
class PromptOutcome:
    """How the comparisons of a prompt went.

    Attributes:
        wins: share of the first side's wins, ties half, in [0, 1]; NaN: no comparison could be made.
        ties: share of ties.
        n: comparisons made.
        difference: mean score of the first side's images less that of the second's; NaN where a side has no score.
    """

    wins: float
    ties: float
    n: int
    difference: float


def base_id(prompt: Prompt) -> str:
    """The id of a prompt in its list, without the label of a set.

    Args:
        prompt: of a run of the suite.
    """
    return str(prompt.spec.get(OF_SET, prompt.prompt_id))


def set_of(prompt: Prompt) -> str:
    """The label of the set that a prompt's images are of; empty where there is one set.

    Args:
        prompt: of a run of the suite.
    """
    return str(prompt.facets.get("set") or "") if OF_SET in prompt.spec else ""


def by_prompt(images: Sequence[AskedImage]) -> dict[str, list[AskedImage]]:
    """Images by the id of their prompt in the list.

    Args:
        images: of one set.
    """
    made: dict[str, list[AskedImage]] = {}
    for image in images:
        made.setdefault(image.base, []).append(image)
    return made


def outcomes(
    first: Sequence[AskedImage], second: Sequence[AskedImage], *, margin: float, when_missing: WhenMissing
) -> dict[str, PromptOutcome]:
    """What came of every prompt that either side was asked.

    Args:
        first: images of the first side.
        second: of the second.
        margin: scores that differ by no more tie.
        when_missing: whether a missing image loses or is left out.
    """
    one, other = by_prompt(first), by_prompt(second)
    made = {}
    for base in dict.fromkeys((*one, *other)):
        a, b = one.get(base, []), other.get(base, [])
        results = outcomes_of([i.score for i in a], [i.score for i in b], margin=margin, when_missing=when_missing)
        known_a = [i.known for i in a if i.known is not None]
        known_b = [i.known for i in b if i.known is not None]
        difference = (
            math.fsum(known_a) / len(known_a) - math.fsum(known_b) / len(known_b) if known_a and known_b else math.nan
        )
        made[base] = PromptOutcome(
            wins=math.fsum(results) / len(results) if results else math.nan,
            ties=results.count(0.5) / len(results) if results else math.nan,
            n=len(results),
            difference=difference,
        )
    return made


def average(values: Sequence[float], *, bounds: tuple[float, float] | None = None) -> Interval:
    """Mean over prompts of one number each, with its 95 % interval.

    Args:
        values: a number for each prompt.
        bounds: ends that a mean cannot pass.
    """
    if not values:
        return NOTHING
    prompts = np.arange(len(values))
    if bounds == (0.0, 1.0) and all(value in (0.0, 1.0) for value in values):
        return clustered_proportion(values, prompts)
    return clustered_mean(values, prompts, bounds=bounds)


def suite_scores(
    suite: str,
    images: Sequence[AskedImage],
    labels: Sequence[str],
    *,
    facets: Sequence[str],
    margin: float,
    when_missing: WhenMissing,
) -> list[Score]:
    """All numbers of a run.

    Args:
        suite: its name.
        images: all that were asked for.
        labels: of the sets: two, or a single empty one.
        facets: of prompts, by whose values numbers are given as well.
        margin: scores that differ by no more tie.
        when_missing: whether a missing image loses or is left out.
    """
    scores: list[Score] = []

    def add(metric: str, group: Mapping[str, FacetValue], interval: Interval, used: int, unusable: int) -> None:
        scores.append(
            Score(
                suite=suite,
                metric=metric,
                protocol="revised",
                group=dict(group),
                value=interval.value,
                ci_low=interval.low,
                ci_high=interval.high,
                n_used=used,
                n_unusable=unusable,
            )
        )

    def parts(of: Sequence[AskedImage], facet: str) -> dict[FacetValue, list[AskedImage]]:
        made: dict[FacetValue, list[AskedImage]] = {}
        for image in of:
            if (value := image.facets.get(facet)) is not None:
                made.setdefault(value, []).append(image)
        return made

    for label in labels:
        own = [image for image in images if image.group == label]
        group: dict[str, FacetValue] = {"set": label} if label else {}
        _means(add, own, group)
        for facet in facets:
            found: list[tuple[Interval, int, int]] = []
            for value, members in parts(own, facet).items():
                found.append(_means(add, members, {**group, facet: value}, counted=False))
            usable = [interval for interval, _, _ in found if not math.isnan(interval.value)]
            used, unusable = sum(n for _, n, _ in found), sum(n for _, _, n in found)
            if len(found) > 1:
                add("score_over_groups", {**group, "groups": facet}, _over(usable, len(found)), used, unusable)
    if len(labels) == 2:
        first, second = ([i for i in images if i.group == label] for label in labels)
        pair: dict[str, FacetValue] = {"set": labels[0], "against": labels[1]}
        _wins(add, outcomes(first, second, margin=margin, when_missing=when_missing), pair)
        for facet in facets:
            one, other = parts(first, facet), parts(second, facet)
            for value in dict.fromkeys((*one, *other)):
                made = outcomes(one.get(value, []), other.get(value, []), margin=margin, when_missing=when_missing)
                _wins(add, made, {**pair, facet: value})
    return scores


Add = Callable[[str, Mapping[str, FacetValue], Interval, int, int], None]


def _means(
    add: Add, images: Sequence[AskedImage], group: Mapping[str, FacetValue], *, counted: bool = True
) -> tuple[Interval, int, int]:
    """The mean score of some images, and the share that has one."""
    values = []
    for members in by_prompt(images).values():
        known = [image.known for image in members if image.known is not None]
        if known:
            values.append(math.fsum(known) / len(known))
    used = sum(image.known is not None for image in images)
    interval = average(values)
    add("preference_score", group, interval, used, len(images) - used)
    if counted and images:
        has = [float(image.known is not None) for image in images]
        add("scored", group, clustered_proportion(has, np.array([image.base for image in images])), len(images), 0)
    return interval, used, len(images) - used


def _over(intervals: Sequence[Interval], n_groups: int) -> Interval:
    """The unweighted mean over groups, undefined where a group has no score."""
    if len(intervals) < n_groups:
        return NOTHING
    if any(math.isnan(interval.low) for interval in intervals):
        return Interval(math.fsum(i.value for i in intervals) / n_groups, math.nan, math.nan)
    return mean_of_independent(intervals)


def _wins(add: Add, made: Mapping[str, PromptOutcome], group: Mapping[str, FacetValue]) -> None:
    decided = [each for each in made.values() if each.n]
    lost = len(made) - len(decided)
    add("win_rate", group, average([each.wins for each in decided], bounds=(0.0, 1.0)), len(decided), lost)
    add("tie_rate", group, average([each.ties for each in decided], bounds=(0.0, 1.0)), len(decided), lost)
    differences = [each.difference for each in made.values() if not math.isnan(each.difference)]
    add("score_difference", group, average(differences), len(differences), len(made) - len(differences))
    if made:
        compared = clustered_proportion([float(each.n > 0) for each in made.values()], np.array(list(made)))
        add("compared", group, compared, len(made), 0)
