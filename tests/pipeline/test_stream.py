"""What a judge answers is checked before it is kept."""

import re

import numpy as np
import polars as pl
import pytest

import verism
from verism.errors import UsageError, VerismError
from verism.pipeline.stream import check_rows
from verism.records import AnswerNeed, DetectionNeed, EmbeddingNeed, FeatureNeed, frame, vector_rows

NEED = DetectionNeed(classes=("dog", "cat"), colors=("red",))
BOX = {
    "image_id": "a", "judge": "j", "query": 0, "label": "dog", "raw_label": "Dog", "score": 0.5, "x0": 0.0, "y0": 0.0,
    "x1": 4.0, "y1": 4.0, "class_scores": [0.5, 0.1], "color": None, "color_scores": [],
}  # fmt: skip
LOOKED = {"image_id": "a", "judge": "j", "query": -1}


def boxes(**changes: object) -> pl.DataFrame:
    return frame("detections", [LOOKED, BOX | changes])


@pytest.mark.parametrize(
    "changes",
    [{}, {"label": None}, {"color": "red", "color_scores": [1.0]}, {"class_scores": [0.0, 1.0]}],
    ids=lambda c: ",".join(c) or "plain",
)
def test_check_rows_boxes_of_the_need_pass(changes):
    check_rows(boxes(**changes), "j", NEED, ["a"])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([BOX], "observe returned list; expected a table, as records.frame makes"),
        (boxes().drop("score"), "score is missing; its columns are image_id, judge, query"),
        (boxes().with_columns(mask=1), "mask is unknown"),
        (boxes().cast({"query": pl.Int64}), "column query is of type Int64, expected Int32"),
        (boxes(score=None), "score is null in 1 of 1 rows of boxes"),
        (boxes(class_scores=None), "class_scores is null in 1 of 1 rows of boxes"),
        (boxes(class_scores=[0.5]), "class_scores holds 1 numbers for 2 class names; .*: dog, cat"),
        (boxes(class_scores=[]), "class_scores holds 0 numbers for 2 class names"),
        (boxes(color_scores=[0.5, 0.5]), "color_scores holds 2 numbers for 1 color names"),
        (boxes(class_scores=[50.0, 1.0]), r"column class_scores must lie in \[0, 1\]; it runs from 1.0 to 50.0"),
        (boxes(score=-0.5), "column score must lie in"),
        (boxes(score=float("nan")), "column score must lie in"),
        (boxes(label="Dog"), "label 'Dog' is not among the need's .dog, cat .*has no label .null"),
        (boxes(color="blue"), "color 'blue' is not among"),
        (boxes(image_id="b"), "spoke of .'b'., which it was not shown"),
        (boxes(judge="k"), "signed its rows as .'k'."),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_check_rows_boxes_of_another_shape_are_refused_by_field(rows, message):
    with pytest.raises(VerismError, match=f"^judge j.*{message}"):
        check_rows(rows, "j", NEED, ["a"])


def test_check_rows_image_left_out_is_refused():
    with pytest.raises(VerismError, match=re.escape("judge j returned no row for ['b']")):
        check_rows(boxes(), "j", NEED, ["a", "b"])


@pytest.mark.parametrize(("need", "table"), [(FeatureNeed(), "features"), (EmbeddingNeed(texts=()), "embeddings")])
def test_check_rows_vectors_of_one_length_and_finite_pass_others_are_refused(need, table):
    good = vector_rows(table, ["a", "b"], "j", np.ones((2, 3), dtype=np.float32))
    check_rows(good, "j", need, ["a", "b"])
    shorter = good.with_columns(vector=pl.Series([[1.0, 2.0, 3.0], [1.0]], dtype=pl.List(pl.Float32)))
    with pytest.raises(VerismError, match=rf"table '{table}': vectors .* column vector has lengths \[1, 3\]"):
        check_rows(shorter, "j", need, ["a", "b"])
    for value in (float("nan"), None):
        bad = good.with_columns(vector=pl.Series([[1.0, 2.0, 3.0], [1.0, value, 1.0]], dtype=pl.List(pl.Float32)))
        with pytest.raises(VerismError, match="column vector holds numbers that are not finite"):
            check_rows(bad, "j", need, ["a", "b"])


def test_check_rows_probability_outside_the_unit_interval_is_refused():
    need = AnswerNeed(questions={})
    check_rows(frame("answers", [{"image_id": "a", "judge": "j", "probability": None}]), "j", need, ["a"])
    with pytest.raises(VerismError, match="column probability must lie in"):
        check_rows(frame("answers", [{"image_id": "a", "judge": "j", "probability": 1.5}]), "j", need, ["a"])


def test_evaluate_judge_that_does_not_know_the_classes_is_refused_before_any_image_is_made(tmp_path):
    class Never:
        name = "never-1"

        def generate(self, requests):
            pytest.fail(f"{len(requests)} images were asked for")

    class Choosy:
        name = "choosy-1"

        def check(self, need):
            raise UsageError(f"choosy-1 knows no {need.classes[0]}")

        def observe(self, images, need): ...

    with pytest.raises(UsageError, match="choosy-1 knows no person"):
        verism.evaluate("paintskills", model=Never(), detector=Choosy(), out=tmp_path / "run", limit=15)
    assert not (tmp_path / "run").exists()
