"""One step of a small network: every worker takes its share of the batch, on a core of its own.

Cores that share every single convolution wait for each other hundreds of times per step, and come to a stand when other
programs run too. A GPU does all of the batch, and the cores prepare the next ones for it meanwhile.
"""

from __future__ import annotations

import copy
import itertools
import math
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.errors import require
from verism.inference import pick_device
from verism.training._checkpoints import TrainingState
from verism.training.loop import ExampleOrder
from verism.training.settings import NetworkConfig

if TYPE_CHECKING:
    import torch

__all__ = ["Loss", "NetworkLearner", "autocast", "averaged_network", "channels_last", "replica_of"]

Loss = Callable[..., "Mapping[str, torch.Tensor]"]
"""(network, what a ``Prepare`` made) to parts of the loss, each a mean over the examples; called on one worker's share
of a batch. If there is no ``Prepare``: (network, indices of examples, random numbers, share of the training done)."""

Prepare = Callable[[np.ndarray, np.random.Generator, float], tuple[Any, ...]]
"""From (indices of examples, random numbers, share of the training done) to a batch in the CPU's memory."""

_AHEAD = 4  # batches that a process prepares before they are asked for


@dataclass(frozen=True)
class _Step:
    """What decides the batch of a step, or a worker's share of it."""

    indices: np.ndarray
    seed: tuple[int, ...]
    done: float


class _Batches:
    """What the processes of a ``DataLoader`` run.

    Args:
        prepare: makes the batches.
    """

    def __init__(self, prepare: Prepare) -> None:
        self.prepare = prepare

    def __getitem__(self, step: _Step) -> tuple[Any, ...]:
        return self.prepare(step.indices, np.random.default_rng(step.seed), step.done)


class NetworkLearner:
    """A network, and what one step of it does; see ``loop.Learner``.

    Args:
        kind: what is trained, see ``TrainingState``.
        network: trained in place, on the device of ``config``.
        loss: of some examples.
        n_examples: images in one epoch.
        config: batch, optimizer, device, workers.
        prepare: makes the batches of which ``loss`` is asked; None: it is asked of the indices.
    """

    def __init__(
        self, kind: str, network: torch.nn.Module, loss: Loss, n_examples: int, config: NetworkConfig,
        *, prepare: Prepare | None = None,
    ) -> None:  # fmt: skip
        torch = require("torch", extra="train", purpose=f"{kind} training")
        self.network, self.loss, self.n_examples, self.config = network, loss, n_examples, config
        self.device = pick_device(config.device, extra="train", purpose=f"{kind} training")
        on_cpu = self.device.type == "cpu"
        cores = config.workers or (torch.get_num_threads() if on_cpu else os.cpu_count() or 1)
        self.workers = max(1, min(cores, config.batch_size // config.smallest_share)) if on_cpu else 1
        self.prepare: Prepare = prepare or (lambda *batch: batch)
        # A forked process has the examples as they are; where there is none, they would be copied to each.
        ahead = prepare is not None and self.device.type == "cuda" and "fork" in multiprocessing.get_all_start_methods()
        self._processes = cores if ahead else 0
        self._prepared: tuple[int, Iterator[tuple[Any, ...]]] | None = None
        channels_last(network).to(self.device)
        named = {name: parameter for name, parameter in network.named_parameters() if parameter.requires_grad}
        self.parameters = list(named.values())
        # Biases and the weights of norms are not decayed.
        groups = [{n: p for n, p in named.items() if (p.ndim > 1) is decayed} for decayed in (True, False)]
        weights = network.state_dict()
        self.state = TrainingState(
            kind=kind,
            weights=weights,
            optimized=[name for group in groups for name in group],
            optimizer=torch.optim.AdamW(
                [
                    {"params": list(group.values()), "weight_decay": decay}
                    for group, decay in zip(groups, (config.weight_decay, 0.0), strict=True)
                ],
                lr=config.lr,
                betas=(0.9, config.beta2),
                fused=True,
            ),
            average={name: value.detach().clone() for name, value in weights.items()} if config.ema_decay else {},
        )
        self._order = ExampleOrder(config.seed)
        self._replicas: list[Any] = []
        self._pool: ThreadPoolExecutor | None = None
        self._done = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Replicas and their threads."""
        import torch

        self._replicas = [self.network, *(replica_of(self.network) for _ in range(self.workers - 1))]
        for replica in self._replicas:
            replica.train()
        threads = torch.get_num_threads()
        if self.device.type == "cpu":
            torch.set_num_threads(1)
        self._pool = ThreadPoolExecutor(self.workers)
        try:
            yield
        finally:
            self._pool.shutdown(cancel_futures=True)
            self._prepared = None
            torch.set_num_threads(threads)

    def update(self, lr: float, done: float) -> Mapping[str, float] | None:
        """One step of AdamW on the mean gradient of the workers; see ``loop.Learner``."""
        import torch

        assert self._pool is not None
        config, step, optimizer = self.config, self.state.step, self.state.optimizer
        for group in optimizer.param_groups:
            group["lr"] = lr
        self._done = done

        def share_of_step(worker: int) -> tuple[dict[str, float], Any]:
            parts = self.loss(self._replicas[worker], *self._batch(step, worker))
            total = torch.stack(list(parts.values())).sum()
            gradients = torch.autograd.grad(total, self.parameters, allow_unused=True)
            return {name: float(part.detach()) for name, part in parts.items()}, gradients

        results = list(self._pool.map(share_of_step, range(self.workers)))
        for i, parameter in enumerate(self.parameters):
            # Fused AdamW walks through raw memory: a gradient laid out unlike its parameter would be applied to the
            # wrong weights, without an error.
            shares = [gradients[i] for _, gradients in results if gradients[i] is not None]
            parameter.grad = torch.empty_like(parameter).copy_(sum(shares) / self.workers) if shares else None
        norm = float(torch.nn.utils.clip_grad_norm_(self.parameters, config.max_grad_norm))
        parts = {name: sum(p[name] for p, _ in results) / self.workers for name in results[0][0]}
        if not (math.isfinite(sum(parts.values())) and math.isfinite(norm)):
            return None
        optimizer.step()
        return parts

    def _step(self, step: int, worker: int) -> _Step:
        """A worker's share of a step that is under way or to come."""
        size = self.config.batch_size
        positions = range(step * size + worker, (step + 1) * size, self.workers)
        return _Step(
            indices=np.array([self._order.index(position, self.n_examples) for position in positions]),
            seed=(self.config.seed, 1, step, worker),
            done=max(self._done, self.config.share_done(step, 0.0)),
        )

    def _batch(self, step: int, worker: int) -> tuple[Any, ...]:
        if not self._processes:
            return _Batches(self.prepare)[self._step(step, worker)]
        if self._prepared is None or self._prepared[0] != self.n_examples:
            self._prepared = self.n_examples, self._prepared_from(step)
        return next(self._prepared[1])

    def _prepared_from(self, first: int) -> Iterator[tuple[Any, ...]]:
        """Batches of the steps from ``first`` on, made by processes of their own."""
        from torch.utils.data import DataLoader

        loader: DataLoader[Any] = DataLoader(
            _Batches(self.prepare),  # type: ignore[arg-type]
            batch_size=None, sampler=(self._step(step, 0) for step in itertools.count(first)),
            num_workers=self._processes, prefetch_factor=_AHEAD, multiprocessing_context="fork",
        )  # fmt: skip
        return iter(loader)


def autocast(device: str, *, enabled: bool = True) -> torch.autocast:
    """bfloat16 where the processor computes with it, and float32 where it would imitate it, many times slower.

    Args:
        device: type of the device: ``cpu``, ``cuda`` ...
        enabled: whether to do anything.
    """
    import torch

    # Builds without mkldnn (macOS) do not have the question, and imitate it.
    real = device != "cpu" or getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)()
    return torch.autocast(device, torch.bfloat16, enabled=enabled and real)


def averaged_network(learner: NetworkLearner) -> Any:
    """A copy of the network with the averaged weights, in evaluation mode."""
    trial = copy.deepcopy(learner.network)
    trial.load_state_dict(dict(learner.state.result))
    return trial.eval()


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
