"""Released arithmetic of LongText-Bench, CVTG-2K and OneIG, worked by hand; and what it does not see."""

import math

import pytest

from verism.published import Verdict, undocumented
from verism.suites.text_rendering.published import cvtg, longtext, weighted_accuracy
from verism.suites.text_rendering.released import (
    BagMatch,
    cvtg_match,
    cvtg_targets,
    longtext_clean,
    longtext_match,
    oneig_clean,
    oneig_match,
    oneig_score,
)
from verism.suites.text_rendering.rules import RuleSet, match_texts


# ------------------------------------------------------------------------------------------------------- LongText-Bench
def test_longtext_counts_words_as_bags():
    assert longtext_match(["Open daily,", "open late"], "LATE open daily", "en") == BagMatch(3, 4)


def test_longtext_order_repetition_and_surplus_text_are_free():
    texts = ["mind the step"]
    for read in ("mind the step", "step the mind", "mind mind the step and much more that nobody asked for"):
        assert longtext_match(texts, read, "en") == BagMatch(3, 3)


def test_longtext_takes_out_the_phrase_only_with_its_full_stop():
    # The judge is asked to reply without the full stop, so its reply stays and is three words.
    asked = ["no text recognized here"]
    assert longtext_match(asked, "No text recognized", "en") == BagMatch(3, 4)
    assert longtext_match(asked, "No text recognized.", "en") == BagMatch(0, 4)


def test_longtext_keeps_the_other_made_up_phrase():
    # The loop over phrases keeps the effect of the last one only.
    assert longtext_match(["addCriterion"], "addCriterion", "en") == BagMatch(1, 1)


def test_longtext_chinese_counts_characters_and_keeps_case():
    assert longtext_match(["春天 A，花"], "花天 a", "zh") == BagMatch(2, 4)
    assert longtext_clean("Größe № 5 été", "en") == "gröe 5 été"  # sharp s is no letter of the list


# -------------------------------------------------------------------------------------------------------------- CVTG-2K
def test_cvtg_targets_are_what_stands_in_single_quotes():
    prompt = "a stall with 'Fresh Juice!' above 'fresh' and an open 'quote"
    assert cvtg_targets(prompt) == ["fresh", "juice!", "fresh"]


def test_cvtg_one_reading_satisfies_equal_words_and_surplus_is_free():
    match = cvtg_match(["fresh", "juice!", "fresh"], "FRESH mango juice")
    assert (match.matched, match.length) == (2, 3)
    # fresh, fresh: 1 each. juice!: closest by difflib is juice, one edit of six letters.
    assert match.similarity == pytest.approx(2 + 1 - 1 / (6 + 1e-5), abs=1e-12)


def test_cvtg_closest_word_is_by_difflib_not_by_edit_distance():
    # difflib: ratio(abcd, bcdxx) = 2*3/9 = .667, ratio(abcd, abxy) = .5; by edit distance abxy (2) is nearer than
    # bcdxx (3).
    match = cvtg_match(["abcd"], "bcdxx abxy")
    assert match.similarity == pytest.approx(1 - 3 / (5 + 1e-5), abs=1e-12)


def test_cvtg_nothing_read_counts_zero():
    assert cvtg_match(["open", "late"], "") == (0, 0.0, 2)


# ---------------------------------------------------------------------------------------------------------------- OneIG
def test_oneig_distance_is_of_characters_and_sees_case():
    match = oneig_match("Open Late", "open Late!")
    assert (match.distance, match.complete, match.matched, match.length) == (1, False, 1, 2)
    assert oneig_match("Open Late", "Open  Late").complete


def test_oneig_takes_out_made_up_phrases_and_spaces_of_chinese():
    assert oneig_match("Open", "addCriterionOpen").complete
    assert oneig_clean("你好 World 1") == "你好World1"
    assert oneig_match("春天 花", "花春天").matched == 3


def test_oneig_score_by_hand():
    # M = 100: 1 - 40 * .75 * .5 / 100
    assert oneig_score(40, 0.25, 0.5, 100) == pytest.approx(0.85)
    assert oneig_score(120, 0.25, 0.5, 100) == pytest.approx(1 - 0.375)
    # One perfect part makes the whole score perfect.
    assert oneig_score(80, 0.0, 1.0, 100) == oneig_score(0, 0.0, 0.2, 100) == 1.0
    assert math.isnan(oneig_score(math.nan, 0.5, 0.5, 100))


# ----------------------------------------------------------------------------------------------------- beside our rules
@pytest.mark.parametrize(
    ("read", "edits_of_words", "right"),
    [
        ("mind the step", 0, True),
        ("step the mind", 2, False),
        ("mind the the step", 1, False),
        ("mind the step now", 1, False),
    ],
)
def test_our_rules_see_order_repetition_and_surplus_text_which_the_released_do_not(read, edits_of_words, right):
    assert longtext_match(["Mind the step"], read, "en") == BagMatch(3, 3)
    match = match_texts(["Mind the step"], read, RuleSet())
    assert (match.words.distance, match.right) == (edits_of_words, right)


def test_rules_change_what_counts():
    texts = ["Wet Paint!", "Open"]
    assert match_texts(texts, "open\nwet paint", RuleSet()).right
    assert not match_texts(texts, "open\nwet paint", RuleSet(order="reading")).right
    assert not match_texts(texts, "Open\nWet Paint", RuleSet(punctuation=True)).right
    assert match_texts(texts, "Open\nWet Paint", RuleSet(case=True)).right
    assert not match_texts(texts, "open\nwet paint", RuleSet(case=True)).right
    assert match_texts(texts, "WET PAINT and more OPEN late", RuleSet(surplus=False)).right
    twice = match_texts(["to be or not to be"], "to be or not", RuleSet())
    once = match_texts(["to be or not to be"], "to be or not", RuleSet(repeats=False))
    assert (twice.bag.matched, once.bag.matched) == (4, 6)


# ------------------------------------------------------------------------------------------------------------ published
def test_published_averages_are_weighted_by_words():
    # FLUX.1-dev: (.6089*1969 + .5531*4249 + .4661*5417 + .4316*4571) / 16206 = .49653
    assert weighted_accuracy({2: 0.6089, 3: 0.5531, 4: 0.4661, 5: 0.4316}) == pytest.approx(0.49653, abs=5e-6)


def test_every_published_figure_agrees_or_its_difference_is_known():
    checks = [*cvtg(), *longtext()]
    assert not undocumented(checks)
    of_average = [c for c in checks if c.table == "average" and c.quantity.startswith("word accuracy")]
    verdicts = [c.verdict for c in of_average]
    assert len(of_average) == 16
    assert verdicts.count(Verdict.MISPRINT) == 1
    assert next(c for c in of_average if c.verdict is Verdict.MISPRINT).quantity.endswith("HiDream-O1-Image-Pro")
    assert verdicts.count(Verdict.DEFINITION) == 6
