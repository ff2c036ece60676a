"""Which of a detector's own classes stand for which class of a suite.

Suites name classes as COCO does (``fire hydrant``, ``potted plant``); the first PaintSkills data set writes some its
own way (``human``, ``bike``, ``van``, ``fireHydrant``). Detectors bring the names of whatever they were trained on:
``Fire Hydrant`` (Objects365), ``pottedplant`` (Pascal VOC), ``car_(automobile)`` (LVIS), ``Houseplant`` (Open Images).
A class that silently maps to nothing scores 0 for every model and looks like a result, so anything unclear is an error.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from verism.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["COCO91", "PAINTSKILLS_V1", "PAINTSKILLS_V1_COLORS", "LabelMap", "map_labels", "missing_lines", "spaced"]

NOT_A_CLASS = "N/A"

_COCO_IDS = {
    1: "person", 2: "bicycle", 3: "car", 4: "motorcycle", 5: "airplane", 6: "bus", 7: "train", 8: "truck", 9: "boat",
    10: "traffic light", 11: "fire hydrant", 13: "stop sign", 14: "parking meter", 15: "bench", 16: "bird", 17: "cat",
    18: "dog", 19: "horse", 20: "sheep", 21: "cow", 22: "elephant", 23: "bear", 24: "zebra", 25: "giraffe",
    27: "backpack", 28: "umbrella", 31: "handbag", 32: "tie", 33: "suitcase", 34: "frisbee", 35: "skis",
    36: "snowboard", 37: "sports ball", 38: "kite", 39: "baseball bat", 40: "baseball glove", 41: "skateboard",
    42: "surfboard", 43: "tennis racket", 44: "bottle", 46: "wine glass", 47: "cup", 48: "fork", 49: "knife",
    50: "spoon", 51: "bowl", 52: "banana", 53: "apple", 54: "sandwich", 55: "orange", 56: "broccoli", 57: "carrot",
    58: "hot dog", 59: "pizza", 60: "donut", 61: "cake", 62: "chair", 63: "couch", 64: "potted plant", 65: "bed",
    67: "dining table", 70: "toilet", 72: "tv", 73: "laptop", 74: "mouse", 75: "remote", 76: "keyboard",
    77: "cell phone", 78: "microwave", 79: "oven", 80: "toaster", 81: "sink", 82: "refrigerator", 84: "book",
    85: "clock", 86: "vase", 87: "scissors", 88: "teddy bear", 89: "hair drier", 90: "toothbrush",
}  # fmt: skip

COCO91: tuple[str, ...] = tuple(_COCO_IDS.get(index, NOT_A_CLASS) for index in range(91))
"""COCO's names by category id: 80 classes among 91 ids, 0 and ten others unused."""

PAINTSKILLS_V1: tuple[str, ...] = (
    "human", "airplane", "bike", "bus", "dog", "boat", "van", "train", "fireHydrant", "stopSign", "backpack", "chair",
    "diningTable", "skateboard", "bench", "suitcase", "trafficLight", "bird", "bear", "bed", "pottedPlant",
)  # fmt: skip
"""Classes of the first PaintSkills data set (arXiv:2202.04053v1) in its order, which is the order of its detectors."""

PAINTSKILLS_V1_COLORS: tuple[str, ...] = ("red", "blue", "yellow", "white", "purple", "green")
"""Colours of the first PaintSkills data set, in the order of its metadata file."""

# Other names of a class, as label sets write them, without spaces and case. Only true synonyms: a motorbike is no
# bicycle and a stool no chair.
_SYNONYMS: dict[str, tuple[str, ...]] = {
    "airplane": ("aeroplane", "plane"),
    "backpack": ("rucksack",),
    "bicycle": ("bike",),
    "bird": ("wildbird",),
    "diningtable": ("dinningtable", "kitchen&diningroomtable"),
    "firehydrant": ("fireplug", "hydrant"),
    "person": ("human", "pedestrian", "people"),
    "pottedplant": ("houseplant",),
    "suitcase": ("luggage",),
    "trafficlight": ("trafficsignal",),
    "tv": ("tvmonitor", "television", "monitor/tv"),
    "couch": ("sofa",),
    "motorcycle": ("motorbike",),
    "donut": ("doughnut",),
    "cellphone": ("mobilephone",),
}
_CANONICAL = {_name: canonical for canonical, names in _SYNONYMS.items() for _name in names}

# Kinds that a label set (Open Images) marks instead of the whole: they count as the whole, never the other way round.
_KINDS: dict[str, tuple[str, ...]] = {"person": ("man", "woman", "boy", "girl")}

# Not synonyms: used only by a detector that has no class of the name itself.
_STAND_INS = {
    "van": "car",
    "car": "van",
    # COCO's short names, which alone could mean an animal, or part of a piano.
    "computermouse": "mouse",
    "tvremote": "remote",
    "computerkeyboard": "keyboard",
}


def spaced(label: str) -> str:
    """A class name as words: lower case, camel case and punctuation split by single spaces.

    >>> spaced("fireHydrant"), spaced("Potted_Plant"), spaced("car_(automobile)")
    ('fire hydrant', 'potted plant', 'car')
    """
    label = re.sub(r"\([^)]*\)", " ", label)
    label = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", label)
    return " ".join(re.split(r"[\s_\-]+", label.strip(" _-").lower())).strip()


def _key(label: str) -> str:
    """What two spellings of one class share."""
    compact = spaced(label).replace(" ", "")
    return _CANONICAL.get(compact, compact)


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelMap:
    """The detector's classes behind each class of a need.

    Attributes:
        classes: the need's classes, in its order.
        members: per class, the detector's class ids; none only where the need is partial.
    """

    classes: tuple[str, ...]
    members: tuple[tuple[int, ...], ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """Classes of the need that the detector does not have."""
        return tuple(name for name, ids in zip(self.classes, self.members, strict=True) if not ids)

    def class_scores(self, scores: np.ndarray) -> np.ndarray:
        """Scores of the need's classes: the largest among the detector's classes behind each.

        Args:
            scores: per box and class id of the detector, shape (Q, L).
        Returns:
            Shape (Q, K), in the need's order.
        """
        import numpy as np

        if not self.members:
            return np.zeros((len(scores), 0), dtype=np.float32)
        nothing = np.zeros(len(scores), dtype=scores.dtype)
        return np.stack([scores[:, list(ids)].max(axis=1) if ids else nothing for ids in self.members], axis=1)

    def suite_index(self, model_ids: np.ndarray) -> np.ndarray:
        """Number of the need's class behind each class id of the detector, -1 for a foreign class; shape as given."""
        import numpy as np

        number = {model_id: k for k, ids in enumerate(self.members) for model_id in ids}
        return np.array([number.get(int(i), -1) for i in model_ids.ravel()], dtype=np.int64).reshape(model_ids.shape)


def map_labels(
    model_labels: Mapping[int, str],
    classes: Sequence[str],
    aliases: Mapping[str, str] | None = None,
    *,
    partial: bool = False,
) -> LabelMap:
    """Find the detector's classes behind every class of a need.

    Case, spaces, ``_``, ``-``, camel case and LVIS's parentheses do not matter, and common synonyms are known. Several
    of the detector's classes may stand for one class of the need; the opposite cannot be told apart and is refused.

    Args:
        model_labels: the detector's class names by class id. ``N/A`` is no class.
        classes: the need's classes.
        aliases: class of the suite by the detector's name, ``{"Parasol": "umbrella"}``: the detector's class then
            stands for that class and no other. Aliases to classes outside the need are left unused.
        partial: whether classes may have no counterpart; of two that share one, the first has it.
    Raises:
        UsageError: a class has no counterpart, two share one, or an alias names a class the detector does not have.

    >>> map_labels({0: "Person", 1: "aeroplane"}, ["airplane", "person"]).members
    ((1,), (0,))
    """
    if repeated := sorted({name for name in classes if list(classes).count(name) > 1}):
        raise UsageError(f"each class may be asked for once, but these come more than once: {repeated}")
    usable = {i: label for i, label in model_labels.items() if label != NOT_A_CLASS}
    aliased: dict[int, str] = {}
    for model_name, suite_name in (aliases or {}).items():
        exact = [i for i, label in usable.items() if label == model_name]
        ids = exact or [i for i, label in usable.items() if spaced(label) == spaced(model_name)]
        if not ids:
            near = difflib.get_close_matches(model_name, list(usable.values()), n=3, cutoff=0.4)
            raise UsageError(
                f"the alias {model_name!r} -> {suite_name!r} names a class the detector does not have"
                + (f"; near names: {', '.join(near)}" if near else "")
                + ". Aliases read {the detector's class: the suite's class}."
            )
        aliased.update(dict.fromkeys(ids, suite_name))

    by_key: dict[str, list[int]] = {}
    for i, label in usable.items():
        if i not in aliased:
            by_key.setdefault(_key(label), []).append(i)

    asked = {_key(name) for name in classes}
    members: list[tuple[int, ...]] = []
    for name in classes:
        ids = [i for i, suite_name in aliased.items() if _key(suite_name) == _key(name)]
        ids += by_key.get(_key(name), [])
        ids += [i for kind in _KINDS.get(_key(name), ()) if kind not in asked for i in by_key.get(kind, [])]
        if not ids and (stand_in := _STAND_INS.get(_key(name))):
            ids = by_key.get(stand_in, [])
        members.append(tuple(sorted(ids)))

    if partial:
        taken: set[int] = set()
        for k, entry in enumerate(members):
            members[k] = tuple(i for i in entry if i not in taken)
            taken |= set(entry)
        if not taken:
            raise UsageError(_missing_message(classes, list(usable.values())))
    elif missing := [name for name, entry in zip(classes, members, strict=True) if not entry]:
        raise UsageError(_missing_message(missing, list(usable.values())))
    owner: dict[int, str] = {}
    for name, entry in zip(classes, members, strict=True):
        for i in entry:
            if i in owner:
                raise UsageError(
                    f"the suite's classes {owner[i]!r} and {name!r} both map to the detector's class "
                    f"{model_labels[i]!r}, so their boxes could not be told apart. Use a detector with a class for "
                    "each, or give one of them another class of the detector with an alias."
                )
            owner[i] = name
    return LabelMap(classes=tuple(classes), members=tuple(members))


def missing_lines(missing: Sequence[str], of: Sequence[str]) -> list[str]:
    """A line on classes that a detector does not have, for the end of a run; nothing if it has them all.

    Args:
        missing: the classes.
        of: all that were asked for.
    """
    if not missing:
        return []
    shown = ", ".join(missing[:12]) + (" ..." if len(missing) > 12 else "")
    return [f"the detector has no class for {len(missing)} of {len(of)} names and never finds them: {shown}"]


def _missing_message(missing: Sequence[str], labels: Sequence[str]) -> str:
    spelled = {spaced(label): label for label in labels}
    lines = []
    alias = {labels[0] if labels else "parasol": missing[0]}
    for name in missing:
        near = [spelled[n] for n in difflib.get_close_matches(spaced(name), list(spelled), n=3, cutoff=0.5)]
        words = set(spaced(name).split())
        near += [label for text, label in spelled.items() if words & set(text.split()) and label not in near][:3]
        if near:
            alias = {near[0]: name}
        lines.append(f"{name!r} (near names: {', '.join(repr(n) for n in near)})" if near else repr(name))
    return (
        f"the detector has no class for {len(missing)} of the suite's classes: {'; '.join(lines)}. It knows "
        f"{len(labels)} classes, such as {', '.join(repr(label) for label in list(labels)[:5])}. If one of them is "
        f"meant, give an alias {{the detector's class: the suite's class}}, e.g. aliases={alias}; "
        "otherwise use another detector, or one with an open vocabulary."
    )
