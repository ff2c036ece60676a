"""How far shares of perceived classes lie from a target: mean absolute deviation (MAD), and what small counts hide.

With nine images a prompt, a model that draws every image by a fair coin has a MAD of 0.137 on average, not 0. So
the mean over prompts comes with ``expected`` (what an unbiased model would show) and ``debiased``, an estimate for the
true shares. Arrays in, numbers out; NaN where there is nothing to measure.

Notation: ``counts`` (..., K) images of each of K classes, target shares t, observed shares p, true shares pi.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verism.metrics import _mixture
from verism.statistics import Interval, cluster_bootstrap_mean, clustered_proportion, wilson

__all__ = [
    "Divisor",
    "JointShare",
    "PooledMad",
    "PromptMad",
    "adjusted_prompt_mad",
    "expected_mad",
    "joint_shares",
    "mad",
    "mean_std",
    "pooled_mad",
    "prompt_mad",
    "std",
    "unbiased_test",
]

Floats = NDArray[np.float64]
Divisor = Literal["K", "K-1"]

END_TOLERANCE = 1e-6  # of a sum of deviations, from the largest one there can be
NULL_RUNS = 200  # simulated runs of an unbiased model behind the debiased estimate
NULL_LARGEST = 200  # beyond so many images a prompt, the simulation takes this many: it hardly depends on the number
CHUNK_CELLS = 4_000_000  # simulated counts held at once: 32 MB
SUM_TOLERANCE = 1e-6


class PromptMad(NamedTuple):
    """Mean over prompts of the MAD of each prompt.

    Attributes:
        value: as published: from observed shares, so too high for few images a prompt.
        low: interval of ``value`` by resampling prompts. It is about the MAD at these numbers of images.
        high: its upper end.
        expected: mean MAD that a model without imbalance would show at these numbers of images.
        debiased: estimate of the mean over prompts of the MAD of the true shares.
        debiased_low: interval of ``debiased``; 0 where the run may come from a model without imbalance.
        debiased_high: its upper end.
        n_prompts: prompts with an image.
        n_used: images.
    """

    value: float
    low: float
    high: float
    expected: float
    debiased: float
    debiased_low: float
    debiased_high: float
    n_prompts: int
    n_used: int

    @property
    def debiased_interval(self) -> Interval:
        return Interval(self.debiased, self.debiased_low, self.debiased_high)


class PooledMad(NamedTuple):
    """MAD of the shares of all images together, with an interval in which prompts are the units.

    Attributes:
        value: in [0, largest MAD].
        low: 0 where prompts that agree with the target on the whole would show as much.
        high: upper end.
        expected: what independent images without imbalance would show. Prompts that differ raise it.
        n_prompts: prompts with an image.
        n_used: images.
    """

    value: float
    low: float
    high: float
    expected: float
    n_prompts: int
    n_used: int


class JointShare(NamedTuple):
    """Share of one combination of labels among the images that have all labels.

    Attributes:
        labels: one per column, in the order of the columns.
        n: images of the combination.
        clusters: prompts these are from.
        share: share of all usable images.
        low: lower end of its interval, clustered by prompt.
        high: upper end.
        reported: False below the minimum cell size: the numbers are then for looking closer, not for tables.
        note: says so in words, else empty.
    """

    labels: tuple[str, ...]
    n: int
    clusters: int
    share: float
    low: float
    high: float
    reported: bool
    note: str


# ---------------------------------------------------------------------------------------------------------- the measure
def mad(counts: ArrayLike, target: ArrayLike | None = None, *, divisor: Divisor = "K") -> Any:
    """Mean absolute deviation of shares from a target: ``sum_i |p_i - t_i| / divisor``.

    Args:
        counts: images of each class, shape (..., K), K >= 2.
        target: shares, shape (K,) or that of counts. None: uniform.
        divisor: ``K`` as the DALL-Eval text and code have it, largest value 0.5 for two classes; ``K-1`` as Tables 8
            and 9 of its first version print it (a factor of K / (K - 1)).
    Returns:
        Float for one set of counts, else an array of shape (...). NaN where there are no images.
    Raises:
        ValueError: counts that are negative or not whole, or a target that is no distribution over the classes.
    Source: Cho et al. 2022, arXiv:2202.04053v1, Sec. 4.4, and ICCV 2023, Sec. 4.2.4.

    >>> round(mad([90, 55]), 4), round(mad([90, 55], divisor="K-1"), 4)
    (0.1207, 0.2414)
    """
    c, t = _checked(counts, target)
    return _scalar(_deviation(c, t) / _by(divisor, c.shape[-1]))


def std(counts: ArrayLike, target: ArrayLike | None = None) -> Any:
    """Root mean square deviation of shares from a target, ``sqrt(mean_i (p_i - t_i)**2)``. Otherwise as ``mad``.

    Source: Cho et al. 2022, arXiv:2202.04053v1, Sec. 4.4 (there called standard deviation).
    """
    c, t = _checked(counts, target)
    return _scalar(np.sqrt(np.mean((_shares(c) - t) ** 2, axis=-1)))


def mean_std(counts: ArrayLike, target: ArrayLike | None = None) -> float:
    """Mean over prompts of ``std``; prompts without images do not enter. NaN if none has any.

    Args:
        counts: images by prompt and class, shape (P, K).
        target: share of each class, shape (K,) or (P, K); None: all equal.
    """
    values = np.atleast_1d(std(counts, target))
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else math.nan


def expected_mad(n: ArrayLike, target: ArrayLike, *, divisor: Divisor = "K") -> Any:
    """Exact mean of ``mad`` over images that are drawn from the target itself.

    Args:
        n: images, scalar or shape (...).
        target: shares, shape (K,) or (..., K).
        divisor: ``K`` or ``K-1``, see ``mad``.
    Returns:
        Float or array of shape (...); NaN where n is 0.
    Raises:
        ValueError: n negative or not whole, or a target that is no distribution.
    Source: de Moivre's closed form of the binomial mean absolute deviation,
        ``E|X/n - t| = 2 t (1 - t) P(Bin(n - 1, t) = floor(n t))`` (Diaconis & Zabell 1991, Stat. Sci. 6:284-302).

    >>> round(expected_mad(9, [0.5, 0.5]), 4)
    0.1367
    """
    from scipy.special import gammaln, xlog1py, xlogy

    number = np.asarray(n, dtype=np.float64)
    if not (np.isfinite(number).all() and np.all(number >= 0) and np.all(number == np.round(number))):
        raise ValueError(f"n must be whole numbers of images, >= 0; got {n!r}")
    t = _target(target, None)
    number = number[..., None]
    above = np.floor(number * t)
    with np.errstate(invalid="ignore", divide="ignore"):
        ways = gammaln(number) - gammaln(above + 1) - gammaln(number - above)
        mass = np.exp(ways + xlogy(above, t) + xlog1py(number - 1 - above, -t))
    terms = np.where((t <= 0) | (t >= 1), 0.0, 2 * t * (1 - t) * mass)
    total = np.where(number[..., 0] > 0, terms.sum(axis=-1), math.nan)
    return _scalar(total / _by(divisor, t.shape[-1]))


# --------------------------------------------------------------------------------------------------------- over prompts
def prompt_mad(
    counts: ArrayLike,
    target: ArrayLike | None = None,
    *,
    divisor: Divisor = "K",
    n_resamples: int = 2000,
    seed: int = 0,
    confidence: float = 0.95,
) -> PromptMad:
    """Mean over prompts of the MAD of each, what chance alone would show, and an estimate without that part.

    The debiased value rests on a mixture: each prompt has true shares, drawn from an unknown distribution. MAD is a sum
    over classes, so only the distribution of one class's share at a time is needed; it is estimated by nonparametric
    maximum likelihood (a binomial mixture on a fine grid that contains the target), and its mean distance from the
    target follows. Such a fit takes part of the noise for spread. So the value is shrunk by ``1 - c / LR``, not below
    0: LR is twice the gain in log-likelihood of the fit over "all prompts have the target", c its mean in simulated
    runs of a model without imbalance. A clear imbalance is hardly changed.

    The interval is one of profile likelihood: all values that some mixture has whose log-likelihood is close enough to
    the best. "Close enough" is the chi-square quantile with one degree of freedom, downwards at least the quantile of
    LR simulated without imbalance, because near 0 the chi-square is too small. Binomial counts of few images do not
    tell every distribution apart; the interval contains what they leave open. Classes are tied together by one
    multiplier, and for K > 2 the threshold is scaled by how their deviations vary together.

    With a single prompt there is no distribution over prompts: value and debiased are about that prompt, the interval
    of both is the range of MADs within the likelihood region of its shares (Clopper-Pearson for two classes).

    Args:
        counts: images of each class per prompt, shape (P, K). Prompts without images are left out.
        target: shape (K,), or (P, K) for a target of each prompt's own. None: uniform. With targets that differ,
            prompts are taken to be alike in how far they go of the way from their target to 0 or 1.
        divisor: see ``mad``.
        n_resamples: of prompts, for the interval of ``value``.
        seed: of these, and of the simulated runs without imbalance.
        confidence: confidence level of both intervals, in (0, 1).
    Raises:
        ValueError: as ``mad``; counts not of shape (P, K).
    Source: Kiefer & Wolfowitz 1956, Ann. Math. Stat. 27:887-906, and Laird 1978, JASA 73:805-811 (mixture estimate);
        Murphy & van der Vaart 2000, JASA 95:449-465 (profile likelihood); Vinayak et al. 2019, ICML (binomial mixture).
        The shrinkage and the threshold at 0 are ours; measured in docs/imbalance.md.
    """
    c, t = _used(counts, target)
    k, by = c.shape[-1], _by(divisor, c.shape[-1])
    if not len(c):
        nan = math.nan
        return PromptMad(nan, nan, nan, nan, nan, nan, nan, 0, 0)
    values = _deviation(c, t)
    n = c.sum(axis=1)
    expected = float(np.mean(expected_mad(n, t, divisor=divisor)))
    value = float(values.mean()) / by
    if len(c) == 1:
        low, high = (end / by for end in _single_interval(c[0], t[0], confidence, seed))
        debiased = value * max(0.0, 1 - (k - 1) / float(_distance(c[0], t[0]))) if value > 0 else 0.0
        debiased = min(max(debiased, low), high)
        return PromptMad(value, low, high, expected, debiased, low, high, 1, int(n.sum()))
    ends = _mean_interval(values, float(_largest(t).max()), n_resamples, seed, confidence)
    unbiased = _debiased(c, t, confidence, seed)
    estimate = unbiased.value / by, unbiased.low / by, unbiased.high / by
    return PromptMad(value, ends.low / by, ends.high / by, expected, *estimate, len(c), int(n.sum()))


def adjusted_prompt_mad(
    counts: ArrayLike,
    confusion: ArrayLike,
    target: ArrayLike | None = None,
    *,
    divisor: Divisor = "K",
    seed: int = 0,
    confidence: float = 0.95,
) -> Interval:
    """Mean over prompts of the MAD of true shares, for two classes and a judge that errs.

    The debiased estimate of ``prompt_mad``, with the judge in the mixture: an image of a prompt with share pi of the
    first class is called so with probability ``pi s + (1 - pi)(1 - r)``, s and r the judge's shares of right answers of
    either class. No prompt's own counts are inverted. The judge's uncertainty enters by putting the ends of the Wilson
    intervals of s and r in, one at a time, and adding the squares of the changes.

    For more than two classes this does not work one class at a time: what is called class i depends on the shares of
    all others. Adjust the pooled shares then (``verism.statistics.misclassification``).

    Args:
        counts: as the judge said, shape (P, 2), two prompts or more.
        confusion: items of known class, ``confusion[i][j]`` of class i called j, shape (2, 2), rows not empty.
        target: as in ``prompt_mad``.
        divisor: as in ``prompt_mad``.
        seed: as in ``prompt_mad``.
        confidence: as in ``prompt_mad``.
    Returns:
        The estimate and its interval. NaN if no prompts, or the judge is no better than chance.
    Raises:
        ValueError: other shapes, empty rows, or a single prompt.
    """
    c, t = _used(counts, target)
    table = np.asarray(confusion, dtype=np.float64)
    if c.shape[-1] != 2 or table.shape != (2, 2):
        raise ValueError(f"adjusted_prompt_mad needs two classes; got counts {c.shape}, confusion {table.shape}")
    if not np.isfinite(table).all() or np.any(table < 0) or np.any(table.sum(axis=1) == 0):
        raise ValueError(f"confusion must have counts >= 0, and items of either class; got {table.tolist()}")
    if len(c) == 1:
        raise ValueError("adjusted_prompt_mad needs two prompts or more; for one, adjust its shares")
    right = [wilson(table[i, i], table[i].sum(), confidence=confidence) for i in (0, 1)]
    nothing = Interval(math.nan, math.nan, math.nan)
    if not len(c) or right[0].value + right[1].value <= 1:
        return nothing
    by = _by(divisor, 2)
    known = right[0].value, right[1].value
    plain = _debiased(c, t, confidence, seed, judge=known)
    down, up = (plain.value - plain.low) ** 2, (plain.high - plain.value) ** 2
    for index in (0, 1):
        moved = []
        for end in (right[index].low, right[index].high):
            judge = (end, known[1]) if index == 0 else (known[0], end)
            if sum(judge) <= 1:
                down = up = math.inf
                break
            moved.append(_debiased(c, t, confidence, seed, judge=judge, null_judge=known).value - plain.value)
        else:
            down += max(0.0, -min(moved)) ** 2
            up += max(0.0, max(moved)) ** 2
    largest = float(np.mean(_largest(t)))
    low, high = max(0.0, plain.value - math.sqrt(down)), min(largest, plain.value + math.sqrt(up))
    return Interval(plain.value / by, low / by, high / by)


def pooled_mad(
    counts: ArrayLike,
    target: ArrayLike | None = None,
    *,
    divisor: Divisor = "K",
    n_resamples: int = 2000,
    seed: int = 0,
    confidence: float = 0.95,
) -> PooledMad:
    """MAD of the shares of all images together, with an interval clustered by prompt.

    The upper end, and the lower one where it is not 0, are those of the classes above their target taken together: MAD
    is twice their excess over the divisor, and their share has a ``clustered_proportion`` interval. The lower end is 0
    unless the deviation exceeds the quantile of those of resampled prompts from the sample itself. With a single prompt
    the interval is that of ``prompt_mad``.

    Args, Raises: as for ``prompt_mad``. A target per prompt counts by the prompt's number of images.
    """
    c, t = _used(counts, target)
    by = _by(divisor, c.shape[-1])
    if not len(c):
        return PooledMad(math.nan, math.nan, math.nan, math.nan, 0, 0)
    n, total = c.sum(axis=1), float(c.sum())
    goal = n @ t / total
    shares = c.sum(axis=0) / total
    value = float(np.abs(shares - goal).sum())
    expected = float(expected_mad(total, goal, divisor=divisor))
    if len(c) == 1:
        low, high = _single_interval(c[0], t[0], confidence, seed)
        return PooledMad(value / by, low / by, high / by, expected, 1, int(total))
    above = shares > goal if value > 0 else np.arange(len(goal)) == goal.argmin()
    inside = c[:, above].sum(axis=1).astype(np.int64)
    each = np.stack([inside, n.astype(np.int64) - inside], axis=1).ravel()
    labels = np.repeat(np.repeat(np.arange(len(c)), 2), each)
    indicator = np.repeat(np.tile([1.0, 0.0], len(c)), each)
    ends = clustered_proportion(indicator, labels, confidence=confidence)
    room = float(goal[above].sum())
    rng = np.random.default_rng(seed)
    off = c - n[:, None] * t
    drawn = rng.multinomial(len(c), np.full(len(c), 1 / len(c)), size=n_resamples)
    moved = np.abs((drawn @ off) / (drawn @ n)[:, None] - (shares - goal)).sum(axis=1)
    chance = float(np.quantile(moved, confidence))
    low = 0.0 if value <= chance else max(0.0, 2 * (ends.low - room))
    high = 2 * (ends.high - room)
    return PooledMad(value / by, low / by, high / by, expected, len(c), int(total))


def unbiased_test(
    counts: ArrayLike, target: ArrayLike | None = None, *, n_resamples: int = 1999, seed: int = 0
) -> float:
    """p-value of "every image of every prompt is drawn from the target", by simulation of just that.

    One-sided: the share of simulated runs, the observed one among them, whose mean MAD over prompts is as high or
    higher. The smallest possible value is ``1 / (n_resamples + 1)``. NaN without images.

    Raises: as ``prompt_mad``.
    """
    c, t = _used(counts, target)
    if not len(c):
        return math.nan
    n = c.sum(axis=1).astype(np.int64)
    observed = float(_deviation(c, t).mean())
    rng = np.random.default_rng(seed)
    step, reached = max(1, CHUNK_CELLS // c.size), 0
    for start in range(0, n_resamples, step):
        drawn = rng.multinomial(n, t, size=(min(step, n_resamples - start), len(n)))
        simulated = np.abs(drawn / n[:, None] - t).sum(axis=-1).mean(axis=1)
        reached += int(np.count_nonzero(simulated >= observed - 1e-12))
    return (reached + 1) / (n_resamples + 1)


def joint_shares(
    labels: Mapping[str, Sequence[str | None]],
    clusters: Sequence[Any],
    min_cell: int = 10,
    *,
    categories: Mapping[str, Sequence[str]] | None = None,
    confidence: float = 0.95,
) -> list[JointShare]:
    """Shares of every combination of labels, such as perceived gender and tone, with intervals clustered by prompt.

    Args:
        labels: columns by name, each with one label per image; None: no answer. Images without an answer in any
            column are left out of all shares.
        clusters: prompt of each image.
        min_cell: images a combination needs to be reported.
        categories: all classes of columns, in order, so that combinations nobody saw stay in the table. A column not
            named has those that occur, sorted.
        confidence: confidence level, in (0, 1).
    Returns:
        One row per combination, in order of the categories.
    Raises:
        ValueError: no columns, columns of unequal length, labels outside the categories, min_cell < 1.
    """
    lengths = {name: len(column) for name, column in labels.items()}
    if not labels or set(lengths.values()) != {len(clusters)}:
        raise ValueError(f"labels must have one or more columns of the {len(clusters)} images; got {lengths}")
    if min_cell < 1:
        raise ValueError(f"min_cell must be a number of images, >= 1; got {min_cell}")
    known = {
        name: tuple((categories or {}).get(name) or sorted({x for x in column if x is not None}))
        for name, column in labels.items()
    }
    for name, column in labels.items():
        if unknown := sorted({x for x in column if x is not None} - set(known[name])):
            raise ValueError(f"column {name!r} has labels outside its categories: {unknown}; map or declare them")
    rows = list(zip(*labels.values(), strict=True))
    usable = [i for i, row in enumerate(rows) if None not in row]
    prompts = np.unique(np.asarray([str(clusters[i]) for i in usable]), return_inverse=True)[1]
    cells = []
    for cell in product(*known.values()):
        hits = np.array([rows[i] == cell for i in usable], dtype=np.float64)
        n = int(hits.sum())
        share = clustered_proportion(hits, prompts, confidence=confidence)
        note = "" if n >= min_cell else f"{n} images, fewer than the {min_cell} a combination needs"
        cells.append(JointShare(cell, n, len(set(prompts[hits > 0].tolist())), *share, n >= min_cell, note))
    return cells


# ------------------------------------------------------------------------------------------------------------- debiased
def _debiased(
    c: Floats,
    t: Floats,
    confidence: float,
    seed: int,
    *,
    judge: tuple[float, float] = (1.0, 1.0),
    null_judge: tuple[float, float] | None = None,
) -> Interval:
    """Sum over classes of the mean distance of true shares from the target, for two prompts or more.

    With ``null_judge``, runs without imbalance are those of that judge, and there is no interval.
    """
    return _debiased_once(c.tobytes(), t.tobytes(), c.shape[1], confidence, seed, judge, null_judge)


@lru_cache(maxsize=64)
def _debiased_once(
    counts: bytes,
    targets: bytes,
    k: int,
    confidence: float,
    seed: int,
    judge: tuple[float, float],
    null_judge: tuple[float, float] | None,
) -> Interval:
    """As ``_debiased``: a run that is scored again, by another card or other rules, mostly has the same counts."""
    c, t = (np.frombuffer(part).reshape(-1, k) for part in (counts, targets))
    # Two classes mirror each other: one is enough, and the sum is twice its distance.
    classes = 1 if c.shape[1] == 2 else c.shape[1]
    twice = 2.0 if classes == 1 else 1.0
    mixture = _mixture.mixture(c[:, :classes], c.sum(axis=1), t[:, :classes], judge)
    fit = mixture.fit(np.zeros(classes))
    best = mixture.log_likelihood(fit)
    gain = 2 * float(best.sum() - mixture.log_likelihood_at_target().sum())
    size = min(NULL_LARGEST, max(1, round(float(np.median(c.sum(axis=1))))))
    goal = t.mean(axis=0)
    null = _null_gain(len(c), size, tuple((goal / goal.sum()).tolist()), null_judge or judge, seed)
    shrink = max(0.0, 1 - float(null.mean()) / gain) if gain > 0 else 0.0
    value = shrink * float(mixture.distance(fit).sum())
    if null_judge is not None:
        return Interval(twice * value, math.nan, math.nan)
    from scipy.special import chdtri

    threshold = float(chdtri(1, 1 - confidence)) * _dependence(c, t, classes)
    lower_threshold = max(threshold, float(np.quantile(null, confidence)))
    low, high = mixture.profile(float(best.sum()), lower_threshold / 2, threshold / 2)
    ends = twice * value, twice * min(low, value), twice * max(high, value)
    # Classes are fitted one by one, so that their sum can pass what all of them can reach; and the search stops just
    # short of the last point of its grid, which the truth may lie on.
    largest = float(_largest(t).mean())
    return Interval(*(largest if end > largest - END_TOLERANCE else end for end in ends))


def _dependence(c: Floats, t: Floats, classes: int) -> float:
    """Variance between prompts of the sum of deviations over the sum of their variances, in [1, K]."""
    if classes == 1:
        return 1.0
    off = np.abs(_shares(c) - t)
    apart = float(off.var(axis=0, ddof=1).sum())
    return min(max(float(off.sum(axis=1).var(ddof=1)) / apart, 1.0), classes) if apart > 0 else float(classes)


@lru_cache(maxsize=256)
def _null_gain(prompts: int, n: int, target: tuple[float, ...], judge: tuple[float, float], seed: int) -> Floats:
    """Twice the gain in log-likelihood over "all prompts have the target", simulated where that is so."""
    rng = np.random.default_rng([seed, prompts, n])
    t = np.array(target)
    if len(t) == 2:
        predicted = t[0] * judge[0] + t[1] * (1 - judge[1])
        drawn = rng.binomial(n, predicted, size=(NULL_RUNS, prompts))[..., None]
    else:
        drawn = rng.multinomial(n, t, size=(NULL_RUNS, prompts))
    total = np.zeros(NULL_RUNS)
    x = np.arange(n + 1.0)[:, None]
    for column in range(drawn.shape[-1]):
        times = np.stack([np.count_nonzero(drawn[..., column] == k, axis=1) for k in range(n + 1)], axis=1)
        one = _mixture.mixture(x, np.full(n + 1, float(n)), np.full((n + 1, 1), t[column]), judge, half=20)
        many = one.repeated(times.astype(np.float64))
        fitted = many.fit(np.zeros(NULL_RUNS), tolerance=1e-5)
        total += 2 * (many.log_likelihood(fitted) - many.log_likelihood_at_target())
    return np.maximum(total, 0.0)


# ------------------------------------------------------------------------------------------------------ a single prompt
def _distance(c: Floats, t: Floats) -> Any:
    """Likelihood ratio statistic of multinomials (..., K) against the target; infinite if it forbids what is seen."""
    from scipy.special import xlogy

    with np.errstate(divide="ignore"):
        return 2 * np.sum(xlogy(c, _shares(c)) - xlogy(c, t), axis=-1)


def _single_interval(c: Floats, t: Floats, confidence: float, seed: int) -> tuple[float, float]:
    """Range of sum_i |pi_i - t_i| in the likelihood region of one multinomial, all sets of classes at a time.

    The sum is twice the largest excess of a set of classes over its target. Every set's share is bounded by its
    binomial likelihood interval at the threshold of the whole region, so the bounds hold for all sets together.
    """
    from scipy.special import betaincinv, chdtri

    n, k = float(c.sum()), len(c)
    if k == 2:  # Clopper & Pearson 1934, Biometrika 26:404-413
        tail, x = (1 - confidence) / 2, float(c[0])
        low = float(betaincinv(x, n - x + 1, tail)) if x > 0 else 0.0
        high = float(betaincinv(x + 1, n - x, 1 - tail)) if x < n else 1.0
        ends = abs(low - t[0]), abs(high - t[0])
        return (0.0 if low <= t[0] <= high else 2 * float(min(ends))), 2 * float(max(ends))
    null = _distance(np.random.default_rng(seed).multinomial(int(n), t, size=2000).astype(np.float64), t)
    threshold = max(float(chdtri(k - 1, 1 - confidence)), float(np.quantile(null, confidence)))
    order = np.argsort(c / n - t)[::-1]
    up = down = 0.0
    # Any sets bound from below, and those of the first classes by excess do so best. From above all sets count; of
    # those with the same number of images, the one with the least target does.
    for size in range(1, k):
        inside = order[:size]
        down = max(down, _binomial_end(c[inside].sum(), n, threshold, upper=False) - t[inside].sum())
    for inside in _sets(c, t):
        up = max(up, _binomial_end(c[inside].sum(), n, threshold, upper=True) - t[inside].sum())
    return 2 * max(0.0, float(down)), 2 * float(up)


def _sets(c: Floats, t: Floats) -> list[NDArray[np.intp]]:
    """For every possible number of images, the set of classes with it that has the least target."""
    best: dict[int, tuple[float, tuple[int, ...]]] = {0: (0.0, ())}
    for index, (count, goal) in enumerate(zip(c.tolist(), t.tolist(), strict=True)):
        for had, (least, members) in list(best.items()):
            new = had + int(count), (least + goal, (*members, index))
            if count > 0 and (new[0] not in best or new[1][0] < best[new[0]][0]):
                best[new[0]] = new[1]
    empty = np.flatnonzero(c == 0)
    sets = [np.array(members, dtype=np.intp) for _, members in best.values() if members]
    # Nothing is seen of these classes, yet they may have a share: the least wanted of them alone.
    return sets + ([empty[[np.argmin(t[empty])]]] if len(empty) else [])


def _binomial_end(x: float, n: float, threshold: float, *, upper: bool) -> float:
    """End of {p: 2 log likelihood ratio of x of n <= threshold}, by bisection."""
    from scipy.special import xlogy

    p = x / n
    inside, outside = p, (1.0 if upper else 0.0)
    for _ in range(50):
        middle = (inside + outside) / 2
        with np.errstate(divide="ignore"):
            ratio = 2 * (xlogy(x, p) + xlogy(n - x, 1 - p) - xlogy(x, middle) - xlogy(n - x, 1 - middle))
        inside, outside = (middle, outside) if ratio <= threshold else (inside, middle)
    return float(inside)


def _mean_interval(values: Floats, largest: float, n_resamples: int, seed: int, confidence: float) -> Interval:
    """Bootstrap of the mean; where all prompts agree, Wilson's, as a share of the largest value, with n prompts.

    A variable in [0, 1] varies at most as 0 and 1 do, so Wilson's interval is wide enough.
    """
    values = values.round(12)  # rounding must not decide which prompts count as alike
    if np.ptp(values) > 0:
        bootstrap = cluster_bootstrap_mean(
            values,
            np.arange(len(values)),
            n_resamples=n_resamples,
            seed=seed,
            confidence=confidence,
            bounds=(0.0, largest),
        )
        if not math.isnan(bootstrap.low):
            return bootstrap
    share = min(1.0, float(values.mean()) / largest) if largest > 0 else 0.0
    ends = wilson(share * len(values), len(values), confidence=confidence)
    return Interval(float(values.mean()), ends.low * largest, ends.high * largest)


# --------------------------------------------------------------------------------------------------------------- inputs
def _checked(counts: ArrayLike, target: ArrayLike | None) -> tuple[Floats, Floats]:
    c = np.asarray(counts, dtype=np.float64)
    if c.ndim < 1 or c.shape[-1] < 2:
        raise ValueError(f"counts must have two or more classes in the last axis; got shape {c.shape}")
    if not (np.isfinite(c).all() and np.all(c >= 0) and np.all(c == np.round(c))):
        raise ValueError("counts must be whole numbers >= 0, images of each class; leave out what has no answer")
    return c, np.broadcast_to(_target(target, c.shape), c.shape)


def _target(target: ArrayLike | None, shape: tuple[int, ...] | None) -> Floats:
    if target is None:
        assert shape is not None
        return np.full(shape[-1], 1 / shape[-1])
    t = np.asarray(target, dtype=np.float64)
    if shape is not None and t.shape not in (shape, shape[-1:]):
        raise ValueError(f"target must have shape {shape[-1:]} or {shape}, as counts; got {t.shape}")
    if t.ndim < 1 or t.shape[-1] < 2 or not np.isfinite(t).all() or np.any(t < 0):
        raise ValueError("target must be shares >= 0 of two or more classes")
    sums = t.sum(axis=-1, keepdims=True)
    if np.any(np.abs(sums - 1) > SUM_TOLERANCE):
        raise ValueError(f"target must sum to 1; got sums from {sums.min():.6g} to {sums.max():.6g}")
    return cast(Floats, t / sums)


def _used(counts: ArrayLike, target: ArrayLike | None) -> tuple[Floats, Floats]:
    """Counts and targets of the prompts that have an image."""
    c, t = _checked(counts, target)
    if c.ndim != 2:
        raise ValueError(f"counts must have shape (prompts, classes); got {c.shape}")
    some = c.sum(axis=1) > 0
    return c[some], t[some]


def _shares(c: Floats) -> Floats:
    n = c.sum(axis=-1, keepdims=True)
    return cast(Floats, np.divide(c, n, out=np.full(c.shape, math.nan), where=n > 0))


def _deviation(c: Floats, t: Floats) -> Floats:
    return cast(Floats, np.abs(_shares(c) - t).sum(axis=-1))


def _largest(t: Floats) -> Floats:
    """Largest possible sum of deviations from each target: everything in its smallest class."""
    return cast(Floats, 2 * (1 - t.min(axis=-1)))


def _by(divisor: str, k: int) -> int:
    if divisor not in ("K", "K-1"):
        raise ValueError(f"divisor must be 'K' or 'K-1'; got {divisor!r}")
    return k if divisor == "K" else k - 1


def _scalar(values: Any) -> Any:
    return float(values) if np.ndim(values) == 0 else values
