"""What the networks of TRUST look at, and which part of their answer is skin: geometry alone, without PyTorch.

Coordinates are pixels with the middle of the first pixel at (0, 0), as landmark finders give them.

Source: Feng et al. 2022, "Towards Racially Unbiased Skin Tone Estimation via Scene Disambiguation", arXiv:2205.03962,
for the two patches and where skin is measured; the bias code released with Cho et al. 2023 (ICCV), for the released
way.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from verism.imaging import open_image
from verism.judges.skin_tone.faces import Face, five_points
from verism.judges.skin_tone.regions import TYPICAL
from verism.judges.vector_cache import pixels_key

__all__ = [
    "ALBEDO_PX",
    "LANDMARKS",
    "PATCH_PX",
    "SKIN_POLYGONS",
    "Square",
    "area_resized",
    "centred_scene",
    "face_patch",
    "face_square",
    "filled_polygons",
    "released_face_patch",
    "released_map",
    "released_mask",
    "released_offset",
    "released_scene",
    "skin_mask",
]

Pixels = NDArray[np.uint8]
Values = NDArray[np.float32]

PATCH_PX = 224
"""Side of both patches: what the networks take."""

ALBEDO_PX = 256
"""Side of the map of albedo that skin is measured on; the basis has twice as many."""

LANDMARKS = (68, 2)
"""Shape of the landmarks that the method places the face patch by."""

_MARGIN = 1.6  # the square's side over the mean side of the landmarks' extent; training drew it from 1.4 to 1.8
_BROWS, _CHIN = -0.37, 1.67  # where 68 landmarks end, from the eyes, in distances from eyes to mouth
_RELEASED_OFFSETS = 174  # 398 - 224: the images that the released scene patch was written for are 398 pixels wide
_JPEG_QUALITY = 95  # what OpenCV saves with unless told; which program saved the published maps is not known
_JPEG_CHROMA = 2  # Pillow's number for 4:2:0, OpenCV's default

SKIN_POLYGONS: tuple[tuple[tuple[float, float], ...], ...] = (
    # bridge of the nose, opening downwards into a leg on either side
    (
        (123, 90), (130, 90), (132.6, 92.5), (139, 104.5), (149, 116.5), (155, 122.5), (164, 131), (158, 131),
        (148, 122.5), (143, 119), (127, 118), (111, 119), (106, 122.5), (97, 131), (90, 131), (99, 122.5),
        (108, 116.5), (116, 104.5), (120.6, 92.5),
    ),
    # cheek on the map's left
    (
        (64, 106), (67, 106), (71, 111), (76, 116.5), (84, 122.5), (91, 126), (99, 128), (99.2, 134.5), (97.5, 140),
        (93, 146.5), (90, 152), (86, 158.5), (81, 165), (75, 165), (71, 158.5), (65, 152), (64, 150),
    ),
    # and on its right
    (
        (190, 106), (187, 106), (183, 111), (178, 116.5), (170, 122.5), (163, 126), (157, 128), (157.6, 134.5),
        (159.5, 140), (165, 146.5), (167, 152), (170, 158.5), (174, 165), (180, 165), (184, 158.5), (189, 152),
        (190, 150),
    ),
)  # fmt: skip
"""Cheeks and bridge of the nose on a map of 256 x 256, x and y of corners, (0, 0) the corner of the first pixel.

Drawn for this package to the extent that the method describes; not the image that comes with its benchmark.
"""


# --------------------------------------------------------------------------------------------------------------------
# The face
# --------------------------------------------------------------------------------------------------------------------
class Square(NamedTuple):
    """Middle and side of an upright square, pixels."""

    x: float
    y: float
    side: int


def face_square(face: Face) -> Square:
    """Where the face patch lies: 1.6 times the mean side of the face's 68 landmarks, about their middle.

    Of 68 landmarks the extent runs from the second smallest to the second largest x and y. Five landmarks give it by
    the proportions of a face: as far as the eyes lie apart to either side, and from 0.37 above the eyes to 1.67 below
    them in distances of eyes and mouth. A box gives it by where these five usually are in boxes of its kind
    (``regions.TYPICAL``). A ``picture`` in which nobody looked for a face is the patch itself.
    """
    if face.landmarks is None and face.box_style == "picture":
        left, top, right, bottom = (float(v) for v in face.box)
        return Square((left + right) / 2, (top + bottom) / 2, int((right - left + bottom - top) / 2))
    if face.landmarks is not None and face.landmarks.shape == LANDMARKS:
        ordered = np.sort(face.landmarks.astype(np.float64), axis=0)
        width, height = ordered[-2] - ordered[1]
        x, y = (ordered[1] + ordered[-2]) / 2
    else:
        points = face.landmarks
        if points is None:
            points = face.box[:2] + np.asarray(TYPICAL[face.box_style]) * (face.box[2:] - face.box[:2])
        left_eye, right_eye, _, *mouth = five_points(points)
        eyes = (left_eye + right_eye) / 2
        across, down = right_eye - left_eye, (mouth[0] + mouth[1]) / 2 - eyes
        width = 2 * np.hypot(*across)
        height = (_CHIN - _BROWS) * np.hypot(*down)
        x, y = eyes + (_CHIN + _BROWS) / 2 * down
    return Square(float(x), float(y), int(_MARGIN * (width + height) / 2))


def face_patch(pixels: Pixels, square: Square) -> Values:
    """The face with its surroundings, enlarged or shrunk to 224 x 224.

    The square's left and upper edges lie on the middles of the patch's first pixels, its right and lower edges on those
    of the last. Bilinear between the four nearest pixels, not smoothed when shrinking; black outside the image.

    Args:
        pixels: RGB, shape (H, W, 3), uint8.
        square: where the face is, in pixels of the image; its side is at least 1.
    Returns:
        Shape (3, 224, 224), RGB in [0, 1].
    Raises:
        ValueError: a square without extent.
    """
    if square.side < 1:
        raise ValueError(f"the face's square has a side of {square.side} pixels")
    steps = np.arange(PATCH_PX, dtype=np.float64) * (square.side / (PATCH_PX - 1)) - square.side / 2
    in_height = _weighted(pixels, _bilinear(square.y + steps, pixels.shape[0]), axis=0)
    patch = _weighted(in_height, _bilinear(square.x + steps, pixels.shape[1]), axis=1)
    return np.ascontiguousarray(patch.transpose(2, 0, 1)) / np.float32(255)


_Neighbours = tuple[NDArray[np.intp], Values, NDArray[np.intp], Values]


def _bilinear(positions: NDArray[np.float64], length: int) -> _Neighbours:
    """Indices and weights of both neighbours of every position; the weight of one outside the image is 0."""
    lower = np.floor(positions)
    share = positions - lower

    def one(index: NDArray[np.float64], weight: NDArray[np.float64]) -> tuple[NDArray[np.intp], Values]:
        inside = (index >= 0) & (index < length)
        return np.where(inside, index, 0).astype(np.intp), np.where(inside, weight, 0).astype(np.float32)

    return (*one(lower, 1 - share), *one(lower + 1, share))


def _weighted(values: NDArray[np.generic], neighbours: _Neighbours, *, axis: int) -> Values:
    first, first_weight, second, second_weight = neighbours
    if not values.shape[axis]:  # an image cropped to nothing: black everywhere
        shape = list(values.shape)
        shape[axis] = len(first)
        return np.zeros(shape, dtype=np.float32)
    along = [1, 1, 1]
    along[axis] = -1
    result: Values = values.take(first, axis=axis).astype(np.float32) * first_weight.reshape(along)
    result += values.take(second, axis=axis).astype(np.float32) * second_weight.reshape(along)
    return result


def released_face_patch(pixels: Pixels, face: Face) -> Values:
    """The face patch as the released benchmark cuts it: from the wrong place, often with little in it.

    The image is first cropped to the landmarks' own extent, and the landmarks of the whole image are then applied
    to the crop, so that the patch is moved right and down by the crop's corner. Ours to choose was how the crop's edges
    are rounded: they are cut off to whole pixels, and the last row and column are left out.

    Returns:
        Shape (3, 224, 224), RGB in [0, 1].
    Raises:
        ValueError: a face without 68 landmarks, or a square without extent.
    """
    if face.landmarks is None or face.landmarks.shape != LANDMARKS:
        raise ValueError("the released face patch needs 68 landmarks")
    left, top = np.maximum(face.landmarks.min(axis=0), 0).astype(int)
    right, bottom = np.maximum(face.landmarks.max(axis=0), 0).astype(int)
    return face_patch(pixels[top:bottom, left:right], face_square(face))


# --------------------------------------------------------------------------------------------------------------------
# The scene
# --------------------------------------------------------------------------------------------------------------------
def area_resized(values: NDArray[np.generic], size: int) -> Values:
    """An image as a square of another size: every new pixel is the mean of the area it covers.

    Equal to OpenCV's ``INTER_AREA`` where the image shrinks, but for rounding; it enlarges by the same rule.

    Args:
        values: shape (H, W) or (H, W, C).
        size: side of the result, in pixels.
    Returns:
        Shape (size, size) or (size, size, C), float32, in the range of ``values``.
    """
    rows, columns = _area_weights(values.shape[0], size), _area_weights(values.shape[1], size)
    planes = values[..., None] if values.ndim == 2 else values
    resized = np.stack([rows @ planes[..., c].astype(np.float32) @ columns.T for c in range(planes.shape[-1])], axis=-1)
    return np.asarray(resized[..., 0] if values.ndim == 2 else resized, dtype=np.float32)


def _area_weights(length: int, size: int) -> Values:
    """The share of each of ``length`` pixels in each of ``size``, shape (size, length); rows add up to 1."""
    edges = np.arange(size + 1) * (length / size)
    pixel = np.arange(length)
    overlap = np.minimum(edges[1:, None], pixel + 1) - np.maximum(edges[:-1, None], pixel)
    return np.asarray(np.clip(overlap, 0, None) * (size / length), dtype=np.float32)


def centred_scene(pixels: Pixels) -> Values:
    """The largest square in the middle of the image, resized by area: shape (3, 224, 224), RGB in [0, 1]."""
    height, width = pixels.shape[:2]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    scene = area_resized(pixels[top : top + side, left : left + side], PATCH_PX) / np.float32(255)
    return np.ascontiguousarray(scene.transpose(2, 0, 1))


def released_offset(pixels: Pixels, *, seed: int) -> int:
    """Left edge of the released scene patch, 0 to 173.

    The released code draws it anew every time. Here it follows from the image's content and a seed, so that neither
    the order of images nor their number changes a result.
    """
    digest = hashlib.sha256(f"{seed} {pixels_key(pixels)}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % _RELEASED_OFFSETS


def released_scene(pixels: Pixels, offset: int) -> Values:
    """The scene as the released benchmark cuts it: rows 0 to 223 and 224 columns from ``offset``, never resized.

    Written for images 398 pixels wide. Of 512 x 512 it holds a strip of the upper edge; of 256 x 256 the upper 224
    rows and from 83 to 224 columns.

    Returns:
        Shape (3, <= 224, <= 224), RGB in [0, 1].
    Raises:
        ValueError: nothing of the image is left.
    """
    patch = pixels[:PATCH_PX, offset : offset + PATCH_PX]
    if not patch.size:
        raise ValueError(
            f"the released scene patch begins at column {offset}, and the image is {pixels.shape[1]} pixels wide"
        )
    return np.ascontiguousarray(patch.transpose(2, 0, 1)).astype(np.float32) / np.float32(255)


# --------------------------------------------------------------------------------------------------------------------
# The map
# --------------------------------------------------------------------------------------------------------------------
def filled_polygons(polygons: Sequence[Sequence[tuple[float, float]]], size: int) -> NDArray[np.bool_]:
    """Pixels whose middle lies inside one of the polygons (by the even-odd rule), shape (size, size)."""
    mask = np.zeros((size, size), dtype=bool)
    middles = np.arange(size) + 0.5
    for polygon in polygons:
        corners = np.asarray(polygon, dtype=np.float64)
        following = np.roll(corners, -1, axis=0)
        for row, y in enumerate(middles):
            crosses = (corners[:, 1] <= y) != (following[:, 1] <= y)
            (x0, y0), (x1, y1) = corners[crosses].T, following[crosses].T
            crossings = np.sort(x0 + (y - y0) * (x1 - x0) / (y1 - y0))
            mask[row] |= np.searchsorted(crossings, middles) % 2 == 1
    return mask


@cache
def skin_mask() -> NDArray[np.bool_]:
    """Where skin is measured on a map of 256 x 256: ``SKIN_POLYGONS``, about a twentieth of it. Read-only."""
    mask = filled_polygons(SKIN_POLYGONS, ALBEDO_PX)
    mask.setflags(write=False)
    return mask


@cache
def released_mask() -> NDArray[np.bool_]:
    """The mask at 224 x 224 as the released benchmark resizes it: whatever touches it counts. Read-only."""
    mask = area_resized(skin_mask().astype(np.float32), PATCH_PX) > 0
    mask.setflags(write=False)
    return mask


def released_map(albedo: NDArray[np.floating]) -> Pixels:
    """A map of albedo as the released benchmark stores and reads it again: smaller, in 8 bits, through JPEG.

    Ours to choose was how it is saved: fractions are cut off, quality 95 with colour at half resolution (OpenCV's
    defaults).

    Args:
        albedo: RGB, shape (256, 256, 3), nominally [0, 1].
    Returns:
        RGB, shape (224, 224, 3).
    """
    from PIL import Image

    nearest = np.arange(PATCH_PX) * len(albedo) // PATCH_PX
    stored = np.clip(albedo[nearest][:, nearest] * 255, 0, 255).astype(np.uint8)
    stream = io.BytesIO()
    Image.fromarray(stored).save(stream, "JPEG", quality=_JPEG_QUALITY, subsampling=_JPEG_CHROMA)
    with open_image(stream.getvalue()) as image:
        return np.asarray(image)
