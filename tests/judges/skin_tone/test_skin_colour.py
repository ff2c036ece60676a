"""Measuring a region of skin: what is left out, what light does, and when the colour is not to be used."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verism.judges.skin_tone import colour as skin
from verism.judges.skin_tone.colour import AVERAGES, ILLUMINATIONS, estimate_light, geometric_median, measure_skin
from verism.metrics.colour import LINEAR_TO_XYZ, MONK_ITA, MONK_RGB, linear_to_srgb, srgb_to_linear

RELEASED = (5, 5, 5, 5, 5, 5, 6, 6, 6, 7)
SIX = (160, 126, 86)


def flat(rgb: Any, size: int = 20) -> np.ndarray:
    return np.full((size, size, 3), rgb, dtype=np.uint8)


def everywhere(image: np.ndarray) -> np.ndarray:
    return np.ones(image.shape[:2], dtype=bool)


def lit(rgb: Any, light: Any) -> np.ndarray:
    """sRGB levels of a colour under more, less or coloured light (factors on linear values)."""
    linear = srgb_to_linear(np.asarray(rgb) / 255) * np.asarray(light)
    return np.rint(255 * linear_to_srgb(np.clip(linear, 0, 1))).astype(np.uint8)


# ---------------------------------------------------------------------------------------------------- flat swatches
@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("tone", range(1, 11))
def test_a_flat_swatch_is_its_tone(tone, average):
    image = flat(MONK_RGB[tone - 1])
    result = measure_skin(image, everywhere(image), average=average)
    assert result.rgb255 == pytest.approx(tuple(MONK_RGB[tone - 1]))
    assert result.ita_deg == pytest.approx(MONK_ITA[tone - 1])
    assert (result.tone, result.tone_by_ita, result.released_tone) == (tone, tone, RELEASED[tone - 1])
    assert (result.state, result.note, result.n_pixels) == ("ok", "", 400)
    assert result.delta_e == pytest.approx(0, abs=1e-6)
    assert result.rgb_tone == (tone if 4 <= tone <= 7 else 0)


def test_only_the_mask_is_measured():
    image = flat((0, 0, 255))
    image[5:15, 5:15] = SIX
    mask = np.zeros((20, 20), dtype=bool)
    mask[5:15, 5:15] = True
    result = measure_skin(image, mask)
    assert result.rgb255 == pytest.approx(SIX)
    assert result.n_pixels == 100


def test_soft_masks_count_from_a_half_and_anywhere_for_the_released_way():
    image = np.vstack([flat(SIX), flat((41, 36, 32))])
    mask = np.vstack([np.full((20, 20), 0.5), np.full((20, 20), 0.1)])
    result = measure_skin(image, mask)
    assert (result.tone, result.n_pixels) == (6, 400)
    both = [measure_skin(part, everywhere(part)).released_ita_deg for part in (image[:20], image[20:])]
    assert result.released_ita_deg == pytest.approx(np.mean(both))


def test_floats_are_the_same_images():
    image = np.random.default_rng(0).integers(40, 220, (12, 12, 3), dtype=np.uint8)
    assert measure_skin(image.astype(np.float64), everywhere(image)) == measure_skin(image, everywhere(image))


# ---------------------------------------------------------------------------------------------------------- averages
@pytest.mark.parametrize("average", ["median", "trimmed"])
def test_highlights_and_shadows_do_not_move_the_colour(average):
    image = flat(SIX)
    image[:4] = (250, 250, 250)  # 20 %: the lamp, reflected
    image[4:6] = (30, 22, 16)  # 10 %: shadow
    result = measure_skin(image, everywhere(image), average=average)
    assert result.rgb255 == pytest.approx(SIX, abs=0.5)
    plain = measure_skin(image, everywhere(image), average="mean")
    assert plain.ita_deg > result.ita_deg + 15
    assert plain.n_pixels == 400 > result.n_pixels


def test_the_mean_is_that_of_light_not_of_levels():
    image = flat((0, 100, 50))
    image[:10] = (200, 100, 50)
    result = measure_skin(image, everywhere(image), average="mean")
    # half the light of level 200: ((200/255 + 0.055) / 1.055)^2.4 = 0.5776; sRGB of 0.2888 is 0.5738, level 146.3
    assert result.rgb255 == pytest.approx((146.3, 100, 50), abs=0.05)


def test_the_median_is_of_colours_not_of_channels():
    # Three colours in equal parts: the median of each channel would be the grey (0.2, 0.2, 0.2), darker than all.
    corners = np.array([[0.5, 0.2, 0.2], [0.2, 0.5, 0.2], [0.2, 0.2, 0.5]])
    result = geometric_median(np.repeat(corners, 5, axis=0))
    assert result == pytest.approx([0.3, 0.3, 0.3], abs=1e-3)  # by symmetry


@given(st.integers(0, 1_000), st.tuples(*[st.floats(0.05, 0.4)] * 3), st.floats(0.1, 2.0))
def test_geometric_median_moves_and_scales_with_its_points(seed, shift, factor):
    points = np.random.default_rng(seed).uniform(0.1, 0.5, (30, 3))
    middle = geometric_median(points)
    assert geometric_median(points[::-1] * factor) == pytest.approx(middle * factor, abs=1e-4)
    assert geometric_median(points + shift) == pytest.approx(middle + shift, abs=1e-3)
    sums = [np.linalg.norm(points - at, axis=1).sum() for at in (middle, *(middle + 0.02 * d for d in np.eye(3)))]
    assert min(sums) == sums[0]


def test_geometric_median_is_unmoved_by_less_than_half():
    points = np.vstack([np.full((60, 3), 0.2), np.full((40, 3), 0.9)])
    assert geometric_median(points) == pytest.approx([0.2] * 3, abs=2e-3)


def test_evenly_shaded_skin_keeps_its_hue():
    shades = np.linspace(0.6, 1.1, 20)
    image = np.stack([[lit(SIX, s) for s in shades]] * 20)
    flat_lab = measure_skin(flat(SIX), np.ones((20, 20))).lab
    for average in AVERAGES:
        result = measure_skin(image, everywhere(image), average=average)
        assert math.atan2(result.lab[2], result.lab[1]) == pytest.approx(math.atan2(flat_lab[2], flat_lab[1]), abs=0.03)
        assert result.tone == 6


# ------------------------------------------------------------------------------------------------------------- light
def scene(light: Any, tone: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Grey wall of many levels with a brighter patch and a patch of skin, under a light of luminance 1."""
    grey = np.linspace(60, 200, 1600).reshape(40, 40, 1).repeat(3, axis=2)
    grey[:4, :20] = 225
    light = np.broadcast_to(light, 3) / (LINEAR_TO_XYZ[1] @ np.broadcast_to(light, 3))
    grey[20:30, 20:30] = MONK_RGB[tone - 1]
    mask = np.zeros((40, 40), dtype=bool)
    mask[20:30, 20:30] = True
    return lit(grey, light), mask


@pytest.mark.parametrize("method", ["grey-world", "shades-of-grey", "white-patch"])
@pytest.mark.parametrize("tone", [5, 8])
def test_coloured_light_is_undone_where_its_assumption_holds(method, tone):
    # Grey-world is a little off by the patch of skin itself. The warm light is that of a lamp of about 4,500 K.
    image, mask = scene((1.0, 0.8, 0.6), tone)
    seen, corrected = measure_skin(image, mask), measure_skin(image, mask, illumination=method)
    off_seen, off_corrected = abs(seen.ita_deg - MONK_ITA[tone - 1]), abs(corrected.ita_deg - MONK_ITA[tone - 1])
    assert off_corrected < off_seen / 2
    assert corrected.tone == tone
    assert corrected.note.startswith(f"{method}: light 1.00 0.")


def test_white_light_is_left_as_it_is():
    image, mask = scene((1.0, 1.0, 1.0))
    assert estimate_light(image, "white-patch").rgb == pytest.approx([1, 1, 1])
    assert measure_skin(image, mask, illumination="white-patch").rgb255 == pytest.approx(SIX, abs=1e-6)


def test_correction_takes_the_light_to_white_and_keeps_luminance():
    image, _ = scene((1.0, 0.7, 0.5))
    light = estimate_light(image, "grey-world")
    white = light.matrix @ (light.rgb / (LINEAR_TO_XYZ[1] @ light.rgb))
    assert white == pytest.approx([1, 1, 1])
    assert estimate_light(image).matrix.tolist() == np.eye(3).tolist()


def test_light_may_be_given_once_for_many_faces():
    image, mask = scene((1.0, 0.8, 0.6))
    for method in ILLUMINATIONS:
        assert measure_skin(image, mask, illumination=estimate_light(image, method)) == measure_skin(
            image, mask, illumination=method
        )


@pytest.mark.parametrize("method", ILLUMINATIONS)
@pytest.mark.parametrize("level", [0, 255])
def test_nothing_to_estimate_light_from(method, level):
    light = estimate_light(flat((level, level, level)), method)
    assert light.rgb.tolist() == [1, 1, 1]
    assert light.matrix.tolist() == np.eye(3).tolist()


# ------------------------------------------------------------------------------------------------------------ states
def test_no_skin_says_how_many_pixels():
    image = flat(SIX)
    mask = np.zeros((20, 20), dtype=bool)
    mask[:7, :7] = True
    result = measure_skin(image, mask)
    assert (result.state, result.note) == ("no_skin", "49 pixels of skin; at least 50 are needed")
    assert measure_skin(image, mask, min_pixels=49).state == "ok"


def test_an_empty_mask_has_no_numbers():
    result = measure_skin(flat(SIX), np.zeros((20, 20)))
    assert result.state == "no_skin"
    assert (result.n_pixels, result.tone, result.tone_by_ita, result.released_tone, result.rgb_tone) == (0, 0, 0, 0, 0)
    assert np.isnan([*result.rgb255, *result.lab, result.ita_deg, result.released_ita_deg, result.delta_e]).all()


def test_overexposed_skin_is_clipped():
    image = flat((255, 230, 200))
    image[:9] = (240, 215, 190)
    result = measure_skin(image, everywhere(image))
    assert result.state == "clipped"
    assert result.note.startswith("55% of 400 pixels overexposed (a channel of 254 or more), 0% black")
    assert result.rgb255 == pytest.approx((240, 215, 190))  # of the pixels that are not clipped, as evidence
    image[:10] = (240, 215, 190)
    assert measure_skin(image, everywhere(image)).state == "ok"


def test_black_is_clipped_below():
    image = flat((4, 2, 0))
    assert measure_skin(image, everywhere(image)).state == "clipped"


def test_black_and_white_images_are_grey():
    ramp = np.arange(40, 240, dtype=np.uint8).reshape(10, 20, 1).repeat(3, axis=2)
    result = measure_skin(ramp, everywhere(ramp))
    assert (result.state, result.note) == ("grey", "100% of 200 pixels of the skin are grey, 100% of the image")
    tinted = ramp + np.array([2, 0, 1], np.uint8)  # what a compressed one looks like
    assert measure_skin(tinted, everywhere(tinted)).state == "grey"


def test_a_grey_face_in_a_coloured_image_is_grey_unless_light_is_corrected_for():
    # Skin under light of just its complement: neutral in an image that is not.
    image, mask = scene(1.0)
    linear = srgb_to_linear(np.array(SIX) / 255)
    image = lit(image, linear.min() / linear)
    assert measure_skin(image, mask).state == "grey"
    corrected = measure_skin(image, mask, illumination="white-patch")
    assert corrected.state == "ok"
    hue = srgb_to_linear(np.array(corrected.rgb255) / 255)
    # Not exact: light that strong acts on each channel here, and is undone in cones. Without it all three would be 1.
    assert hue / hue.max() == pytest.approx(linear / linear.max(), abs=0.1)


@pytest.mark.parametrize("light", [1.0, 0.25])
@pytest.mark.parametrize("tone", range(1, 11))
def test_no_tone_is_taken_for_grey_or_clipped_even_in_a_quarter_of_the_light(tone, light):
    image = flat(lit(MONK_RGB[tone - 1], light))
    assert measure_skin(image, everywhere(image)).state == "ok"


def test_a_colour_far_from_all_tones_is_noted_not_refused():
    image = flat((0, 0, 200))
    result = measure_skin(image, everywhere(image))
    assert result.state == "ok"
    assert result.note.startswith("far from every tone: CIEDE2000 ")
    assert result.delta_e > skin.FAR


# --------------------------------------------------------------------------------------------------------- bad input
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pixels": np.zeros((4, 4), np.uint8)}, r"pixels must have shape \(H, W, 3\); got \(4, 4\)"),
        ({"pixels": np.zeros((20, 20, 3), np.int64)}, "pixels must be uint8, or floats from 0 to 255; got int64"),
        ({"pixels": np.full((20, 20, 3), 300.0)}, "pixels must lie from 0 to 255; got 300 to 300"),
        ({"pixels": np.full((20, 20, 3), np.nan)}, "pixels must lie from 0 to 255; got nan"),
        ({"mask": np.ones((4, 4))}, r"mask must have the shape of the image, \(20, 20\); got \(4, 4\)"),
        ({"average": "mode"}, "average must be one of median, trimmed, mean; got 'mode'"),
        ({"illumination": "sun"}, "illumination must be one of none, grey-world, .*; got 'sun'"),
        ({"min_pixels": 0}, "min_pixels must be at least 1; got 0"),
    ],
)
def test_bad_input_is_named(changes, message):
    given_: dict[str, Any] = {"pixels": flat(SIX), "mask": np.ones((20, 20))} | changes
    with pytest.raises(ValueError, match=message):
        measure_skin(given_.pop("pixels"), given_.pop("mask"), **given_)
