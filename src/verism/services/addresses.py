"""Addresses of services: which may be written down, and which may be sent a key."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from verism.errors import UsageError
from verism.services.redaction import clean_text

__all__ = ["check_base_url", "host_of", "is_loopback", "origin"]


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its name or address (names are not looked up)."""
    if host.lower() == "localhost" or host.lower().endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(url: str) -> str:
    """The host of an address in lower case; empty if it has none."""
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port: what must be equal for a key to be sent along."""
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    return scheme, (parts.hostname or "").lower(), parts.port or {"http": 80, "https": 443}.get(scheme)


def check_base_url(url: str, *, option: str, has_key: bool, allow_http: bool) -> str:
    """A base address that may be written down and sent a key: without credentials, query, fragment and final slash.

    Messages never repeat the address if it may hold a secret.

    Args:
        url: as the user wrote it.
        option: how messages name it.
        has_key: whether a key is going to be sent there.
        allow_http: whether the key may travel unencrypted to another machine.

    Raises:
        UsageError: not an http(s) address, credentials or a query in it, or a key would travel unencrypted.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise UsageError(f"{option}: not an address; expected something like https://host/v1") from None
    where = (
        "which {} written into the run. Give it without; a key is read from the environment variable named by key_env"
    )
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise UsageError(f"{option}: the address holds a user name or password, {where.format('would be')}")
    if parts.query or parts.fragment or "?" in url or "#" in url:
        what = "a query (?...) or fragment (#...)"
        raise UsageError(f"{option}: the address holds {what}, {where.format('may be a key and would be')}")
    if parts.scheme not in ("http", "https") or not host or any(c.isspace() for c in url):
        raise UsageError(f"{option}: expected an address like https://host/v1, got {clean_text(url, 80)!r}")
    if parts.scheme == "http" and has_key and not allow_http and not is_loopback(host):
        raise UsageError(
            f"{option}: http://{host} would send the key unencrypted over the network, for anyone on the way to read. "
            "Use https://, or say allow_http=true if the network in between is your own"
        )
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path.rstrip('/')}"
