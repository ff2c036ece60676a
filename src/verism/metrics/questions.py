"""Scores of images by questions about them: TIFA, and DSG with its dependencies between questions.

A prompt is turned into questions beforehand ("is there a dog?", "is the dog brown?"); a model answers them from the
image, and the image's score is the share of right answers. All functions are pure; questions have ids of any kind.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeVar

__all__ = [
    "Dependence",
    "QuestionScore",
    "check_parents",
    "dsg_score",
    "gated_values",
    "question_values",
    "share_right",
    "tifa_score",
]

Dependence = Literal["none", "parents", "cascade"]

Id = TypeVar("Id", bound=Hashable)


class QuestionScore(NamedTuple):
    """The share of right answers of one image; NaN if no question has a usable answer.

    Attributes:
        value: in [0, 1].
        n_used: questions that entered the value.
        n_unusable: those without a usable answer.
    """

    value: float
    n_used: int
    n_unusable: int


def check_parents(questions: Iterable[Id], parents: Mapping[Id, Sequence[Id]]) -> None:
    """Check that dependencies name questions that exist, and that no question depends on itself, however far.

    Raises:
        ValueError: an unknown question, or a circle; the message names it.
    """
    known = set(questions)
    for child, its in parents.items():
        for name in (child, *its):
            if name not in known:
                raise ValueError(f"question {child!r} depends on {list(its)!r}, but there is no question {name!r}")
    done: set[Id] = set()
    for start in parents:
        # Depth first, without recursion: generated files may hold long chains.
        path: list[Id] = []
        stack: list[tuple[Id, bool]] = [(start, False)]
        while stack:
            node, leave = stack.pop()
            if leave:
                path.pop()
                done.add(node)
                continue
            if node in path:
                raise ValueError(f"question {node!r} depends on itself: {' -> '.join(map(repr, [*path, node]))}")
            if node in done:
                continue
            path.append(node)
            stack.append((node, True))
            stack += [(parent, False) for parent in parents.get(node, ())]


def question_values(
    right: Mapping[Id, bool | None],
    parents: Mapping[Id, Sequence[Id]] | None = None,
    *,
    dependence: Dependence = "parents",
) -> dict[Id, bool | None]:
    """What each question counts, once the questions it depends on are looked at.

    Whether the dog is brown makes no sense where there is no dog: a question counts as right only if the questions it
    depends on were answered right as well. An unusable answer (None) is neither right nor wrong: a question counts
    as wrong as soon as its own answer or one it depends on is wrong, and as unusable if that hangs on an unusable one.

    Args:
        right: per question, whether its own answer is right; None if there is no usable answer. In the file's order.
        parents: the questions that a question depends on; those that are not named depend on none.
        dependence: ``parents``: a child is judged by its parents' own answers, as the DSG reference code does, so what
            became of its grandparents does not matter. ``cascade``: questions are gone through in order, and one that
            was counted wrong for its parent's sake makes its own children wrong, as EvalGIM does; a child listed before
            its parent sees the parent's own answer. ``none``: every question for itself (TIFA).

    Returns:
        By question, in the order of ``right``: True, False or None.

    Raises:
        ValueError: a dependency names an unknown question, or itself.

    Source: Cho et al. 2024, Davidsonian Scene Graph, arXiv:2310.18235, Sec. 3; Hall et al. 2024, EvalGIM.
        We differ: there, an answer that cannot be read is a wrong one; pass False for None to have it so.
    """
    parents = {} if parents is None or dependence == "none" else parents
    check_parents(right, parents)
    own = {question: None if value is None else float(value) for question, value in right.items()}
    values = gated_values(own, parents, dependence=dependence)
    return {question: None if value is None else value == 1 for question, value in values.items()}


def gated_values(
    own: Mapping[Id, float | None],
    parents: Mapping[Id, Sequence[Id]],
    *,
    dependence: Dependence,
    passed: float = 0.5,
) -> dict[Id, float | None]:
    """The same as ``question_values`` for answers that are right by degrees, such as probabilities of yes.

    A question counts nothing where a question it depends on did not pass. Circles are allowed, as released files have
    them: a question that depends on itself is judged by its own answer, and ``cascade`` goes through the questions in
    order, so that one seen early is not touched by what becomes of later ones.

    Args:
        own: per question, in [0, 1] how far its own answer is right; None if there is no usable answer. In the file's
            order.
        parents: the questions that a question depends on, as in ``question_values``.
        dependence: as in ``question_values``.
        passed: a question passes if it is more right than this, in [0, 1).

    Returns:
        By question, in the order of ``own``: its own value; 0 where it or a question it depends on is wrong; None where
        that hangs on an unusable answer.

    Raises:
        ValueError: a dependency names an unknown question.

    >>> gated_values({1: 0.4, 2: 0.9, 3: 0.8}, {2: [1], 3: [2]}, dependence="parents")
    {1: 0.4, 2: 0.0, 3: 0.8}
    """
    values = dict(own)
    if dependence == "none":
        return values
    seen: Mapping[Id, float | None] = values if dependence == "cascade" else own
    for question in own:
        terms = []
        for parent in parents.get(question, ()):
            if parent not in own:
                raise ValueError(f"question {question!r} depends on {parent!r}, and there is no such question")
            # Whatever is decided of a parent whose own answer is wrong, it does not pass.
            terms += [seen[parent], own[parent]]
        if not terms:
            continue
        if values[question] == 0 or any(term is not None and term <= passed for term in terms):
            values[question] = 0.0
        elif any(term is None for term in terms):
            values[question] = None
    return values


def share_right(values: Iterable[bool | None]) -> QuestionScore:
    """The share of True among those that are not None.

    >>> share_right([True, False, None, True])
    QuestionScore(value=0.666..., n_used=3, n_unusable=1)
    """
    listed = list(values)
    used = [value for value in listed if value is not None]
    return QuestionScore(sum(used) / len(used) if used else math.nan, len(used), len(listed) - len(used))


def dsg_score(
    answers: Mapping[Id, str | None],
    parents: Mapping[Id, Sequence[Id]] | None = None,
    *,
    dependence: Dependence = "parents",
) -> QuestionScore:
    """Score of one image by yes/no questions that are all to be answered yes.

    Args:
        answers: per question ``yes``, ``no``, or None where the reply is neither.
        parents: see ``question_values``.
        dependence: see ``question_values``.

    Raises:
        ValueError: an answer that is none of these three, or dependencies that do not fit.

    Source: Cho et al. 2024, arXiv:2310.18235, Sec. 3.

    >>> dsg_score({1: "no", 2: "yes", 3: "yes"}, {2: [1], 3: [2]})
    QuestionScore(value=0.333..., n_used=3, n_unusable=0)
    """
    for question, answer in answers.items():
        if answer not in ("yes", "no", None):
            raise ValueError(f"question {question!r}: the answer must be 'yes', 'no' or None; got {answer!r}")
    right = {question: None if answer is None else answer == "yes" for question, answer in answers.items()}
    return share_right(question_values(right, parents, dependence=dependence).values())


def tifa_score(answers: Mapping[Id, str | None], expected: Mapping[Id, str]) -> QuestionScore:
    """Score of one image by questions with choices: the share answered as expected.

    Args:
        answers: per question the choice taken, None where the reply is none of the choices.
        expected: per question the right choice; the same questions.

    Raises:
        ValueError: answers and expectations are not of the same questions.

    Source: Hu et al. 2023, TIFA, arXiv:2303.11897, Eq. 1. We differ: there, a reply is forced to the nearest choice.

    >>> tifa_score({"a": "red", "b": "two", "c": None}, {"a": "red", "b": "three", "c": "yes"})
    QuestionScore(value=0.5, n_used=2, n_unusable=1)
    """
    if set(answers) != set(expected):
        only = sorted(map(repr, set(answers) ^ set(expected)))
        raise ValueError(f"every question needs an answer and an expectation; only one is known of {', '.join(only)}")
    return share_right(None if answer is None else answer == expected[q] for q, answer in answers.items())
