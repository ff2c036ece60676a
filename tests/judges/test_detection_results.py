"""Boxes found elsewhere as a detector."""

import json

import numpy as np
import pytest

from verism.errors import UsageError
from verism.judges.detection.results import DetectionResults
from verism.pipeline.stream import check_rows
from verism.records import DetectionNeed, LoadedImage

NEED = DetectionNeed(classes=("cat", "sofa", "person"))


def image(name, prompt="p"):
    return LoadedImage(image_id=name, prompt_id=prompt, pixels=np.zeros((40, 60, 3), np.uint8))


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def row(name="p#0", label="cat", score=0.5, box=(1, 2, 30, 40), **more):
    return {"image_id": name, "label": label, "score": score, **dict(zip(("x0", "y0", "x1", "y1"), box)), **more}


def test_boxes_come_with_the_file_s_labels(tmp_path):
    path = write(tmp_path / "boxes.jsonl", row(), row(label="hot dog", score=0.25), row(name="q.png", label="couch"))
    judge = DetectionResults(path, absent="empty")
    judge.check(NEED)
    shown = [image("p#0"), image("q#0", "q"), image("r#0", "r")]
    table = judge.observe(shown, NEED)
    check_rows(table, judge.name, NEED, [each.image_id for each in shown])
    boxes = table.filter(table["query"] >= 0)
    assert boxes.select("image_id", "label", "raw_label", "score").rows() == [
        ("p#0", "cat", "cat", 0.5),
        ("p#0", None, "hot dog", 0.25),
        ("q#0", "sofa", "couch", 0.5),
    ]
    assert boxes.row(0, named=True)["x1"] == 30
    assert boxes["class_scores"].to_list()[1] == [0.0, 0.0, 0.0]
    lines = judge.summary()
    assert "never finds them: person" in lines[0]
    assert "no boxes for 1 images" in lines[1]


def test_an_image_that_the_file_does_not_name_is_not_taken_for_an_empty_one(tmp_path):
    judge = DetectionResults(write(tmp_path / "boxes.jsonl", row(), {"image_id": "q#0"}))
    judge.check(NEED)
    assert judge.observe([image("p#0"), image("q#0", "q")], NEED)["query"].to_list() == [-1, 0, -1]
    assert judge.summary()[1:] == []
    with pytest.raises(UsageError, match=r"does not name the image r#0\. .* its image_id alone; .*\?absent=empty"):
        judge.observe([image("r#0", "r")], NEED)


def test_csv_and_aliases(tmp_path):
    path = tmp_path / "boxes.csv"
    path.write_text("image_id,label,score,x0,y0,x1,y1\np#0,Kitty,0.9,1,2,3,4\n", encoding="utf-8")
    judge = DetectionResults(path, aliases={"Kitty": "cat"})
    assert "aliases=Kitty=cat" in judge.name
    assert judge.observe([image("p#0")], NEED)["label"].to_list() == [None, "cat"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "holds no boxes"),
        ([row(label="")], "expected a label"),
        ([row(label=3)], "expected a label"),
        ([row(score=1.5)], "score must lie in"),
        ([row(score="high")], "score must be a number"),
        ([row(score=None)], "score must be a number"),
        ([row(score=True)], "score must be a number"),
        ([row(x0=float("inf"))], "x0 must be a number"),
        ([row(box=(30, 2, 1, 40))], "x0 <= x1"),
        ([{"label": "cat"}], "which names the image"),
    ],
)
def test_rows_that_do_not_fit_are_refused(tmp_path, rows, message):
    with pytest.raises(UsageError, match=message):
        DetectionResults(write(tmp_path / "boxes.jsonl", *rows))


def test_a_file_of_other_classes_is_refused(tmp_path):
    with pytest.raises(UsageError, match="has no class for"):
        DetectionResults(write(tmp_path / "boxes.jsonl", row(label="zebra"))).check(NEED)
