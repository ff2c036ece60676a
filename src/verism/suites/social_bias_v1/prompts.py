"""Prompts of ``social_bias_v1``, and images of them that exist already: folders of the released layout, tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from verism.errors import UsageError
from verism.records import Prompt, UserImage
from verism.suites.social_bias_v1.words import Word, WordList
from verism.user_images import (
    PROMPT_COLUMNS,
    ImageRow,
    UserImages,
    image_folders,
    numbered_images,
    plain_name,
    read_image_table,
    table_columns,
)

__all__ = ["Found", "choose_wording", "list_user_images", "make_prompts", "read_user_images"]

Found = dict[tuple[str, int], Path]  # by id of the prompt and number of the image

COLUMNS = "prompt_id, prompt or word"
MAX_IMAGES = 1_000  # of a prompt: a suite of so few prompts has larger numbers in lists of all its images


def make_prompts(suite: str, words: Sequence[Word], wording: str, n_images: int) -> list[Prompt]:
    """The prompts of these words, in order; facets ``category`` and ``word``."""
    return [
        Prompt(
            prompt_id=word.prompt_id,
            suite=suite,
            text=word.texts[wording],
            facets={"category": word.category, "word": word.name},
            spec={"wording": wording},
            n_images=n_images,
        )
        for word in words
    ]


def choose_wording(source: Path, words: WordList, wording: str | None) -> str:
    """The wording that was asked for; of a folder, the one most of its subfolders are named in.

    Raises:
        UsageError: the list has no such wording.
    """
    if wording is not None:
        if wording not in words.wordings:
            raise UsageError(f"the list {words.name!r} has no wording {wording!r}; it has {', '.join(words.wordings)}")
        return wording
    if not source.is_dir():
        return words.wordings[0]
    named = {plain_name(path.name) for path in image_folders(source)}
    matched = {w: sum(plain_name(word.texts[w]) in named for word in words.words) for w in words.wordings}
    return max(words.wordings, key=lambda w: matched[w])  # the first of those that match as many


def read_user_images(source: Path, words: WordList, wording: str) -> Found:
    """The images of a folder or table.

    A folder holds, itself or one level below, a folder for each prompt, named by its text as the authors' are, or with
    underscores for spaces, in capitals or not; in it ``0.jpg``, ``1.jpg`` ... in any image format. Folders of other
    names and files that are no numbers belong to nothing. A table (``.csv``, ``.jsonl``) has ``file_path`` or ``path``
    (relative ones count from the table) and ``prompt_id``, ``prompt`` (its text) or ``word``; without ``index``, rows
    of a prompt count up.

    Raises:
        UsageError: no such source, no image of a prompt in it, a row that names no prompt, or two files for one.
    """
    images = UserImages(MAX_IMAGES)
    if source.is_dir():
        _from_folder(source, words, wording, images)
    else:
        _from_table(source, words, wording, images)
    return images.files


def _from_folder(root: Path, words: WordList, wording: str, images: UserImages) -> None:
    ids = {plain_name(word.texts[wording]): word.prompt_id for word in words.words}
    folders = image_folders(root)
    matched = [(path, ids[plain_name(path.name)]) for path in folders if plain_name(path.name) in ids]
    example = words.words[0].texts[wording]
    if not matched:
        hint = ""
        for other in words.wordings:
            names = {plain_name(word.texts[other]) for word in words.words}
            if any(plain_name(path.name) in names for path in folders):
                hint = f". Its folders are worded as {other}: choose that wording"
        raise UsageError(f"{root}: no folder in it is named by a prompt, such as {example!r}{hint}")
    seen: dict[str, Path] = {}
    for folder, prompt_id in matched:
        if prompt_id in seen:
            raise UsageError(f"both {seen[prompt_id]} and {folder} hold images of one prompt; name one model's folder")
        seen[prompt_id] = folder
        for index, path in numbered_images(folder):
            images.add(prompt_id, index, path)
    if not images.files:
        raise UsageError(f"{root}: no image in its folders is named by its number, such as {example}/0.jpg")


def _from_table(source: Path, words: WordList, wording: str, images: UserImages) -> None:
    ids = {
        "prompt_id": {word.prompt_id: word.prompt_id for word in words.words},
        "prompt": {plain_name(word.texts[wording]): word.prompt_id for word in words.words},
        "word": {plain_name(word.name): word.prompt_id for word in words.words},
    }
    names = [plain_name(word.name) for word in words.words]
    for name in {name for name in names if names.count(name) > 1}:  # a word of two categories names no prompt
        del ids["word"][name]
    for row in read_image_table(source, COLUMNS):
        images.add(_prompt_of(row, ids, words, wording), row.index, row.path)


def _prompt_of(row: ImageRow, ids: Mapping[str, Mapping[str, str]], words: WordList, wording: str) -> str:
    # A text or caption may stand beside the word and say something else.
    for column, columns in (*((name, (name,)) for name in ids), ("prompt", PROMPT_COLUMNS)):
        if written := row.value(*columns):
            prompt_id = ids[column].get(written if column == "prompt_id" else plain_name(written))
            if prompt_id is None:
                one = words.words[0]
                example = {"prompt_id": one.prompt_id, "prompt": one.texts[wording], "word": one.name}[column]
                raise UsageError(
                    f"{row.where}: {column} {written!r} is none of the list {words.name!r} (wording: {wording}); one "
                    f"is {example!r}"
                )
            return prompt_id
    raise UsageError(f"{row.where}: no prompt; {table_columns(COLUMNS)}")


def list_user_images(found: Found, prompts: Sequence[Prompt]) -> list[UserImage]:
    """The images of these prompts, in their order."""
    index_of = {prompt.prompt_id: number for number, prompt in enumerate(prompts)}
    kept = sorted((index_of[prompt_id], index) for prompt_id, index in found if prompt_id in index_of)
    return [
        UserImage(prompt_id=prompts[n].prompt_id, index=index, path=str(found[prompts[n].prompt_id, index]))
        for n, index in kept
    ]
