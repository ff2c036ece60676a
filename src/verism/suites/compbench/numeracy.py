"""The rule for numbers: how many objects of each kind a prompt asks for, and how many boxes there are.

Source: T2I-CompBench++ (arXiv:2307.06350 v3), numeracy, and the released code of January 2025.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from verism.suites.compbench.boxes import SeenBox, inside_share, overlap
from verism.suites.compbench.spatial import means_name
from verism.suites.compbench.vocabulary import (
    NUMBERS,
    NUMERACY_OBJECTS,
    RENAMED,
    labels_containing,
)

__all__ = ["Counted", "asked_numbers", "distinct_boxes", "released_numbers", "revised_numbers", "score_of"]

SAME = 0.9  # overlap, or share of one in the other, above which two boxes of a label are one object
SINGULAR = {**{p: s for s, p in NUMERACY_OBJECTS.items()}, **{s: s for s in NUMERACY_OBJECTS}}


@dataclass(frozen=True, kw_only=True)
class Counted:
    """One kind of object of a prompt.

    Attributes:
        name: singular.
        asked: how many the prompt asks for.
        found: how many there are.
    """

    name: str
    asked: int
    found: int = 0


def asked_numbers(text: str, *, edition: str = "2025") -> list[Counted]:
    """The objects and numbers that the released code reads out of a prompt.

    Behind a number word (``a``, ``an``, ``one`` to ``eight``) the next two words, or else the next one, are looked up
    in the list of objects. Words whose singular is their plural were read as 1 until January 2025.

    Args:
        text: the prompt.
        edition: ``2025``, or ``2024`` for the code before that.

    >>> [(c.name, c.asked) for c in asked_numbers("two dogs, three fish and a red car")]
    [('dog', 2), ('fish', 3)]
    """
    words = re.findall(r"[a-z]+", text.lower())
    found = []
    for position, word in enumerate(words):
        if word not in NUMBERS:
            continue
        after = words[position + 1 : position + 3]
        name = next((SINGULAR[w] for w in (" ".join(after), *after[:1]) if w in SINGULAR), None)
        if name is None:
            continue
        number = NUMBERS[word]
        if edition != "2025" and NUMERACY_OBJECTS[name] == name:
            number = 1
        found.append(Counted(name=name, asked=number))
    return found


def distinct_boxes(boxes: Iterable[SeenBox]) -> list[SeenBox]:
    """Boxes without repetitions: of two of a label that nearly cover each other the less confident one goes.

    The last pixel counts as inside, as released.

    Args:
        boxes: above the threshold.
    """
    kept: list[SeenBox] = []
    for box in sorted(boxes, key=lambda b: -b.score):
        if not any(other.raw_label == box.raw_label and _same(other, box) for other in kept):
            kept.append(box)
    return kept


def _same(a: SeenBox, b: SeenBox) -> bool:
    return (
        overlap(a.box, b.box, last_pixel=1) > SAME
        or inside_share(a.box, b.box, last_pixel=1) > SAME
        or inside_share(b.box, a.box, last_pixel=1) > SAME
    )


def released_numbers(asked: Sequence[Counted], boxes: Sequence[SeenBox]) -> list[Counted]:
    """How many of each there are, as released: labels that equal the name, or, without any, those that contain it.

    Args:
        asked: of the prompt.
        boxes: above the threshold; repetitions are dropped here.
    """
    kept = distinct_boxes(boxes)
    counted = []
    for each in asked:
        name = RENAMED.get(each.name, each.name)
        known = bool(labels_containing(name))  # what the released detector has no label for, it never finds
        of_name = [b for b in kept if known and b.raw_label == name]
        of_name = of_name or [b for b in kept if known and name in b.raw_label]
        counted.append(replace(each, found=len(of_name)))
    return counted


def revised_numbers(asked: Sequence[Counted], boxes: Sequence[SeenBox]) -> list[Counted]:
    """How many of each there are, by labels that mean the same.

    Args:
        asked: of the prompt.
        boxes: above the threshold; repetitions are dropped here.
    """

    def of_name(name: str) -> list[SeenBox]:
        other = RENAMED.get(name, name)
        meant = [replace(b, raw_label=name) for b in boxes if means_name(b, name) or means_name(b, other)]
        return distinct_boxes(meant)  # of whatever label: a sofa that is a couch as well is one object

    return [replace(each, found=len(of_name(each.name))) for each in asked]


def score_of(counted: Sequence[Counted]) -> float | None:
    """Score of an image: for each kind half a share if any is there, and half if the number is exact.

    Returns:
        In [0, 1]; None where the prompt names no listed object (the released code divides by zero).
    """
    if not counted:
        return None
    half = 1 / (2 * len(counted))
    return sum(half * (c.found > 0) + half * (c.found == c.asked) for c in counted)
