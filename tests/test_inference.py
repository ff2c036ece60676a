"""ONNX files are opened in one place."""

from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from verism.errors import UsageError
from verism.inference import onnx_session

SCENERY = Path(str(resources.files("verism.generators"))) / "data" / "paintskills_generator" / "scenery.onnx"


def test_a_network_answers_with_any_number_of_threads():
    inputs = {"codes": np.zeros((1, 32), dtype=np.int64), "labels": np.zeros(1, dtype=np.int64)}
    answers = [onnx_session(SCENERY.read_bytes(), threads).run(None, inputs)[0] for threads in (None, 1, 2)]
    assert answers[0].shape == (1, 128, 128, 3)
    assert all(np.allclose(a, answers[0], atol=1e-5) for a in answers)


def test_no_thread_is_too_few():
    with pytest.raises(UsageError, match="threads must be at least 1, not 0"):
        onnx_session(SCENERY.read_bytes(), 0)


def test_what_is_no_network_is_an_error():
    with pytest.raises(Exception, match=r"(?i)protobuf|model|parse"):
        onnx_session(b"no network", None)
