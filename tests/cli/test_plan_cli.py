"""``verism plan`` and ``verism board`` as a user calls them, with the example that comes with them."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from verism.plans.example import write_example

    folder = tmp_path_factory.mktemp("example")
    plan, files = write_example(folder / "plan.yaml")
    assert len(list((files / "images").glob("*.png"))) == 48
    assert (files / "real.csv").read_text().startswith("file_path,object,region\n")
    return plan


def test_init_replaces_nothing_unasked(in_process, example):
    code, _, err = in_process("plan", "init", example)
    assert code == 2
    assert "exists; name another file, or replace it with --force" in err


def test_example_is_checked_without_a_refusal(in_process, example, tmp_path):
    code, out, _ = in_process("plan", "check", example, "--out", tmp_path / "P", "--set", "n=6", "--json")
    checked = json.loads(out)

    assert (code, checked["refused"]) == (0, 0)
    suites = {pair["suite"] for pair in checked["pairs"]}
    assert suites == {"paintskills", "geography", "gender_presentation", "social_bias"}
    assert checked["images"] == sum(pair["images"] for pair in checked["pairs"])
    assert not (tmp_path / "P").exists()


def test_run_status_and_board_of_the_example(in_process, example, tmp_path):
    out_folder = tmp_path / "with space"
    common = (example, "--out", out_folder, "--set", "n=6")
    code, out, err = in_process("plan", "run", *common, "--only", "careful", "--only", "careless", "--json")
    assert code == 0, err
    assert [outcome["state"] for outcome in json.loads(out)] == ["done", "done"]
    assert "verism board '" in err

    code, out, _ = in_process("plan", "status", *common)
    assert code == 0
    assert "careful on paintskills" in out
    assert "2 done" in out
    assert "7 waiting" in out

    code, out, _ = in_process("board", out_folder, "--json")
    board = json.loads(out)
    assert code == 0
    assert board["title"] == "A first plan"
    cells = {row["name"]: row["cells"]["paintskills:mean_accuracy"] for row in board["rows"]}
    assert cells["careful"]["state"] == "ok"
    assert cells["even"]["state"] == "excluded"
    assert cells["builtin"] == cells["builtin"] | {"state": "missing", "note": "not run yet"}

    code, out, err = in_process("board", out_folder)
    assert code == 0
    assert (out_folder / "board.html").stat().st_size > 10_000


def test_second_run_asks_for_nothing(in_process, example, tmp_path):
    common = (example, "--out", tmp_path / "P", "--set", "n=3", "--only", "careful")
    in_process("plan", "run", *common)
    code, out, _ = in_process("plan", "run", *common, "--json")

    assert code == 0
    assert [outcome["state"] for outcome in json.loads(out)] == ["kept"]


def test_plan_with_an_unknown_key_is_refused_with_its_line(in_process, tmp_path):
    file = tmp_path / "plan.yaml"
    file.write_text("models: [builtin]\nsuites:\n  paintskills:\n    limti: 3\n")
    for command in (("check", file), ("run", file, "--out", tmp_path / "P"), ("status", file, "--out", tmp_path / "P")):
        code, out, err = in_process("plan", *command)
        assert (code, out) == (2, "")
        assert f"{file}, line 4: suite paintskills has no option 'limti'. Did you mean limit" in err
    assert not (tmp_path / "P").exists()


def test_failed_pair_gives_exit_code_1_and_its_reason(in_process, tmp_path):
    file = tmp_path / "plan.yaml"
    file.write_text("models: {odd: nonsense:x}\nsuites: {paintskills: {limit: 3}}\n")
    code, _, err = in_process("plan", "run", file, "--out", tmp_path / "P")

    assert code == 1
    assert "failed: odd on paintskills: unknown model 'nonsense'" in err


def test_variables_are_written_name_and_value(in_process, example):
    code, _, err = in_process("plan", "check", example, "--set", "n")
    assert code == 2
    assert "--set n: expected NAME=VALUE" in err


def test_schema_takes_the_example_and_refuses_what_plans_refuse(in_process, example):
    code, out, _ = in_process("plan", "schema")
    schema = json.loads(out)
    plan = yaml.safe_load(example.read_text())

    assert code == 0
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    assert list(validator.iter_errors(plan)) == []
    assert list(validator.iter_errors(plan | {"modles": {}}))
    plan["suites"]["paintskills"]["limti"] = 3
    assert list(validator.iter_errors(plan))


def test_only_one_format_of_a_board_at_once(in_process, tmp_path):
    code, _, err = in_process("board", tmp_path, "--json", "--csv")
    assert code == 2
    assert "give one of --json, --csv, --markdown and --latex" in err
