"""The stages of a run on this machine.

Pictures stream through: a batch is made or found, decoded once, stored and shown to every judge, and its rows are
written before the next batch is done. Encoding, hashing and decoding happen on worker threads while the models work.
Whatever was finished before is not done again, so a killed run goes on where it stopped and ends in the same tables.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.errors import VerismError
from verism.imaging import encode_png, is_blank, read_picture
from verism.pipeline.progress import Progress
from verism.records import (
    Generator,
    Judge,
    LoadedImage,
    Need,
    Prompt,
    Request,
    Result,
    frame,
    make_image_id,
)
from verism.store import TRUTH, Run

if TYPE_CHECKING:
    import polars as pl

__all__ = ["BATCH", "make_requests", "observe_pictures", "picture_seed", "run_pictures"]

BATCH = 64  # pictures per part; a killed run loses at most one batch
AHEAD = 2  # batches decoded before they are needed


def picture_seed(seed: int, image_id: str) -> int:
    """The generator's seed of one picture: a hash of the run's seed and the picture's id, 31 bits.

    It does not depend on which other pictures are asked for, so a larger run repeats the pictures of a smaller one.
    """
    digest = hashlib.blake2b(f"{seed}/{image_id}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> 1


def make_requests(prompts: Sequence[Prompt], seed: int) -> list[Request]:
    """Every picture a run asks for, in order."""
    return [
        Request(
            image_id=(image_id := make_image_id(p.prompt_id, index)),
            prompt=p,
            index=index,
            seed=picture_seed(seed, image_id),
        )
        for p in prompts
        for index in range(p.n_images)
    ]


@dataclass(eq=False)
class _Arrived:
    """A picture on its way: its table row, and its pixels if it has any to judge."""

    row: dict[str, Any]
    image: LoadedImage | None
    truth: Mapping[str, pl.DataFrame]


def run_pictures(
    run: Run,
    requests: Sequence[Request],
    generator: Generator,
    judges: Sequence[tuple[Judge, Need]],
    *,
    retry: bool = False,
    on_failure: Callable[[str], None] | None = None,
) -> None:
    """Make or find every picture that is not there yet, and let the judges look at it.

    Args:
        retry: ask again for pictures that are missing, failed or refused.
        on_failure: told of every picture that did not come out ok, as it happens.
    """
    import polars as pl

    known = run.read("images")
    if retry and known.height:
        again = known.filter(pl.col("state").is_in(["missing", "failed", "refused"]))["image_id"].to_list()
        run.forget("images", again)
        known = run.read("images")
    have = set(known["image_id"].to_list())
    pending = [r for r in requests if r.image_id not in have]
    with (
        ThreadPoolExecutor(max_workers=2, thread_name_prefix="verism-io") as pool,
        Progress("pictures", len(requests), done=len(requests) - len(pending)) as progress,
    ):
        for batch in _ahead(_batches(pending, BATCH), lambda b: _start(b, generator, run, pool)):
            arrived = [future.result() for future in batch]
            if on_failure is not None:
                for a in arrived:
                    if a.row["state"] != "ok":
                        on_failure(f"{a.row['image_id']}: {a.row['state']}: {a.row['note']}")
            looked_at = [a.image for a in arrived if a.image is not None]
            for judge, need in judges:
                _judge(run, judge, need, looked_at)
            for table in sorted({name for a in arrived for name in a.truth}):
                run.append(table, pl.concat([a.truth[table] for a in arrived if table in a.truth]), TRUTH)
            # The pictures' own rows come last: a picture is done once it is in this table.
            run.append("images", frame("images", [a.row for a in arrived]))
            progress.advance(len(arrived))
    run.compact("images")
    for judge, need in judges:
        observe_pictures(run, requests, judge, need)
    for table in {need.table for _, need in judges}:
        run.compact(table, TRUTH)


def observe_pictures(run: Run, requests: Sequence[Request], judge: Judge, need: Need) -> None:
    """Let a judge look at the run's pictures it has not seen yet, without asking for any picture again."""
    import polars as pl

    seen = run.read(need.table, judge.name)
    done = set(seen["image_id"].to_list())
    pictures = run.read("images").filter(pl.col("state") == "ok")
    wanted = {r.image_id for r in requests}
    pending = [r for r in pictures.iter_rows(named=True) if r["image_id"] in wanted - done]
    if pending:
        with (
            ThreadPoolExecutor(max_workers=2, thread_name_prefix="verism-io") as pool,
            Progress("looked at", pictures.height, done=pictures.height - len(pending)) as progress,
        ):
            for batch in _ahead(_batches(pending, BATCH), lambda rows: [pool.submit(_reload, run, r) for r in rows]):
                _judge(run, judge, need, [future.result() for future in batch])
                progress.advance(len(batch))
    run.compact(need.table, judge.name)


def _judge(run: Run, judge: Judge, need: Need, images: Sequence[LoadedImage]) -> None:
    if not images:
        return
    rows = judge.observe(images, need)
    silent = {i.image_id for i in images} - set(rows["image_id"].to_list())
    if silent:
        raise VerismError(f"judge {judge.name} said nothing about {sorted(silent)[:3]}; every picture needs a row")
    run.append(need.table, rows, judge.name)


def _reload(run: Run, row: Mapping[str, Any]) -> LoadedImage:
    picture = read_picture(run.resolve(row["path"]))
    if picture.pixels is None or picture.sha256 != row["sha256"]:
        why = picture.note if picture.pixels is None else "its content changed"
        raise VerismError(
            f"picture {row['image_id']} ({row['path']}) is not what it was when the run took it in: {why}. "
            "Restore the file, or start a new run with another --out"
        )
    return LoadedImage(image_id=row["image_id"], prompt_id=row["prompt_id"], pixels=picture.pixels)


def _start(
    requests: Sequence[Request], generator: Generator, run: Run, pool: ThreadPoolExecutor
) -> list[Future[_Arrived]]:
    """Ask for a batch; storing and decoding go on behind while the next is asked for."""
    futures = []
    expected = [r.image_id for r in requests]
    for request, result in zip(requests, generator.generate(requests), strict=True):
        if result.image_id != request.image_id:
            raise VerismError(f"{generator.name} answered {result.image_id!r} when asked for {request.image_id!r}")
        futures.append(pool.submit(_take_in, request, result, run))
    assert len(futures) == len(expected)
    return futures


def _take_in(request: Request, result: Result, run: Run) -> _Arrived:
    row: dict[str, Any] = {
        "image_id": request.image_id,
        "prompt_id": request.prompt.prompt_id,
        "index": request.index,
        "seed": None,
        "state": result.state,
        "note": result.note,
    }
    pixels = None
    if result.path is not None:
        from pathlib import Path

        picture = read_picture(Path(result.path))
        pixels = picture.pixels
        note = "; ".join(n for n in (result.note, picture.note) if n)
        row |= {"state": picture.state, "path": result.path, "sha256": picture.sha256, "note": note}
    elif result.pixels is not None:
        pixels = np.asarray(result.pixels, dtype=np.uint8)
        png = encode_png(pixels)
        row |= {
            "path": run.write_picture(request.image_id, png),
            "sha256": hashlib.sha256(png).hexdigest(),
            "seed": request.seed,
        }
        if result.state == "ok" and is_blank(pixels):
            flat = "one flat colour, rgb({}, {}, {})".format(*pixels[0, 0].tolist())
            row |= {"state": "blank", "note": "; ".join(n for n in (result.note, flat) if n)}
    image = None
    if pixels is not None:
        row |= {"width": pixels.shape[1], "height": pixels.shape[0]}
        if row["state"] == "ok":
            image = LoadedImage(image_id=request.image_id, prompt_id=request.prompt.prompt_id, pixels=pixels)
    return _Arrived(row, image, result.truth)


def _batches(items: Sequence[Any], size: int) -> Iterator[list[Any]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def _ahead(
    batches: Iterator[list[Any]], start: Callable[[list[Any]], list[Future[Any]]]
) -> Iterator[list[Future[Any]]]:
    """Start batches before they are needed, ``AHEAD`` at a time; yield them in order."""
    waiting: list[list[Future[Any]]] = []
    for batch in batches:
        waiting.append(start(batch))
        if len(waiting) > AHEAD:
            yield waiting.pop(0)
    yield from waiting
