"""The detector that comes with the package: trained on rendered scenes, run with onnxruntime, no PyTorch.

It knows the classes and colours of PaintSkills and nothing else. The file carries its own class list, input size and
card in its metadata, so a detector trained with ``verism train detector`` takes its place by its path.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from verism.errors import UsageError
from verism.inference import onnx_session
from verism.judges.batching import check_batch_size, judge_name
from verism.judges.detection.boxes import ImageBoxes, detection_table
from verism.judges.detection.decode import (
    NMS_IOU,
    NMS_IOU_OF_BEFORE,
    Found,
    calibrated,
    classes_of_both_sides,
    decode,
    parts_discounted,
    with_mirror_image,
)
from verism.judges.detection.names import LabelMap, map_labels, missing_lines
from verism.judges.detection.second_look import SecondLook, averaged, crop
from verism.options import Spelling
from verism.records import DetectionNeed

if TYPE_CHECKING:
    import polars as pl

    from verism.records import LoadedImage

__all__ = ["MIN_SCORE", "OUTPUTS", "PACKAGED", "BuiltinDetector", "Letterbox", "detector_file", "letterbox"]

OUTPUTS = ("peaks", "classes", "boxes", "colors")
"""Outputs of the network, in order; see ``decode``."""

MIN_SCORE = 0.05
PADDING = 127  # grey around images that are not square

PACKAGED = "paintskills_detector.onnx"
SECOND_LOOK = "second_look"
"""Key of the metadata under which a detector's file keeps the ONNX file of its second look, in base 64."""
SECOND_LOOK_WEIGHT = "second_look_weight"
PART_WEIGHT = "part_weight"
"""Key of the metadata with the factor of ``parts_discounted``; files without it keep such boxes as they are."""
UNSURE = "unsure"
"""Key of the metadata with the limits of ``Unsure``, a JSON object."""


@dataclass(frozen=True, kw_only=True)
class Unsure:
    """Limits, all in [0, 1], that say which boxes and images are looked at once more.

    The defaults are those of files that do not have them in their metadata: changing them would change their answers.

    Attributes:
        likely: objectness from which a box may be worth a second look.
        sure: probability of its class and of its colour from which a box needs none.
        mirror_likely: the network's objectness from which a doubtful class is worth a look at the mirror image; None:
            ``likely``.
        mirror_sure: probability of its class from which a box needs no look at the mirror image; None: ``sure``.
        undecided: the network's objectness between which it is open whether there is an object: the image's mirror
            image is looked at.
        doubted: objectness, averaged over both sides, between which a second look tells objects from what is none.
    """

    likely: float = 0.1
    sure: float = 0.93
    mirror_likely: float | None = None
    mirror_sure: float | None = None
    undecided: tuple[float, float] = (0.15, 0.45)
    doubted: tuple[float, float] = (0.1, 0.97)

    @staticmethod
    def of(metadata: Mapping[str, str]) -> Unsure:
        """The limits of a file.

        Args:
            metadata: of the file.

        Raises:
            TypeError: a limit that does not exist.
            ValueError: not JSON, or a limit outside [0, 1].
        """
        if "score_scale" not in metadata:  # the first files, calibrated with less averaging
            return Unsure(sure=0.97)
        raw = json.loads(metadata.get(UNSURE, "{}"))
        given: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in raw.items()}
        limits = Unsure(**given)
        mirror = (v for v in (limits.mirror_likely, limits.mirror_sure) if v is not None)
        if not all(0 <= v <= 1 for v in (limits.likely, limits.sure, *mirror, *limits.undecided, *limits.doubted)):
            raise ValueError(f"limits outside [0, 1]: {raw}")
        return limits

    def boxes(self, found: Found) -> np.ndarray:
        """Which boxes are likely objects that could well be of another class or colour, shape (Q,).

        Args:
            found: the boxes of an image, averaged over both sides.
        """
        doubtful = found.scores < self.sure * found.objectness
        if found.color_scores.shape[1]:
            doubtful |= found.color_scores.max(axis=1) < self.sure
        unsure: np.ndarray = doubtful & (found.objectness >= self.likely)
        return unsure

    def objects(self, found: Found) -> np.ndarray:
        """Which boxes may or may not be an object, once both sides are averaged, shape (Q,)."""
        low, high = self.doubted
        between: np.ndarray = (found.objectness > low) & (found.objectness < high)
        return between

    def image(self, found: Found, *, objects: bool = True) -> bool:
        """Whether an image is looked at from both sides.

        Args:
            found: its boxes, as the network sees them.
            objects: whether that is also for boxes that may or may not be an object.
        """
        likely = self.likely if self.mirror_likely is None else self.mirror_likely
        sure = self.sure if self.mirror_sure is None else self.mirror_sure
        unsure = (found.scores < sure * found.objectness) & (found.objectness >= likely)
        if objects:
            low, high = self.undecided
            unsure |= (found.objectness > low) & (found.objectness < high)
        return bool(unsure.any())


@dataclass(frozen=True, kw_only=True)
class Letterbox:
    """Where an image lies in the network's square input, in pixels of that input.

    Attributes:
        left: column of the image's first pixel, at least 0.
        top: row of the image's first pixel, at least 0.
        scale_x: input pixels per pixel of the image, horizontally; above 0.
        scale_y: the same vertically; it differs from ``scale_x`` only by rounding to whole pixels.
    """

    left: int
    top: int
    scale_x: float
    scale_y: float

    def to_image(self, boxes: np.ndarray) -> np.ndarray:
        """Boxes (Q, 4) of the input in pixels of the image, float32, not clipped."""
        offset = np.array([self.left, self.top] * 2, dtype=np.float32)
        scale = np.array([self.scale_x, self.scale_y] * 2, dtype=np.float32)
        return (np.asarray(boxes, dtype=np.float32) - offset) / scale


def letterbox(pixels: np.ndarray, size: int) -> tuple[np.ndarray, Letterbox]:
    """An image fitted into a square, aspect kept, centred on grey.

    Args:
        pixels: RGB, shape (H, W, 3), uint8.
        size: side of the square, in pixels.
    Returns:
        The square, shape (size, size, 3), uint8 (the image itself if it has that size), and where the image lies.
    """
    from PIL import Image

    height, width = pixels.shape[:2]
    if (height, width) == (size, size):
        return pixels, Letterbox(left=0, top=0, scale_x=1.0, scale_y=1.0)
    share = size / max(height, width)
    new_width, new_height = max(1, round(width * share)), max(1, round(height * share))
    # Pillow's bilinear filter widens with the shrinking factor, so thin parts are averaged and not skipped.
    small = Image.fromarray(np.ascontiguousarray(pixels)).resize((new_width, new_height), Image.Resampling.BILINEAR)
    left, top = (size - new_width) // 2, (size - new_height) // 2
    square = np.full((size, size, 3), PADDING, dtype=np.uint8)
    square[top : top + new_height, left : left + new_width] = np.asarray(small)
    return square, Letterbox(left=left, top=top, scale_x=new_width / width, scale_y=new_height / height)


class BuiltinDetector:
    """Boxes, classes and colours of PaintSkills objects.

    Public attributes: ``name`` is ``builtin:paintskills-detector@`` and 12 hexadecimal digits of the file's SHA-256,
    then changed options. ``classes`` and ``colors`` are those it knows, in its own order. ``size`` is the side of its
    input in pixels. ``threshold`` is the score, in [0, 1], above which a box is best believed, from the training's
    held-out images. ``card`` says how it was trained and how well it does, as written into the file.

    Args:
        path: ONNX file written by ``verism train detector``; None: the packaged one.
        threads: CPU threads of onnxruntime; None: one per core.
        min_score: lowest confidence of a reported box, in [0, 1].
        batch_size: images per batch. Results do not depend on it.
        aliases: maps a class name of the detector to a class of the suite: ``alias.bike=bicycle``. Common synonyms are
            known.

    Raises:
        UsageError: there is no such file, or it is no detector of ours.
    """

    role = DetectionNeed.role

    def __init__(
        self,
        path: Path | str | None = None,
        *,
        threads: int | None = None,
        min_score: float = MIN_SCORE,
        batch_size: int = 8,
        aliases: Annotated[Mapping[str, str] | None, Spelling("alias")] = None,
    ) -> None:
        if not 0 <= min_score <= 1:
            raise UsageError(f"min_score must lie in [0, 1], not {min_score}")
        self.batch_size = check_batch_size(batch_size)
        self.min_score = min_score
        content = detector_file(path)
        try:
            self._session = onnx_session(content, threads)
            meta = self._session.get_modelmeta().custom_metadata_map
            self.classes: tuple[str, ...] = tuple(json.loads(meta["classes"]))
            self.colors: tuple[str, ...] = tuple(json.loads(meta["colors"]))
            self.size = int(meta["input_size"])
            self.threshold = float(meta["threshold"])
            self.card: dict[str, Any] = json.loads(meta["card"])
            # Files of before hold their calibration within the network, and were calibrated with less averaging.
            self._both_sides = "score_scale" in meta
            self._unsure = Unsure.of(meta)
            self._calibration = float(meta.get("score_scale", 1.0)), float(meta.get("score_shift", 0.0))
            self._part_weight = float(meta.get(PART_WEIGHT, 1.0))
            self._second_look: SecondLook | None = None
            if SECOND_LOOK in meta:
                kept = base64.b64decode(meta[SECOND_LOOK])
                self._second_look = SecondLook(kept, threads=threads, batch_size=batch_size)
                self._second_look_weight = float(meta[SECOND_LOOK_WEIGHT])
        except UsageError:
            raise
        except Exception as err:  # onnxruntime's own errors share no public base class
            raise UsageError(
                f"{path or PACKAGED} is not a detector written by `verism train detector`: {type(err).__name__}: {err}"
            ) from err
        self._aliases = dict(aliases or {})
        self._label_map = lru_cache(maxsize=16)(self._map)
        self._missing: tuple[Sequence[str], Sequence[str]] = ((), ())
        self.name = judge_name(
            "builtin",
            "paintskills-detector",
            hashlib.sha256(content).hexdigest()[:12],
            min_score=None if min_score == MIN_SCORE else min_score,
            aliases=json.dumps(self._aliases, sort_keys=True) if self._aliases else None,
        )

    def detect(self, images: Sequence[np.ndarray]) -> list[Found]:
        """All boxes of some images with the detector's own classes and colours.

        Args:
            images: RGB, each (H, W, 3), uint8, of any sizes.
        Returns:
            Per image; boxes in its pixels, inside it.
        """
        squares, places = [], []
        for image in images:
            square, letterboxed = letterbox(image, self.size)
            squares.append(square)
            places.append(letterboxed)
        result = self._look(squares)
        both_sides = self._both_sides
        unsure = [i for i, seen in enumerate(result) if self._unsure.image(seen, objects=both_sides)]
        again = self._look([np.ascontiguousarray(squares[i][:, ::-1]) for i in unsure])
        for i, mirrored in zip(unsure, again, strict=True):
            average = with_mirror_image if both_sides else classes_of_both_sides
            result[i] = average(result[i], mirrored, self.size)
        result = [calibrated(seen, *self._calibration, min_score=self.min_score) for seen in result]
        found = [
            _inside(seen, letterboxed, image) for seen, letterboxed, image in zip(result, places, images, strict=True)
        ]
        if self._second_look is not None:
            found = self._look_again(found, images)
        return [parts_discounted(seen, self._part_weight) for seen in found]

    def _look_again(self, found: Sequence[Found], images: Sequence[np.ndarray]) -> list[Found]:
        """Boxes that are averaged with a second look, where they are unsure."""
        assert self._second_look is not None
        objects = self._second_look.knows_objects
        unsure = self._unsure
        chosen = [np.flatnonzero(unsure.boxes(seen) | (objects & unsure.objects(seen))) for seen in found]
        crops = [
            crop(image, seen.boxes[k], self._second_look.size)
            for seen, image, ks in zip(found, images, chosen, strict=True)
            for k in ks
        ]
        looked = self._second_look.look(crops)
        result, taken = [], 0
        for seen, ks in zip(found, chosen, strict=True):
            rows = looked.rows(taken, taken + len(ks))
            taken += len(ks)
            result.append(averaged(seen, ks, rows, self._second_look_weight) if len(ks) else seen)
        return result

    def _look(self, squares: Sequence[np.ndarray]) -> list[Found]:
        """All boxes of images of the network's own size, in their pixels."""
        results: list[Found] = []
        nms_iou = NMS_IOU if self._both_sides else NMS_IOU_OF_BEFORE
        for start in range(0, len(squares), self.batch_size):
            maps = self._session.run(list(OUTPUTS), {"pixels": np.stack(squares[start : start + self.batch_size])})
            results += decode(*maps, min_score=min(self.min_score, MIN_SCORE), nms_iou=nms_iou)
        return results

    def check(self, need: DetectionNeed) -> None:
        """Raise UsageError if the need asks for a class or a colour that the detector does not know."""
        if not isinstance(need, DetectionNeed):
            raise UsageError(f"{self.name} finds boxes; it cannot serve a need of {type(need).__name__}")
        found = self._label_map(need.classes, need.partial)
        self._missing = (found.missing, need.classes)
        if unknown := [c for c in need.colors if c not in self.colors]:
            raise UsageError(
                f"the built-in detector does not know the colours {', '.join(unknown)}; it knows "
                f"{', '.join(self.colors) or 'none'}. Use a suite with these, or a detector trained with yours "
                "(verism train detector)."
            )

    def summary(self) -> Sequence[str]:
        """After a run: classes that the detector does not have."""
        return missing_lines(*self._missing)

    def observe(self, images: Sequence[LoadedImage], need: DetectionNeed) -> pl.DataFrame:
        """The table ``detections`` of some images.

        A class of the detector that the need does not ask for is foreign: its boxes have no label but a score.

        Raises:
            UsageError: as ``check``.
        """
        self.check(need)
        label_map = self._label_map(need.classes, need.partial)
        tints = [self.colors.index(c) for c in need.colors]
        boxes_of_images = []
        for image, seen in zip(images, self.detect([i.pixels for i in images]), strict=True):
            labels = seen.labels
            boxes_of_images.append(
                ImageBoxes(
                    image_id=image.image_id,
                    width=image.pixels.shape[1],
                    height=image.pixels.shape[0],
                    boxes=seen.boxes,
                    class_scores=label_map.class_scores(seen.class_scores),
                    labels=label_map.suite_index(labels),
                    raw_labels=[self.classes[i] for i in labels],
                    scores=seen.scores,
                    color_scores=seen.color_scores[:, tints] if tints else None,
                )
            )
        return detection_table(boxes_of_images, judge=self.name, need=need)

    def _map(self, classes: tuple[str, ...], partial: bool = False) -> LabelMap:
        aliases = dict(self._aliases or {})
        if {"van", "car"} <= set(self.classes) and "car" in classes and "van" not in classes:
            aliases.setdefault("van", "car")  # a suite without vans means COCO's car, which includes them
        try:
            return map_labels(dict(enumerate(self.classes)), classes, aliases, partial=partial)
        except UsageError as err:
            raise UsageError(
                f"the built-in detector cannot judge this suite: {err} The built-in one knows "
                f"{', '.join(self.classes)}; `verism list judges` shows others, and `verism train detector` trains one."
            ) from err


def _inside(found: Found, place: Letterbox, image: np.ndarray) -> Found:
    """Boxes of the network's input in pixels of the image, cut at its frame."""
    height, width = image.shape[:2]
    boxes = np.clip(place.to_image(found.boxes), 0, np.array([width, height] * 2, dtype=np.float32))
    moved = Found(
        boxes=boxes,
        objectness=found.objectness,
        class_scores=found.class_scores,
        color_scores=found.color_scores,
    )
    # A box in the grey margin has no area in the image.
    return moved.take((boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1]))


def detector_file(path: Path | str | None) -> bytes:
    """The bytes of a detector's ONNX file; of the one that comes with the package for None.

    Raises:
        UsageError: there is no such file.
    """
    if path is not None:
        if not Path(path).is_file():
            raise UsageError(f"there is no detector file {path}; give the ONNX file that `verism train detector` wrote")
        return Path(path).read_bytes()
    packaged = resources.files("verism.judges.detection") / "data" / PACKAGED
    if not packaged.is_file():
        raise UsageError(
            f"this installation has no {PACKAGED}; install the wheel of verism, or train a detector "
            "(verism train detector) and name its file: builtin:FILE"
        )
    return packaged.read_bytes()
