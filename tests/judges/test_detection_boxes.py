"""From a detector's arrays to the table of detections."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from verism.judges.detection.boxes import ImageBoxes, corners, detection_table
from verism.records import DetectionNeed, empty_table, schema

NEED = DetectionNeed(classes=("dog", "car"))
COLORED = DetectionNeed(classes=("dog", "car"), colors=("red", "blue", "white"))


def image(**changes: Any) -> ImageBoxes:
    fields: dict[str, Any] = {
        "image_id": "a#0",
        "width": 100,
        "height": 50,
        "boxes": np.array([[10, 5, 20, 15], [-4, 40, 30, 60]], dtype=np.float32),
        "class_scores": np.array([[0.75, 0.125], [0.25, 0.0]], dtype=np.float32),
        "labels": np.array([0, -1]),
        "raw_labels": ["Dog", "zebra"],
        "scores": np.array([0.75, 0.5], dtype=np.float32),
    }
    return ImageBoxes(**{**fields, **changes})


def nothing(image_id: str, colors: int | None = None) -> ImageBoxes:
    return image(
        image_id=image_id,
        boxes=np.zeros((0, 4)),
        class_scores=np.zeros((0, 2)),
        labels=np.zeros(0, dtype=int),
        raw_labels=[],
        scores=np.zeros(0),
        color_scores=None if colors is None else np.zeros((0, colors)),
    )


def test_rows_of_an_image():
    table = detection_table([image()], judge="j", need=NEED)
    assert dict(table.schema) == schema("detections")
    looked = dict.fromkeys(schema("detections")) | {"image_id": "a#0", "judge": "j", "query": -1}
    dog = {
        "image_id": "a#0", "judge": "j", "query": 0, "label": "dog", "raw_label": "Dog", "score": 0.75,
        "x0": 10.0, "y0": 5.0, "x1": 20.0, "y1": 15.0, "class_scores": [0.75, 0.125], "color": None, "color_scores": [],
    }  # fmt: skip
    # A foreign class has no label; a box that overhangs the 100 x 50 image is kept, or its centre would move.
    zebra = {
        **dog, "query": 1, "label": None, "raw_label": "zebra", "score": 0.5,
        "x0": -4.0, "y0": 40.0, "x1": 30.0, "y1": 60.0, "class_scores": [0.25, 0.0],
    }  # fmt: skip
    assert table.to_dicts() == [looked, dog, zebra]


def test_every_image_has_one_looked_at_row_first():
    table = detection_table([nothing("a#0"), image(image_id="b#0"), nothing("c#0")], judge="j", need=NEED)
    assert table["image_id"].to_list() == ["a#0", "b#0", "b#0", "b#0", "c#0"]
    assert table["query"].to_list() == [-1, -1, 0, 1, -1]


def test_images_in_which_nothing_was_seen_at_all():
    for need, colors in ((NEED, None), (COLORED, 3)):
        table = detection_table([nothing("a#0", colors), nothing("b#0", colors)], judge="j", need=need)
        assert table["query"].to_list() == [-1, -1]
        assert dict(table.schema) == schema("detections")
    assert detection_table([], judge="j", need=NEED).equals(empty_table("detections"))


def test_low_scores_are_left_out_and_the_rest_keeps_its_number():
    table = detection_table([image(scores=np.array([0.1, 0.5]))], judge="j", need=NEED, min_score=0.2)
    assert table["query"].to_list() == [-1, 1]
    assert table["raw_label"].to_list() == [None, "zebra"]


def test_colours():
    colors = np.array([[0.125, 0.5, 0.25], [0.5, 0.0, 0.0]], dtype=np.float32)
    table = detection_table([image(color_scores=colors), image(image_id="b#0")], judge="j", need=COLORED)
    assert table["color"].to_list() == [None, "blue", "red", None, None, None]
    assert table["color_scores"].to_list() == [None, [0.125, 0.5, 0.25], [0.5, 0.0, 0.0], None, [], []]


def test_given_queries_are_kept():
    table = detection_table([image(queries=np.array([7, 3]))], judge="j", need=NEED)
    assert table["query"].to_list() == [-1, 7, 3]


def test_corners_of_centre_boxes():
    # centre (0.5, 0.25), size (0.5, 0.5) of a 200 x 100 image: x 50 to 150, y 0 to 50
    np.testing.assert_allclose(corners(np.array([[0.5, 0.25, 0.5, 0.5]]), width=200, height=100), [[50, 0, 150, 50]])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"boxes": np.zeros((3, 4))}, r"boxes must have shape \(2, 4\), not \(3, 4\)"),
        ({"class_scores": np.zeros((2, 3))}, r"class_scores must have shape \(2, 2\)"),
        ({"raw_labels": ["dog"]}, "raw_labels must have shape"),
        ({"labels": np.array([0, 2])}, "labels must be -1 or the number of one of 2 classes"),
        ({"scores": np.array([0.5, 1.5])}, r"scores must lie in \[0, 1\]"),
        ({"scores": np.array([0.5, np.nan])}, r"scores must lie in \[0, 1\]"),
        ({"class_scores": np.full((2, 2), -0.1)}, r"class_scores must lie in \[0, 1\]"),
        ({"boxes": np.array([[5, 0, 4, 9], [0, 0, 1, 1]])}, "x0 <= x1"),
        ({"boxes": np.full((2, 4), np.inf)}, "must be finite"),
        ({"queries": np.array([1, 1])}, "queries must be different"),
        ({"color_scores": np.zeros((2, 4))}, r"color_scores must have shape \(2, 0\)"),
    ],
)
def test_arrays_that_would_make_a_wrong_table_are_refused(changes: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        detection_table([image(**changes)], judge="j", need=NEED)


def test_the_table_holds_each_images_own_rows():
    # Fast against obvious: the same images one at a time.
    rng = np.random.default_rng(0)
    many = []
    for i in range(20):
        n = int(rng.integers(0, 5))
        low = rng.uniform(0, 40, (n, 2))
        many.append(
            image(
                image_id=f"p#{i}",
                boxes=np.concatenate([low, low + rng.uniform(0, 40, (n, 2))], axis=1),
                class_scores=rng.uniform(0, 1, (n, 2)),
                labels=rng.integers(-1, 2, n),
                raw_labels=[f"r{k}" for k in range(n)],
                scores=rng.uniform(0, 1, n),
            )
        )
    alone = pl.concat([detection_table([one], judge="j", need=NEED, min_score=0.3) for one in many])
    assert detection_table(many, judge="j", need=NEED, min_score=0.3).equals(alone)
