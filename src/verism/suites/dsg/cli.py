"""``verism dsg``: released answers and ratings of people."""

from __future__ import annotations

import math
from pathlib import Path

import click

from verism.suites.dsg.human_labels import agreement, read_answers, read_ratings
from verism.terminal import Group, PathType, put_json

__all__ = ["dsg"]


@click.group(cls=Group)
def dsg() -> None:
    """Compare released DSG answers with human ratings.

    \b
    verism dsg human pali17b_dsg.csv --ratings tifa160-likert-anns.csv
    """


@dsg.command()
@click.argument("answers", type=PathType())
@click.option("--ratings", required=True, type=PathType(), help="Human ratings, tifa160-likert-anns.csv.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def human(answers: Path, ratings: Path, as_json: bool) -> None:
    """Measure how well scores of ANSWERS (released format) agree with human ratings, by dependency rule.

    \b
    verism dsg human pali17b_dsg.csv --ratings tifa160-likert-anns.csv
    verism dsg human mplug_dsg.csv --ratings tifa160-likert-anns.csv --json
    """
    found = agreement(read_answers(answers), read_ratings(ratings))
    if as_json:
        put_json(
            {
                rule: {
                    "mean_score": mean,
                    "images": made.n_images,
                    "unusable": made.n_unusable,
                    **{
                        name: {key: None if math.isnan(v) else v for key, v in zip(("value", "low", "high"), ends)}
                        for name, ends in (
                            ("pearson", made.pearson),
                            ("spearman", made.spearman),
                            ("kendall_tau_b", made.kendall),
                            ("pairwise", made.pairwise[:3]),
                        )
                    },
                }
                for rule, (mean, made) in found.items()
            }
        )
        return
    click.echo(f"{'dependency':<11} {'mean':>7} {'Spearman':>9} {'Kendall':>8} {'Pearson':>8} {'pairs':>7}  images")
    for rule, (mean, made) in found.items():
        click.echo(
            f"{rule:<11} {mean:7.2%} {made.spearman[0]:9.4f} {made.kendall[0]:8.4f} {made.pearson[0]:8.4f} "
            f"{made.pairwise.value:7.4f}  {made.n_images:,}"
        )
