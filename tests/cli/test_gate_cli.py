"""``verism gate`` end to end: two runs of a plan, exit codes, JUnit, planning, and the snippets of its page."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from click.testing import CliRunner

from verism.cli.main import cli
from verism.store import Run

PAGE = Path(__file__).parents[2] / "docs" / "gate.md"

PLAN = """
models: {good: "scripted:error=0", bad: "scripted:error=0.6"}
suites:
  paintskills: {limit: 36, size: 64, seed: 7, detector: truth}
"""


@pytest.fixture(scope="module")
def plan(tmp_path_factory) -> Path:
    """The output of a plan: two models that render, one with errors."""
    root = tmp_path_factory.mktemp("gate")
    (root / "plan.yaml").write_text(PLAN, encoding="utf-8")
    done = CliRunner().invoke(cli, ["plan", "run", str(root / "plan.yaml"), "--out", str(root / "P")])
    assert done.exit_code == 0, done.output
    return root / "P"


def runs(plan: Path) -> tuple[Path, Path]:
    return plan / "runs" / "good-paintskills", plan / "runs" / "bad-paintskills"


def test_a_worse_run_fails_and_says_why(in_process, plan, tmp_path):
    good, bad = runs(plan)
    code, out, _ = in_process("gate", good, bad, "--max-drop", 2, "--junit", tmp_path / "out" / "gate.xml")
    assert code == 1
    assert out.startswith("FAIL: ")
    assert re.search(r"mean accuracy +all +100\.0 .* DROP TOO LARGE", out)
    assert f"NEW  = {bad}" in out
    assert len(out.splitlines()) < 24  # one screen
    root = ElementTree.parse(tmp_path / "out" / "gate.xml").getroot()
    assert int(root.get("failures")) == out.count("DROP TOO LARGE") > 0
    assert (root.get("errors"), root.get("tests")) == ("0", "4")


def test_the_better_run_passes_and_json_says_the_same(in_process, plan):
    good, bad = runs(plan)
    code, out, _ = in_process("gate", bad, good, "--max-drop", 2, "--json")
    record = json.loads(out)
    assert (code, record["passed"], record["alpha"]) == (0, True, 0.05)
    assert {row["metric"] for row in record["rows"]} == {"mean_accuracy", "accuracy"}
    assert all(row["drop"] < 0 for row in record["rows"])
    failing = in_process("gate", good, bad, "--max-drop", 2, "--json")
    assert failing[0] == 1
    assert json.loads(failing[1])["passed"] is False
    assert in_process("gate", good, bad, "--max-drop", 2, "--json") == failing  # the same bytes again


def test_metric_by_and_alpha(in_process, plan):
    good, bad = runs(plan)
    asked = ("gate", good, bad, "--max-drop", 2, "--metric", "accuracy", "--by", "skill", "--json")
    record = json.loads(in_process(*asked)[1])
    assert {row["group"]["skill"] for row in record["rows"]} == {"object", "count", "spatial"}
    strict = json.loads(in_process(*asked, "--alpha", "0.001")[1])
    assert [r["p_value"] for r in strict["rows"]] == [r["p_value"] for r in record["rows"]]
    assert all(a["low"] < b["low"] for a, b in zip(strict["rows"], record["rows"], strict=True))


def test_a_single_metric_with_a_wide_limit_is_shown(in_process, plan):
    good, bad = runs(plan)
    limits = ("--max-drop", "mean_accuracy=95", "--metric", "mean_accuracy", "--require", "shown")
    code, out, _ = in_process("gate", good, bad, *limits)
    assert (code, out.splitlines()[0]) == (0, "PASS: 1 within limit")


def test_images_that_are_missing_in_one_run_are_counted(in_process, plan, tmp_path):
    good, bad = runs(plan)
    shutil.copytree(bad, tmp_path / "bad")
    run = Run.open(tmp_path / "bad")
    verdicts = run.verdicts()
    ids = verdicts["image_id"].unique(maintain_order=True).to_list()[:5]
    import polars as pl

    gone = pl.col("image_id").is_in(ids)
    verdicts = verdicts.with_columns(value=pl.when(gone).then(None).otherwise(pl.col("value")))
    right = verdicts.filter((pl.col("protocol") == "revised") & (pl.col("rule") == "accuracy"))
    by_skill = right.group_by(pl.col("prompt_id").str.extract("^([a-z]+)")).agg(pl.col("value").mean())
    run.write_verdicts(verdicts)
    run.write_scores([replace(s, value=by_skill["value"].mean()) for s in run.scores() if s.metric == "mean_accuracy"])
    _, out, _ = in_process("gate", good, tmp_path / "bad", "--max-drop", 2)
    assert re.search(
        r"\n5 of 36 images are not paired and not tested \(mean_accuracy\): no usable answer in NEW for 5", out
    )


def test_runs_that_are_not_comparable_are_refused_and_junit_says_so(in_process, plan, tmp_path):
    good, _ = runs(plan)
    other = tmp_path / "other"
    options = ["--limit", "12", "--size", "64", "--seed", "8", "--detector", "truth", "--out", str(other)]
    done = CliRunner().invoke(cli, ["run", "paintskills", "--model", "scripted:error=0", *options])
    assert done.exit_code == 0, done.output
    code, out, err = in_process("gate", good, other, "--max-drop", 2, "--junit", tmp_path / "gate.xml")
    assert (code, out) == (2, "")
    assert "not comparable" in err or "no prompt in common" in err
    root = ElementTree.parse(tmp_path / "gate.xml").getroot()
    assert (root.get("tests"), root.get("errors")) == ("1", "1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["A", "B"], "--max-drop is missing"),
        (["A", "--max-drop", "2"], "name two runs, BASE and NEW"),
        (["A", "B", "--max-drop", "much"], "expected a number, or METRIC=NUMBER"),
        (["A", "B", "--max-drop", "=2"], "no metric"),
        (["A", "B", "--max-drop", "2", "--max-drop", "3"], "given twice"),
        (["A", "B", "--max-drop", "2"], "A is not a run directory"),
        (["A", "B", "--max-drop", "2", "--drop", "3"], "--drop is for --plan"),
        (["--plan", "--drop", "2"], "name a pilot run"),
        (["--plan", "--share", "0.5"], "--drop is missing"),
        (["--plan", "--drop", "2", "--share", "0.5", "--junit", "x.xml"], "--junit is for a gate"),
    ],
)
def test_wrong_usage_is_code_2(in_process, arguments, message):
    code, out, err = in_process("gate", *arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_planning_from_numbers_and_from_runs(in_process, plan):
    code, out, _ = in_process("gate", "--plan", "--drop", 2, "--discordance", "0.1")
    assert code == 0
    assert re.search(r"\n +1  10\.0 %   0\.00 +1,643 +2,237\n", out)
    good, bad = runs(plan)
    code, out, _ = in_process("gate", good, bad, "--plan", "--drop", 20, "--max-drop", 2, "--power", 0.8, "--json")
    records = json.loads(out)
    assert code == 0
    assert {r["basis"] for r in records} == {"pair"}
    assert all(r["prompts"]["80"] > 10 for r in records if r["discordance"])


def test_help_has_examples_and_exit_codes():
    text = CliRunner().invoke(cli, ["gate", "--help"]).output
    assert "verism gate runs/main runs/branch --max-drop 2" in text
    assert "Exit code 0: pass; 1: a drop is too large; 2:" in text


# ------------------------------------------------------------------------------------------------------------- the page
def snippets(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def commands(value: object) -> list[str]:
    """Every text in a pipeline that calls verism."""
    if isinstance(value, str):
        return [line for line in value.splitlines() if line.startswith("verism ")]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [line for part in parts for line in commands(part)]


def test_snippets_for_ci_services_are_pipelines_that_gate():
    github, gitlab = (yaml.safe_load(text) for text in snippets("yaml"))
    (job,) = github["jobs"].values()
    assert {"runs-on", "steps"} <= set(job)
    upload = next(step for step in job["steps"] if "upload-artifact" in step.get("uses", ""))
    assert (upload["if"], upload["with"]["path"]) == ("always()", "gate.xml")
    piped = next(step for step in job["steps"] if " | tee" in step.get("run", ""))
    assert piped["shell"] == "bash"  # GitHub then sets pipefail, without which the exit code of the gate is lost
    (job,) = gitlab.values()
    assert (job["artifacts"]["when"], job["artifacts"]["reports"]) == ("always", {"junit": "gate.xml"})
    for pipeline in (github, gitlab):
        gates = [line for line in commands(pipeline) if line.startswith("verism gate")]
        assert len(gates) == 1
        assert "--junit gate.xml" in gates[0]


def test_the_page_shows_the_plan_that_is_printed_today(in_process):
    shown = next(text for text in snippets("text") if text.startswith("$ verism gate --plan"))
    command, _, table = shown.partition("\n")
    _, out, _ = in_process(*command.removeprefix("$ verism ").split())
    assert out.startswith(table.rstrip("\n"))
