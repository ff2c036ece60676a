"""Varying images and their boxes for detector training, a batch at a time.

The training images are clean renderings; a text-to-image model's images are not. So besides moving and scaling,
images are made softer, noisier, darker and coarser. Colours are only varied within what keeps a colour's name.

Pillow does the work on bytes: several times faster than tensors of floats, and it scales down without aliasing.

Imports torch: load it on use only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from PIL import Image, ImageFilter
from torch import Tensor

from verism.imaging import compressed
from verism.judges.detection.decode import box_iou
from verism.judges.detection.second_look import crop
from verism.training.detector_network import BatchTargets
from verism.training.scene_arrays import SceneArrays, Target, extent
from verism.training.settings import AugmentConfig

__all__ = ["pasted", "plain_batch", "varied_batch", "varied_crop", "varied_object"]


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
        elif arrays.cut_outs and rng.random() < options.paste:
            pixels, target = pasted(arrays, int(i), rng)
        image, target = _moved(Image.fromarray(pixels), target, rng, options)
        if rng.random() < options.coarse:
            image = _coarser(image, rng)
        image = _recolored(image, bool((target.colors >= 0).any()), rng, options)
        images.append(_disturbed(_softer(image, rng, options), rng, options))
        targets.append(target)
    return torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2), _to_targets(targets)


def varied_object(
    arrays: SceneArrays, index: int, number: int, rng: np.random.Generator, options: AugmentConfig, size: int
) -> np.ndarray:
    """A crop of one object, varied, as a second look sees it: (size, size, 3), uint8.

    The box is a little off, as a detector's is, and other objects may lie over the object.

    Args:
        arrays: images.
        index: of the image.
        number: of the object in the image.
        rng: source of every choice.
        options: how it is varied; zoom and collages are none of its matter.
        size: side of the crop in pixels.
    """
    pixels, target = arrays.images[index], arrays.targets[index]
    if arrays.cut_outs and rng.random() < options.paste:
        pixels, target = pasted(arrays, index, rng)
    colored = bool(target.colors[number] >= 0)
    return varied_crop(pixels, target.boxes[number].tolist(), rng, options, size, colored=colored)


def varied_crop(
    pixels: np.ndarray,
    box: Sequence[float],
    rng: np.random.Generator,
    options: AugmentConfig,
    size: int,
    *,
    colored: bool = False,
) -> np.ndarray:
    """A box of an image, a little off and varied, as a second look sees it: (size, size, 3), uint8.

    Args:
        pixels: the image, RGB, (H, W, 3), uint8.
        box: (x0, y0, x1, y1) in its pixels.
        rng: source of every choice.
        options: how it is varied; zoom and collages are none of its matter.
        size: side of the crop in pixels.
        colored: whether a colour is to be learnt from it, and so kept.
    """
    x0, y0, x1, y1 = box
    x, y = (x0 + x1) / 2, (y0 + y1) / 2
    half_x, half_y = ((b - a) / 2 * float(np.exp(rng.normal(0, 0.06))) for a, b in ((x0, x1), (y0, y1)))
    x, y = x + rng.normal(0, 0.05) * half_x * 2, y + rng.normal(0, 0.05) * half_y * 2
    if rng.random() < 0.4:
        # Many crops show the object as small ones look: with fewer pixels than the crop has.
        longer = max(half_x, half_y) * 2
        pixels, (x, y, half_x, half_y) = _shrunk(pixels, (x, y, half_x, half_y), rng.uniform(18, 60) / longer)
    image = Image.fromarray(crop(pixels, (x - half_x, y - half_y, x + half_x, y + half_y), size))
    if rng.random() < options.flip:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    image = _recolored(image, colored, rng, options)
    return _disturbed(_softer(image, rng, options), rng, replace(options, patch=0.0))


def _shrunk(
    pixels: np.ndarray, box: tuple[float, float, float, float], scale: float
) -> tuple[np.ndarray, tuple[float, float, float, float]]:
    """An image made smaller, and a box (centre and half sides) with it; as they are if that would enlarge them."""
    if scale >= 1:
        return pixels, box
    height, width = pixels.shape[:2]
    shape = max(8, round(width * scale)), max(8, round(height * scale))
    small = Image.fromarray(pixels).resize(shape, Image.Resampling.BILINEAR)
    across, down = shape[0] / width, shape[1] / height
    return np.asarray(small), (box[0] * across, box[1] * down, box[2] * across, box[3] * down)


def _softer(image: Image.Image, rng: np.random.Generator, options: AugmentConfig) -> Image.Image:
    """Blurred, then compressed."""
    if options.blur and rng.random() < options.blur:
        image = image.filter(ImageFilter.GaussianBlur(float(rng.uniform(0.4, 1.8))))
    if options.jpeg and rng.random() < options.jpeg:
        image = compressed(image, int(rng.integers(25, 91)))
    return image


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
            # Of the image only what the window touches, as Pillow copies what it is given.
            x, y = int(x0), int(y0)
            patch = Image.fromarray(pixels[y : math.ceil(y1), x : math.ceil(x1)]).resize(
                (int(edges[col + 1]) - left, int(edges[row + 1]) - top),
                Image.Resampling.BILINEAR,
                box=(x0 - x, y0 - y, x1 - x, y1 - y),
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


_SIDES = (0.11, 0.5)  # longer side of a pasted object, as a share of the image
_LARGER = 1.5  # and by how much it may be enlarged: more would be blurred
_LEAST_VISIBLE = 0.4  # of every object; of what is hidden more than that, nothing is asked
_MOST_ALIKE = 0.7  # IoU of two boxes above which they could not be told apart


def pasted(arrays: SceneArrays, index: int, rng: np.random.Generator) -> tuple[np.ndarray, Target]:
    """An image with one to three objects of other images pasted in, in front of its own or behind them.

    Args:
        arrays: images, with masks.
        index: of the image. Without a mask it is returned as it is.
        rng: source of every choice.

    Returns:
        Pixels and target; boxes are those of what is visible.
    """
    pixels, target = arrays.images[index], arrays.targets[index]
    assert arrays.masks is not None
    owner = np.array(arrays.masks[index], dtype=np.uint8)
    if len(target.labels) and not owner.any():
        return pixels, target
    pixels = np.array(pixels)
    labels, colors = target.labels.tolist(), target.colors.tolist()
    whole = np.bincount(owner.ravel(), minlength=len(labels) + 1)[1:].tolist()
    boxes = [tuple(box) for box in target.boxes.tolist()]
    kinds = sorted(arrays.cut_outs)
    kind = labels[int(rng.integers(len(labels)))] if labels and rng.random() < 0.5 else None
    if kind not in arrays.cut_outs:
        kind = None
    for _ in range(int(rng.integers(1, 4))):
        sources = arrays.cut_outs[kinds[int(rng.integers(len(kinds)))] if kind is None else kind]
        source, number = sources[int(rng.integers(len(sources)))]
        if not (arrays.masks[source] == number + 1).any():
            continue
        patch, opacity = _cut_out(arrays, source, number, rng)
        place = _place(opacity.shape, boxes, len(pixels), rng)
        result = _laid_over(pixels, owner, patch, opacity, place, behind=rng.random() < 0.35, number=len(labels) + 1)
        if result is None:
            continue
        new_pixels, new_owner, size = result
        areas = np.bincount(new_owner.ravel(), minlength=len(labels) + 2)[1:]
        if (areas < _LEAST_VISIBLE * np.array([*whole, size])).any():
            continue
        new_boxes = [extent(new_owner == k + 1) for k in range(len(labels) + 1)]
        overlap = box_iou(np.array(new_boxes), np.array(new_boxes)) - np.eye(len(new_boxes))
        if overlap.max() > _MOST_ALIKE:
            continue
        pixels, owner, boxes = new_pixels, new_owner, new_boxes
        whole.append(size)
        labels.append(int(arrays.targets[source].labels[number]))
        colors.append(int(arrays.targets[source].colors[number]))
    return pixels, Target(
        boxes=np.array(boxes, dtype=np.float32).reshape(-1, 4),
        labels=np.array(labels, dtype=np.int64),
        colors=np.array(colors, dtype=np.int64),
    )


def _cut_out(arrays: SceneArrays, source: int, number: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """An object at a size of its own: RGB (h, w, 3) and opacity (h, w) in [0, 1], float32."""
    assert arrays.masks is not None
    own = arrays.masks[source] == number + 1
    x0, y0, x1, y1 = (int(v) for v in extent(own))
    patch = Image.fromarray(np.ascontiguousarray(arrays.images[source][y0:y1, x0:x1]))
    opacity = Image.fromarray(own[y0:y1, x0:x1].astype(np.uint8) * 255)
    longer, size = max(x1 - x0, y1 - y0), len(own)
    high = min(_SIDES[1] * size, longer * _LARGER)
    low = min(_SIDES[0] * size, high)
    scale = float(np.exp(rng.uniform(np.log(low), np.log(high)))) / longer
    shape = (max(2, round((x1 - x0) * scale)), max(2, round((y1 - y0) * scale)))
    if rng.random() < 0.3:
        patch, opacity = (p.transpose(Image.Transpose.FLIP_LEFT_RIGHT) for p in (patch, opacity))
    patch, opacity = (p.resize(shape, Image.Resampling.BILINEAR) for p in (patch, opacity))
    light = rng.uniform(0.85, 1.15)
    return np.asarray(patch, dtype=np.float32) * np.float32(light), np.asarray(opacity, dtype=np.float32) / 255


def _place(
    shape: tuple[int, ...], boxes: Sequence[tuple[float, ...]], size: int, rng: np.random.Generator
) -> tuple[int, int]:
    """Upper left corner of a pasted object: beside an object and over part of it, or anywhere."""
    height, width = shape
    if boxes and rng.random() < 0.5:
        x0, y0, x1, y1 = boxes[int(rng.integers(len(boxes)))]
        angle, reach = rng.uniform(0, 2 * np.pi), rng.uniform(0.45, 1.05)
        left = (x0 + x1) / 2 + np.cos(angle) * reach * (x1 - x0 + width) / 2 - width / 2
        top = (y0 + y1) / 2 + np.sin(angle) * reach * (y1 - y0 + height) / 2 - height / 2
    else:
        left, top = rng.uniform(0, max(size - width, 1)), rng.uniform(0, max(size - height, 1))
    return int(np.clip(left, 0, max(size - width, 0))), int(np.clip(top, 0, max(size - height, 0)))


def _laid_over(
    pixels: np.ndarray, owner: np.ndarray, patch: np.ndarray, opacity: np.ndarray, place: tuple[int, int],
    *, behind: bool, number: int,
) -> tuple[np.ndarray, np.ndarray, int] | None:  # fmt: skip
    """Pixels and owners with a patch in place, and how many pixels the patch would have alone; None if it is lost."""
    left, top = place
    height, width = opacity.shape
    rows, columns = slice(top, min(top + height, len(pixels))), slice(left, min(left + width, len(pixels)))
    opacity = opacity[: rows.stop - top, : columns.stop - left]
    patch = patch[: rows.stop - top, : columns.stop - left]
    size = int((opacity >= 0.5).sum())
    if behind:
        opacity = np.where(owner[rows, columns] > 0, 0, opacity)
    if not size or not (opacity >= 0.5).any():
        return None
    under = pixels[rows, columns].astype(np.float32)
    pixels, owner = pixels.copy(), owner.copy()
    mixed = under + (patch - under) * opacity[..., None]
    pixels[rows, columns] = np.clip(np.rint(mixed), 0, 255).astype(np.uint8)
    owner[rows, columns] = np.where(opacity >= 0.5, number, owner[rows, columns])
    return pixels, owner, size


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
    saturation = rng.uniform(0.75, 1.2)
    tint = 0.04 if colored else 0.1
    middle = rng.uniform(70, 180)
    gamma = float(np.exp(rng.uniform(-0.35, 0.35))) if rng.random() < options.gamma else 1.0
    contrast, light, offset = rng.uniform(0.8, 1.2), rng.uniform(0.75, 1.25), rng.uniform(-12, 12)
    tints = 1 + tint * rng.uniform(-1, 1, 3)
    # All of it is one matrix, but for gamma.
    mixed = saturation * np.eye(3) + (1 - saturation) * np.array(_LUMA)
    scale, shift = contrast * light, middle * (1 - contrast) * light + offset
    if gamma != 1.0:
        image = image.convert("RGB", _rows(mixed, np.zeros(3)))
        value = (np.arange(256.0) / 255) ** gamma * 255 * scale + shift
        table = np.clip(np.rint(np.outer(tints, value)), 0, 255)
        return image.point(table.astype(int).ravel().tolist())
    return image.convert("RGB", _rows(tints[:, None] * scale * mixed, tints * shift))


_LUMA = (0.299, 0.587, 0.114)  # weights of red, green and blue (ITU-R BT.601)


def _rows(matrix: np.ndarray, offset: np.ndarray) -> tuple[float, ...]:
    """A matrix (3, 3) and an offset (3,) of colours as Pillow takes them."""
    return tuple(np.column_stack([matrix, offset]).ravel().tolist())


def _disturbed(image: Image.Image, rng: np.random.Generator, options: AugmentConfig) -> np.ndarray:
    """Noise, and a small rectangle drawn over it."""
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
