"""Services of images that misbehave: every image has a state and a reason, in bounded time, and no key leaks."""

from __future__ import annotations

import base64
import gzip
import json
import random
import socket
import socketserver
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path

from fault_campaigns.commands import GIB, Done, Limits, called, forked
from fault_campaigns.images import _encoded, _png
from fault_campaigns.runs import judged
from fault_campaigns.trials import Job, Outcome, Setting, Site, Trial, worst

NAME = "services"
KEY = "sk-faults-" + "Zq7" * 9
IMAGES = 2
WAIT_S = 45.0  # for a run; its own deadline is shorter
MEMORY = 5 * GIB
DETECTOR = ("--detector", "builtin", "--threads", "1")


def jobs(setting: Setting) -> list[Job]:
    """The ways of misbehaving, dealt out."""
    names = list(WAYS)
    if setting.quick:
        return [Job(NAME, misbehave, (["not JSON", "key echoed"],), 6)]
    return [Job(NAME, misbehave, (names[part::8],), 40) for part in range(8)]


# ---------------------------------------------------------------------------------------------------------------- ways
Way = Callable[[socket.socket, bytes], None]


def _raw(data: bytes) -> Way:
    return lambda connection, _: connection.sendall(data)


def _answer(body: bytes, status: str = "200 OK", *headers: str, kind: str = "application/json") -> bytes:
    lines = [
        f"HTTP/1.1 {status}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *headers,
    ]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def _error(status: str, message: str, *headers: str) -> Way:
    body = json.dumps({"error": {"message": message, "type": "x_error", "code": "x"}}).encode()
    return _raw(_answer(body, status, *headers))


def _image(data: bytes) -> Way:
    body = json.dumps({"created": 1, "data": [{"b64_json": base64.b64encode(data).decode()}]}).encode()
    return _raw(_answer(body))


def _drip(first: bytes, piece: bytes, pause: float) -> Way:
    def way(connection: socket.socket, _: bytes) -> None:
        connection.sendall(first)
        end = time.monotonic() + 4 * WAIT_S
        while time.monotonic() < end:
            connection.sendall(piece)
            if pause:
                time.sleep(pause)

    return way


def _echo(connection: socket.socket, request: bytes) -> None:
    """Repeat the request, with its key, in an error, a header and the reason."""
    text = request.decode("latin-1")
    body = json.dumps({"error": {"message": f"Incorrect key: {text}", "code": text, "type": text}}).encode()
    connection.sendall(_answer(body, f"400 Bad {KEY}", f"X-Key: {KEY}", f"x-request-id: {KEY}"))


def _lot(size: int) -> bytes:
    return random.Random(1).randbytes(size)


def _reset(connection: socket.socket, _: bytes) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def _hang(*_: object) -> None:
    time.sleep(2 * WAIT_S)


def _good() -> bytes:
    return _encoded("PNG", random.Random(1))


def _bomb() -> bytes:
    return _png(30_000, 30_000, zlib.compress(bytes(1 << 20)))


def _whole_bomb() -> bytes:
    """63 megapixels that are all there, in 70 kB."""
    packer = zlib.compressobj(9)
    rows = b"".join(packer.compress(bytes(1 + 3 * 9000)) for _ in range(7000)) + packer.flush()
    return _png(9000, 7000, rows)


WAYS: dict[str, Callable[[], Way]] = {
    "not JSON": lambda: _raw(_answer(b"<html>502</html>")),
    "nothing": lambda: _raw(_answer(b"")),
    "null": lambda: _raw(_answer(b"null")),
    "another shape": lambda: _raw(_answer(b'{"data": {"b64_json": 7}}')),
    "no images": lambda: _raw(_answer(b'{"data": []}')),
    "deep JSON": lambda: _raw(_answer(b"[" * 200_000)),
    "digits": lambda: _raw(_answer(b'{"created": ' + b"9" * 100_000 + b', "data": []}')),
    "NaN": lambda: _raw(_answer(b'{"created": NaN, "data": [NaN]}')),
    "no base64": lambda: _raw(_answer(b'{"data": [{"b64_json": "%%%"}]}')),
    "no UTF-8": lambda: _raw(_answer(b'{"data": [{"b64_json": "\xff"}]}')),
    "no image": lambda: _image(b"hello"),
    "cut image": lambda: _image(_good()[:60]),
    "image of a bomb": lambda: _image(_bomb()),
    "image of 63 megapixels": lambda: _image(_whole_bomb()),
    "EPS": lambda: _image(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n"),
    "status 400": lambda: _error("400 Bad Request", "no"),
    "status 401": lambda: _error("401 Unauthorized", f"key {KEY} is wrong"),
    "status 404": lambda: _error("404 Not Found", "no such model"),
    "status 429": lambda: _error("429 Too Many Requests", "slow down"),
    "status 500": lambda: _error("500 Internal Server Error", "oh"),
    "status 999": lambda: _error("999 What", "oh"),
    "no status": lambda: _raw(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "Retry-After 999999": lambda: _error("429 Too Many Requests", "later", "Retry-After: 999999"),
    "Retry-After -1": lambda: _error("503 Service Unavailable", "later", "Retry-After: -1"),
    "Retry-After of nonsense": lambda: _error(
        "503 Service Unavailable", "later", "Retry-After: \xff soon " + "9" * 400
    ),
    "100 Continue for ever": lambda: _drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.01),
    "headers that drip": lambda: _drip(b"HTTP/1.1 200 OK\r\nX-A: ", b"a", 0.1),
    "a body that drips": lambda: _drip(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{", b" ", 0.1),
    "headers without an end": lambda: _drip(b"HTTP/1.1 200 OK\r\n", b"X-A: " + b"a" * 60_000 + b"\r\n", 0),
    "a body without an end": lambda: _drip(b"HTTP/1.1 200 OK\r\n\r\n", b" " * 65_536, 0),
    "chunks without an end": lambda: _drip(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b" " * 65_536 + b"\r\n", 0
    ),
    "gzip bomb": lambda: _raw(_answer(gzip.compress(bytes(1 << 30), 1), "200 OK", "Content-Encoding: gzip")),
    "said gzip": lambda: _raw(_answer(b"{}", "200 OK", "Content-Encoding: gzip")),
    "a longer body than said": lambda: _raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}" + b"x" * 5000),
    "a shorter body than said": lambda: _raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n{}"),
    "a length of nonsense": lambda: _raw(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}"),
    "closed at once": lambda: _raw(b""),
    "reset": lambda: _reset,
    "hangs": lambda: _hang,
    "redirects to itself": lambda: _raw(_answer(b"", "302 Found", "Location: /v1/images/generations")),
    "redirects elsewhere": lambda: _raw(_answer(b"", "307 Temporary Redirect", "Location: http://198.51.100.7/")),
    "redirects to a file": lambda: _raw(_answer(b"", "302 Found", "Location: file:///etc/passwd")),
    "image at a file": lambda: _raw(_answer(b'{"data": [{"url": "file:///etc/passwd"}]}')),
    "image at nowhere": lambda: _raw(_answer(b'{"data": [{"url": "http://127.0.0.1:1/x.png"}]}')),
    "key echoed": lambda: _echo,
    "escape codes": lambda: _error("400 Bad Request", "\x1b]0;title\x07\x1b[2J"),
    "a refusal of a megabyte": lambda: _error("400 Bad Request", "content_policy_violation " + "x" * (1 << 20)),
    "noise": lambda: _raw(_lot(10_000)),
}


# -------------------------------------------------------------------------------------------------------------- trials
@contextmanager
def _service(way: Way) -> Iterator[int]:
    """A service that answers every request in one way; yields its port."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                request = self.request.recv(65_536)
                while b"\r\n\r\n" not in request and len(request) < 1 << 20 and (more := self.request.recv(65_536)):
                    request += more
                way(self.request, request)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False
        allow_reuse_address = True

        def handle_error(self, *_: object) -> None:
            """Clients that hang up are no news."""

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def misbehave(site: Site, names: list[str]) -> Iterator[Trial]:
    """Runs against services, each of which misbehaves in one way."""
    from verism.services import ServiceOptions

    bounded = "&deadline=6&run_deadline=15" if "deadline" in ServiceOptions.__dataclass_fields__ else ""
    model = f"openai:m?timeout=2&retries=1&concurrency=2{bounded}&key_env=VERISM_FAULTS_KEY"
    # Threads of a service would not outlive a fork, and their locks would: services are in processes of their own.
    for number, name in enumerate(names):
        out = site.folder / f"run-{number}"
        with _elsewhere(name) as port:
            words = ["run", "paintskills", "--model", model, "--base-url", f"http://127.0.0.1:{port}/v1"]
            words += ["--limit", str(IMAGES), "--seed", "5", *DETECTOR, "--out", str(out)]
            done = forked(
                words,
                cwd=site.folder,
                timeout=WAIT_S,
                limits=Limits(memory=MEMORY),
                environment={"VERISM_FAULTS_KEY": KEY, "NO_PROXY": "127.0.0.1"},
            )
        outcome, detail = worst(_checks(site, out, done))
        yield Trial(campaign=NAME, name=name, outcome=outcome, detail=detail)


@contextmanager
def _elsewhere(name: str) -> Iterator[int]:
    context = get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(name, theirs), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        process.kill()
        process.join()


def _serve(name: str, pipe: object) -> None:
    with _service(WAYS[name]()) as port:
        pipe.send(port)  # type: ignore[attr-defined]
        threading.Event().wait()


def _checks(site: Site, out: Path, done: Done) -> Iterator[tuple[Outcome, str]]:
    yield judged(done)
    if "\x1b" in done.said:
        yield "silent", "escape codes of the service reach the terminal"
    places = [path for path in out.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    if KEY in done.said or places:
        yield "silent", f"the key is shown or stored: {[p.name for p in places] or 'printed'}"
    if done.code not in (None, 0, 1, 2):
        yield "lost", f"exit code {done.code}: {done.said[-200:]}"
    if done.code in (1, 2) and not done.said.strip():
        yield "silent", f"exit code {done.code} without a word"
    if done.code == 0:
        found = called(_states, out, cwd=site.folder).result
        if found is None or len(found) != IMAGES:
            yield "lost", f"exit code 0 and these images: {found}"
        elif any(state != "ok" and not note for state, note in found):
            yield "silent", f"images without a reason: {found}"


def _states(path: Path) -> list[tuple[str, str | None]]:
    from verism.store import Run

    return [(row["state"], row["note"]) for row in Run.open(path).read("images").iter_rows(named=True)]
