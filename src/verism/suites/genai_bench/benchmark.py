"""The released files of GenAI-Bench: prompts with people's ratings, and skills. Nothing of them comes with verism."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verism.errors import UsageError
from verism.files import read_json
from verism.suites.questions.asked import AskedPrompt, AskedQuestion
from verism.suites.questions.switches import YES_NO_SPELLINGS

__all__ = [
    "EXPECTED",
    "EXPECTED_SKILLS",
    "LEVELS",
    "MODELS",
    "SKILLS",
    "WORDINGS",
    "GenAIFile",
    "Wording",
    "alterations",
    "asked_prompt",
    "level_of",
    "rating_list",
    "read_prompts",
    "read_skills",
    "skill_alterations",
]

N_PROMPTS = 1600
# Models by their keys in the file.
MODELS: Mapping[str, str] = {
    "DALLE_3": "DALL-E 3",
    "SDXL_Turbo": "SD-XL Turbo",
    "DeepFloyd_I_XL_v1": "DeepFloyd-IF",
    "Midjourney_6": "Midjourney v6",
    "SDXL_2_1": "SD v2.1",
    "SDXL_Base": "SD-XL",
}
# Prompts of each skill in the released file, by level. A prompt has several skills, all of one level.
SKILLS: Mapping[str, Mapping[str, int]] = {
    "basic": {"attribute": 553, "scene": 360, "spatial relation": 386, "action relation": 467, "part relation": 195},
    "advanced": {"counting": 340, "differentiation": 296, "comparison": 162, "negation": 347, "universal": 147},
}
LEVELS = ("basic", "advanced", "untagged")
UNTAGGED = (719, 721, 730, 733, 739, 743, 951)
EXPECTED = (
    'the released genai_image.json: {"00000": {"id", "prompt", "models": {MODEL: [rating, rating, rating]}}, ...}; '
    f"{N_PROMPTS:,} prompts"
)
EXPECTED_SKILLS = "the released genai_skills.json: {SKILL: [number of a prompt, ...]}"


@dataclass(frozen=True)
class Wording:
    """How a family of judges was asked in the released code.

    Attributes:
        question: with ``{}`` where the prompt goes.
        answer: the spelling whose probability counts.
    """

    question: str
    answer: str


# By family of judges.
WORDINGS: Mapping[str, Wording] = {
    "vlm": Wording('Does this figure show "{}"? Please answer Yes or No.', "Yes"),
    "clip-flant5": Wording('Does this figure show "{}"? Please answer yes or no.', "Yes"),
    "llava": Wording('Does this figure show "{}"? Please answer yes or no.', "Yes"),
    "instructblip": Wording('Question: Does this figure show "{}"? Please answer yes or no.', "yes"),
}


@dataclass(frozen=True)
class GenAIFile:
    """The user's copy of the released file.

    Attributes:
        prompts: texts by id, in the file's order.
        ratings: by model key, then id: the ratings of its image as they stand.
        digest: SHA-256 of the file.
    """

    prompts: Mapping[str, str]
    ratings: Mapping[str, Mapping[str, tuple[float, ...]]]
    digest: str


def read_prompts(path: Path) -> GenAIFile:
    """Prompts and ratings of the user's copy.

    Args:
        path: JSON.

    Raises:
        UsageError: no such file, or another format.
    """
    records = read_json(path, EXPECTED)
    if not isinstance(records, dict) or not records:
        raise UsageError(f"{path}: no object of prompts by id. Expected {EXPECTED}")
    prompts: dict[str, str] = {}
    ratings: dict[str, dict[str, tuple[float, ...]]] = {}
    for key, record in records.items():
        where = f"{path}, {key!r:.80}"
        text = record.get("prompt") if isinstance(record, dict) else None
        if not isinstance(text, str) or not text.strip():
            raise UsageError(f"{where}: no text `prompt`. Expected {EXPECTED}")
        its_id = record.get("id", key)
        if str(its_id).lstrip("0") != str(key).lstrip("0"):
            raise UsageError(f"{where}: the record calls itself {its_id!r:.80}. Expected {EXPECTED}")
        prompts[str(key)] = text.strip()
        models = record.get("models", {})
        if not isinstance(models, dict):
            raise UsageError(f"{where}: models is an object of ratings by model. Expected {EXPECTED}")
        for model, values in models.items():
            ratings.setdefault(str(model), {})[str(key)] = rating_list(values, f"{where}, {model!r:.80}")
    return GenAIFile(prompts, ratings, hashlib.sha256(path.read_bytes()).hexdigest())


def rating_list(values: Any, where: str) -> tuple[float, ...]:
    """Ratings as they stand; whether they lie on the scale is looked at where they are used.

    Args:
        values: of a file.
        where: file and entry, for messages.

    Raises:
        UsageError: no list of numbers.
    """
    if not isinstance(values, list) or any(isinstance(v, bool) or not isinstance(v, int | float) for v in values):
        raise UsageError(f"{where}: ratings are a list of numbers, got {values!r:.80}")
    return tuple(float(value) for value in values)


def read_skills(path: Path) -> dict[str, tuple[int, ...]]:
    """Numbers of prompts by skill.

    Args:
        path: JSON.

    Raises:
        UsageError: no such file, another format, or a skill that the benchmark does not have.
    """
    records = read_json(path, EXPECTED_SKILLS)
    if not isinstance(records, dict) or not records:
        raise UsageError(f"{path}: no object of numbers by skill. Expected {EXPECTED_SKILLS}")
    known = {_plain(name): name for by_level in SKILLS.values() for name in by_level}
    found: dict[str, tuple[int, ...]] = {}
    for name, numbers in records.items():
        if _plain(str(name)) in LEVELS:
            continue  # unions of the skills; they are made again
        skill = known.get(_plain(str(name)))
        if skill is None:
            raise UsageError(f"{path}: unknown skill {name!r:.80}; skills are {', '.join(known.values())}")
        if not isinstance(numbers, list) or not all(_is_number(n) for n in numbers):
            raise UsageError(f"{path}, {name!r:.80}: expected a list of whole numbers. Expected {EXPECTED_SKILLS}")
        found[skill] = tuple(int(n) for n in numbers)
    return found


def _plain(name: str) -> str:
    """A skill as files may spell it: ``Spatial Relation``, ``spatial_relation``, ``spatial``."""
    return name.lower().replace("_", " ").removesuffix(" relation").strip()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool) and str(value).isdigit()


def level_of(skills: Sequence[str]) -> str:
    """``basic``, ``advanced`` or ``untagged``; advanced where skills are of both levels.

    Args:
        skills: of a prompt.
    """
    if any(skill in SKILLS["advanced"] for skill in skills):
        return "advanced"
    return "basic" if skills else "untagged"


def asked_prompt(
    prompt_id: str, text: str, skills: Sequence[str], wording: Wording, *, tagged: bool = True, **extra: Any
) -> AskedPrompt:
    """A prompt with the one question about it.

    Args:
        prompt_id: its id.
        text: the prompt.
        skills: of the prompt.
        wording: how it is asked.
        tagged: whether skills are known; without them no level is given.
        **extra: further fields of ``AskedPrompt``; ``fact`` is the question's.
    """
    fact = extra.pop("fact", None)
    strings = dict.fromkeys([wording.answer, *YES_NO_SPELLINGS["yes"], *YES_NO_SPELLINGS["no"]])
    question = AskedQuestion(name="1", text=wording.question.replace("{}", text), strings=tuple(strings), fact=fact)
    facets = {"skill_level": level_of(skills)} if tagged else {}
    notes = {"skills": list(skills)} if skills else {}
    return AskedPrompt(
        prompt_id=prompt_id,
        text=text,
        questions=(question,),
        facets=facets,
        notes=notes | extra.pop("notes", {}),
        **extra,
    )


def alterations(read: GenAIFile) -> str:
    """How a file differs from the released one, in words; empty if it does not as far as is known.

    Args:
        read: the file.
    """
    if len(read.prompts) != N_PROMPTS:
        return f"{len(read.prompts):,} prompts, expected {N_PROMPTS:,}"
    if missing := [model for model in MODELS if model not in read.ratings]:
        return f"no ratings of {missing[0]}"
    for model in MODELS:
        counts = {len(values) for values in read.ratings[model].values()}
        if len(read.ratings[model]) != N_PROMPTS or counts != {3}:
            return (
                f"of {model} {len(read.ratings[model]):,} rated images, expected {N_PROMPTS:,} with three ratings each"
            )
    return ""


def skill_alterations(skills: Mapping[str, Sequence[int]]) -> str:
    """How a file of skills differs from the released one, in words; empty if it does not as far as is known.

    Args:
        skills: numbers of prompts by skill.
    """
    for by_level in SKILLS.values():
        for name, n in by_level.items():
            if len(set(skills.get(name, ()))) != n:
                return f"{len(set(skills.get(name, ())))} prompts of the skill {name}, expected {n}"
    tagged = {number for numbers in skills.values() for number in numbers}
    untagged = tuple(sorted(set(range(N_PROMPTS)) - tagged))
    if untagged != UNTAGGED:
        found, expected = (", ".join(map(str, numbers[:10])) for numbers in (untagged, UNTAGGED))
        return f"prompts without a skill are {found}, expected {expected}"
    return ""
