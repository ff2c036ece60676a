"""Values of rules and options, which may come from Python, from JSON or as text."""

from __future__ import annotations

from typing import Any

from verism.errors import UsageError

__all__ = ["whole"]


def whole(name: str, value: Any, least: int) -> int:
    """A whole number, also as text or as a float without a fraction; truth values are none.

    Raises:
        UsageError: something else, or a number below ``least``.

    >>> whole("k", 5, 1), whole("k", " 5 ", 1), whole("k", 5.0, 1)
    (5, 5, 5)
    """
    try:
        number = int(value)
        fits = not isinstance(value, bool) and (isinstance(value, str) or number == value)
    except (TypeError, ValueError, OverflowError):
        number, fits = least, False
    if not fits or number < least:
        raise UsageError(f"{name} is a whole number, at least {least}; got {value!r}")
    return number
