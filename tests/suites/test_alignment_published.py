"""Captions in DALL-Eval."""

from __future__ import annotations

import pytest

from verism.published import Check, Verdict
from verism.suites.alignment.published import dalleval


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
        ("v1", "Table 7", "SPICE of real images", 55.3, 20.432732656681163, Verdict.MISPRINT),
    ],
)
def test_figures(
    found: list[Check], paper: str, table: str, start: str, published: float, ours: float, verdict: Verdict
) -> None:
    check = line(found, paper, table, start)
    assert (check.published, check.verdict) == (published, verdict)
    assert check.recomputed == pytest.approx(ours, abs=1e-9)
