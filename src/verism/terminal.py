"""What every command of the terminal shares: messages, results, failures, groups of commands."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Protocol

import click

from verism.characters import visible
from verism.limits import MAX_SEED, THREADS
from verism.locations import location
from verism.renames import protocol_name

if TYPE_CHECKING:
    import polars as pl

    from verism.metrics.results import Result
    from verism.store import Run

__all__ = [
    "FAILURES_SHOWN",
    "SEED",
    "WORKERS",
    "Failures",
    "Group",
    "LazyCommand",
    "PathType",
    "ProtocolChoice",
    "Services",
    "put_json",
    "put_result",
    "say",
    "terminal_encoding",
    "without_nan",
]

FAILURES_SHOWN = 10

SEED = click.IntRange(0, MAX_SEED)
WORKERS = click.IntRange(1, THREADS.value)  # threads or processes


class PathType(click.Path):
    """Type of an option or argument that is a file or folder: local, or the URL of one in object storage."""

    def coerce_path_result(self, value: Any) -> Any:
        """The path."""
        return location(value)


class Services(Protocol):
    """What commands of suites may ask of the parts above them; click's ``obj`` (``click.pass_obj``)."""

    def make_judge(self, name: str, role: str, **context: Any) -> Any:
        """A judge by its name.

        Args:
            name: as the command line takes it.
            role: ``clip``, ``detector`` ...
            **context: fields of ``registry.Context``: device, threads ...
        """

    def make_renderer(self, **context: Any) -> Any:
        """The simulator; the caller closes it.

        Args:
            **context: fields of ``registry.Context``: size, assets, processes ...; and ``executor``, ``local`` or
                ``ray[:ADDRESS]``.
        """

    def evaluate(self, suite: str, **options: Any) -> Run:
        """A finished run; see ``verism.evaluate``."""

    def report(self, *runs: Run, out: Path) -> Path:
        """The page of one or more runs, and where it was written."""

    def scores_table(self, *runs: Run) -> str:
        """The first table of one or more runs, as text."""

    def votes_on_pairs(self, run: Run) -> Mapping[tuple[str, str], pl.DataFrame]:
        """Annotators' votes on pairs of images of a run and another, by the names of both; tables ``ratings``."""


class ProtocolChoice(click.Choice[str]):
    """A protocol by its name, of now or of an earlier version."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(protocol_name(value), param, ctx)


class Failures:
    """Images that did not come out, told once at the end and not one by one."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, line: str) -> None:
        self.lines.append(line)

    def report(self) -> int:
        """Print what failed; the exit code."""
        if not self.lines:
            return 0
        say(f"{len(self.lines):,} without a usable image:")
        for line in self.lines[:FAILURES_SHOWN]:
            say(f"  {line}")
        if len(self.lines) > FAILURES_SHOWN:
            say(f"  ... and {len(self.lines) - FAILURES_SHOWN:,} more; all are in the table `images` of the run")
        return 1


def say(text: str) -> None:
    """A message for the person, on standard error; names in it do nothing to the terminal."""
    click.echo(visible(text), err=True)


def terminal_encoding() -> str:
    """The encoding of standard output."""
    return getattr(sys.stdout, "encoding", None) or "ascii"


def put_json(value: Any) -> None:
    """A result as JSON, on standard output."""
    click.echo(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False))


def put_result(result: Result | Sequence[Result], as_json: bool) -> None:
    """One result, or a list of them, as JSON or as text, on standard output."""
    results = result if isinstance(result, Sequence) else (result,)
    if as_json:
        records = [without_nan(one.record()) for one in results]
        put_json(records if isinstance(result, Sequence) else records[0])
    else:
        click.echo("\n".join(one.text() for one in results))


class Group(click.Group):
    """Commands in the order they are used, not of the alphabet; near names for a misspelt one."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        import difflib

        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as err:
            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=2)
            if near:
                raise click.UsageError(f"{err.message} Did you mean {' or '.join(near)}?", ctx) from None
            raise


def without_nan(value: Any) -> Any:
    """The same with null for every NaN: JSON has none."""
    if isinstance(value, dict):
        return {key: without_nan(v) for key, v in value.items()}
    if isinstance(value, list):
        return [without_nan(v) for v in value]
    return None if isinstance(value, float) and value != value else value


class LazyCommand(click.Command):
    """A command of a module that is imported when it is called, or when its help is asked for."""

    def __init__(self, name: str, location: str) -> None:
        """A stand-in for a command or a group of commands.

        Args:
            name: on the command line.
            location: ``module:command``.
        """
        super().__init__(name)
        self.location = location

    def loaded(self) -> click.Command:
        """The command itself."""
        command: click.Command = resolve_name(self.location)
        return command

    def get_short_help_str(self, limit: int = 45) -> str:
        return self.loaded().get_short_help_str(limit)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        return self.loaded().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        return ctx.command.invoke(ctx)
