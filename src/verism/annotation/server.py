"""The page in the browser on which raters look at images and answer.

``serve`` runs it on this machine. Whoever can reach it over a network needs a link with a token of their own; on the
loopback address a name will do. Requests that another page could make on a rater's behalf are refused: cookies are
``SameSite=Strict``, whatever changes something needs a header that forms cannot send, and the ``Host``, ``Origin`` and
``Sec-Fetch-Site`` headers must be right (``web_server``). No path comes from the browser: images are asked for by
numbers (``routes``).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from verism.annotation.views import StudyView
from verism.annotation.votes import VoteStore
from verism.errors import UsageError, require
from verism.store import Run
from verism.web_server import LOOPBACK, Guard, is_loopback, serve_app

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["LOOPBACK", "create_app", "serve"]


def serve(
    store: VoteStore, runs: Sequence[Run], *, host: str, port: int, open_browser: bool = False, tokens: bool
) -> None:
    """Run the page until Ctrl-C; its address goes to stderr.

    Args:
        store: the study.
        runs: those whose images it shows, or some of them.
        host: an address or name of this machine; 0.0.0.0 for all its addresses.
        port: 0 for any free one.
        open_browser: whether to open the page in this machine's browser.
        tokens: whether raters come by a link with a token; needed wherever others can reach the page.

    Raises:
        UsageError: a host that others can reach without tokens, or one this machine does not have.
        VerismError: the port is taken or not allowed.
        MissingExtra: fastapi or uvicorn is not installed.
    """
    if not tokens and not is_loopback(host):
        raise UsageError(f"{host} lets others in: serve it with tokens, or use --host 127.0.0.1")
    app = create_app(store, runs, tokens=tokens, hosts=[host])
    links = "\nraters need a link each: verism annotate RUN --rater NAME" if tokens else ""
    serve_app(
        app,
        host=host,
        port=port,
        announce=lambda address: f"{address} asks for answers until Ctrl-C; each is safe once it is given{links}",
        open_browser=open_browser,
    )


def create_app(store: VoteStore, runs: Sequence[Run], *, tokens: bool, hosts: Collection[str] | None = None) -> FastAPI:
    """The page of a study as an ASGI application; see ``routes`` for what it answers.

    Args:
        store: the study.
        runs: those whose images it shows, or some of them.
        tokens: whether raters come by ``/?token=...``; otherwise by a name.
        hosts: names and addresses it is served under besides the loopback ones; 0.0.0.0 stands for every address.

    Raises:
        UsageError: the study's runs or images are gone.
        MissingExtra: fastapi is not installed.
    """
    require("fastapi", extra="annotate", purpose="the page for raters")
    from fastapi import FastAPI

    from verism.annotation.routes import Site, add_routes

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    add_routes(app, Site.of(StudyView(store, runs), tokens=tokens))
    app.add_middleware(Guard, hosts=frozenset(LOOPBACK) | set(hosts or ()))
    return app
