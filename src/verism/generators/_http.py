"""Manners towards services: waiting, trying again, and keeping secrets out of every text.

Shared by generators that ask a service for pictures. Nothing here imports an HTTP library.
"""

from __future__ import annotations

import ipaddress
import random
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TypeVar
from urllib.parse import quote, urlsplit

from verism.errors import UsageError, VerismError

__all__ = [
    "HIDDEN",
    "MAX_WAIT",
    "NotThisTime",
    "Pacer",
    "PictureFailed",
    "PictureRefused",
    "Redactor",
    "Stopped",
    "check_base_url",
    "clean_text",
    "full_jitter",
    "is_loopback",
    "origin",
    "persist",
    "retry_after",
]

T = TypeVar("T")

MAX_WAIT = 120.0  # seconds; a service that asks for more is asked again then, or its pictures end as failed
LONGEST_BACKOFF = 60.0  # seconds
HIDDEN = "[hidden]"
SECRET_PIECE = 8  # characters of a secret that are hidden even without the rest of it


# --------------------------------------------------------------------------------------------------------------------
# Text that came from elsewhere
# --------------------------------------------------------------------------------------------------------------------
def clean_text(text: str, limit: int) -> str:
    """Foreign text on one line, without control characters and lone surrogates, of at most ``limit`` characters.

    Such text goes to terminals (escape sequences), into JSON and into tables (surrogates cannot be stored).
    """
    head = text[: 4 * limit + 1000].encode("utf-8", "replace").decode("utf-8")
    line = " ".join("".join(c if c.isprintable() else " " for c in head).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


class Redactor:
    """Takes secrets out of texts: the given ones, pieces of them, and whatever looks like a key.

    A service may send the key back, whole, shortened or with stars, in the very message that says it is wrong.
    """

    PATTERNS = (
        re.compile(r"\b(?:sk|pk|rk|sess|hf|gsk|xai)[-_][\w*.\-]{6,}", re.IGNORECASE),
        # A digit or star: descriptions of pictures speak of torch bearers and of basic shapes.
        re.compile(r"\b(?:bearer|basic)\s+(?=\S*[\d*])[\w+/=.~*\-]{6,}", re.IGNORECASE),
        re.compile(r"[\w.\-]{0,80}\*{3,}[\w.\-*]*"),  # keys are shown with stars in their middle
        re.compile(
            r"((?:api[-_ ]?key|access[-_ ]?token|secret|password|authorization|x-api-key)[\"']?\s*[=:]\s*[\"']?)"
            r"[^\s\"'&,;}]+",
            re.IGNORECASE,
        ),
    )

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        given = {s for s in secrets if s}
        self._secrets = tuple(sorted(given | {quote(s, safe="") for s in given}, key=len, reverse=True))

    def __repr__(self) -> str:
        return f"Redactor({len(self._secrets)} secrets)"

    def __call__(self, text: str, limit: int = 300) -> str:
        """The text cleaned (see ``clean_text``), its secrets replaced, then cut to ``limit`` characters."""
        # Cut last: half a key at the end of a text would no longer be known for one.
        line = clean_text(text, max(20_000, limit))
        for secret in self._secrets:
            line = _hide_pieces(line, secret)
        for pattern in self.PATTERNS:
            line = pattern.sub(lambda m: (m.group(1) if m.lastindex else "") + HIDDEN, line)
        return clean_text(line, limit)


def _hide_pieces(text: str, secret: str) -> str:
    """Replace every run of ``SECRET_PIECE`` or more characters of the secret, in either case; a short one as a word."""
    if len(secret) < SECRET_PIECE:  # placeholders such as "none", which local services are given
        return re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", HIDDEN, text, flags=re.IGNORECASE)
    size = SECRET_PIECE
    lower = secret.casefold()
    pieces = {lower[i : i + size] for i in range(len(lower) - size + 1)}
    folded = text.casefold()
    if len(folded) != len(text):  # a few characters fold into two; positions must agree
        folded = text.lower() if len(text.lower()) == len(text) else text
    covered = [False] * len(text)
    for start in range(len(text) - size + 1):
        if folded[start : start + size] in pieces:
            covered[start : start + size] = [True] * size
    out: list[str] = []
    for index, (char, hide) in enumerate(zip(text, covered)):
        if not hide:
            out.append(char)
        elif index == 0 or not covered[index - 1]:
            out.append(HIDDEN)
    return "".join(out)


# --------------------------------------------------------------------------------------------------------------------
# Addresses
# --------------------------------------------------------------------------------------------------------------------
def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its name or address (names are not looked up)."""
    if host.lower() == "localhost" or host.lower().endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port: what must be equal for a key to be sent along."""
    parts = urlsplit(url)
    return (
        parts.scheme.lower(),
        (parts.hostname or "").lower(),
        parts.port or {"http": 80, "https": 443}.get(parts.scheme),
    )


def check_base_url(url: str, *, option: str, has_key: bool, allow_http: bool) -> str:
    """A base address that may be written down and sent a key: without credentials, query, fragment and final slash.

    Messages never repeat the address if it may hold a secret.

    Raises:
        UsageError: not an http(s) address, credentials or a query in it, or a key would travel unencrypted.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise UsageError(f"{option}: not an address; expected something like https://host/v1") from None
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise UsageError(
            f"{option}: the address holds a user name or password, which would be written into the run. Give it "
            "without them; a key is read from the environment variable named by key_env"
        )
    if parts.query or parts.fragment or "?" in url or "#" in url:
        raise UsageError(
            f"{option}: the address holds a query (?...) or fragment (#...), which may be a key and would be written "
            "into the run. Give it without; a key is read from the environment variable named by key_env"
        )
    if parts.scheme not in ("http", "https") or not host or any(c.isspace() for c in url):
        raise UsageError(f"{option}: expected an address like https://host/v1, got {clean_text(url, 80)!r}")
    if parts.scheme == "http" and has_key and not allow_http and not is_loopback(host):
        raise UsageError(
            f"{option}: http://{host} would send the key unencrypted over the network, for anyone on the way to read. "
            "Use https://, or say allow_http=true if the network in between is your own"
        )
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path.rstrip('/')}"


# --------------------------------------------------------------------------------------------------------------------
# Waiting and trying again
# --------------------------------------------------------------------------------------------------------------------
class Stopped(VerismError):
    """The work was ended from outside before it was done."""


class PictureRefused(Exception):
    """The service will not paint this prompt; the text is what it says."""


class PictureFailed(Exception):
    """No picture, and asking again would not help (or was done often enough). The text is the reason."""


class NotThisTime(Exception):
    """An attempt that failed in a way that may pass.

    Attributes:
        wait_s: how long the service asks to wait, in seconds; None if it does not say.
        crowded: the service had too many requests, so every worker waits and not only this one.
        answered: the service did answer, only uselessly; a copy of that answer would not help either.
        unreachable: no connection came about.
    """

    def __init__(
        self,
        reason: str,
        *,
        wait_s: float | None = None,
        crowded: bool = False,
        answered: bool = False,
        unreachable: bool = False,
    ) -> None:
        super().__init__(reason)
        self.reason, self.wait_s, self.crowded = reason, wait_s, crowded
        self.answered, self.unreachable = answered, unreachable


def retry_after(headers: Mapping[str, str], *, now: float | None = None) -> float | None:
    """Seconds a service asks to wait, in [0, MAX_WAIT]; None if it does not say, or nothing sensible.

    Understood are ``retry-after-ms`` and ``Retry-After`` as seconds or as an HTTP date (RFC 9110, Sec. 10.2.3).

    Args:
        headers: looked up in lower case. now: seconds since the epoch, for dates; the time of the call if None.
    """
    seconds: float | None = None
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name, "").strip()
        try:
            seconds = float(text) * scale
        except ValueError:
            try:
                date = parsedate_to_datetime(text) if text and name == "retry-after" else None
            except (ValueError, TypeError, OverflowError):
                date = None
            if date is not None:
                date = date if date.tzinfo is not None else date.replace(tzinfo=UTC)
                seconds = date.timestamp() - (time.time() if now is None else now)
        if seconds is not None and seconds == seconds:  # "nan" is a number to float()
            return min(max(seconds, 0.0), MAX_WAIT)
    return None


def full_jitter(tries: int, draw: float) -> float:
    """Seconds to wait after the ``tries``-th failure (1, 2, ...): ``draw`` in [0, 1) of an exponentially growing span.

    The span is 1, 2, 4 ... 60 seconds. Drawing from all of it spreads out workers that failed together ("full jitter",
    M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog 2015).
    """
    return draw * min(LONGEST_BACKOFF, 2.0 ** min(tries - 1, 16))


class Pacer:
    """The pause that all workers share, and the clock they wait by.

    Args:
        sleep: waits that many seconds; None waits so that ``halt`` ends the wait at once.
        clock: seconds, only ever growing. draw: a number in [0, 1) per call.
    """

    def __init__(
        self,
        sleep: Callable[[float], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] | None = None,
    ) -> None:
        self._sleep, self._clock = sleep, clock
        # Not seeded: workers of several runs must not wait in step, and no picture depends on it.
        self._draw = draw or random.SystemRandom().random
        self._lock = threading.Lock()
        self._resume_at = clock()
        self._arrived = 0

    @property
    def arrived(self) -> int:
        """Pictures that came so far: whether a crowded service still moves."""
        return self._arrived

    def arrive(self) -> None:
        """Note that a picture came."""
        with self._lock:
            self._arrived += 1

    def pause(self, seconds: float) -> None:
        """Let nobody ask for so many seconds from now; a longer pause under way stays."""
        with self._lock:
            self._resume_at = max(self._resume_at, self._clock() + seconds)

    def gate(self, halt: threading.Event) -> None:
        """Wait until the shared pause is over, up to a quarter longer so that not all ask in the same moment."""
        while True:
            with self._lock:
                left = self._resume_at - self._clock()
            if halt.is_set():
                raise Stopped("stopped while waiting")
            if left <= 0:
                return
            self.wait(left * (1 + 0.25 * self._draw()), halt)

    def backoff(self, tries: int, wait_s: float | None) -> float:
        """Seconds to wait after the ``tries``-th failure: what the service asked for, or ``full_jitter``.

        "At once" is not taken literally: services say so while they are down.
        """
        return wait_s or full_jitter(tries, self._draw())

    def wait(self, seconds: float, halt: threading.Event) -> None:
        """Wait; ends early by raising ``Stopped`` once ``halt`` is set."""
        if self._sleep is None:
            halt.wait(seconds)
        elif not halt.is_set():
            self._sleep(seconds)
        if halt.is_set():
            raise Stopped("stopped while waiting")


def persist(
    attempt: Callable[[int], T],
    pacer: Pacer,
    halt: threading.Event,
    *,
    retries: int,
    on_retry: Callable[[], None],
) -> T:
    """Make attempts until one succeeds.

    Refusals for crowding are forgotten once a picture came anywhere: where the service allows five a minute, unlucky
    requests lose the race against others many times, and nothing is wrong with them.

    Args:
        attempt: is given how many useless but complete answers came before.
        retries: attempts after the first that count. on_retry: called before each attempt but the first.

    Raises:
        NotThisTime: of the last attempt; its reason says after how many tries. Stopped: ``halt`` was set.
        Whatever else the attempt raises.
    """
    tries = failures = crowds = answers = 0
    while True:
        pacer.gate(halt)
        before = pacer.arrived
        tries += 1
        try:
            return attempt(answers)
        except NotThisTime as err:
            if pacer.arrived > before:
                crowds = 0
            crowds, failures = crowds + err.crowded, failures + (not err.crowded)
            answers += err.answered
            if crowds + failures > retries:
                err.reason += f"; gave up after {tries} {'try' if tries == 1 else 'tries'}"
                raise
            seconds = pacer.backoff(crowds + failures, err.wait_s)
            crowded = err.crowded
        if crowded:
            pacer.pause(seconds)
        else:
            pacer.wait(seconds, halt)
        on_retry()
