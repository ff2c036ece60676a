"""Published figures beside the same figures worked out again: one line, its verdict, the published files, the output.

A suite says in ``Suite.published`` which functions give the lines about it; several suites may have part in one name.
Nothing but the printed tables (in ``verism/data/published``) and our own arithmetic goes in: no images, no models.
"""

from __future__ import annotations

import csv
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from importlib import resources
from typing import Any

__all__ = [
    "Check",
    "Known",
    "Tables",
    "Verdict",
    "Writer",
    "as_records",
    "as_text",
    "half_unit",
    "in_order",
    "is_multiple",
    "of_table",
    "read_outputs",
    "read_published",
    "read_tables",
    "undocumented",
]

# Figures as printed by (paper, table), then row, then column.
Tables = Mapping[tuple[str, str], Mapping[str, Mapping[str, str]]]

FLOAT_NOISE = 1e-9  # a half is a half, although 0.075 - 0.07 is not 0.005 in binary


class Verdict(StrEnum):
    """How a published figure stands to the one worked out again.

    * agrees: equal to the last printed digit.
    * differs by rounding: explained by rounding, of the figures that went in or of floating-point numbers.
    * differs by definition: both are right, of two quantities with one name.
    * known fault of the code: what the released code makes of something is not what it should be.
    * known misprint: it contradicts other figures of its paper or release; which is wrong is not always known.
    * cannot be recomputed: it takes images, labels or models that the paper's tables do not hold.
    * disagrees: it should not; a mistake of ours.
    """

    AGREES = "agrees"
    ROUNDING = "differs by rounding"
    DEFINITION = "differs by definition"
    FAULT = "known fault of the code"
    MISPRINT = "known misprint"
    IMPOSSIBLE = "cannot be recomputed"
    DISAGREES = "disagrees"


@dataclass(frozen=True, kw_only=True)
class Check:
    """One line: a published figure and ours.

    Attributes:
        paper: name of the paper, with its version where there are several ("DALL-Eval ICCV").
        table: where the paper has the figure: "Table 6", "text", "code".
        quantity: what it is, of which model, in which setting.
        published: number or words, "true" for a statement that must hold; None for a group of figures in one line.
        recomputed: our number or words; None if it cannot be recomputed.
        tolerance: largest distance of the two that counts as agreement, rounding of what went in included; None for
            words.
        verdict: outcome of the comparison.
        why: reason for the verdict, in a sentence; empty where nothing needs saying.
        printed: ``published`` with the digits of the paper.
        place: order of a line that is in no numbered table among those of the same paper from other suites; lower
            first.
    """

    paper: str
    table: str
    quantity: str
    published: float | str | None
    recomputed: float | str | None
    tolerance: float | None
    verdict: Verdict
    why: str = ""
    printed: str = ""
    place: int = 0


@dataclass(frozen=True, kw_only=True)
class Known:
    """A difference that is understood.

    Attributes:
        value: what is found instead, with the digits to which that is asserted: another value is a regression, and so
            is agreement with the paper.
        why: reason for the difference.
        verdict: kind of difference.
    """

    value: str
    why: str
    verdict: Verdict = Verdict.MISPRINT


def half_unit(printed: str) -> float:
    """Half of the last printed place: 0.005 for "0.35", 5e-5 for "4.47e-2", 0.5 for "15".

    Raises:
        ValueError: not a number.
    """
    exponent = _decimal(printed).as_tuple().exponent
    if not isinstance(exponent, int):
        raise ValueError(f"expected a finite number as printed; got {printed!r}")
    return 0.5 * 10.0**exponent


def is_multiple(printed: str, step: Fraction) -> bool:
    """Whether a multiple of a step prints as this."""
    nearest = round(Fraction(printed) / step) * step
    return abs(float(nearest) - float(printed)) <= half_unit(printed) + FLOAT_NOISE


def _decimal(printed: str) -> Decimal:
    try:
        return Decimal(printed)
    except ArithmeticError:
        raise ValueError(f"expected a number as printed; got {printed!r}") from None


class Writer:
    """Collects the lines of one paper."""

    def __init__(self, paper: str, *, place: int = 0) -> None:
        """A collection without lines.

        Args:
            paper: with its version, where there are several.
            place: of the lines, see ``Check``.
        """
        self.paper = paper
        self.place = place
        self.checks: list[Check] = []

    def number(
        self,
        table: str,
        quantity: str,
        printed: str,
        value: float,
        *,
        slack: float = 0.0,
        tolerance: float | None = None,
        known: Known | None = None,
        why: str = "",
    ) -> None:
        """Compare a number.

        Args:
            table: where the paper has the figure, see ``Check``.
            quantity: what it is, of which model, in which setting.
            printed: the number as the paper prints it; its digits give the tolerance, half of the last place.
            value: our number.
            slack: how far rounding of the printed figures that went into ``value`` can move it, at least 0.
            tolerance: instead of half of the last place, for figures that carry noise of their own.
            known: the difference that is expected.
            why: said with the line if it agrees.
        """
        close = half_unit(printed) if tolerance is None else tolerance
        gap = abs(float(printed) - value)
        verdict, reason = Verdict.DISAGREES, f"off by {gap:.3g}, and no reason is known"
        if known is not None:
            if gap <= close + FLOAT_NOISE:
                reason = f"was known to differ ({known.why}), and now agrees"
            elif abs(float(known.value) - value) > half_unit(known.value) + FLOAT_NOISE:
                reason = f"was known to be {known.value} ({known.why}), and now is {value:.8g}"
            else:
                verdict, reason = known.verdict, known.why
        elif gap <= close + FLOAT_NOISE:
            verdict, reason = Verdict.AGREES, why
        elif gap <= close + slack + FLOAT_NOISE:
            verdict = Verdict.ROUNDING
            reason = f"the printed figures that went in are rounded, which moves the result by up to {slack:.2g}"
        allowed = max(close + slack, FLOAT_NOISE)
        self._add(table, quantity, float(printed), float(value), allowed, verdict, reason, printed)

    def words(self, table: str, quantity: str, published: str, ours: str, *, known: Known | None = None) -> None:
        """Compare words, or a row of figures."""
        verdict, reason = Verdict.DISAGREES, "not the same, and no reason is known"
        if known is None:
            if published == ours:
                verdict, reason = Verdict.AGREES, ""
        elif published == ours:
            reason = f"was known to differ ({known.why}), and now agrees"
        elif ours == known.value:
            verdict, reason = known.verdict, known.why
        self._add(table, quantity, published, ours, None, verdict, reason, published)

    def holds(self, table: str, statement: str, true: bool, *, why: str = "") -> None:
        """A statement about printed figures that must be true."""
        verdict = Verdict.AGREES if true else Verdict.DISAGREES
        reason = why if true else "must hold, and does not"
        self._add(table, statement, "true", "true" if true else "false", None, verdict, reason, "true")

    def impossible(self, table: str, quantity: str, printed: str, why: str) -> None:
        """A figure that cannot be worked out again. `printed` may be words or empty."""
        try:
            published: float | str | None = float(printed)
        except ValueError:
            published = printed or None
        self._add(table, quantity, published, None, None, Verdict.IMPOSSIBLE, why, printed)

    def _add(
        self,
        table: str,
        quantity: str,
        published: float | str | None,
        recomputed: float | str | None,
        tolerance: float | None,
        verdict: Verdict,
        why: str,
        printed: str,
    ) -> None:
        self.checks.append(
            Check(
                paper=self.paper,
                table=table,
                quantity=quantity,
                published=published,
                recomputed=recomputed,
                tolerance=tolerance,
                verdict=verdict,
                why=why,
                printed=printed,
                place=self.place,
            )
        )


# ------------------------------------------------------------------------------------------------------ published files
def read_published(paper: str, name: str) -> list[dict[str, str]]:
    """The rows of a file of published figures, as text: digits count. Lines that start with # say where it is from."""
    path = resources.files("verism").joinpath(f"data/published/{paper}/{name}.csv")
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


def read_tables(paper: str) -> Tables:
    """The file ``results`` of a paper whose rows are single figures: paper (version), table, row, column, printed."""
    tables: dict[tuple[str, str], dict[str, dict[str, str]]] = {}
    for row in read_published(paper, "results"):
        table = tables.setdefault((row["paper"], row["table"]), {})
        table.setdefault(row["row"], {})[row["column"]] = row["printed"]
    return tables


def read_outputs(paper: str) -> dict[tuple[str, str], str]:
    """What a paper's released code printed, by source and quantity: the file ``code_outputs``."""
    return {(row["source"], row["quantity"]): row["value"] for row in read_published(paper, "code_outputs")}


# --------------------------------------------------------------------------------------------------------------- output
def of_table(checks: Iterable[Check], wanted: str) -> list[Check]:
    """Those of one table: "6" and "Table 6" are the same, and a paper may be named ("v1 Table 3").

    Raises:
        ValueError: there is none; the message lists what there is.
    """
    values = list(checks)
    words = set(wanted.lower().replace(",", " ").split())
    results = [c for c in values if words and words <= set(f"{c.paper} {c.table}".lower().replace(",", " ").split())]
    if not results:
        tables = ", ".join(dict.fromkeys(f"{c.paper} {c.table}" for c in values))
        raise ValueError(f"no table {wanted!r}; there are: {tables}")
    return results


def in_order(parts: Iterable[Iterable[Check]]) -> list[Check]:
    """The lines of several suites as one list.

    Papers come in the order of the first line of each; in a paper numbered tables by their numbers, then what is in no
    numbered table by ``place``; otherwise the order given.
    """
    checks = [check for part in parts for check in part]
    papers = list(dict.fromkeys(check.paper for check in checks))

    def key(check: Check) -> tuple[int, int, int]:
        number = check.table.removeprefix("Table ")
        return (papers.index(check.paper), *((0, int(number)) if number.isdigit() else (1, check.place)))

    return sorted(checks, key=key)


def undocumented(checks: Iterable[Check]) -> list[Check]:
    """Those that should agree, or differ in a known way, and do not."""
    return [check for check in checks if check.verdict is Verdict.DISAGREES]


def as_records(checks: Iterable[Check]) -> list[dict[str, Any]]:
    """For JSON: paper, table, quantity, published, recomputed, tolerance, verdict, why."""
    return [
        {
            "paper": c.paper,
            "table": c.table,
            "quantity": c.quantity,
            "published": c.published,
            "recomputed": c.recomputed,
            "tolerance": c.tolerance,
            "verdict": c.verdict.value,
            "why": c.why,
        }
        for c in checks
    ]


def as_text(checks: Sequence[Check], *, differences: bool = False) -> str:
    """Lines table by table, then how many of each verdict.

    Args:
        checks: the lines to print.
        differences: whether to leave out what agrees.
    """
    lines: list[str] = []
    for (paper, table), rows in _by_table(checks).items():
        shown = [c for c in rows if not (differences and c.verdict is Verdict.AGREES)]
        if not shown:
            continue
        lines.append(f"{paper}, {table}")
        lines.append(f"  {'':<58} {'published':>12} {'recomputed':>12} {'tolerance':>9}  verdict")
        answer: set[str] = set()
        for check in shown:
            lines.extend(_row(check))
            if check.why and check.why not in answer:  # a reason shared by many lines is given once in a table
                lines.extend(textwrap.wrap(check.why, 104, initial_indent="      ", subsequent_indent="      "))
            answer.add(check.why)
        lines.append("")
    counts = [(verdict, sum(c.verdict is verdict for c in checks)) for verdict in Verdict]
    lines.append(f"{len(checks):,} figures: " + ", ".join(f"{n:,} {verdict.value}" for verdict, n in counts if n))
    return "\n".join(lines)


def _by_table(checks: Iterable[Check]) -> Mapping[tuple[str, str], list[Check]]:
    tables: dict[tuple[str, str], list[Check]] = {}
    for check in checks:
        tables.setdefault((check.paper, check.table), []).append(check)
    return tables


def _row(check: Check) -> list[str]:
    tolerance = "" if check.tolerance is None else f"{check.tolerance:.2g}"
    figures = f"{check.printed[:12]:>12} {_figure(check):>12} {tolerance:>9}  {check.verdict.value}"
    first, *rest = textwrap.wrap(check.quantity, 58) or [""]
    return [f"  {first:<58} {figures}", *(f"    {more}" for more in rest)]


def _figure(check: Check) -> str:
    """Ours, with two digits more than the paper prints."""
    value = check.recomputed
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if "e" in check.printed:
        return f"{value:.4e}"
    if value == int(value) and "." not in check.printed:
        return f"{value:.0f}"
    decimals = len(check.printed.partition(".")[2])
    return f"{value:.{min(decimals + 2, 10)}f}"
