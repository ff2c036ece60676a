"""The example of a plug-in is installed as a user would, and its commands run; then its runs are read without it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = Path(__file__).parents[2] / "examples" / "plugin"
MAIN = "from verism.cli.main import main; main()"


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder with the package, as pip installs it."""
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    subprocess.run(
        [*pip, "--no-deps", "--no-build-isolation", "--target", str(target), str(PLUGIN)], check=True, timeout=240
    )
    return target


def verism(
    *arguments: object, folder: Path, plugin: Path | None, expected: int = 0
) -> subprocess.CompletedProcess[str]:
    paths = [str(plugin)] if plugin is not None else []
    paths += [path for path in [os.environ.get("PYTHONPATH", "")] if path]
    paths = [os.path.abspath(p) for path in paths for p in path.split(os.pathsep)]
    done = subprocess.run(
        [sys.executable, "-c", MAIN, *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "110"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == expected, done.stderr
    return done


@pytest.fixture(scope="module")
def finished(installed, tmp_path_factory) -> Path:
    """A folder with the run ``R`` of the documented command."""
    folder = tmp_path_factory.mktemp("work")
    command = "run shapes --model rectangles --detector colour_blobs --limit 40 --out R"
    verism(*command.split(), folder=folder, plugin=installed)
    return folder


def test_plugin_code_is_short():
    lines = [line for file in PLUGIN.rglob("*.py") for line in file.read_text(encoding="utf-8").split("\n")[:-1]]
    assert 100 < len(lines) < 150


def test_plugin_suite_is_listed_and_shows_its_own_options(installed, tmp_path):
    listed = verism("list", "suites", folder=tmp_path, plugin=installed).stdout
    assert "shapes" in listed
    assert "(verism-plugin-example 0.1.0)" in listed
    helped = verism("run", "shapes", "--help", folder=tmp_path, plugin=installed).stdout
    assert "--task [single|counting|colour|position]" in helped
    assert "--detector" in helped
    assert "--region" not in helped
    assert "--vqa" not in helped
    models = verism("list", "models", folder=tmp_path, plugin=installed).stdout
    judges = verism("list", "judges", folder=tmp_path, plugin=installed).stdout
    assert "rectangles" in models
    assert "--detector colour_blobs" in judges
    options = verism("list", "judges", "colour_blobs", folder=tmp_path, plugin=installed).stdout
    assert "min_area" in options


def test_plugin_misspelt_names_and_options_are_refused(installed, tmp_path):
    output = verism("run", "shape", "--out", "R", folder=tmp_path, plugin=installed, expected=2).stderr
    assert "Did you mean shapes?" in output
    command = "run shapes --model rectangles?eror=0.5 --detector colour_blobs --out R"
    output = verism(*command.split(), folder=tmp_path, plugin=installed, expected=2).stderr
    assert "error" in output
    assert not (tmp_path / "R" / "images").exists()


def test_plugin_run_finds_the_planted_error(finished):
    scores = json.loads((finished / "R" / "scores.json").read_text(encoding="utf-8"))
    by = {(s["metric"], s["group"].get("task", "")): s for s in scores}
    assert 0.75 <= by["overall", ""]["value"] < 1.0  # one image in ten has a wrong colour
    assert by["overall", ""]["n_used"] == 40
    assert {task for metric, task in by if metric == "accuracy"} == {"single", "counting", "colour", "position"}
    assert 0.5 < by["mean_brightness", ""]["value"] < 1.0
    manifest = json.loads((finished / "R" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["environment"]["plugins"] == {"verism-plugin-example": "0.1.0"}


def test_plugin_metric_survives_another_scoring(installed, finished):
    before = (finished / "R" / "scores.json").read_text(encoding="utf-8")
    verism("score", "R", folder=finished, plugin=installed)
    assert (finished / "R" / "scores.json").read_text(encoding="utf-8") == before


@pytest.mark.parametrize("with_plugin", [True, False])
def test_plugin_run_is_reported_and_compared(installed, finished, tmp_path, with_plugin):
    plugin = installed if with_plugin else None
    page = tmp_path / "report.html"
    verism("report", "R", "--out", page, folder=finished, plugin=plugin)
    text = page.read_text(encoding="utf-8")
    assert "Does a model draw simple shapes as it is asked to?" in text
    assert "Prompts asked" in text
    assert "DALL-Eval" not in text
    rows = json.loads(verism("compare", "R", "R", "--json", folder=finished, plugin=plugin).stdout)
    assert {row["difference"] for row in rows} == {0.0}
    assert {(row["ci_low"], row["ci_high"]) for row in rows} == {(0.0, 0.0)}
    assert {row["method"] for row in rows if row["metric"] in ("accuracy", "overall")} == {"paired"}


def test_plugin_run_is_scored_only_with_the_plugin(finished):
    output = verism("score", "R", folder=finished, plugin=None, expected=2).stderr
    assert "unknown suite 'shapes'" in output
