"""People: a posed skeleton, dressed.

A person is described first (``PersonSpec``: skin tone, build, hair, garments, pose) and then built, so that a study can
ask for a skin tone and an outfit and vary nothing else. ``draw_person`` draws a description evenly over what there is;
no attribute is tied to another, except that each pose belongs to one state.

Lengths inside a body are shares of the person's height unless said otherwise; z is up and the person faces +x, so the
person's left is +y.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from verism.simulator.model import Asset, Material, Model, Pattern, jitter, pick
from verism.simulator.shapes import (
    Mesh,
    box,
    ellipsoid,
    grid_surface,
    loft,
    merge,
    rotation_matrix,
    spline,
    torus,
    tube,
)

__all__ = ["ASSETS", "MONK_TONES", "STATES", "Garment", "PersonSpec", "build_person", "draw_person"]

Array = NDArray[np.float64]
Color = tuple[float, float, float]

# The swatches of the Monk Skin Tone scale, sRGB 0-255, lightest first (Monk 2023, skintone.google).
_MONK_SWATCHES = (
    (246, 237, 228),
    (243, 231, 219),
    (247, 234, 208),
    (234, 218, 186),
    (215, 189, 150),
    (160, 126, 86),
    (130, 92, 67),
    (96, 65, 52),
    (58, 49, 42),
    (41, 36, 32),
)
MONK_TONES: tuple[Color, ...] = tuple((r / 255, g / 255, b / 255) for r, g, b in _MONK_SWATCHES)
"""Colours of skin tones 1 to 10, sRGB in [0, 1]; tone ``t`` is ``MONK_TONES[t - 1]``."""

Build = Literal["slim", "average", "stout", "child"]
Figure = Literal["straight", "curved"]
HairStyle = Literal[
    "bald", "short", "curly", "afro", "bob", "long", "bun", "ponytail", "cap", "beanie", "hat", "headscarf"
]
FacialHair = Literal["none", "moustache", "beard"]
TopKind = Literal["t-shirt", "shirt", "tank top", "jacket", "dress"]
BottomKind = Literal["trousers", "shorts", "skirt", "long skirt"]
Pose = Literal["relaxed", "hands on hips", "waving", "stool", "ground", "cross-legged", "walking"]

STATES: dict[str, tuple[Pose, ...]] = {
    "standing": ("relaxed", "hands on hips", "waving"),
    "sitting": ("stool", "ground", "cross-legged"),
    "walking": ("walking",),
}
"""The states a scene may ask for, and the poses each is drawn from."""

_CLOTH: tuple[Color, ...] = (
    (0.72, 0.13, 0.15),
    (0.85, 0.40, 0.12),
    (0.90, 0.72, 0.18),
    (0.20, 0.48, 0.25),
    (0.13, 0.42, 0.46),
    (0.16, 0.30, 0.62),
    (0.42, 0.62, 0.82),
    (0.42, 0.22, 0.52),
    (0.86, 0.50, 0.60),
    (0.90, 0.89, 0.86),
    (0.52, 0.52, 0.54),
    (0.16, 0.16, 0.19),
    (0.48, 0.33, 0.22),
)
_TROUSER_CLOTH: tuple[Color, ...] = (
    (0.17, 0.23, 0.38),
    (0.27, 0.38, 0.56),
    (0.13, 0.13, 0.16),
    (0.62, 0.52, 0.38),
    (0.38, 0.38, 0.40),
    (0.32, 0.34, 0.22),
    (0.36, 0.24, 0.18),
    (0.82, 0.80, 0.75),
    (0.45, 0.14, 0.18),
)
_SHOES: tuple[Color, ...] = (
    (0.10, 0.09, 0.09),
    (0.32, 0.18, 0.10),
    (0.90, 0.90, 0.88),
    (0.62, 0.12, 0.12),
    (0.2, 0.3, 0.5),
)
_HAIR: tuple[Color, ...] = (
    (0.06, 0.05, 0.05),
    (0.16, 0.10, 0.07),
    (0.30, 0.18, 0.10),
    (0.48, 0.30, 0.15),
    (0.78, 0.62, 0.36),
    (0.58, 0.24, 0.10),
    (0.70, 0.70, 0.70),
)
_EYES: tuple[Color, ...] = ((0.13, 0.08, 0.05), (0.22, 0.14, 0.07), (0.20, 0.36, 0.50), (0.25, 0.36, 0.22))


@dataclass(frozen=True)
class Garment:
    """One piece of clothing: its kind, its cloth and perhaps a pattern on it."""

    kind: TopKind | BottomKind
    color: Color
    pattern: Pattern | None = None


@dataclass(frozen=True, kw_only=True)
class PersonSpec:
    """What one person looks like.

    Attributes:
        skin_tone: Monk Skin Tone, 1 (lightest) to 10 (darkest).
        build: ``slim``, ``average`` and ``stout`` adults, or a ``child`` (shorter, larger head).
        figure: outline of the trunk: ``curved`` has a narrower waist and wider hips.
        height_m: standing height in metres, without hair.
        hair, hair_color: style and colour; ``cap``, ``beanie``, ``hat`` and ``headscarf`` cover short hair.
        facial_hair: grows in the hair's colour.
        eye_color: the irises.
        top: upper garment; a ``dress`` needs no ``bottom`` and takes its place.
        bottom: lower garment; None with a dress, and only then.
        shoe_color: the uppers.
        headwear_color: cap, beanie, hat or scarf.
        glasses: dark frames.
        pose: how the body is held; ``STATES`` lists the poses of each state.

    Raises:
        ValueError: a field outside what is listed, or a dress together with a lower garment.
    """

    skin_tone: int
    build: Build
    figure: Figure
    height_m: float
    hair: HairStyle
    hair_color: Color
    facial_hair: FacialHair
    eye_color: Color
    top: Garment
    bottom: Garment | None
    shoe_color: Color
    headwear_color: Color
    glasses: bool
    pose: Pose

    def __post_init__(self) -> None:
        if not 1 <= self.skin_tone <= len(MONK_TONES):
            raise ValueError(
                f"PersonSpec: skin_tone={self.skin_tone}; expected a Monk tone from 1 to {len(MONK_TONES)}"
            )
        if not 0.5 <= self.height_m <= 2.5:
            raise ValueError(f"PersonSpec: height_m={self.height_m}; expected metres from 0.5 to 2.5")
        for name, value, kinds in (
            ("build", self.build, get_args(Build)),
            ("figure", self.figure, get_args(Figure)),
            ("hair", self.hair, get_args(HairStyle)),
            ("facial_hair", self.facial_hair, get_args(FacialHair)),
            ("top.kind", self.top.kind, get_args(TopKind)),
            ("pose", self.pose, get_args(Pose)),
        ):
            if value not in kinds:
                raise ValueError(f"PersonSpec: {name}={value!r}; expected one of {', '.join(map(repr, kinds))}")
        if (self.bottom is None) != (self.top.kind == "dress"):
            raise ValueError("PersonSpec: a dress goes with bottom=None, and every other top with a lower garment")
        if self.bottom is not None and self.bottom.kind not in get_args(BottomKind):
            listed = ", ".join(map(repr, get_args(BottomKind)))
            raise ValueError(f"PersonSpec: bottom.kind={self.bottom.kind!r}; expected one of {listed}")


# --------------------------------------------------------------------------------------------------------- drawing
def _shade(rng: np.random.Generator, color: Color, spread: float = 0.05) -> Color:
    r, g, b = np.clip(np.asarray(color) + rng.uniform(-spread, spread, 3), 0.02, 0.97)
    return float(r), float(g), float(b)


def _cloth_pattern(rng: np.random.Generator, kinds: Sequence[Literal["stripes", "checks", "dots"]]) -> Pattern:
    return Pattern(pick(rng, kinds), _shade(rng, pick(rng, _CLOTH)), scale=float(rng.uniform(0.07, 0.13)))


def draw_person(rng: np.random.Generator, state: str) -> PersonSpec:
    """A person in a state (a key of ``STATES``), every attribute drawn independently and evenly.

    Two exceptions keep people plausible: children are rarer than adults (one in five) and grow no beard.

    Raises:
        ValueError: unknown state.
    """
    if state not in STATES:
        raise ValueError(f"draw_person: state={state!r}; expected one of {', '.join(map(repr, STATES))}")
    builds: tuple[Build, ...] = ("slim", "average", "average", "stout", "child")
    build = pick(rng, builds)
    height = rng.uniform(1.05, 1.35) if build == "child" else rng.uniform(1.55, 1.90)
    figure = pick(rng, get_args(Figure))
    top_kind = pick(rng, get_args(TopKind))
    plain = top_kind == "jacket" or rng.random() < 0.6
    top = Garment(
        top_kind, _shade(rng, pick(rng, _CLOTH)), None if plain else _cloth_pattern(rng, ("stripes", "checks", "dots"))
    )
    bottom = None
    if top_kind != "dress":
        kind = pick(rng, ("trousers", "trousers", *get_args(BottomKind)))
        skirt = kind in ("skirt", "long skirt")
        color = _shade(rng, pick(rng, _CLOTH if skirt else _TROUSER_CLOTH))
        pattern = _cloth_pattern(rng, ("checks", "dots")) if skirt and rng.random() < 0.3 else None
        bottom = Garment(kind, color, pattern)
    hairy_face = build != "child" and figure == "straight" and rng.random() < 0.35
    return PersonSpec(
        skin_tone=int(rng.integers(1, len(MONK_TONES) + 1)),
        build=build,
        figure=figure,
        height_m=float(height),
        hair=pick(rng, get_args(HairStyle)),
        hair_color=_shade(rng, pick(rng, _HAIR), 0.03),
        facial_hair=pick(rng, ("moustache", "beard")) if hairy_face else "none",
        eye_color=pick(rng, _EYES),
        top=top,
        bottom=bottom,
        shoe_color=_shade(rng, pick(rng, _SHOES), 0.03),
        headwear_color=_shade(rng, pick(rng, _CLOTH)),
        glasses=bool(rng.random() < 0.15),
        pose=pick(rng, STATES[state]),
    )


# --------------------------------------------------------------------------------------------------------- skeleton
def _bend(start: Array, end: Array, upper: float, lower: float, towards: Sequence[float]) -> tuple[Array, Array]:
    """The middle joint of a two-bone limb and the reached end, bending ``towards`` a direction (cosine rule)."""
    line = end - start
    distance = float(np.linalg.norm(line))
    reach = min(distance, 0.999 * (upper + lower))
    along = line / max(distance, 1e-9)
    side = np.asarray(towards, dtype=np.float64)
    side = side - side @ along * along
    side /= np.linalg.norm(side)
    a = (upper**2 - lower**2 + reach**2) / (2 * reach)
    return start + a * along + math.sqrt(max(upper**2 - a**2, 0.0)) * side, start + reach * along


@dataclass(frozen=True, eq=False)
class _Skeleton:
    """Joints in metres. Each limb is (root, middle, end); index 0 is the left, 1 the right."""

    pelvis: Array  # (3,)
    trunk: Array  # (3, 4) from the trunk's own frame (origin at the pelvis, z to the head) to the world
    arms: tuple[Array, Array]  # each (3, 3)
    legs: tuple[Array, Array]  # each (3, 3)
    toes: tuple[Array, Array]  # unit vectors from heel to toe
    head_turn: float  # degrees to the left
    trunk_length: float  # pelvis to shoulder line


@dataclass(frozen=True)
class _Measures:
    """Sizes of one body, metres."""

    height: float
    head: float  # chin to crown
    hip: float  # hip joint above the sole when standing
    trunk: float  # hip joint to shoulder line
    girth: float  # factor on the trunk's width
    limb: float  # factor on the limbs' thickness


def _measures(spec: PersonSpec) -> _Measures:
    h = spec.height_m
    # Heads are drawn a little large (six and a half to a body, not seven and a half): faces must read when small.
    head = h / (5.1 if spec.build == "child" else 6.5)
    hip = h * (0.45 if spec.build == "child" else 0.485)
    girth = {"slim": 0.90, "average": 1.0, "stout": 1.28, "child": 0.98}[spec.build]
    limb = {"slim": 0.90, "average": 1.02, "stout": 1.22, "child": 1.08}[spec.build]
    return _Measures(height=h, head=head, hip=hip, trunk=h - 1.17 * head - hip, girth=girth, limb=limb)


def _pose(spec: PersonSpec, m: _Measures, rng: np.random.Generator) -> _Skeleton:
    h = m.height
    thigh, shin = 0.49 * m.hip, 0.42 * m.hip
    upper_arm, forearm = 0.175 * h, 0.155 * h
    ankle = 0.045 * h
    hip_y = 0.052 * h * m.girth
    pose = spec.pose
    lean = rng.uniform(-2, 3)  # degrees, forwards positive
    toe_out = rng.uniform(6, 16)
    ankles: list[Array]
    knees: list[tuple[float, float, float]] = [(1.0, 0.12, 0.0), (1.0, -0.12, 0.0)]
    toes = [(1.0, math.tan(math.radians(toe_out)), 0.0), (1.0, -math.tan(math.radians(toe_out)), 0.0)]
    if pose == "walking":
        stride, front = rng.uniform(0.17, 0.22) * h, pick(rng, (0, 1))
        pelvis = np.array([0.0, 0.0, m.hip * 0.96])
        ankles = [np.array([-stride, s * hip_y * 0.8, ankle + 0.035 * h]) for s in (1, -1)]
        toes = [(0.86, 0.0, -0.5), (0.86, 0.0, -0.5)]
        ankles[front] = np.array([stride, (1 - 2 * front) * hip_y * 0.8, ankle])
        toes[front] = (1.0, 0.0, 0.12)
        lean = rng.uniform(2, 7)
    elif pose == "stool":
        pelvis = np.array([0.0, 0.0, shin + ankle + rng.uniform(0.0, 0.02) * h])
        knee_y = hip_y * rng.uniform(1.2, 1.9)
        reach = math.sqrt(max(thigh**2 - (knee_y - hip_y) ** 2, 0.0))
        ankles = [np.array([reach * rng.uniform(0.92, 1.12), s * knee_y, ankle]) for s in (1, -1)]
        knees = [(0.6, 0.1, 1.0), (0.6, -0.1, 1.0)]
        lean = rng.uniform(-6, 8)
    elif pose == "ground":
        pelvis = np.array([0.0, 0.0, 0.075 * h * m.girth])
        stretch = [rng.uniform(0.55, 0.92), rng.uniform(0.55, 0.92)]
        ankles = [np.array([(thigh + shin) * stretch[k], s * hip_y * 1.3, ankle]) for k, s in enumerate((1, -1))]
        knees = [(0.0, 0.1, 1.0), (0.0, -0.1, 1.0)]
        toes = [(0.75, 0.15, 0.7), (0.75, -0.15, 0.7)]
        lean = rng.uniform(-18, -8)
    elif pose == "cross-legged":
        pelvis = np.array([0.0, 0.0, 0.075 * h * m.girth])
        ankles = [np.array([0.62 * thigh, -0.05 * h, ankle * 0.9]), np.array([0.84 * thigh, 0.06 * h, ankle])]
        knees = [(0.5, 1.0, 0.12), (0.5, -1.0, 0.12)]
        toes = [(0.35, -1.0, -0.1), (0.35, 1.0, -0.1)]
        lean = rng.uniform(0, 6)
    else:
        stance = hip_y * rng.uniform(0.95, 1.6)
        pelvis = np.array([0.0, 0.0, m.hip * 0.995])
        ankles = [np.array([0.0, s * stance, ankle]) for s in (1, -1)]
    legs, arms = [], []
    for k, s in enumerate((1, -1)):
        root = pelvis + np.array([0.0, s * hip_y, 0.0])
        knee, end = _bend(root, ankles[k], thigh, shin, knees[k])
        legs.append(np.stack([root, knee, end]))
    turn = rotation_matrix((0, 1, 0), lean)
    trunk = np.hstack([turn, pelvis[:, None]])
    for k, s in enumerate((1, -1)):
        shoulder = turn @ np.array([0.0, s * 0.108 * h * (0.6 + 0.4 * m.girth), 0.965 * m.trunk]) + pelvis
        elbow_to: Sequence[float] = (-1.0, s * 0.35, 0.0)
        hang = np.array([0.02 * h, s * (0.035 + 0.03 * m.girth) * h, -0.98 * (upper_arm + forearm)])
        if pose == "walking":
            swing = (1 if np.argmax([leg[2, 0] for leg in legs]) != k else -1) * rng.uniform(0.13, 0.18) * h
            hand = shoulder + np.array([swing + 0.03 * h, s * 0.045 * h, -0.89 * (upper_arm + forearm)])
        elif pose == "hands on hips":
            hand = pelvis + np.array([0.045 * h, s * 0.10 * h * m.girth, 0.055 * h])
            elbow_to = (-0.35, s * 1.0, 0.0)
        elif pose == "waving" and s == -1:
            hand = shoulder + np.array([0.03 * h, s * rng.uniform(0.08, 0.13) * h, 0.24 * h])
            elbow_to = (0.0, s * 1.0, -0.4)
        elif pose in ("stool", "cross-legged"):
            hand = legs[k][1] + np.array([-0.02 * h, -s * 0.005 * h, 0.062 * h * m.limb])
            elbow_to = (-1.0, s * 0.6, -0.2)
        elif pose == "ground":
            hand = np.array([-0.17 * h, s * 0.15 * h, 0.03 * h])
            elbow_to = (-1.0, s * 0.5, 0.0)
        else:
            hand = shoulder + hang + np.array([rng.uniform(-0.02, 0.03) * h, 0.0, 0.0])
        elbow, wrist = _bend(shoulder, hand, upper_arm, forearm, elbow_to)
        arms.append(np.stack([shoulder, elbow, wrist]))
    units = [np.asarray(t) / np.linalg.norm(t) for t in toes]
    return _Skeleton(
        pelvis=pelvis,
        trunk=trunk,
        arms=(arms[0], arms[1]),
        legs=(legs[0], legs[1]),
        toes=(units[0], units[1]),
        head_turn=float(rng.uniform(-18, 18)),
        trunk_length=m.trunk,
    )


# ------------------------------------------------------------------------------------------------------------ body
def _stack(sections: Array, *, sides: int, inflate: float = 0.0, opening: float = 0.0) -> Mesh:
    """A skin over upright elliptical sections: columns z, middle in x, half depth (x), half width (y).

    ``inflate`` metres are added to both half axes; ``opening`` degrees are left open on each side of the front.
    """
    z, mid, depth, width = (sections[:, k : k + 1] for k in range(4))
    if opening:
        angle = np.radians(np.linspace(opening, 360 - opening, sides + 1))
    else:
        angle = np.linspace(0, 2 * math.pi, sides, endpoint=False)
    points = np.stack(
        np.broadcast_arrays(
            mid + (depth + inflate) * np.cos(angle), (width + inflate) * np.sin(angle), np.broadcast_to(z, (len(z), 1))
        ),
        axis=-1,
    )
    return grid_surface(points, wrap_cols=not opening)


def _between(sections: Array, low: float, high: float, samples: int) -> Array:
    """Sections resampled between two heights; column 0 is the height and rises."""
    z = np.linspace(low, high, samples)
    return np.stack([z] + [np.interp(z, sections[:, 0], sections[:, k]) for k in range(1, 4)], axis=1)


def _hanging(sections: Array, hem: float, collar: float) -> Array:
    """Sections of a top between hem and collar: below the widest part of the hips it hangs straight down."""
    rows = _between(sections, hem, collar, 14)
    widest = int(np.argmax(rows[:, 3] * (rows[:, 0] < 0.3 * collar)))
    rows[:widest, 1:] = rows[widest, 1:]
    return rows


def _trunk_sections(spec: PersonSpec, m: _Measures) -> Array:
    """Trunk from the crotch to the base of the neck in its own frame: z, middle, half depth, half width."""
    h, t, g = m.height, m.trunk, m.girth
    curved = spec.figure == "curved" and spec.build != "child"
    waist, hips, chest = (0.88, 1.08, 0.95) if curved else (1.0, 0.96, 1.03)
    belly = 0.022 * h if spec.build == "stout" else 0.004 * h
    bust = 0.012 * h if curved else 0.0
    rows = [
        (-0.062 * h, 0.0, 0.030 * h * g, 0.036 * h * g),
        (-0.035 * h, 0.0, 0.060 * h * g, 0.098 * h * g * hips),
        (0.020 * h, -0.004 * h, 0.066 * h * g, 0.104 * h * g * hips),
        (0.30 * t, 0.4 * belly, 0.058 * h * g, 0.081 * h * g * waist),
        (0.48 * t, belly, 0.056 * h * g, 0.076 * h * g * waist),
        (0.72 * t, bust * 0.6, 0.058 * h * g + bust * 0.7, 0.087 * h * (0.4 + 0.6 * g) * chest),
        (0.90 * t, 0.0, 0.052 * h * (0.5 + 0.5 * g), 0.100 * h * (0.6 + 0.4 * g) * chest),
        (1.00 * t, -0.004 * h, 0.040 * h, 0.088 * h * (0.6 + 0.4 * g) * chest),
        (1.05 * t, -0.006 * h, 0.030 * h, 0.050 * h),
        (1.08 * t, -0.006 * h, 0.022 * h, 0.028 * h),
    ]
    return spline(np.array(rows), 30)


def _limb(joints: Array, radii: Sequence[float], *, bend: float = 0.22, samples: int = 14) -> Array:
    """A limb's centre line with radii: columns x, y, z, radius, from root to end; the joint is rounded off."""
    a, b, c = joints
    path = np.array([a, a + (b - a) * 0.5, b - (b - a) * bend, b + (c - b) * bend, b + (c - b) * 0.55, c])
    # Radii are given at root, mid thigh, joint, calf, end.
    r = np.interp([0, 1, 1.75, 2.3, 3.1, 4], np.arange(5), radii)
    return spline(np.column_stack([path, r]), samples)


def _arm(joints: Array, skeleton: _Skeleton, side: int, m: _Measures) -> Array:
    """As ``_limb``, for an arm: it starts inside the chest, so that the shoulder is round and slopes to the neck."""
    radii = [x * m.height * m.limb for x in (0.031, 0.029, 0.024, 0.022, 0.015)]
    chest = np.array([-0.004 * m.height, side * 0.050 * m.height, 1.005 * m.trunk])
    start = skeleton.trunk[:, :3] @ chest + skeleton.trunk[:, 3]
    return spline(np.vstack([[*start, 0.030 * m.height], _limb(joints, radii, bend=0.15, samples=7)]), 17)


def _sleeve(
    limb: Array, start: float, end: float, extra: float, *, flare: float = 1.0, round_ends: bool = True
) -> Mesh:
    """The part of a limb between two shares of its length, ``extra`` metres thicker, widening to ``flare`` times."""
    t = np.linspace(start, end, max(4, int(14 * (end - start))))
    u = np.linspace(0, 1, len(limb))
    path = np.stack([np.interp(t, u, limb[:, k]) for k in range(4)], axis=1)
    radius = (path[:, 3] + extra) * np.linspace(1.0, flare, len(t))
    return tube(path[:, :3], radius, sides=10, round_ends=round_ends)


@lru_cache
def _unit_ball(segments: int) -> Mesh:
    return ellipsoid((1, 1, 1), segments=segments)


def _ball(radii: Sequence[float], center: Sequence[float], segments: int = 10) -> Mesh:
    """An ellipsoid; ``shapes.ellipsoid`` with the unit ball kept, for the many small parts of a body."""
    return _unit_ball(segments).transformed(np.column_stack([np.diag(np.asarray(radii, dtype=np.float64)), center]))


def _frame(toward: Array, origin: Array, up: Sequence[float] = (0, 0, 1)) -> Array:
    """Matrix (3, 4) that puts a part made along +x at ``origin``, its x axis ``toward`` a direction."""
    x = toward / np.linalg.norm(toward)
    y = np.cross(np.asarray(up, dtype=np.float64), x)
    y /= np.linalg.norm(y)
    return np.column_stack([x, y, np.cross(x, y), origin])


def _hands(skeleton: _Skeleton, m: _Measures) -> list[Mesh]:
    meshes = []
    for s, arm in zip((1, -1), skeleton.arms, strict=True):
        along = arm[2] - arm[1]
        size = m.height * (0.5 + 0.5 * m.limb)
        up = (0.0, 0.0, 1.0) if abs(along[2]) < 0.8 * np.linalg.norm(along) else (0.0, -float(s), 0.0)
        palm = _ball((0.052 * size, 0.024 * size, 0.016 * size), (0.034 * size, 0, 0), 10)
        thumb = _ball((0.026 * size, 0.009 * size, 0.009 * size), (0.026 * size, 0.026 * size, 0.0), 8)
        frame = _frame(along, arm[2], up)
        meshes += [palm.transformed(frame), thumb.transformed(frame)]
    return meshes


def _shoes(skeleton: _Skeleton, m: _Measures) -> tuple[Mesh, Mesh]:
    """Uppers and soles."""
    h = m.height
    # Heel to toe: x, half width, top, as shares of the height; the ankle joint is at the origin, the sole at -0.045.
    shape = spline(
        np.array(
            [
                (-0.036, 0.012, -0.022),
                (-0.030, 0.022, 0.004),
                (0.0, 0.027, 0.008),
                (0.045, 0.031, -0.012),
                (0.085, 0.030, -0.023),
                (0.108, 0.012, -0.034),
            ]
        ),
        9,
    )
    x, w, top = (shape[:, k : k + 1] for k in range(3))
    bottom = -0.037
    angle = np.linspace(0, 2 * math.pi, 10, endpoint=False)
    upper = np.stack(
        np.broadcast_arrays(x, w * np.cos(angle), (top + bottom) / 2 + (top - bottom) / 2 * np.sin(angle)), axis=-1
    )
    sole = np.stack(np.broadcast_arrays(1.04 * x, 1.08 * w * np.cos(angle), -0.038 + 0.007 * np.sin(angle)), axis=-1)
    frames = [_frame(toe, leg[2]) for toe, leg in zip(skeleton.toes, skeleton.legs, strict=True)]
    # Rings run from y to z, which is counter-clockwise about +x, the way they advance.
    uppers, soles = (merge([mesh.transformed(frame) for frame in frames]) for mesh in (loft(upper * h), loft(sole * h)))
    return uppers, soles


def _skirt(skeleton: _Skeleton, sections: Array, m: _Measures, length: float, flare: float) -> Mesh:
    """Cloth from the waist around both legs, down to a share of their length (1 = ankle).

    Its section follows the legs' spread, so it serves standing, striding and sitting bodies alike.
    """
    h = m.height
    left, right = (spline(leg, 16) for leg in skeleton.legs)
    steps = np.linspace(0.0, length, 9)
    u = np.linspace(0, 1, 16)
    a, b = (np.stack([np.interp(steps, u, leg[:, k]) for k in range(3)], axis=1) for leg in (left, right))
    mid = (a + b) / 2
    spread = np.abs(a - b) / 2
    grow = steps[:, None] / max(length, 1e-9)
    along = np.gradient(mid, axis=0)
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    thick = (0.062 - 0.022 * steps[:, None]) * h * m.limb
    front = np.column_stack([-along[:, 2], np.zeros(9), along[:, 0]])
    across = np.abs(np.sum(spread * np.abs(front), axis=1, keepdims=True))
    # Sitting bodies fold the cloth close to the legs; it only flares where it hangs.
    hanging = np.clip(-along[:, 2:3], 0.35, 1.0)
    loose = grow * flare * h * hanging
    half = np.hstack([spread[:, 1:2] + thick + loose, across + thick + loose])
    half[0] = np.maximum(half[0], [0.098 * h * m.girth, 0.074 * h * m.girth])
    waist = _between(sections, 0.2 * m.trunk, 0.36 * m.trunk, 2)[::-1]
    top = np.column_stack([waist[:, 1], np.zeros(2), waist[:, 0]]) @ skeleton.trunk[:, :3].T + skeleton.trunk[:, 3]
    path = np.concatenate([top, mid])
    axes = np.concatenate([waist[:, [3, 2]] + 0.012 * h, half])
    # The section's second axis lies along the front: x when the body is upright, z along a sitting lap.
    return tube(path, axes, sides=16, up=(1.0, 0.0, 0.3))


# ------------------------------------------------------------------------------------------------------------ head
# Chin to crown as shares of the head's height: z, middle (x), half depth, half width. The face is at +x.
_HEAD = spline(
    np.array(
        [
            (-0.02, 0.10, 0.10, 0.08),
            (0.03, 0.10, 0.24, 0.17),
            (0.16, 0.05, 0.33, 0.26),
            (0.34, 0.01, 0.38, 0.31),
            (0.52, -0.01, 0.41, 0.335),
            (0.68, -0.02, 0.42, 0.345),
            (0.82, -0.03, 0.38, 0.32),
            (0.93, -0.04, 0.27, 0.23),
            (0.985, -0.04, 0.13, 0.11),
            (1.0, -0.04, 0.005, 0.005),
        ]
    ),
    24,
)


@lru_cache
def _skull() -> Mesh:
    return _stack(_HEAD, sides=18)


def _face_x(y: float, z: float) -> float:
    """Where the front of the head is, in shares of its height."""
    mid, depth, width = (float(np.interp(z, _HEAD[:, 0], _HEAD[:, k])) for k in (1, 2, 3))
    return mid + depth * math.sqrt(max(1 - (y / width) ** 2, 0.0))


def _shell(hairline: Array, thickness: float, *, bump: float = 0.0, rows: int = 9) -> Mesh:
    """A cover over the head above a hairline, in shares of the head's height.

    Args:
        hairline: lower edge of the cover at azimuths 0 (the face), 45, 90, 135, 180 degrees.
        thickness: how far it stands off the head, at full height.
        bump: depth of curls.
    """
    columns = 20
    azimuth = np.linspace(0, 2 * math.pi, columns, endpoint=False)
    folded = np.degrees(np.minimum(azimuth, 2 * math.pi - azimuth))
    low = np.interp(folded, (0, 45, 90, 135, 180), hairline)
    t = np.concatenate([[0.0], np.linspace(0, 1, rows) ** 0.85])[:, None]
    z = low + (1.0 - low) * t
    mid, depth, width = (np.interp(z, _HEAD[:, 0], _HEAD[:, k]) for k in (1, 2, 3))
    # The first row starts inside the head, so that the edge looks thick rather than like paper.
    off = thickness * np.clip(0.35 + 4 * t, 0, 1)
    off[0] = -0.03
    curls = bump * np.sin(5 * azimuth + 9 * z) * np.sin(14 * z + 2 * np.cos(3 * azimuth)) * np.clip(3 * t, 0, 1)
    off = off + curls
    points = np.stack(
        [mid + (depth + off) * np.cos(azimuth), (width + off) * np.sin(azimuth), z + np.maximum(off, 0) * t**3], axis=-1
    )
    top = points[-1].mean(axis=0)
    return grid_surface(np.concatenate([points, np.broadcast_to(top, (1, columns, 3))]), wrap_cols=True)


_SHORT = np.array([0.80, 0.74, 0.42, 0.25, 0.20])


def _hair(style: HairStyle, rng: np.random.Generator) -> tuple[list[Mesh], list[Mesh]]:
    """Hair and headwear on a head of height 1."""
    hair: list[Mesh] = []
    wear: list[Mesh] = []
    if style in ("short", "bun", "ponytail"):
        hair.append(_shell(_SHORT, jitter(rng, 0.045, 0.3)))
    elif style == "curly":
        hair.append(_shell(_SHORT - 0.02, 0.09, bump=0.03))
    elif style == "afro":
        hair.append(_shell(np.array([0.79, 0.72, 0.30, 0.12, 0.08]), jitter(rng, 0.24, 0.2), bump=0.015))
    elif style == "bob":
        hair.append(_shell(np.array([0.76, 0.66, 0.05, -0.02, -0.02]), 0.075))
    elif style == "long":
        hair.append(_shell(np.array([0.80, 0.70, 0.10, 0.05, 0.05]), 0.06))
        reach = -jitter(rng, 0.85, 0.3)
        back = spline(
            np.array(
                [
                    (-0.30, 0, 0.75, 0.30, 0.14),
                    (-0.40, 0, 0.25, 0.38, 0.13),
                    (-0.42, 0, -0.2, 0.42, 0.11),
                    (-0.42, 0, reach, 0.24, 0.05),
                ]
            ),
            10,
        )
        hair.append(tube(back[:, :3], back[:, 3:], sides=12, round_ends=True, up=(1, 0, 0)))
        lock = spline(
            np.array(
                [
                    (-0.02, 0.36, 0.62, 0.07),
                    (0.0, 0.385, 0.2, 0.09),
                    (0.06, 0.36, -0.15, 0.085),
                    (0.10, 0.34, 0.6 * reach, 0.035),
                ]
            ),
            9,
        )
        hair.append(tube(lock[:, :3], lock[:, 3], sides=8, round_ends=True).with_twin())
    elif style in ("cap", "beanie", "hat"):
        hair.append(_shell(np.array([0.70, 0.62, 0.40, 0.24, 0.20]), 0.035))
    if style == "bun":
        hair.append(_ball((0.20, 0.21, 0.19), (-0.24, 0, 1.06), 12))
    elif style == "ponytail":
        tail = spline(
            np.array([(-0.38, 0, 0.78, 0.08), (-0.60, 0, 0.72, 0.13), (-0.68, 0, 0.35, 0.13), (-0.62, 0, -0.1, 0.03)]),
            10,
        )
        hair.append(tube(tail[:, :3], tail[:, 3], sides=10, round_ends=True))
    elif style == "cap":
        wear.append(_shell(np.array([0.74, 0.72, 0.66, 0.62, 0.60]), 0.075))
        wear.append(_ball((0.40, 0.31, 0.035), (0.42, 0, 0.75), 14).rotated("y", 8, (0.3, 0, 0.75)))
    elif style == "beanie":
        wear.append(_shell(np.array([0.76, 0.72, 0.60, 0.52, 0.50]), 0.085))
        wear.append(_ball((0.10, 0.10, 0.09), (-0.05, 0, 1.14), 10))
    elif style == "hat":
        wear.append(_shell(np.array([0.78, 0.77, 0.74, 0.70, 0.68]), 0.09))
        wear.append(_ball((0.76, 0.68, 0.045), (-0.02, 0, 0.76), 20).rotated("y", -4, (0, 0, 0.76)))
    elif style == "headscarf":
        wear.append(_shell(np.array([0.80, 0.74, -0.02, -0.05, -0.05]), 0.07))
        wrap = spline(
            np.array(
                [
                    (0.02, 0, -0.42, 0.46, 0.36),
                    (0.0, 0, -0.2, 0.37, 0.34),
                    (-0.01, 0, 0.0, 0.36, 0.36),
                    (-0.03, 0, 0.14, 0.34, 0.33),
                ]
            ),
            7,
        )
        wear.append(tube(wrap[:, :3], wrap[:, 3:], sides=14, up=(1, 0, 0)))
    return hair, wear


def _mix(a: Color, b: Color, share: float) -> Color:
    r, g, bl = ((1 - share) * x + share * y for x, y in zip(a, b, strict=True))
    return r, g, bl


def _head(spec: PersonSpec, rng: np.random.Generator) -> list[tuple[list[Mesh], Material]]:
    """Head of height 1, chin at the origin, face towards +x."""
    skin = Material(MONK_TONES[spec.skin_tone - 1], roughness=0.6)
    hair, wear = _hair(spec.hair, rng)
    nose_z = 0.40
    tip = _face_x(0, nose_z)
    flesh = [
        _skull(),
        tube(
            np.array(
                [(_face_x(0, 0.56) - 0.01, 0, 0.57), (tip + 0.045, 0, nose_z + 0.03), (tip - 0.01, 0, nose_z - 0.04)]
            ),
            np.array([0.03, jitter(rng, 0.062, 0.2), 0.04]),
            sides=8,
            round_ends=True,
        ),
    ]
    if spec.hair not in ("headscarf", "bob", "long"):
        flesh.append(_ball((0.075, 0.045, 0.11), (-0.02, 0.345, 0.47), 10).with_twin())
    eye_y, eye_z = 0.14, 0.545
    x = _face_x(eye_y, eye_z)
    white = _ball((0.030, 0.070, 0.048), (x - 0.004, eye_y, eye_z), 10).with_twin()
    iris = _ball((0.022, 0.036, 0.040), (x + 0.018, eye_y - 0.004, eye_z), 10).with_twin()
    brow_z = eye_z + 0.105
    brow = np.array(
        [
            (_face_x(y, z) + 0.004, y, z)
            for y, z in ((0.065, brow_z - 0.01), (0.14, brow_z + 0.016), (0.215, brow_z - 0.008))
        ]
    )
    brows = tube(brow, 0.019, sides=6, round_ends=True).with_twin()
    smile = rng.uniform(0.0, 0.035)
    mouth = np.array(
        [(_face_x(y, 0.22) - 0.002, y, 0.215 + smile * abs(y) / 0.12) for y in (-0.12, -0.06, 0.0, 0.06, 0.12)]
    )
    lips = tube(mouth, np.array([0.012, 0.024, 0.028, 0.024, 0.012]), sides=6, round_ends=True)
    lip_color = _mix(_mix(skin.color, (0.62, 0.20, 0.22), 0.55), (0, 0, 0), 0.08)
    hair_material = Material(spec.hair_color, roughness=0.75)
    parts: list[tuple[list[Mesh], Material]] = [
        (flesh, skin),
        ([white], Material((0.93, 0.93, 0.92), roughness=0.4)),
        ([iris], Material(spec.eye_color, roughness=0.25)),
        ([lips], Material(lip_color, roughness=0.5)),
    ]
    # On skin as dark as the hair the brows would be lost; they are set off a little to keep the face readable.
    near = max(abs(a - b) for a, b in zip(spec.hair_color, skin.color, strict=True)) < 0.12
    brow_color = _mix(spec.hair_color, (0.0, 0.0, 0.0), 0.6) if near else spec.hair_color
    parts.append(([brows], Material(brow_color, roughness=0.8)))
    if spec.facial_hair != "none":
        moustache = np.array(
            [(_face_x(y, 0.29) + 0.006, y, 0.295 - 0.2 * abs(y)) for y in (-0.13, -0.06, 0.0, 0.06, 0.13)]
        )
        growth = [tube(moustache, np.array([0.018, 0.032, 0.03, 0.032, 0.018]), sides=6, round_ends=True)]
        if spec.facial_hair == "beard":
            growth.append(_beard())
        parts.append((growth, hair_material))
    if hair:
        parts.append((hair, hair_material))
    if wear:
        parts.append((wear, Material(spec.headwear_color, roughness=0.85)))
    if spec.glasses:
        frame_x = _face_x(0.0, eye_z) + 0.012
        ring = torus(0.098, 0.018, 14, 5).rotated("y", 90).moved(frame_x, 0.145, eye_z).with_twin()
        bridge = box((0.03, 0.09, 0.03), (frame_x, 0, eye_z + 0.02))
        temple = tube(np.array([(frame_x - 0.01, 0.245, eye_z + 0.02), (0.0, 0.36, eye_z + 0.02)]), 0.017, sides=5)
        parts.append(([ring, bridge, temple.with_twin()], Material((0.08, 0.07, 0.08), roughness=0.4)))
    return parts


def _beard() -> Mesh:
    """A full beard on a head of height 1: a cover over jaw and chin that leaves the mouth free."""
    azimuth = np.radians(np.linspace(-100, 100, 15))
    folded = np.abs(np.degrees(azimuth))
    high = np.interp(folded, (0, 20, 35, 60, 100), (0.165, 0.17, 0.26, 0.34, 0.50))
    t = np.linspace(0, 1, 6)[:, None]
    z = -0.05 + (high + 0.05) * t
    mid, depth, width = (np.interp(z, _HEAD[:, 0], _HEAD[:, k]) for k in (1, 2, 3))
    off = 0.045 * np.sin(math.pi * np.clip(0.15 + t, 0, 1)) * np.clip((105 - folded) / 30, 0, 1) - 0.006
    points = np.stack([mid + (depth + off) * np.cos(azimuth), (width + off) * np.sin(azimuth), z], axis=-1)
    tip = points[0].mean(axis=0) + np.array([0.02, 0, -0.02])
    return grid_surface(np.concatenate([np.broadcast_to(tip, (1, 15, 3)), points]))


# --------------------------------------------------------------------------------------------------------- dressing
def _cloth(garment: Garment) -> Material:
    return Material(garment.color, roughness=0.9, paintable=True, pattern=garment.pattern)


def build_person(spec: PersonSpec, rng: np.random.Generator) -> Model:
    """The person described; ``rng`` draws what a description leaves open (lean, stride, turn of the head)."""
    m = _measures(spec)
    skeleton = _pose(spec, m, rng)
    h, t = m.height, m.trunk
    sections = _trunk_sections(spec, m)
    skin = Material(MONK_TONES[spec.skin_tone - 1], roughness=0.6)
    trunk = np.asarray(skeleton.trunk)
    arms = [_arm(arm, skeleton, side, m) for side, arm in zip((1, -1), skeleton.arms, strict=True)]
    legs = [_limb(leg, [x * h * m.limb for x in (0.050, 0.046, 0.035, 0.032, 0.020)]) for leg in skeleton.legs]
    flesh: list[Mesh] = _hands(skeleton, m)
    cloth: list[tuple[list[Mesh], Material]] = []

    # Upper body. Arms are bare from where the sleeve ends.
    top, kind = _cloth(spec.top), spec.top.kind
    reach = {"t-shirt": 0.46, "shirt": 0.97, "tank top": 0.14, "jacket": 0.97, "dress": 0.36}[kind]
    worn: list[Mesh] = []
    tucked = spec.bottom is not None and spec.bottom.kind in ("skirt", "long skirt")
    hem = 0.22 * t if tucked or kind == "dress" else -0.045 * h
    if kind == "jacket":
        inner = Material(_mix((0.92, 0.91, 0.88), spec.top.color, 0.12), roughness=0.9)
        cloth.append(
            ([_stack(_hanging(sections, hem, 1.045 * t), sides=16, inflate=0.005 * h).transformed(trunk)], inner)
        )
        worn.append(
            _stack(_hanging(sections, -0.055 * h, 1.03 * t), sides=16, inflate=0.016 * h, opening=24).transformed(trunk)
        )
    else:
        worn.append(_stack(_hanging(sections, hem, 1.045 * t), sides=16, inflate=0.008 * h).transformed(trunk))
    flesh.append(_stack(_between(sections, 0.9 * t, 1.08 * t, 6), sides=12).transformed(trunk))
    extra = (0.010 if kind == "jacket" else 0.006) * h
    for arm in arms:
        worn.append(_sleeve(arm, 0.0, reach, extra, flare=1.12 if reach < 0.5 else 1.0))
        if reach < 0.9:
            flesh.append(_sleeve(arm, reach - 0.08, 1.0, 0.0))
    cloth.append((worn, top))

    # Lower body.
    covered = 0.0
    if spec.bottom is None or spec.bottom.kind in ("skirt", "long skirt"):
        long = 0.86 if spec.bottom is not None and spec.bottom.kind == "long skirt" else jitter(rng, 0.5, 0.1)
        # Cross-legged laps are covered to the knee only: further down the legs cross, and cloth would tie them up.
        if spec.pose in ("cross-legged", "ground"):
            long = 0.46
        elif spec.pose == "stool":
            long = min(long, 0.8)
        skirt = _skirt(skeleton, sections, m, long, jitter(rng, 0.035, 0.5))
        cloth.append(([skirt], top if spec.bottom is None else _cloth(spec.bottom)))
        covered = 0.15
    else:
        covered = 0.98 if spec.bottom.kind == "trousers" else jitter(rng, 0.46, 0.1)
        pants = [_stack(_between(sections, -0.062 * h, 0.3 * t, 8), sides=16, inflate=0.002 * h).transformed(trunk)]
        pants += [_sleeve(leg, 0.0, covered, 0.007 * h, flare=1.18 if covered < 0.6 else 1.1) for leg in legs]
        cloth.append((pants, _cloth(spec.bottom)))
    if covered < 0.9:
        flesh += [_sleeve(leg, covered - 0.1, 1.0, 0.0) for leg in legs]
    uppers, soles = _shoes(skeleton, m)
    cloth.append(([uppers], Material(spec.shoe_color, roughness=0.5)))
    cloth.append(([soles], Material(_mix(spec.shoe_color, (0.85, 0.84, 0.80), 0.7), roughness=0.8)))

    # Head, on a neck that reaches into the skull.
    neck_top = np.array([0.012 * h, 0.0, 1.08 * t + 0.4 * m.head])
    neck = np.linspace([-0.006 * h, 0.0, 1.0 * t], neck_top, 5)
    flesh.append(tube(neck, np.full(5, 0.030 * h * (0.6 + 0.4 * m.limb)), sides=12, up=(1, 0, 0)).transformed(trunk))
    turn = rotation_matrix((0, 0, 1), skeleton.head_turn)
    seat = trunk[:, :3] @ np.array([0.012 * h, 0.0, 1.06 * t + 0.10 * m.head]) + trunk[:, 3]
    # The head keeps half of the trunk's lean: people look ahead.
    lean = math.degrees(math.asin(float(np.clip(trunk[0, 2], -1, 1))))
    place = np.column_stack([rotation_matrix((0, 1, 0), 0.4 * lean) @ turn * m.head, seat])
    parts: list[tuple[list[Mesh], Material]] = [(flesh, skin), *cloth]
    parts += [([merge(meshes).transformed(place)], material) for meshes, material in _head(spec, rng)]
    model = Model.of(parts)
    ground = float(model.bounds[0][2])
    return Model.of([(part.mesh.moved(z=-ground), part.material) for part in model.parts])


def _person(rng: np.random.Generator, state: str) -> Model:
    return build_person(draw_person(rng, state), rng)


ASSETS: tuple[Asset, ...] = (Asset("person", _person, states=tuple(STATES), size=1.1),)
