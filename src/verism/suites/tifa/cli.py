"""``verism tifa``: released ratings of people, and metrics held against them."""

from __future__ import annotations

import math
from pathlib import Path

import click

from verism.suites.tifa.human_labels import agreement, read_ratings
from verism.terminal import Group, PathType, put_json

__all__ = ["tifa"]


@click.group(cls=Group)
def tifa() -> None:
    """Compare TIFA and other metrics with human ratings.

    \b
    verism tifa human human_annotations_with_scores.json
    """


@tifa.command()
@click.argument("ratings", type=PathType())
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def human(ratings: Path, as_json: bool) -> None:
    """Measure how well each metric in RATINGS (released format) agrees with people.

    The coefficients published as Spearman's are Pearson's.

    \b
    verism tifa human human_annotations_with_scores.json
    """
    found = agreement(read_ratings(ratings))
    if as_json:
        put_json(
            {
                name: {
                    "images": made.n_images,
                    **{
                        measure: {k: None if math.isnan(v) else v for k, v in zip(("value", "low", "high"), ends)}
                        for measure, ends in (
                            ("pearson", made.pearson),
                            ("spearman", made.spearman),
                            ("kendall_tau_b", made.kendall),
                            ("pairwise", made.pairwise[:3]),
                        )
                    },
                }
                for name, made in found.items()
            }
        )
        return
    click.echo(f"{'metric':<24} {'Pearson':>8} {'Spearman':>9} {'Kendall':>8} {'pairs':>7}  images")
    for name, made in found.items():
        values = f"{made.pearson[0]:8.4f} {made.spearman[0]:9.4f} {made.kendall[0]:8.4f} {made.pairwise.value:7.4f}"
        click.echo(f"{name:<24} {values}  {made.n_images:,}")
