"""Text that was read against text that was asked for: edits with order, bags of words, and what a rule may ignore.

Order counts where an alignment is made (``edits``, CER, WER) and does not where words are put into a bag
(``bag_counts``). A bag cannot see a wrong order; an alignment cannot see that two signs were read in the other order
and each correctly, so ``best_order`` may try the orders of regions first. All functions are pure.
"""

from __future__ import annotations

import itertools
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "BagCounts",
    "Edits",
    "Wording",
    "bag_counts",
    "best_order",
    "characters",
    "edit_distance",
    "edits",
    "error_rate",
    "is_spaceless",
    "plain_text",
    "script_of",
    "words",
]

PERMUTED = 4  # regions up to which every order is tried
WEIGHT = 1 << 32  # of an edit beside a substitution: distances are far below it


class Edits(NamedTuple):
    """The edits that turn the target into what was read.

    Attributes:
        substitutions: tokens read as another.
        deletions: tokens of the target that were not read.
        insertions: tokens read that the target does not have.
        length: tokens of the target.
    """

    substitutions: int
    deletions: int
    insertions: int
    length: int

    @property
    def distance(self) -> int:
        """Number of edits."""
        return self.substitutions + self.deletions + self.insertions


class BagCounts(NamedTuple):
    """Words of the target and words read, each as often as it occurs, without order.

    Attributes:
        matched: words of both.
        missing: words of the target that were not read.
        surplus: words read that the target does not have, or not so often.
        repeated: those of the surplus that are words of the target: read more often than asked for.
        length: words of the target.
    """

    matched: int
    missing: int
    surplus: int
    repeated: int
    length: int


class Wording(NamedTuple):
    """What of a text counts.

    Attributes:
        case: whether upper and lower case differ.
        punctuation: whether punctuation counts; without it, it separates words as it stands: ``it's`` is ``its``.
    """

    case: bool = False
    punctuation: bool = False


USUAL = Wording()


# --------------------------------------------------------------------------------------------------------------- tokens
def is_spaceless(character: str) -> bool:
    """Whether a character is of a script that is written without spaces between words: Han, kana, Thai ...

    >>> is_spaceless("汉"), is_spaceless("カ"), is_spaceless("한"), is_spaceless("a")
    (True, True, False, False)
    """
    code = ord(character)
    return (
        0x3400 <= code <= 0x4DBF
        or 0x4E00 <= code <= 0x9FFF
        or 0xF900 <= code <= 0xFAFF
        or 0x20000 <= code <= 0x323AF
        or 0x3041 <= code <= 0x30FF
        or 0x31F0 <= code <= 0x31FF
        or 0x0E00 <= code <= 0x0EFF
    )


def script_of(text: str) -> str:
    """The script that most letters of a text are of, by the names of Unicode: ``latin``, ``cyrillic``, ``han`` ...

    Kana makes a text ``japanese``, whatever the number of Han characters beside it. Empty where there is no letter.

    >>> script_of("Straße 5"), script_of("Хлеб"), script_of("北京"), script_of("営業中です"), script_of("42")
    ('latin', 'cyrillic', 'han', 'japanese', '')
    """
    counts = Counter(name for character in text if character.isalpha() and (name := _script(character)))
    if counts["kana"]:
        return "japanese"
    return min(counts, key=lambda name: (-counts[name], name)) if counts else ""


def _script(character: str) -> str:
    first = unicodedata.name(character, "").split(" ")[0].split("-")[0]
    return {"CJK": "han", "HIRAGANA": "kana", "KATAKANA": "kana"}.get(first, first.lower())


def plain_text(text: str, wording: Wording = USUAL) -> str:
    """A text without what does not count: compatibility forms (NFKC), runs of spaces, and what ``wording`` leaves out.

    >>> plain_text("  Don’t   PARK\\nhere! "), plain_text("Don’t PARK!", Wording(case=True, punctuation=True))
    ('dont park here', 'Don’t PARK!')
    """
    made = unicodedata.normalize("NFKC", text)
    if not wording.case:
        made = unicodedata.normalize("NFKC", made.casefold())
    if not wording.punctuation:
        made = "".join(c for c in made if not unicodedata.category(c).startswith("P"))
    return " ".join(made.split())


def words(text: str) -> list[str]:
    """The words of a text: split at spaces; of scripts without spaces every character is one.

    >>> words("open 24 hours"), words("营业 24 小时")
    (['open', '24', 'hours'], ['营', '业', '24', '小', '时'])
    """
    found: list[str] = []
    for part in text.split():
        for spaceless, group in itertools.groupby(part, is_spaceless):
            run = list(group)
            found += run if spaceless else ["".join(run)]
    return found


def characters(text: str) -> list[str]:
    """The characters of a text as a reader sees them, a letter and its marks together; a space between words counts.

    Beside a character of a script without spaces a space does not count.

    >>> characters("né 1"), characters("营业 24 小时")
    (['n', 'é', ' ', '1'], ['营', '业', '2', '4', '小', '时'])
    """
    joined = re.sub(r"\s+", " ", text.strip())
    found: list[str] = []
    for position, character in enumerate(joined):
        if character == " " and (is_spaceless(joined[position - 1]) or is_spaceless(joined[position + 1])):
            continue
        if found and unicodedata.combining(character):
            found[-1] += character
        else:
            found.append(character)
    return found


# ---------------------------------------------------------------------------------------------------------------- edits
def edits(target: Sequence[Hashable], read: Sequence[Hashable], *, free_insertions: bool = False) -> Edits:
    """The fewest edits (substitutions, deletions, insertions) that turn the target into what was read.

    Among alignments with the fewest edits, one with the fewest substitutions is taken, so that the three numbers are
    unique.

    Args:
        target: tokens asked for, in order.
        read: tokens read, in order.
        free_insertions: whether tokens that are too much cost nothing; they are not counted then.

    >>> edits("kitten", "sitting")
    Edits(substitutions=2, deletions=0, insertions=1, length=6)
    >>> edits("open", "we open at 9", free_insertions=True)
    Edits(substitutions=0, deletions=0, insertions=0, length=4)
    """
    n, m = len(target), len(read)
    distance, substitutions = divmod(int(_costs(target, read, 0 if free_insertions else WEIGHT)[-1]), WEIGHT)
    if free_insertions:
        return Edits(substitutions, distance - substitutions, 0, n)
    apart = distance - substitutions  # deletions and insertions
    insertions = (apart + m - n) // 2
    return Edits(substitutions, apart - insertions, insertions, n)


def edit_distance(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """Levenshtein's distance: the fewest substitutions, deletions and insertions.

    >>> edit_distance("kitten", "sitting"), edit_distance("", "abc")
    (3, 3)
    """
    return edits(a, b).distance


def _costs(target: Sequence[Hashable], read: Sequence[Hashable], insertion: int) -> NDArray[np.int64]:
    """Cost of turning the target into each beginning of what was read, shape (M + 1,): edits times ``WEIGHT`` plus
    substitutions; ``insertion`` is the cost of a token that is too much."""
    number: dict[Hashable, int] = {}
    wanted = [number.setdefault(token, len(number)) for token in target]
    seen = np.array([number.setdefault(token, len(number)) for token in read], dtype=np.int64)
    steps = np.arange(len(seen) + 1, dtype=np.int64) * insertion
    row = steps.copy()
    for token in wanted:
        best = row + WEIGHT  # the token is left out
        np.minimum(best[1:], row[:-1] + np.where(seen == token, 0, WEIGHT + 1), out=best[1:])
        row = np.minimum.accumulate(best - steps) + steps  # tokens are put in
    return row


def error_rate(found: Edits) -> float:
    """Edits as a share of the tokens of the target: CER of characters, WER of words. May exceed 1; NaN without target.

    >>> error_rate(edits("abcd", "abxd")), error_rate(edits("a", "abcd"))
    (0.25, 3.0)
    """
    return found.distance / found.length if found.length else math.nan


# ----------------------------------------------------------------------------------------------------------------- bags
def bag_counts(target: Sequence[str], read: Sequence[str]) -> BagCounts:
    """What is missing and what is too much, without order; a word asked for twice has to be read twice.

    >>> bag_counts(["to", "be", "or", "not", "to", "be"], ["be", "to", "be", "be", "now"])
    BagCounts(matched=3, missing=3, surplus=2, repeated=1, length=6)
    """
    wanted, seen = Counter(target), Counter(read)
    surplus = seen - wanted
    return BagCounts(
        matched=(wanted & seen).total(),
        missing=(wanted - seen).total(),
        surplus=surplus.total(),
        repeated=sum(count for word, count in surplus.items() if word in wanted),
        length=len(target),
    )


# ---------------------------------------------------------------------------------------------------------------- order
def best_order(regions: Sequence[Sequence[Hashable]], read: Sequence[Hashable]) -> tuple[int, ...]:
    """The order of regions, taken one after another, that takes the fewest edits to become what was read.

    Within a region order always counts. Up to four regions every order is tried; of more, the order as asked and the
    order in which the regions fit best into what was read.

    Args:
        regions: tokens of each region, in the order asked for.
        read: tokens read, in order.

    Returns:
        Indices of regions; of orders that are as good the first, and so the order asked for wherever it is as good.

    >>> best_order(["stop", "wait"], "waitstop")
    (1, 0)
    """
    asked = tuple(range(len(regions)))
    if len(regions) <= PERMUTED:
        orders = list(itertools.permutations(asked))
    else:
        orders = [asked, tuple(sorted(asked, key=lambda i: (_end_of_fit(regions[i], read), i)))]
    return min(orders, key=lambda order: edit_distance([t for i in order for t in regions[i]], read))


def _end_of_fit(region: Sequence[Hashable], read: Sequence[Hashable]) -> int:
    """Where the stretch of what was read ends that takes the fewest edits to become the region; the first such end."""
    number: dict[Hashable, int] = {}
    wanted = [number.setdefault(token, len(number)) for token in region]
    seen = np.array([number.setdefault(token, len(number)) for token in read], dtype=np.int64)
    steps = np.arange(len(seen) + 1, dtype=np.int64)
    row = np.zeros(len(seen) + 1, dtype=np.int64)  # the stretch may begin anywhere
    for token in wanted:
        best = row + 1
        np.minimum(best[1:], row[:-1] + (seen != token), out=best[1:])
        row = np.minimum.accumulate(best - steps) + steps
    return int(np.argmin(row))
