"""Runs of several suites on one page: each suite's answer and main numbers, with a link to its report."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from verism.report_kit.evidence import Evidence, union
from verism.report_kit.figures import environment, part
from verism.report_kit.generic import headline_rows
from verism.report_kit.page import Reported, answers_of, page_file, page_parts, write_page
from verism.report_kit.provenance import introduce
from verism.specs import Presentation
from verism.store import Run

__all__ = ["write_overview"]


def write_overview(
    groups: Sequence[Sequence[Run]],
    presentations: Sequence[Sequence[Presentation]],
    suites: Sequence[Sequence[Reported | None]],
    out: Path,
    write_part: Callable[[Sequence[Run], Path, str], Path],
) -> Path:
    """Write the overview, and beside it the report of each suite.

    Args:
        groups: scored runs, those that share a page together.
        presentations: of the suite of each run, in the same shape.
        suites: of each run, in the same shape; None for one that is not installed.
        out: an ``.html`` file, or a directory that gets an ``index.html``; reports of suites go beside it.
        write_part: writes the report of one group, given its file and the name of the overview's.

    Returns:
        The file of the overview.
    """
    file = page_file(out)
    names = _file_names([p[0].info.name for p in presentations], "" if file.stem == "index" else f"{file.stem}-")
    evidences = [Evidence.of(runs, p, gallery=0) for runs, p in zip(groups, presentations, strict=True)]
    for runs, name in zip(groups, names, strict=True):
        write_part(runs, file.parent / name, file.name)
    sections = []
    for evidence, known, name in zip(evidences, suites, names, strict=True):
        body = part(
            evidence,
            "overview_part.html.j2",
            rows=headline_rows(evidence),
            answers=answers_of(evidence, known),
            question=" ".join(union([p.info.question] for p in evidence.presentations)),
            link=name,
        )
        sections.append((" and ".join(union([p.info.title] for p in evidence.presentations)), body, name))
    models = union(source.generator for evidence in evidences for source in introduce(evidence))
    what = models[0] if len(models) == 1 else f"{sum(map(len, groups))} runs"
    page = environment().get_template("overview.html.j2")
    return write_page(
        page.render(
            title=f"{what} on {len(groups)} suites",
            sections=sections,
            version=groups[0][0].manifest.environment.verism,
            **page_parts([]),
        ),
        file,
    )


def _file_names(suites: Sequence[str], start: str) -> list[str]:
    """A file for each suite, all different."""
    names: list[str] = []
    for suite in suites:
        name = start + (re.sub(r"[^A-Za-z0-9_-]+", "-", suite) or "suite")
        names.append(name if name not in names else f"{name}-{len(names) + 1}")
    return [f"{name}.html" for name in names]
