"""The example of a plug-in is installed as a user would, and its commands run; then its runs are read without it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

PLUGIN = Path(__file__).parents[2] / "examples" / "plugin"
# Runs command lines one after the other, each as from a shell, and prints what became of them.
MAIN = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from verism.cli.main import main
done = []
for line in json.loads(sys.argv[1]):
    sys.argv = ["verism", *line.split()]
    code, out, err = 0, io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
    done.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(done))
"""


class Done(NamedTuple):
    code: int
    stdout: str
    stderr: str


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder with the package, as pip installs it."""
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    subprocess.run(
        [*pip, "--no-deps", "--no-build-isolation", "--target", str(target), str(PLUGIN)], check=True, timeout=240
    )
    return target


def verism(*lines: str, folder: Path, plugin: Path | None) -> dict[str, Done]:
    """What becomes of command lines in a new process that finds the plug-in, or not."""
    paths = [str(plugin)] if plugin is not None else []
    paths += [path for path in [os.environ.get("PYTHONPATH", "")] if path]
    paths = [os.path.abspath(p) for path in paths for p in path.split(os.pathsep)]
    process = subprocess.run(
        [sys.executable, "-c", MAIN, json.dumps(lines)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "110"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=240,
    )
    assert process.returncode == 0, process.stderr
    return {line: Done(*done) for line, done in zip(lines, json.loads(process.stdout), strict=True)}


@pytest.fixture(scope="module")
def finished(installed, tmp_path_factory) -> Path:
    """A folder with the run ``R`` of the documented command."""
    folder = tmp_path_factory.mktemp("work")
    command = "run shapes --model rectangles --detector colour_blobs --limit 40 --out R"
    done = verism(command, folder=folder, plugin=installed)[command]
    assert done.code == 0, done.stderr
    return folder


def test_plugin_code_is_short():
    lines = [line for file in PLUGIN.rglob("*.py") for line in file.read_text(encoding="utf-8").split("\n")[:-1]]
    assert 100 < len(lines) < 150


def test_plugin_is_listed_shows_its_own_options_and_refuses_misspelt_ones(installed, tmp_path):
    helpful = ("list suites", "run shapes --help", "list models", "list judges", "list judges colour_blobs")
    wrong = ("run shape --out R", "run shapes --model rectangles?eror=0.5 --detector colour_blobs --out R")
    done = verism(*helpful, *wrong, folder=tmp_path, plugin=installed)
    assert [done[line].code for line in (*helpful, *wrong)] == [0] * 5 + [2] * 2
    assert "shapes" in done["list suites"].stdout
    assert "(verism-plugin-example 0.1.0)" in done["list suites"].stdout
    helped = done["run shapes --help"].stdout
    assert "--task [single|counting|colour|position]" in helped
    assert "--detector" in helped
    assert "--region" not in helped
    assert "--vqa" not in helped
    assert "rectangles" in done["list models"].stdout
    assert "--detector colour_blobs" in done["list judges"].stdout
    assert "min_area" in done["list judges colour_blobs"].stdout
    assert "Did you mean shapes?" in done[wrong[0]].stderr
    assert "error" in done[wrong[1]].stderr
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


@pytest.mark.parametrize("with_plugin", [True, False])
def test_plugin_run_is_reported_and_compared_anywhere_and_scored_only_with_the_plugin(installed, finished, with_plugin):
    before = (finished / "R" / "scores.json").read_text(encoding="utf-8")
    page = f"report{with_plugin}.html"
    report, compare, score = f"report R --out {page}", "compare R R --json", "score R"
    done = verism(report, compare, score, folder=finished, plugin=installed if with_plugin else None)
    assert done[report].code == done[compare].code == 0, done
    text = (finished / page).read_text(encoding="utf-8")
    assert "Does a model draw simple shapes as it is asked to?" in text
    assert "Prompts asked" in text
    assert "DALL-Eval" not in text
    rows = json.loads(done[compare].stdout)
    assert {row["difference"] for row in rows} == {0.0}
    assert {(row["ci_low"], row["ci_high"]) for row in rows} == {(0.0, 0.0)}
    assert {row["method"] for row in rows if row["metric"] in ("accuracy", "overall")} == {"paired"}
    # What the plug-in's metric measured survives another scoring.
    assert (finished / "R" / "scores.json").read_text(encoding="utf-8") == before
    if with_plugin:
        assert done[score].code == 0, done[score].stderr
    else:
        assert done[score].code == 2
        assert "unknown suite 'shapes'" in done[score].stderr
