"""DALL-Eval (Cho, Zala and Bansal, arXiv:2202.04053): its first version of 2022 ("v1") and the paper of ICCV 2023.

What can be worked out again: averages of printed columns, deviations from uniform (STD and MAD) with the votes behind
them, sizes of data sets, what shuffled pictures are expected to score, and the skin tones of the released code.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import reduce

import numpy as np

from verism.metrics.colour import ita_deg, released_ita, released_tone
from verism.metrics.imbalance import mad, std
from verism.reproduce.common import Check, Known, Verdict, Writer, by_number, half_unit, read_published

__all__ = ["dalleval_checks", "deviations", "votes_that_fit"]

# printed: rows of results.csv by (paper, table), then row, then column
Tables = Mapping[tuple[str, str], Mapping[str, Mapping[str, str]]]

OTHER_COUNTS = (
    "the columns give another mean; the printed one is a whole number of the 150 pictures too, so it seems to come "
    "from other judgements"
)
K_MINUS_1 = "the text divides by the number of categories K, as the code does; the table divides by K - 1"


def dalleval_checks() -> list[Check]:
    """Every figure of both papers' tables that can be worked out again, and those that cannot, table by table."""
    tables = _read()
    checks: list[Check] = []
    for paper, parts in (
        ("ICCV", (_skills, _human_skills, _training_scale, _professions, _deviations_2023, _attributes)),
        ("v1", (_overview, _skills_2022, _captions, _bias_2022)),
    ):
        writer = Writer(f"DALL-Eval {paper}")
        for part in parts:
            part(writer, tables)
        checks += by_number(writer.checks)
    writer = Writer("DALL-Eval code")
    _votes(writer)
    _sizes(writer)
    _skin_tones(writer)
    return checks + writer.checks


def _read() -> Tables:
    tables: dict[tuple[str, str], dict[str, dict[str, str]]] = {}
    for row in read_published("dalleval", "results"):
        table = tables.setdefault((row["paper"], row["table"]), {})
        table.setdefault(row["row"], {})[row["column"]] = row["printed"]
    return tables


def _outputs() -> dict[tuple[str, str], str]:
    return {(row["source"], row["quantity"]): row["value"] for row in read_published("dalleval", "code_outputs")}


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
        "count": [(thing, n) for thing in objects for n in range(1, 5)],
        "spatial": [_relation(a, b, to) for a in objects for b in objects for to in range(4)],
    }
    pictures = {"object": 2325, "count": 2160, "spatial": 2700}
    for skill, values in keys.items():
        chance = expected_shuffled_accuracy([str(key) for key in values])
        noise = 100 * math.sqrt(chance * (1 - chance) / pictures[skill])
        writer.number(
            "Table 2",
            f"shuffled pictures, {skill}: what a perfect detector is expected to find, two standard errors allowed",
            shuffled[skill],
            100 * chance,
            tolerance=2 * noise,
            why="pictures are drawn at random, with replacement",
        )
    writer.impossible("Table 2", "accuracies (15)", "", "needs the pictures and the detector")


def _relation(first: int, second: int, to: int) -> tuple[int, int, int]:
    """One name for what one picture shows: "dog right of bus" is "bus left of dog".

    Of two equal objects the rule tells only the axis. Relations: 0 left, 1 right, 2 above, 3 below.
    """
    if first == second:
        return first, second, to // 2
    return (first, second, to) if first < second else (second, first, to ^ 1)


def _human_skills(writer: Writer, tables: Tables) -> None:
    found = {
        "human, DALL-E Small": "32.7",
        "human, minDALL-E": "71.3",
        "human, Stable Diffusion v1.4": "52.7",
        "DETR, DALL-E Small": "32.7",
        "DETR, minDALL-E": "68.7",
        "DETR, Stable Diffusion v1.4": "48.7",
    }
    known = {name: Known(value=value, why=OTHER_COUNTS) for name, value in found.items()}
    rows = tables["ICCV", "3"]
    for name, row in rows.items():
        _average(writer, "Table 3", name, row, known=known)
    cells = [value for row in rows.values() for value in _columns(row)]
    whole = sum(float(v) % 2 == 0 for v in cells)
    writer.number("Table 3", "accuracies that are whole numbers of 50 pictures", str(len(cells)), whole)
    averages = [row["avg"] for row in rows.values()]
    whole = sum(_is_multiple(v, Fraction(100, 150)) for v in averages)
    writer.number("Table 3", "averages that are whole numbers of 150 pictures", str(len(averages)), whole)
    writer.impossible("Table 3", "accuracies (18)", "", "needs the pictures and the judgements")


def _is_multiple(printed: str, step: Fraction) -> bool:
    nearest = round(Fraction(printed) / step) * step
    return abs(float(nearest) - float(printed)) <= half_unit(printed) + 1e-9


def _training_scale(writer: Writer, tables: Tables) -> None:
    for name, row in tables["ICCV", "5"].items():
        _average(writer, "Table 5", name, row)
    for model in ("minDALL-E", "Stable Diffusion v1.4"):
        first, again = tables["ICCV", "2"][model], tables["ICCV", "5"][f"100 % of the data, {model}"]
        same = first == again
        writer.holds("Table 5", f"100 % of the data, {model}: the row of Table 2", same)
    writer.impossible("Figure 5", "accuracies by count and by relation", "", "the figure prints no numbers")


def _professions(writer: Writer, tables: Tables) -> None:
    for model, row in tables["ICCV", "6"].items():
        for profession, printed in row.items():
            if profession == "average":
                why = "needs the other 79 neutral prompts, of which the paper prints none"
                writer.impossible("Table 6", f"average gender, {model}", printed, why)
                continue
            ninths = round(float(printed) * 9)
            writer.number("Table 6", f"{profession}, {model}: {ninths}/9 of nine pictures", printed, ninths / 9)
    rows = tables["ICCV", "7"]
    tones = [value for row in rows.values() for name, value in row.items() if name != "average"]
    possible = sum(any(_is_multiple(v, Fraction(1, n)) for n in range(1, 28)) for v in tones)
    writer.number("Table 7", "mean tones that at most 27 pictures allow", str(len(tones)), possible)
    why = "needs the pictures; the released code finds tones 5 to 7 whatever it is shown (below, code: skin tones)"
    writer.impossible("Table 7", "mean tones (18)", "", why)


def _deviations_2023(writer: Writer, tables: Tables) -> None:
    rows = tables["ICCV", "8"]
    steps = 84 * 18  # neutral prompts x twice nine pictures
    for model in ("minDALL-E", "Karlo", "Stable Diffusion v1.4"):
        printed = rows[model]["gender"]
        k = round(float(printed) * steps)
        writer.number(
            "Table 8",
            f"gender MAD {model}: {k}/{steps}",
            printed,
            k / steps,
            why="84 neutral prompts; nine usable answers each give steps of 1/18 in a prompt, 1/1512 in the mean",
        )
        # Nine answers of two kinds leave an odd number of 1/18 in each prompt: an even sum over 84 prompts.
        if k % 2 == 0:
            writer.holds(
                "Table 8", f"gender MAD {model}: {k} is even, as nine usable answers of each prompt make it", True
            )
        else:
            what = f"gender MAD {model}: which answers were unusable"
            why = f"{k} is odd, while nine usable answers of each prompt give an even number: some were dropped"
            writer.impossible("Table 8", what, "", why)
        writer.impossible("Table 8", f"skin tone MAD {model}", rows[model]["skin tone"], "needs the pictures")
    possible = sum(_is_multiple(rows[m]["gender"], Fraction(1, 83 * 18)) for m in list(rows)[1:4])
    writer.number(
        "Table 8",
        "gender MADs (of 3) that the mean over 83 prompts allows",
        "3",
        possible,
        known=Known(
            value="0",
            verdict=Verdict.DEFINITION,
            why="the bare prompt 'A person' counts: 84 prompts, not one for each of the 83 professions",
        ),
    )
    for label, genders, tones in (("uniform", [1, 1], [1] * 10), ("one-hot", [1, 0], [1] + [0] * 9)):
        writer.number("Table 8", f"gender MAD, {label}", rows[label]["gender"], deviations(genders)[1])
        writer.number("Table 8", f"skin tone MAD, {label}", rows[label]["skin tone"], deviations(tones)[1])
    for hot, printed in ((1, "0.18"), (2, "0.16"), (3, "0.14"), (10, "0")):
        value = deviations([1] * hot + [0] * (10 - hot))[1]
        writer.number("text", f"skin tone MAD, {hot} of 10 tones alike: 0.02 x {10 - hot}", printed, value)


def _attributes(writer: Writer, tables: Tables) -> None:
    for model, row in tables["ICCV", "9"].items():
        for attribute in ("skirt", "suit", "jacket", "tie"):
            woman, man = Fraction(row[f"woman {attribute}"]), Fraction(row[f"man {attribute}"])
            printed = row[f"difference {attribute}"]
            writer.number("Table 9", f"woman - man, {attribute}, {model}", printed, float(woman - man), slack=0.01)
    skirt = tables["ICCV", "9"]["minDALL-E"]
    positive = "woman" if float(skirt["woman skirt"]) > float(skirt["man skirt"]) else "man"
    writer.words(
        "Table 9",
        "caption: a positive difference, such as skirt, means more with",
        "man",
        positive,
        known=Known(value="woman", why="the caption has its sign reversed: the columns give woman - man"),
    )
    writer.number("text", "prompts: 3 x 83 professions + 3", "252", 3 * 83 + 3)
    writer.number("text", "pictures of human evaluation of a model: 3 skills x 50", "150", 3 * 50)


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
    writer.impossible("Table 2", "FID (4)", "", "needs the pictures")


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


def _captions(writer: Writer, tables: Tables) -> None:
    row, outputs = tables["v1", "7"]["GT (upper bound)"], _outputs()
    rouge = Known(value="20.43", why="55.3 is ROUGE-L of the same pictures; the authors have confirmed it")
    for metric, name in (("BLEU-4", "Bleu_4"), ("METEOR", "METEOR"), ("CIDEr", "CIDEr"), ("SPICE", "SPICE")):
        value = 100 * float(outputs["captioning, beam 5", name])
        known = rouge if metric == "SPICE" else None
        what = f"{metric} of real pictures, from the authors' README"
        writer.number("Table 7", what, row[metric], value, known=known)
    value = 100 * float(outputs["captioning, beam 5", "ROUGE_L"])
    writer.number("Table 7", "the printed SPICE of real pictures is their ROUGE-L", row["SPICE"], value)
    writer.impossible("Table 7", "caption metrics, R-precision, human scores of models (24)", "", "needs the pictures")


def deviations(counts: Sequence[int]) -> tuple[float, float]:
    """STD and MAD of the shares of K categories from an even spread, both with divisor K: see ``metrics.imbalance``."""
    return float(std(counts)), float(mad(counts))


def votes_that_fit(std_printed: str, mad_printed: str, *, total: int, categories: int) -> list[tuple[int, ...]]:
    """All votes, largest first, that print as this STD and as this MAD with divisor K - 1."""
    every = np.array(list(_partitions(total, categories, total)))
    near = np.abs(std(every) - float(std_printed)) <= half_unit(std_printed) + 1e-9
    near &= np.abs(mad(every, divisor="K-1") - float(mad_printed)) <= half_unit(mad_printed) + 1e-9
    return [tuple(int(n) for n in votes) for votes in every[near]]


def _partitions(total: int, parts: int, largest: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        if total <= largest:
            yield (total,)
        return
    for first in range(-(-total // parts), min(total, largest) + 1):
        for rest in _partitions(total - first, parts - 1, first):
            yield (first, *rest)


# Votes behind Tables 8 and 9 of the first version. Those of minDALL-E in Table 8 are in the authors' README; all others
# are found by trying every vote (`votes_that_fit`), with the number of prompts as told.
VOTES: Mapping[tuple[str, str, str], tuple[int, ...]] = {
    ("8", "minDALL-E", "gender"): (90, 55),
    ("8", "minDALL-E", "race"): (85, 26, 20, 14),
    ("8", "ruDALL-E-XL", "gender"): (105, 40),
    ("8", "ruDALL-E-XL", "race"): (82, 53, 6, 4),
    ("9", "minDALL-E", "gender"): (74, 34),
    ("9", "minDALL-E", "race"): (102, 4, 1, 1),
    ("9", "ruDALL-E-XL", "gender"): (86, 21),
    ("9", "ruDALL-E-XL", "race"): (104, 3, 0, 0),
}


def _bias_2022(writer: Writer, tables: Tables) -> None:
    twice = "0.60748 / 2 = 0.30374; the printed 0.3038 is half of the printed MAD, 0.6075"
    known = {
        ("8", "minDALL-E", "gender STD"): Known(value="0.12069", why="the README of the code has 0.1207 too"),
        ("9", "ruDALL-E-XL", "gender STD"): Known(value="0.30374", why=twice, verdict=Verdict.ROUNDING),
    }
    for table in ("8", "9"):
        rows = tables["v1", table]
        for model in ("uniform", "ruDALL-E-XL", "minDALL-E", "one-hot"):
            for bias, k in (("gender", 2), ("race", 4)):
                even, alone = (1,) * k, (1,) + (0,) * (k - 1)
                votes = VOTES.get((table, model, bias)) or (even if model == "uniform" else alone)
                spread, deviation = deviations(votes)
                shown = "/".join(str(v) for v in votes)
                what = f"{bias} STD {model}, votes {shown}"
                misprint = known.get((table, model, f"{bias} STD"))
                writer.number(f"Table {table}", what, rows[model][f"{bias} STD"], spread, known=misprint)
                printed = rows[model][f"{bias} MAD"]
                what = f"{bias} MAD {model}, votes {shown}"
                writer.number(f"Table {table}", f"{what}, divisor K - 1", printed, float(mad(votes, divisor="K-1")))
                if deviation:
                    other = Known(value=f"{deviation:.5f}", verdict=Verdict.DEFINITION, why=K_MINUS_1)
                    writer.number(f"Table {table}", f"{what}, divisor K", printed, deviation, known=other)
    for table, model, bias in (("8", "ruDALL-E-XL", "race"), ("9", "ruDALL-E-XL", "race"), ("9", "minDALL-E", "race")):
        votes = VOTES[table, model, bias]
        row, total = tables["v1", table][model], sum(votes)
        fits = votes_that_fit(row[f"{bias} STD"], row[f"{bias} MAD"], total=total, categories=len(votes))
        shown = " or ".join("/".join(map(str, fit)) for fit in fits)
        writer.holds(f"Table {table}", f"{bias} {model}: of {total} votes only {shown} print so", votes in fits)
    why = "needs people's answers prompt by prompt"
    writer.impossible("text", "gender, CLIP and people: phi and kappa (2)", "0.77", why)
    writer.impossible("text", "race, CLIP and people: kappa", "below 0.1", why)
    writer.number("text", "neutral prompts: professions, political, objects, other", "145", 85 + 6 + 39 + 15)
    writer.number("text", "pictures of human evaluation: 3 models and real, 50 each", "200", 4 * 50)


# ----------------------------------------------------------------------------------------------------------------- code
def _votes(writer: Writer) -> None:
    outputs, source = _outputs(), "bias, February 2022"
    sides = {"gender": ("male", "female"), "race": ("white", "black", "hispanic", "asian")}
    for bias, names in sides.items():
        votes = [int(outputs[source, f"{name} votes"]) for name in names]
        alone = [1] + [0] * (len(names) - 1)
        for label, counts in (("", votes), ("one-hot ", alone)):
            for name, value in zip(("STD", "MAD"), deviations(counts), strict=True):
                shown = "/".join(str(v) for v in counts)
                printed = outputs[source, f"{label}{bias} {name}"]
                writer.number("README", f"{label}{bias} {name}, votes {shown}", printed, value)
    writer.impossible("README", "caption metrics of real pictures (16)", "", "needs the pictures and the captioner")
    _rule_tones(writer, {name: outputs["bias, November 2022", name] for name in ("skin tone STD", "skin tone MAD")})


def _rule_tones(writer: Writer, printed: Mapping[str, str], n: int = 1109) -> None:
    """What STD and MAD of ten shares tell of the counts behind them.

    With counts c of n pictures, 100 n MAD is the sum of |10 c - n|, and that of the counts above n / 10 alone is half
    of it; 10 n^2 STD^2 + n^2 / 10 is the sum of c^2.
    """
    above = round(50 * n * float(printed["skin tone MAD"]))
    squares = round(10 * (n * float(printed["skin tone STD"])) ** 2 + n * n / 10)
    what = f"skin tone MAD of {n:,} pictures: {2 * above}/{100 * n}"
    writer.number("README", what, printed["skin tone MAD"], 2 * above / (100 * n))
    what = f"skin tone STD of {n:,} pictures: squares of counts sum to {squares:,}"
    writer.number("README", what, printed["skin tone STD"], math.sqrt((squares - n * n / 10) / 10) / n)
    # k tones above an even share hold t pictures: 10 t - k n = above. For n = 1,109 this leaves one k below ten.
    fits = [(k, (above + k * n) // 10) for k in range(1, 10) if (above + k * n) % 10 == 0 and above + k * n <= 10 * n]
    writer.holds(
        "README",
        f"of the {n:,} pictures 1,044 are of the three tones above an even share; no other number of tones fits",
        fits == [(3, 1044)],
        why="the colour rule lets four of the ten swatches pass, 4 to 7",
    )
    writer.impossible("README", f"skin tones of the {n:,} pictures, one by one", "", "needs the pictures")


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


def _skin_tones(writer: Writer) -> None:
    swatches = read_published("dalleval", "monk_skin_tones")
    for row in swatches:
        value = float(ita_deg([float(row["lab_l"]), float(row["lab_a"]), float(row["lab_b"])]))
        writer.number("skin tones", f"typology angle of Monk tone {row['tone']}, degrees", row["ita"], value)
    why = (
        "red and blue are swapped and 8-bit CIELAB is taken for CIELAB; the published mean tones of 5.0 to 5.6 are "
        "what this gives for almost any picture, so they are no target"
    )
    for row, tone in zip(swatches, (5, 5, 5, 5, 5, 5, 6, 6, 6, 7), strict=True):
        patch = np.array([[int(row["red"]), int(row["green"]), int(row["blue"])]], dtype=np.uint8)
        found = int(released_tone(released_ita(patch))[0])
        known = None if str(tone) == row["tone"] else Known(value=str(tone), verdict=Verdict.FAULT, why=why)
        what = f"tone that the released code gives Monk tone {row['tone']}"
        writer.number("skin tones", what, row["tone"], found, known=known)
