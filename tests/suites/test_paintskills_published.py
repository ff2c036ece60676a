"""Skills in DALL-Eval: averages, sizes, shuffled images."""

from __future__ import annotations

import pytest

from verism.published import Check, Verdict
from verism.suites.paintskills.published import dalleval


@pytest.fixture(scope="module")
def found() -> list[Check]:
    return dalleval()


def line(found: list[Check], paper: str, table: str, start: str) -> Check:
    matches = [c for c in found if (c.paper, c.table) == (f"DALL-Eval {paper}", table) and c.quantity.startswith(start)]
    assert len(matches) == 1, f"{start!r} must name one line of {paper} {table}; it names {len(matches)}"
    return matches[0]


# object, count, spatial, printed average, mean of the three
ICCV_TABLE_3 = """
human, DALL-E Small            52.0  42.0   4.0  30.7  32.667
human, minDALL-E               86.0  64.0  64.0  68.7  71.333
human, Stable Diffusion v1.4   94.0  48.0  16.0  54.7  52.667
DETR, DALL-E Small             64.0  34.0   0.0  28.0  32.667
DETR, minDALL-E                86.0  54.0  66.0  64.0  68.667
DETR, Stable Diffusion v1.4    98.0  44.0   4.0  54.0  48.667
"""


@pytest.mark.parametrize("row", ICCV_TABLE_3.strip().splitlines())
def test_iccv_table_3_averages_are_not_those_of_its_columns(found: list[Check], row: str) -> None:
    name, *cells = (part.strip() for part in row.split("  ") if part.strip())
    printed, mean = float(cells[3]), float(cells[4])
    assert sum(map(float, cells[:3])) / 3 == pytest.approx(mean, abs=5e-4)
    check = line(found, "ICCV", "Table 3", f"average, {name}: ")
    assert (check.published, check.verdict) == (printed, Verdict.MISPRINT)
    assert check.recomputed == pytest.approx(mean, abs=5e-4)
    assert round(printed * 1.5) / 1.5 == pytest.approx(printed, abs=0.05)  # a whole number of 150 images


@pytest.mark.parametrize(
    ("paper", "table", "start", "published", "ours", "verdict"),
    [
        ("ICCV", "Table 2", "average, minDALL-E", 62.7, 62.7, Verdict.AGREES),
        ("ICCV", "Table 2", "shuffled images, object", 6.3, 100 / 15, Verdict.AGREES),
        ("ICCV", "Table 2", "shuffled images, count", 1.7, 100 / 60, Verdict.AGREES),
        ("ICCV", "Table 2", "shuffled images, spatial", 0.3, 200 / 900, Verdict.AGREES),
        ("v1", "Table 3", "three-model average, spatial", 24.7, 73.9 / 3, Verdict.ROUNDING),
        ("v1", "Table 3", "average, GT (upper bound)", 99.0, 98.975, Verdict.AGREES),
        ("code", "PaintSkills", "PaintSkills of the first version, spatial, train", 28244, 28224, Verdict.MISPRINT),
    ],
)
def test_figures(
    found: list[Check], paper: str, table: str, start: str, published: float, ours: float, verdict: Verdict
) -> None:
    check = line(found, paper, table, start)
    assert (check.published, check.verdict) == (published, verdict)
    assert check.recomputed == pytest.approx(ours, abs=1e-9)
