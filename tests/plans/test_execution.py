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
    """A detector that sees nothing."""

    name = "blind"

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
