"""The released files of TIFA v1.0: questions with choices, and images by caption id.

Nothing of them comes with verism.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from verism.errors import UsageError
from verism.files import read_json
from verism.records import UserImage
from verism.suites.questions.asked import AskedPrompt, AskedQuestion

__all__ = ["ELEMENT_TYPES", "EXPECTED", "alterations", "read_image_map", "read_questions"]

N_CAPTIONS = 4081
ELEMENT_TYPES = (
    "object", "animal/human", "attribute", "activity", "spatial", "location", "color", "counting", "food", "material",
    "shape", "other",
)  # fmt: skip
FIELDS = ("id", "caption", "question", "choices", "answer", "element_type")
EXPECTED = (
    "the released tifa_v1.0_question_answers.json: a list of {id, caption, question, choices, answer, element_type, "
    f"element}}; {N_CAPTIONS:,} captions, about 25,000 questions of 12 types"
)


def read_questions(path: Path) -> tuple[AskedPrompt, ...]:
    """The captions with their questions, in order of their first question.

    Args:
        path: the user's copy, JSON.

    Raises:
        UsageError: no such file, a field that is missing, an answer that is no choice, one id of two captions, or one
            question with two sets of choices.
    """
    records = read_json(path, EXPECTED)
    if not isinstance(records, list) or not records:
        raise UsageError(f"{path}: no list of questions. Expected {EXPECTED}")
    captions: dict[str, str] = {}
    asked: dict[str, list[AskedQuestion]] = {}
    for number, record in enumerate(records, start=1):
        where = f"{path}, entry {number}"
        prompt_id, caption, question = _question(record, where)
        if captions.setdefault(prompt_id, caption) != caption:
            raise UsageError(f"{where}: the id {prompt_id} is of {captions[prompt_id]!r:.80} and of {caption!r:.80}")
        its = asked.setdefault(prompt_id, [])
        same = next((q for q in its if q.text == question.text), None)
        if same is not None and same.choices != question.choices:
            raise UsageError(f"{where}: {question.text!r:.80} is asked twice with other choices")
        its.append(
            AskedQuestion(
                name=str(len(its) + 1),
                text=question.text,
                expected=question.expected,
                choices=question.choices,
                groups=question.groups,
            )
        )
    return tuple(
        AskedPrompt(
            prompt_id=prompt_id,
            text=captions[prompt_id],
            questions=tuple(its),
            facets={"prompt_source": source_of(prompt_id)},
        )
        for prompt_id, its in asked.items()
    )


def _question(record: Any, where: str) -> tuple[str, str, AskedQuestion]:
    if not isinstance(record, dict) or (missing := [name for name in FIELDS if name not in record]):
        there = ", ".join(map(str, record)) if isinstance(record, dict) else type(record).__name__
        what = f"no {missing[0]}; " if isinstance(record, dict) else ""
        raise UsageError(f"{where}: {what}it has {there[:200]}. Expected {EXPECTED}")
    texts = [record[name] for name in ("caption", "question", "answer", "element_type")]
    if not all(isinstance(text, str) and text.strip() for text in texts):
        raise UsageError(f"{where}: caption, question, answer and element_type are texts. Expected {EXPECTED}")
    choices = record["choices"]
    if not isinstance(choices, list) or not choices or not all(isinstance(choice, str) for choice in choices):
        raise UsageError(f"{where}: choices is a list of texts, got {choices!r:.80}")
    if not isinstance(record["id"], str | int) or isinstance(record["id"], bool):
        raise UsageError(f"{where}: id is a text or a number, got {record['id']!r:.80}")
    caption, question, answer, kind = (text.strip() for text in texts)
    allowed = tuple(dict.fromkeys(choice.strip() for choice in choices))
    if answer not in allowed:
        raise UsageError(f"{where}: the answer {answer!r:.80} is none of the choices {', '.join(allowed)}")
    made = AskedQuestion(name="", text=question, expected=answer, choices=allowed, groups={"category": kind})
    return str(record["id"]), caption, made


def source_of(prompt_id: str) -> str:
    """The set a caption comes from, by the beginning of its id.

    >>> source_of("coco_397194"), source_of("17")
    ('coco', 'numbered')
    """
    return re.split(r"[\d_]", prompt_id)[0] or "numbered"


def alterations(prompts: Sequence[AskedPrompt]) -> str:
    """How a file differs from the released one, in words; empty if it does not as far as is known.

    Args:
        prompts: of the file.
    """
    if len(prompts) != N_CAPTIONS:
        return f"{len(prompts):,} captions, expected {N_CAPTIONS:,}"
    kinds = Counter(q.groups["category"] for p in prompts for q in p.questions)
    if unknown := sorted(set(kinds) - set(ELEMENT_TYPES)):
        return f"questions of the type {unknown[0]!r:.80}, expected {', '.join(ELEMENT_TYPES)}"
    return ""


def read_image_map(path: Path, prompts: Sequence[AskedPrompt]) -> list[UserImage]:
    """Images of a JSON object of path by caption id, as the released code takes them.

    Args:
        path: the file; relative paths count from its folder.
        prompts: whose images are wanted; others are left out.

    Raises:
        UsageError: no such object.
    """
    record: Any = read_json(path, "images by caption id")
    if not isinstance(record, Mapping) or not all(isinstance(value, str) for value in record.values()):
        raise UsageError(f"{path}: expected a JSON object of image path by caption id")
    wanted = {p.prompt_id for p in prompts}
    return [
        UserImage(prompt_id=str(key), index=0, path=str((path.parent / file).absolute()))
        for key, file in record.items()
        if str(key) in wanted
    ]
