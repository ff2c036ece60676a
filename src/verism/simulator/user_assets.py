"""Classes of your own: glTF or OBJ files in a folder.

``{folder}/{label}.glb`` is one class with one model; ``{folder}/{label}/*.glb`` one class with several variants.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verism.errors import UsageError, require
from verism.files import open_regular
from verism.limits import IMAGE_BYTES
from verism.simulator.model import Asset, Material, Model, Part, pick
from verism.simulator.shapes import Mesh

__all__ = ["MAX_TRIANGLES", "load_assets", "load_model"]

SUFFIXES = (".glb", ".gltf", ".obj")
PLAIN = (0.7, 0.7, 0.7)  # of models that name no colour
MAX_TRIANGLES = 200_000  # beyond this an image would take seconds; simplify the model first


def load_assets(folder: Path) -> dict[str, Asset]:
    """Every class of a folder.

    Raises:
        UsageError: the folder does not exist or holds no model, or a file cannot be read.
    """
    if not folder.is_dir():
        raise UsageError(f"--assets {folder}: no such folder")
    files: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in SUFFIXES:
            label = path.stem if path.parent == folder else path.relative_to(folder).parts[0]
            files.setdefault(label.replace("_", " "), []).append(path)
    if not files and not any((folder / name).is_dir() for name in ("environments", "fonts")):
        raise UsageError(
            f"--assets {folder}: no {', '.join(SUFFIXES)} file in it, and no folder `environments` or `fonts`"
        )
    return {label: _asset(label, [load_model(p) for p in paths]) for label, paths in files.items()}


def _asset(label: str, variants: list[Model]) -> Asset:
    def build(rng: np.random.Generator, _state: str) -> Model:
        return pick(rng, variants)

    return Asset(label=label, build=build)


def load_model(path: Path) -> Model:
    """A model from a file. glTF and OBJ have y up; ours have z up, so it is turned. All of it takes paint.

    Raises:
        UsageError: not readable, empty, or too large.
        MissingExtra: trimesh is not installed.
    """
    from PIL import EpsImagePlugin

    trimesh = require("trimesh", extra="sim", purpose="a 3D model of your own")
    # trimesh lets Pillow open textures of any format, and for EPS that starts another program.
    EpsImagePlugin.gs_binary = False
    try:
        with open_regular(path, IMAGE_BYTES):
            pass
        loaded = trimesh.load_scene(path, process=False)
        meshes: list[Any] = list(loaded.dump())
    except Exception as err:  # trimesh raises whatever its readers raise
        raise UsageError(f"{path}: cannot be read as a 3D model ({type(err).__name__}: {err})") from err
    parts = []
    turn = np.array([[1.0, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0]])
    total = 0
    for mesh in meshes:
        if not len(getattr(mesh, "faces", ())):
            continue
        total += len(mesh.faces)
        soup = Mesh(
            np.asarray(mesh.vertices[mesh.faces], dtype=np.float32),
            np.asarray(mesh.vertex_normals[mesh.faces], dtype=np.float32),
        )
        parts.append(Part(soup.transformed(turn), Material(_color(mesh), roughness=0.6, paintable=True)))
    if not parts:
        raise UsageError(f"{path}: holds no triangles")
    if total > MAX_TRIANGLES:
        raise UsageError(f"{path}: {total:,} triangles; simplify it to at most {MAX_TRIANGLES:,}")
    model = Model(tuple(parts))
    low, high = model.bounds
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (high - low).max() > 0):
        raise UsageError(f"{path}: has no extent; its corners lie in one point or nowhere")
    return _standing(model)


def _standing(model: Model) -> Model:
    """Moved to stand on z = 0 about the vertical axis, and scaled to a largest extent of 1."""
    low, high = model.bounds
    scale = 1 / float((high - low).max())
    offset = -np.array([(low[0] + high[0]) / 2, (low[1] + high[1]) / 2, low[2]]) * scale
    matrix = np.hstack([np.eye(3) * scale, offset[:, None]])
    return Model(tuple(Part(p.mesh.transformed(matrix), p.material) for p in model.parts))


def _color(mesh: Any) -> tuple[float, float, float]:
    """One colour for a mesh: its material's, or the mean of its texture or vertex colours."""
    visual = mesh.visual
    if visual.kind is None:
        return PLAIN
    if visual.kind in ("vertex", "face"):
        sources: tuple[Callable[[], Any], ...] = (lambda: visual.vertex_colors,)
    else:  # without texture coordinates only the material itself has a colour
        sources = (lambda: visual.to_color().vertex_colors, lambda: visual.material.main_color)
    for source in sources:
        try:
            colors: NDArray[Any] = np.asarray(source(), dtype=np.float64).reshape(-1, 4)
        except Exception:  # a texture that cannot be decoded must not cost the shape
            continue
        if len(colors):
            r, g, b = (colors[:, :3].mean(axis=0) / 255).tolist()
            return (r, g, b)
    return PLAIN
