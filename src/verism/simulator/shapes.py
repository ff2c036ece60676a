"""Meshes made in code: primitives, sweeps and lathes, as triangle soups with a normal at every corner.

A soup (no shared vertices) needs no index book-keeping: merging is concatenation, an edge is sharp where the two corner
normals differ, and the ray caster takes it as it is. Lengths are metres, z is up, and models face +x.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float32]

__all__ = [
    "Mesh",
    "box",
    "capsule",
    "cone",
    "cylinder",
    "ellipsoid",
    "extremes",
    "extrude",
    "frustum",
    "grid_surface",
    "lathe",
    "loft",
    "merge",
    "plate",
    "rounded_box",
    "rounded_polygon",
    "sphere",
    "spline",
    "torus",
    "tube",
]


@dataclass(frozen=True, eq=False)
class Mesh:
    """Triangles with corner normals.

    Attributes:
        triangles: corner positions, shape (F, 3, 3), float32.
        normals: unit corner normals, shape (F, 3, 3), float32.
    """

    triangles: Array
    normals: Array

    def __len__(self) -> int:
        return len(self.triangles)

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Smallest and largest corner coordinates, each shape (3,)."""
        return extremes(self.triangles.reshape(-1, 3))

    def transformed(self, matrix: ArrayLike) -> Mesh:
        """The mesh under an affine 3x4 or 4x4 matrix; a mirroring matrix keeps normals pointing outwards."""
        m = np.asarray(matrix, dtype=np.float64)
        linear, offset = m[:3, :3], m[:3, 3]
        # As one product of many rows: numpy would loop over a stack of 3 x 3 ones.
        corners = self.triangles.reshape(-1, 3) @ linear.T + offset
        triangles = corners.astype(np.float32).reshape(-1, 3, 3)
        # Normals transform by the inverse transpose; the cofactor matrix is the same up to a factor, and exists for
        # flattened shapes as well. Its sign under mirroring is undone so that normals keep pointing outwards.
        cofactor = _cross(linear[[1, 2, 0]], linear[[2, 0, 1]])
        mirrored = float(linear[0] @ cofactor[0]) < 0  # the determinant
        normals = _unit(self.normals.reshape(-1, 3) @ cofactor.T * (-1.0 if mirrored else 1.0)).reshape(-1, 3, 3)
        if mirrored:
            triangles, normals = triangles[:, ::-1], normals[:, ::-1]
        return Mesh(np.ascontiguousarray(triangles), np.ascontiguousarray(normals))

    def moved(self, x: float = 0.0, y: float = 0.0, z: float = 0.0) -> Mesh:
        """Translated by (x, y, z)."""
        return Mesh((self.triangles + np.array([x, y, z], dtype=np.float32)).astype(np.float32), self.normals)

    def scaled(self, x: float, y: float | None = None, z: float | None = None) -> Mesh:
        """Scaled about the origin; one factor scales evenly."""
        factors = (x, x if y is None else y, x if z is None else z)
        return self.transformed(np.hstack([np.diag(factors), np.zeros((3, 1))]))

    def rotated(self, axis: str | Sequence[float], degrees: float, about: Sequence[float] = (0, 0, 0)) -> Mesh:
        """Rotated counter-clockwise (seen against the axis) about an axis ``x``, ``y``, ``z`` or a vector."""
        vector = (
            {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}.get(axis, axis)
            if isinstance(axis, str)
            else axis
        )
        r = rotation_matrix(vector, degrees)  # type: ignore[arg-type]
        pivot = np.asarray(about, dtype=np.float64)
        return self.transformed(np.hstack([r, (pivot - r @ pivot)[:, None]]))

    def mirrored(self, axis: str = "y") -> Mesh:
        """Reflected through the plane where the coordinate ``axis`` is zero."""
        factors = [1.0, 1.0, 1.0]
        factors["xyz".index(axis)] = -1.0
        return self.transformed(np.hstack([np.diag(factors), np.zeros((3, 1))]))

    def with_twin(self, axis: str = "y") -> Mesh:
        """The mesh together with its mirror image: left and right legs, wheels, wings."""
        return merge([self, self.mirrored(axis)])


def extremes(points: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Smallest and largest coordinates of points, (N, 3) -> (3,) each.

    By rows of coordinates: numpy reduces short rows of three up to twenty times more slowly.
    """
    rows = np.ascontiguousarray(points.T)
    return rows.min(axis=1), rows.max(axis=1)


def rotation_matrix(axis: Sequence[float], degrees: float) -> NDArray[np.float64]:
    """Rodrigues' rotation matrix, shape (3, 3)."""
    x, y, z = np.asarray(axis, dtype=np.float64) / np.linalg.norm(axis)
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    k = 1 - c
    return np.array(
        [
            [c + x * x * k, x * y * k - z * s, x * z * k + y * s],
            [y * x * k + z * s, c + y * y * k, y * z * k - x * s],
            [z * x * k - y * s, z * y * k + x * s, c + z * z * k],
        ]
    )


def merge(meshes: Sequence[Mesh]) -> Mesh:
    """Several meshes as one."""
    if not meshes:
        return Mesh(np.zeros((0, 3, 3), np.float32), np.zeros((0, 3, 3), np.float32))
    return Mesh(np.concatenate([m.triangles for m in meshes]), np.concatenate([m.normals for m in meshes]))


# ------------------------------------------------------------------------------------------------- building blocks
def _unit(v: NDArray[np.floating]) -> Array:
    length = np.sqrt(np.einsum("...i,...i->...", v, v))[..., None]
    return np.asarray(v / np.maximum(length, 1e-12), dtype=np.float32)


def _cross(a: NDArray[np.floating], b: NDArray[np.floating]) -> NDArray[np.floating]:
    """Cross products of rows, (N, 3); ``np.cross`` takes four times as long on the short arrays models are made of."""
    product: NDArray[np.floating] = np.empty_like(a)
    (x, y, z), (u, v, w) = a.T, b.T
    product[:, 0], product[:, 1], product[:, 2] = y * w - z * v, z * u - x * w, x * v - y * u
    return product


def _lengths(v: NDArray[np.floating]) -> NDArray[np.floating]:
    """Lengths of the vectors along the last axis, which keeps its place; ``np.linalg.norm`` without its overhead."""
    lengths: NDArray[np.floating] = np.sqrt(np.einsum("...i,...i->...", v, v))[..., None]
    return lengths


def _flat(triangles: ArrayLike) -> Mesh:
    t = np.asarray(triangles, dtype=np.float32)
    face = _unit(_cross(t[:, 1] - t[:, 0], t[:, 2] - t[:, 0]))
    return Mesh(t, np.repeat(face[:, None], 3, axis=1))


@lru_cache(maxsize=512)
def _faces(rows: int, cols: int, wrap_rows: bool, wrap_cols: bool) -> NDArray[np.int64]:
    i = np.arange(rows if wrap_rows else rows - 1)
    j = np.arange(cols if wrap_cols else cols - 1)
    i, j = (a.ravel() for a in np.meshgrid(i, j, indexing="ij"))
    i2, j2 = (i + 1) % rows, (j + 1) % cols
    a, b, c, d = i * cols + j, i * cols + j2, i2 * cols + j2, i2 * cols + j
    faces = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])
    faces.setflags(write=False)
    return faces


def grid_surface(points: ArrayLike, *, wrap_rows: bool = False, wrap_cols: bool = False, smooth: bool = True) -> Mesh:
    """A surface through a grid of points, shape (R, C, 3).

    The front side is where columns run counter-clockwise around rows that go up (right-hand rule of column direction
    x row direction). Degenerate triangles (poles) are dropped. Normals are area-weighted over neighbours if smooth.
    """
    p = np.asarray(points, dtype=np.float64)
    rows, cols = p.shape[:2]
    flat = p.reshape(-1, 3)
    faces = _faces(rows, cols, wrap_rows, wrap_cols)
    corners = flat[faces]
    area = _cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    keep = _lengths(area)[:, 0] > 1e-12
    if not keep.all():
        faces, corners, area = faces[keep], corners[keep], area[keep]
    if not smooth:
        return _flat(corners)
    # Points that coincide (poles, seams) share one normal, or the shading would show a seam.
    shared = _shared(np.round(flat, 6))
    met = shared[faces]
    total: NDArray[np.float64] = np.stack(
        [np.bincount(met.T.ravel(), np.tile(area[:, k], 3)) for k in range(3)], axis=1
    )
    return Mesh(corners.astype(np.float32), _unit(total[met]))


def _shared(points: NDArray[np.float64]) -> NDArray[np.intp]:
    """A number for each point (N, 3), the same for equal points; ``np.unique`` of rows takes much longer."""
    order = np.lexsort(points.T)
    ordered = points[order]
    numbers = np.empty(len(points), np.intp)
    numbers[order] = np.concatenate([[0], np.cumsum((ordered[1:] != ordered[:-1]).any(axis=1))])
    return numbers


def loft(rings: ArrayLike, *, cap_start: bool = True, cap_end: bool = True, smooth: bool = True) -> Mesh:
    """A skin over closed rings, shape (R, C, 3), each counter-clockwise when seen from the end they move towards."""
    p = np.asarray(rings, dtype=np.float64)
    parts = [grid_surface(p, wrap_cols=True, smooth=smooth)]
    if cap_start:
        parts.append(_fan(p[0][::-1]))
    if cap_end:
        parts.append(_fan(p[-1]))
    return merge(parts)


def _fan(ring: NDArray[np.float64]) -> Mesh:
    centre = ring.mean(axis=0)
    nxt = np.roll(ring, -1, axis=0)
    triangles = np.stack([np.broadcast_to(centre, ring.shape), ring, nxt], axis=1)
    keep = _lengths(_cross(ring - centre, nxt - centre))[:, 0] > 1e-12
    return _flat(triangles[keep])


# ------------------------------------------------------------------------------------------------------ primitives
def box(size: Sequence[float], center: Sequence[float] = (0, 0, 0)) -> Mesh:
    """A box with sharp edges, ``size`` (x, y, z) about ``center``."""
    corners = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])
    quads = np.array([[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]])
    faces = np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])
    return _flat((corners * np.asarray(size) + np.asarray(center))[faces])


def rounded_box(size: Sequence[float], radius: float, center: Sequence[float] = (0, 0, 0), segments: int = 3) -> Mesh:
    """A box with rounded edges and corners; ``radius`` is limited to half the smallest side."""
    half = np.asarray(size, dtype=np.float64) / 2
    r = min(radius, float(half.min()) * 0.999)
    direction, side, faces, outwards = _rounded_cube(segments)
    points = (side * (half - r) + direction * r + np.asarray(center)).reshape(-1, 3)
    triangles, normals = points[faces], direction.reshape(-1, 3)[faces]
    area = _cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    keep = _lengths(area)[:, 0] > 1e-14
    triangles, normals = triangles[keep], normals[keep]
    # Where the grid's triangles look inwards two corners change places.
    flip = np.einsum("fi,fi->f", area[keep], outwards[keep]) < 0
    triangles[flip], normals[flip] = triangles[flip][:, ::-1], normals[flip][:, ::-1]
    return Mesh(triangles.astype(np.float32), normals.astype(np.float32))


@lru_cache(maxsize=16)
def _rounded_cube(segments: int) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64], Any]:
    """What all rounded boxes share: the six face grids of a cube with extra rows at the rim.

    Returns:
        Unit directions of the grid's points and the corner of the core box each belongs to, signs (6, R, R, 3) both;
        triangles over the points, (F, 3), and the mean direction of each, (F, 3).
    """
    t = np.tan(np.linspace(-math.pi / 4, math.pi / 4, 2 * segments + 1))
    t = np.concatenate([t[: segments + 1], t[segments:]])
    side = np.concatenate([np.full(segments + 1, -1.0), np.full(segments + 1, 1.0)])
    u, v = np.meshgrid(t, t, indexing="ij")
    su, sv = np.meshgrid(side, side, indexing="ij")
    n = len(t)
    directions, sides = np.zeros((6, n, n, 3)), np.zeros((6, n, n, 3))
    for number in range(6):
        axis, sign = number // 2, (-1.0, 1.0)[number % 2]
        b, c = (axis + 1) % 3, (axis + 2) % 3
        for grids, values in ((directions, (sign, u, v)), (sides, (sign, su, sv))):
            grid = np.empty((n, n, 3))
            grid[..., axis], grid[..., b], grid[..., c] = values
            grids[number] = grid.transpose(1, 0, 2) if sign > 0 else grid
    directions /= np.linalg.norm(directions, axis=-1, keepdims=True)
    faces = np.concatenate([_faces(n, n, False, False) + number * n * n for number in range(6)])
    return directions, sides, faces, directions.reshape(-1, 3)[faces].mean(axis=1)


def plate(width: float, depth: float) -> Mesh:
    """A one-sided rectangle in the plane z = 0, looking up."""
    w, d = width / 2, depth / 2
    return _flat([[[-w, -d, 0], [w, -d, 0], [w, d, 0]], [[-w, -d, 0], [w, d, 0], [-w, d, 0]]])


def frustum(bottom: float, top: float, height: float, segments: int = 20, *, capped: bool = True) -> Mesh:
    """A cone cut off, radius ``bottom`` at z = 0 and ``top`` at z = ``height``."""
    angle = np.linspace(0, 2 * math.pi, segments, endpoint=False)
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    rings = np.zeros((2, segments, 3))
    rings[0, :, :2], rings[1, :, :2], rings[1, :, 2] = ring * bottom, ring * top, height
    return loft(rings, cap_start=capped and bottom > 0, cap_end=capped and top > 0)


def cylinder(radius: float, height: float, segments: int = 20, *, axis: str = "z", capped: bool = True) -> Mesh:
    """A cylinder centred on the origin, its length along ``axis``."""
    mesh = frustum(radius, radius, height, segments, capped=capped).moved(z=-height / 2)
    if axis == "z":
        return mesh
    return mesh.rotated("y", 90) if axis == "x" else mesh.rotated("x", -90)


def cone(radius: float, height: float, segments: int = 20) -> Mesh:
    """A cone standing on z = 0."""
    return frustum(radius, 0.0, height, segments)


@lru_cache(maxsize=16)
def _ball(segments: int) -> Mesh:
    """The unit sphere."""
    latitude = np.linspace(-math.pi / 2, math.pi / 2, max(4, segments // 2 + 1))
    longitude = np.linspace(0, 2 * math.pi, segments, endpoint=False)
    la, lo = np.meshgrid(latitude, longitude, indexing="ij")
    mesh = grid_surface(
        np.stack([np.cos(la) * np.cos(lo), np.cos(la) * np.sin(lo), np.sin(la)], axis=-1), wrap_cols=True
    )
    # On a unit sphere positions are normals: exact, where averaging over faces is not.
    return Mesh(mesh.triangles, _unit(mesh.triangles))


def ellipsoid(radii: Sequence[float], center: Sequence[float] = (0, 0, 0), segments: int = 16) -> Mesh:
    """An ellipsoid with half axes ``radii``."""
    m = np.hstack([np.diag(np.asarray(radii, dtype=np.float64)), np.asarray(center, dtype=np.float64)[:, None]])
    return _ball(segments).transformed(m)


def sphere(radius: float, center: Sequence[float] = (0, 0, 0), segments: int = 16) -> Mesh:
    """A sphere."""
    return ellipsoid((radius, radius, radius), center, segments)


def torus(radius: float, thickness: float, segments: int = 32, sides: int = 8, *, arc: float = 360.0) -> Mesh:
    """A ring in the plane z = 0: centre line ``radius``, tube radius ``thickness``; ``arc`` degrees of it from +x."""
    closed = arc >= 360
    around = np.linspace(0, math.radians(arc), segments, endpoint=not closed)
    path = np.stack([np.cos(around) * radius, np.sin(around) * radius, np.zeros(segments)], axis=1)
    return tube(path, thickness, sides=sides, closed=closed)


def lathe(profile: Sequence[Sequence[float]], segments: int = 24, *, smooth: bool = True) -> Mesh:
    """A surface of revolution about z. ``profile`` lists (radius, z) from the bottom up.

    Repeat a point to make a sharp edge there.
    """
    p = np.asarray(profile, dtype=np.float64)
    angle = np.linspace(0, 2 * math.pi, segments, endpoint=False)
    breaks = [0, *(i + 1 for i in range(len(p) - 1) if np.allclose(p[i], p[i + 1])), len(p)]
    parts = []
    for a, b in zip(breaks[:-1], breaks[1:], strict=True):
        piece = p[a:b]
        if len(piece) < 2:
            continue
        points = np.stack(
            [
                piece[:, :1] * np.cos(angle),
                piece[:, :1] * np.sin(angle),
                np.broadcast_to(piece[:, 1:], (len(piece), segments)),
            ],
            axis=-1,
        )
        parts.append(grid_surface(points, wrap_cols=True, smooth=smooth))
    return merge(parts)


def extrude(polygon: ArrayLike, depth: float) -> Mesh:
    """A flat shape made thick: ``polygon`` (N, 2) counter-clockwise in x, y, from z = 0 to z = ``depth``.

    Any simple polygon, concave ones included. Sides are flat-shaded.
    """
    p = np.asarray(polygon, dtype=np.float64)
    if _signed_area(p) < 0:
        p = p[::-1]
    cap = p[_ear_clip(p)]
    top = np.concatenate([cap, np.full((*cap.shape[:2], 1), depth)], axis=2)
    bottom = np.concatenate([cap, np.zeros((*cap.shape[:2], 1))], axis=2)[:, ::-1]
    a, b = p, np.roll(p, -1, axis=0)
    z0, z1 = np.zeros((len(p), 1)), np.full((len(p), 1), depth)
    a0, b0, b1, a1 = (np.hstack(x) for x in ((a, z0), (b, z0), (b, z1), (a, z1)))
    sides = np.concatenate([np.stack([a0, b0, b1], 1), np.stack([a0, b1, a1], 1)])
    return _flat(np.concatenate([top, bottom, sides]))


def _signed_area(p: NDArray[np.float64]) -> float:
    q = np.roll(p, -1, axis=0)
    return float(np.sum(p[:, 0] * q[:, 1] - q[:, 0] * p[:, 1]) / 2)


def _ear_clip(p: NDArray[np.float64]) -> NDArray[np.int64]:
    """Triangles (index triples) of a simple counter-clockwise polygon, by cutting off ears."""
    left = list(range(len(p)))
    triangles: list[tuple[int, int, int]] = []

    def cross(o: int, a: int, b: int) -> float:
        return float((p[a, 0] - p[o, 0]) * (p[b, 1] - p[o, 1]) - (p[a, 1] - p[o, 1]) * (p[b, 0] - p[o, 0]))

    while len(left) > 3:
        for k in range(len(left)):
            i, j, m = left[k - 1], left[k], left[(k + 1) % len(left)]
            if cross(i, j, m) <= 1e-15:
                continue
            inside = (
                cross(i, j, q) >= 0 and cross(j, m, q) >= 0 and cross(m, i, q) >= 0 for q in left if q not in (i, j, m)
            )
            if not any(inside):
                triangles.append((i, j, m))
                left.pop(k)
                break
        else:
            left.pop(0)  # only collinear or repeated points are left: they span no area
    triangles.append((left[0], left[1], left[2]))
    return np.array(triangles)


def rounded_polygon(width: float, height: float, radius: float, segments: int = 5) -> NDArray[np.float64]:
    """A rectangle with round corners about the origin, shape (N, 2), for ``extrude``."""
    r = min(radius, width / 2, height / 2)
    points = []
    for k, (sx, sy) in enumerate(((1, 1), (-1, 1), (-1, -1), (1, -1))):
        angle = np.linspace(k * math.pi / 2, (k + 1) * math.pi / 2, segments)
        points.append(
            np.stack([sx * (width / 2 - r) + r * np.cos(angle), sy * (height / 2 - r) + r * np.sin(angle)], axis=1)
        )
    return np.concatenate(points)


def spline(points: ArrayLike, samples: int = 24) -> NDArray[np.float64]:
    """A smooth curve through points (Catmull-Rom), shape (samples, K), for any number K of coordinates.

    Further coordinates (radii, say) are carried along, so one call can shape a limb: columns x, y, z, radius.
    """
    p = np.asarray(points, dtype=np.float64)
    padded = np.concatenate([2 * p[:1] - p[1:2], p, 2 * p[-1:] - p[-2:-1]])
    t = np.linspace(0, len(p) - 1, samples)
    i = np.minimum(t.astype(int), len(p) - 2)
    f = (t - i)[:, None]
    p0, p1, p2, p3 = (padded[i + k] for k in range(4))
    result: NDArray[np.float64] = 0.5 * (
        2 * p1 + (p2 - p0) * f + (2 * p0 - 5 * p1 + 4 * p2 - p3) * f**2 + (3 * p1 - p0 - 3 * p2 + p3) * f**3
    )
    return result


def tube(
    path: ArrayLike,
    radius: ArrayLike,
    *,
    sides: int = 12,
    closed: bool = False,
    round_ends: bool = False,
    up: Sequence[float] = (0, 0, 1),
) -> Mesh:
    """A pipe along a path, its section free to change: limbs, tails, frames, bodies.

    Args:
        path: centre line, shape (N, 3).
        radius: one number, one per point (N,), or half axes (N, 2) of an elliptical section: first sideways
            (perpendicular to ``up`` and to the path), then along ``up``.
        sides: number of vertices around each section.
        closed: whether the end is joined to the start.
        round_ends: whether the ends are half balls instead of flat discs.
        up: reference direction for the second half axis; must not be parallel to the path where the section is
            elliptical (where it is parallel another direction is taken).
    """
    p = np.asarray(path, dtype=np.float64)
    n = len(p)
    r = np.asarray(radius, dtype=np.float64)
    r = np.broadcast_to(r[:, None] if r.ndim == 1 else r, (n, 2)).astype(np.float64)
    tangent = np.roll(p, -1, axis=0) - np.roll(p, 1, axis=0)
    if not closed:
        tangent[0], tangent[-1] = p[1] - p[0], p[-1] - p[-2]
    tangent /= np.maximum(_lengths(tangent), 1e-12)
    if round_ends and not closed:
        bulge = np.linspace(0, math.pi / 2, 5)[1:]
        for end in (0, -1):
            steps = np.sin(bulge)[:, None] * r[end].mean() * tangent[end] * (1 if end else -1)
            extra, shrink = p[end] + steps, r[end] * np.maximum(np.cos(bulge)[:, None], 1e-4)
            direction = np.broadcast_to(tangent[end], extra.shape)
            if end == 0:
                p, r, tangent = (np.concatenate(x) for x in ((extra[::-1], p), (shrink[::-1], r), (direction, tangent)))
            else:
                p, r, tangent = (np.concatenate(x) for x in ((p, extra), (r, shrink), (tangent, direction)))
    # Where the path runs along `up`, the frame is carried over from the neighbour instead of flipping about.
    reference = np.asarray(up, dtype=np.float64)
    side = _cross(tangent, reference[None])
    length = _lengths(side)[:, 0]
    if length.max() < 0.2:
        side = _cross(tangent, np.array([(0.0, 1.0, 0.0) if abs(reference[1]) < 0.9 else (1.0, 0.0, 0.0)]))
        length = _lengths(side)[:, 0]
    good = length >= 0.2
    index = np.arange(len(p))
    nearest = index[good][np.argmin(np.abs(index[:, None] - index[good][None]), axis=1)]
    side = side[nearest]
    side -= np.sum(side * tangent, axis=1, keepdims=True) * tangent
    side /= np.maximum(_lengths(side), 1e-12)
    top = _cross(side, tangent)
    angle = np.linspace(0, 2 * math.pi, sides, endpoint=False)
    # side x top = -tangent, so the ring runs clockwise in (side, top) to be counter-clockwise along the path.
    rings = (
        p[:, None]
        + np.cos(angle)[None, :, None] * (r[:, None, :1] * side[:, None])
        - np.sin(angle)[None, :, None] * (r[:, None, 1:] * top[:, None])
    )
    if closed:
        return grid_surface(rings, wrap_rows=True, wrap_cols=True)
    return loft(rings, cap_start=not round_ends, cap_end=not round_ends)


def capsule(start: Sequence[float], end: Sequence[float], radius: float, end_radius: float | None = None) -> Mesh:
    """A stick with round ends between two points, perhaps tapering."""
    path = np.linspace(np.asarray(start, dtype=np.float64), np.asarray(end, dtype=np.float64), 4)
    radii = np.linspace(radius, radius if end_radius is None else end_radius, 4)
    return tube(path, radii, round_ends=True)
