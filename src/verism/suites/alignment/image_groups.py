"""What the parts of the suite share: images and why one cannot be used, rows of verdicts, scores of means."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from verism.records import Score
from verism.statistics.intervals import Interval, cluster_bootstrap_mean, clustered_proportion
from verism.suites.verdict_table import ShownImage

__all__ = ["Groups", "groups_of", "mean_score", "score", "verdict"]

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


Groups = Sequence[tuple[Mapping[str, Any], Sequence[int]]]


def groups_of(images: Sequence[ShownImage], group_by: Sequence[str]) -> Groups:
    """All images, then those of each value of each facet: the group, and positions in ``images``."""
    groups: list[tuple[Mapping[str, Any], Sequence[int]]] = [({}, range(len(images)))]
    for facet in group_by:
        values: dict[Any, list[int]] = {}
        for position, image in enumerate(images):
            values.setdefault(image.prompt.facets.get(facet), []).append(position)
        groups += [({facet: value}, values[value]) for value in sorted(values, key=lambda v: (v is None, str(v)))]
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
    values: Sequence[float | None],
    prompt_ids: Sequence[str],
    *,
    group: Mapping[str, Any] | None = None,
    unit: str = "share",
    scale: float = 1.0,
    proportion: bool = False,
) -> Score:
    """The mean of the values that are not None, with an interval clustered by prompt.

    Args:
        suite: name of the suite the score belongs to.
        metric: name of the metric.
        protocol: name of the protocol the values were obtained under.
        values: one per image; None where an image has no value, and these are left out.
        prompt_ids: prompt of each value, in the same order; the clusters of the interval.
        group: facets the score is restricted to, by name; None for all images.
        unit: unit of the score, such as ``share``.
        scale: what the mean and its interval are multiplied by.
        proportion: whether all values are 0 or 1. With the unit ``share``, values that are all 0 or 1 are
            treated as a proportion in any case, since a bootstrap of equal values would have no interval.
    """
    used = [(v, p) for v, p in zip(values, prompt_ids, strict=True) if v is not None]
    interval = UNDEFINED
    if used:
        numbers = np.array([v for v, _ in used], dtype=np.float64)
        clusters = np.array([p for _, p in used])
        if proportion or (unit == "share" and np.isin(numbers, (0.0, 1.0)).all()):
            interval = clustered_proportion(numbers, clusters)
        else:
            interval = cluster_bootstrap_mean(numbers, clusters, seed=0, n_resamples=RESAMPLES)
    return score(
        suite,
        metric,
        protocol,
        Interval(scale * interval.value, scale * interval.low, scale * interval.high),
        n_used=len(used),
        n_unusable=len(values) - len(used),
        group=group,
        unit=unit,
    )
