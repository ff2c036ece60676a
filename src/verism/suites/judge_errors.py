"""How far judges are off, for images whose content is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from verism.records import Prompt, Score
from verism.specs import Pairing
from verism.statistics.intervals import clustered_proportion
from verism.statistics.judge_error import confusion

if TYPE_CHECKING:
    import polars as pl

__all__ = ["judge_error_scores"]


def judge_error_scores(
    suite: str, prompts: Sequence[Prompt], verdicts: pl.DataFrame, truth: pl.DataFrame, pairing: Pairing
) -> list[Score]:
    """How far the judge is off, for images whose renderer kept the ground truth.

    The truth of an image is the ``revised`` rule (of suites without it, that of their first protocol) applied to what
    was rendered; every protocol is held against it, so
    the numbers hold the error of judge and rule together.

    ``true_accuracy``: share of images that are right. ``judge_false_accept``: judged right among those that are
    wrong; ``judge_false_reject``: judged wrong among those that are right. Wilson intervals.

    Args:
        suite: its name.
        prompts: all of the run.
        verdicts: by the judge's observations; table ``verdicts``.
        truth: by the ground truth; table ``verdicts``.
        pairing: whose rule says right or wrong, and by whose facet rows are made (one row over all without a facet).

    Returns:
        The scores, sorted by protocol, metric and group.
    """
    import polars as pl

    facet = pairing.facet
    level = [p.facets.get(facet) if facet else None for p in prompts]
    levels = list(dict.fromkeys(level))
    row_of_level = {value: row for row, value in enumerate(levels)}
    groups = pl.DataFrame(
        {"prompt_id": [p.prompt_id for p in prompts], "level": [row_of_level[value] for value in level]}
    )
    known = truth.filter(pl.col("rule") == pairing.rule)
    main = known["protocol"].unique(maintain_order=True).to_list()
    by = "revised" if "revised" in main else next(iter(main), "")
    true = known.filter(pl.col("protocol") == by).select("image_id", pl.col("value").alias("true"))
    table = (
        verdicts.filter(pl.col("rule") == pairing.rule)
        .join(true, on="image_id", how="left")
        .join(groups, on="prompt_id", how="left")
        .sort("image_id")
    )
    scores: list[Score] = []
    for (protocol,), rows in table.group_by(["protocol"], maintain_order=True):
        for row, value in enumerate(levels):
            of_level = rows.filter(pl.col("level") == row)
            usable = of_level.filter(pl.col("value").is_not_null() & pl.col("true").is_not_null())
            if usable.height:
                group = {facet: value} if facet else {}
                scores += _errors_of(suite, str(protocol), group, usable, of_level.height - usable.height)
    return sorted(scores, key=lambda s: (s.protocol, s.metric, str(s.group)))


def _errors_of(
    suite: str, protocol: str, group: Mapping[str, Any], usable: pl.DataFrame, n_unusable: int
) -> list[Score]:
    true, judged = usable["true"].to_numpy(), usable["value"].to_numpy()
    error = confusion(true, judged, clusters=usable["prompt_id"].to_numpy())
    accuracy = clustered_proportion(true, usable["prompt_id"].to_numpy())
    n_right = int(np.sum(true == 1))
    rows = (
        ("true_accuracy", accuracy, len(true)),
        ("judge_false_accept", error.false_accept, len(true) - n_right),
        ("judge_false_reject", error.false_reject, n_right),
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
        )
        for metric, interval, n in rows
    ]
