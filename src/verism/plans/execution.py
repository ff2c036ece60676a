"""Running a plan: each model is loaded once and asked for all its suites, each judge is loaded once for all runs.

One pair that fails does not stop the others; it is kept with its reason, and the next call tries it again. Runs resume
where they stopped, so a killed plan goes on with the same command.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from multiprocessing.queues import Queue
from pathlib import Path, PurePath
from queue import Empty
from typing import Any, Literal, Protocol

from verism import api
from verism.errors import UsageError, VerismError
from verism.locations import is_remote, location
from verism.pipeline.ray_workers import RayCluster, RaySettings
from verism.pipeline.sharing import SharedImages
from verism.plans.plan import Pair, Plan
from verism.plans.status import keep_plan, keep_status, report_path, run_path, status_of
from verism.registry import ModelPool, make_tracker
from verism.store import Run
from verism.systems import end_with_parent
from verism.trackers import Evaluation, OnScores, close_trackers, tell_scores
from verism.trackers.hooks import hooks_of

__all__ = [
    "Check",
    "Executor",
    "LocalExecutor",
    "Outcome",
    "PairCheck",
    "RayExecutor",
    "Task",
    "Tracking",
    "check_plan",
    "run_plan",
    "run_task",
]

BYTES_PER_PIXEL = 2.0
"""Of images and their rows on the disk, generously: PNG files of photographs take 1.5 to 2 bytes a pixel."""

Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one call made of a pair.

    Attributes:
        pair: name of its run directory.
        model: name of the model in the plan.
        suite: name of the suite in the plan.
        state: ``done``; ``failed``; ``kept``: it was done before, and nothing was asked of it.
        path: its run directory.
        reason: of a failure, one line.
        seconds: time it took.
        failures: images without a usable result.
        remarks: lines about scores that could not be corrected, and about trackers that did not log it.
    """

    pair: str
    model: str
    suite: str
    state: Literal["done", "failed", "kept"]
    path: Path
    reason: str = ""
    seconds: float = 0.0
    failures: int = 0
    remarks: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """As plain JSON."""
        return {**asdict(self), "path": str(self.path), "remarks": list(self.remarks)}


@dataclass(frozen=True, kw_only=True)
class Tracking:
    """Who is told of the scores of a plan's runs.

    Attributes:
        track: names of trackers; each model has one of its own, and one run of it for all its suites.
        on_scores: functions and trackers, which stay in this process.
        step: optimizer steps the models were trained for; None if unknown.
        checkpoint: name of the checkpoint.
    """

    track: tuple[str, ...] = ()
    on_scores: tuple[OnScores, ...] = ()
    step: int | None = None
    checkpoint: str = ""


@dataclass(frozen=True, kw_only=True)
class Task:
    """All that one model is asked for; what an executor hands to a worker.

    Attributes:
        model: its name in the plan.
        pairs: its runs, in the order of the plan.
        out: the plan's directory.
        repeat: whether pairs that are done are scored again.
        reports: whether each run gets a report, to which boards link.
        tracking: who is told of their scores.
    """

    model: str
    pairs: tuple[Pair, ...]
    out: Path
    repeat: bool = False
    reports: bool = False
    tracking: Tracking = Tracking()


class Executor(Protocol):
    """Where tasks are worked off. ``run`` gives the outcomes as they come; a task's stay in order."""

    def run(self, tasks: Sequence[Task]) -> Iterator[Outcome]: ...


class LocalExecutor:
    """This machine: one model after the other in this process, or several at once in processes of their own."""

    def __init__(self, jobs: int = 1, *, tell: Tell | None = None) -> None:
        """An executor.

        Args:
            jobs: models at once, at least 1. Every further one holds a model and its judges in memory of its own.
            tell: called with lines about progress (only with one job).
        """
        if jobs < 1:
            raise UsageError(f"--jobs is at least 1, got {jobs}")
        self.jobs = jobs
        self.tell = tell

    def run(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        """Work off the tasks.

        Args:
            tasks: one for each model.
        """
        if self.jobs == 1 or len(tasks) < 2:
            with ModelPool() as pool:
                for task in tasks:
                    yield from run_task(task, pool, tell=self.tell)
                    pool.close_generators()
            return
        if objects := [pair for task in tasks for pair in task.pairs if not _travels(pair)]:
            raise UsageError(
                f"{objects[0].model} on {objects[0].column} has objects of Python, which other processes cannot have; "
                "name the model and the judges, or use one job"
            )
        if any(task.tracking.on_scores for task in tasks):
            raise UsageError("on_scores stays in this process: use one job, or name trackers by track")
        # Outcomes come through a queue, one by one: a model with many suites would be silent for long otherwise.
        context = get_context("spawn")
        coming: Queue[Outcome] = context.Queue()
        n_tasks = min(self.jobs, len(tasks))
        with ProcessPoolExecutor(n_tasks, context, initializer=_have_queue, initargs=(coming,)) as workers:
            waiting = [workers.submit(_in_process, task) for task in tasks]
            received, sent = 0, -1
            while received != sent:
                try:
                    yield coming.get(timeout=_POLL_S)
                    received += 1
                except Empty:
                    # A worker that died raises here; those that are done say how many outcomes they sent.
                    done = [future.result() for future in waiting if future.done()]
                    sent = sum(done) if len(done) == len(waiting) else -1


class RayExecutor:
    """A Ray cluster: one model after the other, each on all workers, which keep their judges from run to run."""

    def __init__(self, settings: RaySettings, *, tell: Tell | None = None) -> None:
        """An executor.

        Args:
            settings: where the cluster is, and how many workers there are.
            tell: called with lines about progress.
        """
        self.settings = settings
        self.tell = tell

    def run(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        """Work off the tasks.

        Args:
            tasks: one for each model.
        """
        with RayCluster(self.settings) as cluster, ModelPool() as pool:
            for task in tasks:
                yield from run_task(task, pool, tell=self.tell, cluster=cluster)
                cluster.release()


def _travels(pair: Pair) -> bool:
    judges = (*pair.judges.values(), *pair.usual_judges.values())
    return pair.instance is None and isinstance(pair.value, str | PurePath) and all(isinstance(j, str) for j in judges)


_POLL_S = 0.2
_POOL: list[ModelPool] = []  # of a worker process, for all its tasks
_QUEUE: list[Queue[Outcome]] = []  # of a worker process: where its outcomes go


def _have_queue(queue: Queue[Outcome]) -> None:
    end_with_parent()
    _QUEUE.append(queue)
    _POOL.append(ModelPool())


def _in_process(task: Task) -> int:
    """Work off a task in a worker process; its outcomes go into the queue. How many there were."""
    n = 0
    for outcome in run_task(task, _POOL[0]):
        _QUEUE[0].put(outcome)
        n += 1
    _POOL[0].close_generators()
    return n


def run_task(
    task: Task, pool: ModelPool, *, tell: Tell | None = None, cluster: RayCluster | None = None
) -> Iterator[Outcome]:
    """Run all pairs of one model.

    Args:
        task: the pairs.
        pool: generators and judges; what is loaded stays in it.
        tell: called with lines about progress.
        cluster: workers that do it; None: this process does.
    """
    shared = SharedImages()
    # Finished runs first: they are what the others can take images from.
    for pair in task.pairs:
        path = run_path(task.out, pair)
        if (path / "manifest.json").exists() and pair.source == "model":
            try:
                shared.add(Run.open(path))
            except VerismError:  # damaged: its own turn will tell
                continue
    opened = [make_tracker(name) for name in task.tracking.track]
    hooks = (*opened, *task.tracking.on_scores)
    try:
        for pair in task.pairs:
            yield _run_pair(task, pair, pool, shared, hooks, tell, cluster)
    finally:
        close_trackers(opened, tell or (lambda _: None))


def _run_pair(
    task: Task,
    pair: Pair,
    pool: ModelPool,
    shared: SharedImages,
    hooks: Sequence[OnScores],
    tell: Tell | None,
    cluster: RayCluster | None,
) -> Outcome:
    path = run_path(task.out, pair)

    def outcome(state: Literal["done", "failed", "kept"], **more: Any) -> Outcome:
        return Outcome(pair=pair.name, model=pair.model, suite=pair.column, state=state, path=path, **more)

    if not task.repeat and status_of(task.out, pair).state == "done":
        if task.reports and not report_path(path).is_file():
            api.report(path, out=report_path(path))
        return outcome("kept")
    if tell is not None:
        tell(f"{pair.model} on {pair.column} ...")
    keep_status(task.out, pair, "running")
    began = time.monotonic()
    failures: list[str] = []
    remarks: list[str] = []
    try:
        suite = pair.make_suite()
        asked = pair.arguments(suite)
        asked["run_options"] = replace(
            asked["run_options"],
            executor=cluster or "local",
            pool=pool,
            shared=shared,
            on_failure=failures.append,
            on_summary=lambda _: None,
        )
        run = api.evaluate(suite, out=path, **asked)
        if pair.correct and suite.has_estimands:
            try:
                api.score(run, correct=pair.correct)  # type: ignore[arg-type]  # one of its choices, by the plan
            except UsageError as err:
                remarks.append(f"not corrected: {err}")
        if task.reports:
            api.report(run, out=report_path(path))
    except (VerismError, OSError, ValueError, RuntimeError, MemoryError) as err:
        reason = str(err) if isinstance(err, VerismError) else f"{type(err).__name__}: {err}"
        seconds = time.monotonic() - began
        keep_status(task.out, pair, "failed", reason=reason, seconds=seconds)
        return outcome("failed", reason=reason, seconds=seconds)
    if pair.source == "model":
        shared.add(run)
    seconds = time.monotonic() - began
    keep_status(task.out, pair, "done", seconds=seconds)
    if hooks:
        step, checkpoint = task.tracking.step, task.tracking.checkpoint
        evaluation = Evaluation(run=run.pinned(), name=pair.model, step=step, checkpoint=checkpoint)
        tell_scores(hooks, evaluation, remarks.append)
    return outcome("done", seconds=seconds, failures=len(failures), remarks=tuple(remarks))


def run_plan(
    plan: Plan,
    out: Path | str,
    *,
    jobs: int = 1,
    executor: Executor | None = None,
    only: Sequence[str] = (),
    repeat: bool = False,
    reports: bool = False,
    tell: Tell | None = None,
    on_outcome: Callable[[Outcome], None] | None = None,
    track: Sequence[str] = (),
    on_scores: OnScores | Sequence[OnScores] | None = None,
    step: int | None = None,
    checkpoint: str = "",
) -> list[Outcome]:
    """Run every pair of a plan that is not done yet.

    Args:
        plan: the plan.
        out: its directory: ``runs/``, a run for each pair, and what has become of them.
        jobs: models at once.
        executor: where the work is done; None: this machine.
        only: models or suites of the plan; pairs of others are left for another call.
        repeat: whether pairs that are done are scored again.
        reports: whether each run gets a report in its directory, to which boards link.
        tell: called with lines about progress.
        on_outcome: called with every outcome as it comes.
        track: names of trackers (``mlflow:FOLDER`` ...) that log the runs done by this call; a model has one run of the
            tracker for all its suites. One that fails is told of in the outcome's remarks.
        on_scores: a function or tracker, or several, told of every run done by this call (only with one job).
        step: optimizer steps the models were trained for; functions and trackers are told.
        checkpoint: name of the checkpoint; likewise.

    Returns:
        The outcomes in the order of the plan; pairs left out by ``only`` are not among them.

    Raises:
        UsageError: the directory holds something else, or ``only`` names nothing of the plan.
    """
    out = location(out)
    names = {*(pair.model for pair in plan.pairs), *(pair.column for pair in plan.pairs)}
    if unknown := sorted(set(only) - names):
        raise UsageError(f"{unknown[0]!r} is neither a model nor a suite of the plan: {', '.join(sorted(names))}")
    keep_plan(out, plan)
    wanted_models = {name for name in only if any(pair.model == name for pair in plan.pairs)}
    wanted_suites = {name for name in only if any(pair.column == name for pair in plan.pairs)}
    chosen = [
        pair
        for pair in plan.pairs
        if (not wanted_models or pair.model in wanted_models) and (not wanted_suites or pair.column in wanted_suites)
    ]
    by_model: dict[str, list[Pair]] = {}
    for pair in chosen:
        by_model.setdefault(pair.model, []).append(pair)
    tracking = Tracking(track=tuple(track), on_scores=hooks_of(on_scores), step=step, checkpoint=checkpoint)
    tasks = [
        Task(model=m, pairs=tuple(pairs), out=out, repeat=repeat, reports=reports, tracking=tracking)
        for m, pairs in by_model.items()
    ]
    outcomes: dict[str, Outcome] = {}
    for outcome in (executor or LocalExecutor(jobs, tell=tell)).run(tasks):
        outcomes[outcome.pair] = outcome
        if on_outcome is not None:
            on_outcome(outcome)
    return [outcomes[pair.name] for pair in chosen if pair.name in outcomes]


# --------------------------------------------------------------------------------------------------------------- check
@dataclass(frozen=True, kw_only=True)
class PairCheck:
    """What a pair would ask for, or why it would be refused.

    Attributes:
        pair: name of its run directory.
        model: name of the model in the plan.
        suite: name of the suite in the plan.
        refused: why it cannot run; empty if it can.
        images: images it will have.
        images_done: images it has.
        judgements: images that each judge would observe, by role.
        not_measured: roles that no judge fills.
        estimate: lines of the generator on what the rest will take and cost.
    """

    pair: str
    model: str
    suite: str
    refused: str = ""
    images: int = 0
    images_done: int = 0
    judgements: Mapping[str, int] | None = None
    not_measured: tuple[str, ...] = ()
    estimate: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Check:
    """What a plan would ask for.

    Attributes:
        pairs: in the order of the plan.
        images: images still to be made or found.
        judgements: observations still to be made.
        disk_bytes: room the images will need, about; images that exist already stay where they are.
        free_bytes: room there is; None where that is not known, as in object storage.
    """

    pairs: tuple[PairCheck, ...]
    images: int
    judgements: int
    disk_bytes: int
    free_bytes: int | None

    @property
    def refused(self) -> list[PairCheck]:
        """The pairs that cannot run."""
        return [pair for pair in self.pairs if pair.refused]

    def record(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)


def check_plan(plan: Plan, out: Path | str | None = None, *, tell: Tell | None = None) -> Check:
    """Everything that the runs of a plan would refuse, and what they would ask for, without doing it.

    Models and judges are loaded as the runs would load them, so that a missing library or file is found.

    Args:
        plan: the plan.
        out: its directory, to leave out what is done; None: nothing is.
        tell: called with lines about progress.
    """
    folder = None if out is None else location(out)
    pairs = []
    pixels = 0
    with ModelPool() as pool:
        model = None
        for pair in plan.pairs:
            if model not in (None, pair.model):
                pool.close_generators()
            model = pair.model
            if tell is not None:
                tell(f"{pair.model} on {pair.column} ...")
            blank = PairCheck(pair=pair.name, model=pair.model, suite=pair.column)
            try:
                suite = pair.make_suite()
                asked = pair.arguments(suite)
                asked["run_options"] = replace(asked["run_options"], pool=pool)
                path = None if folder is None else run_path(folder, pair)
                planned = api.plan(suite, out=path, **asked)
            except VerismError as err:
                pairs.append(replace(blank, refused=str(err)))
                continue
            pairs.append(
                replace(
                    blank,
                    images=planned.images,
                    images_done=planned.images_done,
                    judgements=planned.judgements,
                    not_measured=planned.not_measured,
                    estimate=planned.estimate,
                )
            )
            if pair.source == "model":
                pixels += (planned.images - planned.images_done) * int(asked["run_options"].size) ** 2
    there = folder or Path()
    while not is_remote(there) and not there.exists():
        there = there.parent
    return Check(
        pairs=tuple(pairs),
        images=sum(p.images - p.images_done for p in pairs),
        judgements=sum(sum((p.judgements or {}).values()) for p in pairs),
        disk_bytes=int(pixels * BYTES_PER_PIXEL),
        free_bytes=None if is_remote(there) else shutil.disk_usage(there).free,
    )
