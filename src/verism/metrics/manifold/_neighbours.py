"""The nearest neighbours of every point of a set, and the radii of their balls."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from verism.metrics.manifold._tiles import (
    SELF_TILE,
    Block,
    Bools,
    Floats,
    Frame,
    Indices,
    Labels,
    Points,
    Singles,
    at_most,
    block,
    check_points,
    distances,
    error,
    pick,
    product,
    spans,
)

CROWD = 16  # candidates a neighbour, beyond which those of a point are measured exactly and thinned out


class Neighbours(NamedTuple):
    """Nearest other points of every point, nearest first; those that tie may come in either order.

    Attributes:
        distances: float64, shape (N, k).
        indices: rows of the set, shape (N, k).
    """

    distances: Floats
    indices: Indices


class Shortlist:
    """For each point of a block, the few points of another set that may be among its k nearest.

    Values are ``-d^2 / 2`` in the frame, so the nearest have the largest. A candidate stays while the upper bound of
    its value reaches the k-th largest lower bound. Where many candidates tie within the error, they are measured
    exactly and all but k go, so that memory stays proportional to the number of points.
    """

    def __init__(self, x: Points, y: Points, owners: Block, k: int, scale: float) -> None:
        """The owners are a block of x, their candidates rows of y; both sets are seen in one frame of that scale."""
        self.x, self.y, self.owners, self.k, self.scale = x, y, owners.without_points(), k, scale
        n = len(owners.norms)
        self.floor = np.full(n, -np.inf)  # a candidate below it cannot be among the k nearest
        self.closed = np.zeros(n, np.bool_)  # points with k others at distance 0, which nothing can replace
        self.rows = np.zeros(0, np.intp)  # within the block
        self.columns = np.zeros(0, np.intp)  # within the other set
        self.low, self.high = np.zeros(0), np.zeros(0)

    def thresholds(self, largest_norm: float) -> Singles:
        """Below its point's threshold a value of a tile need not be looked at; shape (n,)."""
        needed = self.floor - error(self.owners.norms, largest_norm, self.x.shape[1])
        return at_most(np.where(self.closed, np.inf, needed))

    def start(self, tile: Singles, largest_norm: float) -> None:
        """Take a first floor from a tile with the block's points in rows, before any of it is offered."""
        if tile.shape[1] < self.k:
            return
        kth = tile.max(axis=1) if self.k == 1 else np.empty(len(tile), np.float32)
        if self.k > 1:
            for begin in range(0, len(tile), 128):  # partition copies
                kth[begin : begin + 128] = np.partition(tile[begin : begin + 128], -self.k, axis=1)[:, -self.k]
        self.floor = np.maximum(self.floor, kth - error(self.owners.norms, largest_norm, self.x.shape[1]))

    def offer(self, rows: Indices, columns: Indices, values: Singles, others: Block) -> None:
        """Candidates: rows within this block, columns within the block ``others`` of the other set."""
        if not len(rows):
            return
        bound = error(self.owners.norms[rows], others.norms[columns], self.x.shape[1])
        high = values + bound
        keep = (high >= self.floor[rows]) & ~self.closed[rows]
        if not keep.any():
            return
        self.rows = np.concatenate((self.rows, rows[keep]))
        self.columns = np.concatenate((self.columns, columns[keep] + others.start))
        self.low = np.concatenate((self.low, (values - bound)[keep]))
        self.high = np.concatenate((self.high, high[keep]))
        self._drop(self._rank(-self.low))
        counts = np.bincount(self.rows, minlength=len(self.floor))
        if (crowded := counts > CROWD * self.k).any():
            self._measure(crowded)

    def _rank(self, *keys: Floats) -> Indices:
        """Put candidates in order of their point, then of the keys, and number them 0, 1, .. within the point."""
        order = np.lexsort((*reversed(keys), self.rows))
        self.rows, self.columns = self.rows[order], self.columns[order]
        self.low, self.high = self.low[order], self.high[order]
        first = np.searchsorted(self.rows, self.rows, side="left")
        return np.arange(len(self.rows)) - first

    def _drop(self, rank: Indices) -> None:
        at = rank == self.k - 1
        self.floor[self.rows[at]] = np.maximum(self.floor[self.rows[at]], self.low[at])
        self._keep(self.high >= self.floor[self.rows])

    def _keep(self, keep: Bools) -> None:
        self.rows, self.columns = self.rows[keep], self.columns[keep]
        self.low, self.high = self.low[keep], self.high[keep]

    def _measure(self, chosen: Bools) -> None:
        """Replace the bounds of the chosen points' candidates by exact values, and keep only the k nearest of them."""
        exact = np.full(len(self.rows), np.nan)
        todo = chosen[self.rows]
        exact[todo] = distances(self.x, self.y, self.rows[todo] + self.owners.start, self.columns[todo])
        values = -((exact[todo] * self.scale) ** 2) / 2
        self.low[todo] = self.high[todo] = values
        first = np.where(todo, exact, -self.low)
        rank = self._rank(first, self.columns.astype(np.float64))
        todo = chosen[self.rows]
        at = todo & (rank == self.k - 1)
        self.floor[self.rows[at]] = self.low[at]
        self.closed[self.rows[at]] = self.low[at] == 0
        self._keep(~todo | (rank < self.k))

    def nearest(self) -> Neighbours:
        """The k nearest of every point, exactly, those at equal distance in the order of their numbers."""
        exact = distances(self.x, self.y, self.rows + self.owners.start, self.columns)
        order = np.lexsort((self.columns, exact, self.rows))
        starts = np.searchsorted(self.rows[order], np.arange(len(self.floor)))
        chosen = order[starts[:, None] + np.arange(self.k)]
        return Neighbours(exact[chosen], self.columns[chosen])

    def radii(self) -> Floats:
        """Distance to the k-th nearest of every point, exactly; measures only what decides it."""
        n = len(self.floor)
        rank = self._rank(-self.high)
        kth_high = np.empty(n)
        kth_high[self.rows[rank == self.k - 1]] = self.high[rank == self.k - 1]
        nearer = self.low > kth_high[self.rows]  # nearer than the k-th beyond doubt: need not be measured
        columns = self.k - 1 - np.bincount(self.rows[nearer], minlength=n)
        self._keep(~nearer)
        exact = distances(self.x, self.y, self.rows + self.owners.start, self.columns)
        order = np.lexsort((exact, self.rows))
        starts = np.searchsorted(self.rows[order], np.arange(n))
        chosen: Floats = exact[order[starts + columns]]
        return chosen


def _shortlists(points: Points, k: int) -> list[Shortlist]:
    """A shortlist for each block of a set, complete. Each pair of different blocks is multiplied once."""
    frame = Frame.of(points)
    ends = list(spans(len(points), SELF_TILE))
    buffer = np.empty(max(b - a for a, b in ends) ** 2, np.float32)
    lists: list[Shortlist] = []
    # Every block against itself first: afterwards all points have a floor that few others pass.
    for start, stop in ends:
        inside = block(points, start, stop, frame)
        tile = product(inside, inside, buffer)
        np.fill_diagonal(tile, -np.inf)
        shortlist = Shortlist(points, points, inside, k, frame.scale)
        shortlist.start(tile, inside.norms.max())
        # Where there is no floor yet the threshold is -inf, which the point itself does not exceed either.
        shortlist.offer(*pick(tile, tile > shortlist.thresholds(inside.norms.max())[:, None]), inside)
        lists.append(shortlist)
    for i, (start, stop) in enumerate(ends[:-1]):
        x = block(points, start, stop, frame, lists[i].owners)
        for j in range(i + 1, len(ends)):
            y = block(points, *ends[j], frame, lists[j].owners)
            tile = product(x, y, buffer)
            lists[i].offer(*pick(tile, tile > lists[i].thresholds(y.norms.max())[:, None]), y)
            rows, columns, values = pick(tile, tile > lists[j].thresholds(x.norms.max()))
            lists[j].offer(columns, rows, values, x)
    return lists


def check_k(k: int, n: int, name: str) -> None:
    """Raise ValueError unless k >= 1 and the set has k + 2 points."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ValueError(f"k must be a whole number >= 1; got {k!r}")
    if n < k + 2:
        raise ValueError(
            f"the {name} set has {n} point(s), and k={k} neighbours need at least {k + 2}; add images, leave this "
            "set out and report it as missing, or lower k for all sets alike"
        )


def nearest_neighbours(features: ArrayLike, k: int, *, name: str = "feature") -> Neighbours:
    """The k nearest other points of every point of a set, exactly.

    Args:
        features: shape (N, D), N >= k + 2, finite.
        k: neighbours, >= 1. Duplicates of a point are neighbours at distance 0; the point itself is none.
        name: of the set, for messages.
    Raises:
        ValueError: too few points, features of another shape, NaN or infinity.
    """
    points = check_points(features, name)
    check_k(k, len(points), name)
    parts = [shortlist.nearest() for shortlist in _shortlists(points, k)]
    return Neighbours(np.concatenate([p.distances for p in parts]), np.concatenate([p.indices for p in parts]))


def radii_of(points: Points, k: int, name: str) -> Floats:
    """``knn_radii`` of points that were checked."""
    check_k(k, len(points), name)
    return np.concatenate([shortlist.radii() for shortlist in _shortlists(points, k)])


def knn_radii(features: ArrayLike, k: int, *, groups: Labels | None = None, name: str = "feature") -> Floats:
    """Distance of every point to its k-th nearest other point: the radii of the balls of a k-NN manifold.

    They only depend on the set itself, so those of a reference set can be computed once and kept.

    Args:
        features: shape (N, D), any real dtype, finite.
        k: neighbours, >= 1. Duplicates of a point are neighbours at distance 0, so k or more copies beside it give
            radius 0; the point itself is none.
        groups: label of each point, shape (N,): neighbours are searched among points of the same label only.
        name: of the set, for messages.
    Returns:
        float64, shape (N,), exact but for float64 rounding.
    Raises:
        ValueError: a set or group with fewer than k + 2 points, which published code refuses too (k + 1 would do);
            features of another shape, NaN or infinity; labels that do not fit.
    Source: Kynkäänniemi et al. 2019, arXiv:1904.06991, Eq. 1; Naeem et al. 2020, arXiv:2002.09797, Sec. 3.

    >>> knn_radii([[0.0], [1.0], [3.0], [6.0]], k=1).tolist()
    [1.0, 1.0, 2.0, 3.0]
    """
    points = check_points(features, name)
    if groups is None:
        return radii_of(points, k, name)
    out = np.empty(len(points))
    for label, rows in rows_by_group(groups, len(points), name).items():
        out[rows] = radii_of(points[rows], k, f"{name} ({label})")
    return out


def rows_by_group(groups: Labels, n: int, name: str) -> dict[Hashable, Indices]:
    """Row numbers of every group, in the order in which the labels first appear.

    Raises:
        ValueError: not one label per row, or a label that is missing.
    """
    values = groups.tolist() if isinstance(groups, np.ndarray) else list(groups)
    if len(values) != n:
        raise ValueError(f"{name} groups must give one label for each of the {n} rows; got {len(values)}")
    if missing := sum(value is None or value != value for value in values):
        raise ValueError(f"{name} groups hold {missing} missing label(s); leave such rows out")
    rows: dict[Hashable, list[int]] = {}
    for row, value in enumerate(values):
        rows.setdefault(value, []).append(row)
    return {label: np.asarray(rows[label], np.intp) for label in rows}
