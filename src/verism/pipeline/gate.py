"""Is a run worse than a baseline by more than is allowed? The rows of a comparison, each tested against a limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np

from verism.errors import UsageError
from verism.pipeline.comparison import (
    MEAN_OVER,
    Key,
    PairedValues,
    ScoreValues,
    defined_means,
    main_protocol,
    pair_images,
    row_key,
    same_outcome,
    share_prompts,
    shared_scores,
)
from verism.records import FacetValue, Score
from verism.report_kit.comparability import Comparability, Reason, check_comparable
from verism.report_kit.evidence import Evidence
from verism.specs import SHARE, MetricSpec, Presentation, did_you_mean
from verism.statistics.intervals import Interval
from verism.statistics.non_inferiority import NonInferiority, independent_non_inferiority, non_inferiority
from verism.statistics.paired import holm
from verism.statistics.power import Spread, drop_seen, prompts_needed, spread_of_pairs, spread_of_run
from verism.store import Run

__all__ = ["Gate", "GatePlan", "GateRow", "MaxDrop", "Require", "Untested", "gate_runs", "plan_gate", "plan_spread"]

T = TypeVar("T")
MaxDrop = float | Mapping[str, float]
Require = Literal["no-failure", "shown"]
Verdict = Literal["exceeds", "within", "undecided", "untested"]


@dataclass(frozen=True, kw_only=True)
class GateRow:
    """One number of a gate.

    Attributes:
        metric: name of the metric, or of a mean over groups.
        label: what the metric is called.
        protocol: name of the protocol.
        group: facet values that the row is restricted to.
        base: value of the baseline, in ``unit``.
        new: value of the new run, in ``unit``.
        drop: how much worse the new run is, in ``unit``; negative where it is better.
        low: lower end of the drop, one-sided at 1 - alpha.
        high: upper end of the drop, one-sided at 1 - alpha.
        max_drop: the largest drop that is allowed, in ``unit``.
        unit: unit of the values.
        better: ``higher`` or ``lower``.
        p_value: p-value of "the drop is at most ``max_drop``", 0 to 1.
        p_holm: the same after Holm's correction over all rows.
        p_within: p-value of "the drop is at least ``max_drop``".
        verdict: ``exceeds``: the drop is larger than allowed, beyond luck (Holm); ``within``: it is shown to be
            smaller; ``undecided``: neither; ``untested``: no test could be made.
        method: ``paired``: image by image, clustered by prompt; ``intervals``: from the intervals of both scores, taken
            for independent; ``identical``: both runs hold the same images and verdicts.
        n_pairs: images judged in both runs; 0 without pairs.
        n_prompts: prompts of those images.
        only_base: images with a usable answer in the baseline alone.
        only_new: images with a usable answer in the new run alone.
        neither: images with a usable answer in neither.
        reasons: why the two should not be compared; only on demand (``anyway``).
    """

    metric: str
    label: str
    protocol: str
    group: Mapping[str, FacetValue]
    base: float
    new: float
    drop: float
    low: float
    high: float
    max_drop: float
    unit: str
    better: str
    p_value: float
    p_holm: float
    p_within: float
    verdict: Verdict
    method: str
    n_pairs: int
    n_prompts: int
    only_base: int
    only_new: int
    neither: int
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Untested:
    """A headline metric that the gate says nothing about.

    Attributes:
        metric: its name.
        why: the reason, as a sentence.
    """

    metric: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Gate:
    """What a gate found.

    Attributes:
        base: directory of the baseline.
        new: directory of the new run.
        suite: their suite.
        protocol: protocol of the numbers.
        alpha: level.
        require: ``no-failure``: it passes unless a drop is larger than allowed, beyond luck; ``shown``: it passes if
            every drop is shown to be smaller than allowed.
        rows: the numbers.
        untested: headline metrics that could not be tested.
    """

    base: str
    new: str
    suite: str
    protocol: str
    alpha: float
    require: Require
    rows: tuple[GateRow, ...]
    untested: tuple[Untested, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the new run may pass."""
        return not self.failing

    @property
    def failing(self) -> tuple[GateRow, ...]:
        """The rows that stop it."""
        good = ("within",) if self.require == "shown" else ("within", "undecided", "untested")
        return tuple(row for row in self.rows if row.verdict not in good)

    def record(self) -> dict[str, Any]:
        """As plain JSON; undefined numbers are null."""
        plain = asdict(self)
        plain["rows"] = [
            {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
            for row in plain["rows"]
        ]
        return {"passed": self.passed, **plain}


def gate_runs(
    base: Run,
    new: Run,
    presentation: Presentation,
    *,
    max_drop: MaxDrop,
    other: Presentation | None = None,
    metrics: Sequence[str] = (),
    by: str | None = None,
    protocol: str | None = None,
    alpha: float = 0.05,
    require: Require = "no-failure",
    anyway: bool = False,
    seed: int = 0,
) -> Gate:
    """Tests of all drops of a new run.

    Args:
        base: the baseline.
        new: the new run.
        presentation: presentation of the suite of ``base``.
        max_drop: the largest drop that is allowed: percentage points of shares, else in the metric's unit; or by
            metric, where an empty name stands for all others.
        other: presentation of the suite of ``new``; None for the same.
        metrics: names of metrics; empty: the headline metrics of the suite.
        by: facet to group by, in place of the suite's own.
        protocol: only this one; None for the first of the suite that both runs were scored under.
        alpha: level of each gate, in (0, 0.5).
        require: what it takes to pass; see ``Gate``.
        anyway: whether numbers that should not be compared are tested all the same.
        seed: seed of random sign patterns.

    Raises:
        UsageError: nothing to test, a metric that cannot be tested, a limit or level out of range, runs that are not
            comparable.
    """
    if not 0.0 < alpha < 0.5:
        raise UsageError(f"alpha must lie between 0 and 0.5, such as 0.05; got {alpha:g}")
    limits = _Limits.of(max_drop, presentation)
    protocol = protocol or main_protocol(base, new, presentation)
    identical = same_outcome(base, new)

    def tested(row: _Row) -> _Tested:
        limit = limits.of_metric(row.spec, row.unit)
        result, values = row.test(limit, alpha, seed, identical=identical)
        return _Tested(row.without_pairs(), limit, result, values)

    found = _rows_of(base, new, presentation, metrics, by, protocol, limits, tested)
    presentations = (presentation, other or presentation)
    comparability = Comparability(base, new, presentations, names=("BASE", "NEW"))
    evidence = Evidence.of([base, new], presentations, gallery=0)
    rows: list[GateRow] = []
    touched: list[tuple[str, Reason]] = []
    for row, limit, result, values in found.rows:
        metric, over, facet = row.metric.partition(MEAN_OVER)
        reasons = comparability.touching(metric, row.protocol, row.group)
        touched += [(row.metric, reason) for reason in reasons]
        rows.append(
            GateRow(
                metric=row.metric,
                label=evidence.label_of(metric, row.protocol, row.group) + over + facet,
                protocol=row.protocol,
                group=dict(row.group),
                base=values[0],
                new=values[1],
                drop=result.drop,
                low=result.low,
                high=result.high,
                max_drop=limit,
                unit=row.unit,
                better=str(row.spec.better),
                p_value=result.p_exceeds,
                p_holm=math.nan,
                p_within=result.p_within,
                verdict="untested",
                method="identical" if identical else row.method,
                n_pairs=result.n_pairs,
                n_prompts=result.n_clusters,
                only_base=row.unpaired[0],
                only_new=row.unpaired[1],
                neither=row.unpaired[2],
                reasons=tuple(dict.fromkeys(reason.text for reason in reasons)),
            )
        )
    if not anyway:
        check_comparable(touched, f"BASE {base.path}", f"NEW {new.path}")
    adjusted = holm([row.p_value for row in rows]).tolist()
    rows = [_judged(replace(row, p_holm=p), alpha) for row, p in zip(rows, adjusted, strict=True)]
    if all(row.verdict == "untested" for row in rows):
        raise UsageError(
            f"{new.path} cannot be held against {base.path}: no image has a usable answer in both, or no interval is "
            f"defined ({', '.join(dict.fromkeys(row.metric for row in rows))})"
        )
    return Gate(
        base=str(base.path),
        new=str(new.path),
        suite=presentation.info.name,
        protocol=protocol or "",
        alpha=alpha,
        require=require,
        rows=tuple(rows),
        untested=tuple(found.untested),
    )


def _judged(row: GateRow, alpha: float) -> GateRow:
    if math.isnan(row.p_value):
        return row
    if row.p_holm <= alpha:
        return replace(row, verdict="exceeds")
    return replace(row, verdict="within" if row.p_within <= alpha else "undecided")


# -------------------------------------------------------------------------------------------------------------- limits
@dataclass(frozen=True)
class _Limits:
    """The largest drops, as they were given: in points of shares."""

    general: float | None
    single: Mapping[str, float]

    @staticmethod
    def of(max_drop: MaxDrop, presentation: Presentation) -> _Limits:
        by_name = dict(max_drop) if isinstance(max_drop, Mapping) else {"": max_drop}
        for name, value in by_name.items():
            if not (math.isfinite(value) and value >= 0):
                raise UsageError(f"max drop{f' of {name}' if name else ''}: a number of at least 0; got {value:g}")
            if name:
                _spec_of(name, presentation)
        return _Limits(by_name.pop("", None), by_name)

    def has(self, spec: MetricSpec, *, unasked: bool) -> bool:
        """Whether there is a limit for a metric; that for all is only in its unit if the metric was asked for."""
        general = self.general is not None and not (
            unasked and spec.scale is not None and spec.scale.unit != SHARE.unit
        )
        return spec.name in self.single or general

    def of_metric(self, spec: MetricSpec, unit: str) -> float:
        """The limit in the unit of the values."""
        given = self.single.get(spec.name, self.general)
        assert given is not None  # _rows_of leaves out what has none
        limit = given / 100 if unit == SHARE.unit else given
        scale = spec.scale
        if scale is not None and scale.low is not None and scale.high is not None and limit >= scale.high - scale.low:
            raise UsageError(
                f"max drop of {spec.name}: {given:g} is all there is (it lies between {scale.low:g} and {scale.high:g} "
                f"{scale.unit}), so that no drop could exceed it; give --max-drop {spec.name}=VALUE in its unit"
            )
        return limit


def _spec_of(name: str, presentation: Presentation) -> MetricSpec:
    spec = presentation.metric(name)
    if spec is None:
        known = [s.name for s in presentation.metrics]
        raise UsageError(f"{presentation.info.name} has no metric {name!r}.{did_you_mean(name, known)}")
    return spec


# ---------------------------------------------------------------------------------------------------------------- rows
@dataclass(frozen=True, kw_only=True)
class _Row:
    """What is to be tested: pairs of values, or two scores."""

    metric: str
    spec: MetricSpec
    protocol: str
    group: Mapping[str, FacetValue]
    unit: str
    pairs: PairedValues | None = None
    scores: tuple[Score, Score] | None = None
    unpaired: tuple[int, int, int] = (0, 0, 0)  # images that only the baseline, only the new run, or neither can use

    @property
    def method(self) -> str:
        return "paired" if self.scores is None else "intervals"

    def without_pairs(self) -> _Row:
        """The row once it is tested: its pairs may take as much memory as all images."""
        return replace(self, pairs=None)

    def test(
        self, limit: float, alpha: float, seed: int, *, identical: bool
    ) -> tuple[NonInferiority, tuple[float, float]]:
        """The result, and both values."""
        higher = self.spec.better == "higher"
        if self.pairs is not None:
            p = self.pairs
            result = non_inferiority(
                p.a, p.b, p.prompts, margin=limit, seed=seed, higher_is_better=higher, weights=p.weights, alpha=alpha
            )
            low, high = np.clip([result.low, result.high], -p.span, p.span).tolist()
            result = replace(result, low=low, high=high)
            values = _mean(p.a, p.weights), _mean(p.b, p.weights)
            if not p.defined:
                result, values = _undefined(result), (math.nan, math.nan)
        else:
            assert self.scores is not None
            intervals = [Interval(s.value, s.ci_low, s.ci_high) for s in self.scores]
            result = independent_non_inferiority(*intervals, margin=limit, higher_is_better=higher, alpha=alpha)
            values = self.scores[0].value, self.scores[1].value
        if identical and not math.isnan(result.drop):  # what is the same is no worse, for certain
            result = replace(result, drop=0.0, low=0.0, high=0.0, p_exceeds=1.0, p_within=0.0)
        return result, values


def _mean(values: np.ndarray, weights: np.ndarray | None) -> float:
    return float(np.average(values, weights=weights)) if len(values) else math.nan


def _undefined(result: NonInferiority) -> NonInferiority:
    nan = math.nan
    return replace(result, drop=nan, low=nan, high=nan, p_exceeds=nan, p_within=nan)


class _Tested(NamedTuple):
    """A row without its pairs, its limit, the result of its test, and the values of both runs."""

    row: _Row
    limit: float
    result: NonInferiority
    values: tuple[float, float]


@dataclass(frozen=True)
class _Found(Generic[T]):
    rows: list[T]
    untested: list[Untested]


def _rows_of(
    base: Run,
    new: Run,
    presentation: Presentation,
    metrics: Sequence[str],
    by: str | None,
    protocol: str | None,
    limits: _Limits,
    made_of: Callable[[_Row], T],
) -> _Found[T]:
    """What is made of the rows that ``verism compare`` has of some metrics, one row at a time.

    Metrics without any row are refused if they were asked for.
    """
    asked = list(dict.fromkeys(metrics)) or [spec.name for spec in presentation.metrics if spec.headline]
    specs = {name: _spec_of(name, presentation) for name in asked}
    why: dict[str, str] = {}
    for name, spec in specs.items():
        if spec.better is None:
            why[name] = f"{name} has no direction: neither more nor less of it is better, so that nothing is a drop"
        elif spec.compare == "never":
            why[name] = f"{name} has no values of single images, and no intervals that two runs could be told apart by"
        elif not limits.has(spec, unasked=not metrics):
            unit = spec.scale.unit if spec.scale is not None else "its unit"
            why[name] = f"{name} is measured in {unit}: give it a limit of its own, --max-drop {name}=VALUE"
    testable = {name: spec for name, spec in specs.items() if name not in why}
    rows: dict[str, list[T]] = {name: [] for name in testable}
    for row in _found_rows(base, new, presentation, testable, by, protocol):
        rows[row.spec.name].append(made_of(row))
        del row  # and its pairs, before the next are made
    for name in testable:
        if not rows[name]:
            grouped = f" by {by}" if by is not None else ""
            why[name] = f"{name} is not in both runs{grouped} with values of single images or with intervals"
    if why and (metrics or not any(rows.values())):
        raise UsageError("cannot be tested: " + "; ".join(why.values()))
    return _Found(
        [made for of_metric in rows.values() for made in of_metric],
        [Untested(metric=name, why=text) for name, text in why.items()],
    )


def _found_rows(
    base: Run,
    new: Run,
    presentation: Presentation,
    specs: Mapping[str, MetricSpec],
    by: str | None,
    protocol: str | None,
) -> Iterator[_Row]:
    paired: set[str] = set()
    astray: set[Key] = set()  # rows whose images' values have another mean than the score
    means = ScoreValues(base, new)
    if presentation.pairings and specs and share_prompts(base, new):
        families = pair_images(
            base, new, presentation.pairings, by=by, protocol=protocol, defined=defined_means(base, new)
        )
        for family in families:
            for values in family:
                name = values.metric.partition(MEAN_OVER)[0]
                known = name in specs and specs[name].compare == "paired"
                paired |= {name} if known else set()
                if known and not means.is_mean(values):
                    astray.add(row_key(values))
                elif known:
                    yield _Row(
                        metric=values.metric,
                        spec=specs[name],
                        protocol=values.protocol,
                        group=values.group,
                        unit=values.unit,
                        pairs=values,
                        unpaired=(values.only_a, values.only_b, values.neither),
                    )
                del values  # before the next are made
    rest = set(specs) - paired | {metric for metric, *_ in astray}
    shared = shared_scores(base, new, rest, by=by, detail=presentation.layout.detail, protocol=protocol)
    both = [
        (a, b) for a, b in shared if a and b and not a.adjusted and (a.metric not in paired or row_key(a) in astray)
    ]
    complete = {
        a.metric for a, b in both if not any(math.isnan(x) for s in (a, b) for x in (s.value, s.ci_low, s.ci_high))
    }
    for a, b in both:
        if a.metric in complete:  # groups without an interval are rows that are not tested
            yield _Row(
                metric=a.metric, spec=specs[a.metric], protocol=a.protocol, group=a.group, unit=b.unit, scores=(a, b)
            )


# ------------------------------------------------------------------------------------------------------------ planning
@dataclass(frozen=True, kw_only=True)
class GatePlan:
    """How many prompts a number of a gate takes.

    Attributes:
        metric: name of the metric; empty where no run was given.
        group: facet values that it is restricted to.
        drop: the true drop to be seen, in ``unit``.
        max_drop: the drop that is allowed, in ``unit``.
        unit: unit of the values.
        discordance: share of images whose verdicts differ between two runs; None for other values, and where none do.
        deviation: standard deviation of the differences, for values other than 0/1; else None.
        correlation: correlation of the differences of two images of one prompt; NaN where nothing differs.
        basis: ``pair``: from two runs; ``run``: from one; ``given``: from numbers.
        images_per_prompt: images of each prompt.
        prompts: prompts needed, by power in per cent; None where more than ten million would be, or nothing differs.
        n_prompts: prompts of the runs given; 0 for none.
        seen: the smallest drop that these prompts see, in ``unit``, by power in per cent.
    """

    metric: str
    group: Mapping[str, FacetValue]
    drop: float
    max_drop: float
    unit: str
    discordance: float | None
    deviation: float | None
    correlation: float
    basis: str
    images_per_prompt: int
    prompts: Mapping[str, int | None]
    n_prompts: int = 0
    seen: Mapping[str, float] | None = None

    def record(self) -> dict[str, Any]:
        """As plain JSON; undefined numbers are null."""
        plain = asdict(self)
        plain["correlation"] = None if math.isnan(self.correlation) else self.correlation
        if self.seen is not None:
            plain["seen"] = {k: v if math.isfinite(v) else None for k, v in self.seen.items()}
        return plain


def plan_spread(
    spread: Spread,
    *,
    drop: float,
    max_drop: float,
    images_per_prompt: Sequence[int],
    power: Sequence[float],
    alpha: float,
    n_tests: int = 1,
    n_prompts: int = 0,
    images: int = 0,
    unit: str = SHARE.unit,
    metric: str = "",
    group: Mapping[str, FacetValue] | None = None,
    basis: str = "given",
) -> list[GatePlan]:
    """The prompts needed for each number of images per prompt.

    Args:
        spread: how differences vary.
        drop: the true drop, in ``unit``.
        max_drop: the drop that is allowed, in ``unit``.
        images_per_prompt: numbers of images per prompt to plan for.
        power: powers, each in (0, 1).
        alpha: level.
        n_tests: tests that Holm's correction runs over.
        n_prompts: prompts of a run whose smallest drop is asked for; 0 for none.
        images: images per prompt of that run, rounded.
        unit: unit of the values.
        metric: name of the metric.
        group: facet values that it is restricted to.
        basis: see ``GatePlan``.

    Raises:
        UsageError: a drop that could never be seen.
    """
    if not drop > max_drop:
        raise UsageError(f"only drops above --max-drop are ever seen: --drop must exceed {_points(max_drop, unit):g}")
    if spread.discordance is not None and spread.discordance < drop:
        spread = replace(spread, discordance=drop)  # as many images differ at least
    plans = []
    for k in images_per_prompt:
        needed: dict[str, int | None] = {}
        for p in power:
            try:
                needed[f"{100 * p:g}"] = prompts_needed(
                    drop, spread, power=p, margin=max_drop, images_per_prompt=k, alpha=alpha, n_tests=n_tests
                )
            except ValueError:
                needed[f"{100 * p:g}"] = None
        seen = None
        if n_prompts > 1 and k == images:
            seen = {
                f"{100 * p:g}": drop_seen(
                    n_prompts, spread, power=p, margin=max_drop, images_per_prompt=k, alpha=alpha, n_tests=n_tests
                )
                for p in power
            }
        plans.append(
            GatePlan(
                metric=metric,
                group=dict(group or {}),
                drop=drop,
                max_drop=max_drop,
                unit=unit,
                discordance=spread.discordance,
                deviation=spread.deviation,
                correlation=spread.correlation,
                basis=basis,
                images_per_prompt=k,
                prompts=needed,
                n_prompts=n_prompts if seen else 0,
                seen=seen,
            )
        )
    return plans


def _points(value: float, unit: str) -> float:
    return 100 * value if unit == SHARE.unit else value


def plan_gate(
    base: Run,
    new: Run | None,
    presentation: Presentation,
    *,
    drop: float,
    max_drop: MaxDrop = 0.0,
    metrics: Sequence[str] = (),
    by: str | None = None,
    protocol: str | None = None,
    images_per_prompt: Sequence[int] = (),
    power: Sequence[float] = (0.8, 0.9),
    alpha: float = 0.05,
) -> list[GatePlan]:
    """How many prompts the gate would need to see a drop, from a pilot run or from two.

    Args:
        base: a run of the kind that is to be gated.
        new: a second one over the same prompts; None: the differences are estimated from ``base`` alone.
        presentation: presentation of the suite.
        drop: the true drop to be seen: percentage points of shares, else in the metric's unit.
        max_drop: as of ``gate_runs``.
        metrics: as of ``gate_runs``.
        by: as of ``gate_runs``.
        protocol: as of ``gate_runs``.
        images_per_prompt: numbers of images per prompt to plan for; those of the run come first.
        power: powers, each in (0, 1).
        alpha: level of the gate.

    Raises:
        UsageError: nothing that is paired image by image, or no values that differ.
    """
    limits = _Limits.of(max_drop, presentation)
    other = new if new is not None else base
    protocol = protocol or main_protocol(base, other, presentation)

    def spread_of(row: _Row) -> tuple[_Row, Spread | None, int, int] | None:
        """The row without its pairs, how they vary, the number of prompts, and of images of each; None for no pairs."""
        p = row.pairs
        if p is None or not p.defined or not len(p.a):
            return None
        spread = spread_of_pairs(p.a, p.b, p.prompts) if new is not None else spread_of_run(p.a, p.prompts)
        n_prompts = len(np.unique(p.prompts))
        return row.without_pairs(), spread, n_prompts, max(1, round(len(p.a) / n_prompts))

    found = _rows_of(base, other, presentation, metrics, by, protocol, limits, spread_of)
    plans: list[GatePlan] = []
    for row, spread, n_prompts, images in filter(None, found.rows):
        if spread is None:
            plans.append(
                GatePlan(
                    metric=row.metric,
                    group=dict(row.group),
                    drop=drop / 100 if row.unit == SHARE.unit else drop,
                    max_drop=limits.of_metric(row.spec, row.unit),
                    unit=row.unit,
                    discordance=None,
                    deviation=None,
                    correlation=math.nan,
                    basis="pair" if new is not None else "run",
                    images_per_prompt=images,
                    prompts={f"{100 * p:g}": None for p in power},
                    n_prompts=n_prompts,
                )
            )
            continue
        plans += plan_spread(
            spread,
            drop=drop / 100 if row.unit == SHARE.unit else drop,
            max_drop=limits.of_metric(row.spec, row.unit),
            images_per_prompt=list(dict.fromkeys([images, *images_per_prompt])),
            power=power,
            alpha=alpha,
            n_tests=len(found.rows),
            n_prompts=n_prompts,
            images=images,
            unit=row.unit,
            metric=row.metric,
            group=row.group,
            basis="pair" if new is not None else "run",
        )
    if all(plan.discordance is None and plan.deviation is None for plan in plans):
        raise UsageError(
            f"{base.path}: no metric that is paired image by image has values that differ; give numbers in place "
            "of runs: --share, --discordance, --correlation"
        )
    return plans
