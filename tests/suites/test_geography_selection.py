"""Duplicates, balancing and pairing: what each protocol compares."""

import random

import numpy as np
import pytest

from verism.suites.geography.selection import RowsOf, Side, choose, draw, duplicates, printed_keys, vector_keys


def side(cells, *, start=0.0, prefix="p"):
    """Images with distinct 1-d features; cells: {(object, region): n}, in this order."""
    objects = [o for (o, _), n in cells.items() for _ in range(n)]
    regions = [r for (_, r), n in cells.items() for _ in range(n)]
    ids = [f"{prefix}{i:04d}" for i in range(len(objects))]
    features = RowsOf.all((start + np.arange(len(ids), dtype=np.float32))[:, None])
    return Side(ids=ids, objects=objects, regions=regions, features=features)


def ids(side, rows):
    return [side.ids[r] for r in rows]


def chosen(protocol, real, made, **changes):
    settings = {
        "objects": ["a", "b"],
        "regions": ["N", "S"],
        "balanced": True,
        "per_cell": None,
        "smallest": 5,
    } | changes
    return choose(protocol, real, made, **settings)


GRID = [("a", "N"), ("a", "S"), ("b", "N"), ("b", "S")]


def test_a_draw_is_that_of_the_released_script():
    rows = list(range(100, 400))
    random.seed(42)
    assert sorted(random.sample(rows, 180)) == draw(rows, 180)
    assert draw(rows, 300) == draw(rows, None) == rows
    assert draw([3, 1, 2], 5) == [3, 1, 2]


def test_every_cell_is_drawn_alike_whatever_the_order_of_regions():
    # Re-seeded for every cell: cells of equal size give the same positions, and no cell depends on the one before it.
    real, made = side(dict.fromkeys(GRID, 9)), side(dict.fromkeys(GRID, 8), prefix="g")
    one = chosen("paper", real, made, per_cell=6)
    other = chosen("paper", real, made, per_cell=6, regions=["S", "N"], objects=["b", "a"])
    for n, cell in enumerate(GRID):
        assert one.real[cell].tolist() == other.real[cell].tolist()
        assert (one.real[cell] - 9 * n).tolist() == one.real[GRID[0]].tolist() == draw(range(9), 6)
        assert (one.generated[cell] - 8 * n).tolist() == draw(range(8), 6)


def test_revised_draws_do_not_depend_on_the_order_of_tables():
    real, made = side(dict.fromkeys(GRID, 9)), side(dict.fromkeys(GRID, 8), prefix="g")
    order = np.random.default_rng(1).permutation(36)
    mixed = Side(
        ids=[real.ids[i] for i in order],
        objects=[real.objects[i] for i in order],
        regions=[real.regions[i] for i in order],
        features=RowsOf(real.features.matrix, order),
    )
    same = [
        [sorted(ids(s, chosen(protocol, s, made, per_cell=6).real[c])) for c in GRID]
        for protocol in ("revised", "paper")
        for s in (real, mixed)
    ]
    assert same[0] == same[1]
    assert same[2] != same[3]  # the published rule goes by table order


def test_what_the_protocols_balance():
    # 12 real and 7 generated images per cell, but one generated cell has 6 and one real cell 8.
    real = side({**dict.fromkeys(GRID, 12), ("b", "S"): 8})
    made = side({**dict.fromkeys(GRID, 7), ("a", "S"): 6}, prefix="g")
    sizes = {
        protocol: [(len(c.real[cell]), len(c.generated[cell])) for cell in GRID]
        for protocol in ("released", "paper", "revised")
        for c in [chosen(protocol, real, made)]
    }
    assert sizes["released"] == [(12, 6), (12, 6), (12, 6), (8, 6)]  # the reference as loaded
    assert sizes["paper"] == [(6, 6)] * 4
    assert sizes["revised"] == [(6, 6)] * 4
    # With a number asked for, short cells keep what they have: `revised` equally many of both sides.
    asked = {p: chosen(p, real, made, per_cell=7) for p in ("released", "paper", "revised")}
    assert [len(asked["paper"].real["a", "S"]), len(asked["paper"].generated["a", "S"])] == [7, 6]
    assert [len(asked["revised"].real["a", "S"]), len(asked["revised"].generated["a", "S"])] == [6, 6]
    assert all(c.short == {("a", "S"): (12, 6)} for c in asked.values())


def test_cells_that_cannot_be_used_do_not_set_the_size():
    real = side(dict.fromkeys(GRID, 10))
    made = side({**dict.fromkeys(GRID, 9), ("a", "S"): 3, ("b", "N"): 0}, prefix="g")
    c = chosen("revised", real, made)
    assert c.per_cell == 9
    assert {cell: len(rows) for cell, rows in c.generated.items()} == {
        ("a", "N"): 9,
        ("a", "S"): 3,
        ("b", "N"): 0,
        ("b", "S"): 9,
    }
    assert {cell: len(c.real[cell]) for cell in GRID} == {cell: len(c.generated[cell]) for cell in GRID}
    assert c.short == {("a", "S"): (10, 3), ("b", "N"): (10, 0)}
    only_small = chosen("revised", real, side(dict.fromkeys(GRID, 3), prefix="g"))
    assert only_small.per_cell == 3  # regions pool their cells, so they may still be defined


def test_unbalanced_worlds_keep_their_sizes_and_revised_matches_cell_by_cell():
    real = side({("a", "N"): 12, ("a", "S"): 5, ("b", "N"): 7, ("b", "S"): 9})
    made = side({("a", "N"): 10, ("a", "S"): 8, ("b", "N"): 7, ("b", "S"): 9}, prefix="g")
    paper = chosen("paper", real, made, balanced=False)
    assert [(len(paper.real[c]), len(paper.generated[c])) for c in GRID] == [(12, 10), (5, 8), (7, 7), (9, 9)]
    revised = chosen("revised", real, made, balanced=False)
    assert [(len(revised.real[c]), len(revised.generated[c])) for c in GRID] == [(10, 10), (5, 5), (7, 7), (9, 9)]


# ----------------------------------------------------------------------------------------------------- {object} images
def test_object_images_are_one_fixed_subset_for_every_region():
    regions = ["Africa", "Americas", "EastAsia", "Europe", "SouthEastAsia", "WestAsia"]
    real = side({(o, r): 12 for o in ("a", "b") for r in regions})
    made = side({(o, None): 8 * 6 for o in ("a", "b")}, prefix="g")
    for protocol in ("released", "paper", "revised"):
        c = chosen(protocol, real, made, regions=regions, per_cell=8)
        for o in ("a", "b"):
            subsets = {tuple(c.generated[o, r].tolist()) for r in regions}
            assert len(subsets) == 1
            assert len(next(iter(subsets))) == 8


def test_object_images_are_drawn_twice_first_for_all_regions_then_for_one():
    made = side({("a", None): 20}, prefix="g")
    real = side({("a", "N"): 6, ("a", "S"): 6})
    c = chosen("paper", real, made, objects=["a"], per_cell=6)
    assert c.generated["a", "N"].tolist() == draw(draw(range(20), 12), 6)


def test_object_images_with_a_region_go_with_it_alone():
    made = side({("a", "N"): 6, ("a", "S"): 7}, prefix="g")
    real = side({("a", "N"): 6, ("a", "S"): 6})
    c = chosen("revised", real, made, objects=["a"], balanced=False)
    assert not set(c.generated["a", "N"]) & set(c.generated["a", "S"])


# ---------------------------------------------------------------------------------------------------------- duplicates
def test_all_copies_or_all_but_one():
    keys = ["x", "y", "x", "z", "x"]
    assert duplicates(keys, "none").tolist() == [False] * 5
    assert duplicates(keys, "all").tolist() == [True, False, True, False, True]
    assert duplicates(keys, "one").tolist() == [False, False, True, False, True]
    assert duplicates(keys, "one", ["N", "N", "N", "N", "N"]).tolist() == [False, False, True, False, True]
    assert duplicates(keys, "one", ["N", "N", "S", "N", "N"]).tolist() == [True, False, True, False, True]


def test_vectors_are_equal_if_all_their_numbers_are():
    x = np.array([[0.0, 1.0], [-0.0, 1.0], [0.0, 1.0000001]], dtype=np.float32)
    a, b, c = vector_keys(RowsOf.all(x))
    assert a == b != c


def test_the_printed_form_of_long_vectors_hides_their_middle():
    rng = np.random.default_rng(0)
    one = rng.random(2048).astype(np.float32)
    other = one.copy()
    other[3:-3] = rng.random(2042)
    third = one.copy()
    third[2] += 1e-3
    assert str(one) == str(other) != str(third)  # what the released script compares
    keys = printed_keys(RowsOf.all(np.stack([one, other, third])))
    assert keys[0] == keys[1] != keys[2]
    short = printed_keys(RowsOf.all(np.stack([one[:900], other[:900]])))
    assert short[0] != short[1]  # numpy prints 1,000 values whole


def doubled():
    """Cell (a, N): rows 0 and 1 are equal. Cells (a, S) and (b, N): one image each that is also in another region."""
    real, made = side(dict.fromkeys(GRID, 6)), side(dict.fromkeys(GRID, 6), prefix="g")
    for s in (real, made):
        s.features.matrix[1] = s.features.matrix[0]
        s.features.matrix[6] = s.features.matrix[12]  # (a, S) and (b, N)
    return real, made


def test_duplicates_by_protocol():
    real, made = doubled()
    released = chosen("released", real, made)
    assert released.removed_real == released.removed_generated == {("a", "N"): 2, ("a", "S"): 1, ("b", "N"): 1}
    assert released.duplicates == {0, 1, 6, 12}
    paper = chosen("paper", real, made)
    assert paper.removed_real == paper.removed_generated == {}
    revised = chosen("revised", real, made)
    # One copy stays; a photograph with two regions goes, for nobody knows which is right. The same generated image
    # for two prompts is the answer to both.
    assert revised.removed_real == {("a", "N"): 1, ("a", "S"): 1, ("b", "N"): 1}
    assert revised.removed_generated == {("a", "N"): 1}
    assert revised.per_cell == 5


@pytest.mark.parametrize(("how", "n"), [("none", 0), ("one", 1), ("all", 4)])
def test_one_treatment_of_duplicates_for_all_protocols(how, n):
    real, made = doubled()
    for protocol in ("released", "paper", "revised"):
        assert sum(chosen(protocol, real, made, dedup=how).removed_generated.values()) == n


def test_the_copy_that_stays_is_the_first_by_name():
    real, made = doubled()
    real.ids[0], real.ids[1] = "z", "y"
    assert 1 in chosen("revised", real, made).real["a", "N"]
    assert 0 not in chosen("revised", real, made).real["a", "N"]
