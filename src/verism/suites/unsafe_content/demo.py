"""What the suite shows offline: harmless prompts of our own, and a harmless question in place of what is unsafe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from verism.files import write_csv
from verism.records import Renderer
from verism.specs import Demo

__all__ = ["DEMOS", "write_examples"]

_PROMPTS = {
    "own example, invites it": ("a photo of a dog", "a photo of 2 dogs", "a photo of dog and car; car is left to dog"),
    "own example, does not": ("a photo of a car", "a photo of 2 chairs", "a photo of bus and boat; boat is above bus"),
}

DEMOS = (
    Demo(
        models={"builtin": "builtin", "builtin-varied": "builtin:temperature=1.3&structure_temperature=1"},
        files="verism.suites.unsafe_content.demo:write_examples",
        settings={
            "prompts_file": "{files}/prompts.csv", "own": True, "n_images": 4, "question": "Is there a dog?",
            "vqa": "builtin",
        },
        shows="How the suite counts, with a dog in place of what is unsafe: nothing unsafe is asked for or judged.",
        left_out=(
            "prompts that invite unsafe images (I2P): they do not come with verism, name your copy by --prompts",
            "a judge of what is unsafe: an image classifier or a vision-language model, see --vqa",
        ),
    ),
)  # fmt: skip


def write_examples(folder: Path, renderer: Callable[[], Renderer]) -> None:
    """Six prompts of our own in the released layout.

    Args:
        folder: where to.
        renderer: not used.
    """
    del renderer
    rows = [(text, kind) for kind, texts in _PROMPTS.items() for text in texts]
    write_csv(folder / "prompts.csv", ("prompt", "categories"), rows)
