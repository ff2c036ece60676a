"""The typed record of a run: written, read back, migrated from schema 1, refused by number."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from verism.errors import UsageError
from verism.manifest import Environment, Manifest, RunSettings, Scoring, canonical_suite_name
from verism.renames import rules_of
from verism.store import Run

RUNS = Path(__file__).parent / "regressions" / "runs"
OLD = sorted(path.parent.name for path in RUNS.glob("*/manifest.json"))
SETTINGS = RunSettings(
    suite="paintskills",
    suite_settings={"limit": 3, "seed": "its own"},
    generator="oracle",
    judges={"detector": "d@1"},
    seed=5,
)


def test_record_written_as_json_is_read_back_equal():
    manifest = Manifest.new(SETTINGS, scoring=Scoring(rules={"k": 5}, remarks=("few",)), plugins={"mine": "1.0"})
    manifest = manifest.with_generator({"revision": "abc"})
    assert Manifest.of_record(json.loads(json.dumps(manifest.record()))) == manifest
    assert manifest.environment.plugins == {"mine": "1.0"}
    assert manifest.environment.hardware["cores"] >= 1


@pytest.mark.parametrize("name", OLD)
def test_runs_of_schema_1_are_migrated_without_losing_a_setting(name):
    record = json.loads((RUNS / name / "manifest.json").read_text())
    assert record["schema_version"] == 1
    old, notes = record["settings"], record.get("notes", {})
    manifest = Run.open(RUNS / name).manifest
    settings = manifest.settings
    assert settings.suite == canonical_suite_name(old["suite"])
    assert (settings.seed, settings.generator, settings.prompts) == (
        old.get("seed", 0), old.get("generator", ""), old.get("prompts", ""),
    )  # fmt: skip
    known = {"suite", "seed", "generator", "prompts", "reference"}
    moved = {**settings.judges, **settings.suite_settings}
    assert moved == {k: v for k, v in old.items() if k not in known}
    assert not set(settings.judges) & set(settings.suite_settings)
    assert manifest.scoring.rules == rules_of(notes.get("rules", {}))
    assert manifest.scoring.judges == notes.get("judges", {})
    assert list(manifest.scoring.remarks) == notes.get("remarks", [])
    assert manifest.created == record["created"]
    assert manifest.environment.packages == record["environment"]["packages"]
    # What was migrated is written as a record of this version.
    assert Manifest.of_record(json.loads(json.dumps(manifest.record()))) == manifest


def test_suite_settings_are_a_namespace_of_their_own():
    assert SETTINGS.differences(replace(SETTINGS, seed=6)) == [("seed", 5, 6)]
    changed = replace(SETTINGS, suite_settings={"limit": 4, "seed": "its own"}, judges={"clip": "c"})
    assert SETTINGS.differences(changed) == [
        ("judges.clip", None, "c"),
        ("judges.detector", "d@1", None),
        ("suite_settings.limit", 3, 4),
    ]
    assert SETTINGS.differences(replace(SETTINGS)) == []
    assert SETTINGS.hash() == replace(SETTINGS).hash() != changed.hash()


def test_tuples_and_paths_compare_equal_to_what_json_made_of_them():
    value = replace(SETTINGS, suite_settings={"folder": Path("a/b"), "faces": ("x", "y")})
    stored = Manifest.of_record(json.loads(json.dumps(Manifest.new(value).record()))).settings
    assert stored.suite_settings == {"folder": "a/b", "faces": ["x", "y"]}
    assert stored.differences(value) == []


@pytest.mark.parametrize("version", [0, 5])
def test_other_schemas_are_refused_by_number(version):
    record = Manifest.new(SETTINGS).record() | {"schema_version": version}
    with pytest.raises(UsageError, match=rf"run schema {version}; this version of verism reads schemas 1 to 4"):
        Manifest.of_record(record)


def git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=n", "-c", "user.email=e@x", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path, monkeypatch) -> Path:
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "code.py").write_text("x = 1\n")
    git(folder, "add", "code.py")
    git(folder, "commit", "-q", "-m", "first")
    return folder


@pytest.mark.parametrize("changed", [False, True])
def test_environment_names_commit_and_changes_of_the_callers_repository(repository, monkeypatch, changed):
    (repository / "results.txt").write_text("untracked files are no change of the code")
    if changed:
        (repository / "code.py").write_text("x = 2\n")
    monkeypatch.chdir(repository)
    made = Environment.current()
    assert made.commit == git(repository, "rev-parse", "HEAD")
    assert made.dirty is changed


def test_environment_outside_of_a_repository_names_no_commit(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    (tmp_path / "alone").mkdir()
    monkeypatch.chdir(tmp_path / "alone")
    made = Environment.current()
    assert (made.commit, made.dirty) == ("", None)
