"""The nearest neighbours of every point of a set, and the radii of their balls."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
SPARE = 4  # neighbours more that a crowd may have where each half of a set wants its own
RANKED = 1 << 20  # ranks, one for each candidate and division, held at once


class Neighbours(NamedTuple):
    """Nearest other points of every point, nearest first; those that tie may come in either order.

    Attributes:
        distances: float64, shape (N, k).
        indices: rows of the set, shape (N, k).
    """

    distances: Floats
    indices: Indices


class Divisions(NamedTuple):
    """Ways in which the points of a set are divided into two parts; neighbours are searched within a part.

    Attributes:
        second: whether a point lies in the second part, shape (N, T), T >= 1. The first division has one part only: it
            stands for the whole set.
        words: the same as bits, uint64, shape (N, ceil(T / 64)); bits left over are 0, as of the whole set.
    """

    second: Bools
    words: NDArray[np.uint64]

    @classmethod
    def of(cls, second: Bools) -> Divisions:
        """The whole set, and the divisions whose second parts these are, shape (N, T - 1)."""
        all_ = np.pad(second, ((0, 0), (1, 0)))
        bits = np.pad(all_, ((0, 0), (0, -all_.shape[1] % 64)))
        return cls(all_, np.packbits(bits, axis=1).view(np.uint64))

    @classmethod
    def whole(cls, n: int) -> Divisions:
        """The whole set alone."""
        return cls.of(np.zeros((n, 0), np.bool_))

    def rows(self, start: int, stop: int) -> Divisions:
        return Divisions(self.second[start:stop], self.words[start:stop])


class Shortlist:
    """For each point of a block, the few points of another set that may be among the k nearest of its part.

    Values are ``-d^2 / 2`` in the frame, so the nearest have the largest. A candidate stays while the upper bound of
    its value reaches the k-th largest lower bound, in the division where that is smallest. Where many candidates tie
    within the error, they are measured exactly and only those go on that are needed, so that memory stays proportional
    to the number of points.
    """

    def __init__(
        self,
        x: Points,
        y: Points,
        owners: Block,
        k: int,
        scale: float,
        divisions: tuple[Divisions, Divisions],
    ) -> None:
        """The owners are a block of x, their candidates rows of y; both sets are seen in one frame of that scale.

        Args:
            x: set of the owners.
            y: set of the candidates.
            owners: a block of x.
            k: neighbours wanted, >= 1.
            scale: of the frame.
            divisions: of x and of y, in the same number.
        """
        self.x, self.y, self.owners, self.k, self.scale = x, y, owners.without_points(), k, scale
        n = len(owners.norms)
        self.own, self.others = divisions[0].rows(owners.start, owners.start + n), divisions[1]
        self.divided = self.own.second.shape[1] > 1
        self.crowd = CROWD * (k + SPARE if self.divided else k)
        self.floor = np.full(n, -np.inf)  # a candidate below it cannot be among the k nearest of any part
        self.closed = np.zeros(n, np.bool_)  # points with k others at distance 0 in each part, which nothing replaces
        self.rows = np.zeros(0, np.intp)  # within the block
        self.columns = np.zeros(0, np.intp)  # within the other set
        self.low, self.high = np.zeros(0), np.zeros(0)
        self.waiting: list[tuple[Indices, Indices, Floats, Floats]] = []

    def thresholds(self, largest_norm: float) -> Singles:
        """Below its point's threshold a value of a tile need not be looked at; shape (n,)."""
        needed = self.floor - error(self.owners.norms, largest_norm, self.x.shape[1])
        return at_most(np.where(self.closed, np.inf, needed))

    def start(self, tile: Singles, others: Block) -> None:
        """Take a first floor from a tile with the block's points in rows, before any of it is offered."""
        width = tile.shape[1]
        if width < self.k:
            return
        if not self.divided:
            bound = error(self.owners.norms, float(others.norms.max()), self.x.shape[1])
            self.floor = np.maximum(self.floor, _kth_largest(tile, self.k) - bound)
            return
        # Half of a point's neighbours lie in the other part. Few points need more, and for these the list grows.
        todo, reach = np.arange(len(tile)), min(4 * (self.k + 2), width)
        while len(todo):
            limits = np.full(len(tile), np.inf, np.float32)
            limits[todo] = _kth_largest(tile if len(todo) == len(tile) else tile[todo], reach)
            for rows, columns, values in pick(tile, tile >= limits[:, None]):
                bound = error(self.owners.norms[rows], others.norms[columns], self.x.shape[1])
                order = np.lexsort((bound - values, rows))
                rows, low = rows[order], (values - bound)[order]
                last, _ = self._deepest(rows, columns[order] + others.start)
                done = np.flatnonzero(last >= 0)
                self.floor[done] = np.maximum(self.floor[done], low[last[done]])
            if reach == width:
                return
            todo = todo[np.isneginf(self.floor[todo])]
            reach = min(2 * reach, width)

    def offer(self, rows: Indices, columns: Indices, values: Singles, others: Block) -> None:
        """Candidates: rows within this block, columns within the block ``others`` of the other set."""
        if not len(rows):
            return
        bound = error(self.owners.norms[rows], others.norms[columns], self.x.shape[1])
        high = values + bound
        keep = (high >= self.floor[rows]) & ~self.closed[rows]
        if not keep.any():
            return
        self.waiting.append((rows[keep], columns[keep] + others.start, (values - bound)[keep], high[keep]))
        if sum(len(part[0]) for part in self.waiting) >= max(len(self.rows), len(self.floor)):
            self._settle()

    def _settle(self) -> None:
        """Take in the candidates that wait, raise floors by them, and drop those below."""
        if not self.waiting:
            return
        parts = [(self.rows, self.columns, self.low, self.high), *self.waiting]
        self.rows, self.columns, self.low, self.high = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        self.waiting = []
        self._sort(-self.low)
        last, _ = self._deepest(self.rows, self.columns)
        done = np.flatnonzero(last >= 0)
        self.floor[done] = np.maximum(self.floor[done], self.low[last[done]])
        self._keep(self.high >= self.floor[self.rows])
        counts = np.bincount(self.rows, minlength=len(self.floor))
        if (crowded := counts > self.crowd).any():
            self._measure(crowded)

    def _sort(self, *keys: Floats) -> None:
        """Put candidates in order of their point, then of the keys."""
        order = np.lexsort((*reversed(keys), self.rows))
        self.rows, self.columns = self.rows[order], self.columns[order]
        self.low, self.high = self.low[order], self.high[order]

    def _deepest(self, rows: Indices, columns: Indices) -> tuple[Indices, Bools]:
        """How far down its candidates a point must go until each of its parts has k.

        Counts the candidates of all parts at once: bit t of a word is division t, and word b of the counts holds bit b
        of every count.

        Args:
            rows: point of each candidate, ascending.
            columns: its row in the other set; candidates of a point are nearest first.
        Returns:
            By point, the position of the candidate that completes the last part, -1 where one stays incomplete; and
            whether each candidate is among the first k of a part.
        """
        starts = np.searchsorted(rows, np.arange(len(self.floor)))
        counts = np.bincount(rows, minlength=len(self.floor))
        last, needed = np.full(len(self.floor), -1, np.intp), np.zeros(len(rows), np.bool_)
        active = np.flatnonzero(counts)
        width = self.own.words.shape[1]
        bits = [np.zeros((len(active), width), np.uint64) for _ in range(self.k.bit_length())]
        incomplete = np.full((len(active), width), ~np.uint64(0))
        depth = 0
        while len(active):
            at = starts[active] + depth
            fresh = ~(self.own.words[active] ^ self.others.words[columns[at]]) & incomplete
            needed[at] = fresh.any(axis=1)
            complete = np.full_like(fresh, ~np.uint64(0))
            for number, bit in enumerate(bits):  # add one where fresh, and compare with k
                fresh, bits[number] = fresh & bit, bit ^ fresh
                complete &= bits[number] if self.k >> number & 1 else ~bits[number]
            incomplete = incomplete & ~complete
            depth += 1
            open_ = incomplete.any(axis=1)
            last[active[~open_]] = at[~open_]
            left = open_ & (counts[active] > depth)
            if not left.all():
                active, incomplete, bits = active[left], incomplete[left], [bit[left] for bit in bits]
        return last, needed

    def _keep(self, keep: Bools) -> None:
        self.rows, self.columns = self.rows[keep], self.columns[keep]
        self.low, self.high = self.low[keep], self.high[keep]

    def _measure(self, chosen: Bools) -> None:
        """Replace the bounds of the chosen points' candidates by exact values, and keep only those needed of them."""
        todo = chosen[self.rows]
        exact = -self.low
        exact[todo] = distances(self.x, self.y, self.rows[todo] + self.owners.start, self.columns[todo])
        self.low[todo] = self.high[todo] = -((exact[todo] * self.scale) ** 2) / 2
        self._sort(exact, self.columns.astype(np.float64))
        last, needed = self._deepest(self.rows, self.columns)
        done = np.flatnonzero(chosen & (last >= 0))
        self.floor[done] = self.low[last[done]]
        self.closed[done] = self.low[last[done]] == 0
        self._keep(~chosen[self.rows] | needed)

    def nearest(self) -> Neighbours:
        """The k nearest of every point in the whole set, exactly, those that tie in the order of their numbers."""
        self._settle()
        exact = distances(self.x, self.y, self.rows + self.owners.start, self.columns)
        order = np.lexsort((self.columns, exact, self.rows))
        starts = np.searchsorted(self.rows[order], np.arange(len(self.floor)))
        chosen = order[starts[:, None] + np.arange(self.k)]
        return Neighbours(exact[chosen], self.columns[chosen])

    def radii(self) -> Floats:
        """Distance to the k-th nearest in its part, exactly, of every point and division, shape (n, T); measures only
        what decides it.
        """
        self._settle()
        out: Floats = np.empty(self.own.second.shape)
        step = max(1, RANKED * len(out) // max(1, len(self.rows) * out.shape[1]))
        for begin in range(0, len(out), step):
            points = np.arange(begin, min(begin + step, len(out)))
            piece = slice(*np.searchsorted(self.rows, (points[0], points[-1] + 1)))
            rows, columns = self.rows[piece] - begin, self.columns[piece]
            low, high = self.low[piece], self.high[piece]
            same = self.own.second[points][rows] == self.others.second[columns]
            kth_low, kth_high = self._kth(rows, low, same, len(points)), self._kth(rows, high, same, len(points))
            nearer = same & (low[:, None] > kth_high[rows])  # than the k-th beyond doubt: need not be measured
            doubtful = same & ~nearer & (high[:, None] >= kth_low[rows])
            measured = np.flatnonzero(doubtful.any(axis=1))
            exact = distances(self.x, self.y, rows[measured] + begin + self.owners.start, columns[measured])
            starts = np.searchsorted(rows, np.arange(len(points)))
            wanted = self.k - np.add.reduceat(nearer, starts, axis=0, dtype=np.intp)
            order = np.lexsort((exact, rows[measured]))
            rows, same = rows[measured][order], doubtful[measured][order]
            at, division = np.nonzero(same & (_ranks(rows, same) == wanted[rows]))
            out[begin + rows[at], division] = exact[order][at]
        return out

    def _kth(self, rows: Indices, values: Floats, same: Bools, n: int) -> Floats:
        """k-th largest of each point's values in each of its parts, shape (n, T)."""
        order = np.lexsort((-values, rows))
        rows, same = rows[order], same[order]
        at, division = np.nonzero(same & (_ranks(rows, same) == self.k))
        out = np.empty((n, same.shape[1]))
        out[rows[at], division] = values[order][at]
        return out


def _ranks(rows: Indices, counted: Bools) -> NDArray[np.int32]:
    """Running number 1, 2, .. of what is counted within each point, in every column; rows ascend."""
    running = np.cumsum(counted, axis=0, dtype=np.int32)
    first = np.searchsorted(rows, rows, side="left")
    ranks: NDArray[np.int32] = running - (running[first] - counted[first])
    return ranks


def _kth_largest(tile: Singles, k: int) -> Singles:
    """k-th largest value of every row of a tile."""
    if k == 1:
        largest: Singles = tile.max(axis=1)
        return largest
    out = np.empty(len(tile), np.float32)
    for begin in range(0, len(tile), 128):  # partition copies
        out[begin : begin + 128] = np.partition(tile[begin : begin + 128], -k, axis=1)[:, -k]
    return out


def _shortlists(points: Points, k: int, divisions: Divisions | None = None) -> list[Shortlist]:
    """A shortlist for each block of a set, complete. Each pair of different blocks is multiplied once."""
    frame = Frame.of(points)
    divisions = divisions or Divisions.whole(len(points))
    ends = list(spans(len(points), SELF_TILE))
    buffer = np.empty(max(b - a for a, b in ends) ** 2, np.float32)
    lists: list[Shortlist] = []
    # Every block against itself first: afterwards all points have a floor that few others pass.
    for start, stop in ends:
        inside = block(points, start, stop, frame)
        tile = product(inside, inside, buffer)
        np.fill_diagonal(tile, -np.inf)
        shortlist = Shortlist(points, points, inside, k, frame.scale, (divisions, divisions))
        shortlist.start(tile, inside)
        # Where there is no floor yet the threshold is -inf, which the point itself does not exceed either.
        for picked in pick(tile, tile > shortlist.thresholds(inside.norms.max())[:, None]):
            shortlist.offer(*picked, inside)
        lists.append(shortlist)
    for i, (start, stop) in enumerate(ends[:-1]):
        x = block(points, start, stop, frame, lists[i].owners)
        for j in range(i + 1, len(ends)):
            y = block(points, *ends[j], frame, lists[j].owners)
            tile = product(x, y, buffer)
            for picked in pick(tile, tile > lists[i].thresholds(y.norms.max())[:, None]):
                lists[i].offer(*picked, y)
            for rows, columns, values in pick(tile, tile > lists[j].thresholds(x.norms.max())):
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


def radii_of(points: Points, k: int, name: str, divisions: Divisions | None = None) -> Floats:
    """``knn_radii`` of points that were checked, in every division; shape (N, T), (N, 1) without any."""
    check_k(k, len(points), name)
    return np.concatenate([shortlist.radii() for shortlist in _shortlists(points, k, divisions)])


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
        return radii_of(points, k, name)[:, 0]
    out = np.empty(len(points))
    for label, rows in rows_by_group(groups, len(points), name).items():
        out[rows] = radii_of(points[rows], k, f"{name} ({label})")[:, 0]
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
