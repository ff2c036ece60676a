"""Social bias in the first version of DALL-Eval: votes and deviations."""

from __future__ import annotations

import pytest

from verism.published import Check, Verdict
from verism.suites.social_bias_v1.published import VOTES, dalleval, deviations, votes_that_fit


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
        ("v1", "Table 8", "gender STD minDALL-E", 0.1209, 35 / 290, Verdict.MISPRINT),
        ("v1", "Table 8", "gender MAD minDALL-E, votes 90/55, divisor K - 1", 0.2414, 35 / 145, Verdict.AGREES),
        ("v1", "Table 9", "gender STD ruDALL-E-XL", 0.3038, 65 / 214, Verdict.ROUNDING),
        ("code", "README", "race MAD, votes 20/14/85/26", 0.16810344827586204, 0.16810344827586204, Verdict.AGREES),
    ],
)
def test_figures(
    found: list[Check], paper: str, table: str, start: str, published: float, ours: float, verdict: Verdict
) -> None:
    check = line(found, paper, table, start)
    assert (check.published, check.verdict) == (published, verdict)
    assert check.recomputed == pytest.approx(ours, abs=1e-9)


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
