"""Precision, recall, density and coverage: worked cases, an obvious implementation, the prdc package, properties."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verism.inference import float32_product
from verism.metrics import manifold
from verism.metrics.manifold import (
    PRDC,
    _approximate,
    _neighbours,
    _prdc,
    _tiles,
    approximate_prdc,
    expected_coverage,
    grouped_memberships,
    grouped_prdc,
    knn_radii,
    memberships,
    nearest_neighbours,
    prdc,
    precision_coverage,
)

# Points on a line: case, k, real, generated, then precision, recall, density, coverage. Recomputed with the published
# formulas (prdc 0.2, MIT licence), which all known code shares.
GOLDEN = [
    ("generic", 1, "0 1 3 6 10 15 21", "0.5 2 2.5 9 30 31 33", 4 / 7, 6 / 7, 5 / 7, 4 / 7),
    ("generic", 2, "0 1 3 6 10 15 21", "0.5 2 2.5 9 30 31 33", 6 / 7, 6 / 7, 1.0, 6 / 7),
    ("generic", 3, "0 1 3 6 10 15 21", "0.5 2 2.5 9 30 31 33", 1.0, 1.0, 18 / 21, 1.0),
    ("on the sphere is outside", 1, "0 1 2 3 4 5", "6 7 -1 -2 8 9", 0.0, 0.0, 0.0, 0.0),
    ("identical sets", 3, "0 1 3 6 10 15 21", "0 1 3 6 10 15 21", 1.0, 1.0, 20 / 21, 1.0),
    ("k+1 copies: radius 0", 3, "0 0 0 0 5 6 8 11", "0 0 5.2 6.1 7 20 21 22", 0.375, 1.0, 0.5, 0.5),
    ("k copies: positive radius", 3, "0 0 0 4 5 6 8 11", "0 0 5.2 6.1 7 20 21 22", 0.625, 1.0, 0.875, 1.0),
    ("smallest real set", 3, "0 1 2 3 4", "0.5 1.5 2.5 3.5 4.5 5.5 6.5 7.5 8.5 9.5", 0.7, 1.0, 2 / 3, 1.0),
    ("smallest generated set", 3, "0 1 2 3 4 5 6 7 8 9", "0.5 1.5 2.5 3.5 4.5", 1.0, 0.8, 4 / 3, 0.7),
]


def on_a_line(text: str) -> np.ndarray:
    return np.array([[float(number)] for number in text.split()])


def obvious(real, generated, k, strict=True):
    """All differences in float64, at once."""
    real, generated = np.asarray(real, np.float64), np.asarray(generated, np.float64)

    def distance(a, b):
        difference = a[:, None] - b[None]
        return np.sqrt(np.einsum("ijd,ijd->ij", difference, difference))

    around_real = np.sort(distance(real, real), axis=1)[:, k]
    around_generated = np.sort(distance(generated, generated), axis=1)[:, k]
    between = distance(real, generated)
    below = np.less if strict else np.less_equal
    inside = below(between, around_real[:, None])
    numbers = PRDC(
        inside.any(axis=0).mean(),
        below(between, around_generated[None]).any(axis=1).mean(),
        inside.sum() / (k * len(generated)),
        inside.any(axis=1).mean(),
    )
    return numbers, inside, between, around_real


@pytest.fixture
def small_tiles(monkeypatch):
    monkeypatch.setattr(_prdc, "TILE_ROWS", 7)
    monkeypatch.setattr(_prdc, "TILE_COLUMNS", 5)
    monkeypatch.setattr(_neighbours, "SELF_TILE", 6)
    monkeypatch.setattr(_neighbours, "CROWD", 2)


@pytest.fixture
def clouds():
    rng = np.random.default_rng(5)
    return rng.standard_normal((60, 24)), rng.standard_normal((50, 24)) * 0.9 + 0.1


# ------------------------------------------------------------ values
@pytest.mark.parametrize(("k", "real", "generated", "expected"), [
    pytest.param(k, real, generated, tuple(numbers), id=f"{name}, k={k}")
    for name, k, real, generated, *numbers in GOLDEN
])  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_worked_cases(k, real, generated, expected, dtype):
    # 5.2 and 6.1 are on no boundary, so float32 does not matter.
    assert prdc(on_a_line(real).astype(dtype), on_a_line(generated).astype(dtype), k) == pytest.approx(
        expected, abs=1e-12
    )


def test_one_case_by_hand():
    # Radii of 0, 1, 3, 6 to the nearest other: 1, 1, 2, 3. 0.5 lies in the balls of 0 and 1; 2 only in that of 3,
    # since |2 - 1| = 1 is on the sphere; 9 on the sphere of 6, so in none. Precision 2/3, density 3/3; 0, 1, 3 covered.
    real, generated = [[0.0], [1.0], [3.0], [6.0]], [[0.5], [2.0], [9.0]]
    result = memberships(real, generated, k=1)
    assert result.n_real_balls.tolist() == [2, 1, 0]
    assert result.n_generated_inside.tolist() == [1, 1, 1, 0]
    # 2 is 1 away from both 1 and 3: the first counts.
    assert result.nearest_real.tolist() == [0, 1, 3]
    assert result.nearest_distance.tolist() == [0.5, 1.0, 3.0]
    assert (result.precision, result.density, result.coverage) == (2 / 3, 1.0, 0.75)
    # With <=: 2 gains the balls of 1 and of 6 is 4 away, no; 9 gains 6.
    assert memberships(real, generated, k=1, strict=False).n_real_balls.tolist() == [2, 2, 1]


@pytest.mark.parametrize("k", [1, 3, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equals_the_prdc_package(clouds, k, dtype):
    package = pytest.importorskip("prdc", reason="parity needs: pip install --no-deps prdc==0.2")
    real, generated = (points.astype(dtype) for points in clouds)
    theirs = package.compute_prdc(real, generated, k)
    assert prdc(real, generated, k)._asdict() == pytest.approx(theirs, abs=1e-12)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("strict", [True, False])
def test_everything_equals_the_obvious_implementation(clouds, strict):
    real, generated = clouds
    for k in (1, 3, 7):
        expected, inside, between, radii = obvious(real, generated, k, strict)
        assert prdc(real, generated, k, strict=strict) == pytest.approx(expected, abs=1e-12)
        assert precision_coverage(real, generated, k, strict=strict) == pytest.approx(
            (expected.precision, expected.coverage)
        )
        result = memberships(real, generated, k, strict=strict)
        assert result.n_real_balls.tolist() == inside.sum(axis=0).tolist()
        assert result.n_generated_inside.tolist() == inside.sum(axis=1).tolist()
        assert result.nearest_real.tolist() == between.argmin(axis=0).tolist()
        np.testing.assert_array_equal(result.nearest_distance, between.min(axis=0))
        np.testing.assert_array_equal(knn_radii(real, k), radii)


# ------------------------------------------------------------ exactness
grid = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=5, max_size=40)


@settings(max_examples=150)
@given(
    grid,
    grid,
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from([0.0, 1000.0, -1e6]),
    st.sampled_from([1.0, 1e-25, 1e25]),
)
def test_ties_and_duplicates_are_decided_exactly(real, generated, k, strict, offset, scale):
    # Few places for many points: nearly every comparison is a tie. Integers below 2**24 are exact in float32, and the
    # scales are powers of ten only so that they are none of two; there the obvious way sees the same numbers.
    x = (np.array(real, np.float64) + (offset if scale == 1 else 0)) * scale
    y = (np.array(generated, np.float64) + (offset if scale == 1 else 0)) * scale
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_prdc, "TILE_ROWS", 7)
        patch.setattr(_prdc, "TILE_COLUMNS", 5)
        patch.setattr(_neighbours, "SELF_TILE", 6)
        patch.setattr(_neighbours, "CROWD", 2)
        expected, _, between, radii = obvious(x, y, k, strict)
        assert prdc(x, y, k, strict=strict) == pytest.approx(expected, abs=1e-12)
        result = memberships(x, y, k, strict=strict)
        assert result.nearest_real.tolist() == between.argmin(axis=0).tolist()
        np.testing.assert_array_equal(knn_radii(x, k), radii)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e5])
def test_a_cloud_far_from_the_origin(offset):
    # In float32, squares of coordinates around 1e3 are off by 0.06 each; the distances here are about 7.
    rng = np.random.default_rng(1)
    real = (rng.standard_normal((80, 32)) + offset).astype(np.float32)
    generated = (rng.standard_normal((70, 32)) + offset).astype(np.float32)
    assert prdc(real, generated, 3) == pytest.approx(obvious(real, generated, 3)[0], abs=1e-12)
    assert prdc(real.astype(np.float64), generated.astype(np.float64), 3) == prdc(real, generated, 3)


@pytest.mark.usefixtures("small_tiles")
def test_points_of_very_different_size():
    rng = np.random.default_rng(2)
    size = 10.0 ** rng.uniform(-6, 6, size=(60, 1))
    real, generated = rng.standard_normal((60, 16)) * size, rng.standard_normal((60, 16)) * size
    assert prdc(real, generated, 3) == pytest.approx(obvious(real, generated, 3)[0], abs=1e-12)


def test_differences_that_float32_cannot_see():
    # 1 and 1 + 2**-40 are one number in float32, two in float64.
    real = 1 + 2.0**-40 * on_a_line("0 1 3 6 10 15 21")
    generated = 1 + 2.0**-40 * on_a_line("0.5 2 2.5 9 30 31 33")
    assert prdc(real, generated, 1) == pytest.approx((4 / 7, 6 / 7, 5 / 7, 4 / 7))


def test_many_copies_of_one_image():
    # 300 black images among 400, on both sides: their radius is 0, so they are outside although equal.
    rng = np.random.default_rng(3)
    real = np.concatenate([np.full((300, 8), 0.37), rng.standard_normal((100, 8)) + 50]).astype(np.float32)
    result = memberships(real, real, 3)
    assert not result.inside[:300].any()
    assert result.inside[300:].all()
    assert (memberships(real, real, 3, strict=False).n_real_balls[:300] == 300).all()


def test_the_bound_of_the_error_holds():
    rng = np.random.default_rng(4)
    real, generated = rng.random((200, 2048)) + 3, rng.random((200, 2048)) + 3
    frame = _tiles.Frame.of(real)
    assert frame.centre is not None
    x, y = _tiles.block(real, 0, 200, frame), _tiles.block(generated, 0, 200, frame)
    tile = _tiles.product(x, y, np.empty(200 * 200, np.float32))
    rows, columns = np.indices(tile.shape).reshape(2, -1)
    exact = -(_tiles.distances(real, generated, rows, columns).reshape(tile.shape) ** 2) / 2
    bound = _tiles.error(x.norms[:, None], y.norms[None], 2048)
    assert (np.abs(tile - exact) <= bound).all()
    assert bound.max() < 0.01 * np.abs(exact).min()  # and says something


# ------------------------------------------------------------ properties
def test_order_of_rows_and_size_of_tiles_do_not_matter(clouds, monkeypatch):
    real, generated = clouds
    full_value = prdc(real, generated, 3)
    rng = np.random.default_rng(0)
    assert prdc(rng.permutation(real), rng.permutation(generated), 3) == full_value
    for size in (1, 3, 59, 60):
        monkeypatch.setattr(_prdc, "TILE_ROWS", size)
        monkeypatch.setattr(_prdc, "TILE_COLUMNS", size + 1)
        monkeypatch.setattr(_neighbours, "SELF_TILE", max(2, size))
        assert prdc(real, generated, 3) == full_value


def test_sets_swap_precision_and_recall(clouds):
    real, generated = clouds
    assert prdc(real, generated, 3).precision == prdc(generated, real, 3).recall


def test_shards_of_the_generated_set_add_up(clouds):
    real, generated = clouds
    radii = knn_radii(real, 3)
    full_value = memberships(real, generated, 3, real_radii=radii)
    parts = [memberships(real, part, 3, real_radii=radii) for part in (generated[:20], generated[20:])]
    assert np.concatenate([p.n_real_balls for p in parts]).tolist() == full_value.n_real_balls.tolist()
    assert sum(p.n_generated_inside for p in parts).tolist() == full_value.n_generated_inside.tolist()


def test_balls_grow_with_k(clouds):
    real, generated = clouds
    runs = [prdc(real, generated, k) for k in (1, 2, 4, 8)]
    for before, after in zip(runs, runs[1:], strict=False):
        assert after.precision >= before.precision
        assert after.recall >= before.recall
        assert after.coverage >= before.coverage


def test_identical_sets(clouds):
    real, _ = clouds
    result = prdc(real, real, 3)
    # Each ball holds its middle and the two points nearer than the third: exactly k.
    assert result == PRDC(1.0, 1.0, 1.0, 1.0)


def test_given_radii_change_nothing(clouds):
    real, generated = clouds
    assert prdc(real, generated, 3) == prdc(
        real, generated, 3, real_radii=knn_radii(real, 3), generated_radii=knn_radii(generated, 3)
    )


@pytest.mark.parametrize("dtype", [np.float16, np.int64, np.uint8])
def test_other_number_types(dtype):
    rng = np.random.default_rng(8)
    real, generated = rng.integers(0, 50, (20, 4)).astype(dtype), rng.integers(0, 50, (20, 4)).astype(dtype)
    assert prdc(real, generated, 3) == pytest.approx(obvious(real, generated, 3)[0])


def test_nothing_is_changed_or_kept_in_place(clouds):
    real, generated = (points.astype(np.float32) for points in clouds)
    real.flags.writeable = generated.flags.writeable = False
    assert prdc(real[::-1], np.asfortranarray(generated), 3) == prdc(real, generated, 3)


@pytest.mark.usefixtures("small_tiles")
def test_neighbours_are_the_nearest_other_points(clouds):
    real, _ = clouds
    result = nearest_neighbours(real, 4)
    distance = np.linalg.norm(real[:, None] - real[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    assert result.indices.tolist() == np.argsort(distance, axis=1)[:, :4].tolist()
    np.testing.assert_allclose(result.distances, np.sort(distance, axis=1)[:, :4], rtol=1e-12)


# ------------------------------------------------------------ groups
def test_groups_equal_separate_calls_whatever_their_names_and_order(clouds):
    real, generated = clouds
    real_groups = np.array(["north", "south", "east"])[np.arange(60) % 3]
    generated_groups = np.array(["north", "south", "east"])[np.arange(50) // 17]
    result = grouped_prdc(real, generated, real_groups, generated_groups, 3)
    for name in ("north", "south", "east"):
        x, y = real[real_groups == name], generated[generated_groups == name]
        assert result[name] == (prdc(x, y, 3), len(x), len(y))
    order = np.random.default_rng(0).permutation(60)
    again = grouped_prdc(
        real[order], generated, [("o", n) for n in real_groups[order]], [("o", n) for n in generated_groups], 3
    )
    assert {name: again["o", name] for name in result} == result
    radii = knn_radii(real, 3, groups=real_groups)
    np.testing.assert_array_equal(radii[real_groups == "south"], knn_radii(real[real_groups == "south"], 3))
    assert grouped_prdc(real, generated, real_groups, generated_groups, 3, real_radii=radii) == result


def test_one_generated_set_against_several_groups(clouds, monkeypatch):
    real, generated = clouds
    regions = np.arange(60) % 2
    calls = []
    original = manifold._groups.radii_of
    monkeypatch.setattr(manifold._groups, "radii_of", lambda *a: calls.append(a) or original(*a))
    result = grouped_prdc(real, generated, regions, None, 3)
    assert [result[r].values for r in (0, 1)] == [prdc(real[regions == r], generated, 3) for r in (0, 1)]
    assert len(calls) == 1  # the radii of the generated set, once


def test_pairs_share_generated_groups(clouds):
    # {object} images of two objects, each held against two regions.
    real, generated = clouds
    cells = [(obj, region) for obj in "ab" for region in "xy" for _ in range(15)]
    objects = ["a"] * 25 + ["b"] * 25
    result = grouped_prdc(real, generated, cells, objects, 3, pairs={cell: cell[0] for cell in set(cells)})
    assert result["b", "x"].values == prdc(real[30:45], generated[25:], 3)
    with pytest.raises(ValueError, match="lacks"):
        grouped_prdc(real, generated, cells, objects, 3, pairs={("a", "x"): "a"})


def test_small_and_empty_groups_stay_in_the_table(clouds):
    real, generated = clouds
    result = grouped_prdc(real, generated, ["a"] * 56 + ["b"] * 4, ["a"] * 40 + ["c"] * 10, 3)
    assert (result["b"].n_real, result["b"].n_generated) == (4, 0)
    assert (result["c"].n_real, result["c"].n_generated) == (0, 10)
    assert all(math.isnan(value) for value in result["b"].values + result["c"].values)
    assert not math.isnan(result["a"].values.precision)


def test_memberships_by_group_count_rows_of_the_whole_set(clouds):
    real, generated = clouds
    groups, others = np.arange(60) % 2, np.arange(50) % 2
    result = grouped_memberships(real, generated, groups, others, 3)
    part = memberships(real[1::2], generated[1::2], 3)
    assert result[1].evidence.n_real_balls.tolist() == part.n_real_balls.tolist()
    assert result[1].evidence.nearest_real.tolist() == (2 * part.nearest_real + 1).tolist()
    assert result[1].generated_rows.tolist() == list(range(1, 50, 2))


# ------------------------------------------------------------ expected coverage
@pytest.mark.parametrize(("n_real", "n_generated", "expected"), [
    (180, 180, 0.877086), (90, 90, 0.879178), (2430, 2430, 0.875154), (4860, 4860, 0.875077),
])  # fmt: skip
def test_expected_coverage(n_real, n_generated, expected):
    assert expected_coverage(n_real, n_generated, 3) == pytest.approx(expected, abs=5e-7)
    # The limit for equal sizes is 1 - 2**-k.
    assert expected_coverage(10**9, 10**9, 3) == pytest.approx(0.875, abs=1e-8)


@pytest.mark.parametrize(("n_real", "n_generated", "k"), [(40, 40, 3), (30, 90, 1), (90, 30, 5)])
def test_expected_coverage_against_simulation(n_real, n_generated, k):
    rng = np.random.default_rng(12)
    results = [
        precision_coverage(rng.standard_normal((n_real, 3)), rng.standard_normal((n_generated, 3)), k).coverage
        for _ in range(200)
    ]
    error = np.std(results, ddof=1) / math.sqrt(len(results))
    assert abs(np.mean(results) - expected_coverage(n_real, n_generated, k)) < 3 * error


# ------------------------------------------------------------ bad input
@pytest.mark.parametrize(("call", "message"), [
    (lambda x: prdc(x[:4], x, 3), r"real set has 4 point\(s\), and k=3 neighbours need at least 5"),
    (lambda x: prdc(x, x[:4], 3), r"generated set has 4 point\(s\)"),
    (lambda x: precision_coverage(x, x[:0], 3), r"generated set has 0 point\(s\)"),
    (lambda x: knn_radii(x, 3, groups=["a"] * 56 + ["b"] * 4), r"\(b\) set has 4"),
    (lambda x: knn_radii(x, 3, groups=["a"] * 5), "one label for each of the 60 rows; got 5"),
    (lambda x: knn_radii(x, 3, groups=[None, *["a"] * 59]), r"1 missing label\(s\)"),
    (lambda x: prdc(x, x[:, :3], 3), "got 24 and 3 columns"),
    (lambda x: prdc(x[0], x, 3), r"shape \(N, D\) with D >= 1; got \(24,\)"),
    (lambda x: prdc(x, x * np.where(np.arange(60) == 7, np.nan, 1)[:, None], 3), "generated features hold NaN.*row 7"),
    (lambda x: prdc(x, x + np.where(np.arange(60) == 9, np.inf, 0)[:, None], 3), "generated features hold NaN.*row 9"),
    (lambda x: prdc(x * 1e200, x, 3), "beyond float64"),
    (lambda x: prdc(x, x, 0), "k must be a whole number >= 1; got 0"),
    (lambda x: prdc(x, x, 2.0), "k must be a whole number"),
    (lambda x: prdc(x, x, 3, real_radii=np.ones(5)), "one finite number >= 0 for each of the 60 real points"),
    (lambda x: prdc(x, x, 3, generated_radii=np.full(60, np.nan)), "generated_radii must be"),
    (lambda x: prdc(x.astype(str), x, 3), "must be real numbers"),
    (lambda x: grouped_prdc(x, x, ["a"] * 60, None, 3, pairs={"a": "a"}), "give generated_groups"),
    (lambda _: expected_coverage(3, 10, 3), "n_real > k"),
])  # fmt: skip
def test_bad_input(clouds, call, message):
    with pytest.raises(ValueError, match=message):
        call(clouds[0])


def test_radii_are_scikit_learns():
    from sklearn.neighbors import NearestNeighbors

    points = np.random.default_rng(5).normal(size=(200, 16))
    # Its nearest neighbour of a point is the point itself, so that the k-th other one is the last of k + 1.
    result, _ = NearestNeighbors(n_neighbors=4).fit(points).kneighbors(points)
    np.testing.assert_allclose(knn_radii(points, 3), result[:, -1], rtol=1e-12)


# ------------------------------------------------------------------------------------------------------------- products
def test_products_by_pytorch_leave_every_number_as_it_is():
    torch = pytest.importorskip("torch")
    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    rng = np.random.default_rng(3)
    real, generated = rng.standard_normal((400, 64), dtype=np.float32) + 9, rng.standard_normal((500, 64)) + 9.1
    generated[::7] = real[:72]  # ties: those that rounding would break
    expected, near = prdc(real, generated, 3), memberships(real, generated, 3)
    for device in devices:
        used: list[tuple[int, ...]] = []
        multiply = float32_product(device)

        def counted(x, y, out, *, multiply=multiply, used=used):
            used.append(out.shape)
            multiply(x, y, out)

        with manifold.products_by(counted):
            assert prdc(real, generated, 3) == expected
            again = memberships(real, generated, 3)
        assert all(np.array_equal(a, b) for a, b in zip(near, again, strict=True))
        assert (400, 500) in used
    used.clear()
    prdc(real, generated, 3)
    assert not used  # numpy again


def test_products_in_coarser_numbers_are_refused():
    def tf32(x, y, out):
        def rounded(a):  # to the 10 bits of TF32
            return ((a.view(np.uint32) + 0x1000) & 0xFFFFE000).view(np.float32)

        np.matmul(rounded(x), rounded(y).T, out=out)

    with pytest.raises(ValueError, match="not exact to float32"), manifold.products_by(tf32):
        pass


# -------------------------------------------------------------------------------------------------- approximate numbers
def clustered(n: int, seed: int, spread: float) -> np.ndarray:
    """Points near a curved sheet of few dimensions, as features of images are."""
    rng = np.random.default_rng(seed)
    inside = rng.standard_normal((n, 6)) * spread
    axes = np.random.default_rng(99).standard_normal((12, 32))
    return np.hstack([inside, np.sin(2 * inside)]) @ axes + 0.05 * rng.standard_normal((n, 32))


def test_approximate_numbers_are_within_the_error_they_state(monkeypatch):
    monkeypatch.setattr(_approximate, "CELL", 64)
    real, generated = clustered(2000, 1, 1.0), clustered(1800, 2, 0.8)
    expected, errors, recalls = prdc(real, generated, 3), [], []
    for probes in (1, 4, 40):
        rough = approximate_prdc(real, generated, 3, probes=probes, checked=400, rng=np.random.default_rng(5))
        # 95 % bounds: twice as wide leaves a wrong estimate no room, and chance none to fail.
        assert all(abs(a - b) <= 2 * e for a, b, e in zip(rough.values, expected, rough.error, strict=True))
        errors.append(rough.error.density)
        recalls.append(rough.neighbour_recall)
    assert errors[0] > 10 * errors[2]
    assert 0.2 < recalls[0] < recalls[1] < 0.999
    assert rough.neighbour_recall == 1.0
    np.testing.assert_allclose(rough.values, expected, rtol=0, atol=1e-12)  # all cells: nothing is left out


def test_approximate_numbers_need_a_probe_and_a_sample():
    points = clustered(20, 1, 1.0)
    for arguments in ({"probes": 0}, {"checked": 1}):
        with pytest.raises(ValueError, match="at least"):
            approximate_prdc(points, points, 3, rng=np.random.default_rng(0), **arguments)
