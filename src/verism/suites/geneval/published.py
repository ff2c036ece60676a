"""GenEval (Ghosh, Hajishirzi and Schmidt, arXiv:2310.11513): prompts, arithmetic, and how its scores are quoted.

What can be worked out again without images: the prompts (by their hash), overall scores out of posted counts, means of
printed columns, and how far printed scores of one model contradict each other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from verism.published import Check, Known, Verdict, Writer, half_unit, read_published
from verism.suites.geneval.aggregation import summary_of_counts
from verism.suites.geneval.prompts import METADATA_SHA256, TEXTS_SHA256, draw_prompts, metadata_lines, sha256_of
from verism.suites.geneval.vocabulary import CLASSES, TASKS

__all__ = ["geneval"]

CLASSES_SHA256 = "608f6a0e5c8ca1c7a92b818430141fe268c85b7930b50f4160f1d65893b5bacd"
REWRITTEN = "users who ran the released model measured less; rewritten prompts are the likely reason"
ANOTHER_TABLE = "another table quotes another score of the model: prompts, settings or seeds differ, and none says how"


def geneval() -> list[Check]:
    """GenEval (arXiv:2310.11513): prompts, public logs, quoted scores, drift against people."""
    paper, logs, quoted, drift = (
        Writer("GenEval"),
        Writer("GenEval public logs", place=1),
        Writer("GenEval quoted", place=2),
        Writer("GenEval 2", place=3),
    )
    _prompts(paper)
    _main_results(paper)
    _human_study(paper)
    _logs(logs)
    _quoted(quoted)
    _drift(drift)
    return [*paper.checks, *logs.checks, *quoted.checks, *drift.checks]


def _prompts(writer: Writer) -> None:
    prompts = draw_prompts()
    texts = "".join(prompt["prompt"] + "\n" for prompt in prompts)
    writer.number("prompts", "number of prompts drawn with seed 43", "553", len(prompts))
    files = {
        "evaluation_metadata.jsonl": (METADATA_SHA256, metadata_lines(prompts)),
        "generation_prompts.txt": (TEXTS_SHA256, texts),
        "object_names.txt": (CLASSES_SHA256, "".join(name + "\n" for name in CLASSES)),
    }
    for name, (expected, text) in files.items():
        writer.words("prompts", f"SHA-256 of {name}, first 12 digits", expected[:12], sha256_of(text)[:12])
        writer.holds("prompts", f"SHA-256 of {name}, all digits", sha256_of(text) == expected)


def _mean(row: Mapping[str, str]) -> tuple[float, float]:
    """Mean of the six printed tasks, and how far their rounding can move it."""
    values = [_two_digits(row[task]) for task in TASKS]
    return sum(map(float, values)) / len(values), max(half_unit(value) for value in values)


def _two_digits(printed: str) -> str:
    """A score as all these tables print it; transcriptions drop zeros at the end."""
    return f"{float(printed):.2f}"


def _main_results(writer: Writer) -> None:
    for row in read_published("geneval", "main_results"):
        value, slack = _mean(row)
        writer.number("Table 2", f"overall, {row['model']}", _two_digits(row["overall"]), value, slack=slack)
    writer.impossible("Table 2", "scores of the tasks (36)", "", "needs the images and the segmenter")


def _human_study(writer: Writer) -> None:
    figures = {row["quantity"]: row["value"] for row in read_published("geneval", "paper_numbers")}
    why = "needs the authors' annotations: verism geneval human annotations_*.csv"
    for name in ("images on which all five agree", "human score CLIP retrieval", "human score SD v2.1"):
        writer.impossible("text", name, figures[name], why)
    writer.impossible("text", "human score IF-XL", figures["human score IF-XL"], why)
    each, models = 5, 3
    writer.number("text", "annotations: 1,200 images x 5", str(1200 * each), models * 400 * each)


def _logs(writer: Writer) -> None:
    for row in read_published("geneval", "public_logs"):
        counts = {task: (int(row[f"{task}_correct"]), int(row[f"{task}_images"])) for task in TASKS}
        summary = summary_of_counts(counts)
        run = f"{row['run']} ({row['thread']})"
        if row["overall_printed"]:
            writer.number("overall", run, row["overall_printed"], summary.overall)
        else:
            writer.number("overall", run, row["overall_recomputed"], summary.overall, why="worked out from the counts")
        if row["pct_correct_images_printed"]:
            printed = row["pct_correct_images_printed"]
            writer.number("right images, %", run, printed, 100 * summary.correct_images)
        for claimed in re.findall(r"claims (0\.[0-9]+)", row["run"]):
            known = Known(value=f"{summary.overall:.2f}", why=REWRITTEN, verdict=Verdict.DEFINITION)
            writer.number("claims", run, claimed, summary.overall, known=known)
        complete = sum(images for _, images in counts.values())
        if row["prompts_printed"] and int(row["prompts_printed"]) < 553:
            missing = f"{553 - int(row['prompts_printed'])} prompts have no images, and the denominators shrink"
            known = Known(value=str(complete), why=missing, verdict=Verdict.FAULT)
            writer.number("images", f"{run}: 553 prompts x 4", str(553 * 4), complete, known=known)


def _quoted(writer: Writer) -> None:
    rows = read_published("geneval", "quoted_scores")
    first: dict[str, tuple[str, str]] = {}
    for row in rows:
        value, slack = _mean(row)
        table = row["remark"].partition(" table")[0] if " table" in row["remark"] else "third-party tables"
        writer.number(
            "overall", f"{row['model']} ({row['remark'] or table})", _two_digits(row["overall"]), value, slack=slack
        )
    for row in rows:
        name, printed = row["model"], _two_digits(row["overall"])
        elsewhere = re.findall(r"(?:quotes?|measured) (0\.[0-9]+)", row["remark"])
        others = [(value, "as its remark says") for value in elsewhere]
        if name in first and first[name][0] != printed:
            others.append((first[name][0], first[name][1] or "another table"))
        for value, where in others:
            known = Known(value=value, why=ANOTHER_TABLE, verdict=Verdict.DEFINITION)
            writer.number(
                "contradictions",
                f"{name}: overall {printed}, {value} elsewhere ({where})",
                printed,
                float(value),
                known=known,
            )
        first.setdefault(name, (printed, row["remark"]))


def _drift(writer: Writer) -> None:
    for row in read_published("geneval", "drift"):
        if not row["geneval_automatic_pct"]:
            continue
        automatic, human, printed = row["geneval_automatic_pct"], row["human_pct"], row["human_minus_automatic"]
        slack = half_unit(automatic) + half_unit(human)
        gap = float(human) - float(automatic)
        what = f"people minus judge, {row['model']}: {human} - {automatic}, points"
        writer.number("Table 1", what, printed, gap, slack=slack)
    rows = [row for row in read_published("geneval", "drift") if row["geneval_automatic_pct"]]
    by_judge = sorted(rows, key=lambda row: -float(row["geneval_automatic_pct"]))
    by_people = sorted(rows, key=lambda row: -float(row["human_pct"]))
    differ = [row["model"] for row in by_judge] != [row["model"] for row in by_people]
    writer.holds("Table 1", "the judge orders the models otherwise than people do", differ)
