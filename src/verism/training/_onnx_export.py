"""Trained networks as ONNX files."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.errors import require
from verism.files import write_whole

if TYPE_CHECKING:
    import torch

__all__ = ["OnnxInterface", "averaged_with", "read_onnx", "with_properties", "write_onnx"]


@dataclass(frozen=True, kw_only=True)
class OnnxInterface:
    """What goes in and comes out of a network as a file.

    Attributes:
        inputs: their names.
        outputs: their names.
        shapes: per input, which dimensions may vary, as ``torch.export`` wants them.
    """

    inputs: Sequence[str]
    outputs: Sequence[str]
    shapes: Mapping[str, Any]


def write_onnx(
    path: Path,
    model: torch.nn.Module,
    example: tuple[torch.Tensor, ...],
    interface: OnnxInterface,
    properties: Mapping[str, str],
    *,
    half: bool = False,
) -> Path:
    """Write a network as one checked ONNX file, whole or not at all.

    Args:
        path: the file; its folder is made if missing.
        model: the network, in evaluation mode.
        example: inputs to trace it with.
        interface: names and shapes.
        properties: metadata of the file.
        half: keep large weights in 16 bits, at half the size; they are read back to 32 before anything is computed.

    Returns:
        ``path``.
    """
    require("onnxscript", extra="train", purpose="writing a network as ONNX")
    onnx = require("onnx", extra="train", purpose="writing a network as ONNX")
    import torch

    # The exporter talks of its own affairs, among them that torchvision is missing, which nothing here needs.
    log = logging.getLogger("torch.onnx")
    level = log.level
    with warnings.catch_warnings(), torch.no_grad():  # without gradients tracing is faster
        warnings.simplefilter("ignore")
        log.setLevel(logging.ERROR)
        try:
            program = torch.onnx.export(
                model, example, dynamo=True, input_names=list(interface.inputs),
                output_names=list(interface.outputs), dynamic_shapes=dict(interface.shapes), external_data=False,
                verbose=False,
            )  # fmt: skip
        finally:
            log.setLevel(level)
    assert program is not None
    proto = program.model_proto
    if half:
        _halve(proto)
    for key, value in properties.items():
        proto.metadata_props.add(key=key, value=value)
    onnx.checker.check_model(proto)
    write_whole(path, proto.SerializeToString())
    return path


def read_onnx(content: bytes) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Weights by name, and the metadata, of a network's ONNX file.

    Args:
        content: the file.

    Raises:
        ValueError: no ONNX file.
    """
    onnx = require("onnx", extra="train", purpose="reading the weights of an ONNX file")
    import torch

    try:
        model = onnx.load_model_from_string(content)
    except Exception as err:  # protobuf's own errors share no public base class
        raise ValueError(f"no ONNX file: {err}") from err
    weights = {}
    for tensor in model.graph.initializer:
        value = torch.from_numpy(onnx.numpy_helper.to_array(tensor).copy())
        name = str(tensor.name)
        weights[name.removesuffix(_HALF)] = value.float() if name.endswith(_HALF) else value
    return weights, {each.key: each.value for each in model.metadata_props}


def with_properties(
    path: Path, properties: Mapping[str, str] | None = None, *, card: Mapping[str, Any] | None = None
) -> Path:
    """Write other metadata into a file of ``write_onnx``; the network stays as it is.

    Args:
        path: the file.
        properties: metadata by name; names that the file has already are given these values.
        card: what its card says from now on besides what it says already, JSON-serialisable; null for NaN.

    Returns:
        ``path``.
    """
    onnx = require("onnx", extra="train", purpose="writing a network as ONNX")
    proto = onnx.load_model_from_string(path.read_bytes())
    known = {entry.key: entry.value for entry in proto.metadata_props} | dict(properties or {})
    if card:
        known["card"] = json.dumps(json.loads(known["card"]) | json.loads(json.dumps(card).replace("NaN", "null")))
    del proto.metadata_props[:]
    for key, value in known.items():
        proto.metadata_props.add(key=key, value=value)
    write_whole(path, proto.SerializeToString())
    return path


def averaged_with(path: Path, theirs: Mapping[str, torch.Tensor], share: float) -> None:
    """Replace the weights of a network's file by the average of its own and others, by their names.

    Args:
        path: the file; written anew.
        theirs: weights of a file of the same network, see ``read_onnx``.
        share: of them, in [0, 1].

    Raises:
        ValueError: a weight is missing or of another shape there.
    """
    onnx = require("onnx", extra="train", purpose="averaging the weights of ONNX files")
    model = onnx.load_model_from_string(path.read_bytes())
    for tensor in model.graph.initializer:
        own = onnx.numpy_helper.to_array(tensor)
        if tensor.name.startswith("network.") and own.dtype.kind == "f":
            name = str(tensor.name).removesuffix(_HALF)
            if name not in theirs or tuple(theirs[name].shape) != own.shape:
                raise ValueError(f"{name} is missing or of another shape there")
            mixed = (1 - share) * own.astype(np.float32) + share * theirs[name].numpy()
            tensor.CopyFrom(onnx.numpy_helper.from_array(mixed.astype(own.dtype), tensor.name))
    write_whole(path, model.SerializeToString())


_HALF = "_half"  # end of the names of weights that are kept in 16 bits
_LARGE = 1_024  # numbers of a weight from which on half its size is worth a node


def _halve(proto: Any) -> None:
    """Large weights as float16, each behind a node that makes it float32 again; runtimes do that once, on loading."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    graph, casts = proto.graph, []
    for number, tensor in enumerate(list(graph.initializer)):
        values = onnx.numpy_helper.to_array(tensor)
        if tensor.data_type != TensorProto.FLOAT or values.size < _LARGE:
            continue
        name = str(tensor.name)  # copied: the tensor is about to be replaced in place
        kept = f"{name}{_HALF}"
        graph.initializer[number].CopyFrom(numpy_helper.from_array(values.astype("float16"), kept))
        casts.append(helper.make_node("Cast", [kept], [name], to=TensorProto.FLOAT))
        for known in [value for value in graph.value_info if value.name == name]:
            graph.value_info.remove(known)
    for node in reversed(casts):
        graph.node.insert(0, node)
