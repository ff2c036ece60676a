"""The real images a suite compares with: read, hashed and looked at as a run's own are, once."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from verism.errors import UsageError
from verism.imaging import pixel_count, read_image
from verism.locations import location
from verism.pipeline.stream import BATCH, Batch, ahead, ask, batches, failure, reload_image, row_pixels
from verism.progress import Progress
from verism.records import (
    FeatureNeed,
    Judge,
    LoadedImage,
    ReferenceImage,
    ReferenceSet,
    frame,
    vector_rows,
    vectors_of,
)
from verism.store import Run

if TYPE_CHECKING:
    pass

__all__ = ["observe_reference", "reference_set", "take_in_reference"]

TABLE = "reference_features"


def take_in_reference(run: Run, reference: ReferenceSet, judge: Judge | None) -> list[str]:
    """Note the real images a run compares with, and let a judge look at them; what was done before is kept.

    An image that cannot be used keeps its place, with the reason.

    Args:
        run: the run that keeps the reference.
        reference: the real images, or their features.
        judge: judge that computes the features; None if only the names are wanted.

    Returns:
        A line about each image that cannot be used.

    Raises:
        UsageError: only features by another judge are known of the images.
    """
    import polars as pl

    if reference.features is not None:
        _take_in_features(run, reference, judge)
        return []
    done = run.keys("reference")
    pending = [p for p in reference.images if p.image_id not in done]
    with (
        ThreadPoolExecutor(max_workers=2, thread_name_prefix="verism-io") as pool,
        Progress("reference", len(reference.images), done=len(done)) as progress,
    ):
        started = ahead(
            Batch([pool.submit(_read, p) for p in part], made=False) for part in batches(pending, BATCH, pixels=_pixels)
        )
        for batch in started:
            read = [future.result() for future in batch.futures]
            if judge is not None:
                ask(run, judge, FeatureNeed(), [image for _, image in read if image is not None], table=TABLE)
            # As with the run's own images: one is done once it is in this table.
            run.append("reference", frame("reference", [row for row, _ in read]))
            progress.advance(len(read))
    run.compact("reference")
    if judge is not None:
        observe_reference(run, judge)
    return [failure(row) for row in run.read("reference").filter(pl.col("state") != "ok").iter_rows(named=True)]


def observe_reference(run: Run, judge: Judge) -> None:
    """Let a judge look at the real images of a run it has not seen yet."""
    import polars as pl

    done = run.keys(TABLE, judge.name)
    usable = run.read("reference").filter((pl.col("state") == "ok") & pl.col("path").is_not_null())
    pending = [r for r in usable.iter_rows(named=True) if r["image_id"] not in done]
    if pending:
        with (
            ThreadPoolExecutor(max_workers=2, thread_name_prefix="verism-io") as pool,
            Progress("reference looked at", usable.height, done=usable.height - len(pending)) as progress,
        ):
            started = ahead(
                Batch([pool.submit(reload_image, run, r) for r in part], made=False)
                for part in batches(pending, BATCH, pixels=partial(row_pixels, run))
            )
            for batch in started:
                ask(run, judge, FeatureNeed(), [future.result() for future in batch.futures], table=TABLE)
                progress.advance(len(batch.futures))
    run.compact(TABLE, judge.name)


def reference_set(run: Run, judge: str, source: str) -> ReferenceSet:
    """The real images of a run with the features a judge gave them, to be shared as a reference file."""
    import polars as pl

    rows = run.read("reference").filter(pl.col("state") == "ok").join(run.read(TABLE, judge), on="image_id")
    return ReferenceSet(
        source=source,
        images=tuple(
            ReferenceImage(
                image_id=row["image_id"], path=row["path"], sha256=row["sha256"], facets=json.loads(row["facets"])
            )
            for row in rows.drop("vector").iter_rows(named=True)
        ),
        judge=judge,
        features=vectors_of(rows["vector"]),
    )


def _pixels(image: ReferenceImage) -> int:
    return 0 if image.path is None else pixel_count(location(image.path))


def _read(image: ReferenceImage) -> tuple[dict[str, Any], LoadedImage | None]:
    row = {
        "image_id": image.image_id,
        "state": "ok",
        "path": image.path,
        "sha256": image.sha256,
        "facets": json.dumps(dict(image.facets), ensure_ascii=False),
        "note": None,
    }
    if image.path is None:
        return row, None
    read = read_image(location(image.path))
    row |= {"state": read.state, "sha256": read.sha256, "note": read.note or None}
    if read.state != "ok" or read.pixels is None:
        return row, None
    return row, LoadedImage(image_id=image.image_id, prompt_id="", pixels=read.pixels, sha256=read.sha256)


def _take_in_features(run: Run, reference: ReferenceSet, judge: Judge | None) -> None:
    """Features that somebody computed before, from a reference file."""
    assert reference.features is not None
    if judge is not None and reference.judge is not None and reference.judge != judge.name:
        raise UsageError(
            f"{reference.source} holds features by {reference.judge}, and the images would be seen by {judge.name}: "
            "such features cannot be compared. Use the same --features, or the reference images themselves"
        )
    if {p.image_id for p in reference.images} - run.keys("reference"):
        run.append("reference", frame("reference", [_unread(p) for p in reference.images]))
    if judge is not None and {p.image_id for p in reference.images} - run.keys(TABLE, judge.name):
        ids = [p.image_id for p in reference.images]
        run.append(TABLE, vector_rows(TABLE, ids, judge.name, reference.features), judge.name)


def _unread(image: ReferenceImage) -> dict[str, Any]:
    return {
        "image_id": image.image_id,
        "state": "ok",
        "path": image.path,
        "sha256": image.sha256,
        "facets": json.dumps(dict(image.facets), ensure_ascii=False),
        "note": "known by its features alone; the file was not read",
    }
