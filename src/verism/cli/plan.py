"""``verism plan``: many models on many suites, from one file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from verism.cli.common import executor_options, opened_trackers, tracking_options, with_executor, with_options
from verism.errors import UsageError
from verism.options import json_or_text
from verism.systems import quoted
from verism.terminal import Group, PathType, put_json, say

if TYPE_CHECKING:
    from verism.plans import Plan
    from verism.plans.execution import Check, Outcome

__all__ = ["plan"]

_file = click.argument("file", metavar="PLAN.yaml", type=PathType())
_variables = click.option(
    "--set", "variables", multiple=True, metavar="NAME=VALUE", help="Set a variable of the plan; repeatable."
)
_json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


def _read(file: Path, variables: tuple[str, ...]) -> Plan:
    from verism.plans import Plan

    given: dict[str, Any] = {}
    for text in variables:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set {text}: expected NAME=VALUE")
        given[name] = json_or_text(value)
    return Plan.read(file, given)


@click.group(cls=Group)
def plan() -> None:
    """Evaluate many models on many suites, from one file.

    \b
    verism plan init plan.yaml
    verism plan check plan.yaml
    verism plan run plan.yaml --out P
    verism board P --out board.html
    """


@plan.command()
@click.argument("file", metavar="PLAN.yaml", type=PathType())
@click.option("--force", is_flag=True, help="Replace a file that exists.")
def init(file: Path, force: bool) -> None:
    """Write a commented example that runs offline in minutes.

    \b
    verism plan init plan.yaml
    verism plan run plan.yaml --out P
    """
    from verism.plans.example import write_example

    for path in write_example(file, force=force):
        say(f"written: {path}")
    say(f"next: verism plan check {file}")


@plan.command()
@_file
@_variables
@click.option("--out", type=PathType(), help="Directory of the plan's runs; finished pairs are left out.")
@_json
def check(file: Path, variables: tuple[str, ...], out: Path | None, as_json: bool) -> None:
    """Print what the runs would generate and observe, and every reason to refuse one. Nothing is generated.

    Models and judges are loaded as the runs would load them. Exit code 2 if a pair would be refused.

    \b
    verism plan check plan.yaml
    verism plan check plan.yaml --set n=300 --out P --json
    """
    from verism.plans.execution import check_plan

    checked = check_plan(_read(file, variables), out, tell=None if as_json else _progress)
    if as_json:
        put_json({**checked.record(), "refused": len(checked.refused)})
    else:
        _say_check(checked)
    sys.exit(2 if checked.refused else 0)


def _say_check(checked: Check) -> None:
    width = max(len(f"{p.model} on {p.suite}") for p in checked.pairs)
    for p in checked.pairs:
        words = f"{p.images - p.images_done:>7,} images"
        if p.images_done:
            words += f" ({p.images_done:,} are there)"
        for role, n in (p.judgements or {}).items():
            words += f", {n:,} for the {role}"
        if p.not_measured:
            words += f"; not measured: {', '.join(p.not_measured)}"
        click.echo(f"{f'{p.model} on {p.suite}':<{width}}  {f'REFUSED: {p.refused}' if p.refused else words}")
        for line in p.estimate:
            click.echo(f"{'':<{width}}  {line}")
    click.echo(
        f"in all: {len(checked.pairs)} runs, {checked.images:,} images, {checked.judgements:,} judgements, "
        f"about {_size(checked.disk_bytes)}"
        + ("" if checked.free_bytes is None else f" of {_size(checked.free_bytes)} free on the disk")
    )
    if checked.free_bytes is not None and checked.disk_bytes > checked.free_bytes:
        say("warning: the images may not fit on the disk")
    if checked.refused:
        say(f"{len(checked.refused)} of {len(checked.pairs)} runs would be refused")


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:,.1f} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:,.1f} MB"


def _progress(line: str) -> None:
    say(f"plan: {line}")


@plan.command()
@_file
@_variables
@click.option("--out", type=PathType(), required=True, help="Directory of the plan's runs.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Models to run in parallel.")
@with_options(executor_options(sharing=False, gpus=False))
@click.option("--only", multiple=True, metavar="NAME", help="Run only this model or suite of the plan; repeatable.")
@click.option("--repeat", is_flag=True, help="Score finished runs again.")
@click.option("--reports", is_flag=True, help="Also write the report of each run; the board links to it.")
@with_options(tracking_options())
@_json
def run(
    file: Path,
    variables: tuple[str, ...],
    out: Path,
    jobs: int,
    only: tuple[str, ...],
    repeat: bool,
    reports: bool,
    track: tuple[str, ...],
    step: int | None,
    checkpoint: str | None,
    as_json: bool,
    **workers: Any,
) -> None:
    """Run every pair of a model and a suite that is not done yet.

    Each model is loaded once, each judge once. A pair that fails does not stop the others; the same command tries it
    again and resumes what was stopped. Exit code 1 if a pair failed.

    \b
    verism plan run plan.yaml --out P
    verism plan run plan.yaml --out P --only sdxl --set n=300
    verism plan run plan.yaml --out s3://bucket/P --executor ray:auto
    verism plan run plan.yaml --out P --track "wandb:my-project?mode=offline"     # a run of wandb for each model
    """
    from verism.plans.execution import Executor, LocalExecutor, RayExecutor, run_plan

    executor: Executor = LocalExecutor(jobs, tell=_progress if jobs == 1 else None)
    if settings := with_executor(workers).get("executor"):
        if jobs != 1:
            raise UsageError("--jobs is for --executor local; on Ray, each model is made by all workers")
        executor = RayExecutor(settings, tell=_progress)
    done: list[Outcome] = []

    def note(outcome: Outcome) -> None:
        done.append(outcome)
        say(f"plan: {_line(outcome)}")
        for line in outcome.remarks:
            say(f"plan: {line}")

    the_plan = _read(file, variables)
    with opened_trackers(track):  # refused now, not after the first model
        pass
    outcomes = run_plan(
        the_plan,
        out,
        executor=executor,
        only=only,
        repeat=repeat,
        reports=reports,
        on_outcome=note,
        track=track,
        step=step,
        checkpoint=checkpoint or "",
    )
    failed = [outcome for outcome in outcomes if outcome.state == "failed"]
    if as_json:
        put_json([outcome.record() for outcome in outcomes])
    say(f"{len(outcomes) - len(failed)} of {len(outcomes)} runs are done; board: verism board {_quoted(out)}")
    for outcome in failed:
        say(f"failed: {outcome.model} on {outcome.suite}: {outcome.reason}")
    sys.exit(1 if failed else 0)


def _line(outcome: Outcome) -> str:
    words = {"done": "done", "failed": "FAILED", "kept": "was done"}[outcome.state]
    text = f"{outcome.model} on {outcome.suite}: {words}"
    if outcome.state != "kept":
        text += f" in {outcome.seconds:,.0f} s"
    if outcome.failures:
        text += f", {outcome.failures:,} images without a result"
    return text + (f": {outcome.reason}" if outcome.reason else "")


@plan.command()
@_file
@_variables
@click.option("--out", type=PathType(), required=True, help="Directory of the plan's runs.")
@_json
def status(file: Path, variables: tuple[str, ...], out: Path, as_json: bool) -> None:
    """Print the state of every pair: waiting, running, done, failed, or done with other settings.

    \b
    verism plan status plan.yaml --out P
    """
    from verism.plans.status import plan_status

    known = plan_status(_read(file, variables), out)
    if as_json:
        put_json(known.record())
        return
    width = max(len(f"{p.model} on {p.suite}") for p in known.pairs)
    for p in known.pairs:
        images = f"{p.images:,}" + (f" of {p.wanted:,}" if p.wanted else "") + " images"
        click.echo(f"{f'{p.model} on {p.suite}':<{width}}  {p.state:<8} {images}{f': {p.reason}' if p.reason else ''}")
    click.echo(", ".join(f"{n} {state}" for state, n in known.counts.items()))


@plan.command()
def schema() -> None:
    """Print the JSON schema of plan files, for editors.

    \b
    verism plan schema > plan.schema.json
    # first line of the plan, for editors with the YAML language server:
    # yaml-language-server: $schema=plan.schema.json
    """
    from verism.plans.schema import plan_schema

    put_json(plan_schema())


def _quoted(path: Path) -> str:
    return quoted(path)
