"""A small ray-cast renderer for the CPU: Embree finds what each ray meets, numpy shades it.

Direct sun with soft shadows, sky light with ambient occlusion, microfacet highlights, reflections of the sky, and
procedural patterns. No sampling noise, no graphics driver, no threads of its own; the instance mask comes from the same
rays as the image, so ground truth and image cannot disagree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

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
        half = math.tan(math.radians(self.fov) / 2)
        local = np.stack([(2 * x - 1) * half, (2 * y - 1) * half, np.ones_like(x)], axis=1)
        direction = local @ self.axes()
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        return np.ascontiguousarray(direction, dtype=np.float32)


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
    """

    pixels: NDArray[np.uint8]
    mask: NDArray[np.uint8]


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
    normals: Array  # (F, 3, 3) world
    local: Array  # (F, 3, 3) on the model, for patterns
    instance: NDArray[np.uint8]  # (F,)
    material: NDArray[np.int32]  # (F,)
    materials: tuple[Material, ...]


def _flatten(items: Sequence[Placed], surroundings: Surroundings) -> _World:
    pieces: list[tuple[Mesh, Mesh, int, Material]] = []
    for number, item in enumerate(items):
        for part in item.model.parts:
            pieces.append((part.mesh.transformed(item.matrix), part.mesh, number, part.material))
    pieces += [(mesh, mesh, SCENERY, material) for mesh, material in surroundings.scenery]
    if not pieces:
        empty = np.zeros((0, 3, 3), np.float32)
        return _World(empty, empty, empty, np.zeros(0, np.uint8), np.zeros(0, np.int32), ())
    counts = [len(world) for world, _, _, _ in pieces]
    return _World(
        triangles=np.concatenate([world.triangles for world, _, _, _ in pieces]),
        normals=np.concatenate([world.normals for world, _, _, _ in pieces]),
        local=np.concatenate([local.triangles for _, local, _, _ in pieces]),
        instance=np.repeat(np.array([n for _, _, n, _ in pieces], dtype=np.uint8), counts),
        material=np.repeat(np.arange(len(pieces), dtype=np.int32), counts),
        materials=tuple(m for _, _, _, m in pieces),
    )


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
    up = normal[:, 2:3]
    above, side, below = sides
    light: Array = side + np.maximum(up, 0) * (above - side) + np.maximum(-up, 0) * (below - side)
    return light


def _cosine_directions(count: int, rng: np.random.Generator) -> Array:
    """Directions about +z with density proportional to the cosine, shape (count, 3), spread evenly (Fibonacci)."""
    k = np.arange(count) + 0.5
    r, turn = np.sqrt(k / count), k * (math.pi * (3 - math.sqrt(5))) + rng.uniform(0, 2 * math.pi)
    return np.stack([r * np.cos(turn), r * np.sin(turn), np.sqrt(1 - r**2)], axis=1).astype(np.float32)


def _frames(normal: Array) -> tuple[Array, Array]:
    """Two unit vectors perpendicular to each normal (Duff et al. 2017, JCGT 6(1))."""
    sign = np.where(normal[:, 2] >= 0, np.float32(1), np.float32(-1))
    a = -1 / (sign + normal[:, 2])
    b = normal[:, 0] * normal[:, 1] * a
    tangent = np.stack([1 + sign * normal[:, 0] ** 2 * a, sign * b, -sign * normal[:, 0]], axis=1)
    bitangent = np.stack([b, sign + normal[:, 1] ** 2 * a, -normal[:, 1]], axis=1)
    return tangent.astype(np.float32), bitangent.astype(np.float32)


def _occlusion(scene: object, point: Array, normal: Array, kept: NDArray[np.intp], shape: tuple[int, int]) -> Array:
    """Share of the sky each point sees, shape (N,).

    Neighbouring pixels cast different rays of one fixed set, in tiles of 4 x 4, and a 4 x 4 mean over surfaces that
    face the same way puts them together: 64 directions for the price of 4, without noise.
    """
    height, width = shape
    directions = _cosine_directions(64, np.random.default_rng(7)).reshape(4, 16, 3)
    rows, cols = np.divmod(kept, width)
    tile = (rows % 4) * 4 + cols % 4
    tangent, bitangent = _frames(normal)
    start = np.ascontiguousarray(point + normal * 2e-3)
    reach = np.full(len(point), OCCLUSION_REACH, dtype=np.float32)
    free = np.zeros(len(point), dtype=np.float32)
    for k in range(4):
        d = directions[k][tile]
        ray = np.ascontiguousarray(tangent * d[:, :1] + bitangent * d[:, 1:2] + normal * d[:, 2:])
        hit = scene.run(start, ray, dists=reach.copy(), query="OCCLUDED")  # type: ignore[attr-defined]
        free += hit < 0
    free *= 0.25
    # Joint mean over the 4 x 4 tile: a neighbour counts if it faces the same way.
    image = np.zeros((height + 4, width + 4), dtype=np.float32)
    facing = np.zeros((height + 4, width + 4, 3), dtype=np.float32)
    image[rows + 2, cols + 2], facing[rows + 2, cols + 2] = free, normal
    total, weight = np.zeros(len(point), np.float32), np.zeros(len(point), np.float32)
    for dy in range(-2, 2):
        for dx in range(-2, 2):
            neighbour = facing[rows + 2 + dy, cols + 2 + dx]
            same = (np.einsum("ni,ni->n", neighbour, normal) > 0.9).astype(np.float32)
            total += same * image[rows + 2 + dy, cols + 2 + dx]
            weight += same
    return np.asarray(total / np.maximum(weight, 1), dtype=np.float32)


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
    rows, cols = np.divmod(np.arange(count), size)
    radiance = np.zeros((count, 3), np.float32)
    samples = np.zeros(count, np.float32)
    votes = np.zeros((len(items), count), np.uint8)
    # What each of the first samples met: 0 sky, 1 ground, 2 scenery, 3 ... items; and whether the sun reached it.
    kinds = np.zeros((EVERYWHERE, count), np.int16)
    sunny = np.zeros((EVERYWHERE, count), bool)
    occlusion = np.ones(count, np.float32)
    chosen = np.arange(count)
    for k, (dx, dy) in enumerate(SUBPIXELS):
        if k == EVERYWHERE:
            chosen = np.flatnonzero(_edges(kinds, sunny, size))
        rays = camera.rays((cols[chosen] + dx) / size, (rows[chosen] + dy) / size)
        hits = _cast(world, scene, surroundings, camera, rays)
        where = chosen[hits.kept]
        if k == 0:
            nearness = _nearness(where, hits.instance, size)
            near = np.flatnonzero(nearness)
            if len(near):
                free = _occlusion(scene, hits.point[near], hits.normal[near], where[near], (size, size))
                occlusion[where[near]] = 1 - (1 - free) * nearness[near]
        color, lit = _shade(world, scene, surroundings, sides, rays, hits, occlusion[where], k)
        radiance[chosen] += color
        samples[chosen] += 1
        if k < EVERYWHERE:
            kinds[k, where] = np.where(hits.face < 0, 1, np.where(hits.instance == SCENERY, 2, 3 + hits.instance))
            sunny[k, where] = lit
        for number in range(len(items)):
            votes[number, where[hits.instance == number]] += 1
    radiance *= exposure / samples[:, None]
    mask = np.zeros(count, np.uint8)
    if len(items):
        best = votes.argmax(axis=0)
        covered = votes[best, np.arange(count)] >= len(SUBPIXELS) // 2
        mask[covered] = best[covered] + 1
    return Rendering(pixels=_tone(radiance).reshape(size, size, 3), mask=mask.reshape(size, size))


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
    point: Array
    normal: Array
    instance: NDArray[np.uint8]  # item, or SCENERY
    face: NDArray[np.int64]  # triangle, or -1 for the ground
    barycentric: Array  # (N, 3)
    distance: Array


def _cast(world: _World, scene: object, surroundings: Surroundings, camera: Camera, rays: Array) -> _Hits:
    n = len(rays)
    origin = np.ascontiguousarray(np.broadcast_to(np.asarray(camera.position, dtype=np.float32), rays.shape))
    distance = np.full(n, np.inf, np.float32)
    face = np.full(n, -1, np.int64)
    u, v = np.zeros(n, np.float32), np.zeros(n, np.float32)
    if scene is not None:
        result = scene.run(origin, rays, query="INTERSECT", output=1)  # type: ignore[attr-defined]
        face = result["primID"].astype(np.int64)
        hit = face >= 0
        distance[hit] = result["tfar"][hit]
        u, v = result["u"].astype(np.float32), result["v"].astype(np.float32)
    if surroundings.ground is not None:
        with np.errstate(divide="ignore"):
            t = np.where(rays[:, 2] < -1e-6, -np.float32(camera.position[2]) / rays[:, 2], np.float32(np.inf))
        nearer = t < distance
        distance[nearer] = t[nearer]
        face[nearer] = -1
    kept = np.flatnonzero(np.isfinite(distance))
    face, u, v, distance = face[kept], u[kept], v[kept], distance[kept]
    point = origin[kept] + rays[kept] * distance[:, None]
    normal = np.zeros_like(point)
    normal[:, 2] = 1
    instance = np.full(len(kept), SCENERY, np.uint8)
    barycentric = np.stack([1 - u - v, u, v], axis=1)
    on_mesh = np.flatnonzero(face >= 0)
    if len(on_mesh):
        f = face[on_mesh]
        smooth = np.einsum("nk,nki->ni", barycentric[on_mesh], world.normals[f])
        # A surface seen from behind (the inside of an umbrella, the back of a sign) is lit as if it were two-sided.
        away = np.einsum("ni,ni->n", smooth, rays[kept[on_mesh]]) > 0
        corner = world.triangles[f]
        flat = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
        away_flat = np.einsum("ni,ni->n", flat, rays[kept[on_mesh]]) > 0
        smooth[away & away_flat] *= -1
        smooth /= np.maximum(np.linalg.norm(smooth, axis=1, keepdims=True), 1e-9)
        normal[on_mesh] = smooth
        instance[on_mesh] = world.instance[f]
    return _Hits(kept, point, normal, instance, face, barycentric.astype(np.float32), distance)


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
    """Radiance along every ray, and for every hit whether the sun reaches it. ``occlusion`` runs over the hits."""
    out = np.empty_like(rays)
    missed = np.ones(len(rays), bool)
    missed[hits.kept] = False
    out[missed] = surroundings.sky(rays[missed])
    n = len(hits.kept)
    if n == 0:
        return out, np.zeros(0, bool)
    view = rays[hits.kept]
    albedo, roughness, metallic, emission = _surface(world, surroundings, hits)
    free = occlusion[:, None]

    # Each of the four samples looks at another point of the sun's disc: four-step soft shadows.
    to_sun = np.asarray(surroundings.sun_direction, dtype=np.float32)
    tangent, bitangent = _frames(to_sun[None])
    turn = math.pi / 2 * sample + 0.4
    to_sun = to_sun + SUN_ANGLE * (math.cos(turn) * tangent[0] + math.sin(turn) * bitangent[0])
    to_sun /= np.linalg.norm(to_sun)
    facing = np.maximum(hits.normal @ to_sun, 0)
    lit = np.flatnonzero(facing > 0)
    sunlight = np.zeros(n, np.float32)
    sunlight[lit] = facing[lit]
    if scene is not None and len(lit):
        start = np.ascontiguousarray(hits.point[lit] + hits.normal[lit] * 3e-3)
        direction = np.ascontiguousarray(np.broadcast_to(to_sun, start.shape), dtype=np.float32)
        blocked = scene.run(start, direction, query="OCCLUDED") >= 0  # type: ignore[attr-defined]
        sunlight[lit[blocked]] = 0
    sun = np.asarray(surroundings.sun, dtype=np.float32)

    diffuse = albedo * (1 - metallic[:, None])
    light = _ambient(sides, hits.normal) * free + sun / math.pi * sunlight[:, None]
    color = diffuse * light

    # Highlights and reflections (GGX with Schlick's Fresnel); chalky surfaces have none worth computing.
    shiny = np.flatnonzero(roughness < 0.85)
    if len(shiny):
        color[shiny] += _gloss(
            surroundings,
            sides,
            view[shiny],
            hits.normal[shiny],
            to_sun,
            sunlight[shiny],
            sun,
            albedo[shiny],
            roughness[shiny],
            metallic[shiny],
            free[shiny],
        )
    color += albedo * emission[:, None]

    ground = hits.face < 0
    if ground.any():
        fade = np.exp(-hits.distance[ground] / surroundings.haze)[:, None]
        horizon = view[ground].copy()
        horizon[:, 2] = 0.002
        horizon /= np.linalg.norm(horizon, axis=1, keepdims=True)
        color[ground] = color[ground] * fade + surroundings.sky(horizon) * (1 - fade)
    out[hits.kept] = color
    return out, sunlight > 0


def _surface(world: _World, surroundings: Surroundings, hits: _Hits) -> tuple[Array, Array, Array, Array]:
    """Albedo (N, 3), roughness, metallic and emission (N,) under each hit."""
    n = len(hits.kept)
    albedo = np.empty((n, 3), np.float32)
    roughness, metallic = np.ones(n, np.float32), np.zeros(n, np.float32)
    emission = np.zeros(n, np.float32)
    ground = hits.face < 0
    if ground.any() and surroundings.ground is not None:
        albedo[ground] = surroundings.ground(hits.point[ground, :2])
        roughness[ground] = surroundings.ground_roughness
    on_mesh = np.flatnonzero(~ground)
    if len(on_mesh):
        f = hits.face[on_mesh]
        m = world.material[f]
        albedo[on_mesh] = linear(np.array([x.color for x in world.materials], dtype=np.float32))[m]
        roughness[on_mesh] = np.array([x.roughness for x in world.materials], np.float32)[m]
        metallic[on_mesh] = np.array([x.metallic for x in world.materials], np.float32)[m]
        emission[on_mesh] = np.array([x.emission for x in world.materials], np.float32)[m]
        for number, material in enumerate(world.materials):
            if material.pattern is None:
                continue
            chosen = on_mesh[m == number]
            if len(chosen):
                local = np.einsum("nk,nki->ni", hits.barycentric[chosen], world.local[hits.face[chosen]])
                w = _pattern_weight(material.pattern, local)[:, None]
                albedo[chosen] = albedo[chosen] * (1 - w) + linear(material.pattern.color) * w
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
    m = metallic[:, None]
    f0 = 0.04 * (1 - m) + albedo * m
    cos_view = np.clip(-np.einsum("ni,ni->n", view, normal), 1e-3, 1)
    # Schlick's rise towards grazing angles, damped on rough surfaces.
    rise = ((1 - cos_view) ** 5 * (1 - roughness))[:, None]
    fresnel = f0 + (np.maximum(1 - f0, 0) * rise)
    mirror = view + 2 * cos_view[:, None] * normal
    mirror /= np.linalg.norm(mirror, axis=1, keepdims=True)
    blurred = _ambient(sides, mirror)
    sharp = blurred.copy()
    # Where the ambient light is stated the sky says nothing about it (the black void lights its objects none the less).
    upward = (mirror[:, 2] > 0) & (roughness < 0.5) & (surroundings.ambient is None)
    if upward.any():
        sharp[upward] = surroundings.sky(np.ascontiguousarray(mirror[upward]))
    blur = np.clip(roughness * 2, 0, 1)[:, None]
    reflected = (sharp * (1 - blur) + blurred * blur) * free
    half = to_sun - view
    half /= np.maximum(np.linalg.norm(half, axis=1, keepdims=True), 1e-6)
    cos_half = np.maximum(np.einsum("ni,ni->n", half, normal), 0)
    a2 = np.maximum(roughness, 0.08) ** 4
    spread = a2 / (math.pi * (cos_half**2 * (a2 - 1) + 1) ** 2)
    # Kelemen's visibility term: 1 / (4 (l.h)^2), close to Smith's for these surfaces and much cheaper.
    cos_light = np.maximum(half @ to_sun, 0.1)
    highlight = np.minimum(spread / (4 * cos_light**2) * sunlight, 8.0)[:, None] * sun * fresnel
    return np.asarray(fresnel * reflected + highlight, dtype=np.float32)
