"""Retries, back-off and rate limits that all workers of a service share.

The loop and its exponential back-off are tenacity's. What is ours: a pause that all workers keep together, waits that
end at once when the work is ended, and the rule that being turned away for crowding does not count while others are
served.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from verism.errors import VerismError, require

__all__ = ["MAX_WAIT", "Clock", "Failed", "RateLimiter", "Refused", "Stopped", "TransientError", "retry", "retry_after"]

T = TypeVar("T")

MAX_WAIT = 120.0  # seconds; a service that asks for more is asked again then, or its requests end as failed
MAX_BACKOFF = 60.0  # seconds


class Stopped(VerismError):
    """The work was ended from outside before it was done."""


class Refused(Exception):
    """The service will not do this; the text is what it says."""


class Failed(Exception):
    """No result, and asking again would not help (or was done often enough). The text is the reason."""


@dataclass(eq=False)
class TransientError(Exception):
    """An attempt that failed in a way that may pass.

    Attributes:
        reason: what happened.
        wait_s: how long the service asks to wait, in seconds; None if it does not say.
        limited: the service refused it because of a rate limit.
        crowded: the service had too many requests, so every worker waits and not only this one.
        answered: the service did answer, only uselessly; a copy of that answer would not help either.
        unreachable: no connection came about.
        down: nothing but an error came, or nothing at all, as from a service that is down.
        attempts: how many were made, once no more will be; 0 before.
        deadline_s: seconds that were allowed for all of them, if no more were made because they are over; 0 otherwise.
    """

    reason: str
    wait_s: float | None = field(default=None, kw_only=True)
    limited: bool = field(default=False, kw_only=True)
    crowded: bool = field(default=False, kw_only=True)
    answered: bool = field(default=False, kw_only=True)
    unreachable: bool = field(default=False, kw_only=True)
    down: bool = field(default=False, init=False)
    attempts: int = field(default=0, init=False)
    deadline_s: float = field(default=0.0, init=False)

    def __str__(self) -> str:
        tries = f"; gave up after {self.attempts} {'try' if self.attempts == 1 else 'tries'}"
        if self.deadline_s:
            tries += f", as the next one would begin after the {self.deadline_s:g} s that a request may take (deadline)"
        return f"{self.reason}{tries if self.attempts else ''}"


def retry_after(headers: Mapping[str, str], *, now: float | None = None) -> float | None:
    """Seconds a service asks to wait, in [0, MAX_WAIT]; None if it does not say, or nothing sensible.

    Understood are ``retry-after-ms`` and ``Retry-After`` as seconds or as an HTTP date (RFC 9110, Sec. 10.2.3).

    Args:
        headers: looked up in lower case.
        now: seconds since the epoch, for dates; the time of the call if None.
    """
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name, "").strip()
        try:
            seconds = float(text) * scale
        except ValueError:
            try:
                date = parsedate_to_datetime(text)
            except (ValueError, TypeError, OverflowError):
                continue
            date = date if date.tzinfo is not None else date.replace(tzinfo=UTC)
            seconds = date.timestamp() - (time.time() if now is None else now)
        if not math.isnan(seconds):
            return min(max(seconds, 0.0), MAX_WAIT)
    return None


class Clock:
    """Real time, in which setting an event ends a wait."""

    def now(self) -> float:
        """Seconds, only ever growing."""
        return time.monotonic()

    def wait(self, seconds: float, halt: threading.Event) -> None:
        """Wait so long, or until ``halt`` is set."""
        halt.wait(seconds)


class RateLimiter:
    """When the workers of a service may ask: the pause and the pace that they share.

    Args:
        per_minute: highest number of requests per minute, evenly spread, 0.01 to 1,000,000. None: no limit of ours.
        clock: real time if None.
        draw: a number in [0, 1) per call, for jitter; of the system's generator if None.
    Attributes:
        clock: source of time; may be replaced before the first request.
        draw: returns a random number in [0, 1) for jitter.
        served: number of results that came so far: whether a crowded service still moves.
    """

    def __init__(
        self, per_minute: float | None = None, *, clock: Clock | None = None, draw: Callable[[], float] | None = None
    ) -> None:
        self.clock = clock or Clock()
        # Not seeded: workers of several runs must not wait in step, and no result depends on it.
        self.draw = draw or random.SystemRandom().random
        self.served = 0
        self._interval_s = 60 / per_minute if per_minute else 0.0
        self._lock = threading.Lock()
        self._next_turn = self._resume_at = -math.inf

    def count_served(self) -> None:
        """Note that a result came."""
        with self._lock:
            self.served += 1

    def pause(self, seconds: float) -> None:
        """Let nobody ask for so many seconds from now; a longer pause under way stays."""
        with self._lock:
            self._resume_at = max(self._resume_at, self.clock.now() + seconds)

    def wait(self, seconds: float, halt: threading.Event) -> None:
        """Wait; ends early by raising ``Stopped`` once ``halt`` is set."""
        if not halt.is_set():
            self.clock.wait(seconds, halt)
        if halt.is_set():
            raise Stopped("stopped while waiting")

    def wait_for_pause(self, halt: threading.Event) -> None:
        """Wait until the shared pause is over, up to a quarter longer so that not all ask in the same moment."""
        while True:
            with self._lock:
                left = self._resume_at - self.clock.now()
            if halt.is_set():
                raise Stopped("stopped while waiting")
            if left <= 0:
                return
            self.wait(left * (1 + 0.25 * self.draw()), halt)

    def wait_for_turn(self, halt: threading.Event) -> None:
        """Wait for the next request that ``per_minute`` allows all workers together, in the order of asking."""
        if not self._interval_s:
            return
        with self._lock:
            now = self.clock.now()
            start = max(self._next_turn, now)
            self._next_turn = start + self._interval_s
        if start > now:
            self.wait(start - now, halt)


def retry(
    attempt: Callable[[int], T],
    limiter: RateLimiter,
    halt: threading.Event,
    *,
    retries: int,
    deadline: float = math.inf,
    on_retry: Callable[[], None] = lambda: None,
) -> T:
    """Make attempts until one succeeds.

    Before the n-th retry it waits as long as the service asked for, or a random time of up to 1, 2, 4 ... 60 seconds:
    drawing from the whole span spreads out workers that failed together ("full jitter", M. Brooker, "Exponential
    Backoff And Jitter", AWS Architecture Blog 2015). Being turned away for crowding is forgotten once anybody was
    served: where the service allows five a minute, unlucky requests lose the race many times, and nothing is wrong
    with them.

    Args:
        attempt: is given how many useless but complete answers came before.
        limiter: shared by all workers.
        halt: ends the waits.
        retries: attempts after the first that count.
        deadline: seconds after which no attempt starts; an attempt that would wait beyond it is not waited for.
        on_retry: called before each attempt but the first.

    Raises:
        TransientError: of the last attempt. Stopped: ``halt`` was set.
        Whatever else the attempt raises.
    """
    tenacity = require("tenacity", extra="api", purpose="asking a service again")
    span = tenacity.wait_exponential(max=MAX_BACKOFF)
    counts: Counter[str] = Counter()
    over_at = limiter.clock.now() + deadline

    def stop(state: Any) -> bool:
        error: TransientError = state.outcome.exception()
        late = limiter.clock.now() + state.upcoming_sleep > over_at
        if late:
            error.deadline_s = deadline
        return late or bool(tenacity.stop_after_attempt(retries + 1)(state))

    def before(_: Any) -> None:
        limiter.wait_for_pause(halt)
        counts["served"] = limiter.served

    def after(state: Any) -> None:
        error: TransientError = state.outcome.exception()
        if limiter.served > counts["served"]:
            counts["crowded"] = 0
        counts["crowded" if error.crowded else "failed"] += 1
        counts["answered"] += error.answered
        counts["attempts"] += 1
        error.attempts = counts["attempts"]
        state.attempt_number = counts["crowded"] + counts["failed"]  # what stop and wait go by

    def wait(state: Any) -> float:
        # "At once" is not taken literally: services say so while they are down.
        error: TransientError = state.outcome.exception()
        return error.wait_s or limiter.draw() * float(span(state))

    def before_sleep(state: Any) -> None:
        if state.outcome.exception().crowded:
            limiter.pause(state.upcoming_sleep)  # kept by everybody, see before()
        else:
            limiter.wait(state.upcoming_sleep, halt)
        on_retry()

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(TransientError),
        stop=stop,
        before=before,
        after=after,
        wait=wait,
        before_sleep=before_sleep,
        sleep=lambda _: None,
        reraise=True,
    )
    try:
        result: T = retrying(lambda: attempt(counts["answered"]))
    except (TransientError, Refused, Failed, VerismError) as err:
        # tenacity's record of the last attempt holds the error, and its frame the record: what was asked would stay in
        # memory until the collector of cycles comes.
        raise err.with_traceback(None) from None
    return result
