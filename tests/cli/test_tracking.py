"""``--track`` on the command line: what is logged, what is refused, and that a tracker costs no run."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

import pytest
from report_runs import build_run

from verism import plugins
from verism.store import Run
from verism.trackers import Evaluation


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return build_run(tmp_path_factory.mktemp("runs") / "mine", limit=12)


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


class Listing:
    """Keeps what it is told.

    Args:
        title: of the list.
        limit: of its length.
    """

    told: list[tuple[str, float]] = []  # noqa: RUF012

    def __init__(self, title: str, *, limit: int = 3) -> None:
        self.name, self.limit = title, limit

    def log(self, evaluation: Evaluation) -> None:
        self.told.append((self.name, next(iter(evaluation.metrics("headline").values()))))

    def close(self) -> None:
        self.told.append((self.name, -1.0))


def test_tracker_of_another_package_is_found_by_its_entry_point(monkeypatch, scored, in_process):
    point = metadata.EntryPoint("listing", f"{__name__}:Listing", "verism.trackers")
    real = plugins.entry_points
    monkeypatch.setattr(
        plugins, "entry_points", lambda **by: [point] if by.get("group") == "verism.trackers" else real(**by)
    )
    Listing.told.clear()
    code, out, err = in_process("score", scored.path, "--track", "listing:mine?limit=5", "--json")
    assert code == 0, err
    assert json.loads(out)
    assert Listing.told == [("mine", pytest.approx(scored.headlines()[0].value)), ("mine", -1.0)]
    code, out, _ = in_process("list", "trackers", "--json")
    assert {row["name"] for row in json.loads(out)} == {"mlflow", "wandb", "tensorboard", "listing"}
    code, out, _ = in_process("list", "trackers", "listing")
    assert "--track listing:TITLE" in out
    assert "Of its length." in out


# -------------------------------------------------------------------------------------------------------- command line
def test_tracker_that_fails_changes_no_exit_code(scored, tmp_path, in_process):
    (tmp_path / "file").write_text("no folder")
    code, out, err = in_process("score", scored.path, "--track", f"tensorboard:{tmp_path / 'file'}", "--json")
    assert code == 0
    assert json.loads(out)
    assert f"not logged to tensorboard:{tmp_path / 'file'}: UsageError" in err


def test_wrong_tracker_is_refused_before_anything_runs(tmp_path, in_process):
    code, _, err = in_process(
        "run", "paintskills", "--model", "oracle", "--limit", "2", "--out", tmp_path / "run", "--track", "tensorbord:x"
    )
    assert code == 2
    assert "Did you mean tensorboard" in err
    assert not (tmp_path / "run").exists()


def test_run_and_plan_log_to_tensorboard(tmp_path, in_process):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logs = tmp_path / "logs"
    asked = ("--track", f"tensorboard:{logs}?images=0&report=false&scores=headline", "--step", "5")
    code, _, err = in_process(
        "run", "paintskills", "--model", "oracle", "--detector", "truth", "--limit", "3", "--size", "64",
        "--processes", "1", "--out", tmp_path / "run", *asked,
    )  # fmt: skip
    assert code == 0, err
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "defaults: {limit: 3, size: 64, processes: 1, detector: truth}\nmodels: {perfect: oracle}\n"
        "suites: {paintskills: {}, again: {suite: paintskills, skills: [object]}}\n"
    )
    code, _, err = in_process("plan", "run", plan, "--out", tmp_path / "P", *asked)
    assert code == 0, err
    assert sorted(p.name for p in logs.iterdir()) == ["perfect", "run"]
    for folder, times in (("run", 1), ("perfect", 2)):
        events = EventAccumulator(str(logs / folder)).Reload()
        assert [e.step for e in events.Scalars("paintskills/images/ok")] == [5] * times
