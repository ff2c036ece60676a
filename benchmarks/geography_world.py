"""Do the geography indicators find a planted disparity, and none where there is none? A world whose truth is known.

The simulator paints a world of three regions: every region has environments of its own, and every image of a region
shows one object before one of them. "Real" images are drawn from that world. Then four models are held against it:

* ``fair``: draws from the very same world, other images;
* ``stereotype``: the same, but shows the South only ever before one of its five environments (less diverse);
* ``foreign``: the same, but shows the South before the North's environments (not realistic for the South);
* ``both``: both at once.

    python benchmarks/geography_world.py --per-cell 30 --out world          (about ten minutes on two cores)
    python benchmarks/geography_world.py --per-cell 30 --out world --json

Prints precision and coverage of every region with their intervals, the gap between regions, and the p-value of "all
regions are alike"; exits with 1 unless the disparities are found where they were planted, and nowhere else.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import verism
from verism.errors import VerismError
from verism.imaging import encode_png
from verism.records import Scene, SceneObject, Score
from verism.registry import Context, make_renderer

OBJECTS = ("dog", "chair", "bicycle", "suitcase")
REGIONS: Mapping[str, tuple[str, ...]] = {
    "North": ("meadow", "forest_clearing", "mountain_lake", "autumn_park", "snowfield"),
    "South": ("desert", "beach", "canyon", "sunset_coast", "open_road"),
    "East": ("city_plaza", "old_town", "night_street", "tiled_hall", "warehouse"),
}
PLANTED = "South"
MODELS = ("fair", "stereotype", "foreign", "both")


@dataclass(frozen=True)
class Cell:
    """Images of one object in one region, before these environments in turn."""

    maker: str
    region: str
    label: str
    environments: Sequence[str]


def environments_of(model: str, region: str) -> Sequence[str]:
    """Before which environments a model shows a region."""
    subset = REGIONS[region]
    if region != PLANTED or model in ("real", "fair"):
        return subset
    if model == "stereotype":
        return subset[:1]
    other = REGIONS["North"]
    return other if model == "foreign" else other[:1]


def scenes_of(cell: Cell, count: int, shapes: Mapping[str, str]) -> Iterator[Scene]:
    for index in range(count):
        scene_id = f"{cell.maker}_{cell.region}_{cell.label}_{index:03d}".replace(" ", "-")
        seed = int.from_bytes(hashlib.blake2b(scene_id.encode(), digest_size=8).digest(), "big") >> 1
        yield Scene(
            scene_id=scene_id,
            skill="object",
            split="val",
            text=f"{cell.label} in {cell.region}",
            background=cell.environments[index % len(cell.environments)],
            objects=(SceneObject(shape=shapes[cell.label], label=cell.label),),
            seed=seed,
        )


def paint(folder: Path, scenes: Sequence[Scene], size: int) -> dict[str, Path]:
    """Images of scenes by id; those that are there already are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {scene.scene_id: folder / f"{scene.scene_id}.png" for scene in scenes}
    todo = [scene for scene in scenes if not files[scene.scene_id].exists()]
    renderer = make_renderer(Context(size=size, processes=os.cpu_count() or 1))
    for number, (scene, rendered) in enumerate(zip(todo, renderer.render_all(todo), strict=True), start=1):
        if isinstance(rendered, VerismError):
            print(f"left out: {rendered}", file=sys.stderr)
            continue
        temporary = files[scene.scene_id].with_suffix(".tmp")
        temporary.write_bytes(encode_png(rendered.pixels))
        temporary.replace(files[scene.scene_id])
        if number % 100 == 0:
            print(f"painted {number:,}/{len(todo):,}", file=sys.stderr)
    return {scene_id: path for scene_id, path in files.items() if path.exists()}


def write_manifest(path: Path, rows: Sequence[tuple[Path, str, str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(("file_path", "object", "region"))
        table.writerows((str(image.absolute()), label, region) for image, label, region in rows)


def build(out: Path, per_cell: int, size: int, objects: Sequence[str]) -> dict[str, Path]:
    """Paint the world and its models; a manifest for each, by name."""
    from verism.suites.paintskills.vocabulary import version

    shapes = {c.label: c.shape for c in version("paintskills").classes}
    cells: dict[tuple[str, str, str], list[Scene]] = {}
    for maker in ("real", *MODELS):
        for region in REGIONS:
            # A model that differs in one region alone shares the images of the others with the fair one.
            shared = maker if maker == "real" or region == PLANTED else "fair"
            for label in objects:
                cell = Cell(shared, region, label, environments_of(maker, region))
                cells[maker, region, label] = list(scenes_of(cell, per_cell, shapes))
    every = {scene.scene_id: scene for scenes in cells.values() for scene in scenes}
    files = paint(out / "pictures", list(every.values()), size)
    manifests = {maker: out / f"{maker}.csv" for maker in ("real", *MODELS)}
    for maker, manifest in manifests.items():
        write_manifest(
            manifest,
            [
                (files[scene.scene_id], label, region)
                for (made_by, region, label), scenes in cells.items()
                if made_by == maker
                for scene in scenes
                if scene.scene_id in files
            ],
        )
    return manifests


def numbers(scores: Sequence[Score], model: str) -> dict[str, Any]:
    """What the report of a run says of the regions, as plain numbers."""
    results: dict[str, Any] = {"model": model}
    for score in scores:
        if score.protocol != "revised" or score.group.get("family") != "region" or "object" in score.group:
            continue
        key = "/".join([score.metric, *[str(v) for k, v in score.group.items() if k != "family"]])
        results[key] = [score.value, score.ci_low, score.ci_high]
    return results


def expected(model: str) -> dict[str, bool]:
    """In which measures a model was made unfair; how much the two parts of ``both`` do each is not foretold."""
    return {
        "fair": {"precision": False, "coverage": False},
        "stereotype": {"precision": False, "coverage": True},
        "foreign": {"precision": True, "coverage": True},  # what is not realistic does not cover what is real either
        "both": {"precision": True, "coverage": True},
    }[model]


def verdicts(result: Mapping[str, Any]) -> Iterator[tuple[str, bool, bool]]:
    """Measure, whether a disparity was found (p < 0.01, worst in the planted region), whether one was planted."""
    for measure, planted in expected(result["model"]).items():
        p_value = result[f"{measure}_gap_p_value"][0]
        values = {region: result[f"{measure}/{region}"][0] for region in REGIONS}
        found_value = p_value < 0.01
        yield measure, found_value and min(values, key=lambda region: values[region]) == PLANTED, planted
        if found_value and not planted:
            yield f"{measure} elsewhere", True, False


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--per-cell", type=int, default=30, help="images of each object in each region")
    options.add_argument("--size", type=int, default=128, help="pixels")
    options.add_argument("--features", default="builtin")
    options.add_argument("--json", action="store_true")
    supplied = options.parse_args()
    manifests = build(supplied.out, supplied.per_cell, supplied.size, OBJECTS)
    results = []
    for model in MODELS:
        run = verism.evaluate(
            "geography",
            images=manifests[model],
            reference=manifests["real"],
            features=supplied.features,
            out=supplied.out / f"run-{model}",
            cache=supplied.out / "vectors",
        )
        results.append(numbers(run.scores(), model))
    checks = [(r["model"], *check) for r in results for check in verdicts(r)]
    if supplied.json:
        print(json.dumps({"models": results, "checks": checks}, indent=1))
    else:
        for result in results:
            print(result["model"])
            for measure in expected(result["model"]):
                for region in REGIONS:
                    value, low, high = result[f"{measure}/{region}"]
                    print(f"  {measure:<10} {region:<6} {value:6.3f}  [{low:.3f}, {high:.3f}]")
                print(f"  {measure:<10} all regions alike: p = {result[f'{measure}_gap_p_value'][0]:.4f}")
        for model, measure, entry, planted in checks:
            words = f"{'planted' if planted else 'not planted'}, {'found' if entry else 'not found'}"
            print(f"{model:<11} {measure:<22} {words}{'' if entry == planted else '   WRONG'}")
    return int(any(entry != planted for *_, entry, planted in checks))


if __name__ == "__main__":
    sys.exit(main())
