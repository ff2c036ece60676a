"""Colour and tone: published values of the swatches, published colour differences, and OpenCV bit for bit."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from verism.metrics import colour

# tone, sRGB, CIELAB, ITA, tone that the released code gives for the swatch. Computed by others from the swatches of
# skintone.google; their last digits hang on the digits of the matrix and of the white.
MONK = [
    (1, (246, 237, 228), (94.211, 1.503, 5.422), 83.0082, 5),
    (2, (243, 231, 219), (92.275, 2.061, 7.280), 80.2292, 5),
    (3, (247, 234, 208), (93.091, 0.216, 14.205), 71.7551, 5),
    (4, (234, 218, 186), (87.573, 0.459, 17.748), 64.7158, 5),
    (5, (215, 189, 150), (77.902, 3.471, 23.136), 50.3349, 5),
    (6, (160, 126, 86), (55.142, 7.783, 26.740), 10.8849, 5),
    (7, (130, 92, 67), (42.470, 12.325, 20.530), -20.1420, 6),
    (8, (96, 65, 52), (30.678, 11.667, 13.335), -55.3887, 6),
    (9, (58, 49, 42), (21.069, 2.690, 5.964), -78.3519, 6),
    (10, (41, 36, 32), (14.610, 1.482, 3.525), -84.3118, 7),
]
BOUNDARIES = (81.619, 75.992, 68.235, 57.525, 30.610, -4.629, -37.765, -66.870, -81.332)

# Sharma, Wu and Dalal 2005, Table 1: L*, a*, b* of two colours and their difference.
SHARMA = [
    ((50.0000, 2.6772, -79.7751), (50.0000, 0.0000, -82.7485), 2.0425),
    ((50.0000, 3.1571, -77.2803), (50.0000, 0.0000, -82.7485), 2.8615),
    ((50.0000, 2.8361, -74.0200), (50.0000, 0.0000, -82.7485), 3.4412),
    ((50.0000, -1.3802, -84.2814), (50.0000, 0.0000, -82.7485), 1.0000),
    ((50.0000, -1.1848, -84.8006), (50.0000, 0.0000, -82.7485), 1.0000),
    ((50.0000, -0.9009, -85.5211), (50.0000, 0.0000, -82.7485), 1.0000),
    ((50.0000, 0.0000, 0.0000), (50.0000, -1.0000, 2.0000), 2.3669),
    ((50.0000, -1.0000, 2.0000), (50.0000, 0.0000, 0.0000), 2.3669),
    ((50.0000, 2.4900, -0.0010), (50.0000, -2.4900, 0.0009), 7.1792),
    ((50.0000, 2.4900, -0.0010), (50.0000, -2.4900, 0.0010), 7.1792),
    ((50.0000, 2.4900, -0.0010), (50.0000, -2.4900, 0.0011), 7.2195),
    ((50.0000, 2.4900, -0.0010), (50.0000, -2.4900, 0.0012), 7.2195),
    ((50.0000, -0.0010, 2.4900), (50.0000, 0.0009, -2.4900), 4.8045),
    ((50.0000, -0.0010, 2.4900), (50.0000, 0.0010, -2.4900), 4.8045),
    ((50.0000, -0.0010, 2.4900), (50.0000, 0.0011, -2.4900), 4.7461),
    ((50.0000, 2.5000, 0.0000), (50.0000, 0.0000, -2.5000), 4.3065),
    ((50.0000, 2.5000, 0.0000), (73.0000, 25.0000, -18.0000), 27.1492),
    ((50.0000, 2.5000, 0.0000), (61.0000, -5.0000, 29.0000), 22.8977),
    ((50.0000, 2.5000, 0.0000), (56.0000, -27.0000, -3.0000), 31.9030),
    ((50.0000, 2.5000, 0.0000), (58.0000, 24.0000, 15.0000), 19.4535),
    ((50.0000, 2.5000, 0.0000), (50.0000, 3.1736, 0.5854), 1.0000),
    ((50.0000, 2.5000, 0.0000), (50.0000, 3.2972, 0.0000), 1.0000),
    ((50.0000, 2.5000, 0.0000), (50.0000, 1.8634, 0.5757), 1.0000),
    ((50.0000, 2.5000, 0.0000), (50.0000, 3.2592, 0.3350), 1.0000),
    ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
    ((63.0109, -31.0961, -5.8663), (62.8187, -29.7946, -4.0864), 1.2630),
    ((61.2901, 3.7196, -5.3901), (61.4292, 2.2480, -4.9620), 1.8731),
    ((35.0831, -44.1164, 3.7933), (35.0232, -40.0716, 1.5901), 1.8645),
    ((22.7233, 20.0904, -46.6940), (23.0331, 14.9730, -42.5619), 2.0373),
    ((36.4612, 47.8580, 18.3852), (36.2715, 50.5065, 21.2231), 1.4146),
    ((90.8027, -2.0831, 1.4410), (91.1528, -1.6435, 0.0447), 1.4441),
    ((90.9257, -0.5406, -0.9208), (88.6381, -0.8985, -0.7239), 1.5381),
    ((6.7747, -0.2908, -2.4247), (5.8714, -0.0985, -2.2286), 0.6377),
    ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
]

rgb_pixels = arrays.arrays(np.uint8, st.tuples(st.integers(1, 20), st.just(3)))


def random_rgb(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, 3), dtype=np.uint8)


# ---------------------------------------------------------------------------------------------- sRGB and CIELAB
def test_srgb_by_hand():
    # IEC 61966-2-1: 0.04 / 12.92; ((0.5 + 0.055) / 1.055)^2.4 = 0.526066^2.4 = 0.214041
    result = colour.srgb_to_linear([0.0, 0.04, 0.5, 1.0])
    assert result == pytest.approx([0, 0.04 / 12.92, 0.2140411, 1.0], abs=1e-7)


@given(arrays.arrays(np.float64, 10, elements=st.floats(0, 1)))
def test_linear_and_srgb_are_inverse(srgb):
    assert colour.linear_to_srgb(colour.srgb_to_linear(srgb)) == pytest.approx(srgb, abs=1e-12)
    assert colour.srgb_to_linear(colour.linear_to_srgb(srgb)) == pytest.approx(srgb, abs=1e-12)


def test_greys_have_no_hue_and_white_is_100():
    levels = np.arange(256)
    greys = colour.lab(np.stack([levels] * 3, axis=-1))
    assert np.abs(greys[:, 1:]).max() < 1e-10
    assert greys[255, 0] == pytest.approx(100, abs=1e-10)
    assert greys[0, 0] == pytest.approx(0, abs=1e-10)
    assert (np.diff(greys[:, 0]) > 0).all()


def test_lab_is_that_of_skimage_but_for_the_digits_of_matrix_and_white():
    convert = pytest.importorskip("skimage.color").rgb2lab
    pixels = random_rgb(20_000)
    # skimage: 6-digit matrix of another source, white 0.95047, 1, 1.08883; the largest difference seen is 0.020.
    assert np.abs(colour.lab(pixels) - convert(pixels / 255)).max() < 0.03


def test_lab_keeps_shape_and_is_that_of_linear_light():
    pixels = random_rgb(24).reshape(2, 3, 4, 3)
    result = colour.lab(pixels)
    assert result.shape == (2, 3, 4, 3)
    assert result.dtype == np.float64
    assert result == pytest.approx(colour.lab_of_linear(colour.srgb_to_linear(pixels / 255)))
    assert colour.luminance(np.ones(3)) == pytest.approx(1)


# ------------------------------------------------------------------------------------------------------- swatches
def test_swatches_have_the_published_colours():
    for (tone, rgb, lab, ita, _), mine, my_lab, my_ita in zip(
        MONK, colour.MONK_RGB, colour.MONK_LAB, colour.MONK_ITA, strict=True
    ):
        assert mine.tolist() == list(rgb), tone
        assert my_lab == pytest.approx(lab, abs=0.02), tone
        assert my_ita == pytest.approx(ita, abs=0.02), tone


def test_each_swatch_is_its_own_tone_in_each_way():
    tones = list(range(1, 11))
    assert colour.tone_by_ita(colour.MONK_ITA).tolist() == tones
    assert colour.tone_by_colour(colour.MONK_LAB).tolist() == tones
    assert colour.tone_by_rgb(colour.MONK_RGB).tolist() == tones


@pytest.mark.parametrize(("lighter", "boundary"), list(enumerate(BOUNDARIES, start=1)))
def test_tones_change_at_the_published_angles(lighter, boundary):
    assert colour.tone_by_ita(boundary + 0.02) == lighter
    assert colour.tone_by_ita(boundary - 0.02) == lighter + 1


def test_nearest_is_nearest_and_the_first_of_equals():
    angles = np.linspace(-180, 180, 3_601)
    slow = 1 + np.abs(angles[:, None] - colour.MONK_ITA).argmin(axis=1)
    assert colour.tone_by_ita(angles).tolist() == slow.tolist()
    halfway = (colour.MONK_ITA[4] + colour.MONK_ITA[5]) / 2
    assert colour.tone_by_ita(halfway) == 5
    # (244.5, 234, 223.5) is 1.5 + 3 + 4.5 = 9 from tone 1 and from tone 2
    assert colour.tone_by_rgb([244.5, 234, 223.5]) == 1


def test_unknown_colours_have_tone_0():
    assert colour.tone_by_ita([math.nan, 83.0]).tolist() == [0, 1]
    assert colour.tone_by_colour([[math.nan, 0, 0], [14.6, 1.5, 3.5]]).tolist() == [0, 10]
    assert colour.tone_by_rgb([[math.nan, 0, 0], [41, 36, 32]]).tolist() == [0, 10]
    assert colour.released_tone(math.nan) == 0


def test_swatches_cannot_be_changed_by_accident():
    with pytest.raises(ValueError, match="read-only"):
        colour.MONK_RGB[0, 0] = 1


def test_the_simulators_people_have_these_tones():
    from verism.simulator.assets.people import MONK_TONES

    assert [tuple(round(255 * c) for c in tone) for tone in MONK_TONES] == [rgb for _, rgb, *_ in MONK]


# ------------------------------------------------------------------------------------------------------------- ITA
@pytest.mark.parametrize(
    ("lab", "angle"),
    [
        pytest.param((60, 5, 10), 45.0, id="atan(10/10)"),
        pytest.param((40, 5, 10), -45.0, id="atan(-10/10)"),
        pytest.param((60, 5, 0), 90.0, id="no yellow, light"),
        pytest.param((40, 5, 0), -90.0, id="no yellow, dark"),
        pytest.param((60, 5, -10), 135.0, id="bluish light goes on past 90, where atan gives -45: dark skin"),
        pytest.param((40, 5, -10), -135.0, id="bluish dark goes on past -90"),
    ],
)
def test_ita_by_hand(lab, angle):
    assert colour.ita_deg(lab) == pytest.approx(angle)


def test_ita_is_undefined_at_the_middle_grey():
    assert math.isnan(float(colour.ita_deg([50, 3, 0])))
    assert colour.tone_by_ita(colour.ita_deg([50, 3, 0])) == 0


# ------------------------------------------------------------------------------------------------------- CIEDE2000
@pytest.mark.parametrize(("first", "second", "difference"), SHARMA)
def test_ciede2000_meets_the_published_pairs(first, second, difference):
    assert colour.ciede2000(first, second) == pytest.approx(difference, abs=5.1e-5)  # printed to four digits
    assert colour.ciede2000(second, first) == pytest.approx(difference, abs=5.1e-5)


def test_ciede2000_is_that_of_skimage():
    reference = pytest.importorskip("skimage.color").deltaE_ciede2000
    first, second = colour.lab(random_rgb(5_000)), colour.lab(random_rgb(5_000, seed=1))
    assert colour.ciede2000(first, second) == pytest.approx(reference(first, second), abs=1e-9)


def test_ciede2000_broadcasts_and_is_0_only_between_equals():
    table = colour.ciede2000(colour.MONK_LAB[:, None], colour.MONK_LAB)
    assert table.shape == (10, 10)
    assert (np.diag(table) == 0).all()
    assert (table[~np.eye(10, dtype=bool)] > 1.9).all()
    assert table == pytest.approx(table.T)


# ------------------------------------------------------------------------------------------------------ pixel rule
def test_ycrcb_is_opencvs_bit_for_bit():
    cv2 = pytest.importorskip("cv2")
    pixels = random_rgb(1_000_000).reshape(1000, 1000, 3)
    assert (colour.opencv_ycrcb8(pixels) == cv2.cvtColor(pixels, cv2.COLOR_RGB2YCrCb)).all()


def rule_in_words(red: int, green: int, blue: int, alpha: int = 255) -> bool:
    cv2 = pytest.importorskip("cv2")
    y, cr, cb = (int(v) for v in cv2.cvtColor(np.array([[[red, green, blue]]], np.uint8), cv2.COLOR_RGB2YCrCb)[0, 0])
    return (
        red > 95 and green > 40 and blue > 20 and red > green and red > blue and abs(red - green) > 15 and alpha > 15
        and cr > 135 and cb > 85 and y > 80
        and cr <= 1.5862 * cb + 20 and cr >= 0.3448 * cb + 76.2069 and cr >= -4.5652 * cb + 234.5652
        and cr <= -1.15 * cb + 301.75 and cr <= -2.2857 * cb + 432.85
    )  # fmt: skip


def test_skin_rule_is_the_rule_in_words():
    pixels = np.vstack([random_rgb(2_000), colour.MONK_RGB.astype(np.uint8)])
    near = np.clip(np.repeat(colour.MONK_RGB, 200, axis=0) + np.random.default_rng(2).normal(0, 25, (2_000, 3)), 0, 255)
    pixels = np.vstack([pixels, near.astype(np.uint8)])
    wanted = [rule_in_words(*(int(v) for v in pixel)) for pixel in pixels]
    assert colour.skin_rule(pixels).tolist() == wanted
    assert 300 < sum(wanted) < 3_000


def test_skin_rule_passes_only_the_middle_of_the_scale():
    assert colour.skin_rule(colour.MONK_RGB.astype(np.uint8)).tolist() == [False] * 3 + [True] * 4 + [False] * 3


@pytest.mark.parametrize(("alpha", "passes"), [(15, False), (16, True)])
def test_skin_rule_asks_for_alpha_above_15(alpha, passes):
    assert colour.skin_rule(np.array([160, 126, 86, alpha], np.uint8)) == passes


def test_rule_tone_is_that_of_the_mean_of_pixels_that_pass():
    blue, six, seven = (0, 0, 255), (160, 126, 86), (130, 92, 67)
    image = np.array([[blue, six], [seven, six]], np.uint8)
    tone, mean, n = colour.rule_tone(image)
    # (2 x 160 + 130) / 3 = 150, (2 x 126 + 92) / 3 = 114.67, (2 x 86 + 67) / 3 = 79.67
    assert mean == pytest.approx([150, 344 / 3, 239 / 3])
    assert (tone, n) == (6, 3)
    assert colour.rule_tone(image, np.array([[1, 0], [1, 0]]))[::2] == (7, 1)
    tone, mean, n = colour.rule_tone(image[:, :, ::-1])
    assert (tone, n) == (0, 0)
    assert np.isnan(mean).all()


# ---------------------------------------------------------------------------------------------------- released path
def test_lab8_is_opencvs_bit_for_bit():
    cv2 = pytest.importorskip("cv2")
    plane = np.stack(np.meshgrid(np.arange(256), np.arange(256), indexing="ij"), axis=-1)
    for red in range(0, 256, 5):
        pixels = np.dstack([np.full((256, 256), red), plane]).astype(np.uint8)
        assert (colour.opencv_lab8(pixels) == cv2.cvtColor(pixels, cv2.COLOR_RGB2LAB)).all(), red


def test_released_path_is_opencvs_on_swapped_channels_in_plain_python():
    cv2 = pytest.importorskip("cv2")
    pixels = random_rgb(500)
    as_read = pixels[:, ::-1][None]  # cv2.imread gives BGR
    lab8 = cv2.cvtColor(np.ascontiguousarray(as_read), cv2.COLOR_RGB2LAB)[0]
    wanted = [math.degrees(math.atan((int(lightness) - 50) / int(b))) for lightness, _, b in lab8]
    assert colour.released_ita(pixels) == pytest.approx(wanted, abs=1e-12)


def test_released_path_gives_the_table_of_tones():
    swatches = colour.MONK_RGB.astype(np.uint8)
    assert colour.released_tone(colour.released_ita(swatches)).tolist() == [tone for *_, tone in MONK]


def test_documented_swatches_are_the_computed_ones():
    text = (Path(__file__).parents[2] / "docs" / "skin-tone-swatches.csv").read_text(encoding="utf-8")
    swatches = colour.MONK_RGB.astype(np.uint8)
    angles = colour.released_ita(swatches)
    released = colour.released_tone(angles)
    by_rule = [colour.rule_tone(np.tile(swatch, (8, 8, 1)))[0] for swatch in swatches]
    # Last digits of an ITA depend on the digits of the conversion matrix, as above.
    assert [row["swatch"] for row in csv.DictReader(text.splitlines())] == [str(tone) for tone in range(1, 11)]
    for k, row in enumerate(csv.DictReader(text.splitlines())):
        assert float(row["ita_deg"]) == pytest.approx(colour.MONK_ITA[k], abs=0.02)
        assert int(row["revised"]) == colour.tone_by_colour(colour.MONK_LAB)[k]
        assert row["released_angle_deg"] == f"{angles[k]:.2f}"
        assert int(row["released"]) == released[k]
        assert int(row["released_index"]) == released[k] - 1
        assert int(row["pixel_rule"] or 0) == by_rule[k]


def test_released_path_says_5_or_6_of_nearly_everything():
    steps = np.arange(0, 256, 5, dtype=np.uint8)
    every = np.stack(np.meshgrid(steps, steps, steps, indexing="ij"), axis=-1).reshape(-1, 3)
    warm = every[(every[:, 0] >= every[:, 1]) & (every[:, 1] >= every[:, 2])]
    tones = colour.released_tone(colour.released_ita(warm))
    assert np.isin(tones, (5, 6)).mean() == pytest.approx(0.92, abs=0.005)


def test_dark_pixels_do_not_wrap_around():
    # Tone 10: L8 is 37, so that L8 - 50 is -13 (243 in uint8, and an angle of 60 degrees).
    ten = np.array([41, 36, 32], np.uint8)
    assert colour.opencv_lab8(ten[::-1])[0] < 50
    assert float(colour.released_ita(ten)) < 0


def test_released_mean_leaves_black_out():
    pixels = np.array([[0, 0, 0], [160, 126, 86], [41, 36, 32], [0, 0, 0]], np.uint8)
    assert colour.released_mean_ita(pixels) == pytest.approx(float(colour.released_ita(pixels[1:3]).mean()))
    assert math.isnan(colour.released_mean_ita(pixels[[0, 3]]))
    assert math.isnan(colour.released_mean_ita(pixels[:0]))


@given(rgb_pixels)
def test_released_mean_does_not_mind_order_or_shape(pixels):
    value = colour.released_mean_ita(pixels)
    assert colour.released_mean_ita(pixels[::-1][:, None]) == pytest.approx(value, nan_ok=True)


# -------------------------------------------------------------------------------------------------------- bad input
@pytest.mark.parametrize(
    "call",
    [
        colour.lab,
        colour.lab_of_linear,
        colour.ita_deg,
        colour.tone_by_colour,
        colour.tone_by_rgb,
        colour.skin_rule,
        colour.released_ita,
    ],
)
def test_shapes_without_colours_are_refused(call):
    with pytest.raises(ValueError, match=r"shape \(\.\.\., 3.*got \(4, 2\)"):
        call(np.zeros((4, 2), np.uint8))


@pytest.mark.parametrize("call", [colour.opencv_lab8, colour.opencv_ycrcb8, colour.skin_rule, colour.released_ita])
def test_published_ways_take_bytes_only(call):
    with pytest.raises(ValueError, match=r"must be uint8.*got float64"):
        call(np.zeros((4, 3)))


def test_a_mask_must_fit():
    with pytest.raises(ValueError, match=r"mask must have the shape of the image, \(2, 2\); got \(4,\)"):
        colour.rule_tone(np.zeros((2, 2, 3), np.uint8), np.ones(4))
