"""The questions that annotators are asked: a run's suite's own, general ones, and those of a user's file."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, cast, get_args

from verism.errors import UsageError
from verism.files import IMAGE_SUFFIXES, read_document, well_formed
from verism.records import RatingTask, TaskKind, TaskLevel, TaskUnit
from verism.store import Run
from verism.suites.catalogue import stored_suite

__all__ = ["PREFERENCE", "SCALE", "choose_tasks", "general_tasks", "read_tasks", "tasks_of"]

SCALE = ("1", "2", "3", "4", "5")
PREFERENCE = RatingTask(
    name="preference",
    question="Which picture fits the text better: “{prompt}”?",
    kind="pair",
    options=("first", "second", "tie"),
    unit="pair",
    help="Sides are random. Choose a tie if neither is better.",
)
_FIELDS = ("name", "question", "kind", "options", "unit", "rule", "key", "level", "unsure", "help", "examples", "only")
_DEFAULT_OPTIONS = {
    "scale": SCALE,
    "tone": tuple(str(tone) for tone in range(1, 11)),
    "pair": PREFERENCE.options,
}


@functools.cache
def general_tasks() -> tuple[RatingTask, ...]:
    """Questions that suit the images of any suite."""
    with resources.as_file(resources.files("verism.annotation") / "general_tasks.yaml") as path:
        return tuple(read_tasks(path))


def tasks_of(run: Run) -> list[RatingTask]:
    """The tasks a run offers: its suite's own first, then the general ones its suite does not have."""
    subset = stored_suite(run).rating_tasks()
    names = {task.name for task in subset}
    return [*subset, *(task for task in general_tasks() if task.name not in names)]


def choose_tasks(offered: Sequence[RatingTask], names: Sequence[str]) -> list[RatingTask]:
    """Tasks by name, in the order of names; ``attribute`` alone means every task ``attribute: ...``.

    Raises:
        UsageError: no task of that name.
    """
    chosen: list[RatingTask] = []
    for name in names:
        named = [t for t in offered if t.name == name] or [t for t in offered if t.name.startswith(f"{name}: ")]
        if not named:
            raise UsageError(f"no task {name!r}; there are {', '.join(t.name for t in offered)}")
        chosen += [t for t in named if t not in chosen]
    return chosen


def read_tasks(path: Path) -> list[RatingTask]:
    """Tasks from a YAML or JSON file: a list, or ``tasks:`` with a list, of the fields of ``RatingTask``.

    ``name``, ``question`` and, but for scales, tones and pairs, ``options`` are needed; ``kind`` is ``choice`` if left
    out, or ``list`` for more than nine options. Paths of example images count from the file's folder.

    Raises:
        UsageError: no such file, unknown fields or values, options twice, or names twice.
    """
    record = read_document(path, "a list of tasks")
    entries = record.get("tasks") if isinstance(record, Mapping) else record
    if not isinstance(entries, list) or not entries:
        raise UsageError(f"{path}: expected a list of tasks, or `tasks:` with a list")
    with well_formed(path):
        tasks = [_task(entry, f"{path}, task {i}", path.parent) for i, entry in enumerate(entries, start=1)]
    names = [task.name for task in tasks]
    if len(set(names)) < len(names):
        raise UsageError(f"{path}: two tasks have one name; names are {', '.join(names)}")
    return tasks


def _task(entry: Any, where: str, folder: Path) -> RatingTask:
    if not isinstance(entry, Mapping):
        raise UsageError(f"{where}: expected fields such as name and question, got {entry!r}")
    if unknown := sorted(set(map(str, entry)) - set(_FIELDS)):
        raise UsageError(f"{where}: unknown field {unknown[0]!r}; fields are {', '.join(_FIELDS)}")
    for needed in ("name", "question"):
        if not isinstance(entry.get(needed), str) or not entry[needed].strip():
            raise UsageError(f"{where}: {needed} is missing")
    unit = str(entry.get("unit", "pair" if entry.get("kind") == "pair" else "picture"))
    options = entry.get("options", _DEFAULT_OPTIONS.get(str(entry.get("kind"))))
    if not isinstance(options, list | tuple) or len(options) < 2:
        raise UsageError(f"{where}: options is a list of two or more answers")
    # YAML reads a bare yes or no as true or false.
    names = tuple({True: "yes", False: "no"}.get(o, str(o)) if isinstance(o, bool) else str(o) for o in options)
    if len(set(names)) < len(names):
        raise UsageError(f"{where}: an option is there twice: {', '.join(names)}")
    kind = str(entry.get("kind", "choice" if len(names) <= 9 else "list"))
    level = str(entry.get("level", "ordinal" if kind in ("scale", "tone") else "nominal"))
    for field, value, known in (
        ("kind", kind, get_args(TaskKind)),
        ("unit", unit, get_args(TaskUnit)),
        ("level", level, get_args(TaskLevel)),
    ):
        if value not in known:
            raise UsageError(f"{where}: {field} is one of {', '.join(known)}, got {value!r}")
    if (kind == "pair") != (unit == "pair"):
        raise UsageError(f"{where}: kind pair and unit pair go together")
    if kind == "pair" and names != PREFERENCE.options:
        raise UsageError(f"{where}: the options of a pair are {', '.join(PREFERENCE.options)}")
    if kind == "tone" and names[:10] != _DEFAULT_OPTIONS["tone"]:
        raise UsageError(f"{where}: the options of a tone begin with 1 to 10")
    unsure = tuple(str(o) for o in entry.get("unsure", ()))
    if foreign := [o for o in unsure if o not in names]:
        raise UsageError(f"{where}: unsure names {foreign[0]!r}, which is no option")
    only = entry.get("only", {})
    if not isinstance(only, Mapping):
        raise UsageError(f"{where}: only is a mapping from facets of prompts to lists of their values")
    return RatingTask(
        name=str(entry["name"]).strip(),
        question=str(entry["question"]).strip(),
        kind=cast(TaskKind, kind),
        options=names,
        unit=cast(TaskUnit, unit),
        rule=str(entry.get("rule", "")),
        key=dict(entry.get("key", {})),
        level=cast(TaskLevel, level),
        unsure=unsure,
        help=str(entry.get("help", "")),
        examples={str(k): _example(str(v), folder) for k, v in dict(entry.get("examples", {})).items()},
        only={str(k): tuple(v) if isinstance(v, list) else (v,) for k, v in only.items()},
    )


def _example(text: str, folder: Path) -> str:
    """A sentence as it is; the name of an image file as its path."""
    is_image = Path(text).suffix.lower() in IMAGE_SUFFIXES and (folder / text).is_file()
    return str((folder / text).absolute()) if is_image else text
