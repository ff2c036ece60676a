"""Contact sheets: every class in several views, states and paints, and every environment, to be looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from verism.errors import UsageError
from verism.records import Scene, SceneObject
from verism.simulator.catalogue import Catalogue
from verism.simulator.scene_renderer import PAINTS, SceneRenderer

__all__ = ["draw_sheets"]

LABEL_PX = 16
VIEWS = 8
PLACE_FOR_VIEWS = "photo_studio"


def draw_sheets(
    catalogue: Catalogue, out: Path, *, only: Sequence[str] = (), tile: int = 128, seed: int = 0
) -> list[Path]:
    """Draw the sheet of classes to ``out`` and, unless ``only`` names classes, that of environments beside it.

    Each class has a row: natural makes through all its states, then one tile per paint.

    Args:
        catalogue: catalogue of classes and environments to draw.
        out: image file to write, PNG, JPEG or WebP.
        only: names of the classes to draw; empty for all.
        tile: width and height of one rendered image, pixels.
        seed: seed of all random draws.

    Raises:
        UsageError: a class in ``only`` does not exist, or ``out`` is no name of an image.
    """
    if out.suffix.lower() not in (".png", ".jpg", ".jpeg", ".webp"):
        raise UsageError(f"{out}: name an image file, for example {out.with_suffix('.png').name}")
    renderer = SceneRenderer(tile, catalogue, min_visible=0.0)
    labels = list(only) or list(catalogue.assets)
    rows = [(label, _class_tiles(renderer, label, seed)) for label in labels]
    paths = [out]
    out.parent.mkdir(parents=True, exist_ok=True)
    _save(rows, out, tile)
    if not only:
        place_rows = [(name, _place_tiles(renderer, name, seed)) for name in catalogue.environments]
        paths.append(out.with_name(f"{out.stem}-environments{out.suffix}"))
        _save(place_rows, paths[1], tile)
    return paths


def _class_tiles(renderer: SceneRenderer, label: str, seed: int) -> list[tuple[str, np.ndarray]]:
    asset = renderer.catalogue.asset(label)
    position = PLACE_FOR_VIEWS if PLACE_FOR_VIEWS in renderer.catalogue.environments else "empty"
    plain = SceneObject(shape=label, label=label, scale=1.3)
    tiles = []
    for k in range(VIEWS):
        state = asset.states[k % len(asset.states)]
        tiles.append((state, _paint(renderer, replace(plain, state=state), position, seed * 1000 + k)))
    for k, color in enumerate(PAINTS):
        obj = replace(plain, color=color, texture="pure")
        try:
            tiles.append((color, _paint(renderer, obj, "empty", seed * 1000 + 100 + k)))
        except ValueError as err:
            raise UsageError(f"class {label!r} cannot be rendered: {err}") from err
    return tiles


def _place_tiles(renderer: SceneRenderer, name: str, seed: int) -> list[tuple[str, np.ndarray]]:
    labels = [label for label in ("suitcase", "chair", "dog") if label in renderer.catalogue.assets]
    tiles = []
    for k in range(VIEWS):
        objects = [SceneObject(shape=label, label=label) for label in labels][: k % (len(labels) + 1)]
        tiles.append((f"seed {seed * 1000 + k}", _paint(renderer, objects, name, seed * 1000 + k)))
    return tiles


def _paint(renderer: SceneRenderer, objects: SceneObject | list[SceneObject], place: str, seed: int) -> np.ndarray:
    shown = tuple(objects) if isinstance(objects, list) else (objects,)
    scene = Scene(scene_id="sheet", skill="object", split="train", text="", background=place, objects=shown, seed=seed)
    return renderer.render(scene).pixels


def _save(rows: Sequence[tuple[str, list[tuple[str, np.ndarray]]]], out: Path, tile: int) -> None:
    columns = max(len(tiles) for _, tiles in rows)
    margin = max(110, tile)
    sheet = Image.new("RGB", (margin + columns * tile, len(rows) * (tile + LABEL_PX)), "white")
    draw = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(11)
    for y, (name, tiles) in enumerate(rows):
        top = y * (tile + LABEL_PX)
        draw.text((4, top + tile // 2 - 6), name, fill="black", font=font)
        for x, (caption, pixels) in enumerate(tiles):
            sheet.paste(Image.fromarray(pixels), (margin + x * tile, top))
            draw.text((margin + x * tile + 3, top + tile + 1), caption, fill="#555555", font=font)
    sheet.save(out)
