"""Bodies: joints and sizes of one person, and the shapes that bodies and clothes are made of.

Lengths are metres unless said otherwise; z is up and a person faces +x, so the person's left is +y. The trunk has a
frame of its own: origin at the pelvis, z to the head.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from verism.simulator.shapes import Mesh, ellipsoid, grid_surface, spline, tube

__all__ = [
    "HEAD",
    "Measures",
    "Skeleton",
    "arm",
    "ball",
    "between",
    "face_x",
    "frame",
    "hands",
    "hanging",
    "limb",
    "mix",
    "shell",
    "skull",
    "sleeve",
    "stack",
]

Array = NDArray[np.float64]
Color = tuple[float, float, float]


@dataclass(frozen=True, eq=False)
class Skeleton:
    """Joints in metres. Each limb is (root, middle, end); index 0 is the left, 1 the right."""

    pelvis: Array  # (3,)
    trunk: Array  # (3, 4) from the trunk's own frame (origin at the pelvis, z to the head) to the world
    arms: tuple[Array, Array]  # each (3, 3)
    legs: tuple[Array, Array]  # each (3, 3)
    toes: tuple[Array, Array]  # unit vectors from heel to toe
    head_turn: float  # degrees to the left
    trunk_length: float  # pelvis to shoulder line


@dataclass(frozen=True)
class Measures:
    """Sizes of one body, metres."""

    height: float
    head: float  # chin to crown
    hip: float  # hip joint above the sole when standing
    trunk: float  # hip joint to shoulder line
    girth: float  # factor on the trunk's width
    limb: float  # factor on the limbs' thickness


def stack(sections: Array, *, sides: int, inflate: float = 0.0, opening: float = 0.0) -> Mesh:
    """A skin over upright elliptical sections: columns z, middle in x, half depth (x), half width (y).

    ``inflate`` metres are added to both half axes; ``opening`` degrees are left open on each side of the front.
    """
    z, mid, depth, width = (sections[:, k : k + 1] for k in range(4))
    if opening:
        angle = np.radians(np.linspace(opening, 360 - opening, sides + 1))
    else:
        angle = np.linspace(0, 2 * math.pi, sides, endpoint=False)
    points = np.stack(
        np.broadcast_arrays(
            mid + (depth + inflate) * np.cos(angle), (width + inflate) * np.sin(angle), np.broadcast_to(z, (len(z), 1))
        ),
        axis=-1,
    )
    return grid_surface(points, wrap_cols=not opening)


def between(sections: Array, low: float, high: float, samples: int) -> Array:
    """Sections resampled between two heights; column 0 is the height and rises."""
    z = np.linspace(low, high, samples)
    return np.stack([z] + [np.interp(z, sections[:, 0], sections[:, k]) for k in range(1, 4)], axis=1)


def hanging(sections: Array, hem: float, collar: float) -> Array:
    """Sections of a top between hem and collar: below the widest part of the hips it hangs straight down."""
    rows = between(sections, hem, collar, 14)
    widest = int(np.argmax(rows[:, 3] * (rows[:, 0] < 0.3 * collar)))
    rows[:widest, 1:] = rows[widest, 1:]
    return rows


def limb(joints: Array, radii: Sequence[float], *, bend: float = 0.22, samples: int = 14) -> Array:
    """A limb's centre line with radii: columns x, y, z, radius, from root to end; the joint is rounded off."""
    a, b, c = joints
    path = np.array([a, a + (b - a) * 0.5, b - (b - a) * bend, b + (c - b) * bend, b + (c - b) * 0.55, c])
    # Radii are given at root, mid thigh, joint, calf, end.
    r = np.interp([0, 1, 1.75, 2.3, 3.1, 4], np.arange(5), radii)
    return spline(np.column_stack([path, r]), samples)


def arm(joints: Array, skeleton: Skeleton, side: int, m: Measures) -> Array:
    """As ``limb``, for an arm: it starts inside the chest, so that the shoulder is round and slopes to the neck."""
    radii = [x * m.height * m.limb for x in (0.031, 0.029, 0.024, 0.022, 0.015)]
    chest = np.array([-0.004 * m.height, side * 0.050 * m.height, 1.005 * m.trunk])
    start = skeleton.trunk[:, :3] @ chest + skeleton.trunk[:, 3]
    return spline(np.vstack([[*start, 0.030 * m.height], limb(joints, radii, bend=0.15, samples=7)]), 17)


def sleeve(line: Array, start: float, end: float, extra: float, *, flare: float = 1.0, round_ends: bool = True) -> Mesh:
    """The part of a limb (centre line with radii) between two shares of its length, ``extra`` metres thicker and
    widening to ``flare`` times.
    """
    t = np.linspace(start, end, max(4, int(14 * (end - start))))
    u = np.linspace(0, 1, len(line))
    path = np.stack([np.interp(t, u, line[:, k]) for k in range(4)], axis=1)
    radius = (path[:, 3] + extra) * np.linspace(1.0, flare, len(t))
    return tube(path[:, :3], radius, sides=10, round_ends=round_ends)


@lru_cache
def unit_ball(segments: int) -> Mesh:
    return ellipsoid((1, 1, 1), segments=segments)


def ball(radii: Sequence[float], center: Sequence[float] | Array, segments: int = 10) -> Mesh:
    """An ellipsoid; ``shapes.ellipsoid`` with the unit ball kept, for the many small parts of a body."""
    return unit_ball(segments).transformed(np.column_stack([np.diag(np.asarray(radii, dtype=np.float64)), center]))


def frame(toward: Array, origin: Array, up: Sequence[float] = (0, 0, 1)) -> Array:
    """Matrix (3, 4) that puts a part made along +x at ``origin``, its x axis ``toward`` a direction."""
    x = toward / np.linalg.norm(toward)
    y = np.cross(np.asarray(up, dtype=np.float64), x)
    y /= np.linalg.norm(y)
    return np.column_stack([x, y, np.cross(x, y), origin])


def hands(skeleton: Skeleton, m: Measures) -> list[Mesh]:
    meshes = []
    for s, joints in zip((1, -1), skeleton.arms, strict=True):
        along = joints[2] - joints[1]
        size = m.height * (0.5 + 0.5 * m.limb)
        up = (0.0, 0.0, 1.0) if abs(along[2]) < 0.8 * np.linalg.norm(along) else (0.0, -float(s), 0.0)
        palm = ball((0.052 * size, 0.024 * size, 0.016 * size), (0.034 * size, 0, 0), 10)
        thumb = ball((0.026 * size, 0.009 * size, 0.009 * size), (0.026 * size, 0.026 * size, 0.0), 8)
        position = frame(along, joints[2], up)
        meshes += [palm.transformed(position), thumb.transformed(position)]
    return meshes


# Chin to crown as shares of the head's height: z, middle (x), half depth, half width. The face is at +x.
HEAD = spline(
    np.array(
        [
            (-0.02, 0.10, 0.10, 0.08),
            (0.03, 0.10, 0.24, 0.17),
            (0.16, 0.05, 0.33, 0.26),
            (0.34, 0.01, 0.38, 0.31),
            (0.52, -0.01, 0.41, 0.335),
            (0.68, -0.02, 0.42, 0.345),
            (0.82, -0.03, 0.38, 0.32),
            (0.93, -0.04, 0.27, 0.23),
            (0.985, -0.04, 0.13, 0.11),
            (1.0, -0.04, 0.005, 0.005),
        ]
    ),
    24,
)


@lru_cache
def skull() -> Mesh:
    return stack(HEAD, sides=18)


def face_x(y: float, z: float) -> float:
    """Where the front of the head is, in shares of its height."""
    mid, depth, width = (float(np.interp(z, HEAD[:, 0], HEAD[:, k])) for k in (1, 2, 3))
    return mid + depth * math.sqrt(max(1 - (y / width) ** 2, 0.0))


def shell(hairline: Array, thickness: float, *, bump: float = 0.0, rows: int = 9) -> Mesh:
    """A cover over the head above a hairline, in shares of the head's height.

    Args:
        hairline: array (5,), height of the cover's lower edge at azimuths 0 (the face), 45, 90, 135 and 180 degrees,
            share of the head's height.
        thickness: how far the cover stands off the head at full height, share of the head's height.
        bump: depth of curls, share of the head's height; 0 for none.
        rows: number of rows of vertices from the hairline to the crown, at least 2.
    """
    columns = 20
    azimuth = np.linspace(0, 2 * math.pi, columns, endpoint=False)
    folded = np.degrees(np.minimum(azimuth, 2 * math.pi - azimuth))
    low = np.interp(folded, (0, 45, 90, 135, 180), hairline)
    t = np.concatenate([[0.0], np.linspace(0, 1, rows) ** 0.85])[:, None]
    z = low + (1.0 - low) * t
    mid, depth, width = (np.interp(z, HEAD[:, 0], HEAD[:, k]) for k in (1, 2, 3))
    # The first row starts inside the head, so that the edge looks thick rather than like paper.
    off = thickness * np.clip(0.35 + 4 * t, 0, 1)
    off[0] = -0.03
    curls = bump * np.sin(5 * azimuth + 9 * z) * np.sin(14 * z + 2 * np.cos(3 * azimuth)) * np.clip(3 * t, 0, 1)
    off = off + curls
    points = np.stack(
        [mid + (depth + off) * np.cos(azimuth), (width + off) * np.sin(azimuth), z + np.maximum(off, 0) * t**3], axis=-1
    )
    top = points[-1].mean(axis=0)
    return grid_surface(np.concatenate([points, np.broadcast_to(top, (1, columns, 3))]), wrap_cols=True)


def mix(a: Color, b: Color, share: float) -> Color:
    r, g, bl = ((1 - share) * x + share * y for x, y in zip(a, b, strict=True))
    return r, g, bl
