"""The viewer as an application, and served on this machine.

It only reads. Nothing is served to other machines, pages of other sites are refused (``web_server``), and no path comes
from the browser: runs, pages and images are asked for by name and looked up among those that were found.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from verism.errors import UsageError, require
from verism.locations import check_on_disk
from verism.viewer.library import Library
from verism.web_server import LOOPBACK, Guard, is_loopback, serve_app

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["create_app", "view"]


def view(folder: Path, *, host: str = "127.0.0.1", port: int = 8123, open_browser: bool = True) -> None:
    """Show the runs below a folder until Ctrl-C; the address goes to stderr.

    Args:
        folder: holds runs, at any depth, or is one.
        host: a loopback address or name: what is shown is for this machine alone.
        port: 0 for any free one.
        open_browser: whether to open the page in this machine's browser.

    Raises:
        UsageError: no such folder, or a host that others can reach.
        VerismError: the port is taken or not allowed.
        MissingExtra: fastapi or uvicorn is not installed.
    """
    if not is_loopback(host):
        raise UsageError(f"{host} lets others in; runs are shown to this machine alone, as 127.0.0.1")
    app = create_app(folder, hosts=[host])
    serve_app(
        app,
        host=host,
        port=port,
        announce=lambda address: f"{address} shows the runs below {folder} until Ctrl-C",
        open_browser=open_browser,
    )


def create_app(folder: Path, *, hosts: Collection[str] = ()) -> FastAPI:
    """The viewer of a folder as an ASGI application; see ``routes`` for what it answers.

    Args:
        folder: holds runs, at any depth, or is one.
        hosts: names and addresses it is served under besides the loopback ones.

    Raises:
        UsageError: no such folder.
        MissingExtra: fastapi is not installed.
    """
    require("fastapi", extra="annotate", purpose="a page in the browser")
    from fastapi import FastAPI

    from verism.viewer.routes import PAGES, add_routes

    check_on_disk(folder, "runs are shown from a disk; copy them to one, or write their page: verism report")
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; name one that holds runs, or a run")
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    add_routes(app, Library(folder))
    app.add_middleware(Guard, hosts=frozenset(LOOPBACK) | set(hosts), documents=PAGES)
    return app
