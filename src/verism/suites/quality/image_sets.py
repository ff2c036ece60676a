"""Sets of images to compare, from wherever they lie: folders, lists, verism's own run directories, feature files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from verism.arrays import Arrays, open_arrays
from verism.errors import UsageError
from verism.files import IMAGE_SUFFIXES
from verism.locations import location
from verism.records import ReferenceImage, ReferenceSet
from verism.references import read_reference
from verism.store import Run, is_run
from verism.suites.prompt_lists import facets_of_row
from verism.user_images import image_files, read_image_table

if TYPE_CHECKING:
    import numpy as np

__all__ = ["ListedImage", "Reference", "is_run", "list_images", "open_reference"]

FACET_OF_FOLDER = "folder"  # images in class folders, as image classification data sets keep them

ReferenceKind = Literal["pictures", "features", "statistics"]


@dataclass(frozen=True, kw_only=True)
class ListedImage:
    """An image of a set.

    Attributes:
        name: unique in the set.
        path: absolute path of the file; None for an image that a run asked for but did not get.
        prompt_id: id of its prompt; None where it is not known.
        text: of its prompt; empty where it is not known.
        index: its number among the images of the prompt, from 0; None where it is not known.
        facets: further columns of the list, by name.
    """

    name: str
    path: Path | None
    prompt_id: str | None = None
    text: str = ""
    index: int | None = None
    facets: Mapping[str, str | int | float | None] = field(default_factory=dict)


def list_images(source: Path) -> list[ListedImage]:
    """The images of a folder and its subfolders, of a CSV or JSON lines file, or of a run directory.

    Raises:
        UsageError: no such source, no images in it, a row without file, an image listed twice.
    """
    if is_run(source):
        listed = _of_run(source)
    elif source.is_dir():
        listed = _of_folder(source)
    elif source.is_file():
        listed = _of_list(source)
    else:
        raise UsageError(
            f"{source}: no such folder or file; expected a folder of images, a list (.csv or .jsonl with a column "
            "file_path), or a run directory"
        )
    if not listed:
        raise UsageError(f"{source}: no images in it; images end in {', '.join(IMAGE_SUFFIXES)}")
    return listed


def _of_folder(folder: Path) -> list[ListedImage]:
    listed = []
    for path in image_files(folder, recursive=True):
        relative = path.relative_to(folder)
        facets = {FACET_OF_FOLDER: relative.parts[0]} if len(relative.parts) > 1 else {}
        listed.append(ListedImage(name=relative.with_suffix("").as_posix(), path=path.absolute(), facets=facets))
    return _unique_names(listed)


def _of_list(source: Path) -> list[ListedImage]:
    listed: list[ListedImage] = []
    where: dict[Path, str] = {}
    for row in read_image_table(source, "perhaps prompt, prompt_id and facets"):
        value = location(row.value(row.path_column))
        if where.setdefault(row.path, row.where) != row.where:
            raise UsageError(f"{row.where}: {value} is listed already ({where[row.path]}); a set holds an image once")
        listed.append(
            ListedImage(
                name=value.with_suffix("").as_posix(),
                path=row.path,
                prompt_id=row.value("prompt_id") or None,
                text=row.value("prompt"),
                facets=facets_of_row(
                    row.values,
                    without=(row.path_column, "file_path", "path", "prompt", "prompt_id", "index", "features"),
                ),
            )
        )
    return _unique_names(listed)


def _unique_names(listed: Sequence[ListedImage]) -> list[ListedImage]:
    """Files that differ in their ending alone get it back."""
    counts = Counter(image.name for image in listed)
    return [p if counts[p.name] == 1 or p.path is None else replace(p, name=f"{p.name}{p.path.suffix}") for p in listed]


def _of_run(run: Path) -> list[ListedImage]:
    """The images of a run: its own, and those it only points to."""
    stored = Run.open(run)
    prompts = {prompt.prompt_id: prompt for prompt in stored.prompts()}
    rows = stored.read("images")
    if rows.is_empty():
        raise UsageError(f"{run}: this run has made no images yet; finish it with the same `verism run`")
    listed = []
    for row in rows.iter_rows(named=True):
        prompt = prompts[row["prompt_id"]]
        usable = row["state"] == "ok" and row["path"] is not None
        listed.append(
            ListedImage(
                name=row["image_id"],
                path=stored.resolve(row["path"]).absolute() if usable else None,
                prompt_id=row["prompt_id"],
                text=prompt.text,
                index=row["index"],
                facets=prompt.facets,
            )
        )
    return listed


@dataclass(frozen=True, kw_only=True, eq=False)
class Reference:
    """What images are compared with.

    Attributes:
        kind: ``pictures`` (real images), ``features`` (their features alone) or ``statistics`` (mean and covariance of
            features alone).
        path: the folder, list, run or file it was read from.
        images: the set, None for statistics.
        left_out: number of images that a run directory lacks.
    """

    kind: ReferenceKind
    path: Path
    images: ReferenceSet | None
    left_out: int = 0


def open_reference(path: Path) -> Reference:
    """A reference: a folder, list or run of images, a reference file, an array of features, or statistics.

    Raises:
        UsageError: none of these; the message says what was expected and what came.
    """
    if path.is_file() and path.suffix.lower() in (".npz", ".npy"):
        return _of_arrays(path)
    listed = list_images(path)
    images = tuple(
        ReferenceImage(image_id=f"real/{p.name}", path=str(p.path), facets=p.facets)
        for p in listed
        if p.path is not None
    )
    if not images:
        raise UsageError(f"{path}: none of the {len(listed)} images of this run can be used")
    return Reference(
        kind="pictures",
        path=path,
        images=ReferenceSet(source=str(path), images=images),
        left_out=len(listed) - len(images),
    )


def _of_arrays(path: Path) -> Reference:
    with open_arrays(path, "a reference file, statistics, or features") as opened:
        if not isinstance(opened, Arrays):
            features = opened
        elif "rows" in opened:
            reference = read_reference(path)
            if reference.features is None:
                return Reference(kind="pictures", path=path, images=_with_files(path, reference))
            return Reference(kind="features", path=path, images=reference)
        elif {"mu", "sigma"} <= set(opened):
            return Reference(kind="statistics", path=path, images=None)
        elif "features" in opened or len(opened) == 1:
            features = opened["features" if "features" in opened else next(iter(opened))]
        else:
            raise UsageError(
                f"{path}: expected a reference file of verism, statistics (mu and sigma), or one array of features; "
                f"got arrays {sorted(opened)}"
            )
    return Reference(kind="features", path=path, images=_anonymous(path, features))


def _with_files(path: Path, reference: ReferenceSet) -> ReferenceSet:
    gone = sum(image.path is None for image in reference.images)
    if gone:
        raise UsageError(
            f"{path} names {len(reference.images)} images without their features, and {gone} of the files are not "
            "here; bring them, or a reference file with features"
        )
    return reference


def _anonymous(path: Path, features: np.ndarray[Any, Any]) -> ReferenceSet:
    """Features that somebody computed with something: nobody checks that they are of the same network."""
    import numpy as np

    if features.ndim != 2 or features.dtype.kind not in "fiu":
        raise UsageError(
            f"{path}: features have shape (images, numbers per image); got {features.dtype} {features.shape}"
        )
    bad = int(np.count_nonzero(~np.isfinite(features).all(axis=1)))
    if bad:
        raise UsageError(f"{path}: the features of {bad} images are NaN or infinite; leave these images out")
    images = tuple(ReferenceImage(image_id=f"real/{i:07d}", path=None) for i in range(len(features)))
    return ReferenceSet(source=str(path), images=images, features=features.astype(np.float32))
