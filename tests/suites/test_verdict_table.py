"""The images of a run as rules see them, and the table of verdicts."""

from __future__ import annotations

import json

import pytest

from verism.records import Observed, Prompt, frame, schema
from verism.suites.verdict_table import ShownImage, VerdictRows, image_problem, shown_images

P, Q = (Prompt(prompt_id=i, suite="s", text=i, n_images=2) for i in "pq")


@pytest.mark.parametrize(
    ("state", "note", "observed", "problem"),
    [
        ("ok", None, True, None),
        ("ok", "resized", True, None),
        ("ok", None, False, "not looked at"),
        ("ok", "out of memory", False, "not looked at: out of memory"),
        ("missing", None, True, "image missing"),
        ("refused", "policy", False, "image refused: policy"),
    ],
)
def test_image_problem_every_state_gives_one_sentence(
    state: str, note: str | None, observed: bool, problem: str | None
) -> None:
    assert image_problem(state, note, observed=observed) == problem


def run() -> Observed:
    states = [("q#0", "ok", None), ("p#1", "failed", "no memory"), ("p#0", "ok", None), ("q#1", "blank", None)]
    rows = [
        {"image_id": i, "prompt_id": i[0], "index": int(i[-1]), "state": state, "note": note}
        for i, state, note in states
    ]
    return Observed(prompts={"p": P, "q": Q}, images=frame("images", rows), observations={})


def test_shown_images_come_by_prompt_and_index_with_their_problems() -> None:
    assert [(i.image_id, i.prompt.prompt_id, i.index, i.problem) for i in shown_images(run())] == [
        ("p#0", "p", 0, None),
        ("p#1", "p", 1, "image failed: no memory"),
        ("q#0", "q", 0, None),
        ("q#1", "q", 1, "image blank"),
    ]


def test_shown_images_that_the_judge_did_not_observe_have_a_problem() -> None:
    assert [i.problem for i in shown_images(run(), judged={"q#0", "q#1"})] == [
        "not looked at", "image failed: no memory", None, "image blank",
    ]  # fmt: skip


def test_verdict_rows_table_has_the_columns_of_the_record_and_details_as_json() -> None:
    rows = VerdictRows()
    rows.add(ShownImage(image_id="p#0", prompt=P, index=0, problem=None), "revised", "inside", 1.0, "why", {"é": 2})
    rows.add(ShownImage(image_id="q#0", prompt=Q, index=0, problem="x"), "released", "inside", None, "x")
    rows.add_row("real/1", "", "revised", "covered", 0.0, "far")
    table = rows.table()
    assert dict(table.schema) == dict(schema("verdicts"))
    assert table.drop("detail").rows() == [
        ("p#0", "p", "revised", "inside", 1.0, "why"),
        ("q#0", "q", "released", "inside", None, "x"),
        ("real/1", "", "revised", "covered", 0.0, "far"),
    ]
    details = table["detail"].to_list()
    assert json.loads(details[0]) == {"é": 2}
    assert details[1:] == [None, None]
