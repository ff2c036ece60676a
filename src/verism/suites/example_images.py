"""Example images that a suite renders for its demonstration: groups of scenes of one object each, and their table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from verism.errors import VerismError
from verism.files import write_csv, write_whole
from verism.imaging import encode_png
from verism.records import Renderer, Scene, SceneObject

__all__ = ["ImageGroup", "render_groups"]


@dataclass(frozen=True, kw_only=True)
class ImageGroup:
    """Images of one object.

    Attributes:
        shape: name of the object in scene files; also its suite label.
        values: of the table's columns; their joined text names the files.
        backgrounds: environments, taken in turn.
    """

    shape: str
    values: Mapping[str, str]
    backgrounds: tuple[str, ...]


def render_groups(
    folder: Path, renderer: Renderer, groups: Sequence[ImageGroup], *, each: int, table: str = "real.csv"
) -> None:
    """Render images into ``folder/images``, and write the table of them: ``file_path`` and the groups' columns.

    Args:
        folder: made if missing.
        renderer: renders them; their size is its own.
        groups: what they show; all with the same columns.
        each: images of each group.
        table: name of the table's file.

    Raises:
        VerismError: an image could not be rendered.
    """
    scenes: list[Scene] = []
    rows: list[list[str]] = []
    for number, group in enumerate(groups):
        for n in range(each):
            rows.append([f"images/{'-'.join(group.values.values())}-{n}.png", *group.values.values()])
            scenes.append(
                Scene(
                    scene_id=f"example_{len(scenes):05d}",
                    skill="example",
                    split="train",
                    text=group.shape,
                    background=group.backgrounds[n % len(group.backgrounds)],
                    objects=(SceneObject(shape=group.shape, label=group.shape),),
                    seed=1000 * number + n,
                )
            )
    for row, rendered in zip(rows, renderer.render_all(scenes), strict=True):
        if isinstance(rendered, VerismError):
            raise rendered
        write_whole(folder / row[0], encode_png(rendered.pixels), sync=False)
    write_csv(folder / table, ["file_path", *groups[0].values], rows)
