"""Dogs, bears and birds: bodies swept along curves, each limb a tube that grows out of the trunk.

What tells them apart is kept apart: dogs are lean, with a tail, a collar and a long muzzle; bears are bulky, with small
round ears, a hump and no tail to speak of; birds have a beak and feathered wings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verism.simulator.model import Asset, Material, Model, Pattern, jitter, pick
from verism.simulator.shapes import Mesh, ellipsoid, grid_surface, merge, rotation_matrix, spline, tube

__all__ = ["ASSETS"]

Array = NDArray[np.float64]
Color = tuple[float, float, float]
Parts = list[tuple[Mesh | Sequence[Mesh], Material]]

_DARK = Material((0.05, 0.045, 0.045), roughness=0.3)  # eyes and noses
_EYE_WHITE = Material((0.92, 0.91, 0.88), roughness=0.4)


@lru_cache
def _unit_ball(segments: int) -> Mesh:
    return ellipsoid((1, 1, 1), segments=segments)


def _ball(radii: Sequence[float], center: ArrayLike, segments: int = 12) -> Mesh:
    """An ellipsoid; ``shapes.ellipsoid`` with the unit ball kept, for the many small parts of a body."""
    return _unit_ball(segments).transformed(np.column_stack([np.diag(np.asarray(radii, dtype=np.float64)), center]))


def _sweep(
    rows: ArrayLike, *, samples: int = 12, sides: int = 12, up: Sequence[float] = (0, 0, 1), scale: float = 1.0
) -> Mesh:
    """A round-ended tube through rows of x, y, z, radius or x, y, z, half width, half height, times ``scale``."""
    path = spline(np.asarray(rows, dtype=np.float64) * scale, samples)
    radius = path[:, 3] if path.shape[1] == 4 else path[:, 3:]
    return tube(path[:, :3], radius, sides=sides, round_ends=True, up=up)


def _fur(rng: np.random.Generator, color: Color, pattern: Pattern | None = None) -> Material:
    shade = np.clip(np.asarray(color) + rng.uniform(-0.03, 0.03, 3), 0.02, 0.97)
    return Material((float(shade[0]), float(shade[1]), float(shade[2])), 0.9, paintable=True, pattern=pattern)


def _mix(a: Color, b: Color, share: float) -> Color:
    r, g, bl = ((1 - share) * x + share * y for x, y in zip(a, b, strict=True))
    return r, g, bl


def _placed(parts: Parts, *, turn: Array | None = None, at: ArrayLike = (0, 0, 0), scale: float = 1.0) -> Parts:
    """Parts made about the origin, put elsewhere."""
    matrix = np.column_stack([(np.eye(3) if turn is None else turn) * scale, np.asarray(at, dtype=np.float64)])
    return [
        ((mesh if isinstance(mesh, Mesh) else merge(mesh)).transformed(matrix), material) for mesh, material in parts
    ]


def _grounded(parts: Parts) -> Model:
    """The model, one part per material, with its lowest point at z = 0."""
    groups: dict[Material, list[Mesh]] = {}
    for mesh, material in parts:
        groups.setdefault(material, []).extend([mesh] if isinstance(mesh, Mesh) else mesh)
    merged = [(merge(meshes), material) for material, meshes in groups.items()]
    low = min(float(mesh.bounds[0][2]) for mesh, _ in merged)
    return Model.of([(mesh.moved(z=-low), material) for mesh, material in merged])


# -------------------------------------------------------------------------------------------------------------- dogs
@dataclass(frozen=True)
class _Breed:
    """Proportions of a dog; lengths are shares of the height at the shoulder."""

    height_m: float
    length: float  # chest to rump
    depth: float  # of the chest
    legs: float  # thickness
    head: float  # length of the skull
    muzzle: float  # length, in skulls
    ears: Literal["pricked", "floppy", "folded"]
    tail: Literal["curled", "plume", "straight"]
    coats: tuple[tuple[Color, Color], ...]  # coat, and muzzle / chest / paws
    spots: Color | None = None


_WHITE: Color = (0.92, 0.90, 0.86)
_BLACK: Color = (0.10, 0.09, 0.09)
_TAN: Color = (0.72, 0.50, 0.28)

_BREEDS: tuple[_Breed, ...] = (
    _Breed(
        0.58,
        1.12,
        0.235,
        1.05,
        0.36,
        0.95,
        "floppy",
        "plume",
        (
            ((0.80, 0.60, 0.34), (0.90, 0.78, 0.56)),
            (_BLACK, (0.16, 0.14, 0.13)),
            ((0.42, 0.25, 0.14), (0.50, 0.32, 0.20)),
            ((0.90, 0.84, 0.70), (0.94, 0.90, 0.80)),
        ),
    ),
    _Breed(
        0.62,
        1.08,
        0.225,
        1.0,
        0.36,
        1.05,
        "pricked",
        "plume",
        (((0.55, 0.36, 0.20), (0.15, 0.12, 0.11)), ((0.62, 0.44, 0.26), _BLACK)),
    ),
    _Breed(
        0.56,
        1.02,
        0.235,
        1.05,
        0.37,
        0.90,
        "pricked",
        "curled",
        (((0.35, 0.37, 0.40), _WHITE), ((0.78, 0.46, 0.20), _WHITE), (_BLACK, _WHITE)),
    ),
    _Breed(0.58, 1.05, 0.215, 0.95, 0.35, 1.05, "floppy", "straight", ((_WHITE, _WHITE),), _BLACK),
    _Breed(0.38, 1.15, 0.24, 1.05, 0.42, 0.95, "floppy", "straight", (((0.56, 0.33, 0.17), _WHITE), (_BLACK, _TAN))),
    _Breed(
        0.30,
        1.10,
        0.26,
        1.15,
        0.50,
        0.70,
        "folded",
        "straight",
        (
            (_WHITE, (0.66, 0.44, 0.24)),
            ((0.66, 0.48, 0.30), (0.76, 0.62, 0.44)),
            ((0.40, 0.40, 0.42), (0.70, 0.70, 0.70)),
        ),
    ),
    _Breed(
        0.26,
        1.75,
        0.33,
        1.45,
        0.56,
        1.15,
        "floppy",
        "straight",
        (((0.52, 0.27, 0.13), (0.58, 0.33, 0.18)), (_BLACK, _TAN)),
    ),
)


def _dog_head(rng: np.random.Generator, breed: _Breed, coat: Material, light: Material) -> Parts:
    """A head of skull length 1 at the origin (the skull's middle), looking along +x."""
    reach = breed.muzzle
    muzzle = _sweep(
        [(0.15, 0, -0.10, 0.30, 0.29), (0.50, 0, -0.14, 0.23, 0.22), (0.45 + 0.55 * reach, 0, -0.17, 0.18, 0.165)],
        samples=8,
    )
    jaw = _sweep([(0.1, 0, -0.25, 0.2, 0.12), (0.38 + 0.5 * reach, 0, -0.34, 0.13, 0.07)], samples=5)
    tip = 0.45 + 0.55 * reach + 0.13
    parts: Parts = [
        ([_ball((0.46, 0.42, 0.41), (0, 0, 0.02), 14), _ball((0.2, 0.37, 0.26), (0.10, 0, -0.12), 12)], coat),
        ([muzzle, jaw], light),
        (_ball((0.085, 0.12, 0.09), (tip, 0, -0.08), 10), _DARK),
        (_ball((0.055, 0.085, 0.085), (0.355, 0.215, 0.11), 10).with_twin(), _EYE_WHITE),
        (_ball((0.05, 0.07, 0.075), (0.385, 0.215, 0.11), 10).with_twin(), _DARK),
        (
            _sweep(
                [(tip - 0.10, 0.17, -0.26, 0.022), (tip - 0.32, 0.215, -0.28, 0.022)], samples=4, sides=5
            ).with_twin(),
            _DARK,
        ),
    ]
    if rng.random() < 0.5:
        tongue = _sweep(
            [
                (tip - 0.42, 0, -0.31, 0.09, 0.035),
                (tip - 0.12, 0, -0.34, 0.10, 0.035),
                (tip - 0.05, 0, -0.55, 0.09, 0.035),
            ],
            samples=7,
            sides=8,
        )
        parts.append((tongue, Material((0.86, 0.42, 0.45), 0.5)))
    inner = Material(_mix(coat.color, (0.85, 0.55, 0.50), 0.55), 0.9)
    if breed.ears == "pricked":
        ear = _sweep(
            [(-0.10, 0.24, 0.28, 0.17, 0.09), (-0.10, 0.29, 0.52, 0.12, 0.06), (-0.08, 0.31, 0.78, 0.015, 0.015)],
            samples=7,
            sides=10,
            up=(1, 0, 0),
        )
        hollow = _sweep(
            [(0.00, 0.25, 0.34, 0.10, 0.03), (-0.015, 0.295, 0.52, 0.07, 0.03), (-0.05, 0.31, 0.66, 0.012, 0.012)],
            samples=6,
            sides=8,
            up=(1, 0, 0),
        )
        parts += [(ear.with_twin(), coat), (hollow.with_twin(), inner)]
    elif breed.ears == "folded":
        ear = _sweep(
            [
                (-0.08, 0.22, 0.30, 0.16, 0.08),
                (-0.02, 0.30, 0.52, 0.14, 0.06),
                (0.14, 0.36, 0.50, 0.10, 0.05),
                (0.24, 0.38, 0.34, 0.03, 0.03),
            ],
            samples=9,
            sides=8,
            up=(0, 1, 0.3),
        )
        parts.append((ear.with_twin(), light if rng.random() < 0.5 else coat))
    else:
        drop = jitter(rng, 0.55, 0.2)
        dark = Material(_mix(coat.color, (0.05, 0.04, 0.03), 0.45), 0.9)
        ear = _sweep(
            [
                (-0.12, 0.30, 0.30, 0.14, 0.07),
                (-0.12, 0.43, 0.22, 0.17, 0.07),
                (-0.09, 0.50, -0.1, 0.19, 0.06),
                (-0.04, 0.49, 0.1 - drop, 0.08, 0.04),
            ],
            samples=9,
            sides=8,
            up=(0, 1, 0),
        )
        parts.append((ear.with_twin(), dark))
    return parts


def _dog(rng: np.random.Generator, state: str) -> Model:
    breed = pick(rng, _BREEDS)
    base, second = pick(rng, breed.coats)
    spots = breed.spots
    pattern = None
    if spots is not None:
        pattern = Pattern("dots", spots, scale=jitter(rng, 0.085, 0.2))
    elif rng.random() < 0.3:
        pattern = Pattern("noise", _mix(base, second, 0.8), scale=jitter(rng, 0.06, 0.3))
    coat = _fur(rng, base, pattern)
    light = Material(second, 0.9)
    collar = Material(pick(rng, ((0.75, 0.10, 0.12), (0.12, 0.25, 0.65), (0.10, 0.45, 0.25), (0.90, 0.65, 0.10))), 0.5)
    h = jitter(rng, breed.height_m, 0.08)
    length, depth = jitter(rng, breed.length, 0.05), jitter(rng, breed.depth, 0.06)
    thick = 0.062 * breed.legs
    # A dachshund's legs are what is left below its chest.
    body_z = 1.0 - depth * 0.9
    front, rear = 0.42 * length, -0.42 * length
    parts: Parts = []
    if state == "sitting":
        rump = np.array([rear * 0.62, 0.0, depth * 0.98])
        chest = np.array([rump[0] + 0.50 * length**0.5, 0.0, max(0.70 - 0.1 * (length - 1.1), depth + 0.28 * length)])
        body = [
            (rump[0] - 0.05, 0, rump[2], depth * 0.72, depth * 0.80),
            (rump[0] + 0.02, 0, rump[2] + 0.06, depth * 0.90, depth * 0.98),
            (0.5 * (rump[0] + chest[0]), 0, 0.5 * (rump[2] + chest[2]) + 0.03, depth * 0.80, depth * 0.90),
            (chest[0] - 0.03, 0, chest[2], depth * 0.80, depth * 1.0),
            (chest[0] + 0.03, 0, chest[2] + 0.10, depth * 0.60, depth * 0.72),
        ]
        neck_from = chest + np.array([-0.01, 0, 0.10])
        elbow_z = chest[2] - 0.02
        foot_x = chest[0] + 0.05
        leg_rows = [
            (chest[0] - 0.02, depth * 0.62, elbow_z, thick * 1.5),
            (chest[0] + 0.0, depth * 0.70, elbow_z * 0.55, thick * 1.05),
            (foot_x, depth * 0.70, 0.10, thick * 0.85),
            (foot_x + 0.02, depth * 0.70, 0.05, thick * 0.85),
        ]
        parts.append((_sweep(leg_rows, samples=9, sides=9).with_twin(), coat))
        parts.append(
            (_ball((0.105, 0.075 * breed.legs, 0.055), (foot_x + 0.06, depth * 0.70, 0.055)).with_twin(), light)
        )
        # Folded hind legs: a thigh against the flank, and a foot along the ground.
        knee = rump[0] + 0.26
        parts.append(
            (
                _ball((0.25, depth * 0.42, 0.21), (rump[0] + 0.09, depth * 0.80, 0.22))
                .rotated("y", -22, (rump[0] + 0.09, 0, 0.22))
                .with_twin(),
                coat,
            )
        )
        parts.append(
            (
                _sweep(
                    [
                        (knee, depth * 0.95, 0.24, thick),
                        (rump[0] + 0.08, depth * 0.98, 0.08, thick * 0.9),
                        (knee + 0.05, depth * 1.02, 0.05, thick * 0.85),
                    ],
                    samples=9,
                    sides=9,
                ).with_twin(),
                coat,
            )
        )
        parts.append((_ball((0.11, 0.075 * breed.legs, 0.052), (knee + 0.10, depth * 1.02, 0.052)).with_twin(), light))
        tail_at = rump + np.array([-0.16 * (depth / 0.23), 0, -depth * 0.55])
    else:
        body = [
            (rear - 0.10, 0, body_z + 0.03, depth * 0.45, depth * 0.55),
            (rear, 0, body_z + 0.03, depth * 0.72, depth * 0.80),
            (0.35 * rear, 0, body_z + 0.04, depth * 0.72, depth * 0.74),
            (0.35 * front, 0, body_z, depth * 0.82, depth * 0.98),
            (front - 0.02, 0, body_z, depth * 0.84, depth * 1.05),
            (front + 0.11, 0, body_z + 0.06, depth * 0.55, depth * 0.70),
        ]
        neck_from = np.array([front - 0.02, 0, body_z + 0.10])
        stride = rng.uniform(-0.08, 0.08)
        for side in (1, -1):
            y, s = side * depth * 0.58, side * stride
            parts.append(
                (
                    _sweep(
                        [
                            (front - 0.04, y, body_z - 0.02, thick * 1.75),
                            (front - 0.06, y * 1.05, 0.5 * body_z, thick * 1.05),
                            (front + s, y * 1.05, 0.10, thick * 0.8),
                            (front + s, y * 1.05, 0.05, thick * 0.85),
                        ],
                        samples=10,
                        sides=9,
                    ),
                    coat,
                )
            )
            parts.append((_ball((0.10, 0.072 * breed.legs, 0.052), (front + s + 0.04, y * 1.05, 0.052)), light))
            parts.append(
                (
                    _sweep(
                        [
                            (rear, y * 0.9, body_z, depth * 0.62),
                            (rear + 0.06, y * 1.08, 0.60 * body_z, thick * 1.45),
                            (rear - 0.10 - s, y * 1.08, 0.32 * body_z, thick * 0.85),
                            (rear - 0.03 - s, y * 1.08, 0.05, thick * 0.82),
                        ],
                        samples=12,
                        sides=9,
                    ),
                    coat,
                )
            )
            parts.append((_ball((0.10, 0.072 * breed.legs, 0.052), (rear - s + 0.01, y * 1.08, 0.052)), light))
        tail_at = np.array([rear - 0.13, 0, body_z + 0.10])
    parts.append((_sweep(body, samples=18, sides=14), coat))
    if state == "standing":
        parts.append((_ball((0.10, depth * 0.5, depth * 0.62), (front + 0.11, 0, body_z + 0.0)), light))
    else:
        parts.append((_ball((0.10, depth * 0.52, depth * 0.85), (chest[0] + 0.13, 0, chest[2] - 0.02)), light))

    # Neck, collar and head; the head may look aside.
    rise = jitter(rng, 0.30 + 0.1 * breed.head, 0.12)
    out = (0.22 if state == "standing" else 0.13) + 0.1 * breed.head
    skull = neck_from + np.array([out, 0, rise + 0.35 * breed.head])
    girth = 0.36 * breed.head + 0.25 * depth
    neck = spline(
        np.array(
            [
                (*(neck_from - np.array([0.05, 0, 0.05])), girth * 1.15),
                (*(neck_from + 0.5 * (skull - neck_from)), girth * 0.86),
                (*(skull - np.array([0.12 * breed.head, 0, 0.1 * breed.head])), girth * 0.75),
            ]
        ),
        9,
    )
    parts.append((tube(neck[:, :3], neck[:, 3], sides=12, round_ends=True), coat))
    if rng.random() < 0.75:
        ring = neck[3:6]
        band = ring[1:2, :3] + np.array([-0.5, 0.5])[:, None] * 0.055 * (ring[2:, :3] - ring[:1, :3]) / np.linalg.norm(
            ring[2, :3] - ring[0, :3]
        )
        parts.append((tube(band, ring[1, 3] * 1.10 + 0.008, sides=14), collar))
        tag = band.mean(axis=0) + np.array([ring[1, 3] * 0.95 + 0.03, 0, -ring[1, 3] * 0.85])
        parts.append((_ball((0.03, 0.03, 0.035), tag, 8), Material((0.85, 0.70, 0.25), 0.3, metallic=0.8)))
    look = rotation_matrix((0, 0, 1), rng.uniform(-25, 25)) @ rotation_matrix((0, 1, 0), rng.uniform(-4, 14))
    plain = Material(coat.color, 0.9, paintable=True)
    parts += _placed(_dog_head(rng, breed, plain, light), turn=look, at=skull, scale=breed.head)

    lift = rng.uniform(0.7, 1.15)
    x, _, z = tail_at
    if state == "sitting":
        rows = [
            (x + 0.08, 0, z, 0.06),
            (x - 0.16, 0.02, 0.09, 0.06),
            (x - 0.34, 0.08, 0.10, 0.055),
            (x - 0.46, 0.16, 0.20 * lift, 0.025),
        ]
    elif breed.tail == "curled":
        rows = [
            (x + 0.06, 0, z - 0.04, 0.07),
            (x - 0.10, 0, z + 0.16, 0.085),
            (x + 0.02, 0.02, z + 0.32, 0.085),
            (x + 0.15, 0.05, z + 0.24, 0.06),
            (x + 0.13, 0.07, z + 0.14, 0.03),
        ]
    elif breed.tail == "plume":
        rows = [
            (x + 0.06, 0, z - 0.04, 0.06),
            (x - 0.14, 0, z + 0.02, 0.07),
            (x - 0.32, 0, z + 0.10 * lift, 0.085),
            (x - 0.48, 0, z + 0.28 * lift, 0.025),
        ]
    else:
        rows = [
            (x + 0.06, 0, z - 0.04, 0.06),
            (x - 0.10, 0, z + 0.10 * lift, 0.045),
            (x - 0.20, 0, z + 0.28 * lift, 0.038),
            (x - 0.24, 0, z + 0.46 * lift, 0.022),
        ]
    parts.append((_sweep(rows, samples=11, sides=8), plain))
    return _grounded(_placed(parts, scale=h))


# -------------------------------------------------------------------------------------------------------------- bears
_BEAR_COATS: tuple[tuple[Color, Color], ...] = (
    ((0.36, 0.22, 0.12), (0.62, 0.46, 0.30)),
    ((0.46, 0.30, 0.17), (0.66, 0.52, 0.36)),
    ((0.24, 0.15, 0.09), (0.50, 0.36, 0.24)),
    ((0.60, 0.43, 0.26), (0.76, 0.62, 0.44)),
    ((0.09, 0.08, 0.08), (0.55, 0.40, 0.25)),
    ((0.93, 0.90, 0.82), (0.88, 0.84, 0.75)),
)


def _bear_head(coat: Material, light: Material, ear: float) -> Parts:
    """A head of skull radius about 1 at the origin, looking along +x."""
    inner = Material(_mix(coat.color, (0.75, 0.52, 0.42), 0.45), 0.9)
    muzzle = _sweep(
        [(0.5, 0, -0.22, 0.50, 0.46), (0.95, 0, -0.28, 0.42, 0.38), (1.30, 0, -0.30, 0.36, 0.31)], samples=7
    )
    return [
        ([_ball((0.98, 0.98, 0.92), (0, 0, 0), 16), _ball((0.60, 0.98, 0.60), (0.10, 0, -0.32), 14)], coat),
        (muzzle, light),
        (_ball((0.16, 0.27, 0.19), (1.62, 0, -0.13), 10), _DARK),
        (_ball((0.09, 0.12, 0.13), (0.84, 0.42, 0.19), 10).with_twin(), _DARK),
        (
            _sweep(
                [(1.54, 0.0, -0.50, 0.045), (1.44, 0.22, -0.55, 0.045), (1.2, 0.37, -0.50, 0.04)], samples=6, sides=5
            ).with_twin(),
            _DARK,
        ),
        (_ball((0.16, ear, ear), (-0.10, 0.70, 0.78), 12).with_twin(), coat),
        (_ball((0.10, ear * 0.62, ear * 0.62), (-0.01, 0.71, 0.79), 10).with_twin(), inner),
    ]


@lru_cache
def _claws() -> Mesh:
    """Three claws of a paw of size 1 at the origin, along +x and bent down."""
    rows = [[(1.2, k, -0.15, 0.17), (1.62, 1.05 * k, -0.48, 0.07)] for k in (-0.5, 0.0, 0.5)]
    return merge([_sweep(claw, samples=3, sides=6) for claw in rows])


def _paw(x: float, y: float, size: float) -> tuple[Mesh, Mesh]:
    """A flat foot on the ground and its claws."""
    pad = _ball((1.25 * size, 0.95 * size, 0.62 * size), (x + 0.25 * size, y, 0.60 * size))
    return pad, _claws().scaled(size).moved(x, y, 0.60 * size)


def _bear(rng: np.random.Generator, state: str) -> Model:
    base, second = pick(rng, _BEAR_COATS)
    pattern = Pattern("noise", _mix(base, (0.0, 0.0, 0.0), 0.15), scale=0.12) if rng.random() < 0.4 else None
    coat = _fur(rng, base, pattern)
    plain = Material(coat.color, 0.9, paintable=True)
    light = Material(second, 0.9)
    claw = Material((0.22, 0.19, 0.16) if base[0] > 0.2 else (0.62, 0.56, 0.48), 0.5)
    bulk = jitter(rng, 1.0, 0.1)
    hump = rng.uniform(0.0, 0.07)
    head = jitter(rng, 0.225, 0.1)
    ear = jitter(rng, 0.34, 0.12)
    look = rotation_matrix((0, 0, 1), rng.uniform(-30, 30))
    parts: Parts = []
    if state == "upright":
        body = [
            (-0.06, 0, 0.46, 0.30 * bulk, 0.28 * bulk),
            (-0.02, 0, 0.66, 0.42 * bulk, 0.38 * bulk),
            (0.02, 0, 0.95, 0.41 * bulk, 0.38 * bulk),
            (0.01, 0, 1.25, 0.35 * bulk, 0.31 * bulk),
            (0.01, 0, 1.47, 0.24 * bulk, 0.23 * bulk),
            (0.06, 0, 1.62, 0.15 * bulk, 0.16 * bulk),
        ]
        parts.append((_sweep(body, samples=18, sides=16, up=(1, 0, 0)), coat))
        parts.append((_ball((0.12, 0.24, 0.32), (0.33 * bulk - 0.03, 0, 0.92)), light))
        raised = pick(rng, ("hanging", "raised", "begging"))
        for side in (1, -1):
            y = side * 0.22 * bulk
            leg = [(-0.02, y, 0.60, 0.25 * bulk), (0.05, y * 1.1, 0.36, 0.19), (-0.01, y * 1.1, 0.10, 0.135)]
            parts.append((_sweep(leg, samples=9), coat))
            pad, claws = _paw(0.03, y * 1.1, 0.15)
            parts += [(pad, plain), (claws, claw)]
            if raised == "raised" or (raised == "begging" and side == 1 and rng.random() < 0.5):
                hand = np.array([0.40, side * 0.52, 1.62])
                elbow = np.array([0.16, side * 0.50, 1.22])
            elif raised == "begging":
                hand, elbow = np.array([0.58, side * 0.20, 1.10]), np.array([0.22, side * 0.42, 1.02])
            else:
                hand, elbow = np.array([0.22, side * 0.46, 0.72]), np.array([0.03, side * 0.46, 1.02])
            shoulder = np.array([0.02, side * 0.24 * bulk, 1.34])
            rows = [(*shoulder, 0.19 * bulk), (*elbow, 0.145), (*(0.35 * elbow + 0.65 * hand), 0.125), (*hand, 0.12)]
            parts.append((_sweep(rows, samples=10, sides=10, up=(1, 0.3, 0)), coat))
            along = (hand - elbow) / np.linalg.norm(hand - elbow)
            parts.append((_ball((0.13, 0.13, 0.13), hand + 0.03 * along), plain))
            spread = np.cross(along, (1.0, 0.0, 0.0) if abs(along[0]) < 0.8 else (0.0, 0.0, 1.0))
            spread /= np.linalg.norm(spread)
            front = np.cross(spread, along)
            front *= -1 if front[0] > 1e-9 else 1  # claws bend towards the palm, which looks ahead
            frame = np.column_stack([0.13 * along, 0.13 * spread, 0.13 * front, hand])
            parts.append((_claws().transformed(frame), claw))
        parts.append((_ball((0.08, 0.08, 0.07), (-0.38 * bulk, 0, 0.62)), plain))
        at = np.array([0.13, 0.0, 1.76])
        tilt = rotation_matrix((0, 1, 0), rng.uniform(-6, 10))
    else:
        z = 0.74
        body = [
            (-0.80, 0, z - 0.06, 0.24 * bulk, 0.26 * bulk),
            (-0.62, 0, z, 0.37 * bulk, 0.38 * bulk),
            (-0.20, 0, z - 0.02, 0.42 * bulk, 0.40 * bulk),
            (0.20, 0, z + 0.04 + hump * 0.4, 0.39 * bulk, 0.42 * bulk),
            (0.45, 0, z + 0.06 + hump, 0.33 * bulk, 0.38 * bulk),
            (0.68, 0, z + 0.08 + hump * 0.3, 0.24 * bulk, 0.27 * bulk),
            (0.84, 0, z + 0.08, 0.17 * bulk, 0.20 * bulk),
        ]
        parts.append((_sweep(body, samples=20, sides=16), coat))
        stride = rng.uniform(-0.14, 0.14)
        for side in (1, -1):
            y, s = side * 0.22 * bulk, side * stride
            fore = [
                (0.40, y, z - 0.05, 0.22 * bulk),
                (0.42 + 0.4 * s, y * 1.1, 0.42, 0.155),
                (0.45 + s, y * 1.1, 0.10, 0.125),
            ]
            hind = [
                (-0.55, y, z - 0.10, 0.27 * bulk),
                (-0.48 - 0.4 * s, y * 1.1, 0.42, 0.18),
                (-0.60 - s, y * 1.1, 0.10, 0.125),
            ]
            parts.append(([_sweep(fore, samples=9), _sweep(hind, samples=9)], coat))
            for x in (0.47 + s, -0.58 - s):
                pad, claws = _paw(x, y * 1.1, 0.135)
                parts += [(pad, plain), (claws, claw)]
        parts.append((_ball((0.09, 0.08, 0.10), (-1.0 - 0.02 * bulk, 0, z + 0.02)), plain))
        at = np.array([1.02, 0.0, z + rng.uniform(-0.06, 0.16)])
        tilt = rotation_matrix((0, 1, 0), rng.uniform(2, 16))
    parts += _placed(_bear_head(plain, light, ear), turn=look @ tilt, at=at, scale=head)
    return _grounded(_placed(parts, scale=jitter(rng, 1.0, 0.15)))


# -------------------------------------------------------------------------------------------------------------- birds
@dataclass(frozen=True)
class _Species:
    """Looks of a bird; lengths are shares of the body's length."""

    length_m: float
    plumage: Color
    wing: Color
    wing_tip: Color
    belly: Color
    head: Color
    beak: Color
    legs: Color
    beak_length: float
    hooked: bool
    tail: float
    span: float  # of one wing
    plump: float
    crest: bool = False


_SPECIES: tuple[_Species, ...] = (
    # gull, parrots, robin, crow, blue tit, cardinal, eagle, pigeon, canary
    _Species(
        0.40,
        (0.94, 0.94, 0.93),
        (0.62, 0.66, 0.70),
        (0.08, 0.08, 0.09),
        (0.95, 0.95, 0.94),
        (0.95, 0.95, 0.94),
        (0.92, 0.68, 0.12),
        (0.90, 0.55, 0.20),
        0.30,
        False,
        0.34,
        1.45,
        0.92,
    ),
    _Species(
        0.40,
        (0.82, 0.12, 0.12),
        (0.84, 0.20, 0.14),
        (0.12, 0.30, 0.72),
        (0.84, 0.16, 0.12),
        (0.86, 0.14, 0.12),
        (0.88, 0.82, 0.68),
        (0.35, 0.33, 0.32),
        0.22,
        True,
        1.0,
        1.05,
        0.92,
    ),
    _Species(
        0.35,
        (0.20, 0.62, 0.22),
        (0.16, 0.50, 0.22),
        (0.90, 0.80, 0.15),
        (0.55, 0.78, 0.25),
        (0.25, 0.68, 0.25),
        (0.25, 0.22, 0.20),
        (0.45, 0.42, 0.40),
        0.22,
        True,
        0.75,
        1.0,
        0.95,
    ),
    _Species(
        0.35,
        (0.12, 0.36, 0.75),
        (0.10, 0.32, 0.70),
        (0.06, 0.14, 0.40),
        (0.95, 0.72, 0.12),
        (0.12, 0.40, 0.78),
        (0.10, 0.09, 0.09),
        (0.25, 0.24, 0.24),
        0.22,
        True,
        1.0,
        1.05,
        0.92,
    ),
    _Species(
        0.15,
        (0.45, 0.36, 0.26),
        (0.40, 0.31, 0.22),
        (0.28, 0.21, 0.15),
        (0.90, 0.88, 0.82),
        (0.86, 0.40, 0.14),
        (0.22, 0.18, 0.15),
        (0.50, 0.34, 0.24),
        0.17,
        False,
        0.42,
        0.95,
        1.22,
    ),
    _Species(
        0.42,
        (0.09, 0.09, 0.11),
        (0.08, 0.08, 0.10),
        (0.05, 0.05, 0.06),
        (0.10, 0.10, 0.12),
        (0.09, 0.09, 0.11),
        (0.18, 0.17, 0.18),
        (0.16, 0.15, 0.15),
        0.32,
        False,
        0.48,
        1.2,
        0.98,
    ),
    _Species(
        0.13,
        (0.40, 0.55, 0.35),
        (0.24, 0.44, 0.72),
        (0.90, 0.92, 0.94),
        (0.95, 0.84, 0.28),
        (0.28, 0.50, 0.80),
        (0.15, 0.15, 0.18),
        (0.35, 0.40, 0.48),
        0.14,
        False,
        0.42,
        0.95,
        1.2,
    ),
    _Species(
        0.20,
        (0.78, 0.12, 0.12),
        (0.64, 0.12, 0.12),
        (0.42, 0.10, 0.10),
        (0.80, 0.16, 0.14),
        (0.80, 0.12, 0.12),
        (0.92, 0.48, 0.16),
        (0.50, 0.30, 0.26),
        0.18,
        False,
        0.62,
        0.95,
        1.05,
        True,
    ),
    _Species(
        0.65,
        (0.28, 0.18, 0.11),
        (0.25, 0.16, 0.10),
        (0.14, 0.09, 0.06),
        (0.30, 0.20, 0.12),
        (0.94, 0.93, 0.90),
        (0.94, 0.72, 0.14),
        (0.94, 0.72, 0.14),
        0.26,
        True,
        0.42,
        1.45,
        1.0,
    ),
    _Species(
        0.32,
        (0.52, 0.56, 0.62),
        (0.62, 0.65, 0.70),
        (0.24, 0.26, 0.30),
        (0.56, 0.56, 0.62),
        (0.30, 0.40, 0.42),
        (0.30, 0.28, 0.28),
        (0.76, 0.36, 0.32),
        0.17,
        False,
        0.42,
        1.1,
        1.08,
    ),
    _Species(
        0.14,
        (0.94, 0.80, 0.18),
        (0.90, 0.72, 0.14),
        (0.62, 0.52, 0.16),
        (0.96, 0.86, 0.32),
        (0.95, 0.82, 0.20),
        (0.90, 0.58, 0.40),
        (0.80, 0.54, 0.42),
        0.14,
        False,
        0.48,
        0.95,
        1.1,
    ),
)


def _bird_head(species: _Species, skin: Material, beak: Material) -> Parts:
    """A head of radius 1 at the origin, looking along +x."""
    long = species.beak_length / 0.2 * 1.25
    if species.hooked:
        upper = _sweep(
            [
                (0.62, 0, 0.10, 0.36, 0.42),
                (0.95 + 0.3 * long, 0, 0.05, 0.27, 0.30),
                (1.0 + 0.52 * long, 0, -0.30, 0.15, 0.17),
                (0.98 + 0.46 * long, 0, -0.62, 0.05, 0.05),
            ],
            samples=9,
            sides=10,
            up=(0, 0.0, 1),
        )
        lower = _sweep([(0.6, 0, -0.28, 0.27, 0.17), (0.98, 0, -0.42, 0.15, 0.12)], samples=4, sides=8)
    else:
        upper = _sweep(
            [
                (0.70, 0, 0.02, 0.34, 0.32),
                (0.9 + 0.45 * long, 0, -0.04, 0.20, 0.19),
                (0.85 + long, 0, -0.14, 0.05, 0.05),
            ],
            samples=6,
            sides=10,
        )
        lower = _sweep([(0.68, 0, -0.22, 0.26, 0.14), (0.82 + 0.75 * long, 0, -0.18, 0.06, 0.05)], samples=4, sides=8)
    parts: Parts = [
        (_ball((1.02, 0.92, 0.96), (0, 0, 0), 16), skin),
        ([upper, lower], beak),
        (_ball((0.24, 0.12, 0.25), (0.42, 0.78, 0.22), 10).with_twin(), _EYE_WHITE),
        (_ball((0.18, 0.10, 0.19), (0.46, 0.83, 0.22), 10).with_twin(), _DARK),
    ]
    if species.crest:
        parts.append(
            (
                _sweep(
                    [(0.25, 0, 0.72, 0.36, 0.4), (-0.35, 0, 1.15, 0.22, 0.3), (-0.95, 0, 1.55, 0.04, 0.05)],
                    samples=7,
                    sides=8,
                ),
                skin,
            )
        )
    return parts


def _feathers(outline: ArrayLike, thickness: float) -> Mesh:
    """A thin cushion between two edges: rows of two points (6 numbers), leading edge and trailing edge.

    Its section is a flat lens, so it is closed, and seen from any side.
    """
    rows = np.asarray(outline, dtype=np.float64)
    lead, trail = rows[:, None, :3], rows[:, None, 3:]
    chord = trail - lead
    forward = np.gradient(rows[:, :3] + rows[:, 3:], axis=0)[:, None, :]
    normal = np.cross(chord, forward)
    normal /= np.maximum(np.linalg.norm(normal, axis=2, keepdims=True), 1e-9)
    angle = np.linspace(0, 2 * math.pi, 10, endpoint=False)[None, :, None]
    width = np.linalg.norm(chord, axis=2, keepdims=True)
    bulge = np.minimum(thickness, 0.3 * width)
    points = lead + chord * (0.5 - 0.5 * np.cos(angle)) + normal * bulge * np.sin(angle)
    ends = [np.repeat(points[k : k + 1].mean(axis=1, keepdims=True), 10, axis=1) for k in (0, len(points) - 1)]
    return grid_surface(np.concatenate([ends[0], points, ends[1]]), wrap_cols=True)


def _spread_wing(rng: np.random.Generator, species: _Species, raised: float) -> tuple[Mesh, Mesh]:
    """The left wing, spread: the arm with its coverts, and the flight feathers at its tip. Body length 1."""
    span = jitter(rng, species.span, 0.08)
    flap = math.radians(raised)
    droop = math.radians(raised - rng.uniform(25, 45))
    root, bend = np.array([0.16, 0.10, 0.10]), 0.45 * span
    elbow = root + np.array([0.10, bend * math.cos(flap), bend * math.sin(flap)])
    reach = span - bend
    tip = elbow + np.array([-0.22, reach * math.cos(droop), reach * math.sin(droop)])
    chord = 0.42 * min(species.plump, 1.05)
    lead = spline(
        np.array(
            [
                root,
                0.5 * (root + elbow) + np.array([0.05, 0, 0]),
                elbow,
                0.5 * (elbow + tip) + np.array([0.05, 0, 0.02]),
                tip,
            ]
        ),
        17,
    )
    share = np.linspace(0, 1, 17)
    depth = chord * np.interp(share, (0, 0.5, 0.8, 1.0), (1.0, 1.0, 0.8, 0.25))
    # Flight feathers end in a row of steps.
    notch = np.where(share > 0.55, 0.10 * chord * (np.arange(17) % 2), 0.0)
    trail = lead + np.stack([-(depth - notch), 0.10 * share, -0.03 * np.ones(17)], axis=1)
    rows = np.hstack([lead, trail])
    return _feathers(rows[:11], 0.035), _feathers(rows[10:], 0.028)


def _bird(rng: np.random.Generator, state: str) -> Model:
    species = pick(rng, _SPECIES)
    plumage = _fur(rng, species.plumage)
    wing = _fur(rng, species.wing)
    head = _fur(rng, species.head) if species.head == species.plumage else Material(species.head, 0.85)
    tips = Material(species.wing_tip, 0.8)
    belly = Material(species.belly, 0.85)
    beak, feet = Material(species.beak, 0.45), Material(species.legs, 0.6)
    fat = jitter(rng, species.plump, 0.06)
    parts: Parts = []
    # The body lies along x; perched birds are then tipped upright.
    body = [
        (-0.52, 0, 0.02, 0.06, 0.05),
        (-0.32, 0, 0.0, 0.15 * fat, 0.14 * fat),
        (0.0, 0, -0.03, 0.24 * fat, 0.24 * fat),
        (0.28, 0, 0.0, 0.22 * fat, 0.22 * fat),
        (0.46, 0, 0.08, 0.15 * fat, 0.15 * fat),
    ]
    parts.append((_sweep(body, samples=16, sides=14), plumage))
    parts.append((_ball((0.34, 0.19 * fat, 0.20 * fat), (0.10, 0, -0.085 * fat), 14), belly))
    tail_width = rng.uniform(0.10, 0.16) * (1.5 if state == "flying" else 0.9)
    end = -0.45 - species.tail
    fan = np.array([(-0.36, 0.06), (-0.50, 0.10), (-0.45 - 0.6 * species.tail, tail_width), (end, tail_width * 0.8)])
    fan = spline(fan, 8)
    outline = np.column_stack([fan[:, 0], fan[:, 1], np.full(8, 0.03), fan[:, 0], -fan[:, 1], np.full(8, 0.03)])
    # Rows run backwards here, from the left edge to the right one.
    tail = _feathers(outline, 0.035)
    if state == "flying":
        raised = rng.uniform(18, 52)
        arm, hand = _spread_wing(rng, species, raised)
        parts += [(arm.with_twin(), wing), (hand.with_twin(), tips), (tail, tips if rng.random() < 0.4 else wing)]
        parts += _placed(_bird_head(species, head, beak), at=(0.62, 0, 0.14), scale=0.185)
        parts.append(
            (_sweep([(-0.10, 0.07, -0.20, 0.035), (-0.36, 0.06, -0.17, 0.03)], samples=4, sides=6).with_twin(), feet)
        )
        turn = rotation_matrix((0, 1, 0), rng.uniform(-22, 6)) @ rotation_matrix((1, 0, 0), rng.uniform(-14, 14))
        return _grounded(_placed(parts, turn=turn, scale=jitter(rng, species.length_m, 0.1)))

    pitch = rng.uniform(28, 50)
    side = 0.205 * fat
    fold = _sweep(
        [
            (0.30, side * 0.85, 0.06, 0.09, 0.12),
            (0.10, side * 1.08, 0.03, 0.06, 0.19),
            (-0.30, side * 0.85, 0.04, 0.05, 0.13),
            (-0.52, side * 0.5, 0.05, 0.04, 0.07),
        ],
        samples=10,
        sides=10,
    )
    quills = _sweep(
        [
            (-0.22, side * 0.98, 0.0, 0.05, 0.10),
            (-0.50, side * 0.6, 0.02, 0.04, 0.08),
            (-0.74, side * 0.3, 0.05, 0.025, 0.025),
        ],
        samples=7,
        sides=8,
    )
    parts += [(fold.with_twin(), wing), (quills.with_twin(), tips), (tail, tips if rng.random() < 0.4 else wing)]
    upright = rotation_matrix((0, 1, 0), -pitch)
    parts = _placed(parts, turn=upright)
    neck = upright @ np.array([0.46, 0, 0.08])
    look = rotation_matrix((0, 0, 1), rng.uniform(-35, 35))
    seat = neck + np.array([0.04, 0, 0.13])
    parts += _placed(_bird_head(species, head, beak), turn=look, at=seat, scale=0.20)
    parts.append((_sweep([(*(neck - np.array([0.03, 0, 0.06])), 0.15 * fat), (*seat, 0.145)], samples=4), head))
    # Legs from under the belly to the perch.
    bottom = -0.24 * fat - 0.16
    hip, foot = (-0.02, 0.09, -0.18 * fat), (0.02, 0.095, bottom)
    legs = [_sweep([(*hip, 0.045), (*foot, 0.030)], samples=4, sides=7)]
    for toe_x, toe_y in ((0.15, -0.06), (0.16, 0.0), (0.15, 0.06), (-0.10, 0.0)):
        toe = (foot[0] + toe_x, foot[1] + toe_y, bottom - 0.015)
        legs.append(tube([foot, toe], np.array([0.030, 0.020]), sides=6))
    parts.append((merge(legs).with_twin(), feet))
    if rng.random() < 0.5:
        bark = Material(pick(rng, ((0.36, 0.25, 0.17), (0.45, 0.36, 0.27), (0.30, 0.27, 0.24))), 0.95)
        z = bottom - 0.085
        bough = [
            (0.05, -0.55, z - 0.03, 0.055),
            (0.03, -0.2, z, 0.065),
            (0.03, 0.2, z, 0.07),
            (0.0, 0.55, z + 0.05, 0.055),
        ]
        parts.append((_sweep(bough, samples=9, sides=9), bark))
        parts.append((_sweep([(0.02, 0.30, z, 0.04), (0.10, 0.42, z + 0.18, 0.028)], samples=4, sides=7), bark))
        leaf = Material((0.28, 0.48, 0.18), 0.8)
        parts.append((_ball((0.06, 0.10, 0.03), (0.12, 0.49, z + 0.24), 8), leaf))
    return _grounded(_placed(parts, scale=jitter(rng, species.length_m, 0.1)))


ASSETS: tuple[Asset, ...] = (
    # From right behind, heads and faces are hidden.
    Asset("dog", _dog, states=("standing", "sitting"), views=((-240.0, 60.0),)),
    Asset("bear", _bear, states=("standing", "upright"), size=1.1, views=((-225.0, 45.0),)),
    Asset("bird", _bird, states=("flying", "perched"), size=0.95),
)
