"""What measures are called on a page, and what they say, in a sentence each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

__all__ = ["Explained", "explained", "title", "unit_name"]


class Explained(NamedTuple):
    """A measure as a page explains it."""

    title: str
    meaning: str


MEASURES: Mapping[str, Explained] = {
    "precision": Explained("precision", "Share of pictures that lie within the manifold of real ones: realism."),
    "recall": Explained("recall", "Share of real pictures that lie within the manifold of generated ones."),
    "density": Explained(
        "density", "In how many neighbourhoods of real pictures one lies, divided by k; 1 for equal distributions."
    ),
    "coverage": Explained("coverage", "Share of real pictures with a generated one in their neighbourhood: diversity."),
    "expected_coverage": Explained(
        "expected coverage", "The coverage that equal distributions would get with sets of these sizes."
    ),
    "generated_per_real": Explained("generated per real", "Sizes of the two sets compared; coverage depends on it."),
    "consistency": Explained(
        "consistency",
        "The lowest tenth of the cosines of pictures with the name of their object, mean of objects.",
    ),
    "consistency_prompt": Explained(
        "consistency with prompt", "The same with the whole prompt in place of the object's name."
    ),
    "pictures_per_cell": Explained("pictures per cell", "Pictures drawn for each object in each region."),
    "duplicates_left_out": Explained("duplicates left out", "Pictures whose features equal those of another."),
    "fid": Explained("FID", "Distance between normal distributions fitted to the features of both sets."),
    "fid_infinity": Explained("FID, extrapolated", "The FID that any number of pictures would approach."),
    "kid": Explained("KID", "Distance of both sets' features by a polynomial kernel, without bias; may be below 0."),
    "inception_score": Explained("Inception score", "How sure a classifier is of each picture, and how they vary."),
    "clipscore_cosine": Explained("CLIPScore, cosine", "Cosine of a picture's vector with its prompt's."),
    "clipscore_x100": Explained("CLIPScore, ×100", "The cosine times 100."),
    "clipscore_hessel": Explained("CLIPScore, ×2.5", "2.5 times the cosine, negative ones 0 (Hessel et al. 2021)."),
    "r_precision": Explained("R-precision", "How often a picture is nearer to its own text than to others."),
    "bleu_1": Explained("BLEU-1", "Words of the caption that references have, too."),
    "bleu_2": Explained("BLEU-2", "The same for words and pairs of words."),
    "bleu_3": Explained("BLEU-3", "The same for up to three words in a row."),
    "bleu_4": Explained("BLEU-4", "The same for up to four words in a row."),
    "rouge_l": Explained("ROUGE-L", "Longest common sequence of words of caption and reference."),
    "cider": Explained("CIDEr", "Agreement in words, rare ones counting more; from 0 to 10, papers print it ×100."),
    "meteor": Explained("METEOR", "Agreement in words, their stems and synonyms."),
    "spice": Explained("SPICE", "Agreement in objects, attributes and relations."),
    "question_score": Explained("questions right", "Share of a picture's questions answered as expected, on average."),
    "question_score_alone": Explained("questions right, each alone", "The same without dependence between questions."),
    "question_accuracy": Explained("questions right, by kind", "Share of questions of a kind answered as expected."),
    "vqascore": Explained("VQAScore", "Probability of “yes” to: does this picture show the prompt?"),
}
MEASURES = {**MEASURES, "expected_coverage": MEASURES["expected_coverage"]}

# What is derived from the values of regions, by the end of the name.
DERIVED: Mapping[str, Explained] = {
    "_gap_by_chance": Explained("gap by chance", "The gap to be expected if all regions were alike."),
    "_gap_p_value": Explained("gap, p-value", "How likely a gap this large is if all regions are alike."),
    "_gap": Explained("gap", "Best minus worst region."),
    "_worst": Explained("worst region", "The region with the lowest value, which is named beside it."),
    "_ratio": Explained("worst to best", "Worst region divided by best."),
    "_mean": Explained("mean of regions", "Every region counts the same."),
}
CELLS = "object_region_"

UNITS: Mapping[str, str] = {"share": "%", "p": "", "x100": "100 × cosine", "hessel": "2.5 × cosine"}


def _parts(metric: str) -> tuple[Explained | None, Explained | None]:
    """The measure, and what of it is derived; None for what is not known."""
    if metric in MEASURES:
        return MEASURES[metric], None
    if metric.startswith(CELLS):
        of = MEASURES.get(metric.removeprefix(CELLS))
        return of, Explained("mean of objects", "Measured for each object by itself.") if of else None
    for end, derived in DERIVED.items():
        if metric.endswith(end) and metric.removesuffix(end) in MEASURES:
            return MEASURES[metric.removesuffix(end)], derived
    return None, None


def title(metric: str) -> str:
    """What a page calls a measure; the name itself, without underscores, if it is none of ours."""
    measure, derived = _parts(metric)
    if measure is None:
        return metric.replace("_", " ")
    return f"{measure.title}, {derived.title}" if derived else measure.title


def unit_name(unit: str) -> str:
    """A unit as a page writes it; empty for probabilities, which have none."""
    return UNITS.get(unit, unit)


def explained(metrics: Iterable[str]) -> list[Explained]:
    """What these measures mean, each once in the order given; measures that are not ours have no entry."""
    measures: dict[Explained, None] = {}
    derivations: dict[Explained, None] = {}
    for metric in metrics:
        measure, derived = _parts(metric)
        if measure is not None:
            measures[measure] = None
        if derived is not None:
            derivations[derived] = None
    return [*measures, *derivations]
