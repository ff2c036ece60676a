"""One process for each GPU: which devices, and that each process sees its own. The devices are made up."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from share_runs import evaluate, images_made, made_by, standard_suite

import verism
from verism.errors import UsageError, VerismError
from verism.pipeline.device_processes import DeviceProcesses, visible_devices
from verism.pipeline.leases import FOLDER

FOUR = ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    ("gpus", "environment", "listed", "devices"),
    [
        ("all", {}, FOUR, FOUR),
        ("2", {}, FOUR, ["0", "1"]),
        (1, {}, FOUR, ["0"]),
        # A scheduler gave this job two of the machine's GPUs, or parts of one.
        ("all", {"CUDA_VISIBLE_DEVICES": "2,3"}, FOUR, ["2", "3"]),
        ("1", {"CUDA_VISIBLE_DEVICES": "MIG-a, MIG-b"}, FOUR, ["MIG-a"]),
    ],
)
def test_devices_are_those_that_are_visible(gpus, environment, listed, devices):
    assert visible_devices(gpus, environment=environment, listed=lambda: listed) == devices


@pytest.mark.parametrize(
    ("gpus", "environment", "listed", "message"),
    [
        ("all", {}, [], "no GPU is visible"),
        ("all", {"CUDA_VISIBLE_DEVICES": ""}, FOUR, "no GPU is visible"),
        ("all", {"CUDA_VISIBLE_DEVICES": "-1"}, FOUR, "no GPU is visible"),
        ("5", {}, FOUR, "there are 4: 0, 1, 2, 3"),
        ("0", {}, FOUR, "expected all, or how many"),
        ("some", {}, FOUR, "expected all, or how many"),
    ],
)
def test_devices_that_there_are_not_are_refused(gpus, environment, listed, message):
    with pytest.raises(UsageError, match=message):
        visible_devices(gpus, environment=environment, listed=lambda: listed)


class _Seen:
    """Work that notes the device a process sees, and may fail or die on one."""

    def __init__(self, folder: Path, bad: str = "", *, dies: bool = False) -> None:
        self.folder, self.bad, self.dies = folder, bad, dies

    def __call__(self, _roles, shares, kept):
        device = os.environ["CUDA_VISIBLE_DEVICES"]
        (self.folder / f"device-{device}").write_text(str(os.getpid()))
        if device == self.bad and self.dies:
            os._exit(3)
        if device == self.bad:
            raise UsageError("out of memory, say")
        shares.tell(f"seen by {device}")
        return device, kept["threads"]


def test_each_process_sees_its_own_device_and_has_its_part_of_the_cores(tmp_path):
    lines: list[str] = []
    before = os.environ.get("CUDA_VISIBLE_DEVICES")
    results = DeviceProcesses(["4", "7"]).run(
        _Seen(tmp_path), root=tmp_path, roles=[], items=1, on_failure=lines.append
    )
    assert sorted(results) == [(device, max(1, (os.cpu_count() or 1) // 2)) for device in ("4", "7")]
    assert sorted(lines) == ["seen by 4", "seen by 7"]
    pids = {path.read_text() for path in tmp_path.glob("device-*")}
    assert len(pids) == 2
    assert str(os.getpid()) not in pids
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == before


def test_a_process_that_fails_or_dies_is_told_of(tmp_path):
    with pytest.raises(UsageError, match="out of memory, say"):
        DeviceProcesses(["0", "1"]).run(_Seen(tmp_path, "1"), root=tmp_path, roles=[], items=1)
    lines: list[str] = []
    results = DeviceProcesses(["0", "1"]).run(
        _Seen(tmp_path, "1", dies=True), root=tmp_path, roles=[], items=1, tell=lines.append
    )
    assert [device for device, _ in results] == ["0"]
    assert lines == ["a process died (exit code 3); the others take over"]
    with pytest.raises(VerismError, match="all 1 processes died"):
        DeviceProcesses(["1"]).run(_Seen(tmp_path, "1", dies=True), root=tmp_path, roles=[], items=1)


def test_a_run_on_several_devices_has_the_scores_of_one_process(tmp_path, monkeypatch):
    (tmp_path / "log").mkdir()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    model = f"python:share_runs:LoggedGenerator?log={tmp_path / 'log'}&seconds=0.06&limit=16"
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))
    judges = {"detector": "builtin"}
    two = verism.evaluate(standard_suite(16), model=model, judges=judges, out=tmp_path / "two", gpus="all")
    made = sorted(images_made(tmp_path / "log"))
    assert len(made_by(tmp_path / "log")) == 2
    assert two.is_scored
    assert not (two.path / FOLDER).exists()
    alone = verism.evaluate(standard_suite(16), model=model, judges=judges, out=tmp_path / "alone")
    assert made == alone.read("images")["image_id"].to_list()
    assert (two.path / "scores.json").read_bytes() == (alone.path / "scores.json").read_bytes()


def test_gpus_are_for_the_local_executor(tmp_path):
    with pytest.raises(UsageError, match="--gpus is for --executor local"):
        evaluate(tmp_path / "run", gpus="all", executor="ray")
