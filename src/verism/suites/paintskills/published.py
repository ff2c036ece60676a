"""PaintSkills in DALL-Eval (Cho, Zala and Bansal, arXiv:2202.04053): its first version of 2022 and ICCV 2023.

What can be worked out again: averages of printed columns, sizes of the data sets, and what shuffled images are expected
to score.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import reduce

from verism.published import Check, Known, Tables, Writer, half_unit, is_multiple, read_published, read_tables

__all__ = ["dalleval"]

OTHER_COUNTS = (
    "the columns give another mean; the printed one is a whole number of the 150 images too, so it seems to come "
    "from other judgements"
)


def dalleval() -> list[Check]:
    """Skills in DALL-Eval (arXiv:2202.04053, v1 and ICCV 2023): averages, sizes, shuffled images."""
    tables = read_tables("dalleval")
    iccv, text = Writer("DALL-Eval ICCV"), Writer("DALL-Eval ICCV", place=1)
    _skills(iccv, tables)
    _human_skills(iccv, tables)
    _training_scale(iccv, tables)
    text.number("text", "images of human evaluation of a model: 3 skills x 50", "150", 3 * 50)
    first = Writer("DALL-Eval v1")
    _overview(first, tables)
    _skills_2022(first, tables)
    code = Writer("DALL-Eval code", place=3)
    _sizes(code)
    return [*iccv.checks, *text.checks, *first.checks, *code.checks]


def _columns(row: Mapping[str, str]) -> list[str]:
    return [value for name, value in row.items() if name != "avg"]


def _average(
    writer: Writer, table: str, name: str, row: Mapping[str, str], *, known: Mapping[str, Known] | None = None
) -> None:
    """The average of a row beside the mean of its other columns."""
    printed = _columns(row)
    value = float(sum(Fraction(v) for v in printed) / len(printed))
    slack = max(half_unit(v) for v in printed)
    expected = None if known is None else known.get(name)
    what = f"average, {name}: {' '.join(printed)}"
    writer.number(table, what, row["avg"], value, slack=slack, known=expected)


# ----------------------------------------------------------------------------------------------------------- ICCV 2023
def _skills(writer: Writer, tables: Tables) -> None:
    from verism.metrics.skills import expected_shuffled_accuracy

    rows = tables["ICCV", "2"]
    for name, row in rows.items():
        _average(writer, "Table 2", name, row)
    shuffled = rows["GT shuffled (random)"]
    objects = range(15)
    keys: dict[str, list[object]] = {
        "object": list(objects),
        "count": [(item, n) for item in objects for n in range(1, 5)],
        "spatial": [_relation(a, b, to) for a in objects for b in objects for to in range(4)],
    }
    images = {"object": 2325, "count": 2160, "spatial": 2700}
    for skill, values in keys.items():
        chance = expected_shuffled_accuracy([str(key) for key in values])
        noise = 100 * math.sqrt(chance * (1 - chance) / images[skill])
        writer.number(
            "Table 2",
            f"shuffled images, {skill}: what a perfect detector is expected to find, two standard errors allowed",
            shuffled[skill],
            100 * chance,
            tolerance=2 * noise,
            why="images are drawn at random, with replacement",
        )
    writer.impossible("Table 2", "accuracies (15)", "", "needs the images and the detector")


def _relation(first: int, second: int, to: int) -> tuple[int, int, int]:
    """One name for what one image shows: "dog right of bus" is "bus left of dog".

    Of two equal objects the rule tells only the axis. Relations: 0 left, 1 right, 2 above, 3 below.
    """
    if first == second:
        return first, second, to // 2
    return (first, second, to) if first < second else (second, first, to ^ 1)


def _human_skills(writer: Writer, tables: Tables) -> None:
    results = {
        "human, DALL-E Small": "32.7",
        "human, minDALL-E": "71.3",
        "human, Stable Diffusion v1.4": "52.7",
        "DETR, DALL-E Small": "32.7",
        "DETR, minDALL-E": "68.7",
        "DETR, Stable Diffusion v1.4": "48.7",
    }
    known = {name: Known(value=value, why=OTHER_COUNTS) for name, value in results.items()}
    rows = tables["ICCV", "3"]
    for name, row in rows.items():
        _average(writer, "Table 3", name, row, known=known)
    cells = [value for row in rows.values() for value in _columns(row)]
    complete = sum(float(v) % 2 == 0 for v in cells)
    writer.number("Table 3", "accuracies that are whole numbers of 50 images", str(len(cells)), complete)
    averages = [row["avg"] for row in rows.values()]
    complete = sum(is_multiple(v, Fraction(100, 150)) for v in averages)
    writer.number("Table 3", "averages that are whole numbers of 150 images", str(len(averages)), complete)
    writer.impossible("Table 3", "accuracies (18)", "", "needs the images and the judgements")


def _training_scale(writer: Writer, tables: Tables) -> None:
    for name, row in tables["ICCV", "5"].items():
        _average(writer, "Table 5", name, row)
    for model in ("minDALL-E", "Stable Diffusion v1.4"):
        first, again = tables["ICCV", "2"][model], tables["ICCV", "5"][f"100 % of the data, {model}"]
        same = first == again
        writer.holds("Table 5", f"100 % of the data, {model}: the row of Table 2", same)
    writer.impossible("Figure 5", "accuracies by count and by relation", "", "the figure prints no numbers")


# ------------------------------------------------------------------------------------------------------- first version
def _overview(writer: Writer, tables: Tables) -> None:
    skills, captions = tables["v1", "3"], tables["v1", "7"]
    for model, row in tables["v1", "2"].items():
        for metric, printed in row.items():
            source = captions[model] if metric in ("CIDEr", "R-precision") else skills.get(f"{model}, finetuned", {})
            if metric in source:
                where = 7 if metric in ("CIDEr", "R-precision") else 3
                what = f"{metric}, {model}: that of Table {where}"
                writer.number("Table 2", what, printed, float(source[metric]))
    writer.impossible("Table 2", "FID (4)", "", "needs the images")


def _skills_2022(writer: Writer, tables: Tables) -> None:
    rows = tables["v1", "3"]
    for name, row in rows.items():
        _average(writer, "Table 3", name, row)
    models = [row for name, row in rows.items() if name.endswith("finetuned") and not name.startswith("3-model")]
    mean = rows["3-model average, finetuned"]
    for skill, printed in mean.items():
        values = [row[skill] for row in models]
        value = float(sum(Fraction(v) for v in values) / len(values))
        what = f"three-model average, {skill}: {' '.join(values)}"
        writer.number("Table 3", what, printed, value, slack=half_unit(values[0]))
    for name, row in tables["v1", "4"].items():
        _average(writer, "Table 4", name, row)
    _average(writer, "Table 5", "phi of DETR and people", tables["v1", "5"]["phi"])


# ----------------------------------------------------------------------------------------------------------------- code
def _sizes(writer: Writer) -> None:
    known = Known(value="28224", why="21 x 21 x 4 x 16; one digit is wrong in print")
    for row in read_published("dalleval", "sizes"):
        for part in ("train", "evaluation"):
            factors = row[f"{part}_factors"]
            size = reduce(lambda a, b: a * b, (int(f) for f in factors.split(" x ")))
            misprint = known if (row["version"], row["skill"], part) == ("v1", "spatial", "train") else None
            paper = "first version" if row["version"] == "v1" else "ICCV"
            what = f"PaintSkills of the {paper}, {row['skill']}, {part}: {factors}"
            writer.number("PaintSkills", what, row[part], size, known=misprint)
