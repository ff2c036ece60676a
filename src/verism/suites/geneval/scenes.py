"""What an image of a prompt could look like, for the simulator: so that runs need no model, and judges can be tried.

The simulator has models of 22 of the 80 classes. The others are shown by plain solids, which nobody would recognise: a
segmenter that looks at such images must fail, and only the ground truth can tell what they stand for.
"""

from __future__ import annotations

import hashlib

from verism.records import Scene, SceneObject
from verism.suites.geneval.prompts import Metadata
from verism.suites.geneval.vocabulary import CLASSES

__all__ = ["BACKGROUNDS", "MODELLED", "SHAPES", "is_modelled", "scene_of"]

# Classes of which the simulator has a model of its own; a test holds the list against its catalogue.
MODELLED = frozenset(
    {
        "person", "bicycle", "car", "airplane", "bus", "train", "boat", "traffic light", "fire hydrant", "stop sign",
        "bench", "bird", "dog", "bear", "backpack", "umbrella", "suitcase", "skateboard", "chair", "potted plant",
        "bed", "dining table",
    }
)  # fmt: skip
SOLIDS = ("cube", "ball", "cylinder", "cone", "ring", "pillow", "bucket", "prism")
SHAPES = {label: f"solid:{SOLIDS[number % len(SOLIDS)]}" for number, label in enumerate(CLASSES)}
"""The solid that stands in for each class, where there is no model of it; as scene files write it."""
BACKGROUNDS = ("meadow", "beach", "desert", "snowfield", "city_plaza", "open_road", "photo_studio", "living_room")
KINDS = {
    "single_object": "object",
    "two_object": "object",
    "counting": "count",
    "colors": "color",
    "position": "spatial",
    "color_attr": "color",
}
SIDES = {"left of": "left", "right of": "right", "above": "above", "below": "below"}


def is_modelled(metadata: Metadata) -> bool:
    """Whether the simulator has models of all classes that a prompt asks for."""
    return all(entry["class"] in MODELLED for entry in metadata["include"])


def scene_of(prompt_id: str, metadata: Metadata) -> Scene:
    """The scene of a prompt: its objects, in the order of the entries.

    Args:
        prompt_id: id of the prompt, by which the environment is dealt out.
        metadata: the prompt.
    """
    objects = []
    for entry in metadata["include"]:
        relation = None
        if "position" in entry:
            name, index = entry["position"]
            relation = f"{SIDES[name]}_{index}"
        objects += [
            SceneObject(
                shape=SHAPES[entry["class"]],
                label=entry["class"],
                color=entry.get("color", "plain"),
                texture="pure" if "color" in entry else "plain",
                relation=relation,
            )
        ] * entry["count"]
    digest = hashlib.blake2b(prompt_id.encode(), digest_size=4).digest()
    return Scene(
        scene_id=prompt_id,
        skill=KINDS[metadata["tag"]],
        split="val",
        text=metadata["prompt"],
        background=BACKGROUNDS[int.from_bytes(digest, "big") % len(BACKGROUNDS)],
        objects=tuple(objects),
    )
