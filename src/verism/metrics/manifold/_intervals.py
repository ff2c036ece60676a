"""How far precision, recall, density and coverage would move with other images of the same kind.

Both sets are samples, so both are sources of error, and the radii move with the real images. The usual tools fail.
A bootstrap draws copies, and copies are neighbours at distance 0: radii shrink, a third of the points is missing, and
all four numbers are biased. Leaving out one point at a time exceeds the true variance up to 4 times (equal Gaussians
in 8 and in 64 dimensions, 180 points), because these numbers do not react smoothly to single points.

So both sets are split at random into halves, many times, and the numbers are computed anew on each half, with the
radii that the half has. Halves hold distinct points only. A number that is linear in the points varies across random
halves as much as across new samples of the full size; others vary up to twice as much (in variance), so intervals are
rather too wide than too narrow. The mean of the halves is not used, as values depend on the set size. Only their spread
is, as a design effect over independent images, which depends little on it: in 64 dimensions it grows by a tenth to a
fifth when sets are doubled.

Images of one prompt are alike, and another sample would have other prompts: where prompts have several images, halves
hold whole prompts, and the interval allows for the few degrees of freedom that few prompts leave.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from verism.metrics.manifold._groups import pairs_of_groups
from verism.metrics.manifold._neighbours import Divisions, check_k
from verism.metrics.manifold._prdc import PRDC, divided_prdc
from verism.metrics.manifold._splits import cluster_labels, random_splits
from verism.metrics.manifold._tiles import Floats, Labels, Points, check_pair
from verism.statistics import Interval, wilson
from verism.statistics._common import student_quantile

Metric = Literal["precision", "recall", "density", "coverage"]

N_SPLITS = 20
# Where all halves agree there is no spread to learn from; then images count as this many times less than independent
# ones. Measured design effects in 64 dimensions: 1.5 to 2 for precision and recall, 3 to 3.6 for coverage.
PRIOR_EFFECT = 3.0
# The spread of density is itself uncertain, having long tails: as uncertain as one from about 11 samples.
DENSITY_FREEDOM = 10


class HalfSamples(NamedTuple):
    """The four numbers of two sets, and of random halves of both.

    Attributes:
        values: of the whole sets; NaN if they are too small for k.
        halves: of each half, shape (2 * n_splits, 4), columns as in PRDC; no rows if halves are too small for k.
        n_real: points of the whole real set.
        n_generated: points of the whole generated set.
        cluster_size: points in the cluster that the average point lies in, on the side where that is larger, >= 1.
        freedom: degrees of freedom of the spread between clusters; infinite where every point is its own cluster.
    """

    values: PRDC
    halves: Floats
    n_real: int
    n_generated: int
    cluster_size: float = 1.0
    freedom: float = math.inf

    def interval(self, metric: Metric, *, confidence: float = 0.95) -> Interval:
        """Interval for the mean of the number over repetitions at these set sizes; ends are NaN without halves.

        Shares get Wilson's interval at their effective number of images, so it does not collapse at 0 or 1. Density
        gets the same kind of interval for counts.

        How often in 100 nominal 95 % intervals held the truth, by ``benchmarks/manifold.py --intervals``: 400
        repetitions, so each with a standard error of about 1; 64-dimensional Gaussians, 180 + 180 points and k = 3
        unless said. Mostly they are somewhat too wide; density has long tails and falls short where it is far above 1:

        =====================================  =========  ======  =======  ========
        generated against real                 precision  recall  density  coverage
        =====================================  =========  ======  =======  ========
        equal                                  96.5       95.5    94.8     97.2
        moved by 0.25 in every direction       96.0       96.2    95.8     97.0
        moved by 0.6                           96.2       96.0    97.2     94.5
        moved by 1: hardly any overlap         97.5       98.0    99.2     98.2
        narrower, 0.7 times as wide            99.5       97.5    92.2     99.8
        equal, 8 dimensions                    98.0       98.5    98.5     99.2
        7 of 10 clusters, 16 dimensions        98.8       96.8    94.5     98.2
        equal, 500 + 500 points                95.5       96.8    96.0     95.8
        moved by 0.25, 500 + 500 points        94.2       97.5    94.2     93.5
        =====================================  =========  ======  =======  ========

        With several points a prompt, and their ``clusters``: 95 to 100 from 6 prompts of 25 to 40 of 4, where intervals
        that ignore prompts hold 80 to 100; docs/metrics.md has the table, and a case where few prompts decide.

        Source: subsampling without replacement, Politis, Romano & Wolf 1999, Subsampling, Ch. 2; halves as a jackknife
            that deletes many, Shao & Wu 1989, Ann. Stat. 17:1176-1197; Wilson 1927 at an effective size as in Dean &
            Pagano 2015, J. Surv. Stat. Methodol. 3:484-503; degrees of freedom: Korn & Graubard 1998, Survey
            Methodology 24:193-201.
        """
        column = PRDC._fields.index(metric)
        value = self.values[column]
        if math.isnan(value) or not len(self.halves):
            return Interval(value, math.nan, math.nan)
        if metric == "density":
            return self._density(confidence)
        n = self._effective(column, confidence)
        return wilson(value * n, n, confidence=confidence)

    def standard_error(self, metric: Metric) -> float:
        """Half the width of the 68 % interval: greater than 0 also where the value is 0 or 1. NaN without halves."""
        _, low, high = self.interval(metric, confidence=0.6826894921370859)  # one sigma
        return (high - low) / 2

    def _prior(self) -> tuple[float, float]:
        """Design effect where halves cannot show one, and the part of an image that it weighs against what they show.

        Clusters that agree entirely multiply the variance by their size. The weight falls as the size grows, so that
        it stays a matter of halves that agree.
        """
        return PRIOR_EFFECT + self.cluster_size - 1, 1 / self.cluster_size

    def _moves(self, column: int) -> Floats:
        """How each half differs from the mean."""
        moves: Floats = self.halves[:, column] - self.halves[:, column].mean()
        if math.isfinite(self.freedom):
            # The first half of a split is the larger where clusters are odd in number: that is no chance.
            for half in (0, 1):
                moves[half::2] -= moves[half::2].mean()
        return moves

    def _effective(self, column: int, confidence: float) -> float:
        """Independent images that would tell as much about a share."""
        n = self.n_generated if column == PRDC._fields.index("precision") else self.n_real
        mean = float(self.halves[:, column].mean())
        prior, weight = self._prior()
        padding = weight / n
        variance = float(np.mean(self._moves(column) ** 2))
        effect = (n * variance + padding * prior) / (mean * (1 - mean) + padding)
        if math.isfinite(self.freedom):
            tail = (1 + confidence) / 2
            effect *= (student_quantile(self.freedom, tail) / student_quantile(n - 1, tail)) ** 2
        return n / max(effect, 1.0)

    def _density(self, confidence: float) -> Interval:
        column = PRDC._fields.index("density")
        value, mean = self.values.density, float(self.halves[:, column].mean())
        variance = float(np.mean(self._moves(column) ** 2)) * (value / mean) ** 2 if mean > 0 else 0.0
        # As a count of events of one size, from variance over mean; padded, so that a density of 0 has an upper end.
        prior, weight = self._prior()
        size = prior / self.n_generated
        size = (variance + weight * size * size) / (value + weight * size)
        z = student_quantile(min(DENSITY_FREEDOM, self.freedom), (1 + confidence) / 2)
        middle, half = value + size * z * z / 2, z * math.sqrt(size * value + (size * z / 2) ** 2)
        return Interval(value, max(0.0, middle - half) if value > 0 else 0.0, middle + half)


def half_samples(
    real: ArrayLike,
    generated: ArrayLike,
    k: int = 5,
    *,
    seed: int,
    strict: bool = True,
    n_splits: int = N_SPLITS,
    strata: tuple[Labels, Labels] | None = None,
    clusters: ArrayLike | None = None,
    real_clusters: ArrayLike | None = None,
) -> HalfSamples:
    """The four numbers with what their intervals need, in little more time than ``prdc`` takes for large sets.

    Args:
        real: as for ``prdc``.
        generated: as for ``prdc``.
        k: as for ``prdc``; halves need k + 2 points, or there are none.
        strict: as for ``prdc``.
        seed: of the splits; same seed, same halves. They depend on the numbers of points, not on names of groups.
        n_splits: random splits into two halves, >= 2.
        strata: labels of the kinds that a repetition would hold in the same numbers, such as the object in a set that
            is balanced over objects, of the real points, length N, and of the generated ones, length M: every half then
            gets half of each kind.
        clusters: label of each generated image's prompt, shape (M,), if prompts have several images: halves hold whole
            prompts. With strata, a prompt that is the only one of its kind is taken as given, and its images are split.
        real_clusters: the same for real images, shape (N,), where several are of one scene, person or place.
    Raises:
        ValueError: as ``prdc``; n_splits < 2; strata or clusters that do not fit.
    """
    x, y = check_pair(real, generated)
    check_k(k, len(x), "real")
    check_k(k, len(y), "generated")
    if n_splits < 2:
        raise ValueError(f"n_splits must be at least 2; got {n_splits}")
    real_strata, generated_strata = strata or (None, None)
    of_real = random_splits(len(x), n_splits, [seed, 0], strata=real_strata, clusters=real_clusters, name="real")
    of_generated = random_splits(
        len(y), n_splits, [seed, 1], strata=generated_strata, clusters=clusters, name="generated"
    )
    enough = min(of_real.smallest, of_generated.smallest) >= k + 2
    halves = [Divisions.of(split.second if enough else split.second[:, :0]) for split in (of_real, of_generated)]
    full, *of_halves = divided_prdc(x, y, k, (halves[0], halves[1]), strict=strict)
    return HalfSamples(
        full,
        np.asarray(of_halves, np.float64).reshape(-1, 4),
        len(x),
        len(y),
        cluster_size=max(of_real.cluster_size, of_generated.cluster_size),
        freedom=min(of_real.freedom, of_generated.freedom),
    )


def grouped_half_samples(
    real: ArrayLike,
    generated: ArrayLike,
    real_groups: Labels,
    generated_groups: Labels | None = None,
    k: int = 5,
    *,
    seed: int,
    pairs: Mapping[Any, Any] | None = None,
    strict: bool = True,
    n_splits: int = N_SPLITS,
    clusters: ArrayLike | None = None,
    real_clusters: ArrayLike | None = None,
) -> dict[Hashable, HalfSamples]:
    """``half_samples`` of every group. A generated set held against several real ones is split in one way for all, so
    that ``shared_covariance`` sees what these groups have in common.

    Args, Raises: as for ``grouped_prdc`` and ``half_samples``. Groups too small for k are there, as NaN.
    """
    x, y = check_pair(real, generated)
    check_k(k, k + 2, "real")
    prompts = None if clusters is None else cluster_labels(clusters, len(y), "generated")
    scenes = None if real_clusters is None else cluster_labels(real_clusters, len(x), "real")
    out: dict[Hashable, HalfSamples] = {}
    for label, rows, _, columns in pairs_of_groups(len(x), len(y), real_groups, generated_groups, pairs):
        if min(len(rows), len(columns)) < k + 2:
            nothing = PRDC(math.nan, math.nan, math.nan, math.nan)
            out[label] = HalfSamples(nothing, np.zeros((0, 4)), len(rows), len(columns))
            continue
        chosen: Points = y if len(columns) == len(y) else y[columns]
        out[label] = half_samples(
            x[rows],
            chosen,
            k,
            seed=seed,
            strict=strict,
            n_splits=n_splits,
            clusters=None if prompts is None else prompts[columns],
            real_clusters=None if scenes is None else scenes[rows],
        )
    return out


def shared_covariance(samples: Sequence[HalfSamples], metric: Metric) -> Floats:
    """Covariance of one number between groups that share their generated images, shape (G, G).

    Args:
        samples: of one call of ``grouped_half_samples`` in which all groups had the same generated set. Groups that
            share nothing are independent: for these use ``standard_error`` of each.
        metric: which number.
    Returns:
        Squared standard errors on the diagonal. Feed it to ``verism.statistics.disparity``.
    Raises:
        ValueError: no groups, a group without halves, different numbers of splits or of generated points.
    """
    if not samples or len({(len(s.halves), s.n_generated) for s in samples}) > 1 or not len(samples[0].halves):
        raise ValueError(
            "shared_covariance needs groups held against one generated set with the same splits, each with halves; got "
            f"(halves, generated points) {[(len(s.halves), s.n_generated) for s in samples]}"
        )
    column = PRDC._fields.index(metric)
    moves = np.stack([s._moves(column) for s in samples])
    lengths = np.linalg.norm(moves, axis=1)
    units = np.divide(moves, lengths[:, None], out=np.zeros_like(moves), where=lengths[:, None] > 0)
    correlation = units @ units.T
    np.fill_diagonal(correlation, 1.0)
    errors = np.asarray([s.standard_error(metric) for s in samples])
    covariance: Floats = correlation * np.outer(errors, errors)
    return covariance
