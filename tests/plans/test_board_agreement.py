"""Boards of several suites: which columns rank alike, models in opposite order, and the images that show it."""

from __future__ import annotations

import json
import shutil

import pytest
from commands import verism

from verism.plans import Plan, run_plan
from verism.plans.board import make_board
from verism.plans.board_page import board_page
from verism.plans.board_text import markdown_board


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("agreement")
    plan = Plan.make(
        title="Two suites",
        models={"good": "scripted:error=0.0", "fair": "scripted:error=0.5", "poor": "scripted:error=1.0"},
        references={"perfect": {"model": "oracle"}},
        suites={
            "objects": {"suite": "paintskills", "skills": ["object"], "limit": 36, "detector": "truth"},
            "knowledge": {"suite": "wise", "vqa": "truth"},
        },
        defaults={"size": 64, "seed": 3},
    )
    run_plan(plan, place / "P")
    return place / "P"


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


def test_columns_of_different_suites_are_held_against_each_other(folder):
    board = make_board([folder])
    assert all(a.first.split(":")[0] != a.second.split(":")[0] for a in board.agreements)
    found = between_suites(board)
    assert found.models == ("good", "fair", "poor")  # references are not ranked
    assert found.rank.tau == 1
    assert found.spearman == pytest.approx(1)
    assert found.rank.low <= 1 == found.rank.high
    assert found.opposite == ()
    assert board.record()["agreements"][0]["in_general"]["low"] is None  # three models
    assert "| objects: " in markdown_board(board)


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


def test_one_suite_has_nothing_to_be_held_against(folder):
    done = verism("board", folder / "runs" / "good-objects", "--json")
    assert json.loads(done.output)["agreements"] == []
