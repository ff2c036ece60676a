"""The energy test: its value by brute force, its level where samples are alike, and its power where they differ."""

import math
from itertools import combinations

import numpy as np
import pytest

from verism.statistics.two_sample import energy_test


def alike(rng, n, strata=("a", "b")):
    names = rng.choice(strata, size=n)
    level = np.where(names == strata[0], 0.0, 3.0)  # what the strata show differs much
    return level[:, None] + rng.normal(size=(n, 3)), list(names)


def test_the_p_value_is_that_of_all_permutations():
    rng = np.random.default_rng(3)
    values = rng.normal(size=(9, 2))
    values[5:] += 1.0
    ranks = values.argsort(axis=0).argsort(axis=0) / 9
    distance = np.sqrt(((ranks[:, None] - ranks[None]) ** 2).sum(axis=-1))

    def energy(second):
        first = [i for i in range(9) if i not in second]
        second = list(second)
        mean = lambda a, b: distance[np.ix_(a, b)].mean()  # noqa: E731
        return 2 * mean(first, second) - mean(first, first) - mean(second, second)

    every = [energy(set(chosen)) for chosen in combinations(range(9), 4)]
    exact = np.mean(np.array(every) >= energy({5, 6, 7, 8}) - 1e-12)
    result = energy_test(values[:5], values[5:], ["x"] * 5, ["x"] * 4, n_permutations=20_000)
    assert result.p_value == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 20_000) + 1e-4)
    assert (result.n_first, result.n_second) == (5, 4)


def test_samples_of_one_kind_are_told_apart_as_often_as_the_level_says():
    rng = np.random.default_rng(0)
    p = []
    for trial in range(300):
        (a, a_strata), (b, b_strata) = alike(rng, 40), alike(rng, 15)
        p.append(energy_test(a, b, a_strata, b_strata, n_permutations=99, seed=trial).p_value)
    rejected = np.mean(np.array(p) <= 0.05)
    assert 0.05 - 4 * math.sqrt(0.05 * 0.95 / 300) <= rejected <= 0.05 + 4 * math.sqrt(0.05 * 0.95 / 300)
    assert 0.4 < np.mean(p) < 0.6


def test_another_mixture_of_strata_is_no_difference_but_another_level_is():
    rng = np.random.default_rng(1)
    a, a_strata = alike(rng, 80)
    b = np.vstack([rng.normal(size=(30, 3)), 3.0 + rng.normal(size=(4, 3))])
    b_strata = ["a"] * 30 + ["b"] * 4
    assert energy_test(a, b, a_strata, b_strata).p_value > 0.05
    assert energy_test(a, b, ["x"] * 80, ["x"] * 34).p_value <= 0.01  # the mixture alone tells them apart here
    assert energy_test(a, b + 1.5, a_strata, b_strata).p_value <= 0.002


def test_members_of_strata_that_only_one_sample_has_do_not_count():
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(20, 2)), rng.normal(size=(12, 2))
    far = np.full((5, 2), 100.0)
    plain = energy_test(a, b, ["x"] * 20, ["x"] * 12)
    more = energy_test(np.vstack([a, far]), b, ["x"] * 20 + ["y"] * 5, ["x"] * 12)
    assert plain == more
    nothing = energy_test(a, b, ["x"] * 20, ["y"] * 12)
    assert math.isnan(nothing.p_value)
    assert nothing.n_first == nothing.n_second == 0


@pytest.mark.parametrize(
    ("second", "strata", "words"),
    [(np.zeros((2, 3)), ["x"] * 2, "same length"), (np.zeros((2, 2)), ["x"], "stratum"),
     (np.full((2, 2), np.nan), ["x"] * 2, "finite")],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused(second, strata, words):
    with pytest.raises(ValueError, match=words):
        energy_test(np.zeros((2, 2)), second, ["x"] * 2, strata)
