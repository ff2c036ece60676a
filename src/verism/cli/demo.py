"""``verism demo``: a tour of the toolkit, or all suites at once, offline."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

import click

from verism.errors import UsageError
from verism.suites.catalogue import commands
from verism.terminal import SEED, PathType, say

if TYPE_CHECKING:
    from verism.plans.execution import Outcome

__all__ = ["demo"]

TOUR = "demo tour"  # by this path a suite declares the command of the tour


@click.command()
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Evaluate all suites, each with what it can show offline, and write a board.",
)
@click.option(
    "--out", type=PathType(), help="Output folder; an existing one is completed.  [default: demo_run; demo_all]"
)
@click.option(
    "--limit", type=click.IntRange(3), help="Number of prompts; with --all, of each suite at most.  [default: 96]"
)
@click.option("--seed", type=SEED, default=11, show_default=True, help="Seed of prompts and images.")
@click.option("--suite", "suites", multiple=True, help="Show only this suite, with --all; repeatable.")
@click.option(
    "--jobs", type=click.IntRange(1), default=2, show_default=True, help="Models to run in parallel, with --all."
)
@click.pass_context
def demo(
    context: click.Context,
    everything: bool,
    out: Path | None,
    limit: int | None,
    seed: int,
    suites: tuple[str, ...],
    jobs: int,
) -> None:
    """Run complete evaluations offline: a small model, images of known truth, judges, tables, reports.

    \b
    verism demo --out demo_run                   # one suite, a small model and images of known truth: a minute
    verism demo --out demo_run --limit 12        # fewer images
    verism demo --all --out D                    # every suite, judge cards, corrections and one board: minutes
    verism demo --all --suite dsg --suite tifa --out D

    Repeat the command to continue an interrupted demo.
    """
    if everything:
        _all(out or Path("demo_all"), suites, limit=limit, seed=seed, jobs=jobs)
        return
    if suites:
        raise UsageError("--suite is for --all")
    given = {} if limit is None else {"limit": limit}
    context.invoke(resolve_name(commands()[TOUR]), out=out or Path("demo_run"), seed=seed, **given)


def _all(out: Path, suites: tuple[str, ...], *, limit: int | None, seed: int, jobs: int) -> None:
    from verism.plans.board import make_board
    from verism.plans.board_page import board_page
    from verism.plans.demo import demo_parts, demo_plan, demo_table, write_demo_files
    from verism.plans.execution import LocalExecutor, run_plan
    from verism.report_kit.page import write_page

    began = time.monotonic()
    parts = demo_parts(suites)
    shown = [part for part in parts if part.demo is not None]
    say(f"{len({part.suite for part in shown})} suites; example files in {out / 'files'}")
    write_demo_files(parts, out / "files")
    plan = demo_plan(parts, out / "files", limit=limit, seed=seed)
    done: list[Outcome] = []

    def note(outcome: Outcome) -> None:
        done.append(outcome)
        words = {"done": f"done in {outcome.seconds:.0f} s", "failed": f"FAILED: {outcome.reason}", "kept": "was done"}
        say(f"[{len(done)}/{len(plan.pairs)}] {outcome.model} on {outcome.suite}: {words[outcome.state]}")
        for line in outcome.remarks:
            say(f"  {line}")

    outcomes = run_plan(plan, out / "plan", executor=LocalExecutor(jobs), reports=True, on_outcome=note)
    page = out / "board.html"
    board = make_board([out / "plan"], relative_to=page.parent)
    write_page(board_page(board), page)
    click.echo(demo_table(board, [part.name for part in shown]))
    click.echo("\nWhat each column shows:")
    for part in shown:
        click.echo(f"  {part.name}: {part.demo.shows if part.demo else ''}")
    click.echo("\nNot shown offline:")
    for part in parts:
        for line in part.left_out:
            click.echo(f"  {part.name}: {line}")
    failed = [outcome for outcome in outcomes if outcome.state == "failed"]
    for outcome in failed:
        click.echo(f"failed: {outcome.model} on {outcome.suite}: {outcome.reason}")
    click.echo(
        "\nWhat the numbers mean: they are of few images, rendered or by a small model, and of judges that come with "
        "verism. They show what each suite measures and how a judge's error is taken out, and nothing of other models."
    )
    click.echo(f"board: {page.absolute()}, with a link to the report of each of {len(outcomes) - len(failed)} runs")
    say(f"done in {time.monotonic() - began:.0f} s; look around with: verism view {out}")
    sys.exit(1 if failed else 0)
