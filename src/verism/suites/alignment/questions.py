"""Files of questions about the images of prompts, in the forms of TIFA, DSG and EvalGIM.

====================  ==================================================================================================
TIFA                  one row per question: ``id``, ``caption``, ``question``, ``choices``, ``answer``, ``element_type``
DSG, DPG-Bench        one row per question: ``item_id`` (or ``id``), ``text``, ``proposition_id``, ``dependency``,
                      ``category_broad`` (or ``category``), ``question_natural_language`` (or ``question``); all are to
                      be answered yes
EvalGIM               one row per prompt: ``prompt``, and the lists ``dsg_questions``, ``dsg_children``, ``dsg_parents``
====================  ==================================================================================================

As CSV, as a JSON list, or as JSON lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from verism.errors import UsageError
from verism.files import Row, read_rows
from verism.metrics.questions import check_parents
from verism.records import Question
from verism.suites.prompt_lists import ListedPrompt, text_list

__all__ = ["Asked", "QuestionSet", "match_questions", "prompts_of_questions", "read_questions"]

YES_NO = frozenset({"yes", "no"})
EXPECTED = (
    "expected rows with `question`, `choices`, `answer` (TIFA), with `proposition_id`, `dependency` and `question` or "
    "`question_natural_language` (DSG), or with `prompt` and `dsg_questions` (EvalGIM)"
)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A question about an image, and what it is to be answered.

    Attributes:
        name: unique among the questions of its prompt.
        text: the question, as the judge is asked it.
        expected: the right answer.
        choices: the answers to choose from; empty for a yes-or-no question.
        category: what it is about (object, colour, count ...), None if the file does not say.
        parents: names of the questions it depends on.
    """

    name: str
    text: str
    expected: str = "yes"
    choices: tuple[str, ...] = ()
    category: str | None = None
    parents: tuple[str, ...] = ()

    @property
    def question(self) -> Question:
        return Question(text=self.text, choices=self.choices)

    def spec(self) -> dict[str, Any]:
        """As a prompt keeps it; see ``of_spec``."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @staticmethod
    def of_spec(spec: Mapping[str, Any]) -> Asked:
        return Asked(**{**spec, "choices": tuple(spec["choices"]), "parents": tuple(spec["parents"])})


@dataclass(frozen=True, kw_only=True)
class QuestionSet:
    """The questions about one prompt. ``prompt_id`` is None where the file has no ids."""

    prompt_id: str | None
    text: str
    questions: tuple[Asked, ...]


def read_questions(path: Path) -> list[QuestionSet]:
    """The questions of a file, by prompt, in the file's order.

    Raises:
        UsageError: none of the known forms, a question without text, an answer that is no choice, a dependency on a
            question that is not there, one question with two sets of choices; the message names row and keys.
    """
    rows = read_rows(path, "questions about prompts")
    if len(rows) == 1 and len(rows[0]) == 1 and isinstance(listed := next(iter(rows[0].values())), list):
        # JSON that keeps its list below a single key.
        if not all(isinstance(row, dict) for row in listed):
            raise UsageError(f"{path}: {EXPECTED}; got {str(rows[0])[:80]}")
        rows = [Row(row, f"{path}, entry {number}") for number, row in enumerate(listed, start=1)]
    if not rows:
        raise UsageError(f"{path}: no questions in it; {EXPECTED}")
    if "dsg_questions" in rows[0]:
        sets = [_of_prompt(row, row.where) for row in rows]
        sets = list(dict.fromkeys(sets))  # EvalGIM lists images: a prompt comes once for each of them
    else:
        sets = _grouped(rows)
    texts: dict[str, str] = {}
    for one in sets:
        if one.prompt_id is not None and texts.setdefault(one.prompt_id, one.text) != one.text:
            raise UsageError(
                f"{path}: the id {one.prompt_id!r} stands for {texts[one.prompt_id]!r} and for {one.text!r}; ids must "
                "be unique"
            )
        where = f"{path}: the questions about {one.text!r}"
        names = [asked.name for asked in one.questions]
        if len(set(names)) < len(names):
            double = next(name for name in names if names.count(name) > 1)
            raise UsageError(f"{where}: the id {double!r} is used twice; give every question its own")
        try:
            check_parents(names, {asked.name: asked.parents for asked in one.questions if asked.parents})
        except ValueError as err:
            raise UsageError(f"{where}: {err}; correct `dependency`, 0 stands for none") from err
        choices: dict[str, tuple[str, ...]] = {}
        for asked in one.questions:
            if choices.setdefault(asked.text, asked.choices) != asked.choices:
                raise UsageError(f"{where}: {asked.text!r} is asked twice with different choices; ask it once")
    return sets


def _first(row: Mapping[str, Any], *names: str) -> Any:
    return next((row[name] for name in names if row.get(name) not in (None, "")), None)


def _grouped(rows: Sequence[Row]) -> list[QuestionSet]:
    """Rows of one question each, put together by prompt."""
    ids: dict[str, str | None] = {}
    texts: dict[str, str] = {}
    questions: dict[str, list[Asked]] = {}
    for row in rows:
        where = row.where
        prompt_id, text = _first(row, "item_id", "id", "prompt_id"), _first(row, "caption", "text", "prompt")
        if text is None:
            raise UsageError(f"{where}: no `caption` or `text` to say whose question it is; {EXPECTED}")
        text = str(text).strip()
        key = text if prompt_id is None else str(prompt_id)
        if texts.setdefault(key, text) != text:
            raise UsageError(f"{where}: the id {key!r} stands for {texts[key]!r} above and for {text!r} here")
        ids[key] = None if prompt_id is None else str(prompt_id)
        its = questions.setdefault(key, [])
        its.append(_asked(row, where, len(its) + 1))
    return [QuestionSet(prompt_id=ids[k], text=texts[k], questions=tuple(questions[k])) for k in questions]


def _asked(row: Mapping[str, Any], where: str, number: int) -> Asked:
    text = _first(row, "question_natural_language", "question")
    if text is None:
        raise UsageError(f"{where}: no question; {EXPECTED}, got columns {list(map(str, row))}")
    value = _first(row, "choices")
    choices = () if value is None else text_list(value, f"{where}: `choices`")
    expected = str(_first(row, "answer") or "yes").strip()
    if {choice.lower() for choice in choices} <= YES_NO:
        choices, expected = (), expected.lower()
    allowed = choices or ("yes", "no")
    if expected not in allowed:
        raise UsageError(
            f"{where}: the answer {expected!r} is none of the choices {list(allowed)}; add it to `choices`"
        )
    category = _first(row, "element_type", "category_broad", "category")
    name = _first(row, "proposition_id", "question_id")
    return Asked(
        name=str(number if name is None else name),
        text=str(text).strip(),
        expected=expected,
        choices=choices,
        category=None if category is None else str(category).strip(),
        parents=_parents(row.get("dependency"), f"{where}: `dependency`"),
    )


def _parents(value: Any, where: str) -> tuple[str, ...]:
    """Names of parents, from ``0`` or nothing (none), ``1``, ``1,2`` or a list."""
    parts = value if isinstance(value, list) else str("" if value is None else value).split(",")
    if not all(isinstance(part, str | int) for part in parts):
        raise UsageError(f"{where}: expected numbers such as 1,2 or 0 for none; got {str(value)[:60]!r}")
    names = [str(part).strip() for part in parts]
    return tuple(dict.fromkeys(name for name in names if name not in ("", "0", "-")))


def _of_prompt(row: Mapping[str, Any], where: str) -> QuestionSet:
    """A row that holds all questions about its prompt, as EvalGIM keeps them."""
    text = _first(row, "prompt", "caption", "text")
    questions = row.get("dsg_questions")
    if text is None or not isinstance(questions, list) or not questions:
        raise UsageError(f"{where}: expected `prompt` and a list `dsg_questions`; got {list(map(str, row))}")
    children = row.get("dsg_children") or list(range(1, len(questions) + 1))
    parents = row.get("dsg_parents") or [0] * len(questions)
    if not isinstance(children, list) or not isinstance(parents, list) or len(children) != len(parents):
        raise UsageError(f"{where}: `dsg_children` and `dsg_parents` must be lists of one length")
    owner = {str(c): _parents(p, f"{where}: `dsg_parents`") for c, p in zip(children, parents, strict=True)}
    names = [str(number) for number in range(1, len(questions) + 1)]
    if unknown := sorted(set(owner) - set(names)):
        raise UsageError(
            f"{where}: `dsg_children` names question {unknown[0]}; questions are numbered 1 to {len(questions)}"
        )
    prompt_id = _first(row, "item_id", "prompt_id", "id")
    return QuestionSet(
        prompt_id=None if prompt_id is None else str(prompt_id),
        text=str(text).strip(),
        questions=tuple(
            Asked(name=name, text=str(question).strip(), parents=owner.get(name, ()))
            for name, question in zip(names, questions, strict=True)
        ),
    )


def prompts_of_questions(sets: Sequence[QuestionSet]) -> list[ListedPrompt]:
    """The prompts a file of questions is about, for runs that have no other list."""
    return [
        ListedPrompt(
            prompt_id=f"{number:05d}" if one.prompt_id is None else one.prompt_id,
            text=one.text,
            numbered=one.prompt_id is None,
        )
        for number, one in enumerate(sets)
    ]


def match_questions(
    prompts: Sequence[ListedPrompt], sets: Sequence[QuestionSet], *, source: Path
) -> dict[str, tuple[Asked, ...]]:
    """Questions by prompt id: those of the same id and text, else those of the same text.

    Raises:
        UsageError: no prompt has questions, or two sets of different questions have the same text and no prompt's id.
    """
    by_both = {(one.prompt_id, one.text): one for one in sets}
    by_text: dict[str, QuestionSet | None] = {}
    for one in sets:
        other = by_text.setdefault(one.text, one)
        if other is not None and other.questions != one.questions:
            by_text[one.text] = None
    matched = {}
    for prompt in prompts:
        result = by_both.get((prompt.prompt_id, prompt.text))
        if result is None and prompt.text in by_text:
            result = by_text[prompt.text]
            if result is None:
                raise UsageError(
                    f"{source} has several sets of questions about {prompt.text!r}, and none of the id "
                    f"{prompt.prompt_id!r}; give the prompts the ids of that file"
                )
        if result is not None:
            matched[prompt.prompt_id] = result.questions
    if not matched:
        example = prompts[0].text if prompts else ""
        raise UsageError(
            f"{source} has no questions about any of the {len(prompts)} prompts, such as {example!r}; the texts must "
            f"be the same, but it asks about {sets[0].text!r} and others"
        )
    return matched
