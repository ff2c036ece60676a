"""The client against a service that exists only in memory; broken connections are in test_openai_images.py."""

import json
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from service_fakes import FakeClock

import verism
from verism.errors import UsageError, VerismError
from verism.services import LOOK_AHEAD, Outcome, ServiceClient, ServiceOptions, TransientError

KEY = "sk-test-" + "Wx4" * 9
Reply = Callable[[Any], Any]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch, clock: FakeClock) -> Iterator[Callable[..., ServiceClient]]:
    """Clients of a service whose answers are those of a function of the request."""
    monkeypatch.setenv("VERISM_TEST_KEY", KEY)
    made: list[ServiceClient] = []

    def build(reply: Reply, **options: Any) -> ServiceClient:
        monkeypatch.setattr(httpx, "Client", partial(RealClient, transport=httpx.MockTransport(reply)))
        usual = {"base_url": "https://h.example/v1", "key_env": "VERISM_TEST_KEY"}
        client = ServiceClient("m", ServiceOptions(**(usual | options)), role="captioner", path="/chat", noun="caption")
        client.limiter.clock = clock
        client.open()
        made.append(client)
        return client

    yield build
    for client in made:
        client.close()


RealClient = httpx.Client


def post(client: ServiceClient, number: int = 0) -> dict[str, Any]:
    return client.post({"n": number, "size": 1}, threading.Event(), limit=1000, fixed={"size"})


def answers(client: ServiceClient, items: Any) -> Iterator[Outcome[Any]]:
    def one(item: Any, halt: threading.Event) -> Outcome[Any]:
        return client.ask(lambda _: client.post({"n": item}, halt, limit=1000, fixed=()), halt)

    return client.in_order(items, one)


def number_of(request: Any) -> int:
    return int(json.loads(request.content)["n"])


# --------------------------------------------------------------------------------------------------- order and ending
def test_in_order_answers_that_come_in_any_order_are_yielded_in_that_of_the_items(make: Any):
    def reply(request: Any) -> Any:
        time.sleep(0.004 * (number_of(request) % 3 == 0))  # others overtake
        return httpx.Response(200, json={"n": number_of(request)})

    outcomes = list(answers(make(reply, concurrency=3), range(30)))
    assert [o.result["n"] for o in outcomes] == list(range(30))


def test_in_order_draws_no_more_items_than_may_lie_ready(make: Any):
    drawn: list[int] = []

    def items() -> Iterator[int]:
        for i in range(100):
            drawn.append(i)
            yield i

    results = answers(make(lambda r: httpx.Response(200, json={"n": number_of(r)}), concurrency=2), items())
    next(results)
    assert len(drawn) == 2 * LOOK_AHEAD
    next(results)
    assert len(drawn) == 2 * LOOK_AHEAD + 1
    results.close()


def test_in_order_error_in_the_items_reaches_the_taker(make: Any):
    def items() -> Iterator[int]:
        yield 0
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(answers(make(lambda _: httpx.Response(200, json={})), items()))


def test_close_while_an_answer_is_awaited_ends_the_wait(make: Any):
    release = threading.Event()

    def reply(_: Any) -> Any:
        release.wait(20)
        return httpx.Response(200, json={})

    client = make(reply)
    threading.Timer(0.1, client.close).start()
    began = time.monotonic()
    with pytest.raises(VerismError, match=r"^captioner openai:m: closed while captions were still asked for$"):
        list(answers(client, range(3)))
    assert time.monotonic() - began < 10
    release.set()


def test_in_order_after_what_concerns_every_request_keeps_earlier_answers_and_asks_no_more(make: Any):
    asked: list[int] = []

    def reply(request: Any) -> Any:
        asked.append(number_of(request))
        return httpx.Response(401 if number_of(request) == 2 else 200, json={})

    outcomes = answers(make(reply, concurrency=1), range(50))
    assert [next(outcomes).state, next(outcomes).state] == ["ok", "ok"]
    with pytest.raises(UsageError, match="HTTP 401") as err:
        next(outcomes)
    assert asked == [0, 1, 2]
    assert str(err.value).startswith("captioner openai:m: https://h.example/v1: HTTP 401. Check the key in VERISM_TEST")


# ----------------------------------------------------------------------------------------------- outcomes and messages
@pytest.mark.parametrize(
    ("status", "data", "state", "reason"),
    [
        (200, {"x": 1}, "ok", ""),
        (400, {"error": {"message": "no", "code": "content_filter"}}, "refused", "HTTP 400: no (content_filter)"),
        (400, {"error": {"message": "flagged by moderation"}}, "refused", "HTTP 400: flagged by moderation"),
        (200, {"error": {"message": "against our usage policies"}}, "refused", "HTTP 200: against our usage policies"),
        (413, {"error": "too long"}, "failed", "HTTP 413: too long"),
        (502, {}, "failed", "HTTP 502; gave up after 2 tries"),
        (200, [1], "failed", "HTTP 200, but the answer is no JSON object; gave up after 2 tries"),
    ],
)
def test_ask_counts_and_returns_what_became_of_a_request(make: Any, status: int, data: Any, state: str, reason: str):
    client = make(lambda _: httpx.Response(status, json=data), retries=1)
    (outcome,) = answers(client, [0])
    assert outcome == Outcome(data if state == "ok" else None, state, reason)
    assert client.counts[state] == 1
    assert client.limiter.served == (state == "ok")
    retries = int("tries" in reason)
    assert re.fullmatch(
        rf"{1 + retries} requests \({retries} retries\) in [\d.]+ s: {client.counts['ok']} captions, "
        rf"{client.counts['refused']} refused, {client.counts['failed']} failed",
        client.summary("captions"),
    )


@pytest.mark.parametrize(
    ("status", "data", "says"),
    [
        (402, {}, "no credit or quota left"),
        (429, {"error": {"code": "insufficient_quota"}}, "no credit or quota left"),
        (404, {}, "Check the name of the model, and base_url"),
        (400, {"error": {"param": "size", "message": "bad"}}, "It concerns 'size', which every request holds"),
        (307, {}, "redirects to ''. A key is not sent to where a service redirects"),
        (200, {"error": {"code": "insufficient_quota"}}, "The account has no quota left"),
    ],
)
def test_post_answered_with_what_concerns_every_request_names_the_judge(make: Any, status: int, data: Any, says: str):
    with pytest.raises(UsageError, match=f"^captioner openai:m: .*{says}"):
        post(make(lambda _: httpx.Response(status, json=data)))


def test_post_answered_with_retry_after_is_as_crowded_as_the_status_says(make: Any):
    def error_of(status: int, **headers: str) -> TransientError:
        with pytest.raises(TransientError) as err:
            post(make(lambda _: httpx.Response(status, headers=headers)))
        return err.value

    assert (error_of(429).crowded, error_of(503).crowded, error_of(500).crowded) == (True, False, False)
    slow = error_of(503, **{"Retry-After": "9"})
    assert (slow.crowded, slow.wait_s) == (True, 9)
    assert (error_of(500).answered, error_of(502).answered) == (True, False)


def test_post_per_minute_waits_for_its_turn_and_other_exchanges_do_not(make: Any, clock: FakeClock):
    client = make(lambda _: httpx.Response(200, json={}), per_minute=6)
    for number in range(3):
        post(client, number)
        client.exchange("GET", "https://h.example/file", limit=10)
    assert clock.waits == [10, 10]


def test_retry_of_a_service_that_was_never_reached_blames_the_address(make: Any):
    up: list[bool] = []

    def reply(request: Any) -> Any:
        if up:
            return httpx.Response(200, json={})
        raise httpx.ConnectError("nobody there", request=request)

    client = make(reply, retries=1)
    with pytest.raises(
        UsageError,
        match=r"^captioner openai:m: https://h.example/v1 cannot be reached: no connection \(nobody there\); gave up "
        r"after 2 tries. Check base_url and the network$",
    ):
        list(answers(client, [0]))
    up.append(True)
    assert [o.state for o in answers(client, [0])] == ["ok"]
    up.clear()
    assert [o.state for o in answers(client, [0])] == ["failed"]  # it was there: this costs single items


def test_exchange_of_too_long_an_answer_fails_the_item(make: Any):
    client = make(lambda _: httpx.Response(200, content=b"x" * 1001))
    (outcome,) = answers(client, [0])
    assert (outcome.state, outcome.reason) == ("failed", "the service sent more than 0 MiB for one caption")


def test_exchange_sends_the_key_to_the_origin_of_the_service_alone(make: Any):
    seen: dict[str, str | None] = {}

    def reply(request: Any) -> Any:
        seen[str(request.url)] = request.headers.get("Authorization")
        return httpx.Response(200, json={})

    client = make(reply)
    urls = ("https://h.example/other", "https://h.example:8443/v1", "http://h.example/v1", "https://h.example.org/v1")
    for url in urls:
        client.exchange("GET", url, limit=10)
    assert seen == {urls[0]: f"Bearer {KEY}", **dict.fromkeys(urls[1:])}


def test_exchange_with_what_is_no_address_is_a_value_error(make: Any):
    with pytest.raises(ValueError, match=r"^not an address$"):
        make(lambda _: httpx.Response(200)).exchange("GET", "http://\x7f/", limit=10)


def test_open_without_a_key_names_the_judge_and_the_variable():
    client = ServiceClient("m", ServiceOptions(key_env="VERISM_NO_KEY"), role="VQA model", path="/chat", noun="answer")
    with pytest.raises(UsageError, match=r"^VQA model openai:m: no key\. .* variable VERISM_NO_KEY"):
        client.open()


@pytest.mark.parametrize("model", ["", "a\nb", "x" * 201])
def test_client_of_no_name_of_a_model_is_refused(model: str):
    with pytest.raises(UsageError, match=r"^captioner openai: name a model"):
        ServiceClient(model, ServiceOptions(), role="captioner", path="/chat", noun="caption")


# -------------------------------------------------------------------------------------------------------- architecture
def test_no_other_part_loads_an_http_library():
    root = Path(verism.__file__).parent
    pattern = re.compile(r"""(?:require\(|import_module\(|import |from )["']?(?:httpx|tenacity|requests|aiohttp)\b""")
    users = {p.relative_to(root).parts[0] for p in root.rglob("*.py") if pattern.search(p.read_text("utf-8"))}
    assert users == {"services"}


# --------------------------------------------------------------------------------------------------- a service is down
def down(number: int) -> Any:
    return httpx.Response(503, json={"error": {"message": f"no {number}"}})


def test_requests_given_up_in_a_row_end_the_work_and_are_not_among_the_answers(make: Any):
    asked: list[int] = []

    def reply(request: Any) -> Any:
        asked.append(number_of(request))
        return down(asked[-1]) if asked[-1] >= 10 else httpx.Response(200, json={})

    client = make(reply, retries=1, concurrency=1)
    outcomes = []
    with pytest.raises(
        UsageError,
        match=r"^captioner openai:m: https://h.example/v1 answered none of 5 requests in a row; the last one: "
        r"HTTP 503: no 14; gave up after 2 tries. Finished work is kept; repeat the command when the service answers, "
        r"or with a higher give_up if only these requests fail$",
    ):
        outcomes.extend(answers(client, range(100)))
    assert [o.state for o in outcomes] == ["ok"] * 10
    assert asked == [*range(10), *(n for n in range(10, 15) for _ in range(2))]


def test_a_rate_limit_that_never_gives_way_is_named_with_what_to_do(make: Any):
    def reply(request: Any) -> Any:
        return httpx.Response(429, json={"error": {"message": f"no {number_of(request)}"}})

    with pytest.raises(
        UsageError,
        match=r"^captioner openai:m: https://h.example/v1 refused 5 requests in a row because of its rate limit, each "
        r"to the last retry; the last one: HTTP 429: no 4; gave up after 2 tries. Finished work is kept; wait, and "
        r"repeat the command, with a lower concurrency or per_minute behind the name of the model$",
    ):
        list(answers(make(reply, retries=1, concurrency=1), range(9)))


@pytest.mark.parametrize("first", [429, 503])
def test_a_rate_limit_is_only_named_where_nothing_else_went_wrong(make: Any, first: int):
    def reply(request: Any) -> Any:
        return httpx.Response(first if number_of(request) == 0 else {429: 503, 503: 429}[first], json={})

    with pytest.raises(UsageError, match=r"^captioner openai:m: https://h.example/v1 answered none of 5 requests"):
        list(answers(make(reply, retries=0, concurrency=1), range(9)))
    between = [503, 200, 429, 429, 429, 429, 429]
    with pytest.raises(UsageError, match="refused 5 requests in a row"):
        list(
            answers(make(lambda r: httpx.Response(between[number_of(r)], json={}), retries=0, concurrency=1), range(7))
        )


def test_requests_given_up_in_a_row_are_counted_over_several_calls(make: Any):
    client = make(lambda request: down(number_of(request)), retries=0)
    for number in range(4):
        assert [o.state for o in answers(client, [number])] == ["failed"]
    with pytest.raises(UsageError, match="answered none of 5 requests in a row"):
        list(answers(client, [4]))


@pytest.mark.parametrize("between", [{"status_code": 200, "json": {}}, {"status_code": 400, "json": {}}])
def test_requests_given_up_with_any_answer_between_cost_single_items(make: Any, between: dict[str, Any]):
    def reply(request: Any) -> Any:
        return httpx.Response(**between) if number_of(request) % 5 == 4 else down(0)

    states = [o.state for o in answers(make(reply, retries=0, concurrency=1), range(20))]
    other = "ok" if between["status_code"] == 200 else "failed"
    assert states == ["failed", "failed", "failed", "failed", other] * 4


def test_answers_without_use_are_no_sign_of_a_service_that_is_down(make: Any):
    client = make(lambda _: httpx.Response(200, text="no JSON"), retries=1, concurrency=5)
    together = threading.Barrier(5)

    def attempt(halt: threading.Event) -> Any:
        try:
            return client.post({}, halt, limit=1000, fixed=())
        except TransientError:
            together.wait(20)  # all five have their answers before any is given up
            raise

    outcomes = client.in_order(range(40), lambda _, halt: client.ask(lambda _: attempt(halt), halt))
    assert [o.state for o in outcomes] == ["failed"] * 40


def test_give_up_is_how_many_requests_in_a_row_may_fail(make: Any):
    def reply(request: Any) -> Any:
        return down(0) if number_of(request) < 8 else httpx.Response(200, json={})

    states = [o.state for o in answers(make(reply, retries=0, concurrency=1, give_up=9), range(10))]
    assert states == ["failed"] * 8 + ["ok"] * 2
    with pytest.raises(UsageError, match="answered none of 8 requests in a row"):
        list(answers(make(reply, retries=0, concurrency=1, give_up=8), range(10)))


def test_requests_that_closing_ends_say_nothing_of_the_service(make: Any):
    def reply(_: Any) -> Any:
        client.close()
        raise httpx.ConnectError("gone")

    client = make(reply, retries=0, concurrency=1, give_up=2)
    for _ in range(3):
        client.open()
        with pytest.raises(VerismError, match=r"^captioner openai:m: closed while captions were still asked for$"):
            list(answers(client, [0]))
    assert client.counts["failed"] == 0


def test_a_client_that_is_opened_again_counts_anew(make: Any):
    client = make(lambda request: down(number_of(request)), retries=0, give_up=2)
    for number in range(3):
        assert [o.state for o in answers(client, [number])] == ["failed"]
        client.close()
        client.open()


@pytest.mark.usefixtures("without_collector")
def test_work_that_ends_by_an_error_keeps_nothing_that_was_asked(make: Any):
    class Item:
        pass

    def work(_: Item, halt: threading.Event) -> Any:
        return client.ask(lambda _: client.post({}, halt, limit=1000, fixed=()), halt)

    client = make(lambda _: down(0), retries=0, concurrency=1)
    items = [Item() for _ in range(9)]
    alive = [weakref.ref(item) for item in items]
    with pytest.raises(UsageError, match="answered none of 5"):
        list(client.in_order(items, work))
    items.clear()
    wait_until(lambda: not [t for t in threading.enumerate() if t.name.endswith("(worker)")])
    assert [ref() for ref in alive] == [None] * 9


def wait_until(condition: Callable[[], bool]) -> None:
    over = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < over
        time.sleep(0.005)
