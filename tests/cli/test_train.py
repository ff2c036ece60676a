"""``verism train generator``: from scenes to a model and its scores, with a tiny budget."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from verism.cli.main import cli, main
from verism.training.settings import DetectorConfig, FinetuneConfig, GeneratorConfig, SceneChoice, SecondLookConfig


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
    parsed: dict[str, Any] = json.loads(out[out.index("{\n") :])
    return parsed


def test_generator_options_given_reach_the_settings(verism, scenes, tmp_path, monkeypatch):
    """The training and evaluation themselves: tests/training/test_generator.py."""
    from verism.training import generator

    seen = []

    def train_and_export(folders, out, config, *, choice, suite, **_):
        seen.append((folders, out, config, choice, suite))
        return {"model": "M", "pictures": 5, "loss": float("nan")}

    monkeypatch.setattr(generator, "train_and_export", train_and_export)
    words = ("--scenes", scenes, "--out", tmp_path, "--steps", 1, "--batch", 2, "--workers", 1, "--evaluate", 0)
    code, answer, err = verism("train", "generator", "--fraction", 0.5, "--skill", "all", *words)
    assert code == 0, err
    assert result(answer) == {"model": "M", "pictures": 5, "loss": None, "name": "builtin:M"}
    assert "model: builtin:M" in err
    config = GeneratorConfig(steps=1, batch_size=2, workers=1)
    assert seen == [((scenes,), tmp_path, config, SceneChoice(fraction=0.5), "paintskills")]
    verism("train", "generator", "--skill", "count", "--skill", "object", *words)
    assert seen[1][3] == SceneChoice(skills=("count", "object"))


def test_a_model_that_was_trained_on_is_evaluated_beside_the_old_one(tmp_path, monkeypatch):
    from verism import api
    from verism.cli import train
    from verism.store import Run, RunSettings

    def evaluate(suite, *, out, model):
        return Run.start(out, RunSettings(suite=suite, generator=model))

    monkeypatch.setattr(api, "evaluate", evaluate)
    results = [train._evaluate("paintskills", tmp_path, model=name).path.name for name in ("a", "b", "b", "a", "c")]
    assert results == ["evaluation", "evaluation-2", "evaluation-2", "evaluation", "evaluation-3"]


def test_a_diffusers_model_is_finetuned_and_evaluated(verism, scenes, tmp_path):
    from tiny_models import tiny_pipeline

    base = tiny_pipeline(tmp_path / "base")
    common = ("--suite", "paintskills", "--scenes", scenes, "--batch", 2, "--accumulate", 1, "--device", "cpu")
    code, answer, err = verism(
        "train", "generator", "--base", f"diffusers:{base}", *common, "--skill", "spatial", "--steps", 1,
        "--out", tmp_path / "full", "--evaluate", 1,
    )  # fmt: skip
    assert code == 0, err
    assert result(answer)["name"] == f"diffusers:{tmp_path / 'full' / 'pipeline'}"
    images = list((tmp_path / "full" / "evaluation" / "images").glob("*.png"))
    assert len(images) == 1
    assert "spatial" in images[0].name
    code, answer, err = verism(
        "train", "generator", "--base", f"diffusers:{base}", *common, "--lora", 2, "--epochs", 0.5,
        "--out", tmp_path / "lora", "--evaluate", 0,
    )  # fmt: skip
    assert code == 0, err
    reported = result(answer)
    assert reported["name"] == f"diffusers:{base}?lora={tmp_path / 'lora' / 'lora'}"
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


def test_options_show_and_check_what_their_settings_say():
    done = CliRunner().invoke(cli, ["train", "detector", "--help"])
    text = " ".join(done.output.split())
    for name, flag in (("width", "--width"), ("batch_size", "--batch"), ("lr", "--lr"), ("seed", "--seed")):
        field = next(f for f in fields(DetectorConfig) if f.name == name)
        assert flag in text
        assert f"{field.metadata['about']} [default: {field.default}]" in text
    both = " ".join(CliRunner().invoke(cli, ["train", "generator", "--help"]).output.split())
    assert f"[default: {GeneratorConfig().batch_size} (builtin), {FinetuneConfig().batch_size} (diffusers)]" in both
    done = CliRunner().invoke(cli, ["train", "detector", "--scenes", "x", "--out", "y", "--batch", "1"])
    assert done.exit_code == 2
    assert "1 is not in the range x>=2" in done.output


def test_detector_options_given_reach_the_settings(verism, tmp_path, monkeypatch):
    from verism.training import detector

    seen = []
    monkeypatch.setattr(detector, "train_and_export", lambda *args, **_: seen.append(args[2]) or {})
    options = ("--minutes", 3, "--width", 0.5, "--batch", 4, "--lr", 0.01, "--seed", 7, "--workers", 2, "--fresh")
    assert verism("train", "detector", "--scenes", tmp_path, "--out", tmp_path, *options)[0] == 0
    expected = DetectorConfig(minutes=3, width=0.5, batch_size=4, lr=0.01, seed=7, workers=2, resume=False)
    assert seen == [expected]
    second = ("--second-look", "--start", "x.onnx", "--held-out", 0.1, "--steps", 2)
    assert verism("train", "detector", "--scenes", tmp_path, "--out", tmp_path, *second)[0] == 0
    assert seen[1:] == [SecondLookConfig(start="x.onnx", held_out=0.1, steps=2)]
    code, _, err = verism("train", "detector", "--scenes", tmp_path, "--out", tmp_path, *second, "--learn", "kinds")
    assert (code, "--learn: only without --second-look" in err) == (2, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--base", "dalle"), "--base is builtin or diffusers:ID_OR_PATH, got 'dalle'"),
        (("--base", "diffusers"), "--base is builtin or diffusers:ID_OR_PATH"),
        (("--base", "builtin:folder"), "--base is builtin or diffusers:ID_OR_PATH"),
        (("--lora", "4", "--epochs", "2"), "--epochs, --lora: only for --base diffusers"),
        (("--base", "diffusers:x", "--cache", "c", "--steps", "1"), "--cache and --export-only are for --base builtin"),
        ((), "say how long to train: --steps or --minutes"),
        (("--base", "diffusers:x", "--steps", "1", "--epochs", "1"), "give steps (1) or epochs (1.0), not both"),
        (("--fraction", "1.5"), "1.5 is not in the range"),
    ],
)
def test_what_does_not_fit_together_is_refused(verism, scenes, tmp_path, options, message):
    code, _, err = verism("train", "generator", "--scenes", scenes, "--out", tmp_path, *options)
    assert code == 2
    assert message in err
