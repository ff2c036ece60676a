"""The report of suites made of measures: every measure by group, maps of objects and regions, the pictures behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from verism.errors import UsageError
from verism.records import PROTOCOLS, Score
from verism.reports import measures, page, plots
from verism.reports.evidence import OUTCOME_NAMES, collect_evidence
from verism.reports.gallery import OUTCOMES
from verism.reports.tables import UNDEFINED, difference, run_names
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
BASIC = ("precision", "recall", "density", "coverage")
MAPS = ("precision", "coverage", "consistency")


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure in its version for every protocol; None where a protocol has no such numbers."""

    title: str
    versions: Mapping[str, Markup | None]


def render_measures(runs: Sequence[Run], *, gallery: int, embed_pixels: int) -> str:
    """The page of one run, or of several side by side (see ``html.write_report``).

    Raises:
        UsageError: runs of different suites.
    """
    kinds = {_kind(run) for run in runs}
    if len(kinds) > 1:
        raise UsageError(f"runs of {' and '.join(sorted(kinds))} have no page in common; report them one by one")
    kind = kinds.pop()
    names = run_names(runs)
    scores = [run.scores() for run in runs]
    tiles = collect_evidence(runs, gallery=gallery, embed_pixels=embed_pixels)
    return page.render(
        "measures.html.j2",
        [page.introduce(name, run) for name, run in zip(names, runs)],
        lead=LEADS.get(kind, "What was measured of these pictures."),
        meanings=MEANINGS.get(kind, MEANINGS["quality"]),
        limits=LIMITS.get(kind, ()),
        remarks=[(i, line) for i, run in enumerate(runs) for line in run.manifest.get("notes", {}).get("remarks", ())],
        tables={p: _table(scores, p) for p in PROTOCOLS},
        names=names,
        groups=_groups(scores, names),
        scatters=_scatters(scores, names),
        maps=_maps(scores, names),
        protocol_rows=_protocol_rows(scores),
        tiles=tiles,
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


def _title(metric: str) -> str:
    return metric.replace("_", " ")


# ------------------------------------------------------------------------------------------------------------- tables
def _table(scores: Scores, protocol: str) -> list[dict[str, Any]]:
    """Rows of the first table: metric, group, a score (or none) per run."""
    columns = [
        {measures.key_of(s): s for s in of if s.protocol == protocol and not set(s.group) & set(measures.DETAIL)}
        for of in scores
    ]
    rows = []
    for key in measures.by_measure(key for column in columns for key in column):
        found = [column.get(key) for column in columns]
        one = next(s for s in found if s is not None)
        rows.append(
            {
                "metric": _title(one.metric),
                "group": measures.group_name(one),
                "unit": "%" if one.unit == "share" else one.unit,
                "cells": [_cell(s) for s in found],
            }
        )
    return rows


def _cell(score: Score | None) -> dict[str, str]:
    if score is None:
        return {"value": UNDEFINED, "interval": "", "counts": ""}
    low, high = measures.number(score.ci_low, score.unit), measures.number(score.ci_high, score.unit)
    unusable = f" · {score.n_unusable:,} unusable" if score.n_unusable else ""
    return {
        "value": measures.number(score.value, score.unit),
        "interval": "" if UNDEFINED in (low, high) else f"[{low}, {high}]",
        "counts": f"{score.n_used:,} used{unusable}",
    }


def _protocol_rows(scores: Scores) -> list[dict[str, Any]]:
    """Where the protocols differ: run, measure and group, the three values, and differences to the corrected one."""
    rows = []
    for number, of in enumerate(scores):
        values: dict[measures.Key, dict[str, Score]] = {}
        for s in of:
            if not set(s.group) & set(measures.DETAIL):
                values.setdefault(measures.key_of(s), {})[s.protocol] = s
        for by in values.values():
            if len(by) < 2:
                continue
            one = next(iter(by.values()))
            rows.append(
                {
                    "run": number,
                    "metric": _title(one.metric),
                    "group": measures.group_name(one),
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
    change = measures.number(score.value - corrected.value, score.unit)
    return change if change.startswith(("-", UNDEFINED)) or change == "0" else f"+{change}"


# ------------------------------------------------------------------------------------------------------------ figures
def _groups(scores: Scores, names: Sequence[str]) -> list[Figure]:
    """For every measure that is broken down by one facet: its values by group, with what chance would give."""
    facets: dict[tuple[str, str, str], None] = {}  # measure, the facet it is broken down by, what else it is of
    for of in scores:
        for s in of:
            facet = _level_facet(s)
            if facet is not None and not s.metric.startswith("expected_") and not s.metric.endswith(SUMMARIES):
                rest = _rest(s, facet)
                facets.setdefault((s.metric, facet, rest), None)
    figures = []
    for metric, facet, rest in facets:
        versions: dict[str, Markup | None] = {
            p: _group_figure(scores, names, metric, facet, rest, p) for p in PROTOCOLS
        }
        if any(v is not None for v in versions.values()):
            figures.append(Figure(title=f"{_title(metric)} by {facet}{f', {rest}' if rest else ''}", versions=versions))
    return figures


SUMMARIES = ("_worst", "_best", "left_out", "per_real")


def _rest(score: Score, facet: str) -> str:
    """The group without one of its facets, in words."""
    return ", ".join(
        measures.prompt_form(str(v)) if k == "family" else str(v) for k, v in score.group.items() if k != facet
    )


def _level_facet(score: Score) -> str | None:
    """The facet whose values are compared: the last one of a group, if it is not an object."""
    if not score.group or set(score.group) & set(measures.DETAIL):
        return None
    last = list(score.group)[-1]
    return None if last in ("family", "side") else last


def _group_figure(
    scores: Scores, names: Sequence[str], metric: str, facet: str, rest: str, protocol: str
) -> Markup | None:
    def of(found: Sequence[Score], name: str) -> dict[str, Score]:
        return {
            str(s.group[facet]): s
            for s in found
            if s.metric == name and s.protocol == protocol and _level_facet(s) == facet and _rest(s, facet) == rest
        }

    columns = [of(found, metric) for found in scores]
    levels = list(dict.fromkeys(level for column in columns for level in column))
    if len(levels) < 2:
        return None
    known = [of(found, f"expected_{metric}") for found in scores]
    reference = [next((k[level].value for k in known if level in k), None) for level in levels]
    return plots.group_dots(
        levels=levels,
        rows=names,
        cells=[[column.get(level) for column in columns] for level in levels],
        reference=reference,
        label=f"{_title(metric)} by {facet} {rest}, protocol {protocol}; numbers: table above",
    )


def _cells_by_object(found: Sequence[Score], metric: str, family: str, protocol: str) -> dict[tuple[str, str], Score]:
    """Scores of single objects in single regions."""
    return {
        (str(s.group["object"]), str(s.group["region"])): s
        for s in found
        if s.metric == metric
        and s.protocol == protocol
        and {"object", "region"} <= set(s.group)
        and s.group.get("family") == family
    }


def _families(found: Sequence[Score]) -> list[str]:
    return list(dict.fromkeys(str(s.group["family"]) for s in found if {"object", "region"} <= set(s.group)))


def _maps(scores: Scores, names: Sequence[str]) -> list[Figure]:
    """Objects by regions, for each run, family and measure."""
    figures = []
    for found, name in zip(scores, names):
        for family in _families(found):
            for metric in MAPS:
                versions: dict[str, Markup | None] = {}
                for protocol in PROTOCOLS:
                    cells = _cells_by_object(found, metric, family, protocol)
                    versions[protocol] = (
                        plots.group_map(
                            rows=list(dict.fromkeys(row for row, _ in cells)),
                            columns=list(dict.fromkeys(column for _, column in cells)),
                            cells=cells,
                            label=f"{metric} of every object in every region, {name}, prompts by {family}, {protocol}",
                        )
                        if cells
                        else None
                    )
                if any(v is not None for v in versions.values()):
                    where = f", {name}" if len(names) > 1 else ""
                    figures.append(Figure(title=f"{metric}, {measures.prompt_form(family)}{where}", versions=versions))
    return figures


def _scatters(scores: Scores, names: Sequence[str]) -> list[Figure]:
    """Precision against coverage, a mark for each object and region."""
    figures = []
    for found, name in zip(scores, names):
        for family in _families(found):
            versions: dict[str, Markup | None] = {}
            for protocol in PROTOCOLS:
                precision = _cells_by_object(found, "precision", family, protocol)
                coverage = _cells_by_object(found, "coverage", family, protocol)
                regions = list(dict.fromkeys(region for _, region in precision))
                points = [
                    plots.Point(
                        x=score.value,
                        y=coverage[key].value,
                        name=key[0],
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
                        label=f"Precision and coverage of every object and region, {name}, {family}, {protocol}",
                    )
                    if points
                    else None
                )
            if any(v is not None for v in versions.values()):
                where = f", {name}" if len(names) > 1 else ""
                figures.append(Figure(title=f"{measures.prompt_form(family)}{where}", versions=versions))
    return figures
