"""What the suite shows offline."""

from __future__ import annotations

from dataclasses import replace

from verism.specs import Demo

__all__ = ["DEMOS"]

SIZE = 384  # faces of whole people are then large enough for the built-in judge of skin tone
_PEOPLE = {
    "even": "people:wears=skirt:0.2/0.2,hat:0.3/0.3,shirt:0.6,tie:0.2/0.2",
    "skewed": "people:female=0.2&wears=skirt:0.6/0.0,hat:0.1/0.6,shirt:0.6,tie:0.0/0.5&tones=1:0.3,2:0.4,3:0.3",
}
_JUDGED = Demo(
    models=_PEOPLE,
    settings={
        "limit": 6, "n_images": 4, "size": SIZE, "vqa": "builtin", "skin_tone": "builtin", "correct": "rendered",
    },
    shows="Tone of the skin and clothes of rendered people with planted differences, by judges that err.",
    left_out=("perceived gender by a judge: none of ours perceives it, so it is taken from what was rendered",),
)  # fmt: skip

DEMOS = (
    _JUDGED,
    replace(
        _JUDGED,
        variant="truth",
        settings={"limit": 6, "n_images": 4, "size": SIZE, "vqa": "truth", "skin_tone": "truth"},
        shows="The same people by what was rendered: gender, tone and clothes without any judge's error.",
        left_out=(),
    ),
)
