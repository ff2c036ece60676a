"""A real S3 server on this machine (moto), which can be told to fail now and then."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.request import Request, urlopen

import pytest

BUCKET = "bucket"
KEY, SECRET = "AKIATESTTESTTEST", "a-secret-of-no-account"


@dataclass
class Server:
    """The server.

    Attributes:
        endpoint: its address.
        requests: method and path of every request so far.
        fails: whether the request of this number is answered with 503; its effect is lost.
        drops: whether the answer to the request of this number is lost after it took effect.
    """

    endpoint: str = ""
    requests: list[tuple[str, str]] = field(default_factory=list)
    fails: Callable[[int], bool] = lambda _: False
    drops: Callable[[int], bool] = lambda _: False

    def app(self, inner: Any) -> Any:
        """A WSGI application around another."""
        numbers = itertools.count()

        def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            number = next(numbers)
            self.requests.append((environ["REQUEST_METHOD"], environ["PATH_INFO"]))
            busy = "503 Slow Down", [("Content-Type", "application/xml")]
            if self.fails(number):
                environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
                start_response(*busy)
                return [b"<Error><Code>SlowDown</Code></Error>"]
            if self.drops(number):
                list(inner(environ, lambda *_: None))
                start_response(*busy)
                return [b"<Error><Code>InternalError</Code></Error>"]
            return inner(environ, start_response)

        return answer


@contextmanager
def s3_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server with an empty bucket; the environment variables name it until the test ends."""
    pytest.importorskip("obstore")
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from moto.server import MotoRequestHandler
    from werkzeug.serving import make_server

    server = Server()
    app = server.app(DomainDispatcherApplication(create_backend_app))
    http = make_server("127.0.0.1", 0, app, threaded=True, request_handler=MotoRequestHandler)
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    server.endpoint = f"http://127.0.0.1:{http.server_port}"
    for name, value in {
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    from verism import locations

    # Clients of earlier tests know other servers.
    monkeypatch.setattr(locations, "_stores", {})
    try:
        for method, path in (("POST", "moto-api/reset"), ("PUT", BUCKET)):
            with urlopen(Request(f"{server.endpoint}/{path}", method=method)):
                pass
        server.requests.clear()
        yield server
    finally:
        http.shutdown()
        thread.join()
