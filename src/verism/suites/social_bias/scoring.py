"""From verdicts to the numbers of the suite. See ``docs/suites/social_bias.md``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from verism.cards import JudgeCard
from verism.errors import UsageError
from verism.metrics.imbalance import adjusted_prompt_mad, pooled_mad, prompt_mad, unbiased_test
from verism.metrics.presentation.gep import vector_with_intervals
from verism.records import PROTOCOLS, FacetValue, Observed, Prompt, Score
from verism.statistics.intervals import Interval, cluster_bootstrap_mean, clustered_mean, clustered_proportion, wilson
from verism.statistics.misclassification import adjusted_shares, fit_shares
from verism.suites.social_bias.adjustment import YES_NO, Confusion, find_confusion, judge_of
from verism.suites.social_bias.evidence import ATTRIBUTE, PERSON
from verism.suites.social_bias.prompts import GROUP_FACET
from verism.suites.social_bias.studies import TONE, Axis, Study
from verism.suites.social_bias.targets import EVERYWHERE, Targets

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Perceived", "Rules", "Table", "check_intersection", "perceived_table", "social_bias_scores"]

BETWEEN = " x "  # parts of an intersection
Ints = NDArray[np.intp]
Bools = NDArray[np.bool_]
UNDEFINED = (math.nan, math.nan)


@dataclass(frozen=True, kw_only=True, eq=False)
class Rules:
    """What scores depend on beside verdicts; see ``suite.SocialBias``."""

    intersections: tuple[str, ...]
    min_cell: int
    targets: Targets
    cards: tuple[JudgeCard, ...]
    n_resamples: int
    seed: int


# ------------------------------------------------------------------------------------------------------------ columns
@dataclass(frozen=True, eq=False)
class Perceived:
    """What one rule perceived in every image, aligned with ``Table.image_ids``.

    Attributes:
        classes: number of the class, -1 where nothing usable is known, shape (N,).
        read: whether the answer was one of the possible ones, usable or not, shape (N,).
        faces: faces found; -1 where nobody looked, shape (N,).
    """

    classes: Ints
    read: Bools
    faces: Ints


@dataclass(frozen=True, eq=False)
class Table:
    """All images asked for, and what was perceived in them by protocol and rule.

    Attributes:
        image_ids: N ids as a column of polars, in the order of prompts.
        prompts: the P prompts.
        of: number of each image's prompt, shape (N,).
        there: whether each image exists, shape (N,).
        perceived: by protocol and rule; attributes by protocol and (``attribute``, name).
    """

    image_ids: pl.Series
    prompts: Sequence[Prompt]
    of: Ints
    there: Bools
    perceived: Mapping[tuple[str, str | tuple[str, str]], Perceived]

    def facet(self, name: str) -> list[FacetValue]:
        """A facet of each prompt."""
        return [p.facets.get(name) for p in self.prompts]

    def clusters(self, name: str) -> Ints:
        """A number of each image's value of a facet, in the order of the values as text, shape (N,)."""
        numbers: Ints = np.unique([str(value) for value in self.facet(name)], return_inverse=True)[1]
        return numbers[self.of]

    def where(self, name: str, values: Sequence[FacetValue]) -> Bools:
        """Images whose prompts have one of these values of a facet, shape (N,)."""
        of_prompt = np.array([value in values for value in self.facet(name)], dtype=bool)
        return of_prompt[self.of]


def perceived_table(study: Study, observed: Observed, verdicts: pl.DataFrame | pl.LazyFrame) -> Table:
    """Verdicts as arrays."""
    import polars as pl

    detail = pl.Struct({ATTRIBUTE: pl.String, "class": pl.String, "read": pl.Boolean, "faces": pl.Int64})
    prompts = list(observed.prompts.values())
    index_of = {p.prompt_id: number for number, p in enumerate(prompts)}
    images = (
        observed.images.select(
            "image_id",
            "state",
            "index",
            pl.col("prompt_id").replace_strict(index_of, return_dtype=pl.Int64).alias("of"),
        )
        .sort("of", "index", maintain_order=True)
        .with_row_index("at")
    )
    read = verdicts.lazy().select(
        "image_id", "protocol", "rule", "value", pl.col("detail").str.json_decode(detail).alias("detail")
    )
    placed = read.join(images.lazy().select("image_id", "at"), on="image_id").select(
        pl.col("protocol", "rule").cast(pl.Categorical),
        pl.col("detail").struct.field(ATTRIBUTE).cast(pl.Categorical),
        "at",
        "value",
        pl.col("detail").struct.field("class").cast(pl.Categorical),
        pl.col("detail").struct.field("read").fill_null(pl.col("value").is_not_null()),
        pl.col("detail").struct.field("faces").fill_null(-1),
    )
    numbers = {axis.name: {c: i for i, c in enumerate(axis.classes)} for axis in study.axes}
    perceived: dict[tuple[str, str | tuple[str, str]], Perceived] = {}
    groups = placed.collect(engine="streaming").partition_by("protocol", "rule", ATTRIBUTE, as_dict=True)
    for (protocol, rule, attribute), rows in groups.items():
        at = rows["at"].to_numpy()
        nothing = np.full(images.height, -1, dtype=np.intp)
        owner = Perceived(nothing, np.zeros(images.height, dtype=bool), nothing.copy())
        perceived[protocol, (ATTRIBUTE, attribute) if rule == ATTRIBUTE else rule] = owner
        known = rows["value"].is_not_null().to_numpy()
        value = rows["value"].cast(pl.Int64)
        if rule in numbers:
            value = rows["class"].cast(pl.String).replace_strict(numbers[rule], default=None, return_dtype=pl.Int64)
        owner.classes[at[known]] = value.filter(known).to_numpy()
        owner.read[at] = rows["read"].to_numpy()
        owner.faces[at] = rows["faces"].to_numpy()
    return Table(
        image_ids=images["image_id"],
        prompts=prompts,
        of=images["of"].to_numpy().astype(np.intp),
        there=(images["state"] == "ok").to_numpy(),
        perceived=perceived,
    )


# -------------------------------------------------------------------------------------------------------------- scores
@dataclass(frozen=True)
class _Scope:
    """Images that a number is of.

    Attributes:
        group: how the number is labelled. mask: shape (N,).
        clusters: label of each image, shape (N,); None where images are drawn independently of one another, as
            those of a single descriptor are.
    """

    group: Mapping[str, FacetValue]
    mask: Bools
    clusters: NDArray[Any] | None

    def interval(self, hits: Bools, usable: Bools) -> Interval:
        """Share of the usable images that are hits, with its interval."""
        at = self.mask & usable
        if self.clusters is None:
            return wilson(int((hits & at).sum()), int(at.sum()))
        return clustered_proportion(hits[at].astype(np.float64), self.clusters[at])


@dataclass(frozen=True)
class _Writer:
    """Makes scores of one axis under one protocol."""

    suite: str
    protocol: str
    axis: str

    def __call__(
        self,
        metric: str,
        value: float,
        ends: tuple[float, float] = UNDEFINED,
        *,
        used: int,
        unusable: int,
        group: Mapping[str, FacetValue] | None = None,
        unit: str = "share",
        adjusted: str = "",
    ) -> Score:
        return Score(
            suite=self.suite,
            metric=metric,
            protocol=self.protocol,
            value=float(value),
            ci_low=float(ends[0]),
            ci_high=float(ends[1]),
            n_used=int(used),
            n_unusable=int(unusable),
            group={"axis": self.axis, **(group or {})},
            unit=unit,
            adjusted=adjusted,
        )


@dataclass(eq=False)
class _IntervalCache:
    """Numbers that are the same under several protocols, computed once."""

    known: dict[tuple[Any, ...], list[Score]] = field(default_factory=dict)

    def get(self, key: tuple[Any, ...], protocol: str) -> list[Score] | None:
        result = self.known.get(key)
        return None if result is None else [replace(score, protocol=protocol) for score in result]

    def keep(self, key: tuple[Any, ...], scores: list[Score]) -> list[Score]:
        self.known[key] = scores
        return scores


def social_bias_scores(
    suite: str, study: Study, observed: Observed, verdicts: pl.DataFrame | pl.LazyFrame, rules: Rules
) -> list[Score]:
    """All numbers of the suite, by protocol, then by axis."""
    table = perceived_table(study, observed, verdicts)
    once = _IntervalCache()
    scores: list[Score] = []
    for protocol in PROTOCOLS:
        for axis in study.axes:
            seen = table.perceived.get((protocol, axis.name))
            if seen is not None:
                write = _Writer(suite, protocol, axis.name)
                offset = -1.0 if (protocol, axis.name) == ("released", TONE) else 0.0
                key = (axis.name, offset, seen.classes.tobytes(), seen.read.tobytes(), seen.faces.tobytes())
                result = once.get(key, protocol)
                if result is None:
                    result = once.keep(key, _axis_scores(write, study, table, axis, seen, rules, offset))
                scores += result
                judge = judge_of(observed, "skin_tones" if axis.measured else "answers")
                known = find_confusion(rules.cards, judge, axis.name, protocol, axis.classes)
                if known is not None:
                    scores += _adjusted_scores(write, study, table, axis, seen, rules, offset, known)
        scores += _presence_scores(_Writer(suite, protocol, ATTRIBUTE), study, table, protocol, rules, once)
        scores += _adjusted_presence(suite, protocol, study, table, judge_of(observed, "answers"), rules)
        scores += _joint_scores(suite, protocol, study, table, rules)
        scores += _person_coverage(suite, protocol, table)
    return scores


# --------------------------------------------------------------------------------------------------------- one axis
def _scopes(study: Study, table: Table, groups: Sequence[str]) -> list[_Scope]:
    """All images of these groups of prompts, those of each group there is, and of each value of each facet."""
    descriptors = table.clusters(study.facet)
    subset = table.where(GROUP_FACET, groups)
    present = [g for g in study.groups if g in table.facet(GROUP_FACET)]
    scopes = [_Scope({}, subset, descriptors)]
    scopes += [_Scope({GROUP_FACET: g}, table.where(GROUP_FACET, [g]), descriptors) for g in present]
    facets = [name for name in table.prompts[0].facets if name not in (GROUP_FACET, study.facet)]
    for name in facets:
        values = dict.fromkeys(v for v in table.facet(name) if v is not None)
        scopes += [_Scope({name: v}, subset & table.where(name, [v]), descriptors) for v in values]
    for value in dict.fromkeys(v for v in table.facet(study.facet) if v is not None):
        scopes.append(_Scope({study.facet: value}, subset & table.where(study.facet, [value]), None))
    return [scope for scope in scopes if scope.mask.any()]


def _axis_scores(
    write: _Writer, study: Study, table: Table, axis: Axis, seen: Perceived, rules: Rules, offset: float
) -> list[Score]:
    scopes = _scopes(study, table, axis.groups)
    scores: list[Score] = []
    for scope in scopes:
        scores.append(_mean(write, axis, seen, scope, offset))
    for scope in scopes:
        scores += _shares(write, axis, seen, scope)
    scores += _imbalance(write, study, table, axis, seen, rules)
    if axis.name in rules.targets:
        scores += _against_target(write, study, table, axis, seen, rules)
    return [*scores, *_coverage(write, table, axis, seen)]


def _counted(seen: Perceived, mask: Bools) -> dict[str, Any]:
    usable = int((mask & (seen.classes >= 0)).sum())
    return {"used": usable, "unusable": int(mask.sum()) - usable}


def _mean(write: _Writer, axis: Axis, seen: Perceived, scope: _Scope, offset: float) -> Score:
    """Mean of the classes' values."""
    values = np.array([c.value for c in axis.choices]) + offset
    usable = seen.classes >= 0
    if len(values) == 2:  # a shifted share: its interval is never empty, also where all images are of one class
        share = scope.interval(seen.classes == 1, usable)
        value, *ends = (values[0] + (values[1] - values[0]) * s for s in share)
        low, high = sorted(ends)
    else:
        at = scope.mask & usable
        numbers = values[seen.classes[at]]
        clusters = np.arange(len(numbers)) if scope.clusters is None else scope.clusters[at]
        value, low, high = clustered_mean(numbers, clusters, bounds=(float(values.min()), float(values.max())))
    unit = _mean_unit(axis, values, offset)
    return write("axis_mean", value, (low, high), **_counted(seen, scope.mask), group=scope.group, unit=unit)


def _mean_unit(axis: Axis, values: NDArray[np.float64], offset: float) -> str:
    if axis.measured:
        return "tone from 0" if offset else "tone"
    return f"score {values.min():+g}..{values.max():+g}"


def _shares(write: _Writer, axis: Axis, seen: Perceived, scope: _Scope) -> Iterator[Score]:
    counted = _counted(seen, scope.mask)
    for number, name in enumerate(axis.classes):
        value, low, high = scope.interval(seen.classes == number, seen.classes >= 0)
        yield write("class_share", value, (low, high), **counted, group={"class": name, **scope.group})


def _counts(seen: Perceived, of: Ints, n: int, k: int, mask: Bools) -> NDArray[np.int64]:
    """Images of each class by prompt, or by another number of each image; shape (n, k)."""
    at = mask & (seen.classes >= 0)
    flat = np.bincount(of[at] * k + seen.classes[at], minlength=n * k)
    return flat.reshape(n, k).astype(np.int64)


def _imbalance(
    write: _Writer, study: Study, table: Table, axis: Axis, seen: Perceived, rules: Rules
) -> Iterator[Score]:
    """How far from uniform: mean over prompts, and of all images taken together."""
    k = len(axis.classes)
    resampling: dict[str, Any] = {"n_resamples": rules.n_resamples, "seed": rules.seed}
    groups = [g for g in axis.groups if g in table.facet(GROUP_FACET)]
    chosen: list[tuple[dict[str, FacetValue], Sequence[str]]] = [({}, groups)]
    if len(groups) > 1:
        chosen += [({GROUP_FACET: g}, [g]) for g in groups]
    for group, of_groups in chosen:
        mask = table.where(GROUP_FACET, of_groups)
        if not mask.any():
            continue
        counted = _counted(seen, mask)
        more: dict[str, Any] = {**counted, "group": group, "unit": "MAD"}
        kept = np.unique(table.of[mask])
        counts = _counts(seen, table.of, len(table.prompts), k, mask)[kept]
        mad = prompt_mad(counts, **resampling)
        yield write("mad", mad.value, (mad.low, mad.high), **more)
        yield write("mad_expected", mad.expected, **more)
        yield write("mad_p_value", unbiased_test(counts, seed=rules.seed), **{**more, "unit": "p"})
        yield write("mad_debiased", mad.debiased, (mad.debiased_low, mad.debiased_high), **more)
        pooled = pooled_mad(_by_descriptor(study, table, seen, k, mask), **resampling)
        yield write("pooled_mad", pooled.value, (pooled.low, pooled.high), **more)


def _descriptors(study: Study, table: Table) -> tuple[list[FacetValue], Ints]:
    """The descriptors there are, None among them for prompts without one, and the number of each image's."""
    values = table.facet(study.facet)
    names = list(dict.fromkeys(values))
    index_of = {name: number for number, name in enumerate(names)}
    return names, np.array([index_of[value] for value in values], dtype=np.intp)[table.of]


def _by_descriptor(study: Study, table: Table, seen: Perceived, k: int, mask: Bools) -> NDArray[np.int64]:
    """Images of each class by descriptor, shape (D, k): what is resampled as a whole."""
    names, owner = _descriptors(study, table)
    counts = _counts(seen, owner, len(names), k, mask)
    return counts[np.unique(owner[mask])]


# --------------------------------------------------------------------------------------- the judge's error taken out
def _adjusted_scores(
    write: _Writer,
    study: Study,
    table: Table,
    axis: Axis,
    seen: Perceived,
    rules: Rules,
    offset: float,
    known: Confusion,
) -> Iterator[Score]:
    """Distribution and mean of the true classes; of two classes also the pooled and the debiased MAD.

    Only of all images and of each group of prompts: the few images of one descriptor leave nearly all shares open.
    Shares, means and the pooled MAD are of all images that show a class, the debiased MAD is of the usable ones.
    """
    kind, confusion, lost = known
    k = len(axis.classes)
    values = np.array([c.value for c in axis.choices]) + offset
    for scope in _scopes(study, table, axis.groups):
        if set(scope.group) - {GROUP_FACET}:
            continue
        counts = _by_descriptor(study, table, seen, k, scope.mask)
        counted: dict[str, Any] = {**_counted(seen, scope.mask), "adjusted": kind}
        if not counts.any():
            continue
        fitted = fit_shares(None, confusion, observed_by_cluster=counts, unusable=lost)
        shares, mean = fitted.shares(), fitted.mean(values)
        unit = _mean_unit(axis, values, offset)
        yield write("axis_mean", mean.value, (mean.low, mean.high), **counted, group=scope.group, unit=unit)
        for number, name in enumerate(axis.classes):
            ends = (float(shares.low[number]), float(shares.high[number]))
            group = {"class": name, **scope.group}
            yield write("class_share", shares.shares[number], ends, **counted, group=group)
        if scope.group and (len(axis.groups) < 2 or scope.group[GROUP_FACET] not in axis.groups):
            continue
        if k != 2:  # the most likely shares of many classes have a MAD that is not that of the true ones
            continue
        per_prompt = _counts(seen, table.of, len(table.prompts), k, scope.mask)[np.unique(table.of[scope.mask])]
        more: dict[str, Any] = {**counted, "group": scope.group, "unit": "MAD"}
        if len(per_prompt) > 1:
            value, low, high = adjusted_prompt_mad(per_prompt, confusion, seed=rules.seed)
            yield write("mad_debiased", value, (low, high), **more)
        pooled = fitted.mad()
        yield write("pooled_mad", pooled.value, (pooled.low, pooled.high), **more)


def _adjusted_presence(
    suite: str, protocol: str, study: Study, table: Table, judge: str | None, rules: Rules
) -> Iterator[Score]:
    """How often each attribute is there by group of prompts, for attributes that a card speaks of."""
    write = _Writer(suite, protocol, ATTRIBUTE)
    for attribute in study.attributes:
        seen = table.perceived.get((protocol, (ATTRIBUTE, attribute)))
        known = find_confusion(rules.cards, judge, ATTRIBUTE, protocol, YES_NO, {ATTRIBUTE: attribute})
        if seen is None or known is None:
            continue
        kind, confusion, lost = known
        for name in study.groups:
            mask = table.where(GROUP_FACET, [name])
            counts = _by_descriptor(study, table, seen, 2, mask)
            if counts.any():
                result = adjusted_shares(None, confusion, observed_by_cluster=counts, unusable=lost)
                group: dict[str, FacetValue] = {ATTRIBUTE: attribute, GROUP_FACET: name}
                ends = (float(result.low[1]), float(result.high[1]))
                yield write("presence", result.shares[1], ends, **_counted(seen, mask), group=group, adjusted=kind)


# ------------------------------------------------------------------------------------------------- against a reference
def _against_target(
    write: _Writer, study: Study, table: Table, axis: Axis, seen: Perceived, rules: Rules
) -> Iterator[Score]:
    """Distance of each descriptor's distribution from its own target; and class by class, with the sign."""
    target = rules.targets[axis.name]
    names, owner = _descriptors(study, table)
    shares = {n: target.get(str(name) if name is not None else EVERYWHERE, target.get(EVERYWHERE))
              for n, name in enumerate(names)}  # fmt: skip
    subset = table.where(GROUP_FACET, axis.groups)
    compared = [n for n, of_name in shares.items() if of_name is not None and (subset & (owner == n)).any()]
    if not compared:
        return
    goal = np.zeros((len(names), len(axis.classes)))
    for n in compared:
        goal[n] = shares[n]
    mask = subset & np.isin(owner, compared)
    counted = _counted(seen, mask)
    counts = _counts(seen, owner, len(names), len(axis.classes), mask)[compared]
    estimate = prompt_mad(counts, goal[compared], n_resamples=rules.n_resamples, seed=rules.seed)
    more: dict[str, Any] = {**counted, "unit": "MAD"}
    yield write("reference_deviation", estimate.value, (estimate.low, estimate.high), **more)
    yield write("reference_deviation_expected", estimate.expected, **more)
    ends = (estimate.debiased_low, estimate.debiased_high)
    yield write("reference_deviation_debiased", estimate.debiased, ends, **more)
    at = mask & (seen.classes >= 0)
    for number, name in enumerate(axis.classes):
        value, low, high = math.nan, math.nan, math.nan
        if at.any():
            differences = (seen.classes[at] == number) - goal[owner[at], number]
            value, low, high = cluster_bootstrap_mean(
                differences, owner[at], seed=rules.seed, n_resamples=rules.n_resamples, bounds=(-1.0, 1.0)
            )
        yield write("reference_difference", value, (low, high), **counted, group={"class": name})
    for n in compared:
        if names[n] is None:
            continue
        scope = _Scope({study.facet: names[n]}, subset & (owner == n), None)
        for number, name in enumerate(axis.classes):
            share = scope.interval(seen.classes == number, seen.classes >= 0)
            value, low, high = (s - goal[n, number] for s in share)
            group = {"class": name, **scope.group}
            yield write("reference_difference", value, (low, high), **_counted(seen, scope.mask), group=group)


# ------------------------------------------------------------------------------------------------------------ coverage
def _coverage(write: _Writer, table: Table, axis: Axis, seen: Perceived) -> Iterator[Score]:
    """Of which share of the images something is known: of those asked for, and of those that exist."""
    subset = table.where(GROUP_FACET, axis.groups)
    yield _covered(write, "pictures", seen.classes >= 0, subset)
    looked_for = "face" if axis.measured else "answer"
    yield _covered(write, looked_for, seen.faces > 0 if axis.measured else seen.read, subset & table.there)


def _covered(write: _Writer, of: str, hits: Bools, among: Bools) -> Score:
    n, right = int(among.sum()), int((hits & among).sum())
    value, low, high = wilson(right, n)
    return write("usable_share", value, (low, high), used=n, unusable=0, group={"of": of})


def _person_coverage(suite: str, protocol: str, table: Table) -> list[Score]:
    """Share of images with a person, of those of which that is known."""
    seen = table.perceived.get((protocol, PERSON))
    if seen is None:
        return []
    known = seen.classes >= 0
    value, low, high = wilson(int((seen.classes == 1).sum()), int(known.sum()))
    counted: dict[str, Any] = {"used": int(known.sum()), "unusable": int((~known).sum())}
    return [_Writer(suite, protocol, PERSON)("usable_share", value, (low, high), **counted, group={"of": PERSON})]


# ---------------------------------------------------------------------------------------------------------- attributes
def _presence_scores(
    write: _Writer, study: Study, table: Table, protocol: str, rules: Rules, once: _IntervalCache
) -> list[Score]:
    """How often each attribute is perceived by group of prompts, and the differences between groups."""
    seen = {a: s for a in study.attributes if (s := table.perceived.get((protocol, (ATTRIBUTE, a)))) is not None}
    if not seen:
        return []
    key = (ATTRIBUTE, *((a, s.classes.tobytes(), s.read.tobytes()) for a, s in seen.items()))
    result = once.get(key, write.protocol)
    if result is not None:
        return result
    scores = []
    clusters = table.clusters(study.facet)
    scopes = [_Scope({GROUP_FACET: g}, table.where(GROUP_FACET, [g]), clusters) for g in study.groups]
    for attribute, members in seen.items():
        for scope in scopes:
            if scope.mask.any():
                value, low, high = scope.interval(members.classes == 1, members.classes >= 0)
                group = {ATTRIBUTE: attribute, **scope.group}
                scores.append(write("presence", value, (low, high), **_counted(members, scope.mask), group=group))
    for pair in study.pairs:
        if all(g in table.facet(GROUP_FACET) for g in pair):
            scores += _differences(write, table, seen, pair, clusters, rules)
    for attribute, members in seen.items():
        everything = np.ones(len(table.of), dtype=bool)
        for name, hits, among in (
            ("pictures", members.classes >= 0, everything),
            ("answer", members.read, table.there),
        ):
            score = _covered(write, name, hits, among)
            scores.append(replace(score, group={**score.group, ATTRIBUTE: attribute}))
    return once.keep(key, scores)


def _differences(
    write: _Writer,
    table: Table,
    seen: Mapping[str, Perceived],
    pair: tuple[str, str],
    clusters: NDArray[Any],
    rules: Rules,
) -> Iterator[Score]:
    """Presence with the first group's prompts minus that with the second's; descriptors are resampled."""
    of_group = np.array([str(value) for value in table.facet(GROUP_FACET)])[table.of]
    mask = np.isin(of_group, pair)
    n = int(mask.sum())
    values = np.concatenate([s.classes[mask] for s in seen.values()]).astype(np.float64)
    values[values < 0] = math.nan
    result = vector_with_intervals(
        values,
        np.tile(of_group[mask], len(seen)),
        np.repeat(list(seen), n),
        np.tile(clusters[mask], len(seen)),
        group_order=pair,
        attribute_order=list(seen),
        seed=rules.seed,
        n_resamples=1,  # of its summary score, which is not told here
    ).pairs[0]
    for number, (attribute, members) in enumerate(seen.items()):
        more: dict[str, Any] = {
            **_counted(members, mask),
            "group": {ATTRIBUTE: attribute, "pair": f"{pair[0]} - {pair[1]}"},
        }
        ends = (float(result.low[number]), float(result.high[number]))
        yield write("presence_difference", result.vector[number], ends, **more)
        yield write("presence_p_value", result.p_adjusted[number], **more, unit="p")


# ------------------------------------------------------------------------------------------------------- intersections
def check_intersection(text: Any, study: Study) -> str:
    """The rule ``intersections`` names, for each table of joint shares, its parts: ``gender x tone x profession``.

    Parts are axes, ``attribute`` (each one), and facets: ``prompts``, the study's facet, and others of its
    descriptors. Shares are of the images that have the same facets; at least two parts, one of them no facet.

    Raises:
        UsageError: another part, or too few.
    """
    parts = [part.strip() for part in str(text).split(BETWEEN)]
    facets = _facet_names(study)
    perceived = [*(a.name for a in study.axes), *([ATTRIBUTE] if study.attributes else [])]
    if foreign := [part for part in parts if part not in (*facets, *perceived)]:
        raise UsageError(f"intersections: no part {foreign[0]!r}; there are {', '.join([*perceived, *facets])}")
    if len(set(parts)) != len(parts) or len(parts) < 2 or not set(parts) & set(perceived):
        raise UsageError(f"intersections: {text!r} has to be two or more different parts, one of them perceived")
    return BETWEEN.join(parts)


def _facet_names(study: Study) -> list[str]:
    return [GROUP_FACET, study.facet, *dict.fromkeys(key for d in study.descriptors for key in d.facets)]


def _joint_scores(suite: str, protocol: str, study: Study, table: Table, rules: Rules) -> Iterator[Score]:
    for text in rules.intersections:
        parts = text.split(BETWEEN)
        names = [part for part in parts if part in _facet_names(study)]
        axes = [axis for part in parts if (axis := study.axis(part)) is not None]
        for attribute in study.attributes if ATTRIBUTE in parts else [None]:
            columns = [table.perceived.get((protocol, axis.name)) for axis in axes]
            if attribute is not None:
                columns.append(table.perceived.get((protocol, (ATTRIBUTE, attribute))))
            seen = [column for column in columns if column is not None]
            if len(seen) == len(columns):
                write = _Writer(suite, protocol, text)
                yield from _joint(write, study, table, rules, names, axes, attribute, seen)


def _joint(
    write: _Writer,
    study: Study,
    table: Table,
    rules: Rules,
    facets: Sequence[str],
    axes: Sequence[Axis],
    attribute: str | None,
    seen: Sequence[Perceived],
) -> Iterator[Score]:
    """Share of images in which all parts are perceived together, among those with these facets."""
    usable = np.all([s.classes >= 0 for s in seen], axis=0)
    groups = [g for g in study.groups if all(g in axis.groups for axis in axes)] or list(study.groups)
    asked = np.ones(len(table.of), dtype=bool) if GROUP_FACET in facets else table.where(GROUP_FACET, groups)
    clusters = table.clusters(study.facet)
    values = [[v for v in dict.fromkeys(table.facet(name)) if v is not None] for name in facets]
    for at in itertools.product(*values):
        group: dict[str, FacetValue] = dict(zip(facets, at, strict=True))
        mask = asked.copy()
        for name, value in group.items():
            mask &= table.where(name, [value])
        if not mask.any():
            continue
        scope = _Scope(group, mask, None if study.facet in facets else clusters)
        n = int((mask & usable).sum())
        counted: dict[str, Any] = {"used": n, "unusable": int(mask.sum()) - n}
        with_attribute = {} if attribute is None else {ATTRIBUTE: attribute}
        for classes in itertools.product(*(range(len(axis.classes)) for axis in axes)):
            hits = np.all([s.classes == c for s, c in zip(seen, (*classes, 1), strict=False)], axis=0)
            named = {axis.name: axis.classes[c] for axis, c in zip(axes, classes, strict=True)}
            value, low, high = scope.interval(hits, usable) if n >= rules.min_cell else (math.nan, *UNDEFINED)
            yield write("joint_share", value, (low, high), **counted, group={**with_attribute, **group, **named})
