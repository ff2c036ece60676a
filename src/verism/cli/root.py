"""The command ``verism`` itself: options that may stand anywhere, messages and logs, defaults of all commands."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import click

from verism.cli.defaults import install
from verism.cli.suite_commands import SuiteGroup
from verism.errors import UsageError
from verism.terminal import PathType, show_messages

__all__ = ["Root", "configure", "root_options"]

FLAGS = {"-q": "-q", "--quiet": "-q", "-v": "-v", "--verbose": "-v", "--no-color": "--no-color"}
LOG_FILE = "--log-file"


class Root(SuiteGroup):
    """Takes its own options from anywhere on the command line: ``verism run ... -q`` is ``verism -q run ...``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own: list[str] = []
        rest: list[str] = []
        left = list(args)
        while left:
            arg = left.pop(0)
            if arg == "--":
                rest += [arg, *left]
                break
            if arg in FLAGS:
                own.append(FLAGS[arg])
            elif arg == LOG_FILE and left:
                own += [arg, left.pop(0)]
            elif arg.startswith(f"{LOG_FILE}="):
                own.append(arg)
            else:
                rest.append(arg)
        return super().parse_args(ctx, [*own, *rest])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        install(ctx, self)
        return super().resolve_command(ctx, args)


def root_options() -> list[click.Parameter]:
    """Options of messages, which may stand anywhere."""
    return [
        click.Option(["-q", "--quiet"], is_flag=True, help="Only results, errors and remarks on numbers; no progress."),
        click.Option(["-v", "--verbose"], is_flag=True, help="All failures, what libraries log, tracebacks of errors."),
        click.Option(
            [LOG_FILE],
            type=PathType(dir_okay=False, disk="a log grows line by line; name a file of this machine"),
            help="Append all messages to a file.",
        ),
        click.Option(["--no-color"], is_flag=True, help="No colours; the same as NO_COLOR=1."),
    ]


def configure(quiet: bool, verbose: bool, log_file: Path | None, no_color: bool) -> None:
    """Let messages go where the options say.

    Args:
        quiet: only errors and remarks on numbers.
        verbose: more than usual.
        log_file: a file that all messages are appended to, with their times; None: no file.
        no_color: no colours.

    Raises:
        UsageError: quiet and verbose at once, or a file that cannot be written.
    """
    import os

    if quiet and verbose:
        raise UsageError("give -q or -v, not both")
    show_messages(quiet=quiet, verbose=verbose)
    if no_color:
        os.environ["NO_COLOR"] = "1"
    logger = logging.getLogger()
    for handler in [handler for handler in logger.handlers if getattr(handler, "of_verism", False)]:
        logger.removeHandler(handler)
        handler.close()
    handlers: list[logging.Handler] = []
    if log_file is not None:
        try:
            log_file.parent.mkdir(parents=True, exist_ok=True)
            handlers.append(logging.FileHandler(log_file, encoding="utf-8"))
        except OSError as err:
            raise UsageError(f"--log-file {log_file}: cannot be written: {err.strerror}") from err
    if verbose:
        shown = logging.StreamHandler(sys.stderr)
        shown.addFilter(lambda record: record.name != "verism")  # its messages are shown already
        handlers.append(shown)
    for handler in handlers:
        marked: Any = handler
        marked.of_verism = True
        handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s", datefmt="%Y-%m-%d %H:%M:%S"))
        logger.addHandler(handler)
    if handlers:
        logger.setLevel(logging.INFO)
