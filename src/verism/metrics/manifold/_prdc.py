"""Precision, recall, density and coverage of generated images against real ones, and which image lies where."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from verism.metrics.manifold._neighbours import Divisions, Shortlist, check_k, radii_of
from verism.metrics.manifold._tiles import (
    TILE_COLUMNS,
    TILE_ROWS,
    Block,
    Bools,
    Floats,
    Frame,
    Indices,
    Points,
    Singles,
    at_most,
    block,
    check_pair,
    distances,
    error,
    partial_product,
    pick,
    spans,
)

DENSE = 32  # where more than one of so many pairs of a tile may lie inside, those that do beyond doubt go first
COUNTED_ROWS = 512  # rows of a tile whose pairs are summed up at once: 4 MB
DECIDED = 1 << 20  # questions whether a pair lies in a ball, one for each division, held at once

EVERY = slice(None)


class PRDC(NamedTuple):
    """Four numbers of a generated set against a real one; higher is better.

    Attributes:
        precision: share of generated points inside the real manifold, in [0, 1].
        recall: share of real points inside the generated manifold, in [0, 1].
        density: real balls around the average generated point, over k; >= 0, about 1 for equal distributions.
        coverage: share of real points whose ball holds a generated point, in [0, 1]; see ``expected_coverage``.
    """

    precision: float
    recall: float
    density: float
    coverage: float


class PrecisionCoverage(NamedTuple):
    """Share of generated points inside the real manifold, and of real balls that hold a generated point."""

    precision: float
    coverage: float


class Memberships(NamedTuple):
    """The evidence behind the numbers: where every single image lies.

    Attributes:
        n_real_balls: real balls each generated point lies in, shape (M,).
        nearest_real: row of the real point nearest to each generated one (the first of several), shape (M,).
        nearest_distance: its distance, shape (M,).
        n_generated_inside: generated points in the ball of each real point, shape (N,).
        real_radii: radius of the ball of each real point, shape (N,).
        k: neighbours that made the radii.
    """

    n_real_balls: Indices
    nearest_real: Indices
    nearest_distance: Floats
    n_generated_inside: Indices
    real_radii: Floats
    k: int

    @property
    def inside(self) -> Bools:
        """Whether each generated point lies in the real manifold, shape (M,); its mean is the precision."""
        return self.n_real_balls > 0

    @property
    def covered(self) -> Bools:
        """Whether the ball of each real point holds a generated one, shape (N,); its mean is the coverage."""
        return self.n_generated_inside > 0

    @property
    def precision(self) -> float:
        return float(np.mean(self.inside))

    @property
    def coverage(self) -> float:
        return float(np.mean(self.covered))

    @property
    def density(self) -> float:
        return float(self.n_real_balls.sum()) / (self.k * len(self.n_real_balls))


class _Balls:
    """Which points of the other set lie in the balls of this one, counted pair by pair within parts of both sets."""

    def __init__(self, radii: Floats, own: Divisions, others: Divisions, strict: bool, scale: float, dim: int) -> None:
        """Radii have shape (n, T): a point has a ball in each of the T divisions of its set."""
        self.radii, self.own, self.others, self.strict, self.dim = radii, own.second, others.second, strict, dim
        self.values = -((radii * scale) ** 2) / 2  # what a tile holds for a point on the sphere
        if strict:  # nothing is nearer than distance 0
            self.values[radii == 0] = np.inf
        self.widest, self.narrowest = self.values.min(axis=1), self.values.max(axis=1)
        self.members: Indices = np.zeros(self.own.shape, np.intp)
        self.holders: Indices = np.zeros(self.others.shape, np.intp)

    def add(
        self, tile: Singles, centres: Block, other: Block, x: Points, y: Points, *, axis: int, partial: bool = False
    ) -> None:
        """Count the pairs of a tile that lie inside.

        Args:
            tile: values of all pairs of both blocks.
            centres: block of this set's points.
            other: block of the other set's points.
            x: this set.
            y: the other set.
            axis: of the tile, along which this set's points are.
            partial: the tile is a ``partial_product``, from which the squares of its rows, this set's points, were not
                taken off. They are added to thresholds then, and taken off the few values that are picked.
        """
        span = slice(centres.start, centres.start + len(centres.norms))
        bound = error(centres.norms, float(other.norms.max()), self.dim)
        shift = centres.half_squares if partial else 0.0
        shape = (-1, 1) if axis == 0 else (1, -1)
        # Below it a pair is outside all balls of its point beyond doubt.
        mask = tile > at_most(self.widest[span] - bound + shift).reshape(shape)
        if np.count_nonzero(mask) > tile.size // DENSE:
            sure = tile > -at_most(-self.narrowest[span] - bound - shift).reshape(shape)
            self._count_everywhere(sure if axis == 0 else sure.T, centres.start, other.start)
            np.greater(mask, sure, out=mask)
        for rows, columns, values in pick(tile, mask):
            balls, others = (rows, columns) if axis == 0 else (columns, rows)
            if partial:
                values = values - centres.half_squares[balls]
            bounds = error(centres.norms[balls], other.norms[others], self.dim)
            step = max(1, DECIDED // self.values.shape[1])
            for start in range(0, len(balls), step):
                few = slice(start, start + step)
                self._count(balls[few] + centres.start, others[few] + other.start, values[few], bounds[few], x, y)

    def _count_everywhere(self, inside: Bools, first_ball: int, first_other: int) -> None:
        """Count pairs that lie inside in every division, if in one part: sums of products, as there may be many."""
        others = slice(first_other, first_other + inside.shape[1])
        theirs = self.others[others].astype(np.float32)
        for start in range(0, len(inside), COUNTED_ROWS):
            pairs = inside[start : start + COUNTED_ROWS].astype(np.float32)  # sums are whole numbers, and exact
            balls = slice(first_ball + start, first_ball + start + len(pairs))
            ours = self.own[balls].astype(np.float32)
            for counts, second, sums, all_ in (
                (self.members[balls], ours, pairs @ theirs, pairs.sum(axis=1)),
                (self.holders[others], theirs, pairs.T @ ours, pairs.sum(axis=0)),
            ):
                counts += np.where(second > 0, sums, all_[:, None] - sums).astype(np.intp)

    def _count(self, balls: Indices, others: Indices, values: Singles, bound: Floats, x: Points, y: Points) -> None:
        same = self.own[balls] == self.others[others]
        spheres = self.values[balls]
        inside = same & ((values - bound)[:, None] > spheres)
        doubtful = same & ~inside & ((values + bound)[:, None] >= spheres)
        pairs = np.flatnonzero(doubtful.any(axis=1))
        exact = distances(x, y, balls[pairs], others[pairs])[:, None]
        radii = self.radii[balls[pairs]]
        inside[pairs] |= doubtful[pairs] & (exact < radii if self.strict else exact <= radii)
        pair, division = np.nonzero(inside)
        for counts, points in ((self.members, balls), (self.holders, others)):
            first, stop, width = int(points.min()), int(points.max()) + 1, counts.shape[1]
            flat = (points[pair] - first) * width + division
            counts[first:stop] += np.bincount(flat, minlength=(stop - first) * width).reshape(-1, width)


def _scan(
    real: Points,
    generated: Points,
    real_radii: Floats,
    generated_radii: Floats | None,
    *,
    strict: bool,
    nearest: bool = False,
    divisions: tuple[Divisions, Divisions] | None = None,
) -> tuple[_Balls, _Balls | None, list[Shortlist]]:
    """All pairs, once: members of the real and (if radii are given) the generated balls, nearest real points.

    With divisions, pairs count in those where both points lie in the same part; radii then have a column for each.
    """
    frame, dim = Frame.of(real, generated), real.shape[1]
    of_real, of_generated = divisions or (Divisions.whole(len(real)), Divisions.whole(len(generated)))
    around_real = _Balls(real_radii, of_real, of_generated, strict, frame.scale, dim)
    around_generated = None
    if generated_radii is not None:
        around_generated = _Balls(generated_radii, of_generated, of_real, strict, frame.scale, dim)
    columns_of = list(spans(len(generated), TILE_COLUMNS))
    rows_of = list(spans(len(real), TILE_ROWS))
    buffer = np.empty(max(b - a for a, b in rows_of) * max(b - a for a, b in columns_of), np.float32)
    seen: list[Block | None] = [None] * len(columns_of)
    lists: list[Shortlist] = []
    for start, stop in rows_of:
        x = block(real, start, stop, frame)
        for number, (first, last) in enumerate(columns_of):
            y = block(generated, first, last, frame, seen[number])
            seen[number] = y.without_points()
            tile = partial_product(x, y, buffer)
            around_real.add(tile, x, y, real, generated, axis=0, partial=True)
            if around_generated is None and not nearest:
                continue
            tile -= x.half_squares[:, None]
            if around_generated is not None:
                around_generated.add(tile, y, x, generated, real, axis=1)
            if nearest:
                if start == 0:
                    lists.append(Shortlist(generated, real, y, 1, frame.scale, (of_generated, of_real)))
                lists[number].start(tile.T, x)
                for rows, columns, values in pick(tile, tile > lists[number].thresholds(float(x.norms.max()))):
                    lists[number].offer(columns, rows, values, x)
    return around_real, around_generated, lists


def _radii(points: Points, known: ArrayLike | None, k: int, name: str) -> Floats:
    """Radii of the whole set, shape (N, 1)."""
    check_k(k, len(points), name)
    if known is None:
        return radii_of(points, k, name)
    radii = np.asarray(known, dtype=np.float64)
    if radii.shape != (len(points),) or not (np.isfinite(radii) & (radii >= 0)).all():
        raise ValueError(
            f"{name}_radii must be one finite number >= 0 for each of the {len(points)} {name} points, as knn_radii "
            f"gives them for the same rows and k; got shape {radii.shape}"
        )
    return radii[:, None]


def divided_prdc(
    real: Points, generated: Points, k: int, divisions: tuple[Divisions, Divisions], *, strict: bool
) -> list[PRDC]:
    """The numbers of the whole sets, then those of the first and of the second parts of every other division.

    Each part has the radii that it would have alone. All come from one pass over the pairs: a part's neighbours are
    among the few nearest points of the whole set, and its balls are hardly larger.

    Args:
        real: points that were checked, each part with k + 2 or more.
        generated: the same of the other set.
        k: as for ``prdc``.
        divisions: of the real and of the generated points; parts of one number are held against each other.
        strict: as for ``prdc``.
    """
    radii = [radii_of(p, k, n, d) for p, n, d in zip((real, generated), ("real", "generated"), divisions, strict=True)]
    balls, others, _ = _scan(real, generated, *radii, strict=strict, divisions=divisions)
    assert others is not None
    numbers = [_numbers(balls, others, k)]
    for division in range(1, radii[0].shape[1]):
        for part in (False, True):
            x, y = (d.second[:, division] == part for d in divisions)
            numbers.append(_numbers(balls, others, k, division, x, y))
    return numbers


def _numbers(
    balls: _Balls, others: _Balls, k: int, division: int = 0, x: Bools | slice = EVERY, y: Bools | slice = EVERY
) -> PRDC:
    """The numbers of the points x of the real set and y of the generated one, which are one part of a division."""
    members, holders = balls.members[x, division], balls.holders[y, division]
    return PRDC(
        precision=float(np.mean(holders > 0)),
        recall=float(np.mean(others.holders[x, division] > 0)),
        density=float(members.sum()) / (k * len(holders)),
        coverage=float(np.mean(members > 0)),
    )


def prdc(
    real: ArrayLike,
    generated: ArrayLike,
    k: int = 5,
    *,
    strict: bool = True,
    real_radii: ArrayLike | None = None,
    generated_radii: ArrayLike | None = None,
) -> PRDC:
    """Precision, recall, density and coverage of two sets of image features, exactly.

    The manifold of a set is the union of balls around its points, each reaching to the k-th nearest other point of the
    set. Memory beyond the features is proportional to the number of points; all pairs are never held at once.

    Args:
        real: features of real images, shape (N, D), N >= k + 2, any real dtype, finite.
        generated: features of generated images by the same extractor, shape (M, D), M >= k + 2.
        k: neighbours, >= 1. DIG In uses 3, the ``prdc`` package's example 5.
        strict: a point on the sphere is outside, as in DIG In, EvalGIM and the ``prdc`` package. False: inside, as in
            torch-fidelity and the first publication of precision and recall.
        real_radii: from ``knn_radii`` for the same rows and k, to save computing them again.
        generated_radii: the same for the generated set.
    Raises:
        ValueError: sets smaller than k + 2, features that do not fit each other, NaN or infinity.
    Source: Kynkäänniemi et al. 2019, arXiv:1904.06991, Eq. 1-2 (precision, recall); Naeem et al. 2020,
        arXiv:2002.09797, Eq. 3-4 (density, coverage). Decided as if in exact arithmetic but for float64 rounding of
        single distances, whereas published code rounds products of float32 and can see duplicates as different.

    >>> prdc([[0.0], [1.0], [3.0], [6.0]], [[0.5], [2.0], [9.0]], k=1)
    PRDC(precision=0.666..., recall=1.0, density=1.0, coverage=0.75)
    """
    x, y = check_pair(real, generated)
    around_real = _radii(x, real_radii, k, "real")
    around_generated = _radii(y, generated_radii, k, "generated")
    balls, others, _ = _scan(x, y, around_real, around_generated, strict=strict)
    assert others is not None
    return _numbers(balls, others, k)


def precision_coverage(
    real: ArrayLike, generated: ArrayLike, k: int = 5, *, strict: bool = True, real_radii: ArrayLike | None = None
) -> PrecisionCoverage:
    """Precision and coverage alone: they need the real radii only, so with these at hand a single matrix product.

    Args, Raises, Source: as for ``prdc``.
    """
    x, y = check_pair(real, generated)
    check_k(k, len(y), "generated")
    balls, _, _ = _scan(x, y, _radii(x, real_radii, k, "real"), None, strict=strict)
    return PrecisionCoverage(float(np.mean(balls.holders > 0)), float(np.mean(balls.members > 0)))


def memberships(
    real: ArrayLike, generated: ArrayLike, k: int = 5, *, strict: bool = True, real_radii: ArrayLike | None = None
) -> Memberships:
    """For every image what precision, density and coverage sum up, and the real image nearest to each generated.

    Args, Raises, Source: as for ``prdc``.
    """
    x, y = check_pair(real, generated)
    check_k(k, len(y), "generated")
    radii = _radii(x, real_radii, k, "real")
    balls, _, lists = _scan(x, y, radii, None, strict=strict, nearest=True)
    nearest = [shortlist.nearest() for shortlist in lists]
    return Memberships(
        n_real_balls=balls.holders[:, 0],
        nearest_real=np.concatenate([n.indices[:, 0] for n in nearest]),
        nearest_distance=np.concatenate([n.distances[:, 0] for n in nearest]),
        n_generated_inside=balls.members[:, 0],
        real_radii=radii[:, 0],
        k=k,
    )
