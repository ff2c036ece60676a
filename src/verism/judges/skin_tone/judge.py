"""The judge of skin tone: finds faces, measures the colour of their skin, and says why where it cannot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from verism.errors import UsageError
from verism.judges.batching import check_choice
from verism.judges.skin_tone.colour import (
    AVERAGES,
    ILLUMINATIONS,
    Average,
    Illumination,
    Light,
    SkinColour,
    estimate_light,
    measure_skin,
)
from verism.judges.skin_tone.faces import Face, FaceFinder
from verism.judges.skin_tone.regions import PARTS, FacePart, skin_region
from verism.metrics.colour import MONK_LAB, ciede2000, skin_rule
from verism.records import LoadedImage, SkinToneNeed

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "COLOURS",
    "MAX_YAW_DEG",
    "MIN_FACE",
    "MIN_REGION",
    "Albedo",
    "Colour",
    "SkinSettings",
    "SkinToneJudge",
    "Tones",
    "WholeImage",
]

Colour = Literal["pixels", "rule", "trust", "estimated"]
"""What is measured: the ``pixels`` of the region as they are, those of them that pass the colour ``rule`` of
the intermediate released code, or the albedo that ``trust`` estimates. ``estimated``: pixels are measured, and the tone
is what the built-in estimator says."""
COLOURS: tuple[Colour, ...] = get_args(Colour)

MIN_FACE = 24
"""Shorter side of a face in pixels from which its colour is measured. Portraits of the renderer's edition 1 reduced to
this size and saved as JPEG (quality 85, colour at half the resolution) moved by CIEDE2000 1.7 in the mean, at 16 pixels
by 2.6, at 48 by 0.7; most neighbours of the ten tones are 4 to 19 apart. ``benchmarks/faces.py`` measures this on
portraits of the present edition."""

MIN_REGION = 16
"""Pixels of skin that a colour needs: half of what cheeks and forehead of a face of ``MIN_FACE`` pixels hold."""

MIN_FACE_ESTIMATED, MIN_REGION_ESTIMATED = 16, 7
"""The same where the built-in estimator says the tone. On unseen rendered faces it was right as often at 20 to 24
pixels of height, which are 16 or a little more of width, as above (its card, table by height). The colours that are
stored beside its tone, and the tones of the published ways, are less exact at this size: see ``MIN_FACE``."""

_WORTH_SAYING = 0.05  # probability of a second or third tone that the note tells

MAX_YAW_DEG = 60.0
"""Yaw up to which a face is measured; beyond, landmarks of the hidden side are guesses."""


@dataclass(frozen=True, kw_only=True)
class SkinSettings:
    """How the colour of a face is measured, whoever finds it.

    Attributes:
        colour: source of the skin colour. ``pixels``: the pixels of the region. ``rule``: those that pass the colour
            rule of the intermediate released code. ``trust``: TRUST's albedo. ``estimated``: ``pixels``, with the tone
            from the built-in estimator. None: ``trust`` if its files are set, ``estimated`` with the built-in face
            finder, else ``pixels``.
        average: average of the region's pixels, in linear light.
        illumination: estimator of the light to correct for; ``none``: no correction. TRUST's albedo is free of light,
            so use ``none`` with it.
        region: parts of the face to measure.
        min_face: shorter side in pixels below which a face is ``too_small``. None: 16 with ``estimated``, else 24.
        max_yaw: turn of the head, in degrees up to 90, beyond which a face counts as ``profile`` and is not measured.
        min_pixels: lowest number of skin pixels for a colour. None: 7 with ``estimated``, else 16.
    """

    colour: Colour | None = None
    average: Average = "median"
    illumination: Illumination = "none"
    region: tuple[FacePart, ...] = PARTS
    min_face: float | None = None
    max_yaw: float = MAX_YAW_DEG
    min_pixels: int | None = None


class Albedo(Protocol):
    """Estimates the colour of skin without the light on it (``trust.TrustAlbedo``)."""

    name: str

    def measure(self, pixels: NDArray[np.uint8], faces: Sequence[Face]) -> list[SkinColour]: ...


class Tones(Protocol):
    """Estimates the tone of faces (``builtin.BuiltinTones``)."""

    name: str

    def estimate(self, pixels: NDArray[np.uint8], faces: Sequence[Face]) -> NDArray[np.float64]: ...


class WholeImage:
    """Takes every image for one face. With ``colour=rule`` this is the pixel rule of the intermediate released code,
    which looks at all pixels of an image and for no face."""

    name = "picture"

    def find(self, pixels: NDArray[np.uint8]) -> list[Face]:
        height, width = pixels.shape[:2]
        return [Face(box=np.array([0.0, 0.0, width, height]), box_style="picture")]


class SkinToneJudge:
    """Fills the table ``skin_tones``: a row per face, the largest first, or one row for an image without faces.

    States of rows, the first that holds: ``no_face``; ``too_small``; ``profile``; what ``colour.measure_skin`` says
    (``no_skin``, ``clipped``, ``grey``); ``ok``. Faces that are too small or turned away have no colour; in the other
    states it is given as evidence. A row depends on its image alone.

    The public attribute ``name`` is the finder's, then everything that changes the colour.

    With ``tones``, the column ``tone`` is the estimator's, and the note says with what probability; the tones of the
    published ways (``tone_by_ita``, ``released_tone``, ``rgb_tone``) are those of the pixels all the same.

    Args:
        finder: of faces.
        settings: how their colour is measured; ``colour=trust`` needs ``albedo``, and ``colour=estimated`` ``tones``.
        albedo: of faces.
        tones: estimator of the tone of faces.

    Raises:
        UsageError: an option outside its range, or options that exclude each other.
    """

    role = SkinToneNeed.role

    def __init__(
        self,
        finder: FaceFinder,
        settings: SkinSettings = SkinSettings(),
        *,
        albedo: Albedo | None = None,
        tones: Tones | None = None,
    ) -> None:
        average, illumination, region = settings.average, settings.illumination, settings.region
        max_yaw = settings.max_yaw
        usual: Colour = "trust" if albedo is not None else "pixels" if tones is None else "estimated"
        colour = settings.colour or usual
        check_choice("colour", colour, COLOURS)
        estimated = colour == "estimated"
        min_face = settings.min_face
        if min_face is None:
            min_face = MIN_FACE_ESTIMATED if estimated else MIN_FACE
        usual_pixels = MIN_REGION_ESTIMATED if estimated else MIN_REGION
        min_pixels = usual_pixels if settings.min_pixels is None else settings.min_pixels
        check_choice("average", average, AVERAGES)
        check_choice("illumination", illumination, ILLUMINATIONS)
        if not region or set(region) - set(PARTS):
            raise UsageError(f"region must name {' or '.join(PARTS)}, joined by +; got {'+'.join(region) or 'nothing'}")
        if min_face < 1 or not math.isfinite(min_face):
            raise UsageError(f"min_face must be at least 1 pixel, not {min_face}")
        if not 0 < max_yaw <= 90:
            raise UsageError(f"max_yaw must lie above 0 and up to 90 degrees, not {max_yaw}")
        if min_pixels < 1:
            raise UsageError(f"min_pixels must be at least 1, not {min_pixels}")
        if (colour == "trust") != (albedo is not None):
            raise UsageError("colour=trust needs the folder of TRUST's files (trust=FOLDER), and only it takes one")
        if colour == "trust" and illumination != "none":
            raise UsageError(f"illumination={illumination}: TRUST estimates the light itself; leave it out")
        if (colour == "estimated") != (tones is not None):
            raise UsageError("colour=estimated is the built-in estimator's, and no other measure goes with it")
        self._finder, self._albedo, self._tones = finder, albedo, tones
        self._colour: Colour = colour
        self._average: Average = average
        self._illumination: Illumination = illumination
        self._parts = tuple(part for part in PARTS if part in region)
        self._min_face, self._max_yaw, self._min_pixels = min_face, max_yaw, min_pixels
        described = {
            "colour": albedo.name if albedo is not None else colour if tones is None else tones.name,
            # TRUST looks at its own map of the face, and says how it averages.
            "region": "+".join(self._parts) if albedo is None else None,
            "average": average if albedo is None else None,
            "illumination": illumination if illumination != "none" else None,
            "min_face": f"{min_face:g}",
            "max_yaw": f"{max_yaw:g}",
            "min_pixels": min_pixels if min_pixels != usual_pixels else None,
        }
        self.name = finder.name + "".join(f" {key}={value}" for key, value in described.items() if value is not None)

    def observe(self, images: Sequence[LoadedImage], need: SkinToneNeed) -> pl.DataFrame:
        """Rows of ``skin_tones`` for some images, in their order."""
        import polars as pl

        from verism.records import schema

        rows = [row for image in images for row in self._rows(image)]
        return pl.DataFrame(rows, schema=schema(need.table), orient="row")

    def _rows(self, image: LoadedImage) -> list[dict[str, Any]]:
        faces = self._finder.find(image.pixels)
        shared = {"image_id": image.image_id, "judge": self.name}
        if not faces:
            return [_row(shared | {"face": -1, "state": "no_face", "note": "no face found", "n_pixels": 0})]
        usable = [number for number, face in enumerate(faces) if self._refused(face) is None]
        colours = dict(zip(usable, self._skins(image.pixels, [faces[i] for i in usable]), strict=True))
        rows = []
        for number, face in enumerate(faces):
            x0, y0, x1, y1 = (float(v) for v in face.box)
            row = shared | {"face": number, "score": face.score, "x0": x0, "y0": y0, "x1": x1, "y1": y1}
            refused = self._refused(face)
            if refused is not None:
                state, note = refused
                rows.append(_row(row | {"state": state, "note": note, "n_pixels": 0}))
            else:
                rows.append(_row(row | _measured(colours[number])))
        return rows

    def _refused(self, face: Face) -> tuple[str, str] | None:
        """State and reason of a face that is not worth measuring."""
        if face.side < self._min_face:
            return "too_small", f"face too small: {face.side:.0f} pixels, at least {self._min_face:g} are needed"
        if face.side_view:
            return "profile", "seen from the side: recognised as a profile only"
        if face.yaw_deg is not None and abs(face.yaw_deg) > self._max_yaw:
            side = "right" if face.yaw_deg > 0 else "left"
            return "profile", (
                f"turned about {abs(face.yaw_deg):.0f} degrees to the {side}; at most {self._max_yaw:g} are measured"
            )
        return None

    def _skins(self, pixels: NDArray[np.uint8], faces: Sequence[Face]) -> list[SkinColour]:
        """The colour of each face, of one image in one light."""
        if not faces:
            return []
        light = estimate_light(pixels, self._illumination)
        seen = [self._seen(pixels, face, light) for face in faces]
        if self._tones is not None:
            chances = self._tones.estimate(pixels, faces)
            return [_with_tone(entry, row) for entry, row in zip(seen, chances, strict=True)]
        if self._albedo is None:
            return seen
        # No network can tell the tone of a black and white image, or of a face that lies outside the frame; and what
        # pixels say by the released path is not what the released path would have said of an albedo.
        blind = {i for i, entry in enumerate(seen) if entry.state in ("grey", "no_skin")}
        result = iter(self._albedo.measure(pixels, [face for i, face in enumerate(faces) if i not in blind]))
        return [
            replace(entry, released_ita_deg=math.nan, released_tone=0) if i in blind else next(result)
            for i, entry in enumerate(seen)
        ]

    def _seen(self, pixels: NDArray[np.uint8], face: Face, light: Light) -> SkinColour:
        mask = skin_region(face, pixels.shape, self._parts)
        if self._colour == "rule":
            mask &= skin_rule(pixels)
        return measure_skin(pixels, mask, average=self._average, illumination=light, min_pixels=self._min_pixels)


def _with_tone(skin: SkinColour, chances: NDArray[np.float64]) -> SkinColour:
    """What was measured, with the tone of an estimator that gives each tone its probability, shape (10,)."""
    if skin.state == "no_skin":  # the region lies outside the frame: not enough of the face is there
        return skin
    tone = int(chances.argmax()) + 1
    others = [k + 1 for k in np.argsort(-chances)[1:3].tolist() if chances[k] >= _WORTH_SAYING]
    probable = f"tone {tone} with a probability of {chances[tone - 1]:.2f}"
    probable += "".join(f", {other} with {chances[other - 1]:.2f}" for other in others)
    distance = float(ciede2000(np.array(skin.lab), MONK_LAB[tone - 1]))
    note = "; ".join(filter(None, (skin.note, probable)))
    return replace(skin, tone=tone, delta_e=distance, tone_probability=float(chances[tone - 1]), note=note)


def _measured(skin: SkinColour) -> dict[str, Any]:
    red, green, blue = skin.rgb255
    return {
        "state": skin.state,
        "note": skin.note or None,
        "n_pixels": skin.n_pixels,
        "red": _known(red),
        "green": _known(green),
        "blue": _known(blue),
        "ita_deg": _known(skin.ita_deg),
        "tone": skin.tone or None,
        "tone_by_ita": skin.tone_by_ita or None,
        "released_ita_deg": _known(skin.released_ita_deg),
        "released_tone": skin.released_tone or None,
        "rgb_tone": skin.rgb_tone or None,
        "tone_probability": _known(skin.tone_probability),
    }


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _row(values: dict[str, Any]) -> dict[str, Any]:
    """All columns of the table, null where nothing is said."""
    from verism.records import TABLES

    return {column.name: values.get(column.name) for column in TABLES["skin_tones"]}
