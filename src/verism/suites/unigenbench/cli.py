"""``verism unigenbench``: results of the released evaluation."""

from __future__ import annotations

from pathlib import Path

import click

from verism.files import write_csv
from verism.suites.unigenbench.benchmark import point_answers, read_points, read_results
from verism.terminal import Group, PathType

__all__ = ["unigenbench"]


@click.group(cls=Group)
def unigenbench() -> None:
    """Convert results of the released UniGenBench evaluation.

    \b
    verism unigenbench answers results.csv --prompts test_prompts_en.csv --out answers.csv
    """


@unigenbench.command()
@click.argument("results", type=PathType())
@click.option("--prompts", required=True, type=PathType(), help="File of the prompts that the results belong to.")
@click.option("--out", required=True, type=PathType(), help="Output table of answers, for --vqa results:FILE.")
def answers(results: Path, prompts: Path, out: Path) -> None:
    """Convert RESULTS of the released evaluation to answers of the suite's questions, to score them here.

    \b
    verism unigenbench answers results.csv --prompts test_prompts_en.csv --out answers.csv
    verism run unigenbench --prompts test_prompts_en.csv --images DIR --vqa results:answers.csv
    """
    rows = point_answers(read_points(prompts), read_results(results))
    columns = ("image_id", "question", "answer")
    write_csv(out, columns, ([row[name] for name in columns] for row in rows))
    click.echo(f"{len(rows):,} answers in {out}")
