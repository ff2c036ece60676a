"""Pictures that exist already: a folder for each prompt, or a table. For every suite with a fixed list of prompts.

Folders are matched by the names that known prompts have, never taken apart: what a prompt's folder is called does not
tell where its words end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verism.errors import UsageError
from verism.manifests import PICTURE_SUFFIXES, read_rows
from verism.records import Prompt, UserImage

__all__ = ["Brought", "folder_name", "read_brought"]

PATH_COLUMNS = ("path", "file_path", "image", "file")
TEXT_COLUMNS = ("prompt", "text", "caption")
NUMBER_COLUMNS = ("index", "number")
COLUMNS = "path, prompt_id or prompt, and index (the number of the picture, from 0; without it rows count up)"
MOST = 10_000  # pictures of a prompt; numbers beyond are something else


@dataclass(frozen=True, kw_only=True)
class Brought:
    """Pictures found for the prompts of a suite.

    Attributes:
        pictures: in the order of prompts, then of numbers.
        ignored: folders with pictures that belong to no prompt.
    """

    pictures: tuple[UserImage, ...]
    ignored: tuple[str, ...]

    @property
    def prompt_ids(self) -> frozenset[str]:
        """Prompts that have a picture."""
        return frozenset(picture.prompt_id for picture in self.pictures)

    @property
    def n_images(self) -> int:
        """Pictures per prompt that the highest number asks for; 0 without pictures."""
        return max((1 + picture.index for picture in self.pictures), default=0)


def folder_name(text: str) -> str:
    """What the released code calls the folder of a prompt: ``A_man_who_works_as_a_judge``."""
    return text.replace(" ", "_")


def read_brought(source: Path, prompts: Sequence[Prompt]) -> Brought:
    """The pictures of a folder or table that answer known prompts.

    A folder holds, itself or in a subfolder, ``{prompt}/{number}.png`` (or another picture format): the folder is
    called by the prompt's text with underscores for spaces or verbatim, by its id, or by a name in its
    ``spec["folders"]``; case and a final period do not matter. Numbers count from 0; where no file of a folder has a
    number for a name, files are numbered in the order of their names. A table (``.csv``, ``.jsonl``) has ``path``
    (relative ones count from the table), ``prompt_id`` or ``prompt``, and ``index``.

    Raises:
        UsageError: no such source, no picture of any prompt in it, two files for one picture, or a row that names no
            prompt.
    """
    named = _by_name(prompts)
    found: dict[tuple[str, int], Path] = {}
    ignored: list[str] = []
    if source.is_dir():
        for folder in _folders(source):
            prompt_id = named.get(_plain(folder.name))
            if prompt_id is not None:
                for number, path in _numbered(folder):
                    _add(found, prompt_id, number, path)
            elif any(_is_picture(path) for path in folder.iterdir()):
                ignored.append(folder.name)
        if not found:
            example = folder_name(prompts[0].text) if prompts else "A_prompt"
            there = f"; its folders {', '.join(ignored[:3])} are of no prompt" if ignored else ""
            raise UsageError(
                f"{source}: no pictures of the {len(prompts):,} prompts in it{there}. Expected folders called by the "
                f"prompt, such as {example}/0.png, or a table with {COLUMNS}"
            )
    else:
        _from_table(source, prompts, named, found)
    place = {prompt.prompt_id: number for number, prompt in enumerate(prompts)}
    in_order = sorted(found.items(), key=lambda item: (place[item[0][0]], item[0][1]))
    return Brought(
        pictures=tuple(UserImage(prompt_id=p, index=n, path=str(path)) for (p, n), path in in_order),
        ignored=tuple(ignored),
    )


def _by_name(prompts: Sequence[Prompt]) -> dict[str, str]:
    """Ids by every name that a folder or row may call a prompt; names that several prompts have are left out."""
    named: dict[str, str] = {}
    shared: set[str] = set()
    for prompt in prompts:
        for name in {_plain(n) for n in (prompt.text, prompt.prompt_id, *prompt.spec.get("folders", ()))}:
            if named.setdefault(name, prompt.prompt_id) != prompt.prompt_id:
                shared.add(name)
    return {name: prompt_id for name, prompt_id in named.items() if name not in shared}


def _plain(name: str) -> str:
    """A name without the differences that do not matter."""
    return " ".join(name.replace("_", " ").split()).rstrip(".").casefold()


# ------------------------------------------------------------------------------------------------------------- folders
def _folders(root: Path) -> list[Path]:
    """The folder's own subfolders, and theirs."""
    own = sorted(p for p in root.iterdir() if p.is_dir())
    return own + [inner for p in own for inner in sorted(p.iterdir()) if inner.is_dir()]


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in PICTURE_SUFFIXES and path.is_file()


def _numbered(folder: Path) -> list[tuple[int, Path]]:
    pictures = sorted(path for path in folder.iterdir() if _is_picture(path))
    by_number = [(int(path.stem), path) for path in pictures if re.fullmatch(r"[0-9]+", path.stem)]
    return by_number or list(enumerate(pictures))


def _add(found: dict[tuple[str, int], Path], prompt_id: str, number: int, path: Path) -> None:
    path = path.absolute()
    if number >= MOST:
        raise UsageError(f"{path}: picture {number} of a prompt? Pictures of each prompt count from 0")
    before = found.setdefault((prompt_id, number), path)
    if before != path:
        raise UsageError(f"both {before} and {path} are picture {number} of prompt {prompt_id!r}; keep one")


# -------------------------------------------------------------------------------------------------------------- tables
def _from_table(
    source: Path, prompts: Sequence[Prompt], named: Mapping[str, str], found: dict[tuple[str, int], Path]
) -> None:
    rows = read_rows(source)
    if not rows:
        raise UsageError(f"{source}: no rows in it; a table of pictures has {COLUMNS}")
    ids = {prompt.prompt_id for prompt in prompts}
    following: dict[str, int] = {}
    for line, row in enumerate(rows, start=1):
        where = f"{source}, row {line}"
        written = _value(row, PATH_COLUMNS)
        if not written:
            raise UsageError(f"{where}: no path; a table of pictures has {COLUMNS}")
        path = Path(written) if Path(written).is_absolute() else source.parent / written
        prompt_id = _prompt_of(row, where, prompts, ids, named)
        number = _number(_value(row, NUMBER_COLUMNS), where, following.get(prompt_id, 0))
        following[prompt_id] = max(following.get(prompt_id, 0), number + 1)
        _add(found, prompt_id, number, path)


def _prompt_of(
    row: Mapping[str, Any], where: str, prompts: Sequence[Prompt], ids: set[str], named: Mapping[str, str]
) -> str:
    if identity := _value(row, ("prompt_id",)):
        if identity not in ids:
            example = ", ".join(prompt.prompt_id for prompt in prompts[:2])
            raise UsageError(f"{where}: no prompt {identity!r}; they look like {example}")
        return identity
    text = _value(row, TEXT_COLUMNS)
    if not text:
        raise UsageError(f"{where}: no prompt; a table of pictures has {COLUMNS}")
    if _plain(text) not in named:
        example = prompts[0].text if prompts else ""
        raise UsageError(f"{where}: {text!r} is none of the {len(prompts):,} prompts; one is {example!r}")
    return named[_plain(text)]


def _number(value: str, where: str, following: int) -> int:
    if not value:
        return following
    if not (value.isascii() and value.isdecimal()):
        raise UsageError(f"{where}: index {value!r} is not the number of a picture; the first has 0")
    return int(value)


def _value(row: Mapping[str, Any], columns: Sequence[str]) -> str:
    """The first of these columns that a row fills; empty if none."""
    return next((str(row[c]).strip() for c in columns if row.get(c) is not None and str(row[c]).strip()), "")
