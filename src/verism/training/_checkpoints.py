"""What a training changes, and its checkpoint: one safetensors file with a JSON header, written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from verism.errors import UsageError, require
from verism.files import whole_file

if TYPE_CHECKING:
    import torch

__all__ = [
    "Header",
    "TrainingState",
    "average_towards",
    "averaged_weights",
    "load_state",
    "read_header",
    "read_settings",
    "save_state",
]

S = TypeVar("S")

_OLD_PREFIX = "network."  # of the weights in checkpoints of detectors and generators up to version 0.1
_OPTIMIZER_KEYS = ("step", "exp_avg", "exp_avg_sq")


@dataclass(kw_only=True, eq=False)
class TrainingState:
    """What training changes, held by reference: loading writes into these very tensors.

    Attributes:
        kind: what is trained: ``detector``, ``writer`` ...
        weights: tensors by name: what is trained, and buffers.
        optimized: names of the weights that the optimizer changes, in its order.
        optimizer: optimizer of exactly these weights.
        average: running average of the weights by the same names; empty without one.
        step: steps done so far, resumed parts counted in.
        elapsed_s: seconds used so far, resumed parts counted in.
        scaler: state of the fp16 loss scaler, numbers by name; empty without one.
    """

    kind: str
    weights: Mapping[str, torch.Tensor]
    optimized: list[str]
    optimizer: torch.optim.Optimizer
    average: dict[str, torch.Tensor]
    step: int = 0
    elapsed_s: float = 0.0
    scaler: dict[str, Any] = field(default_factory=dict)

    @property
    def result(self) -> Mapping[str, torch.Tensor]:
        """The weights to keep: averaged if they are averaged."""
        return self.average or self.weights


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a checkpoint says of itself.

    Attributes:
        settings: what a training that goes on must share.
        step: steps done.
        elapsed_s: seconds used.
        scaler: state of the fp16 loss scaler, numbers by name.
    """

    settings: dict[str, Any]
    step: int
    elapsed_s: float
    scaler: dict[str, Any]


def save_state(path: Path, state: TrainingState, settings: Mapping[str, Any]) -> None:
    """Write everything needed to go on.

    Args:
        path: the checkpoint; replaced if there is one.
        state: what to write.
        settings: what a training that goes on must share, JSON-serialisable.
    """
    from safetensors.torch import save_file

    tensors = {f"weights.{name}": value for name, value in state.weights.items()}
    tensors |= {f"average.{name}": value for name, value in state.average.items()}
    for number, entry in state.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{key}.{state.optimized[number]}": value for key, value in entry.items()}
    header = {
        "kind": f"verism {state.kind}",
        "settings": json.dumps(settings),
        "step": str(state.step),
        "elapsed_s": str(state.elapsed_s),
        "scaler": json.dumps(state.scaler),
    }
    with whole_file(path) as partial:
        save_file({k: v.detach().cpu().contiguous() for k, v in tensors.items()}, partial, metadata=header)


def read_header(path: Path, kind: str) -> Header:
    """Settings, step and time of a checkpoint.

    Args:
        path: the checkpoint.
        kind: what must have been trained, see ``TrainingState``.

    Raises:
        UsageError: there is none, it is damaged, or something else was trained.
    """
    require("safetensors", extra="train", purpose="a checkpoint")
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise UsageError(f"there is no checkpoint {path}; train one first")
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
    except (OSError, SafetensorError) as err:
        raise UsageError(
            f"{path} cannot be read: {err}; delete it, or start over: --fresh (Python: resume=False)"
        ) from err
    # Checkpoints of detectors and generators up to version 0.1 do not say their kind; their settings tell it.
    if "settings" not in header or header.get("kind", f"verism {kind}") != f"verism {kind}":
        raise UsageError(f"{path} is not a checkpoint of {kind} training; use another folder")
    return Header(
        settings=json.loads(header["settings"]),
        step=int(header["step"]),
        elapsed_s=float(header["elapsed_s"] if "elapsed_s" in header else header["seconds"]),
        scaler=json.loads(header.get("scaler", "{}")),
    )


def read_settings(path: Path, kind: str, settings: type[S]) -> tuple[S, Header]:
    """Settings of a checkpoint as an object of their class, with the header.

    Args:
        path: the checkpoint.
        kind: what must have been trained, see ``TrainingState``.
        settings: a dataclass of what a training that goes on must share.

    Raises:
        UsageError: as of ``read_header``, or the settings are not those of this class.
    """
    header = read_header(path, kind)
    raw = {name: tuple(v) if isinstance(v, list) else v for name, v in header.settings.items()}
    try:
        return settings(**raw), header
    except TypeError:
        raise UsageError(f"{path} is not a checkpoint of {kind} training") from None


def load_state(path: Path, state: TrainingState, settings: Mapping[str, Any]) -> None:
    """Put everything back in place.

    Args:
        path: the checkpoint.
        state: what to write into.
        settings: what the checkpoint must share.

    Raises:
        UsageError: a checkpoint of other settings, or none at all; the message names the difference.
    """
    import torch
    from safetensors import safe_open

    header = read_header(path, state.kind)
    saved, now = header.settings, json.loads(json.dumps(dict(settings)))
    if saved != now:
        names = [name for name in {**saved, **now} if saved.get(name) != now.get(name)]
        changed = "; ".join(
            f"{name} was {_shown(saved.get(name))}, and is {_shown(now.get(name))} now" for name in names
        )
        raise UsageError(
            f"{path} was trained with other settings: {changed}. Give the same settings to go on, or use another "
            "folder, or start over: --fresh (Python: resume=False)"
        )
    parameters = [p for group in state.optimizer.param_groups for p in group["params"]]
    entries: dict[int, dict[str, torch.Tensor]] = {}
    # One tensor at a time: a checkpoint may be as large as the memory that is left.
    with safe_open(path, framework="pt") as file, torch.no_grad():
        stored = set(file.keys())
        prefix = "weights." if any(name.startswith("weights.") for name in stored) else _OLD_PREFIX
        for name, weight in state.weights.items():
            weight.copy_(file.get_tensor(prefix + name))
        for name, weight in state.average.items():
            weight.copy_(file.get_tensor(f"average.{name}"))
        for number, (name, parameter) in enumerate(zip(state.optimized, parameters, strict=True)):
            for key in _OPTIMIZER_KEYS:
                full = f"optimizer.{key}.{name}" if prefix == "weights." else f"optimizer.{number}.{key}"
                if full not in stored:
                    continue
                value = file.get_tensor(full)
                # In the memory layout of the weight: a file holds none, and fused AdamW walks through raw memory.
                laid_out = torch.empty_like(parameter).copy_(value) if value.ndim else value
                entries.setdefault(number, {})[key] = laid_out
    state.optimizer.load_state_dict({**state.optimizer.state_dict(), "state": entries})
    state.step, state.elapsed_s, state.scaler = header.step, header.elapsed_s, header.scaler


def _shown(value: Any) -> str:
    return "not set" if value is None else str(value)


def averaged_weights(path: Path) -> dict[str, torch.Tensor]:
    """The averaged weights of a checkpoint, on the CPU: what is to be used."""
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        names = [name for name in file.keys() if name.startswith("average.")]  # noqa: SIM118  # not a mapping
        return {name.removeprefix("average."): file.get_tensor(name) for name in names}


def average_towards(average: Mapping[str, torch.Tensor], weights: Mapping[str, torch.Tensor], share: float) -> None:
    """Move the average a share of the way to the weights, in place; whole numbers are copied.

    Args:
        average: tensors by name.
        weights: tensors by the same names.
        share: in [0, 1].
    """
    import torch

    with torch.no_grad():
        floating = [name for name, value in average.items() if value.is_floating_point()]
        torch._foreach_lerp_([average[n] for n in floating], [weights[n] for n in floating], share)
        for name, value in average.items():
            if not value.is_floating_point():
                value.copy_(weights[name])
