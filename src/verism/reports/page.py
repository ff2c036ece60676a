"""What every report page has in common: who made the pictures, how they were judged, provenance, and the file itself.

A page holds everything it needs. Text that comes from runs (prompts, notes, file names, models' names) is escaped by
the template engine; beyond that, the page forbids itself all scripts but its own, whose hash it carries. It holds no
date of its own making, so that the same runs give the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from verism.cards import JudgeCard
from verism.files import write_whole
from verism.records import ROLES, STATES, TABLES, content_hash
from verism.reports import tables
from verism.reports.adjustments import adjusted_rows
from verism.reports.gallery import judge_of
from verism.reports.judging import judge_panels
from verism.reports.svg import RUN_COLORS
from verism.store import TRUTH, Run

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "PROTOCOL_ORDER",
    "Source",
    "cautions",
    "introduce",
    "json_in_script",
    "provenance",
    "render",
    "title_of",
    "write_page",
]

PROTOCOL_ORDER = ("corrected", "released", "paper")  # as pages show them: what to compare models with first

MANY = 60  # entries of a record that the provenance no longer lists one by one

JUDGE_NAMES = {
    "detector": "detectors",
    "features": "image features",
    "clip": "image-text models",
    "captioner": "captioners",
    "skin_tone": "judges of skin tone",
    "vqa": "judges of questions",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """One run as a page introduces it.

    Attributes:
        painter: who made the pictures. judges: who looked, in words, by role; nobody has no entry.
        states: pictures by state; ``pending`` are asked for but not made yet.
        unread: pictures that are ok but have no usable verdict.
        prompts_hash, pictures_hash: equal if two runs asked the same, and got the same.
    """

    name: str
    suite: str
    painter: str
    judges: Mapping[str, str]
    n_prompts: int
    asked: int
    states: Mapping[str, int]
    pending: int
    unread: int
    prompts_hash: str
    pictures_hash: str
    run: Run


def introduce(name: str, run: Run, *, unread: int = 0) -> Source:
    """One run as a page introduces it."""
    prompts = run.prompts()
    images = run.read("images").sort("image_id")
    by_state = dict(images["state"].value_counts().iter_rows())
    asked = sum(p.n_images for p in prompts)
    return Source(
        name=name,
        suite=", ".join(dict.fromkeys(p.suite for p in prompts)) or "no suite",
        painter=_painter(run.manifest),
        judges=_judges(run),
        n_prompts=len(prompts),
        asked=asked,
        states={state: by_state[state] for state in STATES if by_state.get(state)},
        pending=max(0, asked - images.height),
        unread=unread,
        prompts_hash=content_hash([[p.prompt_id, p.text, p.n_images] for p in prompts])[:16],
        pictures_hash=_pictures_hash(images),
        run=run,
    )


def _judges(run: Run) -> dict[str, str]:
    named = {role: name for role in ROLES if (name := run.judge(role)) is not None}
    detector = judge_of(run)
    if detector is not None:
        named["detector"] = "the painter's own ground truth" if detector == TRUTH else detector
    return named


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


def cautions(sources: Sequence[Source]) -> list[str]:
    """Why numbers of different rows may not be comparable, or not final."""
    found = []
    for what, values in (
        ("suites", {s.suite for s in sources}),
        # In `quality` prompts are but names of pictures.
        ("prompts", {s.prompts_hash for s in sources if s.suite != "quality"}),
        *[(JUDGE_NAMES[role], {s.judges.get(role, "none") for s in sources}) for role in ROLES],
        ("real pictures", {s.run.manifest.get("settings", {}).get("reference") for s in sources}),
        ("rules", {content_hash(s.run.manifest.get("notes", {}).get("rules")) for s in sources}),
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
        f"{s.name}: {s.unread:,} pictures that are in order have no usable verdict (not looked at, or the judge "
        "could not answer what is asked)."
        for s in sources
        if s.unread
    ]
    return found


def _flat(value: Any, name: str = "") -> dict[str, str]:
    """A nested record as dotted names and readable values."""
    if isinstance(value, Mapping) and len(value) > MANY:
        return {name: f"{len(value):,} entries, hash {content_hash(value)[:16]}"}
    if isinstance(value, Mapping):
        return {k: v for key in value for k, v in _flat(value[key], f"{name}.{key}" if name else str(key)).items()}
    if isinstance(value, list) and not any(isinstance(item, dict | list) for item in value):
        return {name: ", ".join(map(str, value)) or "none"}
    if isinstance(value, str):
        return {name: value}
    return {name: json.dumps(value, ensure_ascii=False)}


def provenance(sources: Sequence[Source]) -> list[tuple[str, list[tuple[str, list[str], bool]]]]:
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
                    **{f"{role}": name for role, name in s.judges.items()},
                    "other judges kept": ", ".join(_others(s)) or "none",
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


def _others(source: Source) -> list[str]:
    """Judges whose observations the run keeps, but whose the scores are not made from."""
    used = {source.run.judge(role) for role in ROLES} | {judge_of(source.run)}
    kept = [name for table in TABLES for name in source.run.judges(table)]
    return sorted(set(kept) - used)


def title_of(sources: Sequence[Source]) -> str:
    """What the page is about."""
    suites = " and ".join(dict.fromkeys(s.suite for s in sources))
    if len(sources) == 1:
        return f"{sources[0].name} on {suites}"
    return f"{len(sources)} runs on {suites}"


def render(template: str, sources: Sequence[Source], *, cards: Sequence[JudgeCard] = (), **values: Any) -> str:
    """A template of ``templates/`` with what every page shows, and ``values`` of its own.

    Args:
        cards: of judges, besides those in the runs and those that come with verism.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

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
    runs = [s.run for s in sources]
    adjusted = adjusted_rows(runs)
    return environment.get_template(template).render(
        title=title_of(sources),
        style=Markup((templates / "report.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        data=json_in_script({"scores": tables.json_report(runs), "csv": tables.csv_table(runs)}),
        protocols=PROTOCOL_ORDER,
        sources=sources,
        cautions=cautions(sources),
        adjusted_rows=adjusted,
        has_adjusted=any(adjusted.values()),
        judge_panels=judge_panels(runs, cards),
        provenance=provenance(sources),
        n_pictures=sum(sum(s.states.values()) for s in sources),
        dash=tables.UNDEFINED,
        run_colors=RUN_COLORS,
        **values,
    )


def write_page(page: str, out: Path) -> Path:
    """Write a page whole; ``out`` is an ``.html`` file, or a directory that gets an ``index.html``."""
    file = out if out.suffix.lower() in (".html", ".htm") else out / "index.html"
    # A lone half of a character pair can come out of a manifest, and is no reason to have no report.
    write_whole(file, page.encode("utf-8", "backslashreplace"))
    return file


def json_in_script(value: Any) -> Markup:
    """JSON that may stand inside ``<script>``: nothing in it can end the element or open another."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
