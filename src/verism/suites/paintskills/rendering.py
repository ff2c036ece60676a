"""Rendering a data set: images, exact boxes and scene files in the published layout, resumable."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verism.errors import UsageError, VerismError
from verism.files import write_json, write_whole
from verism.imaging import encode_png
from verism.locations import check_on_disk
from verism.progress import Progress
from verism.records import Rendered, Renderer, Scene
from verism.suites.paintskills.layout import (
    image_path,
    mask_path,
    read_scenes,
    scenes_path,
    write_boxes,
    write_metadata,
    write_scenes,
)
from verism.suites.paintskills.scenes import facets_of
from verism.suites.paintskills.vocabulary import Version

__all__ = ["render_scenes", "scenes_summary"]


def render_scenes(
    root: Path,
    version: Version,
    scenes: Sequence[Scene],
    renderer: Renderer,
    size: int,
    *,
    seed: int | None = None,
    masks: bool = False,
    on_failure: Callable[[str], None] | None = None,
) -> int:
    """Render scenes into a folder; images that are there already are kept. Returns how many could not be rendered.

    Boxes of finished images are kept in ``{skill}/.boxes-{split}.jsonl`` until the box file is written, so that a
    killed rendering goes on where it stopped.

    Args:
        root: the folder to write to.
        version: of the data set.
        scenes: the scenes to render.
        renderer: what makes the images.
        size: width and height of the renderer's images in pixels.
        seed: what the scenes were made with, if known: other seeds choose other scenes.
        masks: also write each image's instance mask, ``{skill}/masks/mask_{id}.png``: 0 background, i + 1 object i.
        on_failure: told of every scene that could not be rendered.

    Raises:
        UsageError: the folder holds images rendered with another seed, size or version.
    """
    check_on_disk(root, "scenes are rendered into a folder of this machine; name one, and copy it from there")
    _check_same(root, version, scenes, renderer, seed)
    write_metadata(root, version)
    failures = 0
    ordered = sorted(scenes, key=lambda s: (s.skill, s.split))
    with Progress("rendered", len(scenes)) as progress:
        for (skill, split), group in groupby(ordered, key=lambda s: (s.skill, s.split)):
            members = sorted(group, key=lambda s: s.scene_id)
            write_scenes(root, members)
            boxes = _finished(root, skill, split)
            todo = [s for s in members if s.scene_id not in boxes or not _there(root, skill, s.scene_id, masks)]
            progress.advance(len(members) - len(todo))
            journal = _journal(root, skill, split)
            for position in (image_path, mask_path) if masks else (image_path,):
                position(root, skill, "x").parent.mkdir(parents=True, exist_ok=True)
            stored: list[Future[None]] = []
            with journal.open("a", encoding="utf-8") as log, ThreadPoolExecutor(1) as writer:
                for scene, rendered in zip(todo, renderer.render_all(todo), strict=True):
                    progress.advance()
                    if isinstance(rendered, VerismError):
                        failures += 1
                        if on_failure is not None:
                            on_failure(str(rendered))
                        continue
                    boxes[scene.scene_id] = rendered.boxes
                    stored.append(writer.submit(_store, root, skill, scene.scene_id, rendered, masks, log))
                for future in stored:
                    future.result()  # a full disk is an error, and not an image less
            drawn = [s for s in members if s.scene_id in boxes]
            if len(drawn) < len(members):
                write_scenes(root, drawn)
            write_boxes(root, version, skill, split, drawn, boxes, size)
            journal.unlink()
    return failures


def _there(root: Path, skill: str, scene_id: str, masks: bool) -> bool:
    return image_path(root, skill, scene_id).exists() and (not masks or mask_path(root, skill, scene_id).exists())


def _store(root: Path, skill: str, scene_id: str, rendered: Rendered, masks: bool, log: Any) -> None:
    files = {image_path(root, skill, scene_id): rendered.pixels}
    if masks:
        files[mask_path(root, skill, scene_id)] = rendered.mask
    for path, pixels in files.items():
        write_whole(path, encode_png(pixels), sync=False)
    log.write(json.dumps({"id": scene_id, "boxes": rendered.boxes.tolist()}) + "\n")
    log.flush()


def _journal(root: Path, skill: str, split: str) -> Path:
    return root / skill / f".boxes-{split}.jsonl"


def _finished(root: Path, skill: str, split: str) -> dict[str, NDArray[np.float32]]:
    """Boxes of the images that are done: of a killed rendering, or of a finished one that is extended."""
    from verism.suites.paintskills.layout import boxes_path, read_boxes

    done: dict[str, NDArray[np.float32]] = {}
    if boxes_path(root, skill, split).exists():
        done |= read_boxes(root, skill, split)
    if _journal(root, skill, split).exists():
        for line in _journal(root, skill, split).read_text(encoding="utf-8").split("\n"):
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:
                continue  # the line that was being written when the rendering was killed
            done[entry["id"]] = np.array(entry["boxes"], dtype=np.float32).reshape(-1, 4)
    return done


def _check_same(root: Path, version: Version, scenes: Sequence[Scene], renderer: Renderer, seed: int | None) -> None:
    """One folder, one kind of image; and a scene of the same id must be the same scene."""
    now = {"version": version.name, "painter": renderer.name} | ({} if seed is None else {"seed": seed})
    path = root / ".rendering.json"
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        for name in sorted(set(now) & set(before)):
            if before[name] != now[name]:
                raise UsageError(
                    f"{root} was rendered with {name} {before[name]!r}, now {now[name]!r}; use another --out"
                )
        now = before | now
    there: dict[str, int] = {}
    for skill, split in sorted({(s.skill, s.split) for s in scenes}):
        if scenes_path(root, skill, split).exists():
            there |= {s.scene_id: s.seed for s in read_scenes(root, version, split, [skill])}
    for scene in scenes:
        if there.get(scene.scene_id, scene.seed) != scene.seed:
            raise UsageError(
                f"{root} holds another scene {scene.scene_id!r}: made with another seed; use another --out"
            )
    write_json(path, now)


def scenes_summary(scenes: Sequence[Scene]) -> str:
    """How evenly a set covers its factors, in lines for a person."""
    lines = []
    for skill, group in groupby(sorted(scenes, key=lambda s: s.skill), key=lambda s: s.skill):
        members = list(group)
        facets = [facets_of(s) for s in members]
        lines.append(f"{skill}: {len(members):,} scenes")
        for name in [n for n in facets[0] if n != "skill"]:
            counts: dict[Any, int] = {}
            for f in facets:
                counts[f[name]] = counts.get(f[name], 0) + 1
            low, high = min(counts.values()), max(counts.values())
            each = f"{low:,} each" if low == high else f"{low:,} to {high:,} each"
            lines.append(f"  {name:<12} {len(counts):>3} values, {each}")
    return "\n".join(lines)
