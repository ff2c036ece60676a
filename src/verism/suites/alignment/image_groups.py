"""What the parts of the suite share: rows of verdicts, groups of images, scores of means.

Scores are made from columns: a number of each image, NaN where it has none, with the image's prompt by number. Of a run
scored in blocks the columns of all blocks are put together, which are in the order of the prompts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from verism.records import Prompt, Score
from verism.statistics.intervals import Interval, cluster_bootstrap_mean, clustered_proportion, proportion_of_totals
from verism.suites.verdict_table import ShownImage

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Groups", "Listed", "by_image", "groups_of", "mean_score", "score", "share_score", "verdict"]

RESAMPLES = 2_000
UNDEFINED = Interval(math.nan, math.nan, math.nan)


def verdict(
    image: ShownImage,
    protocol: str,
    rule: str,
    value: float | None,
    reason: str,
    detail: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A row of table ``verdicts``."""
    return {
        "image_id": image.image_id,
        "prompt_id": image.prompt.prompt_id,
        "protocol": protocol,
        "rule": rule,
        "value": value,
        "reason": reason,
        "detail": None if detail is None else json.dumps(dict(detail), sort_keys=True, ensure_ascii=False),
    }


Floats = NDArray[np.float64]
Groups = Sequence[tuple[Mapping[str, Any], NDArray[np.intp]]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Listed:
    """The images of a run, or of a block of it, in the order of the prompts and their indices.

    Attributes:
        prompts: all prompts of the run, in their order.
        number: of the prompt of each image among them, shape (N,).
    """

    prompts: Sequence[Prompt]
    number: NDArray[np.intp]

    @classmethod
    def of(cls, images: Sequence[ShownImage], prompts: Mapping[str, Prompt]) -> Listed:
        """Some images.

        Args:
            images: in that order.
            prompts: all of the run.
        """
        place = {prompt_id: number for number, prompt_id in enumerate(prompts)}
        numbers = np.array([place[image.prompt.prompt_id] for image in images], dtype=np.intp)
        return cls(prompts=list(prompts.values()), number=numbers)

    def clusters(self) -> NDArray[np.intp]:
        """The prompt of each image as its place among the ids in alphabetical order, shape (N,)."""
        place = np.empty(len(self.prompts), dtype=np.intp)
        place[sorted(range(len(self.prompts)), key=lambda n: self.prompts[n].prompt_id)] = np.arange(len(self.prompts))
        of_image: NDArray[np.intp] = place[self.number]
        return of_image


def by_image(images: Sequence[ShownImage], verdicts: pl.DataFrame, protocol: str, rule: str) -> Floats:
    """The value of each image under a rule, NaN for none, shape (N,).

    Args:
        images: of which some may have no verdict.
        verdicts: about them.
        protocol: of the verdicts.
        rule: of which an image has one verdict at most.
    """
    rows = verdicts.filter((verdicts["rule"] == rule) & (verdicts["protocol"] == protocol))
    values = dict(rows.select("image_id", "value").iter_rows())
    found = [values.get(image.image_id) for image in images]
    return np.array([math.nan if value is None else value for value in found], dtype=np.float64)


def groups_of(listed: Listed, group_by: Sequence[str]) -> Groups:
    """All images, then those of each value of each facet: the group, and positions of its images."""
    groups: list[tuple[Mapping[str, Any], NDArray[np.intp]]] = [({}, np.arange(len(listed.number)))]
    for facet in group_by:
        of_prompt = [prompt.facets.get(facet) for prompt in listed.prompts]
        place = {value: code for code, value in enumerate(dict.fromkeys(of_prompt))}
        code = np.array([place[value] for value in of_prompt], dtype=np.intp)[listed.number]
        there = [value for value, n in zip(place, np.bincount(code, minlength=len(place)), strict=True) if n]
        there.sort(key=lambda v: (v is None, str(v)))
        groups += [({facet: value}, np.flatnonzero(code == place[value])) for value in there]
    return groups


def score(
    suite: str,
    metric: str,
    protocol: str,
    interval: Interval,
    *,
    n_used: int,
    n_unusable: int,
    group: Mapping[str, Any] | None = None,
    unit: str = "share",
) -> Score:
    return Score(
        suite=suite,
        metric=metric,
        protocol=protocol,
        value=interval.value,
        ci_low=interval.low,
        ci_high=interval.high,
        n_used=n_used,
        n_unusable=n_unusable,
        group=dict(group or {}),
        unit=unit,
    )


def mean_score(
    suite: str,
    metric: str,
    protocol: str,
    values: Floats,
    clusters: NDArray[np.intp],
    *,
    group: Mapping[str, Any] | None = None,
    unit: str = "share",
    scale: float = 1.0,
) -> Score:
    """The mean of the values that are not NaN, with an interval clustered by prompt.

    Args:
        suite: name of the suite the score belongs to.
        metric: name of the metric.
        protocol: name of the protocol the values were obtained under.
        values: one per image, shape (N,); NaN where an image has no value, and these are left out.
        clusters: prompt of each value, as of ``Listed.clusters``; the clusters of the interval.
        group: facets the score is restricted to, by name; None for all images.
        unit: unit of the score, such as ``share``. Shares that are all 0 or 1 are a proportion, since a bootstrap of
            equal values would have no interval.
        scale: what the mean and its interval are multiplied by.
    """
    used = ~np.isnan(values)
    numbers, labels = values[used], clusters[used]
    interval = UNDEFINED
    if len(numbers):
        if unit == "share" and np.isin(numbers, (0.0, 1.0)).all():
            interval = clustered_proportion(numbers, labels)
        else:
            bounds = (0.0, 1.0) if unit == "share" else None
            interval = cluster_bootstrap_mean(numbers, labels, seed=0, n_resamples=RESAMPLES, bounds=bounds)
    return score(
        suite,
        metric,
        protocol,
        Interval(scale * interval.value, scale * interval.low, scale * interval.high),
        n_used=len(numbers),
        n_unusable=len(values) - len(numbers),
        group=group,
        unit=unit,
    )


def share_score(
    suite: str,
    metric: str,
    protocol: str,
    right: Floats,
    counted: Floats,
    clusters: NDArray[np.intp],
    *,
    n_unusable: int,
    group: Mapping[str, Any] | None = None,
) -> Score:
    """A share of questions, with an interval clustered by prompt.

    Args:
        suite: name of the suite the score belongs to.
        metric: name of the metric.
        protocol: name of the protocol of the answers.
        right: questions that count for it, in numbers of images or of prompts, shape (N,).
        counted: questions that it is a share of, shape (N,).
        clusters: prompt of each number, as of ``Listed.clusters``.
        n_unusable: questions that are left out.
        group: facets the score is restricted to, by name; None for all images.
    """
    sums, sizes = (np.bincount(clusters, weights=numbers) for numbers in (right, counted))
    interval = proportion_of_totals(sums, sizes) if counted.sum() else UNDEFINED
    return score(suite, metric, protocol, interval, n_used=int(counted.sum()), n_unusable=n_unusable, group=group)
