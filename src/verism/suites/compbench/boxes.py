"""Boxes as the rules of T2I-CompBench take them: their size, their overlap, and the pixels that thresholds are in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

__all__ = ["Box", "SeenBox", "centre_offset", "detector_size", "inside_share", "overlap", "scaled"]

Box = tuple[float, float, float, float]
SHORT_EDGE_PX, LONG_EDGE_PX = 479, 480


@dataclass(frozen=True, kw_only=True)
class SeenBox:
    """An object that a detector reports.

    Attributes:
        label: class that was asked for; None for a foreign one.
        raw_label: the detector's own name of it, lower case.
        score: confidence, in [0, 1].
        box: (x0, y0, x1, y1) in pixels.
    """

    label: str | None
    raw_label: str
    score: float
    box: Box


def detector_size(width: int, height: int) -> tuple[int, int]:
    """Width and height to which the released detector brings an image, and in whose pixels its boxes are.

    The shorter side to 479, or less so that the longer stays within 480.

    >>> detector_size(512, 512), detector_size(1024, 512)
    ((479, 479), (480, 240))
    """
    scale = SHORT_EDGE_PX / min(width, height)
    if max(width, height) * scale > LONG_EDGE_PX:
        scale = LONG_EDGE_PX / max(width, height)
    return int(width * scale + 0.5), int(height * scale + 0.5)


def scaled(boxes: Sequence[SeenBox], size: tuple[int, int], target: tuple[int, int]) -> list[SeenBox]:
    """Boxes in the pixels of another size.

    Args:
        boxes: the boxes.
        size: width and height of the image that they are of.
        target: width and height that they are wanted for.
    """
    across, down = target[0] / size[0], target[1] / size[1]
    return [replace(b, box=(b.box[0] * across, b.box[1] * down, b.box[2] * across, b.box[3] * down)) for b in boxes]


def overlap(a: Box, b: Box, *, last_pixel: int = 0) -> float:
    """Intersection over union; 0 for boxes that do not meet, or have no area.

    Args:
        a: (x0, y0, x1, y1) in pixels.
        b: the same.
        last_pixel: 1 where the last pixel counts as inside.
    """
    shared = _area(_shared(a, b), last_pixel)
    union = _area(a, last_pixel) + _area(b, last_pixel) - shared
    return shared / union if union > 0 else 0.0


def inside_share(a: Box, b: Box, *, last_pixel: int = 0) -> float:
    """Share of box ``a`` that lies in ``b``.

    Args:
        a: (x0, y0, x1, y1) in pixels.
        b: the same.
        last_pixel: 1 where the last pixel counts as inside.
    """
    area = _area(a, last_pixel)
    return _area(_shared(a, b), last_pixel) / area if area > 0 else 0.0


def _shared(a: Box, b: Box) -> Box:
    return max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3])


def _area(box: Box, last_pixel: int) -> float:
    return max(box[2] - box[0] + last_pixel, 0) * max(box[3] - box[1] + last_pixel, 0)


def centre_offset(a: Box, b: Box) -> tuple[float, float]:
    """From the centre of ``a`` to that of ``b``, along x and, downwards, along y."""
    return (b[0] + b[2] - a[0] - a[2]) / 2, (b[1] + b[3] - a[1] - a[3]) / 2
