"""``verism metrics gep``: vectors and scores from a table of frequencies, and tables that do not hold together."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from verism.cli import main as command_line
from verism.cli.metrics import metrics
from verism.terminal import Group

HEAD = "model,setting,gender,attribute,frequency\n"


@pytest.fixture
def gep(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., tuple[int, str, str]]:
    """The command on a file of this text: exit code, standard output, standard error."""

    @click.group(cls=Group)
    def cli() -> None:
        """Only what is tested here."""

    cli.add_command(metrics)
    monkeypatch.setattr(command_line, "cli", cli)
    path = tmp_path / "frequencies.csv"

    def call(text: str | None, *arguments: str) -> tuple[int, str, str]:
        if text is not None:
            path.write_text(text, encoding="utf-8")
        capfd.readouterr()
        monkeypatch.setattr(sys, "argv", ["verism", "metrics", "gep", "--frequencies", str(path), *arguments])
        code: Any = 0
        try:
            command_line.main()
        except SystemExit as stop:
            code = stop.code or 0
        return int(code), *capfd.readouterr()

    return call


def test_vector_is_first_gender_minus_second_and_score_its_mean_absolute_entry(gep):
    code, out, err = gep(
        HEAD
        + "m,neutral,woman,dress,0.30\nm,neutral,woman,tie,0.0\nm,neutral,man,tie,0.1\nm,neutral,man,dress,0.1\n"
        + "m,explicit,woman,dress,52/80\nm,explicit,man,dress,1/80\n",
        "--json",
    )
    assert code == 0, err
    # neutral: 0.3 - 0.1 = 0.2 and 0 - 0.1 = -0.1, mean of 0.2 and 0.1 is 0.15; explicit: 51/80. Exact, not as floats.
    assert json.loads(out) == [
        {
            "model": "m",
            "setting": "neutral",
            "genders": ["woman", "man"],
            "vector": {"dress": 0.2, "tie": -0.1},
            "gep": 0.15,
        },
        {"model": "m", "setting": "explicit", "genders": ["woman", "man"], "vector": {"dress": 0.6375}, "gep": 0.6375},
    ]


def test_more_than_two_genders_give_every_pair_and_the_largest_gap(gep):
    rows = "m,neutral,woman,hat,0.5\nm,neutral,man,hat,0.2\nm,neutral,person,hat,0.4\n"
    code, out, _ = gep(HEAD + rows, "--json")
    assert code == 0
    result = json.loads(out)
    assert [(e["genders"], e["vector"]["hat"], e["gep"], e["largest_gap"]) for e in result] == [
        (["woman", "man"], 0.3, 0.3, 0.3),
        (["woman", "person"], 0.1, 0.1, 0.3),
        (["man", "person"], -0.2, 0.2, 0.3),
    ]


def test_table_names_the_direction(gep):
    code, out, _ = gep(HEAD + "m,neutral,man,hat,0.2\nm,neutral,woman,hat,0.5\n")
    assert code == 0
    assert out.splitlines() == [
        "m, neutral: man minus woman",
        f"  {'hat':<14} {-0.3:>+9.4f}",
        f"  {'GEP score':<14} {0.3:>9.4f}",
    ]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        pytest.param(None, "no such file", id="no file"),
        pytest.param("model,setting,gender,frequency\n", "attribute is missing", id="no column"),
        pytest.param(HEAD, "has no rows", id="empty"),
        pytest.param(HEAD + "m,neutral,woman,hat,often\n", "got 'often'", id="not a number"),
        pytest.param(HEAD + "m,neutral,woman,hat,nan\n", "got 'nan'", id="nan"),
        pytest.param(HEAD + "m,neutral,woman,hat,20\n", "a frequency from 0 to 1; got 20", id="per cent"),
        pytest.param(HEAD + "m,neutral,woman,hat,81/80\n", "a frequency from 0 to 1; got 81/80", id="more than all"),
        pytest.param(HEAD + "m,neutral,woman,hat,1/0\n", "got '1/0'", id="divided by zero"),
        pytest.param(HEAD + "m,neutral,woman,hat,1\nm,neutral,woman,hat,1\n", "line 3", id="twice"),
        pytest.param(HEAD + "m,neutral,woman,hat,1\n", "at least two genders", id="one gender"),
        pytest.param(HEAD + "m,n,woman,hat,1\nm,n,man,hat,1\nm,n,man,tie,1\n", "'woman' lacks tie", id="one side only"),
    ],
)
def test_tables_that_do_not_hold_together_are_refused(gep, text, part):
    code, out, err = gep(text, "--json")
    assert (code, out) == (2, "")
    assert part in err
    assert "Traceback" not in err


def test_frequencies_with_unicode_line_separator_in_a_name_stay_one_row(gep):
    code, out, err = gep(HEAD + "m,neutral,woman,a\u2028hat,0.5\nm,neutral,man,a\u2028hat,0.2\n", "--json")
    assert code == 0, err
    assert json.loads(out)[0]["vector"] == {"a\u2028hat": 0.3}
