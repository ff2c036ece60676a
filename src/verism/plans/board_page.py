"""A board as one self-contained page: the table without any script, and with it sorting, filters and figures."""

from __future__ import annotations

import base64
import hashlib
import math
from importlib import resources
from typing import Any

from markupsafe import Markup

from verism._version import __version__
from verism.plans.board import ALPHA, Board, Cell, Column
from verism.plans.board_text import N_MEANING, PARTIAL_MEANING, adjusted_words, cell_words, number_words
from verism.report_kit.coverage import PARTIAL
from verism.report_kit.figures import environment
from verism.report_kit.page import json_in_script

__all__ = ["board_page"]


def board_page(board: Board, *, link: str = "report") -> str:
    """The page as text; the same bytes for the same board.

    Args:
        board: the board.
        link: what the links of its rows lead to, in a word.
    """
    kit = resources.files("verism.report_kit") / "templates"
    own = resources.files("verism.plans") / "templates"
    script = (own / "board.js").read_text(encoding="utf-8")
    style = (kit / "report.css").read_text(encoding="utf-8") + (own / "board.css").read_text(encoding="utf-8")
    scales = {column.key: _scale(board, column) for column in board.columns}
    groups: list[tuple[str, int]] = []
    for column in board.columns:
        if groups and groups[-1][0] == column.suite:
            groups[-1] = (column.suite, groups[-1][1] + 1)
        else:
            groups.append((column.suite, 1))
    return (
        environment("verism.plans")
        .get_template("board.html.j2")
        .render(
            board=board,
            link=link,
            groups=groups,
            suites=list(dict.fromkeys(column.suite for column in board.columns)),
            views={
                row.name: [_view(row.cells[column.key], scales[column.key]) for column in board.columns]
                for row in board.rows
            },
            style=Markup(style),
            script=Markup(script),
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            data=json_in_script(board.record()),
            alpha=ALPHA,
            adjusted=any(cell.adjusted for row in board.rows for cell in row.cells.values()),
            heads={column.key: f"{column.suite}: {column.label}" for column in board.columns},
            number=_number,
            n_meaning=N_MEANING,
            partial=PARTIAL,
            partial_meaning=PARTIAL_MEANING
            if any(c.left_out for row in board.rows for c in row.cells.values())
            else "",
            version=__version__,
        )
    )


def _number(value: float) -> str:
    """A coefficient with two places and a true minus; a dash where it is not known."""
    return "–" if math.isnan(value) else f"{value:.2f}".replace("-", "−")


def _scale(board: Board, column: Column) -> tuple[float, float]:
    """The span of a column's marks: 0 to 1 for shares, otherwise what its values and intervals take."""
    if column.unit == "share":
        return 0.0, 1.0
    ends: list[float] = []
    for row in board.rows:
        score = row.cells[column.key].score
        if score is not None:
            ends += [v for v in (score.value, score.ci_low, score.ci_high) if math.isfinite(v)]
    low, high = (min(ends), max(ends)) if ends else (0.0, 1.0)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _view(cell: Cell, scale: tuple[float, float]) -> dict[str, Any]:
    """What the template needs of a cell; places of the mark are in per cent of its width."""
    value, interval, ranks = cell_words(cell)
    view: dict[str, Any] = {"cell": cell, "value": value, "interval": interval, "ranks": ranks, "mark": None}
    view["adjusted"] = adjusted_words(cell)
    view["n"] = number_words(cell)
    if cell.state == "ok" and cell.score is not None:
        low, high = scale

        def place(number: float) -> float:
            return round(100 * min(1.0, max(0.0, (number - low) / (high - low))), 2)

        ends = [cell.score.ci_low, cell.score.ci_high]
        known = all(map(math.isfinite, ends))
        view["mark"] = {
            "at": place(cell.score.value),
            "from": place(ends[0]) if known else None,
            "width": round(place(ends[1]) - place(ends[0]), 2) if known else None,
        }
    return view
