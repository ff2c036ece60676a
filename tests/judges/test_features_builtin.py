"""Features of the shipped detector: no PyTorch, no download, and no second file."""

from __future__ import annotations

import subprocess
import sys
from importlib import resources
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from verism.errors import UsageError
from verism.inference import onnx_session
from verism.judges.features.builtin import BuiltinFeatures, _fields, _read_by, _varint, with_output
from verism.judges.features.preprocessing import centre_square, pillow
from verism.records import FeatureNeed, LoadedImage

DETECTOR = Path(str(resources.files("verism.judges.detection"))) / "data" / "paintskills_detector.onnx"


def image(name: str, height: int, width: int, seed: int = 0) -> LoadedImage:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return LoadedImage(image_id=name, prompt_id="p", pixels=pixels)


@pytest.fixture(scope="module")
def judge() -> BuiltinFeatures:
    return BuiltinFeatures(threads=1)


# ------------------------------------------------------------------------------------------------------ reading ONNX
def test_numbers_of_the_format():
    # 300 = 0b10_0101100: seven low bits 0101100 with the sign to go on (0xAC), then 10 (0x02).
    assert [_varint(v).hex() for v in (0, 127, 128, 300)] == ["00", "7f", "8001", "ac02"]


def test_fields_skip_what_is_not_asked_for():
    # Field 1 as number 150, field 2 "ab", field 3 as eight bytes, field 2 "c", field 5 as four bytes.
    message = bytes.fromhex("0896011202616219" + "00" * 8 + "1201632d" + "00" * 4)
    assert [bytes(part) for part in _fields(message, 2)] == [b"ab", b"c"]


def test_an_inner_value_becomes_an_output():
    # y = relu(x w), z = y + y; y is asked for, too.
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            helper.make_node("Relu", ["h"], ["y"]),
            helper.make_node("Add", ["y", "y"], ["z"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, 1])],
        [helper.make_tensor("w", TensorProto.FLOAT, [2, 1], [1.0, 2.0])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    content = model.SerializeToString()
    assert _read_by(content, "w") == "x"
    more = with_output(content, "y")
    assert [o.name for o in onnx.load_from_string(more).graph.output] == ["z", "y"]
    z, y = onnx_session(more, 1).run(None, {"x": np.array([[3, 4]], np.float32)})
    assert (z.item(), y.item()) == (22, 11)


def test_a_layer_that_is_not_there():
    with pytest.raises(ValueError, match="it has no layer with the weight 'nothing'"):
        _read_by(DETECTOR.read_bytes(), "nothing")


# --------------------------------------------------------------------------------------------------------- the judge
def test_features_are_mean_and_deviation_of_the_last_map(judge: BuiltinFeatures):
    # The same value taken out of the file by ONNX's own tool, which cuts the network there.
    model = onnx.load(DETECTOR)
    lateral = next(node for node in model.graph.node if "network.lateral.2.weight" in node.input)
    cut = onnx.utils.Extractor(model).extract_model(["pixels"], [lateral.input[0]])
    sample = image("a", 300, 211)
    size = next(int(p.value) for p in model.metadata_props if p.key == "input_size")
    square = pillow(centre_square(sample.pixels), size, size)
    (maps,) = onnx_session(cut.SerializeToString(), 1).run(None, {"pixels": square[None]})
    assert maps.shape == (1, 208, 8, 8)
    expected = np.concatenate([maps[0].mean(axis=(1, 2)), maps[0].std(axis=(1, 2))])
    assert judge.dim == 416
    assert judge.features([sample])[0] == pytest.approx(expected, abs=1e-4)


def test_vectors_do_not_depend_on_neighbours(judge: BuiltinFeatures):
    images = [image(str(i), 50 + 40 * i, 200 - 30 * i, seed=i) for i in range(5)]
    together = BuiltinFeatures(threads=1, batch_size=2).features(images[::-1])[::-1]
    alone = np.concatenate([judge.features([i]) for i in images])
    assert np.abs(alone - together).max() < 1e-4
    assert np.abs(alone[0] - alone[1]).max() > 0.01


def test_table_and_name(judge: BuiltinFeatures):
    table = judge.observe([image("a", 20, 30), image("b", 1, 1)], FeatureNeed())
    assert table["image_id"].to_list() == ["a", "b"]
    assert table["vector"].list.len().to_list() == [416, 416]
    assert judge.name == BuiltinFeatures(DETECTOR, threads=2, batch_size=1).name
    assert judge.name.startswith("builtin@")
    assert judge.features([]).shape == (0, 416)


def test_no_pytorch_is_loaded():
    code = (
        "import sys, numpy as np\n"
        "from verism.judges.features.builtin import BuiltinFeatures\n"
        "from verism.records import FeatureNeed, LoadedImage\n"
        "pixels = np.zeros((9, 9, 3), np.uint8)\n"
        "BuiltinFeatures().observe([LoadedImage(image_id='a', prompt_id='p', pixels=pixels)], FeatureNeed())\n"
        "print(sorted({'torch', 'transformers', 'onnx'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# ------------------------------------------------------------------------------------------------------ bad requests
def test_files_that_are_no_detector(tmp_path: Path):
    with pytest.raises(UsageError, match="there is no detector file"):
        BuiltinFeatures(tmp_path / "nothing.onnx")
    for name, content in {"text": b"not a network", "empty": b"", "cut": DETECTOR.read_bytes()[:1000]}.items():
        path = tmp_path / f"{name}.onnx"
        path.write_bytes(content)
        with pytest.raises(UsageError, match=rf"{name}.onnx is not a detector written by `verism train detector`"):
            BuiltinFeatures(path)
    with pytest.raises(UsageError, match="batch_size must be at least 1"):
        BuiltinFeatures(batch_size=0)
