"""Our rules: what was read against what was asked for, with order, and with everything that is too much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from verism.metrics.transcription import (
    BagCounts,
    Edits,
    Wording,
    bag_counts,
    best_order,
    characters,
    edits,
    plain_text,
    words,
)

__all__ = ["RuleSet", "TextMatch", "match_texts"]


@dataclass(frozen=True, kw_only=True)
class RuleSet:
    """What counts.

    Attributes:
        case: whether upper and lower case differ.
        punctuation: whether punctuation counts.
        order: ``regions``: within each text, and the texts in any order; ``reading``: of the texts as well.
        repeats: whether a word asked for twice has to be read twice.
        surplus: whether what is too much is an error.
    """

    case: bool = False
    punctuation: bool = False
    order: str = "regions"
    repeats: bool = True
    surplus: bool = True

    @property
    def wording(self) -> Wording:
        """What of a text counts."""
        return Wording(case=self.case, punctuation=self.punctuation)


@dataclass(frozen=True, kw_only=True)
class TextMatch:
    """What was read beside what was asked for.

    Attributes:
        target: the texts as they are compared, in the order that fits best if any may.
        read: what was read, as it is compared.
        characters: edits of characters, in order; without insertions where surplus text is free.
        words: edits of words, in order, likewise.
        bag: words without order.
    """

    target: str
    read: str
    characters: Edits
    words: Edits
    bag: BagCounts

    @property
    def right(self) -> bool:
        """Whether nothing is wrong: no edit of a character."""
        return self.characters.distance == 0


def match_texts(texts: Sequence[str], read: str, rules: RuleSet) -> TextMatch:
    """Hold what was read against the texts asked for.

    Args:
        texts: asked for, one for each place in the image.
        read: all that the engine read, in its order.
        rules: what counts.
    """
    wording = rules.wording
    wanted = [plain for text in texts if (plain := plain_text(text, wording))]
    seen = plain_text(read, wording)
    if rules.order == "regions" and len(wanted) > 1:
        order = best_order([characters(text) for text in wanted], characters(seen))
        wanted = [wanted[i] for i in order]
    target = " ".join(wanted)
    free = not rules.surplus
    of_characters = edits(characters(target), characters(seen), free_insertions=free)
    of_words = edits(words(target), words(seen), free_insertions=free)
    bag = bag_counts(words(target), words(seen))
    if not rules.repeats:
        bag = _once(words(target), words(seen), bag)
    return TextMatch(target=target, read=seen, characters=of_characters, words=of_words, bag=bag)


def _once(target: Sequence[str], read: Sequence[str], bag: BagCounts) -> BagCounts:
    """Counts where one reading of a word satisfies every time that it is asked for."""
    matched = sum(word in set(read) for word in target)
    return bag._replace(matched=matched, missing=len(target) - matched)
