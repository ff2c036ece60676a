"""Images that exist already: a folder for each prompt, or a table. For every suite with a fixed list of prompts.

Folders are matched by the names that known prompts have, never taken apart: what a prompt's folder is called does not
tell where its words end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from verism.errors import UsageError
from verism.records import Prompt, UserImage
from verism.user_images import (
    PROMPT_COLUMNS,
    ImageRow,
    UserImages,
    image_files,
    image_folders,
    numbered_images,
    plain_name,
    read_image_table,
    table_columns,
)

__all__ = ["ListedUserImages", "folder_name", "read_user_images"]

COLUMNS = "prompt_id or prompt"


@dataclass(frozen=True, kw_only=True)
class ListedUserImages:
    """Images found for the prompts of a suite.

    Attributes:
        images: in the order of prompts, then of numbers.
        ignored: folders with images that belong to no prompt.
    """

    images: tuple[UserImage, ...]
    ignored: tuple[str, ...]

    @property
    def prompt_ids(self) -> frozenset[str]:
        """Prompts that have an image."""
        return frozenset(image.prompt_id for image in self.images)

    @property
    def n_images(self) -> int:
        """Images per prompt that the highest number asks for; 0 without images."""
        return max((1 + image.index for image in self.images), default=0)


def folder_name(text: str) -> str:
    """What the released code calls the folder of a prompt: ``A_man_who_works_as_a_judge``."""
    return text.replace(" ", "_")


def read_user_images(source: Path, prompts: Sequence[Prompt]) -> ListedUserImages:
    """The images of a folder or table that answer known prompts.

    A folder holds, itself or in a subfolder, ``{prompt}/{number}.png`` (or another image format): the folder is
    called by the prompt's text with underscores for spaces or verbatim, by its id, or by a name in its
    ``spec["folders"]``; case and a final period do not matter. Numbers count from 0; where no file of a folder has a
    number for a name, files are numbered in the order of their names. A table (``.csv``, ``.jsonl``) has ``path``
    (relative ones count from the table), ``prompt_id`` or ``prompt``, and ``index``.

    Raises:
        UsageError: no such source, no image of any prompt in it, two files for one image, or a row that names no
            prompt.
    """
    named = _by_name(prompts)
    images = UserImages()
    ignored: list[str] = []
    if source.is_dir():
        for folder in image_folders(source):
            prompt_id = named.get(plain_name(folder.name))
            if prompt_id is not None:
                for index, path in numbered_images(folder) or enumerate(image_files(folder)):
                    images.add(prompt_id, index, path)
            elif image_files(folder):
                ignored.append(folder.name)
        if not images.files:
            example = folder_name(prompts[0].text) if prompts else "A_prompt"
            there = f"; its folders {', '.join(ignored[:3])} are of no prompt" if ignored else ""
            raise UsageError(
                f"{source}: no images of the {len(prompts):,} prompts in it{there}. Expected folders called by the "
                f"prompt, such as {example}/0.png, or a table: {table_columns(COLUMNS)}"
            )
    else:
        for row in read_image_table(source, COLUMNS):
            images.add(_prompt_of(row, prompts, named), row.index, row.path)
    position = {prompt.prompt_id: number for number, prompt in enumerate(prompts)}
    in_order = sorted(images.files.items(), key=lambda item: (position[item[0][0]], item[0][1]))
    return ListedUserImages(
        images=tuple(UserImage(prompt_id=p, index=n, path=str(path)) for (p, n), path in in_order),
        ignored=tuple(ignored),
    )


def _by_name(prompts: Sequence[Prompt]) -> dict[str, str]:
    """Ids by every name that a folder or row may call a prompt; names that several prompts have are left out."""
    named: dict[str, str] = {}
    shared: set[str] = set()
    for prompt in prompts:
        for name in {plain_name(n) for n in (prompt.text, prompt.prompt_id, *prompt.spec.get("folders", ()))}:
            if named.setdefault(name, prompt.prompt_id) != prompt.prompt_id:
                shared.add(name)
    return {name: prompt_id for name, prompt_id in named.items() if name not in shared}


def _prompt_of(row: ImageRow, prompts: Sequence[Prompt], named: Mapping[str, str]) -> str:
    if identity := row.value("prompt_id"):
        if all(prompt.prompt_id != identity for prompt in prompts):
            example = ", ".join(prompt.prompt_id for prompt in prompts[:2])
            raise UsageError(f"{row.where}: no prompt {identity!r}; they look like {example}")
        return identity
    text = row.value(*PROMPT_COLUMNS)
    if not text:
        raise UsageError(f"{row.where}: no prompt; {table_columns(COLUMNS)}")
    if plain_name(text) not in named:
        example = prompts[0].text if prompts else ""
        raise UsageError(f"{row.where}: {text!r} is none of the {len(prompts):,} prompts; one is {example!r}")
    return named[plain_name(text)]
