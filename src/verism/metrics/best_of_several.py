"""What the best-scored of several images of a prompt is worth, over all ways to draw them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["expected_pick"]


def expected_pick(scores: ArrayLike, ratings: ArrayLike, k: int) -> float:
    """The mean rating of the best-scored of k images of a prompt, over all ways to draw k of those there are.

    Images with equal scores are as likely to be picked as each other. With the ratings for scores this is the expected
    maximum (an oracle's pick), and with equal scores the mean rating.

    Args:
        scores: of the images, shape (N,), finite.
        ratings: of the same images, shape (N,), finite.
        k: images to pick from, 1 to N.

    Raises:
        ValueError: k out of range, unequal lengths, NaN or infinity.

    >>> expected_pick([0.2, 0.9, 0.5], [1, 5, 3], 2)  # of the three pairs 5 is picked twice and 3 once
    4.333333333333333
    """
    score, rating = np.asarray(scores, dtype=np.float64), np.asarray(ratings, dtype=np.float64)
    if score.ndim != 1 or score.shape != rating.shape or not np.isfinite([score, rating]).all():
        raise ValueError(f"scores and ratings are finite and of one length; got shapes {score.shape}, {rating.shape}")
    n = len(score)
    if not 1 <= k <= n:
        raise ValueError(f"k must be between 1 and the number of images, {n}; got {k}")
    total, below = 0.0, 0
    for value in np.unique(score):  # ascending
        tied = score == value
        up_to = below + int(tied.sum())
        chance = (math.comb(up_to, k) - math.comb(below, k)) / math.comb(n, k)
        total += chance * float(rating[tied].mean())
        below = up_to
    return total
