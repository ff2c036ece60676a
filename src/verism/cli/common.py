"""What commands that end in scores share, and options of several commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from verism.cli.completion import complete_kinds
from verism.errors import UsageError
from verism.files import parse_json
from verism.records import NEEDS, option_of
from verism.report_kit.adjustments import adjustment_notes
from verism.report_kit.evidence import scoring_answers, scoring_remarks
from verism.report_kit.tables import json_report, terminal_table
from verism.store import Run
from verism.suites.catalogue import presentation_of
from verism.terminal import WORKERS, PathType, put_json, say, terminal_encoding

if TYPE_CHECKING:
    from verism.trackers import Tracker

__all__ = [
    "RAW_HELP",
    "GroupedCommand",
    "executor_options",
    "given",
    "in_section",
    "judge_options",
    "opened_trackers",
    "parse_rules",
    "put_scores",
    "say_remarks",
    "tracking_options",
    "with_executor",
    "with_options",
]

RAW_HELP = "Write texts to CSV unchanged, for programs: otherwise formulas of spreadsheets get an apostrophe."
F = TypeVar("F", bound=Callable[..., Any])


def put_scores(run: Run, as_json: bool) -> None:
    """Print the scores of a run on standard output; remarks go to standard error.

    Args:
        run: a scored run.
        as_json: all of them as JSON, in place of the first table.
    """
    if as_json:
        records = json_report([run], [presentation_of(run)])
        put_json([{name: value for name, value in r.items() if name not in ("run", "cautions")} for r in records])
    else:
        for line in scoring_answers(run):
            click.echo(line)
        click.echo("")
        click.echo(terminal_table([run], [presentation_of(run)], encoding=terminal_encoding()))
    say_remarks(run)


def say_remarks(run: Run, name: str = "") -> None:
    """Say on standard error what the numbers of a run could be misread without.

    Args:
        run: a scored run.
        name: of the run, where several are spoken of.
    """
    for line in [*scoring_remarks(run), *adjustment_notes(run)]:
        say(f"note: {name}{': ' if name else ''}{line}", always=True)


class GroupedCommand(click.Command):
    """A command whose help lists options by what they concern; an option says so by its attribute ``section``.

    Attributes:
        more_help: by section, further entries of the list.
    """

    more_help: Mapping[str, Sequence[tuple[str, str]]] = MappingProxyType({})

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):  # the usage line has the arguments
                sections.setdefault(getattr(parameter, "section", "Options"), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl([*records, *self.more_help.get(title, ())])


def in_section(title: str, parameters: Iterable[click.Parameter]) -> list[click.Parameter]:
    """The parameters, listed under a title by ``GroupedCommand``."""
    kept = list(parameters)
    for parameter in kept:
        parameter.section = title  # type: ignore[attr-defined]
    return kept


def judge_options(shown: Sequence[str] = ()) -> list[click.Parameter]:
    """An option for each role, and those that several judges share.

    Args:
        shown: roles that the help lists; empty for all.
    """
    roles = [
        click.Option(
            [option_of(role)],
            help=need.help,
            hidden=bool(shown) and role not in shown,
            shell_complete=complete_kinds(role),
        )
        for role, need in NEEDS.items()
    ]
    shared = [
        click.Option(["--threads"], type=WORKERS, help="CPU threads of the judges."),
        click.Option(["--device"], help="Device of hub models: cpu, cuda, cuda:1 ..."),
        click.Option(["--cache"], type=PathType(), help="Cache folder for image features, shared between runs."),
    ]
    return in_section("Judges", [*roles, *shared])


def tracking_options() -> list[click.Parameter]:
    """Options of commands that end in scores and log them."""
    return in_section(
        "Tracking",
        [
            click.Option(
                ["--track"],
                multiple=True,
                metavar="TRACKER",
                help="Log the scores: mlflow:FOLDER_OR_URI, wandb:PROJECT, tensorboard:FOLDER; repeatable. See: "
                "verism list trackers",
            ),
            click.Option(["--step"], type=click.IntRange(0), help="Training step of the model, for trackers."),
            click.Option(["--checkpoint"], help="Name of the model's checkpoint, for trackers."),
        ],
    )


@contextmanager
def opened_trackers(names: Sequence[str]) -> Iterator[list[Tracker]]:
    """Trackers of these names, closed at the end.

    Args:
        names: as ``--track`` takes them.

    Raises:
        UsageError: a name that no tracker has, or an option it does not take.
    """
    if not names:
        yield []
        return
    from verism.registry import make_tracker
    from verism.trackers import close_trackers

    trackers: list[Tracker] = []
    try:
        for name in names:
            trackers.append(make_tracker(name))
        yield trackers
    finally:
        close_trackers(trackers, say)


def executor_options(*, sharing: bool = True, gpus: bool = True) -> list[click.Parameter]:
    """Options that say which processes do the work.

    Args:
        sharing: whether several calls of the command can share it.
        gpus: whether the GPUs of this machine can.
    """
    parameters = [
        click.Option(
            ["--executor"],
            metavar="local|ray[:ADDRESS]",
            help="Run on this machine, or on workers of a Ray cluster.  [default: local]",
        ),
        click.Option(
            ["--actors"], metavar="N|ROLE=N,...", help="Number of Ray workers, or one per role: generator=2,detector=4."
        ),
        click.Option(["--actor-cpus"], metavar="X|ROLE=X,...", help="CPU cores per Ray worker.  [default: 1]"),
        click.Option(
            ["--actor-gpus"],
            metavar="X|ROLE=X,...",
            help="GPUs per Ray worker, also a fraction.  [default: 1 if there are any]",
        ),
    ]
    if gpus:
        parameters += [
            click.Option(["--gpus"], metavar="all|N", help="With --executor local: run one process per GPU."),
        ]
    if sharing:
        parameters += [
            click.Option(
                ["--shard"], metavar="I/N", help="Process only shard I of N; other processes take the others."
            ),
            click.Option(
                ["--share"], is_flag=True, help="Share the work with other processes that run the same command."
            ),
        ]
    return in_section("Workers", parameters)


def with_executor(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with the executor they name, in place of those that describe it.

    Args:
        options: as the command got them, or left out.

    Raises:
        UsageError: options of Ray without Ray.
    """
    described = {name: options.get(name) or "" for name in ("actors", "actor_cpus", "actor_gpus")}
    rest = {name: value for name, value in options.items() if name not in (*described, "executor")}
    executor = options.get("executor") or "local"
    if executor == "local":
        if given_in_vain := [name for name, value in described.items() if value]:
            raise UsageError(f"--{given_in_vain[0].replace('_', '-')} is for --executor ray")
        return rest
    from verism.pipeline.ray_workers import RaySettings

    settings = RaySettings.parse(
        executor, actors=described["actors"], num_cpus=described["actor_cpus"], num_gpus=described["actor_gpus"]
    )
    return {**rest, "executor": settings}


def with_options(parameters: Iterable[click.Parameter]) -> Callable[[F], F]:
    """A decorator that gives a command these options after its own."""

    def decorate(command: F) -> F:
        existing: list[click.Parameter] = getattr(command, "__click_params__", [])
        command.__click_params__ = [*reversed(list(parameters)), *existing]  # type: ignore[attr-defined]
        return command

    return decorate


def given(options: dict[str, Any]) -> dict[str, Any]:
    """The options a user gave: those left out are left to the suite."""
    return {name: value for name, value in options.items() if value is not None and value != ()}


def parse_rules(pairs: Sequence[str]) -> dict[str, Any]:
    """``--rule k=5`` options as values by name.

    Raises:
        UsageError: a pair without ``=``.
    """
    rules: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"--rule {pair}: expected NAME=VALUE, for example --rule k=5")
        try:
            rules[name] = parse_json(value)
        except ValueError:
            rules[name] = value
    return rules
