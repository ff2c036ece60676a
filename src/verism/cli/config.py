"""``verism config``: which defaults apply, and where they are from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from verism.cli.defaults import PREFIX, Setting, find_file, unknown_variables
from verism.terminal import put_json, say

__all__ = ["config", "settings_line"]


def _record(setting: Setting) -> dict[str, Any]:
    option = f"--{setting.key.replace('_', '-')}"
    return {"command": " ".join(setting.command), "option": option, "value": setting.value, "from": setting.source}


def settings_line() -> str:
    """The file of defaults that applies in this folder, in a line."""
    found = find_file(Path.cwd())
    if found.file is None:
        return "no verism.toml or [tool.verism] here or above"
    return f"{found.file}, {len(list(found.settings())):,} defaults"


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
@click.pass_context
def config(ctx: click.Context, as_json: bool) -> None:
    """Show the defaults that apply here, and where each is from. A misspelt name is an error.

    An option on the command line goes first, then the environment (VERISM_RUN_DEVICE, VERISM_DEVICE), then the nearest
    verism.toml or [tool.verism] of a pyproject.toml, then the option's own default.

    \b
    verism config
    verism config --json
    VERISM_DEVICE=cuda:1 verism run quality --images DIR --reference REAL
    """
    root = ctx.find_root().command
    assert isinstance(root, click.Group)
    found = find_file(Path.cwd())
    found.check(root)
    odd = dict(unknown_variables(root))
    records = [_record(setting) for setting in found.settings()]
    variables = {k: v for k, v in sorted(os.environ.items()) if k.startswith(PREFIX)}
    if as_json:
        known = {k: v for k, v in variables.items() if k not in odd}
        file = None if found.file is None else str(found.file)
        put_json({"file": file, "defaults": records, "environment": known, "unknown": sorted(odd)})
        return
    click.echo(settings_line())
    for record in records:
        click.echo(f"  {record['command'] or 'all commands'}: {record['option']} = {record['value']!r}")
    for name, value in variables.items():
        click.echo(f"{name}={value}" + (f"  (names no option. {odd[name]})" if name in odd else ""))
    for name, hint in odd.items():
        say(f"note: {name} names no option. {hint}".rstrip(), always=True)
