"""The commented example that ``verism plan init`` writes, with the few images it compares with."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

from verism.errors import UsageError, VerismError
from verism.files import write_csv, write_whole
from verism.imaging import encode_png
from verism.options import Context
from verism.records import Scene, SceneObject
from verism.registry import make_renderer

__all__ = ["write_example"]


def write_example(path: Path, *, force: bool = False) -> list[Path]:
    """Write the example plan, and beside it a folder with what it refers to.

    Args:
        path: the plan's file, ``.yaml`` or ``.yml``.
        force: whether files that exist are replaced.

    Returns:
        The plan and the folder.

    Raises:
        UsageError: another suffix, or something that exists.
    """
    if path.suffix.lower() not in (".yaml", ".yml"):
        raise UsageError(f"{path}: a plan is a .yaml file")
    folder = path.with_name(f"{path.stem}-files")
    if not force:
        for there in (path, folder):
            if there.exists():
                raise UsageError(f"{there} exists; name another file, or replace it with --force")
    text = _data("plan.yaml").replace("{plan}", str(path)).replace("{files}", folder.name)
    write_whole(folder / "world.yaml", _data("world.yaml"))
    _render(json.loads(_data("real.json")), folder)
    write_whole(path, text)  # last: where the plan is, its files are complete
    return [path, folder]


def _data(name: str) -> str:
    return (resources.files("verism") / "plans" / "data" / name).read_text(encoding="utf-8")


def _render(described: dict[str, Any], folder: Path) -> None:
    """The images of the example, and a table of them."""
    scenes: list[Scene] = []
    rows: list[list[str]] = []
    for number, group in enumerate(described["groups"]):
        for n in range(described["per_group"]):
            rows.append([f"images/{'-'.join(group['values'])}-{n}.png", *group["values"]])
            backgrounds = group["backgrounds"]
            scenes.append(
                Scene(
                    scene_id=f"example_{len(scenes):05d}",
                    skill="example",
                    split="train",
                    text=group["label"],
                    background=backgrounds[n % len(backgrounds)],
                    objects=(SceneObject(shape=group["shape"], label=group["label"]),),
                    seed=1000 * number + n,
                )
            )
    renderer = make_renderer(Context(size=described["size"]))
    try:
        for row, rendered in zip(rows, renderer.render_all(scenes), strict=True):
            if isinstance(rendered, VerismError):
                raise rendered
            write_whole(folder / row[0], encode_png(rendered.pixels), sync=False)
    finally:
        getattr(renderer, "close", lambda: None)()
    write_csv(folder / "real.csv", described["columns"], rows)
