"""Clothes: what a posed body wears, as shapes.

Trousers, skirts and sleeves follow limbs; shirts, jackets and what lies on them follow the trunk's sections
(columns z, middle in x, half depth, half width, in the trunk's frame); hats and masks fit a head of height 1.
Sizes are shares of the body's height (``m.height``) or of the trunk's length (``m.trunk``), as the comments say.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verism.simulator.assets.body import (
    HEAD,
    Measures,
    Skeleton,
    ball,
    between,
    frame,
    hanging,
    sleeve,
    stack,
)
from verism.simulator.shapes import Mesh, box, grid_surface, loft, merge, spline, tube

__all__ = [
    "belt",
    "boots",
    "brimmed_hat",
    "button_up",
    "face_mask",
    "flared_skirt",
    "gloves",
    "jeans",
    "sash",
    "shoes",
    "skirt",
    "slacks",
    "slippers",
    "suit_jacket",
    "tie",
    "zipped_jacket",
]

Array = NDArray[np.float64]


# ------------------------------------------------------------------------------------------------ on the trunk's front
def _on_front(rows: Array, off: float, y: ArrayLike, z: ArrayLike) -> Array:
    """Points ``off`` metres in front of the trunk at (y, z), shape (..., 3)."""
    y, z = np.broadcast_arrays(np.asarray(y, dtype=np.float64), np.asarray(z, dtype=np.float64))
    mid, depth, width = (np.interp(z, rows[:, 0], rows[:, k]) for k in (1, 2, 3))
    across = np.clip(y / (width + off), -0.999, 0.999)
    return np.stack([mid + (depth + off) * np.sqrt(1 - across**2), y, z], axis=-1)


def _strip(rows: Array, off: float, z: ArrayLike, left: ArrayLike, right: ArrayLike, thick: float) -> Mesh:
    """A piece of cloth on the trunk's front: at heights ``z`` (rising) from y = ``right`` to y = ``left``."""
    z, left, right = np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in (z, left, right)))
    share = np.linspace(0, 1, 5)
    points = _on_front(rows, off, right[:, None] + (left - right)[:, None] * share, z[:, None])
    points = np.pad(points, ((1, 1), (1, 1), (0, 0)), mode="edge")
    points[[0, -1], :, 0] -= thick
    points[1:-1, [0, -1], 0] -= thick
    return grid_surface(points, smooth=False)


def _strips(rows: Array, off: float, z: ArrayLike, near: ArrayLike, far: ArrayLike, thick: float) -> list[Mesh]:
    """The same piece left and right, between distances ``near`` and ``far`` from the middle."""
    near, far = np.asarray(near, dtype=np.float64), np.asarray(far, dtype=np.float64)
    return [_strip(rows, off, z, far, near, thick), _strip(rows, off, z, -near, -far, thick)]


def _seam(rows: Array, off: float, points: ArrayLike, radius: float) -> Mesh:
    """A cord over the trunk's front through (y, z) points."""
    curve = spline(np.asarray(points, dtype=np.float64), 8)
    return tube(_on_front(rows, off, curve[:, 0], curve[:, 1]), radius, sides=5, round_ends=True)


def _along(limb: Array, start: float, end: float, extra: float, flare: float, toward: ArrayLike) -> Array:
    """Points on the cloth of a ``sleeve`` of the same sizes, on the side that looks ``toward`` a direction."""
    t = np.linspace(start, end, 12)
    u = np.linspace(0, 1, len(limb))
    path = np.stack([np.interp(t, u, limb[:, k]) for k in range(4)], axis=1)
    tangent = np.gradient(path[:, :3], axis=0)
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    side = np.asarray(toward, dtype=np.float64) - (tangent @ np.asarray(toward, dtype=np.float64))[:, None] * tangent
    side /= np.maximum(np.linalg.norm(side, axis=1, keepdims=True), 1e-9)
    on_cloth: Array = path[:, :3] + side * ((path[:, 3] + extra) * np.linspace(1.0, flare, len(t)))[:, None]
    return on_cloth


# ------------------------------------------------------------------------------------------------------------- tops
def _collar(rows: Array, m: Measures, off: float) -> list[Mesh]:
    """Band around the neck and two points over the chest, in the trunk's frame."""
    h, t = m.height, m.trunk
    band = np.array(
        [
            (1.00 * t, -0.004 * h, 0.046 * h, 0.062 * h),
            (1.05 * t, -0.002 * h, 0.040 * h, 0.045 * h),
            (1.095 * t, 0.001 * h, 0.037 * h, 0.039 * h),
        ]
    )
    z = np.array([0.885, 0.93, 0.99, 1.05]) * t
    points = _strips(
        rows, off, z, np.array([0.029, 0.021, 0.011, 0.003]) * h, np.array([0.032, 0.041, 0.047, 0.047]) * h, 0.006 * h
    )
    return [stack(band, sides=16), *points]


def button_up(
    sections: Array, m: Measures, arms: list[Array], hem: float, off: float
) -> tuple[list[Mesh], list[Mesh], list[Mesh]]:
    """A shirt with collar, button strip, pocket and cuffs.

    Returns:
        Body (trunk's frame), its trims in a second shade (trunk's frame), and sleeves (world). Buttons are the last
        trim: eight balls merged.
    """
    h, t = m.height, m.trunk
    rows = hanging(sections, hem, 1.045 * t)
    body = [stack(rows, sides=16, inflate=off)]
    trims = _collar(rows, m, off + 0.008 * h)
    z = np.linspace(hem + 0.005 * h, 0.98 * t, 12)
    trims.append(_strip(rows, off + 0.004 * h, z, 0.010 * h, -0.010 * h, 0.005 * h))
    pocket = np.linspace(0.63, 0.78, 4) * t
    trims.append(_strip(rows, off + 0.004 * h, pocket, 0.066 * h, 0.030 * h, 0.005 * h))
    heights = np.linspace(hem + 0.03 * h, 0.93 * t, 7)
    at = _on_front(rows, off + 0.005 * h, 0.0, heights)
    buttons = merge([ball((0.004 * h, 0.0055 * h, 0.0055 * h), p, 8) for p in at])
    sleeves = [sleeve(arm, 0.0, 0.93, 0.007 * h, flare=1.05) for arm in arms]
    sleeves += [sleeve(arm, 0.91, 0.985, 0.009 * h) for arm in arms]
    return body, [*trims, buttons], sleeves


def suit_jacket(
    sections: Array, m: Measures, arms: list[Array]
) -> tuple[list[Mesh], list[Mesh], list[Mesh], list[Mesh]]:
    """A single-breasted jacket, open in a V over the shirt.

    Returns:
        Body (trunk's frame), lapels and pocket flaps (trunk's frame), buttons (trunk's frame), sleeves (world).
    """
    h, t = m.height, m.trunk
    hem, closed, off = -0.105 * h, 0.40 * t, 0.019 * h
    rows = _resampled(hanging(sections, hem, 1.03 * t), 22)
    z = rows[:, 0]
    gap = np.where(
        z >= closed, 0.050 * h * (z - closed) / (t - closed), 0.022 * h * ((closed - z) / (closed - hem)) ** 2
    )
    start = np.arcsin(np.clip(gap / (rows[:, 3] + off), 0, 0.95))[:, None]
    angle = start + (2 * math.pi - 2 * start) * np.linspace(0, 1, 25)
    points = np.stack(
        np.broadcast_arrays(
            rows[:, 1:2] + (rows[:, 2:3] + off) * np.cos(angle), (rows[:, 3:4] + off) * np.sin(angle), z[:, None]
        ),
        axis=-1,
    )
    body = [grid_surface(points)]
    high = np.linspace(closed, 0.83 * t, 8)
    edge = 0.050 * h * (high - closed) / (t - closed)
    wide = np.interp(high, [closed, 0.80 * t, 0.83 * t], [0.0, 0.040 * h, 0.034 * h])
    trims = _strips(rows, off + 0.006 * h, high, edge, edge + wide, 0.008 * h)
    neck = np.linspace(0.85 * t, 1.03 * t, 5)
    edge = 0.050 * h * (neck - closed) / (t - closed)
    trims += _strips(rows, off + 0.006 * h, neck, edge, edge + np.linspace(0.026, 0.020, 5) * h, 0.010 * h)
    flap = np.linspace(0.01 * h, 0.035 * h, 3)
    trims += _strips(rows, off + 0.005 * h, flap, 0.055 * h, 0.095 * h, 0.006 * h)
    at = _on_front(rows, off + 0.003 * h, 0.006 * h, np.array([closed - 0.01 * h, closed - 0.065 * h]))
    buttons = [ball((0.005 * h, 0.008 * h, 0.008 * h), p, 8) for p in at]
    sleeves = [sleeve(arm, 0.0, 0.945, 0.012 * h) for arm in arms]
    return body, trims, buttons, sleeves


def _resampled(rows: Array, samples: int) -> Array:
    return between(rows, float(rows[0, 0]), float(rows[-1, 0]), samples)


def zipped_jacket(
    sections: Array, m: Measures, arms: list[Array]
) -> tuple[list[Mesh], list[Mesh], list[Mesh], list[Mesh], list[Mesh]]:
    """A short jacket, zipped up: thick, with collar, pockets and ribbed bands at waist and wrists.

    Returns:
        Body, bands, zip (each in the trunk's frame), sleeves and ribbed cuffs (world).
    """
    h, t = m.height, m.trunk
    off = 0.023 * h
    rows = hanging(sections, -0.015 * h, 1.05 * t)
    blouse = rows.copy()
    # It bulges over the band and lies flat on the shoulders.
    swell = np.interp(rows[:, 0], [-0.015 * h, 0.03 * h, 0.5 * t, t], [0.004 * h, 0.010 * h, 0.002 * h, -0.006 * h])
    blouse[:, 2:] += swell[:, None]
    body = [stack(blouse, sides=20, inflate=off)]
    ring = between(rows, -0.015 * h, -0.015 * h + 1e-4, 2)
    ring[:, 0] = -0.055 * h, -0.010 * h
    bands = [stack(ring, sides=20, inflate=0.023 * h)]
    collar = np.array(
        [
            (0.97 * t, -0.004 * h, 0.060 * h, 0.082 * h),
            (1.03 * t, -0.002 * h, 0.050 * h, 0.056 * h),
            (1.11 * t, 0.003 * h, 0.047 * h, 0.049 * h),
        ]
    )
    bands.append(stack(collar, sides=16))
    for side in (1, -1):
        welt = np.array([(side * 0.052 * h, 0.36 * t), (side * 0.065 * h, 0.24 * t), (side * 0.080 * h, 0.12 * t)])
        bands.append(_seam(blouse, off, welt, 0.006 * h))
    zip_rows = np.concatenate([ring[:1], blouse])
    z = np.linspace(-0.052 * h, 1.04 * t, 16)
    fastener = [_strip(zip_rows, off + 0.003 * h, z, 0.007 * h, -0.007 * h, 0.006 * h)]
    fastener.append(ball((0.006 * h, 0.007 * h, 0.016 * h), _on_front(blouse, off + 0.008 * h, 0.0, 0.95 * t), 8))
    sleeves = [sleeve(arm, 0.0, 0.90, 0.017 * h, flare=1.02) for arm in arms]
    cuffs = [sleeve(arm, 0.88, 0.985, 0.010 * h) for arm in arms]
    return body, bands, fastener, sleeves, cuffs


def tie(sections: Array, m: Measures, off: float, bottom: float) -> list[Mesh]:
    """A long tie from the collar down to ``bottom`` (metres in the trunk's frame), ``off`` metres over the chest."""
    h, t = m.height, m.trunk
    rows = hanging(sections, -0.05 * h, 1.045 * t)
    z = np.concatenate([[bottom, bottom + 0.022 * h], np.linspace(bottom + 0.04 * h, 0.96 * t, 8)])
    half = np.concatenate([[0.0015 * h, 0.020 * h], np.linspace(0.020 * h, 0.012 * h, 8)])
    blade = _strip(rows, off, z, half, -half, 0.005 * h)
    # The chest slopes back to the neck; the knot stands on the collar.
    knot = np.linspace(0.935, 1.035, 4) * t
    size = np.array([0.011, 0.014, 0.017, 0.018]) * h
    return [blade, _strip(rows, off + 0.010 * h, knot, size, -size, 0.012 * h)]


# ---------------------------------------------------------------------------------------------------- below the waist
def belt(sections: Array, m: Measures) -> tuple[list[Mesh], list[Mesh]]:
    """Strap and buckle, in the trunk's frame."""
    h, t = m.height, m.trunk
    rows = between(sections, 0.13 * t, 0.20 * t, 3)
    strap = stack(rows, sides=18, inflate=0.013 * h)
    buckle = _strip(rows, 0.015 * h, rows[:, 0], 0.014 * h, -0.014 * h, 0.004 * h)
    return [strap], [buckle]


def slacks(
    sections: Array, m: Measures, legs: list[Array], trunk: Array, end: float, flare: float = 1.22
) -> tuple[list[Mesh], list[Mesh]]:
    """Dress trousers, or shorts, down to a share of the leg, and the pressed creases down their fronts."""
    h, t = m.height, m.trunk
    extra = 0.010 * h
    seat = stack(between(sections, -0.062 * h, 0.2 * t, 8), sides=18, inflate=0.006 * h).transformed(trunk)
    meshes = [seat, *(sleeve(leg, 0.0, end, extra, flare=flare, round_ends=False) for leg in legs)]
    meshes += [_hip(leg, extra) for leg in legs]
    creases = [
        tube(_along(leg, 0.08, end, extra, flare, (1.0, 0.0, 0.25)), 0.0032 * h, sides=5, round_ends=True)
        for leg in legs
    ]
    return meshes, creases


def _hip(leg: Array, extra: float) -> Mesh:
    """Cloth over the hip joint."""
    radius = float(leg[0, 3]) + extra
    return ball((radius, radius, radius), leg[0, :3], 12)


def jeans(
    sections: Array, m: Measures, legs: list[Array], trunk: Array, end: float
) -> tuple[list[Mesh], list[Mesh], list[Mesh]]:
    """Jeans down to a share of the leg: cloth, its turned-up or worn light parts, and the stitching."""
    h, t = m.height, m.trunk
    extra, flare = 0.008 * h, 1.12
    rows = between(sections, -0.062 * h, 0.2 * t, 8)
    seat = stack(rows, sides=18, inflate=0.006 * h).transformed(trunk)
    cloth = [seat, *(sleeve(leg, 0.0, end, extra, flare=flare, round_ends=False) for leg in legs)]
    cloth += [_hip(leg, extra) for leg in legs]
    light = [sleeve(leg, end - 0.055, end + 0.005, 0.015 * h, flare=1.0, round_ends=False) for leg in legs]
    fine = 0.0028 * h
    on = 0.014 * h
    stitches = [
        _seam(rows, on, [(0.0, 0.13 * t), (0.0, 0.02 * t), (0.0, -0.02 * h)], fine),
        _seam(rows, on, [(0.020 * h, 0.13 * t), (0.020 * h, 0.03 * t), (0.002 * h, -0.012 * h)], fine),
    ]
    for side in (1, -1):
        pocket = [(side * 0.050 * h, 0.13 * t), (side * 0.060 * h, 0.06 * t), (side * 0.098 * h, 0.03 * t)]
        stitches.append(_seam(rows, on, pocket, fine))
    stitched = [mesh.transformed(trunk) for mesh in stitches]
    for side, leg in zip((1, -1), legs, strict=True):
        line = _along(leg, 0.05, end - 0.05, extra, flare, (0.25, side, 0.0))
        stitched.append(tube(line, fine, sides=5, round_ends=True))
    return cloth, light, stitched


def _skirt_path(skeleton: Skeleton, sections: Array, m: Measures, length: float, flare: float) -> tuple[Array, Array]:
    """Centre line (11, 3) of a skirt from the waist down, and its half axes (11, 2) across and along the front."""
    h = m.height
    left, right = (spline(leg, 16) for leg in skeleton.legs)
    steps = np.linspace(0.0, length, 9)
    u = np.linspace(0, 1, 16)
    a, b = (np.stack([np.interp(steps, u, leg[:, k]) for k in range(3)], axis=1) for leg in (left, right))
    mid = (a + b) / 2
    spread = np.abs(a - b) / 2
    grow = steps[:, None] / max(length, 1e-9)
    along = np.gradient(mid, axis=0)
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    thick = (0.062 - 0.022 * steps[:, None]) * h * m.limb
    front = np.column_stack([-along[:, 2], np.zeros(9), along[:, 0]])
    across = np.abs(np.sum(spread * np.abs(front), axis=1, keepdims=True))
    # Sitting bodies fold the cloth close to the legs; it only flares where it hangs.
    falls = np.clip(-along[:, 2:3], 0.35, 1.0)
    loose = grow * flare * h * falls
    half = np.hstack([spread[:, 1:2] + thick + loose, across + thick + loose])
    half[0] = np.maximum(half[0], [0.098 * h * m.girth, 0.074 * h * m.girth])
    waist = between(sections, 0.2 * m.trunk, 0.36 * m.trunk, 2)[::-1]
    top = np.column_stack([waist[:, 1], np.zeros(2), waist[:, 0]]) @ skeleton.trunk[:, :3].T + skeleton.trunk[:, 3]
    path = np.concatenate([top, mid])
    axes = np.concatenate([waist[:, [3, 2]] + 0.012 * h, half])
    return path, axes


def skirt(skeleton: Skeleton, sections: Array, m: Measures, length: float, flare: float) -> Mesh:
    """Cloth from the waist around both legs, down to a share of their length (1 = ankle).

    Its section follows the legs' spread, so it serves standing, striding and sitting bodies alike.
    """
    path, axes = _skirt_path(skeleton, sections, m, length, flare)
    # The section's second axis lies along the front: x when the body is upright, z along a sitting lap.
    return tube(path, axes, sides=16, up=(1.0, 0.0, 0.3))


def flared_skirt(
    skeleton: Skeleton, sections: Array, m: Measures, length: float, flare: float, folds: int = 11
) -> Mesh:
    """As ``skirt``, wider below and falling in ``folds`` folds."""
    path, axes = _skirt_path(skeleton, sections, m, length, flare)
    tangent = np.gradient(path, axis=0)
    side = np.cross(tangent, (1.0, 0.0, 0.3))
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    front = np.cross(side, tangent)
    front /= np.linalg.norm(front, axis=1, keepdims=True)
    angle = np.linspace(0, 2 * math.pi, 6 * folds, endpoint=False)
    depth = np.clip(np.linspace(-0.25, 1.0, len(path)), 0, 1)[:, None] * 0.075
    wave = 1 + depth * np.cos(folds * angle)
    rings = (
        path[:, None]
        + (np.cos(angle) * axes[:, :1] * wave)[..., None] * side[:, None]
        - (np.sin(angle) * axes[:, 1:] * wave)[..., None] * front[:, None]
    )
    return loft(rings, cap_start=False, cap_end=False)


def sash(sections: Array, m: Measures) -> Mesh:
    """A band around the waist, in the trunk's frame."""
    t = m.trunk
    return stack(between(sections, 0.33 * t, 0.43 * t, 4), sides=18, inflate=0.017 * m.height)


# ---------------------------------------------------------------------------------------------------- feet and hands
_FOOT = np.array(
    [
        (-0.036, 0.012, -0.022),
        (-0.030, 0.022, 0.004),
        (0.0, 0.027, 0.008),
        (0.045, 0.031, -0.012),
        (0.085, 0.030, -0.023),
        (0.108, 0.012, -0.034),
    ]
)
"""Heel to toe: x, half width, top, as shares of the height; the ankle joint is at the origin, the sole at -0.045."""


def _foot(shape: Array, bottom: float = -0.037) -> Array:
    """Rings (R, 10, 3) over a foot's outline, as shares of the height.

    Rings run from y to z, which is counter-clockwise about +x, the way they advance.
    """
    x, w, top = (shape[:, k : k + 1] for k in range(3))
    angle = np.linspace(0, 2 * math.pi, 10, endpoint=False)
    return np.stack(
        np.broadcast_arrays(x, w * np.cos(angle), (top + bottom) / 2 + (top - bottom) / 2 * np.sin(angle)), axis=-1
    )


def _sole(shape: Array, thick: float = 0.007, middle: float = -0.038, wide: float = 1.08) -> Array:
    """Rings of the sole below a foot's outline."""
    x, w = shape[:, :1], shape[:, 1:2]
    angle = np.linspace(0, 2 * math.pi, 10, endpoint=False)
    return np.stack(np.broadcast_arrays(1.04 * x, wide * w * np.cos(angle), middle + thick * np.sin(angle)), axis=-1)


def _on_feet(meshes: list[Mesh], skeleton: Skeleton) -> Mesh:
    """Parts made for a foot at the origin, on both feet."""
    frames = [frame(toe, leg[2]) for toe, leg in zip(skeleton.toes, skeleton.legs, strict=True)]
    return merge([mesh.transformed(position) for position in frames for mesh in meshes])


def shoes(skeleton: Skeleton, m: Measures) -> tuple[Mesh, Mesh]:
    """Uppers and soles."""
    shape = spline(_FOOT, 9)
    upper, sole = loft(_foot(shape) * m.height), loft(_sole(shape) * m.height)
    return _on_feet([upper], skeleton), _on_feet([sole], skeleton)


def boots(skeleton: Skeleton, m: Measures, legs: list[Array]) -> tuple[list[Mesh], list[Mesh]]:
    """Boots to the middle of the shin: leather, and soles with heels."""
    h = m.height
    uppers, _ = shoes(skeleton, replace(m, height=1.12 * h))
    shafts = [sleeve(leg, 0.70, 1.0, 0.014 * h, flare=1.12, round_ends=False) for leg in legs]
    rims = [sleeve(leg, 0.695, 0.725, 0.019 * h, round_ends=False) for leg in legs]
    shape = spline(_FOOT, 9) * 1.12
    sole = loft(_sole(shape, thick=0.009, middle=-0.044) * h)
    heel = box((0.042 * h, 0.050 * h, 0.022 * h), (-0.016 * h, 0.0, -0.052 * h))
    return [uppers, *shafts, *rims], [_on_feet([sole, heel], skeleton)]


def slippers(skeleton: Skeleton, m: Measures) -> tuple[list[Mesh], list[Mesh], list[Mesh]]:
    """House slippers, open at the heel: padded uppers over the toes, soles with lining, and the bare feet in them."""
    h = m.height
    shape = spline(_FOOT, 9)
    bare = shape.copy()
    bare[:, 1:2] *= 0.86
    toes = shape[shape[:, 0] > 0.020].copy()
    toes[:, 1] *= 1.30
    toes[:, 0] *= 1.10
    toes[:, 2] += 0.014
    cap = loft(_foot(toes, -0.040) * h)
    # A soft roll where the foot goes in.
    x, w, top = toes[0]
    arch = np.linspace(-0.15, math.pi + 0.15, 9)
    roll = np.stack([np.full(9, x), w * np.cos(arch), -0.030 + (top + 0.030) * np.sin(arch)], axis=1)
    trim = tube(roll * h, 0.009 * h, sides=8, round_ends=True)
    sole = loft(_sole(shape * np.array([1.08, 1.0, 1.0]), thick=0.010, middle=-0.043, wide=1.34) * h)
    return (
        [_on_feet([cap], skeleton)],
        [_on_feet([sole, trim], skeleton)],
        [_on_feet([loft(_foot(bare) * h)], skeleton)],
    )


def gloves(skeleton: Skeleton, m: Measures, arms: list[Array]) -> list[Mesh]:
    """Padded gloves with fingers, their cuffs over the sleeves."""
    meshes = []
    size = m.height * (0.5 + 0.5 * m.limb)
    for s, joints in zip((1, -1), skeleton.arms, strict=True):
        along = joints[2] - joints[1]
        up = (0.0, 0.0, 1.0) if abs(along[2]) < 0.8 * np.linalg.norm(along) else (0.0, -float(s), 0.0)
        position = frame(along, joints[2], up)
        parts = [
            ball((0.044 * size, 0.032 * size, 0.024 * size), (0.030 * size, 0, 0), 12),
            ball((0.032 * size, 0.013 * size, 0.013 * size), (0.030 * size, 0.034 * size, 0.0), 8).rotated("z", 18),
        ]
        for k in range(4):
            y = (-0.024 + 0.016 * k) * size
            reach = (0.092, 0.104, 0.104, 0.092)[k] * size
            finger = np.array([(0.05 * size, y, 0.0), (reach, 1.12 * y, -0.004 * size)])
            parts.append(tube(np.linspace(finger[0], finger[1], 3), 0.0105 * size, sides=6, round_ends=True))
        meshes += [part.transformed(position) for part in parts]
    cuffs = [sleeve(arm, 0.90, 1.0, 0.016 * m.height, flare=0.95, round_ends=False) for arm in arms]
    return [*meshes, *cuffs]


# ------------------------------------------------------------------------------------------------------- on the head
def brimmed_hat() -> tuple[list[Mesh], list[Mesh]]:
    """A hat with a round brim that fits over hair, and the ribbon around it; for a head of height 1."""
    rows = spline(
        np.array(
            [
                (0.74, -0.02, 0.54, 0.47),
                (0.90, -0.02, 0.51, 0.44),
                (1.10, -0.02, 0.45, 0.37),
                (1.22, -0.02, 0.40, 0.31),
                (1.25, -0.02, 0.30, 0.22),
                (1.22, -0.02, 0.02, 0.02),
            ]
        ),
        14,
    )
    crown = stack(rows, sides=22)
    turn = np.linspace(0, 2 * math.pi, 28, endpoint=False)
    rims = []
    for depth, width, z in (
        (0.50, 0.43, 0.74),
        (0.88, 0.80, 0.735),
        (0.90, 0.82, 0.755),
        (0.88, 0.80, 0.775),
        (0.50, 0.43, 0.80),
    ):
        # The brim curls up at the sides and dips at the front.
        lift = 0.06 * (np.abs(np.sin(turn)) ** 2) * (depth > 0.6) - 0.03 * np.cos(turn) * (depth > 0.6)
        rims.append(np.stack([-0.02 + depth * np.cos(turn), width * np.sin(turn), z + lift], axis=1))
    brim = grid_surface(np.stack(rims), wrap_cols=True)
    ribbon = stack(np.array([(0.79, -0.02, 0.555, 0.485), (0.90, -0.02, 0.535, 0.465)]), sides=22)
    tilt = -5.0
    return [mesh.rotated("y", tilt, (0, 0, 0.75)) for mesh in (crown, brim)], [ribbon.rotated("y", tilt, (0, 0, 0.75))]


def face_mask() -> tuple[list[Mesh], list[Mesh]]:
    """A pleated mask over nose, mouth and chin, and its ear loops; for a head of height 1."""
    azimuth = np.radians(np.linspace(-66, 66, 19))
    folded = np.abs(np.degrees(azimuth))
    low = np.interp(folded, (0, 30, 66), (-0.045, 0.00, 0.15))
    high = np.interp(folded, (0, 12, 28, 66), (0.505, 0.475, 0.43, 0.40))
    t = np.linspace(0, 1, 13)[:, None]
    z = low + (high - low) * t
    mid, depth, width = (np.interp(z, HEAD[:, 0], HEAD[:, k]) for k in (1, 2, 3))
    # It spans from the bridge of the nose over its tip to the chin and does not follow the face between.
    tent = 0.105 * np.exp(-((folded / 30.0) ** 2)) * np.interp(t, (0, 0.2, 0.75, 1.0), (0.35, 0.6, 1.0, 0.55))
    pleats = 0.010 * (np.abs((t * 4) % 1.0 - 0.5) * 2 - 0.5) * np.clip((66 - folded) / 20, 0, 1) * (t < 0.9)
    off = 0.045 + tent + pleats
    chin = np.interp(z, (-0.05, 0.16), (0.20, 0.0)) * np.cos(azimuth)
    points = np.stack([mid + (depth + off) * np.cos(azimuth) + chin, (width + off) * np.sin(azimuth), z], axis=-1)
    points = np.concatenate([points[:1], points, points[-1:]])
    points[0, :, 0] -= 0.05
    points[-1, :, 0] -= 0.05
    points = np.concatenate(
        [points[:, :1] * np.array([1, 0.9, 1]), points, points[:, -1:] * np.array([1, 0.9, 1])], axis=1
    )
    loops = []
    for edge in (2, -3):
        start = points[edge, -2]
        ear = np.array([(0.02, 0.375, 0.40), (-0.05, 0.37, 0.50), (-0.03, 0.36, 0.58)])
        loops.append(tube(np.vstack([start, ear[: 3 if edge < 0 else 1]]), 0.013, sides=5).with_twin())
    return [grid_surface(points)], loops
