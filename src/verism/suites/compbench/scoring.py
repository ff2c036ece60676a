"""The numbers of a run, category by category: scores, their parts, breakdowns, and what went unanswered."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.records import FacetValue, Observed, Prompt, Score
from verism.statistics.intervals import clustered_average
from verism.suites.compbench.metrics import SCORED

if TYPE_CHECKING:
    import polars as pl

__all__ = ["PARTS", "compbench_scores"]

PARTS = ("relation_worth", "objects_found", "number_exact")
BREAKDOWNS = ("seen", "relation", "route", "phrases", "kinds")  # facets that categories are broken down by
LOWEST_ZERO = tuple(name for name in SCORED if name != "clip_score")  # a cosine has no lowest value to stand in

Row = tuple[str, float | None, str | None]  # prompt id, value, detail


def compbench_scores(
    suite: str, protocols: Sequence[str], observed: Observed, verdicts: pl.DataFrame | pl.LazyFrame
) -> list[Score]:
    """All numbers, in a fixed order; none is over categories.

    Args:
        suite: its name.
        protocols: in the order in which scores come.
        observed: the run.
        verdicts: table ``verdicts`` of the suite.
    """
    prompts = observed.prompts
    categories = list(dict.fromkeys(str(p.facets["category"]) for p in prompts.values()))
    rows: dict[tuple[str, str, str], list[Row]] = {}
    columns = ("protocol", "rule", "prompt_id", "value", "detail")
    ordered = verdicts.lazy().sort("image_id", maintain_order=True).select(columns).collect()
    for protocol, rule, prompt_id, value, detail in ordered.iter_rows():
        rows.setdefault((protocol, rule, str(prompts[prompt_id].facets["category"])), []).append(
            (prompt_id, value, detail)
        )

    def score(metric: str, protocol: str, group: Mapping[str, FacetValue], chosen: Sequence[Row]) -> Score:
        usable = [(prompt, value) for prompt, value, _ in chosen if value is not None]
        ends = -1.0 if metric == "clip_score" else 0.0, 1.0
        interval = clustered_average([v for _, v in usable], np.array([p for p, _ in usable]), bounds=ends)
        return Score(
            suite=suite,
            metric=metric,
            protocol=protocol,
            group=dict(group),
            value=interval.value,
            ci_low=interval.low,
            ci_high=interval.high,
            n_used=len(usable),
            n_unusable=len(chosen) - len(usable),
        )

    scores: list[Score] = []
    for protocol in protocols:
        for category in categories:
            for metric in (*SCORED, "accuracy", *PARTS):
                of_rule = rows.get((protocol, metric, category))
                if not of_rule:
                    continue
                group: dict[str, FacetValue] = {"category": category}
                scores.append(score(metric, protocol, group, of_rule))
                if metric in LOWEST_ZERO and scores[-1].n_unusable:
                    filled = [(p, 0.0 if v is None else v, d) for p, v, d in of_rule]
                    strict = score("score_if_unusable_zero", protocol, group, filled)
                    scores.append(_with_unusable(strict, scores[-1].n_unusable))
                if metric in SCORED:
                    scores += [
                        score(metric, protocol, {**group, facet: value}, some)
                        for facet, value, some in _broken_down(prompts, of_rule)
                    ]
            masses = _masses(rows.get((protocol, "phrase", category), []))
            if masses and protocol == protocols[0]:
                scores.append(score("answer_mass", protocol, {"category": category}, masses))
    return scores


def _with_unusable(score: Score, number: int) -> Score:
    """A bound with the number of images that had no answer, although all entered its value."""
    return replace(score, n_unusable=number)


def _broken_down(prompts: Mapping[str, Prompt], rows: Sequence[Row]) -> list[tuple[str, FacetValue, list[Row]]]:
    """Groups within a category by facets that its prompts differ in."""
    parts: list[tuple[str, FacetValue, list[Row]]] = []
    for facet in BREAKDOWNS:
        values = {prompts[prompt].facets.get(facet) for prompt, _, _ in rows} - {None}
        if len(values) < 2:
            continue
        for value in sorted(values, key=lambda v: (isinstance(v, str), str(v).rjust(4))):
            parts.append((facet, value, [row for row in rows if prompts[row[0]].facets.get(facet) == value]))
    return parts


def _masses(rows: Sequence[Row]) -> list[Row]:
    made: list[Row] = []
    for prompt, _, detail in rows:
        mass: Any = json.loads(detail or "{}").get("mass")
        if mass is not None:
            made.append((prompt, float(mass), None))
    return made
