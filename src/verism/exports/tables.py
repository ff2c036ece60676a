"""Tables of a run for other programs: one row per fact, facets as columns, in parquet files or CSV."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from verism.errors import VerismError
from verism.files import IMAGE_SUFFIXES, csv_text, write_json
from verism.records import TABLES
from verism.report_kit.outcomes import image_outcomes
from verism.specs import Presentation
from verism.store import TRUTH, Run

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "FACET",
    "NO_TABLES",
    "image_rows",
    "numbered_images",
    "observing",
    "prompt_rows",
    "write_csv",
    "write_tables",
]

FACET = "facet_"  # before the name of a facet that is a column
NO_TABLES = ("prompts", "images", "reference", "verdicts", "scores", "ratings")  # that no judge of images fills
ROWS = 50_000  # in memory at once
PER_FOLDER = 1000  # images


def prompt_rows(run: Run) -> pl.DataFrame:
    """Prompts with a column ``facet_NAME`` of text for each facet.

    Args:
        run: the run.
    """
    import polars as pl

    prompts = run.scan("prompts").select("prompt_id", "suite", "text", "n_images", "facets").collect()
    distinct = prompts["facets"].unique(maintain_order=True)
    parsed = [json.loads(text) for text in distinct.to_list()]
    names = list(dict.fromkeys(name for facets in parsed for name in facets))
    columns = {
        f"{FACET}{name}": pl.Series([None if f.get(name) is None else str(f[name]) for f in parsed], dtype=pl.String)
        for name in names
    }
    wide = pl.DataFrame({"facets": distinct, **columns})
    joined = prompts.join(wide, on="facets", how="left", maintain_order="left")
    return joined.drop("facets").rename({"text": "prompt"})


def image_rows(run: Run, presentation: Presentation) -> pl.LazyFrame:
    """Images in the order of their ids, with their prompts, facets and ``verdict`` under the first protocol.

    ``verdict`` is ``right``, ``wrong`` or ``unusable``; null where no rule decides so.

    Args:
        run: the run.
        presentation: what its suite says of itself.
    """
    prompts = prompt_rows(run).lazy().drop("n_images", "suite")
    outcomes = image_outcomes(run.scan("verdicts"), presentation).rename({"outcome": "verdict"})
    return (
        run.scan("images")
        .join(prompts, on="prompt_id", how="left")
        .join(outcomes, on="image_id", how="left")
        .sort("image_id")
    )


def numbered_images(run: Run, presentation: Presentation, folder: str) -> pl.LazyFrame:
    """``image_rows`` of the images that can be seen, with a number from 1 and the name of a file.

    Names are numbers: ids hold words (``val``, ``test``) that programs take for the names of splits.

    Args:
        run: the run.
        presentation: what its suite says of itself.
        folder: that the files are to lie in.
    """
    import polars as pl

    number = pl.col("number")
    suffix = pl.col("path").str.extract(r"(\.[A-Za-z0-9]+)$").str.to_lowercase()
    known = pl.when(suffix.is_in(list(IMAGE_SUFFIXES))).then(suffix).otherwise(pl.lit(".png"))
    name = pl.format(
        "{}/{}/{}{}",
        pl.lit(folder),
        (number // PER_FOLDER).cast(pl.String).str.zfill(4),
        number.cast(pl.String).str.zfill(7),
        known,
    )
    shown = image_rows(run, presentation).filter((pl.col("state") == "ok") & pl.col("path").is_not_null())
    return shown.with_row_index("number", offset=1).with_columns(name.alias("file_name"))


def observing(run: Run) -> Iterator[tuple[str, str]]:
    """Tables of observations that are there, with their judges; the ground truth last.

    Args:
        run: the run.
    """
    for table in TABLES:
        if table not in NO_TABLES:
            yield from ((table, judge) for judge in run.judges(table))
            if run.has_truth(table):
                yield table, TRUTH


def _plain_columns(table: str) -> list[str]:
    return [c.name for c in TABLES[table] if not c.dtype.startswith("list")]


def write_csv(file: Path, table: Path, *, raw: bool) -> None:
    """A parquet file as CSV, slice by slice; what is undefined is an empty cell.

    Args:
        file: the CSV file.
        table: the parquet file.
        raw: whether texts stay as they are, for programs.
    """
    import polars as pl
    from polars import selectors

    rows = pl.scan_parquet(table).with_columns(selectors.float().fill_nan(None))
    columns = rows.collect_schema().names()
    total = rows.select(pl.len()).collect().item()
    header = csv_text(columns, [], raw=raw)
    with file.open("x", encoding="utf-8", newline="") as out:
        out.write(header)
        for start in range(0, total, ROWS):
            part = rows.slice(start, ROWS).collect()
            out.write(csv_text(columns, part.iter_rows(), raw=raw)[len(header) :])


def write_tables(
    run: Run, presentation: Presentation, folder: Path, *, to: Literal["csv", "parquet"], raw: bool = False
) -> dict[str, int]:
    """Prompts, images, verdicts, scores, and what judges observed, without vectors.

    Args:
        run: the run.
        presentation: what its suite says of itself.
        folder: where to.
        to: the format.
        raw: whether texts of CSV stay as they are.

    Returns:
        Number of rows by table.
    """
    import polars as pl

    if not run.is_scored:
        raise VerismError(f"{run.path} has no scores yet; finish it with the same `verism run`, or: verism score")
    every: dict[str, Sequence[pl.LazyFrame]] = {
        "prompts": [prompt_rows(run).lazy()],
        "images": [image_rows(run, presentation)],
        "verdicts": [run.scan("verdicts").sort("image_id", "protocol", "rule", "detail")],
        "scores": [run.frame().lazy()],
    }
    observed: dict[str, list[pl.LazyFrame]] = {}
    for table, judge in observing(run):
        columns = _plain_columns(table)
        if set(columns) - {"image_id", "judge", "text"}:  # more than vectors
            observed.setdefault(table, []).append(run.scan(table, judge).select(columns))
    counts: dict[str, int] = {}
    for name, parts in {**every, **observed}.items():
        parquet = folder / f"{name}.parquet"
        pl.concat(parts).sink_parquet(parquet, compression="zstd")
        counts[name] = pl.scan_parquet(parquet).select(pl.len()).collect().item()
        if to == "csv":
            write_csv(folder / f"{name}.csv", parquet, raw=raw)
            parquet.unlink()
    described = {
        name: {c.name: c.meaning for c in TABLES[name]} for name in counts if name in TABLES and name != "scores"
    }
    write_json(folder / "columns.json", described)
    return counts


def provenance(run: Run) -> dict[str, Any]:
    """Where a run comes from, as plain JSON.

    Args:
        run: the run.
    """
    settings, environment = run.manifest.settings, run.manifest.environment
    return {
        "suite": settings.suite,
        "generator": settings.generator,
        "judges": {**dict(settings.judges), **dict(run.manifest.scoring.judges)},
        "seed": settings.seed,
        "prompts_hash": settings.prompts,
        "verism": environment.verism,
        "created": run.manifest.created,
    }
