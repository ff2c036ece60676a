"""Two runs over the same prompts, image by image: where they disagree most comes first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from verism.errors import UsageError
from verism.viewer.images import ImageTable
from verism.viewer.library import reading

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Pairs", "paired"]

Show = Literal["", "differ", "first", "second", "unusable"]


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Images of two runs beside each other.

    Attributes:
        rule: whose verdicts are compared.
        protocol: their protocol.
        rules: rules that both runs have under the protocol.
        protocols: protocols that both runs have.
        table: columns image_id, first, second (mean values of the rule; null without a usable answer) and difference;
            by size of the difference, then pairs of which only one has a usable answer, then by id.
        counts: pairs in all, with a usable answer in both, where the first or the second is higher, equal ones, those
            without a usable answer in one or both, and images that only one run has.
    """

    rule: str
    protocol: str
    rules: list[str]
    protocols: list[str]
    table: pl.DataFrame
    counts: dict[str, int]


def paired(a: ImageTable, b: ImageTable, *, protocol: str = "", rule: str = "", show: str = "") -> Pairs:
    """The images that two runs share.

    Args:
        a: images of the first run.
        b: images of the second run.
        protocol: whose verdicts; empty for the first that both have.
        rule: whose verdicts; empty for the first that says right or wrong, or any.
        show: only pairs that ``differ``, where the ``first`` or the ``second`` is higher, or where an answer is
            ``unusable``; empty for all.
    Raises:
        UsageError: runs that cannot be paired: nothing in common, or prompts of one id that differ.
    """
    import polars as pl

    if show not in get_args(Show):
        raise UsageError(f"show is one of {', '.join(filter(None, get_args(Show)))}; got {show!r}")
    with reading(a.run), reading(b.run):
        _refuse_other_prompts(a, b)
        protocols = [name for name in a.protocols if name in b.protocols]
        protocol = protocol or next(iter(protocols), "")
        both = {r["rule"] for r in b.rules if r["protocol"] == protocol}
        rules = [r["rule"] for r in a.rules if r["protocol"] == protocol and r["rule"] in both]
        rules.sort(key=lambda name: (name not in a.decisive, name))
        rule = rule or next(iter(rules), "")
        if protocol and protocol not in protocols:
            raise UsageError(f"the two runs do not both have the protocol {protocol!r}")
        if rule and rule not in rules:
            raise UsageError(f"the two runs do not both have verdicts of the rule {rule!r} under {protocol!r}")
        first, second = _values(a, protocol, rule), _values(b, protocol, rule)
        table = (
            first.join(second, on="image_id", how="inner", suffix="_second")
            .select("image_id", pl.col("value").alias("first"), pl.col("value_second").alias("second"))
            .with_columns((pl.col("second") - pl.col("first")).alias("difference"))
            .with_columns((pl.col("first").is_null() != pl.col("second").is_null()).alias("one_sided"))
            .sort(pl.col("difference").abs().fill_null(-1.0), "one_sided", "image_id", descending=[True, True, False])
            .collect()
        )
        sizes = [int(t.select(pl.len()).collect().item()) for t in (first, second)]
    difference = table["difference"]
    counts = {
        "pairs": table.height,
        "usable": table.height - difference.null_count(),
        "first": int((difference < 0).sum()),
        "second": int((difference > 0).sum()),
        "equal": int((difference == 0).sum()),
        "unusable": difference.null_count(),
        "only_first": sizes[0] - table.height,
        "only_second": sizes[1] - table.height,
    }
    chosen = {
        "": pl.lit(value=True),
        "differ": (pl.col("difference") != 0) | pl.col("one_sided"),
        "first": pl.col("difference") < 0,
        "second": pl.col("difference") > 0,
        "unusable": pl.col("difference").is_null(),
    }[show]
    table = table.filter(chosen).drop("one_sided")
    return Pairs(rule=rule, protocol=protocol, rules=rules, protocols=protocols, table=table, counts=counts)


def _values(images: ImageTable, protocol: str, rule: str) -> pl.LazyFrame:
    import polars as pl

    verdicts = images.run.scan("verdicts").filter((pl.col("protocol") == protocol) & (pl.col("rule") == rule))
    means = verdicts.group_by("image_id").agg(pl.col("value").mean())
    return images.run.scan("images").select("image_id").join(means, on="image_id", how="left")


def _refuse_other_prompts(a: ImageTable, b: ImageTable) -> None:
    import polars as pl

    columns = ("prompt_id", "text", "spec")
    both = a.run.scan("prompts").select(columns).join(b.run.scan("prompts").select(columns), on="prompt_id")
    names = f"{a.run.path.name} and {b.run.path.name}"
    if a.run.suite_name != b.run.suite_name:
        raise UsageError(f"{names} are runs of {a.run.suite_name} and {b.run.suite_name}: their images are not paired")
    other = (pl.col("text") != pl.col("text_right")) | (pl.col("spec") != pl.col("spec_right"))
    shared = both.select(pl.len(), other.fill_null(value=True).sum().alias("changed")).collect().row(0)
    if not shared[0]:
        raise UsageError(f"{names} have no prompt in common: images are paired by prompt")
    if shared[1]:
        raise UsageError(
            f"{names} ask {shared[1]:,} of {shared[0]:,} prompts differently: runs over other prompts cannot be paired"
        )
