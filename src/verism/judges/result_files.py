"""Observations made elsewhere: reading their files, and finding the picture each of them is about.

Files written by other programs name pictures in their own ways: by the id of a picture (``prompt#0``), by the prompt's
id, by the name of a file, or by a number, as COCO does. A run's picture is looked up in this order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from verism.errors import UsageError
from verism.files import IMAGE_SUFFIXES

if TYPE_CHECKING:
    from verism.records import LoadedImage

__all__ = ["PictureNames", "number_in", "picture_name"]

_MSCOCO = re.compile(r"(\d+)_mscoco_\d+")  # image and sentence, as in the released list of R-precision
_NUMBER = re.compile(r"(?<![A-Za-z0-9])\d+(?![A-Za-z0-9])")


def number_in(name: str) -> int | None:
    """The number that identifies a picture within a name, or None if there is none or it is not plain which.

    It stands by itself, not behind letters, and has more digits than the others.

    >>> number_in("COCO_val2014_000000391895"), number_in("391895_mscoco_3"), number_in("a_12_34"), number_in("sd21")
    (391895, 391895, None, None)
    """
    if found := _MSCOCO.fullmatch(name):
        return int(found.group(1))
    runs = _NUMBER.findall(name)
    longest = [run for run in runs if len(run) == max(map(len, runs))]
    return int(longest[0]) if len(longest) == 1 else None


class PictureNames:
    """The names under which a file speaks of pictures, and which of them a picture of the run has.

    Args:
        names: as the file has them, each once.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = dict.fromkeys(names)
        self._stems: dict[str, str | None] = {}
        self._numbers: dict[int, str | None] = {}
        for name in self._names:
            stem = _stem(name)
            # What two names share tells neither.
            self._stems[stem] = None if stem in self._stems else name
            if (number := number_in(stem)) is not None:
                self._numbers[number] = None if number in self._numbers else name
        self._given: dict[str, str] = {}  # picture by name

    def find(self, image: LoadedImage) -> str | None:
        """The file's name of a picture: its own id, its prompt's id, the same without folder and suffix, or its number.

        Names of prompts and numbers only stand for the first picture of a prompt: it would be wrong to take the same
        sentence for its other pictures, too.

        Raises:
            UsageError: another picture was found under the same name before.
        """
        name = self._find(image)
        if name is not None and self._given.setdefault(name, image.image_id) != image.image_id:
            raise UsageError(
                f"the file's {name!r} fits two pictures of the run, {self._given[name]} and {image.image_id}. Name "
                "pictures in the file by these ids."
            )
        return name

    def _find(self, image: LoadedImage) -> str | None:
        if image.image_id in self._names:
            return image.image_id
        if "#" in image.image_id and not image.image_id.endswith("#0"):
            return None
        if image.prompt_id in self._names:
            return image.prompt_id
        for name in (image.image_id, image.prompt_id):
            if found := self._stems.get(_stem(name)):
                return found
        number = number_in(_stem(image.prompt_id))
        return None if number is None else self._numbers.get(number)


def _stem(name: str) -> str:
    path = PurePosixPath(name)
    return path.stem if path.suffix.lower() in IMAGE_SUFFIXES else path.name


def picture_name(row: Mapping[str, Any], columns: Sequence[str], where: str) -> str:
    """The name of a picture in a row: the first of the columns that is filled.

    Raises:
        UsageError: none is, or what it holds is neither a text nor a whole number.
    """
    for column in columns:
        value = row.get(column)
        if isinstance(value, str) and value.strip():
            return value.strip()
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if value is not None and not isinstance(value, str):
            raise UsageError(f"{where}: {column} must be a text or a whole number, got {value!r}")
    raise UsageError(
        f"{where}: expected {' or '.join(columns)}, which names the picture; it has {sorted(row, key=str)}"
    )
