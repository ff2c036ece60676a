"""Images of train prompts by the built-in generator, with boxes and masks: the detector's examples of its soft images.

The generator describes an image before it draws it, so which object is where is known, whether or not the prompt asked
for it. Its colours are not: they are measured, and a colour that was asked for counts only where enough of the object
has it. Where every known colour was one asked for, a detector would learn that a bird asked for in white is white.

Objects of its images overlap more often than rendered ones, and where two of one class do, a detector that saw few such
pairs gives them one box. In most images of several objects these are therefore moved together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from verism.files import write_whole
from verism.generators.builtin import BuiltinGenerator
from verism.generators.layered import Description, Placed
from verism.imaging import encode_png
from verism.records import Scene, SceneObject
from verism.suites.catalogue import make_suite
from verism.suites.paintskills.layout import (
    boxes_path,
    image_path,
    mask_path,
    write_boxes,
    write_metadata,
    write_scenes,
)
from verism.suites.paintskills.suite import PaintSkills
from verism.training.scene_arrays import extent
from verism.training.settings import TRAIN_SUITE

__all__ = ["COLOR_SHARE", "crowded", "generate_train_scenes", "shown_color"]

_LEAST_VISIBLE = 0.4  # of each object; images in which one is hidden more are left out
_LEAST_PIXELS = 60  # of each object in 256 x 256 pixels
_CROWDED = 0.75  # share of the images of several objects in which these are moved together
_ATTEMPTS = 4  # at moving them so that enough of each is visible

COLOR_SHARE = 0.3
"""Share of an object's pixels that must have a colour for it to be called that."""

_HUES: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "red": (-25.0, 18.0),
        "yellow": (38.0, 72.0),
        "green": (85.0, 170.0),
        "blue": (185.0, 252.0),
        "purple": (256.0, 325.0),
    }
)
"""Hues in degrees; rendered objects of these colours have 0, 52, 124, 238 and 291 degrees in the median. What lies
between has no name of these: orange, lime, turquoise, magenta."""

_CLEAR_SHARE = 0.5  # of an object's pixels that must have a colour which was not asked for


def shown_color(pixels: np.ndarray, asked: str | None = None) -> str | None:
    """The colour that an object shows, by the hues of its pixels; None where it has none of the suite's, or several.

    A colour that was asked for is shown if ``COLOR_SHARE`` of the pixels have it, and more than any other. Any other
    must be clear: half of the pixels have it, in full strength (no brown, pink or grey), and at most half as
    many any other hue.

    Args:
        pixels: RGB of the object's pixels, shape (N, 3), 0 to 255.
        asked: the colour of the prompt; None: it names none.
    """
    rgb = np.asarray(pixels, dtype=np.float64) / 255
    highest, lowest = rgb.max(axis=1), rgb.min(axis=1)
    spread = highest - lowest
    saturation = spread / np.maximum(highest, 1e-6)
    red, green, blue = rgb.T
    safe = np.maximum(spread, 1e-6)
    hue = 60 * np.select(
        [highest == red, highest == green], [(green - blue) / safe, (blue - red) / safe + 2], (red - green) / safe + 4
    )

    def shares(vivid: np.ndarray, white: np.ndarray) -> dict[str, float]:
        return {
            name: float((vivid & ((hue - low) % 360 < high - low)).mean()) for name, (low, high) in _HUES.items()
        } | {"white": float(white.mean())}

    weak = shares((saturation > 0.3) & (highest > 0.2), (saturation < 0.18) & (highest > 0.45))
    if asked is not None and weak[asked] >= max(COLOR_SHARE, *weak.values()):
        return asked
    vivid = (saturation > 0.4) & (spread > np.where(highest == red, 0.38, 0.18))  # faint red and yellow are brown
    strong = shares(vivid, (saturation < 0.15) & (highest > 0.6))
    best = max(strong, key=strong.__getitem__)
    between = float(vivid.mean()) - sum(share for name, share in strong.items() if name != "white")
    others = max(between, *(share for name, share in weak.items() if name != best))
    return best if strong[best] >= max(_CLEAR_SHARE, 2 * others) else None


def crowded(description: Description, rng: np.random.Generator) -> Description:
    """The same objects moved together: each but the first beside an earlier one, or over a part of it.

    Args:
        description: of an image.
        rng: draws the places.
    """
    placed: list[Placed] = []
    for obj in description.objects:
        if placed:
            other = placed[int(rng.integers(len(placed)))]
            angle, distance = rng.uniform(0, 2 * math.pi), rng.uniform(0.2, 0.9) * (obj.side + other.side) / 2
            x, y = other.x + distance * math.cos(angle), other.y + distance * math.sin(angle)
            half = obj.side / 2
            obj = replace(obj, x=float(np.clip(x, half, 1 - half)), y=float(np.clip(y, half, 1 - half)))
        placed.append(obj)
    return replace(description, objects=tuple(placed))


def generate_train_scenes(
    out: Path, *, count: int, seed: int, size: int = 256, generator: BuiltinGenerator | None = None,
    suite: str = TRAIN_SUITE, say: Callable[[str], None] = lambda _: None,
) -> Path:  # fmt: skip
    """Generate images of train prompts in the published layout, with masks; a skill that is there is kept.

    Args:
        out: the folder.
        count: prompts in all, spread evenly over the skills.
        seed: of the prompts and the images.
        size: width and height in pixels.
        generator: None: the built-in generator that knows the classes of the suite.
        suite: name of a version of PaintSkills.
        say: receives progress, a line at a time.

    Returns:
        ``out``.
    """
    made = make_suite(suite, skills=("object", "count", "spatial", "color"), split="train", limit=count, seed=seed)
    assert isinstance(made, PaintSkills)
    shape_of = {c.label: c.shape for c in made.version.classes}
    by_skill: dict[str, list[Scene]] = {}
    for scene in made.scenes:
        by_skill.setdefault(scene.skill, []).append(scene)
    model: BuiltinGenerator | None = None
    for skill, scenes in by_skill.items():
        if boxes_path(out, skill, "train").is_file():
            continue
        say(f"generating images of {len(scenes):,} train prompts of {skill}")
        model = model or generator or BuiltinGenerator(size=size, classes=tuple(shape_of))
        write_metadata(out, made.version)
        for position in (image_path, mask_path):
            position(out, skill, "x").parent.mkdir(parents=True, exist_ok=True)
        kept: list[Scene] = []
        boxes: dict[str, np.ndarray] = {}
        seeds = [int(np.random.SeedSequence([seed, s.seed & 0xFFFFFFFF]).generate_state(1)[0]) for s in scenes]
        described = model.describe_prompts([s.text for s in scenes], seeds)
        for scene, description, image_seed in zip(scenes, described, seeds, strict=True):
            generated = _visible_image(model, description, np.random.default_rng([image_seed, 1]))
            if generated is None:
                continue
            pixels, owners = generated
            asked = {o.label: o.color for o in scene.objects}
            objects = []
            for k, placed in enumerate(description.objects):
                wanted = asked.get(placed.label, "plain")
                color = shown_color(pixels[owners == k + 1], None if wanted == "plain" else wanted) or "plain"
                objects.append(SceneObject(shape=shape_of[placed.label], label=placed.label, color=color))
            write_whole(image_path(out, skill, scene.scene_id), encode_png(pixels), sync=False)
            write_whole(mask_path(out, skill, scene.scene_id), encode_png(owners), sync=False)
            boxes[scene.scene_id] = np.array([extent(owners == k + 1) for k in range(len(objects))], dtype=np.float32)
            kept.append(
                Scene(
                    scene_id=scene.scene_id, skill=skill, split="train", text=scene.text,
                    background=description.background, objects=tuple(objects), seed=scene.seed,
                )
            )  # fmt: skip
        write_scenes(out, kept)
        write_boxes(out, made.version, skill, "train", kept, boxes, size)
        say(f"  {len(kept):,} of {len(scenes):,} kept: the others hide an object or show none")
    return out


def _visible_image(
    model: BuiltinGenerator, description: Description, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray] | None:
    """Pixels and owners of an image in which enough of every object is visible; None if there is none.

    Args:
        model: draws it.
        description: of the image; its objects may be moved, see ``crowded``.
        rng: decides whether, and to where.
    """
    together = len(description.objects) > 1 and rng.random() < _CROWDED
    moved = (crowded(description, rng) for _ in range(_ATTEMPTS))
    for attempt in moved if together else (description,):
        pixels, owners, alone = model.generate_with_owners(attempt)
        visible = np.bincount(owners.ravel(), minlength=len(alone) + 1)[1:]
        least = np.maximum(_LEAST_VISIBLE * alone, _LEAST_PIXELS * (model.size / 256) ** 2)
        if len(alone) and (visible >= least).all():
            return pixels, owners
    return None
