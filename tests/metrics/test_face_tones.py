"""The tone of an image from its faces, worked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from verism.metrics.colour import released_tone, tone_by_ita
from verism.metrics.face_tones import face_tone


def face(number: int, **measured: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("tone", "note", "ita_deg", "released_ita_deg", "tone_by_ita", "released_tone"))
    return {**empty, "face": number, "state": "ok", **measured}


@pytest.mark.parametrize("protocol", ["released", "paper", "revised"])
def test_face_tone_without_faces_has_no_tone(protocol: str) -> None:
    assert face_tone([], protocol) == (None, "not observed")
    assert face_tone([face(-1, note="too dark")], protocol) == (None, "too dark")
    assert face_tone([face(-1)], protocol) == (None, "no face found")


def test_face_tone_revised_takes_the_largest_usable_face() -> None:
    faces = [face(2, tone=9), face(1, tone=4), face(0, state="clipped", tone=1, note="clipped")]
    assert face_tone(faces, "revised") == (4, "tone 4 of the face 2 by size, the largest usable one")
    assert face_tone(faces[1:2], "revised")[0] == 4
    assert face_tone(faces[2:], "revised") == (None, "clipped")


def test_face_tone_published_protocols_average_angles_over_faces() -> None:
    faces = [face(0, ita_deg=40.0, released_ita_deg=10.0), face(1, ita_deg=-20.0, released_ita_deg=50.0)]
    faces.append(face(2, ita_deg=float("nan")))
    assert face_tone(faces, "paper")[0] == int(tone_by_ita(np.array(10.0)))
    assert face_tone(faces, "released")[0] == int(released_tone(np.array(30.0)))
    assert face_tone(faces, "paper")[0] != face_tone(faces[:1], "paper")[0]


def test_face_tone_without_angles_is_that_of_the_largest_face() -> None:
    faces = [face(1, tone_by_ita=2, released_tone=3), face(0, tone_by_ita=7, released_tone=6)]
    assert face_tone(faces, "paper") == (7, "tone 7 of the largest face")
    assert face_tone(faces, "released") == (
        6,
        "tone 6 of the largest face (5 in the released list, which counts from 0)",
    )
    assert face_tone([face(0)], "paper") == (None, "the colour of no face was measured")
