"""The words of T2I-CompBench: categories, relations, objects, numbers, and the labels of the released detector.

Source: Huang et al. 2023, T2I-CompBench (arXiv:2307.06350 v2), and 2025, T2I-CompBench++ (v3); released code
of January 2025.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources

__all__ = [
    "BOUND",
    "CATEGORIES",
    "DEPTH_RELATIONS",
    "NUMBERS",
    "NUMERACY_OBJECTS",
    "RELATIONS",
    "RENAMED",
    "SPATIAL_OBJECTS",
    "SYNONYMS",
    "has_exact_label",
    "labels_containing",
    "unified_labels",
]

CATEGORIES: tuple[str, ...] = (
    "color", "shape", "texture", "spatial", "3d_spatial", "numeracy", "non_spatial", "complex",
)  # fmt: skip
BOUND: tuple[str, ...] = ("color", "shape", "texture")  # judged by questions about noun phrases

# In the order in which the released code looks for them: the first that the prompt contains counts.
RELATIONS: tuple[str, ...] = (
    "on side of", "next to", "near", "on the left of", "on the right of", "on the bottom of", "on the top of",
    "on top of",
)  # fmt: skip
DEPTH_RELATIONS: tuple[str, ...] = ("in front of", "behind", "hidden")

SPATIAL_OBJECTS: tuple[str, ...] = (
    "airplane", "backpack", "bag", "balloon", "bee", "bicycle", "bird", "book", "bowl", "boy", "butterfly", "candle",
    "car", "cat", "chair", "chicken", "clock", "computer", "couch", "cow", "cup", "desk", "dog", "fish", "frog",
    "giraffe", "girl", "horse", "key", "lamp", "man", "microwave", "mouse", "painting", "person", "phone", "pig",
    "plate", "rabbit", "refrigerator", "sheep", "sofa", "suitcase", "table", "television", "train", "turtle", "vase",
    "wallet", "woman",
)  # fmt: skip

_NUMERACY: tuple[str, ...] = (
    "bottle", "cup", "cake", "bird", "knife", "microwave", "desk", "book", "helmet", "pillow", "bowl", "flag",
    "stool", "toy", "pen", "microphone", "bread", "fish", "camera", "candle", "paddle", "drum", "guitar", "tomato",
    "tent", "kite", "lemon", "strawberry", "suitcase", "pear", "printer", "duck", "hamburger", "deer", "egg", "ship",
    "chicken", "peach", "helicopter", "swan", "camel", "goldfish", "shrimp", "banana", "balloon", "giraffe", "frog",
    "horse", "man", "rabbit", "bicycle", "bee", "girl", "mouse", "painting", "lamp", "cow", "train", "vase", "pig",
    "sheep", "airplane", "woman", "phone", "boy", "plate", "computer", "couch", "turtle", "bag", "car", "backpack",
    "dog", "television", "butterfly", "cat", "person", "table", "sofa", "key", "refrigerator", "clock", "chair",
    "truck", "boat", "bear", "sink", "apple",
)  # fmt: skip
_PLURALS: Mapping[str, str] = {
    "knife": "knives", "fish": "fish", "tomato": "tomatoes", "strawberry": "strawberries", "deer": "deer",
    "peach": "peaches", "goldfish": "goldfish", "shrimp": "shrimp", "man": "men", "mouse": "mice", "sheep": "sheep",
    "woman": "women", "couch": "couches", "butterfly": "butterflies", "person": "people",
}  # fmt: skip
NUMERACY_OBJECTS: Mapping[str, str] = {name: _PLURALS.get(name, f"{name}s") for name in _NUMERACY}
"""Plural by singular of every object that may be counted."""
NUMBERS: Mapping[str, int] = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
}  # fmt: skip

PEOPLE = ("girl", "boy", "man", "woman")
RENAMED: Mapping[str, str] = {
    **dict.fromkeys(PEOPLE, "person"), "ship": "boat", "goldfish": "fish", "painting": "picture",
}  # fmt: skip
"""What the released numeracy rule looks for in place of a name. The relations rename people alone."""

# Labels of common detectors (UniDet, Objects365, COCO, Open Images, LVIS) that mean the same; for the revised protocol.
SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "mouse": ("mouse", "rat", "mouse1", "mouse2, mouse", "hamster"),
    "sofa": ("sofa", "couch", "loveseat", "loveseat, couch", "studio couch", "sofa bed"),
    "couch": ("couch", "sofa", "loveseat", "loveseat, couch", "studio couch", "sofa bed"),
    "table": ("table", "dining table", "coffee table", "table, desk", "kitchen & dining room table", "desk"),
    "desk": ("desk", "table, desk", "table"),
    "wallet": ("wallet", "wallet/purse", "purse"),
    "bag": ("bag", "handbag", "handbag/satchel", "luggage and bags", "plastic bag", "tote bag"),
    "painting": ("painting", "picture", "picture, frame", "picture/frame", "picture frame", "poster"),
    "cow": ("cow", "cattle", "cattle, cow"),
    "phone": (
        *("phone", "cell phone", "cellphone", "mobile phone", "mobile phone, cell phone", "telephone"),
        *("corded phone, telephone", "corded phone"),
    ),
    "computer": (
        *("computer", "laptop", "computer monitor", "desktop computer", "tablet computer, tablet"),
        *("tablet computer", "computer box", "monitor/tv"),
    ),
    "person": ("person", "man", "woman", "boy", "girl", "human", "people"),
    "television": ("television", "tv", "tvmonitor", "monitor/tv"),
    "airplane": ("airplane", "aeroplane", "plane"),
    "suitcase": ("suitcase", "luggage"),
    "pen": ("pen", "pen, pen/pencil", "pen/pencil"),
    "fish": ("fish", "goldfish"),
    "boat": ("boat", "ship", "sailboat", "watercraft, boat"),
    "picture": ("picture", "picture, frame", "picture/frame", "picture frame", "painting", "poster"),
    "duck": ("duck", "duck, goose"),
    "chicken": ("chicken", "turkey, chicken", "hen", "rooster"),
    "turtle": ("turtle", "sea turtle", "tortoise", "tortoise, tortoise/turtle", "tortoise/turtle"),
    "bicycle": ("bicycle", "bike"),
    "bear": ("bear", "brown bear", "polar bear"),
    "truck": ("truck", "pickup truck", "fire truck"),
    "clock": ("clock", "alarm clock", "digital clock", "wall clock"),
    "bird": ("bird", "wild bird"),
    "balloon": ("balloon", "hotair balloon", "hot-air balloon"),
    "toy": ("toy", "doll, toy", "doll"),
    "bread": ("bread", "bread/bun"),
}


@cache
def unified_labels() -> tuple[str, ...]:
    """The 722 labels of the released detector (UniDet's unified label space), in its order; some come twice."""
    text = resources.files("verism.suites.compbench").joinpath("unified_labels.txt").read_text(encoding="utf-8")
    return tuple(text.split("\n")[:-1])


@cache
def has_exact_label(name: str) -> bool:
    """Whether a name is one of the released detector's labels.

    Args:
        name: as the released code looks for it (``person`` for a girl).

    >>> has_exact_label("dog"), has_exact_label("sofa")
    (True, False)
    """
    return name in unified_labels()


@cache
def labels_containing(name: str) -> Sequence[str]:
    """The released detector's labels that contain a name, itself first, each once.

    >>> labels_containing("wallet"), labels_containing("sofa")
    ((), ('sofa bed',))
    """
    found = dict.fromkeys(label for label in unified_labels() if name in label)
    return tuple(sorted(found, key=lambda label: label != name))
