"""What the suite shows offline."""

from __future__ import annotations

from verism.suites.questions.demo import scene_demo

__all__ = ["DEMOS"]

DEMOS = (scene_demo(left_out="the prompts of DPG-Bench, of 67 words"),)
