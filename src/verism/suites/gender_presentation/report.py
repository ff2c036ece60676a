"""The report of gender presentation differences: scores, vectors as bars, frequencies, contexts, pairs of images.

All numbers are of what judges perceive in images. Nothing here says who anybody is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from markupsafe import Markup

from verism.records import Score
from verism.report_kit.evidence import Evidence, union
from verism.report_kit.figures import FigureByProtocol, figure, part
from verism.report_kit.generic import ResultSettings, method_section, protocol_section, results_section
from verism.report_kit.maps import group_map
from verism.report_kit.plots import LEVEL, Bar, CentredAxis, centred_axis, diverging_bars, group_dots
from verism.report_kit.section import Section
from verism.report_kit.tables import cell_of, score_rows
from verism.report_kit.words import UNDEFINED, interval, minus, number, signed
from verism.suites.gender_presentation.pairs import ESTIMATORS, in_order, pair_gallery

__all__ = ["presentation_sections"]

FREQUENCY, VECTOR, P_VALUE, SCORE = "frequency", "gep", "gep_p_value", "gep_score"
SCORES = (SCORE, "gep_largest_gap")  # the second: of more than two terms, between those that differ most
BY_CHANCE = "_by_chance"
SIDE_TABLES = {BY_CHANCE: "by chance", "_debiased": "debiased", "_p_value": "p"}  # written below a score
JUDGE = "judge_"  # scores of how well an estimator agrees with annotators' labels begin so
SETTINGS = ("neutral", "explicit")
BETWEEN = " - "  # of the two terms of a pair
ANY_TERMS = ("first term", "second term")  # where neither scores nor prompts name them

EXPLAINED = {
    "human": "Majority of annotators' votes: does the image show a person with the attribute?",
    "CLS": "Classifiers trained on sentences and applied to images; mean of what they give, from 0 to 1: "
    "a probability (released) or a degree (revised).",
    "VQA": "A model's answers to a question about each attribute; share of “yes”.",
    "CC": "Cosine of an image and the attribute's name, minus that of an image and a reference text.",
    "C": "Cosine of an image and the attribute's name.",
}
NOTE = (
    "The GEP score is the mean size of the differences below; 0 if every attribute is perceived equally often{terms}. "
    "Sizes do not cancel: noise alone gives a score above 0, and more so with few images. So read it beside what it "
    "would be by chance, the images being alike; p: how often chance gives as much. An image counts once for each "
    "attribute it is judged for. Scales differ between judges: compare models within a row."
)


def presentation_sections(evidence: Evidence) -> Sequence[Section]:
    """The sections of the page."""
    vectors = [_Vectors(evidence, number) for number in range(len(evidence.runs))]
    ranked = _ranked(evidence, vectors)
    estimators = in_order(union(v.estimators for v in vectors))
    gallery = pair_gallery(evidence, ranked, [v.terms for v in vectors], _settings(vectors))
    estimate = (
        _results(evidence, vectors, estimators),
        _differences(evidence, vectors, estimators),
        _contexts(evidence, vectors),
        _judges(evidence, vectors),
        gallery,
        protocol_section(evidence, _is_result),
        method_section(
            evidence,
            part(
                evidence,
                "estimators.html.j2",
                package=__package__,
                estimators=[(e, ESTIMATORS.get(e, ""), EXPLAINED.get(e, "")) for e in estimators],
            ),
        ),
    )
    return [section for section in estimate if section is not None]


def _results(evidence: Evidence, vectors: Sequence[_Vectors], estimators: Sequence[str]) -> Section:
    terms = " and ".join(f"“{term}”" for term in union(v.terms for v in vectors))
    dots = _dots(evidence, vectors, by="setting") if len(evidence.runs) > 1 else {}
    figures = [one for members in dots.values() for one in members]
    return results_section(
        evidence,
        ResultSettings(
            chosen=_is_result,
            beside=SIDE_TABLES,
            order=lambda key: estimators.index(e) if (e := str(dict(key[1]).get("estimator"))) in estimators else -1,
            note=NOTE.format(terms=f" with {terms}" if terms else ""),
            more=part(evidence, "score_figures.html.j2", package=__package__, figures=figures),
        ),
    )


def _differences(evidence: Evidence, vectors: Sequence[_Vectors], estimators: Sequence[str]) -> Section | None:
    bars = _bars(evidence, vectors, estimators)
    if not bars:
        return None
    tables = [(e, {p: _frequencies(evidence, vectors, e, p) for p in evidence.protocols}) for e in estimators]
    body = part(evidence, "differences.html.j2", package=__package__, bars=bars, level=LEVEL, frequencies=tables)
    return Section(title="Differences, attribute by attribute", id="vectors", nav="Differences", body=body)


def _contexts(evidence: Evidence, vectors: Sequence[_Vectors]) -> Section | None:
    contexts = _dots(evidence, vectors, by="context")
    if not contexts:
        return None
    dashed = any(s.metric.endswith(BY_CHANCE) for members in evidence.scores for s in members)
    body = part(evidence, "contexts.html.j2", package=__package__, contexts=contexts, dashed=dashed)
    return Section(title="GEP score by context", id="contexts", nav="Contexts", body=body)


def _judges(evidence: Evidence, vectors: Sequence[_Vectors]) -> Section | None:
    """How estimators agree with annotators' labels; None where there are none."""
    if not any(s.metric.startswith(JUDGE) for members in evidence.scores for s in members):
        return None
    rows = {p: score_rows(evidence, p, _is_of_judge) for p in evidence.protocols}
    body = part(evidence, "judges.html.j2", package=__package__, rows=rows, areas=_areas(evidence, vectors))
    return Section(title="How good is this judge?", id="judge", nav="Judge errors", body=body)


# ------------------------------------------------------------------------------------------------------ scores of a run
class _Vectors:
    """The scores of a run by what they are of."""

    def __init__(self, evidence: Evidence, number: int) -> None:
        self.scores = evidence.scores[number]
        asked = [str(p.facets["gender"]) for p in evidence.runs[number].prompts() if p.facets.get("gender")]
        named = [str(s.group["gender"]) for s in self.scores if s.metric == FREQUENCY and "gender" in s.group]
        # The study's terms in order: differences are of the first minus the second.
        self.terms = list(dict.fromkeys([*named, *asked]))
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
        """The Holm-adjusted p-value; None if no test was made."""
        tested = self.found.get((P_VALUE, protocol, estimator, setting, pair, attribute))
        return None if tested is None else tested.value


def _settings(vectors: Sequence[_Vectors]) -> list[str]:
    result = union([v.settings for v in vectors])
    return [s for s in SETTINGS if s in result] + [s for s in result if s not in SETTINGS]


def _ranked(evidence: Evidence, vectors: Sequence[_Vectors]) -> list[str]:
    """Attributes, those with the largest differences first: mean rank over runs, settings and estimators.

    Ranks and not differences, as scales of estimators differ; by the first protocol if it has any.
    """
    protocols = {s.protocol for v in vectors for s in v.found.values()}
    chosen = {evidence.main} & protocols or protocols
    by_vector: dict[tuple[int, tuple[str, str, str, str]], list[Score]] = {}
    for n, v in enumerate(vectors):
        for s in v.found.values():
            if s.metric == VECTOR and s.protocol in chosen and math.isfinite(s.value):
                by_vector.setdefault((n, v.vector_of(s)), []).append(s)
    ranks: dict[str, list[float]] = {}
    for members in by_vector.values():
        sizes = sorted((abs(s.value) for s in members), reverse=True)
        for s in members:
            ranks.setdefault(str(s.group["attribute"]), []).append(sizes.index(abs(s.value)) / len(sizes))
    attributes = union([v.attributes for v in vectors])
    return sorted(attributes, key=lambda a: sum(ranks[a]) / len(ranks[a]) if a in ranks else math.inf)


# ------------------------------------------------------------------------------------------------------------- results
def _is_result(score: Score) -> bool:
    """Whether a score is of whole sets of images, not of an attribute or context, nor of a judge."""
    told_elsewhere = (FREQUENCY, VECTOR, P_VALUE, *(name + end for name in SCORES for end in SIDE_TABLES))
    of_one = bool({"attribute", "context"} & set(score.group))
    return not of_one and score.metric not in told_elsewhere and not score.metric.startswith(JUDGE)


def _is_of_judge(score: Score) -> bool:
    """Whether a score says how an estimator agrees with people's labels over all attributes."""
    return score.metric.startswith(JUDGE) and "attribute" not in score.group


def _begun(rows: Sequence[dict[str, Any]], *columns: str) -> list[dict[str, Any]]:
    """The rows, each with ``same``: how many of these columns, from the first, repeat the row above."""
    collected = []
    above: list[Any] = []
    for row in rows:
        values = [row[name] for name in columns]
        same = next((k for k, pair in enumerate(zip(values, above)) if pair[0] != pair[1]), len(above))
        collected.append({**row, "same": same})
        above = values
    return collected


# ------------------------------------------------------------------------------------------------------------- figures
def _bars(evidence: Evidence, vectors: Sequence[_Vectors], estimators: Sequence[str]) -> list[FigureByProtocol]:
    """A figure per estimator and pair of terms: settings side by side, a bar per attribute and run."""
    pairs = union(v.pairs for v in vectors)
    figures = []
    for estimator in estimators:
        every = [
            s
            for v in vectors
            for (metric, _, members, *_), s in v.found.items()
            if (metric, members) == (VECTOR, estimator)
        ]
        unit = evidence.vocabulary.unit(every[0].unit) if every else ""
        axis = centred_axis(every, unit)  # one for all runs, settings and protocols, so that they can be compared
        for pair in pairs:
            versions: dict[str, Markup | None] = {}
            notes = {}
            for protocol in evidence.protocols:
                sides, tested = _sides(evidence, vectors, (protocol, estimator, pair), axis)
                versions[protocol] = (
                    Markup('<div class="sides">{}</div>').format(Markup().join(sides)) if sides else None
                )
                if sides and not tested:
                    notes[protocol] = "Not tested: no bar is drawn faint."
            if any(v is not None for v in versions.values()):
                title = _titled(estimator, pair, pairs)
                figures.append(FigureByProtocol(title=title, versions=versions, notes=notes))
    return figures


def _sides(
    evidence: Evidence, vectors: Sequence[_Vectors], of: tuple[str, str, str], axis: CentredAxis
) -> tuple[list[Markup], bool]:
    """The bars of every setting that has any, and whether any difference was tested.

    Args:
        evidence: what the report is made of.
        vectors: scores of each run.
        of: protocol, estimator, pair.
        axis: common to all.
    """
    protocol, estimator, pair = of
    first, _, second = pair.partition(BETWEEN)
    attributes = union(v.attributes for v in vectors)
    sides, tested = [], False
    for setting in _settings(vectors):
        bars: list[list[Bar | None]] = []
        for attribute in attributes:
            position = (protocol, estimator, setting, pair, attribute)
            estimate = [(v.difference(*position), v.p_value(*position)) for v in vectors]
            bars.append([None if score is None else Bar(score=score, p=p) for score, p in estimate])
        shown = [bar for row in bars for bar in row if bar is not None]
        tested = tested or any(bar.p is not None for bar in shown)
        if shown:
            sides.append(
                diverging_bars(
                    title=f"{setting} prompts",
                    rows=attributes,
                    runs=evidence.names,
                    bars=bars,
                    axis=axis,
                    terms=(first, second),
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


def _dots(evidence: Evidence, vectors: Sequence[_Vectors], *, by: str) -> dict[str, list[FigureByProtocol]]:
    """Scores as dots, by estimator, runs side by side: by setting, or of each setting by context."""
    places: dict[tuple[str, str, str, str], None] = {}
    for v in vectors:
        for s in v.scores:
            if s.metric in SCORES and by in s.group and ("context" in s.group) == (by == "context"):
                places.setdefault((s.metric, v.facet(s, "estimator"), *_place(v, s, by)), None)
    order = in_order([estimator for _, estimator, *_ in places])
    figures: dict[str, list[FigureByProtocol]] = {}
    for index in sorted(places, key=lambda place: order.index(place[1])):
        metric, estimator, setting, pair = index
        title = evidence.vocabulary.title(metric)
        words = [estimator, f"{setting} prompts" if setting else "", _pair_name(pair), title.lower()]
        words = list(filter(None, words[:3] if metric == SCORE else words))

        def draw(
            protocol: str,
            place: tuple[str, str, str, str] = index,
            label: str = f"{title} by {by}, {', '.join(words)}",
        ) -> Markup | None:
            values, chance = (
                [_levels(v, name, protocol, place[1:], by) for v in vectors]
                for name in (place[0], place[0] + BY_CHANCE)
            )
            levels = union(values)
            if not levels:
                return None
            unit = next(s.unit for column in values for s in column.values())
            return group_dots(
                levels=levels,
                rows=evidence.names,
                cells=[[column.get(level) for column in values] for level in levels],
                baselines=[[column.get(level) for column in chance] for level in levels],
                unit=evidence.vocabulary.unit(unit),
                label=f"{label}, {protocol} protocol",
            )

        figures.setdefault(estimator, []).extend(figure(", ".join(words), evidence.protocols, draw))
    return figures


def _levels(v: _Vectors, metric: str, protocol: str, of: tuple[str, str, str], by: str) -> dict[str, Score]:
    """Scores of an estimator, setting and pair by level."""
    return {
        v.facet(s, by): _in_per_cent(s)
        for s in v.scores
        if (s.metric, s.protocol) == (metric, protocol)
        and by in s.group
        and ("context" in s.group) == (by == "context")
        and (v.facet(s, "estimator"), *_place(v, s, by)) == of
    }


def _place(v: _Vectors, score: Score, by: str) -> tuple[str, str]:
    return "" if by == "setting" else v.facet(score, "setting"), str(score.group.get("pair", ""))


def _in_per_cent(score: Score) -> Score:
    """A share as a number of per cent: its axis then ends where the values do, and not at 100."""
    if score.unit != "share":
        return score
    return replace(score, value=100 * score.value, ci_low=100 * score.ci_low, ci_high=100 * score.ci_high, unit="%")


# --------------------------------------------------------------------------------------------------------- frequencies
def _frequencies(
    evidence: Evidence, vectors: Sequence[_Vectors], estimator: str, protocol: str
) -> dict[str, Any] | None:
    """A table of one estimator: per setting, attribute and run the frequency of every term, differences, p-values."""
    terms = union([v.terms for v in vectors])
    pairs = union([v.pairs for v in vectors])
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
        for attribute in union([v.attributes for v in vectors]):
            for run, v in enumerate(vectors):
                results = [frequencies[run].get((setting, attribute, term)) for term in terms]
                cells = list(_pair_cells(v, protocol, estimator, setting, attribute, pairs))
                if all(s is None for s in results) and all(d is None for d, *_ in cells):
                    continue
                unit = next((s.unit for s in results if s is not None), unit)
                rows.append(
                    {
                        "run": run,
                        "setting": setting,
                        "attribute": attribute,
                        "frequencies": [cell_of(evidence, run, s) for s in results],
                        "pairs": [
                            {
                                "value": UNDEFINED if d is None else signed(d.value, d.unit),
                                "interval": "" if d is None else minus(interval(d)),
                                "p": "" if p is None else number(p, "p"),
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
        "unit": "per cent, differences in percentage points" if unit == "share" else evidence.vocabulary.unit(unit),
    }


def _pair_cells(
    v: _Vectors, protocol: str, estimator: str, setting: str, attribute: str, pairs: Sequence[str]
) -> Iterator[tuple[Score | None, float | None]]:
    for pair in pairs:
        position = (protocol, estimator, setting, pair, attribute)
        yield v.difference(*position), v.p_value(*position)


# ----------------------------------------------------------------------------------------------------- how good a judge
def _areas(evidence: Evidence, vectors: Sequence[_Vectors]) -> list[FigureByProtocol]:
    """What judges were measured by attribute by attribute: a map of attributes and estimators per metric and run."""
    places = {
        (s.metric, n): None
        for n, v in enumerate(vectors)
        for s in v.scores
        if s.metric.startswith(JUDGE) and "attribute" in s.group
    }
    figures = []
    for metric, n in places:
        owner = [s for s in vectors[n].scores if s.metric == metric and "attribute" in s.group]
        facets = ("estimator", "setting") if len({s.group.get("setting") for s in owner}) > 1 else ("estimator",)
        title = evidence.vocabulary.title(metric)

        def draw(
            protocol: str, of: Sequence[Score] = owner, facets: Sequence[str] = facets, title: str = title, n: int = n
        ) -> Markup | None:
            cells = {
                (str(s.group["attribute"]), ", ".join(str(s.group[f]) for f in facets if s.group.get(f))): s
                for s in of
                if s.protocol == protocol
            }
            return group_map(
                rows=union([row] for row, _ in cells),
                columns=union([column] for _, column in cells),
                cells=cells,
                scale=(0.5, 1.0) if of[0].metric == "judge_auc" else (0.0, 1.0),
                unit=evidence.vocabulary.unit(of[0].unit),
                label=f"{title} per attribute, {evidence.names[n]}, {protocol} protocol",
            ) if cells else None  # fmt: skip

        figures += figure(title + (f", {evidence.names[n]}" if len(vectors) > 1 else ""), evidence.protocols, draw)
    return figures
