"""DSG (Cho et al. 2024, arXiv:2310.18235): counts, agreement with people under each rule, means of tables.

The printed coefficients stand beside those worked out from the released answers and ratings, to four digits. From the
user's own copies ``verism dsg human`` works out the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from verism.published import Check, Known, Verdict, Writer, half_unit, read_published
from verism.suites.dsg.benchmark import N_PROMPTS, N_QUESTIONS, REPORT_COLUMNS, SOURCES

__all__ = ["dsg"]

COLUMNS = ("tifa160", "paragraph", "relation", "count", "real_users", "poses", "defying", "text")
TABLE = "Table 3"
IN_TEXT = "0.563"  # what the running text calls Spearman's coefficient of DSG with PaLI


def dsg() -> list[Check]:
    """DSG (arXiv:2310.18235): counts, agreement with people by dependency rule, table of models."""
    writer, data = Writer("DSG"), Writer("DSG-1k data", place=1)
    _agreement(writer)
    _models(writer)
    _match(writer)
    _counts(data)
    return [*writer.checks, *data.checks]


def _agreement(writer: Writer) -> None:
    rows = read_published("dsg", "agreement")
    for row in rows:
        what = f"{row['question_set']}, {row['judge']}"
        for printed, ours, name in (
            ("printed_spearman", "recomputed_spearman", "Spearman"),
            ("printed_kendall", "recomputed_kendall_tau_b", "Kendall"),
        ):
            if not row[printed]:
                continue
            if row[ours]:
                slack = half_unit(row[ours])
                writer.number(TABLE, f"{name}, {what}", row[printed], float(row[ours]), slack=slack)
            else:
                writer.impossible(TABLE, f"{name}, {what}", row[printed], "needs the answers to TIFA's questions")
    pali = next(r for r in rows if (r["judge"], r["question_set"]) == ("pali-17b", "dsg"))
    why = f"the running text's figure is Pearson's ({pali['recomputed_pearson']}); the table has Spearman's"
    known = Known(value=pali["recomputed_spearman"], why=why)
    writer.number("text", "Spearman, dsg, pali-17b", IN_TEXT, float(pali["recomputed_spearman"]), known=known)
    by_rule: dict[str, dict[str, float]] = {}
    for row in rows:
        if row["question_set"].startswith("dsg"):
            by_rule.setdefault(row["judge"], {})[row["question_set"]] = float(row["recomputed_spearman"])
    widest = max(max(values.values()) - min(values.values()) for values in by_rule.values())
    writer.holds("rules", "the dependency rule moves no rank correlation by 0.01", widest < 0.01)


def _models(writer: Writer) -> None:
    rows = {(row["answerer"], row["t2i_model"]): row for row in read_published("dsg", "models")}
    prompts: dict[str, int] = {}
    for source, (n, _) in SOURCES.items():
        column = REPORT_COLUMNS[source].replace(" ", "_")
        prompts[column] = prompts.get(column, 0) + n
    for (answerer, model), row in rows.items():
        if not row["tifa160"]:
            continue
        value = sum(float(row[name]) * prompts[name] for name in COLUMNS) / sum(prompts.values())
        slack = max(half_unit(row[name]) for name in COLUMNS)
        what = f"overall as the mean of the columns by prompts, {answerer}, {model}"
        writer.number("Table 6", what, row["overall"], value, slack=slack)
    printed = rows["PaLI", "SD v2.1"]
    for name in (*COLUMNS, "overall"):
        _rule(writer, name, printed, rows)


def _rule(
    writer: Writer, name: str, printed: Mapping[str, str], rows: Mapping[tuple[str, str], Mapping[str, str]]
) -> None:
    """The printed column beside each dependency rule."""
    for rule in ("plain rule", "cascading rule", "no dependency"):
        ours = rows[f"PaLI (recomputed, {rule})", "SD v2.1"][name]
        if not ours:
            continue
        agrees = abs(float(ours) - float(printed[name])) <= half_unit(printed[name]) + half_unit(ours)
        known = None
        if not agrees:
            known = Known(
                value=ours,
                why=f"the table was made by the library, whose rule is plain; this is the {rule}",
                verdict=Verdict.DEFINITION,
            )
        slack = half_unit(ours)
        writer.number("Table 6", f"{name}, PaLI, SD v2.1, {rule}", printed[name], float(ours), known=known, slack=slack)


def _match(writer: Writer) -> None:
    for row in read_published("dsg", "judge_human_match"):
        why = "people's answers to single questions were not released"
        writer.impossible("Table 4", f"{row['judge']}: questions answered as people do, %", row["overall"], why)


def _counts(writer: Writer) -> None:
    counted = {
        row["source"]: (int(row["n_prompts"]), int(row["n_questions"])) for row in read_published("dsg", "sources")
    }
    writer.holds(
        "sources", "prompts and questions of each source are those that a file is checked by", counted == dict(SOURCES)
    )
    writer.number("sources", "prompts", "1060", N_PROMPTS)
    writer.number("sources", "questions", "8182", N_QUESTIONS)
    categories = sum(int(row["n_questions"]) for row in read_published("dsg", "question_categories"))
    writer.number("categories", "questions of all categories", "8182", categories)
