"""A small ray-cast renderer for the CPU: Embree finds what each ray meets, numpy shades it.

Direct sun with soft shadows, sky light with ambient occlusion, microfacet highlights, reflections of the sky, and
procedural patterns. No sampling noise, no graphics driver, no threads of its own; the instance mask comes from the same
rays as the image, so ground truth and image cannot disagree.

Vectors of many rays are kept as three rows, shape (3, N): numpy's loops then run over rays and not over three
components, which is several times faster. Skies and grounds take and give one row a ray, as is natural to write.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verism.errors import MissingExtra
from verism.simulator.model import Material, Model, Pattern
from verism.simulator.noise import noise
from verism.simulator.shapes import Mesh
from verism.simulator.surroundings import Surroundings, linear

Array = NDArray[np.float32]

__all__ = ["Camera", "Placed", "Rendering", "render", "require_embree", "silhouette"]

# Four samples a pixel on a rotated grid: no two share a row or a column, so near-vertical and near-horizontal edges,
# the commonest ones, get four steps. The first two, symmetric about the centre, are cast everywhere; the other two only
# where there is something to smooth: at the borders of objects, surfaces and shadows, and where an object is not even.
SUBPIXELS = ((0.125, 0.625), (0.875, 0.375), (0.375, 0.125), (0.625, 0.875))
EVERYWHERE = 2
# Odd numbers that spread the bits of three coordinates over one number of 64 bits.
MIXERS = np.array([[0x9E3779B97F4A7C15], [0xC2B2AE3D27D4EB4F], [0x165667B19E3779F9]], np.uint64)
EVEN = 0.04  # relative difference of light between samples that is not worth more of them; 2 levels of 255
SUN_ANGLE = 0.03  # radians; wider than the real sun (0.0047), for shadows as under thin cloud
OCCLUSION_REACH = 3.0  # metres; sky light is not blocked by things farther away
SCENERY = 255  # instance number of what belongs to the surroundings
TONES = 1 << 15  # steps of the tone curve, less than half a level of 255 where it is steepest
CHALKY = 0.85  # roughness from which on a surface has no highlight worth computing


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

    def _unscaled(self, x: NDArray[np.floating], y: NDArray[np.floating]) -> tuple[Array, Array]:
        """As ``_directions``, but 1 long along the viewing axis, (3, N), and their lengths, (N,); much cheaper."""
        half = math.tan(math.radians(self.fov) / 2)
        right, down, forward = self.axes().astype(np.float32)
        u, v = ((2 * x - 1) * half).astype(np.float32), ((2 * y - 1) * half).astype(np.float32)
        direction = np.stack([u * right[k] + (v * down[k] + forward[k]) for k in range(3)])
        return direction.reshape(3, -1), np.sqrt(u * u + (v * v + 1)).reshape(-1)


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


def require_embree() -> None:
    """Say how to install Embree where it is absent, before the first scene and not once for each of them.

    Raises:
        MissingExtra: embreex is not installed, as on systems that it has no wheel for.
    """
    if importlib.util.find_spec("embreex") is None:
        raise MissingExtra(
            "the simulator needs 'embreex'. Install it with: pip install 'verism[sim]' (wheels: Linux and Windows on "
            "x86-64, macOS from 13). Everything else works without it, with images of a model or --images"
        )


def _scene(triangles: Array) -> object:
    """Embree's scene of triangles (F, 3, 3)."""
    require_embree()
    from embreex import rtcore_scene
    from embreex.mesh_construction import TriangleMesh

    scene = rtcore_scene.EmbreeScene()
    # embreex reads number by number: each corner that triangles share is handed over once, and as a Python number,
    # which it reads in less time than one of numpy's. Together that halves the time.
    points, corners = _shared_corners(triangles)
    TriangleMesh(scene, points.astype(object), corners.astype(object))
    return scene


def _shared_corners(triangles: Array) -> tuple[Array, NDArray[np.intp]]:
    """Different points (P, 3) and three of their numbers a triangle (F, 3): ``points[corners]`` is ``triangles``."""
    flat = np.ascontiguousarray(triangles, dtype=np.float32).reshape(-1, 3)
    # Sorting one number is quicker than sorting three. Should two points ever share theirs, none are joined.
    x, y, z = flat.view(np.uint32).T * MIXERS
    key = x ^ y ^ z
    order = np.argsort(key)
    ordered = key[order]
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    number = np.empty(len(flat), np.intp)
    number[order] = np.cumsum(first) - 1
    points = flat[order[first]]
    if not np.array_equal(points[number], flat):
        points, number = flat, np.arange(len(flat))
    return points, number.reshape(-1, 3)


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


@cache
def _tone_curve() -> NDArray[np.uint8]:
    """8-bit sRGB (IEC 61966-2-1) of linear light in [0, 1], in steps of 1 / TONES, shape (TONES + 1,)."""
    x = np.arange(TONES + 1) / TONES
    srgb = np.where(x <= 0.0031308, 12.92 * x, 1.055 * np.power(np.maximum(x, 1e-8), 1 / 2.4) - 0.055)
    return np.asarray(srgb * 255 + 0.5, dtype=np.uint8)


def _tone(radiance: Array) -> NDArray[np.uint8]:
    """Linear light to 8-bit sRGB with a soft shoulder, so that sunlit whites keep their shape."""
    knee = np.float32(0.7)
    over = np.maximum(radiance - knee, 0)
    x = np.minimum(radiance, knee) + (1 - knee) * over / (over + (1 - knee))
    step = (np.clip(x, 0, 1) * np.float32(TONES) + np.float32(0.5)).astype(np.int32)
    return np.asarray(_tone_curve().take(step), dtype=np.uint8)


def render(
    items: Sequence[Placed], surroundings: Surroundings, camera: Camera, size: int, *, exposure: float = 1.0
) -> Rendering:
    """Render items in their surroundings.

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
    stage = _Stage(world, scene, surroundings, camera, _sky_sides(surroundings))
    count = size * size
    samples = np.full(count, EVERYWHERE, np.float32)
    votes = np.zeros((len(items), count), np.uint8)
    kinds = np.zeros((EVERYWHERE, count), np.int16)
    sunny = np.zeros((EVERYWHERE, count), bool)
    seen = np.zeros((EVERYWHERE, 3, count), np.float32)
    occlusion = np.ones(count, np.float32)
    depth = np.full(count, np.inf, np.float32)
    grid = np.arange(size)
    in_view = _in_view(world.corners, camera, size)
    for k, (dx, dy) in enumerate(SUBPIXELS[:EVERYWHERE]):
        hits = _cast(stage, (grid + dx) / size, (grid[:, None] + dy) / size, in_view)
        if k == 0:
            depth[hits.ground] = hits.distance
            depth[hits.mesh] = hits.reach
            if len(items):
                occlusion = _occlusion(stage, hits, size)
        seen[k], sunny[k] = _shade(stage, hits, occlusion, k)
        kinds[k] = hits.kind
        _vote(votes, hits.mesh, hits.instance)
    chosen = np.flatnonzero(_edges(kinds, sunny, size) | _uneven(kinds, seen, size))
    radiance = seen.sum(axis=0)
    rows, cols = np.divmod(chosen, size)
    for k, (dx, dy) in enumerate(SUBPIXELS[EVERYWHERE:], EVERYWHERE):
        hits = _cast(stage, (cols + dx) / size, (rows + dy) / size, in_view[chosen])
        color, _ = _shade(stage, hits, occlusion[chosen], k)
        for channel in range(3):
            radiance[channel, chosen] += color[channel]
        samples[chosen] += 1
        _vote(votes, chosen[hits.mesh], hits.instance)
    radiance *= exposure / samples
    mask = np.zeros(count, np.uint8)
    if len(items):
        covered = np.flatnonzero(votes.max(axis=0) >= len(SUBPIXELS) // 2)
        mask[covered] = votes[:, covered].argmax(axis=0) + 1
    pixels = np.ascontiguousarray(_tone(radiance).T)
    shape = (size, size)
    return Rendering(pixels=pixels.reshape(*shape, 3), mask=mask.reshape(shape), depth=depth.reshape(shape))


def _vote(votes: NDArray[np.uint8], where: NDArray[np.intp], instance: NDArray[np.uint8]) -> None:
    """Add one to each item's count of hits at the pixels ``where`` it was met."""
    met = np.flatnonzero(instance != SCENERY)
    votes[instance[met], where[met]] += 1  # no pixel appears twice in `where`


def _edges(kinds: NDArray[np.int16], sunny: NDArray[np.bool_], size: int) -> NDArray[np.bool_]:
    """Pixels at the borders of objects, surfaces and shadows, and their neighbours, shape (size * size,).

    Args:
        kinds: what the first samples met, (EVERYWHERE, size * size).
        sunny: whether the sun reached it, of the same shape.
        size: width and height of the image, pixels.
    """
    kind, sun = kinds.reshape(-1, size, size), sunny.reshape(-1, size, size)
    rough = (kind[0] != kind[1]) | (sun[0] != sun[1])
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


def _uneven(kinds: NDArray[np.int16], seen: Array, size: int) -> NDArray[np.bool_]:
    """Pixels of items whose samples or neighbours differ visibly, shape (size * size,).

    Args:
        kinds: what the first samples met, (EVERYWHERE, size * size).
        seen: what they saw, radiance (EVERYWHERE, 3, size * size).
        size: width and height of the image, pixels.
    """
    uneven = np.zeros(size * size, bool)
    at = np.flatnonzero((kinds >= 3).any(axis=0))
    here = seen[0].take(at, axis=1)
    tolerance = EVEN * here + np.float32(EVEN / 64)
    apart = np.abs(seen[1].take(at, axis=1) - here) > tolerance
    for step in (-size, -1, 1, size):
        # (The neighbour of a pixel at the left or right rim is one of another row; a few needless samples.)
        apart |= np.abs(seen[0].take(at + step, axis=1, mode="clip") - here) > tolerance
    uneven[at[apart.any(axis=0)]] = True
    return uneven


@dataclass(frozen=True, eq=False)
class _Stage:
    """All that the rays of one image have in common."""

    world: _World
    scene: object  # Embree's, or None where there is no mesh
    surroundings: Surroundings
    camera: Camera
    sides: Array  # ambient light from above, from the sides and from below, (3, 3)


@dataclass(frozen=True, eq=False)
class _Hits:
    """What the N rays of one sub-pixel met: the sky, the ground or a mesh, each with the numbers of its rays."""

    rays: Array  # (3, N) directions
    length: Array  # (N,) of these directions
    kind: NDArray[np.int16]  # (N,) 0 sky, 1 ground, 2 scenery, 3 ... items
    sky: NDArray[np.intp]  # (S,)
    ground: NDArray[np.intp]  # (G,)
    place: Array  # (2, G) position on the ground, metres
    distance: Array  # (G,) to there, metres
    mesh: NDArray[np.intp]  # (M,)
    reach: Array  # (M,) distance, metres
    view: Array  # (3, M) unit directions of the rays that met a mesh
    point: Array  # (3, M)
    normal: Array  # (3, M)
    instance: NDArray[np.uint8]  # (M,) item, or SCENERY
    face: NDArray[np.int32]  # (M,) triangle
    barycentric: Array  # (3, M)


def _cast(stage: _Stage, x: NDArray[np.floating], y: NDArray[np.floating], in_view: NDArray[np.bool_]) -> _Hits:
    """What rays through image positions meet first; only those ``in_view`` (N,) can meet a mesh.

    ``x`` and ``y`` are (N,), or a row and a column that span a grid of N positions.
    """
    world, camera = stage.world, stage.camera
    rays, length = camera._unscaled(x, y)
    position = np.asarray(camera.position, dtype=np.float32)
    lengths = np.full(len(length), np.inf, np.float32)  # to the ground, in lengths of the direction
    if stage.surroundings.ground is not None:
        np.divide(-position[2], rays[2], out=lengths, where=rays[2] < -1e-6)
    distance = lengths * length
    kind = np.isfinite(distance).astype(np.int16)
    mesh = np.flatnonzero(in_view)
    if stage.scene is not None and len(mesh):
        columns, rows = (np.broadcast_to(c, np.broadcast_shapes(x.shape, y.shape)).reshape(-1)[mesh] for c in (x, y))
        view = camera._directions(columns, rows)
        origin = np.broadcast_to(position, (len(mesh), 3))
        result = stage.scene.run(origin, view.T, query="INTERSECT", output=1)  # type: ignore[attr-defined]
        # What lies flat on the ground (the floor of a saucer) hides it, whatever rounding makes of their distances.
        nearer = result["tfar"] < distance[mesh] * np.float32(1 + 1e-5)
        met = np.flatnonzero((result["primID"] >= 0) & nearer)
        mesh, view = mesh[met], view.take(met, axis=1)
        face, u, v = result["primID"][met], result["u"][met], result["v"][met]
        reach = result["tfar"][met]
        point = position[:, None] + view * reach
    else:
        mesh, reach = mesh[:0], np.zeros(0, np.float32)
        view, point = np.zeros((3, 0), np.float32), np.zeros((3, 0), np.float32)
        face, u, v = np.zeros(0, np.int32), np.zeros(0, np.float32), np.zeros(0, np.float32)
    barycentric = np.stack([1 - u - v, u, v])
    normal = _interpolated(world.normals, face, barycentric)
    # A surface seen from behind (the inside of an umbrella, the back of a sign) is lit as if it were two-sided.
    away = np.flatnonzero(_dot(normal, view) > 0)
    away = away[_dot(world.facing.take(face[away], axis=0).T, view.take(away, axis=1)) > 0]
    normal[:, away] *= -1
    normal /= np.maximum(np.sqrt(_dot(normal, normal)), 1e-9)
    instance = world.instance[face]
    kind[mesh] = np.where(instance == SCENERY, 2, 3 + instance.astype(np.int16))
    ground = np.flatnonzero(kind == 1)
    place = position[:2, None] + rays[:2].take(ground, axis=1) * lengths[ground]
    return _Hits(
        rays=rays,
        length=length,
        kind=kind,
        sky=np.flatnonzero(kind == 0),
        ground=ground,
        place=place,
        distance=distance[ground],
        mesh=mesh,
        reach=reach,
        view=view,
        point=point,
        normal=normal,
        instance=instance,
        face=face,
        barycentric=barycentric,
    )


def _nearness(hits: _Hits, size: int) -> Array:
    """How much an item may dim the sky light of each pixel: 1 at its box, fading to 0 at half its extent beyond.

    Farther away the dimming is too faint to be worth the rays; the fading hides where it ends.
    """
    rows, cols = np.divmod(hits.mesh, size)
    nearness = np.zeros((size, size), np.float32)
    grid = np.arange(size)
    for number in np.unique(hits.instance[hits.instance != SCENERY]).tolist():
        mask = hits.instance == number
        y0, y1, x0, x1 = rows[mask].min(), rows[mask].max(), cols[mask].min(), cols[mask].max()
        reach = 0.5 * max(y1 - y0, x1 - x0) + 4
        down, across = (np.clip(1 - np.maximum(a - grid, grid - b) / reach, 0, 1) for a, b in ((y0, y1), (x0, x1)))
        nearness = np.maximum(nearness, np.minimum(down[:, None], across).astype(np.float32))
    return nearness.reshape(-1)


def _occlusion(stage: _Stage, hits: _Hits, size: int) -> Array:
    """Share of the sky light that items leave to each pixel, shape (size * size,); ``hits`` are one a pixel.

    Neighbouring pixels cast different rays of one fixed set, in tiles of 4 x 4, and a 4 x 4 mean over surfaces that
    face the same way puts them together: 64 directions for the price of 4, without noise.
    """
    nearness = _nearness(hits, size)
    of_ground, of_mesh = (np.flatnonzero(nearness[where]) for where in (hits.ground, hits.mesh))
    where = np.concatenate([hits.ground[of_ground], hits.mesh[of_mesh]])
    n = len(of_ground)  # the first n are on the ground, whose normal is that of the fixed set
    share = np.ones(size * size, np.float32)
    if not len(where):
        return share
    directions = _cosine_directions(64, np.random.default_rng(7)).reshape(4, 16, 3)
    rows, cols = np.divmod(where, size)
    tile = (rows % 4) * 4 + cols % 4
    normal = hits.normal.take(of_mesh, axis=1)
    tangent, bitangent = _frames(normal)
    start, ray = np.empty((len(where), 3), np.float32), np.empty((len(where), 3), np.float32)
    start[:n, :2] = hits.place.take(of_ground, axis=1).T
    start[:n, 2] = 2e-3
    start[n:] = (hits.point.take(of_mesh, axis=1) + normal * np.float32(2e-3)).T
    reach = np.full(len(where), OCCLUSION_REACH, dtype=np.float32)
    free = np.zeros(len(where), dtype=np.uint8)
    for k in range(4):
        ray[:n] = directions[k].take(tile[:n], axis=0)
        d = directions[k].T.take(tile[n:], axis=1)
        ray[n:] = (tangent * d[0] + bitangent * d[1] + normal * d[2]).T
        hit = stage.scene.run(start, ray, dists=reach.copy(), query="OCCLUDED")  # type: ignore[attr-defined]
        free += hit < 0
    # Joint mean over the 4 x 4 tile. Counts fit into bytes: at most 16 points of 4 rays.
    rows, cols = rows - rows.min(), cols - cols.min()
    shape = int(rows.max()) + 5, int(cols.max()) + 5
    at = (rows + 2) * shape[1] + cols + 2
    image, known, uneven = (np.zeros(shape, np.uint8) for _ in range(3))
    image.reshape(-1)[at], known.reshape(-1)[at], uneven.reshape(-1)[at[n:]] = free, 1, 1
    mean = np.empty(len(where), np.float32)
    corner = at - 2 * shape[1] - 2  # of the tile, and so its place in the array of all tiles' sums
    corner = corner // shape[1] * (shape[1] - 3) + corner % shape[1]
    total, weight = _tile_sums(image).reshape(-1)[corner], _tile_sums(known).reshape(-1)[corner]
    mean[:] = total / (np.float32(4) * weight)
    # Where there are meshes as well, a neighbour counts if it faces the same way.
    mixed = np.flatnonzero(_tile_sums(uneven).reshape(-1)[corner])
    facing = np.zeros((3, image.size), np.float32)
    facing[2, at[:n]] = 1
    for k in range(3):
        facing[k, at[n:]] = normal[k]
    here = facing.take(at[mixed], axis=1)
    mixed_total, mixed_weight = np.zeros(len(mixed), np.uint8), np.zeros(len(mixed), np.uint8)
    for dy in range(-2, 2):
        for dx in range(-2, 2):
            beside = at[mixed] + (dy * shape[1] + dx)
            same = _dot(facing.take(beside, axis=1), here) > 0.9
            mixed_total += same * image.reshape(-1)[beside]
            mixed_weight += same
    mean[mixed] = mixed_total / np.maximum(np.float32(4) * mixed_weight, 1)
    share[where] = 1 - (1 - mean) * nearness[where]
    return share


def _tile_sums(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Sums over all tiles of 4 x 4, (H, W) -> (H - 3, W - 3)."""
    pairs = image[:-1] + image[1:]
    rows = pairs[:-2] + pairs[2:]
    pairs = rows[:, :-1] + rows[:, 1:]
    sums: NDArray[np.uint8] = pairs[:, :-2] + pairs[:, 2:]
    return sums


def _interpolated(corners: Array, face: NDArray[np.int32], barycentric: Array) -> Array:
    """What is known at the corners of triangles (F, 3, 3), at places on some of them (3, N), shape (3, N)."""
    a, b, c = (corners[:, k].take(face, axis=0).T for k in range(3))
    return np.ascontiguousarray(barycentric[0] * a + barycentric[1] * b + barycentric[2] * c)


def _towards_sun(surroundings: Surroundings, sample: int) -> Array:
    """Each of the four samples looks at another point of the sun's disc: four-step soft shadows. Shape (3,)."""
    to_sun = np.asarray(surroundings.sun_direction, dtype=np.float32)
    tangent, bitangent = _frames(to_sun[:, None])
    turn = math.pi / 2 * sample + 0.4
    aside = math.cos(turn) * tangent[:, 0] + math.sin(turn) * bitangent[:, 0]
    to_sun = np.asarray(to_sun + SUN_ANGLE * aside, dtype=np.float32)
    to_sun /= np.linalg.norm(to_sun)
    return to_sun


def _shade(stage: _Stage, hits: _Hits, occlusion: Array, sample: int) -> tuple[Array, NDArray[np.bool_]]:
    """Radiance along every ray (3, N), and whether the sun reaches what it met; ``occlusion`` is (N,)."""
    out = np.empty_like(hits.rays)
    lit = np.zeros(len(hits.length), bool)
    to_sun = _towards_sun(stage.surroundings, sample)
    if len(hits.sky):
        sky = stage.surroundings.sky((hits.rays.take(hits.sky, axis=1) / hits.length[hits.sky]).T)
        for k in range(3):
            out[k, hits.sky] = sky[:, k]
    for where, shade in ((hits.ground, _shade_ground), (hits.mesh, _shade_meshes)):
        if len(where):
            color, lit[where] = shade(stage, hits, occlusion[where], to_sun)
            for k in range(3):
                out[k, where] = color[k]
    return out, lit


def _shade_ground(stage: _Stage, hits: _Hits, occlusion: Array, to_sun: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Radiance of the ground (3, G) and whether the sun reaches it; it faces up, so most of its light is constant."""
    surroundings = stage.surroundings
    assert surroundings.ground is not None
    lit = np.full(len(hits.ground), to_sun[2] > 0)
    if stage.scene is not None and to_sun[2] > 0:
        asked = np.flatnonzero(_may_be_shaded(stage.world.corners, to_sun, *hits.place))
        start = np.full((len(asked), 3), 3e-3, np.float32)
        start[:, :2] = hits.place.take(asked, axis=1).T
        lit[asked] = _sees(stage.scene, start, to_sun)
    albedo = np.ascontiguousarray(surroundings.ground(hits.place.T).T)
    sun = np.asarray(surroundings.sun, dtype=np.float32)
    sunlight = lit * to_sun[2]
    above = stage.sides[0]
    color = np.empty_like(albedo)
    for k in range(3):
        color[k] = albedo[k] * (occlusion * above[k] + sunlight * (sun[k] / np.float32(math.pi)))
    rays = hits.rays.take(hits.ground, axis=1)
    if surroundings.ground_roughness < CHALKY:
        color += _gloss(
            surroundings,
            stage.sides,
            rays / hits.length[hits.ground],
            np.array([[0], [0], [1]], np.float32),
            to_sun,
            sunlight,
            sun,
            albedo,
            np.asarray(surroundings.ground_roughness, dtype=np.float32),
            np.asarray(0, dtype=np.float32),
            occlusion,
        )
    fade = np.exp(hits.distance * np.float32(-1 / surroundings.haze))
    mist = _mist(surroundings, rays)
    for k in range(3):
        color[k] = mist[k] + (color[k] - mist[k]) * fade
    return color, lit


def _mist(surroundings: Surroundings, rays: Array) -> Array:
    """Radiance of the horizon below which rays (3, N) pass, (3, N): the ground far away fades into it."""
    if (rays[1] > np.abs(rays[0])).all():
        # One row of the sky, finer than the pixels, is all that a camera looking ahead needs.
        across = rays[0] / rays[1]
        low, high = float(across.min()), float(across.max())
        entries = max(2, min(len(across), 4 * math.isqrt(len(across))))
        step = max((high - low) / (entries - 1), 1e-9)
        u = (low + step * np.arange(entries)).astype(np.float32)
        number = ((across - np.float32(low)) * np.float32(1 / step) + np.float32(0.5)).astype(np.intp)
        x, y = u, np.ones_like(u)
    else:
        x, y = rays[:2]
        number = None
    directions = np.stack([x, y, 0.002 * np.sqrt(x * x + y * y)], axis=1).astype(np.float32)
    directions /= np.sqrt(_dot(directions.T, directions.T))[:, None]
    mist = np.ascontiguousarray(surroundings.sky(directions).T)
    return mist if number is None else mist.take(number, axis=1, mode="clip")


def _sees(scene: object, start: Array, direction: Array) -> NDArray[np.bool_]:
    """Whether nothing lies in one direction (3,) from points (N, 3)."""
    toward = np.broadcast_to(direction, start.shape)
    free: NDArray[np.bool_] = scene.run(start, toward, query="OCCLUDED") < 0  # type: ignore[attr-defined]
    return free


def _shade_meshes(stage: _Stage, hits: _Hits, occlusion: Array, to_sun: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Radiance of the meshes that were hit, (3, M), and whether the sun reaches them."""
    albedo, roughness, metallic, emission = _surface(stage.world, hits)
    sunlight = np.maximum(_dot(to_sun, hits.normal), 0)
    asked = np.flatnonzero(sunlight > 0)
    start = (hits.point.take(asked, axis=1) + hits.normal.take(asked, axis=1) * np.float32(3e-3)).T
    sunlight[asked] *= _sees(stage.scene, start, to_sun)
    sun = np.asarray(stage.surroundings.sun, dtype=np.float32)
    light = _ambient(stage.sides, hits.normal) * occlusion + (sun / np.float32(math.pi))[:, None] * sunlight
    color = albedo * ((1 - metallic) * light + emission)

    # Highlights and reflections (GGX with Schlick's Fresnel); chalky surfaces have none worth computing.
    shiny = np.flatnonzero(roughness < CHALKY)
    if len(shiny):
        gloss = _gloss(
            stage.surroundings,
            stage.sides,
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
    return color, sunlight > 0


def _surface(world: _World, hits: _Hits) -> tuple[Array, Array, Array, Array]:
    """Albedo (3, M), roughness, metallic and emission (M,) of the meshes that were hit."""
    material = world.material[hits.face]
    colors = linear(np.array([x.color for x in world.materials], dtype=np.float32).reshape(-1, 3)).T
    albedo = colors.take(material, axis=1)
    roughness, metallic, emission = np.array(
        [(x.roughness, x.metallic, x.emission) for x in world.materials], np.float32
    ).T.take(material, axis=1)
    for number in np.flatnonzero(np.bincount(material)).tolist():
        pattern = world.materials[number].pattern
        if pattern is None:
            continue
        of_it = np.flatnonzero(material == number)
        local = _interpolated(world.local, hits.face[of_it], hits.barycentric.take(of_it, axis=1))
        w = _pattern_weight(pattern, local.T)
        second = linear(pattern.color)
        for k in range(3):
            albedo[k, of_it] = albedo[k, of_it] * (1 - w) + second[k] * w
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
