"""Foreign text made safe to show: one plain line, without keys or anything that looks like one."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from itertools import groupby
from urllib.parse import quote

__all__ = ["HIDDEN", "LogRedactor", "Redactor", "clean_text"]

HIDDEN = "[hidden]"
# Where the HTTP library logs addresses and, for debugging, headers of answers: both may hold what a service sends back.
LOGGERS = ("httpx", *(f"httpcore.{part}" for part in ("connection", "http11", "http2", "proxy", "socks")))
MIN_FRAGMENT = 8  # characters of a secret that are hidden even without the rest of it


def clean_text(text: str, limit: int) -> str:
    """Foreign text on one line, without control characters and lone surrogates, of at most ``limit`` characters.

    Such text goes to terminals (escape sequences), into JSON and into tables (surrogates cannot be stored).
    """
    head = text[: 4 * limit + 1000].encode("utf-8", "replace").decode("utf-8")
    line = " ".join("".join(c if c.isprintable() else " " for c in head).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


class Redactor:
    """Removes secrets from texts: the known ones, fragments of them, and whatever looks like a key.

    A service may send the key back, whole, shortened or with stars, in the very message that says it is wrong.

    Args:
        secrets: keys and ids that no text may hold; empty ones are ignored.
    """

    PATTERNS = (
        re.compile(r"\b(?:sk|pk|rk|sess|hf|gsk|xai)[-_][\w*.\-]{6,}", re.IGNORECASE),
        # A digit or star: descriptions of images speak of torch bearers and of basic shapes.
        re.compile(r"\b(?:bearer|basic)\s+(?=\S*[\d*])[\w+/=.~*\-]{6,}", re.IGNORECASE),
        re.compile(r"[\w.\-]{0,80}\*{3,}[\w.\-*]*"),  # keys are shown with stars in their middle
        re.compile(
            r"((?:api[-_ ]?key|access[-_ ]?token|secret|password|authorization|x-api-key)[\"']?\s*[=:]\s*[\"']?)"
            r"[^\s\"'&,;}]+",
            re.IGNORECASE,
        ),
    )

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {s for s in secrets if s}
        self._secrets = tuple(sorted(known | {quote(s, safe="") for s in known}, key=len, reverse=True))

    def __repr__(self) -> str:
        return f"Redactor({len(self._secrets)} secrets)"

    def __call__(self, text: str, limit: int = 300) -> str:
        """The text cleaned (see ``clean_text``), its secrets replaced, then cut to ``limit`` characters."""
        # Cut last: half a key at the end of a text would no longer be known for one.
        line = clean_text(text, max(20_000, limit))
        for secret in self._secrets:
            line = _hide_fragments(line, secret)
        for pattern in self.PATTERNS:
            line = pattern.sub(lambda m: (m.group(1) if m.lastindex else "") + HIDDEN, line)
        return clean_text(line, limit)


def _hide_fragments(text: str, secret: str) -> str:
    """Replace every run of ``MIN_FRAGMENT`` or more characters of the secret, in either case; a short one as a word."""
    size = MIN_FRAGMENT
    if len(secret) < size:  # placeholders such as "none", which local services are given
        return re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", HIDDEN, text, flags=re.IGNORECASE)
    lower = secret.casefold()
    fragments = {lower[i : i + size] for i in range(len(lower) - size + 1)}
    folded = text.casefold()
    if len(folded) != len(text):  # a few characters fold into two; positions must agree
        folded = text.lower() if len(text.lower()) == len(text) else text
    covered = [False] * len(text)
    for start in range(len(text) - size + 1):
        if folded[start : start + size] in fragments:
            covered[start : start + size] = [True] * size
    runs = groupby(zip(text, covered), key=lambda pair: pair[1])
    return "".join(HIDDEN if hide else "".join(char for char, _ in run) for hide, run in runs)


class LogRedactor(logging.Filter):
    """Hides secrets in what the HTTP library logs, between ``install`` and ``remove``.

    Args:
        redact: what it hides them with.
    """

    def __init__(self, redact: Redactor) -> None:
        super().__init__()
        self._redact = redact

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._redact(record.getMessage(), 4000), ()
        return True

    def install(self) -> None:
        """Begin to filter."""
        for name in LOGGERS:
            logging.getLogger(name).addFilter(self)

    def remove(self) -> None:
        """End it."""
        for name in LOGGERS:
            logging.getLogger(name).removeFilter(self)
