"""The tables of a run block by block: some thousand images at a time, with all that was observed of them.

Parts of a table hold images in the order in which they were made, and each judge's parts in an order of its own. So the
rows of all parts are first dealt into files of a temporary folder, one for each block of ids, and then read block by
block. It takes the disk space of the tables once more while it lasts, and the time of reading them twice.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

__all__ = ["BLOCK", "BlockKey", "Dealer", "ImageBlocks", "bounds_of", "put_in_order"]

BLOCK = 16_384  # images
PROMPT_END = "#"  # in the id of an image, behind that of its prompt
SAMPLED = 64  # every which id is looked at to find where blocks end
HELD_BYTES = 2**24  # of rows that wait to be written

BlockKey = Callable[["pl.Series"], "pl.Series"]  # from ids of images what orders them


def bounds_of(sample: pl.Series, step: int, size: int, *, whole_prompts: bool = False) -> pl.Series:
    """First ids of all blocks but the first, so that blocks are of about the same size.

    Args:
        sample: every ``step``-th id, in any order.
        step: see ``sample``.
        size: images of a block, about.
        whole_prompts: whether blocks end between prompts; ids are those of ``records.image_id``.
    """
    ordered = sample.unique().sort()
    every = max(1, size // step)
    bounds = ordered.gather_every(every, offset=every)
    if whole_prompts:
        # Ids with the same text before the first mark stand together, and so do those of a prompt, which have it alike.
        bounds = (bounds.str.split(PROMPT_END).list.first() + PROMPT_END).unique().sort()
    return bounds


class Dealer:
    """Deals the rows of a table into files, one lot for each block; a context that removes them at its end."""

    def __init__(self, bounds: pl.Series, key: BlockKey | None = None) -> None:
        """A dealer of rows by image.

        Args:
            bounds: as ``bounds_of`` gives them.
            key: what of the ids is held against the bounds; None: the ids.
        """
        self.bounds = bounds
        self.key = key
        self._folder = tempfile.TemporaryDirectory(prefix="verism-blocks-", ignore_cleanup_errors=True)
        self._lots: dict[tuple[str, int], list[pl.DataFrame | Path]] = {}
        self._held = 0
        self._n_files = 0

    def __enter__(self) -> Dealer:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def __len__(self) -> int:
        return len(self.bounds) + 1

    def begin(self, table: str) -> None:
        """Forget what was dealt of a table: it is read anew.

        Args:
            table: its name.
        """
        for key in [key for key in self._lots if key[0] == table]:
            for lot in self._lots.pop(key):
                if isinstance(lot, Path):
                    lot.unlink()
        waiting = (lot for lots in self._lots.values() for lot in lots if not isinstance(lot, Path))
        self._held = sum(int(lot.estimated_size()) for lot in waiting)

    def deal(self, table: str, rows: pl.DataFrame, by: str = "image_id") -> None:
        """Deal some rows.

        Args:
            table: name of their table.
            rows: with the column ``by``.
            by: column that is held against the bounds.
        """
        import polars as pl

        keys = rows[by] if self.key is None else self.key(rows[by])
        block = self.bounds.search_sorted(keys, side="right")
        numbered = rows.with_columns(pl.Series("block", block))
        for (number,), lot in numbered.partition_by("block", as_dict=True, include_key=False).items():
            self._lots.setdefault((table, int(number)), []).append(lot)
            self._held += int(lot.estimated_size())
        if self._held > HELD_BYTES:
            self._write()

    def _write(self) -> None:
        import polars as pl

        for key, lots in self._lots.items():
            held = [lot for lot in lots if not isinstance(lot, Path)]
            if held:
                path = Path(self._folder.name) / f"{self._n_files}.arrow"
                self._n_files += 1
                pl.concat(held).write_ipc(path, compression="lz4")
                self._lots[key] = [*(lot for lot in lots if isinstance(lot, Path)), path]
        self._held = 0

    def take(self, table: str, block: int, empty: Callable[[], pl.DataFrame]) -> pl.DataFrame:
        """The rows of a block in the order in which they were dealt.

        Args:
            table: name of the table.
            block: number of the block, from 0.
            empty: gives a table without rows.
        """
        import polars as pl

        lots = self._lots.get((table, block), [])
        rows = [pl.read_ipc(lot) if isinstance(lot, Path) else lot for lot in lots]
        return pl.concat(rows) if rows else empty()


class ImageBlocks:
    """The blocks of a run, as often as they are gone through: table ``images``, and observations by table."""

    def __init__(self, size: int, read: Callable[[int], tuple[pl.DataFrame, dict[str, pl.DataFrame]]]) -> None:
        """So many blocks.

        Args:
            size: how many.
            read: gives one by its number.
        """
        self._size = size
        self._read = read

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[tuple[pl.DataFrame, dict[str, pl.DataFrame]]]:
        return map(self._read, range(self._size))


def put_in_order(parts: Sequence[Path], order: Callable[[pl.DataFrame], pl.DataFrame], folder: Path) -> list[Path]:
    """Rows about images that several files hold in any order, in files whose images follow each other.

    Args:
        parts: parquet files with a column ``image_id``; of an image, all rows are in one of them.
        order: sorts rows by image, and those of an image.
        folder: where the files are written, as parquet.

    Returns:
        The files, in the order of the ids.
    """
    import polars as pl

    sample = [pl.read_parquet(part, columns=["image_id"])["image_id"].unique().sort() for part in parts]
    sample = [pl.Series(ids.gather_every(SAMPLED).to_list(), dtype=pl.String) for ids in sample]
    with Dealer(bounds_of(pl.concat(sample), SAMPLED, BLOCK)) as dealer:
        for part in parts:
            dealer.deal("rows", pl.read_parquet(part))
        empty = pl.read_parquet(parts[0], n_rows=0)
        written = [folder / f"ordered-{number:06}.parquet" for number in range(len(dealer))]
        for number, path in enumerate(written):
            order(dealer.take("rows", number, empty.clear)).write_parquet(path, compression="lz4")
    return written
