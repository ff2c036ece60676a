"""The numbers of a run: accuracies by task, class, colour, number and relation, and what went unanswered."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from verism.records import FacetValue, Observed, Prompt, Score
from verism.statistics.intervals import Interval, mean_of_independent, proportion_of_totals
from verism.suites.geneval.vocabulary import TASKS
from verism.suites.right_or_wrong import count_by, right_by_prompt

if TYPE_CHECKING:
    import polars as pl

__all__ = ["PARTS", "geneval_scores"]

PARTS = ("objects_right", "colors_right", "relation_right")
NOTHING = Interval(math.nan, math.nan, math.nan)


def geneval_scores(
    suite: str, protocols: Sequence[str], observed: Observed, verdicts: pl.DataFrame | pl.LazyFrame
) -> list[Score]:
    """All numbers, in a fixed order.

    Args:
        suite: its name.
        protocols: in the order in which scores come.
        observed: the run.
        verdicts: table ``verdicts`` of the suite.
    """

    prompts = observed.prompts
    tasks = [task for task in TASKS if any(p.facets["task"] == task for p in prompts.values())]
    scores: list[Score] = []
    for protocol in protocols:
        made = _Protocol(suite, protocol, prompts, verdicts)
        by_task = [made.share("accuracy", {"task": task}) for task in tasks]
        bounds = [made.share("accuracy_if_unusable_wrong", {"task": task}) for task in tasks]
        scores += by_task
        scores += [score for score in bounds if score.n_unusable]
        for task in tasks:
            scores += [score for part in PARTS if (score := made.share(part, {"task": task})).n_used]
            scores.append(made.prompt_share({"task": task}))
            scores += [made.share("accuracy", group) for group in _groups(prompts.values(), task)]
        scores += [made.share("accuracy", {"class": name}) for name in _classes(prompts.values())]
        scores += made.count_confusion()
        scores += [made.share("accuracy", {}), made.prompt_share({})]
        complete = protocol != "revised" or len(tasks) == len(TASKS)
        scores.append(made.mean("overall", by_task, complete=complete))
        if any(score.n_unusable for score in bounds):
            scores.append(made.mean("overall_if_unusable_wrong", bounds, complete=complete))
    return scores


def _groups(prompts: Any, task: str) -> Iterator[dict[str, FacetValue]]:
    """Groups within a task: colours, numbers, relations, as far as it asks for them."""
    of_task = [p for p in prompts if p.facets["task"] == task]
    for facet, others in (("color", ("color", "color_b")), ("count", ("count",)), ("relation", ("relation",))):
        values = {p.facets.get(name) for p in of_task for name in others} - {None}
        for value in sorted(values, key=str):
            yield {"task": task, facet: value}


def _classes(prompts: Any) -> list[str]:
    names = {str(p.facets[name]) for p in prompts for name in ("class", "class_b") if p.facets.get(name)}
    return sorted(names)


def _belongs(prompt: Prompt, group: Mapping[str, FacetValue]) -> bool:
    """Whether a prompt is of a group; of two objects either may have the class or the colour."""
    return all(value in (prompt.facets.get(name), prompt.facets.get(f"{name}_b")) for name, value in group.items())


class _Protocol:
    """The verdicts of one protocol, and the numbers that are made of them."""

    def __init__(
        self, suite: str, protocol: str, prompts: Mapping[str, Prompt], verdicts: pl.DataFrame | pl.LazyFrame
    ) -> None:
        import polars as pl

        self.suite, self.protocol, self.prompts = suite, protocol, prompts
        self.verdicts = verdicts
        self._rows: dict[str, list[_Counts]] = {}
        for rule, *counts in right_by_prompt(verdicts, "rule", where=pl.col("protocol") == protocol).iter_rows():
            self._rows.setdefault(rule, []).append(_Counts(*counts))

    def _of(self, rule: str, group: Mapping[str, FacetValue]) -> list[_Counts]:
        """The prompts of a group, sorted by id."""
        members = {prompt_id for prompt_id, p in self.prompts.items() if _belongs(p, group)}
        return [row for row in self._rows.get(rule, []) if row.prompt in members]

    def _score(
        self, metric: str, group: Mapping[str, FacetValue], interval: Interval, used: int, unusable: int
    ) -> Score:
        return Score(
            suite=self.suite,
            metric=metric,
            protocol=self.protocol,
            group=dict(group),
            value=interval.value,
            ci_low=interval.low,
            ci_high=interval.high,
            n_used=used,
            n_unusable=unusable,
        )

    def share(self, metric: str, group: Mapping[str, FacetValue]) -> Score:
        """Share of right images of a group."""
        strict = metric.endswith("_if_unusable_wrong")
        rows = self._of("accuracy" if strict else metric, group)
        sizes = [row.images if strict else row.used for row in rows]
        interval = proportion_of_totals([row.right for row in rows], sizes)
        # Of the strict one all enter the value; those that had no answer are told all the same.
        return self._score(metric, group, interval, sum(sizes), sum(row.images - row.used for row in rows))

    def prompt_share(self, group: Mapping[str, FacetValue]) -> Score:
        """Share of prompts with at least one right image, among those with any usable image."""
        rows = self._of("accuracy", group)
        best = [float(row.right > 0) for row in rows if row.used]
        interval = proportion_of_totals(best, [1.0] * len(best))
        used = sum(row.used for row in rows)
        return self._score("prompt_accuracy", group, interval, used, sum(row.images for row in rows) - used)

    def mean(self, metric: str, parts: Sequence[Score], *, complete: bool) -> Score:
        """Plain mean over tasks: those with images, or undefined if not ``complete``."""
        if self.protocol == "revised":
            defined = complete and not any(math.isnan(score.value) for score in parts)
            used = list(parts) if defined else []
        else:
            used = [score for score in parts if not math.isnan(score.value)]
        intervals = [Interval(score.value, score.ci_low, score.ci_high) for score in used]
        interval = mean_of_independent(intervals) if intervals else NOTHING
        return self._score(metric, {}, interval, sum(s.n_used for s in parts), sum(s.n_unusable for s in parts))

    def count_confusion(self) -> list[Score]:
        """Of the images asked to show ``count`` objects, the share that shows ``found``."""
        import polars as pl

        scores = []
        asked = sorted({p.facets.get("count") for p in self.prompts.values()} - {None}, key=str)
        found: dict[str, Counter[int]] = {}
        if asked:
            usable = (pl.col("rule") == "accuracy") & pl.col("value").is_not_null()
            counted = count_by(
                self.verdicts,
                lambda rows: rows.filter(usable & (pl.col("protocol") == self.protocol)),
                ["prompt_id", "detail"],
                images=pl.len(),
            )
            for prompt, detail, images in counted.iter_rows():
                found.setdefault(prompt, Counter())[_found(detail)] += images
        for count in asked:
            rows = self._of("accuracy", {"task": "counting", "count": count})
            used = sum(row.used for row in rows)
            for number in sorted({number for row in rows for number in found.get(row.prompt, ())}):
                right = [found.get(row.prompt, Counter())[number] for row in rows]
                interval = proportion_of_totals(right, [row.used for row in rows])
                group = {"task": "counting", "count": count, "found": number}
                unusable = sum(row.images for row in rows) - used
                scores.append(self._score("count_found", group, interval, used, unusable))
        return scores


class _Counts(NamedTuple):
    """Images of a prompt that are right, that have a verdict at all, and all of them."""

    prompt: str
    right: int
    used: int
    images: int


def _found(detail: str | None) -> int:
    """Number of objects of the class asked for, out of a verdict's detail."""
    found: Mapping[str, int] = json.loads(detail or "{}").get("found", {})
    return sum(found.values())
