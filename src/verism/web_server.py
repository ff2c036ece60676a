"""What the pages served on this machine share: the port, the server, and a guard against other sites.

Requests that another site could make a browser send are refused. Starlette's ``TrustedHostMiddleware`` covers too
little: it cannot let in every address of a machine without every name, and nothing of it looks at ``Origin`` and
``Sec-Fetch-Site``.
"""

from __future__ import annotations

import ipaddress
import socket
import sys
import threading
import webbrowser
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from verism.errors import UsageError, VerismError, require

__all__ = ["ANYWHERE", "HEADER", "LOOPBACK", "Guard", "is_address", "is_loopback", "serve_app"]

LOOPBACK = ("localhost", "127.0.0.1", "::1")
HEADER = "x-verism"  # on whatever changes something; forms cannot send it, and scripts of other pages may not
ANYWHERE = ("0.0.0.0", "::")
MAX_BODY = 16_384  # bytes of a request
HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' blob:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
Message = MutableMapping[str, Any]


class Guard:
    """Refuses what another site could make a browser ask, and puts the protecting headers on every reply."""

    def __init__(
        self, app: Callable[..., Awaitable[None]], *, hosts: Collection[str], documents: Collection[str] = ()
    ) -> None:
        """Guard an application.

        Args:
            app: an ASGI application.
            hosts: names and addresses it is served under; 0.0.0.0 stands for every address of this machine.
            documents: beginnings of paths that, like ``/``, a browser may open as a page from anywhere.
        """
        self.app = app
        self.documents = tuple(documents)
        self.hosts = {host.lower() for host in hosts}
        if self.hosts & set(ANYWHERE):
            self.hosts |= {socket.gethostname().lower(), socket.getfqdn().lower()}

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        if scope["type"] != "http":
            return  # nothing here speaks anything else
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                # What the application says itself (how long an image may be kept, what a page may do) stays.
                present = {name.lower() for name, _ in message["headers"]}
                every = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *(pair for pair in every if pair[0] not in present)]
            await send(message)

        status, why = self._refusal(scope["method"], scope["path"], headers)
        if status == 200:
            await self.app(scope, receive, guarded)
            return
        content = why.encode()
        shape = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(content)).encode())]
        await guarded({"type": "http.response.start", "status": status, "headers": shape})
        await guarded({"type": "http.response.body", "body": content})

    def _refusal(self, method: str, path: str, headers: Mapping[str, str]) -> tuple[int, str]:
        host = headers.get("host", "")
        if not self._is_served(host):
            return 421, "This server does not go by that name; use the address it printed."
        site = headers.get("sec-fetch-site", "none")
        if method in ("GET", "HEAD"):
            # The page itself may be opened from anywhere: by a link in a mail. What it shows may not.
            opened = path == "/" or (headers.get("sec-fetch-dest") == "document" and path.startswith(self.documents))
            foreign = not opened and site not in ("none", "same-origin")
            return (403, "Not for other pages.") if foreign else (200, "")
        if HEADER not in headers or headers.get("content-type", "").partition(";")[0] != "application/json":
            return 403, "Only the page itself may do this."
        origin = headers.get("origin")
        if site not in ("none", "same-origin") or (origin is not None and _netloc(origin) != host.lower()):
            return 403, "Not for other pages."
        length = headers.get("content-length", "")
        if not length.isdigit() or int(length) > MAX_BODY:
            return 413, f"A request has at most {MAX_BODY} bytes, and says how many."
        return 200, ""

    def _is_served(self, host: str) -> bool:
        try:
            name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
        except ValueError:
            return False
        # A name in the DNS may be made to lead anywhere; an address is what it is.
        return name in self.hosts or (bool(self.hosts & set(ANYWHERE)) and is_address(name))


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def is_address(name: str) -> bool:
    """Whether a host is an IP address, not a name."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether a name or address leads to this machine alone."""
    return host == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)


def serve_app(app: Any, *, host: str, port: int, announce: Callable[[str], str], open_browser: bool = False) -> None:
    """Serve an application until Ctrl-C.

    Args:
        app: an ASGI application.
        host: an address or name of this machine; 0.0.0.0 for all its addresses.
        port: 0 for any free one.
        announce: what to say on stderr, given the address.
        open_browser: whether to open the address in this machine's browser.

    Raises:
        UsageError: a host that this machine does not have.
        VerismError: the port is taken or not allowed.
        MissingExtra: uvicorn is not installed.
    """
    uvicorn = require("uvicorn", extra="annotate", purpose="a page in the browser")
    listening = _listen(host, port)
    shown = socket.gethostname() if host in ANYWHERE else f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listening.getsockname()[1]}/"
    print(announce(address), file=sys.stderr, flush=True)
    if open_browser:
        # The socket listens already: the browser waits until the server answers.
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,  # the log would hold tokens
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=3,
    )
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        listening.close()


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as err:
        raise UsageError(f"--host {host} is no address of this machine ({err.strerror}); 127.0.0.1 always is") from None
    listening = socket.socket(family, kind, protocol)
    try:
        # Elsewhere the port of a server that has just ended; on Windows it would be anybody's, at the same time.
        option = getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR)
        listening.setsockopt(socket.SOL_SOCKET, option, 1)
        listening.bind(address)
        listening.listen(128)
    except OSError as err:
        listening.close()
        raise VerismError(
            f"cannot serve on {host}, port {port} ({err.strerror}); is the page open already? "
            "Choose another --port, or 0 for any free one"
        ) from None
    return listening
