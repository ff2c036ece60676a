"""The benchmark of the gate: it runs, counts, and its worlds drop by what they say."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from benchmark_modules import benchmark

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def benchmark_of_gates() -> Iterator[ModuleType]:
    with benchmark("gate") as module:
        yield module


def test_every_world_drops_by_what_is_allowed(benchmark_of_gates):
    rng = np.random.default_rng(0)
    for design in benchmark_of_gates.boundaries():
        totals = []
        for _ in range(400):
            base, new, _prompts = design.draw(rng)[0]
            totals.append((float(np.sum(base - new)), len(base)))
        sums, sizes = np.array(totals).T
        drop = sums.sum() / sizes.sum()
        error = np.std(sums - drop * sizes) / sizes.mean() / np.sqrt(len(sums))
        assert abs(drop - design.margin) < 4.5 * error + 1e-12, design.world


def test_every_planned_pair_drops_and_differs_as_planned(benchmark_of_gates):
    rng = np.random.default_rng(1)
    for plan in benchmark_of_gates.plans():
        base, new, _ = benchmark_of_gates.planned_pair(rng, plan, 20_000)
        spread = plan.discordance if not plan.binary else np.sqrt(plan.discordance)
        images = 20_000 * plan.images / (1 + (plan.images - 1) * plan.correlation)
        assert np.mean(base - new) == pytest.approx(plan.drop, abs=4.5 * spread / np.sqrt(images))
        if plan.binary:
            assert np.mean(base != new) == pytest.approx(plan.discordance, abs=4.5 * spread / np.sqrt(images))


def test_it_runs_and_writes_between_the_marks(benchmark_of_gates, tmp_path, capsys):
    benchmark_of_gates.main(["--runs", "3", "--only", "10 prompts, share"])
    out = capsys.readouterr().out
    assert "10 prompts, share 0.7, 0.22 differ | 2 points |" in out
    page = tmp_path / "page.md"
    page.write_text(f"before\n{benchmark_of_gates.START}\nold\n{benchmark_of_gates.END}\nafter\n", encoding="utf-8")
    alarms = [
        ["10 prompts, easy", "2 points", "0.4 [0.2, 0.7]", "2.6 [2.0, 3.4]", "9"],
        ["20 prompts, hard", "2 points", "5.2 [4.3, 6.3]", "2.3 [1.7, 3.1]", "9"],
        ["numbers, 8 prompts of 4", "0.3", "2.0 [1.0, 3.0]", "0.0 [0.0, 0.2]", "9"],
    ]
    benchmark_of_gates.write(alarms, "| misses |", "the command", page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{benchmark_of_gates.START}\nMade by `the command`; [all 3 designs](page.csv).\n")
    assert text.endswith(f"\n\n| misses |\n{benchmark_of_gates.END}\nafter\n")
    line = "| verdicts, one image per prompt | 2 | 0.4 to 5.2 [4.3, 6.3] | 2.3 to 2.6 [2.0, 3.4] | 20 prompts, hard |"
    assert line in text
    assert "| numbers, such as cosines | 1 | 2.0 [1.0, 3.0] | 0.0 [0.0, 0.2] | numbers, 8 prompts of 4 |" in text
    with (tmp_path / "page.csv").open(encoding="utf-8", newline="") as stream:
        assert list(csv.reader(stream)) == [list(benchmark_of_gates.ALARMS), *alarms]


def test_the_tables_of_the_page_have_every_design_and_hold_the_level(benchmark_of_gates):
    text = benchmark_of_gates.PAGE.read_text(encoding="utf-8")
    block = text[text.index(benchmark_of_gates.START) : text.index(benchmark_of_gates.END)]
    assert "python benchmarks/gate.py --write" in block
    rows = [line.strip("| ").split(" | ") for line in block.splitlines() if line.startswith("| ")]
    with benchmark_of_gates.PAGE.with_suffix(".csv").open(encoding="utf-8", newline="") as stream:
        _, *alarms = csv.reader(stream)
    worlds = [d.world + " (adverse)" * d.adverse for d in benchmark_of_gates.boundaries()]
    assert [row[0] for row in alarms] == worlds
    assert "\n".join(benchmark_of_gates.summary(alarms)) in block
    planned = [row for row in rows if len(row) == 8 and row[0] not in ("true drop", "---")]
    assert len(planned) == len(list(benchmark_of_gates.plans()))
    # Brackets are the interval of the share: no world but the adverse ones is above 5 % beyond luck.
    for row in alarms:
        low = float(row[2].partition("[")[2].partition(",")[0])
        assert low <= 5.0 or "(adverse)" in row[0], row
    for row in planned:
        low, high = (float(end) for end in row[6].partition("[")[2].rstrip("]").split(","))
        assert low - 3 <= float(row[5]) <= high + 3, row
