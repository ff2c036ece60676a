"""A machine without a network: known at once, and said so."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

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


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """A cache of the hub's, empty."""
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def test_model_of_a_hub_that_is_not_reached_is_not_asked_for_again_and_again(monkeypatch, tmp_path, cache):
    pytest.importorskip("transformers")
    asked = []
    monkeypatch.setattr(hub, "hub_is_reachable", lambda: asked.append(1))
    (cache / "models--someone--model").mkdir(parents=True)  # a download that was stopped
    where = HubOptions(revision="v2").where(MODEL)
    assert where == {"revision": "v2", "local_files_only": True}
    with pytest.raises(UsageError, match=r"someone/model is not in the hub's cache .*`hf download someone/model`"):
        load_config(MODEL, where)
    assert HubOptions().where(str(tmp_path))["local_files_only"] is False  # a folder needs no hub
    assert len(asked) == 1


@pytest.mark.usefixtures("cache")
def test_model_that_is_nowhere_fails_before_a_configuration_is_asked_for(monkeypatch):
    monkeypatch.setattr(hub, "hub_is_reachable", lambda: False)
    with pytest.raises(UsageError, match=r"someone/model is not in the hub's cache .*`hf download someone/model`"):
        HubOptions().where(MODEL)
    monkeypatch.setattr(hub, "hub_is_reachable", lambda: True)
    assert HubOptions().where(MODEL)["local_files_only"] is False
    with pytest.raises(UsageError, match="not in the hub's cache"):
        HubOptions(local_files_only=True).where(MODEL)


NOWHERE = {
    None: ["diffusers:a/b"],
    "detector": ["transformers:a/b", "open-vocabulary:a/b"],
    "segmenter": ["transformers:a/b", "boxes:a/b"],
    "depth": ["transformers:a/b"],
    "features": ["clip:a/b", "dinov2:a/b"],
    "clip": ["clip:a/b", "ViT-B/32"],
    "captioner": ["transformers:a/b"],
    "vqa": ["transformers:a/b", "classifier:a/b?yes=cat"],
    "ocr": ["transformers:a/b"],
    "scorer": ["pickscore:a/b"],
}


def test_models_that_are_nowhere_fail_without_importing_torch(tmp_path):
    pytest.importorskip("transformers")
    script = f"""
import sys
from verism.errors import UsageError
from verism.registry import Context, make_generator, make_judge

for role, names in {NOWHERE!r}.items():
    for name in names:
        try:
            make_generator(name, Context()) if role is None else make_judge(name, Context(), role)
        except UsageError as err:
            assert "is not in the hub's cache" in str(err), err
        else:
            raise AssertionError(name)
        heavy = {{"torch", "transformers", "diffusers"}} & set(sys.modules)
        assert not heavy, (role, name, heavy)
"""
    offline = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=offline)
    assert done.returncode == 0, done.stderr
