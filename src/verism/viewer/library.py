"""What lies below a folder: runs in any state, plans, and pages. Nothing is ever written, and nothing outside is read.

Runs, plans and pages are called by their path below the folder. A name that comes from a browser is looked up among
those that were found, and never joined to a path.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from verism.errors import UsageError, VerismError
from verism.plans.status import PLAN_FILE, kept_statuses, read_rows
from verism.records import NEEDS, STATES, TABLES, Score, roles
from verism.report_kit import words
from verism.report_kit.coverage import coverage_of
from verism.report_kit.evidence import Vocabulary
from verism.specs import Presentation, SuiteInfo
from verism.store import TRUTH, Run, score_records
from verism.suites.catalogue import presentation_of

__all__ = [
    "DamagedRunError",
    "Entry",
    "Library",
    "NotFoundError",
    "fingerprint",
    "headline_records",
    "presentation_for",
    "reading",
]

MAX_DEPTH = 8  # of folders below the one that is served
MAX_RUNS = 5000
ACTIVE_S = 90.0  # seconds since a run last wrote, within which it counts as being worked on
RESCAN_S = 1.0  # seconds: polling pages of several people look through the folders once
LARGEST_PAGE = 64 * 2**20  # bytes of a page
REPORT = "report/index.html"  # of a run, as `verism report` writes it; boards link to it


class NotFoundError(VerismError):
    """No run, image or page of this name."""


class DamagedRunError(VerismError):
    """A file of a run cannot be read; the message says why."""


@contextmanager
def reading(run: Run) -> Iterator[None]:
    """Whatever reading a damaged run raises becomes one error that names the run.

    Args:
        run: the run that is read.
    Raises:
        DamagedRunError: a file is damaged, or was replaced while it was read.
    """
    import polars as pl

    try:
        yield
    except (NotFoundError, DamagedRunError):
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, pl.exceptions.PolarsError) as err:
        if isinstance(err, VerismError):
            raise
        raise DamagedRunError(f"{run.path} cannot be read: {_line(err)}") from err
    except BaseException as err:
        if type(err).__name__ != "PanicException":  # of polars, on files that only look like Parquet
            raise
        raise DamagedRunError(f"{run.path} cannot be read: {_line(err)}") from err


def _line(err: BaseException) -> str:
    return (str(err).splitlines() or [type(err).__name__])[0][:300]


def fingerprint(run: Run) -> tuple[tuple[str, int, int], ...]:
    """What changes whenever a file of a run's tables does: names, times and sizes. No file is opened.

    Args:
        run: the run.
    """
    found = []
    folders = [run.path, run.path / "images", *(run.path / "observations").glob("*/*")]
    for folder in folders:
        try:
            info = folder.stat()
            found.append((str(folder), info.st_mtime_ns, 0))
            if folder == run.path:
                with os.scandir(folder) as entries:
                    stats = [(e.path, e.stat()) for e in entries if e.is_file()]
                found += [(path, s.st_mtime_ns, s.st_size) for path, s in stats]
        except OSError:  # not there yet, or just replaced
            continue
    return tuple(sorted(found))


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A run as the list shows it.

    Attributes:
        key: path below the folder that is served.
        record: what the list shows, as plain JSON.
        run: the run; None if its manifest cannot be read.
    """

    key: str
    record: dict[str, Any]
    run: Run | None


@dataclass
class Library:
    """Runs, plans and pages below a folder.

    Attributes:
        root: the folder.
        truncated: whether it holds more runs than are listed.
    """

    root: Path
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _scanned: float = field(default=-1e9, repr=False)
    _runs: dict[str, Path] = field(default_factory=dict, repr=False)
    _plans: dict[str, Path] = field(default_factory=dict, repr=False)
    _pages: dict[str, Path] = field(default_factory=dict, repr=False)
    _runs_of_pages: dict[str, str] = field(default_factory=dict, repr=False)
    _entries: dict[str, tuple[Any, Entry]] = field(default_factory=dict, repr=False)
    truncated: bool = field(default=False, repr=False)

    def entries(self) -> list[Entry]:
        """All runs, the latest first; those that cannot be read say why."""
        with self._lock:
            self._scan()
            runs = dict(self._runs)
        found = [self._entry(key, path) for key, path in runs.items()]
        return sorted(found, key=lambda e: (e.record["created"], e.key), reverse=True)

    def entry(self, key: str) -> Entry:
        """A run by name.

        Args:
            key: its path below the folder.
        Raises:
            NotFoundError: none of this name was found.
        """
        return self._entry(key, self._found(self._runs, key, "run"))

    def run(self, key: str) -> Run:
        """A run that can be read.

        Args:
            key: its path below the folder.
        Raises:
            NotFoundError: none of this name was found.
            DamagedRunError: its manifest is damaged.
        """
        entry = self.entry(key)
        if entry.run is None:
            raise DamagedRunError(entry.record["error"])
        return entry.run

    def plans(self) -> list[dict[str, Any]]:
        """Plans below the folder: title, pairs by state, and the reasons of those that failed. No run is opened."""
        with self._lock:
            self._scan()
            found = sorted(self._plans.items())
        return [_plan_record(key, path) for key, path in found]

    def plan(self, key: str) -> Path:
        """The directory of a plan.

        Args:
            key: its path below the folder.
        Raises:
            NotFoundError: none of this name was found.
        """
        return self._found(self._plans, key, "plan")

    def key_of(self, path: Path) -> str | None:
        """The name of a run by its directory; None for one that was not found.

        Args:
            path: directory of a run.
        """
        with self._lock:
            self._scan()
            return next((key for key, known in self._runs.items() if known == path.resolve()), None)

    def pages(self) -> list[dict[str, Any]]:
        """Pages (``.html``) below the folder: name, and the run they lie in, or an empty text."""
        with self._lock:
            self._scan()
            return [{"key": key, "run": self._runs_of_pages.get(key, "")} for key in sorted(self._pages)]

    def page(self, key: str) -> bytes:
        """The content of a page.

        Args:
            key: its path below the folder.
        Raises:
            NotFoundError: none of this name was found, or it is no longer a regular file.
        """
        path = self._found(self._pages, key, "page")
        try:
            info = path.lstat()
            if not stat.S_ISREG(info.st_mode) or info.st_size > LARGEST_PAGE:
                raise NotFoundError(f"{key} is not a page that can be shown")
            return path.read_bytes()
        except OSError as err:
            raise NotFoundError(f"{key} cannot be read: {err.strerror}") from err

    # ------------------------------------------------------------------------------------------------------- folders
    def _found(self, among: dict[str, Path], key: str, what: str) -> Path:
        with self._lock:
            if key not in among:
                self._scan()
            path = among.get(key)
        if path is None:
            raise NotFoundError(f"there is no {what} {key!r} below {self.root}")
        return path

    def _scan(self) -> None:
        if time.monotonic() - self._scanned < RESCAN_S:
            return
        runs: dict[str, Path] = {}
        plans: dict[str, Path] = {}
        pages: dict[str, Path] = {}
        runs_of_pages: dict[str, str] = {}
        root = self.root.resolve()
        for folder, names, files in os.walk(root, followlinks=False):
            here = Path(folder)
            depth = len(here.relative_to(root).parts)
            key = here.relative_to(root).as_posix()
            if "manifest.json" in files and _is_own_file(here, "manifest.json"):
                runs[key] = here
                files = [*files, REPORT] if _is_own_file(here, REPORT) else files
                names.clear()  # what else lies in a run is the run's
            elif PLAN_FILE in files:
                plans[key] = here
            names[:] = sorted(n for n in names if not n.startswith(".")) if depth < MAX_DEPTH else []
            for name in sorted(files):
                path = here / name
                if name.lower().endswith((".html", ".htm")) and not name.startswith(".") and not path.is_symlink():
                    page = path.relative_to(root).as_posix()
                    pages[page] = path
                    if key in runs:
                        runs_of_pages[page] = key
            if len(runs) >= MAX_RUNS:
                break
        self.truncated = len(runs) >= MAX_RUNS
        # In place: lookups hold on to these.
        for known, found in ((self._runs, runs), (self._plans, plans), (self._pages, pages)):
            known.clear()
            known.update(found)
        self._runs_of_pages = runs_of_pages
        self._scanned = time.monotonic()

    # --------------------------------------------------------------------------------------------------------- a run
    def _entry(self, key: str, path: Path) -> Entry:
        name = path.name if key == "." else key
        empty = {
            "key": key,
            "name": name,
            "suite": "",
            "suite_title": "",
            "model": "",
            "created": "",
            "judges": {},
            "state": "damaged",
            "active": False,
            "error": "",
            "headlines": [],
            "progress": None,
        }
        try:
            run = Run.open(path)
        except (VerismError, OSError, RecursionError) as err:
            return Entry(key=key, record=empty | {"error": str(err)}, run=None)
        now = fingerprint(run)
        cached = self._entries.get(key)
        if cached is not None and cached[0] == now:
            entry = cached[1]
        else:
            entry = Entry(key=key, record=empty | self._record(run), run=run)
            self._entries[key] = (now, entry)
        latest = max((t for _, t, _ in now), default=0) / 1e9
        working = entry.record["state"] in ("generating", "judging") and time.time() - latest < ACTIVE_S
        return Entry(key=key, record=entry.record | {"active": working}, run=run)

    def _record(self, run: Run) -> dict[str, Any]:
        settings = run.manifest.settings
        record: dict[str, Any] = {
            "suite": settings.suite,
            "suite_title": settings.suite,
            "model": settings.generator or "not recorded",
            "created": run.manifest.created or "",
        }
        try:
            with reading(run):
                judges = {NEEDS[role].judges: name for role in roles() if (name := run.judge(role)) is not None}
                record["judges"] = judges
                record["progress"] = progress = progress_of(run)
                record["state"] = "generating" if progress["done"] < progress["asked"] else "judging"
                if progress["scored"]:
                    record["state"] = "scored" if progress["done"] >= progress["asked"] else "generating"
                    presentation = presentation_for(run)
                    record["suite_title"] = presentation.info.title
                    record["headlines"] = headline_records(run, presentation)
        except (VerismError, UsageError) as err:
            return record | {"state": "damaged", "error": str(err)}
        return record


def _is_own_file(folder: Path, name: str) -> bool:
    """Whether a folder has a file of this name, and no link leads out of the folder on the way to it."""
    path = folder / name
    return path.is_file() and path.resolve() == folder.resolve() / name


def _plan_record(key: str, folder: Path) -> dict[str, Any]:
    name = folder.name if key == "." else key
    empty: dict[str, Any] = {
        "key": key,
        "name": name,
        "title": name,
        "pairs": 0,
        "counts": {},
        "failed": [],
        "error": "",
    }
    try:
        kept = read_rows(folder) or {}
        statuses = kept_statuses(folder, kept)
    except (VerismError, KeyError, TypeError) as err:
        return empty | {"error": f"the plan of {name} cannot be read: {_line(err)}"}
    counts: dict[str, int] = {}
    for status in statuses:
        counts[str(status.state)] = counts.get(str(status.state), 0) + 1
    failed = [{"pair": s.pair, "reason": str(s.reason)} for s in statuses if s.state == "failed"]
    title = str(kept.get("title") or name)
    return empty | {"title": title, "pairs": len(statuses), "counts": counts, "failed": failed}


def presentation_for(run: Run) -> Presentation:
    """What a run keeps of its suite; before its first scoring, and of earlier versions, what the suite itself says.

    Args:
        run: the run.
    """
    stored = run.presentation()
    if stored is not None:
        return stored
    try:
        return presentation_of(run)
    except VerismError:  # a suite that is not installed
        name = run.suite_name
        protocols = dict.fromkeys((s.protocol for s in run.scores()), "") if run.is_scored else {}
        info = SuiteInfo(name=name, title=name, question="", summary="", protocols=protocols)
        return Presentation(info=info, metrics=())


def progress_of(run: Run) -> dict[str, Any]:
    """How far a run is, by counting rows.

    Args:
        run: the run.
    Returns:
        ``asked`` and ``done`` images, ``states`` (images by state), ``judged`` (images by table and judge), ``scored``.
    """
    import polars as pl

    asked = int(run.scan("prompts").select(pl.col("n_images").sum()).collect().item() or 0)
    by_state = dict(run.scan("images").group_by("state").len().collect().iter_rows())
    judged = []
    for table, judge in observing(run):
        n = int(run.scan(table, judge).select(pl.col(TABLES[table][0].name).n_unique()).collect().item())
        judged.append({"table": table, "judge": judge, "images": n})
    known = [state for state in STATES if by_state.get(state)]
    other = sorted(str(state) for state in set(by_state) - set(STATES))
    return {
        "asked": asked,
        "done": sum(by_state.values()),
        "states": {state: by_state[state] for state in [*known, *other]},
        "judged": judged,
        "scored": run.is_scored,
    }


def observing(run: Run) -> list[tuple[str, str]]:
    """Tables of observations of images, with the judge of each; the renderer's ground truth comes last.

    Args:
        run: the run.
    Raises:
        DamagedRunError: a table cannot be read.
    """
    found = []
    with reading(run):
        for table, columns in TABLES.items():
            if [c.name for c in columns[:2]] == ["image_id", "judge"] and not table.startswith("reference"):
                found += [(table, judge) for judge in run.judges(table)]
    truths = [(table, TRUTH) for table in TABLES if (run.path / "observations" / table / TRUTH).is_dir()]
    return found + truths


def headline_records(run: Run, presentation: Presentation) -> list[dict[str, Any]]:
    """The headline numbers of a run as plain JSON, with the words that pages write them in.

    Args:
        run: a scored run.
        presentation: of its suite.
    """
    judges = {role: [name] for role in roles() if (name := run.judge(role)) is not None}
    vocabulary, scores = Vocabulary([presentation], judges), run.scores()
    return [_score_record(score, vocabulary, scores) for score in run.headlines(presentation)]


def _score_record(score: Score, vocabulary: Vocabulary, scores: Sequence[Score]) -> dict[str, Any]:
    spec = vocabulary.spec(score.metric)
    return score_records([score])[0] | {
        "title": vocabulary.title(score.metric),
        "meaning": "" if spec is None else spec.meaning,
        "group_name": vocabulary.group_name((score.metric, tuple(score.group.items()))),
        "value_text": words.minus(words.value(score)),
        "interval_text": words.minus(words.interval(score)),
        "counts_text": words.counts(score, of_answers=vocabulary.is_of_answers(score.metric)),
        "left_out": coverage_of(score, scores, spec).left_out,
        "unit_text": vocabulary.unit(score.unit),
    }
