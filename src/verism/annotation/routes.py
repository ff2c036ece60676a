"""The requests of the page for raters.

``GET /api/state`` says what a rater sees now. ``POST /api/vote`` with position, ticket (of the item, from the state),
answer (or null: skipped) and seconds keeps an answer, and ``POST /api/undo`` with the position on the screen takes the
last one back; both reply with the new state. ``POST /api/join`` with a name is for local raters.
"""

from __future__ import annotations

import hmac
import json
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import resources
from typing import Annotated, Any, TypeGuard

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi import Path as UrlPath
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, RedirectResponse, Response

from verism.annotation.views import StudyView
from verism.annotation.votes import Rater, VoteStore
from verism.errors import UsageError, VerismError

__all__ = ["Site", "add_routes"]

MAX_NUMBER = 2**31 - 1  # of numbers in addresses, and of seconds
WRONG_TOKENS = 10  # from one address within WRONG_WITHIN_S; then its tokens are not looked at
WRONG_WITHIN_S = 60.0
MAX_ADDRESSES = 10_000  # whose wrong tokens are remembered
COOKIE_AGE = 30 * 24 * 3600  # seconds
WEB = resources.files("verism.annotation") / "web"
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

TOO_MANY = "Too many links that do not work came from this address. Wait a minute, then open the link you were sent."


class Refused(Exception):
    """A request that gets a status and a reason in place of what it asked for."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class Passes:
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


class Guesses:
    """Wrong tokens of late, by address: who guesses is held up, and nobody else.

    Tokens have 192 bits, so this protects the server's time and its log more than the tokens.

    Args:
        clock: seconds, only ever growing.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._times: dict[str, deque[float]] = {}
        self._lock = threading.Lock()

    def allowed(self, address: str) -> bool:
        """Whether a token from an address is looked at."""
        with self._lock:
            return len(self._recent(address)) < WRONG_TOKENS

    def wrong(self, address: str) -> None:
        """Note that a token from an address was nobody's."""
        with self._lock:
            if len(self._times) >= MAX_ADDRESSES:
                self._times = {known: times for known in [*self._times] if (times := self._recent(known))}
            if len(self._times) < MAX_ADDRESSES:
                self._times.setdefault(address, deque(maxlen=WRONG_TOKENS)).append(self._clock())

    def _recent(self, address: str) -> deque[float]:
        times = self._times.get(address, deque())
        while times and self._clock() - times[0] > WRONG_WITHIN_S:
            times.popleft()
        return times


@dataclass(frozen=True, kw_only=True)
class Site:
    """What all requests are answered from.

    Attributes:
        view: the study as its raters see it.
        tokens: whether raters come by a link with a token; otherwise by a name.
        passes: who a cookie belongs to.
        guesses: wrong tokens of late.
    """

    view: StudyView
    tokens: bool
    passes: Passes
    guesses: Guesses = field(default_factory=lambda: Guesses(time.monotonic))

    @staticmethod
    def of(view: StudyView, *, tokens: bool) -> Site:
        """The site of a study."""
        return Site(view=view, tokens=tokens, passes=Passes(view.store, tokens=tokens))

    def state(self, rater: Rater) -> dict[str, Any]:
        """All that the page shows to a rater now."""
        return {**self.view.state(rater), "local": not self.tokens}

    def known(self, request: Request) -> Rater | None:
        """Whose cookie a request brings; None if nobody's."""
        return self.passes.rater(request.cookies.get(self.passes.cookie))

    def page(self, message: str, status: int = 200) -> Response:
        """The page itself, which holds no data."""
        text = (WEB / "index.html").read_text(encoding="utf-8")
        return Response(text.replace("<!-- message -->", message), status, media_type="text/html")

    def with_pass(self, response: Response, rater: Rater, request: Request) -> Response:
        """A reply that also tells the browser who its rater is."""
        response.set_cookie(
            self.passes.cookie,
            self.passes.made_for(rater),
            max_age=COOKIE_AGE,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response


# --------------------------------------------------------------------------------------------------------- dependencies
def _site(request: Request) -> Site:
    site = request.app.state.site
    assert isinstance(site, Site)
    return site


TheSite = Annotated[Site, Depends(_site)]


def _rater(request: Request, site: TheSite) -> Rater:
    rater = site.known(request)
    if rater is None:
        raise Refused(401, NEEDS_LINK if site.tokens else "give your name first")
    return rater


async def _record(request: Request) -> dict[str, Any]:
    try:
        record = json.loads(await request.body())
    except (ValueError, RecursionError):  # no JSON, a number of too many digits, or nested too deeply
        raise Refused(400, "expected JSON") from None
    if not isinstance(record, dict):
        raise Refused(400, "expected a JSON object")
    return record


TheRater = Annotated[Rater, Depends(_rater)]
Record = Annotated[dict[str, Any], Depends(_record)]
Number = Annotated[int, UrlPath(ge=0, le=MAX_NUMBER)]


def _local(site: TheSite) -> None:
    """Names are enough for raters on this machine alone."""
    if site.tokens:
        raise Refused(403, NEEDS_LINK)


# --------------------------------------------------------------------------------------------------------------- routes
router = APIRouter()


@router.get("/")
def start(request: Request, site: TheSite, token: str | None = None) -> Response:
    """The page; a token in its address becomes a cookie."""
    if token is not None and site.tokens:
        address = request.client.host if request.client is not None else ""
        if not site.guesses.allowed(address):
            return site.page(TOO_MANY, 429)
        rater = site.view.store.rater_of_token(token)
        if rater is None:
            site.guesses.wrong(address)
            return site.page(NEEDS_LINK, 403)
        return site.with_pass(RedirectResponse("/", 303), rater, request)
    # A browser that comes from another site brings no strict cookie: the page, which holds no data, asks again.
    unknown = site.tokens and site.known(request) is None
    return site.page(NEEDS_LINK, 401) if unknown else site.page(LOADING)


@router.get("/api/state")
def state(request: Request, site: TheSite) -> Response:
    """What a rater sees now; who is unknown gives a name, or needs a link."""
    rater = site.known(request)
    if rater is not None:
        return JSONResponse(site.state(rater))
    return JSONResponse({"phase": "link", "why": NEEDS_LINK}, 401) if site.tokens else JSONResponse({"phase": "name"})


@router.post("/api/join", dependencies=[Depends(_local)])
async def join(request: Request, site: TheSite, record: Record) -> Response:
    """A local rater by name, who joins if they are new."""
    name = record.get("name")
    if not isinstance(name, str):
        raise Refused(400, "expected a name")
    rater = await run_in_threadpool(site.view.store.named_rater, name)
    return site.with_pass(JSONResponse(await run_in_threadpool(site.state, rater)), rater, request)


@router.post("/api/leave")
def leave(site: TheSite) -> Response:
    """Forget who the rater is."""
    response = JSONResponse({})
    response.delete_cookie(site.passes.cookie, httponly=True, samesite="strict")
    return response


@router.post("/api/vote")
def vote(request: Request, site: TheSite, rater: TheRater, record: Record) -> Response:
    """Keep an answer."""
    position, ticket, answer, seconds = (record.get(k) for k in ("position", "ticket", "answer", "seconds"))
    if not _is_integer(position) or not isinstance(ticket, str) or not isinstance(answer, str | None):
        raise Refused(400, "expected position, ticket and answer")
    if not site.view.was_given(rater, position, ticket):
        raise Refused(403, "this question was not asked of you")
    taken = None  # where it is none, negative, NaN, or more than anything could take
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds <= MAX_NUMBER:
        taken = float(seconds)
    site.view.vote(rater, position, answer, taken)
    return JSONResponse(site.state(_rater(request, site)))  # looked up anew: the vote may have been the one that bars


@router.post("/api/undo")
def undo(site: TheSite, rater: TheRater, record: Record) -> Response:
    """Take the last answer back."""
    position = record.get("position")
    if position is not None and not _is_integer(position):
        raise Refused(400, "expected the position on the screen, or null")
    shown = site.view.store.next_item(rater)
    # A page that did not hear that its undo was done shows another item than it should: nothing more is undone.
    undone = (None if shown is None else shown.position) == position and site.view.store.undo(rater) is not None
    return JSONResponse({**site.state(rater), "undone": undone})


@router.get("/pictures/{position}/{number}")
def image(site: TheSite, rater: TheRater, position: Number, number: Number) -> Response:
    """An image of an item, by its index on the rater's screen."""
    if rater.barred:
        raise Refused(403, rater.barred)
    return _png(site.view.image(rater, position, number))


@router.get("/examples/{task}/{option}", dependencies=[Depends(_rater)])
def example(site: TheSite, task: Number, option: Number) -> Response:
    """The image that a task names as the example of an option."""
    return _png(site.view.example(task, option))


@router.get("/{name}")
def static(name: str) -> Response:
    """Scripts and styles of the page."""
    if name not in STATIC:
        raise Refused(404, "there is no such page")
    return Response((WEB / name).read_bytes(), media_type=STATIC[name])


def _png(content: bytes | None) -> Response:
    if content is None:
        raise Refused(404, "there is no such image")
    return Response(content, media_type="image/png")


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


# --------------------------------------------------------------------------------------------------------------- errors
def _refused(_: Request, err: Exception) -> Response:
    assert isinstance(err, Refused)
    return JSONResponse({"error": err.reason}, err.status)


def _wrong(_: Request, err: Exception) -> Response:
    return JSONResponse({"error": str(err)}, 422)


def _failed(_: Request, err: Exception) -> Response:
    print(f"verism: {err}", file=sys.stderr)
    return JSONResponse({"error": "the study cannot be written just now"}, 503)


def add_routes(app: FastAPI, site: Site) -> None:
    """Let an application answer the requests of a site.

    Args:
        app: the application.
        site: the study it is about, and who may come.
    """
    app.state.site = site
    app.include_router(router)
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(UsageError, _wrong)
    app.add_exception_handler(VerismError, _failed)
