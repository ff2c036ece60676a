"""Long lists that are not held: their items are made when they are asked for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import accumulate, islice
from typing import Any, Generic, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from verism.store import IdSet

__all__ = ["Blocks", "Chosen", "Either", "pending_items"]

T = TypeVar("T")
ASKED = 8192  # ids looked up at once


class _Lazy(Sequence[T]):
    """A sequence that makes its items; slices are lazy, too, and it equals any other of equal items."""

    def _item(self, number: int) -> T:
        raise NotImplementedError

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return Chosen(self, np.arange(*index.indices(len(self))))
        number = index + len(self) if index < 0 else index
        if not 0 <= number < len(self):
            raise IndexError(index)
        return self._item(number)

    def __iter__(self) -> Iterator[T]:
        return map(self._item, range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]


class Blocks(_Lazy[T], Generic[T]):
    """Items that come in blocks of several, such as the images of each prompt.

    >>> list(Blocks([2, 1], lambda block, index: f"{'ab'[block]}{index}"))
    ['a0', 'a1', 'b0']
    """

    def __init__(self, sizes: Iterable[int], make: Callable[[int, int], T]) -> None:
        """A sequence of ``sum(sizes)`` items.

        Args:
            sizes: items of each block.
            make: given the number of a block and the index of an item in it, makes the item.
        """
        self._ends = list(accumulate(sizes))
        self._make = make

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def _item(self, number: int) -> T:
        block = bisect_right(self._ends, number)
        return self._make(block, number - (self._ends[block - 1] if block else 0))


class Chosen(_Lazy[T], Generic[T]):
    """Some items of a sequence: 8 bytes each, whatever they are."""

    def __init__(self, items: Sequence[T], places: NDArray[np.intp]) -> None:
        """Those at certain places.

        Args:
            items: the sequence.
            places: in it, shape (N,), in the order wanted.
        """
        self._items: Sequence[T] = items
        self._places = places
        if isinstance(items, Chosen):  # no chain of selections of selections
            self._items, self._places = items._items, items._places[places]

    def __len__(self) -> int:
        return len(self._places)

    def _item(self, number: int) -> T:
        return self._items[int(self._places[number])]


class Either:
    """Ids of two kinds together: many that were there before, and some that were added; neither is copied."""

    def __init__(self, before: IdSet, added: Container[str]) -> None:
        """All of them.

        Args:
            before: many, as hashes.
            added: others.
        """
        self._before = before
        self._added = added

    def __contains__(self, text: object) -> bool:
        return text in self._added or text in self._before

    def holds(self, ids: Sequence[str]) -> NDArray[np.bool_]:
        """For each id whether it is among them, shape (N,).

        Args:
            ids: any texts.
        """
        found: NDArray[np.bool_] = self._before.holds(ids) | np.array([i in self._added for i in ids], dtype=bool)
        return found


def pending_items(items: Sequence[T], key: Callable[[T], str], done: Container[str]) -> Sequence[T]:
    """The items that are not done yet, in order.

    Args:
        items: all of them.
        key: id of an item.
        done: ids of those that are done.
    """
    places: list[NDArray[np.intp]] = []
    waiting, start = iter(items), 0
    while ids := [key(item) for item in islice(waiting, ASKED)]:
        known = done.holds(ids) if isinstance(done, IdSet | Either) else np.array([i in done for i in ids], dtype=bool)
        places.append(start + np.flatnonzero(~known))
        start += len(ids)
    left = np.concatenate(places) if places else np.zeros(0, dtype=np.intp)
    if len(left) == len(items):
        return items
    return cast(Sequence[Any], Chosen(items, left))
