"""How images become network inputs: geometry and numbers by hand, and against Pillow and PyTorch."""

import numpy as np
import pytest
import torch
from PIL import Image

from verism.judges.features.preprocessing import (
    FID,
    IMAGENET,
    bilinear_unsmoothed,
    centre_crop,
    centre_square,
    pillow_float_bicubic,
)

ALL = {**IMAGENET, **FID}


def noise(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


# ------------------------------------------------------------------------------------------------------------ resizing
def test_tensorflow_resize_by_hand():
    # Pixel i is read at i * 2/4 = 0, 0.5, 1, 1.5; beyond the last pixel, 1, there is only itself.
    # Row 0: 0, (0 + 10)/2, 10, 10; row 1: halfway to (20, 50); rows 2 and 3: 20, 35, 50, 50.
    image = np.array([[[0], [10]], [[20], [50]]], dtype=np.uint8)
    assert bilinear_unsmoothed(image, 4, half_pixel=False)[..., 0].tolist() == [
        [0, 5, 10, 10],
        [10, 20, 30, 30],
        [20, 35, 50, 50],
        [20, 35, 50, 50],
    ]


def test_pytorch_resize_by_hand():
    # Read at (i + 1/2) / 2 - 1/2 = -0.25 (so 0), 0.25, 0.75, 1.25 (so 1): 0, 2.5, 7.5, 10 in the first row.
    image = np.array([[[0], [10]], [[20], [50]]], dtype=np.uint8)
    result = bilinear_unsmoothed(image, 4, half_pixel=True)[..., 0]
    assert result[0].tolist() == [0, 2.5, 7.5, 10]
    assert result[:, 0].tolist() == [0, 5, 15, 20]


def test_shrinking_without_smoothing_skips_pixels():
    # From 6 to 2 pixels: read at 0 and 3; the bright pixels between have no say.
    image = np.full((6, 6, 3), 255, dtype=np.uint8)
    image[::3, ::3] = 10
    assert bilinear_unsmoothed(image, 2, half_pixel=False).tolist() == np.full((2, 2, 3), 10).tolist()


@pytest.mark.parametrize("size", [(7, 5), (299, 299), (512, 300), (1, 1), (2, 900)])
def test_pytorch_resize_is_pytorchs(size: tuple[int, int]):
    pixels = noise(*size)
    theirs = torch.nn.functional.interpolate(
        torch.from_numpy(pixels.transpose(2, 0, 1)[None].copy()).float(), (299, 299), mode="bilinear"
    )[0]
    ours = bilinear_unsmoothed(pixels, 299, half_pixel=True).transpose(2, 0, 1)
    # Of 255. PyTorch rounds positions to float32: at 900, to 3e-5 of a pixel, between pixels up to 255 apart.
    assert np.abs(ours - theirs.numpy()).max() < 0.02


def test_clean_resize_is_pillows_in_floating_point_and_stays_in_range():
    pixels = np.zeros((40, 40, 3), dtype=np.uint8)
    pixels[:, 20:] = 255  # cubic weights overshoot at an edge
    green = Image.fromarray(pixels[..., 1].astype(np.float32)).resize((299, 299), Image.Resampling.BICUBIC)
    raw, ours = np.asarray(green), pillow_float_bicubic(pixels, 299)
    assert raw.max() > 255
    assert ours.min() == 0
    assert ours.max() == 255
    inside = (raw >= 0) & (raw <= 255)
    assert np.array_equal(ours[..., 1][inside], raw[inside])
    assert (ours % 1 != 0).any()  # not rounded to whole levels


# ------------------------------------------------------------------------------------------------------------ geometry
@pytest.mark.parametrize(
    ("height", "width", "rows", "columns"),
    [
        pytest.param(2, 5, (0, 2), (2, 4), id="3 columns too many: 1.5 goes to 2 on the left, 1 on the right"),
        pytest.param(2, 3, (0, 2), (0, 2), id="1 too many: 0.5 goes to 0 on the left, so the last is cut"),
        pytest.param(9, 5, (2, 7), (0, 5), id="4 rows too many: 2 and 2"),
        pytest.param(1, 6, (0, 1), (2, 3), id="one row: 2.5 goes to 2"),
        pytest.param(4, 4, (0, 4), (0, 4), id="square"),
    ],
)
def test_centre_square(height: int, width: int, rows: tuple[int, int], columns: tuple[int, int]):
    pixels = noise(height, width)
    assert np.array_equal(centre_square(pixels), pixels[slice(*rows), slice(*columns)])


def test_centre_crop_of_a_smaller_square():
    pixels = noise(7, 6)
    assert np.array_equal(centre_crop(pixels, 3), pixels[2:5, 2:5])  # 4 / 2 = 2; 3 / 2 = 1.5 goes to 2


def test_digin_sees_the_middle_alone_and_the_fid_sees_all():
    pixels = noise(100, 300)
    other = pixels.copy()
    other[:, :100] = 0
    assert np.array_equal(IMAGENET["digin"](pixels), IMAGENET["digin"](other))
    assert not np.array_equal(FID["fid"](pixels), FID["fid"](other))
    assert not np.array_equal(IMAGENET["dalleval"](pixels), IMAGENET["dalleval"](other))


# --------------------------------------------------------------------------------------------------- whole preparations
@pytest.mark.parametrize("name", list(ALL))
@pytest.mark.parametrize("size", [(1, 1), (3, 2), (299, 299), (640, 512), (12, 240), (240, 12)])
def test_any_image_becomes_an_input(name: str, size: tuple[int, int]):
    values = ALL[name](noise(*size))
    assert values.shape == (3, 299, 299)
    assert values.dtype == np.float32
    assert values.flags.c_contiguous
    assert np.isfinite(values).all()


@pytest.mark.parametrize(
    ("name", "black", "white"),
    [
        # (0 - 0.485) / 0.229 and (1 - 0.485) / 0.229, red
        pytest.param("digin", -2.117904, 2.248908, id="digin"),
        # 0.229 / 0.5 * x + (0.485 - 0.5) / 0.5 at 0 and 1
        pytest.param("dalleval", -0.03, 0.428, id="dalleval"),
        pytest.param("torchvision", -1, 1, id="torchvision"),
        # (0 - 128) / 128 and (255 - 128) / 128: not quite 1
        pytest.param("fid", -1, 0.9921875, id="fid"),
        pytest.param("fid-256", -1, 0.9921875, id="fid-256"),
        pytest.param("clean", -1, 0.9921875, id="clean"),
        pytest.param("crop", -1, 0.9921875, id="crop"),
        pytest.param("pytorch-fid", -1, 1, id="pytorch-fid"),
    ],
)
def test_range_of_black_and_white(name: str, black: float, white: float):
    for level, expected in ((0, black), (255, white)):
        red = ALL[name](np.full((50, 60, 3), level, dtype=np.uint8))[0]
        np.testing.assert_allclose(red, np.full((299, 299), expected), rtol=0, atol=1e-5)


def test_every_preparation_has_a_range_test_and_differs_from_the_others():
    pixels = noise(341, 256)
    inputs = {name: prepare(pixels) for name, prepare in ALL.items()}
    for a in inputs:
        for b in inputs:
            assert a == b or np.abs(inputs[a] - inputs[b]).max() > 0.1, (a, b)


def test_digin_is_pillows_resize_of_the_square():
    pixels = noise(90, 121)
    square = Image.fromarray(pixels[:, 16:106].copy()).resize((299, 299), Image.Resampling.BILINEAR)  # 31 / 2 -> 16
    expected = (np.asarray(square) / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    np.testing.assert_allclose(IMAGENET["digin"](pixels), expected.transpose(2, 0, 1), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("height", "width", "new_height", "new_width", "top", "left"),
    [
        # 342 * 250 / 100 = 855; (342 - 299) / 2 = 21.5 goes to 22; (855 - 299) / 2 = 278
        pytest.param(100, 250, 342, 855, 22, 278, id="wide"),
        # 342 * 701 / 600 = 399.57, cut to 399; (399 - 299) / 2 = 50
        pytest.param(701, 600, 399, 342, 50, 22, id="tall, larger"),
    ],
)
def test_torchvision_is_the_middle_of_the_resized_image(
    height: int, width: int, new_height: int, new_width: int, top: int, left: int
):
    pixels = noise(height, width)
    full = Image.fromarray(pixels).resize((new_width, new_height), Image.Resampling.BILINEAR)
    expected = np.asarray(full)[top : top + 299, left : left + 299] / 127.5 - 1
    np.testing.assert_allclose(IMAGENET["torchvision"](pixels), expected.transpose(2, 0, 1), rtol=0, atol=1e-5)


def test_torchvision_of_a_line_needs_little_memory():
    # The whole line at 342 pixels would have 342 x 6,840,000 of them: 7 GB. Its middle shows the step from black to
    # white, half way in the middle column.
    line = np.zeros((1, 20_000, 3), dtype=np.uint8)
    line[:, 10_000:] = 255
    result = IMAGENET["torchvision"](line)
    assert result.shape == (3, 299, 299)
    assert result[0, 0, 0] < 0 < result[0, 0, -1]
    assert result[0, 0, 149] == pytest.approx(0, abs=0.02)


def test_an_image_of_the_right_size_is_not_resized():
    pixels = noise(299, 299)
    for name in ("fid", "clean", "crop"):
        assert np.array_equal(FID[name](pixels), ((pixels.astype(np.float32) - 128) / 128).transpose(2, 0, 1)), name


def test_channels_keep_their_order():
    pixels = np.zeros((20, 20, 3), dtype=np.uint8)
    pixels[..., 2] = 200
    for name, prepare in ALL.items():
        values = prepare(pixels)
        assert values[2].mean() > values[0].mean() + 0.1, name
