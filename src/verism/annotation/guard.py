"""What protects the page for raters: requests that another site could make a browser send are refused.

Starlette's ``TrustedHostMiddleware`` covers too little: it cannot let in every address of a machine without every name,
and nothing of it looks at ``Origin`` and ``Sec-Fetch-Site``.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from typing import Any
from urllib.parse import urlsplit

__all__ = ["ANYWHERE", "HEADER", "Guard", "is_address"]

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

    def __init__(self, app: Callable[..., Awaitable[None]], *, hosts: Collection[str]) -> None:
        """Guard an application.

        Args:
            app: an ASGI application.
            hosts: names and addresses it is served under; 0.0.0.0 stands for every address of this machine.
        """
        self.app = app
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
                subset = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *subset]
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
            foreign = path != "/" and site not in ("none", "same-origin")
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
