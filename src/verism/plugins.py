"""Entry points of installed packages, searched anew only when a package was installed or removed."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import lru_cache
from importlib import metadata

__all__ = ["entry_points"]


def entry_points(*, group: str) -> tuple[metadata.EntryPoint, ...]:
    """Entry points of a group, by all packages that are installed.

    A search reads a file of every installed package: milliseconds, which every command and every scoring would pay
    several times. Its result serves for as long as no folder of the search path changes.

    Args:
        group: name of the group, such as ``verism.judges``.
    """
    changed = []
    for folder in sys.path:
        with suppress(OSError):
            changed.append((folder, os.stat(folder or ".").st_mtime_ns))
    return _searched(group, tuple(changed))


@lru_cache(maxsize=16)
def _searched(group: str, _: tuple[tuple[str, int], ...]) -> tuple[metadata.EntryPoint, ...]:
    return tuple(metadata.entry_points(group=group))
