"""Images as the released benchmarks lay them out, matched with prompts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from verism.errors import UsageError
from verism.records import UserImage
from verism.suites.text_rendering.prompt_sets import AskedText
from verism.user_images import UserImages, image_files, image_folders

__all__ = ["GRID", "released_images"]

GRID = 2  # rows and columns of OneIG's grids
ONEIG_FOLDER = "text"


def released_images(benchmark: str, folder: Path, asked: Sequence[AskedText], *, grid: int) -> list[UserImage]:
    """The images of a folder by prompt and number; other files in it are left alone.

    Args:
        benchmark: ``longtext``: ``{id:04d}_{k}.png``; ``cvtg``: ``{folder}/{regions}/{index}.png``; ``oneig``:
            ``{id}*``, a grid of images, in the folder or in ``text/MODEL`` below it.
        folder: the folder.
        asked: the prompts.
        grid: rows and columns of a grid (OneIG only); 1: a file is one image.

    Raises:
        UsageError: two files of one image.
    """
    if not folder.is_dir():
        raise UsageError(f"--images {folder}: no such folder; it is laid out as the benchmark releases its images")
    if benchmark == "oneig":
        return list(_grids(_oneig_folder(folder), asked, grid))
    found = UserImages(max_images=None)
    if benchmark == "cvtg":
        for prompt in asked:
            place, _, stem = prompt.prompt_id.rpartition("/")
            for suffix in (".png", ".jpg", ".jpeg", ".PNG", ".JPG", ".JPEG"):
                path = folder / place / f"{stem}{suffix}"
                if path.is_file():
                    found.add(prompt.prompt_id, 0, path)
    else:
        ids = {prompt.prompt_id for prompt in asked}
        for path in image_files(folder):
            match = re.fullmatch(r"([0-9]{4})_([0-9]+)", path.stem)
            if match and match[1] in ids:
                found.add(match[1], int(match[2]), path)
    return [UserImage(prompt_id=p, index=i, path=str(path)) for (p, i), path in found.files.items()]


def _grids(folder: Path, asked: Sequence[AskedText], grid: int) -> Iterator[UserImage]:
    files = image_files(folder)
    for prompt in asked:
        named = [path for path in files if path.stem.startswith(prompt.prompt_id)]
        if len(named) > 1:
            raise UsageError(
                f"{folder}: {named[0].name} and {named[1].name} both begin with the id {prompt.prompt_id}; keep one "
                "(the released code would leave the prompt out)"
            )
        for path in named:
            for cell in range(grid * grid):
                row, column = divmod(cell, grid)
                place = (row, column, grid, grid) if grid > 1 else None
                yield UserImage(prompt_id=prompt.prompt_id, index=cell, path=str(path), cell=place)


def _oneig_folder(folder: Path) -> Path:
    """The folder of the images themselves: this one, or the only ``text/MODEL`` below it.

    Raises:
        UsageError: several models.
    """
    if image_files(folder):
        return folder
    inner = [path for path in image_folders(folder) if image_files(path)]
    of_text = [path for path in inner if ONEIG_FOLDER in path.relative_to(folder).parts] or inner
    if len(of_text) > 1:
        names = ", ".join(str(path.relative_to(folder)) for path in of_text[:3])
        raise UsageError(f"--images {folder}: images of several models ({names}); name the folder of one")
    return of_text[0] if of_text else folder
