"""Kernel distance: hand-worked, against the definition with its double loop, and intervals that hold what they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics.pairwise import polynomial_kernel

from verism.metrics import kernel
from verism.metrics.kernel import kid, kid_subsets


def by_definition(x, y):
    """Bińkowski et al.: unbiased squared MMD with scikit-learn's kernel, in full."""
    gamma, n, m = 1 / x.shape[1], len(x), len(y)
    xx, yy, xy = (polynomial_kernel(a, b, degree=3, gamma=gamma, coef0=1) for a, b in ((x, x), (y, y), (x, y)))
    inner = (xx.sum() - np.trace(xx)) / (n * (n - 1)) + (yy.sum() - np.trace(yy)) / (m * (m - 1))
    return inner - 2 * xy.mean()


def sets(n, m, dim, seed=0, shift=0.2):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, dim)), rng.standard_normal((m, dim)) + shift


def test_hand_worked_in_two_features():
    # gamma = 1/2. k(x1, x2) = (0/2 + 1)**3 = 1; k(y1, y2) = (1/2 + 1)**3. Between them:
    # k(x1, y1) = (2/2 + 1)**3 = 8, k(x1, y2) = 8, k(x2, y1) = (0 + 1)**3 = 1, k(x2, y2) = (6/2 + 1)**3 = 64
    x, y = [[2.0, 0.0], [0.0, 2.0]], [[1.0, 0.0], [1.0, 3.0]]
    cross = 8 + 8 + 1 + 64
    assert kid(x, y).value == pytest.approx(1 + 1.5**3 - 2 * cross / 4)


@pytest.mark.parametrize(("n", "m", "dim"), [(2, 2, 1), (30, 17, 5), (200, 333, 40)])
def test_equals_the_definition_with_scikit_learns_kernel(n, m, dim):
    x, y = sets(n, m, dim)
    assert kid(x, y).value == pytest.approx(by_definition(x, y), rel=1e-10)


@pytest.mark.parametrize("tile", [1, 7, 64])
def test_tiles_do_not_change_the_result(monkeypatch, tile):
    x, y = sets(50, 33, 6)
    full_value = kid(x, y)
    monkeypatch.setattr(kernel, "TILE", tile)
    np.testing.assert_allclose(kid(x, y), full_value, rtol=1e-11)


@pytest.mark.parametrize(("degree", "gamma", "coef0"), [(1, None, 0.0), (2, 0.3, 1.0), (3, 2.0, 0.5)])
def test_other_kernels(degree, gamma, coef0):
    x, y = sets(20, 25, 4)
    got = kid(x, y, degree=degree, gamma=gamma, coef0=coef0).value
    kernels = [polynomial_kernel(a, b, degree=degree, gamma=gamma or 0.25, coef0=coef0) for a, b in ((x, x), (y, y))]
    cross = polynomial_kernel(x, y, degree=degree, gamma=gamma or 0.25, coef0=coef0)
    inner = [(k.sum() - np.trace(k)) / (len(k) * (len(k) - 1)) for k in kernels]
    assert got == pytest.approx(sum(inner) - 2 * cross.mean(), rel=1e-10)


@given(st.integers(0, 10_000))
def test_order_and_sides_do_not_matter(seed):
    x, y = sets(12, 9, 3, seed)
    rng = np.random.default_rng(seed)
    one, two = kid(x, y), kid(y[rng.permutation(9)], x[rng.permutation(12)])
    np.testing.assert_allclose(one[:3], two[:3], rtol=1e-9, atol=1e-12)


def test_float32_agrees_with_float64():
    x, y = sets(400, 300, 256)
    single = kid(x.astype(np.float32), y.astype(np.float32))
    exact = kid(x.astype(np.float32).astype(np.float64), y.astype(np.float32).astype(np.float64))
    assert single.value == pytest.approx(exact.value, abs=2e-7)  # kernels are about 1
    assert single.high == pytest.approx(exact.high, abs=2e-7)
    assert kid(x.astype(np.float16), y.astype(np.float16)).value == pytest.approx(exact.value, abs=1e-3)


def test_the_interval_is_the_jackknife_by_hand():
    x, y = sets(12, 10, 3)
    value = by_definition(x, y)
    variances = []
    for side, rows in ((0, 12), (1, 10)):
        without = [
            by_definition(np.delete(x, i, 0) if side == 0 else x, np.delete(y, i, 0) if side else y)
            for i in range(rows)
        ]
        variances.append((rows - 1) / rows * np.sum((np.array(without) - np.mean(without)) ** 2))
    got = kid(x, y)
    freedom = sum(variances) ** 2 / (variances[0] ** 2 / 11 + variances[1] ** 2 / 9)
    half = kernel.student_quantile(freedom, 0.975) * math.sqrt(sum(variances))
    assert (got.value, got.low, got.high) == pytest.approx((value, value - half, value + half), rel=1e-9)


def test_leaving_out_a_prompt_leaves_out_all_its_images():
    x, y = sets(9, 14, 3)
    prompts = np.array([0, 1, 2, 0, 1, 2, 3, 3, 3, 3, 4, 5, 5, 0])
    inner, cross = kernel._inner_sums(y, (1 / 3, 1.0, 3)), kernel._cross_sums(x, y, (1 / 3, 1.0, 3))[1]
    other = (kernel._inner_sums(x, (1 / 3, 1.0, 3)).sum(), 9)
    got, clusters = kernel._leave_one_out_variance(y, prompts, inner, cross, other, (1 / 3, 1.0, 3))
    without = np.array([by_definition(x, y[prompts != p]) for p in range(6)])
    sizes = np.bincount(prompts).astype(float)
    assert clusters == 6
    assert got == pytest.approx(kernel.jackknife_variance(by_definition(x, y), without, sizes), rel=1e-9)


def coverage(draw, expected, runs):
    held = 0
    for run in range(runs):
        real, generated, clusters = draw(np.random.default_rng(run))
        got = kid(real, generated, clusters=clusters)
        held += got.low <= expected <= got.high
    return held / runs


def test_intervals_hold_the_true_distance():
    # One feature, N(0, 1) against N(1, 1), k = (xy + 1)**3: E k(x, y) = sum of binom(3, j) E x**j E y**j.
    # Moments 1..3 of N(0, 1): 0, 1, 0; of N(1, 1): 1, 2, 4. xx: 1 + 3; yy: 1 + 3 + 3 * 4 + 16; xy: 1 + 3 * 2.
    expected = 4 + 32 - 2 * 7

    def draw(rng):
        return rng.standard_normal((300, 1)), rng.standard_normal((300, 1)) + 1, None

    assert np.mean([kid(*draw(np.random.default_rng(s))[:2]).value for s in range(200)]) == pytest.approx(
        expected, rel=0.05
    )
    assert coverage(draw, expected, 200) >= 0.91


def test_images_of_one_prompt_are_not_independent():
    def draw(rng):
        prompts = np.repeat(np.arange(40), 6)
        images = rng.standard_normal((40, 20))[prompts] + 0.2 * rng.standard_normal((240, 20))
        return rng.standard_normal((300, 20)), images + 0.5, prompts

    expected = np.mean([kid(*draw(np.random.default_rng(s))[:2]).value for s in range(10_000, 10_600)])
    assert coverage(draw, expected, 150) >= 0.9
    assert coverage(lambda rng: (*draw(rng)[:2], None), expected, 150) < 0.8


def test_one_prompt_has_no_interval():
    x, y = sets(5, 6, 2)
    got = kid(x, y, clusters=["a"] * 6)
    assert got.value == pytest.approx(by_definition(x, y))
    assert math.isnan(got.low)
    assert math.isnan(got.high)


def test_subsets_as_published():
    x, y = sets(80, 60, 4)
    got = kid_subsets(x, y, subsets=20, subset_size=30, seed=np.random.RandomState(2020))
    rng = np.random.RandomState(2020)
    values = []
    for _ in range(20):
        a, b = x[rng.choice(80, 30, replace=False)], y[rng.choice(60, 30, replace=False)]
        values.append(by_definition(a, b))
    np.testing.assert_allclose(got.values, values, rtol=1e-10)
    assert (got.mean, got.std) == pytest.approx((np.mean(values), np.std(values)))
    assert (
        kid_subsets(x, y, subsets=3, subset_size=30, seed=1).mean
        == kid_subsets(x, y, subsets=3, subset_size=30, seed=1).mean
    )


def test_one_subset_of_everything_is_the_whole():
    x, y = sets(40, 40, 4)
    assert kid_subsets(x, y, subsets=1, subset_size=40).mean == pytest.approx(kid(x, y).value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kid(np.ones((1, 2)), np.ones((3, 2))), "real needs at least 2 images, to make a pair; got 1"),
        (lambda: kid(np.ones((3, 2)), np.ones((3, 5))), "2 features and generated ones 5"),
        (lambda: kid(np.ones((3, 2)), np.full((3, 2), np.nan)), "generated has NaN or infinity in 3 of 3"),
        (lambda: kid(np.ones((3, 2)), np.ones((3, 2)), clusters=[1]), "one label for each of the 3"),
        (lambda: kid(np.ones((3, 2)), np.ones((3, 2)), degree=0), "degree must be at least 1"),
        (lambda: kid(np.ones((3, 2)), np.ones((3, 2)), confidence=1.0), "confidence must lie strictly"),
        (lambda: kid_subsets(np.ones((30, 2)), np.ones((20, 2))), "smaller set, 20 images; got 1000. Lower it"),
        (lambda: kid_subsets(np.ones((3, 2)), np.ones((3, 2)), subsets=0), "subsets must be at least 1"),
    ],
)
def test_bad_input_says_what_was_expected(call, message):
    with pytest.raises(ValueError, match=message):
        call()
