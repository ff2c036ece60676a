"""The part of a face whose colour is its skin's: cheeks and forehead, without eyes, brows, beard, lips and hair.

Cheeks end above the mouth, where beards grow, and below the shadow of the lower lid; the forehead is a low band above
the brows, under most fringes. A cheek that is turned away is left out: a few degrees more and it shows hair, ear or
what is behind the head.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from verism.judges.skin_tone.faces import BoxStyle, Face, estimated_yaw, five_points

__all__ = ["ONE_CHEEK_DEG", "PARTS", "TYPICAL", "FacePart", "region_polygons", "skin_region"]

Floats = NDArray[np.floating]

FacePart = Literal["cheeks", "forehead"]
PARTS: tuple[FacePart, ...] = get_args(FacePart)

ONE_CHEEK_DEG = 18.0
"""Yaw beyond which only the cheek towards the camera is measured."""

# Polygons in the frame of a face: x from the left eye (-0.5) to the right one (0.5), y from the eyes (0) to the mouth
# (1). The face is about 1 wide to each side at the height of the eyes, and 0.85 at that of the mouth; a nose 0.28.
_CHEEK = ((0.40, 0.46), (0.74, 0.40), (0.70, 0.66), (0.62, 0.80), (0.46, 0.78))
# Where the eyes are only known from a box, the head may be turned unnoticed: nearer to the nose it is still skin.
_CHEEK_OF_BOX = ((0.38, 0.46), (0.58, 0.42), (0.56, 0.66), (0.46, 0.72))
_FOREHEAD = ((-0.38, -0.50), (-0.34, -0.70), (0.34, -0.70), (0.38, -0.50))

TYPICAL: dict[BoxStyle, tuple[tuple[float, float], ...]] = {
    # Where eyes, nose and mouth are in a box that gives none, in shares of its width and height.
    "square": ((0.31, 0.39), (0.69, 0.39), (0.50, 0.62), (0.36, 0.82), (0.64, 0.82)),
    "tight": ((0.27, 0.38), (0.73, 0.38), (0.50, 0.58), (0.33, 0.76), (0.67, 0.76)),
}


def region_polygons(face: Face, parts: Sequence[str] = PARTS) -> dict[str, NDArray[np.float64]]:
    """Outlines of the skin to measure, (K, 2) in pixels, by name: ``left cheek``, ``right cheek`` (as they lie in the
    image) and ``forehead``.

    Raises:
        ValueError: an unknown part.
    """
    if unknown := sorted(set(parts) - set(PARTS)):
        raise ValueError(f"parts of a face are {', '.join(PARTS)}; got {', '.join(unknown)}")
    if face.box_style == "picture" and face.landmarks is None:
        x0, y0, x1, y1 = (float(v) for v in face.box)
        return {"picture": np.array([(x0, y0), (x1, y0), (x1, y1), (x0, y1)])}
    if face.landmarks is None:
        size = face.box[2:] - face.box[:2]
        points = face.box[:2] + np.asarray(TYPICAL[face.box_style]) * size
        outlines = _in_frame(points, _CHEEK_OF_BOX)
        yaw = 0.0
    else:
        outlines = _by_68(face.landmarks) if len(face.landmarks) == 68 else _in_frame(face.landmarks, _CHEEK)
        yaw = estimated_yaw(face.landmarks)
    wanted = []
    if "cheeks" in parts:
        # A face that looks to the image's right hides its cheek there.
        wanted += [
            n
            for n, hidden in (("left cheek", yaw < -ONE_CHEEK_DEG), ("right cheek", yaw > ONE_CHEEK_DEG))
            if not hidden
        ]
    if "forehead" in parts:
        wanted.append("forehead")
    return {name: outlines[name] for name in wanted}


def skin_region(face: Face, shape: tuple[int, ...], parts: Sequence[str] = PARTS) -> NDArray[np.bool_]:
    """The pixels of cheeks and forehead that lie in the image.

    Args:
        face: where it is in the image.
        shape: of the image; height and width come first, in pixels.
        parts: parts of the face to include, of ``PARTS``.
    Returns:
        Shape (H, W); a pixel belongs to the region if its centre does.
    """
    mask = np.zeros(shape[:2], dtype=bool)
    for outline in region_polygons(face, parts).values():
        _fill(mask, outline)
    return mask


def _in_frame(points: Floats, cheek: Sequence[tuple[float, float]]) -> dict[str, NDArray[np.float64]]:
    """Outlines by five points: the frame is spanned by the eyes and the middle of the mouth."""
    left, right, _, *mouth = np.asarray(points, dtype=np.float64)
    middle = (left + right) / 2
    axes = np.stack([right - left, (mouth[0] + mouth[1]) / 2 - middle])
    right_cheek = np.asarray(cheek)
    return {
        "left cheek": middle + right_cheek * (-1, 1) @ axes,
        "right cheek": middle + right_cheek @ axes,
        "forehead": middle + np.asarray(_FOREHEAD) @ axes,
    }


def _by_68(landmarks: Floats) -> dict[str, NDArray[np.float64]]:
    """Outlines by 68 landmarks: a cheek lies between lower lid, nose, mouth and jaw as they are in this face."""
    p = np.asarray(landmarks, dtype=np.float64)
    left, right, _, *mouth = five_points(p)
    outlines = {
        "left cheek": _cheek(lid=p[40:42].mean(axis=0), nose=p[31], corner=p[48], jaw=p[1:4]),
        "right cheek": _cheek(lid=p[46:48].mean(axis=0), nose=p[35], corner=p[54], jaw=p[15:12:-1]),
    }
    # Landmarks end at the brows. "Up" is the way from mouth to eyes.
    up = (left + right - mouth[0] - mouth[1]) / 2
    inner = (p[17:22].mean(axis=0) + p[22:27].mean(axis=0)) / 2
    half = (p[22:27].mean(axis=0) - p[17:22].mean(axis=0)) / 2
    outlines["forehead"] = np.stack(
        [inner + a * half + b * up for a, b in ((-0.80, 0.14), (-0.70, 0.34), (0.70, 0.34), (0.80, 0.14))]
    )
    return outlines


def _cheek(*, lid: Floats, nose: Floats, corner: Floats, jaw: Floats) -> NDArray[np.float64]:
    """A cheek from the landmarks around it; ``jaw``: three of its points, from the ear downwards."""
    below_lid = lid + 0.45 * (corner - lid)
    beside_nose = nose + 0.22 * (jaw[2] - nose)
    above_corner = corner + 0.30 * (jaw[1] - corner)
    return np.stack(
        [
            beside_nose + 0.35 * (below_lid - beside_nose),
            lid + 0.38 * (jaw[2] - lid),
            jaw[0] + 0.35 * (nose - jaw[0]),
            jaw[1] + 0.30 * (nose - jaw[1]),
            above_corner + 0.20 * (below_lid - above_corner),
        ]
    )


def _fill(mask: NDArray[np.bool_], outline: Floats) -> None:
    """Set the pixels whose centres lie within a polygon (by the even-odd rule)."""
    height, width = mask.shape
    low = np.floor(outline.min(axis=0)).astype(int)
    high = np.ceil(outline.max(axis=0)).astype(int) + 1
    x0, x1 = max(int(low[0]), 0), min(int(high[0]), width)
    y0, y1 = max(int(low[1]), 0), min(int(high[1]), height)
    if x0 >= x1 or y0 >= y1:
        return
    x, y = np.arange(x0, x1) + 0.5, (np.arange(y0, y1) + 0.5)[:, None]
    inside = np.zeros((y1 - y0, x1 - x0), dtype=bool)
    for (ax, ay), (bx, by) in zip(outline, np.roll(outline, -1, axis=0), strict=True):
        if ay == by:
            continue
        crosses = (ay > y) != (by > y)
        inside ^= crosses & (x < ax + (y - ay) * (bx - ax) / (by - ay))
    mask[y0:y1, x0:x1] |= inside
