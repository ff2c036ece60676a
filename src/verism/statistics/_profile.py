"""Profile likelihood of shares behind an erring judge: how far a share or a mean can move before the data object.

Unknown are the shares pi of the true classes, (K,), and the judge's error rates, rows A of (K, J + 1): the predicted
class, and in the last column no usable answer. The card's items are one multinomial draw for each row. The run's images
with a usable answer are one draw from ``sum_k pi_k A[k, j]``, given that there is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import cast

import numpy as np
from numpy.typing import NDArray

from verism.statistics._common import Floats

ROUNDS = 60  # of three EM steps each for one end and one trial value
TRIALS = 14  # values tried for each end; false position needs six to ten
PRECISE = 2e-3  # of the square root of the likelihood ratio, which is compared with 1.96
CLOSE = 1e-4  # of the range of a number, between which its end lies when the search stops
SLOW = 1e-5  # gain in log-likelihood by a round, below which EM has arrived
TINY = 1e-12

Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Experiment:
    """What was counted.

    Attributes:
        judged: images of the run by predicted class, (J,); any scale.
        card: items by true and predicted class, the last column without a usable answer, (K, J + 1).
    """

    judged: Floats
    card: Floats


def profile_ends(
    experiment: Experiment, values: Floats, sizes: Floats, start: Floats, critical: float
) -> tuple[Floats, Floats]:
    """Ends of the intervals of ``values[f] @ pi``, for F numbers: where twice the loss of log-likelihood is critical.

    Args:
        experiment: the counts, and what is known of the judge.
        values: (F, K), of each class, not all equal.
        sizes: how many independent images the run counts as for each number, (F,).
        start: likely shares, (K,).
        critical: quantile of a chi-square distribution.
    Returns:
        Lower and upper ends, each (F,).
    """
    arrays = (experiment.judged, experiment.card, values, sizes, start)
    parts = tuple((np.shape(array), np.asarray(array, dtype=np.float64).tobytes()) for array in arrays)
    low, high = _profile_ends_once(parts, critical)
    return low.copy(), high.copy()


@lru_cache(maxsize=64)
def _profile_ends_once(arrays: tuple[tuple[tuple[int, ...], bytes], ...], critical: float) -> tuple[Floats, Floats]:
    """As ``profile_ends``: a run that is scored again, by other rules or for another protocol, mostly has the same."""
    judged, card, values, sizes, start = (np.frombuffer(part).reshape(shape) for shape, part in arrays)
    experiment = Experiment(judged, card)
    f = len(values)
    state, best = _free(experiment, values, sizes, start)
    middle = (values * _Fit(experiment.card, np.zeros((f, 1)), values, np.full(f, np.nan)).shares(state)).sum(axis=1)
    least, most = values.min(axis=1), values.max(axis=1)
    # Lower ends first, then upper ones, all at once.
    twice, top, spread = np.tile(values, (2, 1)), np.tile(best, 2), np.tile(most - least, 2)
    n = np.tile(sizes, 2)[:, None] * (experiment.judged / experiment.judged.sum())
    near, far = np.tile(middle, 2), np.concatenate([least, most])
    root = np.sqrt(critical)

    def objection(at: Floats, state: Floats, rounds: int) -> tuple[Floats, Floats]:
        fit = _Fit(experiment.card, n, twice, at)
        state, likelihood = fit.climb(fit.retained(state), rounds)
        return np.sqrt(2 * np.maximum(top - likelihood, 0)) - root, state

    state = np.tile(state, (2, 1, 1))
    edge = far + 1e-9 * np.sign(near - far) * spread  # all images of the other classes: just inside
    at_far, _ = objection(edge, state, ROUNDS // 3)
    done = (at_far <= 0) | (np.abs(far - near) < CLOSE * spread)
    at, at_near, side = np.where(done, near, far), np.full(2 * f, -root), np.zeros(2 * f)
    ends = far.copy()
    for _ in range(TRIALS):
        if done.all():
            break
        # Illinois: an end that stays twice counts half, so that both close in.
        share = np.clip(-at_near / np.maximum(at_far - at_near, TINY), 0.02, 0.98)
        at = np.where(done, at, near + share * (far - near))
        value, reached = objection(at, state, ROUNDS)
        ends = np.where(done, ends, at)
        done |= (np.abs(value) < PRECISE) | (np.abs(far - near) < CLOSE * spread)
        over = value > 0
        at_far, at_near = (
            np.where(over, value, np.where(side == -1, at_far / 2, at_far)),
            np.where(over, np.where(side == 1, at_near / 2, at_near), value),
        )
        far, near, side = np.where(over, at, far), np.where(over, near, at), np.where(over, 1.0, -1.0)
        state = np.where(over[:, None, None], state, reached)  # the next trial lies farther out
    return ends[:f], ends[f:]


def deviance(experiment: Experiment, size: float, start: Floats) -> float:
    """Twice what the best shares and rows lack in log-likelihood against the counts themselves, >= 0.

    Args:
        experiment: the counts, and what is known of the judge.
        size: independent images the run counts as.
        start: likely shares, (K,).
    """
    _, best = _free(experiment, np.eye(len(start))[:1], np.array([size]), start)
    card_shares = experiment.card / experiment.card.sum(axis=1, keepdims=True)
    judged = experiment.judged / experiment.judged.sum()
    most = (experiment.card * np.log(np.maximum(card_shares, TINY))).sum() + size * judged @ np.log(
        np.maximum(judged, TINY)
    )
    return max(0.0, 2 * float(most - best[0]))


def _free(experiment: Experiment, values: Floats, sizes: Floats, start: Floats) -> tuple[Floats, Floats]:
    """State and log-likelihood with no number held, at each of the sizes."""
    f, k = values.shape
    rows = experiment.card + 1 / experiment.card.shape[1]  # classes predicted for no item are possible
    if not experiment.card[:, -1].any():
        rows[:, -1] = 0  # nothing is ever lost
    rows /= rows.sum(axis=1, keepdims=True)
    n = sizes[:, None] * (experiment.judged / experiment.judged.sum())
    fit = _Fit(experiment.card, n, values, np.full(f, np.nan))
    return fit.climb(fit.expected(np.tile(0.95 * start + 0.05 / k, (f, 1)), np.tile(rows, (f, 1, 1))), 4 * ROUNDS)


@dataclass(frozen=True, eq=False)
class _Fit:
    """EM of B problems at once, each with its number held at a value, or free where that is NaN.

    The state is the expected images of the run by true and predicted class, those without an answer last,
    (B, K, J + 1); its columns add up to the observed counts, which steps that overshoot keep.

    Attributes:
        card: (K, J + 1).
        n: (B, J).
        values: (B, K).
        at: (B,).
    """

    card: Floats
    n: Floats
    values: Floats
    at: Floats

    def climb(self, state: Floats, rounds: int) -> tuple[Floats, Floats]:
        """State and log-likelihood of greatest likelihood. EM, overshooting along its last two steps.

        Source: Dempster, Laird & Rubin 1977, JRSS B 39:1-38 (with images that cannot be seen: Sec. 4.2); Varadhan &
            Roland 2008, Scand. J. Stat. 35:335-353 (scheme S3).
        """
        likelihood = np.full(len(state), -np.inf)
        for _ in range(rounds):
            first, before = self.step(state)
            second = self.expected(self.shares(first), self.rows(first))
            r, v = first - state, second - 2 * first + state
            length = np.sqrt((r**2).sum(axis=(1, 2)) / np.maximum((v**2).sum(axis=(1, 2)), TINY))
            length = np.clip(length, 1.0, 1e4)[:, None, None]
            leap = np.maximum(state + 2 * length * r + length**2 * v, 0.01 * np.minimum(state, second))
            leap[:, :, :-1] *= (self.n / np.maximum(leap[:, :, :-1].sum(axis=1), TINY))[:, None, :]
            leapt, there = self.step(leap)
            state = np.where((there >= before)[:, None, None], leapt, second)
            gain = np.maximum(there, before) - likelihood
            likelihood = np.maximum(there, before)
            if gain.max() < SLOW:
                break
        return state, cast(Floats, np.maximum(likelihood, self.step(state)[1]))

    def step(self, state: Floats) -> tuple[Floats, Floats]:
        """The state after one step of EM, and the log-likelihood of the shares and rows that the given one implies."""
        rows = self.rows(state)
        joint, chance, usable = self._seen(self.shares(state), rows)
        likelihood = (self.n * np.log(chance[:, :-1])).sum(axis=1) - self._sizes * np.log(usable)
        likelihood += (self.card * np.log(np.maximum(rows, TINY))).sum(axis=(1, 2))
        return self._share_out(joint, chance, usable), likelihood

    def rows(self, state: Floats) -> Floats:
        """The most likely rates of error for expected images, (B, K, J + 1)."""
        rows = self.card + state
        rows /= np.maximum(rows.sum(axis=2, keepdims=True), TINY)
        return rows

    def expected(self, shares: Floats, rows: Floats) -> Floats:
        """The state that shares (B, K) and rows (B, K, J + 1) imply."""
        return self._share_out(*self._seen(shares, rows))

    def retained(self, state: Floats) -> Floats:
        """A state to start from, from one of another held value: no class is out of the question."""
        return cast(Floats, state + 1e-6 * state.sum(axis=(1, 2), keepdims=True) / state[0].size)

    @staticmethod
    def _seen(shares: Floats, rows: Floats) -> tuple[Floats, Floats, Floats]:
        """Chances of true and predicted class, of each predicted class, and of any usable answer."""
        joint = shares[:, :, None] * rows
        return joint, np.maximum(joint.sum(axis=1), TINY), 1 - joint[:, :, -1].sum(axis=1)

    def _share_out(self, joint: Floats, chance: Floats, usable: Floats) -> Floats:
        per_chance = np.concatenate([self.n / chance[:, :-1], (self._sizes / usable)[:, None]], axis=1)
        return cast(Floats, joint * per_chance[:, None, :])

    def shares(self, state: Floats) -> Floats:
        """The most likely shares for expected images, with the number held, (B, K)."""
        by_class: Floats = state.sum(axis=2) + TINY
        by_class /= by_class.sum(axis=1, keepdims=True)
        if self._free:
            return by_class
        if self._line is not None:
            return self._line.tilted(by_class)
        # One class: the others keep their proportions.
        mean = (by_class * self.values).sum(axis=1, keepdims=True)
        by = np.where(self.values == 1, self.at[:, None] / mean, (1 - self.at[:, None]) / np.maximum(1 - mean, TINY))
        return cast(Floats, by_class * by)

    # What no step changes.
    @cached_property
    def _sizes(self) -> Floats:
        return cast(Floats, self.n.sum(axis=1))

    @cached_property
    def _free(self) -> bool:
        return bool(np.isnan(self.at).all())

    @cached_property
    def _line(self) -> _Line | None:
        """What shares are held to; None where it is the share of one class."""
        alone = (self.values == 0) | (self.values == 1)
        if alone.all() and (self.values.sum(axis=1) == 1).all():
            return None
        return _Line.through(self.values - self.at[:, None])


@dataclass(frozen=True, eq=False)
class _Line:
    """Shares w of sum 1 with ``w @ off = 0``.

    Attributes:
        off: (B, K).
        squared: its squares.
        enough: slopes that are zero but for rounding, (B,).
        low: least multiplier, (B,).
        high: greatest one.
    """

    off: Floats
    squared: Floats
    enough: Floats
    low: Floats
    high: Floats

    @classmethod
    def through(cls, off: Floats) -> _Line:
        """The line of ``off``, (B, K)."""
        return cls(off, off**2, 1e-10 * np.abs(off).max(axis=1), -1 / off.max(axis=1), -1 / off.min(axis=1))

    def tilted(self, shares: Floats) -> Floats:
        """Those of them that maximise ``sum(shares * log(w))``, (B, K).

        Source: Owen 2001, Empirical Likelihood, Sec. 2.9: ``w = shares / (1 + t off)``.
        """
        low, high = self.low, self.high
        t = np.zeros(len(shares))
        by, w = np.ones_like(shares), shares
        for _ in range(40):
            slope = np.add.reduce(w * self.off, axis=1)
            if (np.abs(slope) < self.enough).all():
                break
            falls = slope > 0
            low, high = np.where(falls, t, low), np.where(falls, high, t)
            newton = t + slope / np.add.reduce(w * self.squared / by, axis=1)
            t = np.where((newton > low) & (newton < high), newton, (low + high) / 2)
            by = 1 + t[:, None] * self.off
            w = shares / by
        return w / np.add.reduce(w, axis=1, keepdims=True)
