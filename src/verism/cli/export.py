"""``verism export``: a run for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from verism.errors import UsageError
from verism.terminal import PathType, put_json, say

__all__ = ["export"]


@click.command()
@click.argument("run_dir", type=PathType())
@click.argument("folder", metavar="DIR", type=PathType())
@click.option(
    "--to", required=True, type=click.Choice(["huggingface", "coco", "csv", "parquet"]), help="Output format."
)
@click.option("--force", is_flag=True, help="Replace an earlier export in DIR.")
@click.option("--raw", is_flag=True, help="Write texts to CSV unchanged, for programs.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def export(run_dir: Path, folder: Path, to: Any, force: bool, raw: bool, as_json: bool) -> None:
    """Write a run as a dataset for Hugging Face, as COCO, or as tables. The folder is written whole or not at all.

    \b
    verism export runs/mine --to huggingface my-dataset    # load_dataset("imagefolder", data_dir="my-dataset")
    verism export runs/mine --to coco coco                 # instances, captions, results of detectors
    verism export runs/mine --to csv tables --force
    verism export runs/mine --to parquet tables
    """
    from verism import api

    if raw and to in ("coco", "parquet"):
        raise UsageError("--raw is for --to csv and --to huggingface")
    written = api.export(run_dir, folder, to=to, force=force, raw=raw)
    if as_json:
        put_json({"folder": str(folder), "to": to, **written})
    else:
        say(", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in written.items()))
        click.echo(str(folder))
