"""The words of PaintSkills: classes, colours, relations, sizes, templates; both published versions.

Source: Cho et al., arXiv:2202.04053v1 (``paintskills-v1``) and ICCV 2023 (``paintskills``), and the data files they
released. What the ICCV version never published (seven of the fifteen classes, most templates, eleven of the thirteen
backgrounds) is our choice, marked so here and explained in the suite's documentation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

__all__ = [
    "BACKGROUNDS",
    "COLORS",
    "PHRASES",
    "RELATIONS",
    "VERSIONS",
    "ObjectClass",
    "Version",
    "class_of_shape",
    "plural",
    "version",
    "with_article",
]

RELATIONS = ("left", "right", "above", "below")
PHRASES: Mapping[str, str] = {"left": "left to", "right": "right to", "above": "above", "below": "below"}

# Order is the colour id of the released metadata. Appendix A.1 of arXiv v1 prints maroon for white; its Sec. 4.1, the
# metadata and the simulator all have white.
COLORS = ("red", "blue", "yellow", "white", "purple", "green")

COUNTS = (1, 2, 3, 4)


@dataclass(frozen=True)
class ObjectClass:
    """One class of objects.

    Attributes:
        shape: name in scene files.
        label: name that detectors report (COCO's, except ``van``, which COCO files under car).
        prompt: name in prompts.
        coco_id: id among COCO's 91 categories.
        state: the only pose the v1 simulator used, or None.
    """

    shape: str
    label: str
    prompt: str
    coco_id: int
    state: str | None = None


def _v1(shape: str, label: str, coco_id: int, prompt: str | None = None, state: str | None = None) -> ObjectClass:
    return ObjectClass(shape, label, prompt or label, coco_id, state)


V1_CLASSES = (
    _v1("human", "person", 1, "human", "sitting"),
    _v1("airplane", "airplane", 5),
    _v1("bike", "bicycle", 2, "bike"),
    _v1("bus", "bus", 6),
    _v1("dog", "dog", 18, state="standing"),
    _v1("boat", "boat", 9),
    _v1("van", "van", 3),
    _v1("train", "train", 7),
    _v1("fireHydrant", "fire hydrant", 11),
    _v1("stopSign", "stop sign", 13),
    _v1("backpack", "backpack", 27),
    _v1("chair", "chair", 62),
    _v1("diningTable", "dining table", 67),
    _v1("skateboard", "skateboard", 41),
    _v1("bench", "bench", 15),
    _v1("suitcase", "suitcase", 33),
    _v1("trafficLight", "traffic light", 10),
    _v1("bird", "bird", 16, state="flying"),
    _v1("bear", "bear", 23, state="standing"),
    _v1("bed", "bed", 65),
    _v1("pottedPlant", "potted plant", 64),
)


def _v2(shape: str, label: str, coco_id: int) -> ObjectClass:
    return ObjectClass(shape, label, label, coco_id)


# person ... stop sign are stated in the ICCV paper; fire hydrant, traffic light and potted plant are handled by the
# released name map; bus, boat, chair and bird are chosen from the v1 classes the map passes through unchanged.
V2_CLASSES = (
    _v2("human", "person", 1),
    _v2("dog", "dog", 18),
    _v2("airplane", "airplane", 5),
    _v2("bike", "bicycle", 2),
    _v2("car", "car", 3),
    _v2("umbrella", "umbrella", 28),
    _v2("suitcase", "suitcase", 33),
    _v2("stopSign", "stop sign", 13),
    _v2("fireHydrant", "fire hydrant", 11),
    _v2("trafficLight", "traffic light", 10),
    _v2("pottedPlant", "potted plant", 64),
    _v2("bus", "bus", 6),
    _v2("boat", "boat", 9),
    _v2("chair", "chair", 62),
    _v2("bird", "bird", 16),
)

# Thirteen, as published; the names are our simulator's (only two of the originals are known).
BACKGROUNDS = (
    "meadow",
    "beach",
    "desert",
    "snowfield",
    "city_plaza",
    "open_road",
    "forest_clearing",
    "mountain_lake",
    "living_room",
    "photo_studio",
    "warehouse",
    "sunset_coast",
    "tiled_hall",
)


@dataclass(frozen=True)
class Version:
    """One published version of the data set.

    Attributes:
        name: suite name on the command line.
        classes: object classes, in order.
        backgrounds: names of the backgrounds.
        skills: names of the skills that the published version has.
        optional_skills: skills that exist but are not part of the published version (and not of its mean).
        repeats: per skill, images per cell and template as (train, val).
        templates: per skill, prompt templates; ``{A}``, ``{B}`` objects, ``{a_A}`` with article, ``{N}``, ``{As}`` the
            plural where the version has one, ``{color}``, ``{rel}``.
        plurals: whether counts above one take a plural.
    """

    name: Literal["paintskills", "paintskills-v1"]
    classes: tuple[ObjectClass, ...]
    backgrounds: tuple[str, ...]
    skills: tuple[str, ...]
    optional_skills: tuple[str, ...]
    repeats: Mapping[str, tuple[int, int]]
    templates: Mapping[str, tuple[str, ...]]
    plurals: bool

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(c.label for c in self.classes)

    @cached_property
    def by_label(self) -> Mapping[str, ObjectClass]:
        """The classes by their labels."""
        return {c.label: c for c in self.classes}

    @property
    def head(self) -> tuple[str, ...]:
        """Classes in the order of the published detector's outputs: its own ids in v1, COCO's in the ICCV version."""
        if self.name == "paintskills-v1":
            return self.labels
        return tuple(c.label for c in sorted(self.classes, key=lambda c: c.coco_id))


VERSIONS: Mapping[str, Version] = {
    "paintskills": Version(
        name="paintskills",
        classes=V2_CLASSES,
        backgrounds=BACKGROUNDS,
        skills=("object", "count", "spatial"),
        optional_skills=("color",),
        # 15 x 5 x 310 = 23,250 and 15 x 5 x 31 = 2,325; 15 x 4 x 4 x 90 = 21,600 and x 9 = 2,160;
        # 15 x 15 x 4 x 3 x 5 = 13,500 and x 1 = 2,700: the published sizes.
        repeats={"object": (310, 31), "count": (90, 9), "spatial": (5, 1), "color": (100, 10)},
        templates={
            "object": ("{A}", "{a_A}", "a photo of {A}", "a photo of {a_A}", "an image of {a_A}"),
            "count": ("{N} {As}", "a photo of {N} {As}", "an image of {N} {As}", "a picture of {N} {As}"),
            "spatial": (
                "{B} is {rel} {A}",
                "a photo of {A} and {B}; {B} is {rel} {A}",
                "there are 2 objects. one is {A} and the other is {B}; the {B} is {rel} the {A}",
            ),
            "color": ("{color} {A}", "a photo of {color} {A}"),
        },
        plurals=True,
    ),
    "paintskills-v1": Version(
        name="paintskills-v1",
        classes=V1_CLASSES,
        backgrounds=("empty",),
        skills=("object", "count", "color", "spatial"),
        optional_skills=(),
        # The paper prints 28,244 spatial training scenes; 21 x 21 x 4 x 16 is 28,224.
        repeats={"object": (1000, 50), "count": (300, 30), "color": (200, 20), "spatial": (16, 2)},
        templates={
            "object": ("a photo of {A}",),
            "count": ("a photo of {N} {As}",),
            "color": ("a photo of {color} {A}",),
            "spatial": ("a photo of {A} and {B}; {B} is {rel} {A}",),
        },
        plurals=False,
    ),
}


def version(name: str) -> Version:
    """The version of that suite name.

    Raises:
        ValueError: no such version.
    """
    if name not in VERSIONS:
        raise ValueError(f"unknown PaintSkills version {name!r}; choose from {sorted(VERSIONS)}")
    return VERSIONS[name]


def class_of_shape(shape: str, known: Mapping[str, ObjectClass], coco_name: str | None = None) -> ObjectClass:
    """The class a scene file means by ``shape``; shapes of other people's data sets get a class of their own.

    ``human`` anywhere in the name means a person, as in the released code (``humanSophie``, ``humanJosh``).
    """
    if "human" in shape.lower():
        shape = "human"
    if shape in known:
        return known[shape]
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", shape).lower()
    label = {"bike": "bicycle", "human": "person"}.get(words, coco_name or words)
    return ObjectClass(shape, label, words, coco_id=-1)


def plural(noun: str) -> str:
    """The published plural: an "s" ("3 dogs"), "es" after a hiss; no exceptions, so "persons" and not "people"."""
    return noun + ("es" if noun.endswith(("s", "sh", "ch", "x")) else "s")


def with_article(noun: str) -> str:
    """``a dog``, ``an airplane``."""
    return ("an " if noun[0] in "aeio" or noun.startswith("umb") else "a ") + noun
