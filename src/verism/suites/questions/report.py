"""The report of suites of questions: what suits any suite, with the answers to questions called right and wrong."""

from __future__ import annotations

from collections.abc import Sequence

from verism.report_kit.evidence import Evidence
from verism.report_kit.gallery import GallerySettings
from verism.report_kit.generic import generic_sections
from verism.report_kit.section import Section

__all__ = ["question_sections"]


def question_sections(evidence: Evidence) -> Sequence[Section]:
    """The sections of the page."""
    return generic_sections(evidence, gallery=GallerySettings(answers=_answers))


def _answers(rule: str) -> tuple[str, str]:
    return ("wrong", "right") if rule.startswith("question") else ("no", "yes")
