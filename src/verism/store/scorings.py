"""A scoring of a run: rules, judges, verdicts, scores and what explains them, as one unit that is there or not.

Its files are written to a folder of their own, ``RUN/scorings/<id>``. It counts from the moment the small file
``RUN/scoring.json`` names it, which is replaced whole. Whoever reads verdicts and scores reads those of one scoring.

The scoring that counted before stays, so that a run can go back to it, and so do scorings that have a name.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from verism.errors import DamagedRun, UsageError
from verism.files import json_bytes, whole_file, write_json, write_new, write_whole
from verism.locations import is_remote, remove_tree
from verism.manifest import Scoring, scoring_of_record
from verism.records import content_hash
from verism.store.ledger import sha256

__all__ = [
    "FILES",
    "FOLDER",
    "POINTER",
    "GoneScoring",
    "StoredScoring",
    "check_scoring_name",
    "current_scoring",
    "kept_scorings",
    "last_scoring",
    "point_to",
    "write_scoring",
]

FOLDER = "scorings"
POINTER = "scoring.json"
HELD_BYTES = 2**22  # of a file that is kept in memory; larger ones are copied
ATTEMPTS = 100  # to copy the scores that count while other processes score
RECORD = "scoring.json"  # in the folder of a scoring
SCORES, SCORES_JSON, VERDICTS = "scores.parquet", "scores.json", "verdicts.parquet"
ADJUSTMENTS, PRESENTATION, SECTIONS = "adjustments.json", "presentation.json", "sections.json"
FILES = (VERDICTS, SCORES, SCORES_JSON, ADJUSTMENTS, PRESENTATION, SECTIONS)


class GoneScoring(DamagedRun):
    """The folder of a scoring is not there: others may have taken its place meanwhile."""


@dataclass(frozen=True, kw_only=True)
class StoredScoring:
    """A scoring that is there, or one that is about to be written.

    Attributes:
        run: the run directory.
        scoring: rules, judges and remarks.
        inputs: hashes of the tables it was made from, by folder.
        hashes: hashes of its files by name; None where they are not known, in runs of earlier versions.
        folder: where its files lie; None while it is held in memory alone.
        contents: its files by name, of a scoring that is not written yet; large ones as files elsewhere.
        previous: name of the folder of the scoring that counted before; empty for the first.
        name: by which it is kept; empty for one that goes when two others were made after it.
        created: when it was written, ISO 8601 in UTC; empty where that is not known.
        folders: temporary ones that large ``contents`` lie in; they go with the last scoring that holds them.
    """

    run: Path
    scoring: Scoring
    inputs: Mapping[str, str] = field(default_factory=dict)
    hashes: Mapping[str, str | None] = field(default_factory=dict)
    folder: Path | None = None
    contents: Mapping[str, bytes | Path] = field(default_factory=dict)
    previous: str = ""
    name: str = ""
    created: str = ""
    folders: list[tempfile.TemporaryDirectory[str]] = field(default_factory=list, compare=False, repr=False)

    def __contains__(self, name: str) -> bool:
        return name in self.contents or name in self.hashes

    def read(self, name: str) -> bytes:
        """The content of one of its files, checked against its hash.

        Args:
            name: one of ``FILES`` that it has.

        Raises:
            DamagedRun: the file is gone or altered.
        """
        if name in self.contents:
            content = self.contents[name]
            return content.read_bytes() if isinstance(content, Path) else content
        path = self.path(name)
        try:
            data = path.read_bytes()
        except OSError as err:
            raise _unreadable(self.run, path, err) from err
        expected = self.hashes[name]
        if expected is not None and sha256(data) != expected:
            raise DamagedRun.of(self.run, path, "its content is not what was written")
        return data

    def source(self, name: str) -> Path | io.BytesIO:
        """One of its files for reading bit by bit, after its hash was checked.

        Args:
            name: one of ``FILES`` that it has.

        Raises:
            DamagedRun: the file is gone or altered.
        """
        if name in self.contents:
            content = self.contents[name]
            return content if isinstance(content, Path) else io.BytesIO(content)
        path = self.path(name)
        if is_remote(path):
            return io.BytesIO(self.read(name))
        try:
            digest = file_sha256(path)
        except OSError as err:
            raise _unreadable(self.run, path, err) from err
        if self.hashes[name] not in (None, digest):
            raise DamagedRun.of(self.run, path, "its content is not what was written")
        return path

    def _held(self, name: str) -> bytes | Path:
        """A file as ``contents`` holds it: nobody who scores the run meanwhile can change it."""
        if name in self.contents:
            return self.contents[name]
        source = self.source(name)
        if not isinstance(source, Path) or source.stat().st_size <= HELD_BYTES:
            return self.read(name)
        folder = tempfile.TemporaryDirectory(prefix="verism-scoring-", ignore_cleanup_errors=True)
        copied = Path(folder.name) / name
        try:
            shutil.copyfile(source, copied)
        except OSError as err:
            folder.cleanup()
            raise _unreadable(self.run, source, err) from err
        if self.hashes[name] not in (None, file_sha256(copied)):
            raise DamagedRun.of(self.run, source, "its content is not what was written")
        self.folders.append(folder)
        return copied

    def path(self, name: str) -> Path:
        """Where one of its files lies."""
        return (self.folder or self.run) / name

    def changed(self, contents: Mapping[str, bytes | Path | None], **fields: Any) -> StoredScoring:
        """The scoring with other files, held in memory; large ones in a temporary folder.

        Args:
            contents: files by name; None for one that it shall not have.
            **fields: other fields of the record.
        """
        kept = {name: self._held(name) for name in FILES if name in self and name not in contents}
        new = {name: data for name, data in contents.items() if data is not None}
        hashes = {name: self.hashes[name] for name in kept if self.hashes.get(name)}  # they stay what they are
        return replace(self, contents=kept | new, hashes=hashes, folder=None, **fields)


def current_scoring(run: Path) -> StoredScoring | None:
    """The scoring of a run that counts; None if there is none yet.

    Args:
        run: the run directory.

    Raises:
        DamagedRun: what names it, or its record, is gone or altered.
    """
    try:
        pointer = _pointer(run)
    except FileNotFoundError:
        # The copy is written after it; without one, the first scoring is being written, or was killed at it.
        if (run / SCORES_JSON).exists() and any((run / FOLDER).glob(f"*/{RECORD}")):
            raise GoneScoring.of(run, run / POINTER, "it is gone, and there are scorings") from None
        return None
    stored = read_scoring(run, run / FOLDER / pointer["scoring"], pointer["sha256"])
    return replace(stored, previous=str(pointer.get("previous", stored.previous)))


def kept_scorings(run: Path) -> list[StoredScoring]:
    """The scorings a run keeps, the oldest first: those with a name, the one that counts and the one before it.

    Args:
        run: the run directory.

    Raises:
        DamagedRun: the record of the one that counts is gone or altered; others are left out then.
    """
    current = current_scoring(run)
    if current is None or current.folder is None:
        return []
    named = _newest_by_name(run)
    folders = {current.folder.name, *([current.previous] if current.previous else []), *named.values()}
    kept = []
    for folder in sorted(folders):
        with suppress(DamagedRun):
            kept.append(current if folder == current.folder.name else read_scoring(run, run / FOLDER / folder))
    return kept


def _newest_by_name(run: Path) -> dict[str, str]:
    """Folder of each named scoring: of several with a name the newest. Damaged ones have none."""
    newest: dict[str, str] = {}
    for folder in sorted((run / FOLDER).glob("*")):
        with suppress(DamagedRun):
            if name := read_scoring(run, folder).name:
                newest[name] = folder.name
    return newest


def check_scoring_name(name: str) -> str:
    """The name of a scoring, if it is one.

    Args:
        name: letters, digits and ``._-``, at most 60.

    Raises:
        UsageError: it is something else.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}", name):
        raise UsageError(
            f"{name!r:.80} is no name of a scoring: use up to 60 letters, digits, dots, hyphens and underscores"
        )
    return name


def _pointer(run: Path) -> dict[str, Any]:
    path = run / POINTER
    data = path.read_bytes()
    try:
        record: dict[str, Any] = json.loads(data)
        checksum = record.pop("checksum")
        whole = checksum == content_hash(record) and Path(record["scoring"]).name == record["scoring"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
        raise DamagedRun.of(run, path, f"it does not name a scoring: {err!r}") from err
    if not whole:
        raise DamagedRun.of(run, path, "its content is not what was written")
    return record


def last_scoring(run: Path) -> StoredScoring | None:
    """The scoring that counts, or counted last, as far as anything still tells; None if nothing does.

    Its files may be damaged: of those whose hashes are lost none is named.

    Args:
        run: the run directory.
    """
    folders = sorted((run / FOLDER).glob("*"), reverse=True)
    made: Scoring | None = None
    with suppress(DamagedRun, OSError):
        pointer = _pointer(run)
        folders = [run / FOLDER / pointer["scoring"]]
        made = scoring_of_record(pointer["made"])
    for folder in folders:
        with suppress(DamagedRun):
            return read_scoring(run, folder)
    return None if made is None else StoredScoring(run=run, scoring=made)


def read_scoring(run: Path, folder: Path, expected: str | None = None) -> StoredScoring:
    """One scoring of a run.

    Args:
        run: the run directory.
        folder: its folder.
        expected: hash of its record, if it is known.

    Raises:
        DamagedRun: its record is gone or altered.
    """
    path = folder / RECORD
    try:
        data = path.read_bytes()
    except OSError as err:
        raise _unreadable(run, path, err) from err
    try:
        record = json.loads(data)
        checksum = record.pop("checksum")
        if checksum != content_hash(record) or (expected is not None and sha256(data) != expected):
            raise DamagedRun.of(run, path, "its content is not what was written")
        return StoredScoring(
            run=run,
            scoring=scoring_of_record(record["scoring"]),
            inputs=dict(record["inputs"]),
            hashes=dict(record["files"]),
            folder=folder,
            previous=str(record["previous"]),
            name=str(record.get("name", "")),
            created=str(record.get("created", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
        raise DamagedRun.of(run, path, f"it is no record of a scoring: {err!r}") from err


def _unreadable(run: Path, path: Path, err: OSError) -> DamagedRun:
    if not path.parent.exists():
        return GoneScoring.of(run, path, "its scoring is gone")
    what = "it is gone" if isinstance(err, FileNotFoundError) else f"it cannot be read: {err.strerror or err}"
    return DamagedRun.of(run, path, what)


def write_scoring(
    draft: StoredScoring, before: StoredScoring | None, *, unless_there: bool = False
) -> StoredScoring | None:
    """Write a scoring, and let it count.

    Args:
        draft: held in memory.
        before: the scoring that counts now. It stays, for those who are reading it; the one before it is removed.
        unless_there: whether one that another process writes at the same time counts, and this one is dropped.

    Returns:
        The scoring as it lies on the disk; None if it was dropped.
    """
    run = draft.run
    previous = before.folder.name if before is not None and before.folder is not None else ""
    others = [path.name.partition("-")[0] for path in (run / FOLDER).glob("*")]
    number = max((int(other) for other in others if other.isdigit()), default=0) + 1  # also after going back
    folder = run / FOLDER / f"{number:04}-{os.urandom(4).hex()}"
    hashes = {}
    for name, data in draft.contents.items():
        if isinstance(data, Path) and not is_remote(folder):
            with whole_file(folder / name) as temporary:
                shutil.copyfile(data, temporary)
            hashes[name] = file_sha256(data)
        else:
            content = data.read_bytes() if isinstance(data, Path) else data
            write_whole(folder / name, content)
            hashes[name] = sha256(content)
    record = {
        "scoring": asdict(draft.scoring),
        "inputs": dict(draft.inputs),
        "files": hashes,
        "previous": previous,
        "name": draft.name,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    record = json.loads(json.dumps(record))
    write_json(folder / RECORD, record | {"checksum": content_hash(record)})
    if not _write_pointer(run, folder, record["scoring"], previous, unless_there=unless_there):
        remove_tree(folder)
        return None
    named = _newest_by_name(run)
    passed = [before.previous] if before is not None and before.previous else []
    if draft.name:  # another scoring had the name
        passed += [other.folder.name for other in _others_named(run, draft.name, folder) if other.folder is not None]
    for name in dict.fromkeys(passed):
        if name not in (folder.name, previous, *named.values()):
            remove_tree(run / FOLDER / name)
    return replace(draft, folder=folder, hashes=record["files"], contents={}, previous=previous)


def _others_named(run: Path, name: str, folder: Path) -> list[StoredScoring]:
    others = []
    for other in sorted((run / FOLDER).glob("*")):
        with suppress(DamagedRun):
            stored = read_scoring(run, other)
            if stored.name == name and other.name != folder.name:
                others.append(stored)
    return others


def point_to(stored: StoredScoring, before: StoredScoring) -> StoredScoring:
    """Let a scoring that is kept count again; the one that counts now is the one before it.

    Args:
        stored: the scoring.
        before: the scoring that counts now. The one before that goes if it has no name.

    Returns:
        The scoring as it counts.
    """
    assert stored.folder is not None
    assert before.folder is not None
    run, named = stored.run, _newest_by_name(stored.run)
    _write_pointer(run, stored.folder, json.loads(json.dumps(asdict(stored.scoring))), before.folder.name)
    if before.previous and before.previous not in (stored.folder.name, *named.values()):
        remove_tree(run / FOLDER / before.previous)
    return replace(stored, previous=before.folder.name)


def _write_pointer(
    run: Path, folder: Path, made: Mapping[str, Any], previous: str, *, unless_there: bool = False
) -> bool:
    """Name the scoring that counts, and copy its scores.

    Args:
        run: the run directory.
        folder: of the scoring.
        made: its rules, judges and remarks as plain JSON.
        previous: folder of the scoring that counted before.
        unless_there: whether nothing is done where one is named already.

    Returns:
        Whether it was done.
    """
    digest = sha256((folder / RECORD).read_bytes())
    pointer = {"scoring": folder.name, "sha256": digest, "made": made, "previous": previous}
    content = json_bytes(pointer | {"checksum": content_hash(pointer)})
    if not unless_there:
        write_whole(run / POINTER, content)
    elif not write_new(run / POINTER, content):
        return False
    publish(run)
    return True


def publish(run: Path) -> None:
    """Copy the scores that count to where scripts look for them.

    Args:
        run: the run directory.
    """
    copied: Path | None = None
    for attempt in range(ATTEMPTS):
        try:
            stored = current_scoring(run)
            if stored is None or SCORES_JSON not in stored or stored.folder == copied:
                return  # what was copied still counts: of several processes that score, the last one sees to it
            write_whole(run / SCORES_JSON, stored.read(SCORES_JSON))
            copied = stored.folder
        except GoneScoring:  # others took its place meanwhile
            if attempt == ATTEMPTS - 1:
                raise


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits, read bit by bit.

    Args:
        path: of this machine.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
