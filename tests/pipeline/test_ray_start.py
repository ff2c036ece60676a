"""A Ray that does not start is told of in a line, not by its traceback."""

import pytest

from verism.errors import UsageError, VerismError
from verism.pipeline.ray_workers import RaySettings, start_ray

ray = pytest.importorskip("ray")


@pytest.mark.parametrize(
    ("address", "failure", "error", "words"),
    [
        (None, Exception("The current node timed out during startup."), VerismError, "machine is busy"),
        ("10.0.0.1:6379", ConnectionError("nobody there"), UsageError, "no Ray cluster at 10.0.0.1:6379"),
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
