"""Who does what of a stage: one process everything, or each of several a share.

A stage is a list of items that every process knows alike: requests for images, real images, texts. ``Shares.claims``
gives a process those it shall do. Shares save work and decide nothing: what two processes did all the same counts once,
as parts of tables are idempotent (``verism.store``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from verism.errors import UsageError
from verism.pipeline.selections import pending_items

__all__ = ["ALONE", "Claim", "Claims", "Shard", "Shares", "block_size", "blocks_of"]

T = TypeVar("T")
BLOCKS = 1024  # that items are dealt in: enough for hundreds of workers to end at about the same time
BLOCK_SIZES = (8, 128)  # items of a block: what a generator likes to be asked at once, and what one may lose


@dataclass(eq=False)
class Claim(Generic[T]):
    """Items that this process does, and nobody else meanwhile.

    Attributes:
        items: at least one.
        left: how many of them are not done yet.
        finished: called when all are done and kept.
    """

    items: Sequence[T]
    left: int
    finished: Callable[[], None]

    def advance(self, count: int) -> None:
        """Some more items are done and kept, or turned out to be done already.

        Args:
            count: how many.
        """
        self.left -= count
        if count and self.left <= 0:
            self.finished()


# None: there is nothing to claim at the moment; finish what was claimed, and ask again.
Claims = Iterator[Claim[T] | None]


class Shares:
    """One process does everything; others are classes below it.

    Attributes:
        alone: whether the process that holds them does everything, and so also puts parts of tables together.
    """

    alone: ClassVar[bool] = True

    @contextmanager
    def claims(
        self,
        stage: str,
        items: Sequence[T],
        *,
        key: Callable[[T], str],
        done: Callable[[], Container[str]],
        after: str = "",
    ) -> Iterator[Claims[T]]:
        """What this process shall do of a stage; what it leaves unfinished at the end of the block is free again.

        Args:
            stage: name of the stage, the same in every process.
            items: all items of the stage, the same in every process.
            key: id of an item.
            done: ids of what is done and kept now.
            after: a stage over the same items in which an item must be done before; empty for none.
        """
        del stage, after
        left = pending_items(items, key, done())
        yield iter([Claim(left, len(left), lambda: None)] if left else [])

    @contextmanager
    def turn(self, what: str) -> Iterator[None]:
        """Wait until no other process is at it, and be at it for the length of the block.

        Args:
            what: name of what only one shall do at a time.
        """
        del what
        yield

    def agree(self, own: Mapping[str, Any], wanted: Sequence[str]) -> Mapping[str, Any]:
        """What all processes that do different parts of a run say of themselves; here, what this one says.

        Args:
            own: what this one says, by key.
            wanted: keys to wait for.
        """
        del wanted
        return own

    def tell(self, line: str) -> None:
        """Pass a line on to whoever watches over the processes.

        Args:
            line: about an image that is not ok.
        """

    def remove(self) -> None:
        """Remove what was kept for sharing; everything is done."""


ALONE = Shares()


@dataclass(frozen=True)
class Shard(Shares):
    """Every n-th item: what process ``index`` of ``count`` does, without asking anybody.

    >>> Shard.parse("2/3")
    Shard(index=2, count=3)

    Attributes:
        index: which share, from 1 to ``count``.
        count: how many there are.
    """

    index: int
    count: int
    alone = False

    @staticmethod
    def parse(text: str) -> Shard:
        """A share as it is written: ``1/2`` is the first of two.

        Args:
            text: two numbers.

        Raises:
            UsageError: it is none.
        """
        match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text.strip())
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise UsageError(f"--shard {text}: expected I/N with I from 1 to N, for example 1/2 and 2/2")
        return Shard(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    @contextmanager
    def claims(
        self,
        stage: str,
        items: Sequence[T],
        *,
        key: Callable[[T], str],
        done: Callable[[], Container[str]],
        after: str = "",
    ) -> Iterator[Claims[T]]:
        """Items ``index``, ``index + count`` ...: prompts of a kind follow each other, and cost about the same.

        Args:
            stage: as in ``Shares``.
            items: as in ``Shares``.
            key: as in ``Shares``.
            done: as in ``Shares``.
            after: as in ``Shares``.
        """
        with ALONE.claims(stage, items[self.index - 1 :: self.count], key=key, done=done, after=after) as claims:
            yield claims


def block_size(count: int) -> int:
    """Items of a block where blocks are dealt one by one.

    Args:
        count: items of the stage.
    """
    low, high = BLOCK_SIZES
    return min(high, max(low, -(-count // BLOCKS)))


def blocks_of(items: Sequence[T]) -> list[Sequence[T]]:
    """The items of a stage in blocks, the same in every process.

    Args:
        items: in order.
    """
    size = block_size(len(items))
    return [items[start : start + size] for start in range(0, len(items), size)]
