"""Face detectors in ONNX files, run by onnxruntime: only the file is needed, no code of the detector.

The layout is told from the outputs. Known ones:

* YuNet (``face_detection_yunet_2023mar.onnx`` of the OpenCV model zoo): ``cls_8``, ``obj_8``, ``bbox_8``, ``kps_8`` and
  the same at strides 16 and 32; one prediction per cell. Wu, Peng and Yu 2023.
* SCRFD (``scrfd_10g_bnkps.onnx``, ``det_10g.onnx`` ... of InsightFace): scores, boxes and, in the ``kps`` editions,
  landmarks at strides 8, 16 and 32, two predictions per cell. Guo et al. 2021, arXiv:2105.04714.
* UltraFace (``version-RFB-320.onnx`` ...): ``scores`` (1, N, 2) and ``boxes`` (1, N, 4); no landmarks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from verism.errors import UsageError
from verism.inference import onnx_session
from verism.judges.batching import judge_name, resized
from verism.judges.skin_tone.faces import Face, estimated_yaw, largest_first, suppressed

__all__ = ["LAYOUTS", "STRIDES", "Layout", "OnnxFaces", "decode_scrfd", "decode_ultraface", "decode_yunet"]

Floats = NDArray[np.float64]
Layout = Literal["yunet", "scrfd", "ultraface"]

STRIDES = (8, 16, 32)
_YUNET = tuple(f"{kind}_{stride}" for kind in ("cls", "obj", "bbox", "kps") for stride in STRIDES)


@dataclass(frozen=True)
class Decoded:
    """What a network says of one input, in pixels of it: (N, 4) boxes, (N,) scores, (N, 5, 2) landmarks or None."""

    boxes: Floats
    scores: Floats
    landmarks: Floats | None


@dataclass(frozen=True)
class _Habits:
    """How a layout wants its input, and the thresholds of its authors' own demonstrations."""

    bgr: bool
    mean: float
    std: float
    min_score: float
    overlap: float


LAYOUTS: Mapping[Layout, _Habits] = {
    "yunet": _Habits(bgr=True, mean=0.0, std=1.0, min_score=0.6, overlap=0.3),
    "scrfd": _Habits(bgr=False, mean=127.5, std=128.0, min_score=0.5, overlap=0.4),
    "ultraface": _Habits(bgr=False, mean=127.0, std=128.0, min_score=0.7, overlap=0.3),
}


# --------------------------------------------------------------------------------------------------------------------
# Outputs to boxes
# --------------------------------------------------------------------------------------------------------------------
def _cells(height: int, width: int, stride: int, per_cell: int) -> Floats:
    """Column and row of every prediction, (N, 2): row by row, predictions of a cell one after the other."""
    rows, cols = np.mgrid[: height // stride, : width // stride]
    return np.repeat(np.stack([cols.ravel(), rows.ravel()], axis=1).astype(np.float64), per_cell, axis=0)


def decode_yunet(outputs: Mapping[str, NDArray[Any]], height: int, width: int) -> Decoded:
    """YuNet: centres and landmarks in cells from the cell's corner, sizes as logarithms, score sqrt(cls x obj).

    Args:
        outputs: of the network, by name: ``cls``, ``obj``, ``bbox`` and ``kps``, each followed by ``_`` and the
            stride, such as ``cls_8``.
        height: of the input, in pixels, a multiple of 32.
        width: of the input, in pixels, a multiple of 32.
    """
    boxes, scores, landmarks = [], [], []
    for stride in STRIDES:
        cells = _cells(height, width, stride, 1)
        n = len(cells)
        cls, obj = (np.clip(outputs[f"{kind}_{stride}"].reshape(n), 0, 1) for kind in ("cls", "obj"))
        box = outputs[f"bbox_{stride}"].reshape(n, 4).astype(np.float64)
        centre, half = (cells + box[:, :2]) * stride, np.exp(np.minimum(box[:, 2:], 20.0)) * stride / 2
        boxes.append(np.concatenate([centre - half, centre + half], axis=1))
        scores.append(np.sqrt(cls.astype(np.float64) * obj))
        points = outputs[f"kps_{stride}"].reshape(n, 5, 2).astype(np.float64)
        landmarks.append((points + cells[:, None]) * stride)
    return Decoded(np.concatenate(boxes), np.concatenate(scores), np.concatenate(landmarks))


def decode_scrfd(outputs: Sequence[NDArray[Any]], height: int, width: int) -> Decoded:
    """SCRFD: distances to the four sides and offsets of landmarks in strides from the cell's corner.

    Args:
        outputs: the network's outputs for one input, in any order: told apart by their shapes.
        height: of the input, in pixels, a multiple of 32.
        width: of the input, in pixels, a multiple of 32.
    Raises:
        UsageError: other shapes.
    """
    by_kind: dict[int, dict[int, NDArray[Any]]] = {1: {}, 4: {}, 10: {}}
    for output in outputs:
        flat = output.reshape(-1, output.shape[-1])
        if flat.shape[1] not in by_kind:
            raise UsageError(f"an output of shape {output.shape} is neither scores, boxes nor landmarks of SCRFD")
        by_kind[flat.shape[1]][len(flat)] = flat
    with_points = bool(by_kind[10])
    boxes, scores, landmarks = [], [], []
    for stride in STRIDES:
        n = 2 * (height // stride) * (width // stride)
        if n not in by_kind[1] or n not in by_kind[4] or (with_points and n not in by_kind[10]):
            raise UsageError(
                f"SCRFD has {n} scores and boxes at stride {stride} of an input of {width} x {height}; this network's "
                f"outputs are {', '.join(str(o.shape) for o in outputs)}"
            )
        at = np.repeat(_cells(height, width, stride, 1), 2, axis=0) * stride
        reach = by_kind[4][n].astype(np.float64) * stride
        boxes.append(np.concatenate([at - reach[:, :2], at + reach[:, 2:]], axis=1))
        scores.append(by_kind[1][n][:, 0].astype(np.float64))
        if with_points:
            landmarks.append(at[:, None] + by_kind[10][n].reshape(n, 5, 2).astype(np.float64) * stride)
    return Decoded(np.concatenate(boxes), np.concatenate(scores), np.concatenate(landmarks) if landmarks else None)


def decode_ultraface(scores: NDArray[Any], boxes: NDArray[Any], height: int, width: int) -> Decoded:
    """UltraFace: probabilities of background and face, and corners in shares of the input."""
    size = np.array([width, height, width, height], dtype=np.float64)
    return Decoded(boxes.reshape(-1, 4) * size, scores.reshape(-1, 2)[:, 1].astype(np.float64), None)


# --------------------------------------------------------------------------------------------------------------------
# The finder
# --------------------------------------------------------------------------------------------------------------------
class OnnxFaces:
    """Faces by a detector in an ONNX file, with five landmarks where it gives them.

    An image is fitted into the network's input, aspect kept, at its upper left, on black. It is looked at once more at
    half that size: detectors are trained on faces among others, and miss one that fills the image.

    Public attributes: ``name`` holds the file's name, the beginning of its SHA-256, its layout, and settings;
    ``layout`` is the layout of the network's outputs.

    Args:
        path: ONNX file of YuNet, SCRFD or UltraFace.
        min_score: lowest confidence of a reported face, in [0, 1]. None: that of the network's family.
        size: longer side of the network's input in pixels, a multiple of 32; only for networks that accept any size.
        half: also search the image at half its size, where large faces are found.
        threads: CPU threads of onnxruntime; None: onnxruntime decides.

    Raises:
        UsageError: no such file, not a network, or of an unknown layout.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        min_score: float | None = None,
        size: int | None = None,
        half: bool = True,
        threads: int | None = None,
    ) -> None:
        path = Path(path)
        try:
            content = path.read_bytes()
        except OSError as err:
            raise UsageError(f"{path}: cannot be read ({err.strerror}); expected a face detector in ONNX") from None
        try:
            self._session = onnx_session(content, threads)
        except UsageError:
            raise
        except Exception as err:  # onnxruntime's own errors share no public base class
            raise UsageError(f"{path} is not a network that onnxruntime can run: {err}") from err
        inputs = self._session.get_inputs()
        self._outputs = [output.name for output in self._session.get_outputs()]
        if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].shape[1] != 3:
            text = "; ".join(f"{i.name} {i.shape}" for i in inputs)
            raise UsageError(f"{path}: expected one input of shape (1, 3, height, width), got {text}")
        self._input = inputs[0].name
        fixed = [side if isinstance(side, int) and side > 0 else None for side in inputs[0].shape[2:]]
        self.layout: Layout = self._told_layout(path)
        if None not in fixed:
            if size is not None and size not in fixed:
                raise UsageError(f"{path} takes inputs of {fixed[1]} x {fixed[0]} only; leave out size={size}")
            self._size: tuple[int, int] | int = (int(fixed[0] or 0), int(fixed[1] or 0))
        else:
            if size is not None and (size < 32 or size % 32):
                raise UsageError(f"size must be a multiple of 32 pixels, at least 32; not {size}")
            self._size = size or 640
        habits = LAYOUTS[self.layout]
        self._min_score = habits.min_score if min_score is None else min_score
        if not 0 < self._min_score <= 1:
            raise UsageError(f"min_score must lie above 0 and up to 1, not {min_score}")
        self._half = half
        try:
            self.find(np.zeros((64, 64, 3), dtype=np.uint8))
        except UsageError as err:
            raise UsageError(f"{path}: {err}") from None
        except Exception as err:  # a foreign network's outputs can be of any shape, and decoding them fail in any way
            raise UsageError(f"{path} does not behave like {self.layout}: {type(err).__name__}: {err}") from err
        self.name = judge_name(
            "onnx",
            path.name,
            hashlib.sha256(content).hexdigest()[:12],
            layout=self.layout,
            min_score=self._min_score,
            size=self._size if isinstance(self._size, int) else None,
            half=None if half else "no",
        )

    def _told_layout(self, path: Path) -> Layout:
        names, shapes = set(self._outputs), [tuple(o.shape) for o in self._session.get_outputs()]
        if set(_YUNET) <= names:
            return "yunet"
        last = sorted(str(shape[-1]) for shape in shapes if shape)
        if last in (["1"] * 3 + ["4"] * 3, ["1"] * 3 + ["10"] * 3 + ["4"] * 3):
            return "scrfd"
        if last == ["2", "4"]:
            return "ultraface"
        text = "; ".join(f"{name} {shape}" for name, shape in zip(self._outputs, shapes, strict=True))
        raise UsageError(
            f"{path}: no face detector of a known layout. Expected YuNet (outputs cls_8, obj_8, bbox_8, kps_8 ...), "
            f"SCRFD (three each of last size 1, 4 and perhaps 10) or UltraFace (last sizes 2 and 4). It has: {text}"
        )

    def find(self, pixels: NDArray[np.uint8]) -> list[Face]:
        """The faces of an image, RGB (H, W, 3) uint8, largest first."""
        looks = [self._look(pixels, share) for share in ((1.0, 0.5) if self._half else (1.0,))]
        boxes = np.concatenate([look.boxes for look in looks])
        scores = np.concatenate([look.scores for look in looks])
        points = None
        if looks[0].landmarks is not None:
            points = np.concatenate([look.landmarks for look in looks if look.landmarks is not None])
        kept = suppressed(boxes, scores, LAYOUTS[self.layout].overlap)
        faces = []
        for k in kept.tolist():
            landmarks = None if points is None else points[k]
            faces.append(
                Face(
                    box=boxes[k],
                    score=float(scores[k]),
                    landmarks=landmarks,
                    yaw_deg=None if landmarks is None else estimated_yaw(landmarks),
                )
            )
        return largest_first(faces)

    def _look(self, pixels: NDArray[np.uint8], share: float) -> Decoded:
        """Faces sure enough, in pixels of the image, when it takes this share of the input."""
        habits = LAYOUTS[self.layout]
        height, width = pixels.shape[:2]
        if isinstance(self._size, tuple):
            canvas_h, canvas_w = self._size
            factor = min(canvas_h / height, canvas_w / width) * share
        else:
            factor = self._size * share / max(height, width)
        new_h, new_w = max(1, round(height * factor)), max(1, round(width * factor))
        if not isinstance(self._size, tuple):
            canvas_h, canvas_w = -(-new_h // 32) * 32, -(-new_w // 32) * 32
        canvas = np.zeros((canvas_h, canvas_w, 3), dtype=np.uint8)
        canvas[:new_h, :new_w] = resized(pixels, width=new_w, height=new_h)
        values = ((canvas[..., ::-1] if habits.bgr else canvas).astype(np.float32) - habits.mean) / habits.std
        values = np.ascontiguousarray(values.transpose(2, 0, 1)[None], dtype=np.float32)
        arrays = self._session.run(self._outputs, {self._input: values})
        if self.layout == "yunet":
            decoded = decode_yunet(dict(zip(self._outputs, arrays, strict=True)), canvas_h, canvas_w)
        elif self.layout == "scrfd":
            decoded = decode_scrfd(arrays, canvas_h, canvas_w)
        else:
            scores, boxes = sorted(arrays, key=lambda a: int(a.shape[-1]))
            decoded = decode_ultraface(scores, boxes, canvas_h, canvas_w)
        boxes, scale = decoded.boxes, np.array([width / new_w, height / new_h])
        complete = np.isfinite(boxes).all(axis=1) & (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
        if decoded.landmarks is not None:
            complete &= np.isfinite(decoded.landmarks).all(axis=(1, 2))
        sure = np.flatnonzero(complete & (decoded.scores >= self._min_score))
        points = None if decoded.landmarks is None else decoded.landmarks[sure] * scale
        return Decoded(boxes[sure] * np.tile(scale, 2), decoded.scores[sure], points)
