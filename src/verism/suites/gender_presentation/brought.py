"""Pictures that exist already: folders of the released layout, and tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from verism.errors import UsageError
from verism.manifests import PICTURE_SUFFIXES, read_rows
from verism.records import UserImage
from verism.suites.gender_presentation.prompts import prompt_id_of
from verism.suites.gender_presentation.studies import Group, Study

__all__ = ["Found", "brought_pictures", "read_brought"]

Found = dict[tuple[str, int, int], Path]  # by group, number of the prompt, number of the picture

PATH_COLUMNS = ("file_path", "path")
GENDER_COLUMNS = ("gender", "group")
COLUMNS = "file_path and prompt_id, prompt, or gender, attribute and context (and index, the number of the picture)"
LAYOUT = "{}_v1_MODEL_gen/INDEX_NUMBER.png"
MOST = 1_000  # pictures of a prompt; numbers beyond are row numbers of something else


def read_brought(source: Path, study: Study, folder_model: str | None = None) -> tuple[Found, str | None]:
    """The pictures of a folder or table, and the name of their model where the folder tells.

    A folder holds, itself or in a subfolder, ``{group}_v1_{model}_gen/{index}_{number}.png`` for each group, as the
    paper's authors released theirs (``female`` and ``male`` are other names of ``woman`` and ``man``), or plain
    ``{group}/{index}_{number}.png``. A table (``.csv``, ``.jsonl``) has ``file_path`` or ``path`` (relative ones count
    from the table) and one of

    * ``prompt_id``, as the suite names its prompts;
    * ``prompt``, its text;
    * ``gender``, ``context`` (its text, or its number from 1) and, in the explicit setting, ``attribute``.

    ``index`` is the number of the picture, from 0; without it, rows of a prompt count up.

    Args:
        folder_model: whose folders count, where those of several models lie side by side.

    Raises:
        UsageError: no such source, no pictures in it, several models, or a row that names no prompt of the study.
    """
    if source.is_dir():
        return _from_folder(source, study, folder_model)
    if folder_model is not None:
        raise UsageError(f"folder_model chooses among folders of pictures; {source} is none")
    return _from_table(source, study), None


# ------------------------------------------------------------------------------------------------------------- folders
def _from_folder(root: Path, study: Study, folder_model: str | None) -> tuple[Found, str | None]:
    group_of = {folder.casefold(): group for group in study.groups for folder in group.folders}
    names = "|".join(re.escape(name) for name in sorted(group_of, key=len, reverse=True))
    pattern = re.compile(rf"({names})(?:_v\d+_(.+)_gen)?", re.IGNORECASE)
    folders: list[tuple[str, Group, Path]] = []
    for path in _folders(root):
        if match := pattern.fullmatch(path.name):
            folders.append((match[2] or "", group_of[match[1].casefold()], path))
    models = sorted({model for model, _, _ in folders})
    layout = " and ".join(LAYOUT.format(group.name) for group in study.groups)
    if not folders:
        raise UsageError(
            f"{root}: no folder in it is one of pictures by group; expected {layout}, or a table with {COLUMNS}"
        )
    if folder_model is None and len(models) > 1:
        listed = ", ".join(model or "(none)" for model in models)
        raise UsageError(f"{root} holds pictures of several models: {listed}; name one with folder_model")
    if folder_model is not None and folder_model not in models:
        listed = ", ".join(model or "(none)" for model in models)
        raise UsageError(f"{root} holds no pictures of {folder_model!r}; it has those of {listed}")
    chosen = models[0] if folder_model is None else folder_model
    found: Found = {}
    for model, group, folder in folders:
        if model == chosen:
            _pictures_of(folder, group, study, found)
    if not found:
        raise UsageError(f"{root}: no picture in its folders is named by its prompt; expected {layout}")
    return found, chosen or None


def _folders(root: Path) -> list[Path]:
    """The folder's own subfolders, and theirs."""
    own = sorted(p for p in root.iterdir() if p.is_dir())
    return own + [inner for p in own for inner in sorted(p.iterdir()) if inner.is_dir()]


def _pictures_of(folder: Path, group: Group, study: Study, found: Found) -> None:
    for path in sorted(folder.iterdir()):
        match = re.fullmatch(r"(\d+)(?:_(\d+))?", path.stem)
        if match is None or path.suffix.lower() not in PICTURE_SUFFIXES or not path.is_file():
            continue
        index, number = int(match[1]), int(match[2] or 0)
        if index >= study.per_group:
            raise UsageError(
                f"{path}: the study {study.name!r} has prompts 0 to {study.per_group - 1} per group, not {index}"
            )
        _add(found, (group.name, index, number), path)


def _add(found: Found, key: tuple[str, int, int], path: Path) -> None:
    path = path.absolute()
    group, index, number = key
    if number >= MOST:
        raise UsageError(f"{path}: picture {number} of prompt {index} of {group}? Pictures of each prompt count from 0")
    if key in found and found[key] != path:
        raise UsageError(f"both {found[key]} and {path} are picture {number} of prompt {index} of {group}; keep one")
    found[key] = path


# -------------------------------------------------------------------------------------------------------------- tables
def _from_table(source: Path, study: Study) -> Found:
    rows = read_rows(source)
    if not rows:
        raise UsageError(f"{source}: no rows in it")
    by_id: dict[str, tuple[str, int]] = {}
    by_text: dict[str, tuple[str, int]] = {}
    for group in study.groups:
        for index in range(study.per_group):
            by_id[prompt_id_of(group, index)] = by_text[_plain(study.text(group, index))] = (group.name, index)
    found: Found = {}
    taken: dict[tuple[str, int], int] = {}
    for number, row in enumerate(rows, start=1):
        where = f"{source}, row {number}"
        written = _value(row, PATH_COLUMNS)
        if not written:
            raise UsageError(f"{where}: no file_path; a table of pictures has the columns {COLUMNS}")
        path = Path(written) if Path(written).is_absolute() else source.parent / written
        key = _prompt_of(row, where, study, by_id, by_text)
        index = _number(_value(row, ("index",)), where, taken.get(key, 0))
        taken[key] = max(taken.get(key, 0), index + 1)
        _add(found, (*key, index), path)
    return found


def _prompt_of(
    row: Mapping[str, Any],
    where: str,
    study: Study,
    by_id: Mapping[str, tuple[str, int]],
    by_text: Mapping[str, tuple[str, int]],
) -> tuple[str, int]:
    """Group and number of the prompt a row names."""
    if identity := _value(row, ("prompt_id",)):
        if identity not in by_id:
            raise UsageError(f"{where}: no prompt {identity!r}; they look like {', '.join(list(by_id)[:2])}")
        return by_id[identity]
    if text := _value(row, ("prompt",)):
        if _plain(text) not in by_text:
            example = study.text(study.groups[0], 0)
            raise UsageError(f"{where}: the prompt {text!r} is none of the study {study.name!r}; one is {example!r}")
        return by_text[_plain(text)]
    gender, context = _value(row, GENDER_COLUMNS), _value(row, ("context", "context_number"))
    if not gender or not context:
        raise UsageError(f"{where}: no prompt; a table of pictures has the columns {COLUMNS}")
    group = next((g for g in study.groups if gender.casefold() in (f.casefold() for f in g.folders)), None)
    if group is None:
        raise UsageError(f"{where}: no gender {gender!r}; there are {', '.join(g.name for g in study.groups)}")
    block = 0
    attribute, setting = _value(row, ("attribute",)), _value(row, ("setting",))
    if setting and setting not in study.settings:
        raise UsageError(f"{where}: no setting {setting!r}; there are {', '.join(study.settings)}")
    if setting == "explicit" and not attribute:
        raise UsageError(f"{where}: a picture of the explicit setting without an attribute")
    if attribute and setting != "neutral":
        names = [a.name for a in study.attributes]
        if attribute not in names or "explicit" not in study.settings:
            raise UsageError(f"{where}: no explicit prompt for {attribute!r}; there are {', '.join(names)}")
        block = 1 + names.index(attribute)
    return group.name, block * len(study.contexts) + _context(context, where, study.contexts)


def _context(value: str, where: str, contexts: Sequence[str]) -> int:
    if value in contexts:
        return contexts.index(value)
    if value.isdecimal() and 1 <= int(value) <= len(contexts):
        return int(value) - 1
    raise UsageError(f"{where}: no context {value!r}; give its text, or its number from 1 to {len(contexts)}")


def _number(value: str, where: str, following: int) -> int:
    if not value:
        return following
    if not value.isdecimal():
        raise UsageError(f"{where}: index {value!r} is not the number of a picture; the first has 0")
    return int(value)


def _value(row: Mapping[str, Any], columns: Sequence[str]) -> str:
    """The first of these columns that a row fills; empty if none."""
    return next((str(row[c]).strip() for c in columns if row.get(c) is not None and str(row[c]).strip()), "")


def _plain(text: str) -> str:
    return " ".join(text.split()).rstrip(".").casefold()


def brought_pictures(found: Found, study: Study) -> list[UserImage]:
    """The pictures with the ids of their prompts, group by group in the order of their numbers."""
    place = {group.name: (n, group) for n, group in enumerate(study.groups)}
    return [
        UserImage(prompt_id=prompt_id_of(place[name][1], index), index=number, path=str(path))
        for (name, index, number), path in sorted(found.items(), key=lambda item: (place[item[0][0]][0], item[0][1:]))
    ]
