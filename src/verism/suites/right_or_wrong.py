"""Shares of right images as what they are made of, so that the judge's error can be taken out: for all such suites."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from verism.records import Estimand, EstimandPart, Prompt, Score
from verism.specs import Pairing

if TYPE_CHECKING:
    import polars as pl

__all__ = ["RIGHT", "WRONG", "right_by_prompt", "right_or_wrong_estimands"]

RIGHT, WRONG = "right", "wrong"


def right_by_prompt(verdicts: pl.DataFrame | pl.LazyFrame, *by: str) -> pl.DataFrame:
    """How many images of each prompt are right, all that shares and their intervals depend on.

    Args:
        verdicts: table ``verdicts``, of rules that say 1 (right), 0 (wrong) or nothing.
        *by: columns that are told apart, such as ``protocol`` and ``rule``.

    Returns:
        Columns ``by``, ``prompt_id``, ``right``, ``used`` (images with a value) and ``images``, sorted.

    Raises:
        ValueError: a value that is neither 0 nor 1.
    """
    import polars as pl

    value = pl.col("value")
    totals = (
        verdicts.lazy()
        .group_by(*by, "prompt_id")
        .agg(
            (value == 1).sum().cast(pl.Int64).alias("right"),
            value.count().cast(pl.Int64).alias("used"),
            pl.len().cast(pl.Int64).alias("images"),
            (~value.is_in([0.0, 1.0])).sum().alias("others"),
        )
        .collect(engine="streaming")
    )
    if others := int(totals["others"].sum()):
        raise ValueError(f"values of verdicts must be 0 or 1; got {others} others")
    return totals.drop("others").sort(*by, "prompt_id")


def right_or_wrong_estimands(
    scores: Sequence[Score], prompts: Mapping[str, Prompt], verdicts: pl.DataFrame, pairing: Pairing, role: str
) -> list[Estimand]:
    """The shares of right images of single groups and their plain mean, with the images behind them.

    Args:
        scores: of the suite.
        prompts: of the run, by prompt id.
        verdicts: table ``verdicts`` of the suite.
        pairing: whose rule says right or wrong; by whose facet groups are made, and over which groups the mean is.
        role: role of the judge whose error the shares have.
    """
    import polars as pl

    facet = pairing.facet
    used = verdicts.filter((pl.col("rule") == pairing.rule) & pl.col("value").is_not_null()).sort("image_id")
    group_of = {prompt_id: str(p.facets[facet]) for prompt_id, p in prompts.items()}
    parts: dict[tuple[str, str], EstimandPart] = {}
    for (protocol, group), rows in used.with_columns(
        pl.col("prompt_id").replace_strict(group_of, return_dtype=pl.String).alias("group")
    ).group_by("protocol", "group", maintain_order=True):
        parts[str(protocol), str(group)] = EstimandPart(
            coefficient=1.0,
            image_ids=tuple(rows["image_id"]),
            clusters=tuple(rows["prompt_id"]),
            predicted=tuple(RIGHT if value == 1 else WRONG for value in rows["value"]),
            weights=(1 / rows.height,) * rows.height,
            key={facet: str(group)},
        )
    made = []
    for score in scores:
        if score.metric == pairing.metric and list(score.group) == [facet]:
            subset = [parts[key] for key in [(score.protocol, str(score.group[facet]))] if key in parts]
        elif score.metric == pairing.mean and not score.group and not math.isnan(score.value):
            of_protocol = [
                part
                for (protocol, group), part in parts.items()
                if protocol == score.protocol and (not pairing.groups or group in pairing.groups)
            ]
            subset = [replace(part, coefficient=1 / len(of_protocol)) for part in of_protocol]
        else:
            continue
        if subset:
            worth = {RIGHT: 1.0, WRONG: 0.0}
            made.append(Estimand(score=score, rule=pairing.rule, role=role, worth=worth, parts=tuple(subset)))
    return made
