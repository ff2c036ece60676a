"""Random splits of a set into halves: whole clusters, and half of each stratum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verism.metrics.manifold._neighbours import rows_by_group
from verism.metrics.manifold._tiles import Bools, Indices, Labels


class Splits(NamedTuple):
    """How a set of N points is split into two halves, several times.

    Attributes:
        second: whether a point lies in the second half of a split, shape (N, n_splits).
        cluster_size: points in the cluster that the average point lies in, >= 1.
        freedom: degrees of freedom of a spread between clusters; infinite where every point is its own cluster.
    """

    second: Bools
    cluster_size: float
    freedom: float

    @property
    def smallest(self) -> int:
        """Points of the smallest half."""
        second = self.second.sum(axis=0)
        return int(min(second.min(), len(self.second) - second.max()))


def random_splits(
    n: int,
    count: int,
    seed: Sequence[int],
    *,
    strata: Labels | None = None,
    clusters: ArrayLike | None = None,
    name: str,
) -> Splits:
    """Splits of n points into halves. They depend on which points share a label, not on the labels.

    Clusters are paired within their stratum, those of similar size with each other, and one of each pair goes to each
    half: so halves are of similar size.

    Args:
        n: number of points.
        count: number of splits.
        seed: of the random numbers.
        strata: label of each point, shape (n,); each half gets half of every stratum. None: a single stratum.
        clusters: label of each point, shape (n,); points of one cluster stay together. A cluster that is alone in one
            of the given strata is held by any repetition as the stratum is, so its points are split. None: each point
            is its own cluster.
        name: of the set, for messages.
    Raises:
        ValueError: not one label per point, a missing label, or a cluster with points in several strata.
    """
    stratum = _codes(strata, n, f"{name} strata")
    unit = np.arange(n)
    if clusters is not None:
        cluster = _codes(cluster_labels(clusters, n, name), n, f"{name} cluster")
        unit = _units(cluster, stratum, lone=strata is not None, name=name)
    sizes = np.bincount(unit, minlength=0)
    first_row = np.unique(unit, return_index=True)[1]
    stratum_of_unit = stratum[first_row]
    alike = not n or sizes.min() == sizes.max()
    rng = np.random.default_rng(seed)
    second_units = np.zeros((len(sizes), count), np.bool_)
    for split in range(count):
        order = rng.permutation(len(sizes))
        # Shuffled within strata, one stratum after another; within a stratum the largest first.
        order = order[np.lexsort((-sizes[order], stratum_of_unit[order]))]
        if not alike:  # the first of a pair is the larger one
            pairs = order[: len(order) // 2 * 2].reshape(-1, 2)
            swapped = rng.random(len(pairs)) < 0.5
            pairs[swapped] = pairs[swapped, ::-1]
        second_units[order[1::2], split] = True
    clustered = len(sizes) < n
    strata_present = len(np.unique(stratum_of_unit))
    return Splits(
        second=second_units[unit],
        cluster_size=float(np.sum(sizes.astype(np.float64) ** 2)) / n if clustered else 1.0,
        freedom=float(max(1, len(sizes) - strata_present)) if clustered else math.inf,
    )


def cluster_labels(clusters: ArrayLike, n: int, name: str) -> NDArray[Any]:
    """The labels as an array, shape (n,). Raises ValueError if they are not one for each point."""
    labels = np.asarray(clusters)
    if labels.shape != (n,):
        raise ValueError(f"{name} clusters must give one label for each of the {n} rows; got shape {labels.shape}")
    return labels


def _codes(labels: Labels | None, n: int, name: str) -> Indices:
    """Number of each point's label, in the order in which labels first appear; all 0 without labels."""
    codes = np.zeros(n, np.intp)
    if labels is not None:
        for code, rows in enumerate(rows_by_group(labels, n, name).values()):
            codes[rows] = code
    return codes


def _units(cluster: Indices, stratum: Indices, *, lone: bool, name: str) -> Indices:
    """What is kept together: number of each point's cluster, or of the point where its cluster is alone (``lone``)."""
    pairs = np.unique(np.stack((cluster, stratum)), axis=1)
    if pairs.shape[1] > len(np.unique(cluster)):
        raise ValueError(f"{name} clusters must lie in one stratum each; some have points in several")
    split = np.zeros(len(cluster), np.bool_)
    if lone:
        split = (np.bincount(pairs[1]) == 1)[stratum]
    parts = np.where(split, np.arange(len(cluster)) + len(cluster), cluster)
    first, codes = np.unique(parts, return_index=True, return_inverse=True)[1:]
    # Numbered by their first point, so that splits of single points do not depend on how they were labelled.
    return np.argsort(np.argsort(first))[codes]
