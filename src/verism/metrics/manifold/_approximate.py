"""Precision, recall, density and coverage by approximate neighbours, with the error measured on a sample.

Points are sorted into cells around some of them; the neighbours of a point are searched in the cells nearest to its
own. Of a sample of points everything is computed exactly as well: its difference is the error of the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verism.metrics.manifold._neighbours import check_k
from verism.metrics.manifold._prdc import PRDC, Memberships
from verism.metrics.manifold._tiles import (
    Block,
    Bools,
    Floats,
    Frame,
    Indices,
    Points,
    Singles,
    block,
    check_pair,
    distances,
    product,
    spans,
)

CELL = 512  # points of an average cell
PROBES = 16  # cells that are searched around each point
ROUNDS = 2  # in which the middles of cells are moved
ROWS = 1024  # points whose distances to a whole set are held at once


class ApproximatePRDC(NamedTuple):
    """Numbers by approximate neighbours, and how far they are from the exact ones.

    Attributes:
        values: the numbers.
        error: for each number, the largest distance from the exact one that the sample leaves plausible: its mean
            difference, plus 1.96 standard errors.
        neighbour_recall: share of the k nearest of the sampled points that were found, in [0, 1].
        checked: sampled points of each set.
        memberships: the evidence behind precision, density and coverage, by the neighbours that were found.
    """

    values: PRDC
    error: PRDC
    neighbour_recall: float
    checked: int
    memberships: Memberships


class _Cells:
    """A set sorted into cells, and which cells lie near which."""

    def __init__(self, points: Points, frame: Frame, probes: int, rng: np.random.Generator) -> None:
        """Probes: how many cells, the nearest ones, are searched around each."""
        count = max(1, len(points) // CELL)
        middles = points[np.sort(rng.choice(len(points), count, replace=False))].astype(np.float32)
        for _ in range(ROUNDS):
            members = _nearest_of(points, middles, frame)
            sizes = np.bincount(members, minlength=count)
            sums = np.zeros(middles.shape)
            order = np.argsort(members, kind="stable")
            starts = np.concatenate([[0], np.cumsum(sizes)])
            for cell in np.flatnonzero(sizes):
                sums[cell] = points[order[starts[cell] : starts[cell + 1]]].sum(axis=0, dtype=np.float64)
            full = sizes > 0
            middles[full] = (sums[full] / sizes[full, None]).astype(np.float32)
        self.middles = middles
        self.members = self.rows_of(_nearest_of(points, middles, frame))
        inside = block(middles, 0, count, frame)
        near = product(inside, inside, np.empty(count * count, np.float32))
        self.near = np.argsort(-near, axis=1, kind="stable")[:, :probes]
        self.complete = probes >= count  # every cell is searched: nothing is left out

    def rows_of(self, cells: Indices) -> list[Indices]:
        """Rows of the points in each cell."""
        order = np.argsort(cells, kind="stable")
        bounds = np.searchsorted(cells[order], np.arange(len(self.middles) + 1))
        return [order[bounds[cell] : bounds[cell + 1]] for cell in range(len(self.middles))]

    def candidates(self, cell: int) -> Indices:
        """Rows of this set in the cells near one, ascending."""
        return np.sort(np.concatenate([self.members[other] for other in self.near[cell]]))


def _nearest_of(points: Points, middles: Singles, frame: Frame) -> Indices:
    """The nearest of the middles for every point, by float32."""
    others = block(middles, 0, len(middles), frame)
    found = np.empty(len(points), np.intp)
    for start, stop in spans(len(points), max(1, 2**22 // len(middles))):
        tile = product(block(points, start, stop, frame), others, np.empty((stop - start) * len(middles), np.float32))
        found[start:stop] = tile.argmax(axis=1)
    return found


def _tile(x: Points, rows: Indices, y: Points, columns: Indices, frame: Frame) -> Singles:
    """``-d^2 / 2`` in the frame of these pairs of points."""
    a, b = _block(x, rows, frame), _block(y, columns, frame)
    return product(a, b, np.empty(len(rows) * len(columns), np.float32))


def _block(points: Points, rows: Indices, frame: Frame) -> Block:
    return block(points[rows], 0, len(rows), frame)


def _radii(points: Points, cells: _Cells, k: int, frame: Frame) -> tuple[Floats, Indices]:
    """Distance to the k-th nearest that was found, at least the true one; and rows of the k found."""
    radii, found = np.full(len(points), np.inf), np.zeros((len(points), k), np.intp)
    for cell, rows in enumerate(cells.members):
        if not len(rows):
            continue
        columns = cells.candidates(cell)
        if len(columns) <= k:  # a lonely cell with empty or tiny neighbours
            columns = np.arange(len(points))
        for start in range(0, len(rows), ROWS):
            some = rows[start : start + ROWS]
            radii[some], found[some] = _nearest(points, some, columns, k, frame)
    return radii, found


def _nearest(points: Points, rows: Indices, columns: Indices, k: int, frame: Frame) -> tuple[Floats, Indices]:
    """Distance to the k-th nearest of the columns, other than the point itself, and the k nearest."""
    tile = _tile(points, rows, points, columns, frame)
    tile[rows[:, None] == columns[None]] = -np.inf
    best = columns[np.argpartition(tile, -k, axis=1)[:, -k:]]
    exact = distances(points, points, np.repeat(rows, k), best.reshape(-1)).reshape(-1, k)
    return exact.max(axis=1), best


def _inside(
    centres: Points, radii: Floats, cells: _Cells, points: Points, frame: Frame, strict: bool
) -> tuple[Indices, Indices, Indices]:
    """How many of the balls searched hold each point, how many points each ball holds, and the nearest centre found."""
    counts, held_by = np.zeros(len(points), np.intp), np.zeros(len(centres), np.intp)
    nearest = np.zeros(len(points), np.intp)
    for cell, rows in enumerate(cells.rows_of(_nearest_of(points, cells.middles, frame))):
        if not len(rows):
            continue
        columns = cells.candidates(cell)
        if not len(columns):  # empty cells alone are near
            columns = np.arange(len(centres))
        for start in range(0, len(rows), ROWS):
            some = rows[start : start + ROWS]
            tile = _tile(points, some, centres, columns, frame)
            nearest[some] = columns[tile.argmax(axis=1)]
            held = _within(tile, radii[columns], frame, strict)
            counts[some] = held.sum(axis=1)
            held_by[columns] += held.sum(axis=0)
    return counts, held_by, nearest


def _held(
    points: Points, rows: Indices, centres: Points, columns: Indices, radii: Floats, frame: Frame, strict: bool
) -> Bools:
    """Whether each point lies in each ball; shape (points, balls)."""
    return _within(_tile(points, rows, centres, columns, frame), radii, frame, strict)


def _within(tile: Singles, radii: Floats, frame: Frame, strict: bool) -> Bools:
    """The same of pairs whose ``-d^2 / 2`` is known."""
    spheres = -((radii * frame.scale) ** 2) / 2
    inside: Bools = tile > spheres if strict else tile >= spheres
    return inside & (radii > 0) if strict else inside


def approximate_prdc(
    real: ArrayLike,
    generated: ArrayLike,
    k: int = 5,
    *,
    probes: int | None = None,
    checked: int = 256,
    strict: bool = True,
    rng: np.random.Generator,
) -> ApproximatePRDC:
    """Precision, recall, density and coverage by approximate neighbours: for sets so large that ``prdc`` takes hours.

    Args:
        real: features of real images, shape (N, D), N >= k + 2, finite.
        generated: features of generated images by the same extractor, shape (M, D), M >= k + 2.
        k: neighbours, >= 1.
        probes: cells of some 512 points that are searched around each point, >= 1; with all of them nothing is left
            out, and errors are 0. None: 16.
        checked: points of each set of which everything is computed exactly as well, >= 2.
        strict: as for ``prdc``.
        rng: draws the cells and the sample.

    Returns:
        The numbers, and the error of each.

    Raises:
        ValueError: as ``prdc``; fewer than one probe or two points to check.

    Source: Sivic & Zisserman 2003 (inverted lists); Jégou, Douze & Schmid 2011, Sec. IV (search in the nearest cells).

    >>> points = np.random.default_rng(0).standard_normal((300, 4))
    >>> approximate_prdc(points[:150], points[150:], 3, rng=np.random.default_rng(1)).neighbour_recall
    1.0
    """
    x, y = check_pair(real, generated)
    check_k(k, len(x), "real")
    check_k(k, len(y), "generated")
    probes = PROBES if probes is None else probes
    if probes < 1 or checked < 2:
        raise ValueError(f"probes must be at least 1 and checked at least 2; got {probes} and {checked}")
    frame = Frame.of(x, y)
    of_x, of_y = _Cells(x, frame, probes, rng), _Cells(y, frame, probes, rng)
    (around_x, near), (around_y, _) = _radii(x, of_x, k, frame), _radii(y, of_y, k, frame)
    counts, held_by, nearest = _inside(x, around_x, of_x, y, frame, strict)
    recalled, _, _ = _inside(y, around_y, of_y, x, frame, strict)
    covered = held_by > 0
    values = PRDC(
        precision=float(np.mean(counts > 0)),
        recall=float(np.mean(recalled > 0)),
        density=float(counts.sum()) / (k * len(y)),
        coverage=float(np.mean(covered)),
    )
    rows = np.sort(rng.choice(len(x), min(checked, len(x)), replace=False))
    columns = np.sort(rng.choice(len(y), min(checked, len(y)), replace=False))
    exact_counts = _exact_counts(x, around_x, y, columns, k, frame, strict)
    exact_recalled = _exact_counts(y, around_y, x, rows, k, frame, strict)
    exact_radii, exact_near = _exact_radii(x, rows, k, frame)
    exact_covered = np.zeros(len(rows), np.bool_)
    for start, stop in spans(len(y), ROWS):
        held = _held(y, np.arange(start, stop), x, rows, exact_radii, frame, strict)
        exact_covered |= held.any(axis=0)
    if of_x.complete and of_y.complete:
        differences = PRDC(0.0, 0.0, 0.0, 0.0)
    else:
        differences = PRDC(
            precision=_error((counts[columns] > 0) * 1.0 - (exact_counts > 0)),
            recall=_error((recalled[rows] > 0) * 1.0 - (exact_recalled > 0)),
            density=_error((counts[columns] - exact_counts) / k),
            coverage=_error(covered[rows] * 1.0 - exact_covered),
        )
    evidence = Memberships(
        n_real_balls=counts,
        nearest_real=nearest,
        nearest_distance=distances(y, x, np.arange(len(y)), nearest),
        n_generated_inside=held_by,
        real_radii=around_x,
        k=k,
    )
    shared = [len(np.intersect1d(a, b)) / k for a, b in zip(near[rows], exact_near, strict=True)]
    return ApproximatePRDC(values, differences, float(np.mean(shared)), len(rows), evidence)


def _exact_radii(points: Points, rows: Indices, k: int, frame: Frame) -> tuple[Floats, Indices]:
    """Distance to the k-th nearest of all, and the k nearest, of some points."""
    parts = [_nearest(points, some, np.arange(len(points)), k, frame) for some in _few(rows, len(points))]
    if not parts:
        return np.zeros(0), np.zeros((0, k), np.intp)
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def _few(rows: Indices, width: int) -> Iterator[Indices]:
    """Rows, so many at once that their distances to a set of this size take some 64 MB."""
    step = max(1, 2**24 // width)
    for start in range(0, len(rows), step):
        yield rows[start : start + step]


def _exact_counts(
    centres: Points, radii: Floats, points: Points, rows: Indices, k: int, frame: Frame, strict: bool
) -> NDArray[np.intp]:
    """Balls that hold each of some points, exactly: radii found are too large at worst, so that only the balls of these
    size that hold a point need theirs measured."""
    counts = []
    for some in _few(rows, len(centres)):
        held = _held(points, some, centres, np.arange(len(centres)), radii, frame, strict)
        near = np.flatnonzero(held.any(axis=0))
        exact, _ = _exact_radii(centres, near, k, frame)
        counts.append(_held(points, some, centres, near, exact, frame, strict).sum(axis=1))
    return np.concatenate(counts)


def _error(differences: NDArray[Any]) -> float:
    """Mean difference plus 1.96 standard errors; without any difference what a sample of that size may miss."""
    n = len(differences)
    if not differences.any():
        return 3.0 / n  # with 95 % confidence: fewer than 3 in n differ
    return abs(float(differences.mean())) + 1.96 * float(differences.std(ddof=1)) / math.sqrt(n)
