"""Images judged by questions: TIFA, DSG and EvalGIM's form of it from a file, and VQAScore.

==============  =====================================================================================================
``revised``   a question counts if its parents' own answers are right (DSG); an unreadable reply is no answer
``paper``       the same; an unreadable reply is a wrong one (TIFA, DSG)
``released``    EvalGIM: right only if the reply is the expected word and nothing else; a question zeroed for its
                parent's sake zeroes its own children
==============  =====================================================================================================
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from verism.metrics.questions import Dependence, question_values, share_right
from verism.records import PROTOCOLS, Question, Score
from verism.suites.alignment.image_groups import Groups, mean_score, verdict
from verism.suites.alignment.metrics import ANSWERED
from verism.suites.alignment.questions import Asked
from verism.suites.verdict_table import ShownImage

if TYPE_CHECKING:
    import polars as pl

__all__ = ["asked_of", "question_scores", "question_verdicts", "vqascore_question"]

VQASCORE = 'Does this figure show "{text}"? Please answer yes or no.'
DEPENDENCE: Mapping[str, Dependence] = {"revised": "parents", "paper": "parents", "released": "cascade"}

Answer = tuple[str | None, str | None, float | None]  # reply, value, probability


def vqascore_question(text: str) -> Question:
    """The question whose probability of "yes" is VQAScore (Lin et al. 2024, arXiv:2404.01291, Sec. 3)."""
    return Question(text=VQASCORE.format(text=text))


def asked_of(image: ShownImage) -> tuple[Asked, ...]:
    """The questions of a file about an image's prompt."""
    return tuple(Asked.of_spec(spec) for spec in image.prompt.spec.get("questions", ()))


def question_verdicts(images: Sequence[ShownImage], answers: pl.DataFrame, *, vqascore: bool) -> list[dict[str, Any]]:
    """Per question ``question_1``, ``question_2`` ..., their share ``questions`` by protocol, and ``vqascore``."""
    options: dict[tuple[str, str], Answer] = {}
    for row in answers.iter_rows(named=True):
        options[row["image_id"], row["question"]] = (row["answer"], row["value"], row["probability"])
    rows: list[dict[str, Any]] = []
    for image in images:
        asked = asked_of(image)
        for protocol in PROTOCOLS if asked else ():
            rows += _of_questions(image, protocol, asked, options)
        if vqascore:
            rows.append(_vqascore(image, options))
    return rows


def _of_questions(
    image: ShownImage, protocol: str, asked: Sequence[Asked], given: Mapping[tuple[str, str], Answer]
) -> list[dict[str, Any]]:
    results = {a.name: given.get((image.image_id, a.text)) for a in asked}
    subset = {a.name: None if image.problem else _right(a, results[a.name], protocol) for a in asked}
    parents = {a.name: a.parents for a in asked}
    values = question_values(subset, parents, dependence=DEPENDENCE[protocol])
    texts = {a.name: a.text for a in asked}
    rows = []
    for number, a in enumerate(asked, start=1):
        answer, value, own_value = results[a.name], values[a.name], subset[a.name]
        if image.problem:
            reason = image.problem
        elif answer is None or answer[0] is None:
            reason = f"{a.text} Not answered"
        else:
            reason = f"{a.text} {a.expected} expected, {_said(answer)}"
        if not image.problem and value != own_value:
            wrong = [p for p in a.parents if subset[p] is False or values[p] is False]
            blamed = wrong or [p for p in a.parents if subset[p] is None]
            counts = "wrong" if value is False else "unusable"
            reason += f"; counts as {counts}, as it depends on: {'; '.join(texts[p] for p in blamed)}"
        detail = {
            "question": a.text,
            "name": a.name,
            "expected": a.expected,
            "answer": None if answer is None else answer[0],
            "own": own_value,
            "category": a.category,
        }
        rows.append(verdict(image, protocol, f"question_{number}", _number(value), reason, detail))
    total = share_right(values.values())
    alone = share_right(subset.values())
    reason = image.problem or f"{sum(v is True for v in values.values())} of {total.n_used} right" + (
        f", {total.n_unusable} without usable answer" if total.n_unusable else ""
    )
    tally = {
        "n_used": total.n_used,
        "n_unusable": total.n_unusable,
        "own": alone.value if alone.n_used else None,
    }
    rows.append(verdict(image, protocol, "questions", total.value if total.n_used else None, reason, tally))
    return rows


def _right(asked: Asked, answer: Answer | None, protocol: str) -> bool | None:
    """Whether a question's own answer is right; None for no usable answer."""
    if answer is None or answer[0] is None:  # nobody asked or answered: no protocol makes that wrong
        return None
    reply, value, _ = answer
    if protocol == "released" and not asked.choices:
        return str(reply).strip().lower() == asked.expected
    if value is None:
        return None if protocol == "revised" else False
    return value == asked.expected


def _said(answer: Answer) -> str:
    reply, value, _ = answer
    return f"the judge answered {reply!r}" + ("" if value is not None else ", which is none of the answers")


def _number(value: bool | None) -> float | None:
    return None if value is None else float(value)


def _vqascore(image: ShownImage, given: Mapping[tuple[str, str], Answer]) -> dict[str, Any]:
    question = vqascore_question(image.prompt.text)
    answer = given.get((image.image_id, question.text))
    value = None
    if image.problem:
        reason = image.problem
    elif answer is None:
        reason = "not answered"
    elif answer[2] is None:
        reason = "the judge gives no probability"
    else:
        value = answer[2]
        reason = f"P(yes) = {value:.3f} to: {question.text}"
    return verdict(image, "revised", "vqascore", value, reason)


def question_scores(suite: str, verdicts: pl.DataFrame, images: Sequence[ShownImage], groups: Groups) -> list[Score]:
    """``question_score`` and, by category, ``question_accuracy``; with dependencies also without them; ``vqascore``."""
    scores: list[Score] = []
    dependent = any(a.parents for image in images for a in asked_of(image))
    for protocol in PROTOCOLS:
        owner = {
            row["image_id"]: row
            for row in verdicts.iter_rows(named=True)
            if row["protocol"] == protocol and row["rule"] == "questions"
        }
        own = _own_answers(verdicts, protocol)
        for group, chosen in groups if owner else ():
            rows = [owner[images[i].image_id] for i in chosen if images[i].image_id in owner]
            if not rows:
                continue
            ids = [row["prompt_id"] for row in rows]
            scores.append(mean_score(suite, "question_score", protocol, [r["value"] for r in rows], ids, group=group))
            if dependent:
                subset = [json.loads(row["detail"])["own"] for row in rows]
                scores.append(mean_score(suite, "question_score_alone", protocol, subset, ids, group=group))
            answered = [float(value is not None) for row in rows for value in own[row["image_id"]]]
            asked_ids = [row["prompt_id"] for row in rows for _ in own[row["image_id"]]]
            made = mean_score(suite, ANSWERED, protocol, answered, asked_ids, group=group, proportion=True)
            scores.append(replace(made, n_unusable=answered.count(0.0)))
        scores += _by_category(suite, protocol, verdicts)
    rows_of = {r["image_id"]: r for r in verdicts.iter_rows(named=True) if r["rule"] == "vqascore"}
    for group, chosen in groups if rows_of else ():
        rows = [rows_of[images[i].image_id] for i in chosen]
        ids = [row["prompt_id"] for row in rows]
        scores.append(mean_score(suite, "vqascore", "revised", [r["value"] for r in rows], ids, group=group))
    return scores


def _own_answers(verdicts: pl.DataFrame, protocol: str) -> dict[str, list[bool | None]]:
    """By image, whether the own answer to each of its questions is right; None for no usable answer."""
    found: dict[str, list[bool | None]] = {}
    for row in verdicts.iter_rows(named=True):
        if row["protocol"] == protocol and row["rule"].startswith("question_"):
            found.setdefault(row["image_id"], []).append(json.loads(row["detail"])["own"])
    return found


def _by_category(suite: str, protocol: str, verdicts: pl.DataFrame) -> list[Score]:
    """Share of right answers among the questions of each category, over all images."""
    values: dict[str, tuple[list[float | None], list[str]]] = {}
    for row in verdicts.iter_rows(named=True):
        if row["protocol"] == protocol and row["rule"].startswith("question_"):
            category = json.loads(row["detail"])["category"]
            if category is not None:
                numbers, ids = values.setdefault(category, ([], []))
                numbers.append(row["value"])
                ids.append(row["prompt_id"])
    return [
        mean_score(
            suite, "question_accuracy", protocol, *values[category], group={"category": category}, proportion=True
        )
        for category in sorted(values)
    ]
