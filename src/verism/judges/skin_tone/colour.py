"""The colour of a region of skin, and why it should not be used where it should not.

A face is lit unevenly: it has highlights that show the lamp and shadows that show the wall. So pixels that say little
about skin are left out first, the rest are averaged in linear light, where a mixture of colours is again a colour of
the same surface under more or less of the same light, and only the average is turned into CIELAB, ITA and a tone. (An
average of angles, or of sRGB values, is the angle or colour of nothing.)

The released way of DALL-Eval and its earlier pixel rule are computed beside it from the same pixels, see
`verism.metrics.colour`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from verism.metrics.colour import (
    LINEAR_TO_XYZ,
    MONK_LAB,
    WHITE_XYZ,
    ciede2000,
    ita_deg,
    lab_of_linear,
    linear_to_srgb,
    luminance,
    released_mean_ita,
    released_tone,
    rule_tone,
    srgb_to_linear,
    tone_by_colour,
    tone_by_ita,
)

__all__ = [
    "AVERAGES",
    "ILLUMINATIONS",
    "MIN_PIXELS",
    "Average",
    "Illumination",
    "Light",
    "SkinColour",
    "SkinState",
    "average_linear",
    "estimate_light",
    "geometric_median",
    "measure_skin",
]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

Average = Literal["median", "trimmed", "mean"]
AVERAGES: tuple[Average, ...] = get_args(Average)

Illumination = Literal["none", "grey-world", "shades-of-grey", "white-patch"]
ILLUMINATIONS: tuple[Illumination, ...] = get_args(Illumination)

SkinState = Literal["ok", "grey", "clipped", "no_skin"]

MIN_PIXELS = 50
"""Fewer pixels of skin than this (a patch of 7 x 7) are no measurement: JPEG blocks alone are larger."""
CLIPPED_FROM = 254  # a channel this high may have been any height, and the hue with it; JPEG turns 255 into 254
CRUSHED_TO = 4  # all channels this low: one level is a quarter of the colour
MAX_LOST = 0.5  # share of the region that may be clipped or crushed
GREY_SPREAD_SHARE, GREY_SPREAD_LEVELS = 0.04, 2  # palest swatch: 18 of 246 levels (0.073); darkest: 9 of 41
GREY_SHARE = 0.95  # of the pixels
BAND = 2.0  # luminances kept by ``median``: from half to twice that of the middle pixel
TRIM = 0.25  # share cut off by ``trimmed`` at either end of luminance
SHADES_P = 6  # Finlayson and Trezzi 2004 found it best on images of many scenes
PATCH_SHARE = 0.99  # ``white-patch`` takes this quantile of each channel: the maximum is one pixel, often a lamp
FAR = 20.0  # CIEDE2000; neighbouring swatches lie 2 to 19 apart, so a colour between two is within 10 of one

# XYZ to the cone-like responses of the Bradford adaptation (ICC.1, annex E).
_BRADFORD: Floats = np.array([[0.8951, 0.2664, -0.1614], [-0.7502, 1.7135, 0.0367], [0.0389, -0.0685, 1.0296]])
_LINEAR: Floats = srgb_to_linear(np.arange(256) / 255)


@dataclass(frozen=True, kw_only=True)
class SkinColour:
    """What a region of skin looks like. Numbers are NaN, tones 0, where there was nothing to measure.

    Values are given in the states ``grey`` and ``clipped``, too, as evidence; they are not to be used as skin tones.

    Attributes:
        n_pixels: pixels that entered the average.
        rgb255: its colour, sRGB from 0 to 255, after the correction for light, clipped to that range.
        ita_deg: individual typology angle of that colour, degrees.
        tone: nearest Monk tone by CIEDE2000, 1 (lightest) to 10.
        tone_by_ita: nearest Monk tone by ITA, 1 to 10.
        released_ita_deg: mean "ITA" of all pixels of the region as the released code computes it, light as it is.
        released_tone: tone it gives, 1 to 10 (its files hold this less one).
        rgb_tone: tone of the pixels of the region that pass the pixel rule, by L1 in RGB; 0 if none passes.
        state: ``ok``, or why the colour is not to be used.
        note: the reason with its numbers, or something to know of a colour that is ok; "" if there is nothing.
        lab: CIELAB of the colour, D65, not clipped.
        delta_e: CIEDE2000 from that colour to the swatch of ``tone``.
        tone_probability: an estimator's probability of ``tone``, in [0, 1]; NaN where it is the nearest swatch.
    """

    n_pixels: int
    rgb255: tuple[float, float, float]
    ita_deg: float
    tone: int
    tone_by_ita: int
    released_ita_deg: float
    released_tone: int
    rgb_tone: int
    state: SkinState
    note: str
    lab: tuple[float, float, float]
    delta_e: float
    tone_probability: float = math.nan


class Light(NamedTuple):
    """The light of an image, as one of the estimators sees it.

    Attributes:
        method: which.
        rgb: its colour, linear sRGB, the largest channel 1; ones where there was nothing to estimate it from.
        matrix: (3, 3), takes linear colours of the image (as columns) to those under D65, luminance of white kept.
    """

    method: Illumination
    rgb: Floats
    matrix: Floats


# --------------------------------------------------------------------------------------------------------------------
# Light
# --------------------------------------------------------------------------------------------------------------------
def estimate_light(pixels: NDArray[Any], method: Illumination = "none") -> Light:
    """Colour of the light of a whole image, from statistics of its linear values, and the way back to white light.

    ``grey-world``: the mean of the image is grey (Buchsbaum 1980). ``shades-of-grey``: its Minkowski mean with p = 6
    is (Finlayson and Trezzi 2004). ``white-patch``: the 99th percentile of each channel is white (after Land 1977).
    Pixels with a clipped channel are left out. The correction is von Kries in Bradford's cone space, which fits the
    world better than factors on RGB; what an RGB renderer did with such factors it undoes nearly, not exactly.

    Each is an assumption about what the image shows, and a portrait breaks them: a face that fills the image *is*
    the mean of it, and is made greyer the more it fills. That is why ``none`` is the default.

    Args:
        pixels: uint8, or floats from 0 to 255, shape (H, W, 3).
        method: one of ``ILLUMINATIONS``; ``none`` corrects nothing.
    Raises:
        ValueError: an unknown method.
    """
    if method not in ILLUMINATIONS:
        raise ValueError(f"illumination must be one of {', '.join(ILLUMINATIONS)}; got {method!r}")
    nothing = Light(method, np.ones(3), np.eye(3))
    if method == "none":
        return nothing
    flat = _as_bytes(_checked(pixels)).reshape(-1, 3)
    kept = _peak(flat) < CLIPPED_FROM
    if not kept.any():
        return nothing
    # Counts of levels tell all that is asked of millions of pixels.
    counts = [np.bincount(flat[:, i][kept], minlength=256) for i in range(3)]
    if method == "white-patch":
        rgb = _LINEAR[[int(np.searchsorted(np.cumsum(count), PATCH_SHARE * kept.sum())) for count in counts]]
    else:
        power = SHADES_P if method == "shades-of-grey" else 1
        rgb = (np.array(counts) @ _LINEAR**power / kept.sum()) ** (1 / power)
    if rgb.max() <= 0:
        return nothing
    rgb = rgb / rgb.max()
    cones = _BRADFORD @ LINEAR_TO_XYZ
    seen = cones @ (rgb / luminance(rgb))  # positive for all colours: the responses to all three primaries are
    xyz = np.linalg.inv(_BRADFORD) @ np.diag(_BRADFORD @ WHITE_XYZ / seen) @ cones
    return Light(method, rgb, np.linalg.inv(LINEAR_TO_XYZ) @ xyz)


# --------------------------------------------------------------------------------------------------------------------
# Averages
# --------------------------------------------------------------------------------------------------------------------
def geometric_median(points: Floats, *, tolerance: float = 1e-5, limit: int = 200) -> Floats:
    """The point with the least sum of distances to ``points`` (N, D), N >= 1: unmoved by up to half of them.

    Unlike the median of each coordinate it does not depend on how the axes lie, so it is a colour of the cloud.
    Weiszfeld's iteration from the mean, with distances rounded off below a thousandth of its length, until a step is
    shorter than ``tolerance`` of that length.
    """
    axes = np.ascontiguousarray(np.transpose(points), dtype=np.float64)
    middle = axes.mean(axis=1)
    length = float(np.linalg.norm(middle)) or float(np.abs(axes).max()) or 1.0
    for _ in range(limit):
        away = axes - middle[:, None]
        weights = 1 / np.sqrt(np.square(away).sum(axis=0) + (1e-3 * length) ** 2)
        step = away @ weights / weights.sum()
        middle = middle + step
        if float(np.linalg.norm(step)) < tolerance * length:
            break
    return np.asarray(middle)


def average_linear(linear: Floats, average: Average = "median") -> tuple[Floats, int]:
    """One colour for linear-light colours (N, 3), N >= 1, and the number of pixels behind it.

    ``median``: highlights and deep shadows left out (more than twice, less than half the luminance of the middle
    pixel), then the geometric median. ``trimmed``: the mean of the half of the pixels in the middle by luminance.
    ``mean``: of all, which a highlight of few pixels can move far.

    Raises:
        ValueError: an unknown average, or no pixels.
    """
    if average not in AVERAGES:
        raise ValueError(f"average must be one of {', '.join(AVERAGES)}; got {average!r}")
    if not len(linear):
        raise ValueError("average_linear: there must be at least one colour; got none")
    if average == "mean":
        return np.full(len(linear), 1 / len(linear)) @ linear, len(linear)  # ten times faster than numpy's mean
    light = luminance(linear)
    if average == "median":
        middle = np.median(light)
        kept = linear[(light >= middle / BAND) & (light <= middle * BAND)]
        return geometric_median(kept), len(kept)
    low, high = np.quantile(light, (TRIM, 1 - TRIM), method="nearest")
    kept = linear[(light >= low) & (light <= high)]
    return np.asarray(kept.mean(axis=0)), len(kept)


# --------------------------------------------------------------------------------------------------------------------
# A region of skin
# --------------------------------------------------------------------------------------------------------------------
def measure_skin(
    pixels: NDArray[Any],
    mask: NDArray[Any],
    *,
    average: Average = "median",
    illumination: Illumination | Light = "none",
    min_pixels: int = MIN_PIXELS,
) -> SkinColour:
    """Colour and tone of the skin that a mask marks, in all three ways, and whether it may be used.

    States, the first that holds: ``no_skin``, fewer than ``min_pixels`` pixels in the mask; ``clipped``, more than half
    of them have a channel of 254 or more, or none above 4; ``grey``, 95 % of them differ between channels by no more
    than 4 % or 2 levels (with a correction for light: and 95 % of the image, too), so the image is black and white.
    A sepia image passes: one hue is also what a face has.

    Clipped and crushed pixels enter no average but ``mean``, unless all are. Nothing asks whether the colour looks like
    skin, as any such rule throws out some people's; a colour far from all swatches is noted.

    Args:
        pixels: the whole image, sRGB, (H, W, 3): uint8, or floats from 0 to 255 (rounded for the published ways).
        mask: (H, W), bool or share of skin from 0 to 1; from 0.5 on a pixel counts, for the released way above 0.
        average: see `average_linear`.
        illumination: how to estimate the light that is corrected for, or the light of the image if it is known from
            `estimate_light`, which saves time where an image has many faces.
        min_pixels: at least 1.
    Raises:
        ValueError: shapes that do not fit, values out of range, unknown names.
    """
    image = _checked(pixels)
    weight = np.asarray(mask)
    if weight.shape != image.shape[:2]:
        raise ValueError(f"mask must have the shape of the image, {image.shape[:2]}; got {weight.shape}")
    if average not in AVERAGES:
        raise ValueError(f"average must be one of {', '.join(AVERAGES)}; got {average!r}")
    if min_pixels < 1:
        raise ValueError(f"min_pixels must be at least 1; got {min_pixels}")
    light = illumination if isinstance(illumination, Light) else estimate_light(image, illumination)

    touched = weight > 0
    rows, columns = (np.flatnonzero(touched.any(axis=axis)) for axis in (1, 0))
    if len(rows):  # nothing outside is looked at, and a face is a small part of most images
        box = slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
        weight, touched, image_box = weight[box], touched[box], image[box]
    else:
        image_box = image
    levels = np.take(image_box.reshape(-1, 3), np.flatnonzero(touched), axis=0)  # quicker than by a mask
    as_bytes = _as_bytes(levels)
    released = released_mean_ita(as_bytes)
    if weight.dtype == bool:
        region, region_bytes = levels, as_bytes
    else:
        chosen = weight[touched] >= 0.5
        region, region_bytes = levels[chosen], as_bytes[chosen]
    rgb_tone, _, _ = rule_tone(region_bytes)
    if len(region):
        peak = _peak(region_bytes)
        lost = (peak >= CLIPPED_FROM) | (peak <= CRUSHED_TO)
        usable = region if average == "mean" or lost.all() or not lost.any() else region[~lost]
        linear, n_used = average_linear(_linear(usable), average)
        linear = light.matrix @ linear
    else:
        linear, n_used = np.full(3, np.nan), 0

    colour = lab_of_linear(linear)
    ita, tone = float(ita_deg(colour)), int(tone_by_colour(colour))
    difference = float(ciede2000(colour, MONK_LAB[tone - 1])) if tone else float("nan")
    state, note = _state(image, region_bytes, light, min_pixels)
    if state == "ok":
        note = _remarks(light, tone, difference)
    red, green, blue = np.clip(255 * linear_to_srgb(linear), 0, 255).tolist()
    lightness, a, b = colour.tolist()
    return SkinColour(
        n_pixels=n_used,
        rgb255=(red, green, blue),
        ita_deg=ita,
        tone=tone,
        tone_by_ita=int(tone_by_ita(ita)),
        released_ita_deg=released,
        released_tone=int(released_tone(released)),
        rgb_tone=rgb_tone,
        state=state,
        note=note,
        lab=(lightness, a, b),
        delta_e=difference,
    )


def _state(image: NDArray[Any], region: NDArray[np.uint8], light: Light, min_pixels: int) -> tuple[SkinState, str]:
    if (n := len(region)) < min_pixels:
        return "no_skin", f"{n:,} pixels of skin; at least {min_pixels:,} are needed"
    peak = _peak(region)
    bright, dark = float(np.mean(peak >= CLIPPED_FROM)), float(np.mean(peak <= CRUSHED_TO))
    if bright + dark > MAX_LOST:
        return "clipped", (
            f"{bright:.0%} of {n:,} pixels overexposed (a channel of {CLIPPED_FROM} or more), "
            f"{dark:.0%} black (no channel above {CRUSHED_TO}); at most {MAX_LOST:.0%} may be"
        )
    grey = float(np.mean(_is_grey(region)))
    if grey >= GREY_SHARE:
        # Coloured light can make skin neutral; a correction brings it back unless the whole image is without colour.
        everywhere = float(np.mean(_is_grey(_as_bytes(image).reshape(-1, 3))))
        if light.method == "none" or everywhere >= GREY_SHARE:
            return "grey", f"{grey:.0%} of {n:,} pixels of the skin are grey, {everywhere:.0%} of the image"
    return "ok", ""


def _remarks(light: Light, tone: int, difference: float) -> str:
    remarks = []
    if light.method != "none":
        red, green, blue = light.rgb.tolist()
        remarks.append(f"{light.method}: light {red:.2f} {green:.2f} {blue:.2f}")
    if difference > FAR:
        remarks.append(f"far from every tone: CIEDE2000 {difference:.1f} to tone {tone}")
    return "; ".join(remarks)


def _is_grey(pixels: NDArray[np.uint8]) -> Bools:
    """Which of (N, 3) pixels have channels so alike that they tell no hue."""
    peak = _peak(pixels)
    spread = peak - np.minimum(np.minimum(pixels[:, 0], pixels[:, 1]), pixels[:, 2])
    return np.asarray(spread <= np.maximum(GREY_SPREAD_LEVELS, GREY_SPREAD_SHARE * peak))


def _peak(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The largest channel of (N, 3) pixels; ten times faster than ``max`` along an axis of three."""
    return np.maximum(np.maximum(pixels[:, 0], pixels[:, 1]), pixels[:, 2])


def _checked(pixels: NDArray[Any]) -> NDArray[Any]:
    array = np.asarray(pixels)
    if array.ndim != 3 or array.shape[-1] != 3:
        raise ValueError(f"pixels must have shape (H, W, 3); got {array.shape}")
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind != "f":
        raise ValueError(f"pixels must be uint8, or floats from 0 to 255; got {array.dtype}")
    if array.size and not (array.min() >= 0 and array.max() <= 255):  # NaN fails, too
        raise ValueError(f"pixels must lie from 0 to 255; got {array.min():g} to {array.max():g}")
    return array


def _as_bytes(levels: NDArray[Any]) -> NDArray[np.uint8]:
    return levels if levels.dtype == np.uint8 else np.rint(levels).astype(np.uint8)


def _linear(levels: NDArray[Any]) -> Floats:
    return np.asarray(_LINEAR[levels] if levels.dtype == np.uint8 else srgb_to_linear(levels / 255.0))
