from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verism.metrics import retrieval
from verism.metrics.retrieval import (
    clipscore,
    consistency,
    cosine,
    mean_clipscore,
    mean_score,
    median_rank,
    percentile_10,
    r_precision,
    ranks,
    recall_at,
)


def vectors(n: int, dim: int, seed: int, *, kind: type = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, dim)).astype(kind)


def pairs(n: int, dim: int = 8, noise: float = 2.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Images near their own text, of unequal lengths."""
    rng = np.random.default_rng(seed)
    texts = rng.standard_normal((n, dim)) * rng.uniform(0.5, 2, size=(n, 1))
    images = texts + noise * rng.standard_normal((n, dim))
    return images.astype(np.float32), texts.astype(np.float32)


# --------------------------------------------------------------------------------------------------------------------
# Cosines
# --------------------------------------------------------------------------------------------------------------------
def test_scales_by_hand() -> None:
    # (3,4).(4,3) = 24 over 5 * 5; (1,0).(-2,0) = -2 over 1 * 2; (1,0).(0,7) = 0.
    image, text = [[3.0, 4.0], [1.0, 0.0], [1.0, 0.0]], [[4.0, 3.0], [-2.0, 0.0], [0.0, 7.0]]
    assert clipscore(image, text).tolist() == [0.96, -1.0, 0.0]
    assert clipscore(image, text, scale="x100").tolist() == [96.0, -100.0, 0.0]
    assert clipscore(image, text, scale="hessel").tolist() == [2.4, 0.0, 0.0]
    with pytest.raises(ValueError, match="scale must be one of cosine, x100, hessel; got 'w'"):
        clipscore(image, text, scale="w")  # type: ignore[arg-type]


def test_no_direction_no_score() -> None:
    image = [[0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0], [1.0, 1.0], [1.0, 1.0]]
    text = [[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 0.0], [1.0, 1.0]]
    for scale in ("cosine", "x100", "hessel"):
        values = clipscore(image, text, scale=scale)  # type: ignore[arg-type]
        assert np.isnan(values).tolist() == [True, True, True, True, False]
    assert mean_score(clipscore(image, text)) == (pytest.approx(1.0), 1, 4)
    assert cosine(np.zeros((0, 3)), np.zeros((0, 3))).shape == (0,)
    with pytest.raises(ValueError, match=r"got \(2, 3\) and \(3, 3\)"):
        cosine(np.ones((2, 3)), np.ones((3, 3)))


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1.0, 1e30])
def test_cosine_does_not_know_lengths(scale: float) -> None:
    a, b = vectors(9_000, 5, 0), vectors(9_000, 5, 1)  # more than are looked at together
    by_hand = [np.dot(x, y) / np.linalg.norm(x) / np.linalg.norm(y) for x, y in zip(a.astype(float), b.astype(float))]
    np.testing.assert_allclose(cosine(a * np.float32(scale), b), by_hand, atol=1e-6)
    assert np.abs(cosine(a, a * np.float32(3)) - 1).max() < 1e-7


def test_a_mean_below_zero_becomes_zero_by_name() -> None:
    assert mean_score([-3.0, 1.0, math.nan]) == (-1.0, 2, 1)
    assert mean_score([-3.0, 1.0, math.nan], floor_at_zero=True) == (0.0, 2, 1)
    assert mean_score([3.0, -1.0], floor_at_zero=True).value == 1.0, "single scores are not floored"
    empty = mean_score([math.nan], floor_at_zero=True)
    assert math.isnan(empty.value)
    assert empty[1:] == (0, 1)


# --------------------------------------------------------------------------------------------------------------------
# Consistency
# --------------------------------------------------------------------------------------------------------------------
def sort_and_interpolate(values: list[float]) -> float:
    ordered = sorted(values)
    position = (len(ordered) - 1) / 10
    lower = int(position)
    upper = min(lower + 1, len(ordered) - 1)
    return ordered[lower] + (position - lower) * (ordered[upper] - ordered[lower])


@pytest.mark.parametrize("n", [1, 2, 10, 11, 71, 180])
def test_percentile_is_that_of_sorting_and_interpolating(n: int) -> None:
    values = np.random.default_rng(n).normal(size=n)
    assert percentile_10(values) == pytest.approx(sort_and_interpolate(values.tolist()), abs=1e-15)
    assert percentile_10(values) == pytest.approx(np.percentile(values, 10), abs=1e-15)
    assert percentile_10([*values, math.nan]) == percentile_10(values[::-1])


def test_percentile_by_hand() -> None:
    assert percentile_10([7.0]) == 7.0
    assert percentile_10([2.0, 1.0]) == 1.1  # position 0.1
    assert percentile_10(range(10)) == 0.9  # position 0.9
    assert percentile_10(range(11)) == 1.0  # position 1
    assert percentile_10(range(180)) == pytest.approx(17.9)  # position 17.9
    assert math.isnan(percentile_10([math.nan]))
    with pytest.raises(ValueError, match="must be finite, or NaN"):
        percentile_10([1.0, math.inf])


def test_objects_weigh_the_same() -> None:
    # a: 0 .. 10, its percentile is 1. b: 5. c: no score. Mean over a and b: 3; over images it would be near 1.3.
    values = [*range(11), 5.0, math.nan, math.nan]
    result = consistency(values, [*"aaaaaaaaaaa", "b", "b", "c"])
    assert result.value == 3.0
    assert (result.n_used, result.n_unusable) == (12, 2)
    assert result.percentiles["a"] == 1.0
    assert result.percentiles["b"] == 5.0
    assert math.isnan(result.percentiles["c"])
    assert result.n_images == {"a": 11, "b": 1, "c": 0}
    assert math.isnan(result.low), "with one image nobody knows how much it varies"


def test_interval_is_that_of_a_plain_bootstrap() -> None:
    rng = np.random.default_rng(0)
    values = {"a": rng.normal(size=30), "b": 3 + rng.normal(size=41), "c": 2 * rng.normal(size=25)}
    result = consistency(np.concatenate(list(values.values())), [k for k, v in values.items() for _ in v], seed=1)
    plain = [np.mean([np.percentile(rng.choice(v, size=len(v)), 10) for v in values.values()]) for _ in range(4_000)]
    expected = np.quantile(plain, [0.025, 0.975]) - np.mean(plain) + result.value
    assert (result.low, result.high) == pytest.approx(expected, abs=0.03)  # ends vary by about 0.01; the width is 0.8
    assert result.low < result.value < result.high


@pytest.mark.parametrize("n", [2, 3, 5, 12])
def test_resampled_percentiles_are_distributed_as_those_of_drawn_resamples(n: int) -> None:
    ordered = np.sort(np.random.default_rng(n).normal(size=n))
    result = retrieval._resampled_tenth(ordered, 100_000, np.random.default_rng(0))
    plain = np.percentile(np.random.default_rng(1).choice(ordered, size=(100_000, n)), 10, axis=1)
    assert result.mean() == pytest.approx(plain.mean(), abs=0.015)
    # Few values are possible; each is as frequent.
    for value in np.unique(np.round(plain, 9)):
        assert np.isclose(result, value).mean() == pytest.approx(np.isclose(plain, value).mean(), abs=0.01)


@pytest.mark.parametrize("n", [10, 100])
def test_interval_covers_what_so_many_images_give_on_average(n: int) -> None:
    rng = np.random.default_rng(1)
    expected = np.percentile(rng.normal(size=(20_000, n)), 10, axis=1).mean()
    objects = np.repeat(np.arange(5), n)
    hits = 0
    for trial in range(300):
        result = consistency(rng.normal(size=5 * n), objects, seed=trial, n_resamples=500)
        hits += result.low <= expected <= result.high
    assert 0.92 <= hits / 300 <= 0.99


def test_order_of_images_does_not_matter() -> None:
    values, objects = np.random.default_rng(0).normal(size=60), list("abc") * 20
    order = np.random.default_rng(1).permutation(60)
    a = consistency(values, objects, seed=3, n_resamples=100)
    b = consistency(values[order], [objects[i] for i in order], seed=3, n_resamples=100)
    assert (a.low, a.high) == (b.low, b.high)
    assert a.value == pytest.approx(b.value, abs=1e-15)
    assert a.percentiles == b.percentiles


def test_consistency_of_nothing_and_of_wrong_input() -> None:
    nothing = consistency([], [])
    assert math.isnan(nothing.value)
    assert nothing.n_used == 0
    with pytest.raises(ValueError, match=r"one object per score; got 1 for shape \(2,\)"):
        consistency([1.0, 2.0], ["a"])
    with pytest.raises(ValueError, match="confidence must lie"):
        consistency([1.0], ["a"], confidence=1.0)


# --------------------------------------------------------------------------------------------------------------------
# R-precision as released
# --------------------------------------------------------------------------------------------------------------------
def released_by_hand(images: np.ndarray, texts: np.ndarray, *, pool: int, repeats: int, seed: int) -> float:
    """The loop: own text first, others with replacement from all, raw products, the first maximum wins."""
    stream = random.Random(seed)
    right = 0
    for _ in range(repeats):
        for i, image in enumerate(images):
            drawn = stream.choices(range(len(texts)), k=pool - 1)
            products = [float(np.dot(texts[j].astype(float), image.astype(float))) for j in (i, *drawn)]
            right += products.index(max(products)) == 0
    return right / repeats / len(images)


@pytest.mark.parametrize(("n", "pool", "repeats", "seed"), [(40, 10, 5, 10), (7, 100, 2, 3), (150, 4, 3, 2**32 - 1)])
def test_released_is_the_loop_draw_for_draw(n: int, pool: int, repeats: int, seed: int) -> None:
    images, texts = pairs(n)
    texts[n // 2] = texts[0]  # two equal captions
    estimate = r_precision(images, texts, protocol="released", pool=pool, repeats=repeats, seed=seed)
    expected = released_by_hand(images, texts, pool=pool, repeats=repeats, seed=seed)
    assert estimate.value == pytest.approx(expected, abs=1e-12)
    assert 0 < estimate.value < 1
    assert estimate.low < estimate.value < estimate.high


def test_the_stream_is_that_of_python() -> None:
    for seed in (0, 10, 2**32 - 1):
        python = random.Random(seed)
        ours = np.random.RandomState([seed]).random_sample(1000)
        assert ours.tolist() == [python.random() for _ in range(1000)]


def test_tiles_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    images, texts = pairs(60)
    full_value = [r_precision(images, texts, protocol=p, pool=9) for p in ("released", "revised")]  # type: ignore[arg-type]
    monkeypatch.setattr(retrieval, "TILE_CELLS", 7 * 60)
    monkeypatch.setattr(retrieval, "ROWS_AT_ONCE", 11)
    parts = [r_precision(images, texts, protocol=p, pool=9) for p in ("released", "revised")]  # type: ignore[arg-type]
    for a, b in zip(full_value, parts, strict=True):
        np.testing.assert_allclose(a.per_image, b.per_image, atol=1e-12)


def test_released_counts_lengths_and_ties_and_revised_does_not() -> None:
    # Every image looks at its own text, but text 0 is ten times as long and lies near all of them.
    texts = np.eye(4, dtype=np.float32) + 0.5
    texts[0] *= 10
    images = np.eye(4, dtype=np.float32) + 0.5
    lengths = r_precision(images, texts, protocol="released", method="exact", pool=3)
    # Images 1 to 3: text 0 alone is better. Two draws of 4 miss it with (3/4)**2 = 9/16. Image 0 always wins.
    assert lengths.per_image.tolist() == [1.0, 0.5625, 0.5625, 0.5625]
    assert r_precision(images, texts, pool=3).per_image.tolist() == [1.0] * 4
    # All texts at the same distance: the own comes first and wins, or has a fair chance of 1 in 3.
    same = np.eye(4, dtype=np.float32)
    blind = np.ones((4, 4), dtype=np.float32)
    assert r_precision(blind, same, protocol="released", pool=3).value == 1.0
    assert r_precision(blind, same, pool=3).value == pytest.approx(1 / 3)


def test_released_is_without_noise_what_it_is_on_average() -> None:
    images, texts = pairs(200, noise=3.0)
    texts[50:60] = texts[0]  # copies are drawn more often
    exact = r_precision(images, texts, protocol="released", method="exact", pool=20)
    sampled = r_precision(images, texts, protocol="released", pool=20, repeats=2_000)
    np.testing.assert_allclose(sampled.per_image, exact.per_image, atol=0.06)  # 5 standard errors: 0.056
    assert sampled.value == pytest.approx(exact.value, abs=0.005)


# --------------------------------------------------------------------------------------------------------------------
# R-precision as revised
# --------------------------------------------------------------------------------------------------------------------
def corrected_by_hand(images: np.ndarray, texts: np.ndarray, *, pool: int) -> list[float]:
    """All pools there are; equals share the win."""
    units = [t / np.linalg.norm(t) for t in texts.astype(float)]
    results = []
    for i, image in enumerate(images.astype(float)):
        near = [round(float(u @ image / np.linalg.norm(image)), 6) for u in units]
        others = {tuple(t): near[j] for j, t in enumerate(texts) if tuple(t) != tuple(texts[i])}
        wins = [
            (max(drawn) <= near[i]) / (1 + sum(d == near[i] for d in drawn))
            for drawn in itertools.combinations(others.values(), pool - 1)
        ]
        results.append(float(np.mean(wins)))
    return results


@pytest.mark.parametrize("pool", [2, 3, 5, 9])
def test_exact_is_the_mean_over_all_pools(pool: int) -> None:
    # Coordinates of -1, 0 and 1: many ties. Text 9 is text 0 once more: 9 distinct texts.
    rng = np.random.default_rng(5)
    texts = np.unique(rng.integers(-1, 2, size=(60, 4)), axis=0)[1:10].astype(np.float32)
    texts = np.concatenate([texts[np.abs(texts).sum(1) > 0][:9], texts[:1]])
    images = rng.integers(-1, 2, size=(10, 4)).astype(np.float32) + np.float32([2, 0, 0, 0])
    assert len(np.unique(texts, axis=0)) == 9
    expected = corrected_by_hand(images, texts, pool=pool)
    assert len(set(np.round(expected, 6))) > (1 if pool == 9 else 3), "not all the same, or it would show little"
    # Integers have exact products; in float64 so do equal cosines, nearly always. See how many are tied.
    owner = ranks(images.astype(np.float64), texts.astype(np.float64))
    assert owner.n_texts == 9
    estimate = r_precision(images.astype(np.float64), texts.astype(np.float64), pool=pool)
    np.testing.assert_allclose(estimate.per_image, expected, atol=1e-9)


@pytest.mark.parametrize(("better", "tied", "expected"), [
    # 5 others, 2 drawn: 10 pools. None better: all win. 2 better: pools without them C(3,2) = 3 of 10.
    (0, 0, 1.0), (2, 0, 0.3), (4, 0, 0.0), (5, 0, 0.0),
    # 1 tied, none better: C(4,2) = 6 pools without it, 4 with it at one half: (6 + 2) / 10.
    (0, 1, 0.8),
    # 5 tied: every pool has two equals, a third each.
    (0, 5, 1 / 3),
    # 1 better, 2 tied, 2 worse: of the C(4,2) = 6 pools without the better, 1 has no equal, 4 have one, 1 has two.
    (1, 2, (1 + 4 / 2 + 1 / 3) / 10),
])  # fmt: skip
def test_chance_to_win_by_hand(better: float, tied: float, expected: float) -> None:
    result = retrieval._chance_to_win(np.array([better]), np.array([tied]), 5, 2)
    assert result[0] == pytest.approx(expected, abs=1e-12)


def test_chance_to_win_keeps_its_digits_at_full_size() -> None:
    # Product of (m - b - j) / (m - j), in exact fractions, for 30,000 texts and 99 draws.
    from fractions import Fraction

    for better in (1, 37, 300, 5_000):
        exact = Fraction(1)
        for j in range(99):
            exact *= Fraction(29_999 - better - j, 29_999 - j)
        result = retrieval._chance_to_win(np.array([float(better)]), np.zeros(1), 29_999, 99)
        assert result[0] == pytest.approx(float(exact), rel=1e-8)
    # One equal: half of what pools with it would give. 99 of 29,999 pools' places: 1 - 99 / 29,999 / 2.
    result = retrieval._chance_to_win(np.zeros(1), np.ones(1), 29_999, 99)
    assert result[0] == pytest.approx(1 - 99 / 29_999 / 2, rel=1e-6)


def test_sampled_is_on_average_the_exact_one() -> None:
    images, texts = pairs(120, dim=6)
    exact = r_precision(images, texts, pool=12)
    sampled = r_precision(images, texts, pool=12, method="sampled", repeats=4_000)
    np.testing.assert_allclose(sampled.per_image, exact.per_image, atol=0.04)  # 5 standard errors
    blind = r_precision(np.ones((4, 4)), np.eye(4), pool=3, method="sampled", repeats=5)
    assert blind.value == pytest.approx(1 / 3), "two equals in every pool"


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), pool=st.integers(2, 12))
def test_neither_order_nor_lengths_matter(seed: int, pool: int) -> None:
    images, texts = pairs(24, seed=seed)
    rng = np.random.default_rng(seed)
    order = rng.permutation(24)
    plain = r_precision(images, texts, pool=pool)
    scaled = r_precision(
        images[order] * rng.uniform(0.1, 9, (24, 1)), texts[order] * rng.uniform(0.1, 9, (24, 1)), pool=pool
    )
    np.testing.assert_allclose(scaled.per_image, plain.per_image[order], atol=1e-9)
    texts_alone = rng.permutation(24)  # rows of texts in another order than the images
    estimate = r_precision(images, texts[texts_alone], positive=np.argsort(texts_alone), pool=pool)
    np.testing.assert_allclose(estimate.per_image, plain.per_image, atol=1e-9)


def test_a_larger_pool_is_harder_and_luck_is_one_over_it() -> None:
    images, texts = pairs(300)
    values = [r_precision(images, texts, pool=p).value for p in (2, 10, 100, 300)]
    assert values == sorted(values, reverse=True)
    luck = r_precision(vectors(400, 16, 0), vectors(400, 16, 1), pool=50)
    assert luck.low < 1 / 50 < luck.high
    assert r_precision(texts, texts, pool=100).value == 1.0


def test_copies_of_the_own_text_are_never_against_it() -> None:
    images, texts = pairs(6, noise=0.0)
    texts[1] = texts[0]
    images[1] = images[0]
    assert r_precision(images, texts, pool=5).value == 1.0
    with pytest.raises(ValueError, match="a pool of 6 needs as many different texts; there are 5"):
        r_precision(images, texts, pool=6)


def test_several_images_of_a_text_share_a_cluster() -> None:
    images, texts = pairs(60, noise=3.0)
    once = r_precision(images, texts, pool=10)
    thrice = r_precision(np.repeat(images, 3, axis=0), texts, positive=np.repeat(np.arange(60), 3), pool=10)
    assert thrice.value == pytest.approx(once.value)
    assert (thrice.low, thrice.high) == pytest.approx((once.low, once.high), abs=0.01), "not narrower by copying"
    assert thrice.n_used == 180


def test_images_without_a_vector_are_counted_and_not_scored() -> None:
    images, texts = pairs(20)
    full_value = r_precision(images, texts, pool=5)
    images[3], images[7, 2], images[9, 0] = 0, np.nan, np.inf
    for protocol in ("released", "revised"):
        estimate = r_precision(images, texts, protocol=protocol, pool=5)  # type: ignore[arg-type]
        assert (estimate.n_used, estimate.n_unusable) == (17, 3)
        assert np.flatnonzero(np.isnan(estimate.per_image)).tolist() == [3, 7, 9]
        assert estimate.value == pytest.approx(np.nanmean(estimate.per_image))
    kept = [i for i in range(20) if i not in (3, 7, 9)]
    np.testing.assert_allclose(estimate.per_image[kept], full_value.per_image[kept], atol=1e-12)
    nothing = r_precision(np.zeros((2, 8)), texts[:2], pool=2)
    assert math.isnan(nothing.value)
    assert math.isnan(nothing.low)


def test_the_interval_of_certain_wins_has_a_width() -> None:
    _, texts = pairs(50)
    estimate = r_precision(texts, texts, pool=10)
    assert estimate.value == estimate.high == 1.0
    assert 0.9 < estimate.low < 1.0


def test_wrong_input_is_said() -> None:
    images, texts = pairs(5)
    with pytest.raises(ValueError, match="protocol must be one of released, revised; got 'paper'"):
        r_precision(images, texts, protocol="paper")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="method must be one of exact, sampled"):
        r_precision(images, texts, method="fast")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="pool must be at least 2"):
        r_precision(images, texts, pool=1)
    with pytest.raises(ValueError, match="seed must lie in"):
        r_precision(images, texts, seed=-1, pool=2)
    with pytest.raises(ValueError, match=r"of one D, M >= 1; got \(5, 8\) and \(5, 7\)"):
        r_precision(images, texts[:, :7])
    with pytest.raises(ValueError, match="got 5 images and 4 texts"):
        r_precision(images, texts[:4])
    with pytest.raises(ValueError, match=r"must lie in 0 .. 4; got 1 to 5"):
        r_precision(images, texts, positive=[1, 2, 3, 4, 5])
    with pytest.raises(ValueError, match="positive must be 5 row numbers; got float64"):
        r_precision(images, texts, positive=[0.0] * 5)
    texts[2] = 0
    with pytest.raises(ValueError, match=r"1 text vector\(s\) hold NaN or infinite numbers, or only 0"):
        r_precision(images, texts)


# --------------------------------------------------------------------------------------------------------------------
# Ranks
# --------------------------------------------------------------------------------------------------------------------
def test_ranks_by_hand() -> None:
    # Text 3 is text 1 once more. Image 0 is nearest to text 1, then to its own; image 1 to its own.
    texts = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, 1.0]])
    images = np.array([[1.0, 2.0], [0.1, 5.0], [0.0, 1.0], [0.0, 0.0]])
    owner = ranks(images, texts)
    assert owner.n_texts == 3
    # Image 2: text 1 is better, text 0 exactly as near as its own. Image 3 has no direction.
    assert owner.better[:3].tolist() == [1, 0, 1]
    assert owner.tied[:3].tolist() == [0, 0, 1]
    assert math.isnan(owner.better[3])
    assert recall_at(1, owner)[:3].tolist() == [0, 1, 0]
    assert recall_at(2, owner)[:3].tolist() == [1, 1, 0.5]
    assert recall_at(3, owner)[:3].tolist() == [1, 1, 1]
    assert math.isnan(recall_at(1, owner)[3])
    assert median_rank(owner) == 2.0  # ranks 2, 1 and 2.5
    with pytest.raises(ValueError, match="k >= 1"):
        recall_at(0, owner)


def test_recall_at_one_is_r_precision_against_all_texts() -> None:
    images, texts = pairs(80)
    everything = r_precision(images, texts, pool=80)
    np.testing.assert_allclose(recall_at(1, ranks(images, texts)), everything.per_image, atol=1e-9)
    assert math.isnan(median_rank(ranks(np.zeros((1, 8)), texts, positive=[0])))


def test_mean_clipscore_images_without_score_are_counted_and_prompts_kept_together() -> None:
    image, text = pairs(60)
    image[7] = 0
    one_by_one, by_prompt = (
        mean_clipscore(image, text, scale="hessel", clusters=clusters) for clusters in (None, np.arange(60) // 20)
    )
    assert one_by_one.value == mean_score(clipscore(image, text, scale="hessel")).value
    assert (one_by_one.n_used, one_by_one.n_unusable) == (59, 1)
    assert one_by_one.low < one_by_one.value < one_by_one.high
    assert (by_prompt.low, by_prompt.high) != (one_by_one.low, one_by_one.high)
    with pytest.raises(ValueError, match="one label for each of the 60 images"):
        mean_clipscore(image, text, clusters=[1])
