"""Furniture and house plants: chair, dining table, bench, bed, potted plant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verism.simulator.model import Asset, Color, Material, Model, Part, Pattern, jitter, pick
from verism.simulator.shapes import (
    Mesh,
    box,
    cylinder,
    ellipsoid,
    extrude,
    grid_surface,
    lathe,
    loft,
    merge,
    rounded_box,
    rounded_polygon,
    sphere,
    spline,
    torus,
    tube,
)

__all__ = ["ASSETS"]

Piece = tuple[Mesh | Sequence[Mesh], Material]
Generator = np.random.Generator
Axis = Literal["x", "y", "z"]

# Wood: ground colour and grain.
_WOODS: tuple[tuple[Color, Color], ...] = (
    ((0.76, 0.58, 0.38), (0.66, 0.47, 0.28)),  # beech
    ((0.62, 0.41, 0.22), (0.50, 0.31, 0.15)),  # oak
    ((0.40, 0.24, 0.13), (0.30, 0.17, 0.09)),  # walnut
    ((0.48, 0.20, 0.11), (0.37, 0.14, 0.07)),  # mahogany
    ((0.85, 0.73, 0.54), (0.76, 0.62, 0.42)),  # pine
    ((0.22, 0.15, 0.11), (0.15, 0.10, 0.08)),  # wenge
)
_LACQUERS: tuple[Color, ...] = (
    (0.92, 0.91, 0.88),
    (0.12, 0.12, 0.13),
    (0.24, 0.38, 0.30),
    (0.22, 0.36, 0.48),
    (0.62, 0.16, 0.13),
    (0.86, 0.66, 0.20),
    (0.55, 0.62, 0.60),
)
_CLOTHS: tuple[Color, ...] = (
    (0.56, 0.12, 0.14),
    (0.16, 0.25, 0.45),
    (0.22, 0.42, 0.38),
    (0.82, 0.62, 0.24),
    (0.72, 0.68, 0.60),
    (0.36, 0.37, 0.40),
    (0.66, 0.38, 0.30),
    (0.45, 0.55, 0.68),
    (0.50, 0.30, 0.46),
    (0.14, 0.14, 0.16),
    (0.80, 0.48, 0.46),
    (0.42, 0.50, 0.26),
)
_PRINTS: tuple[Literal["stripes", "checks", "dots"], ...] = ("stripes", "checks", "dots")
_IRON = Material((0.13, 0.13, 0.14), roughness=0.5)
_STEEL = Material((0.78, 0.78, 0.80), roughness=0.3, metallic=0.8)
_BRASS = Material((0.80, 0.62, 0.30), roughness=0.35, metallic=0.8)


# ------------------------------------------------------------------------------------------------ materials, helpers
def _wood(rng: Generator, *, paintable: bool, axis: Axis = "z", scale: float = 0.08) -> Material:
    ground, grain = pick(rng, _WOODS)
    grained = Pattern("wood", grain, scale=scale, strength=0.8, axis=axis)
    return Material(_varied(rng, ground), roughness=0.55, paintable=paintable, pattern=grained)


def _lacquer(rng: Generator) -> Material:
    return Material(_varied(rng, pick(rng, _LACQUERS)), roughness=0.4, paintable=True)


def _frame(rng: Generator) -> Material:
    """Paintable wood or lacquer."""
    return _wood(rng, paintable=True) if rng.random() < 0.6 else _lacquer(rng)


def _cloth(
    rng: Generator, *, paintable: bool, patterned: float = 0.35, scale: float = 0.12, axes: Sequence[Axis] = ("x", "y")
) -> Material:
    ground = _varied(rng, pick(rng, _CLOTHS))
    pattern = None
    if rng.random() < patterned:
        other = pick(rng, ((0.93, 0.91, 0.85), *_CLOTHS))
        kind = pick(rng, _PRINTS)
        pattern = Pattern(kind, other, scale=jitter(rng, scale, 0.3), strength=0.85, axis=pick(rng, axes))
    return Material(ground, roughness=0.95, paintable=paintable, pattern=pattern)


def _varied(rng: Generator, color: Color, amount: float = 0.05) -> Color:
    shade = rng.uniform(-amount, amount)
    r, g, b = (float(np.clip(c + shade + rng.uniform(-0.02, 0.02), 0.02, 0.97)) for c in color)
    return r, g, b


def _beam(
    start: Sequence[float], end: Sequence[float], wide: float, thick: float | None = None, *, taper: float = 1.0
) -> Mesh:
    """A bar of rectangular section between two points.

    ``wide`` is measured horizontally across the bar (along y for an upright bar), ``thick`` the other way (``wide`` if
    None); the section at the end is ``taper`` times that at the start.
    """
    a, b = np.asarray(start, dtype=np.float64), np.asarray(end, dtype=np.float64)
    along = (b - a) / np.linalg.norm(b - a)
    side = np.cross(along, (0.0, 0.0, 1.0))
    # Nearly upright bars would get a section that turns with the slightest lean; theirs is squared to the y axis.
    if np.linalg.norm(side) < 0.5:
        side = np.array([0.0, 1.0, 0.0]) - along * along[1]
    side /= np.linalg.norm(side)
    top = np.cross(side, along)
    half_top, half_side = top * (wide if thick is None else thick) / 2, side * wide / 2
    section = np.stack([half_top + half_side, half_side - half_top, -half_top - half_side, half_top - half_side])
    return loft(np.stack([a + section, b + section * taper]), smooth=False)


def _scattered(mesh: Mesh, matrices: ArrayLike) -> Mesh:
    """Copies of a mesh under many similarity transforms, shape (N, 3, 4), in one step."""
    m = np.asarray(matrices, dtype=np.float64)
    linear = m[:, :, :3]
    triangles = np.einsum("nij,fkj->nfki", linear, mesh.triangles) + m[:, None, None, :, 3]
    factor = np.cbrt(np.linalg.det(linear))[:, None, None]
    normals = np.einsum("nij,fkj->nfki", linear / factor, mesh.normals)
    return Mesh(triangles.reshape(-1, 3, 3).astype(np.float32), normals.reshape(-1, 3, 3).astype(np.float32))


def _place(yaw: float, lift: float = 0.0, scale: float = 1.0, at: Sequence[float] = (0, 0, 0)) -> NDArray[np.float64]:
    """Similarity (3, 4): raise the +x direction by ``lift``, turn by ``yaw`` (radians), scale, move."""
    c, s, p, q = math.cos(yaw), math.sin(yaw), math.cos(lift), math.sin(lift)
    turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    raise_ = np.array([[p, 0.0, -q], [0.0, 1.0, 0.0], [q, 0.0, p]])
    return np.hstack([scale * turn @ raise_, np.asarray(at, dtype=np.float64)[:, None]])


def _pillow(depth: float, width: float, height: float) -> Mesh:
    """A cushion about the origin, thickest in the middle, with pointed corners."""
    u, v = np.meshgrid(np.linspace(-1, 1, 9), np.linspace(-1, 1, 9), indexing="ij")
    swell = np.sqrt(np.maximum((1 - np.abs(u) ** 3) * (1 - np.abs(v) ** 3), 0.0))
    pinch = 1 - 0.08 * (1 - u * u) * np.abs(v) - 0.08 * (1 - v * v) * np.abs(u)
    upper = np.stack([u * pinch * depth / 2, v * pinch * width / 2, swell * height / 2], axis=-1)
    top = grid_surface(upper.transpose(1, 0, 2))
    return merge([top, top.mirrored("z")])


def _standing(pieces: Sequence[Piece]) -> Model:
    """The model with its lowest point on z = 0 (splayed legs end in a slanted section that would dip below)."""
    model = Model.of(pieces)
    low = float(model.bounds[0][2])
    return Model(tuple(Part(part.mesh.moved(z=-low), part.material) for part in model.parts))


# --------------------------------------------------------------------------------------------------------------- chair
def _chair(rng: Generator, _state: str) -> Model:
    kind = rng.random()
    if kind < 0.4:
        return _joiner_chair(rng)
    if kind < 0.55:
        return _padded_chair(rng)
    if kind < 0.7:
        return _shell_chair(rng)
    if kind < 0.83:
        return _bentwood_chair(rng)
    return _office_chair(rng)


def _joiner_chair(rng: Generator) -> Model:
    """Four legs, the hind ones run up into a back of rails, spindles, a panel or a cross; perhaps arms, a cushion."""
    w, d = rng.uniform(0.42, 0.52), rng.uniform(0.42, 0.5)
    seat, top = rng.uniform(0.43, 0.48), rng.uniform(0.88, 1.1)
    leg, lean, splay = rng.uniform(0.038, 0.052), rng.uniform(0.04, 0.12), rng.uniform(0.0, 0.04)
    y, x0, x1 = w / 2 - leg / 2, -d / 2 + leg / 2, d / 2 - leg / 2
    frame = [rounded_box((d, w, 0.04), 0.015, (0, 0, seat - 0.02), segments=2)]
    for side in (-1, 1):
        frame += [
            _beam((x1, side * y, seat - 0.03), (x1 + splay, side * (y + splay / 2), 0), leg, taper=0.75),
            _beam((x0, side * y, seat), (x0 - splay, side * (y + splay / 2), 0), leg, taper=0.75),
            _beam((x0, side * y, seat - 0.02), (x0 - lean, side * y, top), leg, taper=0.85),
            box((x1 - x0, 0.022, 0.05), (0, side * y, seat - 0.06)),
        ]
        if rng.random() < 0.5:
            frame.append(_beam((x1, side * y, 0.17), (x0, side * y, 0.17), 0.024))
    frame += [box((0.022, 2 * y, 0.05), (x, 0, seat - 0.06)) for x in (x0, x1)]

    def back(z: float) -> float:
        """x of the back at height z."""
        return x0 - lean * (z - seat) / (top - seat)

    low, rail = seat + rng.uniform(0.1, 0.18), rng.uniform(0.05, 0.09)
    frame.append(
        _beam((back(top - rail / 2), -y, top - rail / 2), (back(top - rail / 2), y, top - rail / 2), 0.028, rail)
    )
    style = pick(rng, ("rails", "spindles", "panel", "cross", "spindles", "rails"))
    inner = top - rail
    if style == "rails":
        for z in np.linspace(low, inner - 0.06, pick(rng, (2, 3))):
            frame.append(_beam((back(z), -y, z), (back(z), y, z), 0.024, rng.uniform(0.045, 0.07)))
    else:
        frame.append(_beam((back(low), -y, low), (back(low), y, low), 0.026, 0.045))
        if style == "spindles":
            count = pick(rng, (3, 4, 5))
            for t in np.linspace(-y, y, count + 2)[1:-1]:
                frame.append(_beam((back(low), t, low), (back(inner), t, inner + 0.02), 0.028, 0.02))
        elif style == "panel":
            t = y * rng.uniform(0.45, 0.75)
            frame.append(_beam((back(low), 0, low), (back(inner), 0, inner + 0.02), 2 * t, 0.018))
        else:
            for side in (-1, 1):
                shift = 0.004 * side
                frame.append(
                    _beam((back(low) + shift, side * y, low), (back(inner) + shift, -side * y, inner), 0.022, 0.035)
                )
    if rng.random() < 0.3:
        arm = seat + rng.uniform(0.2, 0.25)
        for side in (-1, 1):
            frame += [
                _beam((back(arm), side * y, arm), (x1 - 0.02, side * (y + 0.03), arm - 0.01), 0.05, 0.028),
                _beam((x1 - 0.06, side * y, seat - 0.02), (x1 - 0.05, side * (y + 0.02), arm - 0.01), 0.032),
            ]
    pieces: list[Piece] = [(frame, _frame(rng))]
    if rng.random() < 0.5:
        cushion = _pillow(d * 0.94, w * 0.88, 0.09).moved(x=0.012, z=seat + 0.035)
        pieces.append((cushion, _cloth(rng, paintable=False)))
    return _standing(pieces)


def _padded_chair(rng: Generator) -> Model:
    """Upholstered seat and tall back on slim legs."""
    w, d, seat = rng.uniform(0.45, 0.54), rng.uniform(0.46, 0.52), rng.uniform(0.45, 0.5)
    tall, lean = rng.uniform(0.45, 0.62), rng.uniform(6, 14)
    pad, thick = rng.uniform(0.08, 0.12), rng.uniform(0.07, 0.1)
    back = rounded_box((thick, w * rng.uniform(0.86, 1.0), tall), thick * 0.48, (0, 0, tall / 2), segments=3)
    back = back.rotated("y", -lean).moved(x=-d / 2 + thick / 2, z=seat - pad * 0.6)
    cushion = rounded_box((d, w, pad), pad * 0.4, (0, 0, seat - pad / 2), segments=3)
    legs, x, y = [], d / 2 - 0.05, w / 2 - 0.05
    for sx in (-1, 1):
        for sy in (-1, 1):
            out = rng.uniform(0.0, 0.03) + (0.04 if sx < 0 else 0.0)
            legs.append(_beam((sx * x, sy * y, seat - pad + 0.01), (sx * (x + out), sy * y, 0), 0.045, taper=0.6))
    cover = _cloth(rng, paintable=True, axes=("y",))
    piping = torus(0.5, 0.03, 24, 6)
    trim = piping.scaled(d * 0.9, w * 0.9, 0.4).moved(z=seat - pad + 0.005)
    return _standing(
        [
            ([back, cushion], cover),
            (legs, pick(rng, (_IRON, _STEEL, _wood(rng, paintable=False), _wood(rng, paintable=False)))),
            (trim, Material((0.18, 0.13, 0.1), roughness=0.8)),
        ]
    )


def _shell(profile: NDArray[np.float64], thickness: float, curl: float, columns: int = 9) -> Mesh:
    """A bent sheet: ``profile`` (N, 3) lists x, z and width from the front edge to the top of the back."""
    u = np.linspace(-1, 1, columns)
    tangent = np.gradient(profile[:, :2], axis=0)
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    normal = np.stack(
        [tangent[:, 1], -tangent[:, 0]], axis=1
    )  # towards the sitter: up over the seat, forward on the back
    # The sides are curled up; towards both ends the curl fades and the corners are rounded off.
    ends = np.linspace(-1, 1, len(profile)) ** 5
    rings = []
    for (x, z, width), (nx, nz), (tx, tz), end in zip(profile, normal, tangent, ends, strict=True):
        rise = curl * (1 - abs(end)) * np.abs(u) ** 3
        slip = -0.07 * end * np.abs(u) ** 2.5
        upper = np.stack([x + nx * rise + tx * slip, u * width / 2, z + nz * rise + tz * slip], axis=1)
        lower = upper - np.array([nx, 0.0, nz]) * thickness
        rings.append(np.concatenate([upper, lower[::-1]]))
    return loft(np.array(rings))


def _shell_chair(rng: Generator) -> Model:
    """One moulded shell on four splayed legs or a wire base."""
    w, d, seat = rng.uniform(0.44, 0.52), rng.uniform(0.42, 0.48), rng.uniform(0.43, 0.47)
    top = seat + rng.uniform(0.34, 0.46)
    waist = rng.uniform(0.8, 1.0)
    profile = spline(
        [
            (d / 2, seat - 0.02, w * 0.86),
            (d / 4, seat + 0.005, w),
            (-d / 4, seat - 0.01, w),
            (-d * 0.47, seat + 0.08, w * waist),
            (-d * 0.56, (seat + top) / 2, w * (waist + 0.08)),
            (-d * 0.68, top, w * 0.66),
        ],
        14,
    )
    shell = _shell(profile, 0.03, rng.uniform(0.03, 0.1))
    x, y = d * 0.28, w * 0.3
    legs = [
        tube([(sx * x, sy * y, seat - 0.03), (sx * (x + 0.09), sy * (y + 0.09), 0)], (0.022, 0.015), sides=8)
        for sx in (-1, 1)
        for sy in (-1, 1)
    ]
    low = seat - 0.16
    braces = [
        _beam((-x, -y, seat - 0.06), (x + 0.02, y + 0.02, low), 0.016),
        _beam((-x, y, seat - 0.06), (x, -y, low), 0.02),
    ]
    shade = _varied(
        rng, pick(rng, (*_LACQUERS, (0.9, 0.9, 0.9), (0.85, 0.45, 0.2), (0.3, 0.6, 0.62), (0.75, 0.75, 0.72)))
    )
    pieces: list[Piece] = [
        (shell, Material(shade, roughness=0.35, paintable=True)),
        (legs, pick(rng, (_IRON, _STEEL, _wood(rng, paintable=False), _wood(rng, paintable=False)))),
        (braces, _IRON),
    ]
    if rng.random() < 0.35:
        pieces.append((_pillow(d * 0.7, w * 0.78, 0.08).moved(z=seat + 0.03), _cloth(rng, paintable=False)))
    return _standing(pieces)


def _bentwood_chair(rng: Generator) -> Model:
    """Cafe chair: round seat, a hoop for a back, round splayed legs."""
    r, seat, top = rng.uniform(0.205, 0.235), rng.uniform(0.44, 0.47), rng.uniform(0.86, 0.98)
    lean, bar = rng.uniform(0.05, 0.1), rng.uniform(0.017, 0.022)
    rim = lathe([(0.0, seat - 0.04), (r, seat - 0.04), (r, seat - 0.04), (r + 0.012, seat - 0.02), (r, seat)], 24)

    def hoop(width: float, height: float, bottom: float) -> Mesh:
        # From a foot at the back of the seat up, over and down again.
        angle = np.linspace(0, math.pi, 16)
        flare = np.abs(np.cos(angle)) ** 0.7 * np.sign(np.cos(angle))
        up = np.sin(angle) ** 0.75
        path = np.stack([-r * 0.75 - lean * up, width * flare, bottom + (height - bottom) * up], axis=1)
        return tube(path, bar, sides=8, up=(1, 0, 0))

    frame = [rim, hoop(r * 0.9, top, seat - 0.03)]
    if rng.random() < 0.5:
        frame.append(hoop(r * 0.5, top - 0.13, seat - 0.01))
    else:
        for t in np.linspace(-0.55, 0.55, pick(rng, (3, 4, 5))):
            height = seat + (top - seat) * (1 - abs(t) ** 2.2) ** 0.5 - 0.01
            foot, head = (-r * 0.78, t * r * 0.8, seat - 0.01), (-r * 0.75 - lean * 0.97, t * r * 0.95, height)
            frame.append(tube([foot, head], bar * 0.6, sides=6))
    for sx in (-1, 1):
        for sy in (-1, 1):
            hip, foot = (sx * r * 0.72, sy * r * 0.66, seat - 0.03), (sx * r * 0.98, sy * r * 0.9, 0.0)
            frame.append(tube([hip, foot], (bar * 1.15, bar * 0.9), sides=8))
    frame.append(torus(r * 0.76, bar * 0.6, 24, 6).moved(z=seat * 0.52))
    if rng.random() < 0.3:
        arc = np.linspace(-2.2, 2.2, 14)
        ring = np.stack([-np.cos(arc) * (r + 0.02), np.sin(arc) * (r + 0.03), np.full(14, seat + 0.21)], axis=1)
        frame.append(tube(ring, bar, sides=8, round_ends=True))
        frame += [tube([ring[k], (ring[k][0], ring[k][1] * 0.85, seat - 0.02)], bar * 0.8, sides=8) for k in (1, 12)]
    pad = pick(rng, ("cane", "leather", "wood"))
    cover = {
        "cane": Material((0.82, 0.68, 0.42), 0.8, pattern=Pattern("checks", (0.62, 0.46, 0.24), 0.03, 0.9, "x")),
        "leather": Material(pick(rng, ((0.3, 0.12, 0.08), (0.1, 0.1, 0.1), (0.5, 0.32, 0.18))), 0.4),
        "wood": _wood(rng, paintable=False),
    }[pad]
    cap = lathe([(r - 0.012, seat + 0.004), (r - 0.03, seat + 0.02), (r * 0.5, seat + 0.028), (0.0, seat + 0.03)], 24)
    return _standing([(frame, _frame(rng)), (cap, cover)])


def _office_chair(rng: Generator) -> Model:
    """Swivel chair: a star of five feet on castors, a gas spring, a padded seat, perhaps arms."""
    w, d, seat = rng.uniform(0.47, 0.54), rng.uniform(0.45, 0.5), rng.uniform(0.46, 0.54)
    tall, reach = rng.uniform(0.45, 0.68), rng.uniform(0.27, 0.32)
    turn = rng.uniform(0, 2 * math.pi)
    feet, castors = [cylinder(0.05, 0.08, 12).moved(z=0.13)], []
    for k in range(5):
        a = turn + k * 2 * math.pi / 5
        x, y = math.cos(a) * reach, math.sin(a) * reach
        feet.append(_beam((0, 0, 0.14), (x, y, 0.085), 0.055, 0.04, taper=0.7))
        castors.append(cylinder(0.035, 0.05, 10, axis="y").rotated("z", math.degrees(a)).moved(x, y, 0.035))
    column = [
        cylinder(0.028, seat - 0.2, 10).moved(z=0.1 + (seat - 0.1) / 2),
        box((0.24, 0.2, 0.03), (0, 0, seat - 0.1)),
    ]
    cushion = rounded_box((d, w, 0.09), 0.042, (0, 0, seat - 0.035), segments=3)
    top = seat + 0.06 + tall
    profile = spline(
        [
            (-d / 2 + 0.01, seat + 0.06, w * 0.72),
            (-d / 2 + 0.035, seat + 0.06 + tall * 0.3, w * 0.92),
            (-d / 2 - 0.01, seat + 0.06 + tall * 0.7, w * 0.95),
            (-d / 2 - 0.06, top, w * 0.62),
        ],
        10,
    )
    back = _shell(profile, 0.055, 0.05)
    spine = _beam((-0.08, 0, seat - 0.09), (-d / 2 - 0.03, 0, seat - 0.07), 0.07, 0.025)
    stem = _beam((-d / 2 - 0.05, 0, seat - 0.08), (-d / 2 - 0.06, 0, seat + 0.06 + tall * 0.4), 0.07, 0.025)
    dark = [*column, spine, stem]
    if rng.random() < 0.65:
        height = seat + 0.2
        for side in (-1, 1):
            y = side * (w / 2 + 0.03)
            dark += [
                rounded_box((0.26, 0.06, 0.035), 0.015, (-0.02, y, height), segments=2),
                _beam((-0.04, y, height), (-0.04, y, seat - 0.09), 0.03, 0.05),
                box((0.05, 0.1, 0.025), (-0.04, side * (w / 2 - 0.01), seat - 0.09)),
            ]
    pieces: list[Piece] = [
        ([cushion, back], _cloth(rng, paintable=True, patterned=0.1)),
        (feet, pick(rng, (_STEEL, Material((0.2, 0.2, 0.21), 0.45)))),
        (dark, Material((0.1, 0.1, 0.11), roughness=0.5)),
        (castors, Material((0.05, 0.05, 0.05), roughness=0.5)),
    ]
    if rng.random() < 0.25:
        head = rounded_box((0.05, 0.26, 0.13), 0.024, (-d / 2 - 0.07, 0, top + 0.1), segments=2)
        pieces += [(head, pieces[0][1]), (box((0.02, 0.06, 0.12), (-d / 2 - 0.095, 0, top + 0.02)), pieces[2][1])]
    return _standing(pieces)


# -------------------------------------------------------------------------------------------------------- dining table
def _dining_table(rng: Generator, _state: str) -> Model:
    height = rng.uniform(0.72, 0.78)
    round_top = rng.random() < 0.4
    length, width = (rng.uniform(1.0, 1.3),) * 2 if round_top else (rng.uniform(1.3, 1.75), rng.uniform(0.8, 0.95))
    slab = rng.uniform(0.045, 0.06)
    body = _wood(rng, paintable=True, axis="y", scale=0.16) if rng.random() < 0.7 else _lacquer(rng)
    legs = body
    if not round_top and rng.random() < 0.4:
        legs = pick(rng, (_IRON, _wood(rng, paintable=False), Material((0.9, 0.9, 0.88), 0.5)))
    pieces: list[Piece] = []
    if round_top:
        r = length / 2
        rim = [
            (0.0, height - slab),
            (r - 0.02, height - slab),
            (r, height - slab / 2),
            (r - 0.01, height),
            (r - 0.01, height),
        ]
        top = lathe([*rim, (0.0, height)], 32)
        pieces.append((_round_legs(rng, r, height - slab + 0.005), legs))
    else:
        top = rounded_box((width, length, slab), 0.018, (0, 0, height - slab / 2), segments=2)
        pieces.append((_straight_legs(rng, width, length, height - slab + 0.005), legs))
    pieces.insert(0, (top, body))
    surface = height
    if rng.random() < 0.45:
        cloth = _cloth(rng, paintable=True, patterned=0.6, scale=0.14)
        pieces.append((_table_cloth(rng, width, length, height, round_top), cloth))
        surface += 0.012
        # The cloth is the larger surface; two colours of paint on one table would be one too many.
        pieces[0] = (top, _wood(rng, paintable=False))
        pieces[1] = (pieces[1][0], legs if legs is not body else pieces[0][1])
    pieces += _laid_table(rng, width, length, surface, round_top)
    return _standing(pieces)


def _straight_legs(rng: Generator, width: float, length: float, height: float) -> list[Mesh]:
    x, y = width / 2 - 0.07, length / 2 - 0.08
    style = pick(rng, ("posts", "posts", "splayed", "trestle", "turned"))
    if style == "trestle":
        parts = []
        for side in (-1, 1):
            at = side * y * 0.75
            parts += [
                box((width * 0.7, 0.08, 0.07), (0, at, 0.035)),
                box((0.14, 0.07, height - 0.1), (0, at, height / 2)),
                box((width * 0.65, 0.08, 0.07), (0, at, height - 0.035)),
            ]
        return [*parts, box((0.05, 1.5 * y, 0.09), (0, 0, 0.3))]
    apron = [box((0.025, 2 * y, 0.09), (s * x, 0, height - 0.045)) for s in (-1, 1)]
    apron += [box((2 * x, 0.025, 0.09), (0, s * y, height - 0.045)) for s in (-1, 1)]
    if style == "turned":
        shape = [
            (0.03, 0.0),
            (0.026, 0.1),
            (0.045, 0.2),
            (0.03, 0.36),
            (0.05, 0.7),
            (0.035, 0.76),
            (0.05, 0.8),
            (0.05, 1.0),
        ]
        leg = lathe(spline([(r, z * height) for r, z in shape], 18).tolist(), 10)
        return [*apron, *(leg.moved(sx * x, sy * y) for sx in (-1, 1) for sy in (-1, 1))]
    thick, out = rng.uniform(0.06, 0.09), rng.uniform(0.06, 0.1) if style == "splayed" else 0.0
    return [
        *apron,
        *(
            _beam((sx * x, sy * y, height), (sx * (x + out * 0.4), sy * (y + out), 0), thick, taper=0.6 if out else 1.0)
            for sx in (-1, 1)
            for sy in (-1, 1)
        ),
    ]


def _round_legs(rng: Generator, radius: float, height: float) -> list[Mesh]:
    style = pick(rng, ("tulip", "column", "four"))
    if style == "tulip":
        foot = radius * rng.uniform(0.5, 0.6)
        outline = [(foot, 0.0), (foot * 0.9, 0.03), (0.12, 0.09), (0.05, 0.3), (0.06, 0.55), (0.2, height)]
        return [lathe([(0.0, 0.0), (foot, 0.0), (foot, 0.0), *spline(outline, 16)[1:]], 24)]
    if style == "column":
        post = [(0.06, 0.1), (0.09, 0.2), (0.05, 0.3), (0.055, 0.5), (0.1, 0.6), (0.06, 0.66), (0.13, height)]
        claws = [
            tube(
                spline([(0.03, 0, 0.26), (0.2, 0, 0.2), (radius * 0.62, 0, 0.03)], 8),
                np.linspace(0.05, 0.03, 8),
                sides=8,
            ).rotated("z", 45 + 90 * k)
            for k in range(4)
        ]
        return [lathe(spline(post, 18).tolist(), 14), *claws]
    a = radius * 0.6
    legs = [
        _beam((sx * a, sy * a, height), (sx * a * 1.08, sy * a * 1.08, 0), 0.07, taper=0.6)
        for sx in (-1, 1)
        for sy in (-1, 1)
    ]
    return [*legs, cylinder(radius * 0.85, 0.08, 24).moved(z=height - 0.04)]


def _table_cloth(rng: Generator, width: float, length: float, height: float, round_top: bool) -> Mesh:
    """A cloth over the top: its hem hangs in folds."""
    drop, folds = rng.uniform(0.14, 0.28), int(rng.integers(9, 15))
    angle = np.linspace(0, 2 * math.pi, 72, endpoint=False)
    c, s = np.cos(angle), np.sin(angle)
    # A superellipse of high power is the rectangle's outline with soft corners.
    power = 2.0 if round_top else 14.0
    reach = (np.abs(c) ** power + np.abs(s) ** power) ** (-1 / power)
    outline = np.stack([c * reach * (width / 2), s * reach * (length / 2)], axis=1)
    wave = (0.5 + 0.5 * np.sin(folds * angle + rng.uniform(0, 6)))[:, None]
    rings = [
        np.hstack([outline * (1 + (0.016 + 0.07 * wave * t) / (width / 2) * min(1, t * 4 + 0.5)), np.full((72, 1), z)])
        for t, z in ((0.0, height + 0.004), (0.35, height - drop * 0.35), (1.0, height - drop))
    ][::-1]
    top = np.hstack([outline * 1.004, np.full((72, 1), height + 0.012)])
    lid = np.hstack([outline * 0.5, np.full((72, 1), height + 0.012)])
    centre = np.hstack([outline * 1e-4, np.full((72, 1), height + 0.012)])
    return merge(
        [
            grid_surface(np.array([*rings, top]), wrap_cols=True),
            grid_surface(np.array([top, lid, centre]), wrap_cols=True),
        ]
    )


def _laid_table(rng: Generator, width: float, length: float, z: float, round_top: bool) -> list[Piece]:
    """Place settings and a centrepiece."""
    rim = Material(pick(rng, ((0.12, 0.2, 0.45), (0.55, 0.12, 0.12), (0.16, 0.32, 0.26), (0.2, 0.2, 0.22))), 0.4)
    china = Material((0.93, 0.93, 0.91), roughness=0.25)
    glass = Material((0.72, 0.82, 0.86), roughness=0.08)
    mat = Material(pick(rng, _CLOTHS), roughness=0.95)
    if round_top:
        count, away = pick(rng, (3, 4, 4)), length / 2 - 0.2
        seats = [(math.cos(a) * away, math.sin(a) * away, a) for a in np.arange(count) * 2 * math.pi / count + 0.6]
    else:
        rows = (-0.3, 0.3) if length < 1.5 else (-0.34, 0.0, 0.34)
        seats = [(s * (width / 2 - 0.19), t * length, 0.0 if s > 0 else math.pi) for s in (-1, 1) for t in rows]
    plates, rims, glasses, mats, napkins = [], [], [], [], []
    with_mats, with_glasses = rng.random() < 0.5, rng.random() < 0.8
    dish = lathe([(0.09, 0.004), (0.13, 0.02), (0.13, 0.02), (0.095, 0.013), (0.0, 0.013)], 18)
    band = lathe([(0.132, 0.026), (0.108, 0.022)], 18)
    goblet = lathe([(0.035, 0.003), (0.009, 0.015), (0.009, 0.08), (0.038, 0.11), (0.042, 0.15), (0.034, 0.19)], 10)
    napkin = box((0.16, 0.045, 0.016), (0, 0, 0.012))
    for x, y, a in seats:
        degrees, lift = math.degrees(a), 0.008 if with_mats else 0.0
        plates.append(dish.moved(x, y, z + lift))
        rims.append(band.moved(x, y, z + lift))
        if with_mats:
            mats.append(rounded_box((0.3, 0.42, 0.008), 0.003, (0, 0, 0.006), 1).rotated("z", degrees).moved(x, y, z))
        if with_glasses:
            glasses.append(goblet.moved(-0.15, 0.13).rotated("z", degrees).moved(x, y, z))
        napkins.append(napkin.moved(0, -0.18).rotated("z", degrees).moved(x, y, z + lift))
    pieces: list[Piece] = [(plates, china), (rims, rim), (napkins, rim)]
    pieces += [(mats, mat)] if mats else []
    pieces += [(glasses, glass)] if glasses else []
    centre = pick(rng, ("vase", "vase", "fruit", "candles", "soup"))
    if centre == "vase":
        pieces += _vase(rng, z)
    elif centre == "fruit":
        bowl = lathe(
            [
                (0.06, 0.0),
                (0.07, 0.02),
                (0.16, 0.09),
                (0.16, 0.09),
                (0.15, 0.09),
                (0.15, 0.09),
                (0.06, 0.04),
                (0.0, 0.035),
            ],
            18,
        ).moved(z=z + 0.004)
        fruit = ((0.78, 0.12, 0.1), (0.92, 0.55, 0.1), (0.5, 0.65, 0.15))
        pieces.append((bowl, Material(pick(rng, ((0.9, 0.9, 0.88), (0.35, 0.25, 0.18), (0.3, 0.45, 0.55))), 0.4)))
        for k, color in enumerate(fruit):
            a = k * 2.1 + rng.uniform(0, 0.6)
            balls = [
                sphere(0.048, (math.cos(a) * 0.07, math.sin(a) * 0.07, z + 0.095), 10),
                sphere(0.045, (math.cos(a + 1) * 0.05, math.sin(a + 1) * 0.05, z + 0.15), 10),
            ]
            pieces.append((balls[: 2 if k < 2 else 1], Material(color, 0.4)))
    elif centre == "candles":
        for y in (-0.14, 0.0, 0.14):
            tall = rng.uniform(0.14, 0.22)
            foot = lathe([(0.05, 0.0), (0.05, 0.012), (0.014, 0.03), (0.014, 0.09), (0.03, 0.11), (0.0, 0.11)], 12)
            pieces += [
                (foot.moved(0, y, z + 0.004), _BRASS),
                (cylinder(0.016, tall, 10).moved(0, y, z + 0.11 + tall / 2), Material((0.93, 0.9, 0.8), 0.6)),
                (
                    ellipsoid((0.012, 0.012, 0.026), (0, y, z + 0.14 + tall), 8),
                    Material((1.0, 0.72, 0.25), emission=1.5),
                ),
            ]
    else:
        tureen = lathe([(0.06, 0.0), (0.05, 0.02), (0.13, 0.08), (0.13, 0.13), (0.05, 0.18), (0.0, 0.185)], 18)
        knob = sphere(0.026, (0, 0, 0.2), 10)
        ears = torus(0.035, 0.011, 14, 6).rotated("x", 90).moved(0.14, 0, 0.1).with_twin("x").rotated("z", 90)
        pieces += [(tureen.moved(z=z + 0.004), china), ([knob.moved(z=z + 0.004), ears.moved(z=z + 0.004)], rim)]
    return pieces


def _vase(rng: Generator, z: float) -> list[Piece]:
    h = rng.uniform(0.16, 0.22)
    outline = spline([(0.045, 0.0), (0.075, h * 0.35), (0.05, h * 0.75), (0.035, h * 0.9), (0.05, h)], 12)
    flower = _blossom(0.055)
    spots = []
    for k in range(9):
        a, t = k * 2.4 + rng.uniform(0, 0.5), math.sqrt((k + 0.5) / 9)
        spots.append(
            _place(
                a, math.radians(-20 - 45 * t), 1.0, (0.15 * t * math.cos(a), 0.15 * t * math.sin(a), 0.13 - 0.07 * t)
            )
        )
    petals, hearts = (_scattered(m, spots).moved(z=z + h + 0.06) for m in flower)
    stems = [tube([(0, 0, z + h - 0.03), (s[0, 3], s[1, 3], z + h + 0.05 + s[2, 3])], 0.008, sides=5) for s in spots]
    blades = [_place(k * 1.05, 0.5, 0.16, (0, 0, z + h)) for k in range(6)]
    green = Material((0.22, 0.45, 0.18), 0.7)
    return [
        (lathe(outline.tolist(), 16).moved(z=z + 0.004), Material(_varied(rng, pick(rng, _LACQUERS)), 0.2)),
        (petals, Material(pick(rng, _PETALS), 0.7)),
        (hearts, Material((0.9, 0.7, 0.15), 0.8)),
        ([*stems, _scattered(_leaf(0.5, 0.3), blades)], green),
    ]


# --------------------------------------------------------------------------------------------------------------- bench
def _bench(rng: Generator, _state: str) -> Model:
    if rng.random() < 0.12:
        return _backless_bench(rng)
    length, seat = rng.uniform(1.35, 1.85), rng.uniform(0.42, 0.47)
    top, depth, lean = rng.uniform(0.82, 0.95), rng.uniform(0.42, 0.5), rng.uniform(0.1, 0.18)
    # Slats lie along a curve from the front of the seat to the top of the back.
    curve = spline(
        [
            (depth / 2, seat - 0.025),
            (depth / 4, seat),
            (-depth * 0.3, seat - 0.025),
        ],
        24,
    )
    rear = np.array(
        [
            (-depth * 0.42, seat + 0.13),
            (-depth * 0.42 - lean * 0.5, (seat + top) / 2 + 0.05),
            (-depth * 0.42 - lean, top),
        ]
    )
    back = spline(rear, 24)
    if rng.random() < 0.85:
        planks = _slats(curve, int(rng.integers(4, 7)), length, 0.8)
    else:
        planks = [box((depth * 0.85, length, 0.035), (0, 0, seat - 0.005))]
    style = pick(rng, ("slats", "slats", "slats", "upright", "cross"))
    if style == "slats":
        planks += _slats(back, int(rng.integers(3, 6)), length, 0.72)
    else:
        planks += [_beam((x, -length / 2, z), (x, length / 2, z), 0.035, 0.065) for x, z in (back[0], back[-1])]
        (x0, z0), (x1, z1) = back[0], back[-1]
        if style == "upright":
            for y in np.linspace(-length / 2, length / 2, int(length / 0.115))[1:-1]:
                planks.append(_beam((x0, y, z0), (x1, y, z1), 0.045, 0.02))
        else:
            edges = np.linspace(-length / 2, length / 2, 4)
            for a, b in zip(edges[:-1], edges[1:], strict=True):
                planks += [
                    _beam((x0 + 0.006, a, z0), (x1 + 0.006, b, z1), 0.022, 0.04),
                    _beam((x0, b, z0), (x1, a, z1), 0.022, 0.04),
                ]
            planks += [_beam((x0, y, z0), (x1, y, z1), 0.03, 0.05) for y in edges]
    ends = length / 2 - rng.uniform(0.04, 0.14)
    spots = [-ends, ends] if length < 1.6 or rng.random() < 0.4 else [-ends, 0.0, ends]
    iron = rng.random() < 0.65
    end = merge(_iron_end(curve, back, depth, seat) if iron else _wooden_end(depth, seat, top, lean))
    supports = [end.moved(y=y) for y in spots]
    wood = _wood(rng, paintable=True, axis="y", scale=0.06) if rng.random() < 0.7 else _lacquer(rng)
    metal = Material(_varied(rng, pick(rng, ((0.12, 0.12, 0.13), (0.1, 0.2, 0.15), (0.28, 0.29, 0.3))), 0.02), 0.5)
    return _standing([(planks, wood), (supports, metal if iron else _wood(rng, paintable=False))])


def _slats(curve: NDArray[np.float64], count: int, length: float, filled: float) -> list[Mesh]:
    """Planks along y, side by side on a curve (N, 2) in x, z; ``filled`` is the share of wood."""
    marks = np.linspace(0, len(curve) - 1, count + 1)
    x, z = (np.interp(marks, np.arange(len(curve)), curve[:, k]) for k in (0, 1))
    planks = []
    for k in range(count):
        dx, dz = x[k + 1] - x[k], z[k + 1] - z[k]
        wide = math.hypot(dx, dz) * filled
        plank = rounded_box((wide, length, 0.032), 0.01, segments=1).rotated("y", -math.degrees(math.atan2(dz, dx)))
        planks.append(plank.moved((x[k] + x[k + 1]) / 2, 0, (z[k] + z[k + 1]) / 2))
    return planks


def _iron_end(curve: NDArray[np.float64], back: NDArray[np.float64], depth: float, seat: float) -> list[Mesh]:
    """A cast support: curled legs, a bar under the slats and an arm rest."""

    def bar(points: ArrayLike, thick: float = 0.022) -> Mesh:
        p = spline(points, 14)
        return tube(np.stack([p[:, 0], np.zeros(len(p)), p[:, 1]], axis=1), thick, sides=6, up=(0, 1, 0))

    under = np.array([0.0, 0.036])
    front, rear = depth / 2, -depth * 0.42
    return [
        bar(np.concatenate([curve[::6] - under, back[[4, 12, -2]] - (0.036, 0)])),
        bar(
            [(front - 0.03, seat - 0.06), (front - 0.1, seat * 0.6), (front - 0.02, seat * 0.3), (front + 0.04, 0.02)],
            0.026,
        ),
        bar(
            [(rear + 0.06, seat - 0.04), (rear + 0.08, seat * 0.6), (rear - 0.02, seat * 0.25), (rear - 0.08, 0.02)],
            0.026,
        ),
        bar(
            [
                (front - 0.05, seat - 0.05),
                (front + 0.02, seat + 0.1),
                (front - 0.03, seat + 0.2),
                (rear - 0.02, seat + 0.22),
            ],
            0.024,
        ),
        bar([(front - 0.06, seat * 0.45), (0.0, seat * 0.62), (rear + 0.05, seat * 0.45)], 0.018),
        rounded_box((0.1, 0.06, 0.02), 0.008, (front + 0.03, 0, 0.01), 1),
        rounded_box((0.1, 0.06, 0.02), 0.008, (rear - 0.07, 0, 0.01), 1),
    ]


def _wooden_end(depth: float, seat: float, top: float, lean: float) -> list[Mesh]:
    """A joined support: straight legs, an arm and a post behind the back."""
    front, rear = depth / 2 - 0.03, -depth * 0.42 - 0.045
    return [
        _beam((front, 0, 0), (front, 0, seat + 0.2), 0.07, 0.06),
        _beam((rear, 0, 0), (rear, 0, seat), 0.07, 0.06),
        _beam((rear, 0, seat - 0.02), (rear - lean * 0.95, 0, top - 0.03), 0.07, 0.05),
        _beam((front + 0.05, 0, seat + 0.215), (rear - 0.06, 0, seat + 0.215), 0.09, 0.03),
        _beam((front, 0, seat - 0.08), (rear, 0, seat - 0.08), 0.05, 0.07),
    ]


def _backless_bench(rng: Generator) -> Model:
    """Slats on two heavy blocks, as at a bus stop."""
    length, seat, depth = rng.uniform(1.5, 1.9), rng.uniform(0.4, 0.46), rng.uniform(0.4, 0.48)
    flat = np.stack([np.linspace(depth / 2, -depth / 2, 24), np.full(24, seat - 0.02)], axis=1)
    planks = _slats(flat, int(rng.integers(4, 6)), length, 0.78)
    planks += [box((0.05, length, 0.06), (s * depth * 0.25, 0, seat - 0.068)) for s in (-1, 1)]
    block = loft(
        [
            [(sx * depth * k, sy * 0.09, z) for sx, sy in ((1, 1), (-1, 1), (-1, -1), (1, -1))]
            for k, z in ((0.5, 0), (0.42, seat - 0.1))
        ],
        smooth=False,
    )
    blocks = [block.moved(y=s * length * 0.33) for s in (-1, 1)]
    stone = Material((0.62, 0.61, 0.58), 0.95, pattern=Pattern("speckle", (0.45, 0.44, 0.42), 0.02, 0.6))
    wood = _wood(rng, paintable=True, axis="y", scale=0.06)
    return _standing([(planks, wood), (blocks, stone)])


# ----------------------------------------------------------------------------------------------------------------- bed
def _bed(rng: Generator, _state: str) -> Model:
    length = rng.uniform(1.95, 2.1)
    double = rng.random() < 0.6
    width = rng.uniform(1.4, 1.75) if double else rng.uniform(0.92, 1.1)
    low, mattress = rng.uniform(0.26, 0.36), rng.uniform(0.2, 0.28)
    top = low + mattress
    frame = (
        _wood(rng, paintable=False, axis="y", scale=0.12)
        if rng.random() < 0.75
        else pick(rng, (_IRON, Material((0.9, 0.89, 0.86), 0.5), Material((0.3, 0.32, 0.35), 0.9)))
    )
    blanket = _cloth(rng, paintable=True, patterned=0.5, scale=0.25)
    sheet = Material(pick(rng, ((0.94, 0.94, 0.92), (0.9, 0.87, 0.8), (0.82, 0.87, 0.92))), 0.95)
    case = Material(pick(rng, ((0.95, 0.95, 0.94), (0.93, 0.9, 0.83), (0.8, 0.86, 0.93), (0.95, 0.86, 0.86))), 0.95)
    wood = [rounded_box((length + 0.1, width + 0.07, 0.16), 0.02, (0, 0, low - 0.05), segments=2)]
    leg = low - 0.12
    for sx in (-1, 1):
        for sy in (-1, 1):
            wood.append(
                _beam(
                    (sx * (length / 2 - 0.05), sy * (width / 2 - 0.05), leg),
                    (sx * (length / 2 - 0.05), sy * (width / 2 - 0.05), 0),
                    0.09,
                )
            )
    head = -length / 2 - 0.05
    pieces: list[Piece] = [(wood, frame)]
    pieces += _headboard(rng, head, width, top, frame)
    if rng.random() < 0.4:
        foot = top + rng.uniform(-0.05, 0.1)
        pieces.append((_board(-head + 0.07, width, foot, pick(rng, ("panel", "bars"))), frame))
    pieces.append((rounded_box((length, width, mattress), 0.06, (0, 0, low + mattress / 2), segments=2), sheet))
    start = -length / 2 + rng.uniform(0.52, 0.66)
    quilt = _blanket(rng, start, length / 2 + 0.012, width, top, mattress * rng.uniform(0.75, 1.15))
    fold = rounded_box((0.24, width * 1.035, 0.07), 0.034, (start + 0.04, 0, top + 0.03), segments=2)
    pieces += [
        (quilt, blanket),
        (fold, Material(_varied(rng, pick(rng, _CLOTHS)), 0.95) if rng.random() < 0.5 else sheet),
    ]
    pillows, spots = [], (-0.25, 0.25) if double else (0.0,)
    prop = rng.uniform(12, 40)
    for t in spots:
        size = (0.44, width * 0.44 if double else width * 0.68, 0.2)
        pillow = _pillow(*size).rotated("y", prop).rotated("z", rng.uniform(-5, 5))
        pillows.append(pillow.moved(-length / 2 + 0.27, t * width, top + 0.1 + 0.2 * math.sin(math.radians(prop))))
    pieces.append((pillows, case))
    if rng.random() < 0.55:
        throw = []
        for t in (-0.2, 0.2) if double else (0.0,):
            throw.append(_pillow(0.36, 0.38, 0.17).rotated("y", 62).moved(-length / 2 + 0.46, t * width, top + 0.19))
        pieces.append((throw, _cloth(rng, paintable=False, patterned=0.6)))
    if rng.random() < 0.4:
        runner = _blanket(rng, length / 2 - 0.52, length / 2 - 0.12, width + 0.04, top + 0.035, mattress * 0.6)
        pieces.append((runner, _cloth(rng, paintable=False, patterned=0.5, scale=0.15)))
    return _standing(pieces)


def _blanket(rng: Generator, start: float, end: float, width: float, top: float, drop: float) -> Mesh:
    """A quilt over the mattress from ``start`` to ``end`` (x), hanging ``drop`` metres down at the sides and end."""
    half, soft = width / 2 + 0.012, 0.05
    side = [
        (-half - 0.055, top - drop),
        (-half - 0.04, top - drop * 0.5),
        (-half, top - soft),
        (-half + 0.03, top + 0.012),
    ]
    middle = [(y, top + 0.028) for y in np.linspace(-half + soft + 0.05, half - soft - 0.05, 13)]
    across = np.array([*side, *middle, *((-y, z) for y, z in side[::-1])])
    x = np.linspace(start, end, 18)
    points = np.zeros((len(x) + 2, len(across), 3))
    points[:-2, :, 0], points[:-2, :, 1:] = x[:, None], across
    quilting = np.abs(np.sin(np.linspace(0, 4 * math.pi, len(x)))[:, None] * np.sin(np.linspace(0, 4 * math.pi, 13)))
    points[:-2, 4:-4, 2] += 0.03 * quilting + rng.uniform(0, 0.008, quilting.shape)
    points[:-2, :2, 1] -= 0.012 * np.sin(np.arange(len(x)) * 1.7)[:, None]
    points[:-2, -2:, 1] += 0.012 * np.sin(np.arange(len(x)) * 1.3)[:, None]
    for k, (out, below) in enumerate(((0.05, soft), (0.07, drop)), start=len(x)):
        points[k] = points[len(x) - 1]
        points[k, :, 0] += out
        points[k, :, 2] = np.minimum(points[k, :, 2], top - below)
    return grid_surface(points.transpose(1, 0, 2)[::-1])


def _board(x: float, width: float, height: float, style: str) -> list[Mesh]:
    """A head or foot board at ``x``, as high as ``height``."""
    y = width / 2 + 0.02
    posts = [_beam((x, s * y, 0), (x, s * y, height), 0.08, 0.07) for s in (-1, 1)]
    knobs = [sphere(0.055, (x, s * y, height + 0.03), 10) for s in (-1, 1)]
    if style == "panel":
        return [
            *posts,
            *knobs,
            rounded_box((0.05, 2 * y, height - 0.28), 0.015, (x, 0, (height + 0.22) / 2), segments=2),
        ]
    rails = [_beam((x, -y, z), (x, y, z), 0.05, 0.07) for z in (0.3, height - 0.04)]
    bars = [
        _beam((x, t, 0.3), (x, t, height - 0.04), 0.045, 0.035) for t in np.linspace(-y, y, int(width / 0.16) + 2)[1:-1]
    ]
    return [*posts, *knobs, *rails, *bars]


def _headboard(rng: Generator, x: float, width: float, top: float, frame: Material) -> list[Piece]:
    height = top + rng.uniform(0.42, 0.65)
    style = pick(rng, ("panel", "bars", "arched", "padded", "padded"))
    if style in ("panel", "bars"):
        return [(_board(x, width, height, style), frame)]
    if style == "arched":
        t = np.linspace(-1, 1, 17)
        crest = np.stack([t * (width / 2 + 0.04), height - 0.18 + 0.24 * np.cos(t * math.pi / 2)], axis=1)
        polygon = np.concatenate([[(-width / 2 - 0.04, 0.0), (width / 2 + 0.04, 0.0)], crest[::-1]])
        # Drawn in (y, z) and stood up: x of the polygon to y, y to z, depth to x.
        stand = np.array([[0.0, 0.0, 1.0, x - 0.03], [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
        return [(extrude(polygon, 0.06).transformed(stand), frame)]
    cover = Material(_varied(rng, pick(rng, _CLOTHS)), 0.9)
    count = 4 if width > 1.3 else 3
    step, rows = width / count, 2
    tall = (height - 0.25) / rows
    pads = [
        rounded_box(
            (0.12, step * 0.99, tall * 0.99),
            0.04,
            (x, (k - (count - 1) / 2) * step, 0.25 + (r + 0.5) * tall),
            segments=2,
        )
        for k in range(count)
        for r in range(rows)
    ]
    return [
        (pads, cover),
        ([_beam((x, s * width * 0.35, 0), (x, s * width * 0.35, 0.3), 0.08, 0.06) for s in (-1, 1)], frame),
    ]


# -------------------------------------------------------------------------------------------------------- potted plant
_PETALS: tuple[Color, ...] = (
    (0.85, 0.15, 0.18),
    (0.92, 0.5, 0.65),
    (0.95, 0.93, 0.9),
    (0.95, 0.72, 0.15),
    (0.55, 0.3, 0.7),
    (0.9, 0.4, 0.15),
)
_GREENS: tuple[Color, ...] = (
    (0.22, 0.47, 0.18),
    (0.30, 0.56, 0.20),
    (0.44, 0.62, 0.24),
    (0.20, 0.42, 0.27),
    (0.38, 0.55, 0.36),
)


def _potted_plant(rng: Generator, _state: str) -> Model:
    pot, rim, radius = _pot(rng)
    grow = pick(rng, (_foliage, _foliage, _cactus, _flowers, _flowers, _snake_plant, _fern, _broad_leaves))
    return _standing([*pot, *grow(rng, rim, radius)])


def _pot(rng: Generator) -> tuple[list[Piece], float, float]:
    """A pot with soil; also the height of the soil and the radius there."""
    h, r = rng.uniform(0.26, 0.33), rng.uniform(0.16, 0.19)
    glaze = pick(
        rng,
        (
            Material(_varied(rng, (0.72, 0.36, 0.22)), 0.85, paintable=True),  # terracotta, twice as likely as others
            Material(
                _varied(rng, (0.70, 0.38, 0.25)), 0.85, paintable=True, pattern=Pattern("noise", (0.8, 0.5, 0.36), 0.1)
            ),
            Material(_varied(rng, (0.90, 0.89, 0.86)), 0.3, paintable=True),
            Material(
                _varied(rng, (0.58, 0.58, 0.57)),
                0.9,
                paintable=True,
                pattern=Pattern("speckle", (0.4, 0.4, 0.4), 0.02, 0.5),
            ),
            Material(_varied(rng, (0.18, 0.34, 0.52)), 0.2, paintable=True),
            Material(_varied(rng, (0.20, 0.20, 0.22)), 0.5, paintable=True),
            Material(_varied(rng, (0.22, 0.42, 0.40)), 0.2, paintable=True),
            Material(_varied(rng, (0.85, 0.68, 0.3)), 0.3, paintable=True),
            Material(
                (0.92, 0.9, 0.84),
                0.4,
                paintable=True,
                pattern=Pattern(pick(rng, ("stripes", "dots")), pick(rng, _CLOTHS), 0.07, 0.9, "z"),
            ),
        ),
    )
    style = pick(rng, ("classic", "classic", "cylinder", "urn", "bowl", "square"))
    base = 0.025
    pieces: list[Piece] = []
    if style == "square":
        corners = rounded_polygon(2.0, 2.0, 0.2, 3)
        rings = [
            np.hstack([corners * (r * k), np.full((len(corners), 1), z)])
            for k, z in ((0.72, base), (0.95, h), (0.95, h), (0.84, h), (0.82, h - 0.04))
        ]
        pieces.append(
            (
                merge([loft(rings[:2], cap_end=False, smooth=False), loft(rings[2:], cap_start=False, smooth=False)]),
                glaze,
            )
        )
        soil = r * 0.83
    else:
        outline = {
            "classic": [(0.66, 0.0), (0.86, 0.76), (0.86, 0.76), (1.0, 0.77), (1.0, 0.77), (1.03, 1.0), (1.03, 1.0)],
            "cylinder": [(0.86, 0.0), (0.9, 0.04), (0.92, 0.5), (0.92, 1.0), (0.92, 1.0)],
            "urn": [(0.6, 0.0), (0.85, 0.2), (1.02, 0.5), (0.95, 0.8), (0.85, 0.92), (0.95, 1.0), (0.95, 1.0)],
            "bowl": [(0.55, 0.0), (0.85, 0.25), (1.05, 0.65), (1.1, 1.0), (1.1, 1.0)],
        }[style]
        last = outline[-1][0]
        wall = [(0.0, base), (outline[0][0] * r, base), (outline[0][0] * r, base)]
        wall += [(k * r, base + (h - base) * t) for k, t in outline]
        wall += [((last - 0.1) * r, h), ((last - 0.1) * r, h), ((last - 0.12) * r, h - 0.04)]
        pieces.append((lathe(wall, 24), glaze))
        soil = (last - 0.11) * r
    saucer = r * rng.uniform(0.95, 1.1)
    dish = lathe(
        [
            (0.0, 0.0),
            (saucer * 0.85, 0.0),
            (saucer * 0.85, 0.0),
            (saucer, 0.04),
            (saucer, 0.04),
            (saucer * 0.93, 0.04),
            (saucer * 0.93, 0.04),
            (saucer * 0.8, 0.018),
        ],
        20,
    )
    stand = Material(pick(rng, ((0.5, 0.27, 0.17), (0.35, 0.24, 0.16), (0.82, 0.81, 0.78), (0.2, 0.2, 0.2))), 0.8)
    earth = Material((0.17, 0.11, 0.07), 1.0, pattern=Pattern("speckle", (0.28, 0.2, 0.13), 0.02))
    pieces += [(dish, stand), (cylinder(soil, 0.02, 20).moved(z=h - 0.03), earth)]
    return pieces, h - 0.02, soil


def _leaf(width: float, bend: float, *, fold: float = 0.15, peak: float = 0.45, rows: int = 7) -> Mesh:
    """A blade one metre long from the origin along +x, sagging by ``bend`` at its tip; single-sided, facing up."""
    t = np.linspace(0, 1, rows)
    # A beta-shaped outline with its widest place at `peak`.
    a = 2 * peak
    b = 2 - a
    outline = (t / peak) ** a * ((1 - t) / (1 - peak)) ** b * width / 2 + 0.004
    v = np.linspace(-1, 1, 3)
    x = np.broadcast_to((t - 0.25 * bend * t**2)[:, None], (rows, 3))
    z = -bend * t[:, None] ** 2 + fold * np.abs(v) * outline[:, None]
    points = np.stack([x, v * outline[:, None], z], axis=-1)
    return grid_surface(points.transpose(1, 0, 2)[::-1])


def _blossom(radius: float, petals: int = 6) -> tuple[Mesh, Mesh]:
    """Petals and heart of a flower at the origin that looks along +z turned towards +x by its placing."""
    ring = _scattered(
        ellipsoid((radius * 0.5, radius * 0.34, radius * 0.12), (radius * 0.58, 0, 0), 8),
        [_place(k * 2 * math.pi / petals, 0.25) for k in range(petals)],
    )
    return ring, ellipsoid((radius * 0.32, radius * 0.32, radius * 0.22), (0, 0, radius * 0.1), 8)


def _green(rng: Generator, pattern: bool = False) -> Material:
    color = _varied(rng, pick(rng, _GREENS), 0.04)
    light = (min(1.0, color[0] * 1.5), min(1.0, color[1] * 1.35), color[2] * 1.3)
    return Material(color, 0.55, pattern=Pattern("noise", light, 0.05, 0.7) if pattern else None)


def _foliage(rng: Generator, z: float, r: float) -> list[Piece]:
    """A bushy crown of many leaves."""
    tall, count = rng.uniform(0.26, 0.4), int(rng.integers(70, 100))
    leaf = _leaf(rng.uniform(0.42, 0.7), rng.uniform(0.2, 0.6), rows=6)
    size, spread = rng.uniform(0.14, 0.18), r * rng.uniform(1.1, 1.45)
    spots: list[list[NDArray[np.float64]]] = [[], []]
    for k in range(count):
        a, up = k * 2.39996 + rng.uniform(-0.3, 0.3), ((k + 0.5) / count) ** 0.8
        out = spread * math.sqrt(max(0.0, 1 - (1.6 * up - 0.6) ** 2)) * 0.62
        lift = -0.3 + 1.5 * up + rng.uniform(-0.3, 0.3)
        at = (out * math.cos(a), out * math.sin(a), z + tall * up * 0.85)
        spots[k % 2].append(_place(a, lift, size * rng.uniform(0.8, 1.2), at))
    stems = [
        tube(
            [(0, 0, z - 0.01), (0.5 * spread * math.cos(a), 0.5 * spread * math.sin(a), z + tall * 0.6)], 0.012, sides=5
        )
        for a in rng.uniform(0, 6.28, 5)
    ]
    first = _green(rng)
    second = Material(_varied(rng, first.color, 0.08), first.roughness)
    return [
        (_scattered(leaf, spots[0]), first),
        (_scattered(leaf, spots[1]), second),
        (stems, Material((0.3, 0.28, 0.14), 0.9)),
    ]


def _cactus(rng: Generator, z: float, r: float) -> list[Piece]:
    """A ribbed column, perhaps with arms, or a ribbed ball."""
    ribs = int(rng.integers(8, 12))
    angle = np.linspace(0, 2 * math.pi, ribs * 4, endpoint=False)
    ripple = 1 + 0.1 * np.cos(ribs * angle)

    def ribbed(path: NDArray[np.float64], radii: NDArray[np.float64]) -> Mesh:
        # Rings lie across the path, which runs in the plane y = 0.
        tangent = np.gradient(path, axis=0)
        tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
        side = np.stack([tangent[:, 1], -tangent[:, 0]], axis=1)
        u, v = np.cos(angle) * ripple, np.sin(angle) * ripple
        rings = [
            np.stack([x + sx * u * rho, v * rho, h + sz * u * rho], axis=1)
            for (x, h), (sx, sz), rho in zip(path, side, radii, strict=True)
        ]
        return loft(np.array(rings))

    def spines(path: NDArray[np.float64], radii: NDArray[np.float64]) -> list[Mesh]:
        tuft = ellipsoid((0.007, 0.007, 0.007), segments=4)
        at = []
        for k in range(1, len(path) - 1):
            for a in np.arange(0, ribs, 1 if len(path) < 9 else 2) * 2 * math.pi / ribs:
                rho = radii[k] * 1.1
                at.append(_place(0, 0, 1, (path[k, 0] + math.cos(a) * rho, math.sin(a) * rho, path[k, 1])))
        return [_scattered(tuft, at)]

    body: list[Mesh] = []
    tufts: list[Mesh] = []
    t = np.linspace(0, 1, 10)
    dome = np.sqrt(np.maximum(1 - np.clip((t - 0.72) / 0.28, 0, 1) ** 2, 0.0025))
    if rng.random() < 0.3:
        rho, tall = r * rng.uniform(0.85, 1.0), r * rng.uniform(1.5, 1.9)
        swell = np.sqrt(np.maximum(1 - (1.7 * t - 0.75) ** 2, 0.003))
        path = np.stack([np.zeros(10), z - 0.01 + tall * t], axis=1)
        body.append(ribbed(path, rho * swell))
        tufts += spines(path, rho * swell)
    else:
        rho, tall = r * rng.uniform(0.42, 0.55), rng.uniform(0.36, 0.48)
        path = np.stack([np.zeros(10), z - 0.01 + tall * t], axis=1)
        body.append(ribbed(path, rho * dome))
        tufts += spines(path, rho * dome)
        for side in (-1, 1):
            if rng.random() < 0.8:
                level, out = z + tall * rng.uniform(0.3, 0.5), side * (rho + rng.uniform(0.08, 0.1))
                bend = spline(
                    [(side * rho * 0.6, level), (out * 0.8, level + 0.01), (out, level + 0.06), (out, level + 0.18)], 12
                )
                radii = np.interp(np.linspace(0, 1, 12), t, dome) * rho * 0.6
                body.append(ribbed(bend, radii))
        if len(body) > 1 and rng.random() < 0.5:
            body, tufts = [m.rotated("z", 90) for m in body], [m.rotated("z", 90) for m in tufts]
    top = max(float(m.bounds[1][2]) for m in body)
    pieces: list[Piece] = [(body, _green(rng)), (tufts, Material((0.92, 0.88, 0.7), 0.9))]
    if rng.random() < 0.5:
        petals, heart = _blossom(0.06, 7)
        pieces += [
            (petals.moved(z=top + 0.004), Material(pick(rng, _PETALS), 0.7)),
            (heart.moved(z=top + 0.012), Material((0.95, 0.8, 0.3), 0.8)),
        ]
    return pieces


def _flowers(rng: Generator, z: float, r: float) -> list[Piece]:
    """Blossoms over a cushion of leaves."""
    count, tall = int(rng.integers(9, 16)), rng.uniform(0.16, 0.28)
    petals, heart = _blossom(rng.uniform(0.055, 0.07), pick(rng, (5, 6, 8)))
    spots, stems = [], []
    for k in range(count):
        a, t = k * 2.39996, math.sqrt((k + 0.3) / count)
        at = (
            r * 1.15 * t * math.cos(a),
            r * 1.15 * t * math.sin(a),
            z + tall * (1.1 - 0.5 * t * t) + rng.uniform(-0.03, 0.03),
        )
        spots.append(_place(a, -0.25 - 0.75 * t, rng.uniform(0.85, 1.2), at))
        stems.append(tube([(at[0] * 0.3, at[1] * 0.3, z - 0.01), at], 0.007, sides=5))
    leaf = _leaf(0.5, rng.uniform(0.3, 0.7), rows=6)
    leaves = [
        _place(
            a,
            rng.uniform(0.1, 0.9),
            rng.uniform(0.12, 0.2),
            (math.cos(a) * r * 0.35, math.sin(a) * r * 0.35, z + rng.uniform(0, tall * 0.5)),
        )
        for a in np.arange(30) * 2.39996
    ]
    green = _green(rng)
    return [
        (_scattered(petals, spots), Material(_varied(rng, pick(rng, _PETALS), 0.04), 0.7)),
        (_scattered(heart, spots), Material(pick(rng, ((0.95, 0.8, 0.2), (0.35, 0.2, 0.1))), 0.9)),
        ([_scattered(leaf, leaves), *stems], green),
    ]


def _snake_plant(rng: Generator, z: float, r: float) -> list[Piece]:
    """Stiff upright swords, banded, with yellow margins."""
    inner: list[Mesh] = []
    outer: list[Mesh] = []
    t = np.linspace(0, 1, 9)
    for k in range(int(rng.integers(9, 14))):
        a, out = k * 2.39996, r * 0.75 * math.sqrt((k + 0.3) / 13)
        tall, wide, lean = rng.uniform(0.3, 0.46), rng.uniform(0.055, 0.075), rng.uniform(0.02, 0.09) + 0.5 * out
        outline = wide / 2 * np.minimum(1, 0.65 + t) * np.clip(1.0 - t**5, 0, 1) ** 0.8 + 0.002
        bow = lean * t**1.5
        for group, low, high in ((outer, -1.0, -0.66), (inner, -0.66, 0.66), (outer, 0.66, 1.0)):
            v = np.linspace(low, high, 3)
            points = np.stack(
                [
                    out + bow[:, None] - 0.02 * v**2,
                    outline[:, None] * v,
                    np.broadcast_to((z - 0.01 + tall * t)[:, None], (9, 3)),
                ],
                axis=-1,
            )
            group.append(grid_surface(points).rotated("z", math.degrees(a) + 70 * math.sin(k * 5.0)))
    body = Material((0.16, 0.34, 0.17), 0.5, pattern=Pattern("stripes", (0.38, 0.52, 0.32), 0.035, 0.7, "z"))
    margin = Material(pick(rng, ((0.86, 0.8, 0.36), (0.86, 0.8, 0.36), (0.25, 0.42, 0.22))), 0.5)
    return [(inner, body), (outer, margin)]


def _fern(rng: Generator, z: float, _radius: float) -> list[Piece]:
    """Arching fronds of many leaflets."""
    length, arch = rng.uniform(0.4, 0.5), rng.uniform(0.7, 1.0)
    t = np.linspace(0.12, 0.97, 15)
    rib = np.stack([t - 0.3 * arch * t**2, 0 * t, arch * 0.55 * t - arch * t**2.2 * 0.85], axis=1)
    leaflet = _leaf(0.34, 0.25, rows=4)
    spots = []
    for k, p in enumerate(rib):
        size = 0.3 * math.sin(math.pi * min(1.0, t[k] * 0.8 + 0.2)) ** 0.8 + 0.05
        spots += [_place(side * 1.15, 0.0, size, p) for side in (-1, 1)]
    spots.append(_place(0, -0.9, 0.16, rib[-1]))
    frond = merge([_scattered(leaflet, spots), tube(rib, 0.012, sides=4)])
    count = int(rng.integers(9, 13))
    fronds = [
        _place(
            k * 2.39996, rng.uniform(0.35, 0.75) * (0.5 + 1.2 * k / count), length * rng.uniform(0.8, 1.1), (0, 0, z)
        )
        for k in range(count)
    ]
    return [(_scattered(frond, fronds), _green(rng))]


def _broad_leaves(rng: Generator, z: float, r: float) -> list[Piece]:
    """A few large leaves on long stalks, as of a rubber plant or a calathea."""
    leaf = _leaf(rng.uniform(0.6, 0.85), rng.uniform(0.3, 0.7), fold=0.2, peak=0.38, rows=8)
    count, spots, stalks = int(rng.integers(11, 17)), [], []
    for k in range(count):
        a, up = k * 2.39996 + rng.uniform(-0.2, 0.2), (k + 0.5) / count
        out, rise = r * (0.75 - 0.5 * up), rng.uniform(0.05, 0.1) + 0.26 * up
        at = (out * math.cos(a), out * math.sin(a), z + rise)
        spots.append(_place(a, 0.15 + 0.9 * up, rng.uniform(0.22, 0.3), at))
        stalks.append(
            tube(
                [(at[0] * 0.15, at[1] * 0.15, z - 0.01), (at[0] * 0.7, at[1] * 0.7, z + rise * 0.6), at], 0.009, sides=5
            )
        )
    green = _green(rng, pattern=rng.random() < 0.5)
    return [(_scattered(leaf, spots), green), (stalks, Material((0.35, 0.42, 0.2), 0.8))]


ASSETS: tuple[Asset, ...] = (
    Asset("chair", _chair, size=0.95),
    Asset("dining table", _dining_table),
    # End on, a bench looks like a chair.
    Asset("bench", _bench, views=((28.0, 152.0), (208.0, 332.0)), size=1.1),
    # From behind the head board little of the bed is seen.
    Asset("bed", _bed, views=((0.0, 45.0), (135.0, 360.0)), size=1.1),
    Asset("potted plant", _potted_plant, size=0.9),
)
