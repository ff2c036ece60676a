"""DIG In, EvalGIM and prdc: sizes, shares of countries, and how the tables fit together."""

from __future__ import annotations

import numpy as np
import pytest

from verism.metrics.manifold import prdc
from verism.published import Check, Verdict
from verism.suites.geography.published import digin, rotation_shares


@pytest.fixture(scope="module")
def found() -> list[Check]:
    return digin()


def line(found: list[Check], table: str, start: str) -> Check:
    matches = [check for check in found if check.table == table and check.quantity.startswith(start)]
    assert len(matches) == 1, f"{start!r} must name one line of {table}; it names {len(matches)}"
    return matches[0]


# EvalGIM, GeoDE, by region: Africa, Americas, EastAsia, Europe, SouthEastAsia, WestAsia; all; table of rankings
LDM_15 = {
    "precision": (0.403, 0.426, 0.482, 0.489, 0.495, 0.374, 0.432, 0.432),
    "coverage": (0.308, 0.326, 0.339, 0.349, 0.393, 0.265, 0.280, 0.280),
    "CLIPScore": (28.450, 23.457, 25.917, 24.201, 26.415, 26.104, 25.866, 25.758),
}


@pytest.mark.parametrize("metric", LDM_15)
def test_evalgim_groups(found: list[Check], metric: str) -> None:
    *regions, everything, ranking = LDM_15[metric]
    check = line(found, "GeoDE, groups", f"{metric} LDM 1.5")
    assert check.published == everything
    assert check.recomputed == pytest.approx(sum(regions) / 6)
    again = line(found, "GeoDE, rankings", f"{metric} LDM 1.5")
    assert again.published == ranking
    if metric == "CLIPScore":  # 154.544 / 6 = 25.757
        assert again.recomputed == pytest.approx(25.7573, abs=5e-5)
        assert (check.verdict, again.verdict) == (Verdict.MISPRINT, Verdict.ROUNDING)
    else:  # 1.98 / 6 = 0.330 against 0.280
        assert (check.verdict, again.verdict) == (Verdict.DEFINITION, Verdict.AGREES)


@pytest.mark.parametrize(
    ("table", "start", "ours"),
    [
        ("GeoDE", "images: 27 x 6 x 180", 29_160),
        ("GeoDE", "objects with at least 180", 27),
        ("GeoDE", "images of an object in the United Kingdom", 60),
        ("GeoDE", "rows of the list of country prompts", 57_095),
        ("DollarStreet", "rows of the list of region prompts", 43_722),
        ("DollarStreet", "rows of topics evaluated", 21_709),
        ("DollarStreet", "prompts with Burkina Faso", 657),
        ("DollarStreet", "prompts that reuse images", 3_872),
    ],
)
def test_sizes(found: list[Check], table: str, start: str, ours: int) -> None:
    check = line(found, table, start)
    assert (check.recomputed, check.verdict) == (ours, Verdict.AGREES)


def test_rotation_starts_with_the_first() -> None:
    assert rotation_shares(180, 3) == [60, 60, 60]
    assert rotation_shares(8, 3) == [3, 3, 2]
    assert rotation_shares(2, 6) == [1, 1, 0, 0, 0, 0]


def test_expected_coverage_is_what_normal_points_give(found: list[Check]) -> None:
    """180 against 180 points, k = 3: 0.877, here as mean of 60 repetitions."""
    rng = np.random.default_rng(0)
    values = [prdc(rng.normal(size=(180, 16)), rng.normal(size=(180, 16)), 3).coverage for _ in range(60)]
    expected = line(found, "Expected coverage", "expected coverage, 180 real and 180 generated").recomputed
    assert isinstance(expected, float)
    assert abs(np.mean(values) - expected) < 3 * np.std(values, ddof=1) / len(values) ** 0.5
    assert np.std(values, ddof=1) / len(values) ** 0.5 < 0.01


def test_small_cases_are_all_there(found: list[Check]) -> None:
    assert sum(c.paper == "prdc" and c.table == "small cases" for c in found) == 9 * 4
    strict = [c.recomputed for c in found if "boundary points" in c.quantity]
    assert strict == [0, 0, 0, 0]
    assert line(found, "small cases", "density, k = 3: identical sets").recomputed == pytest.approx(20 / 21)


def test_readme_of_prdc_is_a_draw_of_its_own(found: list[Check]) -> None:
    lines = [c for c in found if c.table == "README"]
    assert len(lines) == 5
    assert all(c.verdict is Verdict.AGREES and c.tolerance is not None and c.tolerance < 0.14 for c in lines)
