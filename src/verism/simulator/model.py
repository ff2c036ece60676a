"""What a model is made of: parts with materials, and the catalogue entry that builds them.

A builder is a function ``(rng, state) -> Model`` and draws every variation (proportions, parts, materials, pose) from
``rng``, so a seed gives the same model on every machine. Models stand on z = 0, face +x, and are in metres.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from verism.simulator.shapes import Mesh, extremes, merge

__all__ = ["Asset", "Material", "Model", "Part", "Pattern", "jitter", "pick"]

Color = tuple[float, float, float]


@dataclass(frozen=True)
class Pattern:
    """A second colour on a surface, as a function of the position on the model (metres).

    ``kind``: ``noise`` (soft blotches), ``speckle`` (fine grain), ``stripes`` (along ``axis``), ``checks`` (plaid),
    ``wood`` (grain along ``axis``), ``bricks``, ``dots``. ``scale`` is the length of one repetition in metres.
    ``strength`` in [0, 1] mixes the second colour in.
    """

    kind: Literal["noise", "speckle", "stripes", "checks", "wood", "bricks", "dots"]
    color: Color
    scale: float = 0.1
    strength: float = 1.0
    axis: Literal["x", "y", "z"] = "z"


@dataclass(frozen=True)
class Material:
    """How a surface looks.

    Attributes:
        color: sRGB in [0, 1].
        roughness: 0 mirror-like ... 1 chalk.
        metallic: 0 or 1, or between for worn metal.
        emission: light of its own, as a multiple of its colour (lamps).
        paintable: the body work, which takes the paint of the colour skill. Tyres, glass, lamps, skin, faces stay.
        pattern: a second colour, or none.
    """

    color: Color
    roughness: float = 0.6
    metallic: float = 0.0
    emission: float = 0.0
    paintable: bool = False
    pattern: Pattern | None = None


@dataclass(frozen=True, eq=False)
class Part:
    """A mesh with its material."""

    mesh: Mesh
    material: Material


@dataclass(frozen=True, eq=False)
class Model:
    """Parts in the model's own coordinates."""

    parts: tuple[Part, ...]

    @staticmethod
    def of(parts: Sequence[tuple[Mesh | Sequence[Mesh], Material]]) -> Model:
        """From (mesh or list of meshes, material) pairs."""
        return Model(tuple(Part(m if isinstance(m, Mesh) else merge(m), material) for m, material in parts))

    @property
    def bounds(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Smallest and largest coordinates, each shape (3,)."""
        points = np.concatenate([p.mesh.triangles.reshape(-1, 3) for p in self.parts])
        return extremes(points)

    def painted(self, color: Color) -> Model:
        """With every paintable surface in one paint.

        Raises:
            ValueError: nothing is paintable, so the colour could not be seen.
        """
        if not any(p.material.paintable for p in self.parts):
            raise ValueError("no part of this model is paintable; mark its body work `paintable=True`")
        return Model(
            tuple(
                replace(p, material=replace(p.material, color=color, metallic=0.0, pattern=None))
                if p.material.paintable
                else p
                for p in self.parts
            )
        )

    def made_of(self, material: Material) -> Model:
        """With every paintable surface of one material.

        Args:
            material: the material.

        Raises:
            ValueError: nothing is paintable, so the material could not be seen.
        """
        if not any(p.material.paintable for p in self.parts):
            raise ValueError("no part of this model is paintable; mark its body work `paintable=True`")
        shown = replace(material, paintable=True)
        return Model(tuple(replace(p, material=shown) if p.material.paintable else p for p in self.parts))


@dataclass(frozen=True)
class Asset:
    """A class of objects the simulator can build.

    Attributes:
        label: suite label (COCO's name where COCO has the class).
        build: ``(rng, state) -> Model``.
        states: poses or variants a scene may ask for; the builder gets one of them.
        size: how large it is drawn relative to other classes, 1.0 usual: its largest extent is scaled to this.
        views: yaw range in degrees (0 faces the camera's right, 90 away from it) in which a stranger recognises it.
            Several ranges may be given; a yaw is drawn uniformly from their union. Flat things (signs) exclude edge-on.
    """

    label: str
    build: Callable[[np.random.Generator, str], Model]
    states: tuple[str, ...] = ("default",)
    size: float = 1.0
    views: tuple[tuple[float, float], ...] = field(default=((0.0, 360.0),))


T = TypeVar("T")


def pick(rng: np.random.Generator, options: Sequence[T]) -> T:
    """One of the options, evenly. (``rng.choice`` would turn tuples into arrays.)"""
    return options[int(rng.integers(len(options)))]


def jitter(rng: np.random.Generator, value: float, share: float = 0.15) -> float:
    """``value`` varied evenly by up to ``share`` of itself."""
    return float(value * (1 + share * rng.uniform(-1, 1)))
