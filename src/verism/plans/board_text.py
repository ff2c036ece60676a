"""A board as a table in Markdown and in LaTeX, for papers and issues."""

from __future__ import annotations

import math
import re

from verism.plans.board import Board, Cell, Column
from verism.report_kit import words
from verism.report_kit.adjustments import adjusted_by
from verism.report_kit.coverage import PARTIAL
from verism.report_kit.tables import latex
from verism.statistics.intervals import Interval

__all__ = ["N_MEANING", "PARTIAL_MEANING", "latex_board", "markdown_board"]

N_MEANING = "n: images (or answers) that the value rests on."
PARTIAL_MEANING = "the number leaves out some of the images or questions asked for, as its cell says."


def cell_words(cell: Cell) -> tuple[str, str, str]:
    """Value, interval and ranks of a cell in words; the state in place of a value that is not there.

    Args:
        cell: of a board.
    """
    if cell.state != "ok" or cell.score is None:
        return words.UNDEFINED if cell.state == "excluded" else cell.state, "", ""
    ranks = ""
    if cell.rank_low is not None:
        ranks = f"{cell.rank_low}" if cell.rank_low == cell.rank_high else f"{cell.rank_low}–{cell.rank_high}"
    return words.value(cell.score), words.interval(cell.score), ranks


def adjusted_words(cell: Cell) -> str:
    """The number with the judge's error taken out, with its interval and by which truth; empty where there is none.

    Args:
        cell: of a board.
    """
    score = cell.adjusted
    return "" if score is None else f"{words.value(score)} {words.interval(score)}{adjusted_by(score.adjusted)}"


def counts_words(cell: Cell) -> str:
    """How many images (or answers) a number rests on, and what it leaves out: ``n = 22; 2 of 24 unusable``.

    Args:
        cell: of a board; one without a count gives what is left out alone.
    """
    return "; ".join(filter(None, (number_words(cell), cell.left_out)))


def number_words(cell: Cell) -> str:
    """How many images (or answers) a number rests on, ``n = 22``; empty where that is not known.

    Args:
        cell: of a board.
    """
    return f"n = {cell.score.n_used:,}" if cell.score is not None and words.counts(cell.score) else ""


def _head(column: Column) -> str:
    unit = "%" if column.unit == "share" else column.unit
    arrow = "higher is better" if column.better == "higher" else "lower is better"
    return f"{column.suite}: {column.label} ({unit}, {arrow})"


def _coefficient(value: float, low: float, high: float, general: Interval) -> str:
    """A coefficient with its ends for these models, and those for models in general where there are any."""
    ends = "" if math.isnan(general.low) else f" [{general.low:.2f}, {general.high:.2f}]"
    return f"{'–' if math.isnan(value) else f'{value:.2f}'} [{low:.2f}, {high:.2f}]{ends}"


def markdown_board(board: Board) -> str:
    """A table in Markdown: value, 95 % interval, interval of the rank; the best and what is not worse in bold.

    Args:
        board: the board.
    """

    def escaped(text: str) -> str:
        return re.sub(r"([|\\`*_<>])", r"\\\1", text)

    lines = [f"**{escaped(board.title)}**", ""]
    lines.append("| model | " + " | ".join(escaped(_head(c)) for c in board.columns) + " |")
    lines.append("|---" * (len(board.columns) + 1) + "|")
    marks: list[str] = []
    for row in board.rows:
        cells = []
        for column in board.columns:
            cell = row.cells[column.key]
            value, interval, ranks = cell_words(cell)
            text = (f"**{value}**" if cell.best else value) + (PARTIAL if cell.left_out else "")
            text += f" {interval}" if interval else ""
            text += f" rank {ranks}" if ranks else ""
            text += f"; {counts}" if (counts := counts_words(cell)) else ""
            text += f"; {adjusted_words(cell)}" if cell.adjusted else ""
            for reason in cell.reasons:
                if reason not in marks:
                    marks.append(reason)
                text += f" [{marks.index(reason) + 1}]"
            cells.append(text)
        name = f"_{escaped(row.name)}_ (reference)" if row.reference else escaped(row.name)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += ["", _legend(board, PARTIAL)]
    lines += [f"[{n}] {escaped(reason)}." for n, reason in enumerate(marks, start=1)]
    if board.agreements:
        heads = {column.key: escaped(f"{column.suite}: {column.label}") for column in board.columns}
        names = (
            "columns",
            "models",
            "Kendall's tau [these models] [in general]",
            "Spearman's rho [these models] [in general]",
            "opposite pairs",
            "shared images: right by one alone",
        )
        lines += ["", f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
        for each in board.agreements:
            rank, shared = each.rank, each.shared
            tau = _coefficient(rank.tau, rank.low, rank.high, each.in_general)
            rho = _coefficient(rank.rho, rank.rho_low, rank.rho_high, each.rho_in_general)
            models = str(len(each.models))
            if each.left_out:
                models += f", without {', '.join(map(escaped, each.left_out))}"
            images = "" if shared is None else f"{shared.n_first_right + shared.n_second_right} of {shared.n}"
            lines.append(
                f"| {heads[each.first]} and {heads[each.second]} | {models} | {tau} | {rho} "
                f"| {rank.n_opposite} of {rank.n_told} significant in both | {images} |"
            )
    return "\n".join(lines) + "\n"


def latex_board(board: Board) -> str:
    """The same table in LaTeX, for the package booktabs.

    Args:
        board: the board.
    """
    lines = [
        "% needs \\usepackage{booktabs}",
        r"\begin{tabular}{l" + "r" * len(board.columns) + "}",
        r"\toprule",
        "model & " + " & ".join(latex(_head(c)) for c in board.columns) + r" \\",
        r"\midrule",
    ]
    references = False
    for row in board.rows:
        if row.reference and not references:
            lines.append(r"\midrule")
            references = True
        cells = []
        for column in board.columns:
            cell = row.cells[column.key]
            value, interval, ranks = cell_words(cell)
            text = rf"\textbf{{{latex(value)}}}" if cell.best else latex(value)
            text += r"$^{\dagger}$" if cell.left_out else ""
            text += rf" {{\scriptsize {latex(interval)}}}" if interval else ""
            text += rf" {{\scriptsize rank {latex(ranks)}}}" if ranks else ""
            text += rf" {{\scriptsize {latex(counts)}}}" if (counts := counts_words(cell)) else ""
            text += rf" {{\scriptsize {latex(adjusted_words(cell))}}}" if cell.adjusted else ""
            cells.append(text + (r"$^{*}$" if cell.reasons else ""))
        lines.append(f"{latex(row.name)} & " + " & ".join(cells) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}", f"% {_legend(board, 'dagger')}"]
    if any(cell.reasons for row in board.rows for cell in row.cells.values()):
        lines.append("% * not ranked against every other model, as they may not be compared:")
        lines += [f"% {caution}" for caution in board.cautions]
    return "\n".join(lines) + "\n"


def _legend(board: Board, mark: str) -> str:
    text = (
        "Value [95 % interval] rank (interval that holds for all models together, Holm-adjusted tests of every pair at "
        f"0.05). Bold: no model is significantly better. {N_MEANING}"
    )
    partial = any(cell.left_out for row in board.rows for cell in row.cells.values())
    return f"{text} {mark}: {PARTIAL_MEANING}" if partial else text
