"""Manners towards services: waiting, trying again, and keeping secrets out of every text.

Shared by generators that ask a service for pictures and judges that show pictures to one. The HTTP library is loaded
when a service is first asked. Keys come from the environment alone and are in no text.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import logging
import math
import os
import queue
import random
import re
import ssl
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote, urlsplit

from verism.errors import UsageError, VerismError, require

if TYPE_CHECKING:
    import httpx

__all__ = [
    "HIDDEN",
    "LOOK_AHEAD",
    "MAX_WAIT",
    "OPENAI",
    "Answer",
    "Failed",
    "NotThisTime",
    "Pacer",
    "Redactor",
    "Refused",
    "Service",
    "Stopped",
    "as_json",
    "check_base_url",
    "check_extra",
    "check_range",
    "clean_text",
    "full_jitter",
    "is_loopback",
    "natural",
    "origin",
    "parse_extra",
    "persist",
    "retry_after",
    "speaks_of_policy",
]

T = TypeVar("T")
R = TypeVar("R")

OPENAI = "https://api.openai.com/v1"
LOOK_AHEAD = 4  # requests under way or answered and not yet taken, per worker: bounds memory
POOL_S = 5.0  # seconds until a worker gives up on a connection that a closed client no longer gives

MAX_WAIT = 120.0  # seconds; a service that asks for more is asked again then, or its requests end as failed
LONGEST_BACKOFF = 60.0  # seconds
HIDDEN = "[hidden]"

# `error.code`, `error.type` or an inner code, in lower case. Services disagree about the status beside them.
REFUSALS = frozenset(
    {
        "content_policy_violation",
        "moderation_blocked",
        "content_filter",
        "contentfilter",
        "content_moderation",
        "image_content_policy_violation",
        "responsibleaipolicyviolation",
    }
)
NO_MONEY = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "insufficient_credits"})
EVERY_REQUEST = frozenset({"model_not_found", "invalid_model", "invalid_api_key", "account_deactivated"})
REFUSAL_WORDS = re.compile(
    r"safety (?:system|filter|check)|content[ _-](?:policy|policies|filter)|usage polic(?:y|ies)|\bnsfw\b"
    r"|moderation\b.*\b(?:block|reject|flag)|(?:block|reject|flag)\w*\b.*\bmoderation",
    re.IGNORECASE | re.DOTALL,
)
SECRET_NAMES = re.compile(r"(?:^|[_-])(?:api_?key|key|secret|password|authorization|token)$", re.IGNORECASE)
# Where the HTTP library logs addresses and, for debugging, headers of answers: both may hold what a service sends back.
LOGGERS = ("httpx", *(f"httpcore.{part}" for part in ("connection", "http11", "http2", "proxy", "socks")))
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


class Refused(Exception):
    """The service will not do this; the text is what it says."""


class Failed(Exception):
    """No result, and asking again would not help (or was done often enough). The text is the reason."""


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
        interval_s: least time between two turns, see ``turn``.
    """

    def __init__(
        self,
        sleep: Callable[[float], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] | None = None,
        interval_s: float = 0.0,
    ) -> None:
        self._sleep, self._clock = sleep, clock
        self._interval_s = interval_s
        self._next_turn = clock()
        # Not seeded: workers of several runs must not wait in step, and no result depends on it.
        self._draw = draw or random.SystemRandom().random
        self._lock = threading.Lock()
        self._resume_at = clock()
        self._arrived = 0

    @property
    def arrived(self) -> int:
        """Results that came so far: whether a crowded service still moves."""
        return self._arrived

    def arrive(self) -> None:
        """Note that a result came."""
        with self._lock:
            self._arrived += 1

    def pause(self, seconds: float) -> None:
        """Let nobody ask for so many seconds from now; a longer pause under way stays."""
        with self._lock:
            self._resume_at = max(self._resume_at, self._clock() + seconds)

    def turn(self, halt: threading.Event) -> None:
        """Wait for the next turn of all workers together: one in ``interval_s`` seconds, in the order of asking."""
        if not self._interval_s:
            return
        with self._lock:
            now = self._clock()
            at = max(self._next_turn, now)
            self._next_turn = at + self._interval_s
        if at > now:
            self.wait(at - now, halt)

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

    Refusals for crowding are forgotten once a result came anywhere: where the service allows five a minute, unlucky
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


# --------------------------------------------------------------------------------------------------------------------
# Services
# --------------------------------------------------------------------------------------------------------------------
class _Key:
    """Puts the key into a request. Its own class, so that no dump of variables shows it."""

    def __init__(self, key: str, headers: Mapping[str, str]) -> None:
        self.__headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.__headers.update(headers)

    def __call__(self, request: httpx.Request) -> httpx.Request:
        request.headers.update(self.__headers)
        return request

    def __repr__(self) -> str:
        return "<key>"

    def __reduce__(self) -> Any:
        raise TypeError("keys are not pickled")


class _LogFilter(logging.Filter):
    """Hides secrets in what the HTTP library logs."""

    def __init__(self, redact: Redactor) -> None:
        super().__init__()
        self._redact = redact

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._redact(record.getMessage(), 4000), ()
        return True


@dataclass(frozen=True, eq=False, repr=False)
class Answer:
    """A complete answer. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class _Complaint:
    """What an error answer says, whatever its form. ``codes`` in lower case; ``message`` is raw."""

    message: str
    codes: frozenset[str]
    param: str | None

    @staticmethod
    def of(answer: Answer) -> _Complaint:
        try:
            data = json.loads(answer.body)
        except (ValueError, RecursionError):
            return _Complaint(_message_of_page(answer.body), frozenset(), None)
        return _Complaint.of_json(data)

    @staticmethod
    def of_json(data: Any) -> _Complaint:
        if isinstance(data, list) and data:  # Google's form of the interface
            data = data[0]
        if not isinstance(data, dict):
            return _Complaint(data if isinstance(data, str) else "", frozenset(), None)
        error = data.get("error")
        inner = error if isinstance(error, dict) else {}
        further = inner.get("inner_error") or inner.get("innererror")
        sources = [inner, data, further if isinstance(further, dict) else {}]
        texts = [
            error,
            *(source.get(name) for source in sources for name in ("message", "detail", "error_description")),
        ]
        message = next((t for t in texts if isinstance(t, str) and t.strip()), "")
        if not message and data.get("detail"):  # FastAPI lists what it did not like
            message = as_json(data["detail"])
        found = [source.get(name) for source in sources for name in ("code", "type")]
        codes = {str(code).lower() for code in found if code and isinstance(code, str | int)}
        param = inner.get("param")
        if isinstance(data.get("detail"), list) and data["detail"] and isinstance(data["detail"][0], dict):
            place = data["detail"][0].get("loc")  # FastAPI: ["body", "size"]
            param = place[-1] if isinstance(place, list) and place else param
        return _Complaint(message, frozenset(codes), param if isinstance(param, str) else None)


def _message_of_page(body: bytes) -> str:
    """What a page that is not JSON says: its title if it is HTML, else its beginning."""
    text = body[:4000].decode("utf-8", "replace").strip()
    if text.startswith("<"):
        title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
        return f"an HTML page titled {title.group(1).strip()!r}" if title else "an HTML page"
    return text


@dataclass(eq=False)
class _Job(Generic[T, R]):
    item: T
    done: threading.Event = field(default_factory=threading.Event)
    results: list[R] = field(default_factory=list)  # one, once it came
    error: BaseException | None = None


@dataclass(eq=False)
class _Batch(Generic[T, R]):
    """One call of ``in_order``. ``halt`` ends waits and keeps anything new from being asked."""

    jobs: queue.SimpleQueue[_Job[T, R] | None] = field(default_factory=queue.SimpleQueue)
    halt: threading.Event = field(default_factory=threading.Event)
    fatal: UsageError | None = None


def _work(batch: _Batch[T, R], answer: Callable[[T, threading.Event], R]) -> None:
    while (job := batch.jobs.get()) is not None:
        try:
            job.results.append(answer(job.item, batch.halt))
        except UsageError as err:
            batch.fatal = batch.fatal or err
            batch.halt.set()
            job.error = err
        except BaseException as err:  # the taker raises it; a worker that died in silence would leave it waiting
            job.error = err
        finally:
            job.done.set()


class Service:
    """A service with OpenAI's manners: connections, the key, tries, and several requests at once.

    Args:
        model: id as the service knows it, for messages.
        base_url: up to and without ``path``. Without user name, password and query.
        path: what is asked, such as ``/images/generations``.
        noun: what one request asks for, in messages: ``picture``.
        purpose: what the HTTP library is needed for.
        key_env: name of the environment variable that holds the key. None: ``OPENAI_API_KEY`` for OpenAI itself and no
            key for others, so that OpenAI's key is never sent elsewhere unasked.
        organization_env, project_env: variables with the ids of organisation and project; None: ``OPENAI_ORG_ID`` and
            ``OPENAI_PROJECT_ID`` for OpenAI itself, if set, and nothing for others.
        concurrency: requests at once, 1 to 256.
        retries: how often a failure that may pass is tried again, 0 to 100.
        timeout: seconds for one complete answer.
        allow_http: send a key over ``http://`` to another machine.
        per_minute: at most so many requests a minute, evenly spread; None: as many as the service takes.
        sleep, clock: how pauses are waited for, and the seconds they are measured in (for tests: ``sleep`` must advance
            ``clock``); by default real time, in which closing ends every wait.
    Attributes:
        ours: whether it is OpenAI itself. pacer: the pause all workers share.
        counts: ``posts``, ``retries`` and what its user counts. elapsed_s: seconds spent asking.

    Raises:
        UsageError: a value out of range, or an address that is not safe.
    """

    def __init__(
        self,
        model: str,
        *,
        path: str,
        noun: str,
        purpose: str,
        base_url: str = OPENAI,
        key_env: str | None = None,
        organization_env: str | None = None,
        project_env: str | None = None,
        concurrency: int = 4,
        retries: int = 6,
        timeout: float = 180.0,
        allow_http: bool = False,
        per_minute: float | None = None,
        sleep: Callable[[float], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        check_range("concurrency", concurrency, 1, 256)
        check_range("retries", retries, 0, 100)
        check_range("timeout", timeout, 0.01, 86_400)
        host = _host(base_url)
        self.ours = host == "api.openai.com" or host.endswith(".api.openai.com")
        if self.ours:
            key_env = key_env or "OPENAI_API_KEY"
            organization_env = organization_env or "OPENAI_ORG_ID"
            project_env = project_env or "OPENAI_PROJECT_ID"
        for option, name in (
            ("key_env", key_env),
            ("organization_env", organization_env),
            ("project_env", project_env),
        ):
            _check_variable(option, name)
        self.model = model
        self.base_url = check_base_url(
            base_url, option="base_url", has_key=bool(key_env), allow_http=allow_http
        ).removesuffix(path)
        self.endpoint = f"{self.base_url}{path}"
        self.key_env, self._organization_env, self._project_env = key_env, organization_env, project_env
        self.concurrency, self.retries, self.timeout = int(concurrency), int(retries), float(timeout)
        if per_minute is not None:
            check_range("per_minute", per_minute, 0.01, 1_000_000)
        self.pacer = Pacer(sleep, clock, interval_s=60 / per_minute if per_minute else 0.0)
        self.redact = Redactor()
        self.counts: Counter[str] = Counter()
        self.elapsed_s = 0.0
        self._noun, self._purpose = noun, purpose
        self._auth: _Key | None = None
        self._client: httpx.Client | None = None
        self._log_filter: _LogFilter | None = None
        self._httpx: Any = None
        self._lock = threading.Lock()
        self._batches: set[_Batch[Any, Any]] = set()
        self._heard = False  # whether the service ever answered anything

    def __repr__(self) -> str:
        return f"Service({self.endpoint!r})"

    @property
    def httpx(self) -> Any:
        """The HTTP library, once the service is open."""
        return self._httpx

    def where(self) -> str:
        """How a name says who is asked: empty for OpenAI itself, ``@host/path`` for others."""
        parts = urlsplit(self.base_url)
        return "" if self.base_url == OPENAI else f"@{parts.netloc}{'' if parts.path == '/v1' else parts.path}"

    def count(self, name: str, number: int = 1) -> None:
        """Add to a counter; from any thread."""
        with self._lock:
            self.counts[name] += number

    # ---------------------------------------------------------------------------------------------------- connections
    def open(self) -> None:
        """Read the key and make the client, unless that is done."""
        with self._lock:
            if self._client is not None:
                return
            httpx = require("httpx", extra="api", purpose=self._purpose)
            key = _variable(self.key_env, "key_env")
            if self.key_env and not key:
                raise UsageError(
                    f"openai: no key. Put it into the environment variable {_shown(self.key_env)}, or name another "
                    "one by key_env; keys are read from nowhere else"
                )
            headers = {
                "OpenAI-Organization": _variable(self._organization_env, "organization_env"),
                "OpenAI-Project": _variable(self._project_env, "project_env"),
            }
            self.redact = Redactor([key, *headers.values()])
            self._auth = _Key(key, {k: v for k, v in headers.items() if v})
            self._httpx = httpx
            self._log_filter = _LogFilter(self.redact)
            for name in LOGGERS:
                logging.getLogger(name).addFilter(self._log_filter)
            self._client = httpx.Client(
                # Nobody waits for a connection, their number being free; but who asks while another thread closes the
                # client could wait for ever for one that never comes.
                timeout=httpx.Timeout(self.timeout, connect=min(self.timeout, 30.0), pool=POOL_S),
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=self.concurrency),
                headers={"User-Agent": "verism"},
                verify=_certificates(self._purpose),
                follow_redirects=False,
            )

    def close(self) -> None:
        """End everything under way; answers that are still to come are dropped. May be used again."""
        with self._lock:
            batches, client, log_filter = list(self._batches), self._client, self._log_filter
            self._client = self._auth = self._log_filter = None
        for batch in batches:
            batch.halt.set()
        if client is not None:
            with contextlib.suppress(Exception):  # connections in use by workers that are ending
                client.close()
        if log_filter is not None:
            for name in LOGGERS:
                logging.getLogger(name).removeFilter(log_filter)

    # ------------------------------------------------------------------------------------------------------- workers
    def in_order(self, items: Iterable[T], answer: Callable[[T, threading.Event], R]) -> Iterator[R]:
        """The answer to each item, in order; at most ``LOOK_AHEAD * concurrency`` are asked for ahead of the taker.

        Args:
            answer: asks for one item, in a worker's thread. What it raises is raised here; a UsageError concerns every
                item and ends the work. It is given the event that ends waits.
        """
        batch: _Batch[T, R] = _Batch()
        with self._lock:
            self._batches.add(batch)
        started = time.monotonic()
        upcoming = iter(items)
        waiting: deque[_Job[T, R]] = deque()
        workers = 0
        try:
            while True:
                while len(waiting) < LOOK_AHEAD * self.concurrency:
                    try:
                        job = _Job[T, R](next(upcoming))
                    except StopIteration:
                        break
                    waiting.append(job)
                    batch.jobs.put(job)
                    if workers < self.concurrency:
                        # Daemons: an interrupted run ends at once, and not when the last answer has come.
                        threading.Thread(
                            target=_work, args=(batch, answer), name=f"verism-openai-{workers}", daemon=True
                        ).start()
                        workers += 1
                if not waiting:
                    return
                yield self._outcome(waiting.popleft(), batch)
        finally:
            batch.halt.set()
            for _ in range(workers):
                batch.jobs.put(None)
            with self._lock:
                self._batches.discard(batch)
                self.elapsed_s += time.monotonic() - started

    def _outcome(self, job: _Job[T, R], batch: _Batch[T, R]) -> R:
        """Wait for a job and return or raise what became of it."""
        while not job.done.wait(0.2):  # in pieces: on some systems Ctrl-C does not end a longer wait
            # After bad news, what is under way may still come, and was paid for; after close() nobody waits.
            if batch.halt.is_set() and batch.fatal is None:
                break
        if job.results:
            return job.results[0]
        if batch.fatal is not None:
            raise UsageError(str(batch.fatal)) from None  # anew, without the worker's variables in its traceback
        if job.error is None or isinstance(job.error, Stopped):
            raise VerismError(f"openai: closed while {self._noun}s were still asked for")
        raise job.error

    # ---------------------------------------------------------------------------------------------------------- asking
    def insist(self, attempt: Callable[[int], T], halt: threading.Event) -> T:
        """Make attempts until one succeeds, see ``persist``; further tries are counted.

        Raises:
            UsageError: the service was never reached, by this attempt or any before.
            NotThisTime, Refused, Failed, Stopped: of the last attempt.
        """

        def in_turn(answers: int) -> T:
            self.pacer.turn(halt)
            return attempt(answers)

        try:
            return persist(in_turn, self.pacer, halt, retries=self.retries, on_retry=lambda: self.count("retries"))
        except NotThisTime as err:
            if err.unreachable and not self._heard:
                raise UsageError(
                    f"openai: {self.base_url} cannot be reached: {err.reason}. Check base_url and the network"
                ) from None
            raise

    def post(
        self, body: Mapping[str, Any], *, limit: int, fixed: Collection[str], headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Send one request and return the JSON object of a successful answer.

        Args:
            limit: bytes of the answer. fixed: fields that every request holds alike.

        Raises:
            UsageError: what concerns every request: key, model, quota, one of the ``fixed`` fields.
            Refused: what it asks is against the service's policy. NotThisTime: may pass. Failed: will not.
        """
        self.count("posts")
        own = {"Content-Type": "application/json", "Accept": "application/json", **(headers or {})}
        answer = self.exchange("POST", self.endpoint, limit=limit, content=json.dumps(body).encode(), headers=own)
        self._heard = True
        self._check(answer, fixed)
        return self._parse(answer)

    def exchange(
        self,
        method: str,
        url: str,
        *,
        limit: int,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request and read its whole answer. The key goes along only to the origin of the base address.

        Raises:
            NotThisTime: no connection, none in time, or cut off. Failed: a longer answer than ``limit`` bytes.
        """
        httpx, client = self._httpx, self._client
        if client is None:
            raise Stopped("closed")
        auth = self._auth if origin(url) == origin(self.base_url) else None
        deadline = time.monotonic() + self.timeout
        try:
            with client.stream(method, url, content=content, headers=headers, auth=auth) as response:
                chunks: list[bytes] = []
                size = 0
                for chunk in response.iter_bytes():
                    chunks.append(chunk)
                    size += len(chunk)
                    if size > limit:
                        raise Failed(f"the service sent more than {limit >> 20} MiB for one {self._noun}")
                    if time.monotonic() > deadline:  # the client's own limit is per piece, and pieces may drip
                        raise NotThisTime(f"no complete answer within {self.timeout:g} s")
                return Answer(response.status_code, dict(response.headers), b"".join(chunks))
        except httpx.TimeoutException as err:
            unreachable = isinstance(err, httpx.ConnectTimeout)
            what = "no connection" if unreachable else "no answer"
            raise NotThisTime(f"{what} within {self.timeout:g} s", unreachable=unreachable) from None
        except (httpx.RequestError, httpx.StreamError) as err:
            unreachable = isinstance(err, httpx.ConnectError)
            what = "no connection" if unreachable else "the connection broke"
            # Our own texts say it all but for causes such as certificates; never the request, which holds the key.
            detail = self.redact(str(err), 160)
            raise NotThisTime(f"{what}{f' ({detail})' if detail else ''}", unreachable=unreachable) from None
        except RuntimeError:
            if self._client is client:
                raise
            raise Stopped("closed") from None  # by close(), from another thread

    def _check(self, answer: Answer, fixed: Collection[str]) -> None:
        """Raise what the status of an answer means, if it is no success."""
        status = answer.status
        if 200 <= status < 300:
            return
        if 300 <= status < 400:
            target = self.redact(answer.headers.get("location", "").partition("?")[0], 200)
            raise UsageError(
                f"openai: {self.base_url} redirects to {target!r}. A key is not sent to where a service redirects; "
                "if you trust that place, give it as base_url"
            )
        complaint = _Complaint.of(answer)
        said = self._said(answer, complaint)
        here = f"openai: {self.base_url}, model {self.model}: {said}."
        if status == 402 or complaint.codes & NO_MONEY:
            raise UsageError(
                f"{here} The account has no credit or quota left. What came so far is kept, and the same command "
                "goes on from there"
            )
        refused = bool(complaint.codes & REFUSALS)
        if complaint.codes & EVERY_REQUEST or (status in (401, 403, 404, 405, 410) and not refused):
            raise UsageError(f"{here} {self._advice(status, complaint)}")
        if status in (400, 422) and complaint.param in {"model", *fixed}:
            raise UsageError(f"{here} It concerns {complaint.param!r}, which every request holds; change that setting")
        if refused or (status in (400, 422) and speaks_of_policy(complaint.message)):
            raise Refused(said)
        if status in (408, 409, 425, 429) or status >= 500:
            wait_s = retry_after(answer.headers)
            raise NotThisTime(
                said,
                wait_s=wait_s,
                crowded=status == 429 or (status == 503 and wait_s is not None),
                # What a service keeps by its idempotency key would be repeated; answers of gateways are not kept.
                answered=status == 500,
            )
        raise Failed(said)

    def _said(self, answer: Answer, complaint: _Complaint) -> str:
        text = self.redact(complaint.message, 400).rstrip(". ")
        code = self.redact(", ".join(sorted(complaint.codes)), 80)
        number = self.redact(answer.headers.get("x-request-id", ""), 60)
        aside = "; ".join(part for part in (code, f"request {number}" if number else "") if part)
        return f"HTTP {answer.status}{f': {text}' if text else ''}{f' ({aside})' if aside else ''}"

    def _advice(self, status: int, complaint: _Complaint) -> str:
        if status in (401, 403) or "invalid_api_key" in complaint.codes:
            if self.key_env is None:
                return "No key was sent: name the environment variable that holds it by key_env"
            return f"Check the key in {self.key_env}, and that it may use this model"
        return "Check the name of the model, and base_url"

    def _parse(self, answer: Answer) -> dict[str, Any]:
        """The JSON object of a successful answer, unless it tells of an error."""
        try:
            data = json.loads(answer.body)
        except (ValueError, RecursionError):
            text = self.redact(_message_of_page(answer.body), 120)
            raise NotThisTime(f"HTTP {answer.status}, but the answer is no JSON: {text!r}", answered=True) from None
        if not isinstance(data, dict):
            raise NotThisTime(f"HTTP {answer.status}, but the answer is no JSON object", answered=True)
        if data.get("error"):
            complaint = _Complaint.of_json(data)
            said = self._said(answer, complaint)
            if complaint.codes & NO_MONEY:
                raise UsageError(f"openai: {self.base_url}, model {self.model}: {said}. The account has no quota left")
            if complaint.codes & REFUSALS or speaks_of_policy(complaint.message):
                raise Refused(said)
            raise NotThisTime(said, answered=True)
        return data


@cache
def _certificates(purpose: str) -> ssl.SSLContext:
    """Read once: it takes longer than many an answer."""
    context: ssl.SSLContext = require("httpx", extra="api", purpose=purpose).create_ssl_context()
    return context


def parse_extra(text: str) -> Any:
    """The value of an ``extra.NAME=value`` option: JSON where it is JSON (7.5, true, null, {...}), else text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(value, float) and not math.isfinite(value) else value  # NaN is no JSON, but Python's


def speaks_of_policy(text: str) -> bool:
    """Whether a message is about what a service does not allow."""
    return REFUSAL_WORDS.search(text[:4000]) is not None  # the pattern may take the square of a hostile text's length


def as_json(value: Any) -> str:
    """A value out of a JSON answer as JSON text."""
    try:
        return json.dumps(value)
    except RecursionError:  # nested to the very limit that reading it allowed
        return "(nested too deeply)"


def natural(value: Any) -> int:
    """A positive count out of an answer; 0 for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**12 else 0


def check_range(name: str, value: float, low: float, high: float) -> None:
    """Raise UsageError unless a setting lies in its range."""
    if not low <= value <= high:  # also true of NaN
        raise UsageError(f"openai: {name} must lie between {low:g} and {high:g}, got {value}")


def _host(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""  # refused with a reason by check_base_url


def _check_variable(option: str, name: str | None) -> None:
    """Refuse what is no name of a variable, without repeating it: it may be the key itself."""
    if name is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise UsageError(
            f"openai: {option} is the name of an environment variable (letters, digits, _), such as OPENAI_API_KEY. If "
            "it was the key itself: put it into a variable and give that one's name"
        )


def _shown(variable: str) -> str:
    """A variable's name for a message, if it looks like one: someone may have given a key instead."""
    return variable if re.fullmatch(r"[A-Z][A-Z0-9_]{0,60}", variable) else "named by key_env"


def _variable(name: str | None, option: str) -> str:
    """The value of an environment variable without surrounding white space; empty if there is none."""
    value = os.environ.get(name, "").strip() if name else ""
    if not all(33 <= ord(c) <= 126 for c in value):
        raise UsageError(
            f"openai: the environment variable of {option} holds white space or characters that no key has; "
            "set it anew, perhaps a line too many was copied"
        )
    return value


def check_extra(extra: Mapping[str, Any], reserved: Collection[str]) -> dict[str, Any]:
    """Further JSON fields of requests, or UsageError: one of the ``reserved``, a secret, or no JSON."""
    for name in extra:
        if name in reserved:
            raise UsageError(f"openai: extra.{name} would overwrite a field that is set otherwise")
        if SECRET_NAMES.search(name):
            raise UsageError(
                f"openai: extra.{name} looks like a secret, and extra fields are written into the run; keys are read "
                "from the environment variable named by key_env"
            )
    try:
        json.dumps(extra, allow_nan=False)
    except (TypeError, ValueError) as err:
        raise UsageError(f"openai: the extra fields cannot be sent as JSON: {clean_text(str(err), 100)}") from None
    return dict(extra)
