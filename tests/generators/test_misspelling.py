"""Mistakes planted in texts are mistakes by our strictest and our most lenient rules for wording."""

import numpy as np
import pytest

from verism.generators.misspelling import TEXT_MISTAKES, possible_in_text, spoil_text
from verism.records import GARBLED
from verism.suites.text_rendering.own_prompts import draw_own_prompts
from verism.suites.text_rendering.rules import RuleSet, match_texts

TEXTS = [
    "Fresh Bread Daily",
    "OPEN",
    "Bitte Türen schließen",
    "今日特价",
    "お茶",
    "오늘의 특가",
    "Не курить",
    "12 Mill Lane, 4-6!",
]


@pytest.mark.parametrize("kind", TEXT_MISTAKES)
@pytest.mark.parametrize("text", TEXTS)
def test_a_mistake_is_one_whatever_counts(kind, text):
    if not possible_in_text(kind, text):
        assert kind in ("swapped", "missing")
        return
    for seed in range(40):
        made, told = spoil_text(text, kind, np.random.default_rng(seed))
        assert not match_texts([text], made, RuleSet()).right, (made, told)
        assert told.startswith(kind)


def test_kinds_of_mistakes_change_what_they_are_named_after():
    rng = np.random.default_rng(1)
    text = "mind the old step"
    bag = {kind: match_texts([text], spoil_text(text, kind, rng)[0], RuleSet()).bag for kind in TEXT_MISTAKES}
    assert bag["swapped"][:3] == (4, 0, 0)
    assert bag["repeated"][1:4] == (0, 1, 1)
    assert bag["missing"][:3] == (3, 1, 0)
    assert bag["surplus"][1:4] == (0, 1, 0)
    assert GARBLED in spoil_text(text, "garbled", rng)[0]


def test_the_only_text_of_an_image_is_never_left_out():
    assert not possible_in_text("missing", "OPEN", alone=True)
    assert possible_in_text("missing", "OPEN", alone=False)
    assert spoil_text("OPEN", "missing", np.random.default_rng(0))[0] == ""


def test_all_of_our_own_texts_can_be_misspelt():
    for asked in draw_own_prompts():
        for text in asked.texts:
            assert possible_in_text("misspelt", text)
