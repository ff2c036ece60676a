"""The line on a terminal while work goes on, and silence off one."""

import io
import time

from verism import progress
from verism.progress import Working


def test_work_of_unknown_length_tells_how_long_it_has_been_going_on(monkeypatch):
    monkeypatch.setattr(progress, "WORKING_S", 0.01)
    stream = io.StringIO()
    with Working("computing scores", stream=stream, show=True):
        until = time.monotonic() + 10
        while "computing scores, 0 s" not in stream.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
    assert "computing scores, 0 s" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")  # and leaves a clean line


def test_nothing_is_told_off_a_terminal(monkeypatch):
    monkeypatch.setattr(progress, "WORKING_S", 0.001)
    stream = io.StringIO()
    with Working("computing scores", stream=stream):
        time.sleep(0.05)
    assert stream.getvalue() == ""
