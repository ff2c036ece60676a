"""A folder that ``datasets.load_dataset("imagefolder", data_dir=...)`` reads, with a dataset card."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from verism.exports.folder import IMAGES, copy_images
from verism.exports.tables import FACET, numbered_images, provenance, write_csv
from verism.files import csv_text, write_whole
from verism.report_kit.tables import csv_table, markdown_table
from verism.specs import Presentation
from verism.store import Run

__all__ = ["write_huggingface"]

SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


def write_huggingface(run: Run, presentation: Presentation, folder: Path, *, raw: bool = False) -> dict[str, int]:
    """Images with their prompts, facets and verdicts; scores; images that do not exist; a dataset card.

    Args:
        run: a scored run.
        presentation: what its suite says of itself.
        folder: where to.
        raw: whether texts of CSV stay as they are.

    Returns:
        Number of images, and of those that do not exist.
    """
    import polars as pl

    listed = folder / ".images.parquet"
    verdicts = (
        run.scan("verdicts")
        .filter(pl.col("prompt_id") != "")
        .sort("image_id", "protocol", "rule", "detail")
        .group_by("image_id", maintain_order=True)
        .agg(pl.struct("protocol", "rule", "value", "reason", "detail").alias("verdicts"))
    )
    numbered_images(run, presentation, IMAGES).join(
        verdicts, on="image_id", how="left", maintain_order="left"
    ).sink_parquet(listed, compression="zstd", maintain_order=True)
    n_images = copy_images(run, listed, folder)
    rows = pl.scan_parquet(listed)
    facets = [name for name in rows.collect_schema().names() if name.startswith(FACET)]
    columns = ["file_name", "image_id", "prompt_id", "prompt", "index", "seed", "width", "height", "sha256"]
    rows.select(*columns, *facets, "verdict", "verdicts").sink_parquet(
        folder / "metadata.parquet", compression="zstd", maintain_order=True
    )
    listed.unlink()
    gone = (
        run.scan("images")
        .filter(pl.col("state") != "ok")
        .join(run.scan("prompts").select("prompt_id", pl.col("text").alias("prompt")), on="prompt_id", how="left")
        .select("image_id", "prompt_id", "prompt", "state", "note")
        .sort("image_id")
    )
    listed = folder / ".gone.parquet"
    gone.sink_parquet(listed, maintain_order=True)
    n_gone = int(pl.scan_parquet(listed).select(pl.len()).collect().item())
    tables = folder / "tables"
    tables.mkdir()
    write_csv(tables / "unavailable_images.csv", listed, raw=raw)
    listed.unlink()
    write_whole(tables / "scores.csv", csv_table([run], [presentation], raw=raw))
    described = [(name, _meaning(name)) for name in [*columns, *facets, "verdict", "verdicts"]]
    write_whole(tables / "columns.csv", csv_text(["column", "meaning"], described, raw=raw))
    write_whole(folder / "README.md", dataset_card(run, presentation, n_images, n_gone))
    return {"images": n_images, "unavailable": n_gone}


MEANINGS = {
    "file_name": "file of the image",
    "image_id": "id of the image in the run",
    "prompt_id": "id of its prompt",
    "prompt": "text given to the model",
    "index": "which of the prompt's images, from 0",
    "seed": "seed given to the model; null if it took none",
    "width": "pixels",
    "height": "pixels",
    "sha256": "of the file in the run",
    "verdict": "right, wrong or unusable under the first protocol; null where no rule decides so",
    "verdicts": "every decision of every protocol: rule, value (null: no usable answer), reason, detail as JSON",
}


def _meaning(name: str) -> str:
    return MEANINGS.get(name) or f"facet {name.removeprefix(FACET)} of the prompt"


def dataset_card(run: Run, presentation: Presentation, n_images: int, n_gone: int) -> str:
    """The README of the dataset, with YAML front matter as the Hugging Face Hub reads it.

    Args:
        run: a scored run.
        presentation: what its suite says of itself.
        n_images: images in the folder.
        n_gone: images that were asked for and do not exist.
    """
    info, source = presentation.info, provenance(run)
    size = next((name for limit, name in SIZES if n_images < limit), "n>1M")
    front: dict[str, Any] = {
        "pretty_name": f"{info.title}: {_line(source['generator']) or 'unknown model'}",
        "task_categories": ["text-to-image"],
        "tags": ["verism", "text-to-image", "evaluation", "synthetic", info.name],
        "size_categories": [size],
        "configs": [
            {"config_name": "default", "data_files": [{"split": "train", "path": [f"{IMAGES}/**", "metadata.parquet"]}]}
        ],
    }
    protocol = next(iter(info.protocols), "")
    judges = [f"{_code(name)} ({role})" for role, name in source["judges"].items()]
    facts = [
        ("Suite", f"{_code(info.name)}: {info.question}"),
        ("Model", _code(source["generator"]) if source["generator"] else "not recorded"),
        ("Judges", ", ".join(judges) or "none"),
        ("Seed", str(source["seed"])),
        ("Protocol", f"{protocol}: {info.protocols.get(protocol, '')}"),
        ("Images", f"{n_images:,}; {n_gone:,} more were asked for and are refused, failed, missing or blank"),
        ("Made", f"{source['created']}, with verism {source['verism']}"),
        ("Hash of the prompts", _code(source["prompts_hash"]) if source["prompts_hash"] else "not recorded"),
    ]
    lines = [
        "---",
        yaml.safe_dump(front, sort_keys=False, allow_unicode=True).rstrip(),
        "---",
        "",
        f"# {front['pretty_name']}",
        "",
        "Images of a text-to-image model with their prompts, and what judges decided about them; exported by "
        "`verism export`.",
        "",
        "```python",
        "from datasets import load_dataset",
        "",
        'images = load_dataset("imagefolder", data_dir="PATH_OF_THIS_FOLDER", split="train")',
        "```",
        "",
        "## Provenance",
        "",
        *(f"- **{name}**: {text}" for name, text in facts),
        "",
        "## Scores",
        "",
        markdown_table([run], [presentation]).rstrip(),
        "",
        "All scores with their intervals are in `tables/scores.csv`, images that do not exist in "
        "`tables/unavailable_images.csv`.",
        "",
        "## Columns",
        "",
        "`tables/columns.csv` describes each column of `metadata.parquet`.",
        "",
        "## Limits",
        "",
        "- The images are generated. They show no real event, and people in them are no real persons.",
        "- Verdicts are those of the judges named above, by the rules of the suite; judges err. Nobody checked them by "
        "hand unless a judge above says so.",
        "- Judgements of people are perceptions of an image, not facts about a person.",
        *(f"- {limit}" for limit in info.limits),
        "",
        "## License",
        "",
        "No license is stated: it depends on the model and on the prompts. Add `license:` above before you publish.",
        "",
    ]
    if info.citation:
        lines += ["## Citation", "", info.citation, ""]
    return "\n".join(lines)


def _line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def _code(text: str) -> str:
    """Text as code in Markdown, whatever it holds."""
    return f"`{_line(text).replace('`', chr(39))}`"
