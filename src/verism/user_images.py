"""User images: images that exist already, in folders or listed in a table. All who read them do it here.

Which prompt a folder or row belongs to is for the caller to say; what an image file is, which columns a table may have,
from where relative paths count, and that no two files are the same image of a prompt, is the same for all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verism.errors import UsageError
from verism.files import IMAGE_SUFFIXES, read_rows
from verism.limits import PROMPT_IMAGES
from verism.locations import beside

__all__ = [
    "PATH_COLUMNS",
    "PROMPT_COLUMNS",
    "ImageRow",
    "UserImages",
    "check_name",
    "image_files",
    "image_folders",
    "numbered_images",
    "plain_name",
    "read_image_table",
    "table_columns",
]

PATH_COLUMNS = (
    *("file_path", "path", "image_path", "imageRelPath", "imageFullPath"),
    *("file_name", "filename", "image", "file"),
)
PROMPT_COLUMNS = ("prompt", "text", "caption")
INDEX_COLUMNS = ("index", "number")
KNOWN_COLUMNS = (*PATH_COLUMNS, *PROMPT_COLUMNS, *INDEX_COLUMNS, "prompt_id")


# ------------------------------------------------------------------------------------------------------------- folders
def image_files(folder: Path, *, recursive: bool = False) -> list[Path]:
    """The image files of a folder, in the order of their paths. Hidden files (``._0.png``) and folders do not count.

    Args:
        folder: an existing folder.
        recursive: whether those of its subfolders belong to it, at any depth.
    """
    results: dict[str, Path] = {}
    for path in folder.rglob("*") if recursive else folder.iterdir():
        name = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in name.parts)
        if path.suffix.lower() in IMAGE_SUFFIXES and not hidden and path.is_file():
            check_name(path)
            results[name.as_posix()] = path
    return [results[name] for name in sorted(results)]


def check_name(path: Path) -> None:
    """Refuse a file whose name is no text: no table can hold it.

    Args:
        path: the file.
    Raises:
        UsageError: its name, or that of a folder it is in, holds bytes that are not UTF-8.
    """
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"{str(path).encode('utf-8', 'backslashreplace').decode()}: the name holds bytes that are not UTF-8; "
            "rename it"
        ) from None


def image_folders(root: Path) -> list[Path]:
    """The subfolders of a folder, and theirs: images of one model, or of several side by side."""
    subset = _subfolders(root)
    return subset + [inner for folder in subset for inner in _subfolders(folder)]


def _subfolders(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))


def numbered_images(folder: Path) -> list[tuple[int, Path]]:
    """The images of a folder whose name is their index, such as ``0.png``; others are left out."""
    return [(int(path.stem), path) for path in image_files(folder) if re.fullmatch(r"[0-9]+", path.stem)]


def plain_name(text: str) -> str:
    """A prompt, or the name of its folder, without the differences that do not matter.

    >>> plain_name("A_man who works, as a judge.") == plain_name("a man who works, as a Judge")
    True
    """
    return " ".join(re.sub(r"[_/#]", " ", text).split()).strip(". ").casefold()


# -------------------------------------------------------------------------------------------------------------- tables
@dataclass(frozen=True, kw_only=True)
class ImageRow:
    """A row of a table of images.

    Attributes:
        where: file and line, for messages.
        path: the image, absolute; it need not exist.
        path_column: the column the path is from.
        index: which image of its prompt it is, from 0; None where the row does not say.
        values: all columns.
    """

    where: str
    path: Path
    path_column: str
    index: int | None
    values: Mapping[str, Any]

    def value(self, *columns: str) -> str:
        """The first of these columns that the row fills; empty if none."""
        return _value(self.values, columns)[1]


def table_columns(prompts: str) -> str:
    """What a table of images has, for messages.

    Args:
        prompts: the columns that say which prompt a row is of, such as "prompt_id or prompt".
    """
    return (
        f"a table of images has the columns file_path, {prompts}, and index (the number of the image, from 0; without "
        "it, rows of a prompt count up)"
    )


def read_image_table(source: Path, prompts: str) -> list[ImageRow]:
    """The rows of a table of images: CSV or JSON lines with one of ``PATH_COLUMNS``, and perhaps an index.

    The case of these names does not matter.

    Args:
        source: the file; relative paths count from its folder.
        prompts: for messages, the columns that say which prompt a row is of.
    Raises:
        UsageError: no such file, no rows in it, a row without path, or an index that is none.
    """
    rows = read_rows(source, "a table of images")
    if not rows:
        raise UsageError(f"{source}: no rows in it; {table_columns(prompts)}")
    listed = []
    for read in rows:
        row = read.with_columns(KNOWN_COLUMNS)
        column, written = _value(row, PATH_COLUMNS)
        if not written:
            listing = ", ".join(str(name) for name in read)
            raise UsageError(f"{row.where}: no file_path; {table_columns(prompts)}; this one has {listing}")
        index = _value(row, INDEX_COLUMNS)[1]
        if index and not (index.isascii() and index.isdecimal()):
            raise UsageError(f"{row.where}: index {index!r} is not the number of an image; the first has 0")
        listed.append(
            ImageRow(
                where=row.where,
                path=beside(source.parent, written).absolute(),
                path_column=column,
                index=int(index) if index else None,
                values=row,
            )
        )
    return listed


def _value(row: Mapping[str, Any], columns: tuple[str, ...]) -> tuple[str, str]:
    """The first of these columns that a row fills, and what it holds; empty if none."""
    for column in columns:
        if (value := row.get(column)) is not None and (text := str(value).strip()):
            return column, text
    return "", ""


# ------------------------------------------------------------------------------------------------------------- matching
class UserImages:
    """Files by (prompt id, index), put together one by one.

    Args:
        max_images: of a prompt; a higher index given is an error. None where the caller knows what indices there are.
    Attributes:
        files: absolute paths by (prompt id, index), in the order they came.
    """

    def __init__(self, max_images: int | None = PROMPT_IMAGES.value) -> None:
        self._max_images = max_images
        self.files: dict[tuple[str, int], Path] = {}
        self._next: dict[str, int] = {}
        self._counted_up: set[tuple[str, Path]] = set()

    def add(self, prompt_id: str, index: int | None, path: Path) -> int:
        """Say which image of a prompt a file is.

        Args:
            prompt_id: the prompt.
            index: index of the image, from 0; None: the one after the highest so far.
            path: the file.
        Returns:
            The index.
        Raises:
            UsageError: an index that no prompt has, another file is this image already, or this file came before
                without an index.
        """
        check_name(path)
        path = path.absolute()
        following = self._next.get(prompt_id, 0)
        if index is None:
            self.count_up(prompt_id, path)
            index = following
        elif self._max_images is not None and index >= self._max_images:
            raise UsageError(f"{path}: image {index} of prompt {prompt_id!r}? Images of each prompt count from 0")
        before = self.files.setdefault((prompt_id, index), path)
        if before != path:
            raise UsageError(f"both {before} and {path} are image {index} of prompt {prompt_id!r}; keep one")
        self._next[prompt_id] = max(following, index + 1)
        return index

    def count_up(self, prompt_id: str, path: Path) -> None:
        """Note that a file is an image of a prompt without saying which.

        Args:
            prompt_id: the prompt.
            path: the file.
        Raises:
            UsageError: it was noted before.
        """
        if (prompt_id, path) in self._counted_up:
            raise UsageError(f"{path} is listed twice for prompt {prompt_id!r}, and would count twice; keep one")
        self._counted_up.add((prompt_id, path))
