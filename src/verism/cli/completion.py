"""Completion in bash, zsh and fish: suites and commands by click, models, judges and runs by what is here."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from verism.errors import UsageError
from verism.terminal import PathType

__all__ = ["RunPath", "complete_kinds", "completion"]

PROGRAM, VARIABLE = "verism", "_VERISM_COMPLETE"
Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def complete_kinds(role: str | None) -> Complete:
    """Completion of the names of generators or judges.

    Args:
        role: of judges; None for generators.
    """

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from verism.registry import kinds

        del ctx, parameter
        return [
            CompletionItem(kind.name, help=kind.text)
            for kind in kinds(role, broken=[])
            if kind.name.startswith(incomplete)
        ]

    return complete


class RunPath(PathType):
    """A run directory: completed by run directories, and by directories on the way to them."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from verism.store import MANIFEST

        del ctx, param
        parent, slash, start = incomplete.rpartition("/")
        folder = Path(parent or ("/" if slash else "."))
        try:
            there = sorted(path for path in folder.iterdir() if path.name.startswith(start) and path.is_dir())
        except OSError:
            return []
        items = []
        for path in there:
            if path.name.startswith(".") and not start.startswith("."):
                continue
            written = f"{parent}{slash}{path.name}"
            is_run = (path / MANIFEST).is_file()
            items.append(CompletionItem(written if is_run else f"{written}/", help="run" if is_run else None))
        return items


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the program that completes commands, options, suites, models, judges and runs in a shell.

    \b
    verism completion bash >> ~/.bashrc
    verism completion zsh >> ~/.zshrc
    verism completion fish > ~/.config/fish/completions/verism.fish
    """
    if shell == "bash" and shutil.which("bash") is None:
        raise UsageError("bash is not installed on this machine")
    found: Any = get_completion_class(shell)
    click.echo(found(ctx.find_root().command, {}, PROGRAM, VARIABLE).source())
