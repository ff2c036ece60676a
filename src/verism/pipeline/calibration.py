"""How well a judge does on pictures whose content is known: its observations, read as a suite reads them, by class.

What comes out is a judge card. The reading is the suite's own, so that a card tells how often *that verdict* is wrong,
with everything that leads to it: faces that are not found, and faces where there are none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from verism._version import __version__
from verism.cards import JudgeCard, Kind, Measured
from verism.errors import UsageError, VerismError
from verism.files import read_json, read_rows
from verism.imaging import read_picture
from verism.pipeline.stream import BATCH, batches
from verism.records import Judge, LoadedImage, Need

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Known", "KnownPictures", "Reading", "calibrate", "read_truth", "summary"]


@dataclass(frozen=True, kw_only=True)
class Known:
    """A picture of known content.

    Attributes:
        image_id: its name in the table. path: the file.
        classes: true class by task. facets: what else is known of it, for groups of the card.
    """

    image_id: str
    path: Path
    classes: Mapping[str, str]
    facets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class KnownPictures:
    """A folder or table of pictures of known content. ``about``: what it is, in words; ``made``: what reproduces it."""

    items: tuple[Known, ...]
    about: str
    made: Mapping[str, Any]


class Reading(NamedTuple):
    """What a judge's observations say of a picture by the rules of a protocol: a class, or None."""

    image_id: str
    task: str
    protocol: str
    said: str | None


def read_truth(source: Path, tasks: Mapping[str, Sequence[str]], facets: Mapping[str, str]) -> KnownPictures:
    """Pictures of known content from a table: columns ``path`` (from the table) and one for each task.

    Args:
        source: a CSV file, or a folder with ``truth.csv`` as ``verism scenes portraits`` writes it.
        tasks: classes by task. facets: group by column, for those columns that the table has.

    Raises:
        UsageError: no such table, a missing column, a class that the task does not have, a file named twice.
    """
    table = source / "truth.csv" if source.is_dir() else source
    rows = read_rows(
        table,
        f"a table with the columns path, {', '.join(tasks)}, or a folder with truth.csv as `verism scenes portraits` "
        "writes it",
    )
    if not rows:
        raise UsageError(f"{table} lists no pictures")
    if missing := [name for name in ("path", *tasks) if rows[0].get(name) is None]:
        raise UsageError(f"{table} has no column {', '.join(map(repr, missing))}; it has {', '.join(rows[0])}")
    items = []
    for row in rows:
        for task, labels in tasks.items():
            if row[task] not in labels:
                raise UsageError(f"{row.where}: {task}={row[task]!r}; expected one of {', '.join(labels)}")
        items.append(
            Known(
                image_id=row["path"],
                path=table.parent / row["path"],
                classes={task: row[task] for task in tasks},
                facets={group: row[column] for column, group in facets.items() if row.get(column)},
            )
        )
    if len({item.image_id for item in items}) < len(items):
        raise UsageError(f"{table} names a picture twice; each must be there once")
    command = None
    if source.is_dir() and (source / "definitions.json").exists():
        command = read_json(source / "definitions.json").get("command")
    about = f"{len(items):,} pictures of {table.name}"
    made: dict[str, Any] = {"truth_sha256": hashlib.sha256(table.read_bytes()).hexdigest()}
    if command:
        about, made["truth_command"] = f"{len(items):,} pictures rendered by `{command}`", command
    return KnownPictures(items=tuple(items), about=about, made=made)


def calibrate(
    judge: Judge,
    need: Need,
    known: KnownPictures,
    tasks: Mapping[str, Sequence[str]],
    read: Callable[[Sequence[str], pl.DataFrame], Iterator[Reading]],
    *,
    kind: Kind = "rendered",
    groups: Sequence[str] = (),
    made: Mapping[str, Any] | None = None,
    on_done: Callable[[int], None] | None = None,
) -> JudgeCard:
    """Show a judge pictures of known content and count what it says of each class.

    Args:
        need: what is asked of the judge; its role enters the card.
        tasks: classes by task, in the order of the card.
        read: from ids of pictures and the observations of all of them to what they say.
        kind: how the truth is known. groups: facets by whose values counts are made besides those of all pictures.
        made: what enters the card beside version and truth. on_done: called with the number of pictures shown.

    Raises:
        VerismError: a picture that cannot be read, or one of which the judge says nothing, or a class that is none.
    """
    import polars as pl

    tables = []
    done = 0
    for batch in batches(known.items, BATCH):
        shown = [_loaded(item) for item in batch]
        tables.append(judge.observe(shown, need))
        done += len(batch)
        if on_done is not None:
            on_done(done)
    observations = pl.concat(tables)
    ids = [item.image_id for item in known.items]
    if silent := sorted(set(ids) - set(observations["image_id"].to_list())):
        raise VerismError(f"{judge.name} said nothing of {len(silent):,} pictures, {silent[0]} among them")
    said: dict[tuple[str, str], dict[str, str | None]] = {}
    for reading in read(ids, observations):
        said.setdefault((reading.task, reading.protocol), {})[reading.image_id] = reading.said
    measured = []
    for (task, protocol), answers in said.items():
        labels = tuple(tasks[task])
        measured.append(_counted(known.items, task, protocol, labels, answers, {}))
        for facet in groups:
            values = sorted({item.facets[facet] for item in known.items if facet in item.facets})
            for value in values:
                chosen = [item for item in known.items if item.facets.get(facet) == value]
                measured.append(_counted(chosen, task, protocol, labels, answers, {facet: value}))
    return JudgeCard(
        judge=judge.name,
        role=need.role,
        kind=kind,
        ground_truth=known.about,
        measured=tuple(measured),
        made={"verism": __version__, "pictures": len(ids), **known.made, **(made or {})},
    )


def _loaded(item: Known) -> LoadedImage:
    picture = read_picture(item.path)
    if picture.pixels is None:
        raise VerismError(f"{item.path}: {picture.state}, {picture.note}; all pictures of the table must be there")
    return LoadedImage(image_id=item.image_id, prompt_id="", pixels=picture.pixels)


def _counted(
    items: Sequence[Known],
    task: str,
    protocol: str,
    labels: tuple[str, ...],
    answers: Mapping[str, str | None],
    group: Mapping[str, str],
) -> Measured:
    place = {label: k for k, label in enumerate(labels)}
    counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
    unusable = np.zeros(len(labels), dtype=np.int64)
    for item in items:
        answer = answers.get(item.image_id)
        true = place[item.classes[task]]
        if answer is None:
            unusable[true] += 1
        elif answer not in place:
            raise VerismError(f"{item.image_id}: {task} was read as {answer!r}; the classes are {', '.join(labels)}")
        else:
            counts[true, place[answer]] += 1
    return Measured(
        task=task,
        protocol=protocol,
        labels=labels,
        counts=tuple(tuple(int(n) for n in row) for row in counts),
        unusable=tuple(int(n) for n in unusable),
        group=group,
    )


class Summary(NamedTuple):
    """A table of a card in a few numbers; NaN where there is nothing to divide by.

    Attributes:
        n: pictures. unusable: share of them of which nothing usable is said.
        exact: share of the others whose class is right. within_one: right, or a neighbour in the order of the classes.
        bias: mean of class said less true class, in steps of the order. classes_said: classes said at least once.
    """

    n: int
    unusable: float
    exact: float
    within_one: float
    bias: float
    classes_said: int


def summary(measured: Measured) -> Summary:
    """A table of counts in a few numbers."""
    counts = np.asarray(measured.counts)
    used = int(counts.sum())
    lost = sum(measured.unusable)
    true, said = np.indices(counts.shape)
    nan = float("nan")
    return Summary(
        n=used + lost,
        unusable=lost / (used + lost) if used + lost else nan,
        exact=float(np.trace(counts) / used) if used else nan,
        within_one=float(counts[abs(said - true) <= 1].sum() / used) if used else nan,
        bias=float(((said - true) * counts).sum() / used) if used else nan,
        classes_said=int((counts.sum(axis=0) > 0).sum()),
    )
