"""``verism gate``: may a new run take the place of a baseline? And how many prompts it takes to know."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from verism.errors import UsageError
from verism.files import write_whole
from verism.terminal import SEED, PathType, put_json

__all__ = ["gate"]

PLANNING = ("drop", "power", "share", "discordance", "correlation", "images_per_prompt")


@click.command()
@click.argument("base", required=False, type=PathType())
@click.argument("new", required=False, type=PathType())
@click.option(
    "--max-drop",
    "max_drops",
    multiple=True,
    metavar="[METRIC=]N",
    help="Largest drop allowed, in points of a share or else in the metric's unit; repeatable.",
)
@click.option("--metric", "metrics", multiple=True, help="Metric to test; repeatable.  [default: headline metrics]")
@click.option("--by", help="Facet of the prompts to group by.  [default: the suite's own]")
@click.option("--protocol", help="Protocol to use.  [default: the first of the suite, revised]")
@click.option("--alpha", type=click.FloatRange(0, 0.5, min_open=True, max_open=True), default=0.05, show_default=True,
              help="Probability of a false alarm over all rows.")  # fmt: skip
@click.option(
    "--require",
    type=click.Choice(["no-failure", "shown"]),
    default="no-failure",
    show_default=True,
    help="shown: pass only if every drop is shown to be within its limit.",
)
@click.option(
    "--anyway", is_flag=True, help="Test runs that are not comparable; the reasons are shown beside the numbers."
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed for permutation tests.")
@click.option("--junit", type=PathType(), help="Also write a JUnit report to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option(
    "--plan",
    "plan_",
    is_flag=True,
    help="Print how many prompts are needed, from a pilot run or from numbers, and exit.",
)
@click.option("--drop", type=click.FloatRange(0, min_open=True), help="--plan: true drop to detect.")
@click.option("--power", type=click.FloatRange(0, 1, min_open=True, max_open=True), multiple=True,
              help="--plan: power of the test; repeatable.  [default: 0.8 and 0.9]")  # fmt: skip
@click.option("--share", type=click.FloatRange(0, 1), help="--plan without runs: accuracy of the baseline.")
@click.option("--discordance", type=click.FloatRange(0, 1, min_open=True),
              help="--plan without runs: share of images whose verdicts differ.")  # fmt: skip
@click.option(
    "--correlation",
    type=click.FloatRange(0, 1),
    help="--plan without runs: correlation of differences within a prompt.",
)
@click.option(
    "--images-per-prompt", type=click.IntRange(1), multiple=True, help="--plan: images per prompt; repeatable."
)
def gate(
    base: Path | None,
    new: Path | None,
    max_drops: tuple[str, ...],
    metrics: tuple[str, ...],
    by: str | None,
    protocol: str | None,
    alpha: float,
    require: Any,
    anyway: bool,
    seed: int,
    junit: Path | None,
    as_json: bool,
    plan_: bool,
    **planning: Any,
) -> None:
    """Fail if NEW is worse than BASE by more than is allowed, beyond chance.

    One-sided tests of each drop against its limit, paired over the same images, clustered by prompt, with Holm's
    correction over all metrics and groups. "cannot tell" passes, unless --require shown.

    Exit code 0: pass; 1: a drop is too large; 2: not comparable, nothing to test, or wrong usage.

    \b
    verism gate runs/main runs/branch --max-drop 2
    verism gate runs/main runs/branch --max-drop 2 --metric accuracy --by skill --junit gate.xml
    verism gate runs/main runs/branch --max-drop 2 --require shown --json
    verism gate runs/main runs/branch --metric fid --max-drop fid=1.5
    verism gate --plan --drop 2 --share 0.8 --discordance 0.1
    verism gate runs/main --plan --drop 4 --max-drop 2 --images-per-prompt 1 --images-per-prompt 4
    """
    from verism import api
    from verism.report_kit.gate import gate_junit, gate_plan_table, gate_table, refusal_junit

    limits = _limits(max_drops)
    if plan_:
        if junit is not None:
            raise UsageError("--junit is for a gate, not for --plan")
        records = [
            planned.record()
            for planned in api.plan_gate(
                base,
                new,
                max_drop=limits or 0.0,
                metrics=metrics,
                by=by,
                protocol=protocol,
                alpha=alpha,
                **{name: value for name, value in planning.items() if value not in (None, ())},
            )
        ]
        if as_json:
            put_json(records)
        else:
            click.echo(gate_plan_table(records))
        return
    if wrong := [name for name in PLANNING if planning[name] not in (None, ())]:
        raise UsageError(f"--{wrong[0].replace('_', '-')} is for --plan")
    if base is None or new is None:
        raise UsageError("name two runs, BASE and NEW: verism gate runs/main runs/branch --max-drop 2")
    if not limits:
        raise UsageError("--max-drop is missing: how much worse may NEW be? For example --max-drop 2, in points")
    try:
        result = api.gate(
            base,
            new,
            max_drop=limits,
            metrics=metrics,
            by=by,
            protocol=protocol,
            alpha=alpha,
            require=require,
            anyway=anyway,
            seed=seed,
        )
    except UsageError as err:
        if junit is not None:
            write_whole(junit, refusal_junit(str(err)))
        raise
    record = result.record()
    if junit is not None:
        write_whole(junit, gate_junit(record))
    if as_json:
        put_json(record)
    else:
        click.echo(gate_table(record))
    sys.exit(0 if result.passed else 1)


def _limits(texts: tuple[str, ...]) -> dict[str, float]:
    """``--max-drop`` by metric; an empty name stands for all others."""
    limits: dict[str, float] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        try:
            number = float(value)
        except ValueError:
            raise UsageError(
                f"--max-drop {text}: expected a number, or METRIC=NUMBER, for example 2 or fid=1.5"
            ) from None
        if (equals and not name) or name in limits:
            raise UsageError(f"--max-drop {text}: {'no metric' if not name and equals else 'given twice'}")
        limits[name] = number
    return limits
