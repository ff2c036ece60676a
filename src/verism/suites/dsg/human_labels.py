"""Released answers of judges and ratings of people on TIFA160: read, scored under each dependency rule, compared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from verism.errors import UsageError
from verism.files import Row, read_rows
from verism.suites.dsg.suite import PSEUDOCODE, RELEASED
from verism.suites.questions.agreement import AgreementWithPeople, agreement_with_people
from verism.suites.questions.asked import AskedQuestion
from verism.suites.questions.proposition_files import parse_parents
from verism.suites.questions.scoring import judged_values
from verism.suites.questions.switches import Reply, Switches, own_value

__all__ = ["RULES", "Answered", "ReleasedAnswers", "agreement", "image_scores", "read_answers", "read_ratings"]

Key = tuple[str, str]  # model and item
Answered = Mapping[Key, tuple[tuple[AskedQuestion, str], ...]]
RULES: Mapping[str, Switches] = {
    "plain": RELEASED,
    "none": Switches(answer_test="yes", dependency="none", graph="released"),
    "cascading": PSEUDOCODE,
}
ANSWER_COLUMNS = ("t2i_model", "item_id", "question", "question_id", "dependency_id", "answer")
RATING_COLUMNS = ("model_type", "item_id", "answer")


class ReleasedAnswers(dict[Key, tuple[tuple[AskedQuestion, str], ...]]):
    """Questions and replies by model and item."""


def read_answers(path: Path) -> ReleasedAnswers:
    """Answers of a judge in the released format, ``vqa_answers_release/*_dsg.csv``.

    Args:
        path: CSV with ``t2i_model, item_id, question, question_id, dependency_id, answer``.

    Raises:
        UsageError: no such file, or another format.
    """
    rows = _rows(path, ANSWER_COLUMNS)
    groups: dict[Key, list[Row]] = {}
    for row in rows:
        groups.setdefault((str(row["t2i_model"]), str(row["item_id"])), []).append(row)
    found = ReleasedAnswers()
    for key, of_image in groups.items():
        names = [str(row["question_id"]).strip() for row in of_image]
        cells = [parse_parents(str(row["dependency_id"] or "")) for row in of_image]
        broken = any(cell is None for cell in cells)  # takes the whole graph away, as released
        found[key] = tuple(
            (
                AskedQuestion(
                    name=name,
                    text=str(row["question"]),
                    parents=() if broken else tuple(dict.fromkeys(p for p in cell or () if p in names)),
                ),
                str(row["answer"] or ""),
            )
            for name, cell, row in zip(names, cells, of_image, strict=True)
        )
    return found


def read_ratings(path: Path) -> dict[Key, list[float]]:
    """Ratings of people in the released format, ``tifa160-likert-anns.csv``; who rated is not kept.

    Args:
        path: CSV with ``model_type, item_id, answer``.

    Raises:
        UsageError: no such file, another format, or a rating outside 1 to 5.
    """
    found: dict[Key, list[float]] = {}
    for row in _rows(path, RATING_COLUMNS):
        text = str(row["answer"] or "").strip()
        if text not in ("1", "2", "3", "4", "5"):
            raise UsageError(f"{row.where}: a rating is a whole number from 1 to 5, got {text!r:.80}")
        found.setdefault((str(row["model_type"]), str(row["item_id"])), []).append(float(text))
    return found


def _rows(path: Path, columns: tuple[str, ...]) -> list[Row]:
    rows = read_rows(path, f"rows with {', '.join(columns)}")
    if not rows:
        raise UsageError(f"{path}: nothing in it. Expected rows with {', '.join(columns)}")
    if missing := [name for name in columns if name not in rows[0]]:
        raise UsageError(
            f"{path}: no column {missing[0]}; it has {', '.join(map(str, rows[0]))}. Expected {', '.join(columns)}"
        )
    return rows


def image_scores(answers: Answered, switches: Switches) -> dict[Key, float | None]:
    """The score of each image under some switches.

    Args:
        answers: questions and replies by image.
        switches: dependency rule and answer test.
    """
    scores: dict[Key, float | None] = {}
    for key, asked in answers.items():
        own = {q.name: own_value(q, Reply(text=text or None), switches.answer_test) for q, text in asked}
        values, _ = judged_values([q for q, _ in asked], own, switches)
        usable = [value for value in values.values() if value is not None]
        scores[key] = sum(usable) / len(usable) if usable else None
    return scores


def agreement(answers: Answered, ratings: Mapping[Key, list[float]]) -> dict[str, tuple[float, AgreementWithPeople]]:
    """Mean score and agreement with people, by dependency rule.

    Args:
        answers: questions and replies by image.
        ratings: ratings by image.
    """
    found = {}
    for name, switches in RULES.items():
        scores = image_scores(answers, switches)
        known = [value for value in scores.values() if value is not None]
        found[name] = (sum(known) / len(known), agreement_with_people(scores, ratings))
    return found
