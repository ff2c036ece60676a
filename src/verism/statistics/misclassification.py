"""Shares of true classes behind the predictions of an erring judge, given its errors on items of known class.

An image of true class k is predicted as j with probability ``C[k, j]``, so with shares pi of the true classes the judge
predicts j with probability ``sum_k pi_k C[k, j]``. From the counts of predictions, and a confusion table of items of
known class, pi follows by maximum likelihood. Both are samples, and the intervals take both into account.

The judge must err on the images of the run as it did on the items of the table: a table from rendered images holds for
generated ones only as far as the judge treats both alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verism.statistics._common import ClusterTotals, Floats, check_confidence, effective_size, finite
from verism.statistics._profile import Experiment, deviance, profile_ends
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

ALIKE = 0.1  # total variation between the predictions for two classes, below which the judge hardly separates them
UNFIT = 0.02  # total variation between the predictions and what the judge can produce, from which it may not fit
FAR = 1.5  # standard deviations between the mean of all images and that of the imaginary cluster
LITTLE = 0.01  # weight of "nothing changes" beside the information of a class on average


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
    """Shares of the true classes with what was counted, from which any number of them is read.

    Make one with ``fit_shares``. Intervals are computed when they are asked for, those of all classes at once.

    Attributes:
        point: shape (K,), sum 1; NaN where they cannot be known.
        counts: None where the shares cannot be known.
        note: see ``AdjustedShares``.
        confidence: confidence level of the intervals.
    """

    point: Floats
    counts: Counted | None
    note: str
    confidence: float

    @cached_property
    def _of_classes(self) -> tuple[Floats, Floats]:
        # Where other shares are 0 the loss is no chi-square of one degree: with that, shares of sparse models are
        # missed too often. One of two degrees is large enough (``benchmarks/imbalance.py``).
        return self._ends(np.eye(len(self.point)), degrees=1 if len(self.point) == 2 else 2)

    def _ends(self, values: Floats, *, degrees: int) -> tuple[Floats, Floats]:
        """Ends of ``values[f] @ shares``, for values (F, K)."""
        if self.counts is None:
            nothing = np.full(len(values), math.nan)
            return nothing, nothing
        critical = _chi_square(degrees, self.confidence)
        sizes = self.counts.sizes(values, self.point, self.confidence)
        low, high = profile_ends(self.counts.experiment, values, sizes, self.point, critical)
        middle = values @ self.point
        return np.minimum(low, middle), np.maximum(high, middle)

    def shares(self) -> AdjustedShares:
        """See ``adjusted_shares``."""
        return AdjustedShares(self.point, *self._of_classes, self.note)

    def mean(self, values: ArrayLike) -> AdjustedValue:
        """See ``adjusted_mean``."""
        numbers = finite(values, "values")
        if numbers.shape != self.point.shape:
            raise ValueError(f"values must have one number for each of the {len(self.point)} classes; "
                             f"got {numbers.shape}")  # fmt: skip
        value = float(self.point @ numbers)
        kinds, codes = np.unique(numbers, return_inverse=True)
        if len(kinds) == 1:  # whatever the shares, but that nothing is known where there are none
            value = float(kinds[0]) + 0 * value
            return AdjustedValue(value, value, value, self.note)
        if len(kinds) == 2 and 1 in (counts := np.bincount(codes)):  # the share of a class, on another scale
            one = int(np.argmin(counts))
            alone = int(np.flatnonzero(codes == one)[0])
            ends = [kinds[1 - one] + (kinds[one] - kinds[1 - one]) * float(e[alone]) for e in self._of_classes]
        else:
            ends = [float(e[0]) for e in self._ends(numbers[None], degrees=1)]
        return AdjustedValue(value, min(*ends, value), max(*ends, value), self.note)

    def mad(self, target: ArrayLike | None = None, *, divisor: str = "K") -> AdjustedValue:
        """See ``adjusted_mad``."""
        k = len(self.point)
        if k != 2:
            raise ValueError(f"the MAD of {k} classes is not adjusted for a judge's error, only that of two; see the "
                             "shares and their intervals")  # fmt: skip
        goal = np.full(k, 1 / k) if target is None else finite(target, "target")
        if goal.shape != (k,) or np.any(goal < 0) or abs(float(goal.sum()) - 1) > 1e-6:
            raise ValueError(f"target must be {k} shares >= 0 of sum 1; got {goal.tolist()}")
        if divisor not in ("K", "K-1"):
            raise ValueError(f"divisor must be 'K' or 'K-1'; got {divisor!r}")
        by = k if divisor == "K" else k - 1
        middle, below, above = (2 * float(s[0] - goal[0]) / by for s in (self.point, *self._of_classes))
        nearest = 0.0 if below <= 0 <= above else min(abs(below), abs(above))
        return AdjustedValue(abs(middle), nearest + 0 * middle, max(abs(below), abs(above)), self.note)


@dataclass(frozen=True, eq=False)
class Counted:
    """A run and a card.

    Attributes:
        per: images of the run by cluster and predicted class, (P, J); None where images are independent.
        experiment: all images, and the items.
    """

    per: Floats | None
    experiment: Experiment

    def sizes(self, values: Floats, shares: Floats, confidence: float) -> Floats:
        """How many independent images carry as much information on ``values[f] @ shares`` as these clustered ones.

        A prediction enters a number by its influence on it, (J,): clusters may agree on light and dark, and hardly on
        neighbouring tones. The influence is that of weighted least squares, with a little weight on "nothing changes",
        as it has no bounds where the judge hardly separates classes.
        """
        if self.per is None:
            return np.full(len(values), float(self.experiment.judged.sum()))
        per = self.per[self.per.sum(axis=1) > 0]
        card, lost = self.experiment.card[:, :-1], self.experiment.card[:, -1]
        k, j = card.shape
        usable_share = card.sum(axis=1)
        rates = (card + 1 / j) / (usable_share[:, None] + 1)
        usable = (usable_share + 0.5) / (usable_share + lost + 1)
        likely = 0.9 * shares + 0.1 / k
        judged = likely @ rates
        information = rates / judged @ rates.T
        information += LITTLE * np.trace(information) / k * np.eye(k)
        off = (values - (values @ likely)[:, None]) / usable
        influence = np.linalg.solve(information, off.T).T @ (rates / judged)
        return np.array([self._size(per, g, confidence) for g in influence])

    @staticmethod
    def _size(per: Floats, influence: Floats, confidence: float) -> float:
        n, judged = float(per.sum()), per.sum(axis=0)
        middle, squares = float(judged @ influence) / n, float(judged @ influence**2)
        deviation = math.sqrt(max(squares / n - middle**2, 1e-12))
        # A class never predicted has the greatest influence, but the imaginary cluster is one that there may be.
        ends = {"lowest": middle - FAR * deviation, "highest": middle + FAR * deviation}
        return effective_size(ClusterTotals(per @ influence, per.sum(axis=1)), squares, **ends, confidence=confidence)


def adjusted_shares(
    observed: ArrayLike | None,
    confusion: ArrayLike,
    *,
    observed_by_cluster: ArrayLike | None = None,
    unusable: ArrayLike | None = None,
    confidence: float = 0.95,
) -> AdjustedShares:
    """Maximum likelihood shares of the true classes, on the simplex, with intervals.

    For two classes the value is that of ``rogan_gladen``. The interval of a class holds the shares that the data do not
    reject: with the share held there, the best of all other shares and of all rates of error makes counts of the
    run and of the table nearly as likely as any (profile likelihood; chi-square of one degree, for shares of more than
    two classes of two, see ``docs/imbalance.md``). With clusters, the run counts as so many independent images as
    carry as much information on this share.

    Args:
        observed: images predicted as each class, shape (J,). None with ``observed_by_cluster``, else its sums.
        confusion: items of known class, ``confusion[k, j]`` of class k that were predicted as j, shape (K, J). J may
            exceed K ("no answer" as a further prediction).
        observed_by_cluster: the same per prompt, shape (P, J): the interval is then clustered by prompt.
        unusable: items of each class without a usable answer, shape (K,). A judge that misses one class more often than
            another makes it rarer among its answers: shares are then those of all images that show a class, and not
            only of those with an answer. None: no such items, and shares of images with an answer.
        confidence: confidence level, in (0, 1).
    Returns:
        NaN, with a note, without images, without items of a class, or for a judge of two classes no better than
        chance. The note also names classes that the judge hardly separates (their intervals are wide, their sum is
        better known than either), and reports predictions that no shares can explain.
    Raises:
        ValueError: counts that are negative, not finite, or do not fit the table.
    Source: Rogan & Gladen 1978, Am. J. Epidemiol. 107:71-76; Hopkins & King 2010, Am. J. Polit. Sci. 54:229-247 (shares
        through a confusion matrix); Venzon & Moolgavkar 1988, Appl. Stat. 37:87-94 (profile likelihood); Rao & Scott
        1992, Biometrics 48:577-585 (effective sample size).
    """
    return fit_shares(
        observed,
        confusion,
        observed_by_cluster=observed_by_cluster,
        unusable=unusable,
        confidence=confidence,
    ).shares()


def adjusted_mean(
    observed: ArrayLike | None,
    confusion: ArrayLike,
    values: ArrayLike,
    *,
    observed_by_cluster: ArrayLike | None = None,
    unusable: ArrayLike | None = None,
    confidence: float = 0.95,
) -> AdjustedValue:
    """Mean value of the true classes: tones 1 to 10, or -1 and +1 of perceived gender.

    Args:
        observed: see ``adjusted_shares``.
        confusion: see ``adjusted_shares``.
        values: of each true class, shape (K,).
        observed_by_cluster: see ``adjusted_shares``.
        unusable: see ``adjusted_shares``.
        confidence: see ``adjusted_shares``.
    """
    fitted = fit_shares(
        observed,
        confusion,
        observed_by_cluster=observed_by_cluster,
        unusable=unusable,
        confidence=confidence,
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
    confidence: float = 0.95,
) -> AdjustedValue:
    """Mean absolute deviation of the shares of all images together from a target (``metrics.imbalance.pooled_mad``).

    Only of two classes, where it is a share on another scale. Of more, the most likely shares have a MAD of their own:
    where the judge blurs neighbours it is too small for a model that shows few classes, and too large for one that
    shows all alike, by more than an interval around it would hold. Read the shares there.

    The mean over prompts of their own MADs is another number (``metrics.imbalance.adjusted_prompt_mad``).

    Args:
        observed: see ``adjusted_shares``.
        confusion: see ``adjusted_shares``.
        target: shares, shape (2,). None: uniform.
        divisor: ``K`` or ``K-1``.
        observed_by_cluster: see ``adjusted_shares``.
        unusable: see ``adjusted_shares``.
        confidence: see ``adjusted_shares``.
    Raises:
        ValueError: more than two classes; or as for ``adjusted_shares``.
    """
    fitted = fit_shares(
        observed,
        confusion,
        observed_by_cluster=observed_by_cluster,
        unusable=unusable,
        confidence=confidence,
    )
    return fitted.mad(target, divisor=divisor)


def fit_shares(
    observed: ArrayLike | None,
    confusion: ArrayLike,
    *,
    observed_by_cluster: ArrayLike | None = None,
    unusable: ArrayLike | None = None,
    confidence: float = 0.95,
) -> FittedShares:
    """What ``adjusted_shares``, ``adjusted_mean`` and ``adjusted_mad`` rest on, to read all three from one fit.

    Args:
        observed: see ``adjusted_shares``.
        confusion: see ``adjusted_shares``.
        observed_by_cluster: see ``adjusted_shares``.
        unusable: see ``adjusted_shares``.
        confidence: see ``adjusted_shares``.
    Raises:
        ValueError: as there.
    """
    check_confidence(confidence)
    table = np.asarray(confusion, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] < 2 or table.shape[1] < table.shape[0]:
        raise ValueError(f"confusion must have shape (true classes, said classes), two or more; got {table.shape}")
    k, j = table.shape
    per = None if observed_by_cluster is None else np.asarray(observed_by_cluster, dtype=np.float64)
    if observed is None and per is None:
        raise ValueError("give observed, or observed_by_cluster")
    if per is not None and (per.ndim != 2 or per.shape[1] != j):
        raise ValueError(f"observed_by_cluster must have shape (clusters, {j}), as confusion says; got {per.shape}")
    judged = per.sum(axis=0) if observed is None and per is not None else np.asarray(observed, dtype=np.float64)
    if judged.shape != (j,):
        raise ValueError(
            f"observed must have a count of each of the {j} classes that confusion has; got {judged.shape}"
        )
    for name, counts in (("confusion", table), ("observed", judged), ("observed_by_cluster", per)):
        if counts is not None and not (np.isfinite(counts).all() and np.all(counts >= 0)):
            raise ValueError(f"{name} must be counts >= 0")
    if per is not None and not np.allclose(per.sum(axis=0), judged):
        raise ValueError("observed must be the sums of observed_by_cluster; leave it None to have them computed")

    lost = np.zeros(k) if unusable is None else np.asarray(unusable, dtype=np.float64)
    if lost.shape != (k,) or not np.isfinite(lost).all() or (lost < 0).any():
        raise ValueError(f"unusable must be a count >= 0 of each of the {k} true classes; got {lost}")

    def nothing(note: str) -> FittedShares:
        return FittedShares(np.full(k, math.nan), None, note, confidence)

    if judged.sum() == 0:
        return nothing("no images with an answer")
    usable = table.sum(axis=1)
    if empty := np.flatnonzero(usable == 0).tolist():
        return nothing(f"no items of true class {', '.join(map(str, empty))}: how the judge errs there is unknown")
    rates = table / usable[:, None]
    if k == j == 2 and rates[0, 0] + rates[1, 1] <= 1:
        return nothing("the judge is no better than chance, so its answers carry no information about the shares")
    usable_shares = _solve(rates, judged / judged.sum())
    shares = usable_shares * (usable + lost) / usable
    shares /= shares.sum()
    counts = Counted(per, Experiment(judged, np.column_stack([table, lost])))
    notes = [_alike(rates), _unfit(counts, usable_shares @ rates, shares, confidence)]
    return FittedShares(shares, counts, "; ".join(note for note in notes if note), confidence)


def _solve(rates: Floats, judged: Floats) -> Floats:
    """Shares (K,) of greatest likelihood, from rates (K, J) and shares of predictions (J,)."""
    likelihood = np.maximum(rates.T, 1e-12)  # a class may be predicted that was predicted for no item
    shares = maximise_on_simplex(likelihood[None], judged[None], np.zeros((1, len(rates))), tolerance=1e-9)[0]
    shares = np.where(shares < 1e-6, 0.0, shares)  # an interior point method only comes near
    return cast(Floats, shares / shares.sum())


def _alike(rates: Floats) -> str:
    """Names pairs of classes whose images the judge calls nearly the same."""
    k = len(rates)
    apart = np.abs(rates[:, None, :] - rates[None, :, :]).sum(axis=2) / 2
    pairs = [f"{a} and {b}" for a in range(k) for b in range(a + 1, k) if apart[a, b] < ALIKE]
    if pairs:
        return f"the judge hardly separates classes {', '.join(pairs)}: only their sum is known well"
    smallest = float(np.linalg.svd(rates, compute_uv=False)[-1])
    if smallest < ALIKE:
        return f"the table is nearly singular (smallest singular value {smallest:.3f}): mixtures of classes look alike"
    return ""


def _unfit(counts: Counted, expected: Floats, shares: Floats, confidence: float) -> str:
    """A note where no shares explain the predictions, not even with error rates that the items leave open."""
    judged = counts.experiment.judged / counts.experiment.judged.sum()
    if np.abs(judged - expected).sum() / 2 <= UNFIT:
        return ""
    size = float(counts.sizes(np.eye(len(shares)), shares, confidence).min())
    if deviance(counts.experiment, size, shares) < _chi_square(len(judged) - 1, 0.99):
        return ""
    return (
        "no shares explain this judge's answers, even within the uncertainty of its error rates: it errs differently "
        "on these images than on the items of the table"
    )


def _chi_square(degrees: int, probability: float) -> float:
    from scipy.special import chdtri

    return float(chdtri(degrees, 1 - probability))
