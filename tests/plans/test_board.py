"""Boards: what stands in each cell, who is ranked against whom, and the page."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import verism
from verism.errors import UsageError
from verism.plans import Plan, run_plan
from verism.plans.board import Board, Column, make_board
from verism.plans.board_page import board_page
from verism.plans.board_text import latex_board, markdown_board
from verism.plans.demo import demo_table
from verism.store import Run

MEAN = "paintskills:mean_accuracy"


def make_plan(folder: Path) -> Plan:
    scores = folder / "people.csv"
    scores.write_text("suite,metric,value,ci_low,ci_high,n\npaintskills,mean_accuracy,0.97,0.95,0.99,300\n")
    return Plan.make(
        title="Rows & <columns>",
        models={
            "good": "scripted:error=0.0",
            "fair": "scripted:error=0.1",
            "poor": "scripted:error=0.9",
            "gone": "nonsense:x",
        },
        references={"perfect": {"model": "oracle"}, "people": {"scores": str(scores)}},
        suites={"paintskills": {"skills": ["object", "count"], "limit": 24, "detector": "truth"}},
        defaults={"size": 64, "seed": 3},
    )


@pytest.fixture(scope="module")
def plan_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("board")
    run_plan(make_plan(folder), folder / "P")
    return folder / "P"


@pytest.fixture(scope="module")
def board(plan_folder: Path) -> Board:
    return make_board([plan_folder], relative_to=plan_folder)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            "paintskills,mean_accuracy,97,95,99,300",
            "line 2: mean_accuracy lies in 0 to 1, got 97; 85 % is written 0.85",
        ),
        ("paintskills,mean_accuracy,0.97,0.95,99,", "lies in 0 to 1, got 99"),
        ("paintskills,mean_accuracy,0.97,0.99,0.95,", "0.97 is outside its interval 0.99 to 0.95"),
        ("paintskills,mean_accuracy,0.5,0.6,0.7,", "0.5 is outside its interval 0.6 to 0.7"),
        ("paintskills,mean_accuracy,0.97,,,-3", "n is a number of images, got -3"),
        ("paintskills,mean_acuracy,0.97,,,", "no metric 'mean_acuracy'. Did you mean mean_accuracy"),
        (
            ",accuracy/skill=count,0.9,,,\n,accuracy/skill=count,0.1,,,",
            r"line 3: accuracy/skill=count is there already",
        ),
        ("paintskills,mean_accuracy,high,,,", "line 2: could not convert"),
    ],
)
def test_scores_from_elsewhere_that_cannot_be_are_refused(plan_folder: Path, rows: str, message: str) -> None:
    table = plan_folder.parent / "people.csv"
    before = table.read_text(encoding="utf-8")
    try:
        table.write_text(f"suite,metric,value,ci_low,ci_high,n\n{rows}\n", encoding="utf-8")
        with pytest.raises(UsageError, match=message):
            make_board([plan_folder])
    finally:
        table.write_text(before, encoding="utf-8")


def cells(board: Board, key: str) -> dict[str, object]:
    return {row.name: row.cells[key] for row in board.rows}


def test_board_has_models_then_references_and_the_headlines(board):
    assert [(row.name, row.reference) for row in board.rows] == [
        ("good", False), ("fair", False), ("poor", False), ("gone", False), ("perfect", True), ("people", True),
    ]  # fmt: skip
    keys = [column.key for column in board.columns]
    assert keys == ["paintskills:accuracy/skill=object", "paintskills:accuracy/skill=count"] or MEAN in keys
    assert all(column.protocol == "revised" for column in board.columns)


def test_values_are_those_of_the_runs(board):
    for row in board.rows:
        for column in board.columns:
            cell = row.cells[column.key]
            if cell.state == "ok" and "paintskills" in row.runs:
                scores = Run.open(row.runs["paintskills"]).scores()
                [score] = [
                    s
                    for s in scores
                    if (s.metric, s.protocol, dict(s.group)) == (column.metric, "revised", dict(column.group))
                ]
                assert cell.score == score


def test_ranks_follow_compare_adjusted_over_all_pairs(board, plan_folder):
    column = next(c for c in board.columns if c.metric == "accuracy" and c.group == {"skill": "object"})
    assert column.ranked == ("good", "fair", "poor")
    rows = verism.compare(plan_folder / "runs" / "good-paintskills", plan_folder / "runs" / "poor-paintskills")
    [row] = [r for r in rows if dict(r.group) == {"skill": "object"} and r.metric == "accuracy"]
    others = [column.p_holm[i][j] for i, j in ((0, 1), (0, 2), (1, 2))]
    assert min(others) >= row.p_value
    assert column.p_holm[0][2] == pytest.approx(min(1.0, 3 * row.p_value))
    found = cells(board, column.key)
    assert (found["good"].rank_low, found["poor"].rank_high) == (1, 3)
    assert found["good"].best
    assert not found["poor"].best
    assert column.wins[0][2] == 1
    assert column.wins[2][0] == -1


def test_references_are_shown_and_not_ranked(board):
    for column in board.columns:
        assert "perfect" not in column.ranked
        assert cells(board, column.key)["perfect"].rank is None
    if MEAN in [c.key for c in board.columns]:
        people = cells(board, MEAN)["people"]
        assert (people.score.value, people.score.ci_low, people.score.n_used, people.rank) == (0.97, 0.95, 300, None)


def test_what_failed_says_why(board):
    gone = cells(board, board.columns[0].key)["gone"]
    assert gone.state == "failed"
    assert "unknown model 'nonsense'" in gone.note


def test_models_that_may_not_be_compared_are_not_ranked_and_the_reason_stands_beside(plan_folder, tmp_path):
    folder = tmp_path / "P"
    shutil.copytree(plan_folder, folder)
    verism.score(folder / "runs" / "fair-paintskills", threshold=0.9)
    board = make_board([folder])
    column = next(c for c in board.columns if c.metric == "accuracy" and c.group == {"skill": "object"})
    found = cells(board, column.key)

    assert any("good" in reason and "threshold" in reason for reason in found["fair"].reasons)
    assert not found["fair"].best
    assert found["good"].reasons
    assert math.isnan(column.p_holm[0][1])
    assert not math.isnan(column.p_holm[0][2])
    assert any("threshold" in caution for caution in board.cautions)
    assert "threshold" in markdown_board(board)
    assert "threshold" in board.csv()
    with pytest.raises(UsageError, match="cannot be one board"):
        make_board([plan_folder, folder])
    merged = make_board([plan_folder, folder], anyway=True)
    assert len(merged.rows) == 11  # the table of scores is the same
    assert "P/good" in {row.name for row in merged.rows}


def test_boards_of_plans_that_agree_are_merged(plan_folder, tmp_path):
    other = Plan.make(
        models={"middling": "scripted:error=0.5"},
        suites={"paintskills": {"skills": ["object", "count"], "limit": 24, "detector": "truth"}},
        defaults={"size": 64, "seed": 3},
    )
    run_plan(other, tmp_path / "Q")
    merged = make_board([plan_folder, tmp_path / "Q"])

    assert all("middling" in column.ranked for column in merged.columns if column.metric == "accuracy")
    assert merged.title == "Rows & <columns>"


def test_folder_of_runs_without_a_plan_is_a_board(plan_folder, tmp_path):
    for name in ("good", "poor"):
        shutil.copytree(plan_folder / "runs" / f"{name}-paintskills", tmp_path / "mine" / name)
    board = make_board([tmp_path / "mine"])

    assert [row.name.partition("(")[0] for row in board.rows] == ["scripted:error=0", "scripted:error=0.9"]
    assert board.title == "mine"


def test_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no scored run"):
        make_board([tmp_path])
    with pytest.raises(UsageError, match="is no directory of runs"):
        make_board([tmp_path / "nothing"])


def test_board_is_plain_json_and_the_same_every_time(board, plan_folder):
    text = json.dumps(board.record(), allow_nan=False)
    assert text == json.dumps(make_board([plan_folder], relative_to=plan_folder).record(), allow_nan=False)
    assert board_page(board) == board_page(make_board([plan_folder], relative_to=plan_folder))


def test_csv_has_a_line_for_each_model_and_metric(board):
    rows = list(csv.DictReader(io.StringIO(board.csv())))

    assert len(rows) == len(board.rows) * len(board.columns)
    failed = [row for row in rows if row["model"] == "gone"]
    assert all(row["state"] == "failed" and row["value"] == "" for row in failed)


def test_markdown_and_latex_have_every_model_and_escape_what_is_theirs(board):
    markdown, latex = markdown_board(board), latex_board(board)

    assert "Rows & \\<columns\\>" in markdown
    assert markdown.count("\n| ") >= len(board.rows)
    assert "_perfect_ (reference)" in markdown
    assert r"\toprule" in latex
    assert "mean\\_accuracy" not in latex  # labels are words
    assert latex.count(r"\\" + "\n") == len(board.rows) + 1


def with_some_unusable(board: Board) -> tuple[Board, str]:
    """The board with a number of the first model that leaves images out; and its column."""
    first = board.rows[0]
    columns = tuple(column for column in board.columns if first.cells[column.key].state == "ok")
    key = columns[0].key
    cell = first.cells[key]
    score = replace(cell.score, n_used=1022, n_unusable=2)
    cell = replace(cell, score=score, left_out="2 of 1,024 unusable")
    first = replace(first, cells={**first.cells, key: cell})
    return replace(board, columns=columns, rows=(first, *board.rows[1:])), key


def test_every_number_says_how_many_images_it_rests_on_in_every_format(board):
    board, key = with_some_unusable(board)
    ns = [
        [f"n = {c.score.n_used:,}" for column in board.columns if (c := row.cells[column.key]).score is not None]
        for row in board.rows
    ]
    assert ns[0][0] == "n = 1,022"
    assert sum(map(len, ns)) == 8  # four models and two columns
    lines = markdown_board(board).splitlines()
    at = lines.index("|---" * (len(board.columns) + 1) + "|") + 1
    for row, line in zip(ns, lines[at:], strict=False):
        assert re.findall(r"n = [\d,]+", line) == row
    assert "; n = 1,022; 2 of 1,024 unusable" in lines[at]
    latex = [line for line in latex_board(board).splitlines() if line.endswith(r" \\") and "model &" not in line]
    assert [re.findall(r"n = [\d,]+", line) for line in latex] == ns
    body = board_page(board).partition("<tbody>")[2].partition("</tbody>")[0]
    assert [re.findall(r"n = [\d,]+", row) for row in body.split("<tr ")[1:]] == ns
    cell = board.record()["rows"][0]["cells"][key]
    assert (cell["score"]["n_used"], cell["score"]["n_unusable"]) == (1022, 2)
    for text in (board_page(board), markdown_board(board), latex_board(board)):
        assert "images (or answers) that the value rests on" in text


def test_table_in_the_terminal_has_a_column_of_n(board):
    board, _ = with_some_unusable(board)
    head, first, *_ = demo_table(board, ["paintskills"]).splitlines()
    at = head.index("  n  ") + 2
    assert first[at:].startswith("1,022 ")
    assert first.endswith("2 of 1,024 unusable")


def test_number_without_a_count_shows_none(board):
    board, key = with_some_unusable(board)
    first = board.rows[0]
    unknown = replace(first.cells[key], score=replace(first.cells[key].score, n_used=0, n_unusable=0), left_out="")
    board = replace(board, rows=(replace(first, cells={key: unknown}),), columns=board.columns[:1])
    assert "n = " not in markdown_board(board)


def test_page_is_self_contained_and_escapes_text(board):
    page = board_page(board)

    assert "<h1><bdi>Rows &amp; &lt;columns&gt;</bdi></h1>" in page
    assert not re.findall(r'(?:src|href)="(?!#|data:)[a-z]+:', page)
    assert "default-src 'none'" in page
    [data] = re.findall(r'<script type="application/json" id="board">(.*?)</script>', page, re.S)
    assert json.loads(data) == board.record()


def column_of(name: str, ranked: tuple[str, ...], wins: tuple[tuple[int, ...], ...] = ()) -> Column:
    return Column(
        key=name, suite="s", title="S", metric=name, label=name, group={}, protocol="revised", unit="share",
        better="higher", meaning="", judges={}, ranked=ranked, wins=wins,
    )  # fmt: skip


def test_answer_counts_metrics_that_separate_models_and_names_who_is_ahead_of_all():
    apart = column_of("x", ("a", "b", "c"), ((0, 1, 1), (-1, 0, 0), (-1, 0, 0)))
    partly = column_of("y", ("a", "b", "c"), ((0, 1, 0), (-1, 0, 0), (0, 0, 0)))
    alike = column_of("z", ("a", "b"), ((0, 0), (0, 0)))
    alone = column_of("w", ("a",))
    assert Board(title="", columns=(apart, partly, alike, alone), rows=()).answer() == (
        "Models differ significantly in 2 of the 3 metrics with two or more models. "
        "Significantly better than every other model: a in 1."
    )
    assert Board(title="", columns=(alike, alone), rows=()).answer() == (
        "No model differs significantly from another in the one metric with two or more models."
    )
    assert Board(title="", columns=(alone,), rows=()).answer() == ""
