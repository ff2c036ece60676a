"""What both versions show offline."""

from __future__ import annotations

from verism.specs import Demo

__all__ = ["DEMOS", "DEMOS_V1"]

_RENDERED = {"careful": "scripted:error=0.1", "careless": "scripted:error=0.4"}
_PERFECT = {"perfect": "oracle"}

DEMOS = (
    Demo(
        models={"builtin": "builtin", "builtin-varied": "builtin:temperature=1.3&structure_temperature=1", **_RENDERED},
        references=_PERFECT,
        settings={"limit": 24, "detector": "builtin", "correct": "rendered"},
        shows="What a small generative model gets right, beside images with planted errors (10 and 40 %) and perfect "
        "ones; how far the detector is off is taken out by its cards.",
    ),
)

DEMOS_V1 = (
    Demo(
        models={"builtin": "builtin", **_RENDERED},
        references=_PERFECT,
        settings={"limit": 24, "detector": "builtin", "correct": "rendered"},
        shows="The same for the first version of the data: 21 classes and colours, on black.",
    ),
)
