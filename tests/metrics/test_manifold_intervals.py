"""Intervals of set metrics hold the truth as often as they say; splits and covariances are what they should be."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verism.metrics.manifold import (
    PRDC,
    _neighbours,
    _prdc,
    _tiles,
    grouped_half_samples,
    half_samples,
    prdc,
    shared_covariance,
)
from verism.metrics.manifold._splits import random_splits

RUNS = 60  # of each case; 400 runs of more cases are in benchmarks/manifold.py --intervals


@pytest.mark.parametrize("shift", [0.0, 0.25])
def test_intervals_hold_the_mean_of_repetitions(shift):
    rng = np.random.default_rng(1)
    runs = []
    for number in range(RUNS):
        real, generated = rng.standard_normal((100, 64)), rng.standard_normal((100, 64)) + shift
        runs.append(half_samples(real, generated, 3, seed=number, n_splits=12))
    for metric in PRDC._fields:
        values = np.array([getattr(run.values, metric) for run in runs])
        ends = np.array([run.interval(metric)[1:] for run in runs])
        held = np.mean((ends[:, 0] <= values.mean()) & (values.mean() <= ends[:, 1]))
        # 60 runs at 95 % hold it in 53 or more with probability 0.99. Density has long tails.
        assert held >= (51 if metric == "density" else 53) / 60, metric
        # Nor are they idle: no wider than twice what the true spread asks for.
        assert np.mean(ends[:, 1] - ends[:, 0]) < 2 * 2 * 1.96 * values.std(ddof=1), metric
        assert 0.7 < np.mean([run.standard_error(metric) for run in runs]) / values.std(ddof=1) < 1.9, metric


def test_the_bootstrap_that_is_not_used_is_biased():
    # Why halves: resampled with replacement, equal Gaussians of true coverage 0.87 look far less covered.
    rng = np.random.default_rng(2)
    real, generated = rng.standard_normal((2, 150, 64))
    resampled = [
        prdc(real[rng.integers(0, 150, 150)], generated[rng.integers(0, 150, 150)], 3).coverage for _ in range(20)
    ]
    assert np.mean(resampled) < prdc(real, generated, 3).coverage - 0.1


@pytest.mark.parametrize(("shift", "precision"), [(100.0, 0.0), (0.0, 1.0)])
def test_intervals_do_not_collapse_at_the_ends(shift, precision):
    rng = np.random.default_rng(3)
    real = rng.standard_normal((60, 16))
    result = half_samples(real, real[::2] * 0.01 + shift, 3, seed=0)
    value, low, high = result.interval("precision")
    assert value == precision
    assert high - low > 0.1
    assert result.standard_error("precision") > 0.01
    # All 30 as one would be 0.1; with a design effect of 3 of 10 independent ones: Wilson's z^2 / (n + z^2) = 0.28.
    assert high - low == pytest.approx(1.96**2 / (10 + 1.96**2), abs=0.01)
    value, low, high = result.interval("density")
    assert low <= value < high


def test_higher_levels_are_wider():
    rng = np.random.default_rng(4)
    result = half_samples(rng.standard_normal((80, 8)), rng.standard_normal((70, 8)), 3, seed=0)
    for metric in PRDC._fields:
        value, low, high = result.interval(metric)
        _, lower, higher = result.interval(metric, confidence=0.99)
        assert lower < low <= value <= high < higher


def test_halves_are_the_metrics_of_disjoint_halves():
    rng = np.random.default_rng(5)
    real, generated = rng.standard_normal((40, 8)), rng.standard_normal((31, 8))
    result = half_samples(real, generated, 3, seed=9, n_splits=4)
    assert result.values == prdc(real, generated, 3)
    assert result.halves.shape == (8, 4)
    assert np.array_equal(result.halves, half_samples(real, generated, 3, seed=9, n_splits=4).halves)
    assert not np.array_equal(result.halves, half_samples(real, generated, 3, seed=10, n_splits=4).halves)


# ----------------------------------------------------------------------------------------- all halves from one pass
def plain_numbers(real: np.ndarray, generated: np.ndarray, k: int, strict: bool) -> PRDC:
    """All differences in float64, at once."""

    def distance(a, b):
        difference = a[:, None].astype(np.float64) - b[None]
        return np.sqrt(np.einsum("ijd,ijd->ij", difference, difference))

    around_real = np.sort(distance(real, real), axis=1)[:, k]
    around_generated = np.sort(distance(generated, generated), axis=1)[:, k]
    between, below = distance(real, generated), np.less if strict else np.less_equal
    inside = below(between, around_real[:, None])
    return PRDC(
        np.mean(inside.any(axis=0)),
        np.mean(below(between, around_generated).any(axis=1)),
        inside.sum() / (k * len(generated)),
        np.mean(inside.any(axis=1)),
    )


def assert_halves_are_plain(real, generated, k, *, strict=True, n_splits=3, clusters=None, real_clusters=None):
    result = half_samples(
        real, generated, k, seed=5, strict=strict, n_splits=n_splits, clusters=clusters, real_clusters=real_clusters
    )
    assert result.values == plain_numbers(real, generated, k, strict)
    of_real = random_splits(len(real), n_splits, [5, 0], clusters=real_clusters, name="real").second
    of_generated = random_splits(len(generated), n_splits, [5, 1], clusters=clusters, name="generated").second
    assert len(result.halves) == 2 * n_splits
    for number, numbers in enumerate(result.halves):
        x, y = (points[second[:, number // 2] == number % 2] for points, second in
                ((real, of_real), (generated, of_generated)))  # fmt: skip
        assert tuple(numbers) == plain_numbers(x, y, k, strict), number


@pytest.fixture
def small_tiles(monkeypatch):
    shrink(monkeypatch)


def shrink(patch: pytest.MonkeyPatch) -> None:
    for module, sizes in (
        (_prdc, {"TILE_ROWS": 11, "TILE_COLUMNS": 7, "DECIDED": 64, "COUNTED_ROWS": 4}),
        (_neighbours, {"SELF_TILE": 9, "CROWD": 2, "RANKED": 64}),
        (_tiles, {"PICKED": 16}),
    ):
        for name, size in sizes.items():
            patch.setattr(module, name, size)


few_places = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=12, max_size=40)


@settings(max_examples=100)
@given(few_places, few_places, st.integers(1, 3), st.booleans(), st.sampled_from([np.int64, np.float32, np.float64]))
def test_ties_and_duplicates_in_halves_are_decided_exactly(real, generated, k, strict, dtype):
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch)
        assert_halves_are_plain(np.array(real, dtype), np.array(generated, dtype), k, strict=strict)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("width", [0.2, 0.8, 1.0, 2.0])  # from pairs that nearly all lie inside to hardly any
@pytest.mark.parametrize("k", [1, 3, 4])
def test_halves_of_clouds_equal_the_plain_numbers(width, k):
    rng = np.random.default_rng(20)
    real, generated = rng.standard_normal((60, 12)), width * rng.standard_normal((51, 12))
    assert_halves_are_plain(real, generated, k, n_splits=4, clusters=np.arange(51) // 3)
    assert_halves_are_plain(
        real.astype(np.float32), generated.astype(np.float32) + 1000, k, real_clusters=np.arange(60) % 20
    )


def test_more_divisions_than_a_word_has_bits():
    rng = np.random.default_rng(21)
    assert_halves_are_plain(rng.standard_normal((40, 3)), rng.standard_normal((33, 3)), 2, n_splits=70)


@pytest.mark.parametrize("tile", [50, 1536])
def test_points_whose_many_nearest_neighbours_all_lie_in_the_other_half(tile, monkeypatch):
    # Eight images of one prompt far from each other, each in the midst of 40 of the other prompt: with two prompts
    # every half holds one of them, so the 40 nearest never count, and lists of a few dozen are too short.
    monkeypatch.setattr(_neighbours, "SELF_TILE", tile)
    rng = np.random.default_rng(22)
    centres = 100 * rng.standard_normal((8, 5))
    generated = np.concatenate([centres, np.repeat(centres, 40, axis=0) + rng.standard_normal((320, 5))])
    real = 60 * rng.standard_normal((90, 5))
    assert_halves_are_plain(real, generated, 3, n_splits=2, clusters=np.repeat([0, 1], [8, 320]))


@pytest.mark.parametrize("where", ["generated", "real"])
def test_a_collapsed_set_and_copies(where):
    rng = np.random.default_rng(23)
    varied = rng.standard_normal((70, 6)).astype(np.float32)
    same = np.concatenate([np.full((60, 6), 0.3), varied[:8], varied[:4]]).astype(np.float32)
    for strict in (True, False):
        pair = (varied, same) if where == "generated" else (same, varied)
        assert_halves_are_plain(*pair, 3, strict=strict)


def test_intervals_cost_no_more_products_than_the_numbers(monkeypatch):
    rng = np.random.default_rng(24)
    real, generated = rng.standard_normal((2, 1200, 64)).astype(np.float32)
    multiplied, measured = [], []
    products, exact = _tiles.partial_product, _tiles.distances

    def counting_products(x, y, buffer):
        multiplied.append(len(x.norms) * len(y.norms))
        return products(x, y, buffer)

    def counting_distances(x, y, rows, columns):
        measured.append(len(rows))
        return exact(x, y, rows, columns)

    for module in (_tiles, _prdc):
        monkeypatch.setattr(module, "partial_product", counting_products)
    for module in (_neighbours, _prdc):
        monkeypatch.setattr(module, "distances", counting_distances)
    prdc(real, generated, 3)
    alone = sum(multiplied)
    multiplied.clear()
    measured.clear()
    half_samples(real, generated, 3, seed=0)
    assert sum(multiplied) == alone
    assert sum(measured) < 40 * 2400  # a few dozen neighbours of each point, of 1,200


def test_strata_are_halved_each():
    # Ten places far apart. Halves that hold six points of each place see all places; coverage hardly varies.
    rng = np.random.default_rng(6)
    kinds = np.repeat(np.arange(10), 12)
    centres = rng.standard_normal((10, 8)) * 100
    real, generated = (centres[kinds] + rng.standard_normal((120, 8)) for _ in range(2))
    generated[kinds > 4] += 1000  # five of the places are missed
    free = half_samples(real, generated, 3, seed=0)
    bound = half_samples(real, generated, 3, seed=0, strata=(kinds, list(kinds)))
    column = PRDC._fields.index("coverage")
    assert bound.halves[:, column].std() < 0.8 * free.halves[:, column].std()


def test_sets_too_small_for_halves_have_a_value_without_ends():
    rng = np.random.default_rng(7)
    result = half_samples(rng.standard_normal((9, 4)), rng.standard_normal((30, 4)), 3, seed=0)
    value, low, high = result.interval("coverage")
    assert not math.isnan(value)
    assert math.isnan(low)
    assert math.isnan(high)
    assert math.isnan(result.standard_error("density"))


def test_groups_equal_separate_calls_and_keep_small_ones():
    rng = np.random.default_rng(8)
    real, generated = rng.standard_normal((80, 6)), rng.standard_normal((60, 6))
    groups, others = ["a"] * 40 + ["b"] * 36 + ["c"] * 4, ["a"] * 30 + ["b"] * 30
    result = grouped_half_samples(real, generated, groups, others, 3, seed=1, n_splits=3)
    alone = half_samples(real[40:76], generated[30:], 3, seed=1, n_splits=3)
    assert result["b"].values == alone.values
    np.testing.assert_array_equal(result["b"].halves, alone.halves)
    assert math.isnan(result["c"].values.precision)
    assert (result["c"].n_real, result["c"].n_generated) == (4, 0)
    assert math.isnan(result["c"].interval("precision").low)


def test_groups_that_share_their_generated_set_move_together():
    # Both regions look alike, so which generated images there are matters to both in the same way.
    rng = np.random.default_rng(9)
    real = np.concatenate([rng.standard_normal((100, 2))] * 2) + rng.standard_normal((200, 2)) * 0.01
    generated = rng.standard_normal((60, 2)) * 2
    result = grouped_half_samples(real, generated, [0] * 100 + [1] * 100, None, 3, seed=0)
    covariance = shared_covariance([result[0], result[1]], "precision")
    errors = [result[g].standard_error("precision") for g in (0, 1)]
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), errors)
    assert covariance[0, 1] == covariance[1, 0]
    assert covariance[0, 1] / (errors[0] * errors[1]) > 0.4


# ------------------------------------------------------------------------------------------------------------- prompts
def off_manifold_prompts(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """150 real points, and 15 prompts of 10 with an intraclass correlation of .5, one in seven beside the manifold."""
    prompt = np.repeat(np.arange(15), 10)
    real = rng.standard_normal((150, 6))
    generated = np.sqrt(0.5) * (rng.standard_normal((15, 6))[prompt] + rng.standard_normal((150, 6)))
    generated += 6.0 * (rng.random(15) < 1 / 7)[prompt, None]
    return real, generated, prompt


def test_intervals_with_prompts_hold_where_those_without_do_not():
    rng = np.random.default_rng(11)
    runs = []
    for number in range(RUNS):
        real, generated, prompt = off_manifold_prompts(rng)
        runs.append([half_samples(real, generated, 3, seed=number, n_splits=12, clusters=c) for c in (None, prompt)])
    truth = np.mean([single.values.precision for single, _ in runs])
    held = [
        np.mean([ends.low <= truth <= ends.high for ends in (r[i].interval("precision") for r in runs)]) for i in (0, 1)
    ]
    assert held[0] < 50 / 60
    assert held[1] >= 53 / 60
    for single, whole in runs:
        assert single.values == whole.values  # prompts are about intervals alone


def test_halves_hold_whole_clusters_of_similar_sizes_together():
    sizes = [9, 1, 4, 4, 7, 2, 9, 1]
    clusters = np.repeat(np.arange(8), sizes)
    rng = np.random.default_rng(12)
    shuffled = rng.permutation(len(clusters))
    splits = random_splits(len(clusters), 50, [0], clusters=clusters[shuffled], name="real")
    for split in splits.second.T:
        by_cluster = [split[clusters[shuffled] == number] for number in range(8)]
        assert all(part.all() or not part.any() for part in by_cluster)
        assert [sum(part.any() for part in by_cluster)] == [4]
        # Pairs (9, 9), (7, 4), (4, 2), (1, 1): halves of 37 points differ by at most 0 + 3 + 2 + 0.
        assert abs(2 * int(split.sum()) - 37) <= 5
    assert len({split.tobytes() for split in splits.second.T}) > 8
    assert splits.freedom == 7
    assert splits.cluster_size == pytest.approx(sum(s * s for s in sizes) / 37)
    relabelled = np.array(list("hgfedcba"))[clusters[shuffled]]
    again = random_splits(len(clusters), 50, [0], clusters=relabelled, name="real")
    np.testing.assert_array_equal(again.second, splits.second)


def test_a_prompt_for_each_image_is_no_cluster():
    rng = np.random.default_rng(13)
    real, generated = rng.standard_normal((40, 4)), rng.standard_normal((31, 4))
    plain = half_samples(real, generated, 3, seed=1)
    same = half_samples(
        real, generated, 3, seed=1, clusters=[f"p{i % 31}" for i in range(7, 38)], real_clusters=np.arange(40)[::-1]
    )
    np.testing.assert_array_equal(same.halves, plain.halves)
    assert [same.interval(m) for m in PRDC._fields] == [plain.interval(m) for m in PRDC._fields]


def test_clusters_of_either_side_widen_intervals():
    real, generated, prompt = off_manifold_prompts(np.random.default_rng(14))

    def width(first, second, metric, **more):
        ends = half_samples(first, second, 3, seed=0, **more).interval(metric)
        return ends.high - ends.low

    assert width(real, generated, "precision", clusters=prompt) > 1.2 * width(real, generated, "precision")
    assert width(generated, real, "recall", real_clusters=prompt) > 1.2 * width(generated, real, "recall")


def test_the_only_prompt_of_a_stratum_is_split():
    # Two objects, each with a prompt of its own: these prompts are what any repetition asks for.
    rng = np.random.default_rng(15)
    real, generated = rng.standard_normal((40, 4)), rng.standard_normal((40, 4))
    kinds = np.repeat([0, 1], 20)
    plain = half_samples(real, generated, 3, seed=2, strata=(kinds, kinds))
    given = half_samples(real, generated, 3, seed=2, strata=(kinds, kinds), clusters=kinds)
    np.testing.assert_array_equal(given.halves, plain.halves)
    # Without strata it is a cluster as any other, and one cluster has no halves.
    alone = half_samples(real, generated, 3, seed=2, clusters=["p"] * 40)
    assert math.isnan(alone.interval("recall").low)
    # Beside it, whole prompts: four in one kind, one in the other.
    mixed = np.where(kinds == 0, np.arange(40) // 5, 99)
    second = random_splits(40, 30, [0], strata=kinds, clusters=mixed, name="real").second
    assert (second[:20].reshape(4, 5, 30).sum(axis=1) % 5 == 0).all()
    assert (second[:20].sum(axis=0) == 10).all()
    assert (second[20:].sum(axis=0) == 10).all()


def test_no_spread_between_prompts_still_leaves_an_interval_of_prompts():
    rng = np.random.default_rng(16)
    real, prompt = rng.standard_normal((100, 8)), np.repeat(np.arange(12), 5)
    result = half_samples(real, real[:60] * 0.01, 3, seed=0, clusters=prompt)
    single = half_samples(real, real[:60] * 0.01, 3, seed=0)
    assert result.values.precision == 1
    # A design effect of 5 + 2 against 3, and Student's t with 11 degrees of freedom against 59.
    effect = 7 / 3 * (2.2010 / 2.0010) ** 2
    low, alone = result.interval("precision").low, single.interval("precision").low
    odds = [(1 - end) / end for end in (low, alone)]  # Wilson at 1: low = n / (n + z^2)
    assert odds[0] / odds[1] == pytest.approx(effect, rel=1e-3)
    far = half_samples(real, real[:60] + 1000, 3, seed=0, clusters=prompt).interval("density")
    assert (far.value, far.low) == (0, 0)
    assert far.high > 0.2


@pytest.mark.parametrize(("call", "message"), [
    (lambda x: half_samples(x, x, 3, seed=0, n_splits=1), "n_splits must be at least 2; got 1"),
    (lambda x: half_samples(x[:4], x, 3, seed=0), r"real set has 4 point\(s\)"),
    (lambda x: half_samples(x, x, 3, seed=0, strata=([1], [1])), "real strata.*30 rows; got 1"),
    (lambda x: half_samples(x, x, 3, seed=0, clusters=[1, 2]), r"generated clusters.*30 rows; got shape \(2,\)"),
    (lambda x: half_samples(x, x, 3, seed=0, real_clusters=[None] * 30), "real cluster groups hold 30 missing"),
    (lambda x: half_samples(x, x, 3, seed=0, strata=([0] * 30, [0, 1] * 15), clusters=[0] * 30),
     "generated clusters must lie in one stratum each"),
    (lambda _: shared_covariance([], "precision"), "one generated set"),
])  # fmt: skip
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call(np.random.default_rng(0).standard_normal((30, 4)))
