"""Object: is the class that the prompt names in the image?"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from verism.records import ProtocolName, SceneObject
from verism.suites.paintskills.boxes import Boxes, Decision, Expected, Thresholds, words_for
from verism.suites.paintskills.vocabulary import ObjectClass, Version, with_article

__all__ = ["ObjectSkill", "class_named", "scene_object"]


def class_named(version: Version, label: str) -> ObjectClass:
    """The class of that label."""
    return version.by_label[label]


def scene_object(version: Version, label: str, **fields: Any) -> SceneObject:
    """An object of that class, in the pose the version prescribes."""
    c = class_named(version, label)
    return SceneObject(shape=c.shape, label=c.label, state=c.state, **fields)


class ObjectSkill:
    """One object, nothing else asked.

    ``released``: the most confident of all boxes has the class; no threshold; extra boxes are ignored.
    ``paper``: the same among boxes above 0.8 (arXiv v1, Sec. 4.1).
    ``revised``: a box of the class above the calibrated threshold, whatever else is there; ``only_object`` says
    besides whether no other class of the suite was found.
    """

    name = "object"
    breakdowns = ("object",)

    def cells(self, version: Version) -> Iterator[Mapping[str, Any]]:
        for label in version.labels:
            yield {"object": label}

    def objects(self, cell: Mapping[str, Any], version: Version) -> Sequence[SceneObject]:
        return (scene_object(version, cell["object"]),)

    def words(self, cell: Mapping[str, Any], version: Version) -> Mapping[str, str]:
        noun = class_named(version, cell["object"]).prompt
        return {"A": noun, "a_A": with_article(noun)}

    def decide(self, protocol: ProtocolName, expected: Expected, boxes: Boxes, at: Thresholds) -> Sequence[Decision]:
        target = expected.labels[0]
        if protocol == "revised":
            results = [boxes.labels[i] for i in boxes.above(at.revised)]
            right = target in results
            reason = f"expected {with_article(target)}, found {words_for(results)}"
            return (
                Decision(rule="accuracy", value=float(right), reason=reason),
                Decision(rule="only_object", value=float(right and set(results) == {target}), reason=reason),
            )
        limit = at.paper if protocol == "paper" else float("-inf")
        if not len(boxes) or not boxes.confident(limit)[0]:
            what = "nothing" if not len(boxes) else f"nothing above {limit:g}"
            return (Decision(rule="accuracy", value=0.0, reason=f"expected {with_article(target)}, found {what}"),)
        label = boxes.most_confident_label()
        return (
            Decision(
                rule="accuracy",
                value=float(label == target),
                reason=f"expected {with_article(target)}, most confident box: {label or 'another class'}",
            ),
        )

    def truth_key(self, expected: Expected) -> Hashable:
        return expected.labels[0]
