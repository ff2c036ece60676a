import doctest
import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verism.metrics import questions
from verism.metrics.questions import check_parents, dsg_score, question_values, share_right, tifa_score

CHAIN = {2: [1], 3: [2]}  # 3 depends on 2, 2 on 1


# Counted by hand. `parents`: a child is judged by its parent's own answer (DSG reference code); `cascade`: a child
# zeroed for its parent's sake zeroes its own children (EvalGIM).
@pytest.mark.parametrize(
    ("answers", "parents", "cascade"),
    [
        pytest.param({1: "yes", 2: "yes", 3: "yes"}, 1.0, 1.0, id="all yes"),
        # parents: 1 wrong, 2 wrong for 1's sake, 3 stands as 2 was answered yes: 1/3. cascade: 3 falls with 2.
        pytest.param({1: "no", 2: "yes", 3: "yes"}, 1 / 3, 0.0, id="grandchild"),
        # 2 no, 3 falls with it, 1 stands: 1/3 both.
        pytest.param({1: "yes", 2: "no", 3: "yes"}, 1 / 3, 1 / 3, id="child"),
        pytest.param({1: "no", 2: "no", 3: "no"}, 0.0, 0.0, id="all no"),
    ],
)
def test_a_question_counts_only_if_what_it_depends_on_is_there(answers, parents, cascade):
    assert dsg_score(answers, CHAIN).value == pytest.approx(parents)
    assert dsg_score(answers, CHAIN, dependence="cascade").value == pytest.approx(cascade)


def test_cascade_follows_the_order_of_the_questions():
    # Listed child first: when 3 is looked at, 2 still has its own answer, yes. Then 1 no -> 2 falls: 1 of 3 stands.
    assert dsg_score({3: "yes", 2: "yes", 1: "no"}, CHAIN, dependence="cascade").value == pytest.approx(1 / 3)


def test_an_unusable_answer_is_not_a_wrong_one():
    # 1 unusable; 2 answered yes but hangs on 1: unusable; 3 stands on 2's yes: 1 of 1.
    assert dsg_score({1: None, 2: "yes", 3: "yes"}, CHAIN) == (1.0, 1, 2)
    # 2 answered no is wrong whatever 1 is; 3 falls with it: 0 of 2.
    assert dsg_score({1: None, 2: "no", 3: "yes"}, CHAIN) == (0.0, 2, 1)
    # 2 unusable below a wrong 1 is wrong, as it would be whatever the answer; 3 hangs on 2: 0 of 2.
    assert dsg_score({1: "no", 2: None, 3: "yes"}, CHAIN) == (0.0, 2, 1)


def test_no_usable_answer_is_undefined():
    score = dsg_score({1: None})
    assert math.isnan(score.value)
    assert score[1:] == (0, 1)
    assert math.isnan(share_right([]).value)


def test_several_parents_must_all_be_right():
    parents = {"c": ["a", "b"]}
    for a, b, c in itertools.product([True, False, None], repeat=3):
        value = question_values({"a": a, "b": b, "c": c}, parents)["c"]
        # By enumeration: fill each unknown in both ways; the value is known if all fillings agree.
        fillings = itertools.product(*([x] if x is not None else [True, False] for x in (a, b, c)))
        outcomes = {all(filling) for filling in fillings}
        assert value == (outcomes.pop() if len(outcomes) == 1 else None)


def test_choices_by_hand():
    # 2 of 3 right, one reply outside its choices.
    answers = {1: "brown", 2: "yes", 3: "two", 4: None}
    expected = {1: "brown", 2: "yes", 3: "three", 4: "no"}
    assert tifa_score(answers, expected) == (pytest.approx(2 / 3), 3, 1)


@given(st.dictionaries(st.integers(0, 20), st.sampled_from([True, False, None]), min_size=1), st.data())
def test_properties(right, data):
    ids = sorted(right)
    parents = {
        child: data.draw(st.lists(st.sampled_from(ids[:i]), max_size=2, unique=True))
        for i, child in enumerate(ids)
        if i
    }
    alone = question_values(right, parents, dependence="none")
    by_parents = question_values(right, parents)
    cascade = question_values(dict(sorted(right.items())), parents, dependence="cascade")
    assert alone == right
    for q in ids:
        # Dependencies never make anything right, and cascading takes away only more.
        assert by_parents[q] is not True or right[q] is True
        assert cascade[q] is not True or by_parents[q] is True
    # The order of questions matters to `cascade` alone; names matter to none.
    shuffled = data.draw(st.permutations(ids))
    assert question_values({q: right[q] for q in shuffled}, parents) == by_parents
    renamed = question_values(
        {f"q{q}": v for q, v in right.items()}, {f"q{c}": [f"q{p}" for p in ps] for c, ps in parents.items()}
    )
    assert [renamed[f"q{q}"] for q in ids] == [by_parents[q] for q in ids]


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ({2: [9]}, r"question 2 depends on \[9\], but there is no question 9"),
        ({7: [1]}, r"there is no question 7"),
        ({1: [1]}, r"question 1 depends on itself: 1 -> 1"),
        ({1: [3], 2: [1], 3: [2]}, r"depends on itself: 1 -> 3 -> 2 -> 1"),
    ],
)
def test_dependencies_that_make_no_sense(parents, message):
    with pytest.raises(ValueError, match=message):
        dsg_score({1: "yes", 2: "yes", 3: "yes"}, parents)


def test_shared_ancestors_are_no_circle():
    assert check_parents(range(1, 5), {2: [1], 3: [1], 4: [2, 3]}) is None
    assert check_parents(range(3000), {i: [i - 1] for i in range(1, 3000)}) is None  # no recursion limit


def test_bad_answers():
    with pytest.raises(ValueError, match="'yes', 'no' or None; got 'Yes'"):
        dsg_score({1: "Yes"})
    with pytest.raises(ValueError, match="only one is known of 2"):
        tifa_score({1: "a"}, {1: "a", 2: "b"})


def test_examples():
    assert doctest.testmod(questions, optionflags=doctest.ELLIPSIS).failed == 0
