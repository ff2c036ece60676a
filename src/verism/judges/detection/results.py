"""Boxes found elsewhere: a table of image, label, score and corners.

verism run compbench --images DIR --detector results:boxes.csv
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np

from verism.errors import UsageError
from verism.files import read_rows
from verism.judges.batching import content_id
from verism.judges.detection.boxes import ImageBoxes, detection_table
from verism.judges.detection.names import LabelMap, map_labels, missing_lines
from verism.judges.result_files import ImageNames, image_name, results_name
from verism.options import Spelling
from verism.records import DetectionNeed

if TYPE_CHECKING:
    import polars as pl

    from verism.records import LoadedImage

__all__ = ["DetectionResults"]

EDGES = ("x0", "y0", "x1", "y1")


class DetectionResults:
    """The boxes of a file, as if its detector looked at the images now.

    Args:
        path: CSV, JSON Lines or JSON list with ``image_id`` (an image's id, file name or number), ``label``, ``score``
            in [0, 1], and ``x0``, ``y0``, ``x1``, ``y1`` in pixels. A row with ``image_id`` alone means that nothing
            was found.
        aliases: maps a label in the file to a class of the suite: ``alias.bike=bicycle``.
        absent: what an image means that the file does not name. refused: an error, as it may never have been looked at.
            empty: nothing was found there, as in files that only have rows for boxes.
        judge: name and version of who judged. Runs whose files declare the same judge can be compared. Default: not
            known, and the file's content stands for it.
    Raises:
        UsageError: no such file, nothing in it, or a row that does not fit.
    """

    role = DetectionNeed.role

    def __init__(
        self,
        path: Path,
        *,
        aliases: Annotated[Mapping[str, str] | None, Spelling("alias")] = None,
        absent: Literal["refused", "empty"] = "refused",
        judge: str = "",
    ) -> None:
        self._boxes: dict[str, list[tuple[str, float, tuple[float, ...]]]] = {}
        for row in read_rows(path, "image_id, label, score, x0, y0, x1 and y1"):
            name = image_name(row, ("image_id", "file_name"), row.where)
            if all(row.get(column) in (None, "") for column in ("label", "score", *EDGES)):
                self._boxes.setdefault(name, [])  # looked at, and nothing found
                continue
            label = row.get("label")
            if not isinstance(label, str) or not label.strip():
                raise UsageError(f"{row.where}: expected a label, got {label!r}")
            score = _number(row, "score", row.where)
            if not 0 <= score <= 1:
                raise UsageError(f"{row.where}: score must lie in [0, 1], got {score:g}")
            box = tuple(_number(row, edge, row.where) for edge in EDGES)
            if box[0] > box[2] or box[1] > box[3]:
                raise UsageError(f"{row.where}: a box has x0 <= x1 and y0 <= y1, got {box}")
            self._boxes.setdefault(name, []).append((label.strip(), score, box))
        if not any(self._boxes.values()):
            raise UsageError(f"{path} holds no boxes")
        self._names = ImageNames(self._boxes)
        labels = dict.fromkeys(label for boxes in self._boxes.values() for label, _, _ in boxes)
        self._labels = dict(enumerate(labels))
        self._numbers = {label: number for number, label in self._labels.items()}
        self._aliases = dict(aliases or {})
        self._missing: tuple[Sequence[str], Sequence[str]] = ((), ())
        self._silent = 0
        self._path = path
        also = ",".join(f"{a}={b}" for a, b in sorted(self._aliases.items()))
        self._absent = absent
        options = [f"aliases={also}"] if also else []
        self.name = results_name(path, content_id(path), *options, judge=judge)

    def _map(self, need: DetectionNeed) -> LabelMap:
        # A class that was looked for and never found is not in the file, and no fault of it.
        return map_labels(self._labels, need.classes, self._aliases, partial=True)

    def check(self, need: DetectionNeed) -> None:
        """Raise UsageError if none of the file's labels is a class of the need."""
        self._missing = (self._map(need).missing, need.classes)

    def observe(self, images: Sequence[LoadedImage], need: DetectionNeed) -> pl.DataFrame:
        """The boxes of images, as table ``detections``; the file's label is ``raw_label``.

        Raises:
            UsageError: an image that the file does not name, unless that means that it is empty.
        """
        label_map = self._map(need)
        found = []
        for image in images:
            name = self._names.find(image)
            if name is None and self._absent == "refused":
                raise UsageError(
                    f"{self._path.name} does not name the image {image.image_id}. If nothing was found there, add a "
                    "row with its image_id alone; if the file only has rows for boxes: "
                    f"results:{self._path}?absent=empty"
                )
            self._silent += name is None
            boxes = [] if name is None else self._boxes[name]
            numbers = np.array([self._numbers[label] for label, _, _ in boxes], dtype=np.int64)
            scores = np.array([score for _, score, _ in boxes], dtype=np.float32)
            of_label = np.zeros((len(boxes), len(self._labels)), dtype=np.float32)
            of_label[np.arange(len(boxes)), numbers] = scores
            height, width = image.pixels.shape[:2]
            found.append(
                ImageBoxes(
                    image_id=image.image_id,
                    width=width,
                    height=height,
                    boxes=np.array([box for _, _, box in boxes], dtype=np.float32).reshape(-1, 4),
                    class_scores=label_map.class_scores(of_label),
                    labels=label_map.suite_index(numbers),
                    raw_labels=[label for label, _, _ in boxes],
                    scores=scores,
                )
            )
        return detection_table(found, judge=self.name, need=need)

    def summary(self) -> Sequence[str]:
        """After a run: images without boxes, and classes that no box has."""
        lines = missing_lines(*self._missing)
        if self._silent:
            lines.append(f"{self._path.name}: no boxes for {self._silent:,} images, which count as empty")
        return lines


def _number(row: Mapping[str, Any], name: str, where: str) -> float:
    value = row.get(name)
    try:
        number = math.nan if isinstance(value, bool) or value is None else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"{where}: {name} must be a number, got {value!r}")
    return number
