"""What suites of questions show offline: rendered scenes with planted errors, asked about by what is known of them."""

from __future__ import annotations

from typing import Any

from verism.specs import Demo

__all__ = ["scene_demo"]


def scene_demo(*, left_out: str, shows: str = "", **settings: Any) -> Demo:
    """The part of a suite whose own prompts are of rendered scenes.

    Args:
        left_out: what the suite asks where the user names a copy of the benchmark.
        shows: what the numbers tell; empty for the usual sentence.
        **settings: besides the usual ones, or in their place.
    """
    return Demo(
        models={"careful": "scripted:error=0.1", "careless": "scripted:error=0.4"},
        settings={"limit": 16, "n_images": 1, "size": 96, "vqa": "truth"} | settings,
        shows=shows
        or "How far planted errors lower the score, by answers without error (the ground truth): prompts of our own.",
        left_out=(
            f"{left_out}: they may not come with verism, name your copy by --prompts",
            "a judge of these questions: they need a vision-language model (--vqa)",
        ),
    )
