"""The report of T2I-CompBench: what suits any suite, with what each category is scored by."""

from __future__ import annotations

from collections.abc import Sequence

from verism.records import Prompt
from verism.report_kit.evidence import Evidence
from verism.report_kit.gallery import GallerySettings
from verism.report_kit.generic import generic_sections
from verism.report_kit.section import Section, table_section
from verism.store import Run

__all__ = ["compbench_sections"]

DRAWN = 0.1  # confidence from which boxes are drawn
CATEGORY_RULES = (
    ("color, shape, texture", "a question for each noun phrase; probabilities of yes, multiplied", "BLIP-VQA"),
    ("spatial (2D)", "a quarter of each object's confidence, half of the relation of their boxes", "UniDet"),
    ("spatial (3D)", "the same with the relation of mean depths inside the boxes", "UniDet, DPT-hybrid"),
    ("numeracy", "each kind of object: half for being there, half for the exact number", "UniDet"),
    ("non-spatial", "cosine of image and prompt", "CLIP ViT-B/32"),
    ("complex", "mean of attribute binding, relation and cosine, as the list of the prompt says", "all three"),
)


def compbench_sections(evidence: Evidence) -> Sequence[Section]:
    """The sections of the page."""
    gallery = GallerySettings(
        filters={"category": ("category",), "relation": ("relation",)}, labels=_labels, threshold=_threshold
    )
    rows = [list(row) for row in CATEGORY_RULES]
    rules = table_section(
        "What each category is scored by", ["category", "rule", "judge as published"], rows, place="method"
    )
    results, *others = generic_sections(evidence, gallery=gallery)
    return [results, rules, *others]


def _labels(prompt: Prompt) -> Sequence[str]:
    """What boxes a prompt asks for, by the names that the detector was given."""
    from verism.suites.compbench.spatial import detector_name
    from verism.suites.compbench.vocabulary import RENAMED

    names = [detector_name(name) for name in prompt.spec["names"] or ()]
    return [*names, *(RENAMED.get(name, name) for name, _ in prompt.spec["numbers"])]


def _threshold(run: Run) -> float:
    value = run.manifest.scoring.rules.get("box_threshold_revised")
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else DRAWN
