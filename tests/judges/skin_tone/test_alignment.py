"""FAN: how the package is asked, and what is made of its answer; with a stand-in of its interface (version 1.5.0)."""

from __future__ import annotations

import sys
import warnings
from enum import IntEnum
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from verism.errors import MissingExtra, UsageError
from verism.judges.skin_tone.alignment import FanFaces


class LandmarksType(IntEnum):
    TWO_D = 1


class Tensor:
    def __init__(self, value: float) -> None:
        self._array = np.full(3, value, dtype=np.float32)

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> np.ndarray:
        return self._array


class Network:
    def __init__(self, value: float) -> None:
        self.value = value

    def state_dict(self) -> dict[str, Tensor]:
        return {"weight": Tensor(self.value)}


class FaceAlignment:
    """Answers with a face for every 255 in the first row, its box to the right and down of it."""

    made: dict[str, Any] = {}  # noqa: RUF012
    weights = 1.0

    def __init__(
        self, landmarks_type, device="cuda", flip_input=True, face_detector="sfd", compile=True
    ):  # fmt: skip
        if face_detector == "nothing":
            raise OSError("cannot download")
        FaceAlignment.made = {
            "landmarks_type": landmarks_type,
            "device": device,
            "flip_input": flip_input,
            "compile": compile,
        }
        self.face_detector = type("Detector", (), {"face_detector": Network(2.0)})()
        self.face_alignment_net = Network(FaceAlignment.weights)

    def get_landmarks_from_image(self, image, detected_faces=None, return_bboxes=False):  # noqa: ARG002
        assert image.flags.c_contiguous
        assert return_bboxes
        at = np.flatnonzero(image[0, :, 0] == 255)
        if not len(at):
            warnings.warn("No faces were detected.", stacklevel=2)
            return None, None, None
        boxes = [np.array([x, 5.0, x + 10 + x, 40, 0.9], dtype=np.float32) for x in at]
        landmarks = [np.tile(np.array([x, 6.0], dtype=np.float32), (68, 1)) for x in at]
        return landmarks, None, boxes


@pytest.fixture
def package(monkeypatch):
    module: Any = ModuleType("face_alignment")
    module.__version__ = "9.9"
    module.LandmarksType, module.FaceAlignment = LandmarksType, FaceAlignment
    monkeypatch.setitem(sys.modules, "face_alignment", module)
    return module


@pytest.mark.usefixtures("package")
def test_it_is_asked_as_in_the_paper():
    finder = FanFaces(device="cpu")
    assert FaceAlignment.made == {"landmarks_type": 1, "device": "cpu", "flip_input": False, "compile": False}
    assert finder.name.startswith("fan:face-alignment-9.9@")
    assert finder.name.endswith(" detector=sfd")


@pytest.mark.usefixtures("package")
def test_faces_come_with_landmarks_box_and_score_largest_first():
    pixels = np.zeros((50, 60, 3), dtype=np.uint8)
    pixels[0, [3, 20]] = 255
    first, second = FanFaces(device="cpu").find(pixels)
    assert first.box.tolist() == [20, 5, 50, 40]
    assert second.box.tolist() == [3, 5, 16, 40]
    assert first.score == pytest.approx(0.9)
    assert first.landmarks.shape == (68, 2)
    assert abs(first.yaw_deg) == 90  # all points in one place


@pytest.mark.usefixtures("package")
def test_no_face_is_an_empty_list_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert FanFaces(device="cpu").find(np.zeros((50, 60, 3), dtype=np.uint8)) == []


@pytest.mark.usefixtures("package")
def test_other_weights_have_another_name(monkeypatch):
    before = FanFaces(device="cpu").name
    monkeypatch.setattr(FaceAlignment, "weights", 1.5)
    assert FanFaces(device="cpu").name != before


@pytest.mark.usefixtures("package")
def test_a_start_that_fails_is_explained():
    with pytest.raises(UsageError, match="does not start with detector 'nothing' on 'cpu': OSError: cannot download"):
        FanFaces(device="cpu", detector="nothing")


def test_older_names_of_the_landmarks_and_no_option_to_compile(package):
    class Old:
        def __init__(self, landmarks_type, device, flip_input, face_detector):  # noqa: ARG002
            assert landmarks_type == "old"
            self.face_alignment_net, self.face_detector = Network(1.0), None

    package.LandmarksType = type("LandmarksType", (), {"_2D": "old"})
    package.FaceAlignment = Old
    assert FanFaces(device="cpu").name.startswith("fan:")


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "face_alignment", None)
    with pytest.raises(MissingExtra, match="Install it with: pip install face-alignment"):
        FanFaces(device="cpu")
