"""How files are kept: object storage by two libraries, and images of a run in files of their own or in shards.

    python benchmarks/storage.py objects [--objects 200] [--bytes 20000] [--repeats 5]
    python benchmarks/storage.py images [--images 20000] [--side 64] [--remote 1000] [--repeats 3] [--folder DIR]

``objects``: the library that verism uses (obstore) beside boto3, against an S3 server on this machine. Both write,
read, list and look up the same objects, in turn; what is printed are medians and their ratio. The server (moto) is the
same for both, and takes most of the time.

``images``: the same images, 32 at a time as a run keeps them, in files, in shards, in these shards put together by
``verism compact``, and in parquet files with a row for each image, in turn; what is printed are the shortest times and
their ratio to files. Read are some at random, by the run's own reader (parquet: by polars, one row), from the memory of
the system. ``copy`` and ``remove`` are those of the folder. With ``--remote``, so many of the images in object storage
as well (moto).
"""

from __future__ import annotations

import argparse
import hashlib
import io
import logging
import math
import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import polars as pl
from moto.server import ThreadedMotoServer

from verism.files import write_whole
from verism.imaging import encode_png
from verism.locations import is_remote, location, remove_tree
from verism.manifest import RunSettings
from verism.records import frame
from verism.store import Run, compact_images, write_shards

BUCKET = "bucket"


def main() -> None:
    """Print a table of seconds and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("objects", "images"))
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--side", type=int, default=64, help="pixels")
    parser.add_argument("--remote", type=int, default=1_000, help="images in object storage; 0: none")
    parser.add_argument("--folder", type=Path, help="where to write; its file system is what is measured")
    parser.add_argument("--objects", type=int, default=200)
    parser.add_argument("--bytes", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    if options.what == "images":
        measure_images(options)
    else:
        measure_objects(options)


@contextmanager
def s3_server() -> Iterator[Any]:
    """A server with an empty bucket, which the environment variables name; yields a client of boto3."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for each request
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    endpoint = "http://{}:{}".format(*server.get_host_and_port())
    os.environ |= {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
    }
    client = boto3.client("s3", region_name="us-east-1")
    client.create_bucket(Bucket=BUCKET)
    yield client
    server.stop()


def measure_objects(options: argparse.Namespace) -> None:
    """Print seconds and ratios of two libraries."""
    with s3_server() as client:
        _measure_objects(options, client)


def _measure_objects(options: argparse.Namespace, client: Any) -> None:
    data, names = os.urandom(options.bytes), [f"{n:06}" for n in range(options.objects)]
    ours = location(f"s3://{BUCKET}/ours")
    pairs: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "put": (
            lambda: [(ours / name).write_bytes(data) for name in names],
            lambda: [client.put_object(Bucket=BUCKET, Key=f"theirs/{name}", Body=data) for name in names],
        ),
        "get": (
            lambda: [(ours / name).read_bytes() for name in names],
            lambda: [client.get_object(Bucket=BUCKET, Key=f"theirs/{name}")["Body"].read() for name in names],
        ),
        "exists": (
            lambda: [(ours / name).is_file() for name in names],
            lambda: [client.head_object(Bucket=BUCKET, Key=f"theirs/{name}") for name in names],
        ),
        "list": (
            lambda: list(ours.iterdir()),
            lambda: client.list_objects_v2(Bucket=BUCKET, Prefix="theirs/", Delimiter="/"),
        ),
    }
    print(f"{options.objects} objects of {options.bytes:,} bytes, medians of {options.repeats}\n")
    print("| what | obstore, s | boto3, s | ratio |")
    print("|---|--:|--:|--:|")
    for what, both in pairs.items():
        seconds = [statistics.median(times) for times in zip(*(_timed(both) for _ in range(options.repeats)))]
        print(f"| {what} | {seconds[0]:.3f} | {seconds[1]:.3f} | {seconds[0] / seconds[1]:.2f} |")


# ------------------------------------------------------------------------------------------------------------- images
BATCH = 32  # as of a run
READ = 2_000  # images read at random
ROUNDS = 5  # of reading


def measure_images(options: argparse.Namespace) -> None:
    """Print seconds and ratios of images in files and in shards."""
    rows, pngs = _images(options.images, options.side)
    size = sum(map(len, pngs)) / len(pngs)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        print(f"{len(rows):,} PNGs of {options.side} x {options.side} pixels, {size:,.0f} bytes each on average\n")
        _print_table([_measured(Path(folder) / str(n), rows, pngs) for n in range(options.repeats)])
    if options.remote:
        with s3_server():
            rows, pngs = rows[: options.remote], pngs[: options.remote]
            print(f"\n{len(rows):,} of them in object storage\n")
            _print_table([_measured(location(f"s3://{BUCKET}/{n}"), rows, pngs) for n in range(options.repeats)])


def _images(count: int, side: int) -> tuple[list[dict[str, Any]], list[bytes]]:
    """Rows and files of noisy images, which are as large as others of their size."""
    rng = np.random.default_rng(0)
    cells = -(-side // 8)
    rows, pngs = [], []
    for number in range(count):
        coarse = rng.integers(0, 248, (cells, cells, 3), np.uint8).repeat(8, 0).repeat(8, 1)[:side, :side]
        pngs.append(encode_png(coarse + rng.integers(0, 8, (side, side, 3), np.uint8)))
        rows.append(
            {"image_id": f"prompt-{number:07}#0", "prompt_id": f"prompt-{number:07}", "index": 0, "seed": number}
        )
    return rows, pngs


def _measured(folder: Path, rows: Sequence[dict[str, Any]], pngs: Sequence[bytes]) -> dict[str, dict[str, float]]:
    """Seconds of every step by way, and the number of files and the bytes on the disk for each image."""
    found: dict[str, dict[str, float]] = {}
    reads: dict[str, Callable[[], list[bytes]]] = {}
    chosen = random.Random(0).sample(range(len(rows)), min(READ, len(rows)))
    for way in ("files", "shards", "compacted", "parquet"):
        if way == "parquet" and is_remote(folder):
            continue
        place = folder / way
        times = found[way] = {}
        run = Run.start(place, RunSettings(suite="none"))
        run.write_prompts([])
        times["write"] = _seconds(lambda run=run, way=way: _write(run, way, rows, pngs))
        table = {row["image_id"]: row for row in run.read("images").iter_rows(named=True)}
        wanted = [table.get(rows[i]["image_id"], {"number": i}) for i in chosen]
        reads[way] = lambda run=run, wanted=wanted: [_read(run, row) for row in wanted]
        if reads[way]() != [pngs[i] for i in chosen]:
            raise AssertionError(f"{way}: other images were read than were written")
        kinds = {"files": "images/*.png", "parquet": "rows/*.parquet"}  # others: shards
        kept = list(place.glob(kinds.get(way, "shards/*.tar")))
        times["files"] = len(kept)
        times["bytes"] = sum(file.stat().st_size for file in kept) / len(rows)
        if not is_remote(folder):
            times["disk"] = sum(file.stat().st_blocks * 512 for file in kept) / len(rows)
            copy = place.with_name("copy")
            times["copy"] = _seconds(lambda place=place, copy=copy: shutil.copytree(place, copy))
            times["remove"] = _seconds(lambda copy=copy: shutil.rmtree(copy))
    for _ in range(ROUNDS):
        for way, read in reads.items():
            begun = time.perf_counter()
            count = len(read())
            found[way]["read"] = min(found[way].get("read", math.inf), (time.perf_counter() - begun) / count)
    remove_tree(folder)
    return found


def _write(run: Run, way: str, rows: Sequence[dict[str, Any]], pngs: Sequence[bytes]) -> None:
    for start in range(0, len(rows), BATCH):
        batch, data = rows[start : start + BATCH], pngs[start : start + BATCH]
        if way == "parquet":
            buffer = io.BytesIO()
            names = [row["image_id"] for row in batch]
            pl.DataFrame({"image_id": names, "png": list(data)}).write_parquet(buffer, compression="uncompressed")
            write_whole(run.path / "rows" / f"{start // BATCH:06}.parquet", buffer.getvalue())
            continue
        if way == "files":
            paths = [run.write_image(row["image_id"], png) for row, png in zip(batch, data, strict=True)]
        else:
            paths = write_shards(run, list(zip(batch, data, strict=True)), {})
        more = [
            {"state": "ok", "note": "", "path": path, "sha256": hashlib.sha256(png).hexdigest()}
            for path, png in zip(paths, data, strict=True)
        ]
        run.append("images", frame("images", [{**row, **rest} for row, rest in zip(batch, more, strict=True)]))
    if way == "compacted":
        compact_images(run, "shards")


def _read(run: Run, row: dict[str, Any]) -> bytes:
    if "number" not in row:
        return run.image_bytes(row)
    part, place = divmod(row["number"], BATCH)
    rows = pl.scan_parquet(run.path / "rows" / f"{part:06}.parquet").slice(place, 1).select("png").collect()
    return bytes(rows["png"][0])


def _print_table(repeats: Sequence[dict[str, dict[str, float]]]) -> None:
    """The least of the repeats, and how it relates to files."""
    units = {"write": ("s", 2), "read": ("ms", 3), "files": ("", 0), "bytes": ("", 0), "disk": ("bytes", 0)}
    ways = list(repeats[0])
    print(f"| what | {' | '.join(ways)} |")
    print(f"|---|{'--:|' * len(ways)}")
    for what in ("write", "read", "copy", "remove", "files", "bytes", "disk"):
        if what not in repeats[0]["files"]:
            continue
        unit, digits = units.get(what, ("s", 2))
        values = [min(found[way][what] for found in repeats) for way in ways]
        cells = [f"{value * (1000 if unit == 'ms' else 1):,.{digits}f} ({value / values[0]:.2f})" for value in values]
        print(f"| {what}{f', {unit}' if unit else ''} | {' | '.join(cells)} |")


def _seconds(job: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    job()
    return time.perf_counter() - begun


def _timed(both: tuple[Callable[[], Any], ...]) -> list[float]:
    found = []
    for one in both:
        begun = time.perf_counter()
        one()
        found.append(time.perf_counter() - begun)
    return found


if __name__ == "__main__":
    main()
