"""A Ray that does not start is told of in a line, not by its traceback."""

import pytest

from verism.errors import UsageError, VerismError
from verism.pipeline.ray_workers import RaySettings, start_ray

ray = pytest.importorskip("ray")


@pytest.mark.parametrize(
    ("address", "failure", "error", "words"),
    [
        ("127.0.0.1:1", AssertionError("asked for minutes"), UsageError, "no Ray cluster at 127.0.0.1:1: .*ray start"),
        ("ray://127.0.0.1:1", AssertionError("asked for minutes"), UsageError, "no Ray cluster at ray://127.0.0.1:1"),
        ("auto", ConnectionError("nobody there"), UsageError, "no Ray cluster at auto: nobody there"),
        (None, Exception("The current node timed out during startup."), VerismError, "machine is busy"),
        (None, RuntimeError("something else"), RuntimeError, "something else"),
    ],
)
def test_start_ray_failure_says_what_to_do(address, failure, error, words, monkeypatch):
    def init(**_):
        raise failure

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(error, match=words) as caught:
        start_ray(RaySettings(address=address))
    assert isinstance(caught.value, error)
