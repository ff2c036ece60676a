"""The tutorials do what they say: every command and program on these pages is run, in order, in an empty folder."""

from __future__ import annotations

import os
import re
import shlex
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from verism.cli.main import cli
from verism.errors import UsageError

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(path for path in (ROOT / "docs" / "tutorials").glob("*.md") if path.stem != "index")
PLUGIN = ROOT / "examples" / "plugin"
BLOCK = re.compile(r"(?:<!-- (?P<mark>[^\n]+) -->\n)?```(?P<kind>\w+)\n(?P<text>.*?)```\n", flags=re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A block of code: its language, what a comment before it says, and its text."""

    kind: str
    mark: str
    text: str


def blocks(page: str, extra: str = "") -> list[Block]:
    """The blocks of a page that have to be run or written: those without a mark, or those that need an extra."""
    found = [Block(m["kind"], m["mark"] or "", m["text"]) for m in BLOCK.finditer(page)]
    if extra:
        return [b for b in found if b.mark == f"run with the extra: {extra}"]
    return [b for b in found if not b.mark.startswith(("not run: ", "run with the extra: ")) and is_step(b)]


def is_step(block: Block) -> bool:
    return block.kind in ("bash", "sh", "python") or block.mark.startswith("file: ")


def command(line: str) -> None:
    """A line of a block: a command of verism, its output written to a file where the line says so."""
    words = shlex.split(line, comments=True)
    assert words[0] == "verism", f"only verism can be run here: {line}"
    words, target = (words[1:-2], words[-1]) if ">" in words else (words[1:], "")
    done = CliRunner().invoke(cli, words)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, f"{line}\n{done.output}"
    if target:
        Path(target).write_text(done.stdout, encoding="utf-8")


def run(page: str, name: str, extra: str = "") -> dict[str, object]:
    """Every step of a page, in the working directory; the names that its programs have at the end."""
    names: dict[str, object] = {"__name__": "tutorial"}
    for block in blocks(page, extra):
        if block.kind in ("bash", "sh"):
            for line in filter(None, map(str.strip, block.text.replace("\\\n", " ").splitlines())):
                command(line)
        elif block.kind == "python":
            exec(compile(block.text, name, "exec"), names)
        else:
            Path(block.mark.removeprefix("file: ")).write_text(block.text, encoding="utf-8")
    return names


@pytest.fixture
def example_installed(tmp_path, monkeypatch):
    """The example package as pip would install it in place: its modules and its entry points on the path."""
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = tmp_path / "site" / f"verism_plugin_example-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.4\nName: {project['name']}\nVersion: {project['version']}\n", encoding="utf-8"
    )
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in entries.items())
        for group, entries in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.syspath_prepend(str(PLUGIN / "src"))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    yield
    for name in [n for n in sys.modules if n.partition(".")[0] == "verism_plugin_example"]:
        del sys.modules[name]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_tutorial_runs(path, tmp_path, monkeypatch, request):
    if path.stem == "your-own-suite":
        request.getfixturevalue("example_installed")
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    page = path.read_text(encoding="utf-8")
    if path.stem == "eight-models":  # three of them are enough for every command
        page, left_out = re.subn(r"^  t(0\.4|0\.6|0\.8|1\.2|1\.5): .*\n", "", page, flags=re.MULTILINE)
        assert left_out == 5
    assert sum(block.kind in ("bash", "sh") for block in blocks(page)) >= 1
    run(page, path.name)


# Starts a Ray of its own, which needs the cores that other tests use at the same time.
@pytest.mark.skipif("VERISM_TEST_RAY" not in os.environ, reason="by make test-ray, on its own")
def test_blocks_that_need_ray_run(tmp_path, monkeypatch):
    pytest.importorskip("ray", reason="needs the extra ray")
    monkeypatch.chdir(tmp_path)
    path = ROOT / "docs" / "tutorials" / "cluster.md"
    page = path.read_text(encoding="utf-8")
    assert len(blocks(page, "ray")) == 1
    run(page, path.name, "ray")
    assert (tmp_path / "T" / "scores.json").is_file()


def test_every_tutorial_is_listed():
    index = (ROOT / "docs" / "tutorials" / "index.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\]\(([\w-]+\.md)\)", index)) == {path.name for path in PAGES}


def test_a_command_that_fails_fails_its_tutorial(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="nothing is not a run directory"):
        run("```bash\nverism report nothing\n```\n", "page")
    with pytest.raises(AssertionError, match="only verism"):
        run("```bash\nrm -rf x\n```\n", "page")
    run("<!-- not run: x -->\n```bash\nrm -rf x\n```\n\n```text\nno step\n```\n", "page")
