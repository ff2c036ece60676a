"""Images as feature networks take them. Each way is written from its definition and named in the judge's name.

How an image is resized changes an FID more than most models differ, so there is no common way, and none is implied:
every function says what it does at the border, with the aspect, and with rounding.

Source: Parmar et al. 2022, "On Aliased Resizing and Surprising Subtleties in GAN Evaluation", arXiv:2104.11222.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["FID", "IMAGENET", "Preparation", "bilinear_unsmoothed", "centre_crop", "centre_square"]

Pixels = NDArray[np.uint8]
Values = NDArray[np.float32]

_INPUT_PX = 299
_RESIZE_PX = 342  # of torchvision's own evaluation of its Inception weights: shorter side, before the crop to 299
_MOST_PIXELS = 64_000_000  # of an image before it is cropped: 192 MB
_FID_256_PX = 256
_MEAN = np.array((0.485, 0.456, 0.406), dtype=np.float32)  # ImageNet's
_STD = np.array((0.229, 0.224, 0.225), dtype=np.float32)


# --------------------------------------------------------------------------------------------------------------------
# Geometry
# --------------------------------------------------------------------------------------------------------------------
def centre_crop(pixels: Pixels, size: int) -> Pixels:
    """The square of side ``size`` in the middle, no larger than the image.

    An odd number of pixels to cut is shared by rounding half to even: of 1 too many, the last goes; of 3, two first
    ones. torchvision's crop does the same.
    """
    height, width = pixels.shape[:2]
    top, left = round((height - size) / 2), round((width - size) / 2)
    return pixels[top : top + size, left : left + size]


def centre_square(pixels: Pixels) -> Pixels:
    """The largest square in the middle of an image."""
    return centre_crop(pixels, min(pixels.shape[:2]))


def pillow(
    pixels: Pixels,
    width: int,
    height: int,
    *,
    bicubic: bool = False,
    box: tuple[float, float, float, float] | None = None,
) -> Pixels:
    """Resized by Pillow, which smooths when shrinking and rounds to 8 bits; aspect as asked.

    Args:
        pixels: RGB, shape (H, W, 3), uint8.
        width: of the result, in pixels.
        height: of the result, in pixels.
        bicubic: use Pillow's bicubic filter instead of the bilinear one.
        box: left, top, right, lower: the part of the image to take, in its pixels; None: all of it.
    """
    from PIL import Image

    method = Image.Resampling.BICUBIC if bicubic else Image.Resampling.BILINEAR
    return np.asarray(Image.fromarray(np.ascontiguousarray(pixels)).resize((width, height), method, box=box))


def pillow_float_bicubic(pixels: Pixels, size: int) -> Values:
    """Resized by Pillow channel by channel as float32, without rounding, cut to [0, 255]: the resize of clean-fid."""
    from PIL import Image

    channels = [
        np.asarray(
            Image.fromarray(np.ascontiguousarray(pixels[..., c], dtype=np.float32)).resize(
                (size, size), Image.Resampling.BICUBIC
            )
        )
        for c in range(3)
    ]
    values: Values = np.stack(channels, axis=-1)
    return values.clip(0, 255)


def bilinear_unsmoothed(pixels: NDArray[np.generic], size: int, *, half_pixel: bool) -> Values:
    """Resized to a square by the four nearest pixels alone: shrinking skips pixels, as the FID's first programs did.

    Args:
        pixels: shape (H, W, C).
        size: side of the result, in pixels.
        half_pixel: pixel ``i`` of the result is read at ``(i + 1/2) H / size - 1/2``, so that both images share their
            middle (PyTorch with ``align_corners=False``). Otherwise at ``i H / size``, so that they share the upper
            left corner (TensorFlow 1, and therefore the FID).
    Returns:
        Shape (size, size, C), float32, in the range of the image.
    """

    def positions(length: int) -> tuple[NDArray[np.intp], NDArray[np.intp], Values]:
        at = np.arange(size) * (length / size) if not half_pixel else (np.arange(size) + 0.5) * (length / size) - 0.5
        at = np.clip(at, 0, length - 1)
        low = np.floor(at).astype(np.intp)
        return low, np.minimum(low + 1, length - 1), (at - low).astype(np.float32)

    height, width = pixels.shape[:2]
    left, right, share_x = positions(width)
    top, bottom, share_y = positions(height)
    # Rows are picked before anything becomes floating point: a large image is then never copied as a whole.
    upper, lower = (
        rows[:, left] + (rows[:, right] - rows[:, left]) * share_x[None, :, None]
        for rows in (pixels[top].astype(np.float32), pixels[bottom].astype(np.float32))
    )
    return upper + (lower - upper) * share_y[:, None, None]


# --------------------------------------------------------------------------------------------------------------------
# Whole preparations: RGB (H, W, 3) uint8 -> (3, 299, 299) float32
# --------------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Preparation:
    """From an image to a network's input.

    Attributes:
        resize: RGB (H, W, 3) uint8 to (299, 299, 3) in [0, 255].
        scale: these to the network's range, given float32.
        meaning: in words.
    """

    resize: Callable[[Pixels], NDArray[np.generic]]
    scale: Callable[[Values], Values]
    meaning: str

    def __call__(self, pixels: Pixels) -> Values:
        """The network's input of one image: shape (3, 299, 299), float32."""
        values = self.scale(self.resize(pixels).astype(np.float32))
        return np.ascontiguousarray(values.transpose(2, 0, 1), dtype=np.float32)


def _digin(pixels: Pixels) -> Pixels:
    return pillow(centre_square(pixels), _INPUT_PX, _INPUT_PX)


def _torchvision(pixels: Pixels) -> Pixels:
    height, width = pixels.shape[:2]
    short = min(height, width)
    # The longer side is cut off, not rounded, as torchvision does.
    new_width, new_height = int(_RESIZE_PX * width / short), int(_RESIZE_PX * height / short)
    if new_width * new_height <= _MOST_PIXELS:
        return centre_crop(pillow(pixels, new_width, new_height), _INPUT_PX)
    # A line of a few pixels' height: only what is kept is resized. Pillow then rounds some values the other way.
    left, top = round((new_width - _INPUT_PX) / 2), round((new_height - _INPUT_PX) / 2)
    x, y = width / new_width, height / new_height
    box = (left * x, top * y, (left + _INPUT_PX) * x, (top + _INPUT_PX) * y)
    return pillow(pixels, _INPUT_PX, _INPUT_PX, box=box)


def _squash(pixels: Pixels) -> Pixels:
    return pillow(pixels, _INPUT_PX, _INPUT_PX)


def _imagenet(values: Values) -> Values:
    return np.asarray((values / np.float32(255) - _MEAN) / _STD)


def _unit(values: Values) -> Values:
    return values / np.float32(127.5) - np.float32(1)


def _dalleval(values: Values) -> Values:
    # Made for images less ImageNet's mean and over its deviation; the authors apply it to plain [0, 1].
    scale, shift = _STD / np.float32(0.5), (_MEAN - np.float32(0.5)) / np.float32(0.5)
    return np.asarray(values / np.float32(255) * scale + shift)


def _fid(values: Values) -> Values:
    return np.asarray((values - np.float32(128)) / np.float32(128))


IMAGENET: Mapping[str, Preparation] = {
    "digin": Preparation(
        _digin, _imagenet, "centre square, Pillow bilinear to 299, ImageNet mean and deviation (DIG In)"
    ),
    "dalleval": Preparation(
        _squash, _dalleval, "Pillow bilinear to 299 without crop, the input transform on [0, 1] (DALL-Eval's FID)"
    ),
    "torchvision": Preparation(
        _torchvision, _unit, "shorter side to 342, centre 299, to [-1, 1] (what the weights were evaluated with)"
    ),
}
"""Ways for torchvision's ImageNet weights, by name."""

FID: Mapping[str, Preparation] = {
    "fid": Preparation(
        lambda pixels: bilinear_unsmoothed(pixels, _INPUT_PX, half_pixel=False),
        _fid,
        "TensorFlow 1's bilinear to 299 from native size, no crop, no smoothing (the FID, torch-fidelity)",
    ),
    "fid-256": Preparation(
        lambda pixels: bilinear_unsmoothed(
            pillow(pixels, _FID_256_PX, _FID_256_PX, bicubic=True), _INPUT_PX, half_pixel=False
        ),
        _fid,
        "Pillow bicubic to 256 x 256 without crop, then as fid (EvalGIM's real images)",
    ),
    "pytorch-fid": Preparation(
        lambda pixels: bilinear_unsmoothed(pixels, _INPUT_PX, half_pixel=True),
        _unit,
        "PyTorch's bilinear to 299 without smoothing, to [-1, 1] (pytorch-fid)",
    ),
    "clean": Preparation(
        lambda pixels: pillow_float_bicubic(pixels, _INPUT_PX),
        _fid,
        "Pillow bicubic to 299 in floating point, smoothed (clean-fid)",
    ),
    "crop": Preparation(_digin, _fid, "centre square, Pillow bilinear to 299, then as fid"),
}
"""Ways for the weights of the FID, by name."""
