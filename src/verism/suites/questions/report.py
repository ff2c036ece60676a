"""The report of suites of questions: what suits any suite, and the switches that each number must be quoted with."""

from __future__ import annotations

from collections.abc import Sequence

from verism.report_kit.evidence import Evidence
from verism.report_kit.gallery import GallerySettings
from verism.report_kit.generic import generic_sections
from verism.report_kit.section import Section, table_section

__all__ = ["SWITCHES", "question_sections"]

SWITCHES = " Switches: "  # stands before them in the meaning of a protocol


def question_sections(evidence: Evidence) -> Sequence[Section]:
    """The sections of the page."""
    results, *others = generic_sections(evidence, gallery=GallerySettings(answers=_answers))
    rows = []
    for name, run, presentation in zip(evidence.names, evidence.runs, evidence.presentations, strict=True):
        judge = run.manifest.scoring.judges.get("vqa", "")
        for protocol, meaning in presentation.info.protocols.items():
            _, _, switches = meaning.partition(SWITCHES)
            rows.append([name, protocol, switches.removesuffix("."), judge])
    table = table_section("What each number must be quoted with", ["run", "protocol", "switches", "judge"], rows)
    return [results, table, *others]


def _answers(rule: str) -> tuple[str, str]:
    return ("wrong", "right") if rule.startswith("question") else ("no", "yes")
