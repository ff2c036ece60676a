"""Scores with the judge's error taken out: sums worked by hand, and what happens where tables are missing."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from verism.cards import JudgeCard, Measured
from verism.pipeline.correction import adjust_by_cards, adjust_by_labels
from verism.records import Estimand, EstimandPart, Score
from verism.specs import Rule

NO, YES = "wrong", "right"
JUDGES = {"detector": "judge@1"}


def score(value: float = 0.5, *, metric: str = "accuracy", protocol: str = "revised", **group) -> Score:
    return Score(
        suite="s", metric=metric, protocol=protocol, group=group, value=value, ci_low=0.0, ci_high=1.0, n_used=100,
        n_unusable=0,
    )  # fmt: skip


def part(said: Sequence[str], *, name: str = "a", coefficient: float = 1.0, clusters=None, weights=None, **key):
    n = len(said)
    return EstimandPart(
        coefficient=coefficient,
        image_ids=tuple(f"{name}{i}" for i in range(n)),
        clusters=tuple(clusters or (f"{name}{i}" for i in range(n))),
        predicted=tuple(said),
        weights=tuple(weights or [1 / n] * n),
        key=key,
    )


def estimand(*parts, worth=None, rule: str = "accuracy", **more) -> Estimand:
    return Estimand(
        score=more.pop("score", score()), rule=rule, role="detector", worth=worth or {NO: 0.0, YES: 1.0}, parts=parts
    )


def card(*tables: Measured, judge: str = "judge@1", kind="rendered", **made) -> JudgeCard:
    return JudgeCard(
        judge=judge, role="detector", kind=kind, ground_truth="200 rendered images", measured=tables, made=made
    )


def table(counts=((900, 100), (200, 800)), labels=(NO, YES), protocol="revised", task="accuracy", **group) -> Measured:
    return Measured(task=task, protocol=protocol, labels=labels, counts=counts, group=group)


def answers(yes: int, n: int = 100) -> list[str]:
    return [YES] * yes + [NO] * (n - yes)


# ----------------------------------------------------------------------------------------------------------- by people
def test_a_bias_is_taken_out_as_the_formula_says():
    # 100 images, each its own prompt; the judge calls 60 right. People see 40: 20 that the judge called right, of
    # which they find 10 right, and 20 that it called wrong, all wrong. Labels alone: 10 / 40 = 0.25. The judge's mean
    # is 0.6 of all and 0.5 of those seen, so the adjusted value is 0.25 + trust * (0.6 - 0.5).
    answer = answers(60)
    seen = {f"a{i}": YES if i < 10 else NO for i in [*range(20), *range(60, 80)]}
    [made] = adjust_by_labels([estimand(part(answer), score=score(0.6))], lambda *_: seen)
    assert made.labels_only[0] == pytest.approx(0.25)
    assert made.score.value == pytest.approx(0.25 + made.trust * 0.1)
    assert 0 < made.trust < 1
    assert made.score.ci_low < 0.25 < made.score.ci_high < 0.6  # the judge's 0.6 is beyond doubt wrong
    assert (made.n_labels, made.score.adjusted, made.method) == (40, "human", "prediction-powered")
    assert made.effective_n > 40
    assert made.judged.value == 0.6
    assert (made.score.metric, made.score.protocol, made.score.n_used) == ("accuracy", "revised", 100)


def test_all_labelled_is_the_mean_of_people_whatever_the_judge_says():
    truth = {f"a{i}": YES if i < 7 else NO for i in range(20)}
    [made] = adjust_by_labels([estimand(part([YES] * 20))], lambda *_: truth, kind="rendered")
    assert made.score.value == pytest.approx(0.35)
    assert made.score.adjusted == "rendered"
    assert made.source == "the ground truth of this run's generator"


def test_a_mean_of_absolute_values_lies_between_the_ends_of_all_its_terms():
    # The judge calls 60 and 20 of 100 right in the first pair, 30 and 50 in the second; its errors are 0.1 and 0.2, so
    # shares are (x - 0.1) / 0.7 and differences 0.4 / 0.7 and -0.2 / 0.7: their mean absolute value is 0.3 / 0.7.
    parts = [
        part(answers(yes), name=name, coefficient=sign)
        for yes, name, sign in ((60, "a", 1.0), (20, "b", -1.0), (30, "c", 1.0), (50, "d", -1.0))
    ]
    whole = replace(estimand(*parts, score=score(0.3)), terms=((0, 1), (2, 3)))
    [made] = adjust_by_cards([whole], [card(table())], JUDGES)
    assert made.score.value == pytest.approx(0.3 / 0.7, abs=0.005)
    apart = [estimand(*parts[:2], score=score(0.4)), estimand(*parts[2:], score=score(-0.2))]
    first, second = (a.score for a in adjust_by_cards(apart, [card(table())], JUDGES))
    # Wider than the 95 % ends of either: both must hold at once.
    assert made.score.ci_low < (first.ci_low + max(0.0, -second.ci_high)) / 2
    assert made.score.ci_high > (first.ci_high - second.ci_low) / 2
    assert 0 <= made.score.ci_low < made.score.ci_high <= 1
    assert "at once" in made.note
    signs = {
        f"{n}{i}": YES if i < k else NO for n, k in (("a", 50), ("b", 30), ("c", 20), ("d", 80)) for i in range(100)
    }
    [labelled] = adjust_by_labels([whole], lambda *_: signs)
    assert labelled.score.value == pytest.approx((0.2 + 0.6) / 2)
    few = {name: label for name, label in signs.items() if name[0] != "d"}
    assert adjust_by_labels([whole], lambda *_: few) == []  # a group without any label


@pytest.mark.parametrize("true", [(0.3, 0.3), (0.5, 0.2)], ids=["no difference", "a difference"])
def test_ends_of_a_mean_of_absolute_values_hold_it(true):
    rng = np.random.default_rng(8)
    held = []
    for _ in range(60):
        counts = ((100 - (x := int(rng.binomial(100, 0.1))), x), (y := int(rng.binomial(100, 0.15)), 100 - y))
        parts = []
        for term in range(4):
            for group, share in enumerate(true):
                shown = rng.random(40) < share
                said = np.where(shown, rng.random(40) > 0.15, rng.random(40) < 0.1)
                parts.append(
                    part([YES if s else NO for s in said], name=f"{term}-{group}-", coefficient=1 - 2.0 * group)
                )
        whole = replace(estimand(*parts), terms=tuple((2 * k, 2 * k + 1) for k in range(4)))
        [made] = adjust_by_cards([whole], [card(table(counts))], JUDGES)
        held.append(made.score.ci_low - 1e-9 <= abs(true[0] - true[1]) <= made.score.ci_high + 1e-9)
    assert np.mean(held) >= 0.95


def test_a_small_group_is_adjusted_by_cards_and_by_enough_labels_only():
    small = replace(estimand(part(answers(12, 20))), small=True)
    assert adjust_by_cards([small], [card(table())], JUDGES)
    assert adjust_by_labels([small], lambda *_: {f"a{i}": YES for i in range(8)}) == []
    assert adjust_by_labels([small], lambda *_: {f"a{i}": YES for i in range(9)})


def test_weights_count():
    # Two prompts of one and three images, each prompt half of the value: 0.5 * 1 + 0.5 * (1 + 0 + 0) / 3 = 2 / 3.
    one = part([NO] * 4, clusters=("p", "q", "q", "q"), weights=(1 / 2, 1 / 6, 1 / 6, 1 / 6))
    truth = {"a0": YES, "a1": YES, "a2": NO, "a3": NO}
    [made] = adjust_by_labels([estimand(one)], lambda *_: truth)
    assert made.score.value == pytest.approx(2 / 3)


def test_a_difference_takes_each_parts_truth_by_its_own_key():
    truths = {"a": {f"a{i}": YES if i < 15 else NO for i in range(20)}, "b": {f"b{i}": NO for i in range(20)}}
    asked = []

    def classes(rule, key):
        asked.append((rule, dict(key)))
        return truths[key["skill"]]

    parts = (part([NO] * 20, skill="a"), part([YES] * 20, name="b", coefficient=-1.0, skill="b"))
    [made] = adjust_by_labels([estimand(*parts), estimand(*parts)][:1], classes)
    assert made.score.value == pytest.approx(0.75 - 0.0)
    assert made.score.ci_high <= 1.0
    assert asked == [("accuracy", {"skill": "a"}), ("accuracy", {"skill": "b"})]


def test_images_of_one_prompt_are_not_independent():
    answers = [YES] * 60
    truth = {f"a{i}": YES if i % 12 < 6 else NO for i in range(60)}
    alone = adjust_by_labels([estimand(part(answers))], lambda *_: truth)[0].score
    prompts = [f"p{i // 6}" for i in range(60)]  # six images each, which agree completely
    together = adjust_by_labels([estimand(part(answers, clusters=prompts))], lambda *_: truth)[0].score
    assert together.value == alone.value == 0.5
    assert together.ci_high - together.ci_low > 1.5 * (alone.ci_high - alone.ci_low)


def test_what_nobody_was_asked_about_is_left_out():
    assert adjust_by_labels([estimand(part([YES] * 4))], lambda *_: {}) == []
    # An answer that is no class of the estimand is no answer.
    assert adjust_by_labels([estimand(part([YES] * 4))], lambda *_: {"a0": "cannot tell"}) == []


def test_one_label_gives_no_interval_but_says_why():
    [made] = adjust_by_labels([estimand(part([YES] * 4))], lambda *_: {"a0": YES})
    assert math.isnan(made.score.ci_low)
    assert made.note
    assert made.record()["ci_low"] is None


# ------------------------------------------------------------------------------------------------------------ by cards
def test_the_share_behind_an_error_table_by_hand():
    # Of wrong images 10 % are called right, of right ones 80 %. 45 % called right: (0.45 - 0.1) / (0.8 - 0.1) = 0.5.
    [made] = adjust_by_cards([estimand(part(answers(45)), score=score(0.45))], [card(table())], JUDGES)
    assert made.score.value == pytest.approx(0.5, abs=1e-6)
    assert made.score.ci_low < 0.45
    assert made.score.ci_high < 0.7
    assert (made.score.adjusted, made.method, made.source) == ("rendered", "judge card", "200 rendered images")
    assert made.n_labels == 2000
    record = made.record()
    assert record["effective_n"] is None
    assert record["trust"] is None
    assert record["judged"] == 0.45


def test_lost_items_of_a_card_count():
    # No errors, but half of the right ones are lost: 45 of 100 usable ones stand for 90, with 55: 90 / 145.
    lossy = replace(table(counts=((1000, 0), (0, 500))), unusable=(0, 500))
    [made] = adjust_by_cards([estimand(part(answers(45)))], [card(lossy)], JUDGES)
    assert made.score.value == pytest.approx(90 / 145, abs=1e-6)
    assert made.score.ci_low < 0.6 < made.score.ci_high


def test_images_count_as_many_as_they_are():
    # A judge known almost exactly: 1.96 * sqrt(0.45 * 0.55 / 100) / 0.7 = 0.14 on either side.
    exact = card(table(counts=((90_000, 10_000), (20_000, 80_000))))
    [made] = adjust_by_cards([estimand(part(answers(45)))], [exact], JUDGES)
    assert (made.score.ci_high - made.score.ci_low) / 2 == pytest.approx(0.139, rel=0.12)
    # Half of the weight on the 20 first images, all called right: 0.5 + 0.5 * 25 / 80 of the weight is.
    heavy = part(answers(45), weights=[0.5 / 20] * 20 + [0.5 / 80] * 80)
    [made] = adjust_by_cards([estimand(heavy)], [exact], JUDGES)
    assert made.score.value == pytest.approx((0.5 + 0.5 * 25 / 80 - 0.1) / 0.7, abs=1e-4)


def test_the_order_of_a_cards_classes_does_not_matter():
    turned = card(table(counts=((800, 200), (100, 900)), labels=(YES, NO)))
    one = estimand(part(answers(45)))
    [made] = adjust_by_cards([one], [turned], JUDGES)
    assert made.score.value == pytest.approx(0.5, abs=1e-6)


def test_a_difference_of_two_parts():
    # (0.45 - 0.1) / 0.7 - (0.38 - 0.1) / 0.7 = 0.5 - 0.4; halves of the intervals add in squares.
    a, b = part(answers(45), group="a"), part(answers(38), name="b", coefficient=-1.0, group="b")
    tables = card(table(group="a"), table(group="b"))
    [both] = adjust_by_cards([estimand(a, b)], [tables], JUDGES)
    [first] = adjust_by_cards([estimand(a)], [tables], JUDGES)
    [second] = adjust_by_cards([estimand(part(answers(38), name="b", group="b"))], [tables], JUDGES)
    assert both.score.value == pytest.approx(0.1, abs=1e-6)
    low = 0.1 - math.hypot(0.5 - first.score.ci_low, second.score.ci_high - 0.4)
    high = 0.1 + math.hypot(first.score.ci_high - 0.5, 0.4 - second.score.ci_low)
    assert (both.score.ci_low, both.score.ci_high) == pytest.approx((low, high), abs=1e-5)
    assert both.n_labels == 4000


@pytest.mark.parametrize(("yes", "expected"), [(5, 0.0), (85, 1.0)])
def test_no_value_leaves_its_bounds(yes, expected):
    # Fewer called right than a judge that errs in 10 % would call anyway: a share of 0, not below.
    [made] = adjust_by_cards([estimand(part(answers(yes)))], [card(table())], JUDGES)
    assert made.score.value == pytest.approx(expected, abs=1e-6)
    assert 0 <= made.score.ci_low <= made.score.ci_high <= 1


def test_worths_beyond_shares_keep_their_bounds():
    scale = estimand(part(["1"] * 20), worth={"1": 1.0, "10": 10.0}, rule="tone")
    [made] = adjust_by_cards([scale], [card(table(labels=("1", "10"), task="tone"))], JUDGES)
    assert made.score.value == pytest.approx(1.0, abs=1e-5)
    assert made.score.ci_low >= 1.0


def test_a_card_speaks_for_its_judge_protocol_key_and_kind_alone():
    one = [estimand(part(answers(45), skill="count"))]
    assert adjust_by_cards(one, [], JUDGES) == []
    assert adjust_by_cards(one, [card(table())], JUDGES) == []  # of another key
    assert adjust_by_cards(one, [card(table(skill="count"), judge="judge@2")], JUDGES) == []
    assert adjust_by_cards(one, [card(table(skill="count", protocol="paper"))], JUDGES) == []
    assert adjust_by_cards(one, [card(table(skill="count"))], JUDGES, kind="human") == []
    assert adjust_by_cards(one, [card(table(skill="count"))], {}) == []
    assert len(adjust_by_cards(one, [card(table(skill="count"))], JUDGES)) == 1


def test_one_missing_table_is_enough_to_leave_a_sum_out():
    parts = (part(answers(45), skill="a"), part(answers(45), name="b", skill="b"))
    assert adjust_by_cards([estimand(*parts)], [card(table(skill="a"))], JUDGES) == []


def test_classes_that_a_card_does_not_know_give_no_value_but_a_reason():
    renamed = card(table(labels=("bad", "good")))
    [made] = adjust_by_cards([estimand(part(answers(45)))], [renamed], JUDGES)
    assert math.isnan(made.score.value)
    assert math.isnan(made.score.ci_low)
    assert "'right'" in made.note
    wider = card(table(counts=((9, 1, 0), (2, 8, 0), (0, 0, 5)), labels=(NO, YES, "neither")))
    [made] = adjust_by_cards([estimand(part(answers(45)))], [wider], JUDGES)
    assert math.isnan(made.score.value)
    assert "'neither'" in made.note


def test_a_judge_no_better_than_chance_tells_nothing():
    [made] = adjust_by_cards([estimand(part(answers(45)))], [card(table(counts=((50, 50), (50, 50))))], JUDGES)
    assert math.isnan(made.score.value)
    assert made.note


def test_prompts_with_several_images_widen_the_interval():
    prompts = [f"p{i // 10}" for i in range(100)]
    answers = [YES if (i // 10) % 2 else NO for i in range(100)]
    [alone] = adjust_by_cards([estimand(part(answers))], [card(table())], JUDGES)
    [together] = adjust_by_cards([estimand(part(answers, clusters=prompts))], [card(table())], JUDGES)
    assert together.score.value == pytest.approx(alone.score.value, abs=1e-6)
    width = [s.score.ci_high - s.score.ci_low for s in (alone, together)]
    assert width[1] > 1.5 * width[0]


def test_a_card_made_by_other_rules_gives_no_value():
    made_at = card(table(), rules={"threshold_revised": 0.35, "threshold_paper": 0.8})
    one = [estimand(part(answers(45)))]
    declared = [Rule(f"threshold_{p}", float, 0.5, protocol=p, help="") for p in ("revised", "paper")]
    for rules in ({}, {"threshold_revised": 0.35}, {"threshold_revised": 0.35, "threshold_paper": 0.1}):
        [made] = adjust_by_cards(one, [made_at], JUDGES, rules=rules, declared=declared)
        assert made.score.value == pytest.approx(0.5, abs=1e-6), rules  # the paper's limit concerns the paper's alone
    [made] = adjust_by_cards(one, [made_at], JUDGES, rules={"threshold_revised": 0.7}, declared=declared)
    assert math.isnan(made.score.value)
    assert "threshold_revised=0.35" in made.note
    assert "0.7" in made.note


def test_the_first_card_that_fits_counts():
    sharp = card(table(counts=((1000, 0), (0, 1000))))
    [made] = adjust_by_cards([estimand(part(answers(45)))], [sharp, card(table())], JUDGES)
    assert made.score.value == pytest.approx(0.45, abs=1e-6)


# ----------------------------------------------------------------------------------------------------------- saturation
def saturated(value: float, *tables: Measured) -> str:
    judged = estimand(part(answers(round(100 * value))), score=score(value))
    [made] = adjust_by_cards([judged], [card(*tables)], JUDGES)
    return made.note


def test_share_above_what_the_judge_can_tell_is_said_to_be_saturated():
    assert "saturated: the judge calls 85.0% right" in saturated(0.85, table())
    assert "it would call 80.0% right" in saturated(0.85, table())
    assert "saturated" not in saturated(0.75, table())


def test_judge_that_recognises_every_right_image_never_saturates():
    assert "saturated" not in saturated(1.0, table(counts=((90, 10), (0, 100))))
