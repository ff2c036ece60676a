"""``verism board``: models beside each other, with ranks and their uncertainty."""

from __future__ import annotations

from pathlib import Path

import click

from verism.errors import UsageError
from verism.terminal import PathType, put_json, say

__all__ = ["board"]


@click.command()
@click.argument("folders", nargs=-1, required=True, metavar="DIR...", type=PathType())
@click.option("--out", type=PathType(), help="HTML file.  [default: DIR/board.html]")
@click.option("--title", default="", help="Title of the board.  [default: the plan's]")
@click.option("--json", "as_json", is_flag=True, help="Print the board as JSON instead of a page.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV with a row per model and metric.")
@click.option("--markdown", is_flag=True, help="Print a Markdown table.")
@click.option("--latex", is_flag=True, help="Print a LaTeX table (booktabs).")
@click.option("--scoring", metavar="NAME", default="", help="Read this scoring of every run. See: verism scorings")
@click.option(
    "--anyway", is_flag=True, help="Merge boards that are not comparable; the reasons are shown beside the numbers."
)
def board(
    folders: tuple[Path, ...],
    out: Path | None,
    title: str,
    as_json: bool,
    as_csv: bool,
    markdown: bool,
    latex: bool,
    scoring: str,
    anyway: bool,
) -> None:
    """Compare models by headline metrics on one page: of a plan, or of all runs below a directory.

    Ranks have intervals that hold for all models together. Several directories become one board if their prompts,
    judges and protocols agree.

    \b
    verism board P --out board.html
    verism board P --markdown
    verism board plans/june plans/july --json
    """
    from verism.plans.board import make_board
    from verism.plans.board_page import board_page
    from verism.plans.board_text import latex_board, markdown_board
    from verism.report_kit.page import write_page

    if as_json + as_csv + markdown + latex > 1:
        raise UsageError("give one of --json, --csv, --markdown and --latex: together they could not be told apart")
    file = out if out is not None else folders[0] / "board.html"
    if out is not None and out.suffix.lower() not in (".html", ".htm"):
        file = out / "index.html"
    made = make_board(folders, title=title, anyway=anyway, relative_to=file.parent, scoring=scoring)
    if as_json:
        put_json(made.record())
    elif as_csv:
        click.echo(made.csv(), nl=False)
    elif markdown:
        click.echo(markdown_board(made), nl=False)
    elif latex:
        click.echo(latex_board(made), nl=False)
    if out is not None or not (as_json or as_csv or markdown or latex):
        say(f"board: {write_page(board_page(made), file)}")
