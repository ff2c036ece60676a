"""Portraits of people whose skin has a known Monk tone, under light, angle and camera that vary and are known as well.

The tone is that of the skin's material: the colour the skin would have in even white light. What an image shows of it
depends on the light, and judges of skin tone see nothing but the image: how far they err is what these are for. Tone,
light, pose and camera are drawn independently of each other and of everything else about a person.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from verism.errors import UsageError
from verism.files import write_csv, write_json, write_whole
from verism.imaging import encode_png
from verism.simulator.assets.heads import (
    LANDMARKS,
    FaceShape,
    Marks,
    draw_face,
    draw_features,
    fine_face,
    reshaped,
    take_marks,
    textured,
)
from verism.simulator.assets.people import MONK_TONES, Build, HairStyle, PersonSpec, build_parts
from verism.simulator.catalogue import standard_catalogue
from verism.simulator.model import Model, Part, pick
from verism.simulator.renderer import Camera, Placed, render, require_embree
from verism.simulator.scene_renderer import RENDERER_VERSION, SIZES
from verism.simulator.surroundings import Surroundings
from verism.simulator.threads import single_threaded
from verism.simulator.wardrobe import ATTRIBUTES, PLACES, View, dressed_person, frame_person

__all__ = [
    "CASTS",
    "LEVELS",
    "LIGHTS",
    "YAWS",
    "Group",
    "Light",
    "PeopleRenderer",
    "Portrait",
    "RenderedPerson",
    "SeenFace",
    "Shot",
    "draw_light",
    "draw_shot",
    "draw_sitter",
    "light_color",
    "render_group",
    "render_portrait",
    "render_portraits",
]

PORTRAITS_VERSION = 2  # of how heads, light and camera are drawn; part of the names of what renders them

From = Literal["soft", "frontal", "side", "above", "below", "back"]
Cast = Literal["neutral", "warm", "cool", "green"]
Level = Literal["normal", "dim", "bright"]
LIGHTS: tuple[From, ...] = get_args(From)
CASTS: tuple[Cast, ...] = get_args(Cast)
LEVELS: tuple[Level, ...] = get_args(Level)
YAWS = ((0, 15), (15, 30), (30, 45), (45, 60))
"""Ranges of the head's turn, degrees, that images are told apart by."""

# Of the main light: azimuth and elevation in degrees from the camera's side, and the share that comes from everywhere.
_FROM: dict[From, tuple[tuple[float, float], tuple[float, float], tuple[float, float]]] = {
    "soft": ((0, 60), (30, 60), (0.80, 0.95)),
    "frontal": ((0, 20), (10, 45), (0.35, 0.60)),
    "side": ((50, 80), (5, 40), (0.25, 0.45)),
    "above": ((0, 40), (60, 75), (0.35, 0.50)),
    "below": ((0, 40), (-45, -20), (0.40, 0.60)),
    "back": ((130, 170), (15, 50), (0.80, 1.00)),
}
_TEMPERATURES: dict[Cast, tuple[float, float]] = {
    "neutral": (6000, 7000), "warm": (3000, 5000), "cool": (8500, 14000), "green": (4000, 7500),
}  # fmt: skip
_INTENSITIES: dict[Level, tuple[float, float]] = {"normal": (0.75, 1.10), "dim": (0.25, 0.60), "bright": (1.20, 1.60)}
_GREEN = (0.06, 0.22)  # of the light beyond a black body's, as of some tubes, as a share
_EVERYWHERE = 0.7  # share of images whose surroundings are in the light of the face
_CUT = 0.12  # share of portraits whose face the frame may cut
_WORN = (("hat", 0.10), ("glasses", 0.15), ("mask", 0.08))
_LOWEST = 0.2  # metres of the camera above the ground
_WHITE_K = 6504.0  # the camera's white balance

_HAIR: dict[str, tuple[HairStyle, ...]] = {
    "curved": ("long", "bob", "ponytail"),  # those that a hat fits over
    "straight": ("short", "curly", "bald"),
}


@dataclass(frozen=True, kw_only=True)
class Light:
    """Light on a face: one main light and light from everywhere, of one colour.

    Attributes:
        source: where the light mainly comes from.
        cast: name of its colour.
        level: how much light there is.
        azimuth_deg: direction of the main light from the camera, degrees, positive towards the image's right.
        elevation_deg: angle of the main light above the horizon, degrees.
        temperature_k: colour temperature, kelvin; the camera is balanced for 6504 K.
        intensity: light on a surface that faces the camera, relative to the light that would show the skin's own
            colour.
        ambient: share of the light that comes from everywhere, 0 to 1.
        green: green of the light beyond that of its temperature, as a share of it.
        everywhere: whether the surroundings are in this light as well; otherwise they keep their own, as what is seen
            through a window does.
    """

    source: From
    cast: Cast
    level: Level
    azimuth_deg: float
    elevation_deg: float
    temperature_k: float
    intensity: float
    ambient: float
    green: float = 0.0
    everywhere: bool = False


def draw_light(rng: np.random.Generator) -> Light:
    """Where from: evenly, but from below and from behind in one of twenty each; colour and level: usual in three of
    five."""
    source = LIGHTS[int(rng.choice(len(LIGHTS), p=(0.225, 0.225, 0.225, 0.225, 0.05, 0.05)))]
    cast = CASTS[int(rng.choice(len(CASTS), p=(0.6, 0.17, 0.17, 0.06)))]
    level = LEVELS[int(rng.choice(3, p=(0.6, 0.2, 0.2)))]
    azimuth, elevation, ambient = _FROM[source]
    return Light(
        source=source,
        cast=cast,
        level=level,
        azimuth_deg=float(rng.uniform(*azimuth) * rng.choice((-1, 1))),
        elevation_deg=float(rng.uniform(*elevation)),
        temperature_k=float(rng.uniform(*_TEMPERATURES[cast])),
        intensity=float(rng.uniform(*_INTENSITIES[level])),
        ambient=float(rng.uniform(*ambient)),
        green=float(rng.uniform(*_GREEN)) if cast == "green" else 0.0,
        everywhere=bool(rng.random() < _EVERYWHERE),
    )


@lru_cache(maxsize=64)
def light_color(temperature_k: float) -> tuple[float, float, float]:
    """Linear sRGB of a black body as a camera balanced for 6504 K sees it, of luminance 1.

    The Planckian locus by the cubic fits of Kang et al. (2002), J. Korean Phys. Soc. 41(6), 865-871.

    Raises:
        ValueError: outside 2222 to 25000 K.
    """
    if not 2222 <= temperature_k <= 25000:
        raise ValueError(f"light_color: expected 2222 to 25000 K, got {temperature_k:g}")
    r, g, b = _body(temperature_k) / _body(_WHITE_K)
    luminance = 0.2126 * r + 0.7152 * g + 0.0722 * b
    return float(r / luminance), float(g / luminance), float(b / luminance)


def _body(t: float) -> NDArray[np.float64]:
    if t <= 4000:
        x = -0.2661239e9 / t**3 - 0.2343589e6 / t**2 + 0.8776956e3 / t + 0.179910
        y = -0.9549476 * x**3 - 1.37418593 * x**2 + 2.09137015 * x - 0.16748867
    else:
        x = -3.0258469e9 / t**3 + 2.1070379e6 / t**2 + 0.2226347e3 / t + 0.240390
        y = 3.0817580 * x**3 - 5.87338670 * x**2 + 3.75112997 * x - 0.37001483
    xyz = np.array([x / y, 1.0, (1 - x - y) / y])
    to_srgb = np.array([[3.2406, -1.5372, -0.4986], [-0.9689, 1.8758, 0.0415], [0.0557, -0.2040, 1.0570]])
    return np.asarray(np.maximum(to_srgb @ xyz, 1e-3))


def _lit(surroundings: Surroundings, light: Light) -> Surroundings:
    """The same place in another light."""
    color = np.asarray(light_color(light.temperature_k)) * (1.0, 1 + light.green, 1.0)
    color /= 1 + 0.7152 * light.green  # of luminance 1 as before
    az, el = math.radians(light.azimuth_deg), math.radians(light.elevation_deg)
    # The camera looks towards +y, the face towards it.
    direction = (math.sin(az) * math.cos(el), -math.cos(az) * math.cos(el), math.sin(el))
    ambient = light.intensity * light.ambient * color
    # A surface facing the camera gets the rest from the main light; at grazing angles less, or cheeks would burn out.
    frontal = 1 - light.ambient if light.source != "back" else 0.6  # a rim, which the camera sees at the edges only
    sun = math.pi * light.intensity * frontal / max(abs(direction[1]), 0.5) * color
    sides = tuple((float(f * ambient[0]), float(f * ambient[1]), float(f * ambient[2])) for f in (1.15, 1.0, 0.75))
    gain = (light.intensity * color).astype(np.float32)
    far = surroundings.sky  # what is far away is painted, with the light it has
    return replace(
        surroundings,
        sky=(lambda directions: far(directions) * gain) if light.everywhere else far,
        sun_direction=direction,
        sun=(float(sun[0]), float(sun[1]), float(sun[2])),
        ambient=(sides[0], sides[1], sides[2]),
    )


@dataclass(frozen=True, kw_only=True)
class Shot:
    """How a portrait is taken.

    Attributes:
        yaw_deg: turn of the face away from the camera, degrees, positive to the image's right.
        pitch_deg: angle of the camera above the face, degrees; negative from below.
        roll_deg: rotation of the camera about its viewing axis, degrees.
        focal_mm: focal length for a frame 24 mm high, millimetres.
        face_share: height of the face divided by the height of the image, 0 to 1.
        place: name of the environment behind the person.
        shift: how far the face is moved to the right and down from where it usually is, shares of the image.
    """

    yaw_deg: float
    pitch_deg: float
    roll_deg: float
    focal_mm: float
    face_share: float
    place: str
    shift: tuple[float, float] = (0.0, 0.0)

    @property
    def fov_deg(self) -> float:
        """Angle of view."""
        return math.degrees(2 * math.atan(12 / self.focal_mm))


def draw_shot(rng: np.random.Generator, shares: tuple[float, float] = (0.2, 0.66)) -> Shot:
    """Turns up to 55 degrees, small ones more often; camera heights up to 20 degrees, lenses from 28 to 100 mm; one
    face in eight may be cut by the frame.

    Args:
        rng: draws everything.
        shares: smallest and largest height of the face as a share of the image's.
    """
    share = float(math.exp(rng.uniform(*np.log(shares))))
    reach = (1 - share) / 2 if rng.random() >= _CUT else 0.5 - 0.2 * share
    return Shot(
        yaw_deg=float(rng.triangular(-55, 0, 55)),
        pitch_deg=float(rng.uniform(-20, 20)),
        roll_deg=float(rng.normal(0, 6)),
        focal_mm=float(math.exp(rng.uniform(math.log(28), math.log(100)))),
        face_share=share,
        place=pick(rng, PLACES),
        shift=(float(rng.uniform(-reach, reach)), float(rng.uniform(-0.6 * reach, 0.6 * reach))),
    )


@dataclass(frozen=True, eq=False)
class Portrait:
    """A rendered portrait.

    Attributes:
        pixels: sRGB image, (S, S, 3), uint8.
        box: (x0, y0, x1, y1) of the face, pixels, within the image.
        landmarks: (5, 2), x and y in pixels, in the order of ``LANDMARKS``; hidden ones where they would be.
        skin: (S, S), bool, bare skin of the head.
        spec: the person in the image.
        distance_m: distance from camera to face, metres.
    """

    pixels: NDArray[np.uint8]
    box: tuple[float, float, float, float]
    landmarks: NDArray[np.float64]
    skin: NDArray[np.bool_]
    spec: PersonSpec
    distance_m: float


def _portrayed(spec: PersonSpec, shape: FaceShape, seed: int) -> tuple[list[tuple[str, Part]], Marks]:
    built = build_parts(
        spec,
        np.random.default_rng([seed, 1]),
        np.random.default_rng([seed, 4]),
        face=lambda described, _: fine_face(described, shape),
        reshape=lambda mesh: reshaped(mesh, shape.skull),
    )
    return take_marks(textured(built))


def _turned(yaw: float) -> NDArray[np.float64]:
    """A turn about the vertical by radians."""
    matrix = np.eye(4)
    matrix[:2, :2] = [[math.cos(yaw), -math.sin(yaw)], [math.sin(yaw), math.cos(yaw)]]
    return matrix


def _box_of(camera: Camera, outline: NDArray[np.float64], size: int) -> tuple[float, float, float, float]:
    seen = camera.project(outline)[:, :2] * size
    x0, y0 = np.clip(seen.min(axis=0), 0, size)
    x1, y1 = np.clip(seen.max(axis=0), 0, size)
    return float(x0), float(y0), float(x1), float(y1)


def render_portrait(spec: PersonSpec, shape: FaceShape, light: Light, shot: Shot, size: int, *, seed: int) -> Portrait:
    """Head and shoulders of one person.

    Args:
        spec: the person.
        shape: shape of the face.
        light: light on the face.
        shot: camera and pose of the head.
        size: width and height of the image, pixels, 64 to 2048.
        seed: seed of what the description leaves open, and of the environment.

    Raises:
        UsageError: unknown place, or a size outside the simulator's.
    """
    _check_size(size)
    parts, marks = _portrayed(spec, shape, seed)
    # So that the head, not the trunk, is turned as asked: -y is towards the camera, +x the image's right.
    heading = math.atan2(marks.forward[1], marks.forward[0])
    matrix = _turned(math.radians(-90.0 + shot.yaw_deg) - heading)
    points = marks.points @ matrix[:3, :3].T
    outline = marks.outline @ matrix[:3, :3].T
    middle = outline.mean(axis=0)
    tall = float(np.ptp(outline[:, 2]))
    distance = tall / (shot.face_share * 2 * math.tan(math.radians(shot.fov_deg) / 2))
    pitch = math.radians(shot.pitch_deg)
    position = middle + distance * np.array([0.0, -math.cos(pitch), math.sin(pitch)])
    # A little below the face, so that shoulders are in the image.
    across, down = (s * tall / shot.face_share for s in shot.shift)
    target = middle - np.array([across, 0.0, 0.12 * tall / shot.face_share - down])
    camera = Camera(
        position=(float(position[0]), float(position[1]), max(float(position[2]), _LOWEST)),
        target=(float(target[0]), float(target[1]), float(target[2])),
        fov=shot.fov_deg,
        roll=shot.roll_deg,
    )
    location = standard_catalogue().environment(shot.place).build(np.random.default_rng([seed, 2]))
    image, number = _render(parts, matrix, _lit(location, light), camera, size)
    return Portrait(
        pixels=image.pixels,
        box=_box_of(camera, outline, size),
        landmarks=camera.project(points)[:, :2] * size,
        skin=image.mask == number["flesh"],
        spec=spec,
        distance_m=distance,
    )


# ------------------------------------------------------------------------------------------------------------- groups
@dataclass(frozen=True, eq=False)
class SeenFace:
    """A face of a group as the image shows it.

    Attributes:
        box: (x0, y0, x1, y1), pixels, within the image.
        tone: Monk Skin Tone of its material, 1 to 10.
        visible: share of the box that shows this face, with what is worn on it; 0 to 1.
    """

    box: tuple[float, float, float, float]
    tone: int
    visible: float


@dataclass(frozen=True, eq=False)
class Group:
    """Several people in one image: ``pixels`` (S, S, 3) uint8 and their faces, those hidden or outside included."""

    pixels: NDArray[np.uint8]
    faces: tuple[SeenFace, ...]


_FACE_PARTS = ("flesh", "head", "glasses", "mask")


def render_group(
    sitters: Sequence[tuple[PersonSpec, FaceShape]], light: Light, shot: Shot, size: int, *, seed: int
) -> Group:
    """People side by side, some nearer than others, each turned another way.

    Args:
        sitters: the people, with their faces, from the image's left to its right; at least one.
        light: light on all of them.
        shot: camera and place; its ``yaw_deg`` and ``face_share`` are not used.
        size: width and height of the image, pixels, 64 to 2048.
        seed: seed of what the descriptions leave open, of where people stand, and of the environment.

    Raises:
        UsageError: unknown place, or a size outside the simulator's.
    """
    _check_size(size)
    rng = np.random.default_rng([seed, 5])
    items, outlines, x = [], [], 0.0
    for number, (spec, shape) in enumerate(sitters):
        parts, marks = _portrayed(spec, shape, seed + number)
        heading = math.atan2(marks.forward[1], marks.forward[0])
        matrix = _turned(math.radians(-90.0 + float(rng.triangular(-50, 0, 50))) - heading)
        matrix[:3, 3] = (x, float(rng.uniform(0, 1.0)), 0.0)
        x += float(rng.uniform(0.5, 0.9))
        faces = [part for name, part in parts if name in _FACE_PARTS]
        others = [part for name, part in parts if name not in _FACE_PARTS]
        items += [Placed(Model(tuple(faces)), matrix), Placed(Model(tuple(others)), matrix)]
        outlines.append(marks.outline @ matrix[:3, :3].T + matrix[:3, 3])
    middles = np.stack([outline.mean(axis=0) for outline in outlines])
    low, high = middles.min(axis=0), middles.max(axis=0)
    middle, half = (low + high) / 2, max(high[0] - low[0], high[2] - low[2]) / 2 + 0.25
    distance = half * float(rng.uniform(1.0, 1.7)) / math.tan(math.radians(shot.fov_deg) / 2) + 0.5
    pitch = math.radians(shot.pitch_deg * 0.7)
    position = middle + distance * np.array([0.0, -math.cos(pitch), math.sin(pitch)])
    target = middle - np.array([0.0, 0.0, float(rng.uniform(0.0, 0.5)) * half])
    camera = Camera(
        position=(float(position[0]), float(position[1]), max(float(position[2]), _LOWEST)),
        target=(float(target[0]), float(target[1]), float(target[2])),
        fov=shot.fov_deg,
        roll=shot.roll_deg,
    )
    location = standard_catalogue().environment(shot.place).build(np.random.default_rng([seed, 2]))
    image = render(items, _lit(location, light), camera, size)
    seen = []
    for number, ((spec, _), outline) in enumerate(zip(sitters, outlines, strict=True)):
        x0, y0, x1, y1 = _box_of(camera, outline, size)
        own = image.mask[int(y0) : math.ceil(y1), int(x0) : math.ceil(x1)] == 2 * number + 1
        visible = float(own.mean()) if own.size else 0.0
        seen.append(SeenFace(box=(x0, y0, x1, y1), tone=spec.skin_tone, visible=visible))
    return Group(pixels=image.pixels, faces=tuple(seen))


def _render(
    parts: list[tuple[str, Part]], matrix: NDArray[np.float64], place: Surroundings, camera: Camera, size: int
) -> tuple[Any, dict[str, int]]:
    """The image, and the number in its mask of what each part belongs to."""
    groups: dict[str, list[Part]] = {}
    for name, part in parts:
        groups.setdefault(name if name == "flesh" else "other", []).append(part)
    items = [Placed(Model(tuple(members)), matrix) for members in groups.values()]
    return render(items, place, camera, size), {name: k + 1 for k, name in enumerate(groups)}


def _check_size(size: int) -> None:
    if not SIZES[0] <= size <= SIZES[1]:
        raise UsageError(f"size must be {SIZES[0]} to {SIZES[1]} pixels, got {size}")


# ------------------------------------------------------------------------------------------------------------ folders
def draw_sitter(rng: np.random.Generator, tone: int) -> tuple[PersonSpec, FaceShape]:
    """A clothed person of a tone with a face, everything else drawn whatever the tone is.

    Args:
        rng: draws everything.
        tone: Monk Skin Tone, 1 (lightest) to 10 (darkest).
    """
    outfit = {pick(rng, ("", "shirt", "jacket", "suit", "dress"))}
    outfit |= {name for name, share in _WORN if rng.random() < share}
    outfit.discard("")
    builds: tuple[Build, ...] = ("slim", "average", "average", "stout", "stout", "child")
    spec = dressed_person(rng, outfit, skin_tone=tone, pose="relaxed", build=pick(rng, builds))
    shape = draw_face(rng)
    if spec.build == "child":
        spec = replace(spec, height_m=float(rng.uniform(1.05, 1.35)), facial_hair="none")
        shape = replace(
            shape, age=0.0, nose_length=0.75 * shape.nose_length, eye_size=1.12 * shape.eye_size, lip_color=None
        )
    return draw_features(rng, spec, shape)


@dataclass(frozen=True)
class RenderedPortraits:
    """What ``render_portraits`` wrote. ``table``: the truth. ``images``: how many."""

    table: Path
    images: int


def render_portraits(
    out: Path, count: int, *, seed: int = 0, size: int = 256, on_image: Callable[[int], None] | None = None
) -> RenderedPortraits:
    """Write ``count`` portraits with their truth to a new folder: ``images/``, ``truth.csv``, ``definitions.json``.

    Tones go round, so their numbers differ by at most one. Columns of the table: ``path`` (from the table), ``tone``
    (1 to 10), ``x0``, ``y0``, ``x1``, ``y1`` (the face, pixels), ``{landmark}_x`` and ``_y``, ``skin_share`` (of the
    face box that is bare skin), ``red``, ``green``, ``blue`` (median colour of that skin as the image shows it),
    the fields of ``Light`` and ``Shot``, ``yaw_range``, ``distance_m``, and of the person ``skin`` (matte or with
    sheen), ``figure``, ``hair``, ``facial_hair``, ``glasses``, ``hat``, ``mask``, ``age``, ``build``. The same seed and
    size give the same files, and the first images do not depend on how many follow.

    Args:
        out: folder to write to, new or empty.
        count: number of images, at least 1.
        seed: seed of all random draws.
        size: width and height of the image, pixels, 64 to 2048.
        on_image: called with the number of images done after each.

    Raises:
        UsageError: a count below one, a folder that is not empty, a size out of range.
    """
    if count < 1:
        raise UsageError(f"count={count}: expected one image or more")
    _check_size(size)
    if out.exists() and any(out.iterdir()):
        raise UsageError(f"{out} is not empty; name a new folder")
    (out / "images").mkdir(parents=True, exist_ok=True)
    rows = []
    for number in range(count):
        tone = number % len(MONK_TONES) + 1
        rng = np.random.default_rng([seed, number, 0x907])
        light, shot = draw_light(rng), draw_shot(rng)
        spec, shape = draw_sitter(rng, tone)
        portrait = render_portrait(spec, shape, light, shot, size, seed=int(rng.integers(2**31)))
        name = f"images/{number:05d}_tone{tone:02d}.png"
        write_whole(out / name, encode_png(portrait.pixels), sync=False)
        rows.append({"path": name, **_facts(portrait, shape, light, shot)})
        if on_image is not None:
            on_image(number + 1)
    path = out / "truth.csv"
    write_csv(path, list(rows[0]), (row.values() for row in rows))
    made = {
        "portraits": PORTRAITS_VERSION,
        "renderer": RENDERER_VERSION,
        "seed": seed,
        "size": size,
        "count": count,
        "command": f"verism scenes portraits --count {count} --size {size} --seed {seed}",
        "swatches": [[round(255 * c) for c in color] for color in MONK_TONES],
    }
    write_json(out / "definitions.json", made)
    return RenderedPortraits(table=path, images=count)


def _facts(portrait: Portrait, shape: FaceShape, light: Light, shot: Shot) -> dict[str, Any]:
    """A row of the table but for the path."""
    x0, y0, x1, y1 = portrait.box
    inside = portrait.skin[int(y0) : math.ceil(y1), int(x0) : math.ceil(x1)]
    seen = portrait.pixels[portrait.skin]
    color = np.median(seen, axis=0) if len(seen) else np.full(3, np.nan)
    low, high = next(r for r in YAWS if abs(shot.yaw_deg) < r[1])
    spec = portrait.spec
    facts: dict[str, Any] = {
        "tone": spec.skin_tone,
        **{k: round(v, 1) for k, v in zip(("x0", "y0", "x1", "y1"), portrait.box, strict=True)},
    }
    for name, (x, y) in zip(LANDMARKS, portrait.landmarks.tolist(), strict=True):
        facts |= {f"{name}_x": round(x, 1), f"{name}_y": round(y, 1)}
    facts |= {"skin_share": round(float(inside.mean()), 4)}
    facts |= {k: round(float(v), 1) for k, v in zip(("red", "green", "blue"), color, strict=True)}
    facts |= {
        "light": light.source,
        "cast": light.cast,
        "level": light.level,
        "light_azimuth_deg": round(light.azimuth_deg, 1),
        "light_elevation_deg": round(light.elevation_deg, 1),
        "temperature_k": round(light.temperature_k),
        "intensity": round(light.intensity, 3),
        "ambient": round(light.ambient, 3),
        "green": round(light.green, 3),
        "everywhere": int(light.everywhere),
        "skin": "sheen" if shape.sheen else "matte",
        "yaw_range": f"{low}-{high}",
        "yaw_deg": round(shot.yaw_deg, 1),
        "pitch_deg": round(shot.pitch_deg, 1),
        "roll_deg": round(shot.roll_deg, 1),
        "focal_mm": round(shot.focal_mm, 1),
        "distance_m": round(portrait.distance_m, 2),
        "place": shot.place,
        "figure": spec.figure,
        "hair": shape.cover or spec.hair,
        "facial_hair": shape.growth or spec.facial_hair,
        "glasses": shape.frames or ("round" if spec.glasses else "none"),
        "hat": int(spec.hat_color is not None),
        "mask": int(spec.mask_color is not None),
        "age": round(shape.age, 3),
        "build": spec.build,
    }
    return facts


# ------------------------------------------------------------------------------------------------------------- people
@dataclass(frozen=True, eq=False)
class RenderedPerson:
    """A person as ``PeopleRenderer`` renders one: pixels (S, S, 3) uint8 and the box of the face in pixels."""

    pixels: NDArray[np.uint8]
    face: tuple[float, float, float, float]


class PeopleRenderer:
    """Renders a person of a given look, tone and clothes, from the front and in plain light.

    Args:
        size: width and height in pixels. view: what is in the image; ``full`` shows all clothes, ``bust`` the face.

    Raises:
        UsageError: a size outside the simulator's, or an unknown view.
        MissingExtra: Embree is not installed.
    """

    def __init__(self, size: int = 256, view: View = "full") -> None:
        _check_size(size)
        if view not in get_args(View) or view == "lower":
            raise UsageError(f"view must be full, upper or bust, got {view!r}")
        require_embree()
        self.size = size
        self.view = view
        self.name = f"people-{RENDERER_VERSION}.{PORTRAITS_VERSION}@{size}&view={view}"
        self.attributes = tuple(ATTRIBUTES)

    @single_threaded
    def render(self, *, woman: bool, tone: int, worn: Collection[str], seed: int) -> RenderedPerson:
        """A person that most would call a woman, or a man, by hair and figure as drawings have them.

        Args:
            woman: whether to draw a woman (True) or a man.
            tone: Monk Skin Tone, 1 (lightest) to 10 (darkest).
            worn: keys of ``attributes`` that can be worn together.
            seed: seed of all random draws.
        """
        rng = np.random.default_rng([seed, 0x9E0])
        figure: Literal["straight", "curved"] = "curved" if woman else "straight"
        hair = pick(rng, _HAIR[figure])
        subset = int(rng.integers(2**31))
        spec = dressed_person(rng, worn, skin_tone=tone, figure=figure, hair=hair, pose="relaxed")
        if spec.facial_hair == "none" and not woman and rng.random() < 0.25:
            spec = replace(spec, facial_hair="beard")
        parts, marks = _portrayed(spec, draw_face(rng), subset)
        heading = math.atan2(marks.forward[1], marks.forward[0])
        matrix = _turned(math.radians(-90.0 + float(rng.uniform(-8, 8))) - heading)
        camera = frame_person([part for _, part in parts], matrix, self.view, rng)
        light = Light(
            source="soft",
            cast="neutral",
            level="normal",
            azimuth_deg=float(rng.uniform(-40, 40)),
            elevation_deg=float(rng.uniform(30, 55)),
            temperature_k=_WHITE_K,
            intensity=1.0,
            ambient=0.75,
        )
        position = standard_catalogue().environment(pick(rng, PLACES)).build(np.random.default_rng([subset, 2]))
        image, _ = _render(parts, matrix, _lit(position, light), camera, self.size)
        return RenderedPerson(pixels=image.pixels, face=_box_of(camera, marks.outline @ matrix[:3, :3].T, self.size))
