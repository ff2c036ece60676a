"""Reference files: which real images a reference set holds and their features, in one ``.npz`` that can be shared.

Computing the features of tens of thousands of photographs takes a while; comparing with them does not. A reference
file is written once and then stands in for the photographs: ``--reference geode.npz``. It holds no pickled objects, so
that a file of strangers can be read without running their code.

Arrays of the file:

* ``head``: JSON as bytes: format, version, source, judge, provenance, and the SHA-256 of the other arrays;
* ``rows``: JSON as bytes: per image its id, path, sha256 and facets, in the order of the features;
* ``features``: float32, shape (N, D); absent where they were not computed;
* ``radii:{grouping}``: float64, shape (N,): distance of every image to its k-th neighbour inside a grouping, if
  somebody stored it (the name says grouping and k, such as ``region k=3``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verism.arrays import read_arrays
from verism.errors import UsageError
from verism.files import parse_json, whole_file
from verism.locations import is_file, location
from verism.records import ReferenceImage, ReferenceSet, content_hash

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["FORMAT", "SUFFIX", "read_provenance", "read_radii", "read_reference", "write_reference"]

FORMAT = "verism reference set"
VERSION = 1
SUFFIX = ".npz"
_RADII = "radii:"


def write_reference(
    path: Path,
    reference: ReferenceSet,
    provenance: Mapping[str, Any],
    *,
    radii: Mapping[str, NDArray[np.floating]] | None = None,
) -> None:
    """Write a reference set whole or not at all.

    Args:
        path: file to write; ends in ``.npz``, its folder must exist.
        reference: the reference set.
        provenance: JSON object: who computed the features with what (version, command, weights), for people and for
            checks.
        radii: arrays (N,) by grouping, distance of each image to its k-th neighbour, finite or NaN (no radius); None
            for none.

    Raises:
        UsageError: another suffix, no such folder, or content that does not fit together.
    """
    import numpy as np

    if path.suffix != SUFFIX:
        raise UsageError(f"{path}: a reference file ends in {SUFFIX}")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent}: no such folder to write {path.name} to")
    arrays: dict[str, NDArray[Any]] = {"rows": _to_bytes([_record(p) for p in reference.images])}
    if reference.features is not None:
        arrays["features"] = np.ascontiguousarray(reference.features, dtype=np.float32)
    for grouping, values in (radii or {}).items():
        arrays[_RADII + grouping] = np.ascontiguousarray(values, dtype=np.float64)
    head = {
        "format": FORMAT,
        "version": VERSION,
        "source": reference.source,
        "judge": reference.judge,
        "identity": content_hash([_record(p) for p in reference.images]),
        "provenance": dict(provenance),
        "sha256": {name: _digest(array) for name, array in arrays.items()},
    }
    _check(path, reference, arrays)
    with whole_file(path) as temporary, temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, head=_to_bytes(head), **arrays)


def read_reference(path: Path) -> ReferenceSet:
    """The images and, if they were stored, the features of a reference file.

    An image whose file is not on this machine has the path None: only its features are known here.

    Raises:
        UsageError: no such file, not a reference file, of a later version, or damaged.
    """
    head, arrays = _open(path)
    images = tuple(_image(row) for row in _from_bytes(arrays["rows"]))
    reference = ReferenceSet(
        source=str(head["source"]),
        images=images,
        judge=head["judge"],
        features=arrays.get("features"),
    )
    _check(path, reference, arrays)
    return reference


def read_provenance(path: Path) -> Mapping[str, Any]:
    """What the writer told of a reference file, with its ``source``, ``judge`` and ``identity``. Raises as above."""
    head, _ = _open(path)
    return {**head["provenance"], "source": head["source"], "judge": head["judge"], "identity": head["identity"]}


def read_radii(path: Path) -> Mapping[str, NDArray[np.float64]]:
    """Stored radii by grouping, shape (N,) each; empty if none were stored. Raises as above."""
    _, arrays = _open(path)
    return {name.removeprefix(_RADII): array for name, array in arrays.items() if name.startswith(_RADII)}


# --------------------------------------------------------------------------------------------------------------- inside
def _record(image: ReferenceImage) -> dict[str, Any]:
    return {
        "image_id": image.image_id,
        "path": image.path,
        "sha256": image.sha256,
        "facets": dict(image.facets),
    }


def _image(row: Mapping[str, Any]) -> ReferenceImage:
    path = row["path"]
    return ReferenceImage(
        image_id=str(row["image_id"]),
        path=path if path is not None and is_file(location(path)) else None,
        sha256=row["sha256"],
        facets=dict(row["facets"]),
    )


def _to_bytes(value: Any) -> NDArray[np.uint8]:
    import numpy as np

    text = json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return np.frombuffer(text.encode(), dtype=np.uint8)


def _from_bytes(array: NDArray[Any]) -> Any:
    return parse_json(array.tobytes())


def _digest(array: NDArray[Any]) -> str:
    return hashlib.sha256(f"{array.dtype.str}{array.shape}".encode() + array.tobytes()).hexdigest()


def _open(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    try:
        arrays = read_arrays(path, "a reference file (make one with: verism data reference)")
        head = _from_bytes(arrays.pop("head"))
        known = head["format"] == FORMAT
    except (AttributeError, KeyError, ValueError, TypeError) as err:
        raise UsageError(
            f"{path} is not a reference file ({type(err).__name__}: {err}); make one with: verism data reference"
        ) from err
    if not known:
        raise UsageError(f"{path} is not a reference file: its format is {head['format']!r}, expected {FORMAT!r}")
    if head["version"] != VERSION:
        raise UsageError(f"{path} has version {head['version']}, this verism reads {VERSION}; update, or make it anew")
    if sorted(head["sha256"]) != sorted(arrays):
        raise UsageError(f"{path} is damaged: it should hold {sorted(head['sha256'])}, and holds {sorted(arrays)}")
    for name, array in arrays.items():
        if _digest(array) != head["sha256"][name]:
            raise UsageError(f"{path} is damaged: {name!r} is not what was written; fetch or make it anew")
    return head, arrays


def _check(path: Path, reference: ReferenceSet, arrays: Mapping[str, NDArray[Any]]) -> None:
    """That ids are unique, rows and features match, and features are finite numbers."""
    import numpy as np

    n = len(reference.images)
    ids = {p.image_id for p in reference.images}
    if len(ids) != n:
        raise UsageError(f"{path}: {n - len(ids)} of its {n} images share an id with another; ids must be unique")
    features = arrays.get("features")
    if (features is None) != (reference.judge is None):
        raise UsageError(f"{path}: features come with the name of the judge who made them, and only then")
    if features is not None:
        if features.ndim != 2 or len(features) != n:
            raise UsageError(f"{path}: {n} images need features of shape ({n}, D); got {features.shape}")
        if features.dtype != np.float32:
            raise UsageError(f"{path}: features are float32; got {features.dtype}")
        if not np.isfinite(features).all():
            bad = int((~np.isfinite(features).all(axis=1)).sum())
            raise UsageError(f"{path}: the features of {bad} images are NaN or infinite; leave these images out")
    for name, array in arrays.items():
        if name.startswith(_RADII) and array.shape != (n,):
            raise UsageError(f"{path}: {name!r} has shape {array.shape}, expected ({n},)")
