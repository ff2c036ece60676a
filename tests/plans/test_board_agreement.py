"""Boards of several suites: which columns rank alike, models in opposite order, and the images that show it."""

from __future__ import annotations

import json
import shutil

import polars as pl
import pytest
from commands import verism

from verism import api
from verism.plans import Plan, run_plan
from verism.plans.board import make_board
from verism.plans.board_page import board_page
from verism.plans.board_text import markdown_board
from verism.suites.wise.benchmark import our_wording
from verism.suites.wise.own_prompts import own_prompts

MODELS = {"good": "scripted:error=0.0", "fair": "scripted:error=0.5", "poor": "scripted:error=1.0"}


def plan_of(models, include=()):
    return Plan.make(
        title="Two suites",
        models=models,
        include=include,
        references={"perfect": {"model": "oracle"}},
        suites={
            "objects": {"suite": "paintskills", "skills": ["object"], "limit": 12, "detector": "truth"},
            "knowledge": {"suite": "wise", "vqa": "truth"},
        },
        defaults={"size": 64, "seed": 3},
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("agreement")
    run_plan(plan_of(MODELS), place / "P")
    return place / "P"


@pytest.fixture(scope="module")
def plain(folder):
    return make_board([folder])


@pytest.fixture(scope="module")
def swapped(folder, tmp_path_factory):
    """The same board with the runs of the best and the worst model exchanged in one suite."""
    place = tmp_path_factory.mktemp("swapped") / "P"
    shutil.copytree(folder, place)
    runs = place / "runs"
    (runs / "good-knowledge").rename(runs / "other")
    (runs / "poor-knowledge").rename(runs / "good-knowledge")
    (runs / "other").rename(runs / "poor-knowledge")
    return place


def between_suites(board):
    return next(a for a in board.agreements if a.first.startswith("objects:accuracy"))


def test_columns_of_different_suites_are_held_against_each_other(plain):
    board = plain
    assert all(a.first.split(":")[0] != a.second.split(":")[0] for a in board.agreements)
    found = between_suites(board)
    assert found.models == ("good", "fair", "poor")  # references are not ranked
    assert found.rank.tau == 1
    assert found.rank.rho == pytest.approx(1)
    assert found.rank.rho_low <= 1 == found.rank.rho_high
    assert found.shared is None  # the suites have images of their own
    assert found.rank.low <= 1 == found.rank.high
    assert found.opposite == ()
    assert board.record()["agreements"][0]["in_general"]["low"] is None  # three models
    assert board.record()["agreements"][0]["rho_in_general"]["low"] is None
    assert "| objects: " in markdown_board(board)


def test_models_that_may_not_be_compared_are_left_out_and_named(folder, plain, tmp_path):
    shutil.copytree(folder, tmp_path / "P")
    others = {"few": "scripted:error=0.2", "fewer": "scripted:error=0.4"}  # of other numbers of prompts
    include = [{"model": m, "suite": "objects", "limit": n} for m, n in (("few", 6), ("fewer", 4))]
    run_plan(plan_of(MODELS | others, include), tmp_path / "P")
    board = make_board([tmp_path / "P"])
    found = between_suites(board)
    assert found.models == ("good", "fair", "poor")
    assert found.left_out == ("few", "fewer")
    assert found.rank == between_suites(plain).rank
    assert board.record()["agreements"][0]["left_out"] == ["few", "fewer"]
    assert "| 3, without few, fewer | 1.00 " in markdown_board(board)
    assert "3, without <bdi>few, fewer</bdi>" in board_page(board)


def test_models_in_opposite_order_are_listed_with_their_images(swapped):
    board = make_board([swapped])
    found = between_suites(board)
    assert found.rank.tau == -1
    pair = next(p for p in found.opposite if (p.first, p.second) == ("good", "poor"))
    assert {example.column for example in pair.examples} == {found.first, found.second}
    for example in pair.examples:
        assert example.better > example.worse
        assert all(uri.startswith("data:image/jpeg;base64,") for uri in example.shown)
    assert found.rank.n_opposite >= 1
    page = board_page(board)
    assert "Do the suites rank alike?" in page
    assert pair.examples[0].image_id in page
    assert "data:image/jpeg" not in json.dumps(board.record())


@pytest.fixture(scope="module")
def same_images(tmp_path_factory):
    """Two suites whose models make the same images; the second is judged by a file: one prompt wrong, others right."""
    place = tmp_path_factory.mktemp("shared")
    prompts = own_prompts(our_wording("verified"))
    rows = [
        {"prompt_id": p.prompt_id, "question": p.questions[0].text, "answer": f"Score: {int(p.prompt_id != 'own_00')}"}
        for p in prompts
    ]
    (place / "answers.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    plan = Plan.make(
        models={"good": "scripted:error=0.0", "fair": "scripted:error=0.5", "poor": "scripted:error=1.0"},
        suites={
            "truth": {"suite": "wise", "vqa": "truth"},
            "file": {"suite": "wise", "vqa": f"results:{place / 'answers.jsonl'}"},
        },
        defaults={"size": 64, "seed": 3},
    )
    run_plan(plan, place / "P")
    return place / "P"


def test_images_that_one_suite_calls_right_and_another_wrong_are_listed(same_images):
    board = make_board([same_images], relative_to=same_images)
    (found,) = board.agreements
    shared = found.shared
    right = {}
    for model in ("good", "fair", "poor"):
        run = api.open_run(same_images / "runs" / f"{model}-truth")
        rows = run.verdicts().filter((pl.col("rule") == "questions") & (pl.col("protocol") == "revised"))
        right |= {(model, row["prompt_id"]): row["value"] == 1 for row in rows.iter_rows(named=True)}
    first = {key: value for key, value in right.items() if key[1] == "own_00"}
    rest = [value for key, value in right.items() if key[1] != "own_00"]
    assert right["good", "own_00"] is True
    assert right["poor", "own_00"] is False
    assert shared.n == 72
    assert (shared.n_first_right, shared.n_wrong) == (sum(first.values()), 3 - sum(first.values()))
    assert (shared.n_right, shared.n_second_right) == (sum(rest), len(rest) - sum(rest))
    by_truth = [c for c in shared.contradictions if c.right == found.first]
    assert {(c.model, c.image_id) for c in by_truth} == {(m, "own_00#0") for (m, _), value in first.items() if value}
    by_file = [c for c in shared.contradictions if c.right == found.second]
    assert [c.model for c in by_file].count("poor") == 3  # of 23
    assert all(c.shown.startswith("data:image/jpeg;base64,") for c in shared.contradictions)
    page = board_page(board)
    assert f"of 72 images judged by both, {shared.n_first_right + shared.n_second_right} are right by one" in page
    assert by_truth[0].text in page
    assert "data:image/jpeg" not in json.dumps(board.record())
    assert f"{shared.n_first_right + shared.n_second_right} of 72" in markdown_board(board)


def test_one_suite_has_nothing_to_be_held_against(folder):
    done = verism("board", folder / "runs" / "good-objects", "--json")
    assert json.loads(done.output)["agreements"] == []
