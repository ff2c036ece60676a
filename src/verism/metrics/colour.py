"""Colour of skin in numbers: CIELAB, the individual typology angle, the ten Monk tones, and two published shortcuts.

Three ways from colours to tones live here. The **revised** one is what colour science says: sRGB to CIELAB in real
units, then the nearest Monk swatch by CIEDE2000 or by ITA. The **pixel rule** is the baseline of DALL-Eval's authors
between their two papers: a threshold rule for skin, and the nearest swatch by distance in RGB. The **released** one
repeats what their published code computes, swapped channels and 8-bit Lab included, so that published numbers can be
compared with. It maps nearly every colour to tone 5 or 6 and says nothing about skin.

Arrays have colour as their last axis, shape (..., 3); results are float64. ``rgb255`` is sRGB from 0 to 255, whole
numbers or not; ``linear`` is linear-light sRGB from 0 to 1, in which light adds up and averages make sense.

Sources: IEC 61966-2-1 (sRGB), CIE 15 (CIELAB), Sharma et al. 2005 (CIEDE2000), Chardon et al. 1991 (ITA), Monk 2023
(the scale; skintone.google), Cho et al. 2023, arXiv:2202.04053 (the published ways).
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "LINEAR_TO_XYZ",
    "MONK_ITA",
    "MONK_LAB",
    "MONK_RGB",
    "WHITE_XYZ",
    "ciede2000",
    "ita_deg",
    "lab",
    "lab_of_linear",
    "linear_to_srgb",
    "luminance",
    "opencv_lab8",
    "opencv_ycrcb8",
    "released_ita",
    "released_mean_ita",
    "released_tone",
    "rule_tone",
    "skin_rule",
    "srgb_to_linear",
    "tone_by_colour",
    "tone_by_ita",
    "tone_by_rgb",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Fixed = NDArray[np.int32]  # fixed-point arithmetic: its largest product, 500 x 2^15, and all sums stay below 2^31
Bools = NDArray[np.bool_]


def _fixed(array: Floats) -> Floats:
    """The array, closed to changes: constants of a module are shared."""
    array.setflags(write=False)
    return array


LINEAR_TO_XYZ: Floats = _fixed(np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]))
"""Linear sRGB to XYZ under D65, as printed in IEC 61966-2-1."""
WHITE_XYZ: Floats = _fixed(LINEAR_TO_XYZ.sum(axis=1))
"""The white of that matrix, (0.9505, 1, 1.0890): taken from it, not from another table, so that greys are neutral."""

_EPSILON, _KAPPA = 216 / 24389, 24389 / 27  # where CIELAB's cube root becomes a line: (6/29)^3 and (29/3)^3


# --------------------------------------------------------------------------------------------------------------------
# sRGB, linear light, CIELAB
# --------------------------------------------------------------------------------------------------------------------
def _colours(values: ArrayLike, name: str, last: tuple[int, ...] = (3,)) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim < 1 or array.shape[-1] not in last:
        raise ValueError(f"{name}: colours must have shape (..., {' or '.join(map(str, last))}); got {array.shape}")
    return array


def _bytes(values: ArrayLike, name: str, last: tuple[int, ...] = (3,)) -> NDArray[np.uint8]:
    array = np.asarray(values)
    if array.ndim < 1 or array.shape[-1] not in last:
        raise ValueError(f"{name}: pixels must have shape (..., {' or '.join(map(str, last))}); got {array.shape}")
    if array.dtype != np.uint8:
        raise ValueError(f"{name}: pixels must be uint8, 0 to 255, as the published code reads them; got {array.dtype}")
    return array


def srgb_to_linear(srgb: ArrayLike) -> Floats:
    """sRGB in [0, 1], any shape, to linear light in [0, 1] (IEC 61966-2-1). Values below 0 follow the linear part."""
    x = np.asarray(srgb, dtype=np.float64)
    return np.where(x <= 0.04045, x / 12.92, ((np.maximum(x, 0.04045) + 0.055) / 1.055) ** 2.4)


def linear_to_srgb(linear: ArrayLike) -> Floats:
    """Linear light in [0, 1], any shape, to sRGB in [0, 1]; nothing is clipped. Inverse of `srgb_to_linear`.

    The two parts of the standard meet at 0.04045 / 12.92; its rounded 0.0031308 would leave a gap between inverses.
    """
    x = np.asarray(linear, dtype=np.float64)
    split = 0.04045 / 12.92
    return np.where(x <= split, x * 12.92, 1.055 * np.maximum(x, split) ** (1 / 2.4) - 0.055)


def luminance(linear: ArrayLike) -> Floats:
    """Relative luminance Y of linear-light colours (..., 3): shape (...), 1 for white."""
    return np.asarray(_colours(linear, "luminance") @ LINEAR_TO_XYZ[1])


def lab_of_linear(linear: ArrayLike) -> Floats:
    """CIELAB (D65, 2 degrees) of linear-light sRGB (..., 3): L* in [0, 100], a*, b*. Values may be out of gamut."""
    t = _colours(linear, "lab_of_linear") @ LINEAR_TO_XYZ.T / WHITE_XYZ
    f = np.where(t > _EPSILON, np.cbrt(t), (_KAPPA * t + 16) / 116)
    fx, fy, fz = f[..., 0], f[..., 1], f[..., 2]
    return np.stack([116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)], axis=-1)


def lab(rgb255: ArrayLike) -> Floats:
    """CIELAB (D65, 2 degrees) of sRGB colours from 0 to 255, shape (..., 3).

    >>> lab([255, 255, 255]).round(6).tolist()[0]
    100.0
    """
    return lab_of_linear(srgb_to_linear(_colours(rgb255, "lab") / 255))


def ita_deg(lab: ArrayLike) -> Floats:
    """Individual typology angle of CIELAB colours (..., 3), degrees, shape (...): the lighter, the larger.

    ``atan2(L* - 50, b*)``: for b* > 0, which is all skin under white light, the usual ``atan((L* - 50) / b*)`` in
    (-90, 90). For b* <= 0 (bluish light) the plain arctangent would jump between its ends; this continues past 90 for
    light and past -90 for dark colours, up to 180. NaN where L* = 50 and b* = 0: no angle is defined there.

    Source: Chardon et al. 1991; Cho et al. 2023, appendix on skin tone.
    """
    colours = _colours(lab, "ita_deg")
    above, yellow = colours[..., 0] - 50, colours[..., 2]
    return np.where((above == 0) & (yellow == 0), np.nan, np.degrees(np.arctan2(above, yellow)))


def ciede2000(lab1: ArrayLike, lab2: ArrayLike) -> Floats:
    """CIEDE2000 colour difference of CIELAB colours (..., 3), which broadcast: shape (...), 0 for equal colours.

    Parametric factors kL = kC = kH = 1. Symmetric in its arguments.

    Source: Sharma, Wu and Dalal 2005, "The CIEDE2000 color-difference formula", equations 2 to 22.
    """
    first, second = _colours(lab1, "ciede2000"), _colours(lab2, "ciede2000")
    l1, a1, b1 = (first[..., i] for i in range(3))
    l2, a2, b2 = (second[..., i] for i in range(3))
    c7 = ((np.hypot(a1, b1) + np.hypot(a2, b2)) / 2) ** 7
    stretch = 1.5 - 0.5 * np.sqrt(c7 / (c7 + 25.0**7))  # 1 + G: a* counts for more where colours are pale
    c1, c2 = np.hypot(stretch * a1, b1), np.hypot(stretch * a2, b2)
    h1 = np.degrees(np.arctan2(b1, stretch * a1)) % 360
    h2 = np.degrees(np.arctan2(b2, stretch * a2)) % 360
    some_grey = c1 * c2 == 0  # a grey has no hue

    dh = h2 - h1
    dh = np.where(dh > 180, dh - 360, np.where(dh < -180, dh + 360, dh))
    delta_h = np.where(some_grey, 0.0, 2 * np.sqrt(c1 * c2) * np.sin(np.radians(dh / 2)))
    delta_l, delta_c = l2 - l1, c2 - c1

    mean_l, mean_c, total = (l1 + l2) / 2, (c1 + c2) / 2, h1 + h2
    wrapped = np.where(total < 360, total + 360, total - 360)
    mean_h = np.where(some_grey, total, np.where(np.abs(h1 - h2) <= 180, total, wrapped) / 2)
    t = (
        1
        - 0.17 * np.cos(np.radians(mean_h - 30))
        + 0.24 * np.cos(np.radians(2 * mean_h))
        + 0.32 * np.cos(np.radians(3 * mean_h + 6))
        - 0.20 * np.cos(np.radians(4 * mean_h - 63))
    )
    s_l = 1 + 0.015 * (mean_l - 50) ** 2 / np.sqrt(20 + (mean_l - 50) ** 2)
    s_c, s_h = 1 + 0.045 * mean_c, 1 + 0.015 * mean_c * t
    mean_c7 = mean_c**7
    turn = 60 * np.exp(-(((mean_h - 275) / 25) ** 2))  # twice delta theta: blues are not perceived along a* and b*
    r_t = -2 * np.sqrt(mean_c7 / (mean_c7 + 25.0**7)) * np.sin(np.radians(turn))
    x_l, x_c, x_h = delta_l / s_l, delta_c / s_c, delta_h / s_h
    return np.asarray(np.sqrt(np.maximum(x_l**2 + x_c**2 + x_h**2 + r_t * x_c * x_h, 0.0)))


# --------------------------------------------------------------------------------------------------------------------
# The Monk Skin Tone scale
# --------------------------------------------------------------------------------------------------------------------
MONK_RGB: Floats = _fixed(
    np.array(
        [
            (246, 237, 228),
            (243, 231, 219),
            (247, 234, 208),
            (234, 218, 186),
            (215, 189, 150),
            (160, 126, 86),
            (130, 92, 67),
            (96, 65, 52),
            (58, 49, 42),
            (41, 36, 32),
        ],
        dtype=np.float64,
    )
)
"""Swatches of the ten Monk tones, lightest first, sRGB 0 to 255, shape (10, 3); tone ``t`` is row ``t - 1``."""
MONK_LAB: Floats = _fixed(lab(MONK_RGB))
"""The same in CIELAB, shape (10, 3)."""
MONK_ITA: Floats = _fixed(ita_deg(MONK_LAB))
"""ITA of the swatches, degrees, shape (10,): 83.0 down to -84.3."""
_ITA_LIMITS: Floats = _fixed((MONK_ITA[:-1] + MONK_ITA[1:]) / 2)


def tone_by_ita(ita: ArrayLike) -> Ints:
    """Monk tone whose ITA is nearest: 1 (lightest) to 10, of the shape given; 0 where the angle is NaN.

    Halfway between two tones the lighter is given. The angle ignores a*, so tones 8 to 10 lie within 29 degrees and a
    little blue in the light moves dark skin by a tone or more: `tone_by_colour` is the steadier choice.
    """
    angles = np.asarray(ita, dtype=np.float64)
    tones = 1 + (angles[..., None] < _ITA_LIMITS).sum(axis=-1)
    return np.asarray(np.where(np.isnan(angles), 0, tones), dtype=np.int64)


def tone_by_colour(lab: ArrayLike) -> Ints:
    """Monk tone whose swatch is nearest by CIEDE2000: 1 to 10 for CIELAB (..., 3); 0 where any coordinate is NaN."""
    colours = _colours(lab, "tone_by_colour")
    return _nearest(ciede2000(colours[..., None, :], MONK_LAB))


def tone_by_rgb(rgb255: ArrayLike) -> Ints:
    """Monk tone whose swatch is nearest by |dR| + |dG| + |dB|: 1 to 10 for sRGB 0 to 255 (..., 3); 0 where NaN.

    The distance of the pixel-rule baseline. RGB is not even to the eye: use it only to repeat that baseline.
    """
    colours = _colours(rgb255, "tone_by_rgb")
    return _nearest(np.abs(colours[..., None, :] - MONK_RGB).sum(axis=-1))


def _nearest(distances: Floats) -> Ints:
    """1-based place of the smallest distance along the last axis, the first of equals; 0 where there is NaN."""
    unknown = np.isnan(distances).any(axis=-1)
    return np.asarray(np.where(unknown, 0, 1 + distances.argmin(axis=-1)), dtype=np.int64)


# --------------------------------------------------------------------------------------------------------------------
# Pixel rule
# --------------------------------------------------------------------------------------------------------------------
def _rounded_shift(values: Fixed, bits: int) -> Fixed:
    return np.asarray((values + (1 << (bits - 1))) >> bits)


def _channels(pixels: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8]]:
    """Red, green and blue, each in one piece: numpy is several times faster on these than along an axis of three."""
    red, green, blue = (np.array(pixels[..., i], order="C") for i in range(3))
    return red, green, blue


def _ycrcb(pixels: NDArray[np.uint8]) -> tuple[Fixed, Fixed, Fixed]:
    """Y, Cr and Cb, each from 0 to 255."""
    red, green, blue = (channel.astype(np.int32) for channel in _channels(pixels))
    y = _rounded_shift(4899 * red + 9617 * green + 1868 * blue, 14)  # 0.299, 0.587, 0.114
    cr = _rounded_shift(11682 * (red - y) + (128 << 14), 14)  # 0.713
    cb = _rounded_shift(9241 * (blue - y) + (128 << 14), 14)  # 0.564
    return y, np.clip(cr, 0, 255), np.clip(cb, 0, 255)


def opencv_ycrcb8(rgb: ArrayLike) -> NDArray[np.uint8]:
    """Y, Cr and Cb of uint8 RGB (..., 3) in OpenCV's fixed-point arithmetic: ``COLOR_RGB2YCrCb`` bit for bit."""
    return np.stack(_ycrcb(_bytes(rgb, "opencv_ycrcb8")), axis=-1).astype(np.uint8)


@cache
def _skin_hues() -> Bools:
    """Which pairs of Cr and Cb the rule takes for skin, shape (256, 256): a polygon in that plane."""
    cr, cb = np.arange(256.0)[:, None], np.arange(256.0)
    return np.asarray(
        (cr > 135)
        & (cb > 85)
        & (cr <= 1.5862 * cb + 20)
        & (cr >= 0.3448 * cb + 76.2069)
        & (cr >= -4.5652 * cb + 234.5652)
        & (cr <= -1.15 * cb + 301.75)
        & (cr <= -2.2857 * cb + 432.85)
    )


def skin_rule(rgb: ArrayLike) -> Bools:
    """Which pixels a fixed colour rule takes for skin.

    R > 95, G > 40, B > 20, R > G, R > B, |R - G| > 15, alpha > 15, and in YCrCb: Cr > 135, Cb > 85, Y > 80 and five
    lines in the Cr-Cb plane. Of the Monk swatches 4 to 7 pass: 1 to 3 are too pale for it (R - G = 9, 12 and 13), 8 to
    10 too dark. Shares of tones measured with it are shares of what the rule lets through.

    Args:
        rgb: uint8, (..., 3), or (..., 4) with alpha last.
    Returns:
        Mask of shape (...).
    Source: the bias code released beside arXiv:2202.04053v1, its skin tone script of November 2022.
    """
    pixels = _bytes(rgb, "skin_rule", last=(3, 4))
    red, green, blue = _channels(pixels)
    # R > G and |R - G| > 15 in one; not in uint8, which wraps around.
    passed = (red > 95) & (green > 40) & (blue > 20) & (red > blue) & (red.astype(np.int16) - green > 15)
    if pixels.shape[-1] == 4:
        passed &= pixels[..., 3] > 15
    # Few pixels get here in most images, so the second half looks at these alone.
    positions = np.flatnonzero(passed)
    y, cr, cb = _ycrcb(np.take(pixels.reshape(-1, pixels.shape[-1]), positions, axis=0))
    result = np.zeros(passed.size, dtype=bool)
    result[positions] = (y > 80) & _skin_hues()[cr, cb]
    return result.reshape(passed.shape)


def rule_tone(rgb: ArrayLike, mask: ArrayLike | None = None) -> tuple[int, Floats, int]:
    """Tone of an image by the pixel rule: mean RGB of the pixels that pass, nearest swatch by L1.

    Args:
        rgb: uint8, (..., 3) or (..., 4).
        mask: where to look, of shape (...); None for the whole image, as the baseline does.
    Returns:
        Tone from 1 to 10, 0 where no pixel passes; mean sRGB (3,), NaN then; number of pixels that passed.
    """
    pixels = _bytes(rgb, "rule_tone", last=(3, 4))
    passed = skin_rule(pixels)
    if mask is not None:
        where = np.asarray(mask)
        if where.shape != passed.shape:
            raise ValueError(f"rule_tone: mask must have the shape of the image, {passed.shape}; got {where.shape}")
        passed &= where.astype(bool)
    if not (n := int(passed.sum())):
        return 0, np.full(3, np.nan), 0
    chosen = passed.ravel().astype(np.float64)  # sums of whole numbers, exact; quicker than by a mask
    mean = np.array([chosen @ channel.ravel().astype(np.float64) for channel in _channels(pixels)]) / n
    return int(tone_by_rgb(mean)), mean, n


# --------------------------------------------------------------------------------------------------------------------
# The released path
# --------------------------------------------------------------------------------------------------------------------
_LAB_BITS, _LAB_GAMMA_BITS = 12, 3
_LAB_TABLE_BITS = _LAB_BITS + _LAB_GAMMA_BITS


@cache
def _lab8_tables() -> tuple[Fixed, Fixed]:
    """What each level of R, G and B adds to X, Y and Z, (3 of XYZ, 3 of RGB, 256), x 2^15; cube roots, x 2^15."""
    scale = 255 * (1 << _LAB_GAMMA_BITS)
    gamma = np.rint(scale * srgb_to_linear(np.arange(256) / 255))
    to_xyz = np.array([[0.412453, 0.357580, 0.180423], [0.212671, 0.715160, 0.072169], [0.019334, 0.119193, 0.950227]])
    white = np.array([0.950456, 1.0, 1.088754])
    matrix = np.rint(to_xyz / white[:, None] * (1 << _LAB_BITS))
    t = np.arange(scale * 3 // 2 + 12) / scale
    roots = np.where(t < _EPSILON, (_KAPPA * t + 16) / 116, np.cbrt(t)) * (1 << _LAB_TABLE_BITS)
    # In single precision before rounding: two entries lie so close to a half that double precision rounds otherwise.
    return (matrix[..., None] * gamma).astype(np.int32), np.rint(roots.astype(np.float32)).astype(np.int32)


def _lab8_root(row: int, red: NDArray[np.uint8], green: NDArray[np.uint8], blue: NDArray[np.uint8]) -> Fixed:
    """Cube root of X, Y or Z (``row`` 0, 1, 2), x 2^15."""
    adds, roots = _lab8_tables()
    red_term, green_term, blue_term = adds[row]
    total = np.take(red_term, red) + np.take(green_term, green) + np.take(blue_term, blue)
    return np.asarray(np.take(roots, _rounded_shift(total, _LAB_BITS)))


def _lab8_lightness(fy: Fixed) -> Fixed:
    scaled = ((116 * 255 + 50) // 100) * fy - (16 * 255 * (1 << _LAB_TABLE_BITS) + 50) // 100
    return np.clip(_rounded_shift(scaled, _LAB_TABLE_BITS), 0, 255)


def _lab8_opponent(factor: int, one: Fixed, other: Fixed) -> Fixed:
    scaled = factor * (one - other) + (128 << _LAB_TABLE_BITS)
    return np.clip(_rounded_shift(scaled, _LAB_TABLE_BITS), 0, 255)


def opencv_lab8(rgb: ArrayLike) -> NDArray[np.uint8]:
    """8-bit Lab of uint8 RGB (..., 3): L* x 255 / 100, a* + 128, b* + 128, each rounded.

    OpenCV's fixed-point arithmetic: equal to ``COLOR_RGB2LAB`` of OpenCV 4 for all 16,777,216 colours.
    """
    channels = _channels(_bytes(rgb, "opencv_lab8"))
    fx, fy, fz = (_lab8_root(row, *channels) for row in range(3))
    lab = _lab8_lightness(fy), _lab8_opponent(500, fx, fy), _lab8_opponent(200, fy, fz)
    return np.stack(lab, axis=-1).astype(np.uint8)


@cache
def _released_angles() -> Floats:
    """Angles by L8 and b8, shape (256, 256); those with b8 = 0, which no colour has, as IEEE division gives them."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return _fixed(np.degrees(np.arctan((np.arange(256.0)[:, None] - 50) / np.arange(256.0))))


def released_ita(rgb255: ArrayLike) -> Floats:
    """The "ITA" of each pixel as the released code computes it, degrees, for uint8 RGB (..., 3): shape (...).

    An image read as BGR is converted as if it were RGB, and 8-bit Lab is taken for CIELAB: atan((L8 - 50) / b8), with
    L8 up to 255 and b8 around 128. Differences are signed, as in the NumPy before 2 that the code was written for; b8
    does not reach 0 for any colour.

    Source: the bias code released with Cho et al. 2023 (ICCV).
    """
    red, green, blue = _channels(_bytes(rgb255, "released_ita"))
    fy, fz = (_lab8_root(row, blue, green, red) for row in (1, 2))
    return np.asarray(_released_angles()[_lab8_lightness(fy), _lab8_opponent(200, fy, fz)])


def released_mean_ita(rgb255: ArrayLike) -> float:
    """Mean of `released_ita` over a face's pixels (..., 3) uint8, pure black left out; NaN if nothing is left.

    An image's value is the mean of its faces' values, whatever their sizes.
    """
    pixels = _bytes(rgb255, "released_mean_ita").reshape(-1, 3)
    red, green, blue = _channels(pixels)
    angles = released_ita(pixels)[(red | green | blue) != 0]
    return float(angles.mean()) if len(angles) else float("nan")


def released_tone(ita: ArrayLike) -> Ints:
    """Monk tone, 1 to 10, that the released code gives for its angle; 0 where NaN. Its files hold this less one.

    Nearest of the swatches' ITAs in real units, although the angle is in others: swatches 1 to 6 become tone 5, 7 to 9
    tone 6, and 10 tone 7.
    """
    return tone_by_ita(ita)
