"""DIG In (Hall et al. 2023, arXiv:2308.06198), EvalGIM (Hall et al. 2024, arXiv:2412.10604) and the prdc package.

DIG In prints its results as charts. What can be worked out again are the sizes and prompt lists behind them, what
coverage is to be expected at these sizes, and how the numbers of EvalGIM, its successor, fit together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

import numpy as np

from verism.metrics.manifold import PRDC, expected_coverage, prdc
from verism.published import Check, Known, Verdict, Writer, read_published

__all__ = ["digin", "rotation_shares"]

REGIONS = ("Africa", "Americas", "EastAsia", "Europe", "SouthEastAsia", "WestAsia")
PER_CELL = 180
NEEDS_IMAGES = "needs the images and their features"


def digin() -> list[Check]:
    """Sizes, prompt lists, expected coverage and means of regions of DIG In, EvalGIM and prdc."""
    paper, evalgim, package = Writer("DIG In"), Writer("EvalGIM"), Writer("prdc")
    _geode(paper)
    _dollar_street(paper)
    _expected(paper)
    paper.impossible(
        "Figures", "precision, coverage and CLIPScore (Figures 2, 6 to 8, 11)", "", "printed as charts only"
    )
    paper.impossible("text", "precision gap of stoves between regions, %", "70", NEEDS_IMAGES)
    paper.impossible("text", "images that the safety filter takes out, %", "0.3", NEEDS_IMAGES)
    _regions(evalgim)
    _cases(package)
    _readme(package)
    return paper.checks + evalgim.checks + package.checks


def _world(name: str) -> Mapping[str, Any]:
    """Objects, regions, countries and row counts of a released prompt list."""
    path = resources.files("verism").joinpath(f"data/geography/{name}.json")
    world: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return world


def rotation_shares(rows: int, countries: int) -> list[int]:
    """How often each of `countries` comes in `rows` turns that start with the first.

    >>> rotation_shares(7, 3)
    [3, 2, 2]
    """
    return [rows // countries + (i < rows % countries) for i in range(countries)]


# --------------------------------------------------------------------------------------------------------- prompt lists
def _geode(writer: Writer) -> None:
    world = _world("geode")
    objects, regions = world["objects"], world["list_regions"]
    least = {item["name"]: min(item["rows"]) for item in objects}
    evaluated = {item["name"] for item in objects if item["evaluated"]}
    total = sum(sum(item["rows"]) for item in objects)
    large = {name for name, rows in least.items() if rows >= PER_CELL}
    writer.number("GeoDE", "regions", "6", len(regions))
    writer.number("GeoDE", "objects of the data set", "40", len(objects))
    writer.number("GeoDE", f"objects with at least {PER_CELL} images in every region", "27", len(large))
    writer.holds("GeoDE", f"the 27 objects evaluated are those with {PER_CELL} images everywhere", large == evaluated)
    smallest = min(rows for name, rows in least.items() if name in evaluated)
    why = "waste container in the Americas: no larger number of images keeps these 27 objects"
    writer.number("GeoDE", "images of an object in a region", "180", smallest, why=why)
    writer.number("GeoDE", "images: 27 x 6 x 180", "29160", len(evaluated) * len(regions) * PER_CELL)
    writer.number("GeoDE", "images, as Table 1 prints them, thousands", "29", len(evaluated) * 6 * PER_CELL / 1000)
    writer.number("GeoDE", "rows of the list of country prompts", "57095", total)
    writer.number("GeoDE", "rows of the list of region prompts: object, then region", "114190", 2 * total)
    writer.number(
        "GeoDE",
        "photos of the data set",
        "61940",
        total,
        known=Known(
            value="57095",
            verdict=Verdict.DEFINITION,
            why="the released list has 4,845 rows fewer than the data set has photos; the paper does not say why",
        ),
    )
    for region in world["regions"]:
        shares = rotation_shares(PER_CELL, len(region["countries"]))
        for country, share in zip(region["countries"], shares, strict=True):
            writer.number("GeoDE", f"images of an object in {country}", "60", share)
    writer.number("GeoDE", "GeoDE15K of EvalGIM: the first 90 of each 180", "14580", len(evaluated) * len(regions) * 90)


def _dollar_street(writer: Writer) -> None:
    world = _world("dollarstreet")
    objects, order = world["objects"], world["list_regions"]
    total = sum(sum(item["rows"]) for item in objects)
    kept = [item for item in objects if item["evaluated"]]
    writer.number("DollarStreet", "topics in the prompt list", "110", len(objects))
    writer.number("DollarStreet", "topics evaluated, without 'bed kids'", "109", len(kept))
    writer.number("DollarStreet", "rows of the list of country prompts", "21861", total)
    writer.number("DollarStreet", "rows of the list of region prompts: object, then region", "43722", 2 * total)
    writer.number("DollarStreet", "rows of topics evaluated", "21709", sum(sum(item["rows"]) for item in kept))
    writer.number("DollarStreet", "images, as Table 1 prints them, thousands", "22", total / 1000)
    for i, (region, printed) in enumerate(zip(order, ("3182", "4203", "4193", "10283"), strict=True)):
        writer.number("DollarStreet", f"rows, {region}", printed, sum(item["rows"][i] for item in objects))
    printed_rows = {
        (row["region"], row["country"]): row["prompts"] for row in read_published("digin", "dollarstreet_countries")
    }
    for region in world["regions"]:
        at = order.index(region["key"])
        shares = np.sum([rotation_shares(t["rows"][at], len(region["countries"])) for t in objects], axis=0)
        for country, share in zip(region["countries"], shares, strict=True):
            printed = printed_rows[region["key"], country]
            writer.number("DollarStreet", f"prompts with {country}, in turn within each object", printed, int(share))
    reused = sum(int(row["prompts"]) for row in read_published("digin", "dollarstreet_reuse"))
    writer.number("DollarStreet", "prompts that reuse images made for GeoDE", "3872", reused)


# ---------------------------------------------------------------------------------------------------- expected coverage
def _expected(writer: Writer) -> None:
    for row in read_published("digin", "coverage"):
        real, generated, k = (int(row[name]) for name in ("real", "generated", "k"))
        what = f"expected coverage, {real:,} real and {generated:,} generated, k = {k}"
        writer.number("Expected coverage", what, row["coverage"], expected_coverage(real, generated, k))


# -------------------------------------------------------------------------------------------------------------- EvalGIM
# Means of the six regions, where that is not what the table prints for all images.
MEANS: Mapping[tuple[str, str], str] = {
    ("LDM 1.5", "precision"): "0.4448",
    ("LDM 1.5", "coverage"): "0.3300",
    ("LDM 1.5", "clipscore"): "25.757",
    ("LDM 2.1", "precision"): "0.3348",
    ("LDM 2.1", "coverage"): "0.2400",
    ("LDM 2.1", "clipscore"): "26.150",
    ("LDM XL", "precision"): "0.3970",
    ("LDM XL", "coverage"): "0.2737",
    ("LDM XL", "clipscore"): "26.771",
    ("LDM 3", "precision"): "0.5442",
    ("LDM 3", "coverage"): "0.3208",
    ("LDM 3", "clipscore"): "25.558",
}


def _regions(writer: Writer) -> None:
    pooled = "one reference set of all regions, with neighbours of its own; it is not the mean over regions"
    run = "the regions and the table of rankings fit together, so this figure must come from another run"
    for row in read_published("digin", "evalgim_regions"):
        model, metric = row["model"], row["metric"]
        name = f"{'CLIPScore' if metric == 'clipscore' else metric} {model}"
        mean = float(np.mean([float(row[region]) for region in REGIONS]))
        if metric == "clipscore":
            what = f"{name}: mean of the six regions"
            writer.number("GeoDE, rankings", what, row["ranking"], mean, slack=0.0005)
            known = Known(value=MEANS[model, metric], why=run)
        else:
            what = f"{name}: all images in the table of groups"
            writer.number("GeoDE, rankings", what, row["ranking"], float(row["all"]))
            known = Known(value=MEANS[model, metric], why=pooled, verdict=Verdict.DEFINITION)
        what = f"{name}, all images, as mean of six regions"
        writer.number("GeoDE, groups", what, row["all"], mean, slack=0.0005, known=known)


# ----------------------------------------------------------------------------------------------------------------- prdc
def _cases(writer: Writer) -> None:
    for row in read_published("digin", "prdc_cases"):
        real, generated = (np.array(row[side].split(), dtype=np.float64)[:, None] for side in ("real", "generated"))
        result = prdc(real, generated, int(row["k"]))
        for name in PRDC._fields:
            writer.number("small cases", f"{name}, k = {row['k']}: {row['case']}", row[name], getattr(result, name))


def _readme(writer: Writer) -> None:
    readme, *ours = read_published("digin", "prdc_readme")
    for name in PRDC._fields:
        values = np.array([float(row[name]) for row in ours])
        spread = float(values.std(ddof=1))
        writer.number(
            "README",
            f"{name} of 10,000 normal points, mean of {len(values)} repetitions",
            readme[name],
            float(values.mean()),
            tolerance=2 * spread * (1 + 1 / len(values)) ** 0.5,
            why=f"one repetition has a standard deviation of {spread:.3f}",
        )
    value = expected_coverage(10_000, 10_000, 5)
    spread = float(np.std([float(row["coverage"]) for row in ours], ddof=1))
    what = "coverage of 10,000 normal points, expected"
    writer.number("README", what, readme["coverage"], value, tolerance=2 * spread)
