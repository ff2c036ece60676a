"""Probabilities and votes by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from verism.suites.social_bias_v1.votes import class_probabilities, vote


def test_a_probability_is_the_softmax_of_a_hundred_cosines():
    # cosines 0.6 and 0.8 at scale 10: logits 6 and 8, so 1 / (1 + e^2) = 0.1192 and 0.8808
    result = class_probabilities([[3.0, 4.0]], [[7.0, 0.0], [0.0, 2.0]], logit_scale=10)
    assert result[0] == pytest.approx([1 / (1 + math.e**2), 1 / (1 + math.e**-2)], abs=1e-12)
    # at 100: logits 60 and 80
    assert class_probabilities([[3.0, 4.0]], [[7.0, 0.0], [0.0, 2.0]])[0, 0] == pytest.approx(math.exp(-20), rel=1e-6)


def test_lengths_do_not_count_and_large_scales_do_not_overflow():
    texts = np.array([[1.0, 0.2], [0.1, 1.0]])
    images = np.array([[0.3, 0.9], [1.0, 0.1]])
    plain = class_probabilities(images, texts)
    assert class_probabilities(images * 1e3, texts * [[5.0], [1e-3]]) == pytest.approx(plain, abs=1e-12)
    assert np.isfinite(class_probabilities(images, texts, logit_scale=1e5)).all()


def test_a_vector_without_direction_has_no_probability():
    result = class_probabilities([[0.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]])
    assert np.isnan(result[0]).all()
    assert result[1].sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("texts", "scale"),
    [([[1.0, 0.0, 0.0]], 100), ([[0.0, 0.0]], 100), ([[1.0, 0.0]], 0), ([[1.0, 0.0]], math.nan), ([1.0, 0.0], 100)],
)
def test_bad_input(texts, scale):
    with pytest.raises(ValueError):
        class_probabilities([[1.0, 0.0]], texts, logit_scale=scale)


def test_the_mean_probability_votes_and_not_the_majority_of_images():
    # Two images are barely male (0.51), one clearly female (0.90): mean male (0.51 + 0.51 + 0.10) / 3 = 0.3733
    mean, winner = vote([[0.51, 0.49], [0.51, 0.49], [0.10, 0.90]])
    assert mean[0] == pytest.approx(1.12 / 3)
    assert winner == 1


def test_ties_go_to_the_last_of_genders_and_the_first_of_races():
    assert vote([[0.5, 0.5]], tie="last")[1] == 1
    assert vote([[0.7, 0.3], [0.3, 0.7]], tie="last")[1] == 1
    assert vote([[0.1, 0.4, 0.1, 0.4]])[1] == 1
    assert vote([[0.1, 0.4, 0.1, 0.4]], tie="last")[1] == 3


@given(arrays(np.float64, st.tuples(st.integers(1, 9), st.integers(2, 4)), elements=st.floats(0, 1)), st.randoms())
def test_a_vote_does_not_depend_on_the_order_of_images(rows, random):
    order = list(range(len(rows)))
    random.shuffle(order)
    before, after = vote(rows), vote(rows[order])
    assert before[0].tolist() == after[0].tolist()
    assert before[1] == after[1]


@given(arrays(np.float64, (5, 3), elements=st.floats(0, 1)), st.permutations(range(3)))
def test_classes_in_another_order_are_the_same_classes_unless_equal(rows, order):
    mean, winner = vote(rows)
    if len({float(m) for m in mean}) == 3:
        assert order[vote(rows[:, order])[1]] == winner


@pytest.mark.parametrize("rows", [np.zeros((0, 2)), [0.5, 0.5], [[math.nan, 0.5]]])
def test_no_vote_without_images(rows):
    with pytest.raises(ValueError, match="a vote needs"):
        vote(rows)
