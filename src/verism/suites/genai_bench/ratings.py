"""People's ratings of images: read from files and held to the scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from verism.errors import UsageError
from verism.files import read_json
from verism.suites.genai_bench.benchmark import MODELS, rating_list

__all__ = ["HIGHEST", "LOWEST", "OnScale", "mean_rating", "on_scale", "read_ratings"]

LOWEST, HIGHEST = 1, 5  # 1: does not match at all; 5: matches exactly
EXPECTED = (
    "ratings by image: {PROMPT_ID: [rating, ...]} or {PROMPT_ID_NUMBER: [rating, ...]}, or the released "
    "genai_image.json with the key of the model"
)


class OnScale(NamedTuple):
    """Ratings of an image, those on the scale apart from the others.

    Attributes:
        valid: from 1 to 5.
        impossible: the others, slips of the pen in the released file.
    """

    valid: tuple[float, ...]
    impossible: tuple[float, ...]


def on_scale(ratings: Sequence[float]) -> OnScale:
    """Which ratings of an image lie on the scale.

    Args:
        ratings: as they stand in a file.

    >>> on_scale((5, 41, 4))
    OnScale(valid=(5, 4), impossible=(41,))
    """
    valid = tuple(value for value in ratings if LOWEST <= value <= HIGHEST)
    return OnScale(valid, tuple(value for value in ratings if not LOWEST <= value <= HIGHEST))


def mean_rating(ratings: Sequence[float], *, all_as_they_are: bool) -> float | None:
    """The mean rating of an image; None without one.

    Args:
        ratings: as they stand in a file.
        all_as_they_are: whether impossible ratings enter the mean, as in the released figures.
    """
    kept = tuple(ratings) if all_as_they_are else on_scale(ratings).valid
    return sum(kept) / len(kept) if kept else None


def read_ratings(path: Path, prompt_ids: Sequence[str], model: str = "") -> dict[tuple[str, int], tuple[float, ...]]:
    """Ratings by prompt and number of the image.

    Args:
        path: JSON, see ``EXPECTED``.
        prompt_ids: of the prompts asked; ratings of others are left out.
        model: key of a model of the released file.

    Raises:
        UsageError: no such file, another format, no or an unknown key of a model, or no rating of any prompt.
    """
    records = read_json(path, EXPECTED)
    if not isinstance(records, dict) or not records:
        raise UsageError(f"{path}: no object of ratings by image. Expected {EXPECTED}")
    wanted = set(prompt_ids)
    found: dict[tuple[str, int], tuple[float, ...]] = {}
    for key, record in records.items():
        where = f"{path}, {key!r:.80}"
        values = _of_model(record["models"], model, where) if _is_released(record) else record
        prompt_id, index = (key, 0) if key in wanted else _numbered(key)
        if prompt_id not in wanted:
            continue
        if (prompt_id, index) in found:
            raise UsageError(f"{where}: a second list of ratings of image {index} of {prompt_id}")
        found[prompt_id, index] = rating_list(values, where)
    if not found:
        raise UsageError(f"{path}: ratings of images such as {next(iter(records))!r:.80}, and of none of the prompts")
    return found


def _is_released(record: object) -> bool:
    return isinstance(record, dict) and isinstance(record.get("models"), dict)


def _of_model(models: Mapping[str, object], model: str, where: str) -> object:
    if not model:
        raise UsageError(
            f"{where}: ratings of {', '.join(models)}; say whose images these are: --human-model KEY "
            f"({', '.join(f'{key}: {name}' for key, name in MODELS.items() if key in models)})"
        )
    if model not in models:
        raise UsageError(f"{where}: no ratings of {model!r:.80}; it has {', '.join(models)}")
    return models[model]


def _numbered(key: str) -> tuple[str, int]:
    """Prompt and number of the image in a name such as ``00012_03``."""
    prompt_id, _, number = key.rpartition("_")
    return (prompt_id, int(number)) if number.isdigit() else (key, 0)
