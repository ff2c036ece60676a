"""``verism train generator``: from scenes to a model and its scores, with a tiny budget."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from verism.cli.main import cli, main
from verism.generators.builtin import FILES

PACKAGED = Path(str(resources.files("verism.generators"))) / "data" / "paintskills_generator"


@pytest.fixture
def verism(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """The command line in this process: exit code, standard output, standard error."""

    def call(*arguments: object) -> tuple[int, str, str]:
        capfd.readouterr()
        monkeypatch.setattr(sys, "argv", ["verism", *map(str, arguments)])
        code: Any = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        return int(code), *capfd.readouterr()

    return call


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight small train scenes with masks, rendered by the command itself."""
    root = tmp_path_factory.mktemp("train") / "scenes"
    options = ["--split", "train", "--limit", "8", "--seed", "2", "--size", "64", "--masks", "--processes", "1"]
    done = CliRunner().invoke(cli, ["scenes", "render", "paintskills", *options, "--out", str(root)])
    assert done.exit_code == 0, done.output
    return root


def result(out: str) -> dict[str, Any]:
    """The JSON at the end of the output, behind the table of scores."""
    found: dict[str, Any] = json.loads(out[out.index("{\n") :])
    return found


def test_train_generator_builtin_is_chosen_evaluated_and_can_be_run(verism, scenes, tmp_path, monkeypatch):
    # How its parts are trained and exported is the business of tests/training/test_generator_training.py: here the
    # packaged networks, with the card of this training, stand for its outcome.
    onnx = pytest.importorskip("onnx")
    from verism.training import generator

    def export_generator(_: Path, model: Path, card: dict[str, Any]) -> Path:
        model.mkdir()
        for file in FILES:
            network = onnx.load(PACKAGED / file)
            for entry in network.metadata_props:
                entry.value = json.dumps(card) if entry.key == "card" else entry.value
            onnx.save(network, model / file)
        return model

    trained = {}
    monkeypatch.setattr(generator, "train_painter", lambda _, budget, **__: trained.update(painter=budget.steps))
    monkeypatch.setattr(generator, "train_writer", lambda _, budget, **__: trained.update(writer=budget.steps))
    monkeypatch.setattr(generator, "export_generator", export_generator)
    out = tmp_path / "generator"
    code, said, _ = verism(
        "train", "generator", "--base", "builtin", "--suite", "paintskills", "--skill", "all", "--fraction", "0.5",
        "--scenes", scenes, "--out", out, "--steps", 1, "--batch", 2, "--workers", 1, "--evaluate", 1,
    )  # fmt: skip
    assert code == 0
    assert trained == {"painter": 1, "writer": 1}
    told = result(said)
    assert told["name"] == f"builtin:{out / 'model'}"
    assert (told["pictures"], told["fraction"]) == (5, 0.5)  # 3 + 3 + 2 scenes: 2 + 2 + 1
    assert "mean_accuracy" in said or "mean" in said
    assert json.loads((out / "evaluation" / "manifest.json").read_text())["notes"]["generator"]["card"]["pictures"] == 5
    code, said, err = verism("run", "paintskills", "--model", told["name"], "--limit", 1, "--out", tmp_path / "again")
    assert code == 0, err


def test_a_model_that_was_trained_on_is_evaluated_beside_the_old_one(tmp_path, monkeypatch):
    from verism import api
    from verism.cli import train
    from verism.store import Run

    def evaluate(suite, *, out, model):
        return Run.start(out, {"suite": suite, "generator": model})

    monkeypatch.setattr(api, "evaluate", evaluate)
    found = [train._evaluate("paintskills", tmp_path, model=name).path.name for name in ("a", "b", "b", "a", "c")]
    assert found == ["evaluation", "evaluation-2", "evaluation-2", "evaluation", "evaluation-3"]


def test_a_diffusers_model_is_finetuned_and_evaluated(verism, scenes, tmp_path):
    from tiny_models import tiny_pipeline

    base = tiny_pipeline(tmp_path / "base")
    common = ("--suite", "paintskills", "--scenes", scenes, "--batch", 2, "--accumulate", 1, "--device", "cpu")
    code, said, err = verism(
        "train", "generator", "--base", f"diffusers:{base}", *common, "--skill", "spatial", "--steps", 1,
        "--out", tmp_path / "full", "--evaluate", 1,
    )  # fmt: skip
    assert code == 0, err
    assert result(said)["name"] == f"diffusers:{tmp_path / 'full' / 'pipeline'}"
    images = list((tmp_path / "full" / "evaluation" / "images").glob("*.png"))
    assert len(images) == 1
    assert "spatial" in images[0].name
    code, said, err = verism(
        "train", "generator", "--base", f"diffusers:{base}", *common, "--lora", 2, "--epochs", 0.5,
        "--out", tmp_path / "lora", "--evaluate", 0,
    )  # fmt: skip
    assert code == 0, err
    told = result(said)
    assert told["name"] == f"diffusers:{base}?lora={tmp_path / 'lora' / 'lora'}"
    assert not (tmp_path / "lora" / "evaluation").exists()


def test_without_scenes_some_are_rendered(verism, tmp_path, monkeypatch):
    from verism.training import generator

    seen: list[Path] = []

    def stop(folders, *_, **__):
        seen.extend(folders)
        raise KeyboardInterrupt

    monkeypatch.setattr(generator, "train_and_export", stop)
    code, _, err = verism("train", "generator", "--render", 2, "--skill", "object", "--out", tmp_path, "--steps", 1)
    assert code == 130
    assert seen == [tmp_path / "scenes"]
    assert len(list((tmp_path / "scenes" / "object" / "masks").glob("*.png"))) == 2
    assert "rendering 2 train scenes" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--base", "dalle"), "--base is builtin or diffusers:ID_OR_PATH, got 'dalle'"),
        (("--base", "diffusers"), "--base is builtin or diffusers:ID_OR_PATH"),
        (("--base", "builtin:folder"), "--base is builtin or diffusers:ID_OR_PATH"),
        (("--lora", "4"), "--lora, --epochs, --resolution and --revision are for --base diffusers"),
        (("--base", "diffusers:x", "--workers", "2"), "--export-only, --workers and --cache are for --base builtin"),
        ((), "say how long to train: --minutes or --steps"),
        (("--fraction", "1.5"), "1.5 is not in the range"),
    ],
)
def test_what_does_not_fit_together_is_refused(verism, scenes, tmp_path, options, message):
    code, _, err = verism("train", "generator", "--scenes", scenes, "--out", tmp_path, *options)
    assert code == 2
    assert message in err
