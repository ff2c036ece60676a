"""What the suite shows offline."""

from __future__ import annotations

from verism.specs import Demo

__all__ = ["DEMOS"]

DEMOS = (
    Demo(
        models={"careful": "scripted:error=0.1", "careless": "scripted:error=0.4"},
        settings={"limit": 16, "n_images": 1, "size": 96, "scorer": "truth"},
        shows="How the suite counts: the scorer is the ground truth, so planted errors alone lower the score. It says "
        "nothing of taste.",
        left_out=("models of people's preference (PickScore, HPS, ImageReward): weights of others, see --scorer",),
    ),
)
