"""Face detectors in ONNX: small networks of each layout, whose answer follows from the image by hand.

Every network is one convolution per stride that takes the mean of a cell, so exactly the white cells are faces.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from verism.errors import UsageError
from verism.judges.skin_tone.networks import OnnxFaces, decode_scrfd

# In cells: centre in the middle, 6 wide and 8 high, points around it.
POINTS = np.array([[-1.0, -1.5], [2, -1.5], [0.5, 0.5], [-0.5, 2], [1.5, 2]])


def network(
    layout: str, size: tuple[int, int] | None, *, points: bool = True, channel: int | None = None
) -> onnx.ModelProto:
    """A detector of a layout for inputs of (height, width), or any size.

    YuNet sees a face of the numbers above in a cell whose mean grey is near 255 (cls = obj = mean / 255); SCRFD gives
    sigmoid-like scores in [0, 1] for both predictions of a cell: mean of the normalised cell, clipped, and half of it.
    """
    nodes, weights, outputs = [], [], []

    def constant(name: str, values: np.ndarray) -> str:
        weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def per_stride(name: str, stride: int, gain: list[float], bias: list[float], last: int) -> None:
        """An output of (1, cells * len / last, last): gain x mean of the cell + bias for each channel."""
        kernel = np.array(gain, dtype=np.float32)[:, None, None, None] * np.full(
            (1, 3, stride, stride), 1 / (3 * stride**2), dtype=np.float32
        )
        if channel is not None:  # the network is blind to the other two
            kernel[:, [k for k in range(3) if k != channel]] = 0
            kernel[:, channel] *= 3
        nodes.extend(
            [
                helper.make_node(
                    "Conv",
                    ["input", constant(f"w{name}", kernel), constant(f"b{name}", np.array(bias, dtype=np.float32))],
                    [f"c{name}"],
                    strides=[stride, stride],
                    kernel_shape=[stride, stride],
                ),
                helper.make_node("Transpose", [f"c{name}"], [f"t{name}"], perm=[0, 2, 3, 1]),
                helper.make_node("Reshape", [f"t{name}", constant(f"s{name}", np.array([1, -1, last]))], [name]),
            ]
        )
        cells = None if size is None else size[0] // stride * (size[1] // stride) * len(gain) // last
        outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, cells, last]))

    if layout == "yunet":
        for stride in (8, 16, 32):
            # Larger cells have to be whiter than white, so that only the finest stride answers.
            share = 1 / 255 if stride == 8 else 0.3 / 255
            per_stride(f"cls_{stride}", stride, [share], [0.0], 1)
            per_stride(f"obj_{stride}", stride, [share], [0.0], 1)
            per_stride(f"bbox_{stride}", stride, [0.0] * 4, [0.5, 0.5, math.log(6), math.log(8)], 4)
            per_stride(f"kps_{stride}", stride, [0.0] * 10, POINTS.ravel().tolist(), 10)
    else:
        for number, stride in enumerate((8, 16, 32)):
            share = 1.0 if stride == 8 else 0.3
            per_stride(f"4{number}", stride, [share, share / 2], [0.0, 0.0], 1)
            per_stride(f"5{number}", stride, [0.0] * 8, [3, 4, 3, 4, 1, 1, 1, 1], 4)
            if points:
                per_stride(f"6{number}", stride, [0.0] * 20, POINTS.ravel().tolist() * 2, 10)
    shape = [1, 3, *(size or ("h", "w"))]
    graph = helper.make_graph(
        nodes, layout, [helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)], outputs, weights
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    return model


def saved(model: onnx.ModelProto, folder: Path, name: str = "faces.onnx") -> Path:
    onnx.save(model, folder / name)
    return folder / name


def image(height: int, width: int, *cells: tuple[int, int], size: int = 8) -> np.ndarray:
    pixels = np.zeros((height, width, 3), dtype=np.uint8)
    for row, col in cells:
        pixels[row * size : (row + 1) * size, col * size : (col + 1) * size] = 255
    return pixels


@pytest.mark.parametrize("size", [(64, 96), None], ids=["fixed", "any size"])
def test_yunet_is_decoded_as_its_cells_say(tmp_path, size):
    finder = OnnxFaces(saved(network("yunet", size), tmp_path), half=False, size=None if size else 96)
    assert finder.layout == "yunet"
    (face,) = finder.find(image(64, 96, (3, 4)))
    # Cell (3, 4) of 8 pixels: centre (4.5, 3.5) x 8 = (36, 28), half the size (24, 32).
    assert face.box == pytest.approx(np.array([12, -4, 60, 60]), abs=1e-3)
    assert face.score == pytest.approx(1.0)
    assert face.landmarks == pytest.approx((POINTS + np.array([4, 3])) * 8, abs=1e-3)
    # Eyes at -1 and 2, so the midline is at 0.5, where nose and mouth are.
    assert face.yaw_deg == pytest.approx(0, abs=1e-4)


def test_scrfd_is_decoded_as_its_cells_say(tmp_path):
    finder = OnnxFaces(saved(network("scrfd", (64, 96)), tmp_path), half=False)
    assert finder.layout == "scrfd"
    (face,) = finder.find(image(64, 96, (3, 4)))
    # The cell's corner (32, 24); 3 and 4 cells to each side. (255 - 127.5) / 128 = 0.996 is the score.
    assert face.box == pytest.approx(np.array([8, -8, 56, 56]), abs=1e-3)
    assert face.score == pytest.approx(127.5 / 128)
    assert face.landmarks == pytest.approx((POINTS + np.array([4, 3])) * 8, abs=1e-3)


def test_scrfd_without_landmarks_gives_boxes(tmp_path):
    finder = OnnxFaces(saved(network("scrfd", (64, 64), points=False), tmp_path), half=False)
    (face,) = finder.find(image(64, 64, (2, 2)))
    assert face.landmarks is None
    assert face.yaw_deg is None
    assert face.box_style == "tight"


def ultraface(tmp_path: Path) -> Path:
    """Two predictions: the score of each is the mean of the image's half, left and right."""
    nodes = [
        helper.make_node("Conv", ["input", "w"], ["half"], strides=[32, 32], kernel_shape=[32, 32]),  # (1, 1, 1, 2)
        helper.make_node("Reshape", ["half", "column"], ["face"]),
        helper.make_node("Neg", ["face"], ["background"]),
        helper.make_node("Concat", ["background", "face"], ["scores"], axis=2),
        helper.make_node("Mul", ["face", "zero"], ["nothing"]),
        helper.make_node("Add", ["nothing", "corners"], ["boxes"]),
    ]
    weights = [
        numpy_helper.from_array(np.full((1, 3, 32, 32), 1 / 3072, dtype=np.float32), "w"),
        numpy_helper.from_array(np.array([1, 2, 1]), "column"),
        numpy_helper.from_array(np.zeros(1, dtype=np.float32), "zero"),
        numpy_helper.from_array(np.array([[[0, 0, 0.5, 1], [0.5, 0.25, 1, 1]]], dtype=np.float32), "corners"),
    ]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 2, k]) for n, k in (("scores", 2), ("boxes", 4))]
    inputs = [helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, 3, 32, 64])]
    model = helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs, weights), opset_imports=[helper.make_opsetid("", 13)]
    )
    model.ir_version = 8
    return saved(model, tmp_path)


def test_ultraface_is_decoded_in_shares_of_the_input(tmp_path):
    finder = OnnxFaces(ultraface(tmp_path), half=False)
    assert finder.layout == "ultraface"
    (face,) = finder.find(image(32, 64, (0, 1), size=32))
    assert face.box.tolist() == [32, 8, 64, 32]
    assert face.score == pytest.approx((255 - 127) / 128, abs=1e-5)


def test_boxes_are_in_pixels_of_the_image_whatever_the_input_is(tmp_path):
    finder = OnnxFaces(saved(network("yunet", (64, 96)), tmp_path), half=False)
    # Twice as large, so it is halved: cell (1, 2) of the input is 16 pixels here; the canvas is not filled to its foot.
    (face,) = finder.find(image(96, 192, (1, 2), size=16))
    assert face.box == pytest.approx(np.array([2.5 * 16 - 48, 1.5 * 16 - 64, 2.5 * 16 + 48, 1.5 * 16 + 64]), abs=1e-3)


def test_a_second_look_at_half_the_size_finds_what_fills_the_image(tmp_path):
    path = saved(network("yunet", (64, 64)), tmp_path)
    pixels = image(64, 64, (1, 1), size=16)
    boxes = [f.box for f in OnnxFaces(path).find(pixels)]
    # Four cells of the full size, of which neighbours overlap, and one of half the size: 6 x 16 wide, the largest.
    assert boxes[0] == pytest.approx(np.array([24 - 48, 24 - 64, 24 + 48, 24 + 64]), abs=1e-3)
    assert OnnxFaces(path).name == OnnxFaces(path, half=False).name.replace(" half=no", "")


def test_overlapping_faces_are_one(tmp_path):
    finder = OnnxFaces(saved(network("yunet", (64, 160)), tmp_path), half=False)
    faces = finder.find(image(64, 160, (3, 3), (3, 4), (3, 14)))
    assert sorted(f.box[0] for f in faces) == pytest.approx([3.5 * 8 - 24, 14.5 * 8 - 24], abs=1e-3)


def test_less_sure_faces_are_left_out(tmp_path):
    path = saved(network("yunet", (64, 64)), tmp_path)
    grey = (image(64, 64, (3, 3)) * 0.5).astype(np.uint8)  # 127 / 255 = 0.498
    assert OnnxFaces(path, half=False).find(grey) == []
    (face,) = OnnxFaces(path, half=False, min_score=0.4).find(grey)
    assert face.score == pytest.approx(127 / 255)


@pytest.mark.parametrize("shape", [(1, 1), (1, 300), (300, 1)])
def test_images_of_any_shape_are_looked_at(tmp_path, shape):
    for size in ((64, 64), None):
        finder = OnnxFaces(saved(network("yunet", size), tmp_path), size=None if size else 64)
        assert finder.find(np.zeros((*shape, 3), dtype=np.uint8)) == []


@pytest.mark.parametrize(("layout", "channel"), [("yunet", 2), ("scrfd", 0)])
def test_channels_come_in_the_order_of_the_layout(tmp_path, layout, channel):
    # YuNet was trained on blue, green, red, so red is its last channel; SCRFD on red, green, blue.
    finder = OnnxFaces(saved(network(layout, (64, 64), channel=channel), tmp_path), half=False)
    red, blue = image(64, 64, (3, 3)), image(64, 64, (3, 3))
    red[..., 1:], blue[..., :2] = 0, 0
    assert (len(finder.find(red)), len(finder.find(blue))) == (1, 0)


def test_yunet_agrees_with_opencv(tmp_path):
    cv2 = pytest.importorskip("cv2")
    path = saved(network("yunet", (64, 96)), tmp_path)
    pixels = image(64, 96, (1, 1), (3, 9))
    peer = cv2.FaceDetectorYN.create(str(path), "", (96, 64), score_threshold=0.6, nms_threshold=0.3)
    _, expected = peer.detect(np.ascontiguousarray(pixels[..., ::-1]))
    faces = OnnxFaces(path, half=False).find(pixels)
    assert len(faces) == len(expected) == 2
    expected = expected[np.argsort(expected[:, 0])]
    for face, row in zip(sorted(faces, key=lambda f: f.box[0]), expected, strict=True):
        assert [*face.box[:2], *(face.box[2:] - face.box[:2])] == pytest.approx(row[:4], abs=1e-3)
        assert face.landmarks.ravel() == pytest.approx(row[4:14], abs=1e-3)
        assert face.score == pytest.approx(row[14], abs=1e-5)


def test_the_name_tells_file_content_and_settings(tmp_path):
    path = saved(network("yunet", None), tmp_path, "yunet.onnx")
    finder = OnnxFaces(path)
    kind, _, rest = finder.name.partition("@")
    assert kind == "onnx:yunet.onnx"
    assert rest.split()[1:] == ["layout=yunet", "min_score=0.6", "size=640"]
    other = saved(network("yunet", (64, 64)), tmp_path, "yunet.onnx")
    assert OnnxFaces(other).name.split()[0] != finder.name.split()[0]


def simple(tmp_path: Path, shape: list[int], last: list[int]) -> Path:
    nodes = [helper.make_node("Relu", ["x"], [f"y{k}"]) for k in range(len(last))]
    outputs = [helper.make_tensor_value_info(f"y{k}", TensorProto.FLOAT, [*shape[:-1], n]) for k, n in enumerate(last)]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)], outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    return saved(model, tmp_path)


def test_files_that_are_no_known_detector_are_refused(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        OnnxFaces(tmp_path / "none.onnx")
    (tmp_path / "text.onnx").write_text("not a network")
    with pytest.raises(UsageError, match="not a network that onnxruntime can run"):
        OnnxFaces(tmp_path / "text.onnx")
    with pytest.raises(UsageError, match=r"one input of shape \(1, 3, height, width\), got x \[1, 8\]"):
        OnnxFaces(simple(tmp_path, [1, 8], [8]))
    with pytest.raises(UsageError, match=r"of a known layout. Expected YuNet .* It has: y0 \(1, 3, 8, 8\)"):
        OnnxFaces(simple(tmp_path, [1, 3, 8, 8], [8]))


def test_options_out_of_range_are_refused(tmp_path):
    fixed, free = (saved(network("yunet", size), tmp_path, f"{size}.onnx") for size in ((64, 96), None))
    with pytest.raises(UsageError, match="takes inputs of 96 x 64 only; leave out size=640"):
        OnnxFaces(fixed, size=640)
    with pytest.raises(UsageError, match="size must be a multiple of 32 pixels, at least 32; not 100"):
        OnnxFaces(free, size=100)
    with pytest.raises(UsageError, match="min_score must lie above 0 and up to 1, not 0"):
        OnnxFaces(free, min_score=0.0)


def test_outputs_of_other_sizes_are_not_taken_for_scrfd():
    outputs = [np.zeros((1, n, k), dtype=np.float32) for n in (64, 16, 4) for k in (1, 4)]  # one prediction per cell
    with pytest.raises(UsageError, match="SCRFD has 128 scores and boxes at stride 8 of an input of 64 x 64"):
        decode_scrfd(outputs, 64, 64)
    with pytest.raises(UsageError, match="neither scores, boxes nor landmarks"):
        decode_scrfd([np.zeros((1, 128, 7), dtype=np.float32)], 64, 64)
