"""How far several people, or several judges, agree about the same things, beyond what chance alone would give.

A unit is what was rated (an image and a question), a rater who rated it. All functions are pure; randomness comes in
as ``seed``. Intervals resample whole clusters of units: the prompts of the images, or the units themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verism.statistics._common import Floats, check_confidence, check_resamples
from verism.statistics.intervals import Interval, cluster_bootstrap

__all__ = [
    "Agreement",
    "AlphaLevel",
    "KappaWeights",
    "alpha_of_counts",
    "cohen_kappa",
    "fleiss_kappa",
    "krippendorff_alpha",
    "rating_counts",
]

AlphaLevel = Literal["nominal", "ordinal", "interval"]
KappaWeights = Literal["none", "linear", "quadratic"]


class Agreement(NamedTuple):
    """An agreement between the ends of its interval, NaN where undefined.

    Attributes:
        value: the coefficient.
        low: lower end of its interval.
        high: upper end.
        n_units: units that entered the value.
        n_ratings: their ratings.
        n_unusable: units that did not, for want of a second rating.
    """

    value: float
    low: float
    high: float
    n_units: int
    n_ratings: int
    n_unusable: int


class RatingCounts(NamedTuple):
    """How often each unit was given each value.

    Attributes:
        values: the distinct values in sorted order, length V.
        counts: shape (U, V), unit by value.
    """

    values: tuple[Any, ...]
    counts: Floats


# -------------------------------------------------------------------------------------------------------------- alpha
def krippendorff_alpha(
    ratings: ArrayLike,
    *,
    level: AlphaLevel = "nominal",
    clusters: ArrayLike | None = None,
    n_resamples: int = 2_000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Agreement:
    """Krippendorff's alpha: one minus observed over expected disagreement, for any number of raters, with gaps.

    Args:
        ratings: shape (raters, units), as reliability data are usually printed; None or NaN where a rater gave none.
            Which rater gave which rating does not matter, so columns may be filled in any order.
        level: what counts as disagreement. ``nominal``: any difference; ``ordinal``: by the number of ratings between
            the two values; ``interval``: by the squared difference.
        clusters: label of each unit's cluster, shape (units,); each unit its own if not given.
        n_resamples: resamples of the BCa interval; 0 leaves it out.
        seed: of the resamples.
        confidence: confidence level of the interval, in (0, 1).
    Returns:
        1 for perfect agreement, 0 for what chance gives, below 0 for systematic disagreement. NaN if there is no pair
        of ratings, or only one value: nothing could have disagreed. Units with fewer than two ratings do not enter.
    Raises:
        ValueError: another shape, an unknown level, values that are no numbers where numbers are needed.
    Source: Krippendorff 2011, Computing Krippendorff's Alpha-Reliability (University of Pennsylvania). We differ in the
        interval: his algorithm resamples single disagreements as if they were independent, we resample units.

    >>> krippendorff_alpha([[1, 2, 3, 3], [1, 2, 3, 2]], n_resamples=0).value
    0.68181...
    """
    if level not in get_args(AlphaLevel):
        raise ValueError(f"level must be one of {list(get_args(AlphaLevel))}; got {level!r}")
    table = rating_counts(ratings)
    if level != "nominal" and any(not isinstance(value, int | float) for value in table.values):
        raise ValueError(f"level {level!r} needs ratings that are numbers; got {table.values[:3]}")
    numbers = None if level == "nominal" else np.array(table.values, dtype=np.float64)
    pairable = table.counts.sum(axis=1) >= 2
    counts = table.counts[pairable]
    groups = cluster_labels(clusters, len(pairable))[pairable]
    interval = bootstrap_interval(
        lambda rows: alpha_of_counts(rows, level=level, values=numbers), counts, groups, n_resamples, seed, confidence
    )
    return Agreement(*interval, len(counts), int(counts.sum()), int(np.count_nonzero(~pairable)))


def rating_counts(ratings: ArrayLike) -> RatingCounts:
    """Ratings of shape (raters, units) as counts per unit and value; None and NaN count as no rating.

    Raises:
        ValueError: not two-dimensional.
    """
    array = np.asarray(ratings, dtype=object)
    if array.ndim != 2:
        raise ValueError(f"ratings must have shape (raters, units), None where there is none; got shape {array.shape}")
    n_units = array.shape[1]
    is_rated = np.array([value is not None and value == value for value in array.ravel()], dtype=bool)
    units = np.tile(np.arange(n_units), array.shape[0])[is_rated]
    kept = [plain_value(value) for value in array.ravel()[is_rated]]
    try:
        values = tuple(sorted(set(kept)))
    except TypeError as err:
        raise ValueError(
            f"ratings must be all numbers or all names; got {sorted({type(v).__name__ for v in kept})}"
        ) from err
    column = {value: number for number, value in enumerate(values)}
    counts = np.zeros((n_units, len(values)))
    np.add.at(counts, (units, np.array([column[value] for value in kept], dtype=np.intp)), 1.0)
    return RatingCounts(values, counts)


def alpha_of_counts(counts: ArrayLike, *, level: AlphaLevel = "nominal", values: ArrayLike | None = None) -> float:
    """Krippendorff's alpha of counts per unit and value.

    Args:
        counts: shape (U, V), how many raters gave unit u value v; units with fewer than two ratings do not enter.
        level: see ``krippendorff_alpha``.
        values: the V values in rising order; needed for ``interval``.
    Returns:
        Alpha; NaN without a pair of ratings, or with one value only.
    """
    table = np.asarray(counts, dtype=np.float64)
    if table.ndim != 2:
        raise ValueError(f"counts must have shape (units, values); got {table.shape}")
    ratings = table.sum(axis=1)
    table, ratings = table[ratings >= 2], ratings[ratings >= 2]
    total = table.sum(axis=0)
    n = float(total.sum())
    if n == 0:
        return math.nan
    if level == "nominal":
        # Ordered pairs that differ: all pairs less those alike.
        observed = float(((ratings**2 - (table**2).sum(axis=1)) / (ratings - 1)).sum())
        expected = n**2 - float((total**2).sum())
    elif level == "interval":
        if values is None or np.shape(values) != (table.shape[1],):
            raise ValueError(f"level 'interval' needs the {table.shape[1]} values of the columns of counts")
        numbers = np.asarray(values, dtype=np.float64)
        numbers = numbers - float(total @ numbers) / n  # sums of squares below lose no digits to a common offset
        squares = numbers**2
        # The sum of (a - b)^2 over ordered pairs is 2 (n sum a^2 - (sum a)^2).
        observed = float((2 * (ratings * (table @ squares) - (table @ numbers) ** 2) / (ratings - 1)).sum())
        expected = 2 * (n * float(total @ squares) - float(total @ numbers) ** 2)
    else:
        # Ratings up to the middle of each value's own: their difference is the sum from c to k less half of both ends.
        middle = np.cumsum(total) - total / 2
        distance = (middle[:, None] - middle[None, :]) ** 2
        observed = float((((table @ distance) * table).sum(axis=1) / (ratings - 1)).sum())
        expected = float(total @ distance @ total)
    if expected <= 0:
        return math.nan
    return 1.0 - (n - 1) * observed / expected


# -------------------------------------------------------------------------------------------------------------- kappa
def cohen_kappa(
    first: ArrayLike,
    second: ArrayLike,
    *,
    weights: KappaWeights = "none",
    categories: Sequence[Any] | None = None,
    clusters: ArrayLike | None = None,
    n_resamples: int = 2_000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Agreement:
    """Cohen's kappa of two raters, each with their own habits.

    Args:
        first: ratings of the first rater, shape (N,); None or NaN where there is none.
        second: ratings of the second rater, shape (N,).
        weights: how disagreements count: all alike, by the distance of the categories in their order, or its square.
        categories: the categories in their order; the sorted values that occur if not given.
        clusters: see ``krippendorff_alpha``.
        n_resamples: see ``krippendorff_alpha``.
        seed: see ``krippendorff_alpha``.
        confidence: see ``krippendorff_alpha``.
    Returns:
        1 for perfect agreement, 0 for chance; NaN if both gave one and the same value throughout, or share no
        unit.
    Raises:
        ValueError: unequal lengths, a rating outside the categories, unknown weights.
    Source: Cohen 1960, Educ. Psychol. Meas. 20:37-46; 1968, Psychol. Bull. 70:213-220 (weights).
    """
    if weights not in get_args(KappaWeights):
        raise ValueError(f"weights must be one of {list(get_args(KappaWeights))}; got {weights!r}")
    pair = [np.asarray(side, dtype=object) for side in (first, second)]
    if pair[0].ndim != 1 or pair[0].shape != pair[1].shape:
        raise ValueError(f"kappa needs one rating of each rater per unit; got shapes {pair[0].shape}, {pair[1].shape}")
    rated = np.array([all(v is not None and v == v for v in both) for both in zip(*pair)], dtype=bool)
    sides = [[plain_value(value) for value in side[rated]] for side in pair]
    values = sorted({*sides[0], *sides[1]}) if categories is None else list(categories)
    code = {value: number for number, value in enumerate(values)}
    if foreign := [value for side in sides for value in side if value not in code]:
        raise ValueError(f"rating {foreign[0]!r} is none of the categories {values}")
    codes = np.array([[code[value] for value in side] for side in sides], dtype=np.intp).reshape(2, -1)
    size = max(len(values), 1)
    ranks = np.arange(size, dtype=np.float64)
    gaps = np.abs(ranks[:, None] - ranks[None, :])
    cost = {"none": (gaps > 0).astype(np.float64), "linear": gaps, "quadratic": gaps**2}[weights]

    def kappa(pairs: NDArray[np.intp]) -> float:
        table = np.bincount(pairs[:, 0] * size + pairs[:, 1], minlength=size * size).reshape(size, size) / len(pairs)
        expected = float(table.sum(axis=1) @ cost @ table.sum(axis=0))
        return math.nan if expected == 0 else 1.0 - float((table * cost).sum()) / expected

    groups = cluster_labels(clusters, len(rated))[rated]
    interval = bootstrap_interval(kappa, codes.T, groups, n_resamples, seed, confidence)
    return Agreement(*interval, codes.shape[1], codes.size, int(np.count_nonzero(~rated)))


def fleiss_kappa(
    counts: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    n_resamples: int = 2_000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Agreement:
    """Fleiss' kappa: agreement of a fixed number of raters, not necessarily the same people, on each unit.

    Args:
        counts: shape (U, V), how many raters gave unit u category v; every row adds up to the same number, >= 2.
            ``rating_counts`` makes them.
        clusters: see ``krippendorff_alpha``.
        n_resamples: see ``krippendorff_alpha``.
        seed: see ``krippendorff_alpha``.
        confidence: see ``krippendorff_alpha``.
    Returns:
        1 for perfect agreement, 0 for chance; NaN without units, or if one category takes all.
    Raises:
        ValueError: rows that add up to different numbers, or to less than 2. Krippendorff's alpha takes such data.
    Source: Fleiss 1971, Psychol. Bull. 76:378-382.
    """
    table = np.asarray(counts, dtype=np.float64)
    if table.ndim != 2 or (table < 0).any():
        raise ValueError(f"counts must have shape (units, categories) and no negative entry; got shape {table.shape}")
    raters = np.unique(table.sum(axis=1))
    if len(raters) > 1 or (len(raters) == 1 and raters[0] < 2):
        raise ValueError(
            f"Fleiss' kappa needs the same number of raters, at least 2, on every unit; got {raters.tolist()[:5]}. "
            "krippendorff_alpha takes units with different numbers of ratings"
        )
    each = float(raters[0]) if len(raters) else math.nan

    def kappa(rows: Floats) -> float:
        alike = float(np.mean(((rows**2).sum(axis=1) - each) / (each * (each - 1))))
        chance = float(((rows.sum(axis=0) / rows.sum()) ** 2).sum())
        return math.nan if chance >= 1 else (alike - chance) / (1 - chance)

    interval = bootstrap_interval(kappa, table, cluster_labels(clusters, len(table)), n_resamples, seed, confidence)
    return Agreement(*interval, len(table), int(table.sum()), 0)


# ------------------------------------------------------------------------------------------------------------- shared
def plain_value(value: Any) -> Any:
    """numpy's scalars as Python's: equal values of different types are one value."""
    return value.item() if isinstance(value, np.generic) else value


def cluster_labels(clusters: ArrayLike | None, n: int) -> NDArray[Any]:
    if clusters is None:
        return np.arange(n)
    labels = np.asarray(clusters)
    if labels.shape != (n,):
        raise ValueError(f"clusters must give one label for each of the {n} units; got shape {labels.shape}")
    return labels


def bootstrap_interval(
    statistic: Any, rows: NDArray[Any], clusters: NDArray[Any], n_resamples: int, seed: int, confidence: float
) -> Interval:
    check_confidence(confidence)
    if len(rows) == 0:
        return Interval(math.nan, math.nan, math.nan)
    if n_resamples == 0:
        return Interval(statistic(rows), math.nan, math.nan)
    check_resamples(n_resamples)
    return cluster_bootstrap(
        statistic, rows, clusters=clusters, seed=seed, n_resamples=n_resamples, confidence=confidence
    )
