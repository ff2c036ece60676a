"""The Pareto front against its definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verism.metrics.pareto import dominates, pareto_front


def test_a_worked_sweep():
    # guidance 2 / 5 / 7.5 / 10 as (coverage, precision): 7.5 is beaten by 5 in both, no other is.
    sweep = [[0.60, 0.50], [0.50, 0.70], [0.45, 0.65], [0.40, 0.80]]
    assert pareto_front(sweep).tolist() == [True, True, False, True]


def test_lower_may_be_better_in_one_metric():
    # (FID, CLIPScore): 12/30 beats 15/29; 10/25 has the lowest FID.
    points = [[12.0, 30.0], [15.0, 29.0], [10.0, 25.0]]
    assert pareto_front(points, higher_is_better=[False, True]).tolist() == [True, False, True]
    assert dominates(points[0], points[1], higher_is_better=[False, True])


def test_equal_points_share_the_front_and_undefined_ones_are_not_on_it():
    assert pareto_front([[1, 2], [1, 2], [0, 5]]).tolist() == [True, True, True]
    assert pareto_front([[np.nan, 9], [1, 1]]).tolist() == [False, True]
    assert not dominates([np.nan, 9], [1, 1])


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=12))
def test_it_is_what_the_definition_says_in_any_order(points):
    array = np.array(points, dtype=float)
    expected = [not any(dominates(other, point) for other in array) for point in array]
    assert pareto_front(array).tolist() == expected
    assert pareto_front(array[::-1])[::-1].tolist() == expected


def test_no_points_have_no_front():
    assert pareto_front(np.zeros((0, 2))).shape == (0,)


@pytest.mark.parametrize(
    ("points", "direction", "message"),
    [([1.0, 2.0], True, "a row per run"), ([[1.0, 2.0]], [True, False, True], "one answer or 2")],
)
def test_bad_input_is_refused(points, direction, message):
    with pytest.raises(ValueError, match=message):
        pareto_front(points, higher_is_better=direction)
