"""Devices and numbers are chosen, and ONNX files opened, in one place."""

from importlib import resources
from pathlib import Path

import numpy as np
import pytest
import torch

from verism.errors import UsageError
from verism.inference import onnx_session, pick_device, pick_dtype

SCENERY = Path(str(resources.files("verism.generators"))) / "data" / "paintskills_generator" / "scenery.onnx"


def test_a_network_answers_with_any_number_of_threads():
    inputs = {"codes": np.zeros((1, 32), dtype=np.int64), "labels": np.zeros(1, dtype=np.int64)}
    answers = [onnx_session(SCENERY.read_bytes(), threads).run(None, inputs)[0] for threads in (None, 1, 2)]
    assert answers[0].shape == (1, 128, 128, 3)
    assert all(np.allclose(a, answers[0], atol=1e-5) for a in answers)


def test_waiting_threads_of_a_network_leave_their_cores_to_others():
    options = onnx_session(SCENERY.read_bytes(), None).get_session_options()
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"


def test_no_thread_is_too_few():
    with pytest.raises(UsageError, match="threads must be at least 1, not 0"):
        onnx_session(SCENERY.read_bytes(), 0)


def test_what_is_no_network_is_an_error():
    with pytest.raises(Exception, match=r"(?i)protobuf|model|parse"):
        onnx_session(b"no network", None)


def test_pick_device_unnamed_takes_the_best_there_is(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert pick_device(None).type == pick_device("auto").type == pick_device("cpu").type == "cpu"
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert pick_device(None).type == "cpu"
    assert pick_device(None, allow_mps=True).type == "mps"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert pick_device(None, allow_mps=True).type == pick_device("auto").type == "cuda"


@pytest.mark.parametrize("name", ["gpu", "cuda:99"])
def test_pick_device_that_is_not_there_is_refused(name):
    with pytest.raises(UsageError, match=f"cannot compute on device '{name}': .*; try cpu, or auto"):
        pick_device(name)


def test_pick_dtype_unknown_name_is_refused():
    assert pick_dtype("bfloat16") is torch.bfloat16
    with pytest.raises(UsageError, match="dtype must be one of float32, float16, bfloat16, not 'double'"):
        pick_dtype("double")
