"""Which of a detector's classes stand for which class of a suite."""

from __future__ import annotations

import numpy as np
import pytest

from verism.errors import UsageError
from verism.judges.detection.names import COCO91, PAINTSKILLS_V1, PAINTSKILLS_V1_COLORS, map_labels, spaced

# The classes of both PaintSkills data sets that are known, as suites report them.
SUITE = (
    "person", "airplane", "bicycle", "bus", "dog", "boat", "car", "train", "fire hydrant", "stop sign", "backpack",
    "chair", "dining table", "skateboard", "bench", "suitcase", "traffic light", "bird", "bear", "bed", "potted plant",
    "umbrella",
)  # fmt: skip
# arXiv:2202.04053v1: data set order, with COCO's ids of the same classes.
V1_COCO_IDS = (1, 5, 2, 6, 18, 9, 3, 7, 11, 13, 27, 62, 67, 41, 15, 33, 10, 16, 23, 65, 64)

VOC = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog",
    "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip


def numbered(*labels: str) -> dict[int, str]:
    return dict(enumerate(labels))


def test_coco_has_80_classes_among_91_ids():
    assert len(COCO91) == 91
    assert sum(name != "N/A" for name in COCO91) == 80
    assert [COCO91[i] for i in (0, 1, 12, 13, 44, 90)] == ["N/A", "person", "N/A", "stop sign", "bottle", "toothbrush"]


def test_every_suite_class_is_found_in_coco():
    members = map_labels(numbered(*COCO91), SUITE).members
    assert [COCO91[ids[0]] for ids in members] == list(SUITE)
    assert all(len(ids) == 1 for ids in members)


def test_first_paintskills_labels_find_their_coco_ids():
    assert map_labels(numbered(*COCO91), PAINTSKILLS_V1).members == tuple((i,) for i in V1_COCO_IDS)


def test_suite_labels_find_the_first_paintskills_detectors_classes():
    # `car` and `umbrella` behave differently: the detector's van stands in for the car, an umbrella it has none.
    classes = [name for name in SUITE if name != "umbrella"]
    members = map_labels(numbered(*PAINTSKILLS_V1), classes).members
    assert members == tuple((i,) for i in range(21))
    assert len(PAINTSKILLS_V1) == 21
    assert len(PAINTSKILLS_V1_COLORS) == 6


@pytest.mark.parametrize(
    ("model_label", "suite_label"),
    [
        ("Traffic Light", "traffic light"),
        ("potted_plant", "potted plant"),
        ("Potted-Plant", "potted plant"),
        ("pottedplant", "potted plant"),
        ("diningtable", "dining table"),
        ("Kitchen & dining room table", "dining table"),
        ("aeroplane", "airplane"),
        ("fireplug", "fire hydrant"),
        ("fireHydrant", "fire hydrant"),
        ("car_(automobile)", "car"),
        ("bus_(vehicle)", "bus"),
        ("Wild Bird", "bird"),
        ("Luggage", "suitcase"),
        ("Houseplant", "potted plant"),
        ("person", "human"),
        ("bicycle", "bike"),
        ("Van", "van"),
    ],
)
def test_spellings_and_synonyms(model_label: str, suite_label: str):
    assert map_labels(numbered("zebra", model_label), [suite_label]).members == ((1,),)


@pytest.mark.parametrize(("model_label", "suite_label"), [("motorbike", "bike"), ("stool", "chair"), ("bear", "bird")])
def test_what_is_no_synonym(model_label: str, suite_label: str):
    with pytest.raises(UsageError):
        map_labels(numbered(model_label), [suite_label])


def test_pascal_voc_knows_ten_of_the_classes():
    known = ["airplane", "bicycle", "bird", "boat", "bus", "car", "chair", "dining table", "dog", "person"]
    assert [VOC[i] for (i,) in map_labels(numbered(*VOC), known).members] == [
        "aeroplane", "bicycle", "bird", "boat", "bus", "car", "chair", "diningtable", "dog", "person",
    ]  # fmt: skip


def test_a_van_of_its_own_comes_before_the_car():
    assert map_labels(numbered("car", "van"), ["van", "car"]).members == ((1,), (0,))


def test_several_model_classes_for_one_suite_class_take_the_largest_score():
    result = map_labels(numbered("Man", "Dog", "Woman"), ["dog", "person"])
    assert result.members == ((1,), (0, 2))
    scores = np.array([[0.2, 0.1, 0.7], [0.5, 0.3, 0.2]])
    np.testing.assert_allclose(result.class_scores(scores), [[0.1, 0.7], [0.3, 0.5]])
    np.testing.assert_array_equal(result.suite_index(np.array([0, 1, 2, 9])), [1, 0, 1, -1])


def test_kinds_count_as_the_whole_and_never_the_other_way_round():
    with pytest.raises(UsageError, match="no class for 1"):
        map_labels(numbered("person"), ["woman"])
    assert map_labels(numbered("person", "woman"), ["person", "woman"]).members == ((0,), (1,))


def test_a_missing_class_is_named_with_near_names_and_the_way_out():
    with pytest.raises(UsageError) as caught:
        map_labels(numbered("person", "beach umbrella", "dog"), ["dog", "umbrella", "skateboard"])
    message = str(caught.value)
    assert "no class for 2 of the suite's classes" in message
    assert "'umbrella' (near names: 'beach umbrella')" in message
    assert "'skateboard'" in message
    assert "aliases={'beach umbrella': 'umbrella'}" in message
    assert "'dog'" not in message.split("It knows")[0]


def test_an_alias_fills_the_gap_and_takes_its_class_from_others():
    labels = numbered("car", "truck", "dog")
    assert map_labels(labels, ["bus", "dog"], {"truck": "bus"}).members == ((1,), (2,))
    assert map_labels(labels, ["car"], {"truck": "car"}).members == ((0, 1),)
    with pytest.raises(UsageError, match="no class for 1 of the suite's classes: 'car'"):
        map_labels(labels, ["car", "bus"], {"car": "bus"})
    assert map_labels(labels, ["dog"], {"truck": "bus"}).members == ((2,),)  # an alias outside the need


def test_an_alias_to_nothing_is_an_error():
    with pytest.raises(UsageError, match=r"'trukc' -> 'bus' names a class the detector does not .*near names: truck"):
        map_labels(numbered("truck"), ["bus"], {"trukc": "bus"})


def test_two_suite_classes_behind_one_model_class_are_refused():
    with pytest.raises(UsageError, match="'van' and 'car' both map to the detector's class 'car'"):
        map_labels(numbered("car"), ["van", "car"])
    with pytest.raises(UsageError, match="'person' and 'human' both"):
        map_labels(numbered("person"), ["person", "human"])
    with pytest.raises(UsageError, match="more than once"):
        map_labels(numbered("dog"), ["dog", "dog"])


def test_unused_ids_are_no_class():
    with pytest.raises(UsageError):
        map_labels(numbered("N/A", "dog"), ["N/A"])


def test_class_names_as_words():
    assert [spaced(s) for s in ("fireHydrant", "traffic_light", "Stop-Sign", "TV", "mouse_(computer_equipment)")] == [
        "fire hydrant", "traffic light", "stop sign", "tv", "mouse",
    ]  # fmt: skip
