"""What was decided about each image as a lazy query, so that a run may have any number of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from verism.specs import Presentation

if TYPE_CHECKING:
    import polars as pl

__all__ = ["image_outcomes", "within"]


def image_outcomes(
    verdicts: pl.LazyFrame, presentation: Presentation, *, protocol: str = "", rule: str = ""
) -> pl.LazyFrame:
    """Whether images are right, by the rules that say so.

    Wrong if a rule went against the image; of several decisions of one rule, if none was for it. Images that no such
    rule decided about are left out.

    Args:
        verdicts: table ``verdicts``, lazily.
        presentation: what the suite says of itself.
        protocol: whose verdicts count; empty for the one to compare models with.
        rule: the only one that counts; empty for those that say right or wrong.

    Returns:
        Columns ``image_id`` and ``outcome``: ``right``, ``wrong`` or ``unusable``.
    """
    import polars as pl

    decisive = [rule] if rule else sorted({p.rule for p in presentation.pairings if p.right_or_wrong})
    protocol = protocol or next(iter(presentation.info.protocols), "revised")
    chosen = verdicts.filter(
        (pl.col("prompt_id") != "") & (pl.col("protocol") == protocol) & pl.col("rule").is_in(decisive)
    )
    for pairing in presentation.pairings:
        for name, expected in pairing.where.items():
            there = pl.col("detail").str.json_path_match(f"$['{name}']")
            chosen = chosen.filter((pl.col("rule") != pairing.rule) | (there == expected).fill_null(value=False))
    best = chosen.group_by("image_id", "rule").agg(pl.col("value").max().alias("best"))
    return best.group_by("image_id").agg(
        pl.when((pl.col("best") < 0.5).any())
        .then(pl.lit("wrong"))
        .when((pl.col("best") >= 0.5).any())
        .then(pl.lit("right"))
        .otherwise(pl.lit("unusable"))
        .alias("outcome")
    )


def within(images: pl.Series) -> pl.Expr:
    """Whether rows are of images between the first and the last of some: of a file sorted by image, little is read.

    Args:
        images: ids, sorted, at least one.
    """
    import polars as pl

    return pl.col("image_id").is_between(pl.lit(images[0]), pl.lit(images[-1]))
