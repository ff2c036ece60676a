"""The votes of a study, in one SQLite file.

A study is a list of items (an image, a prompt's images, or a pair of images, each with a task), the raters who look at
them, and their votes. Every vote is a transaction of its own in a database with a write-ahead log that is
synchronised to disk: what a rater was told is saved is saved, whatever happens to server, browser or machine. Several
threads and processes may use a study at once.

An item is given to ``overlap`` raters. While one looks at it, it is lent to them for ``LEASE`` seconds, so that two
raters who work side by side do not do the same twice.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from verism.errors import UsageError, VerismError
from verism.locations import check_on_disk
from verism.records import RatingTask, frame
from verism.systems import move_unless_there

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "LEASE",
    "NEEDS_DISK",
    "Item",
    "Progress",
    "Qualification",
    "Rater",
    "ServedItem",
    "Study",
    "VoteStore",
    "supersedes",
]

LEASE = 600.0  # seconds for which an item is lent to the rater who looks at it
NEEDS_DISK = "a study is an SQLite file, which needs a disk: copy the run to one, and name the copy"
VERSION = 1
Check = Literal["gold", "attention", "qualification"]
CHECKS: tuple[Check, ...] = ("gold", "attention", "qualification")
Source = Literal["browser", "mturk", "label-studio", "table"]

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE tasks (position INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, record TEXT NOT NULL) STRICT;
CREATE TABLE items (
    position INTEGER PRIMARY KEY, item TEXT NOT NULL, task TEXT NOT NULL REFERENCES tasks (name), cell TEXT NOT NULL,
    pictures TEXT NOT NULL, "check" TEXT, "right" TEXT, UNIQUE (item, task)
) STRICT;
CREATE TABLE raters (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, token TEXT, joined TEXT NOT NULL, barred TEXT
) STRICT;
CREATE TABLE votes (
    id INTEGER PRIMARY KEY AUTOINCREMENT, rater INTEGER NOT NULL REFERENCES raters (id),
    position INTEGER NOT NULL REFERENCES items (position), answer TEXT, seconds REAL, at TEXT, source TEXT NOT NULL,
    undone TEXT
) STRICT;
CREATE UNIQUE INDEX one_vote ON votes (rater, position) WHERE undone IS NULL;
CREATE INDEX votes_of_item ON votes (position) WHERE undone IS NULL;
CREATE TABLE leases (
    rater INTEGER NOT NULL REFERENCES raters (id), position INTEGER NOT NULL REFERENCES items (position),
    until REAL NOT NULL, PRIMARY KEY (rater)
) STRICT;
"""


@dataclass(frozen=True, kw_only=True)
class Item:
    """What a rater is shown, and for which task.

    Attributes:
        item: an image's id, a prompt's id, or two images' ids with ``|`` between: the ``item`` of table ``ratings``.
        task: name of the task.
        cell: what the item was drawn for, as JSON of facets.
        images: (run, image_id) of each image in order; ``run`` counts the runs of the study from 0.
        check: ``gold`` (known answer, mixed in), ``attention`` (too easy to miss) or ``qualification`` (asked first).
        right: the known answer of a check.
    """

    item: str
    task: str
    images: tuple[tuple[int, str], ...]
    cell: str = "{}"
    check: Check | None = None
    right: str | None = None


@dataclass(frozen=True, kw_only=True)
class Study:
    """What a study asks of whom.

    Attributes:
        tasks: the questions.
        items: items shown, in the order of first asking.
        runs: directories whose images are shown, absolute.
        overlap: raters per item, at least 1.
        qualification: least share of right answers to qualification items, of those who may go on; 0 to 1.
        attention_every: items between two attention checks, at least 1.
        seed: seed of the orders and of the sides of pairs.
        title: for raters.
        settings: how the items were drawn, for the record.
    """

    tasks: tuple[RatingTask, ...]
    items: tuple[Item, ...]
    runs: tuple[str, ...]
    overlap: int = 1
    qualification: float = 0.8
    attention_every: int = 20
    seed: int = 0
    title: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Rater:
    """Somebody who answers. ``barred``: why they may not go on, or None."""

    id: int
    name: str
    barred: str | None = None


@dataclass(frozen=True, kw_only=True)
class ServedItem:
    """An item as one rater sees it.

    Attributes:
        position: its index in the study.
        item: what is shown.
        swapped: for a pair, whether the second image is on the left.
        previous: the rater's own earlier answer if they took it back, and None otherwise.
    """

    position: int
    item: Item
    swapped: bool
    previous: str | None = None


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a rater is, and the study.

    Attributes:
        answered: number of items answered by this rater.
        open: items this rater may still get, now.
        votes: number of votes of all raters on items that are no checks, at most the overlap of each item.
        spare: votes on such items beyond the overlap, as imports may bring.
        wanted: votes the study wants: items (without checks) times overlap.
        right: number of the rater's right answers to checks.
        checked: the rater's answers to checks.
    """

    answered: int
    open: int
    votes: int
    spare: int
    wanted: int
    right: int
    checked: int


@dataclass(frozen=True, kw_only=True)
class Qualification:
    """How far a rater is with the qualification.

    Attributes:
        asked: qualification items of the study.
        given: answered (or skipped) by this rater.
        right: of those; None until all are answered, for nobody is to learn which one was wrong.
    """

    asked: int
    given: int
    right: int | None


class VoteStore:
    """One study on disk. Make it with ``VoteStore.create`` or open it with ``VoteStore.open``."""

    def __init__(self, path: Path, study: Study, key: bytes) -> None:
        self.path = path
        self.study = study
        self._key = key
        self._tasks = {task.name: task for task in study.tasks}

    # ---------------------------------------------------------------------------------------------- making, opening
    @staticmethod
    def create(path: Path, study: Study) -> VoteStore:
        """A new study.

        Raises:
            UsageError: the file exists, or the study is inconsistent: no items, an item of an unknown task, a known
                answer that is none of the task's, an overlap under 1, or a pair without two images.
        """
        _check(study)
        check_on_disk(path, NEEDS_DISK)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            raise UsageError(f"{path} exists already: open it, or give the new study another name")
        draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        key = secrets.token_bytes(32)
        record = {k: v for k, v in asdict(study).items() if k not in ("tasks", "items")}
        # It has the key of all cookies, tokens' hashes and answers: nobody else on the machine reads it. SQLite gives
        # its journal the same mode.
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        connection = sqlite3.connect(draft, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.executescript(_SCHEMA)
            connection.execute("BEGIN")
            meta = {"version": VERSION, "key": key.hex(), "created": _now(), **record}
            connection.executemany("INSERT INTO meta VALUES (?, ?)", [(k, json.dumps(v)) for k, v in meta.items()])
            connection.executemany(
                "INSERT INTO tasks VALUES (?, ?, ?)",
                [(i, task.name, json.dumps(asdict(task))) for i, task in enumerate(study.tasks)],
            )
            connection.executemany(
                "INSERT INTO items VALUES (?, ?, ?, ?, ?, ?, ?)",
                [
                    (i, t.item, t.task, t.cell, json.dumps(t.images), t.check, t.right)
                    for i, t in enumerate(study.items)
                ],
            )
            connection.execute("COMMIT")
        except sqlite3.IntegrityError as err:
            connection.close()
            draft.unlink()
            raise UsageError(f"the study has an item or a task twice: {err}") from None
        connection.close()
        try:
            move_unless_there(draft, path)  # all of it or nothing, and never over another study
        except FileExistsError:
            raise UsageError(f"{path} exists already: open it, or give the new study another name") from None
        finally:
            draft.unlink(missing_ok=True)
        return VoteStore.open(path)

    @staticmethod
    def open(path: Path) -> VoteStore:
        """A study that exists.

        Raises:
            UsageError: there is none, or it is of another version.
        """
        check_on_disk(path, NEEDS_DISK)
        if not path.is_file():
            raise UsageError(f"{path}: no study there; start one with: verism annotate RUN --task NAME")
        try:
            with _connected(path) as connection:
                meta = {k: json.loads(v) for k, v in connection.execute("SELECT key, value FROM meta")}
                if meta.get("version") != VERSION:
                    raise UsageError(f"{path}: studies of version {meta.get('version')} cannot be read; update verism")
                tasks = [json.loads(r[0]) for r in connection.execute("SELECT record FROM tasks ORDER BY position")]
                items = [_item(row) for row in connection.execute(f"SELECT {_ITEM} FROM items ORDER BY position")]
        except sqlite3.DatabaseError as err:
            raise UsageError(f"{path} is not a study of verism: {err}") from None
        study = Study(
            tasks=tuple(_task(record) for record in tasks),
            items=tuple(items),
            runs=tuple(meta["runs"]),
            **{k: meta[k] for k in ("overlap", "qualification", "attention_every", "seed", "title", "settings")},
        )
        return VoteStore(path, study, bytes.fromhex(meta["key"]))

    def task(self, name: str) -> RatingTask:
        """A task by name.

        Raises:
            UsageError: the study has none of this name.
        """
        if name not in self._tasks:
            raise UsageError(f"the study has no task {name!r}; it has {', '.join(self._tasks)}")
        return self._tasks[name]

    # ------------------------------------------------------------------------------------------------------- raters
    def add_rater(self, name: str) -> tuple[Rater, str]:
        """Somebody new, and their token: it is shown once, and only a keyed hash of it is kept.

        Raises:
            UsageError: an empty name, one longer than 80 characters, or one that is taken.
        """
        name = _plain_name(name)
        token = secrets.token_urlsafe(24)
        try:
            with self._writing() as connection:
                row = connection.execute(
                    "INSERT INTO raters (name, token, joined) VALUES (?, ?, ?) RETURNING id",
                    (name, self._hash(token), _now()),
                ).fetchone()
        except sqlite3.IntegrityError:
            raise UsageError(f"there is a rater {name!r} already; choose another name") from None
        return Rater(id=row[0], name=name), token

    def named_rater(self, name: str) -> Rater:
        """The rater of a name, who joins if they are new: for a page that only this machine can reach."""
        name = _plain_name(name)
        with self._writing() as connection:
            connection.execute("INSERT OR IGNORE INTO raters (name, joined) VALUES (?, ?)", (name, _now()))
            row = connection.execute("SELECT id, name, barred FROM raters WHERE name = ?", (name,)).fetchone()
        return Rater(id=row[0], name=row[1], barred=row[2])

    def rater_of_token(self, token: str) -> Rater | None:
        """Whose token it is; None if nobody's."""
        with _connected(self.path) as connection:
            row = connection.execute(
                "SELECT id, name, barred FROM raters WHERE token = ?", (self._hash(token),)
            ).fetchone()
        return None if row is None else Rater(id=row[0], name=row[1], barred=row[2])

    def raters(self) -> list[Rater]:
        """Everybody, in the order of joining."""
        with _connected(self.path) as connection:
            rows = connection.execute("SELECT id, name, barred FROM raters ORDER BY id").fetchall()
        return [Rater(id=row[0], name=row[1], barred=row[2]) for row in rows]

    def anonymous(self, worker: str) -> str:
        """The name under which a worker of a crowd platform appears here: a keyed hash that leads nowhere.

        The same worker has the same name within a study and another one in every other study.
        """
        return "worker-" + self._hash(f"worker/{worker}")[:12]

    def signature(self, text: str) -> str:
        """A keyed hash of a text: only who has this study can make it. It stays the same when a server restarts."""
        return self._hash(f"signature/{text}")

    def _hash(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()

    # -------------------------------------------------------------------------------------------------- asking, voting
    def next_item(self, rater: Rater, *, now: float | None = None) -> ServedItem | None:
        """What to show a rater now; None if there is nothing (left) for them.

        First what was lent to them and not answered, or taken back; then qualification items; an attention check after
        every ``attention_every`` items; then the items with the fewest votes and loans, in the order of the study.

        Args:
            rater: the rater to serve.
            now: seconds since the epoch; the clock's time if left out.
        """
        now = datetime.now(UTC).timestamp() if now is None else now
        with self._writing() as connection:
            barred = connection.execute("SELECT barred FROM raters WHERE id = ?", (rater.id,)).fetchone()
            if barred is None or barred[0] is not None:
                return None
            connection.execute("DELETE FROM leases WHERE until < ? AND rater != ?", (now, rater.id))
            position = self._position(connection, rater)
            if position is None:
                return None
            connection.execute("INSERT OR REPLACE INTO leases VALUES (?, ?, ?)", (rater.id, position, now + LEASE))
            previous = connection.execute(
                "SELECT answer FROM votes WHERE rater = ? AND position = ? AND undone IS NOT NULL "
                "ORDER BY id DESC LIMIT 1",
                (rater.id, position),
            ).fetchone()
        return ServedItem(
            position=position,
            item=self.study.items[position],
            swapped=self.swapped(rater, position),
            previous=None if previous is None else previous[0],
        )

    def ahead(self, rater: Rater, position: int) -> int | None:
        """Which item a rater will most likely see after this one, to have its images ready; nothing is lent."""
        with _connected(self.path) as connection:
            return self._position(connection, rater, after=position)

    def _position(self, connection: sqlite3.Connection, rater: Rater, *, after: int | None = None) -> int | None:
        held = connection.execute("SELECT position FROM leases WHERE rater = ?", (rater.id,)).fetchone()
        if held is not None and after is None:
            return int(held[0])
        mine = "SELECT position FROM votes WHERE rater = :rater AND undone IS NULL UNION SELECT :after"
        who = {"rater": rater.id, "after": -1 if after is None else after}
        first = connection.execute(
            f"""SELECT position FROM items WHERE "check" = 'qualification' AND position NOT IN ({mine})
                ORDER BY position LIMIT 1""",
            who,
        ).fetchone()
        if first is not None:
            return int(first[0])
        since = connection.execute(
            """SELECT count(*) FROM votes v JOIN items i USING (position)
                WHERE v.rater = :rater AND v.undone IS NULL AND (i."check" IS NULL OR i."check" = 'gold') AND v.id >
                (SELECT coalesce(max(v2.id), 0) FROM votes v2 JOIN items i2 USING (position)
                 WHERE v2.rater = :rater AND v2.undone IS NULL AND i2."check" = 'attention')""",
            who,
        ).fetchone()[0]
        counts = after is not None and self.study.items[after].check in (None, "gold")
        if since + counts >= self.study.attention_every:
            attention = connection.execute(
                f"""SELECT position FROM items WHERE "check" = 'attention' AND position NOT IN ({mine})
                    ORDER BY position LIMIT 1""",
                who,
            ).fetchone()
            if attention is not None:
                return int(attention[0])
        # Gold items go to everybody, evenly between the others; these to as many raters as were asked for.
        row = connection.execute(
            f"""SELECT position FROM (
                    SELECT i.position, i."check" AS kind,
                        (SELECT count(*) FROM votes v WHERE v.position = i.position AND v.undone IS NULL)
                        + (SELECT count(*) FROM leases l WHERE l.position = i.position) AS taken
                    FROM items i WHERE (i."check" IS NULL OR i."check" = 'gold') AND i.position NOT IN ({mine}))
                WHERE kind = 'gold' OR taken < :overlap
                ORDER BY CASE WHEN kind IS NULL THEN 1 WHEN :gold THEN 0 ELSE 2 END,
                    CASE WHEN kind IS NULL THEN taken ELSE 0 END, position LIMIT 1""",
            who | {"overlap": self.study.overlap, "gold": self._gold_is_due(connection, who, after)},
        ).fetchone()
        return None if row is None else int(row[0])

    def _gold_is_due(self, connection: sqlite3.Connection, who: Mapping[str, int], after: int | None) -> bool:
        """Whether a rater has fewer gold items behind them than their share of the others.

        By their own count and not by positions: whoever comes later gets other items, and is not to meet all gold ones
        in a row.
        """
        n_answered = dict.fromkeys((None, "gold"), 0) | dict(
            connection.execute(
                """SELECT i."check", count(*) FROM votes v JOIN items i USING (position)
                    WHERE v.rater = :rater AND v.undone IS NULL GROUP BY i."check" """,
                who,
            ).fetchall()
        )
        if after is not None and self.study.items[after].check in n_answered:
            n_answered[self.study.items[after].check] += 1
        n_checks = Counter(item.check for item in self.study.items)
        return (
            n_checks["gold"] > 0 and (n_answered["gold"] + 0.5) * n_checks[None] <= n_answered[None] * n_checks["gold"]
        )

    def swapped(self, rater: Rater, position: int) -> bool:
        """Whether a rater sees the second image of a pair on the left: at random, and always the same."""
        if len(self.study.items[position].images) != 2:
            return False
        lot = hashlib.sha256(f"{self.study.seed}/{rater.name}/{position}".encode()).digest()
        return bool(lot[0] & 1)

    def vote(
        self,
        rater: Rater,
        position: int,
        answer: str | None,
        *,
        seconds: float | None = None,
        source: Source = "browser",
        at: str | None = None,
    ) -> None:
        """Keep a vote; a second one of the same rater on the same item replaces the first, which stays on record.

        The same vote sent again, by a browser that did not hear that the first was kept, changes nothing.

        Args:
            rater: the rater who answers.
            position: index of the item in the study.
            answer: one of the task's options; None: skipped.
            seconds: it took to answer; an implausible number is dropped.
            source: where the vote comes from.
            at: when, ISO 8601; now if left out and the vote comes from the browser.

        Raises:
            UsageError: no such item, an answer that is none of the options, or a rater who may not go on.
        """
        if not 0 <= position < len(self.study.items):
            raise UsageError(f"the study has no item {position}; it has {len(self.study.items)}")
        item = self.study.items[position]
        task = self.task(item.task)
        if answer is not None and answer not in task.options:
            raise UsageError(f"{answer!r} is no answer to {task.name!r}; answers are {', '.join(task.options)}")
        if seconds is not None and not 0 <= seconds < 1e6:
            seconds = None  # a clock that was set, or a page that was left open: no measurement
        if at is None and source == "browser":
            at = _now()
        with self._writing() as connection:
            barred = connection.execute("SELECT barred FROM raters WHERE id = ?", (rater.id,)).fetchone()
            if barred is None or (barred[0] is not None and source == "browser"):
                raise UsageError(f"{rater.name} may not vote: {'unknown' if barred is None else barred[0]}")
            standing = connection.execute(
                "SELECT answer, seconds FROM votes WHERE rater = ? AND position = ? AND undone IS NULL",
                (rater.id, position),
            ).fetchone()
            if source == "browser" and seconds is not None and standing == (answer, seconds):
                connection.execute("DELETE FROM leases WHERE rater = ? AND position = ?", (rater.id, position))
                return
            connection.execute(
                "UPDATE votes SET undone = ? WHERE rater = ? AND position = ? AND undone IS NULL",
                (_now(), rater.id, position),
            )
            connection.execute(
                "INSERT INTO votes (rater, position, answer, seconds, at, source) VALUES (?, ?, ?, ?, ?, ?)",
                (rater.id, position, answer, seconds, at, source),
            )
            connection.execute("DELETE FROM leases WHERE rater = ? AND position = ?", (rater.id, position))
            if item.check == "qualification":
                self._qualify(connection, rater)

    def _qualify(self, connection: sqlite3.Connection, rater: Rater) -> None:
        """Bar a rater who answered all qualification items, and too few of them right."""
        asked = [i for i, item in enumerate(self.study.items) if item.check == "qualification"]
        marks = ",".join("?" * len(asked))
        answers = dict(
            connection.execute(
                f"SELECT position, answer FROM votes WHERE rater = ? AND undone IS NULL AND position IN ({marks})",
                (rater.id, *asked),
            ).fetchall()
        )
        if len(answers) < len(asked):
            return
        right = sum(answers[i] == self.study.items[i].right for i in asked)
        if right < self.study.qualification * len(asked):
            why = f"{right} of {len(asked)} qualification questions right, {self.study.qualification:.0%} needed"
            connection.execute("UPDATE raters SET barred = ? WHERE id = ?", (why, rater.id))

    def undo(self, rater: Rater, *, now: float | None = None) -> ServedItem | None:
        """Take back a rater's last vote, and show its item again; None if they have none.

        Qualification items cannot be taken back.
        """
        now = datetime.now(UTC).timestamp() if now is None else now
        with self._writing() as connection:
            row = connection.execute(
                """SELECT v.id, v.position FROM votes v JOIN items i USING (position)
                   WHERE v.rater = ? AND v.undone IS NULL AND v.source = 'browser'
                   AND (i."check" IS NULL OR i."check" != 'qualification') ORDER BY v.id DESC LIMIT 1""",
                (rater.id,),
            ).fetchone()
            if row is None:
                return None
            connection.execute("UPDATE votes SET undone = ? WHERE id = ?", (_now(), row[0]))
            connection.execute("INSERT OR REPLACE INTO leases VALUES (?, ?, ?)", (rater.id, row[1], now + LEASE))
        return self.next_item(rater, now=now)

    # ------------------------------------------------------------------------------------------------------ results
    def qualification(self, rater: Rater) -> Qualification:
        """How far a rater is with the qualification, and how well they did once they are through."""
        with _connected(self.path) as connection:
            asked, n_given, right = connection.execute(
                """SELECT count(*), count(v.id), coalesce(sum(v.answer IS i."right"), 0) FROM items i
                   LEFT JOIN votes v ON v.position = i.position AND v.rater = ? AND v.undone IS NULL
                   WHERE i."check" = 'qualification'""",
                (rater.id,),
            ).fetchone()
        return Qualification(asked=asked, given=n_given, right=right if n_given == asked else None)

    def progress(self, rater: Rater | None = None) -> Progress:
        """How far a rater is (nobody: zeros), and the study."""
        who = {"rater": -1 if rater is None else rater.id, "overlap": self.study.overlap}
        with _connected(self.path) as connection:
            answered, right, checked = connection.execute(
                """SELECT count(*), coalesce(sum(i."check" IS NOT NULL AND v.answer IS i."right"), 0),
                          coalesce(sum(i."check" IS NOT NULL), 0)
                   FROM votes v JOIN items i USING (position) WHERE v.rater = :rater AND v.undone IS NULL""",
                who,
            ).fetchone()
            free = connection.execute(
                """SELECT count(*) FROM items i WHERE ("check" IS NULL OR "check" != 'attention') AND position NOT IN
                   (SELECT position FROM votes WHERE rater = :rater AND undone IS NULL) AND ("check" IS NOT NULL OR
                   (SELECT count(*) FROM votes v WHERE v.position = i.position AND v.undone IS NULL) < :overlap)""",
                who,
            ).fetchone()[0]
            votes, spare = connection.execute(
                """SELECT coalesce(sum(min(n, :overlap)), 0), coalesce(sum(max(n - :overlap, 0)), 0) FROM
                   (SELECT count(*) AS n FROM votes v JOIN items i USING (position)
                    WHERE v.undone IS NULL AND i."check" IS NULL GROUP BY position)""",
                who,
            ).fetchone()
        proper = sum(item.check is None for item in self.study.items)
        return Progress(
            answered=answered,
            open=0 if rater is None or rater.barred else free,
            votes=votes,
            spare=spare,
            wanted=proper * self.study.overlap,
            right=right,
            checked=checked,
        )

    def ratings(self) -> pl.DataFrame:
        """All votes that stand, as table ``ratings``, by item, task and rater."""
        with _connected(self.path) as connection:
            rows = connection.execute(
                """SELECT i.item, i.task, r.name, v.answer, v.seconds, v.at, i."check", v.source
                   FROM votes v JOIN items i USING (position) JOIN raters r ON r.id = v.rater
                   WHERE v.undone IS NULL ORDER BY i.item, i.task, r.name"""
            ).fetchall()
        columns = ("item", "task", "rater", "answer", "seconds", "at", "check", "source")
        return frame("ratings", [dict(zip(columns, row, strict=True)) for row in rows])

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with _connected(self.path) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")


def supersedes(
    answer: str | None, seconds: float | None, at: str | None, *, earlier: tuple[str | None, float | None, str | None]
) -> bool:
    """Whether an answer stands in the place of another of the same person to the same item.

    The later time does, whatever order the two are read in; of equal times an answer and not a skip, then the one last
    in the alphabet, then the slower. Without a time of both, the one that is read later.

    Args:
        answer: of the one that is read later; None: skipped.
        seconds: it took.
        at: when it was given, ISO 8601 in UTC.
        earlier: the same of the one that is read first.

    >>> supersedes("no", 2.0, "2026-01-02", earlier=("yes", 1.0, "2026-01-03"))
    False
    """
    if at is None or earlier[2] is None:
        return True

    def rank(answer: str | None, seconds: float | None, at: str | None) -> tuple[str | None, bool, str, float]:
        return at, answer is not None, answer or "", -1.0 if seconds is None else seconds

    return rank(answer, seconds, at) >= rank(*earlier)


# --------------------------------------------------------------------------------------------------------------- parts
_ITEM = 'item, task, cell, pictures, "check", "right"'


@contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(f"file:{_uri(path)}?mode=rw", uri=True, timeout=30, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        yield connection
    except sqlite3.OperationalError as err:
        raise VerismError(f"{path}: {err}; is the folder writable, and on a disk of this machine?") from err
    finally:
        connection.close()


def _uri(path: Path) -> str:
    from urllib.parse import quote

    return quote(str(path.absolute()))


def _item(row: Sequence[Any]) -> Item:
    item, task, cell, images, check, right = row
    shown = tuple((int(run), str(image_id)) for run, image_id in json.loads(images))
    return Item(item=item, task=task, cell=cell, images=shown, check=check, right=right)


def _task(record: Mapping[str, Any]) -> RatingTask:
    lists = {k: tuple(record[k]) for k in ("options", "unsure")}
    return RatingTask(**{**record, **lists, "only": {k: tuple(v) for k, v in record["only"].items()}})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _plain_name(name: str) -> str:
    name = " ".join(name.split())
    if not name or len(name) > 80 or not name.isprintable():
        raise UsageError("a rater's name has 1 to 80 printable characters")
    return name


def _check(study: Study) -> None:
    names = [task.name for task in study.tasks]
    by_name = {task.name: task for task in study.tasks}
    if not study.items:
        raise UsageError("a study needs items: no image fits the tasks asked for")
    if study.overlap < 1 or study.attention_every < 1:
        raise UsageError("overlap and attention_every must be at least 1")
    if not 0 <= study.qualification <= 1:
        raise UsageError(f"qualification is a share from 0 to 1, got {study.qualification}")
    for item in study.items:
        if item.task not in by_name:
            raise UsageError(f"item {item.item!r} is of task {item.task!r}; the study has {', '.join(names)}")
        task = by_name[item.task]
        if item.check is not None and item.check not in CHECKS:
            raise UsageError(f"item {item.item!r}: check is one of {', '.join(CHECKS)}, got {item.check!r}")
        if (item.check is None) != (item.right is None):
            raise UsageError(f"item {item.item!r}: a check has a known answer, and nothing else has")
        if item.right is not None and item.right not in task.options:
            raise UsageError(
                f"item {item.item!r}: the known answer {item.right!r} is none of {', '.join(task.options)}"
            )
        if not item.images or (task.unit == "pair") != (len(item.images) == 2 and "|" in item.item):
            raise UsageError(f"item {item.item!r} of task {task.name!r}: a pair has two images, others at least one")
        if any(not 0 <= run < len(study.runs) for run, _ in item.images):
            raise UsageError(f"item {item.item!r} shows an image of a run that is not in the study")
