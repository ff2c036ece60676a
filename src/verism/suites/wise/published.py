"""WISE (arXiv:2503.07265): both leaderboards' totals out of their columns, and the weights of the categories."""

from __future__ import annotations

from verism.published import Check, Known, Verdict, Writer, half_unit, read_published
from verism.suites.wise.benchmark import CATEGORIES, Edition

__all__ = ["wise"]

COLUMNS = {"culture": "cultural"}  # names that the legacy table has for categories
TWO_PLACES = "the row was rounded to two places before it was printed with four"
CONTRADICTS = "no weights of these columns give it; another column or the total is wrong"


def wise() -> list[Check]:
    """WISE (arXiv:2503.07265): totals of both editions' leaderboards recomputed from their categories."""
    legacy, verified = Writer("WISE legacy"), Writer("WISE verified", place=1)
    writers: dict[Edition, Writer] = {"legacy": legacy, "verified": verified}
    for edition, writer in writers.items():
        _totals(writer, edition)
        _weights(writer, edition)
    both = {row["model"]: row["overall"] for row in read_published("wise", "verified")}
    older = {row["model"]: row["overall"] for row in read_published("wise", "legacy")}
    verified.holds(
        "editions",
        "FLUX.1-dev has another WiScore in each edition",
        float(both["FLUX.1-dev"]) != float(older["FLUX.1-dev"]),
    )
    return [*legacy.checks, *verified.checks]


def _weights_of(edition: Edition) -> dict[str, float]:
    sizes = {name: last - first + 1 for name, (first, last) in CATEGORIES[edition].items()}
    return {name: size / sum(sizes.values()) for name, size in sizes.items()}


def _weights(writer: Writer, edition: Edition) -> None:
    weights = _weights_of(edition)
    for row in read_published("wise", "categories"):
        if row["edition"] == edition:
            writer.number("weights", f"of {row['category'].lower()}", row["weight"], weights[row["category"].lower()])


def _totals(writer: Writer, edition: Edition) -> None:
    for row in read_published("wise", edition):
        cells = {name: row.get(name) or row[COLUMNS.get(name, name)] for name in CATEGORIES[edition]}
        weights = _weights_of(edition)
        value = sum(weights[name] * float(cell) for name, cell in cells.items())
        slack = sum(weights[name] * half_unit(cell) for name, cell in cells.items())
        known = None
        if abs(value - float(row["overall"])) > half_unit(row["overall"]) + slack:
            known = Known(value=f"{value:.3f}", why=CONTRADICTS)
        if known is not None and all(cell.endswith("00") for cell in (*cells.values(), row["overall"])):
            known = Known(value=f"{value:.4f}", why=TWO_PLACES, verdict=Verdict.ROUNDING)
        writer.number("leaderboard", f"total, {row['model']}", row["overall"], value, known=known, slack=slack)
