"""The report of suites made of measures: every measure by group, maps of objects and regions, the pictures behind."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from verism.cards import JudgeCard
from verism.errors import UsageError
from verism.records import PROTOCOLS, Score
from verism.reports import measures, page, plots
from verism.reports.adjustments import as_judged
from verism.reports.evidence import OUTCOME_NAMES, collect_evidence
from verism.reports.gallery import OUTCOMES
from verism.reports.measure_names import explained, title, unit_name
from verism.reports.tables import UNDEFINED, difference, run_names
from verism.reports.trade_offs import differing_setting, trade_offs
from verism.store import Run

__all__ = ["render_measures"]

LEADS = {
    "geography": "Are the pictures as real, as diverse and as true to their object for every region of the world?",
    "quality": "Do the pictures look like real ones, and do they vary as much?",
    "alignment": "Do the pictures show what their texts say?",
}
MEANINGS: Mapping[str, Mapping[str, str]] = {
    "geography": {
        "corrected": "Both sides cut to equal sizes by the same rule, one copy of duplicates kept. Use it to compare "
        "models.",
        "released": "What the authors' published scripts do: the real pictures as they are loaded, generated ones "
        "drawn with seed 42, all copies of duplicates dropped.",
        "paper": "What the text says: both sides with the same number per object and region, duplicates kept.",
    },
    "quality": {
        "corrected": "All usable pictures. Use it to compare models.",
        "released": "What DALL-Eval's published code does: the last incomplete batch is left out.",
        "paper": "What the text of the publication says.",
    },
    "alignment": {
        "corrected": "Cosine similarities, negatives without the positive, ties counted fairly, unusable answers left "
        "out. Use it to compare models.",
        "released": "What DALL-Eval's published code does: raw dot products, negatives drawn with replacement.",
        "paper": "What the text of the publication says.",
    },
}
LIMITS: Mapping[str, Sequence[str]] = {
    "geography": (
        "Precision and coverage say how alike two sets of pictures are to one network. They depend on it, on its "
        "weights and on how pictures were cut and resized: numbers made with other features are not comparable.",
        "They depend on the sizes of both sets. The dashed stroke is what pictures of the very same distribution would "
        "get at these sizes; read coverage against it and not against 100 %.",
        "The real pictures are not the region: they are what was photographed for one collection.",
        "The similarity of a picture and a word inherits what its model learnt of both, its own biases included.",
    ),
    "quality": (
        "FID, KID, precision and the rest depend on the network, its weights and on how pictures were cut and resized: "
        "numbers made with other features are not comparable.",
        "FID is biased upwards for few pictures; compare runs of equal size, or its extrapolation.",
        "None of these looks at a single picture as a person would.",
    ),
    "alignment": (
        "The judge's own mistakes are part of every number and of no interval.",
        "Caption metrics measure the captioner as well as the picture, and words as well as meaning.",
        "Similarities of different models, or on different scales, are not comparable.",
    ),
}
MAPS = ("precision", "coverage", "consistency")
EXPECTED = ("expected_coverage", "expected_coverage")  # what equal distributions would get
NO_FIGURE = (*EXPECTED, "generated_per_real", "duplicates_left_out")
MANY_REMARKS = 5


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure in its version for every protocol; None where a protocol has no such numbers."""

    title: str
    versions: Mapping[str, Markup | None]


def render_measures(runs: Sequence[Run], *, gallery: int, embed_pixels: int, cards: Sequence[JudgeCard] = ()) -> str:
    """The page of one run, or of several side by side (see ``html.write_report``).

    Raises:
        UsageError: runs of different suites.
    """
    kinds = {_kind(run) for run in runs}
    if len(kinds) > 1:
        raise UsageError(f"runs of {' and '.join(sorted(kinds))} have no page in common; report them one by one")
    kind = kinds.pop()
    names = run_names(runs)
    scores = [as_judged(run.scores()) for run in runs]
    tiles = collect_evidence(runs, gallery=gallery, embed_pixels=embed_pixels)
    setting = differing_setting(runs)
    remarks = [(i, line) for i, run in enumerate(runs) for line in run.manifest.get("notes", {}).get("remarks", ())]
    summaries = {p: _table(scores, p, summary=True) for p in PROTOCOLS}
    by_group = {p: _table(scores, p, summary=False) for p in PROTOCOLS}
    return page.render(
        "measures.html.j2",
        [page.introduce(name, run) for name, run in zip(names, runs)],
        cards=cards,
        lead=LEADS.get(kind, "What was measured of these pictures."),
        meanings=MEANINGS.get(kind, MEANINGS["quality"]),
        limits=LIMITS.get(kind, ()),
        remarks=remarks[:MANY_REMARKS],
        more_remarks=remarks[MANY_REMARKS:],
        tables=summaries,
        tables_by_group=by_group,
        glossary=explained(s.metric for of in scores for s in of),
        names=names,
        trade_offs=trade_offs(scores, kind=kind, names=names, labels=setting[1] if setting else names),
        setting=setting[0] if setting else "",
        labels=setting[1] if setting else names,
        groups=_groups(scores, names),
        dashed=any(s.metric in EXPECTED for of in scores for s in of),
        p_values=any(s.unit == "p" for of in scores for s in of),
        scatters=_scatters(scores, names),
        maps=_maps(scores, names),
        protocol_rows=_protocol_rows(scores),
        tiles=tiles,
        several_families=len({t.form for t in tiles}) > 1,
        outcomes=[(outcome, OUTCOME_NAMES[outcome]) for outcome in OUTCOMES],
        outcome_names=OUTCOME_NAMES,
        filters={
            "group": sorted({t.group for t in tiles if t.group}),
            "object": sorted({name for t in tiles for name in t.objects}),
        },
    )


def _kind(run: Run) -> str:
    return str(run.manifest["settings"]["suite"]).partition("-")[0]


Scores = Sequence[Sequence[Score]]


# ------------------------------------------------------------------------------------------------------------- tables
def _table(scores: Scores, protocol: str, *, summary: bool) -> list[dict[str, Any]]:
    """Rows of a table: metric, group, a score (or none) per run.

    Args:
        summary: those of all pictures; otherwise those of one group among several. Single objects are in neither.
    """
    columns = [
        {
            measures.key_of(s): s
            for s in of
            if s.protocol == protocol and not measures.is_detail(s) and measures.is_summary(s) == summary
        }
        for of in scores
    ]
    rows = []
    for key in measures.by_measure(key for column in columns for key in column):
        found = [column.get(key) for column in columns]
        one = next(s for s in found if s is not None)
        rows.append(
            {
                "metric": title(one.metric),
                "better": {True: "higher", False: "lower", None: ""}[one.higher_is_better],
                "group": measures.group_name(key),
                "unit": unit_name(one.unit),
                "cells": [_cell(s) for s in found],
            }
        )
    return rows


def _cell(score: Score | None) -> dict[str, str]:
    if score is None:
        return {"value": UNDEFINED, "interval": "", "counts": ""}
    used = ""
    if measures.counts(score):
        unusable = f" · {score.n_unusable:,} unusable" if score.n_unusable else ""
        used = f"{score.n_used:,} used{unusable}"
    return {
        "value": measures.value(score),
        "interval": measures.interval(score),
        "counts": " · ".join(filter(None, (measures.of_group(score), used))),
    }


def _protocol_rows(scores: Scores) -> list[dict[str, Any]]:
    """Where the protocols differ: run, measure and group, the three values, and differences to the corrected one.

    Of all pictures where there are such numbers, else of every group.
    """
    rows = []
    summaries = any(measures.is_summary(s) and not measures.is_detail(s) for of in scores for s in of)
    for number, of in enumerate(scores):
        values: dict[measures.Key, dict[str, Score]] = {}
        for s in of:
            if not measures.is_detail(s) and measures.is_summary(s) == summaries:
                values.setdefault(measures.key_of(s), {})[s.protocol] = s
        for key, by in values.items():
            if len(by) < 2:
                continue
            rows.append(
                {
                    "run": number,
                    "metric": title(key[0]),
                    "group": measures.group_name(key),
                    "values": {p: _cell(by.get(p))["value"] for p in PROTOCOLS},
                    "delta": {p: _delta(by.get(p), by.get("corrected")) for p in ("released", "paper")},
                }
            )
    return rows


def _delta(score: Score | None, corrected: Score | None) -> str:
    """The difference with its sign; none between worst groups that are not the same."""
    if score is None or corrected is None or measures.of_group(score) != measures.of_group(corrected):
        return UNDEFINED
    if score.unit == "share":
        return difference(score.value, corrected.value)
    change = score.value - corrected.value
    size = f"{abs(change):.3f}" if score.unit == "p" else measures.number(abs(change), score.unit)
    if math.isnan(change) or not size.strip("0."):
        return size
    return f"{'+' if change > 0 else '−'}{size}"


# ------------------------------------------------------------------------------------------------------------ figures
def _groups(scores: Scores, names: Sequence[str]) -> list[Figure]:
    """For every measure that is broken down by one facet: its values by group, with what chance would give."""
    facets: dict[tuple[str, str, str], None] = {}  # measure, the facet it is broken down by, family of prompts
    for of in scores:
        for s in of:
            facet = measures.level_facet(s)
            if facet is not None and s.metric not in NO_FIGURE:
                facets.setdefault((s.metric, facet, str(s.group.get("family", ""))), None)
    figures = []
    for metric, facet, family in facets:
        versions: dict[str, Markup | None] = {
            p: _group_figure(scores, names, metric, facet, family, p) for p in PROTOCOLS
        }
        if any(v is not None for v in versions.values()):
            form = f", {measures.prompt_form(family)}" if family else ""
            figures.append(Figure(title=f"{title(metric)} by {facet.replace('_', ' ')}{form}", versions=versions))
    return figures


def _group_figure(
    scores: Scores, names: Sequence[str], metric: str, facet: str, family: str, protocol: str
) -> Markup | None:
    def of(found: Sequence[Score], *wanted: str) -> dict[str, Score]:
        return {
            str(s.group[facet]): s
            for s in found
            if s.metric in wanted
            and s.protocol == protocol
            and measures.level_facet(s) == facet
            and str(s.group.get("family", "")) == family
        }

    columns = [of(found, metric) for found in scores]
    levels = list(dict.fromkeys(level for column in columns for level in column))
    if len(levels) < 2:
        return None
    known = [of(found, f"expected_{metric}", f"{metric}_expected") for found in scores]
    return plots.group_dots(
        levels=levels,
        rows=names,
        cells=[[column.get(level) for column in columns] for level in levels],
        reference=[_same([k[level].value for k in known if level in k]) for level in levels],
        label=f"{title(metric)} by {facet}, {measures.prompt_form(family) if family else 'all'}, protocol {protocol}",
    )


def _same(values: Sequence[float]) -> float | None:
    """The value if it is one: runs of different sizes have no stroke in common."""
    return values[0] if values and all(math.isclose(v, values[0], abs_tol=5e-4) for v in values) else None


def _cells_by_object(found: Sequence[Score], metric: str, family: str, protocol: str) -> dict[tuple[str, str], Score]:
    """Scores of single objects in single regions."""
    return {
        (str(s.group["object"]), str(s.group["region"])): s
        for s in found
        if s.metric == metric
        and s.protocol == protocol
        and set(s.group) - {"family"} == {"object", "region"}
        and str(s.group.get("family", "")) == family
    }


def _families(scores: Scores) -> list[str]:
    """Families of prompts that have numbers of single objects in single regions."""
    return list(
        dict.fromkeys(
            str(s.group.get("family", ""))
            for of in scores
            for s in of
            if {"object", "region"} <= set(s.group) and s.metric in MAPS
        )
    )


def _maps(scores: Scores, names: Sequence[str]) -> list[Figure]:
    """Objects by regions, for each family, measure and run: runs side by side, in the same shades."""
    figures = []
    for family in _families(scores):
        for metric in MAPS:
            every = [_cells_by_object(of, metric, family, p) for of in scores for p in PROTOCOLS]
            scale = _scale([s for cells in every for s in cells.values()])
            for found, name in zip(scores, names):
                versions: dict[str, Markup | None] = {}
                for protocol in PROTOCOLS:
                    cells = _cells_by_object(found, metric, family, protocol)
                    versions[protocol] = (
                        plots.group_map(
                            rows=list(dict.fromkeys(row for row, _ in cells)),
                            columns=list(dict.fromkeys(column for _, column in cells)),
                            cells=cells,
                            scale=scale,
                            label=f"{metric} of every object in every region, {name}, prompts by {family}, {protocol}",
                        )
                        if cells
                        else None
                    )
                if any(v is not None for v in versions.values()):
                    figures.append(Figure(title=_titled(title(metric), family, name, names), versions=versions))
    return figures


def _scale(found: Sequence[Score]) -> tuple[float, float]:
    """The palest and the darkest value of maps: shares from 0 to 1, others (cosines) over the range of these pages."""
    values = [s.value for s in found if math.isfinite(s.value)]
    if not values or all(s.unit == "share" for s in found):
        return 0.0, 1.0
    return min(values), max(values)


def _titled(what: str, family: str, name: str, names: Sequence[str]) -> str:
    """What a figure shows, of which prompts and, among several, of which run."""
    form = measures.prompt_form(family) if family else ""
    return ", ".join(filter(None, (what, form, name if len(names) > 1 else ""))) or "all"


def _scatters(scores: Scores, names: Sequence[str]) -> list[Figure]:
    """Precision against coverage, a mark for each object and region."""
    figures = []
    for family in _families(scores):
        for found, name in zip(scores, names):
            versions: dict[str, Markup | None] = {}
            for protocol in PROTOCOLS:
                precision = _cells_by_object(found, "precision", family, protocol)
                coverage = _cells_by_object(found, "coverage", family, protocol)
                regions = list(dict.fromkeys(region for _, region in precision))
                points = [
                    plots.Point(
                        x=score.value,
                        y=coverage[key].value,
                        kind=regions.index(key[1]),
                        told=f"{key[0]}, {key[1]}: precision {measures.cell(score)}, "
                        f"coverage {measures.cell(coverage[key])}",
                    )
                    for key, score in precision.items()
                    if key in coverage
                ]
                versions[protocol] = (
                    plots.scatter(
                        points=points,
                        kinds=regions,
                        x_name="precision, % (realism)",
                        y_name="coverage, % (diversity)",
                        label=f"Precision and coverage of every object and region, {name}, {family}, {protocol}; "
                        "numbers: maps below",
                    )
                    if points
                    else None
                )
            if any(v is not None for v in versions.values()):
                figures.append(Figure(title=_titled("", family, name, names), versions=versions))
    return figures
