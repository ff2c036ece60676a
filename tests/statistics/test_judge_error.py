"""Judge error and its correction, worked by hand and against scikit-learn. Coverage is in test_coverage.py."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verism.statistics import Interval, clustered_proportion, confusion, rogan_gladen, wilson

PERFECT = Interval(1.0, 1.0, 1.0)


def exact(value: float) -> Interval:
    return Interval(value, value, value)


def test_confusion_by_hand():
    # right images 1-5: judged 1 1 1 0 1; wrong images 6-8: judged 0 1 0
    result = confusion([1, 1, 1, 1, 1, 0, 0, 0], [1, 1, 1, 0, 1, 0, 1, 0])
    assert (result.tp, result.fp, result.tn, result.fn) == (4, 1, 2, 1)
    assert result.false_accept == wilson(1, 3)
    assert result.false_reject == wilson(1, 5)
    assert result.accuracy == wilson(6, 8)
    assert result.sensitivity == pytest.approx(wilson(4, 5))
    assert result.specificity == pytest.approx(wilson(2, 3))


def test_confusion_equals_scikit_learn():
    from sklearn.metrics import accuracy_score, confusion_matrix, recall_score

    rng = np.random.default_rng(0)
    truth, judged = rng.integers(0, 2, size=(2, 200))
    result = confusion(truth, judged)
    assert [[result.tn, result.fp], [result.fn, result.tp]] == confusion_matrix(truth, judged).tolist()
    assert result.accuracy.value == pytest.approx(accuracy_score(truth, judged))
    assert result.sensitivity.value == pytest.approx(recall_score(truth, judged))
    assert result.specificity.value == pytest.approx(recall_score(truth, judged, pos_label=0))


def test_confusion_rates_without_denominator_are_undefined():
    only_right = confusion([1, 1], [1, 0])
    assert math.isnan(only_right.false_accept.value)
    assert math.isnan(only_right.specificity.low)
    assert only_right.false_reject.value == 0.5
    only_wrong = confusion([0, 0], [1, 0])
    assert math.isnan(only_wrong.false_reject.value)
    nothing = confusion([], [])
    assert (nothing.tp, nothing.fp, nothing.tn, nothing.fn) == (0, 0, 0, 0)
    assert math.isnan(nothing.accuracy.value)


def test_confusion_with_prompts_of_several_images():
    rng = np.random.default_rng(1)
    clusters = np.repeat(np.arange(60), 4)
    truth = rng.integers(0, 2, size=240)
    judged = np.where(rng.random(60)[clusters] < 0.2, 1 - truth, truth)  # the judge errs on whole prompts
    result, naive = confusion(truth, judged, clusters=clusters), confusion(truth, judged)
    wrong = truth == 0
    assert result.false_accept == clustered_proportion(judged[wrong], clusters[wrong])
    assert result.accuracy == clustered_proportion(judged == truth, clusters)
    assert result.accuracy.high - result.accuracy.low > 1.5 * (naive.accuracy.high - naive.accuracy.low)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=30))
def test_confusion_of_swapped_classes_is_mirrored(pairs):
    truth, judged = np.array(pairs).T
    result, mirrored = confusion(truth, judged), confusion(1 - truth[::-1], 1 - judged[::-1])
    assert (result.tp, result.fp) == (mirrored.tn, mirrored.fn)
    assert result.false_accept == pytest.approx(mirrored.false_reject, nan_ok=True)
    assert result.accuracy == mirrored.accuracy


@pytest.mark.parametrize(
    ("truth", "judged", "clusters", "message"),
    [
        ([1, 0], [1], None, "same images; got 2 and 1"),
        ([1, math.nan], [1, 0], None, "truth holds 1 NaN"),
        ([1, 0], [1, 2], None, "judged must hold only 0 and 1; got 2"),
        ([1, 0], [1, 0], ["a"], "one label for each of the 2 images"),
    ],
)
def test_confusion_refuses(truth, judged, clusters, message):
    with pytest.raises(ValueError, match=message):
        confusion(truth, judged, clusters=clusters)


def test_rogan_gladen_by_hand():
    # (0.5 + 0.9 - 1) / (0.8 + 0.9 - 1) = 0.4 / 0.7
    corrected = rogan_gladen(exact(0.5), exact(0.8), exact(0.9))
    assert (corrected.value, corrected.low, corrected.high) == pytest.approx((4 / 7, 4 / 7, 4 / 7))
    assert corrected.note == ""


def test_rogan_gladen_interval_by_hand():
    # rate +- 0.1 -> 0.3/0.7, 0.5/0.7: +- 0.142857.
    # sensitivity 0.7 .. 0.85 -> 0.4/0.6 = 0.666667, 0.4/0.75 = 0.533333: up 0.095238, down 0.038095.
    # specificity 0.85 .. 0.92 -> 0.35/0.65 = 0.538462, 0.42/0.72 = 0.583333: down 0.032967, up 0.011905.
    corrected = rogan_gladen(Interval(0.5, 0.4, 0.6), Interval(0.8, 0.7, 0.85), Interval(0.9, 0.85, 0.92))
    down = math.sqrt(0.142857**2 + 0.038095**2 + 0.032967**2)
    up = math.sqrt(0.142857**2 + 0.095238**2 + 0.011905**2)
    assert (corrected.low, corrected.high) == pytest.approx((4 / 7 - down, 4 / 7 + up), abs=1e-5)


def test_perfect_judge_changes_nothing():
    rate = wilson(37, 90)
    corrected = rogan_gladen(rate, PERFECT, PERFECT)
    assert (corrected.value, corrected.low, corrected.high) == pytest.approx(rate)


@given(st.floats(0, 1), st.floats(0.51, 1), st.floats(0.51, 1))
def test_correction_undoes_what_the_judge_does(truth, sensitivity, specificity):
    seen = truth * sensitivity + (1 - truth) * (1 - specificity)
    seen = min(1.0, max(0.0, seen))
    corrected = rogan_gladen(exact(seen), exact(sensitivity), exact(specificity))
    assert corrected.value == pytest.approx(truth, abs=1e-9)


@given(st.integers(0, 50), st.integers(1, 40), st.integers(1, 40), st.integers(0, 19), st.integers(0, 19))
def test_corrected_interval_is_ordered_and_mirrored(right, n_right, n_wrong, missed, passed):
    rate = wilson(right, 50)
    sensitivity = wilson(max(0, n_right - missed), n_right)
    specificity = wilson(max(0, n_wrong - passed), n_wrong)
    corrected = rogan_gladen(rate, sensitivity, specificity)
    # Asking for the share of wrong images swaps the roles of sensitivity and specificity.
    mirrored = rogan_gladen(wilson(50 - right, 50), specificity, sensitivity)
    assert (corrected.value, corrected.low, corrected.high) == pytest.approx(
        (1 - mirrored.value, 1 - mirrored.high, 1 - mirrored.low), abs=1e-9, nan_ok=True
    )
    if sensitivity.value + specificity.value > 1:
        assert 0 <= corrected.low <= corrected.value <= corrected.high <= 1
    else:
        assert math.isnan(corrected.value)


def test_uncertain_judge_widens_the_interval_though_it_made_no_error():
    rate = wilson(40, 100)
    corrected = rogan_gladen(rate, wilson(20, 20), wilson(20, 20))
    assert corrected.value == pytest.approx(0.4)
    assert corrected.low < rate.low - 0.02
    assert corrected.high > rate.high + 0.01


@pytest.mark.parametrize(("sensitivity", "specificity"), [(0.5, 0.5), (0.3, 0.6)])
def test_judge_that_is_no_better_than_chance_has_no_value(sensitivity, specificity):
    corrected = rogan_gladen(exact(0.5), exact(sensitivity), exact(specificity))
    assert all(math.isnan(number) for number in (corrected.value, corrected.low, corrected.high))
    assert f"no better than chance: sensitivity {sensitivity:.3f} + specificity {specificity:.3f}" in corrected.note


def test_judge_that_may_be_no_better_than_chance_leaves_all_open():
    corrected = rogan_gladen(exact(0.5), Interval(0.6, 0.4, 0.8), exact(0.55))
    assert corrected.value == pytest.approx(0.05 / 0.15)
    assert (corrected.low, corrected.high) == (0, 1)


def test_undefined_calibration_has_no_value():
    corrected = rogan_gladen(exact(0.5), PERFECT, wilson(0, 0))
    assert math.isnan(corrected.value)
    assert corrected.note == "specificity is undefined: no images to measure it on"


@pytest.mark.parametrize(("rate", "cut", "word"), [(0.05, 0.0, "below"), (0.95, 1.0, "above")])
def test_rate_the_judge_cannot_produce_is_cut_and_noted(rate, cut, word):
    corrected = rogan_gladen(exact(rate), exact(0.9), exact(0.9))
    assert (corrected.value, corrected.low, corrected.high) == (cut, cut, cut)
    assert f"a rate of {rate:.3f} is {word} what this judge can produce" in corrected.note


@pytest.mark.parametrize("rate", [Interval(0.5, 0.6, 0.7), Interval(1.2, 1.1, 1.3)])
def test_rogan_gladen_refuses(rate):
    with pytest.raises(ValueError, match="rate must satisfy 0 <= low <= value <= high <= 1"):
        rogan_gladen(rate, PERFECT, PERFECT)
