"""The bench in words: which judge can be trusted with what, as text, Markdown and JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from verism.judge_bench.board import ENOUGH, Board, Judged, TaskResult, by_judge
from verism.judge_bench.disturbances import Strength
from verism.statistics.intervals import Interval

__all__ = [
    "answers",
    "bench_markdown",
    "bench_record",
    "bench_text",
    "disturbance_words",
    "p_words",
    "rate",
    "scored",
    "speed",
    "truth_words",
]

ALPHA = 0.05


def rate(interval: Interval, *, ends: bool = True) -> str:
    """A share in per cent with its interval; a dash where it is undefined.

    Args:
        interval: in [0, 1].
        ends: whether the interval is written.

    >>> rate(Interval(0.5, 0.4, 0.6))
    '50.0 [40.0, 60.0]'
    """
    if math.isnan(interval.value):
        return "–"
    text = f"{100 * interval.value:.1f}"
    if not ends or math.isnan(interval.low):
        return text
    return f"{text} [{100 * interval.low:.1f}, {100 * interval.high:.1f}]"


def number(value: float, digits: int = 3) -> str:
    """A number, or a dash where it is undefined."""
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def scored(result: TaskResult, value: float) -> str:
    """A number of the items with a score, and how many these are where others have a usable answer, too.

    Args:
        result: what it is of.
        value: the number.
    """
    n_usable = result.n_items - result.n_unusable
    of = f" ({result.n_scored:,} of {n_usable:,})" if result.n_scored < n_usable and not math.isnan(value) else ""
    return number(value) + of


def speed(judge: Judged) -> str:
    """Images per second."""
    return "–" if math.isnan(judge.images_per_second) else f"{judge.images_per_second:.3g} images/s"


def disturbance_words(text: str) -> str:
    """A disturbance as items have it (``blur=2``) for a reader; empty: none."""
    if not text:
        return "as rendered"
    kind, _, strength = text.partition("=")
    return Strength(kind, float(strength)).words


def truth_words(truth: str) -> str:
    """Where the truth is from, for a reader.

    >>> truth_words("rendered:7")
    'images rendered with seed 7'
    """
    kind, _, rest = truth.partition(":")
    return f"images rendered with seed {rest}" if kind == "rendered" else f"annotators' answers about {rest}"


def listed(names: Sequence[str]) -> str:
    """Names with commas, and *and* before the last."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""


def _task(result: TaskResult, suites: int) -> str:
    return f"{result.task} ({result.suite})" if suites > 1 else result.task


def answers(board: Board) -> list[str]:
    """Which judge can be trusted with what: a sentence or two for each judge, first of all."""
    lines = []
    suites = len({result.suite for result in board.tasks})
    for judge, results in by_judge(board).items():
        n_items = sum(r.n_items for r in results)
        if results and n_items == sum(r.n_unusable for r in results):
            lines.append(f"{judge} gives no usable answer to any of {n_items:,} items, so nothing is said of it.")
            continue
        parts = []
        for trust, words in (
            ("trusted", "can be trusted with {}"),
            ("open", "may be good enough, pending more items, for {}"),
            ("correctable", "errs, but can be adjusted by its card, for {}"),
            ("not trusted", "cannot be trusted with {}"),
        ):
            chosen: dict[str, list[str]] = {}
            for result in results:
                if result.trust == trust:
                    chosen.setdefault(result.suite, []).append(result.task)
            if chosen:
                named = [listed(tasks) + (f" ({suite})" if suites > 1 else "") for suite, tasks in chosen.items()]
                parts.append(words.format("; ".join(named)))
        lines += [f"{judge} {part}." for part in parts]
        silent = [result for result in results if result.n_unusable]
        if silent:
            worst = max(silent, key=lambda r: r.n_unusable / r.n_items)
            lines.append(
                f"{judge} gives no usable answer for {sum(r.n_unusable for r in silent):,} of "
                f"{n_items:,} items, mostly for {_task(worst, suites)} "
                f"({100 * worst.n_unusable / worst.n_items:.0f} %)."
            )
    better: dict[tuple[str, str, str], list[str]] = {}
    for test in board.judge_tests:
        if test.p_adjusted <= ALPHA:
            first, second = (test.b, test.a) if test.difference > 0 else (test.a, test.b)
            points = f"{test.task} by {100 * abs(test.difference):.0f}"
            better.setdefault((first, second, test.suite), []).append(points)
    for (first, second, suite), tasks in better.items():
        where = f" on {suite}" if suites > 1 else ""
        lines.append(f"{first} is correct more often than {second}{where}, in points: {listed(tasks)}.")
    for group in board.group_tests:
        if group.p_adjusted <= ALPHA:
            rates = [g for g in board.groups if (g.judge, g.suite, g.facet) == (group.judge, group.suite, group.facet)]
            worst_rate = next(g for g in rates if g.value == group.worst)
            lines.append(
                f"{group.judge} is not equally accurate for every {group.facet}: "
                f"{rate(worst_rate.right, ends=False)} % for {group.facet} {group.worst}, where "
                f"{100 * worst_rate.expected:.1f} % is expected "
                f"({group.suite}, adjusted p "
                f"{p_words(group.p_adjusted)})."
            )
    return lines


def p_words(value: float) -> str:
    """A p-value for a reader."""
    return "below 0.001" if value < 0.001 else f"{value:.3f}"


RULE = (
    f"Trusted: with 95 % confidence each, sensitivity, specificity and the share of usable answers are at least "
    f"{100 * ENOUGH:.0f} %. Rates are in per cent, of usable answers, with 95 % intervals by pair."
)


def bench_text(board: Board) -> str:
    """The board for a terminal."""
    lines = [
        f"Judges of the role {board.role}, measured on {truth_words(board.truth)}",
        "",
        *answers(board),
        "",
        RULE,
        "",
    ]
    head = ["judge", "suite", "task", "items", "unusable", "sensitivity", "specificity", "AUC", "calibration error"]
    lines += _columns([head, *_rows(board)])
    lines += ["", *(f"{j.given}: {speed(j)}" for j in board.judges)]
    lines += [f"{j.given}: {note}" for j in board.judges for note in j.notes]
    return "\n".join([*lines, *board.stopped]) + "\n"


def _rows(board: Board, disturbed: bool = False) -> list[list[str]]:
    return [
        [
            r.judge,
            r.suite,
            r.task,
            f"{r.n_items:,}",
            f"{r.n_unusable:,}",
            rate(r.sensitivity),
            rate(r.specificity),
            scored(r, r.auc.value),
            scored(r, r.calibration),
        ]
        for r in board.tasks
        if bool(r.disturbance) == disturbed
    ]


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Print a Markdown table."""

    def row(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return [row(head), "|---" * len(head) + "|", *map(row, rows)]


def bench_markdown(board: Board, *, level: int = 2, timing: bool = True) -> str:
    """The board in Markdown: what can be trusted first, then tables.

    Args:
        board: the board.
        level: of the headings.
        timing: whether speeds are written; without them the same items give the same text.
    """
    mark = "#" * level
    lines = [*(f"* {line}" for line in answers(board)), "", RULE, "", f"{mark} Tasks", ""]
    head = ["judge", "suite", "task", "items", "unusable", "sensitivity", "specificity", "AUC", "calibration error"]
    lines += markdown_table(head, _rows(board))
    disturbed = [result for result in board.tasks if result.disturbance]
    if disturbed:
        lines += ["", f"{mark} Disturbed images", "", "Share of correct items, in per cent.", ""]
        lines += markdown_table(*robustness_table(board))
    if board.group_tests:
        lines += ["", f"{mark} Groups", ""]
        lines += markdown_table(
            ["judge", "suite", "groups by", "worst group", "right", "expected", "p", "adjusted p"],
            [
                [
                    t.judge,
                    t.suite,
                    t.facet,
                    t.worst,
                    rate(worst.right),
                    f"{100 * worst.expected:.1f}",
                    p_words(t.p_value),
                    p_words(t.p_adjusted),
                ]
                for t in board.group_tests
                for worst in board.groups
                if (worst.judge, worst.suite, worst.facet, worst.value) == (t.judge, t.suite, t.facet, t.worst)
            ],
        )
    if board.judge_tests:
        lines += ["", f"{mark} Comparison of judges", ""]
        lines += markdown_table(
            ["suite", "task", "a", "b", "b less a, points", "p", "adjusted p"],
            [
                [
                    t.suite,
                    t.task,
                    t.a,
                    t.b,
                    rate(Interval(t.difference, t.low, t.high)),
                    p_words(t.p_value),
                    p_words(t.p_adjusted),
                ]
                for t in board.judge_tests
            ],
        )
    if timing:
        lines += ["", f"{mark} Speed and cost", ""]
        lines += markdown_table(
            ["judge", "speed", "images", "remarks"],
            [[j.given, speed(j), f"{j.images:,}", "; ".join(j.notes) or "–"] for j in board.judges],
        )
    return "\n".join(lines) + "\n"


def robustness_table(board: Board) -> tuple[list[str], list[list[str]]]:
    """Share right by judge and task, for images as they are and disturbed: head and rows."""
    columns = list(dict.fromkeys(result.disturbance for result in board.tasks))
    columns.sort(key=bool)  # undisturbed first
    cells: dict[tuple[str, str, str], dict[str, str]] = {}
    for r in board.tasks:
        cells.setdefault((r.judge, r.suite, r.task), {})[r.disturbance] = rate(r.right, ends=False)
    head = ["judge", "suite", "task", *(disturbance_words(column) for column in columns)]
    return head, [[*key, *(of_key.get(column, "–") for column in columns)] for key, of_key in cells.items()]


def bench_record(board: Board) -> dict[str, Any]:
    """The board as plain JSON; undefined numbers are null."""

    def plain(value: Any) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            return None
        if isinstance(value, Interval):
            return {name: plain(getattr(value, name)) for name in ("value", "low", "high")}
        if isinstance(value, dict):
            return {name: plain(member) for name, member in value.items()}
        if isinstance(value, list | tuple):
            return [plain(member) for member in value]
        return value

    def rows(members: Sequence[Any]) -> list[Any]:
        return [plain({name: getattr(m, name) for name in m.__dataclass_fields__ if name != "items"}) for m in members]

    judges = [
        {**record, "images_per_second": plain(judge.images_per_second)}
        for record, judge in zip(rows(board.judges), board.judges, strict=True)
    ]
    return {
        "role": board.role,
        "truth": board.truth,
        "answers": answers(board),
        "judges": judges,
        "tasks": rows(board.tasks),
        "groups": rows(board.groups),
        "group_tests": rows(board.group_tests),
        "judge_tests": rows(board.judge_tests),
        "stopped": list(board.stopped),
    }
