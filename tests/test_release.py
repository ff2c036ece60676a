"""What a release is made of: smoke calls, workflows, the container, lock files, forms. Nothing is built here.

``make release-check`` builds, installs and uses a release; these tests keep its lists, and the files around the code,
true to what they are about.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
import zipfile
import zlib
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

import verism
from verism.cli.main import cli
from verism.terminal import LazyCommand

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))  # where one tool imports the other
import release_check  # noqa: E402
import smoke  # noqa: E402

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))


def pins(name: str) -> dict[str, str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    found = re.findall(r"^([A-Za-z0-9_.-]+)==([^\s;\\]+)", text, flags=re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", package).lower(): version for package, version in found}


def workflow(path: Path) -> dict[str, Any]:
    loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(loaded, dict)
    return loaded


# --------------------------------------------------------------------------------------------------------- smoke calls
def test_every_command_is_called_or_has_a_reason_why_not():
    called = {call.words.split()[0] for call in smoke.CORE if not call.python}
    commands = set(cli.list_commands(click.Context(cli)))
    assert commands - called == set(smoke.HELP_ONLY) - called
    assert not set(smoke.HELP_ONLY) & called, "called after all"
    assert called - {"--version"} <= commands


def test_every_extra_is_tried():
    assert set(smoke.EXTRAS) == set(PROJECT["optional-dependencies"]) - {"dev"} == set(release_check.extras())
    assert all(smoke.EXTRAS.values())


@pytest.mark.parametrize("call", [c for c in (*smoke.CORE, *sum(smoke.EXTRAS.values(), ())) if not c.python])
def test_smoke_calls_are_understood(call):
    words = shlex.split(call.words)
    if words == ["--version"]:
        return
    command: click.Command = cli
    context = click.Context(cli, info_name="verism")
    while isinstance(command, click.Group):
        found = command.get_command(context, words[0])
        assert found is not None, call.words
        command, words = (found.loaded() if isinstance(found, LazyCommand) else found), words[1:]
    command.make_context(command.name, words, parent=context)  # raises where an option does not exist


def test_a_call_that_fails_or_says_something_else_is_a_problem(tmp_path):
    calls = (
        smoke.Call("print('one')", says="one", python=True),
        smoke.Call("print('one')", says="two", python=True),
        smoke.Call("raise SystemExit(3)", python=True),
        smoke.Call("raise SystemExit(3)", code=3, python=True),
        smoke.Call("print('Traceback (most recent call last)')", python=True),
    )
    problems = [done.problem for done in smoke.called(Path(sys.executable), calls, tmp_path)]
    assert [bool(problem) for problem in problems] == [False, True, True, False, True]
    assert "does not say 'two': one" in problems[1]
    assert problems[2].startswith("exit code 3 and not 0")


def test_help_of_every_command_is_written(tmp_path):
    script = smoke.HELPS.replace("import json\n", f"import json, sys\nsys.path.insert(0, {str(ROOT / 'src')!r})\n", 1)
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert {"", "run", "run geneval", "metrics fid", "plan schema"} <= set(json.loads(done.stdout))


# -------------------------------------------------------------------------------------------------------- the archives
METADATA = """\
Metadata-Version: 2.4
Name: verism
Version: 1
Summary: x
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.11
Description-Content-Type: text/markdown
"""


def wheel_of(tmp_path: Path, metadata: str) -> Path:
    path = tmp_path / "verism-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("verism-1.dist-info/METADATA", metadata)
        archive.writestr("verism-1.dist-info/licenses/LICENSE", "x")
        archive.writestr("verism/large.onnx", bytes(range(256)) * 8000)
        archive.writestr("verism/judges/detection/data/paintskills_detector.onnx", bytes(range(256)) * 8000)
    return path


def test_problems_of_metadata_are_named(tmp_path):
    problems = "; ".join(release_check.metadata_problems(wheel_of(tmp_path, METADATA)))
    assert "no project URL ['Changelog', 'Documentation', 'Homepage', 'Issues', 'Repository']" in problems
    assert "no licence file ['NOTICE']" in problems
    assert "other classifiers" in problems
    assert "extras" in problems
    lines = [f"Project-URL: {name}, {url}" for name, url in PROJECT["urls"].items()]
    lines += [f"Classifier: {name}" for name in PROJECT["classifiers"]]
    lines += [f"Provides-Extra: {name}" for name in PROJECT["optional-dependencies"]]
    text = METADATA + "License-File: NOTICE\n" + "\n".join(lines) + "\n"
    assert release_check.metadata_problems(wheel_of(tmp_path, text)) == [
        "verism-1.dist-info/licenses/NOTICE is not in the wheel"
    ]


def test_a_large_file_needs_a_reason(tmp_path):
    found = {name: why for name, _, why in release_check.large_files(wheel_of(tmp_path, METADATA))}
    assert found["verism/large.onnx"] == ""
    assert found["verism/judges/detection/data/paintskills_detector.onnx"].startswith("the built-in detector")


@pytest.mark.parametrize("start", list(release_check.REASONS))
def test_reasons_are_of_files_that_exist(start):
    path = ROOT / "src" / start
    assert path.is_dir() if start.endswith("/") else path.is_file()


def test_large_files_of_the_package_have_a_reason():
    source = ROOT / "src"
    files = [
        p for p in (source / "verism").rglob("*") if p.is_file() and p.stat().st_size > 1e6 * release_check.LARGE_MB
    ]
    assert len(files) >= 4
    names = [p.relative_to(source).as_posix() for p in files]
    assert not [name for name in names if not any(name.startswith(start) for start in release_check.REASONS)]
    packed = sum(len(zlib.compress(p.read_bytes())) for p in files)  # as a wheel packs them
    assert packed / 1e6 < release_check.WHEEL_MB - 3


# ------------------------------------------------------------------------------------------------------------ metadata
def test_addresses_are_those_of_pyproject():
    home = PROJECT["urls"]["Repository"]
    assert all(url.startswith(home) for url in PROJECT["urls"].values())
    for name in ("CITATION.cff", "SECURITY.md", "Dockerfile", ".github/ISSUE_TEMPLATE/config.yml"):
        assert home in (ROOT / name).read_text(encoding="utf-8"), name


def test_versions_of_python_agree():
    versions = {c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)}
    matrix = workflow(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]["tests"]["strategy"]["matrix"]
    assert set(matrix["python"]) == versions
    assert PROJECT["requires-python"] == f">={min(versions, key=lambda v: int(v.partition('.')[2]))}"
    assert {name.partition("-")[0] for name in matrix["system"]} == {"ubuntu", "macos", "windows"}


def test_changelog_has_the_version_that_is_being_made():
    number = verism.__version__.partition(".dev")[0]
    headings = re.findall(r"^## \[(.+?)\](.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0][0] == number
    assert (headings[0][1] == " - unreleased") == (".dev" in verism.__version__)


# ----------------------------------------------------------------------------------------------------------- workflows
@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda p: p.name)
def test_workflows_call_make_targets_that_exist(path):
    runs = [step["run"] for job in workflow(path)["jobs"].values() for step in job["steps"] if "run" in step]
    named = {word for run in runs for word in re.findall(r"^\s*make ([a-z-]+)", run, flags=re.MULTILINE)}
    assert named
    assert named <= TARGETS


def test_the_makefiles_targets_of_the_workflows():
    runs = " ".join(p.read_text(encoding="utf-8") for p in WORKFLOWS)
    assert {"check", "docs-check", "release-check"} <= set(re.findall(r"run: make ([a-z-]+)", runs)) <= TARGETS


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda p: p.name)
def test_workflows_take_few_rights_and_pinned_actions(path):
    loaded = workflow(path)
    assert loaded["permissions"] in ({}, {"contents": "read"})
    for name, job in loaded["jobs"].items():
        assert "timeout-minutes" in job, name
        rights = {key for key, value in job.get("permissions", {}).items() if value == "write"}
        assert rights <= ({"id-token"} if name == "publish" else {"contents"} if name == "page" else set()), name
        for step in job["steps"]:
            if "uses" in step:
                assert re.fullmatch(r"[\w.-]+/[\w./-]+@(v\d+|release/v\d+|[0-9a-f]{40})", step["uses"]), step
            if step.get("uses", "").startswith("actions/checkout"):
                assert step["with"]["persist-credentials"] is False, name
            assert "${{ github.event" not in step.get("run", ""), "text of others in a shell"


def test_a_release_is_published_without_a_token_after_it_was_checked():
    jobs = workflow(ROOT / ".github" / "workflows" / "release.yml")["jobs"]
    assert jobs["publish"]["needs"] == "build"
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert any(step.get("run") == "make release-check" for step in jobs["build"]["steps"])
    assert "secrets." not in (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda p: p.name)
def test_issue_forms_have_fields_with_names(path):
    form = workflow(path)
    if path.name == "config.yml":
        return
    assert form["name"]
    assert form["description"]
    ids = [field["id"] for field in form["body"]]
    assert len(ids) == len(set(ids))
    assert all(field["attributes"]["label"] for field in form["body"])


def test_pre_commit_takes_the_tested_versions():
    config = workflow(ROOT / ".pre-commit-config.yaml")
    hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]
    wanted = pins("constraints.txt")
    named = [word.partition("==")[::2] for hook in hooks for word in hook["additional_dependencies"]]
    assert all(version for _, version in named)
    assert {name for name, _ in named} >= {"ruff"}
    assert not [(name, version) for name, version in named if wanted.get(name, version) != version]


# ------------------------------------------------------------------------------------------------- container and locks
def test_the_dockerfile_copies_what_exists_and_is_not_ignored():
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line[:1] == "!"}
    copied = [word for line in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE) for word in line.split()]
    assert {"requirements.lock", "src", "pyproject.toml"} <= set(copied)
    for name in copied:
        assert (ROOT / name).exists(), name
        assert name in kept, f".dockerignore leaves {name} out"
    readable = {*PROJECT["license-files"], PROJECT["readme"]}
    assert readable <= set(copied), "the build reads these"


def test_the_container_runs_without_rights_from_locked_versions():
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    final = text.rpartition("\nFROM ")[2]
    assert re.search(r"^USER verism$", final, re.MULTILINE)
    assert final.index("USER verism") < final.index("ENTRYPOINT")
    installs = re.findall(r"pip install (.*)", "\n".join(x for x in text.splitlines() if not x.startswith("#")))
    assert len(installs) == 3
    assert all("--require-hashes" in line or "--no-deps --no-index" in line for line in installs)


@pytest.mark.parametrize("name", ["requirements.lock", "tools/build.lock"])
def test_locks_have_hashes_and_the_tested_versions(name):
    locked, tested = pins(name), pins("constraints.txt")
    text = (ROOT / name).read_text(encoding="utf-8")
    blocks = re.split(r"\n(?=[a-z])", text)
    assert len(locked) == len(blocks) - 1
    assert all("--hash=sha256:" in block for block in blocks[1:])
    assert {k: v for k, v in locked.items() if tested.get(k, v) != v} == {}
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    wanted = PROJECT["dependencies"] if name == "requirements.lock" else build
    assert {re.split(r"[<>=;]", r)[0].lower() for r in wanted} <= set(locked)
    assert "://" not in text


# ------------------------------------------------------------------------------------------------------------ documents
def test_the_installation_page_has_every_extra():
    text = (ROOT / "docs" / "installation.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `([a-z]+)` \|", text, flags=re.MULTILINE))
    assert named == set(PROJECT["optional-dependencies"]) - {"dev"}


def test_contributing_has_ten_commands_that_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    block = text.partition("```bash\n")[2].partition("```")[0]
    commands = [line for line in block.splitlines() if line.strip()]
    assert len(commands) == 10
    assert {words[1] for c in commands if (words := c.split())[0] == "make"} <= TARGETS
