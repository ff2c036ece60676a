"""The user's file of prompts that may lead to unsafe images, as I2P or any list; nothing comes with verism."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verism.errors import UsageError
from verism.files import read_rows

__all__ = ["EXPECTED", "KINDS", "UnsafePrompt", "alterations", "read_prompts"]

N_PROMPTS = 4703
KINDS = ("hate", "harassment", "violence", "self-harm", "sexual", "shocking", "illegal activity")
OTHER = "other"  # a prompt whose kind the file does not tell
COLUMNS = ("prompt", "categories", "prompt_id", "id", "hard", "prompt_toxicity")
EXPECTED = (
    "a CSV with prompt and categories, as i2p_benchmark.csv (prompt, categories, hard, prompt_toxicity, "
    f"inappropriate_percentage ...; {N_PROMPTS:,} prompts of {len(KINDS)} kinds)"
)


@dataclass(frozen=True, kw_only=True)
class UnsafePrompt:
    """A prompt of the file.

    Attributes:
        prompt_id: its id, or its number in the file.
        text: the prompt.
        kinds: what it may lead to; a prompt may have several.
        hard: whether the file calls it hard; None where it does not say.
        toxicity: toxicity of the prompt's text, 0 to 1; None where the file does not say.
    """

    prompt_id: str
    text: str
    kinds: tuple[str, ...]
    hard: bool | None = None
    toxicity: float | None = None


def read_prompts(path: Path) -> list[UnsafePrompt]:
    """The prompts of the user's file, in order.

    Args:
        path: CSV or JSON lines.

    Raises:
        UsageError: no such file, no prompt or categories, an id used twice, or a number that is none.
    """
    found: dict[str, UnsafePrompt] = {}
    for position, read in enumerate(read_rows(path, EXPECTED)):
        row = read.with_columns(COLUMNS)
        missing = [name for name in ("prompt", "categories") if name not in row]
        if missing:
            raise UsageError(
                f"{row.where}: no column {missing[0]}; it has {', '.join(map(str, row))}. Expected {EXPECTED}"
            )
        text = str(row["prompt"] or "").strip()
        if not text:
            raise UsageError(f"{row.where}: no prompt. Expected {EXPECTED}")
        given = next((row[name] for name in ("prompt_id", "id") if row.get(name) not in (None, "")), None)
        prompt_id = f"{position:05d}" if given is None else str(given).strip()
        if prompt_id in found:
            raise UsageError(f"{row.where}: the id {prompt_id!r:.80} is used twice")
        hard = _number(row, "hard")
        found[prompt_id] = UnsafePrompt(
            prompt_id=prompt_id,
            text=text,
            kinds=_kinds(row["categories"]),
            hard=None if hard is None else hard > 0,
            toxicity=_number(row, "prompt_toxicity"),
        )
    if not found:
        raise UsageError(f"{path}: no prompts in it. Expected {EXPECTED}")
    return list(found.values())


def _kinds(value: Any) -> tuple[str, ...]:
    """Kinds separated by commas; one that is not known stays as it is written."""
    names = value if isinstance(value, list) else str(value or "").split(",")
    return tuple(dict.fromkeys(" ".join(str(name).lower().split()) for name in names if str(name).strip())) or (OTHER,)


def _number(row: Mapping[str, Any], name: str) -> float | None:
    value = row.get(name)
    if value in (None, ""):
        return None
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return float(value.strip().lower() == "true")
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not number == number or number in (float("inf"), float("-inf")):
        raise UsageError(f"{getattr(row, 'where', 'a row')}: {name} is a number, got {value!r:.80}")
    return number


def alterations(prompts: Sequence[UnsafePrompt]) -> str:
    """How a file differs from the released one, in words; empty if it does not as far as is known.

    Args:
        prompts: of the file.
    """
    if len(prompts) != N_PROMPTS:
        return f"{len(prompts):,} prompts, expected {N_PROMPTS:,}"
    kinds = {kind for prompt in prompts for kind in prompt.kinds}
    if unknown := sorted(kinds - set(KINDS)):
        return f"kinds such as {unknown[0]!r:.80}, expected {', '.join(KINDS)}"
    return ""
