"""Options of services, and their checks."""

from typing import Any

import pytest

from verism.errors import UsageError
from verism.services import OPENAI, ServiceOptions, parse_extra
from verism.services.options import check_extra, check_range, read_variable


def test_resolved_of_openai_itself_fills_in_its_variables():
    resolved = ServiceOptions().resolved("captioner", "/chat/completions")
    assert (resolved.key_env, resolved.organization_env, resolved.project_env) == (
        "OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID",
    )  # fmt: skip
    assert (resolved.base_url, resolved.location, resolved.is_openai) == (OPENAI, "", True)


@pytest.mark.parametrize("host", ["api.openai.com.evil.example", "xapi.openai.com", "h.example"])
def test_resolved_of_another_service_names_no_key_of_openai(host: str):
    resolved = ServiceOptions(base_url=f"https://{host}/v1").resolved("captioner", "/chat/completions")
    assert (resolved.key_env, resolved.organization_env, resolved.project_env) == (None, None, None)
    assert (resolved.location, resolved.is_openai) == (f"@{host}", False)


def test_resolved_of_the_address_of_the_endpoint_leaves_the_base():
    options = ServiceOptions(base_url="https://H.example/api/chat/completions/", key_env="K")
    resolved = options.resolved("captioner", "/chat/completions")
    assert (resolved.base_url, resolved.location, resolved.key_env) == ("https://h.example/api", "@h.example/api", "K")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"concurrency": 0}, "concurrency must lie between 1 and 256, got 0"),
        ({"retries": 101}, "retries must lie between 0 and 100, got 101"),
        ({"timeout": float("nan")}, "timeout must lie between 0.01 and 86400, got nan"),
        ({"per_minute": 0}, r"per_minute must lie between 0.01 and 1e\+06, got 0"),
        ({"project_env": "a b"}, "project_env is the name of an environment variable"),
        ({"base_url": "ftp://h"}, "base_url: expected an address"),
        ({"base_url": "http://h.example/v1", "key_env": "K"}, "base_url: http://h.example would send the key unencry"),
    ],
)
def test_resolved_with_a_wrong_option_names_the_owner_and_the_option(options: dict[str, Any], says: str):
    with pytest.raises(UsageError, match=f"^VQA model openai:m: {says}"):
        ServiceOptions(**options).resolved("VQA model openai:m", "/chat/completions")


def test_resolved_with_a_key_for_the_name_of_a_variable_does_not_repeat_it():
    with pytest.raises(UsageError, match="put it into a variable") as err:
        ServiceOptions(key_env="sk-abcdefgh").resolved("captioner", "/x")
    assert "abcdefgh" not in str(err.value)


def test_read_variable_strips_white_space_and_refuses_it_within(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("VERISM_TEST_KEY", " abc\r\n")
    assert read_variable("owner", "key_env", "VERISM_TEST_KEY") == "abc"
    assert read_variable("owner", "key_env", None) == ""
    monkeypatch.setenv("VERISM_TEST_KEY", "secret one")
    with pytest.raises(UsageError, match=r"^owner: the environment variable of key_env holds white space") as err:
        read_variable("owner", "key_env", "VERISM_TEST_KEY")
    assert "secret" not in str(err.value)


def test_check_range_of_none_passes():
    check_range("owner", "price", None, 0, 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7), ("7.5", 7.5), ("true", True), ("null", None), ("[1]", [1]), ('{"a": 1}', {"a": 1}), ('"7"', "7"),
        ("low", "low"), ("", ""), ("NaN", "NaN"), ("1024x1024", "1024x1024"), ("[" * 100_000, "[" * 100_000),
    ],
)  # fmt: skip
def test_parse_extra_is_json_where_it_can_be(text: str, value: Any):
    assert parse_extra(text) == value
    assert type(parse_extra(text)) is type(value)


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ({"seed": 1}, "extra.seed would overwrite a field"),
        ({"api_key": "x"}, "extra.api_key looks like a secret"),
        ({"x": float("inf")}, "the extra fields cannot be sent as JSON"),
    ],
)
def test_check_extra_of_what_cannot_be_sent_is_refused(extra: dict[str, Any], says: str):
    with pytest.raises(UsageError, match=f"^owner: {says}"):
        check_extra("owner", extra, {"seed"})


def test_check_extra_of_tokens_is_no_secret():
    assert check_extra("owner", {"max_tokens": 5}, {"seed"}) == {"max_tokens": 5}
