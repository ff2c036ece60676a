"""Prompt lists of preference benchmarks, and which images of a folder or table answer them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from verism.errors import UsageError
from verism.files import read_json, read_text
from verism.records import UserImage
from verism.suites.prompt_lists import ListedPrompt, file_hash, read_prompt_list
from verism.user_images import PROMPT_COLUMNS, UserImages, image_files, read_image_table, table_columns

__all__ = ["MOST", "matched_images", "prompts_digest", "read_prompts", "style_prompts"]

MOST = 64  # images of a prompt that are looked for
COLUMNS = "prompt_id or prompt"


def read_prompts(path: Path) -> list[ListedPrompt]:
    """The prompts of a list, of HPSv2's folder of styles, or of HPSv3's folders of categories.

    Args:
        path: a prompt list (``prompt_lists.read_prompt_list``); a folder with a plain JSON list of prompts for each
            style, ``anime.json`` ..., whose prompts get the ids ``anime/00000`` ...; or a folder with a folder for
            each category, in which every prompt is a text file, ``animals/0001.txt``.

    Raises:
        UsageError: no such file, nothing in it, or a list that holds something else.
    """
    if not path.is_dir():
        return read_prompt_list(path)
    if styles := sorted(p for p in path.glob("*.json") if p.is_file()):
        return [prompt for style in styles for prompt in style_prompts(style)]
    texts = sorted(p for p in path.glob("*/*.txt") if p.is_file())
    if not texts:
        raise UsageError(
            f"{path}: expected a JSON list of prompts for each style (anime.json ...), or folders of text files with a "
            "prompt each; found neither"
        )
    listed = []
    for text in texts:
        words = read_text(text, "a prompt").strip()
        if not words:
            raise UsageError(f"{text}: an empty prompt")
        listed.append(
            ListedPrompt(prompt_id=f"{text.parent.name}/{text.stem}", text=words, facets={"category": text.parent.name})
        )
    return listed


def style_prompts(path: Path) -> list[ListedPrompt]:
    """The prompts of a style as HPSv2 has them: a plain JSON list, the file named after the style.

    Args:
        path: the file; its prompts get the ids ``{style}/{number:05d}``.

    Raises:
        UsageError: no such file, or no list of texts.
    """
    content = read_json(path, "a list of prompts")
    if not isinstance(content, list) or not content:
        raise UsageError(f"{path}: expected a JSON list of prompts")
    listed = []
    for number, text in enumerate(content):
        if not isinstance(text, str) or not text.strip():
            raise UsageError(f"{path}, prompt {number}: expected a text, got {text!r:.80}")
        listed.append(
            ListedPrompt(prompt_id=f"{path.stem}/{number:05d}", text=text.strip(), facets={"style": path.stem})
        )
    return listed


def prompts_digest(path: Path) -> str:
    """SHA-256 of a prompt list, or of all files of prompts of a folder with their names.

    Args:
        path: as of ``read_prompts``.
    """
    if not path.is_dir():
        return file_hash(path)
    digest = hashlib.sha256()
    for file in sorted([*path.glob("*.json"), *path.glob("*/*.txt")]):
        digest.update(f"{file.relative_to(path).as_posix()}\0{file_hash(file)}\n".encode())
    return digest.hexdigest()


def matched_images(source: Path, texts: Mapping[str, str], option: str) -> list[UserImage]:
    """Which file is which image of which prompt.

    Args:
        source: a folder, whose files are named after the prompts, ``ID.png``, ``image_ID.png``, ``ID_0.png`` or
            ``ID_00.png`` (an id with a slash names a folder in it); or a table of images.
        texts: the prompts by id.
        option: of the command line, for messages.

    Returns:
        Images with the ids of ``texts``, in the order of the prompts.

    Raises:
        UsageError: no such source, an unreadable table, two files of one image, or nothing that matches.
    """
    if source.is_dir():
        found = _of_folder(source, texts)
    elif source.is_file():
        found = _of_table(source, texts)
    else:
        raise UsageError(f"{option} {source}: no such folder or table")
    if not found.files:
        example = next(iter(texts), "00000")
        raise UsageError(
            f"{option} {source}: none of the {len(texts):,} prompts has an image there; expected names such as "
            f"{example}.png or {example}_0.png, or a table. {table_columns(COLUMNS)}"
        )
    position = {prompt_id: number for number, prompt_id in enumerate(texts)}
    return [
        UserImage(prompt_id=prompt_id, index=index, path=str(path))
        for (prompt_id, index), path in sorted(found.files.items(), key=lambda item: (position[item[0][0]], item[0][1]))
    ]


def _of_folder(folder: Path, texts: Mapping[str, str]) -> UserImages:
    names: dict[str, tuple[str, int]] = {}
    for prompt_id in texts:
        head, slash, tail = prompt_id.rpartition("/")
        for stem in (prompt_id, f"{head}{slash}image_{tail}"):
            names.setdefault(stem, (prompt_id, 0))
            for index in range(MOST):
                for number in dict.fromkeys((f"{index}", f"{index:02d}")):
                    names.setdefault(f"{stem}_{number}", (prompt_id, index))
    names |= {prompt_id: (prompt_id, 0) for prompt_id in texts}  # an id that ends like a number stays itself
    images = UserImages(max_images=None)
    for path in image_files(folder, recursive=True):
        name = path.relative_to(folder).with_suffix("").as_posix()
        if name in names:
            images.add(*names[name], path)
    return images


def _of_table(table: Path, texts: Mapping[str, str]) -> UserImages:
    by_text: dict[str, list[str]] = {}
    for prompt_id, text in texts.items():
        by_text.setdefault(text.strip(), []).append(prompt_id)
    images = UserImages(max_images=MOST)
    for row in read_image_table(table, COLUMNS):
        if prompt_id := row.value("prompt_id"):
            if prompt_id in texts:
                images.add(prompt_id, row.index, row.path)
            continue
        text = row.value(*PROMPT_COLUMNS)
        if not text:
            raise UsageError(f"{row.where}: no prompt; {table_columns(COLUMNS)}")
        fitting: Sequence[str] = by_text.get(text, ())
        if len(fitting) > 1:
            raise UsageError(
                f"{row.where}: {len(fitting)} prompts have this text; name the prompt by prompt_id: {text!r:.80}"
            )
        if fitting:
            images.add(fitting[0], row.index, row.path)
    return images
