"""Runs of which other shares were answered: refused everywhere where numbers are held against each other."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from commands import verism as command
from fakes import Guesser, noise
from report_runs import build_run

import verism
from verism.errors import UsageError
from verism.plans.board import make_board
from verism.plans.board_text import markdown_board
from verism.report_kit.tables import terminal_table
from verism.store import Run

REFUSED = dict.fromkeys((0, 2, 4, 5), "refused")
IMAGES = "usable answers: 9 of 9 in A, 5 of 9 in B"


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """Of nine images in the mean ``all`` has nine, ``some`` and ``alike`` the same five, ``most`` all but one."""
    folder = tmp_path_factory.mktemp("runs")
    for name, states in (("all", {}), ("some", REFUSED), ("alike", REFUSED), ("most", {3: "failed"})):
        build_run(folder / name, states=states, generator=name)
    return folder


def test_compare_and_gate_refuse_and_name_the_shares(runs):
    for compare in (lambda *of: command("compare", *of), verism.compare):
        with pytest.raises(
            UsageError, match=r"not comparable(?s:.)*use a judge that answers as much of both"
        ) as refused:
            compare(runs / "all", runs / "some")
        assert IMAGES in str(refused.value)
    with pytest.raises(UsageError, match="usable answers: 9 of 9 in BASE, 5 of 9 in NEW"):
        command("gate", runs / "all", runs / "some", "--max-drop", 2)


def test_compare_anyway_has_the_reason_and_what_is_left_out_beside_the_numbers(runs):
    both = (runs / "all", runs / "some", "--anyway")
    rows = json.loads(command("compare", *both, "--json").stdout)
    overall = next(row for row in rows if row["metric"] == "mean_accuracy")
    assert overall["reasons"] == [IMAGES]
    assert (overall["left_out_a"], overall["left_out_b"]) == ("", "4 of 9 unusable")
    assert (overall["n_pairs"], overall["n_unpaired"]) == (5, 4)
    table = command("compare", *both).stdout
    assert f"[1] {IMAGES}" in table
    assert "mean_accuracy: nothing | 4 of 9 unusable" in table


def test_equal_shares_and_a_single_image_are_compared_with_what_is_left_out(runs):
    alike = verism.compare(runs / "some", runs / "alike")
    assert all(row.reasons == () for row in alike)
    assert {(row.left_out_a, row.left_out_b) for row in alike if row.metric == "mean_accuracy"} == {
        ("4 of 9 unusable", "4 of 9 unusable")
    }
    table = command("compare", runs / "all", runs / "most").stdout
    assert "not comparable" not in table
    assert "mean_accuracy: nothing | 1 of 9 unusable" in table
    whole = command("compare", runs / "all", runs / "all").stdout
    assert "†" not in whole


def test_boards_do_not_rank_them_and_say_why(runs):
    board = make_board([runs])
    column = next(c for c in board.columns if c.metric == "mean_accuracy")
    cells = {row.name: row.cells[column.key] for row in board.rows}
    text = "usable answers: 9 of 9 in all, 5 of 9 in some"
    assert f"paintskills: {text}" in board.cautions
    assert f"not ranked against some: {text}" in cells["all"].reasons
    assert any(reason.startswith("not ranked against all: ") for reason in cells["some"].reasons)
    assert not any("against alike" in reason for reason in cells["some"].reasons)
    assert not any("against most" in reason for reason in cells["all"].reasons)
    position = {name: column.ranked.index(name) for name in cells}
    tested = column.record()["p_holm"]
    assert tested[position["all"]][position["some"]] is None
    assert tested[position["all"]][position["most"]] is not None
    assert text in markdown_board(board)
    for row in csv.DictReader(io.StringIO(board.csv())):
        if row["model"] == "all" and row["metric"] == "mean_accuracy":
            assert f"not ranked against some: {text}" in row["reasons"]
    with pytest.raises(UsageError, match=r"cannot be one board:(?s:.)*usable answers"):
        make_board([runs / "all", runs / "some"])


def test_reports_of_several_runs_mark_them(runs):
    records = json.loads(command("report", runs / "all", runs / "some", runs / "most", "--json").stdout)
    found = {r["run"]: r["cautions"] for r in records if (r["metric"], r["protocol"]) == ("mean_accuracy", "revised")}
    assert found == {"all": [], "some": ["usable answers: 9 of 9 in all, 5 of 9 in some"], "most": []}


def test_questions_without_a_reply_count_though_no_image_is_left_out(tmp_path):
    for name, silent in (("all", 0.0), ("alike", 0.02), ("few", 0.6)):
        judge = Guesser(silent=silent, unreadable=0.0)
        verism.evaluate("tifa", model=noise, vqa=judge, limit=6, n_images=2, out=tmp_path / name)
    rows = {r.metric: r for r in verism.compare(tmp_path / "all", tmp_path / "few", anyway=True) if not r.group}
    [reason] = rows["tifa_score"].reasons
    assert reason.startswith("questions answered: ")
    assert rows["tifa_score"].n_unpaired < rows["tifa_score"].n_pairs
    with pytest.raises(
        UsageError, match=r"questions answered: \d+\.\d % \(\d+ of \d+\) in A, \d+\.\d % \(\d+ of \d+\) in B"
    ):
        verism.compare(tmp_path / "all", tmp_path / "few")
    assert not any(row.reasons for row in verism.compare(tmp_path / "all", tmp_path / "alike"))
    # One share in one rounding, in its own row and behind the score.
    table = terminal_table([Run.open(tmp_path / "few")]).splitlines()
    [row] = [line for line in table if line.startswith("answered ")]
    share, answered, asked = re.search(r" (\d+\.\d) \[.*\((\d+) of (\d+) answered\)$", row).groups()
    assert f" in A, {share} % ({answered} of {asked}) in B" in reason
    assert share == f"{100 * int(answered) / int(asked):.1f}"
