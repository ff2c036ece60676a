"""``verism reproduce``: published figures beside the same figures worked out again."""

from __future__ import annotations

from collections.abc import Sequence
from pkgutil import resolve_name

import click

from verism.errors import UsageError
from verism.suites.catalogue import published_checks, published_figures
from verism.terminal import Group, put_json, say

__all__ = ["reproduce"]


class _Papers(Group):
    """A command for each paper whose figures suites work out again."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(published_figures())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        locations = published_figures().get(cmd_name)
        return None if locations is None else _command(cmd_name, locations)


@click.group(cls=_Papers)
def reproduce() -> None:
    """Recompute published figures from the papers' own tables, and print both.

    \b
    verism reproduce gep
    verism reproduce gep --table 6
    verism reproduce dalleval --differences
    verism reproduce digin --json

    No images and no models are needed. Exit code 0: all is as documented; 1: a figure differs in a way that is not
    known, an error in verism.
    """


def _command(name: str, locations: Sequence[str]) -> click.Command:
    docs = [resolve_name(location).__doc__ for location in locations]
    about = "\n".join((doc or "").partition("\n")[0] for doc in docs)

    @click.command(name, help=f"{about}\n\n\b\nverism reproduce {name} --differences\nverism reproduce {name} --json")
    @click.option("--table", help='Only one table: 6, "Table 6", text; where versions differ also "v1 3".')
    @click.option("--differences", is_flag=True, help="Show only figures that differ.")
    @click.option("--json", "as_json", is_flag=True, help="Print the lines as JSON.")
    def command(table: str | None, differences: bool, as_json: bool) -> None:
        from verism.published import Verdict, as_records, as_text, of_table, undocumented

        report = published_checks(name)
        if table is not None:
            try:
                report = of_table(report, table)
            except ValueError as err:
                raise UsageError(f"--table: {err}") from err
        wrong = undocumented(report)
        if as_json:
            put_json(as_records(c for c in report if not (differences and c.verdict is Verdict.AGREES)))
        else:
            click.echo(as_text(report, differences=differences))
        if wrong:
            say(f"{len(wrong):,} differ in a way that is not known: {'; '.join(c.quantity for c in wrong[:10])}")
            raise SystemExit(1)

    return command
