"""The report of text rendering: what suits any suite, what counts as right, and how well the engine reads."""

from __future__ import annotations

from collections.abc import Sequence

from verism.report_kit.evidence import Evidence
from verism.report_kit.gallery import GallerySettings
from verism.report_kit.generic import generic_sections
from verism.report_kit.section import Section, table_section
from verism.store import Run

__all__ = ["text_sections"]

RULES = (
    ("case", "upper and lower case"),
    ("punctuation", "punctuation marks"),
    ("text_order", "regions: within each text; reading: of the texts as well"),
    ("repeats", "count: a word asked for twice has to be read twice"),
    ("surplus", "count: surplus text is an error"),
)
ERRORS = ("ocr_cer", "ocr_wer", "ocr_blind")


def text_sections(evidence: Evidence) -> Sequence[Section]:
    """The sections of the page."""
    gallery = GallerySettings(filters={"language": ("language",), "length": ("length",), "texts": ("regions",)})
    results, *others = generic_sections(evidence, gallery=gallery)
    sections = [results, _rules(evidence)]
    if errors := _errors(evidence):
        sections.append(errors)
    return [*sections, *others]


def _rules(evidence: Evidence) -> Section:
    values = [[name, meaning, *(_value(run, name) for run in evidence.runs)] for name, meaning in RULES]
    return table_section("What counts under revised", ["rule", "meaning", *evidence.names], values, place="method")


def _value(run: Run, name: str) -> str:
    return str(run.manifest.scoring.rules.get(name, ""))


def _errors(evidence: Evidence) -> Section | None:
    """Errors of the engine by condition, of runs whose images come with their text; None without any."""
    rows = []
    for name, run in zip(evidence.names, evidence.runs, strict=True):
        by_group: dict[tuple[str, str], dict[str, str]] = {}
        for score in run.scores():
            if score.metric in ERRORS:
                facet, value = next(iter(score.group.items()), ("", "all"))
                cells = by_group.setdefault((facet, str(value)), {"images": f"{score.n_used:,}"})
                interval = f"{score.value:.3f}"
                if score.ci_low == score.ci_low:
                    interval += f" [{score.ci_low:.3f}, {score.ci_high:.3f}]"
                cells[score.metric] = interval
        for (facet, value), cells in by_group.items():
            label = f"{facet.removeprefix('render_')} = {value}" if facet else value
            rows.append([name, label, *(cells.get(metric, "") for metric in ERRORS), cells["images"]])
    if not rows:
        return None
    columns = ["run", "images of", "character error rate", "word error rate", "reads nothing", "images"]
    return table_section("How well the OCR engine reads known texts", columns, rows)
