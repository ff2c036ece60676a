"""The released files of WISE in both editions, and how a judge is asked. They have no licence and are the user's."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from verism.errors import UsageError
from verism.files import read_json, read_text
from verism.suites.questions.asked import AskedPrompt, AskedQuestion

__all__ = [
    "CATEGORIES",
    "EXPECTED",
    "LEVELS",
    "Edition",
    "Wording",
    "alterations",
    "category_of",
    "edition_of",
    "our_wording",
    "read_prompts",
    "read_wording",
]

Edition = Literal["verified", "legacy"]
N_PROMPTS = 1000
# First and last id of each category, by edition: ids are the same in both, and stand for other prompts.
CATEGORIES: Mapping[Edition, Mapping[str, tuple[int, int]]] = {
    "verified": {
        "culture": (1, 400), "time": (401, 520), "space": (521, 640), "biology": (641, 760), "physics": (761, 880),
        "chemistry": (881, 1000),
    },
    "legacy": {
        "culture": (1, 400), "time": (401, 567), "space": (568, 700), "biology": (701, 800), "physics": (801, 900),
        "chemistry": (901, 1000),
    },
}  # fmt: skip
# The three scores of the legacy edition with their weights; each is 0, 1 or 2.
LEVELS: Mapping[str, float] = {"consistency": 0.7, "realism": 0.2, "aesthetic_quality": 0.1}
EXPECTED = (
    "the released JSON file or a folder with the released ones: lists of {prompt_id, Prompt, Explanation}; "
    f"{N_PROMPTS:,} prompts in all, names ending in _verified for the verified edition"
)
OURS: Mapping[Edition, str] = {
    "verified": (
        "The image was made for this text: {prompt}\n"
        "What the text means: {explanation}\n"
        "Does the image show what the text means? Judge only what can be seen. It has to be shown right and "
        "in full; words of the text that appear in the image as writing do not count, nor does beauty. Where you are "
        "in doubt the answer is 0.\n"
        "Say in a few sentences what you see. Then write a last line that is exactly `Score: 1` or `Score: 0`."
    ),
    "legacy": (
        "The image was made for this text: {prompt}\n"
        "What the text means: {explanation}\n"
        "Give three scores, each 0, 1 or 2.\n"
        "Consistency: does the image show what the text means? 0: not at all; 1: in part; 2: in full.\n"
        "Realism: could what is shown be so? 0: breaks the laws of the world or looks artificial; 1: with flaws; "
        "2: as real, or as its style would have it.\n"
        "Aesthetic Quality: how well is the image made? 0: poorly; 1: fairly; 2: very well.\n"
        "Reply with exactly three lines:\nConsistency: N\nRealism: N\nAesthetic Quality: N"
    ),
}


@dataclass(frozen=True)
class Wording:
    """How a judge is asked.

    Attributes:
        text: with ``{prompt}`` and ``{explanation}`` in it.
        source: ``ours``, or the name and the SHA-256 of the user's file.
    """

    text: str
    source: str


def our_wording(edition: Edition) -> Wording:
    """The words that verism asks in; published numbers come from other ones.

    Args:
        edition: of the prompts.
    """
    return Wording(OURS[edition], "ours")


def read_wording(path: Path) -> Wording:
    """The words of a file of the user, such as the released ones.

    Args:
        path: text with ``{prompt}`` and ``{explanation}`` in it.

    Raises:
        UsageError: no such file, or no place for the prompt.
    """
    text = read_text(path, "instructions with {prompt} and {explanation}").strip()
    if "{prompt}" not in text:
        raise UsageError(f"{path}: no {{prompt}} in it, where the prompt goes")
    return Wording(text, f"{path.name}@{hashlib.sha256(text.encode()).hexdigest()[:12]}")


def category_of(number: int, edition: Edition) -> str:
    """The category of an id.

    Args:
        number: the id, from 1.
        edition: of the prompts.

    >>> category_of(550, "legacy"), category_of(550, "verified")
    ('time', 'space')
    """
    return next((name for name, (first, last) in CATEGORIES[edition].items() if first <= number <= last), "other")


def edition_of(path: Path) -> Edition | None:
    """The edition that the names of files tell; None where they tell none.

    Args:
        path: a file, or a folder.
    """
    names = [path.name] if path.is_file() else [file.name for file in _files(path)]
    verified = [name for name in names if "verified" in name.lower()]
    if verified and len(verified) == len(names):
        return "verified"
    return None


def _files(path: Path) -> list[Path]:
    return [path] if not path.is_dir() else sorted(path.glob("*.json"))


def read_prompts(path: Path, edition: Edition, wording: Wording) -> tuple[list[AskedPrompt], str]:
    """The prompts of the user's copy, and the SHA-256 of its files.

    Args:
        path: a file, or a folder of files: of both editions there, only those of this one.
        edition: of the prompts.
        wording: how a judge is asked about them.

    Raises:
        UsageError: no such file, another format, or an id that is there twice.
    """
    files = _files(path)
    if path.is_dir():
        files = [file for file in files if ("verified" in file.name.lower()) == (edition == "verified")]
        if not files:
            raise UsageError(f"{path}: no JSON file of the {edition} edition. Expected {EXPECTED}")
    found: dict[int, AskedPrompt] = {}
    digest = hashlib.sha256()
    for file in files:
        records = read_json(file, EXPECTED)
        if not isinstance(records, list) or not records:
            raise UsageError(f"{file}: no list of prompts. Expected {EXPECTED}")
        digest.update(file.read_bytes())
        for number, record in enumerate(records, start=1):
            where = f"{file}, entry {number}"
            fields = {str(k).lower(): v for k, v in record.items()} if isinstance(record, dict) else {}
            key, text = fields.get("prompt_id", fields.get("id")), fields.get("prompt")
            explanation = fields.get("explanation", "")
            if isinstance(key, bool) or not isinstance(key, int | str) or not str(key).isdigit():
                raise UsageError(f"{where}: prompt_id is a whole number, got {key!r:.80}. Expected {EXPECTED}")
            if not isinstance(text, str) or not text.strip() or not isinstance(explanation, str):
                raise UsageError(f"{where}: Prompt and Explanation are texts. Expected {EXPECTED}")
            if int(key) in found:
                raise UsageError(f"{where}: the id {key} is there twice")
            found[int(key)] = _asked(int(key), text.strip(), explanation.strip(), fields, edition, wording)
    return [found[key] for key in sorted(found)], digest.hexdigest()


def _asked(
    number: int, text: str, explanation: str, fields: Mapping[str, Any], edition: Edition, wording: Wording
) -> AskedPrompt:
    kind = fields.get("subcategory")
    return asked_prompt(
        str(number),
        text,
        explanation,
        edition,
        wording,
        facets={
            "knowledge": category_of(number, edition),
            **({"subcategory": kind.strip()} if isinstance(kind, str) and kind.strip() else {}),
        },
    )


def asked_prompt(
    prompt_id: str, text: str, explanation: str, edition: Edition, wording: Wording, **more: Any
) -> AskedPrompt:
    """A prompt with its question, or with the three that one reply answers.

    Args:
        prompt_id: its id.
        text: the prompt.
        explanation: what it means.
        edition: of the prompts.
        wording: how a judge is asked.
        **more: further fields of ``AskedPrompt``; ``fact`` is the question's.
    """
    # Not str.format: a prompt may have braces of its own.
    asked = wording.text.replace("{explanation}", explanation).replace("{prompt}", text)
    question = AskedQuestion(name="score", text=asked, fact=more.pop("fact", None))
    questions: Sequence[AskedQuestion] = [question]
    if edition == "legacy":
        questions = [replace(question, name=name, weight=weight, highest=2) for name, weight in LEVELS.items()]
    return AskedPrompt(prompt_id=prompt_id, text=text, questions=tuple(questions), **more)


def alterations(prompts: Sequence[AskedPrompt], edition: Edition) -> str:
    """How prompts differ from the released ones in number, in words; empty if they do not.

    Args:
        prompts: of the user's copy.
        edition: that they are meant to be.
    """
    counted = Counter(p.facets["knowledge"] for p in prompts)
    for name, (first, last) in CATEGORIES[edition].items():
        if counted[name] != last - first + 1:
            return f"{counted[name]} prompts of {name} (ids {first} to {last}), expected {last - first + 1}"
    return f"{counted['other']} prompts with ids above {N_PROMPTS:,}" if counted["other"] else ""
