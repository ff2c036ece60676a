"""Artificial difference sets: groups of labelled images put together so that the difference is known.

Fifteen differences of one model are too few to tell judges apart. From the labelled images of an attribute, groups of
80 are drawn with a chosen share that shows it, one group for each gender; a judge's difference on them is compared with
the chosen one, hundreds of times.

Source: Zhang et al. 2023, Auditing Gender Presentation Differences in Text-to-Image Models, Sec. 6 and appendix C
(Table 17); the procedure ``released`` follows the published code in every step that decides which sets are possible and
likely, but not its stream of random numbers, so single sets differ from the published ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verism.metrics.presentation.evaluation import PairTau, VectorAgreement, Zeros, tau_by_pair_type, vector_agreement
from verism.renames import protocol_name

__all__ = [
    "CANDIDATES",
    "GROUP_SIZE",
    "REPETITIONS",
    "SCALES",
    "DifferenceSet",
    "Labels",
    "Protocol",
    "SetAgreement",
    "artificial_sets",
    "candidate_differences",
    "estimate_sets",
    "evaluate_estimators",
    "feasible_differences",
    "feasible_scales",
    "mixed_agreement",
]

Protocol = Literal["released", "revised"]
Labels = Mapping[str, tuple[ArrayLike, ArrayLike]]
"""By attribute: 0/1 labels of the images of the first and of the second gender, shapes (N,) and (M,)."""

SCALES = (1.0, 0.5, 0.25, 0.125)
CANDIDATES = 19  # differences i * scale / 10 for i = -9 .. 9
GROUP_SIZE = 80
REPETITIONS = 10
MAX_SHUFFLES = 200_000  # of the released procedure, which shuffles until all differences fit; a few seconds
SWAPS_EACH = 50  # exchanges per candidate in the revised one: more than enough to forget the start

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


class DifferenceSet(NamedTuple):
    """Two groups of images with a known difference.

    Attributes:
        attribute: what they show or not.
        scale: factor of the differences that the set belongs to.
        repetition: number of the set at this scale.
        nominal: share of the first group that was meant to show it, minus that of the second.
        realised: the same as counted in the groups; within one image of the nominal one.
        first: positions of the images in the labels of the first gender, ``group_size`` different ones.
        second: the same for the second gender.
    """

    attribute: str
    scale: float
    repetition: int
    nominal: float
    realised: float
    first: Indices
    second: Indices


def candidate_differences(scale: float) -> Floats:
    """The 19 differences of a scale (Table 17, without its misprint 0.1 for 0.2 at scale 0.25)."""
    return np.arange(-9, 10) * scale / 10


def artificial_sets(
    labels: Labels,
    *,
    scales: Sequence[float] = SCALES,
    repetitions: int = REPETITIONS,
    group_size: int = GROUP_SIZE,
    protocol: Protocol = "revised",
    seed: int = 0,
) -> list[DifferenceSet]:
    """Sets of all attributes, ``repetitions`` times at every scale.

    ``released``: the generator starts anew from ``seed`` at every scale; the candidates are shuffled until the first A
    fit the A attributes in order; shares are drawn from the real numbers and rounded down to images, so that the
    realised difference can be one image off.

    ``revised``: every scale and repetition has a random stream of its own, so that adding a scale changes no other;
    distinct candidates are drawn uniformly among all assignments that fit, by random exchanges; groups are drawn in
    whole images as near to the nominal difference as there are (with groups of 80 always exactly).

    Both draw groups without replacement, and within a repetition and scale all attributes get different candidates.

    Args:
        labels: by attribute, the labels of either gender's images; neutral and explicit ones together. At most 19.
        scales: the paper leaves out 1.0 for CogView2; ``feasible_scales`` says which are possible.
        repetitions: sets of each attribute at each scale, >= 1.
        group_size: images of each gender in a set.
        protocol: ``released`` or ``revised``, see above.
        seed: of the draws.
    Returns:
        Scale by scale, repetition by repetition, in the order of the attributes.
    Raises:
        ValueError: too few labelled images for a group, labels other than 0 and 1, or a scale at which the attributes
            cannot all get a difference of their own.
    """
    protocol = cast(Protocol, protocol_name(protocol))
    if protocol not in get_args(Protocol):
        raise ValueError(f"protocol must be one of {list(get_args(Protocol))}; got {protocol!r}")
    pools = _pools(labels, group_size)
    made: list[DifferenceSet] = []
    for scale in scales:
        fits = feasible_differences(labels, scale, group_size=group_size)
        start = _assignment(fits)
        if start is None:
            raise ValueError(
                f"scale {scale:g}: the {len(pools)} attributes cannot all get a difference of their own from these "
                "labels; leave the scale out (feasible_scales lists those that can)"
            )
        stream = np.random.RandomState(seed)
        for repetition in range(repetitions):
            if protocol == "released":
                chosen = _shuffled(fits, stream, scale)
                made += _released(pools, chosen, scale, repetition, group_size, stream)
            else:
                set_rng = np.random.default_rng([seed, round(scale * 1_000_000), repetition])
                chosen = _exchanged(fits, start, set_rng)
                made += _revised(pools, chosen, scale, repetition, group_size, set_rng)
    return made


def feasible_differences(labels: Labels, scale: float, *, group_size: int = GROUP_SIZE) -> NDArray[np.bool_]:
    """Which candidates each attribute's images allow, shape (A, 19).

    A group of images without repetition can show the attribute in at least ``max(0, group_size - negatives)`` and at
    most ``min(group_size, positives)`` of its images.
    """
    pools = _pools(labels, group_size)
    differences = candidate_differences(scale)
    fits = np.zeros((len(pools), CANDIDATES), dtype=bool)
    for number, pool in enumerate(pools.values()):
        (low_first, high_first), (low_second, high_second) = (_reach(side, group_size) for side in pool)
        # A hair wider than the range: 0.30000000000000004 is no larger than 24/80.
        lowest, highest = (low_first - high_second) / group_size, (high_first - low_second) / group_size
        fits[number] = (differences >= lowest - 1e-9) & (differences <= highest + 1e-9)
    return fits


def feasible_scales(labels: Labels, scales: Sequence[float] = SCALES, *, group_size: int = GROUP_SIZE) -> list[float]:
    """The scales at which every attribute can get a difference of its own."""
    return [s for s in scales if _assignment(feasible_differences(labels, s, group_size=group_size)) is not None]


# -------------------------------------------------------------------------------------------------------------- choice
def _assignment(fits: NDArray[np.bool_]) -> Indices | None:
    """Some candidate for each attribute, all different; None if there is no such choice."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    if fits.shape[0] > fits.shape[1]:
        return None
    matched = np.asarray(maximum_bipartite_matching(csr_array(fits.astype(np.int8)), perm_type="column"))
    return matched.astype(np.intp) if (matched >= 0).all() else None


def _shuffled(fits: NDArray[np.bool_], stream: np.random.RandomState, scale: float) -> Indices:
    n = len(fits)
    rows = np.arange(n)
    for _ in range(MAX_SHUFFLES):
        order = stream.permutation(CANDIDATES)[:n]
        if fits[rows, order].all():
            return order.astype(np.intp)
    raise ValueError(
        f"scale {scale:g}: no shuffle of {MAX_SHUFFLES:,} fitted all {n} attributes, as the released procedure asks; "
        "leave the scale out, or use the protocol revised"
    )


def _exchanged(fits: NDArray[np.bool_], start: Indices, rng: np.random.Generator) -> Indices:
    """A uniform draw from all assignments that fit, by exchanging the candidates of two random places.

    The places beyond the attributes hold the candidates nobody has. Exchanges are symmetric and refused where they do
    not fit, so every assignment is as likely as any other in the long run.
    """
    n = len(fits)
    allowed = np.ones((CANDIDATES, CANDIDATES), dtype=bool)
    allowed[:n] = fits
    candidates = np.concatenate([start, np.setdiff1d(np.arange(CANDIDATES), start)])
    for i, j in rng.integers(0, CANDIDATES, (SWAPS_EACH * CANDIDATES, 2)).tolist():
        if allowed[i, candidates[j]] and allowed[j, candidates[i]]:
            candidates[i], candidates[j] = candidates[j], candidates[i]
    return candidates[:n].astype(np.intp)


# -------------------------------------------------------------------------------------------------------------- groups
class _Side(NamedTuple):
    positives: Indices
    negatives: Indices


def _pools(labels: Labels, group_size: int) -> dict[str, tuple[_Side, _Side]]:
    if not 0 < len(labels) <= CANDIDATES:
        raise ValueError(f"between 1 and {CANDIDATES} attributes get differences of their own; got {len(labels)}")
    pools = {}
    for attribute, (first, second) in labels.items():
        sides = []
        for values in (first, second):
            array = np.asarray(values, dtype=np.float64)
            if array.ndim != 1 or not np.isin(array, (0.0, 1.0)).all():
                raise ValueError(f"{attribute}: labels must be one-dimensional and 0 or 1")
            if len(array) < group_size:
                raise ValueError(
                    f"{attribute}: a group has {group_size} images, but only {len(array)} of one gender are labelled"
                )
            sides.append(_Side(np.flatnonzero(array == 1), np.flatnonzero(array == 0)))
        pools[attribute] = (sides[0], sides[1])
    return pools


def _reach(side: _Side, group_size: int) -> tuple[int, int]:
    return max(0, group_size - len(side.negatives)), min(group_size, len(side.positives))


def _released(
    pools: Mapping[str, tuple[_Side, _Side]],
    chosen: Indices,
    scale: float,
    repetition: int,
    size: int,
    stream: np.random.RandomState,
) -> list[DifferenceSet]:
    made = []
    for (attribute, pool), nominal in zip(pools.items(), candidate_differences(scale)[chosen].tolist(), strict=True):
        (low, high), (low_second, high_second) = (_reach(side, size) for side in pool)
        lowest = max(low / size, low_second / size + nominal)
        highest = min(high / size, high_second / size + nominal)
        share = float(stream.uniform(lowest, max(lowest, highest)))
        groups = []
        for side, wanted, bounds in zip(pool, (share, share - nominal), ((low, high), (low_second, high_second))):
            # Kept within what there is: at the ends of the range, rounding could ask for one image more or less.
            count = min(max(math.floor(size * wanted), bounds[0]), bounds[1])
            positives, negatives = stream.permutation(side.positives), stream.permutation(side.negatives)
            groups.append((count, np.concatenate([positives[:count], negatives[: size - count]])))
        made.append(_set(attribute, scale, repetition, nominal, groups, size))
    return made


def _revised(
    pools: Mapping[str, tuple[_Side, _Side]],
    chosen: Indices,
    scale: float,
    repetition: int,
    size: int,
    rng: np.random.Generator,
) -> list[DifferenceSet]:
    made = []
    for (attribute, pool), nominal in zip(pools.items(), candidate_differences(scale)[chosen].tolist(), strict=True):
        (low, high), (low_second, high_second) = (_reach(side, size) for side in pool)
        step = min(max(round(nominal * size), low - high_second), high - low_second)
        count = int(rng.integers(max(low, low_second + step), min(high, high_second + step) + 1))
        groups = []
        for side, wanted in zip(pool, (count, count - step)):
            positives = rng.choice(side.positives, wanted, replace=False)
            negatives = rng.choice(side.negatives, size - wanted, replace=False)
            groups.append((wanted, np.concatenate([positives, negatives])))
        made.append(_set(attribute, scale, repetition, nominal, groups, size))
    return made


def _set(
    attribute: str, scale: float, repetition: int, nominal: float, groups: Sequence[tuple[int, Indices]], size: int
) -> DifferenceSet:
    (n_first, first), (n_second, second) = groups
    return DifferenceSet(attribute, scale, repetition, nominal, (n_first - n_second) / size, first, second)


# ---------------------------------------------------------------------------------------------------------- evaluation
def estimate_sets(sets: Sequence[DifferenceSet], estimates: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> Floats:
    """A judge's difference on each set: mean estimate of the first group minus that of the second, shape (N,).

    Args:
        sets: of ``artificial_sets``.
        estimates: by attribute, in the order of the labels the sets were made of. NaN estimates make the difference
            NaN, which ``vector_agreement`` counts.
    Raises:
        ValueError: an attribute without estimates, or with too few for the places in a set.
    """
    if missing := [s.attribute for s in sets if s.attribute not in estimates]:
        raise ValueError(f"no estimates for {missing[0]!r}; there are those of {list(estimates)}")
    arrays = {name: tuple(np.asarray(side, dtype=np.float64) for side in both) for name, both in estimates.items()}
    for s in sets:
        for side, rows in zip(arrays[s.attribute], (s.first, s.second)):
            if int(rows.max()) >= len(side):
                raise ValueError(f"{s.attribute}: {len(side)} estimates, but the sets speak of more images")
    differences = []
    for s in sets:
        first, second = arrays[s.attribute]
        # Both groups are of one size. Exact sums, one division: the same counts of a yes-or-no judge give the same
        # difference to the last bit, and ties stay ties.
        differences.append((math.fsum(first[s.first]) - math.fsum(second[s.second])) / len(s.first))
    return np.array(differences)


class SetAgreement(NamedTuple):
    """How well a judge finds the differences of artificial sets.

    Attributes:
        overall: on all sets together.
        by_scale: at each scale.
        n_sets: how many there are.
    """

    overall: VectorAgreement
    by_scale: dict[float, VectorAgreement]
    n_sets: int


def evaluate_estimators(
    sets: Sequence[DifferenceSet],
    estimators: Mapping[str, Mapping[str, tuple[ArrayLike, ArrayLike]]],
    *,
    zeros: Zeros = "left_out",
    reference: Literal["nominal", "realised"] = "realised",
) -> dict[str, SetAgreement]:
    """Several judges, or variants of one (ablations), on the same sets (Tables 5, 8 and 9).

    Args:
        sets: of ``artificial_sets``.
        estimators: by name, the estimates of ``estimate_sets``.
        zeros: see ``evaluation.sign_mcc``; the published code has ``positive``.
        reference: the published code compares with the ``nominal`` difference. With sets of the protocol ``revised``
            in groups of 80 the two are the same.
    """
    if reference not in ("nominal", "realised"):
        raise ValueError(f"reference must be 'nominal' or 'realised'; got {reference!r}")
    # Rounded: the same difference must be one number at every scale, and 0.1 * 3 is not 0.3.
    truth = np.round([getattr(s, reference) for s in sets], 12) + 0.0
    attributes = np.array([s.attribute for s in sets])
    scales = np.array([s.scale for s in sets])
    agreements = {}
    for name, estimates in estimators.items():
        values = estimate_sets(sets, estimates)
        agreements[name] = SetAgreement(
            vector_agreement(values, truth, zeros=zeros, clusters=attributes),
            {
                float(scale): vector_agreement(
                    values[scales == scale], truth[scales == scale], zeros=zeros, clusters=attributes[scales == scale]
                )
                for scale in dict.fromkeys(scales.tolist())
            },
            len(sets),
        )
    return agreements


def mixed_agreement(
    models: Mapping[str, tuple[Sequence[DifferenceSet], ArrayLike]],
    *,
    zeros: Zeros = "left_out",
    reference: Literal["nominal", "realised"] = "realised",
) -> tuple[VectorAgreement, dict[str, PairTau]]:
    """The sets of several models together, and tau-b by kind of pair (Tables 18 and 21).

    Args:
        models: by model, its sets and a judge's differences on them (``estimate_sets``).
        zeros: as for ``evaluate_estimators``.
        reference: as for ``evaluate_estimators``.
    Returns:
        Agreement on all sets, clustered by attribute; tau-b by ``evaluation.PAIR_TYPES``.
    Raises:
        ValueError: differences that do not go with the sets, or NaN among them.
    """
    values, truth, attributes, names = [], [], [], []
    for model, (sets, differences) in models.items():
        array = np.asarray(differences, dtype=np.float64)
        if array.shape != (len(sets),):
            raise ValueError(f"{model}: {len(sets)} sets need as many differences; got shape {array.shape}")
        values.append(array)
        truth.append(np.round([getattr(s, reference) for s in sets], 12) + 0.0)
        attributes += [s.attribute for s in sets]
        names += [model] * len(sets)
    x, y = np.concatenate(values), np.concatenate(truth)
    return (
        vector_agreement(x, y, zeros=zeros, clusters=np.array(attributes)),
        tau_by_pair_type(x, y, attributes=np.array(attributes), models=np.array(names)),
    )
