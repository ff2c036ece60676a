"""Faces with 68 landmarks by FAN, as in the paper: the ``face-alignment`` package with its own detector.

Source: Bulat and Tzimiropoulos 2017, arXiv:1703.07332; used for skin tone by Cho et al. 2023, arXiv:2202.04053, with
two-dimensional landmarks and without the mirrored second look. The package is installed by ``pip install
face-alignment``; it brings its own OpenCV and downloads its weights when first used.
"""

from __future__ import annotations

import hashlib
import inspect
import warnings
from importlib import metadata
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verism.errors import MissingExtra, UsageError, VerismError, require
from verism.judges.batching import judge_name
from verism.judges.skin_tone.faces import Face, estimated_yaw, largest_first

__all__ = ["FanFaces"]


class FanFaces:
    """Faces by the ``face-alignment`` package: a box, its score and 68 landmarks each.

    The public attribute ``name`` holds the version of the package, its detector, and the beginning of a SHA-256 of the
    weights of both networks.

    Args:
        device: PyTorch device: ``cuda``, ``cuda:1``, ``cpu`` ... Default: the GPU if there is one.
        detector: face detector of the package: ``sfd`` (its default, and the paper's), ``blazeface`` ...

    Raises:
        MissingExtra: the package, or PyTorch, is not installed.
        UsageError: it does not start (no such detector, weights that cannot be downloaded).
    """

    def __init__(self, *, device: str | None = None, detector: str = "sfd") -> None:
        try:
            package: Any = require("face_alignment", extra="faces", purpose="landmarks by FAN")
        except MissingExtra as err:
            # It brings opencv-python, which replaces the headless edition that the extra brings, so it is in no extra.
            raise MissingExtra(
                "landmarks by FAN need 'face_alignment'. Install it with: pip install face-alignment"
            ) from err
        if device is None:
            torch = require("torch", extra="models", purpose="landmarks by FAN")
            device = "cuda" if torch.cuda.is_available() else "cpu"
        kinds = package.LandmarksType
        settings: dict[str, Any] = {"device": device, "flip_input": False, "face_detector": detector}
        if "compile" in inspect.signature(package.FaceAlignment).parameters:
            settings["compile"] = False  # costs minutes at the start, and is another arithmetic on every machine
        try:
            self._model = package.FaceAlignment(getattr(kinds, "TWO_D", None) or kinds._2D, **settings)
        except VerismError:
            raise
        except Exception as err:  # whatever its download or its detector raises
            raise UsageError(
                f"face-alignment does not start with detector {detector!r} on {device!r}: {type(err).__name__}: {err}. "
                "It downloads its weights when first used, into PyTorch's cache for hub models."
            ) from err
        try:
            version = metadata.version("face-alignment")
        except metadata.PackageNotFoundError:
            version = str(getattr(package, "__version__", "unknown"))
        self.name = judge_name("fan", f"face-alignment-{version}", self._identity(), detector=detector)

    def _identity(self) -> str:
        """Twelve hexadecimal digits of the weights of both networks."""
        digest = hashlib.sha256()
        detector: Any = getattr(self._model.face_detector, "face_detector", None)
        for network in (self._model.face_alignment_net, detector):
            if hasattr(network, "state_dict"):
                for key, tensor in sorted(network.state_dict().items()):
                    digest.update(key.encode() + b"\0" + np.ascontiguousarray(tensor.cpu().numpy()).tobytes())
        return digest.hexdigest()[:12]

    def find(self, pixels: NDArray[np.uint8]) -> list[Face]:
        """The faces of an image, RGB (H, W, 3) uint8, largest first."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="No faces were detected")  # said by the empty list
            landmarks, _, boxes = self._model.get_landmarks_from_image(np.ascontiguousarray(pixels), return_bboxes=True)
        faces = []
        for points, box in zip(landmarks or (), boxes if boxes is not None else (), strict=True):
            corners = np.asarray(box, dtype=np.float64)
            marks = np.asarray(points, dtype=np.float64)[:, :2]
            if corners[2] <= corners[0] or corners[3] <= corners[1]:
                continue
            score = float(corners[4]) if len(corners) > 4 else None
            faces.append(Face(box=corners[:4], score=score, landmarks=marks, yaw_deg=estimated_yaw(marks)))
        return largest_first(faces)
