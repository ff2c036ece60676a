"""``verism compbench``: noun phrases, the structure of a copy of the prompts, prompts and images as released."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from verism.errors import UsageError
from verism.files import write_json, write_whole
from verism.imaging import encode_png, read_image
from verism.store import Run
from verism.suites.compbench.layout import SAMPLES, displaced, file_name, is_released_layout
from verism.suites.compbench.phrases import make_parser, needs_phrases, read_phrases, with_phrases, write_phrases
from verism.suites.compbench.prompts import (
    IMAGES_EACH,
    SPLITS,
    Asked,
    prompt_file,
    read_category,
    structure_limits,
    structure_problem,
)
from verism.suites.compbench.vocabulary import CATEGORIES
from verism.suites.prompt_lists import file_hash
from verism.terminal import Group, PathType, put_json, say

__all__ = ["compbench"]

RESULTS: Mapping[str, str] = {  # where the released scripts look for the scores of each metric
    "attribute_binding": "annotation_blip",
    "spatial_2d": "labels/annotation_obj_detection_2d",
    "spatial_3d": "labels/annotation_obj_detection_3d",
    "numeracy": "annotation_num",
    "clip_score": "annotation_clip",
    "three_in_one": "annotation_3_in_1",
}
_as_json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
_categories = click.option(
    "--category",
    "categories",
    multiple=True,
    type=click.Choice(CATEGORIES),
    help="Use only this category; repeatable.",
)
_split = click.option(
    "--split", type=click.Choice(SPLITS), default="val", show_default=True, help="Split of the prompts."
)


@click.group(cls=Group)
def compbench() -> None:
    """Work with T2I-CompBench files: noun phrases, structure of a copy of the prompts, released formats.

    \b
    verism compbench structure DATA
    verism compbench phrases DATA --parser spacy:en_core_web_sm --out phrases.jsonl
    verism compbench export runs/mine --out released
    """


def _read(folder: Path, categories: Sequence[str], split: str) -> dict[str, list[Asked]]:
    """Prompts of the categories named, or of those whose files are there."""
    wanted = categories or [c for c in CATEGORIES if prompt_file(folder, c, split).is_file()]
    if not wanted:
        raise UsageError(f"{folder}: no prompts of T2I-CompBench in it; expected files such as color_{split}.txt")
    return {category: read_category(folder, category, split) for category in wanted}


@compbench.command()
@click.argument("folder", type=PathType())
@click.option("--parser", required=True, help="Parser: spacy:PIPELINE, such as spacy:en_core_web_sm.")
@click.option("--out", required=True, type=PathType(), help="Output file (JSON lines).")
@_categories
@_split
def phrases(folder: Path, parser: str, out: Path, categories: tuple[str, ...], split: str) -> None:
    """Write the noun phrases of the prompts in FOLDER, with the parser's name and versions.

    \b
    verism compbench phrases DATA --parser spacy:en_core_web_sm --out phrases.jsonl
    """
    made = make_parser(parser)
    read = _read(folder, categories, split)
    parsed = {each.text: made.parse(each.text) for some in read.values() for each in some if needs_phrases(each)}
    write_phrases(out, parsed)
    click.echo(f"{len(parsed):,} prompts parsed by {made.name} in {out}")


@compbench.command()
@click.argument("folder", type=PathType())
@click.option("--phrases", "phrases_file", type=PathType(), help="File of noun phrases to count as well.")
@click.option("--parser", help="Parser of noun phrases, in place of a file: spacy:PIPELINE.")
@click.option(
    "--images", type=PathType(), help="Images in the released layout; lists those that the released scripts misplace."
)
@_categories
@_split
@_as_json
def structure(
    folder: Path,
    phrases_file: Path | None,
    parser: str | None,
    images: Path | None,
    categories: tuple[str, ...],
    split: str,
    as_json: bool,
) -> None:
    """Check a copy of the prompts against the released one, and list prompts that can never score.

    \b
    verism compbench structure DATA
    verism compbench structure DATA --parser spacy:en_core_web_sm
    """
    if phrases_file is not None and parser is not None:
        raise UsageError("give either --phrases or --parser")
    read = _read(folder, categories, split)
    problem = structure_problem(read, split, folder)
    if phrases_file is not None or parser is not None:
        made = None if parser is None else make_parser(parser)
        known = {} if phrases_file is None else read_phrases(phrases_file)
        for category, some in read.items():
            if made is not None:
                known |= {each.text: made.parse(each.text) for each in some if needs_phrases(each)}
            read[category] = with_phrases(some, known)
    limits = structure_limits(read)
    files = {path.name: file_hash(path) for path in (prompt_file(folder, c, split) for c in read)}
    misplaced: dict[str, int] = {}
    if images is not None:
        if not is_released_layout(images, list(read)):
            raise UsageError(f"{images}: no folders CATEGORY/{SAMPLES} in it")
        misplaced = {category: displaced(images, category, some, IMAGES_EACH) for category, some in read.items()}
    if as_json:
        record: dict[str, Any] = {
            "problem": problem,
            "files": files,
            "limits": [vars(limit) for limit in limits],
            "misplaced": misplaced,
        }
        put_json(record)
        return
    click.echo(f"differs from the released files: {problem}" if problem else "counts are those of the released files")
    for name, digest in files.items():
        click.echo(f"  {name:<24} SHA-256 {digest[:12]}")
    for limit in limits:
        released = "" if limit.expected is None or split != "val" else f" (released files: {limit.expected})"
        click.echo(f"  {limit.category:<12} {limit.found:>4} of {limit.of}: {limit.what}{released}")
    for category, number in misplaced.items():
        click.echo(f"  {category:<12} {number:>4} images that the released scripts take for other prompts'")


@compbench.command()
@click.argument("run_dir", type=PathType())
@click.option("--out", required=True, type=PathType(), help="Output folder.")
@click.option("--images/--no-images", default=True, help="Copy the images.  [default: yes]")
def export(run_dir: Path, out: Path, images: bool) -> None:
    """Export a run as released: a folder of images per category, and the results of the released rules.

    \b
    verism compbench export runs/mine --out released
    """
    import polars as pl

    run = Run.open(run_dir)
    if run.suite_name != "compbench":
        raise UsageError(f"{run_dir} is a run of {run.suite_name}; this writes runs of compbench")
    prompts = {p.prompt_id: p for p in run.prompts()}
    usable = {row["image_id"]: row for row in run.read("images").iter_rows(named=True) if row["state"] == "ok"}
    numbers: dict[str, tuple[str, int]] = {}
    for prompt in prompts.values():
        for index in range(prompt.n_images):
            numbers[f"{prompt.prompt_id}#{index}"] = (
                str(prompt.spec["category"]),
                int(prompt.spec["index"]) * prompt.n_images + index,
            )
    for image_id, row in usable.items():
        category, number = numbers[image_id]
        target = out / category / SAMPLES / file_name(prompts[row["prompt_id"]].text, number)
        if images:
            _copy_png(run.resolve(row["path"]), target)
    verdicts = run.verdicts().filter(pl.col("protocol") == "released")
    results: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for image_id, rule, value in verdicts.select("image_id", "rule", "value").iter_rows():
        if rule in RESULTS and value is not None and image_id in usable:
            category, number = numbers[image_id]
            results.setdefault((category, rule), []).append((number, value))
    for (category, rule), rows in results.items():
        listed = [{"question_id": number, "answer": f"{value:.4f}"} for number, value in sorted(rows)]
        write_json(out / category / RESULTS[rule] / "vqa_result.json", listed)
    click.echo(f"{len(usable):,} images and {len(results)} files of results in {out}")
    if len(usable) < len(numbers):
        say(f"{len(numbers) - len(usable):,} images are missing: released scripts would misplace those behind them")


def _copy_png(source: Path, target: Path) -> None:
    """The image as PNG, as the released scripts expect it."""
    if source.suffix.lower() == ".png":
        write_whole(target, source.read_bytes())
        return
    image = read_image(source)
    if image.pixels is None:
        raise UsageError(f"{source}: {image.note}")
    write_whole(target, encode_png(image.pixels))
