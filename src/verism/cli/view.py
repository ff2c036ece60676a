"""The command that shows runs in the browser."""

from __future__ import annotations

from pathlib import Path

import click

from verism.terminal import PathType

__all__ = ["view"]


@click.command()
@click.argument("folder", type=PathType())
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8123, show_default=True, help="Port to listen on; 0: any free one."
)
@click.option("--no-open", is_flag=True, help="Do not open the page in this machine's browser.")
def view(folder: Path, port: int, no_open: bool) -> None:
    """Show all runs below FOLDER in the browser: scores, boards, every image with its verdicts, two runs side by side.

    Nothing is written, and nothing is served to other machines. Runs that are still at work show how far they are.

    \b
    verism view runs                       # all runs below the folder, and pages (.html) found there
    verism view runs/mine --port 8200      # one run, on another port
    verism view runs --no-open             # only print the address
    ssh -L 8123:127.0.0.1:8123 gpu-box     # with the viewer running there, open http://127.0.0.1:8123 here
    """
    from verism.viewer.server import view as show

    show(folder, port=port, open_browser=not no_open)
