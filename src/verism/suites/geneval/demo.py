"""What the suite shows offline."""

from __future__ import annotations

from verism.specs import Demo

__all__ = ["DEMOS"]

DEMOS = (
    Demo(
        models={"careful": "scripted:error=0.1", "careless": "scripted:error=0.4"},
        settings={
            "modelled": True, "limit": 24, "n_images": 1, "segmenter": "boxes:builtin", "clip": "builtin",
            "correct": "rendered",
        },
        shows="Planted errors (10 and 40 %), by a detector and a colour judge that err, with the error taken out by "
        "the ground truth.",
        left_out=("classes of COCO that the simulator has no models of: only modelled ones are asked",),
    ),
)  # fmt: skip
