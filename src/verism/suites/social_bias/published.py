"""Social bias in DALL-Eval (Cho, Zala and Bansal, ICCV 2023, arXiv:2202.04053).

What can be worked out again: deviations from an even spread with the votes behind them, differences of columns, and the
skin tones of the released code.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from verism.metrics.colour import ita_deg, released_ita, released_tone
from verism.metrics.imbalance import mad
from verism.published import (
    Check,
    Known,
    Tables,
    Verdict,
    Writer,
    is_multiple,
    read_outputs,
    read_published,
    read_tables,
)

__all__ = ["dalleval"]


def dalleval() -> list[Check]:
    """Social bias in DALL-Eval (arXiv:2202.04053, ICCV 2023): deviations, attributes, skin tones."""
    tables = read_tables("dalleval")
    paper = Writer("DALL-Eval ICCV")
    _professions(paper, tables)
    _deviations_2023(paper, tables)
    _attributes(paper, tables)
    readme, tones = Writer("DALL-Eval code", place=2), Writer("DALL-Eval code", place=4)
    outputs = read_outputs("dalleval")
    _rule_tones(readme, {name: outputs["bias, November 2022", name] for name in ("skin tone STD", "skin tone MAD")})
    _skin_tones(tones)
    return [*paper.checks, *readme.checks, *tones.checks]


def _professions(writer: Writer, tables: Tables) -> None:
    for model, row in tables["ICCV", "6"].items():
        for profession, printed in row.items():
            if profession == "average":
                why = "needs the other 79 neutral prompts, of which the paper prints none"
                writer.impossible("Table 6", f"average gender, {model}", printed, why)
                continue
            ninths = round(float(printed) * 9)
            writer.number("Table 6", f"{profession}, {model}: {ninths}/9 of nine images", printed, ninths / 9)
    rows = tables["ICCV", "7"]
    tones = [value for row in rows.values() for name, value in row.items() if name != "average"]
    possible = sum(any(is_multiple(v, Fraction(1, n)) for n in range(1, 28)) for v in tones)
    writer.number("Table 7", "mean tones that at most 27 images allow", str(len(tones)), possible)
    why = "needs the images; the released code finds tones 5 to 7 whatever it is shown (below, code: skin tones)"
    writer.impossible("Table 7", "mean tones (18)", "", why)


def _deviations_2023(writer: Writer, tables: Tables) -> None:
    rows = tables["ICCV", "8"]
    steps = 84 * 18  # neutral prompts x twice nine images
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
        writer.impossible("Table 8", f"skin tone MAD {model}", rows[model]["skin tone"], "needs the images")
    possible = sum(is_multiple(rows[m]["gender"], Fraction(1, 83 * 18)) for m in list(rows)[1:4])
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
        writer.number("Table 8", f"gender MAD, {label}", rows[label]["gender"], float(mad(genders)))
        writer.number("Table 8", f"skin tone MAD, {label}", rows[label]["skin tone"], float(mad(tones)))
    for hot, printed in ((1, "0.18"), (2, "0.16"), (3, "0.14"), (10, "0")):
        value = float(mad([1] * hot + [0] * (10 - hot)))
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


def _rule_tones(writer: Writer, printed: Mapping[str, str], n: int = 1109) -> None:
    """What STD and MAD of ten shares tell of the counts behind them.

    With counts c of n images, 100 n MAD is the sum of |10 c - n|, and that of the counts above n / 10 alone is half
    of it; 10 n^2 STD^2 + n^2 / 10 is the sum of c^2.
    """
    above = round(50 * n * float(printed["skin tone MAD"]))
    squares = round(10 * (n * float(printed["skin tone STD"])) ** 2 + n * n / 10)
    what = f"skin tone MAD of {n:,} images: {2 * above}/{100 * n}"
    writer.number("README", what, printed["skin tone MAD"], 2 * above / (100 * n))
    what = f"skin tone STD of {n:,} images: squares of counts sum to {squares:,}"
    writer.number("README", what, printed["skin tone STD"], math.sqrt((squares - n * n / 10) / 10) / n)
    # k tones above an even share hold t images: 10 t - k n = above. For n = 1,109 this leaves one k below ten.
    fits = [(k, (above + k * n) // 10) for k in range(1, 10) if (above + k * n) % 10 == 0 and above + k * n <= 10 * n]
    writer.holds(
        "README",
        f"of the {n:,} images 1,044 are of the three tones above an even share; no other number of tones fits",
        fits == [(3, 1044)],
        why="the colour rule lets four of the ten swatches pass, 4 to 7",
    )
    writer.impossible("README", f"skin tones of the {n:,} images, one by one", "", "needs the images")


def _skin_tones(writer: Writer) -> None:
    swatches = read_published("dalleval", "monk_skin_tones")
    for row in swatches:
        value = float(ita_deg([float(row["lab_l"]), float(row["lab_a"]), float(row["lab_b"])]))
        writer.number("skin tones", f"typology angle of Monk tone {row['tone']}, degrees", row["ita"], value)
    why = (
        "red and blue are swapped and 8-bit CIELAB is taken for CIELAB; the published mean tones of 5.0 to 5.6 are "
        "what this gives for almost any image, so they are no target"
    )
    for row, tone in zip(swatches, (5, 5, 5, 5, 5, 5, 6, 6, 6, 7), strict=True):
        patch = np.array([[int(row["red"]), int(row["green"]), int(row["blue"])]], dtype=np.uint8)
        result = int(released_tone(released_ita(patch))[0])
        known = None if str(tone) == row["tone"] else Known(value=str(tone), verdict=Verdict.FAULT, why=why)
        what = f"tone that the released code gives Monk tone {row['tone']}"
        writer.number("skin tones", what, row["tone"], result, known=known)
