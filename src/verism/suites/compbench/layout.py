"""Images in the released layout: ``{category}/samples/{prompt}_{number:06d}.png``, the number running over prompts and
their images.

The released scripts sort the files by that number and identify an image by its position in the list, so that one
missing image gives every later one to another prompt. Here the text in the name says which prompt,
and the number which of its images.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from verism.errors import UsageError
from verism.records import UserImage
from verism.suites.compbench.prompts import Asked
from verism.user_images import UserImages, image_files, plain_name

__all__ = ["displaced", "file_name", "is_released_layout", "read_images"]

SAMPLES = "samples"
NAME = re.compile(r"(?P<text>[^_]*)(?:_(?P<number>\d+))?")


def file_name(text: str, number: int) -> str:
    """Name of an image's file as released.

    Args:
        text: the prompt.
        number: running over prompts and their images, from 0.
    """
    return f"{text.replace('/', ' ')}_{number:06d}.png"


def is_released_layout(root: Path, categories: Sequence[str]) -> bool:
    """Whether a folder holds folders of categories with ``samples`` in them, or is such a folder itself.

    Args:
        root: any path.
        categories: that are asked.
    """
    return root.is_dir() and any(_samples(root, category, categories) for category in categories)


def _samples(root: Path, category: str, categories: Sequence[str]) -> Path | None:
    places = [root / category / SAMPLES, root / f"{category}_val" / SAMPLES]
    if len(categories) == 1:
        places += [root / SAMPLES]
    return next((place for place in places if place.is_dir()), None)


def read_images(root: Path, asked: Mapping[str, Sequence[tuple[str, Asked]]]) -> list[UserImage]:
    """Which image of which prompt every file is.

    Args:
        root: folder in the released layout.
        asked: by category, id and prompt, in the order of the released file. Files of prompts that are not among them
            are left out.

    Raises:
        UsageError: no folder of a category, or two files for one image.
    """
    images = UserImages()
    for category, prompts in asked.items():
        folder = _samples(root, category, list(asked))
        if folder is None:
            raise UsageError(
                f"{root}: no folder {category}/{SAMPLES} with images of {category}; to leave it out, name the "
                "categories wanted with --category"
            )
        by_text: dict[str, list[tuple[str, Asked]]] = {}
        for prompt_id, each in prompts:
            by_text.setdefault(plain_name(each.text), []).append((prompt_id, each))
        files = _numbered(folder)
        each_has = max(Counter(text for _, text, _ in files).values(), default=1)
        for number, text, path in files:
            same = by_text.get(text, [])
            if len(same) > 1:  # a prompt that is there twice: its place in the file tells which
                copies = len(same)
                share = -(-each_has // copies)
                line = None if number is None else number // share
                same = [item for item in same if item[1].index == line] or same[:1]
            if same:
                images.add(same[0][0], None, path)
    return [UserImage(prompt_id=p, index=i, path=str(path)) for (p, i), path in images.files.items()]


def _numbered(folder: Path) -> list[tuple[int | None, str, Path]]:
    """Number, plain text and path of the images of a folder, by number."""
    found = []
    for path in image_files(folder):
        match = NAME.match(path.stem)
        text = plain_name(match["text"] if match else path.stem)
        number = int(match["number"]) if match and match["number"] else None
        found.append((number, text, path))
    return sorted(found, key=lambda item: (item[0] is None, item[0] or 0, str(item[2])))


def displaced(root: Path, category: str, prompts: Sequence[Asked], images_each: int) -> int:
    """Files that the released scripts would take for images of another prompt, as their position is not their number's.

    Args:
        root: folder in the released layout.
        category: whose folder.
        prompts: all prompts of the released file, in order.
        images_each: images of a prompt.
    """
    folder = _samples(root, category, [category]) or _samples(root, category, [])
    if folder is None:
        return 0
    wrong = 0
    for position, (_, text, _) in enumerate(_numbered(folder)):
        line = position // images_each
        wrong += line >= len(prompts) or plain_name(prompts[line].text) != text
    return wrong
