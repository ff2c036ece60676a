"""Two runs of one suite: image by image where it decides so, otherwise by the intervals of their scores."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from verism.errors import UsageError
from verism.parquet import slices
from verism.records import PROTOCOLS, FacetValue, Prompt, Score
from verism.report_kit.comparability import Comparability, Reason, check_comparable
from verism.report_kit.evidence import Evidence
from verism.specs import Pairing, Presentation, Scale
from verism.statistics.paired import holm, paired_difference
from verism.store import Run

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "MEAN_OVER",
    "Difference",
    "Key",
    "PairedValues",
    "ScoreValues",
    "compare_images",
    "compare_runs",
    "compare_scores",
    "defined_means",
    "main_protocol",
    "pair_images",
    "row_key",
    "same_outcome",
    "share_prompts",
    "shared_scores",
]

MEAN_OVER = ", mean over "  # between the metric and the facet of a mean that the suite does not report
NOT_THE_MEAN = "this score is not the mean of the images' values"
ONLY_A, ONLY_B = "only run A has such a score", "only run B has such a score"
SAME = 1e-6  # difference of two numbers that are one but for rounding
ROWS = 2**16  # verdicts of a run that are in memory at once
Key = tuple[str, str, frozenset[tuple[str, FacetValue]]]  # metric, protocol and group
Weigh = Callable[[np.ndarray], np.ndarray | None]  # number of the prompt of each image -> weight of each; None: equal
ORDER: Mapping[str, int] = {name: n for n, name in enumerate(PROTOCOLS)}


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One row of a comparison: a measure of run B minus the same of run A.

    Attributes:
        metric: name of the metric.
        protocol: name of the protocol.
        group: facet values that the row is restricted to; empty for the whole suite.
        value_a: value of run A, in ``unit``.
        value_b: value of run B, in ``unit``.
        difference: B minus A, in ``unit``.
        ci_low: lower end of the 95 % confidence interval of the difference.
        ci_high: upper end of the 95 % confidence interval of the difference.
        p_value: p-value of the two-sided test of no difference, 0 to 1.
        p_holm: p-value after Holm's correction over the groups, 0 to 1.
        n_pairs: number of images judged in both runs; 0 in ``independent`` rows, which pair no images.
        n_prompts: number of prompts of those images; 0 in ``independent`` rows.
        n_unpaired: number of images that only one run, or neither, has a usable answer for; those of prompts that only
            one run asked are among them. Of ``independent`` rows: all images used.
        unit: unit of the values, ``share`` unless the metric has another.
        method: ``paired``: over the images both could be judged on, clustered by prompt, by permutations.
            ``independent``: from the two intervals (see ``compare_scores``).
        adjusted: kind of truth by which the judge's error was taken out of both values, as of ``Score``; empty for
            neither.
        reasons: why the two values should not be compared; empty for those that may be. Other rows than these are only
            made on demand (``anyway``).
        label: what the metric is called; where real images matter, with the features and both numbers of images.
        left_out_a: what the score of run A leaves out, in words: unanswered questions, unusable images; empty for
            nothing, and for a row that no score is of.
        left_out_b: the same of run B.
        n_a: number of images, or answers, that the value of run A is made from.
        n_b: the same of run B; of paired rows both are the pairs.
        undefined: why there is no difference, or no interval of it; empty where there are both.
        not_paired: why the row of a metric that is compared image by image is made from two intervals; empty for all
            others.
    """

    metric: str
    protocol: str
    group: Mapping[str, Any]
    value_a: float
    value_b: float
    difference: float
    ci_low: float
    ci_high: float
    p_value: float
    p_holm: float
    n_pairs: int
    n_prompts: int
    n_unpaired: int
    unit: str = "share"
    method: str = "paired"
    adjusted: str = ""
    reasons: tuple[str, ...] = ()
    label: str = ""
    left_out_a: str = ""
    left_out_b: str = ""
    n_a: int = 0
    n_b: int = 0
    undefined: str = ""
    not_paired: str = ""

    def record(self) -> dict[str, Any]:
        """As plain JSON; undefined numbers are null."""
        plain = {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in asdict(self).items()}
        return plain | {"reasons": list(self.reasons)}


def compare_scores(
    a: Run,
    b: Run,
    metrics: Collection[str] | None = None,
    *,
    by: str | None = None,
    detail: Sequence[str] = (),
    protocol: str | None = None,
    optional: bool = False,
    either: Collection[str] = (),
) -> list[Difference]:
    """Differences of metrics of two runs whose images cannot be paired: coverage, FID ...

    Each end of the interval combines the distances of the single ends (Zou & Donner 2008); the p-value is that of the
    normal test whose standard errors the two intervals imply. Both treat the runs as independent. Runs that share real
    images or prompts err alike in part, so that true differences are found somewhat less often than they could be,
    and false ones not more often. Holm's correction runs over the groups of one metric and protocol. Scores adjusted
    for the judge's error are compared with such scores of the same kind only, and are a family of their own. Runs with
    the same images and verdicts differ by exactly 0 where their values are equal.

    Args:
        a: the baseline.
        b: the other run.
        metrics: only these; None for all.
        by: only scores of groups made of this facet (``region``, ``object`` ...); None: those of all groups but the
            ones of ``detail``.
        detail: facets with too many values to be compared unasked.
        protocol: only this one; None for all.
        optional: whether having nothing in common is no error.
        either: metrics of which a score that only one run has is a row as well, without a difference.

    Raises:
        UsageError: the runs have no score in common.
    """
    pairs = shared_scores(a, b, metrics, by=by, detail=detail, protocol=protocol, either=either)
    if not optional and not any(None not in pair for pair in pairs):
        raise UsageError(f"{a.path} and {b.path} have no score in common{'' if by is None else f' by {by}'}")
    same = same_outcome(a, b)
    results = [_independent(x, y) if x and y else _of_one_run(x, y) for x, y in pairs]
    families: dict[tuple[str, str, str], list[int]] = {}
    for index, row in enumerate(results):
        if row.group and not math.isnan(row.p_value):
            families.setdefault((row.protocol, row.metric, row.adjusted), []).append(index)
    for places in families.values():
        for index, p in zip(places, holm([results[i].p_value for i in places]).tolist(), strict=True):
            results[index] = replace(results[index], p_holm=p)
    # Of the same verdicts, other rules of the scores or another adjustment make other values.
    return [_without_interval(row) if same and row.value_a == row.value_b else row for row in results]


def shared_scores(
    a: Run,
    b: Run,
    metrics: Collection[str] | None = None,
    *,
    by: str | None = None,
    detail: Sequence[str] = (),
    protocol: str | None = None,
    either: Collection[str] = (),
) -> list[tuple[Score | None, Score | None]]:
    """Scores that both runs have, in the order of their protocols.

    Args:
        a: the baseline.
        b: the other run.
        metrics: only these; None for all.
        by: only scores of groups made of this facet; None: those of all groups but the ones of ``detail``.
        detail: facets with too many values to be compared unasked.
        protocol: only this one; None for all.
        either: metrics of which scores that only one run has are given, too, with None for the other.
    """
    columns = []
    for run in (a, b):
        scores = [
            s
            for s in run.scores()
            if (protocol is None or s.protocol == protocol) and (metrics is None or s.metric in metrics)
        ]
        kept = [s for s in scores if (by in s.group if by is not None else not set(detail) & set(s.group))]
        # What was adjusted for the judge's error is only held against what was adjusted in the same way.
        columns.append({(s.protocol, s.metric, tuple(s.group.items()), s.adjusted): s for s in kept})
    keys = [key for key in columns[0] | columns[1] if all(key in column for column in columns) or key[1] in either]
    keys.sort(key=lambda key: ORDER.get(key[0], len(ORDER)))
    return [(columns[0].get(key), columns[1].get(key)) for key in keys]


def _why_no_difference(a: Score, b: Score) -> str:
    """Why two scores give no difference, or none with an interval, in words; empty where they do."""
    for what, ends in (("score", ("value",)), ("interval", ("ci_low", "ci_high"))):
        without = [
            name + ("" if score.n_used else " (no usable image)")
            for name, score in (("A", a), ("B", b))
            if any(math.isnan(getattr(score, end)) for end in ends)
        ]
        if without:
            return f"no {what} in {' and '.join(without)}"
    return ""


def _independent(a: Score, b: Score) -> Difference:
    difference = b.value - a.value
    low = difference - math.hypot(b.value - b.ci_low, a.ci_high - a.value)
    high = difference + math.hypot(b.ci_high - b.value, a.value - a.ci_low)
    # Towards 0 is the end that "no difference" would have to lie beyond.
    error = (difference - low if difference > 0 else high - difference) / NormalDist().inv_cdf(0.975)
    p_value = math.nan
    if error > 0:
        p_value = 2 * NormalDist().cdf(-abs(difference) / error)
    return Difference(
        metric=a.metric,
        protocol=a.protocol,
        group=dict(a.group),
        value_a=a.value,
        value_b=b.value,
        difference=difference,
        ci_low=low,
        ci_high=high,
        p_value=p_value,
        p_holm=p_value,
        n_pairs=0,
        n_prompts=0,
        n_unpaired=a.n_used + b.n_used,
        n_a=a.n_used,
        n_b=b.n_used,
        unit=a.unit,
        method="independent",
        undefined=_why_no_difference(a, b),
        adjusted=a.adjusted,
    )


def _of_one_run(a: Score | None, b: Score | None) -> Difference:
    """The row of a score that the other run does not have."""
    score = a or b
    assert score is not None
    nothing = replace(score, value=math.nan, ci_low=math.nan, ci_high=math.nan, n_used=0)
    return replace(_independent(a or nothing, b or nothing), undefined=ONLY_A if a else ONLY_B)


def compare_runs(
    a: Run,
    b: Run,
    presentation: Presentation,
    *,
    other: Presentation | None = None,
    by: str | None = None,
    protocol: str | None = None,
    all_protocols: bool = False,
    anyway: bool = False,
    seed: int = 0,
    names: tuple[str, str] = ("A", "B"),
) -> list[Difference]:
    """Differences of two runs of one suite: paired by image where it decides image by image, else by their intervals.

    Args:
        a: the baseline.
        b: the other run.
        presentation: presentation of the suite of ``a``: how its images are paired, and which metrics are compared by
            intervals.
        other: presentation of the suite of ``b``, whose settings may differ; None for the same.
        by: facet to group by, in place of the suite's own.
        protocol: only this one; None for the first of the suite that both runs were scored under.
        all_protocols: whether every protocol is compared; ``protocol`` is then left out of account.
        anyway: whether what cannot be compared is compared all the same, with the reasons in ``Difference.reasons``.
        seed: seed of random sign patterns, where they are needed.
        names: how the reasons call the two runs.

    Raises:
        UsageError: no score and no prompt in common, prompts of one id that differ in text, a facet that no prompt has,
            or rows that are not comparable, without ``anyway``.
    """
    if all_protocols:
        protocol = None
    elif protocol is None:
        protocol = main_protocol(a, b, presentation)
    paired: list[Difference] = []
    why = "the runs hold no decisions on single images under this protocol"
    if presentation.pairings and not share_prompts(a, b):
        why = "the runs have no prompt in common" + _named_by_file(a, b)
    elif presentation.pairings:
        paired = compare_images(
            a, b, presentation.pairings, by=by, protocol=protocol, seed=seed, defined=defined_means(a, b)
        )
    compared = {spec.name for spec in presentation.metrics if spec.compare == "independent"}
    pairable = {spec.name for spec in presentation.metrics if spec.compare == "paired"}
    if not paired:  # what would be paired is compared as the rest is
        compared |= pairable
    rest: list[Difference] = []
    if compared:
        rest = compare_scores(
            a,
            b,
            compared,
            by=by,
            detail=presentation.layout.detail,
            protocol=protocol,
            optional=bool(paired),
            either=compared - {spec.name for spec in presentation.metrics if spec.finds_group},
        )
        rest = [replace(row, not_paired=why) if row.metric in pairable else row for row in rest]
    presentations = (presentation, other or presentation)
    comparability = Comparability(a, b, presentations, names=names)
    evidence = Evidence.of([a, b], presentations, gallery=0)
    rows: list[Difference] = []
    found: list[tuple[str, Reason]] = []
    for row in [*paired, *rest]:
        # A mean over other groups than the suite's is made of what its metric is made of.
        metric, over, facet = row.metric.partition(MEAN_OVER)
        reasons = (
            *comparability.touching(metric, row.protocol, row.group),
            *comparability.adjusted_apart(metric, row.protocol, row.group, row.adjusted),
        )
        if row.undefined in (ONLY_A, ONLY_B):  # nothing is held against anything
            reasons = ()
        found += [(row.metric, reason) for reason in reasons]
        label = evidence.label_of(metric, row.protocol, row.group) + over + facet
        left_out = [evidence.left_out(n, metric, row.protocol, row.group) for n in (0, 1)]
        rows.append(
            replace(
                row,
                reasons=tuple(dict.fromkeys(reason.text for reason in reasons)),
                label=label,
                left_out_a=left_out[0],
                left_out_b=left_out[1],
            )
        )
    if not anyway:
        check_comparable(found, str(a.path), str(b.path))
    return rows


def row_key(row: Difference | PairedValues | Score) -> Key:
    """Metric, protocol and group: what a row or a score is of.

    Args:
        row: a row of a comparison, the values behind one, or a score.
    """
    return row.metric, row.protocol, frozenset(row.group.items())


class ScoreValues:
    """The values of the scores of two runs, to tell whether pairs of images are what the scores are made of.

    A score may leave out images that have a value of their own (of prompts with a missing one, say), give none at all
    where one is missing, or be pooled over questions: the mean of the images' values is then another number, and must
    not stand under its name.

    Args:
        a: the baseline.
        b: the other run.
    """

    def __init__(self, a: Run, b: Run) -> None:
        self._scores = [
            {row_key(s): s for s in (run.scores() if run.is_scored else []) if not s.adjusted} for run in (a, b)
        ]
        self._astray: set[tuple[str, str]] = set()

    def is_mean(self, values: PairedValues) -> bool:
        """Whether both scores of a row are the means of all values of their runs; so is what no pair is behind.

        A group without a score of its own is as the row over all groups, which has to be asked about before it.

        Args:
            values: of the row.
        """
        if not values.defined or not len(values.a):
            return True  # no number that could be another
        key = row_key(values)
        scores = [of_run.get(key) for of_run in self._scores]
        found = [
            math.isclose(score.value, mean, rel_tol=SAME, abs_tol=SAME)
            for score, mean in zip(scores, values.means, strict=True)
            if score is not None and not math.isnan(mean)
        ]
        if not all(found):
            self._astray.add(_of_metric(values))
        return all(found) if found else _of_metric(values) not in self._astray

    def difference(self, values: PairedValues) -> Difference:
        """The row of scores that are not the means of their images' values, from the intervals of both.

        Args:
            values: of the row.
        """
        a, b = (of_run.get(row_key(values)) for of_run in self._scores)
        if a is None and b is None:
            return replace(_undefined(_difference(values, 0)), undefined=NOT_THE_MEAN)
        row = _independent(a, b) if a and b else _of_one_run(a, b)
        return replace(row, not_paired=NOT_THE_MEAN)


def _of_metric(values: PairedValues) -> tuple[str, str]:
    return values.metric.partition(MEAN_OVER)[0], values.protocol


def share_prompts(a: Run, b: Run) -> bool:
    """Whether two runs have a prompt in common, by its id, so that their images can be paired.

    Args:
        a: the first run.
        b: the second run.
    """
    return not {p.prompt_id for p in a.prompts()}.isdisjoint(p.prompt_id for p in b.prompts())


def _named_by_file(a: Run, b: Run) -> str:
    """What images without prompts are paired by, where a run has such."""
    without = any(not p.text for run in (a, b) for p in run.prompts())
    return "; images without prompts are paired by their file names" if without else ""


def main_protocol(a: Run, b: Run, presentation: Presentation) -> str | None:
    """The protocol to compare models with: the first of the suite that both runs have; None if they share none."""
    known = [_protocols(run.scan_verdicts()) | {s.protocol for s in run.scores()} for run in (a, b)]
    return next((name for name in presentation.info.protocols if name in known[0] & known[1]), None)


def defined_means(a: Run, b: Run) -> set[tuple[str, str]]:
    """Metric and protocol of the numbers over all images that the scores of both runs define."""
    defined = [
        {(s.metric, s.protocol) for s in run.scores() if not s.group and not s.adjusted and not math.isnan(s.value)}
        for run in (a, b)
    ]
    return defined[0] & defined[1]


def same_outcome(a: Run, b: Run) -> bool:
    """Whether two runs are the same run, or hold the same images with the same verdicts."""
    if a.path.resolve() == b.path.resolve() and a.name == b.name:
        return True
    images = [run.image_summary() for run in (a, b)]
    n_images = sum(images[0].states.values())
    if not n_images or images[0].n_hashed < n_images or images[0].digest != images[1].digest:
        return False
    hashes = [run.verdicts_hash() for run in (a, b)]
    if hashes[0] and hashes[0] == hashes[1]:
        return True
    verdicts = a.scan_verdicts(), b.scan_verdicts()
    heights = [_height(table) for table in verdicts]
    return heights[0] == heights[1] and all(
        verdicts[0].slice(start, ROWS).collect().equals(verdicts[1].slice(start, ROWS).collect())
        for start in range(0, heights[0], ROWS)
    )


def _protocols(verdicts: pl.LazyFrame) -> set[str]:
    found = (rows.select("protocol").unique().collect()["protocol"].to_list() for rows in slices(verdicts))
    return {protocol for some in found for protocol in some}


def _height(rows: pl.LazyFrame) -> int:
    import polars as pl

    return int(rows.select(pl.len()).collect().item())


def compare_images(
    a: Run,
    b: Run,
    pairings: Sequence[Pairing],
    *,
    by: str | None = None,
    protocol: str | None = None,
    seed: int = 0,
    defined: Collection[tuple[str, str]] | None = None,
) -> list[Difference]:
    """Paired differences, for each protocol: over all groups, and of each group.

    Images are paired by prompt and index. The overall row is the difference of the mean over groups where the suite
    reports such a mean, otherwise over all images. It has the name of the suite's mean only where it is that mean: over
    the same groups, all of them there. A mean over other groups is named after its metric and facet (``accuracy, mean
    over object``), and left out where there is a single group. A mean is undefined (NaN) where a group has no pair of
    usable images. A row of scores that are no means of the images' values is made from their intervals. Holm's
    correction runs over the groups of one pairing and protocol; the overall row is a test of its own. Images, prompts
    and verdicts that are the same in both runs differ by exactly 0, without any interval around it.

    Args:
        a: the baseline.
        b: the other run.
        pairings: what is compared; those without verdicts in these runs are left out.
        by: facet of the prompts to group by, in place of that of the pairing.
        protocol: only this one; None for all.
        seed: seed of random sign patterns, where they are needed.
        defined: metric and protocol of the means that the scores of both runs define; None if that is not known: then
            those over all groups that the suite names.

    Raises:
        UsageError: no prompt in common, prompts of one id that differ in text, or a facet that no prompt has.
    """
    asked, shared = _common_prompts(a, b)
    if by is not None and all(p.facets.get(by) is None for p in asked.values()):
        raise UsageError(f"no prompt has the facet {by!r}; it has {sorted(asked[shared[0]].facets)}")
    rows: list[Difference] = []
    scores = ScoreValues(a, b)
    for family in pair_images(a, b, pairings, by=by, protocol=protocol, defined=defined):
        of_family: list[Difference] = []
        groups: list[int] = []
        for values in family:
            row = _difference(values, seed) if scores.is_mean(values) else scores.difference(values)
            if not values.overall and not math.isnan(row.p_value):
                groups.append(len(of_family))
            of_family.append(row)
            del values  # before the next are made
        for n, p in zip(groups, holm([of_family[n].p_value for n in groups]).tolist(), strict=True):
            of_family[n] = replace(of_family[n], p_holm=p)
        rows += of_family
    return [_without_interval(row) for row in rows] if same_outcome(a, b) else rows


@dataclass(frozen=True, kw_only=True)
class PairedValues:
    """The values behind one row of a paired comparison.

    Attributes:
        metric: name of the metric, or of a mean over groups.
        protocol: name of the protocol.
        group: facet values that the row is restricted to.
        unit: unit of the values.
        overall: whether it is the row over all groups, and not one of them.
        a: values of the baseline, shape (N,); whole numbers of one byte where all are 0 or 1.
        b: values of the other run for the same images, likewise.
        prompts: number of the prompt of each pair, in the order of the ids of all prompts, shape (N,).
        weights: weight of each pair in a mean over groups, of mean 1, shape (N,); None for equal ones.
        only_a: images that only the baseline has a usable answer for.
        only_b: images that only the other run has a usable answer for.
        neither: images that neither has a usable answer for.
        means: of each run, the mean of all its values, paired or not; NaN where it has none.
        defined: False for a mean over groups of which one has no pair.
        span: greatest possible difference of two values: 1 for shares; infinite where the metric has no bounds.
    """

    metric: str
    protocol: str
    group: Mapping[str, FacetValue]
    unit: str
    overall: bool
    a: np.ndarray
    b: np.ndarray
    prompts: np.ndarray
    weights: np.ndarray | None
    only_a: int
    only_b: int
    neither: int
    means: tuple[float, float]
    defined: bool = True
    span: float = math.inf

    @property
    def n_unpaired(self) -> int:
        """Images that only one run, or neither, has a usable answer for."""
        return self.only_a + self.only_b + self.neither


def pair_images(
    a: Run,
    b: Run,
    pairings: Sequence[Pairing],
    *,
    by: str | None = None,
    protocol: str | None = None,
    defined: Collection[tuple[str, str]] | None = None,
) -> Iterator[Iterator[PairedValues]]:
    """Pairs of values behind the rows of ``compare_images``: some for every pairing, protocol and split.

    They are put together as they are asked for, so that only those of one row need be in memory.

    Args:
        a: the baseline.
        b: the other run.
        pairings: what is compared; those without verdicts in these runs are left out.
        by: facet of the prompts to group by, in place of that of the pairing.
        protocol: only this one; None for all.
        defined: see ``compare_images``.

    Raises:
        UsageError: no prompt in common, prompts of one id that differ in text, or a facet that no prompt has.
    """
    asked, shared = _common_prompts(a, b)
    if by is not None and all(p.facets.get(by) is None for p in asked.values()):
        raise UsageError(f"no prompt has the facet {by!r}; it has {sorted(asked[shared[0]].facets)}")
    verdicts = a.scan_verdicts(), b.scan_verdicts()
    ranges = _ranges(verdicts)
    result = {name for table in verdicts for name in _protocols(table)}
    for name in sorted(result, key=lambda name: ORDER.get(name, len(ORDER))) if protocol is None else (protocol,):
        for pairing in pairings:
            joined = _joined(verdicts, pairing, name, ranges, list(asked))
            if joined.height:
                yield from _of_pairing(pairing, name, joined, asked, by, defined)


def _common_prompts(a: Run, b: Run) -> tuple[dict[str, Prompt], list[str]]:
    """All prompts of both runs, and the ids of those that both asked."""
    prompts_a, prompts_b = ({p.prompt_id: p for p in run.prompts()} for run in (a, b))
    shared = sorted(set(prompts_a) & set(prompts_b))
    if not shared:
        raise UsageError(f"{a.path} and {b.path} have no prompt in common; a comparison pairs images by prompt")
    changed = [i for i in shared if prompts_a[i].text != prompts_b[i].text or prompts_a[i].spec != prompts_b[i].spec]
    if changed:
        first, second = prompts_a[changed[0]], prompts_b[changed[0]]
        if first.text != second.text:
            what = f"reads {first.text!r} in {a.path} and {second.text!r} in {b.path}"
        else:
            keys = sorted(k for k in first.spec.keys() | second.spec.keys() if first.spec.get(k) != second.spec.get(k))
            what = f"has one text in {a.path} and {b.path}, and is judged by other {', '.join(map(str, keys))}"
        raise UsageError(
            f"prompt {changed[0]!r} {what}{_settings_apart(a, b)}; runs over other prompts cannot be paired"
        )
    return prompts_b | prompts_a, shared


def _settings_apart(a: Run, b: Run) -> str:
    """The settings of the suite in which two runs differ, where it says that they matter; empty for none."""
    names = sorted({name for run in (a, b) if (made := run.presentation()) is not None for name in made.settings})
    values = [run.manifest.settings.suite_settings for run in (a, b)]
    apart = [n for n in names if values[0].get(n) != values[1].get(n)]
    return "".join(f" ({n.replace('_', ' ')}: {values[0].get(n)} and {values[1].get(n)})" for n in apart)


def _ranges(verdicts: Sequence[pl.LazyFrame]) -> list[tuple[str | None, str | None]]:
    """Ranges of image ids, each with about ``ROWS`` verdicts of a run at most: first id, and first of the next."""
    bounds: set[str] = set()
    for table in verdicts:  # sorted by image
        for start in range(ROWS, _height(table), ROWS):
            bounds.add(table.select("image_id").slice(start, 1).collect().item())
    ends = [None, *sorted(bounds), None]
    return list(zip(ends, ends[1:], strict=False))


def _joined(
    verdicts: Sequence[pl.LazyFrame],
    pairing: Pairing,
    protocol: str,
    ranges: Sequence[tuple[str | None, str | None]],
    prompts: Sequence[str],
) -> pl.DataFrame:
    """Values of both runs by image and key, in the order of images.

    Args:
        verdicts: table ``verdicts`` of both runs.
        pairing: what is compared.
        protocol: under which protocol.
        ranges: of image ids; the rows of one are in memory with all their columns at a time.
        prompts: ids of all prompts of both runs.

    Returns:
        Columns ``prompt`` (its number), ``key_0`` ..., ``value``, ``value_right``, short where all are 0 or 1.
    """
    import polars as pl

    keys = [f"key_{n}" for n in range(len(pairing.key))]
    numbers = pl.DataFrame({"prompt_id": list(prompts)}, schema={"prompt_id": pl.String}).with_row_index("prompt")
    blocks = []
    for first, following in ranges:
        tables = []
        for table in verdicts:
            rows = table.filter((pl.col("rule") == pairing.rule) & (pl.col("protocol") == protocol))
            # Verdicts of real images have no prompt, and are of no run alone.
            rows = rows.filter(pl.col("prompt_id") != "")
            rows = rows if first is None else rows.filter(pl.col("image_id") >= first)
            rows = rows if following is None else rows.filter(pl.col("image_id") < following)
            tables.append(_keyed(rows, pairing, keys))
        on = ["image_id", "prompt_id", *keys]
        both = tables[0].join(tables[1], on=on, how="full", coalesce=True, nulls_equal=True).sort("image_id", *keys)
        both = both.join(numbers, on="prompt_id", how="left", maintain_order="left")
        blocks.append(both.select("prompt", *keys, _short(both["value"]), _short(both["value_right"])))
    return pl.concat(blocks, how="vertical_relaxed", rechunk=True)  # columns in one piece are arrays without a copy


def _short(values: pl.Series) -> pl.Series:
    """Values that are all 0, 1 or missing in one byte each; others as they are."""
    import polars as pl

    return values.cast(pl.Int8) if ((values == 0) | (values == 1)).all() else values


def _keyed(verdicts: pl.LazyFrame, pairing: Pairing, keys: Sequence[str]) -> pl.DataFrame:
    """Image, prompt, keys and value of the verdicts that a pairing is about."""
    import polars as pl

    wanted = [*pairing.key, *pairing.where, *pairing.indicator]
    if not wanted:
        return verdicts.select("image_id", "prompt_id", "value").collect()
    rows = verdicts.select("image_id", "prompt_id", "value", "detail").collect()
    details = [json.loads(text) if text else {} for text in rows["detail"].to_list()]
    rows = rows.with_columns(
        pl.Series(key, [_text(d.get(name)) for d in details], dtype=pl.String)
        for key, name in zip(keys, pairing.key, strict=True)
    )
    chosen = [all(_text(d.get(k)) == v for k, v in pairing.where.items()) for d in details]
    if pairing.indicator:
        hits = [float(all(_text(d.get(k)) == v for k, v in pairing.indicator.items())) for d in details]
        hit = pl.Series("hit", hits, dtype=pl.Float64)
        rows = rows.with_columns(pl.when(pl.col("value").is_null()).then(None).otherwise(hit).alias("value"))
    return rows.filter(pl.Series(chosen, dtype=pl.Boolean)).select("image_id", "prompt_id", *keys, "value")


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _of_pairing(
    pairing: Pairing,
    protocol: str,
    joined: pl.DataFrame,
    asked: Mapping[str, Prompt],
    by: str | None,
    defined: Collection[tuple[str, str]] | None,
) -> Iterator[Iterator[PairedValues]]:
    """For every value of the split facets and keys: overall, and by the levels of the facet."""
    import polars as pl

    facet = by or pairing.facet
    if facet in pairing.split:  # every list has one value of it already
        facet = ""
    keys = [f"key_{n}" for n in range(len(pairing.key))]
    prompts = list(asked.values())
    # Clusters are in the order of their ids, so that sums over them are the same to the last bit as ever.
    places = np.empty(len(prompts), dtype=np.int32)
    places[sorted(range(len(prompts)), key=lambda n: prompts[n].prompt_id)] = np.arange(len(prompts))
    number = joined["prompt"].to_numpy()
    parts = _Coded.of([tuple(p.facets.get(name) for name in pairing.split) for p in prompts])
    levels = _Coded.of([p.facets.get(facet) if facet else None for p in prompts])
    cells: list[tuple[Any, ...]] = [()]
    cell_of: np.ndarray | None = None  # of each row; None where all are in one
    found = [0]
    if keys or len(parts.values) > 1:
        part_of = parts.codes[number].astype(np.int64)
        if keys:
            distinct = joined.select(keys).unique(maintain_order=True).with_row_index("cell")
            cells = distinct.drop("cell").rows()
            numbered = joined.join(distinct, on=keys, nulls_equal=True, how="left", maintain_order="left")["cell"]
            cell_of = part_of * len(cells) + numbered.to_numpy()
        else:
            cell_of = part_of
        codes, first = np.unique(cell_of, return_index=True)
        found = codes[np.argsort(first)].tolist()  # in the order in which they first come
    for code in found:
        cell = (*parts.values[code // len(cells)], *cells[code % len(cells)])
        group = dict(pairing.group) | {
            name: value for name, value in zip((*pairing.split, *pairing.key), cell, strict=True) if value is not None
        }
        table = joined.select("prompt", "value", "value_right")
        if len(found) > 1:
            assert cell_of is not None
            table = table.filter(pl.Series(cell_of == code))
        yield _of_cell(pairing, protocol, group, table, facet, levels, places, defined)


class _Coded(NamedTuple):
    """Values by number.

    Attributes:
        values: different ones, in the order in which they first come.
        codes: place of each value among them, shape (N,).
    """

    values: list[Any]
    codes: np.ndarray

    @staticmethod
    def of(values: Sequence[Any]) -> _Coded:
        places = {value: place for place, value in enumerate(dict.fromkeys(values))}
        return _Coded(list(places), np.array([places[value] for value in values], dtype=np.int32))


def _of_cell(
    pairing: Pairing,
    protocol: str,
    group: Mapping[str, FacetValue],
    table: pl.DataFrame,
    facet: str,
    levels: _Coded,
    places: np.ndarray,
    defined: Collection[tuple[str, str]] | None,
) -> Iterator[PairedValues]:
    def values(metric: str, rows: pl.DataFrame, weigh: Weigh | None = None) -> PairedValues:
        return _paired(metric, pairing.scale, protocol, group, rows, weigh, places)

    of_prompts = _of_prompts if pairing.by_prompt else None
    if not facet:
        yield values(pairing.metric, table, of_prompts)
        return
    of_row = levels.codes[table["prompt"].to_numpy()]
    there = [levels.values[code] for code in np.unique(of_row).tolist()]
    known = sorted((level for level in there if level is not None), key=lambda v: (isinstance(v, str), v))
    place = {level: code for code, level in enumerate(levels.values)}

    def of_levels(chosen: Sequence[Any]) -> pl.DataFrame:
        return _chosen(table, np.isin(of_row, [place[level] for level in chosen]))

    groups = (
        replace(values(pairing.metric, of_levels([level]), of_prompts), group={**group, facet: level}, overall=False)
        for level in known
    )
    if not pairing.mean:
        yield values(pairing.metric, of_levels(known), of_prompts)
        yield from groups
        return
    name, chosen = pairing.mean, [level for level in known if not pairing.groups or str(level) in pairing.groups]
    complete = {str(level) for level in chosen} >= set(pairing.groups)
    if facet != pairing.facet or not (complete if defined is None else (name, protocol) in defined):
        name, chosen = f"{pairing.metric}{MEAN_OVER}{facet}", known
        if len(chosen) < 2:
            yield from groups
            return
    named = _Coded.of([str(level) for level in levels.values])
    n_groups = 0

    def of_groups(prompts: np.ndarray) -> np.ndarray:
        """Each image weighs so that every group counts the same: the plain mean over groups."""
        nonlocal n_groups
        level_of = named.codes[levels.codes]  # of each prompt
        images = np.bincount(prompts, minlength=len(level_of))
        sizes = np.bincount(level_of, weights=images, minlength=len(named.values)).astype(np.int64)
        n_groups = int(np.count_nonzero(sizes))
        weights = np.divide(len(prompts), n_groups * sizes, where=sizes > 0, out=np.zeros(len(sizes)))
        of_each: np.ndarray = weights[level_of][prompts]
        return of_each

    mean = values(name, of_levels(chosen), of_groups)
    yield mean if n_groups == len(chosen) else replace(mean, defined=False)
    del mean
    yield from groups


def _of_prompts(prompts: np.ndarray) -> np.ndarray | None:
    """Each image weighs so that every prompt counts the same; None where all have as many images."""
    _, place, sizes = np.unique(prompts, return_inverse=True, return_counts=True)
    if not len(sizes) or sizes.min() == sizes.max():
        return None
    weights: np.ndarray = (len(prompts) / (len(sizes) * sizes))[place]
    return weights


def _mean(rows: pl.DataFrame, name: str, weigh: Weigh | None) -> float:
    """The mean of the values of one run that there are, weighed; NaN for none."""
    there = rows[name].is_not_null().to_numpy()
    if not there.any():
        return math.nan
    some = _chosen(rows, there)
    weights = None if weigh is None else weigh(some["prompt"].to_numpy())
    return float(np.average(some[name].to_numpy(), weights=weights))


def _undefined(row: Difference) -> Difference:
    """A row whose numbers cannot be known; how many images there are stays."""
    nan = math.nan
    return replace(row, value_a=nan, value_b=nan, difference=nan, ci_low=nan, ci_high=nan, p_value=nan, p_holm=nan)


def _chosen(rows: pl.DataFrame, mask: np.ndarray) -> pl.DataFrame:
    """Some rows; all of them without a copy."""
    import polars as pl

    return rows if mask.all() else rows.filter(pl.Series(mask, dtype=pl.Boolean))


def _paired(
    metric: str,
    scale: Scale,
    protocol: str,
    group: Mapping[str, FacetValue],
    rows: pl.DataFrame,
    weigh: Weigh | None,
    places: np.ndarray,
) -> PairedValues:
    usable = _chosen(rows, (rows["value"].is_not_null() & rows["value_right"].is_not_null()).to_numpy())
    prompts = usable["prompt"].to_numpy()
    only_a, only_b = (rows[name].count() - usable.height for name in ("value", "value_right"))
    means = _mean(rows, "value", weigh), _mean(rows, "value_right", weigh)
    return PairedValues(
        metric=metric,
        protocol=protocol,
        group=dict(group),
        unit=scale.unit,
        overall=True,
        a=usable["value"].to_numpy(),
        b=usable["value_right"].to_numpy(),
        prompts=places[prompts],
        weights=None if weigh is None else weigh(prompts),
        only_a=only_a,
        only_b=only_b,
        neither=rows.height - usable.height - only_a - only_b,
        means=means,
        span=math.inf if scale.low is None or scale.high is None else scale.high - scale.low,
    )


def _difference(values: PairedValues, seed: int) -> Difference:
    a, b = values.a, values.b
    if values.weights is not None:
        a, b = a * values.weights, b * values.weights
    estimate = paired_difference(a, b, values.prompts, seed=seed)
    row = Difference(
        metric=values.metric,
        protocol=values.protocol,
        group=dict(values.group),
        value_a=float(a.mean()) if len(a) else math.nan,
        value_b=float(b.mean()) if len(b) else math.nan,
        difference=estimate.difference,
        ci_low=float(np.clip(estimate.low, -values.span, values.span)),
        ci_high=float(np.clip(estimate.high, -values.span, values.span)),
        p_value=estimate.p_value,
        p_holm=estimate.p_value,
        n_pairs=estimate.n_pairs,
        n_prompts=estimate.n_clusters,
        n_unpaired=values.n_unpaired,
        n_a=estimate.n_pairs,
        n_b=estimate.n_pairs,
        unit=values.unit,
    )
    if not values.defined:
        return replace(_undefined(row), undefined="a group of the mean has no image with a usable answer in both runs")
    if not row.n_pairs:
        return replace(row, undefined="no image has a usable answer in both runs")
    if math.isnan(row.ci_low):
        why = "one prompt alone" if row.n_prompts < 2 else "the difference of every prompt is the same"
        return replace(row, undefined=f"no interval: {why}")
    return row


def _without_interval(row: Difference) -> Difference:
    """A difference of what is the same: exactly 0, and certain."""
    if math.isnan(row.difference):
        return row
    return replace(row, difference=0.0, ci_low=0.0, ci_high=0.0, p_value=1.0, p_holm=1.0, undefined="")
