"""GEP: gender presentation differences (Zhang, Jiang, Turk and Yang 2023, arXiv:2302.03675).

The release of the paper prints every frequency with four digits. All are multiples of 1/80, so the counts behind
Tables 11 and 12 are known exactly, and with them every vector and score of the human side.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from verism.metrics.presentation import exact_score, gep_score, gep_vector
from verism.metrics.presentation.artificial import REPETITIONS, SCALES, candidate_differences
from verism.metrics.presentation.evaluation import (
    PAIR_TYPES,
    count_differences,
    sign_mcc,
    tau_by_pair_type,
)
from verism.published import Check, Known, Verdict, Writer, half_unit, read_published
from verism.statistics.association import kendall_tau, pearson_r

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from verism.metrics.presentation.evaluation import Ties

    Floats = NDArray[np.float64]
    Whole = NDArray[np.int64]

__all__ = ["Published", "gep", "possible_mccs", "possible_taus", "read_gep"]

MODELS = ("CogView2", "DALL-E 2", "Stable Diffusion")
SETTINGS = ("neutral", "explicit")
IMAGES = 80  # of each gender, in each setting
EXAMPLES = {"CogView2": 30, "DALL-E 2": 40, "Stable Diffusion": 40}  # artificial ones, of each attribute
KEYS = [(setting, model) for setting in SETTINGS for model in MODELS]

FLOAT_TIES = (
    "equal differences of counts, such as 1/80 from 1 - 0 and from 9 - 8, differ in the last bit as floating-point "
    "numbers, and the published value does not treat them as tied"
)
NEEDS_IMAGES = "needs the images and CLIP"
NEEDS_LABELS = "needs the label of each image; the paper gives counts"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A printed figure, with the digits of the paper."""

    table: str
    quantity: str
    method: str
    setting: str
    model: str
    printed: str
    released: str


@dataclass(frozen=True, kw_only=True)
class Published:
    """The tables.

    Attributes:
        attributes: the fifteen, in the order of all tables.
        women: images of 80 that show each attribute for prompts about women, shape (15,), by (setting, model).
        men: the same for prompts about men.
        frequencies: rows of frequencies.csv.
        rows: rows of results.csv.
        auc: rows of the file of AUCs.
        contexts: rows of the file of contexts.
        examples: rows of the file of examples.
        classifier_vector: GEP_CLS of Stable Diffusion in the neutral setting, as text, one entry per attribute.
    """

    attributes: tuple[str, ...]
    women: Mapping[tuple[str, str], Whole]
    men: Mapping[tuple[str, str], Whole]
    frequencies: Sequence[Mapping[str, str]]
    rows: Sequence[Row]
    auc: Sequence[Mapping[str, str]]
    contexts: Sequence[Mapping[str, str]]
    examples: Sequence[Mapping[str, str]]
    classifier_vector: tuple[str, ...]

    def of(self, table: str, quantity: str) -> Iterator[Row]:
        return (row for row in self.rows if row.table == table and row.quantity == quantity)

    def one(self, table: str, quantity: str, method: str = "", setting: str = "", model: str = "") -> Row:
        results = [r for r in self.of(table, quantity) if (r.method, r.setting, r.model) == (method, setting, model)]
        if len(results) != 1:
            raise ValueError(
                f"Table {table} must have {quantity} of {(method, setting, model)} once; got {len(results)}"
            )
        return results[0]

    def counts(self, key: tuple[str, str]) -> Whole:
        """Women minus men of 80, exact, shape (15,)."""
        return self.women[key] - self.men[key]

    def vector(self, key: tuple[str, str], *, exact: bool = False) -> Floats:
        """The GEP vector, shape (15,): frequencies subtracted as the paper does, or exactly.

        The two differ in the last bit, which decides on ties.
        """
        ties: Ties = "counts" if exact else "floats"
        return count_differences(self.women[key], self.men[key], IMAGES, IMAGES, ties=ties)

    def score(self, key: tuple[str, str]) -> float:
        """GEP_human, from exact counts."""
        return float(exact_score([Fraction(int(count), IMAGES) for count in self.counts(key)]))


def read_gep() -> Published:
    """The published tables, from ``data/published/gep``."""
    frequencies = read_published("gep", "frequencies")
    attributes = tuple(dict.fromkeys(row["attribute"] for row in frequencies))

    def side(name: str) -> dict[tuple[str, str], Whole]:
        return {
            key: np.array([int(r[name]) for r in frequencies if (r["setting"], r["model"]) == key], dtype=np.int64)
            for key in KEYS
        }

    return Published(
        attributes=attributes,
        women=side("women"),
        men=side("men"),
        frequencies=frequencies,
        rows=[Row(**row) for row in read_published("gep", "results")],
        auc=read_published("gep", "auc"),
        contexts=read_published("gep", "contexts"),
        examples=read_published("gep", "examples"),
        classifier_vector=tuple(row["value"] for row in read_published("gep", "classifier_vector")),
    )


def gep() -> list[Check]:
    """Vectors, scores and ranks of gender presentation differences (GEP, arXiv:2302.03675)."""
    published, writer = read_gep(), Writer("GEP")
    for table in (
        _table_3,
        _table_4,
        _tables_5_and_18,
        _table_6,
        _tables_7_and_16,
        _tables_8_and_9,
        _table_10,
        _tables_11_to_14,
        _table_15,
        _table_17,
        _table_19,
        _table_21,
        _tables_22_to_24,
        _text,
    ):
        table(writer, published)
    return writer.checks


def _name(row: Row) -> str:
    return " ".join(part for part in (row.quantity, row.method, row.setting, row.model) if part)


# ----------------------------------------------------------------------------------------------- scores and frequencies
def _table_3(writer: Writer, published: Published) -> None:
    for key in KEYS:
        row = published.one("3", "score", "human", *key)
        writer.number("Table 3", f"GEP_human {key[0]} {key[1]}", row.printed, published.score(key))
    for key in KEYS:
        row = published.one("3", "score", "human", *key)
        entries = [r["difference_printed"] for r in published.frequencies if (r["setting"], r["model"]) == key]
        value = gep_score([float(entry) for entry in entries])
        what = f"GEP_human {key[0]} {key[1]}, from the printed vector"
        writer.number("Table 3", what, row.printed, value, slack=half_unit(entries[0]))
    for row in published.of("3", "CLIPScore"):
        writer.number("Table 3", f"{_name(row)}, from four digits of the release", row.printed, float(row.released))
    writer.impossible("Table 3", "CLIPScore itself (6)", "", NEEDS_IMAGES)


def _tables_11_to_14(writer: Writer, published: Published) -> None:
    for row in published.frequencies:
        table = "Table 11" if row["setting"] == "neutral" else "Table 12"
        for side in ("women", "men"):
            what = f"frequency {row['setting']} {row['model']} {side} {row['attribute']}: {row[side]}/{IMAGES}"
            writer.number(table, what, row[f"{side}_printed"], int(row[side]) / IMAGES)
    for table in ("11", "12"):
        for average in published.of(table, "average frequency"):
            counts = published.women if average.method == "women" else published.men
            value = float(counts[average.setting, average.model].mean()) / IMAGES
            writer.number(f"Table {table}", _name(average), average.printed, value)
    for row in published.frequencies:
        table = "Table 13" if row["setting"] == "neutral" else "Table 14"
        women, men = int(row["women"]), int(row["men"])
        what = f"women - men {row['setting']} {row['model']} {row['attribute']}: {women - men}/{IMAGES}"
        value = gep_vector([women / IMAGES], [men / IMAGES])[0]
        writer.number(table, what, row["difference_printed"], float(value))


def _table_10(writer: Writer, published: Published) -> None:
    cells = 4 * 20  # attributes x images
    for row in published.of("10", "score"):
        what = f"lawyer against {row.setting} lawyer, GEP_{row.method}"
        if row.method == "human":
            share = round(float(row.printed) * cells)
            writer.number("Table 10", f"{what}: {share}/{cells}", row.printed, share / cells)
        else:
            writer.impossible("Table 10", what, row.printed, NEEDS_IMAGES)


def _table_15(writer: Writer, published: Published) -> None:
    cells = 5 * len(published.attributes)  # images of a context x attributes
    for row in published.contexts:
        key = (row["setting"], row["model"])
        printed = [value for name, value in row.items() if name.isdigit()]
        possible = sum(abs(round(float(v) * cells) / cells - float(v)) <= half_unit(v) + 1e-9 for v in printed)
        writer.number("Table 15", f"{' '.join(key)}: contexts that are multiples of 1/{cells}", "16", possible)
        mean = float(np.mean([float(v) for v in printed]))
        writer.holds(
            "Table 15",
            f"{' '.join(key)}: mean over contexts {mean:.3f} is at least the score {published.score(key):.3f}",
            mean + half_unit(printed[0]) >= published.score(key),
        )
    writer.impossible(
        "Table 15",
        "scores by context (96)",
        "",
        f"{NEEDS_LABELS}. The released routine groups the labels as if images came image by image, while they come "
        "prompt by prompt: if the table is from it, each column mixes five contexts",
    )


# ---------------------------------------------------------------------------------------------- correlation of vectors
def possible_taus(human: Floats) -> Floats:
    """Every value that Kendall's tau-b with a vector without ties can take.

    tau-b is S / sqrt(pairs x untied pairs), where S, agreeing minus contrary pairs, is a whole number with the parity
    of the number of untied pairs.

    Args:
        human: the other vector, shape (N,).
    """
    pairs = len(human) * (len(human) - 1) // 2
    untied = pairs - _ties(human)
    taus: Floats = np.arange(-untied, untied + 1, 2) / math.sqrt(pairs * untied)
    return taus


def _ties(vector: Floats | Whole) -> int:
    """Pairs of equal entries."""
    counts = np.unique(vector, return_counts=True)[1]
    return int((counts * (counts - 1) // 2).sum())


def possible_mccs(positive: int, n: int) -> Floats:
    """Every value that MCC can take where `positive` of `n` true entries are positive."""
    values = []
    negative = n - positive
    for tp in range(positive + 1):
        for fp in range(negative + 1):
            fn, tn = positive - tp, negative - fp
            below = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
            if below:
                values.append((tp * tn - fp * fn) / math.sqrt(below))
    return np.array(values, dtype=np.float64)


def _nearest(values: Floats, printed: str) -> float:
    return float(values[np.argmin(np.abs(values - float(printed)))])


def _table_4(writer: Writer, published: Published) -> None:
    n = len(published.attributes)
    for row in published.of("4", "tau"):
        human = published.vector((row.setting, row.model))
        nearest = _nearest(possible_taus(human), row.printed)
        writer.number("Table 4", f"{_name(row)}: nearest value that 15 entries allow", row.printed, nearest)
        if row.released:
            writer.number("Table 4", f"{_name(row)}: the same, all digits of the release", row.released, nearest)
    for row in published.of("4", "MCC"):
        positive = int(np.sum(published.counts((row.setting, row.model)) >= 0))
        nearest = _nearest(possible_mccs(positive, n), row.printed)
        writer.number("Table 4", f"{_name(row)}: nearest value that 15 signs allow", row.printed, nearest)
        if row.released:
            writer.number("Table 4", f"{_name(row)}: the same, all digits of the release", row.released, nearest)
    strict = 0
    for row in published.of("4", "MCC"):
        if row.setting == "neutral":
            positive = int(np.sum(published.counts((row.setting, row.model)) > 0))  # zeros are negative here
            gap = abs(_nearest(possible_mccs(positive, n), row.printed) - float(row.printed))
            strict += gap <= half_unit(row.printed) + 1e-9
    writer.number(
        "Table 4",
        "neutral MCCs (of 9) that are possible if a difference of 0 is negative",
        "9",
        strict,
        known=Known(value="4", verdict=Verdict.DEFINITION, why="the published values count exact zeros as positive"),
    )
    for model in MODELS:
        same = published.one("4", "tau", "C", "neutral", model).printed
        row = published.one("4", "tau", "CC", "neutral", model)
        writer.number(
            "Table 4",
            f"{_name(row)} is that of C",
            row.printed,
            float(same),
            slack=half_unit(same),
            why="in the neutral setting all attributes are judged on the same images, so CC is C minus one constant",
        )
    _from_released_vector(writer, published)
    for row in published.of("4", "tau"):
        key = (row.setting, row.model)
        if row.method == "CLS" and key != ("neutral", "Stable Diffusion"):
            low, high = _exact_tau_range(published.vector(key), published.counts(key), float(row.released))
            why = f"needs the vector of the release. {FLOAT_TIES[0].upper()}{FLOAT_TIES[1:]}"
            writer.impossible("Table 4", f"{_name(row)} on exact counts: {low:.4f} to {high:.4f}", row.printed, why)


def _exact_tau_range(floats: Floats, counts: Whole, tau: float) -> tuple[float, float]:
    """Where tau-b on exact counts can lie, given that on floats.

    Pairs that only rounding separates leave the sum S, each by at most one, and count as tied.
    """
    pairs = len(counts) * (len(counts) - 1) // 2
    untied, exactly = pairs - _ties(floats), pairs - _ties(counts)
    total = tau * math.sqrt(pairs * untied)
    noise = untied - exactly
    below = math.sqrt(pairs * exactly)
    return max((total - noise) / below, -1.0), min((total + noise) / below, 1.0)


def _from_released_vector(writer: Writer, published: Published) -> None:
    """Stable Diffusion, neutral: the only automatic vector that was released."""
    key = ("neutral", "Stable Diffusion")
    estimate = np.array([float(v) for v in published.classifier_vector])
    floats, counts = published.vector(key), published.vector(key, exact=True)
    tau, mcc = (published.one("4", name, "CLS", *key) for name in ("tau", "MCC"))
    where = "CLS neutral Stable Diffusion, from the released vector"
    writer.number("Table 4", f"tau {where}, differences as floats", tau.printed, kendall_tau(estimate, floats))
    writer.number("Table 4", f"tau {where}, as floats, all digits", tau.released, kendall_tau(estimate, floats))
    writer.number(
        "Table 4",
        f"tau {where}, exact counts",
        tau.printed,
        kendall_tau(estimate, counts),
        known=Known(value="0.64409405", verdict=Verdict.DEFINITION, why=FLOAT_TIES),
    )
    printed = [float(r["difference_printed"]) for r in published.frequencies if (r["setting"], r["model"]) == key]
    writer.number(
        "Table 4",
        f"tau {where}, with the two printed digits of Table 13",
        tau.printed,
        kendall_tau(estimate, np.array(printed)),
        known=Known(value="0.631", verdict=Verdict.ROUNDING, why="rounding to two digits makes ties"),
    )
    writer.number("Table 4", f"MCC {where}", mcc.printed, sign_mcc(estimate, counts, zeros="positive").mcc)
    writer.number("Table 4", f"MCC {where}, all digits", mcc.released, sign_mcc(estimate, counts, zeros="positive").mcc)


def _tables_5_and_18(writer: Writer, published: Published) -> None:
    for table in ("5", "18"):
        for quantity in ("tau", "MCC"):
            for row in published.of(table, quantity):
                if row.released:
                    what = f"{_name(row)}, from all digits of the release"
                    writer.number(f"Table {table}", what, row.printed, float(row.released))
                else:
                    writer.impossible(f"Table {table}", _name(row), row.printed, NEEDS_IMAGES)
    for method in ("C", "CC", "CLS"):
        parts = {row.setting: float(row.released) for row in published.of("21", "tau") if row.method == method}
        numbers = {row.setting: int(row.printed) for row in published.of("21", "pairs")}
        mean = sum(parts[kind] * n for kind, n in numbers.items()) / sum(numbers.values())
        row = published.one("18", "tau", method, "artificial", "all")
        why = "tau-b of all pairs is this mean but for the unequal shares of ties"
        writer.number("Table 18", f"{_name(row)}, as mean of Table 21 over pairs", row.printed, mean, why=why)


def _table_19(writer: Writer, published: Published) -> None:
    for row in published.of("19", "Pearson"):
        if row.released:
            writer.number("Table 19", f"{_name(row)}, from all digits of the release", row.printed, float(row.released))
    for model in MODELS:
        same = published.one("19", "Pearson", "C", "neutral", model).printed
        row = published.one("19", "Pearson", "CC", "neutral", model)
        writer.number("Table 19", f"{_name(row)} is that of C", row.printed, float(same), slack=half_unit(same))
    key = ("neutral", "Stable Diffusion")
    row = published.one("19", "Pearson", "CLS", *key)
    estimate = np.array([float(v) for v in published.classifier_vector])
    value = pearson_r(estimate, published.vector(key))
    writer.number("Table 19", f"{_name(row)}, from the released vector", row.printed, value)
    writer.impossible("Table 19", "Pearson of 17 more real vectors and two artificial ones", "", NEEDS_IMAGES)


# ------------------------------------------------------------------------------------------------- order of the models
def _table_6(writer: Writer, published: Published) -> None:
    human = np.array([published.score(key) for key in KEYS])
    for method in ("C", "CC", "CLS", "human"):
        rows = [published.one("6", "score", method, *key) for key in KEYS]
        ranks = " ".join(published.one("6", "rank", method, *key).printed for key in KEYS)
        scores = human if method == "human" else np.array([float(row.printed) for row in rows])
        places = np.argsort(np.argsort(scores)) + 1
        writer.words("Table 6", f"ranks {method}, neutral then explicit", ranks, " ".join(str(p) for p in places))
    for key in KEYS:
        row = published.one("6", "score", "human", *key)
        writer.number("Table 6", _name(row), row.printed, published.score(key))
    for key in KEYS:
        row = published.one("6", "score", "CLS", *key)
        cut = Known(value="9.257e-2", verdict=Verdict.ROUNDING, why=f"{row.released[:8]} is cut off, not rounded")
        what = f"{_name(row)}, from all digits of the release"
        known = cut if key == ("explicit", "CogView2") else None
        writer.number("Table 6", what, row.printed, float(row.released), known=known)
    vector = published.classifier_vector
    row = published.one("6", "score", "CLS", "neutral", "Stable Diffusion")
    writer.number(
        "Table 6",
        f"{_name(row)}, from the released vector",
        row.printed,
        gep_score([float(v) for v in vector]),
        slack=float(np.mean([half_unit(v) for v in vector])),
    )
    for method in ("C", "CC", "CLS"):
        scores = np.array([float(published.one("6", "score", method, *key).printed) for key in KEYS])
        row = published.one("6", "tau of scores", method)
        cut = Known(value="0.466667", verdict=Verdict.ROUNDING, why="7/15 = 0.4667 is cut off, not rounded")
        value = kendall_tau(scores, human)
        what = f"tau of the scores {method} and human: {round(value * 15)}/15"
        writer.number("Table 6", what, row.printed, value, known=cut if method == "C" else None)
    writer.impossible("Table 6", "scores C and CC (12)", "", NEEDS_IMAGES)


# ----------------------------------------------------------------------------------------------- classifiers of images
def _tables_7_and_16(writer: Writer, published: Published) -> None:
    for row in published.auc:
        name = f"{row['method']} {row['model']}"
        printed = [row[attribute] for attribute in published.attributes]
        mean = float(np.mean([float(v) for v in printed]))
        slack = float(np.mean([half_unit(v) for v in printed]))
        writer.number("Table 16", f"average AUC {name}", row["average"], mean, slack=slack)
        mean_row = published.one("7", "mean AUC", row["method"], "", row["model"])
        writer.number("Table 7", f"mean AUC {name}, from Table 16", mean_row.printed, mean, slack=slack)
    writer.impossible(
        "Table 16",
        "AUC of each attribute (135)",
        "",
        f"{NEEDS_IMAGES}. The released cell for CLS pools two seeds of one gender, not both genders of the ensemble",
    )


def _tables_8_and_9(writer: Writer, published: Published) -> None:
    for table, label, method in (("8", "an object", "CC"), ("8", "no calibration", "C"), ("9", "default", "CLS")):
        for model in MODELS:
            for quantity in ("tau", "MCC"):
                row = published.one(table, quantity, label, "artificial", model)
                base = published.one("5", quantity, method, "artificial", model)
                what = f"{quantity} of '{label}' {model} is that of {method} in Table 5"
                writer.number(f"Table {table}", what, row.printed, float(base.printed))
    writer.impossible("Table 8", "tau and MCC of the other reference strings", "", NEEDS_IMAGES)
    writer.impossible("Table 9", "tau and MCC of the ablations", "", NEEDS_IMAGES)


def _tables_22_to_24(writer: Writer, published: Published) -> None:
    for number, side in (("22", "neutral suit"), ("23", "neutral dress"), ("24", "explicit tie")):
        fits = 0
        for row in published.examples:
            if row["table"] == number:
                counts = published.women if row["gender"] == "woman" else published.men
                at = published.attributes.index(row["attribute"])
                seen = sum(int(v) for v in row["seen"].split())
                count = int(counts[row["setting"], row["model"]][at])
                fits += seen <= count and 4 - seen <= IMAGES - count
        what = f"{side}: rows of four images that fit in the counts of Tables 11 and 12"
        writer.number(f"Table {number}", what, "6", fits)
        writer.impossible(f"Table {number}", "probabilities (24)", "", NEEDS_IMAGES)


# ------------------------------------------------------------------------------------------------------ artificial sets
def _table_17(writer: Writer, published: Published) -> None:
    steps = {scale: dict(zip(range(-9, 10), candidate_differences(scale), strict=True)) for scale in SCALES}
    writer.number(
        "Table 17",
        "scale 0.25, step 8: 8 x 0.25 / 10",
        "0.1",
        float(steps[0.25][8]),
        known=Known(value="0.20", why="0.1 stands in the list where 0.2 belongs"),
    )
    writer.number("Table 17", "scale 0.125, step 9: 9 x 0.125 / 10", "0.112", float(steps[0.125][9]))
    n = len(published.attributes)
    scales = {"CogView2": len(SCALES) - 1, "DALL-E 2": len(SCALES), "Stable Diffusion": len(SCALES)}
    for model, printed in (("CogView2", "450"), ("DALL-E 2", "600"), ("Stable Diffusion", "600")):
        what = f"examples {model}: {scales[model]} scales x {REPETITIONS} repetitions x {n} attributes"
        writer.number("Table 17", what, printed, scales[model] * REPETITIONS * n)
    writer.number("Table 17", "examples of all models", "1650", sum(scales.values()) * REPETITIONS * n)


def _table_21(writer: Writer, published: Published) -> None:
    # The 1,650 examples, by attribute and model: what their differences are does not matter to the number of pairs.
    examples = [(a, m) for a in published.attributes for m, size in EXAMPLES.items() for _ in range(size)]
    order = np.arange(len(examples))
    result = tau_by_pair_type(order, order, attributes=[a for a, _ in examples], models=[m for _, m in examples])
    for row in published.of("21", "pairs"):
        pairs = result[row.setting.replace(" ", "_")].pairs
        writer.number("Table 21", f"pairs, {row.setting}", row.printed, pairs)
    n, total = len(examples), sum(int(row.printed) for row in published.of("21", "pairs"))
    writer.number("Table 21", f"pairs in all: {n} x {n - 1} / 2", str(total), sum(result[t].pairs for t in PAIR_TYPES))
    for row in published.of("21", "tau"):
        what = f"tau {row.method}, {row.setting}, from all digits of the release"
        writer.number("Table 21", what, row.printed, float(row.released))


# ---------------------------------------------------------------------------------------------------------------- text
def _text(writer: Writer, published: Published) -> None:
    n, contexts = len(published.attributes), 16
    writer.number("text", "neutral prompts: 2 genders x 16 contexts", "32", 2 * contexts)
    writer.number("text", "explicit prompts: 2 genders x 15 attributes x 16 contexts", "480", 2 * n * contexts)
    writer.number("text", "images of a model, neutral: 5 each", "160", 2 * contexts * 5)
    writer.number("text", "images of a model, explicit: 5 each", "2400", 2 * n * contexts * 5)
    frequency = {key: float(published.women[key].mean() + published.men[key].mean()) / 2 / IMAGES for key in KEYS}
    writer.number("text", "average frequency, neutral CogView2, %", "6", 100 * frequency["neutral", "CogView2"])
    least = min(frequency["neutral", model] for model in MODELS[1:])
    writer.number("text", "average frequency, neutral, the others, % (at least)", "9", 100 * least)
    sides = (published.women, published.men)
    least = min(float(side["explicit", "DALL-E 2"].mean()) / IMAGES for side in sides)
    writer.number("text", "average frequency, explicit DALL-E 2, either gender, % (at least)", "88", 100 * least)
    for model, printed in zip(MODELS, ("15", "9", "11"), strict=True):
        exact = abs(published.counts(("explicit", model))) > abs(published.counts(("neutral", model)))
        floats = abs(published.vector(("explicit", model))) > abs(published.vector(("neutral", model)))
        noise = Known(
            value="14",
            verdict=Verdict.ROUNDING,
            why="shirt differs by 2/80 in both settings; as floating-point numbers the two differ in the last bit",
        )
        what = f"attributes with a larger difference if named, {model}"
        known = noise if model == "CogView2" else None
        writer.number("text", f"{what}, exact counts", printed, int(exact.sum()), known=known)
        if known is not None:
            writer.number("text", f"{what}, floats", printed, int(floats.sum()))
    ratio = {row.model: row.printed for row in published.of("text", "ratio analysis")}
    above, below = (
        ratio["CC jeans: mean women-minus-men gap among images with jeans"],
        ratio["CC jeans: mean gap between images with and without jeans"],
    )
    most = (float(above) + half_unit(above)) / (float(below) - half_unit(below))
    writer.number(
        "text",
        f"ratio of jeans, CC: {above} / {below}",
        ratio["CC ratio jeans"],
        float(above) / float(below),
        known=Known(value="0.325", why=f"not even the unrounded extremes reach it: at most {most:.4f}"),
    )
    writer.impossible("text", "the other ratios (6)", "", NEEDS_IMAGES)
    writer.number(
        "text",
        "attributes, in the sentence on computing time",
        "16",
        n,
        known=Known(value="15", why="there are 16 contexts and 15 attributes"),
    )
    writer.number(
        "text", "training sentences: 16 contexts x 3 people x (15 attributes and none)", "768", 16 * 3 * (n + 1)
    )
    writer.words(
        "text",
        "learning rate of the classifiers",
        "1e-3",
        "optimal",
        known=Known(
            value="optimal",
            why="the release gives 1e-3 as tolerance and leaves the rate to scikit-learn's schedule 'optimal'; a "
            "constant 1e-3 would leave every probability within 0.002 of 0.5",
        ),
    )
    writer.words(
        "text",
        "artificial sets: the 15 differences of a repetition are",
        "independent",
        "distinct",
        known=Known(
            value="distinct",
            verdict=Verdict.DEFINITION,
            why="the release shuffles the 19 candidates until the first 15 fit, so none comes twice",
        ),
    )
    writer.words(
        "text",
        "Appendix C: where the scales are",
        "Table 18",
        "Table 17",
        known=Known(value="Table 17", why="Table 18 has the results on all scales and models together"),
    )
    writer.words(
        "text",
        "Section D.3: where the types of pairs are",
        "Table 21",
        "Table 20",
        known=Known(value="Table 20", why="Table 21 has the results by type"),
    )
    writer.words(
        "text",
        "prompt of Figure 4",
        "in a tie",
        "with a tie",
        known=Known(value="with a tie", why="the prompts of the release say 'with a tie'"),
    )
    writer.impossible("text", "Krippendorff's alpha of the annotators", "0.81", "needs the answers of each annotator")
