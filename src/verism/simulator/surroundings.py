"""Where objects stand: sky, ground, light and scenery, as the renderer takes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from verism.simulator.model import Material
from verism.simulator.shapes import Mesh

Array = NDArray[np.float32]
Color = tuple[float, float, float]

__all__ = ["Environment", "Surroundings", "linear"]


def linear(color: tuple[float, float, float] | NDArray[np.floating]) -> Array:
    """sRGB in [0, 1] to linear light (IEC 61966-2-1)."""
    c = np.asarray(color, dtype=np.float32)
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Surroundings:
    """One built environment. Colours are linear light unless stated; the stage is about the origin, z up.

    Attributes:
        sky: radiance seen along unit directions, (N, 3) -> (N, 3); distant scenery is rendered into it. The camera
            looks towards +y, a little downwards, with a field of view of about 40 degrees.
        ground: albedo in [0, 1] at points of the plane z = 0, (N, 2) in metres -> (N, 3); None: no ground at all.
        ground_roughness: 0.1 polished floor or wet road ... 1 grass.
        sun_direction: unit vector towards the main light, z > 0.
        sun: irradiance of the main light on a surface facing it, RGB; about (2.5, 2.4, 2.2) for a sunny day, where the
            sky is about 0.5 to 1.
        haze: distance in metres over which the ground fades into the sky at the horizon.
        scenery: static meshes in world coordinates (walls, pillars); they must stay behind the stage: y > 6, or beyond
            |x| > 6, and must not look like any evaluated object.
        ambient: mean radiance from above, from the sides and from below, RGB each; None: taken from sky and ground.
            For places whose painted sky is not where their light comes from (a black void, a wood, a lit street).
    """

    sky: Callable[[Array], Array]
    ground: Callable[[Array], Array] | None
    sun_direction: tuple[float, float, float]
    sun: tuple[float, float, float]
    ground_roughness: float = 1.0
    haze: float = 60.0
    scenery: tuple[tuple[Mesh, Material], ...] = ()
    ambient: tuple[Color, Color, Color] | None = None


@dataclass(frozen=True)
class Environment:
    """A named environment; ``build(rng)`` draws its variations (time of day, clouds, colours, the lie of the land)."""

    name: str
    build: Callable[[np.random.Generator], Surroundings]
