"""The released ratings of TIFA160 with the values of ten metrics: read, and the agreement of each with people."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from verism.errors import UsageError
from verism.files import read_json
from verism.suites.questions.agreement import AgreementWithPeople, agreement_with_people

__all__ = ["RatedImages", "agreement", "read_ratings"]

EXPECTED = (
    "human_annotations_with_scores.json: an object of {text_id, human_scores, and numbers by the name of a metric} by "
    "image"
)


class RatedImages(dict[tuple[str, str], tuple[list[float], dict[str, float]]]):
    """By model and caption: the ratings of an image, and the values of metrics."""


def read_ratings(path: Path) -> RatedImages:
    """The rated images of a file in the released format.

    Args:
        path: JSON.

    Raises:
        UsageError: no such file, another format, or a rating outside 1 to 5.
    """
    records = read_json(path, EXPECTED)
    if not isinstance(records, dict) or not records:
        raise UsageError(f"{path}: no object of rated images. Expected {EXPECTED}")
    found = RatedImages()
    for name, record in records.items():
        where = f"{path}, {name!r:.80}"
        if not isinstance(record, dict) or not isinstance(record.get("text_id"), str):
            raise UsageError(f"{where}: no text_id. Expected {EXPECTED}")
        ratings = record.get("human_scores")
        if not isinstance(ratings, list) or not ratings or not all(_is_rating(value) for value in ratings):
            raise UsageError(f"{where}: human_scores is a list of numbers from 1 to 5, got {ratings!r:.80}")
        values = {
            str(key): float(value)
            for key, value in record.items()
            if key != "human_avg" and isinstance(value, int | float) and not isinstance(value, bool)
        }
        if foreign := [key for key, value in values.items() if not math.isfinite(value)]:
            raise UsageError(f"{where}: {foreign[0]!r:.80} is no finite number")
        text_id = record["text_id"]
        found[str(name).removeprefix(f"{text_id}_"), text_id] = ([float(value) for value in ratings], values)
    return found


def _is_rating(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= 5


def agreement(rated: RatedImages) -> dict[str, AgreementWithPeople]:
    """Agreement of each metric with the mean rating, by its name.

    Args:
        rated: the images.

    Raises:
        UsageError: no metric.
    """
    metrics = list(dict.fromkeys(name for _, values in rated.values() for name in values))
    if not metrics:
        raise UsageError("no image has the value of a metric")
    ratings = {key: ratings for key, (ratings, _) in rated.items()}
    return {
        name: agreement_with_people({key: values.get(name) for key, (_, values) in rated.items()}, ratings)
        for name in metrics
    }
