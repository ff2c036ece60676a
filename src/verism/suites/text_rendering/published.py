"""CVTG-2K (arXiv:2503.23461) and LongText-Bench (arXiv:2507.22058): what of their tables can be worked out again.

The printed average of CVTG-2K is a mean of its four columns weighted by the words asked for. LongText-Bench prints one
number a language, which needs the images.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from verism.published import Check, Known, Verdict, Writer, half_unit, read_published
from verism.suites.text_rendering.prompt_sets import CVTG_COUNTS

__all__ = ["cvtg", "longtext", "weighted_accuracy"]

COLUMNS = {2: "word_acc_2_regions", 3: "word_acc_3", 4: "word_acc_4", 5: "word_acc_5"}
MISPRINTED = "HiDream-O1-Image-Pro"
LEFT_OUT = (
    "not explained by rounding; words of missing images, which the released evaluation leaves out, may be the reason"
)
NEAR_CEILING = 0.95


def region_words() -> dict[int, int]:
    """Words that prompts with each number of texts ask for."""
    found = dict.fromkeys(COLUMNS, 0)
    for (_, regions), (_, n_words) in CVTG_COUNTS.items():
        found[regions] += n_words
    return found


def weighted_accuracy(columns: Mapping[int, float]) -> float:
    """Word accuracies by number of texts as one, weighted by the words asked for.

    Args:
        columns: accuracy of prompts with 2, 3, 4 and 5 texts, in [0, 1].
    """
    weights = region_words()
    return math.fsum(columns[n] * weights[n] for n in weights) / sum(weights.values())


def cvtg() -> list[Check]:
    """CVTG-2K (TextCrafter, arXiv:2503.23461): words by number of texts, averages of published tables."""
    writer = Writer("CVTG-2K")
    weights = region_words()
    writer.number("data", "prompts", "2000", sum(prompts for prompts, _ in CVTG_COUNTS.values()))
    for regions, printed in {2: "1969", 3: "4249", 4: "5417", 5: "4571"}.items():
        writer.number("data", f"words of prompts with {regions} texts", printed, weights[regions])
    writer.number("data", "words", "16206", sum(weights.values()))
    for row in read_published("text_rendering", "cvtg2k"):
        printed = f"{float(row['word_acc_average']):.4f}"
        columns = {n: f"{float(row[column]):.4f}" for n, column in COLUMNS.items()}
        value = weighted_accuracy({n: float(text) for n, text in columns.items()})
        slack = max(map(half_unit, columns.values()))
        known = None
        if abs(value - float(printed)) > slack + half_unit(printed):
            misprint = row["model"] == MISPRINTED
            known = Known(
                value=f"{value:.4f}",
                why="neither the weighted mean of its columns nor their plain mean (0.9224)" if misprint else LEFT_OUT,
                verdict=Verdict.MISPRINT if misprint else Verdict.DEFINITION,
            )
        writer.number("average", f"word accuracy, {row['model']}", printed, value, slack=slack, known=known)
        for column in ("ned", "clipscore"):
            writer.impossible("average", f"{column}, {row['model']}", f"{float(row[column]):.4f}", "needs the images")
    return writer.checks


def longtext() -> list[Check]:
    """LongText-Bench (X-Omni, arXiv:2507.22058): published scores, none of which can be recomputed without images."""
    writer = Writer("LongText-Bench")
    rows = read_published("text_rendering", "longtext")
    for row in rows:
        for language in ("english", "chinese"):
            printed = f"{float(row[language]):.3f}"
            writer.impossible("scores", f"{language}, {row['model']}", printed, "needs the images and the OCR model")
    orders = [[row["model"] for row in sorted(rows, key=lambda r, c=c: -float(r[c]))] for c in ("english", "chinese")]  # type: ignore[misc]
    writer.holds("scores", "English and Chinese order the models otherwise", orders[0] != orders[1])
    near = [row["model"] for row in rows if float(row["english"]) > NEAR_CEILING]
    writer.number(
        "scores", f"models above {NEAR_CEILING:.2f} in English, of {len(rows)}: near the ceiling", "6", len(near)
    )
    return writer.checks
