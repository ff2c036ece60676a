"""The same numbers group by group: neighbours are searched inside each group only."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from verism.metrics.manifold._neighbours import check_k, radii_of, rows_by_group
from verism.metrics.manifold._prdc import PRDC, Memberships, memberships, prdc
from verism.metrics.manifold._tiles import Floats, Indices, Labels, check_pair

UNDEFINED = PRDC(math.nan, math.nan, math.nan, math.nan)


class GroupPRDC(NamedTuple):
    """The four numbers of one group and how many points they come from.

    Attributes:
        values: all NaN if either set has fewer than k + 2 points; the counts then say which.
        n_real: real points of the group.
        n_generated: generated points of the group.
    """

    values: PRDC
    n_real: int
    n_generated: int


class GroupMemberships(NamedTuple):
    """Where every image of one group lies, and which rows of the whole tables they are.

    Attributes:
        evidence: arrays over the rows below; ``nearest_real`` counts rows of the whole real set.
        real_rows: rows of the group in the whole real set, ascending.
        generated_rows: rows of the group in the whole generated set, ascending.
    """

    evidence: Memberships
    real_rows: Indices
    generated_rows: Indices


def pairs_of_groups(
    n_real: int,
    n_generated: int,
    real_groups: Labels,
    generated_groups: Labels | None,
    pairs: Mapping[Any, Any] | None,
) -> Iterator[tuple[Hashable, Indices, Hashable, Indices]]:
    """Label and rows of each real group, and of the generated one that it is held against."""
    real = rows_by_group(real_groups, n_real, "real")
    nothing = np.zeros(0, np.intp)
    if generated_groups is None:
        if pairs is not None:
            raise ValueError("pairs name generated groups; give generated_groups, or leave pairs out")
        everything = np.arange(n_generated)
        for label, rows in real.items():
            yield label, rows, None, everything
        return
    generated = rows_by_group(generated_groups, n_generated, "generated")
    if pairs is None:
        pairs = {label: label for label in {**real, **generated}}
    elif unknown := [label for label in real if label not in pairs]:
        raise ValueError(f"pairs must name the generated group of every real one; it lacks {unknown[:5]}")
    for label, partner in pairs.items():
        yield label, real.get(label, nothing), partner, generated.get(partner, nothing)


def grouped_prdc(
    real: ArrayLike,
    generated: ArrayLike,
    real_groups: Labels,
    generated_groups: Labels | None = None,
    k: int = 5,
    *,
    pairs: Mapping[Any, Any] | None = None,
    strict: bool = True,
    real_radii: ArrayLike | None = None,
) -> dict[Hashable, GroupPRDC]:
    """Precision, recall, density and coverage of every group, such as every object in every region.

    Only pairs inside a group are multiplied, so all groups together cost one matrix product at most. Radii of a
    generated group that is held against several real ones are computed once.

    Args:
        real: features, shape (N, D).
        generated: features, shape (M, D).
        real_groups: label of each real point, N of any hashable kind, such as ``(object, region)``.
        generated_groups: label of each generated point. None: the same generated points, all of them, are held against
            every real group, as images of ``{object}``, which have no region, are.
        k: as for ``prdc``.
        strict: as for ``prdc``.
        pairs: from real label to the label of the generated group it is held against; several may share one. None: the
            same label. Real groups left out are an error, labels without any points are not.
        real_radii: from ``knn_radii(real, k, groups=real_groups)``, shape (N,).
    Returns:
        For every label of either side (or of ``pairs``), values and counts. Groups too small for k are there, as NaN.
    Raises:
        ValueError: features or labels that do not fit.
    """
    x, y = check_pair(real, generated)
    check_k(k, k + 2, "real")
    radii = _given(real_radii, len(x))
    known: dict[Hashable, Floats] = {}
    out: dict[Hashable, GroupPRDC] = {}
    for label, rows, partner, columns in pairs_of_groups(len(x), len(y), real_groups, generated_groups, pairs):
        values = UNDEFINED
        if min(len(rows), len(columns)) >= k + 2:
            chosen = y if len(columns) == len(y) else y[columns]
            if partner not in known:
                known[partner] = radii_of(chosen, k, "generated")[:, 0]
            values = prdc(
                x[rows],
                chosen,
                k,
                strict=strict,
                real_radii=None if radii is None else radii[rows],
                generated_radii=known[partner],
            )
        out[label] = GroupPRDC(values, len(rows), len(columns))
    return out


def grouped_memberships(
    real: ArrayLike,
    generated: ArrayLike,
    real_groups: Labels,
    generated_groups: Labels | None = None,
    k: int = 5,
    *,
    pairs: Mapping[Any, Any] | None = None,
    strict: bool = True,
    real_radii: ArrayLike | None = None,
) -> dict[Hashable, GroupMemberships]:
    """Where every image lies within its group. Groups with fewer than k + 2 points on either side are left out.

    Args, Raises: as for ``grouped_prdc``.
    """
    x, y = check_pair(real, generated)
    check_k(k, k + 2, "real")
    radii = _given(real_radii, len(x))
    out: dict[Hashable, GroupMemberships] = {}
    for label, rows, _, columns in pairs_of_groups(len(x), len(y), real_groups, generated_groups, pairs):
        if min(len(rows), len(columns)) >= k + 2:
            chosen = y if len(columns) == len(y) else y[columns]
            group_radii = None if radii is None else radii[rows]
            evidence = memberships(x[rows], chosen, k, strict=strict, real_radii=group_radii)
            evidence = evidence._replace(nearest_real=rows[evidence.nearest_real])
            out[label] = GroupMemberships(evidence, rows, columns)
    return out


def _given(radii: ArrayLike | None, n: int) -> Floats | None:
    if radii is None:
        return None
    array = np.asarray(radii, dtype=np.float64)
    if array.shape != (n,):
        raise ValueError(f"real_radii must have one radius for each of the {n} real points; got shape {array.shape}")
    return array
