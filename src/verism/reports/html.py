"""The report as one HTML file: numbers, figures and evidence, readable without a network and by keyboard alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from verism.cards import JudgeCard
from verism.errors import UsageError
from verism.reports.bias_scores import of_bias
from verism.reports.page import write_page
from verism.reports.tables import skills_based
from verism.store import Run

__all__ = ["write_report"]


def write_report(
    runs: Sequence[Run],
    out: Path,
    *,
    gallery: int = 120,
    embed_pixels: int = 256,
    cards: Sequence[JudgeCard] = (),
) -> Path:
    """Write the report of one run, or of several side by side.

    Args:
        runs: scored runs; rows of every table are in this order.
        out: an ``.html`` file, or a directory that gets an ``index.html``. Replaced if it is there.
        gallery: how many pictures to show, over all runs; 0 for none.
        embed_pixels: longer side of an embedded picture at most, in pixels.
        cards: of judges, besides those in the folder ``cards`` of each run and those that come with verism.
    Returns:
        The file written.
    Raises:
        UsageError: no runs, runs whose suites have no page in common, or a gallery that cannot be.
        VerismError: a run has no prompts, verdicts or scores yet.
    """
    if not runs:
        raise UsageError("a report needs at least one run")
    paintskills = [skills_based(run) for run in runs]
    if all(paintskills):
        from verism.reports.paintskills_page import render_paintskills

        page = render_paintskills(runs, gallery=gallery, embed_pixels=embed_pixels, cards=cards)
    elif all(_of_presentation(run) for run in runs):
        from verism.reports.presentation_page import render_presentation

        page = render_presentation(runs, gallery=gallery, embed_pixels=embed_pixels, cards=cards)
    elif all(map(of_bias, runs)):
        from verism.reports.bias_page import render_bias

        page = render_bias(runs, gallery=gallery, embed_pixels=embed_pixels, cards=cards)
    elif not any(paintskills):
        from verism.reports.measures_page import render_measures

        page = render_measures(runs, gallery=gallery, embed_pixels=embed_pixels, cards=cards)
    else:
        raise UsageError("runs of PaintSkills and of other suites have no page in common; report them one by one")
    return write_page(page, out)


def _of_presentation(run: Run) -> bool:
    """Whether a run's suite is that of gender presentation differences, which has a page of its own."""
    return str(run.manifest["settings"].get("suite", "")).startswith("gender_presentation")
