"""Sentences that answer a suite's question with numbers: what a report and the terminal begin with.

A suite words its own (``Suite.answers``); these are the parts, and the answer where it words none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from verism.records import FacetValue, Score
from verism.report_kit import words
from verism.report_kit.coverage import coverage_of
from verism.specs import SHARE, MetricSpec, Presentation

__all__ = ["amount", "find", "headline_answers", "images", "probability"]

MOST = 2  # metrics of an answer where the suite words none itself
MOST_GROUPS = 4  # groups of an answer where no headline metric is of all images


def amount(score: Score, *, points: bool = False) -> str:
    """A value with its 95 % interval in words: ``62.0 % [55.1, 69.2]``.

    Args:
        score: with its unit.
        points: whether a share is a difference, in percentage points.
    """
    value, ends = words.value(score), words.interval(score)
    if score.unit == SHARE.unit:
        value += " points" if points else " %"
    return f"{value} {ends}".rstrip()


def images(score: Score) -> str:
    """How many images a score rests on, and how many it leaves out: ``118 images, 2 unusable``."""
    counted = f"{score.n_used:,} image{'' if score.n_used == 1 else 's'}"
    return counted + (f", {score.n_unusable:,} unusable" if score.n_unusable else "")


def probability(score: Score) -> str:
    """A p-value: ``p = 0.19``, ``p < 0.001``."""
    text = words.value(score)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def find(
    scores: Sequence[Score], metric: str, protocol: str, group: Mapping[str, FacetValue] | None = None
) -> Score | None:
    """The defined score, as judged, of exactly this group; None if there is none.

    Args:
        scores: of a run.
        metric: its name.
        protocol: its protocol.
        group: all facets that it is restricted to; None: none.
    """
    wanted = dict(group or {})
    for score in scores:
        if (score.metric, score.protocol, score.adjusted) == (metric, protocol, "") and dict(score.group) == wanted:
            return None if math.isnan(score.value) else score
    return None


def headline_answers(presentation: Presentation, scores: Sequence[Score]) -> list[str]:
    """The headline metrics in a sentence; of one that differs by facet, its lowest and highest group in another.

    Args:
        presentation: of the suite.
        scores: of a run, with their units.
    """
    scored = {s.protocol for s in scores}
    protocol = next((name for name in presentation.info.protocols if name in scored), "")
    specs = [spec for spec in presentation.metrics if spec.headline]
    numbers = [(spec, score) for spec in specs if (score := find(scores, spec.name, protocol)) is not None][:MOST]
    if not numbers:
        numbers = _of_groups(presentation, specs, scores, protocol)[:MOST_GROUPS]
    if not numbers:
        return []
    first = "; ".join(_number(presentation, spec, score, scores) for spec, score in numbers)
    sentences = [f"{first[:1].upper()}{first[1:]}."]
    extremes = _extremes(presentation, scores, protocol)
    return [*sentences, extremes] if extremes else sentences


def _of_groups(
    presentation: Presentation, specs: Sequence[MetricSpec], scores: Sequence[Score], protocol: str
) -> list[tuple[MetricSpec, Score]]:
    """Headline numbers of the widest groups, where none is of all images."""
    found = [
        (spec, score)
        for spec in specs
        for score in scores
        if (score.metric, score.protocol, score.adjusted) == (spec.name, protocol, "")
        and not math.isnan(score.value)
        and not set(score.group) & set(presentation.layout.detail)
    ]
    fewest = min((len(score.group) for _, score in found), default=0)
    return [(spec, score) for spec, score in found if len(score.group) == fewest]


def _number(presentation: Presentation, spec: MetricSpec, score: Score, scores: Sequence[Score]) -> str:
    """A number with its name, group, interval and counts: ``accuracy, count 62.0 % [55.1, 69.2] (118 images)``."""
    names = presentation.layout.names
    group = [str(names.get(f"{facet}={value}", value)) for facet, value in score.group.items()]
    counted = "; ".join(filter(None, (images(score), coverage_of(score, scores, spec).answered)))
    return f"{', '.join([spec.title, *group])} {amount(score)} ({counted})"


def _extremes(presentation: Presentation, scores: Sequence[Score], protocol: str) -> str:
    """Where the main number is lowest and highest, of the first facet that it is told apart by."""
    names = presentation.layout.names
    for pairing in presentation.pairings:
        spec = next((s for s in presentation.metrics if s.name == pairing.metric and s.headline), None)
        if spec is None or not pairing.facet:
            continue
        groups = [
            s
            for s in scores
            if (s.metric, s.protocol, s.adjusted) == (spec.name, protocol, "")
            and list(s.group) == [pairing.facet]
            and not math.isnan(s.value)
        ]
        if len(groups) < 2:
            continue
        low, high = min(groups, key=lambda s: s.value), max(groups, key=lambda s: s.value)
        if low.value == high.value:
            return ""

        def extreme(score: Score, facet: str = pairing.facet) -> str:
            value = score.group[facet]
            return f"{names.get(f'{facet}={value}', value)} ({amount(score)})"

        facet = names.get(pairing.facet, pairing.facet.replace("_", " "))
        return f"By {facet}, it is lowest for {extreme(low)} and highest for {extreme(high)}."
    return ""
