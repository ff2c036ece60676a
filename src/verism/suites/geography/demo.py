"""What both suites show offline: a world of two regions with rendered images; DollarStreet's prompts without any."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from verism.files import write_whole
from verism.records import Renderer
from verism.specs import Demo
from verism.suites.example_images import ImageGroup, render_groups

__all__ = ["DEMOS", "DEMOS_DOLLARSTREET", "write_examples"]

_BUILTIN = {"builtin": "builtin", "builtin-varied": "builtin:temperature=1.3&structure_temperature=1"}
_WORLD = """\
# Two regions and three objects. The images of real.csv are rendered, for this example only.
name: example
objects: [dog, car, chair]
regions: {North: {}, South: {}}
templates: {region: "a photo of a {object} in {region}"}
per_cell: 8
"""
_PLACES = {
    ("dog", "North"): ("snowfield", "mountain_lake", "autumn_park"),
    ("dog", "South"): ("beach", "desert", "stone_terrace"),
    ("car", "North"): ("snowfield", "open_road", "night_street"),
    ("car", "South"): ("desert", "old_town", "city_plaza"),
    ("chair", "North"): ("living_room", "photo_studio"),
    ("chair", "South"): ("stone_terrace", "tiled_hall"),
}

DEMOS = (
    Demo(
        models=_BUILTIN,
        files="verism.suites.geography.demo:write_examples",
        settings={
            "reference": "{files}/real.csv", "world": "{files}/world.yaml", "families": ["region"], "size": 128,
            "features": "builtin", "clip": "builtin", "rules": {"k": 3},
        },
        shows="Realism and diversity by region, against 48 rendered images of two regions that we made up: the "
        "built-in generator knows no region, so it can only differ by what each region shows.",
        left_out=(
            "GeoDE's photographs: name your copy by --reference",
            "the published features, Inception-v3: weights of others, see --features",
        ),
    ),
)  # fmt: skip

DEMOS_DOLLARSTREET = (
    Demo(
        models=_BUILTIN,
        settings={
            "objects": ["car", "bed", "bike"], "families": ["region"], "per_cell": 3, "size": 128, "clip": "builtin",
        },
        shows="Whether images of three topics show them, by region and the built-in embedder: consistency alone.",
        left_out=("realism and diversity, for which DollarStreet's photographs are needed: --reference",),
    ),
)  # fmt: skip


def write_examples(folder: Path, renderer: Callable[[], Renderer]) -> None:
    """The world, and eight rendered images of each object in each region, which stand for photographs.

    Args:
        folder: where to.
        renderer: gives what renders them.
    """
    write_whole(folder / "world.yaml", _WORLD)
    groups = [
        ImageGroup(shape=thing, values={"object": thing, "region": region}, backgrounds=places)
        for (thing, region), places in _PLACES.items()
    ]
    render_groups(folder, renderer(), groups, each=8)
