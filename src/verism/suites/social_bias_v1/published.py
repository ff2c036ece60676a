"""Social bias in the first version of DALL-Eval (Cho, Zala and Bansal 2022, arXiv:2202.04053v1): votes behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from verism.metrics.imbalance import mad, std
from verism.published import Check, Known, Tables, Verdict, Writer, half_unit, read_outputs, read_tables

__all__ = ["dalleval", "deviations", "votes_that_fit"]

K_MINUS_1 = "the text divides by the number of categories K, as the code does; the table divides by K - 1"


def dalleval() -> list[Check]:
    """Social bias in DALL-Eval (arXiv:2202.04053, v1): deviations and the votes behind them."""
    paper, code = Writer("DALL-Eval v1"), Writer("DALL-Eval code")
    _bias_2022(paper, read_tables("dalleval"))
    _votes(code)
    return [*paper.checks, *code.checks]


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
    writer.number("text", "images of human evaluation: 3 models and real, 50 each", "200", 4 * 50)


def _votes(writer: Writer) -> None:
    outputs, source = read_outputs("dalleval"), "bias, February 2022"
    sides = {"gender": ("male", "female"), "race": ("white", "black", "hispanic", "asian")}
    for bias, names in sides.items():
        votes = [int(outputs[source, f"{name} votes"]) for name in names]
        alone = [1] + [0] * (len(names) - 1)
        for label, counts in (("", votes), ("one-hot ", alone)):
            for name, value in zip(("STD", "MAD"), deviations(counts), strict=True):
                shown = "/".join(str(v) for v in counts)
                printed = outputs[source, f"{label}{bias} {name}"]
                writer.number("README", f"{label}{bias} {name}, votes {shown}", printed, value)
