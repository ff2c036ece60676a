"""Prompts of ``social_bias_v1``, and pictures of them that exist already: folders of the released layout, tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from verism.errors import UsageError
from verism.manifests import PICTURE_SUFFIXES, read_rows
from verism.records import Prompt, UserImage
from verism.suites.social_bias_v1.words import Word, WordList

__all__ = ["Found", "brought_pictures", "choose_wording", "make_prompts", "read_brought"]

Found = dict[tuple[str, int], Path]  # by id of the prompt and number of the picture

COLUMNS = "file_path, and prompt_id, prompt or word (and index, the number of the picture)"
MOST = 1_000  # pictures of a prompt; a larger number is that of something else


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
    named = {_plain(path.name) for path in _folders(source)}
    matched = {w: sum(_plain(word.texts[w]) in named for word in words.words) for w in words.wordings}
    return max(words.wordings, key=lambda w: matched[w])  # the first of those that match as many


def read_brought(source: Path, words: WordList, wording: str) -> Found:
    """The pictures of a folder or table.

    A folder holds, itself or one level below, a folder for each prompt, named by its text as the authors' are, or with
    underscores for spaces, in capitals or not; in it ``0.jpg``, ``1.jpg`` ... in any picture format. Folders of other
    names and files that are no numbers belong to nothing. A table (``.csv``, ``.jsonl``) has ``file_path`` or ``path``
    (relative ones count from the table) and ``prompt_id``, ``prompt`` (its text) or ``word``; without ``index``, rows
    of a prompt count up.

    Raises:
        UsageError: no such source, no picture of a prompt in it, a row that names no prompt, or two files for one.
    """
    found: Found = {}
    if source.is_dir():
        _from_folder(source, words, wording, found)
    else:
        _from_table(source, words, wording, found)
    return found


def _from_folder(root: Path, words: WordList, wording: str, found: Found) -> None:
    ids = {_plain(word.texts[wording]): word.prompt_id for word in words.words}
    matched = [(path, ids[_plain(path.name)]) for path in _folders(root) if _plain(path.name) in ids]
    example = words.words[0].texts[wording]
    if not matched:
        hint = ""
        for other in words.wordings:
            if any(_plain(p.name) in {_plain(w.texts[other]) for w in words.words} for p in _folders(root)):
                hint = f". Its folders are worded as {other}: choose that wording"
        raise UsageError(f"{root}: no folder in it is named by a prompt, such as {example!r}{hint}")
    seen: dict[str, Path] = {}
    for folder, prompt_id in matched:
        if prompt_id in seen:
            raise UsageError(
                f"both {seen[prompt_id]} and {folder} hold pictures of one prompt; name one model's folder"
            )
        seen[prompt_id] = folder
        for path in sorted(folder.iterdir()):
            if path.is_file() and path.suffix.lower() in PICTURE_SUFFIXES and re.fullmatch(r"[0-9]+", path.stem):
                _add(found, prompt_id, int(path.stem), path)
    if not found:
        raise UsageError(f"{root}: no picture in its folders is named by its number, such as {example}/0.jpg")


def _folders(root: Path) -> list[Path]:
    """The folder's own subfolders, and theirs."""
    own = sorted(p for p in root.iterdir() if p.is_dir())
    return own + [inner for p in own for inner in sorted(p.iterdir()) if inner.is_dir()]


def _from_table(source: Path, words: WordList, wording: str, found: Found) -> None:
    ids = {
        "prompt_id": {word.prompt_id: word.prompt_id for word in words.words},
        "prompt": {_plain(word.texts[wording]): word.prompt_id for word in words.words},
        "word": {_plain(word.name): word.prompt_id for word in words.words},
    }
    names = [_plain(word.name) for word in words.words]
    for name in {name for name in names if names.count(name) > 1}:  # a word of two categories names no prompt
        del ids["word"][name]
    following: dict[str, int] = {}
    rows = read_rows(source)
    if not rows:
        raise UsageError(f"{source}: no rows in it")
    for number, row in enumerate(rows, start=1):
        where = f"{source}, row {number}"
        written = _value(row, ("file_path", "path"))
        if not written:
            raise UsageError(f"{where}: no file_path; a table of pictures has the columns {COLUMNS}")
        prompt_id = _prompt_of(row, ids, words, wording, where)
        given = _value(row, ("index",))
        if given and not re.fullmatch(r"[0-9]+", given):
            raise UsageError(f"{where}: index {given!r} is not the number of a picture; the first has 0")
        index = int(given) if given else following.get(prompt_id, 0)
        following[prompt_id] = max(following.get(prompt_id, 0), index + 1)
        _add(found, prompt_id, index, Path(written) if Path(written).is_absolute() else source.parent / written)


def _prompt_of(
    row: Mapping[str, Any], ids: Mapping[str, Mapping[str, str]], words: WordList, wording: str, where: str
) -> str:
    for column, known in ids.items():
        if written := _value(row, (column,)):
            prompt_id = known.get(written if column == "prompt_id" else _plain(written))
            if prompt_id is None:
                one = words.words[0]
                example = {"prompt_id": one.prompt_id, "prompt": one.texts[wording], "word": one.name}[column]
                raise UsageError(
                    f"{where}: {column} {written!r} is none of the list {words.name!r} (wording: {wording}); one is "
                    f"{example!r}"
                )
            return prompt_id
    raise UsageError(f"{where}: no prompt; a table of pictures has the columns {COLUMNS}")


def _add(found: Found, prompt_id: str, index: int, path: Path) -> None:
    path = path.absolute()
    if index >= MOST:
        raise UsageError(f"{path}: picture {index} of a prompt? Pictures of each prompt count from 0")
    if (prompt_id, index) in found:
        raise UsageError(f"both {found[prompt_id, index]} and {path} are picture {index} of {prompt_id!r}; keep one")
    found[prompt_id, index] = path


def brought_pictures(found: Found, prompts: Sequence[Prompt]) -> list[UserImage]:
    """The pictures of these prompts, in their order."""
    place = {prompt.prompt_id: number for number, prompt in enumerate(prompts)}
    kept = sorted((place[prompt_id], index) for prompt_id, index in found if prompt_id in place)
    return [
        UserImage(prompt_id=prompts[n].prompt_id, index=index, path=str(found[prompts[n].prompt_id, index]))
        for n, index in kept
    ]


def _value(row: Mapping[str, Any], columns: Sequence[str]) -> str:
    """The first of these columns that a row fills; empty if none."""
    return next((str(row[c]).strip() for c in columns if row.get(c) is not None and str(row[c]).strip()), "")


def _plain(text: str) -> str:
    """A text or the name of its folder, without what folder names change."""
    return re.sub(r"[\s_/#]+", "_", text).strip("._").casefold()
