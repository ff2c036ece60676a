"""The client of a service with OpenAI's manners: connections, the key, retries, and several requests at once.

The HTTP library is loaded when a service is first asked. Keys come from the environment alone and are in no text.
"""

from __future__ import annotations

import contextlib
import json
import re
import ssl
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from multiprocessing.pool import AsyncResult, ThreadPool
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from verism.errors import UsageError, VerismError, require
from verism.prefetch import prefetch
from verism.services.addresses import origin
from verism.services.deadlines import Connections, Deadline, DeadlineError, bound_connections
from verism.services.options import ServiceOptions, duration, read_variable
from verism.services.redaction import LogRedactor, Redactor, clean_text
from verism.services.refusals import EVERY_REQUEST, NO_MONEY, ErrorReply, mentions_policy, page_text
from verism.services.retry import Failed, RateLimiter, Refused, Stopped, TransientError, retry, retry_after

if TYPE_CHECKING:
    import httpx

__all__ = ["LOOK_AHEAD", "Answer", "Outcome", "ServiceClient", "is_transient", "natural"]

T = TypeVar("T")
R = TypeVar("R", bound="_HasState")

LOOK_AHEAD = 4  # requests under way or answered and not yet taken, per worker: bounds memory
POOL_S = 5.0  # seconds until a worker gives up on a connection that a closed client no longer gives


class _Key:
    """Puts the key into a request. Its own class, so that no dump of variables shows it."""

    def __init__(self, key: str, headers: Mapping[str, str]) -> None:
        self.__headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.__headers.update(headers)

    def __call__(self, request: httpx.Request) -> httpx.Request:
        request.headers.update(self.__headers)
        return request

    def __repr__(self) -> str:
        return "<key>"

    def __reduce__(self) -> Any:
        raise TypeError("keys are not pickled")


@dataclass(frozen=True, eq=False, repr=False)
class Answer:
    """A complete answer.

    Attributes:
        status: HTTP status code.
        headers: header values by name in lower case.
        body: decompressed.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """What became of one item that was asked for.

    Attributes:
        result: None unless it came.
        state: state of the image or the reply.
        reason: why there is none, as the service says it (not redacted); empty otherwise.
    """

    result: T | None
    state: Literal["ok", "refused", "failed"] = "ok"
    reason: str = ""


@dataclass(eq=False)
class _Batch:
    """One call of ``in_order``.

    Attributes:
        halt: ends waits and keeps anything new from being asked.
        fatal: what concerns every item; its words alone, as the error would keep every variable on its way.
    """

    halt: threading.Event = field(default_factory=threading.Event)
    fatal: str | None = None


class _HasState(Protocol):
    @property
    def state(self) -> str: ...


class ServiceClient:
    """Asks one endpoint of a service, with retries, within its limits, and several requests at once.

    Args:
        model: id as the service knows it.
        options: where the service is and how much it is asked.
        role: who asks, in messages: ``captioner``.
        path: of the endpoint, such as ``/images/generations``.
        noun: what one request asks for, in messages: ``image``.
    Attributes:
        model: id of the model as the service knows it.
        owner: role and model, the start of each message.
        options: options with OpenAI's environment variables filled in and the address normalised.
        endpoint: URL that requests are sent to.
        limiter: decides when workers may ask; its clock may be replaced before the first request.
        redact: removes the API key from texts.
        counts: ``posts``, ``retries``, ``ok``, ``refused``, ``failed`` and what the user of the client counts.
        elapsed_s: time spent asking, seconds.

    Raises:
        UsageError: no name of a model, a value out of range, or an address that is not safe.
    """

    def __init__(self, model: str, options: ServiceOptions, *, role: str, path: str, noun: str) -> None:
        if not model or clean_text(model, 200) != model:
            raise UsageError(f"{role} openai: name a model, as in openai:MODEL, got {clean_text(model, 80)!r}")
        self.model = model
        self.owner = f"{role} openai:{model}"
        self.options = options.resolved(self.owner, path)
        self.endpoint = f"{self.options.base_url}{path}"
        self.limiter = RateLimiter(options.per_minute)
        self.redact = Redactor()
        self.counts: Counter[str] = Counter()
        self.elapsed_s = 0.0
        self._noun = noun
        self._purpose = f"asking a service for {noun}s"
        self._auth: _Key | None = None
        self._client: httpx.Client | None = None
        self._connections: Connections | None = None
        self._log_redactor: LogRedactor | None = None
        self._lock = threading.Lock()
        self._batches: set[_Batch] = set()
        self._deadline = Deadline()
        self._began: float | None = None  # when the first request was asked for, by the limiter's clock
        self._was_reached = False  # whether the service ever answered anything
        self._given_up = 0  # requests in a row that ended without any answer but errors that may pass
        self._limited = 0  # how many of them because of a rate limit

    def __repr__(self) -> str:
        return f"ServiceClient({self.endpoint!r})"

    def count(self, name: str, number: int = 1) -> None:
        """Add to a counter; from any thread."""
        with self._lock:
            self.counts[name] += number

    def summary(self, results: str) -> str:
        """A line about what was asked and what came of it; ``results`` are ``images``, or ``replies``."""
        with self._lock:
            n = Counter(self.counts)
        return (
            f"{n['posts']:,} requests ({n['retries']:,} retries) in {self.elapsed_s:,.1f} s: {n['ok']:,} {results}, "
            f"{n['refused']:,} refused, {n['failed']:,} failed"
        )

    # ---------------------------------------------------------------------------------------------------- connections
    def open(self) -> None:
        """Read the key and make the HTTP client, unless that is done.

        Raises:
            UsageError: no key, or none that can be sent. MissingExtra: a library is not installed.
        """
        with self._lock:
            if self._client is not None:
                return
            httpx = require("httpx", extra="api", purpose=self._purpose)
            require("tenacity", extra="api", purpose=self._purpose)
            options = self.options
            key = read_variable(self.owner, "key_env", options.key_env)
            if options.key_env and not key:
                # The name only if it looks like one: someone may have given a key instead.
                named = (
                    options.key_env if re.fullmatch(r"[A-Z][A-Z0-9_]{0,60}", options.key_env) else "named by key_env"
                )
                raise UsageError(
                    f"{self.owner}: no key. Put it into the environment variable {named}, or name another one by "
                    "key_env; keys are read from nowhere else"
                )
            headers = {
                "OpenAI-Organization": read_variable(self.owner, "organization_env", options.organization_env),
                "OpenAI-Project": read_variable(self.owner, "project_env", options.project_env),
            }
            self.redact = Redactor([key, *headers.values()])
            self._auth = _Key(key, {k: v for k, v in headers.items() if v})
            self._log_redactor = LogRedactor(self.redact)
            self._log_redactor.install()
            self._client = httpx.Client(
                # Nobody waits for a connection, their number being free; but who asks while another thread closes the
                # client could wait for ever for one that never comes.
                timeout=httpx.Timeout(options.timeout, connect=min(options.timeout, 30.0), pool=POOL_S),
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=options.concurrency),
                headers={"User-Agent": "verism"},
                verify=_certificates(),
                follow_redirects=False,
            )
            self._connections = bound_connections(self._client, self._deadline)
            self._given_up = self._limited = 0

    def close(self) -> None:
        """End everything under way; answers that are still to come are dropped. May be used again."""
        with self._lock:
            batches, client, log_redactor = list(self._batches), self._client, self._log_redactor
            connections = self._connections
            self._client = self._auth = self._log_redactor = self._connections = None
        for batch in batches:
            batch.halt.set()
        if connections is not None:
            connections.close()
        if client is not None:
            with contextlib.suppress(Exception):  # connections in use by workers that are ending
                client.close()
        if log_redactor is not None:
            log_redactor.remove()

    # ------------------------------------------------------------------------------------------------------- workers
    def in_order(self, items: Iterable[T], answer: Callable[[T, threading.Event], R]) -> Iterator[R]:
        """The answer to each item, in order; at most ``LOOK_AHEAD * concurrency`` are asked for ahead of the taker.

        Args:
            items: what is asked, drawn as workers become free.
            answer: asks for one item, in a worker's thread. What it raises is raised here; a UsageError concerns every
                item and ends the work, and ``failed`` results just before it are not yielded: these items are still to
                be asked for. It is given the event that ends waits.
        """
        batch = _Batch()
        failed: deque[R] = deque()  # since the last other result

        def work(item: T) -> R | None:
            try:
                self._check_run_deadline()
                return answer(item, batch.halt)
            except UsageError as err:
                if batch.fatal is None:
                    batch.fatal = str(err)
                batch.halt.set()
            except Stopped:
                pass
            return None

        with self._lock:
            self._batches.add(batch)
        started = time.monotonic()
        # Its threads are daemons, unlike those of ThreadPoolExecutor: an interrupted run ends at once, and not when the
        # last answer has come.
        pool = ThreadPool(self.options.concurrency)
        try:
            jobs = (pool.apply_async(work, (item,)) for item in items)
            for job in prefetch(jobs, LOOK_AHEAD * self.options.concurrency - 1):
                result = self._outcome(job, batch)
                failed.append(result)
                if result.state != "failed":
                    yield from failed
                    failed.clear()
                elif len(failed) > LOOK_AHEAD * self.options.concurrency:
                    yield failed.popleft()
            yield from failed
        finally:
            batch.halt.set()
            pool.close()
            with self._lock:
                self._batches.discard(batch)
                self.elapsed_s += time.monotonic() - started

    def _check_run_deadline(self) -> None:
        now = self.limiter.clock.now()
        with self._lock:
            began = self._began = now if self._began is None else self._began
        if now - began > self.options.run_deadline:
            raise UsageError(
                f"{self.owner}: the {duration(self.options.run_deadline)} for all requests of a run are over "
                "(run_deadline). Finished work is kept; repeat the command to continue"
            )

    def _outcome(self, job: AsyncResult[R | None], batch: _Batch) -> R:
        """Wait for a job and return or raise what became of it; None stands for work that was ended."""
        while not job.ready():
            job.wait(0.2)  # in pieces: on some systems Ctrl-C does not end a longer wait
            # After bad news, what is under way may still come, and was paid for; after close() nobody waits.
            if batch.halt.is_set() and batch.fatal is None and not job.ready():
                raise self._closed()
        if (result := job.get()) is not None:
            return result
        raise self._closed() if batch.fatal is None else UsageError(batch.fatal)

    def _closed(self) -> VerismError:
        return VerismError(f"{self.owner}: closed while {self._noun}s were still asked for")

    # ---------------------------------------------------------------------------------------------------------- asking
    def ask(self, attempt: Callable[[int], T], halt: threading.Event) -> Outcome[T]:
        """Make attempts until one succeeds, and count what became of it.

        Raises:
            UsageError: it concerns every request, or nothing but errors came for ``give_up`` requests in a row.
            Stopped: ``halt`` was set.
        """
        try:
            result = self.retry(attempt, halt)
        except Refused as err:
            self.count("refused")
            return Outcome(None, "refused", str(err))
        except (Failed, TransientError) as err:
            self.count("failed")
            if isinstance(err, TransientError) and err.down:
                self._give_up(err)
            return Outcome(None, "failed", str(err))
        self.limiter.count_served()
        self.count("ok")
        return Outcome(result)

    def _give_up(self, error: TransientError) -> None:
        with self._lock:
            self._given_up += 1
            self._limited += error.limited
            count, limited = self._given_up, self._limited == self._given_up
        if count < self.options.give_up:
            return
        if limited:
            what = f"refused {count} requests in a row because of its rate limit, each to the last retry"
            then = "wait, and repeat the command, with a lower concurrency or per_minute behind the name of the model"
        else:
            what = f"answered none of {count} requests in a row"
            then = "repeat the command when the service answers, or with a higher give_up if only these requests fail"
        last = self.redact(str(error), 400)
        raise UsageError(
            f"{self.owner}: {self.options.base_url} {what}; the last one: {last}. Finished work is kept; {then}"
        )

    def _note_answer(self) -> None:
        with self._lock:
            self._given_up = self._limited = 0

    def retry(self, attempt: Callable[[int], T], halt: threading.Event) -> T:
        """Make attempts until one succeeds, see ``services.retry``; retries are counted.

        Raises:
            UsageError: the service was never reached, by this attempt or any before.
            TransientError, Refused, Failed, Stopped: of the last attempt.
        """
        on_retry = partial(self.count, "retries")
        try:
            return retry(
                attempt,
                self.limiter,
                halt,
                retries=self.options.retries,
                deadline=self.options.deadline,
                on_retry=on_retry,
            )
        except TransientError as err:
            if err.unreachable and not self._was_reached:
                url = self.options.base_url
                raise UsageError(
                    f"{self.owner}: {url} cannot be reached: {err}. Check base_url and the network"
                ) from None
            raise

    def post(
        self,
        body: Mapping[str, Any],
        halt: threading.Event,
        *,
        limit: int,
        fixed: Collection[str],
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Send one request, when ``per_minute`` allows it, and return the JSON object of a successful answer.

        Args:
            body: sent as JSON.
            halt: ends the wait.
            limit: bytes of the answer.
            fixed: fields that every request holds alike.
            headers: besides the usual ones.

        Raises:
            UsageError: what concerns every request: key, model, quota, one of the ``fixed`` fields.
            Refused: what it asks is against the service's policy. TransientError: may pass. Failed: will not.
            Stopped: ``halt`` was set.
        """
        self.limiter.wait_for_turn(halt)
        self.count("posts")
        usual = {"Content-Type": "application/json", "Accept": "application/json"}
        content = json.dumps(body).encode()
        try:
            answer = self.exchange(
                "POST", self.endpoint, limit=limit, content=content, headers={**usual, **(headers or {})}
            )
            self._was_reached = True
            self._check(answer, fixed)
        except TransientError as err:
            err.down = True
            raise
        except (UsageError, Refused, Failed):  # it answers, if only that it will not
            self._note_answer()
            raise
        self._note_answer()
        return self._parse(answer)

    def exchange(
        self,
        method: str,
        url: str,
        *,
        limit: int,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request and read its whole answer. The key goes along only to the origin of the base address.

        Raises:
            TransientError: no connection, none in time, or cut off. Failed: a longer answer than ``limit`` bytes.
            ValueError: the address is none. Stopped: the client is closed.
        """
        import httpx

        client, timeout = self._client, self.options.timeout
        if client is None:
            raise Stopped("closed")
        auth = self._auth if origin(url) == origin(self.options.base_url) else None
        try:
            with (
                self._deadline.within(timeout),
                client.stream(method, url, content=content, headers=headers, auth=auth) as response,
            ):
                chunks: list[bytes] = []
                size = 0
                for chunk in response.iter_bytes():
                    chunks.append(chunk)
                    size += len(chunk)
                    if size > limit:
                        raise Failed(f"the service sent more than {limit >> 20} MiB for one {self._noun}")
                return Answer(response.status_code, dict(response.headers), b"".join(chunks))
        except DeadlineError:
            raise TransientError(f"no complete answer within {timeout:g} s") from None
        except httpx.InvalidURL:
            raise ValueError("not an address") from None
        except (httpx.RequestError, httpx.StreamError) as err:
            if self._client is not client:
                raise Stopped("closed") from None  # by close(), from another thread
            raise self._broken(err, timeout) from None
        except RuntimeError:
            if self._client is client:
                raise
            raise Stopped("closed") from None

    def _broken(self, error: Exception, timeout: float) -> TransientError:
        """What an error of the HTTP library means."""
        import httpx

        if isinstance(error, httpx.TimeoutException):
            unreachable = isinstance(error, httpx.ConnectTimeout)
            what = "no connection" if unreachable else "no answer"
            return TransientError(f"{what} within {timeout:g} s", unreachable=unreachable)
        unreachable = isinstance(error, httpx.ConnectError)
        what = "no connection" if unreachable else "the connection broke"
        # Our own texts say it all but for causes such as certificates; never the request, which holds the key.
        detail = self.redact(str(error), 160)
        return TransientError(f"{what}{f' ({detail})' if detail else ''}", unreachable=unreachable)

    def _check(self, answer: Answer, fixed: Collection[str]) -> None:
        """Raise what the status of an answer means, if it is no success."""
        status = answer.status
        if 200 <= status < 300:
            return
        if 300 <= status < 400:
            target = self.redact(answer.headers.get("location", "").partition("?")[0], 200)
            raise UsageError(
                f"{self.owner}: {self.options.base_url} redirects to {target!r}. A key is not sent to where a service "
                "redirects; if you trust that place, give it as base_url"
            )
        reply = ErrorReply.parse(answer.body)
        text = self._describe(answer, reply)
        here = f"{self.owner}: {self.options.base_url}: {text}."
        if status == 402 or reply.codes & NO_MONEY:
            raise UsageError(
                f"{here} The account has no credit or quota left. Finished work is kept; repeat the command to continue"
            )
        if reply.codes & EVERY_REQUEST or (status in (401, 403, 404, 405, 410) and not reply.is_refusal):
            raise UsageError(f"{here} {self._advice(status, reply)}")
        if status in (400, 422) and reply.param in {"model", *fixed}:
            raise UsageError(f"{here} It concerns {reply.param!r}, which every request holds; change that setting")
        if reply.is_refusal or (status in (400, 422) and mentions_policy(reply.message)):
            raise Refused(text)
        if is_transient(status):
            wait_s = retry_after(answer.headers)
            raise TransientError(
                text,
                wait_s=wait_s,
                limited=status == 429,
                crowded=status == 429 or (status == 503 and wait_s is not None),
                # What a service keeps by its idempotency key would be repeated; answers of gateways are not kept.
                answered=status == 500,
            )
        raise Failed(text)

    def _describe(self, answer: Answer, reply: ErrorReply) -> str:
        text = self.redact(reply.message, 400).rstrip(". ")
        code = self.redact(", ".join(sorted(reply.codes)), 80)
        number = self.redact(answer.headers.get("x-request-id", ""), 60)
        aside = "; ".join(part for part in (code, f"request {number}" if number else "") if part)
        return f"HTTP {answer.status}{f': {text}' if text else ''}{f' ({aside})' if aside else ''}"

    def _advice(self, status: int, reply: ErrorReply) -> str:
        if status in (401, 403) or "invalid_api_key" in reply.codes:
            if self.options.key_env is None:
                return "No key was sent: name the environment variable that holds it by key_env"
            return f"Check the key in {self.options.key_env}, and that it may use this model"
        return "Check the name of the model, and base_url"

    def _parse(self, answer: Answer) -> dict[str, Any]:
        """The JSON object of a successful answer, unless it tells of an error."""
        try:
            data = json.loads(answer.body)
        except (ValueError, RecursionError):
            text = self.redact(page_text(answer.body), 120)
            raise TransientError(f"HTTP {answer.status}, but the answer is no JSON: {text!r}", answered=True) from None
        if not isinstance(data, dict):
            raise TransientError(f"HTTP {answer.status}, but the answer is no JSON object", answered=True)
        if data.get("error"):
            reply = ErrorReply.of_json(data)
            text = self._describe(answer, reply)
            if reply.codes & NO_MONEY:
                raise UsageError(f"{self.owner}: {self.options.base_url}: {text}. The account has no quota left")
            if reply.is_refusal or mentions_policy(reply.message):
                raise Refused(text)
            raise TransientError(text, answered=True)
        return data


@cache
def _certificates() -> ssl.SSLContext:
    """Read once: it takes longer than many an answer."""
    import httpx

    return httpx.create_ssl_context()


def is_transient(status: int) -> bool:
    """Whether an HTTP status stands for an error that may pass."""
    return status in (408, 409, 425, 429) or status >= 500


def natural(value: Any) -> int:
    """A positive count out of an answer; 0 for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**12 else 0
