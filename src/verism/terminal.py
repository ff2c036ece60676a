"""What every command of the terminal shares: messages, results, failures, groups of commands."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Protocol, TextIO

import click

from verism.characters import visible
from verism.limits import MAX_SEED, THREADS
from verism.locations import check_on_disk, location
from verism.progress import be_quiet
from verism.renames import protocol_name

if TYPE_CHECKING:
    import polars as pl

    from verism.metrics.results import Result
    from verism.store import Run

__all__ = [
    "FAILURES_SHOWN",
    "PREPARE",
    "SEED",
    "WORKERS",
    "Failures",
    "Group",
    "LazyCommand",
    "PathType",
    "ProtocolChoice",
    "Services",
    "has_colours",
    "is_verbose",
    "prepared",
    "put_json",
    "put_result",
    "say",
    "show_messages",
    "terminal_encoding",
    "without_nan",
]

FAILURES_SHOWN = 10
PREPARE = "verism.prepare"  # in the meta of contexts: a function that gives commands their defaults
LOG = logging.getLogger("verism")

SEED = click.IntRange(0, MAX_SEED)
WORKERS = click.IntRange(1, THREADS.value)  # threads or processes


class PathType(click.Path):
    """Type of an option or argument that is a file or folder: local, or the URL of one in object storage."""

    def __init__(self, *, disk: str = "", **settings: Any) -> None:
        """A type.

        Args:
            disk: why it must be on a disk and what to do, for the message; empty if it need not be.
            **settings: of ``click.Path``.
        """
        super().__init__(**settings)
        self.disk = disk

    def coerce_path_result(self, value: Any) -> Any:
        """The path."""
        path = location(value)
        if self.disk:
            check_on_disk(path, self.disk)
        return path


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
        say(f"{len(self.lines):,} without a usable image:", always=True)
        shown = len(self.lines) if _Messages.verbose else FAILURES_SHOWN
        for line in self.lines[:shown]:
            say(f"  {line}", always=True)
        if len(self.lines) > shown:
            more = (
                f"  ... and {len(self.lines) - shown:,} more (-v shows all); all are in the table `images` of the run"
            )
            say(more, always=True)
        return 1


class _Messages:
    """How messages are shown; for the whole process."""

    quiet = False
    verbose = False


def show_messages(*, quiet: bool, verbose: bool) -> None:
    """Say how much is told; for the whole process.

    Args:
        quiet: only errors, failures and remarks on the numbers, and no progress.
        verbose: every failure, and what libraries log.
    """
    _Messages.quiet, _Messages.verbose = quiet, verbose
    be_quiet(quiet)


def is_verbose() -> bool:
    """Whether more than usual is told."""
    return _Messages.verbose


def has_colours(stream: TextIO) -> bool:
    """Whether text on a stream is coloured: on a terminal, unless ``NO_COLOR`` is set; ``FORCE_COLOR`` asks for it.

    Args:
        stream: standard output or error.
    """
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")


_COLOURS = {"verism": "red", "note": "yellow", "report": "green", "run": "green", "board": "green", "skipped": "yellow"}


def say(text: str, *, always: bool = False) -> None:
    """A message for the person, on standard error; names in it do nothing to the terminal.

    Args:
        text: the message.
        always: whether it is shown where only errors and remarks on numbers are asked for, too.
    """
    shown = visible(text)
    for line in shown.splitlines():
        LOG.info("%s", line)
    if _Messages.quiet and not always:
        return
    if has_colours(sys.stderr):
        lines = []
        for line in shown.splitlines():
            head, colon, rest = line.partition(":")
            colour = _COLOURS.get(head)
            lines.append(f"{click.style(f'{head}:', fg=colour, bold=True)}{rest}" if colon and colour else line)
        click.echo("\n".join(lines), err=True, color=True)
    else:
        click.echo(shown, err=True)


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


Resolved = tuple[str | None, click.Command | None, list[str]]


def prepared(ctx: click.Context, found: Resolved) -> Resolved:
    """A command that a group found, with defaults of its options from the environment and from files.

    Args:
        ctx: of the group.
        found: as ``resolve_command`` gives it.
    """
    name, command, args = found
    prepare = ctx.meta.get(PREPARE)
    if prepare is not None and name is not None and command is not None:
        prepare(ctx, name, command, args)
    return found


class Group(click.Group):
    """Commands in the order they are used, not of the alphabet; near names for a misspelt one."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        import difflib

        try:
            return prepared(ctx, super().resolve_command(ctx, args))
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
