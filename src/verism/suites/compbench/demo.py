"""What the suite shows offline."""

from __future__ import annotations

from verism.specs import Demo

__all__ = ["DEMOS"]

DEMOS = (
    Demo(
        least=8,  # categories
        models={"careful": "scripted:error=0.1", "careless": "scripted:error=0.4"},
        settings={
            "limit": 24, "n_images": 1, "size": 160, "vqa": "truth", "detector": "builtin", "depth": "truth",
            "clip": "builtin", "correct": "rendered",
        },
        shows="Planted errors (10 and 40 %) in prompts of our own: boxes and cosines by built-in judges, questions and "
        "depth by the ground truth.",
        left_out=(
            "the prompts of T2I-CompBench: they may not come with verism, name your copy by --prompts",
            "judges of attributes and of depth, which need models of the hub (--vqa, --depth)",
        ),
    ),
)  # fmt: skip
