"""What the suite shows offline."""

from __future__ import annotations

from dataclasses import replace

from verism.suites.questions.demo import scene_demo

__all__ = ["DEMOS"]

_BY_TRUTH = scene_demo(left_out="the prompts of DSG-1k")

DEMOS = (
    _BY_TRUTH,
    replace(
        _BY_TRUTH,
        variant="builtin",
        settings={**_BY_TRUTH.settings, "vqa": "builtin", "size": 192},
        shows="The same images by a judge that errs and answers only some of the questions: the others are left out of "
        "the score, and counted.",
        left_out=(),
    ),
)
