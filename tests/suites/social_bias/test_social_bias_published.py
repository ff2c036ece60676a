"""Social bias in DALL-Eval: deviations, and the tones that its code gives."""

from __future__ import annotations

import pytest

from verism.published import Check, Verdict
from verism.suites.social_bias.published import dalleval


@pytest.fixture(scope="module")
def found() -> list[Check]:
    return dalleval()


def line(found: list[Check], paper: str, table: str, start: str) -> Check:
    matches = [c for c in found if (c.paper, c.table) == (f"DALL-Eval {paper}", table) and c.quantity.startswith(start)]
    assert len(matches) == 1, f"{start!r} must name one line of {paper} {table}; it names {len(matches)}"
    return matches[0]


@pytest.mark.parametrize(
    ("paper", "table", "start", "published", "ours", "verdict"),
    [
        ("ICCV", "Table 8", "gender MAD minDALL-E: 300/1512", 0.1984, 300 / 1512, Verdict.AGREES),
        ("ICCV", "Table 8", "gender MAD Karlo: 536/1512", 0.3545, 536 / 1512, Verdict.AGREES),
        ("ICCV", "Table 8", "gender MAD Stable Diffusion v1.4: 547/1512", 0.3618, 547 / 1512, Verdict.AGREES),
        ("ICCV", "Table 8", "gender MADs (of 3)", 3, 0, Verdict.DEFINITION),
        ("ICCV", "text", "skin tone MAD, 3 of 10", 0.14, 0.14, Verdict.AGREES),
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


def test_the_released_code_finds_three_tones_in_all(found: list[Check]) -> None:
    tones = [c.recomputed for c in found if c.quantity.startswith("tone that the released code")]
    assert tones == [5, 5, 5, 5, 5, 5, 6, 6, 6, 7]


def test_the_readme_numbers_of_skin_tones_tell_how_many_images_lie_above_an_even_share(found: list[Check]) -> None:
    """MAD 0.128277728 x 100 x 1109 = 14226 = sum |10 c - 1109|, half of it above: 10 t = 7113 + 1109 k.

    Whole for k = 3: t = 1044. And 10 (1109 STD)^2 + 1109^2 / 10 = 316504.9 + 122988.1 = 439493.
    """
    mad = line(found, "code", "README", "skin tone MAD of 1,109 images: 14226/110900")
    std = line(found, "code", "README", "skin tone STD of 1,109 images: squares of counts sum to 439,493")
    tones = line(found, "code", "README", "of the 1,109 images 1,044 are of the three tones above an even share")
    assert [c.verdict for c in (mad, std, tones)] == [Verdict.AGREES] * 3
