"""``verism metrics mad``: one prompt, files of prompts, targets, and wrong usage."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from verism.cli import main as command_line
from verism.cli.metrics import metrics
from verism.terminal import Group


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """The command with these arguments: exit code, standard output, standard error."""

    @click.group(cls=Group)
    def cli() -> None:
        """Only what is tested here."""

    cli.add_command(metrics)
    monkeypatch.setattr(command_line, "cli", cli)

    def run(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        monkeypatch.setattr(sys, "argv", ["verism", "metrics", "mad", *arguments])
        code: Any = 0
        try:
            command_line.main()
        except SystemExit as stop:
            code = stop.code or 0
        return int(code), *capfd.readouterr()

    return run


def test_one_prompt_under_both_divisors(call):
    code, out, err = call("--counts", "7,2", "--json")
    assert code == 0, err
    result = json.loads(out)
    # |7/9 - 1/2| = 5/18 for both classes: over 2 it is 5/18, over 1 it is 5/9.
    assert result["mad"]["K"]["value"] == pytest.approx(5 / 18)
    assert result["mad"]["K-1"]["value"] == pytest.approx(5 / 9)
    assert result["std"] == pytest.approx(5 / 18)
    assert result["mad"]["K"]["expected"] == pytest.approx(0.13672, abs=1e-5)
    assert result["mad"]["K"]["interval"]["low"] == 0
    assert result["mad"]["K"]["interval"]["high"] > 0.4
    assert result["n_used"] == 9


def test_debiased_of_one_prompt_is_that_of_a_run(call):
    code, out, _ = call("--counts", "7,2", "--json")
    assert code == 0
    # The likelihood ratio statistic of 7 and 2 against 4.5 each, of which one degree of freedom is chance.
    statistic = 2 * (7 * math.log(7 / 4.5) + 2 * math.log(2 / 4.5))
    debiased = json.loads(out)["mad"]["K"]["debiased"]
    assert debiased["value"] == pytest.approx(
        5 / 18 * (1 - 1 / statistic)
    )  # 0.183, as a run of these nine images has it
    assert (debiased["interval"]["low"], debiased["interval"]["high"]) == (0, pytest.approx(0.472, abs=1e-3))
    assert "debiased" in call("--counts", "7,2")[1]


def test_published_counts_as_text(call):
    code, out, _ = call("--counts", "20,14,85,26")
    assert code == 0
    assert "0.1681" in out
    assert "0.2241" in out
    assert "0.1963" in out
    assert "145 images" in out


def test_file_of_prompts_with_a_target(call, tmp_path: Path):
    path = tmp_path / "c.csv"
    path.write_text("prompt,man,woman\ncook,3,7\nnurse,3,7\npilot,0,0\n", encoding="utf-8")
    code, out, err = call("--counts-file", str(path), "--target", "0.3,0.7", "--json")
    assert code == 0, err
    result = json.loads(out)
    assert result["classes"] == ["man", "woman"]
    assert result["target"] == [0.3, 0.7]
    assert (result["n_prompts"], result["n_prompts_empty"], result["n_used"]) == (2, 1, 20)
    assert result["mad"]["K"]["value"] == pytest.approx(0)
    assert result["mad"]["K"]["debiased"]["value"] == 0
    assert result["p_unbiased"] == 1.0
    code, out, _ = call("--counts-file", str(path))
    assert code == 0
    assert "debiased" in out
    assert "pooled" in out
    assert "0.2000" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "give one of"),
        (["--counts", "7,x"], "numbers with commas"),
        (["--counts", "5"], "two or more classes"),
        (["--counts", "5,4", "--target", "0.5,0.6"], "sum to 1"),
        (["--counts-file", "nowhere.csv"], "no such file"),
    ],
)
def test_wrong_usage(call, arguments, says):
    code, out, err = call(*arguments)
    assert code != 0
    assert out == ""
    assert says in err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("7,2\n3,6\n", "name the classes"),
        ("a,b\n1\n", "2 cells"),
        ("a,b\n1,x\n", "counts"),
        ("a,b\n", "a row"),
        ("a,a\n1,2\n", "each class once"),
        ("prompt,a,b,Total\nx,1,2,3\ny,4,5,9\n", "the column 'Total' of"),
        ("prompt,a,b\np,1,2\nq,1,2\np,3,4\n", "row 4 of"),
    ],
)
def test_files_that_do_not_hold_together(call, tmp_path: Path, text, says):
    path = tmp_path / "c.csv"
    path.write_text(text, encoding="utf-8")
    code, out, err = call("--counts-file", str(path))
    assert code != 0
    assert out == ""
    assert says in err


def test_no_images_is_null_not_zero(call):
    code, out, _ = call("--counts", "0,0", "--json")
    assert code == 0
    assert json.loads(out)["mad"]["K"]["value"] is None


def test_counts_file_prompt_with_unicode_line_separator_stays_one_row(call, tmp_path: Path):
    path = tmp_path / "c.csv"
    path.write_bytes('prompt,man,woman\r\na\u2028cook,3,7\r\n"a\x85nurse\nat work",5,5\r\n'.encode())
    code, out, err = call("--counts-file", str(path), "--json")
    assert code == 0, err
    assert json.loads(out)["n_prompts"] == 2


def test_more_classes_than_can_be_worked_out_are_refused(call):
    code, _, said = call("--counts", ",".join(["1"] * 1001))
    assert code == 2
    assert "1,001 classes" in said
