"""``verism reproduce``: published figures beside the same figures worked out again."""

from __future__ import annotations

import click

from verism.errors import UsageError
from verism.terminal import Group, put_json, say

__all__ = ["reproduce"]


@click.group(cls=Group)
def reproduce() -> None:
    """Published figures beside the same figures worked out again from the papers' own tables.

    \b
    verism reproduce gep
    verism reproduce gep --table 6
    verism reproduce dalleval --differences
    verism reproduce digin --json

    No pictures and no models are needed. Exit code 0: all is as documented; 1: a figure differs in a way that is not
    known, a mistake of ours.
    """


def _command(name: str, about: str, examples: str) -> None:
    @reproduce.command(name, help=f"{about}\n\n\b\n{examples}")
    @click.option("--table", help='Only one table: 6, "Table 6", text; where versions differ also "v1 3".')
    @click.option("--differences", is_flag=True, help="Leave out what agrees.")
    @click.option("--json", "as_json", is_flag=True, help="Print the lines as JSON.")
    def command(table: str | None, differences: bool, as_json: bool) -> None:
        from verism.reproduce import Verdict, checks
        from verism.reproduce.common import as_records, as_text, of_table, undocumented

        found = checks(name)
        if table is not None:
            try:
                found = of_table(found, table)
            except ValueError as err:
                raise UsageError(f"--table: {err}") from err
        wrong = undocumented(found)
        if as_json:
            put_json(as_records(c for c in found if not (differences and c.verdict is Verdict.AGREES)))
        else:
            click.echo(as_text(found, differences=differences))
        if wrong:
            say(f"{len(wrong):,} differ in a way that is not known: {'; '.join(c.quantity for c in wrong[:10])}")
            raise SystemExit(1)


_command(
    "gep",
    "Vectors, scores and ranks of gender presentation differences (GEP, arXiv:2302.03675).",
    "verism reproduce gep --table 13\nverism reproduce gep --differences",
)
_command(
    "dalleval",
    "Averages, deviations and votes behind them of DALL-Eval (arXiv:2202.04053, v1 and ICCV 2023).",
    "verism reproduce dalleval --table 'ICCV 3'\nverism reproduce dalleval --json",
)
_command(
    "digin",
    "Sizes, prompt lists, expected coverage and means of regions of DIG In, EvalGIM and prdc.",
    "verism reproduce digin\nverism reproduce digin --differences",
)
