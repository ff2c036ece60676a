"""Images of people in known clothes: exact labels to measure judges of clothing with.

Images come in pairs, each of one block. A block is one attribute ("boots", "suit" ...). The two images of a pair
show the same body, pose, place, light and camera, and the same clothes but for that attribute: it is worn in one and
not in the other. So within a block exactly half of the images show it, and nothing else a judge could go by (skin
tone, hair, build, background) differs between those that do and those that do not.

A label says what can be seen, measured on the image: 1 means that the garment is modelled and that at least
``MIN_VISIBLE`` of it is visible; 0 that it is not worn; no label that the attribute is open (a t-shirt is neither "a
shirt" as defined here nor clearly none; of a garment mostly hidden cannot be decided). In its own block every image has
a label.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from verism.errors import UsageError, VerismError
from verism.files import write_csv, write_json, write_whole
from verism.imaging import encode_png
from verism.simulator.assets.people import (
    MONK_TONES,
    Build,
    Color,
    Figure,
    Garment,
    HairStyle,
    PersonSpec,
    Pose,
    build_parts,
)
from verism.simulator.catalogue import standard_catalogue
from verism.simulator.model import Model, Part, Pattern, pick
from verism.simulator.renderer import Camera, Placed, render, silhouette
from verism.simulator.scene_renderer import RENDERER_VERSION, SIZES

__all__ = [
    "ATTRIBUTES",
    "HAIR",
    "MIN_VISIBLE",
    "PLACES",
    "DressedImage",
    "RenderedPeople",
    "View",
    "dressed_person",
    "frame_person",
    "label",
    "render_people",
    "render_person",
]

ATTRIBUTES: dict[str, str] = {
    "boots": "leather boots to the middle of the shin, trousers tucked in; otherwise low shoes or slippers",
    "slippers": "house slippers, open at the heel, on bare feet; otherwise low shoes or boots",
    "jeans": "blue denim trousers with orange stitching, pockets and turned-up hems; otherwise another lower garment",
    "shorts": "trousers that end above the knee; otherwise another lower garment",
    "slacks": "plain dress trousers with pressed creases and a belt; otherwise another lower garment",
    "dress": "a one-piece sleeveless dress with a flared skirt and a sash; otherwise a top with a lower garment",
    "skirt": "a skirt with waistband, flared or straight to the knee, below a separate top; otherwise another lower "
    "garment",
    "suit": "jacket with lapels and creased trousers of one cloth over a shirt; otherwise separate clothes",
    "shirt": "a long-sleeved shirt with collar, buttons, pocket and cuffs; otherwise a zipped jacket or a dress",
    "jacket": "a short, thick jacket with collar and ribbed bands, zipped up; otherwise a shirt, t-shirt or dress",
    "hat": "a hat with a round brim and a ribbon, worn over the hair; otherwise a bare head",
    "tie": "a long tie on a collared shirt or in a suit; otherwise the same clothes without it",
    "mask": "a pleated face mask over nose, mouth and chin; otherwise a bare face",
    "gloves": "padded gloves with fingers and cuffs; otherwise bare hands",
    "glasses": "glasses with round frames; otherwise none",
}
"""What each attribute means here, worn and not worn. All but ``glasses`` are attributes of the GEP study, whose
"uniform" is left out: no drawing of ours would be one to everybody."""

MIN_VISIBLE = 0.5
"""Least share of a garment's own outline, parts beyond the frame included, that is visible where its label is 1."""

MIN_IMAGE = 0.0008
"""Least share of the image that a garment of label 1 takes: 52 pixels at 256 x 256."""

HAIR: tuple[HairStyle, ...] = ("bald", "short", "curly", "bob", "long", "ponytail")
"""Hair that a hat fits over; the same for all blocks."""

PLACES = ("photo_studio", "meadow", "beach", "city_plaza", "autumn_park", "living_room", "snowfield", "tiled_hall")

View = Literal["full", "upper", "bust", "lower"]
"""What the image frames: the whole person, from the knees up, from the waist up, or from the chest down."""

POSES: tuple[Pose, ...] = ("relaxed", "hands on hips", "waving", "walking")
BUILDS: tuple[Build, ...] = ("slim", "average", "stout")

_ONE_OF = (
    ("boots", "slippers"),
    ("jeans", "shorts", "slacks", "skirt", "dress", "suit"),
    ("shirt", "jacket", "dress", "suit"),
)
_PARTS_OF = {
    "boots": ("footwear",),
    "slippers": ("footwear",),
    "jeans": ("bottom",),
    "shorts": ("bottom",),
    "slacks": ("bottom",),
    "dress": ("top",),
    "skirt": ("bottom",),
    "suit": ("top", "bottom"),
    "shirt": ("top",),
    "jacket": ("top",),
    "hat": ("hat",),
    "tie": ("tie",),
    "mask": ("mask",),
    "gloves": ("gloves",),
    "glasses": ("glasses",),
}
_VIEWS: dict[str, tuple[View, ...]] = {
    "boots": ("full", "lower"),
    "slippers": ("full", "lower"),
    "shirt": ("full", "upper"),
    "jacket": ("full", "upper"),
    "hat": ("full", "upper", "bust"),
    "tie": ("full", "upper", "bust"),
    "gloves": ("full", "upper"),
    # Small things are shown near by.
    "mask": ("upper", "bust"),
    "glasses": ("upper", "bust"),
}
ATTEMPTS = 16  # poses and cameras tried until a pair shows what it has to

# Colours that each garment comes in; none belongs to one attribute alone but denim's blue.
_BRIGHT: tuple[Color, ...] = (
    (0.72, 0.13, 0.15),
    (0.85, 0.45, 0.15),
    (0.88, 0.74, 0.25),
    (0.20, 0.48, 0.25),
    (0.13, 0.45, 0.48),
    (0.20, 0.34, 0.66),
    (0.45, 0.26, 0.55),
    (0.86, 0.52, 0.62),
)
_WHITE: Color = (0.93, 0.93, 0.92)
_SHIRTS: tuple[Color, ...] = (
    _WHITE,
    (0.62, 0.76, 0.90),
    (0.92, 0.78, 0.80),
    (0.30, 0.42, 0.62),
    (0.80, 0.86, 0.74),
    (0.48, 0.20, 0.24),
)
_JACKETS: tuple[Color, ...] = (
    (0.12, 0.12, 0.13),
    (0.32, 0.36, 0.22),
    (0.16, 0.22, 0.38),
    (0.42, 0.26, 0.16),
    (0.60, 0.14, 0.14),
    (0.78, 0.62, 0.20),
)
_SUITS: tuple[Color, ...] = (
    (0.13, 0.13, 0.15),
    (0.14, 0.18, 0.32),
    (0.34, 0.35, 0.38),
    (0.52, 0.52, 0.54),
    (0.34, 0.26, 0.20),
    (0.66, 0.58, 0.46),
)
_DENIM: tuple[Color, ...] = ((0.16, 0.25, 0.44), (0.24, 0.37, 0.58), (0.36, 0.50, 0.70))
_SLACKS: tuple[Color, ...] = (
    (0.14, 0.14, 0.16),
    (0.40, 0.40, 0.42),
    (0.66, 0.57, 0.43),
    (0.30, 0.24, 0.19),
    (0.80, 0.77, 0.70),
)
_SHORTS: tuple[Color, ...] = ((0.66, 0.57, 0.43), (0.18, 0.22, 0.36), (0.34, 0.38, 0.26), (0.62, 0.20, 0.18))
_LEATHER: tuple[Color, ...] = ((0.10, 0.09, 0.09), (0.34, 0.19, 0.10), (0.56, 0.36, 0.18))
_HATS: tuple[Color, ...] = ((0.84, 0.74, 0.52), (0.30, 0.22, 0.16), (0.14, 0.14, 0.15), (0.46, 0.46, 0.44))
_MASKS: tuple[Color, ...] = ((0.56, 0.78, 0.90), (0.95, 0.95, 0.95), (0.10, 0.10, 0.11))
_GLOVES: tuple[Color, ...] = (
    (0.12, 0.12, 0.13),
    (0.70, 0.14, 0.14),
    (0.92, 0.92, 0.90),
    (0.20, 0.34, 0.66),
    (0.88, 0.70, 0.20),
)
_FRAMES: tuple[Color, ...] = ((0.08, 0.07, 0.08), (0.50, 0.12, 0.12), (0.86, 0.84, 0.78), (0.84, 0.66, 0.22))
_HAIR_COLORS: tuple[Color, ...] = (
    (0.06, 0.05, 0.05),
    (0.20, 0.12, 0.08),
    (0.45, 0.28, 0.14),
    (0.76, 0.60, 0.34),
    (0.68, 0.68, 0.68),
)


def dressed_person(
    rng: np.random.Generator,
    attributes: Collection[str],
    *,
    skin_tone: int | None = None,
    build: Build | None = None,
    figure: Figure | None = None,
    hair: HairStyle | None = None,
    pose: Pose | None = None,
) -> PersonSpec:
    """A person who wears the attributes named, and none of the others of ``ATTRIBUTES``.

    Everything is drawn from ``rng`` in one order whatever the attributes: with a generator of the same seed, other
    attributes dress the same body, and a garment worn in both has the same cloth. Where no lower garment is named it is
    a pair of plain trousers, where no top is named a t-shirt, and where no footwear is named low shoes.

    Args:
        rng: generator of all random draws.
        attributes: keys of ``ATTRIBUTES``; at most one lower garment, one top, one footwear; a tie needs a shirt or a
            suit.
        skin_tone: Monk Skin Tone, 1 (lightest) to 10 (darkest); drawn evenly if None.
        build: body build; drawn evenly if None.
        figure: outline of the trunk; drawn evenly if None.
        hair: hair style; drawn evenly if None.
        pose: how the body is held; drawn evenly if None.

    Raises:
        UsageError: an unknown attribute, or several that cannot be worn together.
    """
    _check(attributes)
    drawn_tone = int(rng.integers(1, len(MONK_TONES) + 1))
    drawn_build, drawn_figure = pick(rng, BUILDS), pick(rng, get_args(Figure))
    height = float(rng.uniform(1.58, 1.88))
    drawn_hair, hair_color, drawn_pose = pick(rng, HAIR), pick(rng, _HAIR_COLORS), pick(rng, POSES)
    skin = MONK_TONES[(drawn_tone if skin_tone is None else skin_tone) - 1]
    bearded = bool(rng.random() < 0.15)
    cloth = {
        name: _shade(rng, pick(rng, colors), 0.02 if name == "jeans" else 0.04)
        for name, colors in (
            ("dress", _BRIGHT),
            ("skirt", _BRIGHT),
            ("t-shirt", _BRIGHT),
            ("shirt", _SHIRTS),
            ("jacket", _JACKETS),
            ("suit", _SUITS),
            ("jeans", _DENIM),
            ("slacks", _SLACKS),
            ("shorts", _SHORTS),
            ("boots", _LEATHER),
            ("shoes", (*_LEATHER, (0.88, 0.88, 0.86))),
            ("slippers", _BRIGHT),
            ("hat", _HATS),
        )
    }
    # What is small has to stand out from what it lies on, or nobody could tell whether it is there.
    tops = (cloth["t-shirt"], cloth["shirt"], cloth["jacket"], cloth["suit"])
    for name, colors in (
        ("tie", _apart(_BRIGHT, cloth["shirt"], _WHITE, keep=4)),
        ("mask", _apart(_MASKS, skin)),
        ("gloves", _apart(_GLOVES, skin, *tops)),
        ("frames", _apart(_FRAMES, skin)),
    ):
        cloth[name] = _shade(rng, pick(rng, colors))
    # A top and a skirt of one colour would look like a dress.
    while min(_distance(cloth["skirt"], cloth[top]) for top in ("t-shirt", "shirt", "jacket")) < 0.25:
        cloth["skirt"] = _shade(rng, pick(rng, _BRIGHT))
    # A jacket in the colour of the trousers would look like a suit.
    while min(_distance(cloth["jacket"], cloth[low]) for low in ("slacks", "jeans", "shorts")) < 0.15:
        cloth["jacket"] = _shade(rng, pick(rng, _JACKETS))
    dotted = Pattern("dots", (0.94, 0.93, 0.90), scale=0.09, axis="y") if rng.random() < 0.3 else None
    flared = bool(rng.random() < 0.7)
    striped = bool(rng.random() < 0.5)
    checked = Pattern("checks", (0.93, 0.93, 0.92), scale=0.09, strength=0.6) if rng.random() < 0.25 else None
    irises = pick(rng, ((0.13, 0.08, 0.05), (0.22, 0.14, 0.07), (0.20, 0.36, 0.50), (0.25, 0.36, 0.22)))

    worn = set(attributes)
    if "dress" in worn:
        top, bottom = Garment("summer dress", cloth["dress"], dotted), None
    else:
        if "suit" in worn:
            top, low = Garment("suit jacket", cloth["suit"]), Garment("slacks", cloth["suit"])
        else:
            if "shirt" in worn:
                top = Garment("button-up shirt", cloth["shirt"], checked)
            elif "jacket" in worn:
                top = Garment("zipped jacket", cloth["jacket"])
            else:
                top = Garment("t-shirt", cloth["t-shirt"])
            if "jeans" in worn:
                low = Garment(
                    "jeans",
                    cloth["jeans"],
                    Pattern("speckle", (0.62, 0.72, 0.86), scale=0.006, strength=0.15, axis="x"),
                )
            elif "shorts" in worn:
                low = Garment("belted shorts", cloth["shorts"])
            elif "skirt" in worn:
                low = Garment("flared skirt" if flared else "skirt", cloth["skirt"])
            else:
                low = Garment("slacks" if "slacks" in worn else "trousers", cloth["slacks"])
        bottom = low
    footwear: Literal["shoes", "boots", "slippers"] = (
        "boots" if "boots" in worn else "slippers" if "slippers" in worn else "shoes"
    )
    chosen_build = build or drawn_build
    chosen_figure = figure or drawn_figure
    return PersonSpec(
        skin_tone=drawn_tone if skin_tone is None else skin_tone,
        build=chosen_build,
        figure=chosen_figure,
        height_m=height,
        hair=hair or drawn_hair,
        hair_color=hair_color,
        facial_hair="beard" if bearded and chosen_figure == "straight" else "none",
        eye_color=irises,
        top=top,
        bottom=bottom,
        shoe_color=cloth[footwear],
        headwear_color=cloth["hat"],
        glasses="glasses" in worn,
        pose=pose or drawn_pose,
        footwear=footwear,
        inner_color=cloth["shirt"] if sum(cloth["shirt"]) > 1.8 else _WHITE,
        hat_color=cloth["hat"] if "hat" in worn else None,
        tie_color=cloth["tie"] if "tie" in worn else None,
        tie_stripes=_WHITE if "tie" in worn and striped else None,
        mask_color=cloth["mask"] if "mask" in worn else None,
        glove_color=cloth["gloves"] if "gloves" in worn else None,
        frame_color=cloth["frames"],
    )


def _check_names(attributes: Collection[str]) -> None:
    if unknown := sorted(set(attributes) - set(ATTRIBUTES)):
        raise UsageError(f"unknown attribute {', '.join(map(repr, unknown))}; there are {', '.join(ATTRIBUTES)}")


def _check(attributes: Collection[str]) -> None:
    _check_names(attributes)
    for group in _ONE_OF:
        if len(both := [a for a in group if a in attributes]) > 1:
            raise UsageError(f"{' and '.join(map(repr, both))} cannot be worn together; name one of {', '.join(group)}")
    if "tie" in attributes and not {"shirt", "suit"} & set(attributes):
        raise UsageError("a 'tie' needs a collar: name 'shirt' or 'suit' besides")


def _shade(rng: np.random.Generator, color: Color, spread: float = 0.04) -> Color:
    r, g, b = np.clip(np.asarray(color) + rng.uniform(-spread, spread, 3), 0.02, 0.97)
    return float(r), float(g), float(b)


def _apart(colors: Sequence[Color], *others: Color, keep: int = 2) -> list[Color]:
    """The ``keep`` colours that differ most from all the others."""
    return sorted(colors, key=lambda color: -min(_distance(color, other) for other in others))[:keep]


def _distance(a: Color, b: Color) -> float:
    return float(np.linalg.norm(np.subtract(a, b)))


# ---------------------------------------------------------------------------------------------------------- labels
def label(spec: PersonSpec, attribute: str) -> bool | None:
    """Whether the person described wears the attribute as ``ATTRIBUTES`` defines it; None: open.

    Raises:
        UsageError: unknown attribute.
    """
    _check_names({attribute})
    top = spec.top.kind
    low = None if spec.bottom is None else spec.bottom.kind
    suit = top == "suit jacket" and low == "slacks" and spec.bottom is not None and spec.bottom.color == spec.top.color
    open_or_not: dict[str, bool | None] = {
        "boots": spec.footwear == "boots",
        "slippers": spec.footwear == "slippers",
        "jeans": low == "jeans",
        "shorts": low in ("shorts", "belted shorts"),
        # Plain trousers may pass for slacks, and so may those of a suit.
        "slacks": None if low == "trousers" or suit else low == "slacks",
        "dress": top in ("dress", "summer dress"),
        "skirt": low in ("skirt", "long skirt", "flared skirt"),
        "suit": suit,
        # "Shirt" may mean any top with sleeves or straps, and a suit shows part of one.
        "shirt": True
        if top == "button-up shirt"
        else False
        if top in ("zipped jacket", "summer dress", "dress")
        else None,
        "jacket": None if top == "suit jacket" else top in ("jacket", "zipped jacket"),
        "hat": spec.hat_color is not None
        or (None if spec.hair in ("cap", "beanie", "headscarf") else spec.hair == "hat"),
        "tie": spec.tie_color is not None,
        "mask": spec.mask_color is not None,
        "gloves": spec.glove_color is not None,
        "glasses": spec.glasses,
    }
    return open_or_not[attribute]


# ---------------------------------------------------------------------------------------------------------- images
@dataclass(frozen=True, eq=False)
class DressedImage:
    """A rendered person.

    Attributes:
        pixels: sRGB, shape (H, W, 3), uint8.
        visible: for each attribute worn, the share of the garment that is visible: its pixels in the image by the
            pixels it would cover alone in an image large enough to hold all of it; in [0, 1].
        area: for each attribute worn, the share of the image its visible pixels take.
        labels: attribute -> 1, 0 or None (open), see the module.
    """

    pixels: NDArray[np.uint8]
    visible: Mapping[str, float]
    area: Mapping[str, float]
    labels: Mapping[str, int | None]


def render_person(
    spec: PersonSpec,
    size: int,
    *,
    place: str = "photo_studio",
    view: View = "full",
    turn: float = 0.0,
    seed: int = 0,
    alongside: PersonSpec | None = None,
) -> DressedImage:
    """One person, alone in the image.

    Args:
        spec: the person and the clothes.
        size: width and height of the image, pixels, 64 to 2048.
        place: name of an environment of the simulator.
        view: what the camera frames: ``full``, ``upper``, ``bust`` or ``lower``.
        turn: turn of the person away from the camera, degrees, positive to the image's right.
        seed: seed of what the description leaves open, of the environment and of the camera.
        alongside: another description that the same camera has to frame, so that two images differ in clothes only.

    Raises:
        UsageError: unknown place, or a size outside the simulator's.
    """
    if not SIZES[0] <= size <= SIZES[1]:
        raise UsageError(f"size must be {SIZES[0]} to {SIZES[1]} pixels, got {size}")
    named = _built(spec, seed)
    surroundings = standard_catalogue().environment(place).build(np.random.default_rng([seed, 2]))
    camera_rng = np.random.default_rng([seed, 3])
    # Faces +x as built and -y, the camera, when shown from the front.
    yaw = math.radians(-90.0 + turn)
    matrix = np.eye(4)
    matrix[:2, :2] = [[math.cos(yaw), -math.sin(yaw)], [math.sin(yaw), math.cos(yaw)]]
    framed = named if alongside is None else [*named, *_built(alongside, seed)]
    camera = frame_person([part for _, part in framed], matrix, view, camera_rng)
    groups: dict[str, list[Part]] = {}
    for name, part in named:
        groups.setdefault(name, []).append(part)
    # Each garment is an item of its own, so the renderer's mask tells them apart.
    items = [Placed(Model(tuple(parts)), matrix) for parts in groups.values()]
    image = render(items, surroundings, camera, size, exposure=float(camera_rng.uniform(0.92, 1.08)))
    number = {name: k + 1 for k, name in enumerate(groups)}
    visible, area, labels = {}, {}, {}
    for attribute in ATTRIBUTES:
        worn = label(spec, attribute)
        labels[attribute] = None if worn is None else int(worn)
        if not worn:
            continue
        names = [name for name in _PARTS_OF[attribute] if name in groups]
        seen = int(np.isin(image.mask, [number[name] for name in names]).sum())
        alone = Placed(Model(tuple(part for name in names for part in groups[name])), matrix)
        visible[attribute] = min(seen / max(_whole_silhouette(alone, camera, size), 1), 1.0)
        area[attribute] = seen / size**2
        if visible[attribute] < MIN_VISIBLE or area[attribute] < MIN_IMAGE:
            labels[attribute] = None
    return DressedImage(pixels=image.pixels, visible=visible, area=area, labels=labels)


def _built(spec: PersonSpec, seed: int) -> list[tuple[str, Part]]:
    return build_parts(spec, np.random.default_rng([seed, 1]), np.random.default_rng([seed, 4]))


def _whole_silhouette(item: Placed, camera: Camera, size: int) -> int:
    """Pixels the item alone would cover, those beyond the frame included.

    A frame three times as wide on the same pixel grid holds all of a person whose larger part is in the image.
    """
    wide = math.degrees(2 * math.atan(3 * math.tan(math.radians(camera.fov) / 2)))
    return silhouette(item, replace(camera, fov=wide), 3 * size)


def frame_person(parts: Sequence[Part], matrix: NDArray[np.float64], view: View, rng: np.random.Generator) -> Camera:
    """A camera in front of the person, at chest height or a little above, that frames the view."""
    corners = np.concatenate([part.mesh.triangles.reshape(-1, 3) for part in parts]) @ matrix[:3, :3].T
    height = float(corners[:, 2].max())
    bottom, top = {"full": (0.0, 1.0), "upper": (0.36, 1.0), "bust": (0.52, 1.0), "lower": (0.0, 0.66)}[view]
    margin = rng.uniform(0.04, 0.10)
    middle = height * (bottom + top) / 2
    distance = rng.uniform(4.2, 5.6)
    eye_height = height * rng.uniform(0.55, 0.95)
    position = (float(rng.uniform(-0.25, 0.25)), -float(distance), float(eye_height))
    target = (float(rng.uniform(-0.04, 0.04)), 0.0, float(middle))
    half = height * (top - bottom) / 2 * (1 + 2 * margin)
    # Wide enough for the arms of a waving person as well.
    shown = corners[(corners[:, 2] >= height * bottom) & (corners[:, 2] <= height * top)]
    probe = Camera(position=position, target=target, fov=90.0)
    offsets = np.abs(probe.project(shown)[:, :2] - 0.5).max()
    reach = max(2 * float(offsets) * (1 + 2 * margin), half / math.dist(position, target))
    return Camera(
        position=position, target=target, fov=math.degrees(2 * math.atan(reach)), roll=float(rng.uniform(-2, 2))
    )


# ----------------------------------------------------------------------------------------------------------- blocks
def _context(rng: np.random.Generator, block: str) -> tuple[set[str], set[str]]:
    """Attributes worn in the two images of a pair: with the block's attribute, and without it."""
    others = {
        name
        for name, share in (("hat", 0.2), ("glasses", 0.2), ("gloves", 0.2), ("mask", 0.1))
        if rng.random() < share and name != block
    }
    footwear = pick(rng, ("", "", "boots", "slippers"))
    low = pick(rng, ("jeans", "shorts", "slacks", "skirt"))
    top = pick(rng, ("", "shirt", "jacket"))
    # Boots would hide how trousers fall, and slippers do not go with a suit.
    if block in ("slacks", "suit", "tie"):
        footwear = ""
    tied = bool(rng.random() < 0.3)
    if block in ("boots", "slippers"):
        # What is worn instead: low shoes, or the other kind.
        instead = pick(rng, ("", "", "slippers" if block == "boots" else "boots"))
        with_it, without = {block, top, low}, {instead, top, low}
    elif block in ("jeans", "shorts", "slacks", "skirt"):
        rest = [name for name in ("jeans", "shorts", "slacks", "skirt") if name != block]
        with_it, without = {block, top, footwear}, {pick(rng, rest), top, footwear}
    elif block == "dress":
        with_it, without = {"dress", footwear}, {top, low, footwear}
    elif block == "suit":
        with_it, without = {"suit", footwear}, {pick(rng, ("shirt", "jacket")), low, footwear}
    elif block == "shirt":
        if rng.random() < 0.5:
            with_it, without = {"shirt", low, footwear}, {"jacket", low, footwear}
        else:
            with_it, without = {"shirt", low, footwear}, {"dress", footwear}
    elif block == "jacket":
        with_it, without = {"jacket", low, footwear}, {pick(rng, ("", "shirt")), low, footwear}
    elif block == "tie":
        outfit = pick(rng, ({"shirt", low, footwear}, {"suit", footwear}))
        with_it, without = outfit | {"tie"}, outfit
    else:
        outfit = {top, low, footwear}
        with_it, without = outfit | {block}, outfit
    for outfit in (with_it, without):
        outfit |= others
        outfit.discard("")
    # A tie goes with both images of a pair or with none.
    if tied and block != "tie" and all({"shirt", "suit"} & outfit for outfit in (with_it, without)):
        with_it, without = with_it | {"tie"}, without | {"tie"}
    return with_it, without


@dataclass(frozen=True)
class RenderedPeople:
    """What ``render_people`` wrote.

    Attributes:
        labels: path of the table of labels.
        images: number of images.
        redrawn: number of pairs whose first pose or camera hid the garment.
    """

    labels: Path
    images: int
    redrawn: int


def render_people(
    out: Path,
    count: int,
    *,
    seed: int = 0,
    size: int = 256,
    attributes: Collection[str] | None = None,
    on_pair: Callable[[int], None] | None = None,
) -> RenderedPeople:
    """Write ``count`` images with exact labels to a new folder: ``images/``, ``labels.csv``, ``definitions.json``.

    Pairs go round the attributes, so blocks differ by at most one pair. Columns of the table: ``path`` (from the
    table), ``block``, ``pair``, ``worn`` (the label of the block's attribute), ``skin_tone``, ``build``, ``figure``,
    ``hair``, ``pose``, ``view``, ``place``, then ``label_<attribute>`` (1, 0, or empty: open) and
    ``visible_<attribute>`` (share of the garment that is visible; empty where it is not worn) for every attribute. The
    same seed and size give the same files, and the first images do not depend on how many follow.

    Args:
        out: folder to write to, new or empty.
        count: number of images, even, at least 2.
        seed: seed of all random draws.
        size: width and height of the image, pixels, 64 to 2048.
        attributes: blocks to draw, in this order; all of ``ATTRIBUTES`` if None.
        on_pair: called with the number of pairs done after each.

    Raises:
        UsageError: an odd or too small count, an unknown attribute, a folder that is not empty, a size out of range.
        VerismError: no pose or camera showed a garment well enough.
    """
    blocks = list(ATTRIBUTES) if attributes is None else list(dict.fromkeys(attributes))
    _check_names(blocks)
    if not blocks:
        raise UsageError(f"no attribute to draw; there are {', '.join(ATTRIBUTES)}")
    if count < 2 or count % 2:
        raise UsageError(f"count={count}: images come in pairs, with and without a garment; give an even number")
    if not SIZES[0] <= size <= SIZES[1]:
        raise UsageError(f"size must be {SIZES[0]} to {SIZES[1]} pixels, got {size}")
    if out.exists() and any(out.iterdir()):
        raise UsageError(f"{out} is not empty; name a new folder")
    folder = out / "images"
    folder.mkdir(parents=True, exist_ok=True)
    rows, redrawn = [], 0
    for pair in range(count // 2):
        block = blocks[pair % len(blocks)]
        drawn, attempts = _render_pair(block, size, seed, pair)
        redrawn += attempts > 0
        for worn, (spec, view, position, image) in zip((1, 0), drawn, strict=True):
            name = f"{pair:05d}_{block}_{'with' if worn else 'without'}.png"
            write_whole(folder / name, encode_png(image.pixels), sync=False)
            facts = {
                "path": f"images/{name}",
                "block": block,
                "pair": pair,
                "worn": worn,
                "skin_tone": spec.skin_tone,
                "build": spec.build,
                "figure": spec.figure,
                "hair": spec.hair,
                "pose": spec.pose,
                "view": view,
                "place": position,
            }
            facts |= {f"label_{a}": image.labels[a] for a in ATTRIBUTES}
            facts |= {f"visible_{a}": round(image.visible[a], 4) if a in image.visible else None for a in ATTRIBUTES}
            rows.append(facts)
        if on_pair is not None:
            on_pair(pair + 1)
    definitions = {
        "attributes": ATTRIBUTES,
        "min_visible": MIN_VISIBLE,
        "min_picture": MIN_IMAGE,
        "seed": seed,
        "size": size,
        "renderer": RENDERER_VERSION,
        "blocks": blocks,
    }
    write_json(out / "definitions.json", definitions)
    path = out / "labels.csv"
    write_csv(path, list(rows[0]), (row.values() for row in rows))
    return RenderedPeople(labels=path, images=count, redrawn=redrawn)


_Drawn = tuple[PersonSpec, View, str, DressedImage]


def _render_pair(block: str, size: int, seed: int, pair: int) -> tuple[tuple[_Drawn, _Drawn], int]:
    """Both images of a pair, and how often it was drawn anew."""
    for attempt in range(ATTEMPTS):
        rng = np.random.default_rng([seed, pair, attempt])
        outfits = _context(rng, block)
        subset = int(rng.integers(2**31))
        view = pick(rng, _VIEWS.get(block, ("full",)))
        position, turn = pick(rng, PLACES), float(rng.uniform(-35, 35))
        drawn = []
        specs = [dressed_person(np.random.default_rng(subset), outfit) for outfit in outfits]
        for spec, other in (specs, specs[::-1]):
            image = render_person(spec, size, place=position, view=view, turn=turn, seed=subset, alongside=other)
            drawn.append((spec, view, position, image))
        if [image.labels[block] for *_, image in drawn] == [1, 0]:
            return (drawn[0], drawn[1]), attempt
    raise VerismError(
        f"pair {pair} of {block!r}: in {ATTEMPTS} attempts no pose and camera showed {MIN_VISIBLE:.0%} of the garment "
        f"on {MIN_IMAGE:.2%} of the image; give a larger --size"
    )
