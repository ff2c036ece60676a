"""Which addresses may be written down, and which may be sent a key."""

import pytest

from verism.errors import UsageError
from verism.services.addresses import check_base_url, host_of, is_loopback, origin


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True), ("a.LOCALHOST", True), ("127.9.9.9", True), ("::1", True),
        ("10.0.0.5", False), ("localhost.example.org", False), ("", False),
    ],
)  # fmt: skip
def test_is_loopback_of_a_host_is_this_machine_alone(host: str, expected: bool):
    assert is_loopback(host) is expected


def test_origin_of_addresses_with_usual_ports_is_that_without():
    assert origin("HTTPS://Host/x") == origin("https://host:443/y") == ("https", "host", 443)
    assert origin("http://host") != origin("https://host")
    assert origin("http://host:81") != origin("http://host")


def test_host_of_what_is_no_address_is_empty():
    assert [host_of(url) for url in ("https://Host:1/x", "http://[", "plain")] == ["host", "", ""]


def test_check_base_url_normalises_case_and_final_slash():
    checked = check_base_url("https://Host:8443/V1/", option="base_url", has_key=True, allow_http=False)
    assert checked == "https://host:8443/V1"


@pytest.mark.parametrize("url", ["https://me:pw-123456@h/v1", "https://h/v1?key=pw-123456", "https://h/v1#pw-123456"])
def test_check_base_url_with_a_secret_is_refused_without_repeating_it(url: str):
    with pytest.raises(UsageError, match=r"^judge: base_url: the address holds .* named by key_env$") as err:
        check_base_url(url, option="judge: base_url", has_key=False, allow_http=True)
    assert "123456" not in str(err.value)
