"""Statistics of the bench, against values worked by hand and against what was planted."""

import math
from dataclasses import replace

import numpy as np
import pytest

from verism.judge_bench.board import CALIBRATED_FROM, Judged, make_board, task_result, unequal_groups
from verism.judge_bench.items import BenchItem, task_words
from verism.judge_bench.words import answers, bench_markdown, bench_record, bench_text
from verism.statistics import calibration_error, wilson


def item(number, true, predicted, *, pair=None, task="count", score=None, groups=None, disturbance=""):
    return BenchItem(
        suite="s",
        task=task,
        disturbance=disturbance,
        item=f"{number} {true}",
        pair=str(number) if pair is None else pair,
        labels=("wrong", "right"),
        true=true,
        predicted=predicted,
        score=score,
        groups=groups or {},
    )


def one_each(n, *, missed=0, accepted=0, silent=0):
    """n right and n wrong items, each a pair of its own; of the right ones some are missed, others without answer."""
    right = [item(k, "right", "wrong" if k < missed else None if k < missed + silent else "right") for k in range(n)]
    return right + [item(n + k, "wrong", "right" if k < accepted else "wrong") for k in range(n)]


def test_rates_are_of_usable_items_and_the_rest_is_counted():
    # 50 right items: 3 missed, 10 unusable, 37 found. 50 wrong ones: 4 accepted.
    result = task_result("j", one_each(50, missed=3, accepted=4, silent=10))
    assert (result.n_items, result.n_unusable, result.n_pairs) == (100, 10, 100)
    assert result.sensitivity == pytest.approx(wilson(37, 40))
    assert result.specificity == pytest.approx(wilson(46, 50))
    assert result.right == pytest.approx(wilson(83, 100))  # what says nothing usable is not right
    assert result.usable == pytest.approx(wilson(90, 100))


def test_items_of_a_pair_are_one_unit():
    alone = task_result("j", one_each(40, missed=10, accepted=10))
    items = [
        item(k, true, predicted, pair=str(k))
        for k in range(40)
        for true, predicted in (("right", "wrong" if k < 10 else "right"), ("wrong", "right" if k < 10 else "wrong"))
    ]
    together = task_result("j", items)
    assert together.right.value == alone.right.value == 0.75
    assert together.right.high - together.right.low > 1.2 * (alone.right.high - alone.right.low)


def test_area_under_the_curve_counts_pairs_of_items():
    # Scores of right items 0.9, 0.6, 0.3; of wrong ones 0.5, 0.3: of 6 comparisons 4 are won and 1 is a tie.
    rows = [("right", 0.9), ("right", 0.6), ("right", 0.3), ("wrong", 0.5), ("wrong", 0.3)]
    result = task_result("j", [item(k, true, "right", score=s) for k, (true, s) in enumerate(rows)])
    assert result.auc.value == pytest.approx(4.5 / 6)
    assert math.isnan(result.calibration)  # too few items for one


def test_numbers_of_the_items_with_a_score_say_how_many_these_are():
    items = one_each(30)
    some = [replace(i, score=float(i.true == "right")) if n % 3 == 0 else i for n, i in enumerate(items)]
    board = make_board("vqa", "rendered:0", [Judged(given="j", name="j@1", items=tuple(some))])
    assert board.tasks[0].n_scored == 20
    assert "1.000 (20 of 60)" in bench_text(board)
    assert "1.000 (20 of 60)" in bench_markdown(board)
    whole = make_board("vqa", "rendered:0", [Judged(given="j", name="j@1", items=tuple(some[::3]))])
    assert "(20 of" not in bench_text(whole)


def test_calibration_error_is_the_mean_distance_of_bins():
    # Two bins of five: mean 0.2 beside 2 of 5 true, mean 0.8 beside 3 of 5: 0.2 each.
    probabilities, outcomes = [0.2] * 5 + [0.8] * 5, [1, 1, 0, 0, 0, 1, 1, 1, 0, 0]
    assert calibration_error(probabilities, outcomes, bins=2) == pytest.approx(0.2)
    order = np.random.default_rng(0).permutation(10)
    assert calibration_error(np.array(probabilities)[order], np.array(outcomes)[order], bins=2) == pytest.approx(0.2)
    assert math.isnan(calibration_error([], []))
    with pytest.raises(ValueError, match=r"lie in \[0, 1\]"):
        calibration_error([1.5], [1])


def test_a_calibrated_judge_has_a_small_calibration_error_and_an_overconfident_one_a_large():
    rng = np.random.default_rng(3)
    p = rng.random(4_000)
    true = rng.random(4_000) < p
    assert calibration_error(p, true) < 0.03
    assert calibration_error(np.where(p > 0.5, 0.99, 0.01), true) > 0.2
    few = [item(k, "right" if t else "wrong", "right", score=float(s)) for k, (s, t) in enumerate(zip(p, true))]
    assert task_result("j", few[:CALIBRATED_FROM]).calibration > 0


def test_classes_that_are_numbers_get_means_over_classes_and_the_share_within_one_step():
    said = {"1": ["1", "1", "2", "3"], "2": ["2", "2", "2", "2"], "3": ["3", None, "2", "1"]}
    items = [
        BenchItem(suite="s", task="tone", item=f"{t}{k}", pair=f"{t}{k}", labels=("1", "2", "3"), true=t, predicted=p)
        for t, predicted in said.items()
        for k, p in enumerate(predicted)
    ]
    result = task_result("j", items)
    assert result.sensitivity.value == pytest.approx((2 / 4 + 4 / 4 + 1 / 3) / 3)
    # Not claimed: 1 by 6 of the 7 others, 2 by 5 of 7, 3 by 7 of 8.
    assert result.specificity.value == pytest.approx((6 / 7 + 5 / 7 + 7 / 8) / 3)
    assert result.within_one == pytest.approx(9 / 11)


@pytest.mark.parametrize(
    ("items", "trust"),
    [
        pytest.param(one_each(100), "trusted", id="no error in 200"),
        pytest.param(one_each(10), "open", id="no error in 20"),
        pytest.param(one_each(100, missed=30), "correctable", id="misses 30 %"),
        pytest.param(one_each(100, missed=50, accepted=50), "not trusted", id="guesses"),
        pytest.param(one_each(100, silent=60), "correctable", id="silent about 30 %"),
        pytest.param([item(k, "right", None) for k in range(50)], "not trusted", id="says nothing"),
    ],
)
def test_whether_a_judge_can_be_trusted_follows_from_the_intervals(items, trust):
    assert task_result("j", items).trust == trust


def judged(name, items):
    return Judged(given=name, name=f"{name}@1", items=tuple(items))


def test_two_judges_are_tested_on_the_same_items():
    better, worse = one_each(60), one_each(60, missed=12)
    board = make_board("detector", "rendered:1", [judged("worse", worse), judged("better", better)])
    (test,) = board.judge_tests
    assert (test.a, test.b, test.n_items) == ("worse", "better", 120)
    assert test.difference == pytest.approx(0.1)
    assert test.p_value == pytest.approx(2 * 0.5**12)  # exact McNemar: 12 of 12 discordant items
    assert test.low > 0
    assert any("better is correct more often than worse" in line for line in answers(board))


def test_a_judge_that_answers_nothing_is_not_measured():
    dead = [item(k, "right", None) for k in range(60)]
    board = make_board("vqa", "rendered:1", [judged("good", one_each(60)), judged("dead", dead)])
    assert board.judge_tests == ()
    assert answers(board)[-1] == "dead gives no usable answer to any of 60 items, so nothing is said of it."
    assert not any("dead" in line for line in answers(board)[:-1])


def test_p_values_of_judges_are_adjusted_together():
    def of(errors):
        return [i for n, e in enumerate(errors) for i in (item(k, "right", "wrong" if k < e else "right", task=f"t{n}")
                for k in range(40))]  # fmt: skip

    board = make_board("detector", "x", [judged("a", of([6, 6])), judged("b", of([0, 0]))])
    assert [t.p_value for t in board.judge_tests] == pytest.approx([2 * 0.5**6] * 2)
    assert [t.p_adjusted for t in board.judge_tests] == pytest.approx([4 * 0.5**6] * 2)  # Holm: twice the smallest


def grouped(rates, n=60, task="count"):
    return [
        item(f"{group}{k}", "right", "right" if k < round(rate * n) else "wrong", task=task, groups={"tone": group})
        for group, rate in rates.items()
        for k in range(n)
    ]


def test_a_judge_that_is_worse_for_a_group_is_found():
    board = make_board("skin_tone", "x", [judged("a", grouped({"1": 0.95, "5": 0.95, "10": 0.6}))])
    (test,) = board.group_tests
    assert (test.facet, test.worst) == ("tone", "10")
    assert test.p_adjusted < 0.01
    assert [g.value for g in board.groups] == ["1", "5", "10"]
    assert any("not equally accurate for every tone" in line for line in answers(board))


def test_p_values_of_equal_groups_are_not_too_small():
    rng = np.random.default_rng(11)
    found = []
    for trial in range(200):
        items = [
            item(k, "right", "right" if rng.random() < 0.8 else "wrong", groups={"g": "abc"[k % 3]}) for k in range(90)
        ]
        found.append(unequal_groups(items, "g", n_permutations=99, seed=trial))
    assert 0.01 <= np.mean(np.array(found) <= 0.05) <= 0.10
    assert 0.45 <= np.mean(found) <= 0.65  # ties, of which there are many, count as beyond


def test_the_difficulty_of_tasks_is_no_difference_of_groups():
    # Group b is mostly asked the hard task; within each task the groups are alike.
    def part(group, task, n, rate):
        return [
            item(f"{group}{task}{k}", "right", "right" if k < rate * n else "wrong", task=task, groups={"g": group})
            for k in range(n)
        ]

    items = part("a", "easy", 90, 0.9) + part("a", "hard", 10, 0.4)
    items += part("b", "easy", 10, 0.9) + part("b", "hard", 90, 0.4)
    assert unequal_groups(items, "g") > 0.5


def test_pairs_move_together_in_tests_of_groups():
    # 20 units of two equal items each are 20 coins, not 40.
    units = [(k, "right" if k % 10 < (7 if k < 10 else 3) else "wrong", "a" if k < 10 else "b") for k in range(20)]
    twice = [item(f"{k}-{n}", "right", said, pair=str(k), groups={"g": g}) for k, said, g in units for n in (0, 1)]
    once = [item(k, "right", said, groups={"g": g}) for k, said, g in units]
    assert unequal_groups(twice, "g") == pytest.approx(unequal_groups(once, "g"), abs=0.03)


def test_words_say_first_what_can_be_trusted_and_count_what_is_unusable():
    board = make_board(
        "detector", "rendered:7", [judged("j", [*one_each(100), item("x", "right", None, task="color")])]
    )
    text = bench_text(board)
    assert answers(board)[:2] == ["j can be trusted with count.", "j cannot be trusted with color."]
    assert text.index("can be trusted") < text.index("sensitivity  ")
    assert "gives no usable answer for 1 of 201 items" in text
    assert bench_markdown(board).startswith("* j can be trusted with count")
    record = bench_record(board)
    assert record["tasks"][0]["sensitivity"]["value"] == 1.0
    assert record["tasks"][1]["sensitivity"]["value"] is None  # undefined, and no 0


def test_tasks_are_called_by_their_key():
    assert task_words("tone", {}, ("1", "2")) == "tone"
    assert task_words("accuracy", {"skill": "count"}, ("wrong", "right")) == "count"
