"""What coverage is worth at given set sizes."""

from __future__ import annotations

import math


def expected_coverage(n_real: int, n_generated: int, k: int) -> float:
    """Coverage to expect if real and generated points come from one distribution: the ceiling to read values against.

    It depends on the sizes: 0.877 for 180 against 180 points at k = 3, but 0.997 for 180 against 1,080. So sets of
    unequal sizes cannot be compared by coverage alone.

    It is the chance that the k nearest of a real point, among the others of both sets, are not all real:
    ``1 - prod_{i=1..k} (n_real - i) / (n_real + n_generated - i)``. Exact for continuous distributions.

    Args:
        n_real: real points, > k.
        n_generated: generated points, >= 1.
        k: neighbours, >= 1.
    Raises:
        ValueError: numbers outside these ranges.
    Source: Naeem et al. 2020, arXiv:2002.09797, Sec. 3.3 and appendix (for equal sizes, and the limit 1 - 2**-k).

    >>> round(expected_coverage(180, 180, 3), 6)
    0.877086
    """
    if k < 1 or n_real <= k or n_generated < 1:
        raise ValueError(
            f"expected_coverage needs k >= 1, n_real > k and n_generated >= 1; got k={k}, n_real={n_real}, "
            f"n_generated={n_generated}"
        )
    return 1 - math.prod((n_real - i) / (n_real + n_generated - i) for i in range(1, k + 1))
