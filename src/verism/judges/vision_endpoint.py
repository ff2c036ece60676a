"""Chat models behind a service that look at images: what question answerers and captioners ask them with.

One ``POST {base_url}/chat/completions`` per text, with the image as a data address in it; several at a time, answered
in order. What may pass is tried again; what the service or the model will not do is a refusal, told with its words;
what concerns every image (key, model, quota, a field that the service does not take) ends the run with one message.

Source of the interface: https://developers.openai.com/api/reference/resources/chat
"""

from __future__ import annotations

import base64
import io
import math
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from PIL import Image as PilImage

from verism.errors import Unfinished, UsageError
from verism.judges.batching import check_choice
from verism.records import frame
from verism.services import (
    Failed,
    Refused,
    ServiceClient,
    ServiceOptions,
    TransientError,
    check_extra,
    check_range,
    natural,
)

__all__ = ["ChatAnswer", "Message", "Token", "VisionEndpoint", "VisionOptions", "kept_rows"]

PATH = "/chat/completions"
MAX_ANSWER = 16 << 20  # bytes; a sentence with its probabilities has some thousands
MAX_REASONS = 5  # that a summary quotes
RESERVED = frozenset(
    {"model", "messages", "n", "stream", "temperature", "seed", "max_tokens", "max_completion_tokens", "logprobs",
     "top_logprobs", "response_format"}
)  # fmt: skip
FILTERED = frozenset({"content_filter", "content_filtered", "safety", "moderation", "prohibited_content"})
_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>\s*", re.DOTALL)


@dataclass(frozen=True)
class Token:
    """A token of a reply, and the most probable ones in its place with their probabilities, in [0, 1]."""

    text: str
    top: tuple[tuple[str, float], ...]


@dataclass(frozen=True, kw_only=True)
class ChatAnswer:
    """What became of one request.

    Attributes:
        text: the reply, stripped, without a model's written thoughts; None where there is none.
        state: what became of the request.
        reason: why there is none; empty otherwise.
        tokens: of the reply with their probabilities; empty where the service tells none.
    """

    text: str | None
    state: Literal["ok", "refused", "failed"] = "ok"
    reason: str = ""
    tokens: tuple[Token, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Message:
    """One thing to be asked about one image.

    Attributes:
        pixels: RGB, shape (H, W, 3), uint8; the same array for several texts is sent as the same bytes.
        text: what is asked about the image.
        schema: JSON schema the reply is to have, or None for free text.
        logprobs: whether probabilities are wanted.
    """

    pixels: np.ndarray
    text: str
    schema: Mapping[str, Any] | None = None
    logprobs: bool = True


@dataclass(frozen=True, kw_only=True)
class VisionOptions:
    """How an image is shown to a chat model, and how its reply is asked for.

    Attributes:
        picture: file format of the images sent: ``png`` (lossless) or ``jpeg`` (quality 95, smaller).
        max_side: longest side of the images sent, in pixels, at least 16; larger images are downscaled (Lanczos). None:
            no limit.
        detail: OpenAI's image detail: ``low``, ``high`` or ``auto``. None: not sent.
        system: system message. None: not sent.
        temperature: sampling temperature, at least 0. None: not sent.
        seed: seed of the request. None: not sent. Many services reproduce replies only roughly even with a seed.
        max_tokens_field: JSON field for the reply's token limit. None: ``max_completion_tokens`` for OpenAI,
            ``max_tokens`` for other services.
        logprobs: number of most probable tokens to request log-probabilities for, 0 to 20; 0: none. None: as many as
            the judge needs.
        price_input: US dollars per million input tokens, for the cost summary.
        price_output: US dollars per million output tokens, for the cost summary.
        extra: any other JSON field of the request, by name.
    """

    picture: Literal["png", "jpeg"] = "png"
    max_side: int | None = None
    detail: str | None = None
    system: str | None = None
    temperature: float | None = 0.0
    seed: int | None = 0
    max_tokens_field: str | None = None
    logprobs: int | None = None
    price_input: float | None = None
    price_output: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def check(self, owner: str) -> None:
        """Raise UsageError if a value is out of range; ``owner`` is the judge that messages name."""
        check_choice("picture", self.picture, ("png", "jpeg"))
        check_range(owner, "max_side", self.max_side, 16, 100_000)
        check_range(owner, "temperature", self.temperature, 0, 10)
        check_range(owner, "logprobs", self.logprobs, 0, 20)
        check_range(owner, "price_input", self.price_input, 0, 1e6)
        check_range(owner, "price_output", self.price_output, 0, 1e6)


@contextmanager
def kept_rows(table: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[None]:
    """Hand on the rows that a judge has, where the service ends its work within a batch.

    Args:
        table: that they are of.
        rows: of the images that it is done with; may grow meanwhile.

    Raises:
        Unfinished: in place of a UsageError.
    """
    try:
        yield
    except UsageError as err:
        raise Unfinished(str(err), frame(table, rows)) from None


class VisionEndpoint:
    """A chat model behind a service with OpenAI's interface, shown one image at a time.

    Public attributes: ``name`` is made of model, service and every option that changes replies; ``client`` is the
    client of the service.

    Args:
        model: id as the service knows it.
        role: of the judge, in messages: ``captioner``.
        noun: what one request asks for, in messages: ``caption``.
        max_tokens: longest reply, 1 to 1,000,000.
        logprobs: as in ``VisionOptions``, where that leaves it to the judge.
        vision: how images are shown and replies asked for.
        service: where the service is and how much it is asked.

    Raises:
        UsageError: a value out of range, or an address that is not safe.
    """

    def __init__(
        self,
        model: str,
        *,
        role: str,
        noun: str,
        max_tokens: int,
        logprobs: int,
        vision: VisionOptions,
        service: ServiceOptions,
    ) -> None:
        self.client = ServiceClient(model, service, role=role, path=PATH, noun=noun)
        owner, options = self.client.owner, self.client.options
        vision.check(owner)
        check_range(owner, "max_tokens", max_tokens, 1, 1_000_000)
        self._vision, self._max_tokens = vision, max_tokens
        self._logprobs = logprobs if vision.logprobs is None else vision.logprobs
        length = vision.max_tokens_field or ("max_completion_tokens" if options.is_openai else "max_tokens")
        fields = {"temperature": vision.temperature, "seed": vision.seed, length: max_tokens}
        self._fields: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
        self._extra = check_extra(owner, vision.extra, RESERVED | {length})
        named = {
            "picture": vision.picture,
            "max_side": vision.max_side,
            "detail": vision.detail,
            "system": None if vision.system is None else repr(vision.system),
            "temperature": vision.temperature,
            "seed": vision.seed,
            "max_tokens": max_tokens,
            "logprobs": self._logprobs or None,
            **{f"extra.{name}": value for name, value in sorted(self._extra.items())},
        }
        settings = "".join(f" {name}={value}" for name, value in named.items() if value is not None)
        self.name = f"openai:{model}{options.location}{settings}"
        self._lock = threading.Lock()
        self._models: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._stated_cost: float | None = None

    def __repr__(self) -> str:
        return f"VisionEndpoint({self.name!r})"

    def ask(self, messages: Iterable[Message]) -> Iterator[ChatAnswer]:
        """The answer to each message, in order.

        Raises:
            UsageError: no key, the service cannot be reached, or what it says concerns every request.
            MissingExtra: httpx is not installed.
        """
        self.client.open()
        return self.client.in_order(self._prepared(messages), self._answer)

    def close(self) -> None:
        """End everything under way."""
        self.client.close()

    def note(self, reason: str) -> None:
        """Count a reason why there is no answer."""
        with self._lock:
            if reason in self._reasons or len(self._reasons) < 1000:  # a service may say something new each time
                self._reasons[reason] += 1

    def summary(self) -> list[str]:
        """Lines after a run: what was asked, what came, why some did not, tokens and cost as far as known."""
        with self._lock:
            n, reasons, models = Counter(self.client.counts), Counter(self._reasons), sorted(self._models)
            cost = self._stated_cost
        lines = [self.client.summary("replies")]
        lines += [f"no answer, {number:,} times: {reason}" for reason, number in reasons.most_common(MAX_REASONS)]
        if len(reasons) > MAX_REASONS:
            lines.append(f"and {len(reasons) - MAX_REASONS:,} other reasons")
        if models:
            lines.append(f"answered as {', '.join(models[:5])}")
        if n["prompt_tokens"] or n["completion_tokens"]:
            lines.append(
                f"{n['prompt_tokens']:,} tokens read, {n['completion_tokens']:,} written, by the service's count"
            )
        if cost is not None:
            lines.append(f"cost about USD {cost:,.2f}, stated by the service; what counts is its bill")
        elif self._vision.price_input is not None and self._vision.price_output is not None:
            prices = self._vision.price_input, self._vision.price_output
            cost = (n["prompt_tokens"] * prices[0] + n["completion_tokens"] * prices[1]) / 1e6
            lines.append(f"cost about USD {cost:,.2f}, at your prices; what counts is the service's bill")
        elif n["posts"]:
            lines.append("cost unknown: set price_input and price_output (USD per million tokens)")
        return lines

    # ---------------------------------------------------------------------------------------------------------- asking
    def _prepared(self, messages: Iterable[Message]) -> Iterator[tuple[Message, str]]:
        """Messages with their images as data addresses, each image encoded once for the texts in a row about it."""
        last: tuple[np.ndarray, str] | None = None
        for message in messages:
            if last is None or last[0] is not message.pixels:
                last = (message.pixels, self._data_url(message.pixels))
            yield message, last[1]

    def _data_url(self, pixels: np.ndarray) -> str:
        image = PilImage.fromarray(np.ascontiguousarray(pixels))
        if self._vision.max_side is not None and max(image.size) > self._vision.max_side:
            scale = self._vision.max_side / max(image.size)
            size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
            image = image.resize(size, PilImage.Resampling.LANCZOS)
        buffer = io.BytesIO()
        image.save(buffer, self._vision.picture.upper(), **({"quality": 95} if self._vision.picture == "jpeg" else {}))
        return f"data:image/{self._vision.picture};base64,{base64.b64encode(buffer.getvalue()).decode()}"

    def _answer(self, item: tuple[Message, str], halt: threading.Event) -> ChatAnswer:
        outcome = self.client.ask(lambda _: self._once(*item, halt), halt)
        if outcome.result is not None:
            return outcome.result
        reason = f"{outcome.state}: {self.client.redact(outcome.reason, 400)}"
        self.note(reason)
        return ChatAnswer(text=None, state=outcome.state, reason=reason)

    def _once(self, message: Message, url: str, halt: threading.Event) -> ChatAnswer:
        """One attempt: ask and read."""
        image = {"url": url} if self._vision.detail is None else {"url": url, "detail": self._vision.detail}
        content = [{"type": "image_url", "image_url": image}, {"type": "text", "text": message.text}]
        messages: list[dict[str, Any]] = [{"role": "user", "content": content}]
        if self._vision.system:
            messages.insert(0, {"role": "system", "content": self._vision.system})
        body: dict[str, Any] = {"model": self.client.model, "messages": messages, **self._fields, **self._extra}
        if message.schema is not None:
            schema = {"name": "answers", "strict": True, "schema": message.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif self._logprobs and message.logprobs:
            body |= {"logprobs": True, "top_logprobs": self._logprobs}
        data = self.client.post(body, halt, limit=MAX_ANSWER, fixed=set(body) - {"messages"})
        self._account(data)
        return self._read(data)

    def _read(self, data: Mapping[str, Any]) -> ChatAnswer:
        """The reply in an answer.

        Raises:
            Refused: the model or the service's filter declined. Failed: cut off before it said anything.
            TransientError: no reply in it.
        """
        choices = data.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        message = choice.get("message")
        message = message if isinstance(message, dict) else {}
        ended = str(choice.get("finish_reason") or "").lower()
        refusal = message.get("refusal")
        if isinstance(refusal, str) and refusal.strip():
            raise Refused(refusal)
        text = _text_of(message.get("content"))
        if ended in FILTERED:
            raise Refused(f"finish_reason {ended!r}{f': {text}' if text.strip() else ''}")
        plain = _THOUGHTS.sub("", text).strip()
        if not plain:
            if ended == "length":
                raise Failed(f"cut off at {self._max_tokens:,} tokens before any answer; raise max_tokens")
            raise TransientError("the answer holds no reply", answered=True)
        # Probabilities are those of the thoughts, where a model wrote them into its reply.
        return ChatAnswer(text=plain, tokens=_tokens_of(choice.get("logprobs")) if plain == text.strip() else ())

    def _account(self, data: Mapping[str, Any]) -> None:
        """Take in what an answer says of itself: the model's full name, tokens, cost."""
        usage = data.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        for name in ("prompt_tokens", "completion_tokens"):
            self.client.count(name, natural(usage.get(name)))
        cost, model = usage.get("cost"), data.get("model")
        with self._lock:
            if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1e6:
                self._stated_cost = (self._stated_cost or 0.0) + cost
            if isinstance(model, str) and model and len(self._models) < 20:
                self._models[self.client.redact(model, 80)] += 1


def _text_of(content: Any) -> str:
    """The text of a message, which may come in parts."""
    if isinstance(content, str):
        return content
    parts: Sequence[Any] = content if isinstance(content, list) else ()
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "".join(text for text in texts if isinstance(text, str))


def _tokens_of(logprobs: Any) -> tuple[Token, ...]:
    """The tokens of a reply with their probabilities; nothing if they are not all there."""
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    tokens = []
    for entry in content if isinstance(content, list) else ():
        top = entry.get("top_logprobs") if isinstance(entry, dict) else None
        if not isinstance(top, list) or not isinstance(entry.get("token"), str):
            return ()
        # The token itself may be less probable than those listed. One that is listed twice counts once.
        probabilities: dict[str, float] = {}
        for each in (*top, entry):
            token, value = (each.get("token"), each.get("logprob")) if isinstance(each, dict) else (None, None)
            if isinstance(token, str) and isinstance(value, int | float) and not math.isnan(value):
                probabilities.setdefault(token, min(1.0, math.exp(min(0.0, value))))
        tokens.append(Token(text=entry["token"], top=tuple(probabilities.items())))
    return tuple(tokens)
