"""The report of gender presentation differences: scores, vectors as bars, frequencies, contexts, pairs of pictures.

All numbers are of what judges perceive in pictures. Nothing here says who anybody is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from verism.cards import JudgeCard
from verism.records import PROTOCOLS, Score
from verism.reports import measures, page, plots
from verism.reports.adjustments import as_judged
from verism.reports.measure_names import title as measure_title
from verism.reports.measure_names import unit_name
from verism.reports.presentation_figures import LEVEL, Bar, SymlogAxis, diverging_bars, score_dots, signed, symlog_axis
from verism.reports.presentation_pairs import ESTIMATORS, collect_pairs, in_order
from verism.reports.tables import UNDEFINED, difference, run_names
from verism.store import Run

__all__ = ["render_presentation"]

FREQUENCY, VECTOR, P_VALUE, SCORE = "frequency", "gep", "gep_p_value", "gep_score"
SCORES = (SCORE, "gep_largest_gap")  # the second: of more than two terms, between those that differ most
BY_CHANCE = "_by_chance"
BESIDE = {BY_CHANCE: "by chance", "_corrected": "noise taken off", "_p_value": "p"}  # told below a score
JUDGE = "judge_"  # scores of how well an estimator agrees with people's labels begin so
SETTINGS = ("neutral", "explicit")
BETWEEN = " - "  # of the two terms of a pair
ANY_TERMS = ("first term", "second term")  # where neither scores nor prompts name them

TITLES: Mapping[str, str] = {
    SCORE: "GEP score",
    "gep_largest_gap": "largest gap",
    "judge_tau": "Kendall's τ-b of vectors",
    "judge_mcc": "MCC of signs",
    "judge_pearson": "Pearson's r of vectors",
    "judge_auc": "AUC, mean of attributes",
    "clipscore": "CLIPScore",
}
MEANINGS: Mapping[str, str] = {
    "corrected": "CLS: classifiers fitted without chance; their values are degrees, which do not saturate on pictures, "
    "and no frequencies. Use it to compare models.",
    "released": "CLS: the mean of ten classifiers, fitted by ten seeds as in the authors' published code. "
    "Similarities, answers and votes are the same.",
    "paper": "Not computed: where its text differs from the published code (the classifiers' learning rate), it cannot "
    "have given the published numbers.",
}
EXPLAINED: Mapping[str, str] = {
    "human": "Majority of people's votes: does the picture show a person with the attribute?",
    "CLS": "Classifiers trained on sentences and applied to pictures; mean of what they give, from 0 to 1: "
    "a probability (released) or a degree (corrected).",
    "VQA": "A model's answers to a question about each attribute; share of “yes”.",
    "CC": "Cosine of a picture and the attribute's name, minus that of a picture and a reference text.",
    "C": "Cosine of a picture and the attribute's name.",
}
LIMITS = (
    "A difference is one between pictures, as perceived by a judge. It says nothing of people, and nothing of who "
    "anybody in a picture is.",
    "Scales of estimators differ by design: compare orders and signs between estimators, and sizes within one.",
    "Automatic judges learnt from pictures and captions with differences of their own, and may perceive the same "
    "clothes less or more readily depending on who wears them. That error is part of every number and of no interval.",
    "The attributes are a list of clothes: other differences (pose, body, place, what hands hold) are not measured.",
)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure in its version for every protocol; None where a protocol has no such numbers."""

    title: str
    versions: Mapping[str, Markup | None]
    estimator: str = ""
    untested: frozenset[str] = frozenset()  # protocols without p-values


def render_presentation(
    runs: Sequence[Run], *, gallery: int, embed_pixels: int, cards: Sequence[JudgeCard] = ()
) -> str:
    """The page of one run, or of several side by side (see ``html.write_report``).

    Raises:
        UsageError: a gallery that cannot be.
        VerismError: a run has no scores yet.
    """
    names = run_names(runs)
    vectors = [_Vectors(run) for run in runs]
    scores = [v.scores for v in vectors]
    ranked = _ranked(vectors)
    tiles = collect_pairs(
        runs, gallery=gallery, embed_pixels=embed_pixels, ranked=ranked, terms=[v.terms for v in vectors]
    )
    estimators = in_order([e for v in vectors for e in v.estimators])
    bars = _bars(vectors, names, estimators)
    return page.render(
        "presentation.html.j2",
        [page.introduce(name, run) for name, run in zip(names, runs)],
        cards=cards,
        names=names,
        meanings=MEANINGS,
        limits=LIMITS,
        estimators=[(e, ESTIMATORS.get(e, ""), EXPLAINED.get(e, "")) for e in estimators],
        remarks=[(i, line) for i, run in enumerate(runs) for line in run.manifest.get("notes", {}).get("remarks", ())],
        results={p: _rows(scores, p, _is_result) for p in PROTOCOLS},
        score_figures=_dots(vectors, names, by="setting") if len(runs) > 1 else [],
        bars=bars,
        dashed=any(s.metric.endswith(BY_CHANCE) for of in scores for s in of),
        level=LEVEL,
        frequencies=[(e, {p: _frequencies(vectors, e, p) for p in PROTOCOLS}) for e in estimators],
        contexts=_by_estimator(_dots(vectors, names, by="context")),
        judged={p: _rows(scores, p, _is_of_judge) for p in PROTOCOLS} if _has_judge(scores) else None,
        areas=_areas(vectors, names),
        protocol_rows=_protocol_rows(scores),
        tiles=tiles,
        n_shown=sum(shot.image_id != "" for tile in tiles for shot in tile.shots),
        terms=list(dict.fromkeys(t for v in vectors for t in v.terms)),
        filters={
            "setting": [s for s in _settings(vectors) if any(t.setting == s for t in tiles)],
            "attribute": [a for a in ranked if any(a in t.attributes for t in tiles)],
        },
    )


# ------------------------------------------------------------------------------------------------------ scores of a run
class _Vectors:
    """The scores of a run by what they are of."""

    def __init__(self, run: Run) -> None:
        self.scores = as_judged(run.scores())
        self.terms = _terms(run, self.scores)
        self.found: dict[tuple[str, str, str, str, str, str], Score] = {}
        for s in self.scores:
            if s.metric in (VECTOR, P_VALUE) and "attribute" in s.group:
                self.found[(s.metric, *self.vector_of(s), self.facet(s, "attribute"))] = s

    def vector_of(self, score: Score) -> tuple[str, str, str, str]:
        """Which vector a score belongs to: protocol, estimator, setting and pair."""
        facet = self.facet
        return score.protocol, facet(score, "estimator"), facet(score, "setting"), facet(score, "pair")

    def facet(self, score: Score, name: str) -> str:
        """A facet of a score; the pair is that of the study's two terms where no other is named."""
        if name == "pair" and "pair" not in score.group:
            return BETWEEN.join((*self.terms, *ANY_TERMS[len(self.terms) :])[:2])
        return str(score.group.get(name, ""))

    def _every(self, name: str, metrics: Sequence[str]) -> list[str]:
        return list(dict.fromkeys(self.facet(s, name) for s in self.scores if s.metric in metrics))

    @property
    def estimators(self) -> list[str]:
        return [e for e in self._every("estimator", (VECTOR, FREQUENCY, SCORE)) if e]

    @property
    def settings(self) -> list[str]:
        return self._every("setting", (VECTOR, FREQUENCY))

    @property
    def pairs(self) -> list[str]:
        return self._every("pair", (VECTOR,))

    @property
    def attributes(self) -> list[str]:
        return self._every("attribute", (VECTOR, FREQUENCY))

    def difference(self, protocol: str, estimator: str, setting: str, pair: str, attribute: str) -> Score | None:
        return self.found.get((VECTOR, protocol, estimator, setting, pair, attribute))

    def p_value(self, protocol: str, estimator: str, setting: str, pair: str, attribute: str) -> float | None:
        """The corrected p-value; None if no test was made."""
        tested = self.found.get((P_VALUE, protocol, estimator, setting, pair, attribute))
        return None if tested is None else tested.value


def _terms(run: Run, scores: Sequence[Score]) -> list[str]:
    """The study's terms in order: differences are of the first minus the second."""
    named = [str(s.group["gender"]) for s in scores if s.metric == FREQUENCY and "gender" in s.group]
    asked = [str(p.facets["gender"]) for p in run.prompts() if p.facets.get("gender")]
    return list(dict.fromkeys([*named, *asked]))


def _union(lists: Sequence[Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(item for found in lists for item in found))


def _settings(vectors: Sequence[_Vectors]) -> list[str]:
    found = _union([v.settings for v in vectors])
    return [s for s in SETTINGS if s in found] + [s for s in found if s not in SETTINGS]


def _ranked(vectors: Sequence[_Vectors]) -> list[str]:
    """Attributes, those with the largest differences first: mean rank over runs, settings and estimators.

    Ranks and not differences, as scales of estimators differ; by the corrected protocol if it has any.
    """
    protocols = {s.protocol for v in vectors for s in v.found.values()}
    chosen = {"corrected"} & protocols or protocols
    by_vector: dict[tuple[int, tuple[str, str, str, str]], list[Score]] = {}
    for n, v in enumerate(vectors):
        for s in v.found.values():
            if s.metric == VECTOR and s.protocol in chosen and math.isfinite(s.value):
                by_vector.setdefault((n, v.vector_of(s)), []).append(s)
    ranks: dict[str, list[float]] = {}
    for of in by_vector.values():
        sizes = sorted((abs(s.value) for s in of), reverse=True)
        for s in of:
            ranks.setdefault(str(s.group["attribute"]), []).append(sizes.index(abs(s.value)) / len(sizes))
    attributes = _union([v.attributes for v in vectors])
    return sorted(attributes, key=lambda a: sum(ranks[a]) / len(ranks[a]) if a in ranks else math.inf)


# ------------------------------------------------------------------------------------------------------------- results
Scores = Sequence[Sequence[Score]]


def _cell(score: Score | None) -> dict[str, str]:
    if score is None:
        return {"value": UNDEFINED, "interval": "", "counts": "", "beside": ""}
    unusable = f" · {score.n_unusable:,} unusable" if score.n_unusable else ""
    counted = f"{score.n_used:,} used{unusable}" if measures.counts(score) else ""
    return {"value": measures.value(score), "interval": measures.interval(score), "counts": counted, "beside": ""}


def _title(metric: str) -> str:
    return TITLES.get(metric) or measure_title(metric)


def _is_result(score: Score) -> bool:
    """Whether a score is of whole sets of pictures, not of an attribute or context, nor of a judge."""
    told_elsewhere = (FREQUENCY, VECTOR, P_VALUE, *(name + end for name in SCORES for end in BESIDE))
    of_one = bool({"attribute", "context"} & set(score.group))
    return not of_one and score.metric not in told_elsewhere and not score.metric.startswith(JUDGE)


def _is_of_judge(score: Score) -> bool:
    """Whether a score says how an estimator agrees with people's labels over all attributes."""
    return score.metric.startswith(JUDGE) and "attribute" not in score.group


def _rows(scores: Scores, protocol: str, chosen: Callable[[Score], bool]) -> list[dict[str, Any]]:
    """Rows of a table: measure, estimator, setting, a cell per run; GEP scores first."""
    columns = [{measures.key_of(s): s for s in of if s.protocol == protocol} for of in scores]
    keys = [key for column in columns for key, s in column.items() if chosen(s)]
    rows: list[dict[str, Any]] = []
    for key in measures.by_measure(sorted(keys, key=lambda key: key[0] != SCORE)):
        found = [column.get(key) for column in columns]
        one = next(s for s in found if s is not None)
        others = [
            _pair_name(str(v)) if k == "pair" else str(v)
            for k, v in one.group.items()
            if k not in ("estimator", "setting")
        ]
        rows.append(
            {
                "metric": _title(one.metric),
                "better": {True: "higher", False: "lower", None: ""}[one.higher_is_better],
                "estimator": str(one.group.get("estimator", "")),
                "setting": ", ".join([str(one.group.get("setting", "")), *others]).strip(", "),
                "cells": [_cell(s) | {"beside": _beside(column, key)} for s, column in zip(found, columns)],
                "unit": "" if one.metric.startswith(JUDGE) else unit_name(one.unit),
            }
        )
    estimators = in_order([str(row["estimator"]) for row in rows])
    measured = list(dict.fromkeys(str(row["metric"]) for row in rows))
    rows.sort(key=lambda row: (measured.index(row["metric"]), estimators.index(row["estimator"])))
    return _begun(rows, "metric", "estimator")


def _beside(column: Mapping[measures.Key, Score], key: measures.Key) -> str:
    """What noise does to a score, in words."""
    found = {end: column.get((key[0] + end, key[1])) for end in BESIDE}
    return " · ".join(f"{BESIDE[end]}\u00a0{measures.value(s)}" for end, s in found.items() if s is not None)


def _begun(rows: Sequence[dict[str, Any]], *columns: str) -> list[dict[str, Any]]:
    """The rows, each with ``same``: how many of these columns, from the first, repeat the row above."""
    told = []
    above: list[Any] = []
    for row in rows:
        values = [row[name] for name in columns]
        same = next((k for k, pair in enumerate(zip(values, above)) if pair[0] != pair[1]), len(above))
        told.append({**row, "same": same})
        above = values
    return told


def _protocol_rows(scores: Scores) -> list[dict[str, Any]]:
    """Where there are several protocols: run, measure, estimator, setting, values and differences to the corrected."""
    rows = []
    for number, of in enumerate(scores):
        values: dict[measures.Key, dict[str, Score]] = {}
        for s in of:
            if _is_result(s):
                values.setdefault(measures.key_of(s), {})[s.protocol] = s
        for by in values.values():
            if len(by) > 1:
                one = next(iter(by.values()))
                rows.append(
                    {
                        "run": number,
                        "metric": _title(one.metric),
                        "group": measures.group_name(measures.key_of(one)),
                        "values": {p: _cell(by.get(p))["value"] for p in PROTOCOLS},
                        "delta": {p: _delta(by.get(p), by.get("corrected")) for p in ("released", "paper")},
                    }
                )
    return rows


def _delta(score: Score | None, corrected: Score | None) -> str:
    if score is None or corrected is None:
        return UNDEFINED
    if score.unit == "share":
        return difference(score.value, corrected.value)
    return signed(replace(score, value=score.value - corrected.value))


# ------------------------------------------------------------------------------------------------------------- figures
def _bars(vectors: Sequence[_Vectors], names: Sequence[str], estimators: Sequence[str]) -> list[Figure]:
    """A figure per estimator and pair of terms: settings side by side, a bar per attribute and run."""
    pairs = _union([v.pairs for v in vectors])
    figures = []
    for estimator in estimators:
        every = [
            s for v in vectors for (metric, _, of, *_), s in v.found.items() if (metric, of) == (VECTOR, estimator)
        ]
        axis = symlog_axis(every)  # one for all runs, settings and protocols, so that they can be compared
        for pair in pairs:
            versions: dict[str, Markup | None] = {}
            untested = set()
            for protocol in PROTOCOLS:
                sides, tested = _sides(vectors, names, (protocol, estimator, pair), axis)
                versions[protocol] = (
                    Markup('<div class="sides">{}</div>').format(Markup().join(sides)) if sides else None
                )
                if sides and not tested:
                    untested.add(protocol)
            if any(v is not None for v in versions.values()):
                figures.append(
                    Figure(title=_titled(estimator, pair, pairs), versions=versions, untested=frozenset(untested))
                )
    return figures


def _sides(
    vectors: Sequence[_Vectors], names: Sequence[str], of: tuple[str, str, str], axis: SymlogAxis
) -> tuple[list[Markup], bool]:
    """The bars of every setting that has any, and whether any difference was tested.

    Args:
        of: protocol, estimator, pair.
    """
    protocol, estimator, pair = of
    first, _, second = pair.partition(BETWEEN)
    attributes = _union([v.attributes for v in vectors])
    sides, tested = [], False
    for setting in _settings(vectors):
        bars: list[list[Bar | None]] = []
        for attribute in attributes:
            places = [(v, (protocol, estimator, setting, pair, attribute)) for v in vectors]
            found = [(v.difference(*place), v.p_value(*place)) for v, place in places]
            bars.append([None if score is None else Bar(score=score, p=p) for score, p in found])
        shown = [bar for row in bars for bar in row if bar is not None]
        tested = tested or any(bar.p is not None for bar in shown)
        if shown:
            sides.append(
                diverging_bars(
                    title=f"{setting} prompts",
                    rows=attributes,
                    runs=names,
                    bars=bars,
                    axis=axis,
                    first=first,
                    second=second,
                    label=f"Difference per attribute, {first} minus {second}, {setting} prompts, estimated by "
                    f"{estimator}, {protocol} protocol",
                )
            )
    return sides, tested


def _titled(estimator: str, pair: str, pairs: Sequence[str]) -> str:
    meaning = f": {ESTIMATORS[estimator]}" if estimator in ESTIMATORS else ""
    return f"{estimator}{meaning}" + (f", {_pair_name(pair)}" if len(pairs) > 1 else "")


def _pair_name(pair: str) -> str:
    return pair.replace(BETWEEN, " − ")


def _dots(vectors: Sequence[_Vectors], names: Sequence[str], *, by: str) -> list[Figure]:
    """Scores as dots, runs side by side: by setting, or of each setting by context."""
    places: dict[tuple[str, str, str, str], None] = {}
    for v in vectors:
        for s in v.scores:
            if s.metric in SCORES and by in s.group and ("context" in s.group) == (by == "context"):
                places.setdefault((s.metric, v.facet(s, "estimator"), *_place(v, s, by)))
    order = in_order([estimator for _, estimator, *_ in places])
    figures = []
    for metric, estimator, setting, pair in sorted(places, key=lambda place: order.index(place[1])):
        words = [estimator, f"{setting} prompts" if setting else "", _pair_name(pair), TITLES[metric].lower()]
        words = list(filter(None, words[:3] if metric == SCORE else words))
        versions: dict[str, Markup | None] = {}
        for protocol in PROTOCOLS:
            values, chance = (
                [
                    {
                        v.facet(s, by): _in_per_cent(s)
                        for s in v.scores
                        if s.metric == name
                        and s.protocol == protocol
                        and by in s.group
                        and ("context" in s.group) == (by == "context")
                        and v.facet(s, "estimator") == estimator
                        and _place(v, s, by) == (setting, pair)
                    }
                    for v in vectors
                ]
                for name in (metric, metric + BY_CHANCE)
            )
            levels = _union([list(column) for column in values])
            versions[protocol] = (
                score_dots(
                    levels=levels,
                    runs=names,
                    cells=[[column.get(level) for column in values] for level in levels],
                    chance=[[column.get(level) for column in chance] for level in levels],
                    label=f"{_title(metric)} by {by}, {', '.join(words)}, {protocol} protocol",
                )
                if levels
                else None
            )
        if any(v is not None for v in versions.values()):
            figures.append(Figure(title=", ".join(words), versions=versions, estimator=estimator))
    return figures


def _place(v: _Vectors, score: Score, by: str) -> tuple[str, str]:
    return "" if by == "setting" else v.facet(score, "setting"), str(score.group.get("pair", ""))


def _by_estimator(figures: Sequence[Figure]) -> list[tuple[str, list[Figure]]]:
    names = list(dict.fromkeys(f.estimator for f in figures))
    return [(name, [f for f in figures if f.estimator == name]) for name in names]


def _in_per_cent(score: Score) -> Score:
    """A share as a number of per cent: its axis then ends where the values do, and not at 100."""
    if score.unit != "share":
        return score
    return replace(score, value=100 * score.value, ci_low=100 * score.ci_low, ci_high=100 * score.ci_high, unit="%")


# --------------------------------------------------------------------------------------------------------- frequencies
def _frequencies(vectors: Sequence[_Vectors], estimator: str, protocol: str) -> dict[str, Any] | None:
    """A table of one estimator: per setting, attribute and run the frequency of every term, differences, p-values."""
    terms = _union([v.terms for v in vectors])
    pairs = _union([v.pairs for v in vectors])
    frequencies: list[dict[tuple[str, str, str], Score]] = [
        {
            (v.facet(s, "setting"), v.facet(s, "attribute"), v.facet(s, "gender")): s
            for s in v.scores
            if s.metric == FREQUENCY and s.protocol == protocol and v.facet(s, "estimator") == estimator
        }
        for v in vectors
    ]
    rows: list[dict[str, Any]] = []
    unit = ""
    for setting in _settings(vectors):
        for attribute in _union([v.attributes for v in vectors]):
            for number, v in enumerate(vectors):
                found = [frequencies[number].get((setting, attribute, term)) for term in terms]
                cells = list(_pair_cells(v, protocol, estimator, setting, attribute, pairs))
                if all(s is None for s in found) and all(d is None for d, *_ in cells):
                    continue
                unit = next((s.unit for s in found if s is not None), unit)
                rows.append(
                    {
                        "run": number,
                        "setting": setting,
                        "attribute": attribute,
                        "frequencies": [_cell(s) for s in found],
                        "pairs": [
                            {
                                "value": UNDEFINED if d is None else signed(d),
                                "interval": "" if d is None else measures.interval(d),
                                "p": "" if p is None else measures.number(p, "p"),
                                "found": p is not None and p < LEVEL,
                            }
                            for d, p in cells
                        ],
                    }
                )
    if not rows:
        return None
    return {
        "tested": any(cell["p"] for row in rows for cell in row["pairs"]),
        "rows": _begun(rows, "setting", "attribute"),
        "terms": terms,
        "pairs": [_pair_name(pair) for pair in pairs],
        "unit": "per cent, differences in percentage points" if unit == "share" else unit_name(unit),
    }


def _pair_cells(
    v: _Vectors, protocol: str, estimator: str, setting: str, attribute: str, pairs: Sequence[str]
) -> Iterator[tuple[Score | None, float | None]]:
    for pair in pairs:
        place = (protocol, estimator, setting, pair, attribute)
        yield v.difference(*place), v.p_value(*place)


# ----------------------------------------------------------------------------------------------------- how good a judge
def _has_judge(scores: Scores) -> bool:
    return any(s.metric.startswith(JUDGE) for of in scores for s in of)


def _areas(vectors: Sequence[_Vectors], names: Sequence[str]) -> list[Figure]:
    """What judges were measured by attribute by attribute: a map of attributes and estimators per measure and run."""
    places: dict[tuple[str, int], None] = {}
    for n, v in enumerate(vectors):
        for s in v.scores:
            if s.metric.startswith(JUDGE) and "attribute" in s.group:
                places.setdefault((s.metric, n))
    figures = []
    for metric, n in places:
        of = [s for s in vectors[n].scores if s.metric == metric and "attribute" in s.group]
        several = len({str(s.group.get("setting", "")) for s in of}) > 1
        versions: dict[str, Markup | None] = {}
        for protocol in PROTOCOLS:
            cells: dict[tuple[str, str], Score] = {}
            for s in of:
                if s.protocol == protocol:
                    column = [
                        str(s.group.get("estimator", "")),
                        *([str(s.group.get("setting", ""))] if several else []),
                    ]
                    cells[(str(s.group["attribute"]), ", ".join(filter(None, column)))] = s
            versions[protocol] = (
                plots.group_map(
                    rows=list(dict.fromkeys(row for row, _ in cells)),
                    columns=list(dict.fromkeys(column for _, column in cells)),
                    cells=cells,
                    scale=(0.5, 1.0) if metric == "judge_auc" else (0.0, 1.0),
                    label=f"{_title(metric)} per attribute, {names[n]}, {protocol} protocol",
                )
                if cells
                else None
            )
        name = {"judge_auc": "AUC"}.get(metric, _title(metric))
        figures.append(Figure(title=name + (f", {names[n]}" if len(names) > 1 else ""), versions=versions))
    return figures
