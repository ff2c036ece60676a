"""Distances between two sets of points, a tile at a time: fast in float32, with a proven bound of its error.

A tile holds ``v = x.y - |x|^2 / 2 - |y|^2 / 2 = -d(x, y)^2 / 2`` in float32, from one matrix product. Questions that
the bound leaves open (is this point in that ball?) are settled by ``distances``, in float64 from the differences
themselves. So answers do not depend on tile sizes, on the BLAS library, or on where the cloud of points lies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Indices = NDArray[np.intp]
Bools = NDArray[np.bool_]
Labels: TypeAlias = Sequence[Hashable] | NDArray[Any]  # one for each point
Points = NDArray[Any]  # float32 or float64, shape (N, D), finite

TILE_ROWS = 3072  # large enough that the product takes nearly all the time; a tile takes 24 MB, and its mask 6
TILE_COLUMNS = 2048
SELF_TILE = 1536  # rows and columns of a tile of a set against itself
SAMPLE_ROWS = 1024  # points that decide where the middle of a cloud is; any middle is right, a bad one is slower
PICKED = 1 << 20  # values of a tile that are looked at one by one at once: some 50 MB
CHUNK_VALUES = 1 << 18  # coordinates in float64 held at once when distances are settled: 2 MB an array
PROBE, PROBE_DIM = 32, 2048  # points and dimensions of the product by which precision is checked
ROUNDOFF = 2.0**-24  # of float32
MODERATE = 2.0**30  # coordinates between its inverse and it have squares that float32 can add up


Product: TypeAlias = Callable[[Singles, Singles, Singles], None]


def _by_numpy(x: Singles, y: Singles, out: Singles) -> None:
    np.matmul(x, y.T, out=out)


_product: ContextVar[Product] = ContextVar("product", default=_by_numpy)


@contextmanager
def products_by(multiply: Product) -> Iterator[None]:
    """Let something else than numpy multiply, such as a GPU; all numbers of this package stay the same.

    Products only say which pairs of points are far from any decision, with a bound of their error that holds for every
    order of summation in float32. The others are settled in float64 on the CPU.

    Args:
        multiply: given ``x`` of shape (n, D), ``y`` of shape (m, D) and ``out`` of shape (n, m), all float32, it fills
            ``out`` with ``x @ y.T``, summed in float32 or better.
    Raises:
        ValueError: its products are less exact than float32 allows, as those of TF32 are.
    """
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, PROBE, PROBE_DIM), dtype=np.float32)
    out = np.empty((PROBE, PROBE), np.float32)
    multiply(x, y, out)
    exact = x.astype(np.float64) @ y.T.astype(np.float64)
    bound = PROBE_DIM * ROUNDOFF * (np.abs(x).astype(np.float64) @ np.abs(y).T.astype(np.float64))
    # Rounding errors mostly cancel: of honest float32 they stay far below the bound, TF32 is 8,000 times coarser.
    if not (np.abs(out - exact) <= bound / 16).all():
        raise ValueError("these products are not exact to float32 (TF32 or half precision?)")
    token = _product.set(multiply)
    try:
        yield
    finally:
        _product.reset(token)


def check_points(features: ArrayLike, name: str) -> Points:
    """The features as float32 or float64, shape (N, D); not copied if they are that already.

    Raises:
        ValueError: another number of dimensions, no columns, complex or text, NaN or infinity.
    """
    points = np.asarray(features)
    if points.ndim != 2 or points.shape[1] == 0:
        raise ValueError(f"{name} features must have shape (N, D) with D >= 1; got {points.shape}")
    if points.dtype.kind not in "fiub":
        raise ValueError(f"{name} features must be real numbers; got dtype {points.dtype}")
    if points.dtype not in (np.float32, np.float64):
        points = points.astype(np.float32 if points.dtype == np.float16 else np.float64)
    for start in range(0, len(points), TILE_ROWS):
        rows = points[start : start + TILE_ROWS]
        # Smallest and largest of all are NaN if one is, and need no array of answers.
        if not (math.isfinite(rows.min()) and math.isfinite(rows.max())):
            bad = start + int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
            raise ValueError(f"{name} features hold NaN or infinity, first in row {bad}; leave such images out")
    return points


def check_pair(real: ArrayLike, generated: ArrayLike) -> tuple[Points, Points]:
    """Both sets, checked. Raises ValueError as ``check_points``, and if their numbers of columns differ."""
    x, y = check_points(real, "real"), check_points(generated, "generated")
    if x.shape[1] != y.shape[1]:
        raise ValueError(
            f"real and generated features must come from one extractor; got {x.shape[1]} and {y.shape[1]} columns"
        )
    return x, y


def distances(x: Points, y: Points, rows: Indices, columns: Indices) -> Floats:
    """Euclidean distances of the pairs (x[rows[p]], y[columns[p]]), shape (P,), from differences in float64.

    Both orders of a pair give the same bits, so ties stay ties.
    """
    out = np.empty(len(rows))
    step = max(1, CHUNK_VALUES // x.shape[1])
    for start in range(0, len(rows), step):
        piece = slice(start, start + step)
        difference = np.subtract(x[rows[piece]], y[columns[piece]], dtype=np.float64)
        out[piece] = np.sqrt(np.einsum("pd,pd->p", difference, difference))
    return out


class Frame(NamedTuple):
    """The shift and the scale in which float32 is accurate for a cloud: points become ``(x - centre) * scale``.

    Attributes:
        centre: shape (D,), values that float32 holds exactly. None if the cloud lies around the origin, so that
            moving it, which means copying it, gains nothing.
        scale: a power of two, by which multiplication is exact.
    """

    centre: Floats | None
    scale: float

    @classmethod
    def of(cls, *sets: Points) -> Frame:
        """The frame for searches within or between these sets, with the middle of the first."""
        sample = sets[0][:: max(1, len(sets[0]) // SAMPLE_ROWS)]
        middle = sample.mean(axis=0, dtype=np.float64)
        largest = max(max(float(points.max()), -float(points.min())) for points in sets)
        if largest > 1e150:
            raise ValueError(f"features of size {largest:g} have squares beyond float64; divide them by a constant")
        scale = 1.0 if 1 / MODERATE <= largest <= MODERATE or largest == 0 else 2.0 ** -math.frexp(largest)[1]
        spread = np.mean(np.sum((sample - middle) ** 2, axis=1))
        far = float(middle @ middle) > float(spread)
        return cls(middle.astype(np.float32).astype(np.float64) if far and largest < 1e38 else None, scale)


class Block(NamedTuple):
    """Consecutive points in the frame of a search.

    Attributes:
        start: number of its first point in the set.
        points: float32, shape (n, D).
        half_squares: |x|^2 / 2 of each, shape (n,).
        norms: upper bounds of |x|, shape (n,).
    """

    start: int
    points: Singles
    half_squares: Singles
    norms: Floats

    def without_points(self) -> Block:
        """What is remembered of a block between tiles: n numbers, not n points."""
        return self._replace(points=np.empty((len(self.norms), 0), np.float32))


def block(points: Points, start: int, stop: int, frame: Frame, seen: Block | None = None) -> Block:
    """Points start .. stop - 1 in the frame, without a copy where they need no change.

    Args:
        points: features, shape (N, D).
        start: first row.
        stop: row after the last.
        frame: centre and scale that tiles are computed in.
        seen: the same block as an earlier call returned it, which saves computing its squares again.
    """
    rows = points[start:stop]
    if frame.centre is not None:
        rows = rows - frame.centre.astype(rows.dtype)
    if frame.scale != 1:
        rows = rows * rows.dtype.type(frame.scale)
    rows = rows.astype(np.float32, copy=False)
    if seen is not None:
        return seen._replace(points=rows)
    half_squares = np.einsum("nd,nd->n", rows, rows) / np.float32(2)
    # The computed square is short of the true one by a relative error of D roundings at most.
    slack = 1 + 1.01 * rows.shape[1] * ROUNDOFF
    return Block(start, rows, half_squares, np.sqrt(2 * half_squares.astype(np.float64)) * slack)


def spans(n: int, size: int) -> Iterator[tuple[int, int]]:
    """Consecutive spans (start, stop) of at most ``size``, as equal in length as can be, so that none is tiny."""
    count = -(-n // size)
    for number in range(count):
        yield n * number // count, n * (number + 1) // count


def product(x: Block, y: Block, buffer: Singles) -> Singles:
    """``-d^2 / 2`` of all pairs, float32, shape (n, m), in the buffer (size >= n * m).

    Each is within ``error`` of the truth.
    """
    tile = partial_product(x, y, buffer)
    tile -= x.half_squares[:, None]
    return tile


def partial_product(x: Block, y: Block, buffer: Singles) -> Singles:
    """``product`` before ``x.half_squares`` are taken off each row: a pass over the tile less."""
    shape = len(x.norms), len(y.norms)
    tile = buffer[: shape[0] * shape[1]].reshape(shape)
    _product.get()(x.points, y.points, tile)
    tile -= y.half_squares
    return tile


def error(norms_x: Floats, norms_y: Floats | float, dim: int) -> Floats:
    """Bound of the error of ``product`` for points of these norms, whatever the order of summation.

    With u the roundoff and s = |x| + |y|: a product of D terms errs by at most D u |x||y| (1 + small), the two squares
    together by D u (|x|^2 + |y|^2) / 2, the two subtractions by u s^2 in all. Each coordinate was rounded once when it
    was moved into the frame: that changes d by at most u s, and d^2 / 2 by at most u s^2. Together
    (D / 2 + 2) u s^2; the constant 4 and one per cent cover the second order. Products below the smallest normal
    number lose that much.

    Source: Higham 2002, Accuracy and Stability of Numerical Algorithms, 2nd ed., Sec. 3.1 (inner products).
    """
    reach = norms_x + norms_y
    bound: Floats = 1.01 * (dim / 2 + 4) * ROUNDOFF * reach * reach + 4 * dim * float(np.finfo(np.float32).tiny)
    return bound


def at_most(values: Floats) -> Singles:
    """The values as float32, rounded down, so that nothing above a threshold is lost by rounding the threshold."""
    with np.errstate(over="ignore"):
        return np.nextafter(values.astype(np.float32), np.float32(-np.inf))


def pick(tile: Singles, mask: Bools) -> Iterator[tuple[Indices, Indices, Singles]]:
    """Row, column and value of every True of a mask; at once if there are few, else some rows after others."""
    n, width = tile.shape
    step = n if np.count_nonzero(mask) <= PICKED else max(1, PICKED // width)
    for start in range(0, n, step):
        flat = np.flatnonzero(mask[start : start + step])
        rows, columns = np.divmod(flat, width)
        yield rows + start, columns, tile[start : start + step].reshape(-1)[flat]
