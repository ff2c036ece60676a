"""Pictures from OpenAI's image models, and from any service that answers ``POST {base_url}/images/generations`` alike.

One request per picture, several at a time, answered in order. What may pass is tried again (``http_client.persist``); a
prompt that the service will not paint is ``refused``; what concerns every picture (key, model, quota, a setting that
the service does not take) ends the run with one message. Keys come from the environment alone and are in no text.

Source of the interface: https://developers.openai.com/api/reference/resources/images
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any, Literal
from urllib.parse import quote, urlencode, urljoin

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PilImage
from PIL import UnidentifiedImageError

from verism.errors import UsageError
from verism.generators import openai_prices
from verism.http_client import (
    OPENAI,
    Failed,
    NotThisTime,
    Refused,
    Service,
    as_json,
    check_extra,
    check_range,
    clean_text,
    natural,
    origin,
    parse_extra,
    retry_after,
    speaks_of_policy,
)
from verism.imaging import MAX_PIXELS, to_rgb
from verism.records import Request, Result

__all__ = ["OpenAIImages", "decode_picture"]

MAX_ANSWER = 128 << 20  # bytes of a JSON answer; a 4096 x 4096 picture in base64 has less than half of that
MAX_DOWNLOAD = 64 << 20  # bytes of a picture behind an address
MAX_HOPS = 5  # redirections of a picture's address
# Formats that services send. Pillow would also try those that start other programs (EPS) or have no use here.
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")

RESERVED = frozenset({"model", "prompt", "n", "size", "quality", "style", "background", "output_format", "stream"})
REPORTED = ("model", "size", "quality", "background", "output_format")  # what an answer may say of how it was made


def decode_picture(data: bytes) -> tuple[NDArray[np.uint8], list[str]]:
    """Bytes of a PNG, JPEG, WebP, GIF, BMP or TIFF file as upright RGB, (H, W, 3), uint8, and what was done to it.

    EXIF rotation is applied and transparency laid over white, as for pictures that are brought.

    Raises:
        Failed: more than ``imaging.MAX_PIXELS`` pixels; nothing of them was decoded.
        NotThisTime: not a picture, damaged, or cut off.
    """
    try:
        with PilImage.open(io.BytesIO(data), formats=FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:
                raise Failed(f"the picture has {image.width} x {image.height} pixels; the limit is {MAX_PIXELS:,}")
            return to_rgb(image)
    except Failed:
        raise
    except PilImage.DecompressionBombError:
        raise Failed(f"the picture is too large; the limit is {MAX_PIXELS:,} pixels") from None
    except UnidentifiedImageError:
        reason = "not a picture, or of a format that is not supported"
    except Exception as err:  # decoders raise OSError, SyntaxError, ValueError, struct.error ... on damaged files
        reason = f"damaged or cut off: {clean_text(str(err), 120)}"
    raise NotThisTime(f"the service sent {len(data):,} bytes that cannot be decoded ({reason})", answered=True)


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
        if price is not None:
            check_range("price", price, 0, 1_000_000)
        self._service = Service(
            model,
            path="/images/generations",
            noun="picture",
            purpose="asking a service for pictures",
            base_url=base_url,
            key_env=key_env,
            organization_env=organization_env,
            project_env=project_env,
            concurrency=concurrency,
            retries=retries,
            timeout=timeout,
            allow_http=allow_http,
            sleep=sleep,
            clock=clock,
        )
        self._ours = self._service.ours
        self.model, self.base_url = model, self._service.base_url
        self.seed_field = seed_field or None
        self.price = price
        given = {
            "size": size,
            "quality": quality,
            "style": style,
            "background": background,
            "output_format": output_format,
        }
        self._settings: dict[str, Any] = {k: v for k, v in given.items() if v}
        self._extra = check_extra(extra or {}, RESERVED | ({self.seed_field} if self.seed_field else set()))
        if self.seed_field in RESERVED:
            raise UsageError(f"openai: seed_field={seed_field} would overwrite a field that is set otherwise")
        self.name = self._make_name()
        self._lock = threading.Lock()
        self._reported: dict[str, Counter[str]] = {}
        self._cost = 0.0

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
        where = self._service.where()
        return f"openai:{self.model}{where}{'?' if pairs else ''}{urlencode(pairs, safe='/:,', quote_via=quote)}"

    # ------------------------------------------------------------------------------------------------------ protocol
    def generate(self, requests: Sequence[Request]) -> Iterator[Result]:
        """One result per request, in order; at most ``LOOK_AHEAD * concurrency`` are asked for ahead of the taker.

        Raises:
            UsageError: no key, or what the service says concerns every picture. Pictures before it were yielded.
            MissingExtra: httpx is not installed.
        """
        if len(requests):  # a finished run needs no key
            self._service.open()  # at once, and not with the first picture: a missing key is best known early
        return self._service.in_order(requests, self._answer)

    def close(self) -> None:
        """End everything under way; answers that are still to come are dropped. May be used again."""
        self._service.close()

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
        lines = [f"{count:,} {'request' if count == 1 else 'requests'} to {self._service.endpoint}, model {self.model}"]
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
            n, cost, seconds = Counter(self._service.counts), self._cost, self._service.elapsed_s
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

    # ------------------------------------------------------------------------------------------------------- asking
    def _answer(self, request: Request, halt: threading.Event) -> Result:
        try:
            pixels, notes = self._service.insist(lambda answers: self._ask(request, answers, halt), halt)
        except Refused as err:
            return self._no_picture(request, "refused", str(err))
        except Failed as err:
            return self._no_picture(request, "failed", str(err))
        except NotThisTime as err:
            return self._no_picture(request, "failed", err.reason)
        self._service.pacer.arrive()
        self._service.count("ok")
        seeded = self.seed_field is not None
        return Result(image_id=request.image_id, state="ok", pixels=pixels, note="; ".join(notes), seeded=seeded)

    def _no_picture(self, request: Request, state: Literal["refused", "failed"], note: str) -> Result:
        self._service.count(state)
        seeded = self.seed_field is not None
        return Result(image_id=request.image_id, state=state, note=self._service.redact(note, 1000), seeded=seeded)

    def _ask(self, request: Request, answers: int, halt: threading.Event) -> tuple[NDArray[np.uint8], list[str]]:
        """One attempt: ask, read, decode. ``answers``: complete but useless answers before it."""
        body = {"model": self.model, "prompt": request.prompt.text, "n": 1, **self._fixed_fields()}
        if self.seed_field:
            body[self.seed_field] = request.seed
        data = self._service.post(
            body,
            limit=MAX_ANSWER,
            fixed={"n", *self._fixed_fields()},
            headers={"Idempotency-Key": self._idempotency_key(request, body, answers)},
        )
        self._account(data)
        item = data["data"][0] if isinstance(data.get("data"), list) and data["data"] else {}
        item = item if isinstance(item, dict) else {}
        pixels, notes = decode_picture(self._picture_bytes(data, item, halt))
        revised = item.get("revised_prompt")
        if isinstance(revised, str) and revised.strip() and revised != request.prompt.text:
            notes.append(f"revised prompt: {self._service.redact(revised, 8000)}")
        return pixels, notes

    def _picture_bytes(self, data: Mapping[str, Any], item: Mapping[str, Any], halt: threading.Event) -> bytes:
        """The picture's file, out of the answer or from its address.

        Raises:
            Refused: no picture, but words of refusal. NotThisTime: neither. Failed: a dead address.
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
                return self._service.insist(lambda _: self._download(url), halt)
            except NotThisTime as err:
                # Not asked for anew: it was painted, and would be paid for twice.
                raise Failed(f"the picture was made but cannot be fetched: {err.reason}") from None
        words = _refusal(data, item)
        if words is not None:
            raise Refused(self._service.redact(words, 400))
        raise NotThisTime("the answer holds no picture", answered=True)

    def _download(self, url: str) -> bytes:
        """The file behind an address, following redirections; see ``Service.exchange`` for where the key may go."""
        here = self._service.endpoint
        for _ in range(MAX_HOPS + 1):
            try:
                here = urljoin(here, url)
                scheme, host, _port = origin(here)
                if scheme not in ("http", "https") or not host:
                    raise ValueError("not on the web")
                answer = self._service.exchange("GET", here, limit=MAX_DOWNLOAD)
            except (ValueError, self._service.httpx.InvalidURL):
                raise Failed("the picture was made but its address is none that can be fetched") from None
            status, where = answer.status, f"its address at {clean_text(host, 100)}"
            if 200 <= status < 300:
                return answer.body
            if 300 <= status < 400 and answer.headers.get("location"):
                url = answer.headers["location"]
                continue
            if status in (408, 409, 425, 429) or status >= 500:
                raise NotThisTime(f"{where} answered HTTP {status}", wait_s=retry_after(answer.headers))
            raise Failed(f"the picture was made but cannot be fetched: {where} answered HTTP {status}")
        raise Failed(f"the picture's address redirects more than {MAX_HOPS} times")

    # ------------------------------------------------------------------------------------------------------- details
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

    def _picture_cost(self) -> openai_prices.PictureCost | None:
        # Others set their own prices, whatever they call their models.
        if not self._ours:
            return None
        return openai_prices.picture_cost(self.model, self._settings.get("size"), self._settings.get("quality"))

    def _account(self, data: Mapping[str, Any]) -> None:
        """Take in what an answer says of itself: models and settings by name, tokens, cost."""
        usage = data.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        tokens = {name: natural(usage.get(name)) for name in ("input_tokens", "output_tokens")}
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
        charged = bool(data.get("data") or usage)  # an answer with neither hardly was
        for name, number in {**tokens, basis: int(charged)}.items():
            self._service.count(name, number)
        with self._lock:
            self._cost += cost if charged else 0
            for name in REPORTED:
                value = data.get(name)
                if isinstance(value, str) and value:
                    counter = self._reported.setdefault(name, Counter())
                    text = self._service.redact(value, 80)
                    if text in counter or len(counter) < 20:  # a service may send anything, the manifest stays small
                        counter[text] += 1


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
            if '"filtered": true' in (text := as_json(source.get(name))):
                return f"{name}: {text}"
    return next((t for t in texts if speaks_of_policy(t)), None)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # a finished run needs no httpx
        return None
