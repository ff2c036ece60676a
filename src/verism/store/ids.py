"""Sets of ids that take 16 bytes for each, however long the ids are."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["IdSet", "digests"]

DIGEST = 16  # bytes: two of a billion ids are equal by chance once in 10**20 runs


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
        import numpy as np

        self._hashes: NDArray[np.bytes_] = np.unique(digests(ids))

    @classmethod
    def of_digests(cls, parts: Sequence[NDArray[np.bytes_]]) -> IdSet:
        """The set of ids whose ``digests`` are given.

        Args:
            parts: each of shape (N,).
        """
        import numpy as np

        made = cls()
        if parts:
            made._hashes = np.unique(np.concatenate(parts))
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

        if not len(self._hashes):
            return np.zeros(len(asked), dtype=bool)
        places = np.searchsorted(self._hashes, asked)
        found: NDArray[np.bool_] = self._hashes[np.minimum(places, len(self._hashes) - 1)] == asked
        return found

    def __or__(self, other: IdSet) -> IdSet:
        return IdSet.of_digests([self._hashes, other._hashes])

    def __sub__(self, other: IdSet) -> IdSet:
        return IdSet.of_digests([self._hashes[~other._found(self._hashes)]])
