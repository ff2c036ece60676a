"""Folders of images as question benchmarks name them: ``ID``, ``ID_0`` or ``ID_00``, ``ID_MODEL``, or grids of four."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from verism.records import UserImage
from verism.user_images import UserImages, image_files

__all__ = ["GRID", "folder_images"]

GRID = (2, 2)  # rows and columns; images are counted along rows
MOST = 64  # images of a prompt that are looked for


def folder_images(folder: Path, prompt_ids: Sequence[str], *, grid: bool, model: str = "") -> list[UserImage]:
    """The images of a folder, by the prompts they are named after.

    Args:
        folder: the folder; other files in it are left alone.
        prompt_ids: of the prompts asked.
        grid: whether a file is a grid of 2 x 2 images.
        model: what stands behind the id, ``ID_MODEL.jpg``; empty for nothing.

    Raises:
        UsageError: two files of one image.
    """
    names: dict[str, tuple[str, int]] = {}
    for prompt_id in prompt_ids:
        stem = f"{prompt_id}_{model}" if model else prompt_id
        names[stem] = (prompt_id, 0)
        if not grid:
            for index in range(MOST):
                for number in (f"{index}", f"{index:02d}"):
                    names.setdefault(f"{stem}_{number}", (prompt_id, index))
    found = UserImages(max_images=None)
    for path in image_files(folder):
        if path.stem in names:
            found.add(*names[path.stem], path)
    rows, columns = GRID if grid else (1, 1)
    return [
        UserImage(
            prompt_id=prompt_id,
            index=row * columns + column if grid else index,
            path=str(path),
            cell=(row, column, rows, columns) if grid else None,
        )
        for (prompt_id, index), path in found.files.items()
        for row in range(rows)
        for column in range(columns)
    ]
