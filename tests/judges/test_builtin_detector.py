"""The built-in detector, run on a network whose answer can be read off the image.

Network of the tests: 32 x 32 pixels, 4 x 4 cells of 8 pixels. A cell's mean red is its objectness; its mean green g
gives the class probabilities (1 - g, 0.75 g, 0.25 g) of ant, bee, cat; its mean blue b gives the colour probabilities
(b, 1 - b) of blue, red. Every box reaches 6 pixels from the middle of its cell. It has no peak suppression.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from verism.errors import UsageError
from verism.judges.detection.builtin import UNSURE, BuiltinDetector, Letterbox, Unsure, letterbox
from verism.judges.detection.decode import (
    Found,
    box_iou,
    calibrated,
    classes_of_both_sides,
    decode,
    greedy_nms,
    parts_discounted,
    with_mirror_image,
)
from verism.judges.detection.second_look import Looked, averaged, crop
from verism.records import DetectionNeed, LoadedImage, schema


def write_network(path: Path, **changed: str) -> Path:
    middle = np.arange(4, dtype=np.float32) * 8 + 4
    x, y = np.meshgrid(middle, middle)
    boxes = np.stack([x - 6, y - 6, x + 6, y + 6])[None].clip(0, 32)
    constants = {
        "boxes_of_cells": boxes,
        "full": np.float32(255),
        "one": np.float32(1),
        "zero": np.float32(0),
        "most": np.float32(0.75),
        "rest": np.float32(0.25),
        "axis": np.array([1]),
    }
    node = helper.make_node
    nodes = [
        node("Cast", ["pixels"], ["float"], to=TensorProto.FLOAT),
        node("Transpose", ["float"], ["nchw"], perm=[0, 3, 1, 2]),
        node("AveragePool", ["nchw"], ["mean"], kernel_shape=[8, 8], strides=[8, 8]),
        node("Div", ["mean", "full"], ["share"]),
        node("Split", ["share"], ["r", "g", "b"], axis=1, num_outputs=3),
        node("Squeeze", ["r", "axis"], ["peaks"]),
        node("Sub", ["one", "g"], ["ant"]),
        node("Mul", ["g", "most"], ["bee"]),
        node("Mul", ["g", "rest"], ["cat"]),
        node("Concat", ["ant", "bee", "cat"], ["classes"], axis=1),
        node("Mul", ["r", "zero"], ["nothing"]),
        node("Add", ["nothing", "boxes_of_cells"], ["boxes"]),
        node("Sub", ["one", "b"], ["red"]),
        node("Concat", ["b", "red"], ["colors"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "readable",
        [helper.make_tensor_value_info("pixels", TensorProto.UINT8, ["n", 32, 32, 3])],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in {
                "peaks": ["n", 4, 4],
                "classes": ["n", 3, 4, 4],
                "boxes": ["n", 4, 4, 4],
                "colors": ["n", 2, 4, 4],
            }.items()
        ],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    meta = {
        "classes": json.dumps(["ant", "bee", "cat"]),
        "colors": json.dumps(["blue", "red"]),
        "input_size": "32",
        "threshold": "0.4",
        "card": json.dumps({"steps": 7}),
        **changed,
    }
    helper.set_model_props(model, meta)
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_network(tmp_path_factory.mktemp("network") / "readable.onnx")


def image(*cells: tuple[int, int, tuple[int, int, int]]) -> np.ndarray:
    """A black image with some cells (row, column) painted."""
    pixels = np.zeros((32, 32, 3), dtype=np.uint8)
    for row, column, color in cells:
        pixels[row * 8 : row * 8 + 8, column * 8 : column * 8 + 8] = color
    return pixels


def loaded(*images: np.ndarray) -> list[LoadedImage]:
    return [LoadedImage(image_id=f"p#{i}", prompt_id="p", pixels=x) for i, x in enumerate(images)]


# --------------------------------------------------------------------------------------------------------------------
# Decoding
# --------------------------------------------------------------------------------------------------------------------
def maps(size: int = 3) -> tuple[np.ndarray, ...]:
    """One image, 3 x 3 cells, 2 classes evenly likely, every box (0, 0, 10, 10)."""
    peaks = np.zeros((1, size, size), dtype=np.float32)
    classes = np.full((1, 2, size, size), 0.5, dtype=np.float32)
    boxes = np.zeros((1, 4, size, size), dtype=np.float32)
    boxes[0, 2:] = 10
    return peaks, classes, boxes, np.zeros((1, 0, size, size), dtype=np.float32)


def test_a_hand_worked_map():
    peaks, classes, boxes, colors = maps()
    peaks[0, 0, 0], classes[0, :, 0, 0] = 0.9, (0.8, 0.2)  # class 0: 0.72, class 1: 0.18
    peaks[0, 2, 2], classes[0, :, 2, 2] = 0.8, (0.1, 0.9)  # class 1: 0.72 as well; the cell comes later
    boxes[0, :, 2, 2] = (20, 20, 30, 40)
    peaks[0, 1, 1], classes[0, :, 1, 1] = 0.6, (0.5, 0.5)  # 0.3; shares 9 * 10 of 100 with the first: IoU 0.9, dropped
    boxes[0, :, 1, 1] = (0, 0, 9, 10)
    peaks[0, 0, 2], classes[0, :, 0, 2] = 0.09, (0.5, 0.5)  # 0.045 < 0.05: dropped
    boxes[0, :, 0, 2] = (50, 50, 60, 60)
    (result,) = decode(peaks, classes, boxes, colors)
    assert result.boxes.tolist() == [[0, 0, 10, 10], [20, 20, 30, 40]]
    assert result.labels.tolist() == [0, 1]
    np.testing.assert_allclose(result.scores, [0.72, 0.72], rtol=1e-6)
    np.testing.assert_allclose(result.class_scores, [[0.72, 0.18], [0.08, 0.72]], rtol=1e-6)
    np.testing.assert_allclose(result.objectness, [0.9, 0.8])
    assert result.color_scores.shape == (2, 0)


def test_at_most_the_strongest_peaks_are_looked_at():
    peaks, classes, boxes, colors = maps(6)
    peaks[0] = np.linspace(0.2, 0.9, 36).reshape(6, 6)
    boxes[0, 0], boxes[0, 2] = np.arange(36).reshape(6, 6) * 20, np.arange(36).reshape(6, 6) * 20 + 10
    (result,) = decode(peaks, classes, boxes, colors, top_k=3)
    assert result.boxes[:, 0].tolist() == [35 * 20, 34 * 20, 33 * 20]


def test_no_peak_gives_no_box():
    (result,) = decode(*maps())
    assert result.boxes.shape == (0, 4)
    assert result.class_scores.shape == (0, 2)


def test_overlap_of_boxes():
    # 2 x 2 shared of 16 + 16 - 4 = 28; touching boxes share nothing; empty boxes have no area at all.
    a = np.array([[0, 0, 4, 4]])
    np.testing.assert_allclose(box_iou(a, np.array([[2, 2, 6, 6], [4, 0, 8, 4], [1, 1, 1, 1]])), [[4 / 28, 0, 0]])
    assert box_iou(np.array([[1, 1, 1, 1]]), np.array([[1, 1, 1, 1]])).tolist() == [[0]]


def test_a_dropped_box_drops_no_other():
    # Each box overlaps the next by 6 / 14 = 0.43: the second goes, and the third, which only it overlaps, stays.
    boxes = np.array([[0, 0, 10, 1], [4, 0, 14, 1], [8, 0, 18, 1]])
    assert greedy_nms(boxes, 0.4).tolist() == [0, 2]
    assert greedy_nms(boxes, 0.5).tolist() == [0, 1, 2]


# --------------------------------------------------------------------------------------------------------------------
# Letterbox
# --------------------------------------------------------------------------------------------------------------------
def test_a_wide_image_lies_in_the_middle_on_grey():
    pixels = np.full((32, 64, 3), 200, dtype=np.uint8)
    square, position = letterbox(pixels, 32)
    # 64 x 32 halves to 32 x 16; (32 - 16) / 2 = 8 rows above.
    assert position == Letterbox(left=0, top=8, scale_x=0.5, scale_y=0.5)
    assert (square[8:24] == 200).all()
    assert (square[:8] == 127).all()
    assert (square[24:] == 127).all()
    assert position.to_image(np.array([[4, 10, 20, 24]])).tolist() == [[8, 4, 40, 32]]


def test_an_image_of_the_right_size_is_left_alone():
    pixels = image((1, 1, (9, 8, 7)))
    square, position = letterbox(pixels, 32)
    assert square is pixels
    assert position.to_image(np.array([[1, 2, 3, 4]])).tolist() == [[1, 2, 3, 4]]


def test_shrinking_averages_thin_lines():
    pixels = np.zeros((256, 256, 3), dtype=np.uint8)
    pixels[:, ::8] = 255
    square, _ = letterbox(pixels, 32)
    assert abs(square[4:-4, 4:-4].mean() - 255 / 8) < 3


@settings(max_examples=40)
@given(width=st.integers(1, 900), height=st.integers(1, 900))
def test_the_whole_image_maps_back_to_its_own_frame(width: int, height: int):
    square, position = letterbox(np.broadcast_to(np.uint8(200), (height, width, 3)), 32)
    inside = np.argwhere((square == 200).all(axis=2))
    (top, left), (bottom, right) = inside.min(axis=0), inside.max(axis=0) + 1
    frame = position.to_image(np.array([[left, top, right, bottom]], dtype=float))
    np.testing.assert_allclose(frame, [[0, 0, width, height]], atol=1e-2)


# --------------------------------------------------------------------------------------------------------------------
# The judge
# --------------------------------------------------------------------------------------------------------------------
def test_boxes_classes_and_colors_of_an_image(network: Path):
    # Cell (1, 2): objectness 204/255 = 0.8, no green: ant 1.0, colour red 1 - 0 = 1; middle (20, 12).
    # Cell (3, 0): objectness 0.6, green 1: bee 0.75, cat 0.25, times 0.6; blue 51/255 = 0.2; middle (4, 28).
    pixels = image((1, 2, (204, 0, 0)), (3, 0, (153, 255, 51)))
    detector = BuiltinDetector(network)
    need = DetectionNeed(classes=("cat", "ant", "bee"), colors=("red", "blue"))
    table = detector.observe(loaded(pixels), need)
    assert table.schema == schema("detections")
    assert table["query"].to_list() == [-1, 0, 1]
    assert table["label"].to_list() == [None, "ant", "bee"]
    assert table["raw_label"].to_list() == [None, "ant", "bee"]
    np.testing.assert_allclose(table["score"].to_list()[1:], [0.8, 0.45], rtol=1e-5)
    assert table.select("x0", "y0", "x1", "y1").rows()[1:] == [(14, 6, 26, 18), (0, 22, 10, 32)]
    np.testing.assert_allclose(table["class_scores"].to_list()[1:], [[0, 0.8, 0], [0.15, 0, 0.45]], atol=1e-6)
    assert table["color"].to_list() == [None, "red", "red"]
    np.testing.assert_allclose(table["color_scores"].to_list()[1:], [[1, 0], [0.8, 0.2]], atol=1e-6)
    assert table["judge"].unique().to_list() == [detector.name]


def test_an_image_without_a_box_was_looked_at_all_the_same(network: Path):
    table = BuiltinDetector(network).observe(
        loaded(image(), image((0, 0, (255, 0, 0)))), DetectionNeed(classes=("ant",))
    )
    assert table.select("image_id", "query").rows() == [("p#0", -1), ("p#1", -1), ("p#1", 0)]


def test_a_class_nobody_asked_for_keeps_its_box_without_a_label(network: Path):
    # As above, bee 0.45 and cat 0.15: the box counts as a bee although only cats are asked for.
    table = BuiltinDetector(network).observe(loaded(image((3, 0, (153, 255, 0)))), DetectionNeed(classes=("cat",)))
    row = table.row(1, named=True)
    assert (row["label"], row["raw_label"]) == (None, "bee")
    assert row["score"] == pytest.approx(0.45)
    assert row["class_scores"] == pytest.approx([0.15])
    assert row["color"] is None
    assert row["color_scores"] == []


def test_boxes_come_back_in_the_pixels_of_a_larger_image(network: Path):
    # 64 x 32, halved; its cell at input (14, 6, 26, 18) is (28, -4, 52, 20) in the image, cut at 0. The red block
    # spans input rows 8 to 16, so image rows (8 - 8) * 2 = 0 to 16, and columns 32 to 48.
    pixels = np.zeros((32, 64, 3), dtype=np.uint8)
    pixels[0:16, 32:48, 0] = 255
    (result,) = BuiltinDetector(network, min_score=0.7).detect([pixels])
    np.testing.assert_allclose(result.boxes, [[28, 0, 52, 20]], atol=1e-4)


def test_a_box_in_the_margin_alone_is_no_box(network: Path):
    # The margin's grey gives every cell of the first row objectness 127/255 = 0.5; those boxes end at input row 10, two
    # rows inside the image when the margin has 8 rows, and outside when it has 12 (64 x 16 -> 32 x 8).
    need = DetectionNeed(classes=("ant",))
    table = BuiltinDetector(network).observe(loaded(np.zeros((16, 64, 3), dtype=np.uint8)), need)
    boxes = table.filter(table["query"] >= 0)
    assert (boxes["y1"] > boxes["y0"]).all()
    assert (boxes["y0"] >= 0).all()
    assert (boxes["y1"] <= 16).all()


@pytest.mark.parametrize("batch_size", [1, 2, 3, 8])
def test_batches_change_nothing(network: Path, batch_size: int):
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (32, 32, 3), dtype=np.uint8) for _ in range(5)]
    need = DetectionNeed(classes=("ant", "bee", "cat"), colors=("blue",))
    one = BuiltinDetector(network, batch_size=1, threads=1).observe(loaded(*images), need)
    many = BuiltinDetector(network, batch_size=batch_size, threads=1).observe(loaded(*images), need)
    assert one.equals(many)
    assert one.height > 5


def test_the_name_stands_for_the_weights_and_the_options(network: Path, tmp_path: Path):
    digits = hashlib.sha256(network.read_bytes()).hexdigest()[:12]
    assert BuiltinDetector(network).name == f"builtin:paintskills-detector@{digits}"
    assert BuiltinDetector(network, batch_size=2, threads=1).name == BuiltinDetector(network).name
    assert BuiltinDetector(network, min_score=0.3).name == f"builtin:paintskills-detector@{digits} min_score=0.3"
    other = write_network(tmp_path / "other.onnx", threshold="0.5")
    assert BuiltinDetector(other).name != BuiltinDetector(network).name


def test_the_file_says_what_it_is(network: Path):
    detector = BuiltinDetector(network)
    assert detector.classes == ("ant", "bee", "cat")
    assert detector.colors == ("blue", "red")
    assert (detector.size, detector.threshold, detector.card) == (32, 0.4, {"steps": 7})


def test_min_score_drops_boxes(network: Path):
    pixels = image((1, 2, (204, 0, 0)), (3, 0, (153, 255, 51)))
    assert len(BuiltinDetector(network, min_score=0.5).detect([pixels])[0].scores) == 1
    assert len(BuiltinDetector(network, min_score=0.4).detect([pixels])[0].scores) == 2


def test_an_alias_gives_a_class_another_name(network: Path):
    detector = BuiltinDetector(network, aliases={"ant": "emmet"})
    table = detector.observe(loaded(image((1, 2, (204, 0, 0)))), DetectionNeed(classes=("emmet",)))
    assert table["label"].to_list() == [None, "emmet"]
    assert "emmet" in detector.name


# --------------------------------------------------------------------------------------------------------------------
# Errors
# --------------------------------------------------------------------------------------------------------------------
def test_an_unknown_class_is_named_with_the_known_ones(network: Path):
    with pytest.raises(UsageError, match=r"'zebra'.*knows ant, bee, cat.*verism train detector"):
        BuiltinDetector(network).observe(loaded(image()), DetectionNeed(classes=("ant", "zebra")))


def test_an_unknown_color_is_named_with_the_known_ones(network: Path):
    with pytest.raises(UsageError, match=r"the colours mauve; it knows blue, red"):
        BuiltinDetector(network).observe(loaded(image()), DetectionNeed(classes=("ant",), colors=("red", "mauve")))


def test_another_need_is_refused(network: Path):
    with pytest.raises(UsageError, match="cannot serve a need of str"):
        BuiltinDetector(network).observe([], "faces")  # type: ignore[arg-type]


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(UsageError, match=r"no detector file .*gone\.onnx"):
        BuiltinDetector(tmp_path / "gone.onnx")


def test_a_file_that_is_no_detector_is_refused(tmp_path: Path, network: Path):
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(b"not a model")
    with pytest.raises(UsageError, match=r"bad\.onnx is not a detector written by"):
        BuiltinDetector(bad)
    model = onnx.load(network)
    del model.metadata_props[:]
    onnx.save(model, bad)
    with pytest.raises(UsageError, match=r"is not a detector written by .*classes"):
        BuiltinDetector(bad)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_score": 1.5}, r"min_score must lie in \[0, 1\], not 1.5"),
        ({"batch_size": 0}, "batch_size must be at least 1, not 0"),
        ({"threads": 0}, "threads must be at least 1, not 0"),
    ],
)
def test_options_out_of_range_are_refused(network: Path, options: dict[str, float], message: str):
    with pytest.raises(UsageError, match=message):
        BuiltinDetector(network, **options)  # type: ignore[arg-type]


def test_no_image_gives_an_empty_table(network: Path):
    table = BuiltinDetector(network).observe([], DetectionNeed(classes=("ant",)))
    assert table.height == 0
    assert table.schema == schema("detections")


# --------------------------------------------------------------------------------------------------------------------
# The second look
# --------------------------------------------------------------------------------------------------------------------
def one_box(box: tuple[float, ...], objectness: float, classes: Sequence[float], colors: Sequence[float]) -> Found:
    return Found(
        boxes=np.array([box], dtype=np.float32),
        objectness=np.array([objectness], dtype=np.float32),
        class_scores=np.array([classes], dtype=np.float32) * objectness,
        color_scores=np.array([colors], dtype=np.float32),
    )


def test_the_mirror_image_is_averaged_in():
    # In an image 100 wide, x 10 to 30 is x 70 to 90 of the mirror image.
    result = one_box((10, 5, 30, 25), 0.8, (0.55, 0.45), (0.6, 0.4))
    mirrored = one_box((70, 5, 86, 25), 0.4, (0.15, 0.85), (0.2, 0.8))
    merged = with_mirror_image(result, mirrored, 100)
    # Mirrored back, x is 14 to 30; edges weigh 0.8 to 0.4: 10 * 2 / 3 + 14 / 3.
    np.testing.assert_allclose(merged.boxes, [[34 / 3, 5, 30, 25]], rtol=1e-6)
    np.testing.assert_allclose(merged.objectness, [0.6])
    # Probabilities (0.55 + 0.15) / 2 = 0.35 and 0.65, times the objectness (0.8 + 0.4) / 2.
    np.testing.assert_allclose(merged.class_scores, [[0.21, 0.39]], atol=1e-6)
    np.testing.assert_allclose(merged.color_scores, [[0.4, 0.6]], atol=1e-6)


def test_files_of_before_average_classes_alone(network: Path, tmp_path: Path):
    result = one_box((10, 5, 30, 25), 0.8, (0.55, 0.45), (0.6, 0.4))
    mirrored = one_box((70, 5, 86, 25), 0.4, (0.15, 0.85), (0.2, 0.8))
    merged = classes_of_both_sides(result, mirrored, 100)
    np.testing.assert_allclose(merged.boxes, [[10, 5, 30, 25]])
    np.testing.assert_allclose(merged.class_scores, [[0.28, 0.52]], atol=1e-6)
    np.testing.assert_allclose(merged.color_scores, [[0.4, 0.6]], atol=1e-6)
    elsewhere = one_box((10, 5, 30, 25), 0.5, (0.0, 1.0), (0.0, 1.0))
    np.testing.assert_allclose(classes_of_both_sides(result, elsewhere, 100).class_scores, result.class_scores)
    # A file with a calibration of its own is read as such; one without has it within the network.
    now = BuiltinDetector(write_network(tmp_path / "now.onnx", score_scale="2.0", score_shift="0.5"))
    pixels = image((1, 1, (77, 0, 255)))
    (before,), (after,) = BuiltinDetector(network).detect([pixels]), now.detect([pixels])
    assert before.objectness.max() == pytest.approx(77 / 255, abs=1e-6)
    logit = np.log((77 / 255) / (1 - 77 / 255))
    assert after.objectness.max() == pytest.approx(1 / (1 + np.exp(-(2 * logit + 0.5))), abs=1e-5)


def test_calibration_turns_objectness_into_chances_and_keeps_the_classes():
    seen = one_box((0, 0, 9, 9), 0.8, (0.75, 0.25), (0.6, 0.4))
    # The logit of 0.8 is log 4; doubled, and log 2 less: log 8, which is 8 / 9.
    after = calibrated(seen, 2.0, -np.log(2), min_score=0.05)
    np.testing.assert_allclose(after.objectness, [8 / 9], rtol=1e-6)
    np.testing.assert_allclose(after.class_scores, [[6 / 9, 2 / 9]], rtol=1e-6)
    np.testing.assert_allclose(after.color_scores, seen.color_scores)
    assert calibrated(seen, 1.0, 0.0, min_score=0.05).scores == seen.scores
    assert len(calibrated(seen, 2.0, -np.log(2), min_score=0.7).boxes) == 0


def test_a_box_within_a_surer_one_counts_less(network: Path, tmp_path: Path):
    boxes = [
        (0, 0, 10, 10),  # all within the second
        (0, 0, 40, 20),
        (30, 10, 50, 30),  # a quarter within the second
        (35, 0, 45, 20),  # one half within the second
    ]
    seen = Found(
        boxes=np.array(boxes, dtype=np.float32),
        objectness=np.array([0.6, 0.9, 0.8, 0.5], dtype=np.float32),
        class_scores=np.array([[0.6, 0.0], [0.8, 0.1], [0.2, 0.6], [0.0, 0.5]], dtype=np.float32),
        color_scores=np.eye(4, dtype=np.float32),
    )
    after = parts_discounted(seen, 0.5)
    assert after.color_scores.argmax(axis=1).tolist() == [1, 2, 0, 3]  # the surest first
    np.testing.assert_allclose(after.boxes, np.array(boxes)[[1, 2, 0, 3]])
    np.testing.assert_allclose(after.objectness, [0.9, 0.8, 0.3, 0.25])
    np.testing.assert_allclose(after.class_scores, [[0.8, 0.1], [0.2, 0.6], [0.3, 0.0], [0.0, 0.25]])
    assert parts_discounted(seen, 1.0) is seen
    for few in (seen.take(np.zeros(0, dtype=np.int64)), seen.take(np.array([1]))):
        np.testing.assert_array_equal(parts_discounted(few, 0.5).objectness, few.objectness)
    # Of an image 20 high, the grey above it gives boxes that are cut to 4 pixels: one lies within that of cell (1, 1).
    pixels = image((1, 1, (255, 0, 0)))[6:26]
    (plain,) = BuiltinDetector(network).detect([pixels])
    (found,) = BuiltinDetector(write_network(tmp_path / "parts.onnx", part_weight="0.25")).detect([pixels])
    before, now = ({tuple(b): float(o) for b, o in zip(f.boxes.tolist(), f.objectness)} for f in (plain, found))
    assert before.keys() == now.keys()
    changed = {box: (before[box], now[box]) for box in before if before[box] != now[box]}
    assert list(changed) == [(6, 0, 18, 4)]
    assert now[6, 0, 18, 4] == pytest.approx(before[6, 0, 18, 4] / 4)


def test_a_box_that_one_of_the_two_has_keeps_half_of_its_objectness():
    result = one_box((10, 5, 30, 25), 0.8, (0.55, 0.45), (0.6, 0.4))
    elsewhere = one_box((10, 5, 30, 25), 0.5, (0.0, 1.0), (0.0, 1.0))  # mirrored back: x 70 to 90
    merged = with_mirror_image(result, elsewhere, 100)
    np.testing.assert_allclose(merged.boxes, [[70, 5, 90, 25], [10, 5, 30, 25]])
    np.testing.assert_allclose(merged.class_scores, [[0, 0.25], [0.22, 0.18]], atol=1e-6)
    nothing = result.take(np.zeros(0, dtype=np.int64))
    np.testing.assert_allclose(with_mirror_image(nothing, elsewhere, 100).objectness, [0.25])
    np.testing.assert_allclose(with_mirror_image(result, nothing, 100).objectness, [0.4])
    assert len(with_mirror_image(nothing, nothing, 100).boxes) == 0


# --------------------------------------------------------------------------------------------------------------------
# The second look
# --------------------------------------------------------------------------------------------------------------------
def test_a_crop_is_a_square_around_the_box_and_black_beyond_the_image():
    pixels = np.full((40, 60, 3), 200, dtype=np.uint8)
    pixels[10:20, 20:40] = (0, 0, 250)
    # The longer side is 20, so that the square has 24: rows 3 to 27, columns 18 to 42.
    square = crop(pixels, (20, 10, 40, 20), 24)
    np.testing.assert_array_equal(square[7:17, 2:22], np.broadcast_to((0, 0, 250), (10, 20, 3)))
    np.testing.assert_array_equal(square[:7], 200)
    corner = crop(pixels, (0, 0, 20, 20), 24)
    assert (corner[:2] == 0).all()
    assert (corner[:, :2] == 0).all()
    assert (corner[2:12, 2:] == 200).all()
    assert crop(pixels, (59.9, 39.9, 60, 40), 16).shape == (16, 16, 3)


def test_both_looks_are_averaged_and_the_surest_box_comes_first():
    first = Found(
        boxes=np.array([[0, 0, 9, 9], [20, 20, 30, 30]], dtype=np.float32),
        objectness=np.array([0.8, 0.6], dtype=np.float32),
        class_scores=np.array([[0.48, 0.32], [0.54, 0.06]], dtype=np.float32),
        color_scores=np.array([[0.6, 0.4], [0.9, 0.1]], dtype=np.float32),
    )
    looked = Looked(classes=np.array([[0.0, 1.0]]), colors=np.array([[1.0, 0.0]]), objects=None)
    merged = averaged(first, np.array([0]), looked, 0.5)
    # Classes 0.6 and 0.4 of the first look, 0 and 1 of the second: 0.3 and 0.7, times the objectness 0.8.
    np.testing.assert_allclose(merged.class_scores, [[0.24, 0.56], [0.54, 0.06]], atol=1e-6)
    np.testing.assert_allclose(merged.color_scores, [[0.8, 0.2], [0.9, 0.1]], atol=1e-6)
    # With more weight the second box, which got no second look, comes first.
    even = Looked(classes=np.array([[0.5, 0.5]]), colors=np.array([[1.0, 0.0]]), objects=None)
    merged = averaged(first, np.array([0]), even, 1.0)
    np.testing.assert_allclose(merged.boxes[0], [20, 20, 30, 30])
    # A look that sees no object there: objectness (0.8 + 0) / 2.
    nothing = Looked(classes=looked.classes, colors=looked.colors, objects=np.array([0.0]))
    merged = averaged(first, np.array([0]), nothing, 0.5)
    np.testing.assert_allclose(merged.boxes[0], [20, 20, 30, 30])
    np.testing.assert_allclose(merged.objectness, [0.6, 0.4], atol=1e-6)
    np.testing.assert_allclose(merged.class_scores[1], [0.3 * 0.4, 0.7 * 0.4], atol=1e-6)


def write_second_look(path: Path, *, objects: bool = False) -> bytes:
    """A network for crops of 8 x 8: mean red r gives the classes (r, 1 - r, 0), mean blue the colours (1 - b, b).

    ``objects``: it also holds that the share of green is the probability of an object.
    """
    node = helper.make_node
    constants = {"full": np.float32(255), "one": np.float32(1), "zero": np.float32(0), "axes": np.array([1, 2])}
    nodes = [
        node("Cast", ["pixels"], ["float"], to=TensorProto.FLOAT),
        node("ReduceMean", ["float", "axes"], ["mean"], keepdims=0),
        node("Div", ["mean", "full"], ["share"]),
        node("Split", ["share"], ["r", "g", "b"], axis=1, num_outputs=3),
        node("Sub", ["one", "r"], ["other"]),
        node("Mul", ["r", "zero"], ["never"]),
        node("Concat", ["r", "other", "never"], ["classes"], axis=1),
        node("Sub", ["one", "b"], ["plain"]),
        node("Concat", ["plain", "b"], ["colors"], axis=1),
    ]
    outputs = [
        helper.make_tensor_value_info("classes", TensorProto.FLOAT, ["n", 3]),
        helper.make_tensor_value_info("colors", TensorProto.FLOAT, ["n", 2]),
    ]
    if objects:
        constants["last"] = np.array([1])
        nodes.append(node("Squeeze", ["g", "last"], ["objects"]))
        outputs.append(helper.make_tensor_value_info("objects", TensorProto.FLOAT, ["n"]))
    graph = helper.make_graph(
        nodes,
        "second",
        [helper.make_tensor_value_info("pixels", TensorProto.UINT8, ["n", 8, 8, 3])],
        outputs,
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    names = {"classes": json.dumps(["ant", "bee", "cat"]), "colors": json.dumps(["blue", "red"]), "input_size": "8"}
    helper.set_model_props(model, names)
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())
    return path.read_bytes()


def test_only_unsure_boxes_get_a_second_look(network: Path, tmp_path: Path):
    look = base64.b64encode(write_second_look(tmp_path / "look.onnx")).decode()
    path = write_network(tmp_path / "both.onnx", second_look=look, second_look_weight="0.5")
    alone, both = BuiltinDetector(network), BuiltinDetector(path)
    assert alone.name != both.name
    # Green 0 and blue 1: ant and blue, both for sure. Green 0.8: ant 0.2, bee 0.6, cat 0.2, unsure.
    sure, unsure = (255, 0, 255), (204, 204, 255)
    pixels = image((0, 0, sure), (3, 3, unsure))
    first = {tuple(b): i for i, b in enumerate(alone.detect([pixels])[0].boxes.tolist())}
    (seen,), (before,) = both.detect([pixels]), alone.detect([pixels])
    for k, box in enumerate(seen.boxes.tolist()):
        was = first[tuple(box)]
        if box == [0, 0, 10, 10]:
            np.testing.assert_array_equal(seen.class_scores[k], before.class_scores[was])
        if box == [22, 22, 32, 32]:
            looked = both._second_look.look([crop(pixels, box, 8)])
            assert looked.objects is None
            classes = (before.class_scores[was] / before.objectness[was] + looked.classes[0]) / 2
            np.testing.assert_allclose(seen.class_scores[k], classes * before.objectness[was], atol=1e-5)
            colors = (before.color_scores[was] + looked.colors[0]) / 2
            np.testing.assert_allclose(seen.color_scores[k], colors, atol=1e-5)
            assert np.abs(seen.class_scores[k] - before.class_scores[was]).max() > 0.05
    assert len(seen.boxes) == len(before.boxes)
    assert {(0, 0, 10, 10), (22, 22, 32, 32)} <= {tuple(b) for b in seen.boxes.tolist()}


def test_a_second_look_doubts_objects(network: Path, tmp_path: Path):
    look = base64.b64encode(write_second_look(tmp_path / "look.onnx", objects=True)).decode()
    path = write_network(tmp_path / "both.onnx", second_look=look, second_look_weight="0.5")
    alone, both = BuiltinDetector(network), BuiltinDetector(path)
    assert both._second_look is not None
    pixels = image((3, 3, (204, 204, 255)))
    (before,), (seen,) = alone.detect([pixels]), both.detect([pixels])
    looked = both._second_look.look([crop(pixels, box, 8) for box in before.boxes])
    assert looked.objects is not None
    limits = Unsure()
    doubted = (before.objectness > limits.doubted[0]) & (before.objectness < limits.doubted[1])
    again = limits.boxes(before) | doubted
    assert again.any()
    expected = np.where(again, (before.objectness + looked.objects) / 2, before.objectness)
    order = np.lexsort(seen.boxes.T), np.lexsort(before.boxes.T)
    np.testing.assert_allclose(seen.objectness[order[0]], expected[order[1]], atol=1e-5)
    assert both._second_look.look([]).objects.shape == (0,)


def test_a_file_says_what_is_looked_at_once_more(tmp_path: Path):
    look = base64.b64encode(write_second_look(tmp_path / "look.onnx", objects=True)).decode()
    kept = {"second_look": look, "second_look_weight": "0.5", "score_scale": "1", "score_shift": "0"}
    never = json.dumps({"sure": 0, "undecided": [0.5, 0.5], "doubted": [0.5, 0.5]})
    pixels = [image((3, 3, (204, 204, 255)))]

    def objectness(**metadata: str) -> np.ndarray:
        (found,) = BuiltinDetector(write_network(tmp_path / "some.onnx", **metadata)).detect(pixels)
        return np.sort(found.objectness)

    alone = objectness(score_scale="1", score_shift="0", **{UNSURE: never})
    np.testing.assert_array_equal(objectness(**kept, **{UNSURE: never}), alone)
    assert not np.array_equal(objectness(**kept), alone)
    np.testing.assert_array_equal(objectness(**kept, **{UNSURE: json.dumps(asdict(Unsure()))}), objectness(**kept))
    for wrong in ("no JSON", '{"sure": 1.5}', '{"mirror_sure": -0.1}', '{"unknown": 1}', "[]"):
        with pytest.raises(UsageError, match="is not a detector written by"):
            objectness(**kept, **{UNSURE: wrong})


def test_the_mirror_image_has_limits_of_its_own():
    def one(objectness: float, share: float) -> Found:
        scores = np.array([[share, 1 - share]], dtype=np.float32) * objectness
        return Found(
            boxes=np.array([[0, 0, 9, 9]], dtype=np.float32), objectness=np.array([objectness], dtype=np.float32),
            class_scores=scores, color_scores=np.zeros((1, 0), dtype=np.float32),
        )  # fmt: skip

    same = Unsure(undecided=(0.4, 0.6))
    own = replace(same, mirror_likely=0.3, mirror_sure=0.8)
    for limits, objectness, share, again in [
        (same, 0.7, 0.9, True),  # below 0.93
        (own, 0.7, 0.9, False),
        (own, 0.7, 0.75, True),
        (same, 0.2, 0.6, True),
        (own, 0.2, 0.6, False),  # hardly an object
        (own, 0.5, 1.0, True),  # an object or none
    ]:
        assert limits.image(one(objectness, share)) is again
        assert limits.boxes(one(objectness, share)).tolist() == [objectness >= 0.1 and share < 0.93]
    assert not own.image(one(0.5, 1.0), objects=False)


def test_a_damaged_second_look_is_refused(tmp_path: Path):
    path = write_network(tmp_path / "both.onnx", second_look=base64.b64encode(b"nothing").decode())
    with pytest.raises(UsageError, match="is not a detector written by"):
        BuiltinDetector(path)
