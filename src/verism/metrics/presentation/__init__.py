"""Gender presentation differences: vectors and scores, estimators of attributes, and how good these are.

Numbers and intervals; estimators over embeddings; judging estimators: in this order the modules ``gep``, ``estimators``
and ``evaluation``.
"""

from verism.metrics.presentation.estimators import (
    ClothesClassifiers,
    calibrated_estimates,
    cosine_estimates,
    fit_released,
    fit_revised,
)
from verism.metrics.presentation.gep import (
    ContextScores,
    ExactPair,
    Frequencies,
    PairPresentation,
    Presentation,
    ScoreEstimate,
    context_scores,
    exact_frequencies,
    exact_pairs,
    exact_score,
    exact_vector,
    frequencies,
    gep_score,
    gep_vector,
    largest_gap,
    prompt_major,
    vector_with_intervals,
)

__all__ = [
    "ClothesClassifiers",
    "ContextScores",
    "ExactPair",
    "Frequencies",
    "PairPresentation",
    "Presentation",
    "ScoreEstimate",
    "calibrated_estimates",
    "context_scores",
    "cosine_estimates",
    "exact_frequencies",
    "exact_pairs",
    "exact_score",
    "exact_vector",
    "fit_released",
    "fit_revised",
    "frequencies",
    "gep_score",
    "gep_vector",
    "largest_gap",
    "prompt_major",
    "vector_with_intervals",
]
