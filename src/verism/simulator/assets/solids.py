"""Plain solids that stand in for classes the simulator has no model of.

Nobody recognises a toothbrush in a red cylinder: what is rendered with solids tests counting, colours and places under
exact masks, and says nothing about recognition. Scene files name them in ``shape``; the class stays in ``label``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from verism.simulator.model import Asset, Color, Material, Model, jitter, pick
from verism.simulator.shapes import Mesh, box, cone, cylinder, ellipsoid, extrude, frustum, rounded_box, torus

__all__ = ["SOLIDS"]

_PLAIN: tuple[Color, ...] = (
    (0.72, 0.70, 0.66),
    (0.55, 0.60, 0.66),
    (0.66, 0.55, 0.45),
    (0.48, 0.56, 0.46),
    (0.62, 0.50, 0.58),
)

Make = Callable[[np.random.Generator], Mesh]


def _solid(name: str, make: Make) -> Asset:
    def build(rng: np.random.Generator, _state: str) -> Model:
        material = Material(pick(rng, _PLAIN), roughness=jitter(rng, 0.6, 0.3), paintable=True)
        return Model.of([(make(rng), material)])

    return Asset(name, build, size=0.9)


def _prism(rng: np.random.Generator) -> Mesh:
    side = jitter(rng, 0.5)
    return extrude([(-side, -0.4), (side, -0.4), (0.0, 0.5)], jitter(rng, 0.8)).rotated("x", 90)


SOLIDS: Mapping[str, Asset] = {
    name: _solid(f"solid {name}", make)
    for name, make in {
        "cube": lambda rng: box((jitter(rng, 1.0), jitter(rng, 1.0), jitter(rng, 1.0)), (0, 0, 0.5)),
        "ball": lambda rng: ellipsoid((0.5, 0.5, jitter(rng, 0.5)), (0, 0, 0.5), 24),
        "cylinder": lambda rng: cylinder(jitter(rng, 0.4), 1.0, 32).moved(z=0.5),
        "cone": lambda rng: cone(jitter(rng, 0.5), 1.0, 32),
        "ring": lambda rng: torus(0.5, jitter(rng, 0.18), 40, 16).rotated("x", 90).moved(z=0.6),
        "pillow": lambda rng: rounded_box((1.0, jitter(rng, 0.8), jitter(rng, 0.6)), 0.25, (0, 0, 0.35)),
        "bucket": lambda rng: frustum(0.35, jitter(rng, 0.5), 0.9, 32),
        "prism": _prism,
    }.items()
}
