"""People: a posed skeleton, dressed.

A person is described first (``PersonSpec``: skin tone, build, hair, garments, pose) and then built, so that a study can
ask for a skin tone and an outfit and vary nothing else. ``draw_person`` draws a description evenly over what there is;
no attribute is tied to another, except that each pose belongs to one state.

Lengths inside a body are shares of the person's height unless said otherwise; z is up and the person faces +x, so the
person's left is +y.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from verism.metrics.colour import MONK_RGB
from verism.simulator.assets.body import (
    HEAD,
    Measures,
    Skeleton,
    arm,
    ball,
    between,
    face_x,
    hands,
    hanging,
    limb,
    mix,
    shell,
    skull,
    sleeve,
    stack,
)
from verism.simulator.assets.clothes import (
    belt,
    boots,
    brimmed_hat,
    button_up,
    face_mask,
    flared_skirt,
    gloves,
    jeans,
    sash,
    shoes,
    skirt,
    slacks,
    slippers,
    suit_jacket,
    tie,
    zipped_jacket,
)
from verism.simulator.model import Asset, Material, Model, Part, Pattern, jitter, pick
from verism.simulator.shapes import Mesh, box, grid_surface, merge, rotation_matrix, spline, torus, tube

__all__ = ["ASSETS", "MONK_TONES", "STATES", "Garment", "PersonSpec", "build_parts", "build_person", "draw_person"]

Array = NDArray[np.float64]
Color = tuple[float, float, float]

MONK_TONES: tuple[Color, ...] = tuple((r / 255, g / 255, b / 255) for r, g, b in MONK_RGB.tolist())
"""Colours of skin tones 1 to 10, sRGB in [0, 1]; tone ``t`` is ``MONK_TONES[t - 1]``."""

Build = Literal["slim", "average", "stout", "child"]
Figure = Literal["straight", "curved"]
HairStyle = Literal[
    "bald", "short", "curly", "afro", "bob", "long", "bun", "ponytail", "cap", "beanie", "hat", "headscarf"
]
FacialHair = Literal["none", "moustache", "beard"]
TopKind = Literal[
    "t-shirt",
    "shirt",
    "tank top",
    "jacket",
    "dress",
    "button-up shirt",
    "suit jacket",
    "zipped jacket",
    "summer dress",
]
BottomKind = Literal["trousers", "shorts", "skirt", "long skirt", "jeans", "slacks", "belted shorts", "flared skirt"]
Footwear = Literal["shoes", "boots", "slippers"]
# What ``draw_person`` draws from, in this order: longer lists would give every seed another person.
_DRAWN_TOPS: tuple[TopKind, ...] = ("t-shirt", "shirt", "tank top", "jacket", "dress")
_DRAWN_BOTTOMS: tuple[BottomKind, ...] = ("trousers", "shorts", "skirt", "long skirt")
_DRESSES = ("dress", "summer dress")
_SKIRTS = ("skirt", "long skirt", "flared skirt")
Pose = Literal["relaxed", "hands on hips", "waving", "stool", "ground", "cross-legged", "walking"]

_UNDER_A_HAT: tuple[HairStyle, ...] = ("bald", "short", "curly", "bob", "long", "ponytail")

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
        hair: hair style; ``cap``, ``beanie``, ``hat`` and ``headscarf`` cover short hair.
        hair_color: colour of the hair, and of facial hair.
        facial_hair: style of facial hair, in the hair's colour.
        eye_color: colour of the irises.
        top: upper garment; a ``dress`` or ``summer dress`` needs no ``bottom`` and takes its place. A plain ``shirt``
            is long-sleeved without collar; a ``button-up shirt`` has collar, buttons and cuffs. An open ``jacket`` and
            a ``suit jacket`` are worn over something, a ``zipped jacket`` is closed.
        bottom: lower garment; None with a dress, and only then.
        shoe_color: colour of the uppers.
        headwear_color: colour of the cap, beanie, hat or headscarf.
        glasses: whether glasses with round frames are worn.
        pose: how the body is held; ``STATES`` lists the poses of each state.
        footwear: what is on the feet, in ``shoe_color``.
        inner_color: colour of the shirt under a suit jacket.
        hat_color: colour of a brimmed hat worn over the hair (unlike the ``hat`` of ``hair``, which replaces it); None:
            no hat.
        tie_color: colour of a tie, with a button-up shirt or a suit jacket; None: no tie.
        tie_stripes: colour of the tie's stripes; None: no stripes.
        mask_color: colour of a face mask over nose, mouth and chin; None: no mask.
        glove_color: colour of gloves; None: bare hands.
        frame_color: colour of the frames of the glasses.

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
    footwear: Footwear = "shoes"
    inner_color: Color = (0.93, 0.93, 0.92)
    hat_color: Color | None = None
    tie_color: Color | None = None
    tie_stripes: Color | None = None
    mask_color: Color | None = None
    glove_color: Color | None = None
    frame_color: Color = (0.08, 0.07, 0.08)

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
            ("footwear", self.footwear, get_args(Footwear)),
        ):
            if value not in kinds:
                raise ValueError(f"PersonSpec: {name}={value!r}; expected one of {', '.join(map(repr, kinds))}")
        if (self.bottom is None) != (self.top.kind in _DRESSES):
            raise ValueError("PersonSpec: a dress goes with bottom=None, and every other top with a lower garment")
        if self.bottom is not None and self.bottom.kind not in get_args(BottomKind):
            listed = ", ".join(map(repr, get_args(BottomKind)))
            raise ValueError(f"PersonSpec: bottom.kind={self.bottom.kind!r}; expected one of {listed}")
        if self.tie_color is not None and self.top.kind not in ("button-up shirt", "suit jacket"):
            raise ValueError(
                f"PersonSpec: a tie with top.kind={self.top.kind!r}; it needs the collar of a 'button-up shirt' or a "
                "'suit jacket'"
            )
        if self.hat_color is not None and self.hair not in _UNDER_A_HAT:
            listed = ", ".join(map(repr, _UNDER_A_HAT))
            raise ValueError(f"PersonSpec: hat_color with hair={self.hair!r}; a hat fits over {listed}")


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
    top_kind = pick(rng, _DRAWN_TOPS)
    plain = top_kind == "jacket" or rng.random() < 0.6
    top = Garment(
        top_kind, _shade(rng, pick(rng, _CLOTH)), None if plain else _cloth_pattern(rng, ("stripes", "checks", "dots"))
    )
    bottom = None
    if top_kind != "dress":
        kind = pick(rng, ("trousers", "trousers", *_DRAWN_BOTTOMS))
        is_skirt = kind in _SKIRTS
        color = _shade(rng, pick(rng, _CLOTH if is_skirt else _TROUSER_CLOTH))
        pattern = _cloth_pattern(rng, ("checks", "dots")) if is_skirt and rng.random() < 0.3 else None
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


def _measures(spec: PersonSpec) -> Measures:
    h = spec.height_m
    # Heads are drawn a little large (six and a half to a body, not seven and a half): faces must read when small.
    head = h / (5.1 if spec.build == "child" else 6.5)
    hip = h * (0.45 if spec.build == "child" else 0.485)
    girth = {"slim": 0.90, "average": 1.0, "stout": 1.28, "child": 0.98}[spec.build]
    limb = {"slim": 0.90, "average": 1.02, "stout": 1.22, "child": 1.08}[spec.build]
    return Measures(height=h, head=head, hip=hip, trunk=h - 1.17 * head - hip, girth=girth, limb=limb)


def _pose(spec: PersonSpec, m: Measures, rng: np.random.Generator) -> Skeleton:
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
    return Skeleton(
        pelvis=pelvis,
        trunk=trunk,
        arms=(arms[0], arms[1]),
        legs=(legs[0], legs[1]),
        toes=(units[0], units[1]),
        head_turn=float(rng.uniform(-18, 18)),
        trunk_length=m.trunk,
    )


# ------------------------------------------------------------------------------------------------------------ body


def _trunk_sections(spec: PersonSpec, m: Measures) -> Array:
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


# ------------------------------------------------------------------------------------------------------------ head


_EYE_Z = 0.545
_Pieces = list[tuple[str, list[Mesh], Material]]
Face = Callable[["PersonSpec", np.random.Generator], _Pieces]
"""Draws the face of a description on a head of height 1, chin at the origin, looking towards +x."""

_SHORT = np.array([0.80, 0.74, 0.42, 0.25, 0.20])


def _hair(style: HairStyle, rng: np.random.Generator) -> tuple[list[Mesh], list[Mesh]]:
    """Hair and headwear on a head of height 1."""
    hair: list[Mesh] = []
    wear: list[Mesh] = []
    if style in ("short", "bun", "ponytail"):
        hair.append(shell(_SHORT, jitter(rng, 0.045, 0.3)))
    elif style == "curly":
        hair.append(shell(_SHORT - 0.02, 0.09, bump=0.03))
    elif style == "afro":
        hair.append(shell(np.array([0.79, 0.72, 0.30, 0.12, 0.08]), jitter(rng, 0.24, 0.2), bump=0.015))
    elif style == "bob":
        hair.append(shell(np.array([0.76, 0.66, 0.05, -0.02, -0.02]), 0.075))
    elif style == "long":
        hair.append(shell(np.array([0.80, 0.70, 0.10, 0.05, 0.05]), 0.06))
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
        hair.append(shell(np.array([0.70, 0.62, 0.40, 0.24, 0.20]), 0.035))
    if style == "bun":
        hair.append(ball((0.20, 0.21, 0.19), (-0.24, 0, 1.06), 12))
    elif style == "ponytail":
        tail = spline(
            np.array([(-0.38, 0, 0.78, 0.08), (-0.60, 0, 0.72, 0.13), (-0.68, 0, 0.35, 0.13), (-0.62, 0, -0.1, 0.03)]),
            10,
        )
        hair.append(tube(tail[:, :3], tail[:, 3], sides=10, round_ends=True))
    elif style == "cap":
        wear.append(shell(np.array([0.74, 0.72, 0.66, 0.62, 0.60]), 0.075))
        wear.append(ball((0.40, 0.31, 0.035), (0.42, 0, 0.75), 14).rotated("y", 8, (0.3, 0, 0.75)))
    elif style == "beanie":
        wear.append(shell(np.array([0.76, 0.72, 0.60, 0.52, 0.50]), 0.085))
        wear.append(ball((0.10, 0.10, 0.09), (-0.05, 0, 1.14), 10))
    elif style == "hat":
        wear.append(shell(np.array([0.78, 0.77, 0.74, 0.70, 0.68]), 0.09))
        wear.append(ball((0.76, 0.68, 0.045), (-0.02, 0, 0.76), 20).rotated("y", -4, (0, 0, 0.76)))
    elif style == "headscarf":
        wear.append(shell(np.array([0.80, 0.74, -0.02, -0.05, -0.05]), 0.07))
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


def _face(spec: PersonSpec, rng: np.random.Generator) -> _Pieces:
    """Skull, eyes, nose, mouth, ears and brows of a head of height 1, chin at the origin, face towards +x."""
    skin = Material(MONK_TONES[spec.skin_tone - 1], roughness=0.6)
    nose_z = 0.40
    tip = face_x(0, nose_z)
    flesh = [
        skull(),
        tube(
            np.array(
                [(face_x(0, 0.56) - 0.01, 0, 0.57), (tip + 0.045, 0, nose_z + 0.03), (tip - 0.01, 0, nose_z - 0.04)]
            ),
            np.array([0.03, jitter(rng, 0.062, 0.2), 0.04]),
            sides=8,
            round_ends=True,
        ),
    ]
    if spec.hair not in ("headscarf", "bob", "long"):
        flesh.append(ball((0.075, 0.045, 0.11), (-0.02, 0.345, 0.47), 10).with_twin())
    eye_y, eye_z = 0.14, _EYE_Z
    x = face_x(eye_y, eye_z)
    white = ball((0.030, 0.070, 0.048), (x - 0.004, eye_y, eye_z), 10).with_twin()
    iris = ball((0.022, 0.036, 0.040), (x + 0.018, eye_y - 0.004, eye_z), 10).with_twin()
    brow_z = eye_z + 0.105
    brow = np.array(
        [
            (face_x(y, z) + 0.004, y, z)
            for y, z in ((0.065, brow_z - 0.01), (0.14, brow_z + 0.016), (0.215, brow_z - 0.008))
        ]
    )
    brows = tube(brow, 0.019, sides=6, round_ends=True).with_twin()
    smile = rng.uniform(0.0, 0.035)
    mouth = np.array(
        [(face_x(y, 0.22) - 0.002, y, 0.215 + smile * abs(y) / 0.12) for y in (-0.12, -0.06, 0.0, 0.06, 0.12)]
    )
    lips = tube(mouth, np.array([0.012, 0.024, 0.028, 0.024, 0.012]), sides=6, round_ends=True)
    lip_color = mix(mix(skin.color, (0.62, 0.20, 0.22), 0.55), (0, 0, 0), 0.08)
    parts: _Pieces = [
        ("head", flesh, skin),
        ("head", [white], Material((0.93, 0.93, 0.92), roughness=0.4)),
        ("head", [iris], Material(spec.eye_color, roughness=0.25)),
        ("head", [lips], Material(lip_color, roughness=0.5)),
    ]
    # On skin as dark as the hair the brows would be lost; they are set off a little to keep the face readable.
    near = max(abs(a - b) for a, b in zip(spec.hair_color, skin.color, strict=True)) < 0.12
    brow_color = mix(spec.hair_color, (0.0, 0.0, 0.0), 0.6) if near else spec.hair_color
    parts.append(("head", [brows], Material(brow_color, roughness=0.8)))
    return parts


def _head(spec: PersonSpec, rng: np.random.Generator, face: Face | None) -> _Pieces:
    """Head of height 1, chin at the origin, face towards +x; with the names of ``build_parts``."""
    hair, wear = _hair(spec.hair, rng)
    hair_material = Material(spec.hair_color, roughness=0.75)
    eye_z = _EYE_Z
    parts = (face or _face)(spec, rng)
    if spec.facial_hair != "none":
        moustache = np.array(
            [(face_x(y, 0.29) + 0.006, y, 0.295 - 0.2 * abs(y)) for y in (-0.13, -0.06, 0.0, 0.06, 0.13)]
        )
        growth = [tube(moustache, np.array([0.018, 0.032, 0.03, 0.032, 0.018]), sides=6, round_ends=True)]
        if spec.facial_hair == "beard":
            growth.append(_beard())
        parts.append(("head", growth, hair_material))
    if hair:
        parts.append(("hair", hair, hair_material))
    if wear:
        parts.append(("headwear", wear, Material(spec.headwear_color, roughness=0.85)))
    if spec.glasses:
        frame_x = face_x(0.0, eye_z) + 0.012
        ring = torus(0.098, 0.018, 14, 5).rotated("y", 90).moved(frame_x, 0.145, eye_z).with_twin()
        bridge = box((0.03, 0.09, 0.03), (frame_x, 0, eye_z + 0.02))
        temple = tube(np.array([(frame_x - 0.01, 0.245, eye_z + 0.02), (0.0, 0.36, eye_z + 0.02)]), 0.017, sides=5)
        frames = [ring, bridge, temple.with_twin()]
        parts.append(("glasses", frames, Material(spec.frame_color, roughness=0.4)))
    if spec.mask_color is not None:
        cover, loops = face_mask()
        parts.append(("mask", cover, Material(spec.mask_color, roughness=0.9)))
        parts.append(("mask", loops, Material(mix(spec.mask_color, (1.0, 1.0, 1.0), 0.5), roughness=0.9)))
    if spec.hat_color is not None:
        felt, ribbon = brimmed_hat()
        parts.append(("hat", felt, Material(spec.hat_color, roughness=0.9)))
        parts.append(("hat", ribbon, Material(_contrast(spec.hat_color, 0.65), roughness=0.7)))
    return parts


def _beard() -> Mesh:
    """A full beard on a head of height 1: a cover over jaw and chin that leaves the mouth free."""
    azimuth = np.radians(np.linspace(-100, 100, 15))
    folded = np.abs(np.degrees(azimuth))
    high = np.interp(folded, (0, 20, 35, 60, 100), (0.165, 0.17, 0.26, 0.34, 0.50))
    t = np.linspace(0, 1, 6)[:, None]
    z = -0.05 + (high + 0.05) * t
    mid, depth, width = (np.interp(z, HEAD[:, 0], HEAD[:, k]) for k in (1, 2, 3))
    off = 0.045 * np.sin(math.pi * np.clip(0.15 + t, 0, 1)) * np.clip((105 - folded) / 30, 0, 1) - 0.006
    points = np.stack([mid + (depth + off) * np.cos(azimuth), (width + off) * np.sin(azimuth), z], axis=-1)
    tip = points[0].mean(axis=0) + np.array([0.02, 0, -0.02])
    return grid_surface(np.concatenate([np.broadcast_to(tip, (1, 15, 3)), points]))


# --------------------------------------------------------------------------------------------------------- dressing
_DENIM_THREAD: Color = (0.80, 0.52, 0.22)
_METAL: Color = (0.72, 0.72, 0.74)


def _cloth(garment: Garment) -> Material:
    return Material(garment.color, roughness=0.9, paintable=True, pattern=garment.pattern)


def _contrast(color: Color, share: float) -> Color:
    """Darker if bright, brighter if dark: for seams and lapels, which cast shadows too fine to be drawn."""
    return mix(color, (0.0, 0.0, 0.0) if sum(color) > 0.75 else (1.0, 1.0, 1.0), share)


def _trims(garment: Garment, share: float) -> Material:
    """The cloth, a shade apart; it takes paint with its garment."""
    return Material(_contrast(garment.color, share), roughness=0.9)


def build_parts(
    spec: PersonSpec,
    rng: np.random.Generator,
    face_rng: np.random.Generator | None = None,
    *,
    face: Face | None = None,
    reshape: Callable[[Mesh], Mesh] | None = None,
) -> list[tuple[str, Part]]:
    """The person described, part by part with what each belongs to, standing on z = 0 and facing +x.

    Names: ``skin`` (body and bare feet), ``head`` (with eyes, mouth, beard), ``hair``, ``top``, ``inner`` (under an
    open jacket), ``bottom`` (not with a dress, which is all ``top``), ``belt``, ``footwear``, ``headwear`` (the kinds
    that ``hair`` names), ``hat``, ``glasses``, ``mask``, ``tie``, ``gloves``. ``rng`` draws what a description leaves
    open (lean, stride, turn of the head); ``face_rng`` the nose, smile and hair, so that they can be kept while clothes
    change (some draw from ``rng``): if None, ``rng`` too. ``face`` draws another face than that of the scenes' people,
    with names of its own; ``reshape`` gives a mesh of the usual head, or of what is worn on it, another skull.
    """
    m = _measures(spec)
    skeleton = _pose(spec, m, rng)
    h, t = m.height, m.trunk
    sections = _trunk_sections(spec, m)
    skin = Material(MONK_TONES[spec.skin_tone - 1], roughness=0.6)
    trunk = np.asarray(skeleton.trunk)
    arms = [arm(joints, skeleton, side, m) for side, joints in zip((1, -1), skeleton.arms, strict=True)]
    legs = [limb(joints, [x * h * m.limb for x in (0.050, 0.046, 0.035, 0.032, 0.020)]) for joints in skeleton.legs]
    flesh: list[Mesh] = hands(skeleton, m)
    flesh.append(stack(between(sections, 0.9 * t, 1.08 * t, 6), sides=12).transformed(trunk))
    worn, bare_arms = _upper_body(spec, m, sections, arms, trunk)
    flesh += bare_arms
    lower, bare_legs = _lower_body(spec, m, skeleton, sections, legs, rng)
    flesh += bare_legs
    worn += lower
    feet, bare_feet = _footwear(spec, m, skeleton, legs)
    flesh += bare_feet
    worn += feet
    if spec.glove_color is not None:
        worn.append(("gloves", gloves(skeleton, m, arms), Material(spec.glove_color, roughness=0.8)))

    # Head, on a neck that reaches into the skull.
    neck_top = np.array([0.012 * h, 0.0, 1.08 * t + 0.4 * m.head])
    neck = np.linspace([-0.006 * h, 0.0, 1.0 * t], neck_top, 5)
    flesh.append(tube(neck, np.full(5, 0.030 * h * (0.6 + 0.4 * m.limb)), sides=12, up=(1, 0, 0)).transformed(trunk))
    turn = rotation_matrix((0, 0, 1), skeleton.head_turn)
    seat = trunk[:, :3] @ np.array([0.012 * h, 0.0, 1.06 * t + 0.10 * m.head]) + trunk[:, 3]
    # The head keeps half of the trunk's lean: people look ahead.
    lean = math.degrees(math.asin(float(np.clip(trunk[0, 2], -1, 1))))
    position = np.column_stack([rotation_matrix((0, 1, 0), 0.4 * lean) @ turn * m.head, seat])
    parts = [("skin", Part(merge(flesh), skin))]
    parts += [(name, Part(merge(meshes), material)) for name, meshes, material in worn]
    parts += [
        (name, Part((reshape or _unchanged)(merge(meshes)).transformed(position), material))
        for name, meshes, material in _head(spec, face_rng or rng, face)
    ]
    ground = min(float(part.mesh.bounds[0][2]) for _, part in parts)
    return [(name, Part(part.mesh.moved(z=-ground), part.material)) for name, part in parts]


def _unchanged(mesh: Mesh) -> Mesh:
    return mesh


def build_person(spec: PersonSpec, rng: np.random.Generator) -> Model:
    """The person described; ``rng`` draws what a description leaves open (lean, stride, turn of the head)."""
    return Model(tuple(part for _, part in build_parts(spec, rng)))


def _upper_body(
    spec: PersonSpec, m: Measures, sections: Array, arms: list[Array], trunk: Array
) -> tuple[_Pieces, list[Mesh]]:
    """What is worn above the waist, and the arms that are bare below the sleeves."""
    h, t = m.height, m.trunk
    top, kind = _cloth(spec.top), spec.top.kind
    tucked = spec.bottom is not None and spec.bottom.kind in _SKIRTS
    belted = spec.bottom is not None and spec.bottom.kind in ("jeans", "slacks", "belted shorts")
    hem = 0.22 * t if tucked or kind in _DRESSES else 0.155 * t if belted else -0.045 * h
    pieces: _Pieces = []

    def put(name: str, meshes: list[Mesh], material: Material) -> None:
        pieces.append((name, [mesh.transformed(trunk) for mesh in meshes], material))

    if kind == "button-up shirt":
        body, trims, sleeves = button_up(sections, m, arms, hem, 0.008 * h)
        pieces.append(("top", [*(mesh.transformed(trunk) for mesh in body), *sleeves], top))
        put("top", trims[:-1], _trims(spec.top, 0.16))
        put("top", trims[-1:], Material(_contrast(spec.top.color, 0.75), roughness=0.5))
        if spec.tie_color is not None:
            put("tie", tie(sections, m, 0.021 * h, 0.10 * t), _tie_silk(spec.tie_color, spec.tie_stripes))
        return pieces, []
    if kind == "suit jacket":
        inner = Garment("button-up shirt", spec.inner_color)
        shirt, trims, sleeves = button_up(sections, m, arms, hem, 0.004 * h)
        pieces.append(("inner", [*(mesh.transformed(trunk) for mesh in shirt), *sleeves[2:]], _cloth(inner)))
        put("inner", trims[:-1], _trims(inner, 0.10))
        put("inner", trims[-1:], Material(_contrast(inner.color, 0.4), roughness=0.5))
        if spec.tie_color is not None:
            put("tie", tie(sections, m, 0.0165 * h, 0.36 * t), _tie_silk(spec.tie_color, spec.tie_stripes))
        body, lapels, buttons, sleeves = suit_jacket(sections, m, arms)
        pieces.append(("top", [*(mesh.transformed(trunk) for mesh in body), *sleeves], top))
        put("top", lapels, _trims(spec.top, 0.15))
        put("top", buttons, Material(_contrast(spec.top.color, 0.6), roughness=0.4))
        return pieces, []
    if kind == "zipped jacket":
        body, bands, fastener, sleeves, cuffs = zipped_jacket(sections, m, arms)
        pieces.append(("top", [*(mesh.transformed(trunk) for mesh in body), *sleeves], top))
        bands = [mesh.transformed(trunk) for mesh in bands]
        pieces.append(("top", [*bands, *cuffs], _trims(spec.top, 0.38)))
        put("top", fastener, Material(_METAL, roughness=0.35, metallic=1.0))
        return pieces, []

    # Arms are bare from where the sleeve ends.
    reach = {"t-shirt": 0.46, "shirt": 0.97, "tank top": 0.14, "jacket": 0.97, "dress": 0.36, "summer dress": 0.16}[
        kind
    ]
    worn: list[Mesh] = []
    if kind == "jacket":
        inner_cloth = Material(mix((0.92, 0.91, 0.88), spec.top.color, 0.12), roughness=0.9)
        put("inner", [stack(hanging(sections, hem, 1.045 * t), sides=16, inflate=0.005 * h)], inner_cloth)
        outer = hanging(sections, -0.055 * h, 1.03 * t)
        worn.append(stack(outer, sides=16, inflate=0.016 * h, opening=24).transformed(trunk))
    else:
        neckline = 0.94 if kind == "summer dress" else 1.045
        worn.append(stack(hanging(sections, hem, neckline * t), sides=16, inflate=0.008 * h).transformed(trunk))
    extra = (0.010 if kind == "jacket" else 0.006) * h
    bare: list[Mesh] = []
    for limb_line in arms:
        worn.append(sleeve(limb_line, 0.0, reach, extra, flare=1.12 if reach < 0.5 else 1.0))
        if reach < 0.9:
            bare.append(sleeve(limb_line, reach - 0.08, 1.0, 0.0))
    pieces.append(("top", worn, top))
    return pieces, bare


def _tie_silk(color: Color, stripes: Color | None) -> Material:
    return Material(color, roughness=0.45, pattern=Pattern("stripes", stripes, scale=0.055) if stripes else None)


def _lower_body(
    spec: PersonSpec, m: Measures, skeleton: Skeleton, sections: Array, legs: list[Array], rng: np.random.Generator
) -> tuple[_Pieces, list[Mesh]]:
    """What is worn below the waist, and the legs that are bare below it."""
    h, t = m.height, m.trunk
    trunk = np.asarray(skeleton.trunk)
    pieces: _Pieces = []
    kind = None if spec.bottom is None else spec.bottom.kind
    # Trousers end inside boots and show the heel of a slipper.
    ankle = {"shoes": 0.98, "boots": 0.76, "slippers": 0.93}[spec.footwear]
    if spec.bottom is None or kind in _SKIRTS:
        long = 0.86 if kind == "long skirt" else jitter(rng, 0.5, 0.1)
        # Cross-legged laps are covered to the knee only: further down the legs cross, and cloth would tie them up.
        if spec.pose in ("cross-legged", "ground"):
            long = 0.46
        elif spec.pose == "stool":
            long = min(long, 0.8)
        flare = jitter(rng, 0.035, 0.5)
        owner, material = ("top", _cloth(spec.top)) if spec.bottom is None else ("bottom", _cloth(spec.bottom))
        if kind == "flared skirt" or spec.top.kind == "summer dress":
            pieces.append((owner, [flared_skirt(skeleton, sections, m, 1.06 * long, flare + 0.045)], material))
            band = sash(sections, m).transformed(trunk)
            pieces.append((owner, [band], _trims(spec.bottom or spec.top, 0.35)))
        else:
            pieces.append((owner, [skirt(skeleton, sections, m, long, flare)], material))
        covered = 0.15
    elif spec.bottom.kind == "slacks":
        covered = ankle
        cloth, creases = slacks(sections, m, legs, trunk, covered)
        pieces.append(("bottom", cloth, _cloth(spec.bottom)))
        pieces.append(("bottom", creases, _trims(spec.bottom, 0.12)))
        pieces += _belt(m, sections, trunk)
    elif spec.bottom.kind == "belted shorts":
        covered = 0.40
        cloth, _ = slacks(sections, m, legs, trunk, covered, flare=1.30)
        pieces.append(("bottom", cloth, _cloth(spec.bottom)))
        pieces += _belt(m, sections, trunk)
    elif spec.bottom.kind == "jeans":
        covered = min(ankle, 0.93)
        cloth, light, stitches = jeans(sections, m, legs, trunk, covered)
        pieces.append(("bottom", cloth, _cloth(spec.bottom)))
        if spec.footwear != "boots":
            worn_light = Material(mix(spec.bottom.color, (0.85, 0.90, 1.0), 0.55), roughness=0.9)
            pieces.append(("bottom", light, worn_light))
        pieces.append(("bottom", stitches, Material(_DENIM_THREAD, roughness=0.9)))
        pieces += _belt(m, sections, trunk)
    else:
        covered = min(ankle, 0.98) if spec.bottom.kind == "trousers" else jitter(rng, 0.46, 0.1)
        pants = [stack(between(sections, -0.062 * h, 0.3 * t, 8), sides=16, inflate=0.002 * h).transformed(trunk)]
        pants += [sleeve(leg, 0.0, covered, 0.007 * h, flare=1.18 if covered < 0.6 else 1.1) for leg in legs]
        pieces.append(("bottom", pants, _cloth(spec.bottom)))
    # Bare legs are drawn where boots do not cover them.
    bare = [sleeve(leg, covered - 0.1, 1.0, 0.0) for leg in legs] if covered < 0.97 else []
    return pieces, bare


def _belt(m: Measures, sections: Array, trunk: Array) -> _Pieces:
    strap, buckle = belt(sections, m)
    return [
        ("belt", [mesh.transformed(trunk) for mesh in strap], Material((0.16, 0.10, 0.07), roughness=0.5)),
        ("belt", [mesh.transformed(trunk) for mesh in buckle], Material(_METAL, roughness=0.35, metallic=1.0)),
    ]


def _footwear(spec: PersonSpec, m: Measures, skeleton: Skeleton, legs: list[Array]) -> tuple[_Pieces, list[Mesh]]:
    """What is on the feet, and the feet where they are bare."""
    leather = Material(spec.shoe_color, roughness=0.5)
    if spec.footwear == "boots":
        shafts, soles = boots(skeleton, m, legs)
        dark = Material(mix(spec.shoe_color, (0.05, 0.04, 0.04), 0.75), roughness=0.8)
        return [("footwear", shafts, leather), ("footwear", soles, dark)], []
    if spec.footwear == "slippers":
        caps, lining, feet = slippers(skeleton, m)
        pale = Material(mix(spec.shoe_color, (0.95, 0.92, 0.86), 0.75), roughness=1.0)
        return [("footwear", caps, replace(leather, roughness=1.0)), ("footwear", lining, pale)], feet
    uppers, soles_of_shoes = shoes(skeleton, m)
    pale = Material(mix(spec.shoe_color, (0.85, 0.84, 0.80), 0.7), roughness=0.8)
    return [("footwear", [uppers], leather), ("footwear", [soles_of_shoes], pale)], []


def _person(rng: np.random.Generator, state: str) -> Model:
    return build_person(draw_person(rng, state), rng)


ASSETS: tuple[Asset, ...] = (Asset("person", _person, states=tuple(STATES), size=1.1),)
