"""The fault campaigns of ``benchmarks/faults.py``: a few trials of each, and that they would notice a fault."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked and killed")


def test_a_few_trials_of_every_campaign_lose_nothing_and_nothing_is_silent(tmp_path):
    words = [sys.executable, BENCHMARKS / "faults.py", "--quick", "--jobs", "1", "--json", tmp_path / "faults.json"]
    done = subprocess.run([*words, "--work", tmp_path], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout
    record = json.loads((tmp_path / "faults.json").read_text())
    tried = {trial["campaign"] for trial in record["trials"]} | {skip["campaign"] for skip in record["skipped"]}
    assert tried == {
        *("kills", "images", "disk", "damage", "processes"),
        *("texts", "raters", "services", "programs", "bombs"),
    }
    assert "| **all** |" in done.stdout


def outcomes(tmp_path: Path, program: str) -> Counter[str]:
    """What kills of a made-up command come to; it writes ``OUT`` and has no part of verism in it."""
    code = f"""
        import random, sys
        from dataclasses import replace
        from pathlib import Path
        sys.path.insert(0, {str(BENCHMARKS)!r})
        from fault_campaigns import kills
        from fault_campaigns.trials import Setting, Site
        from verism.cli import main as command

        def planted():
            out = Path(sys.argv[1])
{textwrap.indent(textwrap.dedent(program), " " * 12)}

        command.main = planted
        kills.COLD = 0.0
        kills.SUBJECTS = (kills.Subject("planted", ("{{out}}",), 12, 1, result="files"),)
        folder = Path({str(tmp_path)!r})
        site = Site(Setting(work=folder, quick=False, seed=0), folder, random.Random(1))
        for trial in kills.kill(site, 0, 0, 1, 12):
            print(trial.outcome)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return Counter(done.stdout.split())


def test_kills_notice_a_file_that_is_written_in_place(tmp_path):
    found = outcomes(
        tmp_path,
        """
        with out.open("w") as file:
            file.write("first half")
            file.flush()
            out.with_name("between").mkdir(exist_ok=True)
            file.write(", second half")
        """,
    )
    assert found["lost"] > 0


def test_kills_notice_a_command_that_cannot_be_called_again(tmp_path):
    found = outcomes(
        tmp_path,
        """
        lock = out.with_name(f"{out.name}.lock")
        lock.touch(exist_ok=False)
        temporary = out.with_name(".temporary")
        temporary.write_text("whole")
        temporary.replace(out)
        lock.unlink()
        """,
    )
    assert found["lost"] > 0  # the lock of the killed one is there


def test_kills_find_nothing_wrong_with_a_file_that_appears_whole(tmp_path):
    found = outcomes(
        tmp_path,
        """
        temporary = out.with_name(".temporary")
        temporary.write_text("whole")
        temporary.replace(out)
        """,
    )
    assert found == {"survived": 12}
