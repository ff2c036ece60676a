"""Places for objects to stand in: a black void, landscapes, streets and rooms, and a user's own image.

Nothing is loaded from files except a user's image. A sky is a gradient with clouds and rows of silhouettes (hills,
trees, houses), painted by direction; a ground is a few noise textures looked up by position. Colours are written in
sRGB, as they should appear in daylight, and turned into linear light where they are used.

Directions are mapped as on the side of a box around the camera: ``u`` in [-2, 2] runs along the horizon (-1 .. 1 is the
front face, about +-45 degrees; what lies behind mirrors it) and ``e`` is the height over the horizon in box units, the
tangent of the elevation straight ahead. Straight lines stay straight, and no trigonometry is needed.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from verism.errors import UsageError
from verism.files import read_regular
from verism.imaging import open_image
from verism.limits import IMAGE_BYTES, IMAGE_PIXELS
from verism.simulator.model import Color, Material, Pattern, pick
from verism.simulator.noise import fbm_texture
from verism.simulator.shapes import Mesh, box, frustum, grid_surface, lathe, merge
from verism.simulator.surroundings import Environment, Surroundings, linear

Array = NDArray[np.float32]
Rng = np.random.Generator
Sky = Callable[[Array], Array]
Ground = Callable[[Array], Array]
Shader = Callable[[Array, Array, Array, NDArray[np.intp]], Array]

__all__ = ["ENVIRONMENTS", "environment", "read_radiance", "user_environment"]

TABLE = 4096  # entries of a horizon line over u in [-2, 2]: a third of a pixel at 256 pixels
GRADIENT = 1024  # entries of a sky gradient over z in [0, 1]
VIEWPOINT = (0.0, -4.5, 1.5)  # metres; where the camera usually is, for images projected on the ground


# ------------------------------------------------------------------------------------------------- baked textures
@cache
def _fbm(variant: int) -> Array:
    """Fractal noise, shape (1024, 1024), mean 0.5: fine enough to be looked up without interpolation."""
    wide = _four_times_wider(_four_times_wider(fbm_texture(variant).T).T)
    return np.ascontiguousarray(wide, dtype=np.float32)


def _four_times_wider(image: NDArray[np.floating]) -> NDArray[np.float64]:
    """Columns interpolated between each and the next, round the edge, (H, W) -> (H, 4 W)."""
    image = image.astype(np.float64)
    following = np.roll(image, -1, axis=1)
    wide = np.empty((*image.shape, 4))
    for k in range(4):
        wide[:, :, k] = image * (1 - k / 4) + following * (k / 4)
    return wide.reshape(len(image), -1)


@cache
def _grain() -> Array:
    """Sand: slightly blurred white noise, shape (512, 512), mean 0.5, standard deviation 0.2."""
    x = np.random.default_rng([0x5EED, 100]).standard_normal((512, 512))
    x = x + 0.5 * sum(np.roll(x, s, a) for s in (-1, 1) for a in (0, 1))
    return np.asarray(0.5 + 0.2 * x / x.std(), dtype=np.float32)


@cache
def _blades() -> Array:
    """Grass: white noise drawn out along y and bent by softer noise, shape (1024, 1024), mean 0.5."""
    x = np.random.default_rng([0x5EED, 101]).standard_normal((1024, 1024)).astype(np.float32)
    x = x + np.roll(x, 1, 1)
    smeared = np.zeros_like(x)
    for k in range(14):
        smeared[k:] += x[: len(x) - k] * (1 - k / 14)
        smeared[:k] += x[len(x) - k :] * (1 - k / 14)
    bend = ((_fbm(5) - 0.5) * 60).astype(np.int64)
    rows, cols = np.indices(x.shape)
    smeared = smeared[rows, (cols + bend) % 1024]
    return np.asarray(0.5 + 0.2 * smeared / smeared.std(), dtype=np.float32)


@cache
def _cells() -> tuple[Array, Array, Array]:
    """A Voronoi pattern of 32 x 32 cells that tiles, each shape (512, 512).

    Returns a random number per cell in [0, 1), the distance to the cell's centre, and the distance to the cell's edge
    (half the difference to the second nearest centre), both in cell widths.
    """
    n, size = 32, 512
    rng = np.random.default_rng([0x5EED, 102])
    jitter = rng.random((n, n, 2)) * 0.8 + 0.1
    number = rng.random((n, n)).astype(np.float32)
    t = (np.arange(size) + 0.5) * n / size
    y, x = np.meshgrid(t, t, indexing="ij")
    i, j = y.astype(int), x.astype(int)
    first = np.full((size, size), 9.0)
    second = np.full((size, size), 9.0)
    owner = np.zeros((size, size), np.float32)
    for di in (-1, 0, 1):
        for dj in (-1, 0, 1):
            a, b = (i + di) % n, (j + dj) % n
            d = np.hypot(y - (i + di + jitter[a, b, 0]), x - (j + dj + jitter[a, b, 1]))
            nearest = d < first
            second = np.where(nearest, first, np.minimum(second, d))
            first = np.where(nearest, d, first)
            owner = np.where(nearest, number[a, b], owner)
    return owner, first.astype(np.float32), ((second - first) / 2).astype(np.float32)


@cache
def _dice() -> Array:
    """Random numbers for things counted by row and column (stones, windows), shape (64, 64), in [0, 1)."""
    return np.random.default_rng([0x5EED, 103]).random((64, 64)).astype(np.float32)


def _at(texture: Array, x: Array, y: Array, tile: float, tile_y: float | None = None) -> Array:
    """Nearest texel, repeating; one tile spans ``tile`` metres. The side must be a power of two."""
    n = len(texture)
    column = (x * np.float32(n / tile)).astype(np.int32) & (n - 1)
    row = (y * np.float32(n / (tile_y or tile))).astype(np.int32) & (n - 1)
    return texture.ravel()[row * n + column]


def _rolled(row: Array, column: Array) -> Array:
    """A random number in [0, 1) per whole-numbered row and column."""
    return np.asarray(_dice()[row.astype(np.int32) & 63, column.astype(np.int32) & 63], dtype=np.float32)


def _ramp(stops: Sequence[Color]) -> Array:
    """Evenly spaced sRGB stops as a table of linear colours, shape (256, 3)."""
    t = np.linspace(0, 1, 256)
    known = np.linspace(0, 1, len(stops))
    colors = np.array(stops, dtype=np.float64)
    return linear(np.stack([np.interp(t, known, colors[:, k]) for k in range(3)], axis=1))


def _through(ramp: Array, weight: Array) -> Array:
    """Colours of a ramp at weights in [0, 1] (clipped), (N,) -> (N, 3)."""
    return ramp.take((np.clip(weight, 0, 1) * np.float32(255.99)).astype(np.int32), axis=0)


def _vary(rng: Rng, color: Color, amount: float = 0.05) -> Color:
    """A colour near this one: mostly lighter or darker, a little of another hue."""
    shift = amount * (rng.uniform(-1, 1) + 0.4 * rng.uniform(-1, 1, 3))
    r, g, b = np.clip(np.array(color) + shift, 0.02, 0.98)
    return float(r), float(g), float(b)


def _mixed(a: Color, b: Color, share: float) -> Color:
    """``share`` of ``b`` in ``a``."""
    return (a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share, a[2] + (b[2] - a[2]) * share)


# --------------------------------------------------------------------------------------------------------- light
def _sun(rng: Rng, low: float = 30, high: float = 60, side: float = 65) -> tuple[float, float, float]:
    """A direction from the camera's side: elevation in [low, high] degrees, at most ``side`` degrees off centre."""
    elevation, azimuth = math.radians(rng.uniform(low, high)), math.radians(rng.uniform(-side, side))
    flat = math.cos(elevation)
    return flat * math.sin(azimuth), -flat * math.cos(azimuth), math.sin(elevation)


def _rays(strength: float, color: Color = (1.0, 0.96, 0.88)) -> tuple[float, float, float]:
    """Irradiance of a light of this linear colour."""
    return strength * color[0], strength * color[1], strength * color[2]


# ----------------------------------------------------------------------------------------------------------- sky
@dataclass(frozen=True, eq=False)
class _Clouds:
    """Clouds over the horizon. ``cover`` about 0.3 (a few) to 0.7 (overcast); ``size`` is one texture tile in u."""

    light: Array
    shade: Array
    cover: float
    size: float
    offset: tuple[float, float]
    softness: float

    def over(self, u: Array, e: Array, color: Array) -> None:
        # Height is compressed so that the texture does not race towards the zenith.
        v = e / (1 + 0.6 * e) * np.float32(2.4) + np.float32(self.offset[1])
        u = u + np.float32(self.offset[0])
        thickness = _at(_fbm(2), u, v, self.size)
        above = _at(_fbm(2), u, v + np.float32(0.05 * self.size), self.size)
        weight = np.clip((thickness - (1 - self.cover)) / self.softness, 0, 1) * np.clip(e * 12, 0.15, 1)
        bright = np.clip(0.55 + (thickness - above) * 3.0, 0, 1)[:, None]
        color += (self.shade + (self.light - self.shade) * bright - color) * weight[:, None]


@dataclass(frozen=True, eq=False)
class _Layer:
    """A row of things along the horizon: what lies below ``height`` (a table over u) is painted by ``shader``.

    The shader gets u, e, the height there and the table index, (N,) each, and gives radiance (N, 3).
    """

    height: Array
    shader: Shader


@dataclass(frozen=True, eq=False)
class _PaintedSky:
    """Radiance by direction: a gradient over z, a glow, clouds, and layers from back to front."""

    gradient: Array
    layers: tuple[_Layer, ...] = ()
    clouds: _Clouds | None = None
    glow: tuple[float, Color] | None = None  # where on the horizon (u), and the colour added there

    def __call__(self, directions: Array) -> Array:
        z = directions[:, 2]
        u, e = _outlook(directions[:, 0], directions[:, 1], z)
        color = np.empty((len(z), 3), np.float32)
        # From front to back, so that nothing is painted that something nearer hides.
        left = np.arange(len(z))
        index = np.clip((u + 2) * (TABLE / 4), 0, TABLE - 1).astype(np.intp)
        for layer in reversed(self.layers):
            top = layer.height[index[left]]
            covered = e[left] < top
            inside = left[covered]
            if len(inside):
                color[inside] = layer.shader(u[inside], e[inside], top[covered], index[inside])
                left = left[~covered]
        if len(left):
            u, e = u[left], e[left]
            air = self.gradient.take((np.clip(z[left], 0, 1) * (GRADIENT - 1)).astype(np.int32), axis=0)
            if self.glow is not None:
                near = np.exp(-((u - np.float32(self.glow[0])) ** 2) * 4 - np.maximum(e, 0) * 9)[:, None]
                air += near * linear(self.glow[1])
            if self.clouds is not None:
                self.clouds.over(u, e, air)
            color[left] = air
        return color


def _outlook(x: Array, y: Array, z: Array) -> tuple[Array, Array]:
    """Box coordinates (u, e) of unit directions; see the head of this module."""
    across, ahead = np.abs(x), np.abs(y)
    sideways = across > ahead
    longer = np.maximum(np.maximum(across, ahead), np.float32(1e-4))
    u = np.where(sideways, np.sign(x) * (2 - ahead / longer), x / longer).astype(np.float32)
    return u, np.asarray(z / longer, dtype=np.float32)


def _gradient(stops: Sequence[tuple[float, Color]], brightness: float = 1.0) -> Array:
    """Sky colours by z (sine of the elevation), shape (GRADIENT, 3)."""
    z = np.linspace(0, 1, GRADIENT)
    known = [s[0] for s in stops]
    colors = linear(np.array([s[1] for s in stops]))
    table = np.stack([np.interp(z, known, colors[:, k]) for k in range(3)], axis=1)
    return (table * brightness).astype(np.float32)


def _clouds(
    rng: Rng,
    low: float,
    high: float,
    light: Color = (0.98, 0.98, 0.98),
    shade: Color = (0.75, 0.8, 0.86),
    softness: float = 0.2,
) -> _Clouds:
    return _Clouds(
        linear(light),
        linear(shade),
        cover=float(rng.uniform(low, high)),
        size=float(rng.uniform(0.9, 1.6)),
        offset=(float(rng.uniform(5, 9)), float(rng.uniform(0, 4))),
        softness=softness,
    )


def _day(rng: Rng) -> tuple[Array, _Clouds, Color]:
    """A daytime sky: gradient, clouds, and the colour at the horizon, for things far away to fade into."""
    horizon = _vary(rng, pick(rng, [(0.80, 0.88, 0.94), (0.86, 0.90, 0.93), (0.76, 0.86, 0.95)]), 0.03)
    middle = _vary(rng, (0.58, 0.75, 0.92), 0.04)
    zenith = _vary(rng, (0.62, 0.72, 0.86), 0.04)
    # Deep blue is kept to the part one sees: an all blue dome would tint everything that stands under it.
    deep = _vary(rng, (0.42, 0.63, 0.90), 0.05)
    gradient = _gradient([(0, horizon), (0.14, middle), (0.32, deep), (0.7, zenith), (1, zenith)], 1.05)
    return gradient, _clouds(rng, 0.3, 0.58), horizon


# ----------------------------------------------------------------------------------------------------- silhouettes
def _curve(rng: Rng, cells: int, octaves: int, persistence: float = 0.5) -> Array:
    """Fractal noise along the horizon, shape (TABLE,), about [-1, 1]; ``cells`` bumps over the whole table."""
    total = np.zeros(TABLE)
    for octave in range(octaves):
        knots = rng.standard_normal((cells << octave) + 2)
        t = np.linspace(0, cells << octave, TABLE)
        i = t.astype(int)
        f = t - i
        f = f * f * (3 - 2 * f)
        total += persistence**octave * (knots[i] * (1 - f) + knots[i + 1] * f)
    return np.asarray(np.clip(total / (2 * total.std()), -1.3, 1.3), dtype=np.float32)


def _peaks(rng: Rng, cells: int, octaves: int = 7) -> Array:
    """Sharp mountain ridges, shape (TABLE,), in [0, 1]."""
    line = 0.65 * (1 - np.abs(_curve(rng, cells, 1))) + 0.35 * _curve(rng, cells, octaves, 0.55)
    line -= line.min()
    return np.asarray(line / line.max(), dtype=np.float32)


def _crowns(rng: Rng, count: int, low: float, high: float, *, pointed: bool = False, hedge: float = 0.5) -> Array:
    """The outline of a row of trees, round or pointed, shape (TABLE,), heights in [low, high].

    Between the trees it does not fall below ``hedge`` times the lowest tree.
    """
    line = np.full(TABLE, low * hedge, np.float32)
    for _ in range(count):
        height = rng.uniform(low, high)
        half = max(3, int(height * rng.uniform(0.22, 0.34) * (0.6 if pointed else 1.3) * TABLE / 4))
        start = int(rng.integers(-half, TABLE))
        shape = _crown(half, pointed)
        a, b = max(start, 0), min(start + len(shape), TABLE)
        line[a:b] = np.maximum(line[a:b], height * shape[a - start : b - start])
    ragged = 1 + (0.16 if pointed else 0.07) * _curve(rng, 900, 2)
    return np.asarray(line * ragged, dtype=np.float32)


@lru_cache(maxsize=1024)
def _crown(half: int, pointed: bool) -> NDArray[np.float64]:
    """The outline of one tree of height 1, shape (2 * half + 1,)."""
    t = np.linspace(-1, 1, 2 * half + 1)
    shape: NDArray[np.float64] = 1 - np.abs(t) ** 0.9 if pointed else 0.55 + 0.45 * np.sqrt(1 - t**2)
    shape.setflags(write=False)
    return shape


def _land(rng: Rng, height: Array, stops: Sequence[Color], far: Color, haze: float, *, grain: float = 0.5) -> _Layer:
    """Hills or mountains: noise between ``stops``, faded into the colour ``far`` by ``haze``, most at the foot."""
    ramp = _ramp([_mixed(s, far, haze) for s in stops])
    mist = linear(far)
    offset = np.float32(rng.uniform(5, 9))
    lean = np.float32(rng.choice([-0.8, 0.8]))

    def shade(u: Array, e: Array, top: Array, _: NDArray[np.intp]) -> Array:
        # Noise on slanting lines gives slopes that face the light and others that do not.
        w = 0.5 + grain * 2 * (_at(_fbm(3), u + offset + lean * e, e * 1.5, 0.7) - 0.5)
        color = _through(ramp, w)
        foot = (0.45 * np.clip(1 - e / np.maximum(top, 1e-4), 0, 1) ** 2)[:, None]
        return np.asarray(color + (mist - color) * foot, dtype=np.float32)

    return _Layer(height, shade)


def _snow_caps(rng: Rng, height: Array, rock: Sequence[Color], far: Color, haze: float, line: float) -> _Layer:
    """Mountains with snow above ``line`` (in e)."""
    land = _land(rng, height, rock, far, haze, grain=0.7)
    snow = _ramp([_mixed(s, far, haze * 0.6) for s in ((0.50, 0.60, 0.74), (0.78, 0.84, 0.91), (0.98, 0.98, 0.99))])
    offset = np.float32(rng.uniform(5, 9))

    def shade(u: Array, e: Array, top: Array, index: NDArray[np.intp]) -> Array:
        color = land.shader(u, e, top, index)
        rough = _at(_fbm(4), u + offset + 0.7 * e, e * 0.8, 0.28)
        # Snow keeps to the gullies at its lower edge; slopes turned from the light are blue.
        white = np.flatnonzero(e + (rough - 0.5) * np.float32(0.16) > line)
        facet = _at(_fbm(3), u[white] + offset - 1.1 * e[white], e[white] * 0.7, 0.33)
        color[white] = _through(snow, 0.62 + 3.0 * (facet - 0.5) + 1.2 * (rough[white] - 0.5))
        return color

    return _Layer(height, shade)


def _foliage(
    rng: Rng, height: Array, stops: Sequence[Color], far: Color, haze: float, *, trunks: bool = False
) -> _Layer:
    """Trees: leaf clumps between ``stops``, dark at the foot; with bare trunks below if asked."""
    ramp = _ramp([_mixed(s, far, haze) for s in stops])
    offset = np.float32(rng.uniform(5, 9))
    shadow = linear(_mixed(_mixed(stops[0], (0.1, 0.1, 0.08), 0.5), far, haze))

    def shade(u: Array, e: Array, top: Array, _: NDArray[np.intp]) -> Array:
        v = u + offset
        up = np.asarray(e / np.maximum(top, 1e-4), dtype=np.float32)
        clumps, leaves = _at(_fbm(1), v, e, 0.35), _at(_fbm(0), v, e, 0.09)
        color = _through(ramp, 0.12 + 0.55 * up + 1.1 * (clumps - 0.5) + 0.7 * (leaves - 0.5))
        if trunks:
            bare = np.flatnonzero(
                (up < 0.30 + 0.5 * (clumps - 0.5)) & (_at(_fbm(4), v, up * np.float32(0.02), 0.16) < 0.46)
            )
            color[bare] = shadow
        return color

    return _Layer(height, shade)


def _houses(
    rng: Rng,
    *,
    width: tuple[float, float],
    height: tuple[float, float],
    walls: Sequence[Color],
    far: Color,
    haze: float,
    window: tuple[float, float],
    gables: float = 0.0,
    roofs: Sequence[Color] = ((0.55, 0.30, 0.24), (0.42, 0.30, 0.28), (0.36, 0.36, 0.40)),
    glass: Color = (0.30, 0.37, 0.45),
    lit: float = 0.0,
    gaps: float = 0.0,
) -> _Layer:
    """A row of houses: widths and heights in box units, ``window`` the spacing of windows across and up.

    Args:
        gables: share of houses with a pitched roof. lit: share of windows with a lamp behind. gaps: share left out.
    """
    top, eaves, left = np.zeros(TABLE, np.float32), np.zeros(TABLE, np.float32), np.zeros(TABLE, np.float32)
    house = np.zeros(TABLE, np.int32)
    wall_colors: list[Color] = []
    roof_colors: list[Color] = []
    position = 0
    while position < TABLE:
        n = max(4, int(rng.uniform(*width) * TABLE / 4))
        end = min(position + n, TABLE)
        run = np.arange(position, end)
        left[run] = position * 4 / TABLE - 2
        house[run] = len(wall_colors)
        wall_colors.append(_mixed(_vary(rng, pick(rng, walls), 0.05), far, haze))
        roof_colors.append(_mixed(_vary(rng, pick(rng, roofs), 0.05), far, haze))
        tall = rng.uniform(*height)
        if rng.uniform() >= gaps:
            eaves[run] = top[run] = tall
            if rng.uniform() < gables:
                along = (run - position) / n
                across = (
                    1 - np.abs(2 * along - 1)
                    if rng.uniform() < 0.5
                    else np.minimum(1, np.minimum(along, 1 - along) * 9)
                )
                top[run] = tall + across * n * 4 / TABLE * rng.uniform(0.25, 0.4)
            else:
                top[run] = tall * 1.02
        position = end
    wall, roof = linear(np.array(wall_colors)), linear(np.array(roof_colors))
    pane, lamp = linear(_mixed(glass, far, haze)), linear((1.0, 0.82, 0.50)) * 1.1
    column, row = np.float32(1 / window[0]), np.float32(1 / window[1])

    def shade(u: Array, e: Array, _: Array, index: NDArray[np.intp]) -> Array:
        number = house[index]
        color = wall[number] * (0.94 + 0.12 * _at(_fbm(1), u + 6, e, 0.5))[:, None]
        color *= (0.82 + 0.18 * np.clip(e * 30, 0, 1))[:, None]
        i, j = (u - left[index]) * column, e * row
        fi, fj = i - np.floor(i), j - np.floor(j)
        under = eaves[index]
        glazed = np.flatnonzero((fi > 0.3) & (fi < 0.74) & (fj > 0.28) & (fj < 0.8) & (e < under - 0.25 / row))
        roll = _rolled(np.floor(i[glazed]) + number[glazed] * 7, np.floor(j[glazed]))
        color[glazed] = pane * (0.75 + 0.5 * roll)[:, None]
        if lit > 0:
            color[glazed[roll < lit]] = lamp
        tiles = e > under
        color[tiles] = roof[number[tiles]] * (0.92 + 0.16 * (e[tiles] * row * 4 % 1.0))[:, None]
        return color

    return _Layer(top, shade)


# -------------------------------------------------------------------------------------------------------- grounds
def _nearness(xy: Array, reach: float = 12.0) -> Array:
    """1 before the camera, 1/2 at ``reach`` metres: detail far away would only flicker between pixels."""
    return np.asarray(1 / (1 + (xy[:, 0] ** 2 + (xy[:, 1] + 5) ** 2) / reach**2), dtype=np.float32)


def _turned(xy: Array, degrees: float, offset: tuple[float, float]) -> tuple[Array, Array]:
    c, s = np.float32(math.cos(math.radians(degrees))), np.float32(math.sin(math.radians(degrees)))
    x, y = xy[:, 0], xy[:, 1]
    return c * x + s * y + np.float32(offset[0]), c * y - s * x + np.float32(offset[1])


def _offset(rng: Rng) -> tuple[float, float]:
    return float(rng.uniform(40, 90)), float(rng.uniform(40, 90))


def _natural(
    rng: Rng,
    stops: Sequence[Color],
    texture: Array,
    *,
    tile: float = 2.0,
    detail: float = 0.5,
    patches: float = 0.8,
) -> Ground:
    """Grass, sand, snow, soil: colours between ``stops`` by broad patches and a fine ``texture``."""
    ramp = _ramp(stops)
    offset = _offset(rng)

    def ground(xy: Array) -> Array:
        x, y = _turned(xy, 0, offset)
        broad = _at(_fbm(0), x, y, 17.0) + 0.6 * _at(_fbm(1), y, x, 4.7) - 0.8
        fine = _at(texture, x, y, tile) - 0.5
        return _through(ramp, 0.5 + patches * broad * _nearness(xy, 55) + detail * fine * np.sqrt(_nearness(xy)))

    return ground


def _scattered(
    rng: Rng, ground: Ground, colors: Sequence[Color], *, cell: float, share: float, radius: float, shadow: float = 0.0
) -> Ground:
    """Small things strewn over a ground (flowers, leaves, pebbles): one per ``cell`` metres at most.

    Args:
        share: of cells that hold one. radius: in cells, with a ragged outline. shadow: darkening of their rim, 0 .. 1.
    """
    table = linear(np.array(colors))
    offset, turn = _offset(rng), float(rng.uniform(0, 90))
    tile = cell * 32

    def strewn(xy: Array) -> Array:
        color = ground(xy)
        x, y = _turned(xy, turn, offset)
        owner, distance, _ = _cells()
        number, far = _at(owner, x, y, tile), _at(distance, x, y, tile)
        patch = 0.4 + 1.2 * _at(_fbm(3), x, y, 7.0)  # more here, fewer there
        ragged = radius * (0.65 + 0.7 * _at(_grain(), x, y, tile / 3))
        held = (number < share * patch) & (far < ragged)
        i = np.flatnonzero(held)
        tone = number[i] * (997 / share)
        chosen = table[(tone.astype(np.int32)) % len(table)] * (0.8 + 0.4 * (tone % 1.0))[:, None]
        weight = np.sqrt(_nearness(xy[i]))[:, None]
        color[i] += (np.clip(chosen, 0, 0.95) - color[i]) * weight
        if shadow > 0:
            rim = np.flatnonzero((number < share * patch) & ~held & (far < ragged * 1.35))
            color[rim] *= 1 - shadow * np.sqrt(_nearness(xy[rim]))[:, None]
        return color

    return strewn


def _paving(
    rng: Rng,
    stops: Sequence[Color],
    joint_color: Color,
    *,
    size: tuple[float, float],
    joint: float,
    bond: float = 0.5,
    degrees: float | None = None,
    uneven: float = 0.5,
    grain: float = 0.25,
) -> Ground:
    """Slabs, bricks, boards or tiles: ``size`` metres along and across, ``bond`` the shift from row to row.

    Args:
        joint: width in metres. degrees: turn of the pattern; None draws one. uneven: how much stones differ, 0 .. 1.
    """
    ramp, dark = _ramp(stops), linear(joint_color)
    offset = _offset(rng)
    turn = float(rng.uniform(-40, 40)) if degrees is None else degrees

    def ground(xy: Array) -> Array:
        x, y = _turned(xy, turn, offset)
        row = np.floor(y / np.float32(size[1]))
        i = x / np.float32(size[0]) + row * np.float32(bond)
        column = np.floor(i)
        w = 0.5 + uneven * (_rolled(row, column) - 0.5)
        w = w + 0.5 * (_at(_fbm(1), x, y, 6.3) - 0.5) + grain * (_at(_grain(), x, y, 1.9) - 0.5)
        far = _nearness(xy, 8 + 18 * min(size))
        color = _through(ramp, 0.5 + (w - 0.5) * far)
        # Joints get wider and fainter with distance: thinner than a pixel they would break up into dots.
        near = _nearness(xy)
        half = np.float32(joint / 2) * (1 + 0.6 * (1 - near))
        fx, fy = (i - column) * np.float32(size[0]), y - row * np.float32(size[1])
        gap = (fx < half) | (fx > size[0] - half) | (fy < half) | (fy > size[1] - half)
        k = np.flatnonzero(gap)
        color[k] += (dark - color[k]) * np.sqrt(near[k])[:, None]
        return color

    return ground


def _water(rng: Rng, ground: Ground, shore: float, stops: Sequence[Color], *, foam: bool, wavy: float = 0.8) -> Ground:
    """Water beyond the line y = ``shore`` (metres, with bays of ``wavy`` metres), its near edge foaming or damp."""
    ramp = _ramp(stops)
    offset = _offset(rng)
    slant = float(rng.uniform(-0.12, 0.12))
    surf = linear((0.95, 0.96, 0.96))

    def shored(xy: Array) -> Array:
        color = ground(xy)
        i = np.flatnonzero(xy[:, 1] > shore - 3 - abs(slant) * np.abs(xy[:, 0]) - wavy)
        if not len(i):
            return color
        x, y = xy[i, 0] + np.float32(offset[0]), xy[i, 1]
        bay = _at(_fbm(4), x, np.zeros_like(x) + np.float32(offset[1]), 26.0) - 0.5
        out = y - np.float32(shore) - np.float32(slant) * xy[i, 0] + np.float32(wavy * 4) * bay
        wet = np.flatnonzero((out > -1.2) & (out <= 0))
        color[i[wet]] *= (1 - 0.35 * np.clip(1 + out[wet] / 1.2, 0, 1) ** 0.5)[:, None]
        sea = np.flatnonzero(out > 0)
        ripple = _at(_fbm(2), x[sea], y[sea] + np.float32(offset[1]), 9.0, 2.6) - 0.5
        depth = 1 - np.exp(-out[sea] / 7)
        color[i[sea]] = _through(ramp, depth * 0.85 + 0.8 * ripple * (0.3 + 0.7 * np.exp(-out[sea] / 25)))
        if foam:
            edge = 0.30 + 1.6 * ripple
            swell = np.abs((out[sea] + 3.0 * bay[sea]) % 3.3 - 1.6) < 0.35 * np.clip(ripple * 6, 0, 1)
            white = np.flatnonzero((out[sea] < edge) | (swell & (out[sea] < 9)))
            color[i[sea[white]]] = surf * 0.9
        return color

    return shored


# ------------------------------------------------------------------------------------------------------ landscapes
GRASS: tuple[Color, ...] = ((0.20, 0.32, 0.10), (0.34, 0.47, 0.17), (0.46, 0.58, 0.24), (0.58, 0.66, 0.34))
LEAVES: tuple[Color, ...] = ((0.13, 0.22, 0.10), (0.24, 0.37, 0.16), (0.38, 0.50, 0.23), (0.52, 0.60, 0.32))
PINES: tuple[Color, ...] = ((0.09, 0.17, 0.13), (0.15, 0.26, 0.19), (0.24, 0.36, 0.26))
ROCK: tuple[Color, ...] = ((0.30, 0.32, 0.38), (0.44, 0.45, 0.50), (0.60, 0.60, 0.62))


def _tints(rng: Rng, stops: Sequence[Color], amount: float = 0.04) -> tuple[Color, ...]:
    """The same shift for every stop, so that a ramp keeps its contrast."""
    shift = np.array(_vary(rng, (0.5, 0.5, 0.5), amount)) - 0.5
    moved = [np.clip(np.array(s) + shift, 0.02, 0.98) for s in stops]
    return tuple((float(m[0]), float(m[1]), float(m[2])) for m in moved)


def _meadow(rng: Rng) -> Surroundings:
    gradient, clouds, far = _day(rng)
    hills = [
        _land(rng, 0.075 + 0.035 * _curve(rng, 9, 4, 0.4), ((0.30, 0.42, 0.46), (0.40, 0.52, 0.48)), far, 0.55),
        _land(rng, 0.045 + 0.025 * _curve(rng, 12, 3, 0.4), ((0.26, 0.42, 0.20), (0.46, 0.58, 0.28)), far, 0.25),
    ]
    trees = _foliage(rng, _crowns(rng, int(rng.integers(120, 420)), 0.018, 0.05), _tints(rng, LEAVES), far, 0.15)
    ground = _natural(rng, _tints(rng, GRASS), _blades(), tile=2.6, detail=0.75)
    blossoms = pick(
        rng,
        [
            [(0.98, 0.96, 0.90), (0.98, 0.85, 0.25)],
            [(0.95, 0.80, 0.20), (0.98, 0.90, 0.45)],
            [(0.72, 0.45, 0.78), (0.95, 0.93, 0.96)],
            [(0.85, 0.25, 0.20), (0.95, 0.90, 0.85)],
        ],
    )
    ground = _scattered(rng, ground, blossoms, cell=0.17, share=float(rng.uniform(0.02, 0.28)), radius=0.24)
    sky = _PaintedSky(gradient, (*hills, trees), clouds)
    return Surroundings(sky, ground, _sun(rng), _rays(2.4), haze=300)


def _beach(rng: Rng) -> Surroundings:
    gradient, clouds, far = _day(rng)
    sand = _tints(rng, ((0.66, 0.56, 0.42), (0.78, 0.69, 0.54), (0.86, 0.79, 0.65)))
    ground = _natural(rng, sand, _grain(), tile=2.2, detail=0.45, patches=0.7)
    ground = _scattered(rng, ground, [(0.92, 0.88, 0.82), (0.52, 0.45, 0.38)], cell=0.24, share=0.06, radius=0.18)
    sea = ((0.62, 0.78, 0.76), (0.34, 0.62, 0.68), (0.18, 0.46, 0.60), (0.14, 0.38, 0.56))
    ground = _water(rng, ground, float(rng.uniform(6, 9)), _tints(rng, sea), foam=True)
    layers: list[_Layer] = []
    if rng.uniform() < 0.6:
        cape = 0.07 * np.clip(_curve(rng, 6, 5), 0, 1)
        layers.append(_land(rng, cape, ((0.28, 0.38, 0.36), (0.45, 0.52, 0.44)), far, 0.45))
    water = linear(_mixed((0.20, 0.46, 0.62), far, 0.25))
    layers.append(_Layer(np.full(TABLE, 0.004, np.float32), lambda u, _e, _t, _i: np.tile(water, (len(u), 1))))
    sky = _PaintedSky(gradient, tuple(layers), clouds)
    return Surroundings(sky, ground, _sun(rng, 35, 65), _rays(2.3), haze=180)


def _desert(rng: Rng) -> Surroundings:
    _, clouds, _ = _day(rng)
    far = _vary(rng, (0.92, 0.86, 0.76), 0.03)
    gradient = _gradient(
        [
            (0, far),
            (0.2, (0.70, 0.80, 0.88)),
            (0.4, _vary(rng, (0.48, 0.66, 0.86))),
            (0.8, (0.66, 0.73, 0.82)),
            (1, (0.66, 0.73, 0.82)),
        ]
    )
    sand = _tints(rng, ((0.62, 0.42, 0.25), (0.76, 0.56, 0.36), (0.86, 0.69, 0.48)), 0.05)
    base = _natural(rng, sand, _grain(), tile=2.0, detail=0.3, patches=0.55)
    offset, turn = _offset(rng), float(rng.uniform(-35, 35))

    def ground(xy: Array) -> Array:
        x, y = _turned(xy, turn, offset)
        # Wind ripples: waves whose phase wanders.
        phase = y * 34 + 26 * _at(_fbm(2), x, y, 9.0) + 5 * _at(_fbm(1), x, y, 2.3)
        wave = 1 + 0.16 * np.sin(phase) * _nearness(xy)
        return np.asarray(np.clip(base(xy) * wave[:, None], 0, 0.95), dtype=np.float32)

    dunes = [
        _land(rng, 0.10 + 0.05 * _curve(rng, 7, 2, 0.3), (sand[0], sand[1]), far, 0.45, grain=0.2),
        _land(rng, 0.05 + 0.035 * _curve(rng, 10, 2, 0.3), (sand[0], sand[2]), far, 0.15, grain=0.25),
    ]
    sky = _PaintedSky(gradient, tuple(dunes), clouds if rng.uniform() < 0.4 else None)
    return Surroundings(sky, ground, _sun(rng, 28, 55), _rays(2.4, (1, 0.93, 0.8)), haze=140)


def _snowfield(rng: Rng) -> Surroundings:
    gradient, clouds, far = _day(rng)
    snow = ((0.70, 0.76, 0.84), (0.80, 0.84, 0.89), (0.86, 0.88, 0.91))
    ground = _natural(rng, _tints(rng, snow, 0.02), _grain(), tile=2.4, detail=0.25, patches=0.9)
    mountains = _snow_caps(rng, 0.06 + 0.14 * _peaks(rng, 16), ROCK, far, 0.35, float(rng.uniform(0.05, 0.09)))
    pines = _foliage(rng, _crowns(rng, 700, 0.015, 0.05, pointed=True), PINES, far, 0.3)
    bank = _land(rng, 0.012 + 0.008 * _curve(rng, 10, 3), (snow[0], snow[2]), far, 0.2)
    sky = _PaintedSky(gradient, (mountains, pines, bank), clouds)
    return Surroundings(sky, ground, _sun(rng, 25, 50), _rays(1.7, (1, 0.95, 0.88)), haze=160)


def _mountain_lake(rng: Rng) -> Surroundings:
    gradient, clouds, far = _day(rng)
    pebbles = _natural(
        rng, _tints(rng, ((0.36, 0.36, 0.33), (0.50, 0.49, 0.45), (0.62, 0.60, 0.55))), _grain(), detail=0.4
    )
    stones = [(0.62, 0.60, 0.57), (0.46, 0.46, 0.47), (0.55, 0.49, 0.43), (0.70, 0.69, 0.66)]
    ground = _scattered(rng, pebbles, stones, cell=0.13, share=0.5, radius=0.42, shadow=0.4)
    lake = _tints(rng, ((0.42, 0.55, 0.55), (0.24, 0.44, 0.52), (0.20, 0.38, 0.50), (0.34, 0.50, 0.60)))
    ground = _water(rng, ground, float(rng.uniform(3.5, 6.5)), lake, foam=False)
    mountains = [
        _snow_caps(rng, 0.07 + 0.15 * _peaks(rng, 14), ROCK, far, 0.45, float(rng.uniform(0.11, 0.15))),
        _land(rng, 0.03 + 0.08 * _peaks(rng, 12), ((0.22, 0.32, 0.30), (0.36, 0.46, 0.38)), far, 0.25),
    ]
    pines = _foliage(rng, _crowns(rng, 900, 0.01, 0.035, pointed=True), PINES, far, 0.12)
    sky = _PaintedSky(gradient, (*mountains, pines), clouds)
    return Surroundings(sky, ground, _sun(rng, 30, 55), _rays(2.3), haze=110)


def _canyon(rng: Rng) -> Surroundings:
    gradient, clouds, _ = _day(rng)
    far = _vary(rng, (0.88, 0.80, 0.74), 0.03)
    soil = _tints(rng, ((0.48, 0.28, 0.19), (0.63, 0.40, 0.28), (0.74, 0.53, 0.39)))
    ground = _natural(rng, soil, _grain(), tile=2.0, detail=0.5, patches=0.8)
    ground = _scattered(
        rng, ground, [(0.42, 0.25, 0.18), (0.70, 0.50, 0.38)], cell=0.2, share=0.16, radius=0.3, shadow=0.35
    )

    def mesas(base: float, tall: float, cells: int, fade: float) -> _Layer:
        step = np.clip(_curve(rng, cells, 2) * 9, -1, 1) * 0.5 + 0.5
        height = base + tall * step * (0.8 + 0.2 * _curve(rng, cells, 1)) + 0.006 * _curve(rng, 90, 4)
        ramp = _ramp([_mixed(s, far, fade) for s in ((0.42, 0.20, 0.14), (0.66, 0.36, 0.24), (0.80, 0.55, 0.40))])
        start = np.float32(rng.uniform(5, 9))

        def strata(u: Array, e: Array, top: Array, _: NDArray[np.intp]) -> Array:
            bands = _at(_fbm(2), np.zeros_like(u), e + 0.004 * _at(_fbm(1), u + start, e, 0.5), 0.30) - 0.5
            gullies = _at(_fbm(4), u + start, e * 0.15, 0.35) - 0.5
            talus = 0.25 * np.clip(1 - e / np.maximum(top, 1e-4) * 2, 0, 1)
            return _through(ramp, np.asarray(0.45 + 1.1 * bands + 1.2 * gullies + talus, dtype=np.float32))

        return _Layer(np.asarray(height, np.float32), strata)

    sky = _PaintedSky(gradient, (mesas(0.02, 0.13, 14, 0.35), mesas(0.012, 0.06, 18, 0.12)), clouds)
    return Surroundings(sky, ground, _sun(rng, 28, 55), _rays(2.4, (1, 0.92, 0.8)), haze=500)


def _sunset_coast(rng: Rng) -> Surroundings:
    far = _vary(rng, pick(rng, [(0.98, 0.72, 0.48), (0.97, 0.66, 0.55), (0.95, 0.76, 0.58)]), 0.03)
    gradient = _gradient(
        [
            (0, far),
            (0.10, (0.93, 0.68, 0.60)),
            (0.25, (0.66, 0.60, 0.72)),
            (0.6, (0.56, 0.56, 0.70)),
            (1, (0.56, 0.54, 0.66)),
        ],
        1.05,
    )
    clouds = _clouds(rng, 0.35, 0.6, (0.98, 0.70, 0.56), (0.60, 0.48, 0.60))
    sand = _tints(rng, ((0.44, 0.36, 0.32), (0.58, 0.48, 0.41), (0.68, 0.58, 0.50)))
    ground = _natural(rng, sand, _grain(), tile=2.2, detail=0.45)
    ground = _scattered(
        rng, ground, [(0.36, 0.31, 0.30), (0.52, 0.46, 0.44)], cell=0.3, share=0.2, radius=0.3, shadow=0.3
    )
    sea = ((0.66, 0.56, 0.54), (0.46, 0.46, 0.56), (0.50, 0.46, 0.54), (0.72, 0.56, 0.50))
    ground = _water(rng, ground, float(rng.uniform(5, 8)), sea, foam=True)
    cliffs = np.clip(_curve(rng, 7, 3), 0, 1) * (0.10 + 0.03 * _curve(rng, 40, 4))
    land = _land(rng, np.asarray(cliffs, np.float32), ((0.34, 0.28, 0.34), (0.52, 0.40, 0.42)), far, 0.25)
    sky = _PaintedSky(gradient, (land,), clouds, (float(rng.uniform(-0.3, 0.3)), (0.75, 0.52, 0.25)))
    # The red sun itself is low ahead; what lights the stage is the bright sky at the camera's side.
    return Surroundings(sky, ground, _sun(rng, 26, 40, 80), _rays(2.2, (1.0, 0.80, 0.62)), haze=700)


def _forest_clearing(rng: Rng) -> Surroundings:
    autumnal = rng.uniform() < 0.25
    leaves = _tints(rng, ((0.30, 0.24, 0.10), (0.50, 0.42, 0.16), (0.70, 0.60, 0.28)) if autumnal else LEAVES)
    far = _vary(rng, (0.74, 0.80, 0.66), 0.04)
    gradient = _gradient([(0, far), (0.2, (0.62, 0.72, 0.50)), (0.5, (0.66, 0.78, 0.62)), (1, (0.75, 0.86, 0.90))])
    canopy = np.full(TABLE, 9.0, np.float32)
    ramp = _ramp([_mixed(s, far, 0.3) for s in (*leaves, _mixed(far, (1, 1, 0.9), 0.4))])
    bark = linear(_mixed((0.24, 0.20, 0.16), far, 0.28))
    bark_far = linear(_mixed((0.34, 0.32, 0.26), far, 0.55))
    start = np.float32(rng.uniform(5, 9))
    near_trunks, far_trunks = _posts(rng, 70, 0.012, 0.024), _posts(rng, 260, 0.004, 0.011)

    def wood(u: Array, e: Array, _: Array, index: NDArray[np.intp]) -> Array:
        v = u + start
        clumps, fine = _at(_fbm(1), v, e, 0.6) - 0.5, _at(_fbm(0), v, e, 0.13) - 0.5
        # Bright mist between far trunks at eye level, darker leaves above and undergrowth below.
        light = 0.62 - 0.42 * np.clip((e - 0.05) * 5, 0, 1) - 0.5 * np.clip(1 - e * 28, 0, 1)
        color = _through(ramp, light + 0.9 * clumps + 0.7 * fine)
        lean = (index + (e * far_trunks[1][index]).astype(np.int32)) % TABLE
        k = np.flatnonzero((far_trunks[0][lean] > 0) & (clumps < 0.16))
        color[k] = bark_far * (0.8 + 0.8 * (fine[k] + 0.5))[:, None]
        lean = (index + (e * near_trunks[1][index]).astype(np.int32)) % TABLE
        side = near_trunks[0][lean]
        k = np.flatnonzero((side > 0) & (clumps < 0.2))
        color[k] = bark * (0.55 + 0.6 * side[k] + 0.8 * fine[k])[:, None]
        return np.maximum(color, 0)

    brush = _foliage(rng, 0.6 * _crowns(rng, 380, 0.02, 0.05), leaves[:3], far, 0.18)
    floor = ((0.20, 0.22, 0.11), (0.32, 0.34, 0.17), (0.44, 0.45, 0.22), (0.52, 0.46, 0.30))
    ground = _natural(rng, _tints(rng, floor), _blades(), tile=3.0, detail=0.6, patches=1.0)
    litter = [(0.48, 0.35, 0.20), (0.58, 0.44, 0.24), (0.40, 0.29, 0.18)]
    ground = _scattered(rng, ground, litter, cell=0.11, share=0.22, radius=0.36, shadow=0.25)
    trunks: list[Mesh] = []
    for _ in range(int(rng.integers(5, 10))):
        y = rng.uniform(7.5, 18)
        x = rng.uniform(-0.5, 0.5) * (y + 6)
        radius = rng.uniform(0.12, 0.28)
        trunk = frustum(radius, radius * 0.75, 9.0, 10, capped=False).rotated("y", float(rng.uniform(-3, 3)))
        root = frustum(radius * 1.7, radius, 0.5, 10, capped=False)
        trunks.append(merge([trunk, root]).moved(float(x), float(y), -0.05))
    trunk_color = _vary(rng, pick(rng, [(0.34, 0.27, 0.21), (0.42, 0.37, 0.32), (0.30, 0.25, 0.20)]))
    bark_material = Material(
        trunk_color, 1.0, pattern=Pattern("noise", _mixed(trunk_color, (0.1, 0.09, 0.08), 0.5), 0.12)
    )
    sky = _PaintedSky(gradient, (_Layer(canopy, wood), brush))
    # Leaves filter the light, but the clearing is open above.
    return Surroundings(
        sky,
        ground,
        _sun(rng, 40, 65, 60),
        _rays(2.2, (1, 0.96, 0.84)),
        haze=250,
        scenery=((merge(trunks), bark_material),),
        ambient=((0.62, 0.70, 0.66), (0.40, 0.46, 0.36), (0.12, 0.13, 0.07)),
    )


def _posts(rng: Rng, count: int, low: float, high: float) -> tuple[Array, Array]:
    """Upright trunks along the horizon: light across each (0 where there is none) and lean, shape (TABLE,) each."""
    line, lean = np.zeros(TABLE, np.float32), np.zeros(TABLE, np.float32)
    for _ in range(count):
        n = max(3, int(rng.uniform(low, high) * TABLE / 4))
        start = int(rng.integers(0, TABLE - n))
        line[start : start + n] = 0.35 + 0.65 * np.sqrt(np.sin(np.linspace(0.15, 2.7, n)))
        lean[max(start - 60, 0) : start + n + 60] = rng.uniform(-60, 60)
    return line, lean


def _autumn_park(rng: Rng) -> Surroundings:
    gradient, clouds, far = _day(rng)
    warm = ((0.40, 0.20, 0.09), (0.66, 0.36, 0.12), (0.84, 0.56, 0.18), (0.93, 0.76, 0.34))
    red = ((0.34, 0.14, 0.09), (0.56, 0.22, 0.12), (0.74, 0.36, 0.18))
    back = _foliage(rng, _crowns(rng, 260, 0.07, 0.14), _tints(rng, warm), far, 0.35, trunks=True)
    middle = _foliage(rng, _crowns(rng, 40, 0.06, 0.15, hedge=0.1), _tints(rng, red), far, 0.2)
    front = _foliage(rng, _crowns(rng, 40, 0.04, 0.12, hedge=0.3), _tints(rng, warm), far, 0.1)
    lawn = _natural(
        rng, _tints(rng, ((0.26, 0.33, 0.12), (0.38, 0.45, 0.18), (0.50, 0.54, 0.26))), _blades(), tile=2.6, detail=0.65
    )
    fallen = [(0.78, 0.45, 0.12), (0.86, 0.62, 0.18), (0.62, 0.28, 0.12), (0.55, 0.38, 0.18)]
    ground = _scattered(rng, lawn, fallen, cell=0.12, share=float(rng.uniform(0.3, 0.6)), radius=0.40, shadow=0.3)
    sky = _PaintedSky(gradient, (back, middle, front), clouds)
    return Surroundings(sky, ground, _sun(rng, 26, 45), _rays(2.3, (1, 0.92, 0.78)), haze=400)


def _open_road(rng: Rng) -> Surroundings:
    gradient, clouds, far = _day(rng)
    field = pick(
        rng,
        [
            GRASS,
            ((0.50, 0.42, 0.18), (0.68, 0.58, 0.26), (0.80, 0.70, 0.38)),
            ((0.38, 0.36, 0.22), (0.52, 0.48, 0.30), (0.62, 0.58, 0.40)),
        ],
    )
    verge = _natural(rng, _tints(rng, field), _blades(), tile=2.6, detail=0.7)
    asphalt = _natural(
        rng,
        _tints(rng, ((0.30, 0.30, 0.32), (0.38, 0.38, 0.39), (0.46, 0.46, 0.46))),
        _grain(),
        tile=1.6,
        detail=0.45,
        patches=0.5,
    )
    centre, half, turn = float(rng.uniform(-2.2, 2.2)), float(rng.uniform(3.2, 4.4)), float(rng.uniform(-14, 14))
    paint = linear(pick(rng, [(0.86, 0.86, 0.82), (0.88, 0.74, 0.28)]))
    white = linear((0.86, 0.86, 0.83))
    gravel = linear((0.55, 0.52, 0.46))

    def ground(xy: Array) -> Array:
        across, along = _turned(xy, turn, (-centre, 60.0))
        off = np.abs(across)
        color = np.empty((len(xy), 3), np.float32)
        road = off < half
        color[road], color[~road] = asphalt(xy[road]), verge(xy[~road])
        worn = (0.55 + 0.9 * _at(_fbm(3), across + 40, along, 3.1))[:, None]
        k = np.flatnonzero((off > half) & (off < half + 0.25 + 0.5 * worn[:, 0] - 0.3))
        color[k] = gravel * (0.7 + 0.6 * _at(_grain(), across[k] + 40, along[k], 1.5))[:, None]
        for mask, tint in (
            (np.abs(off - (half - 0.25)) < 0.06, white),
            ((off < 0.07) & (along % 6 < 3.2), paint),
        ):
            k = np.flatnonzero(mask)
            color[k] += (tint - color[k]) * np.clip(worn[k], 0, 0.95)
        return color

    layers = [
        _land(rng, 0.05 + 0.03 * _curve(rng, 9, 4, 0.4), ((0.34, 0.44, 0.48), (0.44, 0.54, 0.50)), far, 0.5),
        _land(rng, 0.018 + 0.012 * _curve(rng, 14, 3, 0.4), (field[0], field[-1]), far, 0.3),
        _foliage(rng, _crowns(rng, int(rng.integers(60, 240)), 0.01, 0.035), _tints(rng, LEAVES), far, 0.2),
    ]
    return Surroundings(_PaintedSky(gradient, tuple(layers), clouds), ground, _sun(rng), _rays(2.4), haze=350)


# ----------------------------------------------------------------------------------------------------------- towns
PLASTER: tuple[Color, ...] = (
    (0.86, 0.78, 0.64),
    (0.84, 0.66, 0.50),
    (0.80, 0.74, 0.70),
    (0.74, 0.56, 0.46),
    (0.88, 0.84, 0.74),
    (0.70, 0.74, 0.74),
)
CONCRETE: tuple[Color, ...] = (
    (0.70, 0.70, 0.70),
    (0.78, 0.75, 0.70),
    (0.60, 0.64, 0.70),
    (0.56, 0.52, 0.50),
    (0.82, 0.82, 0.82),
)


def _city_plaza(rng: Rng) -> Surroundings:
    gradient, clouds, far = _day(rng)
    towers = _houses(
        rng,
        width=(0.04, 0.10),
        height=(0.10, 0.26),
        walls=CONCRETE,
        far=far,
        haze=0.55,
        window=(0.012, 0.014),
        gaps=0.3,
    )
    blocks = _houses(
        rng,
        width=(0.07, 0.20),
        height=(0.06, 0.14),
        walls=CONCRETE,
        far=far,
        haze=0.22,
        window=(0.018, 0.022),
        gaps=0.1,
    )
    trees = _foliage(rng, _crowns(rng, 90, 0.016, 0.036, hedge=0.2), _tints(rng, LEAVES), far, 0.12)
    stone = pick(
        rng,
        [
            ((0.56, 0.55, 0.53), (0.66, 0.65, 0.62), (0.74, 0.73, 0.70)),
            ((0.58, 0.52, 0.46), (0.68, 0.61, 0.54), (0.76, 0.70, 0.62)),
        ],
    )
    size = pick(rng, [(0.9, 0.9), (1.2, 0.6), (0.6, 0.6)])
    ground = _paving(
        rng,
        _tints(rng, stone),
        _mixed(stone[0], (0.3, 0.3, 0.3), 0.6),
        size=size,
        joint=0.025,
        bond=float(rng.choice([0, 0.5])),
    )
    sky = _PaintedSky(gradient, (towers, blocks, trees), clouds)
    return Surroundings(sky, ground, _sun(rng), _rays(2.2), ground_roughness=0.9, haze=900)


def _old_town(rng: Rng) -> Surroundings:
    gradient, clouds, far = _day(rng)
    row = _houses(
        rng,
        width=(0.10, 0.19),
        height=(0.11, 0.17),
        walls=PLASTER,
        far=far,
        haze=0.10,
        window=(0.036, 0.042),
        gables=0.85,
    )
    behind = _houses(
        rng,
        width=(0.06, 0.14),
        height=(0.15, 0.24),
        walls=PLASTER,
        far=far,
        haze=0.38,
        window=(0.03, 0.035),
        gables=0.8,
        gaps=0.45,
    )
    setts = _tints(rng, ((0.38, 0.37, 0.37), (0.50, 0.48, 0.46), (0.62, 0.59, 0.55)))
    ground = _paving(rng, setts, (0.27, 0.26, 0.24), size=(0.21, 0.15), joint=0.03, uneven=0.75, grain=0.3)
    sky = _PaintedSky(gradient, (behind, row), clouds)
    return Surroundings(sky, ground, _sun(rng), _rays(2.3), ground_roughness=0.95, haze=900)


def _night_street(rng: Rng) -> Surroundings:
    far = _vary(rng, (0.20, 0.22, 0.32), 0.03)
    gradient = _gradient([(0, far), (0.25, (0.13, 0.15, 0.26)), (1, (0.07, 0.09, 0.18))])
    dark: tuple[Color, ...] = ((0.20, 0.19, 0.22), (0.26, 0.23, 0.23), (0.17, 0.19, 0.25), (0.24, 0.20, 0.20))
    towers = _houses(
        rng,
        width=(0.05, 0.11),
        height=(0.12, 0.28),
        walls=dark,
        far=far,
        haze=0.5,
        window=(0.014, 0.017),
        gaps=0.3,
        glass=(0.12, 0.14, 0.2),
        lit=0.3,
    )
    row = _houses(
        rng,
        width=(0.10, 0.2),
        height=(0.09, 0.16),
        walls=dark,
        far=far,
        haze=0.1,
        window=(0.034, 0.042),
        gables=0.3,
        roofs=((0.10, 0.10, 0.13),),
        glass=(0.10, 0.12, 0.17),
        lit=0.4,
    )
    asphalt = _tints(rng, ((0.26, 0.26, 0.29), (0.36, 0.36, 0.39), (0.46, 0.46, 0.48)), 0.03)
    if rng.uniform() < 0.5:
        ground = _natural(rng, asphalt, _grain(), tile=1.6, detail=0.5, patches=0.8)
    else:
        ground = _paving(rng, asphalt, (0.18, 0.18, 0.2), size=(0.5, 0.5), joint=0.03, uneven=0.5)
    lamp = pick(rng, [(1.0, 0.80, 0.55), (1.0, 0.88, 0.72), (0.86, 0.92, 1.0)])
    return Surroundings(
        _PaintedSky(gradient, (towers, row)),
        ground,
        _sun(rng, 40, 65, 60),
        _rays(2.1, lamp),
        ground_roughness=float(rng.uniform(0.3, 0.45)),
        haze=500,
        ambient=((0.20, 0.22, 0.30), (0.20, 0.19, 0.21), (0.08, 0.07, 0.06)),
    )


def _stone_terrace(rng: Rng) -> Surroundings:
    gradient, clouds, far = _day(rng)
    slabs = _tints(
        rng,
        pick(
            rng,
            [
                ((0.62, 0.55, 0.45), (0.74, 0.67, 0.56), (0.82, 0.76, 0.66)),
                ((0.52, 0.52, 0.52), (0.63, 0.62, 0.60), (0.72, 0.71, 0.69)),
                ((0.58, 0.40, 0.31), (0.69, 0.50, 0.39), (0.76, 0.59, 0.48)),
            ],
        ),
    )
    pavement = _paving(
        rng,
        slabs,
        _mixed(slabs[0], (0.25, 0.22, 0.2), 0.5),
        size=pick(rng, [(0.8, 0.5), (0.6, 0.6), (1.0, 0.7)]),
        joint=0.022,
    )
    edge = float(rng.uniform(7.5, 9.5))
    sea = _tints(rng, ((0.20, 0.44, 0.62), (0.24, 0.50, 0.66), (0.36, 0.60, 0.72)))
    below = _natural(rng, sea, _fbm(2), tile=14.0, detail=0.5, patches=0.4)

    def ground(xy: Array) -> Array:
        color = np.empty((len(xy), 3), np.float32)
        outside = xy[:, 1] > edge
        color[~outside], color[outside] = pavement(xy[~outside]), below(xy[outside])
        return color

    layers = [
        _land(rng, 0.045 + 0.03 * _curve(rng, 8, 5, 0.45), ((0.36, 0.46, 0.54), (0.48, 0.56, 0.58)), far, 0.5),
        _land(rng, np.clip(0.05 * _curve(rng, 7, 4), 0.002, 1), ((0.30, 0.38, 0.28), (0.50, 0.54, 0.40)), far, 0.3),
    ]
    stone = _vary(rng, _mixed(slabs[1], (0.8, 0.78, 0.74), 0.4), 0.03)
    parapet = Material(stone, 0.95, pattern=Pattern("noise", _mixed(stone, (0.3, 0.28, 0.25), 0.4), 0.3, 0.5))
    pieces = [box((40, 0.35, 0.62), (0, edge, 0.31)), box((40, 0.5, 0.1), (0, edge, 0.67))]
    start = rng.uniform(0, 3)
    pieces += [box((0.5, 0.55, 0.86), (float(start + 4.2 * k), edge, 0.43)) for k in range(-4, 4)]
    sky = _PaintedSky(gradient, tuple(layers), clouds)
    return Surroundings(
        sky, ground, _sun(rng), _rays(2.3), ground_roughness=0.95, haze=160, scenery=((merge(pieces), parapet),)
    )


def _playing_court(rng: Rng) -> Surroundings:
    gradient, clouds, far = _day(rng)
    inner, outer = pick(
        rng,
        [
            ((0.22, 0.40, 0.58), (0.28, 0.48, 0.34)),
            ((0.66, 0.34, 0.24), (0.30, 0.46, 0.34)),
            ((0.28, 0.48, 0.36), (0.58, 0.34, 0.28)),
            ((0.42, 0.40, 0.56), (0.36, 0.42, 0.50)),
        ],
    )
    field = _natural(
        rng,
        [_vary(rng, _mixed(inner, (0, 0, 0), 0.12), 0.01), _mixed(inner, (1, 1, 1), 0.1)],
        _grain(),
        tile=1.6,
        detail=0.6,
        patches=0.6,
    )
    rim = _natural(
        rng,
        [_mixed(outer, (0, 0, 0), 0.12), _mixed(outer, (1, 1, 1), 0.1)],
        _grain(),
        tile=1.6,
        detail=0.6,
        patches=0.6,
    )
    turn, shift = float(rng.uniform(-30, 30)), (float(rng.uniform(-3, 3)), float(rng.uniform(-2, 2)))
    arc = float(rng.uniform(1.8, 3.5))
    paint = linear((0.88, 0.88, 0.86))
    edge = float(rng.uniform(13, 16))
    lawn = _natural(rng, LEAVES[1:], _blades(), tile=2.6)

    def ground(xy: Array) -> Array:
        x, y = _turned(xy, turn, shift)
        inside = (np.abs(x) < 7) & (np.abs(y) < 6)
        color = np.empty((len(xy), 3), np.float32)
        color[inside], color[~inside] = field(xy[inside]), rim(xy[~inside])
        border = inside & ((np.abs(x) > 6.93) | (np.abs(y) > 5.93) | (np.abs(x + 1) < 0.035))
        ring = np.abs(np.hypot(x + 1, y) - arc) < 0.035
        k = np.flatnonzero(border | ring)
        color[k] += (paint - color[k]) * 0.85
        beyond = np.flatnonzero(xy[:, 1] > edge)
        color[beyond] = lawn(xy[beyond])
        return color

    hedge = Material((0.22, 0.34, 0.16), 1.0, pattern=Pattern("speckle", (0.34, 0.46, 0.22), 0.12))
    trees = [
        _foliage(rng, _crowns(rng, 220, 0.07, 0.14), _tints(rng, LEAVES), far, 0.35, trunks=True),
        _foliage(rng, _crowns(rng, 60, 0.03, 0.11), _tints(rng, LEAVES), far, 0.15),
    ]
    green = box((60, 1.2, 1.25), (0, edge, 0.62))
    return Surroundings(
        _PaintedSky(gradient, tuple(trees), clouds),
        ground,
        _sun(rng),
        _rays(2.2),
        ground_roughness=0.95,
        haze=900,
        scenery=((green, hedge),),
    )


# ----------------------------------------------------------------------------------------------------------- rooms
def _ceiling(color: Color, brightness: float) -> _PaintedSky:
    """A plain ceiling, a little darker far away."""
    return _PaintedSky(_gradient([(0, _mixed(color, (0.3, 0.3, 0.3), 0.25)), (0.35, color), (1, color)], brightness))


def _living_room(rng: Rng) -> Surroundings:
    wood: tuple[Color, ...] = pick(
        rng,
        [
            ((0.44, 0.28, 0.16), (0.58, 0.39, 0.24), (0.68, 0.49, 0.32)),
            ((0.62, 0.46, 0.30), (0.73, 0.57, 0.40), (0.82, 0.68, 0.50)),
            ((0.30, 0.19, 0.13), (0.41, 0.27, 0.18), (0.50, 0.35, 0.25)),
            ((0.58, 0.53, 0.46), (0.68, 0.63, 0.56), (0.76, 0.72, 0.65)),
        ],
    )
    wood = _tints(rng, wood, 0.03)
    boards = _paving(
        rng,
        wood,
        _mixed(wood[0], (0, 0, 0), 0.35),
        size=(1.7, 0.16),
        joint=0.008,
        bond=0.37,
        degrees=float(rng.choice([0, 90, 35])),
        uneven=0.55,
        grain=0.15,
    )
    offset = _offset(rng)
    rug = _vary(
        rng,
        pick(rng, [(0.60, 0.26, 0.24), (0.26, 0.36, 0.50), (0.76, 0.71, 0.62), (0.36, 0.44, 0.36), (0.55, 0.50, 0.54)]),
    )
    rug_ramp, trim = (
        _ramp([_mixed(rug, (0, 0, 0), 0.15), rug, _mixed(rug, (1, 1, 1), 0.15)]),
        linear(_mixed(rug, (0.9, 0.86, 0.78), 0.6)),
    )
    extent = (float(rng.uniform(2.4, 3.4)), float(rng.uniform(1.6, 2.3))) if rng.uniform() < 0.5 else (0.0, 0.0)
    turn = float(rng.uniform(-8, 8))

    def ground(xy: Array) -> Array:
        color = boards(xy)
        x, y = _turned(xy, turn, (0.0, 0.0))
        k = np.flatnonzero((np.abs(x) < extent[0]) & (np.abs(y) < extent[1]))
        if len(k):
            x, y = x[k], y[k]
            weave = _at(_grain(), x + np.float32(offset[0]), y + np.float32(offset[1]), 1.2)
            broad = _at(_fbm(1), x + np.float32(offset[0]), y + np.float32(offset[1]), 3.0)
            color[k] = _through(rug_ramp, 0.5 + 0.5 * (weave - 0.5) + 0.5 * (broad - 0.5))
            inset = np.minimum(extent[0] - np.abs(x), extent[1] - np.abs(y))
            color[k[(inset > 0.14) & (inset < 0.24)]] = trim
        return color

    wall = _vary(
        rng,
        pick(
            rng,
            [
                (0.82, 0.78, 0.70),
                (0.70, 0.77, 0.74),
                (0.62, 0.70, 0.78),
                (0.84, 0.74, 0.66),
                (0.76, 0.76, 0.76),
                (0.56, 0.63, 0.55),
                (0.74, 0.62, 0.58),
            ],
        ),
        0.03,
    )
    depth, tall = float(rng.uniform(6.6, 7.6)), 3.1
    plaster = Material(wall, 1.0, pattern=Pattern("noise", _mixed(wall, (0, 0, 0), 0.05), 1.5, 0.6))
    white = Material((0.88, 0.87, 0.84), 0.9)
    face = depth - 0.1  # of the wall, whose front lies here
    scenery: list[tuple[Mesh, Material]] = [
        (box((30, 0.2, tall), (0, depth, tall / 2)), plaster),
        (
            merge(
                [box((30, 0.06, 0.16), (0, face - 0.03, 0.08)), box((30, 0.12, 0.12), (0, face - 0.06, tall - 0.06))]
            ),
            white,
        ),
    ]
    light = _vary(rng, (0.86, 0.92, 0.96), 0.03)
    x = float(rng.uniform(-3.6, -1.2))
    for _ in range(int(rng.integers(1, 3))):
        wide, high, sill = float(rng.uniform(1.2, 1.9)), float(rng.uniform(1.3, 1.6)), 0.95
        scenery.append(
            (box((wide, 0.02, high), (x, face - 0.015, sill + high / 2)), Material(light, 1.0, emission=0.75))
        )
        frame = [box((wide + 0.24, 0.10, 0.12), (x, face - 0.05, z)) for z in (sill - 0.06, sill + high + 0.06)]
        frame += [box((0.12, 0.10, high), (x + s * (wide + 0.12) / 2, face - 0.05, sill + high / 2)) for s in (-1, 1)]
        frame += [
            box((0.05, 0.06, high), (x, face - 0.04, sill + high / 2)),
            box((wide, 0.06, 0.05), (x, face - 0.04, sill + high * 0.62)),
        ]
        scenery.append((merge(frame), white))
        x += float(rng.uniform(3.2, 4.6))
    if rng.uniform() < 0.7:
        art = _vary(rng, pick(rng, [(0.72, 0.52, 0.34), (0.36, 0.46, 0.56), (0.64, 0.36, 0.32), (0.44, 0.54, 0.42)]))
        wide, high = float(rng.uniform(0.7, 1.1)), float(rng.uniform(0.6, 0.9))
        scenery.append((box((wide, 0.05, high), (x, face - 0.03, 1.75)), Material((0.25, 0.2, 0.17), 0.9)))
        abstract = Pattern("noise", _mixed(art, (0.95, 0.9, 0.8), 0.6), 0.35)
        scenery.append(
            (box((wide - 0.12, 0.02, high - 0.12), (x, face - 0.075, 1.75)), Material(art, 1.0, pattern=abstract))
        )
    return Surroundings(
        _ceiling(_vary(rng, (0.90, 0.88, 0.84), 0.02), 0.85),
        ground,
        _sun(rng, 40, 62, 55),
        _rays(1.9, (1, 0.94, 0.84)),
        ground_roughness=float(rng.uniform(0.5, 0.7)),
        haze=300,
        scenery=tuple(scenery),
    )


def _photo_studio(rng: Rng) -> Surroundings:
    paper = _vary(
        rng,
        pick(
            rng,
            [
                (0.80, 0.80, 0.80),
                (0.55, 0.58, 0.62),
                (0.78, 0.68, 0.58),
                (0.56, 0.68, 0.74),
                (0.70, 0.60, 0.68),
                (0.62, 0.70, 0.58),
                (0.84, 0.72, 0.44),
                (0.40, 0.46, 0.56),
                (0.76, 0.52, 0.44),
            ],
        ),
        0.05,
    )
    albedo = linear(paper)
    # The sweep: a quarter circle that leaves the floor without an edge, and a wall.
    start, radius = 6.3, float(rng.uniform(2.5, 4.5))
    bend = np.linspace(0, math.pi / 2, 20)
    y = np.concatenate([start + radius * np.sin(bend), [start + radius]])
    z = np.concatenate([radius * (1 - np.cos(bend)), [12.0]])
    x = np.array([-30.0, 30.0])
    points = np.stack([np.broadcast_to(x, (len(y), 2)), np.tile(y[:, None], 2), np.tile(z[:, None], 2)], axis=-1)
    sweep = grid_surface(points)
    gradient = _gradient([(0, (0.75, 0.75, 0.75)), (0.5, (0.9, 0.9, 0.9)), (1, (0.98, 0.98, 0.98))])
    return Surroundings(
        _PaintedSky(gradient),
        lambda xy: np.broadcast_to(albedo, (len(xy), 3)).copy(),
        _sun(rng, 40, 60, 60),
        _rays(1.7, (1, 0.98, 0.95)),
        haze=1e4,
        scenery=((sweep, Material(paper, 1.0)),),
    )


def _warehouse(rng: Rng) -> Surroundings:
    concrete = _tints(rng, ((0.44, 0.44, 0.43), (0.56, 0.56, 0.54), (0.66, 0.66, 0.63)), 0.04)
    floor = _paving(
        rng,
        concrete,
        (0.30, 0.30, 0.30),
        size=(4.0, 4.0),
        joint=0.03,
        bond=0,
        degrees=float(rng.uniform(-10, 10)),
        uneven=0.2,
        grain=0.3,
    )
    line = linear(pick(rng, [(0.85, 0.70, 0.20), (0.85, 0.85, 0.82), (0.70, 0.25, 0.20)]))
    lane, turn = float(rng.uniform(2.2, 4.0)), float(rng.uniform(-25, 25))

    def ground(xy: Array) -> Array:
        color = floor(xy)
        x, y = _turned(xy, turn, (0.0, 60.0))
        k = np.flatnonzero(np.abs(np.abs(x) - lane) < 0.06)
        wear = np.clip(0.2 + 1.1 * _at(_fbm(3), x[k] + 20, y[k], 2.7), 0, 0.9)[:, None]
        color[k] += (line - color[k]) * wear
        return color

    far, tall = float(rng.uniform(13, 18)), float(rng.uniform(4.2, 6.0))
    sheet = _vary(rng, pick(rng, [(0.62, 0.66, 0.68), (0.50, 0.58, 0.64), (0.70, 0.66, 0.58), (0.56, 0.60, 0.54)]))
    siding = Material(sheet, 0.95, pattern=Pattern("stripes", _mixed(sheet, (0, 0, 0), 0.18), 0.4, 1.0, "x"))
    brick = Material((0.58, 0.36, 0.29), 1.0, pattern=Pattern("bricks", (0.70, 0.64, 0.58), 0.5, 0.8))
    steel = Material(_vary(rng, pick(rng, [(0.36, 0.40, 0.44), (0.60, 0.42, 0.22), (0.30, 0.42, 0.40)])), 0.9)
    pillars, x = [], float(rng.uniform(-1.5, 1.5)) - 15
    while x < 15:
        pillars += [box((0.30, 0.35, tall), (x, far - 0.5, tall / 2)), box((0.5, 0.55, 0.3), (x, far - 0.5, 0.15))]
        x += 5.0
    pillars.append(box((60, 0.3, 0.4), (0, far - 0.5, tall - 0.6)))
    panes = box((60, 0.05, 0.8), (0, far - 0.12, tall - 1.5))
    scenery = (
        (box((80, 0.2, tall), (0, far, tall / 2)), pick(rng, [siding, siding, brick])),
        (merge(pillars), steel),
        (
            panes,
            Material(
                (0.80, 0.87, 0.90), 1.0, emission=0.2, pattern=Pattern("stripes", (0.5, 0.55, 0.57), 1.1, 0.6, "x")
            ),
        ),
    )
    gray = _vary(rng, (0.46, 0.47, 0.48), 0.04)
    base = _gradient([(0, gray), (1, gray)])[0]
    lamps, beam = linear((1.0, 0.97, 0.9)) * 1.8, base * 0.45
    start = rng.uniform(0, 4, 2).astype(np.float32)

    def sky(directions: Array) -> Array:
        # A flat roof four metres above the eye, with rows of lamps between beams.
        height = np.float32(tall - 1.2) / np.maximum(directions[:, 2], 0.05)
        px, py = directions[:, 0] * height + start[0], directions[:, 1] * height + start[1]
        color = np.broadcast_to(base, directions.shape).copy()
        color[py % 4 < 0.35] = beam
        color[((py + 2) % 4 < 0.3) & (px % 3 < 1.8)] = lamps
        # Far off, rows closer than a pixel merge into their mean.
        return np.asarray(base * 1.1 + (color - base * 1.1) * np.clip(directions[:, 2:3] * 2.5 - 0.2, 0, 1), np.float32)

    return Surroundings(
        sky,
        ground,
        _sun(rng, 42, 65, 60),
        _rays(1.8, (1, 0.97, 0.92)),
        ground_roughness=float(rng.uniform(0.6, 0.9)),
        haze=300,
        scenery=scenery,
        ambient=((0.62, 0.62, 0.60), (0.42, 0.42, 0.41), (0.24, 0.24, 0.23)),
    )


def _tiled_hall(rng: Rng) -> Surroundings:
    light = _vary(rng, (0.80, 0.77, 0.71), 0.04)
    dark = _vary(
        rng,
        pick(rng, [(0.30, 0.30, 0.32), (0.50, 0.30, 0.25), (0.32, 0.40, 0.38), (0.52, 0.45, 0.36), (0.30, 0.36, 0.48)]),
        0.04,
    )
    size, turn, offset = float(rng.uniform(0.6, 1.0)), float(rng.choice([0, 45, 20, -25])), _offset(rng)
    ramps = [_ramp([_mixed(c, (0, 0, 0), 0.12), c, _mixed(c, (1, 1, 1), 0.14)]) for c in (light, dark)]
    grout = linear(_mixed(light, dark, 0.6))

    def ground(xy: Array) -> Array:
        x, y = _turned(xy, turn, offset)
        i, j = np.floor(x / size), np.floor(y / size)
        odd = ((i + j) % 2 > 0)[:, None]
        # Marble: veins where noise crosses its mean, differently placed in every tile.
        roll = _rolled(i, j)
        veins = np.abs(_at(_fbm(2), x + 9 * roll, y, 3.0) - 0.5) * 4
        w = 0.35 + 0.4 * np.clip(veins, 0, 1) + 0.25 * (roll - 0.5)
        near = _nearness(xy)
        contrast = (0.55 + 0.45 * np.sqrt(near))[:, None]
        color = np.where(odd, _through(ramps[1], w), _through(ramps[0], w))
        color = np.asarray(grout + (color - grout) * contrast, dtype=np.float32)
        fx, fy = x / size - i, y / size - j
        joint = np.flatnonzero(np.minimum(np.minimum(fx, 1 - fx), np.minimum(fy, 1 - fy)) < 0.008)
        color[joint] += (grout * 0.6 - color[joint]) * near[joint, None]
        return color

    far, tall = float(rng.uniform(11, 14)), 4.6
    plaster = _vary(
        rng, pick(rng, [(0.80, 0.75, 0.66), (0.74, 0.70, 0.72), (0.70, 0.76, 0.76), (0.82, 0.72, 0.62)]), 0.03
    )
    marble = _vary(rng, (0.84, 0.82, 0.78), 0.03)
    column = lathe(
        [
            (0.40, 0),
            (0.40, 0.18),
            (0.40, 0.18),
            (0.30, 0.30),
            (0.27, 0.45),
            (0.25, 2.0),
            (0.22, 3.7),
            (0.30, 3.85),
            (0.36, 4.0),
            (0.36, 4.0),
            (0.36, 4.2),
        ],
        20,
    )
    columns, niches, x = [], [], float(rng.uniform(-1.5, 1.5)) - 12.8
    while x < 13:
        columns.append(column.moved(x, far - 1.3))
        niches.append(box((1.5, 0.04, 2.5), (x + 1.6, far - 0.12, 1.65)))
        x += 3.2
    beam = box((60, 1.0, 0.5), (0, far - 1.2, 4.42))
    scenery = (
        (box((60, 0.2, tall), (0, far, tall / 2)), Material(plaster, 1.0)),
        (box((60, 0.1, 0.35), (0, far - 0.15, 0.175)), Material(_mixed(plaster, (0.3, 0.25, 0.2), 0.5), 0.9)),
        (merge(niches), Material(_mixed(plaster, (1, 1, 1), 0.3), 1.0)),
        (
            merge([*columns, beam]),
            Material(marble, 0.9, pattern=Pattern("noise", _mixed(marble, (0.4, 0.38, 0.36), 0.3), 0.4, 0.6)),
        ),
    )
    return Surroundings(
        _ceiling(_vary(rng, (0.86, 0.84, 0.80), 0.02), 0.8),
        ground,
        _sun(rng, 42, 62, 60),
        _rays(1.8, (1, 0.95, 0.87)),
        ground_roughness=float(rng.uniform(0.2, 0.4)),
        haze=400,
        scenery=scenery,
    )


def _empty(rng: Rng) -> Surroundings:
    """The black void of PaintSkills' first version, with a strong key light near the camera."""
    return Surroundings(
        lambda directions: np.zeros((len(directions), 3), np.float32),
        None,
        _sun(rng, 30, 50, 40),
        _rays(2.6, (1, 0.98, 0.95)),
        ambient=((0.50, 0.50, 0.50), (0.36, 0.36, 0.36), (0.22, 0.22, 0.22)),
    )


ENVIRONMENTS: tuple[Environment, ...] = (
    Environment("empty", _empty),
    Environment("meadow", _meadow),
    Environment("beach", _beach),
    Environment("desert", _desert),
    Environment("snowfield", _snowfield),
    Environment("mountain_lake", _mountain_lake),
    Environment("canyon", _canyon),
    Environment("sunset_coast", _sunset_coast),
    Environment("forest_clearing", _forest_clearing),
    Environment("autumn_park", _autumn_park),
    Environment("open_road", _open_road),
    Environment("city_plaza", _city_plaza),
    Environment("old_town", _old_town),
    Environment("night_street", _night_street),
    Environment("stone_terrace", _stone_terrace),
    Environment("playing_court", _playing_court),
    Environment("living_room", _living_room),
    Environment("photo_studio", _photo_studio),
    Environment("warehouse", _warehouse),
    Environment("tiled_hall", _tiled_hall),
)


def environment(name: str) -> Environment:
    """The environment of this name.

    Raises:
        ValueError: there is none; the message names near matches.
    """
    for entry in ENVIRONMENTS:
        if entry.name == name:
            return entry
    names = [entry.name for entry in ENVIRONMENTS]
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names)}"
    raise ValueError(f"no environment is named {name!r}; {hint}")


# --------------------------------------------------------------------------------------------- a user's own image
def user_environment(path: Path) -> Environment:
    """A place made of a user's image; the file is read once, here.

    * A panorama (equirectangular, twice as wide as high; PNG, JPEG ... in sRGB, or Radiance ``.hdr``) becomes the sky,
      and its lower half, projected on the ground from a camera's usual place, the ground. The main light comes from its
      brightest spot (at least 15 degrees high). Each build turns the panorama so that this light lies on the camera's
      side.
    * Any other image becomes a backdrop: about as wide as the camera sees, its horizon taken to be at 45 % of its
      height from the top, repeated in mirror image beyond its edges; below the horizon it colours the ground. Each
      build shifts it a little and draws a light.

    Args:
        path: the image; the environment is named after it, without its ending.

    Raises:
        UsageError: there is no such file, or it cannot be read as an image.
    """
    path = Path(path)
    if not path.is_file():
        raise UsageError(f"background image {path}: no such file; give a PNG, JPEG or Radiance .hdr image")
    image = _load_linear(path)
    height, width = image.shape[:2]
    if abs(width / height - 2) < 0.02:
        return Environment(path.stem, lambda rng: _panorama(image, rng))
    return Environment(path.stem, lambda rng: _backdrop(image, rng))


def _load_linear(path: Path) -> Array:
    """An image in linear light, shape (H, W, 3), at most 2048 pixels wide; in ``.hdr`` files lamps are far over 1."""
    if path.suffix.lower() in {".hdr", ".pic", ".rgbe"}:
        radiance = read_radiance(path)
        step = -(-radiance.shape[1] // 2048)
        if step > 1:
            h, w = (n // step * step for n in radiance.shape[:2])
            radiance = radiance[:h, :w].reshape(h // step, step, w // step, step, 3).mean(axis=(1, 3))
        # Files come in any unit: the middle of the image becomes a middle gray.
        middle = float(np.median(radiance.mean(axis=2)))
        return np.asarray(radiance * (0.25 / max(middle, 1e-6)), dtype=np.float32)
    from PIL import Image, ImageOps

    try:
        with open_image(path) as opened:
            image = ImageOps.exif_transpose(opened).convert("RGB")
            image.thumbnail((2048, 2048), Image.Resampling.LANCZOS)
            return linear(np.asarray(image, dtype=np.float32) / 255)
    except Exception as err:  # what decoders raise on damaged files: OSError, SyntaxError, struct.error ...
        raise UsageError(
            f"background image {path}: cannot be read ({err}); give a PNG, JPEG or Radiance .hdr image"
        ) from err


def read_radiance(path: Path) -> Array:
    """Read a Radiance image (RGBE; flat, or run-length coded per channel), shape (H, W, 3), linear, float32.

    Format: G. Ward, "Real Pixels", Graphics Gems II (1991), and the Radiance file format notes. Rows must run from the
    top and columns from the left (``-Y h +X w``), as practically all do.

    Raises:
        UsageError: not such a file, or it is damaged or of a variant not read.
    """

    def bad(why: str) -> UsageError:
        return UsageError(f"background image {path}: {why}; save it again as a Radiance .hdr (RGBE) or as PNG")

    try:
        data = read_regular(path, IMAGE_BYTES)
    except OSError as err:
        raise bad(f"cannot be read ({err.strerror or err})") from err

    if not data.startswith((b"#?RADIANCE", b"#?RGBE")):
        raise bad("expected a Radiance file, which begins with '#?RADIANCE'")
    head, gap, rest = data.partition(b"\n\n")
    size_line, newline, body = rest.partition(b"\n")
    if not gap or not newline:
        raise bad("its header has no end")
    if b"FORMAT=32-bit_rle_xyze" in head:
        raise bad("its colours are XYZ, only RGB is read")
    words = size_line.split()
    if words[::2] != [b"-Y", b"+X"] or not all(word.isdigit() and len(word) < 9 for word in words[1::2]):
        raise bad(f"expected a size like '-Y 512 +X 1024', found {size_line[:40].decode('latin-1')!r}")
    height, width = int(words[1]), int(words[3])
    if not 0 < height * width <= IMAGE_PIXELS.value:
        raise bad(f"its size {width} x {height} is not usable; {IMAGE_PIXELS.hint()}")
    flat = np.frombuffer(body, np.uint8)
    if 8 <= width < 32768 and body[:2] == b"\x02\x02":
        rgbe = np.empty((height, 4, width), np.uint8)
        at = 0
        for row in range(height):
            if len(body) < at + 4 or body[at : at + 2] != b"\x02\x02" or body[at + 2] << 8 | body[at + 3] != width:
                raise bad(f"row {row} of {height} is missing or damaged")
            at += 4
            for channel in rgbe[row]:
                at = _unpack(flat, at, channel)
                if at < 0:
                    raise bad(f"row {row} of {height} is damaged")
        rgbe = rgbe.transpose(0, 2, 1)
    else:
        if len(flat) < height * width * 4:
            raise bad(f"{height * width * 4} bytes of pixels expected, {len(flat)} found")
        rgbe = flat[: height * width * 4].reshape(height, width, 4)
    scale = np.ldexp(np.float32(1), rgbe[..., 3].astype(np.int32) - 136).astype(np.float32)
    scale[rgbe[..., 3] == 0] = 0
    return (rgbe[..., :3] * scale[..., None]).astype(np.float32)


def _unpack(data: NDArray[np.uint8], at: int, out: NDArray[np.uint8]) -> int:
    """Fill one channel of a row from runs (128 + length, value) and copies; the next position, or -1: damaged."""
    done = 0
    while done < len(out):
        if at + 1 >= len(data):
            return -1
        count = int(data[at])
        if count > 128:
            count -= 128
            values, step = data[at + 1 : at + 2], 2
        else:
            values, step = data[at + 1 : at + 1 + count], 1 + count
        if count == 0 or done + count > len(out) or len(values) < step - 1:
            return -1
        out[done : done + count] = values
        done, at = done + count, at + step
    return at


def _bilinear(image: Array, x: Array, y: Array, *, mirrored: bool) -> Array:
    """Colours at pixel positions (centres whole); beyond the edges mirrored, or wrapped in x and held in y."""
    h, w = image.shape[:2]
    x0, y0 = np.floor(x), np.floor(y)
    fx, fy = (x - x0)[:, None].astype(np.float32), (y - y0)[:, None].astype(np.float32)
    i, j = x0.astype(np.int64), y0.astype(np.int64)

    def fold(k: NDArray[np.int64], n: int) -> NDArray[np.int64]:
        k = k % (2 * n)
        return np.minimum(k, 2 * n - 1 - k)

    columns = [fold(i + d, w) if mirrored else (i + d) % w for d in (0, 1)]
    rows = [fold(j + d, h) if mirrored else np.clip(j + d, 0, h - 1) for d in (0, 1)]
    flat = image.reshape(-1, 3)
    corner = [[flat.take(r * w + c, axis=0) for c in columns] for r in rows]
    upper, lower = (a + (b - a) * fx for a, b in corner)
    return np.asarray(upper + (lower - upper) * fy, dtype=np.float32)


def _projected(sky: Sky, light: Array) -> Ground:
    """A ground that, under ``light`` (radiance of a white one), looks as the image does from the usual viewpoint."""

    def ground(xy: Array) -> Array:
        directions = np.empty((len(xy), 3), np.float32)
        directions[:, :2] = xy - np.array(VIEWPOINT[:2], np.float32)
        directions[:, 2] = -VIEWPOINT[2]
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        return np.asarray(np.clip(sky(directions) / light, 0, 0.95), dtype=np.float32)

    return ground


def _panorama(image: Array, rng: Rng) -> Surroundings:
    height, width = image.shape[:2]
    # The brightest spot among blocks of about 5 degrees, not lower than 15 degrees.
    rows, cols = max(1, height // 36), max(1, width // 72)
    h, w = height // rows * rows, width // cols * cols
    blocks = image[:h, :w].reshape(h // rows, rows, w // cols, cols, 3).mean(axis=(1, 3))
    elevation = math.pi / 2 - (np.arange(len(blocks)) + 0.5) * rows / height * math.pi
    brightness = np.where((elevation >= math.radians(15))[:, None], blocks.mean(axis=2), -1)
    row, col = divmod(int(brightness.argmax()), brightness.shape[1])
    # Its middle: the mean place of what is bright in the block and its neighbours.
    near_rows = np.arange(max(row - 1, 0) * rows, min((row + 2) * rows, height))
    near_cols = np.arange((col - 1) * cols, (col + 2) * cols)
    patch = image[near_rows][:, near_cols % width].mean(axis=2)
    weight = np.maximum(patch - 0.7 * patch.max(), 1e-9)
    middle_row = float((weight.sum(axis=1) * (near_rows + 0.5)).sum() / weight.sum())
    middle_col = float((weight.sum(axis=0) * (near_cols + 0.5)).sum() / weight.sum())
    high = max(math.pi / 2 - middle_row / height * math.pi, math.radians(15))
    sun_azimuth = (middle_col / width - 0.5) * 2 * math.pi
    # Azimuth 0 is +y, the way the camera looks; the light is to come from around -y, behind it.
    turn = math.pi + float(rng.uniform(-1.1, 1.1)) - sun_azimuth
    azimuth = sun_azimuth + turn
    sun_direction = (math.cos(high) * math.sin(azimuth), math.cos(high) * math.cos(azimuth), math.sin(high))
    # Light on level ground from above: radiance weighted by solid angle (cos) and slant (sin of the elevation).
    rise = math.pi / 2 - (np.arange(height // 2) + 0.5) / height * math.pi
    slant = (np.cos(rise) * np.sin(rise))[:, None]
    above = (np.minimum(image[: height // 2], 4).mean(axis=1) * slant).sum(axis=0) / slant.sum()
    mean = max(float(brightness[brightness >= 0].mean()), 1e-4)
    # An even sky casts soft light only; the more the spot stands out, the more of the light is direct.
    contrast = float(brightness[row, col]) / mean
    strength = float(np.clip(0.9 + 0.8 * (contrast - 1), 0.9, 2.6))
    tint = blocks[row, col] / max(float(blocks[row, col].max()), 1e-6)
    sun = _rays(strength, (float(tint[0]), float(tint[1]), float(tint[2])))
    shown = np.minimum(image, 8)

    def sky(directions: Array) -> Array:
        x = (np.arctan2(directions[:, 0], directions[:, 1]) - np.float32(turn)) * np.float32(width / (2 * math.pi))
        y = (0.5 - np.arcsin(np.clip(directions[:, 2], -1, 1)) / np.float32(math.pi)) * height
        return _bilinear(shown, x + np.float32(width / 2 - 0.5), y - np.float32(0.5), mirrored=False)

    light = np.maximum(above + np.array(sun, np.float32) * sun_direction[2] / math.pi, 0.05).astype(np.float32)
    return Surroundings(sky, _projected(sky, light), sun_direction, sun, haze=1e4)


def _backdrop(image: Array, rng: Rng) -> Surroundings:
    height, width = image.shape[:2]
    wide = 0.80  # in u: a little more than a field of view of 40 degrees
    shift = float(rng.uniform(-0.04, 0.04))
    horizon = 0.45

    def sky(directions: Array) -> Array:
        u, e = _outlook(directions[:, 0], directions[:, 1], directions[:, 2])
        # Heights are compressed, most below the horizon: the ground at the camera's feet is below most photos' edge.
        e = np.asarray(e / (1 + np.where(e < 0, 1.2, 0.3) * np.abs(e)), dtype=np.float32)
        x = ((u - np.float32(shift)) / np.float32(wide) + 0.5) * width
        y = np.float32(horizon * height) - e * np.float32(width / wide)
        return _bilinear(image, x - np.float32(0.5), y - np.float32(0.5), mirrored=True)

    upper = image[: max(1, int(horizon * height))].mean(axis=(0, 1))
    tone = upper / max(float(upper.max()), 1e-4) * 0.5 + 0.5
    direction = _sun(rng, 35, 60)
    sun = _rays(2.0, (float(tone[0]), float(tone[1]), float(tone[2])))
    side = np.maximum(upper, 0.3)
    light = (side + np.array(sun, np.float32) * direction[2] / math.pi).astype(np.float32)
    ambient = tuple((float(f * side[0]), float(f * side[1]), float(f * side[2])) for f in (1.0, 0.75, 0.4))
    return Surroundings(
        sky, _projected(sky, light), direction, sun, haze=1e4, ambient=(ambient[0], ambient[1], ambient[2])
    )
