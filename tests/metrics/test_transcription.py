"""Edits, bags and order of texts, worked by hand and against the definition."""

import math
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verism.metrics.transcription import (
    BagCounts,
    Edits,
    Wording,
    bag_counts,
    best_order,
    characters,
    edit_distance,
    edits,
    error_rate,
    plain_text,
    script_of,
    words,
)

SHORT = st.text(alphabet="abc", max_size=7)


def defined(target, read, *, free=False):
    """Fewest edits, then fewest substitutions, by the recursive definition."""

    @cache
    def cost(i, j):
        if i == 0:
            return (0 if free else j, 0)
        options = [(cost(i - 1, j)[0] + 1, cost(i - 1, j)[1])]
        if j:
            insertion = 0 if free else 1
            options.append((cost(i, j - 1)[0] + insertion, cost(i, j - 1)[1]))
            wrong = int(target[i - 1] != read[j - 1])
            options.append((cost(i - 1, j - 1)[0] + wrong, cost(i - 1, j - 1)[1] + wrong))
        return min(options)

    return cost(len(target), len(read))


@given(SHORT, SHORT)
def test_edits_are_those_of_the_definition(target, read):
    found = edits(target, read)
    assert (found.distance, found.substitutions) == defined(target, read)
    # What is deleted and inserted accounts for the lengths.
    assert len(target) - found.deletions + found.insertions == len(read)
    assert min(found) >= 0


@given(SHORT, SHORT)
def test_free_insertions_cost_nothing_and_never_more(target, read):
    found = edits(target, read, free_insertions=True)
    assert (found.distance, found.substitutions) == defined(target, read, free=True)
    assert found.insertions == 0
    assert found.distance <= edits(target, read).distance


@given(SHORT, SHORT, SHORT)
def test_distance_is_a_metric(a, b, c):
    assert edit_distance(a, b) == edit_distance(b, a)
    assert (edit_distance(a, b) == 0) == (a == b)
    assert edit_distance(a, c) <= edit_distance(a, b) + edit_distance(b, c)


@given(st.lists(st.sampled_from(["to", "be", "or", "not"]), max_size=8),
       st.lists(st.sampled_from(["to", "be", "or", "now"]), max_size=8))  # fmt: skip
def test_a_bag_never_sees_fewer_words_than_an_alignment(target, read):
    bag, found = bag_counts(target, read), edits(target, read)
    assert bag.matched >= found.length - found.substitutions - found.deletions
    assert bag.matched + bag.missing == bag.length == len(target)
    assert bag.matched + bag.surplus == len(read)
    assert bag.repeated <= bag.surplus


@pytest.mark.parametrize(
    ("target", "read", "expected"),
    [
        # no p a r k -> n o p r k: by hand, one character left out, none exchanged
        ("park", "prk", Edits(0, 1, 0, 4)),
        ("park", "spark", Edits(0, 0, 1, 4)),
        ("park", "bark", Edits(1, 0, 0, 4)),
        ("park", "", Edits(0, 4, 0, 4)),
        ("", "ab", Edits(0, 0, 2, 0)),
        # Transposed letters: one deleted and one inserted, not two exchanged.
        ("form", "from", Edits(0, 1, 1, 4)),
    ],
)
def test_edits_by_hand(target, read, expected):
    assert edits(target, read) == expected


def test_error_rate_may_exceed_one_and_is_undefined_without_a_target():
    assert error_rate(edits("ab", "abcdef")) == 2.0
    assert math.isnan(error_rate(edits("", "a")))


def test_wrong_order_is_free_in_a_bag_and_not_in_an_alignment():
    target, read = ["mind", "the", "step"], ["step", "the", "mind"]
    assert bag_counts(target, read) == BagCounts(3, 0, 0, 0, 3)
    assert edits(target, read).distance == 2


def test_repeated_word_is_surplus_and_told_apart():
    # "open" is asked for once and read three times, "now" is not asked for.
    assert bag_counts(["open", "today"], ["open", "open", "open", "now"]) == BagCounts(1, 1, 3, 2, 2)


@pytest.mark.parametrize(
    ("text", "wording", "expected"),
    [
        ("It’s  “OK”!", Wording(), "its ok"),
        ("It’s OK!", Wording(case=True), "Its OK"),
        ("STRASSE ﬁne", Wording(), "strasse fine"),
        ("Straße", Wording(), "strasse"),
        ("ΦΟΎΡΝΟΣ φούρνος", Wording(), "φούρνοσ φούρνοσ"),
        ("５番", Wording(), "5番"),
        ("a-b", Wording(punctuation=True), "a-b"),
        ("...", Wording(), ""),
    ],
)
def test_plain_text(text, wording, expected):
    assert plain_text(text, wording) == expected
    assert plain_text(expected, wording) == expected


def test_characters_of_spaceless_scripts_do_not_count_spaces():
    assert characters("お 誕生 日") == characters("お誕生日")
    assert characters("no parking") != characters("noparking")
    assert characters("e\u0301a") == ["e\u0301", "a"]  # a letter and its mark are one


def test_words_of_spaceless_scripts_are_characters():
    assert words("禁煙席 あり ok") == ["禁", "煙", "席", "あ", "り", "ok"]
    assert words("금연 구역") == ["금연", "구역"]


def test_script_of_mixed_text_is_that_of_most_letters():
    assert script_of("Cafés 24 часа") == "latin"
    assert script_of("本日のおすすめ") == "japanese"
    assert script_of("123 !") == ""


@pytest.mark.parametrize("n", [2, 3, 4])
def test_best_order_finds_regions_read_in_any_order(n):
    regions = ["fresh bread", "open", "room 204", "wet paint"][:n]
    read = "".join(reversed(regions))
    assert best_order(regions, read) == tuple(reversed(range(n)))


def test_best_order_of_many_regions_follows_where_they_were_read():
    regions = ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot"]
    read = " ".join(regions[i] for i in (3, 0, 5, 1, 4, 2))
    assert best_order(regions, read) == (3, 0, 5, 1, 4, 2)


@given(st.lists(SHORT, max_size=5), SHORT)
def test_best_order_is_never_worse_than_the_order_asked_for(regions, read):
    order = best_order(regions, read)
    assert sorted(order) == list(range(len(regions)))
    best = edit_distance("".join(regions[i] for i in order), read)
    assert best <= edit_distance("".join(regions), read)
