"""Words of captions: against stored answers of the Java tokeniser, and rules worth reading."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from pathlib import Path

import pytest

from verism.metrics.captions import ptb_words
from verism.metrics.captions.tokens import REMOVED_WORDS, get_tokenizer

ROOT = Path(__file__).parents[2]
# Sentences of ours and what Stanford's tokeniser makes of them with the toolkit's options, written by
# `python benchmarks/captions.py tokens --write tests/metrics/ptb_words.json`.
STORED = [
    (caption, words) for caption, words in json.loads((Path(__file__).parent / "ptb_words.json").read_text("utf-8"))
]

# Where we are known to differ, by a piece of the caption; docs/caption-metrics.md tells them.
KNOWN_TO_DIFFER = ("anti-U.S.",)


def test_stored_captions_have_the_words_of_the_java_tokeniser():
    differing = [caption for caption, words in STORED if ptb_words(caption) != words]
    assert len(STORED) > 500
    assert [c for c in differing if not any(piece in c for piece in KNOWN_TO_DIFFER)] == []
    assert len(differing) == sum(any(piece in c for piece in KNOWN_TO_DIFFER) for c, _ in STORED)


@pytest.mark.parametrize(
    ("caption", "words"),
    [
        pytest.param("A man, a plan.", "a man a plan", id="punctuation goes, case goes"),
        pytest.param("the man's dogs' isn't can't we'll", "the man 's dogs is n't ca n't we 'll", id="clitics"),
        pytest.param("don’t it’s", "do n't it 's", id="curly apostrophes are straightened"),
        pytest.param("I cannot, gonna wanna", "i can not gon na wan na", id="words that are two"),
        pytest.param("half-eaten black/white x_y", "half-eaten black/white x_y", id="joined words stay"),
        pytest.param("a dog -- a cat... “hi” 'x' `y`", "a dog a cat hi x y", id="dashes, dots and quotes go"),
        pytest.param("a (big) [red] {cat}", "a -lrb- big -rrb- -lsb- red -rsb- -lcb- cat -rcb-", id="brackets stay"),
        pytest.param("wow! what?! no!!", "wow what ?! no !!", id="single marks go, runs stay"),
        pytest.param("5 p.m. on Main St. Mr. Jones etc.", "5 p.m. on main st. mr. jones etc.", id="abbreviations"),
        pytest.param("A sign with the letter T.", "a sign with the letter t", id="a letter ends a sentence"),
        pytest.param("The T. of J. Smith in the U.S.", "the t. of j. smith in the u.s.", id="initials"),
        pytest.param("No. 5 is no. He is in Mass. in mass.", "no. 5 is no he is in mass. in mass", id="abbreviations?"),
        pytest.param("$5.00 £3 50% 10:30am 10am #1", "$ 5.00 # 3 50 % 10:30 am 10am # 1", id="numbers"),
        pytest.param("1 1/2 cups 555 555-1212", "1\u00a01/2 cups 555\u00a0555-1212", id="no-break spaces"),
        pytest.param("a street.The dog", "a street.the dog", id="a missing space makes one word"),
        pytest.param(
            "AT&T black&white rock 'n' roll '80s", "at&t black & white rock 'n' roll '80s", id="joined or not"
        ),
        pytest.param("www.a.com a@b.com :) <b>", "www.a.com a@b.com :-rrb- <b>", id="addresses, smileys, tags"),
        pytest.param("café 東京 ½ 😀 soft\u00adhyphen", "café 東京 1/2 softhyphen", id="beyond ASCII; emoji vanish"),
        pytest.param("a\ncat\r\n\tsits\u2028here", "a cat sits here", id="line breaks are spaces"),
        pytest.param(" . ' \" -- ", "", id="nothing but punctuation"),
        pytest.param("", "", id="empty"),
    ],
)
def test_rules(caption, words):
    assert ptb_words(caption) == (words.split(" ") if words else [])


def test_no_removed_word_and_no_plain_space_is_left():
    for caption, _ in STORED:
        words = ptb_words(caption)
        assert not REMOVED_WORDS & set(words)
        assert all(word and " " not in word for word in words)


def test_case_does_not_matter_to_ordinary_captions():
    caption = "Two Young Men Aren't Riding the Dog's Half-Eaten Skateboards."
    assert ptb_words(caption) == ptb_words(caption.upper()) == ptb_words(caption.lower())


def test_long_and_strange_captions_take_no_time():
    # Patterns that try every split of a run would need hours for these.
    for piece in ("a", "a'", "a.", "1 ", "-", "(", "a-", "1,", "'n", "&", "<a ", "@", "a@a.", "\u0301", "http://a/"):
        assert len(ptb_words(piece * 5_000)) <= 5_000 * len(piece)


def test_tokenizer_by_name():
    assert get_tokenizer("ptb") is ptb_words
    assert get_tokenizer("none")("A  cat.") == ["A", "", "cat."]
    with pytest.raises(ValueError, match=r"\['ptb', 'none'\].*got 'moses'"):
        get_tokenizer("moses")


@pytest.mark.skipif(shutil.which("java") is None, reason="needs Java to run the tokeniser we compare with")
def test_fresh_sentences_against_java(monkeypatch):
    pytest.importorskip("pycocoevalcap", reason="carries the Java tokeniser")
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    captions = importlib.import_module("captions")
    try:
        sentences = captions.corpus(150)
        for kind in ("plain", "marked"):
            assert [ptb_words(sentence) for sentence in sentences[kind]] == captions.java_words(sentences[kind])
    finally:
        sys.modules.pop("captions", None)
