"""The viewer's benchmark runs on the present store, and every request it times is answered."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "viewer.py"


def test_benchmark_times_every_request_of_the_first_screens(monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("viewer_benchmark", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    monkeypatch.setattr("sys.argv", ["viewer.py", "--images", "1000", "--repeats", "1"])
    benchmark.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("1,000 images; ")
    assert len([line for line in lines if " ms, again" in line]) == 9
    assert lines[-1].startswith("gallery opened by its link, with 48 thumbnails: ")
