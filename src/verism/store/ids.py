"""Sets of ids that take 16 bytes for each, however long the ids are; and where files lie by their hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

__all__ = ["IdSet", "PathsByHash", "digests"]

DIGEST = 16  # bytes: two of a billion ids are equal by chance once in 10**20 runs
ASKED = 2**16  # ids that are looked up at once


def digests(ids: Iterable[str]) -> NDArray[np.bytes_]:
    """A hash of each id, shape (N,), 16 bytes each.

    Args:
        ids: any texts.
    """
    import numpy as np

    hashed = b"".join(hashlib.blake2b(text.encode(), digest_size=DIGEST).digest() for text in ids)
    # As ``S16`` these sort and compare in numpy; trailing zero bytes are dropped on both sides of a comparison alike.
    return np.frombuffer(hashed, dtype=f"S{DIGEST}")


class IdSet:
    """Which ids of images (or texts) there are, kept as hashes: one can ask for an id, and not for all of them.

    A set of Python strings takes ten times the memory, and a run may have millions of images.

    >>> ids = IdSet(["a#0", "a#1"])
    >>> "a#0" in ids, "b#0" in ids, len(ids)
    (True, False, 2)
    >>> len(ids | IdSet(["b#0"])), len(ids - IdSet(["a#1"]))
    (3, 1)
    """

    def __init__(self, ids: Iterable[str] = ()) -> None:
        self._hashes = _distinct([digests(ids)])

    @classmethod
    def of_digests(cls, parts: Sequence[NDArray[np.bytes_]]) -> IdSet:
        """The set of ids whose ``digests`` are given.

        Args:
            parts: each of shape (N,).
        """
        made = cls()
        made._hashes = _distinct(parts)
        return made

    def __len__(self) -> int:
        return len(self._hashes)

    def __contains__(self, text: Any) -> bool:
        return bool(self.holds([str(text)])[0])

    def holds(self, ids: Iterable[str]) -> NDArray[np.bool_]:
        """For each id whether it is in the set, shape (N,).

        Args:
            ids: any texts.
        """
        return self._found(digests(ids))

    def _found(self, asked: NDArray[np.bytes_]) -> NDArray[np.bool_]:
        import numpy as np

        found = np.zeros(len(asked), dtype=bool)
        for start in range(0, len(asked) if len(self._hashes) else 0, ASKED):
            some = asked[start : start + ASKED]
            places = np.searchsorted(self._hashes, some)
            found[start : start + ASKED] = self._hashes[np.minimum(places, len(self._hashes) - 1)] == some
        return found

    def __or__(self, other: IdSet) -> IdSet:
        if not len(other) or not len(self):  # sets never change
            return self if len(self) else other
        return IdSet.of_digests([self._hashes, other._hashes])

    def __sub__(self, other: IdSet) -> IdSet:
        made = IdSet()
        made._hashes = self._hashes[~other._found(self._hashes)]
        return made


class PathsByHash:
    """Where files lie, by the hash of each: about as many bytes as the paths have, and 24 for each of them.

    A dict of Python strings takes five times the memory.

    >>> import polars as pl
    >>> where = PathsByHash([(["aa", "bb"], pl.Series(["images/a.png", "images/b.png"]))])
    >>> where.get("bb"), where.get("cc")
    ('images/b.png', None)
    """

    def __init__(self, parts: Sequence[tuple[Iterable[str], pl.Series]]) -> None:
        """Paths of some files.

        Args:
            parts: hashes, and as many paths, in any order; of files of the same hash any one may be given.
        """
        import numpy as np
        import polars as pl

        hashes = np.concatenate([digests(()), *(digests(hashes) for hashes, _ in parts)])
        self._order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._order]
        self._paths = pl.concat([pl.Series("path", [], dtype=pl.String), *(paths.alias("path") for _, paths in parts)])

    def get(self, file_hash: str) -> str | None:
        """The path of a file; None where none is known.

        Args:
            file_hash: of the file.
        """
        import numpy as np

        (wanted,) = digests([file_hash])
        place = int(np.searchsorted(self._hashes, wanted))
        if place == len(self._hashes) or self._hashes[place] != wanted:
            return None
        return str(self._paths[int(self._order[place])])


def _distinct(parts: Sequence[NDArray[np.bytes_]]) -> NDArray[np.bytes_]:
    """All digests of some parts, sorted, each once; beside the parts it takes no more memory than the result."""
    import numpy as np

    if not parts:
        return np.zeros(0, dtype=f"S{DIGEST}")
    hashes = np.concatenate(parts)
    hashes.sort()
    again = hashes[1:] == hashes[:-1]
    return np.delete(hashes, 1 + np.flatnonzero(again)) if again.any() else hashes
