"""MAD against sums by hand, published tables, brute force, and worlds whose truth is known."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest

from verism.metrics import _mixture
from verism.metrics.imbalance import (
    adjusted_prompt_mad,
    expected_mad,
    joint_shares,
    mad,
    mean_std,
    pooled_mad,
    prompt_mad,
    std,
    unbiased_test,
)

COIN = np.array([0.5, 0.5])


def fair_run(seed: int, prompts: int = 84, classes: int = 2, n: int = 9) -> np.ndarray:
    return np.random.default_rng(seed).multinomial(n, np.full(classes, 1 / classes), size=prompts)


# ---------------------------------------------------------------------------------------------------------- the measure
@pytest.mark.parametrize(
    ("counts", "by_k", "by_k_minus_1"),
    [
        ([90, 55], 0.1207, 0.2414),
        ([20, 14, 85, 26], 0.1681, 0.2241),
        ([105, 40], 0.2241, 0.4483),
        ([82, 53, 6, 4], 0.2155, 0.2874),
        ([9, 0], 0.5, 1.0),
        ([0, 9, 0, 0], 0.375, 0.5),
    ],
)
def test_published_values_under_both_divisors(counts, by_k, by_k_minus_1):
    k = len(counts)
    assert mad(counts) == pytest.approx(by_k, abs=5e-5)
    assert mad(counts, divisor="K-1") == pytest.approx(mad(counts) * k / (k - 1))
    assert mad(counts, divisor="K-1") == pytest.approx(by_k_minus_1, abs=1e-4)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([90, 55], 0.1207),
        ([82, 53, 6, 4], 0.2269),
        ([20, 14, 85, 26], 0.1963),
        ([9, 0], 0.5),
        ([0, 9, 0, 0], math.sqrt(3) / 4),
    ],
)
def test_published_standard_deviations(counts, expected):
    assert std(counts) == pytest.approx(expected, abs=5e-5)  # one-hot of four: sqrt((.75**2 + 3 * .25**2) / 4) = 0.4330


def test_equal_shares_of_some_of_ten_classes():
    # k classes at 1/k: k (1/k - 1/10) + (10 - k) / 10 = 2 (10 - k) / 10, over 10: 0.02 (10 - k).
    for k in range(1, 11):
        assert mad([1] * k + [0] * (10 - k)) == pytest.approx(0.02 * (10 - k))


def test_nine_images_cannot_have_ten_tones():
    # Nine tones at 1/9 and one at 0: the least that 9 images can show, (9 (1/9 - 1/10) + 1/10) / 10 = 0.02.
    assert mad([1] * 9 + [0]) == pytest.approx(0.02)
    rng = np.random.default_rng(0)
    assert mad(rng.multinomial(9, np.full(10, 0.1), size=5_000)).min() >= 0.02 - 1e-12


@pytest.mark.parametrize("ninths", [300, 536, 547])
def test_published_means_over_84_prompts_of_nine_images(ninths):
    # A prompt with x of nine has MAD |x/9 - 1/2| = |2x - 9| / 18: odd eighteenths, 1512 = 84 x 18. Give every prompt 1,
    # then raise prompts to at most 9 in steps of 2. 84 odd numbers have an even sum: 547 needs a prompt without ninths,
    # such as four of each where an answer could not be used, which adds 0.
    odd = ninths % 2
    parts = np.ones(84 - odd, dtype=int)
    left = ninths - len(parts)
    for position in range(len(parts)):
        raised = min(8, left)
        parts[position] += raised
        left -= raised
    assert left == 0
    assert np.all(parts % 2 == 1)
    counts = [*zip((9 + parts) // 2, (9 - parts) // 2, strict=True), *[(4, 4)] * odd]
    result = prompt_mad(counts, n_resamples=50)
    assert (result.n_prompts, result.n_used) == (84, 756 - odd)
    assert result.value == pytest.approx(ninths / 1512)


def test_target_moves_the_zero_and_may_differ_by_prompt():
    assert mad([3, 7], [0.3, 0.7]) == pytest.approx(0.0)
    # |0.5 - 0.3| + |0.5 - 0.7| = 0.4, over 2
    assert mad([[5, 5], [3, 7]], [[0.3, 0.7], [0.5, 0.5]]).tolist() == pytest.approx([0.2, 0.2])
    result = prompt_mad([[3, 7], [5, 5]], [[0.3, 0.7], [0.5, 0.5]])
    assert (result.value, result.debiased, result.debiased_low) == (pytest.approx(0.0), 0.0, 0.0)


def test_nothing_to_measure_is_nan():
    assert math.isnan(mad([0, 0]))
    assert math.isnan(std([0, 0]))
    assert math.isnan(expected_mad(0, COIN))
    result = prompt_mad([[0, 0], [0, 0]])
    assert math.isnan(result.value)
    assert math.isnan(result.debiased)
    assert result.n_prompts == result.n_used == 0
    assert math.isnan(pooled_mad([[0, 0]]).value)
    assert math.isnan(unbiased_test([[0, 0]]))


@pytest.mark.parametrize(
    ("counts", "target", "says"),
    [
        ([1], None, "two or more classes"),
        ([1, -1], None, ">= 0"),
        ([0.5, 0.5], None, "whole numbers"),
        ([math.nan, 1], None, "whole numbers"),
        ([1, 2], [0.5, 0.6], "sum to 1"),
        ([1, 2], [1.5, -0.5], ">= 0"),
        ([1, 2], [0.2, 0.3, 0.5], "shape"),
    ],
)
def test_bad_input_says_what_is_wrong(counts, target, says):
    with pytest.raises(ValueError, match=says):
        mad(counts, target)


def test_unknown_divisor_and_wrong_shape():
    with pytest.raises(ValueError, match="divisor"):
        mad([1, 2], divisor="N")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="prompts, classes"):
        prompt_mad([1, 2])


# --------------------------------------------------------------------------------------------------- what chance shows
@pytest.mark.parametrize("target", [[0.5, 0.5], [0.3, 0.7], [0.1, 0.2, 0.7], [1.0, 0.0]])
@pytest.mark.parametrize("n", [1, 2, 5, 9, 10])
def test_expected_mad_is_the_sum_over_all_outcomes(n, target):
    total = 0.0
    for outcome in itertools.product(range(n + 1), repeat=len(target)):
        if sum(outcome) == n:
            ways = math.factorial(n)
            for x in outcome:
                ways //= math.factorial(x)
            total += ways * math.prod(t**x for t, x in zip(target, outcome, strict=True)) * mad(outcome, target)
    assert expected_mad(n, target) == pytest.approx(total)


def test_expected_mad_of_many_numbers_at_once():
    result = expected_mad([1, 0, 9], np.full(10, 0.1), divisor="K-1")
    assert result[0] == pytest.approx(0.2)
    assert math.isnan(result[1])
    assert result[2] == pytest.approx(expected_mad(9, np.full(10, 0.1)) * 10 / 9)
    assert expected_mad(10**6, COIN) == pytest.approx(math.sqrt(2 / math.pi) * 0.5e-3, rel=1e-3)


# --------------------------------------------------------------------------------------------------------- over prompts
@pytest.mark.parametrize(("prompts", "classes", "near"), [(84, 2, 0.02), (252, 10, 0.005)])
def test_unbiased_model_has_a_plain_mad_above_zero_and_a_debiased_one_near_it(prompts, classes, near):
    runs = [prompt_mad(fair_run(seed, prompts, classes), n_resamples=500) for seed in range(16)]
    expected = expected_mad(9, np.full(classes, 1 / classes))
    assert all(result.expected == pytest.approx(expected) for result in runs)
    assert np.mean([result.value for result in runs]) == pytest.approx(expected, rel=0.03)
    assert all(result.low > 0.5 * expected for result in runs)  # the plain interval misses 0 by far
    assert np.mean([result.debiased for result in runs]) < near
    assert np.median([result.debiased for result in runs]) < near / 4
    assert np.mean([result.debiased_low == 0.0 for result in runs]) >= 0.9


@pytest.mark.parametrize(
    ("name", "truth"),
    [("one-hot", 0.5), ("half", 0.25), ("uniform on p", 0.25), ("tilted", 0.2)],
)
def test_debiased_estimate_and_interval_where_there_is_imbalance(name, truth):
    results = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        coin = rng.integers(0, 2, 84)
        share = {
            "one-hot": coin.astype(float),
            "half": np.where(rng.random(84) < 0.5, 0.5, coin),
            "uniform on p": rng.random(84),
            "tilted": np.where(coin == 1, 0.7, 0.3),
        }[name]
        x = rng.binomial(9, share)
        results.append(prompt_mad(np.stack([x, 9 - x], axis=1), n_resamples=50))
    assert np.mean([result.debiased for result in results]) == pytest.approx(truth, abs=0.025)
    assert np.mean([result.debiased_low - 1e-6 <= truth <= result.debiased_high + 1e-6 for result in results]) >= 0.9
    assert all(result.debiased_low <= result.debiased <= result.debiased_high for result in results)
    if name in ("half", "uniform on p"):
        assert np.mean([result.value for result in results]) > truth + 0.02  # what the plain mean says


def test_one_hot_prompts_are_not_called_anything_less():
    result = prompt_mad([[9, 0]] * 84)
    assert result.value == 0.5
    assert result.debiased == pytest.approx(0.5, abs=0.002)
    assert 0.47 < result.low < result.high == pytest.approx(0.5)
    assert 0.47 < result.debiased_low < 0.5


def test_two_classes_mirror_and_order_of_prompts_does_not_matter():
    counts = np.random.default_rng(3).integers(0, 10, size=(30, 2))
    first = prompt_mad(counts)
    # The grid mirrors too, so nothing but rounding may differ.
    assert prompt_mad(counts[::-1, ::-1]) == pytest.approx(first, abs=1e-5)


def test_divisor_scales_everything_but_the_counts():
    counts = np.random.default_rng(4).integers(0, 5, size=(20, 4))
    by_k, other = prompt_mad(counts), prompt_mad(counts, divisor="K-1")
    assert np.array(other[:7]) == pytest.approx(np.array(by_k[:7]) * 4 / 3)
    assert other[7:] == by_k[7:]


def test_numbers_of_images_may_differ_and_empty_prompts_are_left_out():
    result = prompt_mad([[4, 0], [0, 0], [1, 2]])
    assert (result.n_prompts, result.n_used) == (2, 7)
    assert result.value == pytest.approx((0.5 + 1 / 6) / 2)
    assert result.expected == pytest.approx((expected_mad(4, COIN) + expected_mad(3, COIN)) / 2)


def test_targets_of_their_own_that_the_model_follows():
    rng = np.random.default_rng(5)
    share = rng.uniform(0.1, 0.9, 84)
    x = rng.binomial(9, share)
    counts, subset = np.stack([x, 9 - x], axis=1), np.stack([share, 1 - share], axis=1)
    followed, uniform = prompt_mad(counts, subset), prompt_mad(counts)
    assert followed.debiased < 0.03
    assert followed.debiased_low == 0
    assert uniform.debiased_low > 0.05


def test_single_prompt_has_the_exact_interval_of_its_own_share():
    # Clopper-Pearson of 9 of 9 is [0.6637, 1], of 7 of 9 [0.3999, 0.9719], which holds 0.5.
    assert prompt_mad([[9, 0]])[:3] == pytest.approx((0.5, 0.1637, 0.5), abs=1e-4)
    assert prompt_mad([[7, 2]])[:3] == pytest.approx((5 / 18, 0.0, 0.4719), abs=1e-4)


def test_single_prompt_of_many_classes_covers():
    rng, shares, inside = np.random.default_rng(6), np.array([0.4, 0.3, 0.2, 0.1]), []
    truth = mad([4, 3, 2, 1])
    for _ in range(60):
        result = prompt_mad(rng.multinomial(30, shares)[None])
        inside.append(result.low <= truth <= result.high)
        assert result.low <= result.debiased <= result.value <= result.high
    assert np.mean(inside) >= 0.93
    zero = [prompt_mad(rng.multinomial(9, np.full(10, 0.1))[None]).low == 0 for _ in range(60)]
    assert np.mean(zero) >= 0.9


def test_ten_classes_in_about_a_second():
    counts = np.random.default_rng(7).multinomial(9, np.full(10, 0.1), size=252)
    start = time.process_time()
    prompt_mad(counts, n_resamples=2000, seed=17)
    assert time.process_time() - start < 10  # about 0.3 s; other work on the machine may slow it


# ---------------------------------------------------------------------------------------------------------- the mixture
def test_mixture_is_as_likely_as_what_em_finds():
    x = np.array([[0.0], [1], [3], [4], [4], [8], [9]])
    problem = _mixture.mixture(x, np.full(7, 9.0), np.full((7, 1), 0.5), (1.0, 1.0))
    w = np.full(problem.cost.shape, 1 / problem.cost.shape[1])
    for _ in range(20_000):
        chance = (problem.likelihood @ w[:, :, None])[:, :, 0]
        w = w * (np.swapaxes(problem.likelihood, 1, 2) @ (problem.times / chance)[:, :, None])[:, :, 0] / 7
    ours = problem.fit(np.zeros(1))
    assert ours.sum() == pytest.approx(1)
    assert ours.min() >= 0
    assert problem.log_likelihood(w)[0] - 1e-6 <= problem.log_likelihood(ours)[0] < problem.log_likelihood(w)[0] + 0.01


def test_profile_ends_hold_the_likelihood_they_promise():
    x = np.random.default_rng(8).binomial(9, 0.7, size=(60, 1)).astype(float)
    problem = _mixture.mixture(x, np.full(60, 9.0), np.full((60, 1), 0.5), (1.0, 1.0))
    best = problem.fit(np.zeros(1))
    top = problem.log_likelihood(best)[0]
    low, high = problem.profile(top, 1.92, 1.92)
    wider = problem.profile(top, 5.0, 5.0)
    assert wider[0] < low < problem.distance(best)[0] < high < wider[1]


# ------------------------------------------------------------------------------------------------- pooled, and the test
def test_pooled_mad_is_that_of_the_sums():
    result = pooled_mad([[9, 0], [0, 9], [6, 3]])
    assert result.value == pytest.approx(mad([15, 12]))
    assert result.n_used == 27
    # 2 x 0.6 + 1 x 0.1 over 3 images: target (1.3 / 3, 1.7 / 3); shares (2 / 3, 1 / 3).
    subset = pooled_mad([[1, 1], [1, 0]], [[0.6, 0.4], [0.1, 0.9]])
    assert subset.value == pytest.approx(0.7 / 3)


@pytest.mark.parametrize("classes", [2, 10])
def test_pooled_interval_covers_with_prompts_that_differ(classes):
    for mean in (np.full(classes, 1 / classes), np.arange(1, classes + 1) / np.arange(1, classes + 1).sum()):
        rng, truth, inside = np.random.default_rng(9), float(np.abs(mean - 1 / classes).mean()), []
        for _ in range(100):
            counts = rng.multinomial(9, rng.dirichlet(2 * mean, 84))
            result = pooled_mad(counts, n_resamples=300)
            inside.append(result.low - 1e-9 <= truth <= result.high + 1e-9)
        assert np.mean(inside) >= 0.91


def test_unbiased_test_rejects_as_often_as_it_says():
    p = np.array([unbiased_test(fair_run(seed, 20), n_resamples=299, seed=seed) for seed in range(300)])
    assert 0.015 <= np.mean(p <= 0.05) <= 0.085
    assert unbiased_test([[9, 0]] * 20, n_resamples=199) == 1 / 200
    assert unbiased_test([[1, 1]] * 5) == 1.0
    assert unbiased_test([[9, 1]] * 20, [0.9, 0.1], n_resamples=199) > 0.9


# ---------------------------------------------------------------------------------------------------- a judge that errs
def test_adjusted_prompt_mad_with_a_perfect_judge_is_the_debiased_value():
    counts = np.random.default_rng(10).integers(0, 10, 40)
    counts = np.stack([counts, 9 - counts], axis=1)
    exact = prompt_mad(counts)
    result = adjusted_prompt_mad(counts, [[10**6, 0], [0, 10**6]])
    assert result == pytest.approx((exact.debiased, exact.debiased_low, exact.debiased_high), abs=2e-3)


@pytest.mark.parametrize(("spread", "truth"), [(None, 0.0), (1.0, 0.5)])
def test_adjusted_prompt_mad_undoes_a_judge_that_hides_imbalance(spread, truth):
    table, inside, values = np.array([[0.8, 0.2], [0.1, 0.9]]), [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        share = np.full(84, 0.5) if spread is None else rng.integers(0, 2, 84).astype(float)
        x = rng.binomial(9, share * table[0, 0] + (1 - share) * table[1, 0])
        seen = np.stack([rng.multinomial(200, row) for row in table])
        result = adjusted_prompt_mad(np.stack([x, 9 - x], axis=1), seen)
        inside.append(result.low - 1e-6 <= truth <= result.high + 1e-6)
        values.append(result.value)
    assert np.mean(values) == pytest.approx(truth, abs=0.04)
    assert np.mean(inside) >= 0.8


def test_adjusted_prompt_mad_refuses_what_it_cannot_do():
    assert math.isnan(adjusted_prompt_mad([[5, 4], [4, 5]], [[5, 5], [5, 5]]).value)
    with pytest.raises(ValueError, match="two classes"):
        adjusted_prompt_mad([[1, 2, 3]], [[5, 5], [5, 5]])
    with pytest.raises(ValueError, match="either class"):
        adjusted_prompt_mad([[5, 4], [4, 5]], [[5, 5], [0, 0]])
    with pytest.raises(ValueError, match="two prompts"):
        adjusted_prompt_mad([[5, 4]], [[9, 1], [1, 9]])


# -------------------------------------------------------------------------------------------------------- intersections
def test_joint_shares_of_every_combination():
    gender = ["woman"] * 6 + ["man"] * 5 + [None]
    tone = ["dark"] * 4 + ["light"] * 2 + ["light"] * 5 + ["dark"]
    prompts = ["a", "a", "b", "b", "a", "c", "c", "c", "d", "d", "d", "d"]
    cells = joint_shares(
        {"gender": gender, "tone": tone}, prompts, min_cell=4, categories={"tone": ["light", "medium", "dark"]}
    )
    assert [c.labels for c in cells] == list(itertools.product(["man", "woman"], ["light", "medium", "dark"]))
    assert [c.n for c in cells] == [5, 0, 0, 2, 0, 4]
    assert cells[0].share == pytest.approx(5 / 11)
    assert cells[0].clusters == 2
    assert all(c.low <= c.share <= c.high for c in cells)
    assert [c.reported for c in cells] == [True, False, False, False, False, True]
    assert cells[3].note == "2 images, fewer than the 4 a combination needs"
    assert cells[0].note == ""
    assert cells[1].high > 0  # nobody seen is not nobody there


def test_joint_shares_says_what_is_wrong():
    with pytest.raises(ValueError, match="outside its categories"):
        joint_shares({"tone": ["x"]}, ["a"], categories={"tone": ["light"]})
    with pytest.raises(ValueError, match="columns of the 2"):
        joint_shares({"tone": ["x"]}, ["a", "b"])
    with pytest.raises(ValueError, match="min_cell"):
        joint_shares({"tone": ["x"]}, ["a"], 0)
    assert math.isnan(joint_shares({"tone": [None], "g": ["x"]}, ["a"], categories={"tone": ["y"]})[0].share)


def test_mean_std_prompts_without_images_do_not_enter():
    # Shares 0.9, 0.1: sqrt(0.4^2) = 0.4; 0.5, 0.5: 0.
    assert mean_std([[9, 1], [5, 5], [0, 0]]) == pytest.approx(0.2)
    assert math.isnan(mean_std([[0, 0]]))


@pytest.mark.parametrize("k", [2, 10])
def test_debiased_interval_of_one_hot_prompts_holds_the_largest_mad(k):
    counts = 9 * np.eye(k, dtype=int)[np.arange(84) % k]
    result = prompt_mad(counts)

    # A search that stops short of its last point leaves the truth out; only rounding may do so.
    assert result.debiased_high >= mad(np.eye(k)[0] * 9) * (1 - 4 * np.finfo(float).eps)
    assert result.debiased_low < result.debiased <= result.debiased_high
