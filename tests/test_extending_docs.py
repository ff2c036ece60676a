"""The page about extensions shows the example as it is, and its tests pass."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PLUGIN = ROOT / "examples" / "plugin"
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
MARKED = re.findall(r"<!-- example: (\S+) ([^\n]+) -->\n```\w+\n(.*?)```\n", PAGE, flags=re.DOTALL)
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


def test_page_shows_the_example_in_blocks():
    assert len(MARKED) == PAGE.count("<!-- example:") >= 8


@pytest.mark.parametrize(("file", "names", "block"), MARKED, ids=[m[1][:40] for m in MARKED])
def test_block_marked_as_from_the_example_occurs_in_its_files(file, names, block):
    (path,) = (p for p in PLUGIN.rglob(file) if "build" not in p.parts)
    source = path.read_text(encoding="utf-8")
    assert block.strip(), f"{file} {names}: an empty block; run: python docs/generate.py"
    shown = [block, textwrap.indent(block, "    ")]  # members of a class are shown without its indentation
    assert any(each in source for each in shown), f"{file} {names}: stale; run: python docs/generate.py"


def test_suggested_tests_pass_with_the_example_installed(tmp_path):
    (tests,) = (block for block in PYTHON if "def test_" in block)
    (tmp_path / "test_shapes.py").write_text(tests, encoding="utf-8")
    target = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    subprocess.run(
        [*pip, "--no-deps", "--no-build-isolation", "--target", str(target), str(PLUGIN)], check=True, timeout=240
    )
    paths = [str(target), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shapes.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, paths))},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout
