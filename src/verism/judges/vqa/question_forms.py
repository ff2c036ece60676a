"""Questions that the built-in judge can read: their forms, and what each asks.

A question of no known form, or with a word that is none of the judge's, is not read: it has no answer, and the reason
says why.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal

__all__ = ["Asked", "Vocabularies", "Why", "read_question"]

Kind = Literal["garment", "present", "number", "how_many", "colour", "what_colour", "side"]
Why = Literal["form", "word", "gender", "weak"]
"""Why a question is not answered: no known form; a thing the judge does not know; it asks for perceived gender; it is
of a kind that the judge was measured to get wrong too often."""

_GENDER = re.compile(
    r"\b(?:male|female|man|men|woman|women|masculine|feminine|gender|boy|girl|lady|gentleman|non-binary)\b"
)
_NUMBERS = {word: k for k, word in enumerate(("no", "one", "two", "three", "four"))} | {str(k): k for k in range(5)}
_SAME = {"bike": "bicycle", "plane": "airplane", "human": "person", "someone": "person", "anyone": "person",
         "people": "person"}  # fmt: skip
_SIDES = {
    "to the left of": "left", "on the left of": "left", "left of": "left", "to the right of": "right",
    "on the right of": "right", "right of": "right", "above": "above", "on top of": "above", "on the top of": "above",
    "below": "below", "under": "below", "beneath": "below", "on the bottom of": "below",
}  # fmt: skip
_PLACE = r"in (?:the|this) (?:image|photo|picture|scene)"
_WHERE = rf"(?: {_PLACE})?"
_WHO = r"(?:the|this|a|any) (?:person|human)|someone|anyone|somebody|anybody|there (?:a person|someone)"
_SHAPES: tuple[tuple[str, Kind], ...] = (
    (rf"(?:is|are) (?:{_WHO}) wearing (?P<thing>.+?)", "garment"),
    (rf"does (?:{_WHO}) wear (?P<thing>.+?)", "garment"),
    (rf"how many (?P<thing>.+?) (?:are|is) (?:(?:there|visible|shown){_WHERE}|{_PLACE})", "how_many"),
    (rf"(?:is|are) there (?:exactly )?(?P<number>one|two|three|four|[1-4]) (?P<thing>.+?){_WHERE}", "number"),
    (r"what colou?r (?:is|are) the (?P<thing>.+?)", "what_colour"),
    (
        rf"(?:is|are) the (?P<thing>[a-z ]+?) (?P<side>{'|'.join(_SIDES)}) the (?P<other>[a-z ]+?)",
        "side",
    ),
    (rf"(?:is|are) there (?:(?:a|an|any|some) )?(?P<thing>.+?){_WHERE}", "present"),
    (r"(?:is|are) the (?P<thing>[a-z ]+?) (?P<colour>[a-z]+)", "colour"),
)
_FORMS = tuple((re.compile(rf"^{form}$"), kind) for form, kind in _SHAPES)


@dataclass(frozen=True, kw_only=True)
class Vocabularies:
    """What a judge knows.

    Attributes:
        classes: objects.
        colors: colours.
        garments: clothes and accessories.
    """

    classes: Collection[str]
    colors: Collection[str]
    garments: Collection[str]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A question that was read.

    Attributes:
        kind: what it asks.
        thing: a garment for ``garment``, else a class.
        other: the other class of ``side``.
        side: ``left``, ``right``, ``above`` or ``below``.
        color: of ``colour``.
        number: of ``number``, 1 to 4.
    """

    kind: Kind
    thing: str
    other: str = ""
    side: str = ""
    color: str = ""
    number: int = 0


def read_question(text: str, known: Vocabularies, choices: Collection[str] = ()) -> Asked | Why:
    """What a question asks, or why it is not read.

    Args:
        text: the question; case, punctuation at its end and an instruction to answer yes or no, or in one word, do not
            matter.
        known: the judge's words.
        choices: answers that it allows.
    """
    if any(_GENDER.search(choice.lower()) for choice in choices):
        return "gender"
    line = re.sub(r"\s*(?:please )?answer (?:(?:with )?yes or no|in one word).*$", "", text.strip().lower())
    line = re.sub(r"[?.!\s]+$", "", line)
    for form, kind in _FORMS:
        match = form.match(line)
        if match is None:
            continue
        found = match.groupdict()
        if kind == "garment":
            garment = _bare(found["thing"])
            if garment in known.garments:
                return Asked(kind=kind, thing=garment)
            return "word"
        thing = _class(found["thing"], known.classes)
        if thing is None:
            if kind == "present" and (dressed := re.fullmatch(r"(?:person|someone) wearing (.+)", found["thing"])):
                worn = _bare(dressed[1])
                return Asked(kind="garment", thing=worn) if worn in known.garments else "word"
            if kind in ("side", "colour"):
                continue
            return "gender" if _GENDER.search(found["thing"]) else "word"
        if kind == "side":
            other = _class(found["other"], known.classes)
            if other is None:
                return "word"
            return Asked(kind=kind, thing=thing, other=other, side=_SIDES[found["side"]])
        if kind == "colour":
            color = found["colour"]
            return Asked(kind=kind, thing=thing, color=color) if color in known.colors else "word"
        return Asked(kind=kind, thing=thing, number=_NUMBERS[found["number"]] if "number" in found else 0)
    return "gender" if _GENDER.search(line) else "form"


def _bare(words: str) -> str:
    return re.sub(r"^(?:a|an|the|some|any|a pair of)\s+", "", words.strip())


def _class(words: str, classes: Collection[str]) -> str | None:
    """A class by its name or its plural."""
    name = _bare(words)
    tries: list[Callable[[str], str]] = [str, lambda n: n.removesuffix("s"), lambda n: n.removesuffix("es")]
    for singular in tries:
        result = _SAME.get(singular(name), singular(name))
        if result in classes:
            return result
    return None
