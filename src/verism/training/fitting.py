"""A training loop that can be stopped and resumed at any time, for networks small enough for a processor.

On a processor every worker runs its share of the batch on one core of its own. Cores that share every single
convolution wait for each other hundreds of times per step, and come to a stand when other programs run too.
"""

from __future__ import annotations

import copy
import json
import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.errors import UsageError, VerismError, require
from verism.files import whole_file

if TYPE_CHECKING:
    import torch

__all__ = [
    "Budget",
    "averaged_weights",
    "channels_last",
    "fit",
    "lerp",
    "read_checkpoint",
    "replica_of",
    "restore_optimizer",
    "state_tensors",
    "under",
    "write_checkpoint",
]

_EMA = 0.998  # weights are averaged over about 500 steps
_PURPOSE = "training"

Log = Callable[[Mapping[str, Any]], None]
Loss = Callable[[Any, np.ndarray, np.random.Generator, float], "Mapping[str, torch.Tensor]"]


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How long to train, parts of a resumed training counted in; at least one of the two must be given.

    The learning rate falls to zero along the share of steps done or of time used, whichever is larger, so that a
    training with a time limit ends well on a machine of any speed. Train on with a larger budget at any time.
    """

    steps: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.steps is None and self.seconds is None:
            raise UsageError("say how long to train: steps, minutes, or both")

    def share(self, step: int, seconds: float) -> float:
        """Share of the budget that is used, in [0, 1]."""
        by_steps = step / self.steps if self.steps else 0.0
        by_time = seconds / self.seconds if self.seconds else 0.0
        return min(1.0, max(by_steps, by_time))


def fit(
    network: torch.nn.Module,
    loss: Loss,
    examples: int,
    budget: Budget,
    *,
    checkpoint: Path,
    settings: Mapping[str, Any],
    batch_size: int,
    peak_lr: float,
    seed: int = 0,
    weight_decay: float = 0.02,
    device: str = "auto",
    workers: int | None = None,
    resume: bool = True,
    log: Log | None = None,
    validate: Callable[[torch.nn.Module], Mapping[str, float]] | None = None,
    log_every_s: float = 10.0,
    checkpoint_every_s: float = 60.0,
    validate_every_s: float = 300.0,
) -> float:
    """Train a network in place until the budget is used; its averaged weights are in the checkpoint.

    Args:
        loss: (network, numbers of the examples, random numbers, share of the budget used) -> parts of the loss, each a
            mean over the examples; called on one worker's share of a batch.
        examples: how many there are. Each epoch goes through all of them in another order.
        settings: what a checkpoint must share with the training that resumes it; JSON-serialisable.
        peak_lr: highest learning rate of AdamW, reached after a warm-up.
        workers: threads that take a share of each batch; ``None``: one per core, and one for a GPU.
        validate: told the averaged network now and then; what it returns is logged.

    Returns:
        Seconds used so far, parts of a resumed training counted in.

    Raises:
        UsageError: no examples, or a checkpoint of other settings.
        VerismError: the loss stays infinite.
    """
    torch = require("torch", extra="train", purpose=_PURPOSE)
    require("safetensors", extra="train", purpose=_PURPOSE)
    if examples < 1:
        raise UsageError("there is nothing to learn from; render some scenes with `verism scenes render`")
    target = torch.device("cuda" if device == "auto" and torch.cuda.is_available() else device.replace("auto", "cpu"))
    if workers is None:
        workers = torch.get_num_threads() if target.type == "cpu" else 1
    workers = max(1, min(workers, batch_size))
    channels_last(network).to(target)
    parameters = list(network.parameters())
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
            {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
        ],
        lr=peak_lr,
        betas=(0.9, 0.98),
        fused=True,
    )
    average = {name: value.detach().clone() for name, value in network.state_dict().items()}
    settings = json.loads(json.dumps(dict(settings)))
    step, before = 0, 0.0
    if resume and checkpoint.is_file():
        step, before = _load(checkpoint, settings, network, average, optimizer)
    replicas = [network, *(replica_of(network) for _ in range(workers - 1))]
    start = time.monotonic()

    def used() -> float:
        return before + time.monotonic() - start

    def save() -> None:
        write_checkpoint(checkpoint, settings, state_tensors(network, average, optimizer), step=step, seconds=used())

    def tell(**line: Any) -> None:
        if log is not None:
            log(line)

    def try_average() -> None:
        if validate is None:
            return
        trial = copy.deepcopy(network)
        trial.load_state_dict(average)
        with torch.inference_mode():
            tell(event="validate", step=step, elapsed_s=round(used(), 1), **validate(trial.eval()))

    def share_of_step(worker: int) -> tuple[dict[str, float], Any]:
        mine = indices[worker::workers]
        rng = np.random.default_rng([seed, 1, step, worker])
        parts = loss(replicas[worker], mine, rng, done)
        total = torch.stack(list(parts.values())).sum()
        gradients = torch.autograd.grad(total, parameters, allow_unused=True)
        return {name: float(part.detach()) for name, part in parts.items()}, gradients

    tell(event="start", step=step, examples=examples, elapsed_s=round(used(), 1), **settings)
    last = {"log": used(), "save": used(), "validate": used()}
    last_step, bad = step, 0
    sums: dict[str, float] = {}
    order, epoch = np.zeros(0, dtype=np.int64), -1
    warm_up = max(1, min(200, budget.steps // 20 if budget.steps else 200))
    threads_before = torch.get_num_threads()
    if target.type == "cpu":
        torch.set_num_threads(1)
    for replica in replicas:
        replica.train()
    pool = ThreadPoolExecutor(workers)
    try:
        while (done := budget.share(step, used())) < 1:
            lr = peak_lr * min(1.0, (step + 1) / warm_up) * (0.5 * (1 + math.cos(math.pi * done)) * 0.99 + 0.01)
            for group in optimizer.param_groups:
                group["lr"] = lr
            chosen = []
            for position in range(step * batch_size, (step + 1) * batch_size):
                if position // examples != epoch:
                    epoch = position // examples
                    order = np.random.default_rng([seed, examples, epoch]).permutation(examples)
                chosen.append(int(order[position % examples]))
            indices = np.array(chosen)
            results = list(pool.map(share_of_step, range(workers)))
            for i, parameter in enumerate(parameters):
                # Fused AdamW walks through raw memory: a gradient laid out unlike its parameter would be applied to the
                # wrong weights, without an error.
                given = [g[i] for _, g in results if g[i] is not None]
                parameter.grad = torch.empty_like(parameter).copy_(sum(given) / workers) if given else None
            norm = float(torch.nn.utils.clip_grad_norm_(parameters, 1.0))
            parts = {name: sum(p[name] for p, _ in results) / workers for name in results[0][0]}
            if math.isfinite(sum(parts.values())) and math.isfinite(norm):
                optimizer.step()
                bad = 0
                for name, number in (*parts.items(), ("n", 1.0)):
                    sums[name] = sums.get(name, 0.0) + number
            else:
                bad += 1
                if bad >= 20:
                    raise VerismError(f"the loss is not finite for 20 steps, at step {step}; lower the learning rate")
            # Early averages forget fast, or the random start would linger.
            lerp(average, network.state_dict(), 1 - min(_EMA, (1 + step) / (10 + step)))
            step += 1
            now = used()
            if now - last["log"] >= log_every_s or budget.share(step, now) >= 1:
                rate = (step - last_step) * batch_size / max(now - last["log"], 1e-9)
                means = {name: round(v / max(sums.get("n", 0), 1), 4) for name, v in sums.items() if name != "n"}
                tell(
                    event="train", step=step, epoch=round(step * batch_size / examples, 2), elapsed_s=round(now, 1),
                    examples_per_s=round(rate, 1), lr=round(lr, 7), done=round(budget.share(step, now), 4), loss=means,
                )  # fmt: skip
                last["log"], last_step = now, step
                sums.clear()
            if now - last["save"] >= checkpoint_every_s:
                save()
                last["save"] = used()
            if now - last["validate"] >= validate_every_s:
                try_average()
                last["validate"] = used()
        save()
        try_average()
        tell(event="end", step=step, elapsed_s=round(used(), 1))
    except KeyboardInterrupt:
        save()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads_before)
    return used()


def replica_of(network: Any) -> Any:
    """The same parameters, with buffers of its own, so that two threads never write to one tensor."""
    twin = copy.deepcopy(network)
    for mine, theirs in zip(network.modules(), twin.modules(), strict=True):
        theirs._parameters.update(mine._parameters)
    return twin


def channels_last(network: Any) -> Any:
    """Weights laid out as convolutions in bfloat16 want them."""
    import torch

    for parameter in network.parameters():
        if parameter.ndim == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    return network


def lerp(average: dict[str, torch.Tensor], new: Mapping[str, torch.Tensor], share: float) -> None:
    """Move the averaged weights a share of the way to the new ones; whole numbers are copied."""
    import torch

    with torch.no_grad():
        floating = [name for name, value in average.items() if value.is_floating_point()]
        torch._foreach_lerp_([average[n] for n in floating], [new[n] for n in floating], share)
        for name, value in average.items():
            if not value.is_floating_point():
                value.copy_(new[name])


# --------------------------------------------------------------------------------------------------------------------
# Checkpoints: safetensors, written whole or not at all
# --------------------------------------------------------------------------------------------------------------------
def write_checkpoint(
    path: Path, settings: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], **numbers: float
) -> None:
    """A safetensors file with settings (JSON) and numbers in its metadata."""
    from safetensors.torch import save_file

    meta = {"settings": json.dumps(settings)} | {name: str(number) for name, number in numbers.items()}
    with whole_file(path) as partial:
        save_file(dict(tensors), partial, metadata=meta)


def read_checkpoint(path: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor], dict[str, str]]:
    """Settings, tensors and metadata (``step``, seconds) of a checkpoint.

    Raises:
        UsageError: there is none, or it is none of ours.
    """
    require("safetensors", extra="train", purpose=_PURPOSE)
    from safetensors import safe_open

    if not path.is_file():
        raise UsageError(f"there is no checkpoint {path}; train one first")
    with safe_open(path, framework="pt") as file:
        meta = file.metadata() or {}
        if "settings" not in meta:
            raise UsageError(f"{path} is not a checkpoint of a training of verism")
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a mapping
    return json.loads(meta["settings"]), tensors, meta


def averaged_weights(path: Path) -> dict[str, torch.Tensor]:
    """The averaged weights of a checkpoint: what is to be used."""
    return under(read_checkpoint(path)[1], "average.")


def state_tensors(
    network: torch.nn.Module, average: Mapping[str, torch.Tensor], optimizer: torch.optim.Optimizer
) -> dict[str, torch.Tensor]:
    """What a checkpoint holds: ``network.*``, ``average.*`` and ``optimizer.*``."""
    tensors = {f"network.{k}": v for k, v in network.state_dict().items()}
    tensors |= {f"average.{k}": v for k, v in average.items()}
    for i, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{i}.{k}": v for k, v in state.items()}
    return {k: v.detach().cpu().contiguous() for k, v in tensors.items()}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, torch.Tensor]) -> None:
    """Put the ``optimizer.*`` tensors of a checkpoint back."""
    import torch

    weights = [p for group in optimizer.param_groups for p in group["params"]]
    states: dict[int, dict[str, torch.Tensor]] = {}
    for name, value in under(tensors, "optimizer.").items():
        number, _, key = name.partition(".")
        # In the memory layout of the weights, as the file holds none and fused AdamW walks through raw memory.
        laid_out = torch.empty_like(weights[int(number)]).copy_(value) if value.ndim else value
        states.setdefault(int(number), {})[key] = laid_out
    optimizer.load_state_dict({"state": states, "param_groups": optimizer.state_dict()["param_groups"]})


def under(tensors: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """Those tensors whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _load(
    path: Path,
    settings: Mapping[str, Any],
    network: torch.nn.Module,
    average: dict[str, torch.Tensor],
    optimizer: torch.optim.Optimizer,
) -> tuple[int, float]:
    """Put everything back in place; returns the step and the seconds used so far."""
    saved, tensors, meta = read_checkpoint(path)
    if saved != settings:
        keys = sorted(k for k in {*saved, *settings} if saved.get(k) != settings.get(k))
        changed = "; ".join(f"{k} was {saved.get(k)}, now {settings.get(k)}" for k in keys)
        raise UsageError(f"{path} was trained with other settings ({changed}); use another folder, or start anew")
    network.load_state_dict(under(tensors, "network."))
    for name, value in under(tensors, "average.").items():
        average[name].copy_(value)
    restore_optimizer(optimizer, tensors)
    return int(meta["step"]), float(meta["seconds"])
