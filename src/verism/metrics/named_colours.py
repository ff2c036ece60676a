"""The colour of an object by its pixels: which basic colour term most of them have, in CIELAB.

Every pixel gets the colour whose nearest prototype is nearest (Euclidean distance in CIELAB); the shares of the colours
are what is observed, and the colour with the largest weighted share names the object. No model takes part. Prototypes
and weights were fitted on rendered objects under the lights of ten environments (``benchmarks/colour_rule.py``): they
are those of painted surfaces in shade and sun, not of colour chips. Black weighs half of
its share, since tyres and shadows are rarely what a colour word means, and colours of small painted parts weigh more.

Source: the basic colour terms of Berlin and Kay 1969, without gray; CIE 15 for CIELAB. Prototypes and weights are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verism.metrics.colour import lab

__all__ = ["COLORS", "PROTOTYPES", "WEIGHTS", "color_shares", "dominant_color"]

Floats = NDArray[np.float64]

COLORS: tuple[str, ...] = (
    *("red", "orange", "yellow", "green", "blue"),
    *("purple", "pink", "brown", "black", "white"),
)
PROTOTYPES: Mapping[str, Sequence[tuple[float, ...]]] = {
    "red": [(27.3, 35.4, 17.8), (46.2, 60.4, 38.8), (37.1, 51.9, 31.4), (50.3, 30.1, 7.6)],
    "orange": [(59.5, 39.4, 54.1), (63.3, 33.2, 39.7), (41.3, 22.1, 26.5), (48.0, 34.6, 45.6)],
    "yellow": [(85.4, -11.4, 74.6), (77.1, -5.2, 71.3), (68.4, -7.8, 61.6), (55.1, -7.2, 43.9)],
    "green": [(39.8, -18.6, 14.7), (52.9, -41.3, 32.6), (37.1, -34.4, 26.9), (42.4, -38.8, 32.3)],
    "blue": [(29.6, 44.7, -70.8), (40.9, 16.8, -32.1), (23.2, 37.3, -58.6), (33.7, 53.2, -82.6)],
    "purple": [(30.8, 44.5, -38.3), (20.3, 30.9, -21.5), (43.8, 16.0, -12.5), (32.9, 40.3, -29.7)],
    "pink": [(46.8, 32.2, -12.9), (55.8, 46.7, 8.8), (67.3, 41.4, -9.0), (60.3, 41.0, -0.8)],
    "brown": [(33.6, 11.7, 13.5), (26.1, 8.8, 8.2), (22.4, 10.9, 13.8), (47.5, 4.7, 7.0)],
    "black": [(11.8, -0.1, -1.7), (19.3, 0.1, -1.2), (30.8, -0.1, -1.4), (49.5, -0.1, -0.4)],
    "white": [(90.0, -0.8, -0.9), (79.5, 1.0, 5.0), (57.8, 3.6, 4.2), (74.7, 0.4, -12.7)],
}
"""CIELAB coordinates (L*, a*, b*) of each colour, under light and in shade."""
WEIGHTS: Mapping[str, float] = {
    "red": 1.6,
    "orange": 1.6,
    "yellow": 1.6,
    "green": 1.0,
    "blue": 2.0,
    "purple": 3.0,
    "pink": 2.5,
    "brown": 1.6,
    "black": 0.5,
    "white": 0.8,
}
"""Factor of each colour's share when an object is named."""
MOST_PIXELS = 20_000  # of an object that are looked at: every n-th; shares move by less than a per cent


@cache
def prototype_table() -> tuple[Floats, NDArray[np.int64]]:
    """All prototypes, shape (P, 3), and which colour each is of, shape (P,)."""
    table = [(number, centre) for number, color in enumerate(COLORS) for centre in PROTOTYPES[color]]
    return np.array([centre for _, centre in table]), np.array([number for number, _ in table])


def color_shares(pixels: ArrayLike, colors: Sequence[str] = COLORS) -> Floats:
    """Share of an object's pixels that have each colour; they sum to less than 1 where other colours are left out.

    Args:
        pixels: of the object alone, sRGB 0 to 255, shape (N, 3).
        colors: the colours asked about, names of ``COLORS``.

    Returns:
        In [0, 1], shape (K,), in the order asked; zeros for an object without pixels.

    Raises:
        ValueError: an unknown colour, or pixels of another shape.
    """
    if unknown := sorted(set(colors) - set(COLORS)):
        raise ValueError(f"unknown colours {unknown}; there are {', '.join(COLORS)}")
    values = np.asarray(pixels)
    if values.ndim != 2 or values.shape[1] != 3:
        raise ValueError(f"an object's pixels have shape (N, 3); got {values.shape}")
    if not len(values):
        return np.zeros(len(colors))
    values = values[:: -(-len(values) // MOST_PIXELS)]
    centres, owner = prototype_table()
    seen = lab(values)
    # |x - c|^2 without the term of x, which is the same for every prototype.
    nearest = owner[(np.sum(centres**2, axis=1) - 2 * seen @ centres.T).argmin(axis=1)]
    counts = np.bincount(nearest, minlength=len(COLORS)) / len(values)
    return counts[[COLORS.index(color) for color in colors]]


def dominant_color(shares: ArrayLike, colors: Sequence[str]) -> str | None:
    """The colour with the largest weighted share; None if no pixel has any of them. Ties go to the first.

    Args:
        shares: of the colours, as ``color_shares`` gives them, shape (K,).
        colors: their names.

    >>> dominant_color([0.5, 0.1], ["red", "blue"])
    'red'
    """
    weighted = np.asarray(shares, dtype=np.float64) * np.array([WEIGHTS[color] for color in colors])
    return colors[int(weighted.argmax())] if weighted.size and weighted.max() > 0 else None
