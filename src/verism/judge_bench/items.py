"""Items of the bench: what is true of an image, what a judge says of it, and the groups that the image belongs to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from verism.annotation.judge_agreement import label_order
from verism.annotation.judge_cards import KnownTables, probability_of_last
from verism.records import Prompt
from verism.store import TRUTH, Run

if TYPE_CHECKING:
    import polars as pl

__all__ = ["PRESENT", "BenchItem", "image_groups", "items_of_tables", "presence_items", "read_items", "write_items"]

PRESENT = "presence of an object"  # task of the items that boxes are held against, class by class
SIZES = ((0.15, "small"), (0.3, "medium"))  # side of the smallest object, as a share of the image's; else large
BOX = ("x0", "y0", "x1", "y1")


@dataclass(frozen=True, kw_only=True)
class BenchItem:
    """One thing that a judge was asked and whose answer is known.

    Attributes:
        suite: whose images and rules.
        task: what was asked, in words (``count``, ``tone``).
        disturbance: what was done to the image (``blur=2``); empty: nothing.
        item: id, unique in its task and disturbance.
        pair: items of one pair share it; units of intervals and tests.
        labels: the classes; of two, the last is the positive one.
        true: the true class.
        predicted: the judge's class; None where it says nothing usable.
        score: the larger, the more the judge takes the item for positive; None where it gives none.
        is_probability: whether ``score`` is the probability of the positive class.
        groups: what groups the item belongs to, by facet.
    """

    suite: str
    task: str
    disturbance: str = ""
    item: str
    pair: str
    labels: tuple[str, ...]
    true: str
    predicted: str | None
    score: float | None = None
    is_probability: bool = True
    groups: Mapping[str, str] = field(default_factory=dict)

    @property
    def right(self) -> bool:
        """Whether the judge says what is true; nothing usable is not right."""
        return self.predicted == self.true


def items_of_tables(
    known: KnownTables,
    *,
    suite: str,
    protocol: str,
    paired: bool,
    groups: Mapping[str, Mapping[str, str]],
    disturbance: str = "",
) -> list[BenchItem]:
    """What ``known_tables`` found, as items.

    Args:
        known: the tables.
        suite: name of the suite.
        protocol: only tables of this one.
        paired: whether the images of a prompt are one unit.
        groups: of each image, as of ``image_groups``.
        disturbance: what was done to the images.
    """
    prompt_of = dict(known.observed.images.select("image_id", "prompt_id").iter_rows())
    return [
        BenchItem(
            suite=suite,
            task=task_words(table.rule, table.key, table.labels),
            disturbance=disturbance,
            item=image,
            pair=prompt_of[image] if paired else image,
            labels=table.labels,
            true=true,
            predicted=table.predicted.classes.get(image),
            score=probability_of_last(table, image),
            groups=groups.get(image, {}),
        )
        for table in known.tables
        if table.protocol == protocol
        for image, true in sorted(table.true.items())
    ]


def task_words(rule: str, key: Mapping[str, Any], labels: Sequence[str]) -> str:
    """What a table is about: the values of its key; with the rule before where the classes do not say right or wrong.

    >>> task_words("accuracy", {"skill": "count"}, ("wrong", "right"))
    'count'
    >>> task_words("attribute", {"attribute": "a tie"}, ("no", "yes"))
    'attribute: a tie'
    """
    values = ", ".join(str(value) for value in key.values())
    if not values:
        return rule
    return values if set(labels) == {"right", "wrong"} else f"{rule}: {values}"


def image_groups(run: Run, prompts: Sequence[Prompt], by: Sequence[str]) -> dict[str, dict[str, str]]:
    """Groups of each image: facets of its prompt, the background, and what is rendered in it.

    Args:
        run: with ground truth where there is any: size of the smallest object, or of the face, and tone of skin.
        prompts: of the run.
        by: facets of the prompts.

    Returns:
        By image, the value by facet; ``size`` is the root of a box's area as a share of the image's.
    """
    prompt_of = {p.prompt_id: p for p in prompts}
    groups: dict[str, dict[str, str]] = {}
    area: dict[str, float] = {}
    for image, prompt_id, width, height in run.read("images").select("image_id", "prompt_id", "width", "height").rows():
        prompt = prompt_of[prompt_id]
        of_image = {f: str(prompt.facets[f]) for f in by if prompt.facets.get(f) is not None}
        if prompt.scene is not None and prompt.scene.background not in ("", "empty"):
            of_image["background"] = prompt.scene.background
        groups[image] = of_image
        area[image] = float((width or 0) * (height or 0))
    smallest: dict[str, float] = {}
    for table in ("detections", "segments", "skin_tones"):
        if not run.has_truth(table):
            continue
        rows = run.read(table, TRUTH)
        for image, x0, y0, x1, y1 in rows.select("image_id", *BOX).drop_nulls().iter_rows():
            if area.get(image):
                side = (max(0.0, x1 - x0) * max(0.0, y1 - y0) / area[image]) ** 0.5
                smallest[image] = min(side, smallest.get(image, 1.0))
        if "tone" in rows.columns:
            for image, tone in rows.select("image_id", "tone").drop_nulls().iter_rows():
                groups[image]["tone"] = f"{tone:g}"
    for image, side in smallest.items():
        groups[image]["size"] = next((name for limit, name in SIZES if side < limit), "large")
    return groups


def presence_items(
    run: Run,
    judge: str,
    table: str,
    *,
    suite: str,
    threshold: float,
    paired: bool,
    groups: Mapping[str, Mapping[str, str]],
    disturbance: str = "",
) -> list[BenchItem]:
    """Whether a class of objects is in an image: for every class that an image of the pair shows.

    So each class that a planted error takes away or brings in is asked of both images. The judge's score is that of its
    most confident box of the class, 0 without any: what its confidences are worth does not depend on rules of a suite.

    Args:
        run: with ground truth.
        judge: full name.
        table: of boxes, with the columns ``label`` and ``score``.
        suite: name of the suite.
        threshold: boxes above it count.
        paired: as of ``items_of_tables``.
        groups: as of ``items_of_tables``.
        disturbance: as of ``items_of_tables``.
    """
    import polars as pl

    if not run.has_truth(table):
        return []
    images = run.read("images").filter(pl.col("state") == "ok")
    unit = dict(images.select("image_id", "prompt_id" if paired else "image_id").iter_rows())
    shown: dict[str, set[str]] = {}
    for image, label in run.read(table, TRUTH).select("image_id", "label").drop_nulls().iter_rows():
        shown.setdefault(image, set()).add(label)
    asked: dict[str, set[str]] = {}
    for image, labels in shown.items():
        if image in unit:
            asked.setdefault(unit[image], set()).update(labels)
    rows = run.read(table, judge)
    looked = set(rows["image_id"].to_list())
    best = {
        (image, label): float(score)
        for image, label, score in rows.drop_nulls(["label", "score"])
        .group_by("image_id", "label")
        .agg(pl.col("score").max())
        .iter_rows()
    }
    made = []
    for image in sorted(unit):
        for label in sorted(asked.get(unit[image], ())):
            score = best.get((image, label), 0.0) if image in looked else None
            made.append(
                BenchItem(
                    suite=suite,
                    task=PRESENT,
                    disturbance=disturbance,
                    item=f"{image} {label}",
                    pair=unit[image],
                    labels=("absent", "present"),
                    true="present" if label in shown.get(image, ()) else "absent",
                    predicted=None if score is None else "present" if score > threshold else "absent",
                    score=score,
                    groups=groups.get(image, {}),
                )
            )
    return made


# ------------------------------------------------------------------------------------------------------------- files
def write_items(items: Iterable[BenchItem]) -> pl.DataFrame:
    """Items as a table, a row for each."""
    import polars as pl

    rows = [
        {
            "suite": i.suite,
            "task": i.task,
            "disturbance": i.disturbance,
            "item": i.item,
            "pair": i.pair,
            "labels": json.dumps(list(i.labels)),
            "true": i.true,
            "predicted": i.predicted,
            "score": i.score,
            "is_probability": i.is_probability,
            "groups": json.dumps(dict(i.groups), sort_keys=True),
        }
        for i in items
    ]
    schema = dict.fromkeys(("suite", "task", "disturbance", "item", "pair", "labels", "true", "predicted"), pl.String)
    types: dict[str, Any] = {**schema, "score": pl.Float64, "is_probability": pl.Boolean, "groups": pl.String}
    return pl.DataFrame(rows, schema=types)


def read_items(table: pl.DataFrame) -> list[BenchItem]:
    """What ``write_items`` wrote."""
    return [
        BenchItem(**{**row, "labels": tuple(json.loads(row["labels"])), "groups": json.loads(row["groups"])})
        for row in table.iter_rows(named=True)
    ]


def in_order(values: Iterable[str]) -> list[str]:
    """Values of a facet, numbers as numbers."""
    return sorted(set(values), key=label_order)
