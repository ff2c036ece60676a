"""Which images are compared with which: duplicates, balancing, and the pairing of ``{object}`` images with regions.

The three protocols differ here and nowhere else:

* ``released``: the reference as it was loaded, without any image whose features occur twice; generated images
  likewise, then 180 per cell drawn. Sizes may differ.
* ``paper``: 180 per cell drawn on both sides, duplicates kept.
* ``revised``: one copy of duplicates kept, then equally many images per cell drawn on both sides.

A draw is Python's ``random`` seeded with 42 anew for every cell, without replacement, so it depends on the order of a
cell's rows and on nothing else. ``released`` and ``paper`` draw from the order of the tables, as the authors' script
does; ``revised`` from the order of names, so that shuffled tables give the same images.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "DEDUP",
    "ROWS_AT_ONCE",
    "SEED",
    "Cell",
    "Choice",
    "RowsOf",
    "Side",
    "choose",
    "draw",
    "duplicates",
    "printed_keys",
    "vector_keys",
]

SEED = 42
ROWS_AT_ONCE = 8_192  # of vectors that are gone through
DEDUP = ("protocol", "none", "one", "all")
# What numpy's printed form of a long vector shows: so many values at either end, at so many digits, if it is longer
# than the last number. The authors' script tells generated images apart by it.
EDGE_VALUES, PRINTED_DIGITS, PRINTED_WHOLE = 3, 8, 1000

Cell = tuple[str, str]  # object, region
Rows = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class RowsOf:
    """Rows of a matrix that may lie in a file: they are read where they are asked for.

    Attributes:
        matrix: shape (M, D).
        rows: which of its rows, in which order, shape (N,).
    """

    matrix: NDArray[np.float32]
    rows: Rows

    @classmethod
    def all(cls, matrix: NDArray[np.float32]) -> RowsOf:
        """All rows of a matrix, in their order."""
        return cls(matrix, np.arange(len(matrix)))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, chosen: Rows | slice) -> NDArray[np.float32]:
        return self.matrix[self.rows[chosen]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Side:
    """Images of one side, in table order; rows of all arrays belong together.

    Attributes:
        ids: unique ids of the images.
        objects: name of each image's object, as facets have it.
        regions: key of each image's region, or None for ``{object}`` images that belong to every region.
        features: of N rows.
    """

    ids: Sequence[str]
    objects: Sequence[str]
    regions: Sequence[str | None]
    features: RowsOf

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Rows of both sides that are compared, by cell.

    Attributes:
        real: rows of the real side, by (object, region).
        generated: rows of the generated side, by (object, region); a row may serve several regions.
        per_cell: images per cell that were aimed at; None: as many as both sides have.
        removed_real: number of real duplicates left out, by cell.
        removed_generated: number of generated duplicates left out, by cell (region "" for ``{object}`` images).
        duplicates: rows of the generated side that are duplicates.
        short: cells with fewer images than aimed at, with the numbers (real, generated) that were there.
    """

    real: Mapping[Cell, Rows]
    generated: Mapping[Cell, Rows]
    per_cell: int | None
    removed_real: Mapping[Cell, int] = field(default_factory=dict)
    removed_generated: Mapping[Cell, int] = field(default_factory=dict)
    duplicates: frozenset[int] = frozenset()
    short: Mapping[Cell, tuple[int, int]] = field(default_factory=dict)


# ---------------------------------------------------------------------------------------------------------- duplicates
def vector_keys(features: RowsOf) -> list[Hashable]:
    """Keys that are equal exactly for equal vectors (0 and -0 are equal), shape (N,)."""
    return [
        _digest(row)
        for start in range(0, len(features), ROWS_AT_ONCE)
        for row in features[start : start + ROWS_AT_ONCE] + np.float32(0)
    ]


def printed_keys(features: RowsOf) -> list[Hashable]:
    """Keys as the released script makes them for generated images: what numpy prints of a vector.

    Of a vector of more than 1,000 values that is the first and last three, at 8 digits, so that different images can
    be taken for duplicates. We round to 8 decimals, also where numpy would switch to powers of ten.
    """
    columns = np.arange(features.matrix.shape[1])
    if len(columns) > PRINTED_WHOLE:
        columns = np.concatenate([columns[:EDGE_VALUES], columns[-EDGE_VALUES:]])
    return [
        _digest(row)
        for start in range(0, len(features), ROWS_AT_ONCE)
        for row in np.round(features[start : start + ROWS_AT_ONCE][:, columns].astype(np.float64), PRINTED_DIGITS) + 0.0
    ]


def _digest(row: NDArray[np.floating]) -> bytes:
    """A hash of a row: the rows themselves would be another copy of all vectors."""
    return hashlib.blake2b(row.tobytes(), digest_size=16).digest()


def duplicates(keys: Sequence[Hashable], how: str, labels: Sequence[Hashable] | None = None) -> NDArray[np.bool_]:
    """Which rows go, shape (N,).

    Args:
        keys: key of each row, shape (N,); rows with equal keys are duplicates.
        how: ``none``: none; ``all``: every row whose key occurs more than once; ``one``: all but the first of them.
        labels: for ``one``: copies that do not agree in their label all go, as nobody knows whose they are.
    """
    gone = np.zeros(len(keys), dtype=bool)
    if how == "none":
        return gone
    groups: defaultdict[Hashable, list[int]] = defaultdict(list)
    for row, key in enumerate(keys):
        groups[key].append(row)
    for rows in groups.values():
        if len(rows) > 1:
            contradict = labels is not None and len({labels[r] for r in rows}) > 1
            gone[rows if how == "all" or contradict else rows[1:]] = True
    return gone


# ------------------------------------------------------------------------------------------------------------- drawing
def draw(rows: Sequence[int], n: int | None) -> list[int]:
    """``n`` of the rows, in their order; all of them if there are no more, or if ``n`` is None."""
    if n is None or len(rows) <= n:
        return list(rows)
    return sorted(random.Random(SEED).sample(list(rows), n), key=_places(rows).__getitem__)


def _places(rows: Sequence[int]) -> dict[int, int]:
    return {row: index for index, row in enumerate(rows)}


def _cells(side: Side, keep: NDArray[np.bool_], by_name: bool) -> dict[tuple[str, str | None], list[int]]:
    rows = [int(r) for r in np.flatnonzero(keep)]
    if by_name:
        rows.sort(key=lambda r: side.ids[r])
    cells: defaultdict[tuple[str, str | None], list[int]] = defaultdict(list)
    for row in rows:
        cells[side.objects[row], side.regions[row]].append(row)
    return dict(cells)


def choose(
    protocol: str,
    real: Side,
    generated: Side,
    *,
    objects: Sequence[str],
    regions: Sequence[str],
    balanced: bool,
    per_cell: int | None,
    smallest: int,
    dedup: str = "protocol",
) -> Choice:
    """The images that a protocol compares.

    Args:
        protocol: ``revised``, ``released`` or ``paper``.
        real: the real images.
        generated: the generated images.
        objects: names of the objects compared.
        regions: keys of the regions compared.
        balanced: False (DollarStreet): cells keep the sizes they have; ``revised`` still takes equally many of both.
        per_cell: images per cell. None: as many as the smallest cell has that can be used at all, of both sides
            (``released``: of the generated side).
        smallest: images a cell needs to be used for that, k + 2.
        dedup: ``protocol``, or one treatment for all of them: ``none``, ``one``, ``all``.
    """
    by_name = protocol == "revised"
    how = {"released": "all", "paper": "none", "revised": "one"}[protocol] if dedup == "protocol" else dedup
    gone_real, gone_generated = _duplicates_of_both(protocol, real, generated, how)
    real_cells = _cells(real, ~gone_real, by_name)
    made = _cells(generated, ~gone_generated, by_name)
    grid = [(o, r) for o in objects for r in regions]

    def owner(side: Mapping[tuple[str, str | None], list[int]], cell: Cell) -> list[int]:
        """A cell's rows; {object} images without region serve all of them."""
        return side.get(cell) or side.get((cell[0], None)) or []

    sizes = {cell: (len(owner(real_cells, cell)), len(owner(made, cell))) for cell in grid}
    target = per_cell if balanced else None
    if balanced and per_cell is None:
        shared = [g if protocol == "released" else min(n, g) for n, g in sizes.values()]
        target = min((s for s in shared if s >= smallest), default=max(shared, default=0) or None)
    # {object} images: first as many as all regions have together, then a cell's number out of these, so that all
    # regions are compared with the same images.
    pooled: dict[str, list[int]] = {}
    for o in objects:
        if (rows := made.get((o, None))) and target is not None:
            pooled[o] = draw(draw(rows, target * len(regions)), target)
    chosen_real: dict[Cell, Rows] = {}
    chosen_generated: dict[Cell, Rows] = {}
    short: dict[Cell, tuple[int, int]] = {}
    for cell in grid:
        there, here = owner(real_cells, cell), owner(made, cell)
        if cell not in made and cell[0] in pooled:
            here = pooled[cell[0]]
        limit_real, limit_generated = target, target
        if protocol == "released":
            limit_real = None
        elif protocol == "revised":
            equal = min(len(there), len(here)) if target is None else min(len(there), len(here), target)
            limit_real = limit_generated = equal
        chosen_real[cell] = np.array(draw(there, limit_real), dtype=np.intp)
        chosen_generated[cell] = np.array(draw(here, limit_generated), dtype=np.intp)
        wanting = sizes[cell][1] if protocol == "released" else min(sizes[cell])
        if target is not None and wanting < target:
            short[cell] = sizes[cell]
    return Choice(
        real=chosen_real,
        generated=chosen_generated,
        per_cell=target,
        removed_real=_count(real, gone_real),
        removed_generated=_count(generated, gone_generated),
        duplicates=frozenset(np.flatnonzero(gone_generated).tolist()),
        short=short,
    )


def _duplicates_of_both(
    protocol: str, real: Side, generated: Side, how: str
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    keys = (printed_keys if protocol == "released" else vector_keys)(generated.features)
    if how == "one":
        # One image given to two prompts is a model's answer to both, so copies count within a prompt's cell only; a
        # photograph that carries two regions has one of them by mistake.
        keys = [(o, r, key) for o, r, key in zip(generated.objects, generated.regions, keys, strict=True)]
        return (
            _by_name(real, vector_keys(real.features), how, real.regions),
            _by_name(generated, keys, how, None),
        )
    return duplicates(vector_keys(real.features), how), duplicates(keys, how)


def _by_name(side: Side, keys: Sequence[Hashable], how: str, labels: Sequence[Hashable] | None) -> NDArray[np.bool_]:
    """Duplicates where the first of several is the first by name, whatever the order of the table."""
    order = sorted(range(len(side)), key=lambda r: side.ids[r])
    gone = np.zeros(len(side), dtype=bool)
    gone[order] = duplicates([keys[r] for r in order], how, None if labels is None else [labels[r] for r in order])
    return gone


def _count(side: Side, gone: NDArray[np.bool_]) -> dict[Cell, int]:
    return dict(Counter((side.objects[r], side.regions[r] or "") for r in np.flatnonzero(gone).tolist()))
