"""Two runs of the same prompts, picture by picture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.errors import UsageError
from verism.records import PROTOCOLS, Score
from verism.statistics.paired import holm, paired_difference
from verism.store import Run

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Difference", "compare_runs", "compare_scores"]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One row of a comparison: a measure of run B minus the same of run A.

    Attributes:
        difference: B minus A, in ``unit``. ci_low, ci_high: 95 %.
        p_value: two-sided test of no difference. p_holm: the same after Holm's correction over the groups.
        value_a, value_b: the two values.
        n_pairs: pictures judged in both. n_unpaired: pictures that only one run, or neither, has a usable answer for;
            those of prompts that only one run asked are among them. Of ``independent`` rows no pictures are paired.
        method: ``paired``: over the pictures both could be judged on, clustered by prompt, by permutations.
            ``independent``: from the two intervals (see ``compare_scores``).
        adjusted: as of ``Score``: by what the judge's error was taken out of both values; empty for neither.
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

    def record(self) -> dict[str, Any]:
        """As plain JSON; undefined numbers are null."""
        return {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in asdict(self).items()}


def compare_scores(a: Run, b: Run, *, by: str | None = None, protocol: str | None = None) -> list[Difference]:
    """Differences of the measures of two runs whose pictures cannot be paired: precision, coverage, FID ...

    Each end of the interval combines the distances of the single ends (Zou & Donner 2008); the p-value is that of the
    normal test whose standard errors the two intervals imply. Both treat the runs as independent. Runs that share real
    pictures or prompts err alike in part, so that true differences are found somewhat less often than they could be,
    and false ones not more often. Holm's correction runs over the groups of one measure and protocol. Scores adjusted
    for the judge's error are compared with such scores of the same kind only, and are a family of their own.

    Args:
        by: only scores of groups made of this facet (``region``, ``object`` ...); None: those of all but objects.

    Raises:
        UsageError: the runs have no score in common.
    """
    columns = []
    for run in (a, b):
        scores = [s for s in run.scores() if protocol is None or s.protocol == protocol]
        kept = [s for s in scores if (by in s.group if by is not None else "object" not in s.group)]
        # What was adjusted for the judge's error is only held against what was adjusted in the same way.
        columns.append({(s.protocol, s.metric, tuple(s.group.items()), s.adjusted): s for s in kept})
    shared = [key for key in columns[0] if key in columns[1] and not math.isnan(columns[0][key].ci_low)]
    if not shared:
        raise UsageError(
            f"{a.path} and {b.path} have no score with an interval in common{'' if by is None else f' by {by}'}"
        )
    order: dict[str, int] = {name: n for n, name in enumerate(PROTOCOLS)}
    shared.sort(key=lambda key: order.get(key[0], len(order)))
    found = [_independent(columns[0][key], columns[1][key]) for key in shared]
    families: dict[tuple[str, str, str], list[int]] = {}
    for place, row in enumerate(found):
        if row.group and not math.isnan(row.p_value):
            families.setdefault((row.protocol, row.metric, row.adjusted), []).append(place)
    for places in families.values():
        for place, p in zip(places, holm([found[i].p_value for i in places]).tolist(), strict=True):
            found[place] = replace(found[place], p_holm=p)
    return found


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
        unit=a.unit,
        method="independent",
        adjusted=a.adjusted,
    )


def compare_runs(a: Run, b: Run, *, by: str = "skill", protocol: str | None = None, seed: int = 0) -> list[Difference]:
    """Paired differences per group and over all groups, for each protocol.

    Pictures are paired by prompt and index. The overall row is the difference of the mean over groups, as the papers
    average skills. Holm's correction runs over the groups of one protocol; the overall row is a test of its own.

    Args:
        by: facet to group by (``skill``, ``object``, ``count``, ``relation``, ``background`` ...).

    Raises:
        UsageError: the runs have no prompt in common, or prompts of one id differ in text.
    """
    import polars as pl

    prompts_a, prompts_b = ({p.prompt_id: p for p in run.prompts()} for run in (a, b))
    shared = sorted(set(prompts_a) & set(prompts_b))
    if not shared:
        raise UsageError(f"{a.path} and {b.path} have no prompt in common; a comparison pairs pictures by prompt")
    changed = [i for i in shared if prompts_a[i].text != prompts_b[i].text or prompts_a[i].spec != prompts_b[i].spec]
    if changed:
        raise UsageError(
            f"prompt {changed[0]!r} reads {prompts_a[changed[0]].text!r} in {a.path} and "
            f"{prompts_b[changed[0]].text!r} in {b.path}: other scenes or another seed; the runs cannot be paired"
        )
    asked = prompts_b | prompts_a
    facets = pl.DataFrame(
        {
            "prompt_id": list(asked),
            "level": [p.facets.get(by) for p in asked.values()],
        },
        strict=False,
    ).drop_nulls("level")
    if facets.height == 0:
        raise UsageError(f"no prompt has the facet {by!r}; it has {sorted(prompts_a[shared[0]].facets)}")
    joined = _accuracies(a).join(_accuracies(b), on=["image_id", "prompt_id", "protocol"], how="full", coalesce=True)
    joined = joined.join(facets, on="prompt_id", how="inner").sort("image_id")
    result = []
    for name in PROTOCOLS if protocol is None else (protocol,):
        rows = joined.filter(pl.col("protocol") == name)
        if rows.height:
            result += _of_protocol(name, rows, by, seed)
    return result


def _accuracies(run: Run) -> pl.DataFrame:
    import polars as pl

    rows = run.verdicts().filter(pl.col("rule") == "accuracy")
    return rows.select("image_id", "prompt_id", "protocol", pl.col("value").alias("value"))


def _of_protocol(protocol: str, rows: pl.DataFrame, by: str, seed: int) -> list[Difference]:
    import polars as pl

    usable = rows.filter(pl.col("value").is_not_null() & pl.col("value_right").is_not_null())
    levels = rows["level"].unique().sort().to_list()
    groups = [
        _difference(
            protocol,
            {by: level},
            usable.filter(pl.col("level") == level),
            rows.filter(pl.col("level") == level).height,
            None,
            seed,
        )
        for level in levels
    ]
    adjusted = holm([g.p_value for g in groups]).tolist()
    groups = [Difference(**{**g.__dict__, "p_holm": p}) for g, p in zip(groups, adjusted, strict=True)]
    # Each picture weighs so that every group counts the same: the plain mean over groups.
    sizes = dict(usable.group_by("level").len().iter_rows())
    weights = np.array([usable.height / (len(sizes) * sizes[level]) for level in usable["level"].to_list()])
    return [_difference(protocol, {}, usable, rows.height, weights, seed), *groups]


def _difference(
    protocol: str,
    group: Mapping[str, Any],
    usable: pl.DataFrame,
    asked: int,
    weights: Sequence[float] | np.ndarray[Any, Any] | None,
    seed: int,
) -> Difference:
    a, b = usable["value"].to_numpy(), usable["value_right"].to_numpy()
    if weights is not None:
        a, b = a * weights, b * weights
    found = paired_difference(a, b, usable["prompt_id"].to_numpy(), seed=seed)
    return Difference(
        metric="accuracy" if group else "mean_accuracy",
        protocol=protocol,
        group=dict(group),
        value_a=float(a.mean()) if len(a) else math.nan,
        value_b=float(b.mean()) if len(b) else math.nan,
        difference=found.difference,
        ci_low=found.low,
        ci_high=found.high,
        p_value=found.p_value,
        p_holm=found.p_value,
        n_pairs=found.n_pairs,
        n_prompts=found.n_clusters,
        n_unpaired=asked - len(a),
    )
