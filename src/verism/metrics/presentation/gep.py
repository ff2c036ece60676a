"""Gender presentation differences: frequencies, GEP vector and GEP score, with intervals and tests by prompt pair.

A value is what one estimator says of one image and one attribute: a label 0 or 1, a probability, a cosine. A *group*
is the gender (or other term) the prompt names, a *cluster* the pair of prompts that differ in nothing but the group.
The images of a pair are resampled, swapped and counted together: prompts are what was sampled, and a context that
brings coats brings them to both. Labels are what a judge perceives in an image, never who someone is.

Source of the definitions: "Auditing Gender Presentation Differences in Text-to-Image Models", 2023. The intervals, the
tests and the score by chance are ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verism.statistics import clustered_proportion, holm, paired_difference
from verism.statistics._common import (
    ClusterTotals,
    check_confidence,
    check_resamples,
    cluster_codes,
    ratio_variance,
    student_quantile,
)

__all__ = [
    "ContextScores",
    "ExactPair",
    "Frequencies",
    "PairPresentation",
    "Presentation",
    "ScoreEstimate",
    "context_scores",
    "exact_frequencies",
    "exact_pairs",
    "exact_score",
    "exact_vector",
    "frequencies",
    "gep_score",
    "gep_vector",
    "largest_gap",
    "prompt_major",
    "vector_with_intervals",
]

Floats = NDArray[np.float64]

CHUNK_CELLS = 4_000_000  # deals held at once: 32 MB
MOST_HALVINGS = 200  # some 35 are needed, unless standard errors differ by orders of magnitude


# ------------------------------------------------------------------------------------------------------- plain numbers
def gep_vector(first: ArrayLike, second: ArrayLike) -> Floats:
    """Frequencies of the first group minus those of the second: positive where the first group shows it more.

    Args:
        first: frequency of each attribute, shape (A,). With genders the first is the woman, as published.
        second: the same attributes in the same order, shape (A,).
    Returns:
        Shape (A,); in [-1, 1] for shares. NaN where a frequency is undefined.
    Raises:
        ValueError: not one-dimensional, or of unequal length.

    >>> gep_vector([0.5, 0.25], [0.25, 0.25])
    array([0.25, 0.  ])
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError(
            f"gep_vector needs two frequencies of each attribute, shape (A,) twice; got shapes {a.shape} and {b.shape}"
        )
    return a - b


def gep_score(vector: ArrayLike) -> float:
    """Mean absolute entry of a GEP vector: 0 when the groups are presented alike; at most 1 for shares.

    Args:
        vector: shape (A,).
    Returns:
        NaN if any entry is: a mean over fewer attributes could not be compared with one over all.
    Raises:
        ValueError: not one-dimensional, or empty.

    >>> gep_score([0.25, -0.75])
    0.5
    """
    v = np.asarray(vector, dtype=np.float64)
    if v.ndim != 1 or not len(v):
        raise ValueError(f"gep_score needs at least one entry, shape (A,); got shape {v.shape}")
    return float(np.mean(np.abs(v)))


def largest_gap(frequency: ArrayLike) -> Floats:
    """Largest minus smallest frequency of each attribute over the groups; its mean is the score of many groups.

    With two groups it is the absolute GEP vector.

    Args:
        frequency: shape (G, A), at least two groups.
    Returns:
        Shape (A,), >= 0. NaN where any group's frequency is.
    Raises:
        ValueError: fewer than two groups, or not two-dimensional.

    >>> largest_gap([[0.5, 0.0], [0.25, 0.0], [0.75, 1.0]])
    array([0.5, 1. ])
    """
    f = np.asarray(frequency, dtype=np.float64)
    if f.ndim != 2 or len(f) < 2:
        raise ValueError(f"largest_gap needs frequencies of at least two groups, shape (G, A); got shape {f.shape}")
    return np.asarray(f.max(axis=0) - f.min(axis=0), dtype=np.float64)


def prompt_major(values: ArrayLike, n_images: int) -> NDArray[Any]:
    """Flat images ``0_0, 0_1, ..., 0_4, 1_0, ...`` by prompt: image n belongs to prompt ``n // n_images``.

    Args:
        values: shape (P * n_images, ...).
        n_images: images of each prompt, >= 1.
    Returns:
        Shape (P, n_images, ...): row p holds the images of prompt p, and no others.
    Raises:
        ValueError: the images do not divide into prompts.
    Source: order of the published arrays. The published grouping by context takes them for image-major (first axis
        images), which mixes contexts; this one does not.
    """
    array = np.asarray(values)
    if n_images < 1 or array.ndim < 1 or len(array) % n_images:
        raise ValueError(
            f"prompt_major needs {n_images} images of every prompt, n_images >= 1; got values of shape {array.shape}"
        )
    return array.reshape(len(array) // n_images, n_images, *array.shape[1:])


# --------------------------------------------------------------------------------------------------------- frequencies
@dataclass(frozen=True, kw_only=True)
class Frequencies:
    """Mean value of each group and attribute.

    Attributes:
        groups: G names.
        attributes: A names.
        values: shape (G, A); a share in [0, 1] for labels and probabilities. NaN without a usable image.
        n_used: usable values behind each, shape (G, A).
        n_unusable: values that were NaN, shape (G, A).
    """

    groups: tuple[Any, ...]
    attributes: tuple[Any, ...]
    values: Floats
    n_used: NDArray[np.int64]
    n_unusable: NDArray[np.int64]


def frequencies(
    values: ArrayLike,
    groups: ArrayLike,
    attributes: ArrayLike,
    *,
    group_order: Sequence[Any] | None = None,
    attribute_order: Sequence[Any] | None = None,
) -> Frequencies:
    """Mean value of each group and attribute, one row per (image, attribute) that was judged.

    A neutral image has one row for each attribute; an image made for one attribute has a single row. So an attribute
    an image was never judged for cannot be counted as absent.

    Args:
        values: labels 0/1 or estimates, shape (N,). NaN: could not be judged; left out and counted.
        groups: of each row, shape (N,).
        attributes: of each row, shape (N,).
        group_order: groups of the result. None: in order of appearance.
        attribute_order: attributes of the result. None: in order of appearance.
    Raises:
        ValueError: arrays of unequal length, infinite values, or a name that the order does not list.
    """
    rows = _rows(values, groups, attributes, None, group_order, attribute_order)
    shape = (len(rows.group_names), len(rows.attribute_names))
    cell = rows.group * shape[1] + rows.attribute
    usable = ~np.isnan(rows.values)
    size = shape[0] * shape[1]
    n_used = np.bincount(cell[usable], minlength=size)
    n_all = np.bincount(cell, minlength=size)
    sums = _sorted_sums(rows.values[usable], cell[usable], size)
    with np.errstate(invalid="ignore"):
        means = sums / n_used
    return Frequencies(
        groups=rows.group_names,
        attributes=rows.attribute_names,
        values=means.reshape(shape),
        n_used=n_used.astype(np.int64).reshape(shape),
        n_unusable=(n_all - n_used).astype(np.int64).reshape(shape),
    )


def exact_frequencies(
    labels: ArrayLike,
    groups: ArrayLike,
    attributes: ArrayLike,
    *,
    group_order: Sequence[Any] | None = None,
    attribute_order: Sequence[Any] | None = None,
) -> dict[Any, dict[Any, Fraction | None]]:
    """Frequencies of 0/1 labels as fractions: equal differences are equal then, which floats do not promise.

    Differences such as 1/80, reached from different counts, differ in the last bit as floats. Ranks (Kendall's tau) and
    the sign of zero then depend on rounding.

    Args:
        labels: 0, 1 or NaN (left out), shape (N,).
        groups: as for ``frequencies``.
        attributes: as for ``frequencies``.
        group_order: as for ``frequencies``.
        attribute_order: as for ``frequencies``.
    Returns:
        ``{group: {attribute: share}}``; None without a usable label.
    Raises:
        ValueError: as for ``frequencies``; or a value other than 0 and 1.
    """
    shares = frequencies(labels, groups, attributes, group_order=group_order, attribute_order=attribute_order)
    array = np.asarray(labels, dtype=np.float64)
    if not _binary(array[~np.isnan(array)]):
        raise ValueError("exact_frequencies needs labels 0 and 1 (or NaN); for estimates use frequencies")
    counts = np.rint(np.nan_to_num(shares.values) * shares.n_used).astype(int)
    return {
        group: {
            attribute: Fraction(int(counts[g, a]), int(shares.n_used[g, a])) if shares.n_used[g, a] else None
            for a, attribute in enumerate(shares.attributes)
        }
        for g, group in enumerate(shares.groups)
    }


def exact_vector(first: Sequence[Fraction], second: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """``gep_vector`` of fractions. ValueError for unequal lengths.

    >>> exact_vector([Fraction(1, 80)], [Fraction(3, 80)])
    (Fraction(-1, 40),)
    """
    if len(first) != len(second):
        raise ValueError(
            f"exact_vector needs two frequencies of each attribute; got {len(first)} and {len(second)} of them"
        )
    return tuple(a - b for a, b in zip(first, second, strict=True))


def exact_score(vector: Sequence[Fraction]) -> Fraction:
    """``gep_score`` of fractions. ValueError for an empty vector."""
    if not vector:
        raise ValueError("exact_score needs at least one entry; got none")
    return sum((abs(v) for v in vector), Fraction(0)) / len(vector)


class ExactPair(NamedTuple):
    """Vector and score of two groups, as fractions.

    Attributes:
        groups: first and second.
        vector: frequency with the first group less that with the second, by attribute.
        score: mean absolute entry.
        largest_gap: mean over attributes of the largest less the smallest frequency of *all* groups; None for two.
    """

    groups: tuple[str, str]
    vector: dict[str, Fraction]
    score: Fraction
    largest_gap: Fraction | None


def exact_pairs(frequency: Mapping[str, Mapping[str, Fraction]]) -> list[ExactPair]:
    """Vector and score of every pair of groups, the earlier group first.

    Args:
        frequency: share of images that show the attribute, by group and attribute: every group has the same attributes.
    Returns:
        One entry for each pair, in the order of the groups; attributes in the order of the first group.
    Raises:
        ValueError: a group that lacks an attribute, or no attributes.

    >>> exact_pairs({"woman": {"tie": Fraction(1, 80)}, "man": {"tie": Fraction(3, 80)}})[0].score
    Fraction(1, 40)
    """
    groups = list(frequency)
    names = list(frequency[groups[0]]) if groups else []
    if wrong := [group for group in groups if set(frequency[group]) != set(names)]:
        raise ValueError(f"groups need the same attributes; {wrong[0]!r} has others than {groups[0]!r}")
    shares = {group: [frequency[group][name] for name in names] for group in groups}
    gap = None
    if len(groups) > 2:
        gap = exact_score([max(each) - min(each) for each in zip(*shares.values(), strict=True)])
    pairs = []
    for first, second in combinations(groups, 2):
        vector = exact_vector(shares[first], shares[second])
        pairs.append(ExactPair((first, second), dict(zip(names, vector, strict=True)), exact_score(vector), gap))
    return pairs


# ------------------------------------------------------------------------------------------------ intervals and tests
class ScoreEstimate(NamedTuple):
    """A mean of absolute differences, and what noise does to it.

    Noise cannot cancel in absolute values: where nothing differs, the score is still above 0. So read it beside
    ``by_chance``.

    Attributes:
        value: the score as defined.
        low: lower end of the interval of the score that infinitely many prompt pairs would have.
        high: upper end; never below ``value``.
        debiased: estimate of that score, with what noise adds taken off; at least 0.
        by_chance: mean score when groups are swapped at random within prompt pairs: what "no difference" looks like.
        p_value: share of such swaps with a score at least as large, in (0, 1]: a test of all attributes at once.
    """

    value: float
    low: float
    high: float
    debiased: float
    by_chance: float
    p_value: float


@dataclass(frozen=True, kw_only=True)
class PairPresentation:
    """How the first of two groups is presented differently from the second. Arrays have shape (A,).

    Attributes:
        first: name of the group that positive entries stand for.
        second: name of the other.
        vector: frequency of the first minus the second.
        low: lower ends of its intervals; NaN where it cannot be known.
        high: upper ends.
        p_value: two-sided, of "the groups are presented alike", from swapping the groups within prompt pairs.
        p_adjusted: Holm's, over all attributes and all pairs of groups.
        n_clusters: prompt pairs with a usable image of both groups.
        score: mean absolute entry.
    """

    first: Any
    second: Any
    vector: Floats
    low: Floats
    high: Floats
    p_value: Floats
    p_adjusted: Floats
    n_clusters: NDArray[np.int64]
    score: ScoreEstimate


@dataclass(frozen=True, kw_only=True)
class Presentation:
    """GEP of one estimator in one setting.

    Attributes:
        frequencies: means, and how many values are behind them.
        frequency_low: lower ends of their intervals by prompt, shape (G, A); NaN where they cannot be known.
        frequency_high: upper ends.
        pairs: one per pair of groups, in the order of ``groups``: (0, 1), (0, 2), ..., (1, 2), ...
        score: largest gap over the groups, mean over attributes. With two groups it is the GEP score.
    """

    frequencies: Frequencies
    frequency_low: Floats
    frequency_high: Floats
    pairs: tuple[PairPresentation, ...]
    score: ScoreEstimate


def vector_with_intervals(
    values: ArrayLike,
    groups: ArrayLike,
    attributes: ArrayLike,
    clusters: ArrayLike,
    *,
    group_order: Sequence[Any] | None = None,
    attribute_order: Sequence[Any] | None = None,
    seed: int = 0,
    n_resamples: int = 2_000,
    confidence: float = 0.95,
) -> Presentation:
    """GEP vectors and scores of one estimator in one setting, with intervals and tests by prompt pair.

    *Clusters.* In the neutral setting a cluster is a context, and all attributes are judged on the same images. In
    the explicit setting each attribute has prompts of its own: a cluster is (attribute, context). Clusters with the
    same attributes form a stratum; each stratum is resampled for itself, to its own number of clusters, and all
    attributes of a stratum together.

    *Intervals of entries*: Student's t with K - 1 degrees of freedom times the linearised standard error between the K
    pairs of an attribute. If all its values are 0 or 1, two imaginary matches of images are added, one that only the
    first group has and one that only the second has (Bonett & Price), so that 0 of 80 against 0 of 80 has a width too.

    *Interval of the score.* A mean of absolute values lies above the true one by an amount that depends on which
    entries are near 0. So the ends are those true scores under which the observed one would be just too large, or just
    too small. The true vector behind a score is taken from the family ``sign(v) * sqrt(max(0, v**2 + t * s**2))`` (s:
    standard error of v), which moves small entries much and large ones hardly; its noise is that of resampled vectors.
    The debiased score is the one whose noisy scores average to the observed one. The lower end is 0 unless the test
    by swaps says that something differs.

    *Tests.* If groups are presented alike, they can be swapped in any prompt pair. The p-value of an attribute is that
    of ``paired_difference``; the score by chance is the mean over ``n_resamples`` random swaps, which take all
    attributes of an image along.

    Args:
        values: labels 0/1 or estimates, shape (N,). NaN: could not be judged; left out and counted.
        groups: of each row, shape (N,); at least two.
        attributes: of each row, shape (N,).
        clusters: prompt pair of each row, shape (N,); equal for the prompts that differ in the group only.
        group_order: order of the groups; entries are the earlier minus the later. None: order of appearance.
        attribute_order: order of the attributes. None: order of appearance.
        seed: of resamples and swaps. The result does not depend on the order of rows.
        n_resamples: resamples and swaps, >= 1.
        confidence: confidence level, in (0, 1).
    Raises:
        ValueError: fewer than two groups, arrays of unequal length, infinite values, missing cluster labels.
    Source: Cochran 1977, Sampling Techniques, Ch. 6; Bonett & Price 2012, J. Educ. Behav. Stat. 37:479-488;
        Davison & Hinkley 1997, Bootstrap Methods, Sec. 5.5 (inverting a test); Gouriéroux, Monfort & Renault 1993, J.
        Appl. Econom. 8:S85-S118 (matching the observed statistic); Holm 1979, Scand. J. Stat. 6:65-70.
    """
    check_confidence(confidence)
    check_resamples(n_resamples)
    rows = _rows(values, groups, attributes, clusters, group_order, attribute_order)
    if len(rows.group_names) < 2:
        raise ValueError(f"a presentation difference needs at least two groups; got {list(rows.group_names)}")
    shares = frequencies(values, groups, attributes, group_order=group_order, attribute_order=attribute_order)
    table = _table(rows)
    resampled = _resampled(table, np.random.default_rng([seed, 0]), n_resamples)
    swapped = _swapped(table, np.random.default_rng([seed, 1]), n_resamples, range(len(rows.group_names)))
    frequency = shares.values
    low, high = _frequency_ends(rows, table, frequency, confidence)
    pairs = []
    for first in range(len(rows.group_names)):
        for second in range(first + 1, len(rows.group_names)):
            vector = gep_vector(frequency[first], frequency[second])
            ends = np.array([_ends(table, first, second, a, confidence) for a in range(len(vector))]).reshape(-1, 2)
            tests = [_test(table, first, second, a, seed) for a in range(len(vector))]
            swaps = swapped
            if len(rows.group_names) > 2:  # only these two may change places
                swaps = _swapped(table, np.random.default_rng([seed, 1]), n_resamples, (first, second))
            pairs.append(
                PairPresentation(
                    first=rows.group_names[first],
                    second=rows.group_names[second],
                    vector=vector,
                    low=ends[:, 0],
                    high=ends[:, 1],
                    p_value=np.array([p for p, _ in tests]),
                    p_adjusted=np.full(len(vector), np.nan),
                    n_clusters=np.array([n for _, n in tests], dtype=np.int64),
                    score=_score(
                        frequency[[first, second]],
                        resampled[:, [first, second]],
                        swaps[:, [first, second]],
                        table,
                        confidence,
                    ),
                )
            )
    adjusted = holm(np.concatenate([pair.p_value for pair in pairs])).reshape(len(pairs), -1)
    pairs = [_with_adjusted(pair, p) for pair, p in zip(pairs, adjusted, strict=True)]
    score = pairs[0].score if len(pairs) == 1 else _score(frequency, resampled, swapped, table, confidence)
    return Presentation(frequencies=shares, frequency_low=low, frequency_high=high, pairs=tuple(pairs), score=score)


def _with_adjusted(pair: PairPresentation, adjusted: Floats) -> PairPresentation:
    return PairPresentation(**{**vars(pair), "p_adjusted": adjusted})


# ------------------------------------------------------------------------------------------------------------- contexts
@dataclass(frozen=True, kw_only=True)
class ContextScores:
    """GEP score of the images of each context.

    Attributes:
        contexts: C names.
        values: mean absolute difference over the attributes, shape (C,). NaN where an attribute has no usable image
            of a group.
        by_chance: mean score when the images of a context are dealt to the groups at random, shape (C,). A few
            images differ much by chance, so a context stands out only beyond this.
        n_used: usable values, shape (C,).
        n_unusable: values that were NaN, shape (C,).
    """

    contexts: tuple[Any, ...]
    values: Floats
    by_chance: Floats
    n_used: NDArray[np.int64]
    n_unusable: NDArray[np.int64]


def context_scores(
    values: ArrayLike,
    groups: ArrayLike,
    attributes: ArrayLike,
    contexts: ArrayLike,
    *,
    group_order: Sequence[Any] | None = None,
    attribute_order: Sequence[Any] | None = None,
    context_order: Sequence[Any] | None = None,
    seed: int = 0,
    n_resamples: int = 1_000,
) -> ContextScores:
    """GEP score of each context: the vector from its images alone, then the mean absolute entry.

    With more than two groups: the mean largest gap. There is no interval: a context has a single prompt per group (and
    attribute), and one prompt tells nothing of other prompts. The mean over contexts is at least the score of all
    images, as a mean of absolute values is.

    Args:
        values: as for ``vector_with_intervals``.
        groups: as for ``vector_with_intervals``.
        attributes: as for ``vector_with_intervals``.
        group_order: as for ``vector_with_intervals``.
        attribute_order: as for ``vector_with_intervals``.
        contexts: of each row, shape (N,).
        context_order: contexts of the result. None: order of appearance.
        seed: of the deals behind ``by_chance``.
        n_resamples: deals, >= 1.
    Raises:
        ValueError: as for ``vector_with_intervals``.
    """
    check_resamples(n_resamples)
    rows = _rows(values, groups, attributes, None, group_order, attribute_order)
    n_groups, n_attributes = len(rows.group_names), len(rows.attribute_names)
    if n_groups < 2:
        raise ValueError(f"a presentation difference needs at least two groups; got {list(rows.group_names)}")
    names, context = _named(contexts, len(rows.values), "contexts", context_order)
    usable = ~np.isnan(rows.values)
    rng = np.random.default_rng(seed)
    scores, chances = np.full(len(names), np.nan), np.full(len(names), np.nan)
    for c in range(len(names)):
        gaps, by_chance = np.full(n_attributes, np.nan), np.full(n_attributes, np.nan)
        for a in range(n_attributes):
            here = usable & (context == c) & (rows.attribute == a)
            order = np.lexsort((rows.values[here], rows.group[here]))  # rows in any order are dealt alike
            pool, group = rows.values[here][order], rows.group[here][order]
            sizes = np.bincount(group, minlength=n_groups)
            if not sizes.all():
                continue
            ends = np.cumsum(sizes)[:-1]
            gaps[a] = np.ptp([part.mean() for part in np.split(pool, ends)])
            step = max(1, CHUNK_CELLS // len(pool))
            dealt_gaps = np.empty(n_resamples)
            for start in range(0, n_resamples, step):  # the same deals, however many at a time
                size = min(step, n_resamples - start)
                dealt = rng.permuted(np.broadcast_to(pool, (size, len(pool))), axis=1)
                means = [part.mean(axis=1) for part in np.split(dealt, ends, axis=1)]
                dealt_gaps[start : start + size] = np.ptp(means, axis=0)
            by_chance[a] = dealt_gaps.mean()
        scores[c], chances[c] = gaps.mean(), by_chance.mean()
    n_used = np.bincount(context[usable], minlength=len(names)).astype(np.int64)
    return ContextScores(
        contexts=names,
        values=scores,
        by_chance=chances,
        n_used=n_used,
        n_unusable=np.bincount(context, minlength=len(names)).astype(np.int64) - n_used,
    )


# ----------------------------------------------------------------------------------------------------------- the tables
class _Rows(NamedTuple):
    values: Floats
    group: NDArray[np.intp]
    attribute: NDArray[np.intp]
    cluster: NDArray[np.intp]
    group_names: tuple[Any, ...]
    attribute_names: tuple[Any, ...]


class _Table(NamedTuple):
    """Totals of the usable values. K clusters.

    Attributes:
        sums: shape (G, A, K).
        sizes: shape (G, A, K).
        asked: whether the cluster has rows of the attribute, usable or not, shape (A, K).
        strata: cluster numbers of each stratum.
        labels: whether all values of an attribute are 0 or 1, shape (A,).
    """

    sums: Floats
    sizes: Floats
    asked: NDArray[np.bool_]
    strata: list[NDArray[np.intp]]
    labels: NDArray[np.bool_]


def _named(
    names: ArrayLike, n: int, what: str, order: Sequence[Any] | None
) -> tuple[tuple[Any, ...], NDArray[np.intp]]:
    """Names in their order, and the place of each row's name among them."""
    array = np.asarray(names)
    if array.shape != (n,):
        raise ValueError(f"{what} must name one for each of the {n} values, shape ({n},); got shape {array.shape}")
    if array.dtype.kind in "iu":  # numbers of names, of which there may be many millions
        values = array[np.sort(np.unique(array, return_index=True)[1])].tolist()
    else:
        values = array.tolist()
    known = tuple(dict.fromkeys(values)) if order is None else tuple(order)
    codes = {name: code for code, name in enumerate(known)}
    if len(codes) < len(known):
        raise ValueError(f"the order of {what} must list each once; got {list(known)}")
    if strange := [name for name in dict.fromkeys(values) if name not in codes]:
        raise ValueError(f"{what} has {strange[0]!r}, which is not among {list(known)}; add it to the order")
    if array.dtype.kind in "iu":
        there, place = np.unique(array, return_inverse=True)
        return known, np.array([codes[name] for name in there.tolist()], dtype=np.intp)[place.reshape(n)]
    return known, np.array([codes[name] for name in values], dtype=np.intp)


def _rows(
    values: ArrayLike,
    groups: ArrayLike,
    attributes: ArrayLike,
    clusters: ArrayLike | None,
    group_order: Sequence[Any] | None,
    attribute_order: Sequence[Any] | None,
) -> _Rows:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"values must be one number per image and attribute, shape (N,); got shape {array.shape}")
    if np.isinf(array).any():
        raise ValueError(f"values holds {int(np.isinf(array).sum())} infinite value(s); use NaN for what is unusable")
    group_names, group = _named(groups, len(array), "groups", group_order)
    attribute_names, attribute = _named(attributes, len(array), "attributes", attribute_order)
    cluster = np.zeros(len(array), dtype=np.intp) if clusters is None else cluster_codes(clusters, len(array))
    return _Rows(array, group, attribute, cluster, group_names, attribute_names)


def _sorted_sums(values: Floats, cell: NDArray[np.intp], size: int) -> Floats:
    """Sum of the values of each place, the same to the last bit however rows are ordered."""
    order = np.lexsort((values, cell))
    return np.bincount(cell[order], weights=values[order], minlength=size).astype(np.float64)


def _table(rows: _Rows) -> _Table:
    n_attributes, n_clusters = len(rows.attribute_names), int(rows.cluster.max(initial=-1)) + 1
    shape = (len(rows.group_names), n_attributes, n_clusters)
    size = shape[0] * shape[1] * shape[2]
    usable = ~np.isnan(rows.values)
    cell = (rows.group * n_attributes + rows.attribute) * n_clusters + rows.cluster
    sums = _sorted_sums(rows.values[usable], cell[usable], size).reshape(shape)
    sizes = np.bincount(cell[usable], minlength=size).astype(np.float64).reshape(shape)
    asked = np.asarray(np.bincount(cell, minlength=size).reshape(shape).any(axis=0), dtype=bool)
    kinds = np.unique(asked.T, axis=0, return_inverse=True)[1].reshape(n_clusters) if size else np.zeros(0, int)
    strata = [np.flatnonzero(kinds == kind) for kind in range(int(kinds.max(initial=-1)) + 1)]
    labels = np.array([_binary(rows.values[usable & (rows.attribute == a)]) for a in range(n_attributes)], dtype=bool)
    return _Table(sums, sizes, asked, strata, labels)


def _binary(values: Floats) -> bool:
    return bool(np.all((values == 0.0) | (values == 1.0)))


# --------------------------------------------------------------------------------------------------------- resampling
def _means(weighted_sums: Floats, weighted_sizes: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(weighted_sums / weighted_sizes, dtype=np.float64)


def _resampled(table: _Table, rng: np.random.Generator, n_resamples: int) -> Floats:
    """Frequencies of resampled prompt pairs, shape (R, G, A)."""
    weights = np.zeros((n_resamples, table.asked.shape[1]))
    for stratum in table.strata:
        n = len(stratum)
        weights[:, stratum] = rng.multinomial(n, np.full(n, 1 / n), size=n_resamples)
    return np.stack([_means(weights @ s.T, weights @ n.T) for s, n in zip(table.sums, table.sizes)], axis=1)


def _swapped(table: _Table, rng: np.random.Generator, n_resamples: int, among: Sequence[int]) -> Floats:
    """Frequencies with the groups ``among`` dealt anew within every prompt pair, shape (R, G, A)."""
    n_groups, n_attributes, n_clusters = table.sums.shape
    dealt = rng.permuted(np.broadcast_to(np.asarray(among), (n_resamples, n_clusters, len(among))), axis=2)
    result = np.full((n_resamples, n_groups, n_attributes), np.nan)
    for column, group in enumerate(among):
        sums = np.zeros((n_resamples, n_attributes))
        sizes = np.zeros_like(sums)
        for source in among:
            taken = (dealt[:, :, column] == source).astype(np.float64)
            sums += taken @ table.sums[source].T
            sizes += taken @ table.sizes[source].T
        result[:, group] = _means(sums, sizes)
    return result


# ----------------------------------------------------------------------------------------------------------- intervals
def _frequency_ends(rows: _Rows, table: _Table, frequency: Floats, confidence: float) -> tuple[Floats, Floats]:
    ends = np.full((*frequency.shape, 2), np.nan)
    usable = ~np.isnan(rows.values)
    for g in range(frequency.shape[0]):
        for a in range(frequency.shape[1]):
            if table.labels[a]:
                mine = usable & (rows.group == g) & (rows.attribute == a)
                ends[g, a] = clustered_proportion(rows.values[mine], rows.cluster[mine], confidence=confidence)[1:]
            else:
                used = table.sizes[g, a] > 0
                totals = ClusterTotals(table.sums[g, a, used], table.sizes[g, a, used])
                ends[g, a] = _student_ends(float(frequency[g, a]), totals, confidence)
    return ends[..., 0], ends[..., 1]


def _linearised(table: _Table, first: int, second: int, attribute: int) -> ClusterTotals:
    """What each prompt pair adds to the difference: sums over sizes is the difference of the frequencies, exactly."""
    n_first, n_second = table.sizes[first, attribute], table.sizes[second, attribute]
    used = (n_first + n_second) > 0
    if not (n_first.any() and n_second.any()):
        return ClusterTotals(np.zeros(0), np.zeros(0))
    sizes = (n_first + n_second)[used] / 2
    means = table.sums[[first, second], attribute].sum(axis=1) / [n_first.sum(), n_second.sum()]
    # Residuals around each group's own mean, as a pair with more images of one group must not count as a difference.
    residuals = (table.sums[first, attribute] - means[0] * n_first) / n_first.sum()
    residuals -= (table.sums[second, attribute] - means[1] * n_second) / n_second.sum()
    return ClusterTotals(residuals[used] * sizes.sum() + (means[0] - means[1]) * sizes, sizes)


def _ends(table: _Table, first: int, second: int, attribute: int, confidence: float) -> tuple[float, float]:
    totals = _linearised(table, first, second, attribute)
    if not len(totals.sizes):
        return math.nan, math.nan
    difference = float(totals.sums.sum()) / totals.n_units
    if not table.labels[attribute]:
        return _student_ends(difference, totals, confidence)
    n_clusters, n = len(totals.sizes), totals.n_units
    if n_clusters < 2:
        return math.nan, math.nan
    # Two imaginary matches of images, one for each group, as Bonett & Price: a width where all clusters are equal.
    squares = ratio_variance(totals) * n**2 + 2
    middle = difference * n / (n + 2)
    half = student_quantile(n_clusters - 1, (1 + confidence) / 2) * math.sqrt(squares) / (n + 2)
    return max(-1.0, min(middle - half, difference)), min(1.0, max(middle + half, difference))


def _student_ends(value: float, totals: ClusterTotals, confidence: float) -> tuple[float, float]:
    if len(totals.sizes) < 2:
        return math.nan, math.nan
    error = math.sqrt(ratio_variance(totals))
    if error <= 1e-12 * abs(value):  # all equal, but for rounding
        return math.nan, math.nan
    half = student_quantile(len(totals.sizes) - 1, (1 + confidence) / 2) * error
    return value - half, value + half


def _score(frequency: Floats, resampled: Floats, swapped: Floats, table: _Table, confidence: float) -> ScoreEstimate:
    """Mean largest gap between groups, what noise adds to it, and what is left.

    Args:
        frequency: shape (G, A).
        resampled: of resampled prompt pairs, shape (R, G, A).
        swapped: with groups swapped in prompt pairs, shape (R, G, A).
        table: sums and counts by prompt pair, group and attribute.
        confidence: confidence level of the interval, in (0, 1).
    """
    gaps = largest_gap(frequency)
    value = gep_score(gaps)
    by_swap = np.ptp(swapped, axis=1).mean(axis=1)
    by_swap = by_swap[np.isfinite(by_swap)]
    if not math.isfinite(value) or not len(by_swap):
        return ScoreEstimate(value, math.nan, math.nan, math.nan, math.nan, math.nan)
    by_chance = float(by_swap.mean())
    # Sums in another order differ by rounding, and a tie must count as a tie. The observed order counts as one more.
    p_value = (int(np.count_nonzero(by_swap >= value * (1 - 1e-9))) + 1) / (len(by_swap) + 1)
    n_clusters = table.asked.sum(axis=1)
    freedom = sum(len(stratum) - 1 for stratum in table.strata)
    deviations = resampled - frequency
    deviations = deviations[np.isfinite(deviations).all(axis=(1, 2))]
    if n_clusters.min() < 2 or len(deviations) < 0.99 * len(resampled) or not np.abs(deviations).max() > 1e-12 * value:
        return ScoreEstimate(value, math.nan, math.nan, math.nan, by_chance, p_value)
    deviations = deviations - deviations.mean(axis=0)
    deviations *= np.sqrt(n_clusters / (n_clusters - 1))  # resampling K pairs spreads as if K - 1 had been drawn
    # The spread itself is only estimated: widen it as Student's t widens the normal.
    wider = student_quantile(freedom, (1 + confidence) / 2) / NormalDist().inv_cdf((1 + confidence) / 2)
    family = _Family(frequency, deviations)
    if not np.any(family.variance > 0):  # what varies does so for all groups alike, and their differences do not
        return ScoreEstimate(value, math.nan, math.nan, math.nan, by_chance, p_value)
    low = 0.0
    if p_value <= (1 - confidence) / 2:  # else no difference at all is among what could be: the swaps tell exactly
        low = family.solve(value, lambda scores: float(np.quantile(scores, (1 + confidence) / 2)), wider)
    debiased = family.solve(value, lambda scores: float(scores.mean()), 1.0)
    high = family.solve(value, lambda scores: float(np.quantile(scores, (1 - confidence) / 2)), wider)
    # All three grow with t but for the noise of the quantiles; the observed score stays inside, for a reader's sake.
    return ScoreEstimate(value, min(low, debiased), max(high, value), debiased, by_chance, p_value)


class _Family:
    """True frequencies that could be behind the observed ones: gaps ``sqrt(max(0, gap**2 + t * variance))``.

    Attributes:
        directions: frequencies less their mean, scaled to a gap of 1, shape (G, A).
        gaps: observed, shape (A,).
        variance: of their noise, shape (A,).
        vanishing: the ``t`` from which down a gap is 0, shape (A,); -inf without noise.
        deviations: resampled less observed frequencies, shape (R, G, A).
    """

    def __init__(self, frequency: Floats, deviations: Floats) -> None:
        n_groups = len(frequency)
        self.gaps = largest_gap(frequency)
        any_direction = np.linspace(0.5, -0.5, n_groups)[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            scaled = (frequency - frequency.mean(axis=0)) / self.gaps
        self.directions = np.where(self.gaps > 0, scaled, any_direction)
        pairs = [(g, h) for g in range(n_groups) for h in range(g + 1, n_groups)]
        self.variance = np.mean([np.var(deviations[:, g] - deviations[:, h], axis=0) for g, h in pairs], axis=0)
        varied = self.variance > 0
        self.vanishing = np.full(len(self.gaps), -np.inf)
        self.vanishing[varied] = -(self.gaps[varied] ** 2) / self.variance[varied]
        self.deviations = deviations

    def true_gaps(self, t: float) -> Floats:
        # The root of what rounding leaves of such a difference would be 1e-9 in place of 0.
        squares = np.where(t > self.vanishing, self.gaps**2 + t * self.variance, 0.0)
        return np.asarray(np.sqrt(np.maximum(squares, 0.0)), dtype=np.float64)

    def solve(self, observed: float, summary: Callable[[Floats], float], wider: float) -> float:
        """True score whose noisy scores have the observed one as their summary; 0 if noise alone explains it."""
        noise = wider * self.deviations

        def excess(t: float) -> float:
            noisy = self.directions * self.true_gaps(t) + noise
            return summary((noisy.max(axis=1) - noisy.min(axis=1)).mean(axis=1)) - observed

        # From the lowest on, all gaps with noise are 0.
        below, above = float(self.vanishing[np.isfinite(self.vanishing)].min()), 1.0
        if excess(below) >= 0:
            return float(self.true_gaps(below).mean())
        while excess(above) < 0 and above < 1e9:
            below, above = above, 4 * above
        for _ in range(MOST_HALVINGS):
            if self.true_gaps(above).mean() - self.true_gaps(below).mean() <= 1e-9 * observed:
                break
            middle = (below + above) / 2
            below, above = (middle, above) if excess(middle) < 0 else (below, middle)
        return float(self.true_gaps(above).mean())


# --------------------------------------------------------------------------------------------------------------- tests
def _test(table: _Table, first: int, second: int, attribute: int, seed: int) -> tuple[float, int]:
    """p-value of "presented alike" and the prompt pairs it rests on."""
    sizes = table.sizes[[first, second], attribute]
    both = (sizes > 0).all(axis=0)
    if not both.any():
        return math.nan, 0
    sums = table.sums[[first, second], attribute][:, both]
    # Totals over as many images on both sides: with equal numbers the sums as they are, whole numbers for labels.
    common = 2 / (1 / sizes[:, both]).sum(axis=0)
    equal = sizes[0, both] == sizes[1, both]
    totals = np.where(equal, sums, sums / sizes[:, both] * common)
    difference = paired_difference(totals[1], totals[0], np.arange(int(both.sum())), seed=seed)
    return difference.p_value, difference.n_clusters
