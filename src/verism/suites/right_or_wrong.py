"""Shares of right images as what they are made of, so that the judge's error can be taken out: for all such suites."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from verism.parquet import slices
from verism.records import Estimand, EstimandPart, Prompt, Score
from verism.specs import Pairing

if TYPE_CHECKING:
    import polars as pl

__all__ = ["RIGHT", "WRONG", "count_by", "right_by_prompt", "right_or_wrong_estimands"]

RIGHT, WRONG = "right", "wrong"


def count_by(
    verdicts: pl.DataFrame | pl.LazyFrame,
    chosen: Callable[[pl.LazyFrame], pl.LazyFrame],
    by: Sequence[str],
    **counts: pl.Expr,
) -> pl.DataFrame:
    """Counts of verdicts by group, some hundred thousand verdicts at a time: a million images have many more.

    Args:
        verdicts: table ``verdicts``; a query of a file in the order of the file, without filters.
        chosen: filters of rows, and columns made from the others of a row.
        by: columns that tell groups apart.
        **counts: by name, what is counted of a group, a whole number.

    Returns:
        Columns ``by`` and ``counts``, in no order.
    """
    import polars as pl

    exact = [count.cast(pl.Int64).alias(name) for name, count in counts.items()]
    parts = [chosen(rows).group_by(by).agg(exact).collect() for rows in slices(verdicts.lazy())]
    return parts[0] if len(parts) == 1 else pl.concat(parts).group_by(by).agg(pl.col(*counts).sum())


def right_by_prompt(verdicts: pl.DataFrame | pl.LazyFrame, *by: str, where: pl.Expr | None = None) -> pl.DataFrame:
    """How many images of each prompt are right, all that shares and their intervals depend on.

    Args:
        verdicts: table ``verdicts``, of rules that say 1 (right), 0 (wrong) or nothing.
        *by: columns that are told apart, such as ``protocol`` and ``rule``.
        where: which verdicts are wanted; None for all.

    Returns:
        Columns ``by``, ``prompt_id``, ``right``, ``used`` (images with a value) and ``images``, sorted.

    Raises:
        ValueError: a value that is neither 0 nor 1.
    """
    import polars as pl

    value = pl.col("value")
    totals = count_by(
        verdicts,
        lambda rows: rows if where is None else rows.filter(where),
        [*by, "prompt_id"],
        right=(value == 1).sum(),
        used=value.count(),
        images=pl.len(),
        others=(~value.is_in([0.0, 1.0])).sum(),
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
