"""Whether the Hugging Face hub can be reached, asked once: a machine without a network shall not wait for retries."""

from __future__ import annotations

import functools
import os
import socket
import threading
from urllib.parse import urlsplit
from urllib.request import getproxies

__all__ = ["hub_is_reachable", "not_reached"]

ENDPOINT = "https://huggingface.co"
SECONDS = 2.0  # for the name and the connection together


def hub_is_reachable() -> bool:
    """Whether a connection to the hub, or to the proxy on the way there, can be opened within two seconds.

    The hub is where ``HF_ENDPOINT`` says. A process asks once for each.
    """
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return False
    endpoint = urlsplit(os.environ.get("HF_ENDPOINT") or ENDPOINT)
    proxies = getproxies()
    proxy = proxies.get(endpoint.scheme) or proxies.get("all")
    asked = urlsplit(proxy) if proxy and "//" in proxy else endpoint
    return _opens(asked.hostname or "", asked.port or (80 if asked.scheme == "http" else 443))


@functools.cache
def _opens(host: str, port: int) -> bool:
    opened = threading.Event()

    def connect() -> None:  # in a thread: looking up a name knows no timeout
        try:
            socket.create_connection((host, port), timeout=SECONDS).close()
        except OSError:
            return
        opened.set()

    asking = threading.Thread(target=connect, name="verism-hub", daemon=True)
    asking.start()
    asking.join(SECONDS)
    return opened.is_set()


def not_reached(model: str, revision: str | None = None) -> str:
    """What to say of a model that is not on this machine while the hub is out of reach.

    Args:
        model: its name on the hub.
        revision: branch, tag or commit; None for the usual one.
    """
    at = f" at revision {revision}" if revision else ""
    return (
        f"{model}{at} is not in the hub's cache of this machine, and the hub was not reached (no network, "
        f"HF_HUB_OFFLINE or local_files_only). Fetch it where there is a network with `hf download {model}`, or give "
        "the path of a folder with the model"
    )
