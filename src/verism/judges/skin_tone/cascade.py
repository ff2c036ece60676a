"""Boxes of faces by OpenCV's cascades of Haar features: old and coarse, but in its package: nothing to download.

Source: Viola and Jones 2001; Lienhart and Maydt 2002, whose trained cascades come with OpenCV. They know upright faces
from the front, and profiles. What they find depends on contrast within the face, and so on how light its skin is: on
rendered heads they miss many dark faces, fewer since a picture is also looked at brightened and as a negative
(docs/skin-tone.md has the numbers). A detector trained on faces of all tones (``builtin``, ``networks``) is the better
choice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from verism.errors import MissingExtra, UsageError, require
from verism.judges.batching import judge_name
from verism.judges.skin_tone.faces import Face, largest_first, suppressed

__all__ = ["EXTRA", "FRONTAL", "PASSES", "PROFILE", "CascadeFaces", "Pass"]

EXTRA = "faces"
"""The extra of the package that brings OpenCV."""

FRONTAL = "haarcascade_frontalface_alt2"
PROFILE = "haarcascade_profileface"

Pass = Literal["plain", "bright", "negative"]
PASSES: tuple[Pass, ...] = get_args(Pass)
"""Ways an image is looked at. ``bright``: its grey values times three, as if exposed longer, for dark skin and shadow.
``negative``: white is black, for eyes, teeth and brows that are lighter than dark skin."""

BRIGHTER = 3

MAX_SIDE = 800  # pixels; larger images are looked at this large, which finds all but their smallest faces
SAME_FACE = 0.3  # intersection over union above which boxes of two passes are one face


class CascadeFaces:
    """Faces by cascades: square boxes from brow to chin, without landmarks.

    The public attribute ``name`` holds the beginning of the SHA-256 of the cascades. A face's ``score`` is the number
    of windows that agree.

    Args:
        passes: versions of the image to search: ``plain``, ``bright`` (grey values times three, for dark skin and
            shadow), ``negative`` (inverted, for features lighter than dark skin).
        profiles: also find faces in profile, which are reported as such and not measured.
        min_neighbors: number of overlapping detections that make a face, at least 1; half as many more are required in
            passes after the first. Higher values miss faces, lower ones invent them.
        scale_factor: ratio of successive window sizes, above 1 and at most 2.
        max_side: longer side in pixels, at least 64, to which larger images are reduced before the search.

    Raises:
        UsageError: an option outside its range.
        MissingExtra: OpenCV is not installed, or without its cascades (version 5 has none).
    """

    def __init__(
        self,
        *,
        passes: Sequence[Pass] = PASSES,
        profiles: bool = True,
        min_neighbors: int = 5,
        scale_factor: float = 1.1,
        max_side: int = MAX_SIDE,
    ) -> None:
        if unknown := sorted(set(passes) - set(PASSES)):
            raise UsageError(f"passes must be of {', '.join(PASSES)}, joined by +; got {', '.join(unknown)}")
        if not passes:
            raise UsageError(f"passes must name at least one of {', '.join(PASSES)}")
        if min_neighbors < 1:
            raise UsageError(f"min_neighbors must be at least 1, not {min_neighbors}")
        if not 1 < scale_factor <= 2:
            raise UsageError(f"scale_factor must be above 1 and at most 2, not {scale_factor}")
        if max_side < 64:
            raise UsageError(f"max_side must be at least 64 pixels, not {max_side}")
        self._cv2 = _opencv()
        self._passes = tuple(name for name in PASSES if name in passes)
        self._min_neighbors, self._scale_factor, self._max_side = min_neighbors, scale_factor, max_side
        digest = hashlib.sha256()
        self._frontal = self._load(FRONTAL, digest)
        self._profile = self._load(PROFILE, digest) if profiles else None
        self.name = judge_name(
            "cascade",
            FRONTAL.removeprefix("haarcascade_"),
            digest.hexdigest()[:12],
            passes="+".join(self._passes),
            profiles=None if profiles else "no",
            min_neighbors=None if min_neighbors == 5 else min_neighbors,
            scale_factor=None if scale_factor == 1.1 else scale_factor,
            max_side=None if max_side == MAX_SIDE else max_side,
        )

    def _load(self, cascade: str, digest: Any) -> Any:
        path = Path(self._cv2.data.haarcascades) / f"{cascade}.xml"
        loaded = self._cv2.CascadeClassifier(str(path))
        if loaded.empty():
            raise UsageError(f"OpenCV cannot read its own {path.name}; install opencv-python-headless again")
        digest.update(path.read_bytes())
        return loaded

    def find(self, pixels: NDArray[np.uint8]) -> list[Face]:
        """The faces of an image, RGB (H, W, 3) uint8, largest first."""
        cv2 = self._cv2
        height, width = pixels.shape[:2]
        grey = cv2.cvtColor(np.ascontiguousarray(pixels), cv2.COLOR_RGB2GRAY)
        share = min(1.0, self._max_side / max(height, width))
        if share < 1:
            size = (max(1, round(width * share)), max(1, round(height * share)))
            grey = cv2.resize(grey, size, interpolation=cv2.INTER_AREA)
        scale = np.array([width / grey.shape[1], height / grey.shape[0]] * 2)
        boxes: list[tuple[float, ...]] = []
        scores: list[float] = []
        sideways: list[bool] = []

        def add(found: list[tuple[tuple[int, ...], int]], side: bool) -> None:
            for (x, y, w, h), windows in found:
                boxes.append((x, y, x + w, y + h))
                scores.append(float(windows))
                sideways.append(side)

        for k, name in enumerate(self._passes):
            add(self._search(self._frontal, _as_seen(grey, name), extra=k > 0), side=False)
        if self._profile is not None:
            # The cascade knows faces that look to the left; the others are looked for in the mirror.
            add(self._search(self._profile, grey), side=True)
            mirrored = self._search(self._profile, np.ascontiguousarray(grey[:, ::-1]))
            add([((grey.shape[1] - x - w, y, w, h), n) for (x, y, w, h), n in mirrored], side=True)
        if not boxes:
            return []
        corners, sure = np.array(boxes, dtype=np.float64), np.array(scores)
        # A face seen from the front by one pass and from the side by another can be measured: front goes first.
        order = np.array([s if side else s + 1e6 for s, side in zip(sure, sideways, strict=True)])
        kept = suppressed(corners, order, SAME_FACE)
        return largest_first(
            [
                Face(box=corners[k] * scale, score=float(sure[k]), side_view=sideways[k], box_style="square")
                for k in kept.tolist()
            ]
        )

    def _search(
        self, cascade: Any, grey: NDArray[np.uint8], *, extra: bool = False
    ) -> list[tuple[tuple[int, ...], int]]:
        window = cascade.getOriginalWindowSize()
        if grey.shape[0] < window[1] or grey.shape[1] < window[0]:
            return []
        needed = self._min_neighbors + self._min_neighbors // 2 if extra else self._min_neighbors
        result, windows = cascade.detectMultiScale2(grey, scaleFactor=self._scale_factor, minNeighbors=needed)
        return [(tuple(int(v) for v in box), int(n)) for box, n in zip(result, np.ravel(windows), strict=True)]


def _as_seen(grey: NDArray[np.uint8], name: str) -> NDArray[np.uint8]:
    if name == "bright":
        return (np.minimum(grey, 255 // BRIGHTER) * BRIGHTER).astype(np.uint8)
    return np.asarray(255 - grey, dtype=np.uint8) if name == "negative" else grey


def _opencv() -> Any:
    cv2 = require("cv2", extra=EXTRA, purpose="finding faces by cascades")
    if not hasattr(cv2, "CascadeClassifier"):
        raise MissingExtra(
            f"OpenCV {cv2.__version__} has no cascades any more. Install version 4 with: pip install 'verism[{EXTRA}]'"
        )
    return cv2
