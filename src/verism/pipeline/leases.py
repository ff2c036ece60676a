"""Shares of a run that its processes take as they go, by small files in the run directory.

A block of items is leased by a file ``leases/STAGE/BLOCK-GENERATION.json`` that only one process can create
(``files.write_new``: a link on disks, a conditional put in object storage). Its owner writes it anew every few seconds;
a lease that was not written for a while, as others saw it by their own clock, is taken over by creating the next
generation. So nothing is needed of clocks, locks or renaming, and a process that was only slow does no harm: what two
did counts once.
"""

from __future__ import annotations

import json
import os
import platform
import random
import threading
import time
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from verism.errors import VerismError
from verism.files import json_bytes, write_json, write_new
from verism.locations import remove_tree
from verism.pipeline.selections import pending_items
from verism.pipeline.shares import Claim, Claims, Shares, block_size, blocks_of
from verism.store import slug
from verism.systems import process_is_gone

__all__ = ["FOLDER", "LeasedShares"]

T = TypeVar("T")
FOLDER = "leases"
EXPIRY_S = 120.0  # longer than file systems of clusters take to show what another machine wrote
BEATS = 6  # of a lease while it expires: one or two may be late
POLL_S = 1.0
State = Literal["held", "done", "dropped"]


@dataclass(eq=False)
class _Lease:
    """A lease this process holds."""

    path: Path
    beat: int = 0


class LeasedShares(Shares):
    """Shares of one process among several that call the same command; use it in a ``with`` block."""

    alone = False

    def __init__(self, root: Path, *, expiry: float = EXPIRY_S, poll: float = POLL_S) -> None:
        """Shares that are leased.

        Args:
            root: the run directory.
            expiry: seconds after which the lease of a process that is not heard of any more is taken over.
            poll: seconds between looks while others have all the blocks.
        """
        self.root = root
        self.expiry = expiry
        self.poll = poll
        self.owner = os.urandom(8).hex()
        self._held: dict[Path, _Lease] = {}
        self._seen: dict[Path, tuple[bytes, float]] = {}  # content of others' leases, and when it was seen first
        self._ended: dict[Path, str] = {}  # leases that are done or dropped, which they stay
        self._stages: set[str] = set()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._heart: threading.Thread | None = None

    def __enter__(self) -> LeasedShares:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give up what is held, and stop the heart-beat."""
        self._over.set()
        if self._heart is not None:
            self._heart.join()
        for lease in list(self._held.values()):
            self._leave(lease, "dropped")

    # ----------------------------------------------------------------------------------------------------- claiming
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
        """Blocks that nobody has, one after the other; ends when all blocks are done, by whomever.

        Args:
            stage: as in ``Shares``.
            items: as in ``Shares``.
            key: as in ``Shares``.
            done: as in ``Shares``.
            after: no stage: who leases does all stages, one after the other.
        """
        del after
        blocks = blocks_of(items)
        # Another division of the items is another stage.
        name = slug(f"{stage}-{len(items)}-{block_size(len(items))}")
        # Marks first, and then what is there: a mark that the tables do not bear out is of what was lost since.
        marked = {n: g for n, g in self._latest(name).items() if self._state(name, n, g) == "done"}
        known = done()
        waiting = {n: pending_items(block, key, known) for n, block in enumerate(blocks)}
        mine: list[_Lease] = []
        try:
            yield self._offered(name, {n: left for n, left in waiting.items() if left}, marked, mine)
        finally:
            for lease in mine:
                if lease.path in self._held:
                    self._leave(lease, "dropped")

    def _offered(
        self, stage: str, pending: dict[int, Sequence[T]], stale: dict[int, int], mine: list[_Lease]
    ) -> Iterator[Claim[T] | None]:
        # Everyone begins elsewhere, so that few try the same block.
        order = sorted(pending)
        first = random.Random(self.owner).randrange(len(order)) if order else 0
        waiting = dict.fromkeys([*order[first:], *order[:first]])
        while waiting:
            latest = self._latest(stage)
            free = [n for n in waiting if latest.get(n) == stale.get(n)]  # no lease, or a mark that is not true
            lease = self._first_free(stage, free, latest)
            if lease is None:
                lease = self._first_free(stage, self._given_up(stage, waiting, latest), latest)
            if lease is not None:
                number = _numbers(lease.path.name)[0]
                del waiting[number]
                mine.append(lease)
                items = pending[number]
                yield Claim(items, len(items), lambda lease=lease: self._leave(lease, "done"))  # type: ignore[misc]
            elif any(held.path in self._held for held in mine):
                yield None
            elif waiting:
                time.sleep(self.poll)

    def _first_free(self, stage: str, numbers: Sequence[int], latest: dict[int, int]) -> _Lease | None:
        for number in numbers:
            lease = self._acquired(stage, number, latest.get(number, -1) + 1)
            if lease is not None:
                return lease
        return None

    def _given_up(self, stage: str, waiting: dict[int, None], latest: dict[int, int]) -> list[int]:
        """Blocks whose owner left them, or is not heard of any more; blocks that are done are waited for no longer."""
        given_up = []
        for number in list(waiting):
            if number not in latest:
                continue
            state = self._state(stage, number, latest[number])
            if state == "done":
                del waiting[number]
            elif state != "held":
                given_up.append(number)
        return given_up

    # ------------------------------------------------------------------------------------------------------- turns
    @contextmanager
    def turn(self, what: str) -> Iterator[None]:
        """Wait until no other process is at it, and be at it for the length of the block.

        Args:
            what: name of what only one shall do at a time.
        """
        lease = None
        while lease is None:
            latest = self._latest(what)
            if not latest or self._state(what, 0, latest[0]) != "held":
                lease = self._acquired(what, 0, latest.get(0, -1) + 1)
            if lease is None:
                time.sleep(self.poll)
        try:
            yield
        finally:
            self._leave(lease, "done")

    def remove(self) -> None:
        """Remove all leases, when all is done and nobody needs them."""
        with self._lock:
            self._held.clear()
            self._ended.clear()
        remove_tree(self.root / FOLDER)

    # ------------------------------------------------------------------------------------------------------- files
    def _acquired(self, stage: str, number: int, generation: int) -> _Lease | None:
        lease = _Lease(self.root / FOLDER / stage / f"{number:06d}-{generation:04d}.json")
        if not write_new(lease.path, json_bytes(self._record(lease, "held"))):
            return None
        with self._lock:
            self._held[lease.path] = lease
            self._stages.add(stage)
        if self._heart is None:
            self._heart = threading.Thread(target=self._beat, name="verism-leases", daemon=True)
            self._heart.start()
        return lease

    def _record(self, lease: _Lease, state: State) -> dict[str, Any]:
        where = {"host": platform.node(), "pid": os.getpid()}
        return {"owner": self.owner, **where, "state": state, "beat": lease.beat}

    def _leave(self, lease: _Lease, state: State) -> None:
        with self._lock:
            if self._held.pop(lease.path, None) is not None:
                # One that cannot be written is as one that is not heard of any more.
                with suppress(VerismError, OSError):
                    write_json(lease.path, self._record(lease, state), sync=False)

    def _latest(self, stage: str) -> dict[int, int]:
        """The latest generation of each block that has one."""
        latest: dict[int, int] = {}
        for path in (self.root / FOLDER / stage).glob("*.json"):
            number, generation = _numbers(path.name)
            latest[number] = max(generation, latest.get(number, -1))
        return latest

    def _state(self, stage: str, number: int, generation: int) -> str:
        """What has become of a lease: ``held``, ``done``, ``dropped``, or ``expired``."""
        path = self.root / FOLDER / stage / f"{number:06d}-{generation:04d}.json"
        if path in self._held:
            return "held"
        if path in self._ended:
            return self._ended[path]
        try:
            content = path.read_bytes()
            record = json.loads(content)
            state = str(record["state"])
        except (OSError, ValueError, KeyError, TypeError):
            content, state, record = b"", "held", {}
        if state != "held":
            self._ended[path] = state
            return state
        now = time.monotonic()
        before, since = self._seen.get(path, (None, now))
        if before != content:
            self._seen[path] = content, (since := now)
        if now - since > self.expiry or _is_gone(record):
            return "expired"
        return "held"

    def _beat(self) -> None:
        while not self._over.wait(self.expiry / BEATS):
            with self._lock:
                for lease in self._held.values():
                    lease.beat += 1
                    with suppress(VerismError, OSError):
                        write_json(lease.path, self._record(lease, "held"), sync=False)
            for stage in list(self._stages):  # others' hearts are listened to all the time
                with suppress(OSError):
                    for number, generation in self._latest(stage).items():
                        self._state(stage, number, generation)


def _numbers(name: str) -> tuple[int, int]:
    """Block and generation, of the name of a lease."""
    number, _, generation = name.partition(".")[0].partition("-")
    return int(number), int(generation)


def _is_gone(record: dict[str, Any]) -> bool:
    """Whether the owner of a lease was a process of this machine that has ended."""
    if record.get("host") != platform.node():
        return False
    try:
        return process_is_gone(int(record["pid"]))
    except (ValueError, KeyError, TypeError):
        return False
