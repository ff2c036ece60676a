"""A small ray-cast renderer for the CPU: Embree finds what each ray meets, numpy shades it.

Direct sun with soft shadows, sky light with ambient occlusion, microfacet highlights, reflections of the sky, and
procedural patterns. No sampling noise, no graphics driver, no threads of its own; the instance mask comes from the same
rays as the image, so ground truth and image cannot disagree.

Vectors of many rays are kept as three rows, shape (3, N): numpy's loops then run over rays and not over three
components, which is several times faster. Skies and grounds take and give one row a ray, as is natural to write.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verism.simulator.model import Material, Model, Pattern
from verism.simulator.noise import noise
from verism.simulator.shapes import Mesh
from verism.simulator.surroundings import Surroundings, linear

Array = NDArray[np.float32]

__all__ = ["Camera", "Placed", "Rendering", "render", "silhouette"]

# Four samples a pixel on a rotated grid: no two share a row or a column, so near-vertical and near-horizontal edges,
# the commonest ones, get four steps. The first two, symmetric about the centre, are cast everywhere; the other two only
# where there is something to smooth: on objects, at the borders of surfaces and shadows.
SUBPIXELS = ((0.125, 0.625), (0.875, 0.375), (0.375, 0.125), (0.625, 0.875))
EVERYWHERE = 2
SUN_ANGLE = 0.03  # radians; wider than the real sun (0.0047), for shadows as under thin cloud
OCCLUSION_REACH = 3.0  # metres; sky light is not blocked by things farther away
SCENERY = 255  # instance number of what belongs to the surroundings


def _dot(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Scalar products of vectors in three rows, (3, ...) -> (...).

    Not by BLAS, which rounds differently with the processor and the number of rays, and starts threads.
    """
    product: NDArray[Any] = a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
    return product


@lru_cache(maxsize=16)
def _camera_axes(
    position: tuple[float, float, float], target: tuple[float, float, float], roll: float
) -> NDArray[np.float64]:
    """See ``Camera.axes``; kept, because placing objects asks for the same camera's hundreds of times."""
    forward = np.subtract(target, position).astype(np.float64)
    forward /= np.linalg.norm(forward)
    right = np.cross(forward, (0.0, 0.0, 1.0))
    right /= np.linalg.norm(right)
    down = np.cross(forward, right)
    c, s = math.cos(math.radians(roll)), math.sin(math.radians(roll))
    axes = np.stack([c * right + s * down, c * down - s * right, forward])
    axes.setflags(write=False)
    return axes


@dataclass(frozen=True)
class Camera:
    """A pinhole camera.

    Attributes:
        position: (x, y, z) of the camera, metres.
        target: (x, y, z) of the point it looks at, metres.
        fov: horizontal and vertical angle of view, degrees (images are square).
        roll: rotation about the viewing axis, degrees.
    """

    position: tuple[float, float, float]
    target: tuple[float, float, float]
    fov: float = 38.0
    roll: float = 0.0

    def axes(self) -> NDArray[np.float64]:
        """Rows: right, down, forward, as unit vectors, shape (3, 3)."""
        return _camera_axes(self.position, self.target, self.roll)

    def project(self, points: NDArray[np.floating]) -> NDArray[np.float64]:
        """Positions in the image, (N, 3) -> (N, 3): x and y in [0, 1] inside the frame, and the depth in metres."""
        local = (np.asarray(points, dtype=np.float64) - self.position) @ self.axes().T
        half = math.tan(math.radians(self.fov) / 2)
        depth = local[:, 2]
        safe = np.where(depth > 1e-6, depth, np.nan)
        return np.stack([0.5 + local[:, 0] / (2 * half * safe), 0.5 + local[:, 1] / (2 * half * safe), depth], axis=1)

    def rays(self, x: NDArray[np.floating], y: NDArray[np.floating]) -> Array:
        """Unit directions through image positions in [0, 1], shape (N, 3)."""
        return np.ascontiguousarray(self._directions(x, y).T)

    def _directions(self, x: NDArray[np.floating], y: NDArray[np.floating]) -> Array:
        """``rays`` as (3, N); x and y may also be a row and a column that span a grid, for (3, rows, columns)."""
        half = math.tan(math.radians(self.fov) / 2)
        right, down, forward = self.axes()
        u, v = (2 * x - 1) * half, (2 * y - 1) * half
        direction = np.stack([u * right[k] + v * down[k] + forward[k] for k in range(3)])
        direction /= np.sqrt(_dot(direction, direction))
        return direction.astype(np.float32)


@dataclass(frozen=True, eq=False)
class Placed:
    """A model with the affine matrix (4, 4) that puts it into the world."""

    model: Model
    matrix: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Rendering:
    """An image with what lies under each pixel.

    Attributes:
        pixels: sRGB, shape (H, W, 3), uint8.
        mask: shape (H, W), uint8: 0 background, ``i + 1`` where item ``i`` covers at least half of the pixel.
        depth: distance from the camera of what the first sample of each pixel met, metres, infinite for the sky, shape
            (H, W).
    """

    pixels: NDArray[np.uint8]
    mask: NDArray[np.uint8]
    depth: Array


def _scene(mesh_triangles: Array) -> object:
    from embreex import rtcore_scene
    from embreex.mesh_construction import TriangleMesh

    scene = rtcore_scene.EmbreeScene()
    TriangleMesh(scene, np.ascontiguousarray(mesh_triangles, dtype=np.float32))
    return scene


def silhouette(placed: Placed, camera: Camera, size: int) -> int:
    """Pixels that the item alone would cover, its parts beyond the frame's edge not counted."""
    triangles = np.concatenate([p.mesh.transformed(placed.matrix).triangles for p in placed.model.parts])
    corners = camera.project(triangles.reshape(-1, 3))[:, :2]
    low = np.clip(np.floor(np.nanmin(corners, axis=0) * size), 0, size).astype(int)
    high = np.clip(np.ceil(np.nanmax(corners, axis=0) * size), 0, size).astype(int)
    if (high <= low).any():
        return 0
    xs, ys = np.meshgrid(np.arange(low[0], high[0]), np.arange(low[1], high[1]))
    scene = _scene(triangles)
    votes = np.zeros(xs.size, dtype=np.int64)
    for dx, dy in SUBPIXELS:
        rays = camera.rays((xs.ravel() + dx) / size, (ys.ravel() + dy) / size)
        origin = np.broadcast_to(np.asarray(camera.position, dtype=np.float32), rays.shape)
        hit = scene.run(np.ascontiguousarray(origin), rays, query="INTERSECT")  # type: ignore[attr-defined]
        votes += hit >= 0
    return int((votes >= 2).sum())


@dataclass(frozen=True, eq=False)
class _World:
    """Everything that can be hit, flattened to arrays over triangles."""

    triangles: Array  # (F, 3, 3) world
    normals: Array  # (F, 3, 3) world, at the corners
    facing: Array  # (F, 3) world, perpendicular to the triangle, of any length
    local: Array  # (F, 3, 3) on the model, for patterns
    instance: NDArray[np.uint8]  # (F,)
    material: NDArray[np.int32]  # (F,)
    materials: tuple[Material, ...]
    corners: Array  # (B, 8, 3) world: of one box about each item and each piece of scenery


def _flatten(items: Sequence[Placed], surroundings: Surroundings) -> _World:
    pieces: list[tuple[Mesh, Mesh, int, Material]] = []
    for number, item in enumerate(items):
        for part in item.model.parts:
            pieces.append((part.mesh.transformed(item.matrix), part.mesh, number, part.material))
    pieces += [(mesh, mesh, SCENERY, material) for mesh, material in surroundings.scenery]
    if not pieces:
        empty = np.zeros((0, 3, 3), np.float32)
        return _World(
            empty,
            empty,
            empty[:, 0],
            empty,
            np.zeros(0, np.uint8),
            np.zeros(0, np.int32),
            (),
            np.zeros((0, 8, 3), np.float32),
        )
    counts = [len(world) for world, _, _, _ in pieces]
    triangles = np.concatenate([world.triangles for world, _, _, _ in pieces])
    along, across = (np.ascontiguousarray((triangles[:, k] - triangles[:, 0]).T) for k in (1, 2))
    return _World(
        triangles=triangles,
        normals=np.concatenate([world.normals for world, _, _, _ in pieces]),
        facing=np.stack([along[i] * across[j] - along[j] * across[i] for i, j in ((1, 2), (2, 0), (0, 1))], axis=1),
        local=np.concatenate([local.triangles for _, local, _, _ in pieces]),
        instance=np.repeat(np.array([n for _, _, n, _ in pieces], dtype=np.uint8), counts),
        material=np.repeat(np.arange(len(pieces), dtype=np.int32), counts),
        materials=tuple(m for _, _, _, m in pieces),
        corners=_corners([(number, world) for world, _, number, _ in pieces if len(world)]),
    )


def _corners(pieces: Sequence[tuple[int, Mesh]]) -> Array:
    boxes: dict[tuple[int, int], list[tuple[Array, Array]]] = {}
    for number, (item, mesh) in enumerate(pieces):
        boxes.setdefault((item, number if item == SCENERY else -1), []).append(mesh.bounds)
    extents = np.array([(np.min(low, axis=0), np.max(high, axis=0)) for low, high in (zip(*b) for b in boxes.values())])
    x, y, z = np.indices((2, 2, 2)).reshape(3, 8)
    return np.stack([extents[:, x, 0], extents[:, y, 1], extents[:, z, 2]], axis=2)


def _in_view(corners: Array, camera: Camera, size: int) -> NDArray[np.bool_]:
    """Pixels through which a ray can meet something in one of the boxes (B, 8, 3), shape (size * size,).

    The image of a box lies within the bounds of its corners' images, unless it reaches behind the camera.
    """
    inside = np.zeros((size, size), bool)
    for box in corners:
        at = camera.project(box)
        if not (at[:, 2] > 0.01).all():
            return np.ones(size * size, bool)
        low, high = at[:, :2].min(axis=0) * size - 1, at[:, :2].max(axis=0) * size + 1
        x0, y0 = np.clip(np.floor(low), 0, size).astype(int)
        x1, y1 = np.clip(np.ceil(high), 0, size).astype(int)
        inside[y0:y1, x0:x1] = True
    return inside.reshape(-1)


def _may_be_shaded(corners: Array, to_sun: Array, x: Array, y: Array) -> NDArray[np.bool_]:
    """Whether something in one of the boxes (B, 8, 3) can keep the sun from points of the ground, (N,) each.

    The shadow of what is above the ground lies within the bounds of its corners' shadows.
    """
    shaded = np.zeros(len(x), bool)
    for box in corners:
        height = np.maximum(box[:, 2], 0) / to_sun[2]
        flat = box[:, :2] - height[:, None] * to_sun[:2]
        (x0, y0), (x1, y1) = flat.min(axis=0) - 0.05, flat.max(axis=0) + 0.05
        shaded |= (x > x0) & (x < x1) & (y > y0) & (y < y1)
    return shaded


def _pattern_weight(pattern: Pattern, p: Array) -> Array:
    """Share of the second colour at local positions (N, 3), shape (N,), in [0, 1]."""
    axis = "xyz".index(pattern.axis)
    along, across = p[:, axis], p[:, (axis + 1) % 3]
    third = p[:, (axis + 2) % 3]
    s = pattern.scale
    if pattern.kind == "noise":
        w = np.clip((noise(across + 0.7 * along, third + 0.6 * along, scale=4 * s, variant=1) - 0.45) * 5, 0, 1)
    elif pattern.kind == "speckle":
        w = np.clip((noise(across + 0.7 * along, third + 0.6 * along, scale=s * 8, variant=2) - 0.35) * 2.5, 0, 1)
    elif pattern.kind == "stripes":
        w = (along / s % 1.0 < 0.5).astype(np.float32)
    elif pattern.kind == "checks":
        w = 0.5 * ((along / s % 1.0 < 0.5).astype(np.float32) + ((across + third) / s % 1.0 < 0.5))
    elif pattern.kind == "wood":
        wobble = noise(along * 0.15, across, scale=1.0, variant=3) * 6
        w = 0.5 + 0.5 * np.sin((across + third * 0.6) / s * 2 * math.pi + wobble * 2)
    elif pattern.kind == "bricks":
        row = np.floor(along / (s / 2))
        shifted = (across + third) / s + 0.5 * (row % 2)
        w = ((along / (s / 2) % 1.0 < 0.12) | (shifted % 1.0 < 0.06)).astype(np.float32)
    else:  # dots
        u, v = across / s % 1.0 - 0.5, along / s % 1.0 - 0.5
        w = (u * u + v * v < 0.07).astype(np.float32)
    return np.asarray(w * pattern.strength, dtype=np.float32)


def _sky_sides(surroundings: Surroundings) -> Array:
    """Mean radiance from above, from the sides and from below, shape (3, 3): the ambient light by surface direction."""
    if surroundings.ambient is not None:
        return np.asarray(surroundings.ambient, dtype=np.float32)
    angle = np.linspace(0, 2 * math.pi, 12, endpoint=False)
    up = np.concatenate([np.full(12, 0.35), np.full(12, 0.75), [1.0]])
    flat = np.sqrt(1 - up**2)
    turn = np.concatenate([angle, angle, [0.0]])
    directions = np.stack([flat * np.cos(turn), flat * np.sin(turn), up], axis=1).astype(np.float32)
    radiance = surroundings.sky(directions)
    above = (radiance * up[:, None]).sum(axis=0) / up.sum()
    horizon = radiance[:12].mean(axis=0)
    if surroundings.ground is None:
        below = np.zeros(3)
    else:
        spread = np.stack(np.meshgrid(np.linspace(-3, 3, 5), np.linspace(-3, 3, 5)), axis=-1).reshape(-1, 2)
        albedo = surroundings.ground(spread.astype(np.float32)).mean(axis=0)
        below = albedo * (above + np.asarray(surroundings.sun) * surroundings.sun_direction[2] / math.pi) * 0.5
    return np.stack([above, 0.5 * (horizon + below), below]).astype(np.float32)


def _ambient(sides: Array, normal: Array) -> Array:
    """Light from everywhere on surfaces that face (3, N), RGB (3, N)."""
    up = normal[2]
    above, side, below = sides[:, :, None]
    light: Array = side + np.maximum(up, 0) * (above - side) + np.maximum(-up, 0) * (below - side)
    return light


def _cosine_directions(count: int, rng: np.random.Generator) -> Array:
    """Directions about +z with density proportional to the cosine, shape (count, 3), spread evenly (Fibonacci)."""
    k = np.arange(count) + 0.5
    r, turn = np.sqrt(k / count), k * (math.pi * (3 - math.sqrt(5))) + rng.uniform(0, 2 * math.pi)
    return np.stack([r * np.cos(turn), r * np.sin(turn), np.sqrt(1 - r**2)], axis=1).astype(np.float32)


def _frames(normal: Array) -> tuple[Array, Array]:
    """Two unit vectors perpendicular to each normal, (3, N) all (Duff et al. 2017, JCGT 6(1))."""
    x, y, z = normal
    sign = np.where(z >= 0, np.float32(1), np.float32(-1))
    a = -1 / (sign + z)
    b = x * y * a
    return np.stack([1 + sign * x**2 * a, sign * b, -sign * x]), np.stack([b, sign + y**2 * a, -y])


def _occlusion(scene: object, point: Array, normal: Array, kept: NDArray[np.intp], shape: tuple[int, int]) -> Array:
    """Share of the sky each point sees, shape (N,); point and normal are (3, N), ``kept`` their pixels.

    Neighbouring pixels cast different rays of one fixed set, in tiles of 4 x 4, and a 4 x 4 mean over surfaces that
    face the same way puts them together: 64 directions for the price of 4, without noise.
    """
    height, width = shape
    directions = _cosine_directions(64, np.random.default_rng(7)).reshape(4, 16, 3)
    rows, cols = np.divmod(kept, width)
    tile = (rows % 4) * 4 + cols % 4
    tangent, bitangent = _frames(normal)
    start = (point + normal * np.float32(2e-3)).T
    reach = np.full(len(kept), OCCLUSION_REACH, dtype=np.float32)
    free = np.zeros(len(kept), dtype=np.float32)
    for k in range(4):
        d = directions[k].T.take(tile, axis=1)
        ray = (tangent * d[0] + bitangent * d[1] + normal * d[2]).T
        hit = scene.run(start, ray, dists=reach.copy(), query="OCCLUDED")  # type: ignore[attr-defined]
        free += hit < 0
    free *= 0.25
    # Joint mean over the 4 x 4 tile: a neighbour counts if it faces the same way. Outside the part of the image that
    # holds the points, and where there is none, nothing faces any way.
    rows, cols = rows - rows.min(), cols - cols.min()
    height, width = int(rows.max()) + 1, int(cols.max()) + 1
    at = (rows + 2) * (width + 4) + cols + 2
    image = np.zeros((height + 4, width + 4), dtype=np.float32)
    facing = np.zeros((3, height + 4, width + 4), dtype=np.float32)
    image.reshape(-1)[at] = free
    for k in range(3):
        facing[k].reshape(-1)[at] = normal[k]
    middle = np.ascontiguousarray(facing[:, 2 : 2 + height, 2 : 2 + width])
    total, weight = np.zeros((height, width), np.float32), np.zeros((height, width), np.float32)
    for dy in range(4):
        for dx in range(4):
            same = _dot(facing[:, dy : dy + height, dx : dx + width], middle) > 0.9
            total += same * image[dy : dy + height, dx : dx + width]
            weight += same
    mean: Array = (total / np.maximum(weight, 1)).reshape(-1)[rows * width + cols]
    return mean


def _tone(radiance: Array) -> NDArray[np.uint8]:
    """Linear light to 8-bit sRGB with a soft shoulder, so that sunlit whites keep their shape."""
    knee = np.float32(0.7)
    over = np.maximum(radiance - knee, 0)
    x = np.minimum(radiance, knee) + (1 - knee) * over / (over + (1 - knee))
    x = np.clip(x, 0, 1)
    srgb = np.where(x <= 0.0031308, 12.92 * x, 1.055 * np.power(np.maximum(x, 1e-8), 1 / 2.4) - 0.055)
    return np.asarray(srgb * 255 + 0.5, dtype=np.uint8)


def render(
    items: Sequence[Placed], surroundings: Surroundings, camera: Camera, size: int, *, exposure: float = 1.0
) -> Rendering:
    """Paint items in their surroundings.

    Args:
        items: placed models, at most 254.
        surroundings: ground, scenery, sky and light.
        camera: the camera.
        size: width and height of the image, pixels.
        exposure: factor on all light before the tone curve.
    """
    if len(items) >= SCENERY:
        raise ValueError(f"render: {len(items)} items; the instance mask holds at most {SCENERY - 1}")
    world = _flatten(items, surroundings)
    scene = _scene(world.triangles) if len(world.triangles) else None
    sides = _sky_sides(surroundings)
    count = size * size
    radiance = np.zeros((3, count), np.float32)
    samples = np.full(count, EVERYWHERE, np.float32)
    votes = np.zeros((len(items), count), np.uint8)
    # What each of the first samples met: 0 sky, 1 ground, 2 scenery, 3 ... items; and whether the sun reached it.
    kinds = np.zeros((EVERYWHERE, count), np.int16)
    sunny = np.zeros((EVERYWHERE, count), bool)
    occlusion = np.ones(count, np.float32)
    depth = np.full(count, np.inf, np.float32)
    grid = np.arange(size)
    in_view = _in_view(world.corners, camera, size)
    for k, (dx, dy) in enumerate(SUBPIXELS[:EVERYWHERE]):
        rays = camera._directions((grid + dx) / size, (grid[:, None] + dy) / size).reshape(3, count)
        hits = _cast(world, scene, surroundings, camera, rays, in_view)
        where = hits.kept
        if k == 0:
            depth[where] = hits.distance
            nearness = _nearness(where, hits.instance, size)
            near = np.flatnonzero(nearness)
            if len(near):
                free = _occlusion(
                    scene, hits.point.take(near, axis=1), hits.normal.take(near, axis=1), where[near], (size, size)
                )
                occlusion[where[near]] = 1 - (1 - free) * nearness[near]
        color, lit = _shade(world, scene, surroundings, sides, rays, hits, occlusion[where], k)
        radiance += color
        kinds[k, where] = np.where(hits.face < 0, 1, np.where(hits.instance == SCENERY, 2, 3 + hits.instance))
        sunny[k, where] = lit
        _vote(votes, where, hits.instance)
    chosen = np.flatnonzero(_edges(kinds, sunny, size))
    rows, cols = np.divmod(chosen, size)
    for k, (dx, dy) in enumerate(SUBPIXELS[EVERYWHERE:], EVERYWHERE):
        rays = camera._directions((cols + dx) / size, (rows + dy) / size)
        hits = _cast(world, scene, surroundings, camera, rays, in_view[chosen])
        where = chosen[hits.kept]
        color, _ = _shade(world, scene, surroundings, sides, rays, hits, occlusion[where], k)
        for channel in range(3):
            radiance[channel, chosen] += color[channel]
        samples[chosen] += 1
        _vote(votes, where, hits.instance)
    radiance *= exposure / samples
    mask = np.zeros(count, np.uint8)
    if len(items):
        best = votes.argmax(axis=0)
        covered = votes[best, np.arange(count)] >= len(SUBPIXELS) // 2
        mask[covered] = best[covered] + 1
    pixels = np.ascontiguousarray(_tone(radiance).T)
    shape = (size, size)
    return Rendering(pixels=pixels.reshape(*shape, 3), mask=mask.reshape(shape), depth=depth.reshape(shape))


def _vote(votes: NDArray[np.uint8], where: NDArray[np.intp], instance: NDArray[np.uint8]) -> None:
    """Add one to each item's count of hits at the pixels ``where`` it was met."""
    met = np.flatnonzero(instance != SCENERY)
    votes[instance[met], where[met]] += 1  # no pixel appears twice in `where`


def _edges(kinds: NDArray[np.int16], sunny: NDArray[np.bool_], size: int) -> NDArray[np.bool_]:
    """Pixels worth more samples, shape (size * size,): items and their rims, borders of surfaces and of shadows."""
    kind, sun = kinds.reshape(-1, size, size), sunny.reshape(-1, size, size)
    rough = (kind >= 3).any(axis=0) | (kind[0] != kind[1]) | (sun[0] != sun[1])
    for image in (kind[0], sun[0]):
        across, down = image[:, 1:] != image[:, :-1], image[1:] != image[:-1]
        rough[:, 1:] |= across
        rough[:, :-1] |= across
        rough[1:] |= down
        rough[:-1] |= down
    wide = rough.copy()
    wide[1:] |= rough[:-1]
    wide[:-1] |= rough[1:]
    wide[:, 1:] |= rough[:, :-1]
    wide[:, :-1] |= rough[:, 1:]
    flat: NDArray[np.bool_] = wide.ravel()
    return flat


def _nearness(where: NDArray[np.intp], instance: NDArray[np.uint8], size: int) -> Array:
    """How much an item may dim the sky light of each hit: 1 at its box, fading to 0 at half its extent beyond.

    Farther away the dimming is too faint to be worth the rays; the fading hides where it ends.
    """
    rows, cols = np.divmod(where, size)
    nearness = np.zeros(len(where), np.float32)
    for number in np.unique(instance[instance != SCENERY]).tolist():
        mask = instance == number
        y0, y1, x0, x1 = rows[mask].min(), rows[mask].max(), cols[mask].min(), cols[mask].max()
        reach = 0.5 * max(y1 - y0, x1 - x0) + 4
        beyond = np.maximum(np.maximum(y0 - rows, rows - y1), np.maximum(x0 - cols, cols - x1))
        nearness = np.maximum(nearness, np.clip(1 - beyond / reach, 0, 1).astype(np.float32))
    return nearness


@dataclass(frozen=True, eq=False)
class _Hits:
    """The rays of one sub-pixel that met a surface. ``kept`` are their numbers; the other fields run over them."""

    kept: NDArray[np.intp]
    view: Array  # (3, N) direction of the ray
    point: Array  # (3, N)
    normal: Array  # (3, N)
    instance: NDArray[np.uint8]  # item, or SCENERY
    face: NDArray[np.int32]  # triangle, or -1 for the ground
    on_mesh: NDArray[np.intp]  # those whose face is a triangle
    barycentric: Array  # (3, M), of those on a mesh
    distance: Array  # metres


def _cast(
    world: _World,
    scene: object,
    surroundings: Surroundings,
    camera: Camera,
    rays: Array,
    in_view: NDArray[np.bool_],
) -> _Hits:
    """What rays (3, N) meet first; only those ``in_view`` (N,) can meet a mesh."""
    n = rays.shape[1]
    position = np.asarray(camera.position, dtype=np.float32)
    distance = np.full(n, np.inf, np.float32)
    face = np.full(n, -1, np.int32)
    u, v = np.zeros(n, np.float32), np.zeros(n, np.float32)
    cast = np.flatnonzero(in_view)
    if scene is not None and len(cast):
        origin = np.broadcast_to(position, (len(cast), 3))
        result = scene.run(origin, rays.take(cast, axis=1).T, query="INTERSECT", output=1)  # type: ignore[attr-defined]
        face[cast], u[cast], v[cast] = result["primID"], result["u"], result["v"]
        distance[cast] = np.where(result["primID"] >= 0, result["tfar"], np.float32(np.inf))
    if surroundings.ground is not None:
        with np.errstate(divide="ignore"):
            t = np.where(rays[2] < -1e-6, -position[2] / rays[2], np.float32(np.inf))
        face = np.where(t < distance, np.int32(-1), face)
        distance = np.minimum(t, distance)
    kept = np.flatnonzero(np.isfinite(distance))
    view = rays
    if len(kept) < n:
        view, face, distance = rays.take(kept, axis=1), face[kept], distance[kept]
    point = position[:, None] + view * distance
    normal = np.zeros_like(point)
    normal[2] = 1
    instance = np.full(len(kept), SCENERY, np.uint8)
    on_mesh = np.flatnonzero(face >= 0)
    u, v = u[kept[on_mesh]], v[kept[on_mesh]]
    barycentric = np.stack([1 - u - v, u, v])
    if len(on_mesh):
        f = face[on_mesh]
        toward = view.take(on_mesh, axis=1)
        smooth = _interpolated(world.normals, f, barycentric)
        # A surface seen from behind (the inside of an umbrella, the back of a sign) is lit as if it were two-sided.
        away = _dot(smooth, toward) > 0
        away &= _dot(world.facing.take(f, axis=0).T, toward) > 0
        smooth *= np.where(away, np.float32(-1), np.float32(1))
        smooth /= np.maximum(np.sqrt(_dot(smooth, smooth)), 1e-9)
        for k in range(3):
            normal[k, on_mesh] = smooth[k]
        instance[on_mesh] = world.instance[f]
    return _Hits(kept, view, point, normal, instance, face, on_mesh, barycentric, distance)


def _interpolated(corners: Array, face: NDArray[np.int32], barycentric: Array) -> Array:
    """What is known at the corners of triangles (F, 3, 3), at places on some of them (3, N), shape (3, N)."""
    a, b, c = (corners[:, k].take(face, axis=0).T for k in range(3))
    return np.ascontiguousarray(barycentric[0] * a + barycentric[1] * b + barycentric[2] * c)


def _shade(
    world: _World,
    scene: object,
    surroundings: Surroundings,
    sides: Array,
    rays: Array,
    hits: _Hits,
    occlusion: Array,
    sample: int,
) -> tuple[Array, NDArray[np.bool_]]:
    """Radiance along every ray (3, N), and for every hit whether the sun reaches it.

    ``occlusion`` runs over the hits.
    """
    n = len(hits.kept)
    out = np.empty_like(rays)
    if n < rays.shape[1]:
        beyond = np.ones(rays.shape[1], bool)
        beyond[hits.kept] = False
        missed = np.flatnonzero(beyond)
        sky = surroundings.sky(rays.take(missed, axis=1).T)
        for k in range(3):
            out[k, missed] = sky[:, k]
    if n == 0:
        return out, np.zeros(0, bool)
    albedo, roughness, metallic, emission = _surface(world, surroundings, hits)

    # Each of the four samples looks at another point of the sun's disc: four-step soft shadows.
    to_sun = np.asarray(surroundings.sun_direction, dtype=np.float32)
    tangent, bitangent = _frames(to_sun[:, None])
    turn = math.pi / 2 * sample + 0.4
    aside = math.cos(turn) * tangent[:, 0] + math.sin(turn) * bitangent[:, 0]
    to_sun = np.asarray(to_sun + SUN_ANGLE * aside, dtype=np.float32)
    to_sun /= np.linalg.norm(to_sun)
    sunlight = np.maximum(_dot(to_sun, hits.normal), 0)
    if scene is not None:
        reached = hits.face >= 0
        ground = np.flatnonzero(~reached)
        x, y, _ = hits.point.take(ground, axis=1)
        reached[ground] = _may_be_shaded(world.corners, to_sun, x, y)
        asked = np.flatnonzero(reached & (sunlight > 0))
        start = (hits.point.take(asked, axis=1) + hits.normal.take(asked, axis=1) * np.float32(3e-3)).T
        direction = np.broadcast_to(to_sun, start.shape)
        blocked = scene.run(start, direction, query="OCCLUDED") >= 0  # type: ignore[attr-defined]
        sunlight[asked[blocked]] = 0
    sun = np.asarray(surroundings.sun, dtype=np.float32)

    light = _ambient(sides, hits.normal) * occlusion + (sun / math.pi)[:, None] * sunlight
    color = albedo * (1 - metallic) * light

    # Highlights and reflections (GGX with Schlick's Fresnel); chalky surfaces have none worth computing.
    shiny = np.flatnonzero(roughness < 0.85)
    if len(shiny):
        gloss = _gloss(
            surroundings,
            sides,
            hits.view.take(shiny, axis=1),
            hits.normal.take(shiny, axis=1),
            to_sun,
            sunlight[shiny],
            sun,
            albedo.take(shiny, axis=1),
            roughness[shiny],
            metallic[shiny],
            occlusion[shiny],
        )
        for k in range(3):
            color[k, shiny] += gloss[k]
    color += albedo * emission

    if len(hits.on_mesh) < n:
        ground = np.flatnonzero(hits.face < 0)
        fade = np.exp(-hits.distance[ground] / surroundings.haze)
        horizon = hits.view.take(ground, axis=1)
        horizon[2] = 0.002
        horizon /= np.sqrt(_dot(horizon, horizon))
        mist = surroundings.sky(horizon.T).T
        for k in range(3):
            color[k, ground] = color[k, ground] * fade + mist[k] * (1 - fade)
    if n == rays.shape[1]:
        return color, sunlight > 0
    for k in range(3):
        out[k, hits.kept] = color[k]
    return out, sunlight > 0


def _surface(world: _World, surroundings: Surroundings, hits: _Hits) -> tuple[Array, Array, Array, Array]:
    """Albedo (3, N), roughness, metallic and emission (N,) under each hit."""
    n = len(hits.kept)
    albedo = np.empty((3, n), np.float32)
    roughness, metallic = np.ones(n, np.float32), np.zeros(n, np.float32)
    emission = np.zeros(n, np.float32)
    if len(hits.on_mesh) < n and surroundings.ground is not None:
        ground = np.flatnonzero(hits.face < 0)
        seen = surroundings.ground(hits.point[:2].take(ground, axis=1).T)
        for k in range(3):
            albedo[k, ground] = seen[:, k]
        roughness[ground] = surroundings.ground_roughness
    if len(hits.on_mesh):
        f = hits.face[hits.on_mesh]
        m = world.material[f]
        colors = linear(np.array([x.color for x in world.materials], dtype=np.float32)).T
        for k in range(3):
            albedo[k, hits.on_mesh] = colors[k].take(m)
        roughness[hits.on_mesh] = np.array([x.roughness for x in world.materials], np.float32)[m]
        metallic[hits.on_mesh] = np.array([x.metallic for x in world.materials], np.float32)[m]
        emission[hits.on_mesh] = np.array([x.emission for x in world.materials], np.float32)[m]
        for number, material in enumerate(world.materials):
            if material.pattern is None:
                continue
            of_it = np.flatnonzero(m == number)
            if len(of_it):
                local = _interpolated(world.local, f[of_it], hits.barycentric.take(of_it, axis=1))
                w = _pattern_weight(material.pattern, local.T)
                second = linear(material.pattern.color)
                chosen = hits.on_mesh[of_it]
                for k in range(3):
                    albedo[k, chosen] = albedo[k, chosen] * (1 - w) + second[k] * w
    return albedo, roughness, metallic, emission


def _gloss(
    surroundings: Surroundings,
    sides: Array,
    view: Array,
    normal: Array,
    to_sun: Array,
    sunlight: Array,
    sun: Array,
    albedo: Array,
    roughness: Array,
    metallic: Array,
    free: Array,
) -> Array:
    """Reflected radiance, (3, N); vectors and colours of the N hits are (3, N), ``to_sun`` and ``sun`` (3,)."""
    f0 = 0.04 * (1 - metallic) + albedo * metallic
    cos_view = np.clip(-_dot(view, normal), 1e-3, 1)
    # Schlick's rise towards grazing angles, damped on rough surfaces.
    rise = (1 - cos_view) ** 5 * (1 - roughness)
    fresnel = f0 + (np.maximum(1 - f0, 0) * rise)
    mirror = view + 2 * cos_view * normal
    mirror /= np.sqrt(_dot(mirror, mirror))
    blurred = _ambient(sides, mirror)
    sharp = blurred.copy()
    # Where the ambient light is stated the sky says nothing about it (the black void lights its objects none the less).
    if surroundings.ambient is None:
        upward = np.flatnonzero((mirror[2] > 0) & (roughness < 0.5))
        if len(upward):
            sky = surroundings.sky(mirror.take(upward, axis=1).T)
            for k in range(3):
                sharp[k, upward] = sky[:, k]
    blur = np.clip(roughness * 2, 0, 1)
    reflected = (sharp * (1 - blur) + blurred * blur) * free
    half = to_sun[:, None] - view
    half /= np.maximum(np.sqrt(_dot(half, half)), 1e-6)
    cos_half = np.maximum(_dot(half, normal), 0)
    a2 = np.maximum(roughness, 0.08) ** 4
    spread = a2 / (math.pi * (cos_half**2 * (a2 - 1) + 1) ** 2)
    # Kelemen's visibility term: 1 / (4 (l.h)^2), close to Smith's for these surfaces and much cheaper.
    cos_light = np.maximum(_dot(to_sun, half), 0.1)
    highlight = np.minimum(spread / (4 * cos_light**2) * sunlight, 8.0) * sun[:, None] * fresnel
    return np.asarray(fresnel * reflected + highlight, dtype=np.float32)
