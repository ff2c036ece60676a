"""Statistics of the bench: how right each judge is, at what, for whom, and whether judges differ.

Pure functions of items. The unit of every interval and test is the pair (a right image and its twin with a planted
error), or the image where items do not come in pairs. Rates are of items of which the judge says something usable, as
on judge cards; how many it says nothing usable of stands beside them, and wherever judges or groups are compared such
an item counts as not right. All p-values of one table are adjusted together (Holm).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from verism.annotation.judge_agreement import is_number, label_order
from verism.judge_bench.items import BenchItem
from verism.statistics.association import auc
from verism.statistics.intervals import Interval, clustered_proportion, mean_of_independent
from verism.statistics.judge_error import calibration_error
from verism.statistics.paired import holm, paired_difference

__all__ = [
    "ENOUGH",
    "Board",
    "GroupRate",
    "GroupTest",
    "JudgeTest",
    "Judged",
    "TaskResult",
    "make_board",
    "task_result",
    "unequal_groups",
]

ENOUGH = 0.9  # sensitivity, specificity and usable share from which on a judge is said to be trusted
LEAST_IN_GROUP = 10  # items; smaller groups are shown and not tested
CALIBRATED_FROM = 50  # items with a probability: below, the calibration error is mostly chance
Trust = Literal["trusted", "open", "correctable", "not trusted"]


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A judge on the bench, with all it said.

    Attributes:
        given: its name as the user gave it.
        name: its full name.
        items: what it was asked and said.
        seconds: spent in it, over all images it looked at.
        images: it looked at, disturbed ones included.
        notes: what it says of its work (requests, cost), and which suites it could not be asked about.
        cards: files of its judge cards, relative to the bench's folder.
    """

    given: str
    name: str
    items: tuple[BenchItem, ...]
    seconds: float = 0.0
    images: int = 0
    notes: tuple[str, ...] = ()
    cards: tuple[str, ...] = ()

    @property
    def images_per_second(self) -> float:
        """NaN where nothing was timed."""
        return self.images / self.seconds if self.seconds > 0 else math.nan


@dataclass(frozen=True, kw_only=True)
class TaskResult:
    """A judge at one task.

    Attributes:
        judge: as given.
        suite: whose images and rules.
        task: what was asked.
        disturbance: what was done to the images; empty: nothing.
        n_items: items asked.
        n_unusable: of these, without anything usable.
        n_scored: usable ones with a score, which ``auc`` and ``calibration`` are of.
        n_pairs: units of the intervals.
        usable: share with something usable.
        right: share of all items that are right; without anything usable is not right.
        sensitivity: share of positive items found; of more than two classes, the mean over classes.
        specificity: share of negative items not claimed; likewise.
        auc: area under the ROC curve; NaN where the judge gives no scores.
        calibration: expected calibration error; NaN where it gives no probabilities, or of too few items.
        within_one: share right or one step off, of classes that are numbers; NaN of others.
        trust: ``trusted``: the lower ends of usable share, sensitivity and specificity are at least ``ENOUGH``;
            ``open``: their upper ends are, and the lower ones not: more items would tell; otherwise ``correctable`` if
            the lower ends of sensitivity and specificity sum to more than 1, so that its card can take the error out,
            and ``not trusted`` if they do not.
    """

    judge: str
    suite: str
    task: str
    disturbance: str
    n_items: int
    n_unusable: int
    n_scored: int
    n_pairs: int
    usable: Interval
    right: Interval
    sensitivity: Interval
    specificity: Interval
    auc: Interval
    calibration: float
    within_one: float
    trust: Trust


@dataclass(frozen=True, kw_only=True)
class GroupRate:
    """A judge on the items of one group.

    Attributes:
        judge: as given.
        suite: whose images.
        facet: what groups are made by.
        value: the group.
        n_items: its items.
        right: share of them that are right.
        expected: share that would be if the judge did as well as on all groups, task by task.
    """

    judge: str
    suite: str
    facet: str
    value: str
    n_items: int
    right: Interval
    expected: float


@dataclass(frozen=True, kw_only=True)
class GroupTest:
    """Whether a judge is equally right on all groups of a facet.

    Attributes:
        judge: as given.
        suite: whose images.
        facet: what groups are made by.
        worst: the group furthest below what is expected of it.
        p_value: of the hypothesis that groups make no difference.
        p_adjusted: the same, adjusted for all facets of all judges (Holm).
    """

    judge: str
    suite: str
    facet: str
    worst: str
    p_value: float
    p_adjusted: float


@dataclass(frozen=True, kw_only=True)
class JudgeTest:
    """Two judges on the same items: share right of b less that of a.

    Attributes:
        suite: whose images.
        task: what was asked.
        a: one judge, as given.
        b: the other.
        difference: of the shares right.
        low: lower end of its interval.
        high: upper end.
        p_value: exact McNemar test where a pair is one item, else the sign-flip test by pair.
        p_adjusted: adjusted for all tests of the board (Holm).
        n_items: items both were asked.
    """

    suite: str
    task: str
    a: str
    b: str
    difference: float
    low: float
    high: float
    p_value: float
    p_adjusted: float
    n_items: int


@dataclass(frozen=True, kw_only=True)
class Board:
    """All that a bench tells.

    Attributes:
        role: of the judges.
        truth: how the truth is known, in words.
        judges: who was on the bench; without their items.
        tasks: a row for each judge, task and disturbance.
        groups: a row for each judge, facet and group.
        group_tests: a row for each judge and facet.
        judge_tests: a row for each pair of judges and task.
        stopped: a line for each judge that could not go on.
    """

    role: str
    truth: str
    judges: tuple[Judged, ...]
    tasks: tuple[TaskResult, ...]
    groups: tuple[GroupRate, ...] = ()
    group_tests: tuple[GroupTest, ...] = ()
    judge_tests: tuple[JudgeTest, ...] = ()
    stopped: tuple[str, ...] = ()


NOTHING = Interval(math.nan, math.nan, math.nan)


def make_board(role: str, truth: str, judges: Sequence[Judged], *, seed: int = 0) -> Board:
    """The board of some judges.

    Args:
        role: of the judges.
        truth: how the truth is known, in words.
        judges: with their items.
        seed: of resampling.
    """
    tasks = [
        task_result(judge.given, items, seed=seed)
        for judge in judges
        for items in _by(judge.items, lambda i: (i.suite, i.task, i.disturbance)).values()
    ]
    groups, group_tests = _groups(judges, seed)
    bare = tuple(Judged(**{**vars(judge), "items": ()}) for judge in judges)
    return Board(
        role=role,
        truth=truth,
        judges=bare,
        tasks=tuple(tasks),
        groups=tuple(groups),
        group_tests=tuple(group_tests),
        judge_tests=tuple(_judge_tests(judges, seed)),
    )


def _by(items: Iterable[BenchItem], key: Callable[[BenchItem], Any]) -> dict[Any, list[BenchItem]]:
    parts: dict[Any, list[BenchItem]] = {}
    for item in items:
        parts.setdefault(key(item), []).append(item)
    return parts


def _by_group(items: Iterable[BenchItem], facet: str) -> dict[str, list[BenchItem]]:
    return _by(items, lambda i: i.groups[facet])


# -------------------------------------------------------------------------------------------------------------- tasks
def task_result(judge: str, items: Sequence[BenchItem], *, seed: int = 0, n_resamples: int = 500) -> TaskResult:
    """A judge at the items of one task.

    Args:
        judge: its name.
        items: of one suite, task and disturbance; one or more.
        seed: of the bootstrap behind the interval of the area under the curve.
        n_resamples: of that bootstrap.
    """
    first = items[0]
    usable = [i for i in items if i.predicted is not None]
    of_all = clustered_proportion([float(i.right) for i in items], [i.pair for i in items])
    answered = clustered_proportion([float(i.predicted is not None) for i in items], [i.pair for i in items])
    sensitivity, specificity = _rates(first.labels, usable)
    within = math.nan
    if usable and all(is_number(label) for label in first.labels):
        within = float(np.mean([abs(float(i.true) - float(str(i.predicted))) <= 1 for i in usable]))
    area, calibration = NOTHING, math.nan
    scored = [i for i in usable if i.score is not None]
    if scored and len(first.labels) == 2:
        positive = [float(i.true == i.labels[-1]) for i in scored]
        scores = [float(i.score or 0.0) for i in scored]
        found = auc(scores, positive, clusters=[i.pair for i in scored], n_resamples=n_resamples, seed=seed)
        area = Interval(found.value, found.low, found.high)
        if all(i.is_probability for i in scored) and len(scored) >= CALIBRATED_FROM:
            calibration = calibration_error(scores, positive)
    return TaskResult(
        judge=judge,
        suite=first.suite,
        task=first.task,
        disturbance=first.disturbance,
        n_items=len(items),
        n_unusable=len(items) - len(usable),
        n_scored=len(scored),
        n_pairs=len({i.pair for i in items}),
        usable=answered,
        right=of_all,
        sensitivity=sensitivity,
        specificity=specificity,
        auc=area,
        calibration=calibration,
        within_one=within,
        trust=_trust(answered, sensitivity, specificity),
    )


def _rates(labels: Sequence[str], items: Sequence[BenchItem]) -> tuple[Interval, Interval]:
    """Sensitivity and specificity: of the last of two classes, or their means over more classes."""
    classes = labels[-1:] if len(labels) == 2 else labels
    found, spared = [], []
    for label in classes:
        of_class = [i for i in items if i.true == label]
        others = [i for i in items if i.true != label]
        if of_class:
            found.append(clustered_proportion([float(i.right) for i in of_class], [i.pair for i in of_class]))
        if others:
            hits = [float(i.predicted != label) for i in others]
            spared.append(clustered_proportion(hits, [i.pair for i in others]))
    return (mean_of_independent(found) if found else NOTHING, mean_of_independent(spared) if spared else NOTHING)


def _trust(usable: Interval, sensitivity: Interval, specificity: Interval) -> Trust:
    rates = (usable, sensitivity, specificity)
    if any(math.isnan(rate.value) for rate in rates):
        return "not trusted"
    if all(rate.low >= ENOUGH for rate in rates):
        return "trusted"
    if all(rate.high >= ENOUGH for rate in rates):
        return "open"
    return "correctable" if sensitivity.low + specificity.low > 1 else "not trusted"


# ------------------------------------------------------------------------------------------------------------- groups
def _groups(judges: Sequence[Judged], seed: int) -> tuple[list[GroupRate], list[GroupTest]]:
    rates: list[GroupRate] = []
    found: list[tuple[str, str, str, str, float]] = []
    for judge in judges:
        plain = [i for i in judge.items if not i.disturbance]
        for suite, items in _by(plain, lambda i: i.suite).items():
            for facet in dict.fromkeys(name for i in items for name in i.groups):
                of_facet = [i for i in items if facet in i.groups]
                parts = _by_group(of_facet, facet)
                if len(parts) < 2:
                    continue
                expected = _expected(of_facet, facet)
                for value in sorted(parts, key=label_order):
                    members = parts[value]
                    right = clustered_proportion([float(i.right) for i in members], [i.pair for i in members])
                    rates.append(
                        GroupRate(
                            judge=judge.given,
                            suite=suite,
                            facet=facet,
                            value=value,
                            n_items=len(members),
                            right=right,
                            expected=expected[value],
                        )
                    )
                large = {value for value, members in parts.items() if len(members) >= LEAST_IN_GROUP}
                tested = [i for i in of_facet if i.groups[facet] in large]
                if len(large) > 1:
                    worst = min(
                        sorted(large, key=label_order),
                        key=lambda v: sum(i.right for i in parts[v]) / len(parts[v]) - expected[v],
                    )
                    p_value = unequal_groups(tested, facet, seed=seed)
                    found.append((judge.given, suite, facet, worst, p_value))
    adjusted = holm([p for *_, p in found])
    tests = [
        GroupTest(judge=judge, suite=suite, facet=facet, worst=worst, p_value=p, p_adjusted=float(q))
        for (judge, suite, facet, worst, p), q in zip(found, adjusted, strict=True)
    ]
    return rates, tests


def _expected(items: Sequence[BenchItem], facet: str) -> dict[str, float]:
    """By group, the share right if every group were as easy as all together, task by task."""
    of_task = {task: float(np.mean([i.right for i in some])) for task, some in _by(items, lambda i: i.task).items()}
    return {value: float(np.mean([of_task[i.task] for i in some])) for value, some in _by_group(items, facet).items()}


def unequal_groups(items: Sequence[BenchItem], facet: str, *, n_permutations: int = 2_000, seed: int = 0) -> float:
    """p-value of the hypothesis that a judge is equally right on all groups of a facet.

    A permutation test: groups are exchanged between pairs that were asked the same tasks, so that neither the
    difficulty of tasks nor the likeness of a pair's items passes for a difference of groups. The statistic is the sum
    over groups of (right less expected) squared by size.

    Args:
        items: of one judge and suite, all with the facet.
        facet: what groups are made by.
        n_permutations: at least 1; the observed one counts, too.
        seed: of the permutations.

    Returns:
        In (0, 1].
    """
    of_task = {task: float(np.mean([i.right for i in some])) for task, some in _by(items, lambda i: i.task).items()}
    values = sorted({i.groups[facet] for i in items})
    # The items of a pair that are of one group move together. What is exchanged has the same tasks and as many items.
    units = list(_by(items, lambda i: (i.pair, i.groups[facet])).values())
    excess = np.array([sum(i.right - of_task[i.task] for i in unit) for unit in units])
    sizes = np.array([len(unit) for unit in units])
    group = np.array([values.index(unit[0].groups[facet]) for unit in units])
    strata: dict[tuple[str, ...], list[int]] = {}
    for number, unit in enumerate(units):
        strata.setdefault(tuple(sorted(i.task for i in unit)), []).append(number)

    def statistic(of: NDArray[np.intp]) -> float:
        total = np.bincount(of, weights=excess, minlength=len(values))
        count = np.bincount(of, weights=sizes, minlength=len(values))
        return float(np.sum(total**2 / np.maximum(count, 1)))

    observed = statistic(group) * (1 - 1e-9)  # sums in another order differ by rounding, and a tie counts as a tie
    rng = np.random.default_rng([seed, 0x9209])
    beyond = 0
    members = [np.array(numbers) for numbers in strata.values()]
    for _ in range(n_permutations):
        drawn = group.copy()
        for numbers in members:
            drawn[numbers] = rng.permutation(group[numbers])
        beyond += statistic(drawn) >= observed
    return (1 + beyond) / (1 + n_permutations)


# ------------------------------------------------------------------------------------------------------------- judges
def _judge_tests(judges: Sequence[Judged], seed: int) -> list[JudgeTest]:
    found: list[dict[str, Any]] = []
    # A judge that answered nothing (a service that is down) is no worse than another: it was not measured.
    heard = [judge for judge in judges if any(i.predicted is not None for i in judge.items if not i.disturbance)]
    for position, a in enumerate(heard):
        for b in heard[position + 1 :]:
            mine = {(i.suite, i.task, i.item): i for i in a.items if not i.disturbance}
            shared = [
                (mine[key], i) for i in b.items if not i.disturbance and (key := (i.suite, i.task, i.item)) in mine
            ]
            tasks: dict[tuple[str, str], list[tuple[BenchItem, BenchItem]]] = {}
            for pair in shared:
                tasks.setdefault((pair[0].suite, pair[0].task), []).append(pair)
            for (suite, task), both in tasks.items():
                result = paired_difference(
                    [float(x.right) for x, _ in both],
                    [float(y.right) for _, y in both],
                    [x.pair for x, _ in both],
                    seed=seed,
                )
                found.append(
                    {
                        "suite": suite,
                        "task": task,
                        "a": a.given,
                        "b": b.given,
                        "difference": result.difference,
                        "low": result.low,
                        "high": result.high,
                        "p_value": result.p_value,
                        "n_items": len(both),
                    }
                )
    adjusted = holm([record["p_value"] for record in found])
    return [JudgeTest(**record, p_adjusted=float(q)) for record, q in zip(found, adjusted, strict=True)]


def by_judge(board: Board) -> Mapping[str, list[TaskResult]]:
    """Results on undisturbed images, by judge as given."""
    results: dict[str, list[TaskResult]] = {judge.given: [] for judge in board.judges}
    for result in board.tasks:
        if not result.disturbance:
            results[result.judge].append(result)
    return results
