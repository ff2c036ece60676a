"""Precision, recall, density and coverage of generated images against real ones, and which image lies where."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from verism.metrics.manifold._neighbours import Shortlist, check_k, radii_of
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
    """Which points of the other set lie in the balls of this one, counted pair by pair."""

    def __init__(self, radii: Floats, n_others: int, strict: bool, scale: float, dim: int) -> None:
        self.radii, self.strict, self.dim = radii, strict, dim
        self.values = -((radii * scale) ** 2) / 2  # what a tile holds for a point on the sphere
        if strict:  # nothing is nearer than distance 0
            self.values[radii == 0] = np.inf
        self.members = np.zeros(len(radii), np.intp)
        self.holders = np.zeros(n_others, np.intp)

    def thresholds(self, centres: Block, largest_norm: float, *, partial: bool) -> Singles:
        """Below its ball's threshold a value of a tile is outside beyond doubt; shape (n,).

        Args:
            centres: block of this set's points.
            largest_norm: largest norm of the other set's points.
            partial: the tile is a ``partial_product``, from which this set's own squares were not taken off.
        """
        values = self.values[centres.start : centres.start + len(centres.norms)]
        values = values - error(centres.norms, largest_norm, self.dim)
        return at_most(values + centres.half_squares if partial else values)

    def add(
        self, balls: Indices, others: Indices, values: Singles, centres: Block, other: Block, x: Points, y: Points
    ) -> None:
        """Count the pairs that lie inside. Balls and others are rows in their blocks, x the set of the balls."""
        if not len(balls):
            return
        bound = error(centres.norms[balls], other.norms[others], self.dim)
        balls, others = balls + centres.start, others + other.start
        inside = values > self.values[balls] + bound
        doubtful = np.flatnonzero(~inside & (values >= self.values[balls] - bound))
        exact = distances(x, y, balls[doubtful], others[doubtful])
        radii = self.radii[balls[doubtful]]
        inside[doubtful] = exact < radii if self.strict else exact <= radii
        self.members += np.bincount(balls[inside], minlength=len(self.members))
        self.holders += np.bincount(others[inside], minlength=len(self.holders))


def _scan(
    real: Points,
    generated: Points,
    real_radii: Floats,
    generated_radii: Floats | None,
    *,
    strict: bool,
    nearest: bool = False,
) -> tuple[_Balls, _Balls | None, list[Shortlist]]:
    """All pairs, once: members of the real and (if radii are given) the generated balls, nearest real points."""
    frame, dim = Frame.of(real, generated), real.shape[1]
    around_real = _Balls(real_radii, len(generated), strict, frame.scale, dim)
    around_generated = None
    if generated_radii is not None:
        around_generated = _Balls(generated_radii, len(real), strict, frame.scale, dim)
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
            largest_x, largest_y = float(x.norms.max()), float(y.norms.max())
            # What is not taken off the rows of the tile is added to their thresholds, and taken off the few picked.
            rows, columns, values = pick(tile, tile > around_real.thresholds(x, largest_y, partial=True)[:, None])
            around_real.add(rows, columns, values - x.half_squares[rows], x, y, real, generated)
            if around_generated is None and not nearest:
                continue
            tile -= x.half_squares[:, None]
            if around_generated is not None:
                rows, columns, values = pick(tile, tile > around_generated.thresholds(y, largest_x, partial=False))
                around_generated.add(columns, rows, values, y, x, generated, real)
            if nearest:
                if start == 0:
                    lists.append(Shortlist(generated, real, y, 1, frame.scale))
                lists[number].start(tile.T, largest_x)
                rows, columns, values = pick(tile, tile > lists[number].thresholds(largest_x))
                lists[number].offer(columns, rows, values, x)
    return around_real, around_generated, lists


def _radii(points: Points, known: ArrayLike | None, k: int, name: str) -> Floats:
    check_k(k, len(points), name)
    if known is None:
        return radii_of(points, k, name)
    radii = np.asarray(known, dtype=np.float64)
    if radii.shape != (len(points),) or not (np.isfinite(radii) & (radii >= 0)).all():
        raise ValueError(
            f"{name}_radii must be one finite number >= 0 for each of the {len(points)} {name} points, as knn_radii "
            f"gives them for the same rows and k; got shape {radii.shape}"
        )
    return radii


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
    return PRDC(
        precision=float(np.mean(balls.holders > 0)),
        recall=float(np.mean(others.holders > 0)),
        density=float(balls.members.sum()) / (k * len(y)),
        coverage=float(np.mean(balls.members > 0)),
    )


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
        n_real_balls=balls.holders,
        nearest_real=np.concatenate([n.indices[:, 0] for n in nearest]),
        nearest_distance=np.concatenate([n.distances[:, 0] for n in nearest]),
        n_generated_inside=balls.members,
        real_radii=radii,
        k=k,
    )
