"""The real images a suite compares with: read, hashed and looked at as a run's own are, once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TYPE_CHECKING, Any

from verism.errors import UsageError
from verism.imaging import pixel_count, read_image
from verism.locations import location
from verism.pipeline.shares import ALONE, Claims, Shares
from verism.pipeline.stream import BATCH, Batch, ahead, ask, batches, claimed_batches, failure
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


def take_in_reference(run: Run, reference: ReferenceSet, judge: Judge | None, *, shares: Shares = ALONE) -> list[str]:
    """Note the real images a run compares with, and let a judge look at them; what was done before is kept.

    An image that cannot be used keeps its place, with the reason.

    Args:
        run: the run that keeps the reference.
        reference: the real images, or their features.
        judge: judge that computes the features; None if only the names are wanted.
        shares: which of the images this process does.

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
    with (
        shares.claims(
            "reference", reference.images, key=lambda image: image.image_id, done=lambda: run.keys("reference")
        ) as claims,
        ThreadPoolExecutor(max_workers=2, thread_name_prefix="verism-io") as pool,
        Progress("reference", len(reference.images), done=len(done)) as progress,
    ):
        for batch in ahead(_claimed_files(claims, pool)):
            read = [future.result() for future in batch.futures]
            if judge is not None:
                ask(run, judge, FeatureNeed(), [image for _, image in read if image is not None], table=TABLE)
            # As with the run's own images: one is done once it is in this table.
            run.append("reference", frame("reference", [row for row, _ in read]))
            batch.keep()
            progress.advance(len(read))
    if shares.alone:
        run.compact("reference")
    if judge is not None:
        observe_reference(run, judge, [image.image_id for image in reference.images], shares=shares)
    return [failure(row) for row in run.read("reference").filter(pl.col("state") != "ok").iter_rows(named=True)]


def _claimed_files(claims: Claims[ReferenceImage], pool: ThreadPoolExecutor) -> Iterator[Batch]:
    for claim in claims:
        if claim is None:
            yield Batch.flush()
            continue
        for part in batches(claim.items, BATCH, pixels=_pixels):
            yield Batch([pool.submit(_read, image) for image in part], made=False, claim=claim)


def observe_reference(
    run: Run, judge: Judge, image_ids: Sequence[str] | None = None, *, shares: Shares = ALONE
) -> None:
    """Let a judge look at the real images of a run it has not seen yet.

    Args:
        run: the run that keeps them.
        judge: who looks at them.
        image_ids: the images; None: all that the run knows.
        shares: which of the images this process does.
    """
    import polars as pl

    reference = run.read("reference")
    usable = reference.filter((pl.col("state") == "ok") & pl.col("path").is_not_null())
    wanted = reference["image_id"].to_list() if image_ids is None else list(image_ids)
    unusable = set(wanted) - set(usable["image_id"].to_list())

    def rows_of(ids: Sequence[str]) -> list[dict[str, Any]]:
        return usable.filter(pl.col("image_id").is_in(list(ids))).rows(named=True)

    with shares.claims(
        f"{TABLE}/{judge.name}", wanted, key=str, done=lambda: run.keys(TABLE, judge.name) | unusable
    ) as claims:
        first = next(claims, None)
        if first is not None:
            with (
                ThreadPoolExecutor(max_workers=2, thread_name_prefix="verism-io") as pool,
                Progress("reference looked at", len(wanted), done=len(wanted) - len(first.items)) as progress,
            ):
                for batch in ahead(claimed_batches(chain([first], claims), rows_of, run, pool)):
                    ask(run, judge, FeatureNeed(), [future.result() for future in batch.futures], table=TABLE)
                    batch.keep()
                    progress.advance(len(batch.futures))
    if shares.alone:
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
