"""Arithmetic of skill accuracy: how often images are right, what luck would give, and how counts are confused."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["accuracy", "count_confusion", "expected_shuffled_accuracy"]


def accuracy(right: ArrayLike) -> float:
    """Share of images that are right.

    Args:
        right: 1 (right) or 0 (wrong) per image, shape (N,). Null verdicts are removed and counted by the caller.
    Returns:
        In [0, 1], higher is better; NaN without images.
    Raises:
        ValueError: values other than 0 and 1 (NaN included), or not one-dimensional.
    """
    values = np.asarray(right, dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(f"accuracy needs one value per image; got shape {values.shape}")
    wrong = values[(values != 0.0) & (values != 1.0)]
    if len(wrong):
        raise ValueError(f"accuracy needs values 0 or 1; got {wrong[0]:g}. Remove null verdicts first and count them")
    return float(values.mean()) if len(values) else math.nan


def expected_shuffled_accuracy(keys: Sequence[Hashable]) -> float:
    """Accuracy a perfect judge would report if images were assigned to prompts at random: the chance level of a suite.

    Every prompt gets the true image of a prompt drawn uniformly, with replacement, from the same N. It is right when
    both share the key, which happens with probability ``sum over keys (n_k / N)**2``.

    Keys are canonical: prompts that the same images satisfy have equal keys. For two objects in relation, "a dog left
    of a cat" and "a cat right of a dog" are one key; likewise "a dog left of a dog" and "a dog right of a dog", whether
    the rule for equal classes looks at the axis only or swaps the two objects. With 15 classes, all 15 * 15 ordered
    pairs and 4 relations the 900 prompts have 450 keys of 2 prompts each: 450 * (2/900)**2 = 2/900. Without the pairs
    of equal classes it is 420 * (2/840)**2 = 2/840.

    Args:
        keys: what an image must show to satisfy each prompt, one per prompt.
    Returns:
        In [1/N, 1]; NaN without prompts.
    Source: Cho et al. 2023, arXiv:2202.04053, Table 2, "GT shuffled (random)", there one unseeded draw: object 6.3,
        count 1.7, spatial 0.3 %. Here the exact expectation: 15 classes evenly give 1/15, with 4 counts each 1/60.

    >>> expected_shuffled_accuracy(["dog", "dog", "cat", "bird"])
    0.375
    """
    if not keys:
        return math.nan
    return sum(n**2 for n in Counter(keys).values()) / len(keys) ** 2


def count_confusion(expected: ArrayLike, predicted: ArrayLike, *, max_count: int) -> NDArray[np.int64]:
    """How many objects were found where how many were asked for.

    Args:
        expected: number asked for per image, in 1 .. max_count, shape (N,), whole numbers.
        predicted: number found per image, >= 0, shape (N,), whole numbers.
        max_count: largest number asked for, >= 1.
    Returns:
        Images, shape (max_count, max_count + 2): row ``i`` holds those asked for ``i + 1`` objects, column ``j``
        those with ``j`` found, the last column those with more than ``max_count``. Rows of numbers nobody asked for
        are 0.
    Raises:
        ValueError: a number out of range or not whole, or arrays of unequal length.

    >>> count_confusion([1, 2, 2], [1, 0, 7], max_count=2)
    array([[0, 1, 0, 0],
           [1, 0, 0, 1]])
    """
    if max_count < 1:
        raise ValueError(f"max_count must be at least 1; got {max_count}")
    asked, seen = _whole_numbers(expected, "expected"), _whole_numbers(predicted, "predicted")
    if asked.shape != seen.shape:
        raise ValueError(f"expected and predicted must hold the same images; got {len(asked)} and {len(seen)}")
    if len(asked) and not 1 <= asked.min() <= asked.max() <= max_count:
        raise ValueError(f"expected must lie in 1 .. max_count={max_count}; got {asked.min()} to {asked.max()}")
    if len(seen) and seen.min() < 0:
        raise ValueError(f"predicted must be >= 0; got {seen.min()}")
    table = np.zeros((max_count, max_count + 2), dtype=np.int64)
    np.add.at(table, (asked - 1, np.minimum(seen, max_count + 1)), 1)
    return table


def _whole_numbers(values: ArrayLike, name: str) -> NDArray[np.int64]:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional; got shape {array.shape}")
    wrong = array[~(np.isfinite(array) & (array == np.rint(array)))]
    if len(wrong):
        raise ValueError(f"{name} must hold whole numbers; got {wrong[0]:g}. Remove null answers first and count them")
    return array.astype(np.int64)
