"""Studies as files: those that come with verism, by name, and those that users write."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from string import Formatter
from typing import Any

from verism.errors import UsageError
from verism.files import read_document
from verism.limits import PROMPT_IMAGES

__all__ = ["filled_by", "image_count", "mapping", "refuse_twice", "standard_record", "study_record"]


def standard_record(name: str, folder: str, known: Sequence[str]) -> dict[str, Any]:
    """A study that comes with verism.

    Args:
        name: of the study.
        folder: folder of the package's data.
        known: names of the studies in it.

    Raises:
        UsageError: another name.
    """
    if name not in known:
        raise UsageError(f"no study {name!r}; there {_are(known)}, and files of your own")
    text = (resources.files("verism") / "data" / folder / f"{name}.json").read_text(encoding="utf-8")
    record: dict[str, Any] = json.loads(text)
    return record


def study_record(source: Path, folder: str, known: Sequence[str]) -> Any:
    """What a YAML or JSON file says; or, where there is no such file, the study of this name.

    Raises:
        UsageError: no such file and no such study, or a file that cannot be read.
    """
    if source.is_file():
        return read_document(source, "a study of your own")
    if str(source) in known:
        return standard_record(str(source), folder, known)
    raise UsageError(f"{source}: no such file, and no study of this name; there {_are(known)}")


def mapping(value: Any, where: str, keys: Sequence[str]) -> Mapping[str, Any]:
    """A mapping with no other keys than these.

    Raises:
        UsageError: something else.
    """
    if not isinstance(value, Mapping):
        raise UsageError(f"{where}: expected a mapping with {', '.join(keys)}, got {type(value).__name__}")
    if unknown := sorted(str(k) for k in value if k not in keys):
        raise UsageError(f"{where}: unknown key {unknown[0]!r}; there are {', '.join(keys)}")
    return value


def filled_by(template: Any, allowed: Sequence[str], where: str, *, needed: Sequence[str] = ()) -> str:
    """A template whose fields in braces are among those allowed, and have those needed.

    Raises:
        UsageError: another field, one that is missing, or braces that do not fit.
    """
    text = str(template)
    try:
        fields = [name for _, name, _, _ in Formatter().parse(text) if name is not None]
    except ValueError as err:
        raise UsageError(f"{where}: {text!r} is no template: {err}") from err
    if foreign := [f for f in fields if f not in allowed]:
        raise UsageError(f"{where}: {text!r}: no field {foreign[0]!r}; there are {', '.join(allowed)}")
    if absent := [f for f in needed if f not in fields]:
        raise UsageError(f"{where}: {text!r} lacks the field {{{absent[0]}}}")
    return text


def image_count(value: Any, where: str) -> int:
    """How many images a study asks of each prompt.

    Raises:
        UsageError: no whole number, less than one, or more than ``limits.PROMPT_IMAGES``.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= PROMPT_IMAGES.value:
        raise UsageError(
            f"{where}: n_images is a whole number of images, at least 1; got {value!r:.60}; {PROMPT_IMAGES.hint()}"
        )
    return value


def refuse_twice(kinds: Iterable[tuple[str, Sequence[str]]], where: str) -> None:
    """Refuse names and texts by which things are told apart and which are not.

    Args:
        kinds: what they are names of, and the names.
        where: names the source in errors.

    Raises:
        UsageError: a name is there twice.
    """
    for kind, names in kinds:
        if twice := sorted(name for name, n in Counter(names).items() if n > 1):
            raise UsageError(f"{where}: {kind} {twice[0]!r} is there twice")


def _are(names: Sequence[str]) -> str:
    return f"{'is' if len(names) == 1 else 'are'} {', '.join(names)}"
