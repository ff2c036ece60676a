"""The report as one HTML file: numbers, figures and evidence, readable without a network and by keyboard alone.

The page holds everything it needs. Text that comes from runs (prompts, notes, file names, models' names) is escaped by
the template engine; beyond that, the page forbids itself all scripts but its own, whose hash it carries. It holds no
date of its own making, so that the same runs give the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from verism.records import PROTOCOLS, STATES, Score, content_hash
from verism.reports import figures, tables
from verism.reports.gallery import OUTCOMES, Tile, box_threshold, collect, judge_of
from verism.store import TRUTH, Run

if TYPE_CHECKING:
    import polars as pl

__all__ = ["write_report"]

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


@dataclass(frozen=True, kw_only=True, eq=False)
class _Source:
    """One run as the page introduces it.

    Attributes:
        painter: who made the pictures. judge: whose boxes were used, None if nobody looked.
        states: pictures by state; ``pending`` are asked for but not made yet.
        unread: pictures that are ok but have no usable verdict under the corrected protocol.
        prompts_hash, pictures_hash: equal if two runs asked the same, and got the same.
    """

    name: str
    suite: str
    painter: str
    judge: str | None
    n_prompts: int
    asked: int
    states: Mapping[str, int]
    pending: int
    unread: int
    prompts_hash: str
    pictures_hash: str
    run: Run


def write_report(runs: Sequence[Run], out: Path, *, gallery: int = 120, embed_pixels: int = 256) -> Path:
    """Write the report of one run, or of several side by side.

    Args:
        runs: scored runs; rows of every table are in this order.
        out: an ``.html`` file, or a directory that gets an ``index.html``. Replaced if it is there.
        gallery: how many pictures to show, over all runs; 0 for none.
        embed_pixels: longer side of an embedded picture at most, in pixels.
    Returns:
        The file written.
    Raises:
        UsageError: no runs, or a gallery that cannot be.
        VerismError: a run has no prompts, verdicts or scores yet.
    """
    page = _render(runs, gallery=gallery, embed_pixels=embed_pixels)
    file = out if out.suffix.lower() in (".html", ".htm") else out / "index.html"
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        # A lone half of a character pair can come out of a manifest, and is no reason to have no report.
        temporary.write_bytes(page.encode("utf-8", "backslashreplace"))
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)
    return file


def _render(runs: Sequence[Run], *, gallery: int, embed_pixels: int) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    table = tables.headline(runs)
    sources = [_source(name, run) for name, run in zip(table.names, runs)]
    tiles = collect(runs, gallery=gallery, embed_pixels=embed_pixels)
    templates = resources.files("verism.reports") / "templates"
    script = (templates / "report.js").read_text(encoding="utf-8")
    environment = Environment(
        loader=PackageLoader("verism.reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": tables.percent, "interval": tables.interval, "thousands": "{:,}".format}
    return environment.get_template("report.html.j2").render(
        title=_title(sources),
        style=Markup((templates / "report.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        data=_json_in_script({"scores": tables.json_report(runs), "csv": tables.csv_table(runs)}),
        protocols=("corrected", "released", "paper"),
        meanings=PROTOCOL_MEANING,
        skill_rules=[(skill, _skill(skill), SKILL_RULES[skill]) for skill in table.columns if skill in SKILL_RULES],
        sources=sources,
        cautions=_cautions(sources),
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
        n_pictures=sum(sum(s.states.values()) for s in sources),
        filters=_filters(tiles),
        outcomes=OUTCOMES,
        thresholds=[box_threshold(run) for run in runs],
        provenance=_provenance(sources),
        skill=_skill,
        dash=tables.UNDEFINED,
        run_colors=figures.RUN_COLORS,
    )


def _json_in_script(value: Any) -> Markup:
    """JSON that may stand inside ``<script>``: nothing in it can end the element or open another."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _skill(name: str) -> str:
    return SKILL_NAMES.get(name, name)


def _title(sources: Sequence[_Source]) -> str:
    suites = " and ".join(dict.fromkeys(s.suite for s in sources))
    if len(sources) == 1:
        return f"{sources[0].name} on {suites}"
    return f"{len(sources)} runs on {suites}"


def _mean_note(table: tables.Headline) -> str:
    """Which skills the mean is over, if it is not all of them."""
    left_out = [s for s in table.columns[:-1] if not any(s in of for of in table.mean_of)]
    if not left_out:
        return ""
    inside = dict.fromkeys(_skill(s) for of in table.mean_of for s in of)
    return f"The mean is over {', '.join(inside)}; {', '.join(map(_skill, left_out))} is optional and not part of it."


# --------------------------------------------------------------------------------------------------------------------
# Who, what, with which settings
# --------------------------------------------------------------------------------------------------------------------
def _source(name: str, run: Run) -> _Source:
    import polars as pl

    prompts = run.prompts()
    images = run.read("images").sort("image_id")
    by_state = dict(images["state"].value_counts().iter_rows())
    asked = sum(p.n_images for p in prompts)
    verdicts = run.verdicts().filter((pl.col("rule") == "accuracy") & (pl.col("protocol") == "corrected"))
    silent = verdicts.filter(pl.col("value").is_null())["image_id"]
    return _Source(
        name=name,
        suite=", ".join(dict.fromkeys(p.suite for p in prompts)) or "no suite",
        painter=_painter(run.manifest),
        judge=judge_of(run),
        n_prompts=len(prompts),
        asked=asked,
        states={state: by_state[state] for state in STATES if by_state.get(state)},
        pending=max(0, asked - images.height),
        unread=images.filter((pl.col("state") == "ok") & pl.col("image_id").is_in(silent.implode())).height,
        prompts_hash=content_hash([[p.prompt_id, p.text, p.n_images] for p in prompts])[:16],
        pictures_hash=_pictures_hash(images),
        run=run,
    )


def _pictures_hash(images: pl.DataFrame) -> str:
    return content_hash([list(row) for row in images.select("image_id", "state", "sha256").iter_rows()])[:16]


def _painter(manifest: Mapping[str, Any]) -> str:
    """Who made the pictures, in one line."""
    for place in (manifest.get("settings", {}), manifest.get("notes", {})):
        for key in ("generator", "model", "images"):
            value = place.get(key)
            if isinstance(value, Mapping):
                value = value.get("name") or value.get("spec") or json.dumps(value, sort_keys=True, ensure_ascii=False)
            if value:
                return str(value)
    return "not recorded"


def _judge_words(judge: str | None) -> str:
    if judge is None:
        return "none"
    return "the painter's own ground truth" if judge == TRUTH else judge


def _cautions(sources: Sequence[_Source]) -> list[str]:
    """Why numbers of different rows may not be comparable, or not final."""
    found = []
    for what, values in (
        ("suites", {s.suite for s in sources}),
        ("prompts", {s.prompts_hash for s in sources}),
        ("detectors", {_judge_words(s.judge) for s in sources}),
        ("limits of the rules", {content_hash(s.run.manifest.get("notes", {}).get("rules")) for s in sources}),
    ):
        if len(values) > 1:
            found.append(f"These runs were made with different {what}: their rows are not directly comparable.")
            if what == "suites":  # then everything else differs, too
                break
    found += [
        f"{s.name} is not finished: {s.pending:,} of {s.asked:,} pictures have not been asked for yet."
        for s in sources
        if s.pending
    ]
    found += [
        f"{s.name}: {s.unread:,} pictures that are in order have no usable verdict (not looked at, or the detector "
        "does not judge what is asked)."
        for s in sources
        if s.unread
    ]
    return found


def _flat(value: Any, name: str = "") -> dict[str, str]:
    """A nested record as dotted names and readable values."""
    if isinstance(value, Mapping):
        return {k: v for key in value for k, v in _flat(value[key], f"{name}.{key}" if name else str(key)).items()}
    if isinstance(value, list) and not any(isinstance(item, dict | list) for item in value):
        return {name: ", ".join(map(str, value)) or "none"}
    if isinstance(value, str):
        return {name: value}
    return {name: json.dumps(value, ensure_ascii=False)}


def _provenance(sources: Sequence[_Source]) -> list[tuple[str, list[tuple[str, list[str], bool]]]]:
    """Sections of rows: name, value per run, whether the values differ."""
    columns: list[dict[str, dict[str, str]]] = []
    for s in sources:
        manifest = s.run.manifest
        environment = manifest.get("environment", {})
        packages = environment.get("packages", {})
        columns.append(
            {
                "Run": {
                    "suite": s.suite,
                    "pictures made by": s.painter,
                    "judged by": _judge_words(s.judge),
                    "other judges kept": ", ".join(j for j in s.run.judges("detections") if j != s.judge) or "none",
                    "started": str(manifest.get("created", "not recorded")),
                    "prompts": f"{s.n_prompts:,}",
                    "pictures asked for": f"{s.asked:,}",
                    "pictures by state": ", ".join(f"{n:,} {state}" for state, n in s.states.items()) or "none",
                    "settings hash": str(manifest.get("settings_hash", "not recorded"))[:16],
                    "prompts hash": s.prompts_hash,
                    "pictures hash": s.pictures_hash,
                },
                "Settings": _flat(manifest.get("settings", {})),
                "Notes": _flat(manifest.get("notes", {})),
                "Software": {
                    **{key: str(environment[key]) for key in ("verism", "python", "platform") if key in environment},
                    **{f"{name}": str(version) for name, version in packages.items()},
                },
            }
        )
    sections = []
    for section in columns[0]:
        keys = dict.fromkeys(key for column in columns for key in column[section])
        rows = [(key, [column[section].get(key, tables.UNDEFINED) for column in columns]) for key in keys]
        if rows:
            sections.append((section, [(key, values, len(set(values)) > 1) for key, values in rows]))
    return sections


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
