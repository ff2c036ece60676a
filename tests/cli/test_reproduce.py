"""``verism reproduce``: what is printed, as text and as JSON, and what it says when a figure is not as it should be."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from verism.suites.catalogue import published_figures
from verism.suites.gender_presentation import published as gep


@pytest.fixture
def verism(in_process: Callable[..., tuple[int, str, str]]) -> Callable[..., tuple[int, str, str]]:
    return in_process


@pytest.mark.parametrize("paper", published_figures())
def test_all_is_as_documented(verism: Callable[..., tuple[int, str, str]], paper: str) -> None:
    code, out, err = verism("reproduce", paper)
    assert (code, err) == (0, "")
    assert " disagrees" not in out
    assert out.splitlines()[-1].split(" figures: ")[0].isdigit()
    assert max(len(row) for row in out.splitlines()[:-1]) <= 130


def test_one_table(verism: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = verism("reproduce", "gep", "--table", 6)
    assert code == 0
    rows = out.splitlines()
    assert rows[0] == "GEP, Table 6"
    (tau,) = (row for row in rows if "tau of the scores C " in row)
    assert re.split(r"\s{2,}", tau.strip()) == [
        "tau of the scores C and human: 7/15",
        "0.466",
        "0.46667",
        "0.0005",
        "differs by rounding",
    ]
    assert "7/15 = 0.4667 is cut off" in out
    assert "Table 5" not in out


def test_differences_leave_out_what_agrees(verism: Callable[..., tuple[int, str, str]]) -> None:
    _, out, _ = verism("reproduce", "dalleval", "--table", "ICCV 3", "--differences")
    assert "average, human, minDALL-E: 86.0 64.0 64.0" in out
    assert "whole numbers of 50 images" not in out


def test_json(verism: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = verism("reproduce", "digin", "--json")
    records = json.loads(out)
    assert code == 0
    keys = {"paper", "table", "quantity", "published", "recomputed", "tolerance", "verdict", "why"}
    assert all(set(record) == keys for record in records)
    images = next(r for r in records if r["quantity"] == "images: 27 x 6 x 180")
    assert (images["published"], images["recomputed"], images["verdict"]) == (29160, 29160, "agrees")
    _, out, _ = verism("reproduce", "digin", "--json", "--differences")
    assert 0 < len(json.loads(out)) < len(records)
    assert all(r["verdict"] != "agrees" and r["why"] for r in json.loads(out))


def test_a_table_that_is_not_there(verism: Callable[..., tuple[int, str, str]]) -> None:
    code, _, err = verism("reproduce", "gep", "--table", 99)
    assert code == 2
    assert "no table '99'; there are: GEP Table 3, GEP Table 4" in err


def test_a_mistake_of_ours_is_exit_code_1(
    verism: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gep, "gep_score", lambda vector: 2.0 * sum(abs(v) for v in vector) / len(vector))
    code, out, err = verism("reproduce", "gep")
    assert code == 1
    assert " disagrees" in out
    assert "differ in a way that is not known: GEP_human neutral CogView2, from the printed vector; GEP_human" in err
    assert verism("reproduce", "gep", "--table", 13)[0] == 0, "another table is not to blame"


def test_the_help_lists_every_paper_with_a_line(verism: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = verism("reproduce", "--help")
    assert code == 0
    listed = dict(row.split(maxsplit=1) for row in out.partition("Commands:\n")[2].splitlines() if row.strip())
    assert set(published_figures()) == set(listed)
    assert "Social bias in DALL-Eval" in verism("reproduce", "dalleval", "--help")[1]


def test_an_unknown_paper_is_refused_with_a_near_name(verism: Callable[..., tuple[int, str, str]]) -> None:
    code, _, err = verism("reproduce", "dalevall")
    assert code == 2
    assert "Did you mean dalleval?" in err
