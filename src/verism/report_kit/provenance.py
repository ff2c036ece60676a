"""Where the numbers of a report come from: who made the images, who judged them, settings and software."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verism.records import NEEDS, STATES, TABLES, content_hash, roles
from verism.report_kit.comparability import set_sizes
from verism.report_kit.evidence import Evidence, union
from verism.report_kit.gallery import boxes_of
from verism.report_kit.outcomes import within
from verism.report_kit.words import UNDEFINED
from verism.specs import Presentation
from verism.store import TRUTH, Run

if TYPE_CHECKING:
    pass

__all__ = ["Source", "cautions", "introduce", "provenance"]

MANY = 60  # entries of a record that the provenance no longer lists one by one


@dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """One run as a page introduces it.

    Attributes:
        name: of the run.
        suite: its title.
        generator: who made the images.
        judges: who judged, in words, by role; nobody has no entry.
        n_prompts: number of prompts.
        asked: images asked for.
        states: images by state.
        pending: images asked for that are not made yet.
        unread: images that are ok but have no usable verdict of those that say right or wrong.
        prompts_hash: equal if two runs asked the same.
        images_hash: equal if two runs got the same.
        against: what its images are held against: features, real images, both numbers of images; empty for nothing.
        run: the run.
    """

    name: str
    suite: str
    generator: str
    judges: Mapping[str, str]
    n_prompts: int
    asked: int
    states: Mapping[str, int]
    pending: int
    unread: int
    prompts_hash: str
    images_hash: str
    against: str
    run: Run


def introduce(evidence: Evidence) -> list[Source]:
    """The runs as a page introduces them."""
    return [_source(evidence, number) for number in range(len(evidence.runs))]


def _source(evidence: Evidence, number: int) -> Source:
    run = evidence.runs[number]
    prompts = run.prompts()
    images = run.image_summary()
    by_state = images.states
    asked = sum(p.n_images for p in prompts)
    return Source(
        name=evidence.names[number],
        suite=run.suite_name,
        generator=evidence.bare(run.manifest.settings.generator or "not recorded"),
        judges={role: evidence.bare(name) for role, name in _judges(run).items()},
        n_prompts=len(prompts),
        asked=asked,
        states={state: by_state[state] for state in STATES if by_state.get(state)},
        pending=max(0, asked - sum(by_state.values())),
        unread=_unread(evidence, number),
        prompts_hash=content_hash([[p.prompt_id, p.text, p.n_images] for p in prompts])[:16],
        images_hash=images.digest[:16],
        against=evidence.bare(_against(evidence, number)),
        run=run,
    )


def _against(evidence: Evidence, number: int) -> str:
    run, presentation = evidence.runs[number], evidence.presentations[number]
    specs = [spec for spec in presentation.metrics if spec.against_real]
    names = {spec.name for spec in specs}
    if not any(s.metric in names for s in evidence.scores[number]):
        return ""
    sizes = set_sizes(evidence.scores[number], presentation)
    whole = sizes.get((evidence.main, frozenset()))
    judges = union([name] for spec in specs for role in spec.judges[:1] if (name := run.judge(role)))
    real = _real_images(run, presentation)
    compared = f"{whole.text()} images" if whole is not None else ""
    return ", ".join(filter(None, (f"features {' and '.join(judges) or 'not recorded'}", real, compared)))


def _real_images(run: Run, presentation: Presentation) -> str:
    """What real images a run compares with: the name of their folder or file, and how many there are."""
    reference = run.read("reference")
    name = presentation.reference
    if not name and reference.height:
        parents = {Path(path).parent for path in reference["path"].drop_nulls().to_list()}
        name = Path(os.path.commonpath(parents)).name if parents else ""
    return " ".join(
        filter(
            None,
            ("real images:" if name else "real images", name, f"({reference.height:,})" if reference.height else ""),
        )
    )


def _unread(evidence: Evidence, number: int) -> int:
    """Images that are in order but that no rule could call right or wrong."""
    import polars as pl

    rules = [q.rule for q in evidence.presentations[number].pairings if q.right_or_wrong]
    if not rules:
        return 0
    run = evidence.runs[number]
    verdicts = run.scan_verdicts().filter(pl.col("rule").is_in(rules) & (pl.col("protocol") == evidence.main))
    silent = verdicts.filter(pl.col("value").is_null()).select("image_id")
    unread = 0
    with run.blocks({}, columns=["image_id", "state"]) as blocks:
        for images, _ in blocks:
            if images.height:
                block = within(images["image_id"])
                of_block = silent.filter(block).collect()["image_id"]
                in_order = images.filter(pl.col("state") == "ok")
                unread += in_order.filter(pl.col("image_id").is_in(of_block.implode())).height
    return unread


def _judges(run: Run) -> dict[str, str]:
    named = {role: name for role in roles() if (name := run.judge(role)) is not None}
    source = boxes_of(run)
    if source is not None:
        named[next(role for role in roles() if NEEDS[role].table == source[0])] = source[1]
    return {role: "the ground truth of the generator" if name == TRUTH else name for role, name in named.items()}


def cautions(sources: Sequence[Source]) -> list[str]:
    """Why numbers may not be final. Why those of different rows may not be comparable, ``Evidence.reasons`` say."""
    results = []
    results += [
        f"{s.name} is not finished: {s.pending:,} of {s.asked:,} images have not been asked for yet."
        for s in sources
        if s.pending
    ]
    results += [
        f"{s.name}: {s.unread:,} images that are in order have no usable verdict (not judged, or the judge could not "
        "answer what is asked)."
        for s in sources
        if s.unread
    ]
    return results


def _flat(value: Any, name: str = "") -> dict[str, str]:
    """A nested record as dotted names and readable values."""
    if isinstance(value, Mapping) and len(value) > MANY:
        return {name: f"{len(value):,} entries, hash {content_hash(value)[:16]}"}
    if isinstance(value, Mapping):
        return {k: v for key in value for k, v in _flat(value[key], f"{name}.{key}" if name else str(key)).items()}
    if isinstance(value, list | tuple) and not any(isinstance(item, dict | list | tuple) for item in value):
        return {name: ", ".join(map(str, value)) or "none"}
    if isinstance(value, str):
        return {name: value}
    return {name: json.dumps(value, ensure_ascii=False, default=str)}


def provenance(evidence: Evidence, sources: Sequence[Source]) -> list[tuple[str, list[tuple[str, list[str], bool]]]]:
    """Sections of rows: name, value per run, whether the values differ.

    Args:
        evidence: what the report is made of.
        sources: its runs.
    """
    columns = [
        {section: {key: evidence.bare(value) for key, value in rows.items()} for section, rows in _column(s).items()}
        for s in sources
    ]
    sections = []
    for section in columns[0]:
        keys = dict.fromkeys(key for column in columns for key in column[section])
        rows = [(key, [column[section].get(key, UNDEFINED) for column in columns]) for key in keys]
        if rows:
            sections.append((section, [(key, values, len(set(values)) > 1) for key, values in rows]))
    return sections


def _column(s: Source) -> dict[str, dict[str, str]]:
    manifest = s.run.manifest
    environment = {k: v for k, v in asdict(manifest.environment).items() if v not in ("", None, {})}
    return {
        "Run": {
            "suite": s.suite,
            "images made by": s.generator,
            **({"compared with": s.against} if s.against else {}),
            **s.judges,
            "other judges kept": ", ".join(_others(s)) or "none",
            "started": manifest.created or "not recorded",
            "prompts": f"{s.n_prompts:,}",
            "images asked for": f"{s.asked:,}",
            "images by state": ", ".join(f"{n:,} {state}" for state, n in s.states.items()) or "none",
            "settings hash": manifest.settings.hash()[:16],
            "prompts hash": s.prompts_hash,
            "images hash": s.images_hash,
        },
        "Settings": _flat({k: v for k, v in asdict(manifest.settings).items() if k != "suite"}),
        "Scoring": _flat(asdict(manifest.scoring)),
        "Generator": _flat(manifest.generator),
        "Software": _flat(environment),
    }


def _others(source: Source) -> list[str]:
    """Judges whose observations the run keeps, but whose the scores are not made from."""
    used = {source.run.judge(role) for role in roles()} | {(boxes_of(source.run) or ("", None))[1]}
    kept = [name for table in TABLES for name in source.run.judges(table)]
    return sorted(set(kept) - used)
