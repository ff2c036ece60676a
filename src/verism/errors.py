"""Errors that say what was expected, what came, and what to do."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Self

from verism.systems import quoted

if TYPE_CHECKING:
    import polars as pl


class VerismError(Exception):
    """The caller can do something about it; the command line shows the message without a traceback."""


class UsageError(VerismError):
    """The request itself is wrong (exit code 2)."""


class Unfinished(UsageError):
    """A judge could not go on within a batch; what it observed until then is kept.

    Attributes:
        rows: of the images that it was done with, in the columns of its table.
    """

    def __init__(self, message: str, rows: pl.DataFrame) -> None:
        super().__init__(message)
        self.rows = rows


class DamagedRun(UsageError):
    """A file of a run is gone, altered or foreign; the message names it and the repair."""

    @classmethod
    def of(cls, run: Path, file: Path, what: str) -> Self:
        """The error about one file.

        Args:
            run: the run directory.
            file: the file.
            what: what is wrong with it.
        """
        return cls(f"{file} is damaged: {what}. Check and repair the run with: {repair_command(run)}")


def repair_command(run: Path) -> str:
    """What repairs a run, as the shell takes it.

    Args:
        run: the run directory.
    """
    return f"verism verify {quoted(run)} --repair"


class MissingExtra(VerismError):
    """An optional library is not installed; the message names the extra that brings it."""


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import an optional module, or say how to install it.

    Raises:
        MissingExtra: the module's package is not installed.
        ModuleNotFoundError: it is installed but broken inside; hiding that would mislead.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as err:
        if err.name != module.partition(".")[0]:
            raise
        raise MissingExtra(f"{purpose} needs {module!r}. Install it with: pip install 'verism[{extra}]'") from err
