"""What the suite shows offline: a list of prompts of our own, in the words that the built-in models know."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from verism.files import write_whole
from verism.records import Renderer
from verism.specs import Demo

__all__ = ["DEMOS", "write_examples"]

_THINGS = ("dog", "car", "bus", "chair", "suitcase", "umbrella", "boat", "bench")
_SIDES = ("left to", "right to", "above", "below")

DEMOS = (
    Demo(
        models={"builtin": "builtin", "builtin-varied": "builtin:temperature=1.3&structure_temperature=1"},
        files="verism.suites.alignment.demo:write_examples",
        settings={
            "prompts": "{files}/prompts.txt", "n_images": 1, "clip": "builtin", "rules": {"pool": 24},
        },
        shows="Whether an image of the built-in generator is nearer to its own prompt than to 23 others, by the "
        "built-in embedder.",
        left_out=(
            "captions of COCO: name your copy by --annotations",
            "captions and questions: no captioner comes with verism, and --vqa needs a file of questions",
        ),
    ),
)  # fmt: skip


def write_examples(folder: Path, renderer: Callable[[], Renderer]) -> None:
    """24 prompts of our own: one object, two of one kind, two beside each other.

    Args:
        folder: where to.
        renderer: not used.
    """
    del renderer
    lines = [f"a photo of a {thing}" for thing in _THINGS]
    lines += [f"a photo of 2 {thing}{'es' if thing in ('bus', 'bench') else 's'}" for thing in _THINGS]
    pairs = zip(_THINGS, _THINGS[3:] + _THINGS[:3], _SIDES * 2, strict=True)
    lines += [f"a photo of {a} and {b}; {b} is {side} {a}" for a, b, side in pairs]
    write_whole(folder / "prompts.txt", "\n".join(lines) + "\n")
