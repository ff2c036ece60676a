"""The state of a finetuning on disk: one safetensors file with a JSON header, written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verism.errors import UsageError
from verism.files import whole_file

if TYPE_CHECKING:
    import torch

__all__ = ["TrainingState", "blend", "load_state", "read_header", "save_state", "share_of_step", "trained"]

_KIND = "verism finetuning"


@dataclass(kw_only=True, eq=False)
class TrainingState:
    """What training changes, held by reference: loading writes into these very tensors.

    Attributes:
        weights: trained parameters by name, float32.
        average: their running average by the same names; empty without one.
        optimizer: of exactly these parameters, in this order.
        step, elapsed_s: done so far, resumed parts counted in.
        scaler: state of the fp16 loss scaler: numbers by name; empty without one.
    """

    weights: dict[str, torch.Tensor]
    average: dict[str, torch.Tensor]
    optimizer: torch.optim.Optimizer
    step: int = 0
    elapsed_s: float = 0.0
    scaler: dict[str, Any] = field(default_factory=dict)

    @property
    def result(self) -> dict[str, torch.Tensor]:
        """The weights to keep: averaged if they are averaged."""
        return self.average or self.weights


def save_state(path: Path, state: TrainingState, settings: Mapping[str, Any]) -> None:
    """Write everything needed to go on.

    Args:
        settings: what a run that goes on must share, JSON-serialisable.
    """
    from safetensors.torch import save_file

    tensors = {f"weights.{name}": value for name, value in state.weights.items()}
    tensors |= {f"average.{name}": value for name, value in state.average.items()}
    names = list(state.weights)
    for number, entry in state.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{key}.{names[number]}": value for key, value in entry.items()}
    header = {
        "kind": _KIND,
        "settings": json.dumps(settings),
        "step": str(state.step),
        "elapsed_s": str(state.elapsed_s),
        "scaler": json.dumps(state.scaler),
    }
    with whole_file(path) as partial:
        save_file({k: v.detach().cpu().contiguous() for k, v in tensors.items()}, partial, metadata=header)


def read_header(path: Path) -> dict[str, Any]:
    """Settings, step and time of a checkpoint.

    Raises:
        UsageError: it is no checkpoint of a finetuning, or damaged.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
    except (OSError, SafetensorError) as err:
        raise UsageError(f"{path} cannot be read: {err}; delete it, or start anew with resume=False") from err
    if header.get("kind") != _KIND:
        raise UsageError(f"{path} is not a checkpoint of finetuning; use another folder")
    return {
        "settings": json.loads(header["settings"]),
        "step": int(header["step"]),
        "elapsed_s": float(header["elapsed_s"]),
        "scaler": json.loads(header["scaler"]),
    }


def load_state(path: Path, state: TrainingState, settings: Mapping[str, Any]) -> None:
    """Put everything back in place.

    Raises:
        UsageError: a checkpoint of other settings, or none at all; the message names the difference.
    """
    import torch
    from safetensors import safe_open

    header = read_header(path)
    saved, now = header["settings"], json.loads(json.dumps(settings))
    if saved != now:
        names = [name for name in {**saved, **now} if saved.get(name) != now.get(name)]
        changed = "; ".join(f"{name} was {saved.get(name)}, now {now.get(name)}" for name in names)
        raise UsageError(f"{path} was trained with other settings ({changed}); use another folder, or resume=False")
    entries: dict[int, dict[str, torch.Tensor]] = {}
    with safe_open(path, framework="pt") as file, torch.no_grad():
        stored = set(file.keys())
        for number, (name, weight) in enumerate(state.weights.items()):
            weight.copy_(file.get_tensor(f"weights.{name}"))
            if state.average:
                state.average[name].copy_(file.get_tensor(f"average.{name}"))
            keys = [key for key in ("step", "exp_avg", "exp_avg_sq") if f"optimizer.{key}.{name}" in stored]
            if keys:
                entries[number] = {key: file.get_tensor(f"optimizer.{key}.{name}") for key in keys}
    state.optimizer.load_state_dict({**state.optimizer.state_dict(), "state": entries})
    state.step, state.elapsed_s, state.scaler = header["step"], header["elapsed_s"], header["scaler"]


def blend(average: Mapping[str, torch.Tensor], weights: Mapping[str, torch.Tensor], share: float) -> None:
    """Move the average a share of the way towards the weights, in place."""
    import torch

    with torch.no_grad():
        torch._foreach_lerp_([average[name] for name in weights], list(weights.values()), share)


def share_of_step(decay: float, step: int) -> float:
    """How far the average moves in a step (from 0): early averages forget fast, or the start would linger."""
    return 1 - min(decay, (1 + step) / (10 + step))


def trained(parts: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """The parameters with gradients of some modules, by ``{part}.{name}``."""
    return {
        f"{part}.{name}": parameter
        for part, module in parts.items()
        for name, parameter in module.named_parameters()
        if parameter.requires_grad
    }
