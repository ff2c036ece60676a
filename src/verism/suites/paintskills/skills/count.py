"""Count: does the image show as many objects of the class as the prompt says?"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from verism.records import ProtocolName, SceneObject
from verism.suites.paintskills.boxes import Boxes, Decision, Expected, Thresholds, words_for
from verism.suites.paintskills.skills.object_ import class_named, scene_object
from verism.suites.paintskills.vocabulary import COUNTS, Version, plural

__all__ = ["CountSkill"]


class CountSkill:
    """One to four objects of one class.

    ``released``: n boxes of any class (the suite does not matter) score above 0.7; of the n boxes with the highest
    probability *of the target class*, exactly as many as asked for must have the target as their most probable class.
    So a foreign box above 0.7 widens the selection and may let in a target box below it. ``right_number`` is n itself,
    the ``count_correct`` of the released output. (Version C3 of the code; C1 and C2 select at least one box.)
    ``paper``: all objects asked for are found, extra boxes not mentioned, no threshold: the M most confident boxes are
    of the class.
    ``revised``: exactly that many boxes of the class above the calibrated threshold, and no box of another class.
    """

    name = "count"
    breakdowns = ("object", "count")

    def cells(self, version: Version) -> Iterator[Mapping[str, Any]]:
        for count in COUNTS:
            for label in version.labels:
                yield {"object": label, "count": count}

    def objects(self, cell: Mapping[str, Any], version: Version) -> Sequence[SceneObject]:
        return (scene_object(version, cell["object"]),) * int(cell["count"])

    def words(self, cell: Mapping[str, Any], version: Version) -> Mapping[str, str]:
        noun = class_named(version, cell["object"]).prompt
        return {"N": str(cell["count"]), "As": plural(noun) if version.plurals and cell["count"] > 1 else noun}

    def decide(self, protocol: ProtocolName, expected: Expected, boxes: Boxes, at: Thresholds) -> Sequence[Decision]:
        target, wanted = expected.labels[0], len(expected.labels)
        asked = words_for(expected.labels)
        if protocol == "revised":
            labels = [boxes.labels[i] for i in boxes.above(at.revised)]
            n_target = labels.count(target)
            reason = f"expected {asked}, found {words_for(labels)}"
            right_number, right_classes = len(labels) == wanted, bool(labels) and n_target == len(labels)
        elif protocol == "released":
            n = int(boxes.confident(at.released_count).sum())
            column = boxes.class_scores[:, boxes.classes.index(target)] if len(boxes) else np.zeros(0)
            # Stable, so that exact ties keep the detector's order, as torch.topk does on the CPU.
            chosen = np.argsort(-column, kind="stable")[:n]
            n_target = sum(boxes.labels[i] == target for i in chosen)
            reason = (
                f"expected {asked}; {n} boxes above {at.released_count:g}, "
                f"{n_target} of the {n} most {target}-like are {target}"
            )
            right_number, right_classes = n == wanted, n > 0 and n_target == n
            return (
                Decision(rule="accuracy", value=float(n_target == wanted), reason=reason, detail={"found": n_target}),
                Decision(rule="right_number", value=float(right_number), reason=reason),
                Decision(rule="right_classes", value=float(right_classes), reason=reason),
            )
        else:
            labels = list(boxes.labels[:wanted])
            n_target = labels.count(target)
            reason = f"expected {asked}; the {len(labels)} most confident boxes: {words_for(labels)}"
            return (Decision(rule="accuracy", value=float(n_target == wanted), reason=reason),)
        return (
            Decision(
                rule="accuracy", value=float(right_number and right_classes), reason=reason, detail={"found": n_target}
            ),
            Decision(rule="right_number", value=float(right_number), reason=reason),
            Decision(rule="right_classes", value=float(right_classes), reason=reason),
        )

    def truth_key(self, expected: Expected) -> Hashable:
        return (expected.labels[0], len(expected.labels))
