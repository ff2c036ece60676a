"""The report as one HTML file: numbers, figures and evidence, readable without a network and by keyboard alone.

A page holds everything it needs. Text that comes from runs (prompts, notes, file names, models' names) is escaped by
the template engine; beyond that, the page forbids itself all scripts but its own, whose hash it carries. It holds no
date of its own making, so that the same runs give the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, Protocol

from markupsafe import Markup

from verism.cards import JudgeCard
from verism.characters import visible
from verism.errors import UsageError
from verism.files import write_whole
from verism.records import Score
from verism.report_kit import tables
from verism.report_kit.adjustments import adjusted_rows
from verism.report_kit.curves import curve_section
from verism.report_kit.evidence import Evidence, Of, RunDifference, scoring_answers, shares_page, union
from verism.report_kit.figures import environment
from verism.report_kit.generic import generic_sections, method_section
from verism.report_kit.judges import judge_panels
from verism.report_kit.plots import LEVEL
from verism.report_kit.provenance import cautions, introduce, provenance
from verism.report_kit.repetition import command_of
from verism.report_kit.section import Section, stored_sections
from verism.specs import Presentation, Rule
from verism.store import Run

__all__ = [
    "Reported",
    "against_baseline",
    "answers_of",
    "json_in_script",
    "page_file",
    "page_parts",
    "render",
    "sections_of",
    "write_page",
    "write_report",
]


class Reported(Protocol):
    """What makes sections, answers and commands: a suite."""

    options: ClassVar[Any]
    rules: ClassVar[Any]

    def answers(self, scores: Sequence[Score]) -> Sequence[str]:
        """Sentences that answer its question with the numbers of a run."""

    def default_of(self, rule: Rule) -> Any:
        """The value of a rule that nobody changed, as plain JSON."""

    def sections(self, evidence: Evidence) -> Sequence[Section] | None:
        """Its part of the page; None for the page that suits any suite."""


def write_report(
    runs: Sequence[Run],
    out: Path,
    *,
    suites: Sequence[Reported | None] | None = None,
    presentations: Sequence[Presentation] | None = None,
    gallery: int = 120,
    embed_pixels: int = 256,
    cards: Sequence[JudgeCard] = (),
    tests: Mapping[Of, RunDifference] | None = None,
    parent: str = "",
) -> Path:
    """Write the report of one run, or of several side by side.

    Args:
        runs: scored runs; rows of every table are in this order.
        out: an ``.html`` file, or a directory that gets an ``index.html``. Replaced if it is there.
        suites: of each run; None for one that is not installed, whose sections are those that the run keeps.
        presentations: of the suite of each run; None: as the runs keep them.
        gallery: how many images to show, over all runs; 0 for none.
        embed_pixels: longer side of an embedded image at most, in pixels.
        cards: of judges, besides those in the folder ``cards`` of each run and those that come with verism.
        tests: numbers of the other runs against those of the first, the baseline; None for none.
        parent: file name of the page that leads here; empty for none.

    Returns:
        The file written.

    Raises:
        UsageError: no runs, runs whose suites have no page in common, or a gallery that cannot be.
        VerismError: a run has no prompts, verdicts or scores yet.
    """
    evidence = Evidence.of(runs, presentations, gallery=gallery, embed_pixels=embed_pixels, cards=cards, tests=tests)
    if not shares_page(evidence.presentations):
        names = " and ".join(union([p.info.name] for p in evidence.presentations))
        raise UsageError(f"runs of {names} have no page in common; report them one by one")
    known = suites or [None] * len(runs)
    return write_page(render(evidence, sections_of(evidence, known), suites=known, parent=parent), out)


def sections_of(evidence: Evidence, suites: Sequence[Reported | None]) -> list[Section]:
    """The sections of a page: those of the suite, or those that the runs keep, or those that suit any suite.

    Args:
        evidence: what the report is made of.
        suites: of each run; None for one that is not installed.
    """
    sections = _evidence_of(evidence, suites)
    if (curves := curve_section(evidence)) is not None:
        sections.insert(1, curves)
    if not any(section.id == "method" for section in sections):
        sections.append(method_section(evidence))
    return sorted(sections, key=lambda section: section.place == "method")  # the order is kept otherwise


def _evidence_of(evidence: Evidence, suites: Sequence[Reported | None]) -> list[Section]:
    if all(suite is not None for suite in suites) and suites[0] is not None:
        subset = suites[0].sections(evidence)
        return generic_sections(evidence) if subset is None else list(subset)
    generic = {section.id: section for section in generic_sections(evidence)}
    kept = [stored_sections(run) for run in evidence.runs]
    if not any(kept):
        return list(generic.values())
    if len(evidence.runs) == 1:
        order = [generic.pop(s.id, None) if s.generic else s for s in kept[0] or []]
        return [*(s for s in order if s is not None), *generic.values()]
    particular = [
        replace(s, id=f"{s.id}-{n + 1}", title=f"{s.title}: {name}", nav=f"{s.nav or s.title}, {name}")
        for n, (name, members) in enumerate(zip(evidence.names, kept, strict=True))
        for s in members or []
        if not s.generic
    ]
    return [*generic.values(), *particular]


def render(
    evidence: Evidence, sections: Sequence[Section], *, suites: Sequence[Reported | None] = (), parent: str = ""
) -> str:
    """The page as text: the answer, the first table, evidence, then method and provenance.

    Args:
        evidence: what the report is made of.
        sections: its content; adjusted numbers, judges and provenance are added.
        suites: of each run, for the commands that repeat them; empty for unknown ones.
        parent: file name of the page that leads here; empty for none.
    """
    sources = introduce(evidence)
    adjusted = adjusted_rows(evidence)
    return (
        environment()
        .get_template("page.html.j2")
        .render(
            evidence=evidence,
            names=evidence.names,
            title=_title(evidence),
            **page_parts(evidence.protocols),
            data=json_in_script(
                {
                    "scores": [
                        {**record, "cautions": [evidence.local.without_known(text) for text in record["cautions"]]}
                        for record in tables.json_report(evidence.runs, evidence.presentations)
                    ],
                    "csv": evidence.local.without_known(tables.csv_table(evidence.runs, evidence.presentations)),
                }
            ),
            protocols=evidence.protocols,
            sources=sources,
            reasons=evidence.reasons,
            cautions=cautions(sources),
            sections=[s for s in sections if s.place == "evidence"],
            methods=[s for s in sections if s.place == "method"],
            commands=_commands(evidence, suites),
            parent=parent,
            adjusted_rows=adjusted,
            has_adjusted=any(adjusted.values()),
            judge_panels=judge_panels(evidence.runs, evidence.cards),
            provenance=provenance(evidence, sources),
            limits=union(p.info.limits for p in evidence.presentations),
            answers=answers_of(evidence, suites),
            against=[against_baseline(evidence, n) for n in range(len(evidence.runs))],
            question=" ".join(union([p.info.question] for p in evidence.presentations)),
            version=evidence.runs[0].manifest.environment.verism,
        )
    )


def page_parts(protocols: Sequence[str]) -> dict[str, Any]:
    """Style, script and the script's hash, for the template of a page.

    Args:
        protocols: between which the page can switch.
    """
    templates = resources.files("verism.report_kit") / "templates"
    script = (templates / "report.js").read_text(encoding="utf-8")
    style = (templates / "report.css").read_text(encoding="utf-8") + _switching(protocols)
    return {
        "style": Markup(style),
        "script": Markup(script),
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    }


def answers_of(evidence: Evidence, suites: Sequence[Reported | None]) -> list[list[str]]:
    """By run, the sentences that answer the suite's question.

    Args:
        evidence: what the page is made of.
        suites: of each run; empty for unknown ones.
    """
    known = suites or [None] * len(evidence.runs)
    return [
        scoring_answers(run, presentation, suite)
        for run, presentation, suite in zip(evidence.runs, evidence.presentations, known, strict=True)
    ]


def against_baseline(evidence: Evidence, run: int) -> str:
    """How a run differs from the first in the first headline metric that they were compared by; empty without any.

    Args:
        evidence: what the page is made of.
        run: number of the run.
    """
    specs = [spec for spec in evidence.presentations[run].metrics if spec.headline]
    for spec in specs:
        for score in evidence.scores[run]:
            if (score.metric, score.protocol) != (spec.name, evidence.main) or not evidence.vocabulary.is_summary(
                score
            ):
                continue
            test = evidence.tested(run, score)
            if test is not None and (found := tables.difference_words(test)):
                clear = "" if test.p < LEVEL else ", no significant difference"
                return f"Against {evidence.names[0]}, {evidence.vocabulary.title(score.metric)}: {found}{clear}."
    return ""


def _commands(evidence: Evidence, suites: Sequence[Reported | None]) -> list[tuple[int, str]]:
    """The number of a run and the command that repeats it, for runs that say how they were made."""
    known = suites or [None] * len(evidence.runs)
    commands = [command_of(run, suite) for run, suite in zip(evidence.runs, known, strict=True)]
    return [(n, command) for n, command in enumerate(commands) if command]


def _title(evidence: Evidence) -> str:
    suites = " and ".join(union([p.info.title] for p in evidence.presentations))
    return f"{evidence.names[0]} on {suites}" if len(evidence.runs) == 1 else f"{len(evidence.runs)} runs on {suites}"


def _switching(protocols: Sequence[str]) -> str:
    """The rules of style that show what belongs to the chosen protocol."""
    named = [
        "".join(c if re.match(r"[A-Za-z0-9_-]", c) else f"\\{ord(c):x} " for c in protocol) for protocol in protocols
    ]
    rules = [f':root[data-protocol="{p}"] [data-p]:not([data-p="{p}"])' for p in named]
    return ",\n".join(rules) + " { display: none; }\n" if rules else ""


def page_file(out: Path) -> Path:
    """The file of a page: ``out`` itself if it is an ``.html`` file, else ``index.html`` in it."""
    return out if out.suffix.lower() in (".html", ".htm") else out / "index.html"


def write_page(page: str, out: Path) -> Path:
    """Write a page whole; ``out`` is an ``.html`` file, or a directory that gets an ``index.html``."""
    file = page_file(out)
    # Names and texts of anybody: what would reorder the text around it, or cannot be written, is shown as an escape.
    write_whole(file, visible(page, keep="\r\f"))
    return file


def json_in_script(value: Any) -> Markup:
    """JSON that may stand inside ``<script>``: nothing in it can end the element or open another."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
