"""Shards: tar files of many images, each of which is read as one range of bytes.

A shard is an uncompressed tar file as WebDataset has them: files whose names agree up to the first dot belong together,
``KEY.png`` and ``KEY.json``. The path of an image in a shard says where in it the image lies,
``.../shard-5f0c2a11-<digest>.tar/1536+20480.KEY.png`` (offset and length, in bytes), so that nobody has to read an
index or the shard. ``verism.files`` reads such paths as it reads files. A shard is never changed after it was written.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

__all__ = ["SUFFIX", "Member", "Packing", "member_of", "member_path", "shard_of"]

SUFFIX = ".tar"
BLOCK = tarfile.BLOCKSIZE
END = bytes(2 * BLOCK)  # of an archive; more than two blocks, as tape drives wanted, no reader needs
_SHARD = re.compile(r"shard-[0-9a-f]{8}-[0-9a-f]{24}\.tar")
_MEMBER = re.compile(r"([0-9]{1,15})\+([0-9]{1,15})\.([^/\\]+)", re.DOTALL)
_IN_SHARD = re.compile(rf"((?:.*[/\\])?{_SHARD.pattern})[/\\]{_MEMBER.pattern}", re.DOTALL)


class Member(NamedTuple):
    """Where in a shard a file lies.

    Attributes:
        shard: the shard.
        offset: of the file's first byte.
        length: of the file, bytes.
        name: of the file in the shard.
    """

    shard: Path
    offset: int
    length: int
    name: str


class Packing:
    """A shard that is written piece by piece; the same files, the same bytes.

    Attributes:
        size: of what is written, bytes.
    """

    def __init__(self, write: Callable[[bytes], object]) -> None:
        """A shard without files.

        Args:
            write: takes the next bytes of the shard.
        """
        self.size = 0
        self._write = write

    def add(self, name: str, content: bytes) -> tuple[int, int]:
        """Add a file.

        Args:
            name: of the file, at most 100 characters of ASCII.
            content: of the file.

        Returns:
            Its offset in the shard and its length, bytes.

        Raises:
            ValueError: a name that does not fit.
        """
        info = tarfile.TarInfo(name)
        info.size = len(content)
        info.mode = 0o644
        header = info.tobuf(tarfile.USTAR_FORMAT, "ascii", "strict")
        offset = self.size + len(header)
        for piece in (header, content, bytes(-len(content) % BLOCK)):
            self._write(piece)
            self.size += len(piece)
        return offset, len(content)

    def end(self) -> None:
        """Write the end of the shard, after which nothing can be added."""
        self._write(END)


def member_of(path: Path) -> Member | None:
    """Where in a shard the file of this path lies; None for paths of other files.

    >>> member_of(Path("run/shards/shard-0a1b2c3d-0123456789abcdef01234567.tar/512+34.cat.png"))[1:]
    (512, 34, 'cat.png')

    Args:
        path: of any file.
    """
    match = _MEMBER.fullmatch(path.name)
    if match is None or _SHARD.fullmatch(path.parent.name) is None:
        return None
    return Member(path.parent, int(match[1]), int(match[2]), match[3])


def shard_of(path: str) -> str | None:
    """The shard that a file lies in, by the file's path; None for other files.

    >>> shard_of("shards/shard-0a1b2c3d-0123456789abcdef01234567.tar/512+34.cat.png"), shard_of("images/cat.png")
    ('shards/shard-0a1b2c3d-0123456789abcdef01234567.tar', None)

    Args:
        path: as the table ``images`` has it.
    """
    match = _IN_SHARD.fullmatch(path)
    return match and match[1]


def member_path(shard: str, offset: int, length: int, name: str) -> str:
    """The path of a file in a shard.

    Args:
        shard: path of the shard, with ``/``.
        offset: of the file's first byte.
        length: of the file, bytes.
        name: of the file in the shard.
    """
    return f"{shard}/{offset}+{length}.{name}"
