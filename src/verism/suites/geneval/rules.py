"""The rules of GenEval: which objects count, whether a relation holds, whether an image is right.

Pure functions over boxes, confidences and colours. What differs between the protocols is a ``RuleSet``:

* ``released``: the evaluation code of March 2025. A colour is asked of the most confident objects alone; a relation
  needs a margin and a direction (see ``released_relations``).
* ``paper``: every object of a class may have the colour; a relation is the printed inequality on each axis.
* ``revised``: as the paper, with long objects shown whole to the colour judge and thresholds of the judge's own.

Source: Ghosh, Hajishirzi and Schmidt 2023, arXiv:2310.11513, section 3, and the released evaluation code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = [
    "Decision",
    "RuleSet",
    "SeenObject",
    "decide",
    "kept_objects",
    "overlap",
    "paper_relations",
    "released_relations",
]

Box = Sequence[float]
NO_OFFSET = 1e-3  # offsets below it on both axes are none
DIRECTION = 0.5  # least share of the distance between centres that must lie along an axis
COUNTING = "counting"


@dataclass(frozen=True, kw_only=True)
class SeenObject:
    """An object that a segmenter reports.

    Attributes:
        segment: its number in the image.
        label: its class.
        score: confidence, in [0, 1].
        box: (x0, y0, x1, y1) in pixels.
        color: its colour, None if nobody judged it.
    """

    segment: int
    label: str
    score: float
    box: tuple[float, float, float, float]
    color: str | None = None


@dataclass(frozen=True, kw_only=True)
class RuleSet:
    """What a protocol does.

    Attributes:
        threshold: confidence above which an object counts.
        counting_threshold: the same in images of counting prompts, for every class.
        max_objects: objects of a class that count, the most confident ones.
        max_overlap: least intersection over union at which the less confident of two objects of a class is dropped; 1
            leaves all.
        margin: of a relation, as a share of the sum of the two objects' extents.
        relations: which relations hold between two boxes, given the margin.
        every_object: whether any object of the class may have the colour, and not the most confident ones alone.
    """

    threshold: float = 0.3
    counting_threshold: float = 0.9
    max_objects: int = 16
    max_overlap: float = 1.0
    margin: float = 0.1
    relations: Callable[[Box, Box, float], list[str]]
    every_object: bool = False

    def threshold_of(self, tag: str) -> float:
        """The threshold for images of a task: it belongs to the prompt's task, not to the class."""
        return self.counting_threshold if tag == COUNTING else self.threshold


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What the rules say of an image.

    Attributes:
        correct: 1 right, 0 wrong, None if that hangs on a colour nobody judged.
        reasons: what is wrong, a sentence each; empty if nothing is.
        parts: by part of the rule (``objects``, ``colors``, ``relation``) the same for it alone; parts that the prompt
            does not ask for, or that could not be looked at, are left out.
        found: number of objects of each class asked for.
    """

    correct: float | None
    reasons: tuple[str, ...]
    parts: Mapping[str, float | None] = field(default_factory=dict)
    found: Mapping[str, int] = field(default_factory=dict)


def overlap(a: Box, b: Box) -> float:
    """Intersection over union of two boxes, whose last pixel counts as inside (+1), as the released code has it.

    Args:
        a: (x0, y0, x1, y1) in pixels.
        b: the same.
    """

    def area(box: Box) -> float:
        return max(box[2] - box[0] + 1, 0) * max(box[3] - box[1] + 1, 0)

    shared = area((max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3])))
    union = area(a) + area(b) - shared
    return shared / union if union else 0.0


def kept_objects(objects: Sequence[SeenObject], rules: RuleSet, tag: str) -> dict[str, list[SeenObject]]:
    """By class, the objects that count, the most confident first; classes without any are left out.

    Args:
        objects: all that were reported.
        rules: whose threshold, number and overlap count.
        tag: task of the prompt, which decides the threshold.
    """
    threshold = rules.threshold_of(tag)
    kept: dict[str, list[SeenObject]] = {}
    for label in dict.fromkeys(o.label for o in objects):
        ordered = sorted((o for o in objects if o.label == label and o.score > threshold), key=lambda o: -o.score)
        ordered = ordered[: rules.max_objects]
        chosen: list[SeenObject] = []
        for each in ordered:
            if rules.max_overlap == 1 or all(overlap(each.box, o.box) < rules.max_overlap for o in chosen):
                chosen.append(each)
        if chosen:
            kept[label] = chosen
    return kept


def _offset_and_sizes(a: Box, b: Box) -> tuple[np.ndarray, np.ndarray]:
    """From the centre of ``b`` to that of ``a``, and the sums of their extents; along x and y."""
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    offset = (first[:2] + first[2:]) / 2 - (second[:2] + second[2:]) / 2
    return offset, (first[2:] - first[:2]) + (second[2:] - second[:2])


def released_relations(a: Box, b: Box, margin: float = 0.1) -> list[str]:
    """Relations of ``a`` to ``b`` as the released code has them; two can hold at once, or none. y points down.

    The offset of the centres, shortened on each axis by the margin times the sum of the extents, is divided by the
    whole distance; a relation holds where more than half of that is left along its axis. So on a single axis the margin
    acts twice: once in what is subtracted, and once in what must be left. Two boxes of 100 pixels side by side have no
    relation until they are more than 40 apart.

    Args:
        a: the object placed, (x0, y0, x1, y1) in pixels.
        b: the object it is placed by.
        margin: share of the sum of the extents.
    """
    offset, sizes = _offset_and_sizes(a, b)
    rest = np.maximum(np.abs(offset) - margin * sizes, 0) * np.sign(offset)
    if (np.abs(rest) < NO_OFFSET).all():
        return []
    dx, dy = rest / np.linalg.norm(offset)
    holds = {
        "left of": dx < -DIRECTION,
        "right of": dx > DIRECTION,
        "above": dy < -DIRECTION,
        "below": dy > DIRECTION,
    }
    return [relation for relation, true in holds.items() if true]


def paper_relations(a: Box, b: Box, margin: float = 0.1) -> list[str]:
    """Relations of ``a`` to ``b`` as the paper states them: the centres differ by more than the margin along the axis.

    (The paper prints the inequality of "above" the wrong way round.)

    Args:
        a: the object placed, (x0, y0, x1, y1) in pixels.
        b: the object it is placed by.
        margin: share of the sum of the extents.
    """
    (x, y), (width, height) = _offset_and_sizes(a, b)
    holds = {
        "left of": x < -margin * width,
        "right of": x > margin * width,
        "above": y < -margin * height,
        "below": y > margin * height,
    }
    return [relation for relation, true in holds.items() if true]


def decide(metadata: Mapping[str, Any], objects: Sequence[SeenObject], rules: RuleSet) -> Decision:
    """Whether an image shows what its prompt asks for.

    Entries are gone through in their order: enough objects; their colour; their relation to an earlier entry, each
    object of the one to each of the other. Then what must not be there: as many objects as an exclusion says make the
    image wrong. Colours that nobody judged leave an image undecided, unless something else is wrong.

    Args:
        metadata: the prompt, as the released file has it.
        objects: all that were reported, of any class and confidence.
        rules: of the protocol.
    """
    kept = kept_objects(objects, rules, metadata["tag"])
    reasons: list[str] = []
    unknown: list[str] = []
    parts: dict[str, list[float | None]] = {}
    matched: list[list[SeenObject] | None] = []

    def note(part: str, value: float | None) -> None:
        parts.setdefault(part, []).append(value)

    for entry in metadata["include"]:
        label, count = entry["class"], entry["count"]
        available = kept.get(label, [])
        chosen = available[:count]
        if len(chosen) < count:
            reasons.append(f"expected {count} {label}, found {len(chosen)}")
            note("objects", 0.0)
            matched.append(None)
            continue
        note("objects", 1.0)
        still = True
        if "color" in entry:
            right = _colored(available if rules.every_object else chosen, entry["color"], count)
            note("colors", right)
            still = right != 0.0
            words = ", ".join(each.color or "not judged" for each in (available if rules.every_object else chosen))
            if right == 0.0:
                reasons.append(f"expected {entry['color']} {label}, found {words}")
            elif right is None:
                unknown.append(f"colour of {label}: {words}")
        if still and "position" in entry:
            relation, index = entry["position"]
            value, why = _placed(chosen, matched[index], label, relation, rules)
            note("relation", value)
            still = value == 1.0
            if why:
                reasons.append(why)
        matched.append(chosen if still else None)
    for entry in metadata.get("exclude", []):
        number = len(kept.get(entry["class"], []))
        note("objects", 0.0 if number >= entry["count"] else 1.0)
        if number >= entry["count"]:
            reasons.append(f"expected fewer than {entry['count']} {entry['class']}, found {number}")
    asked = dict.fromkeys(entry["class"] for entry in metadata["include"])
    correct = 0.0 if reasons else None if unknown else 1.0
    return Decision(
        correct=correct,
        reasons=tuple(reasons or unknown),
        parts={part: _all(values) for part, values in parts.items()},
        found={label: len(kept.get(label, [])) for label in asked},
    )


def _colored(objects: Sequence[SeenObject], color: str, count: int) -> float | None:
    """Whether at least ``count`` objects have a colour; None if that hangs on colours that nobody judged."""
    sure = sum(each.color == color for each in objects)
    possible = sure + sum(each.color is None for each in objects)
    return 1.0 if sure >= count else None if possible >= count else 0.0


def _placed(
    objects: Sequence[SeenObject], targets: Sequence[SeenObject] | None, label: str, relation: str, rules: RuleSet
) -> tuple[float, str]:
    """Whether every object has the relation to every target, and what is wrong."""
    if targets is None:
        return 0.0, f"no target for {label} to be {relation}"
    for each in objects:
        for target in targets:
            true = rules.relations(each.box, target.box, rules.margin)
            if relation not in true:
                words = " and ".join(true) or "in no clear relation to"
                return 0.0, f"expected {label} {relation} {target.label}, found it {words} it"
    return 1.0, ""


def _all(values: Sequence[float | None]) -> float | None:
    """0 if any is, else None if any is unknown, else 1."""
    if any(value == 0.0 for value in values):
        return 0.0
    return None if any(value is None for value in values) else 1.0
