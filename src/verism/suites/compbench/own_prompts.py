"""Prompts of our own in the categories of T2I-CompBench, with scenes that show what they ask.

They are drawn from words of ours, so that runs need neither the user's copy of the released prompts nor a model. They
are no part of the benchmark: scores of them are comparable with each other alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from itertools import product

import numpy as np

from verism.records import Scene, SceneObject
from verism.suites.compbench.numeracy import asked_numbers
from verism.suites.compbench.prompts import Asked
from verism.suites.compbench.spatial import depth_of_prompt, relation_of_prompt
from verism.suites.compbench.vocabulary import CATEGORIES, NUMERACY_OBJECTS
from verism.suites.prompt_lists import hash_order

__all__ = ["COLORS", "MODELLED", "PROMPTS_EACH", "SHAPES", "own_classes", "own_prompts"]

PROMPTS_EACH = 60  # of a category
SEED = 17
# Classes of which the simulator has a model, and which are labels of the released detector; a test holds both.
MODELLED: tuple[str, ...] = (
    "person", "dog", "bear", "bird", "airplane", "bicycle", "boat", "car", "train", "chair", "bench", "bed", "backpack",
    "suitcase", "umbrella",
)  # fmt: skip
COLORS: tuple[str, ...] = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white")
PAINTED: tuple[str, ...] = ("airplane", "backpack", "bench", "bicycle", "boat", "car", "chair", "suitcase", "umbrella")
# Things of no shape of their own, shown by plain solids.
THINGS: tuple[str, ...] = ("candle", "clock", "lamp", "pillow", "stool", "toy", "vase", "radio")
SHAPES: Mapping[str, str] = {
    "cubic": "solid:cube", "round": "solid:ball", "cylindrical": "solid:cylinder", "conical": "solid:cone",
    "ring-shaped": "solid:ring", "triangular": "solid:prism",
}  # fmt: skip
TEXTURES: tuple[str, ...] = ("rubber", "plastic", "metallic", "wooden", "fabric", "fluffy", "leather", "glass")
NUMBER_WORDS: tuple[str, ...] = ("zero", "one", "two", "three", "four")
SIDES: Mapping[str, str] = {
    "on the left of": "left", "on the right of": "right", "on the top of": "above", "on the bottom of": "below",
}  # fmt: skip
COMPLEX_SIDES = ("on the left of", "on the right of")  # others the released reading of complex prompts does not know
PLACES: Mapping[str, str] = {"in front of": "front", "behind": "behind", "hidden by": "behind"}
ACTIONS: Mapping[str, tuple[str, ...]] = {
    "dog": ("walks", "feeds", "pats"), "bicycle": ("repairs", "rides", "pushes"), "umbrella": ("opens", "folds"),
    "suitcase": ("packs", "pulls"), "chair": ("paints", "carries"), "car": ("washes", "polishes"),
    "boat": ("rows", "mends"), "backpack": ("empties", "lifts"), "bird": ("watches", "sketches"),
    "bench": ("rests on", "varnishes"),
}  # fmt: skip
WHO: tuple[str, ...] = ("A person", "Somebody", "A passer-by")
BACKGROUNDS = ("meadow", "beach", "desert", "snowfield", "city_plaza", "open_road", "photo_studio", "living_room")


def own_classes() -> dict[str, str]:
    """What renderers show of each class, where they have no model of it."""
    solids = list(SHAPES.values())
    shapes = {label: f"solid:{label}" for label in MODELLED}
    return shapes | {label: solids[k % len(solids)] for k, label in enumerate(THINGS)}


def own_prompts(categories: Sequence[str] = CATEGORIES, *, n: int = PROMPTS_EACH) -> list[Asked]:
    """Our prompts, in the order of their categories; the same ones at every call.

    Args:
        categories: that are asked.
        n: prompts of each, at most ``PROMPTS_EACH``.
    """
    prompts = []
    for category in CATEGORIES:
        if category in categories:
            drawn = sorted(MAKERS[category](), key=lambda made: hash_order(made[0], SEED))
            prompts += [_finished(category, index, *made) for index, made in enumerate(drawn[:n])]
    return prompts


Made = tuple[str, dict[str, object], tuple[SceneObject, ...], str]
"""Text, further fields of ``Asked``, objects of the scene, and its skill."""


def _finished(
    category: str, index: int, text: str, fields: Mapping[str, object], objects: tuple[SceneObject, ...], skill: str
) -> Asked:
    digest = hashlib.blake2b(text.encode(), digest_size=4).digest()
    scene = Scene(
        scene_id=f"own_{category}_{index:03d}",
        skill=skill,
        split="val",
        text=text,
        background=BACKGROUNDS[int.from_bytes(digest, "big") % len(BACKGROUNDS)],
        objects=objects,
    )
    return Asked(category=category, text=text, index=index, scene=scene, **fields)  # type: ignore[arg-type]


def _shown(label: str, **more: str) -> SceneObject:
    shape = own_classes().get(label, f"solid:{label}")
    return SceneObject(**{"shape": shape, "label": label, **more})  # type: ignore[arg-type]


def _a(words: str) -> str:
    """Words behind their article.

    >>> _a("umbrella"), _a("red car")
    ('an umbrella', 'a red car')
    """
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def _pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    return [(a, b) for a, b in product(names, names) if a != b]


def _drawn(values: Sequence[str], key: str) -> tuple[str, str]:
    """Two different values, by a text."""
    seed = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big")
    first, second = np.random.default_rng(seed).choice(len(values), size=2, replace=False).tolist()
    return values[first], values[second]


def _bound(category: str, names: Sequence[str], values: Sequence[str]) -> list[Made]:
    made: list[Made] = []
    for a, b in _pairs(names):
        x, y = _drawn(values, f"{category} {a} {b}")
        phrases = (_a(f"{x} {a}"), _a(f"{y} {b}"))
        shows, objects = [], []
        for label, value in ((a, x), (b, y)):
            scene_value = SHAPES[value] if category == "shape" else value
            shows.append({"label": label, category: scene_value})
            more = {category: scene_value} | ({"texture": "pure"} if category == "color" else {})
            objects.append(_shown(label, **more))
        fields: dict[str, object] = {"phrases": phrases, "shows": tuple(shows)}
        made.append((f"{phrases[0]} and {phrases[1]}", fields, tuple(objects), category))
    return made


def _spatial() -> list[Made]:
    made: list[Made] = []
    for a, b in _pairs(MODELLED):
        relation, _ = _drawn(tuple(SIDES), f"spatial {a} {b}")
        text = f"{_a(a)} {relation} {_a(b)}"
        fields: dict[str, object] = {"relation": relation_of_prompt(text), "names": (a, b)}
        made.append((text, fields, (_shown(b), _shown(a, relation=f"{SIDES[relation]}_0")), "spatial"))
    return made


def _in_depth() -> list[Made]:
    made: list[Made] = []
    for a, b in _pairs(MODELLED):
        relation, _ = _drawn(tuple(PLACES), f"depth {a} {b}")
        text = f"{_a(a)} {relation} {_a(b)}"
        fields: dict[str, object] = {"relation": depth_of_prompt(text), "names": (a, b)}
        made.append((text, fields, (_shown(b), _shown(a, relation=f"{PLACES[relation]}_0")), "spatial"))
    return made


def _numeracy() -> list[Made]:
    counted = [name for name in MODELLED if name in NUMERACY_OBJECTS]
    made: list[Made] = []
    for a, b in _pairs(counted):
        for first, second in ((1, 2), (2, 1), (2, 2), (3, 1)):
            words = [
                f"{NUMBER_WORDS[n]} {name if n == 1 else NUMERACY_OBJECTS[name]}"
                for n, name in ((first, a), (second, b))
            ]
            text = " and ".join(words)
            numbers = tuple((c.name, c.asked) for c in asked_numbers(text))
            objects = (*[_shown(a)] * first, *[_shown(b)] * second)
            made.append((text, {"numbers": numbers}, objects, "count"))
    for name in counted:
        for n in (2, 3, 4):
            text = f"{NUMBER_WORDS[n]} {NUMERACY_OBJECTS[name]}"
            made.append((text, {"numbers": ((name, n),)}, (_shown(name),) * n, "count"))
    return made


def _actions() -> list[Made]:
    return [
        (f"{who} {verb} {_a(label)}.", {}, (_shown("person"), _shown(label)), "object")
        for label, verbs in ACTIONS.items()
        for verb in verbs
        for who in WHO
    ]


def _complex() -> list[Made]:
    made: list[Made] = []
    for a, b in _pairs(PAINTED):
        relation, _ = _drawn(COMPLEX_SIDES, f"complex {a} {b}")
        x, y = _drawn(COLORS, f"complex {a} {b}")
        phrases = (f"the {x} {a}", f"the {y} {b}")
        text = f"{phrases[0]} is {relation} {phrases[1]}"
        fields: dict[str, object] = {
            "relation": relation_of_prompt(text),
            "names": (a, b),
            "phrases": phrases,
            "without_adjectives": f"the {a} is {relation} the {b}",
            "route": "spatial",
            "shows": ({"label": a, "color": x}, {"label": b, "color": y}),
        }
        placed = _shown(a, relation=f"{SIDES[relation]}_0", color=x, texture="pure")
        made.append((text, fields, (_shown(b, color=y, texture="pure"), placed), "complex"))
    return made


MAKERS: Mapping[str, Callable[[], list[Made]]] = {
    "color": lambda: _bound("color", PAINTED, COLORS),
    "shape": lambda: _bound("shape", THINGS, tuple(SHAPES)),
    "texture": lambda: _bound("texture", THINGS, TEXTURES),
    "spatial": _spatial,
    "3d_spatial": _in_depth,
    "numeracy": _numeracy,
    "non_spatial": _actions,
    "complex": _complex,
}
