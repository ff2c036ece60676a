"""What every export is made of: questions as they are shown, under names that give nothing away.

Whoever answers must not learn which model made an image, which prompt it belongs to (unless the question says), or
which answer is known. So items and images have names that are keyed hashes, images are written anew from their
pixels (files of some programs hold the prompt, and their format alone may tell two models apart), the sides of pairs
are drawn by lot, and cells, titles and right answers stay at home.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verism.annotation.views import LEFT, RIGHT, TIE, StudyView, filled
from verism.annotation.votes import VoteStore
from verism.characters import visible
from verism.errors import UsageError
from verism.files import write_whole
from verism.imaging import encode_png

if TYPE_CHECKING:
    from verism.store import Run

__all__ = [
    "IMAGES",
    "SIDES",
    "Layout",
    "Question",
    "example_name",
    "item_keys",
    "layouts",
    "questions",
    "study_key",
    "swapped",
    "url_of",
    "write_images",
]

IMAGES = "pictures"  # folder of an export
SIDES = (LEFT, RIGHT, TIE)  # what people answer to pairs, in place of first, second, tie


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What questions that are asked alike have in common: a page, a template or a project each.

    Attributes:
        name: file name, unique in the study.
        kind: kind of question, as in ``RatingTask``.
        options: answers as annotators see them, in order.
        unit: what is shown: ``picture``, ``prompt`` or ``pair``.
        help: instructions for annotators.
        examples: a sentence per option.
        example_images: content of a PNG file per option.
    """

    name: str
    kind: str
    options: tuple[str, ...]
    unit: str
    help: str
    examples: Mapping[str, str]
    example_images: Mapping[str, bytes]


@dataclass(frozen=True, kw_only=True)
class Question:
    """An item as it is given away.

    Attributes:
        position: number of the item in the study.
        key: name of the item outside the study.
        task: name of the task.
        text: the question, as annotators see it.
        layout: how it is asked.
        images: names of the image files, in the order in which they are shown.
        check: whether it has a known answer.
    """

    position: int
    key: str
    task: str
    text: str
    layout: Layout
    images: tuple[str, ...]
    check: bool


def item_keys(store: VoteStore) -> dict[str, int]:
    """The positions of a study's items by the names they have outside."""
    keys = {_opaque(store, "i", f"item/{position}"): position for position in range(len(store.study.items))}
    if len(keys) < len(store.study.items):
        raise UsageError(f"{store.path}: two items have one name outside; make the study anew under another name")
    return keys


def swapped(store: VoteStore, position: int) -> bool:
    """Whether exports show the second image of a pair on the left: by lot, from the study's seed."""
    if store.task(store.study.items[position].task).unit != "pair":
        return False
    return bool(hashlib.sha256(f"{store.study.seed}/sides/{position}".encode()).digest()[0] & 1)


def questions(view: StudyView) -> list[Question]:
    """All questions of a study in the order of asking: qualification first, attention checks spread over the rest.

    Raises:
        UsageError: a run without an image that the study shows.
    """
    store, runs = view.store, view.runs
    prompts = [{p.prompt_id: p for p in run.prompts()} for run in runs]
    first_images: list[set[str]] = [set() for _ in runs]
    for item in store.study.items:
        first_images[item.images[0][0]].add(item.images[0][1])
    prompt_of = [run.prompts_of(images) for run, images in zip(runs, first_images, strict=True)]
    layout_of = {name: layout for layout, names in layouts(view) for name in names}
    key_of = {position: key for key, position in item_keys(store).items()}
    made = []
    for position in _order(store):
        item = store.study.items[position]
        task = store.task(item.task)
        run, first = item.images[0]
        if first not in prompt_of[run]:
            raise UsageError(f"{runs[run].path} has no image {first!r}, which the study shows; is it another run?")
        images = [_image_name(store, number, image) for number, image in item.images]
        if swapped(store, position):
            images.reverse()
        made.append(
            Question(
                position=position,
                key=key_of[position],
                task=task.name,
                text=visible("".join(text for text, _ in filled(task.question, prompts[run][prompt_of[run][first]]))),
                layout=layout_of[task.name],
                images=tuple(images),
                check=item.check is not None,
            )
        )
    return made


def layouts(view: StudyView) -> list[tuple[Layout, list[str]]]:
    """The layouts of a study, each with the names of its tasks; tasks that only differ in the question share one."""
    results: dict[str, tuple[Layout, list[str]]] = {}
    for number, task in enumerate(view.store.study.tasks):
        pair = task.unit == "pair"
        images = {o: png for i, o in enumerate(task.options) if not pair and (png := view.example(number, i))}
        made = Layout(
            name=f"{len(results) + 1}-{_slug(task.name)}",
            kind=task.kind,
            options=SIDES if pair else task.options,
            unit=task.unit,
            help=task.help,
            examples={o: text for o, text in task.examples.items() if o in task.options and o not in images},
            example_images=images,
        )
        alike = repr((made.kind, made.options, made.unit, made.help, made.examples, made.example_images))
        results.setdefault(alike, (made, []))[1].append(task.name)
    return list(results.values())


def example_name(layout: Layout, option: str) -> str:
    """The image file of an option's example."""
    return f"e{hashlib.sha256(layout.example_images[option]).hexdigest()[:12]}.png"


def write_images(view: StudyView, folder: Path, asked: Iterable[Question]) -> None:
    """The images of questions as PNG under their names outside, and nothing but the pixels; examples as well.

    Raises:
        UsageError: an image that cannot be read.
    """
    store, runs = view.store, view.runs
    sources: dict[str, tuple[Run, dict[str, Any]]] = {}
    examples: dict[str, bytes] = {}
    columns, chosen = ["image_id", "path", "sha256"], list(asked)
    shown: list[set[str]] = [set() for _ in runs]
    for question in chosen:
        for run, image in store.study.items[question.position].images:
            shown[run].add(image)
    rows = [
        {row["image_id"]: row for row in run.read("images", keys=sorted(ids), columns=columns).iter_rows(named=True)}
        for run, ids in zip(runs, shown, strict=True)
    ]
    for question in chosen:
        for run, image in store.study.items[question.position].images:
            row = rows[run].get(image)
            if row is None or row["path"] is None:
                raise UsageError(f"{runs[run].path} has no file for the image {image!r}, which the study shows")
            sources[_image_name(store, run, image)] = runs[run], row
        examples |= {example_name(question.layout, o): png for o, png in question.layout.example_images.items()}
    folder.mkdir(parents=True, exist_ok=True)
    for name, png in examples.items():
        write_whole(folder / name, png, sync=False)
    for name in sorted(sources):  # the order of writing tells nothing either
        source, row = sources[name]
        read = source.load_image(row)
        if read.pixels is None:
            where = source.resolve(row["path"])
            raise UsageError(f"{where}: {read.note or read.state}; the image cannot be given away")
        write_whole(folder / name, encode_png(read.pixels), sync=False)


def url_of(name: str, pattern: str) -> str:
    """Where an image will be found; ``{name}`` stands for its file.

    Raises:
        UsageError: a pattern without ``{name}``.
    """
    if "{name}" not in pattern:
        raise UsageError(f"--image-url {pattern!r} lacks {{name}}, which stands for the file of an image")
    return pattern.replace("{name}", name)


def study_key(store: VoteStore) -> str:
    """What tells the exports of a study from those of others."""
    return _opaque(store, "s", "study")


def _image_name(store: VoteStore, run: int, image_id: str) -> str:
    return _opaque(store, "p", f"picture/{run}/{image_id}") + ".png"


def _opaque(store: VoteStore, letter: str, what: str) -> str:
    """A keyed hash: the same in every export of a study. It begins with a letter, or spreadsheets make it a number."""
    return letter + store.signature(f"exchange/{what}")[:12]


def _order(store: VoteStore) -> list[int]:
    owner: dict[str | None, list[int]] = {}
    for position, item in enumerate(store.study.items):
        owner.setdefault(item.check if item.check in ("qualification", "attention") else None, []).append(position)
    order, attention = owner.get("qualification", []), iter(owner.get("attention", []))
    for number, position in enumerate(owner.get(None, []), start=1):
        order.append(position)
        if number % store.study.attention_every == 0:
            order += [check for check in [next(attention, None)] if check is not None]
    return [*order, *attention]


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "task"
