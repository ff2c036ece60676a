"""Is a run directory whole? Every file against its hash, and what can be removed so that it is made again."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import compress, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from verism.errors import DamagedRun, repair_command
from verism.files import write_json
from verism.locations import RemotePath, is_remote, location, names_in, remove_tree
from verism.shards import SUFFIX, member_of, shard_of
from verism.store import blocks, scorings
from verism.store.ids import IdSet, digests
from verism.store.images import SHARDS, renew_shards
from verism.store.ledger import FOLDER as LEDGER
from verism.store.ledger import NameHash, is_authentic, sha256
from verism.store.run import MANIFEST, PROMPTS, TRUTH, Run
from verism.store.scorings import StoredScoring, current_scoring, last_scoring, write_scoring

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

__all__ = ["REPAIR", "Finding", "Problem", "Repair", "Verification", "begin_repair", "discard", "verify"]

Problem = Literal["missing", "damaged", "foreign", "outdated", "leftover"]
State = tuple[Problem, str]  # of an image: what is wrong with it, also in words
CHUNK = 1 << 20  # bytes read at once
REMOTE_CHUNK = 1 << 24
READERS = 4  # files hashed at once


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something in a run directory that is not as it was written.

    Attributes:
        file: path in the run with ``/``, or the absolute path of an image that lies elsewhere; of an image in a shard
            also where in it.
        problem: ``missing``, ``damaged`` (not what was written), ``foreign`` (nothing that this run wrote),
            ``outdated`` (made from tables that changed since), or ``leftover`` (of a process that was killed or is
            still writing; nobody reads it, and the run is whole with it).
        what: the same in words.
        remedy: what ``--repair`` does, or what to do where it cannot.
        image_id: the image whose file it is; empty for other files.
    """

    file: str
    problem: Problem
    what: str
    remedy: str
    image_id: str = ""


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What ``verify`` found.

    Attributes:
        run: the run directory.
        ledger: whether the run has a ledger; without one, of runs of earlier versions, only images can be checked.
        files: files of tables and of the scoring that were checked.
        images: images that were checked, real ones included.
        findings: what is not as it was written.
    """

    run: Path
    ledger: bool
    files: int
    images: int
    findings: tuple[Finding, ...]

    @property
    def is_whole(self) -> bool:
        """Whether nothing is wrong; leftovers are not."""
        return all(finding.problem == "leftover" for finding in self.findings)

    def record(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "run": str(self.run),
            "whole": self.is_whole,
            "ledger": self.ledger,
            "files": self.files,
            "images": self.images,
            "findings": [asdict(finding) for finding in self.findings],
        }

    def text(self) -> str:
        """As lines for a terminal."""
        state = "whole" if self.is_whole else "damaged"
        known = "" if self.ledger else "; no ledger, as of earlier versions: tables were not checked"
        lines = [f"{self.run}: {state}; {self.files:,} files and {self.images:,} images checked{known}"]
        lines += [f"  {f.problem:<8} {f.file}: {f.what} (repair: {f.remedy})" for f in self.findings]
        if not self.is_whole and self.ledger:
            lines.append(f"repair: {repair_command(self.run)}")
        return "\n".join(lines)


def verify(path: Path) -> Verification:
    """Check every file of a run, images included.

    Args:
        path: the run directory.

    Raises:
        UsageError: it is no run directory.
    """
    try:
        run = Run.open(path, scoring=False)
    except DamagedRun as err:
        manifest = Finding(
            file=MANIFEST, problem="damaged", what=_reason(err), remedy="restore it from a copy; nothing else has it"
        )
        return Verification(run=path, ledger=True, files=1, images=0, findings=(manifest,))
    if run.ledger is not None and (owner := run.ledger.owner()) not in ("", run.manifest.uid) and not _has_parts(run):
        # Else all that belongs to the directory would be taken for foreign, and a repair would remove it.
        what = f"it is another run's: the ledger is of run {owner}, and this is of {run.manifest.uid}"
        manifest = Finding(
            file=MANIFEST, problem="foreign", what=what, remedy="restore it from a copy; nothing else has it"
        )
        return Verification(run=path, ledger=True, files=1, images=0, findings=(manifest,))
    check = _Check(run)
    check.tables()
    check.images()
    check.scoring()
    if (path / REPAIR).exists():
        check.note(REPAIR, "outdated", "a repair was stopped before its end", "the repair goes on")
    return Verification(
        run=path, ledger=run.ledger is not None, files=check.files, images=check.n_images, findings=tuple(check.found)
    )


def _has_parts(run: Run) -> bool:
    """Whether a part says by its own name that it belongs to the manifest's run."""
    assert run.ledger is not None
    for path in _parts(run.path):
        folder, _, name = path.rpartition("/")
        with suppress(OSError):
            if is_authentic(run.ledger.uid, folder, name, (run.path / path).read_bytes()):
                return True
    return False


def _reason(err: DamagedRun) -> str:
    return str(err).partition(" is damaged: ")[2].partition(". Check and repair")[0] or str(err)


class _Check:
    """One pass over a run directory."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.files = 1  # the manifest
        self.n_images = 0
        self.found: list[Finding] = []

    def note(self, file: str, problem: Problem, what: str, remedy: str, image_id: str = "") -> None:
        self.found.append(Finding(file=file, problem=problem, what=what, remedy=remedy, image_id=image_id))

    # -------------------------------------------------------------------------------------------------------- tables
    def tables(self) -> None:
        """Ledger, prompts, and the parts of all tables."""
        ledger = self.run.ledger
        there = _parts(self.run.path)
        if ledger is None:
            for path in there:
                self.parsed(path)
            return
        for segment in ledger.segments():
            self.files += 1
            try:
                ledger.segment(segment)
            except DamagedRun as err:
                self.note(self.relative(segment), "damaged", _reason(err), "removed; what it named is named anew")
            except FileNotFoundError:
                continue
        if self.found:
            return  # without a whole ledger nothing more can be said of the tables
        listing = ledger.listing()
        for path in sorted({*listing.hashes, *there, PROMPTS}):
            if path in listing.hashes:
                self.listed(path, listing.hashes[path])
            elif path in listing.replaced:
                self.note(path, "leftover", "others took its place", "removed")
            elif path != PROMPTS:
                self.unlisted(path)
            elif (self.run.path / path).exists():
                self.note(path, "foreign", "this run did not write it", "removed; prompts are written again")
            elif there:
                self.note(path, "missing", "it is gone", "prompts are written again")
        for file in sorted(_temporary(self.run.path)):
            self.note(self.relative(file), "leftover", "a process was killed while it wrote", "removed")

    def listed(self, path: str, hashes: frozenset[str]) -> None:
        self.files += 1
        again = "made again" if path != PROMPTS else "prompts are written again"
        try:
            self.run.checked(path, hashes)
        except FileNotFoundError:
            ledger = self.run.ledger
            if ledger is None or path in ledger.listing().hashes:  # not replaced meanwhile
                self.note(path, "missing", "it is gone", again)
        except DamagedRun as err:
            self.note(path, "damaged", _reason(err), f"removed, and {again}")
        except OSError as err:
            self.note(path, "damaged", f"it cannot be read: {err.strerror or err}", f"removed, and {again}")

    def unlisted(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        try:
            data = (self.run.path / path).read_bytes()
        except OSError:
            return
        assert self.run.ledger is not None
        if is_authentic(self.run.ledger.uid, folder, name, data):
            self.note(path, "leftover", "not in the ledger yet: its writer was killed, or is at it", "entered there")
        else:
            self.note(path, "foreign", "it is no file that this run wrote", f"set aside as {name}{ASIDE}")

    def parsed(self, path: str) -> None:
        self.files += 1
        try:
            self.run._parsed(self.run.path / path, (self.run.path / path).read_bytes())
        except DamagedRun as err:
            self.note(path, "damaged", _reason(err), "restore it from a copy, or remove it and run the same command")
        except OSError as err:
            self.note(path, "damaged", f"it cannot be read: {err.strerror or err}", "restore it from a copy")

    def relative(self, path: Path) -> str:
        return path.relative_to(self.run.path).as_posix()

    # -------------------------------------------------------------------------------------------------------- images
    def images(self) -> None:
        """The images of the run and the real ones, as far as the tables can be read."""
        if any(finding.file.startswith(f"{LEDGER}/") for finding in self.found):
            return
        named: list[NDArray[np.bytes_]] = []
        for table in ("images", "reference"):
            try:
                named += self.images_of(table)
            except DamagedRun:
                return  # noted already
        known = IdSet.of_digests(named)
        for folder, suffix in (("images", ".png"), (SHARDS, SUFFIX)):
            names = (f"{folder}/{name}" for name in names_in(self.run.path / folder) if name.endswith(suffix))
            unnamed: list[str] = []
            while some := list(islice(names, blocks.BLOCK)):
                unnamed += compress(some, ~known.holds(some))
            for file in sorted(unnamed):
                self.note(file, "leftover", "no row names it", "removed")

    def images_of(self, table: str) -> Iterator[NDArray[np.bytes_]]:
        """Look at the images of a table, some thousand at a time.

        A shard is read once, for all of its images, and they are made in another order than that of their ids: so the
        rows of images in shards are dealt by shard before.

        Args:
            table: that lists them.

        Yields:
            ``digests`` of the files that rows name.

        Raises:
            DamagedRun: the table cannot be read.
        """
        import polars as pl

        columns = ["image_id", "path", "sha256"]
        with (
            ThreadPoolExecutor(max_workers=READERS, thread_name_prefix="verism-io") as pool,
            self.run.blocks({}, images=table, columns=columns) as listed,
            blocks.Dealer(_shard_bounds(self.run, table)) as by_shard,
        ):
            for rows, _ in listed:
                rows = rows.drop_nulls(["path", "sha256"])
                rows = rows.with_columns(pl.col("path").map_elements(shard_of, pl.String).alias("shard"))
                self.n_images += rows.height
                files = rows.filter(pl.col("shard").is_null())
                yield digests(files["path"])
                members = files.rows(named=True)
                for row, state in zip(members, pool.map(self.state, members), strict=True):
                    self.image(table, row, state)
                by_shard.deal(table, rows.filter(pl.col("shard").is_not_null()), by="shard")
            for number in range(len(by_shard)):
                shards = by_shard.take(table, number, rows.clear).partition_by("shard", maintain_order=True)
                yield digests(part["shard"][0] for part in shards)
                self.files += sum(not location(part["shard"][0]).is_absolute() for part in shards)
                for start in range(0, len(shards), READERS):
                    group = [part.rows(named=True) for part in shards[start : start + READERS]]
                    names = [members[0]["shard"] for members in group]
                    for shard, members, (whole, states) in zip(
                        names, group, pool.map(self.shard, names, group), strict=True
                    ):
                        if whole is not None and not location(shard).is_absolute():
                            self.note(shard, *whole)
                        for row, state in zip(members, states, strict=True):
                            self.image(table, row, state)

    def image(self, table: str, row: Mapping[str, Any], state: State | None) -> None:
        """Note what is wrong with an image, if anything is."""
        if state is not None:
            own = not location(row["path"]).is_absolute()
            remedy = "removed, and made again" if own else "restore the file, or start a new run"
            self.note(row["path"], *state, remedy, row["image_id"] if table == "images" else "")

    def state(self, row: Mapping[str, Any]) -> State | None:
        """What is wrong with an image in a file of its own; None if it is what it was."""
        state = _state(self.run.resolve(row["path"]), row["sha256"])
        if state is None or state[0] != "missing":
            return state
        return self.elsewhere(row, state)

    def elsewhere(self, row: Mapping[str, Any], state: State) -> State | None:
        """What is wrong with an image that is not where its row says: nothing if its run has put it elsewhere."""
        try:
            moved = sha256(self.run.image_bytes(row)) == row["sha256"]
        except (OSError, ValueError):
            return state
        return None if moved else state

    def shard(
        self, shard: str, rows: Sequence[Mapping[str, Any]]
    ) -> tuple[tuple[Problem, str, str] | None, list[State | None]]:
        """What is wrong with a shard, and with each of its images, by reading it once.

        Args:
            shard: its path, as rows have it.
            rows: of its images.
        """
        file, own = self.run.resolve(shard), not location(shard).is_absolute()
        members = [member_of(Path(row["path"])) for row in rows]
        ranges = [(m.offset, m.length) for m in members if m is not None]
        named = NameHash("" if self.run.ledger is None else self.run.ledger.uid, SHARDS, file.name)
        try:
            digests = _range_digests(file, ranges, named)
        except FileNotFoundError:
            gone: State = ("missing", f"its shard {file.name} is gone")
            states = [self.elsewhere(row, gone) for row in rows]
            if own and all(states):
                return ("missing", f"it is gone, with {len(rows):,} images", "they are made again"), [None] * len(rows)
            return None, states
        except (OSError, ValueError) as err:
            unread: State = ("damaged", f"it cannot be read: {getattr(err, 'strerror', None) or err}")
            return (*unread, "removed, and its images are made again"), [unread] * len(rows)
        expected = [row["sha256"] for row in rows]
        states = [
            None
            if digest == sha
            else ("damaged", "its shard ends before it" if digest is None else "its content is not what it was")
            for digest, sha in zip(digests, expected, strict=True)
        ]
        if named.agrees:
            return None, states
        return ("damaged", "its content is not what was written", "its other images are written anew"), states

    # ------------------------------------------------------------------------------------------------------- scoring
    def scoring(self) -> None:
        """The scoring that counts, its copy for scripts, and the tables it was made from."""
        if self.run.ledger is None:
            return
        again = "scores are computed again"
        try:
            stored = current_scoring(self.run.path)
        except DamagedRun as err:
            self.note(str(err).partition(" is damaged: ")[0], "damaged", _reason(err), again)
            self.found[-1] = replace(self.found[-1], file=_inside(self.run.path, self.found[-1].file))
            return
        current = "" if stored is None or stored.folder is None else stored.folder.name
        if stored is not None:
            self.files += 2 + len(stored.hashes)
            for name in stored.hashes:
                try:
                    stored.source(name)
                except DamagedRun as err:
                    problem: Problem = "damaged" if stored.path(name).exists() else "missing"
                    self.note(self.relative(stored.path(name)), problem, _reason(err), again)
            self.copy(stored)
            if all(f.problem == "leftover" for f in self.found) and (folders := self.run.outdated()):
                what = f"made from tables that changed since: {', '.join(folders)}"
                self.note(scorings.POINTER, "outdated", what, again)
        kept = [] if stored is None else scorings.kept_scorings(self.run.path)
        for one in kept:
            if one.folder is not None and one.folder.name != current and one.name:
                self.named_scoring(one)
        folders_kept = {current, *(one.folder.name for one in kept if one.folder is not None)}
        for folder in sorted((self.run.path / scorings.FOLDER).glob("*")):
            if folder.name not in folders_kept:
                self.note(self.relative(folder), "leftover", "a scoring that does not count", "removed")

    def named_scoring(self, stored: StoredScoring) -> None:
        """A scoring that is kept by its name and does not count now."""
        self.files += 1 + len(stored.hashes)
        for name in stored.hashes:
            try:
                stored.source(name)
            except DamagedRun as err:
                assert stored.folder is not None
                what = f"scoring {stored.name!r} is kept but {_reason(err)}"
                self.note(self.relative(stored.folder), "leftover", what, "removed; score by its rules again")
                return

    def copy(self, stored: StoredScoring) -> None:
        """The copy of the scores at the top of the run."""
        name = scorings.SCORES_JSON
        if name not in stored.hashes:
            return
        file = self.run.path / name
        if not file.exists():
            self.note(name, "missing", "it is gone", "copied again")
        elif sha256(file.read_bytes()) != stored.hashes[name]:
            self.note(name, "damaged", "it is no copy of the scores that count", "copied again")


def _inside(run: Path, file: str) -> str:
    path = location(file)
    return path.relative_to(run).as_posix() if path.is_relative_to(run) else file


def _parts(root: Path) -> list[str]:
    folders = [root / "images", root / "reference", *root.glob("observations/*/*")]
    found = (folder / name for folder in folders for name in names_in(folder, "part-") if name.endswith(".parquet"))
    return sorted(path.relative_to(root).as_posix() for path in found)


def _temporary(folder: Path) -> Iterator[Path]:
    """Files of writers that were killed, at any depth; a folder of a million files is not listed as a whole."""
    if is_remote(folder):
        yield from folder.rglob(".*.tmp")
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _temporary(folder / entry.name)
            elif entry.name.startswith(".") and entry.name.endswith(".tmp"):
                yield folder / entry.name


def _shard_bounds(run: Run, table: str) -> pl.Series:
    """First shards of all lots but the first, so that none has many more images than a block.

    Args:
        run: the run.
        table: that lists the images.
    """
    import polars as pl

    sizes: Counter[str | None] = Counter()
    run._each_part(
        table, ["path"], lambda rows: sizes.update(map(shard_of, rows["path"].drop_nulls())), begin=sizes.clear
    )
    sizes.pop(None, None)
    bounds, n_images = [], 0
    for shard in sorted(filter(None, sizes)):
        if n_images and n_images + sizes[shard] > blocks.BLOCK:
            bounds.append(shard)
            n_images = 0
        n_images += sizes[shard]
    return pl.Series(bounds, dtype=pl.String)


def _range_digests(file: Path, ranges: Sequence[tuple[int, int]], named: NameHash) -> list[str | None]:
    """SHA-256 of some ranges of a file, which is read once; None for those that it ends before.

    Args:
        file: the file.
        ranges: offset and length of each, bytes.
        named: is given all bytes of the file.
    """
    found: list[str | None] = [None] * len(ranges)
    waiting = deque(sorted(range(len(ranges)), key=lambda i: ranges[i]))
    begun: list[tuple[int, Any]] = []  # ranges that reach into the block, with what is known of their hash
    position = 0
    for block in _blocks(file):
        end = position + len(block)
        named.update(block)
        while waiting and ranges[waiting[0]][0] < end:
            begun.append((waiting.popleft(), hashlib.sha256()))
        rest = []
        for i, digest in begun:
            offset, length = ranges[i]
            digest.update(block[max(0, offset - position) : offset + length - position])
            if offset + length <= end:
                found[i] = digest.hexdigest()
            else:
                rest.append((i, digest))
        begun, position = rest, end
    return found


def _blocks(file: Path) -> Iterator[bytes]:
    """A file in blocks; of one in object storage, each by a request."""
    if isinstance(file, RemotePath):
        size = file.stat().st_size
        for start in range(0, size, REMOTE_CHUNK):
            yield file.read_range(start, min(REMOTE_CHUNK, size - start))
        return
    if file.exists() and not file.is_file():
        raise OSError("it is no regular file")
    with file.open("rb") as opened:
        while block := opened.read(CHUNK):
            yield block


def _state(path: Path, expected: str) -> State | None:
    """What is wrong with an image; None if it is what it was."""
    digest = hashlib.sha256()
    try:
        if path.exists() and not path.is_file():
            return "damaged", "it is no regular file"
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
    except FileNotFoundError:
        return "missing", "it is gone"
    except (OSError, ValueError) as err:
        return "damaged", f"it cannot be read: {getattr(err, 'strerror', None) or err}"
    return None if digest.hexdigest() == expected else ("damaged", "its content is not what it was")


# ---------------------------------------------------------------------------------------------------------- repairing
REPAIR = "repair.json"  # in the run, while a repair is under way


@dataclass(frozen=True, kw_only=True)
class Repair:
    """What a repair has to do once what is damaged is gone.

    Attributes:
        data: whether images or observations have to be made again.
        scores: whether the run was scored, and has to be again.
    """

    data: bool
    scores: bool


def begin_repair(run: Path, found: Verification) -> Repair:
    """What has to be done, written down: a repair that is killed after this is known, and can be finished.

    Args:
        run: the run directory.
        found: what ``verify`` found.
    """
    wrong = [f.file for f in found.findings if f.problem != "leftover" and f.file != REPAIR]
    data = any(not file.startswith((scorings.FOLDER, scorings.POINTER, scorings.SCORES_JSON)) for file in wrong)
    scores = bool(wrong) and last_scoring(run) is not None
    try:
        before = json.loads((run / REPAIR).read_bytes())
        data, scores = data or bool(before["data"]), scores or bool(before["scores"])
    except FileNotFoundError:
        pass
    except (ValueError, KeyError, TypeError, RecursionError):  # nobody can tell: everything
        data = scores = True
    todo = Repair(data=data, scores=scores)
    if data or scores:
        write_json(run / REPAIR, asdict(todo))
    return todo


ASIDE = ".foreign"


def discard(run: Run, found: Verification) -> list[Finding]:
    """Remove what is damaged, so that what is missing then can be made again; no other process may use the run.

    Args:
        run: the run, opened without its scoring.
        found: what ``verify`` found.

    Returns:
        What cannot be mended here: images that lie elsewhere, and the manifest.
    """
    ledger = run.ledger
    if ledger is None:
        return [finding for finding in found.findings if finding.problem != "leftover"]
    left: list[Finding] = []
    forgotten: list[str] = []
    shards: list[Finding] = []
    in_scoring = False
    for finding in found.findings:
        path = run.path / finding.file
        if finding.image_id or location(finding.file).is_absolute():
            if location(finding.file).is_absolute():
                left.append(finding)
            else:
                forgotten.append(finding.image_id)
                if shard_of(finding.file) is None:
                    path.unlink(missing_ok=True)
        elif finding.file.startswith(f"{SHARDS}/") and finding.problem != "leftover":
            shards.append(finding)
        elif finding.file == MANIFEST:
            left.append(finding)
        elif finding.file == REPAIR:
            continue
        elif finding.file.startswith((scorings.FOLDER, scorings.POINTER)) and finding.problem != "leftover":
            in_scoring = True
        elif finding.problem == "leftover":
            _tidy(run, finding)
        elif finding.problem == "foreign" and finding.file != PROMPTS:
            path.replace(path.with_name(path.name + ASIDE))
        elif finding.file != scorings.SCORES_JSON:
            path.unlink(missing_ok=True)
            if not finding.file.startswith(f"{LEDGER}/") and finding.file != PROMPTS:
                ledger.add(replaced=[finding.file])
    rows = run.read("images", columns=["image_id", "path"]).iter_rows() if shards else ()
    gone = {finding.file for finding in shards if finding.problem == "missing"}
    forgotten += [image_id for image_id, path in rows if path is not None and shard_of(path) in gone]
    if forgotten:
        run.forget("images", forgotten)
    renew_shards(run, {finding.file for finding in shards} - gone)
    _without_truth(run, found)
    if in_scoring:
        _empty_scoring(run)
    else:
        scorings.publish(run.path)
    return left


def _tidy(run: Run, finding: Finding) -> None:
    path = run.path / finding.file
    if path.is_dir():
        remove_tree(path)
    elif "not in the ledger" in finding.what and run.ledger is not None:
        run.ledger.add({finding.file: sha256(path.read_bytes())})
    else:
        path.unlink(missing_ok=True)


def _without_truth(run: Run, found: Verification) -> None:
    """Images whose ground truth was lost are made again, as only their generator knows it."""
    for table in sorted({f.file.split("/")[1] for f in found.findings if f.file.startswith("observations/")}):
        lost = [f for f in found.findings if f.file.startswith(f"observations/{table}/{TRUTH}/")]
        if any(f.problem in ("missing", "damaged") for f in lost):
            known = run.keys(table, TRUTH)
            own = [
                image_id
                for image_id, path in run.read("images", columns=["image_id", "path"]).iter_rows()
                if image_id not in known and path is not None and not location(path).is_absolute()
            ]
            run.forget("images", own)


def _empty_scoring(run: Run) -> None:
    """A scoring of the same rules and judges without numbers, in place of a damaged one."""
    stored = last_scoring(run.path)
    (run.path / scorings.POINTER).unlink(missing_ok=True)
    if stored is not None:
        kept = {name: data for name, data in _whole_files(stored) if name == scorings.PRESENTATION}
        stored = write_scoring(StoredScoring(run=run.path, scoring=stored.scoring, contents=kept), None)
    for folder in (run.path / scorings.FOLDER).glob("*"):
        if stored is None or folder != stored.folder:
            remove_tree(folder)


def _whole_files(stored: StoredScoring) -> Iterator[tuple[str, bytes]]:
    for name in stored.hashes:
        try:
            yield name, stored.read(name)
        except DamagedRun:
            continue
