"""What a reply in words means: yes, no, one of the choices, or nothing that can be used.

Strict on purpose. What is not plainly one of the expected answers is none of them: it is kept, counted and shown, and
never scored as wrong.
"""

from __future__ import annotations

import re

from verism.records import Question

__all__ = ["YES_NO", "is_yes_no", "normalised_reply", "value_of"]

YES_NO = ("yes", "no")

_NUMBERS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip
_DIGITS = {word: str(i) for i, word in enumerate(_NUMBERS)}
_ARTICLES = ("a", "an", "the")
_PLAIN_YES_NO = re.compile(r"(yes|no)\s*(?:[.,;:!]|$)")


def normalised_reply(text: str) -> str:
    """The first line of a text in small letters, without punctuation, articles and needless spaces; numbers in digits.

    >>> normalised_reply(" Two.  "), normalised_reply("A fire-hydrant"), normalised_reply("an 'L' shape")
    ('2', 'fire hydrant', 'l shape')
    """
    words = re.sub(r"[^\w.]+|\.(?!\d)|_", " ", _first_line(text).lower()).split()
    kept = [_DIGITS.get(word, word) for word in words if word not in _ARTICLES]
    # A choice may be an article or a letter by that name; then nothing is left out.
    return " ".join(kept or words)


def is_yes_no(question: Question) -> bool:
    """Whether a question is to be answered yes or no: it has no choices, or just these two."""
    return not question.choices or sorted(map(normalised_reply, question.choices)) == sorted(YES_NO)


def value_of(reply: str, question: Question) -> str | None:
    """The answer a reply gives to a question: ``yes``, ``no``, one of the choices as the question spells it, or None.

    To a question of yes or no: the word alone or followed by a punctuation mark (``Yes, there is a dog.``), and the
    other word nowhere in the line. To a question with choices: a reply that equals exactly one choice once both are
    normalised. Only the first line that is not empty counts, as language models like to go on with another question.
    """
    if is_yes_no(question):
        line = _first_line(reply).lower().strip(" \"'*")
        match = _PLAIN_YES_NO.match(line)
        if match is None:
            return None
        answer = match.group(1)
        other = YES_NO[answer == "yes"]
        return None if re.search(rf"\b{other}\b", line) else answer
    meant = normalised_reply(reply)
    equal = [choice for choice in question.choices if normalised_reply(choice) == meant]
    return equal[0] if len(equal) == 1 and meant else None


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "").strip()
