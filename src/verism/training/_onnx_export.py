"""Trained networks as ONNX files."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verism.errors import require
from verism.files import write_whole

if TYPE_CHECKING:
    import torch

__all__ = ["OnnxInterface", "write_onnx"]


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
) -> Path:
    """Write a network as one checked ONNX file, whole or not at all.

    Args:
        path: the file; its folder is made if missing.
        model: the network, in evaluation mode.
        example: inputs to trace it with.
        interface: names and shapes.
        properties: metadata of the file.

    Returns:
        ``path``.
    """
    require("onnxscript", extra="train", purpose="writing a network as ONNX")
    onnx = require("onnx", extra="train", purpose="writing a network as ONNX")
    import torch

    # The exporter talks of its own affairs, among them that torchvision is missing, which nothing here needs.
    log = logging.getLogger("torch.onnx")
    level = log.level
    with warnings.catch_warnings():
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
    for key, value in properties.items():
        proto.metadata_props.add(key=key, value=value)
    onnx.checker.check_model(proto)
    write_whole(path, proto.SerializeToString())
    return path
