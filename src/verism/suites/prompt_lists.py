"""Prompt lists of users, for every suite that takes them: a text per line, or a table with facets and references."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from verism.errors import UsageError
from verism.files import Row, read_lines, read_rows
from verism.limits import PROMPT_IMAGES

__all__ = [
    "ListedPrompt",
    "check_unaltered",
    "choose",
    "facets_of_row",
    "file_hash",
    "hash_order",
    "read_prompt_list",
    "text_list",
]

ID_COLUMNS = ("prompt_id", "id", "uid", "img_id")
TEXT_COLUMNS = ("prompt", "caption", "text")
REFERENCE_COLUMNS = ("references", "reference")
N_IMAGES_COLUMN = "n_images"
KNOWN_COLUMNS = (*ID_COLUMNS, *TEXT_COLUMNS, *REFERENCE_COLUMNS, N_IMAGES_COLUMN)

Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True)
class ListedPrompt:
    """A prompt somebody listed.

    Attributes:
        prompt_id: unique in the list.
        text: of the prompt.
        references: sentences that an image of the prompt may be described with.
        facets: the table's other columns, by name.
        numbered: whether the id is only the place in the list.
        n_images: images of this prompt; None where the list does not say.
    """

    prompt_id: str
    text: str
    references: tuple[str, ...] = ()
    facets: Mapping[str, str | int | float | None] = field(default_factory=dict)
    numbered: bool = False
    n_images: int | None = None


def read_prompt_list(path: Path) -> list[ListedPrompt]:
    """A prompt list: ``.txt`` with a prompt per line, or CSV or JSON lines with a column ``prompt``, in any case.

    Tables may have an id (``prompt_id``, ``id``, ``uid`` or ``img_id``; otherwise prompts are numbered from 00000) and
    ``references``, a list of sentences (in CSV as JSON), and ``n_images``; other columns with plain values become
    facets.

    Raises:
        UsageError: no such file, nothing in it, a row without prompt, an id used twice.
    """
    if path.suffix.lower() == ".txt":
        lines = read_lines(path, "a prompt list")
        rows = [Row({"prompt": line}, f"{path}, prompt {number}") for number, line in enumerate(lines, start=1)]
    else:
        rows = [row.with_columns(KNOWN_COLUMNS) for row in read_rows(path, "a prompt list")]
    if not rows:
        raise UsageError(f"{path}: no prompts in it; give a prompt per line (.txt), or a table with a column `prompt`")
    listed = [_listed(row, row.where, position) for position, row in enumerate(rows)]
    seen: set[str] = set()
    for row, prompt in zip(rows, listed, strict=True):
        if prompt.prompt_id in seen:
            raise UsageError(f"{row.where}: the id {prompt.prompt_id!r} is used twice; ids must be unique")
        seen.add(prompt.prompt_id)
    return listed


def _listed(row: Mapping[str, Any], where: str, position: int) -> ListedPrompt:
    text_column = next((name for name in TEXT_COLUMNS if name in row), None)
    text = "" if text_column is None else str(row[text_column] or "").strip()
    if text_column is None or not text:
        raise UsageError(f"{where}: no prompt; expected a column `prompt`, got columns {list(map(str, row))}")
    id_column = next((name for name in ID_COLUMNS if row.get(name) not in (None, "")), None)
    references: tuple[str, ...] = ()
    for name in REFERENCE_COLUMNS:
        if row.get(name) not in (None, ""):
            references = text_list(row[name], f"{where}: `{name}`")
    return ListedPrompt(
        prompt_id=f"{position:05d}" if id_column is None else str(row[id_column]).strip(),
        text=text,
        references=references,
        facets=facets_of_row(row, without=(*ID_COLUMNS, text_column, *REFERENCE_COLUMNS, N_IMAGES_COLUMN)),
        numbered=id_column is None,
        n_images=_n_images(row.get(N_IMAGES_COLUMN), where),
    )


def _n_images(value: Any, where: str) -> int | None:
    if value in (None, ""):
        return None
    text = str(value).strip()
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= PROMPT_IMAGES.value:
        raise UsageError(f"{where}: n_images is a number of images from 1 to {PROMPT_IMAGES.value:,}, got {text!r:.80}")
    return int(text)


def facets_of_row(row: Mapping[str, Any], *, without: Sequence[str]) -> dict[str, str | int | float | None]:
    """The other columns of a row that hold plain values; an empty cell is None."""
    return {
        str(name): (None if value == "" else value)
        for name, value in row.items()
        if name and name not in without and isinstance(value, str | int | float | None)
    }


def text_list(value: Any, where: str) -> tuple[str, ...]:
    """Sentences, from a list, from JSON text of one, or a single sentence.

    Raises:
        UsageError: something else.
    """
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except json.JSONDecodeError as err:
            raise UsageError(f"{where}: expected a JSON list of sentences, got {value[:60]!r} ({err})") from err
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise UsageError(f"{where}: expected a sentence or a list of sentences, got {str(value)[:60]!r}")
    return tuple(text.strip() for text in value if text.strip())


def hash_order(key: str, seed: int) -> bytes:
    """What to sort by for a random order that depends on each item and the seed alone, not on the others."""
    return hashlib.blake2b(f"{seed}/{key}".encode(), digest_size=16).digest()


def choose(items: Sequence[Item], keys: Sequence[str], limit: int | None, seed: int) -> list[Item]:
    """``limit`` of the items, drawn at random by seed, in their original order.

    Whether an item is drawn does not depend on the order of the list, and a larger limit keeps what a smaller one drew.

    Raises:
        UsageError: a limit below 1.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"limit must be at least 1, got {limit}")
    if limit is None or limit >= len(items):
        return list(items)
    drawn = set(sorted(range(len(items)), key=lambda i: (hash_order(keys[i], seed), i))[:limit])
    return [item for i, item in enumerate(items) if i in drawn]


def check_unaltered(path: Path, altered: str, expected: str, *, own: bool) -> None:
    """Refuse a user's copy that is not the released file, unless it is meant to differ.

    Args:
        path: the copy.
        altered: how it differs, in words; empty if it does not.
        expected: what the released file looks like.
        own: whether it is meant to differ.

    Raises:
        UsageError: it differs, and is not meant to.
    """
    if altered and not own:
        raise UsageError(f"{path}: {altered}. Expected {expected}. If it is meant to be so, add --own true")


def file_hash(path: Path) -> str:
    """SHA-256 of a file: enters the settings of runs that depend on it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
