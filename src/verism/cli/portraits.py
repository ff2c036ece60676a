"""``verism scenes portraits``: rendered heads of known skin tone, to measure judges of skin tone with."""

from __future__ import annotations

from pathlib import Path

import click

from verism.terminal import SEED, PathType, put_json, say

__all__ = ["portraits"]


@click.command()
@click.option(
    "--count", type=click.IntRange(1), default=600, show_default=True, help="Number of images; the tones take turns."
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Seed of people and light.")
@click.option("--size", type=int, default=256, show_default=True, help="Width and height in pixels.")
@click.option("--out", required=True, type=PathType(file_okay=False), help="Output folder, new or empty.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def portraits(count: int, seed: int, size: int, out: Path, as_json: bool) -> None:
    """Render portraits with the ten Monk skin tones in varied light, with exact ground truth.

    \b
    verism scenes portraits --count 600 --seed 1 --out PORTRAITS
    verism judge card --role skin_tone --judge builtin --truth PORTRAITS --out card.json

    PORTRAITS/truth.csv has for each image the tone of the skin's material, the positions of the face and its landmarks,
    and the light, turn and camera, all sampled independently of the tone.
    """
    from verism.simulator.portraits import render_portraits

    made = render_portraits(out, count, seed=seed, size=size, on_image=lambda done: _tell(done, count))
    if as_json:
        put_json({"truth": str(made.table), "pictures": made.images})
    else:
        click.echo(f"{made.table}: {made.images:,} images")


def _tell(done: int, count: int) -> None:
    """How far it is, on standard error, every hundred images."""
    if done % 100 == 0 and done < count:
        say(f"{done:,} of {count:,} images")
