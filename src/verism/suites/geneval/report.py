"""The report of GenEval: what suits any suite, with what each protocol does and the boxes of what was asked for."""

from __future__ import annotations

from collections.abc import Sequence

from verism.records import Prompt
from verism.report_kit.evidence import Evidence
from verism.report_kit.gallery import GallerySettings
from verism.report_kit.generic import generic_sections
from verism.report_kit.section import Section, table_section
from verism.store import Run

__all__ = ["geneval_sections"]

DRAWN = 0.3  # confidence from which boxes are drawn
TASK_RULES = (
    ("single object, two objects", "at least one object of every class asked for, whatever else is there"),
    ("counting", "exactly so many objects of the class, of which each is very sure (0.9)"),
    ("colours, attribute binding", "the object of the class has the colour"),
    ("position", "both objects are there, and the one lies as asked relative to the other"),
)


def geneval_sections(evidence: Evidence) -> Sequence[Section]:
    """The sections of the page."""
    gallery = GallerySettings(
        filters={"task": ("task",), "class": ("class", "class_b"), "colour": ("color", "color_b")},
        labels=_labels,
        threshold=_threshold,
    )
    rules = table_section(
        "What makes an image right", ["task", "rule"], [list(row) for row in TASK_RULES], place="method"
    )
    results, *others = generic_sections(evidence, gallery=gallery)
    return [results, rules, *others]


def _labels(prompt: Prompt) -> Sequence[str]:
    return [entry["class"] for entry in prompt.spec["metadata"]["include"]]


def _threshold(run: Run) -> float:
    value = run.manifest.scoring.rules.get("object_threshold_revised")
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else DRAWN
