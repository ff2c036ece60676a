"""Names that earlier versions used, and their names of today.

The protocol ``revised`` was called ``corrected``, a word that also stood for numbers adjusted for judge error, for
debiased numbers, and for p-values adjusted for their number. Runs, cards and commands that say it stay readable: every
reader of stored names, and every option that takes a name, asks here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["metric_name", "protocol_name", "rule_name", "rule_value", "rules_of"]

FORMER = "corrected"
SUFFIX = "_corrected"


def protocol_name(name: str) -> str:
    """The name of a protocol today.

    Args:
        name: its name, of now or of an earlier version.

    >>> protocol_name("corrected"), protocol_name("released")
    ('revised', 'released')
    """
    return "revised" if name == FORMER else name


def rule_name(name: str) -> str:
    """The name of a rule today: rules that concern one protocol end in its name.

    Args:
        name: its name, of now or of an earlier version.

    >>> rule_name("limit_corrected")
    'limit_revised'
    """
    return f"{name.removesuffix(SUFFIX)}_revised" if name.endswith(SUFFIX) else name


def rule_value(value: Any) -> Any:
    """The value of a rule today, which may name protocols: one, a list, or a text with commas.

    Args:
        value: the value of a rule that chooses among protocols; anything else is returned as it is.

    >>> rule_value(["released", "corrected"]), rule_value("released,corrected"), rule_value(0.5)
    (['released', 'revised'], 'released,revised', 0.5)
    """
    if isinstance(value, str):
        return ",".join(protocol_name(part.strip()) for part in value.split(",")) if FORMER in value else value
    return [rule_value(item) for item in value] if isinstance(value, list | tuple) else value


def rules_of(rules: Mapping[str, Any]) -> dict[str, Any]:
    """Rules by their names of today; those that chose protocols name them as today.

    Args:
        rules: values by name, as a run or a card keeps them.
    """
    return {rule_name(name): rule_value(value) for name, value in rules.items()}


def metric_name(name: str) -> str:
    """The name of a metric today: what ended in ``corrected`` had the noise of few images taken off it.

    Args:
        name: its name, of now or of an earlier version.

    >>> metric_name("score_corrected")
    'score_debiased'
    """
    return f"{name.removesuffix(SUFFIX)}_debiased" if name.endswith(SUFFIX) else name
