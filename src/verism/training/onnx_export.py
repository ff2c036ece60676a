"""Trained networks as ONNX files."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verism.errors import require
from verism.files import write_whole

if TYPE_CHECKING:
    import torch

__all__ = ["write_onnx"]


def write_onnx(
    path: Path,
    model: torch.nn.Module,
    example: tuple[torch.Tensor, ...],
    *,
    inputs: list[str],
    outputs: list[str],
    shapes: dict[str, Any],
    told: Mapping[str, str],
) -> Path:
    """Write a network as one checked ONNX file, whole or not at all.

    Args:
        example: inputs to trace it with. shapes: per input, which dimensions may vary, as ``torch.export`` wants them.
        told: metadata of the file.
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
                model, example, dynamo=True, input_names=inputs, output_names=outputs, dynamic_shapes=shapes,
                external_data=False, verbose=False,
            )  # fmt: skip
        finally:
            log.setLevel(level)
    assert program is not None
    proto = program.model_proto
    for key, value in told.items():
        proto.metadata_props.add(key=key, value=value)
    onnx.checker.check_model(proto)
    write_whole(path, proto.SerializeToString())
    return path
