"""Binomial mixtures by nonparametric maximum likelihood, and the range of a mean under a mixture (profile likelihood).

Source: Kiefer & Wolfowitz 1956, Ann. Math. Stat. 27:887-906; Koenker & Mizera 2014, JASA 109:674-685 (on a grid, by
convex optimisation with an interior point method).
"""

from __future__ import annotations

import math
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from verism.statistics._simplex import maximise_on_simplex

__all__ = ["Mixture", "mixture"]

Floats = NDArray[np.float64]

HALF = 40  # points of the grid on either side of the target, at least
MAX_HALF = 200
ROUNDS = 12  # of bisection of the multiplier, over 14 powers of e: the ends are good to 0.3 % of it


class Mixture(NamedTuple):
    """B problems of their own: rows that were seen, points of a grid, and the chance of every row at every point.

    The grid is ``2 * half + 1`` relative deviations u in [-1, 1] from the target t: shares ``t + u t`` for u < 0 and
    ``t + u (1 - t)`` for u > 0; the middle one is the target. So rows of different targets can share a distribution.

    Attributes:
        likelihood: (B, R, J), rows scaled to a largest value of 1.
        times: how often every row was seen, (B, R).
        cost: mean distance of the share from the target at every point, (B, J).
    """

    likelihood: Floats
    times: Floats
    cost: Floats

    def repeated(self, times: Floats) -> Mixture:
        """The first problem, with other numbers of rows: shape (N, R)."""
        n = len(times)
        return Mixture(
            np.broadcast_to(self.likelihood[0], (n, self.likelihood.shape[1], self.likelihood.shape[2])),
            times,
            np.broadcast_to(self.cost[0], (n, self.cost.shape[1])),
        )

    def log_likelihood(self, weights: Floats) -> Floats:
        chance = (self.likelihood @ weights[:, :, None])[:, :, 0]
        return cast(Floats, (self.times * np.log(np.maximum(chance, 1e-300))).sum(axis=1))

    def log_likelihood_at_target(self) -> Floats:
        points = self.cost.shape[1]
        weights = np.zeros((len(self.cost), points))
        weights[:, points // 2] = 1.0
        return self.log_likelihood(weights)

    def distance(self, weights: Floats) -> Floats:
        return cast(Floats, (self.cost * weights).sum(axis=1))

    def fit(self, penalty: Floats, *, tolerance: float = 1e-8) -> Floats:
        """Weights of the points, (B, J), that maximise ``log_likelihood - penalty * distance``; penalty (B,)."""
        return maximise_on_simplex(self.likelihood, self.times, penalty[:, None] * self.cost, tolerance=tolerance)

    def profile(self, best: float, below: float, above: float) -> tuple[float, float]:
        """Smallest and largest total distance of all B problems with a total log-likelihood near the best.

        Args:
            best: largest total log-likelihood.
            below: by how much it may be less for the smallest distance.
            above: the same for the largest.
        """
        n = len(self.cost)
        likelihood, times, cost = (np.concatenate([part, part]) for part in (self.likelihood, self.times, self.cost))
        both = Mixture(likelihood, times, cost)
        sign, allowed = np.array([1.0, -1.0]), np.array([below, above])
        scale = math.log(self.times.sum(axis=1).max())
        inside, outside = np.full(2, scale - 5), np.full(2, scale + 9)
        ends = np.full(2, float(self.distance(self.fit(np.zeros(n))).sum()))
        for _ in range(ROUNDS):
            middle = (inside + outside) / 2
            weights = both.fit(np.repeat(sign * np.exp(middle), n), tolerance=1e-7)
            near = best - both.log_likelihood(weights).reshape(2, n).sum(axis=1) <= allowed
            ends = np.where(near, both.distance(weights).reshape(2, n).sum(axis=1), ends)
            inside, outside = np.where(near, middle, inside), np.where(near, outside, middle)
        low, high = ends.tolist()
        # Half the distance between target and nearest point, and less, is the grid's own.
        return (0.0 if low < 1e-6 else low), high


def mixture(x: Floats, n: Floats, target: Floats, judge: tuple[float, float], *, half: int | None = None) -> Mixture:
    """The problem of every class.

    Args:
        x: images of the class, (P, B).
        n: images, (P,), each >= 1.
        target: share of the class, (P, B).
        judge: shares of right answers of the class and of all others: an image is called of the class with chance
            ``pi * judge[0] + (1 - pi) * (1 - judge[1])``.
        half: points of the grid on either side. None: four per standard deviation of a share, or more.
    """
    if half is None:
        half = min(MAX_HALF, max(HALF, math.ceil(4 * math.sqrt(float(n.max())))))
    u = np.linspace(-1.0, 1.0, 2 * half + 1)
    seen = [
        np.unique(np.stack([x[:, k], n, target[:, k]], axis=1), axis=0, return_counts=True) for k in range(x.shape[1])
    ]
    rows = max(len(times) for _, times in seen)
    likelihood, all_times = np.ones((len(seen), rows, len(u))), np.zeros((len(seen), rows))
    cost = np.zeros((len(seen), len(u)))
    for k, (kinds, times) in enumerate(seen):
        hits, totals, t = (column[:, None] for column in kinds.T)
        share = np.clip(t + np.where(u < 0, u * t, u * (1 - t)), 0.0, 1.0)
        called = share * judge[0] + (1 - share) * (1 - judge[1])
        with np.errstate(divide="ignore", invalid="ignore"):
            log = np.where(hits > 0, hits * np.log(called), 0.0)
            log += np.where(totals > hits, (totals - hits) * np.log1p(-called), 0.0)
        likelihood[k, : len(times)] = np.exp(log - log.max(axis=1, keepdims=True))
        all_times[k, : len(times)] = times
        cost[k] = times @ np.abs(share - t) / times.sum()
    return Mixture(likelihood, all_times, cost)
