"""What rules see of an image: the boxes of a detector, as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verism.suites.paintskills.vocabulary import plural

__all__ = ["Boxes", "Decision", "Expected", "Thresholds", "words_for"]


@dataclass(frozen=True, eq=False)
class Boxes:
    """The detections in one image, most confident first (ties in the detector's order).

    Attributes:
        labels: suite label per box, None for a class the suite does not ask for.
        scores: confidence of the most probable class, shape (Q,).
        center: box centres as fractions of the image's width and height, shape (Q, 2).
        extent: box sizes as fractions of the image's width and height, shape (Q, 2).
        pixel_center: box centres in pixels, shape (Q, 2).
        pixel_extent: box sizes in pixels, shape (Q, 2).
        class_scores: confidence per class of the suite, shape (Q, K).
        classes: the K class names.
        colors: most probable colour per box, None where it was not judged; None for a detector that judges no colours.
        head: classes in the order of the published detector's outputs, which decides exact ties.
    """

    labels: Sequence[str | None]
    scores: NDArray[np.float64]
    center: NDArray[np.float64]
    extent: NDArray[np.float64]
    pixel_center: NDArray[np.float64]
    pixel_extent: NDArray[np.float64]
    class_scores: NDArray[np.float64]
    classes: tuple[str, ...]
    colors: Sequence[str | None] | None
    head: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.scores)

    def confident(self, threshold: float) -> NDArray[np.bool_]:
        """Whether each box, of whatever class, scores above the threshold (strictly), shape (Q,).

        Scores come from float32; as float64, a score of 0.8 would exceed the limit 0.8 by its rounding.
        """
        passed: NDArray[np.bool_] = self.scores.astype(np.float32) > np.float32(threshold)
        return passed

    def above(self, threshold: float) -> list[int]:
        """Boxes of the suite's classes with a score above the threshold (strictly)."""
        return [i for i in np.flatnonzero(self.confident(threshold)).tolist() if self.labels[i] is not None]

    def most_confident_label(self) -> str | None:
        """Class of the most confident box; None without a box, or if that is of no class of the suite.

        Of several boxes with exactly the same score it is the class that comes first in ``head``, not that of the first
        box: the released code takes the maximum over boxes first, and then over classes.
        """
        if not len(self):
            return None
        scores = self.scores.astype(np.float32)
        tied = [label for label, score in zip(self.labels, scores, strict=True) if score == scores[0]]
        place = {label: position for position, label in enumerate(self.head)}
        return min(tied, key=lambda label: place.get(label or "", len(place)))

    def of(self, label: str, threshold: float) -> list[int]:
        """Boxes of one class above the threshold, most confident first."""
        return [i for i in self.above(threshold) if self.labels[i] == label]


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What a prompt asks to see.

    Attributes:
        labels: class of each object.
        relation: where the second object lies relative to the first; None where the prompt names no relation.
        color: colour of the object; None where the prompt names none.
    """

    labels: tuple[str, ...]
    relation: str | None = None
    color: str | None = None


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Confidence limits of the rules; all are strict (``score > limit``).

    Attributes:
        revised: for every skill of the ``revised`` protocol; calibrated per detector (0.5 if it names none).
        released_count: option ``p_threshold`` of the released evaluator, default 0.7, used for count alone.
        paper: p_th of arXiv v1, Sec. 4.1, for object and colour.
        margin: least distance between the two centres along the relation's axis, as a share of the mean extent of the
            two boxes along that axis, for the ``revised`` spatial rule.
    """

    revised: float = 0.5
    released_count: float = 0.7
    paper: float = 0.8
    margin: float = 0.25


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What a rule says of one image: 1 right, 0 wrong, None for no usable answer, and why in words."""

    rule: str
    value: float | None
    reason: str
    detail: Mapping[str, Any] | None = None


def words_for(labels: Sequence[str | None]) -> str:
    """Boxes in words: ``2 dogs and 1 chair``, ``nothing``."""
    counts: dict[str, int] = {}
    for label in labels:
        counts[label or "other object"] = counts.get(label or "other object", 0) + 1
    if not counts:
        return "nothing"
    parts = [f"{n} {label if n == 1 else plural(label)}" for label, n in counts.items()]
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]
