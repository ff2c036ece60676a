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
        settings={"limit": 8, "n_images": 4, "size": 192, "vqa": "builtin", "clip": "builtin", "correct": "rendered"},
        shows="Differences in clothes that were planted in rendered people (even: none; skewed: skirts, hats, ties), "
        "by judges that err.",
        left_out=(
            "a uniform, a word that the built-in judges do not know",
            "people as a model draws them: the built-in generator draws none that wear what is asked",
        ),
    ),
)
