"""Luggage, umbrellas and street furniture: backpack, suitcase, umbrella, fire hydrant, stop sign, traffic light."""

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
    frustum,
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

_FABRICS: tuple[Color, ...] = (
    (0.14, 0.22, 0.42),
    (0.55, 0.13, 0.14),
    (0.20, 0.36, 0.26),
    (0.30, 0.31, 0.33),
    (0.82, 0.50, 0.16),
    (0.16, 0.45, 0.50),
    (0.46, 0.30, 0.52),
    (0.52, 0.47, 0.34),
    (0.82, 0.45, 0.52),
    (0.72, 0.62, 0.20),
    (0.10, 0.10, 0.11),
    (0.62, 0.66, 0.70),
)
_LEATHERS: tuple[Color, ...] = ((0.42, 0.24, 0.13), (0.55, 0.34, 0.18), (0.30, 0.16, 0.10), (0.62, 0.46, 0.30))
_PRINTS: tuple[Literal["stripes", "checks", "dots"], ...] = ("stripes", "checks", "dots")
_BLACK = Material((0.06, 0.06, 0.065), roughness=0.6)
_RUBBER = Material((0.05, 0.05, 0.05), roughness=0.85)
_CHROME = Material((0.80, 0.80, 0.82), roughness=0.25, metallic=0.85)
_BRASS = Material((0.82, 0.64, 0.30), roughness=0.3, metallic=0.85)
_GALVANISED = Material((0.62, 0.64, 0.65), roughness=0.5, metallic=0.5)


# ------------------------------------------------------------------------------------------------ materials, helpers
def _varied(rng: Generator, color: Color, amount: float = 0.05) -> Color:
    shade = rng.uniform(-amount, amount)
    r, g, b = (float(np.clip(c + shade + rng.uniform(-0.02, 0.02), 0.02, 0.97)) for c in color)
    return r, g, b


def _standing(pieces: Sequence[Piece], tilt: float = 0.0, axis: str = "y", turn: float = 0.0) -> Model:
    """Tilt the whole by ``tilt`` degrees about ``axis``, turn it about z, and set its lowest point on z = 0."""
    parts = [(m if isinstance(m, Mesh) else merge(m), material) for m, material in pieces]
    if tilt:
        parts = [(m.rotated(axis, tilt), material) for m, material in parts]
    if turn:
        parts = [(m.rotated("z", turn), material) for m, material in parts]
    low = min(float(m.bounds[0][2]) for m, _ in parts)
    return Model(tuple(Part(m.moved(z=-low), material) for m, material in parts))


def _upright(mesh: Mesh) -> Mesh:
    """What was drawn in x, y and made thick in z, turned to look along +x: x to y, y to z, z to x."""
    return mesh.transformed([[0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]])


def _ribbon(path: ArrayLike, width: float, x: float, closed: bool = False) -> Mesh:
    """A flat stroke in the plane x = ``x`` that looks along +x; ``path`` (N, 2) in y, z."""
    p = np.asarray(path, dtype=np.float64)
    ahead, behind = np.roll(p, -1, axis=0) - p, p - np.roll(p, 1, axis=0)
    if not closed:
        ahead[-1], behind[0] = behind[-1], ahead[0]
    a, b = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (ahead, behind))
    middle = a + b
    middle /= np.linalg.norm(middle, axis=1, keepdims=True)
    # Mitred corners: the offset grows with the bend so that the stroke keeps its width.
    reach = width / 2 / np.maximum(np.sum(middle * a, axis=1), 0.5)
    right = np.stack([middle[:, 1], -middle[:, 0]], axis=1) * reach[:, None]
    points = np.zeros((len(p), 2, 3))
    points[..., 0] = x
    points[:, 0, 1:], points[:, 1, 1:] = p - right, p + right
    return grid_surface(points, wrap_rows=closed, smooth=False)


def _strap(path: ArrayLike, width: float, thickness: float, up: Sequence[float] = (0, 1, 0)) -> Mesh:
    """A flat band along a path (N, 3); its width lies along ``up``."""
    p = np.asarray(path, dtype=np.float64)
    return tube(p, np.tile([thickness / 2, width / 2], (len(p), 1)), sides=8, up=up)


# ------------------------------------------------------------------------------------------------------------ backpack
def _backpack(rng: Generator, _state: str) -> Model:
    """A daypack, a rucksack with a flap, or a hiking pack with a rolled mat."""
    kind = pick(rng, ("day", "day", "day", "flap", "hiking"))
    w, d, h = rng.uniform(0.29, 0.34), rng.uniform(0.15, 0.2), rng.uniform(0.42, 0.48)
    if kind == "hiking":
        w, h = w * 0.95, h * 1.12
    color = _varied(rng, pick(rng, _FABRICS))
    fabric = Material(color, roughness=0.9, paintable=True, pattern=_print(rng) if rng.random() < 0.25 else None)
    # A pocket darker or lighter than the body, or alike.
    second = Material(_varied(rng, color, 0.12), roughness=0.9, paintable=True)
    dark = max(color) < 0.25
    trim = Material(
        pick(rng, ((0.35, 0.35, 0.37), (0.55, 0.36, 0.2)))
        if dark
        else pick(rng, ((0.07, 0.07, 0.08), (0.16, 0.13, 0.12))),
        0.85,
    )
    pull = pick(rng, (_CHROME, _BRASS, Material((0.9, 0.5, 0.1), 0.6)))
    body = _sack(w, d, h, 0.8 if kind != "hiking" else 0.88)
    pieces: list[Piece] = [
        (body, fabric),
        (_sack(w * 1.015, d * 1.03, h * 0.16, 1.0, crown=0.02).moved(z=-0.003), trim),
    ]
    straps = []
    for side in (-1, 1):
        y = side * w * 0.24
        back = -d / 2
        arc = spline(
            [
                (back + 0.02, y * 0.75, h * 0.93),
                (back - 0.035, y, h * 0.93),
                (back - 0.065, y * 1.15, h * 0.74),
                (back - 0.06, y * 1.35, h * 0.4),
                (back + 0.01, side * w * 0.4, h * 0.12),
            ],
            16,
        )
        straps.append(_strap(arc, 0.06, 0.022))
    loop = np.linspace(0, math.pi, 10)
    handle = np.stack([np.full(10, -d * 0.25), np.cos(loop) * 0.05, h * 0.955 + np.sin(loop) * 0.055], axis=1)
    straps.append(tube(handle, 0.012, sides=8))
    pieces.append((straps, trim))
    front = d / 2
    if kind == "day":
        pocket_h, pocket_w = h * rng.uniform(0.4, 0.5), w * rng.uniform(0.72, 0.84)
        pocket = _sack(pocket_w, 0.1, pocket_h, 0.9).moved(x=front - 0.005, z=0.035)
        pieces.append((pocket, second if rng.random() < 0.6 else fabric))
        # Zips run over the top of the body and over the pocket.
        zips = [
            _zip(w * 0.9, h * 0.9, 0.0, d * 0.51, 0.5),
            _zip(pocket_w * 0.8, pocket_h * 0.72, 0.035, front + 0.048, 0.45),
        ]
        pieces.append((zips, trim))
        tabs = [box((0.014, 0.016, 0.045), (front + 0.055, pocket_w * 0.27, 0.035 + pocket_h * 0.58))]
        tabs.append(box((0.014, 0.016, 0.045), (front + 0.01, -w * 0.3, h * 0.68)))
        pieces.append((tabs, pull))
        if rng.random() < 0.5:
            label = rounded_box((0.02, 0.06, 0.04), 0.008, (front + 0.05, 0, 0.035 + pocket_h * 0.4), 1)
            pieces.append((label, Material(pick(rng, ((0.92, 0.9, 0.85), (0.9, 0.55, 0.15), (0.75, 0.15, 0.15))), 0.7)))
    else:
        leather = Material(_varied(rng, pick(rng, _LEATHERS)), roughness=0.6)
        flap = _flap(w * 1.03, d, h, rng.uniform(0.3, 0.42))
        pieces.append((flap, second if rng.random() < 0.5 else fabric))
        pocket_h = h * 0.34
        pocket = rounded_box((0.09, w * 0.66, pocket_h), 0.035, (front + 0.02, 0, 0.05 + pocket_h / 2), segments=2)
        pieces.append((pocket, fabric))
        bands, buckles = [], []
        for side in (-1, 1):
            y = side * w * 0.24
            path = [
                (front + 0.03, y, h * 0.86),
                (front + 0.05, y, h * 0.66),
                (front + 0.075, y, h * 0.44),
                (front + 0.078, y, h * 0.2),
            ]
            bands.append(_strap(spline(path, 10), 0.036, 0.014))
            ring = torus(0.024, 0.007, 12, 6).rotated("y", 90)
            buckles.append(ring.moved(front + 0.086, y, h * 0.44))
        pieces += [(bands, leather), (buckles, _BRASS)]
    for side in (-1, 1):
        pocket = (
            _sack(d * 0.62, 0.08, h * 0.34, 0.95, crown=0.1).rotated("z", 90).moved(0, side * (w / 2 - 0.003), 0.02)
        )
        pieces.append((pocket, trim))
        if side == 1 and rng.random() < 0.4:
            bottle = [(0.0, 0.06), (0.036, 0.06), (0.036, 0.26), (0.02, 0.3), (0.02, 0.33), (0.0, 0.33)]
            tint = pick(rng, ((0.55, 0.75, 0.85), (0.85, 0.85, 0.86), (0.3, 0.65, 0.45)))
            pieces.append((lathe(bottle, 12).moved(0, w / 2 + 0.012, 0.0), Material(tint, 0.25)))
    if kind == "hiking":
        r = rng.uniform(0.055, 0.075)
        roll = cylinder(r, w * 1.25, 16, axis="y").moved(-0.01, 0, h + r - 0.01)
        mat = pick(rng, ((0.85, 0.62, 0.15), (0.2, 0.45, 0.65), (0.4, 0.55, 0.25)))
        ties = [
            torus(r + 0.004, 0.009, 16, 6).rotated("x", 90).moved(-0.01, s * w * 0.35, h + r - 0.01) for s in (-1, 1)
        ]
        pieces += [(roll, Material(mat, 0.9)), (ties, trim)]
    return _standing(pieces)


def _print(rng: Generator) -> Pattern:
    kind = pick(rng, _PRINTS)
    return Pattern(
        kind,
        pick(rng, (*_FABRICS, (0.92, 0.9, 0.85))),
        scale=jitter(rng, 0.06, 0.3),
        strength=0.8,
        axis=pick(rng, ("y", "z")),
    )


def _sack(width: float, depth: float, height: float, waist: float, crown: float = 0.32) -> Mesh:
    """A soft bag: rounded section (x depth, y width), narrowing by ``waist`` to a domed top of share ``crown``."""
    t = np.concatenate(
        [
            [0.0, 0.012, 0.05],
            np.linspace(0.15, 1 - crown, 4),
            1 - crown * (1 - np.sin(np.linspace(0.25, math.pi / 2, 7))),
        ]
    )
    dome = np.sqrt(np.clip(1 - (np.clip(t - (1 - crown), 0, crown) / crown) ** 2, 0.0, 1))
    foot = np.clip(0.88 + t * 2.4, 0, 1)
    angle = np.linspace(0, 2 * math.pi, 24, endpoint=False)
    c, s = np.cos(angle), np.sin(angle)
    section = np.stack([np.sign(c) * np.abs(c) ** 0.5, np.sign(s) * np.abs(s) ** 0.5], axis=1)
    across = (1 - (1 - waist) * t**1.5) * foot
    rings = np.zeros((len(t), 24, 3))
    wide = across * (0.25 + 0.75 * dome) if crown > 0.15 else across * (0.85 + 0.15 * dome)
    deep = across * (0.4 + 0.6 * dome) if crown > 0.15 else across * (0.85 + 0.15 * dome)
    rings[..., 0] = section[:, 0] * (depth / 2 * deep)[:, None]
    rings[..., 1] = section[:, 1] * (width / 2 * wide)[:, None]
    rings[..., 2] = (height * t)[:, None]
    return loft(rings)


def _zip(width: float, height: float, low: float, x: float, start: float) -> Mesh:
    """A zip fastener as an arch on the front at ``x``: up one side, over and down the other."""
    angle = np.linspace(0, math.pi, 14)
    y = np.sign(np.cos(angle)) * np.abs(np.cos(angle)) ** 0.6 * width / 2
    z = low + height * (start + (1 - start) * np.sin(angle) ** 0.7)
    return tube(np.stack([np.full(14, x - 0.012), y, z], axis=1), 0.009, sides=6, up=(1, 0, 0))


def _flap(width: float, depth: float, height: float, hang: float) -> Mesh:
    """A lid over the top that hangs down in front by the share ``hang`` of the height."""
    path = spline(
        [
            (-depth * 0.45, height * 0.9),
            (-depth * 0.2, height * 1.0),
            (depth * 0.25, height * 1.0),
            (depth * 0.56, height * 0.9),
            (depth * 0.62, height * (1 - hang)),
        ],
        12,
    )
    v = np.linspace(-1, 1, 9)
    shrink = 1 - 0.1 * np.linspace(-1, 1, 12) ** 4
    points = np.zeros((12, 9, 3))
    points[..., 0] = path[:, :1] - 0.02 * v**4
    points[..., 1] = v * width / 2 * shrink[:, None]
    points[..., 2] = path[:, 1:] - 0.06 * v**2 * np.linspace(1, -0.35, 12)[:, None]
    outer = points
    inner = points - np.array([0.014, 0.0, 0.014])
    return loft(np.concatenate([outer, inner[:, ::-1]], axis=1))


# ------------------------------------------------------------------------------------------------------------ suitcase
def _suitcase(rng: Generator, _state: str) -> Model:
    return _classic_suitcase(rng) if rng.random() < 0.35 else _trolley(rng)


def _trolley(rng: Generator) -> Model:
    """Hard shell on four castors, with grooves and a telescopic handle."""
    w, d, h = rng.uniform(0.38, 0.46), rng.uniform(0.21, 0.27), rng.uniform(0.52, 0.66)
    wheel = rng.uniform(0.032, 0.04)
    base = 2 * wheel + 0.012
    color = _varied(
        rng,
        pick(
            rng,
            (*_FABRICS, (0.75, 0.77, 0.8), (0.86, 0.82, 0.74), (0.9, 0.9, 0.88), (0.3, 0.55, 0.65), (0.9, 0.65, 0.55)),
        ),
    )
    gloss = Material(color, roughness=rng.uniform(0.2, 0.5), paintable=True)
    groove = Material((color[0] * 0.45, color[1] * 0.45, color[2] * 0.45), roughness=0.6)
    grey = Material(pick(rng, ((0.08, 0.08, 0.09), (0.25, 0.25, 0.27), (0.12, 0.12, 0.13))), 0.5)
    middle = base + h / 2
    half = d / 2 - 0.006
    shells = [
        rounded_box((half, w, h), rng.uniform(0.035, 0.06), (s * (d / 4 + 0.003), 0, middle), segments=3)
        for s in (-1, 1)
    ]
    seam = rounded_box((0.035, w * 0.985, h * 0.985), 0.016, (0, 0, middle), segments=2)
    pieces: list[Piece] = [(shells, gloss), (seam, grey)]
    style = pick(rng, ("upright", "upright", "level", "panel", "corners"))
    face = d / 2
    if style == "upright":
        count = pick(rng, (4, 5, 6))
        rib = rounded_box((d + 0.016, w * 0.45 / count, h * 0.84), 0.007, (0, 0, middle), 1)
        ribs = [rib.moved(y=y) for y in np.linspace(-w * 0.36, w * 0.36, count)]
        pieces.append((ribs, gloss))
        lines = [
            box((d + 0.006, 0.009, h * 0.82), (0, y, middle))
            for y in np.linspace(-w * 0.36, w * 0.36, 2 * count - 1)[1::2]
        ]
        pieces.append((lines, groove))
    elif style == "level":
        count = pick(rng, (5, 6, 7))
        lines = [
            box((d + 0.006, w * 0.8, 0.014), (0, 0, z))
            for z in np.linspace(middle - h * 0.36, middle + h * 0.36, count)
        ]
        pieces.append((lines, groove))
    elif style == "panel":
        frame = extrude(rounded_polygon(w * 0.8, h * 0.82, 0.05), 0.008)
        inner = extrude(rounded_polygon(w * 0.72, h * 0.75, 0.04), 0.014)
        front = [_upright(m).moved(face - 0.003, 0, middle) for m in (frame, inner)]
        pieces += [([front[0], front[0].mirrored("x")], groove), ([front[1], front[1].mirrored("x")], gloss)]
    else:
        caps = [
            rounded_box((d + 0.012, 0.075, 0.075), 0.03, (0, sy * (w / 2 - 0.03), middle + sz * (h / 2 - 0.03)), 2)
            for sy in (-1, 1)
            for sz in (-1, 1)
        ]
        lines = [box((d + 0.006, 0.012, h * 0.72), (0, y, middle)) for y in (-w * 0.2, 0.0, w * 0.2)]
        pieces += [(caps, grey), (lines, groove)]
    wheels = cylinder(wheel, 0.018, 14, axis="x")
    wheels = merge([wheels.moved(-0.014, 0, wheel), wheels.moved(0.014, 0, wheel)])
    fork = rounded_box((0.055, 0.05, 0.05), 0.015, (0, 0, base - 0.004), 1)
    rollers, forks = [], []
    for sx in (-1, 1):
        for sy in (-1, 1):
            x, y = sx * (d / 2 - 0.045), sy * (w / 2 - 0.055)
            rollers.append(wheels.moved(x, y))
            forks.append(fork.moved(x, y))
    top = base + h
    extend = rng.uniform(0.22, 0.34) if rng.random() < 0.85 else 0.035
    rear = -d * 0.3
    rods = [tube([(rear, s * w * 0.2, top - 0.02), (rear, s * w * 0.2, top + extend)], 0.013, sides=8) for s in (-1, 1)]
    grip = rounded_box((0.034, w * 0.4 + 0.055, 0.042), 0.016, (rear, 0, top + extend), segments=2)
    socket = rounded_box((0.055, w * 0.4 + 0.07, 0.018), 0.008, (rear, 0, top + 0.004), segments=1)
    arch = spline(
        [(0.03, -0.07, top - 0.005), (0.03, -0.05, top + 0.03), (0.03, 0.05, top + 0.03), (0.03, 0.07, top - 0.005)], 10
    )
    flank = spline(
        [
            (0, w / 2 - 0.005, middle - 0.08),
            (0, w / 2 + 0.03, middle - 0.05),
            (0, w / 2 + 0.03, middle + 0.05),
            (0, w / 2 - 0.005, middle + 0.08),
        ],
        10,
    )
    carry = [tube(arch, 0.013, sides=8), tube(flank, 0.013, sides=8)]
    pieces += [(rollers, _RUBBER), ([*forks, grip, socket, *carry], grey), (rods, _CHROME)]
    return _standing(pieces)


def _classic_suitcase(rng: Generator) -> Model:
    """A flat case of leather or fibre: grip on top, corner caps, locks, straps, perhaps travel stickers."""
    w, d, h = rng.uniform(0.56, 0.68), rng.uniform(0.18, 0.22), rng.uniform(0.4, 0.47)
    hide = Material(
        _varied(
            rng, pick(rng, (*_LEATHERS, (0.5, 0.14, 0.12), (0.16, 0.26, 0.36), (0.28, 0.38, 0.28), (0.78, 0.70, 0.55)))
        ),
        roughness=0.55,
        paintable=True,
    )
    edge = Material(pick(rng, ((0.2, 0.11, 0.06), (0.12, 0.1, 0.09), (0.30, 0.17, 0.09))), 0.6)
    middle = h / 2 + 0.012
    body = rounded_box((d, w, h), 0.045, (0, 0, middle), segments=3)
    seam = [rounded_box((0.018, w + 0.012, h + 0.012), 0.008, (x, 0, middle), 1) for x in (d * 0.12,)]
    caps = [
        rounded_box(
            (d + 0.014, 0.09, 0.09), 0.042, (0, sy * (w / 2 - 0.036), middle + sz * (h / 2 - 0.036)), segments=2
        )
        for sy in (-1, 1)
        for sz in (-1, 1)
    ]
    top = middle + h / 2
    arch = spline(
        [
            (0, -0.1, top - 0.01),
            (0, -0.085, top + 0.05),
            (0, 0, top + 0.065),
            (0, 0.085, top + 0.05),
            (0, 0.1, top - 0.01),
        ],
        14,
    )
    locks = [rounded_box((0.06, 0.06, 0.04), 0.01, (d * 0.12, s * w * 0.3, top - 0.002), 1) for s in (-1, 1)]
    rings = [rounded_box((0.05, 0.03, 0.026), 0.008, (0, s * 0.1, top + 0.008), 1) for s in (-1, 1)]
    pieces: list[Piece] = [(body, hide), ([*seam, *caps, tube(arch, 0.017, sides=8)], edge), ([*locks, *rings], _BRASS)]
    if rng.random() < 0.6:
        at = rng.uniform(0.2, 0.26)
        bands = [rounded_box((d + 0.024, 0.045, h + 0.022), 0.012, (0, s * w * at, middle), 1) for s in (-1, 1)]
        buckles = [
            rounded_box((0.016, 0.065, 0.055), 0.007, (d / 2 + 0.014, s * w * at, middle + h * 0.22), 1)
            for s in (-1, 1)
        ]
        pieces[2] = ([*rings], _BRASS)
        pieces += [(bands, edge), (buckles, _BRASS)]
    if rng.random() < 0.5:
        inks: tuple[Color, ...] = ((0.92, 0.86, 0.7), (0.2, 0.4, 0.6), (0.75, 0.25, 0.18), (0.3, 0.5, 0.35))
        for k, y in enumerate((-0.36, 0.0, 0.36)):
            at_z = middle + rng.uniform(-0.22, 0.22) * h
            if rng.random() < 0.5:
                shape = cylinder(0.05, 0.012, 18, axis="x").moved(d / 2, y * w, at_z)
            else:
                shape = box((0.012, 0.1, 0.07)).rotated("x", rng.uniform(-20, 20)).moved(d / 2, y * w, at_z)
            pieces.append((shape, Material(inks[(k + int(rng.integers(4))) % 4], 0.8)))
    return _standing(pieces)


# ------------------------------------------------------------------------------------------------------------ umbrella
def _umbrella(rng: Generator, state: str) -> Model:
    if state not in ("open", "closed"):
        raise ValueError(f"umbrella: state {state!r} is not known; use 'open' or 'closed'")
    color = _varied(
        rng, pick(rng, (*_FABRICS, (0.8, 0.12, 0.12), (0.9, 0.75, 0.1), (0.2, 0.5, 0.75), (0.88, 0.3, 0.45)))
    )
    grip = pick(
        rng,
        (Material((0.5, 0.28, 0.13), 0.4), Material((0.3, 0.15, 0.08), 0.4), _BLACK, Material((0.78, 0.6, 0.36), 0.5)),
    )
    shaft = pick(rng, (_CHROME, Material((0.2, 0.2, 0.21), 0.4), Material((0.45, 0.27, 0.14), 0.5)))
    return _open_umbrella(rng, color, grip, shaft) if state == "open" else _closed_umbrella(rng, color, grip, shaft)


def _crook(radius: float, thick: float, down: float) -> Mesh:
    """A J handle: from the shaft at the origin ``down`` metres straight, then round and up again."""
    angle = np.linspace(math.pi, 2 * math.pi + 0.35, 14)
    bend = np.stack([radius + radius * np.cos(angle), np.zeros(14), -down + radius * np.sin(angle)], axis=1)
    path = np.concatenate([[(0, 0, 0.0), (0, 0, -down * 0.5)], bend])
    return tube(path, thick, sides=10, round_ends=True, up=(0, 1, 0))


def _open_umbrella(rng: Generator, color: Color, grip: Material, shaft: Material) -> Model:
    panels = pick(rng, (8, 8, 8, 6, 10))
    r, rise = rng.uniform(0.46, 0.56), rng.uniform(0.2, 0.3)
    length = rng.uniform(0.62, 0.74)
    per, rows = 6, 9
    sector = 2 * math.pi / panels
    rim_z = length - rise
    t = np.linspace(0.02, 1, rows)
    f = np.linspace(0, 1, per + 1)
    hollow = 4 * f * (1 - f)  # 0 at the ribs, 1 between them: the cloth sags inwards and its hem is cut in arcs
    chord = np.cos(sector / 2) / np.cos((f - 0.5) * sector)
    rho = t[:, None] * r * (1 + (chord - 1) * t[:, None]) * (1 - 0.07 * hollow * t[:, None] ** 4)
    height = rim_z + rise * (1 - t[:, None] ** 2) ** 0.9 + 0.03 * hollow * t[:, None] ** 2
    height = np.where(t[:, None] > 0.99, rim_z + 0.045 * hollow, height)
    points = np.stack([rho * np.cos(f * sector), rho * np.sin(f * sector), height], axis=-1)
    panel = grid_surface(points[::-1])
    s = np.linspace(0.1, 1.0, 6)
    rib = np.stack([s * r, 0 * s, rim_z + rise * np.maximum(1 - s**2, 0.0) ** 0.9 - 0.008], axis=1)
    stretcher = [(0, 0, length * 0.5), (0.5 * r, 0, rim_z + rise * 0.75)]
    spoke = merge([tube(rib, 0.005, sides=4), tube(stretcher, 0.005, sides=4), sphere(0.012, (r * 1.005, 0, rim_z), 6)])
    cloths = [[panel.rotated("z", k * 360 / panels) for k in range(start, panels, 2)] for start in (0, 1)]
    ribs = [spoke.rotated("z", k * 360 / panels) for k in range(panels)]
    first = Material(color, 0.7, paintable=True)
    style = rng.random()
    if style < 0.3:
        second = Material(_varied(rng, pick(rng, ((0.93, 0.92, 0.9), *_FABRICS))), 0.7, paintable=True)
    elif style < 0.45:
        pattern = Pattern(
            pick(rng, ("dots", "checks")), pick(rng, ((0.93, 0.92, 0.9), (0.1, 0.1, 0.12))), 0.14, 0.9, "x"
        )
        first = second = Material(color, 0.7, paintable=True, pattern=pattern)
    else:
        second = first
    rod = tube([(0, 0, 0), (0, 0, length + 0.03)], 0.012, sides=8)
    runner = cylinder(0.024, 0.07, 10).moved(z=length * 0.5)
    tip = frustum(0.014, 0.006, 0.07, 8).moved(z=length)
    crown = lathe([(0.05, rim_z + rise - 0.002), (0.018, rim_z + rise + 0.02)], 12)
    pieces: list[Piece] = [
        (cloths[0], first),
        (cloths[1], second),
        (ribs, _GALVANISED),
        ([rod, runner], shaft),
        (_crook(0.05, 0.018, 0.13), grip),
        ([tip, crown], _BLACK),
    ]
    turn = rng.uniform(0, 360)
    tilt = rng.uniform(0, 22) if rng.random() < 0.75 else rng.uniform(28, 55)
    # It leans away from +x, so that the canopy, not its hollow, is shown to whoever the model faces.
    spun = [(merge([m] if isinstance(m, Mesh) else list(m)).rotated("z", turn), material) for m, material in pieces]
    return _standing(spun, tilt, "y")


def _closed_umbrella(rng: Generator, color: Color, grip: Material, shaft: Material) -> Model:
    """Rolled up and standing on its tip, handle on top, leaning a little."""
    length, wide = rng.uniform(0.5, 0.58), rng.uniform(0.075, 0.095)
    loose = rng.random() < 0.5
    panels = 8
    n = panels * 5
    angle = np.linspace(0, 2 * math.pi, n, endpoint=False)
    t = np.linspace(0, 1, 14)
    # Radius from the tip (t = 0) to the hem; a tie draws the roll together.
    body = wide * (0.16 + 0.84 * t**0.75)
    if not loose:
        body *= 1 - 0.32 * np.exp(-(((t - 0.72) / 0.07) ** 2))
    pleat = (angle / (2 * math.pi) * panels) % 1.0
    depth = 0.3 if loose else 0.2
    rings = np.zeros((14, n, 3))
    twist = rng.uniform(0.4, 0.9)
    for k in range(14):
        ripple = 1 - depth * t[k] ** 0.5 * pleat
        rings[k, :, 0] = np.cos(angle + twist * t[k]) * body[k] * ripple
        rings[k, :, 1] = np.sin(angle + twist * t[k]) * body[k] * ripple
        rings[k, :, 2] = 0.07 + length * t[k] + 0.03 * t[k] ** 8 * np.where(pleat < 0.5, -1.0, 0.4)
    cloth = Material(
        color,
        0.75,
        paintable=True,
        pattern=Pattern("stripes", pick(rng, ((0.93, 0.92, 0.9), *_FABRICS)), 0.12, 0.9, "z")
        if rng.random() < 0.2
        else None,
    )
    top = 0.07 + length
    tie = torus(wide * 0.66 + 0.006, 0.011, 20, 6).moved(z=0.07 + length * 0.72)
    snap = sphere(0.02, (wide * 0.7, 0, 0.07 + length * 0.72), 8)
    ends = [
        sphere(0.01, (math.cos(a) * wide * 0.6, math.sin(a) * wide * 0.6, top + 0.02), 6)
        for a in np.arange(panels) * 2 * math.pi / panels
    ]
    rod = tube([(0, 0, 0.05), (0, 0, top + 0.13)], 0.014, sides=8)
    handle = _crook(rng.uniform(0.055, 0.065), 0.021, 0.12).rotated("x", 180).moved(z=top + 0.12)
    ferrule = frustum(0.009, 0.016, 0.09, 8)
    pieces: list[Piece] = [
        (loft(rings), cloth),
        ([rod], shaft),
        (handle, grip),
        (ferrule, _BLACK),
        (ends, _GALVANISED),
    ]
    if not loose:
        pieces += [(tie, _BLACK), (snap, _CHROME)]
    return _standing(pieces, rng.uniform(4, 24), pick(rng, ("x", "y", "y")), rng.uniform(-30, 30))


# -------------------------------------------------------------------------------------------------------- fire hydrant
def _fire_hydrant(rng: Generator, _state: str) -> Model:
    r, h = rng.uniform(0.115, 0.14), rng.uniform(0.62, 0.76)
    natural: tuple[Color, ...] = (
        (0.72, 0.10, 0.08),
        (0.80, 0.14, 0.10),
        (0.90, 0.70, 0.10),
        (0.86, 0.86, 0.84),
        (0.15, 0.32, 0.60),
        (0.85, 0.42, 0.10),
        (0.55, 0.57, 0.58),
        (0.20, 0.45, 0.28),
    )
    coat = Material(_varied(rng, pick(rng, natural)), rng.uniform(0.3, 0.6), paintable=True)
    accents: tuple[Color, ...] = (
        (0.16, 0.17, 0.18),
        (0.85, 0.85, 0.83),
        (0.78, 0.79, 0.8),
        (0.2, 0.3, 0.55),
        (0.9, 0.75, 0.15),
    )
    cap = Material(
        pick(rng, [a for a in accents if max(abs(p - q) for p, q in zip(a, coat.color, strict=True)) > 0.3]), 0.45
    )
    iron = Material(pick(rng, ((0.2, 0.2, 0.21), (0.3, 0.3, 0.31))), 0.6)
    neck, shoulder = h * 0.72, h * 0.75
    flare = jitter(rng, 1.45, 0.06)
    barrel = lathe(
        [
            *[(0.0, 0.0), (r * flare, 0.0), (r * flare, 0.0), (r * flare, 0.045), (r * flare, 0.045)],
            *[(r * 1.05, 0.06), (r, 0.1), (r * 0.97, neck - 0.04), (r * 1.05, neck - 0.012), (r * 1.05, neck - 0.012)],
            *[
                (r * 1.32, neck),
                (r * 1.32, neck),
                (r * 1.32, shoulder),
                (r * 1.32, shoulder),
                (r * 1.1, shoulder + 0.004),
            ],
        ],
        24,
    )
    ribs = []
    if rng.random() < 0.4:
        ribs = [box((0.018, 0.03, neck - 0.2), (r * 0.98, 0, neck / 2)).rotated("z", 22.5 + 45 * k) for k in range(8)]
    band = torus(r * 1.02, 0.016, 24, 6).moved(z=h * 0.18)
    dome = h - shoulder - 0.05
    peak = pick(rng, (0.7, 1.0, 1.5))
    a = np.linspace(0, math.pi / 2, 8)
    bonnet = lathe(
        [
            *(np.stack([r * 1.14 * np.cos(a) ** peak, shoulder + 0.002 + dome * np.sin(a)], axis=1)),
            (0.0, shoulder + dome),
        ],
        24,
    )
    crease = np.stack([r * 1.17 * np.cos(a[:-1]) ** peak, 0 * a[:-1], shoulder + 0.004 + dome * np.sin(a[:-1])], axis=1)
    groove = tube(crease, 0.012, sides=6, up=(0, 1, 0))
    grooves = [groove.rotated("z", 60 * k) for k in range(6)]
    hexagon = cylinder(0.036, 0.06, 6).moved(z=h - 0.025)
    collar = cylinder(0.055, 0.025, 16).moved(z=shoulder + dome + 0.002)
    bolt = cylinder(0.014, 0.03, 6)
    bolts = [
        bolt.moved(math.cos(k * math.pi / 4) * rr, math.sin(k * math.pi / 4) * rr, z)
        for rr, z in ((r * 1.24, shoulder + 0.012), (r * 1.28, 0.058))
        for k in range(8)
    ]

    def outlet(radius: float, reach: float) -> tuple[Mesh, Mesh]:
        """A branch along +x with its screwed cap and square nut."""
        branch = merge(
            [
                cylinder(radius * 0.9, reach, 16, axis="x").moved(reach / 2),
                cylinder(radius * 1.12, 0.02, 16, axis="x").moved(reach * 0.62),
            ]
        )
        lid = merge(
            [
                cylinder(radius * 1.15, 0.05, 8, axis="x").moved(reach + 0.02),
                cylinder(radius * 0.85, 0.02, 16, axis="x").moved(reach + 0.05),
                cylinder(0.026, 0.045, 5, axis="x").moved(reach + 0.075),
            ]
        )
        return branch, lid

    level = h * rng.uniform(0.52, 0.58)
    hose = outlet(r * 0.48, r * 1.35)
    pump = outlet(r * 0.66, r * 1.4)
    branches, lids = [pump[0].moved(z=level - 0.03)], [pump[1].moved(z=level - 0.03)]
    for side in (-90, 90):
        branches.append(hose[0].rotated("z", side).moved(z=level + 0.02))
        lids.append(hose[1].rotated("z", side).moved(z=level + 0.02))
    chains = []
    for side in (-1, 1):
        sag = spline(
            [
                (r * 0.5, side * r * 0.8, level + 0.06),
                (r * 0.75, side * r * 1.2, level - 0.08),
                (r * 0.3, side * (r * 1.5), level - 0.02),
            ],
            10,
        )
        chains += [tube(sag, 0.008, sides=5)]
    bonnet_coat = cap if rng.random() < 0.35 else coat
    pieces: list[Piece] = [
        ([barrel, band, *branches, *ribs], coat),
        ([bonnet, *grooves], bonnet_coat),
        (lids, cap),
        ([hexagon, collar], cap),
        ([*bolts, *chains], iron),
    ]
    return _standing(pieces)


# ----------------------------------------------------------------------------------------------------------- stop sign
def _octagon(apothem: float) -> NDArray[np.float64]:
    a = math.pi / 8 + np.arange(8) * math.pi / 4
    return np.stack([np.cos(a), np.sin(a)], axis=1) * apothem / math.cos(math.pi / 8)


def _letters(height: float, stroke: float, x: float) -> list[Mesh]:
    """STOP, centred on the origin, as strokes that look along +x; the viewer's right is +y."""
    w, gap = height * 0.52, height * 0.2
    h, half, r = height / 2 - stroke / 2, w / 2 - stroke / 2, w / 2 - stroke / 2
    turn = np.linspace(0, math.pi, 9)[1:-1]
    upper = np.stack([r * np.cos(turn), h - r + r * np.sin(turn)], axis=1)
    o = np.concatenate([[(half, h - r)], upper, [(-half, h - r), (-half, r - h)], -upper, [(half, r - h)]])
    # The S: from its upper right round the top bowl, down through the middle and round the lower bowl.
    b = h / 2
    top = np.linspace(0.35, 1.5 * math.pi, 10)
    s_upper = np.stack([half * np.cos(top), b + b * np.sin(top)], axis=1)
    s = np.concatenate([s_upper[:-1], [(0.0, 0.0)], -s_upper[-2::-1]])
    t_bar, t_stem = [(-w / 2, h), (w / 2, h)], [(0.0, h), (0.0, -height / 2)]
    bowl = np.linspace(math.pi / 2, -math.pi / 2, 8)
    low = h - 2 * (height * 0.27)
    mid, rad = (h + low) / 2, (h - low) / 2
    p_bowl = np.concatenate(
        [
            [(-half, h)],
            np.stack([half - rad * 0.9 + rad * 0.9 * np.cos(bowl), mid + rad * np.sin(bowl)], axis=1),
            [(-half, low)],
        ]
    )
    p_stem = [(-half, height / 2), (-half, -height / 2)]
    strokes: tuple[tuple[tuple[ArrayLike, bool], ...], ...] = (
        ((s, False),),
        ((t_bar, False), (t_stem, False)),
        ((o, True),),
        ((p_bowl, False), (p_stem, False)),
    )
    step = w + gap
    meshes = []
    for k, letter in enumerate(strokes):
        for depth, (path, closed) in enumerate(letter):
            # Strokes of one letter overlap; a hair's breadth between them keeps their faces from coinciding.
            meshes.append(
                _ribbon(np.asarray(path) + np.array([(k - 1.5) * step, 0.0]), stroke, x + 0.001 * depth, closed)
            )
    return meshes


def _stop_sign(rng: Generator, _state: str) -> Model:
    apothem = rng.uniform(0.38, 0.42)
    centre = apothem + rng.uniform(0.75, 1.05)
    red = _varied(rng, pick(rng, ((0.72, 0.08, 0.09), (0.80, 0.10, 0.10), (0.62, 0.10, 0.10))), 0.03)
    plate = Material(red, rng.uniform(0.35, 0.6), paintable=True)
    white = Material((0.95, 0.95, 0.93), roughness=0.5)
    dark = Material((0.25, 0.03, 0.04), roughness=0.6)
    back = Material((0.55, 0.56, 0.57), roughness=0.5, metallic=0.4)

    def layer(a: float, thick: float, x: float) -> Mesh:
        return _upright(extrude(_octagon(a), thick)).moved(x, 0, centre)

    height, stroke = apothem * 0.66, apothem * 0.125
    outline = apothem * 0.105
    pieces: list[Piece] = [
        (layer(apothem, 0.012, 0.0), back),
        (layer(apothem + 0.006, 0.012, 0.008), dark),
        (layer(apothem - 0.008, 0.006, 0.02), white),
        # A thin dark line parts plate and rim, whatever the paint.
        (layer(apothem - 0.04, 0.006, 0.024), dark),
        (layer(apothem - 0.052, 0.006, 0.028), plate),
        ([m.moved(z=centre) for m in _letters(height, stroke + outline, 0.039)], dark),
        ([m.moved(z=centre) for m in _letters(height, stroke, 0.044)], white),
    ]
    wood = rng.random() < 0.25
    thick = 0.09 if wood else rng.uniform(0.055, 0.07)
    tall = centre + apothem * rng.uniform(0.75, 0.98)
    if wood:
        post = box((thick, thick, tall), (-thick / 2 - 0.003, 0, tall / 2))
        stuff = Material((0.45, 0.33, 0.22), 0.9, pattern=Pattern("wood", (0.35, 0.25, 0.16), 0.05))
    elif rng.random() < 0.5:
        post = cylinder(thick / 2, tall, 14).moved(-thick / 2 - 0.003, 0, tall / 2)
        stuff = pick(rng, (_GALVANISED, Material((0.2, 0.3, 0.22), 0.5), Material((0.8, 0.8, 0.78), 0.5)))
    else:
        # A channel of folded steel.
        post = merge(
            [
                box((0.012, thick, tall), (-0.05, 0, tall / 2)),
                *(box((0.045, 0.012, tall), (-0.0255, s * thick / 2, tall / 2)) for s in (-1, 1)),
            ]
        )
        stuff = pick(rng, (_GALVANISED, Material((0.25, 0.38, 0.27), 0.6)))
    clamps = [box((0.03, 0.14, 0.04), (-0.016, 0, centre + s * apothem * 0.5)) for s in (-1, 1)]
    bolts = [cylinder(0.016, 0.012, 8, axis="x").moved(0.036, 0, centre + s * apothem * 0.72) for s in (-1, 1)]
    pieces += [(post, stuff), (clamps, back), (bolts, _GALVANISED)]
    if rng.random() < 0.4:
        pieces.append((cylinder(0.1, 0.05, 16).moved(-thick / 2, 0, 0.025), Material((0.6, 0.6, 0.58), 0.95)))
    return _standing(pieces)


# ------------------------------------------------------------------------------------------------------- traffic light
def _traffic_light(rng: Generator, _state: str) -> Model:
    """Three lamps in a housing, one of them lit: on a post, two heads on a post, or hung from an arm."""
    lamp, lit = rng.uniform(0.105, 0.12), int(rng.integers(3))
    height, width, depth = lamp * 8.6, lamp * 3.1, rng.uniform(0.2, 0.26)
    coat = Material(
        _varied(
            rng,
            pick(
                rng,
                (
                    (0.10, 0.11, 0.11),
                    (0.14, 0.15, 0.15),
                    (0.88, 0.66, 0.08),
                    (0.88, 0.66, 0.08),
                    (0.12, 0.26, 0.19),
                    (0.32, 0.34, 0.35),
                ),
            ),
            0.03,
        ),
        0.5,
        paintable=True,
    )
    head = _signal_head(rng, lamp, height, width, depth, lit, coat)
    steel = pick(
        rng,
        (
            _GALVANISED,
            Material((0.16, 0.17, 0.17), 0.5),
            Material((0.2, 0.32, 0.25), 0.5),
            Material((0.85, 0.68, 0.12), 0.5),
        ),
    )
    style = pick(rng, ("post", "post", "post", "double", "arm"))
    thick = rng.uniform(0.055, 0.07)
    pieces: list[Piece]
    if style == "arm":
        # The head hangs beside its post.
        low, side = rng.uniform(0.5, 0.8), pick(rng, (-1, 1))
        top, out = low + height + 0.14, side * (width / 2 + 0.24)
        post = [
            cylinder(thick, top + 0.1, 14).moved(-depth / 2, out, (top + 0.1) / 2),
            cylinder(0.16, 0.05, 16).moved(-depth / 2, out, 0.025),
        ]
        arm = tube([(-depth / 2, out, top), (-depth / 2, -side * 0.08, top)], 0.042, sides=10)
        hanger = cylinder(0.03, 0.16, 10).moved(-depth / 2, 0, top - 0.06)
        brace = tube([(-depth / 2, out, top - 0.22), (-depth / 2, out - side * 0.24, top - 0.01)], 0.022, sides=8)
        pieces = [(_moved(m, 0, 0, low), material) for m, material in head]
        pieces.append(([*post, arm, hanger, brace, sphere(thick * 1.05, (-depth / 2, out, top + 0.1), 12)], steel))
        return _standing(pieces)
    low = rng.uniform(0.5, 0.85)
    total = low + height
    axis = -depth - thick - 0.06
    pieces = [(_moved(m, 0, 0, low), material) for m, material in head]
    stub = [
        cylinder(0.03, abs(axis), 10, axis="x").moved(axis / 2 - depth / 2, 0, low + height * k) for k in (0.12, 0.88)
    ]
    if style == "double":
        # A second head at a right angle on the same post.
        other = _signal_head(rng, lamp, height, width, depth, 2 - lit, coat)
        for m, material in other:
            turned = _moved(m, -axis, 0, low).rotated("z", 90)
            pieces.append((turned.moved(x=axis), material))
        stub += [m.moved(-axis).rotated("z", 90).moved(axis) for m in stub]
    post = [
        cylinder(thick, total + 0.06, 14).moved(axis, 0, (total + 0.06) / 2),
        sphere(thick, (axis, 0, total + 0.06), 12),
    ]
    foot = lathe(
        [(0.0, 0.0), (0.17, 0.0), (0.17, 0.0), (0.17, 0.04), (0.17, 0.04), (0.1, 0.07), (thick * 1.1, 0.16)], 16
    ).moved(axis)
    pieces.append(([*post, foot, *stub], steel))
    if rng.random() < 0.35:
        button = rounded_box((0.08, 0.11, 0.17), 0.02, (axis + thick + 0.02, 0, low * 0.7), 1)
        pieces += [
            (button, Material((0.9, 0.72, 0.1), 0.5)),
            (cylinder(0.03, 0.02, 12, axis="x").moved(axis + thick + 0.066, 0, low * 0.68), _BLACK),
        ]
    return _standing(pieces)


def _moved(mesh: Mesh | Sequence[Mesh], x: float, y: float, z: float) -> Mesh:
    return merge([mesh] if isinstance(mesh, Mesh) else list(mesh)).moved(x, y, z)


def _signal_head(
    rng: Generator, lamp: float, height: float, width: float, depth: float, lit: int, coat: Material
) -> list[Piece]:
    """A housing from z = 0 up, its face at x = 0, red on top; ``lit`` 0 is red, 2 is green."""
    plain = rng.random() < 0.6
    bodies = [
        rounded_box((depth, width, height / 3 - 0.008), 0.03, (-depth / 2, 0, height * (k + 0.5) / 3), segments=2)
        for k in range(3)
    ]
    core = box((depth * 0.8, width * 0.9, height * 0.97), (-depth / 2, 0, height / 2))
    pieces: list[Piece] = [(bodies, coat), (core, _BLACK)]
    if not plain:
        board = _upright(extrude(rounded_polygon(width * 1.65, height * 1.13, 0.07), 0.014)).moved(
            -depth * 0.55, 0, height / 2
        )
        border = _upright(extrude(rounded_polygon(width * 1.65 + 0.05, height * 1.13 + 0.05, 0.08), 0.012)).moved(
            -depth * 0.55 - 0.006, 0, height / 2
        )
        pieces += [
            (board, Material(coat.color, 0.6, paintable=True)),
            (border, Material(pick(rng, ((0.9, 0.9, 0.88), (0.9, 0.75, 0.15))), 0.5)),
        ]
    colors: tuple[Color, ...] = ((0.95, 0.08, 0.05), (1.0, 0.62, 0.05), (0.05, 0.85, 0.35))
    discs, visors = [], []
    reach = lamp * rng.uniform(1.3, 1.7)
    full = rng.random() < 0.4
    for k, color in enumerate(colors):
        z = height * (2.5 - k) / 3
        lens = ellipsoid((0.03, lamp, lamp), (0.012, 0, z), 16)
        # An unlit lens still shows its tint: that is how one tells the three apart.
        dim = (color[0] * 0.4 + 0.03, color[1] * 0.4 + 0.03, color[2] * 0.4 + 0.03)
        pieces.append((lens, Material(color, 0.3, emission=1.6) if k == lit else Material(dim, 0.3)))
        discs.append(cylinder(lamp * 1.18, 0.012, 20, axis="x").moved(0.003, 0, z))
        # The visor: a tube sheared off from below.
        span = (
            np.linspace(-0.32 * math.pi, 1.32 * math.pi, 19)
            if full
            else np.linspace(-0.08 * math.pi, 1.08 * math.pi, 19)
        )
        edge = reach * (0.35 + 0.65 * np.clip((np.sin(span) + 0.75) / 1.5, 0, 1))
        rings = []
        for radius in (lamp * 1.16, lamp * 1.06):
            y, up = np.cos(span) * radius, z + np.sin(span) * radius
            rings.append((np.stack([0 * y, y, up], axis=1), np.stack([edge, y, up], axis=1)))
        (back_out, front_out), (back_in, front_in) = rings
        visors.append(grid_surface(np.array([back_out, front_out, front_in, back_in]), smooth=False))
    pieces.append(([*discs, *visors], _BLACK))
    return pieces


ASSETS: tuple[Asset, ...] = (
    Asset("backpack", _backpack, size=0.9),
    # Edge on, a case is a narrow slab.
    Asset("suitcase", _suitcase, views=((20.0, 160.0), (200.0, 340.0)), size=0.95),
    Asset("umbrella", _umbrella, states=("open", "closed")),
    Asset("fire hydrant", _fire_hydrant, size=0.95),
    Asset("stop sign", _stop_sign, views=((225.0, 315.0),), size=1.1),
    Asset("traffic light", _traffic_light, views=((222.0, 318.0),), size=1.1),
)
