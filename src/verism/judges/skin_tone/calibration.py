"""Judges of skin tone on portraits of known tone: tones as verdicts read them, and by the pixel rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from verism.judges.calibration import Calibration, Reading
from verism.metrics.face_tones import face_tone
from verism.records import PROTOCOLS, SkinToneNeed

if TYPE_CHECKING:
    import polars as pl

__all__ = ["CALIBRATION", "PIXEL_RULE", "TONES", "read_tones"]

TASK = "tone"
TONES = tuple(str(tone) for tone in range(1, 11))  # of the Monk scale, lightest first
PIXEL_RULE = "pixel_rule"  # in place of a protocol: pixels that pass a fixed colour rule, of the largest face


def read_tones(image_ids: Sequence[str], observations: pl.DataFrame) -> Iterator[Reading]:
    """The tone of each image under each protocol, and besides by the pixel rule, of the largest face.

    Args:
        image_ids: of all images.
        observations: table ``skin_tones``.
    """
    faces: dict[str, list[Mapping[str, Any]]] = {}
    for row in observations.iter_rows(named=True):
        faces.setdefault(row["image_id"], []).append(row)
    for protocol in PROTOCOLS:
        for image_id in image_ids:
            tone, _ = face_tone(faces.get(image_id, []), protocol)
            yield Reading(image_id, TASK, protocol, None if tone is None else str(tone))
    for image_id in image_ids:
        tone = next((row["rgb_tone"] for row in faces.get(image_id, []) if row["face"] == 0), None)
        yield Reading(image_id, TASK, PIXEL_RULE, str(tone) if tone else None)


CALIBRATION = Calibration(
    need=SkinToneNeed(),
    tasks={TASK: TONES},
    read=read_tones,
    facets={"light": "light", "cast": "cast", "level": "level", "skin": "skin", "yaw_range": "yaw"},
)
