"""What error answers say, in the forms that services give them."""

import json
from typing import Any

import pytest

from verism.services.refusals import ErrorReply, as_json, mentions_policy, page_text


@pytest.mark.parametrize(
    ("data", "message", "codes", "param"),
    [
        pytest.param(
            {"error": {"message": "no", "type": "T", "code": "C", "param": "size"}},
            "no", {"t", "c"}, "size", id="OpenAI",
        ),
        pytest.param([{"error": {"message": "full", "code": 429}}], "full", {"429"}, None, id="Google"),
        pytest.param(
            {"error": {"message": "no", "innererror": {"code": "ResponsibleAIPolicyViolation"}}},
            "no", {"responsibleaipolicyviolation"}, None, id="Azure",
        ),
        pytest.param({"detail": "queue full"}, "queue full", set(), None, id="FastAPI text"),
        pytest.param(
            {"detail": [{"loc": ["body", "size"], "msg": "bad"}]},
            '[{"loc": ["body", "size"], "msg": "bad"}]', set(), "size", id="FastAPI list",
        ),
        pytest.param({"error": "slow down"}, "slow down", set(), None, id="text for an error"),
        pytest.param({"error": None, "message": "odd"}, "odd", set(), None, id="message beside"),
        pytest.param({"error": {"code": [[1]], "type": {"a": 2}, "param": 3}}, "", set(), None, id="odd types"),
        pytest.param("plain", "plain", set(), None, id="text"),
        pytest.param(7, "", set(), None, id="number"),
        pytest.param([], "", set(), None, id="nothing"),
    ],
)  # fmt: skip
def test_error_reply_of_a_service_is_message_codes_and_field(
    data: Any, message: str, codes: set[str], param: str | None
):
    assert ErrorReply.parse(json.dumps(data).encode()) == ErrorReply(message, frozenset(codes), param)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"<html><title>Sorry\n!</title>", "an HTML page titled 'Sorry\\n!'"),
        (b" <!doctype html>", "an HTML page"),
        (b"404 page not found\n", "404 page not found"),
        (b"\xff", "\ufffd"),
        (b"", ""),
    ],
)
def test_error_reply_that_is_no_json_is_the_text_of_the_page(body: bytes, text: str):
    assert ErrorReply.parse(body) == ErrorReply(text)
    assert page_text(body) == text


@pytest.mark.parametrize(
    ("codes", "expected"), [({"moderation_blocked"}, True), ({"x", "content_filter"}, True), ({"x"}, False)]
)
def test_error_reply_is_refusal_by_its_codes(codes: set[str], expected: bool):
    assert ErrorReply("", frozenset(codes)).is_refusal is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Your request was rejected as a result of our safety system.", True),
        ("This violates our content policy", True),
        ("flagged by moderation", True),
        ("moderation has\nblocked it", True),
        ("Unknown parameter: 'moderation'.", False),
        ("The prompt is too long.", False),
        ("x" * 4000 + " content policy", False),  # not searched: the pattern would be slow on hostile texts
    ],
)
def test_mentions_policy_of_a_message(text: str, expected: bool):
    assert mentions_policy(text) is expected


def test_as_json_of_a_value_nested_too_deeply_says_so():
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    assert as_json(value) == "(nested too deeply)"
    assert as_json({"a": None}) == '{"a": null}'
