"""The page in the browser on which people look at pictures and answer.

``serve`` runs it on this machine. Whoever can reach it over a network needs a link with a token of their own; on the
loopback address a name will do. Requests that another page could make on a rater's behalf are refused: cookies are
``SameSite=Strict``, whatever changes something needs a header that forms cannot send, and the ``Host``, ``Origin`` and
``Sec-Fetch-Site`` headers must be right. No path comes from the browser: pictures are asked for by numbers.
"""

# No `from __future__ import annotations` here: FastAPI reads the annotations of functions inside `create_app`.
import hmac
import ipaddress
import json
import socket
import sys
import threading
import webbrowser
from collections.abc import Awaitable, Callable, Collection, MutableMapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any, TypeGuard
from urllib.parse import urlsplit

from verism.annotation.views import Showing
from verism.annotation.votes import Rater, VoteStore
from verism.errors import UsageError, VerismError, require
from verism.store import Run

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["HEADER", "LOOPBACK", "create_app", "serve"]

HEADER = "x-verism"  # on whatever changes something; forms cannot send it, and scripts of other pages may not
LOOPBACK = ("localhost", "127.0.0.1", "::1")
ANYWHERE = ("0.0.0.0", "::")
MAX_BODY = 16_384  # bytes of a request
COOKIE_AGE = 30 * 24 * 3600  # seconds
STATIC = {
    "app.js": "text/javascript; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
LOADING = "One moment …"
NEEDS_LINK = (
    "This study is open to raters with a link of their own. Open the link you were sent, the whole of it; "
    "if it does not work, ask whoever sent it for a new one."
)
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


def serve(
    store: VoteStore, runs: Sequence[Run], *, host: str, port: int, open_browser: bool = False, tokens: bool
) -> None:
    """Run the page until Ctrl-C; its address goes to stderr.

    Args:
        host: an address or name of this machine; 0.0.0.0 for all its addresses. port: 0 for any free one.
        open_browser: open the page in this machine's browser.
        tokens: raters come by a link with a token; needed wherever others can reach the page.

    Raises:
        UsageError: a host that others can reach without tokens, or one this machine does not have.
        VerismError: the port is taken or not allowed.
        MissingExtra: fastapi or uvicorn is not installed.
    """
    if not tokens and not _is_loopback(host):
        raise UsageError(f"{host} lets others in: serve it with tokens, or use --host 127.0.0.1")
    app = create_app(store, runs, tokens=tokens, hosts=[host])
    uvicorn = require("uvicorn", extra="annotate", purpose="the page for raters")
    listening = _listen(host, port)
    shown = socket.gethostname() if host in ANYWHERE else f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listening.getsockname()[1]}/"
    print(f"{address} asks for answers until Ctrl-C; each is safe once it is given", file=sys.stderr, flush=True)
    if tokens:
        print("raters need a link each: verism annotate RUN --rater NAME", file=sys.stderr, flush=True)
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
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)
    except OSError as err:
        listening.close()
        raise VerismError(
            f"cannot serve on {host}, port {port} ({err.strerror}); is the page open already? "
            "Choose another --port, or 0 for any free one"
        ) from None
    return listening


def create_app(
    store: VoteStore, runs: Sequence[Run], *, tokens: bool, hosts: Collection[str] | None = None
) -> "FastAPI":
    """The page of a study as an ASGI application.

    ``GET /api/state`` says what a rater sees now. ``POST /api/vote`` with position, ticket (of the item, from the
    state), answer (or null: skipped) and seconds keeps an answer, and ``POST /api/undo`` with the position on the
    screen takes the last one back; both reply with the new state. ``POST /api/join`` with a name is for local raters.

    Args:
        tokens: raters come by ``/?token=...``; otherwise by a name.
        hosts: names and addresses it is served under besides the loopback ones; 0.0.0.0 stands for every address.

    Raises:
        UsageError: the study's runs or pictures are gone.
        MissingExtra: fastapi is not installed.
    """
    require("fastapi", extra="annotate", purpose="the page for raters")
    from fastapi import FastAPI, Request
    from fastapi.concurrency import run_in_threadpool
    from fastapi.responses import JSONResponse, RedirectResponse, Response

    showing = Showing(store, runs)
    passes = _Passes(store, tokens=tokens)
    files = {name: (resources.files("verism.annotation") / "web" / name).read_bytes() for name in STATIC}
    page = (resources.files("verism.annotation") / "web" / "index.html").read_text(encoding="utf-8")
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    class Refused(Exception):
        def __init__(self, status: int, why: str) -> None:
            self.status, self.why = status, why

    @app.exception_handler(Refused)
    def refused(_: Request, err: Refused) -> Response:
        return JSONResponse({"error": err.why}, err.status)

    @app.exception_handler(UsageError)
    def wrong(_: Request, err: UsageError) -> Response:
        return JSONResponse({"error": str(err)}, 422)

    @app.exception_handler(VerismError)
    def failed(_: Request, err: VerismError) -> Response:
        print(f"verism: {err}", file=sys.stderr)
        return JSONResponse({"error": "the study cannot be written just now"}, 503)

    def who(request: Request) -> Rater:
        rater = passes.rater(request.cookies.get(passes.cookie))
        if rater is None:
            raise Refused(401, NEEDS_LINK if tokens else "give your name first")
        return rater

    def seen(rater: Rater) -> dict[str, Any]:
        return {**showing.state(rater), "local": not tokens}

    def with_pass(response: Response, rater: Rater, request: Request) -> Response:
        response.set_cookie(
            passes.cookie,
            passes.made_for(rater),
            max_age=COOKIE_AGE,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response

    async def body(request: Request) -> dict[str, Any]:
        try:
            record = json.loads(await request.body())
        except ValueError:
            raise Refused(400, "expected JSON") from None
        if not isinstance(record, dict):
            raise Refused(400, "expected a JSON object")
        return record

    @app.get("/")
    def start(request: Request, token: str | None = None) -> Response:
        if token is not None and tokens:
            rater = store.rater_of_token(token)
            if rater is None:
                return Response(page.replace("<!-- message -->", NEEDS_LINK), 403, media_type="text/html")
            return with_pass(RedirectResponse("/", 303), rater, request)
        # A browser that comes from another site brings no strict cookie: the page, which holds no data, asks again.
        unknown = tokens and passes.rater(request.cookies.get(passes.cookie)) is None
        message = NEEDS_LINK if unknown else LOADING
        return Response(page.replace("<!-- message -->", message), 401 if unknown else 200, media_type="text/html")

    @app.get("/api/state")
    def state(request: Request) -> Response:
        rater = passes.rater(request.cookies.get(passes.cookie))
        if rater is None:
            unknown = JSONResponse({"phase": "name"})
            return JSONResponse({"phase": "link", "why": NEEDS_LINK}, 401) if tokens else unknown
        return JSONResponse(seen(rater))

    @app.post("/api/join")
    async def join(request: Request) -> Response:
        if tokens:
            raise Refused(403, NEEDS_LINK)
        name = (await body(request)).get("name")
        if not isinstance(name, str):
            raise Refused(400, "expected a name")
        rater = await run_in_threadpool(store.named_rater, name)
        return with_pass(JSONResponse(await run_in_threadpool(seen, rater)), rater, request)

    @app.post("/api/leave")
    def leave() -> Response:
        response = JSONResponse({})
        response.delete_cookie(passes.cookie, httponly=True, samesite="strict")
        return response

    @app.post("/api/vote")
    async def vote(request: Request) -> Response:
        rater = await run_in_threadpool(who, request)
        record = await body(request)
        position, ticket, answer, seconds = (record.get(k) for k in ("position", "ticket", "answer", "seconds"))
        if not _is_whole(position) or not isinstance(ticket, str) or not isinstance(answer, str | None):
            raise Refused(400, "expected position, ticket and answer")
        if not showing.was_given(rater, position, ticket):
            raise Refused(403, "this question was not asked of you")
        taken = float(seconds) if isinstance(seconds, int | float) and not isinstance(seconds, bool) else None
        await run_in_threadpool(showing.vote, rater, position, answer, taken)
        # Asked anew: the vote may have been the one that bars.
        return JSONResponse(await run_in_threadpool(seen, await run_in_threadpool(who, request)))

    @app.post("/api/undo")
    async def undo(request: Request) -> Response:
        rater = await run_in_threadpool(who, request)
        position = (await body(request)).get("position")
        if position is not None and not _is_whole(position):
            raise Refused(400, "expected the position on the screen, or null")

        def take_back() -> dict[str, Any]:
            shown = store.next_item(rater)
            # A page that did not hear that its undo was done shows another item than it should: nothing more is undone.
            undone = (None if shown is None else shown.position) == position and store.undo(rater) is not None
            return {**seen(rater), "undone": undone}

        return JSONResponse(await run_in_threadpool(take_back))

    @app.get("/pictures/{position}/{number}")
    def picture(request: Request, position: int, number: int) -> Response:
        rater = who(request)
        if rater.barred:
            raise Refused(403, rater.barred)
        png = showing.picture(rater, position, number)
        if png is None:
            raise Refused(404, "there is no such picture")
        return Response(png, media_type="image/png")

    @app.get("/examples/{task}/{option}")
    def example(request: Request, task: int, option: int) -> Response:
        who(request)
        png = showing.example(task, option)
        if png is None:
            raise Refused(404, "there is no such picture")
        return Response(png, media_type="image/png")

    @app.get("/{name}")
    def static(name: str) -> Response:
        if name not in files:
            raise Refused(404, "there is no such page")
        return Response(files[name], media_type=STATIC[name])

    app.add_middleware(_Guard, hosts=frozenset(LOOPBACK) | set(hosts or ()))
    return app


class _Passes:
    """The cookie that says who a rater is: signed with the study's key, so it outlives a restart of the server."""

    def __init__(self, store: VoteStore, *, tokens: bool) -> None:
        self._store = store
        self._mode = "token" if tokens else "name"
        # Cookies know no ports: two studies on one machine must not share one.
        self.cookie = "verism_" + store.signature("cookie")[:8]

    def made_for(self, rater: Rater) -> str:
        return f"{rater.id}.{self._store.signature(f'{self._mode}/{rater.id}')}"

    def rater(self, value: str | None) -> Rater | None:
        number, _, _ = (value or "").partition(".")
        if value is None or not (number.isascii() and number.isdigit()):
            return None
        rater = next((r for r in self._store.raters() if str(r.id) == number), None)
        if rater is None or not hmac.compare_digest(value.encode(), self.made_for(rater).encode()):
            return None
        return rater


class _Guard:
    """Refuses what another site could make a browser ask, and puts the protecting headers on every reply."""

    def __init__(self, app: Callable[..., Awaitable[None]], *, hosts: Collection[str]) -> None:
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
                own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *own]
            await send(message)

        status, why = self._refusal(scope["method"], scope["path"], headers)
        if status == 200:
            await self.app(scope, receive, guarded)
            return
        content = why.encode()
        shape = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(content)).encode())]
        await guarded({"type": "http.response.start", "status": status, "headers": shape})
        await guarded({"type": "http.response.body", "body": content})

    def _refusal(self, method: str, path: str, headers: MutableMapping[str, str]) -> tuple[int, str]:
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
        return name in self.hosts or (bool(self.hosts & set(ANYWHERE)) and _is_address(name))


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
