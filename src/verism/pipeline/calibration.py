"""How well a judge does on images whose content is known: its observations, read as suites read them, by class.

What comes out is a judge card. Observations are read as for verdicts, so that a card says how often *that verdict* is
wrong, with everything that leads to it: faces that are not found, and faces where there are none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from verism._version import __version__
from verism.cards import JudgeCard, Kind, Measured
from verism.errors import UsageError, VerismError
from verism.files import read_json, read_rows
from verism.imaging import read_image
from verism.judges.calibration import Calibration
from verism.pipeline.stream import BATCH, batches
from verism.records import Judge, LoadedImage

__all__ = ["KnownImage", "KnownImages", "calibrate", "read_truth", "summary"]


@dataclass(frozen=True, kw_only=True)
class KnownImage:
    """An image of known content.

    Attributes:
        image_id: name of the image in the table.
        path: the file.
        classes: true class by task.
        facets: what else is known of it, for groups of the card.
    """

    image_id: str
    path: Path
    classes: Mapping[str, str]
    facets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class KnownImages:
    """A folder or table of images of known content.

    Attributes:
        items: the images.
        about: what it is, in words.
        made: what reproduces it.
    """

    items: tuple[KnownImage, ...]
    about: str
    made: Mapping[str, Any]


def read_truth(source: Path, calibration: Calibration) -> KnownImages:
    """Images of known content from a table: columns ``path`` (from the table) and one for each task.

    Args:
        source: a CSV file, or a folder with ``truth.csv`` as ``verism scenes portraits`` writes it.
        calibration: its tasks, and the facets that are kept where the table has their columns.

    Raises:
        UsageError: no such table, a missing column, a class that the task does not have, a file named twice.
    """
    tasks = calibration.tasks
    table = source / "truth.csv" if source.is_dir() else source
    rows = read_rows(
        table,
        f"a table with the columns path, {', '.join(tasks)}, or a folder with truth.csv as `verism scenes portraits` "
        "writes it",
    )
    if not rows:
        raise UsageError(f"{table} lists no images")
    if missing := [name for name in ("path", *tasks) if rows[0].get(name) is None]:
        raise UsageError(f"{table} has no column {', '.join(map(repr, missing))}; it has {', '.join(rows[0])}")
    items = []
    for row in rows:
        for task, labels in tasks.items():
            if row[task] not in labels:
                raise UsageError(f"{row.where}: {task}={row[task]!r}; expected one of {', '.join(labels)}")
        items.append(
            KnownImage(
                image_id=row["path"],
                path=table.parent / row["path"],
                classes={task: row[task] for task in tasks},
                facets={group: row[column] for column, group in calibration.facets.items() if row.get(column)},
            )
        )
    if len({item.image_id for item in items}) < len(items):
        raise UsageError(f"{table} names an image twice; each must be there once")
    command = None
    if source.is_dir() and (source / "definitions.json").exists():
        command = read_json(source / "definitions.json").get("command")
    about = f"{len(items):,} images of {table.name}"
    made: dict[str, Any] = {"truth_sha256": hashlib.sha256(table.read_bytes()).hexdigest()}
    if command:
        about, made["truth_command"] = f"{len(items):,} images rendered by `{command}`", command
    return KnownImages(items=tuple(items), about=about, made=made)


def calibrate(
    judge: Judge,
    calibration: Calibration,
    known: KnownImages,
    *,
    kind: Kind = "rendered",
    made: Mapping[str, Any] | None = None,
    on_done: Callable[[int], None] | None = None,
) -> JudgeCard:
    """Show a judge images of known content and count what it predicts for each class.

    Args:
        judge: the judge.
        calibration: what is asked of judges of its role, and how their observations are read.
        known: the images.
        kind: how the truth is known.
        made: what enters the card beside version and truth.
        on_done: called with the number of images shown.

    Raises:
        VerismError: an image that cannot be read, one without an observation, or a predicted class that is none.
    """
    import polars as pl

    tables = []
    done = 0
    for batch in batches(known.items, BATCH):
        shown = [_loaded(item) for item in batch]
        rows = judge.observe(shown, calibration.need)
        tables.append(rows if isinstance(rows, pl.DataFrame) else rows[calibration.need.table])
        done += len(batch)
        if on_done is not None:
            on_done(done)
    observations = pl.concat(tables)
    ids = [item.image_id for item in known.items]
    if silent := sorted(set(ids) - set(observations["image_id"].to_list())):
        raise VerismError(f"{judge.name} observed nothing of {len(silent):,} images, {silent[0]} among them")
    predictions: dict[tuple[str, str], dict[str, str | None]] = {}
    for reading in calibration.read(ids, observations):
        predictions.setdefault((reading.task, reading.protocol), {})[reading.image_id] = reading.predicted
    measured = []
    for (task, protocol), predicted in predictions.items():
        labels = tuple(calibration.tasks[task])
        measured.append(_counted(known.items, task, protocol, labels, predicted, {}))
        for facet in calibration.facets.values():
            values = sorted({item.facets[facet] for item in known.items if facet in item.facets})
            for value in values:
                chosen = [item for item in known.items if item.facets.get(facet) == value]
                measured.append(_counted(chosen, task, protocol, labels, predicted, {facet: value}))
    return JudgeCard(
        judge=judge.name,
        role=calibration.need.role,
        kind=kind,
        ground_truth=known.about,
        measured=tuple(measured),
        made={"verism": __version__, "pictures": len(ids), **known.made, **(made or {})},
    )


def _loaded(item: KnownImage) -> LoadedImage:
    image = read_image(item.path)
    if image.pixels is None:
        raise VerismError(f"{item.path}: {image.state}, {image.note}; all images of the table must be there")
    return LoadedImage(image_id=item.image_id, prompt_id="", pixels=image.pixels)


def _counted(
    items: Sequence[KnownImage],
    task: str,
    protocol: str,
    labels: tuple[str, ...],
    predicted: Mapping[str, str | None],
    group: Mapping[str, str],
) -> Measured:
    index = {label: k for k, label in enumerate(labels)}
    counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
    unusable = np.zeros(len(labels), dtype=np.int64)
    for item in items:
        label = predicted.get(item.image_id)
        true = index[item.classes[task]]
        if label is None:
            unusable[true] += 1
        elif label not in index:
            raise VerismError(f"{item.image_id}: {task} was read as {label!r}; the classes are {', '.join(labels)}")
        else:
            counts[true, index[label]] += 1
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
        n: images.
        unusable: share of them without a usable prediction.
        exact: share of the others whose class is right.
        within_one: share of the others that are right, or off by one in the order of the classes.
        bias: mean of predicted less true class, in steps of the order.
        classes_said: classes predicted at least once.
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
    unusable = sum(measured.unusable)
    true, predicted = np.indices(counts.shape)
    nan = float("nan")
    return Summary(
        n=used + unusable,
        unusable=unusable / (used + unusable) if used + unusable else nan,
        exact=float(np.trace(counts) / used) if used else nan,
        within_one=float(counts[abs(predicted - true) <= 1].sum() / used) if used else nan,
        bias=float(((predicted - true) * counts).sum() / used) if used else nan,
        classes_said=int((counts.sum(axis=0) > 0).sum()),
    )
