"""Options of services: what users set, and the checks of it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from verism.errors import UsageError
from verism.options import json_or_text
from verism.services.addresses import check_base_url, host_of
from verism.services.redaction import clean_text

__all__ = ["OPENAI", "ServiceOptions", "check_extra", "check_range", "duration", "parse_extra", "read_variable"]

OPENAI = "https://api.openai.com/v1"
parse_extra = json_or_text  # the value of an ``extra.NAME=value`` option
SECRET_NAMES = re.compile(r"(?:^|[_-])(?:api_?key|key|secret|password|authorization|token)$", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class ServiceOptions:
    """Where a service is, who asks it, and how much it is asked at a time.

    Attributes:
        base_url: URL of the service, without user name, password and query.
        key_env: environment variable that holds the API key. None: ``OPENAI_API_KEY`` for OpenAI; no key for other
            services, which must never receive OpenAI's.
        organization_env: environment variable that holds the organisation id. None: ``OPENAI_ORG_ID`` for OpenAI, if
            set; none for other services.
        project_env: environment variable that holds the project id. None: ``OPENAI_PROJECT_ID`` for OpenAI, if set;
            none for other services.
        concurrency: parallel requests, 1 to 256.
        retries: retries of a request after transient errors, 0 to 100.
        timeout: longest time for one response, in seconds, 0.01 to 86,400.
        deadline: longest time for one request with all its retries, in seconds, 0.01 to 604,800; then it fails.
        run_deadline: longest time for all requests of a run, in seconds, 0.01 to 31,536,000; then the run stops, and a
            repeated call resumes it.
        give_up: requests failing in a row until the run stops, 1 to 1,000,000.
        allow_http: allow sending an API key over unencrypted ``http://`` to another machine.
        per_minute: highest number of requests per minute, evenly spread, 0.01 to 1,000,000. None: no limit of ours.
    """

    base_url: str = OPENAI
    key_env: str | None = None
    organization_env: str | None = None
    project_env: str | None = None
    concurrency: int = 4
    retries: int = 6
    timeout: float = 180.0
    deadline: float = 3600.0
    run_deadline: float = 604_800.0
    give_up: int = 5
    allow_http: bool = False
    per_minute: float | None = None

    @property
    def is_openai(self) -> bool:
        """Whether it is OpenAI itself."""
        host = host_of(self.base_url)
        return host == "api.openai.com" or host.endswith(".api.openai.com")

    @property
    def location(self) -> str:
        """How a name says who is asked: empty for OpenAI itself, ``@host/path`` for others."""
        parts = urlsplit(self.base_url)
        return "" if self.base_url == OPENAI else f"@{parts.netloc}{'' if parts.path == '/v1' else parts.path}"

    def deadlines(self) -> str:
        """How long the service may take, as a line for a rehearsal."""
        return (
            f"at most {duration(self.timeout)} for an answer, {duration(self.deadline)} for a request with its retries "
            f"and {duration(self.run_deadline)} for the run (timeout={self.timeout:g}, deadline={self.deadline:g}, "
            f"run_deadline={self.run_deadline:g})"
        )

    def resolved(self, owner: str, path: str) -> ServiceOptions:
        """The same, checked: OpenAI's variables filled in, and the address normalised.

        Args:
            owner: the generator or judge that messages name.
            path: path of the endpoint, such as ``/images/generations``; removed from the address if it ends with it.

        Raises:
            UsageError: a value out of range, or an address that is not safe.
        """
        check_range(owner, "concurrency", self.concurrency, 1, 256)
        check_range(owner, "retries", self.retries, 0, 100)
        check_range(owner, "timeout", self.timeout, 0.01, 86_400)
        check_range(owner, "deadline", self.deadline, 0.01, 604_800)
        check_range(owner, "run_deadline", self.run_deadline, 0.01, 31_536_000)
        check_range(owner, "give_up", self.give_up, 1, 1_000_000)
        check_range(owner, "per_minute", self.per_minute, 0.01, 1_000_000)
        names: dict[str, Any] = {
            "key_env": self.key_env,
            "organization_env": self.organization_env,
            "project_env": self.project_env,
        }
        if self.is_openai:
            usual = ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID")
            names = {option: name or default for (option, name), default in zip(names.items(), usual, strict=True)}
        for option, name in names.items():
            if name is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):  # not shown: it may be the key
                raise UsageError(
                    f"{owner}: {option} is the name of an environment variable (letters, digits, _), such as "
                    "OPENAI_API_KEY. If it was the key itself: put it into a variable and give that one's name"
                )
        url = check_base_url(
            self.base_url, option=f"{owner}: base_url", has_key=bool(names["key_env"]), allow_http=self.allow_http
        )
        return replace(self, base_url=url.removesuffix(path), **names)


def duration(seconds: float) -> str:
    """A time in its largest unit.

    >>> duration(90), duration(3600), duration(604800)
    ('90 s', '1 h', '7 days')
    """
    for unit, size in ((" days", 86_400), (" h", 3600), (" min", 60)):
        if seconds >= size and seconds % size == 0 and (size < 86_400 or seconds >= 2 * size):
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g} s"


def read_variable(owner: str, option: str, name: str | None) -> str:
    """The value of an environment variable without surrounding white space; empty if there is none.

    Args:
        owner: the generator or judge that messages name.
        option: which option names the variable.
        name: name of the environment variable; None reads nothing.

    Raises:
        UsageError: the value holds characters that no key has.
    """
    value = os.environ.get(name, "").strip() if name else ""
    if not all(33 <= ord(c) <= 126 for c in value):
        raise UsageError(
            f"{owner}: the environment variable of {option} holds white space or characters that no key has; "
            "set it anew, perhaps a line too many was copied"
        )
    return value


def check_range(owner: str, option: str, value: float | None, low: float, high: float) -> None:
    """Raise UsageError unless an option lies in its range or is None; ``owner`` is who takes it."""
    if value is not None and not low <= value <= high:  # also true of NaN
        raise UsageError(f"{owner}: {option} must lie between {low:g} and {high:g}, got {value}")


def check_extra(owner: str, extra: Mapping[str, Any], reserved: Collection[str]) -> dict[str, Any]:
    """Further JSON fields of requests, checked.

    Args:
        owner: the generator or judge that messages name.
        extra: fields by name.
        reserved: names of fields that are set otherwise.

    Raises:
        UsageError: one of the ``reserved``, a secret, or no JSON.
    """
    for name in extra:
        if name in reserved:
            raise UsageError(f"{owner}: extra.{name} would overwrite a field that is set otherwise")
        if SECRET_NAMES.search(name):
            raise UsageError(
                f"{owner}: extra.{name} looks like a secret, and extra fields are written into the run; keys are read "
                "from the environment variable named by key_env"
            )
    try:
        json.dumps(dict(extra), allow_nan=False)
    except (TypeError, ValueError) as err:
        raise UsageError(f"{owner}: the extra fields cannot be sent as JSON: {clean_text(str(err), 100)}") from None
    return dict(extra)
