"""Real images by object and region: GeoDE and DollarStreet folders as published, tables, reference files.

Nothing is opened but lists: whether a file exists is looked up, what it shows is not.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from verism.errors import UsageError
from verism.files import IMAGE_SUFFIXES, read_rows
from verism.locations import beside, is_file, location
from verism.records import FacetValue, ReferenceImage, ReferenceSet
from verism.references import SUFFIX, read_reference
from verism.suites.geography.worlds import World
from verism.user_images import PATH_COLUMNS

__all__ = [
    "LAYOUTS",
    "Check",
    "RealData",
    "RealImage",
    "check_data",
    "fit_world",
    "layout_of",
    "read_real",
    "reference_of",
    "value_of",
]

LAYOUTS = ("geode", "dollarstreet", "table", "file")

OBJECT_COLUMNS = ("object", "topics", "topic", "label", "class")
REGION_COLUMNS = ("region", "region.id", "region_id", "regions")
COUNTRY_COLUMNS = ("country", "country.name", "ip_country")
INDEX = "index.csv"
SHOWN = 5  # examples of what is missing

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class RealImage:
    """A row of real data, as it is written there.

    Attributes:
        name: unique name.
        path: absolute path of the file; None where none is known.
        object: name of the object, as the data set writes it.
        region: name of the region, as the data set writes it.
        row: its row number in the table.
        exists: whether the file is there.
        extra: the row's other columns (``country``, ``tree_tag`` ...).
    """

    name: str
    path: str | None
    object: str
    region: str
    row: int
    exists: bool = True
    extra: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class RealData:
    """What a reference source holds.

    Attributes:
        layout: one of ``LAYOUTS``.
        source: where the data comes from, as a run records it.
        lists: names of the files that were read.
        listed: number of rows in them.
        images: the images, in the order of the rows.
        dropped: number of rows left out, by reason.
        missing: files that are listed but are not there.
        judge: name of the judge that computed the features of a reference file; None for other sources.
        features: features of a reference file, shape (N, D), row i of image i; None for other sources.
        known: the reference set of a reference file, with the same images; None for other sources.
    """

    layout: str
    source: str
    lists: tuple[str, ...]
    listed: int
    images: tuple[RealImage, ...]
    dropped: Mapping[str, int]
    missing: tuple[str, ...] = ()
    judge: str | None = None
    features: np.ndarray | None = None
    known: ReferenceSet | None = None


def value_of(row: Mapping[str, Any], columns: Sequence[str]) -> str:
    """The first of these columns that a row fills; empty if none."""
    for column in columns:
        value = row.get(column)
        if value is not None and str(value).strip():
            return str(value).strip()
    return ""


# ------------------------------------------------------------------------------------------------------------- reading
def read_real(
    path: Path, world: World, *, layout: str | None = None, tree_tag: str | None = None, need_files: bool = True
) -> RealData:
    """The real images of a folder, table or reference file.

    Args:
        path: the folder, table or reference file.
        world: whose names of objects GeoDE file names are taken apart by.
        layout: what it must be; None: what it looks like.
        tree_tag: only rows with this value in the column ``tree_tag``.
        need_files: leave out images whose file is not there; otherwise they stay, for a run to report.

    Raises:
        UsageError: no such source, not of that layout, a table without the columns, or no image in it.
    """
    result = layout_of(path)
    if layout is not None and layout not in LAYOUTS:
        raise UsageError(f"no layout {layout!r}; there are {', '.join(LAYOUTS)}")
    if layout is not None and layout != result and not (layout in ("geode", "dollarstreet") and path.is_dir()):
        raise UsageError(f"{path} is a {result}, not a {layout} folder")
    readers: Mapping[str, Callable[[], RealData]] = {
        "geode": lambda: _read_geode(path, world, tree_tag, need_files),
        "dollarstreet": lambda: _read_dollarstreet(path, need_files),
        "table": lambda: _read_table(path, tree_tag, need_files),
        "file": lambda: _read_file(path, tree_tag),
    }
    return readers[layout or result]()


def layout_of(path: Path) -> str:
    """One of ``LAYOUTS``, by what is there. Raises UsageError if nothing is, or a folder of another kind."""
    if path.is_file():
        return "file" if path.suffix == SUFFIX else "table"
    if not path.is_dir():
        raise UsageError(f"{path}: no such folder or file")
    if _dollarstreet_lists(path):
        return "dollarstreet"
    if _geode_index(path) is not None or (path / "images").is_dir():
        return "geode"
    raise UsageError(
        f"{path} is neither a GeoDE folder (index.csv, images/) nor a DollarStreet folder (images_v2*.csv); give "
        "one of these, or a table with columns file_path, object, region"
    )


def _keep_files(
    rows: Sequence[tuple[RealImage, str]], dropped: Counter[str], need_files: bool
) -> tuple[tuple[RealImage, ...], tuple[str, ...]]:
    """Images with unique names, and the files that are not there. Rows come with the path as it is written."""
    kept: list[RealImage] = []
    missing: list[str] = []
    names: Counter[str] = Counter()
    for image, written in rows:
        if not image.exists:
            missing.append(written)
            if need_files:
                dropped["file is missing"] += 1
                continue
        names[image.name] += 1
        if names[image.name] > 1:  # one file under two labels is two rows; what equals what is found by features
            image = replace(image, name=f"{image.name}@{names[image.name]}")
        kept.append(image)
    return tuple(kept), tuple(missing)


def _file(candidates: Sequence[Path]) -> dict[str, Any]:
    """``path`` and ``exists`` of the first candidate that is there, or of the first."""
    there = next((c for c in candidates if is_file(c)), None)
    path = there or next(iter(candidates), None)
    return {"path": str(path.absolute()) if path is not None else None, "exists": there is not None}


def _read_table(path: Path, tree_tag: str | None, need_files: bool) -> RealData:
    rows = read_rows(path)
    if not rows:
        raise UsageError(f"{path}: no rows in it")
    dropped: Counter[str] = Counter()
    images: list[tuple[RealImage, str]] = []
    for number, row in enumerate(rows):
        written = value_of(row, PATH_COLUMNS)
        region = value_of(row, REGION_COLUMNS)
        labels = _labels(row)
        for what, value, columns in (
            ("image", written, PATH_COLUMNS),
            ("object", "".join(labels), OBJECT_COLUMNS),
            ("region", region, REGION_COLUMNS),
        ):
            if not value:
                raise UsageError(f"{row.where}: no {what}; a column is named {' or '.join(columns[:3])}")
        if _skip(row, labels, tree_tag, dropped, path):
            continue
        file = location(written)
        images.append(
            (
                RealImage(
                    name=file.as_posix() if not file.is_absolute() else file.name,
                    **_file([beside(path.parent, written)]),
                    object=labels[0],
                    region=region,
                    row=number,
                    extra=_extra(row),
                ),
                written,
            )
        )
    kept, missing = _keep_files(images, dropped, need_files)
    return RealData(
        layout="table",
        source=str(path),
        lists=(path.name,),
        listed=len(rows),
        images=kept,
        dropped=dict(dropped),
        missing=missing,
    )


def _skip(
    row: Mapping[str, Any], labels: Sequence[str], tree_tag: str | None, dropped: Counter[str], path: Path
) -> bool:
    if len(labels) > 1:
        dropped["more than one topic"] += 1
        return True
    if tree_tag is not None:
        if "tree_tag" not in row:
            raise UsageError(f"{path}: there is no column tree_tag to choose {tree_tag!r} from")
        if str(row["tree_tag"]).strip() != tree_tag:
            dropped[f"tree_tag is not {tree_tag}"] += 1
            return True
    return False


def _extra(row: Mapping[str, Any]) -> dict[str, str]:
    taken = {*PATH_COLUMNS, *OBJECT_COLUMNS, *REGION_COLUMNS}
    extra = {str(k): str(v) for k, v in row.items() if k and k not in taken and isinstance(v, str | int | float)}
    if (country := value_of(row, COUNTRY_COLUMNS)) and "country" not in extra:
        extra["country"] = country
    return extra


def _labels(row: Mapping[str, Any]) -> list[str]:
    """The object of a row; DollarStreet's ``topics`` are a list, written as one or with commas."""
    if value := value_of(row, ("object",)):
        return [value]
    value = value_of(row, OBJECT_COLUMNS)
    if isinstance(row.get("topics"), list):
        return [str(t).strip() for t in row["topics"]]
    if value.startswith("["):
        try:
            return [str(t).strip() for t in ast.literal_eval(value)]
        except (ValueError, SyntaxError):
            return [t.strip(" '\"") for t in value.strip("[]").split(",")]
    return [t.strip() for t in value.split(",") if t.strip()]


# ---- GeoDE
def _geode_index(folder: Path) -> Path | None:
    for candidate in (folder / INDEX, *sorted(folder.glob(f"*/{INDEX}"))):
        if is_file(candidate):
            return candidate
    return None


def _read_geode(folder: Path, world: World, tree_tag: str | None, need_files: bool) -> RealData:
    index = _geode_index(folder)
    dropped: Counter[str] = Counter()
    real_images: list[tuple[RealImage, str]] = []
    if index is None:
        if tree_tag is not None:
            raise UsageError(f"{folder}: tree_tag is a column of {INDEX}, which is not there")
        images = folder / "images" if (folder / "images").is_dir() else folder
        files = sorted(p for p in images.rglob("*") if p.suffix.lower() in IMAGE_SUFFIXES)
        for number, file in enumerate(files):
            parts = geode_name(file.name, world)
            if parts is None:
                dropped["name is not {Region}_{Country}_{Country}_{object}_{number}"] += 1
                continue
            region, country, item = parts
            image = RealImage(
                name=file.relative_to(folder).as_posix(),
                path=str(file.absolute()),
                object=item,
                region=region,
                row=number,
                extra={"country": country},
            )
            real_images.append((image, file.name))
        listed, lists = len(files), ("images/",)
    else:
        rows = read_rows(index)
        listed, lists = len(rows), (index.relative_to(folder).as_posix(),)
        for number, row in enumerate(rows):
            written = value_of(row, PATH_COLUMNS)
            if not written:
                raise UsageError(f"{row.where}: no image; expected a column file_path")
            parts = geode_name(Path(written).name, world)
            item = value_of(row, OBJECT_COLUMNS) or (parts[2] if parts else "")
            region = value_of(row, REGION_COLUMNS) or (parts[0] if parts else "")
            if not item or not region:
                raise UsageError(f"{row.where}: no object and region, not even in {written!r}")
            if _skip(row, [item], tree_tag, dropped, index):
                continue
            base, relative = index.parent, written.lstrip("/")
            image = RealImage(
                name=relative,
                **_file([base / relative, base / "images" / relative, base / "images" / Path(relative).name]),
                object=item,
                region=region,
                row=number,
                extra=({"country": parts[1]} if parts else {}) | _extra(row),
            )
            real_images.append((image, written))
    kept, missing = _keep_files(real_images, dropped, need_files)
    return RealData(
        layout="geode",
        source=str(folder),
        lists=lists,
        listed=listed,
        images=kept,
        dropped=dict(dropped),
        missing=missing,
    )


def geode_name(name: str, world: World) -> tuple[str, str, str] | None:
    """(region, country, object) of ``{RegionKey}_{Country}_{Country}_{object_key}_{number}.jpg``; None if it is not so.

    Objects hold underscores and countries may, so the object is the longest known key the name ends in.
    """
    match = re.fullmatch(r"([^_]+)_(.+)_(\d+)", Path(name).stem)
    position = world.region(match[1]) if match else None
    if match is None or position is None:
        return None
    key = max((t.key for t in world.objects if match[2].endswith(f"_{t.key}")), key=len, default=None)
    if key is None:
        return None
    countries = match[2].removesuffix(f"_{key}")
    half = len(countries) // 2
    country = countries[:half] if countries[:half] == countries[half + 1 :] else countries
    return position.key, country.replace("_", " "), key


# ---- DollarStreet
DOLLARSTREET_LISTS = ("images_v2_imagenet_train.csv", "images_v2_imagenet_test.csv")


def _dollarstreet_lists(folder: Path) -> list[Path]:
    """The train and test lists, else the full list; in the folder or in the one that the archive makes."""
    for base in (folder, folder / "dataset_dollarstreet"):
        lists = [base / name for name in DOLLARSTREET_LISTS if (base / name).is_file()]
        if lists:
            return lists
        if (base / "images_v2.csv").is_file():
            return [base / "images_v2.csv"]
    return []


def _read_dollarstreet(folder: Path, need_files: bool) -> RealData:
    lists = _dollarstreet_lists(folder)
    if not lists:
        raise UsageError(f"{folder}: no {' or '.join(DOLLARSTREET_LISTS)} (nor images_v2.csv) in it")
    dropped: Counter[str] = Counter()
    images: list[tuple[RealImage, str]] = []
    seen: set[str] = set()
    listed = 0
    for path in lists:
        for row in read_rows(path):
            listed += 1
            identity, labels, region = value_of(row, ("id",)), _labels(row), value_of(row, REGION_COLUMNS)
            written = value_of(row, ("imageRelPath", "imageFullPath", "file_path", "path"))
            if value_of(row, ("type",)).casefold() not in ("", "image"):
                dropped["not an image (column type)"] += 1
            elif identity and identity in seen:
                dropped["listed twice"] += 1
            elif not labels or not region:
                dropped["no topic or no region"] += 1
            elif len(labels) > 1:
                dropped["more than one topic"] += 1
            else:
                seen.add(identity)
                base = path.parent
                relative = re.sub(r"^/?(dataset_dollarstreet/)?", "", written)
                places = [base / relative, folder / relative] if relative else []
                named = sorted((base / "assets" / identity).glob("*")) if identity else []
                image = RealImage(
                    name=relative or identity,
                    **_file([*places, *named]),
                    object=labels[0],
                    region=region,
                    row=listed - 1,
                    extra=_extra(row),
                )
                images.append((image, written or identity))
    kept, missing = _keep_files(images, dropped, need_files)
    return RealData(
        layout="dollarstreet",
        source=str(folder),
        lists=tuple(p.name for p in lists),
        listed=listed,
        images=kept,
        dropped=dict(dropped),
        missing=missing,
    )


def _read_file(path: Path, tree_tag: str | None) -> RealData:
    reference = read_reference(path)
    dropped: Counter[str] = Counter()
    images: list[RealImage] = []
    rows: list[int] = []
    for number, image in enumerate(reference.images):
        facets = image.facets
        if facets.get("object") is None or facets.get("region") is None:
            dropped["no object or no region"] += 1
            continue
        if tree_tag is not None and str(facets.get("tree_tag")) != tree_tag:
            dropped[f"tree_tag is not {tree_tag}"] += 1
            continue
        row = facets.get("row")
        images.append(
            RealImage(
                name=image.image_id.removeprefix("real/"),
                path=image.path,
                object=str(facets["object"]),
                region=str(facets["region"]),
                row=row if isinstance(row, int) else number,
                extra={k: str(v) for k, v in facets.items() if k not in ("object", "region", "row") and v is not None},
            )
        )
        rows.append(number)
    return RealData(
        layout="file",
        source=reference.source,
        lists=(path.name,),
        listed=len(reference.images),
        images=tuple(images),
        dropped=dict(dropped),
        judge=reference.judge,
        features=None if reference.features is None else reference.features[rows],
        known=replace(reference, images=tuple(reference.images[i] for i in rows)),
    )


# ---------------------------------------------------------------------------------------------------------- which world
def fit_world(
    base: World,
    *,
    objects: Sequence[str] | None,
    regions: Sequence[str] | None,
    seen_objects: Sequence[str],
    seen_regions: Sequence[str],
    foreign: bool,
) -> World:
    """The world of a run: what was named, or else what the images show.

    Images that show every object the world evaluates (the paper's 27) are evaluated on these, although they may show
    more; otherwise on all they show. Regions: those they show.

    Args:
        base: the world to start from.
        objects: objects that the user named; None to use those the images show.
        regions: regions that the user named; None to use those the images show.
        seen_objects: objects of the images, as they are written there.
        seen_regions: regions of the images, as they are written there.
        foreign: whether names that the world does not know take part, too.

    Raises:
        UsageError: something was named that neither the world nor the images know, or nothing is left.
    """
    wide = base.with_foreign(seen_objects, seen_regions) if foreign else base
    chosen: dict[str, Sequence[str]] = {}
    if objects is None:
        shown = {t.key for o in seen_objects if (t := wide.thing(o)) is not None}
        evaluated = {t.key for t in base.objects if t.evaluated}
        strangers = {t.key for t in wide.objects[len(base.objects) :]}
        chosen["object"] = sorted((evaluated | strangers) & shown if evaluated <= shown else shown)
    else:
        chosen["object"] = objects
    if regions is None:
        chosen["region"] = sorted({p.key for r in seen_regions if (p := wide.region(r)) is not None})
    else:
        chosen["region"] = regions
    for kind, seen, known in (
        ("object", seen_objects, [t.key for t in base.objects]),
        ("region", seen_regions, [p.key for p in base.regions]),
    ):
        if not chosen[kind]:
            raise UsageError(
                f"the images show no {kind} of the world {base.name!r}, which has {_some(known)}; they show "
                f"{_some(list(seen)) or 'none'}"
            )
    return wide.choose(chosen["object"], chosen["region"])


def reference_of(data: RealData, world: World, columns: Sequence[str] = ()) -> ReferenceSet:
    """The images of a world's objects and regions as a reference set, in table order.

    Facets: ``object`` (as in prompts), ``region`` (key), ``row`` (place in the table), ``country`` and ``columns``
    where the data has them.
    """
    things, places = _memo(world.thing), _memo(world.region)
    images: list[ReferenceImage] = []
    rows: list[int] = []
    for number, real in enumerate(data.images):
        item, position = things(real.object), places(real.region)
        if item is None or position is None:
            continue
        facets: dict[str, FacetValue] = {"object": item.name, "region": position.key, "row": real.row}
        facets |= {c: real.extra[c] for c in ("country", *columns) if c in real.extra}
        sha256 = data.known.images[number].sha256 if data.known is not None else None
        images.append(ReferenceImage(image_id=f"real/{real.name}", path=real.path, sha256=sha256, facets=facets))
        rows.append(number)
    if not images:
        raise UsageError(f"{data.source}: none of its {len(data.images):,} images shows what is asked for")
    features = None if data.features is None else data.features[rows]
    return ReferenceSet(source=data.source, images=tuple(images), judge=data.judge, features=features)


def _memo(find: Callable[[str], T]) -> Callable[[str], T]:
    known: dict[str, T] = {}

    def result(name: str) -> T:
        if name not in known:
            known[name] = find(name)
        return known[name]

    return result


# ------------------------------------------------------------------------------------------------------------- checking
@dataclass(frozen=True, kw_only=True)
class Check:
    """What ``verism data check`` tells.

    Attributes:
        data: the reference source that was read.
        world: objects and regions that the check is about.
        cells: images per (object, region), both as prompts say them and as keys, zeros included.
        foreign: number of images left out, by the object or region that the world does not have.
        per_cell: images per cell that a balanced comparison uses; None for a world that is never balanced.
        ready: whether a run can use the data as it is.
        problems: what is wrong with it or worth knowing, as sentences.
    """

    data: RealData
    world: World
    cells: Mapping[tuple[str, str], int]
    foreign: Mapping[str, int]
    per_cell: int | None
    ready: bool
    problems: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "layout": self.data.layout,
            "source": self.data.source,
            "lists": list(self.data.lists),
            "rows_listed": self.data.listed,
            "rows_dropped": dict(self.data.dropped),
            "files_missing": len(self.data.missing),
            "files_missing_examples": list(self.data.missing[:SHOWN]),
            "pictures": len(self.data.images),
            "features": self.data.judge,
            "not_of_the_world": dict(self.foreign),
            "subset": {
                "world": self.world.name,
                "objects": [t.name for t in self.world.objects],
                "regions": [p.key for p in self.world.regions],
                "per_cell": self.per_cell,
                "pictures": self._subset_size(),
            },
            "cells": [{"object": o, "region": r, "pictures": n} for (o, r), n in self.cells.items()],
            "ready": self.ready,
            "problems": list(self.problems),
        }

    def _subset_size(self) -> int:
        return sum(n if self.per_cell is None else min(n, self.per_cell) for n in self.cells.values())

    def lines(self) -> list[str]:
        """For a person."""
        data, world = self.data, self.world
        lines = [
            f"{data.layout}: {data.source}",
            f"  lists            {', '.join(data.lists)}",
            f"  rows             {data.listed:,}",
        ]
        lines += [f"  left out         {n:,} ({reason})" for reason, n in data.dropped.items()]
        if data.missing:
            lines.append(f"  files missing    {len(data.missing):,}, e.g. {', '.join(data.missing[:3])}")
        lines.append(f"  images         {len(data.images):,}{f', features by {data.judge}' if data.judge else ''}")
        if self.foreign:
            some = ", ".join(list(self.foreign)[:SHOWN])
            lines.append(f"  not used         {sum(self.foreign.values()):,} of other objects or regions ({some} ...)")
        sizes = f"{len(world.objects)} objects x {len(world.regions)} regions"
        shape = f"{sizes} x {self.per_cell:,}" if self.per_cell is not None else f"{sizes}, as many as there are"
        lines.append(f"  will be used     {shape} = {self._subset_size():,} images")
        width = max(len(t.name) for t in world.objects)
        lines.append(" ".join([" " * (width + 2), *(f"{p.key:>13}" for p in world.regions)]))
        for item in world.objects:
            counts = [self.cells[item.name, p.key] for p in world.regions]
            lines.append(" ".join([f"  {item.name:<{width}}", *(f"{n:>13,}" for n in counts)]))
        lines += [f"  {problem}" for problem in self.problems]
        lines.append("ready" if self.ready else "not ready")
        return lines


def check_data(
    path: Path,
    base: World,
    *,
    layout: str | None = None,
    objects: Sequence[str] | None = None,
    regions: Sequence[str] | None = None,
    per_cell: int | None = None,
    k: int = 3,
    tree_tag: str | None = None,
) -> Check:
    """What a reference source holds, what is missing, and which part of it a run would use.

    A published folder is held against its world (GeoDE: the 27 objects in all six regions, 180 images each); a table
    against itself.

    Raises:
        UsageError: as ``read_real`` and ``fit_world``.
    """
    data = read_real(path, base, layout=layout, tree_tag=tree_tag)
    published = data.layout in ("geode", "dollarstreet")
    seen = [(p.object, p.region) for p in data.images]
    if published:
        world = base.choose(objects, regions)
    else:
        world = fit_world(
            base,
            objects=objects,
            regions=regions,
            seen_objects=list(dict.fromkeys(o for o, _ in seen)),
            seen_regions=list(dict.fromkeys(r for _, r in seen)),
            foreign=True,
        )
    cells = {(t.name, p.key): 0 for t in world.objects for p in world.regions}
    foreign: Counter[str] = Counter()
    things, places = _memo(world.thing), _memo(world.region)
    for o, r in seen:
        item, position = things(o), places(r)
        if item is None or position is None:
            foreign[o if item is None else r] += 1
        else:
            cells[item.name, position.key] += 1
    smallest = k + 2
    usable = [n for n in cells.values() if n >= smallest]
    target: int | None
    if base.per_cell is None:
        target = None
    elif per_cell is not None:
        target = per_cell
    else:
        target = base.per_cell if published else min(usable, default=0)
    problems: list[str] = []
    if empty := [f"{o} in {r}" for (o, r), n in cells.items() if n == 0]:
        problems.append(f"no image of {_some(empty)}")
    if small := [f"{o} in {r} ({n})" for (o, r), n in cells.items() if 0 < n < smallest]:
        problems.append(f"fewer than {smallest} images (k + 2 for k = {k}), object-region undefined: {_some(small)}")
    if target and (short := [f"{o} in {r} ({n})" for (o, r), n in cells.items() if smallest <= n < target]):
        problems.append(f"fewer than {target}: {_some(short)}; compared at the size they have")
    pooled = {p.key: sum(cells[t.name, p.key] for t in world.objects) for p in world.regions}
    ready = all(n >= smallest for n in pooled.values())
    return Check(
        data=data,
        world=world,
        cells=cells,
        foreign=dict(foreign),
        per_cell=target,
        ready=ready and (not published or not empty),
        problems=tuple(problems),
    )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
