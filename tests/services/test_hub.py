"""A machine without a network: known at once, and said so."""

from __future__ import annotations

import socket

import pytest

from verism.errors import UsageError
from verism.judges.hub import HubOptions, load_config
from verism.services import hub

MODEL = "someone/model"


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    for name in ("HF_ENDPOINT", "HF_HUB_OFFLINE", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    hub._opens.cache_clear()
    yield
    hub._opens.cache_clear()


def test_hub_that_listens_is_reachable(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        assert hub.hub_is_reachable()
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        assert not hub.hub_is_reachable()


def test_closed_port_is_not_reachable_and_a_proxy_is_asked_in_its_place(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = server.getsockname()[1]
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{closed}")
    assert not hub.hub_is_reachable()
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        monkeypatch.setenv("HF_ENDPOINT", "https://hub.invalid")
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        assert hub.hub_is_reachable()


def test_model_of_a_hub_that_is_not_reached_is_not_asked_for_again_and_again(monkeypatch, tmp_path):
    pytest.importorskip("transformers")
    asked = []
    monkeypatch.setattr("verism.judges.hub.hub_is_reachable", lambda: asked.append(1))
    where = HubOptions(revision="v2").where(MODEL)
    assert where == {"revision": "v2", "local_files_only": True}
    with pytest.raises(UsageError, match=r"someone/model is not in the hub's cache .*`hf download someone/model`"):
        load_config(MODEL, where)
    assert HubOptions().where(str(tmp_path))["local_files_only"] is False  # a folder needs no hub
    assert len(asked) == 1
