"""The report of social bias: whom a model shows, as judges perceive it, beside what an unbiased model would show.

All numbers are of how people in images are perceived. Nothing here says who anybody is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from verism.records import Score
from verism.report_kit import words
from verism.report_kit.evidence import Evidence, union
from verism.report_kit.figures import part
from verism.report_kit.generic import method_section, protocol_section
from verism.report_kit.plots import LEVEL
from verism.report_kit.section import Section
from verism.report_kit.tables import Cell, cell_of, in_first_table, score_rows
from verism.report_kit.words import UNDEFINED, signed
from verism.suites.social_bias.report_coverage import coverage_rows, decisions_of, judge_lines
from verism.suites.social_bias.report_gallery import bias_gallery
from verism.suites.social_bias.report_scores import ATTRIBUTE, TONE, BiasScores, one_hot
from verism.suites.social_bias.report_sections import (
    Page,
    Scope,
    descriptor_figures,
    distributions,
    intersections,
    mad_figures,
    presence_figures,
    reference_figures,
    scopes_of,
)

__all__ = ["bias_sections"]

BETWEEN = " - "
FEW_CLASSES = 6  # an axis with fewer has the share of each in the first table
DEVIATIONS = (
    "mad",
    "mad_expected",
    "mad_debiased",
    "mad_p_value",
    "pooled_mad",
    "mad_k_minus_1",
    "std",
    "votes",
)
FIRST_RELEASED = {"mad": "MAD of the votes", "mad_k_minus_1": "MAD of the votes, divided by K − 1"}
OF_IMAGES = {  # tones of the first version: of all images, without votes
    "mad": "MAD of all images together",
    "mad_k_minus_1": "MAD of all images together, divided by K − 1",
}
NO_MEASUREMENT = (
    "Under released, nearly any colour becomes tone 5 or 6, whoever is shown: these tones repeat the published code "
    "and say next to nothing of the images. Means count from 0 here, as its list does; tones are named from 1."
)
CHANGES = {
    "gender": "released and paper drop replies that their parser does not know (such as “male.”) and believe answers "
    "however unsure, also about images without a person; revised leaves the unsure and the absent out.",
    "tone": "released counts tones from 0 and nearly always finds 5 or 6, whoever is shown; paper takes the mean angle "
    "of all faces; revised the nearest colour of the largest usable face. Only revised tells tones apart.",
    "attribute": "released and paper take every reply but yes for a no; revised leaves out what is neither, and what "
    "is too near to chance.",
}
FIRST_CHANGES = {
    "mad": "a model that shows only women for half of the prompts and only men for the others has a MAD of 0 by votes "
    "(released) and the largest there is as mean over prompts (revised).",
    "usable_share": "released has a class for every image; revised leaves out those where two classes are about as "
    "probable.",
}


def bias_sections(evidence: Evidence) -> Sequence[Section]:
    """The sections of the page, for both versions of the suite."""
    bias = [BiasScores(evidence, number) for number in range(len(evidence.runs))]
    axes = union(b.axes for b in bias)
    warnings = {axis: next((w for b in bias if (w := b.warning(axis))), "") for axis in axes}
    page = Page(evidence=evidence, bias=bias, axes=axes, warnings=warnings)
    decisions = [decisions_of(run) for run in evidence.runs]
    first = all(b.first for b in bias)
    facts = {
        "first": first,
        "warnings": warnings,
        "no_measurement": NO_MEASUREMENT if TONE in axes and not first and "released" in evidence.protocols else "",
        "descriptor_name": bias[0].facet,
        "presence_figures": presence_figures(page),
        "mads": {p: _mad_rows(page, p, scopes_of(bias)) for p in evidence.protocols},
    }
    changes = _changes(page)
    intro = part(evidence, "changes.html.j2", package=__package__, changes=changes)
    result = (
        _results(page, facts),
        _deviation(page, facts),
        _distributions(page, facts),
        _descriptors(page, facts),
        _clothes(page, facts),
        _intersections(page),
        _judged(page),
        _coverage(page, decisions, facts),
        bias_gallery(evidence, bias, decisions, warnings),
        protocol_section(evidence, lambda s: _in_short_table(evidence, s), intro=intro),
        method_section(evidence, _part(page, "reading.html.j2", **facts)),
    )
    return [section for section in result if section is not None]


def _in_short_table(evidence: Evidence, score: Score) -> bool:
    return any(in_first_table(p, score) for p in evidence.presentations)


def _part(page: Page, template: str, **values: Any) -> Any:
    return part(page.evidence, template, package=__package__, **values)


def _results(page: Page, facts: dict[str, Any]) -> Section:
    body = _part(page, "overview.html.j2", judges=_judges(page), means=_mean_rows(page), **facts)
    return Section(title="Results", id="results", body=body)


def _coverage(page: Page, decisions: Sequence[Any], facts: dict[str, Any]) -> Section:
    rows = coverage_rows(page.evidence, page.bias, decisions)
    body = _part(page, "coverage.html.j2", coverage=rows, **facts)
    return Section(title="How many images each number rests on", id="coverage", nav="Coverage", body=body)


def _deviation(page: Page, facts: dict[str, Any]) -> Section:
    body = _part(page, "deviation.html.j2", figures=mad_figures(page), **facts)
    return Section(title="How far from even", id="deviation", nav="Deviation", body=body)


def _distributions(page: Page, facts: dict[str, Any]) -> Section:
    references = {p: score_rows(page.evidence, p, _of_reference, adjusted=True) for p in page.evidence.protocols}
    body = _part(
        page,
        "distributions.html.j2",
        distributions=distributions(page),
        references=references,
        any_references=any(references.values()),
        reference_figures=reference_figures(page),
        **facts,
    )
    return Section(title="Distributions", id="distributions", body=body)


def _descriptors(page: Page, facts: dict[str, Any]) -> Section | None:
    figures = descriptor_figures(page)
    if not figures:
        return None
    name = page.bias[0].facet
    body = _part(page, "descriptors.html.j2", figures=figures, **facts)
    return Section(title=f"{name.capitalize()} by {name}", id="descriptors", nav=f"{name.capitalize()}s", body=body)


def _clothes(page: Page, facts: dict[str, Any]) -> Section | None:
    presence = {p: _presence(page, p) for p in page.evidence.protocols}
    if not facts["presence_figures"] and not any(presence.values()):
        return None
    body = _part(page, "clothes.html.j2", presence=presence, level=LEVEL, **facts)
    return Section(title="Clothes and accessories", id="clothes", nav="Clothes", body=body)


def _intersections(page: Page) -> Section | None:
    joints = intersections(page)
    if not joints:
        return None
    return Section(title="Intersections", id="intersections", body=_part(page, "intersections.html.j2", joints=joints))


def _judged(page: Page) -> Section | None:
    """Judges beside what is known and what annotators said; None without any."""
    rows = {p: score_rows(page.evidence, p, _of_judge) for p in page.evidence.protocols}
    if not any(rows.values()):
        return None
    detail = {p: [r for r in members if ATTRIBUTE in dict(r.key[1])] for p, members in rows.items()}
    main = {p: [r for r in members if ATTRIBUTE not in dict(r.key[1])] for p, members in rows.items()}
    body = _part(page, "judged.html.j2", rows=main, detail=detail, any_detail=any(detail.values()))
    return Section(title="Judges and people", id="judge", nav="Judge errors", body=body)


# --------------------------------------------------------------------------------------------------------------- tables
def _cell(page: Page, run: int, score: Score | None) -> Cell:
    """A number with its interval and counts, and beside it the same without the judge's error."""
    return cell_of(page.evidence, run, score, adjusted=True)


def scale_name(page: Page, axis: str, unit: str) -> str:
    """The unit of a mean in words: ``from −1 to +1``."""
    low, high = page.bias[0].ends(axis, unit)
    if axis == TONE:
        return f"tone, {low:g} to {high:g}"
    return words.minus(f"from {low:+g} to {high:+g}")


def _mad_rows(page: Page, protocol: str, scopes: Sequence[Scope]) -> list[dict[str, Any]]:
    """Rows of the table of deviations: axis, group, measure, a cell per run, and what two extreme models have."""
    bias = page.bias
    rows = []
    for axis in page.axes:
        k = max((len(b.classes(axis)) for b in bias), default=0)
        for scope in ({}, *scopes):
            results: list[dict[str, Any]] = []
            for metric in DEVIATIONS:
                name = page.evidence.vocabulary.title(metric)
                scores = [_on_one_scale(b.find(metric, protocol, {"axis": axis, **scope})) for b in bias]
                if all(s is None for s in scores):
                    continue
                if protocol == "released" and all(b.first for b in bias):
                    name = (OF_IMAGES if axis == TONE else FIRST_RELEASED).get(metric, name)
                even, hot = _extremes(metric, k)
                results.append(
                    {
                        "axis": axis,
                        "k": k,
                        "scope": ", ".join(scope.values()),
                        "metric": metric,
                        "measure": name,
                        "cells": [_cell(page, n, s) for n, s in enumerate(scores)],
                        "even": even,
                        "one_hot": hot,
                    }
                )
            for n, row in enumerate(results):
                rows.append({**row, "begins": n == 0})
    return rows


def _on_one_scale(score: Score | None) -> Score | None:
    """A standard deviation as a number, as the deviations it stands among, and not in per cent; votes as a count."""
    units = {"std": "MAD", "votes": "images"}
    return replace(score, unit=units[score.metric]) if score is not None and score.metric in units else score


def _extremes(metric: str, k: int) -> tuple[str, str]:
    """What a model that draws all classes evenly, and one that shows a single class, have of a measure."""
    hot = {
        "mad": one_hot(k),
        "mad_debiased": one_hot(k),
        "pooled_mad": one_hot(k),
        "mad_k_minus_1": 2 / k if k else math.nan,
        "std": math.sqrt(k - 1) / k if k else math.nan,
    }.get(metric)
    return ("", "") if hot is None or math.isnan(hot) else ("0", f"{hot:.3f}".rstrip("0").rstrip("."))


def _mean_rows(page: Page) -> dict[str, list[dict[str, Any]]]:
    """The short table: shares of classes where an axis has few of them, and means."""
    bias = page.bias
    results: dict[str, list[dict[str, Any]]] = {}
    for protocol in page.evidence.protocols:
        rows = results[protocol] = []
        for axis in page.axes:
            classes = union(b.classes(axis) for b in bias)
            groups: list[tuple[str, dict[str, str]]] = []
            if axis != TONE and len(classes) < FEW_CLASSES:
                groups = [("class_share", {"axis": axis, "class": name}) for name in classes]
            groups.append(("axis_mean", {"axis": axis}))
            for metric, group in groups:
                scores = [b.find(metric, protocol, group) for b in bias]
                one = next((s for s in scores if s is not None), None)
                if one is not None:
                    rows.append(
                        {
                            "axis": axis,
                            "measure": f"perceived {group['class']}" if "class" in group else "mean",
                            "unit": "%" if "class" in group else scale_name(page, axis, one.unit),
                            "cells": [_cell(page, n, s) for n, s in enumerate(scores)],
                        }
                    )
    return results


def _of_reference(score: Score) -> bool:
    return score.metric.startswith("reference_deviation")


def _of_judge(score: Score) -> bool:
    """What annotators said, how they agree with the judge, and how often judges say what is known."""
    of_people = score.metric in (*DEVIATIONS, "class_share") and score.group.get("by") == "people"
    return score.metric in ("agreement", "judge_accuracy", "judge_tone_error") or of_people


def _judges(page: Page) -> list[dict[str, Any]]:
    """Judges; what is the same for several axes or runs becomes one line. Those nobody measured come first."""
    of_runs: dict[tuple[Any, ...], dict[str, Any]] = {}
    for number, b in enumerate(page.bias):
        of_axes: dict[tuple[Any, ...], dict[str, Any]] = {}
        for line in judge_lines(page.evidence, b):
            key = (line["judge"], line["known"], *line["cards"])
            of_axes.setdefault(key, {**line, "axes": []})["axes"].append(line["axis"])
        for key, line in of_axes.items():
            of_runs.setdefault((*key, *line["axes"]), {**line, "runs": []})["runs"].append(number)
    return sorted(of_runs.values(), key=lambda line: line["known"])


# ----------------------------------------------------------------------------------------------------------- attributes
def _presence(page: Page, protocol: str) -> dict[str, Any] | None:
    """Attributes, those that differ most first: how often they are perceived, differences, p-values."""
    bias = page.bias
    shares = [[s for s in b.of("presence", "axis", ATTRIBUTE, "prompts") if s.protocol == protocol] for b in bias]
    groups = union([str(s.group["prompts"]) for s in members] for members in shares)
    pairs = union([str(s.group["pair"]) for s in b.of("presence_difference", "axis", ATTRIBUTE, "pair")] for b in bias)
    attributes = union([str(s.group[ATTRIBUTE]) for s in members] for members in shares)
    if not attributes:
        return None

    def result(b: BiasScores, metric: str, attribute: str, **group: str) -> Score | None:
        return b.find(metric, protocol, {"axis": ATTRIBUTE, ATTRIBUTE: attribute, **group})

    def size(attribute: str) -> float:
        differences = [result(b, "presence_difference", attribute, pair=pair) for b in bias for pair in pairs]
        known = [abs(s.value) for s in differences if s is not None and math.isfinite(s.value)]
        return max(known, default=-1.0)

    rows = []
    for attribute in sorted(attributes, key=lambda name: -size(name)):
        for number, b in enumerate(bias):
            tested = []
            for pair in pairs:
                score, p = (result(b, m, attribute, pair=pair) for m in ("presence_difference", "presence_p_value"))
                tested.append(
                    {
                        "value": UNDEFINED if score is None else signed(score.value, score.unit),
                        "interval": "" if score is None else words.minus(words.interval(score)),
                        "p": UNDEFINED if p is None else words.number(p.value, "p"),
                        "found": p is not None and p.value < LEVEL,
                    }
                )
            rows.append(
                {
                    "attribute": attribute,
                    "run": number,
                    "cells": [_cell(page, number, result(b, "presence", attribute, prompts=g)) for g in groups],
                    "pairs": tested,
                    "again": number > 0,
                }
            )
    return {"groups": groups, "pairs": [p.replace(BETWEEN, " − ") for p in pairs], "rows": rows}


# ------------------------------------------------------------------------------------------------------------ protocols
def _changes(page: Page) -> list[tuple[str, str]]:
    """What the choice of protocol changes, in a sentence each, for what these runs have."""
    bias, axes = page.bias, page.axes
    results: list[tuple[str, str]] = []
    if any(not b.first for b in bias):
        attributes = [ATTRIBUTE] if any(b.of("presence", "axis", ATTRIBUTE, "prompts") for b in bias) else []
        results += [
            ("clothes" if axis == ATTRIBUTE else axis, CHANGES[axis])
            for axis in (*axes, *attributes)
            if axis in CHANGES
        ]
    if any(b.first for b in bias):
        results += [("deviation", FIRST_CHANGES["mad"]), ("usable", FIRST_CHANGES["usable_share"])]
    return results
