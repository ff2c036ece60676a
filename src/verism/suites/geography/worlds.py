"""Worlds: which objects and regions are asked for, in which words, and how many images of each.

``geode`` and ``dollarstreet`` are those of the paper. A world of your own is a YAML or JSON file::

    name: kitchens
    objects: [mug, {key: cooking_pot, name: cooking pot}]
    regions:
      North: {name: the North, countries: [Norway, Iceland]}
      South: {}
    templates: {region: "a photo of a {object} in {region}"}
    per_cell: 60
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from verism.errors import UsageError
from verism.files import read_document, well_formed

__all__ = ["FAMILIES", "WORLDS", "Place", "Thing", "World", "fold", "read_world", "standard_world", "world_from_record"]

FAMILIES = ("object", "region", "country")
Entry = TypeVar("Entry")

TEMPLATES = {"object": "{object}", "region": "{object} in {region}", "country": "{object} in {country}"}
WORLDS: Mapping[str, str] = {"geography": "geode", "geography-dollarstreet": "dollarstreet"}  # by name of the suite


@dataclass(frozen=True, kw_only=True)
class Place:
    """A region.

    Attributes:
        key: its name in tables (``SouthEastAsia``).
        name: in prompts (``Southeast Asia``).
        id: its name in the data set, where that is another one (``af``).
        countries: in the order of their rotation; none: there are no country prompts for it.
    """

    key: str
    name: str
    id: str | None = None
    countries: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Thing:
    """An object.

    Attributes:
        key: its name in the data set (``cooking_pot``).
        name: in prompts (``cooking pot``).
        evaluated: takes part unless other objects are named.
        rows: prompts of the released list per region key; empty for objects that are not in it.
    """

    key: str
    name: str
    evaluated: bool = True
    rows: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class World:
    """Objects and regions, and the words for them.

    Attributes:
        name: of the world.
        source: where it comes from: a publication or a file.
        regions: in order.
        objects: in order.
        templates: of prompts, by family (``object``, ``region``, ``country``).
        per_cell: images for each object in each region; None: as many as ``Thing.rows`` says.
        list_regions: keys in the order of the released lists.
    """

    name: str
    source: str
    regions: tuple[Place, ...]
    objects: tuple[Thing, ...]
    templates: Mapping[str, str] = field(default_factory=lambda: dict(TEMPLATES))
    per_cell: int | None = None
    list_regions: tuple[str, ...] = ()

    def region(self, text: str) -> Place | None:
        """The region that a key, name or data set id means, whatever its case, spaces and article."""
        return _lookup(self.regions, text, lambda p: (p.key, p.name, *((p.id,) if p.id else ())))

    def thing(self, text: str) -> Thing | None:
        """The object that a key or name means, whatever its case and spaces."""
        return _lookup(self.objects, text, lambda t: (t.key, t.name))

    def text(self, family: str, item: Thing, region: Place | None = None, country: str | None = None) -> str:
        """The prompt: nothing is added to the template, no article and no full stop."""
        words = {"object": item.name, "region": region.name if region else "", "country": country or ""}
        return self.templates[family].format(**words)

    def cell_size(self, item: Thing, region: Place) -> int:
        """Images asked for of an object in a region."""
        return item.rows.get(region.key, 0) if self.per_cell is None else self.per_cell

    def choose(self, objects: Sequence[str] | None = None, regions: Sequence[str] | None = None) -> World:
        """The same world with these objects and regions only, in its own order; objects: by default those evaluated.

        Raises:
            UsageError: a name it does not know.
        """
        things = [t for t in self.objects if t.evaluated]
        if objects is not None:
            things = self._named(objects, self.objects, self.thing, "object")
        places = list(self.regions)
        if regions is not None:
            places = self._named(regions, self.regions, self.region, "region")
        return replace(self, objects=tuple(things), regions=tuple(places))

    def _named(self, names: Sequence[str], known: Sequence[Any], find: Any, kind: str) -> list[Any]:
        results = []
        for name in names:
            one = find(name)
            if one is None:
                raise UsageError(
                    f"no {kind} {name!r} in the world {self.name!r}; it has {', '.join(x.key for x in known)}"
                )
            results.append(one)
        if not results:
            raise UsageError(f"no {kind} was named; leave the option out for all of them")
        return [x for x in known if x in results]

    def with_foreign(self, objects: Iterable[str], regions: Iterable[str]) -> World:
        """The same world with these names too, as they are written; those it knows already stay as they are.

        A name of a table is the key; in prompts, its underscores are spaces.
        """
        world = self
        for name in dict.fromkeys(objects):
            if world.thing(name) is None:
                world = replace(world, objects=(*world.objects, Thing(key=name, name=name.replace("_", " "))))
        for name in dict.fromkeys(regions):
            if world.region(name) is None:
                world = replace(world, regions=(*world.regions, Place(key=name, name=name.replace("_", " "))))
        return world

    def record(self) -> dict[str, Any]:
        """As JSON, in the form of a world file."""
        return {
            "name": self.name,
            "source": self.source,
            "per_cell": self.per_cell,
            "templates": dict(self.templates),
            "list_regions": list(self.list_regions),
            "regions": [
                {"key": p.key, "name": p.name, "countries": list(p.countries)} | ({"id": p.id} if p.id else {})
                for p in self.regions
            ],
            "objects": [
                {"key": t.key, "name": t.name, "evaluated": t.evaluated, "rows": dict(t.rows)} for t in self.objects
            ],
        }


def fold(text: str) -> str:
    """A name without what people vary: case, spaces, underscores, hyphens, a leading article."""
    return re.sub(r"[\s_\-]+", "", re.sub(r"^the[\s_]+", "", text.strip().casefold()))


def _lookup(entries: Sequence[Entry], text: str, names: Callable[[Entry], tuple[str, ...]]) -> Entry | None:
    for entry in entries:  # exact names first: two of one's own may differ in nothing but case
        if text in names(entry):
            return entry
    folded = fold(text)
    return next((entry for entry in entries if folded in {fold(name) for name in names(entry)}), None)


@cache
def standard_world(name: str) -> World:
    """``geode`` or ``dollarstreet``, with every object of the released lists.

    Raises:
        UsageError: another name.
    """
    if name not in WORLDS.values():
        raise UsageError(f"no world {name!r}; there are {', '.join(WORLDS.values())}, and files of your own")
    text = (resources.files("verism") / "data" / "geography" / f"{name}.json").read_text(encoding="utf-8")
    return world_from_record(json.loads(text), where=name)


def read_world(path: Path) -> World:
    """A world of your own, from a YAML or JSON file.

    Raises:
        UsageError: no such file, not readable, or something missing or misspelt in it.
    """
    record = read_document(path, "a world")
    with well_formed(path):
        return world_from_record(record, where=str(path))


_KEYS = ("name", "source", "per_cell", "templates", "list_regions", "regions", "objects")


def world_from_record(record: Any, *, where: str) -> World:
    """A world from parsed JSON or YAML; ``where`` names the source in errors.

    Raises:
        UsageError: something is missing or misspelt.
    """
    if not isinstance(record, Mapping):
        raise UsageError(f"{where}: expected a mapping with `objects` and `regions`, got {type(record).__name__}")
    if unknown := sorted(set(record) - set(_KEYS)):
        raise UsageError(f"{where}: unknown key {unknown[0]!r}; a world has {', '.join(_KEYS)}")
    regions = tuple(_place(key, value, where) for key, value in _entries(record, "regions", where))
    list_regions = tuple(record.get("list_regions") or [p.key for p in regions])
    objects = tuple(_thing(key, value, list_regions, where) for key, value in _entries(record, "objects", where))
    for kind, names in (("region", [p.key for p in regions]), ("object", [t.key for t in objects])):
        if twice := sorted({n for n in names if names.count(n) > 1}):
            raise UsageError(f"{where}: {kind} {twice[0]!r} is listed twice")
    per_cell = record.get("per_cell")
    if per_cell is not None and (not isinstance(per_cell, int) or isinstance(per_cell, bool) or per_cell < 1):
        raise UsageError(f"{where}: per_cell is a whole number of images, at least 1; got {per_cell!r}")
    if per_cell is None and not all(t.rows for t in objects):
        per_cell = 180
    return World(
        name=str(record.get("name", Path(where).stem)),
        source=str(record.get("source", where)),
        regions=regions,
        objects=objects,
        templates=_templates(record.get("templates") or {}, where),
        per_cell=per_cell,
        list_regions=list_regions,
    )


def _entries(record: Mapping[str, Any], kind: str, where: str) -> list[tuple[str, Mapping[str, Any]]]:
    """(key, fields) of a list of names or mappings, or of a mapping by key."""
    value = record.get(kind)
    if isinstance(value, Mapping):
        entries = [(str(key), fields or {}) for key, fields in value.items()]
    elif isinstance(value, Sequence) and not isinstance(value, str):
        entries = []
        for item in value:
            if isinstance(item, Mapping):
                if not item.get("key") and not item.get("name"):
                    raise UsageError(f"{where}: one of the {kind} has neither `key` nor `name`: {dict(item)}")
                entries.append((str(item.get("key") or item["name"]), item))
            else:
                entries.append((str(item), {}))
    else:
        raise UsageError(f"{where}: `{kind}` is missing, or neither a list nor a mapping")
    if not entries:
        raise UsageError(f"{where}: `{kind}` is empty")
    for key, fields in entries:
        if not isinstance(fields, Mapping):
            raise UsageError(f"{where}: {kind}, {key}: expected a mapping, got {fields!r}")
    return entries


def _fields(key: str, fields: Mapping[str, Any], allowed: Sequence[str], where: str) -> None:
    if unknown := sorted(set(fields) - set(allowed)):
        raise UsageError(f"{where}: {key}: unknown field {unknown[0]!r}; there are {', '.join(allowed)}")


def _place(key: str, fields: Mapping[str, Any], where: str) -> Place:
    _fields(key, fields, ("key", "name", "id", "countries"), where)
    countries = fields.get("countries") or ()
    if isinstance(countries, str):
        raise UsageError(f"{where}: {key}: countries is a list, got {countries!r}")
    return Place(
        key=key,
        name=str(fields.get("name", key.replace("_", " "))),
        id=fields.get("id"),
        countries=tuple(str(c) for c in countries),
    )


def _thing(key: str, fields: Mapping[str, Any], list_regions: Sequence[str], where: str) -> Thing:
    _fields(key, fields, ("key", "name", "evaluated", "rows"), where)
    rows = fields.get("rows") or {}
    if not isinstance(rows, Mapping):
        if len(rows) != len(list_regions):
            raise UsageError(f"{where}: {key}: rows has {len(rows)} numbers for {len(list_regions)} regions")
        rows = dict(zip(list_regions, rows, strict=True))
    return Thing(
        key=key,
        name=str(fields.get("name", key.replace("_", " "))),
        evaluated=bool(fields.get("evaluated", True)),
        rows={str(r): int(n) for r, n in rows.items()},
    )


def _templates(given: Mapping[str, Any], where: str) -> dict[str, str]:
    if unknown := sorted(set(given) - set(FAMILIES)):
        raise UsageError(f"{where}: no template {unknown[0]!r}; there are {', '.join(FAMILIES)}")
    templates = {**TEMPLATES, **{family: str(text) for family, text in given.items()}}
    for family, text in templates.items():
        asked = set(re.findall(r"{([^{}]*)}", text))
        needed = {"object"} if family == "object" else {"object", family}
        if asked != needed:
            raise UsageError(
                f"{where}: the {family} template {text!r} must hold "
                f"{' and '.join('{' + n + '}' for n in sorted(needed))}, and no other field"
            )
    return templates
