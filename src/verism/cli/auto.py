"""``verism run auto``: images with or without prompts of their own, on every suite that fits them."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from verism.cli.common import GroupedCommand, given, in_section, judge_options, put_scores, say_remarks
from verism.systems import quoted
from verism.terminal import Failures, PathType, put_json, say

__all__ = ["auto"]


def _auto(source: Path, reference: Path | None, out: Path, limit: int | None, dry_run: bool, **options: Any) -> None:
    from verism.own_image_evaluation import LISTED, evaluate_own_images, left_out, possible_suites
    from verism.own_images import read_own_images
    from verism.records import roles
    from verism.report_kit.tables import json_report
    from verism.suites.catalogue import presentation_of

    named = given(options)
    as_json = bool(named.pop("as_json", False))
    judges = {role: named.pop(role) for role in roles() if role in named}
    with TemporaryDirectory(
        prefix="verism-auto-", ignore_cleanup_errors=True
    ) as scratch:  # what a dry run unpacks is gone after it
        found = read_own_images(source, Path(scratch) if dry_run else out / "unpacked")
    say(found.words())
    for line in found.skipped[:LISTED]:
        say(f"skipped: {line}")
    if len(found.skipped) > LISTED:
        say(f"skipped: {len(found.skipped) - LISTED:,} more")
    possible = possible_suites(found, judges=judges, reference=reference)
    if as_json and dry_run:
        put_json(
            [
                {"suite": p.suite, "runs": p.options is not None, "why": p.why, "left_out": left_out(found, p)}
                for p in possible
            ]
        )
        return
    for each in possible:
        say(f"{'will run' if each.options is not None else 'possible'}: {each.suite}: {each.why}")
        if each.options is not None:
            for line in left_out(found, each):
                say(f"  {line}")
    if dry_run:
        return
    failures = Failures()
    more = {} if limit is None else {"limit": limit}
    runs = evaluate_own_images(
        found, out, judges=judges, reference=reference, on_failure=failures, on_summary=say, **named, **more
    )
    if as_json:
        put_json({suite: json_report([run], [presentation_of(run)]) for suite, run in runs.items()})
    for run in runs.values():
        if not as_json:
            put_scores(run, as_json)
        else:
            say_remarks(run, run.suite_name)
        say(f"report: verism report {quoted(run.path)}")
    sys.exit(failures.report())


auto = GroupedCommand(
    "auto",
    callback=_auto,
    params=[
        *in_section(
            "Images",
            [
                click.Option(
                    ["--images", "source"],
                    type=PathType(),
                    required=True,
                    help="A folder, a table with path and prompt, a folder with metadata.csv, a parquet or .tar file.",
                ),
                click.Option(["--reference"], type=PathType(), help="Real images to compare with."),
                click.Option(["--limit"], type=click.IntRange(1), help="Number of prompts, sampled at random."),
            ],
        ),
        *judge_options(("clip", "vqa", "captioner", "scorer", "features")),
        *in_section(
            "Output",
            [
                click.Option(
                    ["--out"], type=PathType(), default="runs/auto", show_default=True, help="Folder of the runs."
                ),
                click.Option(["--dry-run"], is_flag=True, help="Print what was found and what would be run, and exit."),
                click.Option(["--json", "as_json"], is_flag=True, help="Print the scores as JSON."),
            ],
        ),
    ],
    short_help="Evaluate your own images on every suite that fits them.",
    help="""Evaluate your own images, with or without prompts, on every suite that fits them.

Prompts are read from a table (columns path and prompt), from metadata.csv (file_name and text), from a text beside each
image, or from a WebDataset. Resumes where it stopped.

\b
verism run auto --images images.csv --clip ViT-B/32
verism run auto --images DIR --reference real_images
verism run auto --images shard.tar --vqa Qwen/Qwen3-VL-8B-Instruct --dry-run""",
)
