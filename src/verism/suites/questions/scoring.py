"""From answers to numbers: values of questions, images, prompts, categories. Pure functions of what was answered."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np

from verism.metrics.questions import gated_values
from verism.records import FacetValue
from verism.statistics.intervals import ClusterSums, Interval
from verism.suites.questions.asked import AskedQuestion
from verism.suites.questions.switches import Switches

__all__ = [
    "NOTHING",
    "JudgedImage",
    "Key",
    "Mean",
    "Number",
    "Tally",
    "answer_share",
    "category_mean",
    "counted_images",
    "image_value",
    "judged_values",
    "overall_mean",
]

NOTHING = Interval(math.nan, math.nan, math.nan)
NO_VALUES = ClusterSums.of([], [])


@dataclass(frozen=True, kw_only=True)
class JudgedImage:
    """The values of the questions about an image.

    Attributes:
        image_id: the image.
        prompt_id: its prompt.
        index: which image of its prompt it is, from 0.
        own: by question, how far its own answer is right; None: no usable answer. Of an image that is missing all are.
        values: by question, the same once the questions it depends on are looked at.
        problem: why there is nothing to decide about; empty if there is.
        lost: whether the released code loses the whole prompt, whatever is answered.
        weights: of questions in the score of the image; those that are not there weigh 1.
    """

    image_id: str
    prompt_id: str
    index: int
    own: Mapping[str, float | None] = field(default_factory=dict)
    values: Mapping[str, float | None] = field(default_factory=dict)
    problem: str = ""
    lost: bool = False
    weights: Mapping[str, float] = field(default_factory=dict)


class Number(NamedTuple):
    """A number that is no mean over all images, such as a correlation.

    Attributes:
        interval: the number and its ends; NaN where undefined.
        n_used: images (or answers) that entered it.
        n_unusable: those that did not.
    """

    interval: Interval
    n_used: int
    n_unusable: int


@dataclass(frozen=True, kw_only=True)
class Mean:
    """A mean with its interval by prompt, and what it is made of.

    Attributes:
        values: what is averaged, as sums by prompt.
        n_used: images (or answers) that entered it.
        n_unusable: those that did not.
        highest: end that it cannot pass.
        refused: whether there is no mean where anything is unusable.
        n_images: images (or answers) that there are of what it is about; without any there is no number of it.
    """

    values: ClusterSums = NO_VALUES
    n_used: int = 0
    n_unusable: int = 0
    highest: float = 1.0
    refused: bool = False
    n_images: int = 0

    @property
    def interval(self) -> Interval:
        """Mean and ends; NaN where undefined."""
        # Released parsers may read levels that there are not.
        return NOTHING if self.refused else self.values.average(bounds=(0.0, self.highest))

    def coded(self, rank: Mapping[str, int]) -> Self:
        """The same with prompts as numbers, which take less memory and sort alike.

        Args:
            rank: place of each prompt in the order of ids.
        """
        labels = np.array([rank[label] for label in self.values.labels.tolist()], dtype=np.int32)
        return replace(self, values=self.values._replace(labels=labels))

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The mean over all parts.

        Args:
            parts: of different prompts each.
        """
        refused = any(part.refused for part in parts)
        n_used, n_unusable = sum(part.n_used for part in parts), sum(part.n_unusable for part in parts)
        return cls(
            values=ClusterSums.joined([part.values for part in parts]),
            n_used=0 if refused else n_used,
            n_unusable=n_unusable + n_used if refused else n_unusable,
            highest=max((part.highest for part in parts), default=1.0),
            refused=refused,
            n_images=sum(part.n_images for part in parts),
        )


Key = tuple[str, str, FacetValue]  # metric, facet and its value; both empty for all images


@dataclass(frozen=True, kw_only=True)
class Tally:
    """What scores under a protocol need of some prompts' images.

    Attributes:
        means: in the order of scores, the same keys for any images.
        n_incomplete: images that have no usable answer to some question.
        rows: what a suite keeps of each image for numbers that are no means.
    """

    means: Mapping[Key, Mean]
    n_incomplete: int
    rows: Sequence[Any] = ()

    @classmethod
    def joined(cls, parts: Sequence[Tally]) -> Tally:
        """That of all parts, by the order of their prompts' images.

        Args:
            parts: one at least, of different prompts each.
        """
        first = parts[0].means
        return cls(
            means={key: type(mean).joined([part.means[key] for part in parts]) for key, mean in first.items()},
            n_incomplete=sum(part.n_incomplete for part in parts),
            rows=[row for part in parts for row in part.rows],
        )


def judged_values(
    questions: Sequence[AskedQuestion], own: Mapping[str, float | None], switches: Switches, *, first_row: bool = False
) -> tuple[dict[str, float | None], bool]:
    """What each question counts, and whether the released code loses the prompt.

    Args:
        questions: about the prompt, in the file's order.
        own: by question, how far its own answer is right.
        switches: how dependencies are read.
        first_row: whether the prompt's first question is the first row of its file.

    Returns:
        Values by question; and True where the first row is lost and another question depends on it, so that the
        released code fails.
    """
    asked = list(questions)
    if first_row and switches.first_row == "lost":
        gone = asked.pop(0).name
        if not asked or any(gone in (q.released_parents or q.parents) for q in asked):
            return {question.name: own.get(question.name) for question in asked}, True
    parents = {
        question.name: question.parents
        if switches.graph == "mended" or question.released_parents is None
        else question.released_parents
        for question in asked
    }
    values = {question.name: own.get(question.name) for question in asked}
    if switches.when_missing == "zero":
        values = {name: 0.0 if value is None else value for name, value in values.items()}
    return gated_values(values, parents, dependence=switches.dependence), False


def image_value(image: JudgedImage, switches: Switches) -> float | None:
    """The score of an image in [0, 1]: the (weighted) mean over its questions; None where it has none.

    Args:
        image: the image.
        switches: what becomes of missing answers.
    """
    if switches.when_missing == "zero" and (image.problem or not image.values):
        return 0.0
    usable = {name: value for name, value in image.values.items() if value is not None}
    if image.problem or not usable:
        return None
    # A question without a reply stops the released code also where the question it depends on is wrong anyway.
    failed = any(image.own.get(name) is None for name in image.values)
    if failed and switches.when_missing not in ("counted", "zero"):
        return None
    if not image.weights:
        return sum(usable.values()) / len(usable)
    weights = {name: image.weights.get(name, 1.0) for name in usable}
    return sum(weights[name] * value for name, value in usable.items()) / sum(weights.values())


def _shown(images: Iterable[JudgedImage], switches: Switches) -> list[JudgedImage]:
    limit = switches.images_counted
    return [image for image in images if limit is None or image.index < limit]


def _by_prompt(images: Iterable[JudgedImage]) -> dict[str, list[JudgedImage]]:
    groups: dict[str, list[JudgedImage]] = {}
    for image in images:
        groups.setdefault(image.prompt_id, []).append(image)
    return groups


def _kept(images: Sequence[JudgedImage], switches: Switches) -> dict[str, list[tuple[JudgedImage, float]]]:
    """Images that count, with their scores, by prompt; prompts that are dropped are left out."""
    kept: dict[str, list[tuple[JudgedImage, float]]] = {}
    for prompt_id, of_prompt in _by_prompt(images).items():
        scored = [(image, image_value(image, switches)) for image in of_prompt]
        dropped = switches.when_missing == "prompt_dropped" and any(value is None for _, value in scored)
        usable = [(image, value) for image, value in scored if value is not None]
        if usable and not dropped and not any(image.lost for image in of_prompt):
            kept[prompt_id] = usable
    return kept


def overall_mean(images: Iterable[JudgedImage], switches: Switches) -> Mean:
    """The score of a set of images: over questions, images and prompts, as the switches say.

    Args:
        images: all that were asked for, also missing ones.
        switches: over what is averaged, and what becomes of what is missing.
    """
    images = list(images)
    shown = _shown(images, switches)
    kept = _kept(shown, switches)
    n_used = sum(map(len, kept.values()))
    n_unusable = len(shown) - n_used
    refused = switches.when_missing == "refused" and n_unusable > 0
    if refused:
        return Mean(n_unusable=len(shown), refused=True, n_images=len(images))
    values: list[float] = []
    clusters: list[str] = []
    for prompt_id, scored in kept.items():
        if switches.average_over == "prompts":
            # Weighed by prompts, so that a prompt with fewer usable images counts as much as any other.
            values.append(sum(value for _, value in scored) / len(scored))
            clusters.append(prompt_id)
            continue
        for image, _ in scored:
            usable = [value for value in image.values.values() if value is not None]
            values += usable
            clusters += [prompt_id] * len(usable)
    return Mean(
        values=ClusterSums.of(values, clusters),
        n_used=n_used,
        n_unusable=n_unusable,
        highest=max(1.0, *values) if switches.average_over == "prompts" and values else 1.0,
        n_images=len(images),
    )


def counted_images(images: Iterable[JudgedImage], switches: Switches) -> frozenset[str]:
    """Ids of the images that count: those that there are, less those that are dropped.

    Args:
        images: all that were asked for, also missing ones.
        switches: which images count, and what becomes of what is missing.
    """
    kept = _kept(_shown(images, switches), switches)
    return frozenset(image.image_id for scored in kept.values() for image, _ in scored)


def category_mean(
    images: Iterable[JudgedImage],
    questions: Mapping[str, Sequence[str]],
    switches: Switches,
    *,
    gated: bool,
    counted: frozenset[str],
) -> Mean:
    """The share of right answers among questions of a category, pooled over all prompts; it counts answers.

    Args:
        images: all that were asked for, also missing ones.
        questions: names of the questions of the category, by prompt.
        switches: which images count, and what becomes of what is missing.
        gated: whether questions count 0 for the sake of those they depend on.
        counted: ids of the images that count, see ``counted_images``.
    """
    shown = [image for image in _shown(images, switches) if questions.get(image.prompt_id)]
    if switches.category_images == "last":
        # Released code keeps one answer per question, so that each image of a prompt overwrites those before it.
        last = {image.prompt_id: image.index for image in sorted(shown, key=lambda image: image.index)}
        shown = [image for image in shown if image.index == last[image.prompt_id]]
    values, clusters, asked = [], [], 0
    for image in shown:
        names = questions[image.prompt_id]
        asked += len(names)
        if image.image_id not in counted:
            continue
        table = image.values if gated else image.own
        for name in names:
            value = None if image.problem or name not in image.values else table.get(name)
            if value is None and switches.when_missing == "zero":
                value = 0.0
            if value is not None:
                values.append(value)
                clusters.append(image.prompt_id)
    unusable = asked - len(values)
    if switches.when_missing == "refused" and unusable:
        return Mean(n_unusable=asked, refused=True, n_images=asked)
    return Mean(values=ClusterSums.of(values, clusters), n_used=len(values), n_unusable=unusable, n_images=asked)


def answer_share(images: Iterable[JudgedImage], n_questions: Mapping[str, int], switches: Switches) -> Mean:
    """The share of questions that have a usable answer.

    Args:
        images: all that were asked for, also missing ones.
        n_questions: number of questions by prompt.
        switches: which images count.
    """
    values, clusters = [], []
    for image in _shown(images, switches):
        answered = 0 if image.problem else sum(value is not None for value in image.own.values())
        n = n_questions[image.prompt_id]
        values += [1.0] * answered + [0.0] * (n - answered)
        clusters += [image.prompt_id] * n
    return Mean(
        values=ClusterSums.of(values, clusters),
        n_used=len(values),
        n_unusable=len(values) - int(sum(values)),
        n_images=len(values),
    )
