"""The rules for relations in the image and in depth, as released, as the paper has them, and revised.

All functions are pure. Boxes are in the pixels of the released detector's input (479 x 479 for a square image), y
points down. Depth maps are larger where nearer.

Source: T2I-CompBench++ (arXiv:2307.06350 v3), sections on UniDet-based metrics, and the released code of January 2025.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from verism.suites.compbench.boxes import Box, SeenBox, centre_offset, overlap
from verism.suites.compbench.vocabulary import (
    DEPTH_RELATIONS,
    PEOPLE,
    RELATIONS,
    SYNONYMS,
    has_exact_label,
    labels_containing,
)

__all__ = [
    "Relation",
    "box_depth",
    "depth_of_prompt",
    "detector_name",
    "means_name",
    "paper_position",
    "paper_score",
    "relation_of_prompt",
    "released_depth_pair",
    "released_depth_position",
    "released_depth_score",
    "released_pair",
    "released_position",
    "released_score",
    "revised_depth_position",
    "revised_depth_score",
    "revised_pair",
    "revised_position",
    "revised_score",
]

NEAR_PX = 150.0  # pixels of the detector's input
OVERLAP_2D, OVERLAP_3D = 0.1, 0.5
GATE = 0.5  # below it a released 2D score counts as 0
TOUCHING = 0.05  # of the smallest side, between boxes that count as meeting
OF_OBJECT, OF_RELATION = 0.25, 0.5
NEAR = ("next to", "near", "on side of")
AXES = {  # axis, and sign of the offset from the first object to the second
    "on the left of": (0, 1),
    "on the right of": (0, -1),
    "on the top of": (1, 1),
    "on the bottom of": (1, -1),
}
# Handled by nothing in the released code.
REVISED_AXES = {**AXES, "on top of": (1, 1), "on the left": (0, 1), "on the right": (0, -1), "on bottom of": (1, -1)}
Depth = NDArray[np.floating] | NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class Relation:
    """What a rule says of an image.

    Attributes:
        score: the image's score, in [0, 1].
        position: what the relation itself is worth, in [0, 1]; 0 unless both objects were found.
        found: number of the two objects that were found.
    """

    score: float
    position: float
    found: int


def relation_of_prompt(text: str) -> str | None:
    """The relation in the image that the released code reads out of a prompt: the first of its list that is contained.

    >>> relation_of_prompt("a dog near a cat on the left of a cow"), relation_of_prompt("a dog")
    ('near', None)
    """
    return next((relation for relation in RELATIONS if relation in text), None)


def depth_of_prompt(text: str) -> str | None:
    """The relation in depth that the released code reads out of a prompt."""
    return next((relation for relation in DEPTH_RELATIONS if relation in text), None)


def detector_name(name: str) -> str:
    """What the detector is asked for in place of a name: a person for girl, boy, man and woman."""
    return "person" if name in PEOPLE else name


# ---------------------------------------------------------------------------------------------------------- the image
def released_position(relation: str | None, a: Box, b: Box) -> float:
    """What a relation of ``a`` to ``b`` is worth, as released.

    ``near`` is 1 as soon as one axis is nearer than 150 pixels, however far the other one is. ``on top of`` is known by
    name and has no rule: 0.

    Args:
        relation: one of ``RELATIONS``, or None.
        a: box of the first object of the prompt.
        b: box of the second one.
    """
    dx, dy = centre_offset(a, b)
    if relation in NEAR:
        if abs(dx) < NEAR_PX or abs(dy) < NEAR_PX:
            return 1.0
        return NEAR_PX / max(abs(dx), abs(dy))
    return _along(AXES.get(relation or ""), (dx, dy), overlap(a, b))


def _along(axis: tuple[int, int] | None, offset: tuple[float, float], shared: float) -> float:
    if axis is None:
        return 0.0
    number, sign = axis
    if offset[number] * sign <= 0 or abs(offset[number]) <= abs(offset[1 - number]):
        return 0.0
    return 1.0 if shared < OVERLAP_2D else OVERLAP_2D / shared


def paper_position(relation: str | None, a: Box, b: Box) -> float:
    """The same as the paper states it: the right direction along the longer offset, boxes that overlap by less than a
    tenth; 1 or 0. Of nearness the paper gives no formula: the released one counts where it is 1.

    Args:
        relation: one of ``RELATIONS``, or None.
        a: box of the first object of the prompt.
        b: box of the second one.
    """
    return float(released_position(relation, a, b) == 1.0)


def revised_position(relation: str | None, a: Box, b: Box) -> float:
    """The same, with what is missing: ``on top of`` is above, and what is near is near along both axes.

    Args:
        relation: a key of ``REVISED_AXES``, one of nearness, or None.
        a: box of the first object of the prompt.
        b: box of the second one.
    """
    dx, dy = centre_offset(a, b)
    if relation in NEAR:
        return min(NEAR_PX / max(abs(dx), abs(dy), 1e-9), 1.0)
    return _along(REVISED_AXES.get(relation or ""), (dx, dy), overlap(a, b))


def released_pair(names: Sequence[str], boxes: Sequence[SeenBox]) -> tuple[SeenBox | None, SeenBox | None]:
    """Of each name the most confident box whose label equals it; names that are none of the 722 labels find nothing.

    Two people are both ``person``, and so the same box.

    Args:
        names: of the first and the second object.
        boxes: above the threshold.
    """

    def best(name: str) -> SeenBox | None:
        wanted = detector_name(name)
        if not has_exact_label(wanted):
            return None
        return max((b for b in boxes if b.raw_label == wanted), key=lambda b: b.score, default=None)

    first, second = names
    return best(first), best(second)


def _combined(a: SeenBox | None, b: SeenBox | None, position: float) -> float:
    return OF_OBJECT * sum(each.score for each in (a, b) if each is not None) + OF_RELATION * position


def released_score(
    names: Sequence[str],
    relation: str | None,
    boxes: Sequence[SeenBox],
    *,
    position: Callable[[str | None, Box, Box], float] = released_position,
    gate: float = GATE,
) -> Relation:
    """The released score of an image: a quarter of each object's confidence, half of the relation; below one half: 0.

    Args:
        names: of the first and the second object of the prompt.
        relation: of the first to the second.
        boxes: above the threshold, in pixels of the detector's input.
        position: rule of the relation.
        gate: scores below it count as 0.
    """
    a, b = released_pair(names, boxes)
    value = position(relation, a.box, b.box) if a is not None and b is not None else 0.0
    score = _combined(a, b, value)
    found = (a is not None) + (b is not None)
    return Relation(score=score if score >= gate else 0.0, position=value, found=found)


def paper_score(names: Sequence[str], relation: str | None, boxes: Sequence[SeenBox]) -> Relation:
    """The score as the paper states it: 1 where both objects are found and the relation holds, else 0.

    Args:
        names: of the first and the second object of the prompt.
        relation: of the first to the second.
        boxes: above the threshold, in pixels of the detector's input.
    """
    a, b = released_pair(names, boxes)
    value = paper_position(relation, a.box, b.box) if a is not None and b is not None else 0.0
    return Relation(score=value, position=value, found=(a is not None) + (b is not None))


def means_name(box: SeenBox, name: str) -> bool:
    """Whether a detector's box is of an object: by the class that was asked for, or by a label that means the same.

    Args:
        box: the box.
        name: as the prompt has it.
    """
    wanted = detector_name(name)
    return not {box.label, box.raw_label}.isdisjoint({name, wanted, *SYNONYMS.get(wanted, ())})


def revised_pair(
    names: Sequence[str], boxes: Sequence[SeenBox], worth: Callable[[SeenBox, SeenBox], float]
) -> tuple[SeenBox | None, SeenBox | None]:
    """The most confident box of each name. Names that mean the same to a detector (two people) take its two most
    confident boxes, in the order in which the relation holds better, as nothing tells them apart.

    Args:
        names: of the first and the second object.
        boxes: above the threshold.
        worth: what the relation of two boxes is worth.
    """
    first, second = (sorted((b for b in boxes if means_name(b, name)), key=lambda b: -b.score) for name in names)
    if not first or not second:
        return (first[0] if first else None), (second[0] if second else None)
    if first[0] is not second[0]:
        return first[0], second[0]
    both = list({id(b): b for b in (*first, *second)}.values())
    both = sorted(both, key=lambda b: -b.score)[:2]
    if len(both) == 1:
        return both[0], None
    pairs = [(a, b) for a, b in permutations(both, 2) if a in first and b in second]
    return max(pairs, key=lambda pair: worth(*pair))


def revised_score(names: Sequence[str], relation: str | None, boxes: Sequence[SeenBox]) -> Relation:
    """The revised score: the same parts, without the gate, with synonyms and with every relation handled.

    Args:
        names: of the first and the second object of the prompt.
        relation: of the first to the second.
        boxes: above the threshold, in pixels of the detector's input.
    """
    a, b = revised_pair(names, boxes, lambda x, y: revised_position(relation, x.box, y.box))
    value = revised_position(relation, a.box, b.box) if a is not None and b is not None else 0.0
    return Relation(score=_combined(a, b, value), position=value, found=(a is not None) + (b is not None))


# -------------------------------------------------------------------------------------------------------------- depth
def box_depth(depth: Depth, box: Box, *, swapped: bool = False, middle: bool = False) -> float:
    """Depth of a box: the mean, or the median, of the map in it. NaN where nothing of it lies in the map.

    Args:
        depth: the map, [row, column], shape (H, W).
        box: (x0, y0, x1, y1) in pixels of the map.
        swapped: cut rows by x and columns by y, as the released code does: the region mirrored at the diagonal.
        middle: the median.
    """
    x0, y0, x1, y1 = (int(edge) for edge in box)
    region = depth[x0:x1, y0:y1] if swapped else depth[max(y0, 0) : y1, max(x0, 0) : x1]
    if not region.size:
        return math.nan
    return float(np.median(region) if middle else np.mean(region))


def released_depth_position(relation: str | None, a: Box, b: Box, depth: Depth, *, swapped: bool = True) -> float:
    """What a relation in depth is worth, as released: 0 unless the boxes overlap, and 0 at an overlap of exactly 0.5.

    Args:
        relation: one of ``DEPTH_RELATIONS``, or None.
        a: box of the first object of the prompt, in pixels of the map.
        b: box of the second one.
        depth: the map, larger where nearer.
        swapped: whether the map is cut as released.
    """
    nearer = box_depth(depth, a, swapped=swapped) - box_depth(depth, b, swapped=swapped)
    wanted = {"in front of": nearer, "behind": -nearer, "hidden": -nearer}.get(relation or "", math.nan)
    if not wanted > 0:  # which NaN is not
        return 0.0
    shared = overlap(a, b)
    if shared > OVERLAP_3D:
        return 1.0
    return shared / OVERLAP_3D if 0 < shared < OVERLAP_3D else 0.0


def released_depth_pair(names: Sequence[str], boxes: Sequence[SeenBox]) -> tuple[SeenBox | None, SeenBox | None]:
    """The boxes of two objects as released: labels that contain the name count, a car's in a carrot's.

    Boxes are gone through by falling confidence; until both are found, a later match takes the place of an earlier
    one. One box may serve both.

    Args:
        names: of the first and the second object.
        boxes: above the threshold.
    """
    wanted = [detector_name(name) for name in names]
    found: list[SeenBox | None] = [None, None]
    for box in sorted(boxes, key=lambda b: -b.score):
        for k in (0, 1):
            if wanted[k] in box.raw_label and labels_containing(wanted[k]):
                found[k] = box
        if None not in found:
            break
    return found[0], found[1]


def released_depth_score(
    names: Sequence[str], relation: str | None, boxes: Sequence[SeenBox], depth: Depth, *, swapped: bool = True
) -> Relation:
    """The released 3D score of an image; without a gate.

    Args:
        names: of the first and the second object of the prompt.
        relation: of the first to the second.
        boxes: above the threshold, in pixels of the detector's input.
        depth: map of 480 x 480.
        swapped: whether the map is cut as released.
    """
    a, b = released_depth_pair(names, boxes)
    value = 0.0
    if a is not None and b is not None:
        value = released_depth_position(relation, a.box, b.box, depth, swapped=swapped)
    return Relation(score=_combined(a, b, value), position=value, found=(a is not None) + (b is not None))


def revised_depth_position(relation: str | None, a: Box, b: Box, depth: Depth, *, middle: bool = True) -> float:
    """What a relation in depth is worth, 1 or 0: nearer or farther by the depth inside each box, rightly cut. What is
    hidden must also lie behind: its box meets or touches the other's; nothing else has to overlap.

    Args:
        relation: one of ``DEPTH_RELATIONS``, or None.
        a: box of the first object of the prompt, in pixels of the map.
        b: box of the second one.
        depth: the map, larger where nearer.
        middle: the median inside a box counts, which the surroundings hardly move, and not the mean.
    """
    nearer = box_depth(depth, a, middle=middle) - box_depth(depth, b, middle=middle)
    if relation == "in front of":
        return float(nearer > 0)
    if relation in ("behind", "hidden"):
        return float(nearer < 0 and (relation == "behind" or _meet(a, b)))
    return 0.0


def _meet(a: Box, b: Box) -> bool:
    """Whether boxes overlap or nearly touch: the box of a half-hidden object ends where what hides it begins."""
    slack = TOUCHING * min(a[2] - a[0], a[3] - a[1], b[2] - b[0], b[3] - b[1])
    gaps = (max(a[k], b[k]) - min(a[k + 2], b[k + 2]) for k in (0, 1))
    return all(gap <= slack for gap in gaps)


def revised_depth_score(
    names: Sequence[str], relation: str | None, boxes: Sequence[SeenBox], depth: Depth, *, middle: bool = True
) -> Relation:
    """The revised 3D score of an image.

    Args:
        names: of the first and the second object of the prompt.
        relation: of the first to the second.
        boxes: above the threshold, in pixels of the map.
        depth: the map, larger where nearer.
        middle: as for ``revised_depth_position``.
    """

    def worth(x: SeenBox, y: SeenBox) -> float:
        return revised_depth_position(relation, x.box, y.box, depth, middle=middle)

    a, b = revised_pair(names, boxes, worth)
    value = worth(a, b) if a is not None and b is not None else 0.0
    return Relation(score=_combined(a, b, value), position=value, found=(a is not None) + (b is not None))
