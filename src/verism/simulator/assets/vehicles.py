"""Vehicles: airplane, bicycle, boat, bus, car, skateboard, train and van.

Bodies are drawn as a shipwright draws a hull: a table of stations along the length, each with a few heights and half
widths, and a skin over them. Panes, doors and lamps are cells of that skin, so they follow every curve of it and can
never fight with the paint for the same depth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verism.simulator.model import Asset, Color, Material, Model, Pattern, jitter, pick
from verism.simulator.shapes import (
    Mesh,
    box,
    capsule,
    cylinder,
    ellipsoid,
    extrude,
    frustum,
    grid_surface,
    lathe,
    loft,
    merge,
    rounded_box,
    sphere,
    spline,
    torus,
    tube,
)

__all__ = ["ASSETS"]

Rng = np.random.Generator
Floats = NDArray[np.float64]
Parts = list[tuple[Mesh | Sequence[Mesh], Material]]

RUBBER = Material((0.06, 0.06, 0.065), roughness=0.9)
BLACK = Material((0.05, 0.05, 0.055), roughness=0.6)
TRIM = Material((0.13, 0.13, 0.14), roughness=0.7)
CHROME = Material((0.86, 0.87, 0.89), roughness=0.2, metallic=0.9)
STEEL = Material((0.52, 0.53, 0.55), roughness=0.4, metallic=0.7)
HEADLIGHT = Material((1.0, 0.97, 0.88), roughness=0.15, emission=0.5)
TAILLIGHT = Material((0.80, 0.04, 0.04), roughness=0.25, emission=0.25)
INDICATOR = Material((1.0, 0.55, 0.08), roughness=0.25, emission=0.2)
PLATE = Material((0.93, 0.93, 0.88), roughness=0.5)
GLASSES: tuple[Color, ...] = ((0.07, 0.10, 0.13), (0.11, 0.16, 0.20), (0.16, 0.24, 0.29), (0.05, 0.06, 0.07))
CAR_PAINTS: tuple[Color, ...] = (
    (0.90, 0.90, 0.89),
    (0.66, 0.68, 0.70),
    (0.30, 0.32, 0.35),
    (0.08, 0.08, 0.09),
    (0.70, 0.06, 0.08),
    (0.42, 0.05, 0.09),
    (0.10, 0.22, 0.55),
    (0.20, 0.50, 0.80),
    (0.07, 0.30, 0.20),
    (0.45, 0.58, 0.42),
    (0.95, 0.76, 0.12),
    (0.92, 0.42, 0.08),
    (0.80, 0.74, 0.60),
    (0.38, 0.26, 0.18),
    (0.35, 0.72, 0.72),
)
BRIGHTS: tuple[Color, ...] = (
    (0.82, 0.10, 0.10),
    (0.93, 0.48, 0.08),
    (0.96, 0.80, 0.12),
    (0.15, 0.55, 0.25),
    (0.10, 0.55, 0.60),
    (0.12, 0.30, 0.70),
    (0.30, 0.65, 0.90),
    (0.48, 0.20, 0.60),
    (0.90, 0.35, 0.55),
)


# ---------------------------------------------------------------------------------------------------- building blocks
def _paint(color: Color, roughness: float = 0.3, pattern: Pattern | None = None) -> Material:
    return Material(color, roughness=roughness, paintable=True, pattern=pattern)


def _glass(rng: Rng) -> Material:
    return Material(pick(rng, GLASSES), roughness=0.1)


def _shade(color: Color, factor: float) -> Color:
    """A darker (< 1) or lighter (> 1) version of a colour."""
    r, g, b = (min(1.0, max(0.0, c * factor)) for c in color)
    return (r, g, b)


def _split(points: Floats, labels: NDArray[np.str_], *, wrap: bool = False) -> dict[str, Mesh]:
    """A smooth skin through points (R, C, 3), with a mesh for each label of its cells, (R - 1, C - 1 or C)."""
    skin = grid_surface(points, wrap_cols=wrap)
    flat = np.tile(labels.ravel(), 2)  # the skin lists the first triangle of every cell, then the second ones
    if len(flat) != len(skin):
        raise ValueError(f"a skin of {labels.shape} cells has {len(skin)} triangles: some cells have no area")
    return {str(k): Mesh(skin.triangles[flat == k], skin.normals[flat == k]) for k in np.unique(flat)}


def _rows(wanted: Sequence[Floats], first: float, last: float, least: float) -> Floats:
    """Sorted positions from ``first`` to ``last``, both included, with no two nearer than ``least``."""
    x: Floats = np.unique(np.clip(np.concatenate(wanted), first, last))
    x = x[np.concatenate([[True], np.diff(x) > least])]
    x[-1] = last
    return x


class Station(NamedTuple):
    """One cross-section of a body, in metres: heights and half widths, from the sill to the top."""

    x: float
    sill: float
    side: float  # half width at the waist
    belt: float  # height of the belt line, below the panes
    belt_half: float
    top: float
    top_half: float


class Arch(NamedTuple):
    """A wheel arch cut into the sill."""

    x: float
    z: float
    radius: float


class Zone(NamedTuple):
    """A rectangle of the skin in its own material: from ``start`` to ``end`` along x, columns ``low`` to ``high``.

    Columns count from the sill (0) over the belt (4), the panes' lower and upper edge (5, 6) and the edge of the roof
    (7) to the middle of the top (10). ``side`` is 1 for the left (+y) only, -1 for the right only, 0 for both.
    """

    label: str
    start: float
    end: float
    low: int
    high: int
    side: int = 0


def _body(
    stations: Sequence[Station],
    zones: Sequence[Zone] = (),
    arches: Sequence[Arch] = (),
    *,
    tub: tuple[float, float, float] | None = None,
    step: float = 0.4,
) -> dict[str, Mesh]:
    """The skin over stations (rear to front), a mesh each for ``body``, ``under``, ``front``, ``rear`` and every zone.

    ``tub`` = (start, end, floor height) hollows the top out: a pick-up's bed, a convertible's cabin.
    """
    table = np.array(stations, dtype=np.float64)
    xs = [table[:, 0]]
    xs += [np.array([z.start, z.end]) for z in zones]
    for arch in arches:
        angle = np.linspace(0, math.pi, 11)
        opening = arch.x + arch.radius * np.cos(angle)
        xs.append(np.concatenate([opening, [arch.x - arch.radius - 2e-3, arch.x + arch.radius + 2e-3]]))
    if tub is not None:
        xs.append(np.array([tub[0], tub[0] + 0.02, tub[1] - 0.02, tub[1]]))
    x = _rows(xs, float(table[0, 0]), float(table[-1, 0]), 1e-3)
    fill = [
        np.linspace(a, b, int((b - a) / step) + 2)[1:-1] for a, b in zip(x[:-1], x[1:], strict=True) if b - a > step
    ]
    x = np.sort(np.concatenate([x, *fill]))
    sill, side, belt, belt_half, top, top_half = (np.interp(x, table[:, 0], table[:, k]) for k in range(1, 7))
    for arch in arches:
        beneath = np.abs(x - arch.x) <= arch.radius + 1e-3
        rise = np.sqrt(np.maximum(arch.radius**2 - (x - arch.x) ** 2, 0))
        sill = np.where(beneath, np.maximum(sill, arch.z + rise), sill)
    wall, pane = belt - sill, top - belt
    edge = belt + 0.93 * pane
    lean = top_half - belt_half
    half = np.stack(
        [
            np.stack([0.955 * side, sill], 1),
            np.stack([0.99 * side, sill + 0.22 * wall], 1),
            np.stack([side, sill + 0.55 * wall], 1),
            np.stack([0.985 * side, sill + 0.86 * wall], 1),
            np.stack([belt_half, belt], 1),
            np.stack([belt_half + 0.06 * lean, belt + 0.07 * (edge - belt)], 1),
            np.stack([belt_half + 0.82 * lean, belt + 0.88 * (edge - belt)], 1),
            np.stack([top_half, edge], 1),
            np.stack([0.92 * top_half, belt + 0.975 * pane], 1),
            np.stack([0.5 * top_half, belt + 0.995 * pane], 1),
            np.stack([0 * top_half, top], 1),
        ],
        axis=1,
    )
    if tub is not None:
        inside = (x > tub[0] + 0.01) & (x < tub[1] - 0.01)
        for column, (inset, hollow) in {5: (0.05, 0), 6: (0.08, 1), 7: (0.12, 1), 8: (0.2, 1)}.items():
            half[inside, column, 0] = belt_half[inside] - inset
            half[inside, column, 1] = tub[2] if hollow else belt[inside]
        half[inside, 9:, 1] = tub[2]
    left = np.concatenate([np.broadcast_to(x[:, None, None], (*half.shape[:2], 1)), half], axis=2)
    right = left[:, -2::-1] * (1.0, -1.0, 1.0)
    points = np.concatenate([left, right], axis=1)
    middle = (x[:-1] + x[1:]) / 2
    labels = np.full((len(x) - 1, 20), "body", dtype="<U12")
    for zone in zones:
        rows = (middle > zone.start) & (middle < zone.end)
        if zone.side >= 0:
            labels[rows, zone.low : zone.high] = zone.label
        if zone.side <= 0:
            labels[rows, 20 - zone.high : 20 - zone.low] = zone.label
    meshes = _split(points, labels)
    meshes["under"] = grid_surface(points[:, [-1, 0]], smooth=False)
    for name, ring, order in (("front", points[-1], 1), ("rear", points[0], -1)):
        centre = np.broadcast_to(ring.mean(axis=0), ring.shape)
        meshes[name] = grid_surface(np.stack([ring, centre][::order]), wrap_cols=True, smooth=False)
    return meshes


def _dress(meshes: dict[str, Mesh], materials: dict[str, Material]) -> Parts:
    """Pairs for ``Model.of``; what has no material of its own is body."""
    return [(mesh, materials.get(name, materials["body"])) for name, mesh in meshes.items()]


def _wheel(rng: Rng, radius: float, width: float, rim: Material, spokes: int) -> list[tuple[Mesh, Material]]:
    """A wheel about the origin with its axle along y, alike on both sides. ``spokes`` 0 makes a dished disc."""
    r, h = radius, width / 2
    tread = [(0.60 * r, -h), (0.60 * r, -h), (0.9 * r, -h), (r, -0.6 * h), (r, 0.6 * h), (0.9 * r, h), (0.60 * r, h)]
    tyre = lathe(tread, 20)
    if spokes:
        arms = [
            box((0.50 * r, 0.16 * r, 1.92 * h), (0.33 * r, 0, 0)).rotated("z", 360 * k / spokes) for k in range(spokes)
        ]
        metal = merge([*arms, _cylinder(0.17 * r, 2.1 * h, 10), *_hoop(0.61 * r, 0.06 * r, h)])
        back = _cylinder(0.58 * r, 1.7 * h, 14)
    else:
        metal = lathe([(0, -0.7 * h), (0.3 * r, -0.7 * h), (0.61 * r, -1.03 * h)], 16)
        metal = merge([metal.mirrored("z"), metal, _cylinder(0.2 * r, 1.8 * h, 10)])
        back = _cylinder(0.15 * r, 2.0 * h, 10)
    dark = Material(_shade(rim.color, 0.25), roughness=0.7)
    turn = float(rng.uniform(0, 360))
    return [(m.rotated("z", turn).rotated("x", 90), s) for m, s in ((tyre, RUBBER), (metal, rim), (back, dark))]


def _hoop(radius: float, thickness: float, h: float) -> list[Mesh]:
    return [torus(radius, thickness, 16, 4).moved(z=z) for z in (-h, h)]


def _at(parts: Sequence[tuple[Mesh, Material]], places: Sequence[tuple[float, float, float]]) -> Parts:
    """Copies of something at several places."""
    return [([mesh.moved(*position) for position in places], material) for mesh, material in parts]


def _wing(
    root: tuple[float, float, float], tip: tuple[float, float, float], chords: tuple[float, float], thick: float
) -> Mesh:
    """A tapering wing or fin between two leading points (its chord runs towards -x), of lens-like section."""
    a, b = np.asarray(root, dtype=np.float64), np.asarray(tip, dtype=np.float64)
    span = (b - a) * (0.0, 1.0, 1.0)
    up = np.cross(span / np.linalg.norm(span), (-1.0, 0.0, 0.0))
    along = np.array([0.0, 0.08, 0.3, 0.65, 1.0, 0.65, 0.3, 0.08])
    height = np.array([0.0, -0.25, -0.4, -0.30, -0.03, 0.36, 0.5, 0.30])  # along the belly and back over the top
    rings = []
    for f in (0.0, 0.5, 0.96, 1.0):
        chord = (chords[0] * (1 - f) + chords[1] * f) * (0.86 if f == 1.0 else 1.0)
        lead = a * (1 - f) + b * f - np.array([0.07 * chord if f == 1.0 else 0.0, 0, 0])
        t = thick * chord * (0.5 if f == 1.0 else 1.0)
        rings.append(lead + along[:, None] * (-chord, 0.0, 0.0) + height[:, None] * t * up)
    return loft(np.array(rings))


def _vec(x: float, y: float, z: float) -> Floats:
    return np.array([x, y, z], dtype=np.float64)


@lru_cache(maxsize=32)
def _unit_cylinder(segments: int) -> Mesh:
    return cylinder(1.0, 1.0, segments)


def _cylinder(radius: float, height: float, segments: int = 16, *, axis: str = "z") -> Mesh:
    """``shapes.cylinder`` as a copy of one made before: vehicles are full of axles, wheels and rods."""
    order = {"x": (2, 0, 1), "y": (1, 2, 0), "z": (0, 1, 2)}[axis]  # which own axis points along x, y, z
    matrix = np.zeros((3, 4))
    for row, column in enumerate(order):
        matrix[row, column] = height if column == 2 else radius
    return _unit_cylinder(segments).transformed(matrix)


def _rod(points: Floats | Sequence[ArrayLike], radius: float, sides: int = 8) -> Mesh:
    """A pipe of even thickness: a straight one between two points, a bent one through more."""
    p = np.array([np.asarray(q, dtype=np.float64) for q in points])
    run = p[-1] - p[0]
    steep = abs(run[2]) > max(abs(run[0]), abs(run[1]))
    if len(p) > 2:
        return tube(p, radius, sides=sides, up=(0, 1, 0) if steep else (0, 0, 1))
    side = np.cross(_vec(0, 1, 0) if steep else _vec(0, 0, 1), run)
    side *= radius / np.linalg.norm(side)
    top = np.cross(run, side)
    top *= radius / np.linalg.norm(top)
    return _unit_cylinder(sides).transformed(np.stack([side, top, run, (p[0] + p[1]) / 2], axis=1))


# ---------------------------------------------------------------------------------------------------------------- car
CAR_KINDS = ("sedan", "hatchback", "suv", "pickup", "convertible")


def _car(rng: Rng, state: str) -> Model:
    length = {"sedan": 4.5, "hatchback": 3.75, "suv": 4.5, "pickup": 5.0, "convertible": 4.1}[state]
    height = {"sedan": 1.45, "hatchback": 1.50, "suv": 1.78, "pickup": 1.78, "convertible": 1.30}[state]
    length, height, w = jitter(rng, length, 0.05), jitter(rng, height, 0.04), jitter(rng, 0.92, 0.04)
    big = state in ("suv", "pickup")
    radius = jitter(rng, 0.385 if big else 0.335, 0.06)
    sill = jitter(rng, 0.33 if big else 0.22, 0.1)
    waist = height * jitter(rng, 0.60 if big else 0.62, 0.03)  # belt line; the open car is low to begin with
    rear, front = -length / 2, length / 2
    nose = jitter(rng, 1.12 if state in ("sedan", "pickup", "convertible") else 0.90, 0.12)  # front end to windscreen
    cowl = front - nose
    rake = jitter(rng, {"suv": 0.48, "pickup": 0.5, "hatchback": 0.6}.get(state, 0.72), 0.15)
    roof_front = cowl - rake
    roof_rear, glass_rear, tail = {
        "sedan": (rear + 1.35, rear + 0.68, 0.93),
        "hatchback": (rear + 0.50, rear + 0.10, 0.95),
        "suv": (rear + 0.36, rear + 0.10, 0.98),
        "pickup": (roof_front - 0.95, roof_front - 1.20, 0.9),
        "convertible": (rear + 1.2, rear + 0.8, 0.95),
    }[state]
    deck = waist * 1.05 if state != "pickup" else waist * 1.02
    boxy = 0.06 if big else 0.0
    flat = waist + 0.03

    def at(x: float, s: float, side: float, belt: float, top: float, top_half: float) -> Station:
        return Station(x, s, w * side, belt, w * min(side, 0.93 + boxy / 2) * 0.99, top, w * (top_half + boxy))

    stations = [
        at(rear, sill + 0.12, 0.86, waist * tail * 0.93, waist * tail * 0.96, 0.68),
        at(rear + 0.05, sill + 0.04, 0.95, waist * tail * 0.99, waist * tail * 1.02, 0.72),
    ]
    open_top = state == "convertible"
    if state in ("sedan", "pickup", "convertible"):
        stations.append(at(rear + 0.25, sill, 0.985, waist * 0.98, deck * (0.99 if state != "pickup" else 0.985), 0.76))
    if open_top:
        stations += [at(glass_rear, sill, 1.0, waist, flat, 0.80), at(cowl, sill, 1.0, waist, flat, 0.80)]
    else:
        bow = roof_front - roof_rear
        stations += [
            at(glass_rear, sill, 1.0, waist, deck, 0.80),
            at(glass_rear + 0.86 * (roof_rear - glass_rear), sill, 1.0, waist, height * 0.955, 0.72),
            at(roof_rear, sill, 1.0, waist, height * 0.978, 0.72),
            at(roof_rear + 0.5 * bow, sill, 1.0, waist, height, 0.73),
            at(roof_front, sill, 1.0, waist, height * 0.978, 0.72),
            at(roof_front + 0.12 * rake, sill, 1.0, waist, height * 0.945, 0.72),
            at(cowl, sill, 1.0, waist * 0.99, waist * 1.04, 0.80),
        ]
    hood = 0.91 if big else jitter(rng, 0.80, 0.05)
    stations += [
        at(front - 0.40, sill, 0.985, waist * (hood + 0.02), waist * (hood + 0.07), 0.76),
        at(front - 0.14, sill + 0.01, 0.955, waist * (hood - 0.06), waist * (hood - 0.02), 0.74),
        at(front - 0.03, sill + 0.04, 0.91, waist * (hood - 0.14), waist * (hood - 0.11), 0.70),
        at(front, sill + 0.09, 0.84, waist * (hood - 0.24), waist * (hood - 0.22), 0.66),
    ]
    axles = (rear + 0.19 * length, front - 0.185 * length)
    arches = [Arch(a, radius, radius * 1.16) for a in axles]
    middle = 0.5 * (roof_rear + roof_front) - 0.05
    zones = [
        Zone("trim", rear, front, 0, 1) if big or rng.random() < 0.4 else Zone("trim", rear + 0.3, front - 0.3, 0, 0),
        Zone("seam", cowl - 0.05, cowl - 0.025, 1, 4),
        Zone("lamp", front - 0.30, front, 3, 4),
        Zone("tail", rear, rear + 0.16, 3, 4),
    ]
    if not open_top:
        zones += [
            Zone("glass", roof_front + 0.06 * rake, cowl - 0.10 * rake, 8, 10),
            Zone("glass", middle + 0.05, cowl - 0.30 * rake, 5, 6),
            Zone("seam", middle - 0.012, middle + 0.012, 1, 4),
        ]
        if state == "pickup":
            zones.append(Zone("glass", roof_rear + 0.08, middle - 0.05, 5, 6))
            zones.append(Zone("glass", glass_rear + 0.04, roof_rear - 0.05, 8, 10))
        else:
            last = middle - 0.85 if state == "suv" else max(glass_rear + 0.25, roof_rear - 0.2)
            zones.append(Zone("glass", max(last, roof_rear - 0.2), middle - 0.05, 5, 6))
            if state == "suv":
                zones.append(Zone("glass", roof_rear - 0.05, middle - 0.95, 5, 6))
            zones.append(Zone("glass", glass_rear + 0.10 * (roof_rear - glass_rear), roof_rear - 0.05, 8, 10))
            zones.append(Zone("seam", roof_rear + 0.04, roof_rear + 0.065, 3, 4))
    tub = None
    if open_top:
        tub = (glass_rear + 0.12, cowl - 0.10, waist - 0.34)
        zones.append(Zone("inside", tub[0], tub[1], 5, 10))
    elif state == "pickup":
        tub = (rear + 0.10, glass_rear - 0.08, waist * 0.62)
        zones.append(Zone("bed", tub[0], tub[1], 5, 10))
    meshes = _body(stations, zones, arches, tub=tub)

    color = pick(rng, CAR_PAINTS)
    paint = _paint(color, roughness=float(rng.uniform(0.15, 0.4)))
    glass = _glass(rng)
    leather = Material(pick(rng, ((0.45, 0.25, 0.14), (0.75, 0.66, 0.52), (0.12, 0.12, 0.13), (0.55, 0.12, 0.12))), 0.6)
    parts = _dress(
        meshes,
        {
            "body": paint,
            "under": BLACK,
            "trim": TRIM,
            "seam": TRIM,
            "glass": glass,
            "lamp": HEADLIGHT,
            "tail": TAILLIGHT,
            "inside": Material(_shade(leather.color, 0.5), 0.8),
            "bed": TRIM,
        },
    )
    rim = pick(rng, (CHROME, STEEL, Material((0.75, 0.76, 0.78), 0.35), Material((0.2, 0.2, 0.21), 0.4)))
    wheel = _wheel(rng, radius, 0.23, rim, pick(rng, (0, 5, 5, 6, 7)))
    track = 0.955 * w - 0.09
    parts += _at(wheel, [(a, side * track, radius) for a in axles for side in (-1, 1)])

    # Face and back.
    face = waist * (hood - 0.24)
    low = sill + 0.11
    bumper = TRIM if rng.random() < 0.6 else CHROME
    grille = pick(rng, (BLACK, CHROME, TRIM))
    parts += [
        (rounded_box((0.07, 1.0 * w, 0.45 * (face - low)), 0.03, (front, 0, low + 0.66 * (face - low)), 2), grille),
        (rounded_box((0.16, 1.62 * w, 0.13), 0.05, (front - 0.03, 0, sill + 0.14), 2), bumper),
        (rounded_box((0.16, 1.66 * w, 0.13), 0.05, (rear + 0.03, 0, sill + 0.18), 2), bumper),
        (box((0.03, 0.46, 0.11), (front + 0.055, 0, sill + 0.15)), PLATE),
        (box((0.03, 0.46, 0.12), (rear - 0.012, 0, waist * 0.70)), PLATE),
        (ellipsoid((0.07, 0.15, 0.09), (front - 0.03, 0.68 * w, face * 0.96), 12).with_twin(), HEADLIGHT),
        (rounded_box((0.06, 0.28, 0.12), 0.03, (rear + 0.01, 0.60 * w, waist * 0.80), 2).with_twin(), TAILLIGHT),
        (ellipsoid((0.07, 0.12, 0.075), (cowl - 0.32 * rake, 0.99 * w, waist + 0.08), 10).with_twin(), paint),
    ]
    handle = box((0.17, 0.03, 0.035), (0, 0.985 * w, waist * 0.88))
    doors = [middle + 0.14] if open_top or state == "pickup" else [middle + 0.14, middle - 0.72]
    handle_material = CHROME if sum(color) < 1.2 else TRIM
    parts.append(([handle.moved(x=x).with_twin() for x in doors], handle_material))
    if open_top:
        parts += _cabriolet(rng, w, waist, cowl, glass_rear, glass, leather, paint)
    if state == "suv" and rng.random() < 0.7:
        rail = tube([(roof_rear, 0.6 * w, height + 0.01), (roof_front, 0.6 * w, height + 0.01)], 0.035, sides=6)
        parts.append((rail.with_twin(), TRIM))
    if state == "sedan" and rng.random() < 0.15:
        sign = rounded_box((0.22, 0.55, 0.17), 0.04, (0.5 * (roof_rear + roof_front), 0, height + 0.07), 2)
        parts.append((sign, Material((1.0, 0.9, 0.3), 0.5, emission=0.4)))
    return Model.of(parts)


def _cabriolet(
    rng: Rng,
    w: float,
    waist: float,
    cowl: float,
    glass_rear: float,
    glass: Material,
    leather: Material,
    paint: Material,
) -> Parts:
    """Windscreen, seats and steering wheel of an open car."""
    lean, rise = 0.42, 0.42
    foot, head = cowl - 0.02, cowl - 0.02 - lean
    frame = spline(
        [(foot, 0.80 * w, waist), (head + 0.03, 0.70 * w, waist + rise - 0.03), (head, 0.62 * w, waist + rise)], 8
    )
    frame = np.concatenate([frame, (frame * (1, -1, 1))[::-1]])
    a, b = np.array([foot, 0.79 * w, waist]), np.array([head, 0.66 * w, waist + rise])
    pane = grid_surface(
        np.stack([np.stack([p, p * (1, 0, 1) + _vec(0.05, 0, 0), p * (1, -1, 1)]) for p in (b, a)]), smooth=False
    )
    seat = merge(
        [
            rounded_box((0.5, 0.46, 0.18), 0.07, (0.05, 0, -0.12), 2),
            rounded_box((0.17, 0.46, 0.52), 0.07, (-0.22, 0, 0.06), 2).rotated("y", -12),
            rounded_box((0.12, 0.26, 0.15), 0.05, (-0.28, 0, 0.36), 2),
        ]
    )
    x = 0.5 * (cowl + glass_rear) + 0.05
    seats = [seat.moved(x, side * 0.4 * w, waist - 0.10) for side in (-1, 1)]
    hood = tube(
        [(glass_rear + 0.16, y, waist + 0.05 + 0.03 * (1 - (y / w) ** 2)) for y in np.linspace(-0.72 * w, 0.72 * w, 7)],
        0.12,
        sides=8,
        round_ends=True,
    )
    wheel = torus(0.17, 0.022, 16, 6).rotated("y", -65).moved(x + 0.5, 0.4 * w, waist + 0.02)
    soft = Material(pick(rng, ((0.1, 0.1, 0.11), (0.35, 0.22, 0.14), (0.15, 0.18, 0.3), (0.72, 0.66, 0.54))), 0.9)
    return [
        (tube(frame, 0.03, sides=6), paint if rng.random() < 0.5 else CHROME),
        (pane, Material(_shade(glass.color, 2.6), 0.1)),
        (seats, leather),
        (hood, soft),
        (wheel, BLACK),
    ]


# ---------------------------------------------------------------------------------------------------------------- van
def _van(rng: Rng, state: str) -> Model:
    """A delivery van has blank sides, a minibus van has panes all along, a camper van is round and two-tone."""
    camper = state == "camper"
    length = jitter(rng, 4.4 if camper else 5.1, 0.06)
    height = jitter(rng, 2.02 if camper else 2.35, 0.07)
    w, radius, sill = jitter(rng, 0.96, 0.03), jitter(rng, 0.36, 0.05), jitter(rng, 0.30, 0.1)
    rear, front = -length / 2, length / 2
    belt = height * (0.56 if camper else jitter(rng, 0.52, 0.03))
    bonnet = 0.10 if camper else jitter(rng, 0.55, 0.2)  # a short one is what tells a van from a car
    cowl = front - bonnet
    rake = jitter(rng, 0.36 if camper else 0.62, 0.12)
    roof_front = cowl - rake

    def at(x: float, s: float, side: float, belt: float, top: float, top_half: float) -> Station:
        return Station(x, s, w * side, belt, w * side * 0.985, top, w * top_half * side)

    roof = 0.86 if camper else 0.90
    stations = [
        at(rear, sill + 0.08, 0.93, belt, height * 0.955, roof),
        at(rear + 0.06, sill + 0.02, 0.985, belt, height * 0.985, roof),
        at(rear + 0.30, sill, 1.0, belt, height, roof),
        at(roof_front - 0.25, sill, 1.0, belt, height * 0.995, roof),
        at(roof_front, sill, 1.0, belt, height * 0.965, roof),
        at(roof_front + 0.1 * rake, sill, 1.0, belt, height * 0.925, roof),
        at(cowl - 0.02, sill, 0.995, belt * 0.99, belt * 1.06, 0.93),
    ]
    if camper:
        stations += [
            at(front - 0.03, sill + 0.02, 0.95, belt * 0.93, belt * 0.97, 0.93),
            at(front, sill + 0.08, 0.88, belt * 0.85, belt * 0.88, 0.93),
        ]
    else:
        stations += [
            at(front - 0.16, sill + 0.02, 0.98, belt * 0.85, belt * 0.89, 0.92),
            at(front - 0.04, sill + 0.05, 0.94, belt * 0.75, belt * 0.78, 0.92),
            at(front, sill + 0.10, 0.88, belt * 0.62, belt * 0.64, 0.92),
        ]
    axles = (rear + 0.20 * length, front - (0.20 if camper else 0.17) * length)
    arches = [Arch(a, radius, radius * 1.15) for a in axles]
    door_rear = roof_front - jitter(rng, 0.75, 0.08)  # end of the front door
    slide = door_rear - jitter(rng, 1.05, 0.06)  # end of the sliding door
    zones = [
        Zone("glass", roof_front + 0.05 * rake, cowl - 0.10 * rake, 8, 10),
        Zone("glass", door_rear + 0.08, cowl - 0.30 * rake, 5, 6),
        Zone("seam", door_rear - 0.02, door_rear + 0.02, 1, 7),
        Zone("seam", cowl - 0.06, cowl - 0.03, 1, 4),
        Zone("seam", slide - 0.02, slide + 0.02, 1, 7),
        Zone("seam", rear + 0.22, slide, 3, 4, -1),  # rail of the sliding door
        Zone("tail", rear, rear + 0.09, 3, 5),
    ]
    if not camper:
        zones += [Zone("lamp", front - 0.42, front - 0.02, 3, 4), Zone("trim", rear, front, 0, 1)]
    if camper:
        zones.append(Zone("second", rear, front, pick(rng, (6, 7)), 10))
        zones.append(Zone("chrome", rear + 0.02, front - 0.03, 3, 4))
        zones = zones[-2:] + zones[:-2]
    if state in ("camper", "minibus"):
        edges = np.linspace(rear + 0.28, door_rear - 0.02, 4 if state == "camper" else 3)
        zones += [Zone("glass", a + 0.06, b - 0.06, 5, 6) for a, b in zip(edges[:-1], edges[1:], strict=True)]
    elif rng.random() < 0.4:
        zones.append(Zone("glass", slide + 0.10, door_rear - 0.10, 5, 6, -1))
    meshes = _body(stations, zones, arches)

    color = pick(rng, ((0.93, 0.93, 0.92), (0.93, 0.93, 0.92), *CAR_PAINTS, *BRIGHTS))
    if camper:
        color = pick(rng, ((0.30, 0.62, 0.66), (0.85, 0.35, 0.20), (0.55, 0.70, 0.45), (0.90, 0.72, 0.25), *BRIGHTS))
    paint = _paint(color, roughness=float(rng.uniform(0.2, 0.45)))
    glass = _glass(rng)
    parts = _dress(
        meshes,
        {
            "body": paint,
            "second": Material((0.93, 0.92, 0.86), 0.35),
            "chrome": CHROME,
            "under": BLACK,
            "trim": TRIM,
            "seam": Material(_shade(color, 0.35), 0.7) if sum(color) > 0.6 else STEEL,
            "glass": glass,
            "lamp": HEADLIGHT,
            "tail": TAILLIGHT,
        },
    )
    rim = pick(rng, (STEEL, CHROME, Material((0.85, 0.85, 0.83), 0.4)))
    wheel = _wheel(rng, radius, 0.24, rim, 0 if camper else pick(rng, (0, 5, 6)))
    track = 0.955 * w - 0.10
    parts += _at(wheel, [(a, side * track, radius) for a in axles for side in (-1, 1)])
    bumper = CHROME if camper else TRIM
    parts += [
        (rounded_box((0.16, 1.78 * w, 0.16), 0.05, (front - 0.02, 0, sill + 0.14), 2), bumper),
        (rounded_box((0.16, 1.80 * w, 0.16), 0.05, (rear + 0.02, 0, sill + 0.14), 2), bumper),
        (box((0.03, 0.5, 0.12), (front + 0.07, 0, sill + 0.16)), PLATE),
        (box((0.03, 0.5, 0.12), (rear - 0.02, 0, belt * 0.72)), PLATE),
        (ellipsoid((0.07, 0.10, 0.16), (cowl - 0.25 * rake, 1.08 * w, belt * 1.10), 10).with_twin(), TRIM),
        # Two rear doors: panes, and the gap between them.
        (rounded_box((0.05, 0.62 * w, 0.30 * height), 0.02, (rear, 0.42 * w, height * 0.735), 2).with_twin(), glass),
        (box((0.04, 0.04, height * 0.72), (rear - 0.0, 0, sill + 0.02 + height * 0.40)), TRIM),
        (box((0.20, 0.04, 0.05), (door_rear + 0.18, 0.995 * w, belt * 0.86)).with_twin(), TRIM),
        (box((0.20, 0.04, 0.05), (door_rear - 0.20, -0.995 * w, belt * 0.86)), TRIM),
    ]
    if camper:
        lamp = _cylinder(0.13, 0.09, 14, axis="x").moved(front - 0.005, 0.60 * w, belt * 0.70)
        ring = _cylinder(0.165, 0.07, 14, axis="x").moved(front - 0.01, 0.60 * w, belt * 0.70)
        badge = _cylinder(0.16, 0.06, 16, axis="x").moved(front, 0, belt * 0.70)
        parts += [(lamp.with_twin(), HEADLIGHT), (ring.with_twin(), CHROME), (badge, CHROME)]
    else:
        face = belt * 0.62
        parts.append((rounded_box((0.08, 1.1 * w, 0.20), 0.03, (front - 0.01, 0, face - 0.10), 2), BLACK))
        parts.append(
            (rounded_box((0.08, 0.30, 0.20), 0.04, (front - 0.02, 0.70 * w, face - 0.08), 2).with_twin(), HEADLIGHT)
        )
    if state == "minibus" and rng.random() < 0.5:
        rack = [box((0.07, 1.5 * w, 0.05), (x, 0, height + 0.05)) for x in np.linspace(rear + 0.5, roof_front - 0.4, 4)]
        rails = box((roof_front - rear - 0.7, 0.06, 0.06), (0.5 * (rear + roof_front), 0.7 * w, height + 0.06))
        parts.append(([*rack, rails.with_twin()], TRIM))
    if state == "delivery" and rng.random() < 0.6:
        # A sign-writer's stripe and disc on the blank side.
        accent = Material(pick(rng, BRIGHTS), 0.4)
        middle = 0.5 * (rear + door_rear)
        disc = _cylinder(0.24 * belt, 0.03, 18, axis="y").moved(middle, 0.985 * w - 0.002, belt * 1.32)
        parts.append((disc.with_twin(), accent))
    return Model.of(parts)


# ---------------------------------------------------------------------------------------------------------------- bus
def _bus(rng: Rng, state: str) -> Model:
    if state == "school":
        return _school_bus(rng)
    double = state == "double-decker"
    length = jitter(rng, 8.2 if double else 9.2, 0.08)
    height = jitter(rng, 4.2 if double else 3.05, 0.04)
    w, radius, sill = 1.25, jitter(rng, 0.48, 0.05), 0.34
    rear, front = -length / 2, length / 2
    # The belt of the skin is under the upper row of panes; a double-decker's lower row lies in the wall below it.
    belt = height * 0.63 if double else height * jitter(rng, 0.44, 0.06)
    slope = jitter(rng, 0.14 if double else 0.22, 0.3)

    def at(x: float, s: float, side: float, belt: float, top: float) -> Station:
        return Station(x, s, w * side, belt, w * side, top, w * 0.95 * side)

    stations = [
        at(rear, sill + 0.06, 0.96, belt, height * 0.97),
        at(rear + 0.10, sill, 1.0, belt, height * 0.995),
        at(rear + 0.4, sill, 1.0, belt, height),
        at(front - slope - 0.25, sill, 1.0, belt, height),
        at(front - slope, sill, 1.0, belt, height * 0.985),
        at(front - slope * 0.8, sill, 0.995, belt * 0.995, height * 0.95),
        at(front, sill + 0.05, 0.95, belt * 0.93, belt * 0.95),
    ]
    if double:  # an upright front: the panes are set into it below
        stations[-1] = at(front, sill + 0.05, 0.95, belt, height * 0.955)
    axles = (rear + 0.24 * length, front - 0.22 * length)
    arches = [Arch(a, radius, radius * 1.15) for a in axles]
    count = int(rng.integers(5, 8))
    gap = 0.11
    edges = np.linspace(rear + 0.25, front - slope - 0.15, count + 1)
    panes = [(a + gap / 2, b - gap / 2) for a, b in zip(edges[:-1], edges[1:], strict=True)]
    zones = [Zone("stripe", rear, front, 2, 3)] if rng.random() < 0.5 and not double else []
    zones += [Zone("trim", rear, front, 0, 1)]
    zones += [Zone("glass", a, b, 5, 6) for a, b in panes]
    if double:
        zones += [Zone("glass", a, b, 2, 3) for a, b in panes]
        zones += [Zone("stripe", rear + 0.1, front - 0.1, 4, 5)]
    else:
        zones += [Zone("glass", front - slope * 0.86, front, 7, 10), Zone("glass", front - slope * 0.8, front, 4, 6)]
    doors = [front - 0.22 * length + radius * 1.35, -0.08 * length]
    if rng.random() < 0.2:
        doors = doors[:1]
    door_low, door_high = (0, 3) if double else (0, 6)
    for x in doors:
        span = 1.05 if x < 1 else min(1.05, front - 0.12 - x)
        zones += [
            Zone("seam", x, x + span, door_low, door_high, -1),
            Zone("glass", x + 0.08, x + span / 2 - 0.05, 1, door_high, -1),
            Zone("glass", x + span / 2 + 0.05, x + span - 0.08, 1, door_high, -1),
        ]
    meshes = _body(stations, zones, arches, step=0.8)
    colors = (
        ((0.75, 0.06, 0.08), (0.75, 0.06, 0.08), *BRIGHTS)
        if double
        else (*BRIGHTS, (0.92, 0.92, 0.9), (0.6, 0.62, 0.65))
    )
    color = pick(rng, colors)
    accent = Material(pick(rng, ((0.95, 0.95, 0.93), (0.95, 0.95, 0.93), *BRIGHTS)), 0.4)
    glass = Material(pick(rng, ((0.10, 0.15, 0.19), (0.16, 0.24, 0.30), (0.22, 0.31, 0.37))), 0.1)
    paint = _paint(color, roughness=0.35)
    parts = _dress(
        meshes,
        {"body": paint, "under": BLACK, "trim": TRIM, "seam": TRIM, "glass": glass, "stripe": accent},
    )
    rim = pick(rng, (STEEL, CHROME, Material((0.85, 0.85, 0.83), 0.4)))
    wheel = _wheel(rng, radius, 0.32, rim, 0)
    parts += _at(wheel, [(a, side * (w * 0.955 - 0.13), radius) for a in axles for side in (-1, 1)])
    sign = Material(pick(rng, ((1.0, 0.75, 0.15), (1.0, 0.95, 0.7), (0.5, 1.0, 0.5))), 0.5, emission=0.5)
    lamp_z = sill + 0.42
    parts += [
        (rounded_box((0.14, 1.92 * w, 0.26), 0.06, (front - 0.02, 0, sill + 0.13), 2), TRIM),
        (rounded_box((0.14, 1.92 * w, 0.26), 0.06, (rear + 0.02, 0, sill + 0.13), 2), TRIM),
        (rounded_box((0.10, 0.36, 0.22), 0.05, (front - 0.0, 0.70 * w, lamp_z), 2).with_twin(), HEADLIGHT),
        (rounded_box((0.10, 0.20, 0.42), 0.04, (rear + 0.0, 0.80 * w, lamp_z + 0.3), 2).with_twin(), TAILLIGHT),
        (rounded_box((0.08, 0.9 * w, 0.24), 0.03, (front - 0.0, 0, lamp_z), 2), BLACK),
        (
            rounded_box(
                (0.05, 1.5 * w, 0.9 if not double else 0.7), 0.04, (rear, 0, height * (0.74 if not double else 0.8)), 2
            ),
            glass,
        ),
        (box((0.04, 0.6, 0.14), (rear - 0.02, 0, sill + 0.55)), PLATE),
    ]
    mirror_z = belt + 0.6 if not double else 1.9
    arm = tube([(front - 0.25, 0.97 * w, mirror_z + 0.25), (front + 0.16, 1.12 * w, mirror_z + 0.28)], 0.04, sides=6)
    head = rounded_box((0.12, 0.24, 0.46), 0.05, (front + 0.18, 1.14 * w, mirror_z), 2)
    parts.append(([arm.with_twin(), head.with_twin()], BLACK))
    if double:
        screens = [(1.15, 2.25), (belt + 0.14, height * 0.90)]
        parts.append(
            (
                [rounded_box((0.10, 1.74 * w, b - a), 0.05, (front - 0.02, 0, (a + b) / 2), 2) for a, b in screens],
                glass,
            )
        )
        parts.append((rounded_box((0.10, 1.3 * w, 0.26), 0.03, (front - 0.015, 0, belt - 0.12), 2), BLACK))
        parts.append((rounded_box((0.10, 1.1 * w, 0.16), 0.03, (front + 0.0, 0, belt - 0.12), 2), sign))
    else:
        x = front - slope * 0.93
        parts.append((rounded_box((0.16, 1.5 * w, 0.34), 0.04, (x - 0.02, 0, height * 0.925), 2), BLACK))
        parts.append((rounded_box((0.16, 1.2 * w, 0.20), 0.03, (x + 0.02, 0, height * 0.925), 2), sign))
        unit = rounded_box((jitter(rng, 2.2), 1.5, 0.24), 0.08, (float(rng.uniform(-2, 1)), 0, height + 0.09), 2)
        parts.append((unit, Material((0.8, 0.8, 0.79), 0.5)))
    return Model.of(parts)


def _school_bus(rng: Rng) -> Model:
    """The North American kind: a bonnet, a long box with many panes, black rails along the side."""
    length, height = jitter(rng, 8.6, 0.1), jitter(rng, 2.95, 0.03)
    w, radius, sill = 1.2, 0.48, 0.50
    rear, front = -length / 2, length / 2
    belt, bonnet = height * 0.52, jitter(rng, 1.35, 0.1)
    cowl = front - bonnet

    def at(x: float, side: float, belt: float, top: float, top_half: float) -> Station:
        return Station(x, sill, w * side, belt, w * side, top, w * top_half)

    stations = [
        at(rear, 0.97, belt, height * 0.96, 0.80),
        at(rear + 0.12, 1.0, belt, height * 0.995, 0.84),
        at(rear + 0.4, 1.0, belt, height, 0.85),
        at(cowl - 0.40, 1.0, belt, height, 0.85),
        at(cowl - 0.22, 1.0, belt, height * 0.965, 0.85),
        at(cowl - 0.02, 0.99, belt, belt * 1.06, 0.80),
        at(cowl + 0.10, 0.90, belt * 0.93, belt, 0.66),
        at(front - 0.2, 0.84, belt * 0.84, belt * 0.91, 0.62),
        at(front, 0.78, belt * 0.76, belt * 0.82, 0.58),
    ]
    axles = (rear + 0.27 * length, front - 0.72)
    arches = [Arch(a, radius, radius * 1.15) for a in axles]
    edges = np.linspace(rear + 0.25, cowl - 1.15, int(rng.integers(6, 9)))
    zones = [
        Zone("rail", rear + 0.02, cowl - 0.1, 1, 2),
        Zone("rail", rear + 0.02, cowl - 0.1, 3, 4),
        *[Zone("glass", a + 0.06, b - 0.06, 5, 6) for a, b in zip(edges[:-1], edges[1:], strict=True)],
        Zone("glass", cowl - 1.05, cowl - 0.30, 5, 6, 1),
        Zone("seam", cowl - 1.05, cowl - 0.30, 0, 6, -1),
        Zone("glass", cowl - 0.97, cowl - 0.72, 1, 6, -1),
        Zone("glass", cowl - 0.63, cowl - 0.38, 1, 6, -1),
        Zone("glass", cowl - 0.21, cowl - 0.05, 7, 10),
    ]
    meshes = _body(stations, zones, arches, step=0.8)
    color = pick(rng, ((0.96, 0.68, 0.06), (0.96, 0.68, 0.06), (0.97, 0.74, 0.10), (0.93, 0.93, 0.92)))
    paint = _paint(color, 0.35)
    glass = _glass(rng)
    parts = _dress(meshes, {"body": paint, "under": BLACK, "rail": BLACK, "seam": TRIM, "glass": glass})
    wheel = _wheel(rng, radius, 0.32, pick(rng, (STEEL, BLACK, CHROME)), 0)
    parts += _at(wheel, [(axles[0], s * (w * 0.955 - 0.13), radius) for s in (-1, 1)])
    parts += _at(wheel, [(axles[1], s * (w * 0.80 - 0.05), radius) for s in (-1, 1)])
    around = np.linspace(-0.1, math.pi + 0.1, 11)
    arc = np.stack([0.58 * np.cos(around), 0 * around, 0.58 * np.sin(around)], axis=1)
    fender = tube(arc, [(0.05, 0.20)] * 11, sides=8, up=(0.0, 1.0, 0.0))
    parts += [
        (rounded_box((0.14, 1.7 * w, 0.26), 0.05, (front + 0.05, 0, sill + 0.05), 2), BLACK),
        (rounded_box((0.14, 1.94 * w, 0.26), 0.05, (rear, 0, sill + 0.10), 2), BLACK),
        (rounded_box((0.10, 0.95 * w, 0.50), 0.04, (front, 0, sill + 0.48), 2), BLACK),
        (_cylinder(0.13, 0.12, 14, axis="x").moved(front, 0.63 * w, sill + 0.52).with_twin(), HEADLIGHT),
        (_cylinder(0.14, 0.10, 14, axis="x").moved(rear, 0.74 * w, belt - 0.25).with_twin(), TAILLIGHT),
        (_cylinder(0.13, 0.10, 14, axis="x").moved(cowl - 0.30, 0.62 * w, height * 0.965).with_twin(), INDICATOR),
        (rounded_box((0.06, 0.7 * w, 0.75), 0.03, (rear, 0.42 * w, height * 0.74), 2).with_twin(), glass),
        (rounded_box((0.10, 1.0, 0.20), 0.04, (cowl - 0.24, 0, height * 0.99), 2), BLACK),
        (fender.moved(axles[1], 0.80 * w - 0.05, radius).with_twin(), paint),
        (rounded_box((0.10, 0.2, 0.34), 0.04, (cowl + 0.25, 1.14 * w, belt + 0.35), 2).with_twin(), BLACK),
        (capsule((cowl - 0.1, 0.96 * w, belt + 0.5), (cowl + 0.25, 1.12 * w, belt + 0.5), 0.04).with_twin(), BLACK),
    ]
    if rng.random() < 0.6:
        stop = _cylinder(0.26, 0.05, 8, axis="y").moved(cowl - 1.5, w + 0.03, belt * 0.78)
        parts.append((stop, TAILLIGHT))
    return Model.of(parts)


# ----------------------------------------------------------------------------------------------------------- airplane
class Panel(NamedTuple):
    """A patch of a fuselage in its own material; angles in degrees up from the side (0) to the top (90)."""

    label: str
    start: float
    end: float
    low: float
    high: float


def _fuselage(stations: Sequence[Sequence[float]], panels: Sequence[Panel], step: float) -> dict[str, Mesh]:
    """A round body through stations (x, height, half width, half height), tail to nose, cut into panels."""
    curve = spline(stations, 60)
    xs = [np.arange(curve[0, 0], curve[-1, 0], step), curve[[0, -1], 0], np.array(stations)[-3:, 0]]
    xs += [np.array([p.start, p.end]) for p in panels]
    x = _rows(xs, float(curve[0, 0]), float(curve[-1, 0]), 0.02 * step)
    z, wide, tall = (np.interp(x, curve[:, 0], curve[:, k])[:, None] for k in (1, 2, 3))
    angle = np.arange(0, 360, 15)
    c, s = np.cos(np.radians(angle)), np.sin(np.radians(angle))
    points = np.stack([np.broadcast_to(x[:, None], (len(x), len(c))), wide * c, z + tall * s], axis=2)
    middle = (x[:-1] + x[1:]) / 2
    up = np.degrees(np.arcsin(np.sin(np.radians(angle + 7.5))))
    labels = np.full((len(middle), len(c)), "body", dtype="<U12")
    for p in panels:
        labels[np.ix_((middle > p.start) & (middle < p.end), (up > p.low) & (up < p.high))] = p.label
    return _split(points, labels, wrap=True)


def _airplane(rng: Rng, state: str) -> Model:
    if state == "airliner":
        parts = _airliner(rng)
    elif state == "jet":
        parts = _business_jet(rng)
    else:
        parts = _propeller_plane(rng, biplane=state == "biplane")
    lowest = min(float(m.bounds[0][2]) for mesh, _ in parts for m in ([mesh] if isinstance(mesh, Mesh) else mesh))
    return Model.of([(merge([mesh] if isinstance(mesh, Mesh) else mesh).moved(z=-lowest), s) for mesh, s in parts])


def _turbine(radius: float, length: float) -> tuple[Mesh, Mesh, Mesh]:
    """An engine pod about the origin, its mouth at +x: cowling, lip, and what is dark inside."""
    r, h = radius, length / 2
    pod = lathe([(0.55 * r, -h), (0.8 * r, -0.5 * h), (r, 0.1 * h), (0.98 * r, 0.8 * h)], 16).rotated("y", 90)
    lip = torus(0.9 * r, 0.11 * r, 16, 6).rotated("y", 90).moved(0.82 * h)
    dark = [
        _cylinder(0.86 * r, 0.1 * h, 14, axis="x").moved(0.75 * h),
        frustum(0.5 * r, 0.1 * r, 0.4 * h, 12).rotated("y", -90).moved(-0.95 * h),
    ]
    return pod, lip, merge(dark)


def _leg(x: float, y: float, top: float, drop: float, radius: float, twin: bool) -> tuple[Mesh, Mesh]:
    """A landing leg: strut and wheels."""
    strut = _cylinder(0.28 * radius, drop, 8).moved(x, y, top - drop / 2)
    wheel = _cylinder(radius, 0.7 * radius, 14, axis="y").moved(x, y, top - drop)
    wheels = merge([wheel.moved(y=0.5 * radius), wheel.moved(y=-0.5 * radius)]) if twin else wheel
    return strut, wheels


def _airliner(rng: Rng) -> Parts:
    r = jitter(rng, 2.0, 0.06)
    length = jitter(rng, 25.0, 0.10)
    tail, nose = -length / 2, length / 2
    stations = [
        (tail, 0.55 * r, 0.10, 0.12),
        (tail + 0.11 * length, 0.42 * r, 0.42 * r, 0.46 * r),
        (tail + 0.26 * length, 0.10 * r, 0.88 * r, 0.86 * r),
        (tail + 0.36 * length, 0, r, r),
        (0.1 * length, 0, r, r),
        (nose - 2.0 * r, 0, r, r),
        (nose - 1.0 * r, -0.07 * r, 0.84 * r, 0.86 * r),
        (nose - 0.3 * r, -0.17 * r, 0.52 * r, 0.50 * r),
        (nose - 0.05 * r, -0.22 * r, 0.20 * r, 0.20 * r),
        (nose, -0.23 * r, 0.02, 0.02),
    ]
    pitch = jitter(rng, 1.15, 0.15)
    first, last = tail + 0.28 * length, nose - 2.1 * r
    windows = np.arange(first, last, pitch)
    color = pick(rng, ((0.94, 0.94, 0.94), (0.94, 0.94, 0.94), (0.80, 0.83, 0.86), *BRIGHTS))
    accent = pick(rng, BRIGHTS)
    white = (0.95, 0.95, 0.95)
    panels = []
    if rng.random() < 0.6:
        panels.append(Panel("stripe", tail + 0.5, nose - 0.3 * r, -15, 0))
    if rng.random() < 0.6:
        panels.append(Panel("belly", tail, nose - 0.5 * r, -90, -30))
    panels += [Panel("pane", x, x + 0.55 * pitch, 0, 30) for x in windows]
    panels += [
        Panel("pane", nose - 1.45 * r, nose - 0.72 * r, 30, 75),
        Panel("pane", nose - 1.30 * r, nose - 0.72 * r, 75, 90),
    ]
    meshes = _fuselage(stations, panels, 1.2)
    span = jitter(rng, 12.0, 0.06)
    sweep = jitter(rng, 5.2, 0.15)
    wing = _wing((3.6, 0.5 * r, -0.45 * r), (3.6 - sweep, span, 0.9), (5.6, 1.7), 0.13)
    let = _wing((3.6 - sweep - 0.1, span - 0.05, 0.9), (3.0 - sweep - 0.6, span + 0.4, 2.3), (1.5, 0.8), 0.10)
    fin = _wing((tail + 0.20 * length, 0, 0.7 * r), (tail + 0.045 * length, 0, 0.7 * r + 4.6), (4.6, 2.2), 0.11)
    stab = _wing((tail + 0.14 * length, 0.1 * r, 0.55 * r), (tail + 0.03 * length, 4.6, 0.9 * r), (3.0, 1.4), 0.12)
    pods = [(0.36 * span, 0.85)] if rng.random() < 0.7 else [(0.32 * span, 0.72), (0.62 * span, 0.72)]
    paint = _paint(color, 0.3)
    tail_paint = _paint(accent if color == white or rng.random() < 0.8 else color, 0.3)
    metal = Material((0.75, 0.77, 0.79), 0.35)
    parts = _dress(
        meshes,
        {
            "body": paint,
            "pane": Material((0.08, 0.11, 0.15), 0.15),
            "stripe": Material(accent if sum(color) > 2 else white, 0.35),
            "belly": metal,
        },
    )
    parts += [
        (wing.with_twin(), _paint((0.80, 0.82, 0.84), 0.35)),
        (stab.with_twin(), _paint((0.82, 0.84, 0.86), 0.35)),
    ]
    parts += [(fin, tail_paint), (let.with_twin(), Material(accent, 0.35))]
    for y, size in pods:
        pod, lip, dark = _turbine(size * 1.05, 3.6)
        f = (y - 0.5 * r) / (span - 0.5 * r)
        x, z = 3.6 - f * sweep + 0.7, -0.45 * r + f * (0.9 + 0.45 * r) - 1.05 * size
        pylon = box((1.8, 0.3, 0.9 * size), (x - 0.9, y, z + 0.9 * size))
        parts += [
            (pod.moved(x, y, z).with_twin(), Material(accent, 0.35) if rng.random() < 0.4 else metal),
            (lip.moved(x, y, z).with_twin(), CHROME),
            (dark.moved(x, y, z).with_twin(), BLACK),
            (pylon.with_twin(), metal),
        ]
    if rng.random() < 0.75:
        legs = [
            _leg(-0.6, 1.35 * r, -0.5 * r, 1.25 * r, 0.55, True),
            _leg(-0.6, -1.35 * r, -0.5 * r, 1.25 * r, 0.55, True),
        ]
        legs.append(_leg(nose - 1.9 * r, 0, -0.8 * r, 0.98 * r, 0.5, True))
        parts += [([s for s, _ in legs], STEEL), ([t for _, t in legs], RUBBER)]
    return parts


def _business_jet(rng: Rng) -> Parts:
    r, length = 1.0, jitter(rng, 13.0, 0.08)
    tail, nose = -length / 2, length / 2
    stations = [
        (tail, 0.50, 0.08, 0.08),
        (tail + 0.15 * length, 0.32, 0.50, 0.52),
        (tail + 0.35 * length, 0.05, 0.95, 0.95),
        (0.05 * length, 0, r, r),
        (nose - 3.4, 0, r, r),
        (nose - 2.0, -0.08, 0.84, 0.82),
        (nose - 0.8, -0.22, 0.48, 0.44),
        (nose - 0.1, -0.28, 0.14, 0.13),
        (nose, -0.29, 0.02, 0.02),
    ]
    accent = pick(rng, BRIGHTS)
    color = pick(rng, ((0.94, 0.94, 0.94), (0.94, 0.94, 0.94), (0.25, 0.27, 0.31), *BRIGHTS))
    panels = [Panel("stripe", tail + 0.4, nose - 0.4, -30, -15)]
    panels += [Panel("pane", x, x + 0.48, 0, 30) for x in np.linspace(-1.9, nose - 4.6, int(rng.integers(4, 7)))]
    panels += [Panel("pane", nose - 3.0, nose - 1.9, 30, 75), Panel("pane", nose - 2.7, nose - 1.8, 75, 90)]
    meshes = _fuselage(stations, panels, 0.7)
    span = jitter(rng, 6.6, 0.06)
    wing = _wing((1.3, 0.4, -0.55), (-1.6, span, 0.1), (3.3, 1.0), 0.12)
    let = _wing((-1.65, span - 0.03, 0.1), (-2.35, span + 0.2, 1.0), (0.9, 0.5), 0.10)
    fin = _wing((tail + 3.2, 0, 0.45), (tail + 0.9, 0, 3.3), (3.0, 1.7), 0.12)
    stab = _wing((tail + 1.2, 0.05, 3.2), (tail + 0.1, 2.5, 3.3), (1.6, 0.8), 0.12)
    pod, lip, dark = _turbine(0.56, 2.7)
    x, y, z = tail + 3.7, 1.45, 0.42
    legs = [_leg(-0.7, 1.5, -0.4, 1.15, 0.36, False), _leg(-0.7, -1.5, -0.4, 1.15, 0.36, False)]
    legs.append(_leg(nose - 2.3, 0, -0.6, 0.95, 0.32, False))
    light = Material((0.82, 0.84, 0.86), 0.3)
    paint = _paint(color, 0.2)
    parts = _dress(meshes, {"body": paint, "pane": Material((0.08, 0.11, 0.15), 0.15), "stripe": Material(accent, 0.3)})
    return [
        *parts,
        (wing.with_twin(), _paint((0.86, 0.87, 0.88) if sum(color) > 1 else color, 0.3)),
        (let.with_twin(), Material(accent, 0.3)),
        (fin, _paint(color, 0.3)),
        (stab.with_twin(), _paint(color, 0.3)),
        (pod.moved(x, y, z).with_twin(), light),
        (lip.moved(x, y, z).with_twin(), CHROME),
        (dark.moved(x, y, z).with_twin(), BLACK),
        (box((1.5, 0.7, 0.16), (x, 0.85, z)).with_twin(), light),
        ([s for s, _ in legs], STEEL),
        ([t for _, t in legs], RUBBER),
    ]


def _propeller_plane(rng: Rng, *, biplane: bool) -> Parts:
    length = jitter(rng, 7.4, 0.06)
    tail, nose = -0.58 * length, 0.42 * length
    stations = [
        (tail, 0.34, 0.06, 0.16),
        (tail + 0.30 * length, 0.18, 0.32, 0.40),
        (tail + 0.55 * length, 0.10, 0.56, 0.66),
        (tail + 0.72 * length, 0.06, 0.60, 0.68),
        (nose - 0.95, 0, 0.58, 0.58),
        (nose - 0.25, 0, 0.52, 0.52),
        (nose - 0.05, 0, 0.38, 0.38),
        (nose, 0, 0.30, 0.30),
    ]
    color = pick(rng, (*BRIGHTS, (0.93, 0.93, 0.91)))
    accent = pick(rng, ((0.95, 0.95, 0.92), (0.95, 0.84, 0.30), (0.12, 0.16, 0.35)))
    glass = Material((0.14, 0.20, 0.26), 0.12)
    panels = [Panel("stripe", tail + 0.3, nose - 0.3, -15, 0)]
    span = jitter(rng, 4.6, 0.06)
    parts: Parts = []
    paint = _paint(color, 0.4)
    wood = Material((0.45, 0.28, 0.14), 0.6)
    lead = nose - 1.25  # leading edge of the wing
    if biplane:
        wings = [_wing((lead, -0.02, 1.35), (lead, span, 1.45), (1.35, 1.2), 0.12)]
        wings.append(_wing((lead - 0.3, 0.2, -0.42), (lead - 0.3, 0.92 * span, -0.22), (1.25, 1.1), 0.12))
        struts = []
        for y in (0.42 * span, 0.78 * span):
            struts += [_rod([(lead - a - 0.25, y, -0.34), (lead - a, y, 1.42)], 0.055, 6) for a in (0.3, 0.85)]
        struts += [_rod([(lead - a, 0.4, 0.4), (lead - a, 0.5, 1.38)], 0.055, 6) for a in (0.35, 0.9)]
        pit = lead - 1.75
        pilot = [sphere(0.26, (pit, 0, 0.98), 12)]
        parts += [
            (merge(struts).with_twin(), wood),
            (torus(0.36, 0.07, 16, 6).rotated("y", -6).moved(pit, 0, 0.68), Material((0.30, 0.18, 0.10), 0.8)),
            (_cylinder(0.36, 0.04, 14).moved(pit, 0, 0.69), BLACK),
            (pilot, Material((0.36, 0.22, 0.12), 0.7)),
            (
                rounded_box((0.06, 0.5, 0.28), 0.03, (pit + 0.5, 0, 0.83), 2).rotated("y", -25, (pit + 0.5, 0, 0.83)),
                glass,
            ),
        ]
        engine = BLACK if rng.random() < 0.5 else STEEL
        parts.append((_cylinder(0.58, 0.42, 16, axis="x").moved(nose - 0.26), engine))
    else:
        panels += [
            Panel("pane", lead - 0.05, lead + 0.62, 15, 75),
            Panel("pane", lead + 0.18, lead + 0.62, 75, 90),
            Panel("pane", lead - 0.85, lead - 0.14, 15, 45),
            Panel("pane", lead - 1.6, lead - 0.95, 15, 45),
        ]
        # The cabin stands up above the line of the bonnet; the wing lies on it.
        stations[3] = (tail + 0.68 * length, 0.18, 0.62, 0.86)
        stations[2] = (tail + 0.50 * length, 0.18, 0.58, 0.80)
        wings = [_wing((lead + 0.1, -0.02, 1.02), (lead - 0.1, 1.1 * span, 1.16), (1.5, 1.1), 0.13)]
        strut = _rod([(lead - 0.5, 0.5, -0.30), (lead - 0.5, 0.55 * span, 0.98)], 0.055, 6)
        parts.append((strut.with_twin(), Material((0.85, 0.86, 0.87), 0.4)))
    meshes = _fuselage(stations, panels, 0.45)
    parts += _dress(meshes, {"body": paint, "stripe": Material(accent, 0.4), "pane": glass})
    fin = _wing((tail + 1.15, 0, 0.35), (tail + 0.35, 0, 1.62), (1.25, 0.8), 0.12)
    stab = _wing((tail + 0.95, 0.02, 0.36), (tail + 0.75, 1.65, 0.40), (1.0, 0.75), 0.13)
    wing_paint = paint if biplane or rng.random() < 0.5 else _paint((0.93, 0.93, 0.91), 0.4)
    parts += [(merge(wings).with_twin(), wing_paint), (fin, paint), (stab.with_twin(), paint)]
    # Wing tips and rudder in the second colour.
    tips = box((0.9, 0.45, 0.19), (0, 0, 0))
    tip_y, tip_z = (span, 1.45) if biplane else (1.1 * span, 1.16)
    parts.append(
        (tips.moved(lead - 0.6 - (0 if biplane else 0.08), tip_y - 0.3, tip_z).with_twin(), Material(accent, 0.4))
    )
    # Propeller: blades, or now and then the blur of one turning.
    hub = nose + 0.06
    spinner = lathe([(0.21, 0.0), (0.19, 0.14), (0.11, 0.28), (0.0, 0.33)], 14).rotated("y", 90).moved(nose)
    blade = ellipsoid((0.035, 0.10, 0.52), (0, 0, 0.55), 10).rotated("z", 30)
    count, turn = pick(rng, (2, 2, 3)), float(rng.uniform(0, 180))
    blades = [blade.rotated("x", turn + 360 * k / count).moved(hub + 0.05) for k in range(count)]
    parts += [(spinner, Material(accent, 0.3)), (blades, wood if biplane else TRIM)]
    # Gear.
    wheel_x, drop = lead - 0.15, -1.15
    leg = _rod([(wheel_x - 0.2, 0.35, -0.4), (wheel_x, 0.95, drop + 0.05)], 0.07, 6)
    wheel = _cylinder(0.30, 0.18, 16, axis="y").moved(wheel_x, 1.0, drop)
    parts += [(leg.with_twin(), STEEL), (wheel.with_twin(), RUBBER)]
    parts.append((_cylinder(0.13, 0.22, 12, axis="y").moved(wheel_x, 1.0, drop).with_twin(), Material(accent, 0.4)))
    if biplane or rng.random() < 0.4:
        tail_wheel = [_cylinder(0.16, 0.12, 12, axis="y").moved(tail + 0.35, 0, -0.12)]
        post = _rod([(tail + 0.5, 0, 0.3), (tail + 0.35, 0, -0.12)], 0.05, 6)
        angle = math.degrees(math.atan2(1.17, wheel_x - tail - 0.35))
        parts += [(tail_wheel, RUBBER), (post, STEEL)]
        tilted: Parts = []
        for mesh, material in parts:
            full = mesh if isinstance(mesh, Mesh) else merge(mesh)
            tilted.append((full.rotated("y", -angle), material))
        return tilted
    front = [_cylinder(0.26, 0.16, 14, axis="y").moved(nose - 0.45, 0, drop + 0.04)]
    return [*parts, (front, RUBBER), (_rod([(nose - 0.6, 0, -0.3), (nose - 0.45, 0, drop + 0.04)], 0.06, 6), STEEL)]


# ------------------------------------------------------------------------------------------------------------ bicycle
def _bicycle(rng: Rng, state: str) -> Model:
    r = jitter(rng, 0.345, 0.04)
    tyre = {"road": 0.022, "mountain": 0.034, "city": 0.028}[state] * 1.15
    base = jitter(rng, 1.04, 0.04)  # distance of the axles
    pipe = jitter(rng, {"road": 0.031, "mountain": 0.038, "city": 0.030}[state], 0.08)
    rear, front = np.array([-base / 2, 0.0, r]), np.array([base / 2, 0.0, r])
    crank = np.array([-base / 2 + 0.43, 0.0, r - 0.06])
    seat = np.array([crank[0] - 0.17, 0.0, r + jitter(rng, 0.44, 0.06)])
    head_low, head_top = np.array([front[0] - 0.135, 0, r + 0.36]), np.array([front[0] - 0.19, 0, r + 0.52])
    color = pick(rng, (*CAR_PAINTS, *BRIGHTS))
    paint = _paint(color, 0.3)
    accent = Material(pick(rng, ((0.92, 0.92, 0.9), (0.1, 0.1, 0.1), *BRIGHTS)), 0.4)
    pipes: list[Mesh] = []

    def rod(a: ArrayLike, b: ArrayLike, radius: float = 1.0) -> None:
        pipes.append(_rod([a, b], radius * pipe))

    step_through = state == "city" and rng.random() < 0.65
    rod(crank, seat)
    rod(crank, head_low, 1.15)
    if step_through:
        curve = spline(
            [head_top, head_top * 0.5 + crank * 0.5 + _vec(-0.05, 0, 0.06), crank + 0.32 * (seat - crank)], 8
        )
        pipes.append(_rod(curve, pipe))
    else:
        rod(seat - 0.03 * (seat - crank), head_top - _vec(0, 0, 0.03), 1.0)
    rod(head_low - _vec(-0.01, 0, 0.03), head_top + _vec(0, 0, 0.02), 1.25)
    for side in (-1, 1):
        y = np.array([0, side * 0.055, 0])
        rod(rear + y, crank + 0.6 * y, 0.75)
        rod(rear + y, seat + 0.4 * y - _vec(0, 0, 0.06), 0.7)
        fork = spline([head_low + 0.9 * y, (head_low + front) / 2 + y + _vec(0.0, 0, 0), front + y], 6)
        pipes.append(_rod(fork, pipe * 0.85))
    pipes.append(_rod([head_low + _vec(0, -0.06, 0), head_low + _vec(0, 0.06, 0)], pipe))
    parts: Parts = [(pipes, paint)]

    # Wheels.
    tyre_colour = RUBBER if rng.random() < 0.8 else Material((0.72, 0.62, 0.45), 0.8)
    rim_material = pick(rng, (CHROME, STEEL, BLACK))
    tyres, rims, spokes = [], [], []
    count = 12
    for centre in (rear, front):
        turn = float(rng.uniform(0, 60))
        tyres.append(torus(r - tyre, tyre, 28, 7).rotated("x", 90).moved(*centre))
        rims.append(torus(r - 2.2 * tyre, 0.013, 28, 5).rotated("x", 90).moved(*centre))
        rims.append(_cylinder(0.03, 0.10, 8, axis="y").moved(*centre))
        for k in range(count):
            a = math.radians(turn + 360 * k / count)
            spokes.append(
                box((0.006, 0.006, 2 * r - 4 * tyre), (0, 0, 0)).rotated("y", math.degrees(a) / 2).moved(*centre)
            )
    parts += [(tyres, tyre_colour), (rims, rim_material), (spokes, Material((0.72, 0.73, 0.75), 0.4))]

    # Saddle, cranks, chain.
    post = seat + 0.28 * (seat - crank) / np.linalg.norm(seat - crank) * jitter(rng, 0.7, 0.3)
    saddle = tube(
        [
            post + _vec(-0.13, 0, 0.035),
            post + _vec(-0.05, 0, 0.03),
            post + _vec(0.05, 0, 0.022),
            post + _vec(0.15, 0, 0.02),
        ],
        [(0.075, 0.03), (0.085, 0.035), (0.045, 0.03), (0.022, 0.022)],
        round_ends=True,
        sides=10,
    )
    leather = Material(pick(rng, ((0.09, 0.09, 0.09), (0.09, 0.09, 0.09), (0.42, 0.24, 0.12))), 0.6)
    parts += [(_rod([seat, post], 0.017, 6), CHROME), (saddle, leather)]
    turn = float(rng.uniform(0, 360))
    ring = _cylinder(0.095, 0.015, 18, axis="y").moved(crank[0], -0.06, crank[2])
    arm = _rod([(0, 0, 0), (0.165, 0, 0)], 0.014, 6)
    pedal = box((0.10, 0.09, 0.028), (0.165, -0.05, 0))
    half = merge([arm, pedal]).moved(y=-0.085)
    cranks = [h.moved(*crank) for h in (half.rotated("y", turn), half.mirrored("y").rotated("y", turn + 180))]
    chain = [_rod([crank + _vec(0, -0.06, s * 0.085), rear + _vec(0, -0.06, s * 0.045)], 0.010, 5) for s in (-1, 1)]
    sprocket = _cylinder(0.05, 0.02, 12, axis="y").moved(rear[0], -0.06, rear[2])
    parts += [([ring, *chain, sprocket], STEEL), (cranks, TRIM)]

    # Handlebar.
    stem = head_top + _vec(-0.03, 0, 0.10 if state != "road" else 0.05)
    grips: list[Mesh] = []
    if state == "road":
        drop = spline(
            [
                (0.0, 0.0, 0.0),
                (0.0, 0.17, 0.0),
                (0.08, 0.20, 0.0),
                (0.13, 0.20, -0.06),
                (0.08, 0.21, -0.13),
                (-0.03, 0.21, -0.13),
            ],
            16,
        )
        start = stem + _vec(0.09, 0, 0.0)
        bars = [_rod(drop[:6] + start, 0.018, 6), _rod([stem, start], 0.02, 6)]
        grips = [tube(drop[5:] + start, 0.022, sides=6)]
    elif state == "mountain":
        start = stem + _vec(0.06, 0, 0.0)
        bars = [
            _rod([start + _vec(0, -0.01, 0), start + _vec(-0.03, 0.30, 0.02)], 0.018, 6),
            _rod([stem, start], 0.022, 6),
        ]
        ends = np.array([start + _vec(-0.02, 0.23, 0.016), start + _vec(-0.035, 0.34, 0.022)])
        grips = [tube(ends, 0.026, sides=8, round_ends=True)]
    else:
        start = stem + _vec(0.05, 0, 0.03)
        bow = spline([(0.0, 0.0, 0.0), (0.02, 0.12, 0.05), (-0.05, 0.25, 0.07), (-0.20, 0.28, 0.06)], 10)
        bars = [_rod(bow + start, 0.018, 6), _rod([stem, start], 0.02, 6)]
        ends = np.array([bow[-3] + start, bow[-1] + start + _vec(-0.05, 0, 0)])
        grips = [tube(ends, 0.026, sides=8, round_ends=True)]
    bars.append(_rod([head_top, stem], 0.02, 6))
    parts += [(merge(bars).with_twin(), CHROME if rng.random() < 0.5 else TRIM), (merge(grips).with_twin(), leather)]

    # Mudguards, carrier, basket, lamp, bottle.
    if state == "city":
        for centre, a, b in ((rear, 20, 185), (front, 30, 160)):
            angle = np.radians(np.linspace(a, b, 14))
            arc = np.stack([np.cos(angle), np.zeros(14), np.sin(angle)], 1) * (r + 0.028) + centre
            parts.append((tube(arc, [(0.010, 0.036)] * 14, sides=8, up=(0.0, 1.0, 0.0)), paint))
        case = extrude([(-0.05, -0.06), (0.42, -0.10), (0.48, 0.0), (0.42, 0.10), (-0.05, 0.06)], 0.03)
        parts.append((case.rotated("x", 90).moved(rear[0], -0.075, rear[2]), paint))
        bed = 2 * r + 0.07
        rack = [box((0.36, 0.13, 0.022), (rear[0] - 0.02, 0, bed))]
        rack += [_rod([rear + _vec(0, s * 0.07, 0), (rear[0] - 0.10, s * 0.065, bed)], 0.011, 5) for s in (-1, 1)]
        parts.append((rack, TRIM))
        if rng.random() < 0.55:
            wicker = Material((0.66, 0.47, 0.26), 0.9, pattern=Pattern("bricks", (0.40, 0.26, 0.13), 0.06))
            rings = [
                np.array(
                    [(s * p[0], s * p[1], z) for p in ((0.14, 0.17), (-0.14, 0.17), (-0.14, -0.17), (0.14, -0.17))]
                )
                for s, z in ((0.78, 0.0), (1.0, 0.22))
            ]
            basket = loft(np.array(rings), smooth=False)
            parts.append((basket.moved(head_top[0] + 0.24, 0, head_top[2] + 0.01), wicker))
        lamp = capsule((head_low[0] + 0.07, 0, head_low[2] + 0.05), (head_low[0] + 0.11, 0, head_low[2] + 0.05), 0.04)
        parts.append((lamp, HEADLIGHT))
    else:
        if rng.random() < 0.5:
            spot = crank + 0.48 * (head_low - crank)
            axis = (head_low - crank) / np.linalg.norm(head_low - crank)
            off = np.array([-axis[2], 0, axis[0]]) * 0.068
            parts.append((capsule(spot + off - 0.07 * axis, spot + off + 0.07 * axis, 0.036), accent))
        if state == "mountain":
            boots = [
                _rod([front + _vec(0, s * 0.06, 0.0), front * 0.55 + head_low * 0.45 + _vec(0, s * 0.06, 0)], 0.032, 8)
                for s in (-1, 1)
            ]
            parts.append((boots, accent))
    low = min(float((m if isinstance(m, Mesh) else merge(m)).bounds[0][2]) for m, _ in parts)
    return Model.of([((m if isinstance(m, Mesh) else merge(m)).moved(z=-low), s) for m, s in parts])


# --------------------------------------------------------------------------------------------------------------- boat
class Lines(NamedTuple):
    """A hull: metres. ``full`` > 1 is a bellied section, < 1 a sharp one; ``transom`` the stern's share of the beam."""

    length: float
    beam: float
    depth: float
    sheer: float  # how much higher the bow is than the middle
    transom: float
    full: float

    def section(self, f: Floats) -> tuple[Floats, Floats, Floats]:
        """Half beam, keel and gunwale heights at shares of the length from the stern, each (N,)."""
        aft = self.transom + (1 - self.transom) * np.sin(np.clip(f / 0.42, 0, 1) * math.pi / 2)
        fore = 1 - np.clip((f - 0.42) / 0.58, 0, 1) ** 2.3
        half = self.beam / 2 * np.maximum(aft * fore, 0.02)
        keel = 0.86 * (self.depth + self.sheer) * np.clip((f - 0.70) / 0.30, 0, 1) ** 2.6
        rail = (
            self.depth
            + self.sheer * np.clip((f - 0.25) / 0.75, 0, 1) ** 1.8
            + 0.12 * self.sheer * (1 - np.clip(f / 0.3, 0, 1))
        )
        return half, keel, rail

    def x(self, f: float) -> float:
        return (f - 0.5) * self.length


def _hull(lines: Lines, *, boot: float, stripe: bool, inner: float = 0.0) -> dict[str, Mesh]:
    """The skin of a hull: ``body``, ``boot`` (below the water line at the share ``boot``), ``stripe``, and ``deck``.

    ``inner`` > 0 leaves the boat open: the deck is then the inside, a planking that thick (metres) within the skin.
    """
    f = np.concatenate([np.linspace(0, 0.7, 9), np.linspace(0.7, 1, 9)[1:]])
    half, keel, rail = lines.section(f)
    share = np.unique(np.concatenate([np.linspace(0, 1, 7), [boot, 0.80, 0.93]]))

    def skin(inset: float, lift: float) -> Floats:
        y = np.maximum(half - inset, 0.004)[:, None] * share[None, :] ** (1 / (1 + lines.full))
        z = (keel + lift)[:, None] + (rail - keel - lift)[:, None] * share[None, :] ** 1.15
        x = np.broadcast_to(((f - 0.5) * lines.length)[:, None], y.shape)
        right = np.stack([x, -y, z], axis=2)
        return np.concatenate([right[:, ::-1], (right * (1, -1, 1))[:, 1:]], axis=1)

    outer = skin(0.0, 0.0)
    level = (share[:-1] + share[1:]) / 2
    names = np.where(level < boot, "boot", "body").astype("<U12")
    if stripe:
        names[(level > 0.80) & (level < 0.93)] = "stripe"
    row = np.concatenate([names[::-1], names])
    meshes = _split(outer, np.broadcast_to(row, (len(f) - 1, len(row))))
    back = np.broadcast_to(outer[0].mean(axis=0), outer[0].shape)
    meshes["transom"] = grid_surface(np.stack([back, outer[0]]), wrap_cols=True, smooth=False)
    edge = outer[:, [-1, 0]]
    if inner:
        inside = skin(inner, 2.0 * inner)
        meshes["deck"] = grid_surface(inside[:, ::-1])
        stern = np.broadcast_to(inside[0].mean(axis=0), inside[0].shape)
        meshes["stern"] = grid_surface(np.stack([inside[0], stern]), wrap_cols=True, smooth=False)
    else:
        top = np.stack([edge[:, 0], edge.mean(axis=1) + _vec(0, 0, 0.03), edge[:, 1]], axis=1)
        meshes["deck"] = grid_surface(top - _vec(0, 0, 0.02))
    path = np.concatenate([outer[:, 0], outer[::-1, -1]])
    meshes["rail"] = tube(path, max(0.022, 0.008 * lines.length), sides=6, closed=True)
    return meshes


HULLS: tuple[Color, ...] = (
    (0.94, 0.94, 0.92),
    (0.94, 0.94, 0.92),
    (0.10, 0.18, 0.36),
    (0.45, 0.26, 0.13),
    (0.12, 0.35, 0.30),
    *BRIGHTS,
)
TEAK: tuple[Color, ...] = ((0.62, 0.43, 0.24), (0.72, 0.54, 0.34), (0.50, 0.31, 0.17), (0.80, 0.70, 0.54))


def _boat(rng: Rng, state: str) -> Model:
    parts = {"sailing": _sailing, "speedboat": _speedboat, "cruiser": _cruiser, "rowing": _rowing}[state](rng)
    meshes = [(m if isinstance(m, Mesh) else merge(m), s) for m, s in parts]
    low = min(float(m.bounds[0][2]) for m, _ in meshes)
    return Model.of([(m.moved(z=-low), s) for m, s in meshes])


def _plank(rng: Rng) -> Material:
    color = pick(rng, TEAK)
    return Material(color, 0.7, pattern=Pattern("stripes", _shade(color, 0.78), 0.22, axis="y"))


def _sailing(rng: Rng) -> Parts:
    lines = Lines(jitter(rng, 5.6, 0.08), jitter(rng, 1.9, 0.08), 0.85, 0.30, 0.72, jitter(rng, 0.9, 0.2))
    color = pick(rng, HULLS)
    paint = _paint(color, 0.3)
    accent = Material(pick(rng, BRIGHTS), 0.5)
    meshes = _hull(lines, boot=0.34, stripe=rng.random() < 0.6)
    boot = Material(pick(rng, ((0.45, 0.09, 0.08), (0.08, 0.10, 0.22), (0.09, 0.09, 0.10), (0.10, 0.28, 0.22))), 0.6)
    deck = _plank(rng)
    parts = _dress(
        meshes,
        {"body": paint, "boot": boot, "stripe": accent, "deck": deck, "rail": Material(_shade(deck.color, 0.7), 0.6)},
    )
    mast_x, deck_z = lines.x(0.58), lines.depth + 0.05
    top = deck_z + jitter(rng, 5.6, 0.07)
    boom_z, boom_end = deck_z + 0.75, lines.x(0.10)
    spar = pick(rng, (Material((0.80, 0.81, 0.82), 0.35), Material((0.55, 0.36, 0.19), 0.6)))
    swing = math.radians(float(rng.uniform(12, 32)) * pick(rng, (-1, 1)))
    parts.append((_rod([(mast_x, 0, deck_z - 0.3), (mast_x, 0, top)], 0.06, 8), spar))
    clew = np.array([mast_x - (mast_x - boom_end) * math.cos(swing), (mast_x - boom_end) * math.sin(swing), boom_z])
    parts.append((_rod([(mast_x, 0, boom_z), clew], 0.05, 8), spar))
    sail_color = pick(rng, ((0.96, 0.95, 0.91), (0.96, 0.95, 0.91), (0.93, 0.88, 0.74), (0.70, 0.24, 0.14), *BRIGHTS))
    sail = _paint(sail_color, 0.9)
    lift = np.array([0, 0, 0.09])
    belly = 0.10 * math.copysign(1.0, swing) * (mast_x - boom_end)
    sheets = _sail(
        (mast_x - 0.07, 0, boom_z + 0.09), (mast_x - 0.07, 0, top - 0.1), clew + lift, belly, rng.random() < 0.6
    )
    stay = np.array([lines.x(0.99), 0, lines.depth + lines.sheer + 0.06])
    jib_clew = np.array([mast_x - 0.25, 0.5 * math.copysign(1.0, swing), deck_z + 0.5])
    jib_top = stay + (np.array([mast_x, 0, top - 0.7]) - stay) * 0.92
    jib = _sail(stay + _vec(0, 0, 0.12), jib_top, jib_clew, 0.7 * belly, False)
    jib_paint = sail if rng.random() < 0.7 else _paint(pick(rng, BRIGHTS), 0.9)
    parts += [(sheets["body"], sail), (jib["body"], jib_paint)]
    if "band" in sheets:
        parts.append((sheets["band"], accent))
    cabin_length = 0.28 * lines.length
    cabin = rounded_box(
        (cabin_length, 0.55 * lines.beam, 0.46), 0.14, (mast_x - 0.25 * cabin_length, 0, deck_z + 0.12), 3
    )
    ports = [
        ellipsoid((0.13, 0.03, 0.07), (mast_x - 0.25 * cabin_length + dx, 0.275 * lines.beam, deck_z + 0.17), 10)
        for dx in (-0.4, 0.0, 0.4)
    ]
    parts += [
        (cabin, Material((0.93, 0.92, 0.88), 0.4)),
        (merge(ports).with_twin(), BLACK),
        (rounded_box((0.26 * lines.length, 0.5 * lines.beam, 0.10), 0.04, (lines.x(0.20), 0, deck_z + 0.01), 2), BLACK),
        (_rod([(lines.x(0.03), 0, deck_z + 0.1), (lines.x(0.2), 0.05, deck_z + 0.4)], 0.035, 6), spar),
    ]
    if rng.random() < 0.6:
        flag = extrude([(0, 0), (-0.55, 0.13), (0, 0.28)], 0.02).rotated("x", 90).moved(mast_x - 0.05, 0.01, top - 0.06)
        parts.append((flag, accent))
    return parts


def _sail(tack: ArrayLike, head: ArrayLike, clew: ArrayLike, belly: float, band: bool) -> dict[str, Mesh]:
    """A three-cornered sail, bellied sideways by ``belly`` metres, perhaps with a band in a second colour."""
    a, b, c = (np.asarray(p, dtype=np.float64) for p in (tack, head, clew))
    up = np.array([0.0, 0.16, 0.32, 0.44, 0.58, 0.72, 0.86, 0.985])
    out = np.linspace(0, 1, 7)
    luff = a + up[:, None] * (b - a)
    leech = c + up[:, None] * (b - c)
    points = luff[:, None] * (1 - out[None, :, None]) + leech[:, None] * out[None, :, None]
    points[:, :, 1] += belly * np.sin(math.pi * out) ** 0.8 * np.sqrt(1 - up)[:, None]
    labels = np.full((7, 6), "body", dtype="<U12")
    if band:
        labels[3] = "band"
    return _split(points, labels)


def _speedboat(rng: Rng) -> Parts:
    lines = Lines(jitter(rng, 5.6, 0.08), jitter(rng, 2.1, 0.06), 0.95, 0.26, 0.90, jitter(rng, 0.55, 0.2))
    color = pick(rng, HULLS)
    paint = _paint(color, 0.15)
    meshes = _hull(lines, boot=0.10, stripe=True)
    accent = Material(pick(rng, ((0.95, 0.95, 0.94), (0.08, 0.08, 0.09), *BRIGHTS)), 0.3)
    mahogany = rng.random() < 0.3
    deck = _plank(rng) if mahogany else Material((0.94, 0.93, 0.90), 0.4)
    parts = _dress(
        meshes,
        {"body": paint, "boot": Material(_shade(color, 0.45), 0.5), "stripe": accent, "deck": deck, "rail": CHROME},
    )
    z = lines.depth
    pit = (lines.x(0.10), lines.x(0.56))
    centre, long = (pit[0] + pit[1]) / 2, pit[1] - pit[0]
    floor = Material((0.32, 0.24, 0.18) if mahogany else (0.22, 0.23, 0.25), 0.8)
    leather = Material(pick(rng, ((0.93, 0.91, 0.86), (0.72, 0.14, 0.12), (0.80, 0.66, 0.46), (0.16, 0.30, 0.52))), 0.6)
    parts.append((rounded_box((long, 0.72 * lines.beam, 0.10), 0.04, (centre, 0, z + 0.02), 2), floor))
    for x in np.linspace(pit[0] + 0.35, pit[1] - 0.75, 2):
        back = rounded_box((0.16, 0.62 * lines.beam, 0.42), 0.07, (x - 0.18, 0, z + 0.24), 2).rotated(
            "y", -10, (x, 0, z)
        )
        parts.append(([back, rounded_box((0.46, 0.62 * lines.beam, 0.16), 0.06, (x + 0.06, 0, z + 0.12), 2)], leather))
    # A wrap-around windscreen, leaning back.
    bow = np.linspace(-1, 1, 9)
    foot = np.stack([pit[1] + 0.30 - 0.55 * bow**2, 0.44 * lines.beam * bow, np.full(9, z + 0.02)], 1)
    head = np.stack([pit[1] - 0.08 - 0.55 * bow**2, 0.39 * lines.beam * bow, z + 0.52 - 0.12 * bow**2], 1)
    parts += [
        (grid_surface(np.stack([head, foot])), Material((0.20, 0.32, 0.40), 0.08)),
        (tube(head, 0.035, sides=6), CHROME),
        (torus(0.17, 0.03, 14, 6).rotated("y", -60).moved(pit[1] - 0.22, -0.3, z + 0.34), BLACK),
    ]
    stern = lines.x(0.0)
    if not mahogany:  # outboard engine
        cowl = Material(pick(rng, ((0.10, 0.10, 0.11), (0.93, 0.93, 0.92), (0.25, 0.27, 0.30))), 0.3)
        parts += [
            (rounded_box((0.55, 0.44, 0.55), 0.14, (stern - 0.32, 0, z + 0.28), 3), cowl),
            (rounded_box((0.57, 0.46, 0.09), 0.03, (stern - 0.32, 0, z + 0.12), 2), accent),
            (rounded_box((0.24, 0.14, 1.0), 0.06, (stern - 0.34, 0, z - 0.42), 2), cowl),
            (
                merge(
                    [
                        ellipsoid((0.03, 0.09, 0.20), (stern - 0.55, 0, z - 0.78), 8).rotated("x", a, (0, 0, z - 0.78))
                        for a in (0, 90)
                    ]
                ),
                STEEL,
            ),
        ]
    else:
        parts.append((_rod([(stern + 0.1, 0, z), (stern - 0.25, 0, z + 0.8)], 0.04, 6), STEEL))
        flag = box((0.5, 0.03, 0.34), (stern - 0.45, 0, z + 0.62))
        parts.append((flag, Material(pick(rng, BRIGHTS), 0.8)))
    return parts


def _cruiser(rng: Rng) -> Parts:
    """A cabin boat: a yacht with raked panes, or a fishing boat with an upright wheelhouse."""
    fishing = rng.random() < 0.5
    lines = Lines(
        jitter(rng, 8.0, 0.08), jitter(rng, 2.9, 0.06), 1.5, 0.75 if fishing else 0.45, 0.85, 0.8 if fishing else 0.55
    )
    color = pick(rng, HULLS)
    meshes = _hull(lines, boot=0.20, stripe=rng.random() < 0.7)
    boot = Material(pick(rng, ((0.50, 0.10, 0.08), (0.09, 0.09, 0.10), (0.10, 0.16, 0.34))), 0.6)
    accent = Material(pick(rng, ((0.95, 0.95, 0.93), *BRIGHTS)), 0.4)
    deck = _plank(rng) if rng.random() < 0.6 else Material((0.75, 0.75, 0.72), 0.7)
    parts = _dress(
        meshes,
        {
            "body": _paint(color, 0.3),
            "boot": boot,
            "stripe": accent,
            "deck": deck,
            "rail": Material((0.93, 0.93, 0.90), 0.4),
        },
    )
    z, b = lines.depth, lines.beam
    white = Material((0.94, 0.94, 0.92), 0.35)
    glass = _glass(rng)
    if fishing:
        x, tall = lines.x(jitter(rng, 0.40, 0.2)), 1.9
        house = rounded_box((2.1, 0.58 * b, tall), 0.10, (x, 0, z + tall / 2 - 0.1), 2)
        panes = [box((0.5, 0.58 * b + 0.06, 0.52), (x + dx, 0, z + tall * 0.62)) for dx in (-0.55, 0.45)]
        screen = [box((0.08, 0.24 * b, 0.55), (x + 1.04, s * 0.145 * b, z + tall * 0.62)) for s in (-1, 1)]
        screen += [box((0.08, 0.30 * b, 0.45), (x - 1.04, 0, z + tall * 0.62))]
        mast = x - 0.3
        top = z + tall + 1.9
        rig = [_rod([(mast, 0, z + tall - 0.1), (mast, 0, top)], 0.075, 8)]
        rig += [_rod([(mast, 0, z + tall + 0.2), (lines.x(0.06), 0, top - 0.3)], 0.06, 6)]
        rig += [
            _rod(
                [
                    (lines.x(0.16), -0.36 * b, z),
                    (lines.x(0.16), -0.36 * b, z + 1.3),
                    (lines.x(0.16), 0.36 * b, z + 1.3),
                    (lines.x(0.16), 0.36 * b, z),
                ],
                0.06,
                6,
            )
        ]
        buoy = torus(0.28, 0.085, 16, 6).rotated("x", 90).moved(x - 0.05, 0.29 * b + 0.05, z + 0.5)
        parts += [
            (house, white if rng.random() < 0.7 else Material(pick(rng, TEAK), 0.6)),
            (rounded_box((2.45, 0.68 * b, 0.14), 0.06, (x, 0, z + tall - 0.08), 2), _paint(color)),
            ([*panes, *screen], glass),
            (rig, Material((0.85, 0.80, 0.68), 0.5)),
            (buoy.with_twin(), Material((0.95, 0.35, 0.08), 0.5)),
            (rounded_box((0.9, 0.8, 0.45), 0.06, (lines.x(0.2), 0, z + 0.18), 2), Material((0.35, 0.42, 0.30), 0.9)),
        ]
        return parts
    # Yacht: a raked house of two storeys, drawn with the stations of a car.
    h = jitter(rng, 1.0, 0.1)
    y = 0.36 * b

    def at(x: float, belt: float, top: float, half: float) -> Station:
        return Station(lines.x(x), z - 0.1, y, z - 0.1 + belt, y, z - 0.1 + top, half * y)

    stations = [
        at(0.22, 0.30 * h, 1.10 * h, 0.85),
        at(0.24, 0.32 * h, 1.16 * h, 0.86),
        at(0.55, 0.36 * h, 1.20 * h, 0.86),
        at(0.57, 0.37 * h, 1.14 * h, 0.84),
        at(0.70, 0.40 * h, 0.50 * h, 0.84),
        at(0.86, 0.34 * h, 0.40 * h, 0.50),
    ]
    zones = [
        Zone("glass", lines.x(0.26), lines.x(0.41), 5, 6),
        Zone("glass", lines.x(0.43), lines.x(0.65), 5, 6),
        Zone("glass", lines.x(0.575), lines.x(0.69), 7, 10),
    ]
    meshes = _body(stations, zones, step=0.7)
    parts += _dress(meshes, {"body": white, "glass": glass})
    bridge = z - 0.1 + 1.2 * h
    wall = 0.62 * y
    parts += [
        (rounded_box((1.9, 2 * wall, 0.34), 0.12, (lines.x(0.40), 0, bridge + 0.12), 2), _paint(color)),
        (
            rounded_box((0.10, 1.9 * wall, 0.34), 0.04, (lines.x(0.51), 0, bridge + 0.42), 2).rotated(
                "y", -30, (lines.x(0.51), 0, bridge + 0.42)
            ),
            glass,
        ),
        (rounded_box((0.5, 1.2 * wall, 0.45), 0.12, (lines.x(0.37), 0, bridge + 0.40), 2), accent),
        (
            tube(
                [
                    (lines.x(0.27), -0.8 * y, z + 0.4),
                    (lines.x(0.25), -0.7 * y, bridge + 0.8),
                    (lines.x(0.25), 0.7 * y, bridge + 0.8),
                    (lines.x(0.27), 0.8 * y, z + 0.4),
                ],
                0.07,
                sides=8,
            ),
            white,
        ),
        (sphere(0.20, (lines.x(0.25), 0, bridge + 0.95), 12), white),
    ]
    posts = [
        (lines.x(f), 0.86 * float(lines.section(np.array([f]))[0][0]), float(lines.section(np.array([f]))[2][0]))
        for f in (0.62, 0.72, 0.82, 0.92, 0.985)
    ]
    railing = [_rod([p, (p[0], p[1], p[2] + 0.45)], 0.035, 5) for p in posts]
    railing.append(tube([(p[0], p[1], p[2] + 0.45) for p in posts], 0.04, sides=6))
    parts.append((merge(railing).with_twin(), CHROME))
    return parts


def _rowing(rng: Rng) -> Parts:
    lines = Lines(
        jitter(rng, 3.5, 0.08), jitter(rng, 1.35, 0.06), 0.52, 0.26, jitter(rng, 0.62, 0.15), jitter(rng, 0.9, 0.2)
    )
    color = pick(rng, (*HULLS, (0.55, 0.36, 0.20), (0.60, 0.74, 0.78)))
    wood = pick(rng, TEAK)
    planks = None if rng.random() < 0.5 else Pattern("stripes", _shade(color, 0.82), 0.16)
    meshes = _hull(lines, boot=0.0001, stripe=rng.random() < 0.5, inner=0.045)
    inside = Material(_shade(wood, 0.85), 0.8, pattern=Pattern("stripes", _shade(wood, 0.6), 0.14, axis="z"))
    trim = Material(_shade(wood, 0.75), 0.6)
    parts = _dress(
        meshes,
        {
            "body": _paint(color, 0.5, planks),
            "stripe": Material((0.93, 0.92, 0.88), 0.5),
            "deck": inside,
            "stern": inside,
            "rail": trim,
        },
    )
    bench = Material(wood, 0.65)
    for f in (0.10, 0.42, 0.74):
        half, _, rail = (float(v[0]) for v in lines.section(np.array([f])))
        parts.append((box((0.26, 1.9 * half - 0.05, 0.05), (lines.x(f), 0, rail - 0.10)), bench))
    half, _, rail = (float(v[0]) for v in lines.section(np.array([0.36])))
    x = lines.x(0.36)
    swing, dip = float(rng.uniform(-0.5, 0.35)), float(rng.uniform(0.02, 0.45))
    lock = np.array([x, half, rail + 0.06])
    reach = np.array([math.sin(swing), math.cos(swing), 0.0])
    blade = lock + 1.30 * reach + _vec(0, 0, dip - lock[2])
    out = (blade - lock) / np.linalg.norm(blade - lock)
    handle = lock - 0.42 * out
    paddle = tube(
        [blade - 0.30 * out, blade - 0.2 * out, blade + 0.12 * out],
        [(0.025, 0.02), (0.09, 0.018), (0.085, 0.016)],
        sides=8,
    )
    oar = _rod([handle, blade - 0.25 * out], 0.032, 8)
    tip = Material(pick(rng, ((0.93, 0.92, 0.88), *BRIGHTS)), 0.5)
    parts += [
        (oar.with_twin(), Material((0.80, 0.62, 0.38), 0.6)),
        (paddle.with_twin(), tip),
        (_rod([(x, half, rail), (x, half, rail + 0.10)], 0.04, 6).with_twin(), STEEL),
    ]
    return parts


# -------------------------------------------------------------------------------------------------------------- train
def _track(rng: Rng, length: float) -> tuple[Parts, float]:
    """Rails on sleepers under a train about the origin, and the height of the rails' top."""
    sleepers = [box((0.26, 2.5, 0.16), (x, 0, 0.08)) for x in np.arange(-length / 2 + 0.3, length / 2, 0.72)]
    rails = box((length, 0.12, 0.17), (0, 0.75, 0.245)).with_twin()
    wood = Material(pick(rng, ((0.30, 0.22, 0.16), (0.40, 0.31, 0.23), (0.55, 0.54, 0.51))), 0.9)
    return [(sleepers, wood), (rails, Material((0.50, 0.46, 0.43), 0.4, 0.5))], 0.33


def _bogie(x: float, rail: float, gap: float = 1.0) -> Parts:
    """Two axles in a frame."""
    r = 0.42
    wheels = [_cylinder(r, 0.14, 16, axis="y").moved(x + s * gap, 0.75, rail + r) for s in (-1, 1)]
    hubs = [_cylinder(0.16, 0.20, 10, axis="y").moved(x + s * gap, 0.80, rail + r) for s in (-1, 1)]
    frame = rounded_box((2 * gap + 0.6, 0.16, 0.26), 0.06, (x, 0.96, rail + r + 0.06), 2)
    return [
        (merge([*wheels]).with_twin(), Material((0.33, 0.31, 0.30), 0.5, 0.4)),
        (merge([frame, *hubs]).with_twin(), BLACK),
    ]


def _pantograph(x: float, roof: float) -> Mesh:
    """The current collector on an electric engine's roof."""
    arms = [
        _rod(
            [(x - 0.7, s * 0.35, roof + 0.08), (x + 0.35, s * 0.28, roof + 0.55), (x - 0.35, s * 0.22, roof + 1.08)],
            0.055,
            6,
        )
        for s in (-1, 1)
    ]
    bow = tube([(x - 0.35, y, roof + 1.12 - 0.10 * (abs(y) > 0.7)) for y in (-0.9, -0.65, 0.65, 0.9)], 0.065, sides=6)
    foot = [box((0.2, 1.0, 0.14), (x - 0.7, 0, roof + 0.05)), box((0.16, 0.7, 0.09), (x + 0.35, 0, roof + 0.55))]
    return merge([*arms, bow, *foot])


def _train(rng: Rng, state: str) -> Model:
    return Model.of(_steam(rng) if state == "steam" else _railcar(rng, state))


def _railcar(rng: Rng, state: str) -> Parts:
    """Electric and diesel engines have a flat or raked front, an express a pointed one and a coach behind."""
    w, base = 1.42, 1.05
    color = pick(rng, (*BRIGHTS, (0.92, 0.92, 0.91), (0.70, 0.05, 0.09), (0.10, 0.30, 0.22), (0.13, 0.20, 0.42)))
    accents = tuple(
        c for c in ((0.95, 0.95, 0.93), (0.97, 0.82, 0.15), (0.80, 0.10, 0.10), (0.15, 0.16, 0.18)) if c != color
    )
    accent = Material(pick(rng, accents), 0.35)
    paint = _paint(color, 0.3)
    glass = Material((0.08, 0.11, 0.14) if sum(color) > 0.9 else (0.34, 0.45, 0.52), 0.1)
    express = state == "express"
    coach = express and rng.random() < 0.6
    engine = jitter(rng, 8.0 if express else 7.6, 0.08)
    wagon = jitter(rng, 4.6, 0.08) if coach else 0.0
    total = engine + (wagon + 0.35 if coach else 0)
    top = jitter(rng, 3.75 if not express else 3.45, 0.03)
    front = total / 2
    rear = front - engine
    parts, rail = _track(rng, total + 0.8)
    low, belt = rail + 0.55, base + 1.15
    materials = {
        "body": paint,
        "under": BLACK,
        "glass": glass,
        "stripe": accent,
        "trim": TRIM,
        "seam": TRIM,
        "roof": Material((0.42, 0.43, 0.45), 0.6),
        "grille": Material((0.18, 0.18, 0.19), 0.7, pattern=Pattern("stripes", (0.5, 0.5, 0.5), 0.16)),
    }

    def at(x: float, side: float, belt: float, top: float, half: float = 0.80, sill: float = low) -> Station:
        return Station(x, sill, w * side, belt, w * side * 0.995, top, w * half * side)

    roof = [Zone("roof", rear, front, 7, 10)] if rng.random() < 0.5 else []
    if express:
        nose = jitter(rng, 2.9, 0.12)
        s = front - nose
        stations = [
            at(rear, 0.99, belt, top),
            at(s - 0.3, 1.0, belt, top),
            at(s + 0.05 * nose, 1.0, belt, top * 0.99),
            at(s + 0.22 * nose, 0.99, belt * 0.99, top * 0.955, 0.78),
            at(s + 0.52 * nose, 0.93, belt * 0.90, top * 0.76, 0.72),
            at(s + 0.78 * nose, 0.80, belt * 0.76, top * 0.575, 0.64),
            at(s + 0.93 * nose, 0.62, belt * 0.64, top * 0.45, 0.6, low + 0.02),
            at(front, 0.36, belt * 0.53, top * 0.355, 0.6, low + 0.12),
        ]
        edges = np.linspace(rear + 0.4, s - 0.4, int(rng.integers(4, 6)))
        zones = [
            Zone("stripe", rear, front, 2, 3),
            Zone("trim", rear, front, 0, 1),
            *[Zone("glass", a + 0.12, b - 0.12, 5, 6) for a, b in zip(edges[:-1], edges[1:], strict=True)],
            Zone("glass", s + 0.20 * nose, s + 0.50 * nose, 7, 10),
            Zone("lamp", s + 0.72 * nose, s + 0.92 * nose, 3, 4),
        ]
        materials["lamp"] = HEADLIGHT
    else:
        slope = jitter(rng, 0.50, 0.3)
        window = jitter(rng, 1.05, 0.1)
        stations = [
            at(rear, 0.96, belt * 0.98, top * 0.93, 0.86),
            at(rear + 0.25, 1.0, belt, top * 0.985),
            at(rear + 0.8, 1.0, belt, top),
            at(front - slope - 0.4, 1.0, belt, top),
            at(front - slope, 1.0, belt, top * 0.97),
            at(front - slope * 0.85, 0.995, belt, top * 0.93),
            at(front - 0.10, 0.96, belt, belt * 1.06, 0.86),
            at(front, 0.93, belt * 0.92, belt * 0.96, 0.86),
        ]
        zones = [
            *roof,
            Zone("stripe", rear, front, 2, 3),
            Zone("stripe", front - 0.02, front, 2, 10),
            Zone("glass", front - slope * 0.85, front - 0.12, 7, 10),
            Zone("glass", front - slope - 0.15 - window * 0.6, front - slope - 0.15, 5, 6),
        ]
        door = front - slope - 0.45 - window
        zones.append(Zone("seam", door - 0.62, door - 0.54, 1, 6))
        zones.append(Zone("seam", door - 0.04, door + 0.04, 1, 6))
        if state == "electric":
            edges = np.linspace(rear + 0.5, door - 0.9, 4)
            zones += [Zone("glass", a + 0.15, b - 0.15, 5, 6) for a, b in zip(edges[:-1], edges[1:], strict=True)]
        else:
            zones += [Zone("grille", a, a + 0.9, 4, 6) for a in np.arange(rear + 0.6, door - 1.6, 1.2)]
    meshes = _body(stations, zones, step=0.8)
    if not express:
        meshes["body"] = merge([meshes["body"], meshes.pop("front")])
    parts += _dress(meshes, materials)
    if not coach:  # the back: two panes, a gangway door and tail lamps
        panes = [box((0.10, 0.70, 0.75), (rear, s * 0.72, belt + 0.50)) for s in (-1, 1)]
        lamps = [_cylinder(0.13, 0.12, 12, axis="x").moved(rear, s * 0.95, base + 0.55) for s in (-1, 1)]
        parts += [
            (panes, glass),
            (lamps, TAILLIGHT),
            (box((0.08, 0.10, 1.7), (rear, 0, belt)), TRIM),
            (box((0.10, 2.1, 0.34), (rear, 0, low + 0.25)), TRIM),
        ]
    axle = 1.55
    parts += [*_bogie(rear + axle, rail), *_bogie(front - axle - (0.7 if express else 0), rail)]
    parts.append((box((engine - 4.6, 1.9, 0.55), ((rear + front) / 2 - (0.3 if express else 0), 0, rail + 0.62)), TRIM))
    if not express:
        face = front + 0.01
        lamps = [_cylinder(0.15, 0.12, 14, axis="x").moved(face, s * 0.95, base + 0.55) for s in (-1, 1)]
        high = _cylinder(0.16, 0.2, 14, axis="x").moved(front - slope + 0.04, 0, top * 0.955)
        buffers = [_cylinder(0.10, 0.40, 10, axis="x").moved(face + 0.2, s * 0.85, low + 0.25) for s in (-1, 1)]
        buffers += [_cylinder(0.22, 0.07, 14, axis="x").moved(face + 0.42, s * 0.85, low + 0.25) for s in (-1, 1)]
        plough = extrude([(-0.25, -1.25), (0.25, -0.75), (0.42, 0), (0.25, 0.75), (-0.25, 1.25)], 0.38)
        parts += [
            ([*lamps, high], HEADLIGHT),
            (buffers, TRIM),
            (plough.moved(front - 0.1, 0, rail + 0.10), pick(rng, (BLACK, accent, TAILLIGHT))),
            (box((0.08, 2.1, 0.34), (face - 0.005, 0, low + 0.25)), TRIM),
        ]
        if state == "electric":
            parts.append((_pantograph((rear + front) / 2 + 0.6, top), TRIM))
            parts.append(
                (
                    [
                        _cylinder(0.11, 0.3, 10).moved((rear + front) / 2 - 1.2 + 0.5 * k, 0, top + 0.1)
                        for k in range(3)
                    ],
                    Material((0.45, 0.22, 0.14), 0.4),
                )
            )
        else:
            fans = [_cylinder(0.48, 0.16, 16).moved(rear + 1.4 + 1.2 * k, 0, top + 0.02) for k in range(2)]
            stack = box((0.7, 0.5, 0.34), ((rear + front) / 2 + 0.6, 0, top + 0.1))
            parts += [(fans, TRIM), (stack, BLACK)]
    elif rng.random() < 0.6:
        parts.append((_pantograph(rear + 1.2, top), TRIM))
    if coach:
        a, b = -front, -front + wagon
        height = top * (0.985 if not express else 1.0)
        stations = [
            at(a, 0.98, belt, height),
            at(a + 0.2, 1.0, belt, height),
            at(b - 0.2, 1.0, belt, height),
            at(b, 0.99, belt, height),
        ]
        edges = np.linspace(a + 0.35, b - 0.35, int(rng.integers(5, 7)))
        zones = [Zone("roof", a, b, 7, 10)] if roof and not express else []
        zones += [
            Zone("stripe", a, b, 2, 3),
            *[Zone("glass", p + 0.12, q - 0.12, 5, 6) for p, q in zip(edges[:-1], edges[1:], strict=True)],
        ]
        if express:
            zones.append(Zone("trim", a, b, 0, 1))
        parts += _dress(_body(stations, zones, step=1.0), materials)
        parts += [*_bogie(a + 1.4, rail, 0.75), *_bogie(b - 1.4, rail, 0.75)]
        parts.append((box((0.6, 2.0, height - low - 0.5), ((b + rear) / 2, 0, (height + low) / 2)), BLACK))
    return parts


def _steam(rng: Rng) -> Parts:
    tender = rng.random() < 0.6
    engine = jitter(rng, 7.4, 0.06)
    back = 2.7 if tender else 0.0
    total = engine + back + (0.3 if tender else 0)
    parts, rail = _track(rng, total + 1.0)
    front = total / 2
    rear = front - engine
    color = pick(rng, ((0.10, 0.11, 0.12), (0.07, 0.28, 0.16), (0.55, 0.07, 0.08), (0.10, 0.22, 0.45), *BRIGHTS))
    paint = _paint(color, 0.3)
    red = pick(
        rng,
        (Material((0.72, 0.08, 0.07), 0.5), Material((0.72, 0.08, 0.07), 0.5), TRIM, Material(_shade(color, 0.6), 0.5)),
    )
    brass = Material((0.85, 0.65, 0.25), 0.25, 0.8)
    soot = Material((0.08, 0.08, 0.085), 0.7)
    r, axis = jitter(rng, 0.88, 0.05), rail + 2.12
    cab_length, cab_half = 1.75, 1.32
    cab_front = rear + cab_length
    boiler_end = front - 1.35
    boiler = _cylinder(r, boiler_end - cab_front + 0.1, 20, axis="x").moved((boiler_end + cab_front) / 2, 0, axis)
    smokebox = _cylinder(r * 1.03, 1.0, 20, axis="x").moved(boiler_end + 0.45, 0, axis)
    door = ellipsoid((0.14, 0.80 * r, 0.80 * r), (boiler_end + 0.95, 0, axis), 16)
    bands = [
        _cylinder(r * 1.025, 0.10, 20, axis="x").moved(x, 0, axis)
        for x in np.linspace(cab_front + 0.5, boiler_end - 0.3, 3)
    ]
    parts += [(boiler, paint), ([smokebox, door], soot), (bands, brass)]
    # Chimney, dome, sand box, whistle, lamp.
    flare = pick(rng, (0.30, 0.42, 0.55))
    chimney = lathe(
        [
            (0.34, 0),
            (0.24, 0.15),
            (0.24, 0.15),
            (0.25, 0.5),
            (flare, 0.85),
            (flare, 0.85),
            (flare, 0.95),
            (flare, 0.95),
            (0.2, 0.96),
        ],
        16,
    )
    dome = lathe([(0.42, 0), (0.34, 0.1), (0.33, 0.32), (0.24, 0.48), (0.0, 0.56)], 16)
    parts += [
        (chimney.moved(boiler_end + 0.45, 0, axis + 0.93 * r), soot),
        (
            dome.moved(cab_front + 0.42 * (boiler_end - cab_front), 0, axis + 0.93 * r),
            brass if rng.random() < 0.6 else paint,
        ),
        (_cylinder(0.26, 0.5, 14).moved(cab_front + 0.75 * (boiler_end - cab_front), 0, axis + r + 0.12), paint),
        (_cylinder(0.22, 0.26, 14, axis="x").moved(boiler_end + 0.95, 0, axis + r + 0.22), brass),
        (_cylinder(0.18, 0.06, 14, axis="x").moved(boiler_end + 1.10, 0, axis + r + 0.22), HEADLIGHT),
    ]
    # Cab.
    sill, eaves = rail + 1.25, rail + 3.35
    wall = extrude(
        [
            (rear, sill),
            (cab_front, sill),
            (cab_front, eaves),
            (rear, eaves),
            (rear, eaves - 0.35),
            (rear + 0.45, eaves - 0.35),
            (rear + 0.45, sill + 1.1),
            (rear, sill + 1.0),
        ],
        0.08,
    ).rotated("x", 90)
    arc = np.linspace(-1, 1, 9)
    top = [
        np.stack([np.full(9, x), -1.12 * cab_half * arc, eaves + 0.02 + 0.34 * (1 - arc**2)], 1)
        for x in (rear - 0.15, cab_front + 0.15)
    ]
    under = [t[::-1] - _vec(0, 0, 0.09) for t in top]
    parts += [
        (merge([wall.moved(y=cab_half)]).with_twin(), paint),
        (box((0.08, 2 * cab_half - 0.02, eaves - sill + 0.25), (cab_front - 0.06, 0, (eaves + sill) / 2 + 0.1)), paint),
        (
            loft(np.stack([np.concatenate([a, b]) for a, b in zip(top, under, strict=True)])[:, ::-1], smooth=False),
            soot,
        ),
        (
            box((0.62, 0.05, 0.66), (cab_front - 0.62, cab_half + 0.01, eaves - 0.62)).with_twin(),
            Material((0.10, 0.13, 0.16), 0.2),
        ),
        (box((0.05, 0.55, 0.55), (cab_front, 0.98, eaves - 0.42)).with_twin(), Material((0.10, 0.13, 0.16), 0.2)),
        (box((cab_length - 0.2, 2 * cab_half - 0.1, 0.8), (rear + cab_length / 2 + 0.05, 0, sill + 0.3)), soot),
    ]
    # Frame, running board, cylinders, buffer beam, cow catcher.
    board = rail + 1.30
    parts += [
        (box((front - rear - 0.5, 2.35, 0.12), ((front + rear) / 2, 0, board)), red),
        (box((front - rear - 0.8, 1.0, 0.75), ((front + rear) / 2, 0, rail + 0.9)), soot),
        (box((0.22, 2.5, 0.5), (front - 0.22, 0, rail + 1.08)), Material((0.75, 0.08, 0.07), 0.5)),
        (_cylinder(0.33, 0.95, 14, axis="x").moved(front - 1.0, 1.05, rail + 0.72).with_twin(), paint),
    ]
    if rng.random() < 0.6:
        bars = [
            _rod([(front - 0.1, y, rail + 0.92), (front + 0.62 - 0.42 * abs(y), y, rail + 0.10)], 0.06, 6)
            for y in np.linspace(-1.1, 1.1, 8)
        ]
        foot = tube(
            [(front + 0.16, -1.1, rail + 0.1), (front + 0.62, 0, rail + 0.1), (front + 0.16, 1.1, rail + 0.1)],
            0.07,
            sides=6,
        )
        parts.append(([*bars, foot], red))
    else:
        buffers = [_cylinder(0.11, 0.4, 10, axis="x").moved(front + 0.05, s * 0.85, rail + 1.08) for s in (-1, 1)]
        buffers += [_cylinder(0.23, 0.07, 14, axis="x").moved(front + 0.27, s * 0.85, rail + 1.08) for s in (-1, 1)]
        parts.append((buffers, soot))
    # Driving wheels with spokes and a rod along them; small wheels in front.
    big = jitter(rng, 0.66, 0.08)
    count = pick(rng, (2, 3))
    first = rear + 1.05
    centres = [(first + k * (2.05 * big + 0.14), 0.80, rail + big) for k in range(count)]
    tread = torus(big - 0.07, 0.075, 20, 5)
    arms = [box((1.7 * big, 0.09, 0.07)).rotated("z", 180 * k / 5) for k in range(5)]
    driver = merge([tread, *arms, _cylinder(0.17, 0.2, 10)]).rotated("x", 90)
    plain = _cylinder(0.36, 0.15, 16, axis="y")
    turn = math.radians(float(rng.uniform(0, 360)))
    pin = np.array([0.36 * math.cos(turn), 0.13, 0.36 * math.sin(turn)])
    rod = _rod([np.array(centres[0]) + pin, np.array(centres[-1]) + pin], 0.065, 6)
    piston = _rod([np.array(centres[-1]) + pin, (front - 1.2, 1.05, rail + 0.72)], 0.06, 6)
    parts += [
        (merge([driver.moved(*c) for c in centres]).with_twin(), red),
        (merge([rod, piston]).with_twin(), STEEL),
        (merge([plain.moved(front - 0.72, 0.78, rail + 0.36)]).with_twin(), red),
    ]
    if centres[-1][0] + big < front - 2.3:
        parts.append((plain.moved(front - 1.75, 0.78, rail + 0.36).with_twin(), red))
    if tender:
        a, b = -front, -front + back
        body = rounded_box((b - a, 2.4, 1.35), 0.08, ((a + b) / 2, 0, rail + 1.95), 2)
        rows = np.linspace(a + 0.35, b - 0.35, 5)
        lumps = [
            ellipsoid((0.42, 0.62, 0.36), (x, y, rail + 2.66 + float(rng.uniform(-0.06, 0.12))), 8)
            for x in rows
            for y in (-0.5, 0.5)
        ]
        wheels = [plain.moved((a + b) / 2 + dx, 0.78, rail + 0.36) for dx in (-0.8, 0.0, 0.8)]
        parts += [
            (body, paint),
            (box((b - a - 0.2, 2.44, 0.10), ((a + b) / 2, 0, rail + 2.36)), brass),
            (lumps, Material((0.05, 0.05, 0.055), 0.6)),
            (merge(wheels).with_twin(), red),
            (box((b - a + 0.5, 1.9, 0.35), ((a + b) / 2 + 0.2, 0, rail + 1.05)), soot),
        ]
    else:
        parts.append(
            (rounded_box((2.3, 0.34, 0.72), 0.06, (cab_front + 1.25, 0.98, board + 0.42), 2).with_twin(), paint)
        )
    return parts


# --------------------------------------------------------------------------------------------------------- skateboard
def _skateboard(rng: Rng, state: str) -> Model:
    longboard = rng.random() < 0.25
    length = jitter(rng, 0.98 if longboard else 0.78, 0.05)
    half = jitter(rng, 0.115, 0.06)
    kick = 0.02 if longboard else jitter(rng, 0.062, 0.2)
    thick = 0.017
    radius = jitter(rng, 0.036 if longboard else 0.031, 0.08)
    height = radius * 2 + 0.045
    # Plan and profile of the deck.
    u = np.concatenate([np.linspace(-1, -0.7, 7), np.linspace(-0.7, 0.7, 7)[1:-1], np.linspace(0.7, 1, 7)])
    x = u * length / 2
    bend = 0.66
    z = kick * np.clip((np.abs(u) - bend) / (1 - bend), 0, 1) ** 1.25 + height
    end = np.clip((np.abs(u) - 0.72) / 0.28, 0, 1)
    wide = half * np.sqrt(np.maximum(1 - end**2.4, 0.004))
    if longboard:
        wide *= 1 - 0.12 * np.cos(u * math.pi) ** 2 * (np.abs(u) < 0.5)
    v = np.array([-1.0, -0.86, -0.3, 0.3, 0.86, 1.0])
    y = wide[:, None] * v
    rise = 0.008 * np.abs(v) ** 2
    top = np.stack([np.broadcast_to(x[:, None], y.shape), y, z[:, None] + rise + thick], axis=2)
    low = top - _vec(0, 0, thick)
    around = np.concatenate([top[:, 0], top[::-1, -1]])
    below = np.concatenate([low[:, 0], low[::-1, -1]])
    color = pick(rng, (*BRIGHTS, *BRIGHTS, (0.80, 0.62, 0.40), (0.92, 0.92, 0.9), (0.15, 0.15, 0.16)))
    second = pick(rng, [c for c in (*BRIGHTS, (0.95, 0.95, 0.92)) if c != color])
    pattern = None
    kind = float(rng.random())
    if kind < 0.25:
        pattern = Pattern("stripes", second, length / 4, axis="x")
    elif kind < 0.4:
        pattern = Pattern("stripes", second, half * 0.9, axis="y")
    elif kind < 0.5:
        pattern = Pattern("dots", second, 0.09, axis="x")
    deck = _paint(color, 0.35, pattern)
    # Seen from above: a bright deck, or black grip with the colour showing at nose and tail.
    labels = np.full((len(u) - 1, 5), "body", dtype="<U12")
    middle = np.abs(u[:-1] + u[1:]) / 2
    if state == "on its side" or rng.random() < 0.5:  # from behind, the grip is what tells it from a plank
        labels[middle < 0.62, 1:4] = "grip"
    elif rng.random() < 0.5:
        labels[(middle > 0.15) & (middle < 0.5), 1:4] = "grip"
    surface = _split(top[:, ::-1], labels[:, ::-1])
    ply = Material((0.86, 0.70, 0.46), 0.6)
    parts: Parts = _dress(
        surface,
        {"body": deck, "grip": Material((0.11, 0.11, 0.12), 0.95, pattern=Pattern("speckle", (0.2, 0.2, 0.2), 0.01))},
    )
    rim = grid_surface(np.stack([around, below]), wrap_cols=True, smooth=False)
    parts += [(grid_surface(low), deck), (rim, deck if rng.random() < 0.6 else ply)]
    # Trucks and wheels.
    wheel_width, base = 0.052 if longboard else 0.044, 0.56 * length / 2
    tyre = pick(rng, ((0.95, 0.93, 0.86), (0.95, 0.93, 0.86), *BRIGHTS))
    wheels, cores, trucks = [], [], []
    profile = [
        (0.0, -0.5),
        (0.7, -0.5),
        (0.7, -0.5),
        (0.95, -0.36),
        (1.0, 0.0),
        (0.95, 0.36),
        (0.7, 0.5),
        (0.7, 0.5),
        (0.0, 0.5),
    ]
    wheel = lathe([(a * radius, b * wheel_width) for a, b in profile], 16).rotated("x", 90)
    for s in (-1, 1):
        for side in (-1, 1):
            position = (s * base, side * (half - 0.012), radius)
            wheels.append(wheel.moved(*position))
            cores.append(_cylinder(0.38 * radius, wheel_width + 0.010, 10, axis="y").moved(*position))
        trucks.append(box((0.085, 0.062, 0.014), (s * base, 0, height - 0.006)))
        trucks.append(tube([(s * base, -half + 0.02, radius), (s * base, half - 0.02, radius)], 0.013, sides=8))
        trucks.append(
            frustum(0.036, 0.020, height - radius - 0.006, 8).rotated("x", 180).moved(s * base, 0, height - 0.008)
        )
    parts += [(wheels, Material(tyre, 0.5)), (cores, TRIM), (trucks, pick(rng, (STEEL, CHROME, TRIM)))]
    meshes = [(m if isinstance(m, Mesh) else merge(m), s) for m, s in parts]
    if state == "on its tail":  # stood on the tail wheels, nose in the air, as if about to be picked up
        angle = float(rng.uniform(16, 30))
        meshes = [(m.rotated("y", -angle, (-length / 2, 0, height)), s) for m, s in meshes]
    elif state == "on its side":  # on one long edge, showing graphics and wheels
        meshes = [(m.rotated("x", -60), s) for m, s in meshes]
    lowest = min(float(m.bounds[0][2]) for m, _ in meshes)
    return Model.of([(m.moved(z=-lowest), s) for m, s in meshes])


ASSETS: tuple[Asset, ...] = (
    Asset("airplane", _airplane, states=("airliner", "propeller", "biplane", "jet"), size=1.15),
    Asset(
        "bicycle", _bicycle, states=("city", "road", "mountain"), views=((0.0, 60.0), (120.0, 240.0), (300.0, 360.0))
    ),
    Asset(
        "boat",
        _boat,
        states=("sailing", "speedboat", "rowing", "cruiser"),
        size=1.05,
        views=((0.0, 75.0), (105.0, 255.0), (285.0, 360.0)),
    ),
    Asset("bus", _bus, states=("city", "school", "double-decker"), size=1.1),
    Asset("car", _car, states=CAR_KINDS),
    Asset(
        "skateboard",
        _skateboard,
        states=("rolling", "on its side", "on its tail"),
        size=0.95,
        views=((0.0, 65.0), (115.0, 245.0), (295.0, 360.0)),
    ),
    Asset("train", _train, states=("electric", "steam", "express", "diesel"), size=1.15),
    Asset("van", _van, states=("delivery", "minibus", "camper")),
)
