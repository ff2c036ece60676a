"""The colour of an object by its pixels: which basic colour term most of them have, in CIELAB.

Every pixel gets the colour whose nearest prototype is nearest (Euclidean distance in CIELAB); the shares of the colours
are what is observed, and the colour with the largest weighted share names the object. No model takes part. Prototypes
and weights were fitted on rendered objects under the lights of ten environments (``benchmarks/colour_rule.py``): they
are those of painted surfaces in shade and sun, not of colour chips. Black and brown weigh less than their share, since
tyres, shadows and wood are rarely what a colour word means.

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
PROTOTYPES: Mapping[str, Sequence[tuple[float, ...]]] = {}
WEIGHTS: Mapping[str, float] = dict.fromkeys(COLORS, 1.0)
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
