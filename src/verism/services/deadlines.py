"""A limit of time for a whole exchange with a service, which the HTTP library does not have.

Its own limits hold for one read or write. A service that sends ten bytes a second, or ``100 Continue`` for ever, never
meets them. Here every read and write of a connection looks at the clock as well.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Deadline", "DeadlineError", "bound_connections"]


class DeadlineError(Exception):
    """An exchange took longer than it may."""


class Deadline(threading.local):
    """When the exchange of this thread must be over; every thread has its own."""

    at = math.inf

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Reads and writes of this thread end by ``DeadlineError`` once so many seconds are over."""
        self.at = time.monotonic() + seconds
        try:
            yield
        finally:
            self.at = math.inf

    def left(self, timeout: float | None) -> float | None:
        """How long one read or write may take, in seconds; None without a limit.

        Args:
            timeout: the HTTP library's own limit.
        Raises:
            DeadlineError: no time is left.
        """
        if self.at == math.inf:
            return timeout
        left = self.at - time.monotonic()
        if left <= 0:
            raise DeadlineError
        return left if timeout is None else min(left, timeout)


class _Stream:
    """A connection that keeps the deadline; otherwise as the one it holds."""

    def __init__(self, stream: Any, deadline: Deadline) -> None:
        self._stream, self._deadline = stream, deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data: bytes = self._stream.read(max_bytes, self._deadline.left(timeout))
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._deadline.left(timeout))

    def start_tls(self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None) -> _Stream:
        secured = self._stream.start_tls(ssl_context, server_hostname, self._deadline.left(timeout))
        return _Stream(secured, self._deadline)

    def close(self) -> None:
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Backend:
    """Opens connections that keep the deadline."""

    def __init__(self, backend: Any, deadline: Deadline) -> None:
        self._backend, self._deadline = backend, deadline

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, **options: Any) -> _Stream:
        stream = self._backend.connect_tcp(host, port, timeout=self._deadline.left(timeout), **options)
        return _Stream(stream, self._deadline)

    def connect_unix_socket(self, path: str, timeout: float | None = None, **options: Any) -> _Stream:
        stream = self._backend.connect_unix_socket(path, timeout=self._deadline.left(timeout), **options)
        return _Stream(stream, self._deadline)

    def sleep(self, seconds: float) -> None:
        self._backend.sleep(seconds)


def bound_connections(client: Any, deadline: Deadline) -> None:
    """Let all connections of an ``httpx.Client`` keep a deadline, those through proxies of the environment, too.

    httpx passes no network backend on to httpcore, so it is put into the pools. A test against a service that drips
    shows whether it still is where it was.

    Args:
        client: has not been used yet.
        deadline: of the thread that asks.
    """
    for transport in (client._transport, *client._mounts.values()):
        pool = getattr(transport, "_pool", None)
        if (backend := getattr(pool, "_network_backend", None)) is not None:
            pool._network_backend = _Backend(backend, deadline)  # type: ignore[union-attr]
