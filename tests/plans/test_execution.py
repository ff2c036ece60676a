"""Plans that run: one load a model, shared images, failures that stop nobody, and resuming."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from verism.errors import UsageError, VerismError
from verism.pipeline.local import make_requests
from verism.pipeline.sharing import SharedImages
from verism.plans import Plan, plan_status, run_plan
from verism.plans.board import make_board
from verism.plans.board_page import board_page
from verism.plans.board_text import markdown_board
from verism.plans.execution import check_plan
from verism.plans.status import run_path
from verism.records import LoadedImage, Request, Result, frame
from verism.store import Run

ASKED: list[str] = []


class Noise:
    """A generator that reads the text and the seed, and counts what it is asked."""

    text_only = True
    name = "noise"

    def generate(self, requests: Sequence[Request]) -> Iterator[Result]:
        for request in requests:
            ASKED.append(request.image_id)
            pixels = np.random.default_rng(request.seed).integers(0, 255, (32, 32, 3), dtype=np.uint8)
            yield Result(image_id=request.image_id, state="ok", pixels=pixels)


class Broken(Noise):
    name = "broken"

    def generate(self, requests: Sequence[Request]) -> Iterator[Result]:  # noqa: ARG002
        raise VerismError("the model is broken")


class Blind:
    """A detector that sees nothing, and counts the runs it is told of."""

    name = "blind"
    runs = 0

    def start_run(self) -> None:
        self.runs += 1

    def observe(self, images: Sequence[LoadedImage], need: object) -> object:  # noqa: ARG002
        return frame("detections", [{"image_id": i.image_id, "judge": self.name, "query": -1} for i in images])


@pytest.fixture(autouse=True)
def nothing_asked_yet() -> None:
    ASKED.clear()


def make(**models: object) -> Plan:
    return Plan.make(
        models=models,
        suites={
            "first": {"suite": "paintskills", "skills": ["object"], "limit": 4},
            "again": {"suite": "paintskills", "skills": ["object"], "limit": 4, "rules": {"threshold_revised": 0.9}},
        },
        defaults={"detector": Blind(), "seed": 1},
    )


def test_images_asked_for_by_two_suites_are_made_once(tmp_path):
    outcomes = run_plan(make(noise=Noise()), tmp_path / "P")

    assert [o.state for o in outcomes] == ["done", "done"]
    assert len(ASKED) == len(set(ASKED)) == 4
    first, again = (Run.open(o.path).read("images") for o in outcomes)
    assert first["sha256"].to_list() == again["sha256"].to_list()
    assert again["note"].unique().to_list() == ["as in another run of the plan"]


def test_shared_images_travel_to_other_processes(tmp_path):
    (first, _) = run_plan(make(noise=Noise()), tmp_path / "P")
    run = Run.open(first.path)
    shared = SharedImages()
    shared.add(run)
    there = pickle.loads(pickle.dumps(shared))
    (request,) = make_requests(run.prompts(), 1)[:1]
    assert there.has("noise", request)
    assert np.array_equal(there.find("noise", request), run.load_image(run.read("images").row(0, named=True)).pixels)


def test_images_of_generators_that_read_more_than_the_text_are_not_shared(tmp_path):
    class Particular(Noise):
        text_only = False

    run_plan(make(noise=Particular()), tmp_path / "P")
    assert len(ASKED) == 8


def test_a_pair_that_fails_stops_no_other_and_is_tried_again(tmp_path):
    plan = make(broken=Broken(), noise=Noise())
    outcomes = run_plan(plan, tmp_path / "P")

    assert [o.state for o in outcomes] == ["failed", "failed", "done", "done"]
    assert outcomes[0].reason == "the model is broken"
    status = plan_status(plan, tmp_path / "P")
    assert status.counts == {"failed": 2, "done": 2}
    assert status.pairs[0].reason == "the model is broken"
    assert (status.pairs[2].images, status.pairs[2].wanted) == (4, 4)

    ASKED.clear()
    again = run_plan(make(broken=type("Mended", (Noise,), {"name": "broken"})(), noise=Noise()), tmp_path / "P")
    assert [o.state for o in again] == ["done", "done", "kept", "kept"]
    assert len(ASKED) == 4


def test_other_settings_of_a_run_that_is_done_are_seen_and_refused(tmp_path):
    run_plan(make(noise=Noise()), tmp_path / "P")
    changed = Plan.make(
        models={"noise": Noise()},
        suites={"first": {"suite": "paintskills", "skills": ["object"], "limit": 4}},
        defaults={"detector": Blind(), "seed": 2},
    )
    assert [p.state for p in plan_status(changed, tmp_path / "P").pairs] == ["changed"]
    [outcome] = run_plan(changed, tmp_path / "P")
    assert outcome.state == "failed"
    assert "other settings" in outcome.reason


def limited(limit):
    return Plan.make(
        models={"noise": Noise()},
        suites={"first": {"suite": "paintskills", "skills": ["object"], "limit": limit}},
        defaults={"detector": Blind()},
    )


def test_a_plan_that_asks_for_more_images_goes_on_with_its_runs(tmp_path):
    run_plan(limited(4), tmp_path / "P")
    [status] = plan_status(limited(6), tmp_path / "P").pairs
    assert (status.state, status.images, status.wanted) == ("waiting", 4, 6)
    assert "more images" in status.reason
    [fewer] = plan_status(limited(2), tmp_path / "P").pairs
    assert (fewer.state, fewer.images, fewer.wanted) == ("changed", 4, 4)
    assert "does not shrink" in fewer.reason
    [check] = check_plan(limited(2), tmp_path / "P").pairs
    assert "does not shrink" in check.refused
    [check] = check_plan(limited(6), tmp_path / "P").pairs
    assert (check.refused, check.images, check.images_done) == ("", 6, 4)
    ASKED.clear()
    assert [o.state for o in run_plan(limited(6), tmp_path / "P")] == ["done"]
    assert len(ASKED) == 2
    assert plan_status(limited(6), tmp_path / "P").counts == {"done": 1}


def test_only_some_models_or_suites(tmp_path):
    plan = make(noise=Noise(), other=type("Other", (Noise,), {"name": "other"})())

    assert [o.pair for o in run_plan(plan, tmp_path / "P", only=["other", "first"])] == ["other-first"]
    assert plan_status(plan, tmp_path / "P").counts == {"waiting": 3, "done": 1}
    with pytest.raises(UsageError, match="'nobody' is neither a model nor a suite of the plan"):
        run_plan(plan, tmp_path / "P", only=["nobody"])


def test_named_judges_and_models_are_loaded_once_for_all_runs_they_fit(tmp_path, monkeypatch):
    from verism.judges.detection.builtin import BuiltinDetector

    loaded: list[object] = []
    original = BuiltinDetector.__init__

    def counted(self, *arguments, **options):
        loaded.append(self)
        original(self, *arguments, **options)

    monkeypatch.setattr(BuiltinDetector, "__init__", counted)
    monkeypatch.setattr(BuiltinDetector, "__signature__", None, raising=False)
    plan = Plan.make(
        models={"noise": Noise(), "other": type("Other", (Noise,), {"name": "other"})()},
        suites={
            "a": {"suite": "paintskills", "skills": ["object"], "limit": 2},
            "b": {"suite": "paintskills", "skills": ["count"], "limit": 2},
        },
        defaults={"detector": "builtin"},
    )
    assert [o.state for o in run_plan(plan, tmp_path / "P")] == ["done"] * 4
    assert len(loaded) == 1


def test_objects_of_python_cannot_go_to_other_processes(tmp_path):
    with pytest.raises(UsageError, match="has objects of Python"):
        run_plan(make(noise=Noise(), other=Broken()), tmp_path / "P", jobs=2)


def test_plan_directory_that_holds_something_else_is_refused(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("precious")
    with pytest.raises(UsageError, match="is not the directory of a plan"):
        run_plan(make(noise=Noise()), tmp_path / "mine")


def test_check_lists_everything_that_would_be_refused(tmp_path):
    plan = Plan.make(
        models={"good": "scripted:error=0.1", "odd": "nonsense:x", "wrong": "scripted:errror=0.1"},
        suites={"paintskills": {"limit": 3, "skills": ["object"]}},
        defaults={"detector": "truth", "size": 64},
    )
    checked = check_plan(plan, tmp_path / "P")

    assert [bool(p.refused) for p in checked.pairs] == [False, True, True]
    assert "unknown model 'nonsense'" in checked.pairs[1].refused
    assert "errror" in checked.pairs[2].refused
    assert (checked.images, checked.judgements) == (3, 0)
    assert 3 * 64 * 64 < checked.disk_bytes < checked.free_bytes
    assert not (tmp_path / "P").exists()


def test_runs_of_a_plan_are_ordinary_runs(tmp_path):
    plan = make(noise=Noise())
    [outcome, _] = run_plan(plan, tmp_path / "P")

    assert outcome.path == run_path(Path(tmp_path / "P"), plan.pairs[0])
    assert Run.open(outcome.path).scores()


def test_judges_are_told_of_every_run_so_that_remarks_are_of_one(tmp_path):
    judge = Blind()
    suites = {f"s{n}": {"suite": "paintskills", "skills": ["object"], "limit": n} for n in (2, 3)}
    run_plan(Plan.make(models={"noise": Noise()}, suites=suites, defaults={"detector": judge}), tmp_path / "P")
    assert judge.runs == 2


# ---------------------------------------------------------------------------------------------- corrections and reports
def corrected(**settings: object) -> Plan:
    return Plan.make(
        models={"wrong": "scripted:error=0.5"},
        suites={"paintskills": {"skills": ["object"], "limit": 4, "size": 64, **settings}},
        defaults={"seed": 1},
    )


def test_scores_are_corrected_and_reports_written_where_a_plan_asks_for_it(tmp_path):
    plan = corrected(detector=Blind(), correct="rendered")
    [outcome] = run_plan(plan, tmp_path / "P", reports=True)
    assert (outcome.state, outcome.remarks) == ("done", ())
    run = Run.open(outcome.path)
    of_skill = [s for s in run.scores() if s.protocol == "revised" and s.group == {"skill": "object"}]
    truth = {s.metric: s for s in of_skill if s.adjusted == "rendered"}
    judged = {s.metric: s for s in of_skill if not s.adjusted}
    assert judged["accuracy"].value == 0.0
    assert truth["accuracy"].value == judged["true_accuracy"].value > 0
    assert (outcome.path / "report" / "index.html").is_file()

    board = make_board([tmp_path / "P"])
    cells = [cell for row in board.rows for cell in row.cells.values()]
    assert any(c.score.value == 0.0 and c.adjusted and c.adjusted.value > 0 for c in cells if c.score)
    assert "adjusted by rendered images" in markdown_board(board)
    assert "adjusted by rendered images" in board_page(board)
    header, *lines = board.csv().splitlines()
    assert header.endswith("adjusted,adjusted_value,adjusted_low,adjusted_high")
    assert any(",rendered," in line for line in lines)

    (outcome.path / "report" / "index.html").unlink()
    [kept] = run_plan(plan, tmp_path / "P", reports=True)
    assert kept.state == "kept"
    assert (outcome.path / "report" / "index.html").is_file()


def test_a_correction_that_is_refused_leaves_the_scores_as_judged_and_says_why(tmp_path):
    plan = make(noise=Noise())
    asked = Plan.make(
        models={"noise": Noise()},
        suites={"first": {"suite": "paintskills", "skills": ["object"], "limit": 4, "correct": "rendered"}},
        defaults={"detector": Blind(), "seed": 1},
    )
    [outcome] = run_plan(asked, tmp_path / "P")
    assert outcome.state == "done"
    assert "nothing says how its judges err" in outcome.remarks[0]
    assert not [s for s in Run.open(outcome.path).scores() if s.adjusted]
    # Runs of plans that say nothing of it keep the hash they had.
    assert asked.pairs[0].record()["correct"] == "rendered"
    assert "correct" not in plan.pairs[0].record()


def test_other_words_for_correct_are_refused():
    with pytest.raises(UsageError, match="correct"):
        corrected(correct="maybe")
