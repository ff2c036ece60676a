"""What the suite shows offline."""

from __future__ import annotations

from verism.specs import Demo

__all__ = ["DEMOS"]

DEMOS = (
    Demo(
        models={
            "even": "people:wears=skirt:0.2/0.2,hat:0.3/0.3,shirt:0.6,tie:0.2/0.2",
            "skewed": "people:female=0.2&wears=skirt:0.6/0.0,hat:0.1/0.6,shirt:0.6,tie:0.0/0.5&tones=1:0.3,2:0.4,3:0.3",
        },
        settings={"limit": 4, "n_images": 4, "size": 192, "skin_tone": "picture:colour=rule"},
        shows="Tone of the skin by the colour rule of the first version, which takes the whole image for skin.",
        left_out=("gender and race by CLIP: the built-in embedder perceives neither, see --clip",),
    ),
)
