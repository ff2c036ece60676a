"""From comparisons to numbers: the three indicators of the paper, and how unequal regions are."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from verism.metrics.manifold import expected_coverage, shared_covariance
from verism.metrics.retrieval import consistency
from verism.records import FacetValue, Score
from verism.statistics.disparity import gap, ratio, worst
from verism.statistics.intervals import Interval, mean_of_independent
from verism.suites.geography.measure import Comparison, Made, Measured, Rules

__all__ = ["indicator_scores", "notes"]

UNDEFINED = Interval(math.nan, math.nan, math.nan)
NORMAL_95 = 1.959963984540054
COMPARED = ("precision", "coverage")  # the metrics of the indicators: those whose regions are held against each other
UNITS = {"precision": "share", "recall": "share", "density": "ratio", "coverage": "share"}


class Spread(NamedTuple):
    """Values of groups, and the covariance of their errors (NaN where unknown)."""

    names: Sequence[str]
    values: NDArray[np.float64]
    covariance: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class _Writer:
    """Makes the scores of one family under one protocol."""

    suite: str
    protocol: str
    family: str

    def score(
        self, metric: str, interval: Interval, n_used: int, n_unusable: int, group: Mapping[str, Any], **more: Any
    ) -> Score:
        return Score(
            suite=self.suite,
            metric=metric,
            protocol=self.protocol,
            value=interval.value,
            ci_low=interval.low,
            ci_high=interval.high,
            n_used=n_used,
            n_unusable=n_unusable,
            group={"family": self.family, **group},
            **more,
        )


def indicator_scores(
    measured: Measured,
    *,
    suite: str,
    families: Sequence[str],
    objects: Sequence[str],
    regions: Sequence[str],
    protocols: Sequence[str],
    rules: Rules,
    seed: int,
) -> list[Score]:
    """All numbers of the suite in a fixed order."""
    scores: list[Score] = []
    for protocol in protocols:
        for family in families:
            write = _Writer(suite=suite, protocol=protocol, family=family)
            if measured.has_features:
                scores += _manifold_scores(measured, write, regions, rules, seed)
            if measured.has_vectors:
                scores += _consistency_scores(measured, write, objects, regions, seed)
    return scores


# ---------------------------------------------------------------------------------- precision and coverage, by group
def _manifold_scores(
    measured: Measured, write: _Writer, regions: Sequence[str], rules: Rules, seed: int
) -> Iterator[Score]:
    comparisons = measured.comparisons.get((write.protocol, write.family), ())
    lost_made, lost_real = _lost(measured, write.family, rules)
    for c in comparisons:
        for metric in UNITS:
            # Precision and density are about generated images, recall and coverage about real ones.
            about_made = metric in ("precision", "density")
            yield write.score(
                metric,
                _interval(c, metric),
                len(c.generated_ids if about_made else c.real_ids),
                (lost_made if about_made else lost_real)(c.group),
                c.group,
                unit=UNITS[metric],
            )
        if c.rough is not None:
            for metric, unit in UNITS.items():
                error = Interval(float(getattr(c.rough.error, metric)), math.nan, math.nan)
                yield write.score(
                    "approximation_error", error, c.rough.checked, 0, {**c.group, "of": metric}, unit=unit
                )
        yield from _sizes(c, write, rules)
    of_region = [c for c in comparisons if c.level == "region"]
    of_cell = [c for c in comparisons if c.level == "object-region"]
    for metric in COMPARED:
        for region in regions if of_cell else ():
            yield _mean_over_objects(metric, region, of_cell, write, lost_made if metric == "precision" else lost_real)
        used = sum(len(c.generated_ids if metric == "precision" else c.real_ids) for c in of_region)
        yield from _disparity(metric, _spread(of_region, metric), write, used, seed, (0.0, 1.0))
    choice = measured.choices[write.protocol, write.family]
    if choice.per_cell is not None:
        target = Interval(float(choice.per_cell), math.nan, math.nan)
        yield write.score("pictures_per_cell", target, 0, 0, {}, unit="pictures")
    yield from _duplicates(choice.removed_real, "real", write)
    yield from _duplicates(choice.removed_generated, "generated", write)


def _interval(c: Comparison, metric: str) -> Interval:
    if c.halves is not None:
        return c.halves.interval(metric)  # type: ignore[arg-type]
    return Interval(float(getattr(c.values, metric)), math.nan, math.nan)


def _sizes(c: Comparison, write: _Writer, rules: Rules) -> Iterator[Score]:
    """What coverage would be if there were no difference at all: it depends on the numbers of images."""
    n_real, n_made = len(c.real_ids), len(c.generated_ids)
    expected = math.nan
    if c.evidence is not None:
        expected = expected_coverage(n_real, n_made, rules.k)
    value = Interval(expected, math.nan, math.nan)
    yield write.score("expected_coverage", value, n_real, 0, c.group)
    if c.level == "region":
        value = Interval(n_made / n_real if n_real else math.nan, math.nan, math.nan)
        yield write.score("generated_per_real", value, n_made, 0, c.group, unit="ratio")


def _lost(
    measured: Measured, family: str, rules: Rules
) -> tuple[Callable[[Mapping[str, FacetValue]], int], Callable[[Mapping[str, FacetValue]], int]]:
    """How many generated and real images of a group have no usable features."""
    columns = ("object", "region", *rules.group_by)
    made: Counter[tuple[FacetValue, ...]] = Counter()
    for m in measured.made:
        if m.family == family and m.no_features:
            made[(m.object, m.region, *(m.prompt.facets.get(c) for c in rules.group_by))] += 1
    real: Counter[tuple[FacetValue, ...]] = Counter()
    for r in measured.real:
        if r.no_features:
            real[tuple(r.facets.get(c) for c in columns)] += 1

    def count(table: Counter[tuple[FacetValue, ...]], group: Mapping[str, FacetValue]) -> int:
        # An image without region goes with every region.
        return sum(
            n
            for key, n in table.items()
            if all(c not in group or v == group[c] or (c == "region" and v is None) for c, v in zip(columns, key))
        )

    return lambda group: count(made, group), lambda group: count(real, group)


def _mean_over_objects(
    metric: str,
    region: str,
    cells: Sequence[Comparison],
    write: _Writer,
    lost: Callable[[Mapping[str, FacetValue]], int],
) -> Score:
    """Mean of a region's cells; those that are undefined are left out, their images counted."""
    of_region = [c for c in cells if c.group["region"] == region]
    defined = [c for c in of_region if c.evidence is not None]
    intervals = [_interval(c, metric) for c in defined]
    if not intervals:
        mean = UNDEFINED
    elif any(math.isnan(i.low) for i in intervals):
        mean = Interval(float(np.mean([i.value for i in intervals])), math.nan, math.nan)
    else:
        mean = mean_of_independent(intervals)

    def n(c: Comparison) -> int:
        return len(c.generated_ids if metric == "precision" else c.real_ids)

    left_out = sum(n(c) for c in of_region if c.evidence is None)
    group = {"region": region}
    return write.score(f"object_region_{metric}", mean, sum(map(n, defined)), lost(group) + left_out, group)


def _duplicates(removed: Mapping[tuple[str, str], int], side: str, write: _Writer) -> Iterator[Score]:
    more = {"unit": "pictures"}
    total = Interval(float(sum(removed.values())), math.nan, math.nan)
    yield write.score("duplicates_left_out", total, 0, 0, {"side": side}, **more)
    for (item, region), n in sorted(removed.items()):
        group = {"side": side, "object": item, "region": region or None}
        yield write.score("duplicates_left_out", Interval(float(n), math.nan, math.nan), 0, 0, group, **more)


# ------------------------------------------------------------------------------------------------- between regions
def _spread(comparisons: Sequence[Comparison], metric: str) -> Spread:
    """Values of the regions that have one. Regions compared with the same generated images err together."""
    defined = [c for c in comparisons if c.evidence is not None]
    names = [str(c.group["region"]) for c in defined]
    values = np.array([getattr(c.values, metric) for c in defined], dtype=np.float64)
    covariance = np.full((len(defined), len(defined)), np.nan)
    halves = [c.halves for c in defined if c.halves is not None and len(c.halves.halves)]
    if defined and len(halves) == len(defined):
        if len(defined) > 1 and all(c.generated_ids == defined[0].generated_ids for c in defined):
            covariance = shared_covariance(halves, metric)  # type: ignore[arg-type]
        else:
            errors = np.array([h.standard_error(metric) for h in halves])  # type: ignore[arg-type]
            covariance = np.diag(errors**2)
    return Spread(names, values, covariance)


def _disparity(
    metric: str,
    spread: Spread,
    write: _Writer,
    n_used: int,
    seed: int,
    limits: tuple[float, float],
    unit: str = "share",
) -> Iterator[Score]:
    """Mean, worst region, gap between best and worst, ratio of worst to best; nothing with fewer than two regions."""
    if len(spread.values) < 2:
        return
    values, covariance = spread.values, spread.covariance
    known = bool(np.isfinite(covariance).all())
    at, low_value, high_value = int(np.argmin(values)), float(values.min()), float(values.max())
    lowest, between = Interval(low_value, math.nan, math.nan), Interval(high_value - low_value, math.nan, math.nan)
    share = Interval(low_value / high_value if high_value > 0 else math.nan, math.nan, math.nan)
    mean = Interval(float(values.mean()), math.nan, math.nan)
    chance = p_value = UNDEFINED
    if known:
        lowest, at = worst(values, covariance, seed=seed, limits=limits)
        result = gap(values, covariance, seed=seed, largest=limits[1] - limits[0])
        between = result.interval
        chance = Interval(result.expected_if_equal, math.nan, math.nan)
        p_value = Interval(result.p_equal, math.nan, math.nan)
        if low_value >= 0:
            share = ratio(values, covariance, seed=seed)
        half = NORMAL_95 * math.sqrt(max(float(covariance.mean()), 0.0))
        mean = Interval(mean.value, max(limits[0], mean.value - half), min(limits[1], mean.value + half))
    if low_value < 0:
        share = UNDEFINED
    yield write.score(f"{metric}_mean", mean, n_used, 0, {}, unit=unit)
    yield write.score(f"{metric}_worst", lowest, n_used, 0, {"region": spread.names[at]}, unit=unit)
    yield write.score(f"{metric}_gap", between, n_used, 0, {}, unit=unit)
    yield write.score(f"{metric}_gap_by_chance", chance, n_used, 0, {}, unit=unit)
    yield write.score(f"{metric}_gap_p_value", p_value, n_used, 0, {}, unit="p")
    yield write.score(f"{metric}_ratio", share, n_used, 0, {}, unit="ratio")


# ----------------------------------------------------------------------------------------------------- consistency
def _consistency_scores(
    measured: Measured, write: _Writer, objects: Sequence[str], regions: Sequence[str], seed: int
) -> Iterator[Score]:
    """The 10th percentile of the cosines, per object, averaged over objects."""
    counted = measured.consistency[write.protocol, write.family]
    made = [
        m
        for m in measured.made
        if m.family == write.family and m.object in set(objects) and (m.image_id in counted or m.no_vector)
    ]
    texts = [("consistency", "bare")]
    if write.protocol == "paper":
        # Equation 3 of the paper compares with the generating prompt; its section 4.4 with the bare object.
        texts.append(("consistency_prompt", "prompt"))
    for metric, text in texts:

        def owner(images: Sequence[Made], group: Mapping[str, Any], metric: str = metric, text: str = text) -> Score:
            values = [
                getattr(measured.similarities[m.image_id], text) if m.image_id in measured.similarities else math.nan
                for m in images
            ]
            c = consistency(values, [m.object for m in images], seed=seed)
            return write.score(metric, Interval(*c[:3]), c.n_used, c.n_unusable, group, unit="cosine")

        yield owner(made, {})
        if write.family == "object":  # no region was asked for, so there is nothing to tell regions apart by
            if text == "bare":
                yield from (owner([m for m in made if m.object == o], {"object": o}) for o in objects)
            continue
        by_region = [owner([m for m in made if m.region == r], {"region": r}) for r in regions]
        yield from by_region
        if text == "bare":
            for o in objects:
                for r in regions:
                    yield owner([m for m in made if m.object == o and m.region == r], {"object": o, "region": r})
            defined = [(r, s) for r, s in zip(regions, by_region) if not math.isnan(s.value)]
            errors = np.array([(s.ci_high - s.ci_low) / (2 * NORMAL_95) for _, s in defined], dtype=np.float64)
            spread = Spread(
                [r for r, _ in defined], np.array([s.value for _, s in defined], dtype=np.float64), np.diag(errors**2)
            )
            used = sum(s.n_used for s in by_region)
            yield from _disparity(metric, spread, write, used, seed, (-1.0, 1.0), unit="cosine")


# ----------------------------------------------------------------------------------------------------------- notes
def notes(measured: Measured, *, protocols: Sequence[str], rules: Rules) -> list[str]:
    """What a reader of the numbers should know: sizes, short and undefined cells, duplicates; most first."""
    lines: list[str] = []
    for (protocol, family), choice in measured.choices.items():
        if protocol not in protocols:
            continue
        where = f"{family} prompts, {protocol}:"
        if choice.short:
            some = [f"{o} in {r} ({n} real, {m} generated)" for (o, r), (n, m) in list(choice.short.items())[:3]]
            more = f" and {len(choice.short) - 3:,} more" if len(choice.short) > 3 else ""
            lines.append(f"{where} fewer images than {choice.per_cell:,}: {', '.join(some)}{more}")
        for side, removed in (("real", choice.removed_real), ("generated", choice.removed_generated)):
            if removed:
                lines.append(f"{where} {sum(removed.values()):,} {side} duplicates left out")
        rough = [c.rough for c in measured.comparisons[protocol, family] if c.rough is not None]
        if rough:
            listed = ", ".join(f"{name} {max(getattr(r.error, name) for r in rough):.2g}" for name in UNITS)
            lines.append(
                f"{where} numbers are by approximate neighbours, of which at least "
                f"{min(r.neighbour_recall for r in rough):.1%} were found: they have no intervals, and may be off by "
                f"at most (95 %) {listed}"
            )
        for c in measured.comparisons[protocol, family]:
            n_real, n_made = len(c.real_ids), len(c.generated_ids)
            label = " / ".join(str(v) for v in c.group.values())
            if c.level != "object-region" and c.evidence is None:
                lines.append(
                    f"{where} {label} is undefined: {n_real} real and {n_made} generated images, at least "
                    f"{rules.smallest} of each are needed"
                )
            elif c.level == "region" and n_real != n_made:
                here, equal = (expected_coverage(n_real, m, rules.k) for m in (n_made, n_real))
                lines.append(
                    f"{where} {label} compares {n_real:,} real with {n_made:,} generated images: coverage of equal "
                    f"distributions is {here:.3f} at these sizes, {equal:.3f} at equal ones; the two do not compare"
                )
    return lines
