"""Files that users write: tables in CSV or JSON lines, documents in YAML or JSON; and what is a picture file."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from verism.errors import UsageError

__all__ = ["PICTURE_SUFFIXES", "read_document", "read_rows"]

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


def read_document(path: Path, what: str) -> Any:
    """The content of a YAML or JSON file.

    Args:
        what: for messages, what such a file holds: "a study", "a world".

    Raises:
        UsageError: no such file, not readable, another format, or damaged.
    """
    suffix = path.suffix.lower()
    if suffix not in (".yaml", ".yml", ".json"):
        raise UsageError(f"{path}: {what} is a .yaml, .yml or .json file")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as err:
        raise UsageError(f"{path} cannot be read as UTF-8 text: {err}") from err
    if suffix == ".json":
        try:
            return json.loads(text)
        except json.JSONDecodeError as err:
            raise UsageError(f"{path} is not JSON: {err}") from err
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as err:
        raise UsageError(f"{path} is not YAML: {err}") from err
