"""Instance masks as text: COCO's run-length encoding, and what can be read off it without an image.

A mask is gone through column by column, from the top of each; lengths of runs of background and object take turns,
background first. As text, each length is written as its difference from the length two runs before (from the fourth
run on), in groups of five bits, the sixth bit saying that another group follows, as characters from ``0`` on.

Source: Lin et al. 2014, Microsoft COCO; the format is that of ``pycocotools.mask`` (tests hold the two against each
other).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["mask_area", "mask_box", "mask_of_rle", "mask_runs", "rle_of_mask", "runs_of_rle"]

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

_ZERO, _BITS, _MORE = 48, 5, 0x20  # a group's first character, its bits, and the bit that says that another follows
_MOST = 8  # groups of a number: 40 bits


def mask_runs(mask: ArrayLike) -> Ints:
    """Lengths of the runs of a mask, background first; the first may be 0.

    Args:
        mask: shape (H, W), true where the object is.
    """
    flat = np.asarray(mask, dtype=bool)
    if flat.ndim != 2:
        raise ValueError(f"a mask has shape (H, W); got {flat.shape}")
    flat = flat.T.reshape(-1)
    edges = np.flatnonzero(np.diff(flat)) + 1
    runs = np.diff(np.concatenate([[0], edges, [flat.size]])).astype(np.int64)
    return np.concatenate([[0], runs]) if flat.size and flat[0] else runs


def rle_of_mask(mask: ArrayLike) -> str:
    """A mask as COCO's compressed run-length encoding (the text behind ``counts``).

    Args:
        mask: shape (H, W), true where the object is.

    >>> rle_of_mask([[0, 1], [0, 1]])
    '22'
    """
    values = mask_runs(mask)
    values[3:] -= values[1:-2].copy()
    # A number has as many groups as its bits and a sign need: k of them hold -2^(5k-1) to 2^(5k-1) - 1.
    ends = 2 ** (_BITS * np.arange(1, _MOST) - 1)
    sizes = 1 + np.sum((values[:, None] >= ends) | (values[:, None] < -ends), axis=1)
    place = _places(sizes)
    groups = np.repeat(values, sizes) >> (_BITS * place) & 0x1F
    groups[place < np.repeat(sizes, sizes) - 1] |= _MORE
    return (groups + _ZERO).astype(np.uint8).tobytes().decode("ascii")


def _places(sizes: Ints) -> Ints:
    """Number of each group within its number, for numbers of some sizes in a row: 0, 1, 0, 0, 1, 2 ..."""
    return np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def runs_of_rle(counts: str) -> Ints:
    """Lengths of runs out of the compressed text; the inverse of what ``rle_of_mask`` writes.

    Raises:
        ValueError: text that is cut off, has other characters, or gives a negative length.
    """
    groups = np.frombuffer(counts.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.int64) - _ZERO
    if (strange := np.flatnonzero((groups < 0) | (groups > 63))).size:
        raise ValueError(f"the run-length encoding has the character {counts[strange[0]]!r}, which is none of it")
    if not groups.size:
        return groups
    lasts = np.flatnonzero(groups & _MORE == 0)
    if not lasts.size or lasts[-1] != groups.size - 1:
        raise ValueError("the run-length encoding is cut off in the middle of a number")
    sizes = np.diff(lasts, prepend=-1)
    if sizes.max() > _MOST:
        raise ValueError("the run-length encoding gives a run that is longer than any image")
    runs = np.add.reduceat((groups & 0x1F) << (_BITS * _places(sizes)), lasts - sizes + 1)
    runs -= np.where(groups[lasts] & 0x10, 1 << (_BITS * sizes), 0)  # a negative number
    for first in (1, 2):  # from the fourth run on, each is told by its difference from the one two before
        runs[first::2] = np.cumsum(runs[first::2])
    if runs.min() < 0:
        raise ValueError("the run-length encoding gives a run of negative length")
    return runs


def mask_of_rle(counts: str, height: int, width: int) -> Bools:
    """The mask of a compressed run-length encoding.

    Args:
        counts: the text.
        height: of the image, pixels.
        width: of the image, pixels.

    Returns:
        Shape (height, width).

    Raises:
        ValueError: text that is damaged, or whose runs do not add up to the image.
    """
    runs = runs_of_rle(counts)
    if int(runs.sum()) != height * width:
        raise ValueError(f"the runs hold {int(runs.sum()):,} pixels; an image of {width} x {height} has another number")
    inside = np.arange(len(runs)) % 2 == 1
    return np.repeat(inside, runs).reshape(width, height).T


def mask_area(counts: str) -> int:
    """Pixels of the object, out of the compressed text."""
    return int(runs_of_rle(counts)[1::2].sum())


def mask_box(counts: str, height: int) -> tuple[int, int, int, int]:
    """The tight box around a mask, (x0, y0, x1, y1) in pixels, right and lower edges exclusive; zeros if it is empty.

    Args:
        counts: the compressed text.
        height: of the image, pixels.
    """
    ends = np.cumsum(runs_of_rle(counts))
    spans = [(int(a), int(b)) for a, b in pairwise(ends.tolist())][::2]
    spans = [(start, end) for start, end in spans if end > start]
    if not spans:
        return 0, 0, 0, 0
    x0, x1 = spans[0][0] // height, (spans[-1][1] - 1) // height + 1
    # A run that goes on into the next column touches both the last and the first row.
    wraps = any(start // height != (end - 1) // height for start, end in spans)
    y0 = 0 if wraps else min(start % height for start, _ in spans)
    y1 = height if wraps else max((end - 1) % height for _, end in spans) + 1
    return x0, y0, x1, y1
