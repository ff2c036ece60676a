"""The arithmetic of the released evaluations, with what it leaves out: LongText-Bench, CVTG-2K, OneIG's text part.

Each takes the texts asked for and what an OCR engine read, and none asks for order. What our own rules do otherwise
is in ``rules``.
"""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from verism.metrics.transcription import edit_distance

__all__ = [
    "ONEIG_MOST",
    "BagMatch",
    "CvtgMatch",
    "OneigMatch",
    "cvtg_match",
    "cvtg_targets",
    "longtext_clean",
    "longtext_match",
    "oneig_clean",
    "oneig_match",
    "oneig_score",
    "quoted_texts",
]

KEPT = "a-zA-Z0-9àâäéèêëîïôöùûüçÀÂÄÉÈÊËÎÏÔÖÙÛÜÇ"
HAN = "一-龥"
# What the released code takes out of a reading. The judge is asked to reply without the full stop, so that its reply
# of "No text recognized" stays and counts as three words.
NOTHING_READ = "No text recognized."
HALLUCINATIONS = ("addCriterion", NOTHING_READ)
NED_MORE = 1e-5  # added to the longer length, so that two empty words are no division by zero
ONEIG_MOST = {"en": 100, "zh": 50}  # edit distance that counts as all wrong


class BagMatch(NamedTuple):
    """Words (English) or characters (Chinese) of a text that were read, as bags.

    Attributes:
        matched: of the text and of what was read, each as often as it occurs in both.
        length: of the text.
    """

    matched: int
    length: int


class CvtgMatch(NamedTuple):
    """Words of a prompt's texts that were read.

    Attributes:
        matched: words that are among those read; one reading satisfies any number of equal words.
        similarity: sum over the words of one minus the normalised edit distance to the closest word read.
        length: words asked for.
    """

    matched: int
    similarity: float
    length: int


class OneigMatch(NamedTuple):
    """A text beside what was read.

    Attributes:
        distance: edit distance in characters.
        complete: whether it is 0.
        matched: as in ``BagMatch``.
        length: as in ``BagMatch``.
    """

    distance: int
    complete: bool
    matched: int
    length: int


# ------------------------------------------------------------------------------------------------------- LongText-Bench
def longtext_clean(text: str, language: str) -> str:
    """A text as LongText-Bench compares it: Latin letters with French accents, digits, Han characters, spaces.

    Args:
        text: asked for, or read.
        language: ``en``: lower case, words with single spaces; ``zh``: characters without spaces, case kept.

    >>> longtext_clean("L'Été, à 5 o'clock - Größe", "en"), longtext_clean("春天 A1！", "zh")
    ('lété à 5 oclock gröe', '春天A1')
    """
    if language == "zh":
        return "".join(re.findall(f"[{HAN}{KEPT}]", text))
    return re.sub(r"\s+", " ", re.sub(rf"[^{HAN}{KEPT}\s]", "", text)).strip().lower()


def longtext_match(texts: Sequence[str], read: str, language: str) -> BagMatch:
    """Words or characters of the texts that were read, without order; what is too much is free.

    Args:
        texts: asked for, of one image.
        read: what the engine read. "No text recognized." with its full stop is taken out; without it, it stays.
        language: ``en`` (words) or ``zh`` (characters).

    Source: released scoring of LongText-Bench (X-Omni, arXiv:2507.22058), whose loop over phrases to take out keeps
        the effect of the last one only.
    """
    wanted = longtext_clean(" ".join(texts), language)
    seen = longtext_clean(read.replace(NOTHING_READ, ""), language)
    units = (list(wanted), list(seen)) if language == "zh" else (wanted.split(), seen.split())
    return BagMatch((Counter(units[0]) & Counter(units[1])).total(), len(units[0]))


# -------------------------------------------------------------------------------------------------------------- CVTG-2K
def quoted_texts(prompt: str) -> list[str]:
    """All that stands in single quotes in a prompt, in order."""
    return [text for text in re.findall(r"'([^']*)'", prompt) if text.strip()]


def cvtg_targets(prompt: str) -> list[str]:
    """Words that a prompt of CVTG-2K asks for: all that stands in single quotes, lower case, split at spaces.

    >>> cvtg_targets("a shop with 'Open Now!' and a mug with 'Tea'")
    ['open', 'now!', 'tea']
    """
    return [word for text in quoted_texts(prompt) for word in text.lower().split()]


def cvtg_match(targets: Sequence[str], read: str) -> CvtgMatch:
    """Words asked for beside the words read, as the released evaluation counts them.

    Args:
        targets: words in lower case, with their punctuation.
        read: what the engine read; it is lower-cased and split at spaces.

    Source: released evaluation of CVTG-2K (TextCrafter, arXiv:2503.23461): the closest word is that of
        ``difflib.get_close_matches`` without a cutoff, which is not the one of the least edit distance.
    """
    seen = read.lower().split()
    known = set(seen)
    similarity = 0.0
    for target in targets:
        close = difflib.get_close_matches(target, seen, n=1, cutoff=0.0)
        if close:
            similarity += 1 - edit_distance(target, close[0]) / (max(len(target), len(close[0])) + NED_MORE)
    return CvtgMatch(sum(target in known for target in targets), similarity, len(targets))


# ---------------------------------------------------------------------------------------------------------------- OneIG
def oneig_clean(text: str) -> str:
    """A text as OneIG compares it: the letters that LongText-Bench keeps, with their case; a text with Han characters
    without spaces.

    >>> oneig_clean("It's  OK!"), oneig_clean("你好 World")
    ('Its OK', '你好World')
    """
    kept = re.sub(rf"[^{HAN}{KEPT}\s]", "", text)
    if re.search("[一-鿿]", kept):
        return re.sub(r"\s", "", kept)
    return re.sub(r"\s+", " ", kept).strip()


def oneig_match(text: str, read: str) -> OneigMatch:
    """A text beside what was read: edit distance in characters, and bags of words (characters of Chinese).

    Args:
        text: asked for.
        read: what the engine read; phrases that the released code knows as made up are taken out.

    Source: released scoring of OneIG (arXiv:2506.07977).
    """
    for phrase in HALLUCINATIONS:
        read = read.replace(phrase, "")
    wanted, seen = oneig_clean(text), oneig_clean(read)
    distance = edit_distance(seen, wanted)
    han = re.search("[一-鿿]", wanted) is not None
    units = (list(wanted), list(seen)) if han else (wanted.split(), seen.split())
    return OneigMatch(distance, distance == 0, (Counter(units[0]) & Counter(units[1])).total(), len(units[0]))


def oneig_score(mean_distance: float, complete: float, accuracy: float, most: int) -> float:
    """OneIG's score of text: 1 - min(M, ED) (1 - CR) (1 - WAC) / M.

    Args:
        mean_distance: ED, mean edit distance, from 0.
        complete: CR, share of images without an edit, in [0, 1].
        accuracy: WAC, pooled share of words read, in [0, 1].
        most: M, the edit distance that counts as all wrong.

    Returns:
        In [0, 1]; 1 as soon as one of the three is perfect. NaN if one is.

    >>> oneig_score(50, 0.2, 0.5, 100), oneig_score(300, 0, 0, 100)
    (0.8, 0.0)
    """
    if math.isnan(mean_distance + complete + accuracy):
        return math.nan
    return 1 - min(most, mean_distance) * (1 - complete) * (1 - accuracy) / most
