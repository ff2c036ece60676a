"""Depth maps as text, and brought to other sizes: what depth estimators observe, kept small enough to keep it all.

A map holds, for every pixel, how near what it shows is, in 256 steps from the farthest place of the image (0) to the
nearest (255): the numbers of relative estimators mean nothing across images. As text it is the base-64 form of the
zlib-compressed differences of neighbours along each row.
"""

from __future__ import annotations

import base64
import zlib

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["LEVELS", "depth_of_text", "nearest_size", "nearness", "text_of_depth"]

LEVELS = 255
Map = NDArray[np.uint8]


def nearness(values: ArrayLike, *, larger: str = "near") -> tuple[Map, float, float]:
    """A map in steps from 0 (far) to 255 (near), and the numbers at both ends.

    Args:
        values: an estimator's numbers, shape (H, W). Distances may be infinite; they are farthest.
        larger: meaning of larger values: ``near`` (inverse depth, as from MiDaS) or ``far`` (distances).

    Returns:
        The map, shape (H, W); the number that stands at 0, and that at 255. A map without differences is 0.

    Raises:
        ValueError: another shape, no pixels, or numbers that are not finite (for ``far``: NaN or not above 0).

    >>> nearness([[1.0, 2.0, 3.0]])[0].tolist(), nearness([[1.0, 2.0, np.inf]], larger="far")[0].tolist()
    ([[0, 128, 255]], [[255, 128, 0]])
    """
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 2 or not numbers.size:
        raise ValueError(f"a depth map has shape (H, W) and pixels; got {numbers.shape}")
    if larger == "far":
        if not (numbers > 0).all():
            raise ValueError("distances must be above 0; some are not, or are NaN")
        numbers = 1 / numbers
    if not np.isfinite(numbers).all():
        raise ValueError("a depth map holds numbers that are not finite")
    low, high = float(numbers.min()), float(numbers.max())
    if high == low:
        return np.zeros(numbers.shape, dtype=np.uint8), low, high
    return np.floor((numbers - low) / (high - low) * LEVELS + 0.5).astype(np.uint8), low, high


def text_of_depth(steps: ArrayLike) -> str:
    """A map as text.

    Args:
        steps: as ``nearness`` gives it, shape (H, W), uint8.
    """
    rows = np.asarray(steps, dtype=np.uint8)
    change = rows.copy()
    change[:, 1:] -= rows[:, :-1]  # wraps around at 256, and so back
    return base64.b64encode(zlib.compress(change.tobytes(), 6)).decode("ascii")


def depth_of_text(text: str, height: int, width: int) -> Map:
    """The map of a text.

    Args:
        text: as ``text_of_depth`` writes it.
        height: of the map, pixels.
        width: of the map, pixels.

    Returns:
        Shape (height, width).

    Raises:
        ValueError: text that is damaged, or of a map of another size.
    """
    wanted = height * width
    try:
        packed = base64.b64decode(text, validate=True)
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(packed, wanted + 1)
    except (ValueError, zlib.error) as err:
        raise ValueError(f"the depth map is damaged: {err}") from None
    if len(data) != wanted or not unpacker.eof:  # what is cut off lacks its checksum
        raise ValueError(f"the depth map does not hold {height} x {width} pixels")
    change = np.frombuffer(data, dtype=np.uint8).reshape(height, width)
    steps: Map = np.cumsum(change, axis=1, dtype=np.uint8)
    return steps


def nearest_size(steps: ArrayLike, height: int, width: int) -> Map:
    """A map at another size, each pixel the nearest one of the map.

    Args:
        steps: shape (H, W), uint8.
        height: wanted, pixels.
        width: wanted, pixels.
    """
    rows = np.asarray(steps, dtype=np.uint8)
    if rows.shape == (height, width):
        return rows
    down = ((np.arange(height) + 0.5) * rows.shape[0] / height).astype(np.int64)
    across = ((np.arange(width) + 0.5) * rows.shape[1] / width).astype(np.int64)
    smaller: Map = rows[down][:, across]
    return smaller
