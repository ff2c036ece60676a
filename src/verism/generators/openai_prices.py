"""What OpenAI asked for images when this table was written: for estimates before a run, and not for accounts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

__all__ = ["ImageCost", "TokenRates", "image_cost", "table_date", "table_source", "token_rates"]


@dataclass(frozen=True)
class ImageCost:
    """US dollars for one image: from ``low`` to ``high`` where the service chooses size or quality, else equal."""

    low: float
    high: float


@dataclass(frozen=True)
class TokenRates:
    """US dollars per million tokens of prompt, and of image."""

    text_input: float
    image_output: float


@cache
def _table() -> Mapping[str, Any]:
    text = resources.files("verism.generators").joinpath("openai_prices.json").read_text(encoding="utf-8")
    table: dict[str, Any] = json.loads(text)
    return table


def table_date() -> str:
    """Year and month in which the table was written."""
    return str(_table()["read"])


def table_source() -> str:
    """Where the present prices are."""
    return str(_table()["source"])


def _model(model: str) -> Mapping[str, Any]:
    # Dated snapshots (gpt-image-1.5-2025-12-16) cost what their model costs.
    results: Mapping[str, Any] = _table()["models"].get(re.sub(r"-\d{4}-\d{2}-\d{2}$", "", model), {})
    return results


def image_cost(model: str, size: str | None, quality: str | None) -> ImageCost | None:
    """List price of one image without its prompt; None if the table does not know the model, size or quality.

    ``None`` and ``auto`` leave the choice to the service: where its default is not known, the answer is a range.
    """
    entry = _model(model)
    by_quality: Mapping[str, Mapping[str, float]] = entry.get("per_picture", {})
    defaults: Mapping[str, str] = entry.get("defaults", {})
    size = defaults.get("size") if size in (None, "auto") else size
    quality = defaults.get("quality") if quality in (None, "auto") else quality
    prices = [
        price
        for q, by_size in by_quality.items()
        for s, price in by_size.items()
        if quality in (None, q) and size in (None, s)
    ]
    return ImageCost(min(prices), max(prices)) if prices else None


def token_rates(model: str) -> TokenRates | None:
    """Price of the tokens that the service counts in ``usage``; None if the table does not know them."""
    rates = _model(model).get("per_million_tokens")
    return None if rates is None else TokenRates(rates["text_input"], rates["image_output"])
