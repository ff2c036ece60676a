"""The report of PaintSkills: accuracy by skill, the parts of a right answer, breakdowns, judge errors, images."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from verism.records import Score
from verism.report_kit.evidence import Evidence
from verism.report_kit.figures import FigureByProtocol, figure, part
from verism.report_kit.gallery import GallerySettings, image_gallery
from verism.report_kit.generic import (
    ResultSettings,
    breakdown_section,
    judge_section,
    method_section,
    protocol_section,
    results_section,
)
from verism.report_kit.maps import CountCell, count_map
from verism.report_kit.plots import facet_bars
from verism.report_kit.section import Section
from verism.report_kit.tables import Columns, columns_of
from verism.report_kit.words import interval, percent
from verism.store import Run

__all__ = ["paintskills_sections"]

SKILL_RULES = {
    "object": {
        "revised": "a box of the class above the threshold, whatever else is there",
        "released": "the most confident of all boxes has the class; no threshold",
        "paper": "the most confident box has the class and is above the paper's threshold",
    },
    "count": {
        "revised": "exactly that many boxes of the class above the threshold, and no box of another class",
        "released": "of the n boxes most like the class (n: boxes of any class above the threshold), exactly as many "
        "as asked for are of the class",
        "paper": "the M most confident boxes are of the class; further boxes are ignored",
    },
    "spatial": {
        "revised": "the best box of each class above the threshold; their offset is clear, and along the right axis",
        "released": "the two most confident boxes are of the two classes, in the relation of the longer axis; for two "
        "objects of one class either direction counts",
        "paper": "the same two boxes; only the relation's own axis counts",
    },
    "color": {
        "revised": "the best box of the class above the threshold has the colour",
        "released": "the most confident of all boxes has the class and the colour; no threshold",
        "paper": "the same above the paper's threshold",
    },
}
PARTS = {
    "count": {"right_number": "right number", "right_classes": "right class", "accuracy": "both"},
    "spatial": {"right_classes": "both classes there", "accuracy": "and the relation"},
    "color": {"right_object": "right object", "right_color": "right colour", "accuracy": "both"},
    "object": {"accuracy": "object there", "only_object": "and no other class"},
}
STRICTER = ("object",)  # skills whose second number is no part of the rule, but a stricter one
BOUND = ("accuracy_if_unusable_wrong", "if unusable were wrong")
FILTERS = {"skill": ("skill",), "object": ("object", "object_b")}


def paintskills_sections(evidence: Evidence) -> Sequence[Section]:
    """The sections of the page."""
    table = columns_of(evidence)
    rules = [
        (evidence.vocabulary.value_name("skill", skill), SKILL_RULES[skill])
        for skill in table.values
        if skill in SKILL_RULES
    ]
    reading = part(evidence, "rules.html.j2", package=__package__, rules=rules)
    result = (
        results_section(evidence, ResultSettings(bound=BOUND)),
        _parts(evidence, table),
        breakdown_section(evidence),
        judge_section(evidence),
        image_gallery(evidence, GallerySettings(filters=FILTERS, threshold=_threshold)),
        protocol_section(evidence),
        method_section(evidence, reading),
    )
    return [section for section in result if section is not None]


def _threshold(run: Run) -> float:
    """Confidence from which boxes are drawn: the threshold of the revised protocol, 0.5 if the run names none."""
    value = run.manifest.scoring.rules.get("threshold_revised")
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.5


def _parts(evidence: Evidence, table: Columns) -> Section:
    body = part(
        evidence,
        "answer_parts.html.j2",
        package=__package__,
        tasks=_tasks(evidence, table),
        confusion=_confusion(evidence),
    )
    return Section(title="Parts of a right answer", id="parts", nav="Parts", body=body)


def _tasks(evidence: Evidence, table: Columns) -> list[FigureByProtocol]:
    """Per skill, the parts of a right answer, and the whole."""
    results: list[FigureByProtocol] = []
    for skill in table.values:
        names = PARTS.get(skill, {})
        if not any(
            members.of(metric, "skill") for members in evidence.lookups for metric in names if metric != "accuracy"
        ):
            continue
        title = evidence.vocabulary.value_name("skill", skill)
        what = "the rule, and a stricter one" if skill in STRICTER else "parts of a right answer"

        def draw(
            protocol: str, skill: str = skill, names: dict[str, str] = names, title: str = title, what: str = what
        ) -> Markup:
            cells = {m: [members.get(m, protocol, skill=skill) for members in evidence.lookups] for m in names}
            shown = [m for m in names if any(cells[m])]
            return facet_bars(
                levels=[names[m] for m in shown],
                rows=evidence.names,
                cells=[cells[m] for m in shown],
                label=f"{title[:1].upper()}{title[1:]}: {what}, protocol {protocol}",
            )

        results += figure(f"{title}: {what}", evidence.protocols, draw)
    return results


def _confusion(evidence: Evidence) -> list[FigureByProtocol]:
    """Per run, how many objects were asked for and found."""
    results: list[FigureByProtocol] = []
    for n, name in enumerate(evidence.names):

        def draw(protocol: str, n: int = n, name: str = name) -> Markup | None:
            scores = [s for s in evidence.scores[n] if s.metric == "count_found" and s.protocol == protocol]
            label = f"Number of objects asked for and found, {name}, protocol {protocol}"
            return count_heat_map(scores, label) if scores else None

        results += figure(name, evidence.protocols, draw)
    return results


def count_heat_map(scores: Sequence[Score], label: str) -> Markup:
    """How many objects were asked for (rows) and found (columns), in per cent of the usable images of the row.

    Args:
        scores: metric ``count_found``, whose groups have ``count`` and ``found``.
        label: what the figure shows, for screen readers.
    """
    shares = {(int(s.group["count"] or 0), int(s.group["found"] or 0)): s for s in scores}
    asked = sorted({count for count, _ in shares})
    last = max([*asked, *(result for _, result in shares)], default=0)
    # One spurious 37 would make the map unreadably wide: beyond twice the usual, numbers share a column.
    cap = min(last, max([*asked, 0]) + 4)
    used = [next(s.n_used for (c, _), s in shares.items() if c == count) for count in asked]
    rows = []
    for count, n_used in zip(asked, used, strict=True):
        cells = []
        for result in range(cap + 1):
            pooled = [s for (c, f), s in shares.items() if c == count and min(f, cap) == result]
            share = sum(s.value for s in pooled)
            more = " or more" if result == cap < last else ""
            text = f"asked {count}, found {result}{more}: {percent(share)} %"
            text += f" {interval(pooled[0])}".rstrip() if len(pooled) == 1 else ""
            shown = percent(share).removesuffix(".0") if pooled else "·"
            cells.append(
                CountCell(shown=shown, share=share, tooltip=f"{text}, {n_used} images", diagonal=result == count)
            )
        rows.append(cells)
    return count_map(
        head="found",
        rows=[f"asked {count}" for count in asked],
        columns=[f"{f}+" if f == cap < last else str(f) for f in range(cap + 1)],
        cells=rows,
        beside=[f"n {n:,}" for n in used],
        height=46.0,
        label=label,
    )
