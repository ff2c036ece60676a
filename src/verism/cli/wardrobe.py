"""``verism scenes people``: rendered people in known clothes, to measure judges of clothing with."""

from __future__ import annotations

from pathlib import Path

import click

from verism.terminal import SEED, PathType, put_json, say

__all__ = ["people"]


@click.command()
@click.option("--count", type=click.IntRange(2), default=300, show_default=True, help="Number of images, even.")
@click.option(
    "--attribute", "attributes", multiple=True, help="Render only this attribute; repeatable.  [default: all]"
)
@click.option("--seed", type=SEED, default=0, show_default=True)
@click.option("--size", type=int, default=256, show_default=True, help="Width and height in pixels.")
@click.option("--out", required=True, type=PathType(file_okay=False), help="Output folder, new or empty.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def people(count: int, attributes: tuple[str, ...], seed: int, size: int, out: Path, as_json: bool) -> None:
    """Render people in known clothes, with exact labels.

    \b
    verism scenes people --count 300 --seed 1 --out PEOPLE
    verism scenes people --attribute tie --attribute hat --count 100 --out PEOPLE

    They come in pairs that differ in one garment, worn in one image and not in the other. PEOPLE/labels.csv has the
    garments worn and the visible share of each, PEOPLE/definitions.json the definition of each attribute.
    """
    from verism.simulator.wardrobe import render_people

    made = render_people(
        out, count, seed=seed, size=size, attributes=attributes or None, on_pair=lambda done: _tell(done, count // 2)
    )
    if as_json:
        put_json({"labels": str(made.labels), "pictures": made.images, "redrawn_pairs": made.redrawn})
    else:
        click.echo(f"{made.labels}: {made.images:,} images; {made.redrawn:,} pairs drawn anew to show their garment")


def _tell(done: int, pairs: int) -> None:
    """How far it is, on standard error, every fifty pairs."""
    if done % 50 == 0 and done < pairs:
        say(f"{2 * done:,} of {2 * pairs:,} images")
