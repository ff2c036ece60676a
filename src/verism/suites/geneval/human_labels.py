"""GenEval and people: what annotators are asked, and the authors' own annotations, read and scored.

The authors' annotations (tables of Mechanical Turk with 22 columns) hold what five people saw in each of 1,200 images:
how many objects, which colours, where the second lies as seen from the first. What makes an image right by them is
printed nowhere; the rule here reproduces the paper's number of unanimous images and its human scores.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from verism.errors import UsageError
from verism.files import read_text
from verism.records import Prompt, RatingTask
from verism.suites.geneval.prompts import Metadata
from verism.suites.right_or_wrong import RIGHT, WRONG

__all__ = ["Annotation", "HumanSummary", "human_summary", "is_right", "rated_class", "rating_tasks", "read_annotations"]

COLUMNS = (
    "HITId", "Input.prompt_id", "Input.image_id", "Input.object_0_name", "Input.object_1_name", "Answer.task-count-0",
    "Answer.task-count-1", "Answer.task-color-0", "Answer.task-color-1", "Answer.task-position-x",
    "Answer.task-position-y",
)  # fmt: skip
YES, NO, UNSURE = "yes", "no", "I cannot tell"
X_RELATIONS = {"left of": "left", "right of": "right"}
Y_RELATIONS = {"above": "above", "below": "below"}


# ------------------------------------------------------------------------------------------------------------ questions
def rating_tasks(tasks: Sequence[str]) -> list[RatingTask]:
    """What annotators are asked about images of these tasks.

    Args:
        tasks: names of the tasks.
    """
    helps = {
        "counting": "Count every one that you can recognise, also if partly hidden; more than asked is wrong, too.",
        "position": "Go by the picture, not by the objects' own left and right.",
        "colors": "The object must mostly have the colour; other objects may have any.",
        "color_attr": "Each object must mostly have its own colour.",
    }
    return [
        RatingTask(
            name=task,
            question="Does the picture show this: {prompt}?",
            kind="choice",
            options=(YES, NO, UNSURE),
            unsure=(UNSURE,),
            rule="accuracy",
            key={"task": task},
            only={"task": (task,)},
            help=helps.get(task, "Everything that is asked for must be there; other things may be there, too."),
        )
        for task in tasks
    ]


def rated_class(task: RatingTask, prompt: Prompt, answer: str) -> str | None:
    """``right`` or ``wrong`` for an answer; None for one that says neither.

    Args:
        task: what was asked.
        prompt: of the image.
        answer: one of the task's options.
    """
    del prompt
    if task.rule != "accuracy":
        return answer
    return {YES: RIGHT, NO: WRONG}.get(answer)


# ---------------------------------------------------------------------------------------------------------- annotations
@dataclass(frozen=True, kw_only=True)
class Annotation:
    """What one person saw in one image.

    Attributes:
        index: number of the prompt.
        image: number of the image of that prompt.
        names: classes of the first and the second object that were asked about.
        counts: how many of each; None where nothing was answered. 5 stands for five or more.
        colors: colours ticked of each.
        x: ``left``, ``right`` or neither: where the second object lies as seen from the first.
        y: the same, ``above``, ``below`` or neither.
    """

    index: int
    image: int
    names: tuple[str, ...]
    counts: tuple[int | None, ...]
    colors: tuple[frozenset[str], ...]
    x: str
    y: str


def read_annotations(path: Path) -> list[Annotation]:
    """The annotations of a file of the authors.

    Records end with a line feed and with nothing else: one of the released files has carriage returns inside fields,
    at which common readers would begin a new row.

    Args:
        path: CSV with the authors' 22 columns.

    Raises:
        UsageError: no such file, columns that are missing, or a number that is none.
    """
    text = read_text(path, "annotations of GenEval")
    # csv splits at carriage returns, too, if they stand outside quotes; a character of no meaning keeps them inside.
    lines = (line.replace("\r", " ") for line in text.split("\n") if line.strip())
    try:
        header, *rows = list(csv.reader(lines)) or [[]]
    except csv.Error as err:
        raise UsageError(f"{path}: no table ({err})") from None
    if missing := [name for name in COLUMNS if name not in header]:
        raise UsageError(
            f"{path}: no annotations of GenEval, the columns {', '.join(missing)} are missing; expected those of the "
            f"authors' annotations_*.csv, got {', '.join(header[:6])[:200] or 'nothing'}"
        )
    return [_annotation(dict(zip(header, row, strict=False)), f"{path}, record {n}") for n, row in enumerate(rows, 1)]


def _annotation(row: Mapping[str, str], where: str) -> Annotation:
    def number(name: str) -> int | None:
        written = row.get(name, "").strip()
        if not written:
            return None
        try:
            value = float(written)
        except ValueError:
            value = math.nan
        if not value.is_integer() or value < 0:
            raise UsageError(f"{where}: {name} is {written!r:.80}, not a whole number")
        return int(value)

    index, image = number("Input.prompt_id"), number("Input.image_id")
    if index is None or image is None:
        raise UsageError(f"{where}: Input.prompt_id and Input.image_id say which image it is of; one is empty")
    names = tuple(name for k in (0, 1) if (name := row.get(f"Input.object_{k}_name", "").strip()))
    return Annotation(
        index=index,
        image=image,
        names=names,
        counts=tuple(number(f"Answer.task-count-{k}") for k in (0, 1)),
        colors=tuple(frozenset(filter(None, row.get(f"Answer.task-color-{k}", "").strip().split("|"))) for k in (0, 1)),
        x=row.get("Answer.task-position-x", "").strip(),
        y=row.get("Answer.task-position-y", "").strip(),
    )


def is_right(annotation: Annotation, metadata: Metadata) -> bool:
    """Whether an image is right by what one person saw.

    Every object must be there as often as asked or more (for counting: exactly as often, "5" being five or more), the
    colour asked for must be among those ticked, and the relation must be one of the two answers, of x or of y. Objects
    are numbered as the prompt's entries are: of a position prompt the one that the other is placed by is the first.

    Args:
        annotation: what the person saw.
        metadata: the prompt.
    """
    for number, entry in enumerate(metadata["include"]):
        seen = annotation.counts[number] or 0
        exact = metadata["tag"] == "counting"
        if seen < entry["count"] or (exact and seen != entry["count"]):
            return False
        if "color" in entry and entry["color"] not in annotation.colors[number]:
            return False
        if "position" in entry:
            relation = entry["position"][0]
            wanted = {**X_RELATIONS, **Y_RELATIONS}[relation]
            if wanted not in (annotation.x, annotation.y):
                return False
    return True


@dataclass(frozen=True, kw_only=True)
class HumanSummary:
    """What annotators say of a model.

    Attributes:
        score: share of annotations that say right: a plain mean over annotations, as the paper has it.
        tasks: the same by task.
        n_annotations: number of annotations.
        n_images: number of images.
        unanimous: images about which all of several annotators agree.
        pairwise_agreement: mean over images of the share of pairs of annotators that agree; NaN without any pair.
        majority: by (index, image), whether more annotators say right than wrong; images with a tie are left out.
    """

    score: float
    tasks: Mapping[str, float]
    n_annotations: int
    n_images: int
    unanimous: int
    pairwise_agreement: float
    majority: Mapping[tuple[int, int], bool]


def human_summary(annotations: Sequence[Annotation], prompts: Mapping[int, Metadata]) -> HumanSummary:
    """The summary of annotations of one model.

    Args:
        annotations: of any images.
        prompts: the prompts by index.

    Raises:
        UsageError: an annotation of a prompt that does not exist, or of other objects than the prompt's.
    """
    votes: dict[tuple[int, int], list[bool]] = {}
    by_task: dict[str, list[bool]] = {}
    for annotation in annotations:
        metadata = prompts.get(annotation.index)
        if metadata is None:
            raise UsageError(f"an annotation is of prompt {annotation.index}, and there is none of that number")
        classes = {entry["class"] for entry in metadata["include"]}
        if set(annotation.names) - classes:
            raise UsageError(
                f"an annotation of prompt {annotation.index} is about {', '.join(annotation.names)}, and the prompt "
                f"about {', '.join(sorted(classes))}: they are of other prompts"
            )
        right = is_right(annotation, metadata)
        votes.setdefault((annotation.index, annotation.image), []).append(right)
        by_task.setdefault(metadata["tag"], []).append(right)
    every = [vote for some in votes.values() for vote in some]
    agreement = [
        sum(a == b for a, b in pairs) / len(pairs) for v in votes.values() if (pairs := list(combinations(v, 2)))
    ]
    counts = {key: Counter(some) for key, some in votes.items()}
    return HumanSummary(
        score=sum(every) / len(every) if every else math.nan,
        tasks={task: sum(some) / len(some) for task, some in by_task.items()},
        n_annotations=len(every),
        n_images=len(votes),
        unanimous=sum(len(some) > 1 and len(set(some)) == 1 for some in votes.values()),
        pairwise_agreement=sum(agreement) / len(agreement) if agreement else math.nan,
        majority={key: c[True] > c[False] for key, c in counts.items() if c[True] != c[False]},
    )
