"""The training loop: steps until the length is reached, with a log, checkpoints, validation, and an average.

What a step does is the learner's business: ``_replicas.NetworkLearner`` for our own networks, and
``_finetuning_learner.FinetuneLearner`` for diffusers models.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from verism.errors import UsageError, VerismError
from verism.training._checkpoints import TrainingState, average_towards, load_state, save_state
from verism.training.settings import TrainConfig

__all__ = ["ExampleOrder", "Hooks", "Learner", "Log", "fit", "log_to"]

Log = Callable[[Mapping[str, Any]], None]

_HOPELESS = 20  # steps in a row without a finite loss, after which waiting is of no use


class Learner(Protocol):
    """What is trained, and what one step of it does.

    Attributes:
        state: everything that a checkpoint holds.
        n_examples: images in one epoch; may change during the training.
    """

    state: TrainingState
    n_examples: int

    def running(self) -> AbstractContextManager[None]:
        """Threads and the like, from the moment the checkpoint is loaded to the end."""
        ...

    def update(self, lr: float, done: float) -> Mapping[str, float] | None:
        """One step of the optimizer.

        Args:
            lr: learning rate.
            done: share of the training that is done, in [0, 1).

        Returns:
            Parts of the loss; None where they, or the gradient, are not finite and the weights stay as they are.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """What a training calls now and then.

    Attributes:
        log: receives every line of the log: ``event`` (``start``, ``train``, ``validate``, ``stopped``, ``end``),
            ``step``, ``elapsed_s`` and the event's own data.
        validate: measures what has been learnt so far; what it returns is logged.
        refresh: looks for new examples, and returns how many there are now.
        about: more for the log's first line.
    """

    log: Log | None = None
    validate: Callable[[], Mapping[str, Any]] | None = None
    refresh: Callable[[], int] | None = None
    about: Mapping[str, Any] = field(default_factory=dict)


class ExampleOrder:
    """Which example comes when: every epoch goes through all of them in an order of its own.

    Args:
        seed: decides the orders.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._key = (-1, -1)
        self._order = np.zeros(0, dtype=np.int64)

    def index(self, position: int, n: int) -> int:
        """Index of an example, in [0, n).

        Args:
            position: position of the example in the whole training.
            n: examples in an epoch.
        """
        key = (n, position // n)
        if key != self._key:
            self._order, self._key = np.random.default_rng([self.seed, *key]).permutation(n), key
        return int(self._order[position % n])


def log_to(path: Path, then: Log | None = None) -> Log:
    """A log that writes JSON lines into a file; a training from the first step starts the file anew.

    Args:
        path: the file.
        then: another log, which receives each line after the file has it.
    """

    def write(line: Mapping[str, Any]) -> None:
        fresh = line["event"] == "start" and not line["step"]
        with path.open("w" if fresh else "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        if then is not None:
            then(line)

    return write


def fit(
    learner: Learner, config: TrainConfig, hooks: Hooks, *, checkpoint: Path, settings: Mapping[str, Any]
) -> TrainingState:
    """Train until the steps are done or the time is up, whichever is first.

    The learning rate falls along the share of steps done or of time used, whichever is larger, so a training with a
    time limit ends well on a machine of any speed. With steps alone, a seed gives the same batches anywhere. A training
    that was stopped goes on from its checkpoint, and a finished one with a larger length. The first SIGINT or SIGTERM
    ends the training after the step under way, with a checkpoint; the second at once.

    Args:
        learner: what is trained.
        config: how long, how fast, how often.
        hooks: what is called now and then.
        checkpoint: file to go on from and to write; its folder is made if missing.
        settings: what a training that goes on must share, JSON-serialisable.

    Returns:
        The state at the end.

    Raises:
        UsageError: neither steps nor minutes given, no examples, or a checkpoint of other settings.
        VerismError: the loss stays infinite.
        KeyboardInterrupt: it was stopped by SIGINT.
        SystemExit: it was stopped by SIGTERM.
    """
    return _Loop(learner, config, hooks, checkpoint, settings).run()


class _Loop:
    """One call of ``fit``."""

    def __init__(
        self, learner: Learner, config: TrainConfig, hooks: Hooks, checkpoint: Path, settings: Mapping[str, Any]
    ) -> None:
        config.check_length()
        if learner.n_examples < 1:
            raise UsageError("there is no image to learn from; render some with `verism scenes render`")
        self.learner, self.config, self.hooks = learner, config, hooks
        self.checkpoint, self.settings = checkpoint, settings
        self.state = learner.state
        if config.resume and checkpoint.is_file():
            load_state(checkpoint, self.state, settings)
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        self.before, self.started = self.state.elapsed_s, time.monotonic()
        self.last: dict[str, float] = {}
        self.last_line = self.before
        self.sums: dict[str, float] = {}
        self.steps_summed = 0
        self.step_logged = self.state.step

    @property
    def elapsed_s(self) -> float:
        return self.before + time.monotonic() - self.started

    @property
    def done(self) -> float:
        return self.config.share_done(self.state.step, self.elapsed_s)

    def run(self) -> TrainingState:
        config, hooks, state = self.config, self.hooks, self.state
        assert config.lr is not None  # trainers that choose it themselves have done so
        self.log(
            "start", steps=config.steps, minutes=config.minutes, examples=self.learner.n_examples,
            parameters=self._parameters(), settings=dict(self.settings), **hooks.about,
        )  # fmt: skip
        self.last = dict.fromkeys(("log", "checkpoint", "validate", "refresh"), self.elapsed_s)
        bad = 0
        with _stop_signal() as stop, self.learner.running():
            while not stop and (done := self.done) < 1:
                lr = config.lr * config.lr_factor(state.step, done)
                parts = self.learner.update(lr, done)
                if state.average and config.ema_decay is not None:
                    # Early averages forget fast, or the start would linger.
                    decay = min(config.ema_decay, (1 + state.step) / (10 + state.step))
                    average_towards(state.average, state.weights, 1 - decay)
                state.step += 1
                bad = bad + 1 if parts is None else 0
                if bad >= _HOPELESS:
                    raise VerismError(f"the loss is not finite for {bad} steps, at step {state.step}; lower lr")
                for name, value in (parts or {}).items():
                    self.sums[name] = self.sums.get(name, 0.0) + value
                self.steps_summed += parts is not None
                if self._due("log", config.log_every_s) or stop or self.done >= 1:
                    self._log_losses(lr)
                if stop:
                    break
                if self._due("checkpoint", config.checkpoint_every_s):
                    self.save()
                if hooks.validate is not None and self._due("validate", config.validate_every_s):
                    self.log("validate", **hooks.validate())
                if hooks.refresh is not None and self._due("refresh", config.refresh_every_s):
                    self.learner.n_examples = hooks.refresh()
            self.save()
        if stop:
            self.log("stopped")
            raise KeyboardInterrupt if stop[0] == signal.SIGINT else SystemExit(128 + stop[0])
        if hooks.validate is not None:
            self.log("validate", **hooks.validate())
        self.log("end")
        return state

    def save(self) -> None:
        self.state.elapsed_s = self.elapsed_s
        save_state(self.checkpoint, self.state, self.settings)

    def log(self, event: str, **data: Any) -> None:
        if self.hooks.log is not None:
            self.hooks.log({"event": event, "step": self.state.step, "elapsed_s": round(self.elapsed_s, 1), **data})

    def _due(self, what: str, every_s: float) -> bool:
        """Whether it is time for something again; if so, the clock starts anew."""
        now = self.elapsed_s
        if now - self.last[what] < every_s:
            return False
        self.last[what] = now
        return True

    def _log_losses(self, lr: float) -> None:
        now, done, n = self.elapsed_s, self.done, self.steps_summed
        per_step, parts = self.config.examples_per_step, {}
        if len(self.sums) > 1:
            parts["loss_parts"] = {name: round(value / n, 6) for name, value in self.sums.items()}
        seconds = max(now - self.last_line, 1e-9)
        self.log(
            "train", loss=round(sum(self.sums.values()) / n, 6) if n else None, lr=lr,
            epoch=round(self.state.step * per_step / self.learner.n_examples, 3),
            images_per_s=round((self.state.step - self.step_logged) * per_step / seconds, 2), done=round(done, 4),
            remaining_s=round(now / done - now) if done else None, **parts,
        )  # fmt: skip
        self.last_line, self.step_logged = now, self.state.step
        self.sums.clear()
        self.steps_summed = 0

    def _parameters(self) -> int:
        return sum(self.state.weights[name].numel() for name in self.state.optimized)


@contextmanager
def _stop_signal() -> Iterator[list[int]]:
    """A list that receives the number of the first signal to stop; the second signal acts as usual."""
    stop: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # only there may Python set handlers
        yield stop
        return
    usual: dict[int, Any] = {}

    def receive(number: int, _frame: Any) -> None:
        stop.append(number)
        for each, handler in usual.items():
            signal.signal(each, handler)

    for each in (signal.SIGINT, signal.SIGTERM):
        usual[each] = signal.getsignal(each) or signal.SIG_DFL
        signal.signal(each, receive)
    try:
        yield stop
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
