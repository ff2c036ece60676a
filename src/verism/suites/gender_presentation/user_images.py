"""Images that exist already: folders of the released layout, and tables."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from verism.errors import UsageError
from verism.records import UserImage
from verism.suites.gender_presentation.prompts import prompt_id_of
from verism.suites.gender_presentation.studies import Group, Study
from verism.user_images import (
    PROMPT_COLUMNS,
    ImageRow,
    UserImages,
    image_files,
    image_folders,
    plain_name,
    read_image_table,
    table_columns,
)

__all__ = ["Found", "list_user_images", "read_user_images"]

Found = dict[tuple[str, int, int], Path]  # by group, number of the prompt, number of the image

GENDER_COLUMNS = ("gender", "group")
COLUMNS = "prompt_id, prompt, or gender, attribute and context"
MAX_IMAGES = 1_000  # of a prompt: a suite of so few prompts has larger numbers in lists of all its images
LAYOUT = "{}_v1_MODEL_gen/INDEX_NUMBER.png"


def read_user_images(source: Path, study: Study, folder_model: str | None = None) -> tuple[Found, str | None]:
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
        source: the folder or table.
        study: whose prompts the images answer.
        folder_model: whose folders count, where those of several models lie side by side.

    Raises:
        UsageError: no such source, no pictures in it, several models, or a row that names no prompt of the study.
    """
    if source.is_dir():
        return _from_folder(source, study, folder_model)
    if folder_model is not None:
        raise UsageError(f"folder_model chooses among folders of images; {source} is none")
    return _from_table(source, study), None


# ------------------------------------------------------------------------------------------------------------- folders
def _from_folder(root: Path, study: Study, folder_model: str | None) -> tuple[Found, str | None]:
    group_of = {folder.casefold(): group for group in study.groups for folder in group.folders}
    names = "|".join(re.escape(name) for name in sorted(group_of, key=len, reverse=True))
    pattern = re.compile(rf"({names})(?:_v\d+_(.+)_gen)?", re.IGNORECASE)
    folders: list[tuple[str, Group, Path]] = []
    for path in image_folders(root):
        if match := pattern.fullmatch(path.name):
            folders.append((match[2] or "", group_of[match[1].casefold()], path))
    models = sorted({model for model, _, _ in folders})
    layout = " and ".join(LAYOUT.format(group.name) for group in study.groups)
    if not folders:
        raise UsageError(
            f"{root}: no folder in it is one of images by group; expected {layout}, or a table of images; "
            f"{table_columns(COLUMNS)}"
        )
    if folder_model is None and len(models) > 1:
        listed = ", ".join(model or "(none)" for model in models)
        raise UsageError(f"{root} holds images of several models: {listed}; name one with folder_model")
    if folder_model is not None and folder_model not in models:
        listed = ", ".join(model or "(none)" for model in models)
        raise UsageError(f"{root} holds no images of {folder_model!r}; it has those of {listed}")
    chosen = models[0] if folder_model is None else folder_model
    images = UserImages(MAX_IMAGES)
    for model, group, folder in folders:
        if model == chosen:
            _images_of(folder, group, study, images)
    if not images.files:
        raise UsageError(f"{root}: no image in its folders is named by its prompt; expected {layout}")
    return _by_place(images, study), chosen or None


def _images_of(folder: Path, group: Group, study: Study, images: UserImages) -> None:
    for path in image_files(folder):
        match = re.fullmatch(r"([0-9]+)(?:_([0-9]+))?", path.stem)
        if match is None:
            continue
        index = int(match[1])
        if index >= study.per_group:
            raise UsageError(
                f"{path}: the study {study.name!r} has prompts 0 to {study.per_group - 1} per group, not {index}"
            )
        images.add(prompt_id_of(group, index), int(match[2] or 0), path)


def _by_place(images: UserImages, study: Study) -> Found:
    places = {prompt_id_of(group, i): (group.name, i) for group in study.groups for i in range(study.per_group)}
    return {(*places[prompt_id], number): path for (prompt_id, number), path in images.files.items()}


# -------------------------------------------------------------------------------------------------------------- tables
def _from_table(source: Path, study: Study) -> Found:
    ids = {prompt_id_of(group, i): (group, i) for group in study.groups for i in range(study.per_group)}
    by_text = {plain_name(study.text(group, i)): prompt_id for prompt_id, (group, i) in ids.items()}
    images = UserImages(MAX_IMAGES)
    for row in read_image_table(source, COLUMNS):
        images.add(_prompt_of(row, study, ids, by_text), row.index, row.path)
    return _by_place(images, study)


def _prompt_of(row: ImageRow, study: Study, ids: Collection[str], by_text: Mapping[str, str]) -> str:
    """The id of the prompt a row names."""
    where = row.where
    if identity := row.value("prompt_id"):
        if identity not in ids:
            raise UsageError(f"{where}: no prompt {identity!r}; they look like {', '.join(list(ids)[:2])}")
        return identity
    gender, context = row.value(*GENDER_COLUMNS), row.value("context", "context_number")
    if text := row.value("prompt") or ("" if gender and context else row.value(*PROMPT_COLUMNS)):
        if plain_name(text) not in by_text:
            example = study.text(study.groups[0], 0)
            raise UsageError(f"{where}: the prompt {text!r} is none of the study {study.name!r}; one is {example!r}")
        return by_text[plain_name(text)]
    if not gender or not context:
        raise UsageError(f"{where}: no prompt; {table_columns(COLUMNS)}")
    group = next((g for g in study.groups if gender.casefold() in (f.casefold() for f in g.folders)), None)
    if group is None:
        raise UsageError(f"{where}: no gender {gender!r}; there are {', '.join(g.name for g in study.groups)}")
    block = 0
    attribute, setting = row.value("attribute"), row.value("setting")
    if setting and setting not in study.settings:
        raise UsageError(f"{where}: no setting {setting!r}; there are {', '.join(study.settings)}")
    if setting == "explicit" and not attribute:
        raise UsageError(f"{where}: an image of the explicit setting without an attribute")
    if attribute and setting != "neutral":
        names = [a.name for a in study.attributes]
        if attribute not in names or "explicit" not in study.settings:
            raise UsageError(f"{where}: no explicit prompt for {attribute!r}; there are {', '.join(names)}")
        block = 1 + names.index(attribute)
    return prompt_id_of(group, block * len(study.contexts) + _context(context, where, study.contexts))


def _context(value: str, where: str, contexts: Sequence[str]) -> int:
    if value in contexts:
        return contexts.index(value)
    if value.isdecimal() and 1 <= int(value) <= len(contexts):
        return int(value) - 1
    raise UsageError(f"{where}: no context {value!r}; give its text, or its number from 1 to {len(contexts)}")


def list_user_images(found: Found, study: Study) -> list[UserImage]:
    """The images with the ids of their prompts, group by group in the order of their numbers."""
    index_of = {group.name: (n, group) for n, group in enumerate(study.groups)}
    return [
        UserImage(prompt_id=prompt_id_of(index_of[name][1], index), index=number, path=str(path))
        for (name, index, number), path in sorted(
            found.items(), key=lambda item: (index_of[item[0][0]][0], item[0][1:])
        )
    ]
