"""How well images and texts agree by their vectors: cosines on named scales, consistency of classes, R-precision.

Vectors come from a model that puts images and texts in one space, as it gives them: not normalised.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Iterator, Sequence
from typing import Literal, NamedTuple, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verism.renames import protocol_name
from verism.statistics.intervals import Interval, cluster_bootstrap_mean, clustered_proportion

__all__ = [
    "Consistency",
    "MeanClipScore",
    "MeanScore",
    "Method",
    "Protocol",
    "RPrecision",
    "Ranks",
    "Scale",
    "clipscore",
    "consistency",
    "cosine",
    "mean_clipscore",
    "mean_score",
    "median_rank",
    "percentile_10",
    "r_precision",
    "ranks",
    "recall_at",
]

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

Scale = Literal["cosine", "x100", "hessel"]
Protocol = Literal["released", "revised"]
Method = Literal["exact", "sampled"]

TILE_CELLS = 16_000_000  # similarities held at once: 64 MB in float32, and a quarter of it for comparisons
ROWS_AT_ONCE = 8_192  # of long arrays that are looked at in double precision
# Means of shares are resampled in steps of this size, as equal values are drawn together; the ends of an interval move
# by less than a hundredth of it.
_STEP = 1 / 2_048


# --------------------------------------------------------------------------------------------------------------------
# Cosines on named scales
# --------------------------------------------------------------------------------------------------------------------
class MeanScore(NamedTuple):
    """A mean over images, how many entered it, and how many had no score. NaN if none entered."""

    value: float
    n_used: int
    n_unusable: int


def cosine(image: ArrayLike, text: ArrayLike) -> Floats:
    """Cosine of the angle between each image and its own text.

    Args:
        image: vectors of images, shape (N, D), of any length.
        text: vectors of their texts, shape (N, D), row i belonging to image i.
    Returns:
        Shape (N,), in [-1, 1], computed in double precision; NaN where a vector is 0 or holds NaN or infinite numbers.
    Raises:
        ValueError: not two matrices of one shape.

    >>> cosine([[3.0, 4.0], [1.0, 0.0]], [[4.0, 3.0], [0.0, 2.0]]).tolist()
    [0.96, 0.0]
    """
    a, b = np.asarray(image), np.asarray(text)
    if a.ndim != 2 or a.shape != b.shape:
        raise ValueError(f"cosine needs a text for each image, shapes (N, D); got {a.shape} and {b.shape}")
    values = np.empty(len(a))
    for start in range(0, len(a), ROWS_AT_ONCE):  # so that float32 matrices are not doubled as a whole
        rows = slice(start, start + ROWS_AT_ONCE)
        values[rows] = np.einsum("nd,nd->n", _unit(a[rows]), _unit(b[rows]))
    return np.clip(values, -1.0, 1.0)  # rounding may exceed 1 by 1e-16; NaN stays


def clipscore(image: ArrayLike, text: ArrayLike, *, scale: Scale = "cosine") -> Floats:
    """Agreement of each image with its text, on one of the scales in use. They are not comparable with each other.

    * ``cosine``: the cosine, in [-1, 1]; DIG In.
    * ``x100``: 100 times the cosine, in [-100, 100]; EvalGIM, torchmetrics. Both put a *mean* below 0 to 0, see
      ``mean_score``.
    * ``hessel``: 2.5 times the cosine, and 0 where it is negative, in [0, 2.5]; the CLIPScore of its paper.

    Args:
        image: as for ``cosine``.
        text: as for ``cosine``.
        scale: see above. The prompt prefix ("A photo depicts") of the paper is the caller's: it belongs to the text.
    Returns:
        Shape (N,), higher is better; NaN where undefined.
    Raises:
        ValueError: an unknown scale, or as ``cosine``.
    Source: Hessel et al. 2021, arXiv:2104.08718, Sec. 3 (w = 2.5); Hall et al. 2023, arXiv:2308.06198, Sec. 4.4.

    >>> clipscore([[3.0, 4.0]], [[4.0, 3.0]], scale="hessel").tolist()
    [2.4]
    """
    _check("scale", scale, get_args(Scale))
    values = cosine(image, text)
    if scale == "x100":
        return 100.0 * values
    return 2.5 * np.maximum(values, 0.0) if scale == "hessel" else values  # np.maximum passes NaN on


def mean_score(scores: ArrayLike, *, floor_at_zero: bool = False) -> MeanScore:
    """Mean over the images that have a score.

    Args:
        scores: shape (N,); NaN: no score.
        floor_at_zero: a mean below 0 becomes 0, as in torchmetrics and EvalGIM; single scores are left as they are.
    """
    usable = _usable(scores)
    value = float(usable.mean()) if len(usable) else math.nan
    if floor_at_zero and value < 0:
        value = 0.0
    return MeanScore(value, len(usable), np.size(scores) - len(usable))


class MeanClipScore(NamedTuple):
    """A mean CLIPScore and its interval.

    Attributes:
        value: mean over images with a score; NaN without any.
        low: lower end; NaN with fewer than two clusters.
        high: upper end.
        n_used: images with a score.
        n_unusable: images without.
    """

    value: float
    low: float
    high: float
    n_used: int
    n_unusable: int


def mean_clipscore(
    image: ArrayLike,
    text: ArrayLike,
    *,
    scale: Scale = "cosine",
    clusters: ArrayLike | None = None,
    seed: int = 0,
    confidence: float = 0.95,
) -> MeanClipScore:
    """Mean of ``clipscore``, with a bootstrap over clusters.

    Args:
        image: vectors of images, shape (N, D).
        text: vectors of their texts, shape (N, D).
        scale: see ``clipscore``.
        clusters: prompt of each image, shape (N,); each image its own if not given.
        seed: of the resamples.
        confidence: confidence level of the interval, in (0, 1).
    Raises:
        ValueError: as ``clipscore``, or not one cluster per image.
    """
    scores = clipscore(image, text, scale=scale)
    mean, usable = mean_score(scores), ~np.isnan(scores)
    labels = np.arange(len(scores)) if clusters is None else np.asarray(clusters)
    if labels.shape != scores.shape:
        raise ValueError(f"clusters must give one label for each of the {len(scores)} images; got {labels.shape}")
    ends = cluster_bootstrap_mean(scores[usable], labels[usable], seed=seed, confidence=confidence)
    return MeanClipScore(mean.value, ends.low, ends.high, mean.n_used, mean.n_unusable)


# --------------------------------------------------------------------------------------------------------------------
# Consistency: the images that agree least
# --------------------------------------------------------------------------------------------------------------------
class Consistency(NamedTuple):
    """Mean over objects of the 10th percentile of their images' scores.

    Attributes:
        value: the mean; NaN where undefined.
        low: lower end of its interval; NaN where undefined.
        high: upper end.
        n_used: images with a score.
        n_unusable: images without.
        percentiles: by object, in the order of their first image; NaN for objects without any score.
        n_images: by object, images with a score.
    """

    value: float
    low: float
    high: float
    n_used: int
    n_unusable: int
    percentiles: dict[Hashable, float]
    n_images: dict[Hashable, int]


def percentile_10(values: ArrayLike) -> float:
    """The 10th percentile by linear interpolation: position 0.1 (n - 1) among the n sorted values.

    Args:
        values: shape (N,); NaN are left out.
    Returns:
        NaN without values.
    Source: Hall et al. 2023, arXiv:2308.06198, Sec. 4.4, with the interpolation of the released scripts.

    >>> percentile_10([5.0, 1.0, float("nan"), 2.0])  # position 0.2 among 1, 2, 5
    1.2
    """
    usable = np.sort(_usable(values))
    return float(_at_tenth(usable[None], *_tenth(len(usable)))[0]) if len(usable) else math.nan


def consistency(
    values: ArrayLike,
    objects: Sequence[Hashable],
    *,
    seed: int | np.random.Generator = 0,
    n_resamples: int = 10_000,
    confidence: float = 0.95,
) -> Consistency:
    """Object consistency: the 10th percentile of the scores of each object's images, averaged over objects.

    Every object weighs the same, however many images it has; objects without any score are left out of the mean, and
    are NaN in ``percentiles``.

    The 10th percentile of few images is too high on average: with normal scores by 0.22 of their standard deviation
    for 10 images, 0.09 for 30, 0.04 for 60 and 0.015 for 180. Compare values at equal numbers of images per object.

    The interval says where the value would lie for other images, as many per object. Images are drawn again within
    each object, objects are fixed; quantiles of the resampled values are moved so that their mean is the value, for the
    resamples have that excess once more. Of scores with a long lower tail, intervals of 95 % held the expected value in
    95 to 97 % of 2,000 trials with 27 objects of 10 images or with 5 and more objects of 30, but in 91 % with 5
    objects of 10 and in 86 % with one object of 20 (``python benchmarks/coverage.py --only consistency``). Ends are NaN
    if an object with scores has only one.

    Args:
        values: score of each image, shape (N,); NaN: no score.
        objects: each image's object, N labels.
        seed: of the resampling; the result does not depend on the order of images.
        n_resamples: resamples, >= 1.
        confidence: confidence level, in (0, 1).
    Raises:
        ValueError: not one object per score, or a confidence outside (0, 1).
    Source: Hall et al. 2023, arXiv:2308.06198, Sec. 4.4. The interval is ours.
    """
    scores = np.asarray(values, dtype=np.float64)
    if scores.ndim != 1 or len(scores) != len(objects):
        raise ValueError(f"consistency needs one object per score; got {len(objects)} for shape {scores.shape}")
    if not 0.0 < confidence < 1.0 or n_resamples < 1:
        raise ValueError(f"confidence must lie in (0, 1) and n_resamples be >= 1; got {confidence} and {n_resamples}")
    rows: dict[Hashable, list[int]] = {}
    for i, name in enumerate(objects):
        rows.setdefault(name, []).append(i)
    ordered = {name: np.sort(_usable(scores[scores_of_one])) for name, scores_of_one in rows.items()}
    sizes = {name: len(scores_of_one) for name, scores_of_one in ordered.items()}
    percentiles = {name: percentile_10(scores_of_one) for name, scores_of_one in ordered.items()}
    rng = np.random.default_rng(seed)
    total = np.zeros(n_resamples)
    for name in sorted(ordered, key=repr):  # always in one order, for the same numbers to be drawn
        if sizes[name]:
            total += _resampled_tenth(ordered[name], n_resamples, rng)
    defined = [p for p in percentiles.values() if not math.isnan(p)]
    value = float(np.mean(defined)) if defined else math.nan
    low = high = math.nan
    if defined and 1 not in sizes.values():
        resampled = total / len(defined)
        ends = np.quantile(resampled, [(1 - confidence) / 2, (1 + confidence) / 2])
        low, high = (float(end) for end in ends - resampled.mean() + value)
    n_used = sum(sizes.values())
    return Consistency(value, low, high, n_used, len(scores) - n_used, percentiles, sizes)


def _tenth(n: int) -> tuple[int, float]:
    """The lower of the two positions the 10th percentile of n sorted values lies between, and how far on it lies."""
    # In whole numbers: 0.1 * (n - 1) falls short of a whole number by rounding for some n.
    return (n - 1) // 10, (n - 1) % 10 / 10


def _at_tenth(ordered: Floats, lower: int, part: float) -> Floats:
    """The value at a position, shape (B,), of rows of sorted values, shape (B, n)."""
    if part == 0.0:
        return ordered[:, lower]
    return ordered[:, lower] + part * (ordered[:, lower + 1] - ordered[:, lower])


def _resampled_tenth(ordered: Floats, n_resamples: int, rng: np.random.Generator) -> Floats:
    """The 10th percentile of bootstrap resamples of n sorted values, shape (n_resamples,).

    It needs two neighbouring order statistics of n draws, and those of uniform numbers have known distributions: the
    k-th is Beta(k, n - k + 1), and the share of the rest up to the next is Beta(1, n - k). Multiplied by n and cut to
    whole numbers they are ranks of the drawn values. So no resample is ever drawn in full.
    """
    n = len(ordered)
    lower, part = _tenth(n)
    k = lower + 1
    first = rng.beta(k, n - k + 1, size=n_resamples)
    pairs = [first]
    if part:
        pairs.append(first + (1 - first) * rng.beta(1, n - k, size=n_resamples))
    drawn = np.minimum((np.stack(pairs, axis=1) * n).astype(np.intp), n - 1)
    return _at_tenth(ordered[drawn], 0, part)


# --------------------------------------------------------------------------------------------------------------------
# Retrieval: is the image's own text nearer than others?
# --------------------------------------------------------------------------------------------------------------------
class Ranks(NamedTuple):
    """Where each image's own text stands among all distinct texts.

    Attributes:
        better: other texts nearer to the image, shape (N,); NaN for images without a usable vector.
        tied: other texts exactly as near, shape (N,).
        n_texts: distinct texts, with the own.
    """

    better: Floats
    tied: Floats
    n_texts: int


class RPrecision(NamedTuple):
    """Share of images that retrieve their own text from a pool.

    Attributes:
        value: in [0, 1], higher is better; 1 / pool by luck.
        low: lower end of its interval over images, clustered by text.
        high: upper end.
        n_used: images with a usable vector.
        n_unusable: images without.
        per_image: probability (exact) or share of the repeats (sampled), shape (N,); NaN for unusable images.
    """

    value: float
    low: float
    high: float
    n_used: int
    n_unusable: int
    per_image: Floats


def r_precision(
    image_vectors: ArrayLike,
    text_vectors: ArrayLike,
    *,
    positive: ArrayLike | None = None,
    protocol: Protocol = "revised",
    method: Method | None = None,
    pool: int = 100,
    repeats: int = 5,
    seed: int = 10,
    confidence: float = 0.95,
) -> RPrecision:
    """R-precision with R = 1: is an image nearer to its own text than to ``pool - 1`` others?

    ``released``, as the authors' script computes it: raw dot products, so that long text vectors win more often; the
    others are drawn *with* replacement from all texts, the own among them; the own text comes first in the pool and the
    first maximum wins, so that ties count as right; repeated ``repeats`` times.

    ``revised``: cosines; the others are drawn without replacement from all *different* texts; ties are counted as
    the chance of a fair draw among the equals.

    ``sampled`` draws pools. ``exact`` is its expectation over all possible pools: with b of m other texts better, the
    chance that none of ``pool - 1`` draws hits one. It has no noise of sampling, costs no more, and has no seed.

    The stream of ``released`` is Python's ``random.choices`` after ``random.seed(seed)``, repeat after repeat, and in
    each the images in their order. That it is ``choices`` and that repeats are the outer loop is an assumption: what
    is known of the script says neither. Another stream moves the value of 30,000 images by about 0.1 points.

    Texts are the same where their vectors are the same in every number, for one text has one vector.

    Args:
        image_vectors: shape (N, D), not normalised, in the order of the file. Rows that hold NaN or infinite numbers or
            only 0 are images without an answer: they enter no value.
        text_vectors: shape (M, D), not normalised: the pool. All finite, none 0.
        positive: row of each image's own text, shape (N,); None: text i is that of image i, M = N.
        protocol: ``released`` or ``revised``, see above.
        method: by default ``sampled`` for ``released`` and ``exact`` for ``revised``.
        pool: size of the pool with the own text, >= 2.
        repeats: how often ``sampled`` draws the pools, >= 1.
        seed: of ``sampled``, in 0 .. 2**32 - 1.
        confidence: confidence level of the interval, which resamples the images of a text together.
    Raises:
        ValueError: shapes that do not fit, unusable text vectors, or (revised) fewer different texts than ``pool``.
    Source: Xu et al. 2018, arXiv:1711.10485, Sec. 4.1; Cho et al. 2022, arXiv:2202.04053v1, Sec. 4.2, with ViT-B/32
        and one caption for each of 30,000 images.
    """
    protocol = cast(Protocol, protocol_name(protocol))
    _check("protocol", protocol, get_args(Protocol))
    method = method or ("sampled" if protocol == "released" else "exact")
    _check("method", method, get_args(Method))
    if pool < 2 or repeats < 1:
        raise ValueError(f"pool must be at least 2 and repeats at least 1; got {pool} and {repeats}")
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed must lie in 0 .. 2**32 - 1; got {seed}")
    data = _Retrieval(image_vectors, text_vectors, positive, normalise=protocol == "revised")
    draws = pool - 1
    if protocol == "released":
        if method == "sampled":
            wins = _released_wins(data, draws, repeats, seed)
        else:
            wins = (1.0 - data.better_rows() / len(data.column_of_row)) ** draws
    else:
        others = data.n_texts - 1
        if others < draws:
            raise ValueError(
                f"a pool of {pool} needs as many different texts; there are {data.n_texts}. Lower pool, and say so "
                "beside the number: it depends on the pool"
            )
        better, tied = data.counts()
        if method == "exact":
            wins = _chance_to_win(better, tied, others, draws)
        else:
            wins = _sampled_wins(better, tied, others, draws, repeats, seed)
    wins[~data.usable] = math.nan
    return RPrecision(*_share(wins, data.own, confidence=confidence), _n(data.usable), _n(~data.usable), wins)


def ranks(image_vectors: ArrayLike, text_vectors: ArrayLike, *, positive: ArrayLike | None = None) -> Ranks:
    """Where each image's own text stands by cosine among all distinct texts, for ``recall_at`` and ``median_rank``.

    Args, Raises: as for ``r_precision``.
    """
    data = _Retrieval(image_vectors, text_vectors, positive, normalise=True)
    better, tied = data.counts()
    better[~data.usable] = tied[~data.usable] = math.nan
    return Ranks(better, tied, data.n_texts)


def recall_at(k: int, ranking: Ranks) -> Floats:
    """Chance that an image's own text is among its k nearest, equals in fair order; shape (N,), in [0, 1], or NaN.

    Raises:
        ValueError: k < 1.
    """
    if k < 1:
        raise ValueError(f"recall_at needs k >= 1; got {k}")
    return np.clip((k - ranking.better) / (ranking.tied + 1), 0.0, 1.0)


def median_rank(ranking: Ranks) -> float:
    """Median over images of the rank of the own text, 1 the best; among equals the middle one. NaN without any."""
    rank = _usable(1 + ranking.better + ranking.tied / 2)
    return float(np.median(rank)) if len(rank) else math.nan


class _Retrieval:
    """Images against distinct texts, tile by tile.

    Attributes:
        usable: images with a usable vector, shape (N,).
        column_of_row: distinct text of each row of the texts, shape (M,).
        copies: rows of each distinct text, shape (T,).
        own: distinct text of each image, shape (N,).
    """

    def __init__(
        self, image_vectors: ArrayLike, text_vectors: ArrayLike, positive: ArrayLike | None, *, normalise: bool
    ) -> None:
        images, texts = np.asarray(image_vectors), np.asarray(text_vectors)
        if images.ndim != 2 or texts.ndim != 2 or images.shape[1] != texts.shape[1] or not len(texts):
            raise ValueError(
                f"images and texts must be matrices (N, D) and (M, D) of one D, M >= 1; got {images.shape} and "
                f"{texts.shape}"
            )
        if unusable := _n(~_has_direction(texts)):
            raise ValueError(f"{unusable} text vector(s) hold NaN or infinite numbers, or only 0; all must be usable")
        if positive is None:
            if len(images) != len(texts):
                raise ValueError(
                    f"without positive, text i is that of image i; got {len(images)} images and {len(texts)} texts"
                )
            rows = np.arange(len(images))
        else:
            rows = np.asarray(positive)
            if rows.shape != (len(images),) or rows.dtype.kind not in "iu":
                raise ValueError(f"positive must be {len(images)} row numbers; got {rows.dtype} of shape {rows.shape}")
            if len(rows) and not 0 <= rows.min() <= rows.max() < len(texts):
                raise ValueError(f"positive must lie in 0 .. {len(texts) - 1}; got {rows.min()} to {rows.max()}")
        first, self.column_of_row = _distinct_rows(texts)
        self.copies = np.bincount(self.column_of_row).astype(np.float64)
        self.own: Indices = self.column_of_row[rows]
        self.usable = _has_direction(images)
        # In float32 unless the vectors are more precise: similarities are then good to about 1e-6 of their size.
        kind = np.result_type(images.dtype, texts.dtype, np.float32)
        self._images = images
        self._normalise = normalise
        self._texts = np.empty((len(first), texts.shape[1]), dtype=kind)
        for start in range(0, len(first), ROWS_AT_ONCE):
            some = texts[first[start : start + ROWS_AT_ONCE]]
            self._texts[start : start + ROWS_AT_ONCE] = _unit(some) if normalise else some

    @property
    def n_texts(self) -> int:
        return len(self._texts)

    def tiles(self) -> Iterator[tuple[slice, NDArray[np.floating], NDArray[np.floating]]]:
        """Rows of images, their similarities with all distinct texts, (B, T), and with their own, (B, 1).

        All from one product, so that equal texts are exactly equal, the own among them.
        """
        step = max(1, TILE_CELLS // self.n_texts)
        for start in range(0, len(self._images), step):
            rows = slice(start, min(start + step, len(self._images)))
            part = np.where(self.usable[rows, None], self._images[rows], 0)
            if self._normalise:
                part = np.nan_to_num(_unit(part))
            near = part.astype(self._texts.dtype) @ self._texts.T
            yield rows, near, np.take_along_axis(near, self.own[rows, None], axis=1)

    def counts(self) -> tuple[Floats, Floats]:
        """Other distinct texts that are nearer than the own, and as near, of each image, each shape (N,)."""
        better, tied = np.zeros(len(self._images)), np.zeros(len(self._images))
        for rows, near, positive in self.tiles():
            better[rows] = np.count_nonzero(near > positive, axis=1)
            tied[rows] = np.count_nonzero(near == positive, axis=1) - 1
        return better, tied

    def better_rows(self) -> Floats:
        """Rows of the texts, equal ones counted each, that are nearer than the own, of each image, shape (N,)."""
        repeated = np.flatnonzero(self.copies > 1)
        better = np.zeros(len(self._images))
        for rows, near, positive in self.tiles():
            nearer = near > positive
            better[rows] = np.count_nonzero(nearer, axis=1) + nearer[:, repeated] @ (self.copies[repeated] - 1)
        return better


def _released_wins(data: _Retrieval, draws: int, repeats: int, seed: int) -> Floats:
    """Share of the repeats in which no drawn text is nearer than the own, shape (N,)."""
    n, m = len(data.usable), len(data.column_of_row)
    # The generator of Python's ``random``, seeded alike: ``random.choices`` takes floor(random() * m).
    streams = []
    stream = np.random.RandomState([seed])  # a list: another seeding than by a number, and the one Python has
    for _ in range(repeats):
        copy = np.random.RandomState()
        copy.set_state(stream.get_state())
        streams.append(copy)
        for start in range(0, n, ROWS_AT_ONCE):  # on to the next repeat
            stream.random_sample((min(ROWS_AT_ONCE, n - start), draws))
    wins = np.zeros(n)
    for rows, near, positive in data.tiles():
        for stream in streams:
            drawn = (stream.random_sample((len(near), draws)) * m).astype(np.intp)
            wins[rows] += (np.take_along_axis(near, data.column_of_row[drawn], axis=1) <= positive).all(axis=1)
    return wins / repeats


def _chance_to_win(better: Floats, tied: Floats, others: int, draws: int) -> Floats:
    """Expectation over pools of: no better text in it, and the own drawn from its equals.

    With b better, t equal and r worse ones of m, and k draws without replacement, it is
    ``sum_j C(t, j) C(r, k - j) / C(m, k) / (j + 1)``. As ``C(t, j) / (j + 1) = C(t + 1, j + 1) / (t + 1)``, and by
    Vandermonde's identity, that is ``(C(r + t + 1, k + 1) - C(r, k + 1)) / ((t + 1) C(m, k))``.
    """
    worse = others - better - tied
    top = _log_choose(worse + tied + 1, draws + 1)
    bottom = _log_choose(worse, draws + 1)
    all_draws = _log_choose(np.full(1, others, dtype=np.float64), draws)
    chance = (np.exp(top - all_draws) - np.exp(bottom - all_draws)) / (tied + 1)
    # Without ties the difference is C(r, k): taken directly, without loss of digits.
    return np.where(tied == 0, np.exp(_log_choose(worse, draws) - all_draws), np.clip(chance, 0.0, 1.0))


def _sampled_wins(better: Floats, tied: Floats, others: int, draws: int, repeats: int, seed: int) -> Floats:
    """The same by drawing: how many better and equal texts a pool holds is all that matters of it."""
    rng = np.random.default_rng(seed)
    wins = np.zeros(len(better))
    b, t = better.astype(np.int64), tied.astype(np.int64)
    for _ in range(repeats):
        n_better = rng.hypergeometric(b, others - b, draws)
        n_tied = rng.hypergeometric(t, np.maximum(others - b - t, 0), np.where(n_better == 0, draws, 0))
        wins += (n_better == 0) / (1 + n_tied)
    return wins / repeats


def _share(wins: Floats, clusters: Indices, *, confidence: float) -> Interval:
    """Mean of shares with its interval; images of one text are resampled together."""
    usable = ~np.isnan(wins)
    values, labels = wins[usable], clusters[usable]
    if not len(values):
        return Interval(math.nan, math.nan, math.nan)
    if np.isin(values, (0.0, 1.0)).all():
        return clustered_proportion(values, labels, confidence=confidence)
    rounded = np.rint(values / _STEP) * _STEP
    if (rounded == rounded[0]).all():
        rounded = values
    around = cluster_bootstrap_mean(rounded, labels, seed=0, n_resamples=5_000, confidence=confidence)
    value = float(values.mean())
    low, high = np.clip(np.array(around[1:]) + (value - around.value), 0.0, 1.0)  # NaN stays
    return Interval(value, float(low), float(high))


# --------------------------------------------------------------------------------------------------------------------
# Small parts
# --------------------------------------------------------------------------------------------------------------------
def _check(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}; got {value!r}")


def _usable(values: ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"scores must be one-dimensional, one per image; got shape {array.shape}")
    if np.isinf(array).any():
        raise ValueError("scores must be finite, or NaN for none; got infinite ones")
    return array[~np.isnan(array)]


def _n(flags: NDArray[np.bool_]) -> int:
    return int(np.count_nonzero(flags))


def _has_direction(vectors: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Whether rows are finite and not 0."""
    flags = np.empty(len(vectors), dtype=bool)
    for start in range(0, len(vectors), ROWS_AT_ONCE):
        rows = vectors[start : start + ROWS_AT_ONCE]
        flags[start : start + ROWS_AT_ONCE] = np.isfinite(rows).all(axis=1) & (rows != 0).any(axis=1)
    return flags


def _unit(vectors: NDArray[np.floating]) -> Floats:
    """Rows scaled to length 1, in double precision; NaN where there is no direction."""
    values: Floats = np.asarray(vectors, dtype=np.float64)
    values = np.where(np.isfinite(values).all(axis=1, keepdims=True), values, math.nan)
    largest = np.abs(values).max(axis=1, keepdims=True, initial=0.0)
    values = np.divide(values, largest, out=np.full_like(values, math.nan), where=largest > 0)  # squares stay in range
    lengths: Floats = np.sqrt(np.einsum("nd,nd->n", values, values))
    return values / lengths[:, None]


def _distinct_rows(vectors: NDArray[np.floating]) -> tuple[Indices, Indices]:
    """First row of each distinct vector, in order of appearance, and the number of its distinct vector for each row."""
    seen: dict[bytes, int] = {}  # by hash: the bytes themselves would be another copy of all vectors
    hashes = (
        hashlib.blake2b(np.ascontiguousarray(row + 0.0).data, digest_size=16).digest() for row in vectors
    )  # -0 is 0
    number = np.array([seen.setdefault(row_hash, len(seen)) for row_hash in hashes], dtype=np.intp)
    first = np.zeros(len(seen), dtype=np.intp)
    first[number[::-1]] = np.arange(len(vectors))[::-1]
    return first, number


def _log_choose(n: Floats, k: int) -> Floats:
    """Logarithm of the binomial coefficient; minus infinity where n < k."""
    from scipy.special import gammaln

    inside = np.maximum(n, k)
    log = gammaln(inside + 1) - math.lgamma(k + 1) - gammaln(inside - k + 1)
    chosen: Floats = np.where(n >= k, log, -math.inf)
    return chosen
