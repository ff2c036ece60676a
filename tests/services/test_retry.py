"""Retries, back-off and the limits that workers share, on a clock that only waiting moves."""

import threading
import time
from collections.abc import Callable
from email.utils import formatdate

import pytest
from service_fakes import FakeClock

from verism.services.retry import MAX_WAIT, Failed, RateLimiter, Refused, Stopped, TransientError, retry, retry_after


def limiter_of(clock: FakeClock, per_minute: float | None = None, draw: float = 0.5) -> RateLimiter:
    return RateLimiter(per_minute, clock=clock, draw=lambda: draw)


def failing(times: int, **details: object) -> Callable[[int], str]:
    """An attempt that fails so often, and then succeeds."""
    left = [times]

    def attempt(_: int) -> str:
        left[0] -= 1
        if left[0] >= 0:
            raise TransientError("busy", **details)
        return "done"

    return attempt


# -------------------------------------------------------------------------------------------------------- Retry-After
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "-4"}, 0),
        ({"retry-after": "9999"}, MAX_WAIT),
        ({"retry-after": formatdate(1_000_030, usegmt=True)}, 30),
        ({"retry-after": formatdate(1_000_030)}, 30),  # with -0000 for a zone
        ({"retry-after": formatdate(999_000, usegmt=True)}, 0),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "2"}, 2),
        ({"retry-after-ms": "nan", "retry-after": "2"}, 2),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, MAX_WAIT),
        ({"retry-after": ""}, None),
        ({"retry-after": "Mon, 99 Foo 2020 00:00:00 GMT"}, None),
        ({}, None),
    ],
)
def test_retry_after_in_all_its_forms_is_seconds(
    headers: dict[str, str], seconds: float | None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TZ", "Asia/Tokyo")  # dates are of Greenwich, wherever we are
    time.tzset()
    try:
        assert retry_after(headers, now=1_000_000) == seconds
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()


# ------------------------------------------------------------------------------------------------------------ retries
def test_retry_waits_for_a_doubling_span_of_at_most_a_minute():
    clock = FakeClock()
    assert retry(failing(8), limiter_of(clock), threading.Event(), retries=8) == "done"
    assert clock.waits == [0.5, 1, 2, 4, 8, 16, 30, 30]  # half of 1, 2, 4 ... 64, where 60 is the most


def test_retry_waits_as_long_as_the_service_asks_but_never_not_at_all():
    clock = FakeClock()
    retry(failing(2, wait_s=17.0), limiter_of(clock), threading.Event(), retries=2)
    retry(failing(1, wait_s=0.0), limiter_of(clock), threading.Event(), retries=2)
    assert clock.waits == [17, 17, 0.5]


@pytest.mark.parametrize(("retries", "says"), [(0, "busy; gave up after 1 try"), (3, "busy; gave up after 4 tries")])
def test_retry_that_never_succeeds_raises_the_last_error_with_the_number_of_tries(retries: int, says: str):
    retried: list[int] = []
    with pytest.raises(TransientError) as err:
        retry(
            failing(99),
            limiter_of(FakeClock()),
            threading.Event(),
            retries=retries,
            on_retry=lambda: retried.append(1),
        )
    assert str(err.value) == says
    assert len(retried) == retries


@pytest.mark.parametrize("error", [Refused("no"), Failed("no"), ZeroDivisionError("no")])
def test_retry_of_an_error_that_does_not_pass_makes_one_attempt(error: Exception):
    attempts: list[int] = []

    def attempt(_: int) -> None:
        attempts.append(1)
        raise error

    with pytest.raises(type(error), match=r"^no$"):
        retry(attempt, limiter_of(FakeClock()), threading.Event(), retries=9)
    assert len(attempts) == 1


def test_retry_tells_each_attempt_how_many_useless_answers_came_before():
    collected: list[int] = []

    def attempt(answers: int) -> None:
        collected.append(answers)
        raise TransientError("odd", answered=len(collected) != 2)

    with pytest.raises(TransientError):
        retry(attempt, limiter_of(FakeClock()), threading.Event(), retries=3)
    assert collected == [0, 1, 1, 2]


def test_retry_of_a_crowded_request_is_free_while_others_are_served():
    limiter = limiter_of(FakeClock())
    attempts: list[int] = []

    def unlucky(_: int) -> str:
        attempts.append(1)
        if len(attempts) < 30:
            if len(attempts) % 3 == 0:
                limiter.count_served()  # somebody else's image
            raise TransientError("crowded", crowded=True)
        return "mine"

    assert retry(unlucky, limiter, threading.Event(), retries=4) == "mine"
    with pytest.raises(TransientError, match=r"busy; gave up after 5 tries"):
        retry(failing(99, crowded=True), limiter, threading.Event(), retries=4)


def test_retry_of_failures_counts_them_although_others_are_served():
    limiter = limiter_of(FakeClock())

    def attempt(_: int) -> None:
        limiter.count_served()
        raise TransientError("broken")

    with pytest.raises(TransientError, match="gave up after 3 tries"):
        retry(attempt, limiter, threading.Event(), retries=2)


def test_retry_of_a_crowded_request_makes_everybody_pause():
    clock = FakeClock()
    limiter = limiter_of(clock, draw=0.0)

    def crowded_once(_: int) -> float:
        if clock.time == 1000:
            raise TransientError("crowded", crowded=True, wait_s=7)
        return clock.time

    other: list[float] = []

    def on_retry() -> None:
        assert clock.time == 1000  # the pause has begun, and another worker asks before it is over
        retry(lambda _: other.append(clock.time), limiter, threading.Event(), retries=0)

    assert retry(crowded_once, limiter, threading.Event(), retries=1, on_retry=on_retry) == 1007
    assert other == [1007]


# ------------------------------------------------------------------------------------------------------------- limits
def test_rate_limiter_shorter_pause_does_not_end_a_longer_one():
    clock = FakeClock()
    limiter = limiter_of(clock, draw=0.0)
    limiter.pause(10)
    limiter.pause(2)
    limiter.wait_for_pause(threading.Event())
    assert clock.time == 1010


def test_rate_limiter_pause_is_left_up_to_a_quarter_later():
    clock = FakeClock()
    limiter = limiter_of(clock, draw=1.0)
    limiter.pause(8)
    limiter.wait_for_pause(threading.Event())
    assert clock.waits == [10]


def test_rate_limiter_per_minute_spreads_requests_evenly():
    clock = FakeClock()
    limiter = limiter_of(clock, per_minute=12)
    starts = []
    for _ in range(4):
        limiter.wait_for_turn(threading.Event())
        starts.append(clock.time)
    assert starts == [1000, 1005, 1010, 1015]  # 60 / 12 = 5 seconds
    clock.time = 2000  # turns that nobody took are not saved up
    for _ in range(2):
        limiter.wait_for_turn(threading.Event())
    assert clock.time == 2005


def test_rate_limiter_without_a_rate_never_waits():
    clock = FakeClock()
    limiter = limiter_of(clock)
    for _ in range(100):
        limiter.wait_for_turn(threading.Event())
    assert clock.waits == []


@pytest.mark.parametrize("wait", ["wait_for_pause", "wait_for_turn", "wait"])
def test_rate_limiter_waits_end_at_once_when_halted(wait: str):
    halt = threading.Event()
    limiter = RateLimiter(per_minute=1)
    limiter.pause(60)
    limiter.wait_for_turn(halt)
    threading.Timer(0.05, halt.set).start()
    began = time.monotonic()
    with pytest.raises(Stopped):
        getattr(limiter, wait)(*([60] if wait == "wait" else []), halt)
    assert time.monotonic() - began < 10  # and not the minute


def test_retry_after_the_halt_makes_no_attempt():
    halt = threading.Event()
    halt.set()
    with pytest.raises(Stopped):
        retry(lambda _: pytest.fail("asked"), limiter_of(FakeClock()), halt, retries=1)
