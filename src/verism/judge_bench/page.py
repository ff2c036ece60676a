"""The bench as one self-contained page without scripts."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

from markupsafe import Markup

from verism._version import __version__
from verism.files import write_json, write_whole
from verism.judge_bench.board import ENOUGH, Board, TaskResult
from verism.judge_bench.words import (
    ALPHA,
    RULE,
    answers,
    bench_markdown,
    bench_record,
    p_words,
    rate,
    robustness_table,
    scored,
    speed,
    truth_words,
)
from verism.report_kit.figures import environment
from verism.statistics.intervals import Interval

__all__ = ["bench_page", "write_bench"]


def write_bench(board: Board, out: Path) -> Path:
    """Write the board: ``index.html``, ``board.json`` and ``board.md``.

    Args:
        board: the board.
        out: folder of the bench.

    Returns:
        The page.
    """
    write_json(out / "board.json", bench_record(board))
    write_whole(out / "board.md", f"# Which judge can be trusted with what?\n\n{bench_markdown(board)}")
    write_whole(out / "index.html", bench_page(board))
    return out / "index.html"


def bench_page(board: Board) -> str:
    """The page as text; the same bytes for the same board.

    Args:
        board: the board.
    """
    kit = resources.files("verism.report_kit") / "templates"
    own = resources.files("verism.judge_bench") / "templates"
    style = (kit / "report.css").read_text(encoding="utf-8") + (own / "bench.css").read_text(encoding="utf-8")
    head, rows = robustness_table(board)
    groups = [
        {
            "test": test,
            "significant": test.p_adjusted <= ALPHA,
            "p": p_words(test.p_adjusted),
            "rates": [
                {"group": g, "mark": _mark(g.right), "right": rate(g.right), "expected": f"{100 * g.expected:.1f}"}
                for g in board.groups
                if (g.judge, g.suite, g.facet) == (test.judge, test.suite, test.facet)
            ],
        }
        for test in board.group_tests
    ]
    return (
        environment("verism.judge_bench")
        .get_template("bench.html.j2")
        .render(
            board=board,
            answers=answers(board),
            truth=truth_words(board.truth),
            rule=RULE,
            enough=100 * ENOUGH,
            tasks=[_view(r) for r in board.tasks if not r.disturbance],
            disturbed=any(r.disturbance for r in board.tasks),
            robust_head=head,
            robust_rows=rows,
            groups=groups,
            tests=[
                {
                    "test": t,
                    "difference": rate(Interval(t.difference, t.low, t.high)),
                    "p": p_words(t.p_adjusted),
                    "significant": t.p_adjusted <= ALPHA,
                }
                for t in board.judge_tests
            ],
            speeds={judge.given: speed(judge) for judge in board.judges},
            style=Markup(style),
            version=__version__,
        )
    )


def _view(result: TaskResult) -> dict[str, Any]:
    """What the template needs of a row."""
    return {
        "result": result,
        "sensitivity": rate(result.sensitivity),
        "specificity": rate(result.specificity),
        "marks": (_mark(result.sensitivity), _mark(result.specificity)),
        "right": rate(result.right),
        "auc": scored(result, result.auc.value),
        "calibration": scored(result, result.calibration),
    }


def _mark(interval: Interval) -> dict[str, float] | None:
    """Places of a value and its interval in per cent of the width; None where it is undefined."""
    if interval.value != interval.value or interval.low != interval.low:
        return None
    low, high = max(0.0, interval.low), min(1.0, interval.high)
    return {"at": round(100 * interval.value, 2), "from": round(100 * low, 2), "width": round(100 * (high - low), 2)}
