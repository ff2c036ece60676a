"""What every stage that shows pictures to judges shares: batches started ahead, reading again, asking, failures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from typing import Any

from verism.errors import VerismError
from verism.imaging import read_picture
from verism.prefetch import prefetch
from verism.records import Judge, LoadedImage, Need
from verism.store import Run

__all__ = ["AHEAD", "BATCH", "Batch", "ahead", "ask", "batches", "failure", "reload_picture"]

BATCH = 32  # pictures per part; a killed run loses at most one batch
AHEAD = 2  # batches of pictures that exist already, decoded before they are needed


@dataclass(eq=False)
class Batch:
    """A batch under way. ``made``: its pictures were made and not found, so losing them would cost."""

    futures: list[Future[Any]]
    made: bool


def batches(items: Sequence[Any], size: int) -> Iterator[list[Any]]:
    """Lists of at most ``size`` items, in order."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def ahead(started: Iterator[Batch]) -> Iterator[Batch]:
    """Start batches before they are needed, ``AHEAD`` at a time; yield them in order.

    Pictures that were made are kept before more are made: a killed run loses one batch of them, not several.
    """
    return prefetch(started, AHEAD, flush=lambda batch: batch.made)


def ask(run: Run, judge: Judge, need: Need, images: Sequence[LoadedImage], *, table: str | None = None) -> None:
    """Show pictures to a judge and keep its rows, in ``table`` or the need's own.

    Raises:
        VerismError: the judge left a picture out, spoke of another, or signed with another name.
    """
    if not images:
        return
    rows = judge.observe(images, need)
    shown, answered = {i.image_id for i in images}, set(rows["image_id"].to_list())
    if silent := sorted(shown - answered):
        raise VerismError(f"judge {judge.name} said nothing about {silent[:3]}; every picture needs a row")
    if foreign := sorted(answered - shown):
        raise VerismError(f"judge {judge.name} spoke of {foreign[:3]}, which it was not shown")
    if others := sorted(set(rows["judge"].to_list()) - {judge.name}, key=str):
        raise VerismError(f"judge {judge.name} signed its rows as {others[:3]}; every row bears the judge's own name")
    run.append(table or need.table, rows, judge.name)


def reload_picture(run: Run, row: Mapping[str, Any]) -> LoadedImage:
    """The picture of a row of ``images`` or ``reference``, read again.

    Raises:
        VerismError: the file is gone, or is not what it was.
    """
    picture = read_picture(run.resolve(row["path"]))
    if picture.pixels is None or picture.sha256 != row["sha256"]:
        why = picture.note if picture.pixels is None else "its content changed"
        raise VerismError(
            f"picture {row['image_id']} ({row['path']}) is not what it was when the run took it in: {why}. "
            "Restore the file, or start a new run with another --out"
        )
    return LoadedImage(image_id=row["image_id"], prompt_id=row.get("prompt_id", ""), pixels=picture.pixels)


def failure(row: Mapping[str, Any]) -> str:
    """A row of a picture that is not ok, as a line."""
    return f"{row['image_id']}: {row['state']}: {row['note']}"
