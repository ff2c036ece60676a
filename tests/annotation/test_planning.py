"""How many answers are needed, worked by hand: from a pilot, from a card, from nothing, and more than there are."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from annotation_runs import PlainSuite
from scipy.special import ndtri

from verism.annotation.planning import PILOT, plan_labels
from verism.annotation.ratings import Ratings
from verism.cards import JudgeCard, Measured
from verism.records import Estimand, EstimandPart, Prompt, RatingTask, Score, frame

TASK = RatingTask(name="t", question="?", kind="choice", options=("yes", "no"), rule="seen")
Z2 = float(ndtri(0.975)) ** 2


def part(said, *, coefficient=1.0, start=0, per_prompt=1):
    n = len(said)
    return EstimandPart(
        coefficient=coefficient,
        image_ids=tuple(f"i{start + i}" for i in range(n)),
        clusters=tuple(f"p{(start + i) // per_prompt}" for i in range(n)),
        predicted=tuple(said),
        weights=(1 / n,) * n,
    )


def estimand(*parts, protocol="revised", **group):
    score = Score(
        suite="s",
        metric="share",
        protocol=protocol,
        value=0.5,
        ci_low=0,
        ci_high=1,
        n_used=1,
        n_unusable=0,
        group=group,
    )
    return Estimand(score=score, rule="seen", role="vqa", worth={"yes": 1.0, "no": 0.0}, parts=parts)


def plan(estimands, *, answers=None, cards=(), half_width=0.05, n=4_000, judge="judge@1"):
    images = frame("images", [{"image_id": f"i{i}", "prompt_id": "p"} for i in range(n)])
    run = SimpleNamespace(
        prompts=lambda: [Prompt(prompt_id="p", suite="s", text="")],
        read=lambda _: images,
        prompts_of=lambda ids: dict.fromkeys(ids, "p"),
    )
    rows = [{"item": i, "task": "t", "rater": "A", "answer": a} for i, a in (answers or {}).items()]
    ratings = Ratings(table=frame("ratings", rows), tasks={"t": TASK})
    return plan_labels(
        run,
        PlainSuite(*estimands),
        None,
        None,
        half_width=half_width,
        ratings=ratings,
        cards=cards,
        judges={"vqa": judge},
    )


def card(counts, *, judge="judge@1", labels=("no", "yes")):
    measured = Measured(task="seen", protocol="revised", labels=labels, counts=counts, unusable=(0, 0))
    return JudgeCard(judge=judge, role="vqa", kind="human", ground_truth="people", measured=(measured,))


def half(n=4_000):
    return ["yes", "no"] * (n // 2)


# A share of one half: variance 1/4 (two answers that are added at the ends leave it there); 0.25 z^2 / 0.05^2 = 384.15.
def test_without_a_word_on_the_judge_it_helps_nothing():
    (result,) = plan([estimand(part(half()))])
    assert result.alone == result.with_judge == math.ceil(0.25 * Z2 / 0.05**2) == 385
    assert (result.basis, result.correlation, result.n_labels, result.n_images) == ("none", 0.0, 0, 4_000)


def test_a_card_tells_how_much_the_judge_is_worth():
    # 45 of 50 right on both sides: correlation 0.8. Needed: 0.25 (1 - 0.64) / (0.05^2 / z^2 - 0.25 * 0.64 / 4000).
    (result,) = plan([estimand(part(half()))], cards=[card(((45, 5), (5, 45)))])
    assert result.basis == "card"
    assert result.correlation == pytest.approx(0.8)
    assert result.with_judge == math.ceil(0.25 * 0.36 / (0.05**2 / Z2 - 0.25 * 0.64 / 4000))
    assert result.with_judge < result.alone == 385


@pytest.mark.parametrize(
    "useless",
    [card(((45, 5), (5, 45)), judge="another"), card(((25, 25), (25, 25))), card(((50, 0), (50, 0)))],
)
def test_a_card_of_another_judge_or_of_one_that_guesses_saves_nothing(useless):
    (result,) = plan([estimand(part(half()))], cards=[useless])
    assert result.with_judge == result.alone


def test_a_card_of_other_classes_saves_nothing():
    (result,) = plan([estimand(part(half()))], cards=[card(((45, 5), (5, 45)), labels=("cat", "dog"))])
    assert result.correlation == 0.0


def test_a_pilot_counts_more_than_a_card():
    # 20 answers; the judge is right on 8 of 10 in both classes: correlation 0.6.
    answers = {f"i{i}": ("yes", "no")[i % 2 if i < 16 else 1 - i % 2] for i in range(PILOT)}
    (result,) = plan([estimand(part(half()))], answers=answers, cards=[card(((45, 5), (5, 45)))])
    assert (result.basis, result.n_labels) == ("pilot", PILOT)
    assert result.correlation == pytest.approx(0.6)
    fewer = dict(list(answers.items())[: PILOT - 1])
    (result,) = plan([estimand(part(half()))], answers=fewer, cards=[card(((45, 5), (5, 45)))])
    assert (result.basis, result.n_labels) == ("card", PILOT - 1)


def test_a_pilot_tells_how_much_answers_vary():
    # The judge says yes to half, people to 2 of 20; with one more at either end 3 of 22: variance 3/22 * 19/22 = 0.118.
    answers = {f"i{i}": "yes" if i in (0, 1) else "no" for i in range(PILOT)}
    (result,) = plan([estimand(part(half()))], answers=answers)
    assert result.alone == math.ceil(3 / 22 * 19 / 22 * Z2 / 0.05**2) == 181


def test_a_pilot_in_which_nothing_varies_says_nothing_good():
    answers = {f"i{i}": "yes" for i in range(PILOT)}
    (result,) = plan([estimand(part(half()))], answers=answers)
    assert (result.basis, result.correlation) == ("pilot", 0.0)


def test_more_than_there_are_images_is_said():
    (result,) = plan([estimand(part(half(100)))], n=100)
    assert result.alone is None
    assert result.with_judge is None
    (result,) = plan([estimand(part(half(100)))], n=100, half_width=0.2)
    assert result.alone == math.ceil(0.25 * Z2 / 0.2**2) == 25


def test_a_difference_needs_both_groups_and_knows_their_sizes():
    # Two groups of 1,000: variance 1/4 + 1/4 for n / 2 answers each, as of one mean of variance 1: 4 times as many.
    full = estimand(part(half(2_000)))
    pair = estimand(part(half(1_000)), part(half(1_000), coefficient=-1.0, start=1_000))
    one, two = plan([full, pair], half_width=0.1)
    assert two.n_images == 2_000
    assert one.alone == math.ceil(0.25 * Z2 / 0.01) == 97
    assert two.alone == math.ceil(1.0 * Z2 / 0.01) == 385


def test_images_of_a_prompt_that_are_all_alike_count_as_one():
    # 1,000 prompts of four equal answers: a design effect of 4 (times 1000/999).
    alike = [a for a in half(1_000) for _ in range(4)]
    (result,) = plan([estimand(part(alike, per_prompt=4))])
    assert result.alone == pytest.approx(4 * 384.15 * 1000 / 999, abs=1.5)


def test_a_judge_who_always_says_the_same_may_be_wrong():
    # All yes: as if two more answers said yes and no. Variance of 99 and 1 of 100: 0.0099.
    (result,) = plan([estimand(part(["yes"] * 98))], n=98, half_width=0.05)
    assert result.alone == math.ceil(0.0099 * Z2 / 0.05**2)


def test_only_the_asked_protocol_and_the_group_is_kept():
    result = plan([estimand(part(half()), protocol="released"), estimand(part(half()), skill="count")])
    assert [(p.protocol, p.group) for p in result] == [("revised", {"skill": "count"})]
