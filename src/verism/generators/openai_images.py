"""Images from OpenAI's models, and from any service that answers ``POST {base_url}/images/generations`` alike.

One request per image, several at a time, answered in order. Transient errors are retried (``services.retry``); a
prompt that the service will not draw is ``refused``; what concerns every image (key, model, quota, a setting that
the service does not take) ends the run with one message. Keys come from the environment alone and are in no text.

Source of the interface: https://developers.openai.com/api/reference/resources/images
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from typing import Any
from urllib.parse import quote, urlencode, urljoin

import numpy as np
from numpy.typing import NDArray
from PIL import UnidentifiedImageError

from verism.errors import UsageError
from verism.generators import openai_prices
from verism.imaging import ImageTooLargeError, open_image, to_rgb
from verism.limits import SERVICE_PIXELS
from verism.records import Request, Result
from verism.services import (
    Failed,
    Refused,
    ServiceClient,
    ServiceOptions,
    TransientError,
    as_json,
    check_extra,
    check_range,
    clean_text,
    is_transient,
    mentions_policy,
    natural,
    parse_extra,
    retry_after,
)
from verism.services.addresses import origin

__all__ = ["ImageOptions", "OpenAIImages", "decode_image"]

MAX_ANSWER = 128 << 20  # bytes of a JSON answer; a 4096 x 4096 image in base64 has less than half of that
MAX_DOWNLOAD = 64 << 20  # bytes of an image behind an address
MAX_HOPS = 5  # redirections of an image's address

RESERVED = frozenset({"model", "prompt", "n", "size", "quality", "style", "background", "output_format", "stream"})
REPORTED = ("model", "size", "quality", "background", "output_format")  # what an answer may say of how it was made


def decode_image(data: bytes) -> tuple[NDArray[np.uint8], list[str]]:
    """An image file, of one of ``imaging.FORMATS``, as upright RGB, (H, W, 3), uint8, and what was done to it.

    EXIF rotation is applied and transparency laid over white, as for the user's own images.

    Raises:
        Failed: more than ``limits.SERVICE_PIXELS`` pixels; nothing of them was decoded.
        TransientError: not an image, damaged, or cut off.
    """
    try:
        with open_image(data, limit=SERVICE_PIXELS) as image:
            return to_rgb(image)
    except ImageTooLargeError as err:
        raise Failed(f"the image of the service is not decoded: {err}") from None
    except UnidentifiedImageError:
        reason = "not an image, or of a format that is not supported"
    except Exception as err:  # decoders raise OSError, SyntaxError, ValueError, struct.error ... on damaged files
        reason = f"damaged or cut off: {clean_text(str(err), 120)}"
    raise TransientError(f"the service sent {len(data):,} bytes that cannot be decoded ({reason})", answered=True)


@dataclass(frozen=True, kw_only=True)
class ImageOptions:
    """Fields of each request, sent as they are if set; the model decides what is allowed, and what it does without.

    Attributes:
        size: image size, such as ``1024x1024``. Default: the service's.
        quality: image quality, such as ``low`` or ``hd``. Default: the service's.
        style: image style, such as ``vivid``. Default: the service's.
        background: background of the images, such as ``opaque``. Default: the service's.
        output_format: file format of the images, such as ``png``. Default: the service's.
        extra: any other JSON field of the request, by name.
    """

    size: str | None = None
    quality: str | None = None
    style: str | None = None
    background: str | None = None
    output_format: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


class OpenAIImages:
    """Asks a service with OpenAI's images interface for one image per request.

    Public attributes: ``name`` is made of model, service and every option that changes images; ``client`` is the client
    of the service.

    Args:
        model: name of the model at the service, such as ``gpt-image-1``.
        image: fields of each request that the model decides about.
        seed_field: JSON field in which the service takes the seed; None: the seed is not sent (OpenAI has no such
            field).
        price: US dollars per image, at least 0, for cost estimates. None: from a small table, if it has the model.
        service: where the service is and how much it is asked.

    Raises:
        UsageError: a value out of range, or an address that is not safe.
    """

    def __init__(
        self,
        model: str,
        *,
        image: ImageOptions = ImageOptions(),
        seed_field: str | None = None,
        price: float | None = None,
        service: ServiceOptions = ServiceOptions(),
    ) -> None:
        self.client = ServiceClient(model, service, role="generator", path="/images/generations", noun="image")
        owner, options = self.client.owner, self.client.options
        check_range(owner, "price", price, 0, 1_000_000)
        self._ours = options.is_openai
        self.model, self.base_url = model, options.base_url
        self.seed_field = seed_field or None
        self.price = price
        if self.seed_field in RESERVED:
            raise UsageError(f"{owner}: seed_field={seed_field} would overwrite a field that is set otherwise")
        fields = asdict(image)
        self._extra = check_extra(
            owner, fields.pop("extra"), RESERVED | ({self.seed_field} if self.seed_field else set())
        )
        self._settings: dict[str, Any] = {name: value for name, value in fields.items() if value}
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
        where = self.client.options.location
        return f"openai:{self.model}{where}{'?' if pairs else ''}{urlencode(pairs, safe='/:,', quote_via=quote)}"

    # ------------------------------------------------------------------------------------------------------ protocol
    def generate(self, requests: Sequence[Request]) -> Iterator[Result]:
        """One result per request, in order; at most ``LOOK_AHEAD * concurrency`` are asked for ahead of the taker.

        Raises:
            UsageError: no key, or what the service says concerns every image. Images before it were yielded.
            MissingExtra: httpx is not installed.
        """
        if len(requests):  # a finished run needs no key
            self.client.open()  # at once, and not with the first image: a missing key is best known early
        return self.client.in_order(requests, self._answer)

    def close(self) -> None:
        """End everything under way; answers that are still to come are dropped. May be used again."""
        self.client.close()

    def describe(self) -> dict[str, Any]:
        """For the manifest: the service, what each request holds, what the answers said of themselves, versions."""
        with self._lock:
            reported = {name: dict(sorted(counter.items())) for name, counter in sorted(self._reported.items())}
        return {
            "kind": "openai",
            "model": self.model,
            "base_url": self.base_url,
            "request": self._fixed_fields(),
            "deadlines": self.client.options.deadlines(),
            "seed": f"sent as {self.seed_field!r}" if self.seed_field else "not sent: the service takes none",
            "reported": reported,
            "pixels": "decoded to RGB, upright by EXIF, transparency over white",
            "versions": {name: _version(name) for name in ("httpx", "pillow")},
        }

    def estimate(self, requests: Sequence[Request]) -> list[str]:
        """Lines for a rehearsal: how many requests to whom, and what they may cost. Nothing is asked of anybody."""
        count = len(requests)
        lines = [f"{count:,} {'request' if count == 1 else 'requests'} to {self.client.endpoint}, model {self.model}"]
        cost = self._image_cost()
        if self.price is not None:
            lines.append(f"cost about USD {count * self.price:,.2f}, at your price of USD {self.price:g} an image")
        elif cost is None:
            lines.append("cost unknown: no price is known for this model and these settings; set it with price=USD")
        else:
            low, high = count * cost.low, count * cost.high
            span = f"USD {low:,.2f}" if cost.low == cost.high else f"USD {low:,.2f} to {high:,.2f}"
            each = f"USD {cost.low:g}" if cost.low == cost.high else f"USD {cost.low:g} to {cost.high:g}"
            lines.append(
                f"cost about {span} for images at {each}, and a little for prompts: the list price of "
                f"{openai_prices.table_date()}, which may have changed ({openai_prices.table_source()})"
            )
        lines.append(self.client.options.deadlines())
        return lines

    def summary(self) -> list[str]:
        """Lines after a run: what was asked, what came, how long it took, what it cost as far as that is known."""
        with self._lock:
            n, cost = Counter(self.client.counts), self._cost
        if not n["posts"]:
            return []
        lines = [self.client.summary("images")]
        if n["input_tokens"] or n["output_tokens"]:
            lines.append(
                f"{n['input_tokens']:,} tokens of prompts, {n['output_tokens']:,} of images, by the service's count"
            )
        bases = [
            text
            for name, text in (
                ("by_service", "stated by the service"),
                ("by_price", f"at your price of USD {self.price or 0:g} an image"),
                ("by_tokens", f"from its token counts and the list price of {openai_prices.table_date()}"),
                ("by_list", f"at the list price of {openai_prices.table_date()}"),
            )
            if n[name]
        ]
        if bases:
            unknown = f"; of {n['by_nothing']:,} images the cost is unknown" if n["by_nothing"] else ""
            lines.append(
                f"cost about USD {cost:,.2f}, {' and '.join(bases)}{unknown}; what counts is the service's bill"
            )
        elif n["by_nothing"]:
            lines.append("cost unknown: the service states none and no price is known; set it with price=USD")
        return lines

    # ------------------------------------------------------------------------------------------------------- asking
    def _answer(self, request: Request, halt: threading.Event) -> Result:
        outcome = self.client.ask(lambda answers: self._ask(request, answers, halt), halt)
        pixels, notes = outcome.result or (None, [self.client.redact(outcome.reason, 1000)])
        return Result(
            image_id=request.image_id,
            state=outcome.state,
            pixels=pixels,
            note="; ".join(notes),
            seeded=self.seed_field is not None,
        )

    def _ask(self, request: Request, answers: int, halt: threading.Event) -> tuple[NDArray[np.uint8], list[str]]:
        """One attempt: ask, read, decode. ``answers``: complete but useless answers before it."""
        body = {"model": self.model, "prompt": request.prompt.text, "n": 1, **self._fixed_fields()}
        if self.seed_field:
            body[self.seed_field] = request.seed
        data = self.client.post(
            body,
            halt,
            limit=MAX_ANSWER,
            fixed={"n", *self._fixed_fields()},
            headers={"Idempotency-Key": self._idempotency_key(request, body, answers)},
        )
        self._account(data)
        item = data["data"][0] if isinstance(data.get("data"), list) and data["data"] else {}
        item = item if isinstance(item, dict) else {}
        pixels, notes = decode_image(self._image_bytes(data, item, halt))
        revised = item.get("revised_prompt")
        if isinstance(revised, str) and revised.strip() and revised != request.prompt.text:
            notes.append(f"revised prompt: {self.client.redact(revised, 8000)}")
        return pixels, notes

    def _image_bytes(self, data: Mapping[str, Any], item: Mapping[str, Any], halt: threading.Event) -> bytes:
        """The image's file, out of the answer or from its address.

        Raises:
            Refused: no image, but words of refusal. TransientError: neither. Failed: a dead address.
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
                raise TransientError("the image in the answer is no valid base64", answered=True) from None
        if isinstance(url, str) and url:
            try:
                return self.client.retry(lambda _: self._download(url), halt)
            except TransientError as err:
                # Not asked for anew: it was made, and would be paid for twice.
                raise Failed(f"the image was made but cannot be fetched: {err}") from None
        words = _refusal(data, item)
        if words is not None:
            raise Refused(self.client.redact(words, 400))
        raise TransientError("the answer holds no image", answered=True)

    def _download(self, url: str) -> bytes:
        """The file behind an address, following redirections; see ``Service.exchange`` for where the key may go."""
        here = self.client.endpoint
        for _ in range(MAX_HOPS + 1):
            try:
                here = urljoin(here, url)
                scheme, host, _port = origin(here)
                if scheme not in ("http", "https") or not host:
                    raise ValueError("not on the web")
                answer = self.client.exchange("GET", here, limit=MAX_DOWNLOAD)
            except ValueError:
                raise Failed("the image was made but its address is none that can be fetched") from None
            status, where = answer.status, f"its address at {clean_text(host, 100)}"
            if 200 <= status < 300:
                return answer.body
            if 300 <= status < 400 and answer.headers.get("location"):
                url = answer.headers["location"]
                continue
            if is_transient(status):
                raise TransientError(f"{where} answered HTTP {status}", wait_s=retry_after(answer.headers))
            raise Failed(f"the image was made but cannot be fetched: {where} answered HTTP {status}")
        raise Failed(f"the image's address redirects more than {MAX_HOPS} times")

    # ------------------------------------------------------------------------------------------------------- details
    def _fixed_fields(self) -> dict[str, Any]:
        """Fields that every request holds, but for model, prompt, number and seed."""
        # DALL-E would send addresses that expire; gpt-image always sends base64 and refuses the question, and what
        # other models make of it nobody knows.
        asked = {"response_format": "b64_json"} if self.model in ("dall-e-2", "dall-e-3") else {}
        return {**asked, **self._settings, **self._extra}

    def _idempotency_key(self, request: Request, body: Mapping[str, Any], answers: int) -> str:
        """Equal for the same image in every try and every run, so a service that knows it does not make it twice.

        It changes with ``answers``: a service that keeps answers by it would send the useless one again.
        """
        text = json.dumps([self.base_url, body, request.image_id, request.seed, answers], sort_keys=True)
        return f"verism-{hashlib.sha256(text.encode()).hexdigest()[:40]}"

    def _image_cost(self) -> openai_prices.ImageCost | None:
        # Others set their own prices, whatever they call their models.
        if not self._ours:
            return None
        return openai_prices.image_cost(self.model, self._settings.get("size"), self._settings.get("quality"))

    def _account(self, data: Mapping[str, Any]) -> None:
        """Take in what an answer says of itself: models and settings by name, tokens, cost."""
        usage = data.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        tokens = {name: natural(usage.get(name)) for name in ("input_tokens", "output_tokens")}
        stated, listed = usage.get("cost"), self._image_cost()
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
            self.client.count(name, number)
        with self._lock:
            self._cost += cost if charged else 0
            for name in REPORTED:
                value = data.get(name)
                if isinstance(value, str) and value:
                    counter = self._reported.setdefault(name, Counter())
                    text = self.client.redact(value, 80)
                    if text in counter or len(counter) < 20:  # a service may send anything, the manifest stays small
                        counter[text] += 1


def _refusal(data: Mapping[str, Any], item: Mapping[str, Any]) -> str | None:
    """What an answer without an image says of a refusal; None if it says nothing of that kind.

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
            return next((t for t in texts if t.lower() != reason), f"no image: {why}")
        for name in ("content_filter_results", "prompt_filter_results"):
            if '"filtered": true' in (text := as_json(source.get(name))):
                return f"{name}: {text}"
    return next((t for t in texts if mentions_policy(t)), None)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # a finished run needs no httpx
        return None
