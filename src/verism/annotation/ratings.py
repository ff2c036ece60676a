"""What annotators answered about the images of a run, from all studies it is in."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verism.annotation.votes import VoteStore, supersedes
from verism.errors import UsageError
from verism.files import read_json, write_json
from verism.records import RatingTask, empty_table
from verism.store import Run
from verism.suites.base import Suite
from verism.systems import quoted

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "FOLDER",
    "Ratings",
    "find_study",
    "given_ratings",
    "human_classes",
    "link_study",
    "majority_answer",
    "middle_answer",
    "rated_classes",
    "rating_remarks",
    "ratings_as_labels",
    "ratings_of",
    "sampling_facets",
    "studies_of",
    "study_path",
]

FOLDER = "annotation"
RATINGS_AS_LABELS = "annotation"  # value of the rule ``labels`` of suites that take human labels
DEFAULT_STUDY = "study"


@dataclass(frozen=True, kw_only=True, eq=False)
class Ratings:
    """The ratings of a run.

    Attributes:
        table: table ``ratings``; items are ids of this run's images and prompts, or pairs.
        tasks: the tasks behind it, by name.
        comparisons: the ratings of pairs by the names of the two runs in the order of ``first`` and ``second``; in
            ``table``, pairs with several other runs have the same names.
    """

    table: pl.DataFrame
    tasks: Mapping[str, RatingTask]
    comparisons: Mapping[tuple[str, str], pl.DataFrame] = field(default_factory=dict)


def study_path(run: Run, name: str | None = None) -> Path:
    """Where a study of a run lies."""
    name = DEFAULT_STUDY if name is None else name
    if not name or any(c in name for c in "/\\") or name.startswith("."):
        raise UsageError(f"{name!r} is no name for a study: use letters, digits, - and _")
    return run.path / FOLDER / f"{name}.sqlite"


def link_study(run: Run, path: Path) -> None:
    """Let a run know of a study that lies with another run, and shows its images, too."""
    folder = run.path / FOLDER
    link = folder / f"{path.stem}-of-{path.parent.parent.name}.json"
    write_json(link, {"study": str(path.absolute())})


def find_study(run: Run, name: str | None = None) -> Path | None:
    """The file of a study of a run by name, also of one that lies with another run; None if there is none."""
    path = study_path(run, name)
    if path.exists():
        return path
    return next((linked for linked in _linked(run) if linked.stem == path.stem), None)


def studies_of(run: Run) -> list[VoteStore]:
    """The studies that show images of a run, by name.

    Raises:
        UsageError: a study that cannot be read, or is linked to and gone.
    """
    return [VoteStore.open(path) for path in [*sorted((run.path / FOLDER).glob("*.sqlite")), *_linked(run)]]


def _linked(run: Run) -> list[Path]:
    """Studies that lie with other runs and show images of this one."""
    paths = []
    for link in sorted((run.path / FOLDER).glob("*.json")):
        target = Path(read_json(link)["study"])
        if not target.exists():
            raise UsageError(f"{link}: the study {target} is gone; bring it back, or remove this file")
        paths.append(target)
    return paths


def ratings_of(run: Run, *, min_right: float = 0.0) -> Ratings:
    """All ratings of a run's images.

    Raters who failed a qualification are left out. Nothing counts twice: of one rater, item and task in several
    studies, the latest vote stands, or that of the last study where votes have no time.

    Args:
        run: the run whose images were rated.
        min_right: smallest share of right answers to checks, 0 to 1; raters below it (of those who were given any) are
            left out.

    Raises:
        UsageError: two studies have different tasks by one name.
    """
    import polars as pl

    tables = [empty_table("ratings")]
    tasks: dict[str, RatingTask] = {}
    comparisons: dict[tuple[str, str], list[pl.DataFrame]] = {}
    here = run.path.resolve()
    for store in studies_of(run):
        numbers = _numbers_of(store, here)
        for task in store.study.tasks:
            if tasks.setdefault(task.name, task) != task:
                raise UsageError(f"{store.path}: the task {task.name!r} differs from that of another study of this run")
        subset: dict[tuple[str, str], str] = {}
        for item in store.study.items:
            run_numbers = {number for number, _ in item.images}
            if run_numbers & numbers:
                named = Path(store.study.runs[min(run_numbers & numbers)]).name  # as the run was called then
                subset[item.item, item.task] = item.item.removeprefix(f"{named}:")
        table = store.ratings()
        out = {r.name for r in store.raters() if r.barred} | _careless(store, table, min_right)
        keep = [(row["item"], row["task"]) in subset and row["rater"] not in out for row in table.iter_rows(named=True)]
        kept = table.filter(pl.Series(keep, dtype=pl.Boolean))
        names = [subset[i, t] for i, t in kept.select("item", "task").iter_rows()]
        tables.append(kept.with_columns(pl.Series("item", names, dtype=pl.String)))
        pairs = tables[-1].filter(pl.col("task").is_in([t.name for t in store.study.tasks if t.unit == "pair"]))
        if pairs.height:
            comparisons.setdefault(_compared(store), []).append(pairs)
    return Ratings(
        table=_last_votes(tables),
        tasks=tasks,
        comparisons={runs: _last_votes(members) for runs, members in comparisons.items()},
    )


def _numbers_of(store: VoteStore, here: Path) -> set[int]:
    """Which of the runs of a study one is, also after it was moved: the file of a study lies with the first."""
    named = [Path(path).resolve() for path in store.study.runs]
    if here in named:
        return {number for number, path in enumerate(named) if path == here}
    if store.path.resolve().parent.parent == here or len(named) == 1:
        return {0}
    return {1} if len(named) == 2 else set()


def _last_votes(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Of one rater, item and task in several tables, the vote that stands (``supersedes``)."""
    import polars as pl

    key = ["item", "task", "rater"]
    merged = pl.concat(tables).with_row_index()
    again = merged.filter(pl.struct(key).is_duplicated())
    standing: dict[tuple[str, ...], tuple[int, tuple[Any, Any, Any]]] = {}
    for index, *named, answer, seconds, at in again.select("index", *key, "answer", "seconds", "at").iter_rows():
        known = standing.get(tuple(named))
        if known is None or supersedes(answer, seconds, at, earlier=known[1]):
            standing[tuple(named)] = index, (answer, seconds, at)
    left = set(again["index"]) - {index for index, _ in standing.values()}
    return merged.filter(~pl.col("index").is_in(left)).drop("index").sort(key)


def _compared(store: VoteStore) -> tuple[str, str]:
    """Names of the two runs of a study of pairs: those of their folders, or all of the paths where these are alike."""
    first, second = (Path(path) for path in store.study.runs[:2])
    return (first.name, second.name) if first.name != second.name else (str(first), str(second))


def given_ratings(run: Run, *, min_right: float = 0.0) -> Ratings:
    """The ratings of a run that has some (see ``ratings_of``).

    Raises:
        UsageError: nobody rated its images, or nobody whose answers count.
    """
    ratings = ratings_of(run, min_right=min_right)
    if not ratings.table.is_empty():
        return ratings
    voted = sum(store.ratings().height for store in studies_of(run))
    if voted:
        raise UsageError(
            f"{run.path}: none of its {voted:,} answers counts: those who gave them failed the qualification, or too "
            f"many checks; see: verism annotate {quoted(run.path)} --status"
        )
    raise UsageError(f"{run.path}: nobody rated its images yet; see: verism annotate {quoted(run.path)}")


def ratings_as_labels(run: Run, suite: Suite, rules: Mapping[str, Any]) -> dict[str, Any]:
    """Rules of a suite with ``labels=annotation`` replaced by what annotators answered about this run.

    Raises:
        UsageError: nobody answered yet, or the suite takes no human labels.
    """
    if rules.get("labels") != RATINGS_AS_LABELS:
        return dict(rules)
    if not suite.takes_rating_labels:
        raise UsageError(f"{suite.name} takes no human labels; its rules are {', '.join(suite.all_rules())}")
    ratings = given_ratings(run)
    return {**rules, "labels": suite.labels_of_ratings(ratings.table, ratings.tasks)}


def sampling_facets(run: Run, rule: str, key: Mapping[str, Any]) -> tuple[str, ...]:
    """The facets by which the images that annotators saw were drawn; empty if by none, or if studies differ.

    A fixed number of images of each cell is no even sample of all where cells differ in size; who estimates something
    about all of them must weigh the answers (``pipeline.correction``).

    Args:
        run: the run.
        rule: the verdicts asked about.
        key: which of the rule's verdicts.
    """
    designs = _sampling_designs(run, rule, key)
    return designs.pop() if len(designs) == 1 else ()


def rating_remarks(
    run: Run, suite: Suite, rule: str, key: Mapping[str, Any], *, ratings: Ratings | None = None
) -> list[str]:
    """What to mind about ``human_classes``: images without a majority, and samples that cannot be weighed.

    Args:
        run: the run.
        suite: whose verdicts are asked about.
        rule: the verdicts asked about.
        key: which of the rule's verdicts.
        ratings: ratings of the run; read if left out.
    """
    classes, on_scale = _classes(run, suite, rule, key, ratings_of(run) if ratings is None else ratings)
    known = {image: [c for c in of_image if c is not None] for image, of_image in classes.items()}
    torn = 0 if on_scale else sum(len(members) > 1 and majority_answer(members) is None for members in known.values())
    remarks = []
    if torn:
        answered = sum(map(bool, known.values()))
        remarks.append(
            f"{torn:,} of {answered:,} images with answers have no majority and are left out; if "
            "annotators agree more easily about some images than about others, the rest is no even sample (an odd "
            "number of raters leaves few)"
        )
    if len(_sampling_designs(run, rule, key)) > 1:
        remarks.append("studies of this question drew images by different facets; answers are taken for an even sample")
    return remarks


def _sampling_designs(run: Run, rule: str, key: Mapping[str, Any]) -> set[tuple[str, ...]]:
    designs = set()
    for store in studies_of(run):
        asked = any(task.rule == rule and dict(task.key) == dict(key) for task in store.study.tasks)
        if asked and store.study.settings.get("per_cell") is not None:
            by = str(store.study.settings.get("by") or "")
            designs.add(tuple(part.strip() for part in by.split(",") if part.strip()))
    return designs


def _careless(store: VoteStore, table: pl.DataFrame, min_right: float) -> set[str]:
    if min_right <= 0:
        return set()
    right_of = {(i.item, i.task): i.right for i in store.study.items if i.check is not None}
    answered_right: dict[str, list[bool]] = {}
    for row in table.iter_rows(named=True):
        right = right_of.get((row["item"], row["task"]))
        if right is not None:
            answered_right.setdefault(row["rater"], []).append(row["answer"] == right)
    return {rater for rater, right in answered_right.items() if sum(right) < min_right * len(right)}


def majority_answer(answers: Sequence[str | None]) -> str | None:
    """The answer most raters gave; None for none, or a tie.

    >>> majority_answer(["yes", "no", "yes"]), majority_answer(["yes", "no"]), majority_answer([None])
    ('yes', None, None)
    """
    counts = Counter(answer for answer in answers if answer is not None).most_common(2)
    if not counts or (len(counts) == 2 and counts[0][1] == counts[1][1]):
        return None
    return counts[0][0]


def middle_answer(answers: Sequence[str | None], item: str) -> str | None:
    """The median of answers on a scale of whole numbers; None for none.

    A median between two steps is neither: one of the two is taken by a lot that the item's name decides, so that over
    many items neither is preferred.

    >>> middle_answer(["4", "6", "5"], "a"), middle_answer(["4", "5"], "a") in ("4", "5")
    ('5', True)
    """
    known = sorted(int(answer) for answer in answers if answer is not None)
    if not known:
        return None
    low, high = known[(len(known) - 1) // 2], known[len(known) // 2]
    middle, half = divmod(low + high, 2)
    up = half and hashlib.sha256(item.encode()).digest()[0] & 1
    return str(middle + 1 if up else middle)


def human_classes(
    run: Run, suite: Suite, rule: str, key: Mapping[str, Any], *, ratings: Ratings | None = None
) -> dict[str, str]:
    """What annotators say of each image, in the classes of a suite's verdicts.

    The majority, without ties; on a scale of whole numbers (tones) the median, as two raters a step apart have no
    majority and do not disagree. Answers that mean "cannot tell", and items that were checks, are left out.

    Args:
        run: the run.
        suite: whose verdicts are asked about.
        rule: the verdicts asked about (see ``RatingTask``).
        key: which of the rule's verdicts.
        ratings: ratings of the run; read if left out.

    Returns:
        The class by image id; images without one are not in it.
    """
    classes, on_scale = _classes(run, suite, rule, key, ratings_of(run) if ratings is None else ratings)
    agreed = {
        image: middle_answer(of_image, image) if on_scale else majority_answer(of_image)
        for image, of_image in classes.items()
    }
    return {image: label for image, label in agreed.items() if label is not None}


def rated_classes(run: Run, suite: Suite, task: RatingTask, ratings: Ratings) -> dict[tuple[str, str], str | None]:
    """What each rater's answer to a task means in the classes of a suite's verdicts; checks are left out.

    Args:
        run: the run.
        suite: whose verdicts the task is about.
        task: about single images.
        ratings: ratings of the run.

    Returns:
        The class by rater and image; None where the image was skipped, for "cannot tell", and for answers that are
        none of the classes.
    """
    prompts = {p.prompt_id: p for p in run.prompts()}
    rows = ratings.table.filter((ratings.table["task"] == task.name) & ratings.table["check"].is_null())
    prompt_of = run.prompts_of(rows["item"])
    return {
        (row["rater"], row["item"]): None
        if row["answer"] is None or row["answer"] in task.unsure
        else suite.rated_class(task, prompts[prompt_of[row["item"]]], row["answer"])
        for row in rows.iter_rows(named=True)
        if row["item"] in prompt_of
    }


def _classes(
    run: Run, suite: Suite, rule: str, key: Mapping[str, Any], ratings: Ratings
) -> tuple[dict[str, list[str | None]], bool]:
    """The classes that raters give each image; and whether these are a scale of whole numbers."""
    classes: dict[str, list[str | None]] = {}
    on_scale = False
    for task in ratings.tasks.values():
        if task.unit != "picture" or task.rule != rule or dict(task.key) != dict(key):
            continue
        on_scale = task.level != "nominal" and all(o.isdecimal() for o in task.options if o not in task.unsure)
        for (_, image), label in rated_classes(run, suite, task, ratings).items():
            classes.setdefault(image, []).append(label)
    return classes, on_scale
