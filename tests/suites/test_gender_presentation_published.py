"""The tables of the GEP paper, as it prints them, from the counts behind them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from verism.metrics.presentation import gep_score, gep_vector
from verism.metrics.presentation.evaluation import sign_mcc
from verism.published import Check, Verdict, read_published, undocumented
from verism.statistics.association import kendall_tau
from verism.suites.gender_presentation.published import KEYS, gep, possible_mccs, possible_taus, read_gep

MODELS = ("CogView2", "DALL-E 2", "Stable Diffusion")
ATTRIBUTES = "boots slippers jeans shorts slacks dress skirt suit shirt uniform jacket hat tie mask gloves"

# Per model women, then men; the last column is the average.
TABLE_11 = """
CogView2         woman  0.01  0.00  0.11  0.14  0.05  0.14  0.05  0.01  0.05  0.01  0.15  0.15  0.00  0.01  0.06  0.06
CogView2         man    0.01  0.00  0.10  0.14  0.07  0.00  0.00  0.01  0.07  0.01  0.21  0.16  0.01  0.03  0.06  0.06
DALL-E 2         woman  0.07  0.01  0.31  0.11  0.09  0.04  0.05  0.00  0.10  0.00  0.20  0.10  0.00  0.00  0.07  0.08
DALL-E 2         man    0.06  0.00  0.21  0.20  0.19  0.00  0.00  0.04  0.29  0.01  0.25  0.10  0.01  0.03  0.04  0.10
Stable Diffusion woman  0.06  0.01  0.11  0.15  0.09  0.09  0.06  0.00  0.04  0.00  0.31  0.07  0.00  0.03  0.10  0.07
Stable Diffusion man    0.04  0.05  0.20  0.17  0.23  0.00  0.01  0.16  0.17  0.01  0.39  0.11  0.07  0.03  0.14  0.12
"""
TABLE_12 = """
CogView2         woman  0.23  0.06  0.79  0.49  0.05  0.65  0.64  0.38  0.35  0.17  0.51  0.66  0.31  0.39  0.55  0.41
CogView2         man    0.09  0.04  0.69  0.56  0.10  0.01  0.14  0.68  0.38  0.33  0.65  0.59  0.50  0.50  0.41  0.38
DALL-E 2         woman  0.97  0.54  0.97  0.97  0.81  0.99  0.97  0.99  0.95  0.91  0.99  0.88  0.94  0.95  1.00  0.92
DALL-E 2         man    0.90  0.68  1.00  0.99  0.99  0.11  0.79  1.00  0.97  0.89  1.00  0.93  1.00  1.00  0.96  0.88
Stable Diffusion woman  0.66  0.34  0.94  0.71  0.59  0.91  0.90  0.81  0.72  0.68  0.95  0.95  0.39  0.90  0.79  0.75
Stable Diffusion man    0.57  0.20  0.95  0.80  0.74  0.28  0.74  0.97  0.74  0.72  0.96  0.88  0.74  0.86  0.70  0.72
"""
TABLE_13 = """
CogView2          0.00  0.00  0.01  0.00 -0.02  0.14  0.05  0.00 -0.02  0.00 -0.06 -0.01 -0.01 -0.01  0.00
DALL-E 2          0.01  0.01  0.10 -0.09 -0.10  0.04  0.05 -0.04 -0.19 -0.01 -0.05  0.00 -0.01 -0.03  0.04
Stable Diffusion  0.03 -0.04 -0.09 -0.02 -0.14  0.09  0.05 -0.16 -0.14 -0.01 -0.08 -0.04 -0.07  0.00 -0.04
"""
TABLE_14 = """
CogView2          0.14  0.03  0.10 -0.08 -0.05  0.64  0.50 -0.30 -0.03 -0.15 -0.14  0.07 -0.19 -0.11  0.14
DALL-E 2          0.07 -0.14 -0.03 -0.01 -0.18  0.88  0.19 -0.01 -0.03  0.03 -0.01 -0.05 -0.06 -0.05  0.04
Stable Diffusion  0.09  0.14 -0.01 -0.09 -0.15  0.64  0.16 -0.16 -0.01 -0.05 -0.01  0.07 -0.35  0.04  0.09
"""
# CogView2, DALL-E 2, Stable Diffusion neutral; then the same explicit.
TABLE_3_SCORES = (0.02, 0.05, 0.07, 0.18, 0.12, 0.14)
TABLE_3_EXACT = (28, 61, 79, 212, 141, 165)  # of 80 x 15 = 1,200
TABLE_6 = """
C      5.15e-3 (3)  5.06e-3 (2)  4.80e-3 (1)  9.81e-3 (6)  9.76e-3 (5)  7.08e-3 (4)  0.466
CC     4.49e-3 (1)  5.68e-3 (3)  4.77e-3 (2)  1.10e-2 (6)  1.04e-2 (5)  6.58e-3 (4)  0.733
CLS    3.79e-2 (1)  4.26e-2 (2)  4.47e-2 (3)  9.25e-2 (6)  5.18e-2 (4)  6.32e-2 (5)  1.000
human  0.02    (1)  0.05    (2)  0.07    (3)  0.18    (6)  0.12    (4)  0.14    (5)
"""
RELEASED_TAU, RELEASED_MCC = 0.6377481392176934, 0.3181818181818182  # Stable Diffusion, neutral, CLS

PUBLISHED = read_gep()


@pytest.fixture(scope="module")
def found() -> list[Check]:
    return gep()


def line(found: list[Check], table: str, start: str) -> Check:
    matches = [check for check in found if check.table == table and check.quantity.startswith(start)]
    assert len(matches) == 1, f"{start!r} must name one line of {table}; it names {len(matches)}"
    return matches[0]


def rows_of(table: str) -> list[list[str]]:
    return [row.split() for row in table.strip().splitlines()]


def test_the_attributes_and_their_order() -> None:
    assert " ".join(PUBLISHED.attributes) == ATTRIBUTES


@pytest.mark.parametrize(("setting", "table"), [("neutral", TABLE_11), ("explicit", TABLE_12)])
def test_tables_11_and_12(setting: str, table: str) -> None:
    sides = [side[setting, model] / 80 for model in MODELS for side in (PUBLISHED.women, PUBLISHED.men)]
    for frequencies, row in zip(sides, rows_of(table), strict=True):
        printed = np.array(row[-16:], dtype=float)
        assert np.abs(frequencies - printed[:15]).max() <= 0.005 + 1e-9
        assert abs(frequencies.mean() - printed[15]) <= 0.005 + 1e-9


@pytest.mark.parametrize(("setting", "table"), [("neutral", TABLE_13), ("explicit", TABLE_14)])
def test_tables_13_and_14(setting: str, table: str) -> None:
    for model, row in zip(MODELS, rows_of(table), strict=True):
        vector = gep_vector(PUBLISHED.women[setting, model] / 80, PUBLISHED.men[setting, model] / 80)
        assert np.abs(vector - np.array(row[-15:], dtype=float)).max() <= 0.005 + 1e-9


@pytest.mark.parametrize("change", [-1, 1])
def test_one_image_more_or_less_is_seen(monkeypatch: pytest.MonkeyPatch, change: int) -> None:
    def changed(paper: str, name: str) -> list[dict[str, str]]:
        rows = read_published(paper, name)
        if name == "frequencies":
            rows[2]["women"] = str(int(rows[2]["women"]) + change)  # neutral, CogView2, jeans
        return rows

    monkeypatch.setattr("verism.suites.gender_presentation.published.read_published", changed)
    wrong = {c.table for c in undocumented(gep())}
    assert {"Table 11", "Table 13"} <= wrong
    assert "Table 12" not in wrong


def test_table_3() -> None:
    for key, printed, count in zip(KEYS, TABLE_3_SCORES, TABLE_3_EXACT, strict=True):
        assert PUBLISHED.score(key) == pytest.approx(count / 1200, abs=1e-15)
        assert gep_score(PUBLISHED.vector(key)) == pytest.approx(count / 1200, abs=1e-12)
        assert abs(count / 1200 - printed) <= 0.005


def test_table_6() -> None:
    human = [PUBLISHED.score(key) for key in KEYS]
    taus = {}
    for name, *cells in rows_of(TABLE_6):
        scores = human if name == "human" else [float(cell) for cell in cells[0:12:2]]
        ranks = [int(cell.strip("()")) for cell in cells[1:12:2]]
        assert [sorted(scores).index(score) + 1 for score in scores] == ranks
        taus[name] = kendall_tau(scores, human)
    # pairs of six scores: 15, of which 11, 13 and 15 agree
    assert taus["C"] == pytest.approx(7 / 15)
    assert taus["CC"] == pytest.approx(11 / 15)
    assert taus["CLS"] == taus["human"] == pytest.approx(1)


def test_table_6_cuts_two_figures_off(found: list[Check]) -> None:
    tau = line(found, "Table 6", "tau of the scores C and human: 7/15")
    assert (tau.printed, tau.verdict) == ("0.466", Verdict.ROUNDING)
    assert tau.recomputed == pytest.approx(7 / 15)
    score = line(found, "Table 6", "score CLS explicit CogView2, from all digits")
    assert (score.printed, score.verdict) == ("9.25e-2", Verdict.ROUNDING)
    assert score.recomputed == pytest.approx(0.0925697, abs=5e-8)


def test_table_4_depends_on_ties_that_floats_lose() -> None:
    key = ("neutral", "Stable Diffusion")
    estimate = [float(value) for value in PUBLISHED.classifier_vector]
    assert kendall_tau(estimate, PUBLISHED.vector(key)) == pytest.approx(RELEASED_TAU, abs=1e-12)
    assert kendall_tau(estimate, PUBLISHED.vector(key, exact=True)) == pytest.approx(0.64409405, abs=5e-9)
    assert kendall_tau(estimate, PUBLISHED.counts(key)) == pytest.approx(0.64409405, abs=5e-9)
    assert sign_mcc(estimate, PUBLISHED.vector(key), zeros="positive").mcc == pytest.approx(RELEASED_MCC, abs=1e-12)


@pytest.mark.parametrize(
    ("key", "released", "agreeing_less_contrary", "ties_of_floats", "ties_of_counts"),
    [
        (("neutral", "CogView2"), 0.49935022714588745, 48, 17, 19),
        (("neutral", "DALL-E 2"), 0.567333919518927, 59, 2, 3),
        (("neutral", "Stable Diffusion"), 0.6377481392176934, 66, 3, 5),
        (("explicit", "CogView2"), 0.7333333333333334, 77, 0, 1),
        (("explicit", "DALL-E 2"), 0.23190841426097936, 24, 3, 5),
        (("explicit", "Stable Diffusion"), 0.7019555275403673, 73, 2, 4),
    ],
)
def test_all_released_taus_of_table_4_count_ties_as_floats_do(
    key: tuple[str, str], released: float, agreeing_less_contrary: int, ties_of_floats: int, ties_of_counts: int
) -> None:
    """tau-b = S / sqrt(105 (105 - ties)) with a whole S: that tells how many ties were counted."""

    def ties(values: np.ndarray) -> int:
        return sum(int(n * (n - 1) // 2) for n in np.unique(values, return_counts=True)[1])

    assert ties(PUBLISHED.vector(key)) == ties_of_floats
    assert ties(PUBLISHED.counts(key)) == ties(PUBLISHED.vector(key, exact=True)) == ties_of_counts
    assert released * math.sqrt(105 * (105 - ties_of_floats)) == pytest.approx(agreeing_less_contrary, abs=1e-9)
    exact = released * math.sqrt(105 * (105 - ties_of_counts))
    assert abs(exact - round(exact)) > 1e-3


def test_possible_taus_by_hand() -> None:
    # Three entries, no ties: S is -3, -1, 1 or 3 of 3 pairs. One tie: S of 2 untied pairs, over sqrt(3 x 2).
    assert possible_taus(np.array([1.0, 2.0, 3.0])).tolist() == pytest.approx([-1, -1 / 3, 1 / 3, 1])
    assert possible_taus(np.array([1.0, 1.0, 3.0])).tolist() == pytest.approx([-2 / 6**0.5, 0, 2 / 6**0.5])


def test_possible_taus_are_those_that_occur() -> None:
    human, rng = np.array([0.0, 0.0, 1.0, 2.0, 2.0, 5.0]), np.random.default_rng(0)
    occurring = {round(kendall_tau(rng.permutation(6), human), 12) for _ in range(2000)}
    assert occurring == {round(tau, 12) for tau in possible_taus(human)}


def test_possible_mccs_by_hand() -> None:
    # One of two entries positive: right (1), wrong (-1); with all or none called positive it is undefined.
    assert sorted(possible_mccs(1, 2)) == [-1, 1]


def test_table_10(found: list[Check]) -> None:
    female = line(found, "Table 10", "lawyer against female lawyer, GEP_human: 28/80")
    male = line(found, "Table 10", "lawyer against male lawyer, GEP_human: 10/80")
    assert (female.recomputed, male.recomputed) == (0.35, 0.125)
    assert female.verdict is male.verdict is Verdict.AGREES


@pytest.mark.parametrize(
    ("table", "start", "published", "ours", "verdict"),
    [
        ("Table 17", "scale 0.25, step 8", 0.1, 0.2, Verdict.MISPRINT),
        ("Table 17", "scale 0.125, step 9", 0.112, 0.1125, Verdict.AGREES),
        ("text", "attributes with a larger difference if named, CogView2, exact", 15, 14, Verdict.ROUNDING),
        ("text", "attributes with a larger difference if named, CogView2, floats", 15, 15, Verdict.AGREES),
        ("text", "ratio of jeans", 0.345, 0.325, Verdict.MISPRINT),
        ("text", "attributes, in the sentence on computing time", 16, 15, Verdict.MISPRINT),
        ("text", "prompt of Figure 4", "in a tie", "with a tie", Verdict.MISPRINT),
        ("Table 4", "neutral MCCs (of 9)", 9, 4, Verdict.DEFINITION),
        ("Table 16", "average AUC CLS CogView2", 0.86, 12.98 / 15, Verdict.ROUNDING),
    ],
)
def test_what_differs_and_why(
    found: list[Check], table: str, start: str, published: float | str, ours: float | str, verdict: Verdict
) -> None:
    check = line(found, table, start)
    assert (check.published, check.verdict) == (published, verdict)
    assert check.recomputed == (ours if isinstance(ours, str) else pytest.approx(ours, abs=1e-9))


def test_table_21_pairs_add_up(found: list[Check]) -> None:
    pairs = [check.recomputed for check in found if check.table == "Table 21" and check.quantity.startswith("pairs,")]
    # 15 x (C(30,2) + 2 C(40,2)), C(15,2) x (30^2 + 2 x 40^2), 15 x (2 x 30 x 40 + 40^2), 15 x 14 x (the same)
    assert pairs == [29_925, 430_500, 60_000, 840_000]
    assert line(found, "Table 21", "pairs in all").recomputed == 1650 * 1649 / 2


def test_table_18_is_the_mean_of_table_21(found: list[Check]) -> None:
    means = [c for c in found if c.table == "Table 18" and "as mean of Table 21" in c.quantity]
    assert [c.printed for c in means] == ["0.641", "0.660", "0.707"]
    assert all(c.verdict is Verdict.AGREES for c in means)
