"""How far scores of images agree with people's ratings of them, as studies of question benchmarks report it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from verism.errors import UsageError
from verism.statistics.association import kendall_tau_b, pearson, spearman
from verism.statistics.pairwise import PairwiseAccuracy, pairwise_accuracy

__all__ = ["AgreementWithPeople", "agreement_with_people"]

RESAMPLES = 500


class AgreementWithPeople(NamedTuple):
    """Coefficients of scores and mean ratings, and their intervals by prompt.

    Attributes:
        pearson: Pearson's correlation, and the ends of its interval.
        spearman: Spearman's rank correlation, and its ends.
        kendall: Kendall's tau-b, and its ends.
        pairwise: accuracy over all pairs of images, with the threshold of ties that is best on them.
        n_images: images with a score and a rating.
        n_unusable: images with only one of them.
    """

    pearson: tuple[float, float, float]
    spearman: tuple[float, float, float]
    kendall: tuple[float, float, float]
    pairwise: PairwiseAccuracy
    n_images: int
    n_unusable: int


def agreement_with_people(
    scores: Mapping[tuple[str, str], float | None], ratings: Mapping[tuple[str, str], Sequence[float]]
) -> AgreementWithPeople:
    """Agreement of scores with the mean ratings of the same images.

    Args:
        scores: by model and prompt; None where there is none.
        ratings: by model and prompt, the ratings of an image.

    Raises:
        UsageError: no image has both.
    """
    keys: list[tuple[str, str]] = [key for key, value in scores.items() if value is not None and ratings.get(key)]
    if not keys:
        some, other = _example(scores), _example(ratings)
        raise UsageError(f"no image has a score and a rating; scores are of images such as {some}, ratings of {other}")
    judged = np.array([scores[key] for key in keys], dtype=np.float64)
    rated = np.array([np.mean(ratings[key]) for key in keys], dtype=np.float64)
    clusters = np.array([prompt for _, prompt in keys])
    options = {"clusters": clusters, "n_resamples": RESAMPLES}
    return AgreementWithPeople(
        pearson=pearson(judged, rated, **options)[:3],
        spearman=spearman(judged, rated, **options)[:3],
        kendall=kendall_tau_b(judged, rated, **options)[:3],
        pairwise=pairwise_accuracy(judged, rated, clusters=clusters),
        n_images=len(keys),
        n_unusable=len(set(scores) | set(ratings)) - len(keys),
    )


def _example(table: Mapping[tuple[str, str], object]) -> Hashable:
    return next(iter(table), "none")
