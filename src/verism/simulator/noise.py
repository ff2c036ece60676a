"""Cheap, seeded, tileable noise: the raw material of clouds, grass, stone and cloth.

A few 256 x 256 textures are made once per process and looked up with bilinear interpolation, which costs a fraction of
evaluating gradients per point.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

__all__ = ["fbm_texture", "lookup", "noise"]

SIZE = 256


@cache
def fbm_texture(variant: int = 0, octaves: int = 6, persistence: float = 0.55) -> Array:
    """Fractal noise that tiles, shape (256, 256), mean 0.5, roughly in [0, 1]."""
    rng = np.random.default_rng([0x5EED, variant])
    total = np.zeros((SIZE, SIZE))
    for octave in range(octaves):
        cells = 4 << octave
        if cells > SIZE:
            break
        lattice = rng.standard_normal((cells, cells))
        t = np.arange(SIZE) * cells / SIZE
        i = t.astype(int)
        f = t - i
        f = f * f * (3 - 2 * f)
        j = (i + 1) % cells
        rows = lattice[i] * (1 - f[:, None]) + lattice[j] * f[:, None]
        total += persistence**octave * (rows[:, i] * (1 - f) + rows[:, j] * f)
    total = (total - total.mean()) / total.std()
    return np.asarray(0.5 + 0.18 * total, dtype=np.float32)


def lookup(texture: NDArray[np.floating], u: NDArray[np.floating], v: NDArray[np.floating]) -> Array:
    """Bilinear, repeating look-up of a square texture; one tile spans 1 in ``u`` and ``v``."""
    n = texture.shape[0]
    x, y = u * n, v * n
    xi, yi = np.floor(x), np.floor(y)
    fx, fy = (x - xi).astype(np.float32), (y - yi).astype(np.float32)
    x0, y0 = xi.astype(np.int64) % n, yi.astype(np.int64) % n
    x1, y1 = (x0 + 1) % n, (y0 + 1) % n
    if texture.ndim == 3:
        fx, fy = fx[..., None], fy[..., None]
    top = texture[y0, x0] * (1 - fx) + texture[y0, x1] * fx
    bottom = texture[y1, x0] * (1 - fx) + texture[y1, x1] * fx
    return np.asarray(top * (1 - fy) + bottom * fy, dtype=np.float32)


def noise(u: NDArray[np.floating], v: NDArray[np.floating], *, scale: float = 1.0, variant: int = 0) -> Array:
    """Fractal noise at points; ``scale`` is the length over which the texture repeats (features: a quarter of it)."""
    return lookup(fbm_texture(variant), np.asarray(u) / scale, np.asarray(v) / scale)
