"""Rendered scenes taken apart into layers: the scenery, and an image of each object cut out along its mask.

This is what the built-in generator learns from. Reads folders written by ``verism scenes render --masks``.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from verism.errors import UsageError
from verism.imaging import open_image
from verism.records import Scene
from verism.suites.paintskills.layout import image_path, mask_path, read_scenes
from verism.suites.paintskills.vocabulary import version

__all__ = ["CROP", "MARGIN", "OTHER", "OWN", "SCENERY", "SIDE_TABLES", "Figure", "Layers", "load_layers"]

CROP = 96  # pixels of a cut-out object
SCENERY = 128  # pixels of a scenery
MARGIN = 1.3  # side of the cut-out square by the longer side of the object's box: room for a shadow

SIDE_TABLES, OWN, OTHER = 0, 1, 2  # in `Layers.parts`: not the object, the object, another object or outside the image


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One object of an image; lengths are shares of the image's side.

    Attributes:
        image: index of its image.
        label: suite label.
        x: centre of its box, from the left.
        y: centre of its box, from the top.
        side: longer side of its box.
    """

    image: int
    label: str
    x: float
    y: float
    side: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Layers:
    """N images with M objects.

    Attributes:
        scenes: per image.
        figures: per object, those of an image in the order of its scene.
        of_image: per image, the indices of its figures.
        scenery: RGB, shape (N, 128, 128, 3), uint8.
        hidden: where objects (and a little around them) hide the scenery, shape (N, 128, 128), bool.
        crops: RGB of a square around each object, shape (M, 96, 96, 3), uint8.
        parts: of the crop: 1 the object, 2 other objects or outside the image, 0 the rest, shape (M, 96, 96), uint8.
    """

    scenes: Sequence[Scene]
    figures: Sequence[Figure]
    of_image: Sequence[tuple[int, ...]]
    scenery: np.ndarray
    hidden: np.ndarray
    crops: np.ndarray
    parts: np.ndarray

    def __len__(self) -> int:
        return len(self.scenes)

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(sorted({f.label for f in self.figures}))

    @property
    def backgrounds(self) -> tuple[str, ...]:
        return tuple(sorted({s.background for s in self.scenes}))


def load_layers(
    directories: Sequence[Path],
    cache: Path,
    *,
    suite: str = "paintskills",
    choose: Callable[[Sequence[Scene]], Sequence[Scene]] | None = None,
    log: Callable[[str], None] | None = None,
) -> Layers:
    """The train scenes of some folders as layers; cut on the first call, memory-mapped afterwards.

    Args:
        directories: roots written by ``verism scenes render --split train --masks``.
        cache: folder for the cut-out images, made if missing.
        suite: ``paintskills`` or ``paintskills-v1``, whose names the scenes use.
        choose: which scenes of a folder to take; all of them if not given.
        log: receives what is being cut.

    Raises:
        UsageError: no train scenes, or an image or mask is missing.
    """
    tell = log or (lambda _: None)
    scenes: list[Scene] = []
    figures: list[Figure] = []
    of_image: list[tuple[int, ...]] = []
    arrays: list[dict[str, np.ndarray]] = []
    for directory in directories:
        own = read_scenes(directory, version(suite), "train")
        cut = _cut_all(directory, own, cache, tell)
        wanted = {s.scene_id for s in (own if choose is None else choose(own))}
        keep = np.array([s.scene_id in wanted for s in own])
        owners = np.repeat(np.arange(len(own)), [len(s.objects) for s in own])
        kept_figures = keep[owners]
        boxes = cut["boxes"][kept_figures]
        objects = [o for s, k in zip(own, keep, strict=True) if k for o in s.objects]
        taken = 0
        for scene, k in zip(own, keep, strict=True):
            if not k:
                continue
            numbers = []
            for _ in scene.objects:
                x, y, side = boxes[taken].tolist()
                numbers.append(len(figures))
                figures.append(Figure(image=len(scenes), label=objects[taken].label, x=x, y=y, side=side))
                taken += 1
            of_image.append(tuple(numbers))
            scenes.append(scene)
        arrays.append(
            {k: v if v.shape[0] == keep.sum() and keep.all() else v[keep] for k, v in cut.items() if k in _PER_IMAGE}
            | {k: v if keep.all() else v[kept_figures] for k, v in cut.items() if k in ("crops", "parts")}
        )
    if not scenes:
        raise UsageError(f"no train scenes in {', '.join(map(str, directories))}")
    joined = {
        k: arrays[0][k] if len(arrays) == 1 else np.concatenate([a[k] for a in arrays])
        for k in (*_PER_IMAGE, "crops", "parts")
    }
    return Layers(scenes=scenes, figures=figures, of_image=of_image, **joined)


_PER_IMAGE = ("scenery", "hidden")


def _cut_all(root: Path, scenes: Sequence[Scene], cache: Path, tell: Callable[[str], None]) -> dict[str, np.ndarray]:
    """All layers of a folder's scenes, from the cache if they were cut before."""
    images = [image_path(root, s.skill, s.scene_id) for s in scenes]
    masks = [mask_path(root, s.skill, s.scene_id) for s in scenes]
    if missing := [p for p in (*images, *masks) if not p.is_file()]:
        raise UsageError(
            f"{root}: {len(missing):,} of {2 * len(scenes):,} images and masks are missing, {missing[0]} first; "
            "render them with: verism scenes render paintskills --split train --masks --out ..."
        )
    digest = hashlib.sha256(f"boxes {root.resolve()} {CROP} {SCENERY} {MARGIN}".encode())
    for path in images:
        digest.update(f"{path.name} {path.stat().st_mtime_ns}".encode())
    folder = cache / f"layers-{digest.hexdigest()[:16]}"
    names = (*_PER_IMAGE, "crops", "parts", "boxes")
    if not (folder / "done").exists():
        tell(f"cutting {len(scenes):,} images of {root} into layers")
        folder.mkdir(parents=True, exist_ok=True)
        count = sum(len(s.objects) for s in scenes)
        shapes: dict[str, tuple[tuple[int, ...], type]] = {
            "scenery": ((len(scenes), SCENERY, SCENERY, 3), np.uint8),
            "hidden": ((len(scenes), SCENERY, SCENERY), np.bool_),
            "crops": ((count, CROP, CROP, 3), np.uint8),
            "parts": ((count, CROP, CROP), np.uint8),
            "boxes": ((count, 3), np.float32),
        }
        out = {
            name: np.lib.format.open_memmap(folder / f"{name}.npy", mode="w+", dtype=kind, shape=shape)
            for name, (shape, kind) in shapes.items()
        }
        done = 0
        for number, scene in enumerate(scenes):
            if number and number % 1000 == 0:
                tell(f"  {number:,} of {len(scenes):,}")
            layers = _cut(images[number], masks[number], len(scene.objects))
            for name in _PER_IMAGE:
                out[name][number] = layers[name]
            for name in ("crops", "parts", "boxes"):
                out[name][done : done + len(scene.objects)] = layers[name]
            done += len(scene.objects)
        for array in out.values():
            array.flush()
        (folder / f".done.{os.getpid()}").touch()
        (folder / f".done.{os.getpid()}").replace(folder / "done")
    return {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in names}


def _cut(image: Path, mask: Path, count: int) -> dict[str, np.ndarray]:
    """The layers of one image: arrays as in ``Layers``, and ``boxes``: x, y, side of each object, (count, 3)."""
    from PIL import Image, ImageFilter

    with open_image(image) as opened:
        rgb = opened.convert("RGB")
    with open_image(mask) as opened:
        ids = np.asarray(opened)
    height, width = ids.shape
    if (width, height) != rgb.size or width != height:
        raise UsageError(f"{image} and {mask} must be squares of one size, not {rgb.size} and {(width, height)}")
    hidden = Image.fromarray((ids > 0).astype(np.uint8) * 255).filter(ImageFilter.MaxFilter(5))
    small = hidden.resize((SCENERY, SCENERY), Image.Resampling.BILINEAR)
    layers = {
        "scenery": np.asarray(rgb.resize((SCENERY, SCENERY), Image.Resampling.BILINEAR)),
        "hidden": np.asarray(small) > 0,
    }
    crops = np.zeros((count, CROP, CROP, 3), dtype=np.uint8)
    parts = np.zeros((count, CROP, CROP), dtype=np.uint8)
    boxes = np.zeros((count, 3), dtype=np.float32)
    for k in range(count):
        ys, xs = np.nonzero(ids == k + 1)
        if len(xs) == 0:
            raise UsageError(f"{mask}: object {k} has no pixel")
        x0, x1, y0, y1 = xs.min(), xs.max() + 1, ys.min(), ys.max() + 1
        side = float(max(x1 - x0, y1 - y0))
        cx, cy, half = (x0 + x1) / 2, (y0 + y1) / 2, side * MARGIN / 2
        box = (cx - half, cy - half, cx + half, cy + half)
        transform = ((box[2] - box[0]) / CROP, 0.0, box[0], 0.0, (box[3] - box[1]) / CROP, box[1])
        crops[k] = np.asarray(_square(rgb, transform, half * 2))
        own = np.asarray(_square(Image.fromarray(np.where(ids == k + 1, 255, 0).astype(np.uint8)), transform, half * 2))
        inside = Image.fromarray(np.where((ids > 0) & (ids != k + 1), 0, 255).astype(np.uint8))
        free = np.asarray(_square(inside, transform, half * 2))  # beyond the frame the transform fills with 0
        parts[k] = np.where(own >= 128, OWN, np.where(free < 128, OTHER, SIDE_TABLES))
        boxes[k] = cx / width, cy / height, side / width
    return layers | {"crops": crops, "parts": parts, "boxes": boxes}


def _square(image: object, transform: tuple[float, ...], side: float) -> object:
    """A square of an image in ``CROP`` pixels; shrunk first where pixels would be skipped."""
    from PIL import Image

    assert isinstance(image, Image.Image)
    factor = int(side // CROP)
    if factor > 1:
        image = image.reduce(factor)
        transform = tuple(t / factor for t in transform)
    return image.transform((CROP, CROP), Image.Transform.AFFINE, transform, resample=Image.Resampling.BILINEAR)
