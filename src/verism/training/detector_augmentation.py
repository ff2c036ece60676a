"""Varying images and their boxes for detector training, a batch at a time.

The training images are clean renderings; a text-to-image model's images are not. So besides moving and scaling,
images are made softer, noisier, darker and coarser. Colours are only varied within what keeps a colour's name.

Pillow does the work on bytes: several times faster than tensors of floats, and it scales down without aliasing.

Imports torch: load it on use only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from verism.training.detector_network import BatchTargets
from verism.training.scene_arrays import SceneArrays, Target
from verism.training.settings import AugmentConfig

__all__ = ["plain_batch", "varied_batch"]


def _to_targets(targets: Sequence[Target]) -> BatchTargets:
    counts = [len(t.labels) for t in targets]
    return BatchTargets(
        image=torch.from_numpy(np.repeat(np.arange(len(targets)), counts)),
        boxes=torch.from_numpy(np.concatenate([t.boxes for t in targets]).astype(np.float32).reshape(-1, 4)),
        labels=torch.from_numpy(np.concatenate([t.labels for t in targets]).astype(np.int64)),
        colors=torch.from_numpy(np.concatenate([t.colors for t in targets]).astype(np.int64)),
    )


def plain_batch(arrays: SceneArrays, indices: Sequence[int]) -> tuple[Tensor, BatchTargets]:
    """Images as they are: (B, 3, S, S), uint8, and their objects."""
    stacked = np.stack([arrays.images[int(i)] for i in indices])
    pixels = torch.from_numpy(stacked).permute(0, 3, 1, 2)
    return pixels, _to_targets([arrays.targets[int(i)] for i in indices])


def varied_batch(
    arrays: SceneArrays,
    indices: Sequence[int],
    rng: np.random.Generator,
    options: AugmentConfig,
    *,
    small: bool = False,
) -> tuple[Tensor, BatchTargets]:
    """Varied images, (B, 3, S, S), uint8, and their objects. The same ``rng`` gives the same batch.

    ``small``: all are collages of four objects at half the side.
    """
    images, targets = [], []
    for i in indices:
        pixels, target = arrays.images[int(i)], arrays.targets[int(i)]
        if small:
            pixels, target = _collage(arrays, int(i), rng, len(pixels) // 2, 2)
        elif rng.random() < options.collage:
            pixels, target = _collage(arrays, int(i), rng, len(pixels), 3 if rng.random() < 0.7 else 2)
        image, target = _moved(Image.fromarray(pixels), target, rng, options)
        if rng.random() < options.coarse:
            image = _coarser(image, rng)
        image = _recolored(image, bool((target.colors >= 0).any()), rng, options)
        images.append(_disturbed(image, rng, options))
        targets.append(target)
    return torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2), _to_targets(targets)


def _collage(
    arrays: SceneArrays, first: int, rng: np.random.Generator, size: int, cells: int
) -> tuple[np.ndarray, Target]:
    """Objects of many images in a grid of ``cells`` x ``cells``, each cut out with some of its surroundings."""
    edges = np.round(np.linspace(0, size, cells + 1)).astype(int)
    canvas = np.empty((size, size, 3), dtype=np.uint8)
    boxes, labels, colors = [], [], []
    for row in range(cells):
        for col in range(cells):
            i = first if row == col == 0 else int(rng.integers(len(arrays)))
            pixels, target = arrays.images[i], arrays.targets[i]
            top, left = int(edges[row]), int(edges[col])
            side = int(min(edges[row + 1] - top, edges[col + 1] - left))
            window, kept = _window(target, len(pixels), rng)
            x0, y0, x1, y1 = window
            patch = Image.fromarray(pixels).resize(
                (int(edges[col + 1]) - left, int(edges[row + 1]) - top),
                Image.Resampling.BILINEAR,
                box=(x0, y0, x1, y1),
                reducing_gap=1.5,
            )
            canvas[top : edges[row + 1], left : edges[col + 1]] = np.asarray(patch)
            scale = side / (x1 - x0)
            shown = np.clip(target.boxes[kept], [x0, y0, x0, y0], [x1, y1, x1, y1])
            boxes.append((shown - [x0, y0, x0, y0]) * scale + [left, top, left, top])
            labels.append(target.labels[kept])
            colors.append(target.colors[kept])
    return canvas, Target(
        boxes=np.concatenate(boxes).astype(np.float32),
        labels=np.concatenate(labels),
        colors=np.concatenate(colors),
    )


def _window(
    target: Target, size: int, rng: np.random.Generator
) -> tuple[tuple[float, float, float, float], np.ndarray]:
    """A square part of an image around one of its objects, and which objects show in it by half at least."""
    if not len(target.boxes):
        side = size * rng.uniform(0.3, 0.6)
        x, y = rng.uniform(0, size - side, 2).tolist()
        return (x, y, x + side, y + side), np.zeros(0, dtype=np.int64)
    x0, y0, x1, y1 = target.boxes[int(rng.integers(len(target.boxes)))].tolist()
    side = min(max(x1 - x0, y1 - y0, 24.0) * rng.uniform(1.04, 1.5), float(size))
    x = min(max(rng.uniform(x1 - side, x0), 0.0), size - side)
    y = min(max(rng.uniform(y1 - side, y0), 0.0), size - side)
    inside = np.clip(target.boxes, [x, y, x, y], [x + side, y + side] * 2)
    shown = np.prod(inside[:, 2:] - inside[:, :2], axis=1)
    share = shown / np.maximum(np.prod(target.boxes[:, 2:] - target.boxes[:, :2], axis=1), 1e-6)
    return (x, y, x + side, y + side), np.flatnonzero(share > 0.5)


def _moved(
    image: Image.Image, target: Target, rng: np.random.Generator, options: AugmentConfig
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
        # Shifts that keep the objects inside, and those that keep the frame filled (or the image in the frame).
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
    if kind < 0.4:  # the image's mean colour
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


def _recolored(image: Image.Image, colored: bool, rng: np.random.Generator, options: AugmentConfig) -> Image.Image:
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


def _disturbed(image: Image.Image, rng: np.random.Generator, options: AugmentConfig) -> np.ndarray:
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
