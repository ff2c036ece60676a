"""Artificial difference sets: sizes, ranges and the recovery of planted differences."""

import math
from fractions import Fraction

import numpy as np
import pytest

from verism.metrics.presentation.artificial import (
    SCALES,
    artificial_sets,
    candidate_differences,
    estimate_sets,
    evaluate_estimators,
    feasible_differences,
    feasible_scales,
    mixed_agreement,
)

ATTRIBUTES = [f"a{i}" for i in range(15)]


def labels_with(shares, n=160, seed=0):
    """By attribute 0/1 labels of both genders with these shares of ones, in random order."""
    rng = np.random.default_rng(seed)
    return {
        name: tuple(rng.permutation(np.arange(n) < round(share * n)).astype(int) for share in pair)
        for name, pair in zip(ATTRIBUTES, shares)
    }


HALF = labels_with([(0.5, 0.5)] * 15)


def test_candidates_are_those_of_table_17():
    # Table 17, rows of scale 0.25 and 0.125; it misprints 0.2 as 0.1 and rounds 0.1125 to 0.112.
    quarter = [0.025, 0.05, 0.075, 0.1, 0.125, 0.15, 0.175, 0.2, 0.225]
    assert candidate_differences(0.25)[10:] == pytest.approx(quarter)
    assert candidate_differences(0.125)[-1] == pytest.approx(0.1125)
    assert candidate_differences(1.0)[:9] == pytest.approx([-0.9, -0.8, -0.7, -0.6, -0.5, -0.4, -0.3, -0.2, -0.1])
    assert candidate_differences(1.0)[9] == 0


@pytest.mark.parametrize("protocol", ["released", "revised"])
def test_sets_are_what_they_say(protocol):
    labels = labels_with([(0.5 + 0.02 * i, 0.6 - 0.02 * i) for i in range(15)])
    scales = feasible_scales(labels)
    assert scales == list(SCALES)
    sets = artificial_sets(labels, protocol=protocol, scales=scales[1:], repetitions=4)
    assert len(sets) == 3 * 4 * 15
    for s in sets:
        first, second = labels[s.attribute]
        for places in (s.first, s.second):
            assert len(set(places.tolist())) == 80
        assert s.realised == pytest.approx(first[s.first].mean() - second[s.second].mean())
        assert abs(s.realised - s.nominal) <= 1 / 80 + 1e-12
        if protocol == "revised":
            assert s.realised == pytest.approx(s.nominal)  # all candidates are whole numbers of 80 images
    for scale in scales[1:]:
        for repetition in range(4):
            nominal = [s.nominal for s in sets if (s.scale, s.repetition) == (scale, repetition)]
            assert len(set(nominal)) == 15
            assert set(np.round(nominal, 9)) <= set(np.round(candidate_differences(scale), 9))
    assert [s.attribute for s in sets[:15]] == ATTRIBUTES


def test_every_candidate_is_a_whole_number_of_eighty_images():
    for scale in SCALES:
        for i in range(-9, 10):
            assert (Fraction(scale) * i / 10 * 80).denominator == 1


@pytest.mark.parametrize("protocol", ["released", "revised"])
def test_the_same_seed_gives_the_same_sets_and_scales_do_not_disturb_each_other(protocol):
    def key(sets):
        return [(s.attribute, s.scale, s.repetition, s.nominal, s.first.tolist(), s.second.tolist()) for s in sets]

    few = artificial_sets(HALF, protocol=protocol, scales=(0.25,), repetitions=2)
    more = artificial_sets(HALF, protocol=protocol, scales=(0.5, 0.25), repetitions=2)
    assert key(few) == key(more[30:])
    assert key(few) != key(artificial_sets(HALF, protocol=protocol, scales=(0.25,), repetitions=2, seed=1))


def test_ranges_follow_from_the_labels():
    # 160 images: women 20 with, men 120 with and 40 without. Groups of 80: women 0 to 20, men 40 to 80 with it. So
    # the difference lies between -80/80 and -20/80: of scale 1.0 the candidates -0.9 to -0.3.
    labels = {"tie": ([1] * 20 + [0] * 140, [1] * 120 + [0] * 40)}
    assert feasible_differences(labels, 1.0)[0].tolist() == [True] * 7 + [False] * 12
    # Scale 0.25 reaches down to -0.225, which is too little.
    assert feasible_scales(labels) == [1.0, 0.5]
    sets = artificial_sets(labels, scales=(1.0,), repetitions=50)
    assert {round(s.nominal, 9) for s in sets} == {-0.9, -0.8, -0.7, -0.6, -0.5, -0.4, -0.3}
    with pytest.raises(ValueError, match=r"scale 0.25: the 1 attributes cannot all get a difference"):
        artificial_sets(labels, scales=(0.25,))


def test_choices_are_uniform_over_what_fits():
    # Three attributes; two allow 0 and differences up to one step of scale 1.0 (8 of 80), one allows everything.
    narrow = ([1] * 76 + [0] * 4, [1] * 80)  # women 76 of 80, men 80 of 80: only -0.05, no candidate at scale 1.0
    assert feasible_scales({"x": narrow}) == [0.5, 0.25, 0.125]
    tight = ([1] * 8 + [0] * 72, [1] * 8 + [0] * 80)  # women exactly 8; men 0 to 8: 0 or +0.1
    labels = {"a": tight, "b": tight, "c": ([1] * 160 + [0] * 80, [1] * 160 + [0] * 80)}
    sets = artificial_sets(labels, scales=(1.0,), repetitions=600)
    first = [round(s.nominal, 9) for s in sets if s.attribute == "a"]
    assert set(first) == {0.0, 0.1}
    assert 240 <= first.count(0.0) <= 360  # 300 expected, 5 standard deviations
    free = [round(s.nominal, 9) for s in sets if s.attribute == "c"]
    assert set(free) == {round(i / 10, 9) for i in range(-9, 10)} - {0.0, 0.1}


def test_a_perfect_judge_is_perfect_and_a_blind_one_is_not():
    sets = artificial_sets(HALF)
    rng = np.random.default_rng(1)
    blind = {name: tuple(rng.random(160) for _ in pair) for name, pair in HALF.items()}
    noisy = {name: tuple(side + rng.normal(0, 0.5, 160) for side in pair) for name, pair in HALF.items()}
    result = evaluate_estimators(sets, {"perfect": HALF, "noisy": noisy, "blind": blind})
    assert result["perfect"].n_sets == 600
    assert result["perfect"].overall.tau.value == pytest.approx(1.0)
    assert result["perfect"].overall.mcc.value == pytest.approx(1.0)
    assert 0.6 < result["noisy"].overall.tau.value < 1
    assert result["noisy"].overall.tau.low < result["noisy"].overall.tau.value < result["noisy"].overall.tau.high
    assert abs(result["blind"].overall.tau.value) < 0.15
    # Small differences are harder to order.
    by_scale = result["noisy"].by_scale
    assert list(by_scale) == list(SCALES)
    assert by_scale[1.0].tau.value > by_scale[0.125].tau.value


def test_released_sets_against_nominal_and_realised_differences():
    # In groups of 80 rounding down takes as much from either gender; in groups of 30 it does not.
    sets = artificial_sets(HALF, protocol="released", scales=(0.125,), group_size=30)
    nominal = evaluate_estimators(sets, {"perfect": HALF}, reference="nominal")["perfect"].overall
    realised = evaluate_estimators(sets, {"perfect": HALF}, reference="realised")["perfect"].overall
    assert realised.tau.value == pytest.approx(1.0)
    assert 0.7 < nominal.tau.value < 0.99


def test_mixed_models():
    sets = {"m": artificial_sets(HALF, scales=(0.5,)), "n": artificial_sets(HALF, scales=(0.5, 0.25), seed=1)}
    agreement, pairs = mixed_agreement({name: (s, estimate_sets(s, HALF)) for name, s in sets.items()})
    assert agreement.n_used == 450
    assert agreement.tau.value == pytest.approx(1.0)
    # Per attribute 10 sets of m and 20 of n: 15 (45 + 190) pairs alike, 15 * 200 of one attribute and two models.
    assert pairs["same_attribute_same_model"].pairs == 15 * (45 + 190)
    assert pairs["same_attribute_different_model"].pairs == 15 * 200
    assert sum(p.pairs for p in pairs.values()) == 450 * 449 // 2


def test_estimates_that_are_missing_are_counted():
    sets = artificial_sets(HALF, scales=(0.5,), repetitions=1)
    holes = {name: (np.asarray(a, dtype=float), b) for name, (a, b) in HALF.items()}
    holes["a3"][0][:] = math.nan
    result = evaluate_estimators(sets, {"holes": holes})["holes"].overall
    assert (result.n_used, result.n_unusable) == (14, 1)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="a group has 80 images, but only 40"):
        artificial_sets({"tie": ([0, 1] * 20, [0, 1] * 50)})
    with pytest.raises(ValueError, match="tie: labels must be one-dimensional and 0 or 1"):
        artificial_sets({"tie": ([0, 2] * 50, [0, 1] * 50)})
    with pytest.raises(ValueError, match="protocol must be one of"):
        artificial_sets(HALF, protocol="paper")
    with pytest.raises(ValueError, match="between 1 and 19 attributes"):
        artificial_sets({})
    sets = artificial_sets(HALF, scales=(0.5,), repetitions=1)
    with pytest.raises(ValueError, match="no estimates for 'a0'"):
        estimate_sets(sets, {})
    with pytest.raises(ValueError, match="the sets speak of more images"):
        estimate_sets(sets, {name: ([0.1], [0.2]) for name in HALF})
    with pytest.raises(ValueError, match="reference must be"):
        evaluate_estimators(sets, {}, reference="printed")
    with pytest.raises(ValueError, match="15 sets need as many differences"):
        mixed_agreement({"m": (sets, [0.1])})
