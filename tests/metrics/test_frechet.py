"""Fréchet distance: hand-worked Gaussians, SciPy's matrix root, small sets, shards, and what its intervals hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import sqrtm

from verism.metrics import frechet
from verism.metrics._shared import jackknife_variance
from verism.metrics.frechet import (
    FeatureMoments,
    FeatureStatistics,
    fid_infinity,
    frechet_distance,
    frechet_from_features,
    frechet_interval,
    read_statistics,
)
from verism.metrics.kernel import kid


def by_definition(mean_a, cov_a, mean_b, cov_b):
    """The formula of Heusel et al. as printed, with SciPy's general matrix root."""
    root = sqrtm(np.asarray(cov_a) @ np.asarray(cov_b))
    step = np.asarray(mean_a) - np.asarray(mean_b)
    return float(step @ step + np.trace(cov_a) + np.trace(cov_b) - 2 * np.trace(root).real)


def features(n, dim, seed, *, shift=0.0, scale=1.0):
    """Correlated features with a falling spectrum."""
    rng = np.random.default_rng(seed)
    mix = np.random.default_rng(99).standard_normal((dim, dim)) / np.sqrt(1 + np.arange(dim))
    return rng.standard_normal((n, dim)) @ mix * scale + shift


# ------------------------------------------------------------------------------------------------------- the distance
@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        # (m_a - m_b)**2 + (s_a - s_b)**2
        pytest.param(([1.0], [[4.0]]), ([4.0], [[25.0]]), 9.0 + 9.0, id="one feature: 3**2 + (5 - 2)**2"),
        pytest.param(([0, 0], [[1, 0], [0, 4]]), ([3, 0], [[4, 0], [0, 9]]), 9 + 1 + 1, id="diagonal"),
        # Same eigenvectors (1, 1) and (1, -1): roots of eigenvalues 3, 1 against 12, 4: (2 sqrt 3 - sqrt 3)**2 + 1**2
        pytest.param(([0, 0], [[2, 1], [1, 2]]), ([0, 0], [[8, 4], [4, 8]]), 3.0 + 1.0, id="commuting"),
        # One has no spread at all: the trace of the other is left.
        pytest.param(([0, 0], [[0, 0], [0, 0]]), ([0, 2], [[5, 1], [1, 3]]), 4.0 + 8.0, id="a point"),
        # Spread along different axes: A B = 0, so both traces are left.
        pytest.param(([0, 0], [[7, 0], [0, 0]]), ([0, 0], [[0, 0], [0, 2]]), 9.0, id="orthogonal, rank 1 each"),
        pytest.param(([0, 0], [[9, 0], [0, 0]]), ([0, 0], [[4, 0], [0, 0]]), 1.0, id="parallel, rank 1 each"),
        pytest.param(([0, 0], [[9, 0], [0, 0]]), ([0, 0], [[4, 0], [0, 1]]), 2.0, id="rank 1 against full rank"),
    ],
)
def test_hand_worked(a, b, expected):
    assert frechet_distance(*a, *b) == pytest.approx(expected, rel=1e-12)
    assert frechet_distance(*b, *a) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("dim", [1, 2, 7, 40])
def test_equals_the_printed_formula_with_scipys_matrix_root(dim):
    real, generated = features(300, dim, 1), features(200, dim, 2, shift=0.3, scale=1.2)
    args = (real.mean(0), np.cov(real.T).reshape(dim, dim), generated.mean(0), np.cov(generated.T).reshape(dim, dim))
    expected = by_definition(*args)
    assert frechet_distance(*args) == pytest.approx(expected, rel=1e-9)
    assert frechet_from_features(real, generated).value == pytest.approx(expected, rel=1e-9)


def test_steep_spectra_keep_their_digits():
    # Commuting covariances have a known distance. Their eigenvalues span 16 orders of magnitude, and those of the
    # product 32: most of them drown in rounding, and their roots would not.
    rng = np.random.default_rng(4)
    basis = np.linalg.qr(rng.standard_normal((120, 120)))[0]
    a, b = np.logspace(3, -13, 120), np.logspace(3, -13, 120)[rng.permutation(120)]
    got = frechet_distance(np.zeros(120), basis * a @ basis.T, np.zeros(120), basis * b @ basis.T)
    assert got == pytest.approx(np.sum((np.sqrt(a) - np.sqrt(b)) ** 2), rel=1e-7)


def test_scipys_root_of_a_singular_product_is_what_we_avoid():
    # 30 images, 60 features: the distance from the images themselves, from their singular covariances, and in exact
    # terms from the images in a basis of their own span.
    real, generated = features(30, 60, 1), features(25, 60, 2, shift=0.2)
    cov_r, cov_g = np.cov(real.T), np.cov(generated.T)
    few = frechet_from_features(real, generated).value
    assert frechet_distance(real.mean(0), cov_r, generated.mean(0), cov_g) == pytest.approx(few, rel=1e-9)
    cross = (real - real.mean(0)) @ (generated - generated.mean(0)).T / math.sqrt(29 * 24)
    step = real.mean(0) - generated.mean(0)
    exact = step @ step + np.trace(cov_r) + np.trace(cov_g) - 2 * np.linalg.svd(cross, compute_uv=False).sum()
    assert few == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize(("n", "m"), [(20, 30), (20, 500), (500, 20), (41, 40), (40, 41), (500, 400), (2, 2)])
def test_few_images_and_many_agree_with_covariances(n, m):
    real, generated = features(n, 40, 5), features(m, 40, 6, shift=0.1)
    covariances = frechet_distance(real.mean(0), np.cov(real.T), generated.mean(0), np.cov(generated.T))
    assert frechet_from_features(real, generated).value == pytest.approx(covariances, rel=1e-8)


@pytest.mark.parametrize("n", [15, 200], ids=["fewer images than features", "more"])
def test_a_set_is_at_distance_0_from_itself(n):
    x = features(n, 40, 7, shift=5.0)
    spread = float(np.var(x, axis=0).sum())
    assert 0 <= frechet_from_features(x, x[::-1]).value < 1e-9 * spread


def test_repeated_images_leave_rank_missing_and_the_value_right():
    x = np.repeat(features(12, 30, 3), 4, axis=0)  # 48 rows, rank 11
    y = features(60, 30, 4)
    moments = FeatureMoments.of(x)
    cross = (x - x.mean(0)) @ np.linalg.cholesky(np.cov(y.T)) / math.sqrt(47)
    step = x.mean(0) - y.mean(0)
    exact = step @ step + np.trace(np.cov(x.T)) + np.trace(np.cov(y.T)) - 2 * np.linalg.norm(cross, "nuc")
    assert frechet_from_features(x, y).value == pytest.approx(exact, rel=1e-9)
    assert frechet_distance(*moments.statistics()[:2], y.mean(0), np.cov(y.T)) == pytest.approx(exact, rel=1e-9)


@given(st.integers(0, 10_000), st.floats(0.1, 10), st.integers(2, 6))
def test_shifts_rotations_and_scales_do_what_a_distance_does(seed, scale, dim):
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((20, dim)), rng.standard_normal((15, dim)) + 1
    value = frechet_from_features(a, b).value
    turn, shift = np.linalg.qr(rng.standard_normal((dim, dim)))[0], rng.standard_normal(dim)
    moved = frechet_from_features(scale * a @ turn + shift, scale * b @ turn + shift).value
    assert moved == pytest.approx(scale**2 * value, rel=1e-7, abs=1e-9)
    assert frechet_from_features(b, a).value == pytest.approx(value, rel=1e-9)
    assert frechet_from_features(a[rng.permutation(20)], b).value == pytest.approx(value, rel=1e-9)


def test_float32_features_give_the_value_of_the_same_numbers_in_float64():
    a, b = features(300, 20, 1).astype(np.float32), features(300, 20, 2, shift=0.1).astype(np.float32)
    exact = frechet_from_features(a.astype(np.float64), b.astype(np.float64)).value
    assert frechet_from_features(a, b).value == pytest.approx(exact, rel=1e-12)


def test_the_bias_is_warned_of_with_the_numbers():
    result = frechet_from_features(features(30, 40, 1), features(500, 40, 2))
    assert (result.n_real, result.n_generated, result.dim) == (30, 500, 40)
    assert "Only 30 real images for 40 features" in result.warning
    assert frechet_from_features(features(41, 40, 1), features(500, 40, 2)).warning == ""
    both = frechet_from_features(features(30, 40, 1), features(7, 40, 2))
    assert "30 real images and 7 generated images" in both.warning


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: frechet_distance([0, 0], np.eye(2), [0], [[1]]), "as many features; got 2 and 1"),
        (lambda: frechet_distance([0, 0], np.eye(3), [0, 0], np.eye(2)), r"got \(3, 3\) and \(2,\)"),
        (lambda: frechet_distance([0, 0], [[1, 2], [0, 1]], [0, 0], np.eye(2)), "cov_a must be symmetric"),
        (lambda: frechet_distance([0, 0], [[1, 2], [2, 1]], [0, 0], [[1, 2], [2, 1]]), "without negative eigenvalues"),
        (lambda: frechet_distance([0, np.nan], np.eye(2), [0, 0], np.eye(2)), "NaN or infinity"),
        (lambda: frechet_from_features(np.ones((3, 2)), np.ones((3, 4))), "2 features and generated ones 4"),
        (
            lambda: frechet_from_features(np.ones((1, 2)), np.ones((3, 2))),
            "at least 2 images for a covariance; got 1",
        ),
        (lambda: frechet_from_features(np.ones(3), np.ones((3, 2))), r"real must be features .* got shape \(3,\)"),
        (lambda: frechet_from_features([[1.0], [np.nan]], [[1.0], [2.0]]), "NaN or infinity in 1 of 2 images"),
        (lambda: frechet_from_features([["a"], ["b"]], [[1.0], [2.0]]), "real numbers; got <U1"),
        (lambda: FeatureMoments(0), "dim must be at least 1"),
        (lambda: FeatureMoments(3).update(np.ones((2, 4))), "3 numbers per image, as those before; got 4"),
        (lambda: FeatureMoments(3).merge(FeatureMoments(4)), "got 3 and 4"),
    ],
)
def test_bad_input_says_what_was_expected(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# ------------------------------------------------------------------------------------------------------------ moments
@pytest.mark.parametrize("batch", [1, 7, 100, 1000])
def test_moments_do_not_depend_on_batches(batch):
    x = features(500, 12, 1, shift=3.0).astype(np.float32)
    moments = FeatureMoments(12)
    for start in range(0, 500, batch):
        moments.update(x[start : start + batch])
    exact = x.astype(np.float64)
    np.testing.assert_allclose(moments.mean, exact.mean(0), rtol=1e-13)
    np.testing.assert_allclose(moments.covariance, np.cov(exact.T), rtol=1e-11, atol=1e-12)
    assert moments.n == 500


def test_a_large_offset_costs_no_digits():
    # Sums of squares about 0 would be 1e16 and leave nothing of a variance of 1.
    x = features(400, 5, 1)
    shifted = FeatureMoments(5)
    for part in np.array_split(x + 1e8, 9):
        shifted.update(part)
    np.testing.assert_allclose(shifted.covariance, np.cov((x + 1e8).T), rtol=1e-9)
    np.testing.assert_allclose(shifted.covariance, np.cov(x.T), rtol=1e-6, atol=1e-7)  # 1e8 + x itself is rounded


def test_shards_merge_in_any_order():
    x = features(600, 16, 2, shift=10.0)
    parts = np.array_split(x, [3, 50, 51, 400])
    full_value = FeatureMoments.of(x)
    for seed in range(6):
        merged = FeatureMoments(16)
        for i in np.random.default_rng(seed).permutation(len(parts)):
            merged.merge(FeatureMoments.of(parts[i]))
        merged.merge(FeatureMoments(16))  # an empty shard
        assert merged.n == 600
        np.testing.assert_allclose(merged.mean, full_value.mean, rtol=0, atol=1e-10)
        np.testing.assert_allclose(merged.covariance, full_value.covariance, rtol=0, atol=1e-10)


def test_a_shard_merged_with_itself_counts_twice():
    moments = FeatureMoments.of([[0.0], [2.0]])
    moments.merge(moments)
    assert (moments.n, moments.mean[0], moments.covariance[0, 0]) == (4, 1.0, pytest.approx(4 / 3))


def test_undefined_moments_are_nan():
    assert np.isnan(FeatureMoments(2).mean).all()
    one = FeatureMoments.of([[1.0, 2.0]])
    assert one.mean.tolist() == [1.0, 2.0]
    assert np.isnan(one.covariance).all()


# -------------------------------------------------------------------------------------------------------------- files
def test_moments_are_saved_loaded_and_continued(tmp_path):
    x = features(300, 6, 3)
    path = tmp_path / "part.npz"
    FeatureMoments.of(x[:200]).save(path)
    again = FeatureMoments.load(path)
    again.update(x[200:])
    np.testing.assert_allclose(again.covariance, np.cov(x.T), rtol=1e-12)
    assert [p.name for p in tmp_path.iterdir()] == ["part.npz"]  # nothing half-written beside it
    read = read_statistics(path)
    assert read.n == 200
    assert frechet_from_features(read, x[200:]).n_real == 200


def test_published_statistics_files_are_read(tmp_path):
    # pytorch-fid and DM-GAN: mu and sigma. ADM's reference batches hold images and spatial statistics besides.
    cov = np.cov(features(50, 3, 1).T)
    np.savez(tmp_path / "old.npz", mu=np.zeros(3, np.float32), sigma=cov)
    np.savez(tmp_path / "adm.npz", arr_0=np.zeros((2, 4, 4, 3), np.uint8), mu=np.ones(3), sigma=cov, mu_s=1, sigma_s=2)
    old, adm = read_statistics(tmp_path / "old.npz"), read_statistics(tmp_path / "adm.npz")
    assert (old.n, old.mean.dtype) == (None, np.float64)
    result = frechet_from_features(old, adm)
    assert result.value == pytest.approx(3.0)
    assert (result.n_real, result.n_generated, result.warning) == (None, None, "")
    with pytest.raises(ValueError, match="does not say of how many images"):
        FeatureMoments.load(tmp_path / "old.npz")


def test_statistics_rounded_to_float32_are_accepted():
    x = features(20, 30, 1, scale=10)
    rounded = FeatureStatistics(x.mean(0), np.cov(x.T).astype(np.float32), 20)  # slightly negative eigenvalues
    y = features(25, 30, 2, scale=10)
    assert frechet_from_features(rounded, y).value == pytest.approx(frechet_from_features(x, y).value, rel=1e-4)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda p: np.savez(p, mean=np.zeros(2)), r"mu and sigma missing among \['mean'\]"),
        (lambda p: np.savez(p, mu=np.zeros(2)), "sigma missing"),
        (lambda p: np.savez(p, mu=np.zeros(2), sigma=np.eye(3)), r"shapes \(D, D\) and \(D,\); got \(3, 3\)"),
        (lambda p: np.savez(p, mu=np.zeros(2), sigma=np.full((2, 2), np.nan)), "NaN"),
        (lambda p: np.savez(p, mu=np.zeros(2), sigma=np.eye(2), n=1), "n must be at least 2; got 1"),
        (lambda p: np.savez(p, mu=np.array([{}], dtype=object), sigma=np.eye(2)), "plain numbers, not Python objects"),
        (lambda p: p.write_bytes(b"not a zip"), "cannot be read"),
        (lambda p: p.write_bytes(b""), "cannot be read"),
        (lambda p: np.save(p.open("wb"), np.zeros(3)), "single array"),
    ],
)
def test_bad_files_are_refused_by_name(tmp_path, write, message):
    path = tmp_path / "s.npz"
    write(path)
    with pytest.raises(ValueError, match=message) as err:
        read_statistics(path)
    assert "s.npz" in str(err.value)


def test_too_few_images_are_not_saved(tmp_path):
    with pytest.raises(ValueError, match="at least 2 images"):
        FeatureMoments.of([[1.0]]).save(tmp_path / "s.npz")
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------------------------------------------------- intervals
@pytest.mark.parametrize("n", [12, 100], ids=["fewer images than features", "more"])
def test_leaving_out_groups_equals_computing_again(n):
    x, other = features(n, 15, 1), features(60, 15, 2)
    groups = np.array_split(np.random.default_rng(0).permutation(n), 4)
    full_value, without = frechet._Projection(x, frechet._spread(other, "real")).leave_out(groups)
    assert full_value == pytest.approx(frechet_from_features(other, x).value, rel=1e-9)
    for group, value in zip(groups, without, strict=True):
        assert value == pytest.approx(frechet_from_features(other, np.delete(x, group, axis=0)).value, rel=1e-9)


@pytest.mark.parametrize("chunk", [7, 64, 4096])
@pytest.mark.parametrize("kept", [0, 2**28])
def test_features_in_chunks_give_the_numbers_of_all_at_once(chunk, kept, monkeypatch):
    # To the precision of sums of some hundred products in float64, which the order of summation moves.
    real, generated = features(120, 9, 1), features(200, 9, 2, shift=0.3)
    interval, limit = frechet_interval(real, generated), fid_infinity(real, generated, n_points=4, n_groups=3)
    monkeypatch.setattr(frechet, "CHUNK_ROWS", chunk)
    monkeypatch.setattr(frechet, "KEPT_VALUES", kept)
    assert frechet_interval(real, generated) == pytest.approx(interval, rel=1e-9)
    again = fid_infinity(real, generated, n_points=4, n_groups=3)
    assert again.values == pytest.approx(limit.values, rel=1e-9)
    assert (again.value, again.low, again.high) == pytest.approx((limit.value, limit.low, limit.high), rel=1e-6)


def test_features_mapped_from_a_file_are_as_those_in_memory(tmp_path):
    x, y = (features(n, 6, seed).astype(np.float32) for n, seed in ((90, 1), (80, 2)))
    x.tofile(tmp_path / "x.f32")
    mapped = np.memmap(tmp_path / "x.f32", np.float32, "r", shape=x.shape)
    assert frechet_interval(mapped, y) == frechet_interval(x, y)
    assert kid(mapped, y) == kid(x, y)


def test_jackknife_of_a_mean_is_its_textbook_variance():
    # Of a mean, the jackknife gives s**2 / n, here 2.5 / 5, with groups of one.
    x = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    without = (x.sum() - x) / 4
    assert jackknife_variance(3.0, without, np.ones(5)) == pytest.approx(2.5 / 5)


def hits(draw, expected, runs, **options):
    inside = 0
    for run in range(runs):
        real, generated, clusters = draw(np.random.default_rng(1000 + run))
        got = frechet_interval(real, generated, clusters=clusters, **options)
        inside += got.low <= expected <= got.high
    return inside / runs


@pytest.mark.parametrize(
    ("n", "dim", "shift"),
    [
        pytest.param(200, 4, 0.5, id="many images"),
        pytest.param(60, 8, 0.3, id="bias half of the value"),
        pytest.param(30, 40, 0.2, id="fewer images than features"),
    ],
)
def test_intervals_hold_the_expected_distance_at_this_number_of_images(n, dim, shift):
    def draw(rng):
        return rng.standard_normal((n, dim)), rng.standard_normal((n, dim)) * 1.2 + shift, None

    expected = np.mean([frechet_from_features(*draw(np.random.default_rng(s))[:2]).value for s in range(800)])
    assert 0.92 <= hits(draw, expected, 200) <= 1.0


def test_prompts_with_several_images_are_kept_together():
    # Six images of a prompt share most of what they are: as many independent facts as prompts, not as images.
    def draw(rng):
        prompts = np.repeat(np.arange(40), 6)
        generated = rng.standard_normal((40, 3))[prompts] + 0.2 * rng.standard_normal((240, 3)) + 0.5
        return FeatureStatistics(np.zeros(3), np.eye(3)), generated, prompts

    expected = np.mean([frechet_from_features(*draw(np.random.default_rng(s))[:2]).value for s in range(2000)])
    assert hits(draw, expected, 200) >= 0.9
    assert hits(lambda rng: (*draw(rng)[:2], None), expected, 200) < 0.8  # and this is what it costs to ignore them


def test_both_sides_add_their_share_and_fixed_ones_none():
    real, generated = features(80, 5, 1), features(80, 5, 2, shift=1.0)
    both = frechet_interval(real, generated)
    fixed = frechet_interval(FeatureMoments.of(real).statistics(), generated)
    assert both.value == pytest.approx(fixed.value)
    assert both.high - both.low > fixed.high - fixed.low > 0
    nothing = frechet_interval(FeatureMoments.of(real).statistics(), FeatureMoments.of(generated).statistics())
    assert nothing.value == pytest.approx(both.value)
    assert math.isnan(nothing.low)
    assert math.isnan(nothing.high)
    assert math.isnan(frechet_interval(real, generated, clusters=["one prompt"] * 80).low)
    with pytest.raises(ValueError, match="clusters needs the features of that side"):
        frechet_interval(real, FeatureMoments.of(generated).statistics(), clusters=[1])


def test_unequal_clusters_are_spread_evenly_and_kept_whole():
    clusters = np.repeat(np.arange(30), np.random.default_rng(0).integers(1, 9, 30))
    groups = frechet._groups(len(clusters), clusters, 5, np.random.default_rng(1))
    sizes = [len(g) for g in groups]
    assert sum(sizes) == len(clusters)
    assert max(sizes) - min(sizes) <= 2
    assert sum(len(set(clusters[g])) for g in groups) == 30


# ------------------------------------------------------------------------------------------------------- FID-infinity
def test_extrapolation_finds_the_distance_behind_the_bias():
    # Real statistics N(0, 1) in 10 features, generated N(0.3, 1): the distance is 10 * 0.09 = 0.9.
    fixed = FeatureStatistics(np.zeros(10), np.eye(10))
    biased, extrapolated, slopes, held = [], [], [], 0
    for seed in range(40):
        generated = np.random.default_rng(seed).standard_normal((400, 10)) + 0.3
        got = fid_infinity(fixed, generated, smallest=100, n_points=8, seed=seed)
        biased.append(frechet_from_features(fixed, generated).value)
        extrapolated.append(got.value)
        held += got.low <= 0.9 <= got.high
        slopes.append(got.slope)
    assert np.mean(biased) > 0.9 + 4 * np.std(biased) / math.sqrt(40)
    assert abs(np.mean(extrapolated) - 0.9) < 3 * np.std(extrapolated) / math.sqrt(40)
    assert np.mean(slopes) > 0
    assert held >= 36


def test_extrapolation_is_reproducible_and_says_what_it_did():
    real, generated = features(50, 20, 1), features(60, 20, 2, shift=0.2)
    one, two = (fid_infinity(real, generated, smallest=15, n_points=5, n_groups=3, seed=4) for _ in range(2))
    assert (one.value, one.low, one.high) == (two.value, two.low, two.high)
    assert one.sizes.tolist() == [15, 26, 38, 49, 60]
    assert one.values[-1] == pytest.approx(frechet_from_features(real, generated).value)  # all images
    assert (one.n_real, one.n_generated) == (50, 60)
    assert "smallest subset has 15 images for 20 features" in one.warning
    bare = fid_infinity(real, generated, n_groups=0)
    assert math.isnan(bare.low)
    assert bare.sizes[0] == 30
    assert bare.warning == ""


@pytest.mark.parametrize("smallest", [1, 60, 100])
def test_subset_sizes_must_fit(smallest):
    with pytest.raises(ValueError, match=r"smallest must lie in 4 \.\. 59 for 60 generated images"):
        fid_infinity(features(50, 4, 1), features(60, 4, 2), smallest=smallest)
