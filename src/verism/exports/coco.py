"""COCO: images, boxes of ground truth or of a detector, prompts as captions, results of detectors and captioners."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from verism.exports.folder import IMAGES, copy_images
from verism.exports.tables import numbered_images, provenance
from verism.metrics.masks import mask_area
from verism.records import DetectionNeed, SegmentationNeed
from verism.report_kit.gallery import boxes_of, calibrated_threshold
from verism.specs import Presentation
from verism.store import TRUTH, Run, slug
from verism.suites.catalogue import installed_suite

__all__ = ["write_coco"]

CHUNK = 5_000  # images in memory at once
CORNERS = ("x0", "y0", "x1", "y1")


def write_coco(run: Run, presentation: Presentation, folder: Path) -> dict[str, int]:
    """Write images and annotations.

    ``annotations/instances.json`` has boxes of the ground truth if the run has any, otherwise those that the detector
    sees above its threshold; ``annotations/captions.json`` the prompts. ``results`` has what each detector and each
    captioner found, in COCO's form of results.

    Args:
        run: a run with images.
        presentation: what its suite says of itself.
        folder: where to.

    Returns:
        Number of images, of annotations, and of files of results.
    """
    import polars as pl

    listed = folder / ".images.parquet"
    numbered_images(run, presentation, IMAGES).sink_parquet(listed, compression="zstd", maintain_order=True)
    n_images = copy_images(run, listed, folder)
    rows = pl.scan_parquet(listed)
    number = dict(rows.select("image_id", "number").collect().iter_rows())

    def images() -> Iterator[dict[str, Any]]:
        columns = ("number", "file_name", "width", "height", "image_id", "prompt_id", "prompt")
        for start in range(0, n_images, CHUNK):
            for row in rows.select(columns).slice(start, CHUNK).collect().iter_rows(named=True):
                yield {"id": row.pop("number"), **{k if k != "image_id" else "verism_id": v for k, v in row.items()}}

    def chunks(table: str, judge: str) -> Iterator[pl.DataFrame]:
        ids = list(number)
        for start in range(0, len(ids), CHUNK):
            yield (
                run.scan(table, judge, keys=ids[start : start + CHUNK]).sort("image_id", maintain_order=True).collect()
            )

    found = boxes_of(run)
    table = DetectionNeed.table if found is None else found[0]
    is_object = "query" if table == DetectionNeed.table else "segment"  # -1 in the row of an image looked at
    masks = ["mask", "height", "width"] if table == SegmentationNeed.table else []
    judges = [*run.judges(table), *([TRUTH] if run.has_truth(table) else [])]
    classes = _classes(run, table, judges)
    category = {name: n for n, name in enumerate(classes, start=1)}

    def boxes(judge: str, above: float = -1.0) -> Iterator[dict[str, Any]]:
        for part in chunks(table, judge):
            kept = part.filter(
                (pl.col(is_object) >= 0)
                & (pl.col("score") > above)
                & pl.col("label").is_in(classes)
                & pl.all_horizontal(pl.col(c).is_finite().fill_null(value=False) for c in CORNERS)
            )
            for row in kept.select("image_id", "label", "score", *CORNERS, *masks).iter_rows(named=True):
                x0, y0, x1, y1 = (round(row[corner], 2) for corner in CORNERS)
                mask = row.get("mask")
                yield {
                    "image_id": number[row["image_id"]],
                    "category_id": category[row["label"]],
                    "bbox": [x0, y0, round(x1 - x0, 2), round(y1 - y0, 2)],
                    "score": round(row["score"], 5),
                } | ({} if mask is None else {"segmentation": {"size": [row["height"], row["width"]], "counts": mask}})

    info: dict[str, Any] = {
        "description": f"Images of a run of {run.suite_name}, exported by verism",
        **provenance(run),
    }
    counts = {"images": n_images, "annotations": 0, "results": 0}
    if classes:
        truth = TRUTH in judges
        source = TRUTH if truth else None if found is None else found[1]
        above = -1.0 if truth else calibrated_threshold(run)
        info["boxes"] = (
            "ground truth" if truth else f"boxes of {source} with a score above {above:g}, not checked by anybody"
        )

        def instances() -> Iterator[dict[str, Any]]:
            for n, row in enumerate(boxes(source, above) if source is not None else (), start=1):
                drawn = row.get("segmentation")
                area = mask_area(drawn["counts"]) if drawn else round(row["bbox"][2] * row["bbox"][3], 2)
                kept = {k: v for k, v in row.items() if k != "score" or not truth}
                counts["annotations"] += 1
                yield {"id": n, "segmentation": [], **kept, "area": area, "iscrowd": 0}

        categories = [{"id": n, "name": name, "supercategory": run.suite_name} for name, n in category.items()]
        head: dict[str, Any] = {"info": info, "licenses": [], "categories": categories}
        _write(folder / "annotations" / "instances.json", head, {"images": images(), "annotations": instances()})
        for judge in judges:
            if judge != TRUTH:
                _write(folder / "results" / f"{table}-{slug(judge)}.json", None, {"": boxes(judge)})
                counts["results"] += 1
    captions = ({"id": row["id"], "image_id": row["id"], "caption": row["prompt"]} for row in images())
    head = {"info": {**info, "captions": "the prompts"}, "licenses": []}
    _write(folder / "annotations" / "captions.json", head, {"images": images(), "annotations": captions})
    for judge in run.judges("captions"):

        def results(judge: str = judge) -> Iterator[dict[str, Any]]:
            for part in chunks("captions", judge):
                for image_id, text in part.select("image_id", "text").drop_nulls().iter_rows():
                    yield {"image_id": number[image_id], "caption": text}

        _write(folder / "results" / f"captions-{slug(judge)}.json", None, {"": results()})
        counts["results"] += 1
    listed.unlink()
    return counts


def _classes(run: Run, table: str, judges: Sequence[str]) -> list[str]:
    """Names of the categories: those that the suite asks for, or where it is not installed those that were seen."""
    import polars as pl

    if not judges:
        return []
    suite = installed_suite(run)
    needs = [n for n in (suite.needs() if suite else ()) if isinstance(n, DetectionNeed | SegmentationNeed)]
    asked = [name for need in needs for name in need.classes]
    if asked:
        return list(dict.fromkeys(asked))
    seen: set[str] = set()
    for judge in judges:
        seen |= set(run.scan(table, judge).select(pl.col("label").drop_nulls().unique()).collect()["label"])
    return sorted(seen)


def _write(file: Path, head: Mapping[str, Any] | None, lists: Mapping[str, Iterable[Mapping[str, Any]]]) -> None:
    """JSON whose long lists are written entry by entry; without a head, the file is the list itself."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("x", encoding="utf-8") as out:
        separator = ""
        if head is not None:
            out.write("{")
            for name, value in head.items():
                out.write(f"{separator}{json.dumps(name)}: {_json(value)}")
                separator = ",\n"
        for name, rows in lists.items():
            out.write(separator + (f"{json.dumps(name)}: " if head is not None else "") + "[")
            for n, row in zip(count(), rows):
                out.write(("\n" if n == 0 else ",\n") + _json(row))
            out.write("\n]")
            separator = ",\n"
        out.write("}\n" if head is not None else "\n")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
