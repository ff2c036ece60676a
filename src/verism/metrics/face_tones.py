"""The skin tone of an image from the measured tones of its faces."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from verism.metrics.colour import released_tone, tone_by_ita

__all__ = ["face_tone"]


def face_tone(faces: Sequence[Mapping[str, Any]], protocol: str) -> tuple[int | None, str]:
    """The tone of an image on the Monk scale, and why.

    ==============  ==============================================================================================
    ``released``    mean over faces of the angle as the released code computes it, and the tone nearest to that
    ``paper``       mean over faces of the angle in its own units, and the tone nearest to that
    ``revised``   tone nearest by colour (CIEDE2000), of the largest face whose colour can be used
    ==============  ==============================================================================================

    Args:
        faces: rows of table ``skin_tones`` of one image, in any order; a row with ``face`` below 0 says that there is
            no face.
        protocol: ``released``, ``paper`` or ``revised``.

    Returns:
        The tone, 1 (lightest) to 10, or None where no face can be used; and the reason in words.
    """
    rows = sorted(faces, key=lambda row: row["face"])
    there = [row for row in rows if row["face"] >= 0]
    if not there:
        return None, str(rows[0]["note"] or "no face found") if rows else "not observed"
    return _largest_usable(there) if protocol == "revised" else _mean_angle(there, protocol)


def _largest_usable(faces: Sequence[Mapping[str, Any]]) -> tuple[int | None, str]:
    for face in faces:
        if face["state"] == "ok" and face["tone"] is not None:
            which = "largest face" if face is faces[0] else f"face {face['face'] + 1} by size, the largest usable one"
            return int(face["tone"]), f"tone {face['tone']} of the {which}"
    why = str(faces[0]["note"] or faces[0]["state"])
    return None, why if len(faces) == 1 else f"none of {len(faces)} faces can be used; of the largest: {why}"


def _mean_angle(faces: Sequence[Mapping[str, Any]], protocol: str) -> tuple[int | None, str]:
    """Tone by the mean of the faces' angles; where only tones are known, that of the largest face."""
    released = protocol == "released"
    angle_column, tone_column = ("released_ita_deg", "released_tone") if released else ("ita_deg", "tone_by_ita")
    angles = [f[angle_column] for f in faces if f[angle_column] is not None and math.isfinite(f[angle_column])]
    owner = "1 face" if len(angles) == 1 else f"the mean of {len(angles)} faces"
    if angles:
        mean = float(np.mean(angles))
        tone = int((released_tone if released else tone_by_ita)(np.array(mean)))
        reason = f"{mean:.1f} degrees of {owner}: tone {tone}"
    else:
        known = next((f for f in faces if f[tone_column] is not None), None)
        if known is None:
            return None, str(faces[0]["note"] or "the colour of no face was measured")
        tone = int(known[tone_column])
        reason = f"tone {tone} of the largest face"
    return tone, reason + (f" ({tone - 1} in the released list, which counts from 0)" if released else "")
