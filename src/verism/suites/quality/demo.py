"""What the suite shows offline: rendered images as the real ones, and a list of prompts of our own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from verism.files import write_whole
from verism.records import Renderer
from verism.specs import Demo
from verism.suites.example_images import ImageGroup, render_groups

__all__ = ["DEMOS", "write_examples"]

_THINGS = ("dog", "car", "chair", "bus")
_PLACES = ("meadow", "beach", "desert", "snowfield", "open_road", "city_plaza")

DEMOS = (
    Demo(
        models={"builtin": "builtin", "builtin-varied": "builtin:temperature=1.3&structure_temperature=1"},
        files="verism.suites.quality.demo:write_examples",
        settings={
            "prompts": "{files}/prompts.txt", "reference": "{files}/real.csv", "n_images": 8, "size": 128,
            "features": "builtin",
        },
        shows="How near images of the built-in generator come to 32 rendered ones, by features of the built-in "
        "detector: they are no FID, and these numbers compare with no others.",
        left_out=("FID, KID and the Inception score: their networks are weights of others, see --features",),
    ),
)  # fmt: skip


def write_examples(folder: Path, renderer: Callable[[], Renderer]) -> None:
    """Prompts of four objects, and eight rendered images of each, which stand for real ones.

    Args:
        folder: where to.
        renderer: gives what renders them.
    """
    write_whole(folder / "prompts.txt", "".join(f"a photo of a {thing}\n" for thing in _THINGS))
    groups = [ImageGroup(shape=thing, values={"object": thing}, backgrounds=_PLACES) for thing in _THINGS]
    render_groups(folder, renderer(), groups, each=8)
