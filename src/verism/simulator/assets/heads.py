"""A finer face than that of the scenes' people, for portraits: sockets with lids, nose, lips, brows and nostrils.

Heads of people in scenes are made to be read at thirty pixels; here a face fills the image, and face detectors have
to find it. Hair, headwear and glasses are made for the skull of ``body``; ``reshaped`` gives all of them another skull.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from verism.simulator.assets.body import HEAD, Color, ball, face_x, mix, shell
from verism.simulator.model import Material, Part, Pattern, pick
from verism.simulator.shapes import Mesh, grid_surface, spline, tube

if TYPE_CHECKING:
    from verism.simulator.assets.people import PersonSpec

__all__ = [
    "COVERS",
    "FRAMES",
    "GROWTHS",
    "LANDMARKS",
    "Cover",
    "FaceShape",
    "Frames",
    "Growth",
    "Marks",
    "Skull",
    "draw_face",
    "draw_features",
    "fine_face",
    "reshaped",
    "take_marks",
    "textured",
]

Array = NDArray[np.float64]

LANDMARKS = ("right_eye", "left_eye", "nose", "mouth_right", "mouth_left")
"""Points of ``Marks.points``, the person's own right first: the left one in an image from the front."""

EYES = (0.145, 0.53)
"""Middle of the left eye: y and z on a head of height 1."""

_MOUTH = 0.195  # z of the line between the lips


Cover = Literal["buzz cut", "fringe", "receding", "locs", "braids", "mohawk", "waves", "turban", "hood"]
"""Hair and headwear that portraits have besides those of ``PersonSpec``; for a person without hair."""
COVERS: tuple[Cover, ...] = get_args(Cover)

Growth = Literal["stubble", "goatee", "long beard", "sideburns"]
"""Facial hair that portraits have besides that of ``PersonSpec``."""
GROWTHS: tuple[Growth, ...] = get_args(Growth)

Frames = Literal["rectangular", "sunglasses", "half rim"]
"""Glasses that portraits have besides the round ones of ``PersonSpec``."""
FRAMES: tuple[Frames, ...] = get_args(Frames)


@dataclass(frozen=True)
class Skull:
    """The shape of a head and of all that is worn on it, as factors of the usual one.

    Attributes:
        width: from ear to ear.
        depth: from face to back.
        crown: width and depth at the crown, on top of both.
        chin: width at the chin, on top of ``width``.
        slope: how far the forehead leans back, share of the head's height.
    """

    width: float = 1.0
    depth: float = 1.0
    crown: float = 1.0
    chin: float = 1.0
    slope: float = 0.0


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
        skull: shape of the head.
        age: depth of folds and lines, 0 (none) to 1.
        eye_size: width of the eyes, factor of the usual.
        eye_slant: how far the outer corners of the eyes are raised, share of the head's height.
        mouth_width: factor of the usual.
        mouth_open: opening between the lips, share of the head's height.
        brow_tilt: how far the outer ends of the brows are raised, share of the head's height.
        blotches: how strongly skin varies in colour from place to place, 0 to 1.
        freckles: how strongly it is freckled, 0 to 1.
        lip_color: paint on the lips, sRGB in [0, 1]; None: their own colour.
        eye_white: colour of the whites of the eyes, sRGB in [0, 1].
        cover: hair or headwear of ``COVERS``, for a person described as bald; None: what the description says.
        cover_color: colour of that headwear (hair has the hair's colour), sRGB in [0, 1].
        growth: facial hair of ``GROWTHS``; None: what the description says.
        frames: glasses of ``FRAMES``; None: what the description says.
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
    skull: Skull = Skull()
    age: float = 0.0
    eye_size: float = 1.0
    eye_slant: float = 0.0
    mouth_width: float = 1.0
    mouth_open: float = 0.0
    brow_tilt: float = 0.0
    blotches: float = 0.0
    freckles: float = 0.0
    lip_color: Color | None = None
    eye_white: Color = (0.90, 0.89, 0.87)
    cover: Cover | None = None
    cover_color: Color = (0.16, 0.22, 0.38)
    growth: Growth | None = None
    frames: Frames | None = None


def draw_face(rng: np.random.Generator) -> FaceShape:
    """A face with every feature drawn evenly about the usual one; nothing is tied to tone or figure.

    Hair, facial hair and glasses are those of the person's description: see ``draw_features`` for more of them.
    """
    shape = FaceShape(
        nose_length=float(rng.uniform(0.65, 1.3)),
        nose_width=float(rng.uniform(0.8, 1.45)),
        lips=float(rng.uniform(0.7, 1.5)),
        brow=float(rng.uniform(0.7, 1.6)),
        jaw=float(rng.uniform(0.9, 1.1)),
        cheeks=float(rng.uniform(0.4, 1.6)),
        smile=float(rng.uniform(-0.006, 0.026)),
        eye_open=float(rng.uniform(0.75, 1.2)),
        sheen=bool(rng.random() < 0.5),
        skull=Skull(
            width=float(rng.uniform(0.9, 1.1)),
            depth=float(rng.uniform(0.93, 1.07)),
            crown=float(rng.uniform(0.92, 1.08)),
            chin=float(rng.uniform(0.88, 1.12)),
            slope=float(rng.uniform(-0.02, 0.05)),
        ),
        age=float(rng.uniform(0.2, 1.0)) if rng.random() < 0.45 else 0.0,
        eye_size=float(rng.uniform(0.88, 1.14)),
        eye_slant=float(rng.uniform(-0.012, 0.018)),
        mouth_width=float(rng.uniform(0.85, 1.2)),
        mouth_open=float(rng.uniform(0.012, 0.045)) if rng.random() < 0.2 else 0.0,
        brow_tilt=float(rng.uniform(-0.016, 0.006)),
        blotches=float(rng.uniform(0.05, 0.3)),
        freckles=float(rng.uniform(0.1, 0.45)) if rng.random() < 0.2 else 0.0,
    )
    yellow, red = rng.uniform(0, 0.06), rng.uniform(0, 0.05)
    white = float(rng.uniform(0.82, 0.92))
    painted = pick(rng, _LIPSTICKS) if rng.random() < 0.15 else None
    return replace(shape, eye_white=(white, white - 0.01 - float(red), white - 0.03 - float(yellow)), lip_color=painted)


_LIPSTICKS: tuple[Color, ...] = ((0.70, 0.10, 0.14), (0.80, 0.38, 0.45), (0.48, 0.10, 0.22), (0.58, 0.34, 0.28))
_WEAR: tuple[Color, ...] = (
    (0.12, 0.12, 0.13), (0.86, 0.85, 0.82), (0.52, 0.53, 0.55), (0.72, 0.13, 0.15), (0.88, 0.74, 0.25),
    (0.20, 0.48, 0.25), (0.20, 0.34, 0.66), (0.45, 0.26, 0.55), (0.66, 0.57, 0.43), (0.86, 0.52, 0.62),
)  # fmt: skip
_COVERED = 0.42  # share of portraits whose hair or headwear is one of ``COVERS``


def draw_features(rng: np.random.Generator, spec: PersonSpec, shape: FaceShape) -> tuple[PersonSpec, FaceShape]:
    """More hair, headwear, facial hair and glasses than a description draws, and grey hair with age.

    Args:
        rng: draws everything, whatever the tone and figure are.
        spec: the person; hats, masks and glasses stay as described.
        shape: the face.
    """
    covered, cover = rng.random() < _COVERED, pick(rng, COVERS)
    wear = pick(rng, _WEAR)
    other_hair = pick(rng, ("afro", "bun", "cap", "beanie", "hat", "headscarf"))
    other = rng.random() < 0.45
    growth, grown = pick(rng, GROWTHS), rng.random() < 0.22
    frames, worn = pick(rng, FRAMES), rng.random() < 0.22
    grey = rng.random() < shape.age
    if grey:
        level = float(rng.uniform(0.55, 0.85))
        spec = replace(spec, hair_color=(level, level, level * 0.98))
    if spec.hat_color is None:
        if covered:
            spec = replace(spec, hair="bald", headwear_color=wear)
            shape = replace(shape, cover=cover, cover_color=wear)
        elif other:
            spec = replace(spec, hair=other_hair, headwear_color=wear)  # type: ignore[arg-type]
    if grown and spec.build != "child":
        spec, shape = replace(spec, facial_hair="none"), replace(shape, growth=growth)
    if worn and not spec.glasses:
        shape = replace(shape, frames=frames)
    return spec, shape


def reshaped(mesh: Mesh, skull: Skull) -> Mesh:
    """A mesh of the usual head, or of something worn on it, on another skull.

    Args:
        mesh: on a head of height 1, chin at the origin, face towards +x.
        skull: the other skull.
    """
    if skull == Skull():
        return mesh
    points = mesh.triangles.astype(np.float64)
    x, y, z = points[..., 0], points[..., 1], points[..., 2]
    inside = np.clip(z, -0.2, 1.1)
    top, low = 1 / (1 + np.exp(-(inside - 0.72) / 0.09)), 1 / (1 + np.exp((inside - 0.20) / 0.08))
    crown, chin = 1 + (skull.crown - 1) * top, 1 + (skull.chin - 1) * low
    top_slope = (skull.crown - 1) * top * (1 - top) / 0.09
    chin_slope = -(skull.chin - 1) * low * (1 - low) / 0.08
    lean = np.clip(inside - 0.6, 0, None) * skull.slope / 0.4
    across, along = skull.width * crown * chin, skull.depth * crown
    moved = np.stack([along * x - lean, across * y, z], axis=-1)
    # Normals go by the inverse transpose of the derivative.
    n = mesh.normals.astype(np.float64)
    nx, ny = n[..., 0] / along, n[..., 1] / across
    by_z_x = skull.depth * top_slope * x - np.where((inside > 0.6) & (inside < 1.1), skull.slope / 0.4, 0.0)
    by_z_y = skull.width * (top_slope * chin + crown * chin_slope) * y
    nz = n[..., 2] - by_z_x * nx - by_z_y * ny
    normals = np.stack([nx, ny, nz], axis=-1)
    normals /= np.maximum(np.linalg.norm(normals, axis=-1, keepdims=True), 1e-9)
    return Mesh(np.ascontiguousarray(moved, dtype=np.float32), np.ascontiguousarray(normals, dtype=np.float32))


def textured(parts: list[tuple[str, Part]]) -> list[tuple[str, Part]]:
    """The parts of a person with strands in the hair; flat colour is seen at once where a face fills the image."""
    result = []
    for name, part in parts:
        material = part.material
        if name == "hair" and material.pattern is None:
            other = mix(material.color, (0.0, 0.0, 0.0) if sum(material.color) > 0.5 else (0.5, 0.45, 0.4), 0.35)
            material = replace(material, pattern=Pattern("wood", other, scale=0.012, strength=0.55, axis="z"))
        result.append((name, Part(part.mesh, material)))
    return result


def _bump(y: Array, z: Array, at: tuple[float, float], spread: tuple[float, float]) -> Array:
    return np.asarray(np.exp(-(((y - at[0]) / spread[0]) ** 2) - ((z - at[1]) / spread[1]) ** 2))


def _relief(y: Array, z: Array, shape: FaceShape) -> Array:
    """How far the face stands out from the skull at (y, z), in shares of the head's height."""
    side = np.abs(y)
    eye_y, eye_z = EYES
    mouth = shape.mouth_width
    # Sockets, brow ridge, cheekbones, chin.
    out = -0.050 * _bump(side, z, (eye_y - 0.01, eye_z), (0.085, 0.052))
    out += 0.022 * _bump(side, z, (0.13, 0.615), (0.12, 0.035))
    out += 0.026 * shape.cheeks * _bump(side, z, (0.19, 0.39), (0.075, 0.085))
    out += 0.030 * _bump(y, z, (0.0, 0.045), (0.10, 0.06)) - 0.018 * _bump(y, z, (0.0, 0.115), (0.12, 0.022))
    # The mouth's own roundness, then the lips on it.
    out += 0.022 * _bump(y, z, (0.0, _MOUTH), (0.12, 0.075))
    upper, lower = 0.024 * shape.lips, 0.030 * shape.lips
    line = _MOUTH + shape.smile * (side / 0.11) ** 2
    gape = shape.mouth_open
    out += upper * _bump(side, z - line, (0.02, 0.020 + 0.5 * gape), (0.075 * mouth, 0.016))
    out += lower * _bump(y, z - line, (0.0, -0.026 - 0.5 * gape), (0.070 * mouth, 0.020))
    out -= (0.018 + gape) * _bump(y, z - line, (0.0, 0.0), (0.11 * mouth, 0.008 + 0.4 * gape))
    # The nose: a ridge that rises to the tip and falls off under it, and the wings.
    rise = np.interp(z, (0.275, 0.315, 0.345, 0.56, 0.61), (0.0, 0.085, 0.125, 0.035, 0.0)) * shape.nose_length
    width = np.interp(z, (0.29, 0.35, 0.45, 0.56), (0.062, 0.055, 0.040, 0.050)) * shape.nose_width
    out += rise * np.exp(-((side / width) ** 2))
    out += 0.040 * _bump(side, z, (0.062 * shape.nose_width, 0.315), (0.022, 0.026))
    if shape.age:
        out += shape.age * _folds(side, z)
    return np.asarray(out)


def _folds(side: Array, z: Array) -> Array:
    """What a long life adds: folds beside nose and mouth, bags under the eyes, lines on the forehead, jowls."""
    along = np.clip((0.34 - z) / 0.19, 0, 1)  # from the wing of the nose to the corner of the mouth
    beside = side - (0.082 + 0.055 * along)
    within = np.clip((z - 0.12) / 0.03, 0, 1) * np.clip((0.36 - z) / 0.03, 0, 1)
    out = within * (0.012 * np.exp(-(((beside - 0.022) / 0.022) ** 2)) - 0.014 * np.exp(-((beside / 0.011) ** 2)))
    eye_y, eye_z = EYES
    out += 0.010 * _bump(side, z, (eye_y, eye_z - 0.062), (0.055, 0.018))
    out -= 0.010 * _bump(side, z, (eye_y, eye_z - 0.088), (0.060, 0.010))
    for height in (0.672, 0.708, 0.744):
        out -= 0.0055 * _bump(side, z, (0.0, height), (0.16, 0.009))
    out -= 0.006 * _bump(side, z, (0.022, 0.60), (0.009, 0.035))
    for slope in (-0.35, 0.0, 0.35):
        crow = z - eye_z - slope * (side - 0.22)
        out -= (
            0.005
            * np.exp(-((crow / 0.007) ** 2))
            * np.clip((side - 0.215) / 0.01, 0, 1)
            * np.clip((0.275 - side) / 0.02, 0, 1)
        )
    out += 0.020 * _bump(side, z, (0.19, 0.11), (0.05, 0.05))
    return np.asarray(out)


def _surface_x(y: float, z: float, shape: FaceShape) -> float:
    """Where the front of this face is."""
    return face_x(y, z) + float(_relief(np.array(y), np.array(z), shape))


def _grid(shape: FaceShape) -> Array:
    """Points of the head, shape (rows, columns, 3): close together over the face, wide apart behind."""
    front = np.radians(np.linspace(-72, 72, 97))
    back = np.radians(np.linspace(72, 288, 25))[1:-1]
    azimuth = np.concatenate([front, back])
    z = np.concatenate([np.linspace(-0.02, 0.77, 116), np.linspace(0.77, 1.0, 15)[1:]])
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
    corner = 0.11 * shape.mouth_width
    for y, z in ((-eye_y, eye_z), (eye_y, eye_z), (0.0, 0.345), (-corner, None), (corner, None)):
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
    if shape.freckles:
        darker = mix(tone, (0.30, 0.12, 0.05), 0.55)
        skin = replace(skin, pattern=Pattern("speckle", darker, scale=0.0011, strength=shape.freckles))
    elif shape.blotches:
        redder = mix(tone, mix((0.75, 0.28, 0.24), tone, 0.3), 0.35)
        skin = replace(skin, pattern=Pattern("noise", redder, scale=0.008, strength=shape.blotches))
    mesh = grid_surface(_grid(shape), wrap_cols=True)
    centre = mesh.triangles.mean(axis=1).astype(np.float64)
    x, y, z = centre.T
    side, front = np.abs(y), x > 0
    eye_y, eye_z = EYES
    half, gape = 0.072 * shape.eye_size, 0.034 * shape.eye_open * shape.eye_size
    # An almond: the lids meet at both corners.
    along = (side - eye_y) / half
    lid = np.sqrt(np.clip(1 - along**2, 0, 1))
    middle = eye_z + shape.eye_slant * along
    eye = front & (np.abs(along) < 1) & (z < middle + gape * lid**1.3) & (z > middle - 0.72 * gape * lid**1.3)
    width, ajar = 0.112 * shape.mouth_width, shape.mouth_open / 2
    line = _MOUTH + shape.smile * (side / 0.11) ** 2
    reach = np.clip(1 - (side / width) ** 2, 0, None)
    bow = 1 - 0.16 * np.exp(-((side / 0.016) ** 2))
    upper, lower = 0.036 * shape.lips * bow + ajar, 0.046 * shape.lips + ajar
    lips = front & (z < line + upper * reach**0.8) & (z > line - lower * reach**0.7) & (side < width)
    gap = lips & (np.abs(z - line) < 0.0055 + ajar * reach)
    teeth = gap & (z > line) & (side < 0.7 * width) & (shape.mouth_open > 0)
    nostril = front & (((side - 0.036 * shape.nose_width) / 0.019) ** 2 + ((z - 0.293) / 0.011) ** 2 < 1)
    bare = ~(eye | lips | nostril)
    ears = ball((0.075, 0.045, 0.11), (-0.02, 0.345, 0.47), 18).with_twin()
    flesh = [_split(mesh, bare)]
    if spec.hair not in ("headscarf", "bob", "long") and shape.cover not in ("hood", "waves"):
        flesh.append(ears)
    own = mix(mix(tone, (0.62, 0.20, 0.22), 0.45), (0, 0, 0), 0.10)
    lip_color = own if shape.lip_color is None else mix(shape.lip_color, own, 0.25)
    dark = mix(tone, (0.0, 0.0, 0.0), 0.85)
    parts: list[tuple[str, list[Mesh], Material]] = [
        ("flesh", flesh, skin),
        ("head", [_split(mesh, lips & ~gap)], Material(lip_color, roughness=0.55)),
        ("head", [_split(mesh, gap & ~teeth), _split(mesh, nostril)], Material(dark, roughness=0.9)),
    ]
    if teeth.any():
        parts.append(("head", [_split(mesh, teeth)], Material((0.88, 0.86, 0.80), roughness=0.3)))
    eyeball = 0.066
    ball_x = _surface_x(eye_y, eye_z, shape) - eyeball + 0.006
    white = ball((eyeball, eyeball * 1.15, eyeball), (ball_x, eye_y, eye_z), 24).with_twin()
    iris = ball((0.016, 0.032, 0.032), (ball_x + eyeball - 0.010, eye_y - 0.004, eye_z), 20).with_twin()
    pupil = ball((0.010, 0.014, 0.014), (ball_x + eyeball + 0.0005, eye_y - 0.004, eye_z), 14).with_twin()
    parts += [
        ("head", [white], Material(shape.eye_white, roughness=0.35)),
        ("head", [iris], Material(spec.eye_color, roughness=0.25)),
        ("head", [pupil], Material((0.02, 0.02, 0.02), roughness=0.2)),
    ]
    # Lashes draw the upper lid, a fold of skin the lower one.
    t = np.linspace(-1, 1, 13)
    rim = np.sqrt(np.clip(1 - t**2, 0, 1)) ** 1.3
    above = [(eye_y + half * a, eye_z + shape.eye_slant * a + gape * b) for a, b in zip(t, rim, strict=True)]
    below = [(eye_y + half * a, eye_z + shape.eye_slant * a - 0.72 * gape * b) for a, b in zip(t, rim, strict=True)]
    lash = np.array([(_surface_x(a, b, shape) + 0.004, a, b) for a, b in above])
    fold = np.array([(_surface_x(a, b, shape) + 0.001, a, b) for a, b in below])
    parts.append(("head", [tube(lash, 0.0085, sides=6, round_ends=True).with_twin()], Material(dark, roughness=0.9)))
    shaded = Material(mix(tone, (0.0, 0.0, 0.0), 0.25), roughness=0.8)
    parts.append(("head", [tube(fold, 0.006, sides=6, round_ends=True).with_twin()], shaded))
    # On skin as dark as the hair the brows would be lost; they are set off a little to keep the face readable.
    near = max(abs(a - b) for a, b in zip(spec.hair_color, tone, strict=True)) < 0.12
    brow_color = mix(spec.hair_color, (0.0, 0.0, 0.0), 0.6) if near else spec.hair_color
    tilt = shape.brow_tilt
    path = spline(np.array([(0.060, 0.602 - tilt), (0.12, 0.628), (0.18, 0.632 + tilt), (0.235, 0.606 + tilt)]), 12)
    brow = np.array([(_surface_x(a, b, shape) + 0.001, a, b) for a, b in path])
    thick = 0.017 * shape.brow * np.interp(np.linspace(0, 1, 12), (0, 0.3, 1), (0.8, 1.0, 0.4))
    brows = tube(brow, np.stack([0.5 * thick, thick], axis=1), sides=8, round_ends=True)
    parts.append(("head", [brows.with_twin()], Material(brow_color, roughness=0.9)))
    parts += _worn(spec, shape)
    # Points that travel with the head to wherever it is put.
    marks = np.concatenate([[(0.0, 0.0, 0.5), (1.0, 0.0, 0.5)], _landmarks(shape), _face_outline(shape)])
    corners = np.repeat(marks[:, None], 3, axis=1).astype(np.float32)
    parts.append(
        ("marks", [Mesh(corners, np.broadcast_to(np.array([1, 0, 0], dtype=np.float32), corners.shape))], skin)
    )
    return parts


# ---------------------------------------------------------------------------------------- hair, headwear and glasses
_LOW = np.array([0.80, 0.74, 0.42, 0.25, 0.20])


def _worn(spec: PersonSpec, shape: FaceShape) -> list[tuple[str, list[Mesh], Material]]:
    """Hair, headwear, facial hair and glasses that the person's description does not have."""
    from verism.simulator.assets.people import MONK_TONES

    parts: list[tuple[str, list[Mesh], Material]] = []
    hair = Material(spec.hair_color, roughness=0.8)
    if shape.cover is not None:
        hairs, wear = _cover(shape.cover)
        if hairs:
            parts.append(("hair", hairs, hair))
        if wear:
            parts.append(("headwear", wear, Material(shape.cover_color, roughness=0.9)))
    if shape.growth is not None:
        tone = MONK_TONES[spec.skin_tone - 1]
        thin = mix(spec.hair_color, tone, 0.6) if shape.growth == "stubble" else spec.hair_color
        parts.append(("head", _growth(shape.growth), Material(thin, roughness=0.95)))
    if shape.frames is not None:
        frames, lenses = _frames(shape.frames)
        parts.append(("glasses", frames, Material(spec.frame_color, roughness=0.4)))
        if lenses:
            parts.append(("glasses", lenses, Material((0.05, 0.05, 0.06), roughness=0.15)))
    return parts


def _strand(points: list[tuple[float, float, float, float]], samples: int = 8, sides: int = 6) -> Mesh:
    """A rope of hair through points with radii: x, y, z, radius."""
    path = spline(np.array(points), samples)
    return tube(path[:, :3], path[:, 3], sides=sides, round_ends=True)


def _cover(cover: Cover) -> tuple[list[Mesh], list[Mesh]]:
    """Hair and headwear of one of ``COVERS`` on a head of height 1."""
    if cover == "buzz cut":
        return [shell(_LOW + 0.03, 0.012)], []
    if cover == "receding":
        return [shell(np.array([0.93, 0.85, 0.44, 0.24, 0.20]), 0.030)], []
    if cover == "fringe":
        return [shell(np.array([0.665, 0.62, 0.12, 0.0, 0.0]), 0.070)], []
    if cover == "mohawk":
        crest = _strand([(0.34, 0, 0.80, 0.05), (0.20, 0, 1.06, 0.09), (-0.15, 0, 1.12, 0.10), (-0.42, 0, 0.80, 0.08),
                         (-0.44, 0, 0.35, 0.04)], 14, 8)  # fmt: skip
        return [shell(_LOW + 0.04, 0.010), crest], []
    if cover == "waves":
        sides = [
            _strand([(0.02, 0.36, 0.70, 0.09), (-0.02, 0.41, 0.30, 0.12), (0.04, 0.38, -0.05, 0.11),
                     (0.0, 0.42, -0.40, 0.06)], 12, 8)
        ]  # fmt: skip
        back = _strand([(-0.34, 0, 0.7, 0.20), (-0.42, 0, 0.2, 0.27), (-0.40, 0, -0.4, 0.20)], 9, 12)
        return [
            shell(np.array([0.80, 0.70, 0.10, 0.0, 0.0]), 0.085, bump=0.02),
            *(m.with_twin() for m in sides),
            back,
        ], []
    if cover in ("locs", "braids"):
        angles = np.radians(np.linspace(75, 180, 8) if cover == "locs" else np.linspace(80, 110, 2))
        thick = 0.035 if cover == "locs" else 0.060
        ropes = []
        for k, angle in enumerate(angles):
            x, y = 0.40 * math.cos(angle), 0.36 * math.sin(angle)
            low = -0.25 - 0.12 * (k % 3)
            line = [(x, y, 0.78, thick), (1.12 * x, 1.15 * y, 0.45, thick), (1.16 * x, 1.2 * y, 0.0, thick)]
            ropes.append(_strand([*line, (1.1 * x, 1.15 * y, low, 0.6 * thick)]).with_twin())
        return [shell(_LOW, 0.045, bump=0.012), *ropes], []
    if cover == "turban":
        wraps = []
        for k, tilt in enumerate((-14.0, 0.0, 14.0)):
            turn = np.linspace(0, 2 * math.pi, 29)
            height = 0.80 + 0.07 * k
            path = np.stack([-0.03 + 0.42 * np.cos(turn), 0.37 * np.sin(turn), np.full(29, height)], axis=1)
            wraps.append(tube(path, 0.085, sides=8).rotated("x", tilt, (0, 0, height)))
        return [], [shell(np.array([0.80, 0.74, 0.60, 0.52, 0.50]), 0.10), *wraps]
    # A hood: open at the face, down to the shoulders.
    collar = spline(
        np.array([(0.0, 0, -0.40, 0.52, 0.50), (-0.04, 0, -0.15, 0.40, 0.40), (-0.06, 0, 0.06, 0.42, 0.44)]), 7
    )
    return [], [
        shell(np.array([0.90, 0.82, -0.02, -0.05, -0.05]), 0.15),
        tube(collar[:, :3], collar[:, 3:], sides=14, up=(1, 0, 0)),
    ]


def _growth(growth: Growth) -> list[Mesh]:
    """Facial hair of one of ``GROWTHS`` on a head of height 1."""
    if growth == "sideburns":
        cheek = spline(np.array([(0.30, 0.60), (0.305, 0.46), (0.285, 0.30)]), 8)
        line = np.array([(face_x(a, b) + 0.004, a, b) for a, b in cheek])
        return [tube(line, np.array([[0.012, 0.045]] * 8), sides=6, round_ends=True).with_twin()]
    reach, rise, thick = {"stubble": (92, 1.0, 0.006), "goatee": (24, 0.75, 0.05), "long beard": (98, 1.0, 0.07)}[
        growth
    ]
    azimuth = np.radians(np.linspace(-reach, reach, 19))
    folded = np.abs(np.degrees(azimuth))
    high = rise * np.interp(folded, (0, 20, 35, 60, 100), (0.155, 0.16, 0.26, 0.33, 0.50))
    t = np.linspace(0, 1, 9)[:, None]
    low = -0.30 if growth == "long beard" else -0.05
    z = low + (high - low) * t
    mid, depth, width = (np.interp(np.maximum(z, -0.02), HEAD[:, 0], HEAD[:, k]) for k in (1, 2, 3))
    edge = np.clip((reach + 5 - folded) / 25, 0, 1)
    off = thick * np.sin(math.pi * np.clip(0.12 + 0.88 * t, 0, 1)) * edge - 0.003
    if growth == "long beard":
        off = off + np.interp(z, (-0.3, 0.0, 0.1), (0.02, 0.12, 0.0)) * np.cos(azimuth).clip(0) ** 2
    points = np.stack([mid + (depth + off) * np.cos(azimuth), (width + off) * np.sin(azimuth), z], axis=-1)
    tip = points[0].mean(axis=0) + np.array([0.02, 0, -0.02])
    lip = np.array([(face_x(y, 0.29) + 0.006, y, 0.278 - 0.25 * abs(y)) for y in np.linspace(-0.12, 0.12, 7)])
    moustache = tube(
        lip, np.array([0.5, 0.9, 1.0, 0.9, 1.0, 0.9, 0.5]) * (0.012 if growth == "stubble" else 0.026), sides=6
    )
    return [grid_surface(np.concatenate([np.broadcast_to(tip, (1, 19, 3)), points])), moustache]


def _frames(kind: Frames) -> tuple[list[Mesh], list[Mesh]]:
    """Frames and dark lenses of one of ``FRAMES`` on a head of height 1."""
    _, eye_z = EYES
    front = face_x(0.0, eye_z) + 0.018
    wide, tall = (0.108, 0.066) if kind != "sunglasses" else (0.118, 0.082)
    turn = np.linspace(0, 2 * math.pi, 25)
    # A rounded rectangle: a superellipse.
    u = np.sign(np.cos(turn)) * np.abs(np.cos(turn)) ** 0.5 * wide
    v = np.sign(np.sin(turn)) * np.abs(np.sin(turn)) ** 0.5 * tall
    keep = v > -0.3 * tall if kind == "half rim" else np.ones(25, bool)
    if kind == "half rim":
        order = np.argsort(np.arctan2(-u[keep], v[keep]))
        u, v = u[keep][order], v[keep][order]
    path = np.stack([np.full(len(u), front), 0.145 + u, eye_z + v], axis=1)
    rim = tube(path, 0.011 if kind != "sunglasses" else 0.016, sides=6, round_ends=True).with_twin()
    arch = [(front, -0.05, eye_z + 0.02), (front + 0.012, 0.0, eye_z + 0.03), (front, 0.05, eye_z + 0.02)]
    bridge = tube(np.array(arch), 0.011, sides=6)
    temple = tube(np.array([(front - 0.01, 0.145 + wide, eye_z + 0.02), (0.0, 0.36, eye_z + 0.02)]), 0.014, sides=5)
    lens = ball((0.006, 0.97 * wide, 0.97 * tall), (front, 0.145, eye_z), 18).with_twin()
    return [rim, bridge, temple.with_twin()], [lens] if kind == "sunglasses" else []


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
