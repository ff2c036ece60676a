"""Arrays of numbers out of .npy and .npz files: sizes are checked before anything is decoded, nothing is unpickled."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from verism.errors import UsageError
from verism.files import open_regular
from verism.limits import ARRAY_BYTES, ARRAY_RATIO, Limit

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Arrays", "check_arrays", "open_arrays", "read_array", "read_arrays"]

# An .npy file is read no further than its header before its size is known; the file itself may be larger than memory.
FILE_BYTES = Limit(name="array_file_bytes", default=2**50, unit="bytes", meaning="size of an array's file", fixed=True)
ALWAYS = 2**28  # bytes that may be decoded whatever the compressed size; zeros are compressed a thousandfold


class Arrays(Mapping[str, Any]):
    """The arrays of an .npz file by name, each decoded when it is asked for."""

    def __init__(self, loaded: Any, path: Path, what: str) -> None:
        self._loaded, self._path, self._what = loaded, path, what

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._loaded.files:
            raise KeyError(name)
        with _told(self._path, f"{name!r} of ", self._what):
            array: np.ndarray = self._loaded[name]
        _check_kind(array, self._path, f"{name!r} of ")
        return array

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded.files)

    def __len__(self) -> int:
        return len(self._loaded.files)


@contextmanager
def open_arrays(path: Path, what: str = "arrays of numbers (.npz)") -> Iterator[Arrays | np.ndarray]:
    """The arrays of an .npz file, open, or the array of an .npy file.

    Args:
        path: the file.
        what: for messages, what such a file holds.
    Yields:
        An array, or arrays by name.
    Raises:
        UsageError: no such file, not a regular file, damaged, encrypted, pickled, or more decoded bytes than
            ``limits.ARRAY_BYTES`` and ``limits.ARRAY_RATIO`` allow.
    """
    import numpy as np

    with ExitStack() as stack:
        with _told(path, "", what):
            file = stack.enter_context(open_regular(path, FILE_BYTES))
            _check_size(file, path)
            file.seek(0)
            loaded = np.load(file, allow_pickle=False)
            if not isinstance(loaded, np.ndarray):
                stack.enter_context(loaded)
        if isinstance(loaded, np.ndarray):
            _check_kind(loaded, path, "")
            yield loaded
        else:
            yield Arrays(loaded, path, what)


def read_arrays(path: Path, what: str = "arrays of numbers (.npz)") -> dict[str, np.ndarray]:
    """All arrays of an .npz file by name.

    Args:
        path: the file.
        what: for messages, what such a file holds.
    Raises:
        UsageError: as ``open_arrays``, or it holds a single array without a name.
    """
    with open_arrays(path, what) as opened:
        if isinstance(opened, Arrays):
            return dict(opened)
    raise UsageError(f"{path} holds a single array; expected {what}")


def read_array(path: Path, what: str = "an array of numbers (.npy)") -> np.ndarray:
    """The array of an .npy file.

    Args:
        path: the file.
        what: for messages, what such a file holds.
    Raises:
        UsageError: as ``open_arrays``, or it holds several.
    """
    with open_arrays(path, what) as opened:
        if not isinstance(opened, Arrays):
            return opened
        raise UsageError(f"{path} holds several arrays ({', '.join(opened)}); expected {what}")


def check_arrays(path: Path, what: str = "arrays of numbers") -> None:
    """Refuse a file whose arrays are too large to be decoded, or that is none; for readers that open it themselves.

    Args:
        path: an .npy or .npz file.
        what: for messages, what such a file holds.
    Raises:
        UsageError: as ``open_arrays``.
    """
    with _told(path, "", what), open_regular(path, FILE_BYTES) as file:
        _check_size(file, path)


@contextmanager
def _told(path: Path, part: str, what: str) -> Iterator[None]:
    """Turn what damaged files raise into a sentence."""
    try:
        yield
    except UsageError:
        raise
    except FileNotFoundError as err:
        raise UsageError(f"{path}: no such file; expected {what}") from err
    except Exception as err:  # of a dozen kinds, from numpy, zipfile, tokenize, zlib ... on damaged files
        why = getattr(err, "strerror", None) or str(err) or type(err).__name__
        if isinstance(err, MemoryError):
            why = f"it needs more memory than there is ({why})"
        raise UsageError(
            f"{part}{path} cannot be read as an array without unpickling anything: {why}; expected {what}. "
            "Save plain numbers with numpy.save or numpy.savez"
        ) from err


def _check_kind(array: np.ndarray, path: Path, part: str) -> None:
    if array.dtype.hasobject:
        raise UsageError(f"{part}{path} holds Python objects, which are not opened; save plain numbers")


def _check_size(file: BinaryIO, path: Path) -> None:
    """Refuse more decoded bytes than the limits allow, by headers alone.

    Raises:
        UsageError: too large.
        ValueError, OSError, zipfile.BadZipFile: damaged.
    """
    start = file.read(6)
    file.seek(0)
    if start[:2] != b"PK":
        needed = _array_bytes(file)
        held = file.seek(0, 2)
        if needed > held:
            raise ValueError(f"its header speaks of {needed:,} bytes, and the file has {held:,}")
        if needed > ARRAY_BYTES.value:
            raise UsageError(f"{path} would take {needed:,} bytes of memory; {ARRAY_BYTES.hint()}")
        return
    total = 0
    with zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            total += entry.file_size
            if entry.file_size > max(ALWAYS, ARRAY_RATIO.value * entry.compress_size):
                raise UsageError(
                    f"{entry.filename!r} of {path} would take {entry.file_size:,} bytes of memory, compressed to "
                    f"{entry.compress_size:,}, as files made to fill a memory do; {ARRAY_RATIO.hint()}"
                )
            if entry.filename.endswith(".npy"):
                with archive.open(entry) as member:
                    needed = _array_bytes(member)
                if needed > entry.file_size:
                    raise ValueError(
                        f"the header of {entry.filename!r} speaks of {needed:,} bytes, and it has {entry.file_size:,}"
                    )
    if total > ARRAY_BYTES.value:
        raise UsageError(f"{path} would take {total:,} bytes of memory; {ARRAY_BYTES.hint()}")


def _array_bytes(stream: Any) -> int:
    """Bytes of the array whose .npy header comes next, the header not counted.

    Raises:
        ValueError: not an .npy header.
    """
    import numpy as np

    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, and pickles are not opened")
    count = 1
    for size in shape:
        if size < 0:
            raise ValueError(f"a shape of {shape}")
        count *= int(size)
    return count * int(dtype.itemsize)
