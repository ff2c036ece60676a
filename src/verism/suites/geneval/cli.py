"""``verism geneval``: files in the released format, and the authors' annotations."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from verism.errors import UsageError
from verism.files import write_csv, write_whole
from verism.imaging import encode_png
from verism.records import Prompt, SegmentationNeed
from verism.store import Run
from verism.suites.geneval.aggregation import Summary, released_summary
from verism.suites.geneval.human_labels import NO, YES, Annotation, human_summary, is_right, read_annotations
from verism.suites.geneval.layout import METADATA, SAMPLES, read_results, result_line
from verism.suites.geneval.prompts import PUBLISHED_SEED, draw_prompts, metadata_lines, read_metadata
from verism.suites.geneval.vocabulary import CLASSES, TASKS
from verism.terminal import Group, PathType, put_json, say

__all__ = ["geneval"]

_out = click.option("--out", required=True, type=PathType(), help="Output folder.")
_as_json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
_metadata = click.option("--metadata", type=PathType(), help="File of the prompts.  [default: the published ones]")


@click.group(cls=Group)
def geneval() -> None:
    """Write and read GenEval files in the released format, with human annotations.

    \b
    verism geneval prompts --out prompts
    verism geneval export runs/mine --out released
    verism geneval summary results.jsonl
    verism geneval human annotations_sdv2.csv
    """


@geneval.command()
@click.option(
    "--draw", type=click.IntRange(1), default=1, show_default=True, help="Draw of the prompts; 1: the published ones."
)
@_out
def prompts(draw: int, out: Path) -> None:
    """Write evaluation_metadata.jsonl, generation_prompts.txt and object_names.txt.

    \b
    verism geneval prompts --out prompts
    verism geneval prompts --draw 2 --out fresh
    """
    drawn = draw_prompts(PUBLISHED_SEED + draw - 1)
    write_whole(out / "evaluation_metadata.jsonl", metadata_lines(drawn))
    write_whole(out / "generation_prompts.txt", "".join(prompt["prompt"] + "\n" for prompt in drawn))
    write_whole(out / "object_names.txt", "".join(name + "\n" for name in CLASSES))
    click.echo(f"{len(drawn)} prompts in {out}")


@geneval.command()
@click.argument("run_dir", type=PathType())
@click.option("--images/--no-images", default=True, help="Copy the images.  [default: yes]")
@_out
def export(run_dir: Path, images: bool, out: Path) -> None:
    """Export a run as released: folders of images with metadata, and results.jsonl by the released rules.

    \b
    verism geneval export runs/mine --out released
    """
    run = Run.open(run_dir)
    if run.suite_name != "geneval":
        raise UsageError(f"{run_dir} is a run of {run.suite_name}; this writes runs of geneval")
    asked = {p.prompt_id: p for p in run.prompts()}
    usable = [row for row in run.read("images").iter_rows(named=True) if row["state"] == "ok"]
    files: dict[str, str] = {}
    for prompt_id, prompt in asked.items():
        folder = out / _folder(prompt_id)
        write_whole(folder / METADATA, json.dumps(prompt.spec["metadata"]))
    for row in usable:
        file = out / _folder(row["prompt_id"]) / SAMPLES / f"{row['index']:05d}.png"
        files[row["image_id"]] = str(file)
        if images:
            file.parent.mkdir(parents=True, exist_ok=True)
            _copy_png(run, row, file)
    lines = _result_lines(run, asked, files)
    write_whole(out / "results.jsonl", "".join(line + "\n" for line in lines))
    click.echo(f"{len(lines)} results in {out / 'results.jsonl'}")


def _folder(prompt_id: str) -> str:
    return prompt_id.rpartition("_")[2]


def _copy_png(run: Run, row: Mapping[str, Any], target: Path) -> None:
    """The image as PNG, which is all the released code reads."""
    source = run.resolve(row["path"])
    if source.suffix.lower() == ".png":
        write_whole(target, run.image_bytes(row))
        return
    image = run.load_image(row)
    if image.pixels is None:
        raise UsageError(f"{source}: {image.note}")
    write_whole(target, encode_png(image.pixels))


def _result_lines(run: Run, asked: dict[str, Prompt], files: dict[str, str]) -> list[str]:
    """Lines of images that the released rules decided about, in the order of the prompts."""
    import polars as pl

    from verism.suites.catalogue import stored_suite
    from verism.suites.geneval.rules import kept_objects
    from verism.suites.geneval.suite import GenEval, objects_by_image

    verdicts = run.verdicts().filter((pl.col("protocol") == "released") & (pl.col("rule") == "accuracy"))
    judge = run.judge(SegmentationNeed.role)
    suite = stored_suite(run, rules=True)
    if judge is None or not isinstance(suite, GenEval):
        raise UsageError(f"{run.path}: no segmenter observed its images")
    seen = objects_by_image(run.read(SegmentationNeed.table, judge))
    order = {prompt_id: number for number, prompt_id in enumerate(asked)}
    rows = sorted(verdicts.iter_rows(named=True), key=lambda row: (order[row["prompt_id"]], row["image_id"]))
    lines = []
    for row in rows:
        if row["value"] is None or row["image_id"] not in files:
            continue
        metadata = asked[row["prompt_id"]].spec["metadata"]
        kept = kept_objects(seen.get(row["image_id"], []), suite.rule_sets()["released"], metadata["tag"])
        details = {label: [[*o.box, o.score] for o in objects] for label, objects in kept.items()}
        reason = "" if row["value"] == 1 else row["reason"].replace("; ", "\n")
        lines.append(result_line(files[row["image_id"]], metadata, row["value"] == 1, reason, details))
    return lines


@geneval.command()
@click.argument("results", type=PathType())
@_as_json
def summary(results: Path, as_json: bool) -> None:
    """Print the scores of RESULTS, in the released format, as the released summary prints them.

    \b
    verism geneval summary results.jsonl
    """
    made = released_summary((line.tag, line.metadata, line.correct) for line in read_results(results))
    if as_json:
        put_json(_record(made))
        return
    click.echo(f"{made.n_images:,} images of {made.n_prompts:,} prompts")
    for task, share in made.tasks.items():
        click.echo(f"  {task:<16} {share:8.2%}")
    click.echo(f"  {'overall':<16} {made.overall:.5f}")
    click.echo(f"right images {made.correct_images:.2%}, prompts with one {made.correct_prompts:.2%}")
    if missing := [task for task in TASKS if task not in made.tasks]:
        say(f"no image of {', '.join(missing)}: the overall score is of the other tasks alone")


def _record(made: Summary) -> dict[str, Any]:
    return {
        "tasks": dict(made.tasks),
        "overall": made.overall,
        "correct_images": made.correct_images,
        "correct_prompts": None if math.isnan(made.correct_prompts) else made.correct_prompts,
        "images": made.n_images,
        "prompts": made.n_prompts,
    }


@geneval.command()
@click.argument("files", nargs=-1, required=True, type=PathType())
@click.option("--run", "run_dir", type=PathType(), help="Run of these images; reports how well its judge agrees.")
@click.option("--ratings", type=PathType(), help="Output table of answers, for verism annotate RUN --import.")
@_metadata
@_as_json
def human(
    files: tuple[Path, ...], run_dir: Path | None, ratings: Path | None, metadata: Path | None, as_json: bool
) -> None:
    """Score human annotations, FILES in the authors' format; report agreement of annotators, and of a judge.

    \b
    verism geneval human annotations_clip.csv annotations_sdv2.csv annotations_if-xl.csv
    verism geneval human annotations_sdv2.csv --run runs/sd21
    verism geneval human annotations_sdv2.csv --ratings ratings.csv
    """
    listed = draw_prompts() if metadata is None else read_metadata(metadata)
    by_index = dict(enumerate(listed))
    if (run_dir is not None or ratings is not None) and len(files) > 1:
        raise UsageError("name one file of annotations with --run or --ratings: files are of different models")
    records: list[dict[str, Any]] = []
    for file in files:
        annotations = read_annotations(file)
        made = human_summary(annotations, by_index)
        record: dict[str, Any] = {
            "file": file.name,
            "score": made.score,
            "tasks": {task: made.tasks[task] for task in TASKS if task in made.tasks},
            "annotations": made.n_annotations,
            "images": made.n_images,
            "unanimous": made.unanimous,
            "pairwise_agreement": None if math.isnan(made.pairwise_agreement) else made.pairwise_agreement,
        }
        if run_dir is not None:
            record["judge"] = _agreement(Run.open(run_dir), annotations, by_index)
        if ratings is not None:
            _write_ratings(ratings, annotations, by_index)
        records.append(record)
    total = {
        "files": records,
        "images": sum(r["images"] for r in records),
        "unanimous": sum(r["unanimous"] for r in records),
    }
    if as_json:
        put_json(total)
        return
    for record in records:
        click.echo(f"{record['file']}: {record['annotations']:,} annotations of {record['images']:,} images")
        click.echo(
            f"  right by people {record['score']:.4f} (mean over annotations), unanimous {record['unanimous']:,}"
        )
        for task, share in record["tasks"].items():
            click.echo(f"  {task:<16} {share:8.2%}")
        for name, value in record.get("judge", {}).items():
            click.echo(f"  {name.replace('_', ' ')}: {value if isinstance(value, int) else f'{value:.4f}'}")
    click.echo(f"{total['images']:,} images, unanimous {total['unanimous']:,}")


def _agreement(run: Run, annotations: list[Annotation], prompts: dict[int, Any]) -> dict[str, Any]:
    """How far the released verdicts of a run agree with people, image by image."""
    import polars as pl

    rows = run.verdicts().filter((pl.col("protocol") == "released") & (pl.col("rule") == "accuracy"))
    images = {row["image_id"]: row["index"] for row in run.read("images").iter_rows(named=True)}
    judged = {
        (int(_folder(row["prompt_id"])), images[row["image_id"]]): row["value"] == 1
        for row in rows.iter_rows(named=True)
        if row["value"] is not None
    }
    votes: dict[tuple[int, int], list[bool]] = {}
    for annotation in annotations:
        votes.setdefault((annotation.index, annotation.image), []).append(
            is_right(annotation, prompts[annotation.index])
        )
    shared = {key: some for key, some in votes.items() if key in judged}
    if not shared:
        raise UsageError(f"{run.path}: none of its images is annotated; they are matched by prompt and number")
    single = [judged[key] == vote for key, some in shared.items() for vote in some]
    agreed = [judged[key] == some[0] for key, some in shared.items() if len(some) > 1 and len(set(some)) == 1]
    return {
        "images_shared": len(shared),
        "agreement_with_annotators": sum(single) / len(single),
        "agreement_on_unanimous": sum(agreed) / len(agreed) if agreed else math.nan,
        "score_of_people": sum(map(sum, shared.values())) / sum(map(len, shared.values())),
        "score_of_judge": sum(judged[key] for key in shared) / len(shared),
    }


def _write_ratings(path: Path, annotations: list[Annotation], prompts: dict[int, Any]) -> None:
    """Answers to the suite's own questions, one row for each annotation; annotators are numbered by image."""
    counts: dict[tuple[int, int], int] = {}
    rows = []
    for annotation in annotations:
        key = (annotation.index, annotation.image)
        counts[key] = counts.get(key, 0) + 1
        metadata = prompts[annotation.index]
        answer = YES if is_right(annotation, metadata) else NO
        item = f"{annotation.index:05d}#{annotation.image}"
        rows.append((item, metadata["tag"], f"annotator {counts[key]}", answer))
    write_csv(path, ("item", "task", "rater", "answer"), rows)
