"""A service that never comes to an end: every exchange, request and run has a time by which it is over."""

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from service_fakes import FakeClock

from verism.errors import UsageError
from verism.services import Outcome, ServiceClient, ServiceOptions
from verism.services.deadlines import Connections, Deadline, DeadlineError
from verism.services.retry import RateLimiter, Stopped, TransientError, retry

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


# -------------------------------------------------------------------------------------- closed while others use them
class Held:
    """A connection of the HTTP library whose reads take until they are let go."""

    def __init__(self) -> None:
        self.socket, self.peer = socket.socketpair()
        self.reading, self.let_go = threading.Event(), threading.Event()
        self.closed = 0

    def read(self, max_bytes: int, _: float | None = None) -> bytes:
        self.reading.set()
        assert self.let_go.wait(20)
        return self.socket.recv(max_bytes)

    def close(self) -> None:
        self.closed += 1
        self.socket.close()

    def get_extra_info(self, info: str) -> socket.socket | None:
        return self.socket if info == "socket" else None


def test_a_connection_in_use_is_shut_down_and_closed_by_its_last_user():
    # Its number would go to the next socket that is opened, on which the reader would wait then.
    held, connections, ends = Held(), Connections(Deadline()), []
    stream = connections.add(held)
    reader = threading.Thread(target=lambda: ends.append(stream.read(10)))
    reader.start()
    assert held.reading.wait(20)
    connections.close()
    assert (held.closed, held.socket.fileno() >= 0) == (0, True)
    held.peer.settimeout(20)
    assert held.peer.recv(1) == b""  # shut down, which ends every wait on it
    held.let_go.set()
    reader.join(20)
    assert (ends, held.closed) == ([b""], 1)
    held.peer.close()


def test_a_connection_that_nobody_uses_is_closed_at_once():
    held, connections = Held(), Connections(Deadline())
    stream = connections.add(held)
    connections.close()
    assert (held.closed, held.socket.fileno()) == (1, -1)
    stream.close()
    held.peer.close()


def test_a_connection_that_opens_after_the_client_was_closed_is_not_used():
    held, connections = Held(), Connections(Deadline())
    connections.close()
    with pytest.raises(Stopped):
        connections.add(held)
    assert held.closed == 1
    held.peer.close()


def test_closing_the_client_ends_a_read_of_another_thread_and_nothing_else_takes_its_place(serve):
    asked = threading.Event()

    def silent(_: socket.socket, stop: threading.Event) -> None:
        asked.set()
        stop.wait(AT_LEAST_S)

    client = client_of(serve(silent), timeout=60)
    ends: list[BaseException] = []

    def ask() -> None:
        try:
            client.exchange("POST", client.endpoint, limit=10**6, content=b"{}")
        except Stopped as err:
            ends.append(err)

    reader = threading.Thread(target=ask, daemon=True)
    reader.start()
    assert asked.wait(20)
    began = time.monotonic()
    client.close()
    reader.join(AT_LEAST_S / 2)
    assert not reader.is_alive()
    assert time.monotonic() - began < AT_LEAST_S / 2
    assert len(ends) == 1


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
