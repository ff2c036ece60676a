"""Tolerances from the precision of the arithmetic: tests pass with any instruction set and number of threads."""

from __future__ import annotations

UNIT_ROUNDOFF_FLOAT32 = 2.0**-24  # half the distance from 1 to the next number


def float32_atol(n_terms: int, scale: float = 1.0) -> float:
    """How far two correct float32 evaluations of one network may lie apart.

    A sum of n terms has an error of at most n unit roundoffs of the sum of their magnitudes, in whichever order they
    are added (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 4.2). Layers that follow carry the
    error on and add their own, so the terms of all sums on the way are counted.

    Args:
        n_terms: terms of the dot products and means that lie one behind the other on the longest way through.
        scale: largest magnitude of what is summed and of what comes out.

    Returns:
        An absolute tolerance. A test that uses it should also show that a wrong input moves the result by far more.
    """
    return n_terms * scale * UNIT_ROUNDOFF_FLOAT32
