"""Answers from elsewhere: files of the page, batch results of Mechanical Turk, exports of Label Studio, plain tables.

Who answered is nobody's business: a person's name or id becomes a keyed hash as soon as it is read, is written nowhere,
and appears in no message. Whatever cannot be used is named with its place and the reason.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Any

from verism.annotation.exchange.material import SIDES, item_keys, study_key, swapped
from verism.annotation.votes import Source, VoteStore, supersedes
from verism.errors import UsageError
from verism.files import read_json, read_rows, unguarded
from verism.records import RatingTask

__all__ = ["Imported", "import_ratings"]

SKIPPED = "(skipped)"  # how the page's table writes a question that somebody chose not to answer
SOURCES: Mapping[str, Source] = {
    "bundle": "table", "mturk": "mturk", "label-studio": "label-studio", "table": "table",
}  # fmt: skip
RATER_COLUMNS = ("rater", "worker", "worker_id", "WorkerId", "annotator")
_ZONES = {"UTC": 0, "GMT": 0, "PST": -8, "PDT": -7}  # as Mechanical Turk writes them


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What was taken in.

    Attributes:
        n_votes: number of answers that are new or changed.
        n_raters: number of people who gave usable answers.
        skipped: (where, why) of everything that was left out.
        n_unchanged: number of answers that were there already.
        n_replaced: number of earlier answers of the same person to the same item that gave way; each is in ``skipped``,
            too.
        n_rejected: number of rejected assignments.
    """

    n_votes: int
    n_raters: int
    skipped: tuple[tuple[str, str], ...] = ()
    n_unchanged: int = 0
    n_replaced: int = 0
    n_rejected: int = 0


@dataclass(frozen=True, kw_only=True)
class _Given:
    """An answer as a file has it. ``rater`` is hashed already; ``answer`` None: skipped; "": left empty."""

    where: str
    rater: str
    item: str
    answer: str | None
    task: str = ""
    seconds: float | None = None
    at: str | None = None


@dataclass(frozen=True, kw_only=True)
class _Vote:
    """An answer that fits the study."""

    where: str
    rater: str
    position: int
    answer: str | None
    seconds: float | None
    at: str | None


_Left = tuple[str, str]


def import_ratings(store: VoteStore, path: Path, *, kind: str | None = None) -> Imported:
    """Take in answers that were given elsewhere.

    Taking the same file in again changes nothing. Of two answers of one person to one item the later one stands,
    whichever is in the study and wherever in the file it is. Without times, the later row does; without times, or with
    equal ones, as of an answer that was mended, the file's and not the study's.

    Args:
        store: the study that takes the answers.
        path: file with the answers.
        kind: ``bundle``, ``mturk``, ``label-studio`` or ``table``; found out from the file if left out.

    Raises:
        UsageError: no such file, or one that is none of these.
    """
    kind, content = _content(path, kind)
    skipped: list[_Left] = []
    votes: dict[tuple[str, int], _Vote] = {}
    fit = _Fit(store)
    for value in _READERS[kind](store, path, content):
        fitted = fit(value) if isinstance(value, _Given) else value
        if not isinstance(fitted, _Vote):
            skipped.append(fitted)
            continue
        earlier = votes.get((fitted.rater, fitted.position))
        stays, goes = fitted, earlier
        if earlier is not None and not _supersedes(fitted, (earlier.answer, earlier.seconds, earlier.at)):
            stays, goes = earlier, fitted
        if goes is not None:
            skipped.append((goes.where, f"{stays.where.rpartition(', ')[2]} is the same person's later answer"))
        votes[fitted.rater, fitted.position] = stays
    n_rejected = sum(why == _REJECTED for _, why in skipped)
    return _put(store, list(votes.values()), skipped, n_rejected, SOURCES[kind])


def _put(store: VoteStore, votes: Sequence[_Vote], skipped: list[_Left], n_rejected: int, source: Source) -> Imported:
    columns = ("item", "task", "rater", "answer", "seconds", "at", "source")
    there = {(row[0], row[1], row[2]): row[3:] for row in store.ratings().select(columns).iter_rows()}
    raters = {name: store.named_rater(name) for name in sorted({vote.rater for vote in votes})}
    n_votes = n_replaced = n_unchanged = 0
    for vote in votes:
        item = store.study.items[vote.position]
        earlier = there.get((item.item, item.task, vote.rater))
        if earlier == (vote.answer, vote.seconds, vote.at, source):
            n_unchanged += 1
            continue
        if earlier is not None and vote.at != earlier[2] and not _supersedes(vote, earlier[:3]):
            skipped.append((vote.where, f"the study has a later answer of {vote.rater}, {earlier[0]!r}"))
            continue
        if earlier is not None:
            n_replaced += 1
            skipped.append((f"earlier answer {earlier[0]!r} of {vote.rater}", f"replaced by that of {vote.where}"))
        store.vote(raters[vote.rater], vote.position, vote.answer, seconds=vote.seconds, at=vote.at, source=source)
        n_votes += 1
    return Imported(
        n_votes=n_votes,
        n_raters=len(raters),
        skipped=tuple(skipped),
        n_unchanged=n_unchanged,
        n_replaced=n_replaced,
        n_rejected=n_rejected,
    )


def _supersedes(vote: _Vote, earlier: tuple[str | None, float | None, str | None]) -> bool:
    return supersedes(vote.answer, vote.seconds, vote.at, earlier=earlier)


# --------------------------------------------------------------------------------------------------- what a file holds
def _content(path: Path, kind: str | None) -> tuple[str, Any]:
    if kind is not None and kind not in SOURCES:
        raise UsageError(f"no import of kind {kind!r}; there are {', '.join(SOURCES)}")
    content = read_json(path) if path.suffix.lower() == ".json" else read_rows(path)
    result = _kind_of(content)
    if result is None:
        raise UsageError(
            f"{path}: neither answers of the page (.json), batch results of Mechanical Turk (Input.item0, WorkerId), "
            "an export of Label Studio (.json), nor a table with the columns item, rater and answer; its fields are "
            f"{_fields(content)}"
        )
    if kind is not None and kind != result:
        raise UsageError(f"{path} is of kind {result}, not {kind}")
    return result, content


def _kind_of(content: Any) -> str | None:
    if isinstance(content, Mapping):
        return "bundle" if str(content.get("format", "")).startswith("verism answers") else None
    if not isinstance(content, list) or not all(isinstance(row, Mapping) for row in content):
        return None
    fields = {str(key) for row in content[:100] for key in row}
    if any(field.startswith("Input.item") for field in fields):
        return "mturk"
    if {"data", "annotations"} <= fields or {"item", "annotator"} <= fields:
        return "label-studio"
    if {"item", "answer"} <= fields and fields & set(RATER_COLUMNS):
        return "table"
    return None


def _fields(content: Any) -> str:
    first = content[0] if isinstance(content, list) and content else content
    return ", ".join(map(str, list(first)[:8])) if isinstance(first, Mapping) and first else "none"


# ------------------------------------------------------------------------------------------------------ kinds of files
def _from_page(store: VoteStore, path: Path, content: Mapping[str, Any]) -> Iterator[_Given | _Left]:
    if content.get("study") != study_key(store):
        raise UsageError(f"{path}: answers to another study than {store.path}; give --study NAME of theirs")
    rater, answers = content.get("rater"), content.get("answers")
    if not isinstance(rater, str) or not rater.strip() or not isinstance(answers, list):
        raise UsageError(f"{path}: no rater or no answers in it; was the file changed?")
    for number, row in enumerate(answers, start=1):
        where = f"{path.name}, answer {number}"
        if not isinstance(row, Mapping):
            yield where, "not a record"
            continue
        answer = row.get("answer")
        yield _Given(
            where=where,
            rater=_hashed(store, rater),
            item=_text(row, "item"),
            task=_text(row, "task"),
            answer=None if answer is None else str(answer).strip(),
            seconds=_number(row.get("seconds")),
            at=_moment(row.get("at")),
        )


def _from_table(store: VoteStore, path: Path, content: Sequence[Mapping[str, Any]]) -> Iterator[_Given | _Left]:
    for number, row in enumerate(content, start=1):
        where = f"{path.name}, row {number}"
        rater = next((text for text in (_text(row, column) for column in RATER_COLUMNS) if text), "")
        if not rater:
            yield where, "no rater"
            continue
        answer = _text(row, "answer")
        yield _Given(
            where=where,
            rater=_hashed(store, rater),
            item=_text(row, "item"),
            task=_text(row, "task"),
            answer=None if answer == SKIPPED else answer,
            seconds=_number(_text(row, "seconds")),
            at=_moment(_text(row, "at")),
        )


_REJECTED = "a rejected assignment"


def _from_mturk(store: VoteStore, path: Path, content: Sequence[Mapping[str, Any]]) -> Iterator[_Given | _Left]:
    for number, row in enumerate(content, start=1):
        where = f"{path.name}, row {number}"
        if _text(row, "AssignmentStatus").casefold() == "rejected":
            yield where, _REJECTED
            continue
        worker = _text(row, "WorkerId")
        if not worker:
            yield where, "no WorkerId"
            continue
        asked = {m[1]: _text(row, c) for c in row if c and (m := re.fullmatch(r"Input\.item(\d+)", str(c)))}
        asked = {i: item for i, item in asked.items() if item}
        seconds = _number(_text(row, "WorkTimeInSeconds"))
        each = None if seconds is None or not asked else seconds / len(asked)
        for i, item in asked.items():
            answer, why = _mturk_answer(row, f"Answer.q{i}")
            if why:
                yield f"{where}, q{i}", why
                continue
            yield _Given(
                where=f"{where}, q{i}",
                rater=_hashed(store, worker),
                item=item,
                answer=answer,
                seconds=each,
                at=_moment(_text(row, "SubmitTime")),
            )


def _mturk_answer(row: Mapping[str, Any], column: str) -> tuple[str, str]:
    """The answer, and why there is none: one column with it, or a column of true and false per option."""
    if single := _text(row, column):
        return single, ""
    of_option = {str(c)[len(column) + 1 :]: _text(row, c) for c in row if c and str(c).startswith(f"{column}.")}
    chosen = [option for option, value in of_option.items() if value.casefold() in ("true", "1", "on")]
    if len(chosen) > 1:
        return "", f"several answers: {', '.join(chosen)}"
    return (unguarded(chosen[0]), "") if chosen else ("", _NOTHING)


def _from_label_studio(store: VoteStore, path: Path, content: Sequence[Mapping[str, Any]]) -> Iterator[_Given | _Left]:
    for number, row in enumerate(content, start=1):
        where = f"{path.name}, task {number}"
        data = row.get("data", row)
        if not isinstance(data, Mapping) or not _text(data, "item"):
            yield where, "no item in its data: it is not of an export of this study"
            continue
        base = _Given(where=where, rater="", item=_text(data, "item"), task=_text(data, "task"), answer="")
        if "annotations" in row:
            annotations = row["annotations"]
            if not isinstance(annotations, list) or not annotations:
                yield where, _NOTHING
                continue
            for count, annotation in enumerate(annotations, start=1):
                yield _annotation(store, replace(base, where=f"{where}, annotation {count}"), annotation)
        else:
            yield _flat_annotation(store, base, row)


def _annotation(store: VoteStore, base: _Given, annotation: Any) -> _Given | _Left:
    """One annotation of the full export."""
    if not isinstance(annotation, Mapping):
        return base.where, "not a record"
    rater = _who(annotation.get("completed_by"))
    if not rater:
        return base.where, "no one completed it"
    value = replace(
        base,
        rater=_hashed(store, rater),
        seconds=_number(annotation.get("lead_time")),
        at=_moment(annotation.get("created_at")),
    )
    if annotation.get("was_cancelled"):
        return replace(value, answer=None)
    results = annotation.get("result")
    answers = [text for r in results for text in _said(r)] if isinstance(results, list) else []
    if len(answers) > 1:
        return base.where, f"several answers: {', '.join(answers)}"
    return replace(value, answer=answers[0] if answers else "")


def _said(result: Any) -> list[str]:
    value = result.get("value") if isinstance(result, Mapping) else None
    if not isinstance(value, Mapping):
        return []
    if result.get("from_name") not in ("answer", "tie"):
        return []
    if isinstance(value.get("choices"), list):
        return [str(choice) for choice in value["choices"]]
    return [str(value[field]) for field in ("rating", "selected") if value.get(field) is not None]


def _flat_annotation(store: VoteStore, base: _Given, row: Mapping[str, Any]) -> _Given | _Left:
    """One annotation of the short export (JSON-MIN), whose fields lie side by side."""
    rater = _who(row.get("annotator"))
    if not rater:
        return base.where, "no one completed it"
    answers = [text for field in ("answer", "tie") for text in _flat(row.get(field))]
    if len(answers) > 1:
        return base.where, f"several answers: {', '.join(answers)}"
    return replace(
        base,
        rater=_hashed(store, rater),
        answer=answers[0] if answers else "",
        seconds=_number(row.get("lead_time")),
        at=_moment(row.get("created_at")),
    )


def _flat(value: Any) -> list[str]:
    """The answers in a field: a plain one, or records such as ``[{"rating": 4}]``, which tables have as JSON."""
    if isinstance(value, str) and value.startswith(("[", "{")):
        try:
            return _flat(json.loads(value))
        except ValueError:
            return [value]
    if isinstance(value, list):
        return [text for part in value for text in _flat(part)]
    if isinstance(value, Mapping):
        return _said({"from_name": "answer", "value": value})
    return [] if value in (None, "") else [str(value).strip()]


def _who(person: Any) -> str:
    """Whoever completed an annotation: a number, or a record, of which short exports keep the address."""
    if isinstance(person, Mapping):
        person = person.get("email") or person.get("id")
    return "" if person is None else str(person).strip()


_READERS: Mapping[str, Callable[[VoteStore, Path, Any], Iterator[_Given | _Left]]] = {
    "bundle": _from_page,
    "mturk": _from_mturk,
    "label-studio": _from_label_studio,
    "table": _from_table,
}


# ----------------------------------------------------------------------------------------------- fitting to the study
_NOTHING = "no answer"


class _Fit:
    """What an answer means in a study, or why it means nothing."""

    def __init__(self, store: VoteStore) -> None:
        self.store = store
        self.keys = item_keys(store)
        self.own: dict[str, dict[str, int]] = {}
        for position, item in enumerate(store.study.items):
            self.own.setdefault(item.item, {})[item.task] = position

    def __call__(self, given: _Given) -> _Vote | _Left:
        if given.answer == "":
            return given.where, _NOTHING
        outside = given.item in self.keys
        position = self.keys[given.item] if outside else self._position(given)
        if isinstance(position, str):
            return given.where, position
        task = self.store.task(self.store.study.items[position].task)
        if given.task and given.task != task.name:
            return given.where, f"the item is of the task {task.name!r}, not {given.task!r}"
        answer = given.answer
        if answer is not None:
            if task.unit == "pair" and answer.casefold() in SIDES[:2]:
                if not outside:
                    return given.where, "left and right mean something in exports only; write first or second"
                right = answer.casefold() == SIDES[1]
                answer = task.options[right != swapped(self.store, position)]
            answer = option_of(task, answer)
            if answer is None:
                return given.where, f"{given.answer!r} is no answer to {task.name!r}, or could be several"
        seconds = given.seconds if given.seconds is None or 0 <= given.seconds < 1e6 else None
        return _Vote(
            where=given.where, rater=given.rater, position=position, answer=answer, seconds=seconds, at=given.at
        )

    def _position(self, given: _Given) -> int | str:
        tasks = self.own.get(given.item)
        if tasks is None:
            return f"the study has no item {given.item!r}" if given.item else "no item"
        if given.task:
            return tasks.get(given.task, f"the study does not ask {given.task!r} of {given.item!r}")
        if len(tasks) > 1:
            return f"{given.item!r} is asked about several tasks; say which in a column task: {', '.join(tasks)}"
        return next(iter(tasks.values()))


def option_of(task: RatingTask, text: str) -> str | None:
    """The option that a label means: as written, else but for case and spaces, else as a number or a truth value.

    >>> task = RatingTask(name="t", question="?", kind="choice", options=("yes", "no", "Not sure", "not sure"))
    >>> option_of(task, "Yes"), option_of(task, "TRUE"), option_of(task, "Not sure"), option_of(task, "NOT SURE")
    ('yes', 'yes', 'Not sure', None)
    """
    if text in task.options:
        return text
    plain = _plain(text)
    alike = [option for option in task.options if _plain(option) == plain]
    if not alike and (number := _number(text)) is not None:
        alike = [option for option in task.options if _number(option) == number]
    if not alike and plain in ("true", "false"):
        alike = [option for option in task.options if _plain(option) == {"true": "yes", "false": "no"}[plain]]
    return alike[0] if len(alike) == 1 else None


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


# --------------------------------------------------------------------------------------------------------------- cells
def _hashed(store: VoteStore, person: str) -> str:
    return store.anonymous(" ".join(person.split()))


def _text(row: Mapping[str, Any], column: Any) -> str:
    value = row.get(column)
    return "" if value is None else str(value).strip()


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _moment(value: Any) -> str | None:
    """A time in ISO 8601, as the study writes it; None where there is none, or it cannot be read."""
    text = "" if value is None else str(value).strip()
    if not text:
        return None
    zone: tzinfo = UTC
    # Mechanical Turk: Mon Nov 02 08:12:21 PST 2020
    if match := re.fullmatch(r"\w{3} (\w{3} \d{1,2} [\d:]{8}) ([A-Z]{3}) (\d{4})", text):
        if match[2] not in _ZONES:
            return None
        zone = timezone(timedelta(hours=_ZONES[match[2]]))
        text = f"{match[1]} {match[3]}"
    for read in (datetime.fromisoformat, _american):
        try:
            moment = read(text)
        except ValueError:
            continue
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)
        return moment.astimezone(UTC).isoformat(timespec="milliseconds")
    return None


def _american(text: str) -> datetime:
    """``Nov 02 08:12:21 2020``, whatever language the machine speaks."""
    month, day, clock, year = text.split()
    number = "JanFebMarAprMayJunJulAugSepOctNovDec".index(month) // 3 + 1
    return datetime.fromisoformat(f"{year}-{number:02d}-{int(day):02d}T{clock}")
