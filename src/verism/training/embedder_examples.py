"""What the built-in embedder learns from: rendered scenes and dressed people, with facts instead of fixed texts.

An example is an image and what is known of it: objects with their colours and materials, how they stand to each other,
the place, or what a person wears. Texts are worded from these facts while training (``embedder_texts``), each time
anew. Nothing is kept of whether a person was drawn as a woman or a man: the embedder shall not learn it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verism.errors import UsageError, VerismError
from verism.records import Scene, SceneObject
from verism.training._example_chunks import read_chunks, render_chunks
from verism.training.settings import PAINTSKILLS_CLASSES

__all__ = [
    "CHUNK",
    "COLORS",
    "GARMENTS",
    "SHAPES",
    "SIZE",
    "TEXTURES",
    "THINGS",
    "Examples",
    "Facts",
    "Thing",
    "draw_scene",
    "facts_of",
    "load_examples",
    "render_examples",
]

SIZE = 256  # pixels: what generators and renderers make by default
CHUNK = 250  # images of a file; a chunk is drawn whatever the others are
_PREFIX = "examples"  # of the files' names
PEOPLE_EVERY = 3  # each third chunk shows people

COLORS = ("red", "blue", "yellow", "white", "purple", "green", "orange", "pink", "brown", "black")
TEXTURES = ("wooden", "metallic", "plastic", "rubber", "glass", "leather", "fabric", "fluffy")
SHAPES: Mapping[str, str] = {
    "cubic": "solid:cube", "round": "solid:ball", "cylindrical": "solid:cylinder", "conical": "solid:cone",
    "ring-shaped": "solid:ring", "triangular": "solid:prism",
}  # fmt: skip
THINGS = ("candle", "clock", "lamp", "pillow", "stool", "toy", "vase", "radio")  # words for solids, of no shape of own
GARMENTS = (
    "boots", "slippers", "jeans", "shorts", "slacks", "dress", "skirt", "suit", "shirt", "jacket", "hat", "tie",
    "mask", "gloves", "glasses",
)  # fmt: skip

_KINDS: Mapping[str, float] = {
    "object": 0.10, "count": 0.22, "counts": 0.06, "color": 0.10, "colors": 0.14, "spatial": 0.26, "depth": 0.04,
    "complex": 0.04, "shape": 0.02, "texture": 0.02,
}  # fmt: skip
_PAINTED = (  # classes whose body takes a paint without a doubt
    "airplane", "bicycle", "bus", "boat", "car", "van", "train", "fire hydrant", "backpack", "chair", "dining table",
    "skateboard", "bench", "suitcase", "bed", "umbrella",
)  # fmt: skip
_SIDES = ("left", "right", "above", "below")
_EMPTY_SHARE = 0.2  # of scenes before the black of the first PaintSkills
_STATES = {"bird": "flying", "person": "sitting", "dog": "standing", "bear": "standing"}  # there


@dataclass(frozen=True, kw_only=True)
class Thing:
    """An object of a scene, as texts name it.

    Attributes:
        label: its class.
        color: one of ``COLORS``, or empty: its own.
        texture: one of ``TEXTURES``, or empty.
        shape: a key of ``SHAPES``, or empty.
    """

    label: str
    color: str = ""
    texture: str = ""
    shape: str = ""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known of an image.

    Attributes:
        kind: of scene (``count``, ``spatial`` ...), or ``person``.
        things: objects, in the order of the scene; empty for a dressed person.
        relation: how the second thing lies to the first: ``left`` ... ``behind``, or empty.
        background: name of the environment; empty: not known.
        garments: for a dressed person, of each garment whether it is worn and seen; None: open, or outside the image.
    """

    kind: str
    things: tuple[Thing, ...] = ()
    relation: str = ""
    background: str = ""
    garments: Mapping[str, bool | None] = field(default_factory=dict)

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Facts:
        """Facts as JSON has them."""
        return cls(**{**record, "things": tuple(Thing(**thing) for thing in record["things"])})


# --------------------------------------------------------------------------------------------------------------------
# Scenes
# --------------------------------------------------------------------------------------------------------------------
def draw_scene(rng: np.random.Generator, index: int = 0) -> Scene:
    """A scene of one of the kinds that the suites ask for.

    Args:
        rng: draws everything.
        index: enters the scene's id.
    """
    from verism.simulator.catalogue import standard_catalogue

    kind = str(rng.choice(list(_KINDS), p=list(_KINDS.values())))
    places = [name for name in standard_catalogue().environments if name != "empty"]
    background = "empty" if rng.random() < _EMPTY_SHARE else _pick(rng, places)
    color = "plain"
    label, other = (_pick(rng, PAINTSKILLS_CLASSES) for _ in range(2))
    objects: list[SceneObject]
    if kind == "object":
        objects = [_thing(label)]
    elif kind == "count":
        objects = [_thing(label)] * int(rng.integers(1, 5))
    elif kind == "counts":
        first = int(rng.integers(1, 4))
        second = int(rng.integers(1, 5 - first))
        objects = [_thing(label)] * first + [_thing(_another(rng, PAINTSKILLS_CLASSES, label))] * second
    elif kind == "color":
        # Those that hardly take a paint are asked for in colours by the first PaintSkills alone.
        label = label if rng.random() < 0.4 else _pick(rng, _PAINTED)
        color = _pick(rng, COLORS[:6] if label not in _PAINTED or rng.random() < 0.5 else COLORS)
        objects = [_thing(label, color=color)]
    elif kind in ("colors", "complex"):
        label = _pick(rng, _PAINTED)
        color = _pick(rng, COLORS)
        objects = [
            _thing(label, color=color),
            _thing(
                _another(rng, _PAINTED, label),
                color=_another(rng, COLORS, color),
                relation=f"{_pick(rng, _SIDES[:2])}_0" if kind == "complex" else None,
            ),
        ]
    elif kind in ("spatial", "depth"):
        side = _pick(rng, _SIDES if kind == "spatial" else ("front", "behind"))
        other = other if kind == "spatial" else _another(rng, PAINTSKILLS_CLASSES, label)
        objects = [_thing(label), _thing(other, relation=f"{side}_0")]
    else:
        names = rng.choice(len(THINGS), 2, replace=False).tolist()
        values = list(SHAPES) if kind == "shape" else list(TEXTURES)
        chosen = [values[k] for k in rng.choice(len(values), 2, replace=False)]
        solids = list(SHAPES.values())
        objects = [
            SceneObject(
                shape=SHAPES[value] if kind == "shape" else solids[n % len(solids)],
                label=THINGS[n],
                texture=value if kind == "texture" else "plain",
            )
            for n, value in zip(names, chosen, strict=True)
        ]
    if background == "empty":
        objects = [
            o if o.label not in _STATES or rng.random() < 0.3 else _replace_state(o, _STATES[o.label]) for o in objects
        ]
    scaled = [SceneObject(**{**vars(o), "scale": round(float(rng.uniform(0.85, 1.15)), 4)}) for o in objects]
    return Scene(
        scene_id=f"{kind}_{index:05d}",
        skill=kind,
        split="train",
        text="",
        background=background,
        objects=tuple(scaled),
        seed=int(rng.integers(2**62)),
    )


def facts_of(scene: Scene) -> Facts:
    """What texts may say of a scene."""
    shapes = {solid: word for word, solid in SHAPES.items()}
    relation = next((o.relation for o in scene.objects if o.relation), "")
    return Facts(
        kind=scene.skill,
        things=tuple(
            Thing(
                label=o.label,
                color="" if o.color == "plain" else o.color,
                texture=o.texture if o.texture in TEXTURES else "",
                shape=shapes.get(o.shape, "") if scene.skill == "shape" else "",
            )
            for o in scene.objects
        ),
        relation=relation.rpartition("_")[0],
        background=scene.background,
    )


def _thing(label: str, *, color: str = "plain", relation: str | None = None) -> SceneObject:
    texture = "plain" if color == "plain" else "pure"
    return SceneObject(shape=f"solid:{label}", label=label, color=color, texture=texture, relation=relation)


def _replace_state(obj: SceneObject, state: str) -> SceneObject:
    return SceneObject(**{**vars(obj), "state": state})


def _pick(rng: np.random.Generator, values: Sequence[str]) -> str:
    return values[int(rng.integers(len(values)))]


def _another(rng: np.random.Generator, values: Sequence[str], value: str) -> str:
    return _pick(rng, [v for v in values if v != value])


# --------------------------------------------------------------------------------------------------------------------
# People
# --------------------------------------------------------------------------------------------------------------------
def _draw_worn(rng: np.random.Generator) -> set[str]:
    """Clothes that can be worn together, each in a good share of people."""
    worn = {_pick(rng, ("", "", "boots", "slippers"))}
    whole = _pick(rng, ("dress", "suit", "", "", "", "", ""))
    if whole:
        worn.add(whole)
    else:
        worn |= {_pick(rng, ("", "jeans", "shorts", "slacks", "skirt")), _pick(rng, ("", "shirt", "shirt", "jacket"))}
    if worn & {"suit", "shirt"} and rng.random() < 0.45:
        worn.add("tie")
    worn |= {name for name in ("hat", "mask", "gloves", "glasses") if rng.random() < 0.3}
    return worn - {""}


def _open_garments(worn: set[str]) -> dict[str, bool | None]:
    """Of each garment whether it is worn; None where even a person could not say."""
    known: dict[str, bool | None] = {name: name in worn for name in GARMENTS}
    lower = worn & {"jeans", "shorts", "slacks", "skirt", "dress", "suit"}
    if not lower or "suit" in worn:  # plain trousers, or those of a suit, may pass for slacks
        known["slacks"] = None
    if not worn & {"shirt", "jacket", "dress"}:  # a t-shirt, or what a suit shows of a shirt
        known["shirt"] = None
    if "suit" in worn:
        known["jacket"] = None
    return known


_OUTSIDE = {  # what a view may cut off
    "full": (),
    "upper": ("boots", "slippers", "jeans", "shorts", "slacks", "skirt", "dress", "suit"),
    "bust": ("boots", "slippers", "jeans", "shorts", "slacks", "skirt", "dress", "suit", "gloves"),
}


def _person(rng: np.random.Generator, size: int) -> tuple[NDArray[np.uint8], Facts]:
    """A dressed person, as ``people:`` renders them, or as the wardrobe's blocks do."""
    from verism.simulator.portraits import PeopleRenderer
    from verism.simulator.wardrobe import PLACES, dressed_person, render_person

    worn = _draw_worn(rng)
    view: Any = str(rng.choice(["full", "upper", "bust"], p=[0.7, 0.18, 0.12]))
    seed = int(rng.integers(2**31))
    if rng.random() < 0.75:
        # A coin for the figure, which nothing learns: it must not go with the clothes.
        image = PeopleRenderer(size, view).render(
            woman=bool(rng.random() < 0.5), tone=int(rng.integers(1, 11)), worn=worn, seed=seed
        )
        garments = _open_garments(worn) | dict.fromkeys(_OUTSIDE[view])
        return image.pixels, Facts(kind="person", garments=garments)
    place = _pick(rng, PLACES)
    spec = dressed_person(rng, worn)
    dressed = render_person(spec, size, place=place, view=view, turn=float(rng.uniform(-35, 35)), seed=seed)
    garments = {name: None if (label := dressed.labels[name]) is None else bool(label) for name in GARMENTS}
    return dressed.pixels, Facts(kind="person", background=place, garments=garments)


# --------------------------------------------------------------------------------------------------------------------
# Files
# --------------------------------------------------------------------------------------------------------------------
def render_examples(
    out: Path,
    count: int,
    *,
    seed: int,
    processes: int = 1,
    size: int = SIZE,
    on_chunk: Callable[[int], None] = lambda _: None,
) -> Path:
    """Render examples into a folder, in chunks of ``CHUNK``; those that are there already are kept.

    Two chunks of three show scenes, the third people. The same seed gives the same images, and a chunk does not depend
    on how many follow.

    Args:
        out: the folder.
        count: images, at least 1; the last chunk may be smaller.
        seed: of all random draws.
        processes: that render at a time, at least 1.
        size: width and height in pixels, 64 to 2048.
        on_chunk: called with the number of images there are after each chunk.

    Raises:
        UsageError: a count below one.
        VerismError: no scene of a chunk could be rendered.
    """
    return render_chunks(
        out, _PREFIX, count, _render_chunk,
        chunk_size=CHUNK, seed=seed, processes=processes, size=size, on_chunk=on_chunk,
    )  # fmt: skip


def _render_chunk(seed: int, chunk: int, count: int, size: int) -> tuple[NDArray[np.uint8], list[Facts]]:
    from verism.simulator.scene_renderer import SceneRenderer

    rng = np.random.default_rng([seed, chunk, 0xE3B])
    pixels = np.zeros((count, size, size, 3), dtype=np.uint8)
    facts: list[Facts] = []
    renderer = SceneRenderer(size)
    attempts = 0
    while len(facts) < count:
        attempts += 1
        if attempts > 20 * count + 20:
            raise VerismError(f"chunk {chunk}: the renderer refuses nearly every scene; give a larger size than {size}")
        try:
            if chunk % PEOPLE_EVERY == PEOPLE_EVERY - 1:
                image, known = _person(rng, size)
            else:
                scene = draw_scene(rng, len(facts))
                image, known = renderer.render(scene).pixels, facts_of(scene)
        except VerismError:  # what cannot be rendered or placed is drawn anew
            continue
        pixels[len(facts)] = image
        facts.append(known)
    return pixels, facts


@dataclass(frozen=True, eq=False)
class Examples:
    """Images with what is known of them.

    Attributes:
        parts: images of each file, (N, S, S, 3) uint8, memory-mapped.
        rows: (part, row) of each example, shape (N, 2).
        facts: of each example.
    """

    parts: Sequence[NDArray[np.uint8]]
    rows: NDArray[np.int64]
    facts: Sequence[Facts]

    def __len__(self) -> int:
        return len(self.facts)

    def __iter__(self) -> Iterator[tuple[NDArray[np.uint8], Facts]]:
        return ((self.image(k), self.facts[k]) for k in range(len(self)))

    def image(self, index: int) -> NDArray[np.uint8]:
        """The image of an example, (S, S, 3) uint8."""
        part, row = self.rows[index]
        return np.asarray(self.parts[part][row])


def load_examples(folders: Sequence[Path]) -> Examples:
    """All examples of some folders that ``render_examples`` wrote; chunks under way are left out.

    Raises:
        UsageError: there is none.
    """
    parts: list[NDArray[np.uint8]] = []
    rows: list[tuple[int, int]] = []
    facts: list[Facts] = []
    for _, pixels, records in read_chunks(folders, _PREFIX):
        rows += [(len(parts), row) for row in range(len(records))]
        parts.append(pixels)
        facts += [Facts.of_record(record) for record in records]
    if not facts:
        raise UsageError(
            f"no examples in {', '.join(str(f) for f in folders)}; leave --examples out to have some rendered"
        )
    return Examples(parts=parts, rows=np.array(rows, dtype=np.int64), facts=facts)


def record_of(facts: Facts) -> str:
    """Facts as one line of JSON."""
    return json.dumps(asdict(facts), sort_keys=True)
