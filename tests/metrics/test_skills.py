"""Skill arithmetic: accuracy, the accuracy of shuffled images, and the table of counts."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verism.metrics.skills import accuracy, count_confusion, expected_shuffled_accuracy

OPPOSITE = {"left": "right", "right": "left", "above": "below", "below": "above"}


def spatial_key(first: int, second: int, relation: str) -> tuple[int, int, str]:
    """One key for a scene and the same scene told from the other object."""
    return min((first, second, relation), (second, first, OPPOSITE[relation]))


def test_accuracy():
    assert accuracy([1, 0, 1, 1]) == 0.75
    assert accuracy([True, False]) == 0.5
    assert math.isnan(accuracy([]))


@pytest.mark.parametrize(("values", "message"), [([1, math.nan], "got nan"), ([1, 2], "got 2"), ([[1]], "shape")])
def test_accuracy_refuses(values, message):
    with pytest.raises(ValueError, match=message):
        accuracy(values)


# Cho et al. 2023, Table 2, row "GT shuffled (random)", prints one draw: 6.3, 1.7 and 0.3 %.
@pytest.mark.parametrize(
    ("keys", "expected", "printed", "tolerance"),
    [
        pytest.param(list(range(15)) * 3, 1 / 15, 6.3, 0.5, id="object: 15 classes"),
        pytest.param(list(itertools.product(range(15), range(1, 5))) * 2, 1 / 60, 1.7, 0.05, id="count: 15 x 1-4"),
        pytest.param(
            [spatial_key(a, b, r) for a in range(15) for b in range(15) for r in OPPOSITE],
            2 / 900,  # 450 keys of 2 prompts: 450 * (2/900)^2
            0.3,
            0.1,
            id="spatial: all ordered pairs x 4 relations",
        ),
    ],
)
def test_shuffled_accuracy_of_the_paper(keys, expected, printed, tolerance):
    assert expected_shuffled_accuracy(keys) == pytest.approx(expected, rel=1e-12)
    assert 100 * expected_shuffled_accuracy(keys) == pytest.approx(printed, abs=tolerance)


def test_shuffled_accuracy_of_spatial_variants():
    pairs = [(a, b, r) for a in range(15) for b in range(15) for r in OPPOSITE]
    # Without pairs of one class: 420 keys of 2 among 840. Told apart by who is named first: 900 keys of 1.
    assert expected_shuffled_accuracy([spatial_key(*p) for p in pairs if p[0] != p[1]]) == pytest.approx(2 / 840)
    assert expected_shuffled_accuracy(pairs) == pytest.approx(1 / 900)
    # Pairs of one class under the axis-only rule have the keys that swapping the objects gives: 15 * 2 of 2 prompts.
    same = [spatial_key(*p) for p in pairs if p[0] == p[1]]
    axis_only = [(a, "horizontal" if r in ("left", "right") else "vertical") for a, b, r in pairs if a == b]
    assert expected_shuffled_accuracy(same) == expected_shuffled_accuracy(axis_only) == pytest.approx(1 / 30)


def test_shuffled_accuracy_by_hand():
    # dog 2/4, cat 1/4, bird 1/4: 4/16 + 1/16 + 1/16
    assert expected_shuffled_accuracy(["dog", "dog", "cat", "bird"]) == 6 / 16
    assert expected_shuffled_accuracy(["dog"]) == 1.0
    assert math.isnan(expected_shuffled_accuracy([]))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=20))
def test_shuffled_accuracy_is_the_mean_over_all_pairs(keys):
    table = np.equal.outer(keys, keys)
    assert expected_shuffled_accuracy(keys) == pytest.approx(table.mean())
    assert expected_shuffled_accuracy([f"renamed {key}" for key in keys[::-1]]) == pytest.approx(table.mean())


def test_count_confusion_by_hand():
    table = count_confusion([1, 1, 2, 4, 4, 4], [1, 0, 2, 5, 9, 3], max_count=4)
    assert table.tolist() == [
        # 0, 1, 2, 3, 4, more
        [1, 1, 0, 0, 0, 0],
        [0, 0, 1, 0, 0, 0],
        [0, 0, 0, 0, 0, 0],
        [0, 0, 0, 1, 0, 2],
    ]
    assert count_confusion([], [], max_count=2).tolist() == [[0, 0, 0, 0], [0, 0, 0, 0]]


def test_count_confusion_equals_scikit_learn():
    from sklearn.metrics import confusion_matrix

    rng = np.random.default_rng(0)
    expected, result = rng.integers(1, 5, size=300), rng.integers(0, 8, size=300)
    reference = confusion_matrix(expected, np.minimum(result, 5), labels=range(6))[1:5]
    assert np.array_equal(count_confusion(expected, result, max_count=4), reference)


@pytest.mark.parametrize(
    ("expected", "found", "max_count", "message"),
    [
        ([0], [1], 4, "expected must lie in 1 .. max_count=4; got 0"),
        ([5], [1], 4, "got 5 to 5"),
        ([1], [-1], 4, "predicted must be >= 0; got -1"),
        ([1], [1, 2], 4, "same images; got 1 and 2"),
        ([1], [math.nan], 4, "predicted must hold whole numbers; got nan"),
        ([1.5], [1], 4, "expected must hold whole numbers; got 1.5"),
        ([1], [1], 0, "max_count must be at least 1"),
        ([[1]], [[1]], 4, "one-dimensional"),
    ],
)
def test_count_confusion_refuses(expected, found, max_count, message):
    with pytest.raises(ValueError, match=message):
        count_confusion(expected, found, max_count=max_count)
