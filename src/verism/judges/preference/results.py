"""Scores given elsewhere: a table of images and how well they are liked.

verism run preference --images DIR --scorer "results:scores.csv?scorer=PickScore v1"
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verism.errors import UsageError
from verism.files import read_rows
from verism.judges.batching import content_id
from verism.judges.result_files import ImageNames, image_name
from verism.records import PreferenceNeed

if TYPE_CHECKING:
    import polars as pl

    from verism.records import LoadedImage

__all__ = ["PreferenceResults", "read_scores"]

SCORE_COLUMNS = ("score", "reward", "value")
IMAGE_COLUMNS = ("image_id", "prompt_id", "image", "file_name", "file_path", "path")


def read_scores(path: Path) -> tuple[dict[str, float | None], str]:
    """Scores by the name that a file has for each image, and the scorer it names, empty if it names none.

    Args:
        path: CSV, JSON Lines or JSON list with ``image_id`` (or ``prompt_id``, or the name of the image's file) and
            ``score``; null or an empty cell is no score. A column ``scorer`` names who gave them.

    Raises:
        UsageError: no such file, another format, an image named twice, a score that is no finite number, or scores of
            several scorers.
    """
    scores: dict[str, float | None] = {}
    scorers: dict[str, None] = {}
    for row in read_rows(path, "image_id and score of every image"):
        name = image_name(row, IMAGE_COLUMNS, row.where)
        if name in scores:
            raise UsageError(f"{row.where}: a second score for {name}; give one per image")
        scores[name] = _score(row, row.where)
        if (scorer := row.get("scorer")) not in (None, ""):
            scorers[str(scorer)] = None
    if not scores:
        raise UsageError(f"{path} holds no scores")
    if len(scorers) > 1:
        raise UsageError(
            f"{path} has scores of {len(scorers)} scorers ({', '.join(scorers)}); scores of two scorers cannot be "
            "compared: keep one file for each"
        )
    return scores, next(iter(scorers), "")


def _score(row: Mapping[str, Any], where: str) -> float | None:
    column = next((name for name in SCORE_COLUMNS if name in row), None)
    if column is None:
        raise UsageError(f"{where}: expected a column {' or '.join(SCORE_COLUMNS)}; it has {sorted(row, key=str)}")
    value = row[column]
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"{where}: {column} must be a number, got {value!r:.80}")
    return number


class PreferenceResults:
    """The scores of a file, as if its scorer looked at the images now.

    Args:
        path: CSV, JSON Lines or JSON list with ``image_id`` (or ``prompt_id``, or the file name) and ``score``; an
            empty score counts as none. A column ``scorer`` names the scorer.
        scorer: name and version of the scorer. Default: the file's column ``scorer``.

    Attributes:
        scores: by the name that the file has for each image; None where it has no score.
        name: of the file with a hash of its content, and the scorer.

    Raises:
        UsageError: as ``read_scores``, or the file names another scorer.
    """

    role = PreferenceNeed.role

    def __init__(self, path: Path, *, scorer: str = "") -> None:
        self.scores, named = read_scores(path)
        if scorer and named and scorer != named:
            raise UsageError(f"{path} names the scorer {named!r}, not {scorer!r}")
        self._names = ImageNames(self.scores)
        self._used: set[str] = set()
        self._missing = 0
        self._path = path
        of = scorer or named
        self.name = f"results:{path.name}@{content_id(path)}" + (f" scorer={of}" if of else "")

    def observe(self, images: Sequence[LoadedImage], need: PreferenceNeed) -> pl.DataFrame:
        """One row per image, as table ``preference_scores``; without a score where the file has none.

        Args:
            images: the images.
            need: what is asked.
        """
        from verism.records import frame

        rows: list[dict[str, Any]] = []
        for image in images:
            row: dict[str, Any] = {"image_id": image.image_id, "judge": self.name}
            name = self._names.find(image)
            if name is None:
                self._missing += 1
                rows.append({**row, "note": f"{self._path.name} has no score of this image"})
                continue
            self._used.add(name)
            score = self.scores[name]
            rows.append({**row, "score": score, "note": "the score is null" if score is None else None})
        return frame(need.table, rows)

    def summary(self) -> Sequence[str]:
        """After a run: scores that belong to no image seen, and images without one."""
        if not (self._used or self._missing):  # a resumed run asked nothing anew
            return []
        lines = []
        if spare := len(self.scores) - len(self._used):
            lines.append(f"{self._path.name}: {spare:,} of {len(self.scores):,} scores belong to no image seen")
        if self._missing:
            lines.append(f"{self._path.name}: no score for {self._missing:,} images")
        return lines
