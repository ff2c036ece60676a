"""verism: are a text-to-image model's images true to the prompt, and fair to the world?

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
    from verism.api import (
        Run,
        RunOptions,
        compact,
        compare,
        evaluate,
        export,
        gate,
        generate,
        observe,
        open_run,
        plan,
        repair,
        report,
        score,
        verify,
    )
    from verism.checkpoint_evaluation import CheckpointEvaluator
    from verism.pipeline.added_metrics import Metric
    from verism.pipeline.ray_workers import RayCluster, RaySettings
    from verism.plans import Plan
    from verism.suites.base import Suite

__all__ = [
    "CheckpointEvaluator",
    "Metric",
    "MissingExtra",
    "Plan",
    "RayCluster",
    "RaySettings",
    "Run",
    "RunOptions",
    "Suite",
    "UsageError",
    "VerismError",
    "__version__",
    "compact",
    "compare",
    "evaluate",
    "export",
    "gate",
    "generate",
    "metrics",
    "observe",
    "open_run",
    "plan",
    "repair",
    "report",
    "score",
    "statistics",
    "suites",
    "verify",
]

_OF_API = (
    "Run",
    "RunOptions",
    "compact",
    "compare",
    "evaluate",
    "gate",
    "generate",
    "export",
    "observe",
    "open_run",
    "plan",
    "repair",
    "report",
    "score",
    "verify",
)
_HOMES = {
    **dict.fromkeys(_OF_API, "verism.api"),
    "CheckpointEvaluator": "verism.checkpoint_evaluation",
    "Metric": "verism.pipeline.added_metrics",
    "Plan": "verism.plans",
    "RayCluster": "verism.pipeline.ray_workers",
    "RaySettings": "verism.pipeline.ray_workers",
    "Suite": "verism.suites.base",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in ("metrics", "statistics", "suites"):
        return importlib.import_module(f"verism.{name}")
    raise AttributeError(f"module 'verism' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
