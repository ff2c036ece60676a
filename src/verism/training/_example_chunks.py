"""Rendered examples in files: chunks of images, with what is known of each image beside them.

A chunk is made once and whole, and does not depend on how many follow, so that rendering can be stopped and resumed and
a training can begin before it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verism.errors import UsageError
from verism.files import read_json, whole_file, write_json
from verism.systems import end_with_parent

__all__ = ["read_chunks", "render_chunks"]

Renderer = Callable[[int, int, int, int], tuple[NDArray[np.uint8], Sequence[Any]]]


def render_chunks(
    out: Path,
    prefix: str,
    count: int,
    render: Renderer,
    *,
    chunk_size: int,
    seed: int,
    processes: int,
    size: int,
    on_chunk: Callable[[int], None],
) -> Path:
    """Render examples into a folder; chunks that are there already are kept.

    Args:
        out: the folder, made if missing.
        prefix: first part of the files' names.
        count: images, at least 1; the last chunk may be smaller.
        render: images of a chunk and what is known of each (dataclasses), from seed, number of the chunk, number of
            images and size; of a module, so that another process can call it.
        chunk_size: images of a file; a chunk is drawn whatever the others are, so another size gives other images.
        seed: of all random draws.
        processes: that render at a time, at least 1.
        size: width and height in pixels, 64 to 2048.
        on_chunk: called with the number of images there are after each chunk.

    Raises:
        UsageError: a count below one.
    """
    if count < 1:
        raise UsageError(f"count={count}: expected one image or more")
    out.mkdir(parents=True, exist_ok=True)
    jobs = []
    for chunk in range(-(-count // chunk_size)):
        stem = out / f"{prefix}_{seed}_{chunk:04d}"
        if not stem.with_suffix(".json").is_file():
            jobs.append((render, stem, seed, chunk, min(chunk_size, count - chunk * chunk_size), size))
    done = count - sum(job[4] for job in jobs)
    if processes == 1:
        for job in jobs:
            done += _write_chunk(*job)
            on_chunk(done)
        return out
    # Spawned: a forked child would inherit the threads of whatever library has some, and hang on their locks.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=end_with_parent) as pool:
        for made in pool.map(_write_chunk, *zip(*jobs, strict=True)) if jobs else ():
            done += made
            on_chunk(done)
    return out


def _write_chunk(render: Renderer, stem: Path, seed: int, chunk: int, count: int, size: int) -> int:
    pixels, facts = render(seed, chunk, count, size)
    with whole_file(stem.with_suffix(".npy"), sync=False) as partial, open(partial, "wb") as file:
        np.save(file, pixels)
    write_json(stem.with_suffix(".json"), [asdict(known) for known in facts])
    return count


def read_chunks(folders: Sequence[Path], prefix: str) -> Iterator[tuple[str, NDArray[np.uint8], list[Any]]]:
    """Name, images (memory-mapped) and records of each complete chunk of some folders, in the order of their names.

    Args:
        folders: of ``render_chunks``.
        prefix: first part of the files' names.

    Raises:
        UsageError: a chunk whose records are not those of its images.
    """
    for folder in folders:
        for path in sorted(Path(folder).glob(f"{prefix}_*.json")):
            pixels, records = np.load(path.with_suffix(".npy"), mmap_mode="r"), read_json(path)
            if len(records) != len(pixels):
                raise UsageError(f"{path} has {len(records)} records for {len(pixels)} images; render the chunk anew")
            yield path.stem, pixels, records
