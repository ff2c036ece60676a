"""Answers made elsewhere: a table of image, question and answer.

verism run alignment --images DIR --vqa results:answers.csv
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verism.errors import UsageError
from verism.files import read_rows
from verism.judges.batching import content_id
from verism.judges.result_files import ImageNames, image_name, results_name
from verism.judges.vqa.replies import value_of
from verism.records import AnswerNeed

if TYPE_CHECKING:
    import polars as pl

    from verism.records import LoadedImage

__all__ = ["AnswerResults"]


class AnswerResults:
    """The answers of a file, as if its model looked at the images now.

    Args:
        path: CSV, JSON Lines or JSON list with ``image_id`` (or ``prompt_id``, or ``item_id``), ``question``,
            ``answer`` and, if known, ``probability`` (of yes, or of the answer, in [0, 1]). Questions must be worded as
            by the suite; case and spaces do not matter. An empty answer counts as none.
        judge: name and version of who judged. Runs whose files declare the same judge can be compared. Default: not
            known, and the file's content stands for it.
    Raises:
        UsageError: no such file, another format, an entry without image or question, an answer that is no text, a
            probability outside [0, 1], or a question answered twice for an image.
    """

    role = AnswerNeed.role

    def __init__(self, path: Path, *, judge: str = "") -> None:
        rows = read_rows(path, "image_id, question and answer")
        self._answers: dict[str, dict[str, tuple[str | None, float | None]]] = {}
        for row in rows:
            where = row.where
            name = image_name(row, ("image_id", "prompt_id", "item_id"), where)
            question = row.get("question")
            if not isinstance(question, str) or not question.strip():
                raise UsageError(f"{where}: expected a question in words, got {question!r}")
            for_image = self._answers.setdefault(name, {})
            if _key(question) in for_image:
                raise UsageError(f"{where}: a second answer to {question!r} for {name}; give one per question")
            for_image[_key(question)] = (_answer(row, where), _probability(row, where))
        if not self._answers:
            raise UsageError(f"{path} holds no answers")
        self._names = ImageNames(self._answers)
        self._used: set[tuple[str, str]] = set()
        self._missing = 0
        self._path = path
        self.name = results_name(path, content_id(path), judge=judge)

    def observe(self, images: Sequence[LoadedImage], need: AnswerNeed) -> pl.DataFrame:
        """One row per image and question, as table ``answers``; null where the file has no answer.

        An image about which nothing is asked has one row without a question.
        """
        from verism.records import frame

        rows: list[dict[str, Any]] = []
        for image in images:
            name = self._names.find(image)
            described = {} if name is None else self._answers[name]
            questions = need.questions.get(image.prompt_id, ())
            if not questions:
                rows.append({"image_id": image.image_id, "judge": self.name})
            for question in questions:
                key = _key(question.text)
                answer, probability = described.get(key, (None, None))
                if name is not None and key in described:
                    self._used.add((name, key))
                else:
                    self._missing += 1
                rows.append(
                    {
                        "image_id": image.image_id,
                        "judge": self.name,
                        "question": question.text,
                        "answer": answer,
                        "value": None if answer is None else value_of(answer, question),
                        "probability": probability,
                    }
                )
        return frame(need.table, rows)

    def summary(self) -> Sequence[str]:
        """After a run: answers to what was not asked, and questions without one."""
        if not (self._used or self._missing):  # a resumed run asked nothing anew
            return []
        lines = []
        value = sum(map(len, self._answers.values()))
        if spare := value - len(self._used):
            lines.append(f"{self._path.name}: {spare:,} of {value:,} answers belong to no image and question seen")
        if self._missing:
            lines.append(f"{self._path.name}: no answer to {self._missing:,} questions")
        return lines


def _key(question: str) -> str:
    return " ".join(question.split()).casefold()


def _answer(row: Mapping[str, Any], where: str) -> str | None:
    if "answer" not in row:
        raise UsageError(f"{where}: expected an answer; it has {sorted(row, key=str)}")
    answer = row["answer"]
    if isinstance(answer, bool):
        return "yes" if answer else "no"
    if isinstance(answer, int | float):
        return str(answer)
    if answer is not None and not isinstance(answer, str):
        raise UsageError(f"{where}: expected an answer in words, got {answer!r}")
    return (answer or "").strip() or None


def _probability(row: Mapping[str, Any], where: str) -> float | None:
    value = row.get("probability")
    if value is None or value == "":
        return None
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number <= 1:
        raise UsageError(f"{where}: probability must be a number in [0, 1], got {value!r}")
    return number
