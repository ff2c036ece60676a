"""Files that ``verism metrics`` and ``verism gep`` take: arrays, captions, tables, lines of text.

Whatever is wrong with one is wrong usage, told with the option that named the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verism.arrays import Arrays, open_arrays
from verism.errors import UsageError
from verism.files import csv_cells, read_json, read_text
from verism.terminal import say

if TYPE_CHECKING:
    import numpy as np

    from verism.metrics.frechet import FeatureStatistics

Array = Any  # numpy arrays: numpy is loaded with the first command, not with the command line

TOTALS = ("total", "sum", "all", "n", "count", "images")  # names of columns that may be sums of the others


@contextmanager
def usage() -> Iterator[None]:
    """What a metric says about its input is wrong usage."""
    try:
        yield
    except ValueError as err:
        raise UsageError(str(err)) from err


# -------------------------------------------------------------------------------------------------------------- arrays
@contextmanager
def _of_option(option: str) -> Iterator[None]:
    """Name the option in what is wrong with its file."""
    try:
        yield
    except UsageError as err:
        raise UsageError(f"{option}: {err}") from err


@contextmanager
def _open(path: Path, option: str) -> Iterator[Any]:
    """An array, or the arrays of an open .npz file."""
    if path.suffix not in (".npy", ".npz"):
        raise UsageError(f"{option} must be an .npy or .npz file; got {path}")
    with _of_option(option), open_arrays(path, "an array (.npy, .npz)") as opened:
        yield opened


def read_array(path: Path, option: str) -> Array:
    """An array of any shape."""
    with _open(path, option) as opened:
        if not isinstance(opened, Arrays):
            return opened
        name = "features" if "features" in opened else next(iter(opened)) if len(opened) == 1 else None
        if name is None:
            hint = ""
            if {"mu", "sigma"} <= set(opened):
                hint = ". It is a statistics file, which only `verism metrics fid` can use"
            raise UsageError(f"{path} must hold one array, or one named features; it has {', '.join(opened)}{hint}")
        return opened[name]


def read_features(path: Path, option: str) -> Array:
    """Numbers of shape (N, D)."""
    array = read_array(path, option)
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        hint = ". Images must be turned into features first" if array.ndim == 4 else ""
        raise UsageError(
            f"{option}: {path} must hold numbers of shape (rows, columns), one row per image; "
            f"got {array.dtype} of shape {array.shape}{hint}"
        )
    return array


def read_features_or_statistics(path: Path, option: str) -> Array | FeatureStatistics:
    """Features, or the mean and covariance of a statistics file."""
    with _open(path, option) as opened:
        is_statistics = isinstance(opened, Arrays) and bool({"mu", "sigma"} & set(opened))
    if is_statistics:
        from verism.metrics.frechet import read_statistics

        with usage():
            return read_statistics(path)
    return read_features(path, option)


def read_pixels(path: Path, option: str) -> Array:
    """An image, shape (H, W, 3)."""
    from verism.imaging import read_image

    image = read_image(path)
    if image.pixels is None:
        raise UsageError(f"{option}: {path} cannot be used: {image.note}")
    if image.state == "ok" and image.note:
        say(f"{path}: {image.note}")
    return image.pixels


# ---------------------------------------------------------------------------------------------------------------- text
def read_lines(path: Path, option: str) -> list[str]:
    """The lines of a text file; only line feeds end one, as prompts may hold any other separator."""
    with _of_option(option):
        text = read_text(path)
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]


def read_clusters(path: Path | None, n: int) -> np.ndarray | None:
    """The prompt of each of n images: a line each, or column `prompt` of a .csv file; None without a file."""
    import numpy as np

    if path is None:
        return None
    lines: list[str | None] = [*read_lines(path, "--prompts")]
    unit = "line"
    if path.suffix.lower() == ".csv":
        with _of_option("--prompts"):
            rows = [cells for _, cells in csv_cells(read_text(path, "a table (.csv)"), path)]
        names = [name.strip().lower() for name in rows[0]] if rows else []
        if "prompt" in names:
            at = names.index("prompt")
            # None, which metrics refuse, where a row is too short
            lines, unit = [row[at] if at < len(row) else None for row in rows[1:]], "row"
    if len(lines) != n:
        raise UsageError(f"--prompts: {path} must have one {unit} for each of the {n:,} images; it has {len(lines):,}")
    return np.array(lines)


def read_counts(path: Path, option: str) -> tuple[list[str], list[list[float]]]:
    """Names of the classes, and counts of each prompt."""
    with _of_option(option):
        rows = [[cell.strip() for cell in cells] for _, cells in csv_cells(read_text(path, "a table (.csv)"), path)]
    if len(rows) < 2:
        raise UsageError(f"{option}: {path} must have a line of class names, and a row of counts per prompt")
    columns = [i for i, name in enumerate(rows[0]) if name.lower() != "prompt"]
    classes = [rows[0][i] for i in columns]
    if any(name.replace(".", "", 1).isdigit() for name in classes):
        raise UsageError(f"{option}: the first line of {path} must name the classes; got {','.join(rows[0])[:200]}")
    if len(set(classes)) < len(classes):
        raise UsageError(f"{option}: {path} must name each class once; got {','.join(rows[0])[:200]}")
    named = [i for i, name in enumerate(rows[0]) if name.lower() == "prompt"]
    seen: set[str] = set()
    table = []
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(rows[0]):
            raise UsageError(f"{option}: row {number} of {path} must have {len(rows[0])} cells; it has {len(row)}")
        if named and row[named[0]] and row[named[0]] in seen:
            raise UsageError(f"{option}: row {number} of {path} is of {row[named[0]]!r} again; a prompt has one row")
        seen |= {row[i] for i in named}
        try:
            table.append([float(row[i]) for i in columns])
        except ValueError:
            raise UsageError(f"{option}: row {number} of {path} must have counts; got {','.join(row)[:200]}") from None
    for i, name in enumerate(classes):
        if name.lower() in TOTALS and all(row[i] == sum(row) - row[i] for row in table):
            raise UsageError(
                f"{option}: the column {name!r} of {path} is the sum of the others and no class; remove it"
            )
    return classes, table


def read_frequencies(path: Path, option: str) -> dict[tuple[str, str], dict[str, dict[str, Fraction]]]:
    """Frequency of each attribute by (model, setting) and gender; exact, so that equal differences stay equal."""
    columns = ("model", "setting", "gender", "attribute", "frequency")
    with _of_option(option):
        rows = list(csv_cells(read_text(path, "a table (.csv)"), path))
    header = rows[0][1] if rows else []
    if missing := [c for c in columns if c not in header]:
        raise UsageError(
            f"{option}: {path} must have the columns {', '.join(columns)}; {', '.join(missing)} is missing"
        )
    table: dict[tuple[str, str], dict[str, dict[str, Fraction]]] = {}
    for line, cells in rows[1:]:
        where = f"{option}: {line}"
        row = dict(zip(header, cells, strict=False))
        model, setting, gender, attribute, text = (row.get(c, "").strip() for c in columns)
        try:
            frequency = Fraction(text)
        except (ValueError, ZeroDivisionError):
            raise UsageError(f"{where} must have a number as frequency, such as 0.25 or 20/80; got {text!r}") from None
        if not 0 <= frequency <= 1:
            raise UsageError(f"{where} must have a frequency from 0 to 1; got {text}")
        shares = table.setdefault((model, setting), {}).setdefault(gender, {})
        if attribute in shares:
            raise UsageError(f"{where} gives {attribute!r} of {gender!r} again ({model}, {setting})")
        shares[attribute] = frequency
    if not table:
        raise UsageError(f"{option}: {path} has no rows")
    for (model, setting), genders in table.items():
        where = f"{option}: {path}, {model}, {setting}"
        if len(genders) < 2:
            raise UsageError(f"{where}: needs at least two genders to compare; it has {', '.join(genders)}")
        attributes = {attribute for shares in genders.values() for attribute in shares}
        for gender, shares in genders.items():
            if absent := sorted(attributes - set(shares)):
                raise UsageError(f"{where}: {gender!r} lacks {', '.join(absent)}, which others have")
    return table


# ------------------------------------------------------------------------------------------------------------ captions
def _read_json(path: Path, option: str) -> Any:
    with _of_option(option):
        return read_json(path)


def _records(content: Any, path: Path, option: str) -> Sequence[Mapping[str, Any]]:
    wanted = {"image_id", "caption"}
    if not isinstance(content, list) or not all(isinstance(r, dict) and wanted <= set(r) for r in content):
        raise UsageError(f"{option}: {path} must have a list of records, each with image_id and caption")
    for record in content:
        if not isinstance(record["image_id"], (int, str)):
            raise UsageError(f"{option}: image_id in {path} must be a number or a text; got {record['image_id']!r}")
    return content


def read_references(path: Path, option: str) -> dict[int | str, list[str]]:
    """Captions of each image of a COCO captions file, in the order of the file."""
    content = _read_json(path, option)
    if not isinstance(content, dict) or "annotations" not in content:
        raise UsageError(f'{option}: {path} must be a COCO captions file, {{"annotations": [...]}}')
    captions: dict[int | str, list[str]] = {}
    for record in _records(content["annotations"], path, option):
        if not isinstance(record["caption"], str):
            raise UsageError(f"{option}: caption of image_id {record['image_id']!r} in {path} must be a text")
        captions.setdefault(record["image_id"], []).append(record["caption"])
    return captions


def read_candidates(path: Path, option: str) -> dict[int | str, str | None]:
    """The caption of each image of a COCO results file, None where the captioner gave none."""
    captions: dict[int | str, str | None] = {}
    for record in _records(_read_json(path, option), path, option):
        key, caption = record["image_id"], record["caption"]
        if key in captions:
            raise UsageError(f"{option}: {path} must have one caption per image; image_id {key!r} comes again")
        if not (caption is None or isinstance(caption, str)):
            raise UsageError(f"{option}: caption of image_id {key!r} in {path} must be a text; got {caption!r}")
        captions[key] = caption
    return captions
