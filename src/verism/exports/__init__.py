"""Runs for other programs: a dataset of the Hugging Face library, COCO, CSV, parquet; written whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from verism.errors import UsageError
from verism.specs import did_you_mean
from verism.store import Run
from verism.suites.catalogue import presentation_of

__all__ = ["FORMATS", "Format", "export_run"]

Format = Literal["huggingface", "coco", "csv", "parquet"]
FORMATS: tuple[Format, ...] = get_args(Format)


def export_run(run: Run, out: Path, *, to: Format, force: bool = False, raw: bool = False) -> dict[str, int]:
    """Write a run in another form.

    Tables are read lazily and images are copied one by one, so that a run may have any number of them.

    Args:
        run: a scored run.
        out: a folder, new or empty.
        to: the form.
        force: whether an earlier export in the folder is replaced.
        raw: whether texts of CSV stay as they are, for programs; else what a spreadsheet would run as a formula gets an
            apostrophe.

    Returns:
        What was written: numbers by name.

    Raises:
        UsageError: an unknown form, or a folder that must not be written. DamagedRun: an image is not what it was.
        VerismError: the run has no scores yet.
    """
    from verism.exports.coco import write_coco
    from verism.exports.folder import whole_folder
    from verism.exports.huggingface import write_huggingface
    from verism.exports.tables import write_tables

    if to not in FORMATS:
        raise UsageError(f"no format {to!r}.{did_you_mean(to, FORMATS)} There are {', '.join(FORMATS)}")
    if raw and to in ("coco", "parquet"):
        raise UsageError("raw is for texts of CSV")
    run = run.pinned()
    run.scores()  # refused now if there are none
    presentation = presentation_of(run)
    with whole_folder(out, run, to=to, force=force) as folder:
        if to == "huggingface":
            return write_huggingface(run, presentation, folder, raw=raw)
        if to == "coco":
            return write_coco(run, presentation, folder)
        return write_tables(run, presentation, folder, to=to, raw=raw)
