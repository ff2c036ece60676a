"""A model evaluated while it is trained: every so many steps the same prompts and seeds, and what has changed.

>>> evaluator = CheckpointEvaluator("paintskills", out="evaluations", every=1000, limit=60)     # doctest: +SKIP
>>> for step in range(1, 10_001):                                                               # doctest: +SKIP
...     train_one_step()
...     if evaluator.is_due(step):
...         print(evaluator.evaluate(step, generate).summary())  # generate(prompt, seed) -> image

No training library is imported here; ``examples/training`` has callbacks for two of them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from verism import api
from verism.errors import UsageError, VerismError
from verism.files import read_json, write_json
from verism.generators.function import FunctionGenerator
from verism.locations import location, remove_tree
from verism.pipeline.comparison import Difference
from verism.records import Judge, Score
from verism.report_kit.comparability import Comparability
from verism.report_kit.words import UNDEFINED
from verism.store import slug
from verism.suites.base import Suite
from verism.suites.catalogue import presentation_of
from verism.trackers import Evaluation, OnScores, close_trackers
from verism.trackers.hooks import hooks_of

if TYPE_CHECKING:
    import polars as pl

__all__ = ["CheckpointEvaluation", "CheckpointEvaluator", "sparkline"]

FORMAT, VERSION = "verism-checkpoint-evaluations", 1
HISTORY = "history.json"
BARS = "▁▂▃▄▅▆▇█"
# Options that change neither images nor what numbers mean: a history goes on with others.
_OF_MACHINES = {f.name for f in fields(api.RunOptions)} - {"threshold", "shuffle", "size", "assets", "metrics"}


def sparkline(values: Sequence[float]) -> str:
    """Numbers as a line of bars, from the lowest to the highest of them; undefined ones are gaps.

    >>> sparkline([0.1, 0.2, float("nan"), 0.5])
    '▁▃ █'

    Args:
        values: the numbers, in order.
    """
    finite = [v for v in values if math.isfinite(v)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    if high == low:
        return "".join(BARS[3] if math.isfinite(v) else " " for v in values)
    top = len(BARS) - 1
    return "".join(BARS[round((v - low) / (high - low) * top)] if math.isfinite(v) else " " for v in values)


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckpointEvaluation:
    """What one evaluation found.

    Attributes:
        run: the run.
        step: optimizer steps the model was trained for.
        checkpoint: name of the checkpoint; empty if it has none.
        score: the number that checkpoints are ranked by.
        against_last: differences from the evaluation before, this one minus that; empty for the first. Those
            that are not comparable, as where fewer images can be used, have ``reasons``.
        against_best: differences from the best evaluation before, likewise.
        last_step: step of the evaluation before; None for the first.
        best_step: step of the best evaluation before; None for the first.
        line: all evaluations up to this one as a line of bars.
        is_best: whether no evaluation before has a better score, see ``CheckpointEvaluator.best``.
    """

    run: api.Run
    step: int
    checkpoint: str
    score: Score
    against_last: tuple[Difference, ...]
    against_best: tuple[Difference, ...]
    last_step: int | None
    best_step: int | None
    line: str
    is_best: bool

    def summary(self) -> str:
        """A line or two for a log: score with interval, bars by step, and what changed beyond luck."""
        s = self.score
        text = (
            f"step {self.step}: {s.metric} {_number(s.value)} [{_number(s.ci_low)}, {_number(s.ci_high)}]  {self.line}"
        )
        if s.n_unusable:
            text += f"  ({s.n_unusable:,} of {s.n_used + s.n_unusable:,} unusable)"
        for name, step, rows in (
            ("last", self.last_step, self.against_last),
            ("best", self.best_step, self.against_best),
        ):
            if rows and (name == "last" or step != self.last_step):
                d = rows[0]
                change = f"{d.difference:+.4f} [{d.ci_low:+.4f}, {d.ci_high:+.4f}], p = {d.p_value:.3g}"
                text += f"\n  against the {name} (step {step}): "
                text += f"not comparable, {'; '.join(d.reasons)}" if d.reasons else change
        return text


class CheckpointEvaluator:
    """Evaluates a model every so many steps, with the same prompts and seeds each time.

    The folder has a run directory for each step and a history; another evaluator with the same folder goes on. An
    evaluation that was interrupted starts anew: images of two states of the weights are never mixed.
    """

    def __init__(
        self,
        suite: str | Suite,
        *,
        out: str | Path,
        every: int = 1000,
        name: str = "training",
        metric: str = "",
        judges: Mapping[str, str | Judge] | None = None,
        on_scores: OnScores | Sequence[OnScores] | None = None,
        **options: Any,
    ) -> None:
        """An evaluator; nothing is generated yet.

        Args:
            suite: name of a suite, or a suite.
            out: folder of the evaluations, new or to go on with.
            every: evaluations are due at steps that are multiples of it, at least 1.
            name: what the model is called in runs and by trackers.
            metric: headline metric by which the best checkpoint is chosen; empty: the suite's first.
            judges: judges by role, loaded once if they are objects; as in ``verism.evaluate``.
            on_scores: functions and trackers, told of each evaluation with its step and checkpoint.
            **options: of ``verism.evaluate``: options of the suite, ``rules``, fields of ``RunOptions``.

        Raises:
            UsageError: the folder holds evaluations of another suite or with other options, or ``every`` is below 1.
        """
        if every < 1:
            raise UsageError(f"every is a number of steps, at least 1; got {every}")
        self.suite, self.out, self.every, self.name, self.metric = suite, location(out), every, name, metric
        self._judges, self._hooks, self._options = dict(judges or {}), hooks_of(on_scores), dict(options)
        self._history = self._read()

    # ----------------------------------------------------------------------------------------------------- history
    def _settings(self) -> dict[str, Any]:
        suite = self.suite if isinstance(self.suite, str) else self.suite.name
        judges = {role: judge if isinstance(judge, str) else judge.name for role, judge in self._judges.items()}
        deciding = {k: _plain(v) for k, v in sorted(self._options.items()) if k not in _OF_MACHINES}
        return {"suite": suite, "name": self.name, "judges": judges, "options": deciding}

    def _read(self) -> dict[int, str]:
        file = self.out / HISTORY
        if not file.exists():
            if self.out.exists() and (not self.out.is_dir() or any(self.out.iterdir())):
                raise UsageError(f"{self.out} exists and holds no evaluations of checkpoints; choose another out")
            return {}
        record = read_json(file, "a history of evaluations")
        try:
            if record["format"] != FORMAT or record["version"] != VERSION:
                raise KeyError(record["format"])
            settings, evaluations = record["settings"], record["evaluations"]
            history = {int(entry["step"]): str(entry["checkpoint"]) for entry in evaluations}
        except (KeyError, TypeError, ValueError) as err:
            raise UsageError(f"{file} was not written by CheckpointEvaluator: {err!r}") from None
        if settings != self._settings():
            changed = [k for k, v in self._settings().items() if settings.get(k) != v]
            raise UsageError(
                f"{self.out} has evaluations with another {' and '.join(changed)}: {settings}; numbers of one folder "
                "are compared with each other. Use the same settings, or another out"
            )
        return history

    def _write(self) -> None:
        evaluations = [{"step": step, "checkpoint": self._history[step]} for step in self.steps]
        record = {"format": FORMAT, "version": VERSION, "settings": self._settings(), "evaluations": evaluations}
        write_json(self.out / HISTORY, record)

    @property
    def steps(self) -> list[int]:
        """Steps that were evaluated, rising."""
        return sorted(self._history)

    def path(self, step: int) -> Path:
        """The run directory of a step.

        Args:
            step: optimizer steps.
        """
        return self.out / f"{slug(self.name)}-{step:08d}"

    def run(self, step: int) -> api.Run:
        """The run of a step that was evaluated.

        Args:
            step: optimizer steps.

        Raises:
            UsageError: it was not.
        """
        if step not in self._history:
            raise UsageError(f"step {step} was not evaluated; steps are {', '.join(map(str, self.steps)) or 'none'}")
        return api.open_run(self.path(step))

    def score(self, step: int) -> Score:
        """The score of a step that checkpoints are ranked by.

        Args:
            step: optimizer steps.

        Raises:
            UsageError: it was not evaluated, or the suite has no such headline metric.
        """
        headlines = self.run(step).headlines()
        named = [s for s in headlines if not s.group and self.metric in ("", s.metric)]
        if not named:
            known = ", ".join(dict.fromkeys(s.metric for s in headlines if not s.group)) or "none"
            raise UsageError(f"no headline metric {self.metric!r} over all images; there are {known}")
        return named[0]

    @property
    def best(self) -> int | None:
        """The step with the best score, the earliest of equal ones; None before the first.

        Passed over are steps with a smaller share of usable images (or answered questions) than the step with the
        largest, by more than 5 points and more than chance: what is missing is seldom of average difficulty. Of a
        metric without a direction, it is the last step that remains.
        """
        return self._best(self.steps)

    def _best(self, steps: Sequence[int]) -> int | None:
        scores = {step: self.score(step) for step in steps}
        usable = [step for step, s in scores.items() if not math.isnan(s.value)]
        if not usable:
            return None
        most = max(usable, key=lambda step: (_share_used(scores[step]), -step))
        usable = [step for step in usable if step == most or not self._answers_apart(most, step, scores[step])]
        better = scores[usable[0]].higher_is_better
        if better is None:
            return usable[-1]
        return min(usable, key=lambda step: (-scores[step].value if better else scores[step].value, step))

    def _answers_apart(self, a: int, b: int, score: Score) -> bool:
        """Whether two steps differ in how much of what was asked was answered, by more than chance explains."""
        runs = self.run(a), self.run(b)
        check = Comparability(*runs, (presentation_of(runs[0]), presentation_of(runs[1])))
        return bool(check.usable_answers(score.metric, score.protocol, score.group))

    def frame(self) -> pl.DataFrame:
        """All headline scores of all steps: ``step``, ``checkpoint`` and the columns of ``Run.frame``."""
        import polars as pl

        tables = []
        for step in self.steps:
            table = self.run(step).frame()
            columns = [pl.lit(step).alias("step"), pl.lit(self._history[step]).alias("checkpoint")]
            tables.append(table.select(*columns, pl.all()))
        return pl.concat(tables, how="diagonal_relaxed") if tables else pl.DataFrame()

    def sparkline(self) -> str:
        """The scores of all steps as a line of bars."""
        return sparkline([self.score(step).value for step in self.steps])

    def compare(self, a: int, b: int) -> list[Difference]:
        """Step ``b`` minus step ``a``, paired image by image where the suite decides so.

        Args:
            a: a step that was evaluated.
            b: another one.
        """
        return api.compare(self.run(a), self.run(b))

    # -------------------------------------------------------------------------------------------------- evaluating
    def is_due(self, step: int) -> bool:
        """Whether a step is a multiple of ``every`` above 0, and was not evaluated yet.

        Args:
            step: optimizer steps.
        """
        return step > 0 and step % self.every == 0 and step not in self._history

    def evaluate(
        self, step: int, generate: Callable[..., Any], *, checkpoint: str = "", replace: bool = False
    ) -> CheckpointEvaluation:
        """Evaluate the model as it is now, whether or not the step is due.

        Args:
            step: optimizer steps it was trained for, at least 0.
            generate: takes a prompt and a seed and returns an image; see ``verism.generators.function``.
            checkpoint: name of the checkpoint.
            replace: whether an earlier evaluation of the step, from before a restart, is thrown away. Otherwise it
                is given back, and nothing is generated.

        Raises:
            UsageError: what ``verism.evaluate`` refuses. VerismError: what stops it.
        """
        if step < 0:
            raise UsageError(f"a step is a number of optimizer steps, at least 0; got {step}")
        path = self.path(step)
        if replace:
            self._history.pop(step, None)
            self._write()
        if step not in self._history:
            if path.exists():
                remove_tree(path)  # interrupted: its images are of weights that are gone
            self._write()

            def keep(evaluation: Evaluation) -> None:  # before others are told, of whom one may raise
                self._history[step] = evaluation.checkpoint
                self._write()

            api.evaluate(
                self.suite,
                model=FunctionGenerator(generate, name=f"python:{self.name}"),
                out=path,
                judges=self._judges,
                step=step,
                checkpoint=checkpoint,
                tracked_as=self.name,
                on_scores=[keep, *self._hooks],
                **self._options,
            )
        return self._found(step)

    def _found(self, step: int) -> CheckpointEvaluation:
        before = [other for other in self.steps if other < step]
        last, best = (before[-1] if before else None), self._best(before)
        score = self.score(step)
        return CheckpointEvaluation(
            run=self.run(step),
            step=step,
            checkpoint=self._history[step],
            score=score,
            against_last=self._against(last, step, score),
            against_best=self._against(best, step, score),
            last_step=last,
            best_step=best,
            line=sparkline([self.score(s).value for s in [*before, step]]),
            is_best=self._best([*before, step]) == step,
        )

    def _against(self, base: int | None, step: int, score: Score) -> tuple[Difference, ...]:
        """Differences, that of the score in question first; empty where nothing can be compared."""
        if base is None:
            return ()
        try:
            rows = api.compare(self.run(base), self.run(step), anyway=True, names=(f"step {base}", f"step {step}"))
        except VerismError:  # no image of one of them can be used
            return ()
        return tuple(sorted(rows, key=lambda d: (bool(d.group), d.metric != score.metric)))

    def close(self) -> None:
        """Close trackers, at the end of the training."""
        close_trackers(self._hooks, lambda line: print(f"verism: {line}", file=sys.stderr))


def _plain(value: Any) -> Any:
    """An option as JSON keeps it; objects by their names."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, Sequence | set | frozenset):
        return [_plain(v) for v in value]
    return str(getattr(value, "name", None) or type(value).__qualname__)


def _share_used(score: Score) -> float:
    """Share of the images that a score could use, in [0, 1]."""
    return score.n_used / max(score.n_used + score.n_unusable, 1)


def _number(value: float) -> str:
    return UNDEFINED if math.isnan(value) else f"{value:.4f}"
