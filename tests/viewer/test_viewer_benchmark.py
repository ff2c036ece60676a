"""The viewer's benchmark runs on the present store, and every request it times is answered."""

from __future__ import annotations

import pytest
from benchmark_modules import benchmark

pytest.importorskip("fastapi")


def test_benchmark_times_every_request_of_the_first_screens(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["viewer.py", "--images", "1000", "--repeats", "1"])
    with benchmark("viewer") as module:
        module.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("1,000 images; ")
    assert len([line for line in lines if " ms, again" in line]) == 9
    assert lines[-1].startswith("gallery opened by its link, with 48 thumbnails: ")
