"""What services mean by their errors: refusals, accounts without money, requests that can never succeed."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

__all__ = ["EVERY_REQUEST", "NO_MONEY", "REFUSALS", "ErrorReply", "as_json", "mentions_policy", "page_text"]

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
EVERY_REQUEST = frozenset({"model_not_found", "invalid_model", "invalid_api_key", "account_deactivated"})
REFUSAL_WORDS = re.compile(
    r"safety (?:system|filter|check)|content[ _-](?:policy|policies|filter)|usage polic(?:y|ies)|\bnsfw\b"
    r"|moderation\b.*\b(?:block|reject|flag)|(?:block|reject|flag)\w*\b.*\bmoderation",
    re.IGNORECASE | re.DOTALL,
)


def mentions_policy(text: str) -> bool:
    """Whether a message is about what a service does not allow."""
    return REFUSAL_WORDS.search(text[:4000]) is not None  # the pattern may take the square of a hostile text's length


def as_json(value: Any) -> str:
    """A value out of a JSON answer as JSON text."""
    try:
        return json.dumps(value)
    except RecursionError:  # nested to the very limit that reading it allowed
        return "(nested too deeply)"


def page_text(body: bytes) -> str:
    """What a page that is not JSON says: its title if it is HTML, else its beginning."""
    text = body[:4000].decode("utf-8", "replace").strip()
    if text.startswith("<"):
        title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
        return f"an HTML page titled {title.group(1).strip()!r}" if title else "an HTML page"
    return text


@dataclass(frozen=True)
class ErrorReply:
    """What an error answer says, whatever its form.

    Attributes:
        message: as the service wrote it; it may hold secrets.
        codes: error codes, in lower case.
        param: name of the field that it is about; None if it does not say.
    """

    message: str = ""
    codes: frozenset[str] = frozenset()
    param: str | None = None

    @property
    def is_refusal(self) -> bool:
        """Whether one of its codes stands for a refusal."""
        return bool(self.codes & REFUSALS)

    @staticmethod
    def parse(body: bytes) -> ErrorReply:
        """Read an answer that is JSON, a page, or text."""
        try:
            data = json.loads(body)
        except (ValueError, RecursionError):
            return ErrorReply(page_text(body))
        return ErrorReply.of_json(data)

    @staticmethod
    def of_json(data: Any) -> ErrorReply:
        """Read the value of a JSON answer."""
        if isinstance(data, list) and data:  # Google's form of the interface
            data = data[0]
        if not isinstance(data, dict):
            return ErrorReply(data if isinstance(data, str) else "")
        error, detail = data.get("error"), data.get("detail")
        inner = error if isinstance(error, dict) else {}
        further = inner.get("inner_error") or inner.get("innererror")
        sources = [inner, data, further if isinstance(further, dict) else {}]
        names = ("message", "detail", "error_description")
        texts = [error, *(source.get(name) for source in sources for name in names)]
        message = next((t for t in texts if isinstance(t, str) and t.strip()), "")
        if not message and detail:  # FastAPI lists what it did not like
            message = as_json(detail)
        codes = [source.get(name) for source in sources for name in ("code", "type")]
        param = inner.get("param")
        if isinstance(detail, list) and detail and isinstance(detail[0], dict):
            place = detail[0].get("loc")  # FastAPI: ["body", "size"]
            param = place[-1] if isinstance(place, list) and place else param
        return ErrorReply(
            message,
            frozenset(str(code).lower() for code in codes if code and isinstance(code, str | int)),
            param if isinstance(param, str) else None,
        )
