"""Mistakes in known texts: what a model that cannot spell draws in place of what was asked for.

Each mistake changes the text by our rules for good: it is wrong whatever of case, punctuation and order of
regions counts. U+FFFD stands for a glyph that is none.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping

import numpy as np

from verism.records import GARBLED

__all__ = ["TEXT_MISTAKES", "possible_in_text", "spoil_text"]

# Letters of each script that stand in for others; of an unlisted script, letters of the text itself.
LETTERS: Mapping[str, str] = {
    "LATIN": "abcdefghijklmnopqrstuvwxyz",
    "GREEK": "αβγδεζηθικλμνξοπρτυφχψω",
    "CYRILLIC": "абвгдежзиклмнопрстуфхцчшэюя",
    "HIRAGANA": "あいうえおかきくけこさしすせそたちつてとなにぬねのはひふへほ",
    "KATAKANA": "アイウエオカキクケコサシスセソタチツテト",
}
FILLERS: Mapping[str, tuple[str, ...]] = {
    "LATIN": ("of", "the", "and", "more", "new"),
    "GREEK": ("και", "το", "νέο"),
    "CYRILLIC": ("и", "не", "все"),
}


def possible_in_text(kind: str, text: str, *, alone: bool = False) -> bool:
    """Whether a mistake can be made in a text.

    Args:
        kind: one of ``TEXT_MISTAKES``.
        text: the text.
        alone: whether it is the only text of its image, which must not become an image without any.
    """
    units = _units(text)
    named = {_plain(unit) for unit in units} - {""}
    if kind == "missing":
        return bool(named) and (len(units) > 1 or not alone)
    if kind == "swapped":
        return len(named) > 1
    if kind in ("surplus", "repeated"):
        return bool(named)
    if kind in ("misspelt", "garbled"):
        return any(c.isalnum() for c in text)
    return False


def spoil_text(text: str, kind: str, rng: np.random.Generator) -> tuple[str, str]:
    """A text with a mistake, and what it is, in words. An empty text means that nothing of it is left.

    Args:
        text: the text; ``possible_in_text`` must hold.
        kind: one of ``TEXT_MISTAKES``.
        rng: draws where the mistake is, and what stands there instead.
    """
    return TEXT_MISTAKES[kind](text, rng)


def _misspelt(text: str, rng: np.random.Generator) -> tuple[str, str]:
    places = [i for i, c in enumerate(text) if c.isalnum()]
    place = places[int(rng.integers(len(places)))]
    old = text[place]
    neighbour = place + 1 < len(text) and text[place + 1].isalnum() and _plain(text[place + 1]) != _plain(old)
    way = int(rng.integers(3))
    if way == 0 and neighbour:
        changed = text[:place] + text[place + 1] + old + text[place + 2 :]
    elif way == 1 and len(places) > 2:
        changed = text[:place] + text[place + 1 :]
    else:
        letters = _letters(old, text)
        new = letters[int(rng.integers(len(letters)))]
        changed = text[:place] + (new.upper() if old.isupper() else new) + text[place + 1 :]
    return changed, f"misspelt: {changed!r}"


def _missing(text: str, rng: np.random.Generator) -> tuple[str, str]:
    units, join = _units(text), _join(text)
    named = [i for i, unit in enumerate(units) if _plain(unit)]
    place = named[int(rng.integers(len(named)))]
    return join.join(units[:place] + units[place + 1 :]), f"missing: {units[place]!r}"


def _surplus(text: str, rng: np.random.Generator) -> tuple[str, str]:
    units, join = _units(text), _join(text)
    fillers = [w for w in FILLERS.get(_script(text), ()) if w not in {_plain(unit) for unit in units}]
    added = fillers[int(rng.integers(len(fillers)))] if fillers else str(int(rng.integers(10, 99)))
    place = int(rng.integers(len(units) + 1))
    return join.join([*units[:place], added, *units[place:]]), f"surplus: {added!r}"


def _swapped(text: str, rng: np.random.Generator) -> tuple[str, str]:
    units, join = _units(text), _join(text)
    pairs = [
        (i, j)
        for i in range(len(units))
        for j in range(i + 1, len(units))
        if _plain(units[i]) and _plain(units[j]) and _plain(units[i]) != _plain(units[j])
    ]
    i, j = pairs[int(rng.integers(len(pairs)))]
    units[i], units[j] = units[j], units[i]
    return join.join(units), f"swapped: {units[j]!r} and {units[i]!r}"


def _repeated(text: str, rng: np.random.Generator) -> tuple[str, str]:
    units, join = _units(text), _join(text)
    named = [i for i, unit in enumerate(units) if _plain(unit)]
    place = named[int(rng.integers(len(named)))]
    return join.join([*units[: place + 1], *units[place:]]), f"repeated: {units[place]!r}"


def _garbled(text: str, rng: np.random.Generator) -> tuple[str, str]:
    places = [i for i, c in enumerate(text) if c.isalnum()]
    number = max(1, round(len(places) * float(rng.uniform(0.1, 0.4))))
    chosen = {places[int(i)] for i in rng.choice(len(places), size=number, replace=False)}
    plural = "glyph" if number == 1 else "glyphs"
    return "".join(GARBLED if i in chosen else c for i, c in enumerate(text)), f"garbled: {number} {plural}"


TEXT_MISTAKES: Mapping[str, Callable[[str, np.random.Generator], tuple[str, str]]] = {
    "misspelt": _misspelt,
    "missing": _missing,
    "surplus": _surplus,
    "swapped": _swapped,
    "repeated": _repeated,
    "garbled": _garbled,
}


def _units(text: str) -> list[str]:
    """Words; of a text without spaces, its characters."""
    parts = text.split()
    return parts if len(parts) > 1 or text.isascii() or not _is_spaceless(text) else list(text.strip())


def _join(text: str) -> str:
    return "" if len(text.split()) == 1 and _is_spaceless(text) else " "


def _is_spaceless(text: str) -> bool:
    return any(_script(c) in ("CJK", "HIRAGANA", "KATAKANA", "HANGUL") for c in text)


def _plain(word: str) -> str:
    """A word without case and punctuation: what our rules compare."""
    return "".join(c for c in word.casefold() if c.isalnum())


def _script(text: str) -> str:
    names = [unicodedata.name(c, "").split(" ")[0].split("-")[0] for c in text if c.isalpha()]
    return max(dict.fromkeys(names), key=names.count) if names else ""


def _letters(old: str, text: str) -> list[str]:
    """Letters that may stand in for one: others of its script, or digits for a digit."""
    known = "0123456789" if old.isdigit() else LETTERS.get(_script(old), "".join(c for c in text if c.isalpha()))
    return [c for c in dict.fromkeys(known) if _plain(c) != _plain(old)] or ["0"]
