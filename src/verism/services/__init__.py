"""Services over HTTP: retries, limits, and keys that no text shows.

Shared by generators that ask a service for images and judges that show images to one.
"""

from verism.services.client import LOOK_AHEAD, Outcome, ServiceClient, is_transient, natural
from verism.services.options import OPENAI, ServiceOptions, check_extra, check_range, parse_extra
from verism.services.redaction import HIDDEN, Redactor, clean_text
from verism.services.refusals import as_json, mentions_policy
from verism.services.retry import Failed, Refused, Stopped, TransientError, retry_after

__all__ = [
    "HIDDEN",
    "LOOK_AHEAD",
    "OPENAI",
    "Failed",
    "Outcome",
    "Redactor",
    "Refused",
    "ServiceClient",
    "ServiceOptions",
    "Stopped",
    "TransientError",
    "as_json",
    "check_extra",
    "check_range",
    "clean_text",
    "is_transient",
    "mentions_policy",
    "natural",
    "parse_extra",
    "retry_after",
]
