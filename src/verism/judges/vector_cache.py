"""Vectors that judges have computed before, by content: the same bytes are never looked at twice by the same judge.

A cache belongs to one judge, by its name, which says everything that changes its vectors. It lives in memory, and in a
folder if one is given, which runs and processes may share::

    FOLDER/{judge}-{hash of its whole name}/{hash of the part}.npz    judge, keys (N, 32) uint8, vectors (N, D) float32

Parts are written whole and never changed. One that cannot be read is treated as absent, and replaced.

Nothing is ever dropped: a vector takes 4 bytes a number and about 200 more, 60 MB for 30,000 images and 512 numbers
each, 250 MB for 2,048; on disk the same without the 200.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from verism.arrays import read_arrays
from verism.errors import UsageError, VerismError
from verism.files import whole_file

__all__ = ["VectorCache", "cached_rows", "pixels_key", "text_key"]

Vectors = NDArray[np.float32]

_SLUG_LENGTH = 60  # with the hash far below the 255 bytes that file systems allow
_PART = re.compile(r"[0-9a-f]{32}\.npz")


def pixels_key(pixels: NDArray[np.uint8]) -> str:
    """SHA-256 of an image's shape and bytes, as 64 hexadecimal digits: equal for equal pixels, whatever the file.

    Raises:
        ValueError: not uint8; the bytes alone would not tell such an image from another.
    """
    if pixels.dtype != np.uint8:
        raise ValueError(f"pixels must be uint8, RGB, shape (H, W, 3); got {pixels.dtype} of shape {pixels.shape}")
    digest = hashlib.sha256(f"pixels {pixels.shape}\n".encode())
    digest.update(np.ascontiguousarray(pixels).data)
    return digest.hexdigest()


def text_key(text: str) -> str:
    """SHA-256 of a text, as 64 hexadecimal digits; never that of an image."""
    return hashlib.sha256(b"text\n" + text.encode()).hexdigest()


class VectorCache:
    """Vectors by key (of ``pixels_key`` or ``text_key``) of one judge.

    Args:
        name: the judge's whole name. Judges that could differ in a vector must differ in name.
        folder: where vectors are kept between runs, for all judges together; None: in memory only.
    """

    def __init__(self, name: str, folder: Path | None = None) -> None:
        self.name = name
        self._vectors: dict[str, Vectors] = {}
        self._folder: Path | None = None
        self._seen: set[str] = set()
        self._damaged: set[Path] = set()
        if folder is not None:
            slug = re.sub(r"[^A-Za-z0-9._=-]+", "_", name)[:_SLUG_LENGTH].strip("_.")
            self._folder = Path(folder) / f"{slug}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
            self.refresh()

    def __len__(self) -> int:
        return len(self._vectors)

    def get(self, key: str) -> Vectors | None:
        """The vector of a key, shape (D,), read-only; None if it is not known."""
        return self._vectors.get(key)

    def put(self, keys: Sequence[str], vectors: NDArray[np.floating]) -> None:
        """Keep vectors, shape (N, D), row i of key i; with a folder, as one new part there.

        Vectors are kept as float32. A folder that cannot be written is told once by a warning, and memory must do.

        Raises:
            ValueError: not one row per key.
        """
        rows = np.array(vectors, dtype=np.float32)  # a copy: the caller's array may change, or be part of a large one
        if rows.ndim != 2 or len(rows) != len(keys):
            raise ValueError(f"put needs one row for each of the {len(keys)} keys; got shape {rows.shape}")
        if not len(rows):
            return
        self._keep(keys, rows)
        if self._folder is None:
            return
        try:
            self._write(self._folder, keys, rows)
        except VerismError as err:
            warnings.warn(f"vectors cannot be kept in {self._folder}: {err}; they stay in memory", stacklevel=2)
            self._folder = None

    def refresh(self) -> None:
        """Read the parts that other processes have added to the folder since."""
        if self._folder is None or not self._folder.is_dir():
            return
        for part in sorted(self._folder.glob("*.npz")):
            if _PART.fullmatch(part.name) and part.name not in self._seen:
                self._seen.add(part.name)
                self._read(part)

    def _keep(self, keys: Sequence[str], rows: Vectors) -> None:
        rows.flags.writeable = False
        for key, row in zip(keys, rows, strict=True):
            self._vectors.setdefault(key, row)

    def _read(self, part: Path) -> None:
        try:
            stored = read_arrays(part, "a part of the vector cache")
            judge, digests, rows = str(stored["judge"]), stored["keys"], stored["vectors"]
            if digests.ndim != 2 or digests.dtype != np.uint8 or rows.ndim != 2 or rows.dtype != np.float32:
                raise ValueError("other arrays than a part's")
            keys = [bytes(digest).hex() for digest in digests]
            if len(keys) != len(rows):
                raise ValueError("not one vector per key")
        except UsageError as err:
            if not isinstance(err.__cause__, OSError):  # gone, or not to be read now: absent, but not damaged
                self._damaged.add(part)
        except (KeyError, ValueError, TypeError):  # other arrays than a part's
            self._damaged.add(part)
        else:
            if judge == self.name:  # a part that was moved is that of its judge still
                self._keep(keys, rows)

    def _write(self, folder: Path, keys: Sequence[str], rows: Vectors) -> None:
        digests = np.array([np.frombuffer(bytes.fromhex(key), dtype=np.uint8) for key in keys])
        part = folder / f"{hashlib.sha256(digests.data).hexdigest()[:32]}.npz"
        with whole_file(part, sync=False) as temporary, temporary.open("wb") as stream:
            np.savez(stream, judge=np.array(self.name), keys=digests, vectors=rows)
        self._seen.add(part.name)
        self._damaged.discard(part)
        while self._damaged:  # what they held has been, or will be, computed and written again
            self._damaged.pop().unlink(missing_ok=True)


def cached_rows(
    cache: VectorCache | None, keys: Sequence[str], compute: Callable[[list[int]], NDArray[np.floating]]
) -> Vectors:
    """One vector per key, of which only those are computed that are not known, each once.

    Args:
        cache: None: nothing is kept, but equal keys are still computed once.
        keys: N keys; may repeat.
        compute: given positions in ``keys``, in rising order and of distinct keys, returns their vectors, (n, D). Not
            called if there is nothing to compute.
    Returns:
        Shape (N, D), float32, row i of key i; (0, 0) without keys.

    >>> cache = VectorCache("doubles")
    >>> seen = []
    >>> def double(positions):
    ...     seen.append(positions)
    ...     return np.array([[2.0 * i] for i in positions])
    >>> a, b = text_key("a"), text_key("b")
    >>> cached_rows(cache, [a, b, a], double).tolist(), cached_rows(cache, [b], double).tolist(), seen
    ([[0.0], [2.0], [0.0]], [[2.0]], [[0, 1]])
    """
    cache = VectorCache("unnamed") if cache is None else cache
    if any(cache.get(key) is None for key in keys):
        cache.refresh()
    first: dict[str, int] = {}
    for position, key in enumerate(keys):
        if cache.get(key) is None:
            first.setdefault(key, position)
    if first:
        cache.put(list(first), compute(list(first.values())))
    rows = [row for key in keys if (row := cache.get(key)) is not None]
    return np.stack(rows) if rows else np.zeros((0, 0), dtype=np.float32)
