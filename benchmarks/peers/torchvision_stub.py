"""Torchvision where its compiled part does not fit the installed PyTorch: the peers use its Python code only."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["import_torchvision"]

_KEPT: list[Any] = []  # definitions of operators go when the library that holds them does


def import_torchvision() -> None:
    """Import torchvision, with the signatures of its two missing operators defined if need be."""
    import torch

    try:
        import torchvision
    except RuntimeError:
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "DEF")
        boxes = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        library.define("nms" + boxes)
        library.define("qnms" + boxes)
        _KEPT.append(library)
        import torchvision  # noqa: F401
