"""What the suite shows offline: questions of our own in the released layout, as the data may not come with verism."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from verism.files import write_whole
from verism.records import Renderer
from verism.specs import Demo

__all__ = ["DEMOS", "write_examples"]

# Two objects a prompt, in the words that the built-in generator knows, and where the second stands.
_ASKED = (
    ("dog", "car", "left to"),
    ("bus", "chair", "right to"),
    ("suitcase", "boat", "above"),
    ("umbrella", "bench", "below"),
    ("bird", "dog", "left to"),
    ("car", "suitcase", "right to"),
    ("chair", "umbrella", "left to"),
    ("boat", "bus", "below"),
)

DEMOS = (
    Demo(
        models={
            "builtin": "builtin",
            "builtin-varied": "builtin:temperature=1.3&structure_temperature=1",
        },
        files="verism.suites.geneval2.demo:write_examples",
        settings={"prompts_file": "{files}/prompts.jsonl", "own": True, "vqa": "builtin"},
        shows="Whether both things of a prompt are in the images of the built-in generator, by the built-in judge.",
        left_out=(
            "the prompts of GenEval 2 (CC BY-NC), name your copy by --prompts; asked are eight of our own",
            "numbers, attributes and sides, about which the built-in judge is wrong too often to be asked",
            "probabilities of tokens, which the released score is made of: the judge gives those of its answers",
        ),
    ),
)


def write_examples(folder: Path, renderer: Callable[[], Renderer]) -> None:
    """Eight prompts of our own in the released layout.

    Args:
        folder: where to.
        renderer: not used.
    """
    del renderer
    records = [
        {
            "prompt": f"a photo of {first} and {second}; {second} is {side} {first}",
            "atom_count": 2,
            "vqa_list": [[f"Is there a {label} in the image?", "Yes"] for label in (first, second)],
            "skills": ["object", "object"],
        }
        for first, second, side in _ASKED
    ]
    write_whole(folder / "prompts.jsonl", "".join(json.dumps(record) + "\n" for record in records))
