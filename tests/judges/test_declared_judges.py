"""Results files whose judge is declared: their names, and runs that may be compared by them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import verism
from verism.cards import JudgeCard, Measured, find_measured
from verism.errors import UsageError
from verism.plans.board import make_board
from verism.records import judge_identity
from verism.registry import Context, make_judge

ROWS = {
    "vqa": {"image_id": "a", "question": "is it?", "answer": "yes"},
    "captioner": {"image_id": "a", "caption": "a dog"},
    "ocr": {"image_id": "a", "text": "STOP"},
    "detector": {"image_id": "a", "label": "dog", "score": 0.9, "x0": 0, "y0": 0, "x1": 4, "y1": 4},
}


def results_of(role: str, folder: Path) -> Path:
    if role == "depth":
        (folder / "maps").mkdir()
        np.save(folder / "maps" / "a.npy", np.zeros((2, 2), np.float32))
        return folder / "maps"
    path = folder / "answers.jsonl"
    path.write_text(json.dumps(ROWS[role]) + "\n")
    return path


@pytest.mark.parametrize("role", [*ROWS, "depth"])
def test_declared_judge_is_in_the_name_behind_the_hash_of_the_file(role: str, tmp_path: Path):
    path = results_of(role, tmp_path)
    plain = make_judge(f"results:{path}", Context(), role).name
    named = make_judge(f"results:{path}?judge=GPT-4o 2024-08", Context(), role).name
    assert named == f"{plain} judge=GPT-4o 2024-08"
    assert judge_identity(plain) == plain
    settings = " larger=near" if role == "depth" else ""
    assert judge_identity(named) == f"results{settings} judge=GPT-4o 2024-08"


def test_how_a_file_is_read_stays_part_of_the_judge(tmp_path: Path):
    path = results_of("detector", tmp_path)
    names = [
        make_judge(f"results:{path}?{options}", Context(), "detector").name
        for options in ("judge=D", "judge=D&alias.dog=cat")
    ]
    assert judge_identity(names[0]) != judge_identity(names[1])


@pytest.mark.parametrize("name", ["a=b", " ", "two\nlines"])
def test_name_that_is_no_line_of_text_is_refused(name: str, tmp_path: Path):
    from verism.judges.result_files import results_name

    with pytest.raises(UsageError, match="expected the name of who judged"):
        results_name(tmp_path / "a.csv", "0123", judge=name)


@pytest.fixture(scope="module")
def boxes(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two files of boxes, and two runs' folders to be."""
    folder = tmp_path_factory.mktemp("boxes")
    for n in (0, 1):
        row = {"image_id": "object_00000#0", "label": "dog", "score": 0.9, "x0": n, "y0": 0, "x1": 30, "y1": 30}
        (folder / f"{n}.jsonl").write_text(json.dumps(row) + "\n")
    return [folder / "0.jsonl", folder / "1.jsonl"]


def run_of(path: Path, judge: str, out: Path, model: str) -> verism.Run:
    spec = f"results:{path}?absent=empty" + (f"&judge={judge}" if judge else "")
    return verism.evaluate("paintskills", model=model, skills=["object"], limit=4, size=64, detector=spec, out=out)


def two_runs(boxes: list[Path], folder: Path, judges: tuple[str, str]) -> tuple[verism.Run, verism.Run]:
    models = ("scripted:error=0.0", "scripted:error=0.9")
    a, b = (
        run_of(path, judge, folder / str(n), model)
        for n, (path, judge, model) in enumerate(zip(boxes, judges, models, strict=True))
    )
    return a, b


def test_runs_with_files_of_one_declared_judge_compare_and_keep_the_hash(boxes: list[Path], tmp_path: Path):
    a, b = two_runs(boxes, tmp_path, ("D 1", "D 1"))
    assert a.judge("detector") != b.judge("detector")
    assert verism.compare(a, b)
    board = make_board([tmp_path])
    assert board.cautions == ()
    assert {column.judges["detector"] for column in board.columns} == {"results judge=D 1"}
    for run in (a, b):
        assert (run.judge("detector") or "").endswith(" judge=D 1")
        assert set(run.read("detections", run.judge("detector"))["judge"].to_list()) == {run.judge("detector")}


@pytest.mark.parametrize("judges", [("", ""), ("D 1", ""), ("", "D 1")])
def test_runs_whose_files_declare_no_judge_are_refused_and_told_how_to(
    boxes: list[Path], tmp_path: Path, judges: tuple[str, str]
):
    a, b = two_runs(boxes, tmp_path, judges)
    with pytest.raises(UsageError, match=r'--detector "results:FILE\?judge=NAME"'):
        verism.compare(a, b)


def test_runs_with_files_of_other_judges_are_refused(boxes: list[Path], tmp_path: Path):
    a, b = two_runs(boxes, tmp_path, ("D 1", "D 2"))
    with pytest.raises(UsageError, match=r"detector: results:0.* judge=D 1 in A, results:1.* judge=D 2 in B") as err:
        verism.compare(a, b)
    assert "declare it" not in str(err.value)


def test_card_of_a_declared_judge_serves_its_other_files():
    table = Measured(task="t", protocol="revised", labels=("no", "yes"), counts=((9, 1), (1, 9)))
    card = JudgeCard(
        judge="results:card.csv@01 judge=D", role="detector", kind="rendered", ground_truth="g", measured=(table,)
    )
    assert find_measured([card], judge="results:run.csv@02 judge=D", task="t", protocol="revised") == (card, table)
    for other in ("results:run.csv@02", "results:run.csv@02 judge=E"):
        assert find_measured([card], judge=other, task="t", protocol="revised") is None


def test_scorer_of_a_file_of_scores_is_its_declared_judge():
    names = [f"results:{file} scorer=HPS v2.1" for file in ("a.csv@01", "b.csv@02")]
    assert len({judge_identity(name) for name in names}) == 1
    assert judge_identity(names[0]) != judge_identity("results:a.csv@01 scorer=HPS v2.0")
