"""verism: are a text-to-image model's pictures true to the prompt, and fair to the world?

``evaluate`` runs a suite, ``open_run`` reads a run, ``score`` applies rules again, ``compare`` pairs two runs.
Everything heavy loads on first use: importing this package loads neither polars nor any model library.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from verism._version import __version__
from verism.errors import MissingExtra, UsageError, VerismError

if TYPE_CHECKING:
    from verism import metrics, statistics, suites
    from verism.api import compare, evaluate, observe, open_run, score
    from verism.store import Run

__all__ = [
    "MissingExtra",
    "Run",
    "UsageError",
    "VerismError",
    "__version__",
    "compare",
    "evaluate",
    "metrics",
    "observe",
    "open_run",
    "score",
    "statistics",
    "suites",
]

_HOMES = {
    **dict.fromkeys(("compare", "evaluate", "observe", "open_run", "score"), "verism.api"),
    "Run": "verism.store",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in ("metrics", "statistics", "suites"):
        return importlib.import_module(f"verism.{name}")
    raise AttributeError(f"module 'verism' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
