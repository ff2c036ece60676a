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
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from verism.metrics.questions import Dependence, question_values, share_right
from verism.records import PROTOCOLS, Question, Score
from verism.suites.alignment.image_groups import Groups, Listed, by_image, mean_score, share_score, verdict
from verism.suites.alignment.metrics import ANSWERED
from verism.suites.alignment.questions import Asked
from verism.suites.verdict_table import ShownImage

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "QuestionTally",
    "asked_of",
    "question_scores",
    "question_tally",
    "question_verdicts",
    "vqascore_question",
]

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


class AnswerTally(NamedTuple):
    """What the scores of questions rest on under a protocol, of N images.

    Attributes:
        asked: whether there are questions about the image, shape (N,).
        values: share of right answers of each image, NaN for none, shape (N,).
        alone: the same without dependencies, shape (N,).
        n_asked: questions about each image, shape (N,).
        n_answered: those of them with a usable answer, shape (N,).
        categories: by category, of each prompt by number: right answers, usable answers, others.
    """

    asked: NDArray[np.bool_]
    values: NDArray[np.float64]
    alone: NDArray[np.float64]
    n_asked: NDArray[np.float64]
    n_answered: NDArray[np.float64]
    categories: Mapping[str, Mapping[int, Sequence[int]]]


class QuestionTally(NamedTuple):
    """What the scores of questions rest on.

    Attributes:
        dependent: whether some questions depend on others.
        answers: by protocol.
        vqascore: of each image, NaN for none, shape (N,); None where its question was not asked.
    """

    dependent: bool
    answers: Mapping[str, AnswerTally]
    vqascore: NDArray[np.float64] | None


def question_tally(
    images: Sequence[ShownImage], listed: Listed, verdicts: pl.DataFrame, *, vqascore: bool
) -> QuestionTally:
    """What the scores of some images rest on.

    Args:
        images: some of a run, or all.
        listed: the same.
        verdicts: about them.
        vqascore: whether VQAScore's question was asked.
    """
    asked = {image.prompt.prompt_id: asked_of(image) for image in images}
    return QuestionTally(
        dependent=any(a.parents for several in asked.values() for a in several),
        answers={protocol: _answer_tally(images, listed, verdicts, protocol) for protocol in PROTOCOLS},
        vqascore=by_image(images, verdicts, "revised", "vqascore") if vqascore else None,
    )


def _answer_tally(images: Sequence[ShownImage], listed: Listed, verdicts: pl.DataFrame, protocol: str) -> AnswerTally:
    values = by_image(images, verdicts, protocol, "questions")
    index_of = {image.image_id: number for number, image in enumerate(images)}
    n = len(images)
    asked, alone, n_asked, n_answered = np.zeros(n, bool), np.full(n, np.nan), np.zeros(n), np.zeros(n)
    categories: dict[str, dict[int, list[int]]] = {}
    of_questions = verdicts.filter((verdicts["protocol"] == protocol) & verdicts["rule"].str.starts_with("question"))
    for image_id, rule, value, text in of_questions.select("image_id", "rule", "value", "detail").iter_rows():
        at, detail = index_of[image_id], json.loads(text)
        if rule == "questions":
            asked[at] = True
            alone[at] = math.nan if detail["own"] is None else detail["own"]
            continue
        n_asked[at] += 1
        n_answered[at] += detail["own"] is not None
        if detail["category"] is not None:
            of_category = categories.setdefault(detail["category"], {})
            counts = of_category.setdefault(int(listed.number[at]), [0, 0, 0])
            counts[0] += value == 1.0
            counts[1 if value is not None else 2] += 1
    return AnswerTally(asked, values, alone, n_asked, n_answered, categories)


def question_scores(suite: str, listed: Listed, tallies: Sequence[QuestionTally], groups: Groups) -> list[Score]:
    """``question_score`` and, by category, ``question_accuracy``; with dependencies also without them; ``vqascore``.

    Args:
        suite: its name.
        listed: the images.
        tallies: of all parts of them, one at least.
        groups: of the images.
    """
    clusters = listed.clusters()
    scores: list[Score] = []
    dependent = any(tally.dependent for tally in tallies)
    for protocol in PROTOCOLS:
        of_parts = [tally.answers[protocol] for tally in tallies]
        asked = np.concatenate([part.asked for part in of_parts])
        values, alone, n_asked, n_answered = (np.concatenate([part[n] for part in of_parts]) for n in range(1, 5))
        for group, members in groups:
            chosen = members[asked[members]]
            if not len(chosen):
                continue
            of = clusters[chosen]
            scores.append(mean_score(suite, "question_score", protocol, values[chosen], of, group=group))
            if dependent:
                scores.append(mean_score(suite, "question_score_alone", protocol, alone[chosen], of, group=group))
            answered, every = n_answered[chosen], n_asked[chosen]
            missing = int(every.sum() - answered.sum())
            scores.append(share_score(suite, ANSWERED, protocol, answered, every, of, n_unusable=missing, group=group))
        scores += _by_category(suite, protocol, listed, of_parts)
    of_parts_vqascore = [tally.vqascore for tally in tallies if tally.vqascore is not None]
    if of_parts_vqascore:
        vqascore = np.concatenate(of_parts_vqascore)
        for group, chosen in groups:
            scores.append(mean_score(suite, "vqascore", "revised", vqascore[chosen], clusters[chosen], group=group))
    return scores


def _by_category(suite: str, protocol: str, listed: Listed, tallies: Sequence[AnswerTally]) -> list[Score]:
    """Share of right answers among the questions of each category, over all images."""
    counts: dict[str, list[tuple[int, ...]]] = {}
    for tally in tallies:
        for category, of_prompts in tally.categories.items():
            counts.setdefault(category, []).extend((number, *several) for number, several in of_prompts.items())
    scores = []
    for category in sorted(counts):
        number, right, used, unusable = np.array(counts[category], dtype=np.intp).T
        scores.append(
            share_score(
                suite,
                "question_accuracy",
                protocol,
                right.astype(np.float64),
                used.astype(np.float64),
                Listed(prompts=listed.prompts, number=number).clusters(),
                n_unusable=int(unusable.sum()),
                group={"category": category},
            )
        )
    return scores
