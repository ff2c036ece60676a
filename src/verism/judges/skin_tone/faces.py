"""Faces as judges of skin tone see them: where one is, how sure its finder was, and which way it looks.

A finder is anything with a ``name`` and ``find``: ``builtin`` (boxes, by the network that comes with the package),
``cascade`` (boxes, by OpenCV), ``networks`` (detectors in ONNX files: five landmarks) and ``alignment`` (68 landmarks).

Landmarks are ordered as they lie in an image of an upright face, from the image's left to its right. Five: the eyes,
the tip of the nose, the corners of the mouth. 68: the order of the iBUG 300-W annotations (jaw 0-16, brows 17-26, nose
27-35, eyes 36-47, mouth 48-67).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "NOSE_PROTRUSION",
    "BoxStyle",
    "Face",
    "FaceFinder",
    "estimated_yaw",
    "five_points",
    "largest_first",
    "suppressed",
]

Floats = NDArray[np.floating]

BoxStyle = Literal["square", "tight", "picture"]
"""What a box without landmarks stands for: the square that cascades are trained on (brows to chin, with air at both
sides), a rectangle from hairline to chin and ear to ear, or a whole image in which nobody looked for a face."""

NOSE_PROTRUSION = 0.9
"""How far the tip of the nose stands before the plane of the eyes, in halves of the distance of the pupils: about 28 mm
to 31 mm in adults. The angle it gives is good for telling frontal faces from turned ones, not for more."""

# Eyes nearer to each other than this share of the distance from eyes to mouth: one eye hides behind the nose.
_SIDE_VIEW = 0.15


@dataclass(frozen=True, kw_only=True, eq=False)
class Face:
    """A face in an image.

    Attributes:
        box: left, top, right, bottom in pixels, shape (4,); it may reach beyond the image.
        score: how sure the finder is, on its own scale; None if it does not tell.
        landmarks: shape (5, 2) or (68, 2), x and y in pixels, in the order the module describes; None if the finder
            gives a box only.
        yaw_deg: degrees that the face is turned from the camera, positive to the image's right; None if unknown.
        side_view: the finder knows it as a profile, without an angle.
        box_style: what the box encloses, where there are no landmarks.
    Raises:
        ValueError: a box or landmarks of another shape, or not finite, or a box without area.
    """

    box: Floats
    score: float | None = None
    landmarks: Floats | None = None
    yaw_deg: float | None = None
    side_view: bool = False
    box_style: BoxStyle = "tight"

    def __post_init__(self) -> None:
        if self.box.shape != (4,) or not np.isfinite(self.box).all():
            raise ValueError(f"the box of a face is four finite numbers, got {self.box!r}")
        if self.box[2] <= self.box[0] or self.box[3] <= self.box[1]:
            raise ValueError(f"the box of a face is left, top, right, bottom with an area, got {self.box.tolist()}")
        if self.landmarks is not None:
            if self.landmarks.shape not in ((5, 2), (68, 2)):
                raise ValueError(f"landmarks of a face have shape (5, 2) or (68, 2), got {self.landmarks.shape}")
            if not np.isfinite(self.landmarks).all():
                raise ValueError("landmarks of a face must be finite numbers")

    @property
    def side(self) -> float:
        """The shorter side of the box in pixels."""
        return float(min(self.box[2] - self.box[0], self.box[3] - self.box[1]))

    @property
    def area(self) -> float:
        """Of the box, in pixels."""
        return float((self.box[2] - self.box[0]) * (self.box[3] - self.box[1]))


class FaceFinder(Protocol):
    """Finds the faces of one image, the largest first.

    ``name`` identifies weights and every setting that changes the result; it is part of the judge's name.
    """

    name: str

    def find(self, pixels: NDArray[np.uint8]) -> list[Face]: ...


def five_points(landmarks: Floats) -> NDArray[np.float64]:
    """Eyes, tip of the nose and corners of the mouth, (5, 2), of five or 68 landmarks.

    Raises:
        ValueError: another number of landmarks.
    """
    points = np.asarray(landmarks, dtype=np.float64)
    if points.shape == (5, 2):
        return points
    if points.shape == (68, 2):
        return np.stack([points[36:42].mean(axis=0), points[42:48].mean(axis=0), points[30], points[48], points[54]])
    raise ValueError(f"landmarks of a face have shape (5, 2) or (68, 2), got {points.shape}")


def estimated_yaw(landmarks: Floats) -> float:
    """Degrees that a face is turned from the camera, positive to the image's right, in [-90, 90].

    The tip of the nose leaves the midline of eyes and mouth by p sin(yaw), and the eyes keep 2 h cos(yaw) of their
    distance, so the offset in distances of the eyes is tan(yaw) p / 2h, with p / h = ``NOSE_PROTRUSION``. The axes
    follow the face, so a head tilted to its shoulder gives the same angle.

    Args:
        landmarks: (5, 2) or (68, 2).

    >>> round(estimated_yaw(np.array([[0, 0], [2, 0], [1.4, 1.1], [0.4, 2], [1.6, 2]])))  # atan(2 x 0.2 / 0.9)
    24
    """
    left, right, nose, *mouth = five_points(landmarks)
    across, middle = right - left, (left + right) / 2
    down = (mouth[0] + mouth[1]) / 2 - middle
    length = float(np.hypot(*down))
    # Twice the area of the triangle of eyes and mouth, by its height: the distance of the eyes across the midline.
    width = float(across[0] * down[1] - across[1] * down[0]) / length if length > 0 else 0.0
    offset = nose - middle
    aside = float(offset[0] * down[1] - offset[1] * down[0]) / length if length > 0 else 0.0
    if width <= _SIDE_VIEW * length:
        return math.copysign(90.0, aside)
    return math.degrees(math.atan(2 * aside / (NOSE_PROTRUSION * width)))


def largest_first(faces: Sequence[Face]) -> list[Face]:
    """Faces by area of their boxes; of equal ones the surer, then the upper, then the left one first."""
    return sorted(faces, key=lambda f: (-f.area, -(f.score or 0.0), float(f.box[1]), float(f.box[0])))


def suppressed(boxes: Floats, scores: Floats, overlap: float) -> NDArray[np.intp]:
    """Which boxes stay when of any two that overlap too much the less sure one goes.

    Args:
        boxes: left, top, right and bottom of each, in pixels, shape (N, 4).
        scores: confidence of each box, higher is surer, shape (N,).
        overlap: intersection over union above which two boxes are one face, in [0, 1].
    Returns:
        Indices of those kept, the surest first; of equally sure ones the first.
    """
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    waiting = np.argsort(-scores, kind="stable")
    kept: list[int] = []
    while len(waiting):
        best, rest = int(waiting[0]), waiting[1:]
        kept.append(best)
        shared = np.clip(
            np.minimum(boxes[rest, 2:], boxes[best, 2:]) - np.maximum(boxes[rest, :2], boxes[best, :2]), 0, None
        )
        inter = shared[:, 0] * shared[:, 1]
        union = np.maximum(area[rest] + area[best] - inter, 1e-12)
        waiting = rest[inter / union <= overlap]
    return np.array(kept, dtype=np.intp)
