"""Weights on a simplex that maximise a log-likelihood: shares of classes, or of the points of a mixture."""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from verism.statistics._common import Floats

STEPS = 60  # of Newton; 15 to 25 are usual
SHRINK, STEP_TO_EDGE = 0.1, 0.95  # usual settings of an interior point method
TINY = 1e-300


def maximise_on_simplex(likelihood: Floats, times: Floats, slope: Floats, *, tolerance: float = 1e-8) -> Floats:
    """Weights w >= 0 of sum 1 that maximise ``sum_r times_r log(sum_j likelihood_rj w_j) - sum_j slope_j w_j``.

    The problem is concave, and what EM climbs towards slowly is found by a primal-dual interior point method. With z
    the multipliers of w >= 0 and mu that of sum(w) = 1, it solves gradient - mu + z = 0 and w z = tau for falling tau.
    The Hessian is of rank R, so a step costs the solution of R equations.

    Args:
        likelihood: B problems of R rows and J weights, (B, R, J), >= 0; a row that was seen must have a positive one.
        times: how often every row was seen, (B, R), not all 0.
        slope: (B, J).
        tolerance: of the duality gap per unit of times.
    Returns:
        Shape (B, J). Where several weights are as good, some between them.
    Source: Koenker & Mizera 2014, JASA 109:674-685; Boyd & Vandenberghe 2004, Convex Optimization, Sec. 11.7.
    """
    total = times.sum(axis=1)
    h = times / total[:, None]
    slope = slope / total[:, None]
    n, _, points = likelihood.shape
    w = np.full((n, points), 1 / points)
    across = np.swapaxes(likelihood, 1, 2)

    def gradient(w: Floats) -> tuple[Floats, Floats]:
        chance = np.maximum((likelihood @ w[:, :, None])[:, :, 0], TINY)
        return chance, (across @ (h / chance)[:, :, None])[:, :, 0] - slope

    g = gradient(w)[1]
    mu = g.max(axis=1) + 0.5
    z = mu[:, None] - g
    for _ in range(STEPS):
        chance, g = gradient(w)
        gap = (w * z).sum(axis=1)
        off, missing = g - mu[:, None] + z, 1 - w.sum(axis=1)
        if max(gap.max(), np.abs(off).max(), np.abs(missing).max()) < tolerance:
            break
        # Problems that are done wait for the others at a gap that still can be computed with.
        tau = np.maximum(SHRINK * gap, 1e-2 * tolerance) / points
        d = w / z
        u = likelihood * (np.sqrt(h) / chance)[:, :, None]
        ut = np.swapaxes(u, 1, 2)
        scaled = d[:, :, None] * np.stack([off + tau[:, None] / w - z, np.ones_like(w)], axis=2)
        small = np.eye(u.shape[1]) + (u * d[:, None, :]) @ ut
        solved = scaled - d[:, :, None] * (ut @ np.linalg.solve(small, u @ scaled))
        step_mu = (solved[..., 0].sum(axis=1) - missing) / solved[..., 1].sum(axis=1)
        step_w = solved[..., 0] - step_mu[:, None] * solved[..., 1]
        step_z = (tau[:, None] - z * step_w) / w - z
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.minimum(
                np.where(step_w < 0, -w / step_w, math.inf).min(axis=1),
                np.where(step_z < 0, -z / step_z, math.inf).min(axis=1),
            )
        length = np.minimum(1.0, STEP_TO_EDGE * room)
        w, z = w + length[:, None] * step_w, z + length[:, None] * step_z
        mu = mu + length * step_mu
    return cast(Floats, w / w.sum(axis=1, keepdims=True))
