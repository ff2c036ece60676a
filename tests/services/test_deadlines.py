"""A service that never comes to an end: every exchange, request and run has a time by which it is over."""

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from service_fakes import FakeClock

from verism.errors import UsageError
from verism.services import Outcome, ServiceClient, ServiceOptions
from verism.services.deadlines import Deadline, DeadlineError
from verism.services.retry import RateLimiter, TransientError, retry

TIMEOUT_S = 0.4
AT_LEAST_S = 8.0  # the service goes on for so long, then closes the connection: another message than a deadline's


def dripping(connection: socket.socket, stop: threading.Event) -> None:
    """A header that comes byte by byte."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while not stop.wait(0.05):
        connection.sendall(b"a")


def continuing(connection: socket.socket, stop: threading.Event) -> None:
    """The server says again and again that it may go on."""
    while not stop.wait(0.02):
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")


def dripping_body(connection: socket.socket, stop: threading.Event) -> None:
    """A body that comes byte by byte."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while not stop.wait(0.05):
        connection.sendall(b" ")


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Addresses of services that answer every connection by a function."""
    over = threading.Event()
    listening: list[socket.socket] = []

    def start(answer: Callable[[socket.socket, threading.Event], None]) -> str:
        server = socket.create_server(("127.0.0.1", 0))
        listening.append(server)

        def one(connection: socket.socket) -> None:
            timer = threading.Timer(AT_LEAST_S, connection.close)
            timer.daemon = True
            timer.start()
            try:
                connection.recv(65536)
                answer(connection, over)
            except OSError:
                pass  # the client has gone

        def accept() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=one, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        return f"http://127.0.0.1:{server.getsockname()[1]}/v1"

    yield start
    over.set()
    for server in listening:
        server.close()


def client_of(url: str, **options: float) -> ServiceClient:
    made = ServiceClient("m", ServiceOptions(base_url=url, **options), role="judge", path="/chat", noun="reply")
    made.open()
    return made


@pytest.mark.parametrize("answer", [dripping, continuing, dripping_body])
def test_exchange_that_never_ends_is_over_in_time(serve, answer):
    client = client_of(serve(answer), timeout=TIMEOUT_S, retries=0)
    try:
        with pytest.raises(TransientError, match=r"no (complete )?answer within 0\.4 s"):
            client.exchange("POST", client.endpoint, limit=10**6, content=b"{}")
        # The connection that was broken off is not used again.
        with pytest.raises(TransientError, match=r"no (complete )?answer within 0\.4 s"):
            client.exchange("POST", client.endpoint, limit=10**6, content=b"{}")
    finally:
        client.close()


def test_deadline_is_of_its_thread_alone():
    deadline = Deadline()
    seen = []
    with deadline.within(0.0):
        time.sleep(0.001)
        with pytest.raises(DeadlineError):
            deadline.left(5.0)
        thread = threading.Thread(target=lambda: seen.append(deadline.left(5.0)))
        thread.start()
        thread.join()
    assert seen == [5.0]
    assert deadline.left(None) is None


def test_request_is_not_waited_for_beyond_its_deadline():
    # 120 s is the longest that is waited for a service that asks for more: eight such waits do not fit into 300 s.
    clock = FakeClock()
    limiter = RateLimiter(clock=clock, draw=lambda: 0.0)

    def attempt(_: int) -> None:
        raise TransientError("HTTP 503", wait_s=120.0)

    began = clock.now()
    with pytest.raises(TransientError) as raised:
        retry(attempt, limiter, threading.Event(), retries=100, deadline=300.0)
    assert str(raised.value) == (
        "HTTP 503; gave up after 3 tries, as the next one would begin after the 300 s that a request may take "
        "(deadline)"
    )
    assert clock.now() - began == 240.0


def test_run_is_over_at_its_deadline_and_says_how_to_go_on():
    client = ServiceClient("m", ServiceOptions(run_deadline=7200, concurrency=1), role="judge", path="/c", noun="reply")
    clock = client.limiter.clock = FakeClock()

    def answer(item: int, halt: threading.Event) -> Outcome[int]:
        clock.wait(3000.0, halt)
        return Outcome(item)

    replies = client.in_order(range(9), answer)
    with pytest.raises(
        UsageError, match=r"the 2 h for all requests of a run are over \(run_deadline\).*repeat the command to continue"
    ):
        list(replies)


def test_deadlines_are_shown_and_checked():
    shown = ServiceOptions().deadlines()
    assert shown == (
        "at most 3 min for an answer, 1 h for a request with its retries and 7 days for the run "
        "(timeout=180, deadline=3600, run_deadline=604800)"
    )
    with pytest.raises(UsageError, match="deadline must lie between"):
        ServiceOptions(deadline=0.0).resolved("judge", "/c")
