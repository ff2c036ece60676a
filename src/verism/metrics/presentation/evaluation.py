"""How well an automatic judge's presentation differences agree with those people see.

Everything here takes plain numbers, so it serves any judge: a vector is one difference per attribute (share or mean
estimate of the first gender's images minus the second's), an estimate is one number per image and attribute.

Source: Zhang et al. 2023, Auditing Gender Presentation Differences in Text-to-Image Models, Sec. 5, 6, appendix D;
the conventions of its published code are here by the name ``released``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verism.statistics import Interval
from verism.statistics._common import cluster_codes, finite_pair, mean_ranks
from verism.statistics.association import kendall_tau, matthews, pearson_r, roc_area

__all__ = [
    "AUC",
    "PAIR_TYPES",
    "AUCTable",
    "PairCounts",
    "PairTau",
    "Ratio",
    "ScoreAgreement",
    "SignAgreement",
    "Ties",
    "VectorAgreement",
    "Zeros",
    "auc_by_group",
    "count_differences",
    "pair_counts",
    "presentation_ratio",
    "released_classifier_auc",
    "roc_auc",
    "score_agreement",
    "sign_mcc",
    "tau_by_pair_type",
    "vector_agreement",
]

Floats = NDArray[np.float64]
Ties = Literal["counts", "floats"]
Zeros = Literal["positive", "own_class", "left_out"]

# Order of the columns of Tables 20 and 21.
PAIR_TYPES = (
    "same_attribute_same_model",
    "different_attribute_same_model",
    "same_attribute_different_model",
    "different_attribute_different_model",
)


# ---------------------------------------------------------------------------------------------------- Kendall's tau-b
class PairCounts(NamedTuple):
    """What tau-b depends on, as sums over pairs of entries: they add up over disjoint sets of pairs.

    Attributes:
        pairs: pairs of entries.
        balance: concordant less discordant pairs.
        tied_x: pairs with equal x, those equal in both included.
        tied_y: pairs with equal y, those equal in both included.
    """

    pairs: int
    balance: int
    tied_x: int
    tied_y: int

    def plus(self, other: PairCounts) -> PairCounts:
        return PairCounts(*(a + b for a, b in zip(self, other, strict=True)))

    def less(self, other: PairCounts) -> PairCounts:
        return PairCounts(*(a - b for a, b in zip(self, other, strict=True)))

    def tau_b(self) -> float:
        """In [-1, 1]; NaN if x or y is tied in every pair, or there is no pair."""
        free_x, free_y = self.pairs - self.tied_x, self.pairs - self.tied_y
        if free_x == 0 or free_y == 0:
            return math.nan
        return self.balance / math.sqrt(free_x) / math.sqrt(free_y)


class PairTau(NamedTuple):
    """Tau-b over some of the pairs, and how many they are."""

    tau: float
    pairs: int


def pair_counts(x: ArrayLike, y: ArrayLike) -> PairCounts:
    """Concordant, discordant and tied pairs of entries, in O(n log n).

    Args:
        x: shape (N,), finite. Numbers are tied if they are equal to the last bit.
        y: shape (N,), finite.
    Raises:
        ValueError: unequal lengths, NaN.
    """
    a, b = finite_pair(x, y)
    pairs = len(a) * (len(a) - 1) // 2
    tied_x, tied_y = _tied(a), _tied(b)
    free = math.sqrt(pairs - tied_x) * math.sqrt(pairs - tied_y)
    # Tau-b is the balance over this root, and the balance a whole number.
    return PairCounts(pairs, round(kendall_tau(a, b) * free) if free else 0, tied_x, tied_y)


def tau_by_pair_type(x: ArrayLike, y: ArrayLike, *, attributes: ArrayLike, models: ArrayLike) -> dict[str, PairTau]:
    """Tau-b over the pairs of one kind each: same or different attribute, same or different model (Table 21).

    A judge may order differences of one attribute well and those of different attributes badly: its scale may change
    from attribute to attribute.

    Args:
        x: shape (N,).
        y: shape (N,).
        attributes: attribute of each entry, shape (N,).
        models: model of each entry, shape (N,).
    Returns:
        By ``PAIR_TYPES``. The pairs of all four add up to N (N - 1) / 2.
    """
    a, b = finite_pair(x, y)
    groups = [cluster_codes(labels, len(a), name) for labels, name in ((attributes, "attributes"), (models, "models"))]
    attribute, model = groups
    everything = pair_counts(a, b)
    same_attribute, same_model = _within(a, b, attribute), _within(a, b, model)
    same_both = _within(a, b, attribute * (int(model.max(initial=0)) + 1) + model)
    counts = (
        same_both,
        same_model.less(same_both),
        same_attribute.less(same_both),
        everything.less(same_model).less(same_attribute).plus(same_both),
    )
    return {name: PairTau(c.tau_b(), c.pairs) for name, c in zip(PAIR_TYPES, counts, strict=True)}


def _within(x: Floats, y: Floats, codes: NDArray[np.intp]) -> PairCounts:
    total = PairCounts(0, 0, 0, 0)
    for rows in _rows_by_code(codes):
        total = total.plus(pair_counts(x[rows], y[rows]))
    return total


def _tied(values: Floats) -> int:
    sizes = np.unique(values, return_counts=True)[1].astype(np.int64)
    return int((sizes * (sizes - 1) // 2).sum())


# ----------------------------------------------------------------------------------------------------- vector and signs
def count_differences(
    first: ArrayLike, second: ArrayLike, n_first: ArrayLike, n_second: ArrayLike, *, ties: Ties = "counts"
) -> Floats:
    """Differences of frequencies, first minus second, from counts.

    Args:
        first: images of the first gender that show the attribute, shape (A,).
        second: images of the second gender that show it, shape (A,).
        n_first: images of the first gender that were judged, one number or shape (A,); NaN results where it is 0.
        n_second: the same for the second gender.
        ties: ``counts``, so that equal differences are equal numbers (recommended); or ``floats``, frequencies
            subtracted as the published code does, where 7/80 - 6/80 and 2/80 - 1/80 differ in the last bit and rank
            correlations see no tie.
    Raises:
        ValueError: counts that are negative or above the number of images, unknown ``ties``.
    """
    if ties not in get_args(Ties):
        raise ValueError(f"ties must be one of {list(get_args(Ties))}; got {ties!r}")
    a, b, m, n = np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in (first, second, n_first, n_second)))
    if (a < 0).any() or (b < 0).any() or (a > m).any() or (b > n).any():
        raise ValueError("counts must lie between 0 and the number of images")
    with np.errstate(divide="ignore", invalid="ignore"):
        if ties == "floats":
            return np.asarray(a / m - b / n)
        # Whole numbers until the one division; the same division for the same difference.
        return np.asarray((a * n - b * m) / (m * n))


class SignAgreement(NamedTuple):
    """MCC of signs; ``n_used`` entries, of which ``n_zero`` have a zero on either side (left out: not in n_used)."""

    mcc: float
    n_used: int
    n_zero: int


def sign_mcc(automatic: ArrayLike, reference: ArrayLike, *, zeros: Zeros = "left_out") -> SignAgreement:
    """Matthews correlation of the signs of two vectors: does the judge see the difference on the right side?

    Args:
        automatic: the judge's vector, shape (A,), finite.
        reference: the vector that is taken as right, shape (A,), finite.
        zeros: ``positive``, as the published code counts them, so that "no difference" agrees with "more with the
            first"; ``left_out``, entries with a zero on either side do not enter, and are counted; ``own_class``, a
            third class (the multi-class coefficient), for judges that can say 0: others never do, and lose.
    Returns:
        In [-1, 1]; NaN if one side has a single sign throughout (scikit-learn gives 0 there).
    Source: Matthews 1975; Gorodkin 2004, Comput. Biol. Chem. 28:367-374 (several classes).
    """
    if zeros not in get_args(Zeros):
        raise ValueError(f"zeros must be one of {list(get_args(Zeros))}; got {zeros!r}")
    a, b = finite_pair(automatic, reference)
    is_zero = (a == 0) | (b == 0)
    n_zero = int(is_zero.sum())
    signs = np.stack([np.sign(a), np.sign(b)]).astype(np.intp)
    if zeros == "positive":
        signs[signs == 0] = 1
    elif zeros == "left_out":
        signs = signs[:, ~is_zero]
    n = signs.shape[1]
    table = np.bincount((signs[0] + 1) * 3 + signs[1] + 1, minlength=9).reshape(3, 3)
    return SignAgreement(matthews(table), n, n_zero)


@dataclass(frozen=True, kw_only=True)
class VectorAgreement:
    """Agreement of an automatic with a reference vector.

    Attributes:
        tau: Kendall's tau-b.
        mcc: of signs, by ``zeros``.
        pearson: on the values. All in [-1, 1], NaN where undefined, with jackknife intervals over clusters.
        zeros: convention for zeros, see ``sign_mcc``.
        n_used: entries known on both sides.
        n_unusable: those that are NaN on one.
        n_zero: entries that are exactly 0 on one side, on which ``zeros`` decides.
    """

    tau: Interval
    mcc: Interval
    pearson: Interval
    zeros: Zeros
    n_used: int
    n_unusable: int
    n_zero: int

    def record(self) -> dict[str, Any]:
        intervals = {"tau": self.tau, "mcc": self.mcc, "pearson": self.pearson}
        return {name: dict(interval._asdict()) for name, interval in intervals.items()} | {
            "zeros": self.zeros,
            "n_used": self.n_used,
            "n_unusable": self.n_unusable,
            "n_zero": self.n_zero,
        }


def vector_agreement(
    automatic: ArrayLike,
    reference: ArrayLike,
    *,
    zeros: Zeros = "left_out",
    clusters: ArrayLike | None = None,
    confidence: float = 0.95,
) -> VectorAgreement:
    """Tau-b, MCC of signs and Pearson's correlation of two vectors (Tables 4, 5, 18, 19).

    Args:
        automatic: the judge's vector, shape (A,); NaN where there was no usable image.
        reference: the vector that is taken as right, shape (A,); NaN likewise.
        zeros: see ``sign_mcc``.
        clusters: labels of entries that are not independent, shape (A,); for artificial sets their attribute, as all
            sets of an attribute are drawn from the same images. Each entry is its own if not given.
        confidence: confidence level of the intervals: a delete-one-cluster jackknife of Fisher's z with Student's t.
            They speak of other attributes like these, not of other images of the same.
    """
    a, b = np.asarray(automatic, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError(f"vectors must be one-dimensional and of one length; got shapes {a.shape} and {b.shape}")
    known = np.isfinite(a) & np.isfinite(b)
    codes = np.arange(len(a)) if clusters is None else cluster_codes(clusters, len(a))
    a, b, codes = a[known], b[known], codes[known]
    signs = sign_mcc(a, b, zeros=zeros)

    def interval(statistic: Callable[[Floats, Floats], float]) -> Interval:
        return _jackknife(lambda rows: statistic(a[rows], b[rows]), codes, confidence, correlation=True)

    return VectorAgreement(
        tau=interval(kendall_tau),
        mcc=interval(lambda x, y: sign_mcc(x, y, zeros=zeros).mcc),
        pearson=interval(pearson_r),
        zeros=zeros,
        n_used=len(a),
        n_unusable=int(np.count_nonzero(~known)),
        n_zero=signs.n_zero,
    )


def _jackknife(
    statistic: Callable[[NDArray[Any]], float], codes: NDArray[np.intp], confidence: float, *, correlation: bool
) -> Interval:
    """A statistic of rows and its interval from leaving out one cluster at a time; NaN ends where that is undefined."""
    from scipy.special import stdtrit

    everything = np.arange(len(codes))
    value = statistic(everything)
    clusters = np.unique(codes)
    if not math.isfinite(value) or len(clusters) < 3 or (correlation and abs(value) >= 1):
        return Interval(value, math.nan, math.nan)
    left_out = np.array([statistic(everything[codes != c]) for c in clusters])
    if not np.isfinite(left_out).all() or (correlation and (np.abs(left_out) >= 1).any()):
        return Interval(value, math.nan, math.nan)
    k = len(clusters)
    middle, parts = (math.atanh(value), np.arctanh(left_out)) if correlation else (value, left_out)
    error = math.sqrt((k - 1) / k * float(((parts - parts.mean()) ** 2).sum()))
    if error == 0:
        return Interval(value, math.nan, math.nan)
    half = float(stdtrit(k - 1, (1 + confidence) / 2)) * error
    low, high = middle - half, middle + half
    return Interval(value, math.tanh(low), math.tanh(high)) if correlation else Interval(value, low, high)


# ------------------------------------------------------------------------------------------------------------- scores
class ScoreAgreement(NamedTuple):
    """Whether a judge puts models in the right order.

    Attributes:
        tau: Kendall's tau-b of the scores.
        ranks_automatic: ranks of the judge's scores, shape (M,), 1 = smallest; equal scores share the mean of their
            ranks.
        ranks_reference: ranks of the reference scores, shape (M,).
    """

    tau: float
    ranks_automatic: Floats
    ranks_reference: Floats


def score_agreement(automatic: ArrayLike, reference: ArrayLike) -> ScoreAgreement:
    """Ranks of models (and settings) by their GEP scores, and how well the two orders agree (Table 6)."""
    a, b = finite_pair(automatic, reference)
    return ScoreAgreement(kendall_tau(a, b), mean_ranks(a), mean_ranks(b))


# ---------------------------------------------------------------------------------------------------------------- AUC
class AUC(NamedTuple):
    """Area under the ROC curve with its interval, and the images behind it."""

    value: float
    low: float
    high: float
    n_positive: int
    n_negative: int


class AUCTable(NamedTuple):
    """AUC per group, and the mean over those groups that have one.

    Attributes:
        groups: by group, in the order asked for or of first appearance.
        mean: of the defined ones, with an interval that knows that groups share prompts.
        n_undefined: groups with images of one kind only.
    """

    groups: dict[str, AUC]
    mean: Interval
    n_undefined: int

    def record(self) -> dict[str, Any]:
        return {
            "mean": dict(self.mean._asdict()),
            "n_undefined": self.n_undefined,
            "attributes": {name: dict(auc._asdict()) for name, auc in self.groups.items()},
        }


def roc_auc(
    labels: ArrayLike, estimates: ArrayLike, *, clusters: ArrayLike | None = None, confidence: float = 0.95
) -> AUC:
    """Chance that an image that shows the attribute is given a higher estimate than one that does not.

    Args:
        labels: 0 or 1, shape (N,).
        estimates: any scale, shape (N,); ties count half.
        clusters: the prompt of each image, shape (N,); each image its own if not given.
        confidence: confidence level of the interval, in (0, 1).
    Returns:
        In [0, 1], NaN without images of both kinds. The interval is DeLong's on the logit scale, summed over
        clusters; where nothing is out of order (AUC 0 or 1) it is Newcombe's fifth, with clusters for images, so it
        never has zero width.
    Source: DeLong et al. 1988, Biometrics 44:837-845; Obuchowski 1997, Biometrics 53:567-578 (clusters);
        Newcombe 2006, Stat. Med. 25:559-573, method 5.
    """
    estimate, label, codes = _auc_input(labels, estimates, clusters)
    return _auc(label, estimate, codes, confidence)[0]


def auc_by_group(
    groups: Sequence[str],
    labels: ArrayLike,
    estimates: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    order: Sequence[str] = (),
    confidence: float = 0.95,
) -> AUCTable:
    """AUC per attribute (or attribute and gender) and their mean (Tables 7 and 16).

    Images of both genders are pooled within a group; for one gender alone, give its rows only.

    Args:
        groups: group of each row, length N: an image judged for several attributes has several rows.
        labels: see ``roc_auc``.
        estimates: see ``roc_auc``.
        clusters: see ``roc_auc``.
        order: groups in the order wanted.
        confidence: confidence level of the intervals, in (0, 1).
    """
    estimate, label, codes = _auc_input(labels, estimates, clusters)
    names = np.asarray(groups, dtype=object)
    if names.shape != label.shape:
        raise ValueError(f"groups must name one group for each of the {len(label)} rows; got {len(names)}")
    wanted = list(dict.fromkeys([*order, *groups]))
    by_group: dict[str, AUC] = {}
    influence = np.zeros(int(codes.max(initial=-1)) + 1)
    for name in wanted:
        rows = np.flatnonzero(names == name)
        by_group[name], parts = _auc(label[rows], estimate[rows], codes[rows], confidence)
        np.add.at(influence, codes[rows], parts)
    defined = [auc.value for auc in by_group.values() if not math.isnan(auc.value)]
    if not defined:
        return AUCTable(by_group, Interval(math.nan, math.nan, math.nan), len(by_group))
    value = float(np.mean(defined))
    error = math.sqrt(float((influence**2).sum())) / len(defined)
    low, high = _logit_interval(value, error, len(np.unique(codes)), confidence)
    return AUCTable(by_group, Interval(value, low, high), len(by_group) - len(defined))


def released_classifier_auc(labels: ArrayLike, probabilities: ArrayLike) -> tuple[float, ...]:
    """The AUCs that the published notebook averages for its classifiers, one attribute: ten of one gender each.

    It appends the predictions of all seeds for men, then those for women, and cuts the list into pieces as long as both
    genders together. So every piece holds one gender with two seeds, not both genders, and no ensemble. We report
    the ensemble of both genders (``roc_auc``); this is for comparing with the published rows.

    Args:
        labels: 0 or 1, shape (2, N): women, men.
        probabilities: shape (2, S, N), S seeds.
    Returns:
        S values, NaN where a piece has images of one kind only; the notebook reports their mean.
    """
    label, probability = np.asarray(labels, dtype=np.float64), np.asarray(probabilities, dtype=np.float64)
    if label.ndim != 2 or label.shape[0] != 2 or probability.shape != (2, probability.shape[1], label.shape[1]):
        raise ValueError(
            f"labels of shape (2, N) go with probabilities of shape (2, S, N); got {label.shape}, {probability.shape}"
        )
    seeds, n = probability.shape[1:]
    listed = np.concatenate([probability[1].ravel(), probability[0].ravel()])
    repeated = np.concatenate([np.tile(label[1], seeds), np.tile(label[0], seeds)])
    pieces = [slice(start, start + 2 * n) for start in range(0, 2 * n * seeds, 2 * n)]
    return tuple(roc_auc(repeated[piece], listed[piece]).value for piece in pieces)


def _auc_input(
    labels: ArrayLike, estimates: ArrayLike, clusters: ArrayLike | None
) -> tuple[Floats, Floats, NDArray[np.intp]]:
    estimate, label = finite_pair(estimates, labels)
    if wrong := label[(label != 0) & (label != 1)].tolist():
        raise ValueError(f"labels must be 0 or 1; got {wrong[0]:g}: leave out images without a label")
    codes = np.arange(len(label)) if clusters is None else cluster_codes(clusters, len(label))
    return estimate, label, codes


def _auc(label: Floats, estimate: Floats, codes: NDArray[np.intp], confidence: float) -> tuple[AUC, Floats]:
    """The AUC and what each image adds to its error: squared sums over clusters make the variance."""
    positive = label == 1
    m, n = int(positive.sum()), int((~positive).sum())
    if m == 0 or n == 0:
        return AUC(math.nan, math.nan, math.nan, m, n), np.zeros(len(label))
    ranks = mean_ranks(estimate)
    # Share of the other kind that lies on the right side of each image.
    right = np.empty(len(label))
    right[positive] = (ranks[positive] - mean_ranks(estimate[positive])) / n
    right[~positive] = 1 - (ranks[~positive] - mean_ranks(estimate[~positive])) / m
    value = roc_area(estimate, label)
    clusters_positive, clusters_negative = len(np.unique(codes[positive])), len(np.unique(codes[~positive]))
    parts = right - value
    for side, size, k in ((positive, m, clusters_positive), (~positive, n, clusters_negative)):
        parts[side] *= math.sqrt(k / (k - 1)) / size if k > 1 else math.nan
    sums = np.bincount(codes, weights=parts)
    error = math.sqrt(float((sums**2).sum()))
    if 0 < value < 1:
        low, high = _logit_interval(value, error, len(np.unique(codes)), confidence)
    else:
        low, high = _newcombe(value, clusters_positive, clusters_negative, confidence)
    return AUC(value, low, high, m, n), np.nan_to_num(parts) if value in (0.0, 1.0) else parts


def _logit_interval(value: float, error: float, n_clusters: int, confidence: float) -> tuple[float, float]:
    from scipy.special import expit, logit, stdtrit

    if not 0 < value < 1 or not error > 0 or n_clusters < 2:
        return math.nan, math.nan
    half = float(stdtrit(n_clusters - 1, (1 + confidence) / 2)) * error / (value * (1 - value))
    middle = float(logit(value))
    return float(expit(middle - half)), float(expit(middle + half))


def _newcombe(value: float, m: int, n: int, confidence: float) -> tuple[float, float]:
    """Ends for an AUC of 0 or 1 of m and n units: where the score test would just not reject."""
    from scipy.optimize import brentq

    z, size = NormalDist().inv_cdf((1 + confidence) / 2), (m + n) / 2

    def excess(auc: float) -> float:
        spread = auc * (1 - auc) / (m * n) * (1 + (size - 1) * ((1 - auc) / (2 - auc) + auc / (1 + auc)))
        return (1 - auc) ** 2 - z**2 * spread

    low = float(brentq(excess, 0.0, 1.0 - 1e-12))
    return (low, 1.0) if value == 1 else (0.0, 1.0 - low)


# -------------------------------------------------------------------------------------------------------------- ratio
class Ratio(NamedTuple):
    """How much of a judge's reaction to an attribute is a reaction to gender.

    Attributes:
        ratio: ``by_gender`` over ``by_label``; 0 is best, NaN where one is undefined.
        by_gender: mean estimate of the first gender's less the second's images, among those that show the attribute.
        by_label: mean estimate of images that show it less that of images that do not.
        n_used: images.
    """

    ratio: Interval
    by_gender: float
    by_label: float
    n_used: int

    def record(self) -> dict[str, Any]:
        return self._asdict() | {"ratio": dict(self.ratio._asdict())}


def presentation_ratio(
    labels: ArrayLike,
    estimates: ArrayLike,
    is_first: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    confidence: float = 0.95,
) -> Ratio:
    """Difference between genders over difference between shown and not shown, one attribute (Sec. 6).

    Args:
        labels: 0 or 1, shape (N,).
        estimates: shape (N,).
        is_first: whether the image is of the first gender.
        clusters: prompt of each image; the interval is a jackknife that leaves out one at a time.
        confidence: confidence level of the interval, in (0, 1).
    """
    estimate, label, codes = _auc_input(labels, estimates, clusters)
    first = np.asarray(is_first, dtype=bool)
    if first.shape != label.shape:
        raise ValueError(f"is_first must have one entry for each of the {len(label)} images; got shape {first.shape}")
    shown = label == 1

    def mean(rows: NDArray[np.intp], which: NDArray[np.bool_]) -> float:
        chosen = estimate[rows[which[rows]]]
        return float(chosen.mean()) if len(chosen) else math.nan

    def both(rows: NDArray[np.intp]) -> tuple[float, float]:
        by_gender = mean(rows, shown & first) - mean(rows, shown & ~first)
        return by_gender, mean(rows, shown) - mean(rows, ~shown)

    def ratio(rows: NDArray[np.intp]) -> float:
        by_gender, by_label = both(rows)
        return by_gender / by_label if by_label else math.nan

    by_gender, by_label = both(np.arange(len(label)))
    return Ratio(_jackknife(ratio, codes, confidence, correlation=False), by_gender, by_label, len(label))


# ------------------------------------------------------------------------------------------------------------- shared
def _rows_by_code(codes: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1) if len(codes) else []
