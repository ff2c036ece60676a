"""People's ratings of images: read from files, held to the scale, and what picking the best of several images gains."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from verism.errors import UsageError
from verism.files import read_json
from verism.suites.genai_bench.benchmark import MODELS, rating_list

__all__ = ["HIGHEST", "LOWEST", "OnScale", "expected_pick", "mean_rating", "on_scale", "read_ratings"]

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


def expected_pick(scores: ArrayLike, ratings: ArrayLike, k: int) -> float:
    """The mean rating of the best-scored of k images of a prompt, over all ways to draw k of those there are.

    Images with equal scores are as likely to be picked as each other. With the ratings for scores this is the oracle's
    pick, and with equal scores the mean rating.

    Args:
        scores: of the images, shape (N,), finite.
        ratings: of the same images, shape (N,), finite.
        k: images to pick from, 1 to N.

    Raises:
        ValueError: k out of range, unequal lengths, NaN or infinity.

    >>> expected_pick([0.2, 0.9, 0.5], [1, 5, 3], 2)  # of the three pairs 5 is picked twice and 3 once
    4.333333333333333
    """
    score, rating = np.asarray(scores, dtype=np.float64), np.asarray(ratings, dtype=np.float64)
    if score.ndim != 1 or score.shape != rating.shape or not np.isfinite([score, rating]).all():
        raise ValueError(f"scores and ratings are finite and of one length; got shapes {score.shape}, {rating.shape}")
    n = len(score)
    if not 1 <= k <= n:
        raise ValueError(f"k must be between 1 and the number of images, {n}; got {k}")
    total, below = 0.0, 0
    for value in np.unique(score):  # ascending
        tied = score == value
        up_to = below + int(tied.sum())
        chance = (math.comb(up_to, k) - math.comb(below, k)) / math.comb(n, k)
        total += chance * float(rating[tied].mean())
        below = up_to
    return total
