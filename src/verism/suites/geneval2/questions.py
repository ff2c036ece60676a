"""The user's copy of GenEval 2, and what it asks: prompts with their questions, checked by their structure.

The data of GenEval 2 are under CC BY-NC 4.0. Nothing of them comes with this package: neither prompts nor questions.
They are read from the file that the user names, and told apart from an altered one by counts.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verism.errors import UsageError
from verism.files import parse_json, read_lines

__all__ = ["NUMBERS", "SKILLS", "STRUCTURE", "Asked", "read_asked", "strings_of", "structure_of", "structure_problem"]

SKILLS: tuple[str, ...] = ("object", "count", "attribute", "position", "verb")
NUMBERS: Mapping[str, str] = {
    "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7",
}  # fmt: skip
YES, NO = "yes", "no"
COLUMNS = "prompt, atom_count, vqa_list ([[question, answer], ...]) and skills"
SHA256_ENDS = ("09233adb", "8e928e43")  # of the released file: its first and last digits

# By number of atoms: questions of each skill, in the order of SKILLS; 100 prompts each.
STRUCTURE: Mapping[int, tuple[int, ...]] = {
    3: (142, 142, 77, 5, 1),
    4: (205, 205, 83, 42, 4),
    5: (225, 225, 115, 47, 9),
    6: (261, 261, 128, 85, 4),
    7: (292, 292, 142, 84, 12),
    8: (300, 300, 178, 107, 17),
    9: (300, 300, 227, 141, 15),
    10: (300, 300, 264, 151, 24),
}
PROMPTS_EACH = 100


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A prompt with its questions.

    Attributes:
        prompt: the text.
        atoms: number of things it asks for.
        questions: each question.
        answers: the right answer to each: ``Yes``, or a number word.
        skills: what each asks about, one of ``SKILLS``.
    """

    prompt: str
    atoms: int
    questions: tuple[str, ...]
    answers: tuple[str, ...]
    skills: tuple[str, ...]


def read_asked(path: Path) -> list[Asked]:
    """The prompts of a file.

    Args:
        path: JSON lines with the released fields.

    Raises:
        UsageError: no such file, or a line that does not fit; fields, counts and hash of the released file are named.
    """
    listed = []
    for number, line in enumerate(read_lines(path, "the prompts of GenEval 2"), start=1):
        where = f"{path}, line {number}"
        try:
            record = parse_json(line)
        except ValueError as err:
            raise refusal(where, f"no JSON ({str(err)[:200]})") from None
        listed.append(_asked(record, where))
    if not listed:
        raise refusal(str(path), "nothing in it")
    if repeated := [text for text, n in Counter(each.prompt for each in listed).items() if n > 1]:
        raise refusal(str(path), f"{len(repeated)} prompts are there more than once, {repeated[0]!r:.80} among them")
    return listed


def refusal(where: str, what: str) -> UsageError:
    """An error that says what the released file is like."""
    questions = sum(map(sum, STRUCTURE.values()))
    return UsageError(
        f"{where}: {what}. Expected the released file of GenEval 2: JSON lines with {COLUMNS}; "
        f"{len(STRUCTURE) * PROMPTS_EACH} prompts, {questions:,} questions, SHA-256 {SHA256_ENDS[0]}...{SHA256_ENDS[1]}"
    )


def _asked(record: Any, where: str) -> Asked:
    fields = ("prompt", "atom_count", "vqa_list", "skills")
    if not isinstance(record, dict) or not set(fields) <= set(record):
        there = ", ".join(map(str, record)) if isinstance(record, dict) else type(record).__name__
        raise refusal(where, f"it has {there[:200] or 'nothing'}")
    pairs, skills, atoms = record["vqa_list"], record["skills"], record["atom_count"]
    texts = isinstance(pairs, list) and all(
        isinstance(p, list) and len(p) == 2 and all(isinstance(text, str) for text in p) for p in pairs
    )
    if not texts or not pairs or not isinstance(skills, list) or len(skills) != len(pairs):
        raise refusal(where, "vqa_list is a list of [question, answer], and skills as long")
    if unknown := sorted({str(skill) for skill in skills} - set(SKILLS)):
        raise refusal(where, f"unknown skill {unknown[0]!r:.80}; there are {', '.join(SKILLS)}")
    if isinstance(atoms, bool) or not isinstance(atoms, int) or atoms < 1 or not isinstance(record["prompt"], str):
        raise refusal(where, f"atom_count is {atoms!r:.80}, not a number from 1, or the prompt is no text")
    for (question, answer), skill in zip(pairs, skills, strict=True):
        allowed = NUMBERS if skill == "count" else (YES,)
        if answer.strip().lower() not in allowed:
            raise refusal(where, f"the answer to {question!r:.200} is {answer!r:.80}, none of {', '.join(allowed)}")
    if len({question for question, _ in pairs}) < len(pairs):
        raise refusal(where, "a question is asked twice")
    return Asked(
        prompt=record["prompt"],
        atoms=atoms,
        questions=tuple(question for question, _ in pairs),
        answers=tuple(answer.strip() for _, answer in pairs),
        skills=tuple(skills),
    )


def structure_of(listed: Sequence[Asked]) -> dict[int, tuple[int, tuple[int, ...]]]:
    """By number of atoms: prompts, and questions of each skill in the order of ``SKILLS``."""
    found: dict[int, tuple[int, tuple[int, ...]]] = {}
    for atoms in sorted({each.atoms for each in listed}):
        of_atoms = [each for each in listed if each.atoms == atoms]
        counts = Counter(skill for each in of_atoms for skill in each.skills)
        found[atoms] = (len(of_atoms), tuple(counts[skill] for skill in SKILLS))
    return found


def _counted(part: tuple[int, Sequence[int]] | None) -> str:
    """Prompts of one number of atoms, and their questions by skill, in words."""
    if part is None:
        return "none"
    return f"{part[0]:,} prompts with {', '.join(map(str, part[1]))} questions by skill"


def structure_problem(listed: Sequence[Asked], path: Path | None = None) -> str:
    """How prompts differ from the released ones, in words; empty if they do not.

    Args:
        listed: the prompts.
        path: their file; its hash is looked at as well.
    """
    for each in listed:
        ones = sum(s == "count" and a.lower() == "one" for s, a in zip(each.skills, each.answers, strict=True))
        if len(each.questions) - ones != each.atoms:
            return (
                f"{each.prompt!r} has {len(each.questions)} questions, {ones} of which count one, and says atom_count "
                f"{each.atoms}; expected questions less those"
            )
    expected = {atoms: (PROMPTS_EACH, counts) for atoms, counts in STRUCTURE.items()}
    found = structure_of(listed)
    for atoms in sorted(set(expected) | set(found)):
        if found.get(atoms) != expected.get(atoms):
            return f"of {atoms} atoms it has {_counted(found.get(atoms))}, expected {_counted(expected.get(atoms))}"
    if path is not None:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if not (digest.startswith(SHA256_ENDS[0]) and digest.endswith(SHA256_ENDS[1])):
            return f"its counts are right and its SHA-256 is {digest[:8]}...{digest[-8:]}"
    return ""


def strings_of(answer: str) -> tuple[str, ...]:
    """The strings that the released code takes for an answer: of each the first token counts.

    Args:
        answer: ``yes``, ``no`` or a number word, in any case.

    >>> strings_of("Two")
    ('two', 'Two', ' two', ' Two', '2', ' 2')
    """
    word = answer.lower()
    spelled = (word, word.capitalize(), f" {word}", f" {word.capitalize()}")
    if word in NUMBERS:
        return (*spelled, NUMBERS[word], f" {NUMBERS[word]}")
    return spelled
