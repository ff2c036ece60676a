"""The prompts of a world, the prompt lists released with the paper, and the names of the images made from them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from verism.errors import UsageError
from verism.records import FacetValue, Prompt
from verism.suites.geography.worlds import FAMILIES, Place, Thing, World

__all__ = [
    "Asked",
    "ListRow",
    "file_name",
    "make_prompt",
    "make_prompts",
    "parse_bare",
    "parse_prompt",
    "prompt_id",
    "released_list",
    "rotation",
]


class Asked(NamedTuple):
    """What a prompt asks for: keys of the world, and the country as it is written in prompts."""

    family: str
    thing: str
    region: str | None = None
    country: str | None = None


class ListRow(NamedTuple):
    """A row of a released prompt list. ``region`` and ``country`` are empty where the list leaves them empty."""

    prompt: str
    region: str
    object: str
    country: str
    img_id: int


def prompt_id(world: str, asked: Asked) -> str:
    """Such as ``geode/region/Africa/cooking_pot`` or ``geode/country/Africa/South_Africa/cooking_pot``."""
    parts = (world, asked.family, asked.region, asked.country, asked.thing)
    return "/".join(re.sub(r"[\s/#\\]+", "_", part) for part in parts if part)


def make_prompt(
    suite: str,
    world: World,
    asked: Asked,
    n_images: int,
    *,
    pairing: Sequence[tuple[str, int]] | None = None,
    extra: Mapping[str, FacetValue] | None = None,
    text: str | None = None,
) -> Prompt:
    """One prompt.

    Args:
        suite: name of the suite the prompt belongs to.
        world: names and templates.
        asked: form of the prompt, object, region and country.
        n_images: number of images to generate.
        pairing: for ``{object}`` prompts: with which region's real images its images are compared, as runs of (region
            key, number of images), by index. None: every image with every region.
        extra: further facets.
        text: the prompt's text where it differs from the world's template; None for the template.
    """
    item, region = world.thing(asked.thing), world.region(asked.region) if asked.region is not None else None
    if item is None or (asked.region is not None and region is None):
        raise UsageError(f"the world {world.name!r} has no {asked.region or ''} {asked.thing}".replace("  ", " "))
    return Prompt(
        prompt_id=prompt_id(world.name, asked),
        suite=suite,
        text=text if text is not None else world.text(asked.family, item, region, asked.country),
        facets={
            "family": asked.family,
            "object": item.name,
            "region": region.key if region else None,
            "country": asked.country,
            **(extra or {}),
        },
        spec={"object": item.key, "pairing": [list(run) for run in pairing] if pairing is not None else None},
        n_images=n_images,
    )


def rotation(countries: Sequence[str], n: int) -> list[tuple[str, int]]:
    """Countries and how many of ``n`` images each gets, in strict rotation from the first: 7 of 3 are 3, 2, 2."""
    return [(c, (n - i + len(countries) - 1) // len(countries)) for i, c in enumerate(countries) if n > i]


def make_prompts(suite: str, world: World, families: Sequence[str] = FAMILIES) -> list[Prompt]:
    """Every prompt of a world, one per distinct text, with as many images as the paper asks for.

    With ``per_cell`` images of each object in each region (GeoDE: 180), an ``{object}`` prompt asks for as many as
    all regions together, 6 x 180 = 1,080, and each is compared with every region. Without (DollarStreet), cells have
    the sizes of the released list, and the i-th ``{object}`` image belongs to the region of its i-th row.

    Raises:
        UsageError: an unknown family, or country prompts for a region without countries.
    """
    if unknown := [f for f in families if f not in FAMILIES]:
        raise UsageError(f"no prompt family {unknown[0]!r}; there are {', '.join(FAMILIES)}")
    if "country" in families and (bare := [p.key for p in world.regions if not p.countries]):
        raise UsageError(f"no countries are known for {', '.join(bare)}: leave the family `country` out, or name them")
    prompts = []
    for family in (f for f in FAMILIES if f in families):
        for item in world.objects:
            sizes = [(p, world.cell_size(item, p)) for p in _in_list_order(world)]
            if family == "object":
                runs = [(p.key, n) for p, n in sizes] if world.per_cell is None else None
                total = sum(n for _, n in sizes)
                if total:
                    prompts.append(make_prompt(suite, world, Asked(family, item.key), total, pairing=runs))
                continue
            for position, n in sizes:
                if family == "region" and n:
                    prompts.append(make_prompt(suite, world, Asked(family, item.key, position.key), n))
                elif family == "country":
                    prompts += [
                        make_prompt(suite, world, Asked(family, item.key, position.key, country), share)
                        for country, share in rotation(position.countries, n)
                    ]
    return prompts


def _in_list_order(world: World) -> list[Place]:
    order = {key: i for i, key in enumerate(world.list_regions)}
    return sorted(world.regions, key=lambda p: order.get(p.key, len(order)))


# ------------------------------------------------------------------------------------------------------- released lists
def released_list(world: World, kind: str) -> Iterator[ListRow]:
    """The released list of a world, row by row: ``country``, or ``region`` (all ``{object}`` rows first).

    GeoDE has 57,095 country rows and 2 x 57,095 region rows, DollarStreet 21,861 and 2 x 21,861. ``img_id`` is the
    row's number. Row i of the first half of a region list and row i + half describe the same object.

    Raises:
        UsageError: another kind.
    """
    if kind == "country":
        for i, (item, index, position) in enumerate(_list_cells(world)):
            country = index.countries[position % len(index.countries)]
            yield ListRow(world.text("country", item, index, country), index.name, item.name, country, i)
    elif kind == "region":
        half = 0
        for item, _, _ in _list_cells(world):
            yield ListRow(world.text("object", item), "", item.name, "", half)
            half += 1
        for i, (item, index, _) in enumerate(_list_cells(world)):
            yield ListRow(world.text("region", item, index), index.name, item.name, "", half + i)
    else:
        raise UsageError(f"no released list {kind!r}; there are country and region")


def _list_cells(world: World) -> Iterator[tuple[Thing, Place, int]]:
    """(object, region, position in their cell) of every row."""
    places = _in_list_order(world)
    for item in world.objects:
        for location in places:
            for position in range(item.rows.get(location.key, 0)):
                yield item, location, position


def file_name(prompt: str, img_id: int) -> str:
    """Name of a generated image in the authors' folders: ``{prompt}__{img_id}.png``, ``/`` becomes ``_``."""
    return f"{prompt.replace('/', '_')}__{img_id}.png"


# -------------------------------------------------------------------------------------------------------------- parsing
def parse_prompt(world: World, text: str) -> Asked | None:
    """What a prompt asks for, by the world's templates; None if it fits none with a known place.

    ``/`` and ``_`` are not told apart, as file names cannot. An object need not be known (``red cube in Africa``); a
    region or country must be, else every "x in y" would name a place.
    """
    known = _texts(world).get(_plain(text))
    if known is not None:
        return known
    for family in ("country", "region"):
        for position in world.regions:
            for name in position.countries if family == "country" else (position.name, position.key):
                pattern = re.escape(_plain(world.templates[family]))
                pattern = pattern.replace(r"\{object\}", "(.+)").replace(rf"\{{{family}\}}", re.escape(_plain(name)))
                if match := re.fullmatch(pattern, _plain(text)):
                    country = name if family == "country" else None
                    return Asked(family, match[1], position.key, country)
    return None


def parse_bare(world: World, text: str) -> Asked | None:
    """The object of an ``{object}`` prompt that the world need not know; None if it does not fit the template."""
    pattern = re.escape(_plain(world.templates["object"])).replace(r"\{object\}", "(.+)")
    match = re.fullmatch(pattern, _plain(text))
    return Asked("object", match[1]) if match else None


def _plain(text: str) -> str:
    return " ".join(text.replace("/", "_").split())


@lru_cache(maxsize=8)
def _texts_of(key: _ById) -> Mapping[str, Asked]:
    world = key.world
    texts: dict[str, Asked] = {}
    for item in world.objects:
        texts.setdefault(_plain(world.text("object", item)), Asked("object", item.key))
        for position in world.regions:
            texts.setdefault(_plain(world.text("region", item, position)), Asked("region", item.key, position.key))
            for country in position.countries:
                asked = Asked("country", item.key, position.key, country)
                texts.setdefault(_plain(world.text("country", item, position, country)), asked)
    return texts


def _texts(world: World) -> Mapping[str, Asked]:
    return _texts_of(_ById(world))


@dataclass(frozen=True, eq=False)
class _ById:
    """Cache key of a world: worlds hold dictionaries and cannot be hashed."""

    world: World

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and other.world is self.world

    def __hash__(self) -> int:
        return id(self.world)
