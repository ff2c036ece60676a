"""The stages of a run on a Ray cluster: workers that hold models, and a dealer that deals them blocks of the work.

A worker is an actor that runs the very stages of ``pipeline.local`` on what it claims (``pipeline.shares``), with its
own generator and judges, and writes images and parts of tables straight to the run's storage. So images never travel:
who makes one shows it to the judges. Only blocks' numbers pass through Ray, and no more are out than workers hold, so
that neither the driver nor the object store grows with the run.

Ray restarts nothing by itself here. The driver sees a worker die, the dealer deals its blocks again, and another worker
takes its place where the cluster has room; parts of tables are idempotent, so what it had kept already counts once.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

from verism.errors import UsageError, VerismError, require
from verism.pipeline.selections import pending_items
from verism.pipeline.shares import Claim, Claims, Shares, blocks_of
from verism.progress import Progress

__all__ = ["GENERATOR", "RayCluster", "RaySettings", "Work", "start_ray"]

T = TypeVar("T")
GENERATOR = "generator"  # a role of workers, beside those of judges
REST = "workers"  # those who do what no other workers are named for
MAX_DEATHS = 8  # of workers over one block, or in a row without any block done between
POLL_S = 0.5
PATIENCE_S = 30.0  # until a driver says that no worker could start
CONNECT_S = 10.0  # until a head node must have accepted a connection
HANDSHAKE_S = 30.0  # until it must have said that it is one
# What Ray begins with, which has no end of its own where something else listens: in a process that can be ended.
HANDSHAKE = """
import sys
try:
    from ray._raylet import GcsClient
except ImportError:  # another version of Ray
    sys.exit()
GcsClient(address=sys.argv[1])
"""
OBJECT_STORE_BYTES = 150_000_000  # of a Ray started here: images do not pass through it
EPSILON = 1e-9  # of fractions of a core or GPU
NOTHING, ALL_DONE = -1, -2  # answers of the dealer in place of a block's number

# What a worker does: called with its roles (None: all), its shares, and what it keeps from one call to the next.
Work = Callable[[frozenset[str] | None, Shares, dict[str, Any]], Any]


@dataclass(frozen=True, kw_only=True)
class RaySettings:
    """How a run is spread over a Ray cluster.

    Attributes:
        address: of a running cluster, ``auto`` for the one this machine belongs to; None: a Ray of this machine alone,
            which is started and stopped.
        actors: number of workers; or by role (``generator``, ``detector``, ``clip`` ...), of workers that serve in this
            role alone, while ``workers`` do the rest. None: as many workers that do everything as fit the cluster.
        num_cpus: processor cores of a worker, at least 0; one number, or by role.
        num_gpus: GPUs of a worker, fractions too; one number, or by role. None: 1 where the cluster has GPUs.
    """

    address: str | None = None
    actors: int | Mapping[str, int] | None = None
    num_cpus: float | Mapping[str, float] = 1.0
    num_gpus: float | Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        counts = self.actors.values() if isinstance(self.actors, Mapping) else [self.actors]
        if any(count is not None and count < 1 for count in counts):
            raise UsageError(f"actors: at least one of each role, got {self.actors}")

    @staticmethod
    def parse(text: str, *, actors: str = "", num_cpus: str = "", num_gpus: str = "") -> RaySettings:
        """Settings as they are written: ``ray`` or ``ray:ADDRESS``, and ``generator=2,detector=4``.

        Args:
            text: the executor.
            actors: a number, or numbers by role; empty for the default.
            num_cpus: likewise.
            num_gpus: likewise.

        Raises:
            UsageError: it is none.
        """
        name, _, address = text.partition(":")
        if name != "ray":
            raise UsageError(f"unknown executor {text!r}; there are local, ray and ray:ADDRESS")
        counts = _numbers("--actors", actors)
        whole = {role: int(count) for role, count in counts.items()}
        if any(count != whole[role] for role, count in counts.items()):
            raise UsageError(f"--actors {actors}: numbers of workers are whole")
        return RaySettings(
            address=address or None,
            actors=whole.get("", whole) if whole else None,
            num_cpus=_of_all(_numbers("--actor-cpus", num_cpus), 1.0),
            num_gpus=_of_all(_numbers("--actor-gpus", num_gpus), None),
        )


def _numbers(option: str, text: str) -> dict[str, float]:
    """Numbers by role; one for all roles has an empty name."""
    numbers: dict[str, float] = {}
    for pair in filter(None, text.split(",")):
        role, equals, value = pair.rpartition("=")
        if not re.fullmatch(r"\d+(\.\d+)?", value) or bool(equals) != bool(role.strip()):
            raise UsageError(f"{option} {text}: expected a number, or ROLE=NUMBER,ROLE=NUMBER")
        numbers[role.strip()] = float(value)
    if "" in numbers and len(numbers) > 1:
        raise UsageError(f"{option} {text}: give one number, or a number for each role")
    return numbers


def _of_all(numbers: dict[str, float], default: Any) -> Any:
    return numbers.get("", numbers) if numbers else default


def start_ray(settings: RaySettings) -> bool:
    """Connect to a cluster; whether a Ray was started here, which then is ours to stop.

    Args:
        settings: where it is.

    Raises:
        MissingExtra: Ray is not installed. UsageError: there is no cluster at that address. VerismError: a Ray of this
            machine did not start in time.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # a warning about what comes in later versions
    ray = require("ray", extra="ray", purpose="--executor ray")
    if ray.is_initialized():
        return False
    if settings.address is not None:
        _check_address(settings.address)
    _silence_deaths()
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if settings.address is None:
            ray.init(address="local", include_dashboard=False, object_store_memory=OBJECT_STORE_BYTES, **quiet)
        else:
            ray.init(address=settings.address, **quiet)
    except (ConnectionError, ValueError) as err:
        raise UsageError(f"no Ray cluster at {settings.address}: {err}") from err
    except Exception as err:  # a bare one, where Ray does not start in time
        if settings.address is not None or "startup" not in str(err):
            raise
        raise VerismError(
            "a Ray of this machine did not start in the time that Ray gives it: the machine is busy. Try again later, "
            "or start Ray before (ray start --head) and name it: --executor ray:auto"
        ) from err
    return True


def _check_address(address: str) -> None:
    """Refuse an address where nobody listens, or something else than Ray, which Ray itself would ask for many minutes.

    Args:
        address: as Ray takes it; such as name no port (``auto``) are not checked.
    """
    named = re.fullmatch(r"(ray://)?\[?([^/\[\]]+)\]?:(\d+)", address)
    if named is None:
        return
    advice = "Name the head node's HOST:PORT that `ray start --head` prints, or auto for the cluster of this node"
    try:
        socket.create_connection((named[2], int(named[3])), timeout=CONNECT_S).close()
    except (OSError, OverflowError, UnicodeError) as err:
        raise UsageError(f"no Ray cluster at {address}: {err}. {advice}") from err
    if named[1]:  # Ray's own client gives up by itself
        return
    command = [sys.executable, "-P", "-c", HANDSHAKE, address]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=HANDSHAKE_S, check=False
        )
    except subprocess.TimeoutExpired:
        why = f"no answer of a Ray head node within {HANDSHAKE_S:g} s"
    else:
        if not done.returncode:
            return
        why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    raise UsageError(f"what listens at {address} is no Ray head node ({why}). {advice}") from None


def _silence_deaths() -> None:
    """Keep Ray from printing every worker's death on standard output, where results go; the driver tells of it."""
    from ray._private import worker

    printed = getattr(worker, "print_to_stdstream", None)
    if printed is None or getattr(printed, "silent", False):  # another version of Ray, or done before
        return

    def told(data: Mapping[str, Any], *arguments: Any, **options: Any) -> None:
        if data.get("pid") != "raylet":
            printed(data, *arguments, **options)

    told.silent = True  # type: ignore[attr-defined]
    worker.print_to_stdstream = told


# ----------------------------------------------------------------------------------------------------------- the dealer
@dataclass(eq=False)
class _Stage:
    """Blocks of a stage, as the dealer knows them."""

    sizes: list[int]
    after: str
    free: list[int]
    done: set[int]
    held: dict[int, str] = field(default_factory=dict)
    deaths: dict[int, int] = field(default_factory=dict)


def _work_of(worker: str) -> int:
    """Number of the piece of work that a worker was started for, which its name begins with."""
    return int(worker.partition("/")[0])


class _OverError(VerismError):
    """A worker asks about a piece of work that has ended."""


class Dealer:
    """Deals blocks of stages to workers. It runs as an actor on the driver's node and keeps nothing but numbers.

    It serves one piece of work after the other. What a worker of an earlier one still asks is refused.
    """

    def __init__(self) -> None:
        self.changed = asyncio.Condition()
        self.ended = 0
        self._forget()

    def _forget(self) -> None:
        self.stages: dict[str, _Stage] = {}
        self.agreed: dict[str, Any] = {}
        self.lines: list[str] = []
        self.active: set[str] = set()
        self.dead: set[str] = set()
        self.finished = 0

    async def end(self, work: int) -> None:
        """Forget a piece of work; whoever still waits for something of it is refused.

        Args:
            work: its number, larger than that of any before it.
        """
        async with self.changed:
            self.ended = work
            self._forget()
            self.changed.notify_all()

    def _check(self, worker: str) -> None:
        """Refuse a worker of a piece of work that has ended."""
        if _work_of(worker) <= self.ended:
            raise _OverError("this piece of work has ended")

    async def open(self, worker: str, stage: str, sizes: list[int], done: list[int], after: str) -> None:
        """Begin a stage, unless another worker did.

        Args:
            worker: who asks.
            stage: its name.
            sizes: items of each block.
            done: blocks that are done already.
            after: the stage in which a block must be done first; empty for none.
        """
        async with self.changed:
            self._check(worker)
            self.active.add(worker)
            if stage not in self.stages:
                kept = set(done)
                free = [n for n in reversed(range(len(sizes))) if n not in kept]
                self.stages[stage] = _Stage(sizes, after, free, kept)
            self.changed.notify_all()

    def _next(self, stage: _Stage) -> int:
        if len(stage.done) == len(stage.sizes):
            return ALL_DONE
        before = self.stages.get(stage.after)
        for position in reversed(range(len(stage.free))):
            number = stage.free[position]
            if not stage.after or (before is not None and number in before.done):
                del stage.free[position]
                return number
            if before is None:
                break
        return NOTHING

    async def next(self, worker: str, stage: str, wait: bool) -> int:
        """A block to do, or ``ALL_DONE``, or ``NOTHING`` at the moment.

        Args:
            worker: who asks.
            stage: of which stage.
            wait: whether to wait while there is nothing.
        """
        async with self.changed:
            self._check(worker)
            the_stage = self.stages[stage]
            number = NOTHING
            # A worker may die while it waits here; then a block must not go to it.
            while worker not in self.dead and (number := self._next(the_stage)) == NOTHING and wait:
                await self.changed.wait()
                self._check(worker)
            if number >= 0:
                the_stage.held[number] = worker
            return number

    async def finish(self, worker: str, stage: str, number: int) -> None:
        """A block is done and kept.

        Args:
            worker: who did it.
            stage: its stage.
            number: of the block.
        """
        async with self.changed:
            self._check(worker)
            the_stage = self.stages[stage]
            the_stage.held.pop(number, None)
            the_stage.done.add(number)
            # Of a worker that was taken for dead: nobody needs to do it again.
            if number in the_stage.free:
                the_stage.free.remove(number)
            self.active.add(worker)
            self.finished += 1
            self.changed.notify_all()

    async def lost(self, worker: str) -> str:
        """A worker died, and its blocks are dealt again; in words why they must not be, or empty.

        Args:
            worker: who died.
        """
        async with self.changed:
            self.active.discard(worker)
            self.dead.add(worker)
            for name, stage in self.stages.items():
                for number in [n for n, holder in stage.held.items() if holder == worker]:
                    del stage.held[number]
                    stage.free.append(number)
                    stage.deaths[number] = stage.deaths.get(number, 0) + 1
                    if stage.deaths[number] >= MAX_DEATHS:
                        return f"{MAX_DEATHS} workers died over the same {stage.sizes[number]} items of {name}"
            self.changed.notify_all()
            return ""

    async def agree(self, worker: str, own: dict[str, Any], wanted: list[str]) -> dict[str, Any]:
        """What all workers say of themselves; of what several say, all must say the same.

        Args:
            worker: who asks.
            own: what it says, by key.
            wanted: keys to wait for.

        Raises:
            VerismError: two workers differ.
        """
        async with self.changed:
            self._check(worker)
            self.active.add(worker)
            for key, value in own.items():
                if self.agreed.setdefault(key, value) != value:
                    raise VerismError(
                        f"workers differ in {key}: {self.agreed[key]!r} and {value!r}. The run must lie where all "
                        "nodes see it (a shared file system, or s3://), and all nodes must have the same models"
                    )
            self.changed.notify_all()
            while not all(key in self.agreed for key in wanted):
                await self.changed.wait()
                self._check(worker)
            return dict(self.agreed)

    async def note(self, worker: str, line: str) -> None:
        """Keep a line for the driver.

        Args:
            worker: who tells it.
            line: about an image that is not ok.
        """
        if _work_of(worker) > self.ended:
            self.lines.append(line)

    async def status(self) -> dict[str, Any]:
        """What the driver asks for now and then; lines are given once."""
        lines, self.lines = self.lines, []
        counts = {
            name: (sum(stage.sizes[n] for n in stage.done), sum(stage.sizes)) for name, stage in self.stages.items()
        }
        return {"lines": lines, "stages": counts, "active": set(self.active), "finished": self.finished}


class RayShares(Shares):
    """Blocks that a dealer deals to one worker."""

    alone = False

    def __init__(self, dealer: Any, worker: str) -> None:
        """Shares of a worker.

        Args:
            dealer: handle of the actor.
            worker: name of the worker.
        """
        self.dealer = dealer
        self.worker = worker

    def _ask(self, method: str, *arguments: Any) -> Any:
        import ray

        try:
            return ray.get(getattr(self.dealer, method).remote(self.worker, *arguments))
        except ray.exceptions.RayTaskError as err:
            raise err.cause from None

    @contextmanager
    def claims(
        self,
        stage: str,
        items: Sequence[T],
        *,
        key: Callable[[T], str],
        done: Callable[[], Container[str]],
        after: str = "",
    ) -> Iterator[Claims[T]]:
        """Blocks as they are dealt; ends when all blocks are done, by whomever.

        Args:
            stage: as in ``Shares``.
            items: as in ``Shares``.
            key: as in ``Shares``.
            done: as in ``Shares``.
            after: as in ``Shares``.
        """
        blocks = blocks_of(items)
        known = done()
        waiting = [pending_items(block, key, known) for block in blocks]
        finished = [n for n, left in enumerate(waiting) if not left]
        self._ask("open", stage, [len(block) for block in blocks], finished, after)
        # A worker that fails takes all others with it, and one that dies is seen to: nothing needs to be given back.
        yield self._dealt(stage, waiting)

    def _dealt(self, stage: str, pending: Sequence[Sequence[T]]) -> Iterator[Claim[T] | None]:
        held: set[int] = set()

        def finished(number: int) -> None:
            held.discard(number)
            self._ask("finish", stage, number)

        while (number := self._ask("next", stage, not held)) != ALL_DONE:
            if number == NOTHING:
                yield None
                continue
            held.add(number)
            items = pending[number]
            if not items:
                finished(number)
                continue
            yield Claim(items, len(items), lambda number=number: finished(number))  # type: ignore[misc]

    def agree(self, own: Mapping[str, Any], wanted: Sequence[str]) -> Mapping[str, Any]:
        """What all workers say of themselves.

        Args:
            own: what this one says, by key.
            wanted: keys to wait for.
        """
        return dict(self._ask("agree", dict(own), list(wanted)))

    def tell(self, line: str) -> None:
        """Pass a line on to the driver.

        Args:
            line: about an image that is not ok.
        """
        self.dealer.note.remote(self.worker, line)


class _Worker:
    """An actor that keeps its models from one piece of work to the next."""

    def __init__(self) -> None:
        # Ray sets it to the worker's cores.
        self.kept: dict[str, Any] = {"threads": int(os.environ.get("OMP_NUM_THREADS", "0")) or None}

    def run(self, work: Work, roles: frozenset[str] | None, dealer: Any, name: str) -> Any:
        return work(roles, RayShares(dealer, name), self.kept)

    def release(self) -> None:
        """Close generators that were kept; judges stay."""
        for thing in self.kept.values():
            getattr(thing, "close_generators", lambda: None)()

    def close(self) -> None:
        """Close what was kept."""
        for thing in self.kept.values():
            getattr(thing, "close", lambda: None)()
        self.kept.clear()


# ----------------------------------------------------------------------------------------------------------- the driver
@dataclass(frozen=True)
class _Kind:
    """Workers that serve in the same roles (None: in all) with the same resources.

    Attributes:
        roles: in which they serve.
        count: how many are started.
        num_cpus: processor cores of each.
        num_gpus: GPUs of each.
        asked: how many were asked for; 0: as many as fit.
    """

    roles: frozenset[str] | None
    count: int
    num_cpus: float
    num_gpus: float
    asked: int = 0

    @property
    def key(self) -> tuple[Any, ...]:
        """What workers have in common that can take each other's place."""
        return self.roles, self.num_cpus, self.num_gpus


def fewer_than_asked(kinds: Sequence[_Kind], blocks: int, nodes: Sequence[Mapping[str, float]]) -> list[str]:
    """Lines about kinds of which fewer workers will be at work than were asked for.

    Args:
        kinds: that are about to be started, one of each in turn.
        blocks: of the work; no more workers of a kind are started.
        nodes: resources of each node of the cluster.
    """
    left = [[node.get("CPU", 0.0), node.get("GPU", 0.0)] for node in nodes]
    running = dict.fromkeys(kinds, 0)
    for turn in range(max(kind.count for kind in kinds)):
        for kind in (kind for kind in kinds if turn < kind.count):
            room = next((n for n in left if n[0] + EPSILON >= kind.num_cpus and n[1] + EPSILON >= kind.num_gpus), None)
            if room is not None:
                room[0], room[1] = room[0] - kind.num_cpus, room[1] - kind.num_gpus
                running[kind] += 1
    has = " and ".join(f"{name} {sum(node.get(name, 0.0) for node in nodes):g}" for name in ("CPU", "GPU"))
    lines = []
    for kind, most in running.items():
        why = []
        if kind.count < kind.asked:
            why.append(f"the work has {blocks:,} {'block' if blocks == 1 else 'blocks'}")
        if most < kind.count and (kind.asked or not most):
            why.append(
                f"one takes CPU {kind.num_cpus:g} and GPU {kind.num_gpus:g} (--actor-cpus, --actor-gpus), and the "
                f"cluster has {has} for all"
            )
        if why:
            role = REST if kind.roles is None else ", ".join(sorted(kind.roles))
            lines.append(
                f"at most {most:,} of {kind.asked or kind.count:,} actors ({role}) run at once: {'; '.join(why)}"
            )
    return lines


class RayCluster:
    """Workers on a Ray cluster; use it in a ``with`` block. They stay, with their models, from one run to the next.

    Attributes:
        settings: where the cluster is, and how many workers there are.
        dealer: handle of the actor that deals blocks, inside the ``with`` block.
    """

    def __init__(self, settings: RaySettings) -> None:
        """A cluster that is connected to when the block begins.

        Args:
            settings: where it is, and how many workers there are.
        """
        self.settings = settings
        self._started = False
        self._idle: dict[tuple[Any, ...], list[Any]] = {}
        self.dealer: Any = None
        self._calls = 0

    def __enter__(self) -> Self:
        self._started = start_ray(self.settings)
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        dealer = ray.remote(Dealer)
        # Its process takes a second to start, in which the suite is made.
        self.dealer = dealer.options(num_cpus=0, max_concurrency=1000, scheduling_strategy=here).remote()
        return self

    def __exit__(self, *_: object) -> None:
        import ray

        self.dismiss(list(self._idle))
        ray.kill(self.dealer)
        if self._started:
            ray.shutdown()

    def dismiss(self, keys: Sequence[tuple[Any, ...]]) -> None:
        """End workers that have nothing to do.

        Args:
            keys: of their kinds.
        """
        import ray

        actors = [actor for key in keys for actor in self._idle.pop(key, ())]
        with suppress(ray.exceptions.RayError):
            if actors:
                ray.wait([actor.close.remote() for actor in actors], num_returns=len(actors), timeout=5.0)
        for actor in actors:
            ray.kill(actor)

    def release(self) -> None:
        """Close the generators of workers that have nothing to do; they keep their judges."""
        import ray

        actors = [actor for actors in self._idle.values() for actor in actors]
        if actors:
            ray.wait([actor.release.remote() for actor in actors], num_returns=len(actors))

    def kinds(self, roles: Sequence[str], blocks: int) -> list[_Kind]:
        """The workers for a piece of work.

        Args:
            roles: that it needs.
            blocks: that it has; there are no more workers of a kind.

        Raises:
            UsageError: a role it has no use for.
        """
        import ray

        there = ray.cluster_resources()
        settings = self.settings
        named = dict(settings.actors) if isinstance(settings.actors, Mapping) else {}
        if isinstance(settings.actors, int):
            named = {REST: settings.actors}
        for option, by_role in (("actors", named), ("num_cpus", settings.num_cpus), ("num_gpus", settings.num_gpus)):
            if isinstance(by_role, Mapping) and (foreign := [r for r in by_role if r not in (*roles, REST)]):
                raise UsageError(f"{option}: no role {foreign[0]!r} here; there are {', '.join((*roles, REST))}")

        def kind(role: str, serves: frozenset[str] | None) -> _Kind:
            cpus = settings.num_cpus.get(role, 1.0) if isinstance(settings.num_cpus, Mapping) else settings.num_cpus
            default = 1.0 if there.get("GPU", 0) else 0.0
            gpus = settings.num_gpus.get(role) if isinstance(settings.num_gpus, Mapping) else settings.num_gpus
            gpus = default if gpus is None else gpus
            count = named.get(role)
            if count is None:
                fits = [there.get("CPU", 1) // cpus] if cpus else []
                fits += [there.get("GPU", 0) // gpus] if gpus else []
                count = int(min(fits, default=1)) or 1
            return _Kind(serves, max(1, min(count, blocks)), cpus, gpus, named.get(role, 0))

        alone = [role for role in named if role != REST]
        kinds = [kind(role, frozenset({role})) for role in alone]
        if not alone:
            kinds = [kind(REST, None)]
        elif rest := frozenset(roles) - set(alone):
            kinds.append(kind(REST, rest))
        for name, asked in (("CPU", sum(k.num_cpus for k in kinds)), ("GPU", sum(k.num_gpus for k in kinds))):
            if asked > there.get(name, 0):
                raise UsageError(
                    f"one worker of each kind needs {name} {asked:g}, and the cluster has {there.get(name, 0):g}; give "
                    "less with --actor-cpus or --actor-gpus, or name fewer roles with --actors"
                )
        return kinds

    def run(
        self,
        work: Work,
        *,
        root: Path,  # noqa: ARG002 of workers that lease their shares
        roles: Sequence[str],
        items: int,
        on_failure: Callable[[str], None] | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> list[Any]:
        """Let workers do a piece of work together; what each of them returned.

        Args:
            work: what each does of it.
            root: the run directory.
            roles: that it needs.
            items: of its largest stage.
            on_failure: called with lines that workers tell.
            tell: called with lines about the cluster.

        Raises:
            VerismError: a worker failed, or they die one after the other.
        """
        import ray

        blocks = max(1, len(blocks_of(range(items))))
        kinds = self.kinds(roles, blocks)
        for line in fewer_than_asked(kinds, blocks, [n["Resources"] for n in ray.nodes() if n["Alive"]]):
            (tell or (lambda _: None))(line)
        # Workers of other kinds would hold what these need.
        self.dismiss([key for key in self._idle if key not in {kind.key for kind in kinds}])
        self._calls += 1
        call = _Call(self, work, kinds, self._calls, on_failure, tell)
        try:
            return call.results()
        finally:
            call.end()


class _Call:
    """One piece of work under way."""

    def __init__(
        self,
        cluster: RayCluster,
        work: Work,
        kinds: Sequence[_Kind],
        number: int,
        on_failure: Callable[[str], None] | None,
        tell: Callable[[str], None] | None,
    ) -> None:
        import ray

        self.cluster, self.kinds, self.number, self.on_failure, self.tell = cluster, kinds, number, on_failure, tell
        self.work = ray.put(work)
        self.dealer = cluster.dealer
        self.running: dict[Any, tuple[_Kind, Any, str]] = {}
        self.workers = 0
        self.told: dict[str, None] = {}
        self.deaths = 0
        # One of each kind first: they wait for each other's names.
        for turn in range(max(kind.count for kind in kinds)):
            for kind in kinds:
                if turn < kind.count:
                    self.start(kind)

    def start(self, kind: _Kind) -> None:
        import ray

        idle = self.cluster._idle.get(kind.key, [])
        if idle:
            actor = idle.pop()
        else:
            worker = ray.remote(_Worker)
            actor = worker.options(num_cpus=kind.num_cpus, num_gpus=kind.num_gpus, max_restarts=0).remote()
        self.workers += 1
        name = f"{self.number}/worker-{self.workers}"
        self.running[actor.run.remote(self.work, kind.roles, self.dealer, name)] = kind, actor, name

    def results(self) -> list[Any]:
        """What the workers returned, once all is done."""
        import ray

        results: list[Any] = []
        ended: set[_Kind] = set()
        began = time.monotonic()
        finished = 0
        with Progress("images", 0) as progress:
            while True:
                ready, _ = ray.wait(list(self.running), timeout=POLL_S)
                status = ray.get(self.dealer.status.remote())
                self.report(status, progress)
                if status["finished"] > finished:
                    finished, self.deaths = status["finished"], 0
                for ref in ready:
                    kind, actor, name = self.running.pop(ref)
                    try:
                        results.append(ray.get(ref))
                    except ray.exceptions.RayTaskError as err:
                        raise _cause(err) from None
                    except ray.exceptions.RayError as err:
                        self.replace(kind, name, err)
                        continue
                    ended.add(kind)
                    self.cluster._idle.setdefault(kind.key, []).append(actor)
                # A worker ends when all blocks are done. Those that did not begin, as they came too late, need not.
                late = [ref for ref, (_, _, name) in self.running.items() if name not in status["active"]]
                if ended == set(self.kinds) and len(late) == len(self.running):
                    self.report(ray.get(self.dealer.status.remote()), progress)
                    return results
                if not status["active"] and self.tell is not None and time.monotonic() - began > PATIENCE_S:
                    began = float("inf")
                    self.tell(f"no worker has started yet; asked of the cluster: {self.asked()}")

    def asked(self) -> str:
        """The resources of all workers, and of the cluster, in words."""
        import ray

        kinds = ", ".join(f"{k.count} x (num_cpus={k.num_cpus:g}, num_gpus={k.num_gpus:g})" for k in self.kinds)
        there = ray.cluster_resources()
        return f"{kinds}; it has CPU {there.get('CPU', 0):g}, GPU {there.get('GPU', 0):g}"

    def report(self, status: Mapping[str, Any], progress: Progress) -> None:
        """Tell of failures, each once, and of how far it is."""
        for line in status["lines"]:
            if line not in self.told and self.on_failure is not None:
                self.on_failure(line)
            self.told[line] = None
        if status["stages"]:
            # The stage that is being done: the first that is not complete.
            name, (done, total) = next(
                ((n, counts) for n, counts in status["stages"].items() if counts[0] < counts[1]),
                list(status["stages"].items())[-1],
            )
            progress.label, progress.total = name.partition("/")[0], total
            progress.advance(done - progress.done)

    def replace(self, kind: _Kind, name: str, err: Exception) -> None:
        """Another worker in place of one that died."""
        import ray

        self.deaths += 1
        if self.tell is not None:
            reason = " ".join(str(err).split()).partition(". ")[0]
            self.tell(f"a worker was lost, and its work is dealt again: {reason}")
        why = ray.get(self.dealer.lost.remote(name))
        if not why and self.deaths >= MAX_DEATHS:
            why = f"{self.deaths} workers died in a row, and nothing was done between"
        if why:
            raise VerismError(f"{why}; the last: {' '.join(str(err).split())[:600]}")
        self.start(kind)

    def end(self) -> None:
        """Stop what still runs."""
        import ray

        for _, actor, _ in self.running.values():
            ray.kill(actor)
        self.running.clear()
        ray.get(self.dealer.end.remote(self.number))


def _cause(err: Any) -> BaseException:
    """What a worker raised; its traceback is told where it is no mistake of the caller's."""
    cause = err.cause
    if isinstance(cause, VerismError | OSError | MemoryError):
        return cause
    return VerismError(f"a worker failed: {err}")
