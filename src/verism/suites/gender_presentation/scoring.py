"""From verdicts to the numbers of the suite: frequencies, GEP vectors and scores, with intervals by prompt pair."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

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


@dataclass(frozen=True, eq=False)
class _Judged:
    """What one estimator said in one setting: arrays of N rows, one for each image and attribute.

    Attributes:
        values: NaN where it could not say.
        groups: number of the group among those of the study.
        attributes: number of the attribute.
        contexts: number of the context.
        clusters: the same for the prompts of all groups that differ in nothing else.
    """

    values: NDArray[np.float64]
    groups: NDArray[np.int64]
    attributes: NDArray[np.int64]
    contexts: NDArray[np.int64]
    clusters: NDArray[np.int64]

    def same(self, other: _Judged) -> bool:
        return all(
            np.array_equal(column, vars(other)[name], equal_nan=name == "values") for name, column in vars(self).items()
        )

    def of(self, groups: Sequence[int]) -> _Judged:
        """Only the rows of these groups."""
        mask = np.isin(self.groups, groups)
        return _Judged(**{name: column[mask] for name, column in vars(self).items()})


@dataclass(frozen=True, eq=False)
class _Measured:
    """Numbers of one estimator in one setting; contexts by pair of groups, and over all if there are more than two."""

    presentation: Presentation
    contexts: Mapping[tuple[str, ...], ContextScores]


def presentation_scores(
    suite: str,
    study: Study,
    prompts: Mapping[str, Prompt],
    verdicts: pl.DataFrame | pl.LazyFrame,
    *,
    n_resamples: int,
    seed: int,
) -> list[Score]:
    """All numbers of the suite, by protocol, estimator and setting; see ``docs/suites/gender_presentation.md``."""
    table = _columns(study, prompts, verdicts)
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


def _columns(
    study: Study, prompts: Mapping[str, Prompt], verdicts: pl.DataFrame | pl.LazyFrame
) -> dict[tuple[str, str, str], _Judged]:
    """What estimators said, by protocol, estimator and setting."""
    import polars as pl

    groups = {group.name: number for number, group in enumerate(study.groups)}
    contexts = {context: number for number, context in enumerate(study.contexts)}
    facets = pl.LazyFrame(
        {
            "prompt_id": list(prompts),
            "setting": [str(p.facets["setting"]) for p in prompts.values()],
            "groups": [groups[str(p.facets["gender"])] for p in prompts.values()],
            "contexts": [contexts[str(p.facets["context"])] for p in prompts.values()],
            "clusters": [int(p.spec["index"]) for p in prompts.values()],
        },
        schema={"prompt_id": pl.String, "setting": pl.String}
        | dict.fromkeys(("groups", "contexts", "clusters"), pl.Int64),
    )
    of_detail = pl.col("detail").str.json_decode(pl.Struct({"attribute": pl.String})).struct.field("attribute")
    attributes = {attribute.name: number for number, attribute in enumerate(study.attributes)}
    rows = (
        verdicts.lazy()
        .filter(pl.col("rule").is_in(ESTIMATORS))
        .select(
            "prompt_id",
            pl.col("protocol", "rule").cast(pl.Categorical),
            pl.col("value").fill_null(math.nan),
            of_detail.replace_strict(attributes, return_dtype=pl.Int64).alias("attributes"),
        )
        .join(facets, on="prompt_id", maintain_order="left")
        .drop("prompt_id")
        .collect()
    )
    parts = rows.partition_by("protocol", "rule", "setting", as_dict=True, include_key=False, maintain_order=True)
    return {
        (protocol, rule, setting): _Judged(
            values=part["value"].to_numpy(),
            groups=part["groups"].to_numpy(),
            attributes=part["attributes"].to_numpy(),
            contexts=part["contexts"].to_numpy(),
            clusters=part["clusters"].to_numpy(),
        )
        for (protocol, rule, setting), part in parts.items()
    }


def _measure(study: Study, judged: _Judged, n_resamples: int, seed: int) -> _Measured:
    groups = [g.name for g in study.groups]
    attributes, contexts = np.unique(judged.attributes).tolist(), np.unique(judged.contexts).tolist()
    found = vector_with_intervals(
        judged.values,
        judged.groups,
        judged.attributes,
        judged.clusters,
        group_order=range(len(groups)),
        attribute_order=attributes,
        seed=seed,
        n_resamples=n_resamples,
    )
    presentation = replace(
        found,
        frequencies=replace(
            found.frequencies, groups=tuple(groups), attributes=tuple(study.attributes[a].name for a in attributes)
        ),
        pairs=tuple(replace(pair, first=groups[pair.first], second=groups[pair.second]) for pair in found.pairs),
    )
    compared = [tuple(g.name for g in pair) for pair in study.pairs()]
    if len(groups) > 2:
        compared.append(tuple(groups))
    by_context = {}
    for chosen in compared:
        numbers = [groups.index(name) for name in chosen]
        rows = judged.of(numbers)
        scores = context_scores(
            rows.values,
            rows.groups,
            rows.attributes,
            rows.contexts,
            group_order=numbers,
            attribute_order=attributes,
            context_order=contexts,
            seed=seed,
            n_resamples=min(n_resamples, 1_000),
        )
        by_context[chosen] = replace(scores, contexts=tuple(study.contexts[c] for c in contexts))
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
    suite: str,
    protocol: str,
    prompts: Mapping[str, Prompt],
    verdicts: pl.DataFrame | pl.LazyFrame,
    n_resamples: int,
    seed: int,
) -> list[Score]:
    """Mean over images of 100 times the cosine with the own prompt."""
    import polars as pl

    chosen = verdicts.lazy().filter((pl.col("rule") == "clipscore") & (pl.col("protocol") == protocol))
    facets = pl.LazyFrame(
        {
            "prompt_id": list(prompts),
            "setting": [str(p.facets["setting"]) for p in prompts.values()],
            "cluster": [int(p.spec["index"]) for p in prompts.values()],
        },
        schema={"prompt_id": pl.String, "setting": pl.String, "cluster": pl.Int64},
    )
    rows = chosen.select("prompt_id", "value").join(facets, on="prompt_id", maintain_order="left").collect()
    scores = []
    for setting in _present(SETTINGS, rows["setting"].unique().to_list()):
        result = rows.filter(pl.col("setting") == setting)
        used = result.filter(pl.col("value").is_not_null())
        interval = Interval(math.nan, math.nan, math.nan)
        if used.height:
            values, clusters = used["value"].to_numpy(), used["cluster"].to_numpy()
            interval = cluster_bootstrap_mean(values, clusters, seed=seed, n_resamples=n_resamples)
        write = _Writer(suite, protocol, "x100", {"setting": setting})
        counts: dict[str, Any] = {"used": used.height, "unusable": result.height - used.height}
        scores.append(write("clipscore", interval.value, (interval.low, interval.high), **counts))
    return scores
