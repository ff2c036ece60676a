"""Whether two samples of vectors come from one distribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from verism.statistics._common import Floats, check_resamples

__all__ = ["TwoSample", "energy_test"]


@dataclass(frozen=True, kw_only=True)
class TwoSample:
    """A two-sample test.

    Attributes:
        p_value: of "one distribution", in (0, 1]; NaN where no stratum has members of both samples.
        n_first: members of the first sample in strata that both have.
        n_second: members of the second sample in these strata.
    """

    p_value: float
    n_first: int
    n_second: int


def energy_test(
    first: ArrayLike,
    second: ArrayLike,
    first_strata: Sequence[str],
    second_strata: Sequence[str],
    *,
    n_permutations: int = 999,
    seed: int = 0,
) -> TwoSample:
    """Energy distance between two samples, with its permutation p-value within strata.

    Each feature is replaced by its rank among the members of both samples, so that units and outliers do not matter.
    The statistic is the sum over strata of the energy distance, weighted by the harmonic size of the two parts;
    memberships are permuted within strata, so that the mixture of strata may differ between the samples.
    Source: Székely & Rizzo, "Testing for equal distributions in high dimension", InterStat 5 (2004).

    Args:
        first: vectors of the first sample, (N, D), finite.
        second: vectors of the second sample, (M, D), finite.
        first_strata: the stratum of each member of the first sample.
        second_strata: the same for the second.
        n_permutations: random permutations, at least 1; p-values are multiples of ``1 / (n_permutations + 1)``.
        seed: seed of the permutations.

    Raises:
        ValueError: samples of different width, strata of another number than vectors, or numbers that are not finite.
    """
    check_resamples(n_permutations)
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise ValueError(f"two samples need vectors of the same length, got shapes {a.shape} and {b.shape}")
    if len(a) != len(first_strata) or len(b) != len(second_strata):
        raise ValueError("each member of a sample needs a stratum")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError("features must be finite")
    strata = np.array([*first_strata, *second_strata], dtype=object)
    member = np.r_[np.zeros(len(a), dtype=bool), np.ones(len(b), dtype=bool)]
    common = sorted(set(first_strata) & set(second_strata))
    blocks = [np.flatnonzero(strata == name) for name in common]
    if not blocks:
        return TwoSample(p_value=float("nan"), n_first=0, n_second=0)
    used = np.concatenate(blocks)
    values = np.vstack([a, b])
    values[used] = _ranks(values[used])
    rng = np.random.default_rng(seed)
    observed = 0.0
    permuted = np.zeros(n_permutations)
    for block in blocks:
        points, of_second = values[block], member[block]
        distances = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=-1))
        drawn = np.array([rng.permutation(of_second) for _ in range(n_permutations)])
        energy = _energies(distances, np.vstack([of_second, drawn]).astype(np.float64))
        observed += energy[0]
        permuted += energy[1:]
    # Permutations that only swap equal vectors give the same statistic up to rounding.
    reached = int((permuted >= observed - 1e-9 * max(abs(observed), 1.0)).sum())
    return TwoSample(
        p_value=(reached + 1) / (n_permutations + 1),
        n_first=int((~member[used]).sum()),
        n_second=int(member[used].sum()),
    )


def _ranks(values: Floats) -> Floats:
    """Mean rank of each value in its column, over the number of rows."""
    ranks = np.empty_like(values)
    for column, given in enumerate(values.T):
        _, place, count = np.unique(given, return_inverse=True, return_counts=True)
        last = np.cumsum(count)
        ranks[:, column] = (last - (count - 1) / 2)[place.reshape(-1)] / len(given)
    return ranks


def _energies(distances: Floats, members: Floats) -> Floats:
    """Weighted energy distance for each row of memberships (1: second sample), (K,)."""
    others = 1.0 - members
    n, m = others.sum(axis=1), members.sum(axis=1)
    to_second, to_first = members @ distances, others @ distances
    across = (to_second * others).sum(axis=1) / (n * m)
    within_first = (to_first * others).sum(axis=1) / n**2
    within_second = (to_second * members).sum(axis=1) / m**2
    return np.asarray(n * m / (n + m) * (2 * across - within_first - within_second), dtype=np.float64)
