"""DPG-Bench (ELLA, arXiv:2403.05135): counts, what is behind posted scores, which printed columns can be what they say.

Without images or answers one can still ask of a printed share whether any whole number of right answers gives it. A
category has a known number of questions; of most printed columns no such number exists, so they are something else.
"""

from __future__ import annotations

from fractions import Fraction

from verism.published import Check, Known, Verdict, Writer, is_multiple, read_published
from verism.suites.dpg_bench.benchmark import GLOBAL_COUNTS, N_PROMPTS, PROMPT_SOURCES, QUESTION_COUNTS

__all__ = ["dpg", "smallest_fraction"]

IMAGES = 4
N_OTHER = QUESTION_COUNTS["other - count"] + QUESTION_COUNTS["other - text"]
GLOBAL = tuple(times * n for times in (1, IMAGES) for n in GLOBAL_COUNTS)
OTHER = tuple(times * N_OTHER for times in (1, IMAGES))
MIXTURE = (
    "with several processes the released code joins the answers of different categories, so columns are mixtures; no "
    "whole number of right answers gives this share"
)
ELSEWHERE = "another report measured the same model; prompts, seeds, judge or images differ, and none says how"
BY_USERS = "users who ran the released model measured less: rewritten prompts, resolution, seeds or the judge's setup"


def dpg() -> list[Check]:
    """DPG-Bench (arXiv:2403.05135): counts, fractions behind posted logs, mixed categories, contradicting scores."""
    data, logs, printed = Writer("DPG-Bench"), Writer("DPG-Bench logs", place=1), Writer("DPG-Bench printed", place=2)
    _data(data)
    _logs(logs)
    _printed(printed)
    return [*data.checks, *logs.checks, *printed.checks]


def smallest_fraction(percent: float, most: int = 10_000) -> tuple[int, int] | None:
    """The fraction with the smallest denominator that a percentage with all its digits can be; None if there is none.

    Args:
        percent: in per cent, as a program prints a double.
        most: largest denominator that is tried.

    >>> smallest_fraction(78.83435582822086)
    (257, 326)
    """
    for denominator in range(1, most + 1):
        numerator = round(percent * denominator / 100)
        # Two roundings of a double: of the share, and of it times 100.
        if abs(100 * numerator / denominator - percent) <= 4e-16 * max(percent, 1):
            return numerator, denominator
    return None


def _data(writer: Writer) -> None:
    rows = read_published("dpg", "prompt_sources")
    counted = {row["file_name_prefix"]: int(row["n_prompts"]) for row in rows}
    known = Known(
        value=str(N_PROMPTS - 1),
        why="the released code loses the first row, and with it its item",
        verdict=Verdict.FAULT,
    )
    writer.number("prompts", "prompts, all sources", str(N_PROMPTS), sum(counted.values()))
    writer.number("prompts", "prompts that the released code scores", str(N_PROMPTS), N_PROMPTS - 1, known=known)
    writer.holds("prompts", "sources by item name", sorted(counted.values()) == sorted(PROMPT_SOURCES.values()))
    questions = read_published("dpg", "question_counts")
    for level1 in ("entity", "relation", "attribute", "other"):
        total = next(r["n_questions"] for r in questions if (r["level1"], r["level2"]) == (level1, "(all)"))
        parts = [n for name, n in QUESTION_COUNTS.items() if name.startswith(f"{level1} - ")]
        writer.number("questions", f"questions of {level1}", total, sum(parts))
    total = next(r["n_questions"] for r in questions if r["level1"] == "TOTAL")
    writer.number("questions", "questions in all", total, sum(QUESTION_COUNTS.values()) + GLOBAL_COUNTS[0])
    writer.impossible("Table 4", "DPG scores (8 models)", "", "needs the images and mPLUG-large")
    writer.impossible("Figure", "preference of 20 people", "", "a bar chart; no correlation was published")


def _number_of(category: str) -> tuple[int, ...]:
    """Numbers of answers that a column of this name may be of."""
    if category == "global":
        return GLOBAL
    n = QUESTION_COUNTS.get(category) or sum(
        count for name, count in QUESTION_COUNTS.items() if name.startswith(f"{category} - ")
    )
    return (n, IMAGES * n)


def _logs(writer: Writer) -> None:
    for row in read_published("dpg", "denominators"):
        found = smallest_fraction(float(row["printed_percent"]))
        fraction = f"{row['smallest_numerator']}/{row['smallest_denominator']}"
        ours = "none" if found is None else f"{found[0]}/{found[1]}"
        writer.words("fractions", f"{row['report']}: {row['category']} is at least", fraction, ours)
        possible = _number_of(row["category"])
        fits = found is not None and any(n % found[1] == 0 for n in possible)
        statement = f"{row['report']}: {row['category']} is a share of {' or '.join(map(str, possible))} answers"
        known = None if fits else Known(value="no", why=MIXTURE, verdict=Verdict.FAULT)
        one_process = "one process" in row["report"]
        writer.words("categories", statement, "yes", "yes" if fits else "no", known=None if one_process else known)


def _printed(writer: Writer) -> None:
    expected = {(row["source"], row["model"]): row for row in read_published("dpg", "shares")}
    rows = read_published("dpg", "results_by_model")
    both = 0
    for row in rows:
        counted = expected[row["source"], row["model"]]
        fits = {}
        for category, numbers in (("global", GLOBAL), ("other", OTHER)):
            possible = [n for n in numbers if is_multiple(_padded(row, category), Fraction(100, n))]
            fits[category] = bool(possible)
            ours = " ".join(map(str, sorted(possible)))
            noted = counted[f"{category}_possible_with_n"]
            writer.holds(
                "shares",
                f"{row['model']} ({row['source']}): {category} {row[category]} fits {noted or 'none'}",
                ours == noted,
            )
            known = None if possible else Known(value="no", why=MIXTURE, verdict=Verdict.FAULT)
            writer.words(
                "columns",
                f"{row['model']} ({row['source']}): {category} {row[category]} is a share of its questions",
                "yes",
                "yes" if possible else "no",
                known=known,
            )
        both += all(fits.values())
    writer.number("columns", f"rows of {len(rows)} whose global and other can be what they say", "10", both)
    _contradictions(writer, rows)
    for row in read_published("dpg", "measured_by_users"):
        known = Known(value=row["measured"], why=BY_USERS, verdict=Verdict.DEFINITION)
        writer.number(
            "claims", f"{row['model']} ({row['thread']})", row["claimed"], float(row["measured"]), known=known
        )


def _padded(row: dict[str, str], column: str) -> str:
    """A score with as many digits as its row is printed with: transcriptions drop zeros at the end."""
    scores = ("overall", "global", "entity", "attribute", "relation", "other")
    digits = max(len(row[name].partition(".")[2]) for name in scores)
    return f"{float(row[column]):.{digits}f}"


def _contradictions(writer: Writer, rows: list[dict[str, str]]) -> None:
    """Scores of one model in several reports."""
    first: dict[str, dict[str, str]] = {}
    for row in rows:
        name = row["model"].partition(" (")[0]
        before = first.setdefault(name, row)
        if before is row:
            continue
        for column in ("overall", "global"):
            if before[column] != row[column]:
                known = Known(value=row[column], why=ELSEWHERE, verdict=Verdict.DEFINITION)
                what = f"{name}: {column} in {before['source']}, and in {row['source']}"
                writer.number("contradictions", what, before[column], float(row[column]), known=known)
