"""Files: every file is written whole or not at all, and every format has one reader.

Text is UTF-8, with or without a byte order mark. Lines end in ``\\n``, ``\\r\\n`` or ``\\r`` and nowhere else: U+2028,
U+2029 and U+0085, which ``str.splitlines`` takes for line ends as well, occur in captions.
"""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from verism.errors import UsageError, VerismError

__all__ = [
    "IMAGE_SUFFIXES",
    "CocoCaption",
    "Row",
    "coco_captions",
    "json_bytes",
    "read_document",
    "read_json",
    "read_lines",
    "read_rows",
    "read_text",
    "split_lines",
    "whole_file",
    "write_csv",
    "write_json",
    "write_whole",
]

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")

# What the user can mend; a full disk is not among it.
_USAGE_ERRNOS = {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.EEXIST, errno.ENOTDIR, errno.EISDIR),
    errno.ENAMETOOLONG,
}


# ------------------------------------------------------------------------------------------------------------- writing
@contextmanager
def whole_file(path: Path, *, sync: bool = True) -> Iterator[Path]:
    """A temporary file to fill, which takes the place of ``path`` at the end, or is removed after an error.

    Readers see the old file or the new one. Processes and threads that write the same file at once do not meet: the
    temporary files have names of their own. A killed process leaves one behind, hidden and ending in ``.tmp``.

    Args:
        path: the file to write; its folder is made if need be.
        sync: whether the content must be on the disk before the name is, so that not even a power failure leaves a
            file cut short. ``False`` suits files whose damage shows, such as images with a known hash.
    Yields:
        The temporary file, not yet there.
    Raises:
        UsageError: the file must not be written there.
        VerismError: writing failed otherwise, for example as the disk is full.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise _cannot_write(path, err) from err
    try:
        yield temporary
        if sync:
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as err:
        # Who fills the file may read others: their errors are not about this one.
        if err.errno is None or err.filename not in (None, str(temporary), temporary):
            raise
        raise _cannot_write(path, err) from err
    finally:
        with suppress(OSError):
            temporary.unlink()


def _cannot_write(path: Path, err: OSError) -> VerismError:
    kind = UsageError if err.errno in _USAGE_ERRNOS else VerismError
    return kind(f"{path} cannot be written: {err.strerror or err}")


def write_whole(path: Path, data: bytes | str, *, sync: bool = True) -> None:
    """Write a file whole or not at all; see ``whole_file``.

    Args:
        path: the file; its folder is made if need be.
        data: content; text is written as UTF-8, line ends as they are.
        sync: as for ``whole_file``.
    """
    content = data.encode() if isinstance(data, str) else data
    with whole_file(path, sync=sync) as temporary:
        temporary.write_bytes(content)


def write_json(path: Path, value: Any, *, sort_keys: bool = False, sync: bool = True) -> None:
    """Write JSON whole or not at all.

    Args:
        path: the file; its folder is made if need be.
        value: anything that JSON can hold.
        sort_keys: whether keys stand in alphabetical order.
        sync: as for ``whole_file``.
    Raises:
        ValueError: a number in it is NaN or infinite.
    """
    write_whole(path, json_bytes(value, sort_keys=sort_keys), sync=sync)


def json_bytes(value: Any, *, sort_keys: bool = False) -> bytes:
    """JSON as ``write_json`` writes it.

    Args:
        value: anything that JSON can hold.
        sort_keys: whether keys stand in alphabetical order.

    Raises:
        ValueError: a number in it is NaN or infinite.
    """
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False, sort_keys=sort_keys) + "\n"
    # Half a surrogate pair has no UTF-8; what replaces it is JSON's own way to write it.
    return text.encode("utf-8", "backslashreplace")


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write a table with a header whole or not at all.

    Args:
        path: the file; its folder is made if need be.
        columns: the header.
        rows: cells of each row, in the order of ``columns``; None is an empty cell.
    """
    table = io.StringIO(newline="")
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    write_whole(path, table.getvalue())


# --------------------------------------------------------------------------------------------------------------- text
def read_text(path: Path, what: str = "a text file") -> str:
    """The text of a file, line ends as they are.

    Args:
        path: the file.
        what: for messages, what such a file holds: "a study", "captions".
    Raises:
        UsageError: no such file, not readable, or not UTF-8.
    """
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file; expected {what}") from None
    except OSError as err:
        raise UsageError(f"{path} cannot be read: {err.strerror or err}; expected {what}") from err
    except ValueError as err:  # not UTF-8, or a path that no file system can hold
        raise UsageError(f"{path} cannot be read as UTF-8 text: {err}; expected {what}") from err


def split_lines(text: str) -> list[str]:
    """Lines without their ends; none after the last end.

    >>> split_lines("a\\u2028b\\r\\n\\nc\\n")
    ['a\\u2028b', '', 'c']
    """
    lines = re.split(r"\r\n?|\n", text)
    return lines if lines[-1] else lines[:-1]


def read_lines(path: Path, what: str = "a text file") -> list[str]:
    """The lines of a text file that are not blank, without spaces around them.

    Raises:
        UsageError: as ``read_text``.
    """
    return [line.strip() for line in split_lines(read_text(path, what)) if line.strip()]


# ---------------------------------------------------------------------------------------------------------- documents
def read_json(path: Path, what: str = "a JSON file") -> Any:
    """The content of a JSON file.

    Args:
        path: the file, of any suffix.
        what: for messages, what such a file holds.
    Raises:
        UsageError: as ``read_text``, not JSON, or beyond what a JSON reader takes (depth, digits of a number).
    """
    return _parse_json(read_text(path, what), path, what)


def _parse_json(text: str, path: Path, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as err:
        raise UsageError(f"{path} is not JSON: {err}; expected {what}") from err


def read_document(path: Path, what: str) -> Any:
    """The content of a YAML or JSON file, told apart by the suffix.

    Args:
        path: the file.
        what: for messages, what such a file holds: "a study", "a world".
    Raises:
        UsageError: no such file, not readable, another format, or damaged.
    """
    suffix = path.suffix.lower()
    if suffix not in (".yaml", ".yml", ".json"):
        raise UsageError(f"{path}: {what} is a .yaml, .yml or .json file")
    if suffix == ".json":
        return read_json(path, what)
    text = read_text(path, what)
    import yaml

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as err:  # ValueError: a date such as 2024-02-31
        raise UsageError(f"{path} is not YAML: {err}") from err


# -------------------------------------------------------------------------------------------------------------- tables
class Row(dict[str, Any]):
    """A row of a table: values by column, and ``where`` it stands, for messages ("prompts.csv, line 7")."""

    def __init__(self, values: Mapping[str, Any] | Iterable[tuple[str, Any]], where: str) -> None:
        super().__init__(values)
        self.where = where


def read_rows(path: Path, what: str = "a table") -> list[Row]:
    """The rows of a table: CSV with a header, JSON lines (``.jsonl``, ``.ndjson``), or JSON.

    A ``.json`` file is a list of objects, one object, or JSON lines. In CSV all values are texts, None where a row has
    no cell for a column.

    Args:
        path: the file.
        what: for messages, what such a file holds.
    Raises:
        UsageError: as ``read_text``, another suffix, or content that is not of its format; the message names the line.
    """
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".jsonl", ".ndjson", ".json"):
        raise UsageError(f"{path}: expected {what} in a .csv, .jsonl or .json file, got {suffix or 'no suffix'}")
    text = read_text(path, what)
    if suffix == ".csv":
        return list(_csv_rows(text, path))
    if suffix == ".json":
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as err:
            lines = [line for line in split_lines(text) if line.strip()]
            # Several lines that begin like objects and do not end like the first of an indented one are JSON lines.
            if len(lines) < 2 or not lines[0].rstrip().endswith("}"):
                raise UsageError(f"{path} is not JSON: {err}; expected {what}") from err
        else:
            if isinstance(document, dict):
                document = [document]
            if not isinstance(document, list):
                raise UsageError(f"{path}: expected {what} as a list of objects, got {_kind(document)}")
            return [_object(value, f"{path}, entry {number}") for number, value in enumerate(document, start=1)]
    return list(_json_rows(text, path))


def _csv_rows(text: str, path: Path) -> Iterator[Row]:
    # Not line by line: a cell in quotation marks may hold line ends.
    reader = csv.reader(io.StringIO(text, newline=""))
    header: list[str] | None = None
    line = 1
    try:
        for cells in reader:
            where, line = f"{path}, line {line}", reader.line_num + 1
            if not cells:
                continue
            if header is None:
                header = cells
                continue
            if any(cells[len(header) :]):
                raise UsageError(
                    f"{where} has {len(cells)} cells, the header {len(header)}; put quotation marks around cells with "
                    "commas"
                )
            padded = [*cells, *[None] * (len(header) - len(cells))]
            yield Row(zip(header, padded, strict=False), where)
    except csv.Error as err:
        raise UsageError(f"{path}, line {line} is not CSV: {err}") from err


def _json_rows(text: str, path: Path) -> Iterator[Row]:
    for number, line in enumerate(split_lines(text), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            value = json.loads(line)
        except json.JSONDecodeError as err:
            raise UsageError(f"{where} is not JSON: {err.msg} at character {err.colno}") from err
        except (ValueError, RecursionError) as err:
            raise UsageError(f"{where} is not JSON: {err}") from err
        yield _object(value, where)


def _object(value: Any, where: str) -> Row:
    if not isinstance(value, dict):
        raise UsageError(f"{where}: expected an object with a value for each column, not {_kind(value)}")
    return Row(value, where)


def _kind(value: Any) -> str:
    names = {list: "a list", dict: "an object", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


# ---------------------------------------------------------------------------------------------------------------- COCO
class CocoCaption(NamedTuple):
    """A caption of a COCO annotation file. ``annotation_id`` is None where the file has none."""

    image_id: int | str
    text: str
    annotation_id: int | None


def coco_captions(document: Any, path: Path) -> list[CocoCaption]:
    """The captions of a COCO file (``captions_val2014.json``), in its order.

    Args:
        document: what ``read_json`` gives.
        path: the file, for messages.
    Raises:
        UsageError: no list ``annotations`` of objects with ``image_id`` and ``caption``.
    """
    annotations = document.get("annotations") if isinstance(document, dict) else None
    if not isinstance(annotations, list):
        raise UsageError(f'{path} must be a COCO captions file, {{"annotations": [...]}}')
    captions = []
    for number, record in enumerate(annotations):
        where = f"{path}, annotations[{number}]"
        try:
            image_id, text, annotation_id = record["image_id"], record["caption"], record.get("id")
        except (KeyError, TypeError, AttributeError) as err:
            raise UsageError(
                f"{where}: expected `image_id` and `caption`, as in COCO's captions_val2014.json (not instances_ or "
                f"person_keypoints_); missing or wrong: {err}"
            ) from err
        if not isinstance(image_id, int | str) or isinstance(image_id, bool):
            raise UsageError(f"{where}: image_id must be a number or a text, not {_kind(image_id)}")
        if not isinstance(text, str):
            raise UsageError(f"{where}: caption of image_id {image_id!r} must be a text, not {_kind(text)}")
        if annotation_id is not None and not isinstance(annotation_id, int):
            raise UsageError(f"{where}: id must be a number, not {_kind(annotation_id)}")
        captions.append(CocoCaption(image_id, text, annotation_id))
    return captions
