"""The words of the built-in embedder: how a text becomes numbers, and which of its words mean nothing to it.

Every word is brought to one form first: numbers to digits, plurals to singulars, ``bike`` to ``bicycle``. Words for
women, men, girls, boys are read as ``person``: the built-in judges do not perceive gender, so that no number of theirs
can differ by such a word. A word that is not in the vocabulary is the token ``UNKNOWN``, and is named to the user.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from verism.errors import UsageError

__all__ = ["LONGEST", "PADDING", "START", "UNKNOWN", "Vocabulary", "words_of"]

PADDING, UNKNOWN, START = 0, 1, 2
_SPECIAL = ("<padding>", "<unknown>", "<start>")
LONGEST = 32  # tokens of a text that are read, the start token included

_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
# Words that the embedder must not tell apart: they name people by gender or age.
_PEOPLE = (
    "people", "persons", "human", "humans", "somebody", "someone", "passer-by", "man", "men", "woman", "women", "male",
    "males", "female", "females", "boy", "boys", "girl", "girls", "gentleman", "gentlemen", "lady", "ladies", "he",
    "she", "him", "masculine", "feminine", "non-binary", "guy", "guys", "adult", "adults", "child", "children",
)  # fmt: skip
_SAME = {
    **dict.fromkeys(_PEOPLE, "person"), **{word: str(number) for number, word in enumerate(_NUMBERS)}, "an": "a",
    "bike": "bicycle", "bikes": "bicycle", "plane": "airplane", "planes": "airplane", "aeroplane": "airplane",
    "photograph": "photo", "picture": "photo", "image": "photo", "pictures": "photo", "images": "photo",
    "photos": "photo", "couple": "2", "grey": "gray", "colour": "color", "colored": "color", "coloured": "color",
    "wears": "wearing", "wear": "wearing", "dressed": "wearing", "has": "with", "having": "with", "beneath": "below",
    "under": "below", "underneath": "below", "over": "above", "snowy": "snow", "sandy": "sand", "metal": "metallic",
    "wood": "wooden", "spherical": "round", "cube": "cubic", "cone": "conical", "cylinder": "cylindrical",
    "tshirt": "t-shirt", "eyeglasses": "glasses", "spectacles": "glasses", "necktie": "tie", "facemask": "mask",
}  # fmt: skip
_IRREGULAR = {"buses": "bus", "benches": "bench", "skis": "ski"}
_NO_PLURALS = ("bus", "glasses", "jeans", "shorts", "slacks", "boots", "slippers", "gloves", "is", "this", "grass",
               "dress", "glass", "as", "his", "its", "canvas")  # fmt: skip
_WORD = re.compile(r"[a-z]+(?:-[a-z]+)*|\d+|;")


def words_of(text: str, known: frozenset[str] | None = None) -> list[str]:
    """The words of a text in their one form, in order; punctuation is left out, but for the semicolon.

    Args:
        text: any text.
        known: words of a vocabulary; a plural whose singular is among them is read as that. None: every plural is.

    >>> words_of("Two dogs and a bike; the woman wears a hat.", frozenset({"dog"}))
    ['2', 'dog', 'and', 'a', 'bicycle', ';', 'the', 'person', 'wearing', 'a', 'hat']
    """
    return [_form(word, known) for word in _WORD.findall(text.lower())]


def _form(word: str, known: frozenset[str] | None) -> str:
    word = _SAME.get(word, word)
    if known is not None and word in known:
        return word
    if word in _NO_PLURALS or len(word) < 3:
        return word
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    stems = [word[:-2], word[:-1]] if word.endswith("es") else [word[:-1]] if word.endswith("s") else []
    if known is None:
        return stems[-1] if stems else word
    return next((_SAME.get(stem, stem) for stem in stems if _SAME.get(stem, stem) in known), word)


@dataclass(frozen=True)
class Vocabulary:
    """Words and their numbers.

    Attributes:
        words: in the one form of ``words_of``, without those that stand for padding, the unknown and the start.
    """

    words: tuple[str, ...]
    _number: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(set(self.words)) != len(self.words):
            raise UsageError("a vocabulary has each word once")
        object.__setattr__(self, "_number", {word: k + len(_SPECIAL) for k, word in enumerate(self.words)})

    def __len__(self) -> int:
        """Number of tokens, the three special ones included."""
        return len(self.words) + len(_SPECIAL)

    @property
    def known(self) -> frozenset[str]:
        """The words as a set."""
        return frozenset(self.words)

    def tokens(self, text: str) -> list[int]:
        """The start token and a token for each word, however long the text is."""
        return [START, *(self._number.get(word, UNKNOWN) for word in words_of(text, self.known))]

    def unknown(self, text: str) -> list[str]:
        """Words of a text that mean nothing to the embedder, each once, in order."""
        return list(dict.fromkeys(word for word in words_of(text, self.known) if word not in self._number))

    def is_foreign(self, text: str) -> bool:
        """Whether a text is not empty, and has no word that means anything to the embedder."""
        return bool(text.strip()) and set(self.tokens(text)[1:]) <= {UNKNOWN}

    def array(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Tokens of texts, shape (N, LONGEST), filled up with ``PADDING``; longer texts are cut at their end."""
        rows = np.full((len(texts), LONGEST), PADDING, dtype=np.int64)
        for row, text in zip(rows, texts, strict=True):
            tokens = self.tokens(text)[:LONGEST]
            row[: len(tokens)] = tokens
        return rows
