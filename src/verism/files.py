"""Files: every file is written whole or not at all, and every format has one reader.

Text is UTF-8, with or without a byte order mark. Lines end in ``\\n``, ``\\r\\n`` or ``\\r`` and nowhere else: U+2028,
U+2029 and U+0085, which ``str.splitlines`` takes for line ends as well, occur in captions.
"""

from __future__ import annotations

import csv
import errno
import io
import json
import math
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO, NamedTuple

from verism.errors import UsageError, VerismError
from verism.limits import CELL_CHARACTERS, NESTING, TEXT_BYTES, YAML_BYTES, YAML_VALUES, Limit
from verism.locations import RemotePath
from verism.shards import Member, member_of
from verism.systems import move_into_place, move_unless_there

__all__ = [
    "IMAGE_SUFFIXES",
    "USAGE_ERRNOS",
    "CocoCaption",
    "Row",
    "coco_captions",
    "csv_cells",
    "csv_rows",
    "csv_text",
    "guarded",
    "json_bytes",
    "open_regular",
    "parse_json",
    "read_document",
    "read_json",
    "read_lines",
    "read_regular",
    "read_rows",
    "read_text",
    "split_lines",
    "unguarded",
    "well_formed",
    "whole_file",
    "write_csv",
    "write_json",
    "write_new",
    "write_whole",
]

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")

# What the user can mend; a full disk is not among it.
USAGE_ERRNOS = {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.EEXIST, errno.ENOTDIR, errno.EISDIR),
    *(errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL),
}


# ------------------------------------------------------------------------------------------------------------- writing
@contextmanager
def whole_file(path: Path, *, sync: bool = True, name: Callable[[], str] | None = None) -> Iterator[Path]:
    """A temporary file to fill, which takes the place of ``path`` at the end, or is removed after an error.

    Readers see the old file or the new one. Processes and threads that write the same file at once do not meet: the
    temporary files have names of their own. A killed process leaves one behind, hidden and ending in ``.tmp``. Object
    storage gets the file at the end, by one request.

    Args:
        path: the file to write; its folder is made if need be.
        sync: whether the content must be on the disk before the name is, so that not even a power failure leaves a
            file cut short. ``False`` suits files whose damage shows, such as images with a known hash.
        name: gives the file's name once it is filled, in place of that of ``path``: for names that tell the content.
    Yields:
        The temporary file, not yet there.
    Raises:
        UsageError: the file must not be written there.
        VerismError: writing failed otherwise, for example as the disk is full.
    """
    if isinstance(path, RemotePath):
        with tempfile.TemporaryDirectory(prefix="verism-", ignore_cleanup_errors=True) as folder:
            filled = Path(folder) / path.name
            yield filled
            _upload(path.with_name(name()) if name else path, filled)
        return
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
        move_into_place(temporary, path.with_name(name()) if name else path)
    except OSError as err:
        # Who fills the file may read others: their errors are not about this one.
        if err.errno is None or err.filename not in (None, str(temporary), temporary):
            raise
        raise _cannot_write(path, err) from err
    finally:
        with suppress(OSError):
            temporary.unlink()


def _upload(path: RemotePath, data: bytes | Path) -> None:
    try:
        path.write_bytes(data)
    except OSError as err:
        raise _cannot_write(path, err) from err


def _cannot_write(path: Path, err: OSError) -> VerismError:
    kind = UsageError if err.errno in USAGE_ERRNOS else VerismError
    return kind(f"{path} cannot be written: {err.strerror or err}")


def write_whole(path: Path, data: bytes | str, *, sync: bool = True) -> None:
    """Write a file whole or not at all; see ``whole_file``.

    Args:
        path: the file; its folder is made if need be.
        data: content; text is written as UTF-8, line ends as they are.
        sync: as for ``whole_file``.
    """
    content = data.encode() if isinstance(data, str) else data
    if isinstance(path, RemotePath):  # which has nothing but whole files
        _upload(path, content)
        return
    with whole_file(path, sync=sync) as temporary:
        temporary.write_bytes(content)


def write_new(path: Path, data: bytes) -> bool:
    """Write a file whole, unless it is there: of several processes that try at once, one succeeds.

    Args:
        path: the file; its folder is made if need be.
        data: content.
    Returns:
        Whether it was written.
    Raises:
        UsageError, VerismError: as ``whole_file``.
    """
    try:
        if isinstance(path, RemotePath):
            path.write_bytes(data, create=True)
            return True
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
        try:
            with temporary.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            move_unless_there(temporary, path)
        finally:
            with suppress(OSError):
                temporary.unlink()
    except FileExistsError:
        return False
    except OSError as err:
        raise _cannot_write(path, err) from err
    return True


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
    write_whole(path, csv_text(columns, rows))


# A spreadsheet runs a cell that begins so as a formula, even in quotation marks, and with spaces or in full-width
# letters (OWASP, "CSV Injection"). Apostrophes before it are those of a guard, or stood there already.
_FORMULA = re.compile(r"'*\s*[=+\-@\t\r＝＋－＠]")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def guarded(cell: str) -> str:
    """A text that no spreadsheet takes for a formula: an apostrophe goes before what could be one.

    >>> guarded("=1+1"), guarded("two"), guarded("'-x"), guarded("-3.5")
    ("'=1+1", 'two', "''-x", '-3.5')

    Args:
        cell: the text; numbers stay as they are.
    """
    return f"'{cell}" if _FORMULA.match(cell) and not _NUMBER.fullmatch(cell) else cell


def unguarded(cell: str) -> str:
    """The text behind ``guarded``.

    >>> unguarded("'=1+1"), unguarded("'tis"), unguarded("''-x")
    ('=1+1', "'tis", "'-x")

    Args:
        cell: as it stands in the file.
    """
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def csv_text(columns: Sequence[str], rows: Iterable[Iterable[Any]], *, raw: bool = False) -> str:
    """A table as CSV in which no text is a formula to a spreadsheet.

    See ``guarded``; ``csv_cells`` takes the apostrophe off again.

    >>> csv_text(["prompt", "n"], [["=1+1", -2], ["'tis", "-3.5"]])
    "prompt,n\\n'=1+1,-2\\n'tis,-3.5\\n"

    Args:
        columns: the header.
        rows: cells of each row, in the order of ``columns``; None is an empty cell.
        raw: whether texts stay as they are, for programs that read CSV to the letter.
    Returns:
        The lines, each with its end.
    """
    lines: list[str] = []
    # With "\n" alone as its line end, the module would not quote a cell with "\r" in it.
    writer = csv.writer(SimpleNamespace(write=lambda line: lines.append(line.removesuffix("\r\n") + "\n")))
    for row in (columns, *rows):
        writer.writerow(row if raw else [guarded(cell) if isinstance(cell, str) else cell for cell in row])
    return "".join(lines)


# --------------------------------------------------------------------------------------------------------------- bytes
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
)


@contextmanager
def open_regular(path: Path, limit: Limit) -> Iterator[BinaryIO]:
    """A regular file, open for reading. A device, pipe or socket, which may never end or never answer, is refused.

    Args:
        path: the file, or a file in a shard (``verism.shards``).
        limit: of its size, in bytes.
    Yields:
        The open file.
    Raises:
        OSError: as of ``open``; or it is not a regular file, or larger than the limit.
        ValueError: a path that no file system can hold.
    """
    if (member := member_of(path)) is not None:
        if member.length > limit.value:
            raise OSError(errno.EFBIG, f"it has {member.length:,} bytes; {limit.hint()}", str(path))
        yield io.BytesIO(_read_member(member))
        return
    if isinstance(path, RemotePath):
        yield path.open_bounded(limit.value, limit.hint())
        return
    with _open_local(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit.value:
            raise OSError(errno.EFBIG, f"it has {size:,} bytes; {limit.hint()}", str(path))
        yield file


@contextmanager
def _open_local(path: Path) -> Iterator[BinaryIO]:
    """A regular file of this machine, of any size."""
    # Not blocking: opening a pipe that nobody writes to would wait for ever. Regular files do not know the flag.
    try:
        number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except PermissionError as err:
        if path.is_dir():  # as Windows says of every folder
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path)) from err
        raise
    with os.fdopen(number, "rb") as file:
        status = os.fstat(number)
        if kind := next((name for test, name in _KINDS if test(status.st_mode)), None):
            code = errno.EISDIR if kind == "a folder" else errno.EINVAL
            text = os.strerror(code) if kind == "a folder" else f"it is {kind}, not a regular file"
            raise OSError(code, text, str(path))
        yield file


def _read_member(member: Member) -> bytes:
    """The content of a file in a shard, of which nothing else is read."""
    if isinstance(member.shard, RemotePath):
        data = member.shard.read_range(member.offset, member.length)
    else:
        with _open_local(member.shard) as file:
            file.seek(member.offset)
            data = file.read(member.length)
    if len(data) < member.length:
        raise OSError(errno.EIO, f"{member.shard.name} ends before it", str(member.shard))
    return data


def read_regular(path: Path, limit: Limit) -> bytes:
    """The content of a regular file.

    Args:
        path: the file, or a file in a shard.
        limit: of its size, in bytes.
    Raises:
        OSError, ValueError: as ``open_regular``.
    """
    with open_regular(path, limit) as file:
        size = file.seek(0, os.SEEK_END) if isinstance(file, io.BytesIO) else os.fstat(file.fileno()).st_size
        file.seek(0)
        content = file.read(size + 1)
        while len(content) > size:  # it grows, or its size is not told, as of files in /proc
            if len(content) > limit.value:
                raise OSError(errno.EFBIG, f"it has more than {limit.value:,} bytes; {limit.hint()}", str(path))
            size = len(content)
            content += file.read(size + 2**16)
    return content


# --------------------------------------------------------------------------------------------------------------- text
def read_text(path: Path, what: str = "a text file", *, limit: Limit = TEXT_BYTES) -> str:
    """The text of a file, line ends as they are.

    Args:
        path: the file.
        what: for messages, what such a file holds: "a study", "captions".
        limit: of its size, in bytes.
    Raises:
        UsageError: no such file, not readable, not a regular file, too large, or not UTF-8.
    """
    try:
        return read_regular(path, limit).decode("utf-8-sig")
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
    text = read_text(path, what)
    try:
        return parse_json(text)
    except ValueError as err:
        raise UsageError(f"{path} is not JSON: {err}; expected {what}") from err


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text from elsewhere: one that can be kept, written and shown without surprises.

    Args:
        text: the JSON.
    Raises:
        ValueError: not JSON; nested deeper than ``limits.NESTING``; an integer of more digits than Python reads or
            beyond what a float can hold; or a text with half a surrogate pair, which no table can store.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8-sig")
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(f"lists and objects lie too deep within each other; {NESTING.hint()}") from None
    _check_json(value, text)
    return value


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_DIGITS = bytes.maketrans(b"123456789", b"000000000")


def _check_json(value: Any, text: str) -> None:
    # The value is only looked through for what the text shows signs of: most texts have none, and finding that out is
    # quick. Digits: the regular expression [0-9]{300} would take five times as long.
    suspect = ("\\u" in text and _SURROGATE.search(text) is not None) or (
        len(text) >= 300 and b"0" * 300 in text.encode("utf-8", "replace").translate(_DIGITS)
    )
    if not suspect and text.count("[") + text.count("{") <= NESTING.value:
        return
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > NESTING.value and any(type(item) in (dict, list) for item in level):
            raise ValueError(f"lists and objects lie too deep within each other; {NESTING.hint()}")
        below: list[Any] = []
        for item in level:
            if type(item) is dict:
                if suspect:
                    below.extend(item)
                below.extend(item.values())
            elif type(item) is list:
                below.extend(item)
            elif suspect:
                _check_value(item)
        level = below if suspect else [item for item in below if type(item) in (dict, list)]


def _check_value(value: Any) -> None:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError(f"the text {value[:60]!a} holds half of a surrogate pair, which is no character") from None
    elif isinstance(value, int) and value.bit_length() > 1023:
        raise ValueError(f"an integer of {len(str(abs(value)))} digits, which no number format can hold")


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
    text = read_text(path, what, limit=YAML_BYTES)
    import yaml

    try:
        value = yaml.safe_load(text)
        _check_yaml(value)
    except RecursionError:
        deep = f"lists and mappings lie too deep within each other; {NESTING.hint()}"
        raise UsageError(f"{path} is not YAML that can be read: {deep}") from None
    # ValueError: a date such as 2024-02-31. The others are PyYAML's own on damaged numbers, tags and keys.
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError, OverflowError) as err:
        raise UsageError(f"{path} is not YAML: {err}") from err
    return value


def _check_yaml(value: Any) -> None:
    """Refuse what aliases blow up: ten lines may stand for a billion values, or contain themselves."""
    level, depth, count = [value], 0, 0
    while level:
        depth += 1
        count += len(level)
        if depth > NESTING.value and any(isinstance(item, dict | list | tuple | set) for item in level):
            raise ValueError(f"lists and mappings lie too deep within each other; {NESTING.hint()}")
        if count > YAML_VALUES.value:
            raise ValueError(f"it stands for more than {YAML_VALUES.value:,} values; {YAML_VALUES.hint()}")
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below += [*item, *item.values()]
            elif isinstance(item, list | tuple | set):
                below += item
            else:
                _check_value(item)
            if len(below) > YAML_VALUES.value:
                break
        level = below


@contextmanager
def well_formed(where: Path | str) -> Iterator[None]:
    """Around code that takes a document apart: a value of the wrong kind, anywhere in it, is told of in a sentence.

    Args:
        where: the file, for the message.
    Raises:
        UsageError: in place of what Python raises about a list that is a number, a key that is not there ...
    """
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as err:
        raise UsageError(f"{where}: a value in it is of the wrong kind ({type(err).__name__}: {err})") from err


# -------------------------------------------------------------------------------------------------------------- tables
class Row(dict[str, Any]):
    """A row of a table: values by column, and ``where`` it stands, for messages ("prompts.csv, line 7")."""

    def __init__(self, values: Mapping[str, Any] | Iterable[tuple[str, Any]], where: str) -> None:
        super().__init__(values)
        self.where = where

    def with_columns(self, known: Iterable[str]) -> Row:
        """This row with known columns under their own names, whatever their case and spaces: ``Prompt``, ``PROMPT``.

        Other columns stay as they are, and so does a column beside one that has the known name already.

        Args:
            known: names of columns.
        """
        spelled = {name.lower(): name for name in known}
        names = {name: spelled.get(str(name).strip().lower(), name) for name in self}
        if all(name == own or own in self for name, own in names.items()):
            return self
        return Row(((name if names[name] in self else names[name], value) for name, value in self.items()), self.where)


def read_rows(path: Path, what: str = "a table") -> list[Row]:
    """The rows of a table: CSV with a header, JSON lines (``.jsonl``, ``.ndjson``), or JSON.

    A ``.json`` file is a list of objects, one object, or JSON lines. In CSV all values are texts, None where a row has
    no cell for a column. In JSON, NaN is None: so does pandas write what is missing.

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
        return list(csv_rows(text, path))
    if suffix == ".json":
        try:
            document = parse_json(text)
        except ValueError as err:
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


def csv_cells(text: str, path: Path, delimiter: str = ",") -> Iterator[tuple[str, list[str]]]:
    """The cells of each row of CSV that is not empty, and its place: "prompts.csv, line 7".

    The apostrophe that ``csv_text`` puts before a formula is taken off again.

    Args:
        text: content of the file.
        path: the file, for messages.
        delimiter: between cells.
    Raises:
        UsageError: not CSV, or a cell longer than ``limits.CELL_CHARACTERS``; the message names the line.
    """
    csv.field_size_limit(CELL_CHARACTERS.value)  # of the module, for all readers; its default is 131,072
    # Not line by line: a cell in quotation marks may hold line ends.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    line = 1
    try:
        for cells in reader:
            where, line = f"{path}, line {line}", reader.line_num + 1
            if cells:
                yield where, [unguarded(cell) for cell in cells]
    except csv.Error as err:
        long = f"; {CELL_CHARACTERS.hint()}" if "field limit" in str(err) else ""
        raise UsageError(
            f"{path}, line {line} is not CSV: {err}{long}. A quotation mark may be missing at a cell's end"
        ) from err


def csv_rows(text: str, path: Path) -> Iterator[Row]:
    """The rows of CSV with a header; None where a row has no cell for a column.

    Cells are separated by commas; by semicolons or tabs where the header has these and no comma, as spreadsheets write
    them in many countries.

    Args:
        text: content of the file.
        path: the file, for messages.
    Raises:
        UsageError: as ``csv_cells``, or a row with more cells than the header.
    """
    header: list[str] | None = None
    first = next((line for line in io.StringIO(text) if line.strip()), "")
    delimiter = next((mark for mark in ";\t" if mark in first and "," not in first), ",")
    for where, cells in csv_cells(text, path, delimiter):
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


def _json_rows(text: str, path: Path) -> Iterator[Row]:
    for number, line in enumerate(split_lines(text), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            value = parse_json(line)
        except json.JSONDecodeError as err:
            raise UsageError(f"{where} is not JSON: {err.msg} at character {err.colno}") from err
        except ValueError as err:
            raise UsageError(f"{where} is not JSON: {err}") from err
        yield _object(value, where)


def _object(value: Any, where: str) -> Row:
    if not isinstance(value, dict):
        raise UsageError(f"{where}: expected an object with a value for each column, not {_kind(value)}")
    return Row({k: None if isinstance(v, float) and math.isnan(v) else v for k, v in value.items()}, where)


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
