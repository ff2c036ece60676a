"""A folder written whole or not at all, and the images of a run copied into it."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from verism.errors import DamagedRun, UsageError, VerismError
from verism.files import IMAGE_SUFFIXES, USAGE_ERRNOS, write_json, write_whole
from verism.imaging import encode_png
from verism.locations import check_on_disk
from verism.store import Run

__all__ = ["IMAGES", "MARKER", "check_folder", "copy_images", "whole_folder"]

MARKER = ".verism-export.json"  # says that a folder may be replaced: an export wrote it
IMAGES = "images"


def check_folder(out: Path, run: Run, *, force: bool) -> None:
    """Refuse to write where something else is.

    Args:
        out: folder of the export.
        run: what is exported.
        force: whether an earlier export may be replaced.

    Raises:
        UsageError: the folder is not empty, or lies in the run, or the run in it.
    """
    check_on_disk(out, "an export is made in a folder of this machine; name one, and copy it from there")
    here, there = out.absolute().resolve(), run.path.absolute().resolve()
    if here.is_relative_to(there) or there.is_relative_to(here):
        raise UsageError(f"{out} and the run {run.path} lie in each other; choose another folder")
    if not out.exists():
        return
    if not out.is_dir():
        raise UsageError(f"{out} exists and is no folder; choose another")
    if any(out.iterdir()):
        exported = (out / MARKER).is_file()
        if not exported:
            raise UsageError(f"{out} is not empty, and no export wrote it; choose another folder")
        if not force:
            raise UsageError(f"{out} has an export already; choose another folder, or replace it with --force")


@contextmanager
def whole_folder(out: Path, run: Run, *, to: str, force: bool) -> Iterator[Path]:
    """A temporary folder beside ``out`` to fill, which takes its place at the end, or is removed after an error.

    Args:
        out: folder of the export.
        run: what is exported.
        to: name of the format.
        force: whether an earlier export may be replaced.

    Yields:
        The temporary folder.

    Raises:
        UsageError: as ``check_folder``; or the folder must not be written. VerismError: writing failed otherwise.
    """
    check_folder(out, run, force=force)
    temporary = out.with_name(f".{out.absolute().name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    old = temporary.with_suffix(".old")
    try:
        try:
            temporary.mkdir(parents=True)
        except OSError as err:
            kind = UsageError if err.errno in USAGE_ERRNOS else VerismError
            raise kind(f"{out} cannot be written: {err.strerror or err}") from err
        yield temporary
        write_json(temporary / MARKER, {"format": to, "run": run.manifest.uid, "suite": run.suite_name})
        if out.exists():
            out.rename(old)
        try:
            temporary.rename(out)
        except OSError:
            if old.exists():
                old.rename(out)
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def copy_images(run: Run, images: Path, folder: Path) -> int:
    """Copy the images of a list as they are; what few programs can read becomes PNG.

    Args:
        run: the run.
        images: parquet file with ``path`` and ``sha256`` as the run has them, and ``file_name`` to be written.
        folder: that file names are relative to.

    Returns:
        Number of images.

    Raises:
        DamagedRun: an image is gone, or not the one that the run is about.
    """
    import polars as pl

    rows = pl.scan_parquet(images).select("path", "sha256", "file_name")
    total = rows.select(pl.len()).collect().item()
    for start in range(0, total, 10_000):
        for row in rows.slice(start, 10_000).collect().iter_rows(named=True):
            file, expected = run.resolve(row["path"]), row["sha256"]
            try:
                data = run.image_bytes(row)
            except (OSError, ValueError) as err:
                raise DamagedRun.of(run.path, file, f"it cannot be read: {err}") from err
            if expected is not None and hashlib.sha256(data).hexdigest() != expected:
                raise DamagedRun.of(run.path, file, "it was changed since the run was made")
            if file.suffix.lower() not in IMAGE_SUFFIXES:
                pixels = run.load_image(row).pixels
                if pixels is None:
                    raise DamagedRun.of(run.path, file, "it is no image any more")
                data = encode_png(pixels)
            write_whole(folder / row["file_name"], data, sync=False)
    return int(total)
