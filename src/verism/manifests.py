"""Lists of pictures: tables in CSV or JSON lines that name files, and what counts as a picture file."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from verism.errors import UsageError

__all__ = ["PICTURE_SUFFIXES", "read_rows"]

PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")


def read_rows(manifest: Path) -> list[dict[str, str]]:
    """The rows of a CSV file (with a header) or of JSON lines, as dictionaries.

    Raises:
        UsageError: no such file, another suffix, or content that is neither.
    """
    if not manifest.is_file():
        raise UsageError(f"{manifest}: no such file")
    try:
        text = manifest.read_text(encoding="utf-8-sig")
        if manifest.suffix.lower() == ".csv":
            # Not by splitlines: a prompt may hold quoted line ends, and characters that only it takes for line ends.
            return list(csv.DictReader(io.StringIO(text, newline="")))
        if manifest.suffix.lower() in (".jsonl", ".ndjson", ".json"):
            return [dict(json.loads(line)) for line in text.split("\n") if line.strip()]
    except (UnicodeDecodeError, json.JSONDecodeError, ValueError, TypeError, csv.Error) as err:
        raise UsageError(f"{manifest} cannot be read as a manifest: {err}") from err
    raise UsageError(f"{manifest}: a manifest is .csv or .jsonl")
