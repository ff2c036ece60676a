"""The report of social bias: whom a model shows, as judges perceive it, beside what an unbiased model would show.

All numbers are of how people in pictures are perceived. Nothing here says who anybody is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from verism.cards import JudgeCard
from verism.records import PROTOCOLS, Score
from verism.reports import measures, page
from verism.reports.bias_coverage import coverage_rows, decisions_of, judge_lines
from verism.reports.bias_gallery import collect_shots
from verism.reports.bias_scores import (
    ATTRIBUTE,
    TONE,
    BiasScores,
    adjusted_words,
    caveat,
    in_short_table,
    one_hot,
    union,
)
from verism.reports.bias_sections import (
    Scope,
    descriptor_figures,
    distributions,
    intersections,
    mad_figures,
    presence_figures,
    reference_figures,
    scopes_of,
)
from verism.reports.measure_names import title as measure_title
from verism.reports.measure_names import unit_name
from verism.reports.presentation_figures import LEVEL, signed
from verism.reports.tables import UNDEFINED, difference, run_names
from verism.store import Run

__all__ = ["render_bias"]

BETWEEN = " - "

MEANINGS: Mapping[str, str] = {
    "corrected": "Replies that are no clear answer, answers too near to chance and people who are not there count as "
    "unknown. Tones by colour distance, of the largest face that can be used. Use it to compare models.",
    "released": "Replies read by the published parser, word by word; nobody asks whether a person is there. Tones by "
    "the published code, which takes nearly any colour for tone 5 or 6: they are no measurement.",
    "paper": "As released, but tones by the angle the paper defines: mean over all faces, nearest swatch.",
}
FIRST_MEANINGS: Mapping[str, str] = {
    "corrected": "Every picture has its own class, or none where the two most probable ones lie close together. "
    "Deviations are means over prompts. Use it to compare models.",
    "released": "The mean probability over the pictures of a prompt decides: one vote for each prompt, however close. "
    "Deviations are of all votes together.",
    "paper": "Not computed: the text does not say how nine pictures become one vote, and the code alone does.",
}
NO_MEASUREMENT = (
    "Under released, nearly any colour becomes tone 5 or 6, whoever is shown: these tones repeat the published code "
    "and say next to nothing of the pictures. Means count from 0 here, as its list does; tones are named from 1."
)
CHANGES: Mapping[str, str] = {
    "gender": "released and paper drop replies that their parser does not know (such as “male.”) and believe answers "
    "however unsure, also about pictures without a person; corrected leaves the unsure and the absent out.",
    "tone": "released counts tones from 0 and nearly always finds 5 or 6, whoever is shown; paper takes the mean angle "
    "of all faces; corrected the nearest colour of the largest usable face. Only corrected tells tones apart.",
    "attribute": "released and paper take every reply but yes for a no; corrected leaves out what is neither, and what "
    "is too near to chance.",
}
FIRST_CHANGES: Mapping[str, str] = {
    "mad": "a model that shows only women for half of the prompts and only men for the others has a MAD of 0 by votes "
    "(released) and the largest there is as mean over prompts (corrected).",
    "coverage": "released has a class for every picture; corrected leaves out those where two classes are about as "
    "probable.",
}
LIMITS = (
    "Nothing here says who anybody is. A class is what a judge perceives in a picture; people who are painted have no "
    "gender, and no judgement of looks is to be used about real people.",
    "Two terms are not all genders. The published protocol offers no others, so people who are perceived as neither "
    "are forced into one of the two, or counted as unsure.",
    "The tone of skin in a picture is no race, origin or ethnicity; light, style and make-up change it. Ten swatches "
    "are a coarse scale.",
    "Judges err, and not alike for everybody: they have learnt from pictures with the same slant. Intervals hold that "
    "error only where it says so.",
    "A few pictures of a prompt look uneven by chance alone: read a MAD beside what an unbiased model would show.",
    "An even spread is one yardstick among several. Which one is right is no question that a measurement answers; "
    "the rule “target” compares with another.",
    "Words and list of professions are English, and the pictures are of what these words call up.",
)
MEASURES: Mapping[str, str] = {
    "mad": "MAD, mean over prompts",
    "mad_expected": "of an unbiased model at this n",
    "mad_debiased": "MAD without chance (debiased)",
    "mad_p_value": "p, every picture drawn evenly",
    "pooled_mad": "MAD of all pictures together",
    "mad_k_minus_1": "MAD, divided by K − 1",
    "std": "standard deviation",
    "votes": "prompts that voted",
}
FIRST_RELEASED: Mapping[str, str] = {"mad": "MAD of the votes", "mad_k_minus_1": "MAD of the votes, divided by K − 1"}
OF_PICTURES: Mapping[str, str] = {  # tones of the first version: of all pictures, without votes
    "mad": "MAD of all pictures together",
    "mad_k_minus_1": "MAD of all pictures together, divided by K − 1",
}
TITLES: Mapping[str, str] = {
    "axis_mean": "mean",
    "class_share": "share",
    "coverage": "usable",
    "reference_deviation": "deviation from the reference",
    "reference_deviation_expected": "of a model that follows the reference, at this n",
    "reference_deviation_debiased": "deviation without chance (debiased)",
    "agreement": "agreement with people",
    "judge_accuracy": "judge is right",
    "judge_tone_error": "judge's error in tones",
    "unsure_share": "unsure",
}


def render_bias(runs: Sequence[Run], *, gallery: int, embed_pixels: int, cards: Sequence[JudgeCard] = ()) -> str:
    """The page of one run, or of several side by side (see ``html.write_report``).

    Raises:
        UsageError: a gallery that cannot be.
        VerismError: a run has no verdicts or scores yet.
    """
    names = run_names(runs)
    bias = [BiasScores(run) for run in runs]
    decisions = [decisions_of(run) for run in runs]
    tiles = collect_shots(bias, decisions, gallery=gallery, embed_pixels=embed_pixels)
    axes = union(b.axes for b in bias)
    first = all(b.first for b in bias)
    warnings = {axis: next((w for b in bias if (w := b.warning(axis))), "") for axis in axes}
    coverage = coverage_rows(bias, decisions)
    scopes = scopes_of(bias)
    mads = {p: _mad_rows(bias, axes, p, scopes) for p in PROTOCOLS}
    return page.render(
        "bias.html.j2",
        [page.introduce(name, run) for name, run in zip(names, runs)],
        names=names,
        first=first,
        axes=axes,
        warnings=warnings,
        no_measurement=NO_MEASUREMENT if TONE in axes and not first else "",
        meanings=FIRST_MEANINGS if first else MEANINGS,
        changes=_changes(bias, axes),
        limits=LIMITS,
        remarks=[(i, line) for i, run in enumerate(runs) for line in run.manifest.get("notes", {}).get("remarks", ())],
        coverage=coverage,
        judges=_judges(bias, cards),
        cards=cards,
        means=_mean_rows(bias, axes),
        mads={p: [row for row in rows if not row["scope"]] for p, rows in mads.items()},
        mads_by_group={p: [row for row in rows if row["scope"]] for p, rows in mads.items()},
        mad_figures=mad_figures(bias, names, axes, warnings),
        distributions=distributions(bias, names, axes, warnings),
        descriptors=descriptor_figures(bias, names, axes, warnings),
        descriptor_name=next((b.facet for b in bias), "prompt"),
        presence={p: _presence(bias, p) for p in PROTOCOLS},
        presence_figures=presence_figures(bias, names),
        level=LEVEL,
        joints=intersections(bias, names),
        references={p: _plain_rows(bias, p, _of_reference) for p in PROTOCOLS},
        reference_figures=reference_figures(bias, names),
        judged={p: _judged_rows(bias, p) for p in PROTOCOLS},
        protocol_rows=_protocol_rows(bias),
        tiles=tiles,
        n_shown=sum(len(tile.shots) for tile in tiles),
        with_boxes=any(shot.boxes is not None for tile in tiles for shot in tile.shots),
        main_axis=axes[0] if axes else "",
        filters={
            "main": union(tile.main[p] for tile in tiles for p in PROTOCOLS),
            "classes": _class_filter(tiles, axes),
            "group": union([tile.group] for tile in tiles if tile.group),
            "descriptor": sorted({tile.descriptor for tile in tiles if tile.descriptor}),
        },
    )


def _class_filter(tiles: Sequence[Any], axes: Sequence[str]) -> list[tuple[str, list[str]]]:
    """What the pictures can be filtered by beside the first axis: labels by axis."""
    found: dict[str, list[str]] = {}
    for text in union(tile.classes[p] for tile in tiles for p in PROTOCOLS):
        axis, _, label = text.partition(": ")
        found.setdefault(axis, []).append(label)
    for labels in found.values():
        labels.sort(key=lambda label: (not label.isdecimal(), int(label) if label.isdecimal() else 0, label))
    return [(axis, labels) for axis, labels in found.items() if not axes or axis != axes[0]]


# --------------------------------------------------------------------------------------------------------------- tables
def _cell(bias: BiasScores, score: Score | None) -> dict[str, Any]:
    """A number with its interval and counts, and beside it the same without the judge's error."""
    if score is None:
        return {"value": UNDEFINED, "interval": "", "counts": "", "adjusted": []}
    unusable = f" · {score.n_unusable:,} unusable" if score.n_unusable else ""
    counted = f"{score.n_used:,} used{unusable}" if measures.counts(score) else ""
    freed = bias.adjusted(score.metric, score.protocol, score.group)
    return {
        "value": _minus(measures.value(score)),
        "interval": _minus(measures.interval(score)),
        "counts": counted,
        "adjusted": [
            {
                "by": f"error out ({s.adjusted})",
                "words": adjusted_words(s.adjusted),
                "value": _minus(measures.value(s)),
                "interval": _minus(measures.interval(s)),
            }
            for s in freed
        ],
    }


def scale_name(unit: str) -> str:
    """The unit of a mean in words: ``from −1 to +1``."""
    if ".." not in unit:
        return {"tone": "tone, 1 to 10", "tone from 0": "tone, 0 to 9"}.get(unit, unit_name(unit))
    return "from " + _minus(unit.split()[-1].replace("..", " to "))


def _minus(words: str) -> str:
    return words.replace("-", "−")


def _mad_rows(
    bias: Sequence[BiasScores], axes: Sequence[str], protocol: str, scopes: Sequence[Scope]
) -> list[dict[str, Any]]:
    """Rows of the table of deviations: axis, group, measure, a cell per run, and what two extreme models have."""
    rows = []
    for axis in axes:
        k = max((len(b.classes(axis)) for b in bias), default=0)
        for scope in ({}, *scopes):
            found: list[dict[str, Any]] = []
            for metric, name in MEASURES.items():
                scores = [_on_one_scale(b.find(metric, protocol, {"axis": axis, **scope})) for b in bias]
                if all(s is None for s in scores):
                    continue
                if protocol == "released" and all(b.first for b in bias):
                    name = (OF_PICTURES if axis == TONE else FIRST_RELEASED).get(metric, name)
                even, hot = _extremes(metric, k)
                found.append(
                    {
                        "axis": axis,
                        "k": k,
                        "scope": ", ".join(scope.values()),
                        "metric": metric,
                        "measure": name,
                        "cells": [_cell(b, s) for b, s in zip(bias, scores)],
                        "even": even,
                        "one_hot": hot,
                    }
                )
            for n, row in enumerate(found):
                rows.append({**row, "begins": n == 0})
    return rows


def _on_one_scale(score: Score | None) -> Score | None:
    """A standard deviation as a number, as the deviations it stands among, and not in per cent; votes as a count."""
    units = {"std": "MAD", "votes": "pictures"}
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


def _mean_rows(bias: Sequence[BiasScores], axes: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """The short table of means; of axes without one and with few classes, the shares of these."""
    found: dict[str, list[dict[str, Any]]] = {}
    for protocol in PROTOCOLS:
        rows = found[protocol] = []
        for axis in axes:
            groups: list[tuple[str, dict[str, str]]] = [("axis_mean", {"axis": axis})]
            classes = union(b.classes(axis) for b in bias)
            if axis != TONE and len(classes) < 6 and not any(b.get("axis_mean", protocol, axis=axis) for b in bias):
                groups += [("class_share", {"axis": axis, "class": name}) for name in classes]
            for metric, group in groups:
                scores = [b.find(metric, protocol, group) for b in bias]
                one = next((s for s in scores if s is not None), None)
                if one is not None:
                    rows.append(
                        {
                            "axis": axis,
                            "measure": f"perceived {group['class']}" if "class" in group else "mean",
                            "unit": scale_name(one.unit),
                            "cells": [_cell(b, s) for b, s in zip(bias, scores)],
                        }
                    )
    return found


def _plain_rows(bias: Sequence[BiasScores], protocol: str, chosen: Callable[[Score], bool]) -> list[dict[str, Any]]:
    """Some scores as rows: measure, group, a cell per run."""
    rows = []
    columns = [
        {measures.key_of(s): s for s in b.scores if s.protocol == protocol and chosen(s) and not s.adjusted}
        for b in bias
    ]
    for key in measures.by_measure(key for column in columns for key in column):
        found = [column.get(key) for column in columns]
        one = next(s for s in found if s is not None)
        rows.append(
            {
                "measure": TITLES.get(one.metric, measure_title(one.metric)),
                "of": measures.group_name(key) + caveat(key[1]),
                "cells": [_cell(b, s) for b, s in zip(bias, found)],
                "unit": "" if one.metric == "agreement" else unit_name(one.unit),
                "detail": bool({ATTRIBUTE} & set(one.group)),
            }
        )
    return rows


def _of_reference(score: Score) -> bool:
    return score.metric.startswith("reference_deviation")


def _judged_rows(bias: Sequence[BiasScores], protocol: str) -> list[dict[str, Any]]:
    """What people said, how they agree with the judge, and how often judges say what the painter knows."""
    judging = ("agreement", "judge_accuracy", "judge_tone_error")
    of_people = (*MEASURES, "class_share")

    def chosen(score: Score) -> bool:
        return score.metric in judging or (score.metric in of_people and score.group.get("by") == "people")

    return _plain_rows(bias, protocol, chosen)


def _judges(bias: Sequence[BiasScores], cards: Sequence[JudgeCard]) -> list[dict[str, Any]]:
    """Judges; what is the same for several axes or runs becomes one line. Those nobody measured come first."""
    of_runs: dict[tuple[Any, ...], dict[str, Any]] = {}
    for number, b in enumerate(bias):
        of_axes: dict[tuple[Any, ...], dict[str, Any]] = {}
        for line in judge_lines(b, cards):
            key = (line["judge"], line["known"], *line["cards"])
            of_axes.setdefault(key, {**line, "axes": []})["axes"].append(line["axis"])
        for key, line in of_axes.items():
            of_runs.setdefault((*key, *line["axes"]), {**line, "runs": []})["runs"].append(number)
    return sorted(of_runs.values(), key=lambda line: line["known"])


# ----------------------------------------------------------------------------------------------------------- attributes
def _presence(bias: Sequence[BiasScores], protocol: str) -> dict[str, Any] | None:
    """Attributes, those that differ most first: how often they are perceived, differences, p-values."""
    shares = [[s for s in b.of("presence", "axis", ATTRIBUTE, "prompts") if s.protocol == protocol] for b in bias]
    groups = union([str(s.group["prompts"]) for s in of] for of in shares)
    pairs = union([str(s.group["pair"]) for s in b.of("presence_difference", "axis", ATTRIBUTE, "pair")] for b in bias)
    attributes = union([str(s.group[ATTRIBUTE]) for s in of] for of in shares)
    if not attributes:
        return None

    def found(b: BiasScores, metric: str, attribute: str, **group: str) -> Score | None:
        return b.find(metric, protocol, {"axis": ATTRIBUTE, ATTRIBUTE: attribute, **group})

    def size(attribute: str) -> float:
        differences = [found(b, "presence_difference", attribute, pair=pair) for b in bias for pair in pairs]
        known = [abs(s.value) for s in differences if s is not None and math.isfinite(s.value)]
        return max(known, default=-1.0)

    rows = []
    for attribute in sorted(attributes, key=lambda name: -size(name)):
        for number, b in enumerate(bias):
            tested = []
            for pair in pairs:
                score, p = (found(b, m, attribute, pair=pair) for m in ("presence_difference", "presence_p_value"))
                tested.append(
                    {
                        "value": UNDEFINED if score is None else signed(score),
                        "interval": "" if score is None else _minus(measures.interval(score)),
                        "p": UNDEFINED if p is None else measures.number(p.value, "p"),
                        "found": p is not None and p.value < LEVEL,
                    }
                )
            rows.append(
                {
                    "attribute": attribute,
                    "run": number,
                    "cells": [_cell(b, found(b, "presence", attribute, prompts=g)) for g in groups],
                    "pairs": tested,
                    "again": number > 0,
                }
            )
    return {"groups": groups, "pairs": [p.replace(BETWEEN, " − ") for p in pairs], "rows": rows}


# ------------------------------------------------------------------------------------------------------------ protocols
def _changes(bias: Sequence[BiasScores], axes: Sequence[str]) -> list[tuple[str, str]]:
    """What the choice of protocol changes, in a sentence each, for what these runs have."""
    found: list[tuple[str, str]] = []
    if any(not b.first for b in bias):
        attributes = [ATTRIBUTE] if any(b.of("presence", "axis", ATTRIBUTE, "prompts") for b in bias) else []
        found += [
            ("clothes" if axis == ATTRIBUTE else axis, CHANGES[axis])
            for axis in (*axes, *attributes)
            if axis in CHANGES
        ]
    if any(b.first for b in bias):
        found += [("deviation", FIRST_CHANGES["mad"]), ("coverage", FIRST_CHANGES["coverage"])]
    return found


def _protocol_rows(bias: Sequence[BiasScores]) -> list[dict[str, Any]]:
    """Where there are several protocols: run, measure, axis, values and differences to the corrected."""
    rows = []
    for number, b in enumerate(bias):
        values: dict[measures.Key, dict[str, Score]] = {}
        for s in b.scores:
            if in_short_table(s) and not s.adjusted:
                values.setdefault(measures.key_of(s), {})[s.protocol] = s
        for by in values.values():
            if len(by) > 1:
                one = next(iter(by.values()))
                of = {k: v for k, v in one.group.items() if k != "axis"}
                rows.append(
                    {
                        "run": number,
                        "axis": str(one.group.get("axis", "")),
                        "measure": MEASURES.get(one.metric, TITLES.get(one.metric, measure_title(one.metric))),
                        "of": ", ".join(map(str, of.values())),
                        "values": {p: _cell(b, by.get(p))["value"] for p in PROTOCOLS},
                        "delta": {p: _delta(by.get(p), by.get("corrected")) for p in ("released", "paper")},
                    }
                )
    return rows


def _delta(score: Score | None, corrected: Score | None) -> str:
    if score is None or corrected is None:
        return UNDEFINED
    if score.unit == "share":
        return difference(score.value, corrected.value)
    if score.unit != corrected.unit:
        return "other scale"  # tones from 0 and from 1
    return signed(replace(score, value=score.value - corrected.value))
