"""Parquet files of runs: read whole, with sizes known before anything is decoded, and every damage told in a sentence.

A file of some kilobytes may stand for gigabytes: equal values are kept once. How much it stands for is in its footer,
which polars does not show, so what is needed of it is read here.

Source of the format: https://github.com/apache/parquet-format (``parquet.thrift``), and the compact protocol of Apache
Thrift (``doc/specs/thrift-compact-protocol.md``).
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from verism.errors import UsageError, VerismError
from verism.files import read_regular
from verism.limits import TABLE_BYTES, TABLE_RATIO

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Footer", "parse_parquet", "read_footer", "read_parquet", "slices"]

ROWS = 2**18  # of a slice
ALWAYS_ROWS = 100_000  # that a file may hold whatever its size
MAX_FOOTER = 2**28  # bytes
# Bytes of a value in memory by physical type (boolean, int32, int64, int96, float, double); texts are views of 16.
VALUE_BYTES = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}
VIEW_BYTES = 16


class Footer(NamedTuple):
    """What the footer of a parquet file says of its size.

    Attributes:
        rows: number of rows.
        decoded_bytes: estimate of the memory that all columns take.
    """

    rows: int
    decoded_bytes: int


def read_parquet(
    path: Path, *, columns: Sequence[str] | None = None, n_rows: int | None = None, remedy: str = ""
) -> pl.DataFrame:
    """The table of a parquet file.

    Args:
        path: the file; its name is taken as it is, without wildcards.
        columns: those wanted; None for all.
        n_rows: so many from the first on; None for all.
        remedy: for messages, what to do about a damaged file.
    Raises:
        FileNotFoundError: no such file; whoever reads beside a writer tries again.
        UsageError, VerismError: as ``parse_parquet``, or not a regular file.
    """
    try:
        data = read_regular(path, TABLE_BYTES)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as err:
        raise VerismError(f"{path} cannot be read: {getattr(err, 'strerror', None) or err}") from err
    return parse_parquet(data, path, columns=columns, n_rows=n_rows, remedy=remedy)


def parse_parquet(
    data: bytes, path: Path, *, columns: Sequence[str] | None = None, n_rows: int | None = None, remedy: str = ""
) -> pl.DataFrame:
    """The table that the content of a parquet file holds.

    Args:
        data: content of the file.
        path: the file, for messages.
        columns: those wanted; None for all.
        n_rows: so many from the first on; None for all.
        remedy: for messages, what to do about a damaged file.
    Raises:
        UsageError: more rows or decoded bytes than ``limits.TABLE_RATIO`` and ``limits.TABLE_BYTES`` allow.
        VerismError: damaged, cut off, or without one of the columns.
    """
    import polars as pl

    try:
        footer = read_footer(data)
        if n_rows is None or n_rows > ALWAYS_ROWS:
            if footer.rows > max(ALWAYS_ROWS, TABLE_RATIO.value * len(data)):
                raise UsageError(
                    f"{path} holds {footer.rows:,} rows in {len(data):,} bytes, as files made to fill a memory do; "
                    f"{TABLE_RATIO.hint()}"
                )
            if footer.decoded_bytes > TABLE_BYTES.value:
                raise UsageError(
                    f"{path} would take about {footer.decoded_bytes:,} bytes of memory; {TABLE_BYTES.hint()}"
                )
        return pl.read_parquet(io.BytesIO(data), columns=None if columns is None else list(columns), n_rows=n_rows)
    except VerismError:
        raise
    except BaseException as err:
        # Damage makes polars raise half a dozen kinds of its own, and a panic, which is no Exception.
        if isinstance(err, KeyboardInterrupt | SystemExit | GeneratorExit):
            raise
        why = (str(err) or type(err).__name__).strip().partition("\n")[0]
        if isinstance(err, MemoryError):
            why = "there is not enough memory for it"
        advice = f"; {remedy}" if remedy else ""
        raise VerismError(f"{path} cannot be read as a parquet table: {why[:200]}{advice}") from err


def read_footer(data: bytes) -> Footer:
    """The size of what a parquet file holds.

    Args:
        data: content of the file.
    Raises:
        ValueError: it is no parquet file, or its footer is damaged.
    """
    size = int.from_bytes(data[-8:-4], "little")
    if len(data) < 12 or data[-4:] != b"PAR1" or not 0 < size <= min(len(data) - 8, MAX_FOOTER):
        raise ValueError("it does not end as a parquet file does; it may be cut off")
    try:
        footer = _Compact(data[-8 - size : -8]).struct(_FILE)
        rows = footer[3]
        chunks = [chunk[3] for group in footer.get(4, []) for chunk in group.get(1, []) if 3 in chunk]
        decoded = sum(_decoded_bytes(chunk) for chunk in chunks)
    except (IndexError, KeyError, TypeError, RecursionError) as err:
        raise ValueError("its footer is damaged") from err
    if rows < 0 or decoded < 0:
        raise ValueError("its footer is damaged")
    return Footer(rows, decoded)


def _decoded_bytes(chunk: dict[int, int]) -> int:
    """Memory of a column of a group of rows: of its values, and of the texts themselves."""
    kind, values, stored = chunk[1], chunk[5], chunk[6]
    return values * VALUE_BYTES[kind] if kind in VALUE_BYTES else values * VIEW_BYTES + stored


# Numbers of the fields that are kept, and what is inside them: None for a number.
_COLUMN: dict[int, Any] = {1: None, 5: None, 6: None}  # ColumnMetaData: type, num_values, total_uncompressed_size
_FILE: dict[int, Any] = {3: None, 4: {1: {3: _COLUMN}}}  # FileMetaData: num_rows, row_groups: columns: meta_data


class _Compact:
    """A value in Thrift's compact protocol, of which most is skipped."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 70:
                raise IndexError("a number without an end")

    def _integer(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)

    def struct(self, wanted: dict[int, Any]) -> dict[int, Any]:
        """The wanted fields of a struct, by number."""
        kept: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            if number in wanted:
                kept[number] = self._value(head & 15, wanted[number])
            else:
                self._value(head & 15, {})
        return kept

    def _value(self, kind: int, wanted: Any, *, in_list: bool = False) -> Any:
        if kind in (1, 2):  # booleans: of a field, the kind says which; in a list they are bytes
            return self._byte() if in_list else 2 - kind
        if kind == 3:
            return self._byte()
        if kind in (4, 5, 6):
            return self._integer()
        if kind == 7:
            self._skip(8)
        elif kind == 8:
            self._skip(self._varint())
        elif kind in (9, 10):
            head = self._byte()
            count = self._varint() if head >> 4 == 15 else head >> 4
            if count > len(self._data) - self._at:
                raise IndexError("a list longer than the file")
            return [self._value(head & 15, wanted, in_list=True) for _ in range(count)]
        elif kind == 12:
            return self.struct(wanted or {})
        else:
            raise IndexError(f"a value of kind {kind}")
        return None

    def _skip(self, count: int) -> None:
        self._at += count
        if self._at > len(self._data):
            raise IndexError("a value longer than the file")


def slices(rows: pl.LazyFrame) -> Iterator[pl.LazyFrame]:
    """A long table in slices of some hundred thousand rows, one at least.

    What is added up slice by slice takes the memory of a slice. The streaming engine of polars decodes as much of a
    file ahead as it finds time for: of the verdicts of a million images, hundreds of megabytes.

    Args:
        rows: a query of a file without filters, in the order of the file: slices of others are read from its start.
    """
    import polars as pl

    height = int(rows.select(pl.len()).collect().item())
    return (rows.slice(start, ROWS) for start in range(0, max(1, height), ROWS))
