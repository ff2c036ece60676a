"""Varying pictures and their boxes for detector training, a batch at a time.

The training pictures are clean renderings; a text-to-image model's pictures are not. So besides moving and scaling,
pictures are made softer, noisier, darker and coarser. Colours are only varied within what keeps a colour's name.

Pillow does the work on bytes: several times faster than tensors of floats, and it scales down without aliasing.

Imports torch: load it on use only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from verism.training.detector_network import BatchTargets
from verism.training.scene_arrays import SceneArrays, Target

__all__ = ["AugmentOptions", "plain_batch", "varied_batch"]


@dataclass(frozen=True, kw_only=True)
class AugmentOptions:
    """How often (probabilities) and how much.

    Attributes:
        flip: mirrored. Not half of them, as it mirrors the letters on signs.
        scale: zoom range, log-uniform.
        aspect: largest change of width against height.
        cut: pictures whose outer objects may lose up to a fifth at the frame.
        mosaic: pictures made of four at half size: more, smaller objects.
        coarse: pictures scaled down (to as little as a quarter) and up again, as upscaled model outputs are.
        noise, gamma: pictures that get some. patch: pictures with a small rectangle painted over.
    """

    flip: float = 0.3
    scale: tuple[float, float] = (0.75, 1.25)
    aspect: float = 1.08
    cut: float = 0.1
    mosaic: float = 0.06
    coarse: float = 0.25
    noise: float = 0.3
    gamma: float = 0.25
    patch: float = 0.1


def _to_targets(targets: Sequence[Target]) -> BatchTargets:
    counts = [len(t.labels) for t in targets]
    return BatchTargets(
        picture=torch.from_numpy(np.repeat(np.arange(len(targets)), counts)),
        boxes=torch.from_numpy(np.concatenate([t.boxes for t in targets]).astype(np.float32).reshape(-1, 4)),
        labels=torch.from_numpy(np.concatenate([t.labels for t in targets]).astype(np.int64)),
        colors=torch.from_numpy(np.concatenate([t.colors for t in targets]).astype(np.int64)),
    )


def plain_batch(arrays: SceneArrays, indices: Sequence[int]) -> tuple[Tensor, BatchTargets]:
    """Pictures as they are: (B, 3, S, S), uint8, and their objects."""
    stacked = np.stack([arrays.images[int(i)] for i in indices])
    pixels = torch.from_numpy(stacked).permute(0, 3, 1, 2)
    return pixels, _to_targets([arrays.targets[int(i)] for i in indices])


def varied_batch(
    arrays: SceneArrays, indices: Sequence[int], rng: np.random.Generator, options: AugmentOptions
) -> tuple[Tensor, BatchTargets]:
    """Varied pictures, (B, 3, S, S), uint8, and their objects. The same ``rng`` gives the same batch."""
    pictures, targets = [], []
    for i in indices:
        pixels, target = arrays.images[int(i)], arrays.targets[int(i)]
        if rng.random() < options.mosaic:
            pixels, target = _mosaic(arrays, [int(i), *rng.integers(len(arrays), size=3).tolist()])
        image, target = _moved(Image.fromarray(pixels), target, rng, options)
        if rng.random() < options.coarse:
            image = _coarser(image, rng)
        image = _recolored(image, bool((target.colors >= 0).any()), rng, options)
        pictures.append(_disturbed(image, rng, options))
        targets.append(target)
    return torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2), _to_targets(targets)


def _mosaic(arrays: SceneArrays, chosen: Sequence[int]) -> tuple[np.ndarray, Target]:
    """Four pictures at half size."""
    size = arrays.images[chosen[0]].shape[0]
    half = size // 2
    canvas = np.empty((size, size, 3), dtype=np.uint8)
    parts = []
    for place, i in enumerate(chosen):
        top, left = (place // 2) * half, (place % 2) * half
        canvas[top : top + half, left : left + half] = np.asarray(Image.fromarray(arrays.images[i]).reduce(2))
        parts.append(arrays.targets[i].boxes / 2 + np.array([left, top, left, top], dtype=np.float32))
    return canvas, Target(
        boxes=np.concatenate(parts),
        labels=np.concatenate([arrays.targets[i].labels for i in chosen]),
        colors=np.concatenate([arrays.targets[i].colors for i in chosen]),
    )


def _moved(
    image: Image.Image, target: Target, rng: np.random.Generator, options: AugmentOptions
) -> tuple[Image.Image, Target]:
    """Mirrored, zoomed and shifted; objects stay inside, but for the few that may be cut at the frame."""
    size = image.width
    boxes = target.boxes.copy()
    if rng.random() < options.flip:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        boxes[:, [0, 2]] = size - boxes[:, [2, 0]]
    zoom = float(np.exp(rng.uniform(*np.log(options.scale))))
    stretch = float(np.exp(rng.uniform(-1, 1) * np.log(options.aspect)))
    may_cut = rng.random() < options.cut
    sides, shifts = [], []
    for axis, scale in enumerate((zoom * stretch, zoom / stretch)):
        low, high, slack = 0.0, 0.0, 0.0
        if len(boxes):
            low, high = float(boxes[:, axis].min()), float(boxes[:, axis + 2].max())
            slack = 0.2 * float((boxes[:, axis + 2] - boxes[:, axis]).min()) if may_cut else 0.0
        side = max(8, int(size * min(scale, (size - 2) / max(high - low - 2 * slack, 1.0))))
        scale = side / size
        # Shifts that keep the objects inside, and those that keep the frame filled (or the picture in the frame).
        inside = (-(low + slack) * scale, size - (high - slack) * scale)
        filled = sorted((0.0, float(size - side)))
        roam = 0.06 * size
        start, end = filled[0] - roam, filled[1] + roam
        if len(boxes):
            start, end = max(start, inside[0]), min(end, inside[1])
        if start > end:
            start = end = min(max((start + end) / 2, inside[0]), inside[1])
        sides.append(side)
        shifts.append(round(rng.uniform(start, end)))
    kind = rng.random()
    if kind < 0.4:  # the picture's mean colour
        canvas = image.resize((1, 1), Image.Resampling.BOX).resize((size, size), Image.Resampling.NEAREST)
    else:
        fill = rng.integers(0, 256, 3) if kind < 0.7 else np.zeros(3)
        canvas = Image.new("RGB", (size, size), (int(fill[0]), int(fill[1]), int(fill[2])))
    canvas.paste(image.resize((sides[0], sides[1]), Image.Resampling.BILINEAR), (shifts[0], shifts[1]))
    moved = boxes * np.array(sides * 2) / size + np.array(shifts * 2)
    boxes = np.clip(moved, 0, size).astype(np.float32)
    return canvas, Target(boxes=boxes, labels=target.labels, colors=target.colors)


def _coarser(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Scaled down and up again."""
    methods = (Image.Resampling.BILINEAR, Image.Resampling.BICUBIC, Image.Resampling.BICUBIC, Image.Resampling.NEAREST)
    small = int(image.width * rng.uniform(0.25, 0.75))
    method = methods[int(rng.integers(len(methods)))]
    return image.resize((small, small), Image.Resampling.BILINEAR).resize(image.size, method)


def _recolored(image: Image.Image, colored: bool, rng: np.random.Generator, options: AugmentOptions) -> Image.Image:
    """Saturation, brightness, contrast, tint, gamma; within what keeps a colour's name where that is to be learnt."""
    image = Image.blend(image.convert("L").convert("RGB"), image, rng.uniform(0.75, 1.2))
    tint = 0.04 if colored else 0.1
    middle = rng.uniform(70, 180)
    value = np.arange(256.0)
    if rng.random() < options.gamma:
        value = (value / 255) ** float(np.exp(rng.uniform(-0.35, 0.35))) * 255
    value = ((value - middle) * rng.uniform(0.8, 1.2) + middle) * rng.uniform(0.75, 1.25) + rng.uniform(-12, 12)
    table = np.concatenate([value * (1 + tint * rng.uniform(-1, 1)) for _ in range(3)])
    return image.point(np.clip(np.rint(table), 0, 255).astype(int).tolist())


def _disturbed(image: Image.Image, rng: np.random.Generator, options: AugmentOptions) -> np.ndarray:
    """Noise, and a small rectangle painted over."""
    pixels = np.array(image)
    size = len(pixels)
    if rng.random() < options.noise:
        # One tile of noise is enough to look random, and far cheaper than noise for every pixel.
        tile = np.rint(rng.standard_normal((64, 64, 3)) * rng.uniform(2, 14)).astype(np.int16)
        copies = -(-size // 64)
        noisy = pixels + np.tile(tile, (copies, copies, 1))[:size, :size]
        pixels = np.clip(noisy, 0, 255).astype(np.uint8)
    if rng.random() < options.patch:
        height, width = rng.integers(6, 22, size=2)
        top, left = int(rng.integers(size - height)), int(rng.integers(size - width))
        pixels[top : top + height, left : left + width] = rng.integers(0, 256, 3)
    return pixels
