"""Errors that say what was expected, what came, and what to do."""

from __future__ import annotations

import importlib
from types import ModuleType


class VerismError(Exception):
    """The caller can do something about it; the command line shows the message without a traceback."""


class UsageError(VerismError):
    """The request itself is wrong (exit code 2)."""


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
