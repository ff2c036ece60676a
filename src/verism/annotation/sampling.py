"""Which images annotators see: a fixed number per cell, drawn at random, the same for the same seed.

The order of drawing is a hash of the seed and the id. So a larger sample holds the smaller one, other images in the run
change nothing, and several tasks about images show the same ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, cast

from verism.annotation.votes import CHECKS, Check, Item
from verism.errors import UsageError
from verism.files import read_rows
from verism.records import Prompt, RatingTask
from verism.store import Run

__all__ = ["draw_items", "interleaved", "read_checks", "with_checks"]

WAITING = 1024  # items of a cell that may be held besides, so that they are not sorted with each that comes


def draw_items(
    runs: Sequence[Run],
    task: RatingTask,
    *,
    per_cell: int | None,
    by: Sequence[str] = (),
    seed: int = 0,
    without: Collection[str] = (),
) -> list[Item]:
    """The items of a task: ``per_cell`` of each combination of the facets ``by`` (and of each run), or all.

    Cells with fewer give all they have. Items come cell by cell in turn, so that whatever is answered first is
    balanced.

    Args:
        runs: an image or a prompt is of any of them; a pair is of the same prompt and index in the first two.
        task: the question to ask.
        per_cell: items of each cell, at least 1; None for all.
        by: facets of prompts. The run is a facet of its own where there are several.
        seed: seed of the draw.
        without: items that are not drawn: those whose answer is known, which are checks.

    Raises:
        UsageError: an unknown facet, per_cell under 1, or a pair without two runs.
    """
    if per_cell is not None and per_cell < 1:
        raise UsageError(f"items per cell must be at least 1, got {per_cell}")
    every = _pairs(runs, task) if task.unit == "pair" else _single(runs, task)
    known: set[str] = set()
    cells: dict[str, _Cell] = {}
    for prompt, run, item in every:
        if item.item in without:
            continue
        known |= prompt.facets.keys()
        cell: dict[str, Any] = {facet: prompt.facets.get(facet) for facet in by}
        if len(runs) > 1 and task.unit != "pair":
            cell["run"] = runs[run].name
        name = json.dumps(cell, sort_keys=True, ensure_ascii=False)
        cells.setdefault(name, _Cell(per_cell)).add(_draw_order(seed, run, item.item), item)
    if foreign := [facet for facet in by if cells and facet not in known]:
        raise UsageError(f"no facet {foreign[0]!r} to draw by; prompts have {', '.join(sorted(known)) or 'none'}")
    drawn = ([replace(item, cell=name) for item in cell.items()] for name, cell in sorted(cells.items()))
    return interleaved(list(drawn))


class _Cell:
    """The items of a cell that come first in the order of the draw; no others are held."""

    def __init__(self, most: int | None) -> None:
        self.most = most
        self._held: list[tuple[bytes, Item]] = []

    def add(self, order: bytes, item: Item) -> None:
        self._held.append((order, item))
        if self.most is not None and len(self._held) >= 2 * self.most + WAITING:
            self._cut()

    def _cut(self) -> None:
        self._held.sort(key=lambda held: held[0])
        if self.most is not None:
            del self._held[self.most :]

    def items(self) -> list[Item]:
        """Them in their order."""
        self._cut()
        return [item for _, item in self._held]


def interleaved(lists: Sequence[Sequence[Item]]) -> list[Item]:
    """One of each list in turn, until all are done."""
    longest = max((len(items) for items in lists), default=0)
    return [items[i] for i in range(longest) for items in lists if i < len(items)]


def _draw_order(seed: int, run: int, item: str) -> bytes:
    return hashlib.sha256(f"{seed}/{run}/{item}".encode()).digest()


def _asked(task: RatingTask, prompt: Prompt) -> bool:
    return all(prompt.facets.get(facet) in values for facet, values in task.only.items())


def _shown(run: Run) -> Iterator[tuple[str, str, int]]:
    """(image id, prompt id, index) of every image that there is, prompt by prompt."""
    table = run.read("images", columns=["image_id", "prompt_id", "index", "state"])
    rows = table.filter(table["state"] == "ok").sort("prompt_id", "index")
    return rows.select("image_id", "prompt_id", "index").iter_rows()


def _single(runs: Sequence[Run], task: RatingTask) -> Iterable[tuple[Prompt, int, Item]]:
    taken: set[str] = set()
    for number, run in enumerate(runs):
        prompts = {p.prompt_id: p for p in run.prompts()}
        for prompt_id, rows in groupby(_shown(run), key=lambda row: row[1]):
            images = [image_id for image_id, _, _ in rows]
            prompt = prompts[prompt_id]
            if not _asked(task, prompt):
                continue
            groups = [(prompt_id, images)] if task.unit == "prompt" else [(image, [image]) for image in images]
            for name, group in groups:
                # Runs of one suite share ids of prompts and images.
                unique = name if name not in taken else f"{run.name}:{name}"
                if number + 1 < len(runs):  # those of one run differ
                    taken.add(unique)
                yield prompt, number, Item(item=unique, task=task.name, images=tuple((number, i) for i in group))


def _pairs(runs: Sequence[Run], task: RatingTask) -> Iterable[tuple[Prompt, int, Item]]:
    if len(runs) < 2:
        raise UsageError(f"{task.name} compares the images of two runs: verism annotate RUN OTHER_RUN")
    first, second = runs[0], runs[1]
    prompts = {p.prompt_id: p for p in first.prompts()}
    text_of = {p.prompt_id: p.text for p in second.prompts()}
    others = {(prompt_id, index): image for image, prompt_id, index in _shown(second)}
    for image, prompt_id, index in _shown(first):
        other = others.get((prompt_id, index))
        prompt = prompts[prompt_id]
        if other is not None and text_of[prompt_id] == prompt.text and _asked(task, prompt):
            yield prompt, 0, Item(item=f"{image}|{other}", task=task.name, images=((0, image), (1, other)))


def read_checks(path: Path, tasks: Sequence[RatingTask]) -> list[dict[str, str]]:
    """Items with known answers, from a table (``.csv``, ``.jsonl``): item, task, answer, check.

    ``item`` is an image's or prompt's id, or two images' ids with ``|`` between; ``task`` may be left out if there
    is one; ``check`` is gold, attention or qualification, and gold if left out.

    Raises:
        UsageError: a row without item or answer, or with an unknown task, check or answer.
    """
    by_name = {task.name: task for task in tasks}
    checks = []
    for row in read_rows(path, "items with known answers"):
        where = row.where
        values = {k: str(row.get(k) or "").strip() for k in ("item", "task", "answer", "check")}
        if not values["item"] or not values["answer"]:
            raise UsageError(f"{where}: columns are item, task, answer, check; item or answer is empty")
        values["task"] = values["task"] or (tasks[0].name if len(tasks) == 1 else "")
        values["check"] = values["check"] or "gold"
        task = by_name.get(values["task"])
        if task is None:
            raise UsageError(f"{where}: no task {values['task']!r}; there are {', '.join(by_name)}")
        if values["check"] not in CHECKS:
            raise UsageError(f"{where}: check is one of {', '.join(CHECKS)}, got {values['check']!r}")
        if values["answer"] not in task.options:
            raise UsageError(f"{where}: {values['answer']!r} is no answer; there are {', '.join(task.options)}")
        checks.append(values)
    return checks


def with_checks(
    items: Sequence[Item], checks: Sequence[Mapping[str, str]], runs: Sequence[Run], tasks: Sequence[RatingTask]
) -> list[Item]:
    """The items of a study with its checks: qualification first, gold spread evenly, attention behind.

    An item that is a check is no longer one of the study proper.

    Raises:
        UsageError: a check about an item that no run has.
    """
    if not checks:
        return list(items)
    everything = {(i.item, task.name): i for task in tasks for i in draw_items(runs, task, per_cell=None)}
    made: list[Item] = []
    for check in checks:
        item = everything.get((check["item"], check["task"]))
        if item is None:
            raise UsageError(f"no image for the check {check['item']!r} of task {check['task']!r}")
        made.append(replace(item, check=cast(Check, check["check"]), right=check["answer"]))
    known = {(i.item, i.task) for i in made}
    proper = [i for i in items if (i.item, i.task) not in known]
    gold = [i for i in made if i.check == "gold"]
    spread = sorted(
        [((n + 0.5) / max(1, len(proper)), 1, i) for n, i in enumerate(proper)]
        + [((n + 0.5) / len(gold), 0, i) for n, i in enumerate(gold)],
        key=lambda entry: entry[:2],
    )
    return [
        *(i for i in made if i.check == "qualification"),
        *(i for *_, i in spread),
        *(i for i in made if i.check == "attention"),
    ]
