"""``verism view``: its help, what it refuses, and a server that starts and ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pytest
from click.testing import CliRunner

from verism.cli.main import cli
from verism.manifest import RunSettings
from verism.store import Run

pytest.importorskip("fastapi")


def test_view_help_has_examples_and_no_option_that_lets_others_in():
    text = CliRunner().invoke(cli, ["view", "--help"]).output
    assert "verism view runs --no-open" in text
    assert "--host" not in text


def test_view_folder_that_is_none_is_refused():
    result = subprocess.run(
        [sys.executable, "-c", "from verism.cli.main import main; main()", "view", "nowhere"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 2
    assert "nowhere is not a folder" in result.stderr


def test_view_serves_until_interrupted_and_writes_nothing(tmp_path):
    Run.start(tmp_path / "mine", RunSettings(suite="s", generator="g"))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    command = [sys.executable, "-c", "from verism.cli.main import main; main()", "view", str(tmp_path), "--port", "0"]
    server = subprocess.Popen([*command, "--no-open"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        line = server.stderr.readline()
        match = re.search(r"http://127\.0\.0\.1:\d+/", line)
        assert match is not None, line
        with urlopen(f"{match[0]}api/runs") as reply:
            assert b'"key":"mine"' in reply.read()
        time.sleep(0.1)
        os.kill(server.pid, signal.SIGINT)
        out, err = server.communicate(timeout=20)
    finally:
        server.kill()
    assert (server.returncode, out, err) == (0, "", "")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_page_loads_nothing_from_elsewhere():
    web = Path(__file__).parents[2] / "src" / "verism" / "viewer" / "web"
    for path in web.iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "//" not in re.sub(r"(?m)(^|\s)// .*$", "", text), path.name
