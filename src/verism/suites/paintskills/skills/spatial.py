"""Spatial: are both objects there, and does the second lie where the prompt says, relative to the first?"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verism.records import ProtocolName, SceneObject
from verism.suites.paintskills.boxes import Boxes, Decision, Expected, Thresholds, words_for
from verism.suites.paintskills.skills.object_ import class_named, scene_object
from verism.suites.paintskills.vocabulary import PHRASES, RELATIONS, Version

__all__ = ["OPPOSITE", "SpatialSkill"]

OPPOSITE = {"left": "right", "right": "left", "above": "below", "below": "above"}


def dominant_relation(of: NDArray[np.float64], to: NDArray[np.float64]) -> str:
    """Where a centre lies relative to another, by the longer axis; image coordinates, y downwards.

    Diagonal ties are vertical, and ``below`` unless strictly above, as in the released code.
    """
    dx, dy = of - to
    if abs(dx) > abs(dy):
        return "right" if dx > 0 else "left"
    return "above" if dy < 0 else "below"


class SpatialSkill:
    """Object B (the second) in a relation to object A (the first). Ordered pairs, equal classes included.

    ``released``: the two most confident boxes of all, without threshold, must be of the two classes; the relation is
    that of the longer axis between their centres, measured in the image squashed to a square. Equal classes: the axis
    alone must match, either direction.
    ``paper``: the relation "from the 2D coordinates of the two objects": the same two boxes, but only the coordinate of
    the relation's own axis counts.
    ``revised``: the most confident box of each class above the calibrated threshold (for equal classes the two most
    confident); in pixels, the offset along the relation's axis has the right sign, is the longer one, and exceeds a
    margin of a quarter of the boxes' mean extent. Further boxes are ignored.
    """

    name = "spatial"
    breakdowns = ("object", "object_b", "relation")

    def cells(self, version: Version) -> Iterator[Mapping[str, Any]]:
        for relation in RELATIONS:
            for a in version.labels:
                for b in version.labels:
                    yield {"object": a, "object_b": b, "relation": relation}

    def objects(self, cell: Mapping[str, Any], version: Version) -> Sequence[SceneObject]:
        return (
            scene_object(version, cell["object"]),
            scene_object(version, cell["object_b"], relation=f"{cell['relation']}_0"),
        )

    def words(self, cell: Mapping[str, Any], version: Version) -> Mapping[str, str]:
        return {
            "A": class_named(version, cell["object"]).prompt,
            "B": class_named(version, cell["object_b"]).prompt,
            "rel": PHRASES[cell["relation"]],
        }

    def decide(self, protocol: ProtocolName, expected: Expected, boxes: Boxes, at: Thresholds) -> Sequence[Decision]:
        a, b = expected.labels
        relation = expected.relation
        assert relation is not None
        asked = f"expected {b} {PHRASES[relation]} {a}"
        if protocol == "revised":
            pair = self._best_pair(a, b, boxes, at.revised)
            if pair is None:
                result = words_for([boxes.labels[i] for i in boxes.above(at.revised)])
                return self._decisions(False, False, f"{asked}, found {result}")
            holds, seen = self._clear_relation(relation, *pair, boxes, at.margin, same=a == b)
            return self._decisions(True, holds, f"{asked}, found {b} {seen} {a}")

        if len(boxes) < 2 or sorted((boxes.labels[0] or "", boxes.labels[1] or "")) != sorted((a, b)):
            result = words_for(list(boxes.labels[:2]))
            return self._decisions(False, False, f"{asked}, the two most confident boxes: {result}")
        # For equal classes the more confident box stands for A; the rules below do not depend on it.
        i, j = (0, 1) if boxes.labels[0] == a else (1, 0)
        if protocol == "released":
            seen = dominant_relation(boxes.center[j], boxes.center[i])
            holds = seen == relation or (a == b and seen == OPPOSITE[relation])
        else:
            axis = 0 if relation in ("left", "right") else 1
            offset = boxes.center[j, axis] - boxes.center[i, axis]
            seen = ("right" if offset > 0 else "left") if axis == 0 else ("below" if offset > 0 else "above")
            holds = offset != 0 and (seen == relation or a == b)
        return self._decisions(True, holds, f"{asked}, found {b} {PHRASES[seen]} {a}")

    @staticmethod
    def _decisions(classes: bool, relation: bool, reason: str) -> Sequence[Decision]:
        return (
            Decision(rule="accuracy", value=float(classes and relation), reason=reason),
            Decision(rule="right_classes", value=float(classes), reason=reason),
        )

    @staticmethod
    def _best_pair(a: str, b: str, boxes: Boxes, threshold: float) -> tuple[int, int] | None:
        of_a, of_b = boxes.of(a, threshold), boxes.of(b, threshold)
        if a == b:
            return (of_a[0], of_a[1]) if len(of_a) >= 2 else None
        return (of_a[0], of_b[0]) if of_a and of_b else None

    @staticmethod
    def _clear_relation(relation: str, i: int, j: int, boxes: Boxes, margin: float, *, same: bool) -> tuple[bool, str]:
        """Whether box ``j`` lies in the relation to box ``i``, and what was seen in words."""
        offset = boxes.pixel_center[j] - boxes.pixel_center[i]
        axis = 0 if abs(offset[0]) > abs(offset[1]) else 1
        need = margin * (boxes.pixel_extent[i, axis] + boxes.pixel_extent[j, axis]) / 2
        if abs(offset[axis]) <= need:
            return False, "in no clear relation to"
        seen = ("right" if offset[0] > 0 else "left") if axis == 0 else ("below" if offset[1] > 0 else "above")
        return seen == relation or (same and seen == OPPOSITE[relation]), PHRASES[seen]

    def truth_key(self, expected: Expected) -> Hashable:
        a, b = expected.labels
        relation = expected.relation
        assert relation is not None
        if a == b:  # either direction is right
            return (a, b, relation in ("left", "right"))
        # "dog left to cat" and "cat right to dog" are the same image.
        return (a, b, relation) if a < b else (b, a, OPPOSITE[relation])
