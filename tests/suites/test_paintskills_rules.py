"""The rules of PaintSkills, worked by hand: what the released code does, what the paper says, what we correct.

Sources: Cho et al., arXiv:2202.04053v1 (threshold of Sec. 4.1), ICCV 2023, and the evaluators released with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from verism.suites.paintskills.boxes import Boxes, Decision, Expected, Thresholds, words_for
from verism.suites.paintskills.skills import SKILLS, skill
from verism.suites.paintskills.vocabulary import version

CLASSES = ("bus", "car", "dog")


def box(
    label: str | None,
    score: float,
    *,
    at: tuple[float, float] = (0.5, 0.5),
    extent: tuple[float, float] = (0.1, 0.1),
    color: str | None = None,
    **class_scores: float,
) -> dict[str, Any]:
    """A box; ``at`` and ``extent`` in pixels of the image. The label's own score is its class score."""
    subset = {} if label is None else {label: score}
    return {
        "label": label,
        "score": score,
        "at": at,
        "extent": extent,
        "color": color,
        "classes": {**subset, **class_scores},
    }


def seen(*found: dict[str, Any], size: tuple[float, float] = (1.0, 1.0), colors: bool = True) -> Boxes:
    """Boxes of an image, most confident first as the suite hands them to the rules; scores rounded to float32."""
    found = tuple(sorted(found, key=lambda b: -b["score"]))
    at = np.array([b["at"] for b in found], dtype=np.float64).reshape(-1, 2)
    extent = np.array([b["extent"] for b in found], dtype=np.float64).reshape(-1, 2)
    return Boxes(
        labels=[b["label"] for b in found],
        scores=np.array([b["score"] for b in found], dtype=np.float32).astype(np.float64),
        center=at / size,
        extent=extent / size,
        pixel_center=at,
        pixel_extent=extent,
        class_scores=np.array([[b["classes"].get(c, 0.0) for c in CLASSES] for b in found]).reshape(-1, len(CLASSES)),
        classes=CLASSES,
        colors=[b["color"] for b in found] if colors else None,
        head=version("paintskills").head,
    )


def decide(
    name: str, protocol: Any, expected: Expected, boxes: Boxes, **limits: float
) -> Mapping[str, tuple[float | None, str]]:
    decisions = skill(name).decide(protocol, expected, boxes, Thresholds(**limits))
    assert decisions[0].rule == "accuracy"
    return {d.rule: (d.value, d.reason) for d in decisions}


def values(name: str, protocol: Any, expected: Expected, boxes: Boxes, **limits: float) -> dict[str, float | None]:
    return {rule: value for rule, (value, _) in decide(name, protocol, expected, boxes, **limits).items()}


# ------------------------------------------------------------------------------------------------------------- object
DOG = Expected(labels=("dog",))


@pytest.mark.parametrize(
    ("found", "right"),
    [
        pytest.param([box("dog", 0.05)], 1.0, id="no threshold"),
        pytest.param([box("dog", 0.9), box("car", 0.89), box("dog", 0.8)], 1.0, id="less confident boxes are ignored"),
        pytest.param([box("dog", 0.95), box("car", 0.96)], 0.0, id="only the most confident box counts"),
        pytest.param([box("dog", 0.95), box(None, 0.96)], 0.0, id="also if it is of a class nobody asked for"),
        pytest.param([], 0.0, id="nothing found"),
    ],
)
def test_released_object(found, right):
    assert values("object", "released", DOG, seen(*found)) == {"accuracy": right}


# The code's argmax over classes of the maximum over boxes: of equal maxima the class with the lowest id, car 3, dog 18.
def test_released_ties_of_the_highest_score_go_to_the_first_class_of_the_head():
    dog_first, car_first = seen(box("dog", 0.9), box("car", 0.9)), seen(box("car", 0.9), box("dog", 0.9))
    nearly = seen(box("dog", 0.9), box("car", 0.8999999))  # float32 tells them apart
    assert [values("object", "released", DOG, boxes)["accuracy"] for boxes in (dog_first, car_first, nearly)] == [
        0,
        0,
        1,
    ]
    # The colour is still that of the first box.
    red_car = Expected(labels=("car",), color="red")
    tied = seen(box("dog", 0.9, color="red"), box("car", 0.9, color="blue"))
    assert values("color", "released", red_car, tied) == {"accuracy": 1.0, "right_object": 1.0, "right_color": 1.0}
    # A class nobody asked for has no id here, and comes last.
    assert values("object", "released", DOG, seen(box(None, 0.9), box("dog", 0.9)))["accuracy"] == 1.0


# arXiv v1, Sec. 4.1: p > p_th = 0.8. float32(0.8) is 0.800000012, and yet not above 0.8.
@pytest.mark.parametrize(("score", "right"), [(0.79, 0.0), (0.8, 0.0), (0.81, 1.0)])
@pytest.mark.parametrize("name", ["object", "color"])
def test_paper_has_a_threshold_for_object_and_color(name, score, right):
    expected = Expected(labels=("dog",), color="red" if name == "color" else None)
    boxes = seen(box("dog", score, color="red"))
    assert values(name, "paper", expected, boxes)["accuracy"] == right
    assert values(name, "released", expected, boxes)["accuracy"] == 1.0


def test_revised_object_looks_for_the_class_whatever_else_is_there():
    boxes = seen(box("car", 0.9), box("dog", 0.6), box(None, 0.99))
    assert values("object", "revised", DOG, boxes) == {"accuracy": 1.0, "only_object": 0.0}
    assert values("object", "released", DOG, boxes) == {"accuracy": 0.0}
    # A car below the limit and a class nobody asked for do not spoil `only_object`.
    boxes = seen(box("car", 0.4), box("dog", 0.6), box(None, 0.99))
    assert values("object", "revised", DOG, boxes) == {"accuracy": 1.0, "only_object": 1.0}
    assert values("object", "revised", DOG, seen(box("dog", 0.6)), revised=0.6)["accuracy"] == 0.0
    assert values("object", "revised", DOG, seen(box("dog", 0.61)), revised=0.6)["accuracy"] == 1.0


# -------------------------------------------------------------------------------------------------------------- count
def dogs(n: int) -> Expected:
    return Expected(labels=("dog",) * n)


# Columns: what is asked, boxes (class, score, probability of dog), m right?, n right?
@pytest.mark.parametrize(
    ("wanted", "found", "accuracy", "right_number"),
    [
        # n = 2. The two most dog-like boxes: 0.9 and 0.6, both dogs: m = 2. The car let the third box in.
        pytest.param(
            2, [box("dog", 0.9), box("car", 0.8, dog=0.05), box("dog", 0.6)], 1, 1, id="a foreign box widens the choice"
        ),
        # n = 2, dog and bus: m = 1 as asked, but two boxes are not one.
        pytest.param(1, [box("dog", 0.9), box("bus", 0.8, dog=0.1)], 1, 0, id="correct without the right number"),
        # n = 2 as asked, m = 1.
        pytest.param(2, [box("dog", 0.9), box("car", 0.8)], 0, 1, id="right number without being correct"),
        # n = 2. The two most confident are cars; the two most dog-like are dogs: m = 2.
        pytest.param(
            2,
            [box("car", 0.95, dog=0.01), box("car", 0.9, dog=0.02), box("dog", 0.5), box("dog", 0.45)],
            1,
            1,
            id="most dog-like, not most confident",
        ),
        # n = 2 (0.8, 0.75). Most dog-like: 0.75 and 0.44, the second rather a car: m = 1. The dog at 0.3 is too late.
        pytest.param(
            2,
            [box("dog", 0.75), box("bus", 0.8, dog=0.15), box("car", 0.46, dog=0.44), box("dog", 0.3)],
            0,
            1,
            id="a dog-like car takes a place",
        ),
        # n = 0, so m = 0. Earlier code chose one box at least, and would have been content with this dog.
        pytest.param(1, [box("dog", 0.69)], 0, 0, id="no box above 0.7 is wrong, not clamped to one"),
        pytest.param(1, [box("dog", 0.7)], 0, 0, id="0.7 is not above 0.7"),
        pytest.param(1, [box("dog", 0.71), box("dog", 0.7)], 1, 1, id="0.71 is"),
        # Classes nobody asked for count as boxes: n = 2.
        pytest.param(1, [box("dog", 0.9), box(None, 0.8, dog=0.1)], 1, 0, id="number of boxes of any class"),
        pytest.param(1, [], 0, 0, id="nothing found"),
        pytest.param(3, [box("dog", 0.9)] * 4, 0, 0, id="too many"),
    ],
)
def test_released_count(wanted, found, accuracy, right_number):
    decided = values("count", "released", dogs(wanted), seen(*found))
    assert (decided["accuracy"], decided["right_number"]) == (accuracy, right_number)


def test_released_count_threshold_is_an_option_and_strict_in_float32():
    # float32(0.8) as float64 is above 0.8.
    assert values("count", "released", dogs(1), seen(box("dog", 0.8)), released_count=0.8)["accuracy"] == 0.0
    assert values("count", "released", dogs(1), seen(box("dog", 0.8)), released_count=0.7)["accuracy"] == 1.0


def test_rules_take_probabilities_as_they_are():
    # Softmax with no-object at 0.4: dog 0.6. Renormalised without no-object it would be 1.0, and above 0.7 and 0.8.
    boxes = seen(box("dog", 0.6))
    assert values("count", "released", dogs(1), boxes)["accuracy"] == 0.0
    assert values("object", "paper", DOG, boxes)["accuracy"] == 0.0


@pytest.mark.parametrize(
    ("wanted", "found", "right"),
    [
        pytest.param(2, [box("dog", 0.3), box("dog", 0.2), box("dog", 0.1)], 1.0, id="no threshold, extra boxes free"),
        pytest.param(2, [box("dog", 0.9), box("car", 0.8), box("dog", 0.7)], 0.0, id="a car among the first two"),
        pytest.param(2, [box("dog", 0.9)], 0.0, id="too few boxes"),
    ],
)
def test_paper_count(wanted, found, right):
    assert values("count", "paper", dogs(wanted), seen(*found)) == {"accuracy": right}


@pytest.mark.parametrize(
    ("found", "accuracy", "right_number", "right_classes"),
    [
        pytest.param([box("dog", 0.9), box("dog", 0.6)], 1, 1, 1, id="two dogs"),
        pytest.param([box("dog", 0.9), box("dog", 0.6), box("dog", 0.5)], 1, 1, 1, id="0.5 is not above 0.5"),
        pytest.param([box("dog", 0.9), box("dog", 0.6), box("dog", 0.51)], 0, 0, 1, id="three dogs"),
        pytest.param([box("dog", 0.9), box("dog", 0.6), box("car", 0.7)], 0, 0, 0, id="two dogs and a car"),
        pytest.param([box("dog", 0.9), box("car", 0.7)], 0, 1, 0, id="a dog and a car"),
        pytest.param([box("dog", 0.9), box("dog", 0.6), box(None, 0.9)], 1, 1, 1, id="other classes nobody looks for"),
        pytest.param([], 0, 0, 0, id="nothing"),
    ],
)
def test_revised_count_is_exact(found, accuracy, right_number, right_classes):
    assert values("count", "revised", dogs(2), seen(*found)) == {
        "accuracy": accuracy,
        "right_number": right_number,
        "right_classes": right_classes,
    }


@pytest.mark.parametrize(("protocol", "found"), [("released", 1), ("revised", 2)])
def test_count_tells_how_many_it_found(protocol, found):
    boxes = seen(box("dog", 0.9), box("dog", 0.6))
    assert skill("count").decide(protocol, dogs(3), boxes, Thresholds())[0].detail == {"found": found}


# ------------------------------------------------------------------------------------------------------------ spatial
def pair(a: str, b: str, relation: str) -> Expected:
    return Expected(labels=(a, b), relation=relation)


def spatial(protocol: Any, relation: str, car: tuple[float, float], dog: tuple[float, float], **options: Any) -> Any:
    """Whether "dog {relation} car" holds with these centres."""
    boxes = seen(box("car", 0.4, at=car), box("dog", 0.3, at=dog), **options)
    return values("spatial", protocol, pair("car", "dog", relation), boxes, revised=0.2)["accuracy"]


@pytest.mark.parametrize("protocol", ["released", "paper", "revised"])
@pytest.mark.parametrize(
    ("dog", "relation"),
    [((0.1, 0.5), "left"), ((0.9, 0.5), "right"), ((0.5, 0.1), "above"), ((0.5, 0.9), "below")],
)
def test_the_relation_belongs_to_the_second_object_and_y_points_down(protocol, dog, relation):
    """The dog, named second, lies {relation} of the car in the middle: no other relation holds."""
    holding = [r for r in ("left", "right", "above", "below") if spatial(protocol, r, (0.5, 0.5), dog)]
    assert holding == [relation]


def test_released_spatial_takes_the_two_most_confident_boxes_without_threshold():
    expected = pair("car", "dog", "left")
    car, dog = box("car", 0.03, at=(0.9, 0.5)), box("dog", 0.02, at=(0.1, 0.5))
    right = {"accuracy": 1.0, "right_classes": 1.0}
    wrong = {"accuracy": 0.0, "right_classes": 0.0}
    assert values("spatial", "released", expected, seen(car, dog, box("bus", 0.01))) == right
    assert values("spatial", "released", expected, seen(car, dog, box("bus", 0.025))) == wrong
    assert values("spatial", "released", expected, seen(car, dog, box(None, 0.025))) == wrong
    assert values("spatial", "released", expected, seen(car, dog, box("car", 0.04))) == wrong
    assert values("spatial", "released", expected, seen(car)) == wrong
    assert values("spatial", "released", expected, seen()) == wrong
    # In either order of confidence; with the classes right and the relation wrong, the classes are right.
    assert values("spatial", "released", pair("dog", "car", "right"), seen(car, dog)) == right
    assert values("spatial", "released", pair("dog", "car", "left"), seen(car, dog)) == {**right, "accuracy": 0.0}


def test_released_axis_is_that_of_the_squashed_image():
    # Image 200 x 100 pixels. The dog lies 60 px to the right and 40 px below: 0.3 of the width, 0.4 of the height.
    # Squashed to a square, down is longer; in pixels, right is.
    car, dog, size = (50.0, 30.0), (110.0, 70.0), (200.0, 100.0)
    assert spatial("released", "below", car, dog, size=size) == 1.0
    assert spatial("released", "right", car, dog, size=size) == 0.0
    assert spatial("revised", "below", car, dog, size=size) == 0.0
    assert spatial("revised", "right", car, dog, size=size) == 1.0
    # The paper names no axis: the coordinate of the relation alone decides.
    assert spatial("paper", "below", car, dog, size=size) == 1.0
    assert spatial("paper", "right", car, dog, size=size) == 1.0
    assert spatial("paper", "left", car, dog, size=size) == 0.0


def test_released_ties():
    # Exact binary fractions: |dx| = |dy| = 1/4 is vertical; the same centre is below.
    middle = (0.5, 0.5)
    for dog, relation in [((0.75, 0.25), "above"), ((0.25, 0.25), "above"), ((0.75, 0.75), "below"), (middle, "below")]:
        holding = [r for r in ("left", "right", "above", "below") if spatial("released", r, middle, dog)]
        assert holding == [relation]


@pytest.mark.parametrize("protocol", ["released", "paper", "revised"])
def test_equal_classes_are_judged_by_the_axis_alone(protocol):
    side_by_side = seen(box("dog", 0.9, at=(0.2, 0.5)), box("dog", 0.8, at=(0.8, 0.5)))
    stacked = seen(box("dog", 0.9, at=(0.5, 0.2)), box("dog", 0.8, at=(0.5, 0.8)))
    for relation in ("left", "right", "above", "below"):
        expected = pair("dog", "dog", relation)
        horizontal = relation in ("left", "right")
        assert values("spatial", protocol, expected, side_by_side)["accuracy"] == horizontal
        assert values("spatial", protocol, expected, stacked)["accuracy"] == (not horizontal)


def test_equal_classes_need_two_boxes_of_the_class():
    expected = pair("dog", "dog", "left")
    dog, car = box("dog", 0.9, at=(0.2, 0.5)), box("car", 0.8, at=(0.8, 0.5))
    for protocol in ("released", "paper", "revised"):
        assert values("spatial", protocol, expected, seen(dog)) == {"accuracy": 0.0, "right_classes": 0.0}
        assert values("spatial", protocol, expected, seen(dog, car)) == {"accuracy": 0.0, "right_classes": 0.0}


def test_revised_spatial_takes_the_best_box_of_each_class():
    expected = pair("car", "dog", "left")
    car, dog = box("car", 0.9, at=(0.9, 0.5)), box("dog", 0.6, at=(0.1, 0.5))
    # A bus and a second car between them push the dog out of the two most confident boxes, which does not matter.
    crowd = seen(car, dog, box("bus", 0.8), box("car", 0.7, at=(0.0, 0.5)))
    assert values("spatial", "revised", expected, crowd) == {"accuracy": 1.0, "right_classes": 1.0}
    assert values("spatial", "released", expected, crowd) == {"accuracy": 0.0, "right_classes": 0.0}
    weak = seen(car, box("dog", 0.6, at=(0.1, 0.5)))
    assert values("spatial", "revised", expected, weak, revised=0.6)["right_classes"] == 0.0
    assert values("spatial", "revised", expected, weak, revised=0.59)["right_classes"] == 1.0


# Mean extent along x: (40 + 24) / 2 = 32 px; a quarter is 8 px. The heights do not matter.
@pytest.mark.parametrize(("offset", "right"), [(7.0, 0.0), (8.0, 0.0), (8.5, 1.0)])
def test_revised_spatial_needs_a_margin(offset, right):
    boxes = seen(
        box("car", 0.9, at=(100.0, 50.0), extent=(40.0, 90.0)),
        box("dog", 0.8, at=(100.0 + offset, 50.0), extent=(24.0, 90.0)),
        size=(200.0, 100.0),
    )
    decided = decide("spatial", "revised", pair("car", "dog", "right"), boxes)
    assert decided["accuracy"][0] == right
    assert decided["right_classes"][0] == 1.0
    assert ("in no clear relation to" in decided["accuracy"][1]) == (not right)
    assert values("spatial", "released", pair("car", "dog", "right"), boxes)["accuracy"] == 1.0


# ------------------------------------------------------------------------------------------------------------- colour
RED_DOG = Expected(labels=("dog",), color="red")


@pytest.mark.parametrize(
    ("found", "released", "revised"),
    [
        pytest.param([box("dog", 0.9, color="red")], (1, 1, 1), (1, 1, 1), id="a red dog"),
        pytest.param([box("dog", 0.9, color="blue")], (0, 1, 0), (0, 1, 0), id="a blue dog"),
        # The colour is that of the most confident box of all, which is a car.
        pytest.param(
            [box("car", 0.95, color="blue"), box("dog", 0.9, color="red")], (0, 0, 0), (1, 1, 1), id="a blue car first"
        ),
        pytest.param(
            [box("car", 0.95, color="red"), box("dog", 0.9, color="blue")], (0, 0, 1), (0, 1, 0), id="a red car first"
        ),
        # Two dogs: the more confident one decides.
        pytest.param(
            [box("dog", 0.7, color="red"), box("dog", 0.9, color="blue")], (0, 1, 0), (0, 1, 0), id="two dogs"
        ),
        pytest.param([box("dog", 0.1, color="red")], (1, 1, 1), (0, 0, 0), id="a faint red dog"),
        pytest.param([], (0, 0, 0), (0, 0, 0), id="nothing"),
    ],
)
def test_color(found, released, revised):
    rules = ("accuracy", "right_object", "right_color")
    assert values("color", "released", RED_DOG, seen(*found)) == dict(zip(rules, released, strict=True))
    assert values("color", "revised", RED_DOG, seen(*found)) == dict(zip(rules, revised, strict=True))


@pytest.mark.parametrize("protocol", ["released", "paper", "revised"])
@pytest.mark.parametrize(
    ("found", "right_object"),
    [([box("dog", 0.9)], 1.0), ([box("car", 0.9)], 0.0), ([], 0.0)],
    ids=["a dog", "a car", "nothing"],
)
def test_a_detector_without_colors_answers_nothing_about_them(protocol, found, right_object):
    # Also where the object is wrong: counted as wrong, those images alone would make the accuracy 0 by selection.
    decided = decide("color", protocol, RED_DOG, seen(*found, colors=False))
    assert {rule: value for rule, (value, _) in decided.items()} == {
        "accuracy": None,
        "right_object": right_object,
        "right_color": None,
    }
    assert "judged no colour" in decided["accuracy"][1]


# ------------------------------------------------------------------------------------------------------------ reasons
def left_of_car(*, dog_x: float) -> Boxes:
    return seen(box("car", 0.9, at=(0.5, 0.5)), box("dog", 0.8, at=(dog_x, 0.5)))


@pytest.mark.parametrize(
    ("name", "protocol", "expected", "boxes", "reason"),
    [
        ("object", "released", DOG, seen(box(None, 0.9)), "expected a dog, most confident box: another class"),
        ("object", "released", DOG, seen(), "expected a dog, found nothing"),
        ("object", "paper", DOG, seen(box("dog", 0.5)), "expected a dog, found nothing above 0.8"),
        ("object", "revised", DOG, seen(box("bus", 0.9), box("bus", 0.8)), "expected a dog, found 2 buses"),
        (
            "count",
            "revised",
            dogs(3),
            seen(box("dog", 0.9), box("dog", 0.9), box("car", 0.8)),
            "expected 3 dogs, found 2 dogs and 1 car",
        ),
        (
            "count",
            "released",
            dogs(3),
            seen(box("dog", 0.9), box("car", 0.8)),
            "expected 3 dogs; 2 boxes above 0.7, 1 of the 2 most dog-like are dog",
        ),
        (
            "count",
            "paper",
            dogs(2),
            seen(box("dog", 0.9), box(None, 0.8)),
            "expected 2 dogs; the 2 most confident boxes: 1 dog and 1 other object",
        ),
        (
            "spatial",
            "released",
            pair("car", "dog", "left"),
            left_of_car(dog_x=0.9),
            "expected dog left to car, found dog right to car",
        ),
        ("spatial", "revised", pair("car", "bus", "above"), left_of_car(dog_x=0.9), "found 1 car and 1 dog"),
        (
            "color",
            "released",
            RED_DOG,
            seen(box("car", 0.9, color="blue")),
            "expected a red dog, found a blue car",
        ),
    ],
)
def test_reasons_are_in_words(name, protocol, expected, boxes, reason):
    answer = decide(name, protocol, expected, boxes)["accuracy"][1]
    assert reason in answer


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([], "nothing"),
        (["bus"], "1 bus"),
        (["dog", "bus", "dog", "bench", None, "bench"], "2 dogs, 1 bus, 2 benches and 1 other object"),
    ],
)
def test_words_for(labels, words):
    assert words_for(labels) == words


# ----------------------------------------------------------------------------------------------------- shuffled images
@pytest.mark.parametrize(
    ("name", "one", "other", "same"),
    [
        ("object", DOG, DOG, True),
        ("count", dogs(2), dogs(3), False),
        ("color", RED_DOG, Expected(labels=("dog",), color="blue"), False),
        ("spatial", pair("car", "dog", "left"), pair("dog", "car", "right"), True),
        ("spatial", pair("car", "dog", "above"), pair("dog", "car", "below"), True),
        ("spatial", pair("car", "dog", "left"), pair("dog", "car", "left"), False),
        ("spatial", pair("dog", "dog", "left"), pair("dog", "dog", "right"), True),
        ("spatial", pair("dog", "dog", "left"), pair("dog", "dog", "above"), False),
    ],
)
def test_truth_key_is_equal_for_prompts_that_share_an_image(name, one, other, same):
    assert (skill(name).truth_key(one) == skill(name).truth_key(other)) == same


def test_unknown_skill_names_the_known_ones():
    with pytest.raises(
        ValueError, match=r"unknown skill 'colour'; choose from \['color', 'count', 'object', 'spatial'"
    ):
        skill("colour")


@pytest.mark.parametrize("name", sorted(SKILLS))
@pytest.mark.parametrize("protocol", ["released", "paper", "revised"])
def test_rules_keep_their_names_whatever_is_seen(name, protocol):
    """Images that cannot be used get a null for every rule; an empty image tells which those are."""
    expected = {"object": DOG, "count": dogs(2), "color": RED_DOG, "spatial": pair("car", "dog", "left")}[name]

    def rules(boxes: Boxes) -> list[str]:
        decisions = skill(name).decide(protocol, expected, boxes, Thresholds())
        assert all(isinstance(d, Decision) and d.reason for d in decisions)
        return [d.rule for d in decisions]

    full = seen(box("car", 0.9, at=(0.8, 0.5), color="red"), box("dog", 0.8, at=(0.1, 0.5), color="red"))
    assert rules(seen()) == rules(full) == rules(seen(colors=False))
