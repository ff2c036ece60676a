"""Rendered scenes as arrays: images in a memory-mapped cache, boxes, classes and colours beside them.

Reads the published PaintSkills layout (Cho et al. 2023, arXiv:2202.04053, released data):
``{root}/{skill}/{skill}_{split}_bounding_boxes.json`` (COCO-like) and ``{root}/{skill}/images/image_{id}.png``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from verism.errors import UsageError
from verism.files import whole_file
from verism.imaging import open_image
from verism.prefetch import prefetch
from verism.training.settings import PAINTSKILLS_CLASSES, PAINTSKILLS_COLORS

__all__ = [
    "ImageStore",
    "IncompleteScenesError",
    "SceneArrays",
    "StackedImages",
    "Target",
    "extent",
    "held_out_of",
    "load_scene_arrays",
    "split_held_out",
]

# Folders of the images: as the first data set has them, then as the second was published.
_IMAGE_FOLDERS = ("images", "{split}_images")

_SHAPE_LABELS = {"bike": "bicycle"}  # shapes whose label is another word; humans are told by their name's start


class IncompleteScenesError(UsageError):
    """Boxes are written but images are missing: rendering is under way, or files were lost."""


class ImageStore(Protocol):
    """Images by number: an array or memory map (N, H, W, 3) uint8, or several of them behind one another."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> np.ndarray: ...


class BlankImages:
    """Images of nothing but zeros: masks of images that have none.

    Args:
        count: images.
        size: side in pixels.
    """

    def __init__(self, count: int, size: int) -> None:
        self.count = count
        self._image = np.zeros((size, size), dtype=np.uint8)
        self._image.flags.writeable = False

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int, /) -> np.ndarray:
        return self._image


class StackedImages:
    """Some images of several stores, in any order, without copying them.

    Args:
        parts: the stores.
        rows: (part, index in the part) of each image, shape (N, 2); all of them in order if not given.
    """

    def __init__(self, parts: Sequence[ImageStore], rows: np.ndarray | None = None) -> None:
        self.parts = list(parts)
        if rows is None:
            each = [np.column_stack([np.full(len(p), i), np.arange(len(p))]) for i, p in enumerate(self.parts)]
            rows = np.concatenate([np.zeros((0, 2)), *each]).astype(np.int64)
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int, /) -> np.ndarray:
        part, row = self.rows[index]
        return np.asarray(self.parts[part][int(row)])


@dataclass(frozen=True, kw_only=True, eq=False)
class Target:
    """What one image holds: n objects, possibly none.

    Attributes:
        boxes: (x0, y0, x1, y1) in pixels, right and lower edges exclusive, shape (n, 4), float32.
        labels: number in the class list, shape (n,), int64.
        colors: number in the colour list, -1 where unknown or none of them, shape (n,), int64.
    """

    boxes: np.ndarray
    labels: np.ndarray
    colors: np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False)
class SceneArrays:
    """Images with what they hold, in one order.

    Attributes:
        images: N images of one size, RGB uint8.
        targets: per image.
        names: per image, its file's name; decides which images are held out.
        skills: per image.
        splits: per image, ``train`` or ``val``.
        masks: per image, which object each pixel belongs to: 0 none, k + 1 object k, shape (H, W), uint8; all zeros
            where that is not known, None where it is known of no image.
    """

    images: ImageStore
    targets: Sequence[Target]
    names: Sequence[str]
    skills: Sequence[str]
    splits: Sequence[str]
    masks: ImageStore | None = None

    def __post_init__(self) -> None:
        lengths = {len(self.images), len(self.targets), len(self.names), len(self.skills), len(self.splits)}
        if len(lengths | ({len(self.masks)} if self.masks is not None else set())) > 1:
            raise ValueError(f"images, targets, names, skills and splits must be equally many, not {sorted(lengths)}")

    def __len__(self) -> int:
        return len(self.targets)

    def subset(self, indices: Iterable[int]) -> SceneArrays:
        """These images, in this order; pixels are not copied."""
        chosen = [int(i) for i in indices]
        return SceneArrays(
            images=_some(self.images, chosen),
            masks=None if self.masks is None else _some(self.masks, chosen),
            targets=[self.targets[i] for i in chosen],
            names=[self.names[i] for i in chosen],
            skills=[self.skills[i] for i in chosen],
            splits=[self.splits[i] for i in chosen],
        )

    @cached_property
    def cut_outs(self) -> dict[int, list[tuple[int, int]]]:
        """By class, the objects whose outline is known: (image, number of the object there)."""
        found: dict[int, list[tuple[int, int]]] = {}
        if self.masks is None:
            return found
        store = self.masks if isinstance(self.masks, StackedImages) else StackedImages([self.masks])
        for i, (part, target) in enumerate(zip(store.rows[:, 0], self.targets, strict=True)):
            if not isinstance(store.parts[part], BlankImages):
                for k, label in enumerate(target.labels.tolist()):
                    found.setdefault(label, []).append((i, k))
        return found

    def of_split(self, split: str) -> SceneArrays:
        """The images of one split."""
        return self.subset(i for i, s in enumerate(self.splits) if s == split)


def extent(mask: np.ndarray) -> tuple[float, float, float, float]:
    """Box (x0, y0, x1, y1) of what is true in a mask (H, W), right and lower edges exclusive; something must be."""
    ys, xs = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return float(xs[0]), float(ys[0]), float(xs[-1] + 1), float(ys[-1] + 1)


def _some(images: ImageStore, chosen: Sequence[int]) -> StackedImages:
    store = images if isinstance(images, StackedImages) else StackedImages([images])
    return StackedImages(store.parts, store.rows[chosen].reshape(-1, 2))


def held_out_of(name: str, share: float) -> bool:
    """Whether the image of a name is held out, by its name alone.

    Args:
        name: of the image.
        share: share of the images to hold out, in [0, 1).
    """
    return zlib.crc32(name.encode()) % 10_000 < share * 10_000


def split_held_out(arrays: SceneArrays, share: float) -> tuple[SceneArrays, SceneArrays]:
    """Images to learn from, and images held out.

    An image's name decides, so the choice stays the same when more images come in.

    Args:
        arrays: images with their boxes.
        share: share of the images to hold out, in [0, 1).
    """
    if not 0 <= share < 1:
        raise ValueError(f"share must lie in [0, 1), not {share}")
    out = [held_out_of(name, share) for name in arrays.names]
    return arrays.subset(i for i, o in enumerate(out) if not o), arrays.subset(i for i, o in enumerate(out) if o)


# --------------------------------------------------------------------------------------------------------------------
# Reading
# --------------------------------------------------------------------------------------------------------------------
def load_scene_arrays(
    directories: Sequence[Path],
    cache: Path,
    *,
    classes: Sequence[str] = PAINTSKILLS_CLASSES,
    colors: Sequence[str] = PAINTSKILLS_COLORS,
    splits: Sequence[str] = ("train", "val"),
    size: int = 256,
    skip_incomplete: bool = False,
    log: Callable[[str], None] | None = None,
) -> SceneArrays:
    """All images of some data set folders; decoded on the first call, memory-mapped afterwards.

    Args:
        directories: roots in the published layout; each may hold any of the skills.
        cache: folder for the decoded images, made if missing: one file per box file, named after its content.
        classes: names of the classes; a label is the position in this list.
        colors: names of the colours; a colour number is the position in this list.
        splits: which splits to read.
        size: side in pixels; other images are resized, boxes with them.
        skip_incomplete: leave out box files (and folders) that are not complete yet, instead of raising.
        log: receives a line for what is decoded or skipped.
    Raises:
        UsageError: no box file in a folder, or a class outside ``classes``.
        IncompleteScenesError: an image is missing.
    """
    tell = log or (lambda _: None)
    parts: list[ImageStore] = []
    masks: list[ImageStore] = []
    targets: list[Target] = []
    names: list[str] = []
    skills: list[str] = []
    in_splits: list[str] = []
    for directory in directories:
        found = _box_files(Path(directory))
        if not found:
            missing = f"{directory} holds no SKILL/SKILL_SPLIT_bounding_boxes.json"
            if not skip_incomplete:
                raise UsageError(
                    f"{missing}; give a folder written by `verism scenes render`, or the root of the published "
                    "PaintSkills data"
                )
            tell(f"skipped for now: {missing}")
        for file, skill, split in found:
            if split not in splits:
                continue
            try:
                images = _read_boxes(file, split, classes=classes, colors=colors)
                pixels = _decoded(file, [p.path for p in images], cache, size, tell)
                outlines = _decoded_masks(file, [p.path for p in images], cache, size, tell)
            except (IncompleteScenesError, json.JSONDecodeError) as err:
                if not skip_incomplete:
                    raise
                tell(f"skipped for now: {err}")
                continue
            parts.append(pixels)
            masks.append(outlines)
            for image in images:
                scale = np.array([size / image.width, size / image.height] * 2, dtype=np.float32)
                targets.append(Target(boxes=image.boxes * scale, labels=image.labels, colors=image.colors))
                names.append(image.path.name)
                skills.append(skill)
                in_splits.append(split)
    known = any(not isinstance(part, BlankImages) for part in masks)
    return SceneArrays(
        images=StackedImages(parts), targets=targets, names=names, skills=skills, splits=in_splits,
        masks=StackedImages(masks) if known else None,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class _Image:
    path: Path
    width: int
    height: int
    boxes: np.ndarray
    labels: np.ndarray
    colors: np.ndarray


def _box_files(root: Path) -> list[tuple[Path, str, str]]:
    """(file, skill, split) of every box file under a root, or under a single skill's folder."""
    found = []
    for file in sorted([*root.glob("*/*_bounding_boxes.json"), *root.glob("*_bounding_boxes.json")]):
        match = re.fullmatch(r"(.+)_(train|val)_bounding_boxes\.json", file.name)
        if match:
            found.append((file, match[1], match[2]))
    return found


def _read_boxes(file: Path, split: str, *, classes: Sequence[str], colors: Sequence[str]) -> list[_Image]:
    data = json.loads(file.read_text(encoding="utf-8"))
    categories = {c["id"]: c["name"] for c in data.get("categories", ())}
    objects: dict[int, list[Mapping[str, Any]]] = {}
    for annotation in data["annotations"]:
        objects.setdefault(annotation["image_id"], []).append(annotation)
    folders = [file.parent / name.format(split=split) for name in _IMAGE_FOLDERS]
    folder = next((f for f in folders if f.is_dir()), folders[0])
    class_of = {name: i for i, name in enumerate(classes)}
    color_of = {name: i for i, name in enumerate(colors)}
    images = []
    for image in data["images"]:
        labels, boxes, tints = [], [], []
        for annotation in objects.get(image["id"], ()):
            label = annotation.get("label") or _label(
                str(annotation.get("shape") or categories.get(annotation["category_id"]))
            )
            if label not in class_of:
                raise UsageError(f"{file}: the class {label!r} is none of {', '.join(classes)}")
            x, y, width, height = annotation["bbox"]
            labels.append(class_of[label])
            boxes.append((x, y, x + width, y + height))
            tints.append(color_of.get(str(annotation.get("color")), -1))
        images.append(
            _Image(
                path=folder / Path(image["file_name"]).name,
                width=image["width"],
                height=image["height"],
                boxes=np.array(boxes, dtype=np.float32).reshape(-1, 4),
                labels=np.array(labels, dtype=np.int64),
                colors=np.array(tints, dtype=np.int64),
            )
        )
    return images


def _label(shape: str) -> str:
    """Suite label of a published shape: ``fireHydrant`` -> ``fire hydrant``, ``humanSophie`` -> ``person``."""
    if "human" in shape.lower():
        return "person"
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", shape).lower()
    return _SHAPE_LABELS.get(words, words)


def _decoded(file: Path, paths: Sequence[Path], cache: Path, size: int, tell: Callable[[str], None]) -> np.ndarray:
    """The images as a read-only memory map (N, size, size, 3), made whole or not at all."""
    from PIL import Image

    def read(path: Path) -> np.ndarray:
        with open_image(path) as image:
            loaded = image.convert("RGB")
            if loaded.size != (size, size):
                loaded = loaded.resize((size, size), Image.Resampling.BILINEAR)
            return np.asarray(loaded)

    return _mapped(file, paths, cache, (size, size, 3), "images", read, tell)


def _decoded_masks(
    file: Path, paths: Sequence[Path], cache: Path, size: int, tell: Callable[[str], None]
) -> ImageStore:
    """The masks of these images as a read-only memory map (N, size, size); zeros where there are no masks."""
    from PIL import Image

    files = [path.parent.parent / "masks" / path.name.replace("image_", "mask_", 1) for path in paths]
    if not files or not files[0].is_file():
        return BlankImages(len(paths), size)

    def read(path: Path) -> np.ndarray:
        with open_image(path) as image:
            loaded = image if image.size == (size, size) else image.resize((size, size), Image.Resampling.NEAREST)
            return np.asarray(loaded)

    return _mapped(file, files, cache, (size, size), "masks", read, tell)


def _mapped(
    file: Path, paths: Sequence[Path], cache: Path, shape: tuple[int, ...], what: str,
    read: Callable[[Path], np.ndarray], tell: Callable[[str], None],
) -> np.ndarray:  # fmt: skip
    """Files as one read-only memory map (N, *shape), made whole or not at all."""
    if not paths:
        return np.zeros((0, *shape), dtype=np.uint8)
    missing = [p for p in paths if not p.is_file()]
    if missing:
        raise IncompleteScenesError(
            f"{file} lists {len(paths)} {what}, but {len(missing)} are missing, {missing[0].name} first; render them "
            "again, or wait until rendering is done"
        )
    # The files' dates stand for their content: images rendered anew under the same names are decoded anew.
    digest = hashlib.sha256(file.read_bytes())
    digest.update(f"{file.resolve()} {shape[0]} {[p.stat().st_mtime_ns for p in paths]}".encode())
    target = cache / f"{file.stem}-{digest.hexdigest()[:16]}{'' if what == 'images' else '-' + what}.npy"
    if not target.is_file():
        tell(f"decoding {len(paths)} {what} of {file}")
        with whole_file(target, sync=False) as partial:
            decoded = np.lib.format.open_memmap(partial, mode="w+", dtype=np.uint8, shape=(len(paths), *shape))
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                for i, pixels in enumerate(prefetch((pool.submit(read, path) for path in paths), ahead=64)):
                    decoded[i] = pixels.result()
            decoded.flush()
    mapped: np.ndarray = np.load(target, mmap_mode="r")
    return mapped
