"""Shares of classes behind what an erring judge says, given how it errs on items of known class.

A picture of true class k is called j with chance ``C[k, j]``; shares pi of the true classes make the judge say j with
chance ``sum_k pi_k C[k, j]``. From the counts of what was said, and a table of how the judge called items of known
class, pi follows by maximum likelihood. Both are samples, and the intervals take both into account.

The judge must err on the pictures of the run as it did on the items of the table: a table from rendered pictures speaks
for generated ones only as far as these look alike to the judge.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verism.statistics._common import Floats, check_level, check_resamples, finite
from verism.statistics._simplex import maximise_on_simplex

__all__ = [
    "AdjustedShares",
    "AdjustedValue",
    "FittedShares",
    "adjusted_mad",
    "adjusted_mean",
    "adjusted_shares",
    "fit_shares",
]

ALIKE = 0.1  # total variation between what is said of two classes, below which the judge hardly tells them apart
UNFIT = 0.02  # total variation between what was said and what the judge can produce, from which a draw does not fit


class AdjustedShares(NamedTuple):
    """Shares of the true classes.

    Attributes:
        shares: shape (K,), sum 1; NaN where they cannot be known.
        low: lower ends of their intervals, one class at a time, shape (K,).
        high: upper ends.
        note: why there are none, or what to mind; empty when all is well.
    """

    shares: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    note: str


class AdjustedValue(NamedTuple):
    """A number from the shares of the true classes, with interval and note as in ``AdjustedShares``."""

    value: float
    low: float
    high: float
    note: str


@dataclass(frozen=True, eq=False)
class FittedShares:
    """Shares of the true classes with the draws behind their intervals, from which any number of them is read.

    Make one with ``fit_shares``; the draws are the costly part, and the same for all numbers.

    Attributes:
        point: shape (K,), sum 1; NaN where they cannot be known. draws: shape (n_resamples, K).
        note: see ``AdjustedShares``. level: of intervals.
    """

    point: Floats
    draws: Floats
    note: str
    level: float

    def shares(self) -> AdjustedShares:
        """See ``adjusted_shares``."""
        ends = [_ends(self.draws[:, k], self.point[k], self.level) for k in range(len(self.point))]
        low, high = np.array(ends).T
        return AdjustedShares(self.point, low, high, self.note)

    def mean(self, values: ArrayLike) -> AdjustedValue:
        """See ``adjusted_mean``."""
        numbers = finite(values, "values")
        if numbers.shape != self.point.shape:
            raise ValueError(f"values must have one number for each of the {len(self.point)} classes; "
                             f"got {numbers.shape}")  # fmt: skip
        value = float(self.point @ numbers)
        return AdjustedValue(value, *_ends(self.draws @ numbers, value, self.level), self.note)

    def mad(self, target: ArrayLike | None = None, *, divisor: str = "K") -> AdjustedValue:
        """See ``adjusted_mad``."""
        k = len(self.point)
        goal = np.full(k, 1 / k) if target is None else finite(target, "target")
        if goal.shape != (k,) or np.any(goal < 0) or abs(float(goal.sum()) - 1) > 1e-6:
            raise ValueError(f"target must be {k} shares >= 0 of sum 1; got {goal.tolist()}")
        if divisor not in ("K", "K-1"):
            raise ValueError(f"divisor must be 'K' or 'K-1'; got {divisor!r}")
        by = k if divisor == "K" else k - 1
        value = float(np.abs(self.point - goal).sum())
        if math.isnan(value):
            return AdjustedValue(value, math.nan, math.nan, self.note)
        off = self.draws - goal
        around = float(np.quantile(np.abs(self.draws - self.point).sum(axis=1), self.level))
        # Classes above the target, as one: a share, whose draws are not pulled upwards as absolute values are.
        low, high = _ends(2 * off[:, self.point > goal].sum(axis=1), value, self.level)
        pull = max(0.0, float(np.mean(np.abs(off).sum(axis=1))) - value)
        low = 0.0 if value <= around else max(0.0, low - pull)
        return AdjustedValue(value / by, low / by, high / by, self.note)


def adjusted_shares(
    observed: ArrayLike | None,
    confusion: ArrayLike,
    *,
    observed_by_cluster: ArrayLike | None = None,
    unusable: ArrayLike | None = None,
    n_resamples: int = 2000,
    seed: int = 0,
    level: float = 0.95,
) -> AdjustedShares:
    """Maximum likelihood shares of the true classes, on the simplex, with intervals.

    For two classes the value is that of ``rogan_gladen``. The interval holds the middle of the values found again from
    tables and counts that could as well be true: rows of the table are drawn from a Dirichlet distribution of their
    counts plus 1/J each (a row without errors may still err), the run from that of its counts plus 1/J each or, with
    clusters, from random weights of its clusters, one imaginary cluster without preference among them.

    Args:
        observed: pictures that were called each class, shape (J,). None with ``observed_by_cluster``, else its sums.
        confusion: items of known class, ``confusion[k, j]`` of class k that were called j, shape (K, J). J may exceed K
            ("no answer" as one more thing to say).
        observed_by_cluster: the same per prompt, shape (P, J): the interval is then clustered by prompt.
        unusable: items of each class of which the judge said nothing that could be used, shape (K,). A judge that
            overlooks one class more often than another makes it rarer among what it does tell of: shares are then those
            of all pictures that show a class, and not only of those of which something was said. None: no items, and
            shares of the latter.
        n_resamples: draws behind the interval.
        seed: of these.
        level: confidence level, in (0, 1).
    Returns:
        NaN, with a note, without pictures, without items of a class, or for a judge of two classes no better than
        chance. The note also names classes that the judge hardly tells apart (their intervals are wide, their sum is
        better known than either), and says when no shares make the judge say what it said.
    Raises:
        ValueError: counts that are negative, not finite, or do not fit the table.
    Source: Rogan & Gladen 1978, Am. J. Epidemiol. 107:71-76; Hopkins & King 2010, Am. J. Polit. Sci. 54:229-247 (shares
        through a confusion matrix); Rubin 1981, Ann. Stat. 9:130-134 (weights of clusters).
    """
    return fit_shares(
        observed,
        confusion,
        observed_by_cluster=observed_by_cluster,
        unusable=unusable,
        n_resamples=n_resamples,
        seed=seed,
        level=level,
    ).shares()


def adjusted_mean(
    observed: ArrayLike | None,
    confusion: ArrayLike,
    values: ArrayLike,
    *,
    observed_by_cluster: ArrayLike | None = None,
    unusable: ArrayLike | None = None,
    n_resamples: int = 2000,
    seed: int = 0,
    level: float = 0.95,
) -> AdjustedValue:
    """Mean value of the true classes: tones 1 to 10, or -1 and +1 of perceived gender.

    Args:
        values: of each true class, shape (K,). The rest as for ``adjusted_shares``.
    """
    fitted = fit_shares(
        observed,
        confusion,
        observed_by_cluster=observed_by_cluster,
        unusable=unusable,
        n_resamples=n_resamples,
        seed=seed,
        level=level,
    )
    return fitted.mean(values)


def adjusted_mad(
    observed: ArrayLike | None,
    confusion: ArrayLike,
    target: ArrayLike | None = None,
    *,
    divisor: str = "K",
    observed_by_cluster: ArrayLike | None = None,
    unusable: ArrayLike | None = None,
    n_resamples: int = 2000,
    seed: int = 0,
    level: float = 0.95,
) -> AdjustedValue:
    """Mean absolute deviation of the shares of all pictures together from a target (``metrics.imbalance.pooled_mad``).

    Absolute deviations of an estimate are too large on average. So the interval is that of the excess of the classes
    above the target, taken together; its lower end is lowered by how much draws are above the estimate on average, and
    is 0 where draws lie as far from the estimate as the estimate lies from the target. The value is not corrected.

    The mean over prompts of their own MADs is another number. Inverting the few pictures of each prompt would blow up
    their noise, which absolute values then add up: for two classes use ``metrics.imbalance.adjusted_prompt_mad``.

    Args:
        target: shares, shape (K,). None: uniform.
        divisor: ``K`` or ``K-1``. The rest as for ``adjusted_shares``.
    """
    fitted = fit_shares(
        observed,
        confusion,
        observed_by_cluster=observed_by_cluster,
        unusable=unusable,
        n_resamples=n_resamples,
        seed=seed,
        level=level,
    )
    return fitted.mad(target, divisor=divisor)


def fit_shares(
    observed: ArrayLike | None,
    confusion: ArrayLike,
    *,
    observed_by_cluster: ArrayLike | None = None,
    unusable: ArrayLike | None = None,
    n_resamples: int = 2000,
    seed: int = 0,
    level: float = 0.95,
) -> FittedShares:
    """What ``adjusted_shares``, ``adjusted_mean`` and ``adjusted_mad`` rest on, to read all three from one fit.

    Args: see ``adjusted_shares``.
    Raises:
        ValueError: as there.
    """
    check_level(level)
    check_resamples(n_resamples)
    table = np.asarray(confusion, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] < 2 or table.shape[1] < table.shape[0]:
        raise ValueError(f"confusion must have shape (true classes, said classes), two or more; got {table.shape}")
    k, j = table.shape
    per = None if observed_by_cluster is None else np.asarray(observed_by_cluster, dtype=np.float64)
    if observed is None and per is None:
        raise ValueError("give observed, or observed_by_cluster")
    if per is not None and (per.ndim != 2 or per.shape[1] != j):
        raise ValueError(f"observed_by_cluster must have shape (clusters, {j}), as confusion says; got {per.shape}")
    said = per.sum(axis=0) if observed is None and per is not None else np.asarray(observed, dtype=np.float64)
    if said.shape != (j,):
        raise ValueError(f"observed must have a count of each of the {j} classes that confusion has; got {said.shape}")
    for name, counts in (("confusion", table), ("observed", said), ("observed_by_cluster", per)):
        if counts is not None and not (np.isfinite(counts).all() and np.all(counts >= 0)):
            raise ValueError(f"{name} must be counts >= 0")
    if per is not None and not np.allclose(per.sum(axis=0), said):
        raise ValueError("observed must be the sums of observed_by_cluster; leave it None to have them computed")

    def nothing(note: str) -> FittedShares:
        return FittedShares(np.full(k, math.nan), np.full((1, k), math.nan), note, level)

    if said.sum() == 0:
        return nothing("no pictures with an answer")
    if empty := np.flatnonzero(table.sum(axis=1) == 0).tolist():
        return nothing(f"no items of true class {', '.join(map(str, empty))}: how the judge errs there is unknown")
    rates = table / table.sum(axis=1, keepdims=True)
    if k == j == 2 and rates[0, 0] + rates[1, 1] <= 1:
        return nothing("the judge is no better than chance, so what it says tells nothing about the shares")
    shares = _solve(rates[None], said[None] / said.sum())[0]
    rng = np.random.default_rng(seed)
    tables = rng.gamma(np.broadcast_to(table + 1 / j, (n_resamples, k, j)))
    tables = np.maximum(tables, 1e-12)
    tables /= tables.sum(axis=2, keepdims=True)
    runs = _runs(rng, said, per, n_resamples)
    draws = _solve(tables, runs)
    notes = [_alike(rates), _unfit(draws, tables, runs)]
    if unusable is not None:
        lost = np.asarray(unusable, dtype=np.float64)
        if lost.shape != (k,) or not np.isfinite(lost).all() or (lost < 0).any():
            raise ValueError(f"unusable must be a count >= 0 of each of the {k} true classes; got {lost}")
        told = table.sum(axis=1)
        shares = _of_all(shares, told / (told + lost))
        # With half an item of either kind: a class that was never lost may be lost, too.
        draws = _of_all(draws, rng.beta(told + 0.5, lost + 0.5, size=(n_resamples, k)))
    return FittedShares(shares, draws, "; ".join(note for note in notes if note), level)


def _of_all(shares: Floats, usable: Floats) -> Floats:
    """Shares of all pictures from shares of the usable ones, by the share of each class that is usable."""
    whole = shares / usable
    return cast(Floats, whole / whole.sum(axis=-1, keepdims=True))


def _runs(rng: np.random.Generator, said: Floats, per: Floats | None, n: int) -> Floats:
    """Shares of what is said, drawn anew, (n, J)."""
    j = len(said)
    if per is None:
        drawn = rng.gamma(np.broadcast_to(said + 1 / j, (n, j)))
    else:
        per = per[per.sum(axis=1) > 0]
        size = float(np.sum(per.sum(axis=1) ** 2) / per.sum())  # of the cluster the average picture is in
        drawn = rng.exponential(size=(n, len(per))) @ per + size * rng.gamma(1 / j, size=(n, j))
    drawn = np.maximum(drawn, 1e-12)
    return cast(Floats, drawn / drawn.sum(axis=1, keepdims=True))


def _solve(rates: Floats, said: Floats) -> Floats:
    """Shares (B, K) of greatest likelihood, from rates (B, K, J) and shares of what was said (B, J)."""
    n, k, _ = rates.shape
    likelihood = np.maximum(np.swapaxes(rates, 1, 2), 1e-12)  # something was said that no item was ever called
    shares = maximise_on_simplex(likelihood, said, np.zeros((n, k)), tolerance=1e-9)
    shares = np.where(shares < 1e-6, 0.0, shares)  # an interior point method only comes near
    return cast(Floats, shares / shares.sum(axis=1, keepdims=True))


def _alike(rates: Floats) -> str:
    """Names pairs of classes whose pictures the judge calls nearly the same."""
    k = len(rates)
    apart = np.abs(rates[:, None, :] - rates[None, :, :]).sum(axis=2) / 2
    pairs = [f"{a} and {b}" for a in range(k) for b in range(a + 1, k) if apart[a, b] < ALIKE]
    if pairs:
        return f"the judge hardly tells classes {', '.join(pairs)} apart: only their sum is known well"
    smallest = float(np.linalg.svd(rates, compute_uv=False)[-1])
    if smallest < ALIKE:
        return f"the table is nearly singular (smallest singular value {smallest:.3f}): mixtures of classes look alike"
    return ""


def _unfit(draws: Floats, tables: Floats, runs: Floats) -> str:
    said = (draws[:, None, :] @ tables)[:, 0, :]
    off = np.abs(said - runs).sum(axis=1) / 2
    if np.mean(off > UNFIT) < 0.975:
        return ""
    return (
        "no shares make this judge say what it said, even with its uncertainty: it errs differently on these pictures "
        "than on the items of the table"
    )


def _ends(draws: Floats, value: float, level: float) -> tuple[float, float]:
    if math.isnan(value):
        return math.nan, math.nan
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return min(float(low), value), max(float(high), value)
