"""Images that exist already, and which prompts they answer: tables, and folders named as the authors name them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from verism.errors import UsageError
from verism.records import FacetValue, Prompt, UserImage
from verism.suites.geography.layouts import COUNTRY_COLUMNS, REGION_COLUMNS, value_of
from verism.suites.geography.prompts import Asked, make_prompt, make_prompts, parse_bare, parse_prompt
from verism.suites.geography.worlds import FAMILIES, World, fold
from verism.user_images import PROMPT_COLUMNS, ImageRow, image_files, read_image_table, table_columns

__all__ = ["UserImageRow", "read_user_images", "user_image_prompts"]

OBJECT_COLUMNS = ("object", "topics", "topic")
COLUMNS = "prompt_id, prompt, or object (with region and country, where the prompt names them)"


@dataclass(frozen=True, kw_only=True)
class UserImageRow:
    """An image and what it was asked to show.

    Attributes:
        path: of the image file.
        family: form of the prompt: ``object``, ``region`` or ``country``.
        object: name of the object.
        region: region that the prompt names; None for object prompts.
        country: country that the prompt names; None for prompts without one.
        paired: for ``{object}`` prompts, the region its image is compared with; None: every region.
        text: the prompt, where it is written; None: by the world's template.
        extra: further columns of the table, by name.
    """

    path: str
    family: str
    object: str
    region: str | None
    country: str | None
    paired: str | None = None
    text: str | None = None
    extra: Mapping[str, str] = field(default_factory=dict)


def read_user_images(source: Path, world: World) -> list[UserImageRow]:
    """The images of a table or folder.

    A table (``.csv``, ``.jsonl``) has ``file_path`` or ``path`` (relative ones count from the table) and one of

    * ``object``, with ``region`` and ``country`` where the prompt names them: a country makes it a country prompt, a
      region a region prompt, neither an object prompt. A column ``family`` says it where that is not so: an object
      prompt with a region is compared with that region alone;
    * ``prompt``: the text, read by the world's templates (``car in the Americas``);
    * ``prompt_id``: as the suite names its prompts.

    A folder holds ``{prompt}__{number}.png``, in subfolders too; images are taken in the order of their numbers.

    Args:
        source: the table or folder.
        world: with every name that may occur in prompts.

    Raises:
        UsageError: no such source, or a row or file that names no prompt.
    """
    if source.is_dir():
        return _from_folder(source, world)
    rows = read_image_table(source, COLUMNS)
    by_id = _ids(world) if any(row.value("prompt_id") for row in rows) else {}
    return [_from_row(row, world, by_id) for row in rows]


def _ids(world: World) -> dict[str, Asked]:
    families = [f for f in FAMILIES if f != "country" or all(p.countries for p in world.regions)]
    return {
        p.prompt_id: Asked(
            str(p.facets["family"]),
            str(p.spec["object"]),
            _or_none(p.facets["region"]),
            _or_none(p.facets["country"]),
        )
        for p in make_prompts("", world, families)
    }


def _or_none(value: FacetValue) -> str | None:
    return None if value is None else str(value)


def _from_row(listed: ImageRow, world: World, by_id: Mapping[str, Asked]) -> UserImageRow:
    where, row = listed.where, listed.values
    item = listed.value(*OBJECT_COLUMNS)
    text = listed.value("prompt") or ("" if item else listed.value(*PROMPT_COLUMNS))
    identity, family = listed.value("prompt_id"), listed.value("family")
    if family and family not in FAMILIES:
        raise UsageError(f"{where}: no family {family!r}; there are {', '.join(FAMILIES)}")
    taken = {listed.path_column, *OBJECT_COLUMNS, *REGION_COLUMNS, *COUNTRY_COLUMNS, "prompt", "prompt_id", "family"}
    extra = {str(k): str(v) for k, v in row.items() if k and k not in taken and isinstance(v, str | int | float)}
    paired = None
    if item:
        asked = _asked_by_columns(row, where, family, item, world)
        if asked.family == "object":
            paired = value_of(row, REGION_COLUMNS) or None
    elif identity and identity in by_id:
        asked, text = by_id[identity], ""
    elif text:
        result = parse_prompt(world, text)
        if result is None and not _names_a_place(world, text):
            result = parse_bare(world, text)
        if result is None or (family and result.family != family):
            raise UsageError(
                f"{where}: the prompt {text!r} names no {family or 'object and region'} of the world {world.name!r} "
                f"({', '.join(p.name for p in world.regions)}); give the columns object and region instead"
            )
        asked = result
    elif identity:
        raise UsageError(f"{where}: no prompt {identity!r}; they look like {', '.join(list(by_id)[:2])}")
    else:
        raise UsageError(f"{where}: no object, prompt or prompt_id; {table_columns(COLUMNS)}")
    return UserImageRow(
        path=str(listed.path),
        family=asked.family,
        object=asked.thing,
        region=asked.region,
        country=asked.country,
        paired=paired,
        text=text or None,
        extra=extra,
    )


def _asked_by_columns(row: Mapping[str, Any], where: str, family: str, item: str, world: World) -> Asked:
    region, country = value_of(row, REGION_COLUMNS), value_of(row, COUNTRY_COLUMNS)
    family = family or ("country" if country else "region" if region else "object")
    if family == "object":
        return Asked(family, item)
    if family == "region":
        if not region:
            raise UsageError(f"{where}: a region prompt without region")
        return Asked(family, item, region)
    if not country:
        raise UsageError(f"{where}: a country prompt without country")
    spelled = {fold(c): (p.key, c) for p in world.regions for c in p.countries}
    position, name = spelled.get(fold(country), (region, country))
    if not region and not position:
        raise UsageError(f"{where}: the country {country!r} is in no region of the world {world.name!r}; give a region")
    return Asked(family, item, region or position, name)


def _names_a_place(world: World, text: str) -> bool:
    """Whether a text looks like a region or country prompt: ``car in Atlantis`` is no object."""
    for family in ("region", "country"):
        pattern = re.escape(world.templates[family])
        pattern = pattern.replace(r"\{object\}", "(.+)").replace(rf"\{{{family}\}}", "(.+)")
        if re.fullmatch(pattern, text.strip()):
            return True
    return False


def _from_folder(folder: Path, world: World) -> list[UserImageRow]:
    results: list[tuple[str, int, Path]] = []
    for path in image_files(folder, recursive=True):
        prompt, mark, number = path.stem.rpartition("__")
        if mark and number.isdecimal():
            results.append((prompt, int(number), path))
    if not results:
        raise UsageError(
            f"{folder}: no image in it is named PROMPT__NUMBER.png, such as 'car in the Americas__17.png'; rename "
            f"them, or give a table: {table_columns(COLUMNS)}"
        )
    starts: dict[str, int] = {}
    start = 0
    for item in world.objects:
        starts[item.key] = start
        start += sum(item.rows.values())
    rows = []
    for prompt, img_id, path in sorted(results, key=lambda f: (f[1], f[0], str(f[2]))):
        asked = parse_prompt(world, prompt)
        if asked is None:
            raise UsageError(
                f"{path}: {prompt!r} is no prompt of the world {world.name!r}; give a table: {table_columns(COLUMNS)}"
            )
        paired = None
        if asked.family == "object" and world.per_cell is None:
            paired = _row_region(world, asked.thing, img_id - starts[asked.thing])
        rows.append(
            UserImageRow(
                path=str(path.absolute()),
                family=asked.family,
                object=asked.thing,
                region=asked.region,
                country=asked.country,
                paired=paired,
            )
        )
    return rows


def _row_region(world: World, name: str, position: int) -> str | None:
    """The region of the row of a released list that is the ``position``-th of an object's ``{object}`` rows."""
    known = world.thing(name)
    for region in world.list_regions:
        size = known.rows.get(region, 0) if known is not None else 0
        if 0 <= position < size:
            return region
        position -= size
    return None


def user_image_prompts(
    suite: str, world: World, rows: Sequence[UserImageRow], columns: Sequence[str] = ()
) -> tuple[list[Prompt], list[UserImage]]:
    """The prompts that user images answer, with as many images as there are, and the images.

    Rows of other objects or regions than the world's are left out. Prompts come by family, then in the world's order;
    images of a prompt in the order of the rows, where {object} prompts are paired with regions: region by region.

    Args:
        suite: name of the suite the prompts belong to.
        world: names and templates.
        rows: the images, as ``read_user_images`` gives them.
        columns: further columns that become facets; rows that differ in them are different prompts.
    """
    things = {o: world.thing(o) for o in dict.fromkeys(r.object for r in rows)}
    names = dict.fromkeys(n for r in rows for n in (r.region, r.paired) if n is not None)
    places = {n: world.region(n) for n in names}
    rank = {t.key: i for i, t in enumerate(world.objects)} | {p.key: i for i, p in enumerate(world.regions)}
    groups: dict[tuple[Asked, str | None, tuple[str | None, ...]], list[UserImageRow]] = {}
    for row in rows:
        item, position = things[row.object], places[row.region] if row.region is not None else None
        if item is None or (row.region is not None and position is None):
            continue
        if row.family == "object" and row.paired is not None and places[row.paired] is None:
            continue
        asked = Asked(row.family, item.key, position.key if position else None, row.country)
        text = row.text
        if text is not None and text == world.text(row.family, item, position, row.country):
            text = None
        groups.setdefault((asked, text, tuple(row.extra.get(c) for c in columns)), []).append(row)

    def order(key: tuple[Asked, str | None, tuple[str | None, ...]]) -> tuple[int, int, int, str]:
        asked = key[0]
        where = -1 if asked.region is None else rank[asked.region]
        return FAMILIES.index(asked.family), rank[asked.thing], where, asked.country or ""

    prompts: list[Prompt] = []
    images: list[UserImage] = []
    taken: dict[str, int] = {}
    for key in sorted(groups, key=order):  # stable: variants of one prompt stay in the order of the rows
        asked, text, values = key
        members = groups[key]
        pairing: list[tuple[str, int]] | None = None
        if asked.family == "object" and all(m.paired is not None for m in members):
            pairing = []
            of_region: dict[str, list[UserImageRow]] = {}
            for m in members:
                position = places[m.paired] if m.paired is not None else None
                assert position is not None
                of_region.setdefault(position.key, []).append(m)
            members = []
            for region in sorted(of_region, key=rank.__getitem__):
                pairing.append((region, len(of_region[region])))
                members += of_region[region]
        extra = {c: v for c, v in zip(columns, values, strict=True) if c not in ("object", "region", "country")}
        prompt = make_prompt(suite, world, asked, len(members), pairing=pairing, extra=extra, text=text)
        taken[prompt.prompt_id] = taken.get(prompt.prompt_id, 0) + 1
        if taken[prompt.prompt_id] > 1:
            prompt = replace(prompt, prompt_id=f"{prompt.prompt_id}~{taken[prompt.prompt_id]}")
        prompts.append(prompt)
        images += [UserImage(prompt_id=prompt.prompt_id, index=i, path=m.path) for i, m in enumerate(members)]
    return prompts, images
