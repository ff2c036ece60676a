"""Which files belong to the tables of a run, with the hash of each.

Every process that writes to a run keeps segments of its own in ``RUN/ledger``, and readers take all of them together.
So nobody waits for anybody, and nothing is needed of the file system but whole files under names that are never used
twice, and listing. A file is named in a segment after it is there; until then, and if its writer is killed in between,
its own name shows that it is of this run and unaltered (``part_name``, ``is_authentic``).
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from verism.errors import DamagedRun
from verism.files import write_json
from verism.locations import is_remote
from verism.records import content_hash

__all__ = ["FOLDER", "Ledger", "Listing", "NameHash", "ShardName", "is_authentic", "part_name", "sha256"]

FOLDER = "ledger"
DIGITS = 24  # of the hash in the name of a file
SEGMENT = 64  # files named in a segment: it is written anew with each, so that its length bounds what that costs


def sha256(data: bytes) -> str:
    """SHA-256 of some bytes, in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def part_name(uid: str, folder: str, data: bytes) -> str:
    """A file name for a part, which no other file has.

    Args:
        uid: identity of the run.
        folder: where the part lies in the run, with ``/``.
        data: content of the part.
    """
    nonce = os.urandom(4).hex()
    digest = _hash(uid, folder, nonce)
    digest.update(data)
    return f"part-{nonce}-{digest.hexdigest()[:DIGITS]}.parquet"


class ShardName:
    """A file name for a shard that is written piece by piece, which no other file has."""

    def __init__(self, uid: str, folder: str) -> None:
        """A shard that has nothing yet.

        Args:
            uid: identity of the run.
            folder: where the shard lies in the run, with ``/``.
        """
        self._nonce = os.urandom(4).hex()
        self._hash = _hash(uid, folder, self._nonce)

    def update(self, data: bytes) -> None:
        """Take in the next bytes of its content."""
        self._hash.update(data)

    def __str__(self) -> str:
        """The name that tells what was taken in."""
        return f"shard-{self._nonce}-{self._hash.hexdigest()[:DIGITS]}.tar"


def is_authentic(uid: str, folder: str, name: str, data: bytes) -> bool:
    """Whether a part was written by this run into this folder, and is unaltered, by its name alone.

    Args:
        uid: identity of the run.
        folder: where the part lies in the run, with ``/``.
        name: file name of the part.
        data: its content.
    """
    named = NameHash(uid, folder, name)
    named.update(data)
    return named.agrees


class NameHash:
    """Whether a part or a shard is what its own name says, found out block by block."""

    def __init__(self, uid: str, folder: str, name: str) -> None:
        """A file of which nothing was read yet.

        Args:
            uid: identity of the run.
            folder: where it lies in the run, with ``/``.
            name: its file name.
        """
        self.name = name
        self._nonce = name.split("-")[1] if name.count("-") == 2 else ""
        self._hash = _hash(uid, folder, self._nonce)

    def update(self, data: bytes) -> None:
        """Take in the next bytes of its content."""
        self._hash.update(data)

    @property
    def agrees(self) -> bool:
        """Whether the run wrote a file of this name and content into this folder."""
        words = f"{self._nonce}-{self._hash.hexdigest()[:DIGITS]}"
        return self.name in (f"part-{words}.parquet", f"shard-{words}.tar")


def _hash(uid: str, folder: str, nonce: str) -> Any:
    return hashlib.sha256(f"{uid}\n{folder}\n{nonce}\n".encode())


@dataclass(frozen=True)
class Listing:
    """What all segments say together.

    Attributes:
        hashes: by path in the run, with ``/``: hashes that the file may have. Files that were replaced are left out.
        replaced: paths of files that others took the place of; nobody reads them any more.
        sources: by path, those it was put together from without changing a row.
    """

    hashes: Mapping[str, frozenset[str]]
    replaced: frozenset[str]
    sources: Mapping[str, tuple[str, ...]]

    def inside(self, folder: str) -> dict[str, frozenset[str]]:
        """The files in a folder: hashes by file name.

        Args:
            folder: path in the run, with ``/``.
        """
        start = f"{folder}/"
        return {
            path[len(start) :]: hashes
            for path, hashes in self.hashes.items()
            if path.startswith(start) and "/" not in path[len(start) :]
        }

    def states(self) -> dict[str, str]:
        """A hash of the content of every table by its folder; putting parts together does not change it."""
        origins: dict[str, set[str]] = {}
        for path in self.hashes:
            origins.setdefault(path.rpartition("/")[0] or path, set()).update(self._origins(path))
        return {folder: sha256("\n".join(sorted(names)).encode()) for folder, names in origins.items()}

    def _origins(self, path: str) -> set[str]:
        found: set[str] = set()
        waiting = [path]
        while waiting:
            name = waiting.pop()
            before = self.sources.get(name)
            if before is None:
                found.add(f"{name} {' '.join(sorted(self.hashes.get(name, ())))}" if "/" not in name else name)
            else:
                waiting += before
        return found


class Arrivals(NamedTuple):
    """Files in the order in which a ledger learned of them. It grows at the end; after a repair it is another object.

    Attributes:
        paths: in the run, with ``/``; those that were replaced since are among them.
        hashes: by path: hashes that the file may have.
        replaced: paths of files that others took the place of.
    """

    paths: Sequence[str]
    hashes: Mapping[str, Collection[str]]
    replaced: Collection[str]


class Ledger:
    """The ledger of one run, as one process reads and writes it.

    Attributes:
        root: the run directory.
        uid: identity of the run, which every segment names.
    """

    def __init__(self, root: Path, uid: str) -> None:
        self.root = root
        self.uid = uid
        self._lock = threading.Lock()
        self._read: dict[str, _Segment] = {}
        self._listing: Listing | None = None
        self._merged = _Merged()
        self._owner = 0  # process that the open segment belongs to: a fork must not write on in it
        self._path: Path | None = None
        self._open: dict[str, Any] = {}

    # ----------------------------------------------------------------------------------------------------- writing
    def add(
        self,
        files: Mapping[str, str] | None = None,
        *,
        replaced: Iterable[str] = (),
        sources: Mapping[str, Iterable[str]] | None = None,
    ) -> None:
        """Name files, and those that nobody shall read any more.

        Args:
            files: hashes by path in the run, with ``/``.
            replaced: paths that are not to be read any more.
            sources: by path, those it was put together from without changing a row; they are not read any more either.
        """
        with self._lock:
            if self._owner != os.getpid() or self._path is None or _length(self._open) >= SEGMENT:
                self._owner = os.getpid()
                self._path = self.root / FOLDER / f"{os.urandom(8).hex()}.json"
                self._open = {"run": self.uid, "files": {}, "replaced": [], "sources": {}}
            self._open["files"] |= files or {}
            self._open["replaced"] += replaced
            self._open["sources"] |= {path: list(before) for path, before in (sources or {}).items()}
            # Not synced: its damage shows, and a repair makes it anew from the names of the parts, which are.
            write_json(self._path, self._open | {"checksum": content_hash(self._open)}, sync=False)

    # ----------------------------------------------------------------------------------------------------- reading
    def segments(self) -> list[Path]:
        """Files of the ledger that are there now."""
        return sorted((self.root / FOLDER).glob("*.json"))

    def owner(self) -> str:
        """The run that all whole segments name; empty if there are none, or if they name several."""
        owners: set[str] = set()
        for path in self.segments():
            with suppress(DamagedRun, FileNotFoundError):
                owners.add(str(self._record(path)["run"]))
        return owners.pop() if len(owners) == 1 else ""

    def listing(self) -> Listing:
        """What the ledger says now.

        Raises:
            DamagedRun: a segment is not what was written, or of another run.
        """
        with self._lock:
            if self._refresh() or self._listing is None:
                self._listing = self._merged.listing()
            return self._listing

    def arrivals(self) -> Arrivals:
        """The files named so far, in the order in which this object learned of them; costs no more than what is new.

        Raises:
            DamagedRun: as ``listing``.
        """
        with self._lock:
            if self._refresh():
                self._listing = None
            return Arrivals(self._merged.paths, self._merged.hashes, self._merged.replaced)

    def _refresh(self) -> bool:
        """Read what was added to the ledger, and say whether anything changed.

        A segment that is full is never written again, so it is read once; the others are few, one for each process.
        """
        folder = self.root / FOLDER
        if is_remote(folder):
            there = {path.name: path for path in self.segments()}
        else:
            names = os.listdir(folder) if folder.is_dir() else []
            there = {name: folder / name for name in names if name.endswith(".json") and not name.startswith(".")}
        changed: dict[str, _Segment] = {}
        gone = self._read.keys() - there.keys()
        for name in sorted(name for name in there if name not in self._read or not self._read[name].full):
            try:
                status = there[name].stat()
                stamp = (status.st_mtime_ns, status.st_size)
                if name not in self._read or self._read[name].stamp != stamp:
                    changed[name] = _Segment(stamp, self.segment(there[name]))
            except FileNotFoundError:  # removed by a repair
                gone |= self._read.keys() & {name}
        if not changed and not gone:
            return False
        rewritten = any(name in self._read and not changed[name].continues(self._read[name]) for name in changed)
        self._read = {name: known for name, known in self._read.items() if name not in gone} | changed
        if gone or rewritten:  # by a repair: what was merged cannot be taken apart again
            self._merged = _Merged()
            changed = self._read
        for known in changed.values():
            self._merged.add(known.record)
        return True

    def segment(self, path: Path) -> dict[str, Any]:
        """The content of one segment.

        Args:
            path: its file.

        Raises:
            DamagedRun: it is not what was written, or of another run.
        """
        record = self._record(path)
        if record["run"] != self.uid:
            raise DamagedRun.of(self.root, path, "it belongs to another run")
        return record

    def _record(self, path: Path) -> dict[str, Any]:
        try:
            record: dict[str, Any] = json.loads(path.read_bytes())
            checksum = record.pop("checksum")
            whole = checksum == content_hash(record) and isinstance(record["run"], str)
        except FileNotFoundError:
            raise
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
            raise DamagedRun.of(self.root, path, f"it is no record of a ledger: {err!r}") from err
        if not whole:
            raise DamagedRun.of(self.root, path, "its content is not what was written")
        return record


def _length(record: Mapping[str, Any]) -> int:
    """How many files a segment names in all."""
    return len(record["files"]) + len(record["replaced"]) + sum(map(len, record["sources"].values()))


@dataclass(frozen=True)
class _Segment:
    """A segment as it was read: modification time and size of its file, and its content."""

    stamp: tuple[int, int]
    record: Mapping[str, Any]

    @property
    def full(self) -> bool:
        return _length(self.record) >= SEGMENT

    def continues(self, before: _Segment) -> bool:
        """Whether it says all that was said before, as it does unless a repair wrote it anew."""
        old, new = before.record, self.record
        return (
            old["files"].items() <= new["files"].items()
            and set(old["replaced"]) <= set(new["replaced"])
            and all(new["sources"].get(path) == sources for path, sources in old["sources"].items())
        )


class _Merged:
    """What the segments read so far say together; adding one costs as much as it is long."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.hashes: dict[str, set[str]] = {}
        self.replaced: set[str] = set()
        self.sources: dict[str, tuple[str, ...]] = {}

    def add(self, record: Mapping[str, Any]) -> None:
        for path, digest in record["files"].items():
            if path not in self.hashes:
                self.paths.append(path)
            self.hashes.setdefault(path, set()).add(digest)
        self.replaced.update(record["replaced"], *record["sources"].values())
        self.sources |= {path: tuple(before) for path, before in record["sources"].items()}

    def listing(self) -> Listing:
        live = {path: frozenset(digests) for path, digests in self.hashes.items() if path not in self.replaced}
        return Listing(live, frozenset(self.replaced), dict(self.sources))
