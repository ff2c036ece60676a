"""Our own prompts: short, longer and several texts in eight languages, on everyday surfaces.

Every prompt is written by the code below out of our own texts (``data/text_rendering/own_texts.json``). Its scene says
how large the letters are, how far the surface turns away, in which font and how sharp. Those conditions are of
rendered images only, and are dealt out so that each meets each other about as often.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from verism.records import FacetValue, Scene, SceneText
from verism.suites.text_rendering.prompt_sets import AskedText

__all__ = ["CONDITIONS", "draw_own_prompts", "scene_of"]

SURFACES: Mapping[str, str] = {
    "sign": "street sign",
    "poster": "poster",
    "screen": "screen",
    "label": "paper label",
    "board": "chalkboard",
    "banner": "banner",
}
PLACES: Mapping[str, str] = {
    "meadow": "in a meadow",
    "beach": "on a beach",
    "city_plaza": "on a city square",
    "old_town": "in an old town",
    "living_room": "in a living room",
    "night_street": "in a street at night",
    "photo_studio": "in a photo studio",
    "warehouse": "in a warehouse",
    "autumn_park": "in a park in autumn",
    "tiled_hall": "in a tiled hall",
}
FONTS: Mapping[str, tuple[str, ...]] = {
    "en": ("sans", "serif", "bold", "slab", "mono", "script", "brush"),
    "de": ("sans", "serif", "bold", "slab", "mono"),
    "fr": ("sans", "serif", "bold", "slab", "mono"),
    "el": ("sans", "serif", "bold", "mono"),
    "ru": ("sans", "serif", "bold", "mono"),
    "zh": ("han",),
    "ja": ("japanese",),
    "ko": ("korean",),
}
SCRIPTS: Mapping[str, str] = {
    "en": "latin", "de": "latin", "fr": "latin", "el": "greek", "ru": "cyrillic", "zh": "han", "ja": "japanese",
    "ko": "hangul",
}  # fmt: skip
SIZES = ("large", "medium", "small")
TILTS = ("none", "slight", "strong")
QUALITIES = ("sharp", "sharp", "blurred", "noisy")
CONDITIONS = ("render_size", "render_tilt", "render_font", "render_quality")
SEVERAL = {"en": 18}  # prompts with two to four texts
OTHERS = 2  # of every other language


@cache
def _texts() -> Mapping[str, Any]:
    file = resources.files("verism") / "data" / "text_rendering" / "own_texts.json"
    texts: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return texts


def draw_own_prompts() -> list[AskedText]:
    """All of our own prompts, in an order that never changes."""
    asked: list[AskedText] = []
    for language, entry in _texts().items():
        kinds: Mapping[str, Sequence[str]] = entry["kinds"]
        listed: list[tuple[str, tuple[str, ...]]] = [(kind, (text,)) for kind, texts in kinds.items() for text in texts]
        short = [*kinds["word"], *kinds["phrase"]]
        for number in range(SEVERAL.get(language, OTHERS)):
            n = 2 + number % 3
            listed.append(("several", tuple(short[(5 * number + 7 * k) % len(short)] for k in range(n))))
        asked += [_asked(language, number, kind, texts) for number, (kind, texts) in enumerate(listed)]
    return asked


def _asked(language: str, number: int, kind: str, texts: tuple[str, ...]) -> AskedText:
    surfaces, places, fonts = tuple(SURFACES), tuple(PLACES), FONTS[language]
    # Every condition turns at its own pace: none goes with another.
    surface, place = surfaces[number % len(surfaces)], places[(number + number // 10) % len(places)]
    facets: dict[str, FacetValue] = {
        "length": kind,
        "regions": len(texts),
        "surface": surface,
        "place": place,
        "render_size": SIZES[number % 3],
        "render_tilt": TILTS[(number // 3) % 3],
        "render_font": fonts[(number + number // 7) % len(fonts)],
        "render_quality": QUALITIES[(number // 2) % 4],
    }
    return AskedText(
        prompt_id=f"{language}_{number:03d}",
        prompt=_worded(texts, SURFACES[surface], PLACES[place]),
        texts=texts,
        language=language,
        facets={**facets, "script": SCRIPTS[language]},
    )


def _worded(texts: Sequence[str], surface: str, place: str) -> str:
    if len(texts) == 1:
        return f'A photo of a {surface} {place} that reads "{texts[0]}"'
    numbers = {2: "two", 3: "three", 4: "four"}
    named = ", ".join(f'"{text}"' for text in texts[:-1])
    return (
        f'A photo of {numbers[len(texts)]} {surface}s one below the other {place} that read {named} and "{texts[-1]}"'
    )


def scene_of(asked: AskedText) -> Scene:
    """The scene of a prompt: its texts on surfaces, one below the other.

    Args:
        asked: the prompt; one that is not of ours gets large letters, and a surface and a place by its id.
    """
    digest = hashlib.blake2b(asked.prompt_id.encode(), digest_size=8).digest()
    surfaces, places = tuple(SURFACES), tuple(PLACES)
    facets = asked.facets
    surface = str(facets.get("surface") or surfaces[digest[0] % len(surfaces)])
    texts = tuple(
        SceneText(
            text=text,
            surface=surface,
            size=str(facets.get("render_size") or "large"),
            tilt=str(facets.get("render_tilt") or "none"),
            font=str(facets.get("render_font") or ""),
            quality=str(facets.get("render_quality") or "sharp"),
        )
        for text in asked.texts
    )
    return Scene(
        scene_id=asked.prompt_id,
        skill="text",
        split="val",
        text=asked.prompt,
        background=str(facets.get("place") or places[digest[1] % len(places)]),
        objects=(),
        texts=texts,
    )
