"""A finer face than that of the scenes' people, for portraits: sockets with lids, nose, lips, brows and nostrils.

Heads of people in scenes are made to be read at thirty pixels; here a face fills the image, and face detectors have
to find it. The skull, and so all hair and headwear, is that of ``body``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from verism.simulator.assets.body import HEAD, ball, face_x, mix
from verism.simulator.model import Material, Part
from verism.simulator.shapes import Mesh, grid_surface, spline, tube

if TYPE_CHECKING:
    from verism.simulator.assets.people import PersonSpec

__all__ = ["LANDMARKS", "FaceShape", "Marks", "draw_face", "fine_face", "take_marks"]

Array = NDArray[np.float64]

LANDMARKS = ("right_eye", "left_eye", "nose", "mouth_right", "mouth_left")
"""Points of ``Marks.points``, the person's own right first: the left one in an image from the front."""

EYES = (0.145, 0.53)
"""Middle of the left eye: y and z on a head of height 1."""

_MOUTH = 0.195  # z of the line between the lips


@dataclass(frozen=True)
class FaceShape:
    """What makes one face differ from another, as factors of the usual one (lengths) or shares of the head's height.

    Attributes:
        nose_length: how far the ridge of the nose stands out from the face, factor of the usual.
        nose_width: width of the nose across the wings, factor of the usual.
        lips: fullness of the lips, factor of the usual.
        brow: thickness of the eyebrows, factor of the usual.
        jaw: width of the lower face, factor of the usual.
        cheeks: roundness of the cheeks, factor of the usual.
        smile: how far the corners of the mouth are raised, share of the head's height.
        eye_open: opening between the eyelids, factor of the usual.
        sheen: whether the skin mirrors light besides scattering it. What it mirrors has the light's colour and not the
            skin's: little on light skin, as much again as dark skin scatters.
    """

    nose_length: float = 1.0
    nose_width: float = 1.0
    lips: float = 1.0
    brow: float = 1.0
    jaw: float = 1.0
    cheeks: float = 1.0
    smile: float = 0.01
    eye_open: float = 1.0
    sheen: bool = False


def draw_face(rng: np.random.Generator) -> FaceShape:
    """A face with every feature drawn evenly about the usual one; nothing is tied to tone or figure."""
    return FaceShape(
        nose_length=float(rng.uniform(0.75, 1.2)),
        nose_width=float(rng.uniform(0.85, 1.35)),
        lips=float(rng.uniform(0.75, 1.45)),
        brow=float(rng.uniform(0.8, 1.5)),
        jaw=float(rng.uniform(0.94, 1.06)),
        cheeks=float(rng.uniform(0.6, 1.4)),
        smile=float(rng.uniform(-0.004, 0.022)),
        eye_open=float(rng.uniform(0.85, 1.15)),
        sheen=bool(rng.random() < 0.5),
    )


def _bump(y: Array, z: Array, at: tuple[float, float], spread: tuple[float, float]) -> Array:
    return np.asarray(np.exp(-(((y - at[0]) / spread[0]) ** 2) - ((z - at[1]) / spread[1]) ** 2))


def _relief(y: Array, z: Array, shape: FaceShape) -> Array:
    """How far the face stands out from the skull at (y, z), in shares of the head's height."""
    side = np.abs(y)
    eye_y, eye_z = EYES
    # Sockets, brow ridge, cheekbones, chin.
    out = -0.050 * _bump(side, z, (eye_y - 0.01, eye_z), (0.085, 0.052))
    out += 0.022 * _bump(side, z, (0.13, 0.615), (0.12, 0.035))
    out += 0.026 * shape.cheeks * _bump(side, z, (0.19, 0.39), (0.075, 0.085))
    out += 0.030 * _bump(y, z, (0.0, 0.045), (0.10, 0.06)) - 0.018 * _bump(y, z, (0.0, 0.115), (0.12, 0.022))
    # The mouth's own roundness, then the lips on it.
    out += 0.022 * _bump(y, z, (0.0, _MOUTH), (0.12, 0.075))
    upper, lower = 0.024 * shape.lips, 0.030 * shape.lips
    line = _MOUTH + shape.smile * (side / 0.11) ** 2
    out += upper * _bump(side, z - line, (0.02, 0.020), (0.075, 0.016))
    out += lower * _bump(y, z - line, (0.0, -0.026), (0.070, 0.020))
    out -= 0.018 * _bump(y, z - line, (0.0, 0.0), (0.11, 0.008))
    # The nose: a ridge that rises to the tip and falls off under it, and the wings.
    rise = np.interp(z, (0.275, 0.315, 0.345, 0.56, 0.61), (0.0, 0.085, 0.125, 0.035, 0.0)) * shape.nose_length
    width = np.interp(z, (0.29, 0.35, 0.45, 0.56), (0.062, 0.055, 0.040, 0.050)) * shape.nose_width
    out += rise * np.exp(-((side / width) ** 2))
    out += 0.040 * _bump(side, z, (0.062 * shape.nose_width, 0.315), (0.022, 0.026))
    return np.asarray(out)


def _surface_x(y: float, z: float, shape: FaceShape) -> float:
    """Where the front of this face is."""
    return face_x(y, z) + float(_relief(np.array(y), np.array(z), shape))


def _grid(shape: FaceShape) -> Array:
    """Points of the head, shape (rows, columns, 3): close together over the face, wide apart behind."""
    front = np.radians(np.linspace(-72, 72, 97))
    back = np.radians(np.linspace(72, 288, 25))[1:-1]
    azimuth = np.concatenate([front, back])
    z = np.concatenate([np.linspace(-0.02, 0.66, 104), np.linspace(0.66, 1.0, 22)[1:]])
    # The profile's own kinks would show as rings on a face this near.
    fine = spline(HEAD[::2], 160)
    mid, depth, width = (np.interp(z, fine[:, 0], fine[:, k])[:, None] for k in (1, 2, 3))
    jaw = 1 + (shape.jaw - 1) * np.clip((0.45 - z) / 0.3, 0, 1)[:, None]
    y = width * jaw * np.sin(azimuth)
    height = np.broadcast_to(z[:, None], y.shape)
    x = mid + depth * np.cos(azimuth)
    x = x + _relief(y, height, shape) * np.clip(np.cos(azimuth) * 3, 0, 1)
    return np.stack([x, y, height], axis=-1)


def _split(mesh: Mesh, chosen: NDArray[np.bool_]) -> Mesh:
    return Mesh(np.ascontiguousarray(mesh.triangles[chosen]), np.ascontiguousarray(mesh.normals[chosen]))


def _landmarks(shape: FaceShape) -> Array:
    """Eyes, tip of the nose and corners of the mouth on a head of height 1, in the order of ``LANDMARKS``, (5, 3)."""
    eye_y, eye_z = EYES
    points = []
    for y, z in ((-eye_y, eye_z), (eye_y, eye_z), (0.0, 0.345), (-0.11, None), (0.11, None)):
        height = _MOUTH + shape.smile if z is None else z
        # The eyes themselves, not the socket: the lids lie a little before the skin beside them.
        points.append((_surface_x(y, height, shape) + 0.006 * (z == eye_z), y, height))
    return np.array(points)


def _face_outline(shape: FaceShape) -> Array:
    """Points of the face from chin to middle of the forehead and from cheek to cheek on a head of height 1, (N, 3)."""
    points = _grid(shape)
    z = points[:, 0, 2]
    angle = np.degrees(np.arctan2(points[..., 1], points[..., 0]))
    return np.asarray(points[((z > -0.01) & (z < 0.82))[:, None] & (np.abs(angle) < 75)])


def fine_face(spec: PersonSpec, shape: FaceShape) -> list[tuple[str, list[Mesh], Material]]:
    """Head with eyes, brows, nose, mouth and ears on a head of height 1, chin at the origin, face towards +x.

    Names: ``flesh`` is bare skin and nothing else; everything that has another colour is ``head``; ``marks`` is nothing
    to be painted, see ``take_marks``.
    """
    from verism.simulator.assets.people import MONK_TONES

    tone = MONK_TONES[spec.skin_tone - 1]
    skin = Material(tone, roughness=0.65 if shape.sheen else 1.0)
    mesh = grid_surface(_grid(shape), wrap_cols=True)
    centre = mesh.triangles.mean(axis=1).astype(np.float64)
    x, y, z = centre.T
    side, front = np.abs(y), x > 0
    eye_y, eye_z = EYES
    half, gape = 0.072, 0.034 * shape.eye_open
    # An almond: the lids meet at both corners.
    along = (side - eye_y) / half
    lid = np.sqrt(np.clip(1 - along**2, 0, 1))
    eye = front & (np.abs(along) < 1) & (z < eye_z + gape * lid**1.3) & (z > eye_z - 0.72 * gape * lid**1.3)
    line = _MOUTH + shape.smile * (side / 0.11) ** 2
    reach = np.clip(1 - (side / 0.112) ** 2, 0, None)
    bow = 1 - 0.16 * np.exp(-((side / 0.016) ** 2))
    upper, lower = 0.036 * shape.lips * bow, 0.046 * shape.lips
    lips = front & (z < line + upper * reach**0.8) & (z > line - lower * reach**0.7) & (side < 0.112)
    gap = lips & (np.abs(z - line) < 0.0055)
    nostril = front & (((side - 0.036 * shape.nose_width) / 0.019) ** 2 + ((z - 0.293) / 0.011) ** 2 < 1)
    bare = ~(eye | lips | nostril)
    ears = ball((0.075, 0.045, 0.11), (-0.02, 0.345, 0.47), 18).with_twin()
    flesh = [_split(mesh, bare)]
    if spec.hair not in ("headscarf", "bob", "long"):
        flesh.append(ears)
    lip_color = mix(mix(tone, (0.62, 0.20, 0.22), 0.45), (0, 0, 0), 0.10)
    dark = mix(tone, (0.0, 0.0, 0.0), 0.85)
    parts: list[tuple[str, list[Mesh], Material]] = [
        ("flesh", flesh, skin),
        ("head", [_split(mesh, lips & ~gap)], Material(lip_color, roughness=0.55)),
        ("head", [_split(mesh, gap), _split(mesh, nostril)], Material(dark, roughness=0.9)),
    ]
    eyeball = 0.066
    ball_x = _surface_x(eye_y, eye_z, shape) - eyeball + 0.006
    white = ball((eyeball, eyeball * 1.15, eyeball), (ball_x, eye_y, eye_z), 24).with_twin()
    iris = ball((0.016, 0.032, 0.032), (ball_x + eyeball - 0.010, eye_y - 0.004, eye_z), 20).with_twin()
    pupil = ball((0.010, 0.014, 0.014), (ball_x + eyeball + 0.0005, eye_y - 0.004, eye_z), 14).with_twin()
    parts += [
        ("head", [white], Material((0.90, 0.89, 0.87), roughness=0.35)),
        ("head", [iris], Material(spec.eye_color, roughness=0.25)),
        ("head", [pupil], Material((0.02, 0.02, 0.02), roughness=0.2)),
    ]
    # Lashes draw the upper lid, a fold of skin the lower one.
    t = np.linspace(-1, 1, 13)
    rim = np.sqrt(np.clip(1 - t**2, 0, 1)) ** 1.3
    above = [(eye_y + half * a, eye_z + gape * b) for a, b in zip(t, rim, strict=True)]
    below = [(eye_y + half * a, eye_z - 0.72 * gape * b) for a, b in zip(t, rim, strict=True)]
    lash = np.array([(_surface_x(a, b, shape) + 0.004, a, b) for a, b in above])
    fold = np.array([(_surface_x(a, b, shape) + 0.001, a, b) for a, b in below])
    parts.append(("head", [tube(lash, 0.0085, sides=6, round_ends=True).with_twin()], Material(dark, roughness=0.9)))
    shaded = Material(mix(tone, (0.0, 0.0, 0.0), 0.25), roughness=0.8)
    parts.append(("head", [tube(fold, 0.006, sides=6, round_ends=True).with_twin()], shaded))
    # On skin as dark as the hair the brows would be lost; they are set off a little to keep the face readable.
    near = max(abs(a - b) for a, b in zip(spec.hair_color, tone, strict=True)) < 0.12
    brow_color = mix(spec.hair_color, (0.0, 0.0, 0.0), 0.6) if near else spec.hair_color
    path = spline(np.array([(0.060, 0.602), (0.12, 0.628), (0.18, 0.632), (0.235, 0.606)]), 12)
    brow = np.array([(_surface_x(a, b, shape) + 0.001, a, b) for a, b in path])
    thick = 0.017 * shape.brow * np.interp(np.linspace(0, 1, 12), (0, 0.3, 1), (0.8, 1.0, 0.4))
    brows = tube(brow, np.stack([0.5 * thick, thick], axis=1), sides=8, round_ends=True)
    parts.append(("head", [brows.with_twin()], Material(brow_color, roughness=0.9)))
    # Points that travel with the head to wherever it is put.
    marks = np.concatenate([[(0.0, 0.0, 0.5), (1.0, 0.0, 0.5)], _landmarks(shape), _face_outline(shape)])
    corners = np.repeat(marks[:, None], 3, axis=1).astype(np.float32)
    parts.append(
        ("marks", [Mesh(corners, np.broadcast_to(np.array([1, 0, 0], dtype=np.float32), corners.shape))], skin)
    )
    return parts


@dataclass(frozen=True, eq=False)
class Marks:
    """Where a face is: ``forward`` the direction it looks in, unit (3,); ``points`` (5, 3); ``outline`` (N, 3).

    The box about the outline in an image is what face detectors call the face, from the chin to the middle of the
    forehead and from cheek to cheek: no hair, no ears.
    """

    forward: Array
    points: Array
    outline: Array


def take_marks(parts: list[tuple[str, Part]]) -> tuple[list[tuple[str, Part]], Marks]:
    """The parts of a person with ``fine_face`` that are to be painted, and the points that are not."""
    corners = next(part for name, part in parts if name == "marks").mesh.triangles[:, 0].astype(np.float64)
    forward = corners[1] - corners[0]
    result = Marks(forward=forward / np.linalg.norm(forward), points=corners[2:7], outline=corners[7:])
    return [(name, part) for name, part in parts if name != "marks"], result
