"""The standing benchmark of coverage: it runs, leaves no interval out, and its table in the documents is of today."""

from __future__ import annotations

import ast
import csv
import importlib
import inspect
import math
import pkgutil
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

import numpy as np
import pytest
from benchmark_modules import benchmark

import verism.metrics
import verism.statistics

ROOT = Path(__file__).resolve().parents[2]
# Intervals of these are made by functions that the benchmark has, of the same data.
BY_ANOTHER = {
    "grouped_half_samples": "half_samples of every group",
    "context_scores": "has no interval",
    "dsg_score": "has no interval",
    "proportion_of_totals": "clustered_proportion, of which it is the same from totals by cluster",
}


@pytest.fixture(scope="module")
def coverage():
    with benchmark("coverage") as module:
        yield module


def modules(package: ModuleType) -> list[ModuleType]:
    found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    return [package, *(importlib.import_module(each.name) for each in found)]


def has_interval(result: Any) -> bool:
    """Whether a type has two ends, or a field of a type that has."""
    fields = getattr(result, "__annotations__", {})
    return {"low", "high"} <= set(fields) or "Interval" in str(list(fields.values()))


def test_every_public_function_with_an_interval_is_measured(coverage):
    used = {node.id for node in ast.walk(ast.parse(inspect.getsource(coverage))) if isinstance(node, ast.Name)}
    missing = set()
    for package in (verism.statistics, verism.metrics):
        for module in modules(package):
            for name in getattr(module, "__all__", ()):
                function = getattr(module, name)
                if inspect.isfunction(function) and has_interval(get_type_hints(function).get("return")):
                    missing |= {name} - used - set(BY_ANOTHER)
    assert not missing, "benchmarks/coverage.py has no design for these"


def test_a_design_counts_what_holds(coverage):
    # Intervals from -1 to 1, 0 to 2, ..., 9 to 11 around 0: the first two hold 0, eight lie above.
    ends = iter([(-1.0 + n, 1.0 + n) for n in range(10)] + [(math.nan, math.nan)] * 2 + [(-2.0, -1.0)])
    design = coverage.Design("x", "f", "w", lambda _: {"": next(ends)}, lambda: {"": 0.0})
    (row,) = coverage.measured(design, 13, seed=0)
    assert (row.runs, row.undefined, row.held, row.above) == (11, 2, 2, 8)
    assert row.width == pytest.approx((10 * 2 + 1) / 11)
    assert row.cells()[3:5] == ("18.2 [5.1, 47.7]", "72.7 / 9.1")
    assert row.cells()[6] == "11 (2 without)"


def test_an_expected_value_is_the_mean_of_further_draws(coverage):
    design = coverage.Design(
        "x", "f", "w", lambda _: {"": (0.4, 0.6)}, values=lambda rng: {"": float(rng.random())}, part=0.5
    )
    (row,) = coverage.measured(design, 400, seed=0)
    assert (row.runs, row.held) == (200, 200)  # of 1,000 uniform numbers the mean lies between with certainty


def test_runs_of_a_seed_are_the_same_and_those_of_another_are_not(coverage):
    design = next(d for d in coverage.designs(["clustered_proportion"]) if "three kinds" in d.world)
    first, again, other = (coverage.measured(design, 20, seed) for seed in (0, 0, 1))
    assert first == again != other


# One design of every function; those of one function differ in numbers only.
def test_every_interval_is_made_and_has_a_width(coverage, capsys):
    seen: dict[str, Any] = {}
    for design in coverage.designs():
        seen.setdefault(design.function, design)
    for design in seen.values():
        for name, (low, high) in design.draw(np.random.default_rng(3)).items():
            assert low < high, f"{design.function} gives no interval of {name or design.name}"
    with pytest.raises(SystemExit, match="no interval has to do with nonsense"):
        coverage.main(["--only", "nonsense"])
    coverage.main(["--quick", "--only", "joint_shares"])
    assert "share of an intersection | joint_shares | 60 prompts of 6" in capsys.readouterr().out


def test_the_file_of_the_documents_has_every_design_and_the_page_its_summary(coverage):
    text = coverage.PAGE.read_text(encoding="utf-8")
    block = text[text.index(coverage.START) : text.index(coverage.END)]
    assert "python benchmarks/coverage.py --write" in block
    with coverage.PAGE.with_suffix(".csv").open(encoding="utf-8", newline="") as stream:
        records = list(csv.DictReader(stream))
    # A row or more for each design; a changed design needs a new run of the command.
    rows = dict.fromkeys((record["function"], record["world"]) for record in records)
    assert list(rows) == [(d.function, d.world) for d in coverage.designs()]
    assert block.endswith(f"{coverage.summary(records)}\n")
    assert f"[all {len(records)} rows](coverage.csv)" in block


def test_write_makes_the_file_and_replaces_the_summary_alone(coverage, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{coverage.START}\nold\n{coverage.END}\nafter\n", encoding="utf-8")
    rows = [coverage.Row("n", "f", world, 10, 2, held, 1, 0.25) for world, held in (("easy", 9), ("hard", 5), ("x", 7))]
    coverage.write(rows, "command", page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| `f` | n | 3 | 50.0 [23.7, 76.3] to 90.0 | hard |" in text
    lines = (tmp_path / "page.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "number,function,world,coverage,low,high,above,below,width,runs,undefined"
    assert lines[1] == "n,f,easy,90.0,59.6,98.2,10.0,0.0,0.25,10,2"
    assert len(lines) == 4


def test_worlds_have_the_answer_they_say(coverage):
    rng = np.random.default_rng(2)
    right = coverage.repeats(rng, 20_000, 5, 0.9, 0.6)
    assert right.mean() == pytest.approx(0.9, abs=5 * 0.3 * math.sqrt(4 / 100_000))  # images count a quarter, at least
    assert np.corrcoef(right[:, 0], right[:, 1])[0, 1] == pytest.approx(0.6, abs=0.04)
    values, _ = coverage.kinds(rng, np.full(20_000, 4))
    assert values.mean() == pytest.approx(coverage.KINDS_MEAN, abs=5 * 0.32 / math.sqrt(20_000))
    assert coverage.scores_of_prompts(rng, 40_000, 2).mean() == pytest.approx(0.25, abs=0.001)
