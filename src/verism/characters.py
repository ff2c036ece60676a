"""Characters that do something to a terminal or a page in place of being shown, and how they are shown instead."""

from __future__ import annotations

import re

__all__ = ["visible"]

# Terminals obey these: colours, moving the cursor, titles, the clipboard (ECMA-48; OSC ends with BEL or ESC \).
_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)")
# Control characters, characters that reorder the text around them (Unicode Annex 9; "Trojan Source", CVE-2021-42574),
# and halves of surrogate pairs, which cannot be written.
_HIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str, *, keep: str = "") -> str:
    r"""Text in which nothing acts on a terminal or a page, and everything can be written as UTF-8.

    Tabs and line feeds stay; sequences of colours and cursor moves go; other control characters, those that turn the
    direction of writing, and halves of surrogate pairs are written as escapes.

    >>> visible("a \x1b[31mred\x1b[0m cat, \u202etac")
    'a red cat, \\u202etac'

    Args:
        text: from elsewhere: prompts, names, captions, what a program prints.
        keep: further characters that stay, such as a carriage return of a progress bar.
    """
    return _HIDDEN.sub(lambda match: match[0] if match[0] in keep else _escape(match[0]), _SEQUENCE.sub("", text))


def _escape(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"
