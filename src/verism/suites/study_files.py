"""Studies as files: those that come with verism, by name, and those that users write."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from verism.errors import UsageError
from verism.manifests import read_document

__all__ = ["standard_record", "study_record"]


def standard_record(name: str, folder: str, known: Sequence[str]) -> dict[str, Any]:
    """A study that comes with verism.

    Args:
        folder: of the package's data. known: names of its studies.

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


def _are(names: Sequence[str]) -> str:
    return f"{'is' if len(names) == 1 else 'are'} {', '.join(names)}"
