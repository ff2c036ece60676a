"""Observations made elsewhere: reading their files, and finding the image each of them is about.

Files written by other programs name images in their own ways: by the id of an image (``prompt#0``), by the prompt's
id, by the name of a file, or by a number, as COCO does. A run's image is looked up in this order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from verism.errors import UsageError
from verism.files import IMAGE_SUFFIXES

if TYPE_CHECKING:
    from verism.records import LoadedImage

__all__ = ["ImageNames", "image_name", "number_in", "results_name"]

_MSCOCO = re.compile(r"(\d+)_mscoco_\d+")  # image and sentence, as in the released list of R-precision
_NUMBER = re.compile(r"(?<![A-Za-z0-9])\d+(?![A-Za-z0-9])")


def number_in(name: str) -> int | None:
    """The number that identifies an image within a name, or None if there is none or it is not plain which.

    It stands by itself, not behind letters, and has more digits than the others.

    >>> number_in("COCO_val2014_000000391895"), number_in("391895_mscoco_3"), number_in("a_12_34"), number_in("sd21")
    (391895, 391895, None, None)
    """
    if match := _MSCOCO.fullmatch(name):
        return int(match.group(1))
    runs = _NUMBER.findall(name)
    longest = [run for run in runs if len(run) == max(map(len, runs))]
    return int(longest[0]) if len(longest) == 1 else None


class ImageNames:
    """The names under which a file speaks of images, and which of them an image of the run has.

    Args:
        names: as the file has them, each once.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = dict.fromkeys(names)
        self._stems: dict[str, list[str]] = {}
        self._numbers: dict[int, str | None] = {}
        for name in self._names:
            stem = _stem(name)
            self._stems.setdefault(stem, []).append(name)
            # What two names share tells neither.
            later = re.search(r"#0*[1-9]\d*$", stem)  # not the first image of a prompt, which a number stands for
            if not later and (number := number_in(stem)) is not None:
                self._numbers[number] = None if number in self._numbers else name
        self._given: dict[str, str] = {}  # image by name

    def find(self, image: LoadedImage) -> str | None:
        """The file's name of an image: its own id, its prompt's id, the same without folder and suffix, or its number.

        Names of prompts and numbers only stand for the first image of a prompt: it would be wrong to take the same
        sentence for its other images, too.

        Raises:
            UsageError: another image was found under the same name before.
        """
        name = self._find(image)
        if name is not None and self._given.setdefault(name, image.image_id) != image.image_id:
            raise UsageError(
                f"the file's {name!r} fits two images of the run, {self._given[name]} and {image.image_id}. Name "
                "images in the file by these ids."
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
            fitting = [other for other in self._stems.get(_stem(name), ()) if _folders_fit(name, other)]
            if len(fitting) == 1:
                return fitting[0]
        number = number_in(_stem(image.prompt_id))
        found = None if number is None else self._numbers.get(number)
        # `man/0` and `woman/0` share their number, but are names of the same kind, and not the same name; so are `de_7`
        # and `fr_7#0`.
        return None if found is not None and _kind(found) == _kind(image.prompt_id) else found


def _folders_fit(a: str, b: str) -> bool:
    """Whether two names with the same last part may be of one image: the folders of one are the last of the other's.

    >>> _folders_fit("man/0#0", "woman/0#0"), _folders_fit("man/0", "out/man/0.png"), _folders_fit("c", "x/c.png")
    (False, True, True)
    """
    short, long = sorted((PurePosixPath(a).parts[:-1], PurePosixPath(b).parts[:-1]), key=len)
    return long[len(long) - len(short) :] == short


def _kind(name: str) -> tuple[int, int, int]:
    """How a name is made: number of its parts, which of them is its number (`number_in`), and how many digits that has.

    >>> _kind("count_val_00072"), _kind("object_val_00072#0"), _kind("391895_mscoco_3")
    ((3, 2, 5), (3, 2, 5), (3, 0, 6))
    """
    parts = re.split(r"[\W_]+", _stem(re.sub(r"#\d+$", "", name)))
    place = max(range(len(parts)), key=lambda n: (parts[n].isdecimal(), len(parts[n])))
    return len(parts), place, len(parts[place])


def _stem(name: str) -> str:
    path = PurePosixPath(name)
    return path.stem if path.suffix.lower() in IMAGE_SUFFIXES else path.name


def results_name(path: Path, identity: str, *options: str, judge: str = "") -> str:
    """Name of a judge that reads results: the file with its content, what changes its reading, and who judged.

    Args:
        path: the file or folder.
        identity: hexadecimal digits that stand for its content.
        options: ``name=value`` of each option that changes observations.
        judge: who judged, as the user declares it (``verism.records.judge_identity``); empty where it is not declared.

    Raises:
        UsageError: a judge that is no line of text, or with an equals sign, which separates the parts of a name.
    """
    declared = judge.strip()
    if judge and (not declared or not declared.isprintable() or "=" in declared):
        raise UsageError(f"judge={judge!r}: expected the name of who judged, a line of text without '='")
    return " ".join([f"results:{path.name}@{identity}", *options, *([f"judge={declared}"] if judge else [])])


def image_name(row: Mapping[str, Any], columns: Sequence[str], where: str) -> str:
    """The name of an image in a row: the first of the columns that is filled.

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
    raise UsageError(f"{where}: expected {' or '.join(columns)}, which names the image; it has {sorted(row, key=str)}")
