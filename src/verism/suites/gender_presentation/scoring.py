"""From verdicts to the numbers of the suite: frequencies, GEP vectors and scores, with intervals by prompt pair."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.metrics.presentation.gep import (
    ContextScores,
    Presentation,
    ScoreEstimate,
    context_scores,
    vector_with_intervals,
)
from verism.records import PROTOCOLS, Prompt, Score
from verism.statistics.intervals import Interval, cluster_bootstrap_mean
from verism.suites.gender_presentation.evidence import ESTIMATORS
from verism.suites.gender_presentation.studies import SETTINGS, Study

if TYPE_CHECKING:
    import polars as pl

__all__ = ["UNITS", "presentation_scores"]

UNITS: Mapping[str, str] = {"human": "share", "CLS": "share", "VQA": "share", "C": "cosine", "CC": "cosine"}


@dataclass(eq=False)
class _Judged:
    """What one estimator said in one setting: columns, a row for each image and attribute."""

    values: list[float] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    attributes: list[str] = field(default_factory=list)
    contexts: list[str] = field(default_factory=list)
    clusters: list[int] = field(default_factory=list)  # prompts of all groups with the same number

    def same(self, other: _Judged) -> bool:
        return vars(self).keys() == vars(other).keys() and all(
            np.array_equal(self.values, other.values, equal_nan=True) if name == "values" else mine == vars(other)[name]
            for name, mine in vars(self).items()
        )

    def of(self, groups: Sequence[str]) -> _Judged:
        """Only the rows of these groups."""
        rows = [i for i, g in enumerate(self.groups) if g in groups]
        return _Judged(**{name: [column[i] for i in rows] for name, column in vars(self).items()})


@dataclass(frozen=True, eq=False)
class _Measured:
    """Numbers of one estimator in one setting; contexts by pair of groups, and over all if there are more than two."""

    presentation: Presentation
    contexts: Mapping[tuple[str, ...], ContextScores]


def presentation_scores(
    suite: str,
    study: Study,
    prompts: Mapping[str, Prompt],
    verdicts: pl.DataFrame,
    *,
    n_resamples: int,
    seed: int,
) -> list[Score]:
    """All numbers of the suite, by protocol, estimator and setting; see ``docs/suites/gender_presentation.md``."""
    table = _columns(prompts, verdicts)
    scores: list[Score] = []
    measured: dict[tuple[str, str], tuple[_Judged, _Measured]] = {}
    for protocol in PROTOCOLS:
        for estimator in ESTIMATORS:
            for setting in SETTINGS:
                judged = table.get((protocol, estimator, setting))
                if judged is None:
                    continue
                before = measured.get((estimator, setting))
                if before is None or not before[0].same(judged):  # most estimators are the same under every protocol
                    before = (judged, _measure(study, judged, n_resamples, seed))
                    measured[estimator, setting] = before
                group = {"estimator": estimator, "setting": setting}
                scores += _scores_of(_Writer(suite, protocol, UNITS[estimator], group), before[1])
        scores += _clipscores(suite, protocol, prompts, verdicts, n_resamples, seed)
    return scores


def _columns(prompts: Mapping[str, Prompt], verdicts: pl.DataFrame) -> dict[tuple[str, str, str], _Judged]:
    results: dict[tuple[str, str, str], _Judged] = {}
    columns = (verdicts[name].to_list() for name in ("prompt_id", "protocol", "rule", "value", "detail"))
    for prompt_id, protocol, rule, value, detail in zip(*columns, strict=True):
        if rule not in ESTIMATORS:
            continue
        prompt = prompts[prompt_id]
        judged = results.setdefault((protocol, rule, str(prompt.facets["setting"])), _Judged())
        judged.values.append(math.nan if value is None else value)
        judged.groups.append(str(prompt.facets["gender"]))
        judged.attributes.append(json.loads(detail)["attribute"])
        judged.contexts.append(str(prompt.facets["context"]))
        judged.clusters.append(int(prompt.spec["index"]))
    return results


def _measure(study: Study, judged: _Judged, n_resamples: int, seed: int) -> _Measured:
    groups = [g.name for g in study.groups]
    attributes = _present((a.name for a in study.attributes), judged.attributes)
    contexts = _present(study.contexts, judged.contexts)
    presentation = vector_with_intervals(
        judged.values,
        judged.groups,
        judged.attributes,
        judged.clusters,
        group_order=groups,
        attribute_order=attributes,
        seed=seed,
        n_resamples=n_resamples,
    )
    compared = [tuple(g.name for g in pair) for pair in study.pairs()]
    if len(groups) > 2:
        compared.append(tuple(groups))
    by_context = {}
    for chosen in compared:
        rows = judged.of(chosen)
        by_context[chosen] = context_scores(
            rows.values,
            rows.groups,
            rows.attributes,
            rows.contexts,
            group_order=chosen,
            attribute_order=attributes,
            context_order=contexts,
            seed=seed,
            n_resamples=min(n_resamples, 1_000),
        )
    return _Measured(presentation, by_context)


def _present(order: Iterable[str], found: Sequence[str]) -> list[str]:
    there = set(found)
    return [name for name in order if name in there]


# --------------------------------------------------------------------------------------------------------------- scores
@dataclass(frozen=True)
class _Writer:
    """Makes scores of one protocol, estimator and setting."""

    suite: str
    protocol: str
    unit: str
    group: Mapping[str, Any]

    def __call__(
        self,
        metric: str,
        value: float,
        ends: tuple[float, float] = (math.nan, math.nan),
        *,
        used: int,
        unusable: int,
        unit: str | None = None,
        **more: Any,
    ) -> Score:
        return Score(
            suite=self.suite,
            metric=metric,
            protocol=self.protocol,
            value=float(value),
            ci_low=float(ends[0]),
            ci_high=float(ends[1]),
            n_used=int(used),
            n_unusable=int(unusable),
            group={**self.group, **more},
            unit=unit or self.unit,
        )


def _scores_of(write: _Writer, measured: _Measured) -> list[Score]:
    result = measured.presentation
    frequencies = result.frequencies
    scores = [
        write(
            "frequency",
            frequencies.values[g, a],
            (result.frequency_low[g, a], result.frequency_high[g, a]),
            used=frequencies.n_used[g, a],
            unusable=frequencies.n_unusable[g, a],
            gender=group,
            attribute=attribute,
        )
        for g, group in enumerate(frequencies.groups)
        for a, attribute in enumerate(frequencies.attributes)
    ]
    index_of = {group: g for g, group in enumerate(frequencies.groups)}
    several = len(result.pairs) > 1
    for pair in result.pairs:
        named = {"pair": f"{pair.first} - {pair.second}"} if several else {}
        both = [index_of[pair.first], index_of[pair.second]]
        used, unusable = frequencies.n_used[both].sum(axis=0), frequencies.n_unusable[both].sum(axis=0)
        for a, attribute in enumerate(frequencies.attributes):
            counts: dict[str, Any] = {"used": used[a], "unusable": unusable[a]}
            where = {**named, "attribute": attribute}
            scores.append(write("gep", pair.vector[a], (pair.low[a], pair.high[a]), **counts, **where))
            scores.append(write("gep_p_value", pair.p_adjusted[a], unit="p", **counts, **where))
        scores += _score_of(write, "gep_score", pair.score, int(used.sum()), int(unusable.sum()), named)
        scores += _by_context(write, "gep_score", measured.contexts[pair.first, pair.second], named)
    if several:
        n_used, n_unusable = int(frequencies.n_used.sum()), int(frequencies.n_unusable.sum())
        scores += _score_of(write, "gep_largest_gap", result.score, n_used, n_unusable, {})
        scores += _by_context(write, "gep_largest_gap", measured.contexts[frequencies.groups], {})
    return scores


def _score_of(
    write: _Writer, metric: str, score: ScoreEstimate, used: int, unusable: int, named: Mapping[str, Any]
) -> list[Score]:
    counts: dict[str, Any] = {"used": used, "unusable": unusable}
    return [
        write(metric, score.value, (score.low, score.high), **counts, **named),
        write(f"{metric}_debiased", score.debiased, **counts, **named),
        write(f"{metric}_by_chance", score.by_chance, **counts, **named),
        write(f"{metric}_p_value", score.p_value, **counts, unit="p", **named),
    ]


def _by_context(write: _Writer, metric: str, found: ContextScores, named: Mapping[str, Any]) -> list[Score]:
    scores = []
    for c, context in enumerate(found.contexts):
        counts: dict[str, Any] = {"used": found.n_used[c], "unusable": found.n_unusable[c]}
        scores.append(write(metric, found.values[c], **counts, **named, context=context))
        scores.append(write(f"{metric}_by_chance", found.by_chance[c], **counts, **named, context=context))
    return scores


def _clipscores(
    suite: str, protocol: str, prompts: Mapping[str, Prompt], verdicts: pl.DataFrame, n_resamples: int, seed: int
) -> list[Score]:
    """Mean over images of 100 times the cosine with the own prompt."""
    import polars as pl

    rows = verdicts.filter((pl.col("rule") == "clipscore") & (pl.col("protocol") == protocol))
    by_setting: dict[str, list[tuple[float | None, int]]] = {}
    for prompt_id, value in zip(rows["prompt_id"].to_list(), rows["value"].to_list(), strict=True):
        prompt = prompts[prompt_id]
        by_setting.setdefault(str(prompt.facets["setting"]), []).append((value, int(prompt.spec["index"])))
    scores = []
    for setting in _present(SETTINGS, list(by_setting)):
        result = by_setting[setting]
        used = [(value, index) for value, index in result if value is not None]
        interval = Interval(math.nan, math.nan, math.nan)
        if used:
            values, clusters = np.array([v for v, _ in used]), np.array([i for _, i in used])
            interval = cluster_bootstrap_mean(values, clusters, seed=seed, n_resamples=n_resamples)
        write = _Writer(suite, protocol, "x100", {"setting": setting})
        counts: dict[str, Any] = {"used": len(used), "unusable": len(result) - len(used)}
        scores.append(write("clipscore", interval.value, (interval.low, interval.high), **counts))
    return scores
