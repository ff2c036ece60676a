"""Answers as numbers, and agreements as plain records."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from verism.records import RatingTask
from verism.statistics.agreement import Agreement

__all__ = ["Options", "is_number", "order_of", "told", "value_of"]

Options = Mapping[str, Any]


def told(found: Agreement) -> dict[str, Any]:
    """An agreement as a record."""
    return {"value": found.value, "low": found.low, "high": found.high, "items": found.n_units}


def value_of(task: RatingTask, answer: str) -> float | str:
    """An answer to a task: a number where differences between answers mean something.

    Options of a scale that are no numbers count by their place, from 1.
    """
    if task.level == "nominal":
        return answer
    proper = [option for option in task.options if option not in task.unsure]
    return float(answer) if all(map(is_number, proper)) else float(1 + proper.index(answer))


def is_number(text: str) -> bool:
    """Whether a text is a finite number."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def order_of(label: str) -> tuple[bool, float, str]:
    """A key that sorts numbers as numbers, before names."""
    return (not is_number(label), float(label) if is_number(label) else 0.0, label)
