"""The command line, end to end on small rendered data: results on stdout, the rest on stderr, exit codes."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from fakes import SCENES_VARIABLE

from verism import registry
from verism.cli.main import cli, main
from verism.suites.catalogue import SUITES

TESTS = Path(__file__).parents[1]
SIZE, LIMIT = "64", "5"


class Said:
    """What a command wrote and how it ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def verism(monkeypatch, capfd, data):
    """The command line in this process, with a detector that knows the rendered images under the name ``builtin``."""
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    monkeypatch.setitem(registry.JUDGES["detector"], "builtin", ("fakes:scene_judge", "knows the truth"))
    monkeypatch.setenv(SCENES_VARIABLE, f"{data / 'D'}|paintskills;{data / 'D1'}|paintskills-v1")

    def call(*arguments: object) -> Said:
        capfd.readouterr()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["verism", *map(str, arguments)])
            try:
                main()
                code = 0
            except SystemExit as stop:
                code = stop.code or 0
        return Said(code, *capfd.readouterr())

    return call


@pytest.fixture(scope="session")
def data(tmp_path_factory) -> Path:
    """D and D1 of the examples, rendered by the command itself."""
    root = tmp_path_factory.mktemp("rendered")
    commands = {
        "D": ["paintskills", "--skill", "spatial", "--split", "test"],
        "D1": ["paintskills-v1", "--skill", "color", "--split", "val"],
    }
    for name, arguments in commands.items():
        options = ["--limit", LIMIT, "--seed", "31", "--size", SIZE, "--processes", "1", "--out", str(root / name)]
        done = CliRunner().invoke(cli, ["scenes", "render", *arguments, *options])
        assert done.exit_code == 0, done.output
    return root


@pytest.fixture(scope="session")
def runs(data, tmp_path_factory) -> Path:
    """R and RS of the examples: the rendered images, and the same shuffled."""
    root = tmp_path_factory.mktemp("runs")
    scenes = ["--scenes", str(data / "D"), "--images", str(data / "D" / "spatial" / "images"), "--detector", "builtin"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry.JUDGES["detector"], "builtin", ("fakes:scene_judge", "knows the truth"))
        patch.setenv(SCENES_VARIABLE, f"{data / 'D'}|paintskills")
        for name, more in (("R", []), ("RS", ["--shuffle", "--seed", "3"])):
            done = CliRunner().invoke(cli, ["run", "paintskills", *scenes, *more, "--out", str(root / name)])
            assert done.exit_code == 0, done.output
    return root


# ------------------------------------------------------------------------------------------------------------ rendering
def test_rendered_sets_have_the_published_layout(data):
    boxes = json.loads((data / "D/spatial/spatial_val_bounding_boxes.json").read_text())
    assert len(boxes["images"]) == 5
    assert len(boxes["annotations"]) == 10
    assert len(list((data / "D/spatial/images").glob("image_spatial_val_*.png"))) == 5
    assert len(json.loads((data / "D1/color/scenes/color_val.json").read_text())["data"]) == 5
    assert not list(data.rglob("*.tmp"))
    assert not list(data.rglob(".boxes-*"))


def test_rendering_again_renders_nothing(verism, data):
    images = {p: p.stat().st_mtime_ns for p in (data / "D").rglob("*.png")}
    before = {p: p.read_bytes() for p in (data / "D").rglob("*.json")}
    same = ("--skill", "spatial", "--split", "test", "--limit", LIMIT, "--size", SIZE)
    done = verism("scenes", "render", "paintskills", *same, "--seed", 31, "--out", data / "D", "--json")
    assert (done.code, done.json) == (0, {"out": str(data / "D"), "scenes": 5, "failed": 0})
    assert {p: p.stat().st_mtime_ns for p in (data / "D").rglob("*.png")} == images
    assert {p: p.read_bytes() for p in (data / "D").rglob("*.json")} == before


def test_a_killed_rendering_goes_on_and_gives_the_same_files(verism, data, tmp_path, monkeypatch):
    from verism.simulator.scene_renderer import SceneRenderer

    paint, left = SceneRenderer.render, iter(range(2))

    def tired(self, scene):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return paint(self, scene)

    command = ("scenes", "render", "paintskills-v1", "--skill", "color", "--split", "val", "--limit", LIMIT)
    command += ("--seed", 31, "--size", SIZE, "--out", tmp_path / "D1")
    with monkeypatch.context() as patch:
        patch.setattr(SceneRenderer, "render", tired)
        done = verism(*command)
    assert done.code == 130
    assert "repeat the command to continue" in done.err
    assert len(list((tmp_path / "D1").rglob("*.png"))) == 2
    assert verism(*command).code == 0
    for path in (p for p in (data / "D1").rglob("*") if p.is_file()):
        assert (tmp_path / "D1" / path.relative_to(data / "D1")).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--seed", 32, "--size", SIZE), "rendered with seed 31, now 32"),
        (("--seed", 31, "--size", 128), "rendered with painter 'simulator-2@64', now 'simulator-2@128'"),
    ],
)
def test_other_images_are_not_mixed_into_a_set(verism, data, change, message):
    before = {p: p.read_bytes() for p in (data / "D").rglob("*") if p.is_file()}
    command = ("scenes", "render", "paintskills", "--skill", "spatial", "--split", "test", "--limit", LIMIT)
    done = verism(*command, *change, "--out", data / "D")
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert {p: p.read_bytes() for p in (data / "D").rglob("*") if p.is_file()} == before


# -------------------------------------------------------------------------------------------------------- run and score
def accuracy(scores: list[dict], protocol: str = "revised", **group) -> dict:
    (results,) = [s for s in scores if s["metric"] == "accuracy" and s["protocol"] == protocol and s["group"] == group]
    return results


def test_scores_as_json(verism, runs):
    first = verism("score", runs / "R", "--json")
    assert first.code == 0
    keys = {"suite", "metric", "protocol", "group", "value", "ci_low", "ci_high", "n_used", "n_unusable"}
    for record in first.json:
        assert keys <= set(record)
    headline = accuracy(first.json, skill="spatial")
    assert headline["suite"] == "paintskills"
    assert (headline["value"], headline["n_used"], headline["n_unusable"]) == (1.0, 5, 0)
    assert headline["ci_low"] < 1 == headline["ci_high"]
    assert verism("score", runs / "R", "--json").out == first.out
    kept = json.loads((runs / "R" / "scores.json").read_text())
    assert [{k: v for k, v in record.items() if k != "label"} for record in first.json] == kept
    assert headline["label"] == "accuracy"


def test_a_limit_can_be_changed_afterwards(verism, runs, tmp_path):
    shutil.copytree(runs / "R", tmp_path / "R")
    strict = verism("score", tmp_path / "R", "--threshold", 0.95, "--json")
    assert accuracy(strict.json, skill="spatial")["value"] == 0.0  # the fake detector says 0.9
    table = verism("score", tmp_path / "R", "--threshold", 0.5)
    assert (table.code, table.err) == (0, "")
    assert "spatial" in table.out
    wrong = verism("score", tmp_path / "R", "--threshold", 7)
    assert (wrong.code, wrong.out) == (2, "")
    assert "threshold_revised is a number, between 0 and 1; got 7" in wrong.err
    assert verism("score", tmp_path / "R", "--detector", "nobody").code == 2


def test_a_run_says_what_matched_and_goes_on(verism, data, tmp_path):
    command = ("run", "paintskills-v1", "--scenes", data / "D1", "--images", data / "D1/color/images")
    first = verism(*command, "--out", tmp_path / "R1", "--json")
    assert first.code == 0
    assert accuracy(first.json, skill="color")["value"] == 1.0
    assert "matched       5" in first.err
    assert "\r" not in first.err  # no progress line off a terminal
    again = verism(*command, "--out", tmp_path / "R1", "--json")
    assert (again.code, again.out) == (0, first.out)
    other = verism(*command, "--out", tmp_path / "R1", "--limit", 3)
    assert (other.code, other.out) == (2, "")
    assert "holds 5 images of 5 prompts, and 3 of 3 are asked for. A run grows but does not shrink" in other.err


def test_missing_images_end_in_exit_code_1_and_are_listed(verism, data, tmp_path):
    shutil.copytree(data / "D/spatial/images", tmp_path / "images")
    images = sorted((tmp_path / "images").iterdir())
    images[0].unlink()
    images[1].write_bytes(images[1].read_bytes()[:200])
    command = ("run", "paintskills", "--scenes", data / "D", "--images", tmp_path / "images", "--out", tmp_path / "R")
    first = verism(*command, "--json")
    assert first.code == 1
    assert "2 without a usable image:" in first.err
    assert "missing: no file of that name" in first.err
    assert "failed: damaged or truncated" in first.err
    headline = accuracy(first.json, skill="spatial")
    assert (headline["value"], headline["n_used"], headline["n_unusable"]) == (1.0, 3, 2)
    assert verism(*command).code == 1  # still so
    for path in images[:2]:
        shutil.copy(data / "D/spatial/images" / path.name, path)
    mended = verism(*command, "--retry", "--json")
    assert mended.code == 0
    assert accuracy(mended.json, skill="spatial")["n_used"] == 5


def test_rendered_runs_know_their_truth(verism, tmp_path):
    command = ("run", "paintskills", "--skill", "object", "--model", "scripted:error=0.5", "--size", 64)
    done = verism(*command, "--limit", 4, "--out", tmp_path / "R", "--json")
    assert done.code == 0
    assert {"true_accuracy", "judge_false_accept"} <= {s["metric"] for s in done.json}


def test_another_detector_looks_at_the_same_images(verism, runs, tmp_path, monkeypatch):
    shutil.copytree(runs / "R", tmp_path / "R")
    monkeypatch.setitem(registry.JUDGES["detector"], "blind", ("fakes:blind_judge", "sees nothing"))
    done = verism("observe", tmp_path / "R", "--detector", "blind", "--json")
    assert accuracy(done.json, skill="spatial")["value"] == 0.0
    # Each judge keeps its own limit, 0.5 and 0.95 here: the boxes of the first have confidence 0.9.
    first = verism("score", tmp_path / "R", "--detector", "scene-judge@1", "--json")
    assert accuracy(first.json, skill="spatial")["value"] == 1.0


# ------------------------------------------------------------------------------------------------------ report, compare
def test_a_report_is_one_file(verism, runs, tmp_path):
    done = verism("report", runs / "R", runs / "RS", "--out", tmp_path / "report.html")
    assert (done.code, done.err) == (0, "")
    assert done.out.strip() == str(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>")
    assert verism("report", runs / "R", "--json").json
    assert list(csv.DictReader(verism("report", runs / "R", "--csv").out.splitlines()))
    assert "|" in verism("report", runs / "R", "--markdown").out
    both = verism("report", runs / "R", "--json", "--csv")
    assert (both.code, both.out) == (2, "")


def test_comparing_is_b_minus_a(verism, runs):
    done = verism("compare", runs / "R", runs / "RS", "--json")
    assert done.code == 0
    spatial = next(d for d in done.json if d["group"] == {"skill": "spatial"} and d["protocol"] == "revised")
    shuffled = accuracy(verism("score", runs / "RS", "--json").json, skill="spatial")["value"]
    assert shuffled < 1
    assert spatial["difference"] == pytest.approx(shuffled - 1)
    assert (spatial["value_a"], spatial["n_pairs"], spatial["n_unpaired"]) == (1.0, 5, 0)
    assert verism("compare", runs / "R", runs / "RS", "--json").out == done.out
    table = verism("compare", runs / "R", runs / "RS")
    assert (table.code, table.err) == (0, "")
    assert "spatial" in table.out


def test_compare_shows_the_main_protocol_unless_asked_for_all(verism, runs):
    def protocols(*options):
        done = verism("compare", runs / "R", runs / "RS", "--json", *options)
        assert done.code == 0, done.err
        return list(dict.fromkeys(d["protocol"] for d in done.json))

    assert protocols() == ["revised"]
    assert protocols("--protocol", "paper") == ["paper"]
    assert protocols("--all-protocols") == ["revised", "released", "paper"]
    assert verism("compare", runs / "R", runs / "RS", "--all-protocols", "--protocol", "paper").code == 2


def test_compare_runs_of_other_thresholds_is_refused_with_what_to_do(verism, runs, tmp_path):
    shutil.copytree(runs / "R", tmp_path / "R")
    assert verism("score", tmp_path / "R", "--threshold", "0.9").code == 0
    done = verism("compare", runs / "R", tmp_path / "R")
    assert (done.code, done.out) == (2, "")
    reason = r"rule threshold_revised: 0\.\d+ in A, 0\.9 in B"
    remedy = rf"verism score {re.escape(str(tmp_path))}/R --rule threshold_revised=0\.\d+"
    assert re.search(rf"{reason} \(protocol revised\) -> {remedy}\n", done.err)
    assert verism("compare", runs / "R", tmp_path / "R", "--protocol", "paper").code == 0  # has a threshold of its own
    anyway = verism("compare", runs / "R", tmp_path / "R", "--anyway", "--json")
    assert anyway.code == 0
    assert all(re.fullmatch(reason, text) for d in anyway.json for text in d["reasons"])
    assert all(d["reasons"] for d in anyway.json)


def test_runs_of_other_suites_cannot_be_compared(verism, data, runs, tmp_path):
    verism(
        "run", "paintskills-v1", "--scenes", data / "D1", "--images", data / "D1/color/images", "--out", tmp_path / "R1"
    )
    done = verism("compare", runs / "R", tmp_path / "R1")
    assert (done.code, done.out) == (2, "")
    assert "they measure different things" in done.err


def test_compare_unknown_protocol_is_refused_by_name(verism, runs):
    done = verism("compare", runs / "R", runs / "R", "--protocol", "papre")
    assert (done.code, done.out) == (2, "")
    assert "no protocol 'papre'; there are revised, released, paper. Did you mean paper?" in done.err


# --------------------------------------------------------------------------------------------------------- demo, doctor
def test_the_demo_runs_offline_and_writes_a_report(verism, tmp_path):
    out = tmp_path / "with, a comma"
    done = verism("demo", "--out", out, "--limit", 3)
    assert done.code == 0, done.err
    assert f"report: {out / 'report.html'}" in done.out
    assert (out / "report.html").stat().st_size > 10_000
    assert {p.name for p in out.iterdir() if p.is_dir()} >= {"builtin", "scripted", "oracle", "shuffled"}


def test_the_doctor_names_what_is_missing(verism):
    done = verism("doctor", "--json")
    findings = {f["name"]: f for f in done.json}
    assert findings["polars"]["ok"]
    assert findings["simulator"]["ok"]
    assert done.code == (0 if all(f["ok"] or not f["required"] for f in findings.values()) else 1)
    assert findings["detector"]["ok"] is True
    assert findings["generator"]["ok"] is True


def test_the_doctor_takes_packages_of_another_name(monkeypatch):
    from importlib import metadata

    from verism.cli import doctor

    def unknown(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", unknown)
    result = doctor._module("onnxruntime", "onnxruntime", None, "the built-in detector")
    assert result.ok
    missing = doctor._module("no_such_module", "nosuch", "models", "dreams")
    assert (missing.ok, missing.required) == (False, False)
    assert "pip install 'verism[models]'" in missing.message


def test_the_built_in_detector_judges_rendered_images(data, tmp_path):
    command = ["run", "paintskills", "--scenes", data / "D", "--images", data / "D/spatial/images", "--json"]
    done = CliRunner().invoke(cli, [*map(str, command), "--detector", "builtin", "--out", str(tmp_path / "R")])
    assert done.exit_code == 0, done.output
    assert accuracy(json.loads(done.stdout), skill="spatial")["n_used"] == 5


@pytest.mark.parametrize("what", ["suites", "models", "judges", "protocols", "environments", "classes"])
def test_lists(verism, what):
    done = verism("list", what, "--json")
    assert done.code == 0
    names = [row["name"] for row in done.json]
    assert names
    assert len(set(names)) == len(names)
    assert names[0] in verism("list", what).out


def test_list_of_a_name_shows_what_can_be_written_behind_it(verism):
    (onnx,) = verism("list", "judges", "onnx", "--json").json
    assert (onnx["name"], onnx["package"], onnx["argument"]["name"]) == ("--skin-tone onnx", "verism", "path")
    options = {option["name"]: option for option in onnx["options"]}
    assert options["threads"]["default"] == "--threads, else none"
    assert options["size"]["default"] == "none"  # of the network's input, and not of rendered images
    assert options["average"]["choices"] == ["median", "trimmed", "mean"]
    text = verism("list", "models", "diffusers").out
    assert text.startswith("diffusers:MODEL?NAME=VALUE&...")
    assert "  guidance=a number or none (default: none)\n      Guidance scale" in text
    assert "Other options are passed on" in text
    assert len(verism("list", "judges", "clip", "--json").json) == 2  # as --features and as --clip
    assert "alias.NAME=a text" in verism("list", "judges", "detr").out
    of_role = [record["name"] for record in verism("list", "judges", "skin-tone", "--json").json]
    assert {"--skin-tone builtin", "--skin-tone cascade"} <= set(of_role)
    assert all(name.startswith("--skin-tone ") for name in of_role)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("judges", "onx"), "no judge 'onx'; there are: builtin"), (("suites", "quality"), "takes no name")],
)
def test_list_of_an_unknown_name_is_refused(verism, arguments, message):
    done = verism("list", *arguments)
    assert done.code == 2
    assert message in done.err


def test_plugins_are_listed_and_looked_at_by_the_doctor(verism, monkeypatch):
    from importlib import metadata

    entries = [
        metadata.EntryPoint("known", "fakes:scene_judge", "verism.judges"),
        metadata.EntryPoint("gone", "nowhere:Thing", "verism.judges"),
    ]
    monkeypatch.setattr("verism.plugins.entry_points", lambda *, group: [e for e in entries if e.group == group])
    assert "--detector known" in verism("list", "judges").out
    assert "[fakes]" in verism("list", "judges").out
    findings = {row["name"]: row for row in verism("doctor", "--json").json}
    assert findings["known"]["message"] == "--detector, of fakes"
    assert not findings["plug-in"]["ok"]
    assert "nowhere:Thing" in findings["plug-in"]["message"]


# -------------------------------------------------------------------------------------------------------------- dry run
def test_a_dry_run_tells_and_does_nothing(verism, data, runs, tmp_path):
    command = ("run", "paintskills", "--skill", "object", "--skill", "count", "--limit", 10, "--n-images", 2)
    done = verism(*command, "--out", tmp_path / "new", "--dry-run", "--json")
    assert (done.code, done.err) == (0, "")
    assert done.json["prompts"] == 10
    assert done.json["images"] == 20
    assert done.json["images_by_group"] == {"object": 10, "count": 10}
    assert done.json["images_done"] == 0
    assert not (tmp_path / "new").exists()
    assert "20 images for 10 prompts of paintskills" in verism(*command, "--dry-run").out
    there = verism("run", "paintskills", "--scenes", data / "D", "--out", runs / "R", "--dry-run", "--json")
    assert there.json["images_done"] == 5


# ---------------------------------------------------------------------------------------------------------- wrong usage
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rnu", "paintskills"], "Did you mean run?"),
        (["run", "paintskils", "--model", "oracle", "--out", "x"], "Did you mean paintskills"),
        (["run", "paintskills", "--limt", "3"], "No such option"),
        (["run", "paintskills", "--limit", "0", "--dry-run"], "--limit"),
        (["run", "paintskills", "--out", "x"], "either a model (--model) or images (--images)"),
        (["run", "paintskills", "--model", "oracle", "--images", "y", "--out", "x"], "exactly one of the two"),
        (["run", "paintskills", "--model", "orcale", "--out", "x"], "Did you mean oracle?"),
        (["run", "paintskills", "--model", "oracle", "--size", "8", "--out", "x"], "--size must be 64 to 2048"),
        (
            ["run", "paintskills", "--model", "oracle", "--threshold", "7", "--out", "x"],
            "not in the range 0<=x<=1",
        ),
        (["run", "paintskills", "--model", "oracle", "--detector", "bultin", "--out", "x"], "Did you mean builtin?"),
        (["run", "paintskills", "--images", "nowhere", "--out", "x"], "no such folder or manifest"),
        (["run", "paintskills", "--scenes", "nowhere", "--dry-run"], "no PaintSkills scenes in nowhere"),
        (["run", "paintskills", "--skill", "spatail", "--dry-run"], "no skill 'spatail'"),
        (["run", "paintskills", "--split", "tset", "--dry-run"], "unknown split 'tset'"),
        (["score", "nowhere"], "nowhere is not a run directory"),
        (["report"], "RUN_DIRS"),
        (["compare", "nowhere", "elsewhere"], "nowhere is not a run directory"),
        (["scenes", "render", "paintskills"], "--out"),
        (["scenes", "sheet", "--only", "dgo", "--out", "x.png"], "Did you mean 'dog'"),
        (["scenes", "sheet", "--only", "dog", "--out", "x"], "name an image file"),
        (["list", "things"], "things"),
    ],
    ids=lambda a: " ".join(a) if isinstance(a, list) else "",
)
def test_wrong_usage_ends_in_exit_code_2_with_a_hint_and_leaves_nothing(
    verism, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    done = verism(*arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert "Traceback" not in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_any_asked_image_says_what_it_looked_for(verism, data, tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "cat.png").touch()
    done = verism(
        "run", "paintskills", "--scenes", data / "D", "--images", tmp_path / "images", "--out", tmp_path / "R"
    )
    assert done.code == 2
    assert "image_spatial_val_" in done.err
    assert "Found: cat.png" in done.err
    assert not (tmp_path / "R").exists()


def commands(group: click.Group, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    results = [path]
    for name, command in group.commands.items():
        results += commands(command, (*path, name)) if isinstance(command, click.Group) else [(*path, name)]
    return results


@pytest.mark.parametrize("path", commands(cli), ids=" ".join)
def test_every_help_shows_an_example(path):
    done = CliRunner().invoke(cli, [*path, "--help"])
    assert done.exit_code == 0
    examples = [line for line in done.output.splitlines() if "Usage:" not in line]
    assert any(" ".join(("verism", *path)) in line for line in examples)


# ---------------------------------------------------------------------------------------------------- real processes
@pytest.fixture
def process(tmp_path, data):
    """The command in a process of its own; an entry point of another package brings the detector ``known``."""
    info = tmp_path / "site" / "known-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: known\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[verism.judges]\nknown = fakes:scene_judge\n")
    paths = [str(info.parent), str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        SCENES_VARIABLE: f"{data / 'D'}|paintskills",
    }

    def call(*arguments: object) -> Said:
        script = "from verism.cli.main import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", script, *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    return call


def test_in_a_process_of_its_own(process, data, tmp_path):
    command = ("run", "paintskills", "--scenes", data / "D", "--images", data / "D", "--detector", "known")
    done = process(*command, "--out", tmp_path / "R", "--json")
    assert done.code == 0, done.err
    assert accuracy(done.json, skill="spatial")["value"] == 1.0
    assert "matched       5" in done.err
    assert "\r" not in done.err
    again = process("score", tmp_path / "R", "--json")
    assert (again.code, again.out, again.err) == (0, done.out, "")


def test_wrong_usage_in_a_process_of_its_own(process):
    done = process("run", "paintskils", "--dry-run")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "verism: unknown suite 'paintskils'. Did you mean paintskills or paintskills_v1? "
        f"There are: {', '.join(SUITES)}; use: verism run SUITE\n"
    )


def test_a_dry_run_says_what_images_will_cost(verism, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    done = verism("run", "paintskills", "--model", "openai:mine?price=0.5", "--limit", 6, "--dry-run")
    assert done.code == 0, done.err
    assert "6 requests" in done.out
    assert "3.00" in done.out
    result = verism("run", "paintskills", "--model", "openai:mine?price=0.5", "--limit", 6, "--dry-run", "--json").json
    assert any("3.00" in line for line in result["estimate"])
    there = verism("run", "paintskills", "--limit", 6, "--dry-run", "--json").json
    assert there["estimate"] == []
