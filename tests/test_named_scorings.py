"""Scorings that are kept by a name, and going back to the one before."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import PixelJudge

import verism
from verism.errors import UsageError
from verism.store import Run, score_records
from verism.store.scorings import FOLDER


def paint(prompt: str, seed: int) -> np.ndarray:
    return np.random.default_rng([seed, len(prompt)]).integers(0, 200, (16, 16, 3), dtype=np.uint8)


@pytest.fixture
def run(tmp_path) -> Run:
    options = {"skills": ["object"], "limit": 3, "threshold": 0.5}
    return verism.evaluate("paintskills", model=paint, detector=PixelJudge(), out=tmp_path / "run", **options)


def threshold(run: Run) -> float:
    return float(Run.open(run.path).manifest.scoring.rules["threshold_revised"])


def folders(run: Run) -> int:
    return len(list((run.path / FOLDER).glob("*")))


def test_named_scoring_stays_and_others_go(run):
    verism.score(run.path, threshold=0.9, name="strict")
    for value in (0.1, 0.2, 0.3, 0.4):
        verism.score(run.path, threshold=value)
    assert folders(run) == 3  # the named one, the last two
    assert threshold(run) == 0.4
    strict = verism.open_run(f"{run.path}@strict")
    assert strict.manifest.scoring.rules["threshold_revised"] == 0.9
    assert strict.name == "run@strict"
    assert [s.name for s in strict.scorings()] == ["strict", "", ""]
    assert verism.verify(run.path).is_whole
    assert not verism.verify(run.path).findings


def test_undo_goes_back_and_forth(run):
    verism.score(run.path, threshold=0.8)
    scores = score_records(Run.open(run.path).scores())
    opened = Run.open(run.path)
    opened.restore_scoring()
    assert threshold(run) == 0.5
    assert opened.manifest.scoring.rules["threshold_revised"] == 0.5
    opened.restore_scoring()
    assert threshold(run) == 0.8
    assert score_records(Run.open(run.path).scores()) == scores
    verism.score(run.path, threshold=0.7)
    assert folders(run) == 2
    assert not verism.verify(run.path).findings


def test_undo_of_the_first_scoring_is_refused(run):
    with pytest.raises(UsageError, match="no scoring before this one: nothing to undo"):
        Run.open(run.path).restore_scoring()


def test_restored_scoring_counts_and_the_copy_for_scripts_follows(run):
    verism.score(run.path, threshold=0.9, name="strict")
    copied = (run.path / "scores.json").read_bytes()
    verism.score(run.path, threshold=0.2)
    verism.score(run.path, threshold=0.3)
    Run.open(run.path).restore_scoring("strict")
    assert threshold(run) == 0.9
    assert (run.path / "scores.json").read_bytes() == copied
    assert not verism.verify(run.path).findings


def test_name_given_again_is_of_the_newest_scoring(run):
    verism.score(run.path, threshold=0.9, name="mine")
    verism.score(run.path, threshold=0.8, name="mine")
    verism.score(run.path, threshold=0.2)
    verism.score(run.path, threshold=0.3)
    assert verism.open_run(run.path, scoring="mine").manifest.scoring.rules["threshold_revised"] == 0.8
    assert folders(run) == 3


def test_unknown_and_impossible_names_are_refused(run):
    verism.score(run.path, threshold=0.9, name="strict")
    with pytest.raises(UsageError, match=r"no scoring 'strct'\. Did you mean strict"):
        verism.open_run(f"{run.path}@strct")
    with pytest.raises(UsageError, match="is no name of a scoring"):
        verism.score(run.path, name="../up")


def test_damaged_named_scoring_is_told_and_removed_by_repair(run):
    verism.score(run.path, threshold=0.9, name="strict")
    verism.score(run.path, threshold=0.2)
    verism.score(run.path, threshold=0.3)
    stored = Run.open(run.path).named_scoring("strict")
    stored.path("scores.json").write_text("[]", encoding="utf-8")
    [finding] = verism.verify(run.path).findings
    assert "'strict'" in finding.what
    found, left = verism.repair(run.path)
    assert found.is_whole
    assert not found.findings
    assert left == []
    assert threshold(run) == 0.3


def test_board_reads_a_named_scoring_and_lists_runs_without_one(run, tmp_path):
    from verism.plans.board import make_board

    verism.score(run.path, threshold=0.9, name="strict")
    verism.score(run.path, threshold=0.2)
    assert make_board([tmp_path], scoring="strict").record()
    with pytest.raises(UsageError, match="no scored run with a scoring 'other'"):
        make_board([tmp_path], scoring="other")


def test_two_scorings_of_a_run_stand_side_by_side(run, tmp_path):
    verism.score(run.path, threshold=0.9, name="strict")
    verism.score(run.path, threshold=0.2)
    page = verism.report(f"{run.path}@strict", run.path, out=tmp_path / "page.html").read_text(encoding="utf-8")
    assert "run@strict" in page
    with pytest.raises(UsageError, match="threshold_revised"):
        verism.compare(f"{run.path}@strict", run.path)


def test_adjusted_scoring_has_the_name_that_was_given_and_no_other(tmp_path):
    options = {"skills": ["object"], "limit": 3, "size": 64, "detector": "builtin"}
    run = verism.evaluate("paintskills", model="oracle", out=tmp_path / "run", **options)
    verism.score(run.path, correct="rendered")
    assert Run.open(run.path).scoring_name == ""
    verism.score(run.path, correct="rendered", name="adjusted")
    assert Run.open(run.path).scoring_name == "adjusted"
