"""Colour: is the object of the class the prompt names, and in the colour it names?"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from verism.records import ProtocolName, SceneObject
from verism.suites.paintskills.boxes import Boxes, Decision, Expected, Thresholds
from verism.suites.paintskills.skills.object_ import class_named, scene_object
from verism.suites.paintskills.vocabulary import COLORS, Version

__all__ = ["ColorSkill"]


class ColorSkill:
    """One object in one of six paints.

    ``released``: the most confident of all boxes has the class, and its colour is the one asked for; no threshold.
    ``paper``: the same among boxes above 0.8 (arXiv v1, Sec. 4.1).
    ``revised``: the most confident box *of the class*, above the calibrated threshold, has the colour.

    A detector that does not judge colours has no usable answer to any image, also where the object alone is wrong:
    an accuracy over such images only would be 0 by selection. ``right_object`` is decided all the same.
    """

    name = "color"
    breakdowns = ("object", "color")

    def cells(self, version: Version) -> Iterator[Mapping[str, Any]]:
        for color in COLORS:
            for label in version.labels:
                yield {"object": label, "color": color}

    def objects(self, cell: Mapping[str, Any], version: Version) -> Sequence[SceneObject]:
        return (scene_object(version, cell["object"], color=cell["color"], texture="pure"),)

    def words(self, cell: Mapping[str, Any], version: Version) -> Mapping[str, str]:
        return {"A": class_named(version, cell["object"]).prompt, "color": cell["color"]}

    def decide(self, protocol: ProtocolName, expected: Expected, boxes: Boxes, at: Thresholds) -> Sequence[Decision]:
        target = expected.labels[0]
        asked = f"expected a {expected.color} {target}"
        if protocol == "revised":
            result = boxes.of(target, at.revised)
            seen = result[0] if result else None
        else:
            limit = at.paper if protocol == "paper" else float("-inf")
            seen = 0 if len(boxes) and boxes.confident(limit)[0] else None
        label = None
        if seen is not None:
            label = target if protocol == "revised" else boxes.most_confident_label()
        color = None if seen is None or boxes.colors is None else boxes.colors[seen]
        if boxes.colors is None or (seen is not None and color is None):
            what = "none" if seen is None else f"a {label or 'object of another class'}"
            reason = f"{asked}, found {what}"
            unjudged = f"{reason}: the detector judged no colour"
            return (
                Decision(rule="accuracy", value=None, reason=unjudged),
                Decision(rule="right_object", value=float(label == target), reason=reason),
                Decision(rule="right_color", value=None, reason=unjudged),
            )
        if seen is None:
            reason = f"{asked}, found none"
            return tuple(
                Decision(rule=rule, value=0.0, reason=reason) for rule in ("accuracy", "right_object", "right_color")
            )
        reason = f"{asked}, found a {color} {label or 'object of another class'}"
        return (
            Decision(
                rule="accuracy",
                value=float(label == target and color == expected.color),
                reason=reason,
                detail={"color": color},
            ),
            Decision(rule="right_object", value=float(label == target), reason=reason),
            Decision(rule="right_color", value=float(color == expected.color), reason=reason),
        )

    def truth_key(self, expected: Expected) -> Hashable:
        return (expected.labels[0], expected.color)
