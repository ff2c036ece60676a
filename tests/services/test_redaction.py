"""No key, and no fragment of one, in any text."""

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verism.services.redaction import HIDDEN, LogRedactor, Redactor, clean_text

SECRET = "sk-proj-" + "Zq7" * 9 + "_end"


def fragments(secret: str, size: int = 8) -> set[str]:
    return {secret[i : i + size] for i in range(len(secret) - size + 1)} - {"sk-proj-"}


@settings(max_examples=50)
@given(st.text(), st.integers(0, 30), st.integers(8, 40), st.text())
def test_redactor_fragment_of_a_secret_in_any_text_is_hidden(before: str, start: int, length: int, after: str):
    fragment = SECRET[start : start + length]
    shown = Redactor([SECRET])(before + fragment + after, 500)
    assert len(fragment) < 8 or not [f for f in fragments(fragment) if f in shown]
    assert len(shown) <= 500
    assert shown.isprintable()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a sk-abcdefgh1 b", f"a {HIDDEN} b"),
        ("Authorization: Bearer abc.def-123", f"Authorization: {HIDDEN}"),
        ("bearer abc123def", HIDDEN),
        ("see ?api_key=12345&x=1", f"see ?api_key={HIDDEN}&x=1"),
        ("abcd****wxyz!", f"{HIDDEN}!"),
        ("a basic desk-lamp, risk-averse, the bearer walks", "a basic desk-lamp, risk-averse, the bearer walks"),
    ],
)
def test_redactor_without_secrets_hides_what_looks_like_a_key(text: str, shown: str):
    assert Redactor()(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x abcdefgh1234 y", f"x {HIDDEN} y"),
        ("x ABCDEFGH1234 y", f"x {HIDDEN} y"),  # another case
        ("xabcdefgh1234y", f"x{HIDDEN}y"),  # within a word
        ("abcdefghXefgh1234", f"{HIDDEN}X{HIDDEN}"),  # two fragments
        ("abcdefg fgh1234", "abcdefg fgh1234"),  # seven characters are too few
        ("ß abcdefgh1234", f"ß {HIDDEN}"),  # folds into two characters, which must not move the others
    ],
)
def test_redactor_known_secret_is_hidden_wherever_it_stands(text: str, shown: str):
    assert Redactor(["abcdefgh1234"])(text) == shown


def test_redactor_short_secret_is_hidden_as_a_word_only():
    assert (
        Redactor(["none"])("none, nonetheless, anemone-none, canone")
        == f"{HIDDEN}, nonetheless, anemone-{HIDDEN}, canone"
    )


def test_redactor_repr_tells_the_number_and_not_the_secrets():
    assert repr(Redactor(["secret-text", ""])) == "Redactor(1 secrets)"


def test_clean_text_with_control_characters_becomes_one_plain_line():
    assert clean_text("a\r\n\tb\x1b[2J\u202ec\ud800", 50) == "a b [2J c?"
    assert clean_text("abcdef", 4) == "abc…"


@pytest.mark.parametrize("logger", ["httpx", "httpcore.http11"])
def test_log_redactor_between_install_and_remove_hides_secrets(
    logger: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    # A client of another test that its owner has not closed still hides its own secrets, and what looks like one.
    monkeypatch.setattr(logging.getLogger(logger), "filters", [])
    caplog.set_level(logging.DEBUG)
    log_redactor = LogRedactor(Redactor([SECRET]))
    log_redactor.install()
    logging.getLogger(logger).debug("header %s", SECRET)
    log_redactor.remove()
    logging.getLogger(logger).debug("after %s", "sk-of-others")
    assert [r.getMessage() for r in caplog.records] == [f"header {HIDDEN}", "after sk-of-others"]
