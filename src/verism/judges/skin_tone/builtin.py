"""Faces and skin tones by the networks that come with the package: trained on rendered people, run with onnxruntime.

``BuiltinFaces`` finds faces; its network is a detector of one class, written by ``verism train faces``.
``BuiltinTones`` estimates the Monk tone of a face's skin from the face and from the light of the whole image; its
network is written by ``verism train skin-tone``. Both files carry their card in their metadata.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verism.errors import UsageError
from verism.inference import onnx_session
from verism.judges.batching import judge_name
from verism.judges.detection.builtin import PADDING, BuiltinDetector, letterbox
from verism.judges.skin_tone.faces import Face, largest_first, suppressed

__all__ = ["ESTIMATOR", "FACE_CLASS", "FINDER", "BuiltinFaces", "BuiltinTones", "face_square", "tone_inputs"]

FINDER, ESTIMATOR = "face_finder.onnx", "skin_tone_estimator.onnx"
FACE_CLASS = "face"
SAME_FACE = 0.4  # intersection over union above which two boxes are one face
TONES = 10


def packaged(name: str) -> Path:
    """A file that comes with the package.

    Raises:
        UsageError: this installation does not have it.
    """
    path = Path(str(resources.files("verism.judges.skin_tone"))) / "data" / name
    if not path.is_file():
        raise UsageError(f"this installation has no {name}; install the wheel of verism, or name a file of your own")
    return path


class BuiltinFaces:
    """Boxes of faces, from the chin to the middle of the forehead and from cheek to cheek, without landmarks.

    The image is looked at once, fitted into a square of the network's size (384 pixels for the file that comes with the
    package), so what counts is the height of a face in that square.

    Public attributes: ``name`` holds the beginning of the file's SHA-256; ``card`` says how the network was trained and
    how well it does.

    Args:
        path: ONNX file written by ``verism train faces``; None: the packaged one.
        min_score: lowest confidence of a reported face, in [0, 1]. None: the file's own, which has the fewest errors
            (missed faces and false boxes) on held-out images.
        threads: CPU threads of onnxruntime; None: onnxruntime decides.

    Raises:
        UsageError: there is no such file, or it is none of ours.
    """

    def __init__(
        self, path: Path | str | None = None, *, min_score: float | None = None, threads: int | None = None
    ) -> None:
        if min_score is not None and not 0 < min_score <= 1:
            raise UsageError(f"min_score must lie above 0 and up to 1, not {min_score}")
        file = packaged(FINDER) if path is None else Path(path)
        self._network = BuiltinDetector(file, threads=threads)
        if self._network.classes != (FACE_CLASS,):
            raise UsageError(
                f"{file} is a detector of {', '.join(self._network.classes)}, and no file of `verism train faces`"
            )
        self.card = self._network.card
        self._min_score = self._network.threshold if min_score is None else min_score
        self.name = judge_name(
            "builtin", "faces", hashlib.sha256(file.read_bytes()).hexdigest()[:12], min_score=min_score
        )

    def find(self, pixels: NDArray[np.uint8]) -> list[Face]:
        """The faces of an image, RGB (H, W, 3) uint8, largest first."""
        (found,) = self._network.detect([pixels])
        found = found.take(found.scores >= self._min_score)
        boxes, scores = found.boxes.astype(np.float64), found.scores.astype(np.float64)
        kept = suppressed(boxes, scores, SAME_FACE)
        return largest_first([Face(box=boxes[k], score=float(scores[k]), box_style="tight") for k in kept.tolist()])


# --------------------------------------------------------------------------------------------------------------------
# Tones
# --------------------------------------------------------------------------------------------------------------------
def face_square(pixels: NDArray[np.uint8], box: NDArray[np.floating], size: int, context: float) -> NDArray[np.uint8]:
    """A square about a face, with some of what surrounds it; what lies beyond the image is grey.

    Args:
        pixels: RGB, (H, W, 3), uint8.
        box: of the face: left, top, right, bottom, pixels.
        size: side of the result.
        context: side of the square as a multiple of the box's longer side.
    """
    from PIL import Image

    x0, y0, x1, y1 = (float(v) for v in box)
    side = max(2, round(context * max(x1 - x0, y1 - y0)))
    left, top = round((x0 + x1 - side) / 2), round((y0 + y1 - side) / 2)
    height, width = pixels.shape[:2]
    a, b, c, d = max(left, 0), max(top, 0), min(left + side, width), min(top + side, height)
    square = np.full((side, side, 3), PADDING, dtype=np.uint8)
    if a < c and b < d:
        square[b - top : d - top, a - left : c - left] = pixels[b:d, a:c]
    # Pillow's bilinear filter widens with the shrinking factor, so all pixels count.
    return np.asarray(Image.fromarray(square).resize((size, size), Image.Resampling.BILINEAR))


def tone_inputs(
    pixels: NDArray[np.uint8], boxes: Sequence[NDArray[np.floating]], *, face: int, scene: int, context: float
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """What the estimator sees of each face of an image: the face, (N, F, F, 3), and the image, (N, S, S, 3), uint8.

    Args:
        pixels: RGB, (H, W, 3), uint8.
        boxes: of the faces, pixels.
        face: side F of the faces in pixels.
        scene: side S of the image in pixels.
        context: see ``face_square``.
    """
    faces = np.stack([face_square(pixels, box, face, context) for box in boxes])
    whole, _ = letterbox(pixels, scene)
    return faces, np.broadcast_to(whole, (len(boxes), *whole.shape)).copy()


class BuiltinTones:
    """The Monk tone of faces, as probabilities of the ten tones.

    Public attributes: ``name`` holds the beginning of the file's SHA-256; ``card`` says how the network was trained and
    how well it does.

    Args:
        path: an ONNX file written by ``verism train skin-tone``; None: the one that comes with the package.
        threads: CPU threads of onnxruntime; None: onnxruntime decides.

    Raises:
        UsageError: there is no such file, or it is none of ours.
    """

    def __init__(self, path: Path | str | None = None, *, threads: int | None = None) -> None:
        file = packaged(ESTIMATOR) if path is None else Path(path)
        if not file.is_file():
            raise UsageError(f"there is no file {file}; give the ONNX file that `verism train skin-tone` wrote")
        content = file.read_bytes()
        try:
            self._session = onnx_session(content, threads)
            meta = self._session.get_modelmeta().custom_metadata_map
            shape = json.loads(meta["skin_tone"])
            self._face, self._scene = int(shape["face"]), int(shape["scene"])
            self._context = float(shape["context"])
            self.card: dict[str, Any] = json.loads(meta["card"])
        except UsageError:
            raise
        except Exception as err:  # onnxruntime's own errors share no public base class
            raise UsageError(
                f"{file} is no estimator written by `verism train skin-tone`: {type(err).__name__}: {err}"
            ) from err
        self.name = judge_name("estimated", "skin-tone", hashlib.sha256(content).hexdigest()[:12])

    def estimate(self, pixels: NDArray[np.uint8], faces: Sequence[Face]) -> NDArray[np.float64]:
        """Probabilities of the tones 1 to 10 of each face, shape (N, 10); each row sums to 1.

        Args:
            pixels: the image, RGB (H, W, 3), uint8.
            faces: its faces.
        """
        if not faces:
            return np.zeros((0, TONES))
        seen = tone_inputs(
            pixels, [face.box for face in faces], face=self._face, scene=self._scene, context=self._context
        )
        (chances,) = self._session.run(["tones"], dict(zip(("faces", "scenes"), seen, strict=True)))
        return np.asarray(chances, dtype=np.float64)
