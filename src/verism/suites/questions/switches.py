"""What benchmarks of questions differ in: switches, each explicit, and how an answer is tested.

Seven things make two numbers of one benchmark incomparable: how an answer is tested, what is written behind a question,
how questions depend on each other, over what is averaged, how many images a prompt has, what becomes of missing images
and answers, and the judge. Five are rules of a scoring (``Switches``); suffix and judge decide what is observed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args

from verism.metrics.questions import Dependence
from verism.specs import Rule
from verism.suites.questions.asked import AskedQuestion
from verism.suites.token_probabilities import Token, share_of_answer

__all__ = [
    "YES_NO_SPELLINGS",
    "AnswerTest",
    "Reply",
    "Switches",
    "own_value",
    "suffix_words",
    "switch_rules",
    "with_values",
]

AnswerTest = Literal[
    "read",
    "yes",
    "Yes",
    "plain_yes",
    "probability",
    "probability_share",
    "spelled_probability",
    "root_probability",
    "choice",
    "nearest",
    "zero_one",
    "score_line",
    "level",
    "digit",
]
Dependency = Literal["none", "plain", "cascading"]
Average = Literal["prompts", "questions"]
Missing = Literal["counted", "image_dropped", "prompt_dropped", "zero", "refused"]
Graph = Literal["mended", "released"]
Shown = Literal["all", "last"]

# Spellings of the answers whose first tokens are added up; most vocabularies have one token for each.
YES_NO_SPELLINGS: Mapping[str, tuple[str, ...]] = {
    word: tuple(f"{space}{spelled}" for space in ("", " ") for spelled in (word, word.title(), word.upper()))
    for word in ("yes", "no")
}
DEPENDENCE: Mapping[str, Dependence] = {"none": "none", "plain": "parents", "cascading": "cascade"}

TESTS: Mapping[str, str] = {
    "read": "a clear yes, no or choice; anything else is no answer",
    "yes": "right only if the reply equals `yes`; anything else is wrong",
    "Yes": "right only if the reply equals `Yes`; anything else is wrong",
    "plain_yes": "right if the reply is yes, ignoring case and punctuation; anything else is wrong",
    "probability": "the probability of the right answer",
    "probability_share": "P(yes) / (P(yes) + P(no)), in any spelling; no answer if the judge returns no tokens",
    "spelled_probability": "the probability of the benchmark's one spelling of yes",
    "root_probability": "the square root of that probability, as CLIP-FlanT5's released code returns it",
    "choice": "right if the reply equals the right choice; a reply that is no choice is no answer",
    "nearest": "the reply itself if it is a choice, else the choice whose sentence embedding is nearest",
    "score_line": "right if the last line is `Score: 1`, wrong if it is `Score: 0`; anything else is no answer",
    "level": "the level behind the question's name (`Realism: 2`), over the highest; any other is no answer",
    "digit": "the first digit behind the question's name, whatever it is, over the highest level",
    "zero_one": "right if the last 0 or 1 of the reply is 1; a reply without one is no answer",
}
HELP: Mapping[str, str] = {
    "answer_test": "Way from a reply to a score",
    "dependency": "Score of a question whose parent question failed: none: its own; plain: 0 if a parent's answer is "
    "wrong; cascading: 0 if a parent scores 0, by itself or through its own parents.",
    "average_over": "Average over prompts (means over their questions) or over all questions pooled.",
    "when_missing": "Treatment of missing images and answers: counted (left out, and their number reported), "
    "image_dropped, prompt_dropped, zero (wrong), or refused (no score at all).",
    "images_counted": "Number of images per prompt to count, the first ones; null: all.",
    "graph": "Dependency graph: mended (defects of the file corrected) or released (as the released code reads it).",
    "category_images": "Images to count for categories: all, or the last one of each prompt.",
}


@dataclass(frozen=True, kw_only=True)
class Switches:
    """How answers become a score.

    Attributes:
        answer_test: how an answer is tested, see ``TESTS``.
        dependency: ``none``; ``plain``: a question counts 0 where a parent's own answer is not right; ``cascading``:
            the same, in the file's order, zeros being inherited.
        average_over: ``prompts``: mean over the questions of an image, its images, the prompts; ``questions``: all
            questions pooled.
        when_missing: see ``HELP``.
        images_counted: images of each prompt that count; None for all.
        graph: ``mended`` or ``released`` dependencies.
        category_images: ``all``, or only the ``last`` image of each prompt.
        first_row: whether the first row of the file counts; ``lost`` as in released code.
    """

    answer_test: AnswerTest = "read"
    dependency: Dependency = "plain"
    average_over: Average = "prompts"
    when_missing: Missing = "counted"
    images_counted: int | None = None
    graph: Graph = "mended"
    category_images: Shown = "all"
    first_row: Literal["kept", "lost"] = "kept"

    @property
    def dependence(self) -> Dependence:
        """The dependency rule as ``metrics.questions`` calls it."""
        return DEPENDENCE[self.dependency]

    def words(self, *, suffix: str | None, images: str, judge: str = "") -> str:
        """Every switch in one line: what a number must be quoted with.

        Args:
            suffix: text behind each question, see ``AskedQuestion.question``.
            images: how many images a prompt has, in words.
            judge: name of the judge; empty where it is not known.
        """
        shown = images if self.images_counted is None else f"first {self.images_counted} of {images}"
        parts = {
            "answer test": self.answer_test,
            "suffix": suffix_words(suffix),
            "dependency": self.dependency,
            "average over": self.average_over,
            "images per prompt": shown,
            "missing": self.when_missing,
            "judge": judge,
            "graph": "" if self.graph == "mended" else "as released",
            "categories": "" if self.category_images == "all" else "last image only",
            "first row": "" if self.first_row == "kept" else "lost",
        }
        return ", ".join(f"{name}={value}" for name, value in parts.items() if value)


def suffix_words(suffix: str | None) -> str:
    """A suffix in words.

    >>> suffix_words(None), suffix_words(""), suffix_words("Answer in one word.")
    ("the judge's own", 'none', "'Answer in one word.'")
    """
    if suffix is None:
        return "the judge's own"
    return repr(suffix) if suffix else "none"


def switch_rules(preset: Switches, *, tests: tuple[AnswerTest, ...]) -> tuple[Rule, ...]:
    """The switches as rules of a suite; they concern ``revised`` alone, so that the other protocols stay what they are.

    Args:
        preset: the switches of ``revised``.
        tests: answer tests that make sense for its questions.
    """
    choices: Mapping[str, tuple[str, ...]] = {
        "answer_test": tests,
        "dependency": get_args(Dependency),
        "average_over": get_args(Average),
        "when_missing": get_args(Missing),
        "graph": get_args(Graph),
        "category_images": get_args(Shown),
    }
    rules = []
    for name, text in HELP.items():
        default = getattr(preset, name)
        if name == "answer_test":
            text = f"{text}. {'; '.join(f'{test}: {TESTS[test]}' for test in tests)}."
        if name in choices:
            rules.append(Rule(name, str, default, choices=choices[name], protocol="revised", help=text))
        else:
            rules.append(Rule(name, int, default, optional=True, low=1, protocol="revised", help=text))
    return tuple(rules)


def with_values(preset: Switches, values: Mapping[str, Any]) -> Switches:
    """Switches with other values; names that are none of theirs are left out.

    Args:
        preset: the switches.
        values: by name.
    """
    own = {f.name for f in fields(Switches)}
    return replace(preset, **{name: value for name, value in values.items() if name in own})


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What a judge replied to a question about an image.

    Attributes:
        text: the reply; None where there is none (a failed request, an empty cell).
        value: what it was read as, see ``judges.vqa``; None where it could not be.
        probability: of yes, or of the answer for questions with choices; None where the judge tells none.
        tokens: first token and its probability, by string; empty where the judge tells none.
        nearest: the choice whose sentence embedding is nearest; None where nobody looked.
        truth: whether it is the ground truth of a rendered scene, which has no spelling of its own.
    """

    text: str | None = None
    value: str | None = None
    probability: float | None = None
    nearest: str | None = None
    tokens: Mapping[str, Token] = field(default_factory=dict)
    truth: bool = False


def own_value(question: AskedQuestion, reply: Reply, test: AnswerTest) -> float | None:
    """How far a reply is right by itself, in [0, 1]; None where it is no answer.

    Args:
        question: the question.
        reply: what the judge replied.
        test: how it is tested.

    >>> own_value(AskedQuestion(name="1", text=""), Reply(text="Yes", value="yes"), "yes")
    0.0
    >>> own_value(AskedQuestion(name="1", text=""), Reply(text="Yes", value="yes"), "read")
    1.0
    """
    if test == "probability":
        return _probability(question, reply)
    if test == "probability_share":
        return (
            reply.probability if reply.truth else share_of_answer(question.expected, YES_NO_SPELLINGS, reply.tokens)[0]
        )
    if test in ("spelled_probability", "root_probability"):
        listed = reply.tokens.get(question.strings[0]) if question.strings else None
        probability = _probability(question, reply) if listed is None else listed[1]
        return probability if probability is None or test == "spelled_probability" else math.sqrt(probability)
    if reply.text is None:
        return None
    if test == "read":
        return None if reply.value is None else float(reply.value == question.expected)
    if reply.truth and test in ("yes", "Yes", "plain_yes", "zero_one", "score_line"):
        return float(reply.value == question.expected)
    if test in ("yes", "Yes"):
        return float(reply.text == test)
    if test == "plain_yes":
        return float(re.sub(r"[^\w\s]", "", reply.text).strip().lower() == "yes")
    if test == "zero_one":
        found = re.findall(r"(?<![\d.])[01](?![\d.])", _json_score(reply.text))
        return float(found[-1]) if found else None
    if test == "score_line":
        lines = [line.strip(" *_`.") for line in reply.text.splitlines() if line.strip()]
        named = re.fullmatch(r"(?i)score\W{1,4}([01])", lines[-1]) if lines else None
        return float(named.group(1)) if named else None
    if test in ("level", "digit"):
        return _level(question, reply.text, exact=test == "level")
    if reply.text in (question.choices or ("yes", "no")):
        return float(reply.text == question.expected)
    if test == "nearest" and reply.nearest is not None:
        return float(reply.nearest == question.expected)
    return None


def _json_score(text: str) -> str:
    """The field ``score`` of a reply in JSON, as text; the reply itself where it is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(value, dict) and "score" in value:
        return str(value["score"])
    return text


def _level(question: AskedQuestion, text: str, *, exact: bool) -> float | None:
    """The level that a reply names for a question, over the highest; None where it names none."""
    label = r"\W+".join(map(re.escape, question.name.split("_")))
    found = (
        re.findall(rf"(?i)\b{label}\b\W{{1,6}}(\d+)(?![\d.]*\d)", text)
        if exact
        else re.findall(rf"(?i)\b{label}\b\D*(\d)", text)
    )
    if not found or (exact and (len(set(found)) > 1 or int(found[0]) > question.highest)):
        return None
    return int(found[0]) / question.highest


def _probability(question: AskedQuestion, reply: Reply) -> float | None:
    if reply.probability is None:
        return None
    if not question.choices or {choice.lower() for choice in question.choices} == {"yes", "no"}:
        return reply.probability if question.expected.lower() == "yes" else 1 - reply.probability
    return reply.probability if reply.value == question.expected else None
