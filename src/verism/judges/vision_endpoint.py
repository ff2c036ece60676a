"""Chat models behind a service that look at pictures: what question answerers and captioners ask them with.

One ``POST {base_url}/chat/completions`` per text, with the picture as a data address in it; several at a time, answered
in order. What may pass is tried again; what the service or the model will not do is a refusal, told with its words;
what concerns every picture (key, model, quota, a field that the service does not take) ends the run with one message.

Source of the interface: https://developers.openai.com/api/reference/resources/chat
"""

from __future__ import annotations

import base64
import io
import math
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from PIL import Image as PilImage

from verism.errors import UsageError
from verism.http_client import (
    OPENAI,
    Failed,
    NotThisTime,
    Refused,
    Service,
    check_extra,
    check_range,
    clean_text,
    natural,
)
from verism.judges.batching import check_choice

__all__ = ["ChatAnswer", "Message", "Token", "VisionEndpoint"]

PATH = "/chat/completions"
MAX_ANSWER = 16 << 20  # bytes; a sentence with its probabilities has some thousands
MAX_TOLD = 5  # reasons that a summary tells word for word
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
        reason: why there is none; empty otherwise.
        tokens: of the reply with their probabilities; empty where the service tells none.
    """

    text: str | None
    reason: str = ""
    tokens: tuple[Token, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Message:
    """One thing to be asked about one picture.

    Attributes:
        pixels: RGB, shape (H, W, 3), uint8; the same array for several texts is sent as the same bytes.
        schema: JSON schema the reply is to have, or None for free text. logprobs: whether probabilities are wanted.
    """

    pixels: np.ndarray
    text: str
    schema: Mapping[str, Any] | None = None
    logprobs: bool = True


class VisionEndpoint:
    """A chat model behind a service with OpenAI's interface, shown one picture at a time.

    Args:
        model: id as the service knows it.
        noun: what one request asks for, in messages. purpose: what the HTTP library is needed for.
        picture: ``png`` (nothing is lost) or ``jpeg`` (quality 95, fewer bytes).
        max_side: longest side in pixels that is sent; larger pictures are made smaller (Lanczos). None: as they are.
        detail: OpenAI's ``low``, ``high`` or ``auto``; sent if given.
        system: text of a system message; sent if given.
        temperature, seed: sent unless None; many services repeat themselves only roughly even so.
        max_tokens: longest reply. max_tokens_field: the field that says so; by default ``max_completion_tokens`` for
            OpenAI itself and ``max_tokens`` for others.
        logprobs: how many of the most probable tokens to ask for, 0 to 20; 0 asks for none.
        extra: further JSON fields of each request.
        price_input, price_output: US dollars per million tokens, for the summary.
        base_url, key_env, organization_env, project_env, concurrency, retries, timeout, allow_http, per_minute, sleep,
            clock: as in ``http_client.Service``.
    Attributes:
        name: model, service and every setting that changes replies.

    Raises:
        UsageError: a value out of range, or an address that is not safe.
    """

    def __init__(
        self,
        model: str,
        *,
        noun: str,
        purpose: str,
        picture: Literal["png", "jpeg"] = "png",
        max_side: int | None = None,
        detail: str | None = None,
        system: str | None = None,
        temperature: float | None = 0.0,
        seed: int | None = 0,
        max_tokens: int = 30,
        max_tokens_field: str | None = None,
        logprobs: int = 20,
        extra: Mapping[str, Any] | None = None,
        price_input: float | None = None,
        price_output: float | None = None,
        base_url: str = OPENAI,
        key_env: str | None = None,
        organization_env: str | None = None,
        project_env: str | None = None,
        concurrency: int = 4,
        retries: int = 6,
        timeout: float = 180.0,
        allow_http: bool = False,
        per_minute: float | None = None,
        sleep: Callable[[float], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not model or clean_text(model, 200) != model:
            raise UsageError("openai: name a model, for example openai:gpt-4o-mini")
        check_choice("picture", picture, ("png", "jpeg"))
        check_range("logprobs", logprobs, 0, 20)
        check_range("max_tokens", max_tokens, 1, 1_000_000)
        for option, value, high in (
            ("temperature", temperature, 10),
            ("price_input", price_input, 1e6),
            ("price_output", price_output, 1e6),
        ):
            if value is not None:
                check_range(option, value, 0, high)
        if max_side is not None:
            check_range("max_side", max_side, 16, 100_000)
        self.service = Service(
            model,
            path=PATH,
            noun=noun,
            purpose=purpose,
            base_url=base_url,
            key_env=key_env,
            organization_env=organization_env,
            project_env=project_env,
            concurrency=concurrency,
            retries=retries,
            timeout=timeout,
            allow_http=allow_http,
            per_minute=per_minute,
            sleep=sleep,
            clock=clock,
        )
        self._picture, self._max_side, self._detail, self._system = picture, max_side, detail, system
        field = max_tokens_field or ("max_completion_tokens" if self.service.ours else "max_tokens")
        given = {"temperature": temperature, "seed": seed, field: max_tokens}
        self._fields: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        self._extra = check_extra(extra or {}, RESERVED | {field})
        self._logprobs, self._max_tokens = logprobs, max_tokens
        self._prices = (price_input, price_output)
        told = {
            "picture": picture,
            "max_side": max_side,
            "detail": detail,
            "system": None if system is None else repr(system),
            "temperature": temperature,
            "seed": seed,
            "max_tokens": max_tokens,
            "logprobs": logprobs or None,
            **{f"extra.{name}": value for name, value in sorted(self._extra.items())},
        }
        settings = "".join(f" {name}={value}" for name, value in told.items() if value is not None)
        self.name = f"openai:{model}{self.service.where()}{settings}"
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
        self.service.open()
        return self.service.in_order(self._prepared(messages), self._answer)

    def close(self) -> None:
        """End everything under way."""
        self.service.close()

    def note(self, reason: str) -> None:
        """Count a reason why there is no answer."""
        with self._lock:
            if reason in self._reasons or len(self._reasons) < 1000:  # a service may say something new each time
                self._reasons[reason] += 1

    def summary(self) -> list[str]:
        """Lines after a run: what was asked, what came, why some did not, tokens and cost as far as known."""
        service = self.service
        with self._lock:
            n, reasons, models = Counter(service.counts), Counter(self._reasons), sorted(self._models)
            cost = self._stated_cost
        lines = [
            f"{n['posts']:,} requests ({n['retries']:,} tries again) in {service.elapsed_s:,.1f} s: {n['ok']:,} "
            f"replies, {n['refused']:,} refused, {n['failed']:,} failed"
        ]
        lines += [f"no answer, {number:,} times: {reason}" for reason, number in reasons.most_common(MAX_TOLD)]
        if len(reasons) > MAX_TOLD:
            lines.append(f"and {len(reasons) - MAX_TOLD:,} other reasons")
        if models:
            lines.append(f"answered as {', '.join(models[:5])}")
        if n["prompt_tokens"] or n["completion_tokens"]:
            lines.append(
                f"{n['prompt_tokens']:,} tokens read, {n['completion_tokens']:,} written, by the service's count"
            )
        if cost is not None:
            lines.append(f"cost about USD {cost:,.2f}, stated by the service; what counts is its bill")
        elif None not in self._prices:
            low, high = (price or 0.0 for price in self._prices)
            cost = (n["prompt_tokens"] * low + n["completion_tokens"] * high) / 1e6
            lines.append(f"cost about USD {cost:,.2f}, at your prices; what counts is the service's bill")
        elif n["posts"]:
            lines.append("cost unknown: price_input and price_output (USD per million tokens) tell it")
        return lines

    # ---------------------------------------------------------------------------------------------------------- asking
    def _prepared(self, messages: Iterable[Message]) -> Iterator[tuple[Message, str]]:
        """Messages with their pictures as data addresses, each picture encoded once for the texts in a row about it."""
        last: tuple[np.ndarray, str] | None = None
        for message in messages:
            if last is None or last[0] is not message.pixels:
                last = (message.pixels, self._data_url(message.pixels))
            yield message, last[1]

    def _data_url(self, pixels: np.ndarray) -> str:
        image = PilImage.fromarray(np.ascontiguousarray(pixels))
        if self._max_side is not None and max(image.size) > self._max_side:
            scale = self._max_side / max(image.size)
            size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
            image = image.resize(size, PilImage.Resampling.LANCZOS)
        buffer = io.BytesIO()
        image.save(buffer, self._picture.upper(), **({"quality": 95} if self._picture == "jpeg" else {}))
        return f"data:image/{self._picture};base64,{base64.b64encode(buffer.getvalue()).decode()}"

    def _answer(self, item: tuple[Message, str], halt: threading.Event) -> ChatAnswer:
        message, url = item
        service = self.service
        try:
            answer = service.insist(lambda _: self._once(message, url), halt)
        except Refused as err:
            return self._nothing("refused", str(err))
        except Failed as err:
            return self._nothing("failed", str(err))
        except NotThisTime as err:
            return self._nothing("failed", err.reason)
        service.pacer.arrive()
        service.count("ok")
        return answer

    def _nothing(self, state: str, reason: str) -> ChatAnswer:
        self.service.count(state)
        told = f"{state}: {self.service.redact(reason, 400)}"
        self.note(told)
        return ChatAnswer(text=None, reason=told)

    def _once(self, message: Message, url: str) -> ChatAnswer:
        """One attempt: ask and read."""
        picture = {"url": url} if self._detail is None else {"url": url, "detail": self._detail}
        content = [{"type": "image_url", "image_url": picture}, {"type": "text", "text": message.text}]
        messages: list[dict[str, Any]] = [{"role": "user", "content": content}]
        if self._system:
            messages.insert(0, {"role": "system", "content": self._system})
        body: dict[str, Any] = {"model": self.service.model, "messages": messages, **self._fields, **self._extra}
        if message.schema is not None:
            schema = {"name": "answers", "strict": True, "schema": message.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif self._logprobs and message.logprobs:
            body |= {"logprobs": True, "top_logprobs": self._logprobs}
        data = self.service.post(body, limit=MAX_ANSWER, fixed=set(body) - {"messages"})
        self._account(data)
        return self._read(data)

    def _read(self, data: Mapping[str, Any]) -> ChatAnswer:
        """The reply in an answer.

        Raises:
            Refused: the model or the service's filter declined. Failed: cut off before it said anything.
            NotThisTime: no reply in it.
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
                raise Failed(f"cut off at {self._max_tokens:,} tokens before it said anything; raise max_tokens")
            raise NotThisTime("the answer holds no reply", answered=True)
        # Probabilities are those of the thoughts, where a model wrote them into its reply.
        return ChatAnswer(text=plain, tokens=_tokens_of(choice.get("logprobs")) if plain == text.strip() else ())

    def _account(self, data: Mapping[str, Any]) -> None:
        """Take in what an answer says of itself: the model's full name, tokens, cost."""
        usage = data.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        for name in ("prompt_tokens", "completion_tokens"):
            self.service.count(name, natural(usage.get(name)))
        cost, model = usage.get("cost"), data.get("model")
        with self._lock:
            if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1e6:
                self._stated_cost = (self._stated_cost or 0.0) + cost
            if isinstance(model, str) and model and len(self._models) < 20:
                self._models[self.service.redact(model, 80)] += 1


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
    found = []
    for entry in content if isinstance(content, list) else ():
        top = entry.get("top_logprobs") if isinstance(entry, dict) else None
        if not isinstance(top, list) or not isinstance(entry.get("token"), str):
            return ()
        # The token itself may be less probable than those listed. One that is listed twice counts once.
        told: dict[str, float] = {}
        for each in (*top, entry):
            token, value = (each.get("token"), each.get("logprob")) if isinstance(each, dict) else (None, None)
            if isinstance(token, str) and isinstance(value, int | float) and not math.isnan(value):
                told.setdefault(token, min(1.0, math.exp(min(0.0, value))))
        found.append(Token(text=entry["token"], top=tuple(told.items())))
    return tuple(found)
