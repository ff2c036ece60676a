"""DALL-Eval: averages, votes and deviations of its tables, and the tones that its code gives."""

from __future__ import annotations

import pytest

from verism.reproduce.common import Check, Verdict
from verism.reproduce.dalleval import (
    VOTES,
    dalleval_checks,
    deviations,
    votes_that_fit,
)


@pytest.fixture(scope="module")
def found() -> list[Check]:
    return dalleval_checks()


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
    assert round(printed * 1.5) / 1.5 == pytest.approx(printed, abs=0.05)  # a whole number of 150 pictures


@pytest.mark.parametrize(
    ("paper", "table", "start", "published", "ours", "verdict"),
    [
        ("ICCV", "Table 2", "average, minDALL-E", 62.7, 62.7, Verdict.AGREES),
        ("ICCV", "Table 2", "shuffled pictures, object", 6.3, 100 / 15, Verdict.AGREES),
        ("ICCV", "Table 2", "shuffled pictures, count", 1.7, 100 / 60, Verdict.AGREES),
        ("ICCV", "Table 2", "shuffled pictures, spatial", 0.3, 200 / 900, Verdict.AGREES),
        ("ICCV", "Table 8", "gender MAD minDALL-E: 300/1512", 0.1984, 300 / 1512, Verdict.AGREES),
        ("ICCV", "Table 8", "gender MAD Karlo: 536/1512", 0.3545, 536 / 1512, Verdict.AGREES),
        ("ICCV", "Table 8", "gender MAD Stable Diffusion v1.4: 547/1512", 0.3618, 547 / 1512, Verdict.AGREES),
        ("ICCV", "Table 8", "gender MADs (of 3)", 3, 0, Verdict.DEFINITION),
        ("ICCV", "text", "skin tone MAD, 3 of 10", 0.14, 0.14, Verdict.AGREES),
        ("v1", "Table 3", "three-model average, spatial", 24.7, 73.9 / 3, Verdict.ROUNDING),
        ("v1", "Table 3", "average, GT (upper bound)", 99.0, 98.975, Verdict.AGREES),
        ("v1", "Table 7", "SPICE of real pictures", 55.3, 20.432732656681163, Verdict.MISPRINT),
        ("v1", "Table 8", "gender STD minDALL-E", 0.1209, 35 / 290, Verdict.MISPRINT),
        ("v1", "Table 8", "gender MAD minDALL-E, votes 90/55, divisor K - 1", 0.2414, 35 / 145, Verdict.AGREES),
        ("v1", "Table 9", "gender STD ruDALL-E-XL", 0.3038, 65 / 214, Verdict.ROUNDING),
        ("code", "PaintSkills", "PaintSkills of the first version, spatial, train", 28244, 28224, Verdict.MISPRINT),
        ("code", "README", "race MAD, votes 20/14/85/26", 0.16810344827586204, 0.16810344827586204, Verdict.AGREES),
    ],
)
def test_figures(
    found: list[Check], paper: str, table: str, start: str, published: float, ours: float, verdict: Verdict
) -> None:
    check = line(found, paper, table, start)
    assert (check.published, check.verdict) == (published, verdict)
    assert check.recomputed == pytest.approx(ours, abs=1e-9)


def test_one_answer_of_stable_diffusion_was_unusable(found: list[Check]) -> None:
    """Nine answers in a prompt: |n/9 - 1/2| = |2n - 9|/18, an odd number of 1/18. 84 odd numbers have an even sum."""
    assert all(abs(2 * n - 9) % 2 == 1 for n in range(10))
    statements = [c for c in found if c.table == "Table 8" and "is even" in c.quantity]
    assert [c.quantity.split(":")[0] for c in statements] == ["gender MAD minDALL-E", "gender MAD Karlo"]
    odd = line(found, "ICCV", "Table 8", "gender MAD Stable Diffusion v1.4: which answers were unusable")
    assert odd.verdict is Verdict.IMPOSSIBLE


def test_deviations_by_hand() -> None:
    # 90/55 of 145: both shares are 17.5/145 from a half.
    assert deviations((90, 55)) == pytest.approx((17.5 / 145, 17.5 / 145))
    # all in one of four: 3/4 and three times 1/4 from a quarter; squares 9/16 + 3/16 = 3/4, of which a quarter.
    assert deviations((7, 0, 0, 0)) == pytest.approx(((3 / 16) ** 0.5, 1.5 / 4))
    assert deviations((1,) * 10) == (0, 0)


def test_votes_behind_the_race_tables() -> None:
    assert votes_that_fit("0.2269", "0.2874", total=145, categories=4) == [(82, 53, 6, 4)]
    assert votes_that_fit("0.1963", "0.2241", total=145, categories=4)[0] == VOTES["8", "minDALL-E", "race"]
    assert votes_that_fit("0.4170", "0.4813", total=107, categories=4) == [(104, 3, 0, 0)]
    assert votes_that_fit("0.4011", "0.4630", total=108, categories=4) == [(102, 3, 3, 0), (102, 4, 1, 1)]
    assert votes_that_fit("0.4011", "0.4630", total=145, categories=4) == []  # so not all 145 prompts were counted


def test_the_released_code_finds_three_tones_in_all(found: list[Check]) -> None:
    tones = [c.recomputed for c in found if c.quantity.startswith("tone that the released code")]
    assert tones == [5, 5, 5, 5, 5, 5, 6, 6, 6, 7]


def test_the_readme_numbers_of_skin_tones_tell_how_many_pictures_lie_above_an_even_share(found: list[Check]) -> None:
    """MAD 0.128277728 x 100 x 1109 = 14226 = sum |10 c - 1109|, half of it above: 10 t = 7113 + 1109 k.

    Whole for k = 3: t = 1044. And 10 (1109 STD)^2 + 1109^2 / 10 = 316504.9 + 122988.1 = 439493.
    """
    mad = line(found, "code", "README", "skin tone MAD of 1,109 pictures: 14226/110900")
    std = line(found, "code", "README", "skin tone STD of 1,109 pictures: squares of counts sum to 439,493")
    tones = line(found, "code", "README", "of the 1,109 pictures 1,044 are of the three tones above an even share")
    assert [c.verdict for c in (mad, std, tones)] == [Verdict.AGREES] * 3
