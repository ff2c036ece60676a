"""Limits of time for a whole exchange with a service, and connections that end at once: the HTTP library has neither.

Its own limits hold for one read or write. A service that sends ten bytes a second, or ``100 Continue`` for ever, never
meets them. Here every read and write of a connection looks at the clock as well.

Nor does it close connections that other threads wait on: the number of a closed socket goes to the next one that is
opened, and who is about to wait on the first then waits on the second, until that one's timeout. Here a connection in
use is shut down, which ends every wait on it, and is closed once nobody uses it.
"""

from __future__ import annotations

import math
import socket
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from verism.services.retry import Stopped

__all__ = ["Connections", "Deadline", "DeadlineError", "bound_connections"]


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


class Connections:
    """The connections of a client: they keep its deadline, and can be closed while other threads use them.

    Args:
        deadline: of the thread that reads or writes.
    """

    def __init__(self, deadline: Deadline) -> None:
        self.deadline = deadline
        self._lock = threading.Lock()
        self._streams: weakref.WeakSet[_Stream] = weakref.WeakSet()
        self._is_closed = False

    def add(self, stream: Any) -> _Stream:
        """A connection of the HTTP library, as one of these.

        Args:
            stream: was just opened.

        Raises:
            Stopped: they were closed meanwhile; so is this one.
        """
        added = _Stream(stream, self)
        with self._lock:
            if not self._is_closed:
                self._streams.add(added)
                return added
        added.close()
        raise Stopped("closed")

    def close(self) -> None:
        """Close all, and those that are being opened."""
        with self._lock:
            self._is_closed = True
            streams = list(self._streams)
        for stream in streams:
            stream.close()


class _Stream:
    """A connection that keeps the deadline and may be closed by any thread; otherwise as the one it holds."""

    def __init__(self, stream: Any, connections: Connections) -> None:
        self._stream, self._connections = stream, connections
        self._lock = threading.Lock()
        self._users = 0
        self._is_closed = False

    @contextmanager
    def _used(self) -> Iterator[Any]:
        with self._lock:
            self._users += 1
        try:
            yield self._stream
        finally:
            with self._lock:
                self._users -= 1
                if self._is_closed and not self._users:
                    self._stream.close()

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with self._used() as stream:
            data: bytes = stream.read(max_bytes, self._connections.deadline.left(timeout))
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        with self._used() as stream:
            stream.write(buffer, self._connections.deadline.left(timeout))

    def start_tls(self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None) -> _Stream:
        with self._used() as stream:
            secured = stream.start_tls(ssl_context, server_hostname, self._connections.deadline.left(timeout))
        return self._connections.add(secured)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            if not self._users:
                self._stream.close()
            elif (opened := self._stream.get_extra_info("socket")) is not None:
                with suppress(OSError):  # the other side has gone
                    socket.socket.shutdown(opened, socket.SHUT_RDWR)  # not that of TLS, whose state is another thread's

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Backend:
    """Opens connections that keep the deadline."""

    def __init__(self, backend: Any, connections: Connections) -> None:
        self._backend, self._connections = backend, connections

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, **options: Any) -> _Stream:
        left = self._connections.deadline.left(timeout)
        return self._connections.add(self._backend.connect_tcp(host, port, timeout=left, **options))

    def connect_unix_socket(self, path: str, timeout: float | None = None, **options: Any) -> _Stream:
        left = self._connections.deadline.left(timeout)
        return self._connections.add(self._backend.connect_unix_socket(path, timeout=left, **options))

    def sleep(self, seconds: float) -> None:
        self._backend.sleep(seconds)


def bound_connections(client: Any, deadline: Deadline) -> Connections:
    """Let all connections of an ``httpx.Client`` keep a deadline, those through proxies of the environment, too.

    httpx passes no network backend on to httpcore, so it is put into the pools. A test against a service that drips
    shows whether it still is where it was.

    Args:
        client: has not been used yet.
        deadline: of the thread that asks.

    Returns:
        The client's connections, to be closed before it is.
    """
    connections = Connections(deadline)
    for transport in (client._transport, *client._mounts.values()):
        pool = getattr(transport, "_pool", None)
        if (backend := getattr(pool, "_network_backend", None)) is not None:
            pool._network_backend = _Backend(backend, connections)  # type: ignore[union-attr]
    return connections
