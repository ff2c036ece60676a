"""The words of GenEval: 80 classes, ten colours, four relations, and how they are put into prompts.

Source: Ghosh, Hajishirzi and Schmidt 2023, GenEval (arXiv:2310.11513), and its released prompts. The classes are
COCO's, in COCO's order, three of them renamed. Articles and plurals follow the released rules, which know no exceptions
(``a photo of three persons``, ``an orange scissors``): mending them would make another benchmark.
"""

from __future__ import annotations

__all__ = ["CLASSES", "COLORS", "NUMBERS", "RELATIONS", "TASKS", "opposite", "plural", "with_article"]

TASKS: tuple[str, ...] = ("single_object", "two_object", "counting", "colors", "position", "color_attr")

CLASSES: tuple[str, ...] = (
    "person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat", "traffic light",
    "fire hydrant", "stop sign", "parking meter", "bench", "bird", "cat", "dog", "horse", "sheep", "cow", "elephant",
    "bear", "zebra", "giraffe", "backpack", "umbrella", "handbag", "tie", "suitcase", "frisbee", "skis", "snowboard",
    "sports ball", "kite", "baseball bat", "baseball glove", "skateboard", "surfboard", "tennis racket", "bottle",
    "wine glass", "cup", "fork", "knife", "spoon", "bowl", "banana", "apple", "sandwich", "orange", "broccoli",
    "carrot", "hot dog", "pizza", "donut", "cake", "chair", "couch", "potted plant", "bed", "dining table", "toilet",
    "tv", "laptop", "computer mouse", "tv remote", "computer keyboard", "cell phone", "microwave", "oven", "toaster",
    "sink", "refrigerator", "book", "clock", "vase", "scissors", "teddy bear", "hair drier", "toothbrush",
)  # fmt: skip

# The eleven basic colour terms without gray, which is the background that objects are shown on. In released order.
COLORS: tuple[str, ...] = (
    "red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white",
)  # fmt: skip

RELATIONS: tuple[str, ...] = ("left of", "right of", "above", "below")
NUMBERS: tuple[str, ...] = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

_OPPOSITE = {"left of": "right of", "right of": "left of", "above": "below", "below": "above"}


def opposite(relation: str) -> str:
    """The relation seen from the other object."""
    return _OPPOSITE[relation]


def with_article(words: str) -> str:
    """Words behind their article: ``an`` before a, e, i, o and u, whatever the sound.

    >>> with_article("umbrella"), with_article("orange scissors")
    ('an umbrella', 'an orange scissors')
    """
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def plural(noun: str) -> str:
    """The released plural: ``es`` after an s, ``s`` after everything else.

    >>> plural("bus"), plural("bench"), plural("sheep")
    ('buses', 'benchs', 'sheeps')
    """
    return noun + ("es" if noun.endswith("s") else "s")
