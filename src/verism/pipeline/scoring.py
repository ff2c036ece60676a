"""From tables to numbers: rules, scores, and the error of the judge where the truth is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.errors import UsageError
from verism.pipeline.correcting import Adjustment
from verism.pipeline.progress import Working
from verism.records import Estimand, Need, Observed, Prompt, Score, content_hash, option_of
from verism.statistics.intervals import clustered_proportion
from verism.statistics.judge_error import confusion
from verism.store import TRUTH, Run

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Adjust", "judge_error_scores", "observed_of", "score_run", "true_classes"]


# Tables a judge fills beside the one of its need: what else it was shown.
BESIDE: Mapping[str, tuple[str, ...]] = {"features": ("reference_features",), "embeddings": ("text_embeddings",)}


Adjust = Callable[[Sequence[Estimand], Mapping[str, str]], Sequence[Adjustment]]


def score_run(
    run: Run, suite: Any, *, judges: Mapping[str, str] | None = None, adjust: Adjust | None = None
) -> list[Score]:
    """Apply a suite's rules to a run's observations and write verdicts and scores.

    Args:
        judges: by role, whose observations count; needed only where several judges of a role looked.
        adjust: given the suite's estimands and whose observations count by role, those it can take the judges' error
            out of. Adjusted scores follow those as judged.

    Raises:
        UsageError: a judge that did not look was named, or several looked and none was named.
    """
    observed = observed_of(run, suite, judges)
    prompts, by_id, images = list(observed.prompts.values()), observed.prompts, observed.images
    truth = {need.table: run.read(need.table, TRUTH) for need in suite.needs() if run.has_truth(need.table)}
    with Working("computing scores"):
        verdicts = suite.verdicts(observed)
        scores = list(suite.scores(observed, verdicts))
    if "detections" in truth:
        true = _sure(suite).verdicts(Observed(prompts=by_id, images=images, observations=truth))
        scores += judge_error_scores(suite.name, prompts, verdicts, true)
    elif truth and hasattr(suite, "judged_scores"):
        known = Observed(prompts=by_id, images=images, observations=truth)
        scores += suite.judged_scores(observed, verdicts, suite.verdicts(known))
    adjustments: Sequence[Adjustment] = ()
    if adjust is not None:
        used = {
            need.role: name for need in suite.needs() if (name := _choose(run, need, (judges or {}).get(need.role)))
        }
        there = {_key(s) for s in scores}
        adjustments = [a for a in adjust(suite.estimands(observed, verdicts), used) if _key(a.score) not in there]
        scores += [a.score for a in adjustments]
    run.write_verdicts(verdicts)
    run.write_scores(scores)
    run.write_adjustments([a.record() for a in adjustments])
    absent = [option_of(need.role) for need in suite.needs() if need.table not in observed.observations]
    left_out = [f"not measured, for nobody was named to look: {', '.join(absent)}"] if absent else []
    run.note(remarks=[*left_out, *getattr(suite, "remarks", lambda _: ())(observed)])
    return scores


def observed_of(run: Run, suite: Any, judges: Mapping[str, str] | None = None) -> Observed:
    """What is known about the pictures of a run: by role, whose observations count, as in ``score_run``."""
    observations: dict[str, pl.DataFrame] = {}
    for need in suite.needs():
        name = _choose(run, need, (judges or {}).get(need.role))
        if name is None:
            continue
        observations[need.table] = run.read(need.table, name)
        for beside in BESIDE.get(need.table, ()):
            observations[beside] = run.read(beside, name)
    reference = run.read("reference")
    return Observed(
        prompts={p.prompt_id: p for p in run.prompts()},
        images=run.read("images"),
        observations=observations,
        reference=None if reference.is_empty() else reference,
    )


def true_classes(run: Run, suite: Any) -> dict[tuple[str, str], dict[str, str]]:
    """What pictures show by their painter's own account, in the classes of a suite's ``corrected`` verdicts.

    Returns:
        The class by picture, by rule and the hash of its key; empty where no painter told anything.
    """
    tables = {need.table: run.read(need.table, TRUTH) for need in suite.needs() if run.has_truth(need.table)}
    if not tables:
        return {}
    told = Observed(prompts={p.prompt_id: p for p in run.prompts()}, images=run.read("images"), observations=tables)
    sure = _sure(suite)
    classes: dict[tuple[str, str], dict[str, str]] = {}
    for estimand in sure.estimands(told, sure.verdicts(told)):
        if estimand.score.protocol == "corrected":
            for part in estimand.parts:
                own = classes.setdefault((estimand.rule, content_hash(dict(part.key))), {})
                own.update(zip(part.image_ids, part.said, strict=True))
    return classes


def _sure(suite: Any) -> Any:
    """The suite with a limit that what was painted passes: its confidence is 1, and 1 is never above a limit of 1."""
    return suite.with_rules(threshold_corrected=0.5) if "threshold_corrected" in suite.rules() else suite


def _key(score: Score) -> tuple[str, str, str, str]:
    return score.metric, score.protocol, str(dict(score.group)), score.adjusted


def _choose(run: Run, need: Need, judge: str | None) -> str | None:
    """Whose observations fill a need; None for an optional need that nobody fills."""
    there = run.judges(need.table)
    if judge == TRUTH and run.has_truth(need.table):
        return TRUTH
    if judge is None:
        preferred = run.judge(need.role)
        judge = preferred if preferred in there else there[0] if len(there) == 1 else None
        if judge is None and there:
            raise UsageError(f"{run.path}: several judges looked at the pictures; name one of {there}")
    if judge is None or judge not in there:
        # Nothing to look at is no error: every picture may be missing, and the scores will say so.
        if not there:
            return judge or (None if need.optional else "none")
        raise UsageError(f"{run.path}: no judge {judge!r}; there are {there}")
    return judge


def judge_error_scores(
    suite: str, prompts: Sequence[Prompt], verdicts: pl.DataFrame, truth: pl.DataFrame, facet: str = "skill"
) -> list[Score]:
    """How far the judge is off, for pictures whose painter kept the truth.

    The truth of a picture is the ``corrected`` rule applied to what was painted; every protocol is held against it, so
    the numbers hold the error of detector and rule together.

    ``true_accuracy``: share of pictures that are right. ``judge_false_accept``: judged right among those that are
    wrong; ``judge_false_reject``: judged wrong among those that are right. Wilson intervals.
    """
    import polars as pl

    facets = pl.DataFrame({"prompt_id": [p.prompt_id for p in prompts], facet: [p.facets.get(facet) for p in prompts]})
    true = truth.filter((pl.col("rule") == "accuracy") & (pl.col("protocol") == "corrected")).select(
        "image_id", pl.col("value").alias("true")
    )
    table = (
        verdicts.filter(pl.col("rule") == "accuracy")
        .join(true, on="image_id", how="left")
        .join(facets, on="prompt_id", how="left")
        .sort("image_id")
    )
    scores: list[Score] = []
    levels = list(dict.fromkeys(facets[facet].to_list()))
    for (protocol,), rows in table.group_by(["protocol"], maintain_order=True):
        for level in levels:
            of_level = rows.filter(pl.col(facet) == level)
            usable = of_level.filter(pl.col("value").is_not_null() & pl.col("true").is_not_null())
            if usable.height == 0:
                continue
            scores += _errors_of(suite, str(protocol), {facet: level}, usable, of_level.height - usable.height)
    return sorted(scores, key=lambda s: (s.protocol, s.metric, str(s.group)))


def _errors_of(
    suite: str, protocol: str, group: Mapping[str, Any], usable: pl.DataFrame, n_unusable: int
) -> list[Score]:
    true, judged = usable["true"].to_numpy(), usable["value"].to_numpy()
    error = confusion(true, judged, clusters=usable["prompt_id"].to_numpy())
    accuracy = clustered_proportion(true, usable["prompt_id"].to_numpy())
    n_right = int(np.sum(true == 1))
    rows = (
        ("true_accuracy", accuracy, len(true), True),
        ("judge_false_accept", error.false_accept, len(true) - n_right, False),
        ("judge_false_reject", error.false_reject, n_right, False),
    )
    return [
        Score(
            suite=suite,
            metric=metric,
            protocol=protocol,
            group=dict(group),
            value=interval.value,
            ci_low=interval.low,
            ci_high=interval.high,
            n_used=n,
            n_unusable=n_unusable,
            higher_is_better=better,
        )
        for metric, interval, n, better in rows
    ]
