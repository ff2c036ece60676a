"""Bounded look-ahead: work that is started before its result is needed, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

__all__ = ["prefetch"]

T = TypeVar("T")


def prefetch(started: Iterable[T], ahead: int, *, flush: Callable[[T], bool] | None = None) -> Iterator[T]:
    """Yield what an iterable starts, in order, while a bounded number of later items is under way.

    Args:
        started: starts one piece of work per item, such as ``(pool.submit(work, x) for x in items)``.
        ahead: items started beyond the one that is yielded, at least 0. It bounds the memory that results take.
        flush: whether to yield an item, and all before it, before anything else is started. None: never.
    """
    waiting: deque[T] = deque()
    for item in started:
        waiting.append(item)
        kept = 0 if flush is not None and flush(item) else ahead
        while len(waiting) > kept:
            yield waiting.popleft()
    while waiting:
        yield waiting.popleft()
