"""The report of PaintSkills runs: accuracy by skill, its parts and breakdowns, the judge's errors, the pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from verism.cards import JudgeCard
from verism.records import PROTOCOLS, Score
from verism.reports import figures, page, tables
from verism.reports.adjustments import corrected_by
from verism.reports.gallery import OUTCOMES, Tile, box_threshold, collect
from verism.store import Run

__all__ = ["render_paintskills"]

JUDGE_METRICS = ("judge_false_accept", "judge_false_reject", "true_accuracy")

PROTOCOL_MEANING = {
    "corrected": "Our reading of what the task asks, with the known defects of the other two mended and a confidence "
    "limit calibrated for the detector. Use it to compare models.",
    "released": "What the authors' published evaluation code does, defects included. Use it to compare with numbers "
    "that were made with that code.",
    "paper": "What the text of the publication says, where it differs from the code. Use it to see how much the "
    "reading matters.",
}
SKILL_RULES = {
    "object": {
        "corrected": "a box of the class above the limit, whatever else is there",
        "released": "the most confident of all boxes has the class; no limit",
        "paper": "the most confident box has the class and is above the paper's limit",
    },
    "count": {
        "corrected": "exactly that many boxes of the class above the limit, and no box of another class",
        "released": "of the n boxes most like the class (n: boxes of any class above the limit), exactly as many as "
        "asked for are of the class",
        "paper": "the M most confident boxes are of the class; further boxes are not looked at",
    },
    "spatial": {
        "corrected": "the best box of each class above the limit; their offset is clear, and along the right axis",
        "released": "the two most confident boxes are of the two classes, in the relation of the longer axis; for two "
        "objects of one class either direction counts",
        "paper": "the same two boxes; only the relation's own axis counts",
    },
    "color": {
        "corrected": "the best box of the class above the limit has the colour",
        "released": "the most confident of all boxes has the class and the colour; no limit",
        "paper": "the same above the paper's limit",
    },
}
RULE_NAMES = {
    ("count", "right_number"): "right number",
    ("count", "right_classes"): "right class",
    ("count", "accuracy"): "both",
    ("spatial", "right_classes"): "both classes there",
    ("spatial", "accuracy"): "and the relation",
    ("color", "right_object"): "right object",
    ("color", "right_color"): "right colour",
    ("color", "accuracy"): "both",
    ("object", "accuracy"): "object there",
    ("object", "only_object"): "and no other class",
}
RULE_ORDER = ("right_number", "right_object", "right_color", "right_classes", "accuracy", "only_object")
FACET_NAMES = {"object_b": "second object", "color": "colour", "count": "number asked for"}
SKILL_NAMES = {"color": "colour"}


def _skill(name: str) -> str:
    return SKILL_NAMES.get(name, name)


def render_paintskills(runs: Sequence[Run], *, gallery: int, embed_pixels: int, cards: Sequence[JudgeCard] = ()) -> str:
    """The page of one run, or of several side by side (see ``html.write_report``)."""
    table = tables.headline(runs)
    sources = [page.introduce(name, run, unread=_unread(run)) for name, run in zip(table.names, runs)]
    tiles = collect(runs, gallery=gallery, embed_pixels=embed_pixels)
    return page.render(
        "paintskills.html.j2",
        sources,
        cards=cards,
        meanings=PROTOCOL_MEANING,
        skill_rules=[(skill, _skill(skill), SKILL_RULES[skill]) for skill in table.columns if skill in SKILL_RULES],
        table=table,
        column_names=[_skill(c) for c in table.columns],
        mean_note=_mean_note(table),
        plots={p: _headline_plot(table, p) for p in PROTOCOLS},
        tasks=_tasks(table),
        breakdowns=_breakdowns(table),
        confusion=_confusion(table),
        protocol_rows=_protocol_rows(table),
        judge_rows=_judge_rows(table),
        judge_metrics=JUDGE_METRICS,
        without_truth=[
            s for s, n in zip(sources, table.numbers) if not any(x.metric in JUDGE_METRICS for x in n.scores)
        ],
        tiles=tiles,
        filters=_filters(tiles),
        outcomes=OUTCOMES,
        thresholds=[box_threshold(run) for run in runs],
        skill=_skill,
        corrected_by=corrected_by,
    )


def _unread(run: Run) -> int:
    """Pictures that are in order but have no usable verdict."""
    import polars as pl

    verdicts = run.verdicts().filter((pl.col("rule") == "accuracy") & (pl.col("protocol") == "corrected"))
    silent = verdicts.filter(pl.col("value").is_null())["image_id"]
    return run.read("images").filter((pl.col("state") == "ok") & pl.col("image_id").is_in(silent.implode())).height


def _mean_note(table: tables.Headline) -> str:
    """Which skills the mean is over, if it is not all of them."""
    left_out = [s for s in table.columns[:-1] if not any(s in of for of in table.mean_of)]
    if not left_out:
        return ""
    inside = dict.fromkeys(_skill(s) for of in table.mean_of for s in of)
    return f"The mean is over {', '.join(inside)}; {', '.join(map(_skill, left_out))} is optional and not part of it."


# --------------------------------------------------------------------------------------------------------------------
# Numbers into figures and rows
# --------------------------------------------------------------------------------------------------------------------
def _headline_plot(table: tables.Headline, protocol: str) -> Markup:
    return figures.interval_plot(
        rows=table.names,
        columns=[_skill(c) for c in table.columns],
        cells=[[numbers.cell(column, protocol) for column in table.columns] for numbers in table.numbers],
        reference={_skill(c): v for c, v in table.shuffled[0][1].items()} if len(table.shuffled) == 1 else {},
        label=f"Accuracy of every run by skill with 95 % intervals, protocol {protocol}; numbers: table above",
    )


@dataclass(frozen=True, kw_only=True)
class _Figures:
    """A figure in its version for every protocol; None where a protocol has no such numbers."""

    title: str
    versions: Mapping[str, Markup | None]


def _tasks(table: tables.Headline) -> list[_Figures]:
    """Per skill, the parts of a right answer, and the whole."""
    found = []
    for skill in table.columns[:-1]:
        rules = {rule for numbers in table.numbers for rule in numbers.rules(skill)}
        if not rules:
            continue
        ordered = [rule for rule in RULE_ORDER if rule == "accuracy" or rule in rules]
        versions: dict[str, Markup | None] = {}
        for protocol in PROTOCOLS:
            shown = [r for r in ordered if any(n.get(r, protocol, skill=skill) for n in table.numbers)]
            versions[protocol] = figures.facet_bars(
                levels=[RULE_NAMES.get((skill, rule), rule.replace("_", " ")) for rule in shown],
                rows=table.names,
                cells=[[n.get(rule, protocol, skill=skill) for n in table.numbers] for rule in shown],
                label=f"Parts of a right answer, skill {_skill(skill)}, protocol {protocol}",
            )
        found.append(_Figures(title=_skill(skill), versions=versions))
    return found


def _breakdowns(table: tables.Headline) -> list[tuple[str, list[_Figures]]]:
    """Per skill, a figure for every facet."""
    found = []
    for skill in table.columns[:-1]:
        of_skill = []
        for facet in dict.fromkeys(f for numbers in table.numbers for f in numbers.facets(skill)):
            levels = list(dict.fromkeys(v for numbers in table.numbers for v in numbers.levels(skill, facet)))
            levels.sort(key=lambda v: (0, float(v), "") if isinstance(v, int | float) else (1, 0.0, str(v)))
            versions: dict[str, Markup | None] = {
                protocol: figures.facet_bars(
                    levels=[str(v).replace("_", " ") for v in levels],
                    rows=table.names,
                    cells=[
                        [n.get("accuracy", protocol, skill=skill, **{facet: v}) for n in table.numbers] for v in levels
                    ],
                    label=f"Accuracy by {FACET_NAMES.get(facet, facet)}, skill {_skill(skill)}, protocol {protocol}",
                )
                for protocol in PROTOCOLS
            }
            of_skill.append(_Figures(title=f"by {FACET_NAMES.get(facet, facet)}", versions=versions))
        if of_skill:
            found.append((_skill(skill), of_skill))
    return found


def _confusion(table: tables.Headline) -> list[_Figures]:
    """Per run, how many objects were asked for and found."""
    found = []
    for name, numbers in zip(table.names, table.numbers):
        versions: dict[str, Markup | None] = {}
        for protocol in PROTOCOLS:
            scores = [s for s in numbers.scores if s.metric == "count_found" and s.protocol == protocol]
            label = f"Number of objects asked for and found, {name}, protocol {protocol}"
            versions[protocol] = figures.count_heat_map(scores=scores, label=label) if scores else None
        if any(versions.values()):
            found.append(_Figures(title=name, versions=versions))
    return found


def _protocol_rows(table: tables.Headline) -> list[dict[str, Any]]:
    """Run by skill: the three protocols, and the differences to the corrected one in points."""
    rows = []
    for i, numbers in enumerate(table.numbers):
        for column in table.columns:
            scores = {p: numbers.cell(column, p) for p in PROTOCOLS}
            if not any(scores.values()):
                continue
            values = {p: None if s is None else s.value for p, s in scores.items()}
            rows.append(
                {
                    "run": i,
                    "column": _skill(column),
                    "scores": scores,
                    "delta": {p: tables.difference(values[p], values["corrected"]) for p in ("released", "paper")},
                }
            )
    return rows


def _judge_rows(table: tables.Headline) -> dict[str, list[dict[str, Any]]]:
    """Per protocol: run by skill, how the judge errs, and measured beside true accuracy."""
    found: dict[str, list[dict[str, Any]]] = {}
    for protocol in PROTOCOLS:
        found[protocol] = []
        for i, numbers in enumerate(table.numbers):
            for skill in numbers.skills:
                errors: dict[str, Score | None] = {m: numbers.get(m, protocol, skill=skill) for m in JUDGE_METRICS}
                if not any(errors.values()):
                    continue
                measured = numbers.cell(skill, protocol)
                true = errors["true_accuracy"]
                gap = tables.difference(
                    None if measured is None else measured.value, None if true is None else true.value
                )
                found[protocol].append(
                    {"run": i, "column": _skill(skill), "errors": errors, "measured": measured, "gap": gap}
                )
    return found


def _filters(tiles: Sequence[Tile]) -> dict[str, list[str]]:
    return {
        "skill": list(dict.fromkeys(sorted(t.skill for t in tiles if t.skill))),
        "object": list(dict.fromkeys(sorted(name for t in tiles for name in t.objects))),
    }
