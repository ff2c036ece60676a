"""Pictures from OpenAI's image models, and from any service that answers ``POST {base_url}/images/generations`` alike.

One request per picture, several at a time, answered in order. What may pass is tried again (see ``_http.persist``);
a prompt that the service will not paint is ``refused``; what concerns every picture (key, model, quota, a setting that
the service does not take) ends the run with one message. Keys come from the environment alone and are in no text.

Source of the interface: https://developers.openai.com/api/reference/resources/images
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import io
import json
import logging
import math
import os
import queue
import re
import ssl
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote, urlencode, urljoin, urlsplit

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PilImage
from PIL import UnidentifiedImageError

from verism.errors import UsageError, VerismError, require
from verism.generators import openai_prices
from verism.generators._http import (
    NotThisTime,
    Pacer,
    PictureFailed,
    PictureRefused,
    Redactor,
    Stopped,
    check_base_url,
    clean_text,
    origin,
    persist,
    retry_after,
)
from verism.imaging import MAX_PIXELS, to_rgb
from verism.records import Request, Result

if TYPE_CHECKING:
    import httpx

__all__ = ["OPENAI", "OpenAIImages", "decode_picture", "parse_extra"]

OPENAI = "https://api.openai.com/v1"
LOOK_AHEAD = 4  # requests under way or answered and not yet taken, per worker: bounds memory
MAX_ANSWER = 128 << 20  # bytes of a JSON answer; a 4096 x 4096 picture in base64 has less than half of that
POOL_S = 5.0  # seconds until a worker gives up on a connection that a closed client no longer gives
MAX_DOWNLOAD = 64 << 20  # bytes of a picture behind an address
MAX_HOPS = 5  # redirections of a picture's address
# Formats that services send. Pillow would also try those that start other programs (EPS) or have no use here.
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")

# `error.code`, `error.type` or an inner code, in lower case. Services disagree about the status beside them.
REFUSALS = frozenset(
    {
        "content_policy_violation",
        "moderation_blocked",
        "content_filter",
        "contentfilter",
        "content_moderation",
        "image_content_policy_violation",
        "responsibleaipolicyviolation",
    }
)
NO_MONEY = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "insufficient_credits"})
EVERY_PICTURE = frozenset({"model_not_found", "invalid_model", "invalid_api_key", "account_deactivated"})
REFUSAL_WORDS = re.compile(
    r"safety (?:system|filter|check)|content[ _-](?:policy|policies|filter)|usage polic(?:y|ies)|\bnsfw\b"
    r"|moderation\b.*\b(?:block|reject|flag)|(?:block|reject|flag)\w*\b.*\bmoderation",
    re.IGNORECASE | re.DOTALL,
)
SECRET_NAMES = re.compile(r"(?:^|[_-])(?:api_?key|key|secret|password|authorization|token)$", re.IGNORECASE)
RESERVED = frozenset({"model", "prompt", "n", "size", "quality", "style", "background", "output_format", "stream"})
# Where the HTTP library logs addresses and, for debugging, headers of answers: both may hold what a service sends back.
LOGGERS = ("httpx", *(f"httpcore.{part}" for part in ("connection", "http11", "http2", "proxy", "socks")))
REPORTED = ("model", "size", "quality", "background", "output_format")  # what an answer may say of how it was made


def parse_extra(text: str) -> Any:
    """The value of an ``extra.NAME=value`` option: JSON where it is JSON (7.5, true, null, {...}), else text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(value, float) and not math.isfinite(value) else value  # NaN is no JSON, but Python's


def decode_picture(data: bytes) -> tuple[NDArray[np.uint8], list[str]]:
    """Bytes of a PNG, JPEG, WebP, GIF, BMP or TIFF file as upright RGB, (H, W, 3), uint8, and what was done to it.

    EXIF rotation is applied and transparency laid over white, as for pictures that are brought.

    Raises:
        PictureFailed: more than ``imaging.MAX_PIXELS`` pixels; nothing of them was decoded.
        NotThisTime: not a picture, damaged, or cut off.
    """
    try:
        with PilImage.open(io.BytesIO(data), formats=FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:
                raise PictureFailed(
                    f"the picture has {image.width} x {image.height} pixels; the limit is {MAX_PIXELS:,}"
                )
            return to_rgb(image)
    except PictureFailed:
        raise
    except PilImage.DecompressionBombError:
        raise PictureFailed(f"the picture is too large; the limit is {MAX_PIXELS:,} pixels") from None
    except UnidentifiedImageError:
        reason = "not a picture, or of a format that is not supported"
    except Exception as err:  # decoders raise OSError, SyntaxError, ValueError, struct.error ... on damaged files
        reason = f"damaged or cut off: {clean_text(str(err), 120)}"
    raise NotThisTime(f"the service sent {len(data):,} bytes that cannot be decoded ({reason})", answered=True)


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


class _LogFilter(logging.Filter):
    """Hides secrets in what the HTTP library logs."""

    def __init__(self, redact: Redactor) -> None:
        super().__init__()
        self._redact = redact

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._redact(record.getMessage(), 4000), ()
        return True


@dataclass(frozen=True, eq=False, repr=False)
class _Answer:
    """A complete answer. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class _Complaint:
    """What an error answer says, whatever its form. ``codes`` in lower case; ``message`` is raw."""

    message: str
    codes: frozenset[str]
    param: str | None

    @staticmethod
    def of(answer: _Answer) -> _Complaint:
        try:
            data = json.loads(answer.body)
        except (ValueError, RecursionError):
            return _Complaint(_message_of_page(answer.body), frozenset(), None)
        return _Complaint.of_json(data)

    @staticmethod
    def of_json(data: Any) -> _Complaint:
        if isinstance(data, list) and data:  # Google's form of the interface
            data = data[0]
        if not isinstance(data, dict):
            return _Complaint(data if isinstance(data, str) else "", frozenset(), None)
        error = data.get("error")
        inner = error if isinstance(error, dict) else {}
        further = inner.get("inner_error") or inner.get("innererror")
        sources = [inner, data, further if isinstance(further, dict) else {}]
        texts = [
            error,
            *(source.get(name) for source in sources for name in ("message", "detail", "error_description")),
        ]
        message = next((t for t in texts if isinstance(t, str) and t.strip()), "")
        if not message and data.get("detail"):  # FastAPI lists what it did not like
            message = _as_json(data["detail"])
        found = [source.get(name) for source in sources for name in ("code", "type")]
        codes = {str(code).lower() for code in found if code and isinstance(code, str | int)}
        param = inner.get("param")
        if isinstance(data.get("detail"), list) and data["detail"] and isinstance(data["detail"][0], dict):
            place = data["detail"][0].get("loc")  # FastAPI: ["body", "size"]
            param = place[-1] if isinstance(place, list) and place else param
        return _Complaint(message, frozenset(codes), param if isinstance(param, str) else None)


def _message_of_page(body: bytes) -> str:
    """What a page that is not JSON says: its title if it is HTML, else its beginning."""
    text = body[:4000].decode("utf-8", "replace").strip()
    if text.startswith("<"):
        title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
        return f"an HTML page titled {title.group(1).strip()!r}" if title else "an HTML page"
    return text


@dataclass(eq=False)
class _Job:
    request: Request
    done: threading.Event = field(default_factory=threading.Event)
    result: Result | None = None
    error: BaseException | None = None


@dataclass(eq=False)
class _Batch:
    """One call of ``generate``. ``halt`` ends waits and keeps anything new from being asked."""

    jobs: queue.SimpleQueue[_Job | None] = field(default_factory=queue.SimpleQueue)
    halt: threading.Event = field(default_factory=threading.Event)
    fatal: UsageError | None = None


class OpenAIImages:
    """Asks a service with OpenAI's images interface for one picture per request.

    Args:
        model: id as the service knows it, e.g. ``gpt-image-1``.
        base_url: the service, up to and without ``/images/generations``. Without user name, password and query.
        key_env: name of the environment variable that holds the key. None: ``OPENAI_API_KEY`` for OpenAI itself and no
            key for others, so that OpenAI's key is never sent elsewhere unasked.
        organization_env, project_env: variables with the ids of organisation and project; None: ``OPENAI_ORG_ID`` and
            ``OPENAI_PROJECT_ID`` for OpenAI itself, if set, and nothing for others.
        size, quality, style, background, output_format: sent as they are if given; the model decides what is allowed.
        extra: further JSON fields of each request.
        seed_field: name of a JSON field in which the service takes the seed; OpenAI has none.
        price: US dollars per picture, for estimates.
        concurrency: requests at once, 1 to 256.
        retries: how often a failure that may pass is tried again, 0 to 100.
        timeout: seconds for one complete answer.
        allow_http: send a key over ``http://`` to another machine.
        sleep, clock: how pauses are waited for, and the seconds they are measured in (for tests: ``sleep`` must advance
            ``clock``); by default real time, in which closing ends every wait.

    Raises:
        UsageError: a value out of range, or an address that is not safe.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str = OPENAI,
        key_env: str | None = None,
        organization_env: str | None = None,
        project_env: str | None = None,
        size: str | None = None,
        quality: str | None = None,
        style: str | None = None,
        background: str | None = None,
        output_format: str | None = None,
        extra: Mapping[str, Any] | None = None,
        seed_field: str | None = None,
        price: float | None = None,
        concurrency: int = 4,
        retries: int = 6,
        timeout: float = 180.0,
        allow_http: bool = False,
        sleep: Callable[[float], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not model or clean_text(model, 200) != model:
            raise UsageError("openai: name a model, for example openai:gpt-image-1")
        _check_range("concurrency", concurrency, 1, 256)
        _check_range("retries", retries, 0, 100)
        _check_range("timeout", timeout, 0.01, 86_400)
        if price is not None:
            _check_range("price", price, 0, 1_000_000)
        host = _host(base_url)
        self._ours = host == "api.openai.com" or host.endswith(".api.openai.com")
        if self._ours:
            key_env = key_env or "OPENAI_API_KEY"
            organization_env = organization_env or "OPENAI_ORG_ID"
            project_env = project_env or "OPENAI_PROJECT_ID"
        for option, name in (
            ("key_env", key_env),
            ("organization_env", organization_env),
            ("project_env", project_env),
        ):
            _check_variable(option, name)
        self.model = model
        self.base_url = check_base_url(
            base_url, option="base_url", has_key=bool(key_env), allow_http=allow_http
        ).removesuffix("/images/generations")
        self.seed_field = seed_field or None
        self.price = price
        self.concurrency, self.retries, self.timeout = int(concurrency), int(retries), float(timeout)
        self._key_env, self._organization_env, self._project_env = key_env, organization_env, project_env
        given = {
            "size": size,
            "quality": quality,
            "style": style,
            "background": background,
            "output_format": output_format,
        }
        self._settings: dict[str, Any] = {k: v for k, v in given.items() if v}
        self._extra = _check_extra(extra or {}, self.seed_field)
        self.name = self._make_name()
        self._pacer = Pacer(sleep, clock)
        self._redact = Redactor()
        self._auth: _Key | None = None
        self._client: httpx.Client | None = None
        self._log_filter: _LogFilter | None = None
        self._httpx: Any = None
        self._lock = threading.Lock()
        self._batches: set[_Batch] = set()
        self._counts: Counter[str] = Counter()
        self._reported: dict[str, Counter[str]] = {}
        self._cost = 0.0
        self._elapsed_s = 0.0
        self._heard = False  # whether the service ever answered anything

    def __repr__(self) -> str:
        return f"OpenAIImages({self.name!r})"

    def _make_name(self) -> str:
        pairs = list(self._settings.items())
        pairs += [
            (f"extra.{k}", v if isinstance(v, str) and parse_extra(v) == v else json.dumps(v, sort_keys=True))
            for k, v in sorted(self._extra.items())
        ]
        if self.seed_field:
            pairs.append(("seed_field", self.seed_field))
        parts = urlsplit(self.base_url)
        where = "" if self.base_url == OPENAI else f"@{parts.netloc}{'' if parts.path == '/v1' else parts.path}"
        return f"openai:{self.model}{where}{'?' if pairs else ''}{urlencode(pairs, safe='/:,', quote_via=quote)}"

    # ------------------------------------------------------------------------------------------------------ protocol
    def generate(self, requests: Sequence[Request]) -> Iterator[Result]:
        """One result per request, in order; at most ``LOOK_AHEAD * concurrency`` are asked for ahead of the taker.

        Raises:
            UsageError: no key, or what the service says concerns every picture. Pictures before it were yielded.
            MissingExtra: httpx is not installed.
        """
        if len(requests):  # a finished run needs no key
            self._open()  # at once, and not with the first picture: a missing key is best known early
        return self._generate(requests)

    def _generate(self, requests: Sequence[Request]) -> Iterator[Result]:
        batch = _Batch()
        with self._lock:
            self._batches.add(batch)
        started = time.monotonic()
        upcoming = iter(requests)
        waiting: deque[_Job] = deque()
        workers = 0
        try:
            while True:
                while len(waiting) < LOOK_AHEAD * self.concurrency and (request := next(upcoming, None)) is not None:
                    waiting.append(job := _Job(request))
                    batch.jobs.put(job)
                    if workers < self.concurrency:
                        # Daemons: an interrupted run ends at once, and not when the last answer has come.
                        threading.Thread(
                            target=self._work, args=(batch,), name=f"verism-openai-{workers}", daemon=True
                        ).start()
                        workers += 1
                if not waiting:
                    return
                yield _outcome(waiting.popleft(), batch)
        finally:
            batch.halt.set()
            for _ in range(workers):
                batch.jobs.put(None)
            with self._lock:
                self._batches.discard(batch)
                self._elapsed_s += time.monotonic() - started

    def close(self) -> None:
        """End everything under way; answers that are still to come are dropped. May be used again."""
        with self._lock:
            batches, client, log_filter = list(self._batches), self._client, self._log_filter
            self._client = self._auth = self._log_filter = None
        for batch in batches:
            batch.halt.set()
        if client is not None:
            with contextlib.suppress(Exception):  # connections in use by workers that are ending
                client.close()
        if log_filter is not None:
            for name in LOGGERS:
                logging.getLogger(name).removeFilter(log_filter)

    def describe(self) -> dict[str, Any]:
        """For the manifest: the service, what each request holds, what the answers said of themselves, versions."""
        with self._lock:
            reported = {name: dict(sorted(counter.items())) for name, counter in sorted(self._reported.items())}
        return {
            "kind": "openai",
            "model": self.model,
            "base_url": self.base_url,
            "request": self._fixed_fields(),
            "seed": f"sent as {self.seed_field!r}" if self.seed_field else "not sent: the service takes none",
            "reported": reported,
            "pixels": "decoded to RGB, upright by EXIF, transparency over white",
            "versions": {name: _version(name) for name in ("httpx", "pillow")},
        }

    def estimate(self, requests: Sequence[Request]) -> list[str]:
        """Lines for a rehearsal: how many requests to whom, and what they may cost. Nothing is asked of anybody."""
        count = len(requests)
        lines = [f"{count:,} {'request' if count == 1 else 'requests'} to {self._endpoint}, model {self.model}"]
        cost = self._picture_cost()
        if self.price is not None:
            lines.append(f"cost about USD {count * self.price:,.2f}, at your price of USD {self.price:g} a picture")
        elif cost is None:
            lines.append("cost unknown: no price is known for this model and these settings; price=USD tells one")
        else:
            low, high = count * cost.low, count * cost.high
            span = f"USD {low:,.2f}" if cost.low == cost.high else f"USD {low:,.2f} to {high:,.2f}"
            each = f"USD {cost.low:g}" if cost.low == cost.high else f"USD {cost.low:g} to {cost.high:g}"
            lines.append(
                f"cost about {span} for pictures at {each}, and a little for prompts: the list price of "
                f"{openai_prices.table_date()}, which may have changed ({openai_prices.table_source()})"
            )
        return lines

    def summary(self) -> list[str]:
        """Lines after a run: what was asked, what came, how long it took, what it cost as far as that is known."""
        with self._lock:
            n, cost, seconds = Counter(self._counts), self._cost, self._elapsed_s
        lines = [
            f"{n['posts']:,} requests ({n['retries']:,} tries again) in {seconds:,.1f} s: {n['ok']:,} pictures, "
            f"{n['refused']:,} refused, {n['failed']:,} failed"
        ]
        if n["input_tokens"] or n["output_tokens"]:
            lines.append(
                f"{n['input_tokens']:,} tokens of prompts, {n['output_tokens']:,} of pictures, by the service's count"
            )
        bases = [
            text
            for name, text in (
                ("by_service", "stated by the service"),
                ("by_price", f"at your price of USD {self.price or 0:g} a picture"),
                ("by_tokens", f"from its token counts and the list price of {openai_prices.table_date()}"),
                ("by_list", f"at the list price of {openai_prices.table_date()}"),
            )
            if n[name]
        ]
        if bases:
            unknown = f"; of {n['by_nothing']:,} pictures the cost is unknown" if n["by_nothing"] else ""
            lines.append(
                f"cost about USD {cost:,.2f}, {' and '.join(bases)}{unknown}; what counts is the service's bill"
            )
        elif n["by_nothing"]:
            lines.append("cost unknown: the service states none and no price is known; price=USD tells one")
        return lines

    # ------------------------------------------------------------------------------------------------------- workers
    def _work(self, batch: _Batch) -> None:
        while (job := batch.jobs.get()) is not None:
            try:
                job.result = self._answer(job.request, batch.halt)
            except UsageError as err:
                batch.fatal = batch.fatal or err
                batch.halt.set()
                job.error = err
            except BaseException as err:  # the taker raises it; a worker that died in silence would leave it waiting
                job.error = err
            finally:
                job.done.set()

    def _answer(self, request: Request, halt: threading.Event) -> Result:
        try:
            pixels, notes = persist(
                lambda answers: self._ask(request, answers, halt),
                self._pacer,
                halt,
                retries=self.retries,
                on_retry=lambda: self._count("retries"),
            )
        except PictureRefused as err:
            return self._no_picture(request, "refused", str(err))
        except PictureFailed as err:
            return self._no_picture(request, "failed", str(err))
        except NotThisTime as err:
            if err.unreachable and not self._heard:
                raise UsageError(
                    f"openai: {self.base_url} cannot be reached: {err.reason}. Check base_url and the network"
                ) from None
            return self._no_picture(request, "failed", err.reason)
        self._pacer.arrive()
        self._count("ok")
        seeded = self.seed_field is not None
        return Result(image_id=request.image_id, state="ok", pixels=pixels, note="; ".join(notes), seeded=seeded)

    def _no_picture(self, request: Request, state: Literal["refused", "failed"], note: str) -> Result:
        self._count(state)
        seeded = self.seed_field is not None
        return Result(image_id=request.image_id, state=state, note=self._redact(note, 1000), seeded=seeded)

    def _ask(self, request: Request, answers: int, halt: threading.Event) -> tuple[NDArray[np.uint8], list[str]]:
        """One attempt: ask, read, decode. ``answers``: complete but useless answers before it."""
        body = {"model": self.model, "prompt": request.prompt.text, "n": 1, **self._fixed_fields()}
        if self.seed_field:
            body[self.seed_field] = request.seed
        self._count("posts")
        answer = self._exchange(
            "POST",
            self._endpoint,
            limit=MAX_ANSWER,
            content=json.dumps(body).encode(),
            headers={
                "Content-Type": "application/json",
                "Accept": "application/json",
                "Idempotency-Key": self._idempotency_key(request, body, answers),
            },
        )
        self._heard = True
        self._check(answer)
        data = self._parse(answer)
        self._account(data)
        item = data["data"][0] if isinstance(data.get("data"), list) and data["data"] else {}
        item = item if isinstance(item, dict) else {}
        pixels, notes = decode_picture(self._picture_bytes(data, item, halt))
        revised = item.get("revised_prompt")
        if isinstance(revised, str) and revised.strip() and revised != request.prompt.text:
            notes.append(f"revised prompt: {self._redact(revised, 8000)}")
        return pixels, notes

    def _exchange(
        self,
        method: str,
        url: str,
        *,
        limit: int,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> _Answer:
        """Send one request and read its whole answer. The key goes along only to the origin of the base address.

        Raises:
            NotThisTime: no connection, none in time, or cut off. PictureFailed: a longer answer than ``limit`` bytes.
        """
        httpx, client = self._httpx, self._client
        if client is None:
            raise Stopped("closed")
        auth = self._auth if origin(url) == origin(self.base_url) else None
        deadline = time.monotonic() + self.timeout
        try:
            with client.stream(method, url, content=content, headers=headers, auth=auth) as response:
                chunks: list[bytes] = []
                size = 0
                for chunk in response.iter_bytes():
                    chunks.append(chunk)
                    size += len(chunk)
                    if size > limit:
                        raise PictureFailed(f"the service sent more than {limit >> 20} MiB for one picture")
                    if time.monotonic() > deadline:  # the client's own limit is per piece, and pieces may drip
                        raise NotThisTime(f"no complete answer within {self.timeout:g} s")
                return _Answer(response.status_code, dict(response.headers), b"".join(chunks))
        except httpx.TimeoutException as err:
            unreachable = isinstance(err, httpx.ConnectTimeout)
            what = "no connection" if unreachable else "no answer"
            raise NotThisTime(f"{what} within {self.timeout:g} s", unreachable=unreachable) from None
        except (httpx.RequestError, httpx.StreamError) as err:
            unreachable = isinstance(err, httpx.ConnectError)
            what = "no connection" if unreachable else "the connection broke"
            # Our own texts say it all but for causes such as certificates; never the request, which holds the key.
            detail = self._redact(str(err), 160)
            raise NotThisTime(f"{what}{f' ({detail})' if detail else ''}", unreachable=unreachable) from None
        except RuntimeError:
            if self._client is client:
                raise
            raise Stopped("closed") from None  # by close(), from another thread

    def _check(self, answer: _Answer) -> None:
        """Raise what the status of an answer means, if it is no success."""
        status = answer.status
        if 200 <= status < 300:
            return
        if 300 <= status < 400:
            target = self._redact(answer.headers.get("location", "").partition("?")[0], 200)
            raise UsageError(
                f"openai: {self.base_url} redirects to {target!r}. A key is not sent to where a service redirects; "
                "if you trust that place, give it as base_url"
            )
        complaint = _Complaint.of(answer)
        said = self._said(answer, complaint)
        here = f"openai: {self.base_url}, model {self.model}: {said}."
        if status == 402 or complaint.codes & NO_MONEY:
            raise UsageError(
                f"{here} The account has no credit or quota left. Pictures made so far are kept, and the same command "
                "goes on from there"
            )
        refused = bool(complaint.codes & REFUSALS)
        if complaint.codes & EVERY_PICTURE or (status in (401, 403, 404, 405, 410) and not refused):
            raise UsageError(f"{here} {self._advice(status, complaint)}")
        if status in (400, 422) and complaint.param in {"model", "n", *self._fixed_fields()}:
            raise UsageError(f"{here} It concerns {complaint.param!r}, which every request holds; change that setting")
        if refused or (status in (400, 422) and _speaks_of_policy(complaint.message)):
            raise PictureRefused(said)
        if status in (408, 409, 425, 429) or status >= 500:
            wait_s = retry_after(answer.headers)
            raise NotThisTime(
                said,
                wait_s=wait_s,
                crowded=status == 429 or (status == 503 and wait_s is not None),
                # What a service keeps by its idempotency key would be repeated; answers of gateways are not kept.
                answered=status == 500,
            )
        raise PictureFailed(said)

    def _said(self, answer: _Answer, complaint: _Complaint) -> str:
        text = self._redact(complaint.message, 400).rstrip(". ")
        code = self._redact(", ".join(sorted(complaint.codes)), 80)
        number = self._redact(answer.headers.get("x-request-id", ""), 60)
        aside = "; ".join(part for part in (code, f"request {number}" if number else "") if part)
        return f"HTTP {answer.status}{f': {text}' if text else ''}{f' ({aside})' if aside else ''}"

    def _advice(self, status: int, complaint: _Complaint) -> str:
        if status in (401, 403) or "invalid_api_key" in complaint.codes:
            if self._key_env is None:
                return "No key was sent: name the environment variable that holds it by key_env"
            return f"Check the key in {self._key_env}, and that it may use this model"
        return "Check the name of the model, and base_url"

    def _parse(self, answer: _Answer) -> dict[str, Any]:
        """The JSON object of a successful answer, unless it says that there is no picture."""
        try:
            data = json.loads(answer.body)
        except (ValueError, RecursionError):
            text = self._redact(_message_of_page(answer.body), 120)
            raise NotThisTime(f"HTTP {answer.status}, but the answer is no JSON: {text!r}", answered=True) from None
        if not isinstance(data, dict):
            raise NotThisTime(f"HTTP {answer.status}, but the answer is no JSON object", answered=True)
        if data.get("error"):
            complaint = _Complaint.of_json(data)
            said = self._said(answer, complaint)
            if complaint.codes & NO_MONEY:
                raise UsageError(f"openai: {self.base_url}, model {self.model}: {said}. The account has no quota left")
            if complaint.codes & REFUSALS or _speaks_of_policy(complaint.message):
                raise PictureRefused(said)
            raise NotThisTime(said, answered=True)
        return data

    def _picture_bytes(self, data: Mapping[str, Any], item: Mapping[str, Any], halt: threading.Event) -> bytes:
        """The picture's file, out of the answer or from its address.

        Raises:
            PictureRefused: no picture, but words of refusal. NotThisTime: neither. PictureFailed: a dead address.
        """
        encoded, url = item.get("b64_json"), item.get("url")
        if isinstance(url, str) and url.startswith("data:") and not encoded:
            encoded = url
        if isinstance(encoded, str) and encoded:
            if encoded.startswith("data:"):
                encoded = encoded.partition(",")[2]
            try:
                return base64.b64decode("".join(encoded.split()), validate=True)
            except (binascii.Error, ValueError):
                raise NotThisTime("the picture in the answer is no valid base64", answered=True) from None
        if isinstance(url, str) and url:
            try:
                return persist(
                    lambda _: self._download(url),
                    self._pacer,
                    halt,
                    retries=self.retries,
                    on_retry=lambda: self._count("retries"),
                )
            except NotThisTime as err:
                # Not asked for anew: it was painted, and would be paid for twice.
                raise PictureFailed(f"the picture was made but cannot be fetched: {err.reason}") from None
        words = _refusal(data, item)
        if words is not None:
            raise PictureRefused(self._redact(words, 400))
        raise NotThisTime("the answer holds no picture", answered=True)

    def _download(self, url: str) -> bytes:
        """The file behind an address, following redirections; see ``_exchange`` for where the key may go."""
        here = self._endpoint
        for _ in range(MAX_HOPS + 1):
            try:
                here = urljoin(here, url)
                scheme, host, _port = origin(here)
                if scheme not in ("http", "https") or not host:
                    raise ValueError("not on the web")
                answer = self._exchange("GET", here, limit=MAX_DOWNLOAD)
            except (ValueError, self._httpx.InvalidURL):
                raise PictureFailed("the picture was made but its address is none that can be fetched") from None
            status, where = answer.status, f"its address at {clean_text(host, 100)}"
            if 200 <= status < 300:
                return answer.body
            if 300 <= status < 400 and answer.headers.get("location"):
                url = answer.headers["location"]
                continue
            if status in (408, 409, 425, 429) or status >= 500:
                raise NotThisTime(f"{where} answered HTTP {status}", wait_s=retry_after(answer.headers))
            raise PictureFailed(f"the picture was made but cannot be fetched: {where} answered HTTP {status}")
        raise PictureFailed(f"the picture's address redirects more than {MAX_HOPS} times")

    # ------------------------------------------------------------------------------------------------------- details
    @property
    def _endpoint(self) -> str:
        return f"{self.base_url}/images/generations"

    def _fixed_fields(self) -> dict[str, Any]:
        """Fields that every request holds, but for model, prompt, number and seed."""
        # DALL-E would send addresses that expire; gpt-image always sends base64 and refuses the question, and what
        # other models make of it nobody knows.
        asked = {"response_format": "b64_json"} if self.model in ("dall-e-2", "dall-e-3") else {}
        return {**asked, **self._settings, **self._extra}

    def _idempotency_key(self, request: Request, body: Mapping[str, Any], answers: int) -> str:
        """Equal for the same picture in every try and every run, so a service that knows it does not paint it twice.

        It changes with ``answers``: a service that keeps answers by it would send the useless one again.
        """
        text = json.dumps([self.base_url, body, request.image_id, request.seed, answers], sort_keys=True)
        return f"verism-{hashlib.sha256(text.encode()).hexdigest()[:40]}"

    def _open(self) -> None:
        """Read the key and make the client, unless that is done."""
        with self._lock:
            if self._client is not None:
                return
            httpx = require("httpx", extra="api", purpose="asking a service for pictures")
            key = _variable(self._key_env, "key_env")
            if self._key_env and not key:
                raise UsageError(
                    f"openai: no key. Put it into the environment variable {_shown(self._key_env)}, or name another "
                    "one by key_env; keys are read from nowhere else"
                )
            headers = {
                "OpenAI-Organization": _variable(self._organization_env, "organization_env"),
                "OpenAI-Project": _variable(self._project_env, "project_env"),
            }
            self._redact = Redactor([key, *headers.values()])
            self._auth = _Key(key, {k: v for k, v in headers.items() if v})
            self._httpx = httpx
            self._log_filter = _LogFilter(self._redact)
            for name in LOGGERS:
                logging.getLogger(name).addFilter(self._log_filter)
            self._client = httpx.Client(
                # Nobody waits for a connection, their number being free; but who asks while another thread closes the
                # client could wait for ever for one that never comes.
                timeout=httpx.Timeout(self.timeout, connect=min(self.timeout, 30.0), pool=POOL_S),
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=self.concurrency),
                headers={"User-Agent": "verism"},
                verify=_certificates(),
                follow_redirects=False,
            )

    def _count(self, name: str) -> None:
        with self._lock:
            self._counts[name] += 1

    def _picture_cost(self) -> openai_prices.PictureCost | None:
        # Others set their own prices, whatever they call their models.
        if not self._ours:
            return None
        return openai_prices.picture_cost(self.model, self._settings.get("size"), self._settings.get("quality"))

    def _account(self, data: Mapping[str, Any]) -> None:
        """Take in what an answer says of itself: models and settings by name, tokens, cost."""
        usage = data.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        tokens = {name: _natural(usage.get(name)) for name in ("input_tokens", "output_tokens")}
        stated, listed = usage.get("cost"), self._picture_cost()
        rates = openai_prices.token_rates(self.model) if self._ours else None
        cost = 0.0
        if isinstance(stated, int | float) and not isinstance(stated, bool) and 0 <= stated < 1e6:
            basis, cost = "by_service", float(stated)
        elif self.price is not None:
            basis, cost = "by_price", self.price
        elif rates is not None and tokens["output_tokens"]:
            spent = tokens["input_tokens"] * rates.text_input + tokens["output_tokens"] * rates.image_output
            basis, cost = "by_tokens", spent / 1e6
        elif listed is not None and listed.low == listed.high:
            basis, cost = "by_list", listed.low
        else:
            basis = "by_nothing"
        with self._lock:
            self._counts.update(tokens)
            if data.get("data") or usage:  # an answer with neither was hardly charged
                self._counts[basis] += 1
                self._cost += cost
            for name in REPORTED:
                value = data.get(name)
                if isinstance(value, str) and value:
                    counter = self._reported.setdefault(name, Counter())
                    text = self._redact(value, 80)
                    if text in counter or len(counter) < 20:  # a service may send anything, the manifest stays small
                        counter[text] += 1


@cache
def _certificates() -> ssl.SSLContext:
    """Read once: it takes longer than many an answer."""
    context: ssl.SSLContext = require(
        "httpx", extra="api", purpose="asking a service for pictures"
    ).create_ssl_context()
    return context


def _outcome(job: _Job, batch: _Batch) -> Result:
    """Wait for a job and return or raise what became of it."""
    while not job.done.wait(0.2):  # in pieces: on some systems Ctrl-C does not end a longer wait
        # After bad news, what is under way may still come, and was paid for; after close() nobody waits.
        if batch.halt.is_set() and batch.fatal is None:
            break
    if job.result is not None:
        return job.result
    if batch.fatal is not None:
        raise UsageError(str(batch.fatal)) from None  # anew, without the worker's variables in its traceback
    if job.error is None or isinstance(job.error, Stopped):
        raise VerismError("openai: closed while pictures were still asked for")
    raise job.error


def _refusal(data: Mapping[str, Any], item: Mapping[str, Any]) -> str | None:
    """What an answer without a picture says of a refusal; None if it says nothing of that kind.

    Seen in services: a text ``refusal``; ``finish_reason: content_filter``; ``respect_moderation: false``; Azure's
    ``prompt_filter_results``; a message that speaks of a policy.
    """
    texts = [
        text
        for source in (item, data)
        for name in ("refusal", "message", "text", "detail", "reason", "finish_reason", "finishReason")
        if isinstance(text := source.get(name), str) and text.strip()
    ]
    for source in (item, data):
        if isinstance(source.get("refusal"), str) and source["refusal"].strip():
            return str(source["refusal"])
        reason = str(source.get("finish_reason") or source.get("finishReason") or "").lower()
        filtered = reason in ("content_filter", "content_filtered", "safety", "moderation")
        if filtered or source.get("respect_moderation") is False:
            why = f"finish_reason {reason!r}" if filtered else "respect_moderation is false"
            return next((t for t in texts if t.lower() != reason), f"no picture: {why}")
        for name in ("content_filter_results", "prompt_filter_results"):
            if '"filtered": true' in (text := _as_json(source.get(name))):
                return f"{name}: {text}"
    return next((t for t in texts if _speaks_of_policy(t)), None)


def _speaks_of_policy(text: str) -> bool:
    return REFUSAL_WORDS.search(text[:4000]) is not None  # the pattern may take the square of a hostile text's length


def _as_json(value: Any) -> str:
    try:
        return json.dumps(value)
    except RecursionError:  # nested to the very limit that reading it allowed
        return "(nested too deeply)"


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # a finished run needs no httpx
        return None


def _natural(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**12 else 0


def _host(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""  # refused with a reason by check_base_url


def _check_range(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:  # also true of NaN
        raise UsageError(f"openai: {name} must lie between {low:g} and {high:g}, got {value}")


def _check_variable(option: str, name: str | None) -> None:
    """Refuse what is no name of a variable, without repeating it: it may be the key itself."""
    if name is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise UsageError(
            f"openai: {option} is the name of an environment variable (letters, digits, _), such as OPENAI_API_KEY. If "
            "it was the key itself: put it into a variable and give that one's name"
        )


def _shown(variable: str) -> str:
    """A variable's name for a message, if it looks like one: someone may have given a key instead."""
    return variable if re.fullmatch(r"[A-Z][A-Z0-9_]{0,60}", variable) else "named by key_env"


def _variable(name: str | None, option: str) -> str:
    """The value of an environment variable without surrounding white space; empty if there is none."""
    value = os.environ.get(name, "").strip() if name else ""
    if not all(33 <= ord(c) <= 126 for c in value):
        raise UsageError(
            f"openai: the environment variable of {option} holds white space or characters that no key has; "
            "set it anew, perhaps a line too many was copied"
        )
    return value


def _check_extra(extra: Mapping[str, Any], seed_field: str | None) -> dict[str, Any]:
    for name in extra:
        if name in RESERVED or name == seed_field:
            raise UsageError(f"openai: extra.{name} would overwrite a field that is set otherwise")
        if SECRET_NAMES.search(name):
            raise UsageError(
                f"openai: extra.{name} looks like a secret, and extra fields are written into the run; keys are read "
                "from the environment variable named by key_env"
            )
    try:
        json.dumps(extra, allow_nan=False)
    except (TypeError, ValueError) as err:
        raise UsageError(f"openai: the extra fields cannot be sent as JSON: {clean_text(str(err), 100)}") from None
    if seed_field in RESERVED:
        raise UsageError(f"openai: seed_field={seed_field} would overwrite a field that is set otherwise")
    return dict(extra)
