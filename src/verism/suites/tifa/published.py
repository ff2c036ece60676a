"""TIFA (Hu et al. 2023, arXiv:2303.11897): the agreement printed as Spearman's, and what it is; means of models.

The recomputed figures are of the released ratings and metric values; ``verism tifa human`` works them out from the
user's own copy.
"""

from __future__ import annotations

from verism.published import Check, Known, Verdict, Writer, half_unit, read_published
from verism.suites.tifa.benchmark import ELEMENT_TYPES, N_CAPTIONS

__all__ = ["tifa"]

TWO, FIVE = "TIFA, mean of 2", "DSG, mean of 5"
SOURCES = {"COCO": 2000, "PartiPrompts": 1420, "PaintSkills": 500, "DrawBench": 161}
NAMED = "the released notebook computes Pearson's coefficient and calls it Spearman's"
OTHERS = "the same images, rated by five other people"


def tifa() -> list[Check]:
    """TIFA (arXiv:2303.11897): agreement with people, printed as Spearman's and being Pearson's; means of models."""
    writer, data = Writer("TIFA"), Writer("TIFA v1.0 data", place=1)
    _agreement(writer)
    _means(writer)
    data.number("captions", "captions of all sources", str(N_CAPTIONS), sum(SOURCES.values()))
    data.number("questions", "types of elements", "12", len(ELEMENT_TYPES))
    data.impossible("Table", "TIFA scores of models", "", "needs the images and mPLUG-large")
    return [*writer.checks, *data.checks]


def _agreement(writer: Writer) -> None:
    rows = read_published("tifa", "agreement")
    names = [row["metric"] for row in rows if row["human_labels"] == TWO]
    for row in rows:
        name = row["metric"]
        if row["human_labels"] != TWO:
            continue
        printed = row["printed_as_spearman"]
        slack = half_unit(row["pearson"])
        writer.number("Pearson", f"{name}, as Pearson's", printed, float(row["pearson"]), slack=slack)
        known = None
        if abs(float(printed) - float(row["spearman"])) > half_unit(printed):
            known = Known(value=row["spearman"], why=NAMED)
        writer.number(
            "Spearman", f"{name}, as the Spearman's that it is printed as", printed, float(row["spearman"]), known=known
        )
    by_labels = {
        labels: {row["metric"]: row for row in rows if row["human_labels"] == labels} for labels in (TWO, FIVE)
    }
    for name in names:
        two, five = by_labels[TWO][name], by_labels[FIVE][name]
        known = Known(value=five["spearman"], why=OTHERS, verdict=Verdict.DEFINITION)
        what = f"{name}: Spearman's with two raters, and with five others"
        writer.number("raters", what, two["spearman"], float(five["spearman"]), known=known)
    ranked = {
        measure: sorted(names, key=lambda name: -float(by_labels[TWO][name][measure]))
        for measure in ("pearson", "spearman")
    }
    writer.holds(
        "Spearman", "the best metric is the same by both coefficients", ranked["pearson"][0] == ranked["spearman"][0]
    )
    writer.holds("Spearman", "the order of all metrics is not", ranked["pearson"] != ranked["spearman"])


def _means(writer: Writer) -> None:
    rows = read_published("tifa", "model_means")
    writer.number("models", "rated images", "800", sum(int(row["n"]) for row in rows))
    best = {
        column: max(rows, key=lambda row: float(row[column]))["model"]
        for column in ("human_tifa_2", "human_dsg_5", "tifa_mplug_large")
    }
    writer.holds("models", "people and TIFA with mPLUG agree on the best model", len(set(best.values())) == 1)
    order = {
        column: [row["model"] for row in sorted(rows, key=lambda row: -float(row[column]))]
        for column in ("human_tifa_2", "tifa_mplug_large")
    }
    writer.holds("models", "and not on the order of the others", len(set(map(tuple, order.values()))) == 2)
