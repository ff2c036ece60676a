"""Whether the Hugging Face Hub can be reached, asked once, and what is on this machine without it.

A machine without a network waits neither for retries nor for the import of model libraries.
"""

from __future__ import annotations

import functools
import os
import re
import socket
import threading
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

from verism.errors import UsageError

__all__ = ["HUB_ID", "hub_is_reachable", "local_files_only", "not_reached"]

ENDPOINT = "https://huggingface.co"
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
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


def local_files_only(model: str, *, wanted: bool = False, kind: str = "") -> bool:
    """Whether a model may be loaded from files of this machine alone. Imports neither torch nor transformers.

    Args:
        model: its name on the hub, or a path.
        wanted: use local files even if the hub can be reached.
        kind: beginning of the error's message, such as ``diffusers: ``.

    Raises:
        UsageError: only local files may be used, and no revision of the model is in the hub's cache.
    """
    if Path(model).exists():
        return wanted
    local = wanted or not hub_is_reachable()
    if local and HUB_ID.fullmatch(model) and not _is_cached(model):
        raise UsageError(f"{kind}{not_reached(model)}")
    return local


def _is_cached(model: str) -> bool:
    """Whether the hub's cache has a folder of a model; True as well where the libraries that load it are missing."""
    if not all(find_spec(library) for library in ("torch", "transformers")):
        return True  # what loads the model says which extra brings them
    try:
        from huggingface_hub import constants
        from huggingface_hub.file_download import repo_folder_name
    except ImportError:
        return True
    return (Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=model, repo_type="model")).is_dir()


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
