"""What tests of services share: time that only waiting moves, options given flat, and a chat service."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from verism.services.retry import Clock


class FakeClock(Clock):
    """Time that only waiting moves.

    Attributes:
        time: seconds.
        waits: every wait, in seconds.
        nap_s: real seconds that each wait takes, in which other workers run.
    """

    def __init__(self, time: float = 1000.0, nap_s: float = 0.0005) -> None:
        self.time, self.nap_s, self.waits = time, nap_s, list[float]()
        self._lock = threading.Lock()

    def now(self) -> float:
        return self.time

    def wait(self, seconds: float, halt: threading.Event) -> None:
        halt.wait(self.nap_s)
        with self._lock:
            self.waits.append(seconds)
            self.time += seconds


def grouped(groups: Mapping[str, type], options: Mapping[str, Any]) -> dict[str, Any]:
    """Options by the parameter that takes them: those of a group's fields as that dataclass, the others as they are."""
    rest, made = dict(options), {}
    for name, cls in groups.items():
        made[name] = cls(**{f.name: rest.pop(f.name) for f in fields(cls) if f.name in rest})
    return rest | made


def chat(text: Any, *, tokens: Any = None, ended: str = "stop", usage: Any = None, **message: Any) -> dict[str, Any]:
    """An answer of the service. ``tokens``: (token, {alternative: probability}) each."""
    choice: dict[str, Any] = {"message": {"role": "assistant", "content": text, **message}, "finish_reason": ended}
    if tokens is not None:
        choice["logprobs"] = {
            "content": [
                {
                    "token": token,
                    "logprob": math.log(top[token]),
                    "top_logprobs": [{"token": t, "logprob": math.log(p)} for t, p in top.items()],
                }
                for token, top in tokens
            ]
        }
    return {"model": "m-2026-01-01", "choices": [choice], "usage": usage or {}}


class Service(ThreadingHTTPServer):
    """Answers what ``reply(body)`` says: JSON, or (status, JSON), or (status, JSON, headers)."""

    daemon_threads, block_on_close = True, False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.reply: Callable[[dict[str, Any]], Any] = lambda _: chat("Yes.")
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.active = self.most_active = 0
        self.lock = threading.Lock()
        self.base = f"http://127.0.0.1:{self.server_port}/v1"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    server: Service
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == "/v1/chat/completions"
        with server.lock:
            server.bodies.append(body)
            server.keys.append(self.headers.get("Authorization"))
            server.active += 1
            server.most_active = max(server.most_active, server.active)
        result = server.reply(body)
        with server.lock:
            server.active -= 1
        status, content, *headers = result if isinstance(result, tuple) else (200, result)
        data = json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers[0] if headers else {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
